//! ALGORITHM and LOCK: what is refused has MySQL 9.7's code and text; what is accepted beyond MySQL is listed.

use crate::dml::testing::Bench;

fn bench() -> Bench {
    let mut bench = Bench::new();
    bench.ok("CREATE TABLE p (id INT PRIMARY KEY)");
    bench.ok("INSERT INTO p VALUES (1)");
    bench.ok(
        "CREATE TABLE t (id INT NOT NULL, a INT, b VARCHAR(20), e ENUM('x','y'), n INT NOT NULL, \
         g INT AS (n + 1) STORED, PRIMARY KEY (id), KEY ka (a))",
    );
    bench.ok("INSERT INTO t (id, a, b, e, n) VALUES (1, 1, '1', 'x', 1)");
    bench
}

#[test]
fn what_cannot_be_done_so_is_refused_in_mysqls_words() {
    const INSTANT: &str = "ALGORITHM=INSTANT is not supported";
    const INPLACE: &str = "ALGORITHM=INPLACE is not supported";
    const TYPE: &str = "Cannot change column type INPLACE";
    const KEY: &str = "Dropping a primary key is not allowed without also adding a new primary key";
    const NUMBER: &str = "Adding an auto-increment column requires a lock";
    let plain =
        |what: &str, instead: &str| (1845, format!("{what} for this operation. Try {instead}."));
    let reason = |what: &str, why: &str, instead: &str| {
        (1846, format!("{what}. Reason: {why}. Try {instead}."))
    };
    let both = "ALGORITHM=COPY/INPLACE";
    let copy = "ALGORITHM=COPY";
    let mut bench = bench();
    for (sql, wanted) in [
        ("ADD INDEX i (b), ALGORITHM=INSTANT", plain(INSTANT, both)),
        ("ADD UNIQUE i (b), ALGORITHM=INSTANT", plain(INSTANT, both)),
        ("FORCE, ALGORITHM=INSTANT", plain(INSTANT, both)),
        (
            "DROP PRIMARY KEY, ADD PRIMARY KEY (n), ALGORITHM=INSTANT",
            plain(INSTANT, both),
        ),
        (
            "MODIFY a INT NOT NULL, ALGORITHM=INSTANT",
            plain(INSTANT, both),
        ),
        (
            "ADD z INT AS (a + 3) STORED, ALGORITHM=INSTANT",
            plain(INSTANT, both),
        ),
        (
            "ADD z INT AS (a + 3) STORED, ALGORITHM=INPLACE",
            plain(INPLACE, copy),
        ),
        (
            "ADD INDEX i ((a + 1)), ALGORITHM=INSTANT",
            reason(INSTANT, "ADD COLUMN col...VIRTUAL, ADD INDEX(col)", both),
        ),
        (
            "MODIFY b INT, ALGORITHM=INSTANT",
            reason(
                INSTANT,
                "Need to rebuild the table to change column type",
                both,
            ),
        ),
        (
            "MODIFY b INT, ALGORITHM=INPLACE",
            reason(INPLACE, TYPE, copy),
        ),
        (
            "MODIFY e ENUM('y','x'), ALGORITHM=INPLACE",
            reason(INPLACE, TYPE, copy),
        ),
        (
            "MODIFY b VARCHAR(10), ALGORITHM=INPLACE",
            reason(INPLACE, TYPE, copy),
        ),
        (
            "CONVERT TO CHARACTER SET latin1, ALGORITHM=INPLACE",
            reason(INPLACE, TYPE, copy),
        ),
        (
            "DROP PRIMARY KEY, ALGORITHM=INSTANT",
            reason(INSTANT, KEY, both),
        ),
        (
            "DROP PRIMARY KEY, ALGORITHM=INPLACE",
            reason(INPLACE, KEY, copy),
        ),
        (
            "DROP PRIMARY KEY, LOCK=NONE",
            reason("LOCK=NONE is not supported", KEY, "LOCK=SHARED"),
        ),
        (
            "ADD z INT AUTO_INCREMENT UNIQUE, ALGORITHM=INSTANT",
            reason(INSTANT, NUMBER, both),
        ),
        (
            "ADD z INT AUTO_INCREMENT UNIQUE, LOCK=NONE",
            reason("LOCK=NONE is not supported", NUMBER, "LOCK=SHARED"),
        ),
        (
            "ADD CONSTRAINT k FOREIGN KEY (a) REFERENCES t (id), LOCK=NONE",
            reason(
                "LOCK=NONE is not supported",
                "Adding foreign keys needs foreign_key_checks=OFF",
                "LOCK=SHARED",
            ),
        ),
        (
            "ADD CONSTRAINT k FOREIGN KEY (a) REFERENCES p (id), ALGORITHM=INSTANT",
            reason(
                INSTANT,
                "Adding foreign keys needs foreign_key_checks=OFF",
                both,
            ),
        ),
        (
            "ADD z INT, ALGORITHM=COPY, LOCK=NONE",
            reason(
                "LOCK=NONE is not supported",
                "COPY algorithm requires a lock",
                "LOCK=SHARED",
            ),
        ),
        (
            "RENAME TO u, LOCK=NONE",
            plain("LOCK=NONE/SHARED is not supported", "LOCK=EXCLUSIVE"),
        ),
        (
            "ADD z INT, ALGORITHM=INSTANT, LOCK=NONE",
            (
                1221,
                "Incorrect usage of ALGORITHM=INSTANT and LOCK=NONE/SHARED/EXCLUSIVE".to_owned(),
            ),
        ),
    ] {
        assert_eq!(
            bench.error(&format!("ALTER TABLE t {sql}")),
            wanted,
            "{sql}"
        );
    }
}

#[test]
fn what_can_be_done_so_is_done() {
    for action in [
        // Instant in MySQL, too.
        "ADD z INT",
        "ADD z INT FIRST",
        "ADD z INT AFTER a",
        "ADD z INT NOT NULL DEFAULT 5",
        "DROP COLUMN b",
        "RENAME COLUMN a TO aa",
        "CHANGE a aa INT",
        "ALTER a SET DEFAULT 3",
        "ALTER a DROP DEFAULT",
        "ALTER a SET INVISIBLE",
        "MODIFY a INT COMMENT 'x'",
        "MODIFY e ENUM('x','y','z')",
        // In place in MySQL.
        "MODIFY b VARCHAR(40)",
        "RENAME INDEX ka TO kb",
        "ALTER INDEX ka INVISIBLE",
        "DROP INDEX ka",
        "COMMENT = 'x'",
        "AUTO_INCREMENT = 100",
        "DEFAULT CHARACTER SET latin1",
    ] {
        for clause in [
            "ALGORITHM=INSTANT",
            "ALGORITHM=INPLACE",
            "LOCK=NONE",
            "LOCK=SHARED",
        ] {
            let mut bench = bench();
            let clustered = bench.table("t").indexes[0].id;
            bench.ok(&format!("ALTER TABLE t {action}, {clause}"));
            assert_eq!(bench.table("t").indexes[0].id, clustered, "{action} copies");
        }
    }
    for action in [
        "ADD INDEX i (b)",
        "ADD UNIQUE i (b)",
        "DROP PRIMARY KEY, ADD PRIMARY KEY (n)",
        "MODIFY a INT NOT NULL",
        "MODIFY a INT FIRST",
        "FORCE",
        "ENGINE = InnoDB",
    ] {
        for clause in [
            "ALGORITHM=INPLACE",
            "LOCK=NONE",
            "LOCK=SHARED",
            "ALGORITHM=INPLACE, LOCK=NONE",
        ] {
            bench().ok(&format!("ALTER TABLE t {action}, {clause}"));
        }
    }
    // MySQL copies these under a lock.
    for action in [
        "MODIFY b INT",
        "MODIFY e ENUM('y','x')",
        "CONVERT TO CHARACTER SET latin1",
        "ADD INDEX i ((a + 1))",
        "ADD CHECK (a > 0)",
        "ADD CONSTRAINT k FOREIGN KEY (a) REFERENCES p (id)",
        "ADD z INT AS (a + 3) STORED",
    ] {
        bench().ok(&format!("ALTER TABLE t {action}, LOCK=NONE"));
    }
}
