//! Reads by key ranges: the rows of wide ones are sent as the client takes them, or are left to the general path.

use std::sync::Arc;

use crate::common::rows::Rows;
use crate::common::{await_durable, client, open};
use esker_sql::{Instance, Mode, OutcomeKind, Request, Session, Step};
use esker_vfs::sim::SimEnv;

/// More rows than are gathered before the first is sent.
const ROWS: u32 = 12_000;
/// Bytes after which a client wants no more for the moment.
const LIMIT: usize = 1000;

struct Client(Session);

impl Client {
    /// Rows, the number of pulls, and the most bytes of one of them.
    fn ask(&mut self, sql: &str) -> (Vec<String>, u32, usize) {
        self.0.start(Request::Query(sql.as_bytes()));
        let Step::Done(outcome) = self.0.step(Mode::Thread) else {
            panic!("nothing to wait for in {sql}");
        };
        let mut depends_on = outcome.depends_on;
        let (mut texts, mut pulls) = (Rows::default(), 0);
        match outcome.result {
            OutcomeKind::Err(e) => panic!("{sql}: {e}"),
            OutcomeKind::Rows(_) => loop {
                texts.bytes = 0;
                pulls += 1;
                let batch = self.0.next_rows(&mut texts, LIMIT).expect("rows");
                depends_on = depends_on.max(batch.depends_on);
                if !batch.more {
                    break;
                }
            },
            _ => {}
        }
        await_durable(&self.0, depends_on);
        (texts.joined(""), pulls, texts.most_bytes)
    }
}

fn filled(instance: &Arc<Instance>) -> Client {
    let mut root = Client(Session::new(Arc::clone(instance), client(1)));
    root.ask("CREATE DATABASE d");
    root.ask("USE d");
    root.ask("CREATE TABLE t (id INT PRIMARY KEY, k INT NOT NULL, c CHAR(20), KEY by_k (k))");
    for from in (0..ROWS).step_by(1000) {
        let rows = (from..from + 1000).map(|id| format!("({id}, {}, 'row {}')", id / 3, ROWS - id));
        let rows: Vec<_> = rows.collect();
        root.ask(&format!("INSERT INTO t VALUES {}", rows.join(",")));
    }
    root
}

#[test]
fn rows_of_wide_ranges_are_sent_as_they_are_taken() {
    let machine = SimEnv::new(31);
    let mut root = filled(&open(&machine, &[]));
    for (sql, first, rows) in [
        ("SELECT c FROM t WHERE id >= 500", 500, ROWS - 500),
        ("SELECT c FROM t WHERE id BETWEEN 500 AND 7000", 500, 6501),
        ("SELECT c FROM t WHERE k >= 1000", 3000, ROWS - 3000),
        (
            "SELECT c FROM t WHERE id BETWEEN 10 AND 2009 OR id BETWEEN 2010 AND 4009",
            10,
            4000,
        ),
    ] {
        let (found, pulls, most_bytes) = root.ask(sql);
        let wanted: Vec<_> = (first..first + rows)
            .map(|id| format!("row {}", ROWS - id))
            .collect();
        assert!(found == wanted, "{sql}: {} rows", found.len());
        assert!(pulls > rows / 200, "{sql}: {pulls} pulls");
        assert!(most_bytes < 2 * LIMIT, "{sql}: {most_bytes} bytes");
        assert_eq!(
            root.ask("SELECT FOUND_ROWS()").0,
            [rows.to_string()],
            "{sql}"
        );
    }
}

#[test]
fn a_read_that_is_killed_ends_at_the_next_pull() {
    let machine = SimEnv::new(33);
    let instance = open(&machine, &[]);
    let mut root = filled(&instance);
    let mut other = Client(Session::new(instance, client(2)));
    let session = &mut root.0;
    session.start(Request::Query(b"SELECT c FROM t WHERE id >= 0"));
    assert!(matches!(session.step(Mode::Thread), Step::Done(_)));
    let mut texts = Rows::default();
    assert!(session.next_rows(&mut texts, LIMIT).expect("rows").more);
    other.ask("KILL QUERY 1");
    let error = session.next_rows(&mut texts, LIMIT).map(|batch| batch.more);
    assert_eq!(error.map_err(|e| e.code), Err(1317));
    assert_eq!(root.ask("SELECT COUNT(*) FROM t").0, [ROWS.to_string()]);
}

#[test]
fn many_rows_are_aggregated_and_sorted_as_few_are() {
    let machine = SimEnv::new(32);
    let mut root = filled(&open(&machine, &[]));
    for rows in [100, 9_999, 10_000, 10_001, ROWS] {
        let sum = u64::from(rows) * u64::from(rows - 1) / 2;
        let sql = format!("SELECT SUM(id) FROM t WHERE id BETWEEN 0 AND {}", rows - 1);
        assert_eq!(root.ask(&sql).0, [sum.to_string()]);
        for distinct in ["", "DISTINCT "] {
            let sql = format!(
                "SELECT {distinct}c FROM t WHERE id BETWEEN 0 AND {} ORDER BY c",
                rows - 1
            );
            let mut wanted: Vec<_> = (0..rows).map(|id| format!("row {}", ROWS - id)).collect();
            wanted.sort();
            assert!(root.ask(&sql).0 == wanted, "{sql}");
        }
        let sql = format!(
            "SELECT k FROM t WHERE id BETWEEN 0 AND {} ORDER BY k DESC",
            rows - 1
        );
        let wanted: Vec<_> = (0..rows).rev().map(|id| (id / 3).to_string()).collect();
        assert!(root.ask(&sql).0 == wanted, "{sql}");
    }
}

/// Queries with LIMIT, ORDER BY by an index and index hints: the rows of the general path, which SQL_CALC_FOUND_ROWS
/// makes them take, from a plan that later texts reuse.
#[test]
fn limits_and_orders_are_those_of_the_general_path() {
    let machine = SimEnv::new(34);
    let mut root = filled(&open(&machine, &[]));
    root.ask("CREATE TABLE p (id INT PRIMARY KEY, price FLOAT NOT NULL, d DECIMAL(8,2), f DOUBLE, at INT, \
              KEY by_price (price, at), KEY by_d (d), KEY by_f (f DESC))");
    root.ask("INSERT INTO p SELECT id, id * 0.15, IF(id % 10 = 0, NULL, id * 0.05), id / 7, id % 5 FROM t WHERE id < 3000");
    let conditions = [
        ("id > 700", "700.5"),
        ("price >= 30.45", "30.449"),
        ("price = 30.45", "30.456"),
        ("price > 10 AND price <= 20.3", "1e30"),
        ("price = 30.45 AND at > 1", "-1e30"),
        ("d >= 3.045", "0.05"),
        ("d > -5", "1e30"),
        ("d < 500000000", "-1"),
        ("f < 100.25", "3e0"),
        ("d IN (1.05, 7.15, 2.001)", "3"),
        ("d IS NULL", "NULL"),
        ("at IS NULL AND id > 30", "2900"),
        ("id BETWEEN 5.5 AND 90.5", "17"),
        ("id = 7.5", "8"),
    ];
    let orders = [
        "",
        "ORDER BY id",
        "ORDER BY id DESC",
        "ORDER BY price, at, id",
        "ORDER BY price DESC, at DESC",
        "ORDER BY price, at DESC",
        "ORDER BY d, id",
        "ORDER BY d DESC",
        "ORDER BY f DESC, id",
        "ORDER BY at, id",
        "ORDER BY x",
    ];
    let limits = [
        "LIMIT 10",
        "LIMIT 0",
        "LIMIT 3, 5",
        "LIMIT 2 OFFSET 9999",
        "LIMIT 100000",
    ];
    let hints = [
        "",
        "FORCE INDEX (by_price)",
        "IGNORE INDEX (PRIMARY, by_d)",
        "USE INDEX (by_f, by_d)",
    ];
    let mut compared = 0;
    for (nth, (condition, other)) in conditions.iter().enumerate() {
        let number = condition.rsplit(' ').next().expect("a number");
        let number = number.trim_end_matches(')');
        let conditions = [condition.to_string(), condition.replace(number, other)];
        for (at, order) in orders.iter().enumerate() {
            let limit = limits[(nth + at) % limits.len()];
            let hint = hints[(nth + at / 2) % hints.len()];
            for condition in conditions.iter().cycle().take(5) {
                let query = format!(
                    "id, price, at, d, f AS x FROM p {hint} WHERE {condition} {order} {limit}"
                );
                let short = root.ask(&format!("SELECT {query}")).0;
                let general = root.ask(&format!("SELECT SQL_CALC_FOUND_ROWS {query}")).0;
                // Rows that are equal in their order may come in any.
                if order.contains("id") || limit == "LIMIT 100000" {
                    let in_order = order.contains("id");
                    assert_eq!(
                        sorted_unless(in_order, short),
                        sorted_unless(in_order, general),
                        "{query}"
                    );
                    compared += 1;
                } else {
                    assert_eq!(short.len(), general.len(), "{query}");
                }
            }
        }
    }
    assert!(compared > 200);
    let hits = root.0.plan_statistics().hits;
    assert!(hits > 50, "{hits} queries had a plan");
}

/// A session that has only read, or has committed, leaves its worker nothing to do.
#[test]
fn the_end_of_a_session_takes_time_where_there_are_rows_to_take_back() {
    let machine = SimEnv::new(38);
    let mut root = filled(&open(&machine, &[]));
    for (sql, at_once) in [
        ("SELECT c FROM t WHERE id = 5", true),
        ("UPDATE t SET k = k + 1 WHERE id = 5", true),
        ("BEGIN", true),
        ("UPDATE t SET k = k + 1 WHERE id = 5", false),
        ("COMMIT", true),
    ] {
        root.ask(sql);
        root.0.start_next();
        assert_eq!(root.0.ends_at_once(), at_once, "{sql}");
    }
    root.0.start(Request::Query(b"SELECT c FROM t"));
    assert!(matches!(root.0.step(Mode::Thread), Step::Done(_)));
    assert!(!root.0.ends_at_once(), "its rows are still to be taken");
}

/// `IS NULL` is a key like others, of which a unique index may have several.
#[test]
fn nulls_are_looked_up() {
    let machine = SimEnv::new(37);
    let mut root = filled(&open(&machine, &[]));
    root.ask("CREATE TABLE n (id INT PRIMARY KEY, u INT UNIQUE, a INT, gone DATETIME, UNIQUE KEY both_of (a, gone), \
              KEY last_gone (gone DESC))");
    root.ask("INSERT INTO n VALUES (1, NULL, 1, NULL), (2, NULL, 1, NULL), (3, 3, 1, '2026-11-30'), (4, NULL, NULL, NULL)");
    for _ in 0..3 {
        for (sql, rows) in [
            ("SELECT id FROM n WHERE u IS NULL", &["1", "2", "4"][..]),
            (
                "SELECT id FROM n WHERE u IS NULL ORDER BY id DESC LIMIT 2",
                &["4", "2"],
            ),
            (
                "SELECT id FROM n WHERE u IS NULL OR u = 3",
                &["1", "2", "4", "3"],
            ),
            ("SELECT id FROM n WHERE a = 1 AND gone IS NULL", &["1", "2"]),
            ("SELECT id FROM n WHERE gone IS NULL AND a IS NULL", &["4"]),
            (
                "SELECT COUNT(*), COUNT(u) FROM n WHERE gone IS NULL",
                &["30"],
            ),
            (
                "SELECT id FROM n WHERE a IS NULL AND gone > '2020-01-01'",
                &[],
            ),
            ("SELECT id FROM n WHERE u = NULL", &[]),
        ] {
            assert_eq!(root.ask(sql).0, rows, "{sql}");
        }
    }
    assert!(root.0.plan_statistics().hits >= 14, "they are short");
}

fn sorted_unless(in_order: bool, mut rows: Vec<String>) -> Vec<String> {
    if !in_order {
        rows.sort();
    }
    rows
}

#[test]
fn the_ends_of_an_index_are_read_from_there() {
    let machine = SimEnv::new(35);
    let mut root = filled(&open(&machine, &[]));
    root.ask("DELETE FROM t WHERE id < 100 OR id > 11000");
    for _ in 0..3 {
        assert_eq!(root.ask("SELECT MIN(id) FROM t").0, ["100"]);
        assert_eq!(root.ask("SELECT MAX(k) FROM t").0, ["3666"]);
        assert_eq!(
            root.ask("SELECT MIN(k) FROM t WHERE k > 50 AND k < 60").0,
            ["51"]
        );
        assert_eq!(root.ask("SELECT MAX(id) FROM t WHERE k = 50").0, ["152"]);
        assert_eq!(root.ask("SELECT MAX(id) FROM t WHERE k = 5").0, ["NULL"]);
        assert_eq!(root.ask("SELECT id FROM t ORDER BY id LIMIT 1").0, ["100"]);
        assert_eq!(
            root.ask("SELECT id, k FROM t ORDER BY k DESC, id DESC LIMIT 2")
                .0,
            ["110003666", "109993666"]
        );
    }
    assert!(root.0.plan_statistics().hits >= 14, "they are short");
    root.ask("DELETE FROM t");
    assert_eq!(root.ask("SELECT MIN(id) FROM t").0, ["NULL"]);
    assert_eq!(root.ask("SELECT MAX(id) FROM t").0, ["NULL"]);
}

/// What SHOW STATUS counts of SELECTs that are compiled once, and of those that are planned each time, by reason.
#[test]
fn selects_that_are_planned_are_counted_by_reason() {
    let machine = SimEnv::new(36);
    let mut root = filled(&open(&machine, &[]));
    let counted = |root: &mut Client, name: &str| -> u64 {
        let shown = root.ask(&format!("SHOW SESSION STATUS LIKE 'Esker_select_{name}'"));
        let digits = shown.0[0].trim_start_matches(|c: char| !c.is_ascii_digit());
        digits.parse().expect("a number")
    };
    for (name, sql) in [
        ("by_key", "SELECT c FROM t WHERE id = 5"),
        (
            "by_key",
            "SELECT id FROM t FORCE INDEX (by_k) WHERE k > 5 ORDER BY k LIMIT 3",
        ),
        (
            "planned_shape",
            "SELECT k, COUNT(*) FROM t WHERE id < 5 GROUP BY k",
        ),
        ("planned_columns", "SELECT k + 1 FROM t WHERE id < 5"),
        ("planned_conditions", "SELECT k FROM t WHERE c = 'row 5'"),
        (
            "planned_order",
            "SELECT id FROM t WHERE k < 5 ORDER BY c, id",
        ),
        ("planned_values", "SELECT c FROM t WHERE id = 'x'"),
        (
            "by_key",
            "SELECT id, k FROM t WHERE id < 50 ORDER BY k LIMIT 2",
        ),
    ] {
        let before = counted(&mut root, name);
        root.ask(sql);
        assert_eq!(counted(&mut root, name), before + 1, "{name}: {sql}");
    }
    // So many rows are not sorted for two of them without asking for a better way.
    let before = counted(&mut root, "by_key");
    root.ask("SELECT id, k FROM t WHERE id < 500 ORDER BY k LIMIT 2");
    assert_eq!(counted(&mut root, "by_key"), before);
    assert!(counted(&mut root, "planned_values") > 1);
}
