//! `gtid_slave_pos`: a replica of MariaDB that goes by GTIDs applies everything once, whatever its channels forget, and
//! begins where it is told to.
//!
//! Neighbours: `consumers` starts MariaDB. **Invariant**: tables without keys show what is applied twice.

use std::path::Path;
use std::process::{Command, Stdio};

use esker_server::client::Client;

use super::{change, status};
use crate::common::{Ask, Server, eventually, has_client};
use crate::consumers::Maria;

const ACCOUNT: &str = "CREATE USER repl IDENTIFIED BY 'secret-word'; GRANT REPLICATION SLAVE ON *.* TO repl; \
                       CREATE DATABASE d; CREATE TABLE d.t (v INT)";
const BY_GTID: &str = "MASTER_USE_GTID = slave_pos";
const POSITION: &str = "SELECT @@GLOBAL.gtid_slave_pos";

fn replica(dir: &Path) -> Server {
    let options = [
        "--server-id=2",
        "--collation-server=utf8mb4_general_ci",
        "--replicate-wild-ignore-table=mysql.%",
    ];
    Server::start(&dir.join("replica"), &options)
}

fn rows(c: &mut Client) -> Vec<String> {
    c.lines("SELECT v FROM d.t ORDER BY v")
}

/// The source gets another row; the replica is to have all rows, and to say where it is.
fn follows(source: &mut Client, replica: &Server, row: u32) {
    source.run(&format!("INSERT INTO d.t VALUES ({row})"));
    let expected = rows(source);
    let last = source.value("SELECT @@GLOBAL.gtid_binlog_pos");
    let mut c = replica.connect();
    eventually("the replica has what the source has", || {
        let shown = status(&mut c);
        let (io, sql) = (&shown[35], &shown[37]);
        assert!(io.is_empty() && sql.is_empty(), "{}", shown.join("|"));
        c.code("SELECT 1 FROM d.t").is_none()
            && rows(&mut c) == expected
            && c.value(POSITION) == last
    });
}

/// Where the source is.
fn place_of(source: &mut Client) -> String {
    let shown = source.rows("SHOW MASTER STATUS").concat();
    let shown: Vec<String> = shown.into_iter().flatten().collect();
    let (file, position) = (&shown[0], &shown[1]);
    format!("MASTER_LOG_FILE = '{file}', MASTER_LOG_POS = {position}")
}

#[test]
fn nothing_is_applied_twice_whatever_a_channel_forgets() {
    let dir = tempfile::tempdir().expect("folder");
    let Some(mut maria) = Maria::source(dir.path()) else {
        return;
    };
    let mut source = maria.connect();
    source.run(ACCOUNT);
    let mut replica = replica(dir.path());
    change(&mut replica.connect(), maria.port(), BY_GTID);
    replica.connect().run("START REPLICA");
    follows(&mut source, &replica, 0);
    for (round, forgets) in ["RESET REPLICA", "RESET REPLICA ALL", "CHANGE", "CHANGE"]
        .into_iter()
        .enumerate()
    {
        let row = round as u32 * 10;
        let mut c = replica.connect();
        c.run("STOP REPLICA");
        match forgets {
            "CHANGE" => {
                let place = place_of(&mut source);
                c.run(&format!("CHANGE MASTER TO {place}"));
            }
            _ => c.run(forgets),
        }
        let last = source.value("SELECT @@GLOBAL.gtid_binlog_pos");
        assert_eq!(c.value(POSITION), last, "{forgets}");
        replica.kill();
        replica.restart();
        let mut c = replica.connect();
        assert_eq!(c.value(POSITION), last, "{forgets}");
        if round == 3 {
            // By position for a while.
            c.run("START REPLICA");
            follows(&mut source, &replica, row + 1);
        }
        c.run("STOP REPLICA");
        source.run(&format!("INSERT INTO d.t VALUES ({})", row + 2));
        change(&mut c, maria.port(), BY_GTID);
        c.run("START REPLICA");
        follows(&mut source, &replica, row + 3);
        replica.kill();
        replica.restart();
        follows(&mut source, &replica, row + 4);
        let mut c = replica.connect();
        assert_eq!(
            c.lines("SHOW GLOBAL VARIABLES LIKE 'gtid_slave_pos'"),
            [format!("gtid_slave_pos|{}", c.value(POSITION))]
        );
    }
}

#[test]
fn a_source_by_position_may_begin_its_numbers_anew() {
    let dir = tempfile::tempdir().expect("folder");
    let Some(mut maria) = Maria::source(dir.path()) else {
        return;
    };
    let mut source = maria.connect();
    source.run(ACCOUNT);
    let replica = replica(dir.path());
    let mut c = replica.connect();
    change(&mut c, maria.port(), "SOURCE_LOG_POS = 4");
    c.run("START REPLICA");
    for row in 0..10 {
        follows(&mut source, &replica, row);
    }
    c.run("STOP REPLICA");
    source.run("RESET MASTER; INSERT INTO d.t VALUES (10), (11)");
    c.run("CHANGE MASTER TO MASTER_LOG_FILE = 'binlog.000001', MASTER_LOG_POS = 4; START REPLICA");
    follows(&mut source, &replica, 12);
    // And what was applied last is where it goes on by GTIDs.
    c.run("STOP REPLICA");
    source.run("INSERT INTO d.t VALUES (13)");
    change(&mut c, maria.port(), BY_GTID);
    c.run("START REPLICA");
    follows(&mut source, &replica, 14);
}

#[test]
fn a_replica_of_mariadb_begins_where_a_dump_says() {
    let dir = tempfile::tempdir().expect("folder");
    let mut probe = Command::new("mariadb-dump");
    if !has_client("mariadb-dump", probe.arg("-V")) {
        return;
    }
    let Some(mut maria) = Maria::source(dir.path()) else {
        return;
    };
    let mut source = maria.connect();
    source.run(ACCOUNT);
    source.run("INSERT INTO d.t VALUES (1), (2)");
    let options = ["--no-defaults", "-h127.0.0.1", "-uroot", "--skip-ssl"];
    let replica = replica(dir.path());
    let mut dump = Command::new("mariadb-dump")
        .args(options)
        .arg(format!("-P{}", maria.port()))
        .args(["--gtid", "--master-data=1", "--single-transaction"])
        .args(["--databases", "d"])
        .stdout(Stdio::piped())
        .spawn()
        .expect("mariadb-dump");
    let loaded = Command::new("mariadb")
        .args(options)
        .arg(format!("-P{}", replica.port))
        .stdin(dump.stdout.take().expect("its output"))
        .status();
    assert!(dump.wait().expect("a dump").success() && loaded.expect("mariadb").success());
    // effect: gtid_slave_pos
    let mut c = replica.connect();
    let last = source.value("SELECT @@GLOBAL.gtid_binlog_pos");
    assert_eq!(c.value(POSITION), last);
    source.run("INSERT INTO d.t VALUES (3)");
    change(&mut c, maria.port(), BY_GTID);
    c.run("START REPLICA");
    follows(&mut source, &replica, 4);
    // What is received and not applied is not wanted any more.
    c.run("STOP REPLICA SQL_THREAD");
    source.run("INSERT INTO d.t VALUES (100)");
    let last = source.value("SELECT @@GLOBAL.gtid_binlog_pos");
    let queued =
        "SELECT last_queued_transaction FROM performance_schema.replication_connection_status";
    eventually("it is received", || c.value(queued) == last);
    let set = format!("SET GLOBAL gtid_slave_pos = '{last}'");
    assert_eq!(c.code(&set), Some(3081));
    c.run("STOP REPLICA");
    c.run(&set);
    c.run("START REPLICA");
    source.run("SET sql_log_bin = 0; DELETE FROM d.t WHERE v = 100; SET sql_log_bin = 1");
    follows(&mut source, &replica, 5);
}

#[test]
fn the_position_has_mariadbs_errors() {
    let dir = tempfile::tempdir().expect("folder");
    let mut replica = replica(dir.path());
    let mut c = replica.connect();
    assert_eq!(c.value(POSITION), "");
    for (sql, code) in [
        ("SELECT @@SESSION.gtid_slave_pos", 1238),
        ("SET gtid_slave_pos = '0-1-1'", 1229),
        ("SET GLOBAL gtid_slave_pos = 'x'", 1941),
        ("SET GLOBAL gtid_slave_pos = '0-1-1,'", 1941),
        ("SET GLOBAL gtid_slave_pos = '0-1-1,0-2-5'", 1943),
        ("SET GLOBAL gtid_slave_pos = NULL", 1231),
        ("SET GLOBAL gtid_slave_pos = DEFAULT", 1230),
        ("SET GLOBAL gtid_slave_pos = 5", 1232),
        ("SET PERSIST gtid_slave_pos = '0-1-1'", 1238),
        ("SET PERSIST_ONLY gtid_purged = ''", 1238),
    ] {
        assert_eq!(c.code(sql), Some(code), "{sql}");
    }
    c.run("SET GLOBAL gtid_slave_pos = '1-2-7, 0-1-100'");
    assert_eq!(c.value("SELECT @@gtid_slave_pos"), "0-1-100,1-2-7");
    c.run("CREATE DATABASE d; CREATE TABLE d.t (v INT); BEGIN; INSERT INTO d.t VALUES (1)");
    assert_eq!(c.code("SET GLOBAL gtid_slave_pos = ''"), Some(1766));
    c.run("ROLLBACK");
    replica.kill();
    replica.restart();
    let mut c = replica.connect();
    assert_eq!(c.value(POSITION), "0-1-100,1-2-7");
    c.run("CREATE USER nobody");
    let mut nobody = Client::connect("127.0.0.1", replica.port, "nobody", "", None).expect("login");
    assert_eq!(nobody.code("SET GLOBAL gtid_slave_pos = ''"), Some(1227));
    c.run("SET GLOBAL gtid_slave_pos = ''");
    assert_eq!(c.value(POSITION), "");
}
