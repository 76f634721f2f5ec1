//! The binary log of a real server: after kill -9 it has exactly what the tables have, tools read it, statements
//! show it.
//!
//! `ESKER_BINLOG_ROUNDS` (default 6): how often the server is killed; `ESKER_BINLOG_SEED` (default 1).

mod kept;
mod shown;

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use esker_binlog::event::group::{GtidEvent, XaPrepare};
use esker_binlog::event::query::Query;
use esker_binlog::event::rows::{Image, RowChange, Rows};
use esker_binlog::event::table_map::TableMap;
use esker_binlog::event::{Checksum, Event, EventType, payload};
use esker_binlog::files::Scan;
use esker_binlog::gtid::GtidSet;
use esker_server::client::Client;
use esker_types::Value;
use esker_vfs::OsFs;

use crate::common::{Ask, Dice, Server, output, setting};

pub const ARGS: [&str; 4] = [
    "--log-bin=ON",
    "--gtid-mode=ON",
    "--max-binlog-size=65536",
    "--binlog-row-metadata=FULL",
];
/// The same files, but they decide about transactions.
const TWO_PHASE: &str = "--esker-binlog-commit=TWO-PHASE";
const CLIENTS: u64 = 4;
const ROWS: u64 = 40;

type Rows2 = BTreeMap<Vec<String>, usize>;

/// What the files say, applied to nothing.
#[derive(Default)]
struct Replayed {
    tables: BTreeMap<String, Rows2>,
    prepared: HashMap<String, Vec<(String, RowChange)>>,
    maps: HashMap<u64, TableMap>,
    open: Vec<(String, RowChange)>,
    executed: GtidSet,
    groups: usize,
}

/// Every event of the files that the index lists.
pub fn for_each_event(dir: &Path, mut on_event: impl FnMut(&Event<'_>)) {
    let folder = dir.join("data/binlog");
    let index = std::fs::read_to_string(folder.join("binlog.index")).expect("index");
    for name in index.lines() {
        let path = folder.join(name.trim_start_matches("./"));
        let mut scan = Scan::open(&OsFs::new(), &path, None).expect("opens");
        while let Some((_, event)) = scan.next_event().expect("sound") {
            on_event(&event);
        }
    }
}

impl Replayed {
    /// Reads every file that the index lists.
    fn of(dir: &Path) -> Self {
        let mut replayed = Self::default();
        for_each_event(dir, |event| replayed.event(event));
        replayed
    }

    fn event(&mut self, event: &Event<'_>) {
        let kind = event.header.event_type().expect("known");
        match kind {
            EventType::Gtid => {
                let group = GtidEvent::parse(kind, event.body).expect("GTID");
                let gtid = group.gtid.expect("a number");
                assert!(!self.executed.contains(&gtid), "{gtid} is there twice");
                self.executed.add(&gtid);
                self.groups += 1;
                self.open.clear();
            }
            EventType::TableMap => {
                let map = TableMap::parse(event.body).expect("map");
                self.maps.insert(map.table_id, map);
            }
            EventType::WriteRows | EventType::UpdateRows | EventType::DeleteRows => {
                let rows = Rows::parse(kind, event.body).expect("rows");
                let map = &self.maps[&rows.table_id];
                let table = format!("{}.{}", map.schema, map.table);
                let changes = rows.rows(map).expect("images");
                self.open
                    .extend(changes.into_iter().map(|change| (table.clone(), change)));
            }
            EventType::Xid => {
                for (table, change) in std::mem::take(&mut self.open) {
                    self.apply(table, change);
                }
            }
            EventType::XaPrepare => {
                let xid = XaPrepare::parse(event.body).expect("XA").to_string();
                let work = std::mem::take(&mut self.open);
                assert!(self.prepared.insert(xid, work).is_none());
            }
            EventType::Query => {
                let query = Query::parse(event.body).expect("query");
                self.statement(&String::from_utf8_lossy(query.text));
            }
            EventType::TransactionPayload => {
                let inner = payload::parse(event.body).expect("payload");
                let mut at = 0;
                while at < inner.len() {
                    let event = Event::parse(&inner[at..], Checksum::None).expect("sound");
                    at += event.header.length as usize;
                    self.event(&event);
                }
            }
            _ => {}
        }
    }

    fn statement(&mut self, text: &str) {
        if let Some(xid) = text.strip_prefix("XA COMMIT ") {
            for (table, change) in self.prepared.remove(xid).expect("was prepared") {
                self.apply(table, change);
            }
        } else if let Some(xid) = text.strip_prefix("XA ROLLBACK ") {
            self.prepared.remove(xid).expect("was prepared");
        } else if let Some(table) = text.strip_prefix("TRUNCATE TABLE ") {
            self.tables.remove(table);
        }
    }

    fn apply(&mut self, table: String, change: RowChange) {
        let rows = self.tables.entry(table).or_default();
        let (gone, new) = match change {
            RowChange::Insert(row) => (None, Some(row)),
            RowChange::Delete(row) => (Some(row), None),
            RowChange::Update(old, new, _) => (Some(old), Some(new)),
        };
        if let Some(row) = gone {
            let row = shown(&row);
            let count = rows.get_mut(&row).expect("the row is there");
            *count -= 1;
            if *count == 0 {
                rows.remove(&row);
            }
        }
        if let Some(row) = new {
            *rows.entry(shown(&row)).or_default() += 1;
        }
    }

    /// The same rows as the server's tables have?
    fn assert_is(&self, c: &mut Client, tables: &[&str]) {
        for table in tables {
            let mut rows = Rows2::new();
            for row in c.rows(&format!("SELECT * FROM {table}")) {
                let row = row.into_iter().map(|v| v.unwrap_or("NULL".to_owned()));
                *rows.entry(row.collect()).or_default() += 1;
            }
            let none = Rows2::new();
            assert_eq!(self.tables.get(*table).unwrap_or(&none), &rows, "{table}");
        }
    }
}

fn shown(row: &Image) -> Vec<String> {
    let value = |v: &Option<Value>| match v.as_ref().expect("full images") {
        Value::Null => "NULL".to_owned(),
        Value::Int(v) => v.to_string(),
        Value::UInt(v) => v.to_string(),
        Value::Str(v) => String::from_utf8_lossy(v).into_owned(),
        other => format!("{other:?}"),
    };
    row.iter().map(value).collect()
}

fn quietly(c: &mut Client, sql: &str) -> bool {
    c.query(sql, &mut |_| ()).is_ok()
}

/// Changes rows until the server is gone.
fn work(server: &Server, client: u64, round: u64, seed: u64) {
    let Ok(mut c) = server.try_connect() else {
        return;
    };
    let mut dice = Dice::new(seed ^ (client + 1) << 20 ^ (round + 1) << 4);
    for n in 0u64.. {
        let (id, other) = (dice.roll(ROWS), dice.roll(ROWS));
        let change = match dice.roll(5) {
            0 => format!("REPLACE INTO d.keyed VALUES ({id}, {n}, 'r{n}')"),
            1 => format!("DELETE FROM d.keyed WHERE id = {id}"),
            2 => format!("UPDATE d.keyed SET n = n + 1 WHERE id IN ({id}, {other})"),
            3 => format!("INSERT INTO d.plain VALUES ({id}, 'v{}')", dice.roll(3)),
            _ => format!("DELETE FROM d.plain WHERE a = {id} LIMIT 1"),
        };
        let insert = format!("INSERT INTO d.plain VALUES ({other}, NULL)");
        let xid = format!("{round}-{client}-{n}");
        let steps: Vec<String> = match dice.roll(6) {
            0 | 1 => vec![change],
            2 => vec!["BEGIN".into(), change, insert, "COMMIT".into()],
            3 => vec!["BEGIN".into(), insert, change, "ROLLBACK".into()],
            4 => vec![
                "BEGIN".into(),
                insert.clone(),
                "SAVEPOINT s".into(),
                change,
                "ROLLBACK TO s".into(),
                "COMMIT".into(),
            ],
            _ => vec![
                format!("XA START '{xid}'"),
                insert,
                format!("XA END '{xid}'"),
                format!("XA PREPARE '{xid}'"),
                match n % 2 {
                    0 => format!("XA COMMIT '{xid}'"),
                    _ => format!("XA ROLLBACK '{xid}'"),
                },
            ],
        };
        for step in &steps {
            if !quietly(&mut c, step) && server.try_connect().is_err() {
                return;
            }
        }
        quietly(&mut c, "ROLLBACK");
    }
}

/// Inserts rows one by one until the server is gone. How many it has acknowledged.
fn tell(server: &Server, round: u64) -> u64 {
    let Ok(mut c) = server.try_connect() else {
        return 0;
    };
    (0..)
        .take_while(|n| quietly(&mut c, &format!("INSERT INTO d.told VALUES ({round}, {n})")))
        .count() as u64
}

#[test]
fn the_files_have_what_the_tables_have_after_kill_9() {
    kill_9(&[&ARGS]);
}

#[test]
fn files_that_decide_have_what_the_tables_have_after_kill_9() {
    let per_group = [&ARGS[..], &[TWO_PHASE]].concat();
    let per_transaction = [&per_group[..], &["--esker-binlog-harden=PER-TRANSACTION"]].concat();
    kill_9(&[&per_group, &per_transaction]);
}

#[test]
fn a_crash_may_come_between_one_way_to_commit_and_the_other() {
    let two_phase = [&ARGS[..], &[TWO_PHASE]].concat();
    kill_9(&[&ARGS, &two_phase]);
}

/// Kills the server again and again; it is started with one of these after the other.
fn kill_9(starts: &[&[&str]]) {
    let dir = tempfile::tempdir().expect("dir");
    let mut server = Server::start(dir.path(), starts[0]);
    let mut c = server.connect();
    c.run("CREATE DATABASE d");
    c.run("CREATE TABLE d.keyed (id INT PRIMARY KEY, n INT, v VARCHAR(20), UNIQUE (n, id))");
    c.run("CREATE TABLE d.plain (a INT, b VARCHAR(300))");
    c.run("CREATE TABLE d.told (round INT, n INT, PRIMARY KEY (round, n))");
    let seed = setting("ESKER_BINLOG_SEED", 1);
    let mut dice = Dice::new(seed);
    let mut groups = 0;
    let rounds = setting("ESKER_BINLOG_ROUNDS", 6);
    let mut round = 0;
    // More of them where the machine is too busy to get much done in their time.
    while round < rounds || (groups <= 20 && round < 10 * rounds) {
        round += 1;
        let life = Duration::from_millis(50 + dice.roll(250));
        let told = std::thread::scope(|scope| {
            for client in 0..CLIENTS {
                let server = &server;
                scope.spawn(move || work(server, client, round, seed));
            }
            let told = scope.spawn(|| tell(&server, round));
            std::thread::sleep(life);
            server.kill_from_outside();
            told.join().expect("counts")
        });
        server.kill();
        server.set_args(starts[round as usize % starts.len()]);
        server.restart();
        c = server.connect();
        let kept = c.value(&format!(
            "SELECT COUNT(*) FROM d.told WHERE round = {round}"
        ));
        assert!(
            kept.parse::<u64>().expect("a number") >= told,
            "{kept} of {told}"
        );
        let shown = c.rows("SHOW BINARY LOG STATUS");
        let replayed = Replayed::of(dir.path());
        replayed.assert_is(&mut c, &["d.keyed", "d.plain", "d.told"]);
        let executed = replayed.executed.to_string();
        assert_eq!(shown[0][4].as_deref(), Some(&*executed));
        assert_eq!(replayed.executed.count(), replayed.groups as u64);
        assert!(
            executed.ends_with(&format!(":1-{}", replayed.groups)),
            "{executed}"
        );
        assert_eq!(c.value("SELECT @@GLOBAL.gtid_executed"), executed);
        let undecided = c.rows("XA RECOVER").len();
        assert_eq!(replayed.prepared.len(), undecided);
        groups = replayed.groups;
    }
    assert!(groups > 20, "only {groups} transactions");
    read_with_tools(dir.path(), groups);
}

/// The tools of MariaDB and MySQL read the files without complaint, if they are there.
fn read_with_tools(dir: &Path, groups: usize) {
    let folder = dir.join("data/binlog");
    let index = std::fs::read_to_string(folder.join("binlog.index")).expect("index");
    let files = index.lines().map(|name| folder.join(name));
    let files: Vec<_> = files.collect();
    for program in ["mariadb-binlog", "mysqlbinlog"] {
        if Command::new(program).arg("--version").output().is_err() {
            continue;
        }
        let text = output(Command::new(program).arg("-v").args(&files));
        let ends = text.matches("COMMIT/*!*/").count()
            + text.matches("\nXA PREPARE").count()
            + text.matches("\nXA COMMIT").count()
            + text.matches("\nXA ROLLBACK").count()
            + text.matches("\nCREATE ").count();
        assert!(ends >= groups, "{program}: {ends} of {groups}");
    }
}

#[test]
fn statements_show_and_manage_the_files() {
    show_and_manage(&ARGS);
}

#[test]
fn statements_show_and_manage_files_that_decide() {
    show_and_manage(&[&ARGS[..], &[TWO_PHASE]].concat());
}

fn show_and_manage(args: &[&str]) {
    let dir = tempfile::tempdir().expect("dir");
    let mut server = Server::start(dir.path(), args);
    let mut c = server.connect();
    c.run("CREATE DATABASE d; USE d");
    c.run("CREATE TABLE t (id INT PRIMARY KEY, v TEXT)");
    c.run("INSERT INTO t VALUES (1, 'one')");
    c.run("UPDATE t SET v = 'eins'");
    c.run("ALTER TABLE t ADD INDEX (id), WAIT 3");
    c.run("CREATE USER u IDENTIFIED BY 'very secret'; SET PASSWORD FOR u = 'also secret'");
    c.run("CREATE TEMPORARY TABLE own (a INT); INSERT INTO own VALUES (1)");
    c.run("SET sql_log_bin = 0; INSERT INTO t VALUES (2, 'hidden'); SET sql_log_bin = 1");
    assert_numbered(&mut c);
    assert_shown(&mut server.connect(), &mut c);
    let purged = purge(&server, dir.path(), &mut c);
    // effect: max_binlog_size
    c.run("SET GLOBAL max_binlog_size = 4096");
    c.run("SET SESSION binlog_transaction_compression = ON, foreign_key_checks = OFF");
    c.run("INSERT INTO t VALUES (4, REPEAT('x', 20000))");
    c.run("SET SESSION foreign_key_checks = ON");
    crate::binlog_statements::assert_packed(&c.rows("SHOW BINLOG EVENTS IN 'binlog.000003'"));

    // A clean stop ends the last file, and the next start begins one.
    let files = c.rows("SHOW BINARY LOGS").len();
    server.stop();
    server.restart();
    c = server.connect();
    assert_eq!(c.rows("SHOW BINARY LOGS").len(), files + 1);
    assert_eq!(c.value("SELECT @@GLOBAL.gtid_purged"), purged);
    assert_server_ids(&mut c);
    begin_again(&mut c);
    server.stop();

    // Without binary log nothing is shown that could mislead.
    server.set_args(&[]);
    server.restart();
    c = server.connect();
    assert_eq!(c.code("SHOW BINARY LOGS"), Some(1381));
    assert!(c.rows("SHOW BINARY LOG STATUS").is_empty());
    assert_eq!(c.value("SELECT @@log_bin"), "0");
    // Nothing is there that it could take away.
    c.run("RESET REPLICA, BINARY LOGS AND GTIDS");
}

/// The number of the transaction stands behind what changes definitions and accounts, as in MySQL.
fn assert_numbered(c: &mut Client) {
    let infos = c.lines("SHOW BINLOG EVENTS").join("\n");
    assert!(infos.contains("use `d`; CREATE TABLE t (id INT PRIMARY KEY, v TEXT)"));
    assert!(infos.contains("ALTER TABLE t ADD INDEX (id)") && !infos.contains("WAIT"));
    for (text, has_number) in [
        ("CREATE DATABASE d", true),
        ("CREATE TABLE t (", true),
        ("ALTER TABLE t ADD INDEX", true),
        ("CREATE USER 'u'", true),
        ("BEGIN", false),
    ] {
        let mut of_text = infos.lines().filter(|line| line.contains(text));
        let event = of_text.next().expect(text);
        assert_eq!(event.contains(" /* xid="), has_number, "{event}");
    }
    assert!(infos.contains("CREATE DATABASE d /* xid=1 */"), "{infos}");
}

/// Events have no secrets and nothing of temporary tables; `quiet` is a session that has done nothing before.
fn assert_shown(quiet: &mut Client, c: &mut Client) {
    quiet.run("CREATE DATABASE IF NOT EXISTS d; FLUSH TABLES");
    let events = quiet.lines("SHOW BINLOG EVENTS");
    let infos = events.join("\n");
    assert!(infos.ends_with("|FLUSH TABLES"), "{infos}");
    assert!(infos.contains("CREATE USER 'u'@'%' IDENTIFIED WITH 'caching_sha2_password' AS '$A$"));
    assert!(infos.contains("ALTER USER 'u'@'%' IDENTIFIED WITH 'caching_sha2_password' AS '$A$"));
    assert!(
        !infos.contains("secret") && !infos.contains("TEMPORARY"),
        "{infos}"
    );
    assert_eq!(infos.matches("Write_rows").count(), 1);
    assert_eq!(infos.matches("Update_rows").count(), 1);
    // Positions lead from one event to the next.
    let field = |nth: usize| {
        let of = move |event: &String| event.split('|').nth(nth).expect("a field").to_owned();
        events.iter().map(of).collect::<Vec<_>>()
    };
    let (starts, ends) = (field(1), field(4));
    assert_eq!(starts[1..], ends[..ends.len() - 1]);
    let last = &ends[ends.len() - 1];
    assert_eq!(
        c.lines("SHOW BINARY LOGS"),
        [format!("binlog.000001|{last}|No")]
    );
    assert_eq!(c.code("SHOW BINLOG EVENTS IN 'binlog.000009'"), Some(1220));
}

/// Removes the first file; the transactions that are gone with it.
fn purge(server: &Server, dir: &Path, c: &mut Client) -> String {
    c.run("FLUSH BINARY LOGS; INSERT INTO t VALUES (3, NULL); FLUSH LOGS");
    assert_eq!(c.rows("SHOW BINARY LOGS").len(), 3);
    let executed = c.value("SELECT @@GLOBAL.gtid_executed");
    assert_eq!(c.code("PURGE BINARY LOGS TO 'binlog.000007'"), Some(1373));
    let mut backup = server.connect();
    backup.run("LOCK INSTANCE FOR BACKUP");
    for purge in [
        "PURGE BINARY LOGS TO 'binlog.000002'",
        "PURGE BINARY LOGS BEFORE NOW()",
    ] {
        assert_eq!(
            (c.code(purge), backup.code(purge)),
            (Some(4085), Some(4085))
        );
    }
    backup.run("UNLOCK INSTANCE");
    c.run("PURGE BINARY LOGS TO 'binlog.000002'");
    assert!(!dir.join("data/binlog/binlog.000001").exists());
    let purged = c.value("SELECT @@GLOBAL.gtid_purged");
    assert!(!purged.is_empty() && purged != executed);
    purged
}

/// Events are those of the server by its number of now.
fn assert_server_ids(c: &mut Client) {
    for id in ["7", "1"] {
        c.run(&format!(
            "SET GLOBAL server_id = {id}; CREATE DATABASE x{id}"
        ));
        let file = c.lines("SHOW BINARY LOGS").pop().expect("file");
        let (file, _) = file.split_once('|').expect("name");
        let events = c.lines(&format!("SHOW BINLOG EVENTS IN '{file}'"));
        let mut numbers = events.iter().map(|event| event.split('|').nth(3));
        assert!(
            events.len() > 2 && numbers.all(|n| n == Some(id)),
            "{events:?}"
        );
    }
}

fn begin_again(c: &mut Client) {
    c.run("PURGE BINARY LOGS BEFORE NOW() + INTERVAL 1 DAY");
    assert_eq!(c.rows("SHOW BINARY LOGS").len(), 1);
    c.run("RESET BINARY LOGS AND GTIDS");
    assert_eq!(
        c.lines("SHOW BINARY LOGS")[0].split('|').next(),
        Some("binlog.000001")
    );
    assert_eq!(c.value("SELECT @@GLOBAL.gtid_executed"), "");
    c.run("INSERT INTO d.t VALUES (5, 'first')");
    assert!(c.value("SELECT @@GLOBAL.gtid_executed").ends_with(":1"));
}

/// The columns that an image has, by the names given.
fn present(names: &[&str], image: &Image) -> String {
    let has = names.iter().zip(image).filter(|(_, value)| value.is_some());
    has.map(|(name, _)| *name).collect::<Vec<_>>().join(" ")
}

/// Compared with MySQL 9.7, image by image.
#[test]
fn images_have_the_columns_that_binlog_row_image_asks_for() {
    let dir = tempfile::tempdir().expect("dir");
    let mut server = Server::start(dir.path(), &["--log-bin=ON"]);
    let mut c = server.connect();
    c.run("CREATE DATABASE d; USE d");
    c.run("CREATE TABLE t (id INT PRIMARY KEY, n INT, s VARCHAR(9), b TEXT, j JSON)");
    c.run("INSERT INTO t VALUES (1, 1, 's', 'b', '[1]'), (2, 2, 's', 'b', '[2]')");
    c.run("SET binlog_row_image = NOBLOB; UPDATE t SET n = 3 WHERE id = 1");
    c.run("UPDATE t SET b = 'c' WHERE id = 1; DELETE FROM t WHERE id = 1");
    c.run("SET binlog_row_image = MINIMAL; UPDATE t SET j = '[3]' WHERE id = 2; DELETE FROM t");
    server.stop();
    let mut maps = HashMap::new();
    let mut images = Vec::new();
    let names = ["id", "n", "s", "b", "j"];
    for_each_event(dir.path(), |event| {
        let kind = event.header.event_type().expect("known");
        match kind {
            EventType::TableMap => {
                let map = TableMap::parse(event.body).expect("map");
                maps.insert(map.table_id, map);
            }
            EventType::UpdateRows | EventType::DeleteRows => {
                let rows = Rows::parse(kind, event.body).expect("rows");
                for change in rows.rows(&maps[&rows.table_id]).expect("images") {
                    images.push(match change {
                        RowChange::Update(old, new, _) => {
                            format!("{} -> {}", present(&names, &old), present(&names, &new))
                        }
                        RowChange::Insert(row) | RowChange::Delete(row) => present(&names, &row),
                    });
                }
            }
            _ => {}
        }
    });
    let expected = [
        "id n s j -> id n s j",
        "id n s j -> id n s b j",
        "id n s j",
        "id -> j",
        "id",
    ];
    assert_eq!(images, expected);
}

#[test]
fn a_query_fills_a_table_in_one_group() {
    fill(&ARGS);
}

#[test]
fn a_query_fills_a_table_in_one_group_of_files_that_decide() {
    fill(&[&ARGS[..], &[TWO_PHASE]].concat());
}

fn fill(args: &[&str]) {
    let dir = tempfile::tempdir().expect("dir");
    let server = Server::start(dir.path(), args);
    let mut c = server.connect();
    c.run(
        "CREATE DATABASE d; CREATE TABLE d.a (id INT PRIMARY KEY); INSERT INTO d.a VALUES (1), (2)",
    );
    c.run("SET SESSION binlog_rows_query_log_events = ON");
    let before = c.value("SELECT @@GLOBAL.gtid_executed");
    c.run("CREATE TABLE d.b AS SELECT id, id * 2 AS n FROM d.a");
    let own =
        format!("SELECT GTID_SUBTRACT(@@GLOBAL.gtid_executed, '{before}') NOT LIKE '%-%-%-%-%-%'");
    assert_eq!(c.value(&own), "1", "one transaction");
    let kinds: Vec<String> = c
        .rows("SHOW BINLOG EVENTS")
        .into_iter()
        .map(|row| row[2].clone().expect("type"))
        .collect();
    let group = [
        "Gtid",
        "Query",
        "Query",
        "Rows_query",
        "Table_map",
        "Write_rows",
        "Xid",
    ];
    assert_eq!(kinds[kinds.len() - group.len()..], group);
    c.run("CREATE TABLE d.none AS SELECT * FROM d.a WHERE id > 9");
    c.run("INSERT INTO d.b VALUES (7, 8)");
    let infos = c.lines("SHOW BINLOG EVENTS").join("\n");
    let created = infos.lines().find(|line| line.contains("CREATE TABLE `b`"));
    assert!(
        created.expect("the statement").contains("use `d`; "),
        "{infos}"
    );
    assert_eq!(infos.matches(" START TRANSACTION").count(), 2, "{infos}");
    assert!(infos.contains("# INSERT INTO d.b VALUES (7, 8)"), "{infos}");
    let replayed = Replayed::of(dir.path());
    replayed.assert_is(&mut c, &["d.a", "d.b"]);
}

#[test]
fn transactions_larger_than_their_cache_stay_whole() {
    large(&[]);
}

#[test]
fn large_transactions_stay_whole_in_files_that_decide() {
    large(&[TWO_PHASE]);
}

/// Transactions larger than their cache.
fn large(more: &[&str]) {
    const BIG: &str = "INSERT INTO d.big SELECT NULL, REPEAT(n, 40) FROM d.n";
    let dir = tempfile::tempdir().expect("dir");
    // effect: binlog_cache_size
    let args = [&ARGS[..], &["--binlog-cache-size=4096"], more].concat();
    let mut server = Server::start(dir.path(), &args);
    let mut c = server.connect();
    c.run("CREATE DATABASE d; CREATE TABLE d.n (n INT PRIMARY KEY)");
    let numbers: Vec<String> = (1000..1500).map(|n| format!("({n})")).collect();
    c.run(&format!("INSERT INTO d.n VALUES {}", numbers.join(",")));
    c.run("CREATE TABLE d.big (id INT AUTO_INCREMENT PRIMARY KEY, v VARCHAR(300))");
    c.run(&format!("BEGIN; {BIG}; SAVEPOINT s; {BIG}; ROLLBACK TO s"));
    c.run("UPDATE d.big SET v = 'changed' WHERE id < 9; COMMIT");
    c.run(&format!("BEGIN; {BIG}; ROLLBACK"));
    c.run(&format!(
        "BEGIN; INSERT INTO d.n VALUES (1); SAVEPOINT s; {BIG}"
    ));
    c.run("ROLLBACK TO s; COMMIT");
    c.run(&format!("XA START 'x'; {BIG}; XA END 'x'"));
    c.run("XA PREPARE 'x'; XA COMMIT 'x'");
    c.run("CREATE TABLE d.copy AS SELECT * FROM d.big");
    let used = "SHOW GLOBAL STATUS LIKE 'Binlog_cache_disk_use'";
    assert_eq!(c.lines(used), ["Binlog_cache_disk_use|5"]);
    // What is too large ends the statement, not the transaction.
    // effect: max_binlog_cache_size
    c.run("SET GLOBAL max_binlog_cache_size = 8192; BEGIN; INSERT INTO d.n VALUES (2)");
    assert_eq!(c.code(BIG), Some(1197));
    c.run("INSERT INTO d.n VALUES (3); COMMIT");
    assert_eq!(c.value("SELECT COUNT(*) FROM d.big"), "1001");
    c.run("FLUSH BINARY LOGS");
    let spool = dir.path().join("data/binlog/spool");
    assert_eq!(std::fs::read_dir(&spool).expect("spool").count(), 0);
    // A crash right behind the commit: what the log describes is still there.
    c.run(&format!(
        "SET GLOBAL max_binlog_cache_size = 1 << 40; {BIG}"
    ));
    server.kill();
    server.restart();
    c = server.connect();
    c.run("FLUSH BINARY LOGS");
    let replayed = Replayed::of(dir.path());
    replayed.assert_is(&mut c, &["d.n", "d.big", "d.copy"]);
    assert_eq!(c.value("SELECT COUNT(*) FROM d.big"), "1504");
    assert_eq!(std::fs::read_dir(&spool).expect("spool").count(), 0);
    read_with_tools(dir.path(), replayed.groups);
}

#[test]
fn transactions_larger_than_memory_are_whole_in_files_that_decide() {
    const MORE: &str = "INSERT INTO d.big (v) SELECT LEFT(CONCAT(v, v), 600) FROM d.big LIMIT 1000";
    let dir = tempfile::tempdir().expect("dir");
    let small = "--esker-transaction-memory=65536";
    let args = [&ARGS[..], &[TWO_PHASE, small]].concat();
    let mut server = Server::start(dir.path(), &args);
    let mut c = server.connect();
    c.run("CREATE DATABASE d; CREATE TABLE d.big (id INT AUTO_INCREMENT PRIMARY KEY, v VARCHAR(600), KEY (v))");
    c.run("INSERT INTO d.big (v) VALUES (REPEAT('a', 100)), (REPEAT('b', 110))");
    for _ in 0..4 {
        c.run("INSERT INTO d.big (v) SELECT v FROM d.big");
    }
    c.run(&format!(
        "BEGIN; {MORE}; {MORE}; {MORE}; {MORE}; {MORE}; ROLLBACK"
    ));
    c.run(&format!(
        "BEGIN; {MORE}; {MORE}; SAVEPOINT s; {MORE}; ROLLBACK TO s; {MORE}"
    ));
    c.run(&format!(
        "UPDATE d.big SET v = 'small' WHERE id % 3 = 0; {MORE}; {MORE}; COMMIT"
    ));
    let replayed = Replayed::of(dir.path());
    replayed.assert_is(&mut c, &["d.big"]);
    // One more, and the power switch.
    c.run(&format!(
        "DELETE FROM d.big WHERE id % 5 = 0; {MORE}; {MORE}"
    ));
    let sum = "SELECT COUNT(*), SUM(CRC32(v)) FROM d.big";
    let before = c.lines(sum);
    server.kill();
    server.restart();
    c = server.connect();
    assert_eq!(c.lines(sum), before);
    assert_eq!(
        c.lines(&format!("{sum} FORCE INDEX (v) WHERE v >= ''")),
        before
    );
    let replayed = Replayed::of(dir.path());
    replayed.assert_is(&mut c, &["d.big"]);
}

/// The texts of the statements in all files.
pub fn statements(c: &mut Client) -> Vec<String> {
    let files = c.rows("SHOW BINARY LOGS");
    let mut texts = Vec::new();
    for file in files {
        let name = file[0].as_deref().expect("name");
        for event in c.rows(&format!("SHOW BINLOG EVENTS IN '{name}'")) {
            if event[2].as_deref() == Some("Query") {
                texts.push(event[5].clone().expect("info"));
            }
        }
    }
    texts
}

#[test]
fn a_branch_that_one_way_has_prepared_is_decided_in_the_other() {
    // effect: esker_binlog_commit
    let dir = tempfile::tempdir().expect("dir");
    let args = [&ARGS[..], &[TWO_PHASE]].concat();
    let mut server = Server::start(dir.path(), &ARGS);
    let mut c = server.connect();
    assert_eq!(c.value("SELECT @@esker_binlog_commit"), "ONE-SYNC");
    c.run("CREATE DATABASE test; CREATE TABLE test.t (a INT PRIMARY KEY)");
    c.run("XA START 'x'; INSERT INTO test.t VALUES (1); XA END 'x'; XA PREPARE 'x'");
    server.stop();
    server.set_args(&args);
    server.restart();
    c = server.connect();
    assert_eq!(c.value("SELECT @@esker_binlog_commit"), "TWO-PHASE");
    assert_eq!(
        c.code("SET GLOBAL esker_binlog_commit = 'ONE-SYNC'"),
        Some(1238)
    );
    c.run("XA COMMIT 'x'; XA START 'y'; UPDATE test.t SET a = 10; XA END 'y'; XA PREPARE 'y'");
    server.kill();
    server.set_args(&ARGS);
    server.restart();
    c = server.connect();
    assert_eq!(c.lines("XA RECOVER"), ["1|1|0|y"]);
    c.run("SET innodb_lock_wait_timeout = 1");
    assert_eq!(
        c.code("DELETE FROM test.t"),
        Some(1205),
        "it keeps its locks"
    );
    c.run("XA COMMIT 'y'; XA START 'z'; DELETE FROM test.t; XA END 'z'; XA PREPARE 'z'");
    server.stop();
    server.set_args(&args);
    server.restart();
    c = server.connect();
    c.run("XA ROLLBACK 'z'; UPDATE test.t SET a = 1 WHERE a = 10");
    let texts = statements(&mut c);
    let decisions: Vec<_> = texts.iter().filter(|text| text.contains("XA ")).collect();
    let branch = |x: &str| ["START", "END", "COMMIT"].map(|verb| format!("XA {verb} X'{x}',X'',1"));
    let mut expected = [branch("78"), branch("79"), branch("7a")].concat();
    expected[8] = "XA ROLLBACK X'7a',X'',1".to_owned();
    assert_eq!(decisions, expected.iter().collect::<Vec<_>>());
    c.run("SET GLOBAL binlog_group_commit_sync_delay = 100");
    assert!(c.rows("SHOW WARNINGS").is_empty());
    c.run("SET GLOBAL binlog_group_commit_sync_no_delay_count = 1; FLUSH BINARY LOGS");
    let last = c
        .rows("SHOW BINARY LOGS")
        .pop()
        .and_then(|row| row[0].clone());
    let last = last.expect("a file");
    // What it depends on is in the files: nothing is behind, and nothing keeps the log.
    c.run("SET GLOBAL sync_binlog = 3; INSERT INTO test.t VALUES (2); SET sql_log_bin = OFF");
    c.run("INSERT INTO test.t VALUES (3); SET sql_log_bin = ON; SET autocommit = OFF");
    c.run("INSERT INTO test.t VALUES (4); BEGIN; INSERT INTO test.t VALUES (5); COMMIT");
    let infos = c
        .lines(&format!("SHOW BINLOG EVENTS IN '{last}'"))
        .join("\n");
    assert_eq!(infos.matches("Write_rows").count(), 3, "{infos}");
    let lag = "SHOW GLOBAL STATUS LIKE 'Esker_binlog_lag_bytes'";
    assert_eq!(c.lines(lag), ["Esker_binlog_lag_bytes|0"]);
    server.kill();
    server.restart();
    c = server.connect();
    assert_eq!(c.value("SELECT COUNT(*) FROM test.t"), "5");
}
