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
            "Index range scan on t using PRIMARY",
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
            "Group aggregate: t.g | 5 loops=1",
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
    assert_eq!(lines[0], "Window aggregate: 1 function(s) | 50 loops=1");
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
    assert!(text.contains("(rows read=50)"), "{text}");
    assert!(text.contains("actual time="), "{text}");
}
