//! Compressed connections: zlib with two clients that programs use, zstd packet by packet.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;

use esker_wire::auth::{CACHING_SHA2, CHALLENGE};
use esker_wire::client::{Answer, parse_answer, parse_greeting, parse_text_row};
use esker_wire::compress::{Algorithm, Compressor};
use esker_wire::constants::cap;
use esker_wire::frame::{FrameReader, FrameWriter};
use esker_wire::handshake::{Response, write_response};
use mysql_async::prelude::Queryable;
use mysql_async::{Compression, Conn, OptsBuilder};

use crate::common::{Ask, Server, has_client, output};

fn server(args: &[&str]) -> (Server, tempfile::TempDir) {
    let dir = tempfile::tempdir().expect("folder");
    (Server::start(dir.path(), args), dir)
}

#[test]
fn the_command_line_client_compresses() {
    if !has_client("mariadb", Command::new("mariadb").arg("--version")) {
        return;
    }
    for tls in ["--skip-ssl", "--ssl"] {
        let (server, _dir) = server(&[]);
        let mut client = Command::new("mariadb");
        client.args([
            "--no-defaults",
            "--compress",
            "-h127.0.0.1",
            "-uroot",
            "-N",
            tls,
            "-e",
        ]);
        client.arg(
            "CREATE DATABASE d; USE d; CREATE TABLE t (a LONGTEXT); INSERT INTO t VALUES (REPEAT('row ', 300000));
             SELECT COUNT(*), MAX(LENGTH(a)) FROM t; SELECT LENGTH(a), SHA1(a) FROM t; SHOW STATUS LIKE 'Compression%'",
        );
        let told = output(client.arg(format!("-P{}", server.port)));
        let lines: Vec<_> = told.lines().map(|line| line.replace('\t', "|")).collect();
        assert_eq!(lines[0], "1|1200000", "{told}");
        let status = [
            "Compression|ON",
            "Compression_algorithm|zlib",
            "Compression_level|6",
        ];
        assert_eq!(lines[2..], status, "{told}");
    }
}

#[test]
fn a_driver_compresses_statements_of_all_sizes() {
    let (server, _dir) = server(&[]);
    server
        .connect()
        .run("CREATE DATABASE d; CREATE TABLE d.t (id INT PRIMARY KEY, a LONGBLOB)");
    let options = OptsBuilder::default()
        .ip_or_hostname("127.0.0.1")
        .tcp_port(server.port)
        .prefer_socket(false)
        .user(Some("root"))
        .compression(Some(Compression::default()));
    let work = async {
        let mut c = Conn::new(options).await.expect("connects");
        for (id, len) in [1, 49, 50, 70_000, 1 << 20, (16 << 20) + 5]
            .into_iter()
            .enumerate()
        {
            // Half of it compresses.
            let noise = (0..len).map(|i: u32| (i.wrapping_mul(2_654_435_761) >> 13) as u8);
            let bytes: Vec<u8> = noise.map(|b| if b < 128 { 0 } else { b }).collect();
            c.exec_drop("INSERT INTO d.t VALUES (?, ?)", (id, bytes.clone()))
                .await
                .expect("inserts");
            let got: Option<Vec<u8>> = c
                .exec_first("SELECT a FROM d.t WHERE id = ?", (id,))
                .await
                .expect("selects");
            assert!(got.expect("a row") == bytes, "{len}");
        }
        let rows: Vec<(u64, u64)> = c
            .query("SELECT id, LENGTH(a) FROM d.t ORDER BY id")
            .await
            .expect("selects");
        assert_eq!(rows.len(), 6);
        assert!(c.query_drop("SELECT nope").await.is_err());
        let status: Option<(String, String)> = c
            .query_first("SHOW STATUS LIKE 'Compression'")
            .await
            .expect("shows");
        assert_eq!(status.expect("a row").1, "ON");
        c.disconnect().await.expect("leaves");
    };
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("runtime")
        .block_on(work);
    assert_eq!(
        server.connect().value("SHOW STATUS LIKE 'Compression'"),
        "Compression|OFF"
    );
}

/// A client that does no more than it must.
struct Raw {
    stream: TcpStream,
    packed: Compressor,
    reader: FrameReader,
}

impl Raw {
    fn login(port: u16, capabilities: u32, level: u8) -> Result<Self, u16> {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("connects");
        let mut reader = FrameReader::default();
        let greeting = parse_greeting(&plain(&mut stream, &mut reader, 0)).expect("a greeting");
        let response = Response {
            capabilities: capabilities
                | cap::PROTOCOL_41
                | cap::SECURE_CONNECTION
                | cap::PLUGIN_AUTH
                | cap::PLUGIN_AUTH_LENENC
                | cap::DEPRECATE_EOF,
            max_packet: 1 << 24,
            collation: 63,
            user: "root".into(),
            plugin: Some(CACHING_SHA2.into()),
            ..Response::default()
        };
        assert_eq!(greeting.challenge.len(), CHALLENGE);
        let mut frames = FrameWriter::default();
        frames.set_seq(1);
        write_response(&response, frames.begin());
        frames.payload().push(level);
        frames.end();
        stream.write_all(frames.bytes()).expect("sends");
        let answer = plain(&mut stream, &mut reader, 2);
        if let Answer::Err(e) = parse_answer(&answer).expect("an answer") {
            return Err(e.code);
        }
        reader.ignore_order();
        let packed = Compressor::new(Algorithm::Zstd(level));
        Ok(Self {
            stream,
            packed,
            reader,
        })
    }

    fn send(&mut self, command: &[u8]) {
        let mut frames = FrameWriter::default();
        frames.begin().extend_from_slice(command);
        frames.end();
        self.packed = Compressor::new(self.packed.algorithm());
        let bytes = self.packed.pack(frames.bytes()).to_vec();
        self.stream.write_all(&bytes).expect("sends");
    }

    fn read(&mut self) -> Vec<u8> {
        loop {
            if let Some((payload, _)) = self.reader.next(0, 1 << 30).expect("packets") {
                return payload.to_vec();
            }
            if self.packed.unpack(self.reader.buffer()).expect("whole") {
                continue;
            }
            let mut chunk = [0; 4096];
            let n = self.stream.read(&mut chunk).expect("reads");
            assert!(n > 0, "the server has hung up");
            self.packed.buffer().extend_from_slice(&chunk[..n]);
        }
    }

    /// The cells of the first row.
    fn row(&mut self, sql: &str) -> Vec<String> {
        self.send(&[&[3], sql.as_bytes()].concat());
        let Answer::Columns(count) = parse_answer(&self.read()).expect("an answer") else {
            panic!("no rows: {sql}");
        };
        (0..count).for_each(|_| drop(self.read()));
        let packet = self.read();
        let row = parse_text_row(&packet, count as usize).expect("a row");
        let text =
            |cell: Option<&[u8]>| String::from_utf8_lossy(cell.unwrap_or_default()).into_owned();
        let cells = row.into_iter().map(text).collect();
        while self.read()[0] != 0xfe {}
        cells
    }
}

/// A packet before compression begins.
fn plain(stream: &mut TcpStream, reader: &mut FrameReader, seq: u8) -> Vec<u8> {
    loop {
        if let Some((payload, _)) = reader.next(seq, 1 << 16).expect("packets") {
            return payload.to_vec();
        }
        let mut byte = [0];
        stream.read_exact(&mut byte).expect("reads");
        reader.buffer().push(byte[0]);
    }
}

#[test]
fn zstd_is_spoken_at_the_level_the_client_wishes() {
    let (server, _dir) = server(&["--skip-ssl"]);
    let mut c = Raw::login(server.port, cap::ZSTD_COMPRESSION, 7).expect("logs in");
    for (name, value) in [
        ("Compression", "ON"),
        ("Compression_algorithm", "zstd"),
        ("Compression_level", "7"),
    ] {
        assert_eq!(c.row(&format!("SHOW STATUS LIKE '{name}'")), [name, value]);
    }
    let long = "x".repeat(3 << 20);
    assert_eq!(c.row(&format!("SELECT LENGTH('{long}')")), ["3145728"]);
    assert_eq!(
        c.row("SELECT REPEAT('y', 3000000)"),
        ["y".repeat(3_000_000)]
    );
    // The handshake's character set is the connection's, whatever it is.
    let names = "SELECT CONCAT_WS(' ', @@character_set_client, @@character_set_results, @@collation_connection)";
    assert_eq!(c.row(names), ["binary binary binary"]);
}

#[test]
fn what_the_server_does_not_allow_is_not_spoken() {
    let (server, _dir) = server(&["--skip-ssl", "--protocol-compression-algorithms=zstd"]);
    assert_eq!(Raw::login(server.port, 0, 0).err(), Some(3922));
    assert_eq!(Raw::login(server.port, cap::COMPRESS, 0).err(), Some(3922));
    let mut c = Raw::login(server.port, cap::ZSTD_COMPRESSION, 3).expect("logs in");
    // effect: protocol_compression_algorithms
    c.send(b"\x03SET GLOBAL protocol_compression_algorithms = 'uncompressed'");
    assert_eq!(c.read()[0], 0);
    // No offer, no compression.
    let greeting = {
        let mut stream = TcpStream::connect(("127.0.0.1", server.port)).expect("connects");
        parse_greeting(&plain(&mut stream, &mut FrameReader::default(), 0)).expect("a greeting")
    };
    assert_eq!(
        greeting.capabilities & (cap::COMPRESS | cap::ZSTD_COMPRESSION),
        0
    );
    let mut c = server.connect();
    for (value, code) in [
        ("", Some(1231)),
        ("lz4", Some(1231)),
        ("zlib, zstd", Some(1231)),
        ("ZSTD,zlib", None),
    ] {
        assert_eq!(
            c.code(&format!(
                "SET GLOBAL protocol_compression_algorithms = '{value}'"
            )),
            code,
            "{value}"
        );
    }
}

#[test]
fn packets_that_lie_end_the_connection_only() {
    let (server, _dir) = server(&["--skip-ssl", "--max-allowed-packet=1M"]);
    for bad in [
        // Says that 16 MiB are in it.
        &[4, 0, 0, 0, 255, 255, 255, 1, 2, 3, 4][..],
        // Out of order.
        &[4, 0, 0, 9, 0, 0, 0, 1, 2, 3, 4],
        // A command of 8 MiB.
        &[4, 0, 0, 0, 0, 0, 0, 0, 0, 128, 0],
    ] {
        let mut c = Raw::login(server.port, cap::ZSTD_COMPRESSION, 3).expect("logs in");
        c.stream.write_all(bad).expect("sends");
        let mut rest = Vec::new();
        c.stream
            .read_to_end(&mut rest)
            .expect("the server hangs up");
        let told = String::from_utf8_lossy(&rest).into_owned();
        assert!(told.contains("#08S01"), "{bad:?}: {told}");
    }
    assert_eq!(server.connect().value("SELECT 1"), "1");
}

#[test]
fn transactions_are_compressed_as_hard_as_the_session_wants() {
    let dir = tempfile::tempdir().expect("folder");
    let server = Server::start(dir.path(), &["--log-bin=ON"]);
    let mut c = server.connect();
    c.run("CREATE DATABASE d; CREATE TABLE d.t (id INT PRIMARY KEY, v LONGTEXT); SET binlog_transaction_compression = ON");
    // Words that come again at distances of many kinds.
    let words = (0..20_000u32).map(|n| format!("{:x} ", n.wrapping_mul(2_654_435_761) >> 20));
    let text: String = words.collect();
    for (id, level) in [(1, 1), (2, 19), (3, 19)] {
        c.run(&format!(
            // effect: binlog_transaction_compression_level_zstd
            "SET binlog_transaction_compression_level_zstd = {level}; INSERT INTO d.t VALUES ({id}, '{text}')"
        ));
    }
    let events = c.rows("SHOW BINLOG EVENTS").into_iter();
    let payloads = events.filter(|row| row[2].as_deref() == Some("Transaction_payload"));
    let sizes: Vec<u64> = payloads
        .map(|row| {
            let number = |at: usize| -> u64 {
                let text = row[at].as_deref().expect("a place");
                text.parse().expect("a number")
            };
            number(4) - number(1)
        })
        .collect();
    let [quick, hard, again] = sizes[..] else {
        panic!("{sizes:?}");
    };
    assert!(hard < quick, "{sizes:?}");
    assert!(hard.abs_diff(again) < quick - hard, "{sizes:?}");
}
