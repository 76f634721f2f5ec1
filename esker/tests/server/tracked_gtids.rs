//! session_track_gtids: what clients hear of the GTIDs of their transactions, byte by byte as MySQL 9.7 sends it; and
//! the same set in `mysql.gtid_executed`.

use crate::common::{Ask, Server, output, python};

const ARGS: [&str; 2] = ["--log-bin=ON", "--gtid-mode=ON"];

/// Reads the GTIDs out of the OK packets that PyMySQL has received.
const CLIENT: &str = r#"
import sys, pymysql
from pymysql import connections
seen = []
read = connections.Connection._read_packet
def spy(self, packet_type=connections.MysqlPacket):
    packet = read(self, packet_type)
    seen.append(packet._data)
    return packet
connections.Connection._read_packet = spy
def connect(flag):
    return pymysql.connect(host="127.0.0.1", port=int(sys.argv[1]), user="root", ssl_disabled=True,
                           client_flag=flag, autocommit=True)
TRACK = 1 << 23
c = connect(TRACK)
cursor = c.cursor()
cursor.execute("SELECT @@server_uuid")
uuid = cursor.fetchone()[0]
# All lengths and numbers here have one byte.
def gtids_of(ok):
    assert ok[0] == 0, ok
    if not int.from_bytes(ok[3:5], "little") & 0x4000:
        return None
    at = 8 + ok[7]
    end, at = at + 1 + ok[at], at + 1
    assert end == len(ok), ok
    while at < end:
        data = ok[at + 2:at + 2 + ok[at + 1]]
        if ok[at] == 3:
            assert data[0] == 0 and data[1] == len(data) - 2, ok
            return data[2:].decode()
        at += 2 + len(data)
def run(sql, gtids, uuid=uuid):
    cursor.execute(sql)
    told = gtids_of(seen[-1])
    assert told == (gtids and uuid + ":" + gtids), (sql, told)
run("CREATE DATABASE d", None)
# effect: session_track_gtids
run("CREATE TABLE d.t (a INT PRIMARY KEY)", None)
run("SET session_track_gtids = OWN_GTID", None)
run("INSERT INTO d.t VALUES (1)", "3")
assert seen[-1] == b"\0\1\0\2@\0\0\0\x2a\3\x28\0\x26" + uuid.encode() + b":3", seen[-1]
run("BEGIN", None)
run("INSERT INTO d.t VALUES (2)", None)
run("COMMIT", "4")
run("BEGIN", None)
run("COMMIT", None)
run("BEGIN", None)
run("INSERT INTO d.t VALUES (3)", None)
run("ROLLBACK", None)
run("DO 1", None)
run("UPDATE d.t SET a = 9 WHERE a = 8", None)
run("BEGIN", None)
run("INSERT INTO d.t VALUES (5)", None)
# The transaction that it commits, and its own.
run("CREATE TABLE d.v (a INT)", "5-6")
run("CREATE USER u", "7")
run("DROP USER u", "8")
run("DROP TABLE d.v", "9")
run("BEGIN", None)
run("INSERT INTO d.t VALUES (7)", None)
run("BEGIN", "10")
run("COMMIT", None)
run("XA START 'x'", None)
run("INSERT INTO d.t VALUES (8)", None)
run("XA END 'x'", None)
run("XA PREPARE 'x'", "11")
run("XA COMMIT 'x'", "12")
other = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
run(f"SET gtid_next = '{other}:77'", None)
run("INSERT INTO d.t VALUES (10)", "77", other)
run("SET gtid_next = AUTOMATIC", None)
run("SET sql_log_bin = 0", None)
run("INSERT INTO d.t VALUES (11)", None)
run("SET sql_log_bin = 1", None)
run("SET session_track_gtids = ALL_GTIDS", None)
cursor.execute("INSERT INTO d.t VALUES (12)")
everything = ",\n".join(sorted([f"{other}:77", f"{uuid}:1-13"]))
assert gtids_of(seen[-1]) == everything, seen[-1]
run("BEGIN", None)
cursor.execute("COMMIT")
assert gtids_of(seen[-1]) == everything, seen[-1]
run("SET session_track_gtids = OFF", None)
run("INSERT INTO d.t VALUES (13)", None)
cursor = connect(0).cursor()
run("SET session_track_gtids = OWN_GTID", None)
run("INSERT INTO d.t VALUES (14)", None)
print("fine")
"#;

#[test]
fn clients_that_ask_hear_of_their_gtids() {
    let Some(mut python) = python() else {
        return;
    };
    let dir = tempfile::tempdir().expect("dir");
    let server = Server::start(dir.path(), &ARGS);
    let out = output(python.args(["-c", CLIENT]).arg(server.port.to_string()));
    assert_eq!(out, "fine\n");
}

#[test]
fn the_table_of_gtids_is_the_variable() {
    let dir = tempfile::tempdir().expect("dir");
    let mut server = Server::start(dir.path(), &ARGS);
    let mut c = server.connect();
    let other = "3e11fa47-71ca-11e1-9e33-c80aa9429562";
    c.run("CREATE DATABASE d; CREATE TABLE d.t (a INT PRIMARY KEY); INSERT INTO d.t VALUES (1)");
    for gno in [1, 2, 7] {
        c.run(&format!("SET gtid_next = '{other}:{gno}'; COMMIT"));
    }
    c.run(&format!(
        "SET gtid_next = '{other}:tag:5'; COMMIT; SET gtid_next = AUTOMATIC"
    ));
    let own = c.value("SELECT @@server_uuid");
    let expected = [
        format!("{other}|1|2|"),
        format!("{other}|5|5|tag"),
        format!("{other}|7|7|"),
        format!("{own}|1|3|"),
    ];
    let table = "SELECT * FROM mysql.gtid_executed WHERE 1 ORDER BY source_uuid = @@server_uuid, 2";
    assert_eq!(c.lines(table), expected);
    // Also behind a restart, and a crash.
    for crashes in [false, true] {
        match crashes {
            true => server.kill(),
            false => server.stop(),
        }
        server.restart();
        c = server.connect();
        assert_eq!(c.lines(table), expected);
    }
    c.run("RESET BINARY LOGS AND GTIDS");
    assert!(c.rows(table).is_empty());
    c.run("DROP TABLE d.t");
    assert_eq!(c.lines(table), [format!("{own}|1|1|")]);
}
