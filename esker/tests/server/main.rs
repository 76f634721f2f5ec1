//! A real server process over real sockets: crashes, isolation, clients.

mod at_start;
mod clients;
mod common;
mod compression;
mod crash;
mod crash_mix;
mod damaged;
mod drivers;
mod faults;
mod fixtures;
mod histogram;
mod histories;
mod hostile;
mod inspect;
mod isolation;
mod load;
<<<<<<< HEAD
mod locking;
=======
mod matrix;
>>>>>>> 0a76cd7 (Compare every privilege with MySQL, statement by statement)
mod oracle;
mod privileges;
mod recovery;
mod rust_driver;
mod settings;
mod spill;
mod statements;
mod sysbench;
mod views;
mod xa;
mod xa_crash;
