//! Estimates from samples, and what they decide.
//!
//! Neighbours: `catalog::sample` takes the samples; `plan` has paths and orders without them.

use esker_sql_catalog::catalog::TableDef;

use super::rig::Rig;

/// `big`: 6,000 rows, 40 of every `g`, one `d` a day; `few`: 150 rows, 15 of every `kind`.
fn tables() -> Rig {
    let mut rig = Rig::new(&[
        "CREATE TABLE big (id INT PRIMARY KEY, g INT NOT NULL, d DATE NOT NULL, v INT, KEY (g), KEY (d))",
        "CREATE TABLE few (g INT PRIMARY KEY, kind INT NOT NULL, KEY (kind))",
    ]);
    for part in 0..6 {
        let row = |i: i32| {
            let (g, v) = (i % 150, i / 150 % 10);
            format!("({i}, {g}, DATE '2000-01-01' + INTERVAL {i} DAY, {v})")
        };
        let rows: Vec<String> = (part * 1000..part * 1000 + 1000).map(row).collect();
        rig.bench
            .ok(&format!("INSERT INTO big VALUES {}", rows.join(",")));
    }
    let rows: Vec<String> = (0..150).map(|g| format!("({g}, {})", g % 10)).collect();
    rig.bench
        .ok(&format!("INSERT INTO few VALUES {}", rows.join(",")));
    rig
}

fn sample(
    rig: &Rig,
    table: &TableDef,
    index: usize,
) -> std::sync::Arc<esker_sql_catalog::catalog::IndexSample> {
    let engine = &rig.bench.engine;
    let found = table.runtime.sample(engine, table, index, 6000.0);
    found.expect("the index has rows")
}

#[test]
fn samples_tell_duplicates() {
    let rig = tables();
    let table = rig.bench.catalog.resolve("d", "big").expect("big");
    let by_g = sample(&rig, &table, 1);
    let per_g = by_g.per_prefix(1).expect("one part");
    assert!((30.0..55.0).contains(&per_g), "{per_g}");
    assert!(by_g.per_prefix(2).is_none());
    let by_id = sample(&rig, &table, 0);
    assert_eq!(by_id.per_prefix(1), Some(1.0));
}

#[test]
fn a_sample_of_what_was_deleted_does_not_walk_over_all_of_it() {
    let mut rig = tables();
    rig.bench.ok("DELETE FROM big WHERE id < 5990");
    let table = rig.bench.catalog.resolve("d", "big").expect("big");
    let steps = || table.indexes[0].tree.superversion().in_memory().steps;
    let before = steps();
    sample(&rig, &table, 0);
    // 32 places and two ends, each with the patience for 1024 deletes; to the next row it would be three times as many.
    let steps = steps() - before;
    assert!((1024..=34 * 1025).contains(&steps), "{steps}");
}

#[test]
fn a_selective_table_drives_an_index_join() {
    let rig = tables();
    let lines = rig.explain("SELECT SUM(v) FROM big, few WHERE big.g = few.g AND few.kind = 3");
    assert!(lines[0].starts_with("few ref"), "{lines:?}");
    assert!(lines[1].starts_with("big ref g"), "{lines:?}");
    // Nearly everything: read once.
    let lines = rig.explain("SELECT SUM(v) FROM big, few WHERE big.g = few.g");
    assert!(lines.iter().any(|l| l.contains("hash join")), "{lines:?}");
}

#[test]
fn a_narrow_range_is_known_to_be_narrow() {
    let rig = tables();
    let sql = |to: &str| {
        format!(
            "SELECT SUM(v) FROM big, few WHERE big.g = few.g AND d >= '2001-01-01' AND d < '{to}'"
        )
    };
    let narrow = rig.explain(&sql("2001-01-20"));
    assert!(
        narrow.iter().any(|l| l.starts_with("big range d")),
        "{narrow:?}"
    );
    let wide = rig.explain(&sql("2015-01-01"));
    assert!(wide.iter().any(|l| l.starts_with("big ALL")), "{wide:?}");
}

#[test]
fn what_all_branches_share_joins() {
    let rig = tables();
    let sql = "SELECT COUNT(*) FROM big, few WHERE (big.g = few.g AND v = 1 AND kind = 1) OR \
               (big.g = few.g AND v = 2 AND kind = 2)";
    let lines = rig.explain(sql);
    assert!(
        lines[1].contains("ref") || lines[1].contains("hash join"),
        "{lines:?}"
    );
    let each =
        |n: i32| format!("SELECT id FROM big, few WHERE big.g = few.g AND v = {n} AND kind = {n}");
    let rows = rig.rows(&each(1)).len() + rig.rows(&each(2)).len();
    assert!(rows > 0);
    assert_eq!(rig.value(sql), rows.to_string());
    // A branch with nothing else makes the others superfluous.
    assert_eq!(
        rig.value(
            "SELECT COUNT(*) FROM big, few WHERE (big.g = few.g) OR (big.g = few.g AND v = 1)"
        ),
        "6000"
    );
}

#[test]
fn subqueries_wait_for_the_fewest_rows() {
    let rig = tables();
    let sql = |hint: &str| {
        format!(
            "SELECT {hint} COUNT(*) FROM big JOIN few ON big.g = few.g WHERE few.kind = 3 AND \
             EXISTS (SELECT 1 FROM big b WHERE b.g = big.g AND b.id > big.id AND b.v = big.v) AND \
             v < (SELECT AVG(v) FROM big b WHERE b.g = big.g)"
        )
    };
    let free = rig.value(&sql(""));
    assert_ne!(free, "0");
    assert_eq!(free, rig.value(&sql("STRAIGHT_JOIN")));
}

#[test]
fn subqueries_count_in_what_a_statement_looks_at() {
    let rig = tables();
    let cost = |sql: &str| rig.plan(sql, &[]).expect(sql).cost_rows;
    assert!(cost("SELECT 1 WHERE 5 < (SELECT SUM(v) FROM big)") >= 6000.0);
    assert!(cost("SELECT g FROM few WHERE g = 1 AND kind IN (SELECT v FROM big)") >= 6000.0);
    let for_each = "SELECT g FROM few WHERE EXISTS (SELECT 1 FROM big WHERE v > kind)";
    assert!(cost(for_each) >= 50.0 * 6000.0);
    assert!(
        cost("SELECT g FROM few WHERE g = 1 AND kind = (SELECT v FROM big WHERE id = 5)") < 10.0
    );
}

#[test]
fn correlated_subqueries_ask_how_many_rows_a_key_has() {
    let mut rig = tables();
    rig.bench
        .ok("CREATE TABLE parts (a INT, b INT, v INT, PRIMARY KEY (a, b))");
    rig.bench
        .ok("INSERT INTO parts SELECT id DIV 4, id % 4, v FROM big");
    let sql = "SELECT (SELECT COUNT(v) FROM parts WHERE a = g) FROM few";
    // Four rows for each of 150; the form of the key alone would suggest a hundred.
    let cost = rig.plan(sql, &[]).expect(sql).cost_rows;
    assert!((600.0..1500.0).contains(&cost), "{cost}");
}

#[test]
fn the_first_rows_of_a_join_come_by_the_index_of_their_order() {
    let rig = tables();
    let sql = |order: &str| {
        format!("SELECT big.id, kind FROM big JOIN few ON few.g = big.g ORDER BY {order}")
    };
    let lines = rig.explain(&sql("d DESC LIMIT 5"));
    assert!(lines[0].starts_with("big index d"), "{lines:?}");
    assert!(lines[1].starts_with("few eq_ref"), "{lines:?}");
    assert!(!lines.concat().contains("filesort"), "{lines:?}");
    // A sum has no index.
    let sorted = rig.rows(&sql("d + INTERVAL 0 DAY DESC LIMIT 5"));
    assert_eq!(rig.rows(&sql("d DESC LIMIT 5")), sorted);
    let skipped = rig.rows(&sql("d + INTERVAL 0 DAY DESC LIMIT 7, 5"));
    assert_eq!(rig.rows(&sql("d DESC LIMIT 7, 5")), skipped);
    // All rows are wanted, most are skipped, or few of many are kept.
    for all in ["d DESC", "d DESC LIMIT 5900, 5"] {
        let lines = rig.explain(&sql(all));
        assert!(lines.concat().contains("filesort"), "{all}: {lines:?}");
    }
    let few = "SELECT id FROM big JOIN few ON few.g = big.g WHERE few.g = 3 ORDER BY d LIMIT 30";
    let lines = rig.explain(few);
    assert!(lines.concat().contains("filesort"), "{lines:?}");
}

#[test]
fn texts_are_looked_up_among_numbers() {
    let mut rig = tables();
    rig.bench.ok("CREATE TABLE texts (t VARCHAR(20))");
    rig.bench
        .ok("INSERT INTO texts VALUES ('5'), ('7.0'), ('7x'), ('1e1'), ('2.5'), ('x'), (NULL), ('99999999999')");
    let join = "FROM texts JOIN big ON big.id = texts.t";
    let lines = rig.explain(&format!("SELECT v {join}"));
    assert!(lines[1].starts_with("big range PRIMARY"), "{lines:?}");
    let found = rig.rows(&format!("SELECT CONCAT(big.id, '=', t) {join} ORDER BY t"));
    assert_eq!(found, ["10=1e1", "5=5", "7=7.0", "7=7x", "0=x"]);
}

#[test]
fn conditions_on_a_union_reach_the_indexes_of_its_members() {
    let mut rig = tables();
    let cost = |sql: &str| rig.plan(sql, &[]).expect(sql).cost_rows;
    for set in ["UNION ALL", "UNION", "EXCEPT", "INTERSECT"] {
        let union = format!("(SELECT id, g FROM big {set} SELECT id, v FROM big) u");
        assert!(cost(&format!("SELECT * FROM {union}")) >= 12000.0);
        let one = format!("SELECT * FROM {union} WHERE u.id = 7");
        assert!(cost(&one) < 100.0, "{one}");
    }
    // Below a LIMIT it would choose other rows.
    let limited = "(SELECT id FROM big UNION ALL SELECT g FROM few LIMIT 9) u";
    assert!(cost(&format!("SELECT * FROM {limited} WHERE u.id = 7")) >= 6000.0);
    // What the union makes a text is compared as one.
    let mixed = "(SELECT id FROM big UNION ALL SELECT 'x' FROM few) u";
    assert_eq!(
        rig.value(&format!("SELECT COUNT(*) FROM {mixed} WHERE u.id = '7.0'")),
        "0"
    );
    // Of texts that are equal the union has the first, whatever a condition tells apart.
    rig.bench.ok("CREATE TABLE words (w VARCHAR(9))");
    rig.bench.ok("INSERT INTO words VALUES ('x'), ('X')");
    let words = "(SELECT w FROM words UNION SELECT w FROM words) u";
    let sql = format!("SELECT COUNT(*) FROM {words} WHERE u.w COLLATE utf8mb4_bin = 'X'");
    assert_eq!(rig.value(&sql), "0");
    // A member's zeros are not the union's.
    rig.bench.ok("CREATE TABLE zeros (id INT(4) ZEROFILL)");
    rig.bench.ok("INSERT INTO zeros VALUES (7)");
    let zeros = "(SELECT id FROM zeros UNION ALL SELECT g FROM few) u";
    assert_eq!(
        rig.value(&format!(
            "SELECT COUNT(*) FROM {zeros} WHERE CONCAT(u.id) = '7'"
        )),
        "2"
    );
}

#[test]
fn a_filtered_table_without_a_tie_makes_no_rows_fewer() {
    let mut rig = tables();
    rig.bench
        .ok("CREATE TABLE kinds (kind INT PRIMARY KEY, name VARCHAR(9))");
    rig.bench
        .ok("INSERT INTO kinds VALUES (1, 'one'), (2, 'two'), (3, 'three')");
    let sql = "SELECT SUM(v) FROM big JOIN few ON big.g = few.g JOIN kinds ON kinds.kind = few.kind \
               WHERE name = 'one' AND big.v < 9";
    let lines = rig.explain(sql);
    let at = |table: &str| lines.iter().position(|l| l.starts_with(table));
    let is_tied = at("kinds") > Some(0) || at("few") == Some(1);
    assert!(is_tied, "{lines:?}");
}

#[test]
fn few_rows_of_a_key_are_sorted_and_not_looked_for_in_their_order() {
    let rig = tables();
    let key = "SELECT id, v + 1 FROM big WHERE g = 3 AND v >= 0 ORDER BY id DESC LIMIT 1";
    let lines = rig.explain(key);
    assert!(lines[0].starts_with("big ref g"), "{lines:?}");
    let latest =
        "SELECT (SELECT v + 0 FROM big WHERE big.g = few.g ORDER BY id DESC LIMIT 1) FROM few";
    let lines = rig.explain(latest);
    assert!(lines[1].starts_with("big ref g"), "{lines:?}");
    // What is true for most rows is soon found in their order.
    let most =
        rig.explain("SELECT id, v + 1 FROM big WHERE g >= 10 AND v >= 0 ORDER BY id DESC LIMIT 1");
    assert!(most[0].starts_with("big index PRIMARY"), "{most:?}");
}

#[test]
fn bounds_that_are_known_when_a_statement_runs_are_known_to_be_narrow() {
    let rig = tables();
    for narrow in [
        "d > CURDATE() + INTERVAL 500 YEAR",
        "d < NOW() - INTERVAL 1000 YEAR",
        "d BETWEEN DATE(NOW()) + INTERVAL 500 YEAR AND DATE(NOW()) + INTERVAL 501 YEAR",
    ] {
        let lines = rig.explain(&format!("SELECT v FROM big WHERE {narrow}"));
        assert!(lines[0].starts_with("big range d"), "{narrow}: {lines:?}");
    }
    for wide in [
        "d < CURDATE() + INTERVAL 500 YEAR",
        "d < SYSDATE()",
        "d > RAND()",
    ] {
        let lines = rig.explain(&format!("SELECT v FROM big WHERE {wide}"));
        assert!(lines[0].starts_with("big ALL"), "{wide}: {lines:?}");
    }
}

#[test]
fn the_least_value_that_is_not_null_is_at_the_end_of_its_index() {
    let mut rig = tables();
    rig.bench
        .ok("CREATE TABLE n (id INT PRIMARY KEY, a INT, d DATE, KEY (a), KEY (d DESC))");
    rig.bench
        .ok("INSERT INTO n SELECT id, IF(id % 3 = 0, NULL, v), IF(id % 3 = 0, NULL, d) FROM big WHERE id < 1000");
    let cost = |sql: &str| rig.plan(sql, &[]).expect(sql).cost_rows;
    for sql in [
        "SELECT MIN(a) FROM n",
        "SELECT MIN(a) FROM n WHERE a > 5",
        "SELECT MIN(d) FROM n",
        "SELECT MIN(d), MAX(d) FROM n",
    ] {
        assert!(cost(sql) < 10.0, "{sql}: {}", cost(sql));
    }
    assert_eq!(
        rig.rows("SELECT MIN(a), MIN(d), MAX(d) FROM n"),
        rig.rows("SELECT MIN(a + 0), MIN(d + INTERVAL 0 DAY), MAX(d + INTERVAL 0 DAY) FROM n")
    );
    assert_eq!(rig.value("SELECT MIN(a) FROM n WHERE a > 5"), "6");
    rig.bench.ok("UPDATE n SET a = NULL");
    assert_eq!(rig.value("SELECT MIN(a) FROM n"), "NULL");
    assert_eq!(rig.value("SELECT MIN(a) FROM n WHERE a IS NULL"), "NULL");
}

#[test]
fn a_derived_table_hands_its_order_on() {
    let rig = tables();
    let sql = "SELECT id FROM (SELECT * FROM big ORDER BY d DESC) x LIMIT 3";
    assert!(rig.plan(sql, &[]).expect(sql).cost_rows < 10_000.0);
    let lines = rig.explain(sql);
    assert!(lines[0].starts_with("big index d"), "{lines:?}");
    assert_eq!(rig.rows(sql), ["5999", "5998", "5997"]);
    let reversed = "SELECT id FROM (SELECT * FROM big ORDER BY d DESC) x ORDER BY d LIMIT 1";
    assert_eq!(rig.value(reversed), "0");
}
