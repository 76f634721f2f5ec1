//! Point selects from many sessions, driven by one thread.
//!
//! sysbench has a thread and a Lua state per session. On a machine whose cores it shares with the server, 1,024 of them
//! cost more than the server does, and the measurement says little about the server. Here one thread waits for all
//! sockets at once (epoll) and sends the next query of a session as soon as its answer is complete: cost per query is
//! small and does not depend on the number of sessions.
//!
//! Usage: `sessions PORT SESSIONS SECONDS TABLES ROWS`, as root without a password, tables of sysbench in `sbtest`.
//! Prints `queries seconds p50_us p95_us p99_us own_cpu_seconds`.
//! **Invariant**: a session has one query under way, and every answer is checked to be one row.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};

const COM_STMT_PREPARE: u8 = 0x16;
const COM_STMT_EXECUTE: u8 = 0x17;
const TYPE_LONGLONG: u8 = 8;
/// CLIENT_LONG_PASSWORD, CONNECT_WITH_DB, PROTOCOL_41, SECURE_CONNECTION, PLUGIN_AUTH.
const CAPABILITIES: u32 = 1 | 1 << 3 | 1 << 9 | 1 << 15 | 1 << 19;
/// Column count, column, end of columns, row, end of rows.
const ANSWER_PACKETS: usize = 5;
/// Events taken from the kernel at once.
const EVENTS: usize = 256;

struct Session {
    stream: TcpStream,
    /// Statements by table.
    statements: Vec<u32>,
    received: Vec<u8>,
    asked: Instant,
}

fn main() -> io::Result<()> {
    let args: Vec<u64> = std::env::args()
        .skip(1)
        .filter_map(|a| a.parse().ok())
        .collect();
    let [port, sessions, seconds, tables, rows] = args[..] else {
        return Err(io::Error::other(
            "usage: sessions PORT SESSIONS SECONDS TABLES ROWS",
        ));
    };
    let mut random = Random(0x9E37_79B9_7F4A_7C15);
    let mut all = Vec::new();
    for _ in 0..sessions {
        all.push(Session::open(port as u16, tables)?);
    }
    let poll = epoll::create(CreateFlags::CLOEXEC)?;
    for (i, session) in all.iter().enumerate() {
        session.stream.set_nonblocking(true)?;
        let data = EventData::new_u64(i as u64);
        epoll::add(&poll, session.stream.as_fd(), data, EventFlags::IN)?;
    }
    let start = Instant::now();
    let end = start + Duration::from_secs(seconds);
    for session in &mut all {
        session.ask(random.below(rows), random.below(tables))?;
    }
    let mut latencies: Vec<u32> = Vec::new();
    let mut events = Vec::with_capacity(EVENTS);
    while Instant::now() < end {
        events.clear();
        epoll::wait(&poll, rustix::buffer::spare_capacity(&mut events), None)?;
        for event in &events {
            // The event is a packed structure: copied, not referred to.
            let data = { event.data };
            let session = &mut all[data.u64() as usize];
            if session.answered()? {
                latencies.push(session.asked.elapsed().as_micros() as u32);
                session.ask(random.below(rows), random.below(tables))?;
            }
        }
    }
    let took = start.elapsed().as_secs_f64();
    let queries = latencies.len();
    latencies.sort_unstable();
    let at = |share: f64| {
        latencies
            .get((queries as f64 * share) as usize)
            .copied()
            .unwrap_or(0)
    };
    println!(
        "{queries} {took:.3} {} {} {} {:.2}",
        at(0.5),
        at(0.95),
        at(0.99),
        own_cpu_seconds()?
    );
    Ok(())
}

impl Session {
    fn open(port: u16, tables: u64) -> io::Result<Self> {
        let stream = TcpStream::connect(("127.0.0.1", port))?;
        stream.set_nodelay(true)?;
        let mut session = Session {
            stream,
            statements: Vec::new(),
            received: Vec::new(),
            asked: Instant::now(),
        };
        session.packet()?;
        let mut login = CAPABILITIES.to_le_bytes().to_vec();
        login.extend(16_777_216_u32.to_le_bytes());
        login.push(45);
        login.extend([0; 23]);
        login.extend(b"root\0\0sbtest\0mysql_native_password\0");
        session.send(1, &login)?;
        let mut answer = session.packet()?;
        if answer.first() == Some(&0xfe) {
            session.send(3, &[])?;
            answer = session.packet()?;
        }
        expect(&answer, 0, "login")?;
        for table in 1..=tables {
            let text = format!("SELECT c FROM sbtest{table} WHERE id=?");
            session.send(0, &[&[COM_STMT_PREPARE], text.as_bytes()].concat())?;
            let answer = session.packet()?;
            expect(&answer, 0, "prepare")?;
            session.statements.push(u32::from_le_bytes(
                answer[1..5].try_into().expect("four bytes"),
            ));
            // Parameter, end, column, end.
            for _ in 0..4 {
                session.packet()?;
            }
        }
        Ok(session)
    }

    /// Reads one packet, waiting for it.
    fn packet(&mut self) -> io::Result<Vec<u8>> {
        let mut head = [0; 4];
        self.stream.read_exact(&mut head)?;
        let mut body = vec![0; u32::from_le_bytes([head[0], head[1], head[2], 0]) as usize];
        self.stream.read_exact(&mut body)?;
        Ok(body)
    }

    fn send(&mut self, seq: u8, body: &[u8]) -> io::Result<()> {
        let mut packet = (body.len() as u32).to_le_bytes()[..3].to_vec();
        packet.push(seq);
        packet.extend_from_slice(body);
        self.stream.write_all(&packet)
    }

    fn ask(&mut self, row: u64, table: u64) -> io::Result<()> {
        self.asked = Instant::now();
        let mut body = vec![COM_STMT_EXECUTE];
        body.extend(self.statements[table as usize].to_le_bytes());
        // No cursor, one iteration, no NULL, types follow.
        body.extend([0, 1, 0, 0, 0, 0, 1, TYPE_LONGLONG, 0]);
        body.extend((row + 1).to_le_bytes());
        self.send(0, &body)
    }

    /// Takes what has come; true if that completes the answer.
    fn answered(&mut self) -> io::Result<bool> {
        let mut chunk = [0; 4096];
        match self.stream.read(&mut chunk) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(n) => self.received.extend_from_slice(&chunk[..n]),
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(false),
            Err(e) => return Err(e),
        }
        let (mut at, mut packets) = (0, 0);
        while let Some(head) = self.received.get(at..at + 4) {
            let len = u32::from_le_bytes([head[0], head[1], head[2], 0]) as usize;
            if self.received.len() < at + 4 + len {
                return Ok(false);
            }
            if packets == 0 {
                expect(&self.received[at + 4..], 1, "execute")?;
            }
            at += 4 + len;
            packets += 1;
        }
        let complete = packets == ANSWER_PACKETS;
        if complete {
            self.received.clear();
        }
        Ok(complete)
    }
}

fn expect(packet: &[u8], first: u8, what: &str) -> io::Result<()> {
    if packet.first() == Some(&first) {
        return Ok(());
    }
    Err(io::Error::other(format!(
        "{what}: {}",
        String::from_utf8_lossy(packet)
    )))
}

fn own_cpu_seconds() -> io::Result<f64> {
    // Nanoseconds on the processor come first; there is only one thread.
    let text = std::fs::read_to_string("/proc/self/schedstat")?;
    let nanos = text.split(' ').next().and_then(|n| n.parse::<f64>().ok());
    Ok(nanos.unwrap_or(f64::NAN) / 1e9)
}

/// xorshift64*.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33) % bound
    }
}
