//! EXPLAIN: of queries and changes, as table, tree and documents, of other sessions, into variables.

use std::thread;
use std::time::{Duration, Instant};

use esker_server::client::{Client, QueryResult};

use crate::common::{Ask, Server};

fn server() -> (Server, tempfile::TempDir) {
    let dir = tempfile::tempdir().expect("folder");
    let server = Server::start(dir.path(), &["--skip-ssl"]);
    server.connect().run(
        "CREATE DATABASE d; USE d;
         CREATE TABLE t (id INT PRIMARY KEY, k INT, v INT, KEY k (k));
         INSERT INTO t VALUES (1,10,1),(2,20,2),(3,30,3),(4,40,4)",
    );
    (server, dir)
}

#[test]
fn every_statement_is_shown_in_every_format() {
    let (server, _dir) = server();
    let mut c = server.connect();
    c.run("USE d; CREATE TABLE u (id INT PRIMARY KEY, k INT, v INT)");
    let statements = [
        (
            "SELECT * FROM t WHERE k > 5",
            "Filter",
            "\"table_name\": \"t\"",
        ),
        ("TABLE t", "Table scan on t", "\"table_name\": \"t\""),
        (
            "VALUES ROW(1), ROW(2)",
            "Rows fetched before execution",
            "\"message\": \"No tables used\"",
        ),
        (
            "WITH c AS (SELECT id FROM t) SELECT * FROM c",
            "scan on t",
            "\"table_name\": \"t\"",
        ),
        (
            "SELECT 1 UNION SELECT id FROM t",
            "Union materialize with deduplication",
            "\"union_result\"",
        ),
        (
            "SELECT id FROM t INTERSECT SELECT 1",
            "Intersect materialize with deduplication",
            "\"intersect_result\"",
        ),
        (
            "INSERT INTO u SELECT * FROM t",
            "Insert into u",
            "\"insert_from\"",
        ),
        (
            "INSERT INTO u VALUES (1,1,1)",
            "Insert into u",
            "\"insert\": true",
        ),
        (
            "REPLACE INTO u VALUES (1,1,1)",
            "Replace into u",
            "\"replace\": true",
        ),
        (
            "UPDATE t AS x SET v = 0 WHERE k = 10",
            "Update x",
            "\"update\": true",
        ),
        (
            "UPDATE t JOIN u ON t.id = u.id SET t.v = u.v",
            "Update t",
            "\"update\": true",
        ),
        (
            "DELETE FROM t WHERE id = 1",
            "Delete from t",
            "\"delete\": true",
        ),
        (
            "DELETE FROM t ORDER BY v LIMIT 1",
            "Delete from t",
            "\"delete\": true",
        ),
        (
            "DELETE t FROM t JOIN u ON t.id = u.id",
            "Delete from t",
            "\"delete\": true",
        ),
    ];
    for (sql, operator, member) in statements {
        assert!(
            !c.rows(&format!("EXPLAIN FORMAT=TRADITIONAL {sql}"))
                .is_empty(),
            "{sql}"
        );
        let tree = c.value(&format!("EXPLAIN FORMAT=TREE {sql}"));
        assert!(
            tree.starts_with("-> ") && tree.contains(operator),
            "{sql}: {tree}"
        );
        let json = c.value(&format!("EXPLAIN FORMAT=JSON {sql}"));
        assert!(
            json.contains("\"query_block\"") && json.contains(member),
            "{sql}: {json}"
        );
        c.run("SET explain_json_format_version = 2");
        let json = c.value(&format!("EXPLAIN FORMAT=JSON {sql}"));
        assert!(
            json.contains("\"query_plan\"") && json.contains(operator),
            "{sql}: {json}"
        );
        let analyzed = c.value(&format!("EXPLAIN ANALYZE FORMAT=JSON {sql}"));
        let is_measured = analyzed.contains("\"actual_rows\"") || sql.contains("INTO u VALUES");
        assert!(is_measured, "{sql}: {analyzed}");
        assert!(
            c.value(&format!("EXPLAIN ANALYZE {sql}"))
                .contains(operator),
            "{sql}"
        );
        c.run("SET explain_json_format_version = DEFAULT");
    }
    assert_eq!(c.value("SELECT COUNT(*), SUM(v) FROM t"), "4|10");
    assert_eq!(c.value("SELECT COUNT(*) FROM u"), "0");
}

#[test]
fn bounds_of_ranges_are_shown() {
    let (server, _dir) = server();
    let mut c = server.connect();
    c.run("USE d; CREATE TABLE r (id INT PRIMARY KEY, a INT, b VARCHAR(20), KEY ab (a, b))");
    for (cond, over) in [
        ("a BETWEEN 1 AND 3", "over (1 <= a <= 3)"),
        ("a > 1 AND a <= 3 AND b = 'x'", "over (1 < a <= 3)"),
        ("a = 1 AND b > 'x'", "over (a = 1 AND 'x' < b)"),
        ("a < 1 OR a > 7", "over (a < 1) OR (7 < a)"),
        (
            "a IN (1, 2) AND b >= 'x'",
            "over (a = 1 AND 'x' <= b) OR (a = 2 AND 'x' <= b)",
        ),
        (
            "a IN (1, 2, 3, 4, 5)",
            "over (a = 1) OR (a = 2) OR (a = 3) OR (2 more)",
        ),
        ("a = 1 AND b LIKE 'x%'", "over (a = 1 AND b LIKE 'x%')"),
        ("a IS NOT NULL", "over (NULL < a)"),
    ] {
        let tree = c.value(&format!(
            "EXPLAIN FORMAT=TREE SELECT * FROM r FORCE INDEX (ab) WHERE {cond}"
        ));
        assert!(tree.contains(over), "{cond}: {tree}");
    }
}

#[test]
fn references_are_named() {
    let (server, _dir) = server();
    let mut c = server.connect();
    c.run("USE d");
    let refs = |c: &mut dyn Ask, sql: &str| {
        let rows = c.rows(&format!("EXPLAIN {sql}"));
        rows.into_iter()
            .filter_map(|row| row[8].clone())
            .collect::<Vec<_>>()
    };
    let join =
        "SELECT STRAIGHT_JOIN * FROM t x FORCE INDEX (k) JOIN t y ON y.id = x.v WHERE x.k = 10";
    assert_eq!(refs(&mut c, join), ["const", "d.x.v"]);
    let inner = "SELECT (SELECT v FROM t y WHERE y.id = x.k) FROM t x";
    assert_eq!(refs(&mut c, inner), ["d.x.k"]);
}

#[test]
fn a_plan_goes_into_a_variable_and_is_made_for_another_schema() {
    let (server, _dir) = server();
    let mut c = server.connect();
    assert_eq!(c.code("EXPLAIN SELECT * FROM t"), Some(1046));
    c.run("EXPLAIN FORMAT=JSON INTO @plan FOR SCHEMA d SELECT * FROM t WHERE id = 1");
    assert_eq!(
        c.value("SELECT JSON_UNQUOTE(JSON_EXTRACT(@plan, '$.query_block.table.key'))"),
        "PRIMARY"
    );
    assert_eq!(c.value("SELECT DATABASE()"), "NULL");
    assert_eq!(c.rows("EXPLAIN FOR DATABASE d DELETE FROM t").len(), 1);
    for (sql, code) in [
        ("EXPLAIN INTO @x SELECT 1", 6006),
        ("EXPLAIN FORMAT=TREE INTO @x SELECT 1", 6007),
        ("EXPLAIN FORMAT=JSON INTO @x FOR CONNECTION 1", 6009),
        ("EXPLAIN FOR SCHEMA nosuch SELECT 1", 1049),
        ("EXPLAIN FOR SCHEMA d", 1064),
        ("EXPLAIN ANALYZE FOR CONNECTION 1", 1235),
        ("EXPLAIN FOR CONNECTION 1000000", 1094),
    ] {
        assert_eq!(c.code(sql), Some(code), "{sql}");
    }
}

#[test]
fn the_plan_of_another_session_is_shown() {
    let (server, _dir) = server();
    let mut c = server.connect();
    let mut other = server.connect();
    let id = other.value("SELECT CONNECTION_ID()");
    assert!(c.rows(&format!("EXPLAIN FOR CONNECTION {id}")).is_empty());
    let own = c.value("SELECT CONNECTION_ID()");
    assert_eq!(c.code(&format!("EXPLAIN FOR CONNECTION {own}")), Some(3012));
    for (sql, line) in [
        (
            "SELECT SLEEP(100) FROM d.t WHERE k = 10",
            "lookup on t using k (k=10)",
        ),
        ("UPDATE d.t SET v = SLEEP(100) WHERE id > 2", "Update t"),
    ] {
        let mut runs = server.connect();
        let id = runs.value("SELECT CONNECTION_ID()");
        let running = thread::spawn(move || runs.code(sql));
        let explain = format!("EXPLAIN FORMAT=TREE FOR CONNECTION {id}");
        let limit = Instant::now() + Duration::from_secs(60);
        let tree = loop {
            // Until the statement is compiled it has no plan: that is nothing, or error 3012.
            let mut shown = Vec::new();
            let asked = c.query(&explain, &mut |result| {
                if let QueryResult::Rows { rows, .. } = result {
                    shown = rows;
                }
            });
            if let (Ok(()), Some(row)) = (asked, shown.pop()) {
                let tree = row[0].as_ref().expect("a text");
                break String::from_utf8_lossy(tree).into_owned();
            }
            assert!(Instant::now() < limit, "{sql} is not shown");
            thread::sleep(Duration::from_millis(20));
        };
        assert!(tree.contains(line), "{sql}: {tree}");
        // The connection stays: whether one that is killed says so first is open.
        c.run(&format!("KILL QUERY {id}"));
        running.join().expect("it ended");
    }
    c.run("CREATE USER low IDENTIFIED BY 'x'");
    let mut low = Client::connect("127.0.0.1", server.port, "low", "x", None).expect("connect");
    assert_eq!(
        low.code(&format!("EXPLAIN FOR CONNECTION {id}")),
        Some(1227)
    );
}

#[test]
fn explain_of_changes() {
    let (server, _dir) = server();
    let mut c = server.connect();
    c.run("USE d");
    let cells = |c: &mut dyn Ask, sql: &str| {
        let pick = |row: Vec<Option<String>>| {
            let cell = |i: usize| row[i].clone().unwrap_or_else(|| "-".into());
            [1, 2, 4, 6].map(cell).join("|")
        };
        c.rows(sql).into_iter().map(pick).collect::<Vec<_>>()
    };
    for (sql, expected) in [
        (
            "EXPLAIN UPDATE t FORCE INDEX (k) SET v = 0 WHERE k = 10",
            vec!["UPDATE|t|ref|k"],
        ),
        ("EXPLAIN UPDATE t SET v = 0", vec!["UPDATE|t|ALL|-"]),
        (
            "DESC DELETE FROM t WHERE id = 1",
            vec!["DELETE|t|const|PRIMARY"],
        ),
        (
            "EXPLAIN INSERT INTO t VALUES (5,5,5)",
            vec!["INSERT|t|ALL|-"],
        ),
        (
            "EXPLAIN REPLACE INTO t VALUES (1,1,1)",
            vec!["REPLACE|t|ALL|-"],
        ),
        (
            "EXPLAIN INSERT INTO t SELECT id + 10, k, v FROM t WHERE id < 3",
            vec!["INSERT|t|ALL|-", "SIMPLE|t|range|PRIMARY"],
        ),
    ] {
        assert_eq!(cells(&mut c, sql), expected, "{sql}");
    }
    assert_eq!(c.value("SELECT COUNT(*), SUM(v) FROM t"), "4|10");
    assert_eq!(c.code("EXPLAIN UPDATE nope SET v = 0"), Some(1146));
    assert_eq!(c.lines("DESC t").len(), 3);
}

#[test]
fn explain_as_documents_and_analyzed() {
    let (server, _dir) = server();
    let mut c = server.connect();
    c.run("USE d");
    let json = c.value("EXPLAIN FORMAT=JSON SELECT v FROM t FORCE INDEX (k) WHERE k = 10");
    assert!(
        json.contains("\"query_block\"") && json.contains("\"key\": \"k\""),
        "{json}"
    );
    let tree = c.value("EXPLAIN FORMAT=TREE DELETE FROM t WHERE id = 1");
    assert!(
        tree.starts_with("-> ") && tree.contains("using PRIMARY (id=1)"),
        "{tree}"
    );
    c.run("SET explain_format = 'TREE'");
    assert!(
        c.value("EXPLAIN SELECT * FROM t")
            .starts_with("-> Table scan on t  (cost=")
    );
    let analyzed = c.value("EXPLAIN ANALYZE SELECT v FROM t WHERE id > 0 ORDER BY v");
    assert!(analyzed.contains("rows=4 loops=1)"), "{analyzed}");
    for (sql, code) in [
        ("EXPLAIN ANALYZE FORMAT=JSON SELECT 1", 6412),
        ("EXPLAIN ANALYZE FORMAT=TRADITIONAL SELECT 1", 1235),
        ("EXPLAIN ANALYZE SELECT nope FROM t", 1054),
    ] {
        assert_eq!(c.code(sql), Some(code), "{sql}");
    }
    // It runs the query, so the time limit ends it.
    c.run("SET max_execution_time = 50");
    let endless = "EXPLAIN ANALYZE WITH RECURSIVE n (a) AS (SELECT 1 UNION ALL SELECT 1 FROM n) \
                   SELECT COUNT(*) FROM n";
    c.run("SET cte_max_recursion_depth = 4294967295");
    assert_eq!(c.code(endless), Some(3024));
    c.run("SET max_execution_time = 0");
    assert_eq!(c.value("SELECT SUM(v) FROM t"), "10");
}
