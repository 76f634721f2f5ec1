//! Foreign keys over real connections: plans that have to be made anew, locks between sessions, dumps, a crash in the
//! middle of cascades, the tables about them.

use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

use esker_server::client::Client;

use crate::common::{Ask, Server, has_client, serve_command};

fn server() -> (Server, tempfile::TempDir) {
    let dir = tempfile::tempdir().expect("folder");
    let files = dir.path().join("files");
    std::fs::create_dir(&files).expect("folder");
    let files = format!("--secure-file-priv={}", files.display());
    let server = Server::start(dir.path(), &["--skip-ssl", &files]);
    server.connect().run(
        "CREATE DATABASE d; USE d; CREATE TABLE p (id INT PRIMARY KEY, n INT); \
         INSERT INTO p VALUES (1, 0), (2, 0), (3, 0)",
    );
    (server, dir)
}

fn connect(server: &Server) -> Client {
    let mut c = server.connect();
    c.run("USE d");
    c
}

#[test]
fn statements_that_were_compiled_before_learn_of_keys() {
    let (server, _dir) = server();
    let (mut user, mut admin) = (connect(&server), connect(&server));
    user.run("CREATE TABLE c (id INT PRIMARY KEY AUTO_INCREMENT, pid INT, KEY (pid))");
    let insert =
        |user: &mut Client, pid: u32| user.code(&format!("INSERT INTO c (pid) VALUES ({pid})"));
    let delete = |user: &mut Client, id: u32| user.code(&format!("DELETE FROM p WHERE id = {id}"));
    user.run("PREPARE del FROM 'DELETE FROM p WHERE id = ?'; SET @one = 1, @nine = 9");
    for _ in 0..3 {
        assert_eq!(insert(&mut user, 1), None);
        assert_eq!(delete(&mut user, 9), None);
        user.run("EXECUTE del USING @nine");
    }
    admin.run("ALTER TABLE c ADD CONSTRAINT f FOREIGN KEY (pid) REFERENCES p (id)");
    assert_eq!(insert(&mut user, 9), Some(1452));
    assert_eq!(delete(&mut user, 1), Some(1451));
    assert_eq!(user.code("EXECUTE del USING @one"), Some(1451));
    // The checks are a matter of each execution.
    user.run("SET foreign_key_checks = 0");
    assert_eq!(insert(&mut user, 9), None);
    user.run("SET foreign_key_checks = 1");
    assert_eq!(insert(&mut user, 9), Some(1452));
    admin.run("ALTER TABLE c DROP FOREIGN KEY f");
    assert_eq!(insert(&mut user, 9), None);
    assert_eq!(delete(&mut user, 1), None);
    // A parent that is not there yet, or not any more.
    admin.run(
        "SET foreign_key_checks = 0; \
         CREATE TABLE o (x INT, CONSTRAINT o FOREIGN KEY (x) REFERENCES later (id) ON DELETE CASCADE)",
    );
    for _ in 0..3 {
        assert_eq!(user.code("INSERT INTO o VALUES (1)"), Some(1452));
    }
    admin.run("CREATE TABLE later (id INT PRIMARY KEY); INSERT INTO later VALUES (1)");
    for _ in 0..3 {
        assert_eq!(user.code("INSERT INTO o VALUES (1)"), None);
    }
    admin.run("DROP TABLE later");
    assert_eq!(user.code("INSERT INTO o VALUES (1)"), Some(1452));
}

#[test]
fn schema_changes_wait_for_transactions_on_the_other_side() {
    let (server, _dir) = server();
    let (mut user, mut admin) = (connect(&server), connect(&server));
    user.run("CREATE TABLE c (pid INT, FOREIGN KEY (pid) REFERENCES p (id) ON DELETE CASCADE)");
    admin.run("SET lock_wait_timeout = 1");
    user.run("BEGIN; INSERT INTO c VALUES (1)");
    for sql in [
        "ALTER TABLE p ADD x INT",
        "RENAME TABLE p TO q",
        "CREATE TABLE e (pid INT, FOREIGN KEY (pid) REFERENCES p (id))",
    ] {
        assert_eq!(admin.code(sql), Some(1205), "{sql}");
    }
    user.run("COMMIT; BEGIN; DELETE FROM p WHERE id = 1");
    for sql in ["ALTER TABLE c ADD x INT", "DROP TABLE c", "TRUNCATE c"] {
        assert_eq!(admin.code(sql), Some(1205), "{sql}");
    }
    user.run("ROLLBACK");
    admin.run("DROP TABLE c");
}

#[test]
fn lock_tables_locks_relatives() {
    let (server, _dir) = server();
    let (mut one, mut two) = (connect(&server), connect(&server));
    one.run("CREATE TABLE c (pid INT, FOREIGN KEY (pid) REFERENCES p (id) ON DELETE CASCADE)");
    one.run("LOCK TABLES c WRITE");
    one.run("INSERT INTO c VALUES (1), (2)");
    assert_eq!(one.code("INSERT INTO c VALUES (9)"), Some(1452));
    one.run("UNLOCK TABLES; LOCK TABLES p WRITE; DELETE FROM p WHERE id = 1");
    two.run("SET lock_wait_timeout = 1");
    assert_eq!(two.code("SELECT * FROM c"), Some(1205));
    one.run("UNLOCK TABLES");
    assert_eq!(two.lines("SELECT * FROM c"), ["2"]);
}

#[test]
fn a_deadlock_between_parent_and_child_is_found() {
    let (server, _dir) = server();
    let (mut one, mut two) = (connect(&server), connect(&server));
    one.run("CREATE TABLE c (pid INT, FOREIGN KEY (pid) REFERENCES p (id))");
    one.run("BEGIN; INSERT INTO c VALUES (1)");
    two.run("BEGIN; INSERT INTO c VALUES (1)");
    let codes = std::thread::scope(|scope| {
        let changes = [&mut one, &mut two].map(|c| {
            scope.spawn(|| {
                let code = c.code("UPDATE p SET n = n + 1 WHERE id = 1");
                c.run("COMMIT");
                code
            })
        });
        changes.map(|c| c.join().expect("ends"))
    });
    assert!(
        codes == [None, Some(1213)] || codes == [Some(1213), None],
        "{codes:?}"
    );
    assert_eq!(
        two.lines("SELECT (SELECT COUNT(*) FROM c), n FROM p WHERE id = 1"),
        ["1|1"]
    );
}

/// Children come while their parents go, at a level: whatever is committed in the end has its parent.
fn no_orphans_at(level: &str, action: &str) {
    let (server, _dir) = server();
    connect(&server).run(&format!(
        "CREATE TABLE c (id INT AUTO_INCREMENT PRIMARY KEY, pid INT, FOREIGN KEY (pid) REFERENCES p (id) ON DELETE {action})"
    ));
    let rounds = 60;
    std::thread::scope(|scope| {
        for worker in 0..4 {
            let mut c = connect(&server);
            c.run(&format!("SET SESSION TRANSACTION ISOLATION LEVEL {level}"));
            scope.spawn(move || {
                for round in 0..rounds {
                    let id = 1 + (round + worker) % 3;
                    let sql = match worker % 2 {
                        0 => format!("INSERT INTO c (pid) VALUES ({id}), ({})", 1 + id % 3),
                        _ if round % 3 == 0 => format!("UPDATE p SET n = n + 1 WHERE id = {id}"),
                        _ => format!("DELETE FROM p WHERE id = {id}"),
                    };
                    let code = c.code(&sql);
                    let expected = [None, Some(1451), Some(1452), Some(1213)];
                    assert!(expected.contains(&code), "{sql}: {code:?}");
                    if worker == 3 {
                        c.run(&format!("INSERT IGNORE INTO p VALUES ({id}, 0)"));
                    }
                }
            });
        }
    });
    let orphans = "SELECT COUNT(*) FROM c LEFT JOIN p ON p.id = c.pid WHERE c.pid IS NOT NULL AND p.id IS NULL";
    assert_eq!(connect(&server).value(orphans), "0", "{level} {action}");
}

#[test]
fn no_child_loses_its_parent_at_any_level() {
    for level in [
        "READ UNCOMMITTED",
        "READ COMMITTED",
        "REPEATABLE READ",
        "SERIALIZABLE",
    ] {
        for action in ["RESTRICT", "CASCADE", "SET NULL"] {
            no_orphans_at(level, action);
        }
    }
}

#[test]
fn a_crash_leaves_cascades_whole() {
    let dir = tempfile::tempdir().expect("folder");
    let mut server = Server::start(dir.path(), &["--skip-ssl"]);
    server.connect().run(
        "CREATE DATABASE d; USE d; CREATE TABLE p (id INT PRIMARY KEY); \
         CREATE TABLE c (id INT AUTO_INCREMENT PRIMARY KEY, pid INT, FOREIGN KEY (pid) REFERENCES p (id) ON DELETE CASCADE); \
         CREATE TABLE g (cid INT, FOREIGN KEY (cid) REFERENCES c (id) ON DELETE SET NULL)",
    );
    let parents = 40;
    let mut c = connect(&server);
    for id in 0..parents {
        c.run(&format!(
            "INSERT INTO p VALUES ({id}); INSERT INTO c (pid) VALUES ({id}), ({id}), ({id}); \
             INSERT INTO g SELECT id FROM c WHERE pid = {id}"
        ));
    }
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut c = connect(&server);
            for id in 0..parents {
                let deleted = c.query(&format!("DELETE FROM p WHERE id = {id}"), &mut |_| ());
                if deleted.is_err() {
                    break;
                }
                if id == parents / 2 {
                    is_over.store(true, Ordering::Release);
                }
            }
        });
        while !is_over.load(Ordering::Acquire) {
            std::thread::yield_now();
        }
        server.kill_from_outside();
    });
    server.kill();
    server.restart();
    let mut c = connect(&server);
    let left = c
        .value("SELECT COUNT(*) FROM p")
        .parse::<u32>()
        .expect("number");
    assert!(
        left <= parents / 2,
        "acknowledged deletes are there: {left}"
    );
    assert_eq!(c.value("SELECT COUNT(*) FROM c"), (3 * left).to_string());
    assert_eq!(c.value("SELECT COUNT(cid) FROM g"), (3 * left).to_string());
    assert_eq!(c.value("SELECT COUNT(*) FROM g"), (3 * parents).to_string());
    // The definitions, and who refers to whom, are there again.
    assert_eq!(c.code("INSERT INTO c (pid) VALUES (0)"), Some(1452));
    assert_eq!(c.code("DROP TABLE p"), Some(3730));
}

#[test]
fn rolled_back_to_a_savepoint_and_prepared() {
    let (server, _dir) = server();
    let mut c = connect(&server);
    c.run("CREATE TABLE c (pid INT, FOREIGN KEY (pid) REFERENCES p (id) ON DELETE CASCADE)");
    c.run("INSERT INTO c VALUES (1), (2); BEGIN; DELETE FROM p WHERE id = 1; SAVEPOINT s");
    c.run("DELETE FROM p WHERE id = 2; ROLLBACK TO s; COMMIT");
    assert_eq!(c.lines("SELECT * FROM c"), ["2"]);
    c.run("XA START 'x'; DELETE FROM p WHERE id = 2; XA END 'x'; XA PREPARE 'x'");
    let mut other = connect(&server);
    other.run("SET innodb_lock_wait_timeout = 1");
    assert_eq!(other.code("INSERT INTO c VALUES (2)"), Some(1205));
    other.run("XA COMMIT 'x'");
    assert!(other.lines("SELECT * FROM c").is_empty());
    assert_eq!(other.code("INSERT INTO c VALUES (2)"), Some(1452));
}

#[test]
fn load_data_checks_every_row() {
    let (server, dir) = server();
    let mut c = connect(&server);
    c.run("CREATE TABLE c (id INT PRIMARY KEY, pid INT, FOREIGN KEY (pid) REFERENCES p (id))");
    let file = dir.path().join("files/rows.txt");
    std::fs::write(&file, "1\t1\n2\t9\n3\t3\n4\t\\N\n").expect("file");
    let load = |how: &str| format!("LOAD DATA INFILE '{}' {how} INTO TABLE c", file.display());
    assert_eq!(c.code(&load("")), Some(1452));
    assert_eq!(c.value("SELECT COUNT(*) FROM c"), "0");
    c.run(&load("IGNORE"));
    let rows = c.lines("SELECT * FROM c ORDER BY id");
    assert_eq!(rows, ["1|1", "3|3", "4|NULL"]);
}

const CYCLE: &str = "\
CREATE TABLE a (id INT PRIMARY KEY, b INT, KEY k (b)); \
CREATE TABLE b (id INT PRIMARY KEY, a INT, up INT, \
  CONSTRAINT to_a FOREIGN KEY (a) REFERENCES a (id) ON DELETE CASCADE ON UPDATE CASCADE, \
  FOREIGN KEY (up) REFERENCES b (id) ON DELETE SET NULL); \
ALTER TABLE a ADD CONSTRAINT to_b FOREIGN KEY (b) REFERENCES b (id) ON DELETE RESTRICT; \
INSERT INTO a VALUES (1, NULL), (2, NULL); INSERT INTO b VALUES (5, 1, 5), (6, 2, 5); UPDATE a SET b = 7 - id";

#[test]
fn a_dump_of_tables_in_a_cycle_loads_again() {
    if !has_client(
        "mariadb-dump",
        Command::new("mariadb-dump").arg("--version"),
    ) {
        return;
    }
    let (server, dir) = server();
    let mut c = connect(&server);
    c.run("CREATE DATABASE from_; CREATE DATABASE to_; USE from_");
    c.run(CYCLE.replace("7 - id", "4 + id").as_str());
    let client = |name: &str, args: &[&str]| {
        let out = Command::new(name)
            .args(["--no-defaults", "-h127.0.0.1", "-uroot", "--skip-ssl"])
            .arg(format!("-P{}", server.port))
            .args(args)
            .output()
            .expect("runs");
        assert!(
            out.status.success(),
            "{}",
            String::from_utf8_lossy(&out.stderr)
        );
        out.stdout
    };
    let dump = client("mariadb-dump", &["from_"]);
    let file = dir.path().join("dump.sql");
    std::fs::write(&file, &dump).expect("dump");
    client(
        "mariadb",
        &["to_", "-e", &format!("source {}", file.display())],
    );
    for of in [
        "SHOW CREATE TABLE {}.a",
        "SHOW CREATE TABLE {}.b",
        "SELECT * FROM {}.a",
        "SELECT * FROM {}.b",
    ] {
        let original = c.lines(&of.replace("{}", "from_"));
        assert_eq!(c.lines(&of.replace("{}", "to_")), original);
    }
    assert_eq!(c.code("UPDATE to_.a SET b = 9"), Some(1452));
    assert_eq!(c.code("DROP DATABASE to_"), None);
}

#[test]
fn tables_about_foreign_keys() {
    let (server, _dir) = server();
    let mut c = connect(&server);
    c.run("DROP TABLE p");
    c.run(CYCLE.replace("7 - id", "4 + id").as_str());
    assert_eq!(
        c.lines(
            "SELECT * FROM information_schema.REFERENTIAL_CONSTRAINTS WHERE CONSTRAINT_SCHEMA = 'd'"
        ),
        [
            "def|d|to_b|def|d|PRIMARY|NONE|NO ACTION|RESTRICT|a|b",
            "def|d|b_ibfk_1|def|d|PRIMARY|NONE|NO ACTION|SET NULL|b|b",
            "def|d|to_a|def|d|PRIMARY|NONE|CASCADE|CASCADE|b|a",
        ]
    );
    assert_eq!(
        c.lines(
            "SELECT * FROM information_schema.KEY_COLUMN_USAGE WHERE REFERENCED_TABLE_NAME = 'a'"
        ),
        ["def|d|to_a|def|d|b|a|1|1|d|a|id"]
    );
    assert_eq!(
        c.lines(
            "SELECT CONSTRAINT_NAME, CONSTRAINT_TYPE FROM information_schema.TABLE_CONSTRAINTS WHERE TABLE_NAME = 'b' \
             ORDER BY 1"
        ),
        ["b_ibfk_1|FOREIGN KEY", "PRIMARY|PRIMARY KEY", "to_a|FOREIGN KEY"]
    );
    assert_eq!(
        c.lines("SELECT * FROM information_schema.INNODB_FOREIGN ORDER BY ID"),
        [
            "d/b_ibfk_1|d/b|d/b|1|34",
            "d/to_a|d/b|d/a|1|5",
            "d/to_b|d/a|d/b|1|32"
        ]
    );
    assert_eq!(
        c.lines("SELECT * FROM information_schema.INNODB_FOREIGN_COLS WHERE ID = 'd/to_a'"),
        ["d/to_a|a|id|1"]
    );
}

#[test]
fn a_key_needs_the_references_privilege() {
    let (server, _dir) = server();
    let mut root = connect(&server);
    root.run("CREATE USER u IDENTIFIED BY 'x'; GRANT CREATE, ALTER ON d.* TO u; GRANT SELECT ON d.p TO u");
    let mut u = Client::connect("127.0.0.1", server.port, "u", "x", Some("d")).expect("connect");
    let create = "CREATE TABLE c (pid INT, FOREIGN KEY (pid) REFERENCES p (id))";
    assert_eq!(u.code(create), Some(1142));
    root.run("GRANT REFERENCES ON d.p TO u");
    assert_eq!(u.code(create), None);
}

#[test]
fn the_old_setting_is_gone() {
    let mut serve = serve_command();
    let out = serve
        .args(["--esker-foreign-keys=IGNORE", "--validate-config"])
        .output();
    assert!(!out.expect("runs").status.success());
}
