//! Schema statements: what SHOW CREATE TABLE says afterwards, what rows become, and every error.

use esker_sql_catalog::mdl::{MdlDuration, MdlMode};

use super::*;
use crate::dml::testing::Bench;

fn body(bench: &Bench, table: &str) -> Vec<String> {
    bench
        .shown(table)
        .lines()
        .skip(1)
        .map(|l| l.trim().trim_end_matches(',').to_owned())
        .collect()
}

#[test]
fn every_type_is_shown_as_mysql_shows_it() {
    let mut bench = Bench::new();
    bench.ok("CREATE TABLE t (
        a TINYINT, b BOOL, c SMALLINT(3) UNSIGNED ZEROFILL, d MEDIUMINT UNSIGNED, e INTEGER(7),
        f BIGINT, g DEC(8,3) UNSIGNED, h FLOAT, i FLOAT(30), j DOUBLE(9,2), k BIT, l BIT(12),
        m CHAR, n VARCHAR(20), o BINARY(4), p VARBINARY(9), q TINYTEXT, r TEXT(70000), s BLOB,
        t LONGBLOB, u DATE, v TIME(3), w DATETIME, x TIMESTAMP(6), y YEAR,
        z ENUM('x','it''s') CHARACTER SET latin1, zz SET('a','b') COLLATE utf8mb4_bin)");
    let expected = [
        "`a` tinyint DEFAULT NULL",
        "`b` tinyint(1) DEFAULT NULL",
        "`c` smallint(3) unsigned zerofill DEFAULT NULL",
        "`d` mediumint unsigned DEFAULT NULL",
        "`e` int DEFAULT NULL",
        "`f` bigint DEFAULT NULL",
        "`g` decimal(8,3) unsigned DEFAULT NULL",
        "`h` float DEFAULT NULL",
        "`i` double DEFAULT NULL",
        "`j` double(9,2) DEFAULT NULL",
        "`k` bit(1) DEFAULT NULL",
        "`l` bit(12) DEFAULT NULL",
        "`m` char(1) DEFAULT NULL",
        "`n` varchar(20) DEFAULT NULL",
        "`o` binary(4) DEFAULT NULL",
        "`p` varbinary(9) DEFAULT NULL",
        "`q` tinytext",
        "`r` mediumtext",
        "`s` blob",
        "`t` longblob",
        "`u` date DEFAULT NULL",
        "`v` time(3) DEFAULT NULL",
        "`w` datetime DEFAULT NULL",
        "`x` timestamp(6) NULL DEFAULT NULL",
        "`y` year DEFAULT NULL",
        "`z` enum('x','it''s') CHARACTER SET latin1 COLLATE latin1_swedish_ci DEFAULT NULL",
        "`zz` set('a','b') CHARACTER SET utf8mb4 COLLATE utf8mb4_bin DEFAULT NULL",
        ") ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_0900_ai_ci",
    ];
    assert_eq!(body(&bench, "t"), expected);
}

#[test]
fn keys_defaults_and_checks_are_shown_as_mysql_shows_them() {
    let mut bench = Bench::new();
    bench.ok("CREATE TABLE `we``ird` (
        id INT UNSIGNED AUTO_INCREMENT,
        a VARCHAR(9) NOT NULL DEFAULT 'x' COMMENT 'it''s',
        b INT DEFAULT -5 CHECK (b > -10),
        c DECIMAL(6,2) DEFAULT 1.5,
        d DATETIME(3) DEFAULT NOW(3) ON UPDATE NOW(3),
        e BIT(4) DEFAULT b'101',
        f TEXT DEFAULT (CONCAT('a', UPPER(`a`))),
        g INT INVISIBLE,
        PRIMARY KEY (id),
        KEY (b), KEY (b, a(3) DESC), UNIQUE u (c), UNIQUE v (a) COMMENT 'k',
        KEY hidden (g) INVISIBLE, KEY h2 (g) USING BTREE,
        CONSTRAINT named CHECK (a <> '' AND b IS NOT NULL) NOT ENFORCED
        ) AUTO_INCREMENT=7 COMMENT='c' DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin");
    let expected = [
        "`id` int unsigned NOT NULL AUTO_INCREMENT",
        "`a` varchar(9) COLLATE utf8mb4_bin NOT NULL DEFAULT 'x' COMMENT 'it''s'",
        "`b` int DEFAULT '-5'",
        "`c` decimal(6,2) DEFAULT '1.50'",
        "`d` datetime(3) DEFAULT CURRENT_TIMESTAMP(3) ON UPDATE CURRENT_TIMESTAMP(3)",
        "`e` bit(4) DEFAULT b'101'",
        "`f` text COLLATE utf8mb4_bin DEFAULT (concat(_utf8mb4'a',upper(`a`)))",
        "`g` int DEFAULT NULL /*!80023 INVISIBLE */",
        "PRIMARY KEY (`id`)",
        "UNIQUE KEY `v` (`a`) COMMENT 'k'",
        "UNIQUE KEY `u` (`c`)",
        "KEY `b` (`b`)",
        "KEY `b_2` (`b`,`a`(3) DESC)",
        "KEY `hidden` (`g`) /*!80000 INVISIBLE */",
        "KEY `h2` (`g`) USING BTREE",
        "CONSTRAINT `named` CHECK (((`a` <> _utf8mb4'') and (`b` is not null))) \
         /*!80016 NOT ENFORCED */",
        "CONSTRAINT `we``ird_chk_1` CHECK ((`b` > -(10)))",
        ") ENGINE=InnoDB AUTO_INCREMENT=7 DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin COMMENT='c'",
    ];
    let mut found = body(&bench, "we`ird");
    // The order of the constraints is that of their definition.
    found.sort_by_key(|l| l.contains("_chk_1"));
    let mut wanted: Vec<String> = expected.iter().map(|s| (*s).to_owned()).collect();
    wanted.sort_by_key(|l| l.contains("_chk_1"));
    assert_eq!(found, wanted);
    // The text makes the same table again; what it spells out is explicit from then on, as in MySQL.
    let text = bench.shown("we`ird");
    bench.ok("DROP TABLE `we``ird`");
    bench.ok(&text);
    let again = bench.shown("we`ird");
    assert_eq!(
        again.replace("CHARACTER SET utf8mb4 COLLATE", "COLLATE"),
        text
    );
}

#[test]
fn definitions_that_mysql_refuses_are_refused_alike() {
    let mut bench = Bench::new();
    bench.ok("CREATE TABLE t (a INT)");
    let cases = [
        ("CREATE DATABASE d", 1007),
        ("DROP DATABASE nope", 1008),
        ("DROP DATABASE mysql", 3552),
        ("CREATE TABLE mysql.x (a INT)", 1044),
        ("CREATE TABLE nope.t (a INT)", 1049),
        ("CREATE TABLE t (a INT)", 1050),
        ("DROP TABLE nope", 1051),
        ("CREATE TABLE x (a INT, A INT)", 1060),
        ("CREATE TABLE x (a INT, KEY k (a), KEY K (a))", 1061),
        ("CREATE TABLE x (a FLOAT AUTO_INCREMENT PRIMARY KEY)", 1063),
        ("CREATE TABLE x (a INT NOT NULL DEFAULT NULL)", 1067),
        ("CREATE TABLE x (a INT DEFAULT 'abc')", 1067),
        ("CREATE TABLE x (a TINYINT DEFAULT 300)", 1067),
        ("CREATE TABLE x (a DATE DEFAULT '2026-02-30')", 1067),
        ("CREATE TABLE x (a INT DEFAULT NOW())", 1067),
        (
            "CREATE TABLE x (a INT PRIMARY KEY, b INT PRIMARY KEY)",
            1068,
        ),
        ("CREATE TABLE x (a VARCHAR(1000), KEY (a))", 1071),
        ("CREATE TABLE x (a INT, KEY (b))", 1072),
        ("CREATE TABLE x (a VARCHAR(20000))", 1074),
        ("CREATE TABLE x (a INT AUTO_INCREMENT)", 1075),
        (
            "CREATE TABLE x (a INT AUTO_INCREMENT, b INT, KEY (b, a))",
            1075,
        ),
        ("CREATE TABLE x (a INT, KEY (a(3)))", 1089),
        ("CREATE TABLE x (a TEXT DEFAULT 'x')", 1101),
        ("CREATE TABLE `x ` (a INT)", 1103),
        ("CREATE TABLE x (a VARCHAR(5) CHARACTER SET nope)", 1115),
        ("CREATE TABLE x (`a ` INT)", 1166),
        ("CREATE TABLE x (a TEXT, KEY (a))", 1170),
        ("CREATE TABLE x (a INT NULL, PRIMARY KEY (a))", 1171),
        (
            "CREATE TABLE x (a VARCHAR(5) CHARACTER SET latin1 COLLATE utf8mb4_bin)",
            1253,
        ),
        ("CREATE TABLE x (a INT, KEY `PRIMARY` (a))", 1280),
        ("CREATE TABLE x (a INT) ENGINE=nope", 1286),
        ("CREATE TABLE x (a ENUM('a','A'))", 1291),
        ("CREATE TABLE x (a INT ON UPDATE NOW())", 1294),
        ("CREATE TABLE x (a DATETIME ON UPDATE NOW(3))", 1294),
        ("CREATE TABLE x (a DECIMAL(10,31))", 1425),
        ("CREATE TABLE x (a DECIMAL(66,1))", 1426),
        ("CREATE TABLE x (a DECIMAL(3,4))", 1427),
        ("CREATE TABLE x (a INT, CHECK (b > 0))", 3820),
        ("CREATE TABLE x (a INT, CHECK (a > RAND()))", 3814),
        (
            "CREATE TABLE x (a INT AUTO_INCREMENT PRIMARY KEY, CHECK (a > 0))",
            3818,
        ),
        (
            "CREATE TABLE x (a INT, CONSTRAINT c CHECK (a > 0), CONSTRAINT C CHECK (a > 1))",
            3822,
        ),
        ("CREATE TABLE x (a INT, FULLTEXT (a))", 1283),
        (
            "CREATE TABLE x (a TEXT CHARACTER SET utf16, FULLTEXT (a))",
            1283,
        ),
        (
            "CREATE TABLE x (a TEXT, b TEXT AS (a) VIRTUAL, FULLTEXT (a, b))",
            3106,
        ),
        ("CREATE TABLE x (a TEXT, FULLTEXT (a) WITH PARSER f)", 1128),
        ("CREATE TABLE x (a TEXT, FULLTEXT ((UPPER(a))))", 3759),
        ("CREATE TABLE x (a TEXT, FULLTEXT (a DESC))", 1221),
        ("CREATE TEMPORARY TABLE x (a TEXT, FULLTEXT (a))", 1796),
        ("TRUNCATE nope", 1146),
        ("RENAME TABLE nope TO x", 1146),
        ("RENAME TABLE t TO t", 1050),
        ("ALTER TABLE nope ADD b INT", 1146),
        ("ALTER TABLE t DROP b", 1091),
        ("ALTER TABLE t DROP a", 1090),
        ("ALTER TABLE t DROP PRIMARY KEY", 1091),
        ("ALTER TABLE t ADD a INT", 1060),
        ("ALTER TABLE t MODIFY b INT", 1054),
        ("ALTER TABLE t ADD b INT AFTER c", 1054),
        ("ALTER TABLE t RENAME INDEX i TO j", 1176),
        ("CREATE INDEX i ON t (b)", 1072),
        ("DROP INDEX i ON t", 1091),
    ];
    for (sql, code) in cases {
        let (found, text) = bench.error(sql);
        assert_eq!(found, code, "{sql}: {text}");
    }
    let long = "x".repeat(65);
    assert_eq!(bench.code(&format!("CREATE TABLE {long} (a INT)")), 1059);
    assert!(bench.catalog.resolve("d", "x").is_none());
    assert_eq!(body(&bench, "t")[0], "`a` int DEFAULT NULL");
}

#[test]
fn if_exists_and_if_not_exists_leave_a_note() {
    let mut bench = Bench::new();
    bench.ok("CREATE TABLE t (a INT)");
    assert_eq!(bench.ok("CREATE DATABASE IF NOT EXISTS d").codes(), [1007]);
    assert_eq!(
        bench.ok("CREATE TABLE IF NOT EXISTS t (b INT)").codes(),
        [1050]
    );
    assert_eq!(bench.ok("DROP TABLE IF EXISTS nope, t").codes(), [1051]);
    assert!(bench.catalog.resolve("d", "t").is_none());
    assert_eq!(bench.ok("DROP DATABASE IF EXISTS nope").codes(), [1008]);
}

#[test]
fn drop_table_takes_all_or_none() {
    let mut bench = Bench::new();
    bench.ok("CREATE TABLE a (x INT)");
    assert_eq!(
        bench.error("DROP TABLE a, b"),
        (1051, "Unknown table 'd.b'".into())
    );
    assert!(bench.catalog.resolve("d", "a").is_some());
}

#[test]
fn rename_moves_tables_between_names_and_databases() {
    let mut bench = Bench::new();
    bench.ok("CREATE TABLE a (x INT CHECK (x > 0))");
    bench.ok("CREATE TABLE b (y INT)");
    bench.ok("INSERT INTO a VALUES (1)");
    bench.ok("RENAME TABLE a TO c, b TO a, c TO b");
    assert_eq!(bench.rows("b"), ["1"]);
    assert!(bench.shown("b").contains("`b_chk_1`"));
    assert_eq!(body(&bench, "a")[0], "`y` int DEFAULT NULL");
    bench.ok("CREATE DATABASE e");
    bench.ok("ALTER TABLE b RENAME TO e.moved");
    assert!(bench.catalog.resolve("e", "moved").is_some());
    assert!(bench.catalog.resolve("d", "b").is_none());
    // What a restart reads is the same.
    let again = Catalog::open(&bench.engine).expect("opens");
    assert!(again.resolve("e", "moved").is_some());
}

#[test]
fn create_like_copies_the_definition_only() {
    let mut bench = Bench::new();
    bench
        .ok("CREATE TABLE a (id INT AUTO_INCREMENT PRIMARY KEY, x INT, UNIQUE (x), CHECK (x > 1))");
    bench.ok("INSERT INTO a (x) VALUES (5)");
    bench.ok("CREATE TABLE b LIKE a");
    assert!(bench.rows("b").is_empty());
    let mut expected = bench.shown("a").replace(" AUTO_INCREMENT=2", "");
    expected = expected.replace("`a`", "`b`").replace("a_chk_1", "b_chk_1");
    assert_eq!(bench.shown("b"), expected);
}

#[test]
fn indexes_are_filled_from_the_rows_there_are() {
    let mut bench = Bench::new();
    bench.ok("CREATE TABLE t (id INT PRIMARY KEY, a INT, b VARCHAR(5))");
    bench.ok("INSERT INTO t VALUES (1, 10, 'x'), (2, NULL, 'y'), (3, 10, NULL)");
    bench.ok("CREATE INDEX by_a ON t (a DESC, b)");
    bench.ok("CREATE UNIQUE INDEX by_b ON t (b)");
    assert_eq!(bench.rows("t").len(), 3);
    let trees = bench.engine.tree_ids();
    let (code, text) = bench.error("CREATE UNIQUE INDEX ua ON t (a)");
    assert_eq!(
        (code, text.as_str()),
        (1062, "Duplicate entry '10' for key 't.ua'")
    );
    assert_eq!(
        bench.engine.tree_ids(),
        trees,
        "the unfinished tree is gone"
    );
    bench.ok("DROP INDEX by_a ON t");
    assert_eq!(bench.engine.tree_ids().len(), trees.len() - 1);
    assert_eq!(bench.table("t").indexes.len(), 2);
}

#[test]
fn columns_come_and_go_without_touching_rows() {
    let mut bench = Bench::new();
    bench.ok("CREATE TABLE t (id INT PRIMARY KEY, a INT, KEY ka (a))");
    bench.ok("INSERT INTO t VALUES (1, 10)");
    let clustered = bench.table("t").indexes[0].id;
    bench.ok("ALTER TABLE t ADD b VARCHAR(5) NOT NULL DEFAULT 'new' FIRST, ADD c INT NOT NULL");
    assert_eq!(bench.rows("t"), ["new|1|10|0"]);
    bench.ok("INSERT INTO t VALUES ('x', 2, 20, 200)");
    bench.ok(
        "ALTER TABLE t DROP a, RENAME COLUMN c TO d, MODIFY b VARCHAR(50) DEFAULT 'z' AFTER id",
    );
    assert_eq!(bench.rows("t"), ["1|new|0", "2|x|200"]);
    bench.ok("ALTER TABLE t ADD ts DATETIME DEFAULT NOW()");
    bench.ok("INSERT INTO t (id, d) VALUES (3, 300)");
    let now = "2026-01-02 03:04:05";
    assert_eq!(
        bench.rows("t"),
        [
            format!("1|new|0|{now}"),
            format!("2|x|200|{now}"),
            format!("3|z|300|{now}")
        ]
    );
    assert_eq!(
        bench.table("t").indexes[0].id,
        clustered,
        "no copy was made"
    );
    assert_eq!(
        bench.table("t").indexes.len(),
        1,
        "the index of the dropped column is gone"
    );
    let again = Catalog::open(&bench.engine).expect("opens");
    let read = again.resolve("d", "t").expect("is there");
    assert_eq!(read.layout.versions(), bench.table("t").layout.versions());
}

#[test]
fn a_zero_date_is_no_value_for_the_rows_there_are() {
    let mut bench = Bench::new();
    bench.ok("CREATE TABLE t (id INT PRIMARY KEY)");
    bench.ok("ALTER TABLE t ADD a DATE NOT NULL");
    bench.ok("INSERT INTO t VALUES (1, '2026-01-01')");
    let (code, text) = bench.error("ALTER TABLE t ADD b DATETIME NOT NULL");
    assert_eq!(code, 1292);
    assert_eq!(
        text,
        "Incorrect datetime value: '0000-00-00 00:00:00' for column 'b' at row 1"
    );
    bench.sql_mode = esker_types::SqlMode::default();
    bench.ok("ALTER TABLE t ADD b DATETIME NOT NULL");
    assert_eq!(bench.rows("t"), ["1|2026-01-01|0000-00-00 00:00:00"]);
}

#[test]
fn changes_of_type_and_key_copy_and_convert() {
    let mut bench = Bench::new();
    bench.ok("CREATE TABLE t (id INT PRIMARY KEY, a VARCHAR(9), b INT, UNIQUE ub (b))");
    bench.ok("INSERT INTO t VALUES (1, '10', 5), (2, '020', NULL)");
    let ran = bench.ok("ALTER TABLE t MODIFY a INT, MODIFY b BIGINT");
    assert_eq!(ran.affected, 2);
    assert_eq!(bench.rows("t"), ["1|10|5", "2|20|NULL"]);
    bench.ok("ALTER TABLE t DROP PRIMARY KEY, ADD PRIMARY KEY (a DESC)");
    assert_eq!(bench.rows("t"), ["2|20|NULL", "1|10|5"]);
    bench.ok("ALTER TABLE t DROP PRIMARY KEY");
    assert_eq!(bench.rows("t").len(), 2);
    assert_eq!(bench.code("ALTER TABLE t MODIFY b BIGINT NOT NULL"), 1138);
    bench.ok("INSERT INTO t VALUES (1, 30, 7)");
    let (code, text) = bench.error("ALTER TABLE t ADD PRIMARY KEY (id)");
    assert_eq!(
        (code, text.as_str()),
        (1062, "Duplicate entry '1' for key 't.PRIMARY'")
    );
    bench.ok("ALTER TABLE t ADD n INT AUTO_INCREMENT UNIQUE");
    let numbers: Vec<String> = bench
        .rows("t")
        .iter()
        .map(|r| r.rsplit('|').next().unwrap_or("").to_owned())
        .collect();
    assert_eq!(numbers, ["1", "2", "3"]);
    assert_eq!(bench.code("ALTER TABLE t ADD CHECK (a < 30)"), 3819);
    bench.ok("ALTER TABLE t ADD CHECK (a <= 30)");
    assert_eq!(bench.code("INSERT INTO t (id, a) VALUES (4, 31)"), 3819);
}

#[test]
fn converting_the_character_set_rebuilds_the_keys() {
    let mut bench = Bench::new();
    bench.ok(
        "CREATE TABLE t (a VARCHAR(9) CHARACTER SET latin1, b TEXT CHARACTER SET latin1, \
              UNIQUE (a)) CHARSET=latin1",
    );
    bench.ok("INSERT INTO t VALUES ('B', 'x'), ('a', 'y')");
    bench.ok("ALTER TABLE t CONVERT TO CHARACTER SET utf8mb4 COLLATE utf8mb4_bin");
    assert_eq!(
        body(&bench, "t")[..2],
        [
            "`a` varchar(9) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin DEFAULT NULL".to_owned(),
            "`b` mediumtext CHARACTER SET utf8mb4 COLLATE utf8mb4_bin".to_owned()
        ]
    );
    bench.ok("INSERT INTO t VALUES ('A', 'z')");
    assert_eq!(bench.rows("t").len(), 3);
}

#[test]
fn the_counter_can_be_set_but_not_below_what_is_stored() {
    let mut bench = Bench::new();
    bench.ok("CREATE TABLE t (id INT PRIMARY KEY AUTO_INCREMENT)");
    bench.ok("INSERT INTO t VALUES (5)");
    bench.ok("ALTER TABLE t AUTO_INCREMENT = 100");
    assert!(bench.shown("t").contains("AUTO_INCREMENT=100 "));
    bench.ok("ALTER TABLE t AUTO_INCREMENT = 1");
    bench.ok("INSERT INTO t VALUES (NULL)");
    assert_eq!(bench.rows("t"), ["5", "6"]);
    let again = Catalog::open(&bench.engine).expect("opens");
    assert_eq!(
        again.resolve("d", "t").expect("there").runtime.last_auto(),
        6
    );
}

#[test]
fn a_schema_change_waits_for_transactions_and_can_be_run_again() {
    let mut bench = Bench::new();
    bench.ok("CREATE TABLE t (a INT)");
    let mut reader = LockSet::new(bench.catalog.locks());
    let object = bench.table("t").mdl.clone();
    let duration = MdlDuration::Transaction;
    assert!(reader.try_acquire(&object, MdlMode::SharedRead, duration));
    let Err(ExecError::Wait(ticket)) = bench.attempt("ALTER TABLE t ADD b INT") else {
        panic!("did not wait");
    };
    assert!(bench.locks.is_waiting());
    assert_eq!(bench.table("t").columns.len(), 1);
    reader.release_transaction();
    ticket
        .block(std::time::Duration::from_secs(10))
        .expect("granted");
    bench.ok("ALTER TABLE t ADD b INT");
    assert_eq!(bench.table("t").columns.len(), 2);
    assert!(bench.locks.is_empty(), "statement locks are released");
}

#[test]
fn lock_tables_restricts_what_may_be_changed() {
    let mut bench = Bench::new();
    bench.ok("CREATE TABLE r (a INT)");
    bench.ok("CREATE TABLE w (a INT)");
    let table = |name: &str, write| esker_sql_syntax::ast::LockTable {
        name: esker_sql_syntax::ast::ObjectName::bare(name),
        alias: None,
        write,
        soft: false,
    };
    let tables = [table("w", true), table("r", false)];
    let catalog = bench.catalog.clone();
    assert!(lock_tables::lock(&catalog, &mut bench.locks, &tables, &[], Some("d")).is_ok());
    bench.locks.keep_statement_locks(MdlDuration::Explicit);
    let mdl = |name: &str| {
        catalog
            .table_or_error("d", name)
            .expect("there")
            .mdl
            .clone()
    };
    assert!(lock_tables::check_locked(&bench.locks, &mdl("w"), "w", true).is_ok());
    let code = |r: esker_types::SqlResult<()>| r.expect_err("refused").code;
    assert_eq!(
        code(lock_tables::check_locked(
            &bench.locks,
            &mdl("r"),
            "r",
            true
        )),
        1099
    );
    bench.ok("ALTER TABLE w ADD b INT");
    assert_eq!(bench.code("ALTER TABLE r ADD b INT"), 1099);
    assert_eq!(bench.code("CREATE TABLE x (a INT)"), 1100);
    lock_tables::unlock(&mut bench.locks);
    assert!(bench.locks.is_empty());
    bench.ok("CREATE TABLE x (a INT)");
    assert_eq!(
        code(lock_tables::check_locked(
            &bench.locks,
            &mdl("x"),
            "x",
            false
        )),
        1100
    );

    assert!(lock_tables::lock_globally(&catalog, &mut bench.locks).is_ok());
    assert_eq!(bench.code("CREATE TABLE y (a INT)"), 1223);
    lock_tables::unlock(&mut bench.locks);
    bench.ok("CREATE TABLE y (a INT)");

    // A statement that ends while it waits for a commit holds nothing.
    let mut commits = LockSet::new(catalog.locks());
    let (commit, mode) = (
        catalog.locks().commit().clone(),
        MdlMode::IntentionExclusive,
    );
    let duration = MdlDuration::Statement;
    assert!(commits.acquire(&commit, mode, duration).is_ok());
    let waits = lock_tables::lock_globally(&catalog, &mut bench.locks);
    assert!(matches!(waits, Err(ExecError::Wait(_))));
    bench.locks.release_statement();
    bench.ok("CREATE TABLE z (a INT)");
}

#[test]
fn an_older_snapshot_may_not_use_what_was_made_after_it() {
    let mut bench = Bench::new();
    bench.ok("CREATE TABLE t (id INT PRIMARY KEY, a INT)");
    bench.ok("INSERT INTO t VALUES (1, 1)");
    let snapshot = bench.other().txn.snapshot();
    let def = bench.table("t");
    assert!(def.check_visible(def.primary(), snapshot).is_ok());
    bench.ok("CREATE INDEX ia ON t (a)");
    let def = bench.table("t");
    assert!(def.check_visible(def.primary(), snapshot).is_ok());
    let code = def
        .check_visible(&def.indexes[1], snapshot)
        .expect_err("too old")
        .code;
    assert_eq!(code, 1412);
    let now = bench.other().txn.snapshot();
    assert!(
        def.check_visible(&def.indexes[1], now).is_ok(),
        "the statement waited for that"
    );
    bench.ok("ALTER TABLE t MODIFY a BIGINT");
    let def = bench.table("t");
    assert!(def.check_visible(def.primary(), now).is_err());
}

#[test]
fn what_was_acknowledged_survives_a_power_loss() {
    let machine = esker_vfs::sim::SimEnv::new(5);
    let mut bench = Bench::new_on(&machine);
    let steps = [
        "CREATE TABLE t (id INT PRIMARY KEY AUTO_INCREMENT, a INT, b VARCHAR(9))",
        "INSERT INTO t (a, b) VALUES (1, 'x'), (2, 'y')",
        "CREATE UNIQUE INDEX ia ON t (a)",
        "ALTER TABLE t ADD c INT DEFAULT 7, DROP b",
        "ALTER TABLE t MODIFY a BIGINT NOT NULL",
        "ALTER TABLE t DROP PRIMARY KEY, ADD PRIMARY KEY (a), ADD KEY (id), AUTO_INCREMENT = 50",
        "RENAME TABLE t TO u",
        "CREATE TABLE t LIKE u",
        "TRUNCATE t",
        "DROP TABLE t",
    ];
    for (at, sql) in steps.iter().enumerate() {
        bench.ok(sql);
        if !sql.starts_with("INSERT") {
            let after = Bench::restart(&machine.crash(at as u64 + 100));
            for table in ["t", "u"] {
                let here = bench.catalog.resolve("d", table);
                assert_eq!(
                    after.catalog.resolve("d", table).is_some(),
                    here.is_some(),
                    "{sql}"
                );
                if here.is_some() {
                    assert_eq!(after.shown(table), bench.shown(table), "{sql}");
                    assert_eq!(after.rows(table), bench.rows(table), "{sql}");
                }
            }
            let named = after
                .catalog
                .snapshot()
                .tables()
                .map(|t| t.indexes.len())
                .sum::<usize>();
            assert_eq!(
                after.engine.tree_ids().len(),
                named + 1,
                "{sql}: no orphan stays"
            );
        }
    }
    assert_eq!(bench.rows("u"), ["1|1|7", "2|2|7"]);
}

#[test]
fn a_power_loss_in_the_middle_leaves_the_table_as_it_was_or_as_it_will_be() {
    let machine = esker_vfs::sim::SimEnv::new(6);
    let mut bench = Bench::new_on(&machine);
    bench.ok("CREATE TABLE t (id INT PRIMARY KEY, a INT)");
    let rows: Vec<String> = (0..200).map(|i| format!("({i}, {i})")).collect();
    bench.ok(&format!("INSERT INTO t VALUES {}", rows.join(",")));
    // Durable, since the rename waits for the log.
    bench.ok("RENAME TABLE t TO v, v TO t");
    let before = (bench.shown("t"), bench.rows("t").len());
    let stop = std::sync::atomic::AtomicBool::new(false);
    let seen = std::thread::scope(|scope| {
        let watcher = scope.spawn(|| {
            let mut seen = Vec::new();
            let mut seed = 0;
            while !stop.load(std::sync::atomic::Ordering::SeqCst) && seed < 12 {
                seed += 1;
                let after = Bench::restart(&machine.crash(seed));
                seen.push((after.shown("t"), after.rows("t").len()));
            }
            seen
        });
        bench.ok("ALTER TABLE t MODIFY a BIGINT, ADD KEY (a), ADD c INT NOT NULL DEFAULT 3 FIRST");
        stop.store(true, std::sync::atomic::Ordering::SeqCst);
        watcher.join().expect("the watcher is fine")
    });
    let done = (bench.shown("t"), bench.rows("t").len());
    assert_ne!(before.0, done.0);
    for state in seen {
        assert!(state == before || state == done, "{state:?}");
    }
}
