//! A restart with a big log, over real sockets: whoever comes early waits and is served, everything acknowledged is
//! there, work goes on while the rest is built, and the server tells how it went.

use std::path::Path;

use esker_server::client::Client;

use crate::common::{Ask, Server, eventually, patiently};

const ROWS: u64 = 40_000;
const BATCH: u64 = 500;

/// Nothing is flushed before the crash.
const SETTINGS: [&str; 4] = [
    "--esker-memory-limit=1G",
    "--esker-memtable-size=512M",
    "--esker-log-segment-size=4M",
    "--skip-ssl",
];

fn fill(c: &mut Client) {
    c.run(
        "CREATE DATABASE d;
         CREATE TABLE d.t (id INT PRIMARY KEY, k INT NOT NULL, v VARCHAR(200) NOT NULL, KEY k (k))",
    );
    for first in (0..ROWS).step_by(BATCH as usize) {
        let rows: Vec<String> = (first..first + BATCH)
            .map(|id| format!("({id}, {}, REPEAT('{id},', 25))", id * 7919 % ROWS))
            .collect();
        c.run(&format!("INSERT INTO d.t VALUES {}", rows.join(",")));
    }
    c.run("UPDATE d.t SET k = k + 1 WHERE id % 10 = 0; DELETE FROM d.t WHERE id % 100 = 99");
}

/// What must be the same before and after.
fn summary(c: &mut Client) -> Vec<String> {
    let mut lines = c.lines("SELECT COUNT(*), SUM(id), SUM(k), SUM(CRC32(v)) FROM d.t");
    lines.extend(c.lines("SELECT COUNT(*), SUM(k) FROM d.t FORCE INDEX (k) WHERE k >= 0"));
    lines
}

fn status(c: &mut Client, name: &str) -> String {
    let rows = c.rows(&format!("SHOW STATUS LIKE 'Esker\\_recovery\\_{name}'"));
    rows[0][1].clone().expect("a value")
}

fn number(c: &mut Client, name: &str) -> u64 {
    status(c, name).parse().expect("a number")
}

/// Connects again and again until somebody listens; the greeting comes when it comes.
fn connect_early(port: u16) -> Client {
    patiently(|| Client::connect("127.0.0.1", port, "root", "", None))
}

/// Segments that hold the log.
fn segments(dir: &Path) -> usize {
    let files = std::fs::read_dir(dir.join("data/wal")).expect("folder");
    let names = files.map(|entry| entry.expect("entry").file_name());
    let names = names.filter_map(|name| name.into_string().ok());
    names.filter(|name| name.ends_with(".wal")).count()
}

/// Each life begins a segment, and has next to nothing to write there.
#[test]
fn many_short_lives_do_not_fill_the_disk_with_log() {
    const LIVES: usize = 16;
    let dir = tempfile::tempdir().expect("folder");
    // effect: esker_log_live_size
    let settings = ["--esker-log-segment-size=1M", "--esker-log-live-size=4M"];
    let mut server = Server::start(dir.path(), &settings);
    server
        .connect()
        .run("CREATE DATABASE d; CREATE TABLE d.t (a INT PRIMARY KEY)");
    for life in 0..LIVES {
        server
            .connect()
            .run(&format!("INSERT INTO d.t VALUES ({life})"));
        server.kill();
        server.restart();
    }
    // Five are needed to be too many, and the last one is begun.
    eventually("the log is released", || segments(dir.path()) <= LIVES / 2);
    let rows = server.connect().value("SELECT COUNT(*) FROM d.t");
    assert_eq!(rows, LIVES.to_string());
}

#[test]
fn a_big_log_is_replayed_while_clients_wait_and_work() {
    for mode in ["PARALLEL", "SERIAL-ASYNC", "SERIAL-SYNC"] {
        let dir = tempfile::tempdir().expect("folder");
        let mode_setting = format!("--esker-recovery-mode={mode}");
        let mut settings = SETTINGS.to_vec();
        settings.push(&mode_setting);
        let mut server = Server::start(dir.path(), &settings);
        let mut c = server.connect();
        fill(&mut c);
        let before = summary(&mut c);
        server.kill();
        let port = server.port;
        let early = std::thread::spawn(move || {
            let mut clients: Vec<Client> = (0..4).map(|_| connect_early(port)).collect();
            clients[0].value("SELECT v FROM d.t WHERE id = 20000")
        });
        server.restart();
        assert_eq!(early.join().expect("answered"), "20000,".repeat(25));
        let mut c = server.connect();
        // Whether the rest is built or not, writers write.
        c.run("INSERT INTO d.t VALUES (-1, 0, 'new'); UPDATE d.t SET v = 'new' WHERE id = 20001");
        assert_eq!(c.value("SELECT v FROM d.t WHERE id = 20001"), "new");
        c.run("DELETE FROM d.t WHERE id = -1; UPDATE d.t SET v = REPEAT('20001,', 25) WHERE id = 20001");
        assert_eq!(summary(&mut c), before, "{mode}");
        tells_how_it_went(&mut c, mode);
    }
}

/// Whoever asks a server to end while it reads its log gets a clean end, soon, and the next start has everything.
#[test]
fn a_server_that_is_stopped_while_it_recovers_ends_and_begins_again() {
    let dir = tempfile::tempdir().expect("folder");
    let mut server = Server::start(dir.path(), &SETTINGS);
    let mut c = server.connect();
    fill(&mut c);
    let before = summary(&mut c);
    server.kill();
    for mode in ["SERIAL-SYNC", "SERIAL-ASYNC", "PARALLEL"] {
        let mode = format!("--esker-recovery-mode={mode}");
        let mut settings = SETTINGS.to_vec();
        settings.push(&mode);
        server.set_args(&settings);
        server.stop_early();
    }
    server.restart();
    assert_eq!(summary(&mut server.connect()), before);
}

fn tells_how_it_went(c: &mut Client, mode: &str) {
    eventually("all is built", || status(c, "phase") == "DONE");
    assert_eq!(status(c, "mode"), mode);
    // A row and its index entry.
    assert!(number(c, "rows") >= 2 * ROWS, "{}", number(c, "rows"));
    assert!(number(c, "bytes_total") > ROWS * 150);
    assert_eq!(number(c, "bytes_done"), number(c, "bytes_total"));
    assert_eq!(number(c, "flushes"), 0, "the same memory as before");
    assert_eq!(number(c, "time_left"), 0);
    assert!(number(c, "until_ready") <= number(c, "elapsed"));
    let row = c.lines(
        "SELECT PHASE, MODE, BYTES_DONE = BYTES_TOTAL, ROWS_REPLAYED FROM information_schema.ESKER_RECOVERY",
    );
    assert_eq!(row, [format!("DONE|{mode}|1|{}", number(c, "rows"))]);
}
