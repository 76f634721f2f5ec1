//! What real clients send, in their order: every statement is answered as MySQL 8.4 answers it.
//!
//! Statements were recorded from the clients' sessions with a MySQL-compatible server. A few went only
//! to servers of MariaDB, or use what MySQL 8.4 has removed; those fail with MySQL's error.
//! **Invariant**: the sessions share one database and run in the order of [`SESSIONS`], because later
//! ones look at tables of earlier ones.

use std::process::Command;

use esker_server::client::{Client, ClientError, QueryResult};

use crate::common::{Ask, Server, has_client, output, python};

/// A statement and what comes of it.
#[derive(Clone, Copy)]
enum Answer {
    /// It succeeds.
    Fine(&'static str),
    /// It succeeds with these rows, cells separated by `|`.
    Gives(&'static [&'static str], &'static str),
    /// It fails with this number.
    Fails(u16, &'static str),
}
use Answer::{Fails, Fine, Gives};

/// All sessions: name, and what is said.
const SESSIONS: [(&str, &[Answer]); 14] = [
    ("sqlalchemy", SQLALCHEMY),
    ("knex", KNEX),
    ("connector-j", CONNECTOR_J),
    ("connector-j with prepared statements", CONNECTOR_J_PREPARES),
    ("go", GO),
    ("mysqldump", DUMP),
    ("mysqladmin", ADMIN),
    ("connector-python", CONNECTOR_PYTHON),
    ("pymysql", PYMYSQL),
    ("mysql2", MYSQL2),
    ("command line", COMMAND_LINE),
    ("xa", XA),
    ("sysbench prepare", SYSBENCH_PREPARE),
    ("sysbench run", SYSBENCH_RUN),
];

#[test]
fn statements_of_clients_are_answered() {
    let dir = tempfile::tempdir().expect("folder");
    let server = Server::start(dir.path(), &["--skip-ssl"]);
    server.connect().run("CREATE DATABASE d");
    let mut wrong = Vec::new();
    for (name, answers) in SESSIONS {
        let mut client =
            Client::connect("127.0.0.1", server.port, "root", "", Some("d")).expect("connect");
        for &answer in answers {
            check(name, &mut client, answer, &mut wrong);
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Notes a difference, so that one run shows all of them.
fn check(name: &str, client: &mut Client, answer: Answer, wrong: &mut Vec<String>) {
    let (sql, expected) = match answer {
        Fine(sql) | Gives(_, sql) => (sql, None),
        Fails(code, sql) => (sql, Some(code)),
    };
    let mut lines = Vec::new();
    let mut collect = |result| {
        if let QueryResult::Rows { rows, .. } = result {
            lines = rows.iter().map(|row| line(row)).collect();
        }
    };
    let got = match client.query(sql, &mut collect) {
        Ok(()) => None,
        Err(ClientError::Server(e)) => Some(e.code),
        Err(e) => panic!("{name}: {sql}: {e}"),
    };
    if got != expected {
        wrong.push(format!("{name}: {sql}: {got:?} instead of {expected:?}"));
    } else if let Gives(rows, _) = answer
        && lines != rows
    {
        wrong.push(format!("{name}: {sql}: {lines:#?}"));
    }
}

/// A row, cells separated by `|`.
fn line(row: &[Option<Vec<u8>>]) -> String {
    let cells: Vec<_> = row
        .iter()
        .map(|c| match c {
            Some(bytes) => String::from_utf8_lossy(bytes).into_owned(),
            None => "NULL".to_owned(),
        })
        .collect();
    cells.join("|")
}

/// A client program on `server`, and its output.
fn program(server: &Server, name: &str, args: &[&str]) -> String {
    let out = Command::new(name)
        .args(["--no-defaults", "-h127.0.0.1", "-uroot", "--skip-ssl"])
        .arg(format!("-P{}", server.port))
        .args(args)
        .output()
        .unwrap_or_else(|e| panic!("{name}: {e}; see .ci/run"));
    let errors = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success(), "{name} {args:?}: {errors}");
    String::from_utf8_lossy(&out.stdout).into_owned()
}

#[test]
fn a_dump_makes_the_same_tables_again() {
    if !has_client(
        "mariadb-dump",
        Command::new("mariadb-dump").arg("--version"),
    ) {
        return;
    }
    let dir = tempfile::tempdir().expect("folder");
    let server = Server::start(dir.path(), &["--skip-ssl"]);
    let mut c = server.connect();
    c.run(
        "CREATE DATABASE d; CREATE DATABASE copy; USE d; \
         CREATE TABLE t (id INT AUTO_INCREMENT PRIMARY KEY, s VARCHAR(20) DEFAULT 'x', b BLOB, \
         e ENUM('p','q'), n DECIMAL(9,3), at TIMESTAMP(3) NULL, KEY (s)); \
         INSERT INTO t (s, b, e, n, at) VALUES ('it''s\\n', x'00ff275c', 'q', -1.5, \
         '2024-02-29 01:02:03.456'), (NULL, NULL, NULL, NULL, NULL)",
    );
    let dump = program(
        &server,
        "mariadb-dump",
        &[
            "--single-transaction",
            "--routines",
            "--events",
            "--triggers",
            "--hex-blob",
            "d",
        ],
    );
    let file = dir.path().join("dump.sql");
    std::fs::write(&file, dump).expect("dump");
    program(
        &server,
        "mariadb",
        &["copy", "-e", &format!("source {}", file.display())],
    );
    for of in [
        "SHOW CREATE TABLE {}.t",
        "SELECT *, HEX(b) FROM {}.t ORDER BY id",
    ] {
        let original = c.lines(&of.replace("{}", "d"));
        assert!(!original.is_empty());
        assert_eq!(c.lines(&of.replace("{}", "copy")), original);
    }
}

#[test]
fn the_administrators_program() {
    if !has_client(
        "mariadb-admin",
        Command::new("mariadb-admin").arg("--version"),
    ) {
        return;
    }
    let dir = tempfile::tempdir().expect("folder");
    let server = Server::start(dir.path(), &["--skip-ssl"]);
    assert!(program(&server, "mariadb-admin", &["ping"]).contains("alive"));
    assert!(program(&server, "mariadb-admin", &["status"]).starts_with("Uptime: "));
    assert!(program(&server, "mariadb-admin", &["extended-status"]).contains("Threads_connected"));
    assert!(program(&server, "mariadb-admin", &["variables"]).contains("transaction_isolation"));
    assert!(program(&server, "mariadb-admin", &["processlist"]).contains("show processlist"));
    program(&server, "mariadb-admin", &["create", "made"]);
    assert_eq!(
        server.connect().lines("SHOW DATABASES LIKE 'made'"),
        ["made"]
    );
}

/// A streaming cursor of dictionaries, read in part, read to the end, and left.
const STREAMING: &str = r#"
import sys, pymysql
from pymysql.cursors import SSDictCursor
c = pymysql.connect(host="127.0.0.1", port=int(sys.argv[1]), user="root", database="d",
                    ssl_disabled=True, cursorclass=SSDictCursor)
with c.cursor() as cur:
    cur.execute("CREATE TABLE ss (id INT PRIMARY KEY, s VARCHAR(20))")
    cur.executemany("INSERT INTO ss VALUES (%s, %s)", [(i, "v%d" % i) for i in range(3000)])
c.commit()
with c.cursor() as cur:
    cur.execute("SELECT id, s FROM ss ORDER BY id")
    assert cur.fetchone() == {"id": 0, "s": "v0"}
    assert cur.fetchmany(2) == [{"id": 1, "s": "v1"}, {"id": 2, "s": "v2"}]
    rest = list(cur)
    assert len(rest) == 2997 and rest[-1] == {"id": 2999, "s": "v2999"}, len(rest)
with c.cursor() as cur:
    cur.execute("SELECT id FROM ss")
    cur.fetchone()
with c.cursor() as cur:
    cur.execute("SELECT a.id, b.id FROM ss a JOIN ss b ON a.id = b.id WHERE a.id = 7")
    assert list(cur) == [{"id": 7, "b.id": 7}]
    cur.execute("SELECT COUNT(*) AS n FROM ss")
    assert list(cur) == [{"n": 3000}]
print("fine")
"#;

#[test]
fn pymysql_streams_dictionaries() {
    let Some(mut python) = python() else { return };
    let dir = tempfile::tempdir().expect("folder");
    let server = Server::start(dir.path(), &["--skip-ssl"]);
    server.connect().run("CREATE DATABASE d");
    let got = output(python.args(["-c", STREAMING]).arg(server.port.to_string()));
    assert_eq!(got, "fine\n");
}

/// What Connector/J asks on every connection.
const CONNECTOR_J_CONNECTS: &str = "/* mysql-connector-j-26.10.0 (Revision: \
                                    fac9201148ebe3f84a5754cb86ebbacaf1cdce7f) */SELECT  \
                                    @@session.auto_increment_increment AS \
                                    auto_increment_increment, @@character_set_client AS \
                                    character_set_client, @@character_set_connection AS \
                                    character_set_connection, @@character_set_results AS \
                                    character_set_results, @@character_set_server AS \
                                    character_set_server, @@collation_server AS \
                                    collation_server, @@collation_connection AS \
                                    collation_connection, @@init_connect AS init_connect, \
                                    @@interactive_timeout AS interactive_timeout, @@license \
                                    AS license, @@lower_case_table_names AS \
                                    lower_case_table_names, @@max_allowed_packet AS \
                                    max_allowed_packet, @@net_write_timeout AS \
                                    net_write_timeout, @@performance_schema AS \
                                    performance_schema, @@sql_mode AS sql_mode, \
                                    @@system_time_zone AS system_time_zone, @@time_zone AS \
                                    time_zone, @@transaction_isolation AS \
                                    transaction_isolation, @@wait_timeout AS wait_timeout";

/// SQLAlchemy: connecting, creating a table, reflecting it.
#[rustfmt::skip] // a statement a paragraph
const SQLALCHEMY: &[Answer] = &[
    Fine("SET NAMES utf8mb4"),
    Fine("SET AUTOCOMMIT = 0"),
    Fine("SELECT VERSION()"),
    Gives(&["d"], "SELECT DATABASE()"),
    Fails(1193, "SELECT @@tx_isolation"),
    Fine("SELECT @@sql_mode"),
    Gives(&["0"], "SELECT @@lower_case_table_names"),
    Fine("ROLLBACK"),
    Fails(1146, "DESCRIBE `d`.`sa`"),
    Fine("COMMIT"),
    Fine("CREATE TABLE sa (\n\tid INTEGER NOT NULL AUTO_INCREMENT, \n\ts VARCHAR(20), \n\tn \
          FLOAT, \n\tPRIMARY KEY (id)\n)\n\n"),
    Gives(&[
        "id|int|NO|PRI|NULL|auto_increment", "s|varchar(20)|YES||NULL|", "n|float|YES||NULL|",
    ], "DESCRIBE `d`.`sa`"),
    Fine("CREATE INDEX ix_sa_s ON sa (s)"),
    Fine("INSERT INTO sa (id, s, n) VALUES (1, 'a', 1.5e0)"),
    Gives(&["sa|BASE TABLE"], "SHOW FULL TABLES FROM `d`"),
    Fine("SHOW CREATE TABLE `sa`"),
];

/// Knex: its schema builder and a transaction.
#[rustfmt::skip] // a statement a paragraph
const KNEX: &[Answer] = &[
    Fine("select version() as version"),
    Fine("drop table if exists `kx`"),
    Fine("create table `kx` (`id` int unsigned not null auto_increment primary key, `n` \
          varchar(255))"),
    Fine("alter table `kx` add index `kx_n_index`(`n`)"),
    Fine("select * from information_schema.tables where table_name = 'kx' and table_schema = \
          database()"),
    Fine("BEGIN"),
    Fine("insert into `kx` (`n`) values ('a')"),
    Fine("COMMIT"),
];

/// Connector/J: connecting, transactions, `DatabaseMetaData`.
#[rustfmt::skip] // a statement a paragraph
const CONNECTOR_J: &[Answer] = &[
    Fine(CONNECTOR_J_CONNECTS),
    Fine("SET character_set_results = NULL"),
    Fine("SET autocommit=1"),
    Gives(&["1"], "select 1"),
    Fine("SET autocommit=0"),
    Fine("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED"),
    Fine("COMMIT"),
    Fine("SET SESSION TRANSACTION READ ONLY"),
    Fine("SET SESSION TRANSACTION READ WRITE"),
    Fine("SAVEPOINT `s1`"),
    Gives(&["0"], "SELECT @@session.transaction_read_only"),
    Fine("insert into sa values(100,'x',1)"),
    Fine("insert into sa values(101,'x',1)"),
    Fine("insert into sa values(102,'x',1)"),
    Fine("ROLLBACK"),
    Gives(&[
        "d|NULL|kx|TABLE||NULL|NULL|NULL|NULL|NULL",
        "d|NULL|sa|TABLE||NULL|NULL|NULL|NULL|NULL",
    ], "SELECT TABLE_SCHEMA AS TABLE_CAT, NULL AS TABLE_SCHEM, TABLE_NAME, CASE WHEN \
          TABLE_TYPE = 'BASE TABLE' THEN CASE WHEN TABLE_SCHEMA = 'mysql' OR TABLE_SCHEMA = \
          'performance_schema' OR TABLE_SCHEMA = 'sys' THEN 'SYSTEM TABLE' ELSE 'TABLE' END \
          WHEN TABLE_TYPE = 'TEMPORARY' THEN 'LOCAL_TEMPORARY' ELSE TABLE_TYPE END AS \
          TABLE_TYPE, TABLE_COMMENT AS REMARKS, NULL AS TYPE_CAT, NULL AS TYPE_SCHEM, NULL \
          AS TYPE_NAME, NULL AS SELF_REFERENCING_COL_NAME, NULL AS REF_GENERATION FROM \
          INFORMATION_SCHEMA.TABLES WHERE TABLE_SCHEMA = 'd' AND TABLE_NAME LIKE '%' HAVING \
          TABLE_TYPE IN ('TABLE','VIEW',null,null,null) ORDER BY TABLE_TYPE, TABLE_SCHEMA, \
          TABLE_NAME"),
    Gives(&["utf8mb3_general_ci"], "SELECT DEFAULT_COLLATION_NAME FROM \
                                     INFORMATION_SCHEMA.SCHEMATA WHERE SCHEMA_NAME = \
                                     'information_schema'"),
    Gives(&[
        "d|NULL|sa|id|4|INT|10|65535|NULL|10|0||NULL|0|0|NULL|1|NO|NULL|NULL|NULL|NULL|YES|\
           NO",
        "d|NULL|sa|s|12|VARCHAR|20|65535|NULL|10|1||NULL|0|0|80|2|YES|NULL|NULL|NULL|NULL|N\
           O|NO",
        "d|NULL|sa|n|7|FLOAT|12|65535|0|10|1||NULL|0|0|NULL|3|YES|NULL|NULL|NULL|NULL|NO|NO",
    ], "SELECT TABLE_SCHEMA, NULL, TABLE_NAME, COLUMN_NAME, CASE WHEN UPPER(DATA_TYPE) = \
          'DECIMAL' THEN 3 WHEN UPPER(DATA_TYPE) = 'DECIMAL UNSIGNED' THEN 3 WHEN \
          UPPER(DATA_TYPE) = 'TINYINT' THEN IF(LOCATE('ZEROFILL', UPPER(COLUMN_TYPE)) = 0 \
          AND LOCATE('UNSIGNED', UPPER(COLUMN_TYPE)) = 0 AND LOCATE('(1)', COLUMN_TYPE) != \
          0, -7, -6) WHEN UPPER(DATA_TYPE) = 'TINYINT UNSIGNED' THEN IF(LOCATE('ZEROFILL', \
          UPPER(COLUMN_TYPE)) = 0 AND LOCATE('UNSIGNED', UPPER(COLUMN_TYPE)) = 0 AND \
          LOCATE('(1)', COLUMN_TYPE) != 0, -7, -6) WHEN UPPER(DATA_TYPE) = 'BOOLEAN' THEN 16 \
          WHEN UPPER(DATA_TYPE) = 'SMALLINT' THEN 5 WHEN UPPER(DATA_TYPE) = 'SMALLINT \
          UNSIGNED' THEN 5 WHEN UPPER(DATA_TYPE) = 'INT' THEN 4 WHEN UPPER(DATA_TYPE) = 'INT \
          UNSIGNED' THEN 4 WHEN UPPER(DATA_TYPE) = 'FLOAT' THEN 7 WHEN UPPER(DATA_TYPE) = \
          'FLOAT UNSIGNED' THEN 7 WHEN UPPER(DATA_TYPE) = 'DOUBLE' THEN 8 WHEN \
          UPPER(DATA_TYPE) = 'DOUBLE UNSIGNED' THEN 8 WHEN UPPER(DATA_TYPE) = 'NULL' THEN 0 \
          WHEN UPPER(DATA_TYPE) = 'TIMESTAMP' THEN 93 WHEN UPPER(DATA_TYPE) = 'BIGINT' THEN \
          -5 WHEN UPPER(DATA_TYPE) = 'BIGINT UNSIGNED' THEN -5 WHEN UPPER(DATA_TYPE) = \
          'MEDIUMINT' THEN 4 WHEN UPPER(DATA_TYPE) = 'MEDIUMINT UNSIGNED' THEN 4 WHEN \
          UPPER(DATA_TYPE) = 'DATE' THEN 91 WHEN UPPER(DATA_TYPE) = 'TIME' THEN 92 WHEN \
          UPPER(DATA_TYPE) = 'DATETIME' THEN 93 WHEN UPPER(DATA_TYPE) = 'YEAR' THEN 91 WHEN \
          UPPER(DATA_TYPE) = 'VARCHAR' THEN 12 WHEN UPPER(DATA_TYPE) = 'VARBINARY' THEN -3 \
          WHEN UPPER(DATA_TYPE) = 'BIT' THEN -7 WHEN UPPER(DATA_TYPE) = 'JSON' THEN -1 WHEN \
          UPPER(DATA_TYPE) = 'ENUM' THEN 1 WHEN UPPER(DATA_TYPE) = 'SET' THEN 1 WHEN \
          UPPER(DATA_TYPE) = 'TINYBLOB' THEN -3 WHEN UPPER(DATA_TYPE) = 'TINYTEXT' THEN 12 \
          WHEN UPPER(DATA_TYPE) = 'MEDIUMBLOB' THEN -4 WHEN UPPER(DATA_TYPE) = 'MEDIUMTEXT' \
          THEN -1 WHEN UPPER(DATA_TYPE) = 'LONGBLOB' THEN -4 WHEN UPPER(DATA_TYPE) = \
          'LONGTEXT' THEN -1 WHEN UPPER(DATA_TYPE) = 'BLOB' THEN -4 WHEN UPPER(DATA_TYPE) = \
          'TEXT' THEN -1 WHEN UPPER(DATA_TYPE) = 'CHAR' THEN 1 WHEN UPPER(DATA_TYPE) = \
          'BINARY' THEN -2 WHEN UPPER(DATA_TYPE) = 'GEOMETRY' THEN -2 WHEN UPPER(DATA_TYPE) \
          = 'VECTOR' THEN -4 WHEN UPPER(DATA_TYPE) = 'UNKNOWN' THEN 1111 WHEN \
          UPPER(DATA_TYPE) = 'POINT' THEN -2 WHEN UPPER(DATA_TYPE) = 'LINESTRING' THEN -2 \
          WHEN UPPER(DATA_TYPE) = 'POLYGON' THEN -2 WHEN UPPER(DATA_TYPE) = 'MULTIPOINT' \
          THEN -2 WHEN UPPER(DATA_TYPE) = 'MULTILINESTRING' THEN -2 WHEN UPPER(DATA_TYPE) = \
          'MULTIPOLYGON' THEN -2 WHEN UPPER(DATA_TYPE) = 'GEOMETRYCOLLECTION' THEN -2 WHEN \
          UPPER(DATA_TYPE) = 'GEOMCOLLECTION' THEN -2 ELSE 1111 END AS DATA_TYPE, UPPER(CASE \
          WHEN UPPER(DATA_TYPE) = 'TINYINT' THEN CASE WHEN LOCATE('ZEROFILL', \
          UPPER(COLUMN_TYPE)) = 0 AND LOCATE('UNSIGNED', UPPER(COLUMN_TYPE)) = 0 AND \
          LOCATE('(1)', COLUMN_TYPE) != 0 THEN 'BIT' WHEN LOCATE('UNSIGNED', \
          UPPER(COLUMN_TYPE)) != 0 AND LOCATE('UNSIGNED', UPPER(DATA_TYPE)) = 0 THEN \
          'TINYINT UNSIGNED' ELSE DATA_TYPE END WHEN LOCATE('UNSIGNED', UPPER(COLUMN_TYPE)) \
          != 0 AND LOCATE('UNSIGNED', UPPER(DATA_TYPE)) = 0 AND LOCATE('SET', \
          UPPER(DATA_TYPE)) <> 1 AND LOCATE('ENUM', UPPER(DATA_TYPE)) <> 1 THEN \
          CONCAT(DATA_TYPE, ' UNSIGNED') WHEN UPPER(DATA_TYPE) = 'POINT' THEN 'GEOMETRY' \
          WHEN UPPER(DATA_TYPE) = 'LINESTRING' THEN 'GEOMETRY' WHEN UPPER(DATA_TYPE) = \
          'POLYGON' THEN 'GEOMETRY' WHEN UPPER(DATA_TYPE) = 'MULTIPOINT' THEN 'GEOMETRY' \
          WHEN UPPER(DATA_TYPE) = 'MULTILINESTRING' THEN 'GEOMETRY' WHEN UPPER(DATA_TYPE) = \
          'MULTIPOLYGON' THEN 'GEOMETRY' WHEN UPPER(DATA_TYPE) = 'GEOMETRYCOLLECTION' THEN \
          'GEOMETRY' WHEN UPPER(DATA_TYPE) = 'GEOMCOLLECTION' THEN 'GEOMETRY' ELSE \
          UPPER(DATA_TYPE) END) AS TYPE_NAME, UPPER(CASE WHEN UPPER(DATA_TYPE) = 'YEAR' THEN \
          4 WHEN UPPER(DATA_TYPE) = 'DATE' THEN 10 WHEN UPPER(DATA_TYPE) = 'DATETIME' OR \
          UPPER(DATA_TYPE) = 'TIMESTAMP' THEN 19 + IF(DATETIME_PRECISION > 0, \
          DATETIME_PRECISION + 1, DATETIME_PRECISION) WHEN UPPER(DATA_TYPE) = 'TIME' THEN 8 \
          + IF(DATETIME_PRECISION > 0, DATETIME_PRECISION + 1, DATETIME_PRECISION) WHEN \
          UPPER(DATA_TYPE) = 'TINYINT' AND LOCATE('ZEROFILL', UPPER(COLUMN_TYPE)) = 0 AND \
          LOCATE('UNSIGNED', UPPER(COLUMN_TYPE)) = 0 AND LOCATE('(1)', COLUMN_TYPE) != 0 \
          THEN 1 WHEN UPPER(DATA_TYPE) = 'MEDIUMINT' AND LOCATE('UNSIGNED', \
          UPPER(COLUMN_TYPE)) != 0 THEN 8 WHEN UPPER(DATA_TYPE) = 'JSON' THEN 1073741824 \
          WHEN UPPER(DATA_TYPE) = 'GEOMETRY' THEN 65535 WHEN UPPER(DATA_TYPE) = 'POINT' THEN \
          65535 WHEN UPPER(DATA_TYPE) = 'LINESTRING' THEN 65535 WHEN UPPER(DATA_TYPE) = \
          'POLYGON' THEN 65535 WHEN UPPER(DATA_TYPE) = 'MULTIPOINT' THEN 65535 WHEN \
          UPPER(DATA_TYPE) = 'MULTILINESTRING' THEN 65535 WHEN UPPER(DATA_TYPE) = \
          'MULTIPOLYGON' THEN 65535 WHEN UPPER(DATA_TYPE) = 'GEOMETRYCOLLECTION' THEN 65535 \
          WHEN UPPER(DATA_TYPE) = 'GEOMCOLLECTION' THEN 65535 WHEN CHARACTER_MAXIMUM_LENGTH \
          IS NULL THEN NUMERIC_PRECISION WHEN CHARACTER_MAXIMUM_LENGTH > 2147483647 THEN \
          2147483647 ELSE CHARACTER_MAXIMUM_LENGTH END) AS COLUMN_SIZE, 65535 AS \
          BUFFER_LENGTH, UPPER(CASE WHEN UPPER(DATA_TYPE) = 'DECIMAL' THEN NUMERIC_SCALE \
          WHEN UPPER(DATA_TYPE) = 'FLOAT' OR UPPER(DATA_TYPE) = 'DOUBLE' THEN \
          IF(NUMERIC_SCALE IS NULL, 0, NUMERIC_SCALE) ELSE NULL END) AS DECIMAL_DIGITS, 10 \
          AS NUM_PREC_RADIX, CASE WHEN IS_NULLABLE COLLATE utf8mb3_general_ci= 'NO' THEN 0 \
          ELSE CASE WHEN IS_NULLABLE COLLATE utf8mb3_general_ci= 'YES' THEN 1 ELSE 2 END END \
          AS NULLABLE, COLUMN_COMMENT AS REMARKS, COLUMN_DEFAULT AS COLUMN_DEF, 0 AS \
          SQL_DATA_TYPE, 0 AS SQL_DATETIME_SUB, CASE WHEN CHARACTER_OCTET_LENGTH > \
          2147483647 THEN 2147483647 ELSE CHARACTER_OCTET_LENGTH END AS CHAR_OCTET_LENGTH, \
          ORDINAL_POSITION, IS_NULLABLE, NULL AS SCOPE_CATALOG, NULL AS SCOPE_SCHEMA, NULL \
          AS SCOPE_TABLE, NULL AS SOURCE_DATA_TYPE, IF (EXTRA COLLATE utf8mb3_general_ci \
          LIKE '%auto_increment%','YES','NO') AS IS_AUTOINCREMENT, IF (EXTRA COLLATE \
          utf8mb3_general_ci LIKE  '%GENERATED%','YES','NO') AS IS_GENERATEDCOLUMN FROM \
          INFORMATION_SCHEMA.COLUMNS WHERE TABLE_SCHEMA = 'd' AND TABLE_NAME = 'sa' AND \
          COLUMN_NAME LIKE '%' ORDER BY TABLE_SCHEMA, TABLE_NAME, ORDINAL_POSITION"),
    Fine("SELECT TABLE_SCHEMA AS TABLE_CAT, NULL AS TABLE_SCHEM, TABLE_NAME, NON_UNIQUE, \
          NULL AS INDEX_QUALIFIER, INDEX_NAME, 3 AS TYPE, SEQ_IN_INDEX AS ORDINAL_POSITION, \
          COLUMN_NAME, COLLATION AS ASC_OR_DESC, CARDINALITY, 0 AS PAGES, NULL AS \
          FILTER_CONDITION FROM INFORMATION_SCHEMA.STATISTICS WHERE TABLE_SCHEMA = 'd' AND \
          TABLE_NAME = 'sa' ORDER BY NON_UNIQUE, INDEX_NAME, SEQ_IN_INDEX"),
    Gives(&["d|NULL|sa|id|1|PRIMARY"], "SELECT TABLE_SCHEMA AS TABLE_CAT, NULL AS \
                                         TABLE_SCHEM, TABLE_NAME, COLUMN_NAME, SEQ_IN_INDEX \
                                         AS KEY_SEQ, 'PRIMARY' AS PK_NAME FROM \
                                         INFORMATION_SCHEMA.STATISTICS WHERE TABLE_SCHEMA = \
                                         'd' AND TABLE_NAME = 'sa' AND INDEX_NAME = \
                                         'PRIMARY' ORDER BY TABLE_SCHEMA, TABLE_NAME, \
                                         COLUMN_NAME, SEQ_IN_INDEX"),
    Gives(&[], "SELECT DISTINCT A.REFERENCED_TABLE_SCHEMA AS PKTABLE_CAT, NULL AS \
                 PKTABLE_SCHEM, A.REFERENCED_TABLE_NAME AS PKTABLE_NAME, \
                 A.REFERENCED_COLUMN_NAME AS PKCOLUMN_NAME, A.TABLE_SCHEMA AS FKTABLE_CAT, \
                 NULL AS FKTABLE_SCHEM, A.TABLE_NAME AS FKTABLE_NAME, A.COLUMN_NAME AS \
                 FKCOLUMN_NAME, A.ORDINAL_POSITION AS KEY_SEQ, CASE WHEN R.UPDATE_RULE = \
                 'CASCADE' THEN 0 WHEN R.UPDATE_RULE = 'SET NULL' THEN 2 WHEN R.UPDATE_RULE \
                 = 'SET DEFAULT' THEN 4 WHEN R.UPDATE_RULE = 'RESTRICT' THEN 1 WHEN \
                 R.UPDATE_RULE = 'NO ACTION' THEN 1 ELSE 1 END AS UPDATE_RULE, CASE WHEN \
                 R.DELETE_RULE = 'CASCADE' THEN 0 WHEN R.DELETE_RULE = 'SET NULL' THEN 2 \
                 WHEN R.DELETE_RULE = 'SET DEFAULT' THEN 4 WHEN R.DELETE_RULE = 'RESTRICT' \
                 THEN 1 WHEN R.DELETE_RULE = 'NO ACTION' THEN 1 ELSE 1 END AS DELETE_RULE, \
                 A.CONSTRAINT_NAME AS FK_NAME, R.UNIQUE_CONSTRAINT_NAME AS PK_NAME, 7 AS \
                 DEFERRABILITY FROM INFORMATION_SCHEMA.KEY_COLUMN_USAGE A JOIN \
                 INFORMATION_SCHEMA.TABLE_CONSTRAINTS B USING (CONSTRAINT_SCHEMA, \
                 CONSTRAINT_NAME, TABLE_NAME) JOIN \
                 INFORMATION_SCHEMA.REFERENTIAL_CONSTRAINTS R ON (R.CONSTRAINT_NAME = \
                 B.CONSTRAINT_NAME AND R.TABLE_NAME = B.TABLE_NAME AND R.CONSTRAINT_SCHEMA = \
                 B.TABLE_SCHEMA)WHERE B.CONSTRAINT_TYPE = 'FOREIGN KEY' AND A.TABLE_SCHEMA = \
                 'd' AND A.TABLE_NAME = 'sa' AND A.REFERENCED_TABLE_SCHEMA IS NOT NULL ORDER \
                 BY A.REFERENCED_TABLE_SCHEMA, A.REFERENCED_TABLE_NAME, A.ORDINAL_POSITION"),
    Gives(&[], "SELECT DISTINCT A.REFERENCED_TABLE_SCHEMA AS PKTABLE_CAT, NULL AS \
                 PKTABLE_SCHEM, A.REFERENCED_TABLE_NAME AS PKTABLE_NAME, \
                 A.REFERENCED_COLUMN_NAME AS PKCOLUMN_NAME, A.TABLE_SCHEMA AS FKTABLE_CAT, \
                 NULL AS FKTABLE_SCHEM, A.TABLE_NAME AS FKTABLE_NAME, A.COLUMN_NAME AS \
                 FKCOLUMN_NAME, A.ORDINAL_POSITION AS KEY_SEQ, CASE WHEN R.UPDATE_RULE = \
                 'CASCADE' THEN 0 WHEN R.UPDATE_RULE = 'SET NULL' THEN 2 WHEN R.UPDATE_RULE \
                 = 'SET DEFAULT' THEN 4 WHEN R.UPDATE_RULE = 'RESTRICT' THEN 1 WHEN \
                 R.UPDATE_RULE = 'NO ACTION' THEN 1 ELSE 1 END AS UPDATE_RULE, CASE WHEN \
                 R.DELETE_RULE = 'CASCADE' THEN 0 WHEN R.DELETE_RULE = 'SET NULL' THEN 2 \
                 WHEN R.DELETE_RULE = 'SET DEFAULT' THEN 4 WHEN R.DELETE_RULE = 'RESTRICT' \
                 THEN 1 WHEN R.DELETE_RULE = 'NO ACTION' THEN 1 ELSE 1 END AS DELETE_RULE, \
                 A.CONSTRAINT_NAME AS FK_NAME, TC.CONSTRAINT_NAME AS PK_NAME, 7 AS \
                 DEFERRABILITY FROM INFORMATION_SCHEMA.KEY_COLUMN_USAGE A JOIN \
                 INFORMATION_SCHEMA.TABLE_CONSTRAINTS B USING (TABLE_SCHEMA, TABLE_NAME, \
                 CONSTRAINT_NAME) JOIN INFORMATION_SCHEMA.REFERENTIAL_CONSTRAINTS R ON \
                 (R.CONSTRAINT_NAME = B.CONSTRAINT_NAME AND R.TABLE_NAME = B.TABLE_NAME AND \
                 R.CONSTRAINT_SCHEMA = B.TABLE_SCHEMA) LEFT JOIN \
                 INFORMATION_SCHEMA.TABLE_CONSTRAINTS TC ON (A.REFERENCED_TABLE_SCHEMA = \
                 TC.TABLE_SCHEMA AND A.REFERENCED_TABLE_NAME = TC.TABLE_NAME AND \
                 TC.CONSTRAINT_TYPE IN ('UNIQUE', 'PRIMARY KEY')) WHERE B.CONSTRAINT_TYPE = \
                 'FOREIGN KEY' AND A.REFERENCED_TABLE_SCHEMA = 'd' AND \
                 A.REFERENCED_TABLE_NAME = 'sa' ORDER BY FKTABLE_CAT, FKTABLE_SCHEM, \
                 FKTABLE_NAME, KEY_SEQ"),
    Gives(&[], "SELECT ROUTINE_SCHEMA AS PROCEDURE_CAT, NULL AS PROCEDURE_SCHEM, \
                 ROUTINE_NAME AS PROCEDURE_NAME, NULL AS RESERVED_1, NULL AS RESERVED_2, \
                 NULL AS RESERVED_3, ROUTINE_COMMENT AS REMARKS, CASE WHEN ROUTINE_TYPE = \
                 'PROCEDURE' THEN 1 WHEN ROUTINE_TYPE = 'FUNCTION' THEN 2 ELSE 0 END AS \
                 PROCEDURE_TYPE, ROUTINE_NAME AS SPECIFIC_NAME FROM \
                 INFORMATION_SCHEMA.ROUTINES WHERE ROUTINE_SCHEMA = 'd' AND ROUTINE_NAME \
                 LIKE '%' ORDER BY ROUTINE_SCHEMA, ROUTINE_NAME, ROUTINE_TYPE"),
    Gives(&["d", "information_schema", "mysql", "performance_schema", "sys"],
          "SELECT SCHEMA_NAME AS TABLE_CAT FROM INFORMATION_SCHEMA.SCHEMATA ORDER BY TABLE_CAT"),
    Fine("SELECT TABLE_SCHEMA AS TABLE_CAT, NULL AS TABLE_SCHEM, TABLE_NAME, NULL AS \
          GRANTOR, GRANTEE, PRIVILEGE_TYPE AS PRIVILEGE, IS_GRANTABLE FROM \
          INFORMATION_SCHEMA.TABLE_PRIVILEGES WHERE TABLE_SCHEMA = 'd' AND TABLE_NAME = 'sa'"),
];

/// Connector/J with prepared statements of the server.
#[rustfmt::skip] // a statement a paragraph
const CONNECTOR_J_PREPARES: &[Answer] = &[
    Fine(CONNECTOR_J_CONNECTS),
    Fine("SET character_set_results = NULL"),
    Fine("SET autocommit=1"),
    Fine("PREPARE s FROM 'select ?'"),
    Gives(&["1"], "select 1"),
    Fine("SET autocommit=0"),
    Fine("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED"),
    Fine("COMMIT"),
    Fine("SET SESSION TRANSACTION READ ONLY"),
    Fine("SET SESSION TRANSACTION READ WRITE"),
    Fine("SAVEPOINT `s1`"),
    Fine("PREPARE s FROM 'insert into sa values(?,?,?)'"),
    Gives(&["0"], "SELECT @@session.transaction_read_only"),
    Fine("PREPARE s FROM 'insert into sa values(?,?,?),(?,?,?),(?,?,?)'"),
    Fine("insert into sa values(100,'x',1),(101,'x',1),(102,'x',1)"),
    Fine("ROLLBACK"),
];

/// Go-MySQL-Driver.
#[rustfmt::skip] // a statement a paragraph
const GO: &[Answer] = &[
    Fine("PREPARE s FROM 'select ?'"),
    Gives(&["1"], "select 1"),
    Fine("START TRANSACTION"),
    Fine("PREPARE s FROM 'insert ignore into sa values(?,?,?)'"),
    Fine("insert ignore into sa values(200,'z',1)"),
    Fine("COMMIT"),
    Gives(&["2"], "select 1; select 2"),
];

/// `mariadb-dump --single-transaction` with routines, events and triggers.
#[rustfmt::skip] // a statement a paragraph
const DUMP: &[Answer] = &[
    Fine("/*!40100 SET @@SQL_MODE='' */"),
    Fine("/*!40103 SET TIME_ZONE='+00:00' */"),
    Fine("/*M!100100 SET @@MAX_STATEMENT_TIME=0.000000 */"),
    Fine("/*M!100100 SET WAIT_TIMEOUT=DEFAULT */"),
    Gives(&[], "SHOW STATUS LIKE 'binlog_snapshot_%'"),
    Fine("SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ"),
    Fine("START TRANSACTION /*!40100 WITH CONSISTENT SNAPSHOT */"),
    Fails(1305, "SELECT BINLOG_GTID_POS('binlog.000001', '22222')"),
    Fine("UNLOCK TABLES"),
    Fine("set optimizer_switch='semijoin=off'"),
    Gives(&[], "SELECT LOGFILE_GROUP_NAME, FILE_NAME, TOTAL_EXTENTS, INITIAL_SIZE, ENGINE, \
                 EXTRA FROM INFORMATION_SCHEMA.FILES WHERE FILE_TYPE = 'UNDO LOG' AND \
                 FILE_NAME IS NOT NULL AND LOGFILE_GROUP_NAME IS NOT NULL AND \
                 LOGFILE_GROUP_NAME IN (SELECT DISTINCT LOGFILE_GROUP_NAME FROM \
                 INFORMATION_SCHEMA.FILES WHERE FILE_TYPE = 'DATAFILE' AND TABLESPACE_NAME \
                 IN (SELECT DISTINCT TABLESPACE_NAME FROM INFORMATION_SCHEMA.PARTITIONS \
                 WHERE TABLE_SCHEMA IN ('d'))) GROUP BY LOGFILE_GROUP_NAME, FILE_NAME, \
                 ENGINE, TOTAL_EXTENTS, INITIAL_SIZE ORDER BY LOGFILE_GROUP_NAME"),
    Gives(&[], "SELECT DISTINCT TABLESPACE_NAME, FILE_NAME, LOGFILE_GROUP_NAME, \
                 EXTENT_SIZE, INITIAL_SIZE, ENGINE FROM INFORMATION_SCHEMA.FILES WHERE \
                 FILE_TYPE = 'DATAFILE' AND TABLESPACE_NAME IN (SELECT DISTINCT \
                 TABLESPACE_NAME FROM INFORMATION_SCHEMA.PARTITIONS WHERE TABLE_SCHEMA IN \
                 ('d')) ORDER BY TABLESPACE_NAME, LOGFILE_GROUP_NAME"),
    Fine("set optimizer_switch=default"),
    Fine("USE d"),
    Fine("SAVEPOINT sp"),
    Gives(&["kx|BASE TABLE", "sa|BASE TABLE"], "SHOW FULL TABLES"),
    Fine("SELECT engine, table_type FROM INFORMATION_SCHEMA.TABLES WHERE table_schema = \
          DATABASE() AND table_name = 'kx'"),
    Fine("SET SQL_QUOTE_SHOW_CREATE=1"),
    Fine("SET SESSION character_set_results = 'binary'"),
    Fine("show create table `kx`"),
    Fine("SET SESSION character_set_results = 'utf8mb4'"),
    Gives(&["id|auto_increment||int", "n|||varchar"], "select column_name, extra, \
                                                        generation_expression, data_type \
                                                        from information_schema.columns \
                                                        where table_schema=database() and \
                                                        table_name='kx' order by \
                                                        ordinal_position"),
    Gives(&["1|a"], "SELECT /*!40001 SQL_NO_CACHE */ `id`, `n` FROM `kx`"),
    Gives(&["utf8mb4_0900_ai_ci"], "select @@collation_database"),
    Gives(&[], "SELECT TRIGGER_NAME FROM INFORMATION_SCHEMA.TRIGGERS WHERE \
                 EVENT_OBJECT_SCHEMA = DATABASE() AND EVENT_OBJECT_TABLE = 'kx'"),
    Fine("SET SESSION character_set_results = 'utf8mb4'"),
    Fine("ROLLBACK TO SAVEPOINT sp"),
    Fine("SET SESSION character_set_results = 'utf8mb4'"),
    Fine("SET SESSION character_set_results = 'utf8mb4'"),
    Fine("ROLLBACK TO SAVEPOINT sp"),
    Fine("SET SESSION character_set_results = 'utf8mb4'"),
    Fine("SET SESSION character_set_results = 'utf8mb4'"),
    Fine("ROLLBACK TO SAVEPOINT sp"),
    Fine("SET SESSION character_set_results = 'utf8mb4'"),
    Fine("SET SESSION character_set_results = 'utf8mb4'"),
    Fine("ROLLBACK TO SAVEPOINT sp"),
    Fine("RELEASE SAVEPOINT sp"),
    Gives(&[], "show events"),
    Gives(&[], "SHOW FUNCTION STATUS WHERE Db = 'd'"),
    Gives(&[], "SHOW PROCEDURE STATUS WHERE Db = 'd'"),
    Gives(&[], "SHOW PACKAGE STATUS WHERE Db = 'd'"),
    Gives(&[], "SHOW PACKAGE BODY STATUS WHERE Db = 'd'"),
    Fine("SET SESSION character_set_results = 'utf8mb4'"),
];

/// `mysqladmin extended-status`.
#[rustfmt::skip] // a statement a paragraph
const ADMIN: &[Answer] = &[
    Fine("show /*!50002 GLOBAL */ status"),
];

/// Connector/Python.
#[rustfmt::skip] // a statement a paragraph
const CONNECTOR_PYTHON: &[Answer] = &[
    Fine("SET NAMES 'utf8mb4' COLLATE 'utf8mb4_0900_ai_ci'"),
    Fine("SET @@session.autocommit = OFF"),
    Fine("SELECT @@session.sql_mode"),
    Gives(&["1"], "select 1"),
    Fine("COMMIT"),
    Fine("PREPARE s FROM 'select ?'"),
    Fails(1231, "SET @@session.sql_mode = \
                     'STRICT_TRANS_TABLES,ERROR_FOR_DIVISION_BY_ZERO,NO_AUTO_CREATE_USER,NO_E\
                     NGINE_SUBSTITUTION'"),
];

/// PyMySQL.
#[rustfmt::skip] // a statement a paragraph
const PYMYSQL: &[Answer] = &[
    Fine("SET NAMES utf8mb4"),
    Fine("SET AUTOCOMMIT = 0"),
    Gives(&["1"], "select 1"),
    Fine("COMMIT"),
];

/// mysql2 of Node.
#[rustfmt::skip] // a statement a paragraph
const MYSQL2: &[Answer] = &[
    Gives(&["1"], "select 1"),
    Fine("PREPARE s FROM 'select ?'"),
    Gives(&["2"], "select 2"),
];

/// The command line.
#[rustfmt::skip] // a statement a paragraph
const COMMAND_LINE: &[Answer] = &[
    Gives(&["1"], "select 1"),
    Fails(1064, "status"),
];

/// Connector/J as an XA resource.
#[rustfmt::skip] // a statement a paragraph
const XA: &[Answer] = &[
    Fine(CONNECTOR_J_CONNECTS),
    Fine("SET character_set_results = NULL"),
    Fine("SET autocommit=1"),
    Fine("XA START 0x6731,0x6231,0x1"),
    Fine("insert ignore into sa values(300,'x',1)"),
    Fine("XA END 0x6731,0x6231,0x1"),
    Fine("XA PREPARE 0x6731,0x6231,0x1"),
    Gives(&["1|2|2|g1b1"], "XA RECOVER"),
    Fine("XA COMMIT 0x6731,0x6231,0x1"),
];

/// sysbench, prepare.
#[rustfmt::skip] // a statement a paragraph
const SYSBENCH_PREPARE: &[Answer] = &[
    Fine("CREATE TABLE sbtest1(\n  id INTEGER NOT NULL AUTO_INCREMENT,\n  k INTEGER DEFAULT \
          '0' NOT NULL,\n  c CHAR(120) DEFAULT '' NOT NULL,\n  pad CHAR(60) DEFAULT '' NOT \
          NULL,\n  PRIMARY KEY (id)\n) /*! ENGINE = innodb */ "),
    Fine("INSERT INTO sbtest1(k, c, pad) VALUES(50, \
          '83868641912-28773972837-60736120486-75162659906-27563526494-20381887404-4157642224\
          1-93426793964-56405065102-33518432330', \
          '67847967377-48000963322-62604785301-91415491898-96926520291')"),
    Fine("CREATE INDEX k_1 ON sbtest1(k)"),
];

/// sysbench, run.
#[rustfmt::skip] // a statement a paragraph
const SYSBENCH_RUN: &[Answer] = &[
    Fine("PREPARE s FROM 'BEGIN'"),
    Fine("PREPARE s FROM 'COMMIT'"),
    Fine("PREPARE s FROM 'SELECT c FROM sbtest1 WHERE id=?'"),
    Fine("PREPARE s FROM 'SELECT c FROM sbtest1 WHERE id BETWEEN ? AND ?'"),
    Fine("PREPARE s FROM 'SELECT SUM(k) FROM sbtest1 WHERE id BETWEEN ? AND ?'"),
    Fine("PREPARE s FROM 'SELECT c FROM sbtest1 WHERE id BETWEEN ? AND ? ORDER BY c'"),
    Fine("PREPARE s FROM 'SELECT DISTINCT c FROM sbtest1 WHERE id BETWEEN ? AND ? ORDER BY c'"),
    Fine("PREPARE s FROM 'UPDATE sbtest1 SET k=k+1 WHERE id=?'"),
    Fine("PREPARE s FROM 'UPDATE sbtest1 SET c=? WHERE id=?'"),
    Fine("PREPARE s FROM 'DELETE FROM sbtest1 WHERE id=?'"),
    Fine("PREPARE s FROM 'INSERT INTO sbtest1 (id, k, c, pad) VALUES (?, ?, ?, ?)'"),
    Fine("BEGIN"),
    Fine("SELECT c FROM sbtest1 WHERE id=55"),
    Fine("SELECT c FROM sbtest1 WHERE id=51"),
    Fine("SELECT c FROM sbtest1 WHERE id=50"),
    Fine("SELECT c FROM sbtest1 WHERE id BETWEEN 69 AND 168"),
    Fine("SELECT SUM(k) FROM sbtest1 WHERE id BETWEEN 51 AND 150"),
    Fine("SELECT c FROM sbtest1 WHERE id BETWEEN 51 AND 150 ORDER BY c"),
    Fine("SELECT DISTINCT c FROM sbtest1 WHERE id BETWEEN 54 AND 153 ORDER BY c"),
    Fine("UPDATE sbtest1 SET k=k+1 WHERE id=51"),
    Fine("UPDATE sbtest1 SET \
          c='21494726652-68327701861-67920392344-37576608807-85347203408-18366059641-36624324\
          875-89574894895-43143607026-57289295593' WHERE id=51"),
    Fine("DELETE FROM sbtest1 WHERE id=51"),
    Fine("INSERT INTO sbtest1 (id, k, c, pad) VALUES (51, 51, \
          '43809477415-34787802206-05793891809-26843241161-15504876476-10271824507-3153730601\
          8-77444127235-41516925892-22822202205', \
          '31995725898-44518190381-67736010252-12018826403-78836474542')"),
    Fine("COMMIT"),
];

#[test]
fn a_dump_of_all_databases_is_restored() {
    if !has_client(
        "mariadb-dump",
        Command::new("mariadb-dump").arg("--version"),
    ) {
        return;
    }
    let dir = tempfile::tempdir().expect("folder");
    let server = Server::start(dir.path(), &["--skip-ssl"]);
    let mut c = server.connect();
    c.run(
        "CREATE DATABASE one; CREATE TABLE one.t (id INT PRIMARY KEY, s TEXT); \
         INSERT INTO one.t VALUES (1, 'x'), (2, NULL); CREATE VIEW one.v AS SELECT id FROM one.t; \
         CREATE DATABASE two; CREATE TABLE two.t (id INT PRIMARY KEY); INSERT INTO two.t VALUES (3); \
         CREATE USER u",
    );
    for options in [
        &["--all-databases"][..],
        &["--all-databases", "--single-transaction"],
    ] {
        let dump = program(&server, "mariadb-dump", options);
        let inserts = dump.lines().filter(|line| line.starts_with("INSERT INTO"));
        assert_eq!(
            inserts.count(),
            2,
            "{options:?}: only rows of tables that are stored"
        );
        let file = dir.path().join("all.sql");
        std::fs::write(&file, dump).expect("dump");
        let other = tempfile::tempdir().expect("folder");
        let fresh = Server::start(other.path(), &["--skip-ssl"]);
        // The client ends with the first error of what it reads.
        let dump = std::fs::File::open(&file).expect("the dump");
        let port = format!("-P{}", fresh.port);
        let mut client = Command::new("mariadb");
        client
            .args(["-h127.0.0.1", &port, "-uroot", "--skip-ssl"])
            .stdin(dump);
        let restored = client.output().expect("the client runs");
        let errors = String::from_utf8_lossy(&restored.stderr);
        assert!(restored.status.success(), "{options:?}: {errors}");
        let mut restored = fresh.connect();
        assert_eq!(restored.lines("SELECT * FROM one.t"), ["1|x", "2|NULL"]);
        assert_eq!(restored.lines("SELECT * FROM one.v"), ["1", "2"]);
        assert_eq!(restored.lines("SELECT * FROM two.t"), ["3"]);
        // Accounts are not in the dump.
        let users = "SELECT User FROM mysql.user WHERE User NOT LIKE 'mysql.%'";
        assert_eq!(restored.lines(users), ["root"]);
    }
    // Other tables are still not made there, and these are not removed.
    assert_eq!(c.code("CREATE TABLE mysql.mine (a INT)"), Some(1044));
    assert_eq!(c.code("DROP TABLE mysql.user"), Some(1044));
    assert_eq!(c.code("DROP TABLE IF EXISTS mysql.user"), None);
    assert_eq!(
        c.code("INSERT INTO mysql.user (User) VALUES ('x')"),
        Some(1142)
    );
    assert_eq!(
        c.code("LOCK TABLES information_schema.tables READ"),
        Some(1044)
    );
}
