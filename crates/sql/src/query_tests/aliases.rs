//! What the select list's names mean, as MySQL has it: every select list times every name and clause.
//!
//! Neighbours: `bench/oracle/names.py` records the answers and says what the columns are.
//! **Invariant**: every expected value was seen from a MySQL server.

use esker_types::SqlMode;

use super::rig::Rig;

const RECORDED: &str = include_str!("testdata/names.tsv");

fn rig() -> Rig {
    Rig::new(&[
        "CREATE TABLE t (a INT, b INT, c INT)",
        "INSERT INTO t VALUES (1, 20, 1), (2, -10, 1), (3, 5, 2)",
    ])
}

/// Rows, sorted where the clause does not, the number of an error, the numbers of warnings.
fn answer(rig: &Rig, sql: &str, ordered: bool) -> String {
    let said = match rig.run(sql, &[]) {
        Err(e) => return e.code.to_string(),
        Ok(_) => {
            let mut rows = rig.rows(sql);
            if !ordered {
                rows.sort();
            }
            match rows.is_empty() {
                true => "none".to_owned(),
                false => rows.join(",").replace('|', "/"),
            }
        }
    };
    let warnings = rig.warnings.borrow();
    warnings.iter().fold(said, |s, w| format!("{s}!{}", w.code))
}

#[test]
fn names_mean_what_they_mean_in_mysql() {
    let mut rig = rig();
    let mut lines = RECORDED.lines().map(|l| l.split('\t'));
    let names: Vec<&str> = lines.next().expect("a head").skip(3).collect();
    let (mut asked, mut wrong) = (0, Vec::new());
    for mut line in lines {
        let mut next = || line.next().expect("a field");
        let (mode, list, clause) = (next(), next(), next());
        rig.sql_mode = match mode {
            "default" => SqlMode::DEFAULT,
            _ => SqlMode(SqlMode::DEFAULT.0 & !SqlMode::ONLY_FULL_GROUP_BY.0),
        };
        for name in &names {
            let sql = format!("SELECT {list} FROM t {}", clause.replace('?', name));
            let (found, wanted) = (answer(&rig, &sql, clause.contains("ORDER")), next());
            asked += 1;
            if found != wanted {
                wrong.push(format!("{mode}: {sql}: {found}, in MySQL {wanted}"));
            }
        }
    }
    assert!(asked > 10_000);
    assert!(
        wrong.is_empty(),
        "{} of {asked}:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

#[test]
fn subqueries_see_the_items_before_them() {
    let mut rig = rig();
    rig.bench.ok("CREATE TABLE u (a INT, d INT)");
    rig.bench.ok("INSERT INTO u VALUES (1, 7), (2, 8)");
    let n = "(SELECT COUNT(*) FROM u WHERE u.a <= t.a) AS n";
    let cases = [
        (
            "SELECT a * b AS n, (SELECT n * 2) FROM t",
            "20|40 -20|-40 15|30",
        ),
        // A column comes first, in FROM and around it.
        ("SELECT a * b AS a, (SELECT a) FROM t", "20|1 -20|2 15|3"),
        (
            "SELECT a * 2 AS n, (SELECT MAX(d) FROM u WHERE d > n) FROM t",
            "2|8 4|8 6|8",
        ),
        (
            "SELECT b AS n, a * 2 AS n, (SELECT n) FROM t",
            "20|2|2 -10|4|4 5|6|6",
        ),
        (
            "SELECT a * 2 AS n, (SELECT x.m FROM (SELECT n * 2 AS m) x) FROM t",
            "2|4 4|8 6|12",
        ),
        (
            "SELECT a * 2 AS n, (SELECT SUM(d + n) FROM u) FROM t",
            "2|19 4|23 6|27",
        ),
        (
            "SELECT 'k' AS n, (SELECT CONCAT(n, 'x')) FROM t WHERE a = 1",
            "k|kx",
        ),
        // The item is a subquery itself.
        (&format!("SELECT {n}, (SELECT n * 2) FROM t"), "1|2 2|4 2|4"),
        (
            &format!("SELECT {n}, (SELECT x.m FROM (SELECT n * 2 AS m) x) FROM t"),
            "1|2 2|4 2|4",
        ),
        (
            &format!("SELECT {n}, (SELECT MAX(d) FROM u WHERE a = n) FROM t"),
            "1|7 2|8 2|8",
        ),
        (
            &format!("SELECT {n} FROM t ORDER BY (SELECT -n), a DESC"),
            "2 2 1",
        ),
    ];
    for (sql, rows) in cases {
        assert_eq!(rig.rows(sql).join(" "), rows, "{sql}");
    }
    for (sql, code) in [
        ("SELECT (SELECT n), a * b AS n FROM t", 1247),
        ("SELECT a * b AS n FROM t WHERE (SELECT n) > 0", 1054),
        ("SELECT a * b AS n, n * 2 FROM t", 1054),
        ("SELECT SUM(a) AS n, (SELECT n) FROM t", 1247),
        (
            "SELECT ROW_NUMBER() OVER (ORDER BY a) AS n, (SELECT n) FROM t",
            3594,
        ),
        ("SELECT a AS n, b AS n, (SELECT n) FROM t", 1052),
    ] {
        assert_eq!(rig.code(sql), code, "{sql}");
    }
}

#[test]
fn a_single_group_needs_no_order() {
    let rig = rig();
    for sql in [
        "SELECT COUNT(*) FROM t ORDER BY a",
        "SELECT COUNT(*) FROM t HAVING COUNT(*) > 1 ORDER BY b + 1, (SELECT c)",
    ] {
        assert_eq!(rig.value(sql), "3", "{sql}");
    }
    assert_eq!(rig.code("SELECT COUNT(*) FROM t ORDER BY nope"), 1054);
    assert_eq!(rig.code("SELECT COUNT(*) FROM t HAVING a > 1"), 1054);
    assert_eq!(
        rig.code("SELECT a FROM t UNION SELECT b FROM t ORDER BY MAX(a)"),
        3028
    );
}

#[test]
fn columns_of_information_schema_keep_their_names() {
    let rig = rig();
    let (columns, _) = rig
        .run("SELECT NAME, x.N, n AS M FROM v.numbers x", &[])
        .expect("runs");
    let names: Vec<&str> = columns.iter().map(|c| &*c.name).collect();
    assert_eq!(names, ["name", "n", "M"]);
}

#[test]
fn texts_as_clients_send_them() {
    let rig = rig();
    for (sql, value) in [
        ("SELECT 1\0", "1"),
        ("SELECT 1;\0", "1"),
        ("SELECT 1 /*!80000+1*/", "2"),
        ("SELECT 1 /*!800001 +1*/", "1"),
        ("SELECT 1 /*!80000 +1*/", "2"),
        ("SELECT 1 /*!99999+1*/", "1"),
    ] {
        assert_eq!(rig.value(sql), value, "{sql}");
    }
    let many = vec!["1"; 5000].join(", ");
    assert_eq!(rig.rows(&format!("SELECT {many}")).len(), 1);
    for sql in [
        "SELECT 1\0\0",
        "SELECT 1 /*!800001+0 */",
        "SELECT 1 /*!100000+1*/",
    ] {
        let parsed =
            esker_sql_syntax::parse(sql.as_bytes(), esker_sql_syntax::ParseOptions::default());
        assert_eq!(parsed.expect_err(sql).code, 1064, "{sql}");
    }
}
