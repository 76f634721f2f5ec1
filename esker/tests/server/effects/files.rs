//! Settings of the files that a server writes: logs of statements, of audits, and the binary log.

use std::time::{Duration, Instant};

use esker_server::client::Client;

use super::{figure, start};
use crate::common::{Ask, eventually};

#[test]
fn logs_are_the_files_that_are_named() {
    let (server, dir) = start(&[]);
    let mut c = server.connect();
    let has = |file: &str, text: &str| {
        let read = std::fs::read_to_string(dir.path().join("data").join(file));
        read.is_ok_and(|log| log.contains(text))
    };
    // effect: general_log_file
    c.run("SET GLOBAL general_log_file = 'all.log', GLOBAL general_log = ON");
    c.run("DO 'one'");
    assert!(has("all.log", "DO 'one'") && !has("general.log", "DO 'one'"));
    // effect: slow_query_log_file
    c.run("SET GLOBAL slow_query_log_file = 'late.log', GLOBAL slow_query_log = ON, SESSION long_query_time = 0");
    c.run("DO 'two'");
    assert!(has("late.log", "DO 'two'") && !has("slow.log", "DO 'two'"));
    // effect: esker_audit_log_file
    c.run("SET GLOBAL esker_audit_log_file = 'audited.log', GLOBAL esker_audit_log = ON");
    c.run("CREATE DATABASE three");
    eventually("it is written", || {
        has("audited.log", "CREATE DATABASE three")
    });
    assert!(!has("audit.log", "three"));
}

/// A server with a binary log and a table, with more settings.
fn logging(more: &[&str]) -> (crate::common::Server, tempfile::TempDir) {
    let (server, dir) = start(&[&["--log-bin=ON"][..], more].concat());
    let mut c = server.connect();
    c.run("CREATE DATABASE d; CREATE TABLE d.t (id INT PRIMARY KEY, v VARCHAR(300), j JSON)");
    (server, dir)
}

/// An event of the binary log.
struct Event {
    kind: String,
    server: String,
    size: u64,
}

/// The events of a statement: the last ones in the file that is written.
fn events(c: &mut Client, sql: &str) -> Vec<Event> {
    let place = c.rows("SHOW BINARY LOG STATUS").concat();
    let [file, from] = [0, 1].map(|at| place[at].clone().expect("a place"));
    c.run(sql);
    let rows = c.rows(&format!("SHOW BINLOG EVENTS IN '{file}' FROM {from}"));
    let text = |row: &[Option<String>], at: usize| row[at].clone().expect("a value");
    let number =
        |row: &[Option<String>], at: usize| text(row, at).parse::<u64>().expect("a number");
    let event = |row: &Vec<Option<String>>| Event {
        kind: text(row, 2),
        server: text(row, 3),
        size: number(row, 4) - number(row, 1),
    };
    rows.iter().map(event).collect()
}

/// Size of the first event of this kind.
fn size(events: &[Event], kind: &str) -> u64 {
    let found = events.iter().find(|event| event.kind == kind);
    found.unwrap_or_else(|| panic!("no {kind}")).size
}

fn count(events: &[Event], kind: &str) -> usize {
    events.iter().filter(|event| event.kind == kind).count()
}

#[test]
fn the_index_of_the_binary_log_has_its_name() {
    // effect: log_bin_index
    let (_server, dir) = logging(&["--log-bin-index=list"]);
    assert!(dir.path().join("data/list.index").exists());
}

#[test]
fn the_binary_log_is_there_if_it_is_to() {
    // effect: log_bin
    let (server, _dir) = start(&["--log-bin=OFF"]);
    assert_eq!(server.connect().code("SHOW BINLOG EVENTS"), Some(1381));
    let (server, _dir) = logging(&[]);
    let mut c = server.connect();
    let own = events(&mut c, "INSERT INTO d.t (id) VALUES (1)");
    assert_eq!(own[0].server, "1");
    // effect: server_id
    c.run("SET GLOBAL server_id = 77");
    assert_eq!(
        events(&mut c, "INSERT INTO d.t (id) VALUES (2)")[0].server,
        "77"
    );
}

#[test]
fn events_have_what_they_are_to_have() {
    let (server, _dir) = logging(&[]);
    let mut c = server.connect();
    let mut id = 0;
    let mut insert = || {
        id += 1;
        format!("INSERT INTO d.t VALUES ({id}, 'a', NULL)")
    };
    let plain = events(&mut c, &insert());
    // effect: binlog_checksum
    c.run("SET GLOBAL binlog_checksum = NONE");
    let bare = events(&mut c, &insert());
    assert_eq!(size(&bare, "Write_rows") + 4, size(&plain, "Write_rows"));
    c.run("SET GLOBAL binlog_checksum = CRC32");
    // effect: binlog_row_metadata
    c.run("SET GLOBAL binlog_row_metadata = FULL");
    assert!(size(&events(&mut c, &insert()), "Table_map") > size(&plain, "Table_map"));
    // effect: binlog_rows_query_log_events
    c.run("SET binlog_rows_query_log_events = ON");
    assert_eq!(count(&plain, "Rows_query"), 0);
    assert_eq!(count(&events(&mut c, &insert()), "Rows_query"), 1);
    // effect: binlog_transaction_compression
    c.run("SET binlog_transaction_compression = ON");
    assert_eq!(count(&plain, "Transaction_payload"), 0);
    assert_eq!(count(&events(&mut c, &insert()), "Transaction_payload"), 1);
    c.run("SET binlog_transaction_compression = OFF");
    // effect: binlog_row_value_options
    const CHANGE: &str = "UPDATE d.t SET j = JSON_SET(j, '$.a', 2) WHERE id = 1";
    c.run("UPDATE d.t SET j = JSON_OBJECT('a', 1, 'b', REPEAT('b', 100)) WHERE id = 1");
    c.run("SET binlog_row_value_options = PARTIAL_JSON");
    assert_eq!(count(&events(&mut c, CHANGE), "Update_rows_partial"), 1);
    // effect: binlog_row_image
    let whole = events(&mut c, "UPDATE d.t SET v = 'b' WHERE id = 1");
    c.run("SET binlog_row_value_options = '', binlog_row_image = MINIMAL");
    let minimal = events(&mut c, "UPDATE d.t SET v = 'c' WHERE id = 1");
    assert!(size(&minimal, "Update_rows") < size(&whole, "Update_rows_partial"));
    // effect: sql_log_bin
    c.run("SET sql_log_bin = 0");
    assert_eq!(events(&mut c, &insert()).len(), 0);
}

#[test]
fn large_changes_are_in_several_events() {
    const ROWS: &str = "INSERT INTO d.t (id, v) VALUES (1, REPEAT('x', 250)), (2, REPEAT('x', 250)), (3, REPEAT('x', 250))";
    let number = |more: &[&str]| {
        let (server, _dir) = logging(more);
        count(&events(&mut server.connect(), ROWS), "Write_rows")
    };
    assert_eq!(number(&[]), 1);
    // effect: binlog_row_event_max_size
    assert!(number(&["--binlog-row-event-max-size=256"]) > 1);
}

/// Files are removed whose last event is old, when the log is flushed.
#[test]
fn old_files_of_the_binary_log_are_removed() {
    let (server, _dir) = logging(&[]);
    let mut c = server.connect();
    let mut flushed = |setting: &str| {
        c.run(&format!("SET GLOBAL {setting}; FLUSH BINARY LOGS"));
        c.lines("SHOW BINARY LOGS")[0].starts_with("binlog.000001|")
    };
    assert!(flushed("binlog_expire_logs_auto_purge = OFF"));
    // effect: binlog_expire_logs_seconds, binlog_expire_logs_auto_purge
    assert!(flushed("binlog_expire_logs_seconds = 1"));
    std::thread::sleep(Duration::from_millis(2_500));
    assert!(flushed("binlog_expire_logs_seconds = 1"));
    assert!(!flushed("binlog_expire_logs_auto_purge = ON"));
}

/// In files that decide: who commits waits for their sync, and that for more transactions.
#[test]
fn commits_wait_for_syncs_as_is_set() {
    const COMMITS: u64 = 100;
    let (server, _dir) = logging(&["--esker-binlog-commit=TWO-PHASE"]);
    let mut c = server.connect();
    let mut syncs = |first: u64| {
        let before = figure(&mut c, "Esker_binlog_syncs");
        for id in first..first + COMMITS {
            c.run(&format!("INSERT INTO d.t (id) VALUES ({id})"));
        }
        figure(&mut c, "Esker_binlog_syncs") - before
    };
    assert!(syncs(0) >= COMMITS);
    // effect: sync_binlog
    server.connect().run("SET GLOBAL sync_binlog = 0");
    assert!(syncs(COMMITS) < COMMITS);
    // effect: binlog_group_commit_sync_delay
    c.run("SET GLOBAL sync_binlog = 1, GLOBAL binlog_group_commit_sync_delay = 700000");
    let begun = Instant::now();
    c.run("INSERT INTO d.t (id) VALUES (1000)");
    assert!(begun.elapsed() >= Duration::from_millis(700));
}

/// In files that follow the log no commit waits for their sync.
#[test]
fn what_only_files_that_decide_heed_is_warned_of() {
    let (server, dir) = logging(&["--sync-binlog=0"]);
    let text = "Variable 'sync_binlog' has no effect with esker_binlog_commit = ONE-SYNC";
    let log = std::fs::read_to_string(dir.path().join("log")).expect("log");
    assert_eq!(log.matches(text).count(), 1, "{log}");
    let mut c = server.connect();
    c.run("SET GLOBAL sync_binlog = 100");
    assert_eq!(c.lines("SHOW WARNINGS"), [format!("Warning|1235|{text}")]);
    c.run("SET GLOBAL sync_binlog = 1");
    assert!(c.lines("SHOW WARNINGS").is_empty());
    c.run("SET GLOBAL binlog_group_commit_sync_delay = 7");
    assert_eq!(c.lines("SHOW WARNINGS").len(), 1);
}

/// What those who apply the transactions of others say of them is in the event that begins one.
#[test]
fn transactions_carry_what_is_said_of_them() {
    let (server, dir) = logging(&["--gtid-mode=ON"]);
    let mut c = server.connect();
    let plain = size(&events(&mut c, "INSERT INTO d.t (id) VALUES (1)"), "Gtid");
    // effect: original_commit_timestamp
    c.run("SET original_commit_timestamp = 1000000000000000");
    let dated = size(&events(&mut c, "INSERT INTO d.t (id) VALUES (2)"), "Gtid");
    assert!(dated > plain);
    // effect: original_server_version
    let is_written = || {
        let file = std::fs::read(dir.path().join("data/binlog/binlog.000001")).expect("the file");
        file.windows(4)
            .any(|bytes| bytes == 50_700_u32.to_le_bytes())
    };
    assert!(!is_written());
    c.run("SET original_server_version = 50700; INSERT INTO d.t (id) VALUES (3)");
    eventually("it is written", is_written);
    // effect: gtid_next
    c.run("SET gtid_next = '11111111-1111-1111-1111-111111111111:7'");
    c.run("INSERT INTO d.t (id) VALUES (4); SET gtid_next = AUTOMATIC");
    let executed = c.value("SELECT @@GLOBAL.gtid_executed");
    assert!(
        executed.contains("11111111-1111-1111-1111-111111111111:7"),
        "{executed}"
    );
}

#[test]
fn functions_of_accounts_without_super_are_refused_with_a_binary_log() {
    let (server, _dir) = logging(&["--skip-ssl"]);
    let mut root = server.connect();
    root.run("CREATE USER u; GRANT ALL ON d.* TO u");
    let mut u = super::login(&server, "u").expect("logs in");
    u.run("USE d");
    assert_eq!(
        u.code("CREATE FUNCTION f() RETURNS INT DETERMINISTIC RETURN 1"),
        Some(1419)
    );
    // effect: log_bin_trust_function_creators
    root.run("SET GLOBAL log_bin_trust_function_creators = ON");
    assert_eq!(
        u.code("CREATE FUNCTION f() RETURNS INT DETERMINISTIC RETURN 1"),
        None
    );
}
