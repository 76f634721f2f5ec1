//! Row events of servers that log what their foreign keys do: MySQL from 9.6 on.

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
