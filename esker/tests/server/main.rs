//! A real server process over real sockets: crashes, isolation, clients.

mod clients;
mod common;
mod crash;
mod fixtures;
mod isolation;
mod statements;
