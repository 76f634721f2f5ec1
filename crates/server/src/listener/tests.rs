//! A whole server on a simulated disk, asked over sockets: what a real disk cannot be told to do.

use std::net::SocketAddr;
use std::sync::mpsc::{Receiver, channel};
use std::thread::{self, JoinHandle};
use std::time::Instant;

use esker_vfs::sim::{Fault, Op, SimEnv};

use super::*;
use crate::client::{Client, ClientError, QueryResult};

/// The longest that a test waits for something.
const LIMIT: Duration = Duration::from_secs(120);
/// Pause between two looks at what the background does.
const PAUSE: Duration = Duration::from_millis(20);
/// A writer that is never refused would write for ever.
const MOST_WRITES: u32 = 10_000;

/// A server on a thread of this process.
struct Running {
    address: SocketAddr,
    thread: JoinHandle<Result<(), StartError>>,
}

impl Running {
    fn start(machine: &SimEnv, settings: &[(&str, &str)]) -> Self {
        let setting = |(name, value): &(&str, &str)| Setting {
            name: (*name).into(),
            value: (*value).into(),
            source: "test".into(),
        };
        let config = Config {
            port: 0,
            data_dir: "/db".into(),
            settings: settings.iter().map(setting).collect(),
            ..Config::default()
        };
        let (tell, ready): (_, Receiver<SocketAddr>) = channel();
        let env = machine.env();
        let thread = thread::spawn(move || {
            let hooks = Hooks {
                progress: Box::new(|_| ()),
                reopen_logs: Arc::new(|| Ok(())),
                form_log: |_| (),
                recent_log: Vec::new,
                heap: Heap::UNKNOWN,
                ready: move |address, _: &Instance| tell.send(address).expect("the test waits"),
            };
            let starting = begin(&config, &env)?;
            let mut runtime = tokio::runtime::Builder::new_multi_thread();
            let tls = Tls::none(&|_| String::new());
            let runtime = runtime.worker_threads(2).enable_all().build()?;
            let served = runtime.block_on(serve(&config, starting, tls, hooks))?;
            Ok(served.expect("it has served").instance.shutdown()?)
        });
        let address = ready.recv_timeout(LIMIT).expect("it starts");
        Running { address, thread }
    }

    fn connect(&self) -> Client {
        Client::connect("127.0.0.1", self.address.port(), "root", "", None).expect("connects")
    }

    fn stop(self) {
        ask(&mut self.connect(), "SHUTDOWN").expect("it stops");
        let ended = self.thread.join().expect("no panic");
        ended.expect("a clean end");
    }
}

/// The rows of the last result, values joined by `|`; or the number of the error.
fn ask(client: &mut Client, sql: &str) -> Result<Vec<String>, u16> {
    let mut lines = Vec::new();
    let text = |cell: Option<Vec<u8>>| String::from_utf8(cell.unwrap_or(b"NULL".to_vec()));
    let outcome = client.query(sql, &mut |result| {
        if let QueryResult::Rows { rows, .. } = result {
            let line = |row: Vec<Option<Vec<u8>>>| {
                let cells = row.into_iter().map(|cell| text(cell).expect("UTF-8"));
                cells.collect::<Vec<_>>().join("|")
            };
            lines = rows.into_iter().map(line).collect();
        }
    });
    match outcome {
        Ok(()) => Ok(lines),
        Err(ClientError::Server(e)) => Err(e.code),
        Err(e) => panic!("{sql}: {e}"),
    }
}

/// Asks until the answer is this one.
fn await_answer(client: &mut Client, sql: &str, wanted: &str) {
    let begun = Instant::now();
    loop {
        let answer = ask(client, sql);
        if answer.as_deref() == Ok(&[wanted.to_owned()]) {
            return;
        }
        assert!(begun.elapsed() < LIMIT, "{sql}: {answer:?}");
        thread::sleep(PAUSE);
    }
}

fn count(client: &mut Client) -> u32 {
    let rows = ask(client, "SELECT COUNT(*) FROM d.t").expect("readers go on");
    rows[0].parse().expect("a number")
}

#[test]
fn a_full_disk_stalls_the_binary_log_and_writers_when_the_log_reaches_its_limit() {
    let machine = SimEnv::new(1);
    let settings = [
        ("ssl", "OFF"),
        ("log_bin", "ON"),
        ("gtid_mode", "ON"),
        ("max_binlog_size", "16384"),
        ("esker_log_segment_size", "1048576"),
        ("esker_log_buffer_size", "1048576"),
        ("esker_log_pinned_limit", "2097152"),
    ];
    let server = Running::start(&machine, &settings);
    let mut c = server.connect();
    for sql in [
        "CREATE DATABASE d",
        "CREATE TABLE d.t (id INT AUTO_INCREMENT PRIMARY KEY, v TEXT)",
        "INSERT INTO d.t (v) VALUES (REPEAT('a', 20000)), (REPEAT('b', 20000))",
        "FLUSH BINARY LOGS",
    ] {
        ask(&mut c, sql).expect(sql);
    }
    let full = Fault::on(Op::Write).path("binlog.0").no_space().forever();
    machine.fs.inject(full);
    let insert = "INSERT INTO d.t (v) VALUES (REPEAT('x', 20000))";
    let mut written = 2;
    let refused = loop {
        match ask(&mut c, insert) {
            Ok(_) => written += 1,
            Err(code) => break code,
        }
        assert!(written < MOST_WRITES, "nothing limits the log");
    };
    assert_eq!(refused, 1021);
    assert!(written > 50, "commits go on up to the limit, not {written}");
    assert_eq!(count(&mut c), written, "what is refused is not there");
    assert_eq!(ask(&mut c, "DELETE FROM d.t WHERE id = -1"), Ok(vec![]));
    let stalled = "SHOW STATUS LIKE 'Esker_binlog_stalled'";
    await_answer(&mut c, stalled, "Esker_binlog_stalled|1");
    // What would show too little does not wait in vain; who makes room is served.
    assert_eq!(ask(&mut c, "SHOW BINARY LOG STATUS"), Err(1021));
    assert_eq!(ask(&mut c, "FLUSH BINARY LOGS"), Err(1021));
    let files = ask(&mut c, "SHOW BINARY LOGS").expect("a list");
    assert!(files.len() > 1, "{files:?}");
    ask(&mut c, "PURGE BINARY LOGS TO 'binlog.000002'").expect("it makes room");
    let kept = ask(&mut c, "SHOW BINARY LOGS").expect("a list");
    assert_eq!(kept, files[1..]);
    // A higher limit lets them on, and so does space.
    // effect: esker_log_pinned_limit
    ask(&mut c, "SET GLOBAL esker_log_pinned_limit = 8388608").expect("it is set");
    let begun = Instant::now();
    while ask(&mut c, insert).is_err() {
        assert!(begun.elapsed() < LIMIT, "the limit is not heeded");
        thread::sleep(PAUSE);
    }
    written += 1;
    machine.fs.clear_faults();
    await_answer(&mut c, stalled, "Esker_binlog_stalled|0");
    ask(&mut c, insert).expect("there is space");
    written += 1;
    assert_eq!(count(&mut c), written);
    let status = ask(&mut c, "SHOW BINARY LOG STATUS").expect("all is there");
    // Two definitions, the first insert of two rows, and one for each row besides; no number is left out.
    let all = format!(":1-{}", 2 + 1 + (written - 2));
    assert!(status[0].ends_with(&all), "{status:?}, {all}");
    server.stop();
}

/// What shows state of the binary log.
const ASKED: [&str; 4] = [
    "SHOW BINARY LOG STATUS",
    "SHOW BINARY LOGS",
    "SHOW BINLOG EVENTS",
    "SELECT @@GLOBAL.gtid_executed",
];

#[test]
fn what_shows_the_binary_log_waits_until_the_files_have_what_is_committed() {
    let machine = SimEnv::new(2);
    let settings = [("ssl", "OFF"), ("log_bin", "ON"), ("gtid_mode", "ON")];
    let server = Running::start(&machine, &settings);
    let mut c = server.connect();
    ask(&mut c, "CREATE DATABASE d").expect("it is made");
    ask(&mut c, "CREATE TABLE d.t (id INT PRIMARY KEY)").expect("it is made");
    for (at, sql) in ASKED.into_iter().enumerate() {
        // The writer hangs in a sync, and a transaction comes behind it.
        machine.fs.hold_syncs_of("binlog.0");
        let insert = |c: &mut Client, id: usize| {
            ask(c, &format!("INSERT INTO d.t VALUES ({id})")).expect("nobody waits for the files");
        };
        insert(&mut c, 2 * at);
        machine.fs.await_held_sync();
        insert(&mut c, 2 * at + 1);
        let (tell, told) = channel();
        let mut other = server.connect();
        let asking = thread::spawn(move || tell.send(ask(&mut other, sql)).expect("awaited"));
        // Whoever did not wait would have answered by now: without the last transaction.
        let early = told.recv_timeout(Duration::from_secs(1));
        machine.fs.release_syncs();
        assert!(early.is_err(), "{sql}: {early:?}");
        let answer = told.recv_timeout(LIMIT).expect("it goes on");
        asking.join().expect("no panic");
        let now = ask(&mut c, sql);
        assert_eq!(answer, now, "{sql}");
        assert!(now.is_ok_and(|lines| !lines.is_empty()));
    }
    server.stop();
}

#[test]
fn a_receiver_goes_on_where_a_full_disk_has_stopped_it() {
    let (there, here) = (SimEnv::new(6), SimEnv::new(7));
    let settings = |id| {
        [
            ("ssl", "OFF"),
            ("log_bin", "ON"),
            ("gtid_mode", "ON"),
            ("enforce_gtid_consistency", "ON"),
            ("server_id", id),
        ]
    };
    let source = Running::start(&there, &settings("1"));
    let replica = Running::start(&here, &settings("2"));
    let (mut s, mut r) = (source.connect(), replica.connect());
    ask(&mut s, "CREATE DATABASE d").expect("a database");
    ask(&mut s, "CREATE TABLE d.t (id INT PRIMARY KEY, v TEXT)").expect("a table");
    let change = format!(
        "CHANGE REPLICATION SOURCE TO SOURCE_HOST = '127.0.0.1', SOURCE_PORT = {}, SOURCE_USER = 'root', \
         SOURCE_AUTO_POSITION = 1, SOURCE_RETRY_COUNT = 1",
        source.address.port()
    );
    ask(&mut r, &change).expect("a source");
    ask(&mut r, "START REPLICA").expect("it starts");
    let tables = "SELECT COUNT(*) FROM information_schema.tables WHERE table_schema = 'd'";
    await_answer(&mut r, tables, "1");
    here.fs
        .inject(Fault::on(Op::Write).path("relay").no_space().forever());
    for id in 0..3 {
        ask(
            &mut s,
            &format!("INSERT INTO d.t VALUES ({id}, REPEAT('a', 60000))"),
        )
        .expect("a row");
    }
    let waits = "SELECT COUNT(*) FROM information_schema.processlist WHERE state = 'Waiting for disk space'";
    await_answer(&mut r, waits, "1");
    // It can be stopped and started while it waits.
    ask(&mut r, "STOP REPLICA").expect("it stops");
    await_answer(&mut r, waits, "0");
    ask(&mut r, "START REPLICA").expect("it starts");
    await_answer(&mut r, waits, "1");
    here.fs.clear_faults();
    await_answer(&mut r, "SELECT COUNT(*) FROM d.t", "3");
    let running = "SELECT service_state FROM performance_schema.replication_connection_status";
    assert_eq!(ask(&mut r, running), Ok(vec!["ON".to_owned()]));
    replica.stop();
    source.stop();
}
