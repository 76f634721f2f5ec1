//! Who may do what: GRANT and REVOKE on a running server.

use esker_server::client::Client;

use crate::common::{Ask, Server};

fn server() -> (Server, tempfile::TempDir) {
    let dir = tempfile::tempdir().expect("folder");
    let server = Server::start(dir.path(), &["--skip-ssl"]);
    server.connect().run(
        "CREATE DATABASE d; CREATE TABLE d.t (a INT PRIMARY KEY, b INT); INSERT INTO d.t VALUES (1,2);
         CREATE TABLE d.u (a INT PRIMARY KEY, b INT)",
    );
    (server, dir)
}

fn connect_as(server: &Server, user: &str) -> Client {
    Client::connect("127.0.0.1", server.port, user, "", None).expect("connect")
}

#[test]
fn what_is_granted_and_revoked_reaches_open_sessions_at_their_next_statement() {
    let (server, _dir) = server();
    let mut root = server.connect();
    root.run("CREATE USER other; CREATE VIEW d.v AS SELECT a FROM d.t");
    for level in ["*.*", "d.*", "d.t"] {
        root.run("CREATE USER low");
        root.run(&format!("GRANT SELECT ON {level} TO low"));
        let mut low = connect_as(&server, "low");
        let read = "SELECT b FROM d.t WHERE a = 1";
        low.run("PREPARE p FROM 'SELECT b FROM d.t WHERE a = ?'; SET @a = 1");
        for _ in 0..3 {
            // The third time runs from the text's plan.
            assert_eq!(low.value(read), "2", "{level}");
            assert_eq!(low.value("EXECUTE p USING @a"), "2", "{level}");
        }
        root.run(&format!("REVOKE SELECT ON {level} FROM low"));
        assert_eq!(low.code(read), Some(1142), "{level}");
        assert_eq!(low.code("EXECUTE p USING @a"), Some(1142), "{level}");
        assert_eq!(low.code("USE d"), Some(1044), "{level}");
        root.run(&format!("GRANT SELECT ON {level} TO low"));
        assert_eq!(low.value(read), "2", "{level}");
        low.run("USE d");
        // Between the statements of one text, too.
        root.run(&format!("GRANT GRANT OPTION ON {level} TO low"));
        let texts = format!("REVOKE SELECT ON {level} FROM low; {read}");
        assert_eq!(low.code(&texts), Some(1142), "{level}");
        root.run(&format!("GRANT SELECT ON {level} TO low"));
        assert_eq!(low.value(read), "2", "{level}");
        root.run("DROP USER low");
        assert_eq!(low.code(read), Some(1142), "{level}");
        assert_eq!(low.code("CREATE DATABASE e"), Some(1044), "{level}");
        assert_eq!(low.code("DROP USER other"), Some(1227), "{level}");
    }
}

#[test]
fn a_view_loses_what_its_definer_loses() {
    let (server, _dir) = server();
    let mut root = server.connect();
    root.run(
        "CREATE USER maker, reader; GRANT SELECT ON d.t TO maker;
         GRANT CREATE VIEW, SHOW VIEW ON d.* TO maker; GRANT SELECT ON d.v TO maker",
    );
    connect_as(&server, "maker").run("CREATE VIEW d.v AS SELECT a, b FROM d.t");
    root.run("GRANT SELECT ON d.v TO reader");
    let mut reader = connect_as(&server, "reader");
    for _ in 0..3 {
        assert_eq!(reader.value("SELECT b FROM d.v WHERE a = 1"), "2");
    }
    root.run("REVOKE SELECT ON d.t FROM maker");
    assert_eq!(reader.code("SELECT b FROM d.v WHERE a = 1"), Some(1356));
    root.run("DROP USER maker");
    assert_eq!(reader.code("SELECT b FROM d.v WHERE a = 1"), Some(1449));
}

/// Grants, and what statements answer to an account that has no more.
fn check(server: &Server, grants: &[&str], expected: &[(&str, Option<u16>)]) {
    let mut root = server.connect();
    root.run("DROP USER IF EXISTS low; CREATE USER low");
    for grant in grants {
        root.run(&format!("GRANT {grant} TO low"));
    }
    let mut low = connect_as(server, "low");
    for (sql, code) in expected {
        low.run("BEGIN");
        assert_eq!(low.code(sql), *code, "{grants:?}: {sql}");
        low.run("ROLLBACK");
    }
}

#[test]
fn statements_want_what_they_use_and_no_more() {
    let (server, _dir) = server();
    server
        .connect()
        .run("CREATE DATABASE e; CREATE VIEW d.v AS SELECT a FROM d.t");
    check(
        &server,
        &["SELECT ON d.*"],
        &[
            ("SELECT a FROM d.t FOR UPDATE", Some(1142)),
            ("SELECT a FROM d.v FOR UPDATE", Some(1142)),
            ("SELECT a FROM d.t FOR SHARE", None),
            ("SELECT a FROM (SELECT a FROM d.t) x FOR UPDATE", None),
            ("LOCK TABLES d.t READ", Some(1044)),
            ("EXPLAIN SELECT a FROM d.v", Some(1345)),
            ("SHOW CREATE VIEW d.v", Some(1142)),
            ("CREATE TABLE e.n LIKE d.t", Some(1142)),
        ],
    );
    check(
        &server,
        &["INSERT ON d.t"],
        &[
            ("INSERT INTO d.t VALUES (9, 9)", None),
            ("INSERT INTO d.t VALUES (9, a)", Some(1143)),
            ("INSERT INTO d.t SELECT 8, 8", None),
            ("INSERT INTO d.t SELECT * FROM d.t", Some(1142)),
            (
                "INSERT INTO d.t VALUES (9, 9) ON DUPLICATE KEY UPDATE b = 1",
                Some(1142),
            ),
            ("REPLACE INTO d.t VALUES (1, 9)", Some(1142)),
            ("SELECT COUNT(*) FROM d.t", Some(1142)),
        ],
    );
    check(
        &server,
        &["UPDATE ON d.t"],
        &[
            ("UPDATE d.t SET b = 1", None),
            ("UPDATE d.t SET b = b + 1", Some(1143)),
            ("UPDATE d.t SET b = 1 WHERE a = 1", Some(1143)),
            ("UPDATE d.t SET b = 1 ORDER BY a LIMIT 1", Some(1143)),
            ("UPDATE d.t t, d.u u SET t.b = 1", Some(1142)),
        ],
    );
    check(
        &server,
        &["SELECT, UPDATE ON d.t", "SELECT ON d.u"],
        &[
            ("UPDATE d.t t, d.u u SET t.b = u.b WHERE t.a = u.a", None),
            ("UPDATE d.t t, d.u u SET u.b = t.b", Some(1143)),
            ("SELECT 1 FROM d.t JOIN d.u FOR UPDATE OF t", None),
            ("SELECT 1 FROM d.t JOIN d.u FOR UPDATE", Some(1142)),
        ],
    );
    check(
        &server,
        &["DELETE ON d.t"],
        &[
            ("DELETE FROM d.t", None),
            ("DELETE FROM d.t WHERE a = 1", Some(1143)),
            ("DELETE d.t FROM d.t", Some(1142)),
            ("TRUNCATE d.t", Some(1142)),
        ],
    );
    check(
        &server,
        &["ALTER, DROP ON d.t", "CREATE ON e.*", "CREATE ON d.*"],
        &[
            ("ALTER TABLE d.t RENAME e.t", Some(1142)),
            ("RENAME TABLE d.t TO e.t", Some(1142)),
            ("CREATE TABLE e.n LIKE d.u", Some(1142)),
        ],
    );
    check(
        &server,
        &["LOCK TABLES ON d.*"],
        &[("LOCK TABLES d.t WRITE", Some(1142))],
    );
    check(
        &server,
        &["SELECT ON d.v"],
        &[
            ("SELECT a FROM d.v", None),
            ("SHOW CREATE TABLE d.t", Some(1142)),
            ("SHOW COLUMNS FROM d.t", Some(1142)),
            ("SHOW COLUMNS FROM d.v", None),
            ("SHOW CREATE TABLE d.missing", Some(1142)),
        ],
    );
}

#[test]
fn metadata_show_what_something_is_granted_on() {
    let (server, _dir) = server();
    let mut root = server.connect();
    root.run("CREATE DATABASE e; CREATE TABLE e.x (a INT); CREATE VIEW d.v AS SELECT a FROM d.t; CREATE USER low, file");
    root.run("GRANT INSERT ON d.u TO low; GRANT SELECT ON d.v TO low; GRANT FILE, PROCESS ON *.* TO file");
    let mut low = connect_as(&server, "low");
    assert_eq!(low.lines("SHOW DATABASES"), ["d", "information_schema"]);
    assert_eq!(low.lines("SHOW TABLES FROM d"), ["u", "v"]);
    assert_eq!(low.code("SHOW TABLES FROM e"), Some(1044));
    let tables = "SELECT table_name FROM information_schema.tables WHERE table_schema IN ('d', 'e') ORDER BY 1";
    assert_eq!(low.lines(tables), ["u", "v"]);
    let columns = "SELECT table_name, column_name, privileges FROM information_schema.columns \
                   WHERE table_schema IN ('d', 'e') ORDER BY 1, 2";
    assert_eq!(
        low.lines(columns),
        ["u|a|insert", "u|b|insert", "v|a|select"]
    );
    let texts = "SELECT view_definition = '' FROM information_schema.views";
    assert_eq!(low.lines(texts), ["1"]);
    root.run("GRANT SHOW VIEW ON d.v TO low");
    assert_eq!(low.lines(texts), ["0"]);
    let mut file = connect_as(&server, "file");
    assert_eq!(file.lines("SHOW DATABASES"), ["information_schema"]);
    assert!(file.lines(tables).is_empty());
    assert_eq!(file.code("USE d"), Some(1044));
}
