//! INFORMATION_SCHEMA.OPTIMIZER_TRACE: what the planner considered, and which traces are kept.
//!
//! Neighbours: `explain` tests the plans themselves. **Invariant**: a trace says what EXPLAIN shows was chosen.

use esker_server::client::Client;
use serde_json::Value;

use crate::common::{Ask, Server};

const SHOWN: &str = "SELECT trace FROM information_schema.optimizer_trace";

/// The steps of that name, in their order.
fn steps<'v>(trace: &'v Value, name: &str) -> Vec<&'v Value> {
    let steps = trace["steps"].as_array().expect("steps");
    steps.iter().filter_map(|step| step.get(name)).collect()
}

#[test]
fn the_trace_says_what_was_considered() {
    let dir = tempfile::tempdir().expect("folder");
    let server = Server::start(dir.path(), &["--skip-ssl"]);
    let mut c = server.connect();
    c.run(
        "CREATE DATABASE d; USE d;
         CREATE TABLE big (a INT PRIMARY KEY, b INT, c INT, KEY kb (b));
         INSERT INTO big WITH RECURSIVE n AS (SELECT 1 a UNION ALL SELECT a + 1 FROM n WHERE a < 500)
           SELECT a, a, a FROM n;
         CREATE TABLE small (a INT PRIMARY KEY, b INT);
         INSERT INTO small VALUES (1, 1), (2, 2), (3, 3)",
    );
    assert!(c.rows(SHOWN).is_empty(), "nothing is traced by default");
    c.run("SET optimizer_trace = 'enabled=on'");
    assert_eq!(
        c.value("SELECT @@optimizer_trace"),
        "enabled=on,one_line=off"
    );
    let query = "SELECT * FROM big JOIN small ON big.b = small.b WHERE small.a < 3";
    c.run(query);
    let row = c.rows("SELECT * FROM information_schema.optimizer_trace");
    assert_eq!(row[0][0].as_deref(), Some(query));
    assert_eq!(row[0][2].as_deref(), Some("0"));
    let text = row[0][1].clone().expect("a trace");
    assert!(text.starts_with("{\n  \"steps\": [\n    {\n      \"join_preparation\": {\n"));
    let trace: Value = serde_json::from_str(&text).expect("a document");
    assert_eq!(steps(&trace, "join_preparation").len(), 1);
    assert_eq!(steps(&trace, "join_execution")[0]["select#"], 1);
    let optimization = steps(&trace, "join_optimization")[0];
    let condition =
        steps(optimization, "condition_processing")[0]["original_condition"].to_string();
    assert!(condition.contains("small.a"), "{condition}");
    let tables = steps(optimization, "rows_estimation")[0].as_array();
    assert_eq!(tables.map(Vec::len), Some(2), "{text}");
    // Both orders were priced; the one that EXPLAIN shows was taken.
    let plans = steps(optimization, "considered_execution_plans")[0];
    let plans = plans.as_array().expect("plans");
    assert_eq!(plans.len(), 4, "{text}");
    let prefixes: Vec<String> = plans.iter().map(|p| p["plan_prefix"].to_string()).collect();
    assert_eq!(prefixes, ["[]", "[]", "[\"`big`\"]", "[\"`small`\"]"]);
    assert!(
        plans
            .iter()
            .all(|p| p["cost_for_plan"].as_f64() > Some(0.0)),
        "{text}"
    );
    let ways = &plans[3]["best_access_path"]["considered_access_paths"];
    let taken: Vec<_> = ways
        .as_array()
        .expect("ways")
        .iter()
        .filter(|w| w["chosen"] == true)
        .collect();
    assert_eq!(
        (taken.len(), &taken[0]["index"]),
        (1, &"kb".into()),
        "{text}"
    );
    let order: Vec<_> = steps(optimization, "refine_plan")[0]
        .as_array()
        .expect("tables")
        .iter()
        .map(|t| {
            t["table"]
                .as_str()
                .expect("a name")
                .trim_matches('`')
                .to_owned()
        })
        .collect();
    let explained = c.rows(&format!("EXPLAIN FORMAT=TRADITIONAL {query}"));
    let explained: Vec<_> = explained.iter().filter_map(|row| row[2].clone()).collect();
    assert_eq!(order, explained, "{text}");
}

#[test]
fn ranges_failures_and_limits_of_traces() {
    let dir = tempfile::tempdir().expect("folder");
    let server = Server::start(dir.path(), &["--skip-ssl"]);
    let mut c = server.connect();
    c.run("CREATE DATABASE d; USE d; CREATE TABLE t (a INT PRIMARY KEY, b INT, KEY kb (b))");
    c.run("INSERT INTO t WITH RECURSIVE n AS (SELECT 1 a UNION ALL SELECT a + 1 FROM n WHERE a < 500) SELECT a, a FROM n");
    c.run("SET optimizer_trace = 'enabled=on,one_line=on'");
    // A key that would be read without planning, a text that comes again, and a prepared statement.
    for _ in 0..3 {
        c.run("SELECT b FROM t WHERE b BETWEEN 5 AND 9");
        let text = c.value(SHOWN);
        assert!(!text.contains('\n'), "{text}");
        assert!(text.contains("\"ranges\": [\"(5 <= b <= 9)\"]"), "{text}");
    }
    c.run("SELECT * FROM t WHERE a = 7");
    assert!(c.value(SHOWN).contains("\"access_type\": \"eq_ref\""));
    c.run("PREPARE s FROM 'SELECT a FROM t WHERE b = 3'");
    c.run("UPDATE t SET b = 8 WHERE b > 498");
    assert!(c.value(SHOWN).contains("\"index\": \"kb\""));
    // What fails has no plan.
    assert_eq!(c.code("SELECT nope FROM t"), Some(1054));
    let failed = c.value(SHOWN);
    assert!(
        failed.contains("join_preparation") && !failed.contains("join_execution"),
        "{failed}"
    );
    // The last two, of which the first is shown; SHOW is not traced.
    c.run("SET optimizer_trace_offset = -2, optimizer_trace_limit = 1");
    for sql in ["SELECT 1", "SELECT 2", "SHOW TABLES", "SELECT 3"] {
        c.run(sql);
    }
    let queries = "SELECT query FROM information_schema.optimizer_trace";
    assert_eq!(c.lines(queries), ["SELECT 2"]);
    c.run("SET optimizer_trace_features = 'range_optimizer=off'");
    c.run("SET optimizer_trace_offset = 0");
    c.run("SELECT * FROM t WHERE b = 3");
    assert!(c.value(SHOWN).contains("\"rows_estimation\": [\"...\"]"));
    c.run("SET optimizer_trace_max_mem_size = 50, optimizer_trace_limit = 2");
    c.run("SELECT * FROM t WHERE b = 4");
    let cut = c.rows(
        "SELECT LENGTH(query) + LENGTH(trace), missing_bytes_beyond_max_mem_size > 0 \
                      FROM information_schema.optimizer_trace",
    );
    assert_eq!(cut, [[Some("50".to_owned()), Some("1".to_owned())]]);
    c.run("SET optimizer_trace = 'enabled=off'");
    c.run("SELECT 4");
    assert_eq!(c.lines(queries).len(), 1);
    assert_eq!(c.code("SET optimizer_trace = 'enabled=maybe'"), Some(1231));
    c.run("SET optimizer_trace = 3");
    assert_eq!(
        c.value("SELECT @@optimizer_trace"),
        "enabled=on,one_line=on"
    );
    // Other sessions have traces of their own.
    assert!(server.connect().rows(SHOWN).is_empty());
}

#[test]
fn nobody_looks_into_views_by_traces() {
    let dir = tempfile::tempdir().expect("folder");
    let server = Server::start(dir.path(), &["--skip-ssl"]);
    let mut root = server.connect();
    root.run(
        "CREATE DATABASE d; USE d; CREATE TABLE t (a INT, s VARCHAR(9)); INSERT INTO t VALUES (1, 'x');
         CREATE VIEW v AS SELECT a FROM t WHERE s <> 'hidden';
         CREATE USER reader; GRANT SELECT ON d.v TO reader",
    );
    let mut c = Client::connect("127.0.0.1", server.port, "reader", "", None).expect("connect");
    c.run("SET optimizer_trace = 'enabled=on'");
    assert_eq!(c.rows("SELECT * FROM d.v").len(), 1);
    let shown =
        "SELECT query, trace, insufficient_privileges FROM information_schema.optimizer_trace";
    let row = c.rows(shown).remove(0);
    let row: Vec<_> = row.iter().map(Option::as_deref).collect();
    assert_eq!(row, [Some(""), Some(""), Some("1")]);
    // Whoever may, sees.
    root.run("SET optimizer_trace = 'enabled=on'");
    root.run("SELECT * FROM d.v");
    let row = root.rows(shown).remove(0);
    assert!(
        row[1]
            .as_deref()
            .is_some_and(|trace| trace.contains("hidden"))
    );
    assert_eq!(row[2].as_deref(), Some("0"));
}
