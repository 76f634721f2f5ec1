//! Consumers of the binary log that others have written: MariaDB's server as a replica, python-mysql-replication, and
//! the stream of mysql_async.
//!
//! **Invariant**: what a consumer has in the end is what the tables have, also after either side was killed.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use esker_server::client::Client;
use mysql_async::prelude::Queryable;
use mysql_async::{BinlogStreamRequest, Conn, OptsBuilder};

use crate::common::{Ask, PATIENCE, Server, free_port, has_client, output, python};

/// MariaDB 10.11 knows none of the collations of MySQL 8.0.
const ARGS: [&str; 6] = [
    "--log-bin=ON",
    "--gtid-mode=ON",
    "--server-id=5",
    "--max-binlog-size=65536",
    "--binlog-row-metadata=FULL",
    "--collation-server=utf8mb4_general_ci",
];
const TYPES: &str = "CREATE DATABASE d; USE d; \
    CREATE TABLE types (id INT PRIMARY KEY AUTO_INCREMENT, b1 TINYINT, b2 SMALLINT UNSIGNED, b3 MEDIUMINT, \
    b4 BIGINT UNSIGNED, f FLOAT, g DOUBLE, n DECIMAL(30,10), dt DATE, ti TIME(3), ts TIMESTAMP(6) NULL, \
    da DATETIME(2), y YEAR, c CHAR(10), v VARCHAR(300) CHARACTER SET latin1, bi BINARY(5), vb VARBINARY(400), \
    tb TINYBLOB, mt MEDIUMTEXT, lb LONGBLOB, e ENUM('a','b','c'), s SET('x','y','z'), bt BIT(13)); \
    INSERT INTO types VALUES (1, -1, 65535, -8388608, 18446744073709551615, 1.5, -2.25e100, \
    -12345678901234567890.0123456789, '2024-02-29', '-838:59:59', '2024-01-01 00:00:00.123456', \
    '9999-12-31 23:59:59.99', 2155, 'ab', 'naïve', x'0102', 'vb', 't', 'm€', 'lb', 'c', 'x,z', b'1000000000001'); \
    INSERT INTO types (id) VALUES (NULL), (NULL); \
    UPDATE types SET v = CONCAT(COALESCE(v, ''), 'é'), n = n * 2 WHERE id <> 2; \
    CREATE TABLE child (id INT PRIMARY KEY, p INT, FOREIGN KEY (p) REFERENCES types(id) ON DELETE CASCADE); \
    INSERT INTO child VALUES (1, 1), (2, 3); DELETE FROM types WHERE id = 3; \
    ALTER TABLE types ADD COLUMN extra INT DEFAULT 7; CREATE INDEX x ON types (b2); \
    CREATE TABLE copy AS SELECT id, c, n FROM types; \
    BEGIN; INSERT INTO copy VALUES (10, 'x', 1); SAVEPOINT a; INSERT INTO copy VALUES (11, 'x', 1); \
    ROLLBACK TO a; COMMIT; CREATE TABLE t (id INT PRIMARY KEY, v INT)";
const TABLES: [&str; 4] = ["types", "child", "copy", "t"];

/// Rows of all tables, as text.
fn contents(c: &mut Client) -> Vec<Vec<String>> {
    c.run("SET NAMES utf8mb4; SET time_zone = '+00:00'");
    let rows = |table: &&str| c.lines(&format!("SELECT * FROM d.{table} ORDER BY id"));
    TABLES.iter().map(rows).collect()
}

/// Transactions of one client until `until`, or the server goes.
fn work(server: &Server, seed: u32, until: Instant) {
    let Ok(mut c) = server.try_connect() else {
        return;
    };
    let mut n = seed * 100_000;
    while Instant::now() < until {
        n += 1;
        let sql = format!(
            "BEGIN; REPLACE INTO d.t VALUES ({}, {n}); UPDATE d.t SET v = v + 1 WHERE id = {}; COMMIT",
            n % 97,
            n % 13
        );
        if c.query(&sql, &mut |_| ()).is_err() {
            return;
        }
    }
}

/// Logs in as root as soon as a server of another make, which is this process, listens.
pub fn await_login(child: &mut Child, port: u16, program: &str) -> Client {
    let begun = Instant::now();
    loop {
        if let Ok(client) = Client::connect("127.0.0.1", port, "root", "", None) {
            return client;
        }
        let ended = child.try_wait().expect("wait");
        assert_eq!(ended, None, "{program} has ended");
        assert!(begun.elapsed() < PATIENCE, "{program} does not listen");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// A server of MariaDB.
pub struct Maria {
    child: Child,
    port: u16,
    dir: PathBuf,
    more: &'static [&'static str],
}

impl Maria {
    /// A fresh one, if there is MariaDB here.
    pub fn start(dir: &Path) -> Option<Self> {
        Self::with(dir, &[])
    }

    /// One that others replicate.
    pub fn source(dir: &Path) -> Option<Self> {
        Self::with(dir, &["--log-bin=binlog", "--binlog-format=ROW"])
    }

    fn with(dir: &Path, more: &'static [&'static str]) -> Option<Self> {
        let mut probe = Command::new("sh");
        probe.args(["-c", "command -v mariadbd && command -v mariadb-install-db"]);
        if !has_client("MariaDB's server", &mut probe) {
            return None;
        }
        let dir = dir.join("maria");
        output(
            Command::new("mariadb-install-db")
                // Servers that share a folder remove each other's temporary tables.
                .env("TMPDIR", dir.parent().expect("folder"))
                .args([
                    "--no-defaults",
                    "--skip-test-db",
                    "--auth-root-authentication-method=normal",
                ])
                .arg(format!("--datadir={}", dir.display())),
        );
        let port = free_port();
        let child = Self::spawn(&dir, port, more);
        let mut maria = Self {
            child,
            port,
            dir,
            more,
        };
        maria.connect();
        Some(maria)
    }

    fn spawn(dir: &Path, port: u16, more: &[&str]) -> Child {
        let user = std::env::var("USER").unwrap_or_else(|_| "root".into());
        Command::new("mariadbd")
            .env("TMPDIR", dir.parent().expect("folder"))
            .args([
                "--no-defaults",
                "--server-id=71",
                "--bind-address=127.0.0.1",
            ])
            .args([
                "--innodb-buffer-pool-size=16M",
                "--relay-log=relay",
                "--slave-net-timeout=10",
            ])
            .args(more)
            .arg(format!("--user={user}"))
            .arg(format!("--port={port}"))
            .arg(format!("--datadir={}", dir.display()))
            .arg(format!("--socket={}/sock", dir.display()))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("mariadbd")
    }

    /// Where it listens.
    pub fn port(&self) -> u16 {
        self.port
    }

    pub fn connect(&mut self) -> Client {
        await_login(&mut self.child, self.port, "mariadbd")
    }

    pub fn kill(&mut self) {
        self.child.kill().expect("kill");
        self.child.wait().expect("wait");
    }

    pub fn restart(&mut self) {
        self.child = Self::spawn(&self.dir, self.port, self.more);
    }

    pub fn follow(&mut self, port: u16, how: &str) {
        self.connect().run(&format!(
            "CHANGE MASTER TO MASTER_HOST = '127.0.0.1', MASTER_PORT = {port}, MASTER_USER = 'repl', \
             MASTER_PASSWORD = 'pw', MASTER_SSL_VERIFY_SERVER_CERT = 0, MASTER_CONNECT_RETRY = 1, MASTER_HEARTBEAT_PERIOD = 1, {how}; START SLAVE"
        ));
    }

    /// Waits until everything is here that the source has.
    fn catch_up(&mut self, source: &Server) {
        let expected = contents(&mut source.connect());
        let begun = Instant::now();
        loop {
            let mut c = self.connect();
            let is_there = c.code("SELECT 1 FROM d.t LIMIT 1").is_none();
            if is_there && contents(&mut c) == expected {
                return;
            }
            let state = c.rows("SHOW SLAVE STATUS").concat();
            let state: Vec<String> = state.into_iter().flatten().collect();
            assert!(begun.elapsed() < PATIENCE, "{}", state.join("|"));
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

impl Drop for Maria {
    fn drop(&mut self) {
        // Already dead after a kill; nothing else to do.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn source(dir: &Path) -> Server {
    let server = Server::start(dir, &ARGS);
    server.connect().run(
        "SET sql_log_bin = 0; CREATE USER repl@localhost IDENTIFIED WITH mysql_native_password BY 'pw'; \
         GRANT REPLICATION SLAVE ON *.* TO repl@localhost",
    );
    server.connect().run(TYPES);
    server
}

#[test]
fn a_replica_of_mariadb_has_what_the_tables_have_after_kill_9() {
    let dir = tempfile::tempdir().expect("dir");
    let Some(mut replica) = Maria::start(dir.path()) else {
        return;
    };
    let mut source = source(dir.path());
    let start = "MASTER_USE_GTID = no, MASTER_LOG_FILE = 'binlog.000001', MASTER_LOG_POS = 4";
    replica.follow(source.port, start);
    for round in 0..3 {
        let until = Instant::now() + Duration::from_millis(600);
        std::thread::scope(|scope| {
            for seed in 0..3 {
                let source = &source;
                scope.spawn(move || work(source, round * 3 + seed + 1, until));
            }
            std::thread::sleep(Duration::from_millis(300));
            if round == 1 {
                replica.kill();
            } else {
                source.kill_from_outside();
            }
        });
        if round == 1 {
            replica.restart();
            // By position, MariaDB writes down how far it is after the commit: killed in between, it applies twice.
            replica
                .connect()
                .run("STOP SLAVE; SET GLOBAL slave_exec_mode = IDEMPOTENT; START SLAVE");
        } else {
            source.kill();
            source.restart();
        }
    }
    replica.catch_up(&source);
}

/// Passes connections on to a server and says that it is MariaDB: replicas of 10.10 and later ask only those for GTIDs.
fn disguise(server: u16) -> u16 {
    const VERSION: &[u8] = b"5.5.5-10.11.1-MariaDB";
    let listener = TcpListener::bind("127.0.0.1:0").expect("bind");
    let port = listener.local_addr().expect("address").port();
    std::thread::spawn(move || {
        while let Ok((mut client, _)) = listener.accept() {
            let mut upstream = TcpStream::connect(("127.0.0.1", server)).expect("connect");
            let mut header = [0; 4];
            upstream.read_exact(&mut header).expect("greeting");
            let mut greeting = vec![0; usize::from(header[0])];
            upstream.read_exact(&mut greeting).expect("greeting");
            let end = greeting[1..].iter().position(|b| *b == 0).expect("version") + 1;
            greeting.splice(1..end, VERSION.iter().copied());
            header[0] = greeting.len() as u8;
            client.write_all(&header).expect("greet");
            client.write_all(&greeting).expect("greet");
            let (mut from, mut to) = (
                client.try_clone().expect("clone"),
                upstream.try_clone().expect("clone"),
            );
            std::thread::spawn(move || std::io::copy(&mut from, &mut to));
            std::thread::spawn(move || std::io::copy(&mut upstream, &mut client));
        }
    });
    port
}

#[test]
fn a_replica_of_mariadb_follows_by_gtid() {
    let dir = tempfile::tempdir().expect("dir");
    let Some(mut replica) = Maria::start(dir.path()) else {
        return;
    };
    let source = source(dir.path());
    source.connect().run(
        "SET SESSION binlog_transaction_compression = ON; INSERT INTO d.t VALUES (1, 1), (2, 2)",
    );
    replica.follow(disguise(source.port), "MASTER_USE_GTID = slave_pos");
    replica.catch_up(&source);
    let mut c = replica.connect();
    let mut state = || c.value("SELECT @@GLOBAL.gtid_slave_pos");
    let before = state();
    assert!(before.starts_with("0-5-"), "{before}");
    replica.kill();
    work(&source, 1, Instant::now() + Duration::from_millis(200));
    source
        .connect()
        .run("FLUSH BINARY LOGS; INSERT INTO d.t VALUES (1000, 1)");
    replica.restart();
    replica.catch_up(&source);
}

/// Reads what there is and prints each change.
const CHANGES: &str = r#"
import sys
from pymysqlreplication import BinLogStreamReader
from pymysqlreplication.row_event import DeleteRowsEvent, UpdateRowsEvent, WriteRowsEvent
settings = {"host": "127.0.0.1", "port": int(sys.argv[1]), "user": "root", "passwd": ""}
reader = BinLogStreamReader(connection_settings=settings, server_id=77, only_schemas=["d"], blocking=False,
                            only_events=[DeleteRowsEvent, UpdateRowsEvent, WriteRowsEvent],
                            resume_stream=True, log_file="binlog.000001", log_pos=4,
                            **({"auto_position": sys.argv[2]} if len(sys.argv) > 2 else {}))
for event in reader:
    for row in event.rows:
        images = [row[kind] for kind in ("before_values", "after_values", "values") if kind in row]
        print(type(event).__name__, event.table, images)
reader.close()
"#;

#[test]
fn python_mysql_replication_reads_every_change() {
    let Some(mut python) = python() else { return };
    if !has_client(
        "python-mysql-replication",
        python.args(["-c", "import pymysqlreplication"]),
    ) {
        return;
    }
    let dir = tempfile::tempdir().expect("dir");
    let server = Server::start(dir.path(), &ARGS);
    let mut c = server.connect();
    c.run("CREATE DATABASE d; USE d; CREATE TABLE p (id INT PRIMARY KEY, v VARCHAR(9), j JSON)");
    c.run("INSERT INTO p VALUES (1, 'one', '[1]'), (2, 'zwei', NULL); UPDATE p SET v = 'two' WHERE id = 2");
    c.run("DELETE FROM p WHERE id = 1");
    let script = dir.path().join("changes.py");
    std::fs::write(&script, CHANGES).expect("script");
    let port = server.port.to_string();
    let mut python = Command::new(python.get_program());
    let got = output(python.arg(&script).arg(&port));
    let expected = [
        "WriteRowsEvent p [{'id': 1, 'v': 'one', 'j': [1]}]",
        "WriteRowsEvent p [{'id': 2, 'v': 'zwei', 'j': None}]",
        "UpdateRowsEvent p [{'id': 2, 'v': 'zwei', 'j': None}, {'id': 2, 'v': 'two', 'j': None}]",
        "DeleteRowsEvent p [{'id': 1, 'v': 'one', 'j': [1]}]",
    ];
    assert_eq!(got.lines().collect::<Vec<_>>(), expected);
    // Behind what is executed there is nothing.
    let executed = c.value("SELECT @@GLOBAL.gtid_executed");
    let mut python = Command::new(python.get_program());
    assert_eq!(output(python.arg(&script).arg(&port).arg(executed)), "");
}

#[test]
fn the_stream_of_mysql_async_has_every_event() {
    let dir = tempfile::tempdir().expect("dir");
    let server = Server::start(dir.path(), &ARGS);
    let mut c = server.connect();
    c.run("CREATE DATABASE d; CREATE TABLE d.t (id INT PRIMARY KEY); FLUSH BINARY LOGS");
    c.run("INSERT INTO d.t VALUES (1), (2); DELETE FROM d.t WHERE id = 1");
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("runtime");
    let rows = runtime.block_on(async {
        let options = OptsBuilder::default()
            .ip_or_hostname("127.0.0.1")
            .tcp_port(server.port)
            .prefer_socket(false)
            .user(Some("root"));
        let mut conn = Conn::new(options).await.expect("connect");
        conn.query_drop("DO 1").await.expect("ask");
        let request = BinlogStreamRequest::new(78)
            .with_non_blocking()
            .with_filename(b"binlog.000001")
            .with_pos(4);
        let mut stream = conn.get_binlog_stream(request).await.expect("stream");
        let mut rows = 0;
        while let Some(event) = std::future::poll_fn(|cx| {
            let stream = std::pin::Pin::new(&mut stream);
            futures_core::Stream::poll_next(stream, cx)
        })
        .await
        {
            let event = event.expect("event");
            if let Some(data) = event.read_data().expect("sound") {
                rows += usize::from(format!("{data:?}").starts_with("RowsEvent"));
            }
        }
        rows
    });
    assert_eq!(rows, 2);
}
