//! Foreign keys while rows change: what is refused, what cascades, what waits for what.

use esker_engine::Isolation;
use esker_sql_catalog::exec_error::ExecError;
use esker_sql_catalog::result::Mode;

use crate::dml::testing::Bench;

/// `p`, and `c` that refers to it with these actions.
fn family(actions: &str) -> Bench {
    let mut bench = Bench::new();
    bench.ok("CREATE TABLE p (id INT PRIMARY KEY, u VARCHAR(10) UNIQUE, v INT)");
    bench.ok(&format!(
        "CREATE TABLE c (id INT PRIMARY KEY, pid INT, v INT, CONSTRAINT f FOREIGN KEY (pid) REFERENCES p (id) {actions})"
    ));
    bench.ok("INSERT INTO p VALUES (1, 'a', 1), (2, 'b', 2), (3, 'c', 3)");
    bench.ok("INSERT INTO c VALUES (10, 1, 0), (11, 1, 0), (20, 2, 0), (30, NULL, 0)");
    bench
}

const C_TO_P: &str = "(`d`.`c`, CONSTRAINT `f` FOREIGN KEY (`pid`) REFERENCES `p` (`id`))";

#[test]
fn a_child_needs_its_parent() {
    let mut bench = family("");
    let refused =
        format!("Cannot add or update a child row: a foreign key constraint fails {C_TO_P}");
    for sql in [
        "INSERT INTO c VALUES (40, 9, 0)",
        "INSERT INTO c VALUES (40, 1, 0), (41, 9, 0)",
        "INSERT INTO c SELECT 40 + id, 9, 0 FROM p",
        "REPLACE INTO c VALUES (10, 9, 0)",
        "INSERT INTO c VALUES (10, 1, 0) ON DUPLICATE KEY UPDATE pid = 9",
        "UPDATE c SET pid = 9 WHERE id = 10",
        "UPDATE c JOIN p ON p.id = c.pid SET c.pid = 9",
    ] {
        assert_eq!(bench.error(sql), (1452, refused.clone()), "{sql}");
    }
    assert_eq!(bench.rows("c"), ["10|1|0", "11|1|0", "20|2|0", "30|NULL|0"]);
    bench.ok("UPDATE c SET pid = NULL WHERE id = 10");
    bench.ok("UPDATE c SET pid = 3 WHERE id = 10");
    bench.ok("INSERT INTO c VALUES (40, NULL, 0)");
}

#[test]
fn a_parent_with_children_stays() {
    for actions in [
        "",
        "ON DELETE RESTRICT ON UPDATE RESTRICT",
        "ON DELETE SET DEFAULT",
    ] {
        let mut bench = family(actions);
        for sql in [
            "DELETE FROM p WHERE id = 1",
            "DELETE FROM p",
            "UPDATE p SET id = 9 WHERE id = 1",
            "REPLACE INTO p VALUES (1, 'z', 1)",
            "REPLACE INTO p VALUES (1, 'a', 1)",
            "INSERT INTO p VALUES (1, 'z', 1) ON DUPLICATE KEY UPDATE id = 9",
        ] {
            assert_eq!(bench.code(sql), 1451, "{sql} {actions}");
        }
        assert_eq!(bench.rows("p"), ["1|a|1", "2|b|2", "3|c|3"]);
        bench.ok("UPDATE p SET id = 1, u = 'y', v = 7 WHERE id = 1");
        assert_eq!(bench.ok("DELETE FROM p WHERE id = 3").affected, 1);
        bench.ok("DELETE FROM c WHERE pid = 1");
        bench.ok("DELETE FROM p WHERE id = 1");
    }
}

#[test]
fn children_go_and_change_with_their_parent_and_are_not_counted() {
    let mut bench = family("ON DELETE CASCADE ON UPDATE CASCADE");
    assert_eq!(bench.ok("UPDATE p SET id = 9 WHERE id = 1").affected, 1);
    assert_eq!(bench.rows("c"), ["10|9|0", "11|9|0", "20|2|0", "30|NULL|0"]);
    assert_eq!(bench.ok("DELETE FROM p WHERE id = 9").affected, 1);
    assert_eq!(bench.rows("c"), ["20|2|0", "30|NULL|0"]);
    assert_eq!(bench.ok("REPLACE INTO p VALUES (2, 'z', 1)").affected, 2);
    assert_eq!(bench.rows("c"), ["30|NULL|0"]);
    let mut bench = family("ON DELETE SET NULL ON UPDATE SET NULL");
    assert_eq!(bench.ok("DELETE FROM p WHERE id = 1").affected, 1);
    assert_eq!(bench.ok("UPDATE p SET id = 9 WHERE id = 2").affected, 1);
    let null = ["10|NULL|0", "11|NULL|0", "20|NULL|0", "30|NULL|0"];
    assert_eq!(bench.rows("c"), null);
    assert_eq!(bench.rows("p"), ["3|c|3", "9|b|2"]);
}

#[test]
fn ignore_leaves_out_the_rows_that_cannot_be() {
    let mut bench = family("");
    let ran = bench.ok("INSERT IGNORE INTO c VALUES (40, 9, 0), (41, 1, 0)");
    assert_eq!((ran.affected, ran.codes()), (1, vec![1452]));
    assert_eq!(ran.info, "Records: 1  Duplicates: 0  Warnings: 1");
    let ran = bench.ok("UPDATE IGNORE c SET pid = id - 9 WHERE id < 20");
    assert_eq!((ran.affected, ran.codes()), (1, vec![]));
    let ran = bench.ok("UPDATE IGNORE c SET pid = id, v = 5 WHERE id < 20");
    assert_eq!((ran.affected, ran.codes()), (0, vec![1452, 1452]));
    let ran = bench.ok("DELETE IGNORE FROM p");
    assert_eq!((ran.affected, ran.codes()), (1, vec![1451, 1451]));
    let ran = bench.ok("UPDATE IGNORE p SET id = id + 10");
    assert_eq!((ran.affected, ran.codes()), (0, vec![1451, 1451]));
    let ran = bench.ok("INSERT IGNORE INTO p VALUES (1, 'z', 1) ON DUPLICATE KEY UPDATE id = 8");
    assert_eq!((ran.affected, ran.codes()), (0, vec![1451]));
    assert_eq!(bench.rows("p"), ["1|a|1", "2|b|2"]);
    assert_eq!(
        bench.rows("c"),
        ["10|1|0", "11|2|0", "20|2|0", "30|NULL|0", "41|1|0"]
    );
}

#[test]
fn ignore_takes_back_what_a_cascade_did_to_a_row_that_stays() {
    let mut bench = family("ON DELETE CASCADE ON UPDATE CASCADE");
    bench.ok("CREATE TABLE other (pid INT, FOREIGN KEY (pid) REFERENCES p (id))");
    bench.ok("INSERT INTO other VALUES (1)");
    assert_eq!(bench.ok("DELETE IGNORE FROM p").codes(), [1451]);
    assert_eq!(bench.rows("c"), ["10|1|0", "11|1|0", "30|NULL|0"]);
    // The new key is taken: by then the children have changed.
    bench.ok("INSERT INTO p VALUES (2, 'b', 2)");
    bench.ok("DELETE FROM other");
    assert_eq!(bench.ok("UPDATE IGNORE p SET id = 2").codes(), [1062]);
    assert_eq!(bench.rows("c"), ["10|1|0", "11|1|0", "30|NULL|0"]);
}

#[test]
fn keys_of_several_columns_match_whole_or_not_at_all() {
    let mut bench = Bench::new();
    bench.ok("CREATE TABLE p (a INT, b VARCHAR(5), UNIQUE (a, b))");
    bench.ok(
        "CREATE TABLE c (x VARCHAR(9), y INT, FOREIGN KEY (y, x) REFERENCES p (a, b) ON UPDATE CASCADE ON DELETE SET NULL)",
    );
    bench.ok("INSERT INTO p VALUES (1, 'a'), (1, 'b'), (2, NULL)");
    bench.ok("INSERT INTO c VALUES ('A', 1), (NULL, 9), ('q', NULL), ('b', 1)");
    assert_eq!(bench.code("INSERT INTO c VALUES ('c', 1)"), 1452);
    bench.ok("UPDATE p SET b = 'z' WHERE b = 'a'");
    assert_eq!(bench.rows("c"), ["z|1", "NULL|9", "q|NULL", "b|1"]);
    bench.ok("DELETE FROM p");
    assert_eq!(
        bench.rows("c"),
        ["NULL|NULL", "NULL|9", "q|NULL", "NULL|NULL"]
    );
}

#[test]
fn a_table_may_refer_to_itself() {
    let mut bench = Bench::new();
    bench.ok("CREATE TABLE t (id INT PRIMARY KEY, up INT, FOREIGN KEY (up) REFERENCES t (id) ON DELETE CASCADE ON UPDATE CASCADE)");
    bench.ok("INSERT INTO t VALUES (1, 1), (2, 1), (3, 2), (4, NULL)");
    assert_eq!(bench.code("INSERT INTO t VALUES (5, 6), (6, NULL)"), 1452);
    bench.ok("INSERT INTO t VALUES (6, NULL), (5, 6)");
    // A cascade does not update a table that is being updated.
    assert_eq!(bench.code("UPDATE t SET id = 9 WHERE id = 2"), 1451);
    bench.ok("UPDATE t SET id = 9 WHERE id = 3");
    // Rows that a cascade has deleted before their turn are not counted.
    assert_eq!(bench.ok("DELETE FROM t WHERE id < 4").affected, 1);
    assert_eq!(bench.rows("t"), ["4|NULL", "5|6", "6|NULL"]);
    bench.ok("CREATE TABLE r (id INT PRIMARY KEY, up INT, FOREIGN KEY (up) REFERENCES r (id))");
    bench.ok("INSERT INTO r VALUES (1, 1), (2, NULL), (3, 2)");
    for sql in ["DELETE FROM r WHERE id = 1", "DELETE FROM r WHERE id = 2"] {
        assert_eq!(bench.code(sql), 1451, "{sql}");
    }
    bench.ok("CREATE TABLE n (id INT PRIMARY KEY, up INT, FOREIGN KEY (up) REFERENCES n (id) ON DELETE SET NULL)");
    bench.ok("INSERT INTO n VALUES (1, 1), (2, 1), (3, 2)");
    bench.ok("DELETE FROM n WHERE id = 1");
    assert_eq!(bench.rows("n"), ["2|NULL", "3|2"]);
}

#[test]
fn cycles_of_tables_cascade_to_an_end() {
    let mut bench = Bench::new();
    bench.ok("CREATE TABLE a (id INT PRIMARY KEY, b INT)");
    bench.ok("CREATE TABLE b (id INT PRIMARY KEY, a INT, FOREIGN KEY (a) REFERENCES a (id) ON DELETE CASCADE ON UPDATE CASCADE)");
    bench.ok("ALTER TABLE a ADD FOREIGN KEY (b) REFERENCES b (id) ON DELETE CASCADE");
    bench.ok("INSERT INTO a VALUES (1, NULL), (2, NULL), (3, NULL)");
    bench.ok("INSERT INTO b VALUES (1, 1), (2, 2)");
    bench.ok("UPDATE a SET b = 1 WHERE id = 1");
    bench.ok("UPDATE a SET b = 1 WHERE id = 2");
    bench.ok("UPDATE a SET id = 7 WHERE id = 1");
    assert_eq!(
        (bench.rows("a"), bench.rows("b")),
        (
            vec!["2|1".into(), "3|NULL".into(), "7|1".into()],
            vec!["1|7".into(), "2|2".into()]
        )
    );
    assert_eq!(bench.ok("DELETE FROM a WHERE id = 7").affected, 1);
    assert_eq!(bench.rows("a"), ["3|NULL"]);
    assert!(bench.rows("b").is_empty());
}

#[test]
fn cascades_end_at_a_depth() {
    let mut bench = Bench::new();
    bench.ok("CREATE TABLE t (id INT PRIMARY KEY, up INT, FOREIGN KEY (up) REFERENCES t (id) ON DELETE CASCADE)");
    bench.ok("INSERT INTO t VALUES (1, NULL)");
    for id in 2..=17 {
        bench.ok(&format!("INSERT INTO t VALUES ({id}, {})", id - 1));
    }
    let text = "Foreign key cascade delete/update exceeds max depth of 15.";
    assert_eq!(
        bench.error("DELETE FROM t WHERE id = 2"),
        (3008, text.into())
    );
    assert_eq!(bench.rows("t").len(), 17);
    bench.ok("DELETE FROM t WHERE id = 3");
    assert_eq!(bench.rows("t"), ["1|NULL", "2|1"]);
}

#[test]
fn a_cascade_keeps_the_childs_other_keys() {
    let mut bench = family("ON UPDATE CASCADE ON DELETE CASCADE");
    bench.ok("CREATE TABLE q (id INT PRIMARY KEY)");
    bench.ok("INSERT INTO q VALUES (1), (2)");
    bench.ok("ALTER TABLE c ADD CONSTRAINT g FOREIGN KEY (pid) REFERENCES q (id)");
    assert_eq!(bench.code("UPDATE p SET id = 9 WHERE id = 1"), 1452);
    bench.ok("CREATE TABLE grandchild (cid INT, FOREIGN KEY (cid) REFERENCES c (id))");
    bench.ok("INSERT INTO grandchild VALUES (11)");
    assert_eq!(bench.code("DELETE FROM p WHERE id = 1"), 1451);
    assert_eq!(bench.rows("c").len(), 4);
    bench.ok("CREATE TABLE k (id INT, v INT, UNIQUE (id, v), FOREIGN KEY (id) REFERENCES q (id) ON UPDATE CASCADE)");
    bench.foreign_key_checks = false;
    bench.ok("INSERT INTO k VALUES (2, 1), (5, 1)");
    bench.foreign_key_checks = true;
    bench.ok("ALTER TABLE c DROP FOREIGN KEY g");
    let text = "Foreign key constraint for table 'q', record '5' would lead to a duplicate entry in table 'k', key 'id'";
    assert_eq!(
        bench.error("UPDATE q SET id = 5 WHERE id = 2"),
        (1761, text.into())
    );
    assert_eq!(bench.rows("k"), ["2|1", "5|1"]);
}

#[test]
fn a_child_that_cannot_have_the_new_value_keeps_its_parent() {
    let mut bench = Bench::new();
    bench.ok("CREATE TABLE p (s VARCHAR(20) UNIQUE)");
    bench.ok("CREATE TABLE c (s VARCHAR(3) NOT NULL, FOREIGN KEY (s) REFERENCES p (s) ON UPDATE CASCADE)");
    bench.ok("INSERT INTO p VALUES ('abc')");
    bench.ok("INSERT INTO c VALUES ('ABC')");
    for value in ["'abcd'", "NULL"] {
        assert_eq!(bench.code(&format!("UPDATE p SET s = {value}")), 1451);
    }
    // The same to the collation, but not the same.
    bench.ok("UPDATE p SET s = 'aBc'");
    assert_eq!(bench.rows("c"), ["aBc"]);
}

#[test]
fn without_checks_anything_goes_and_is_seen_later() {
    let mut bench = family("ON DELETE CASCADE");
    bench.foreign_key_checks = false;
    bench.ok("INSERT INTO c VALUES (40, 9, 0)");
    bench.ok("DELETE FROM p WHERE id = 1");
    bench.ok(
        "CREATE TABLE orphan (id INT PRIMARY KEY, x INT, FOREIGN KEY (x) REFERENCES later (id))",
    );
    bench.foreign_key_checks = true;
    assert_eq!(bench.rows("c").len(), 5);
    // Keys that stay are not looked at again.
    bench.ok("UPDATE c SET v = 5 WHERE id = 40");
    assert_eq!(bench.code("UPDATE c SET pid = 8 WHERE id = 40"), 1452);
    assert_eq!(bench.code("UPDATE c SET id = 41 WHERE id = 40"), 1452);
    assert_eq!(bench.code("INSERT INTO orphan VALUES (1, 1)"), 1452);
    bench.ok("INSERT INTO orphan VALUES (2, NULL)");
    bench.ok("CREATE TABLE later (id INT PRIMARY KEY)");
    bench.ok("INSERT INTO later VALUES (1)");
    bench.ok("INSERT INTO orphan VALUES (1, 1)");
    assert_eq!(bench.code("DELETE FROM later"), 1451);
}

#[test]
fn several_tables_are_changed_at_once() {
    let mut bench = family("ON DELETE CASCADE ON UPDATE CASCADE");
    bench.ok("DELETE p, c FROM p JOIN c ON c.pid = p.id WHERE p.id = 1");
    assert_eq!((bench.rows("p").len(), bench.rows("c").len()), (2, 2));
    bench.ok("UPDATE p JOIN c ON c.pid = p.id SET p.id = 7, c.v = 4");
    assert_eq!(bench.rows("c"), ["20|7|4", "30|NULL|0"]);
}

#[test]
fn a_parent_key_of_another_index_is_enough() {
    let mut bench = Bench::new();
    bench.ok("CREATE TABLE p (id INT PRIMARY KEY, u INT, UNIQUE (u), n INT)");
    bench.ok("CREATE TABLE c (u INT, FOREIGN KEY (u) REFERENCES p (u) ON DELETE CASCADE)");
    bench.ok("INSERT INTO p VALUES (1, 10, 0), (2, NULL, 0)");
    bench.ok("INSERT INTO c VALUES (10), (NULL)");
    assert_eq!(bench.code("INSERT INTO c VALUES (1)"), 1452);
    assert_eq!(bench.code("UPDATE p SET u = 11"), 1451);
    bench.ok("UPDATE p SET id = id + 5, n = 3");
    bench.ok("DELETE FROM p");
    assert_eq!(bench.rows("c"), ["NULL"]);
}

fn waits(bench: &mut Bench, sql: &str) -> bool {
    bench.mode = Mode::Inline;
    let result = bench.attempt(sql);
    bench.mode = Mode::Thread;
    match result {
        Ok(_) => false,
        Err(ExecError::Wait(_)) => true,
        Err(ExecError::Sql(e)) => panic!("{sql}: {e}"),
    }
}

const LEVELS: [Isolation; 3] = [
    Isolation::ReadCommitted,
    Isolation::RepeatableRead,
    Isolation::Serializable,
];

#[test]
fn parents_and_children_wait_for_each_other_at_every_level() {
    for (level, actions) in LEVELS
        .into_iter()
        .flat_map(|l| [(l, ""), (l, "ON DELETE CASCADE")])
    {
        let mut one = family(actions);
        let mut two = one.other();
        for bench in [&mut one, &mut two] {
            bench.txn.set_isolation(level);
            bench.autocommit = false;
        }
        // A child was inserted: its parent has to stay, and can change in other columns only.
        one.ok("INSERT INTO c VALUES (40, 3, 0)");
        assert!(waits(&mut two, "DELETE FROM p WHERE id = 3"), "{level:?}");
        two.txn.rollback();
        assert!(!waits(&mut two, "INSERT INTO c VALUES (41, 3, 0)"));
        two.txn.rollback();
        one.commit();
        // A parent was deleted: who refers to it has to know what becomes of that.
        one.ok("DELETE FROM c WHERE pid = 3");
        one.ok("DELETE FROM p WHERE id = 3");
        assert!(
            waits(&mut two, "INSERT INTO c VALUES (42, 3, 0)"),
            "{level:?}"
        );
        two.txn.rollback();
        one.commit();
        assert_eq!(two.code("INSERT INTO c VALUES (42, 3, 0)"), 1452);
        two.txn.rollback();
        // A parent was inserted.
        one.ok("INSERT INTO p VALUES (4, 'd', 4)");
        assert!(
            waits(&mut two, "INSERT INTO c VALUES (43, 4, 0)"),
            "{level:?}"
        );
        two.txn.rollback();
        one.commit();
        two.ok("INSERT INTO c VALUES (43, 4, 0)");
        two.commit();
        // A child is being deleted: it may come back.
        one.ok("DELETE FROM c WHERE id = 43");
        assert!(waits(&mut two, "DELETE FROM p WHERE id = 4"), "{level:?}");
        two.txn.rollback();
        one.txn.rollback();
    }
}

#[test]
fn only_the_key_of_the_parent_is_locked() {
    let mut one = Bench::new();
    one.ok("CREATE TABLE p (id INT PRIMARY KEY, u INT, n INT, UNIQUE (u))");
    one.ok("CREATE TABLE c (u INT, FOREIGN KEY (u) REFERENCES p (u))");
    one.ok("INSERT INTO p VALUES (1, 10, 0), (2, 20, 0)");
    let mut two = one.other();
    (one.autocommit, two.autocommit) = (false, false);
    one.ok("INSERT INTO c VALUES (10)");
    assert!(!waits(&mut two, "UPDATE p SET n = 5 WHERE id = 1"));
    assert!(!waits(&mut two, "UPDATE p SET u = 21 WHERE id = 2"));
    assert!(waits(&mut two, "UPDATE p SET u = 11 WHERE id = 1"));
}
