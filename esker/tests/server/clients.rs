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

/// Statements, parameters, results and names of columns in the client's character set; half of a character may look
/// like a backslash.
const IN_OTHER_CHARACTER_SETS: &str = r#"
import sys, pymysql
texts = {
    "cp1250": "čŽ", "cp1251": "жЯ", "cp1257": "ąŽ", "cp850": "éä", "cp866": "жЯ", "greek": "αΩ", "hebrew": "אב",
    "koi8r": "жЯ", "latin2": "čŽ", "latin5": "ığ", "latin7": "ąŽ", "tis620": "กข", "big5": "功中", "cp932": "表①",
    "euckr": "한글", "gb2312": "中国", "gbk": b"\x95\x5c'".decode("gbk"), "sjis": "表ｱ", "ujis": "亜ｱ",
}
codecs = {"koi8r": "koi8_r", "ujis": "euc_jp"}
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

/// Literals of bytes that a client has escaped, or not, in the character sets in which half of a character may be a
/// backslash; what stands behind the number of rows is what it asks.
const LITERALS_OF_ANY_BYTES: &str = r#"
import random, sys, pymysql
from pymysql.constants import COMMAND

SHAPES = {
    "big5": (lambda a, b: 0xa1 <= a <= 0xf9 and (0x40 <= b <= 0x7e or 0xa1 <= b <= 0xfe)),
    "cp932": (lambda a, b: (0x81 <= a <= 0x9f or 0xe0 <= a <= 0xfc) and 0x40 <= b <= 0xfc and b != 0x7f),
    "euckr": (lambda a, b: 0x81 <= a <= 0xfe and (0x41 <= b <= 0x5a or 0x61 <= b <= 0x7a or 0x81 <= b <= 0xfe)),
    "gb2312": (lambda a, b: 0xa1 <= a <= 0xf7 and 0xa1 <= b <= 0xfe),
    "gbk": (lambda a, b: 0x81 <= a <= 0xfe and 0x40 <= b <= 0xfe and b != 0x7f),
}
SHAPES["sjis"] = SHAPES["cp932"]

def ask(c, text):
    try:
        c._execute_command(COMMAND.COM_QUERY, text)
        c._affected_rows = c._read_query_result()
        return c._result.rows
    except pymysql.err.MySQLError as e:
        return e.args[0]

def code(charset, text, at):
    pair = text[at:at + 2]
    return 2 if len(pair) == 2 and SHAPES[charset](*pair) else 0

def escaped(charset, text):
    # mysql_real_escape_string: a byte that only looks like the beginning of a character is escaped, too.
    out, at = b"", 0
    while at < len(text):
        size = code(charset, text, at)
        if size:
            out += text[at:at + size]
            at += size
            continue
        byte = text[at:at + 1]
        letters = {b"\0": b"0", b"\n": b"n", b"\r": b"r", b"\x1a": b"Z"}
        begins = byte >= b"\x80" and any(SHAPES[charset](byte[0], b) for b in range(256))
        if byte in letters:
            out += b"\\" + letters[byte]
        elif byte in (b"'", b'"', b"\\") or begins:
            out += b"\\" + byte
        else:
            out += byte
        at += 1
    return out

def literal_end(charset, text, escapes):
    # Where MySQL ends the literal that begins with the text: the value and the end, or None.
    quote, at, value = text[:1], 1, b""
    letters = {b"0": b"\0", b"n": b"\n", b"r": b"\r", b"t": b"\t", b"b": b"\b", b"Z": b"\x1a"}
    while at < len(text):
        size = code(charset, text, at)
        byte, next = text[at:at + 1], text[at + 1:at + 2]
        if size:
            value += text[at:at + size]
            at += size
        elif byte == b"\\" and escapes:
            if not next:
                return None
            value += letters.get(next, b"\\" + next if next in (b"%", b"_") else next)
            at += 2
        elif byte == quote and next == quote:
            value += quote
            at += 2
        elif byte == quote:
            return value, at + 1
        else:
            value += byte
            at += 1
    return None

c = pymysql.connect(host="127.0.0.1", port=int(sys.argv[1]), user="root", charset="latin1")
c.encoding = "iso8859-1"
random.seed(5)
counts = [0, 0, 0]
pieces = [b"'", b"\\", b'"', b"a", b"%", b"n", b"\x81", b"\x5f", b"\x95", b"\xbf", b"\xff", b"\xa1", b"@", b"~"]
for charset in SHAPES:
    for mode in ["", "NO_BACKSLASH_ESCAPES"]:
        assert ask(c, b"SET sql_mode='" + mode.encode() + b"'") == None
        # What is no text is kept where the connection has the client's set.
        assert ask(c, b"SET NAMES " + charset.encode()) == None
        for n in range(300):
            raw = b"".join(random.choices(pieces, k=random.randrange(9)))
            if not mode:
                got = ask(c, b"SELECT HEX('" + escaped(charset, raw) + b"'), 7")
                # Its 815F is a backslash, too.
                assert got == ((raw.hex().upper(), 7),) or charset == "sjis", (charset, raw, got)
                assert len(got[0]) == 2, (charset, raw, got)
                counts[0] += 1
            text = b"'" + raw + b"'"
            end = literal_end(charset, text, not mode)
            got = ask(c, b"SELECT HEX(" + text + b"), 7")
            if end and end[1] == len(text):
                assert got == ((end[0].hex().upper(), 7),) or charset == "sjis", (charset, mode, raw, got)
                assert len(got[0]) == 2, (charset, mode, raw, got)
                counts[1] += 1
            elif end is None:
                assert got == 1064, (charset, mode, raw, got)
                counts[2] += 1
assert all(count > 200 for count in counts), counts
print("all")
"#;

#[test]
fn literals_of_clients_end_where_mysql_ends_them() {
    let Some(mut python) = python() else { return };
    let (server, _dir) = server(&["--skip-ssl"]);
    let port = server.port.to_string();
    let got = output(python.args(["-c", LITERALS_OF_ANY_BYTES, &port]));
    assert_eq!(got, "all\n");
}

/// Texts that are escaped once, and statements made of them in the server; what is left of a login in sets that no
/// statement can be in.
const READ_ONCE: &str = r#"
import sys, pymysql
from pymysql.constants import COMMAND

port = int(sys.argv[1])

def ask(c, text):
    c._execute_command(COMMAND.COM_QUERY, text)
    c._read_query_result()
    return c._result.rows

for charset in ["gbk", "gb18030", "latin1"]:
    c = pymysql.connect(host="127.0.0.1", port=port, user="root", charset=charset)
    ask(c, b"SET @a = '\xD6\xD0\\\\', @b = ', (SELECT CURRENT_USER())) -- '")
    ask(c, b"SET @v = CONCAT('SELECT CONCAT(', QUOTE(@a), ',', QUOTE(@b), ')')")
    ask(c, b"PREPARE s FROM @v")
    got = ask(c, b"EXECUTE s")
    said = b"\xD6\xD0".decode(charset) + "\\, (SELECT CURRENT_USER())) -- "
    assert got == ((said,),), (charset, got)
c = pymysql.connect(host="127.0.0.1", port=port, user="root")
c.query("SET NAMES armscii8")
assert ask(c, b"SELECT HEX('a\xFF'), 5 -- '), 6") in [((b"61FF", 5),), (("61FF", 5),), ((b"6127", 5),), (("6127", 5),)]

class Other:
    def __init__(self, number, codec):
        self.id, self.name, self.encoding, self.is_default = number, codec, codec, True

for number, code in [(35, 1231), (54, 1231), (60, 1231), (56, 1231)]:
    by_name = pymysql.connections.charset_by_name
    pymysql.connections.charset_by_name = lambda name: Other(number, "utf8")
    try:
        pymysql.connect(host="127.0.0.1", port=port, user="root", charset="utf8mb4")
        assert False, number
    except pymysql.err.MySQLError as e:
        assert e.args[0] == code, (number, e)
    finally:
        pymysql.connections.charset_by_name = by_name
print("all")
"#;

#[test]
fn statements_are_read_in_the_clients_set_once() {
    let Some(mut python) = python() else { return };
    let (server, _dir) = server(&["--skip-ssl"]);
    let port = server.port.to_string();
    let got = output(python.args(["-c", READ_ONCE, &port]));
    assert_eq!(got, "all\n");
}
