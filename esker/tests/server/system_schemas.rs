//! `mysql`, `performance_schema`, `sys` and `information_schema` as tools read them.
//!
//! Neighbours: `inspect` has the tables that only Esker has, `privileges` what accounts may do.
//! **Invariant**: what is compared here is what MySQL 8.4 answers, but for ids, times and sizes.

use esker_server::client::Client;

use crate::common::{Ask, Server};

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
