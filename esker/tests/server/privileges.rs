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
