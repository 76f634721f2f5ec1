//! Prepared statements packet by packet: what parameters are, what PREPARE tells of columns, cursors and status bits.
//!
//! Neighbours: `hostile` has the client, whose packets are made by hand. **Invariant**: the answers are MySQL's.

use crate::common::{Ask, Server};
use crate::hostile::Raw;

const PS_MULTI_RESULTS: u32 = 1 << 18;
const TIME: u8 = 11;
const DATETIME: u8 = 12;
const DATE: u8 = 10;
const NEWDECIMAL: u8 = 246;

const AUTOCOMMIT: u16 = 2;
const CURSOR_EXISTS: u16 = 64;
const LAST_ROW_SENT: u16 = 128;
const METADATA_CHANGED: u16 = 1024;
const OUT_PARAMS: u16 = 4096;

fn server() -> (Server, tempfile::TempDir) {
    let dir = tempfile::tempdir().expect("folder");
    let server = Server::start(dir.path(), &["--skip-ssl"]);
    server
        .connect()
        .run("CREATE DATABASE d; CREATE TABLE d.t (a VARCHAR(80)); CREATE TABLE d.y (y YEAR); INSERT INTO d.y VALUES (2020)");
    (server, dir)
}

fn number(packet: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([packet[at], packet[at + 1]])
}

/// The payload of an execution with one parameter, or none.
fn execution(id: u32, flags: u8, parameter: Option<(u8, &[u8])>) -> Vec<u8> {
    let mut payload = [&[0x17], &id.to_le_bytes()[..], &[flags, 1, 0, 0, 0]].concat();
    if let Some((ty, value)) = parameter {
        payload.extend_from_slice(&[0, 1, ty, 0]);
        payload.extend_from_slice(value);
    }
    payload
}

/// The packets before the end of the rows, or of the columns of a cursor, and the status that it has.
fn to_end(raw: &mut Raw) -> (usize, u16) {
    let mut before = 0;
    loop {
        let packet = raw.read().expect("a packet");
        assert_ne!(packet[0], 0xff, "{packet:?}");
        if packet[0] == 0xfe && packet.len() < 9 {
            return (before, number(&packet, 3));
        }
        before += 1;
    }
}

fn fetch(raw: &mut Raw, id: u32, rows: u32) {
    raw.command(&[&[0x1c], &id.to_le_bytes()[..], &rows.to_le_bytes()[..]].concat());
}

#[test]
fn parameters_are_of_the_type_that_they_are_sent_as() {
    let (server, _dir) = server();
    let mut raw = Raw::root(&server);
    let mut c = server.connect();
    let (moment, time): (&[u8], &[u8]) =
        (&[7, 0xe4, 7, 1, 2, 3, 4, 5], &[8, 0, 1, 0, 0, 0, 6, 0, 5]);
    let short_time: &[u8] = &[12, 0, 0, 0, 0, 0, 3, 4, 5, 0x60, 0xae, 0x0a, 0];
    let date: &[u8] = &[4, 0xe4, 7, 1, 1];
    for (sql, ty, value, told) in [
        ("VALUES (?)", DATETIME, moment, "2020-01-02 03:04:05"),
        ("SELECT ?", DATETIME, moment, "2020-01-02 03:04:05"),
        ("VALUES (?)", TIME, time, "30:00:05"),
        ("VALUES (?)", TIME, short_time, "03:04:05.7"),
        ("SELECT JSON_ARRAY(?)", NEWDECIMAL, b"\x041.50", "[1.50]"),
        ("SELECT ? = '1.5'", NEWDECIMAL, b"\x041.50", "1"),
        ("SELECT ? > '10'", NEWDECIMAL, b"\x017", "0"),
        ("SELECT COUNT(*) FROM d.y WHERE y = ?", DATE, date, "0"),
        ("SELECT COUNT(*) FROM d.y WHERE y < ?", DATE, date, "1"),
        (
            "SELECT COUNT(*) FROM d.y WHERE y IN (?)",
            DATETIME,
            moment,
            "0",
        ),
    ] {
        let id = raw.prepare(&format!("INSERT INTO d.t {sql}"));
        // The second time it runs from its plan.
        for _ in 0..2 {
            raw.command(&execution(id, 0, Some((ty, value))));
            assert_eq!(raw.end(), 0, "{sql}");
            assert_eq!(c.lines("SELECT a FROM d.t"), [told], "{sql}");
            c.run("DELETE FROM d.t");
        }
    }
    let id = raw.prepare("SELECT 1 LIMIT ?");
    raw.command(&execution(id, 0, Some((NEWDECIMAL, b"\x012"))));
    assert_eq!(raw.end(), 1210);
}

#[test]
fn preparing_a_show_that_is_a_query_tells_its_columns() {
    let (server, _dir) = server();
    let mut raw = Raw::root(&server);
    for (sql, columns) in [
        ("SHOW DATABASES", 1),
        ("SHOW FULL TABLES FROM d LIKE 't%'", 2),
        ("SHOW TABLE STATUS FROM d", 18),
        ("SHOW FULL COLUMNS FROM d.t", 9),
        ("DESCRIBE d.t", 6),
        ("SHOW INDEX FROM d.t", 15),
        ("SHOW VARIABLES", 2),
        ("SHOW STATUS LIKE 'u%'", 2),
        ("SHOW COLLATION", 7),
        ("SHOW EVENTS FROM d", 15),
        ("SHOW CREATE TABLE d.t", 0),
        ("SHOW GRANTS", 0),
        ("SHOW PROCESSLIST", 0),
    ] {
        raw.command(&[b"\x16", sql.as_bytes()].concat());
        let answer = raw.read().expect("answer");
        assert_eq!((answer[0], number(&answer, 5)), (0, columns), "{sql}");
        (0..columns).for_each(|_| drop(raw.read().expect("a column")));
    }
    raw.command(b"\x16SHOW TABLES");
    assert_eq!(raw.end(), 1046);
}

#[test]
fn a_cursor_ends_with_the_fetch_that_finds_too_few_rows() {
    let (server, _dir) = server();
    server.connect().run("INSERT INTO d.t VALUES (1), (2), (3)");
    let mut raw = Raw::root(&server);
    let id = raw.prepare("SELECT a FROM d.t");
    fetch(&mut raw, id, 1);
    assert_eq!(raw.end(), 1421);
    let open = |raw: &mut Raw| {
        raw.command(&execution(id, 1, None));
        let (_, status) = to_end(raw);
        assert_eq!(status & CURSOR_EXISTS, CURSOR_EXISTS);
    };
    open(&mut raw);
    for (rows, found, status) in [(2, 2, CURSOR_EXISTS), (2, 1, LAST_ROW_SENT)] {
        fetch(&mut raw, id, rows);
        assert_eq!(to_end(&mut raw), (found, status | AUTOCOMMIT));
    }
    fetch(&mut raw, id, 1);
    assert_eq!(raw.end(), 1421);
    open(&mut raw);
    // Whether there are more is not known before somebody looks.
    for (found, status) in [(3, CURSOR_EXISTS), (0, LAST_ROW_SENT)] {
        fetch(&mut raw, id, 3);
        assert_eq!(to_end(&mut raw), (found, status | AUTOCOMMIT));
    }
    fetch(&mut raw, id, 3);
    assert_eq!(raw.end(), 1421);
}

#[test]
fn another_number_of_columns_is_told_once() {
    let (server, _dir) = server();
    let mut raw = Raw::root(&server);
    let id = raw.prepare("SELECT * FROM d.t");
    let changed = |raw: &mut Raw| {
        raw.command(&execution(id, 0, None));
        to_end(raw).1 & METADATA_CHANGED != 0
    };
    assert!(!changed(&mut raw));
    server.connect().run("ALTER TABLE d.t ADD b INT");
    assert!(changed(&mut raw));
    assert!(!changed(&mut raw));
    server.connect().run("ALTER TABLE d.t MODIFY b BIGINT");
    assert!(!changed(&mut raw), "the number is the same");
}

#[test]
fn out_parameters_are_for_clients_that_take_several_results() {
    let (server, _dir) = server();
    server
        .connect()
        .run("CREATE PROCEDURE d.p (OUT x INT) SET x = 5");
    for (able, rows) in [(PS_MULTI_RESULTS, true), (0, false)] {
        let mut raw = Raw::able(&server, able);
        let id = raw.prepare("CALL d.p(?)");
        raw.command(&execution(id, 0, Some((8, &[0; 8]))));
        if rows {
            // Their number, the column, the row.
            let (before, status) = to_end(&mut raw);
            assert_eq!((before, status & OUT_PARAMS), (3, OUT_PARAMS));
        }
        assert_eq!(raw.read().expect("an OK")[0], 0, "{able}");
    }
}
