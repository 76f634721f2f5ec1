//! Every query answers the same whether it fits its memory or not.
//!
//! Neighbours: `rig`; the queries run over a few thousand rows with budgets of a few
//! kilobytes, so that sorts have many runs and partitions come apart several times.

use esker_engine::MemoryBudget;
use esker_sql_exec::{SpillCounts, TempSpace};
use esker_types::SqlError;
use esker_vfs::OpenMode;
use esker_vfs::sim::{Fault, Op, SimEnv};
use proptest::prelude::*;

use super::rig::Rig;

/// An order's lines, customers and orders, small.
fn shop(lines: u32) -> Rig {
    let mut rig = Rig::new(&[
        "CREATE TABLE customer (c_id INT PRIMARY KEY, c_name VARCHAR(25), c_nation INT)",
        "CREATE TABLE orders (o_id INT PRIMARY KEY, o_cust INT, o_date DATE, o_note VARCHAR(60))",
        "CREATE TABLE lineitem (l_id INT PRIMARY KEY, l_order INT, l_price DECIMAL(12,2), l_tax DOUBLE, \
         l_flag ENUM('A','N','R'), l_bits BIT(9), l_at DATETIME(3), l_took TIME, l_text VARCHAR(80))",
    ]);
    let insert = |rig: &mut Rig, table: &str, rows: Vec<String>| {
        for rows in rows.chunks(500) {
            rig.bench
                .ok(&format!("INSERT INTO {table} VALUES {}", rows.join(",")));
        }
    };
    let (customers, orders) = (lines / 20, lines / 4);
    insert(
        &mut rig,
        "customer",
        (0..customers)
            .map(|n| format!("({n}, 'Customer#{}', {})", n * 7919 % 1000, n % 25))
            .collect(),
    );
    insert(
        &mut rig,
        "orders",
        (0..orders)
            .map(|n| {
                let cust = match n % 11 {
                    0 => "NULL".to_owned(),
                    _ => (n * 31 % (customers + 9)).to_string(),
                };
                let note = "x".repeat((n % 60) as usize);
                format!("({n}, {cust}, '1995-0{}-1{}', '{note}')", n % 9 + 1, n % 10)
            })
            .collect(),
    );
    insert(
        &mut rig,
        "lineitem",
        (0..lines)
            .map(|n| {
                // One order has a tenth of all lines: a key that no partitioning takes apart.
                let order = if n % 10 == 0 { 3 } else { n * 17 % (orders + 50) };
                let flag = ["'A'", "'N'", "'R'", "NULL"][(n % 4) as usize];
                let (seed, bits) = (u64::from(n) * 2_654_435_761 % 100_003, n % 512);
                format!(
                    "({n}, {order}, {}.{:02}, {}e-3, {flag}, {bits}, '2020-01-02 03:04:{:02}.{:03}', \
                     '-1{}:00:00', 'text {}')",
                    seed % 5000, n % 100, seed, n % 60, n % 1000, n % 10, seed % 700
                )
            })
            .collect(),
    );
    rig
}

/// What the budgets below are for: everything goes to disk.
const TINY: u64 = 6 * 1024;

/// Answers in memory and with a tiny budget, in their order.
fn check(rig: &mut Rig, sql: &str) -> SpillCounts {
    rig.budget = None;
    let expected = rig.rows(sql);
    rig.budget = Some(TINY);
    rig.temp.take_counts();
    let found = rig.rows(sql);
    assert_eq!(found.len(), expected.len(), "{sql}");
    for (nth, (found, expected)) in found.iter().zip(&expected).enumerate() {
        assert_eq!(found, expected, "{sql}: row {nth}");
    }
    assert_eq!(
        rig.machine.fs.used_bytes(),
        0,
        "{sql}: temporary files are left"
    );
    rig.temp.take_counts().unwrap_or_default()
}

#[test]
fn sorts_merge_runs_and_keep_their_stability() {
    let mut rig = shop(4000);
    for sql in [
        // Many equal keys: the order of arrival decides.
        "SELECT l_id, l_flag FROM lineitem ORDER BY l_flag",
        "SELECT l_text, l_id, l_price FROM lineitem ORDER BY l_text DESC, l_price",
        "SELECT * FROM lineitem ORDER BY l_tax, l_at DESC, l_bits, l_took",
        "SELECT l_id FROM lineitem ORDER BY l_flag LIMIT 900, 300",
        "SELECT l_id FROM lineitem ORDER BY l_flag LIMIT 3",
        "SELECT l_id FROM lineitem ORDER BY l_flag LIMIT 0",
    ] {
        let counts = check(&mut rig, sql);
        assert_eq!(
            counts.merge_passes > 0,
            !sql.contains("LIMIT 3") && !sql.contains("LIMIT 0")
        );
    }
    // More runs than are merged at a time.
    let counts = check(
        &mut rig,
        "SELECT l_id, l_text FROM lineitem ORDER BY l_text",
    );
    assert!(counts.merge_passes > 1, "{counts:?}");
}

#[test]
fn groups_come_in_the_order_of_their_first_row() {
    let mut rig = shop(4000);
    for sql in [
        "SELECT l_text, COUNT(*), SUM(l_price), AVG(l_tax), MIN(l_at), MAX(l_flag) FROM lineitem \
         GROUP BY l_text",
        "SELECT l_order, COUNT(DISTINCT l_text), SUM(DISTINCT l_tax), GROUP_CONCAT(l_id) \
         FROM lineitem GROUP BY l_order",
        "SELECT l_order, GROUP_CONCAT(DISTINCT l_flag ORDER BY l_flag DESC SEPARATOR '-'), \
         GROUP_CONCAT(l_id ORDER BY l_price) FROM lineitem GROUP BY l_order",
        "SELECT l_flag, l_text, COUNT(*), SUM(l_price), GROUPING(l_text) FROM lineitem \
         GROUP BY l_flag, l_text WITH ROLLUP",
        "SELECT l_flag, COUNT(DISTINCT l_id), COUNT(DISTINCT l_text, l_flag) FROM lineitem \
         GROUP BY l_flag",
        "SELECT COUNT(DISTINCT l_id), SUM(DISTINCT l_tax), COUNT(*) FROM lineitem",
        "SELECT l_text, SUM(l_tax) s FROM lineitem GROUP BY l_text HAVING s > 100 ORDER BY 2 DESC",
        "SELECT ANY_VALUE(l_took), l_price FROM lineitem GROUP BY l_price",
        "SELECT l_order FROM lineitem GROUP BY l_order LIMIT 5",
    ] {
        let counts = check(&mut rig, sql);
        assert!(counts.tables > 0, "{sql}");
    }
}

#[test]
fn distinct_rows_come_in_the_order_of_their_first_occurrence() {
    let mut rig = shop(4000);
    for sql in [
        "SELECT DISTINCT l_text FROM lineitem",
        "SELECT DISTINCT l_text, l_flag FROM lineitem ORDER BY l_flag, l_text DESC",
        "SELECT DISTINCT l_text FROM lineitem LIMIT 600",
        "SELECT DISTINCT l_price FROM lineitem ORDER BY l_price LIMIT 7",
        "SELECT SQL_CALC_FOUND_ROWS DISTINCT l_text FROM lineitem LIMIT 2",
        "SELECT l_text FROM lineitem UNION SELECT o_note FROM orders UNION ALL \
         SELECT c_name FROM customer",
        "SELECT l_order FROM lineitem UNION SELECT o_id FROM orders ORDER BY 1 DESC",
    ] {
        let counts = check(&mut rig, sql);
        assert!(counts.tables > 0, "{sql}");
    }
    rig.budget = Some(TINY);
    let distinct = "SELECT SQL_CALC_FOUND_ROWS DISTINCT l_text FROM lineitem LIMIT 2";
    assert_eq!(rig.found_rows(distinct), (2, 700));
}

#[test]
fn joins_keep_the_order_of_their_left_rows() {
    let mut rig = shop(3000);
    for sql in [
        "SELECT l_id, o_id, o_note FROM lineitem JOIN orders ON o_id + 0 = l_order + 0",
        "SELECT o_id, l_id FROM orders LEFT JOIN lineitem ON l_order = o_id + 0 AND l_price > 2500",
        "SELECT c_id, o_id FROM customer LEFT JOIN orders ON o_cust = c_id + 0",
        "SELECT a.o_id, b.o_id FROM orders a JOIN orders b ON a.o_cust <=> b.o_cust \
         WHERE a.o_id < 40",
        // One key only.
        "SELECT a.c_id, b.c_id FROM customer a LEFT JOIN customer b ON a.c_nation = b.c_nation \
         AND b.c_id % 3 = 0",
        // No key at all.
        "SELECT a.c_id, b.c_id FROM customer a JOIN customer b ON a.c_name < b.c_name \
         WHERE a.c_id < 20",
        "SELECT a.c_id, b.c_id FROM customer a LEFT JOIN customer b ON a.c_name > b.c_name \
         AND a.c_nation > b.c_nation + 20",
        "WITH big AS (SELECT l_order o, l_text t, l_id i FROM lineitem) \
         SELECT x.i, y.t FROM big x JOIN big y ON x.i + 0 = y.i + 0 WHERE x.o > 100",
        "WITH RECURSIVE n (a, t) AS (SELECT 1, REPEAT('x', 50) UNION ALL \
         SELECT a + 1, t FROM n WHERE a < 400) SELECT COUNT(*), SUM(a), MAX(t) FROM n",
    ] {
        check(&mut rig, sql);
    }
    let joined = "SELECT COUNT(*) FROM lineitem JOIN orders ON o_id + 0 = l_order + 0";
    assert!(check(&mut rig, joined).tables > 0);
    // An order that the join keeps needs no sort.
    let counts = check(
        &mut rig,
        "SELECT l_id, o_note FROM lineitem JOIN orders ON o_id + 0 = l_order + 0 ORDER BY l_id",
    );
    assert!(counts.tables > 0, "{counts:?}");
}

#[test]
fn queries_like_those_of_tpc_h() {
    let mut rig = shop(4000);
    for sql in [
        // Q1, Q3, Q10, Q13, Q18 in small.
        "SELECT l_flag, SUM(l_price), SUM(l_price * (1 - l_tax)), AVG(l_tax), COUNT(*) \
         FROM lineitem WHERE l_id < 3900 GROUP BY l_flag ORDER BY l_flag",
        "SELECT l_order, SUM(l_price * 2) AS revenue, o_date FROM customer, orders, lineitem \
         WHERE c_id = o_cust AND l_order = o_id AND c_nation < 20 GROUP BY l_order, o_date \
         ORDER BY revenue DESC, o_date LIMIT 10",
        "SELECT c_id, c_name, SUM(l_price) AS revenue FROM customer, orders, lineitem \
         WHERE c_id = o_cust AND l_order = o_id AND l_flag = 'R' GROUP BY c_id, c_name \
         ORDER BY revenue DESC, c_id LIMIT 20",
        "SELECT c_count, COUNT(*) AS custdist FROM (SELECT c_id, COUNT(o_id) AS c_count \
         FROM customer LEFT JOIN orders ON c_id = o_cust AND o_note NOT LIKE '%xxxxxx%' \
         GROUP BY c_id) AS c_orders GROUP BY c_count ORDER BY custdist DESC, c_count DESC",
        "SELECT c_name, o_id, SUM(l_price) FROM customer, orders, lineitem WHERE o_id IN \
         (SELECT l_order FROM lineitem GROUP BY l_order HAVING SUM(l_price) > 12000) \
         AND c_id = o_cust AND o_id = l_order GROUP BY c_name, o_id ORDER BY 3 DESC, 2",
    ] {
        check(&mut rig, sql);
    }
}

#[test]
fn windows_sort_on_disk_and_hold_a_partition() {
    let mut rig = shop(4000);
    for sql in [
        "SELECT l_id, ROW_NUMBER() OVER (PARTITION BY l_text ORDER BY l_price), \
         SUM(l_tax) OVER (PARTITION BY l_text ORDER BY l_price) FROM lineitem",
        "SELECT l_id, RANK() OVER (PARTITION BY l_text ORDER BY l_flag) r, \
         COUNT(*) OVER (PARTITION BY l_order) c, \
         LAG(l_id) OVER (PARTITION BY l_text, l_flag ORDER BY l_at) FROM lineitem",
        "SELECT l_id, FIRST_VALUE(l_took) OVER (PARTITION BY l_order ORDER BY l_tax \
         ROWS BETWEEN 2 PRECEDING AND CURRENT ROW) FROM lineitem ORDER BY l_id",
        "SELECT c_id, NTILE(7) OVER (ORDER BY c_name), SUM(c_id) OVER () FROM customer",
    ] {
        let counts = check(&mut rig, sql);
        assert!(counts.merge_passes > 0, "{sql}");
    }
}

#[test]
fn memory_stays_within_the_statement_s_limit() {
    let mut rig = shop(4000);
    // Far below what the rows take; without files it is too little. A join keeps its rows as bytes.
    for (sql, memory_kib) in [
        (
            "SELECT l_id, l_text, l_at FROM lineitem ORDER BY l_text",
            200,
        ),
        ("SELECT DISTINCT l_id, l_text, l_at FROM lineitem", 200),
        ("SELECT l_id, COUNT(*) FROM lineitem GROUP BY l_id", 200),
        (
            "SELECT MAX(b.l_text), MAX(b.l_at) FROM lineitem a JOIN lineitem b ON a.l_id + 0 = b.l_id + 0",
            100,
        ),
    ] {
        rig.memory_bytes = memory_kib << 10;
        rig.budget = Some(rig.memory_bytes / 3);
        rig.rows(sql);
        rig.budget = None;
        assert!([1038, 1041].contains(&rig.code(sql)), "{sql}");
    }
}

#[test]
fn a_killed_statement_leaves_nothing() {
    let mut rig = shop(3000);
    rig.budget = Some(TINY);
    for sql in [
        "SELECT l_id FROM lineitem ORDER BY l_text",
        "SELECT l_id, COUNT(*) FROM lineitem GROUP BY l_id",
        "SELECT COUNT(*) FROM lineitem a JOIN lineitem b ON a.l_id + 0 = b.l_id + 0",
    ] {
        // The kill flag is looked at every thousand rows: while reading, writing and merging.
        for looks in 0..8 {
            rig.killed_after.set(Some(looks));
            match rig.run(sql, &[]) {
                Ok(_) => assert!(looks > 2, "{sql}"),
                Err(e) => assert_eq!(e.code, 1317, "{sql}"),
            }
            assert_eq!(rig.machine.fs.used_bytes(), 0, "{sql}");
        }
        rig.killed_after.set(None);
    }
}

#[test]
fn a_full_disk_is_an_error_and_leaves_nothing() {
    let mut rig = shop(3000);
    rig.budget = Some(TINY);
    let sql = "SELECT l_id FROM lineitem ORDER BY l_text";
    for after in [0, 1, 5] {
        rig.machine
            .fs
            .inject(Fault::on(Op::Write).after(after).no_space());
        assert_eq!(rig.code(sql), 1021);
        rig.machine.fs.clear_faults();
        assert_eq!(rig.machine.fs.used_bytes(), 0);
    }
    rig.machine.fs.inject(Fault::on(Op::Write).after(2));
    assert_eq!(rig.code(sql), 3);
    rig.machine.fs.clear_faults();
    rig.machine.fs.inject(Fault::on(Op::Read).after(2));
    assert_eq!(rig.code(sql), 2);
    rig.machine.fs.clear_faults();
    assert_eq!(rig.rows(sql).len(), 3000);
}

#[test]
fn what_an_earlier_process_left_is_removed() -> Result<(), SqlError> {
    let machine = SimEnv::new(3);
    let fs = machine.env().fs;
    let dir = std::path::Path::new("/data");
    let memory = MemoryBudget::unlimited();
    TempSpace::open(fs.clone(), dir, &memory)?;
    for name in ["7.tmp", "README"] {
        let path = dir.join(name);
        let file = fs.open(&path, OpenMode::CreateNew).expect("creates");
        file.write_all_at(b"left over", 0).expect("writes");
    }
    let space = TempSpace::open(fs.clone(), dir, &memory)?;
    assert_eq!(fs.list(dir).expect("lists"), ["README"]);
    assert_eq!(space.used_bytes(), 0);
    Ok(())
}

/// A table of few values, so that keys repeat, with every kind of value that a query can have.
fn random_rows() -> impl Strategy<Value = Vec<(u8, u8, i16, bool)>> {
    prop::collection::vec((0..40_u8, 0..6_u8, -300..300_i16, any::<bool>()), 1..300)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn random_tables_and_budgets(rows in random_rows(), budget in 200..9000_u64, limit in 1..60_u32) {
        let values: Vec<String> = rows
            .iter()
            .enumerate()
            .map(|(id, (a, b, c, null))| {
                let text = if *null { "NULL".into() } else { format!("'{}'", "ab".repeat(*b as usize)) };
                format!("({id}, {a}, {text}, {c}.5)")
            })
            .collect();
        let mut rig = Rig::new(&[
            "CREATE TABLE r (id INT PRIMARY KEY, a INT, s VARCHAR(20), d DECIMAL(8,1))",
            &format!("INSERT INTO r VALUES {}", values.join(",")),
        ]);
        for sql in [
            format!("SELECT id, s FROM r ORDER BY s, d DESC LIMIT {limit}"),
            "SELECT a, s, id FROM r ORDER BY a".into(),
            "SELECT s, a, COUNT(*), SUM(d), COUNT(DISTINCT d) FROM r GROUP BY s, a".into(),
            "SELECT s, a, COUNT(*) FROM r GROUP BY s, a WITH ROLLUP".into(),
            format!("SELECT DISTINCT a, s FROM r LIMIT {limit}"),
            "SELECT DISTINCT a, s FROM r ORDER BY s DESC".into(),
            "SELECT x.id, y.id FROM r x JOIN r y ON x.a + 0 = y.a + 0 AND x.d <= y.d".into(),
            "SELECT x.id, y.id FROM r x LEFT JOIN r y ON x.a + 1 = y.a + 0 AND x.s = y.s".into(),
            "SELECT a, s FROM r UNION SELECT a + 1, s FROM r".into(),
            "SELECT id, SUM(d) OVER (PARTITION BY a ORDER BY s, id), COUNT(*) OVER (PARTITION BY s) FROM r".into(),
        ] {
            rig.budget = None;
            let expected = rig.rows(&sql);
            rig.budget = Some(budget);
            prop_assert_eq!(rig.rows(&sql), expected, "{}", sql);
        }
    }
}
