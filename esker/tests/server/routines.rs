//! Stored procedures: several result sets, real clients, locks and KILL in the middle, restarts, privileges, dumps.
//! What their statements do is in the scripts of `tests/sql/program`.

use std::process::Command;

use esker_server::client::{Client, ClientError, QueryResult};

use crate::common::{Ask, Server, eventually, has_client, output, python};

fn server() -> (Server, tempfile::TempDir) {
    let dir = tempfile::tempdir().expect("folder");
    let server = Server::start(dir.path(), &["--skip-ssl"]);
    server.connect().run(
        "CREATE DATABASE d; USE d;
         CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(10));
         INSERT INTO t VALUES (1, 'a'), (2, 'b'), (3, 'c')",
    );
    (server, dir)
}

fn connect_as(server: &Server, user: &str) -> Client {
    let mut c = Client::connect("127.0.0.1", server.port, user, "", None).expect("connect");
    c.run("SET NAMES utf8mb4");
    c
}

fn connect(server: &Server) -> Client {
    let mut c = connect_as(server, "root");
    c.run("USE d");
    c
}

/// Every result of a request: its rows, or how many rows it changed; last the error, if there is one.
fn results(c: &mut Client, sql: &str) -> Vec<String> {
    let mut all = Vec::new();
    let text = |cell: &Option<Vec<u8>>| {
        let text = cell.as_ref().map(|c| String::from_utf8_lossy(c));
        text.map_or("NULL".to_owned(), |text| text.into_owned())
    };
    let asked = c.query(sql, &mut |result| match result {
        QueryResult::Done(rows, ..) => all.push(format!("ok {rows}")),
        QueryResult::Rows { rows, .. } => {
            let rows = rows
                .iter()
                .map(|row| row.iter().map(text).collect::<Vec<_>>().join("|"));
            all.push(rows.collect::<Vec<_>>().join(","));
        }
    });
    match asked {
        Ok(()) => {}
        Err(ClientError::Server(e)) => all.push(format!("error {} {}", e.code, e.state)),
        Err(e) => panic!("{sql}: {e}"),
    }
    all
}

#[test]
fn results_come_one_after_the_other() {
    let (server, _dir) = server();
    let mut c = connect(&server);
    let made = results(
        &mut c,
        "CREATE PROCEDURE p(n INT) BEGIN SELECT id FROM t; INSERT INTO t VALUES (n, 'n'); SELECT COUNT(*), n FROM t; \
         UPDATE t SET v = 'x'; END; CALL p(7); SELECT 'behind'",
    );
    assert_eq!(made, ["ok 0", "1,2,3", "4|7", "ok 4", "behind"]);
    // What fails in the middle ends the request, and everything is as before it began.
    let failed = results(&mut c, "CALL p(7); SELECT 'never'");
    assert_eq!(failed, ["1,2,3,7", "error 1062 23000"]);
    assert_eq!(
        c.value("SELECT CONCAT(DATABASE(), @@sql_mode = @@GLOBAL.sql_mode)"),
        "d1"
    );
    // A request in another character set is read statement by statement, and a body is one.
    c.run("SET NAMES gbk");
    let made = results(
        &mut c,
        "CREATE PROCEDURE q() BEGIN SELECT 1; SELECT 2; END; CALL q(); SELECT 3",
    );
    assert_eq!(made, ["ok 0", "1", "2", "ok 0", "3"]);
    c.run("SET NAMES utf8mb4");
    c.run("CREATE PROCEDURE deep(n INT) BEGIN SELECT n; IF n > 0 THEN CALL deep(n - 1); END IF; SELECT -n; END");
    c.run("SET max_sp_recursion_depth = 9");
    assert_eq!(
        results(&mut c, "CALL deep(2)"),
        ["2", "1", "0", "0", "-1", "-2", "ok 0"]
    );
}

/// An endless loop ends with KILL, soon, and holds up nobody.
#[test]
fn an_endless_loop_is_killed() {
    let (server, _dir) = server();
    let mut other = connect(&server);
    for kill in ["KILL QUERY", "KILL"] {
        let mut c = connect(&server);
        let id = c.value("SELECT CONNECTION_ID()");
        c.run(
            "DROP PROCEDURE IF EXISTS endless;
             CREATE PROCEDURE endless()
             BEGIN
               DECLARE EXIT HANDLER FOR SQLEXCEPTION SELECT 'not for this';
               LOOP BEGIN DECLARE CONTINUE HANDLER FOR SQLEXCEPTION BEGIN END; SET @a = 1; END; END LOOP;
             END",
        );
        let running = std::thread::spawn(move || c.query("CALL endless()", &mut |_| ()));
        let busy = format!(
            "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE ID = {id} AND INFO LIKE 'CALL%'"
        );
        eventually("the loop runs", || other.value(&busy) == "1");
        other.run(&format!("{kill} {id}"));
        let ended = running.join().expect("no panic");
        match (kill, ended) {
            ("KILL QUERY", Err(ClientError::Server(e))) => assert_eq!(e.code, 1317),
            // A client whose connection another one ends hears nothing.
            ("KILL", Err(ClientError::Io(_))) => (),
            (_, ended) => panic!("{kill}: {ended:?}"),
        }
    }
}

/// A statement that waits for a lock is run again when it is free, and what was before it is not.
#[test]
fn a_statement_that_waits_goes_on() {
    let (server, _dir) = server();
    let (mut c, mut holder) = (connect(&server), connect(&server));
    c.run(
        "CREATE PROCEDURE p() BEGIN SET @n = @n + 1; UPDATE t SET v = CONCAT(v, 'u') WHERE id = 2; SELECT v FROM t \
         WHERE id = 2; END;
         CREATE PROCEDURE impatient()
         BEGIN
           DECLARE CONTINUE HANDLER FOR 1205 SELECT 'waited';
           UPDATE t SET v = 'never' WHERE id = 2;
         END",
    );
    holder.run("BEGIN; UPDATE t SET v = 'held' WHERE id = 2");
    c.run("SET @n = 0, innodb_lock_wait_timeout = 1");
    assert_eq!(c.lines("CALL impatient()"), ["waited"]);
    c.run("SET innodb_lock_wait_timeout = 60");
    let id = c.value("SELECT CONNECTION_ID()");
    let waiting = std::thread::spawn(move || {
        let rows = c.lines("CALL p()");
        (rows, c.value("SELECT @n"))
    });
    let state = format!(
        "SELECT COUNT(*) FROM information_schema.INNODB_TRX WHERE trx_mysql_thread_id = {id} AND trx_state = 'LOCK WAIT'"
    );
    let mut watch = connect(&server);
    eventually("it waits", || watch.value(&state) == "1");
    holder.run("COMMIT");
    let (rows, turns) = waiting.join().expect("no panic");
    assert_eq!((rows, turns.as_str()), (vec!["heldu".to_owned()], "1"));
    // The same for a table's definition.
    holder.run("BEGIN; SELECT * FROM t");
    let mut c = connect(&server);
    c.run("CREATE PROCEDURE alters() BEGIN SET @m = 1; ALTER TABLE t ADD w INT; SELECT @m, COUNT(w) FROM t; END");
    let id = c.value("SELECT CONNECTION_ID()");
    let waiting = std::thread::spawn(move || c.lines("CALL alters()"));
    let state = format!(
        "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE ID = {id} AND STATE LIKE 'Waiting%'"
    );
    eventually("it waits", || watch.value(&state) == "1");
    holder.run("COMMIT");
    assert_eq!(waiting.join().expect("no panic"), ["1|0"]);
}

#[test]
fn procedures_outlive_the_server_and_go_with_their_database() {
    let (mut server, _dir) = server();
    let mut c = connect(&server);
    c.run(
        "SET sql_mode = 'ANSI_QUOTES';
         CREATE PROCEDURE Kept(a INT, OUT \"b\" DECIMAL(5,1)) COMMENT 'it''s' SET \"b\" = a / 2;
         SET sql_mode = DEFAULT;
         CREATE PROCEDURE gone() SELECT 1; DROP PROCEDURE gone;
         CREATE DATABASE e; CREATE PROCEDURE e.p() SELECT 'e'",
    );
    let shown = c.lines("SHOW CREATE PROCEDURE kept");
    let text = "Kept|ANSI_QUOTES|CREATE DEFINER=\"root\"@\"localhost\" PROCEDURE \"Kept\"(a INT, OUT \"b\" DECIMAL(5,1))\n    \
                COMMENT 'it\\'s'\nSET \"b\" = a / 2|utf8mb4|utf8mb4_0900_ai_ci|utf8mb4_0900_ai_ci";
    assert_eq!(shown, [text]);
    server.kill();
    server.restart();
    let mut c = connect(&server);
    assert_eq!(c.lines("SHOW CREATE PROCEDURE kept"), [text]);
    c.run("CALL KEPT(5, @b)");
    assert_eq!(c.value("SELECT @b"), "2.5");
    assert_eq!(c.code("CALL gone()"), Some(1305));
    assert_eq!(c.lines("CALL e.p()"), ["e"]);
    c.run("DROP DATABASE e; CREATE DATABASE e");
    assert_eq!(c.code("CALL e.p()"), Some(1305));
    c.run("ALTER PROCEDURE kept COMMENT 'new' READS SQL DATA SQL SECURITY INVOKER");
    let status = "SELECT ROUTINE_NAME, ROUTINE_COMMENT, SQL_DATA_ACCESS, SECURITY_TYPE, ROUTINE_DEFINITION FROM \
                  information_schema.ROUTINES WHERE ROUTINE_SCHEMA = 'd'";
    assert_eq!(
        c.lines(status),
        ["Kept|new|READS SQL DATA|INVOKER|SET \"b\" = a / 2"]
    );
    let parameters = "SELECT ORDINAL_POSITION, PARAMETER_MODE, PARAMETER_NAME, DATA_TYPE, NUMERIC_PRECISION, \
                      DTD_IDENTIFIER FROM information_schema.PARAMETERS WHERE SPECIFIC_SCHEMA = 'd'";
    assert_eq!(
        c.lines(parameters),
        ["1|IN|a|int|10|int", "2|OUT|b|decimal|5|decimal(5,1)"]
    );
    let status = c.rows("SHOW PROCEDURE STATUS LIKE 'KEP%'");
    assert_eq!(status.len(), 1);
    assert_eq!(status[0][1].as_deref(), Some("Kept"));
    assert!(c.rows("SHOW FUNCTION STATUS").is_empty());
    assert_eq!(c.code("CREATE PROCEDURE KEPT() SELECT 1"), Some(1304));
    server.kill();
    server.restart();
    assert!(
        connect(&server)
            .rows("SHOW PROCEDURE STATUS WHERE Db = 'e'")
            .is_empty()
    );
}

#[test]
fn whose_privileges_a_procedure_has() {
    let (server, _dir) = server();
    let mut c = connect(&server);
    c.run(
        "CREATE USER caller, maker; GRANT EXECUTE ON d.* TO caller;
         GRANT CREATE ROUTINE ON d.* TO maker;
         CREATE PROCEDURE mine() SELECT COUNT(*), CURRENT_USER(), USER() FROM t;
         CREATE PROCEDURE yours() SQL SECURITY INVOKER SELECT COUNT(*) FROM t;
         CREATE PROCEDURE fails() BEGIN SELECT CURRENT_USER(); SIGNAL SQLSTATE '45000'; END",
    );
    let mut caller = connect_as(&server, "caller");
    assert_eq!(
        caller.lines("CALL d.mine()"),
        ["3|root@localhost|caller@localhost"]
    );
    assert_eq!(results(&mut caller, "CALL d.yours()"), ["error 1142 42000"]);
    let failed = ["root@localhost", "error 1644 45000"];
    assert_eq!(results(&mut caller, "CALL d.fails()"), failed);
    // Whatever became of them, the caller is who it was.
    assert_eq!(caller.value("SELECT CURRENT_USER()"), "caller@%");
    assert_eq!(caller.code("SELECT * FROM d.t"), Some(1142));
    assert_eq!(caller.code("CREATE PROCEDURE d.p() SELECT 1"), Some(1044));
    assert_eq!(caller.code("DROP PROCEDURE d.mine"), Some(1370));
    assert_eq!(
        caller.code("ALTER PROCEDURE d.mine COMMENT 'x'"),
        Some(1370)
    );
    // Whoever may run it does not see what it does.
    let shown = caller.rows("SHOW CREATE PROCEDURE d.mine");
    assert_eq!(
        (shown[0][0].as_deref(), shown[0][2].as_deref()),
        (Some("mine"), None)
    );
    // Whoever makes one may run it and drop it.
    let mut maker = connect_as(&server, "maker");
    assert_eq!(
        maker.code("CREATE DEFINER = root@localhost PROCEDURE d.p() SELECT 1"),
        Some(1227)
    );
    maker.run("CREATE PROCEDURE d.own() SELECT 'own'");
    assert_eq!(maker.lines("CALL d.own()"), ["own"]);
    assert_eq!(maker.code("CALL d.mine()"), Some(1370));
    maker.run("DROP PROCEDURE d.own");
    c.run("CREATE DEFINER = nobody@nowhere PROCEDURE orphan() SELECT 1");
    assert_eq!(c.code("CALL orphan()"), Some(1449));
    // Whoever may run everything hears what is not there, and nobody else does.
    assert_eq!(caller.code("CALL d.nope()"), Some(1305));
    assert_eq!(caller.code("SELECT d.nope()"), Some(1305));
    assert_eq!(caller.code("DROP PROCEDURE d.nope"), Some(1370));
    c.run("REVOKE EXECUTE ON d.* FROM caller");
    assert_eq!(caller.code("CALL d.mine()"), Some(1370));
    assert_eq!(caller.code("CALL d.nope()"), Some(1370));
    assert_eq!(caller.code("SELECT d.nope()"), Some(1370));
    // Inside of a view it is the view that cannot be used.
    c.run("CREATE FUNCTION one() RETURNS INT DETERMINISTIC RETURN 1");
    c.run("CREATE DEFINER = caller VIEW calls AS SELECT d.one()");
    assert_eq!(c.code("SELECT * FROM calls"), Some(1356));
    c.run("GRANT EXECUTE ON FUNCTION d.one TO caller");
    assert_eq!(c.lines("SELECT * FROM calls"), ["1"]);
}

#[test]
fn privileges_on_single_routines() {
    let (mut server, _dir) = server();
    let mut c = connect(&server);
    c.run(
        "CREATE FUNCTION f() RETURNS INT READS SQL DATA RETURN (SELECT COUNT(*) FROM t);
         CREATE FUNCTION g() RETURNS INT READS SQL DATA SQL SECURITY INVOKER RETURN (SELECT COUNT(*) FROM t);
         CREATE PROCEDURE p() SELECT 1; CREATE PROCEDURE q() SELECT 2;
         CREATE VIEW v AS SELECT f() AS n;
         CREATE USER u, w; GRANT SELECT ON d.v TO u",
    );
    let mut u = connect_as(&server, "u");
    assert_eq!(u.code("SELECT d.f()"), Some(1370));
    let denied = "execute command denied to user 'u'@'%' for routine 'd.f'";
    assert_eq!(u.rows("SHOW ERRORS")[0][2].as_deref(), Some(denied));
    // A view calls with the rights of its definer.
    assert_eq!(u.value("SELECT n FROM d.v"), "3");
    c.run("GRANT EXECUTE ON FUNCTION d.F TO u; GRANT EXECUTE ON FUNCTION g TO u; GRANT ALL ON PROCEDURE p TO u WITH GRANT OPTION");
    assert_eq!(u.value("SELECT d.f()"), "3");
    assert_eq!(u.code("SELECT d.g()"), Some(1142));
    assert_eq!(u.lines("CALL d.p()"), ["1"]);
    assert_eq!(u.code("CALL d.q()"), Some(1370));
    assert_eq!(u.code("GRANT EXECUTE ON PROCEDURE d.q TO w"), Some(1370));
    u.run("GRANT EXECUTE ON PROCEDURE d.p TO w");
    assert_eq!(connect_as(&server, "w").lines("CALL d.p()"), ["1"]);
    // Its definer has SYSTEM_USER.
    assert_eq!(u.code("DROP PROCEDURE d.p"), Some(1227));
    assert_eq!(u.code("ALTER PROCEDURE d.p COMMENT 'mine'"), Some(1227));
    // A definer needs what a caller needs.
    c.run("CREATE DEFINER=w PROCEDURE own() SELECT 1; GRANT EXECUTE ON PROCEDURE own TO u");
    assert_eq!(u.code("CALL d.own()"), Some(1370));
    c.run("GRANT EXECUTE ON PROCEDURE own TO w");
    assert_eq!(u.lines("CALL d.own()"), ["1"]);
    c.run("REVOKE EXECUTE ON PROCEDURE own FROM u");
    assert_eq!(
        u.lines("SHOW GRANTS"),
        [
            "GRANT USAGE ON *.* TO `u`@`%`",
            "GRANT SELECT ON `d`.`v` TO `u`@`%`",
            "GRANT EXECUTE, ALTER ROUTINE ON PROCEDURE `d`.`p` TO `u`@`%` WITH GRANT OPTION",
            "GRANT EXECUTE ON FUNCTION `d`.`f` TO `u`@`%`",
            "GRANT EXECUTE ON FUNCTION `d`.`g` TO `u`@`%`",
        ]
    );
    let seen = "SELECT Db, User, Routine_name, Routine_type, Proc_priv FROM mysql.procs_priv WHERE Routine_name = 'p' ORDER BY User";
    assert_eq!(
        c.lines(seen),
        [
            "d|u|p|PROCEDURE|Execute,Alter Routine,Grant",
            "d|w|p|PROCEDURE|Execute"
        ]
    );
    assert_eq!(c.code("GRANT EXECUTE ON PROCEDURE nope TO u"), Some(1305));
    assert_eq!(c.code("GRANT SELECT ON PROCEDURE p TO u"), Some(1144));
    assert_eq!(c.code("REVOKE EXECUTE ON PROCEDURE q FROM u"), Some(1403));
    c.run("REVOKE EXECUTE ON FUNCTION f FROM u");
    assert_eq!(u.code("SELECT d.f()"), Some(1370));
    // What was granted outlives the server, and goes with the routine.
    server.kill();
    server.restart();
    let mut u = connect_as(&server, "u");
    assert_eq!(u.lines("CALL d.p()"), ["1"]);
    connect(&server).run("DROP PROCEDURE p");
    assert!(connect(&server).rows(seen).is_empty());
}

#[test]
fn a_function_belongs_to_its_statement() {
    let (server, _dir) = server();
    let mut c = connect(&server);
    c.run(
        "CREATE TABLE log (m VARCHAR(20)); SET GLOBAL log_bin_trust_function_creators = ON;
         CREATE FUNCTION note(x INT) RETURNS INT BEGIN INSERT INTO log VALUES (x); RETURN x; END;
         CREATE FUNCTION naps() RETURNS INT BEGIN DO SLEEP(100); RETURN 1; END;
         CREATE FUNCTION loops() RETURNS INT BEGIN l: LOOP SET @turns = 1; END LOOP; RETURN 1; END",
    );
    // Several threads would read the table, and one calls.
    c.run("CREATE TABLE big (id INT PRIMARY KEY, v INT); SET SESSION cte_max_recursion_depth = 100000;
           INSERT INTO big WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 50000) SELECT i, i % 7 FROM n;
           CREATE FUNCTION odd(x INT) RETURNS INT DETERMINISTIC RETURN x % 2;
           SET SESSION esker_parallel_scan_rows = 1");
    assert_eq!(
        c.lines("SELECT odd(v), COUNT(*), SUM(odd(id)) FROM big GROUP BY odd(v) ORDER BY 1"),
        ["0|28571|14284", "1|21429|10716"]
    );
    for endless in ["SELECT naps()", "SELECT loops()"] {
        let mut other = connect(&server);
        let id = other.value("SELECT CONNECTION_ID()");
        let killed = std::thread::spawn(move || other.code(endless));
        let runs = format!(
            "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE ID = {id} AND COMMAND = 'Query'"
        );
        eventually("it runs", || c.value(&runs) == "1");
        c.run(&format!("KILL QUERY {id}"));
        assert_eq!(killed.join().expect("ends"), Some(1317));
    }
    // The time of a query is also that of its functions.
    assert_eq!(
        c.code("SELECT /*+ MAX_EXECUTION_TIME(200) */ loops()"),
        Some(3024)
    );
    // A waiting function goes on where it stands; what it did is undone with its statement alone.
    c.run("BEGIN; INSERT INTO log VALUES ('first')");
    assert_eq!(
        c.code("INSERT INTO t VALUES (note(7), 'x'), (1, 'y')"),
        Some(1062)
    );
    c.run("INSERT INTO t VALUES (note(8), 'x'); COMMIT");
    assert_eq!(c.lines("SELECT m FROM log"), ["first", "8"]);
}

#[test]
fn functions_stay_while_a_transaction_has_called_them() {
    let (server, _dir) = server();
    let mut c = connect(&server);
    c.run("CREATE FUNCTION f() RETURNS INT DETERMINISTIC RETURN 1");
    let mut other = connect(&server);
    other.run("SET lock_wait_timeout = 1");
    c.run("BEGIN; DO f()");
    let seen =
        "SELECT COUNT(*) FROM performance_schema.metadata_locks WHERE OBJECT_TYPE = 'FUNCTION'";
    assert_eq!(c.value(seen), "1");
    assert_eq!(other.code("DROP FUNCTION f"), Some(1205));
    assert_eq!(other.code("ALTER FUNCTION f COMMENT 'x'"), Some(1205));
    c.run("COMMIT");
    other.run("ALTER FUNCTION f COMMENT 'x'; DROP FUNCTION f");
    assert_eq!(c.code("SELECT f()"), Some(1305));
    assert_eq!(c.value(seen), "0");
}

#[test]
fn procedures_stay_while_a_transaction_has_called_them() {
    let (server, _dir) = server();
    let mut c = connect(&server);
    c.run("CREATE PROCEDURE held() SET @held = 1; CALL held()");
    let mut other = connect(&server);
    other.run("SET lock_wait_timeout = 1");
    let seen =
        "SELECT COUNT(*) FROM performance_schema.metadata_locks WHERE OBJECT_TYPE = 'PROCEDURE'";
    // Outside of a transaction a CALL goes on as it began, and holds no metadata lock.
    assert_eq!(c.value(seen), "0");
    c.run("BEGIN; CALL held()");
    assert_eq!(c.value(seen), "1");
    assert_eq!(other.code("DROP PROCEDURE held"), Some(1205));
    assert_eq!(other.code("ALTER PROCEDURE held COMMENT 'x'"), Some(1205));
    c.run("CALL held(); COMMIT");
    other.run("ALTER PROCEDURE held COMMENT 'x'; DROP PROCEDURE held");
    assert_eq!(c.code("CALL held()"), Some(1305));
}

#[test]
fn dumps_have_the_procedures() {
    let version = |name: &str| has_client(name, Command::new(name).arg("--version"));
    if !version("mariadb-dump") || !version("mariadb") {
        return;
    }
    let (server, dir) = server();
    let port = format!("-P{}", server.port);
    let login = [
        "--no-defaults",
        "--skip-ssl",
        "-h127.0.0.1",
        "-uroot",
        port.as_str(),
    ];
    // The command line has a delimiter of its own.
    let script = dir.path().join("script.sql");
    let text = "USE d;\nDELIMITER //\nCREATE PROCEDURE p(IN a INT, OUT b VARCHAR(20))\nBEGIN\n  -- a comment; with a semicolon\n  \
                SET b = CONCAT('é', a); SELECT ';' AS semicolon;\nEND//\nDELIMITER ;\nCALL p(1, @b);\nSELECT @b;\n";
    std::fs::write(&script, text).expect("writes");
    let stdin = std::fs::File::open(&script).expect("opens");
    let got = output(
        Command::new("mariadb")
            .args(login)
            .arg("--skip-column-names")
            .stdin(stdin),
    );
    assert_eq!(got, ";\né1\n");
    let dump = || {
        let mut command = Command::new("mariadb-dump");
        let options = ["--routines", "--skip-dump-date", "--databases", "d"];
        output(command.args(login).args(options))
    };
    let before = dump();
    let file = dir.path().join("dump.sql");
    std::fs::write(&file, &before).expect("writes");
    connect(&server).run("DROP DATABASE d");
    let stdin = std::fs::File::open(&file).expect("opens");
    output(Command::new("mariadb").args(login).stdin(stdin));
    assert_eq!(dump(), before);
    let mut c = connect(&server);
    assert_eq!(c.lines("CALL p(2, @b)"), [";"]);
    assert_eq!(c.value("SELECT @b"), "é2");
}

const PYMYSQL: &str = r#"
import sys, pymysql
c = pymysql.connect(host="127.0.0.1", port=int(sys.argv[1]), user="root", database="d", autocommit=True)
q = c.cursor()
q.execute("CREATE PROCEDURE p(IN a INT, OUT b INT, INOUT s VARCHAR(10)) BEGIN SELECT id FROM t WHERE id <= a; SELECT a, s; SET b = a * 2, s = CONCAT(s, '!'); END")
q.callproc("p", (2, 0, "x"))
print(q.fetchall())
while q.nextset():
    print(q.fetchall())
q.execute("SELECT @_p_0, @_p_1, @_p_2")
print(q.fetchall())
q.execute("CREATE PROCEDURE e() SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'no', MYSQL_ERRNO = 31001")
try:
    q.callproc("e")
except pymysql.err.MySQLError as e:
    print(e.args)
"#;

#[test]
fn pymysql_calls() {
    let Some(mut python) = python() else { return };
    let (server, _dir) = server();
    let port = server.port.to_string();
    let got = output(python.args(["-c", PYMYSQL, &port]));
    let rows = "((1,), (2,))\n((2, 'x'),)\n[]\n((2, 4, 'x!'),)\n";
    assert_eq!(got, format!("{rows}(31001, 'no')\n"));
}

/// Definitions are logged as statements with their definer, and what a CALL changes as rows.
#[test]
fn the_binary_log_has_definitions_and_rows() {
    let dir = tempfile::tempdir().expect("folder");
    let server = Server::start(dir.path(), &["--skip-ssl", "--log-bin=ON"]);
    let mut c = server.connect();
    c.run(
        "CREATE DATABASE d; USE d; CREATE TABLE t (id INT PRIMARY KEY);
         CREATE PROCEDURE p(n INT) BEGIN INSERT INTO t VALUES (n); CREATE TABLE IF NOT EXISTS u (a INT); END;
         CALL p(4); ALTER PROCEDURE p COMMENT 'x'; DROP PROCEDURE p",
    );
    let events = c.rows("SHOW BINLOG EVENTS");
    let texts = events.iter().filter_map(|event| event[5].as_deref());
    let queries = texts.filter(|text| text.contains("`d`; "));
    // Without the number of the transaction.
    let queries: Vec<&str> = queries
        .filter_map(|text| text.split(" /* xid=").next())
        .collect();
    assert_eq!(
        queries,
        [
            "use `d`; CREATE TABLE t (id INT PRIMARY KEY)",
            "use `d`; CREATE DEFINER=`root`@`localhost` PROCEDURE `p`(n INT)\nBEGIN INSERT INTO t VALUES (n); \
             CREATE TABLE IF NOT EXISTS u (a INT); END",
            "use `d`; CREATE TABLE IF NOT EXISTS u (a INT)",
            "use `d`; ALTER PROCEDURE p COMMENT 'x'",
            "use `d`; DROP PROCEDURE p",
        ]
    );
    let kinds: Vec<&str> = events
        .iter()
        .filter_map(|event| event[2].as_deref())
        .collect();
    assert_eq!(
        kinds.iter().filter(|kind| **kind == "Write_rows").count(),
        1,
        "{kinds:?}"
    );
    // A function says whether a replica may run it.
    let plain = "CREATE FUNCTION f() RETURNS INT RETURN 1";
    assert_eq!(c.code(plain), Some(1418));
    c.run("SET GLOBAL log_bin_trust_function_creators = ON");
    c.run(plain);
}

/// Each way to use a routine in an open transaction, with what would change it: it waits for the end.
#[test]
fn routines_that_open_transactions_use_are_not_changed() {
    let (server, _dir) = server();
    let (mut one, mut two) = (connect(&server), connect(&server));
    one.run(
        "CREATE TABLE noted (a INT);
         CREATE PROCEDURE p() INSERT INTO noted VALUES (1);
         CREATE PROCEDURE q() CALL p();
         CREATE FUNCTION f() RETURNS INT DETERMINISTIC RETURN 1;
         CREATE TABLE u (a INT); CREATE TRIGGER tr BEFORE INSERT ON u FOR EACH ROW CALL p()",
    );
    two.run("SET lock_wait_timeout = 1");
    for (begin, uses) in [
        ("BEGIN", "CALL p()"),
        ("BEGIN", "CALL q()"),
        ("BEGIN", "INSERT INTO u VALUES (1)"),
        ("SET autocommit = 0", "CALL p()"),
        ("SET autocommit = 0", "CALL q()"),
    ] {
        one.run(begin);
        one.run(uses);
        for change in [
            "DROP PROCEDURE p",
            "CREATE PROCEDURE p() SELECT 1",
            "CREATE PROCEDURE IF NOT EXISTS p() SELECT 1",
            "DROP DATABASE d",
        ] {
            assert_eq!(two.code(change), Some(1205), "{begin}; {uses} | {change}");
        }
        one.run("COMMIT; SET autocommit = 1");
        assert_eq!(two.code("CREATE PROCEDURE p() SELECT 1"), Some(1304));
    }
    // What commits at its end keeps nothing.
    one.run("CALL p()");
    two.run("ALTER PROCEDURE p COMMENT 'x'");
    one.run("XA START 'x'; CALL p(); XA END 'x'; XA PREPARE 'x'");
    assert_eq!(two.code("DROP PROCEDURE p"), Some(1205));
    one.run("XA ROLLBACK 'x'");
    two.run("DROP PROCEDURE p");
    one.run("BEGIN");
    assert_eq!(one.value("SELECT f()"), "1");
    assert_eq!(two.code("DROP DATABASE d"), Some(1205));
    one.run("COMMIT");
    two.run("DROP DATABASE d");
}
