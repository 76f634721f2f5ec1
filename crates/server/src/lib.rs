//! The server: sockets, authentication, sessions, shutdown.
//!
//! Neighbours: `sql` runs the statements, `wire` knows the packets; the `esker` binary starts [`run`]. Reading order:
//! [`config`] (flags, environment, option file), [`listener`] (accept, limits, signals), `startup` (while the log is
//! read), [`connection`] (one client from greeting to goodbye), [`login`] (who is it), [`throttle`] (guests who do not
//! behave), [`refusals`] (the log of refused logins), [`dispatch`] (one command), `infile` (a client's file), [`reply`]
//! (outcomes to packets), [`stream`] and [`tls`].
//!
//! **Architecture invariant**: this is the only crate with sockets and an async runtime. A worker
//! thread of the runtime never blocks: statements that may run long or wait on a lock in place do
//! so on a thread of their own, commits are awaited as futures.

mod activity;
mod certificate;
pub mod client;
mod compressions;
pub mod config;
mod connection;
mod dispatch;
mod doors;
pub mod embedded;
mod infile;
pub mod listener;
mod login;
mod panics;
mod parameters;
mod refusals;
mod reply;
mod rsa;
mod seats;
mod silence;
mod startup;
mod stream;
mod throttle;
pub mod tls;
mod unseen;
mod watch;
mod worker;

pub use config::{Config, ConfigError};
pub use listener::{StartError, run, validate};
