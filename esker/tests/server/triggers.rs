//! Triggers beside everything that is not a statement on one connection: dumps, crashes, replicas, accounts, files,
//! locks. What they see and do is in `tests/sql/change/triggers.slt`, how they are made in
//! `tests/sql/schema/triggers.slt`.

use std::process::Command;

use esker_server::client::Client;

use crate::common::{Ask, Server, eventually, has_client, source_and_replica};

/// A shop: films whose texts are kept in a second table, and rows that get their times by themselves.
const SHOP: &str = "CREATE DATABASE shop; USE shop;
    CREATE TABLE film (id INT AUTO_INCREMENT PRIMARY KEY, title VARCHAR(60) NOT NULL, about TEXT);
    CREATE TABLE film_text (id INT PRIMARY KEY, title VARCHAR(60) NOT NULL, about TEXT);
    CREATE TABLE payment (id INT AUTO_INCREMENT PRIMARY KEY, amount DECIMAL(5,2) NOT NULL, paid DATETIME NOT NULL);
    CREATE TRIGGER film_made AFTER INSERT ON film FOR EACH ROW BEGIN
        INSERT INTO film_text (id, title, about) VALUES (NEW.id, NEW.title, NEW.about);
    END;
    CREATE TRIGGER film_changed AFTER UPDATE ON film FOR EACH ROW BEGIN
        IF (OLD.title != NEW.title) OR (OLD.about != NEW.about) OR (OLD.id != NEW.id) THEN
            UPDATE film_text SET title = NEW.title, about = NEW.about, id = NEW.id WHERE id = OLD.id;
        END IF;
    END;
    CREATE TRIGGER film_gone AFTER DELETE ON film FOR EACH ROW BEGIN
        DELETE FROM film_text WHERE id = OLD.id;
    END;
    CREATE TRIGGER payment_time BEFORE INSERT ON payment FOR EACH ROW SET NEW.paid = '2006-02-15 22:12:30';
    INSERT INTO film (title, about) VALUES ('one', 'first; film'), ('two', 'it''s second'), ('three', NULL);
    UPDATE film SET title = 'dos' WHERE id = 2;
    DELETE FROM film WHERE id = 1;
    INSERT INTO payment (amount) VALUES (2.99)";

/// What the shop consists of.
fn shop(c: &mut Client, schema: &str) -> Vec<String> {
    let mut all = c.lines(&format!("SELECT * FROM {schema}.film_text ORDER BY id"));
    all.extend(c.lines(&format!("SELECT * FROM {schema}.film ORDER BY id")));
    all.extend(c.lines(&format!("SELECT * FROM {schema}.payment")));
    all.extend(c.lines(&format!(
        "SELECT trigger_name, event_object_table, event_manipulation, action_timing, action_statement, sql_mode, \
         definer, character_set_client FROM information_schema.triggers WHERE trigger_schema = '{schema}' ORDER BY 1"
    )));
    all
}

fn server_with_shop() -> (Server, tempfile::TempDir) {
    let dir = tempfile::tempdir().expect("folder");
    let server = Server::start(&dir.path().join("data"), &["--skip-ssl"]);
    server.connect().run(SHOP);
    (server, dir)
}

#[test]
fn a_dump_brings_triggers_back() {
    if !has_client(
        "mariadb-dump",
        Command::new("mariadb-dump").arg("--version"),
    ) {
        return;
    }
    let (server, dir) = server_with_shop();
    let mut c = server.connect();
    assert_eq!(c.value("SELECT COUNT(*) FROM shop.film_text"), "2");
    let run = |name: &str, args: &[&str]| {
        let out = Command::new(name)
            .args(["--no-defaults", "-h127.0.0.1", "-uroot", "--skip-ssl"])
            .arg(format!("-P{}", server.port))
            .args(args)
            .output()
            .unwrap_or_else(|e| panic!("{name}: {e}; see .ci/run"));
        let errors = String::from_utf8_lossy(&out.stderr);
        assert!(out.status.success(), "{name} {args:?}: {errors}");
        String::from_utf8_lossy(&out.stdout).into_owned()
    };
    let dump = run("mariadb-dump", &["--triggers", "--skip-dump-date", "shop"]);
    assert_eq!(dump.matches(" TRIGGER ").count(), 4, "{dump}");
    let file = dir.path().join("dump.sql");
    std::fs::write(&file, &dump).expect("dump");
    c.run("CREATE DATABASE copy");
    let source = format!("source {}", file.display());
    run("mariadb", &["copy", "-e", &source]);
    assert_eq!(shop(&mut c, "copy"), shop(&mut c, "shop"));
    let again = run("mariadb-dump", &["--triggers", "--skip-dump-date", "copy"]);
    assert_eq!(again.replace("Database: copy", "Database: shop"), dump);
    c.run(
        "USE copy; INSERT INTO film (id, title) VALUES (9, 'nine'); DELETE FROM film WHERE id = 2",
    );
    assert_eq!(c.lines("SELECT id FROM film_text ORDER BY id"), ["3", "9"]);
}

#[test]
fn a_crash_keeps_them_with_their_tables() {
    let (mut server, _dir) = server_with_shop();
    let before = shop(&mut server.connect(), "shop");
    server.kill();
    server.restart();
    let mut c = server.connect();
    assert_eq!(shop(&mut c, "shop"), before);
    c.run(
        "USE shop; INSERT INTO film (id, title) VALUES (9, 'nine'); DELETE FROM film WHERE id = 2",
    );
    assert_eq!(c.lines("SELECT id FROM film_text ORDER BY id"), ["3", "9"]);
}

#[test]
fn order_survives_a_crash() {
    let dir = tempfile::tempdir().expect("folder");
    let mut server = Server::start(dir.path(), &["--skip-ssl"]);
    let mut c = server.connect();
    c.run(
        "CREATE DATABASE d; USE d; CREATE TABLE t (a INT, s VARCHAR(9) DEFAULT '');
         CREATE TRIGGER two BEFORE INSERT ON t FOR EACH ROW SET NEW.s = CONCAT(NEW.s, '2');
         CREATE TRIGGER three BEFORE INSERT ON t FOR EACH ROW SET NEW.s = CONCAT(NEW.s, '3');
         CREATE TRIGGER one BEFORE INSERT ON t FOR EACH ROW PRECEDES two SET NEW.s = CONCAT(NEW.s, '1')",
    );
    server.kill();
    server.restart();
    let mut c = server.connect();
    c.run("USE d; INSERT INTO t (a) VALUES (1); ALTER TABLE t RENAME u; DROP TRIGGER two");
    server.kill();
    server.restart();
    let mut c = server.connect();
    c.run("USE d; INSERT INTO u (a) VALUES (2)");
    assert_eq!(c.lines("SELECT s FROM u ORDER BY a"), ["123", "13"]);
    c.run("DROP TABLE u");
    server.kill();
    server.restart();
    let mut c = server.connect();
    assert_eq!(
        c.value("SELECT COUNT(*) FROM information_schema.triggers"),
        "0"
    );
}

/// What triggers have done is in the row events; a replica that ran them again would do it twice.
#[test]
fn replicas_apply_rows_and_fire_nothing() {
    let dir = tempfile::tempdir().expect("folder");
    let (source, replica) = source_and_replica(dir.path());
    let (mut c, mut r) = (source.connect(), replica.connect());
    c.run(SHOP);
    c.run(
        "CREATE TABLE t (id INT PRIMARY KEY, v INT, UNIQUE (v)); CREATE TABLE sums (n INT PRIMARY KEY, v INT);
         INSERT INTO sums VALUES (1, 0);
         CREATE DEFINER = 'somebody'@'%' TRIGGER later AFTER DELETE ON t FOR EACH ROW SET @gone = OLD.id;
         CREATE TRIGGER summed AFTER INSERT ON t FOR EACH ROW UPDATE sums SET v = v + NEW.v WHERE n = 1;
         INSERT INTO t VALUES (1, 1), (2, 2)",
    );
    // What is undone leaves no events, whoever did it.
    assert_eq!(c.code("INSERT INTO t VALUES (3, 3), (4, 1)"), Some(1062));
    c.run("BEGIN; INSERT INTO t VALUES (5, 5)");
    assert_eq!(c.code("INSERT INTO t VALUES (6, 6), (7, 1)"), Some(1062));
    c.run("COMMIT; INSERT IGNORE INTO t VALUES (8, 8), (9, 1), (10, 10)");
    assert_eq!(c.value("SELECT v FROM sums"), "26");
    c.run("CREATE TABLE last (a INT)");
    eventually("the replica has caught up", || {
        replica.connect().code("SELECT 1 FROM shop.last").is_none()
    });
    assert_eq!(r.value("SELECT v FROM shop.sums"), "26");
    assert_eq!(shop(&mut r, "shop"), shop(&mut c, "shop"));
    let of_source = c.lines("SELECT * FROM shop.t ORDER BY id");
    assert_eq!(r.lines("SELECT * FROM shop.t ORDER BY id"), of_source);
    // Statements of its own do fire them there.
    r.run("USE shop; INSERT INTO t VALUES (100, 100)");
    assert_eq!(r.value("SELECT v FROM sums"), "126");
}

/// A trigger does what its definer may do.
#[test]
fn rights_are_those_of_the_definer() {
    let dir = tempfile::tempdir().expect("folder");
    let server = Server::start(dir.path(), &["--skip-ssl"]);
    let mut c = server.connect();
    c.run(
        "CREATE DATABASE d; USE d; CREATE TABLE t (a INT); CREATE TABLE log (u VARCHAR(99));
         CREATE USER maker; GRANT SELECT, INSERT, TRIGGER ON d.* TO maker;
         CREATE USER writer; GRANT INSERT ON d.t TO writer;
         CREATE USER reader; GRANT SELECT ON d.* TO reader",
    );
    let login = |user: &str| {
        let mut c = Client::connect("127.0.0.1", server.port, user, "", None).expect("login");
        c.run("USE d");
        c
    };
    let (mut maker, mut writer, mut reader) = (login("maker"), login("writer"), login("reader"));
    let trigger =
        "TRIGGER noted AFTER INSERT ON t FOR EACH ROW INSERT INTO log VALUES (CURRENT_USER())";
    assert_eq!(reader.code(&format!("CREATE {trigger}")), Some(1142));
    let of_root = format!("CREATE DEFINER = root@localhost {trigger}");
    assert_eq!(maker.code(&of_root), Some(1227));
    maker.run(&format!("CREATE {trigger}"));
    // Whoever may not make triggers of the table sees none.
    let shown = "SELECT COUNT(*) FROM information_schema.triggers";
    assert_eq!(reader.value(shown), "0");
    assert_eq!(maker.value(shown), "1");
    assert!(reader.lines("SHOW TRIGGERS").is_empty());
    assert_eq!(reader.code("SHOW CREATE TRIGGER noted"), Some(1227));
    assert_eq!(reader.code("DROP TRIGGER noted"), Some(1142));
    writer.run("INSERT INTO t VALUES (1)");
    assert_eq!(writer.code("SELECT * FROM log"), Some(1142));
    assert_eq!(c.lines("SELECT * FROM log"), ["maker@%"]);
    c.run("REVOKE INSERT ON d.* FROM maker");
    assert_eq!(writer.code("INSERT INTO t VALUES (2)"), Some(1142));
    assert_eq!(c.value("SELECT COUNT(*) FROM t"), "1");
    c.run("GRANT INSERT ON d.* TO maker; REVOKE TRIGGER ON d.* FROM maker");
    assert_eq!(writer.code("INSERT INTO t VALUES (3)"), Some(1142));
    assert_eq!(maker.code("DROP TRIGGER noted"), Some(1142));
    c.run("DROP USER maker");
    assert_eq!(writer.code("INSERT INTO t VALUES (4)"), Some(1449));
    assert_eq!(c.value("SELECT COUNT(*) FROM t"), "1");
    // A definer that is not there is a note, for those who may name others.
    c.run("DROP TRIGGER noted");
    c.run(&format!("CREATE DEFINER = nobody@nowhere {trigger}"));
    assert_eq!(
        c.lines("SHOW WARNINGS"),
        ["Note|1449|The user specified as a definer ('nobody'@'nowhere') does not exist"]
    );
}

/// Rows of a file go through them.
#[test]
fn files_are_loaded_through_them() {
    let dir = tempfile::tempdir().expect("folder");
    let files = dir.path().join("files");
    std::fs::create_dir(&files).expect("folder");
    let private = format!("--secure-file-priv={}", files.display());
    let server = Server::start(&dir.path().join("data"), &["--skip-ssl", &private]);
    let mut c = server.connect();
    c.run(
        "CREATE DATABASE d; USE d; CREATE TABLE t (id INT PRIMARY KEY, s VARCHAR(20) NOT NULL, n INT);
         CREATE TABLE log (m VARCHAR(40));
         CREATE TRIGGER bi BEFORE INSERT ON t FOR EACH ROW SET NEW.s = UPPER(NEW.s), NEW.n = NEW.id * 10;
         CREATE TRIGGER bd BEFORE DELETE ON t FOR EACH ROW INSERT INTO log VALUES (CONCAT('gone ', OLD.s));
         CREATE TRIGGER ai AFTER INSERT ON t FOR EACH ROW INSERT INTO log VALUES (CONCAT('come ', NEW.s))",
    );
    let file = files.join("rows");
    std::fs::write(&file, "head\n1\tone\n2\ttwo\n").expect("file");
    let load = |how: &str| {
        format!(
            "LOAD DATA INFILE '{}' {how} INTO TABLE t IGNORE 1 LINES (id, s)",
            file.display()
        )
    };
    c.run(&load(""));
    assert_eq!(
        c.lines("SELECT * FROM t ORDER BY id"),
        ["1|ONE|10", "2|TWO|20"]
    );
    assert_eq!(c.code(&load("")), Some(1062));
    std::fs::write(&file, "head\n2\tzwei\n3\tdrei").expect("file");
    c.run(&load("REPLACE"));
    assert_eq!(
        c.lines("SELECT * FROM t ORDER BY id"),
        ["1|ONE|10", "2|ZWEI|20", "3|DREI|30"]
    );
    assert_eq!(
        c.lines("SELECT m FROM log"),
        ["come ONE", "come TWO", "gone TWO", "come ZWEI", "come DREI"]
    );
}

/// A statement that waits for a row does so inside of a trigger, too, and goes on.
#[test]
fn a_trigger_waits_for_rows_and_can_be_killed() {
    let dir = tempfile::tempdir().expect("folder");
    let server = Server::start(dir.path(), &["--skip-ssl"]);
    let mut c = server.connect();
    c.run(
        "CREATE DATABASE d; USE d; CREATE TABLE t (a INT); CREATE TABLE sums (id INT PRIMARY KEY, n INT);
         INSERT INTO sums VALUES (1, 0);
         CREATE TRIGGER summed AFTER INSERT ON t FOR EACH ROW UPDATE sums SET n = n + NEW.a WHERE id = 1",
    );
    c.run("BEGIN; UPDATE sums SET n = 100");
    let port = server.port;
    let insert = move || {
        let mut c = Client::connect("127.0.0.1", port, "root", "", None).expect("login");
        c.code("INSERT INTO d.t VALUES (5), (6)")
    };
    let waiting =
        "SELECT id FROM information_schema.processlist WHERE info LIKE 'UPDATE sums SET n = n + %'";
    let one = std::thread::spawn(insert);
    let mut other = server.connect();
    let mut is_waiting = || {
        !other
            .lines("SELECT * FROM performance_schema.data_lock_waits")
            .is_empty()
    };
    eventually("the trigger waits for the row", &mut is_waiting);
    c.run("COMMIT");
    assert_eq!(one.join().expect("a client"), None);
    assert_eq!(c.value("SELECT n FROM sums"), "111");
    c.run("BEGIN; UPDATE sums SET n = 100");
    let two = std::thread::spawn(insert);
    eventually("the trigger waits for the row", &mut is_waiting);
    let id = server.connect().value(waiting);
    server.connect().run(&format!("KILL QUERY {id}"));
    assert_eq!(two.join().expect("a client"), Some(1317));
    c.run("ROLLBACK");
    assert_eq!(c.value("SELECT n FROM sums"), "111");
    assert_eq!(c.value("SELECT COUNT(*) FROM t"), "2");
}

/// LOCK TABLES does not name what triggers use.
#[test]
fn locked_tables_fire_them() {
    let (server, _dir) = server_with_shop();
    let mut c = server.connect();
    c.run("USE shop; LOCK TABLES film WRITE");
    c.run("INSERT INTO film (id, title) VALUES (9, 'nine'); UPDATE film SET title = 'neun' WHERE id = 9");
    assert_eq!(c.code("SELECT COUNT(*) FROM film_text"), Some(1100));
    c.run("UNLOCK TABLES");
    assert_eq!(c.value("SELECT title FROM film_text WHERE id = 9"), "neun");
    // Nothing of them is held any more.
    server
        .connect()
        .run("ALTER TABLE shop.film_text COMMENT 'free'");
}
