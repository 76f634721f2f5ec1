//! What EXPLAIN ANALYZE counts.

use super::rig::Rig;

fn rig() -> Rig {
    let rows: Vec<String> = (0..50)
        .map(|n| format!("({n}, {}, 's{n}')", n % 5))
        .collect();
    Rig::new(&[
        "CREATE TABLE t (id INT PRIMARY KEY, g INT, s VARCHAR(10), KEY (g))",
        &format!("INSERT INTO t VALUES {}", rows.join(",")),
    ])
}

/// Lines without indentation, estimates and times.
fn analyzed(rig: &Rig, sql: &str) -> Vec<String> {
    let text = rig.analyze(sql);
    let line = |line: &str| {
        let line = line.trim_start().trim_start_matches("-> ");
        let (operator, rest) = line.split_once("  (").unwrap_or((line, ""));
        match rest
            .rsplit_once(" rows=")
            .filter(|_| rest.contains("actual time="))
        {
            Some((_, counts)) => format!("{operator} | {}", counts.trim_end_matches(')')),
            None if rest.contains("never executed") => format!("{operator} | never"),
            None => operator.to_owned(),
        }
    };
    text.lines().map(line).collect()
}

#[test]
fn every_operator_tells_its_rows_and_loops() {
    let rig = rig();
    assert_eq!(
        analyzed(&rig, "SELECT * FROM t WHERE id < 20 AND s <> 's3' LIMIT 7"),
        [
            "Limit: 7 row(s) | 7 loops=1",
            "Filter: ((t.id < 20) and (t.s <> 's3')) | 7 loops=1",
            "Index range scan on t using PRIMARY over (id < 20) | 8 loops=1",
        ]
    );
    assert_eq!(
        analyzed(
            &rig,
            "SELECT g, COUNT(*) c FROM t IGNORE INDEX (g) GROUP BY g HAVING g > 2 ORDER BY c"
        ),
        [
            "Sort: count(0) | 2 loops=1",
            "Filter: (t.g > 2) | 2 loops=1",
            "Aggregate using temporary table | 5 loops=1",
            "Table scan on t | 50 loops=1",
        ]
    );
    let lines = analyzed(
        &rig,
        "SELECT STRAIGHT_JOIN x.id FROM t x JOIN t y ON y.id = x.g WHERE x.id < 4",
    );
    assert!(
        lines[0].starts_with("Nested loop inner join") && lines[0].ends_with("| 4 loops=1"),
        "{lines:?}"
    );
    assert!(lines.iter().any(|l| l.contains("lookup on y")), "{lines:?}");
    assert!(
        lines
            .iter()
            .any(|l| l == "Filter: (y.id = x.g) | 1 loops=4"),
        "{lines:?}"
    );
    let lines = analyzed(&rig, "SELECT ROW_NUMBER() OVER (PARTITION BY g) FROM t");
    assert_eq!(
        lines[0],
        "Window aggregate: row_number() OVER (PARTITION BY t.g) | 50 loops=1"
    );
    let lines = analyzed(
        &rig,
        "SELECT * FROM t x LEFT JOIN t y ON y.id = x.g WHERE x.id = 1000",
    );
    assert!(lines.iter().any(|l| l.ends_with("| never")), "{lines:?}");
}

#[test]
fn a_scan_tells_what_it_looked_at() {
    let rig = rig();
    let text = rig.analyze("SELECT COUNT(*) FROM t WHERE s LIKE '%7'");
    let scan = text.lines().last().expect("there are lines");
    assert!(scan.contains("Table scan on t"), "{text}");
    assert!(
        scan.contains("actual time=") && scan.ends_with("rows=50 loops=1)"),
        "{text}"
    );
}

/// Milliseconds until the last row, all loops together, and the depth of every operator that has run.
fn times(text: &str) -> Vec<(usize, f64)> {
    let number = |text: &str| match text.split_once("e-6") {
        Some((digits, _)) => digits.parse::<f64>().expect("a number") / 1e6,
        None => text.parse().expect("a number"),
    };
    let line = |line: &str| {
        let (_, rest) = line.split_once("(actual time=")?;
        let (time, loops) = rest.split_once(" rows=")?;
        let loops = loops.split_once("loops=")?.1.trim_end_matches(')');
        let last = number(time.split_once("..")?.1) * number(loops);
        Some(((line.len() - line.trim_start().len()) / 4, last))
    };
    text.lines().filter_map(line).collect()
}

#[test]
fn a_parent_takes_at_least_as_long_as_each_of_its_inputs() {
    let rig = rig();
    for sql in [
        "SELECT g, COUNT(*) c FROM t WHERE id < 40 GROUP BY g HAVING c > 1 ORDER BY c LIMIT 2",
        "SELECT DISTINCT g FROM t WHERE s <> 's7' ORDER BY g DESC",
        "SELECT x.id, ROW_NUMBER() OVER (ORDER BY y.s) r FROM t x JOIN t y ON x.id = y.g ORDER BY r",
        "SELECT x.g, SUM(y.id) FROM t x JOIN (SELECT g, id FROM t WHERE id > 5 LIMIT 30) y USING (g) GROUP BY x.g",
    ] {
        let text = rig.analyze(sql);
        let times = times(&text);
        assert!(times.len() >= 3, "{text}");
        for (nth, (depth, last)) in times.iter().enumerate() {
            let inputs = times[nth + 1..].iter().take_while(|(d, _)| d > depth);
            for (_, input) in inputs.filter(|(d, _)| *d == depth + 1) {
                // What is printed has three digits, of each loop.
                assert!(*last * 1.02 + 0.001 >= *input, "{last} < {input} in {text}");
            }
        }
    }
}

#[test]
fn distinct_and_groups_of_subqueries_have_their_own_rows_and_loops() {
    let rig = rig();
    let lines = analyzed(&rig, "SELECT DISTINCT g % 3 m FROM t ORDER BY m LIMIT 2");
    assert!(
        lines
            .iter()
            .any(|l| l == "Temporary table with deduplication | 3 loops=1"),
        "{lines:?}"
    );
    let sql = "SELECT id, (SELECT MAX(y.s) FROM t y WHERE y.g = x.id) FROM t x WHERE id < 3";
    let lines = analyzed(&rig, sql);
    assert!(
        lines.iter().any(|l| l == "Aggregate: max(y.s) | 1 loops=3"),
        "{lines:?}"
    );
}

#[test]
fn estimates_of_groups_are_not_cut_by_limit() {
    let rig = rig();
    let estimate = |sql: &str| {
        let text = rig.analyze(sql);
        let line = text
            .lines()
            .find(|l| l.contains("Aggregate using"))
            .expect("it groups");
        let estimate = line.split(" rows=").nth(1).expect("it has an estimate");
        estimate.split(')').next().expect("it ends").to_owned()
    };
    let sql = "SELECT s, COUNT(*) FROM t GROUP BY s";
    assert_eq!(estimate(&format!("{sql} LIMIT 1")), estimate(sql));
}
