//! Effects of variables that no script sees: those of the start, of files, of connections and of replicas.
//!
//! A comment `effect: NAME` stands above what sees the effect of a variable, here and wherever else a test sees one;
//! the walk over all variables (`architecture::effects`) wants one for each variable that works. Neighbours: scripts
//! in `tests/sql/settings` see what a session can see, `replica::settings` what replicas do, `at_start` the rest of the
//! start.

mod accounts;
mod connections;
mod engine;
mod files;
mod old_names;

use esker_server::client::{Client, ClientError};

use crate::common::{Ask, Server};

fn start(args: &[&str]) -> (Server, tempfile::TempDir) {
    let dir = tempfile::tempdir().expect("folder");
    (Server::start(dir.path(), args), dir)
}

/// A figure of SHOW GLOBAL STATUS.
fn figure(c: &mut Client, name: &str) -> u64 {
    let line = c.value(&format!("SHOW GLOBAL STATUS LIKE '{name}'"));
    let number = line.rsplit('|').next().and_then(|text| text.parse().ok());
    number.expect("a number")
}

/// Logs in without a password; the number of the error where that fails.
fn login(server: &Server, user: &str) -> Result<Client, u16> {
    Client::connect("127.0.0.1", server.port, user, "", None).map_err(|e| match e {
        ClientError::Server(e) => e.code,
        e => panic!("{e}"),
    })
}
