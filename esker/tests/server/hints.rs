//! Optimizer hints: what they change in plans, and that they end with their statement.
//!
//! Neighbours: `tests/sql/query/hints.slt` has their warnings. **Invariant**: plans are compared with and without the
//! hint, so that a test fails if the hint does nothing.

use esker_server::client::Client;

use crate::common::{Ask, Server};

fn server() -> (Server, tempfile::TempDir) {
    let dir = tempfile::tempdir().expect("folder");
    let server = Server::start(dir.path(), &["--skip-ssl"]);
    server.connect().run(
        "CREATE DATABASE d; USE d;
         CREATE TABLE big (a INT PRIMARY KEY, b INT, c INT, KEY kb (b));
         INSERT INTO big WITH RECURSIVE n AS (SELECT 1 a UNION ALL SELECT a + 1 FROM n WHERE a < 500)
           SELECT a, a, a FROM n;
         CREATE TABLE small (a INT PRIMARY KEY, b INT, KEY kb (b));
         INSERT INTO small VALUES (1, 1), (2, 2), (3, 3)",
    );
    (server, dir)
}

/// Tables of a plan in their order, each with its key.
fn plan(c: &mut Client, statement: &str) -> Vec<String> {
    let rows = c.rows(&format!("EXPLAIN FORMAT=TRADITIONAL {statement}"));
    let cell = |row: &[Option<String>], n: usize| row[n].clone().unwrap_or_else(|| "-".into());
    rows.iter()
        .map(|row| format!("{} {}", cell(row, 2), cell(row, 6)))
        .collect()
}

#[test]
fn indexes_are_used_and_left_out() {
    let (server, _dir) = server();
    let mut c = server.connect();
    c.run("USE d");
    let read = |hint: &str| format!("SELECT {hint} c FROM big WHERE b = 7");
    assert_eq!(plan(&mut c, &read("")), ["big kb"]);
    for hint in [
        "NO_INDEX(big kb)",
        "NO_INDEX(big)",
        "NO_JOIN_INDEX(big kb)",
        "INDEX(big PRIMARY)",
    ] {
        let found = plan(&mut c, &read(&format!("/*+ {hint} */")));
        assert_ne!(found, ["big kb"], "{hint}");
    }
    // It is about another use of the index, or about another table.
    for hint in ["NO_ORDER_INDEX(big kb)", "NO_INDEX(other kb)"] {
        assert_eq!(
            plan(&mut c, &read(&format!("/*+ {hint} */"))),
            ["big kb"],
            "{hint}"
        );
    }
    // Hints replace USE INDEX and its kin.
    let both = "SELECT /*+ INDEX(big kb) */ c FROM big IGNORE INDEX (kb) WHERE b = 7";
    assert_eq!(plan(&mut c, both), ["big kb"]);
    // Changes obey, too.
    assert_eq!(plan(&mut c, "UPDATE big SET c = 1 WHERE b = 7"), ["big kb"]);
    for verb in [
        "UPDATE /*+ NO_INDEX(big kb) */ big SET c = 1",
        "DELETE /*+ NO_INDEX(big kb) */ FROM big",
    ] {
        assert_ne!(plan(&mut c, &format!("{verb} WHERE b = 7")), ["big kb"]);
    }
    // A plan that is kept for a text knows the hint.
    for _ in 0..4 {
        assert_eq!(
            c.lines("SELECT /*+ NO_INDEX(big kb) */ c FROM big WHERE b = 7"),
            ["7"]
        );
        assert_eq!(c.lines("SELECT c FROM big WHERE b = 7"), ["7"]);
    }
}

#[test]
fn tables_are_joined_in_the_order_asked_for() {
    let (server, _dir) = server();
    let mut c = server.connect();
    c.run("USE d");
    let order = |c: &mut Client, hint: &str, tail: &str| -> Vec<String> {
        let statement = format!("SELECT /*+ {hint} */ 1 FROM {tail}");
        let tables = plan(c, &statement);
        tables
            .iter()
            .map(|t| t.split(' ').next().unwrap_or_default().to_owned())
            .collect()
    };
    let two = "big JOIN small ON big.b = small.b";
    assert_eq!(order(&mut c, "QB_NAME(q)", two), ["small", "big"]);
    for hint in [
        "JOIN_ORDER(big, small)",
        "JOIN_PREFIX(big)",
        "JOIN_SUFFIX(small)",
        "JOIN_FIXED_ORDER()",
        "QB_NAME(q) JOIN_ORDER(@q big, small)",
    ] {
        assert_eq!(order(&mut c, hint, two), ["big", "small"], "{hint}");
    }
    let three = "big JOIN small ON big.b = small.b JOIN small s ON s.a = small.a";
    assert_eq!(order(&mut c, "JOIN_PREFIX(s)", three)[0], "s");
    assert_eq!(order(&mut c, "JOIN_SUFFIX(s)", three)[2], "s");
    // What an outer join forbids is not done.
    let outer = "big LEFT JOIN small ON big.b = small.b";
    assert_eq!(
        order(&mut c, "JOIN_ORDER(small, big)", outer),
        ["big", "small"]
    );
    // A hint of the outer block about an inner one.
    let inner = "SELECT /*+ JOIN_ORDER(@i big, small) */ (SELECT /*+ QB_NAME(i) */ COUNT(*) FROM small JOIN big \
                 ON big.b = small.b) n";
    let tables = plan(&mut c, inner);
    let place = |name: &str| tables.iter().position(|t| t.starts_with(name));
    assert!(place("big") < place("small"), "{tables:?}");
}

#[test]
fn derived_tables_and_joins_are_made_as_asked_for() {
    let (server, _dir) = server();
    let mut c = server.connect();
    c.run("USE d");
    let derived = |hint: &str| {
        format!("SELECT {hint} * FROM (SELECT a, b FROM big WHERE a < 9) q WHERE b = 3")
    };
    let tree = |c: &mut Client, sql: &str| c.value(&format!("EXPLAIN FORMAT=TREE {sql}"));
    assert!(!tree(&mut c, &derived("")).contains("scan on q"));
    for hint in ["/*+ NO_MERGE(q) */", "/*+ NO_MERGE() */"] {
        let tree = tree(&mut c, &derived(hint));
        assert!(tree.contains("scan on q"), "{tree}");
        assert_eq!(c.lines(&derived(hint)), ["3|3"]);
    }
    let join = |hint: &str| format!("SELECT {hint} COUNT(*) FROM big x JOIN big y ON x.c = y.c");
    assert!(tree(&mut c, &join("")).contains("hash join"));
    assert!(!tree(&mut c, &join("/*+ NO_HASH_JOIN(x, y) */")).contains("hash join"));
    assert!(!tree(&mut c, &join("/*+ NO_BNL() */")).contains("hash join"));
    assert_eq!(c.lines(&join("/*+ NO_BNL() */")), ["500"]);
    let keyed = |hint: &str| format!("SELECT {hint} COUNT(*) FROM small x JOIN big y ON x.a = y.a");
    assert!(!tree(&mut c, &keyed("")).contains("hash join"));
    assert!(tree(&mut c, &keyed("/*+ JOIN_ORDER(x, y) HASH_JOIN(y) */")).contains("hash join"));
}

#[test]
fn variables_have_their_values_again_after_the_statement() {
    let (server, _dir) = server();
    let mut c = server.connect();
    c.run("USE d");
    c.run("SET time_zone = '+01:00'");
    let zone = "SELECT /*+ SET_VAR(time_zone='+09:00') */ @@time_zone";
    for _ in 0..3 {
        assert_eq!(c.lines(zone), ["+09:00"]);
        assert_eq!(c.lines("SELECT @@time_zone"), ["+01:00"]);
    }
    // Also where the statement fails, and in the middle of a text.
    let fails = "SELECT /*+ SET_VAR(time_zone='+09:00') */ * FROM nothing_like_that";
    assert_eq!(c.code(fails), Some(1146));
    assert_eq!(c.lines("SELECT @@time_zone"), ["+01:00"]);
    assert_eq!(c.lines(&format!("{zone}; SELECT @@time_zone")), ["+01:00"]);
    // While its rows are read.
    let rows = c.lines(
        "SELECT /*+ SET_VAR(div_precision_increment=1) */ a / 3 FROM big WHERE a < 3 ORDER BY a",
    );
    assert_eq!(rows, ["0.3", "0.7"]);
    let limit =
        "SELECT /*+ SET_VAR(max_execution_time=20) */ COUNT(*) FROM big a, big b, big c, big d";
    assert_eq!(c.code(limit), Some(3024));
}
