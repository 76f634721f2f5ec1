//! Access paths, key ranges, join orders, EXPLAIN.

use std::collections::BTreeSet;

use esker_sql_plan::plan::explain::{Explainee, Form, SERIAL, explain};

use super::rig::Rig;

/// A table whose answers can be computed by hand: a = id / 10, b = id % 10, in 300 rows.
fn numbers() -> Rig {
    let rows: Vec<String> = (0..300)
        .map(|i| {
            let (a, b) = (i / 10, i % 10);
            let n = if b == 0 { "NULL".into() } else { b.to_string() };
            format!("({i}, {a}, {b}, 's{b}{a}', {n})")
        })
        .collect();
    let insert = format!("INSERT INTO t VALUES {}", rows.join(","));
    Rig::new(&[
        "CREATE TABLE t (id INT PRIMARY KEY, a SMALLINT, b INT, s VARCHAR(10), n INT, \
         KEY ab (a, b), KEY kb (b DESC), KEY ks (s), KEY kn (n), UNIQUE KEY bs (b, s))",
        &insert,
    ])
}

/// Checks a condition on `t` through every index against reading the whole table.
fn check(rig: &Rig, cond: &str) {
    let all = rig.sorted(&format!(
        "SELECT id FROM t IGNORE INDEX (PRIMARY, ab, kb, ks, kn, bs) WHERE {cond}"
    ));
    for index in ["PRIMARY", "ab", "kb", "ks", "kn", "bs"] {
        let sql = format!("SELECT id FROM t FORCE INDEX ({index}) WHERE {cond}");
        assert_eq!(rig.sorted(&sql), all, "{sql}");
        for order in ["", " DESC"] {
            let sql = format!(
                "{sql} ORDER BY {index}{order}",
                index = order_columns(index, order)
            );
            let rows = rig.rows(&sql);
            assert_eq!(
                rows.iter().collect::<BTreeSet<_>>().len(),
                all.len(),
                "{sql}"
            );
        }
    }
}

fn order_columns(index: &str, order: &str) -> &'static str {
    match (index, order.is_empty()) {
        ("PRIMARY", _) => "id",
        ("ab", true) => "a, b",
        ("ab", false) => "a DESC, b",
        ("kb", _) => "b",
        ("ks", _) => "s",
        ("kn", _) => "n",
        (_, true) => "b, s",
        (_, false) => "b DESC, s",
    }
}

#[test]
fn every_index_gives_what_the_whole_table_gives() {
    let rig = numbers();
    for cond in [
        "id = 5",
        "id IN (5, 7, 7, NULL, 999)",
        "id BETWEEN 10 AND 20",
        "id > 290 OR id < 3 OR id = 100",
        "id > 10 AND id < 5",
        "id >= 10 AND id > 12 AND id <= 14",
        "NOT (id BETWEEN 5 AND 295)",
        "id <> 3 AND id < 6",
        "a = 3",
        "a = 3 AND b = 4",
        "a = 3 AND b > 4",
        "a IN (1, 2) AND b IN (3, 4)",
        "a IN (1, 2) AND b >= 8",
        "a > 27 AND b = 1",
        "(a = 1 AND b = 2) OR (a = 3 AND b > 7)",
        "(a = 1 OR a = 5) AND (b = 2 OR b > 8)",
        "(a, b) IN ((1, 2), (3, 4))",
        "(a, b) > (28, 7)",
        "(a, b) <= (0, 3)",
        "a = 3.5 OR a < 0.5",
        "a > 100000",
        "a < -100000 OR a > -100000 AND a < 1",
        "a = '7'",
        "a = '7x'",
        "b = 9",
        "b > 8",
        "b <= 0",
        "b BETWEEN 3 AND 4 AND a < 2",
        "s = 's11'",
        "s = 'S11'",
        "s LIKE 's1%'",
        "s LIKE 's1_' AND b = 1",
        "s LIKE '%9'",
        "s > 's9' AND s < 's92'",
        "s IN ('s00', 's01', 'nope')",
        "s = 1",
        "n IS NULL",
        "n IS NULL AND id < 40",
        "n IS NOT NULL AND n > 8",
        "n <=> NULL",
        "n <=> 3",
        "n = NULL",
        "n NOT IN (1, 2, 3)",
        "n <> 5",
        "n < 2 OR n IS NULL",
        "b = 3 AND s = 's312'",
        "b = 3 AND s LIKE 's31%'",
        "b = 3 AND s > 's35'",
        "b IN (1, 3) AND s >= 's32'",
        "id = a AND b < 5",
        "1 = 0",
        "id = 5 AND 1",
    ] {
        check(&rig, cond);
    }
}

#[test]
fn strings_in_ranges_follow_their_collation() {
    for collation in [
        "utf8mb4_0900_ai_ci",
        "utf8mb4_general_ci",
        "utf8mb4_bin",
        "latin1_swedish_ci",
        "binary",
    ] {
        let ty = match collation {
            "binary" => "VARBINARY(10)".to_owned(),
            c => format!("VARCHAR(10) COLLATE {c}"),
        };
        let rig = Rig::new(&[
            &format!("CREATE TABLE w (s {ty}, d {ty}, KEY ks (s), KEY kd (d DESC), KEY kp (s(2)))"),
            "INSERT INTO w (s) VALUES (''), ('a'), ('A'), ('ab'), ('a b'), ('a '), ('a\\t'), ('aé'), \
             ('b'), ('Äb'), ('a%b'), ('a_b'), ('a\\0'), (NULL), ('zz'), ('ß'), ('ss')",
        ]);
        let mut rig = rig;
        rig.bench.ok("UPDATE w SET d = s");
        for cond in [
            "LIKE 'a%'",
            "LIKE 'ab%'",
            "LIKE 'a %'",
            "LIKE 'a\\_%'",
            "LIKE 'a'",
            "LIKE 'A%b'",
            "LIKE '%'",
            "= 'a'",
            "> 'a'",
            "<= 'a'",
            "BETWEEN 'a' AND 'ab'",
            "IN ('A', 'ss')",
            "< 'b'",
            "LIKE 's%'",
        ] {
            let all = rig.sorted(&format!(
                "SELECT HEX(s) FROM w IGNORE INDEX (ks, kd, kp) WHERE s {cond}"
            ));
            for (column, index) in [("s", "ks"), ("d", "kd"), ("s", "kp")] {
                let sql =
                    format!("SELECT HEX(s) FROM w FORCE INDEX ({index}) WHERE {column} {cond}");
                assert_eq!(rig.sorted(&sql), all, "{collation}: {sql}");
            }
        }
    }
}

#[test]
fn ranges_of_other_types() {
    let rig = Rig::new(&[
        "CREATE TABLE w (id INT PRIMARY KEY, u TINYINT UNSIGNED, m DECIMAL(5,2), f FLOAT, d DATE, \
         t DATETIME, h TIME, e ENUM('z','a','m'), y YEAR, i BIT(4), z TIMESTAMP NULL, g DOUBLE, \
         KEY (u), KEY (m), KEY (f), KEY (d), KEY (t), KEY (h), KEY (e), KEY (y), KEY (i), KEY (z), KEY (g))",
        "INSERT INTO w VALUES \
         (1, 0, -1.50, 0.1, '2020-01-01', '2020-01-01 00:00:00', '-01:00:00', 'z', 2000, 0, '2020-01-01 00:00:00', -0.0), \
         (2, 255, 1.49, 1.5, '2020-01-02', '2020-01-02 12:30:00', '10:00:00', 'a', 2024, 5, '2020-06-01 12:00:00', 0.1), \
         (3, 7, 1.50, -2, '2019-12-31', '2020-01-02 12:30:01', '00:00:00', 'm', 1999, 15, '1999-01-01 00:00:00', 1e300), \
         (4, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL)",
    ]);
    for (column, conds) in [
        (
            "u",
            &[
                "> -1", "< 256", "= 300", ">= 255", "= 7.0", "> 6.5", "= '7'",
            ][..],
        ),
        (
            "m",
            &[
                "= 1.5",
                "> 1.495",
                "< 1.495",
                "<= -1.501",
                "> -1.501",
                "= 1.4999",
                "< 100000",
                "> 1",
            ],
        ),
        ("f", &["= 0.1", "= 1.5", "< 1", "> -3"]),
        (
            "d",
            &[
                "= '2020-01-01'",
                "> '2020-01-01 10:00:00'",
                "<= '2020-01-01 10:00:00'",
                "= '2020-01-01 10:00:00'",
                "> 20200101",
                "BETWEEN '2020-01-01' AND '2020-01-31'",
            ],
        ),
        (
            "t",
            &[
                "> '2020-01-02'",
                "= '2020-01-02 12:30:00'",
                "> '2020-01-02 12:30:00.5'",
                "< '2020-01-02 12:30:00.5'",
                "= DATE '2020-01-01'",
            ],
        ),
        (
            "h",
            &["> '00:00:00'", "< '-00:30:00'", "= '10:00:00'", ">= 0"],
        ),
        (
            "e",
            &["= 'a'", "> 'a'", "IN ('m', 'z')", "= 1", "> 1", "= 'nope'"],
        ),
        ("y", &["= 2024", "> 2000", "= 24", "< 2000"]),
        ("i", &["= 5", "> 5", "= b'1111'"]),
        ("z", &["> '2020-01-01'", "= '2020-06-01 12:00:00'"]),
        ("g", &["= 0", "= 0.1", "> 1e299", "<= 0"]),
    ] {
        for cond in conds {
            let all = rig.sorted(&format!(
                "SELECT id FROM w IGNORE INDEX ({column}) WHERE {column} {cond}"
            ));
            let sql = format!("SELECT id FROM w FORCE INDEX ({column}) WHERE {column} {cond}");
            assert_eq!(rig.sorted(&sql), all, "{sql}");
        }
    }
}

#[test]
fn access_paths() {
    let rig = numbers();
    for (sql, line) in [
        ("SELECT * FROM t WHERE id = 5", "t const PRIMARY NULL"),
        (
            "SELECT * FROM t WHERE id IN (1, 2)",
            "t range PRIMARY Using where",
        ),
        (
            "SELECT * FROM t WHERE id BETWEEN 5 AND 9",
            "t range PRIMARY Using where",
        ),
        ("SELECT * FROM t WHERE a = 5", "t ref ab Using where"),
        (
            "SELECT * FROM t WHERE a = 5 AND b = 3",
            "t ref ab Using where",
        ),
        (
            "SELECT a, b, id FROM t WHERE a = 5",
            "t ref ab Using where; Using index",
        ),
        (
            "SELECT * FROM t WHERE b = 3 AND s = 's31'",
            "t const bs NULL",
        ),
        ("SELECT * FROM t", "t ALL NULL NULL"),
        ("SELECT COUNT(*) FROM t", "t index kb Using index"),
        (
            "SELECT * FROM t ORDER BY id DESC",
            "t index PRIMARY Backward index scan",
        ),
        ("SELECT * FROM t ORDER BY s LIMIT 3", "t index ks NULL"),
        ("SELECT * FROM t ORDER BY s", "t ALL NULL Using filesort"),
        (
            "SELECT * FROM t WHERE a = 5 ORDER BY b DESC",
            "t ref ab Using where; Backward index scan",
        ),
        (
            "SELECT * FROM t WHERE a = 5 ORDER BY n",
            "t ref ab Using where; Using filesort",
        ),
        (
            "SELECT MAX(id) FROM t",
            "t index PRIMARY Backward index scan",
        ),
        (
            "SELECT * FROM t WHERE 1 = 0",
            "NULL NULL NULL Impossible WHERE",
        ),
        ("SELECT 1", "NULL NULL NULL No tables used"),
        (
            "SELECT * FROM t IGNORE INDEX (PRIMARY) WHERE id = 5",
            "t ALL NULL Using where",
        ),
        ("SELECT * FROM t WHERE id + 0 = 5", "t ALL NULL Using where"),
        (
            "SELECT a, COUNT(*) FROM t GROUP BY a",
            "t index ab Using index; Using temporary",
        ),
    ] {
        assert_eq!(rig.explain(sql), [line], "{sql}");
    }
}

#[test]
fn join_orders() {
    let mut rig = numbers();
    rig.bench.ok("CREATE TABLE small (k INT, v INT)");
    rig.bench.ok("INSERT INTO small VALUES (1, 1), (2, 2)");
    // The small table first, the large one by key, however it is written.
    let by_key = ["small ALL NULL NULL", "t eq_ref PRIMARY NULL"];
    assert_eq!(
        rig.explain("SELECT * FROM small JOIN t ON t.id = small.k"),
        by_key
    );
    assert_eq!(
        rig.explain("SELECT * FROM t JOIN small ON t.id = small.k"),
        by_key
    );
    assert_eq!(
        rig.explain("SELECT * FROM t LEFT JOIN small ON t.id = small.k WHERE small.v > 0")[1],
        by_key[1]
    );
    // An outer join keeps its side first, STRAIGHT_JOIN the written order.
    let lines = rig.explain("SELECT * FROM t LEFT JOIN small ON t.id = small.k");
    assert_eq!(
        lines,
        [
            "t ALL NULL NULL",
            "small ALL NULL Using where; Using join buffer (hash join)"
        ]
    );
    let lines = rig.explain("SELECT STRAIGHT_JOIN * FROM t JOIN small ON t.id = small.k");
    assert!(
        lines[0].starts_with("t ALL") && lines[1].starts_with("small ALL"),
        "{lines:?}"
    );
    let lines = rig.explain("SELECT * FROM t STRAIGHT_JOIN small ON t.id = small.k");
    assert!(lines[0].starts_with("t ALL"), "{lines:?}");
    // An order of the first table survives joins; a unique key does not order what it meets.
    let lines = rig.explain("SELECT * FROM t x JOIN t y ON y.id = x.a ORDER BY x.id LIMIT 2");
    assert!(!lines.concat().contains("filesort"), "{lines:?}");
    let lines = rig.explain("SELECT * FROM t x JOIN t y ON y.b = x.a ORDER BY x.id, y.s");
    assert!(lines[0].contains("filesort"), "{lines:?}");
    // More tables than are tried exhaustively.
    let names: Vec<String> = (0..10).map(|i| format!("small s{i}")).collect();
    let sql = format!(
        "SELECT COUNT(*) FROM {} WHERE s0.k = s9.k AND s3.k = s4.v",
        names.join(", ")
    );
    assert_eq!(rig.explain(&sql).len(), 10);
    assert_eq!(rig.value(&sql), "256");
}

/// Small tables at several places of a chain are no reason to begin with all of their pairs.
#[test]
fn a_large_join_goes_along_its_conditions() {
    let mut rig = numbers();
    rig.bench.ok("CREATE TABLE small (k INT, v INT)");
    rig.bench.ok("INSERT INTO small VALUES (1, 1), (2, 2)");
    // More than the subsets of which are all looked at, and more than are searched at all.
    for links in [6, 12] {
        let mut ties: Vec<(String, String)> = (1..links)
            .map(|at| (format!("f{}.b", at - 1), format!("f{at}.id")))
            .collect();
        for (nth, at) in [0, links / 2, links - 1].into_iter().enumerate() {
            ties.push((format!("s{nth}.k"), format!("f{at}.a")));
        }
        let table = |at| format!("t f{at}");
        let tables: Vec<String> = (0..links).map(table).collect();
        let conds: Vec<String> = ties.iter().map(|(a, b)| format!("{a} = {b}")).collect();
        let sql = format!(
            "SELECT * FROM small s0, small s1, small s2, {} WHERE {}",
            tables.join(", "),
            conds.join(" AND ")
        );
        let order: Vec<String> = rig
            .explain(&sql)
            .iter()
            .map(|line| line.split(' ').next().unwrap_or_default().to_owned())
            .collect();
        assert_eq!(order.len(), links + 3);
        for (nth, next) in order.iter().enumerate().skip(1) {
            let is_of = |column: &str, alias: &str| column.split('.').next() == Some(alias);
            let connects = |placed: &String| {
                ties.iter().any(|(a, b)| {
                    (is_of(a, placed) && is_of(b, next)) || (is_of(b, placed) && is_of(a, next))
                })
            };
            assert!(order[..nth].iter().any(connects), "{next} in {order:?}");
        }
    }
}

#[test]
fn explain_shows_subqueries_and_unions() {
    let rig = numbers();
    let kinds = |sql: &str| {
        let plan = rig.plan(sql, &[]).expect("plans");
        let (_, rows) = explain(Explainee::Query(&plan), Form::Traditional, SERIAL);
        let cell = |v: &esker_types::Value| match v {
            esker_types::Value::Str(s) => String::from_utf8_lossy(s).into_owned(),
            esker_types::Value::UInt(n) => n.to_string(),
            _ => "-".into(),
        };
        rows.iter()
            .map(|r| format!("{} {} {}", cell(&r[0]), cell(&r[1]), cell(&r[2])))
            .collect::<Vec<_>>()
    };
    assert_eq!(kinds("SELECT * FROM t"), ["1 SIMPLE t"]);
    assert_eq!(
        kinds(
            "SELECT * FROM t WHERE id IN (SELECT a FROM t x) AND EXISTS (SELECT 1 FROM t y WHERE y.id = t.a)"
        ),
        ["1 PRIMARY t", "2 SUBQUERY x", "3 DEPENDENT SUBQUERY y"]
    );
    assert_eq!(
        kinds("SELECT * FROM (SELECT a FROM t LIMIT 5) q"),
        ["1 PRIMARY <derived2>", "2 DERIVED t"]
    );
    assert_eq!(
        kinds("WITH w AS (SELECT a FROM t LIMIT 5) SELECT * FROM w x JOIN w y USING (a)"),
        [
            "1 PRIMARY <derived2>",
            "1 PRIMARY <derived2>",
            "2 DERIVED t"
        ]
    );
    assert_eq!(
        kinds("SELECT 1 UNION SELECT 2"),
        ["1 PRIMARY -", "2 UNION -", "- UNION RESULT <union1,2>"]
    );
}

/// EXPLAIN in a format with one text.
fn document(rig: &Rig, sql: &str, form: Form) -> String {
    let plan = rig.plan(sql, &[]).expect("plans");
    let (_, rows) = explain(Explainee::Query(&plan), form, SERIAL);
    match &rows[..] {
        [row] => match &row[..] {
            [esker_types::Value::Str(text)] => String::from_utf8_lossy(text).into_owned(),
            other => panic!("not a text: {other:?}"),
        },
        other => panic!("not one row: {other:?}"),
    }
}

#[test]
fn a_tree_names_operators_conditions_and_estimates() {
    let rig = numbers();
    let tree = |sql: &str| document(&rig, sql, Form::Tree);
    let text =
        tree("SELECT a FROM t IGNORE INDEX (PRIMARY) WHERE id > 5 ORDER BY n + 1 DESC LIMIT 1");
    let lines: Vec<&str> = text
        .lines()
        .map(|l| l.split("  (cost=").next().unwrap_or(l))
        .collect();
    assert_eq!(
        lines,
        [
            "-> Limit: 1 row(s)",
            "    -> Sort: (t.n + 1) DESC, limit input to 1 row(s)",
            "        -> Filter: (t.id > 5)",
            "            -> Table scan on t",
        ]
    );
    assert!(
        text.lines()
            .all(|l| l.contains("(cost=") && l.contains(" rows=")),
        "{text}"
    );
    let text = tree("SELECT b, COUNT(DISTINCT n) c FROM t WHERE a = 3 GROUP BY b HAVING c > 1");
    for part in [
        "-> Filter: (count(distinct t.n) > 1)",
        "-> Aggregate using temporary table",
        "lookup on t using ab (a=3)",
    ] {
        assert!(text.contains(part), "{part} in {text}");
    }
    let text =
        tree("SELECT x.id FROM t x JOIN t y ON x.n = y.n + 0 AND y.id > x.id WHERE x.s LIKE 's1%'");
    assert!(text.contains("Inner hash join ("), "{text}");
    let text = tree(
        "WITH c AS (SELECT a FROM t) SELECT * FROM c p JOIN c q ON p.a = q.a \
         WHERE p.a IN (SELECT b FROM t z WHERE z.a > q.a)",
    );
    assert!(
        text.contains("Materialize CTE") && text.contains("= any (select #"),
        "{text}"
    );
    assert!(text.contains("subquery in condition; dependent"), "{text}");
    assert!(text.contains("(z.a > q.a)"), "{text}");
}

#[test]
fn json_has_mysql_s_shape() {
    let rig = numbers();
    let json = |sql: &str| document(&rig, sql, Form::Json);
    let text = json("SELECT a FROM t WHERE id = 7 AND n > 2");
    assert!(
        text.starts_with("{\n  \"query_block\": {\n    \"select_id\": 1,\n"),
        "{text}"
    );
    for part in [
        "\"table\": {\n      \"table_name\": \"t\",\n      \"access_type\": \"const\"",
        "\"key\": \"PRIMARY\"",
        "\"used_key_parts\": [\n        \"id\"\n      ]",
        "\"attached_condition\": \"",
        "\"used_columns\": [",
    ] {
        assert!(text.contains(part), "{part} in {text}");
    }
    let text = json("SELECT x.b, COUNT(*) FROM t x JOIN t y ON x.id = y.a GROUP BY x.b ORDER BY 2");
    let order = [
        "ordering_operation",
        "grouping_operation",
        "nested_loop",
        "table_name",
    ];
    let places: Vec<Option<usize>> = order.iter().map(|part| text.find(part)).collect();
    assert!(
        places.iter().all(Option::is_some) && places.is_sorted(),
        "{text}"
    );
    let text = json("SELECT 'a\"b' FROM t UNION SELECT s FROM (SELECT s FROM t LIMIT 3) q");
    assert!(
        text.contains("\"union_result\"") && text.contains("materialized_from_subquery"),
        "{text}"
    );
    assert_eq!(
        text.matches('{').count(),
        text.matches('}').count(),
        "{text}"
    );
}
