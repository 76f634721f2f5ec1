//! LOAD DATA and SELECT … INTO OUTFILE with real clients and real files: what is allowed, what the rows become, and
//! that a transaction of many rows is there whole or not at all after a crash.

use std::fs;
use std::path::Path;
use std::process::Command;

use esker_server::client::Client;
use mysql_async::prelude::Queryable;
use mysql_async::{Conn, OptsBuilder, WhiteListFsHandler};

use crate::common::{Ask, Server, has_client, output, python};

/// A server that takes files of clients, and files of its own from the folder `files`.
fn server() -> (Server, tempfile::TempDir) {
    let dir = tempfile::tempdir().expect("folder");
    let files = dir.path().join("files");
    fs::create_dir(&files).expect("folder");
    let secure = format!("--secure-file-priv={}", files.display());
    let server = Server::start(dir.path(), &["--local-infile=1", &secure]);
    server.connect().run("CREATE DATABASE d");
    (server, dir)
}

fn put(dir: &Path, name: &str, content: &[u8]) -> String {
    let path = dir.join("files").join(name);
    fs::write(&path, content).expect("file");
    path.display().to_string()
}

const TABLE: &str =
    "USE d; CREATE TABLE t (id INT PRIMARY KEY, s VARCHAR(8), k INT NOT NULL DEFAULT 5)";

/// The sums are MySQL's: columns that no field goes to get zero where they have no default, also in strict mode, and a
/// field of a generated column is read and left.
#[test]
fn columns_without_default_and_generated_ones() {
    let (server, dir) = server();
    let mut c = server.connect();
    c.run(
        "USE d; CREATE TABLE n (a INT NOT NULL, b INT NOT NULL, d DATE NOT NULL, e ENUM('x', 'y') NOT NULL,
            t TEXT NOT NULL, c INT);
         CREATE VIEW v AS SELECT c FROM n;
         CREATE TABLE g (a INT, g INT AS (a + 1), b INT)",
    );
    let [one, two, three, text] = [
        put(dir.path(), "one", b"1\n"),
        put(dir.path(), "two", b"1\t2\n"),
        put(dir.path(), "three", b"1\t2\t3\n"),
        put(dir.path(), "text", b"1\tx\t3\n"),
    ];
    c.run(&format!("LOAD DATA INFILE '{one}' INTO TABLE n (a)"));
    c.run(&format!(
        "LOAD DATA INFILE '{two}' INTO TABLE n (a, c) SET b = 7"
    ));
    c.run(&format!("LOAD DATA INFILE '{one}' INTO TABLE v"));
    let refused = [("NULL", 1048), ("DEFAULT", 1364), ("DEFAULT(b)", 1364)];
    for (value, code) in refused {
        let sql = format!("LOAD DATA INFILE '{one}' INTO TABLE n (a) SET b = {value}");
        assert_eq!(c.code(&sql), Some(code), "{value}");
    }
    assert_eq!(
        c.lines("SELECT * FROM n"),
        [
            "1|0|0000-00-00|x||NULL",
            "1|7|0000-00-00|x||2",
            "0|0|0000-00-00|x||1"
        ]
    );
    c.run(&format!("LOAD DATA INFILE '{three}' INTO TABLE g"));
    c.run(&format!(
        "LOAD DATA INFILE '{three}' INTO TABLE g (a, g, b)"
    ));
    c.run(&format!(
        "LOAD DATA INFILE '{two}' INTO TABLE g (a, b) SET g = 'no number', b = b + 1"
    ));
    for (file, list, code) in [
        (&two, "", 1261),
        (&text, "", 1366),
        (&text, "(a, g, b)", 1366),
        (&one, "(a) SET g = DEFAULT(g)", 1364),
    ] {
        let sql = format!("LOAD DATA INFILE '{file}' INTO TABLE g {list}");
        assert_eq!(c.code(&sql), Some(code), "{list}");
    }
    assert_eq!(c.lines("SELECT * FROM g"), ["1|2|3", "1|2|3", "1|2|3"]);
}

#[test]
fn what_set_reads_has_to_be_readable() {
    let (server, dir) = server();
    let mut root = server.connect();
    root.run(
        "CREATE TABLE d.t (a INT, b INT, c INT); CREATE VIEW d.v AS SELECT a, b FROM d.t; CREATE USER u;
         GRANT FILE ON *.* TO u; GRANT INSERT (a, b), SELECT (a) ON d.t TO u;
         GRANT INSERT (a, b), SELECT (a) ON d.v TO u",
    );
    let file = put(dir.path(), "one", b"1\n");
    let mut c = Client::connect("127.0.0.1", server.port, "u", "", None).expect("connect");
    for (list, code) in [
        ("t (a) SET b = a", None),
        ("t (@x) SET b = @x", None),
        ("t (a) SET b = DEFAULT(a)", None),
        ("t (b) SET a = b", Some(1143)),
        ("t (a) SET b = c", Some(1143)),
        ("t (a) SET b = DEFAULT(b)", Some(1143)),
        ("t (a) SET c = 1", Some(1143)),
        ("v (a) SET b = a", None),
        ("v (b) SET a = b", Some(1143)),
    ] {
        let sql = format!("LOAD DATA INFILE '{file}' INTO TABLE d.{list}");
        assert_eq!(c.code(&sql), code, "{list}");
    }
}

#[test]
fn files_of_the_server() {
    let (server, dir) = server();
    let mut c = server.connect();
    c.run(TABLE);
    let file = put(dir.path(), "a", b"1\ta\t3\n2\t\\N\t4\n3\tx\\ty\t5\n");
    c.run(&format!("LOAD DATA INFILE '{file}' INTO TABLE t"));
    assert_eq!(
        c.lines("SELECT * FROM t ORDER BY id"),
        ["1|a|3", "2|NULL|4", "3|x\ty|5"]
    );
    // Strict: a bad value is an error, and none of the rows stays.
    let bad = put(dir.path(), "bad", b"4\td\t6\n5\te\tno number\n");
    assert_eq!(
        c.code(&format!("LOAD DATA INFILE '{bad}' INTO TABLE t")),
        Some(1366)
    );
    assert_eq!(c.value("SELECT COUNT(*) FROM t"), "3");
    for (content, code) in [
        (&b"4\td\n"[..], 1261),
        (b"4\td\t6\t7\n", 1262),
        (b"4\td\t\\N\n", 1263),
        (b"1\ta\t1\n", 1062),
    ] {
        let file = put(dir.path(), "one", content);
        assert_eq!(
            c.code(&format!("LOAD DATA INFILE '{file}' INTO TABLE t")),
            Some(code)
        );
    }
    // IGNORE makes warnings of them.
    let all = put(
        dir.path(),
        "all",
        b"4\td\n1\tdup\t1\n5\te\tx\n6\tf\t1\t2\n7\tg\t\\N\n",
    );
    c.run(&format!("LOAD DATA INFILE '{all}' IGNORE INTO TABLE t"));
    let warnings: Vec<String> = c
        .rows("SHOW WARNINGS")
        .into_iter()
        .filter_map(|row| row.into_iter().nth(1).flatten())
        .collect();
    assert_eq!(warnings, ["1261", "1062", "1366", "1262", "1263"]);
    assert_eq!(
        c.lines("SELECT * FROM t WHERE id > 3 ORDER BY id"),
        ["4|d|0", "5|e|0", "6|f|1", "7|g|0"]
    );
    c.run(&format!(
        "LOAD DATA INFILE '{file}' REPLACE INTO TABLE t (@a, s, @rest) SET id = @a + 100, k = LENGTH(@a)"
    ));
    assert_eq!(
        c.lines("SELECT * FROM t WHERE id > 100 ORDER BY id"),
        ["101|a|1", "102|NULL|1", "103|x\ty|1"]
    );
}

/// The rows are MySQL's.
#[test]
fn rows_of_xml() {
    let (server, dir) = server();
    let mut c = server.connect();
    c.run("USE d; CREATE TABLE t (a INT, b VARCHAR(20) DEFAULT 'dflt', c VARCHAR(20))");
    let file = r#"<?xml version="1.0"?>
<list>
  <row> <field name="a">1</field> <field name="b">&lt;&#65;&gt;</field> <field name="c" xsi:nil="true" /> </row>
  <!-- <row a="77"/> --> <row a="2" b='two'/> <row A="3" b="upper"/>
  <grp c="outer"><row a="4"><b>one</b><b>two </b></row></grp> <other a="12"/> <row a = "5"/>
</list>"#;
    let path = put(dir.path(), "xml", file.as_bytes());
    let load = format!("LOAD XML INFILE '{path}' INTO TABLE t");
    c.run(&load);
    let all = [
        "1|<&#65;>|NULL",
        "2|two|NULL",
        "NULL|upper|NULL",
        "4|two |outer",
        "NULL|NULL|NULL",
    ];
    assert_eq!(c.lines("SELECT * FROM t"), all);
    c.run("TRUNCATE t");
    c.run(&format!(
        "{load} ROWS IDENTIFIED BY '<row>' IGNORE 3 ROWS (a, @b) SET c = CONCAT('v', @b), b = 's'"
    ));
    assert_eq!(c.lines("SELECT * FROM t"), ["4|s|vtwo ", "NULL|s|NULL"]);
    c.run("TRUNCATE t");
    c.run(&format!(
        "{load} CHARACTER SET utf8mb4 ROWS IDENTIFIED BY '<other>'"
    ));
    assert_eq!(c.lines("SELECT * FROM t"), ["12|NULL|NULL"]);
    c.run("CREATE TABLE n (a INT NOT NULL, b INT NOT NULL DEFAULT 7); CREATE TRIGGER r BEFORE INSERT ON n FOR EACH ROW SET NEW.a = NEW.a * 10");
    let into_n = load.replace("TABLE t", "TABLE n ROWS IDENTIFIED BY '<other>'");
    assert_eq!(c.code(&into_n), Some(1263), "b is not in the file");
    c.run(&format!("{into_n} (a)"));
    assert_eq!(c.lines("SELECT * FROM n"), ["120|7"]);
    let in_program = format!("CREATE PROCEDURE p() {load}");
    assert_eq!(c.code(&in_program), Some(1314));
}

/// LOAD_FILE answers NULL where LOAD DATA has errors, but for what is no file; also in scans and programs.
#[test]
fn a_file_as_a_value() {
    let (server, dir) = server();
    let mut c = server.connect();
    let file = put(dir.path(), "one", b"one\0two");
    let private = put(dir.path(), "private", b"own");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o600);
    fs::set_permissions(&private, mode).expect("permissions");
    let files = dir.path().join("files").display().to_string();
    fs::write(dir.path().join("outside"), "secret").expect("file");
    let read = |c: &mut Client, name: &str| c.value(&format!("SELECT HEX(LOAD_FILE('{name}'))"));
    assert_eq!(read(&mut c, &file), "6F6E650074776F");
    for unseen in [format!("{files}/none"), format!("{files}/../outside")] {
        assert_eq!(read(&mut c, &unseen), "NULL", "{unseen}");
    }
    assert_eq!(c.value("SELECT LOAD_FILE(NULL)"), "NULL");
    assert_eq!(read(&mut c, &private), "6F776E");
    let directory = format!("SELECT LOAD_FILE('{files}')");
    assert_eq!(c.code(&directory), Some(1085));
    c.run(&format!(
        "USE d; CREATE TABLE n (f TEXT); INSERT INTO n VALUES ('{file}'), ('none'); SET sql_mode = '';
         CREATE FUNCTION f() RETURNS TEXT RETURN LOAD_FILE('{file}');
         CREATE USER u@localhost IDENTIFIED BY 'p'; GRANT SELECT ON d.* TO u@localhost"
    ));
    assert_eq!(c.lines("SELECT LENGTH(LOAD_FILE(f)) FROM n"), ["7", "NULL"]);
    assert_eq!(c.value("SELECT LENGTH(f())"), "7");
    c.run("SET GLOBAL max_allowed_packet = 1024");
    let large = put(dir.path(), "large", &[b'x'; 2000]);
    let mut small = server.connect();
    assert_eq!(read(&mut small, &large), "NULL");
    let mut u = Client::connect("127.0.0.1", server.port, "u", "p", None).expect("connect");
    assert_eq!(read(&mut u, &file), "NULL");
}

#[test]
fn what_is_allowed() {
    let (server, dir) = server();
    let mut c = server.connect();
    c.run(TABLE);
    let inside = put(dir.path(), "a", b"1\ta\t3\n");
    fs::write(dir.path().join("secret"), b"1\ta\t3\n").expect("file");
    let outside = dir.path().join("secret").display().to_string();
    let load = |file: &str| format!("LOAD DATA INFILE '{file}' INTO TABLE d.t");
    assert_eq!(c.code(&load(&outside)), Some(1290));
    assert_eq!(
        c.code(&load(&format!(
            "{}/../secret",
            dir.path().join("files").display()
        ))),
        Some(1290)
    );
    assert_eq!(c.code(&load(&format!("{inside}-missing"))), Some(13));
    assert_eq!(
        c.code(&format!("SELECT 1 INTO OUTFILE '{outside}2'")),
        Some(1290)
    );
    assert_eq!(
        c.code(&format!("SELECT 1 INTO OUTFILE '{inside}'")),
        Some(1086)
    );
    c.run("CREATE USER u@localhost; GRANT SELECT, INSERT ON d.* TO u@localhost");
    let mut u = esker_server::client::Client::connect("127.0.0.1", server.port, "u", "", None)
        .expect("connect");
    assert_eq!(u.code(&load(&inside)), Some(1045));
    assert_eq!(
        u.code(&format!("SELECT 1 INTO OUTFILE '{inside}3'")),
        Some(1227)
    );
    // By default there are no files at all.
    let other = tempfile::tempdir().expect("folder");
    let plain = Server::start(other.path(), &[]);
    let mut c = plain.connect();
    c.run("CREATE DATABASE d");
    c.run(TABLE);
    assert_eq!(c.code(&load(&inside)), Some(1290));
    assert_eq!(
        c.code("LOAD DATA LOCAL INFILE 'f' INTO TABLE d.t"),
        Some(3948)
    );
    c.run("SET GLOBAL local_infile = ON");
    // The client of these tests has no files to offer.
    assert_eq!(
        c.code("LOAD DATA LOCAL INFILE 'f' INTO TABLE d.t"),
        Some(3948)
    );
}

#[test]
fn what_is_written_is_read_back() {
    let (server, dir) = server();
    let mut c = server.connect();
    c.run("USE d; CREATE TABLE t (id INT PRIMARY KEY, s TEXT, e DOUBLE, d DATE, b BLOB)");
    c.run(
        "INSERT INTO t VALUES (1, 'a\\tb\\nc\\\\d\"e,f', 1.5, '2020-01-02', x'00FF0A5C'), (2, NULL, NULL, NULL, NULL), \
         (3, '', -0.25, '0001-01-01', ''), (4, 'NULL', 3, '9999-12-31', 'N'), (5, '漢é', 7, NULL, '\\\\N')",
    );
    let clauses = [
        "",
        "FIELDS TERMINATED BY ',' ENCLOSED BY '\"'",
        "FIELDS TERMINATED BY ',' OPTIONALLY ENCLOSED BY '\"' LINES TERMINATED BY '\\r\\n'",
        "FIELDS TERMINATED BY '||' ESCAPED BY '#' LINES STARTING BY '> ' TERMINATED BY ';\\n'",
    ];
    for (at, clause) in clauses.into_iter().enumerate() {
        let path = dir
            .path()
            .join(format!("files/out{at}"))
            .display()
            .to_string();
        c.run(&format!("SELECT * FROM t INTO OUTFILE '{path}' {clause}"));
        c.run("DROP TABLE IF EXISTS back; CREATE TABLE back LIKE t");
        // The BLOB makes it a file of bytes.
        c.run(&format!(
            "LOAD DATA INFILE '{path}' INTO TABLE back CHARACTER SET binary {clause}"
        ));
        let differ = "SELECT COUNT(*) FROM t JOIN back r ON t.id = r.id AND t.s <=> r.s AND t.e <=> r.e \
                      AND t.d <=> r.d AND t.b <=> r.b";
        assert_eq!(c.value(differ), "5", "{clause}");
        assert_eq!(c.value("SELECT COUNT(*) FROM back"), "5");
    }
    let path = dir.path().join("files/dump").display().to_string();
    c.run(&format!(
        "SELECT b, 'x' FROM t WHERE id = 1 INTO DUMPFILE '{path}'"
    ));
    assert_eq!(fs::read(&path).expect("dump"), b"\0\xff\n\\x");
    let two = format!("SELECT b FROM t INTO DUMPFILE '{path}2'");
    assert_eq!(c.code(&two), Some(1172));
    assert!(
        !Path::new(&format!("{path}2")).exists(),
        "an error leaves no file"
    );
}

#[test]
fn the_command_line_and_its_import() {
    if !has_client("mariadb", Command::new("mariadb").arg("--version")) {
        return;
    }
    let (server, dir) = server();
    server.connect().run(TABLE);
    let file = put(dir.path(), "t.csv", b"id;s;k\n1;\"a;b\";2\n2;c;x\n2;d;4\n");
    let common = [
        "--no-defaults",
        "-h127.0.0.1",
        "-uroot",
        "--skip-ssl",
        "--local-infile=1",
    ];
    let port = format!("-P{}", server.port);
    let sql = format!(
        "LOAD DATA LOCAL INFILE '{file}' INTO TABLE t FIELDS TERMINATED BY ';' OPTIONALLY ENCLOSED BY '\"' \
         IGNORE 1 LINES; SHOW WARNINGS; SELECT * FROM t ORDER BY id"
    );
    let got = output(
        Command::new("mariadb")
            .args(common)
            .args([&port, "-vv", "d", "-e", &sql]),
    );
    assert!(
        got.contains("Records: 3  Deleted: 0  Skipped: 1  Warnings: 2"),
        "{got}"
    );
    let rows = "1\ta;b\t2\n2\tc\t0\n";
    assert!(
        got.contains("Incorrect integer value: 'x' for column 'k' at row 2"),
        "{got}"
    );
    assert!(
        got.contains("Duplicate entry '2' for key 't.PRIMARY'"),
        "{got}"
    );
    assert!(got.contains(rows), "{got}");
    // A name that does not exist: the file is not even asked for.
    let sql = format!("LOAD DATA LOCAL INFILE '{file}' INTO TABLE t (id, nope)");
    let out = Command::new("mariadb")
        .args(common)
        .args([&port, "d", "-e", &sql])
        .output()
        .expect("mariadb");
    assert!(String::from_utf8_lossy(&out.stderr).contains("ERROR 1054 (42S22)"));
    if has_client(
        "mariadb-import",
        Command::new("mariadb-import").arg("--version"),
    ) {
        let imported = put(dir.path(), "t.txt", b"7\tseven\t7\n8\teight\t8\n");
        let args = ["--local", "--delete", "d", &imported];
        let got = output(
            Command::new("mariadb-import")
                .args(&common[..4])
                .arg(&port)
                .args(args),
        );
        assert!(
            got.contains("Records: 2  Deleted: 0  Skipped: 0  Warnings: 0"),
            "{got}"
        );
        assert_eq!(
            server.connect().lines("SELECT id FROM d.t ORDER BY id"),
            ["7", "8"]
        );
    }
}

#[test]
fn a_large_file_and_one_that_fails_in_the_middle() {
    let Some(mut python) = python() else {
        return;
    };
    let (server, dir) = server();
    server
        .connect()
        .run("USE d; CREATE TABLE big (id INT PRIMARY KEY, s VARCHAR(100), KEY (s))");
    let mut content = Vec::new();
    for id in 0..50_000 {
        content.extend_from_slice(format!("{id}\t{}\n", "x".repeat(id % 90)).as_bytes());
    }
    let file = put(dir.path(), "big", &content);
    let script = r"
import sys, pymysql
c = pymysql.connect(host='127.0.0.1', port=int(sys.argv[1]), user='root', database='d', local_infile=True)
q = c.cursor()
print(q.execute(f'LOAD DATA LOCAL INFILE %s INTO TABLE big', sys.argv[2]))
c.rollback()
q.execute('SELECT COUNT(*), SUM(LENGTH(s)) FROM big'); print(q.fetchone()[0])
# REPLACE keeps the file strict: the first line of no number ends it, the rest is read and thrown away.
try:
    q.execute('LOAD DATA LOCAL INFILE %s REPLACE INTO TABLE big (s, id)', sys.argv[2])
except pymysql.err.MySQLError as e:
    print(e.args[0])
q.execute('SELECT 1'); print(q.fetchone()[0])
print(q.execute('LOAD DATA LOCAL INFILE %s INTO TABLE big', sys.argv[2]))
c.commit()
q.execute('SELECT COUNT(*) FROM big FORCE INDEX (s)'); print(q.fetchone()[0])
";
    let got = output(python.args(["-c", script, &server.port.to_string(), &file]));
    assert_eq!(got, "50000\n0\n1366\n1\n50000\n50000\n");
}

#[test]
fn mysql_async_sends_files() {
    let (server, dir) = server();
    server.connect().run(TABLE);
    let file = put(dir.path(), "a", b"1\ta\t3\n2\tb\t4\n");
    let options = OptsBuilder::default()
        .ip_or_hostname("127.0.0.1")
        .tcp_port(server.port)
        .prefer_socket(false)
        .user(Some("root"))
        .db_name(Some("d"))
        .local_infile_handler(Some(WhiteListFsHandler::new([&file])));
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("runtime")
        .block_on(async {
            let mut c = Conn::new(options).await.expect("connect");
            c.query_drop(format!("LOAD DATA LOCAL INFILE '{file}' INTO TABLE t"))
                .await
                .expect("load");
            assert_eq!(c.affected_rows(), 2);
            assert_eq!(c.info(), "Records: 2  Deleted: 0  Skipped: 0  Warnings: 0");
            let rows: Vec<(i32, String, i32)> =
                c.query("SELECT * FROM t ORDER BY id").await.expect("rows");
            assert_eq!(rows, [(1, "a".into(), 3), (2, "b".into(), 4)]);
            // A file that the driver will not send: it leaves the protocol there, and the connection is lost.
            let refused = c
                .query_drop("LOAD DATA LOCAL INFILE '/etc/passwd' INTO TABLE t")
                .await;
            assert!(refused.is_err());
        });
    assert_eq!(
        server.connect().lines("SELECT id FROM d.t ORDER BY id"),
        ["1", "2"]
    );
}

/// A load in one transaction is there whole or not at all when the server is killed during it or right after.
#[test]
fn a_killed_load_is_whole_or_gone() {
    let (mut server, dir) = server();
    server
        .connect()
        .run("USE d; CREATE TABLE big (id INT PRIMARY KEY, s VARCHAR(100), KEY (s))");
    const ROWS: usize = 30_000;
    let mut content = Vec::new();
    for id in 0..ROWS {
        content.extend_from_slice(format!("{id}\t{}\n", "x".repeat(id % 90)).as_bytes());
    }
    let file = put(dir.path(), "big", &content);
    let load = format!("LOAD DATA INFILE '{file}' INTO TABLE d.big");
    let mut open = server.connect();
    open.run(&format!("BEGIN; {load}"));
    server.kill();
    server.restart();
    let counts = "SELECT COUNT(*) FROM d.big UNION ALL SELECT COUNT(*) FROM d.big FORCE INDEX (s)";
    assert_eq!(server.connect().lines(counts), ["0", "0"]);
    server.connect().run(&load);
    server.kill();
    server.restart();
    let all = ROWS.to_string();
    assert_eq!(server.connect().lines(counts), [&*all, &*all]);
}

/// Indexes and copies are built as sorted extents, past the log, and survive a crash at once.
#[test]
fn indexes_are_built_without_the_log() {
    let (mut server, dir) = server();
    let mut c = server.connect();
    c.run("USE d; CREATE TABLE big (id INT PRIMARY KEY, s VARCHAR(100), k INT)");
    let mut content = Vec::new();
    for id in 0..20_000_u64 {
        let k = id.wrapping_mul(7919) % 20_011;
        content.extend_from_slice(format!("{id}\t{}\t{k}\n", "x".repeat(90)).as_bytes());
    }
    let file = put(dir.path(), "big", &content);
    c.run(&format!("LOAD DATA INFILE '{file}' INTO TABLE d.big"));
    let status = |c: &mut esker_server::client::Client, name: &str| -> u64 {
        let row = c
            .rows(&format!("SHOW GLOBAL STATUS LIKE '{name}'"))
            .remove(0);
        row[1]
            .as_deref()
            .unwrap_or_default()
            .parse()
            .expect("number")
    };
    let (trees, logged) = (
        status(&mut c, "Esker_built_trees"),
        status(&mut c, "Esker_log_bytes"),
    );
    c.run("CREATE INDEX ks ON big (k, s); ALTER TABLE big MODIFY s VARCHAR(101), MODIFY k BIGINT");
    assert!(status(&mut c, "Esker_built_trees") >= trees + 3);
    assert!(status(&mut c, "Esker_built_extents") > 0 && status(&mut c, "Esker_built_bytes") > 0);
    let logged = status(&mut c, "Esker_log_bytes") - logged;
    assert!(logged < 100_000, "{logged} bytes were logged");
    server.kill();
    server.restart();
    let mut c = server.connect();
    let sums = "SELECT COUNT(*), SUM(k), SUM(LENGTH(s)) FROM d.big FORCE INDEX (ks) WHERE k >= 0";
    let expected: u64 = (0..20_000_u64)
        .map(|id| id.wrapping_mul(7919) % 20_011)
        .sum();
    assert_eq!(c.value(sums), format!("20000|{expected}|1800000"));
    // Duplicates are told with the values of the row.
    c.run("INSERT INTO d.big VALUES (30000, 'dup', 5), (30001, 'dup', 6)");
    assert_eq!(c.code("ALTER TABLE d.big ADD UNIQUE (k)"), Some(1062));
    assert_eq!(
        c.code("ALTER TABLE d.big ADD UNIQUE (s), MODIFY k INT"),
        Some(1062)
    );
    assert_eq!(
        c.code("ALTER TABLE d.big DROP PRIMARY KEY, ADD PRIMARY KEY (k)"),
        Some(1062)
    );
    assert_eq!(c.value("SELECT COUNT(*) FROM d.big"), "20002");
}
