//! Every operation of MySQL's table of online DDL operations, with each algorithm: MySQL 9.7's answers, and Esker's.
//!
//! **Invariant**: MySQL's answers are in `operations.txt`, as they were seen; where Esker's differ, they are here.

use crate::dml::testing::Bench;

/// What the answers are for, in the order of the file.
const CLAUSES: [&str; 3] = [
    "ALGORITHM=INSTANT",
    "ALGORITHM=INPLACE, LOCK=NONE",
    "ALGORITHM=COPY, LOCK=SHARED",
];

/// What Esker answers instead, by operation and number of the clause.
const DIFFERENT: &[(&str, usize, &str)] = &[
    ("ADD FULLTEXT INDEX f (b)", 1, "ok"),
    ("ADD INDEX i ((n + 1))", 1, "ok"),
    ("RENAME INDEX ka TO kb", 0, "ok"),
    ("ALTER INDEX ka INVISIBLE", 0, "ok"),
    ("ALTER INDEX ka VISIBLE", 0, "ok"),
    (
        "DROP INDEX ka, ADD INDEX ka (a) USING BTREE",
        0,
        "1845 ALGORITHM=INSTANT is not supported for this operation. Try ALGORITHM=COPY/INPLACE.",
    ),
    (
        "ADD COLUMN z INT DEFAULT (7)",
        1,
        "1845 LOCK=NONE is not supported for this operation. Try LOCK=SHARED.",
    ),
    ("RENAME COLUMN a TO aa", 2, "ok"),
    ("MODIFY n2 INT NOT NULL FIRST", 0, "ok"),
    ("MODIFY b VARCHAR(30)", 0, "ok"),
    ("MODIFY b VARCHAR(300)", 0, "ok"),
    ("MODIFY b VARCHAR(300)", 1, "ok"),
    ("MODIFY n2 BIGINT NOT NULL", 0, "ok"),
    ("MODIFY n2 BIGINT NOT NULL", 1, "ok"),
    ("MODIFY n2 INT", 0, "ok"),
    ("MODIFY a INT NOT NULL", 2, "ok"),
    ("MODIFY b TEXT", 0, "ok"),
    ("MODIFY b TEXT", 1, "ok"),
    (
        "ADD COLUMN z INT AS (n + 1) VIRTUAL",
        0,
        "1845 ALGORITHM=INSTANT is not supported for this operation. Try ALGORITHM=COPY/INPLACE.",
    ),
    ("MODIFY gv INT AS (n + 2) VIRTUAL", 1, "ok"),
    ("MODIFY gs INT AS (n + 2) STORED", 1, "ok"),
    (
        "ADD CONSTRAINT c2 CHECK (n > 0)",
        0,
        "1845 ALGORITHM=INSTANT is not supported for this operation. Try ALGORITHM=COPY/INPLACE.",
    ),
    ("ADD CONSTRAINT c2 CHECK (n > 0)", 1, "ok"),
    (
        "ADD CONSTRAINT fk2 FOREIGN KEY (a) REFERENCES p (id)",
        1,
        "ok",
    ),
    ("DROP FOREIGN KEY fk1", 0, "ok"),
    (
        "RENAME TO t2",
        2,
        "1845 LOCK=NONE/SHARED is not supported for this operation. Try LOCK=EXCLUSIVE.",
    ),
    ("ENGINE=InnoDB", 0, "ok"),
    ("AUTO_INCREMENT=100", 0, "ok"),
    ("COMMENT 'c'", 0, "ok"),
    ("ROW_FORMAT=DYNAMIC", 0, "ok"),
    ("KEY_BLOCK_SIZE=8", 0, "ok"),
    ("STATS_PERSISTENT=1", 0, "ok"),
    ("CHARACTER SET latin1", 0, "ok"),
];

fn bench() -> Bench {
    let mut bench = Bench::new();
    for sql in [
        "CREATE TABLE p (id INT PRIMARY KEY)",
        "INSERT INTO p VALUES (1)",
        "CREATE TABLE t (id INT NOT NULL PRIMARY KEY, a INT, b VARCHAR(20), e ENUM('x','y'), st SET('p','q'), \
         n INT NOT NULL, n2 INT NOT NULL DEFAULT 3, gv INT AS (n + 1) VIRTUAL, gs INT AS (n + 1) STORED, KEY ka (a), \
         CONSTRAINT c1 CHECK (n < 100), CONSTRAINT fk1 FOREIGN KEY (a) REFERENCES p (id))",
        "INSERT INTO t (id, a, b, e, st, n) VALUES (1, 1, 'b', 'x', 'p', 1)",
    ] {
        bench.ok(sql);
    }
    bench
}

fn answer(operation: &str, clause: &str) -> String {
    let mut bench = bench();
    let sql = format!("ALTER TABLE t {operation}, {clause}");
    match bench.attempt(&sql) {
        Ok(_) => "ok".to_owned(),
        Err(_) => {
            let (code, text) = bench.error(&sql);
            format!("{code} {text}")
        }
    }
}

#[test]
fn every_operation_is_answered_as_in_mysql_or_better() {
    let mut lines = include_str!("operations.txt")
        .lines()
        .filter(|line| !line.starts_with('#'));
    let (mut answers, mut wrong) = (0, Vec::new());
    while let Some(operation) = lines.next() {
        for (nth, clause) in CLAUSES.into_iter().enumerate() {
            let mysql = lines.next().and_then(|line| line.strip_prefix('\t'));
            let mysql = mysql.expect("an answer for every clause");
            let other = DIFFERENT.iter().find(|d| (d.0, d.1) == (operation, nth));
            let wanted = other.map_or(mysql, |d| d.2);
            assert!(other.is_none_or(|d| d.2 != mysql), "{operation}, {clause}");
            let answer = answer(operation, clause);
            if answer != wanted {
                wrong.push(format!(
                    "(\"{operation}\", {nth}, \"{answer}\"), // {mysql}"
                ));
            }
            answers += 1;
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(answers > 180 && answers > 4 * DIFFERENT.len());
}

/// Rows of all widths are read, changed, indexed and compared after an integer has become wider, without a copy.
#[test]
fn integers_become_wider_in_place() {
    let mut bench = Bench::new();
    bench.ok("CREATE TABLE t (id INT PRIMARY KEY, a TINYINT, b SMALLINT UNSIGNED NOT NULL, s VARCHAR(9))");
    bench
        .ok("INSERT INTO t VALUES (1, -128, 65535, 'one'), (2, 127, 0, 'two'), (3, NULL, 7, NULL)");
    let clustered = bench.table("t").indexes[0].id;
    for (nth, sql) in [
        "MODIFY a SMALLINT, ALGORITHM=INSTANT",
        "MODIFY b INT UNSIGNED NOT NULL, ALGORITHM=INSTANT",
        "MODIFY a BIGINT, MODIFY b BIGINT UNSIGNED NOT NULL, ALGORITHM=INSTANT",
    ]
    .into_iter()
    .enumerate()
    {
        bench.ok(&format!("ALTER TABLE t {sql}"));
        bench.ok(&format!(
            "INSERT INTO t VALUES ({}, {}, 65535, 'new')",
            4 + nth,
            -200 - nth as i64
        ));
        bench.ok("UPDATE t SET s = 'same width' WHERE id = 99");
    }
    assert_eq!(bench.table("t").indexes[0].id, clustered, "it copies");
    // Only another column changes: the narrow fields are widened on the way.
    bench.ok("UPDATE t SET s = 'changed' WHERE id < 3");
    assert_eq!(
        bench.rows("t"),
        [
            "1|-128|65535|changed",
            "2|127|0|changed",
            "3|NULL|7|NULL",
            "4|-200|65535|new",
            "5|-201|65535|new",
            "6|-202|65535|new"
        ]
    );
    bench.ok("ALTER TABLE t ADD INDEX a (a, b)");
    bench.ok("UPDATE t SET a = 1099511627776 WHERE id = 3");
    bench.rows("t");
    // Its keys have a width of their own.
    assert_eq!(
        bench
            .error("ALTER TABLE t MODIFY a SMALLINT, ALGORITHM=INSTANT")
            .0,
        1846
    );
    bench.ok("ALTER TABLE t ADD c SMALLINT, ADD INDEX c (c)");
    assert_eq!(
        bench
            .error("ALTER TABLE t MODIFY c INT, ALGORITHM=INSTANT")
            .0,
        1846
    );
    assert_eq!(
        bench
            .error("ALTER TABLE t MODIFY b BIGINT NOT NULL, ALGORITHM=INSTANT")
            .0,
        1846
    );
    bench.ok("ALTER TABLE t MODIFY c BIGINT");
    assert_ne!(bench.table("t").indexes[0].id, clustered);
    bench.rows("t");
}

/// As in MySQL: 255 changes of the row's layout; then the table is copied, unless INSTANT is asked for.
#[test]
fn after_255_layouts_the_table_is_copied() {
    let mut bench = Bench::new();
    bench.ok("CREATE TABLE t (id INT PRIMARY KEY, v INT)");
    bench.ok("INSERT INTO t VALUES (1, 1)");
    let clustered = bench.table("t").indexes[0].id;
    for nth in 0..255 {
        let action = match nth % 2 {
            0 => "ADD c INT DEFAULT 5",
            _ => "DROP c",
        };
        bench.ok(&format!("ALTER TABLE t {action}, ALGORITHM=INSTANT"));
    }
    assert_eq!(bench.table("t").indexes[0].id, clustered);
    let full = "Maximum row versions reached for table d/t. No more columns can be added or dropped instantly. Please \
                use COPY/INPLACE.";
    let error = bench.error("ALTER TABLE t ADD e INT, ALGORITHM=INSTANT");
    assert_eq!(error, (4092, full.to_owned()));
    // What leaves the layout alone is still instant.
    bench.ok("ALTER TABLE t RENAME COLUMN v TO w, ALGORITHM=INSTANT");
    bench.ok("INSERT INTO t VALUES (2, 2, 2)");
    bench.ok("ALTER TABLE t ADD e INT");
    assert_ne!(bench.table("t").indexes[0].id, clustered);
    assert_eq!(bench.table("t").layout.versions().len(), 1);
    assert_eq!(bench.rows("t"), ["1|1|5|NULL", "2|2|2|NULL"]);
}
