//! Settings of replicas and of sources that a test elsewhere does not see.

use esker_server::client::Client;

use crate::common::{Ask, Server, eventually};

use super::{REPLICA, SOURCE, catch_up, change, contents, follow, source, status, write};

const AUTO: &str = "SOURCE_AUTO_POSITION = 1";

/// A replica of `source` below `dir`, with more settings.
fn replica_of(source: &Server, dir: &std::path::Path, more: &[&str]) -> Server {
    let replica = Server::start(&dir.join("replica"), &[&REPLICA[..], more].concat());
    change(&mut replica.connect(), source.port, AUTO);
    replica.connect().run("START REPLICA");
    replica
}

/// Kinds of the events in the first file of the binary log.
fn kinds(server: &Server) -> Vec<String> {
    let rows = server.connect().rows("SHOW BINLOG EVENTS");
    rows.into_iter().filter_map(|row| row[2].clone()).collect()
}

#[test]
fn what_is_applied_is_logged_if_it_is_to() {
    // effect: log_replica_updates
    for (setting, logged) in [("ON", true), ("OFF", false)] {
        let dir = tempfile::tempdir().expect("folder");
        let source = source(dir.path());
        let replica = replica_of(
            &source,
            dir.path(),
            &[&format!("--log-replica-updates={setting}")],
        );
        write(&mut source.connect(), 0..3);
        follow(&mut source.connect(), &mut replica.connect());
        assert_eq!(
            kinds(&replica).iter().any(|kind| kind == "Write_rows"),
            logged
        );
    }
}

#[test]
fn what_is_applied_is_slow_if_that_is_wanted() {
    // effect: log_slow_replica_statements, log_slow_slave_statements
    let settings = [
        ("--log-slow-replica-statements=ON", true),
        ("--log-slow-replica-statements=OFF", false),
        ("--log-slow-slave-statements=ON", true),
    ];
    for (setting, logged) in settings {
        let dir = tempfile::tempdir().expect("folder");
        let source = source(dir.path());
        let more = ["--slow-query-log=ON", "--long-query-time=0", setting];
        let replica = replica_of(&source, dir.path(), &more);
        source.connect().run("CREATE TABLE d.applied (a INT)");
        follow(&mut source.connect(), &mut replica.connect());
        let file = dir.path().join("replica/data/slow.log");
        let has = |text: &str| {
            let log = std::fs::read_to_string(&file);
            log.is_ok_and(|log| log.contains(text))
        };
        // It is written when the transaction can be seen already, as is what comes later.
        replica.connect().run("SELECT 'later'");
        eventually("what comes later is logged", || has("SELECT 'later'"));
        let applied = "CREATE TABLE d.applied (a INT)";
        match logged {
            true => eventually("it is logged", || has(applied)),
            false => assert!(!has(applied)),
        }
    }
}

#[test]
fn relay_logs_have_their_names_and_sizes() {
    let dir = tempfile::tempdir().expect("folder");
    let source = source(dir.path());
    // effect: relay_log, relay_log_index, max_relay_log_size
    let names = [
        "--relay-log=own",
        "--relay-log-index=list",
        "--relay-log-purge=OFF",
        "--max-relay-log-size=4096",
    ];
    let replica = replica_of(&source, dir.path(), &names);
    write(&mut source.connect(), 0..100);
    catch_up(&replica, &contents(&mut source.connect()));
    let files = std::fs::read_dir(dir.path().join("replica/data")).expect("folder");
    let named: Vec<String> = files
        .map(|file| {
            file.expect("file")
                .file_name()
                .into_string()
                .expect("a name")
        })
        .filter(|name| name.starts_with("own.") || name.starts_with("list"))
        .collect();
    assert!(named.contains(&"list.index".to_owned()), "{named:?}");
    // More than a hundred transactions of some hundred bytes.
    assert!(named.len() > 4, "{named:?}");
}

#[test]
fn a_replica_says_where_it_is() {
    let dir = tempfile::tempdir().expect("folder");
    let source = source(dir.path());
    // effect: report_host, report_port
    let place = ["--report-host=here.example", "--report-port=4444"];
    let _replica = replica_of(&source, dir.path(), &place);
    let mut c = source.connect();
    let listed = |c: &mut Client| c.lines("SHOW REPLICAS").concat();
    eventually("it is listed", || {
        listed(&mut c).starts_with("2|here.example|4444|1|")
    });
}

#[test]
fn a_replica_begins_with_the_server_unless_it_is_not_to() {
    let dir = tempfile::tempdir().expect("folder");
    let source = source(dir.path());
    let mut replica = replica_of(&source, dir.path(), &[]);
    let threads = "SELECT COUNT(*) FROM performance_schema.replication_connection_status WHERE service_state <> 'OFF'";
    // effect: skip_replica_start
    for (setting, running) in [
        ("--skip-replica-start=OFF", "1"),
        ("--skip-replica-start=ON", "0"),
    ] {
        replica.stop();
        replica.set_args(&[&REPLICA[..], &[setting]].concat());
        replica.restart();
        let mut c = replica.connect();
        eventually(setting, || c.value(threads) == running);
    }
}

/// Bytes that the source sends of a large text.
#[test]
fn replicas_ask_for_compression() {
    // effect: replica_compressed_protocol
    let sent = |setting: &str| {
        let dir = tempfile::tempdir().expect("folder");
        let source = source(dir.path());
        let setting = format!("--replica-compressed-protocol={setting}");
        let replica = replica_of(&source, dir.path(), &[&setting]);
        let mut c = source.connect();
        c.run("CREATE TABLE d.l (v LONGTEXT); INSERT INTO d.l VALUES (REPEAT('replica', 100000))");
        follow(&mut c, &mut replica.connect());
        let line = c.value("SHOW GLOBAL STATUS LIKE 'Bytes_sent'");
        line.rsplit('|')
            .next()
            .and_then(|text| text.parse::<u64>().ok())
            .expect("a number")
    };
    assert!(sent("OFF") > 700_000);
    assert!(sent("ON") < 200_000);
}

#[test]
fn so_many_workers_apply() {
    let dir = tempfile::tempdir().expect("folder");
    let source = source(dir.path());
    let replica = replica_of(&source, dir.path(), &[]);
    let mut c = replica.connect();
    let workers = "SELECT COUNT(*) FROM performance_schema.replication_applier_status_by_worker";
    eventually("the default", || c.value(workers) == "4");
    // effect: replica_parallel_workers
    c.run("STOP REPLICA; SET GLOBAL replica_parallel_workers = 7; START REPLICA");
    eventually("more", || c.value(workers) == "7");
}

#[test]
fn a_transaction_that_waits_for_too_long_stops_the_replica() {
    let dir = tempfile::tempdir().expect("folder");
    let source = source(dir.path());
    source.connect().run("INSERT INTO d.t VALUES (1, 1)");
    let replica = replica_of(&source, dir.path(), &["--innodb-lock-wait-timeout=1"]);
    let (mut c, mut holder) = (replica.connect(), replica.connect());
    follow(&mut source.connect(), &mut c);
    // effect: replica_transaction_retries
    c.run("SET GLOBAL replica_transaction_retries = 0");
    holder.run("BEGIN; SELECT * FROM d.t WHERE id = 1 FOR UPDATE");
    source.connect().run("UPDATE d.t SET v = 10 WHERE id = 1");
    eventually("it has stopped", || super::status(&mut c)[36] == "1205");
}

const LATER: &str = "SELECT COUNT(*) FROM d.later";
const WAITING: &str = "SELECT COUNT(*) FROM information_schema.processlist \
                       WHERE state = 'Waiting for preceding transaction to commit'";

/// What is committed behind a transaction that waits for a row of the replica, once `seen` counts something there.
fn behind_a_held_row(settings: &str, seen: &str) -> String {
    let dir = tempfile::tempdir().expect("folder");
    let source = source(dir.path());
    let mut c = source.connect();
    c.run("INSERT INTO d.t VALUES (1, 1); CREATE TABLE d.later (a INT AUTO_INCREMENT PRIMARY KEY)");
    let replica = replica_of(&source, dir.path(), &[]);
    let (mut there, mut holder) = (replica.connect(), replica.connect());
    follow(&mut c, &mut there);
    there.run(&format!("STOP REPLICA; {settings}; START REPLICA"));
    holder.run("BEGIN; SELECT * FROM d.t WHERE id = 1 FOR UPDATE");
    c.run("UPDATE d.t SET v = 10 WHERE id = 1");
    // More than one worker gets.
    for _ in 0..60 {
        c.run("INSERT INTO d.later VALUES ()");
    }
    eventually(settings, || there.value(seen) != "0");
    let committed = there.value(LATER);
    holder.run("ROLLBACK");
    follow(&mut c, &mut there);
    committed
}

#[test]
fn workers_commit_in_the_order_of_the_source_if_they_are_to() {
    // effect: replica_preserve_commit_order
    let off = "SET GLOBAL replica_preserve_commit_order = OFF";
    assert_ne!(behind_a_held_row(off, LATER), "0");
    let on = "SET GLOBAL replica_preserve_commit_order = ON";
    assert_eq!(behind_a_held_row(on, WAITING), "0");
    // Who runs everything at once must put it in order.
    // effect: esker_replica_parallel_mode
    let optimistic = format!("{off}, GLOBAL esker_replica_parallel_mode = OPTIMISTIC");
    assert_eq!(behind_a_held_row(&optimistic, WAITING), "0");
}

#[test]
fn a_source_waits_for_replicas_although_there_are_none() {
    let dir = tempfile::tempdir().expect("folder");
    let server = Server::start(dir.path(), &SOURCE);
    let mut c = server.connect();
    let status = "SHOW GLOBAL STATUS LIKE 'Rpl_semi_sync_source_status'";
    c.run("SET GLOBAL rpl_semi_sync_source_enabled = ON");
    assert_eq!(c.value(status), "Rpl_semi_sync_source_status|ON");
    // effect: rpl_semi_sync_source_wait_no_replica
    c.run("SET GLOBAL rpl_semi_sync_source_wait_no_replica = OFF");
    eventually("none is waited for", || c.value(status).ends_with("|OFF"));
}

#[test]
fn statements_run_before_a_replica_applies() {
    let dir = tempfile::tempdir().expect("folder");
    let source = source(dir.path());
    // effect: init_replica, init_slave
    let replica = replica_of(
        &source,
        dir.path(),
        &["--init-slave=SET GLOBAL max_connections = 77"],
    );
    let mut c = replica.connect();
    eventually("it has run", || {
        c.value("SELECT @@GLOBAL.max_connections") == "77"
    });
    assert_eq!(
        c.value("SELECT @@GLOBAL.init_replica"),
        "SET GLOBAL max_connections = 77"
    );
    // Several; one that fails keeps the applier from starting, and the receiver not.
    c.run("STOP REPLICA; SET GLOBAL init_replica = 'SET GLOBAL max_connections = 78; SELECT * FROM mysql.nowhere'");
    c.run("START REPLICA");
    eventually("it says so", || status(&mut c)[36] == "13145");
    assert_eq!(c.value("SELECT @@GLOBAL.max_connections"), "78");
    let text = "Replica SQL thread aborted. Can't execute init_replica query, MY-001146 - 'Table 'mysql.nowhere' doesn't exist'";
    assert_eq!(status(&mut c)[37], text);
    eventually("it has ended", || status(&mut c)[11] == "No");
    c.run("SET GLOBAL init_slave = ''; START REPLICA");
    write(&mut source.connect(), 0..3);
    catch_up(&replica, &contents(&mut source.connect()));
}

#[test]
fn stop_replica_ends_what_runs_before_it_applies() {
    let dir = tempfile::tempdir().expect("folder");
    let source = source(dir.path());
    let replica = replica_of(&source, dir.path(), &[]);
    let mut c = replica.connect();
    let asleep = "SELECT COUNT(*) FROM information_schema.processlist WHERE state = 'User sleep'";
    c.run("STOP REPLICA; SET GLOBAL init_replica = 'DO SLEEP(100000); SET GLOBAL max_connections = 79'");
    c.run("START REPLICA");
    eventually("it runs", || c.value(asleep) == "1");
    // It would wait for days.
    c.run("STOP REPLICA");
    assert_eq!(
        (c.value(asleep), status(&mut c)[36].clone()),
        ("0".into(), "0".into())
    );
    assert_ne!(c.value("SELECT @@GLOBAL.max_connections"), "79");
    // KILL of the applier's thread ends it likewise, and that is an error.
    c.run("START REPLICA");
    eventually("it runs again", || c.value(asleep) == "1");
    let thread = "SELECT processlist_id FROM performance_schema.threads WHERE name = 'thread/sql/replica_sql'";
    let id = c.value(thread);
    c.run(&format!("KILL {id}"));
    eventually("it has ended", || status(&mut c)[11] == "No");
    assert_eq!(status(&mut c)[36], "13145");
    c.run("STOP REPLICA; SET GLOBAL init_replica = ''; START REPLICA");
    write(&mut source.connect(), 0..3);
    catch_up(&replica, &contents(&mut source.connect()));
}

#[test]
fn transactions_are_skipped_as_often_as_is_said() {
    // effect: sql_replica_skip_counter, sql_slave_skip_counter
    for name in ["sql_replica_skip_counter", "sql_slave_skip_counter"] {
        let dir = tempfile::tempdir().expect("folder");
        let source = source(dir.path());
        let replica = replica_of(&source, dir.path(), &["--gtid-mode=ON_PERMISSIVE"]);
        let (mut there, mut c) = (source.connect(), replica.connect());
        follow(&mut there, &mut c);
        c.run("STOP REPLICA SQL_THREAD");
        // The second one has more events than are left to skip, but goes as a whole.
        there.run("INSERT INTO d.t VALUES (1, 1); INSERT INTO d.t VALUES (2, 2); INSERT INTO d.t VALUES (3, 3)");
        c.run(&format!("SET GLOBAL {name} = 6; START REPLICA SQL_THREAD"));
        eventually("the third one is applied", || {
            c.lines("SELECT id FROM d.t ORDER BY id") == ["3"]
        });
        let both = "SELECT @@GLOBAL.sql_replica_skip_counter, @@GLOBAL.sql_slave_skip_counter";
        assert_eq!(c.lines(both), ["0|0"]);
        assert_eq!(status(&mut c)[20], "0");
        // They count as executed.
        follow(&mut there, &mut c);
        there.run("INSERT INTO d.t VALUES (4, 4)");
        follow(&mut there, &mut c);
        assert_eq!(c.lines("SELECT id FROM d.t ORDER BY id"), ["3", "4"]);
    }
}

#[test]
fn transactions_with_gtids_of_their_own_are_not_skipped() {
    let dir = tempfile::tempdir().expect("folder");
    let source = source(dir.path());
    let replica = replica_of(&source, dir.path(), &[]);
    let (mut there, mut c) = (source.connect(), replica.connect());
    follow(&mut there, &mut c);
    c.run("STOP REPLICA SQL_THREAD");
    let warned = "Warning|4016|The value of sql_replica_skip_counter will only take effect for channels running with \
                  ASSIGN_GTIDS_TO_ANONYMOUS_TRANSACTIONS <> OFF.";
    for (set, warnings) in [
        ("SET GLOBAL sql_replica_skip_counter = 1", 1),
        ("SET GLOBAL gtid_mode = ON", 0),
        ("SET GLOBAL gtid_mode = ON_PERMISSIVE", 0),
        ("SET GLOBAL sql_replica_skip_counter = 2", 0),
        ("SET GLOBAL gtid_mode = ON", 1),
        ("SET GLOBAL sql_replica_skip_counter = 0", 0),
        ("SET GLOBAL sql_slave_skip_counter = 1", 2),
    ] {
        c.run(set);
        let shown = c.lines("SHOW WARNINGS");
        assert_eq!(shown.len(), warnings, "{set}");
        assert_eq!(
            shown.last().is_some_and(|last| last == warned),
            warnings > 0,
            "{set}"
        );
    }
    there.run("INSERT INTO d.t VALUES (1, 1); INSERT INTO d.t VALUES (2, 2)");
    c.run("START REPLICA SQL_THREAD");
    follow(&mut there, &mut c);
    assert_eq!(c.lines("SELECT id FROM d.t ORDER BY id"), ["1", "2"]);
    assert_eq!(c.value("SELECT @@GLOBAL.sql_replica_skip_counter"), "0");
}

#[test]
fn a_receiver_waits_where_the_relay_log_has_no_space() {
    let dir = tempfile::tempdir().expect("folder");
    let source = source(dir.path());
    // effect: relay_log_space_limit
    let limits = [
        "--relay-log-space-limit=100000",
        "--max-relay-log-size=16384",
    ];
    let replica = replica_of(&source, dir.path(), &limits);
    let (mut there, mut c) = (source.connect(), replica.connect());
    there.run("CREATE TABLE d.long (id INT PRIMARY KEY, v MEDIUMTEXT)");
    follow(&mut there, &mut c);
    c.run("STOP REPLICA SQL_THREAD");
    for id in 0..40 {
        there.run(&format!(
            "INSERT INTO d.long VALUES ({id}, REPEAT('x', 10000))"
        ));
    }
    let waits = "SELECT COUNT(*) FROM information_schema.processlist \
                 WHERE state = 'Waiting for the replica SQL thread to free relay log space'";
    eventually("it waits", || c.value(waits) == "1");
    let shown = status(&mut c);
    assert_eq!(shown[10], "Yes");
    let space: u64 = shown[22].parse().expect("bytes");
    assert!((100_000..150_000).contains(&space), "{space}");
    // One transaction is larger than all of it.
    there.run("INSERT INTO d.long VALUES (100, REPEAT('y', 300000))");
    c.run("START REPLICA SQL_THREAD");
    follow(&mut there, &mut c);
    assert_eq!(c.value("SELECT COUNT(*) FROM d.long"), "41");
    assert_eq!(c.value(waits), "0");
    // It can be stopped while it waits.
    c.run("STOP REPLICA SQL_THREAD");
    for id in 200..240 {
        there.run(&format!(
            "INSERT INTO d.long VALUES ({id}, REPEAT('x', 10000))"
        ));
    }
    eventually("it waits again", || c.value(waits) == "1");
    c.run("STOP REPLICA; START REPLICA");
    follow(&mut there, &mut c);
}

#[test]
fn a_delayed_replica_applies_in_the_end_and_not_before() {
    let dir = tempfile::tempdir().expect("folder");
    let source = source(dir.path());
    let replica = replica_of(&source, dir.path(), &[]);
    let mut c = replica.connect();
    follow(&mut source.connect(), &mut c);
    c.run("STOP REPLICA; CHANGE REPLICATION SOURCE TO SOURCE_DELAY = 1; START REPLICA");
    write(&mut source.connect(), 0..3);
    catch_up(&replica, &contents(&mut source.connect()));
    let waited = "SELECT MIN(TIMESTAMPDIFF(MICROSECOND, last_applied_transaction_immediate_commit_timestamp, \
                  last_applied_transaction_start_apply_timestamp)) >= 1000000 \
                  FROM performance_schema.replication_applier_status_by_worker WHERE last_applied_transaction <> ''";
    eventually("it says when", || c.value(waited) == "1");
    assert_eq!(status(&mut c)[36], "0");
}

/// A channel whose first transaction waits for a local one, and whose second waits for a table.
fn held_up(source: &Server, replica: &Server) -> (Client, Client) {
    let mut there = source.connect();
    there.run("CREATE TABLE d.held (id INT PRIMARY KEY); CREATE TABLE d.long (id INT PRIMARY KEY, v MEDIUMTEXT)");
    there.run("INSERT INTO d.t VALUES (1, 0)");
    follow(&mut there, &mut replica.connect());
    let (mut row, mut table) = (replica.connect(), replica.connect());
    row.run("BEGIN; DELETE FROM d.t WHERE id = 1");
    table.run("LOCK TABLES d.held WRITE");
    // It is so long that the next one goes to another worker.
    there.run(
        "BEGIN; INSERT INTO d.long VALUES (1, REPEAT('x', 20000)); UPDATE d.t SET v = 1; COMMIT",
    );
    there.run("INSERT INTO d.held VALUES (1)");
    let waiting = "SELECT (SELECT COUNT(*) FROM performance_schema.data_lock_waits), COUNT(*) \
                   FROM performance_schema.replication_applier_status_by_worker WHERE applying_transaction <> ''";
    let mut c = replica.connect();
    eventually("both wait", || c.lines(waiting) == ["1|2"]);
    (row, table)
}

#[test]
fn stop_replica_waits_as_long_as_it_is_to() {
    let dir = tempfile::tempdir().expect("folder");
    let source = source(dir.path());
    // effect: rpl_stop_replica_timeout, rpl_stop_slave_timeout
    let replica = replica_of(&source, dir.path(), &["--rpl-stop-slave-timeout=2"]);
    let (mut row, mut table) = held_up(&source, &replica);
    let mut c = replica.connect();
    assert_eq!(c.value("SELECT @@GLOBAL.rpl_stop_replica_timeout"), "2");
    c.run("SET GLOBAL rpl_stop_replica_timeout = 3");
    assert_eq!(c.code("STOP REPLICA"), Some(1875));
    row.run("ROLLBACK");
    table.run("UNLOCK TABLES");
    eventually("it has ended", || status(&mut c)[11] == "No");
    c.run("START REPLICA");
    catch_up(&replica, &contents(&mut source.connect()));
}

/// An error is shown before the threads have ended: START REPLICA begins behind them.
#[test]
fn a_replica_that_has_failed_can_be_started_at_once() {
    let dir = tempfile::tempdir().expect("folder");
    let source = source(dir.path());
    let replica = replica_of(&source, dir.path(), &[]);
    let (mut row, mut table) = held_up(&source, &replica);
    let mut c = replica.connect();
    row.run("COMMIT");
    eventually("it has failed", || status(&mut c)[36] == "1032");
    // The other transaction still waits for its table.
    assert_eq!(status(&mut c)[11], "Yes");
    c.run("SET sql_log_bin = 0; INSERT INTO d.t VALUES (1, 0)");
    let starts = std::thread::spawn(move || {
        c.run("START REPLICA");
        c.lines("SHOW WARNINGS")
    });
    table.run("UNLOCK TABLES");
    assert_eq!(starts.join().expect("it starts"), [""; 0]);
    catch_up(&replica, &contents(&mut source.connect()));
}

/// What waits for a local session is tried again, and counted as MySQL counts it: beyond STOP REPLICA.
#[test]
fn attempts_are_counted() {
    let dir = tempfile::tempdir().expect("folder");
    let source = source(dir.path());
    let replica = replica_of(&source, dir.path(), &["--innodb-lock-wait-timeout=1"]);
    let (mut there, mut c) = (source.connect(), replica.connect());
    there.run("INSERT INTO d.t VALUES (1, 0)");
    follow(&mut there, &mut c);
    let mut local = replica.connect();
    local.run("BEGIN; SELECT * FROM d.t FOR UPDATE");
    there.run("UPDATE d.t SET v = 1");
    let applying = "SELECT applying_transaction_retries_count, applying_transaction_last_transient_error_number, \
                    applying_transaction_last_transient_error_message \
                    FROM performance_schema.replication_applier_status_by_worker WHERE applying_transaction <> ''";
    let waits = "1|1205|Lock wait timeout exceeded; try restarting transaction";
    eventually("it is tried again", || c.lines(applying) == [waits]);
    local.run("ROLLBACK");
    follow(&mut there, &mut c);
    let counted =
        "SELECT count_transactions_retries > 0 FROM performance_schema.replication_applier_status";
    c.run("STOP REPLICA; START REPLICA");
    assert_eq!(c.value(counted), "1");
}

#[test]
fn what_is_missing_has_mysqls_errors() {
    let dir = tempfile::tempdir().expect("folder");
    let source = source(dir.path());
    let replica = replica_of(&source, dir.path(), &[]);
    let (mut there, mut c) = (source.connect(), replica.connect());
    follow(&mut there, &mut c);
    c.run("STOP REPLICA; SET GLOBAL server_id = 0");
    assert_eq!(c.code("START REPLICA"), Some(1200));
    c.run("SET GLOBAL server_id = 2; START REPLICA SQL_THREAD UNTIL SQL_AFTER_MTS_GAPS");
    assert!(c.lines("SHOW WARNINGS")[0].starts_with("Warning|4047|"));
    // The default database of a statement.
    c.run("SET sql_log_bin = 0; DROP DATABASE d");
    there.run("USE d; CREATE TABLE made (a INT)");
    eventually("nothing is behind gaps", || status(&mut c)[11] == "No");
    c.run("START REPLICA");
    eventually("it has failed", || status(&mut c)[36] == "1049");
}
