//! Names of storage engines: which tables there are, what is shown, what a restart leaves.

use esker_server::client::Client;

use crate::common::{Ask, Server};

fn server(args: &[&str]) -> (Server, tempfile::TempDir) {
    let dir = tempfile::tempdir().expect("folder");
    let args = [&["--skip-ssl"], args].concat();
    let server = Server::start(dir.path(), &args);
    server.connect().run("CREATE DATABASE d");
    (server, dir)
}

fn connect(server: &Server) -> Client {
    let mut c = server.connect();
    c.run("USE d");
    c
}

fn engine_of(c: &mut Client, table: &str) -> String {
    let sql = format!(
        "SELECT ENGINE FROM information_schema.TABLES WHERE TABLE_SCHEMA = 'd' AND TABLE_NAME = '{table}'"
    );
    c.value(&sql)
}

#[test]
fn tables_of_other_engines_work() {
    let (server, _dir) = server(&[]);
    let mut c = connect(&server);
    for (engine, shown) in [
        ("MyISAM", "InnoDB"),
        ("archive", "InnoDB"),
        ("HEAP", "MEMORY"),
    ] {
        c.run(&format!(
            "DROP TABLE IF EXISTS t; CREATE TABLE t (a INT) ENGINE={engine}"
        ));
        let warnings = match shown {
            "MEMORY" => vec![],
            _ => vec!["Warning|1266|Using storage engine InnoDB for table 't'"],
        };
        assert_eq!(c.lines("SHOW WARNINGS"), warnings, "{engine}");
        c.run("INSERT INTO t VALUES (1)");
        assert_eq!(engine_of(&mut c, "t"), shown);
        let text = &c.lines("SHOW CREATE TABLE t")[0];
        assert!(text.contains(&format!("ENGINE={shown} ")), "{text}");
    }
    assert_eq!(
        c.code("CREATE TABLE x (a INT) ENGINE=BLACKHOLE"),
        Some(1286)
    );
    assert_eq!(c.code("ALTER TABLE t ENGINE=nope"), Some(1286));
    c.run("SET sql_mode = ''; CREATE TABLE x (a INT) ENGINE=nope");
    assert_eq!(
        c.lines("SHOW WARNINGS"),
        [
            "Warning|1286|Unknown storage engine 'nope'",
            "Warning|1266|Using storage engine InnoDB for table 'x'"
        ]
    );
    // A table that exists keeps what it has.
    c.run("ALTER TABLE t ENGINE=nope");
    assert_eq!(
        c.lines("SHOW WARNINGS"),
        ["Warning|1286|Unknown storage engine 'nope'"]
    );
    assert_eq!(engine_of(&mut c, "t"), "MEMORY");
    c.run("CREATE TABLE like_t LIKE t; ALTER TABLE t ENGINE=InnoDB");
    assert_eq!(engine_of(&mut c, "t"), "InnoDB");
    assert_eq!(engine_of(&mut c, "like_t"), "MEMORY");
    c.run("SET default_storage_engine = memory; CREATE TABLE m (a INT)");
    assert_eq!(engine_of(&mut c, "m"), "MEMORY");
    assert_eq!(c.code("SET default_storage_engine = nope"), Some(1286));
    let engines = c.lines("SHOW ENGINES");
    let starts = |line: &str| engines.iter().any(|e| e.starts_with(line));
    assert!(
        starts("InnoDB|DEFAULT|") && starts("MEMORY|YES|"),
        "{engines:?}"
    );
    assert!(
        starts("MyISAM|NO|") && starts("FEDERATED|NO|"),
        "{engines:?}"
    );
}

#[test]
fn a_setting_substitutes_every_engine() {
    let (server, _dir) = server(&[
        // effect: esker_substitute_engines
        "--esker-substitute-engines=ON",
        "--default-storage-engine=MyISAM",
    ]);
    let mut c = connect(&server);
    c.run("CREATE TABLE t (a INT) ENGINE=federated");
    assert_eq!(engine_of(&mut c, "t"), "InnoDB");
    c.run("ALTER TABLE t ENGINE=TokuDB; CREATE TABLE plain (a INT)");
    assert_eq!(
        c.lines("SHOW WARNINGS"),
        ["Warning|1266|Using storage engine InnoDB for table 'plain'"]
    );
}

#[test]
fn memory_tables_are_empty_after_a_restart() {
    let (mut server, _dir) = server(&[]);
    let mut c = connect(&server);
    c.run(
        "CREATE TABLE m (id INT PRIMARY KEY AUTO_INCREMENT, a INT, KEY (a)) ENGINE=MEMORY;
         CREATE TABLE kept LIKE m; ALTER TABLE kept ENGINE=InnoDB;
         CREATE TABLE held LIKE m;
         INSERT INTO m (a) VALUES (1),(2); INSERT INTO kept SELECT * FROM m;
         XA START 'x'; INSERT INTO held VALUES (7, 7); XA END 'x'; XA PREPARE 'x'",
    );
    for round in 0..2 {
        match round {
            0 => server.kill(),
            _ => server.stop(),
        }
        server.restart();
        c = connect(&server);
        assert_eq!(c.value("SELECT COUNT(*) FROM m"), "0");
        assert_eq!(c.value("SELECT COUNT(*) FROM m WHERE a > 0"), "0");
        assert_eq!(c.value("SELECT COUNT(*) FROM kept"), "2");
        c.run("INSERT INTO m (a) VALUES (5)");
        assert_eq!(c.lines("SELECT * FROM m"), ["1|5"]);
        assert!(c.lines("CHECK TABLE m").iter().any(|l| l.ends_with("|OK")));
    }
    // A prepared transaction goes on to own what it wrote.
    c.run("XA COMMIT 'x'");
    assert_eq!(c.lines("SELECT * FROM held"), ["7|7"]);
    server.kill();
    server.restart();
    assert_eq!(connect(&server).value("SELECT COUNT(*) FROM held"), "0");
}

#[test]
fn programs_that_do_not_exist_can_be_dropped_if_they_exist() {
    let (server, _dir) = server(&[]);
    let mut c = connect(&server);
    for (what, note, text, code) in [
        ("PROCEDURE p", 1305, "PROCEDURE d.p does not exist", 1305),
        ("FUNCTION p", 1305, "FUNCTION d.p does not exist", 1305),
        (
            "FUNCTION sys.p",
            1305,
            "FUNCTION sys.p does not exist",
            1305,
        ),
        ("TRIGGER p", 1360, "Trigger does not exist", 1360),
        ("TRIGGER nodb.p", 1049, "Unknown database 'nodb'", 1049),
        ("EVENT p", 1305, "Event p does not exist", 1539),
    ] {
        assert_eq!(c.code(&format!("DROP {what}")), Some(code), "{what}");
        c.run(&format!("DROP {}", what.replacen(' ', " IF EXISTS ", 1)));
        assert_eq!(c.lines("SHOW WARNINGS"), [format!("Note|{note}|{text}")]);
    }
    for show in ["TRIGGERS", "EVENTS", "PROCEDURE STATUS", "FUNCTION STATUS"] {
        assert_eq!(c.rows(&format!("SHOW {show}")).len(), 0, "{show}");
    }
    assert_eq!(c.code("SHOW TRIGGERS FROM nodb"), Some(1049));
}

#[test]
fn there_are_no_foreign_servers() {
    let (server, _dir) = server(&[]);
    let mut c = server.connect();
    c.run("DROP SERVER IF EXISTS s; DROP SERVER IF EXISTS 's'");
    assert_eq!(c.code("DROP SERVER s"), Some(1477));
    assert_eq!(
        c.code("PREPARE p FROM 'DROP SERVER IF EXISTS s'"),
        Some(1295)
    );
    let create = "CREATE SERVER s FOREIGN DATA WRAPPER mysql OPTIONS (HOST 'h')";
    assert_eq!(c.code(create), Some(1235));
}
