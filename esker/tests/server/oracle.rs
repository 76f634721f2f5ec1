//! Random statements over random tables beside MariaDB: the short form of `bench/oracle`.
//!
//! Neighbours: `bench/oracle` makes the statements, compares the answers, and knows where MariaDB is known to differ.
//! `.ci/run` installs `mariadb-server-core`; without it the test says so and passes.

use std::path::Path;
use std::process::Command;

use crate::common::{has_client, output};

/// Seeds of the short form: always the same, so that a failure is the change's and not the day's.
const SEEDS: &str = "1-2";

#[test]
fn random_statements_answer_as_mariadb_does() {
    let mut install = Command::new("sh");
    install.args(["-c", "command -v mariadbd && command -v mariadb-install-db"]);
    let mut python = Command::new("python3");
    if !has_client("MariaDB's server", &mut install) || !has_client("Python", python.arg("-V")) {
        return;
    }
    let tool = Path::new(env!("CARGO_MANIFEST_DIR")).join("../bench/oracle");
    let mut run = Command::new("python3");
    run.arg(tool)
        .args(["--seeds", SEEDS, "--statements", "40", "--binary"])
        .arg(env!("CARGO_BIN_EXE_esker"));
    let said = output(&mut run);
    assert!(said.contains(" 0 unexplained"), "{said}");
}
