//! Drivers of other languages, each with a script of its own under `tests/clients`: mysql2 for Node and
//! Connector/J.
//!
//! `.ci/run` installs them and says where: `ESKER_TEST_NODE_MODULES` is the folder of mysql2,
//! `ESKER_TEST_CONNECTOR_J` the driver's jar. A test whose driver is missing says so and passes.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common::{Ask, Server, has_client, output};

/// Accounts that may do everything, one for each authentication plugin, as the scripts want them.
const ACCOUNTS: [&str; 2] = ["new:n3w", "old:0ld"];

fn server_with_accounts() -> (Server, tempfile::TempDir) {
    let dir = tempfile::tempdir().expect("folder");
    let server = Server::start(dir.path(), &[]);
    server.connect().run(
        "CREATE USER new@localhost IDENTIFIED BY 'n3w'; \
         CREATE USER old@localhost IDENTIFIED WITH mysql_native_password BY '0ld'; \
         GRANT ALL ON *.* TO new@localhost; GRANT ALL ON *.* TO old@localhost",
    );
    (server, dir)
}

fn script(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/clients")
        .join(name)
}

/// Runs a script with the port and the accounts.
fn check(mut command: Command, name: &str) {
    let (server, _dir) = server_with_accounts();
    command.arg(script(name)).arg(server.port.to_string());
    assert_eq!(output(command.args(ACCOUNTS)), "fine\n");
}

#[test]
fn mysql2() {
    let modules = std::env::var("ESKER_TEST_NODE_MODULES").unwrap_or_default();
    let node = || {
        let mut node = Command::new("node");
        node.env("NODE_PATH", &modules);
        node
    };
    let probe = ["-e", "require('mysql2/promise')"];
    if has_client("mysql2 for Node", node().args(probe)) {
        check(node(), "mysql2/check.js");
    }
}

#[test]
fn connector_j() {
    let jar = std::env::var("ESKER_TEST_CONNECTOR_J").unwrap_or_default();
    let mut probe = Command::new("java");
    probe.args(["--list-modules"]);
    if has_client("Connector/J", Command::new("test").args(["-f", &jar]))
        && has_client("Java", &mut probe)
    {
        for name in ["connector-j/Check.java", "connector-j/Xa.java"] {
            let mut java = Command::new("java");
            java.args(["-cp", &jar]);
            check(java, name);
        }
    }
}
