//! Statements of administration tools: each is answered without an error.
//!
//! Neighbours: `fixtures` has what drivers and command-line clients send, with their answers.
//! **Invariant**: the statements ask what the tools ask of MySQL 8; their texts are shortened where a tool lists many
//! columns.

use crate::common::{Ask, Server};

/// MySQL Workbench: connect, tree of schemas, status, connections, users, reports.
const WORKBENCH: &[&str] = &[
    "SET NAMES 'utf8mb4'",
    "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ",
    "SHOW SESSION VARIABLES LIKE 'sql_mode'",
    "SHOW SESSION VARIABLES LIKE 'lower_case_table_names'",
    "SHOW SESSION STATUS LIKE 'Ssl_cipher'",
    "SELECT current_user()",
    "SHOW VARIABLES LIKE '%version%'",
    "SET SQL_SAFE_UPDATES=1",
    "SHOW DATABASES",
    "SHOW FULL TABLES FROM `d`",
    "SHOW PROCEDURE STATUS WHERE Db='d'",
    "SHOW FUNCTION STATUS WHERE Db='d'",
    "SHOW FULL COLUMNS FROM `d`.`t`",
    "SHOW INDEXES FROM `d`.`t`",
    "SHOW TRIGGERS FROM `d` LIKE 't'",
    "SHOW CREATE TABLE `d`.`t`",
    "SHOW GLOBAL STATUS",
    "SHOW GLOBAL VARIABLES",
    "SHOW ENGINES",
    "SHOW PLUGINS",
    "SHOW PRIVILEGES",
    "SELECT * FROM mysql.user ORDER BY User, Host",
    "SELECT * FROM mysql.db ORDER BY User, Host",
    "SELECT sys_version FROM sys.version",
    "SELECT t.PROCESSLIST_ID, IF(NAME = 'thread/sql/event_scheduler', 'event_scheduler', t.PROCESSLIST_USER) \
     PROCESSLIST_USER, t.PROCESSLIST_HOST, t.PROCESSLIST_DB, t.PROCESSLIST_COMMAND, t.PROCESSLIST_TIME, \
     t.PROCESSLIST_STATE, t.THREAD_ID, t.TYPE, t.NAME, t.PARENT_THREAD_ID, t.INSTRUMENTED, t.PROCESSLIST_INFO, \
     a.ATTR_VALUE FROM performance_schema.threads t LEFT OUTER JOIN performance_schema.session_connect_attrs a \
     ON t.processlist_id = a.processlist_id AND (a.attr_name IS NULL OR a.attr_name = 'program_name') \
     WHERE t.TYPE <> 'BACKGROUND'",
    "SELECT * FROM performance_schema.setup_instruments WHERE NAME LIKE 'statement/%'",
    "SELECT * FROM performance_schema.setup_consumers",
    "SELECT st.* FROM performance_schema.events_statements_current st JOIN performance_schema.threads thr \
     ON thr.thread_id = st.thread_id WHERE thr.processlist_id = CONNECTION_ID()",
    "SELECT * FROM performance_schema.metadata_locks WHERE OWNER_THREAD_ID = 1",
    "SELECT * FROM `sys`.`x$memory_global_by_current_bytes`",
    "SELECT * FROM `sys`.`x$statements_with_runtimes_in_95th_percentile`",
    "SELECT * FROM `sys`.`x$schema_table_statistics_with_buffer`",
    "SELECT * FROM `sys`.`schema_unused_indexes`",
    "SELECT * FROM `sys`.`x$io_global_by_file_by_bytes`",
];

/// DBeaver: connect, navigator, table properties, users.
const DBEAVER: &[&str] = &[
    "SELECT DATABASE()",
    "SHOW ENGINES",
    "SHOW CHARSET",
    "SHOW COLLATION",
    "SHOW PLUGINS",
    "SELECT @@GLOBAL.character_set_server, @@GLOBAL.collation_server",
    "SHOW VARIABLES LIKE 'lower_case_table_names'",
    "SELECT * FROM information_schema.SCHEMATA",
    "SHOW FULL TABLES FROM `d`",
    "SHOW TABLE STATUS FROM `d`",
    "SELECT * FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = 'd' ORDER BY ORDINAL_POSITION",
    "SELECT kc.CONSTRAINT_NAME, kc.TABLE_NAME, kc.COLUMN_NAME, kc.ORDINAL_POSITION \
     FROM INFORMATION_SCHEMA.KEY_COLUMN_USAGE kc WHERE kc.TABLE_SCHEMA = 'd' AND kc.REFERENCED_TABLE_NAME IS NULL \
     AND kc.TABLE_NAME = 't' ORDER BY kc.CONSTRAINT_NAME, kc.ORDINAL_POSITION",
    "SELECT cc.CONSTRAINT_NAME, cc.CHECK_CLAUSE, tc.TABLE_NAME FROM (SELECT CONSTRAINT_NAME, CHECK_CLAUSE FROM \
     INFORMATION_SCHEMA.CHECK_CONSTRAINTS WHERE CONSTRAINT_SCHEMA = 'd' ORDER BY CONSTRAINT_NAME) cc, \
     (SELECT TABLE_NAME, CONSTRAINT_NAME FROM INFORMATION_SCHEMA.TABLE_CONSTRAINTS WHERE TABLE_SCHEMA = 'd' \
     AND TABLE_NAME = 't') tc WHERE cc.CONSTRAINT_NAME = tc.CONSTRAINT_NAME ORDER BY cc.CONSTRAINT_NAME",
    "SELECT * FROM information_schema.STATISTICS WHERE TABLE_SCHEMA = 'd' AND TABLE_NAME = 't' \
     ORDER BY INDEX_NAME, SEQ_IN_INDEX",
    "SELECT * FROM information_schema.PARTITIONS WHERE TABLE_SCHEMA = 'd' AND TABLE_NAME = 't' \
     ORDER BY PARTITION_ORDINAL_POSITION, SUBPARTITION_ORDINAL_POSITION",
    "SELECT * FROM information_schema.TRIGGERS WHERE TRIGGER_SCHEMA = 'd' AND EVENT_OBJECT_TABLE = 't'",
    "SELECT * FROM information_schema.ROUTINES WHERE ROUTINE_SCHEMA = 'd' ORDER BY ROUTINE_NAME",
    "SHOW EVENTS FROM `d`",
    "SELECT * FROM mysql.user ORDER BY user",
    "SELECT * FROM mysql.tables_priv",
    "SHOW GRANTS FOR 'root'@'localhost'",
    "SHOW FULL PROCESSLIST",
    "SHOW GLOBAL STATUS",
];

/// phpMyAdmin: start page, a database, a table, the page of users, status.
const PHPMYADMIN: &[&str] = &[
    "SELECT @@version, @@version_comment",
    "SET NAMES 'utf8mb4' COLLATE 'utf8mb4_unicode_ci'",
    "SET lc_messages = 'en_US'",
    "SELECT CURRENT_USER()",
    "SELECT `SCHEMA_NAME` FROM `INFORMATION_SCHEMA`.`SCHEMATA`",
    "SELECT 1 FROM mysql.user LIMIT 1",
    "SELECT `PRIVILEGE_TYPE` FROM `INFORMATION_SCHEMA`.`USER_PRIVILEGES` WHERE GRANTEE='''root''@''localhost''' \
     AND PRIVILEGE_TYPE='CREATE USER'",
    "SELECT @@lower_case_table_names",
    "SHOW SESSION VARIABLES LIKE 'FOREIGN_KEY_CHECKS'",
    "SELECT *, `TABLE_SCHEMA` AS `Db`, `TABLE_NAME` AS `Name`, `ENGINE` AS `Engine`, `TABLE_ROWS` AS `Rows`, \
     `DATA_LENGTH` AS `Data_length` FROM `information_schema`.`TABLES` t WHERE `TABLE_SCHEMA` IN ('d') \
     ORDER BY Name ASC",
    "SELECT `TABLE_NAME` FROM `INFORMATION_SCHEMA`.`VIEWS` WHERE `TABLE_SCHEMA` = 'd' AND `TABLE_NAME` = 't' \
     AND IS_UPDATABLE = 'YES'",
    "SHOW TABLE STATUS FROM `d` WHERE `Name` LIKE 't%'",
    "SHOW FULL COLUMNS FROM `d`.`t`",
    "SHOW INDEXES FROM `d`.`t`",
    "SHOW CREATE TABLE `mysql`.`user`",
    "(SELECT DISTINCT `User`, `Host` FROM `mysql`.`user`) UNION (SELECT DISTINCT `User`, `Host` FROM `mysql`.`db`) \
     UNION (SELECT DISTINCT `User`, `Host` FROM `mysql`.`tables_priv`) UNION (SELECT DISTINCT `User`, `Host` \
     FROM `mysql`.`columns_priv`) ORDER BY `User` ASC, `Host` ASC",
    "SELECT * FROM `mysql`.`user` WHERE `User` = 'root' AND `Host` = 'localhost'",
    "SELECT `Host`, `Db`, `User` FROM `mysql`.`db` WHERE 'd' LIKE `Db` ORDER BY `User`",
    "SHOW BINARY LOG STATUS",
    "SHOW REPLICA STATUS",
    "SHOW GLOBAL VARIABLES WHERE Variable_name IN ('key_buffer_size', 'query_cache_size')",
    "SELECT `VARIABLE_NAME`, `VARIABLE_VALUE` FROM `performance_schema`.`global_status`",
    "SHOW COLLATION",
    "SHOW STORAGE ENGINES",
];

/// Adminer: login, lists, a table, privileges, processes.
const ADMINER: &[&str] = &[
    "SET sql_quote_show_create = 1, autocommit = 1",
    "SELECT VERSION()",
    "SELECT SCHEMA_NAME FROM information_schema.SCHEMATA ORDER BY SCHEMA_NAME",
    "SELECT DEFAULT_COLLATION_NAME FROM information_schema.SCHEMATA WHERE SCHEMA_NAME = 'd'",
    "SELECT TABLE_NAME, TABLE_TYPE FROM information_schema.TABLES WHERE TABLE_SCHEMA = DATABASE() ORDER BY TABLE_NAME",
    "SHOW TABLE STATUS LIKE 't'",
    "SHOW FULL COLUMNS FROM `t`",
    "SHOW INDEX FROM `t`",
    "SHOW CREATE TABLE `t`",
    "SHOW TRIGGERS LIKE 't'",
    "SHOW COLLATION",
    "SHOW VARIABLES",
    "SHOW STATUS",
    "SHOW FULL PROCESSLIST",
    "SELECT User, Host FROM mysql.user ORDER BY Host, User",
    "SHOW GRANTS FOR 'root'@'localhost'",
    "SHOW PRIVILEGES",
    "SHOW EVENTS",
    "SELECT PARTITION_NAME, PARTITION_DESCRIPTION FROM information_schema.PARTITIONS \
     WHERE TABLE_SCHEMA = 'd' AND TABLE_NAME = 't' AND PARTITION_NAME != '' ORDER BY PARTITION_ORDINAL_POSITION",
];

/// mysqld_exporter, all collectors that MySQL has tables for.
const EXPORTER: &[&str] = &[
    "SELECT @@version",
    "SHOW GLOBAL STATUS",
    "SHOW GLOBAL VARIABLES",
    "SHOW ENGINE INNODB STATUS",
    "SHOW REPLICA STATUS",
    "SELECT page_size, compress_ops, compress_ops_ok, compress_time, uncompress_ops, uncompress_time \
     FROM information_schema.innodb_cmp",
    "SELECT page_size, buffer_pool_instance, pages_used, pages_free, relocation_ops, relocation_time \
     FROM information_schema.innodb_cmpmem",
    "SELECT name, subsystem, type, comment, count FROM information_schema.innodb_metrics WHERE `status` = 'enabled'",
    "SELECT SPACE, NAME, ifnull((SELECT column_name FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = \
     'information_schema' AND TABLE_NAME = 'INNODB_TABLESPACES' AND COLUMN_NAME = 'FILE_FORMAT' LIMIT 1), 'NONE') \
     as FILE_FORMAT, ifnull(ROW_FORMAT, 'NONE') as ROW_FORMAT, ifnull(SPACE_TYPE, 'NONE') as SPACE_TYPE, FILE_SIZE, \
     ALLOCATED_SIZE FROM information_schema.innodb_tablespaces",
    "SELECT user, SUBSTRING_INDEX(host, ':', 1) AS host, COALESCE(command, '') AS command, COALESCE(state, '') AS \
     state, COUNT(*) AS processes, SUM(time) AS seconds FROM information_schema.processlist WHERE ID != \
     connection_id() AND TIME >= 0 GROUP BY user, SUBSTRING_INDEX(host, ':', 1), command, state",
    "SELECT table_schema, table_name, column_name, auto_increment, pow(2, case data_type when 'tinyint' then 7 when \
     'smallint' then 15 when 'mediumint' then 23 when 'int' then 31 when 'bigint' then 63 end + (column_type like \
     '% unsigned')) - 1 as max_int FROM information_schema.columns c STRAIGHT_JOIN information_schema.tables t USING \
     (table_schema, table_name) WHERE c.extra = 'auto_increment' AND t.auto_increment IS NOT NULL",
    "SELECT TABLE_SCHEMA, TABLE_NAME, TABLE_TYPE, ifnull(ENGINE, 'NONE') as ENGINE, ifnull(VERSION, '0') as VERSION, \
     ifnull(ROW_FORMAT, 'NONE') as ROW_FORMAT, ifnull(TABLE_ROWS, '0') as TABLE_ROWS FROM information_schema.tables \
     WHERE TABLE_SCHEMA = 'd'",
    "SELECT ifnull(SCHEMA_NAME, 'NONE') as SCHEMA_NAME, DIGEST, LEFT(DIGEST_TEXT, 120) as DIGEST_TEXT, COUNT_STAR, \
     SUM_TIMER_WAIT, SUM_LOCK_TIME, SUM_CPU_TIME, SUM_ERRORS, SUM_WARNINGS, SUM_ROWS_AFFECTED, SUM_ROWS_SENT, \
     SUM_ROWS_EXAMINED, SUM_CREATED_TMP_DISK_TABLES, SUM_CREATED_TMP_TABLES, SUM_SORT_MERGE_PASSES, SUM_SORT_ROWS, \
     SUM_NO_INDEX_USED, QUANTILE_95, QUANTILE_99, QUANTILE_999 FROM (SELECT * FROM \
     performance_schema.events_statements_summary_by_digest WHERE SCHEMA_NAME NOT IN ('mysql', 'performance_schema', \
     'information_schema') AND LAST_SEEN > DATE_SUB(NOW(), INTERVAL 86400 SECOND) ORDER BY LAST_SEEN DESC) Q \
     ORDER BY SUM_TIMER_WAIT DESC LIMIT 250",
    "SELECT SUM(COUNT_STAR) AS SUM_COUNT_STAR, SUM(SUM_ERRORS) AS SUM_SUM_ERRORS FROM \
     performance_schema.events_statements_summary_by_digest",
    "SELECT EVENT_NAME, COUNT_STAR, SUM_TIMER_WAIT FROM performance_schema.events_waits_summary_global_by_event_name",
    "SELECT EVENT_NAME, COUNT_READ, SUM_TIMER_READ, SUM_NUMBER_OF_BYTES_READ FROM \
     performance_schema.file_summary_by_event_name",
    "SELECT FILE_NAME, EVENT_NAME, COUNT_READ, COUNT_WRITE FROM performance_schema.file_summary_by_instance",
    "SELECT OBJECT_SCHEMA, OBJECT_NAME, ifnull(INDEX_NAME, 'NONE') as INDEX_NAME, COUNT_FETCH, COUNT_INSERT, \
     COUNT_UPDATE, COUNT_DELETE, SUM_TIMER_FETCH FROM performance_schema.table_io_waits_summary_by_index_usage \
     WHERE OBJECT_SCHEMA NOT IN ('mysql', 'performance_schema')",
    "SELECT OBJECT_SCHEMA, OBJECT_NAME, COUNT_FETCH FROM performance_schema.table_io_waits_summary_by_table",
    "SELECT OBJECT_SCHEMA, OBJECT_NAME, COUNT_READ_NORMAL FROM performance_schema.table_lock_waits_summary_by_table",
    "SELECT EVENT_NAME, SUM_NUMBER_OF_BYTES_ALLOC, SUM_NUMBER_OF_BYTES_FREE, CURRENT_NUMBER_OF_BYTES_USED \
     FROM performance_schema.memory_summary_global_by_event_name",
    "SELECT * FROM performance_schema.replication_group_members",
    "SELECT CHANNEL_NAME, WORKER_ID, LAST_APPLIED_TRANSACTION FROM \
     performance_schema.replication_applier_status_by_worker",
    "SELECT user, statements, statement_latency, table_scans, current_connections FROM sys.x$user_summary \
     WHERE user IS NOT NULL",
    "SHOW REPLICAS",
];

#[test]
fn statements_of_tools_are_answered() {
    let dir = tempfile::tempdir().expect("folder");
    let server = Server::start(dir.path(), &["--skip-ssl", "--log-bin=binlog"]);
    server.connect().run(
        "CREATE DATABASE d; CREATE TABLE d.t (id INT AUTO_INCREMENT PRIMARY KEY, v INT, CHECK (v > 0)); \
         INSERT INTO d.t (v) VALUES (1)",
    );
    let tools = [WORKBENCH, DBEAVER, PHPMYADMIN, ADMINER, EXPORTER];
    let mut wrong = Vec::new();
    for statements in tools {
        let mut client = server.connect();
        client.run("USE d");
        for sql in statements {
            if let Some(code) = client.code(sql) {
                wrong.push(format!("{code}: {sql}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// What Grafana's "MySQL Overview" and the exporter's rules plot.
const PLOTTED: &str = "Aborted_clients Aborted_connects Bytes_received Bytes_sent Com_select Com_insert Com_update \
    Com_delete Com_commit Com_rollback Connections Connection_errors_accept Connection_errors_internal \
    Connection_errors_max_connections Connection_errors_peer_address Connection_errors_select \
    Connection_errors_tcpwrap Created_tmp_disk_tables Created_tmp_files Created_tmp_tables Handler_commit \
    Handler_delete Handler_external_lock Handler_prepare Handler_read_first Handler_read_key Handler_read_last \
    Handler_read_next Handler_read_prev Handler_read_rnd Handler_read_rnd_next Handler_rollback Handler_savepoint \
    Handler_update Handler_write Innodb_buffer_pool_bytes_data Innodb_buffer_pool_pages_data \
    Innodb_buffer_pool_pages_dirty Innodb_buffer_pool_pages_free Innodb_buffer_pool_pages_total \
    Innodb_buffer_pool_read_requests Innodb_buffer_pool_reads Innodb_data_fsyncs Innodb_data_read \
    Innodb_data_written Innodb_log_waits Innodb_num_open_files Innodb_os_log_written Innodb_page_size \
    Innodb_row_lock_current_waits Innodb_row_lock_time Innodb_row_lock_waits Innodb_rows_inserted \
    Max_used_connections Open_files Open_table_definitions Open_tables Opened_files Opened_table_definitions \
    Opened_tables Queries Questions Select_full_join Select_full_range_join Select_range Select_range_check \
    Select_scan Slow_queries Sort_merge_passes Sort_range Sort_rows Sort_scan Table_locks_immediate \
    Table_locks_waited Table_open_cache_hits Table_open_cache_misses Table_open_cache_overflows Threads_cached \
    Threads_connected Threads_created Threads_running Uptime";

#[test]
fn status_has_what_dashboards_plot() {
    let dir = tempfile::tempdir().expect("folder");
    let server = Server::start(dir.path(), &["--skip-ssl"]);
    let mut client = server.connect();
    client.run("CREATE DATABASE d; CREATE TABLE d.t (id INT PRIMARY KEY); INSERT INTO d.t VALUES (1), (2), (3)");
    let rows = client.rows("SHOW GLOBAL STATUS");
    let name = |row: &Vec<Option<String>>| row[0].clone().unwrap_or_default();
    let names: Vec<String> = rows.iter().map(name).collect();
    assert!(names.windows(2).all(|w| w[0] < w[1]), "a name comes twice");
    let missing: Vec<_> = PLOTTED
        .split_whitespace()
        .filter(|name| !names.iter().any(|n| n == name))
        .collect();
    assert!(missing.is_empty(), "{missing:?}");
    assert!(names.len() > 430, "{}", names.len());
    let inserted = "SELECT VARIABLE_VALUE FROM performance_schema.global_status \
                    WHERE VARIABLE_NAME = 'Innodb_rows_inserted'";
    assert_eq!(client.value(inserted), "3");
    assert_eq!(
        client.lines(
            "SELECT NAME, STATUS FROM information_schema.INNODB_METRICS WHERE NAME = 'dml_inserts'"
        ),
        ["dml_inserts|enabled"]
    );
}
