//! Clients that break the protocol, ask for too much, or vanish: the server stays, answers others, and
//! holds nothing for those who are gone.
//!
//! Neighbours: `common` starts servers; packets are made by hand here, because no client library makes
//! such ones.

use std::io::{Read, Write};
use std::net::TcpStream;

use esker_server::client::{Client, ClientError};

use crate::common::{Ask, PATIENCE, Server, eventually, patiently};

const LONG_PASSWORD: u32 = 1;
const PROTOCOL_41: u32 = 0x200;
const SECURE_CONNECTION: u32 = 0x8000;
const MULTI_STATEMENTS: u32 = 0x1_0000;
const PLUGIN_AUTH: u32 = 0x8_0000;
const DEPRECATE_EOF: u32 = 0x100_0000;
const CAPABILITIES: u32 = LONG_PASSWORD
    | PROTOCOL_41
    | SECURE_CONNECTION
    | MULTI_STATEMENTS
    | PLUGIN_AUTH
    | DEPRECATE_EOF;

fn server(args: &[&str]) -> (Server, tempfile::TempDir) {
    let dir = tempfile::tempdir().expect("folder");
    let server = Server::start(dir.path(), args);
    server.connect().run(
        "CREATE DATABASE d; CREATE TABLE d.t (id INT PRIMARY KEY, v INT);
         INSERT INTO d.t VALUES (1,1),(2,2),(3,3)",
    );
    (server, dir)
}

fn packet(seq: u8, payload: &[u8]) -> Vec<u8> {
    let mut out = (payload.len() as u32).to_le_bytes()[..3].to_vec();
    out.push(seq);
    out.extend_from_slice(payload);
    out
}

/// A login packet of root without a password.
fn login_packet() -> Vec<u8> {
    login_packet_with(0)
}

/// One of a client that can do more.
fn login_packet_with(more: u32) -> Vec<u8> {
    let mut p = (CAPABILITIES | more).to_le_bytes().to_vec();
    p.extend_from_slice(&(1u32 << 24).to_le_bytes());
    p.push(255);
    p.extend_from_slice(&[0; 23]);
    p.extend_from_slice(b"root\0\0caching_sha2_password\0");
    p
}

/// A connection without manners.
pub struct Raw(TcpStream);

impl Raw {
    /// Connects and reads the greeting.
    fn greeted(server: &Server) -> Self {
        let stream = TcpStream::connect(("127.0.0.1", server.port)).expect("connect");
        stream.set_read_timeout(Some(PATIENCE)).expect("timeout");
        let mut raw = Self(stream);
        raw.read().expect("greeting");
        raw
    }

    /// Logs in as root.
    pub fn root(server: &Server) -> Self {
        Self::able(server, 0)
    }

    /// Logs in as root with more capabilities than all have.
    pub fn able(server: &Server, capabilities: u32) -> Self {
        let mut raw = Self::greeted(server);
        raw.send(&packet(1, &login_packet_with(capabilities)));
        let answer = raw.read().expect("answer");
        assert_eq!(answer[0], 0, "{answer:?}");
        raw
    }

    pub fn send(&mut self, bytes: &[u8]) {
        // The server may have closed already: then the answer tells.
        let _ = self.0.write_all(bytes);
    }

    pub fn command(&mut self, payload: &[u8]) {
        self.send(&packet(0, payload));
    }

    /// The next packet; None at the end of the stream.
    pub fn read(&mut self) -> Option<Vec<u8>> {
        let mut header = [0; 4];
        self.0.read_exact(&mut header).ok()?;
        let length = u32::from_le_bytes([header[0], header[1], header[2], 0]);
        let mut payload = vec![0; length as usize];
        self.0.read_exact(&mut payload).ok()?;
        Some(payload)
    }

    /// The sequence number of the next packet.
    fn seq(&self) -> u8 {
        let mut header = [0; 4];
        while self.0.peek(&mut header).expect("an answer") < header.len() {
            std::thread::yield_now();
        }
        header[3]
    }

    /// The error code of the next packet; 0 for anything else.
    fn code(&mut self) -> u16 {
        match self.read().as_deref() {
            Some([0xff, low, high, ..]) => u16::from_le_bytes([*low, *high]),
            Some(_) => 0,
            None => panic!("the connection was closed without a word"),
        }
    }

    /// Reads until the server has closed the connection.
    pub fn hear_the_end(&mut self) {
        while self.read().is_some() {}
    }

    /// The error code that a statement ends with, rows or not; 0 for none.
    pub fn end(&mut self) -> u16 {
        loop {
            match self.read().as_deref() {
                Some([0xff, low, high, ..]) => return u16::from_le_bytes([*low, *high]),
                Some([0 | 0xfe, ..]) => return 0,
                Some(_) => (),
                None => panic!("the connection was closed without a word"),
            }
        }
    }

    fn is_closed(&mut self) -> bool {
        self.read().is_none()
    }

    /// Prepares a statement and returns its id.
    pub fn prepare(&mut self, sql: &str) -> u32 {
        self.command(&[b"\x16", sql.as_bytes()].concat());
        let answer = self.read().expect("answer");
        assert_eq!(answer[0], 0, "{answer:?}");
        let number = |at: usize| usize::from(u16::from_le_bytes([answer[at], answer[at + 1]]));
        for _ in 0..number(5) + number(7) {
            self.read().expect("column");
        }
        u32::from_le_bytes([answer[1], answer[2], answer[3], answer[4]])
    }

    pub fn execute(&mut self, id: u32, body: &[u8]) -> u16 {
        let mut p = vec![0x17];
        p.extend_from_slice(&id.to_le_bytes());
        p.extend_from_slice(&[0, 1, 0, 0, 0]);
        p.extend_from_slice(body);
        self.command(&p);
        self.code()
    }

    /// Runs a query for a cursor: the error code, 0 for none. Nothing is fetched.
    pub fn open_cursor(&mut self, sql: &str) -> u16 {
        let id = self.prepare(sql);
        let head = [0x17].into_iter().chain(id.to_le_bytes());
        let command: Vec<u8> = head.chain([1, 1, 0, 0, 0]).collect();
        self.command(&command);
        let code = self.code();
        if code == 0 {
            // The column, and the end of the columns.
            self.read().expect("column");
            self.read().expect("end");
        }
        code
    }

    pub fn long_data(&mut self, id: u32, param: u16, data: &[u8]) {
        let mut p = vec![0x18];
        p.extend_from_slice(&id.to_le_bytes());
        p.extend_from_slice(&param.to_le_bytes());
        p.extend_from_slice(data);
        self.command(&p);
    }
}

/// Memory of the server, KiB.
fn resident_kib(server: &Server) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.pid())).expect("status");
    let line = status.lines().find(|l| l.starts_with("VmRSS:"));
    let number = line.and_then(|l| l.split_whitespace().nth(1));
    number.and_then(|n| n.parse().ok()).expect("VmRSS")
}

#[test]
fn broken_handshakes() {
    let (server, _dir) = server(&["--skip-ssl"]);
    let whole = login_packet();
    let failed = || {
        let mut c = server.connect();
        let line = c.value("SHOW GLOBAL STATUS LIKE 'Aborted_connects'");
        line.rsplit('|')
            .next()
            .and_then(|n| n.parse::<u64>().ok())
            .expect("a number")
    };
    let before = failed();
    let mut cases: Vec<(Vec<u8>, u16)> = vec![
        (packet(1, b""), 1043),
        (packet(5, &whole), 1156),
        (b"GET / HTTP/1.1\r\n\r\n".to_vec(), 1156),
        (vec![0xff, 0xff, 0xff, 1], 1153),
    ];
    for length in [1, 4, 8, 31, 32, 33, 35] {
        cases.push((packet(1, &whole[..length]), 1043));
    }
    let mut with_length = whole.clone();
    with_length.truncate(32);
    with_length[2] |= 0x20; // length-encoded proof
    with_length.extend_from_slice(b"root\0\xfe\xff\xff\xff\xff\xff\xff\xff\xff");
    cases.push((packet(1, &with_length), 1043));
    for (bytes, code) in cases {
        let mut raw = Raw::greeted(&server);
        raw.send(&bytes);
        assert_eq!(raw.code(), code, "{bytes:?}");
        assert!(raw.is_closed(), "{bytes:?}");
    }
    assert_eq!(failed() - before, 12);
}

#[test]
fn a_handshake_has_its_time() {
    // effect: connect_timeout
    let (server, _dir) = server(&["--skip-ssl", "--connect-timeout=2"]);
    let mut silent = Raw::greeted(&server);
    let mut slow = Raw::greeted(&server);
    slow.send(&[40, 0]);
    assert!(silent.is_closed() && slow.is_closed());
    assert_eq!(server.connect().value("SELECT 1"), "1");
}

#[test]
fn broken_commands() {
    let (server, _dir) = server(&["--skip-ssl", "--max-allowed-packet=1M"]);
    let mut raw = Raw::root(&server);
    for (command, code) in [
        (&b""[..], 1835),
        (b"\x00", 1047),
        (b"\x14junk", 1047),
        (b"\xff", 1047),
        (b"\x17", 1835),
        (b"\x17\x63\0\0\0\0\x01\0\0\0", 1243),
        (b"\x1c\x63\0\0\0\x01\0\0\0", 1243),
        (b"\x1a\x63\0\0\0", 1243),
        (b"\x1b\x07\0", 1047),
        (b"\x02nowhere\xff", 1049),
        (b"\x03SELECT \0 1", 1064),
        (b"\x03SELECT '\xff", 1064),
        (b"\x03", 1065),
        (b"\x16SELECT ?, ", 1064),
        (b"\x0e", 0),
    ] {
        raw.command(command);
        assert_eq!(raw.code(), code, "{command:?}");
    }
    raw.send(&packet(3, b"\x03SELECT 1"));
    assert_eq!(raw.code(), 1156);
    assert!(raw.is_closed());
    let mut raw = Raw::root(&server);
    raw.command(b"\x03SELECT 1, 2, 3");
    raw.end();
    raw.send(&[0, 0, 0x20, 0, 3]);
    assert_eq!(raw.seq(), 1);
    assert_eq!(raw.code(), 1153);
    assert!(raw.is_closed());
    // As in MySQL a stream that cannot begin ends the connection.
    let mut raw = Raw::root(&server);
    raw.command(b"\x12junk");
    assert_eq!(raw.code(), 1835);
    assert!(raw.is_closed());
}

#[test]
fn parameters_of_every_type_and_length() {
    let (server, _dir) = server(&["--skip-ssl"]);
    let mut raw = Raw::root(&server);
    let bodies: [&[u8]; 6] = [
        b"",
        b"\x01",
        b"\x08\x08\x08\x08\x08\x08\x08\x08",
        b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff",
        b"\x0c\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff",
        b"\xfc\xff\xff",
    ];
    let mut refused = 0;
    for ty in 0..=255u8 {
        for body in bodies {
            let id = raw.prepare("DO ?");
            let code = raw.execute(id, &[&[0, 1, ty, 0][..], body].concat());
            assert!(code == 0 || code == 1210, "type {ty}, {body:?}: {code}");
            refused += u32::from(code == 1210);
        }
    }
    assert!(refused > 1000, "{refused}");
    let id = raw.prepare("DO ?");
    assert_eq!(raw.execute(id, b""), 1210);
    assert_eq!(raw.execute(id, b"\0\0"), 1210);
    assert_eq!(raw.execute(id, b"\x01\x01\x08\0"), 0);
}

/// Drivers that count what they have prepared go by it.
#[test]
fn prepares_beyond_the_limit_are_not_counted() {
    let (server, _dir) = server(&["--skip-ssl"]);
    let mut raw = Raw::root(&server);
    let mut c = server.connect();
    let mut prepared =
        || c.value("SHOW GLOBAL STATUS WHERE Variable_name = 'Com_stmt_prepare' AND Value = 1");
    raw.prepare("SELECT 1");
    assert_eq!(prepared(), "Com_stmt_prepare|1");
    server
        .connect()
        // effect: max_prepared_stmt_count
        .run("SET GLOBAL max_prepared_stmt_count = 1");
    raw.command(b"\x16SELECT 2");
    assert_eq!(raw.code(), 1461);
    assert_eq!(prepared(), "Com_stmt_prepare|1");
}

#[test]
fn long_data_is_bounded() {
    let (server, _dir) = server(&["--skip-ssl", "--max-allowed-packet=1M"]);
    let mut raw = Raw::root(&server);
    let chunk = vec![b'x'; 512 * 1024];
    let id = raw.prepare("DO LENGTH(?)");
    let before = resident_kib(&server);
    for statement in 0..200 {
        raw.long_data(id + statement, 0, &chunk);
    }
    let other = raw.prepare("DO LENGTH(?)");
    // Kept, they would be 100 MiB; the allocator holds on to some of what came and went.
    let grown = resident_kib(&server).saturating_sub(before);
    assert!(grown < 64 * 1024, "{grown} KiB");
    // One chunk fits, a second one for the same connection fits, a third one does not.
    assert_eq!(raw.execute(id, b"\0\x01\xfc\0"), 0);
    for (statement, code) in [(id, 1153), (other, 0)] {
        for _ in 0..if code == 0 { 1 } else { 3 } {
            raw.long_data(statement, 0, &chunk);
        }
        assert_eq!(raw.execute(statement, b"\0\x01\xfc\0"), code);
    }
    raw.long_data(other, 1, b"no such parameter");
    assert_eq!(raw.execute(other, b"\0\x01\x08\0\x01\0\0\0\0\0\0\0"), 1210);
    raw.command(b"\x16DO 1");
    assert_eq!(raw.code(), 0);
}

#[test]
fn packets_at_the_seams() {
    const MAX: usize = 0xff_ffff;
    let (server, _dir) = server(&["--skip-ssl", "--max-allowed-packet=64M"]);
    let mut c = server.connect();
    for length in [MAX - 1, MAX, MAX + 1, 2 * MAX - 1, 2 * MAX, 2 * MAX + 1] {
        // The command byte counts.
        let text = "SELECT LENGTH('') AS n";
        let filling = length - 1 - text.len();
        let sql = text.replacen("''", &format!("'{}'", "a".repeat(filling)), 1);
        assert_eq!(c.value(&sql), filling.to_string());
    }
    for length in [MAX - 5, MAX - 4, MAX - 3, MAX, 2 * MAX - 4] {
        let value = c.value(&format!("SELECT REPEAT('b', {length})"));
        assert_eq!(value.len(), length);
    }
}

#[test]
fn deep_statements_are_errors() {
    let (server, _dir) = server(&["--skip-ssl"]);
    let mut c = server.connect();
    let wrap = |n: usize, left: &str, inner: &str, right: &str| {
        format!("SELECT {}{inner}{}", left.repeat(n), right.repeat(n))
    };
    for n in [400, 100_000] {
        for sql in [
            wrap(n, "(", "1", ")"),
            wrap(n, "NOT ", "1", ""),
            wrap(n, "- ", "1", ""),
            wrap(n, "CONCAT(", "1", ")"),
            wrap(n, "CASE WHEN 1 THEN ", "1", " END"),
            wrap(n, "1 BETWEEN 1 AND ", "1", ""),
            wrap(n, "1 IN (", "1", ")"),
            format!("SELECT * FROM {}d.t{}", "(".repeat(n), ")".repeat(n)),
            format!("SELECT 1{}", " COLLATE utf8mb4_bin".repeat(n + 200)),
            format!(
                "CREATE TABLE d.x (a INT DEFAULT ({}1{}))",
                "(".repeat(n),
                ")".repeat(n)
            ),
        ] {
            assert_eq!(c.code(&sql), Some(1436), "{n} {}", &sql[..40]);
        }
    }
    for n in [64, 100_000] {
        let sql = wrap(n, "(SELECT ", "1", ")");
        assert_eq!(c.code(&sql), Some(1473), "{n}");
    }
    // Chains are no nests.
    let ands = format!(
        "SELECT COUNT(*) FROM d.t WHERE 1{}",
        " AND id > 0".repeat(20_000)
    );
    assert_eq!(c.value(&ands), "3");
    let list = format!(
        "SELECT COUNT(*) FROM d.t WHERE v IN (7{})",
        ", 1".repeat(100_000)
    );
    assert_eq!(c.value(&list), "1");
}

#[test]
fn common_table_expressions_that_multiply() {
    let (server, _dir) = server(&["--skip-ssl"]);
    let mut c = server.connect();
    let chain = |n: usize, each: &dyn Fn(usize) -> String| {
        let mut sql = "WITH c0 AS (SELECT id AS x FROM d.t)".to_owned();
        for i in 1..n {
            sql += &format!(", c{i} AS ({})", each(i - 1));
        }
        format!("{sql} SELECT COUNT(*) FROM c{}", n - 1)
    };
    let plain = |i: usize| format!("SELECT x FROM c{i}");
    assert_eq!(c.value(&chain(60, &plain)), "3");
    assert_eq!(c.code(&chain(5_000, &plain)), Some(1473));
    let double = |i: usize| format!("SELECT a.x FROM c{i} a, c{i} b WHERE a.x = b.x");
    assert_eq!(c.value(&chain(5, &double)), "3");
    assert_eq!(c.code(&chain(40, &double)), Some(1473));
    let deep = |i: usize| {
        let (left, right) = ("ABS(".repeat(100), ")".repeat(100));
        format!("SELECT {left}(SELECT MAX(x) FROM c{i}){right} AS x")
    };
    assert_eq!(c.value(&chain(5, &deep)), "1");
    assert_eq!(c.code(&chain(40, &deep)), Some(1473));
}

#[test]
fn too_many_and_too_long() {
    let (server, _dir) = server(&["--skip-ssl"]);
    let mut c = server.connect();
    let list =
        |n: usize, item: &dyn Fn(usize) -> String| (0..n).map(item).collect::<Vec<_>>().join(",");
    let columns = list(5_000, &|i| format!("c{i} INT"));
    assert_eq!(c.code(&format!("CREATE TABLE d.w ({columns})")), Some(1117));
    assert_eq!(
        c.rows(&format!("SELECT {}", list(5_000, &|i| i.to_string())))[0].len(),
        5_000
    );
    let (n64, n65) = ("n".repeat(64), "n".repeat(65));
    c.run(&format!("CREATE TABLE d.{n64} ({n64} INT)"));
    assert_eq!(c.code(&format!("CREATE TABLE d.{n65} (a INT)")), Some(1059));
    assert_eq!(c.code(&format!("CREATE TABLE d.y ({n65} INT)")), Some(1059));
    assert_eq!(c.code(&format!("CREATE DATABASE {n65}")), Some(1059));
    // An alias is cut.
    let aliased = format!("SELECT 1 AS {}", "n".repeat(257));
    assert_eq!(c.value(&aliased), "1");
    let joins = format!("SELECT 1 FROM {}", list(62, &|i| format!("d.t t{i}")));
    assert_eq!(c.code(&joins), Some(1116));
    let mut raw = Raw::root(&server);
    let params = |n: usize| format!("DO 1 IN (1{})", ", ?".repeat(n)).into_bytes();
    raw.command(&[b"\x16".to_vec(), params(65_536)].concat());
    assert_eq!(raw.code(), 1390);
    for sql in [
        "SELECT 1 /* open",
        "SELECT /*!99999 nonsense */ 1 +",
        "SELECT 'open",
        "SELECT `open",
        "SELECT 1 */",
    ] {
        assert_eq!(c.code(sql), Some(1064), "{sql}");
    }
    assert_eq!(
        c.value("/*!50000 SELECT /* nested */ 1 */ -- end\n # end"),
        "1"
    );
    assert_eq!(
        c.value("SELECT /*!99999 nonsense */ /*M!50000 nonsense */ 2"),
        "2"
    );
}

#[test]
fn what_a_client_held_goes_with_it() {
    let (server, _dir) = server(&["--skip-ssl"]);
    let mut c = server.connect();
    c.run("SET innodb_lock_wait_timeout = 50, lock_wait_timeout = 50");
    let mut holder = server.connect();
    holder.run("BEGIN; UPDATE d.t SET v = 9 WHERE id = 1; SELECT * FROM d.t");
    drop(holder);
    c.run("UPDATE d.t SET v = v + 1 WHERE id = 1");
    c.run("ALTER TABLE d.t ADD COLUMN w INT");
    for hold in ["LOCK TABLES d.t WRITE", "FLUSH TABLES WITH READ LOCK"] {
        let mut holder = server.connect();
        holder.run(hold);
        drop(holder);
        c.run("UPDATE d.t SET v = v + 1 WHERE id = 1");
    }
    let mut holder = server.connect();
    holder.run("DO GET_LOCK('x', 0)");
    drop(holder);
    assert_eq!(c.value("SELECT GET_LOCK('x', 50)"), "1");
    assert_eq!(c.value("SELECT v FROM d.t WHERE id = 1"), "4");
    // Clients that wait, or run, when they vanish.
    let mut other = server.connect();
    other.run("BEGIN; UPDATE d.t SET v = 9 WHERE id = 2");
    for wait in [
        "UPDATE d.t SET v = 9 WHERE id = 2",
        "UPDATE d.t SET v = 9 WHERE v = 2",
        "ALTER TABLE d.t ADD COLUMN z INT",
        "SELECT SLEEP(1000)",
        "SELECT GET_LOCK('x', 1000)",
    ] {
        let mut raw = Raw::root(&server);
        raw.command(b"\x03BEGIN");
        assert_eq!(raw.code(), 0);
        raw.command(b"\x03UPDATE d.t SET v = 9 WHERE id = 3");
        assert_eq!(raw.code(), 0);
        raw.command(&[b"\x03", wait.as_bytes()].concat());
        // ALTER TABLE commits before it waits, not before it is seen.
        let state = match wait.starts_with("ALTER") {
            true => "Waiting for table metadata lock",
            false => "%",
        };
        let shown = format!(
            "SELECT COUNT(*) FROM information_schema.processlist WHERE info = '{}' AND state LIKE '{state}'",
            wait.replace('\'', "''")
        );
        eventually(wait, || c.value(&shown) == "1");
        drop(raw);
        c.run("UPDATE d.t SET v = v + 1 WHERE id = 3");
    }
    // ALTER TABLE commits what came before it, waiting or not.
    assert_eq!(c.value("SELECT v FROM d.t WHERE id = 3"), "12");
}

#[test]
fn kill_ends_every_wait() {
    let (server, _dir) = server(&["--skip-ssl"]);
    let mut c = server.connect();
    c.run("BEGIN; UPDATE d.t SET v = 9 WHERE id = 2; DO GET_LOCK('x', 0)");
    for sql in [
        "UPDATE d.t SET v = 9 WHERE id = 2",
        "UPDATE d.t SET v = v + 1",
        "SELECT * FROM d.t FOR UPDATE",
        "ALTER TABLE d.t ADD COLUMN z INT",
        "TRUNCATE d.t",
        "LOCK TABLES d.t WRITE",
        "SELECT COUNT(*) FROM d.t WHERE SLEEP(1000)",
        "SELECT a.v FROM d.t a, d.t b, (SELECT SLEEP(1000)) c",
        "SELECT COUNT(*) FROM d.t WHERE GET_LOCK('x', 1000)",
    ] {
        for how in ["QUERY", "CONNECTION"] {
            let mut raw = Raw::root(&server);
            raw.command(&[b"\x03", sql.as_bytes()].concat());
            let find = format!(
                "SELECT id FROM information_schema.processlist WHERE info = '{}'",
                sql.replace('\'', "''")
            );
            eventually(sql, || c.rows(&find).len() == 1);
            let id = c.value(&find);
            c.run(&format!("KILL {how} {id}"));
            if how == "QUERY" {
                assert_eq!(raw.end(), 1317, "{sql}");
                raw.command(b"\x0e");
                assert_eq!(raw.code(), 0, "{sql}");
            } else {
                let gone =
                    format!("SELECT COUNT(*) FROM information_schema.processlist WHERE id = {id}");
                eventually(sql, || c.value(&gone) == "0");
            }
        }
    }
}

#[test]
fn sleepers_do_not_keep_others_waiting() {
    let (server, _dir) = server(&["--skip-ssl"]);
    let statements = [
        "SELECT SLEEP(1000)",
        "DO SLEEP(1000)",
        "SET @a = SLEEP(1000)",
        "INSERT INTO d.t VALUES (SLEEP(1000) + 10, 1)",
        "DELETE FROM d.t WHERE id = 1 AND SLEEP(1000)",
        "SELECT GET_LOCK('x', 1000)",
    ];
    let mut sleepers = Vec::new();
    server
        .connect()
        .run("SET GLOBAL innodb_lock_wait_timeout = 1000");
    let mut c = server.connect();
    c.run("DO GET_LOCK('x', 0)");
    for sql in statements.iter().cycle().take(60) {
        let mut raw = Raw::root(&server);
        raw.command(&[b"\x03", sql.as_bytes()].concat());
        sleepers.push(raw);
    }
    let busy = "SELECT COUNT(*) FROM information_schema.processlist WHERE command = 'Query'";
    eventually("all sleep", || c.value(busy) == "61");
    assert_eq!(server.connect().value("SELECT COUNT(*) FROM d.t"), "3");
}

#[test]
fn the_last_connection_is_for_administrators() {
    let (server, _dir) = server(&["--skip-ssl", "--max-connections=3"]);
    let mut root = server.connect();
    root.run("CREATE USER u@localhost; SET GLOBAL max_user_connections = 2");
    let user = || Client::connect("127.0.0.1", server.port, "u", "", None);
    let code = |r: Result<Client, ClientError>| match r {
        Ok(_) => 0,
        Err(ClientError::Server(e)) => e.code,
        Err(e) => panic!("{e}"),
    };
    // The session that has made the tables may still be on its way out of its seat.
    let first = patiently(user);
    let second = patiently(user);
    assert_eq!(code(user()), 1040);
    let admin = server.connect();
    for _ in 0..50 {
        assert_eq!(code(server.try_connect()), 1040);
        assert_eq!(code(user()), 1040);
    }
    drop((admin, second));
    eventually("there is room", || code(user()) == 0);
    // effect: max_user_connections
    root.run("SET GLOBAL max_user_connections = 1");
    eventually("one of a user", || code(user()) == 1203);
    drop(first);
    let refused = root.lines("SHOW GLOBAL STATUS LIKE 'Connection_errors_max_connections'");
    assert_ne!(refused, ["Connection_errors_max_connections|0"]);
}

#[test]
fn silence_ends_a_connection() {
    let (server, _dir) = server(&["--skip-ssl"]);
    let mut raw = Raw::root(&server);
    // effect: wait_timeout
    raw.command(b"\x03SET wait_timeout = 1");
    assert_eq!(raw.code(), 0);
    assert_eq!(raw.code(), 4031);
    assert!(raw.is_closed());
    let mut raw = Raw::root(&server);
    // effect: net_read_timeout
    raw.command(b"\x03SET net_read_timeout = 1");
    assert_eq!(raw.code(), 0);
    raw.send(&packet(0, b"\x03SELECT 1")[..7]);
    assert_eq!(raw.code(), 1159);
    assert!(raw.is_closed());
    // A client that takes nothing of a result that no buffer holds.
    let mut raw = Raw::root(&server);
    // effect: net_write_timeout
    raw.command(b"\x03SET net_write_timeout = 1");
    assert_eq!(raw.code(), 0);
    raw.command(b"\x03SELECT REPEAT('x', 60000000)");
    let mut c = server.connect();
    let clients =
        "SELECT COUNT(*) FROM information_schema.processlist WHERE user <> 'event_scheduler'";
    let lost = || c.value(clients) == "1";
    eventually("it is given up", lost);
}

#[test]
fn failed_logins_are_slowed_down() {
    let (server, _dir) = server(&["--skip-ssl"]);
    let mut root = server.connect();
    root.run("CREATE USER u@localhost IDENTIFIED BY 'right'");
    let login = |password: &str| Client::connect("127.0.0.1", server.port, "u", password, None);
    let delays = |c: &mut Client| c.value("SHOW GLOBAL STATUS LIKE 'Connection_control_delay%'");
    for _ in 0..3 {
        assert!(matches!(login("wrong"), Err(ClientError::Server(e)) if e.code == 1045));
    }
    assert_eq!(delays(&mut root), "Connection_control_delay_generated|0");
    assert!(login("right").is_ok());
    assert_eq!(delays(&mut root), "Connection_control_delay_generated|1");
    assert!(login("right").is_ok());
    assert_eq!(delays(&mut root), "Connection_control_delay_generated|1");
}

#[test]
fn shutdown_in_the_middle_of_things() {
    let (mut server, _dir) = server(&["--skip-ssl"]);
    let mut open = Raw::root(&server);
    open.command(b"\x03BEGIN");
    assert_eq!(open.code(), 0);
    open.command(b"\x03UPDATE d.t SET v = 100 WHERE id = 1");
    assert_eq!(open.code(), 0);
    let mut waiting = Raw::root(&server);
    waiting.command(b"\x03UPDATE d.t SET v = 200 WHERE id = 1");
    let mut running = Raw::root(&server);
    running.command(b"\x03SELECT COUNT(*) FROM d.t WHERE SLEEP(1000)");
    let mut c = server.connect();
    // In the queue, and not on its way to it: there the lock of the first one may have gone when it comes.
    let queued =
        "SELECT COUNT(*) FROM information_schema.processlist WHERE state = 'Waiting for row lock'";
    eventually("one waits", || c.value(queued) == "1");
    let busy = "SELECT COUNT(*) FROM information_schema.processlist WHERE command = 'Query'";
    eventually("both are busy", || c.value(busy) == "3");
    server.stop();
    assert_eq!(open.code(), 1053);
    assert_eq!(waiting.code(), 1053);
    assert_eq!(running.end(), 1053);
    server.restart();
    assert_eq!(
        server.connect().value("SELECT v FROM d.t WHERE id = 1"),
        "1"
    );
}
