//! The server: sockets, authentication, sessions, shutdown.
//!
//! Neighbours: `sql` runs the statements, `wire` knows the packets; the `esker` binary starts [`run`]. Reading order:
//! [`config`] (flags, environment, option file), `doors` (listening sockets), `socket` (TCP or Unix), [`listener`]
//! (accept, limits, signals), `host` (SHUTDOWN, log and TLS anew), `notify` (the service manager), `page` (the admin
//! page), `seats` (connection limits), `activity` (running commands), `startup` (while the log is read),
//! [`connection`] (one client from greeting to goodbye), [`login`] (authentication) with `rsa` and `certificate`,
//! `compressions` (negotiated compression), [`throttle`] (delays after failed logins), [`refusals`] (the log of
//! refused logins), [`dispatch`] (one command), `dump` (the binary log to a consumer), `replica` (the binary log of
//! a source), `parameters` (of prepared statements), `worker` (leaving a worker thread), `watch` (a client that has
//! gone), `silence` (idle timeouts), `infile` (a client's file), [`reply`] (outcomes to packets), `headers` (what
//! results begin with), [`stream`] and [`tls`], `tls_state` (what new connections get of it).
//! `unseen` runs the statements of `init_file` and `init_connect`, `embedded` is the database without a server,
//! `panics` logs them.
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
mod dump;
pub mod embedded;
mod headers;
mod host;
mod infile;
pub mod listener;
mod login;
mod notify;
mod page;
mod panics;
mod parameters;
mod refusals;
mod replica;
mod reply;
mod rsa;
mod seats;
mod silence;
mod socket;
mod startup;
mod stream;
mod throttle;
pub mod tls;
mod tls_state;
mod unseen;
mod watch;
mod worker;

pub use config::{Config, ConfigError};
pub use listener::{FormLog, Hooks, RecentLog, ReopenLogs, StartError, run, validate};
