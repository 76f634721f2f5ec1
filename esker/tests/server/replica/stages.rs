//! What performance_schema and SHOW REPLICA STATUS say of a channel at each stage, as MySQL 9.7 does.

use super::*;

/// Columns of a table of performance_schema about replication.
fn seen(c: &mut Client, columns: &str, table: &str) -> Vec<String> {
    c.lines(&format!(
        "SELECT {columns} FROM performance_schema.replication_{table}"
    ))
}

/// The columns about a transaction: what it is called, and whether its times follow each other.
fn in_order(which: &str, what: (&str, &str)) -> String {
    let (start, end) = what;
    format!(
        "{which}, {which}_ORIGINAL_COMMIT_TIMESTAMP > '2020-01-01' \
         AND {which}_IMMEDIATE_COMMIT_TIMESTAMP >= {which}_ORIGINAL_COMMIT_TIMESTAMP \
         AND {which}_{start}_TIMESTAMP >= {which}_IMMEDIATE_COMMIT_TIMESTAMP \
         AND {which}_{end}_TIMESTAMP >= {which}_{start}_TIMESTAMP"
    )
}

#[test]
fn tables_show_the_last_transaction_of_every_thread() {
    let dir = tempfile::tempdir().expect("folder");
    let source = source(dir.path());
    let mut there = source.connect();
    let replica = Server::start(&dir.path().join("replica"), &REPLICA);
    let mut c = replica.connect();
    change(&mut c, source.port, "SOURCE_AUTO_POSITION = 1");
    // A channel that was never started has no threads, but it is there.
    let worker = "worker_id, service_state, last_applied_transaction, applying_transaction";
    assert_eq!(
        seen(&mut c, worker, "applier_status_by_worker"),
        ["0|OFF||"]
    );
    assert_eq!(seen(&mut c, "1", "applier_status_by_coordinator"), [""; 0]);
    c.run("START REPLICA");
    there.run("INSERT INTO d.t VALUES (1, 0)");
    catch_up(&replica, &contents(&mut there));
    let last = there.value(
        "SELECT CONCAT(@@server_uuid, ':', SUBSTRING_INDEX(@@GLOBAL.gtid_executed, '-', -1))",
    );
    let queued = in_order("LAST_QUEUED_TRANSACTION", ("START_QUEUE", "END_QUEUE"));
    assert_eq!(
        seen(
            &mut c,
            &format!("{queued}, queueing_transaction"),
            "connection_status"
        ),
        [format!("{last}|1|")]
    );
    let processed = in_order("LAST_PROCESSED_TRANSACTION", ("START_BUFFER", "END_BUFFER"));
    let processed = format!("service_state, {processed}, processing_transaction");
    assert_eq!(
        seen(&mut c, &processed, "applier_status_by_coordinator"),
        [format!("ON|{last}|1|")]
    );
    let applied = in_order("LAST_APPLIED_TRANSACTION", ("START_APPLY", "END_APPLY"));
    let by_worker = |c: &mut Client| seen(c, &applied, "applier_status_by_worker");
    eventually("a worker says so", || {
        by_worker(&mut c).contains(&format!("{last}|1"))
    });

    // One worker has failed, and the channel says the same.
    c.run("SET sql_log_bin = 0; INSERT INTO d.t VALUES (2, 0); SET sql_log_bin = 1");
    there.run("INSERT INTO d.t VALUES (2, 1)");
    eventually("it has stopped", || status(&mut c)[11] == "No");
    let failed =
        "service_state, last_error_number, last_error_message, last_error_timestamp > '2020-01-01'";
    let of_channel = seen(&mut c, failed, "applier_status_by_coordinator").concat();
    let parts: Vec<_> = of_channel.split('|').collect();
    assert_eq!(
        (parts[0], parts[1], parts[3]),
        ("OFF", "1062", "1"),
        "{of_channel}"
    );
    let mut of_workers = seen(&mut c, failed, "applier_status_by_worker");
    of_workers.retain(|row| !row.starts_with("OFF|0||"));
    assert_eq!(of_workers, std::slice::from_ref(&of_channel));
    // Transaction and event are named by the end of the event.
    let positions = parts[2].split("end_log_pos ").skip(1);
    let positions: Vec<_> = positions
        .map(|rest| rest.split_once(';').map_or(rest, |(position, _)| position))
        .collect();
    assert_eq!(positions.len(), 2, "{of_channel}");
    assert_eq!(positions[0], positions[1], "{of_channel}");
}

#[test]
fn a_receiver_says_why_it_is_not_connected() {
    let dir = tempfile::tempdir().expect("folder");
    let mut source = source(dir.path());
    let replica = Server::start(&dir.path().join("replica"), &REPLICA);
    let mut c = replica.connect();
    let attempt = |what: &str, port: u16, why: &str| {
        format!(
            "Error {what} to source 'repl@127.0.0.1:{port}'. This was attempt 1/2, with a delay of 3600 seconds between \
             attempts. Message: {why}"
        )
    };
    let set = |c: &mut Client, port: u16, password: &str| {
        c.run(&format!(
            "STOP REPLICA; CHANGE REPLICATION SOURCE TO SOURCE_HOST = '127.0.0.1', SOURCE_PORT = {port}, \
             SOURCE_USER = 'repl', SOURCE_PASSWORD = '{password}', GET_SOURCE_PUBLIC_KEY = 1, SOURCE_CONNECT_RETRY = 3600, \
             SOURCE_RETRY_COUNT = 2, SOURCE_AUTO_POSITION = 1; START REPLICA"
        ));
    };
    let shown = |c: &mut Client| {
        eventually("it has tried", || status(c)[34] != "0");
        let s = status(c);
        (s[0].clone(), s[10].clone(), s[34].clone(), s[35].clone())
    };
    let connecting = |code: &str, text: String| {
        (
            "Connecting to source".to_owned(),
            "Connecting".to_owned(),
            code.to_owned(),
            text,
        )
    };
    set(&mut c, 1, "secret-word");
    let nobody = "Can't connect to MySQL server on '127.0.0.1:1' (111)";
    assert_eq!(
        shown(&mut c),
        connecting("2003", attempt("connecting", 1, nobody))
    );
    set(&mut c, source.port, "no");
    let denied = "Access denied for user 'repl'@'localhost' (using password: YES)";
    assert_eq!(
        shown(&mut c),
        connecting("1045", attempt("connecting", source.port, denied))
    );
    set(&mut c, source.port, "secret-word");
    source.connect().run("INSERT INTO d.t VALUES (1, 0)");
    catch_up(&replica, &contents(&mut source.connect()));
    assert_eq!(status(&mut c)[0], "Waiting for source to send event");
    source.kill();
    // The error is told a moment before the state.
    eventually("it waits", || {
        status(&mut c)[0].starts_with("Waiting to reconnect")
    });
    let (state, runs, code, text) = shown(&mut c);
    assert_eq!(
        (&*state, &*runs, &*code),
        (
            "Waiting to reconnect after a failed source event read",
            "Connecting",
            "2003"
        ),
    );
    assert!(
        text.starts_with("Error reconnecting to source 'repl@127.0.0.1:"),
        "{text}"
    );
}
