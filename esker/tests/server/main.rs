//! A real server process over real sockets: crashes, isolation, clients.

mod clients;
mod common;
mod crash;
mod drivers;
mod fixtures;
mod hostile;
mod isolation;
mod rust_driver;
mod settings;
mod statements;
mod sysbench;
