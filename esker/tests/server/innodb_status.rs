//! SHOW ENGINE INNODB STATUS: the sections that tools parse, and deadlocks.
//!
//! Neighbours: `system_schemas` has the tables about locks. **Invariant**: figures are compared with what the test did,
//! never with times.

use std::thread;

use esker_server::client::Client;

use crate::common::{Ask, Server, eventually};

fn status(server: &Server) -> String {
    let rows = server.connect().rows("SHOW ENGINE INNODB STATUS");
    rows[0][2].clone().expect("a text")
}

/// The number before a word in the first line that has it.
fn number_before(text: &str, word: &str) -> u64 {
    let line = text
        .lines()
        .find(|line| line.contains(word))
        .unwrap_or_else(|| panic!("no {word} in {text}"));
    let before = line.split(word).next().unwrap_or_default();
    let digits = before.trim_end().rsplit(' ').next().unwrap_or_default();
    digits.parse().unwrap_or_else(|e| panic!("{line}: {e}"))
}

/// The number behind a word in the first line that begins with it.
fn number_behind(text: &str, word: &str) -> u64 {
    let line = text
        .lines()
        .find(|line| line.starts_with(word))
        .unwrap_or_else(|| panic!("no {word} in {text}"));
    let digits = line[word.len()..]
        .trim_start()
        .split([' ', ','])
        .next()
        .unwrap_or_default();
    digits.parse().unwrap_or_else(|e| panic!("{line}: {e}"))
}

#[test]
fn sections_are_innodbs_and_figures_are_true() {
    let dir = tempfile::tempdir().expect("folder");
    let server = Server::start(dir.path(), &["--skip-ssl"]);
    let mut c = server.connect();
    c.run("CREATE DATABASE d; CREATE TABLE d.t (id INT PRIMARY KEY, v INT); INSERT INTO d.t VALUES (1,1), (2,2), (3,3)");
    c.run("UPDATE d.t SET v = 5 WHERE id < 3; DELETE FROM d.t WHERE id = 3");
    let text = status(&server);
    let sections = [
        "INNODB MONITOR OUTPUT",
        "BACKGROUND THREAD",
        "SEMAPHORES",
        "TRANSACTIONS",
        "FILE I/O",
        "INSERT BUFFER AND ADAPTIVE HASH INDEX",
        "LOG",
        "BUFFER POOL AND MEMORY",
        "ROW OPERATIONS",
        "END OF INNODB MONITOR OUTPUT",
    ];
    let mut at = 0;
    for section in sections {
        let line = format!("{section}\n");
        at += text[at..]
            .find(&line)
            .unwrap_or_else(|| panic!("no {section} behind the others in {text}"));
    }
    assert!(!text.contains("DEADLOCK"));
    assert_eq!(number_behind(&text, "Number of rows inserted"), 3);
    assert!(text.contains("inserted 3, updated 2, deleted 1, read"));
    assert!(number_behind(&text, "Log sequence number") > 0);
    assert!(number_behind(&text, "Buffer pool size") > 0);
    assert!(number_before(&text, "OS fsyncs") > 0);
    assert_eq!(number_before(&text, "read views open"), 0);
    // An open transaction with its lock.
    c.run("BEGIN; UPDATE d.t SET v = 6 WHERE id = 2");
    let id = c.value("SELECT CONNECTION_ID()");
    let text = status(&server);
    assert_eq!(number_before(&text, "read views open"), 1);
    assert!(text.contains(&format!("---TRANSACTION {id}, ACTIVE ")));
    assert!(text.contains(&format!("MySQL thread id {id}, ")));
    let lock =
        format!("index PRIMARY of table `d`.`t` trx id {id} lock_mode X locks rec but not gap\n");
    assert!(text.contains(&lock), "{text}");
}

#[test]
fn deadlocks_are_remembered_with_statements_and_keys() {
    let dir = tempfile::tempdir().expect("folder");
    let server = Server::start(dir.path(), &["--skip-ssl"]);
    let mut c = server.connect();
    c.run("CREATE DATABASE d; CREATE TABLE d.t (id INT PRIMARY KEY, v INT); INSERT INTO d.t VALUES (1,1), (2,2)");
    let (mut a, mut b) = (server.connect(), server.connect());
    a.run("BEGIN; UPDATE d.t SET v = 10 WHERE id = 1");
    b.run("BEGIN; UPDATE d.t SET v = 20 WHERE id = 2");
    let waiter = thread::spawn(move || {
        let code = a.code("UPDATE d.t SET v = 11 WHERE id = 2");
        a.run("ROLLBACK");
        code
    });
    let waits = "SELECT COUNT(*) FROM performance_schema.data_lock_waits";
    eventually("one session waits for the other", || c.value(waits) == "1");
    let codes = [b.code("UPDATE d.t SET v = 21 WHERE id = 1"), {
        b.run("ROLLBACK");
        waiter.join().expect("a thread that answers")
    }];
    let failed: Vec<_> = codes.iter().flatten().collect();
    assert_eq!(failed, [&1213], "one of both is the victim");
    let text = status(&server);
    assert!(text.contains("LATEST DETECTED DEADLOCK\n"), "{text}");
    for part in [
        "*** (1) TRANSACTION:",
        "*** (2) TRANSACTION:",
        "*** (1) HOLDS THE LOCK(S):",
        "*** (2) WAITING FOR THIS LOCK TO BE GRANTED:",
        "UPDATE d.t SET v = 11 WHERE id = 2",
        "UPDATE d.t SET v = 21 WHERE id = 1",
        "index PRIMARY of table `d`.`t`",
        "*** WE ROLL BACK TRANSACTION (",
    ] {
        assert!(text.contains(part), "{part} in {text}");
    }
    let kept = "SELECT NUMBER, VICTIM, STATEMENT, WAITS_FOR LIKE '%`d`.`t`%waiting%', HOLDS LIKE '%`d`.`t`%' \
                FROM information_schema.ESKER_DEADLOCKS ORDER BY STATEMENT";
    let rows = c.rows(kept);
    assert_eq!(rows.len(), 2);
    let victims = rows.iter().filter(|row| row[1].as_deref() == Some("YES"));
    assert_eq!(victims.count(), 1);
    for row in &rows {
        let cells: Vec<_> = row
            .iter()
            .map(|cell| cell.as_deref().unwrap_or_default())
            .collect();
        assert_eq!([cells[0], cells[3], cells[4]], ["1", "1", "1"]);
    }
    // Not for everybody.
    c.run("CREATE USER u; GRANT SELECT ON d.* TO u");
    let mut other = Client::connect("127.0.0.1", server.port, "u", "", None).expect("a login");
    assert_eq!(other.code("SHOW ENGINE INNODB STATUS"), Some(1227));
    assert!(
        other
            .rows("SELECT * FROM information_schema.ESKER_DEADLOCKS")
            .is_empty()
    );
}

#[test]
fn profiles_are_kept_while_they_are_wanted() {
    let dir = tempfile::tempdir().expect("folder");
    let server = Server::start(dir.path(), &["--skip-ssl"]);
    let mut c = server.connect();
    c.run("SELECT 1");
    assert!(c.rows("SHOW PROFILES").is_empty());
    c.run("SET profiling = 1, profiling_history_size = 2");
    for statement in ["SELECT 'a'", "SELECT 'b'", "SELECT 'c'"] {
        c.run(statement);
    }
    let profiles = c.rows("SHOW PROFILES");
    let texts: Vec<_> = profiles
        .iter()
        .map(|row| row[2].as_deref().unwrap_or_default())
        .collect();
    assert_eq!(texts, ["SELECT 'b'", "SELECT 'c'"]);
    let number = profiles[0][0].clone().expect("a number");
    let stages = c.rows(&format!("SHOW PROFILE FOR QUERY {number}"));
    assert_eq!(stages.len(), 1);
    assert_eq!(stages[0][0].as_deref(), Some("executing"));
    assert_eq!(c.rows("SHOW PROFILE").len(), 1);
    assert!(c.rows("SHOW PROFILE ALL FOR QUERY 4711").is_empty());
    let rows = c.rows("SELECT QUERY_ID, SEQ, STATE, DURATION FROM information_schema.PROFILING");
    assert_eq!(rows.len(), 2);
    for (row, profile) in rows.iter().zip(&profiles) {
        assert_eq!(row[0], profile[0]);
        assert_eq!(row[1].as_deref(), Some("2"));
        assert_eq!(row[2].as_deref(), Some("executing"));
        let duration = row[3].as_deref().expect("a duration");
        assert_eq!(Some(format!("{duration}00")), profile[1]);
    }
    // The statement about them is one of them now; other sessions see nothing.
    let last =
        "SELECT COUNT(*), SUM(DURATION) > 0 FROM information_schema.PROFILING WHERE QUERY_ID = 4";
    assert_eq!(c.rows(last), [[Some("1".to_owned()), Some("1".to_owned())]]);
    let mut other = server.connect();
    assert_eq!(
        other.value("SELECT COUNT(*) FROM information_schema.PROFILING"),
        "0"
    );
    assert_eq!(c.value("SELECT @@long_query_time"), "10.000000");
    assert!(c.value("SELECT @@version_comment").starts_with("Esker "));
}
