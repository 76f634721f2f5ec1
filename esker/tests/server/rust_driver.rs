//! mysql_async, the Rust driver: what programs do with it, over every login it knows.
//!
//! **Invariant**: each test states the answer a MySQL server gives; the driver's own types (`Value`) are
//! compared, so that the binary protocol's types show.

use mysql_async::prelude::Queryable;
use mysql_async::{
    ChangeUserOpts, Conn, Error, IsolationLevel, OptsBuilder, Params, Pool, PoolConstraints,
    PoolOpts, Row, SslOpts, TxOpts, Value,
};

use crate::common::{Ask, Server};

fn server() -> (Server, tempfile::TempDir) {
    let dir = tempfile::tempdir().expect("folder");
    let server = Server::start(dir.path(), &[]);
    server.connect().run(
        "CREATE DATABASE d; CREATE USER new@localhost IDENTIFIED BY 'n3w'; \
         CREATE USER old@localhost IDENTIFIED WITH mysql_native_password BY '0ld'; \
         GRANT ALL ON *.* TO new@localhost; GRANT ALL ON *.* TO old@localhost",
    );
    (server, dir)
}

fn options(server: &Server) -> OptsBuilder {
    OptsBuilder::default()
        .ip_or_hostname("127.0.0.1")
        .tcp_port(server.port)
        .prefer_socket(false)
        .user(Some("new"))
        .pass(Some("n3w"))
        .db_name(Some("d"))
}

async fn connect(server: &Server) -> Conn {
    Conn::new(options(server)).await.expect("connect")
}

fn wait<F: Future>(future: F) -> F::Output {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("runtime")
        .block_on(future)
}

/// Number and SQLSTATE of the server's error.
fn code<T>(result: Result<T, Error>) -> (u16, String) {
    match result {
        Err(Error::Server(e)) => (e.code, e.state),
        Err(e) => panic!("not the server's error: {e}"),
        Ok(_) => panic!("no error"),
    }
}

fn error(code: u16, state: &str) -> (u16, String) {
    (code, state.to_owned())
}

#[test]
fn logins_in_clear_and_over_tls() {
    let (server, _dir) = server();
    let tls = SslOpts::default().with_danger_accept_invalid_certs(true);
    wait(async {
        for (user, password) in [("new", "n3w"), ("old", "0ld")] {
            // In clear and for the first time, caching_sha2_password needs the server's RSA key.
            for ssl in [None, Some(tls.clone())] {
                let version = if ssl.is_some() { "TLSv1.3" } else { "" };
                let login = options(&server)
                    .user(Some(user))
                    .pass(Some(password))
                    .ssl_opts(ssl);
                let mut c = Conn::new(login.clone()).await.expect("connect");
                let me: Option<String> = c.query_first("SELECT CURRENT_USER()").await.expect("me");
                assert_eq!(me, Some(format!("{user}@localhost")));
                let status: Option<(String, String)> = c
                    .query_first("SHOW STATUS LIKE 'Ssl_version'")
                    .await
                    .expect("status");
                assert_eq!(status, Some(("Ssl_version".into(), version.into())));
                c.disconnect().await.expect("goodbye");
                let wrong = Conn::new(login.clone().pass(Some("wrong"))).await;
                assert_eq!(code(wrong), error(1045, "28000"));
                let nowhere = Conn::new(login.db_name(Some("nowhere"))).await;
                assert_eq!(code(nowhere), error(1049, "42000"));
            }
        }
    });
}

const COLUMNS: [&str; 29] = [
    "TINYINT",
    "TINYINT UNSIGNED",
    "SMALLINT",
    "SMALLINT UNSIGNED",
    "MEDIUMINT",
    "MEDIUMINT UNSIGNED",
    "INT",
    "INT UNSIGNED",
    "BIGINT",
    "BIGINT UNSIGNED",
    "DECIMAL(65,30)",
    "FLOAT",
    "DOUBLE",
    "CHAR(4)",
    "VARCHAR(20)",
    "TEXT",
    "BINARY(4)",
    "VARBINARY(20)",
    "BLOB",
    "DATE",
    "TIME",
    "TIME(6)",
    "DATETIME(6)",
    "TIMESTAMP(6) NULL",
    "YEAR",
    "BIT(64)",
    "BIT(1)",
    "ENUM('a','ü')",
    "SET('x','y','z')",
];

fn bytes(b: impl AsRef<[u8]>) -> Value {
    Value::Bytes(b.as_ref().to_vec())
}

fn lowest() -> Vec<Value> {
    vec![
        Value::Int(i64::from(i8::MIN)),
        Value::Int(0),
        Value::Int(i64::from(i16::MIN)),
        Value::Int(0),
        Value::Int(-8_388_608),
        Value::Int(0),
        Value::Int(i64::from(i32::MIN)),
        Value::Int(0),
        Value::Int(i64::MIN),
        Value::Int(0),
        bytes(format!("-{}.{}", "9".repeat(35), "9".repeat(30))),
        Value::Float(f32::MIN),
        Value::Double(f64::MIN),
        bytes(""),
        bytes(""),
        bytes(""),
        bytes([0; 4]),
        bytes(""),
        bytes([0]),
        Value::Date(1000, 1, 1, 0, 0, 0, 0),
        Value::Time(true, 34, 22, 59, 59, 0),
        Value::Time(true, 34, 22, 59, 58, 999_999),
        Value::Date(1000, 1, 1, 0, 0, 0, 1),
        Value::Date(1970, 1, 2, 0, 0, 1, 1),
        Value::Int(1901),
        bytes([0; 8]),
        bytes([0]),
        bytes("a"),
        bytes(""),
    ]
}

fn highest() -> Vec<Value> {
    vec![
        Value::Int(i64::from(i8::MAX)),
        Value::Int(i64::from(u8::MAX)),
        Value::Int(i64::from(i16::MAX)),
        Value::Int(i64::from(u16::MAX)),
        Value::Int(8_388_607),
        Value::Int(16_777_215),
        Value::Int(i64::from(i32::MAX)),
        Value::Int(i64::from(u32::MAX)),
        Value::Int(i64::MAX),
        Value::UInt(u64::MAX),
        bytes(format!("{}.{}", "9".repeat(35), "9".repeat(30))),
        Value::Float(16_777_216.0),
        Value::Double(f64::MIN_POSITIVE),
        bytes("😀büx"),
        bytes("😀".repeat(20)),
        bytes("it's \\ \"\n\0\u{10ffff}"),
        bytes([0, 255, 39, 92]),
        bytes([255, 0]),
        bytes((0..=255).collect::<Vec<u8>>()),
        Value::Date(9999, 12, 31, 0, 0, 0, 0),
        Value::Time(false, 34, 22, 59, 59, 0),
        Value::Time(false, 0, 0, 0, 0, 1),
        Value::Date(9999, 12, 31, 23, 59, 59, 999_999),
        Value::Date(2037, 12, 31, 23, 59, 59, 0),
        Value::Int(2155),
        bytes([255; 8]),
        bytes([1]),
        bytes("ü"),
        bytes("x,z"),
    ]
}

#[test]
fn every_column_type_at_its_limits() {
    let (server, _dir) = server();
    let columns: Vec<String> = (0..COLUMNS.len())
        .map(|i| format!("c{i} {}", COLUMNS[i]))
        .collect();
    let names: Vec<String> = (0..COLUMNS.len()).map(|i| format!("c{i}")).collect();
    let (names, marks) = (names.join(","), vec!["?"; COLUMNS.len()].join(","));
    wait(async {
        let mut c = connect(&server).await;
        c.query_drop(format!(
            "CREATE TABLE t (id INT AUTO_INCREMENT PRIMARY KEY, {})",
            columns.join(",")
        ))
        .await
        .expect("table");
        let rows = [lowest(), highest(), vec![Value::NULL; COLUMNS.len()]];
        c.exec_batch(
            format!("INSERT INTO t ({names}) VALUES ({marks})"),
            rows.clone().map(Params::Positional),
        )
        .await
        .expect("insert");
        assert_eq!((c.affected_rows(), c.last_insert_id()), (1, Some(3)));
        c.query_drop("CREATE TABLE u (id INT AUTO_INCREMENT PRIMARY KEY, v INT UNIQUE)")
            .await
            .expect("table");
        for _ in 0..3 {
            // The client hears of the row that was there, though nothing changes.
            let upsert =
                "INSERT INTO u (v) VALUES (7) ON DUPLICATE KEY UPDATE id = LAST_INSERT_ID(id)";
            c.query_drop(upsert).await.expect("upsert");
            assert_eq!(c.last_insert_id(), Some(1));
        }
        // Rows of a query tell of no number that they have found.
        c.query_drop("INSERT INTO u (v) SELECT 7 ON DUPLICATE KEY UPDATE v = 8")
            .await
            .expect("upsert");
        assert_eq!(c.last_insert_id(), None);
        c.query_drop("CREATE TRIGGER b BEFORE INSERT ON u FOR EACH ROW SET @seen = NEW.v")
            .await
            .expect("trigger");
        c.query_drop(
            "INSERT INTO u (v) VALUES (8) ON DUPLICATE KEY UPDATE id = LAST_INSERT_ID(id)",
        )
        .await
        .expect("upsert");
        assert_eq!(c.last_insert_id(), Some(1));
        let got: Vec<Row> = c
            .exec(format!("SELECT {names} FROM t ORDER BY id"), ())
            .await
            .expect("select");
        assert_eq!(got.len(), rows.len());
        for (row, expected) in got.into_iter().zip(rows) {
            for (i, (got, expected)) in row.unwrap().into_iter().zip(expected).enumerate() {
                assert_eq!(got, expected, "{}", COLUMNS[i]);
            }
        }
    });
}

#[test]
fn transactions_and_errors() {
    let (server, _dir) = server();
    wait(async {
        let (mut c, mut other) = (connect(&server).await, connect(&server).await);
        c.query_drop("CREATE TABLE t (id INT PRIMARY KEY, n TINYINT NOT NULL)")
            .await
            .expect("table");
        for commit in [false, true] {
            let mut options = TxOpts::default();
            options.with_isolation_level(IsolationLevel::ReadCommitted);
            let mut tx = c.start_transaction(options).await.expect("begin");
            tx.exec_drop("INSERT INTO t VALUES (?, ?)", (1, 1))
                .await
                .expect("insert");
            let seen: Option<u64> = other
                .query_first("SELECT COUNT(*) FROM t")
                .await
                .expect("count");
            assert_eq!(seen, Some(0), "dirty read");
            match commit {
                true => tx.commit().await.expect("commit"),
                false => tx.rollback().await.expect("rollback"),
            }
            let kept: Option<u64> = other
                .query_first("SELECT COUNT(*) FROM t")
                .await
                .expect("count");
            assert_eq!(kept, Some(u64::from(commit)));
        }
        let mut options = TxOpts::default();
        options.with_readonly(true).with_consistent_snapshot(true);
        let mut tx = c.start_transaction(options).await.expect("begin");
        let refused = tx.query_drop("DELETE FROM t").await;
        assert_eq!(code(refused), error(1792, "25006"));
        tx.rollback().await.expect("rollback");
        for (sql, number, state) in [
            ("SELEC 1", 1064, "42000"),
            ("SELECT * FROM nope", 1146, "42S02"),
            ("SELECT nope FROM t", 1054, "42S22"),
            ("INSERT INTO t VALUES (1, 1)", 1062, "23000"),
            ("INSERT INTO t VALUES (2, NULL)", 1048, "23000"),
            ("INSERT INTO t VALUES (2, 128)", 1264, "22003"),
        ] {
            assert_eq!(code(c.query_drop(sql).await), error(number, state), "{sql}");
            assert_eq!(
                code(c.exec_drop(sql, ()).await),
                error(number, state),
                "{sql}"
            );
        }
        c.query_drop("INSERT IGNORE INTO t VALUES (1, 1), (2, 300)")
            .await
            .expect("warnings only");
        assert_eq!((c.affected_rows(), c.get_warnings()), (1, 2));
        assert_eq!(c.info(), "Records: 2  Duplicates: 1  Warnings: 2");
        // What shows them has none of its own.
        for sql in ["SHOW WARNINGS", "SELECT @@warning_count"] {
            let shown: Vec<mysql_async::Row> = c.query(sql).await.expect("shown");
            assert_eq!((shown.is_empty(), c.get_warnings()), (false, 0), "{sql}");
        }
    });
}

#[test]
fn statements_prepared_several_and_large() {
    let (server, _dir) = server();
    wait(async {
        let mut c = connect(&server).await;
        c.query_drop("CREATE TABLE t (id INT PRIMARY KEY, b LONGBLOB)")
            .await
            .expect("table");
        let statement = c.prep("SELECT id FROM t WHERE id >= ? LIMIT ?").await;
        let statement = statement.expect("prepare");
        assert_eq!((statement.num_params(), statement.num_columns()), (2, 1));
        c.exec_batch("INSERT INTO t (id) VALUES (?)", (0..3000).map(|i| (i,)))
            .await
            .expect("batch");
        let ids: Vec<u32> = c.exec(&statement, (2990, 5)).await.expect("select");
        assert_eq!(ids, [2990, 2991, 2992, 2993, 2994]);
        // LIMIT takes the integer at the beginning of a text, and no negative and no other numbers.
        let ids: Vec<u32> = c.exec(&statement, (2990, "2x")).await.expect("select");
        assert_eq!(ids, [2990, 2991]);
        for (limit, code) in [(Value::Int(-1), 1690), (Value::Double(2.0), 1210)] {
            let refused = c.exec_drop(&statement, (Value::Int(1), limit)).await;
            match refused.expect_err("refused") {
                Error::Server(e) => assert_eq!(e.code, code, "{e}"),
                e => panic!("{e}"),
            }
        }
        c.close(statement).await.expect("close");

        // Rows as they come.
        let mut result = c
            .exec_iter("SELECT id FROM t ORDER BY id", ())
            .await
            .expect("select");
        let mut expected = 0;
        while let Some(row) = result.next().await.expect("row") {
            assert_eq!(mysql_async::from_row::<u32>(row), expected);
            expected += 1;
        }
        drop(result);
        assert_eq!(expected, 3000);

        let mut result = c
            .query_iter("SELECT 1; SELECT 'two', 2; DELETE FROM t WHERE id > 9")
            .await
            .expect("several");
        assert_eq!(result.collect::<u8>().await.expect("first"), [1]);
        let second: Vec<(String, u8)> = result.collect().await.expect("second");
        assert_eq!(second, [("two".to_owned(), 2)]);
        assert_eq!(result.affected_rows(), 2990);
        result.drop_result().await.expect("end");

        let large: Vec<u8> = (0..17 << 20).map(|i| (i % 251) as u8).collect();
        c.exec_drop("UPDATE t SET b = ? WHERE id = 1", (&large,))
            .await
            .expect("a packet above 16 MiB");
        let back: Option<Vec<u8>> = c
            .exec_first("SELECT b FROM t WHERE id = ?", (1,))
            .await
            .expect("large row");
        assert!(back.is_some_and(|b| b == large));
    });
}

#[test]
fn parameters_are_in_the_clients_character_set() {
    let (server, _dir) = server();
    wait(async {
        let mut c = connect(&server).await;
        c.query_drop("CREATE TABLE t (id INT PRIMARY KEY, w VARCHAR(9), b BLOB)")
            .await
            .expect("table");
        let insert = "INSERT INTO t VALUES (?, ?, ?)";
        let malformed = c
            .exec_drop(insert, (1, b"\xff\0".to_vec(), b"".to_vec()))
            .await;
        assert_eq!(code(malformed), error(1366, "HY000"));
        c.exec_drop(insert, (2, "é", b"\xe9\xff".to_vec()))
            .await
            .expect("utf8mb4");
        c.query_drop("SET NAMES latin1").await.expect("names");
        c.exec_drop(insert, (3, b"\xe9".to_vec(), b"\xe9\xff".to_vec()))
            .await
            .expect("latin1");
        let stored: Vec<(String, String)> = c
            .query("SELECT HEX(w), HEX(b) FROM t ORDER BY id")
            .await
            .expect("select");
        let expected = ("C3A9".to_owned(), "E9FF".to_owned());
        assert_eq!(stored, [expected.clone(), expected]);
    });
}

#[test]
fn pools_reset_connections() {
    let (server, _dir) = server();
    wait(async {
        let one = PoolConstraints::new(1, 1).expect("constraints");
        let pool = Pool::new(options(&server).pool_opts(PoolOpts::new().with_constraints(one)));
        let mut c = pool.get_conn().await.expect("connection");
        let id = c.id();
        c.query_drop("CREATE TABLE t (id INT PRIMARY KEY)")
            .await
            .expect("table");
        c.query_drop("SET @mine = 1, sql_mode = ''; BEGIN; INSERT INTO t VALUES (1)")
            .await
            .expect("state");
        let mut other = connect(&server).await;
        c.query_drop("DO GET_LOCK('reset', 0)").await.expect("lock");
        drop(c);
        let mut c = pool.get_conn().await.expect("connection");
        assert_eq!(c.id(), id, "the same connection");
        let state: Option<(Option<u8>, bool, String, u8)> = c
            .query_first("SELECT @mine, @@sql_mode = '', DATABASE(), COUNT(*) FROM t")
            .await
            .expect("state");
        assert_eq!(state, Some((None, false, "d".into(), 0)));
        let is_free = "SELECT IS_FREE_LOCK('reset')";
        let free: Option<u8> = other.query_first(is_free).await.expect("lock");
        assert_eq!(free, Some(1));

        for (user, password) in [("old", "0ld"), ("new", "n3w")] {
            let to = ChangeUserOpts::default()
                .with_user(Some(user.into()))
                .with_pass(Some(password.into()))
                .with_db_name(Some("information_schema".into()));
            c.query_drop("SET @mine = 1").await.expect("variable");
            c.query_drop("DO GET_LOCK('reset', 0)").await.expect("lock");
            c.change_user(to).await.expect("change user");
            let now: Option<(Option<u8>, String, String)> = c
                .query_first("SELECT @mine, CURRENT_USER(), DATABASE()")
                .await
                .expect("state");
            let expected = (
                None,
                format!("{user}@localhost"),
                "information_schema".into(),
            );
            assert_eq!(now, Some(expected));
            let free: Option<u8> = other.query_first(is_free).await.expect("lock");
            assert_eq!(free, Some(1));
        }

        let mut killer = connect(&server).await;
        killer.query_drop(format!("KILL {id}")).await.expect("kill");
        assert!(c.query_drop("SELECT 1").await.is_err());
        drop(c);
        // The pool makes another one.
        let mut c = pool.get_conn().await.expect("connection");
        assert_ne!(c.id(), id);
        c.ping().await.expect("ping");
        drop(c);
        pool.disconnect().await.expect("goodbye");
    });
}

/// A prepared CALL: its result sets with binary rows, then one with the OUT parameters.
#[test]
fn prepared_calls_give_out_parameters() {
    let (server, _dir) = server();
    wait(async {
        let mut c = connect(&server).await;
        c.query_drop("CREATE TABLE t (id INT PRIMARY KEY, v DECIMAL(5,1))")
            .await
            .expect("table");
        c.query_drop("INSERT INTO t VALUES (1, 1.5), (2, 2.5)")
            .await
            .expect("rows");
        c.query_drop(
            "CREATE PROCEDURE p(IN a INT, OUT b BIGINT, INOUT s VARCHAR(10)) BEGIN SELECT id, v FROM t WHERE id >= a; \
             SELECT s; SET b = a * 10, s = CONCAT(s, '!'); END",
        )
        .await
        .expect("procedure");
        for _ in 0..2 {
            let mut result = c
                .exec_iter("CALL p(?, ?, ?)", (2, Value::NULL, "x"))
                .await
                .expect("call");
            let rows: Vec<(u8, String)> = result.collect().await.expect("first");
            assert_eq!(rows, [(2, "2.5".to_owned())]);
            assert_eq!(result.collect::<String>().await.expect("second"), ["x"]);
            let out: Vec<(i64, String)> = result.collect().await.expect("parameters");
            assert_eq!(out, [(20, "x!".to_owned())]);
            result.drop_result().await.expect("end");
        }
        let failed = c.exec_drop("CALL p(?, ?, 1)", (1, Value::NULL)).await;
        assert_eq!(code(failed), error(1414, "42000"));
        let plain: Option<u8> = c.query_first("SELECT 7").await.expect("plain");
        assert_eq!(plain, Some(7));
    });
}

/// Name and type of each column of a result.
async fn typed(c: &mut Conn, statement: &str) -> String {
    let result = c.query_iter(statement).await.expect(statement);
    let columns = result.columns_ref().iter();
    let typed = columns.map(|c| {
        let ty = format!("{:?}", c.column_type());
        format!("{} {}", c.name_str(), ty.replace("MYSQL_TYPE_", ""))
    });
    let typed = typed.collect::<Vec<_>>().join(", ");
    result.drop_result().await.expect(statement);
    typed
}

#[test]
fn columns_of_show_have_types() {
    const SHOWN: [(&str, &str); 11] = [
        (
            "SHOW FULL TABLES",
            "Tables_in_d VAR_STRING, Table_type STRING",
        ),
        (
            "SHOW TABLE STATUS",
            "Name VAR_STRING, Engine VAR_STRING, Version LONG, Row_format STRING, Rows LONGLONG, Avg_row_length \
             LONGLONG, Data_length LONGLONG, Max_data_length LONGLONG, Index_length LONGLONG, Data_free LONGLONG, \
             Auto_increment LONGLONG, Create_time TIMESTAMP, Update_time DATETIME, Check_time DATETIME, Collation \
             VAR_STRING, Checksum LONGLONG, Create_options VAR_STRING, Comment BLOB",
        ),
        (
            "SHOW COLUMNS FROM t",
            "Field VAR_STRING, Type BLOB, Null VAR_STRING, Key STRING, Default BLOB, Extra VAR_STRING",
        ),
        (
            "SHOW PROCEDURE STATUS",
            "Db VAR_STRING, Name VAR_STRING, Type STRING, Definer VAR_STRING, Modified TIMESTAMP, \
             Created TIMESTAMP, Security_type STRING, Comment BLOB, character_set_client VAR_STRING, \
             collation_connection VAR_STRING, Database Collation VAR_STRING",
        ),
        (
            "SHOW COLLATION",
            "Collation VAR_STRING, Charset VAR_STRING, Id LONGLONG, Default VAR_STRING, Compiled VAR_STRING, \
             Sortlen LONG, Pad_attribute STRING",
        ),
        (
            "SHOW CHARACTER SET",
            "Charset VAR_STRING, Description VAR_STRING, Default collation VAR_STRING, Maxlen LONG",
        ),
        (
            "SHOW PROCESSLIST",
            "Id LONGLONG, User VAR_STRING, Host VAR_STRING, db VAR_STRING, Command VAR_STRING, Time LONG, \
             State VAR_STRING, Info VAR_STRING",
        ),
        (
            "SHOW WARNINGS",
            "Level VAR_STRING, Code LONG, Message VAR_STRING",
        ),
        (
            "SHOW ERRORS",
            "Level VAR_STRING, Code LONG, Message VAR_STRING",
        ),
        (
            "SHOW PROFILES",
            "Query_ID LONG, Duration DOUBLE, Query VAR_STRING",
        ),
        ("SHOW PROFILE", "Status VAR_STRING, Duration NEWDECIMAL"),
    ];
    let (server, _dir) = server();
    wait(async {
        let mut c = connect(&server).await;
        c.query_drop("CREATE TABLE t (i INT AUTO_INCREMENT PRIMARY KEY)")
            .await
            .expect("table");
        for (statement, types) in SHOWN {
            assert_eq!(typed(&mut c, statement).await, types, "{statement}");
        }
        // A program gets a moment, not a text.
        let status: Row = c
            .query_first("SHOW TABLE STATUS")
            .await
            .expect("status")
            .expect("a row");
        assert!(matches!(status["Create_time"], Value::Bytes(_)));
        let row: Option<Row> = c
            .exec_first("SHOW TABLE STATUS", ())
            .await
            .expect("prepared");
        assert!(matches!(
            row.expect("a row")["Create_time"],
            Value::Date(..)
        ));
    });
}

#[test]
fn conditions_of_show_compare_as_the_system_tables_do() {
    let (server, _dir) = server();
    let mut c = server.connect();
    c.run(
        "USE d; CREATE TABLE t (i INT AUTO_INCREMENT PRIMARY KEY); CREATE PROCEDURE p() SELECT 1",
    );
    for (statement, found) in [
        ("SHOW TABLE STATUS WHERE Name = 'T'", 0),
        ("SHOW TABLE STATUS WHERE Create_time > '2020-01-01'", 1),
        ("SHOW COLUMNS FROM t WHERE Type = 'INT'", 0),
        ("SHOW COLUMNS FROM t WHERE `Key` = 'pri'", 0),
        ("SHOW COLUMNS FROM t WHERE Field = 'I' AND `Key` = 'PRI'", 1),
        ("SHOW PROCEDURE STATUS WHERE Db = 'D'", 0),
        ("SHOW PROCEDURE STATUS WHERE Db = 'd' AND Name = 'P'", 1),
    ] {
        assert_eq!(c.rows(statement).len(), found, "{statement}");
    }
}
