//! Settings of the engine: its log, its memory, its threads, and what a crash leaves.

use crate::common::{Ask, Server, eventually};

use super::{figure, start};

/// A row that is larger than a small buffer of the log.
const LARGE: &str = "CREATE DATABASE d; CREATE TABLE d.t (id INT AUTO_INCREMENT PRIMARY KEY, v LONGTEXT); \
                     INSERT INTO d.t VALUES (1, REPEAT('x', 3000000))";

/// How often that waits for the buffer of the log, and the size of the log's files.
fn log_of(args: &[&str]) -> (u64, u64) {
    let (server, dir) = start(args);
    let mut c = server.connect();
    c.run(LARGE);
    let files = std::fs::read_dir(dir.path().join("data/wal")).expect("the log");
    let sizes = files.map(|file| file.expect("a file").metadata().expect("its size").len());
    (
        figure(&mut c, "Esker_log_waits_d_buffer_full"),
        sizes.max().expect("a segment"),
    )
}

#[test]
fn the_log_is_as_large_as_it_is_to_be() {
    assert_eq!(log_of(&[]), (0, 64 << 20));
    // effect: esker_log_buffer_size, esker_log_segment_size
    let (waits, size) = log_of(&["--esker-log-buffer-size=1M", "--esker-log-segment-size=2M"]);
    assert!(waits > 0);
    assert_eq!(size, 2 << 20);
}

#[test]
fn a_full_memtable_is_written_to_extents() {
    const EXTENTS: &str = "SELECT COUNT(*) FROM information_schema.ESKER_EXTENTS";
    let (server, _dir) = start(&[]);
    let mut c = server.connect();
    c.run(LARGE);
    assert_eq!(c.value(EXTENTS), "0");
    // effect: esker_memtable_size
    let (server, _dir) = start(&["--esker-memtable-size=1M"]);
    let mut c = server.connect();
    c.run(LARGE);
    c.run("INSERT INTO d.t VALUES (2, 'behind it')");
    eventually("it is flushed", || c.value(EXTENTS) != "0");
}

#[test]
fn transactions_are_as_large_as_they_may_be() {
    // effect: esker_max_transaction_size
    let (server, _dir) = start(&["--esker-max-transaction-size=2M"]);
    assert_eq!(server.connect().code(LARGE), Some(1197));
    // effect: esker_transaction_memory
    let [much, little] = [&[][..], &["--esker-transaction-memory=64K"]].map(|args| {
        let (server, _dir) = start(args);
        let mut c = server.connect();
        c.run("CREATE DATABASE d; CREATE TABLE d.n (id INT PRIMARY KEY, v VARCHAR(200)); BEGIN");
        let rows: Vec<String> = (0..9000)
            .map(|id| format!("({id}, REPEAT('y', 200))"))
            .collect();
        c.run(&format!("INSERT INTO d.n VALUES {}", rows.join(",")));
        let bytes = "SELECT bytes FROM information_schema.ESKER_MEMORY WHERE area = 'transactions'";
        c.value(bytes).parse::<u64>().expect("a number")
    });
    assert!(little * 4 < much, "{little} {much}");
}

/// Threads of that name.
fn threads(server: &Server, name: &str) -> usize {
    let tasks = std::fs::read_dir(format!("/proc/{}/task", server.pid())).expect("threads");
    let names =
        tasks.map(|task| std::fs::read_to_string(task.expect("a thread").path().join("comm")));
    names
        .filter(|read| read.as_ref().is_ok_and(|text| text.trim() == name))
        .count()
}

#[test]
fn as_many_threads_compact_as_are_to() {
    // effect: esker_compaction_threads
    for wanted in [2, 5] {
        let (server, _dir) = start(&[&format!("--esker-compaction-threads={wanted}")]);
        eventually("they are there", || {
            threads(&server, "esker-compact") == wanted
        });
    }
}

/// Rows that are replayed in shards or one by one.
#[test]
fn a_log_is_replayed_as_the_mode_says() {
    // effect: esker_recovery_mode
    for (mode, in_shards) in [
        ("PARALLEL", true),
        ("SERIAL-SYNC", false),
        ("SERIAL-ASYNC", false),
    ] {
        let (mut server, _dir) = start(&[&format!("--esker-recovery-mode={mode}")]);
        server.connect().run(LARGE);
        server.kill();
        server.restart();
        let mut c = server.connect();
        assert_eq!(c.value("SELECT LENGTH(v) FROM d.t"), "3000000", "{mode}");
        let phase = "SHOW GLOBAL STATUS LIKE 'Esker_recovery_phase'";
        eventually("it is over", || {
            c.value(phase) == "Esker_recovery_phase|DONE"
        });
        assert_eq!(
            figure(&mut c, "Esker_recovery_shards_total") > 0,
            in_shards,
            "{mode}"
        );
    }
}

/// Behind a crash numbers go on where the last reserved ones end: the next one that is a multiple of the interval.
#[test]
fn numbers_are_reserved_in_intervals() {
    // effect: esker_auto_increment_persistent, esker_auto_increment_persistent_interval
    for (setting, next) in [
        ("--esker-auto-increment-persistent-interval=100", "103"),
        ("--esker-auto-increment-persistent-interval=10", "13"),
        ("--esker-auto-increment-persistent=OFF", "3"),
    ] {
        let (mut server, _dir) = start(&[setting]);
        let mut c = server.connect();
        c.run("CREATE DATABASE d; CREATE TABLE d.n (id INT AUTO_INCREMENT PRIMARY KEY, v INT)");
        c.run("INSERT INTO d.n (v) VALUES (1), (2); BEGIN; INSERT INTO d.n (v) VALUES (3)");
        server.kill();
        server.restart();
        let mut c = server.connect();
        c.run("INSERT INTO d.n (v) VALUES (4)");
        assert_eq!(c.value("SELECT MAX(id) FROM d.n"), next, "{setting}");
    }
}

#[test]
fn words_and_ngrams_are_as_long_as_they_are_to_be() {
    const FILL: &str = "CREATE DATABASE d; USE d; CREATE TABLE w (t TEXT, FULLTEXT (t)); CREATE TABLE n (t TEXT, \
                        FULLTEXT (t) WITH PARSER ngram); INSERT INTO w VALUES ('ox elephantine'); \
                        INSERT INTO n VALUES ('abcd')";
    let found = |args: &[&str]| {
        let (server, _dir) = start(args);
        let mut c = server.connect();
        c.run(FILL);
        ["w:ox", "w:elephantine", "n:bcd", "n:bc"].map(|what| {
            let (table, word) = what.split_once(':').expect("both");
            c.value(&format!(
                "SELECT COUNT(*) FROM {table} WHERE MATCH (t) AGAINST ('{word}')"
            ))
        })
    };
    assert_eq!(found(&[]), ["0", "1", "1", "1"]);
    // effect: innodb_ft_min_token_size, innodb_ft_max_token_size, ngram_token_size
    let settings = [
        "--innodb-ft-min-token-size=2",
        "--innodb-ft-max-token-size=10",
        "--ngram-token-size=3",
    ];
    assert_eq!(found(&settings), ["1", "0", "1", "0"]);
}

#[test]
fn what_is_not_measured_is_not_shown() {
    const DIGESTS: &str =
        "SELECT COUNT(*) > 0 FROM performance_schema.events_statements_summary_by_digest";
    // effect: performance_schema
    for (setting, some) in [("ON", "1"), ("OFF", "0")] {
        let (server, _dir) = start(&[&format!("--performance-schema={setting}")]);
        let mut c = server.connect();
        c.run("DO 1");
        assert_eq!(c.value(DIGESTS), some);
        // Profiles are a session's own.
        c.run("SET profiling = 1; DO 2");
        assert_eq!(c.rows("SHOW PROFILES").len(), 1, "{setting}");
    }
}

/// As in MySQL, a server has no fewer files than the system gives it.
#[test]
fn a_limit_of_files_that_does_not_count_is_told() {
    // effect: open_files_limit
    let (_server, dir) = start(&["--open-files-limit=600"]);
    let log = std::fs::read_to_string(dir.path().join("log")).expect("log");
    assert_eq!(
        log.matches("open_files_limit=600: the system allows ")
            .count(),
        1,
        "{log}"
    );
}

/// Tasks of a scan of a table in extents under these settings.
fn tasks(settings: &str) -> u64 {
    const NUMBERS: &str =
        "WITH RECURSIVE r AS (SELECT 1 n UNION ALL SELECT n + 1 FROM r WHERE n < 40000)";
    let (server, _dir) = start(&[]);
    let mut c = server.connect();
    c.run("CREATE DATABASE d; USE d; CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(200))");
    c.run("SET cte_max_recursion_depth = 100000");
    c.run(&format!(
        "INSERT INTO t {NUMBERS} SELECT n, REPEAT(n, 40) FROM r"
    ));
    c.run("FLUSH TABLES t FOR EXPORT; UNLOCK TABLES");
    c.run(settings);
    c.run("SELECT SUM(LENGTH(v)) FROM t WHERE v <> 'c'");
    figure(&mut c, "Esker_scan_tasks")
}

#[test]
fn a_scan_is_split_into_tasks() {
    // effect: esker_parallel_scan_rows
    assert_eq!(tasks("SET esker_parallel_scan_rows = 1000000"), 0);
    let many = tasks("SET esker_parallel_scan_rows = 0, parallel_read_threads = 8");
    assert!(many > 0);
    // effect: parallel_read_threads
    let few = tasks("SET esker_parallel_scan_rows = 0, parallel_read_threads = 1");
    assert!(few < many, "{few} {many}");
}
