//! Sources of other makes: MariaDB, and MySQL where there is one.
//!
//! MySQL is the one in the folder that `ESKER_TEST_MYSQL` names, with its own `/usr/sbin/mysqld`, which is run in a
//! chroot as root. **Invariant**: a replica has the rows of its source, byte by byte, whatever has been done there.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use esker_server::client::Client;

use super::change;
use crate::common::{Ask, PATIENCE, Server, eventually, free_port, output};
use crate::consumers::{Maria, await_login};

/// All types, and changes of all kinds; for both makes.
const ROWS: &str = "CREATE TABLE ints (id BIGINT UNSIGNED PRIMARY KEY AUTO_INCREMENT, a TINYINT, b SMALLINT UNSIGNED, \
    c MEDIUMINT, d INT UNSIGNED, e BIGINT UNSIGNED, f BIT(13), g BOOL); \
    INSERT INTO ints VALUES (1, -128, 65535, -8388608, 4294967295, 18446744073709551615, b'1010101010101', TRUE), \
    (2, NULL, NULL, NULL, NULL, NULL, NULL, NULL); INSERT INTO ints (a) SELECT a + 1 FROM ints WHERE id = 1; \
    CREATE TABLE nums (id INT PRIMARY KEY, f FLOAT, d DOUBLE, x DECIMAL(65,30), y DECIMAL(10,10)); \
    INSERT INTO nums VALUES (1, 1.5, -2.5e300, 12345678901234567890123456789012345.123456789, -0.5), \
    (2, NULL, NULL, NULL, NULL); UPDATE nums SET f = f + 1; \
    CREATE TABLE times (id INT PRIMARY KEY, a DATE, b TIME(3), c DATETIME(6), d TIMESTAMP(2) NULL, y YEAR, \
    u TIMESTAMP(6) NULL DEFAULT CURRENT_TIMESTAMP(6) ON UPDATE CURRENT_TIMESTAMP(6)); \
    INSERT INTO times VALUES (1, '2024-02-29', '-838:59:58.999', '9999-12-31 23:59:59.5', '1970-01-01 00:00:01.25', \
    2155, NULL); INSERT INTO times (id) VALUES (2), (3); UPDATE times SET y = 1901 WHERE id = 3; \
    CREATE TABLE texts (id INT PRIMARY KEY, c CHAR(10), v VARCHAR(20) CHARACTER SET latin1, w VARCHAR(300) \
    COLLATE utf8mb4_bin, b BINARY(7), t MEDIUMTEXT, l LONGBLOB, e ENUM('x', 'y', 'ä'), s SET('p', 'q', 'r')); \
    INSERT INTO texts VALUES (1, 'ab  ', 'ÄÖ', 'Große 😀', x'0102', 'medium', x'00ff', 'ä', 'p,r'), \
    (2, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL), (3, '', '', '', '', '', '', 'y', ''); \
    UPDATE texts SET t = REPEAT('0123456789', 100000) WHERE id = 2; \
    CREATE TABLE nokey (a INT, b VARCHAR(20)); INSERT INTO nokey VALUES (1, 'a'), (1, 'a'), (NULL, NULL); \
    DELETE FROM nokey WHERE a = 1 LIMIT 1; UPDATE nokey SET b = 'z' WHERE a IS NULL; \
    CREATE TABLE parent (id INT PRIMARY KEY, v INT, name VARCHAR(20)); INSERT INTO parent VALUES (1, 1, 'a'), (2, 2, 'b'); \
    CREATE TABLE child (id INT PRIMARY KEY, p INT, CONSTRAINT fk FOREIGN KEY (p) REFERENCES parent (id) \
    ON DELETE CASCADE); INSERT INTO child VALUES (1, 1), (2, 2); DELETE FROM parent WHERE id = 1; \
    ALTER TABLE parent ADD COLUMN x INT DEFAULT 7, ADD INDEX (v); ALTER TABLE parent MODIFY v BIGINT; \
    ALTER TABLE child DROP FOREIGN KEY fk; CREATE TABLE copied AS SELECT id, v * 2 AS v2 FROM parent; \
    CREATE TABLE liked LIKE parent; INSERT INTO liked SELECT * FROM parent; RENAME TABLE liked TO renamed; \
    TRUNCATE TABLE renamed; CREATE VIEW w AS SELECT id FROM parent; CREATE TABLE gone (a INT); DROP TABLE gone; \
    CREATE TABLE ref_p (id INT PRIMARY KEY); INSERT INTO ref_p VALUES (1), (2); \
    CREATE TABLE ref_c (id INT PRIMARY KEY, p INT REFERENCES ref_p (id) ON DELETE CASCADE); \
    INSERT INTO ref_c VALUES (1, 1), (2, 2); DELETE FROM ref_p WHERE id = 1; \
    ALTER TABLE ref_c DROP FOREIGN KEY ref_c_ibfk_1, ADD n INT REFERENCES ref_p (id); \
    BEGIN; INSERT INTO parent (id) VALUES (50); SAVEPOINT s; INSERT INTO parent (id) VALUES (51); ROLLBACK TO s; \
    INSERT INTO parent (id) VALUES (52); COMMIT; \
    XA START 'x1'; INSERT INTO parent (id) VALUES (60); XA END 'x1'; XA PREPARE 'x1'; XA COMMIT 'x1'; \
    XA START 'x2'; INSERT INTO parent (id) VALUES (61); XA END 'x2'; XA PREPARE 'x2'; XA ROLLBACK 'x2'; \
    XA START 'x3'; INSERT INTO parent (id) VALUES (62); XA END 'x3'; XA COMMIT 'x3' ONE PHASE";

/// Statements that are logged as such, and what they depend on.
const STATEMENTS: &str = "SET SESSION binlog_format = STATEMENT; \
    CREATE TABLE said (id INT PRIMARY KEY AUTO_INCREMENT, v VARCHAR(40), n DECIMAL(20,5), r DOUBLE, \
    t DATETIME DEFAULT CURRENT_TIMESTAMP); \
    INSERT INTO said (v) VALUES ('a'), ('b'); INSERT INTO said (r) VALUES (RAND()); INSERT INTO said (r) VALUES (RAND()); \
    SET @text = 'ü\\'', @number = 12.50, @int = -7, @real = 1.5e0, @null = NULL, @bytes = x'00ff'; \
    INSERT INTO said (v, n, r) VALUES (@text, @number, @real), (@null, @int, NULL), (HEX(@bytes), NULL, NULL); \
    INSERT INTO said (id, v) VALUES (LAST_INSERT_ID() + 100, 'last'); UPDATE said SET v = 'c' WHERE id = 2";

/// What only MariaDB has. It logs statements that do nothing, too.
const MARIA_ONLY: &str = "CREATE TABLE maybe (id INT PRIMARY KEY, a INT, b INT, KEY k (a), \
    CONSTRAINT ck CHECK (a > 0)); \
    ALTER TABLE maybe MODIFY COLUMN IF EXISTS x INT; ALTER TABLE maybe CHANGE COLUMN IF EXISTS b c BIGINT; \
    ALTER TABLE maybe RENAME COLUMN IF EXISTS x TO y, RENAME INDEX IF EXISTS k TO k2; \
    ALTER TABLE maybe ALTER COLUMN IF EXISTS c SET DEFAULT 5, DROP FOREIGN KEY IF EXISTS x; \
    ALTER TABLE maybe DROP CONSTRAINT IF EXISTS x, ADD CONSTRAINT IF NOT EXISTS ck CHECK (a > 1); \
    ALTER TABLE maybe ADD COLUMN IF NOT EXISTS c INT, DROP COLUMN IF EXISTS x, DROP INDEX IF EXISTS x; \
    ALTER TABLE IF EXISTS maybe ADD d INT; \
    ALTER TABLE maybe DROP INDEX k2, ADD INDEX IF NOT EXISTS k2 (c), ADD INDEX IF NOT EXISTS (a); \
    ALTER TABLE maybe DROP COLUMN d, ADD COLUMN IF NOT EXISTS d BIGINT; RENAME TABLE IF EXISTS nothing TO something; \
    INSERT INTO maybe (id, a) VALUES (1, 1); \
    ALTER TABLE maybe ALTER INDEX IF EXISTS k IGNORED, ADD COLUMN p INT AS (a + 1) PERSISTENT, ALGORITHM = COPY; \
    ALTER TABLE maybe ADD INDEX ka (a) NOT IGNORED, ALGORITHM = NOCOPY; \
    CREATE TABLE of_fk (id INT PRIMARY KEY, a INT, FOREIGN KEY fa (a) REFERENCES maybe (id)); \
    ALTER TABLE of_fk ADD FOREIGN KEY fb (id) REFERENCES maybe (id); ALTER TABLE of_fk DROP FOREIGN KEY fa; \
    ALTER TABLE of_fk DROP FOREIGN KEY IF EXISTS fb; INSERT INTO of_fk VALUES (77, 77); \
    CREATE TABLE parts (a INT PRIMARY KEY) PARTITION BY RANGE (a) (PARTITION p0 VALUES LESS THAN (10)); \
    ALTER TABLE parts DROP PARTITION IF EXISTS p7; \
    ALTER TABLE parts ADD PARTITION IF NOT EXISTS (PARTITION p0 VALUES LESS THAN (20)); \
    INSERT INTO parts VALUES (1)";

/// What only MySQL has.
const MYSQL_ONLY: &str = "CREATE TABLE docs (id INT PRIMARY KEY, a JSON, b JSON, c INT); \
    INSERT INTO docs VALUES (1, '{\"x\": 1, \"y\": [1, 2, 3], \"z\": \"0123456789012345678901234567890123456789\"}', \
    '[\"0123456789012345678901234567890123456789\", 1]', 3); \
    SET binlog_row_value_options = PARTIAL_JSON; UPDATE docs SET b = JSON_SET(b, '$[1]', 7); \
    UPDATE docs SET a = JSON_REMOVE(JSON_SET(a, '$.n', JSON_OBJECT('q', 1)), '$.y[1]'), c = 9; \
    SET binlog_row_image = MINIMAL; UPDATE docs SET a = JSON_REPLACE(a, '$.x', 'x'), b = '[]'; \
    SET binlog_row_image = FULL; SET binlog_transaction_compression = ON; \
    CREATE TABLE many (id INT PRIMARY KEY AUTO_INCREMENT, v VARCHAR(200)); \
    INSERT INTO many (v) SELECT REPEAT('x', 100) FROM information_schema.columns LIMIT 2000; \
    UPDATE many SET v = CONCAT(v, 'y'); DELETE FROM many WHERE id % 3 = 0";

/// A MySQL server with a data directory of its own.
struct Mysql {
    root: PathBuf,
    /// Inside the root.
    data: String,
    port: u16,
    child: Child,
}

impl Mysql {
    /// A fresh one, if there is MySQL here.
    fn start() -> Option<Self> {
        let root = std::env::var_os("ESKER_TEST_MYSQL").map(PathBuf::from)?;
        let port = free_port();
        let data = format!("/tmp/esker-{}-{port}", std::process::id());
        let mut initialize = Self::command(&root, &data);
        output(initialize.arg("--initialize-insecure"));
        let child = Self::spawn(&root, &data, port);
        let mut mysql = Self {
            root,
            data,
            port,
            child,
        };
        mysql.connect();
        Some(mysql)
    }

    fn command(root: &Path, data: &str) -> Command {
        let mut command = Command::new("chroot");
        command
            .arg(root)
            .args(["/usr/sbin/mysqld", "--no-defaults", "--user=root"]);
        // The folder of this process is not inside.
        command.env("TMPDIR", "/tmp");
        command.arg(format!("--datadir={data}"));
        command
    }

    fn spawn(root: &Path, data: &str, port: u16) -> Child {
        let mut command = Self::command(root, data);
        command
            .args([
                "--server-id=81",
                "--gtid-mode=ON",
                "--enforce-gtid-consistency=ON",
                "--log-bin=binlog",
            ])
            .args([
                "--bind-address=127.0.0.1",
                "--mysqlx=OFF",
                "--innodb-buffer-pool-size=64M",
            ])
            .arg("--secure-file-priv=")
            .arg(format!("--port={port}"))
            .arg(format!("--socket={data}.sock"))
            .arg(format!("--pid-file={data}.pid"))
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        command.spawn().expect("mysqld")
    }

    fn connect(&mut self) -> Client {
        await_login(&mut self.child, self.port, "mysqld")
    }

    fn kill(&mut self) {
        self.child.kill().expect("kill");
        self.child.wait().expect("wait");
    }
}

impl Drop for Mysql {
    fn drop(&mut self) {
        // Already dead after a kill; nothing else to do.
        let _ = self.child.kill();
        let _ = self.child.wait();
        let inside = |suffix: &str| self.root.join(format!("{}{suffix}", &self.data[1..]));
        let _ = std::fs::remove_dir_all(inside(""));
        let _ = std::fs::remove_file(inside(".sock.lock"));
    }
}

const ACCOUNT: &str = "CREATE USER repl IDENTIFIED BY 'secret-word'; GRANT REPLICATION SLAVE ON *.* TO repl; \
                       CREATE DATABASE d";

/// All tables of the database with their rows; `None` if a replica dropped one before it was locked.
fn contents(c: &mut Client) -> Option<Vec<(String, Vec<String>)>> {
    c.run("SET NAMES utf8mb4; SET time_zone = '+00:00'");
    let tables = c.lines(
        "SELECT table_name FROM information_schema.tables WHERE table_schema = 'd' ORDER BY table_name",
    );
    let locks: Vec<String> = tables.iter().map(|t| format!("d.{t} READ")).collect();
    if !locks.is_empty()
        && c.code(&format!("LOCK TABLES {}", locks.join(", ")))
            .is_some()
    {
        return None;
    }
    let rows = |table: String| {
        let mut rows = c.lines(&format!("SELECT * FROM d.{table}"));
        rows.sort();
        (table, rows)
    };
    let all = tables.into_iter().map(rows).collect();
    c.run("UNLOCK TABLES");
    Some(all)
}

/// Waits until the replica has what the source has.
fn equals(replica: &Server, source: &mut Client) {
    let expected = contents(source).expect("nobody drops tables of the source");
    let begun = Instant::now();
    loop {
        let mut c = replica.connect();
        let found = contents(&mut c);
        if found.as_ref() == Some(&expected) {
            return;
        }
        let state = super::status(&mut c);
        let waits = begun.elapsed() < PATIENCE && state[37].is_empty();
        let differs = found.iter().flatten().zip(&expected).find(|(a, b)| a != b);
        assert!(waits, "{}\n{differs:?}", state.join("|"));
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
}

#[test]
fn a_replica_of_mariadb_equals_its_source() {
    let dir = tempfile::tempdir().expect("folder");
    for (name, how) in [
        ("position", "SOURCE_LOG_POS = 4"),
        ("gtid", "MASTER_USE_GTID = slave_pos"),
    ] {
        let folder = dir.path().join(name);
        std::fs::create_dir_all(&folder).expect("folder");
        let Some(mut maria) = Maria::source(&folder) else {
            return;
        };
        maria.connect().run(ACCOUNT);
        let replica = Server::start(
            &folder.join("replica"),
            &["--server-id=2", "--collation-server=utf8mb4_general_ci"],
        );
        let mut c = replica.connect();
        change(&mut c, maria.port(), how);
        c.run("CHANGE REPLICATION FILTER REPLICATE_WILD_IGNORE_TABLE = ('mysql.%'); START REPLICA");
        let mut source = maria.connect();
        source.run(&format!("SET NAMES utf8mb4; USE d; {ROWS}"));
        source.run(STATEMENTS);
        source.run(MARIA_ONLY);
        equals(&replica, &mut source);
        maria.kill();
        maria.restart();
        maria
            .connect()
            .run("INSERT INTO d.parent (id) VALUES (1000)");
        equals(&replica, &mut maria.connect());
    }
}

/// Statements of two sessions that call their temporary tables the same.
fn fill_temporary(sessions: &mut [Client; 2], value: u32) {
    for (nth, session) in sessions.iter_mut().enumerate() {
        session.run(&format!(
            "INSERT INTO tmp (v) VALUES ({value}); INSERT INTO kept (who, v) SELECT {nth}, SUM(v) FROM tmp; \
             BEGIN; UPDATE tmp SET v = v + {nth}; INSERT INTO kept (who, v) SELECT {nth}, MAX(v) FROM tmp; COMMIT"
        ));
    }
}

#[test]
fn temporary_tables_of_two_sessions_of_the_source_have_one_name() {
    let dir = tempfile::tempdir().expect("folder");
    let Some(mut maria) = Maria::source(dir.path()) else {
        return;
    };
    let mut source = maria.connect();
    source.run(ACCOUNT);
    source.run(
        "SET GLOBAL binlog_format = STATEMENT; \
         CREATE TABLE d.kept (id INT PRIMARY KEY AUTO_INCREMENT, who INT, v INT)",
    );
    let replica = Server::start(
        &dir.path().join("replica"),
        &["--server-id=2", "--collation-server=utf8mb4_general_ci"],
    );
    let mut c = replica.connect();
    change(&mut c, maria.port(), "SOURCE_LOG_POS = 4");
    c.run("CHANGE REPLICATION FILTER REPLICATE_WILD_IGNORE_TABLE = ('mysql.%'); START REPLICA");
    let mut sessions = [maria.connect(), maria.connect()];
    for session in &mut sessions {
        session.run("USE d; CREATE TEMPORARY TABLE tmp (id INT PRIMARY KEY AUTO_INCREMENT, v INT)");
    }
    fill_temporary(&mut sessions, 1);
    equals(&replica, &mut source);
    let open = |c: &mut Client| {
        c.lines("SHOW STATUS WHERE Variable_name IN ('Replica_open_temp_tables', 'Slave_open_temp_tables')")
    };
    let two = ["Replica_open_temp_tables|2", "Slave_open_temp_tables|2"];
    assert_eq!(open(&mut c), two);
    c.run("STOP REPLICA");
    let warnings = c.lines("SHOW WARNINGS").concat();
    assert!(warnings.starts_with("Warning|3022|"), "{warnings}");
    let set_format = "SET GLOBAL binlog_format = ROW";
    assert_eq!(c.code(set_format), Some(3746));
    fill_temporary(&mut sessions, 2);
    c.run("START REPLICA");
    equals(&replica, &mut source);
    assert_eq!(open(&mut c), two);
    let [mut first, second] = sessions;
    first.run("DROP TEMPORARY TABLE tmp");
    // The source drops what a session leaves behind.
    drop(second);
    eventually("none is open", || {
        open(&mut c) == ["Replica_open_temp_tables|0", "Slave_open_temp_tables|0"]
    });
    c.run("STOP REPLICA");
    assert!(c.lines("SHOW WARNINGS").is_empty());
    c.run(set_format);
}

#[test]
fn a_replica_of_mysql_equals_its_source_after_kills() {
    for (how, ssl) in [
        ("SOURCE_AUTO_POSITION = 1", "SOURCE_SSL = 1"),
        ("SOURCE_LOG_FILE = '', SOURCE_LOG_POS = 4", "SOURCE_SSL = 0"),
    ] {
        let Some(mut mysql) = Mysql::start() else {
            return;
        };
        let dir = tempfile::tempdir().expect("folder");
        mysql.connect().run(ACCOUNT);
        let options = ["--server-id=2", "--log-bin=ON", "--gtid-mode=ON"];
        let mut replica = Server::start(&dir.path().join("replica"), &options);
        let mut c = replica.connect();
        change(&mut c, mysql.port, &format!("{how}, {ssl}"));
        c.run("START REPLICA");
        let mut source = mysql.connect();
        source.run(&format!("SET NAMES utf8mb4; USE d; {ROWS}"));
        source.run(STATEMENTS);
        source.run(MYSQL_ONLY);
        equals(&replica, &mut source);
        replica.kill();
        source.run("INSERT INTO d.parent (id) VALUES (1000)");
        replica.restart();
        equals(&replica, &mut source);
        mysql.kill();
        mysql.child = Mysql::spawn(&mysql.root, &mysql.data, mysql.port);
        mysql
            .connect()
            .run("INSERT INTO d.parent (id) VALUES (1001)");
        equals(&replica, &mut mysql.connect());
    }
}
