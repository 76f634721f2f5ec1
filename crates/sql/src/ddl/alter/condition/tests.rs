//! Which actions are left out: as MariaDB 10.11 was seen to do it. The codes of the notes are MySQL's for the same.

use crate::dml::testing::Bench;

fn body(bench: &Bench, table: &str) -> Vec<String> {
    let shown = bench.shown(table);
    let lines = shown.lines().skip(1);
    lines
        .map(|l| l.trim().trim_end_matches(',').to_owned())
        .collect()
}

fn alter(bench: &mut Bench, table: &str, action: &str, codes: &[u16]) {
    let ran = bench.ok(&format!("ALTER TABLE {table} {action}"));
    assert_eq!(ran.codes(), codes, "{action}");
}

fn bench() -> Bench {
    let mut bench = Bench::new();
    bench.ok("CREATE TABLE p (id INT PRIMARY KEY)");
    bench.ok(
        "CREATE TABLE t (a INT PRIMARY KEY, b INT, UNIQUE uq (b), KEY kb (b, a), CONSTRAINT ck CHECK (b > 0), \
         CONSTRAINT fk FOREIGN KEY (b) REFERENCES p (id))",
    );
    bench
}

#[test]
fn what_does_not_hold_is_left_out() {
    let mut bench = bench();
    let before = body(&bench, "t");
    for (action, codes) in [
        ("MODIFY COLUMN IF EXISTS x INT", &[1054][..]),
        ("CHANGE COLUMN IF EXISTS x y INT", &[1054]),
        ("RENAME COLUMN IF EXISTS x TO y", &[1054]),
        ("ALTER COLUMN IF EXISTS x SET DEFAULT 1", &[1054]),
        ("ALTER IF EXISTS x DROP DEFAULT", &[1054]),
        ("DROP FOREIGN KEY IF EXISTS x", &[1091]),
        ("DROP CONSTRAINT IF EXISTS x", &[1091]),
        ("DROP CONSTRAINT IF EXISTS kb", &[1091]),
        (
            "DROP INDEX IF EXISTS x, DROP COLUMN IF EXISTS y",
            &[1091, 1091],
        ),
        ("RENAME KEY IF EXISTS x TO y", &[1176]),
        ("ALTER INDEX IF EXISTS x INVISIBLE", &[1176]),
        ("ADD CONSTRAINT IF NOT EXISTS ck CHECK (b > 1)", &[3822]),
        (
            "ADD FOREIGN KEY IF NOT EXISTS fk (b) REFERENCES p (id)",
            &[1826],
        ),
        (
            "ADD CONSTRAINT fk2 FOREIGN KEY IF NOT EXISTS fk (b) REFERENCES p (id)",
            &[1826],
        ),
        ("ADD INDEX IF NOT EXISTS KB (b)", &[1061]),
        ("ADD PRIMARY KEY IF NOT EXISTS (b)", &[1068]),
        ("ADD COLUMN IF NOT EXISTS B INT", &[1060]),
        ("ADD COLUMN IF NOT EXISTS (b INT, A INT)", &[1060, 1060]),
    ] {
        alter(&mut bench, "t", action, codes);
        assert_eq!(body(&bench, "t"), before, "{action}");
    }
    assert_eq!(
        bench.ok("CREATE INDEX IF NOT EXISTS kb ON t (b)").codes(),
        [1061]
    );
    assert_eq!(bench.ok("DROP INDEX IF EXISTS x ON t").codes(), [1091]);
    assert_eq!(body(&bench, "t"), before);
    assert_eq!(bench.code("ALTER TABLE t MODIFY COLUMN x INT"), 1054);
}

#[test]
fn conditions_stand_where_mariadb_has_them() {
    let mut bench = bench();
    for syntax in [
        "ADD CONSTRAINT IF NOT EXISTS u UNIQUE (b)",
        "ADD CONSTRAINT IF NOT EXISTS CHECK (b > 1)",
        "DROP PRIMARY KEY IF EXISTS",
        "DROP CHECK IF EXISTS ck",
        "RENAME IF EXISTS TO u",
    ] {
        let sql = format!("ALTER TABLE t {syntax}");
        assert_eq!(bench.code(&sql), 1064, "{syntax}");
    }
    let both = "CREATE OR REPLACE INDEX IF NOT EXISTS kb ON t (a)";
    assert_eq!(bench.code(both), 1221);
}

#[test]
fn what_an_action_before_drops_is_gone() {
    let mut bench = bench();
    for (action, codes) in [
        (
            "DROP CONSTRAINT IF EXISTS fk, DROP FOREIGN KEY IF EXISTS FK",
            &[1091][..],
        ),
        (
            "DROP KEY uq, DROP CONSTRAINT IF EXISTS uq, DROP INDEX IF EXISTS UQ",
            &[1091, 1091],
        ),
        (
            "DROP COLUMN b, DROP COLUMN IF EXISTS `B`, DROP CONSTRAINT IF EXISTS ck",
            &[1091],
        ),
    ] {
        alter(&mut bench, "t", action, codes);
    }
    let rest = ["`a` int NOT NULL", "PRIMARY KEY (`a`)", "KEY `kb` (`a`)"];
    assert_eq!(body(&bench, "t")[..3], rest);
}

/// A replica must be what MariaDB is: what is dropped in the same statement does not come again.
#[test]
fn what_is_added_is_looked_for_in_the_table_before_the_statement() {
    let mut bench = Bench::new();
    bench.ok("CREATE TABLE t (a INT, b INT, c INT, KEY k (b))");
    for (action, codes) in [
        (
            "DROP INDEX k, ADD INDEX IF NOT EXISTS k (b, a)",
            &[1061][..],
        ),
        ("DROP COLUMN b, ADD COLUMN IF NOT EXISTS b BIGINT", &[1060]),
        ("ADD INDEX IF NOT EXISTS (a)", &[]),
        (
            "ADD INDEX IF NOT EXISTS (a, c), ADD UNIQUE IF NOT EXISTS (c)",
            &[1061],
        ),
        (
            "ADD COLUMN IF NOT EXISTS n INT, ADD COLUMN IF NOT EXISTS N INT",
            &[1060],
        ),
        (
            "ADD COLUMN z INT, MODIFY COLUMN IF EXISTS z BIGINT",
            &[1054],
        ),
    ] {
        alter(&mut bench, "t", action, codes);
    }
    assert_eq!(
        body(&bench, "t")[..6],
        [
            "`a` int DEFAULT NULL",
            "`c` int DEFAULT NULL",
            "`n` int DEFAULT NULL",
            "`z` int DEFAULT NULL",
            "UNIQUE KEY `c` (`c`)",
            "KEY `a` (`a`)",
        ]
    );
}

#[test]
fn what_holds_is_done() {
    let mut bench = bench();
    for (action, codes) in [
        (
            "DROP CONSTRAINT IF EXISTS fk, DROP CONSTRAINT IF EXISTS uq, DROP CONSTRAINT IF EXISTS ck",
            &[][..],
        ),
        (
            "RENAME INDEX IF EXISTS x TO y, RENAME INDEX IF EXISTS kb TO kc",
            &[1176],
        ),
        (
            "CHANGE COLUMN IF EXISTS b c BIGINT, DROP COLUMN IF EXISTS q",
            &[1091],
        ),
        ("ALTER COLUMN IF EXISTS c SET DEFAULT 7", &[]),
        ("ADD CONSTRAINT IF NOT EXISTS ck CHECK (c > 1)", &[]),
        (
            "ADD CONSTRAINT fk FOREIGN KEY IF NOT EXISTS (a) REFERENCES p (id)",
            &[],
        ),
    ] {
        alter(&mut bench, "t", action, codes);
    }
    assert_eq!(
        body(&bench, "t")[..6],
        [
            "`a` int NOT NULL",
            "`c` bigint DEFAULT '7'",
            "PRIMARY KEY (`a`)",
            "KEY `kc` (`c`,`a`)",
            "CONSTRAINT `fk` FOREIGN KEY (`a`) REFERENCES `p` (`id`)",
            "CONSTRAINT `ck` CHECK ((`c` > 1))",
        ]
    );
    assert_eq!(
        bench
            .ok("RENAME TABLE IF EXISTS x TO y, t TO u, y TO z")
            .codes(),
        [1146, 1146]
    );
    assert!(bench.catalog.resolve("d", "u").is_some());
}

#[test]
fn partitions_are_added_all_or_none_and_dropped_where_they_are() {
    let mut bench = Bench::new();
    bench.ok(
        "CREATE TABLE r (a INT) PARTITION BY RANGE (a) (PARTITION p0 VALUES LESS THAN (10), \
         PARTITION p1 VALUES LESS THAN (20))",
    );
    let names = |bench: &Bench| {
        let shown = bench.shown("r");
        ["p0", "p1", "p2"].map(|name| shown.contains(&format!("PARTITION {name} ")))
    };
    for (action, codes, left) in [
        (
            "DROP PARTITION IF EXISTS px, py",
            &[1507, 1507][..],
            [true, true, false],
        ),
        (
            "ADD PARTITION IF NOT EXISTS (PARTITION p1 VALUES LESS THAN (30), PARTITION p2 VALUES LESS THAN (40))",
            &[1517],
            [true, true, false],
        ),
        (
            "DROP PARTITION IF EXISTS px, p1",
            &[1507],
            [true, false, false],
        ),
        (
            "ADD PARTITION IF NOT EXISTS (PARTITION p2 VALUES LESS THAN (30))",
            &[],
            [true, false, true],
        ),
    ] {
        alter(&mut bench, "r", action, codes);
        assert_eq!(names(&bench), left, "{action}");
    }
    assert_eq!(
        bench.code("ALTER TABLE r DROP PARTITION IF EXISTS px, p0, p2"),
        1508
    );
    bench.ok("CREATE TABLE s (a INT)");
    assert_eq!(
        bench.code("ALTER TABLE s DROP PARTITION IF EXISTS p0"),
        1505
    );
}
