//! sysbench: every script of its OLTP family prepares, runs and cleans up.
//!
//! `.ci/run` installs it. Only deadlocks are ignored, as a user of MySQL has to.

use std::process::Command;

use crate::common::{Ask, Server, has_client, output};

const SCRIPTS: [&str; 11] = [
    "oltp_point_select",
    "oltp_read_only",
    "oltp_read_write",
    "oltp_write_only",
    "oltp_update_index",
    "oltp_update_non_index",
    "oltp_insert",
    "oltp_delete",
    "select_random_points",
    "select_random_ranges",
    "bulk_insert",
];

const THREADS: u32 = 16;

fn sysbench(server: &Server, script: &str, options: &[&str], command: &str) -> String {
    // bulk_insert makes a table for each thread.
    let threads = match (script, command) {
        ("bulk_insert", _) | (_, "run") => THREADS,
        _ => 2,
    };
    // These know one table only.
    let tables = if script.starts_with("select_random") {
        1
    } else {
        2
    };
    output(
        Command::new("sysbench")
            .args([
                script,
                "--db-driver=mysql",
                "--mysql-host=127.0.0.1",
                &format!("--mysql-port={}", server.port),
                "--mysql-user=root",
                "--mysql-db=sbtest",
                &format!("--tables={tables}"),
                "--table-size=2000",
                "--mysql-ignore-errors=1213",
                &format!("--threads={threads}"),
            ])
            .args(options)
            .arg(command),
    )
}

/// The number in a line of sysbench's summary.
fn summary(out: &str, name: &str) -> u64 {
    let line = out
        .lines()
        .find_map(|l| l.trim().strip_prefix(name))
        .unwrap_or_else(|| panic!("no '{name}' in {out}"));
    let number = line.split_whitespace().next().expect("number");
    number.parse().unwrap_or_else(|e| panic!("{line}: {e}"))
}

#[test]
fn all_scripts_prepare_run_and_clean_up() {
    if !has_client("sysbench", Command::new("sysbench").arg("--version")) {
        return;
    }
    let dir = tempfile::tempdir().expect("folder");
    let server = Server::start(dir.path(), &["--skip-ssl"]);
    server.connect().run("CREATE DATABASE sbtest");
    for script in SCRIPTS {
        // Prepared statements where it can, then text only.
        for ps_mode in ["auto", "disable"] {
            sysbench(&server, script, &[], "prepare");
            let ps_mode = format!("--db-ps-mode={ps_mode}");
            let out = sysbench(&server, script, &[&ps_mode, "--time=1"], "run");
            assert!(!out.contains("FATAL"), "{script} {ps_mode}: {out}");
            assert_eq!(summary(&out, "reconnects:"), 0, "{script} {ps_mode}: {out}");
            assert!(summary(&out, "queries:") > 0, "{script} {ps_mode}: {out}");
            sysbench(&server, script, &[], "cleanup");
        }
    }
    let mut c = server.connect();
    assert!(c.lines("SHOW TABLES FROM sbtest").is_empty());
}
