//! Real clients against a real server: the `mariadb` command line and PyMySQL.
//!
//! `.ci/run` installs them; `ESKER_TEST_PYTHON` names a Python that has PyMySQL and cryptography. A test
//! whose client is missing says so and passes.

use std::process::Command;

use crate::common::{Ask, Server, has_client, output, python};

fn server(args: &[&str]) -> (Server, tempfile::TempDir) {
    let dir = tempfile::tempdir().expect("folder");
    (Server::start(dir.path(), args), dir)
}

fn has_mariadb() -> bool {
    has_client("mariadb", Command::new("mariadb").arg("--version"))
}

fn mariadb(server: &Server) -> Command {
    let mut c = Command::new("mariadb");
    c.args([
        "--no-defaults",
        "-h127.0.0.1",
        "-uroot",
        "--batch",
        "--skip-column-names",
    ]);
    c.arg(format!("-P{}", server.port));
    c
}

#[test]
fn the_command_line_with_and_without_tls() {
    if !has_mariadb() {
        return;
    }
    let (server, _dir) = server(&[]);
    let script = "CREATE DATABASE d; USE d; CREATE TABLE t (id INT PRIMARY KEY, s VARCHAR(10)); \
                  INSERT INTO t VALUES (1, 'a'), (2, NULL); SELECT * FROM t ORDER BY id DESC";
    let got = output(mariadb(&server).args(["--skip-ssl", "-e", script]));
    assert_eq!(got, "2\tNULL\n1\ta\n");
    let status = output(mariadb(&server).args(["--ssl", "-e", "SHOW STATUS LIKE 'Ssl_version'"]));
    assert_eq!(status, "Ssl_version\tTLSv1.3\n");
    let wrong = mariadb(&server)
        .args(["--skip-ssl", "-e", "SELECT * FROM d.nope"])
        .output()
        .expect("mariadb");
    let text = String::from_utf8_lossy(&wrong.stderr).into_owned();
    assert!(text.contains("ERROR 1146 (42S02)"), "{text}");
}

#[test]
fn passwords_of_both_kinds() {
    if !has_mariadb() {
        return;
    }
    let (server, _dir) = server(&[]);
    server.connect().run(
        "CREATE USER new@localhost IDENTIFIED BY 'n3w'; \
         CREATE USER old@localhost IDENTIFIED WITH mysql_native_password BY '0ld'; \
         GRANT ALL ON *.* TO new@localhost; GRANT ALL ON *.* TO old@localhost",
    );
    for (user, password) in [("new", "n3w"), ("old", "0ld")] {
        let login = |password: &str| {
            Command::new("mariadb")
                .args([
                    "--no-defaults",
                    "-h127.0.0.1",
                    "--batch",
                    "--skip-column-names",
                    "--ssl",
                ])
                .args([
                    format!("-u{user}"),
                    format!("-p{password}"),
                    format!("-P{}", server.port),
                ])
                .args(["-e", "SELECT CURRENT_USER()"])
                .output()
                .expect("mariadb")
        };
        let good = login(password);
        assert_eq!(
            String::from_utf8_lossy(&good.stdout),
            format!("{user}@localhost\n")
        );
        let bad = login("wrong");
        assert!(String::from_utf8_lossy(&bad.stderr).contains("ERROR 1045 (28000)"));
    }
}

const PYMYSQL: &str = r#"
import sys, datetime, decimal, pymysql
port = int(sys.argv[1])
c = pymysql.connect(host="127.0.0.1", port=port, user="app", password="secret", charset="utf8mb4")
cur = c.cursor()
cur.execute("CREATE DATABASE py")
c.select_db("py")
cur.execute("SELECT 1")
assert not c.server_status & 1, "a SELECT without a table opened a transaction"
cur.execute("""CREATE TABLE t (id BIGINT UNSIGNED AUTO_INCREMENT PRIMARY KEY, n DECIMAL(20,5),
    d DATE, ts DATETIME(6), tm TIME, s VARCHAR(50), b BLOB, f DOUBLE, e ENUM('x','y'), UNIQUE KEY (s))""")
row = (decimal.Decimal("123.45000"), datetime.date(2024, 2, 29),
       datetime.datetime(2024, 2, 29, 1, 2, 3, 456789), datetime.timedelta(hours=-5, minutes=-6),
       "h\u00e4ll\u00f6 \U0001F600", b"\x00\xff'\\", 1.5, "y")
cur.execute("INSERT INTO t (n, d, ts, tm, s, b, f, e) VALUES (%s,%s,%s,%s,%s,%s,%s,%s)", row)
assert cur.lastrowid == 1, cur.lastrowid
assert c.server_status & 1, "an INSERT opened no transaction"
c.commit()
cur.execute("SELECT n, d, ts, tm, s, b, f, e FROM t")
got = cur.fetchone()
assert got == row, (got, row)
try:
    cur.execute("INSERT INTO t (s) VALUES (%s)", (row[4],))
    raise SystemExit("duplicate accepted")
except pymysql.err.IntegrityError as e:
    assert e.args[0] == 1062, e
c.rollback()
cur.executemany("INSERT INTO t (s) VALUES (%s)", [("k%d" % i,) for i in range(1000)])
c.commit()
cur = c.cursor(pymysql.cursors.SSCursor)
cur.execute("SELECT id, s FROM t ORDER BY id")
assert len(list(cur)) == 1001
cur.close()
cur = c.cursor(pymysql.cursors.DictCursor)
cur.execute("SELECT COUNT(*) AS n, MAX(id) AS m FROM t WHERE s LIKE 'k%%'")
got = cur.fetchone()
assert got["n"] == 1000, got
big = "x" * (17 * 1024 * 1024)
cur.execute("SELECT LENGTH(%s) AS n", (big,))
assert cur.fetchone()["n"] == len(big)
cur.execute("SELECT REPEAT('y', 20000000) AS r")
assert len(cur.fetchone()["r"]) == 20000000
print("fine")
"#;

#[test]
fn pymysql_over_rsa() {
    let Some(mut python) = python() else { return };
    let (server, dir) = server(&["--skip-ssl"]);
    server
        .connect()
        .run("CREATE USER app@localhost IDENTIFIED BY 'secret'; GRANT ALL ON *.* TO app@localhost");
    let script = dir.path().join("check.py");
    std::fs::write(&script, PYMYSQL).expect("script");
    let got = output(python.arg(&script).arg(server.port.to_string()));
    assert_eq!(got, "fine\n");
}

/// Clients may send the TLS hello together with the request for it.
const MANY_TLS_LOGINS: &str = r#"
import ssl, sys, pymysql
context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
context.check_hostname = False
context.verify_mode = ssl.CERT_NONE
for _ in range(150):
    c = pymysql.connect(host="127.0.0.1", port=int(sys.argv[1]), user="root", ssl=context)
    c.close()
print("fine")
"#;

#[test]
fn tls_logins_do_not_depend_on_how_packets_arrive() {
    let Some(mut python) = python() else { return };
    let (server, dir) = server(&[]);
    let script = dir.path().join("tls.py");
    std::fs::write(&script, MANY_TLS_LOGINS).expect("script");
    let got = output(python.arg(&script).arg(server.port.to_string()));
    assert_eq!(got, "fine\n");
}

/// Statements, parameters, results and names of columns in the client's character set.
const IN_OTHER_CHARACTER_SETS: &str = r#"
import sys, pymysql
texts = {
    "cp1250": "čŽ", "cp1251": "жЯ", "cp1257": "ąŽ", "cp850": "éä", "cp866": "жЯ", "greek": "αΩ", "hebrew": "אב",
    "koi8r": "жЯ", "latin2": "čŽ", "latin5": "ığ", "latin7": "ąŽ", "tis620": "กข",
}
codecs = {"koi8r": "koi8_r"}
for charset, text in texts.items():
    c = pymysql.connect(host="127.0.0.1", port=int(sys.argv[1]), user="root", charset=charset)
    q = c.cursor()
    q.execute("CREATE DATABASE x CHARACTER SET " + charset)
    q.execute("CREATE TABLE x.t (a VARCHAR(9) PRIMARY KEY, b VARBINARY(9), u VARCHAR(9) CHARACTER SET utf8mb4)")
    stored = text.encode(codecs.get(charset, charset)).hex().upper()
    q.execute("INSERT INTO x.t VALUES (%s, X'" + stored + "', %s)", (text, text))
    found = "SELECT a AS `" + text + "`, HEX(a), HEX(b), u, HEX(u) FROM x.t WHERE a = '" + text.replace("'", "''") + "'"
    q.execute(found)
    assert q.fetchall() == ((text, stored, stored, text, text.encode().hex().upper()),), charset
    assert q.description[0][0] == text, (charset, q.description)
    q.execute("SELECT @@character_set_client, @@character_set_connection, @@character_set_results")
    assert q.fetchall() == ((charset,) * 3,), charset
    q.execute("DROP DATABASE x")
for charset in ["big5", "cp932", "euckr", "gb2312", "gbk", "sjis", "ujis"]:
    # Half of a character may be taken for a quote or a backslash there: refused by name and in the handshake.
    c = pymysql.connect(host="127.0.0.1", port=int(sys.argv[1]), user="root")
    try:
        c.cursor().execute("SET NAMES " + charset)
        assert False, charset
    except pymysql.err.MySQLError as e:
        assert e.args[0] == 1231, (charset, e)
    try:
        pymysql.connect(host="127.0.0.1", port=int(sys.argv[1]), user="root", charset=charset)
        assert False, charset
    except pymysql.err.MySQLError as e:
        assert e.args[0] == 1115, (charset, e)
print("all")
"#;

#[test]
fn pymysql_in_other_character_sets() {
    let Some(mut python) = python() else { return };
    let (server, _dir) = server(&["--skip-ssl"]);
    let port = server.port.to_string();
    let got = output(python.args(["-c", IN_OTHER_CHARACTER_SETS, &port]));
    assert_eq!(got, "all\n");
}
