//! Events by the clock: they run, end, survive restarts and kill -9, fail alone, are switched off, and do not run on a
//! replica. What the statements about them say is in `tests/sql/program/events.slt`.
//!
//! No test rests on how fast an event runs: each waits for what is to come of it.

use std::path::Path;
use std::process::Command;

use crate::common::{Ask, Server, eventually, has_client, output};

const ROWS: &str = "SELECT COUNT(*) FROM d.t";

fn server(dir: &Path, args: &[&str]) -> Server {
    let server = Server::start(dir, args);
    server
        .connect()
        .run("CREATE DATABASE d; CREATE TABLE d.t (id INT AUTO_INCREMENT PRIMARY KEY, what VARCHAR(100))");
    server
}

fn count(server: &Server, sql: &str) -> u64 {
    server.connect().value(sql).parse().expect("a number")
}

/// Which events there are, and whether they run.
fn statuses(server: &Server) -> String {
    server.connect().value(
        "SELECT GROUP_CONCAT(event_name, ' ', status ORDER BY event_name) FROM information_schema.events",
    )
}

#[test]
fn an_event_runs_again_and_again_until_it_is_dropped() {
    let dir = tempfile::tempdir().expect("folder");
    let server = server(dir.path(), &[]);
    let mut c = server.connect();
    c.run("CREATE EVENT d.e ON SCHEDULE EVERY 1 SECOND DO INSERT INTO d.t (what) VALUES (CONCAT(CURRENT_USER(), ' ', USER()))");
    eventually("it has run", || count(&server, ROWS) >= 3);
    let seen =
        "SELECT last_executed IS NOT NULL FROM information_schema.events WHERE event_name = 'e'";
    assert_eq!(c.value(seen), "1");
    let told = "root@localhost event_scheduler@localhost";
    assert_eq!(c.value("SELECT DISTINCT what FROM d.t"), told);
    c.run("DROP EVENT d.e");
    let running = "SELECT COUNT(*) FROM information_schema.processlist WHERE command = 'Connect'";
    eventually("the last run has ended", || count(&server, running) == 0);
    let left = count(&server, ROWS);
    c.run("CREATE EVENT d.later ON SCHEDULE AT NOW() + INTERVAL 2 SECOND DO INSERT INTO d.t (what) VALUES ('later')");
    eventually("the other one has run", || {
        count(&server, "SELECT COUNT(*) FROM d.t WHERE what = 'later'") == 1
    });
    assert_eq!(count(&server, ROWS), left + 1, "nothing but that");
}

#[test]
fn an_event_that_runs_once_ends_as_it_says() {
    let dir = tempfile::tempdir().expect("folder");
    let server = server(dir.path(), &[]);
    let mut c = server.connect();
    c.run(
        "CREATE EVENT d.goes ON SCHEDULE AT NOW() DO INSERT INTO d.t (what) VALUES ('goes');
         CREATE EVENT d.stays ON SCHEDULE AT NOW() ON COMPLETION PRESERVE DO INSERT INTO d.t (what) VALUES ('stays');
         CREATE EVENT d.ends ON SCHEDULE EVERY 1 SECOND ENDS NOW() + INTERVAL 1 SECOND DO SET @a = 1;
         CREATE EVENT d.off ON SCHEDULE EVERY 1 SECOND DISABLE DO INSERT INTO d.t (what) VALUES ('off')",
    );
    eventually("they have ended", || {
        statuses(&server) == "off DISABLED,stays DISABLED"
    });
    assert_eq!(
        c.value("SELECT GROUP_CONCAT(what ORDER BY what) FROM d.t"),
        "goes,stays"
    );
    c.run("ALTER EVENT d.stays ON SCHEDULE AT NOW() + INTERVAL 1 SECOND ENABLE DO INSERT INTO d.t (what) VALUES ('again')");
    eventually("it has run again", || {
        count(&server, "SELECT COUNT(*) FROM d.t WHERE what = 'again'") == 1
    });
}

/// An error ends a run and no other; what a definer may not do an event does not do either.
#[test]
fn a_run_that_fails_is_alone() {
    let dir = tempfile::tempdir().expect("folder");
    let server = server(dir.path(), &[]);
    let mut c = server.connect();
    c.run(
        "CREATE USER small@localhost; GRANT EVENT ON d.* TO small@localhost;
         CREATE DEFINER = small@localhost EVENT d.a ON SCHEDULE AT NOW() DO INSERT INTO d.t (what) VALUES ('a');
         CREATE DEFINER = nobody@localhost EVENT d.b ON SCHEDULE AT NOW() DO INSERT INTO d.t (what) VALUES ('b');
         CREATE EVENT d.c ON SCHEDULE AT NOW() DO INSERT INTO d.no_such_table VALUES (1)",
    );
    c.query(
        "CREATE EVENT d.e ON SCHEDULE AT NOW() DO BEGIN
           DECLARE CONTINUE HANDLER FOR SQLEXCEPTION INSERT INTO d.t (what) VALUES ('handled');
           SELECT 'rows for nobody';
           INSERT INTO d.no_such_table VALUES (1);
           SELECT @@time_zone;
           INSERT INTO d.t (what) VALUES (DATABASE());
         END"
        .as_bytes(),
        &mut |_| {},
    )
    .expect("an event");
    eventually("all have ended", || statuses(&server) == "NULL");
    assert_eq!(
        c.value("SELECT GROUP_CONCAT(what ORDER BY id) FROM d.t"),
        "handled,d"
    );
}

/// What passed while the server was down runs late, once, and a series goes on.
#[test]
fn schedules_go_on_behind_a_restart_and_a_crash() {
    let dir = tempfile::tempdir().expect("folder");
    let mut server = server(dir.path(), &["--event-scheduler=OFF"]);
    let mut c = server.connect();
    c.run(
        "CREATE EVENT d.late ON SCHEDULE AT NOW() ON COMPLETION PRESERVE DO INSERT INTO d.t (what) VALUES ('late');
         CREATE EVENT d.series ON SCHEDULE EVERY 1 SECOND STARTS NOW() - INTERVAL 1 DAY DO INSERT INTO d.t (what) VALUES ('series')",
    );
    let scheduler =
        "SELECT COUNT(*) FROM information_schema.processlist WHERE user = 'event_scheduler'";
    assert_eq!(count(&server, scheduler), 0);
    server.kill();
    server.set_args(&[]);
    server.restart();
    eventually("the scheduler is there", || count(&server, scheduler) == 1);
    let late = "SELECT COUNT(*) FROM d.t WHERE what = 'late'";
    let series = "SELECT COUNT(*) FROM d.t WHERE what = 'series'";
    eventually("both have run", || {
        count(&server, late) == 1 && count(&server, series) >= 2
    });
    assert!(count(&server, series) < 1000, "a day is not made up for");
    let before = count(&server, series);
    server.kill();
    server.restart();
    eventually("the series goes on", || count(&server, series) > before);
    assert_eq!(count(&server, late), 1, "it has run");
    assert_eq!(statuses(&server), "late DISABLED,series ENABLED");
    server.stop();
}

#[test]
fn the_scheduler_is_switched_off_and_on() {
    let dir = tempfile::tempdir().expect("folder");
    let mut server = server(dir.path(), &[]);
    let mut c = server.connect();
    let states = "SELECT GROUP_CONCAT(command, ' ', state) FROM information_schema.processlist WHERE user = 'event_scheduler'";
    eventually("it waits", || {
        c.value(states) == "Daemon Waiting on empty queue"
    });
    c.run("CREATE EVENT d.far ON SCHEDULE AT '2037-01-01' DO SET @a = 1");
    eventually("it waits for that", || {
        c.value(states) == "Daemon Waiting for next activation"
    });
    // effect: event_scheduler
    c.run("SET GLOBAL event_scheduler = OFF");
    assert_eq!(c.value(states), "NULL");
    c.run("CREATE EVENT d.e ON SCHEDULE AT NOW() DO INSERT INTO d.t (what) VALUES ('e')");
    assert_eq!(count(&server, ROWS), 0);
    c.run("SET GLOBAL event_scheduler = ON");
    eventually("it has run", || count(&server, ROWS) == 1);
    server.stop();
    server.set_args(&["--event-scheduler=DISABLED"]);
    server.restart();
    let mut c = server.connect();
    assert_eq!(c.value(states), "NULL");
    assert_eq!(c.code("SET GLOBAL event_scheduler = ON"), Some(1290));
    c.run("CREATE EVENT d.never ON SCHEDULE AT NOW() ON COMPLETION PRESERVE DO SET @a = 1");
}

/// A run does not wait for the one before; KILL ends it, and so does the end of the server.
#[test]
fn runs_overlap_and_are_killed() {
    let dir = tempfile::tempdir().expect("folder");
    let mut server = server(dir.path(), &[]);
    let mut c = server.connect();
    c.run("CREATE EVENT d.long ON SCHEDULE EVERY 1 SECOND DO DO SLEEP(1000)");
    let running = "SELECT COUNT(*) FROM information_schema.processlist WHERE command = 'Connect' AND db = 'd' \
                   AND info LIKE 'DO SLEEP%'";
    eventually("two runs overlap", || count(&server, running) >= 2);
    c.run("ALTER EVENT d.long DISABLE");
    eventually("all are killed", || {
        let ids =
            c.lines("SELECT id FROM information_schema.processlist WHERE command = 'Connect'");
        for id in &ids {
            c.code(&format!("KILL {id}"));
        }
        ids.is_empty()
    });
    c.run("ALTER EVENT d.long ENABLE");
    eventually("it runs again", || count(&server, running) >= 1);
    server.stop();
    server.restart();
    assert_eq!(statuses(&server), "long ENABLED");
}

#[test]
fn the_privilege_is_asked_for() {
    let dir = tempfile::tempdir().expect("folder");
    let server = server(dir.path(), &[]);
    let mut root = server.connect();
    root.run(
        "CREATE USER u@localhost, w@localhost; GRANT SELECT ON d.* TO u@localhost;
         CREATE DEFINER = w@localhost EVENT d.e ON SCHEDULE AT '2037-01-01' DO SET @a = 1",
    );
    let connect = || {
        esker_server::client::Client::connect("127.0.0.1", server.port, "u", "", None)
            .expect("login")
    };
    let mut u = connect();
    for sql in [
        "CREATE EVENT d.x ON SCHEDULE AT '2037-01-01' DO SET @a = 1",
        "ALTER EVENT d.e DISABLE",
        "DROP EVENT d.e",
        "DROP EVENT IF EXISTS d.no",
        "SHOW CREATE EVENT d.e",
        "SHOW EVENTS FROM d",
    ] {
        assert_eq!(u.code(sql), Some(1044), "{sql}");
    }
    assert_eq!(
        u.value("SELECT COUNT(*) FROM information_schema.events"),
        "0"
    );
    root.run("GRANT EVENT ON d.* TO u@localhost");
    let mut u = connect();
    assert_eq!(
        u.value("SELECT COUNT(*) FROM information_schema.events"),
        "1"
    );
    let other =
        "CREATE DEFINER = root@localhost EVENT d.x ON SCHEDULE AT '2037-01-01' DO SET @a = 1";
    assert_eq!(u.code(other), Some(1227));
    u.run("ALTER EVENT d.e COMMENT 'mine'");
    let definer = "SELECT definer FROM information_schema.events";
    assert_eq!(u.value(definer), "u@localhost", "who alters it");
    assert_eq!(u.code("ALTER EVENT d.e RENAME TO other.e"), Some(1044));
}

#[test]
fn a_dump_has_the_events() {
    let version = |name: &str| has_client(name, Command::new(name).arg("--version"));
    if !version("mariadb-dump") || !version("mariadb") {
        return;
    }
    let dir = tempfile::tempdir().expect("folder");
    let server = server(&dir.path().join("data"), &[]);
    let mut c = server.connect();
    c.run(
        "SET time_zone = '+05:00';
         CREATE EVENT d.a ON SCHEDULE EVERY '1:30' HOUR_MINUTE STARTS '2036-01-01' COMMENT 'it''s' DO SET @a = 1;
         SET sql_mode = 'ANSI_QUOTES';
         CREATE EVENT d.b ON SCHEDULE AT '2037-01-01' ON COMPLETION PRESERVE DO SET @a = (SELECT \"id\" FROM d.t)",
    );
    let shown = |c: &mut esker_server::client::Client| {
        ["d.a", "d.b"].map(|name| c.lines(&format!("SHOW CREATE EVENT {name}")))
    };
    let before = shown(&mut c);
    let port = server.port.to_string();
    let login = [
        "--no-defaults",
        "--skip-ssl",
        "-h127.0.0.1",
        "-uroot",
        "-P",
        &port,
    ];
    let mut dump = Command::new("mariadb-dump");
    dump.args(login).args(["--events", "--databases", "d"]);
    let file = dir.path().join("dump.sql");
    std::fs::write(&file, output(&mut dump)).expect("a file");
    c.run("DROP DATABASE d");
    let mut load = Command::new("mariadb");
    load.args(login);
    load.stdin(std::fs::File::open(&file).expect("a file"));
    output(&mut load);
    assert_eq!(shown(&mut c), before);
}

/// The process list says what a body is at; what it warns of is logged; nobody kills the scheduler.
#[test]
fn runs_are_seen_and_warnings_are_logged() {
    let dir = tempfile::tempdir().expect("folder");
    let server = server(dir.path(), &[]);
    let mut c = server.connect();
    c.run(
        "CREATE EVENT d.shown ON SCHEDULE EVERY 1 HOUR DO
         BEGIN DECLARE x INT DEFAULT 1000; INSERT INTO d.t (what) VALUES ('begun'); SELECT SLEEP(x); END",
    );
    let running =
        "SELECT info FROM information_schema.processlist WHERE command = 'Connect' AND db = 'd'";
    eventually("the statement is shown", || {
        server.connect().lines(running) == ["SELECT SLEEP(x)"]
    });
    let scheduler = "SELECT id FROM information_schema.processlist WHERE user = 'event_scheduler'";
    let id = c.value(scheduler);
    assert_eq!(c.code(&format!("KILL {id}")), Some(1094));
    assert_eq!(c.code(&format!("KILL QUERY {id}")), Some(1094));
    c.run("CREATE EVENT d.warns ON SCHEDULE AT NOW() DO SIGNAL SQLSTATE '01000' SET MESSAGE_TEXT = 'mind the gap'");
    let log = dir.path().join("log");
    eventually("the warning is logged", || {
        let text = std::fs::read_to_string(&log).unwrap_or_default();
        text.contains("[root@localhost][d.warns] mind the gap")
    });
    assert_eq!(
        c.code("PREPARE s FROM 'CREATE EVENT d.x ON SCHEDULE EVERY ? DAY DO SELECT 1'"),
        Some(6413)
    );
    assert_eq!(
        c.code("PREPARE s FROM 'ALTER EVENT d.shown ON SCHEDULE AT ?'"),
        Some(6413)
    );
    let long = c.value("SELECT id FROM information_schema.processlist WHERE command = 'Connect'");
    c.run(&format!("KILL {long}"));
}
