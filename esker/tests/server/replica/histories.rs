//! Random histories on servers that follow each other, and kill -9 of both: the short forms of `tests/replication`.
//!
//! Neighbours: `tests/replication` makes histories, applies them in every mode, and compares; longer runs, and those
//! with MySQL, are by hand. **Invariant**: seeds are always the same, so that a failure is the change's and not the
//! day's.

use std::path::Path;
use std::process::Command;

use crate::common::{has_client, output};

fn tool(arguments: &[&str]) -> Option<String> {
    let mut python = Command::new("python3");
    if !has_client("Python", python.arg("-V")) {
        return None;
    }
    let dir = tempfile::tempdir().expect("folder");
    let mut run = Command::new("python3");
    run.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/replication"));
    run.args(arguments)
        .args(["--binary", env!("CARGO_BIN_EXE_esker"), "--folder"])
        .arg(dir.path());
    Some(output(&mut run))
}

#[test]
fn every_mode_ends_with_what_the_source_has() {
    let arguments = [
        "equal",
        "--seeds",
        "1",
        "--transactions",
        "40",
        "--workers",
        "4",
    ];
    if let Some(said) = tool(&arguments) {
        assert!(said.contains("6 replicas equal"), "{said}");
    }
}

#[test]
fn a_random_history_of_mariadb_is_applied() {
    let mut probe = Command::new("sh");
    probe.args(["-c", "command -v mariadbd && command -v mariadb-install-db"]);
    if !has_client("MariaDB's server", &mut probe) {
        return;
    }
    let arguments = [
        "equal",
        "--source",
        "mariadb",
        "--seeds",
        "2",
        "--transactions",
        "40",
        "--modes",
        "OPTIMISTIC",
        "--workers",
        "4",
    ];
    if let Some(said) = tool(&arguments) {
        assert!(said.contains("2 replicas equal"), "{said}");
    }
}

#[test]
fn a_replica_goes_on_from_a_dump_taken_under_load() {
    let mut probe = Command::new("mariadb-dump");
    if !has_client("mariadb-dump", probe.arg("-V")) {
        return;
    }
    if let Some(said) = tool(&["dump", "--rounds", "2"]) {
        assert!(said.contains("dump 2: equal"), "{said}");
    }
}

#[test]
fn sysbench_through_kills_and_a_replica_of_each_make_have_the_same_rows() {
    let mut probe = Command::new("sh");
    probe.args(["-c", "command -v mariadbd && command -v sysbench"]);
    if !has_client("MariaDB's server and sysbench", &mut probe) {
        return;
    }
    let arguments = ["load", "--loads", "sysbench", "--seconds", "8", "--every"];
    if let Some(said) = tool(&[&arguments[..], &["2"]].concat()) {
        assert!(said.contains("replica-esker is equal"), "{said}");
        assert!(said.contains("replica-mariadb is equal"), "{said}");
    }
}

#[test]
fn backups_are_restored_to_random_moments() {
    for options in ["", "--esker-binlog-commit=TWO-PHASE"] {
        let options = format!("--source-options={options}");
        if let Some(said) = tool(&["restore", "--rounds", "2", &options]) {
            assert!(said.contains("restore 2 to a "), "{said}");
        }
    }
}

#[test]
fn every_transaction_is_there_once_whoever_is_killed() {
    for options in ["", "--esker-binlog-commit=TWO-PHASE"] {
        let options = format!("--source-options={options}");
        if let Some(said) = tool(&["kill", "--rounds", "4", &options]) {
            assert!(said.contains("4 rounds"), "{said}");
        }
    }
}
