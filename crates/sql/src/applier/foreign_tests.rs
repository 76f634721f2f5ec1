//! Row events of servers that log what their foreign keys do: MySQL from 9.6 on.

use esker_binlog::apply::Incoming;
use esker_binlog::event::EventType;

use super::tests::Server;

/// Where the flags of a row event stand in its body.
const FLAGS_AT: usize = 6;
/// USE_SQL_FOREIGN_KEY_F.
const SQL_FOREIGN_KEYS: u8 = 16;

/// MySQL 9.7 logs REPLACE of a parent so, of which its foreign keys know nothing: the children stay.
#[test]
fn foreign_keys_do_nothing_where_the_source_has_done_it() {
    let source = Server::source();
    let mut c = source.client(1);
    for sql in [
        "CREATE DATABASE a",
        "CREATE TABLE a.p (id INT PRIMARY KEY)",
        "CREATE TABLE a.c (id INT PRIMARY KEY, pid INT, FOREIGN KEY (pid) REFERENCES a.p (id) ON DELETE CASCADE)",
        "INSERT INTO a.p VALUES (18)",
        "INSERT INTO a.c VALUES (6, 18)",
        "DELETE FROM a.p",
        "INSERT INTO a.p VALUES (18)",
    ] {
        c.ok(sql);
    }
    let mut events = source.events();
    for (is_done, expected) in [(false, &[][..]), (true, &["6|18|".to_owned()])] {
        for event in &mut events {
            let kind = event.header.event_type();
            if is_done && matches!(kind, Some(EventType::WriteRows | EventType::DeleteRows)) {
                event.body[FLAGS_AT] |= SQL_FOREIGN_KEYS;
            }
        }
        let replica = Server::replica(&[("log_bin", "ON")]);
        assert_eq!(replica.apply(&events).failure, None);
        let mut there = replica.client(3);
        assert_eq!(there.ok("SELECT * FROM a.c"), expected);
        // Those that follow the replica are told as well.
        let shown = there.ok("SHOW BINLOG EVENTS").concat();
        let flagged = shown.matches("USE_SQL_FOREIGN_KEY_F").count();
        assert_eq!(flagged, if is_done { 4 } else { 0 }, "{shown}");
    }
}

/// BEGIN_LOAD_QUERY, APPEND_BLOCK and EXECUTE_LOAD_QUERY.
const LOAD_EVENTS: [u8; 3] = [17, 9, 18];

/// MySQL with binlog_format = STATEMENT logs LOAD DATA as a file in pieces and the statement that reads it.
#[test]
fn load_data_as_a_statement_reads_the_file_that_came_with_it() {
    let source = Server::source();
    let mut c = source.client(1);
    for sql in [
        "CREATE DATABASE a",
        "CREATE TABLE a.t (id INT PRIMARY KEY, v VARCHAR(9))",
        "INSERT INTO a.t VALUES (2, 'old')",
        "CREATE TABLE a.stands_for_load_data (i INT)",
    ] {
        c.ok(sql);
    }
    let mut events = source.events();
    let is_query = |event: &Incoming| event.header.event_type() == Some(EventType::Query);
    let at = events.iter().rposition(is_query).expect("a statement");
    let load = &mut events[at];
    let text =
        "LOAD DATA LOCAL INFILE '/tmp/x' REPLACE INTO TABLE a.t FIELDS TERMINATED BY ',' (id, v)";
    let (from, to) = (9u32, text.find(" TABLE").expect("INTO") as u32);
    let head = 13;
    let settings = usize::from(u16::from_le_bytes([load.body[11], load.body[12]]));
    let database = usize::from(load.body[8]);
    load.body.truncate(head + settings + database + 1);
    load.body.extend_from_slice(text.as_bytes());
    let mut numbers = 5u32.to_le_bytes().to_vec();
    numbers.extend(from.to_le_bytes());
    numbers.extend(to.to_le_bytes());
    // Duplicates are replaced.
    numbers.push(2);
    load.body.splice(head..head, numbers);
    load.header.kind = LOAD_EVENTS[2];
    let pieces = [(LOAD_EVENTS[0], "1,one\n2,t"), (LOAD_EVENTS[1], "wo\n")];
    for (place, (kind, bytes)) in pieces.into_iter().enumerate() {
        let mut piece = events[at + place].clone();
        piece.header.kind = kind;
        piece.body = [&5u32.to_le_bytes()[..], bytes.as_bytes()].concat();
        events.insert(at + place, piece);
    }
    for (nth, event) in events.iter_mut().enumerate() {
        event.relay.offset = nth as u64 + 1;
    }
    // Not even where the server's own files are out of reach.
    let replica = Server::replica(&[("log_bin", "ON"), ("local_infile", "OFF")]);
    assert_eq!(replica.apply(&events).failure, None);
    let mut there = replica.client(3);
    assert_eq!(there.ok("SELECT * FROM a.t"), ["1|one|", "2|two|"]);
}
