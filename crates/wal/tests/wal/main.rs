//! The log's tests, seen from outside: what it keeps, what it notices, what it survives.

mod common;
mod crash;
mod damage;
mod failure;
mod log;
mod log_buffers;
mod point_in_time;
mod policy;
mod reading;
mod tail;
mod threads;
