//! Histograms: made, shown, used by plans, kept over crashes, gone with their columns.

use crate::common::{Ask, Server};

/// `t`: 2,000 rows; `rare` is 1 but for the last ten.
fn server() -> (Server, tempfile::TempDir) {
    let dir = tempfile::tempdir().expect("folder");
    let server = Server::start(dir.path(), &["--skip-ssl"]);
    server.connect().run(
        "CREATE DATABASE d; USE d; SET cte_max_recursion_depth = 5000;
         CREATE TABLE t (id INT PRIMARY KEY, u INT UNIQUE, rare INT, s VARCHAR(20));
         INSERT INTO t WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 2000)
             SELECT i, i, IF(i <= 1990, 1, i), CONCAT('s', i) FROM n",
    );
    (server, dir)
}

/// A histogram's JSON without the time.
fn shown(c: &mut impl Ask, table: &str, column: &str) -> String {
    let sql = format!(
        "SELECT HISTOGRAM FROM information_schema.COLUMN_STATISTICS \
         WHERE SCHEMA_NAME = 'd' AND TABLE_NAME = '{table}' AND COLUMN_NAME = '{column}'"
    );
    let json = c.value(&sql);
    let (before, rest) = json
        .split_once("\"last-updated\": \"")
        .expect("it has a time");
    let (_, after) = rest.split_once("\", ").expect("the time has an end");
    format!("{before}{after}")
}

/// Columns that have a histogram.
fn columns(c: &mut impl Ask, table: &str) -> Vec<String> {
    c.lines(&format!(
        "SELECT COLUMN_NAME FROM information_schema.COLUMN_STATISTICS WHERE TABLE_NAME = '{table}'"
    ))
}

/// What EXPLAIN expects of the first table: its name, and the share of its rows that the conditions keep.
fn first_table(c: &mut impl Ask, query: &str) -> (String, f64) {
    let line = c.lines(&format!("EXPLAIN {query}")).remove(0);
    let cells: Vec<&str> = line.split('|').collect();
    (cells[2].to_owned(), cells[10].parse().expect("filtered"))
}

#[test]
fn what_is_made_removed_and_refused_is_told_by_column() {
    let (server, _dir) = server();
    let mut c = server.connect();
    c.run("USE d; CREATE VIEW v AS SELECT * FROM t");
    assert_eq!(
        c.lines("ANALYZE TABLE t UPDATE HISTOGRAM ON s, rare, u, nope WITH 10 BUCKETS"),
        [
            "d.t|histogram|Error|The column 'nope' does not exist.",
            "d.t|histogram|status|Histogram statistics created for column 'rare'.",
            "d.t|histogram|status|Histogram statistics created for column 's'.",
            "d.t|histogram|Error|The column 'u' is covered by a single-part unique index.",
        ]
    );
    assert_eq!(columns(&mut c, "t"), ["rare", "s"]);
    assert_eq!(
        c.lines("ANALYZE TABLE t DROP HISTOGRAM ON rare, u"),
        [
            "d.t|histogram|status|Histogram statistics removed for column 'rare'.",
            "d.t|histogram|Error|No histogram statistics found for column 'u'.",
        ]
    );
    assert_eq!(columns(&mut c, "t"), ["s"]);
    assert_eq!(
        c.lines("ANALYZE TABLE v UPDATE HISTOGRAM ON s"),
        ["d.v|histogram|Error|Cannot create histogram statistics for a view."]
    );
    assert_eq!(
        c.lines("ANALYZE TABLE t, v UPDATE HISTOGRAM ON s"),
        [
            "d.t|histogram|Error|Only one table can be specified while modifying histogram statistics."
        ]
    );
    for buckets in [0, 1025] {
        let sql = format!("ANALYZE TABLE t UPDATE HISTOGRAM ON s WITH {buckets} BUCKETS");
        assert_eq!(c.code(&sql), Some(1690));
    }
}

#[test]
fn the_json_is_mysqls_and_survives_a_crash() {
    let (mut server, _dir) = server();
    let mut c = server.connect();
    c.run(
        "USE d; CREATE TABLE f (c INT, w VARCHAR(9) CHARACTER SET utf8mb4, d DECIMAL(4,1), m DATETIME);
         INSERT INTO f VALUES (1, 'bar', 1.5, '2024-02-29 10:11:12'), (1, 'BAR', 2, NULL), (2, 'x', 3, NULL),
             (NULL, 'y', 4, NULL);
         ANALYZE TABLE f UPDATE HISTOGRAM ON c, d, m; ANALYZE TABLE f UPDATE HISTOGRAM ON w WITH 2 BUCKETS",
    );
    let end = "\"sampling-rate\": 1.0, \"histogram-type\": \"singleton\", \"number-of-buckets-specified\": 100}";
    let integers = format!(
        "{{\"buckets\": [[1, 0.5], [2, 0.75]], \"data-type\": \"int\", \"auto-update\": false, \
         \"null-values\": 0.25, \"collation-id\": 8, {end}"
    );
    assert_eq!(shown(&mut c, "f", "c"), integers);
    assert!(shown(&mut c, "f", "d").starts_with("{\"buckets\": [[1.5, 0.25], [2.0, 0.5], "));
    let moments =
        "{\"buckets\": [[\"2024-02-29 10:11:12.000000\", 0.25]], \"data-type\": \"datetime\"";
    assert!(shown(&mut c, "f", "m").starts_with(moments));
    let texts = shown(&mut c, "f", "w");
    assert!(
        texts.starts_with(
            "{\"buckets\": [[\"base64:type254:YmFy\", \"base64:type254:YmFy\", 0.5, 1], "
        ),
        "{texts}"
    );
    assert!(
        texts.contains("\"histogram-type\": \"equi-height\""),
        "{texts}"
    );
    assert!(texts.contains("\"collation-id\": 255"), "{texts}");
    server.kill();
    server.restart();
    let mut c = server.connect();
    assert_eq!(shown(&mut c, "f", "c"), integers);
    assert_eq!(shown(&mut c, "f", "w"), texts);
}

#[test]
fn plans_count_with_what_it_says() {
    let (server, _dir) = server();
    let mut c = server.connect();
    c.run("USE d");
    let queries = [
        ("rare = 1", 99.5),
        ("rare <> 1", 0.5),
        ("rare > 1995", 0.25),
        ("rare IN (1991, 1992)", 0.1),
        ("rare NOT IN (1, 1991)", 0.45),
        ("rare BETWEEN 0 AND 10", 99.5),
        ("rare IS NULL", 0.01),
        ("rare = 1991 OR rare = 1", 99.55),
        ("s LIKE 's19%'", 5.55),
        ("s NOT LIKE 's19%'", 94.45),
    ];
    let filtered =
        |c: &mut _, cond: &str| first_table(c, &format!("SELECT * FROM t WHERE {cond}")).1;
    assert_eq!(filtered(&mut c, "rare = 1"), 10.0, "MySQL's guess");
    c.run("ANALYZE TABLE t UPDATE HISTOGRAM ON rare, s");
    for (cond, share) in queries {
        let found = filtered(&mut c, cond);
        assert!((found - share).abs() < 1.0, "{cond}: {found}");
    }
    // The table of which few rows are left drives the join.
    c.run("CREATE TABLE x LIKE t; INSERT INTO x SELECT * FROM t; CREATE TABLE y LIKE t; INSERT INTO y SELECT * FROM t;
           ANALYZE TABLE x UPDATE HISTOGRAM ON rare; ANALYZE TABLE y UPDATE HISTOGRAM ON rare");
    for (x, y, first) in [(1, 1995, "y"), (1995, 1, "x")] {
        let join =
            format!("SELECT * FROM x JOIN y ON x.id = y.id WHERE x.rare = {x} AND y.rare = {y}");
        assert_eq!(first_table(&mut c, &join).0, first);
        assert_eq!(c.rows(&join).len(), 0);
    }
}

#[test]
fn it_goes_with_its_column_and_stays_with_its_table() {
    let (server, _dir) = server();
    let mut c = server.connect();
    c.run("USE d; ANALYZE TABLE t UPDATE HISTOGRAM ON rare, s");
    c.run("ALTER TABLE t ADD COLUMN late INT FIRST, ALGORITHM=COPY; RENAME TABLE t TO r; TRUNCATE TABLE r");
    assert_eq!(columns(&mut c, "r"), ["rare", "s"]);
    c.run("ALTER TABLE r MODIFY rare BIGINT");
    assert_eq!(columns(&mut c, "r"), ["s"]);
    c.run("ALTER TABLE r DROP COLUMN s");
    assert!(columns(&mut c, "r").is_empty());
    c.run("ANALYZE TABLE r UPDATE HISTOGRAM ON rare; DROP TABLE r; CREATE TABLE r (rare BIGINT)");
    assert!(columns(&mut c, "r").is_empty());
}

#[test]
fn analyze_makes_automatic_ones_anew() {
    let (server, _dir) = server();
    let mut c = server.connect();
    c.run(
        "USE d; CREATE TABLE a (m INT, n INT); INSERT INTO a VALUES (1, 1);
         ANALYZE TABLE a UPDATE HISTOGRAM ON m AUTO UPDATE;
         ANALYZE TABLE a UPDATE HISTOGRAM ON n WITH 5 BUCKETS MANUAL UPDATE;
         INSERT INTO a VALUES (NULL, NULL)",
    );
    assert_eq!(c.lines("ANALYZE TABLE a"), ["d.a|analyze|status|OK"]);
    let automatic = shown(&mut c, "a", "m");
    assert!(automatic.contains("\"auto-update\": true"), "{automatic}");
    assert!(automatic.contains("\"null-values\": 0.5"), "{automatic}");
    let manual = shown(&mut c, "a", "n");
    assert!(manual.contains("\"null-values\": 0.0"), "{manual}");
}
