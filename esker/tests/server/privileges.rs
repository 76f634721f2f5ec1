//! Privileges: GRANT and REVOKE on a running server.

mod hidden;
mod roles;

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
fn a_kept_plan_of_a_join_asks_for_privileges_and_names_each_time() {
    let (server, _dir) = server();
    let mut root = server.connect();
    root.run(
        "CREATE DATABASE kept; CREATE TABLE kept.a (id INT PRIMARY KEY, other INT);
         CREATE TABLE kept.b (id INT PRIMARY KEY, v INT); INSERT INTO kept.a VALUES (1, 1), (2, 2);
         INSERT INTO kept.b VALUES (1, 10), (2, 20); CREATE USER joiner;
         GRANT SELECT, CREATE TEMPORARY TABLES ON kept.* TO joiner",
    );
    let mut joiner = connect_as(&server, "joiner");
    let join =
        |id: u32| format!("SELECT b.v FROM kept.a JOIN kept.b ON b.id = a.other WHERE a.id = {id}");
    let by_plan = "SELECT variable_value FROM performance_schema.session_status WHERE variable_name = 'Esker_select_by_plan'";
    for (id, v) in [(1, "10"), (2, "20"), (1, "10")] {
        assert_eq!(joiner.value(&join(id)), v);
    }
    assert_ne!(joiner.value(by_plan), "0", "no plan was kept");
    root.run("REVOKE SELECT ON kept.* FROM joiner; GRANT SELECT ON kept.a TO joiner");
    assert_eq!(joiner.code(&join(1)), Some(1142));
    root.run("GRANT SELECT (id) ON kept.b TO joiner");
    assert_eq!(joiner.code(&join(1)), Some(1143));
    root.run("GRANT SELECT ON kept.* TO joiner");
    assert_eq!(joiner.value(&join(1)), "10");
    joiner.run("CREATE TEMPORARY TABLE kept.b (id INT PRIMARY KEY, v INT); INSERT INTO kept.b VALUES (1, 99)");
    assert_eq!(joiner.value(&join(1)), "99");
    joiner.run("DROP TEMPORARY TABLE kept.b");
    assert_eq!(joiner.value(&join(1)), "10");
    root.run("RENAME TABLE kept.b TO kept.c");
    assert_eq!(joiner.code(&join(1)), Some(1146));
}

#[test]
fn a_view_loses_what_its_definer_loses() {
    let (server, _dir) = server();
    let mut root = server.connect();
    root.run(
        "CREATE USER maker, reader; GRANT SELECT ON d.t TO maker;
         GRANT CREATE VIEW, SHOW VIEW ON d.* TO maker",
    );
    connect_as(&server, "maker").run("CREATE VIEW d.v AS SELECT a, b FROM d.t");
    root.run("GRANT SELECT ON d.v TO reader");
    let mut reader = connect_as(&server, "reader");
    for _ in 0..3 {
        assert_eq!(reader.value("SELECT b FROM d.v WHERE a = 1"), "2");
    }
    root.run("REVOKE SELECT ON d.t FROM maker");
    assert_eq!(reader.code("SELECT b FROM d.v WHERE a = 1"), Some(1356));
    // Whoever may not leave views without a definer takes none away, and makes none that a view waits for.
    root.run("CREATE USER drops; GRANT CREATE USER ON *.* TO drops; CREATE DEFINER = gone VIEW d.w AS SELECT 1");
    let mut drops = connect_as(&server, "drops");
    for sql in [
        "DROP USER maker",
        "RENAME USER maker TO other",
        "CREATE USER gone",
        "RENAME USER reader TO gone",
        "CREATE ROLE IF NOT EXISTS gone",
    ] {
        assert_eq!(drops.code(sql), Some(4006), "{sql}");
    }
    root.run("DROP USER maker");
    assert_eq!(root.rows("SHOW WARNINGS").len(), 1);
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
        &["LOCK TABLES ON d.*", "SELECT (a) ON d.t"],
        &[
            ("LOCK TABLES d.t WRITE", None),
            ("UNLOCK TABLES", None),
            ("LOCK TABLES d.u READ", Some(1142)),
        ],
    );
    let child = "CREATE TABLE d.child (a INT, FOREIGN KEY (a) REFERENCES d.t (a))";
    for (place, code) in [("(a) ON d.t", Some(1142)), ("ON d.t", None)] {
        let grants = [&format!("REFERENCES {place}"), "CREATE ON d.*"];
        check(&server, &grants, &[(child, code)]);
    }
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
    assert_eq!(
        low.lines("SHOW DATABASES"),
        ["d", "information_schema", "performance_schema"]
    );
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
    assert_eq!(
        file.lines("SHOW DATABASES"),
        ["information_schema", "performance_schema"]
    );
    assert!(file.lines(tables).is_empty());
    assert_eq!(file.code("USE d"), Some(1044));
}

#[test]
fn columns_may_be_granted_alone() {
    let (server, dir) = server();
    check(
        &server,
        &["SELECT (a) ON d.t"],
        &[
            ("SELECT a FROM d.t", None),
            ("SELECT COUNT(*) FROM d.t", None),
            ("SELECT a FROM d.t WHERE b = 1", Some(1143)),
            ("SELECT x.a FROM d.t x JOIN d.t y USING (b)", Some(1143)),
            ("SELECT (SELECT MAX(b) FROM d.t)", Some(1143)),
            ("SELECT * FROM d.t", Some(1142)),
            ("SELECT a FROM d.t FOR UPDATE", Some(1142)),
            ("SHOW CREATE TABLE d.t", Some(1142)),
            ("UPDATE d.t SET a = 1", Some(1142)),
        ],
    );
    check(
        &server,
        &["INSERT (a), UPDATE (b), SELECT (a) ON d.t"],
        &[
            ("INSERT INTO d.t (a) VALUES (9)", None),
            ("INSERT INTO d.t (a, b) VALUES (9, 9)", Some(1143)),
            ("INSERT INTO d.t VALUES (9, 9)", Some(1142)),
            (
                "INSERT INTO d.t (a) VALUES (1) ON DUPLICATE KEY UPDATE b = 5",
                None,
            ),
            (
                "INSERT INTO d.t (a) VALUES (1) ON DUPLICATE KEY UPDATE a = 5",
                Some(1143),
            ),
            ("UPDATE d.t SET b = a WHERE a = 1", None),
            ("UPDATE d.t SET b = b + 1", Some(1143)),
            ("UPDATE d.t SET a = 5", Some(1143)),
        ],
    );
    let mut root = server.connect();
    root.run(
        "CREATE USER cols; GRANT SELECT, INSERT (a, b), SELECT (b), UPDATE (a) ON d.t TO cols",
    );
    let shown = |c: &mut Client| c.lines("SHOW GRANTS FOR cols")[1..].to_vec();
    let all =
        "GRANT SELECT, SELECT (`b`), INSERT (`a`, `b`), UPDATE (`a`) ON `d`.`t` TO `cols`@`%`";
    assert_eq!(shown(&mut root), [all]);
    root.run("REVOKE INSERT (a), SELECT ON d.t FROM cols");
    let less = "GRANT INSERT (`b`), UPDATE (`a`) ON `d`.`t` TO `cols`@`%`";
    assert_eq!(shown(&mut root), [less]);
    let mut server = server;
    server.stop();
    server.restart();
    assert_eq!(shown(&mut server.connect()), [less]);
    drop((server, dir));
}

#[test]
fn patterns_of_databases_and_the_most_specific_one() {
    let (server, _dir) = server();
    let mut root = server.connect();
    for schema in ["my_app", "myXapp", "my_app2"] {
        root.run(&format!(
            "CREATE DATABASE {schema}; CREATE TABLE {schema}.t (a INT)"
        ));
    }
    root.run(
        r"CREATE USER low; GRANT SELECT ON `my\_app`.* TO low; GRANT INSERT ON `my%`.* TO low",
    );
    let mut low = connect_as(&server, "low");
    assert_eq!(low.code("SELECT * FROM my_app.t"), None);
    assert_eq!(low.code("INSERT INTO my_app.t VALUES (1)"), Some(1142));
    assert_eq!(low.code("SELECT * FROM myXapp.t"), Some(1142));
    assert_eq!(low.code("INSERT INTO myXapp.t VALUES (1)"), None);
    assert_eq!(low.code("INSERT INTO my_app2.t VALUES (1)"), None);
    // The fourth is `mysql`, which the pattern covers, too.
    assert_eq!(low.lines("SHOW DATABASES LIKE 'my%'").len(), 4);
    assert_eq!(root.code("REVOKE SELECT ON my_app.* FROM low"), Some(1141));
    root.run(r"REVOKE SELECT ON `my\_app`.* FROM low");
    assert_eq!(low.code("INSERT INTO my_app.t VALUES (1)"), None);
}

#[test]
fn grants_are_checked_and_shown_as_in_mysql() {
    let (server, _dir) = server();
    let mut root = server.connect();
    root.run("CREATE USER low, other");
    for (sql, code) in [
        ("GRANT NO_SUCH ON *.* TO low", 1149),
        ("GRANT ROLE_ADMIN ON d.* TO low", 3619),
        ("GRANT PROCESS ON d.* TO low", 1221),
        ("GRANT LOCK TABLES ON d.t TO low", 1144),
        ("GRANT SELECT (a) ON d.* TO low", 1144),
        ("GRANT SELECT (x) ON d.t TO low", 1054),
        ("GRANT SELECT ON d.missing TO low", 1146),
        ("GRANT SELECT ON d.* TO nobody", 1410),
        ("REVOKE SELECT ON d.* FROM low", 1141),
        ("REVOKE SELECT ON d.t FROM low", 1147),
        ("REVOKE ALL, GRANT OPTION FROM nobody", 1269),
    ] {
        assert_eq!(root.code(sql), Some(code), "{sql}");
    }
    root.run(
        "GRANT CREATE ON d.later TO low; GRANT ROLE_ADMIN, BINLOG_ADMIN ON *.* TO low WITH GRANT OPTION;
         GRANT FLUSH_STATUS, PROCESS ON *.* TO low; GRANT SELECT ON d.t TO low WITH GRANT OPTION;
         GRANT ALL ON e.* TO low",
    );
    assert_eq!(
        root.lines("SHOW GRANTS FOR low"),
        [
            "GRANT PROCESS ON *.* TO `low`@`%`",
            "GRANT FLUSH_STATUS ON *.* TO `low`@`%`",
            "GRANT BINLOG_ADMIN,ROLE_ADMIN ON *.* TO `low`@`%` WITH GRANT OPTION",
            "GRANT ALL PRIVILEGES ON `e`.* TO `low`@`%`",
            "GRANT CREATE ON `d`.`later` TO `low`@`%`",
            "GRANT SELECT ON `d`.`t` TO `low`@`%` WITH GRANT OPTION",
        ]
    );
    let mut low = connect_as(&server, "low");
    for (sql, code) in [
        ("GRANT SELECT ON d.t TO other", None),
        ("GRANT INSERT ON d.t TO other", Some(1142)),
        ("GRANT SELECT ON d.u TO other", Some(1142)),
        ("GRANT SELECT ON d.* TO other", Some(1044)),
        ("GRANT SELECT ON *.* TO other", Some(1045)),
        ("GRANT ROLE_ADMIN ON *.* TO other", None),
        ("GRANT FLUSH_STATUS ON *.* TO other", Some(1227)),
        ("SHOW GRANTS FOR other", Some(1142)),
    ] {
        assert_eq!(low.code(sql), code, "{sql}");
    }
}

#[test]
fn who_has_system_user_is_changed_by_those_who_have_it() {
    let (server, _dir) = server();
    let mut root = server.connect();
    root.run("CREATE USER low, high, admin; GRANT SYSTEM_USER ON *.* TO high; GRANT CREATE USER ON *.* TO admin");
    let mut admin = connect_as(&server, "admin");
    for sql in [
        "ALTER USER high IDENTIFIED BY 'x'",
        "ALTER USER root@localhost IDENTIFIED BY 'x'",
        "DROP USER root@localhost",
        "RENAME USER high TO higher",
        "REVOKE ALL, GRANT OPTION FROM high",
    ] {
        assert_eq!(admin.code(sql), Some(1227), "{sql}");
    }
    admin.run("ALTER USER low IDENTIFIED BY 'x'; REVOKE ALL, GRANT OPTION FROM low; DROP USER low");
    // Neither does anybody else make somebody one of them, or change what one of them has defined.
    root.run(
        "GRANT ROLE_ADMIN ON *.* TO admin; GRANT EVENT ON d.* TO admin; CREATE ROLE plain;
         CREATE EVENT d.by_root ON SCHEDULE EVERY 1 DAY DO SELECT 1",
    );
    for sql in [
        "GRANT high TO admin",
        "REVOKE high FROM admin",
        "ALTER EVENT d.by_root COMMENT 'x'",
        "DROP EVENT d.by_root",
    ] {
        assert_eq!(admin.code(sql), Some(1227), "{sql}");
    }
    admin.run("GRANT plain TO admin");
    root.run("GRANT SYSTEM_USER ON *.* TO admin");
    admin.run("GRANT high TO plain; ALTER EVENT d.by_root COMMENT 'x'; DROP EVENT d.by_root; DROP USER high");
}

#[test]
fn current_user_in_a_view_is_whose_rights_the_view_has() {
    let (server, _dir) = server();
    let mut root = server.connect();
    root.run(
        "CREATE USER reader; GRANT SELECT, DELETE ON d.* TO reader; CREATE TABLE d.own (who VARCHAR(64), v INT);
         INSERT INTO d.own VALUES ('root@localhost', 1), ('reader@%', 2);
         CREATE VIEW d.of_definer AS SELECT v, CURRENT_USER() AS c FROM d.own WHERE who = CURRENT_USER();
         CREATE SQL SECURITY INVOKER VIEW d.of_invoker AS SELECT v, CURRENT_USER AS c FROM d.own WHERE who = CURRENT_USER;
         CREATE VIEW d.of_both AS SELECT * FROM d.of_invoker",
    );
    let mut reader = connect_as(&server, "reader");
    assert_eq!(
        reader.lines("SELECT *, CURRENT_USER() FROM d.of_definer"),
        ["1|root@localhost|reader@%"]
    );
    assert_eq!(reader.lines("SELECT * FROM d.of_invoker"), ["2|reader@%"]);
    assert_eq!(
        reader.lines("SELECT * FROM d.of_both"),
        ["1|root@localhost"]
    );
    reader.run("DELETE FROM d.of_definer");
    assert_eq!(root.lines("SELECT v FROM d.own"), ["2"]);
}

#[test]
fn dynamic_privileges_are_told_apart() {
    let (server, _dir) = server();
    let one = |privilege: &str, sql: &str| {
        let grant = format!("{privilege} ON *.*");
        check(&server, &[grant.as_str()], &[(sql, None)]);
        check(&server, &["BACKUP_ADMIN ON *.*"], &[(sql, Some(1227))]);
    };
    one("SYSTEM_VARIABLES_ADMIN", "SET GLOBAL max_connections = 151");
    one(
        "SESSION_VARIABLES_ADMIN",
        "SET SESSION sql_require_primary_key = 0",
    );
    one("FLUSH_STATUS", "FLUSH STATUS");
    one("CREATE TABLESPACE", "CREATE TABLESPACE of_one");
    one("CREATE TABLESPACE", "DROP TABLESPACE of_one");
    one("FLUSH_TABLES", "FLUSH TABLES");
    one("FLUSH_PRIVILEGES", "FLUSH PRIVILEGES");
    one("CREATE ROLE", "CREATE ROLE IF NOT EXISTS made");
    one("REPLICATION CLIENT", "SHOW REPLICA STATUS");
    server.connect().run("CREATE USER other");
    check(
        &server,
        &["CREATE VIEW ON d.*"],
        &[("CREATE DEFINER = other VIEW d.x AS SELECT 1", Some(1227))],
    );
    check(
        &server,
        &["CREATE VIEW ON d.*", "SET_ANY_DEFINER ON *.*"],
        &[
            (
                "CREATE DEFINER = root@localhost VIEW d.x AS SELECT 1",
                Some(1227),
            ),
            ("CREATE DEFINER = other VIEW d.x AS SELECT 1", None),
            ("CREATE DEFINER = nobody VIEW d.y AS SELECT 1", Some(1227)),
        ],
    );
    check(
        &server,
        &[
            "CREATE VIEW ON d.*",
            "SET_ANY_DEFINER, ALLOW_NONEXISTENT_DEFINER ON *.*",
        ],
        &[("CREATE DEFINER = nobody VIEW d.y AS SELECT 1", None)],
    );
}

#[test]
fn nobody_grants_or_drops_more_than_is_theirs() {
    let (server, _dir) = server();
    let mut root = server.connect();
    root.run(
        "CREATE USER boss; GRANT SELECT ON *.* TO boss WITH GRANT OPTION;
         CREATE USER dropper; GRANT DROP ROLE ON *.* TO dropper; CREATE USER u; CREATE ROLE r, s",
    );
    // GRANT OPTION on *.* is about static privileges.
    let mut boss = connect_as(&server, "boss");
    for privilege in ["ROLE_ADMIN", "SYSTEM_USER", "SELECT, CONNECTION_ADMIN"] {
        for change in ["GRANT", "REVOKE"] {
            let to = if change == "GRANT" { "TO" } else { "FROM" };
            let sql = format!("{change} {privilege} ON *.* {to} boss");
            assert_eq!(boss.code(&sql), Some(1227), "{sql}");
        }
    }
    root.run("GRANT ROLE_ADMIN ON *.* TO boss WITH GRANT OPTION");
    boss.run("GRANT ROLE_ADMIN ON *.* TO u");
    // As a privilege of the list GRANT OPTION is about those that an account has, too.
    root.run("CREATE USER v; GRANT ROLE_ADMIN ON *.* TO v");
    let options = |root: &mut Client| {
        let grants = root.lines("SHOW GRANTS FOR v");
        let with = grants
            .iter()
            .map(|grant| grant.ends_with(" WITH GRANT OPTION"));
        with.collect::<Vec<_>>()
    };
    root.run("GRANT SELECT ON *.* TO v WITH GRANT OPTION");
    assert_eq!(options(&mut root), [true, false]);
    root.run("GRANT BINLOG_ADMIN ON *.* TO v; GRANT GRANT OPTION ON *.* TO v");
    assert_eq!(options(&mut root), [true, true]);
    connect_as(&server, "v").run("GRANT BINLOG_ADMIN ON *.* TO u");
    // DROP ROLE is about accounts that are locked, as roles are.
    let mut dropper = connect_as(&server, "dropper");
    for sql in ["DROP ROLE u", "DROP ROLE root@localhost", "DROP ROLE r, u"] {
        assert_eq!(dropper.code(sql), Some(1227), "{sql}");
    }
    assert_eq!(dropper.code("DROP ROLE nobody"), Some(1396));
    dropper.run("DROP ROLE r");
    root.run("DROP ROLE s, u");
}

#[test]
fn the_default_of_a_column_is_for_those_who_may_read_it() {
    let (server, _dir) = server();
    server.connect().run("INSERT INTO d.u VALUES (1, 1)");
    check(
        &server,
        &["INSERT, UPDATE, SELECT (a) ON d.u"],
        &[
            ("INSERT INTO d.u VALUES (2, DEFAULT)", None),
            ("INSERT INTO d.u VALUES (3, DEFAULT(b))", Some(1143)),
            (
                "INSERT INTO d.u (a) VALUES (1) ON DUPLICATE KEY UPDATE b = DEFAULT",
                None,
            ),
            (
                "INSERT INTO d.u (a) VALUES (1) ON DUPLICATE KEY UPDATE b = DEFAULT(b)",
                Some(1143),
            ),
            ("UPDATE d.u SET b = DEFAULT", None),
            ("UPDATE d.u SET b = DEFAULT(b)", Some(1143)),
            ("UPDATE d.u SET a = 7 WHERE DEFAULT(b) = 1", Some(1143)),
            ("SELECT DEFAULT(b) FROM d.u", Some(1143)),
            ("SELECT (SELECT DEFAULT(u.b)) FROM d.u", Some(1143)),
            ("SELECT a FROM d.u ORDER BY DEFAULT(b)", Some(1143)),
        ],
    );
}

#[test]
fn keys_show_only_columns_that_one_may_see() {
    let (server, _dir) = server();
    let mut root = server.connect();
    root.run(
        "CREATE TABLE d.k (a INT, b INT, c INT, PRIMARY KEY (a, b), UNIQUE (c), FOREIGN KEY (c) REFERENCES d.t (a));
         CREATE USER u, v; GRANT SELECT (b) ON d.k TO u; GRANT DELETE ON d.k TO v",
    );
    let keys = "SELECT constraint_name, column_name FROM information_schema.key_column_usage \
                WHERE table_name = 'k' ORDER BY 1, 2";
    assert_eq!(connect_as(&server, "u").lines(keys), ["PRIMARY|b"]);
    assert!(connect_as(&server, "v").lines(keys).is_empty());
    let all = ["c|c", "k_ibfk_1|c", "PRIMARY|a", "PRIMARY|b"];
    assert_eq!(root.lines(keys), all);
}

#[test]
fn mandatory_roles_are_not_dropped_as_users_either() {
    let (server, _dir) = server();
    let mut root = server.connect();
    root.run("CREATE USER u; CREATE ROLE r; SET GLOBAL mandatory_roles = 'r'");
    for sql in ["DROP USER r", "DROP USER u, r", "DROP USER IF EXISTS r"] {
        assert_eq!(root.code(sql), Some(3628), "{sql}");
    }
    root.run("SHOW GRANTS FOR u; SHOW GRANTS FOR r");
    root.run("SET GLOBAL mandatory_roles = ''; DROP USER r, u");
}

#[test]
fn what_commits_first_does_so_also_where_it_is_denied() {
    let (server, _dir) = server();
    let mut root = server.connect();
    root.run("CREATE USER low; GRANT SELECT, INSERT ON d.t TO low");
    let mut low = connect_as(&server, "low");
    low.run("USE d");
    for (nth, (statement, code)) in [
        ("CREATE TABLE x (a INT)", 1142),
        ("DROP TABLE t", 1142),
        ("ALTER TABLE t ADD c INT", 1142),
        ("CREATE INDEX i ON t (b)", 1142),
        ("TRUNCATE TABLE t", 1142),
        ("RENAME TABLE t TO x", 1142),
        ("CREATE DATABASE x", 1044),
        ("DROP DATABASE d", 1044),
        ("CREATE VIEW v AS SELECT 1", 1142),
        ("CREATE PROCEDURE p() SELECT 1", 1044),
        (
            "CREATE TRIGGER g BEFORE INSERT ON t FOR EACH ROW SET @a = 1",
            1142,
        ),
        ("CREATE EVENT e ON SCHEDULE EVERY 1 DAY DO SELECT 1", 1044),
        ("DROP EVENT e", 1044),
        ("LOCK TABLES t WRITE", 1044),
        ("CREATE USER x", 1227),
    ]
    .into_iter()
    .enumerate()
    {
        let key = 100 + nth;
        low.run(&format!("BEGIN; INSERT INTO t VALUES ({key}, 0)"));
        assert_eq!(low.code(statement), Some(code), "{statement}");
        low.run("ROLLBACK");
        let kept = low.value(&format!("SELECT COUNT(*) FROM t WHERE a = {key}"));
        assert_eq!(kept, "1", "{statement}");
    }
    // One that is no schema change commits nothing.
    low.run("BEGIN; INSERT INTO t VALUES (200, 0)");
    assert_eq!(low.code("DELETE FROM t"), Some(1142));
    low.run("ROLLBACK");
    assert_eq!(low.value("SELECT COUNT(*) FROM t WHERE a = 200"), "0");
}

#[test]
fn a_routine_that_was_there_is_not_granted_to_who_would_have_made_it() {
    let (server, _dir) = server();
    let mut root = server.connect();
    root.run("CREATE PROCEDURE d.p() SELECT CURRENT_USER()");
    root.run("CREATE USER low; GRANT CREATE ROUTINE ON d.* TO low");
    let mut low = connect_as(&server, "low");
    low.run("CREATE PROCEDURE IF NOT EXISTS d.p() SELECT 2");
    assert_eq!(low.code("CALL d.p()"), Some(1370));
    assert_eq!(low.code("DROP PROCEDURE d.p"), Some(1370));
    low.run("CREATE PROCEDURE IF NOT EXISTS d.q() SELECT 2");
    assert_eq!(low.value("CALL d.q()"), "2");
    low.run("DROP PROCEDURE d.q");
}

#[test]
fn nobody_lifts_his_restrictions_by_granting_as_another() {
    let (server, _dir) = server();
    let mut root = server.connect();
    root.run(
        "SET GLOBAL partial_revokes = ON; CREATE USER boss, low; GRANT SELECT ON *.* TO boss WITH GRANT OPTION;
         REVOKE SELECT ON mysql.* FROM boss",
    );
    let mut boss = connect_as(&server, "boss");
    assert_eq!(
        boss.code("GRANT SELECT ON *.* TO low AS root@localhost"),
        Some(3836)
    );
    assert_eq!(boss.code("GRANT SELECT ON *.* TO low AS boss"), None);
    let granted = [
        "GRANT SELECT ON *.* TO `low`@`%`",
        "REVOKE SELECT ON `mysql`.* FROM `low`@`%`",
    ];
    assert_eq!(root.lines("SHOW GRANTS FOR low"), granted);
}
