//! Real programs of `tests/programs`: what each of them prints, and the schema and the rows that it leaves, equal
//! MySQL's, which are written down beside it.
//!
//! `.ci/run` installs their packages into the folder that `ESKER_TEST_PROGRAMS` names. A test without them says so and
//! passes.

use std::path::Path;
use std::process::Command;

use crate::common::{Server, has_client, output, python};

/// Runs a program; `kind` is the part of the installation that it needs.
fn check(name: &str, kind: &str) {
    let folder = std::env::var("ESKER_TEST_PROGRAMS").unwrap_or_default();
    let installed = Path::new(&folder).join(kind);
    let probe = format!("programs in {}", installed.display());
    if !has_client(&probe, Command::new("test").arg("-d").arg(&installed)) {
        return;
    }
    let Some(mut python) = python() else { return };
    let dir = tempfile::tempdir().expect("folder");
    let server = Server::start(dir.path(), &[]);
    let runner = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/programs/run.py");
    let got = output(
        python
            .arg(runner)
            .args(["check", &server.port.to_string(), name]),
    );
    assert_eq!(got, format!("{name}: equal\n"));
}

#[test]
fn django() {
    check("django", "python");
}

#[test]
fn sqlalchemy_and_alembic() {
    check("sqlalchemy", "python");
}

#[test]
fn typeorm() {
    check("typeorm", "node");
}

#[test]
fn sequelize() {
    check("sequelize", "node");
}

#[test]
fn knex() {
    check("knex", "node");
}

#[test]
fn drizzle() {
    check("drizzle", "node");
}

#[test]
fn mikroorm() {
    check("mikroorm", "node");
}

#[test]
fn hibernate() {
    check("hibernate", "java/hibernate");
}

#[test]
fn flyway() {
    check("flyway", "java/flyway");
}

#[test]
fn liquibase() {
    check("liquibase", "java/liquibase");
}

#[test]
fn gorm() {
    check("gorm", "go");
}

#[test]
fn wordpress() {
    check("wordpress", "wordpress");
}

#[test]
fn a_dump_that_is_restored_is_dumped_alike() {
    if has_client(
        "mariadb-dump",
        Command::new("mariadb-dump").arg("--version"),
    ) {
        check("dump", "python");
    }
}
