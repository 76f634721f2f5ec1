//! HANDLER: what other sessions do to its table, privileges, counters, and that an idle one blocks no session. What it
//! reads is in `tests/sql/query/handler.slt`.

use esker_server::client::Client;

use crate::common::{Ask, Server};

fn server() -> (Server, tempfile::TempDir) {
    let dir = tempfile::tempdir().expect("folder");
    let server = Server::start(dir.path(), &["--skip-ssl"]);
    server.connect().run(
        "CREATE DATABASE d; USE d; CREATE TABLE t (a INT, b INT, KEY (a)); INSERT INTO t VALUES (1, 10), (2, 20), (3, 30)",
    );
    (server, dir)
}

fn connect(server: &Server) -> Client {
    let mut c = server.connect();
    c.run("USE d");
    c
}

#[test]
fn it_begins_anew_in_a_table_that_others_have_changed() {
    let (server, _dir) = server();
    let (mut c, mut other) = (connect(&server), connect(&server));
    c.run("HANDLER t OPEN");
    assert_eq!(c.lines("HANDLER t READ a NEXT LIMIT 2"), ["1|10", "2|20"]);
    // What others do to rows moves nothing.
    other.run("DELETE FROM t WHERE a = 2; INSERT INTO t VALUES (2, 21)");
    assert_eq!(c.lines("HANDLER t READ a NEXT"), ["2|21"]);
    // An idle handler holds no metadata lock.
    other.run("ALTER TABLE t ADD c INT DEFAULT 5");
    assert_eq!(c.lines("HANDLER t READ a NEXT"), ["1|10|5"]);
    assert_eq!(c.lines("HANDLER t READ a NEXT"), ["2|21|5"]);
    other.run("RENAME TABLE t TO u");
    assert_eq!(c.code("HANDLER t READ a NEXT"), Some(1146));
    other.run("CREATE TABLE t (a VARCHAR(9), KEY (a)); INSERT INTO t VALUES ('other')");
    assert_eq!(c.lines("HANDLER t READ a NEXT"), ["other"]);
    other.run("DROP TABLE t");
    assert_eq!(c.code("HANDLER t READ a NEXT"), Some(1146));
    c.run("HANDLER t CLOSE");
    assert_eq!(c.code("HANDLER t CLOSE"), Some(1109));
}

#[test]
fn it_reads_at_the_snapshot_of_its_transaction() {
    let (server, _dir) = server();
    let (mut c, mut other) = (connect(&server), connect(&server));
    c.run("HANDLER t OPEN; START TRANSACTION");
    assert_eq!(c.lines("HANDLER t READ a FIRST"), ["1|10"]);
    other.run("INSERT INTO t VALUES (0, 5), (2, 25)");
    let rest = ["2|20", "3|30"];
    assert_eq!(c.lines("HANDLER t READ a NEXT LIMIT 9"), rest);
    c.run("COMMIT");
    assert_eq!(c.lines("HANDLER t READ a FIRST"), ["0|5"]);
    // It takes no locks on rows, at whatever level.
    c.run("SET SESSION TRANSACTION ISOLATION LEVEL SERIALIZABLE; START TRANSACTION");
    assert_eq!(c.lines("HANDLER t READ a FIRST LIMIT 9").len(), 5);
    other.run("UPDATE t SET b = b + 1");
    c.run("COMMIT");
}

#[test]
fn it_wants_select_on_the_table_at_every_read() {
    let (server, _dir) = server();
    let mut root = connect(&server);
    root.run("CREATE USER u; GRANT SELECT (a) ON d.t TO u");
    let mut u = Client::connect("127.0.0.1", server.port, "u", "", None).expect("connect");
    u.run("HANDLER d.t OPEN");
    assert_eq!(u.code("HANDLER t READ a FIRST"), Some(1142));
    root.run("GRANT SELECT ON d.t TO u");
    assert_eq!(u.lines("HANDLER t READ a FIRST"), ["1|10"]);
    root.run("REVOKE SELECT ON d.t FROM u");
    assert_eq!(u.code("HANDLER t READ a NEXT"), Some(1142));
    assert_eq!(u.code("HANDLER d.t OPEN AS h"), Some(1142));
}

#[test]
fn it_is_counted_and_bounded() {
    let (server, _dir) = server();
    let mut c = connect(&server);
    c.run("HANDLER t OPEN");
    c.rows("HANDLER t READ a FIRST");
    c.rows("HANDLER t READ a NEXT");
    let counted = c.lines("SHOW STATUS LIKE 'Com_ha\\_%'");
    assert_eq!(
        counted,
        ["Com_ha_close|0", "Com_ha_open|1", "Com_ha_read|2"]
    );
    for nth in 1..1024 {
        c.run(&format!("HANDLER t OPEN AS h{nth}"));
    }
    assert_eq!(c.code("HANDLER t OPEN AS h1024"), Some(1041));
    // Many rows are read on a thread of their own.
    c.run("INSERT INTO t SELECT a + 10, b FROM t; INSERT INTO t SELECT a + 100, b FROM t");
    assert_eq!(c.rows("HANDLER t READ a FIRST LIMIT 1000").len(), 12);
}
