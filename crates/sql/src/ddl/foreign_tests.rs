//! Foreign keys in schema statements: definitions, indexes, names, and what they forbid.

use crate::dml::testing::Bench;

fn bench() -> Bench {
    let mut bench = Bench::new();
    bench.ok("CREATE TABLE p (id INT PRIMARY KEY, u INT, n INT, s VARCHAR(10), UNIQUE u (u), KEY n (n), UNIQUE (s), UNIQUE us (u, s))");
    bench
}

/// Keys and constraints of SHOW CREATE TABLE.
fn keys(bench: &Bench, table: &str) -> Vec<String> {
    let text = bench.shown(table);
    let lines = text.lines().map(|l| l.trim().trim_end_matches(','));
    let is_key = |l: &&str| {
        ["PRIMARY", "UNIQUE", "KEY", "CONSTRAINT"]
            .iter()
            .any(|word| l.starts_with(word))
    };
    lines.filter(is_key).map(str::to_owned).collect()
}

#[test]
fn definitions_are_shown_with_their_indexes() {
    let mut bench = bench();
    bench.ok("CREATE TABLE c (x INT, y INT, z VARCHAR(20), w INT REFERENCES p (id), KEY k1 (z), FOREIGN KEY ix (x) REFERENCES p (id) ON DELETE RESTRICT ON UPDATE NO ACTION, CONSTRAINT zz FOREIGN KEY (y, z) REFERENCES d.p (u, s) ON DELETE CASCADE ON UPDATE SET NULL, KEY k2 (y))");
    assert_eq!(
        keys(&bench, "c"),
        [
            "KEY `k1` (`z`)",
            "KEY `ix` (`x`)",
            "KEY `zz` (`y`,`z`)",
            "KEY `k2` (`y`)",
            "CONSTRAINT `c_ibfk_1` FOREIGN KEY (`x`) REFERENCES `p` (`id`) ON DELETE RESTRICT",
            "CONSTRAINT `zz` FOREIGN KEY (`y`, `z`) REFERENCES `p` (`u`, `s`) ON DELETE CASCADE ON UPDATE SET NULL",
        ]
    );
    bench.ok("CREATE DATABASE other");
    bench.ok("CREATE TABLE other.c (x INT, FOREIGN KEY (x) REFERENCES d.p (id))");
    let other = bench.catalog.resolve("other", "c").expect("is there");
    let shown = esker_sql_catalog::catalog::show_create_table(&other, &bench.zone);
    assert!(shown.contains("REFERENCES `d`.`p` (`id`)"), "{shown}");
    bench.ok("CREATE TABLE l LIKE c");
    assert_eq!(
        keys(&bench, "l"),
        [
            "KEY `k1` (`z`)",
            "KEY `ix` (`x`)",
            "KEY `zz` (`y`,`z`)",
            "KEY `k2` (`y`)"
        ]
    );
}

#[test]
fn an_index_made_for_a_key_goes_when_another_does_its_work() {
    let mut bench = bench();
    bench.ok("CREATE TABLE c (x INT, y INT, d INT, KEY (d DESC), CONSTRAINT f FOREIGN KEY (x) REFERENCES p (id), FOREIGN KEY (d) REFERENCES p (id), KEY xy (x, y))");
    let keys_of_c = |bench: &Bench| {
        let mut keys = keys(bench, "c");
        keys.retain(|k| k.starts_with("KEY"));
        keys.join(" ")
    };
    assert_eq!(
        keys_of_c(&bench),
        "KEY `d_2` (`d` DESC) KEY `d` (`d`) KEY `xy` (`x`,`y`)"
            .replace("d_2", "d")
            .replacen("KEY `d` (`d`)", "KEY `d_2` (`d`)", 1)
    );
    assert_eq!(bench.code("ALTER TABLE c DROP INDEX xy"), 1553);
    bench.ok("ALTER TABLE c DROP INDEX xy, ADD INDEX x (x)");
    bench.ok("CREATE TABLE g (x INT, y INT, CONSTRAINT gg FOREIGN KEY (x) REFERENCES p (id))");
    assert!(bench.shown("g").contains("KEY `gg` (`x`)"));
    bench.ok("ALTER TABLE g ADD INDEX longer (x, y)");
    let shown = bench.shown("g");
    assert!(
        !shown.contains("KEY `gg`") && shown.contains("KEY `longer`"),
        "{shown}"
    );
    // An index that somebody made stays.
    bench.ok("ALTER TABLE g ADD INDEX short (x), DROP INDEX longer");
    bench.ok("ALTER TABLE g ADD INDEX longer (x, y)");
    assert!(bench.shown("g").contains("KEY `short`"));
    bench.ok("ALTER TABLE g DROP FOREIGN KEY gg, DROP INDEX short, DROP INDEX longer");
    assert!(keys(&bench, "g").is_empty());
}

#[test]
fn what_cannot_be_a_key_is_refused_as_mysql_does() {
    let mut bench = bench();
    bench.ok("CREATE TABLE named (x INT, CONSTRAINT taken FOREIGN KEY (x) REFERENCES p (id))");
    let cases = [
        (
            "(x INT, FOREIGN KEY (x) REFERENCES q (id))",
            1824,
            "Failed to open the referenced table 'q'",
        ),
        (
            "(x INT, FOREIGN KEY (x) REFERENCES nowhere.p (id))",
            1824,
            "Failed to open the referenced table 'p'",
        ),
        (
            "(x INT, FOREIGN KEY (x) REFERENCES p (no))",
            3734,
            "Failed to add the foreign key constraint. Missing column 'no' for constraint 'c_ibfk_1' in the referenced table 'p'",
        ),
        (
            "(x BIGINT, FOREIGN KEY (x) REFERENCES p (id))",
            3780,
            "Referencing column 'x' and referenced column 'id' in foreign key constraint 'c_ibfk_1' are incompatible.",
        ),
        (
            "(x INT UNSIGNED, FOREIGN KEY (x) REFERENCES p (id))",
            3780,
            "",
        ),
        (
            "(x VARCHAR(10) COLLATE utf8mb4_bin, FOREIGN KEY (x) REFERENCES p (s))",
            3780,
            "",
        ),
        (
            "(x INT, FOREIGN KEY (x) REFERENCES p (n))",
            6125,
            "Failed to add the foreign key constraint. Missing unique key for constraint 'c_ibfk_1' in the referenced table 'p'",
        ),
        (
            "(x VARCHAR(9), FOREIGN KEY (x) REFERENCES named (x))",
            3780,
            "",
        ),
        ("(x INT, y INT, FOREIGN KEY (x) REFERENCES c (y))", 6125, ""),
        (
            "(x INT PRIMARY KEY, FOREIGN KEY (x) REFERENCES c (x))",
            6125,
            "",
        ),
        (
            "(x INT NOT NULL, FOREIGN KEY (x) REFERENCES p (id) ON DELETE SET NULL)",
            1830,
            "Column 'x' cannot be NOT NULL: needed in a foreign key constraint 'c_ibfk_1' SET NULL",
        ),
        (
            "(x INT CHECK (x > 0), FOREIGN KEY (x) REFERENCES p (id) ON UPDATE CASCADE)",
            3823,
            "Column 'x' cannot be used in a check constraint 'c_chk_1': needed in a foreign key constraint 'c_ibfk_1' referential action.",
        ),
        (
            "(x INT, FOREIGN KEY (no) REFERENCES p (id))",
            1072,
            "Key column 'no' doesn't exist in table",
        ),
        (
            "(x INT, FOREIGN KEY (x, x) REFERENCES p (u, s))",
            1060,
            "Duplicate column name 'x'",
        ),
        (
            "(x INT, FOREIGN KEY (x) REFERENCES p (u, s))",
            1239,
            "Incorrect foreign key definition for 'foreign key without name': Key reference and table reference don't match",
        ),
        (
            "(x INT, CONSTRAINT f FOREIGN KEY (x) REFERENCES p)",
            1239,
            "Incorrect foreign key definition for 'f': Key reference and table reference don't match",
        ),
        (
            "(x INT, CONSTRAINT Taken FOREIGN KEY (x) REFERENCES p (id))",
            1826,
            "Duplicate foreign key constraint name 'Taken'",
        ),
        (
            "(x INT, y INT, CONSTRAINT c_ibfk_1 FOREIGN KEY (x) REFERENCES p (id), FOREIGN KEY (y) REFERENCES p (id))",
            1826,
            "",
        ),
        ("(x TEXT, FOREIGN KEY (x) REFERENCES p (s))", 1170, ""),
        (
            "(x INT, CONSTRAINT `` FOREIGN KEY (x) REFERENCES p (id))",
            1280,
            "Incorrect index name ''",
        ),
        (
            "(x INT, y INT, FOREIGN KEY f (x) REFERENCES p (id), FOREIGN KEY f (y) REFERENCES p (id))",
            1061,
            "",
        ),
    ];
    for (definition, code, text) in cases {
        let sql = format!("CREATE TABLE c {definition}");
        let (found, message) = bench.error(&sql);
        assert_eq!(found, code, "{sql}: {message}");
        assert!(text.is_empty() || message == text, "{sql}: {message}");
    }
    bench.ok(
        "CREATE TABLE c (x INT CHECK (x > 0), FOREIGN KEY (x) REFERENCES p (id) ON DELETE CASCADE)",
    );
}

#[test]
fn both_ends_keep_what_a_key_needs() {
    let mut bench = bench();
    bench.ok("CREATE TABLE c (x INT, s VARCHAR(10), CONSTRAINT f FOREIGN KEY (x) REFERENCES p (u), CONSTRAINT g FOREIGN KEY (s) REFERENCES p (s) ON DELETE SET NULL)");
    let refused = [
        (
            "DROP TABLE p",
            3730,
            "Cannot drop table 'p' referenced by a foreign key constraint 'f' on table 'c'.",
        ),
        ("DROP DATABASE d", 0, ""),
        (
            "TRUNCATE p",
            1701,
            "Cannot truncate a table referenced in a foreign key constraint (`d`.`c`, CONSTRAINT `f`)",
        ),
        (
            "DROP INDEX u ON p",
            1553,
            "Cannot drop index 'u': needed in a foreign key constraint",
        ),
        (
            "DROP INDEX f ON c",
            1553,
            "Cannot drop index 'f': needed in a foreign key constraint",
        ),
        (
            "ALTER TABLE c DROP COLUMN x",
            1828,
            "Cannot drop column 'x': needed in a foreign key constraint 'f'",
        ),
        (
            "ALTER TABLE p DROP COLUMN u",
            1829,
            "Cannot drop column 'u': needed in a foreign key constraint 'f' of table 'c'",
        ),
        (
            "ALTER TABLE c MODIFY x BIGINT",
            3780,
            "Referencing column 'x' and referenced column 'u' in foreign key constraint 'f' are incompatible.",
        ),
        (
            "ALTER TABLE p MODIFY u BIGINT",
            3780,
            "Referencing column 'x' and referenced column 'u' in foreign key constraint 'f' are incompatible.",
        ),
        (
            "ALTER TABLE c MODIFY s VARCHAR(5)",
            1832,
            "Cannot change column 's': used in a foreign key constraint 'g'",
        ),
        (
            "ALTER TABLE p MODIFY s VARCHAR(5)",
            1833,
            "Cannot change column 's': used in a foreign key constraint 'g' of table 'd.c'",
        ),
        ("ALTER TABLE c MODIFY s VARCHAR(10) NOT NULL", 1830, ""),
        (
            "ALTER TABLE c CONVERT TO CHARACTER SET utf8mb4 COLLATE utf8mb4_bin",
            3780,
            "",
        ),
        (
            "ALTER TABLE c DROP FOREIGN KEY no",
            1091,
            "Can't DROP 'no'; check that column/key exists",
        ),
        (
            "ALTER TABLE c DROP CONSTRAINT no",
            3940,
            "Constraint 'no' does not exist.",
        ),
        ("ALTER TABLE c ENGINE = MEMORY", 3776, ""),
        (
            "ALTER TABLE c ADD FOREIGN KEY (x) REFERENCES p (id), ALGORITHM = INSTANT",
            1846,
            "",
        ),
        (
            "CREATE TABLE z (id INT, FOREIGN KEY (id) REFERENCES p (id)) SELECT 1 AS id",
            0,
            "",
        ),
    ];
    for (sql, code, text) in refused.into_iter().filter(|r| r.1 > 0) {
        let (found, message) = bench.error(sql);
        assert_eq!(found, code, "{sql}: {message}");
        assert!(text.is_empty() || message == text, "{sql}: {message}");
    }
    bench.ok("ALTER TABLE c MODIFY s VARCHAR(15), MODIFY x INT COMMENT 'same'");
    bench.ok("ALTER TABLE p MODIFY s VARCHAR(20), MODIFY u INT NOT NULL");
    bench.foreign_key_checks = false;
    bench.ok("ALTER TABLE c MODIFY s VARCHAR(5)");
    for (sql, code) in [
        ("ALTER TABLE c MODIFY x BIGINT", 3780),
        ("DROP INDEX u ON p", 1553),
    ] {
        assert_eq!(bench.code(sql), code, "{sql}");
    }
    bench.ok("TRUNCATE p");
    bench.ok("DROP TABLE p");
    for (sql, code) in [
        (
            "CREATE TABLE p (u BIGINT PRIMARY KEY, s VARCHAR(10) UNIQUE)",
            3780,
        ),
        (
            "CREATE TABLE p (x INT PRIMARY KEY, s VARCHAR(10) UNIQUE)",
            3734,
        ),
        (
            "CREATE TABLE p (u INT, s VARCHAR(10) UNIQUE, KEY (u))",
            6125,
        ),
    ] {
        assert_eq!(bench.code(sql), code, "{sql}");
    }
    bench.foreign_key_checks = true;
    for (sql, code) in [
        (
            "CREATE TABLE p (u BIGINT PRIMARY KEY, s VARCHAR(10) UNIQUE)",
            1215,
        ),
        ("CREATE TABLE p (u INT, s VARCHAR(10) UNIQUE)", 1215),
        (
            "CREATE TABLE p (u INT, s VARCHAR(10) UNIQUE, KEY (u))",
            6125,
        ),
    ] {
        assert_eq!(bench.code(sql), code, "{sql}");
    }
    bench.ok("CREATE TABLE p (u INT PRIMARY KEY, s VARCHAR(10) UNIQUE)");
    bench.ok("DROP TABLE p, c");
}

#[test]
fn keys_are_added_to_rows_that_keep_them_and_numbered_on() {
    let mut bench = bench();
    bench.ok("INSERT INTO p (id, u, s) VALUES (1, 10, 'a')");
    bench.ok("CREATE TABLE c (id INT PRIMARY KEY, x INT, y INT)");
    bench.ok("INSERT INTO c VALUES (1, 1, 7), (2, NULL, NULL)");
    let (code, text) = bench.error("ALTER TABLE c ADD FOREIGN KEY (y) REFERENCES p (u)");
    let wanted = "Cannot add or update a child row: a foreign key constraint fails (`d`.`c`, CONSTRAINT `c_ibfk_1` FOREIGN KEY (`y`) REFERENCES `p` (`u`))";
    assert_eq!((code, &*text), (1452, wanted));
    assert!(!bench.shown("c").contains("CONSTRAINT"));
    let ran = bench.ok("ALTER TABLE c ADD FOREIGN KEY (x) REFERENCES p (id), ADD FOREIGN KEY (x) REFERENCES c (id)");
    assert_eq!(ran.info, "Records: 2  Duplicates: 0  Warnings: 0");
    bench.ok("ALTER TABLE c DROP FOREIGN KEY c_ibfk_1");
    bench.foreign_key_checks = false;
    let ran = bench.ok("ALTER TABLE c ADD FOREIGN KEY (y) REFERENCES p (u)");
    assert_eq!(ran.info, "Records: 0  Duplicates: 0  Warnings: 0");
    bench.foreign_key_checks = true;
    let constraints: Vec<_> = keys(&bench, "c")
        .into_iter()
        .filter(|k| k.starts_with("CONSTRAINT"))
        .collect();
    assert_eq!(
        constraints,
        [
            "CONSTRAINT `c_ibfk_2` FOREIGN KEY (`x`) REFERENCES `c` (`id`)",
            "CONSTRAINT `c_ibfk_3` FOREIGN KEY (`y`) REFERENCES `p` (`u`)",
        ]
    );
    assert_eq!(
        bench.code(
            "ALTER TABLE c ADD CONSTRAINT n FOREIGN KEY (x) REFERENCES p (id), DROP FOREIGN KEY n"
        ),
        1091
    );
    assert_eq!(bench.code("ALTER TABLE c DROP FOREIGN KEY c_ibfk_3, ADD CONSTRAINT c_ibfk_3 FOREIGN KEY (x) REFERENCES p (id)"), 1826);
}

#[test]
fn keys_follow_new_names() {
    let mut bench = bench();
    bench.ok("CREATE DATABASE other");
    bench.ok("CREATE TABLE c (id INT PRIMARY KEY, x INT, up INT, FOREIGN KEY (x) REFERENCES p (u), CONSTRAINT self FOREIGN KEY (up) REFERENCES c (id))");
    let key = |bench: &Bench, schema: &str, table: &str, nth: usize| {
        let def = bench.catalog.resolve(schema, table).expect("is there");
        def.sorted_foreign_keys()[nth].text(&def)
    };
    bench.ok("ALTER TABLE p CHANGE u uu INT");
    bench.ok("ALTER TABLE c RENAME COLUMN x TO xx, RENAME COLUMN id TO idd");
    assert_eq!(
        key(&bench, "d", "c", 0),
        "CONSTRAINT `c_ibfk_1` FOREIGN KEY (`xx`) REFERENCES `p` (`uu`)"
    );
    assert_eq!(
        key(&bench, "d", "c", 1),
        "CONSTRAINT `self` FOREIGN KEY (`up`) REFERENCES `c` (`idd`)"
    );
    bench.ok("RENAME TABLE p TO other.pp, c TO child");
    assert_eq!(
        key(&bench, "d", "child", 0),
        "CONSTRAINT `child_ibfk_1` FOREIGN KEY (`xx`) REFERENCES `other`.`pp` (`uu`)"
    );
    assert_eq!(
        key(&bench, "d", "child", 1),
        "CONSTRAINT `self` FOREIGN KEY (`up`) REFERENCES `child` (`idd`)"
    );
    bench.ok("ALTER TABLE other.pp RENAME TO d.p");
    bench.ok("ALTER TABLE child RENAME TO kid");
    assert_eq!(
        key(&bench, "d", "kid", 0),
        "CONSTRAINT `kid_ibfk_1` FOREIGN KEY (`xx`) REFERENCES `p` (`uu`)"
    );
    assert_eq!(bench.code("INSERT INTO kid VALUES (1, 5, NULL)"), 1452);
    bench.ok("INSERT INTO p (id, uu) VALUES (1, 5)");
    bench.ok("INSERT INTO kid VALUES (1, 5, 1)");
    assert_eq!(bench.code("DELETE FROM p"), 1451);
    bench.ok("CREATE TABLE other.x (id INT, FOREIGN KEY (id) REFERENCES d.kid (idd))");
    assert_eq!(bench.code("DROP DATABASE d"), 3730);
    bench.ok("DROP TABLE other.x");
    bench.ok("DROP DATABASE d");
}

#[test]
fn memory_tables_keep_no_keys() {
    let mut bench = bench();
    bench.ok("CREATE TABLE m (id INT PRIMARY KEY, x INT, FOREIGN KEY (x) REFERENCES nope (id)) ENGINE = MEMORY");
    assert_eq!(keys(&bench, "m"), ["PRIMARY KEY (`id`)", "KEY `x` (`x`)"]);
    assert_eq!(
        bench.code("CREATE TABLE c (x INT, FOREIGN KEY (x) REFERENCES m (id))"),
        1824
    );
}
