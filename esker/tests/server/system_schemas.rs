//! `mysql`, `performance_schema`, `sys` and `information_schema` as tools read them.
//!
//! Neighbours: `inspect` has the tables that only Esker has, `privileges` what accounts may do.
//! **Invariant**: what is compared here is what MySQL 8.4 answers, but for ids, times and sizes.

use esker_server::client::Client;

use crate::common::{Ask, Server, eventually};

const SCHEMAS: [&str; 4] = ["information_schema", "mysql", "performance_schema", "sys"];

fn server() -> (Server, tempfile::TempDir) {
    let dir = tempfile::tempdir().expect("folder");
    let server = Server::start(dir.path(), &["--skip-ssl"]);
    server.connect().run(
        "CREATE DATABASE d; CREATE TABLE d.t (id INT PRIMARY KEY, v INT, KEY v (v));
         INSERT INTO d.t VALUES (1,1),(2,2);
         CREATE USER app IDENTIFIED BY 'x' PASSWORD EXPIRE NEVER; GRANT SELECT ON d.* TO app;
         GRANT INSERT, UPDATE (v) ON d.t TO app; CREATE ROLE r; GRANT r TO app; SET DEFAULT ROLE r TO app",
    );
    (server, dir)
}

#[test]
fn every_table_is_there_to_be_read_and_described() {
    let (server, _dir) = server();
    let mut c = server.connect();
    for schema in SCHEMAS {
        c.run(&format!("USE {schema}"));
        let tables = c.lines(&format!(
            "SELECT TABLE_NAME FROM information_schema.TABLES WHERE TABLE_SCHEMA = '{schema}' ORDER BY 1"
        ));
        assert!(tables.len() > 30, "{schema}");
        assert_eq!(c.rows("SHOW TABLES").len(), tables.len());
        for table in tables {
            c.rows(&format!("SELECT * FROM `{table}` LIMIT 3"));
            let columns = c.rows(&format!("SHOW FULL COLUMNS FROM `{table}`")).len();
            let listed = c.value(&format!(
                "SELECT COUNT(*) FROM information_schema.COLUMNS
                 WHERE TABLE_SCHEMA = '{schema}' AND TABLE_NAME = '{table}'"
            ));
            assert_eq!(listed, columns.to_string(), "{schema}.{table}");
            assert!(!c.rows(&format!("SHOW CREATE TABLE `{table}`")).is_empty());
            c.rows(&format!("SHOW INDEX FROM `{table}`"));
        }
    }
    let databases = c.lines("SHOW DATABASES");
    assert_eq!(
        databases,
        [
            "d",
            "information_schema",
            "mysql",
            "performance_schema",
            "sys"
        ]
    );
}

#[test]
fn accounts_are_rows_of_the_grant_tables() {
    let (server, _dir) = server();
    let mut c = server.connect();
    assert_eq!(
        c.lines(
            "SELECT User, Host, Select_priv, plugin, password_lifetime, account_locked
             FROM mysql.user WHERE User IN ('root', 'app') ORDER BY User"
        ),
        [
            "app|%|N|caching_sha2_password|0|N",
            "root|localhost|Y|caching_sha2_password|NULL|N"
        ]
    );
    assert_eq!(
        c.lines("SELECT Host, Db, User, Select_priv, Insert_priv FROM mysql.db"),
        ["%|d|app|Y|N"]
    );
    assert_eq!(
        c.lines("SELECT User, Table_name, Table_priv, Column_priv FROM mysql.tables_priv"),
        ["app|t|Insert|Update"]
    );
    assert_eq!(
        c.lines("SELECT User, Column_name, Column_priv FROM mysql.columns_priv"),
        ["app|v|Update"]
    );
    assert_eq!(
        c.lines("SELECT FROM_USER, TO_USER, WITH_ADMIN_OPTION FROM mysql.role_edges"),
        ["r|app|N"]
    );
    assert_eq!(
        c.lines("SELECT USER, DEFAULT_ROLE_USER FROM mysql.default_roles"),
        ["app|r"]
    );
    let zones = "SELECT COUNT(*) FROM mysql.time_zone_name WHERE Name = 'Europe/Berlin'";
    assert_eq!(c.value(zones), "1");
    assert_eq!(
        c.lines("SELECT database_name, n_rows FROM mysql.innodb_table_stats"),
        ["d|2"]
    );
}

#[test]
fn tables_have_the_types_and_keys_of_mysql() {
    let (server, _dir) = server();
    let mut c = server.connect();
    let text = c.rows("SHOW CREATE TABLE performance_schema.session_connect_attrs");
    assert_eq!(
        text[0][1].as_deref(),
        Some(
            "CREATE TABLE `session_connect_attrs` (\n  `PROCESSLIST_ID` bigint unsigned NOT NULL,\n  \
             `ATTR_NAME` varchar(32) COLLATE utf8mb4_bin NOT NULL,\n  \
             `ATTR_VALUE` varchar(1024) COLLATE utf8mb4_bin DEFAULT NULL,\n  \
             `ORDINAL_POSITION` int DEFAULT NULL,\n  \
             PRIMARY KEY (`PROCESSLIST_ID`,`ATTR_NAME`)\n) \
             ENGINE=PERFORMANCE_SCHEMA DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin"
        )
    );
    assert_eq!(
        c.lines("SHOW COLUMNS FROM mysql.role_edges LIKE 'W%'"),
        ["WITH_ADMIN_OPTION|enum('N','Y')|NO||N|"]
    );
    assert_eq!(
        c.lines(
            "SELECT INDEX_NAME, COLUMN_NAME FROM information_schema.STATISTICS
             WHERE TABLE_SCHEMA = 'mysql' AND TABLE_NAME = 'user' ORDER BY SEQ_IN_INDEX"
        ),
        ["PRIMARY|Host", "PRIMARY|User"]
    );
    assert_eq!(
        c.lines(
            "SELECT TABLE_TYPE, ENGINE FROM information_schema.TABLES WHERE TABLE_NAME IN ('threads', 'TABLES')
             ORDER BY TABLE_SCHEMA"
        ),
        ["SYSTEM VIEW|NULL", "BASE TABLE|PERFORMANCE_SCHEMA"]
    );
}

#[test]
fn accounts_see_what_they_may() {
    let (server, _dir) = server();
    let mut root = server.connect();
    root.run("CREATE USER probe@localhost IDENTIFIED BY 'x'");
    let mut c = Client::connect("127.0.0.1", server.port, "probe", "x", None).expect("login");
    assert_eq!(
        c.lines("SHOW DATABASES"),
        ["information_schema", "performance_schema"]
    );
    let open = c.lines(
        "SELECT TABLE_NAME FROM information_schema.TABLES WHERE TABLE_SCHEMA <> 'information_schema' ORDER BY 1",
    );
    assert_eq!(
        open,
        [
            "global_status",
            "global_variables",
            "persisted_variables",
            "processlist",
            "session_account_connect_attrs",
            "session_status",
            "session_variables",
            "variables_info"
        ]
    );
    for table in open {
        c.rows(&format!("SELECT * FROM performance_schema.{table}"));
    }
    for (sql, code) in [
        ("SELECT * FROM performance_schema.threads", 1142),
        ("SELECT * FROM mysql.user", 1142),
        ("SELECT * FROM mysql.nothing", 1142),
        ("SHOW COLUMNS FROM mysql.user", 1142),
        ("SHOW TABLES FROM mysql", 1044),
        ("USE mysql", 1044),
        ("USE sys", 1044),
    ] {
        assert_eq!(c.code(sql), Some(code), "{sql}");
    }
    for (sql, code) in [
        ("SELECT * FROM mysql.nothing", 1146),
        ("SELECT * FROM information_schema.nothing", 1109),
        ("DELETE FROM performance_schema.threads", 1142),
        ("INSERT INTO mysql.user (User) VALUES ('x')", 1142),
        ("DELETE FROM information_schema.TABLES", 1044),
        ("CREATE TABLE performance_schema.x (a INT)", 1044),
    ] {
        assert_eq!(root.code(sql), Some(code), "{sql}");
    }
}

#[test]
fn sessions_variables_and_locks_are_tables() {
    let (server, _dir) = server();
    let (mut a, mut b) = (server.connect(), server.connect());
    let own = a.value("SELECT CONNECTION_ID()");
    a.run("SET @x = 7; SET sort_buffer_size = 65536; BEGIN; UPDATE d.t SET v = 9 WHERE id = 1");
    assert_eq!(
        a.lines("SELECT * FROM performance_schema.session_variables WHERE VARIABLE_NAME = 'sort_buffer_size'"),
        ["sort_buffer_size|65536"]
    );
    assert_eq!(
        a.lines(
            "SELECT VARIABLE_NAME, VARIABLE_VALUE FROM performance_schema.user_variables_by_thread"
        ),
        ["x|7"]
    );
    assert_eq!(
        b.lines(&format!(
            "SELECT OBJECT_SCHEMA, OBJECT_NAME, LOCK_TYPE, LOCK_STATUS FROM performance_schema.metadata_locks
             WHERE OWNER_THREAD_ID = {own} AND OBJECT_TYPE = 'TABLE'"
        )),
        ["d|t|SHARED_READ|GRANTED", "d|t|SHARED_WRITE|GRANTED"]
    );
    assert_eq!(
        b.lines(&format!(
            "SELECT INDEX_NAME, LOCK_MODE, LOCK_DATA FROM performance_schema.data_locks WHERE THREAD_ID = {own}"
        )),
        ["PRIMARY|X,REC_NOT_GAP|1"]
    );
    assert_eq!(
        b.lines(&format!(
            "SELECT PROCESSLIST_USER, PROCESSLIST_COMMAND FROM performance_schema.threads
             WHERE PROCESSLIST_ID = {own}"
        )),
        ["root|Sleep"]
    );
    let current = "SELECT CURRENT_CONNECTIONS FROM performance_schema.users WHERE USER = 'root'";
    assert_eq!(b.value(current), "2");
    let status = "SELECT VARIABLE_VALUE > 0 FROM performance_schema.global_status WHERE VARIABLE_NAME = 'Questions'";
    assert_eq!(b.value(status), "1");
    a.run("COMMIT");
    let held = format!(
        "SELECT COUNT(*) FROM performance_schema.metadata_locks WHERE OWNER_THREAD_ID = {own}"
    );
    assert_eq!(b.value(&held), "0");
}

#[test]
fn logins_are_counted_until_they_are_forgotten() {
    let (server, _dir) = server();
    let mut a = server.connect();
    a.run("CREATE USER guest");
    let guest = Client::connect("127.0.0.1", server.port, "guest", "", None);
    drop(guest.expect("connect"));
    let users = "SELECT USER, CURRENT_CONNECTIONS, TOTAL_CONNECTIONS > 0 FROM performance_schema.users ORDER BY 1";
    eventually("the guest goes", || {
        a.lines(users).contains(&"guest|0|1".to_owned())
    });
    for table in ["accounts", "hosts", "users"] {
        a.run(&format!("TRUNCATE performance_schema.{table}"));
        assert!(!a.lines(users).iter().any(|row| row.starts_with("guest")));
        let own = "SELECT CURRENT_CONNECTIONS, TOTAL_CONNECTIONS FROM performance_schema.users WHERE USER = 'root'";
        assert_eq!(a.lines(own), ["1|1"]);
    }
}

#[test]
fn statements_are_added_up_by_digest_and_command() {
    let (server, _dir) = server();
    let (mut a, mut b) = (server.connect(), server.connect());
    a.run("USE d");
    for id in 1..=5 {
        a.rows(&format!("SELECT v FROM t WHERE id = {id}"));
    }
    a.run("UPDATE t SET v = v + 1");
    assert_eq!(a.code("SELECT * FROM nothing"), Some(1146));
    let digests = "SELECT SCHEMA_NAME, DIGEST_TEXT, COUNT_STAR, SUM_ERRORS, SUM_ROWS_SENT, SUM_ROWS_AFFECTED,
        LENGTH(DIGEST), QUANTILE_95 > 0 AND MAX_TIMER_WAIT >= MIN_TIMER_WAIT, LAST_SEEN >= FIRST_SEEN
        FROM performance_schema.events_statements_summary_by_digest
        WHERE SCHEMA_NAME = 'd' AND DIGEST_TEXT LIKE '%`%' ORDER BY DIGEST_TEXT";
    assert_eq!(
        b.lines(digests),
        [
            "d|SELECT * FROM `nothing`|1|1|0|0|64|1|1",
            "d|SELECT `v` FROM `t` WHERE `id` = ?|5|0|2|0|64|1|1",
            "d|UPDATE `t` SET `v` = `v` + ?|1|0|0|2|64|1|1"
        ]
    );
    let own = a.value("SELECT CONNECTION_ID()");
    assert_eq!(
        b.lines(&format!(
            "SELECT EVENT_NAME, SQL_TEXT, MYSQL_ERRNO FROM performance_schema.events_statements_history
             WHERE THREAD_ID = {own} ORDER BY EVENT_ID DESC LIMIT 3"
        )),
        [
            "statement/sql/select|SELECT CONNECTION_ID()|0",
            "statement/sql/select|SELECT * FROM nothing|1146",
            "statement/sql/update|UPDATE t SET v = v + 1|0"
        ]
    );
    assert_eq!(
        b.lines(&format!(
            "SELECT COUNT_STAR, SUM_ERRORS FROM performance_schema.events_statements_summary_by_thread_by_event_name
             WHERE THREAD_ID = {own} AND EVENT_NAME = 'statement/sql/select'"
        )),
        ["7|1"]
    );
    assert_eq!(
        b.lines("SELECT query, exec_count, err_count FROM sys.statement_analysis WHERE query LIKE '%nothing%'"),
        ["SELECT * FROM `nothing`|1|1"]
    );
    assert_eq!(
        b.value("SELECT SUM(COUNT_BUCKET) > 5 FROM performance_schema.events_statements_histogram_global"),
        "1"
    );
    // Of a digest what is not empty: thousands of digests have millions of buckets.
    let buckets = "SELECT MIN(COUNT_BUCKET) > 0, MAX(BUCKET_QUANTILE), COUNT(*) < 450
        FROM performance_schema.events_statements_histogram_by_digest WHERE DIGEST IS NOT NULL";
    assert_eq!(b.lines(buckets), ["1|1.000000|1"]);
    assert_eq!(
        b.value("SELECT COUNT(*) FROM performance_schema.events_statements_histogram_global"),
        "450"
    );
    // effect: esker_statement_statistics
    b.run("SET GLOBAL esker_statement_statistics = OFF");
    b.run("TRUNCATE performance_schema.events_statements_summary_by_digest");
    a.rows("SELECT v FROM t WHERE id = 1");
    assert!(b.lines(digests).is_empty());
    let consumers =
        "SELECT ENABLED FROM performance_schema.setup_consumers WHERE NAME = 'statements_digest'";
    assert_eq!(b.value(consumers), "NO");
    b.run("SET GLOBAL esker_statement_statistics = ON");
    a.rows("SELECT v FROM t WHERE id = 1");
    assert_eq!(b.lines(digests).len(), 1);
    assert_eq!(b.code("TRUNCATE performance_schema.threads"), Some(1142));
}

#[test]
fn sys_names_who_blocks_whom() {
    let (server, _dir) = server();
    let (mut a, mut b) = (server.connect(), server.connect());
    let (blocker, waiter) = (
        a.value("SELECT CONNECTION_ID()"),
        b.value("SELECT CONNECTION_ID()"),
    );
    a.run("BEGIN; UPDATE d.t SET v = 7 WHERE id = 2");
    b.run("BEGIN; UPDATE d.t SET v = 7 WHERE id = 1");
    let waiting = std::thread::spawn(move || b.code("UPDATE d.t SET v = 8 WHERE id = 2"));
    let waits =
        "SELECT locked_table, locked_index, waiting_pid, blocking_pid, sql_kill_blocking_connection
        FROM sys.innodb_lock_waits";
    eventually("it waits", || !a.lines(waits).is_empty());
    assert_eq!(
        a.lines(waits),
        [format!("`d`.`t`|PRIMARY|{waiter}|{blocker}|KILL {blocker}")]
    );
    // Locks are joined by their names, and a transaction of one statement waits as well.
    let mut d = server.connect();
    let third = d.value("SELECT CONNECTION_ID()");
    let also = std::thread::spawn(move || d.code("DELETE FROM d.t WHERE id = 2"));
    eventually("two wait", || a.lines(waits).len() > 1);
    let by_name = "SELECT w.requesting_thread_id, r.lock_status, r.lock_data, b.lock_data
        FROM performance_schema.data_lock_waits w
        JOIN performance_schema.data_locks r ON r.engine_lock_id = w.requesting_engine_lock_id
        JOIN performance_schema.data_locks b ON b.engine_lock_id = w.blocking_engine_lock_id
        WHERE w.blocking_thread_id = CONNECTION_ID() AND b.lock_status = 'GRANTED' ORDER BY 1";
    assert_eq!(
        a.lines(by_name),
        [
            format!("{waiter}|WAITING|2|2"),
            format!("{third}|WAITING|2|2")
        ]
    );
    let third_waits = format!(
        "SELECT waiting_query, waiting_trx_rows_modified, blocking_trx_rows_modified, blocking_lock_mode
         FROM sys.innodb_lock_waits WHERE waiting_pid = {third} AND blocking_pid = {blocker}"
    );
    assert_eq!(
        a.lines(&third_waits),
        ["DELETE FROM d.t WHERE id = 2|0|1|X,REC_NOT_GAP"]
    );
    a.run("COMMIT");
    assert_eq!(waiting.join().expect("waiter"), None);
    assert_eq!(also.join().expect("waiter"), None);
}

#[test]
fn sys_finds_indexes_that_others_cover_and_formats_numbers() {
    let (server, _dir) = server();
    let mut c = server.connect();
    c.run("ALTER TABLE d.t ADD KEY wide (v, id)");
    assert_eq!(
        c.lines(
            "SELECT table_name, redundant_index_name, dominant_index_name, sql_drop_index
             FROM sys.schema_redundant_indexes"
        ),
        ["t|v|wide|ALTER TABLE `d`.`t` DROP INDEX `v`"]
    );
    assert_eq!(
        c.lines(
            "SELECT FORMAT_BYTES(0), FORMAT_BYTES(1536), sys.format_bytes(18446744073709551615),
             FORMAT_PICO_TIME(12), FORMAT_PICO_TIME(188732396662000), sys.format_time(3501), sys.format_time(604800e12)"
        ),
        ["   0 bytes|1.50 KiB|16.00 EiB| 12 ps|3.15 min|3.5 ns|1 w"]
    );
    assert_eq!(
        c.lines(
            "SELECT sys.quote_identifier('a`b'), sys.list_add('a,b', 'c'), sys.list_drop('a,b', 'a'),
             sys.version_major(), STATEMENT_DIGEST_TEXT('select 1 from t'), RELEASE_ALL_LOCKS(),
             PS_THREAD_ID(CONNECTION_ID()) = PS_CURRENT_THREAD_ID()"
        ),
        ["`a``b`|a,b,c|b|8|SELECT ? FROM `t`|0|1"]
    );
    assert_eq!(c.code("SELECT sys.nothing(1)"), Some(1305));
    assert_eq!(c.code("SELECT STATEMENT_DIGEST('select')"), Some(3676));
    assert_eq!(
        c.lines(
            "SELECT Field FROM (SELECT COLUMN_NAME AS Field FROM information_schema.COLUMNS
                 WHERE TABLE_SCHEMA = 'sys' AND TABLE_NAME = 'version') c"
        ),
        ["sys_version", "mysql_version"]
    );
    let total = "SELECT total_allocated > 0 FROM sys.x$memory_global_total";
    assert_eq!(c.value(total), "1");
}

#[test]
fn the_memory_of_performance_schema_is_told_as_its_engine_status() {
    let (server, _dir) = server();
    let rows = server
        .connect()
        .lines("SHOW ENGINE PERFORMANCE_SCHEMA STATUS");
    let last = rows.last().expect("rows");
    let memory = last.strip_prefix("performance_schema|performance_schema.memory|");
    let bytes: u64 = memory.expect("its memory").parse().expect("a number");
    assert!(bytes > 0);
}

#[test]
fn persisted_variables_outlive_a_restart() {
    let (mut server, _dir) = server();
    let mut c = server.connect();
    c.run("SET PERSIST max_connections = 77; SET PERSIST_ONLY back_log = 60");
    c.run("SET PERSIST sort_buffer_size = 65536");
    let kept = "SELECT * FROM performance_schema.persisted_variables";
    let all = [
        "back_log|60",
        "max_connections|77",
        "sort_buffer_size|65536",
    ];
    assert_eq!(c.lines(kept), all);
    let values = "SELECT @@max_connections, @@back_log = 60, @@global.sort_buffer_size";
    assert_eq!(c.lines(values), ["77|0|65536"]);
    for (sql, code) in [
        ("SET PERSIST port = 1", 1238),
        ("SET PERSIST_ONLY hostname = 'x'", 1238),
        (
            "SET PERSIST_ONLY esker_force_recovery = 'POINT-IN-TIME'",
            1238,
        ),
        ("SET PERSIST_ONLY general_log_file = 'accounts'", 1231),
        ("SET PERSIST_ONLY timestamp = 5", 1228),
        ("SET PERSIST max_connections = 'x'", 1232),
        ("RESET PERSIST nothing", 3615),
    ] {
        assert_eq!(c.code(sql), Some(code), "{sql}");
    }
    // A label is a text.
    c.run("CREATE TABLE d.e (a ENUM ('accounts')); INSERT INTO d.e VALUES ('accounts')");
    for how in ["GLOBAL", "PERSIST", "PERSIST_ONLY"] {
        let sql = format!("SET {how} general_log_file = (SELECT a FROM d.e)");
        assert_eq!(c.code(&sql), Some(1231), "{sql}");
    }
    server.stop();
    server.restart();
    let mut c = server.connect();
    assert_eq!(c.lines(values), ["77|1|65536"]);
    assert_eq!(
        c.lines(
            "SELECT VARIABLE_SOURCE, SET_USER, SET_TIME IS NOT NULL FROM performance_schema.variables_info
             WHERE VARIABLE_NAME = 'max_connections'"
        ),
        ["PERSISTED|root|1"]
    );
    // effect: persisted_globals_load
    server.stop();
    server.set_args(&[
        "--skip-ssl",
        "--persisted-globals-load=OFF",
        "--max-connections=51",
    ]);
    server.restart();
    let mut c = server.connect();
    assert_eq!(c.lines(values), ["51|0|33554432"]);
    assert_eq!(c.lines(kept), all);
    c.run("RESET PERSIST max_connections; RESET PERSIST IF EXISTS nothing");
    assert_eq!(c.lines(kept).len(), 2);
    c.run("RESET PERSIST");
    assert!(
        c.lines("SELECT * FROM performance_schema.persisted_variables")
            .is_empty()
    );
}

/// Rows read and changed by each index, on the fast path, the general one and in parallel; answers are MySQL 9.7's but
/// for changes, which MySQL counts under the index that found the row, and COUNT(*), which reads no rows here.
#[test]
fn accesses_are_counted_by_table_and_index() {
    let dir = tempfile::tempdir().expect("folder");
    let server = Server::start(dir.path(), &["--skip-ssl"]);
    let mut c = server.connect();
    c.run(
        "CREATE DATABASE a; USE a;
         CREATE TABLE t (id INT PRIMARY KEY, a INT, b INT, c INT, KEY ka (a), UNIQUE kb (b), KEY kc (b, a));
         INSERT INTO t (id, a, b) VALUES (1,1,1),(2,2,2),(3,3,3),(4,4,4)",
    );
    let by_index = "SELECT IFNULL(INDEX_NAME, '-'), COUNT_FETCH, COUNT_INSERT, COUNT_UPDATE, COUNT_DELETE
        FROM performance_schema.table_io_waits_summary_by_index_usage WHERE OBJECT_SCHEMA = 'a' ORDER BY 1";
    let unused = "SELECT index_name FROM sys.schema_unused_indexes WHERE object_schema = 'a'";
    assert_eq!(
        c.lines(by_index),
        [
            "-|0|4|0|0",
            "ka|0|0|0|0",
            "kb|0|0|0|0",
            "kc|0|0|0|0",
            "PRIMARY|0|0|0|0"
        ]
    );
    assert_eq!(c.lines(unused), ["ka", "kc"]);
    // The fast path: single rows, there or not, ranges, and the whole table.
    for sql in [
        "SELECT * FROM t WHERE id = 1",
        "SELECT * FROM t WHERE id = 99",
        "SELECT * FROM t WHERE b = 2",
        "SELECT * FROM t WHERE a = 1",
        "SELECT * FROM t WHERE id BETWEEN 2 AND 3",
        "SELECT * FROM t",
    ] {
        c.rows(sql);
    }
    assert_eq!(
        c.lines(by_index),
        [
            "-|4|4|0|0",
            "ka|1|0|0|0",
            "kb|1|0|0|0",
            "kc|0|0|0|0",
            "PRIMARY|4|0|0|0"
        ]
    );
    // The general one.
    c.rows("SELECT x.c, y.c FROM t x STRAIGHT_JOIN t y ON y.id = x.a WHERE x.a + 0 > 2");
    c.rows("SELECT a FROM t FORCE INDEX (ka) WHERE a > 2 AND a + 0 > 3");
    let lines = c.lines(by_index);
    assert_eq!(lines[0], "-|8|4|0|0", "{lines:?}");
    assert_eq!(lines[1], "ka|3|0|0|0", "{lines:?}");
    assert_eq!(lines[4], "PRIMARY|6|0|0|0", "{lines:?}");
    c.run("UPDATE t SET a = 9 WHERE id = 1; DELETE FROM t WHERE id = 4; REPLACE INTO t VALUES (3, 5, 5, 5)");
    let lines = c.lines(by_index);
    assert!(
        lines[0].starts_with("-|") && lines[4].starts_with("PRIMARY|"),
        "{lines:?}"
    );
    assert_eq!(
        c.lines(
            "SELECT rows_inserted, rows_updated, rows_deleted, total_latency
             FROM sys.schema_table_statistics WHERE table_schema = 'a'"
        ),
        ["5|1|2|  0 ps"]
    );
    assert_eq!(c.lines(unused), ["kc"]);
    assert_eq!(
        c.lines(
            "SELECT object_name, rows_full_scanned FROM sys.schema_tables_with_full_table_scans"
        ),
        ["t|8"]
    );
    assert_eq!(
        c.value("SELECT rows_selected FROM sys.schema_index_statistics WHERE index_name = 'ka'"),
        "3"
    );
    // A definition that is changed keeps the counters of its indexes, and TRUNCATE empties all.
    c.run("ALTER TABLE t ADD KEY kd (a, b), RENAME KEY ka TO kx");
    assert_eq!(
        c.lines(by_index)[1..4],
        ["kb|1|0|0|0", "kc|0|0|0|0", "kd|0|0|0|0"]
    );
    assert_eq!(c.lines(by_index)[4], "kx|3|0|0|0");
    c.run("TRUNCATE performance_schema.table_io_waits_summary_by_table");
    assert_eq!(
        c.value(
            "SELECT SUM(COUNT_STAR) FROM performance_schema.table_io_waits_summary_by_index_usage
             WHERE OBJECT_SCHEMA = 'a'"
        ),
        "0"
    );
}

#[test]
fn tasks_of_parallel_scans_count_what_they_read() {
    let dir = tempfile::tempdir().expect("folder");
    let server = Server::start(dir.path(), &["--skip-ssl"]);
    let mut c = server.connect();
    c.run(
        "SET esker_parallel_scan_rows = 0, parallel_read_threads = 2;
         CREATE DATABASE a; USE a; CREATE TABLE t (id INT PRIMARY KEY, v INT);
         INSERT INTO t WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 500)
           SELECT i, i FROM n",
    );
    let plan = c
        .lines("EXPLAIN SELECT SUM(v + 1) FROM t WHERE v % 7 <> 3")
        .join(" ");
    assert!(plan.contains("parallel"), "{plan}");
    c.rows("SELECT SUM(v + 1) FROM t WHERE v % 7 <> 3");
    let fetched = "SELECT COUNT_FETCH FROM performance_schema.table_io_waits_summary_by_table WHERE OBJECT_NAME = 't'";
    assert_eq!(c.value(fetched), "500");
}

#[test]
fn files_are_measured() {
    let dir = tempfile::tempdir().expect("folder");
    let server = Server::start(dir.path(), &["--skip-ssl", "--log-bin=binlog"]);
    let mut c = server.connect();
    c.run("CREATE DATABASE a; CREATE TABLE a.t (id INT PRIMARY KEY, v TEXT)");
    let event = |c: &mut Client, event: &str| -> Vec<u64> {
        let sql = format!(
            "SELECT COUNT_WRITE, SUM_NUMBER_OF_BYTES_WRITE, COUNT_MISC, SUM_TIMER_WAIT
             FROM performance_schema.file_summary_by_event_name WHERE EVENT_NAME = 'wait/io/file/{event}'"
        );
        c.rows(&sql)[0]
            .iter()
            .map(|v| v.as_deref().and_then(|v| v.parse().ok()).expect("a number"))
            .collect()
    };
    let before = event(&mut c, "innodb/innodb_log_file");
    c.run("INSERT INTO a.t VALUES (1, REPEAT('x', 5000))");
    let after = event(&mut c, "innodb/innodb_log_file");
    assert!(
        after[0] > before[0] && after[1] >= before[1] + 5000,
        "{before:?} {after:?}"
    );
    assert!(
        after[2] > before[2] && after[3] > before[3],
        "a sync is misc: {before:?} {after:?}"
    );
    // The binary log follows the log.
    eventually("the binary log", || event(&mut c, "sql/binlog")[1] >= 5000);
    // By file, with the data directory spelled out, and as `sys` shows it.
    let written = "SELECT COUNT(*) FROM performance_schema.file_summary_by_instance
        WHERE FILE_NAME LIKE CONCAT(@@datadir, '%') AND EVENT_NAME LIKE '%/binlog' AND SUM_NUMBER_OF_BYTES_WRITE > 5000";
    assert_eq!(c.value(written), "1");
    let opened = "SELECT OPEN_COUNT > 0 FROM performance_schema.file_instances WHERE FILE_NAME LIKE '%/wal/%' LIMIT 1";
    assert_eq!(c.value(opened), "1");
    for view in ["io_global_by_file_by_bytes", "io_global_by_file_by_latency"] {
        let lines = c.lines(&format!(
            "SELECT * FROM sys.{view} WHERE file LIKE '%binlog.000001'"
        ));
        assert_eq!(lines.len(), 1, "{view}: {lines:?}");
    }
    let bytes =
        "SELECT count_write > 0, total_written LIKE '%iB' FROM sys.io_global_by_wait_by_bytes
        WHERE event_name = 'innodb/innodb_log_file'";
    assert_eq!(c.lines(bytes), ["1|1"]);
    assert!(
        !c.rows("SELECT * FROM sys.x$io_global_by_wait_by_latency")
            .is_empty()
    );
    // What is removed stays in the sums of its event.
    let sum = event(&mut c, "sql/binlog")[1];
    c.run("FLUSH BINARY LOGS; PURGE BINARY LOGS TO 'binlog.000002'");
    assert!(event(&mut c, "sql/binlog")[1] >= sum);
    c.run("TRUNCATE performance_schema.file_summary_by_event_name");
    assert!(event(&mut c, "sql/binlog")[1] < sum);
}

#[test]
fn functions_of_sys_answer_as_mysql_s() {
    let dir = tempfile::tempdir().expect("folder");
    let server = Server::start(dir.path(), &[]);
    let mut c = server.connect();
    // Answers of MySQL 9.7.
    for (call, answer) in [
        ("list_add(NULL, 'a')", "a"),
        ("list_add('a,b', 'b')", "a,b,b"),
        ("list_add(' ', 'c')", ",c"),
        ("list_add('a', '')", "a,"),
        ("list_drop('a, b, c', 'b')", "a, c"),
        ("list_drop('a,a,b', 'a')", "b"),
        ("format_time(-1500)", "-1500 ps"),
        ("format_time('x')", "x ps"),
        ("format_time(999)", "999 ps"),
        ("format_time(1500)", "1.5 ns"),
        ("format_time(97200000000000000)", "1.12 d"),
        (
            "extract_schema_from_file_name('/data/shop/orders.ibd')",
            "shop",
        ),
        ("extract_schema_from_file_name('orders.ibd')", "orders.ibd"),
        ("extract_schema_from_file_name('/x')", ""),
        ("extract_table_from_file_name('/data/db/@0024a.b.c')", "$a"),
        ("extract_table_from_file_name('C:\\\\d\\\\t.ibd')", "t"),
        ("ps_is_account_enabled('localhost', 'root')", "YES"),
        ("ps_is_consumer_enabled('events_stages_history')", "NO"),
        ("ps_is_consumer_enabled('statements_digest')", "YES"),
        (
            "ps_is_instrument_default_enabled('wait/synch/mutex/a')",
            "NO",
        ),
        ("ps_is_instrument_default_enabled(NULL)", "YES"),
        ("ps_is_instrument_default_timed('memory/sql/a')", "NO"),
        ("ps_is_thread_instrumented(CONNECTION_ID())", "YES"),
        ("ps_is_thread_instrumented(999999)", "UNKNOWN"),
        (
            "ps_thread_account(sys.ps_thread_id(NULL))",
            "root@localhost",
        ),
        ("sys_get_config('statement_truncate_len', 'x')", "64"),
        (
            "sys_get_config('statement_performance_analyzer.view', 'x')",
            "x",
        ),
        ("sys_get_config(NULL, 'x')", "x"),
    ] {
        assert_eq!(c.value(&format!("SELECT sys.{call}")), answer, "{call}");
    }
    for (call, code) in [
        ("list_add('a', NULL)", 1138),
        ("list_drop('a', NULL)", 1138),
        ("list_add('a')", 1318),
        ("ps_is_consumer_enabled('foo')", 3047),
    ] {
        assert_eq!(c.code(&format!("SELECT sys.{call}")), Some(code), "{call}");
    }
    assert_eq!(c.value("SELECT COUNT(*) FROM sys.sys_config"), "6");
    c.run("CREATE USER nobody");
    let mut nobody = Client::connect("127.0.0.1", server.port, "nobody", "", None).expect("log in");
    for call in ["ps_thread_account(1)", "format_bytes(1)"] {
        assert_eq!(nobody.code(&format!("SELECT sys.{call}")), Some(1370));
    }
    c.run("GRANT EXECUTE ON sys.* TO nobody");
    assert_eq!(nobody.value("SELECT sys.format_bytes(1)"), "   1 bytes");
}

#[test]
fn a_metadata_lock_is_waited_for_where_modes_do_not_go_together() {
    let dir = tempfile::tempdir().expect("folder");
    let server = Server::start(dir.path(), &[]);
    let mut c = server.connect();
    c.run("CREATE DATABASE d; CREATE TABLE d.t (a INT PRIMARY KEY)");
    let [mut reader, mut holder, mut writer] = [(); 3].map(|()| server.connect());
    reader.run("BEGIN; SELECT * FROM d.t");
    holder.run("LOCK TABLES d.t READ");
    let by = holder.value("SELECT CONNECTION_ID()");
    let who = writer.value("SELECT CONNECTION_ID()");
    std::thread::scope(|scope| {
        scope.spawn(|| writer.run("INSERT INTO d.t VALUES (1)"));
        let waits = "SELECT OBJECT_TYPE, OBJECT_SCHEMA, OBJECT_NAME, WAITING_LOCK_TYPE, WAITING_THREAD_ID,
                     BLOCKING_LOCK_TYPE, BLOCKING_THREAD_ID FROM information_schema.ESKER_METADATA_LOCK_WAITS";
        eventually("the writer waits", || !c.lines(waits).is_empty());
        let pair = format!("TABLE|d|t|SHARED_WRITE|{who}|SHARED_READ_ONLY|{by}");
        assert_eq!(c.lines(waits), [pair]);
        holder.run("UNLOCK TABLES");
    });
}
