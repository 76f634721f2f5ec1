//! Rows judged by columns in the tasks of a scan: answers, errors and warnings are those of evaluation a row at a time.
//!
//! **Invariant**: evaluation a row at a time is serial here, which knows no batches.

mod stored;

use std::cell::{Cell, RefCell};

use esker_engine::Engine;
use esker_vfs::sim::SimEnv;
use proptest::prelude::*;
use proptest::test_runner::{RngAlgorithm, TestRng, TestRunner};

use crate::common::ask::{Answer, Client};
use crate::common::open;

/// Rows of the table: several batches.
const ROWS: u32 = 4000;

/// Draws from a seed.
struct Dice(u64);

impl Dice {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % n
    }

    fn of<'a>(&mut self, choices: &[&'a str]) -> &'a str {
        choices[self.below(choices.len())]
    }
}

/// One row; `wild` ones have the largest and smallest numbers there are.
fn row(id: u32, dice: &mut Dice) -> String {
    let is_wild = (1000..1100).contains(&id);
    let mut number = |calm: &[&str], wild: &[&str]| match dice.below(9) {
        0 => "NULL".to_owned(),
        n if is_wild && n < 5 => dice.of(wild).to_owned(),
        _ => dice.of(calm).to_owned(),
    };
    let i = number(
        &["0", "1", "-1", "7", "100", "-45"],
        &["2147483647", "-2147483648"],
    );
    let b = number(
        &["0", "12", "-3", "40000", "1000000007"],
        &["9223372036854775807", "-9223372036854775808"],
    );
    let big = number(
        &["0", "5", "700"],
        &["18446744073709551615", "9223372036854775808"],
    );
    let m = number(
        &["0.00", "1.50", "-2.25", "99.99", "12345.67"],
        &["9999999999.99", "-9999999999.99"],
    );
    let w = number(
        &["0.0000", "1.0625", "-33.5000", "100000.0001"],
        &[
            "99999999999999999999999999.9999",
            "-99999999999999999999999999.9999",
        ],
    );
    let d = number(
        &[
            "'2024-02-29'",
            "'1999-12-31'",
            "'2024-03-01'",
            "'0000-00-00'",
            "'2020-00-10'",
        ],
        &["'9999-12-31'"],
    );
    let t = number(
        &[
            "'2024-02-29 00:00:00'",
            "'2024-02-29 12:30:00.125'",
            "'0000-00-00'",
        ],
        &["'9999-12-31 23:59:59'"],
    );
    let o = number(
        &["'00:00:00'", "'-12:30:00'", "'800:00:01'"],
        &["'838:59:59'"],
    );
    let s = number(
        &["'abc'", "'ABC'", "'Abc '", "''", "'zeta'", "'12x'", "'7'"],
        &["'straße'", "'STRASSE'"],
    );
    let c = number(&["'a'", "'A'", "'b'"], &["'ä'"]);
    let u = id * 7 % 50;
    let x = format!("{}e-2", id % 31);
    format!("({id}, {i}, {b}, {u}, {big}, {m}, {w}, {d}, {t}, {o}, {s}, {c}, {x})")
}

/// A table with everything in it, half of whose rows are older than two of its columns.
fn table(machine: &SimEnv) -> (Client, Engine) {
    let instance = open(machine, &[]);
    let engine = instance.engine().clone();
    let mut root = Client::new(&instance, 1);
    root.ok("CREATE DATABASE d");
    root.ok("USE d");
    // Zero dates may be stored.
    root.ok("SET sql_mode = ''");
    root.ok(
        "CREATE TABLE r (id INT PRIMARY KEY, i INT, b BIGINT, u INT UNSIGNED NOT NULL, big BIGINT UNSIGNED, m DECIMAL(12,2), \
         w DECIMAL(30,4), d DATE, t DATETIME(3), o TIME, s VARCHAR(20), c CHAR(3) COLLATE utf8mb4_bin, x DOUBLE)",
    );
    let mut dice = Dice(77);
    for part in 0..4 {
        if part == 2 {
            root.ok("ALTER TABLE r ADD COLUMN late INT DEFAULT 4, ALGORITHM=INSTANT");
            root.ok("ALTER TABLE r ADD COLUMN word VARCHAR(9) NOT NULL DEFAULT 'Late', ALGORITHM=INSTANT");
            engine.flush_all().expect("flushes");
        }
        let ids = part * ROWS / 4..(part + 1) * ROWS / 4;
        let rows: Vec<String> = ids.map(|id| row(id, &mut dice)).collect();
        let columns = "id, i, b, u, big, m, w, d, t, o, s, c, x";
        root.ok(&format!(
            "INSERT INTO r ({columns}) VALUES {}",
            rows.join(",")
        ));
    }
    root.ok("UPDATE r SET late = id % 3, word = 'LATE' WHERE id % 5 = 0 OR id > 3900");
    (root, engine)
}

/// Where the rows of the table are.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Place {
    /// As they were written: in a memtable, and below it.
    Written,
    /// In one run, each once.
    Settled,
    /// The same, with newer versions of a few in another run and in a memtable, and some gone.
    Changed,
}

const PLACES: [Place; 3] = [Place::Written, Place::Settled, Place::Changed];

/// Brings the rows of a table from one place to the next.
fn bring(root: &mut Client, engine: &Engine, to: Place) {
    match to {
        Place::Written => {}
        Place::Settled => {
            engine.flush_all().expect("flushes");
            engine.compact().expect("compacts");
        }
        Place::Changed => {
            root.ok("UPDATE r SET i = i - 1, s = 'abc' WHERE id BETWEEN 400 AND 404 OR id = 3000");
            root.ok("DELETE FROM r WHERE id BETWEEN 1900 AND 2100");
            engine.flush_all().expect("flushes");
            root.ok("UPDATE r SET m = 3, d = NULL WHERE id BETWEEN 402 AND 410");
            root.ok("DELETE FROM r WHERE id IN (0, 3333, 3999)");
        }
    }
}

/// An exact number.
fn number(dice: &mut Dice, depth: usize) -> String {
    if depth == 0 {
        let columns = ["i", "b", "u", "big", "m", "w", "late", "id"];
        return match dice.below(4) {
            0 => dice
                .of(&["0", "1", "-3", "2.5", "100", "0.001", "NULL"])
                .to_owned(),
            1 => dice.of(&["m", "i", "u"]).to_owned(),
            _ => dice.of(&columns).to_owned(),
        };
    }
    let mut next = || number(dice, depth - 1);
    let (a, b) = (next(), next());
    match dice.below(10) {
        0 => format!("-({a})"),
        1 => format!(
            "CASE WHEN {} THEN {a} ELSE {b} END",
            condition(dice, depth - 1)
        ),
        2 => format!("COALESCE({a}, {b})"),
        3 => format!("NULLIF({a}, {b})"),
        4 => format!("IF({}, {a}, 0)", condition(dice, depth - 1)),
        5 => format!("({})", condition(dice, depth - 1)),
        6 => format!(
            "{}({})",
            dice.of(&["LENGTH", "CHAR_LENGTH"]),
            dice.of(&["s", "c", "word"])
        ),
        _ => format!("({a} {} {b})", dice.of(&["+", "-", "*", "%", "DIV"])),
    }
}

fn condition(dice: &mut Dice, depth: usize) -> String {
    let comparison = dice.of(&["=", "<>", "<", "<=", ">", ">=", "<=>"]);
    if depth > 0 && dice.below(3) == 0 {
        let (a, b) = (condition(dice, depth - 1), condition(dice, depth - 1));
        return match dice.below(6) {
            0 => format!("NOT ({a})"),
            1 => format!("(({a}) XOR ({b}))"),
            2 => format!(
                "({a}) IS {}",
                dice.of(&["TRUE", "NOT TRUE", "FALSE", "UNKNOWN"])
            ),
            3 => format!("(({a}) AND ({b}))"),
            _ => format!("(({a}) OR ({b}))"),
        };
    }
    let less = depth.saturating_sub(1);
    match dice.below(10) {
        0 => format!(
            "{} IS {} NULL",
            dice.of(&["i", "s", "d", "x", "late", "word"]),
            dice.of(&["", "NOT"])
        ),
        1 => format!("{} {comparison} '2024-02-29'", dice.of(&["d", "t"])),
        2 => format!(
            "d {comparison} {}",
            dice.of(&["t", "d", "DATE'1999-12-31'"])
        ),
        3 => format!(
            "{} {comparison} '{}'",
            dice.of(&["s", "c", "word"]),
            dice.of(&["abc", "A", "late", "STRASSE"])
        ),
        4 => format!(
            "s {} LIKE '{}'",
            dice.of(&["", "NOT"]),
            dice.of(&["a%", "%C%", "_"])
        ),
        5 => format!(
            "s {} IN ('ABC', 'zeta', {})",
            dice.of(&["", "NOT"]),
            dice.of(&["'x'", "NULL"])
        ),
        6 => format!(
            "{} {} IN (1, 7, {})",
            dice.of(&["i", "m", "late", "u"]),
            dice.of(&["", "NOT"]),
            dice.of(&["100", "1.50", "NULL"])
        ),
        7 => format!(
            "{} {} BETWEEN {} AND {}",
            number(dice, less),
            dice.of(&["", "NOT"]),
            number(dice, 0),
            number(dice, 0)
        ),
        8 => format!("o {comparison} '-12:30:00'"),
        _ => format!("{} {comparison} {}", number(dice, less), number(dice, less)),
    }
}

fn query(dice: &mut Dice) -> String {
    let filter = match dice.below(4) {
        0 => String::new(),
        1 => format!(" WHERE {} AND {}", condition(dice, 1), condition(dice, 1)),
        _ => format!(" WHERE {}", condition(dice, 2)),
    };
    if dice.below(6) == 0 {
        let what = dice.of(&[
            "id, s",
            "DISTINCT i, word",
            "COUNT(DISTINCT i), SUM(x)",
            "id, m, d",
        ]);
        return format!("SELECT {what} FROM r{filter} ORDER BY 1, 2 LIMIT 50");
    }
    let mut columns = vec!["COUNT(*)".to_owned()];
    let keys = match dice.below(3) {
        0 => String::new(),
        n => {
            let all = [
                "s",
                "c",
                "i",
                "word",
                "late",
                "d",
                "YEAR(d)",
                "UPPER(s)",
                "m",
                "t",
                "x",
                "u % 3",
                "i % 5",
                "b DIV 7",
                "i + late",
                "LENGTH(s)",
            ];
            (0..n).map(|_| dice.of(&all)).collect::<Vec<_>>().join(", ")
        }
    };
    for _ in 0..1 + dice.below(4) {
        let of = dice.of(&["SUM", "SUM", "AVG", "MIN", "MAX", "COUNT"]);
        let what = match of {
            "MIN" | "MAX" | "COUNT" if dice.below(2) == 0 => {
                dice.of(&["d", "t", "o", "s", "big"]).to_owned()
            }
            _ => number(dice, 2),
        };
        columns.push(format!("{of}({what})"));
    }
    let group = if keys.is_empty() {
        String::new()
    } else {
        format!(" GROUP BY {keys}")
    };
    if keys.is_empty() {
        format!("SELECT {} FROM r{filter}", columns.join(", "))
    } else {
        format!(
            "SELECT {keys}, {} FROM r{filter}{group}",
            columns.join(", ")
        )
    }
}

fn with_warnings(
    root: &mut Client,
    ask: fn(&mut Client, &str) -> Answer,
    sql: &str,
) -> (Answer, Vec<String>) {
    let answer = ask(root, sql);
    (answer, root.ok("SHOW WARNINGS"))
}

/// Rows that were judged in batches: none where an index leads to the first rows of groups.
fn in_batches(root: &mut Client, sql: &str) -> u32 {
    let shown = root
        .parallel(&format!("EXPLAIN ANALYZE {sql}"))
        .expect("it can be explained");
    let Some((_, rest)) = shown[0].split_once("rows in batches=") else {
        return 0;
    };
    let digits = rest
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(rest.len());
    rest[..digits].parse().expect("a number")
}

#[test]
fn random_questions_have_the_answers_of_the_row_way() {
    let machine = SimEnv::new(21);
    let (root, engine) = table(&machine);
    let root = RefCell::new(root);
    let answered = Cell::new(0);
    let config = ProptestConfig {
        cases: 350,
        failure_persistence: None,
        ..ProptestConfig::default()
    };
    for place in PLACES {
        bring(&mut root.borrow_mut(), &engine, place);
        answered.set(0);
        let mut runner = TestRunner::new_with_rng(
            config.clone(),
            TestRng::deterministic_rng(RngAlgorithm::ChaCha),
        );
        let result = runner.run(&any::<u64>(), |seed| {
            let sql = query(&mut Dice(seed));
            let mut root = root.borrow_mut();
            let parallel = with_warnings(&mut root, Client::parallel, &sql);
            let serial = with_warnings(&mut root, Client::serial, &sql);
            answered.set(answered.get() + u32::from(parallel.0.is_ok()));
            prop_assert_eq!(parallel, serial, "{:?}: {}", place, sql);
            Ok(())
        });
        result.expect("the answers are the same");
        assert!(answered.get() > 100, "{place:?}: errors are the exception");
    }
}

#[test]
fn what_is_understood_is_done_in_batches() {
    let machine = SimEnv::new(22);
    let (mut root, engine) = table(&machine);
    root.ok("DELETE FROM r WHERE id BETWEEN 1000 AND 1099");
    let rows = ROWS - 100;
    let understood = [
        "SELECT s, c, COUNT(*), SUM(m), AVG(m), MIN(d), MAX(t) FROM r WHERE d <= '2024-02-29' GROUP BY s, c",
        "SELECT SUM(m * (1 - m)), SUM(m * (1 - m) * (i + 2)), COUNT(s) FROM r WHERE i IN (1, 7) OR late = 4",
        "SELECT SUM(CASE WHEN s = 'abc' THEN m ELSE 0 END) FROM r WHERE word = 'late'",
        "SELECT YEAR(d), COUNT(*) FROM r WHERE s LIKE 'A%' AND o < '10:00:00' GROUP BY YEAR(d)",
        "SELECT MIN(i), MAX(w), SUM(late) FROM r",
        "SELECT SUM(LENGTH(s)), SUM(CHAR_LENGTH(word)), COUNT(*) FROM r WHERE u % 3 = 1",
        "SELECT id % 100, i DIV 10, COUNT(*), SUM(u) FROM r GROUP BY id % 100, i DIV 10",
        // Only the conditions.
        "SELECT COUNT(DISTINCT i) FROM r WHERE i > 0",
        "SELECT id, s FROM r WHERE m = 1.5 ORDER BY s, id LIMIT 5",
        "SELECT a.s, SUM(b.m) FROM r a JOIN r b ON b.id = a.u WHERE a.i > 0 GROUP BY a.s",
    ];
    for place in [Place::Written, Place::Settled] {
        bring(&mut root, &engine, place);
        for sql in understood {
            assert_eq!(in_batches(&mut root, sql), rows, "{place:?}: {sql}");
            root.same(sql);
        }
    }
    for sql in [
        "SELECT SUM(x) FROM r",
        "SELECT STDDEV(i) FROM r",
        "SELECT COUNT(DISTINCT i) FROM r",
        "SELECT SUM(i) FROM r WHERE x > i",
    ] {
        assert_eq!(in_batches(&mut root, sql), 0, "{sql}");
        root.same(sql);
    }
}

/// Indexes, and what can be asked of their entries: numbers, and anything else.
const INDEXES: [(&str, &str, &[&str], &[&str]); 5] = [
    ("by_i", "KEY by_i (i, m)", &["i", "m", "id"], &["m"]),
    (
        "by_d",
        "KEY by_d (d DESC, o, u DESC)",
        &["u", "id"],
        &["d", "o"],
    ),
    // Entries with NULL are keys alone, the others have the clustered key as their value.
    (
        "by_late",
        "UNIQUE KEY by_late (late, id)",
        &["late", "id"],
        &["late"],
    ),
    // `s` cannot be read from an entry, but what is behind it can.
    (
        "by_s",
        "KEY by_s (s, b DESC, m DESC)",
        &["b", "m", "id"],
        &["m"],
    ),
    ("by_x", "KEY by_x (x, t, u)", &["u", "id"], &["x", "t"]),
];

fn entry_query(dice: &mut Dice) -> String {
    let (name, _, numbers, others) = INDEXES[dice.below(INDEXES.len())];
    let (a, b, other) = (dice.of(numbers), dice.of(numbers), dice.of(others));
    let condition = match dice.below(5) {
        0 => format!("{a} > {}", dice.of(&["0", "-3", "12.5"])),
        1 => format!("{a} % 7 <> {b} % 3"),
        2 => format!("{other} IS NOT NULL AND {b} < 100"),
        3 => format!(
            "{other} > {}",
            dice.of(&["0", "'1999-12-31'", "'00:00:00'"])
        ),
        _ => "1".to_owned(),
    };
    let values = format!("COUNT(*), SUM({a}), MIN({b}), MAX({other}), COUNT({other})");
    let from = format!("FROM r FORCE INDEX ({name}) WHERE {condition}");
    match dice.below(4) {
        0 => format!("SELECT {values} {from}"),
        // A condition that only evaluation a row at a time understands is left for those that have passed the others.
        3 => format!("SELECT DISTINCT {a}, {other} {from} AND CONCAT({a}, '-', {b}) > '2'"),
        1 => format!("SELECT {other}, {values} {from} GROUP BY {other}"),
        _ => format!("SELECT {a} % 10, {values} {from} GROUP BY {a} % 10"),
    }
}

#[test]
fn entries_of_indexes_have_the_answers_of_the_row_way() {
    let machine = SimEnv::new(25);
    let (mut root, engine) = table(&machine);
    for (_, definition, ..) in INDEXES {
        root.ok(&format!("ALTER TABLE r ADD {definition}"));
    }
    for place in PLACES {
        bring(&mut root, &engine, place);
        let mut batched = 0;
        for seed in 0..150 {
            let sql = entry_query(&mut Dice(seed));
            let parallel = with_warnings(&mut root, Client::parallel, &sql);
            let serial = with_warnings(&mut root, Client::serial, &sql);
            assert_eq!(parallel, serial, "{place:?}: {sql}");
            batched += u32::from(parallel.0.is_ok() && in_batches(&mut root, &sql) > 0);
        }
        assert!(batched > 100, "{batched}");
    }
    root.ok("DELETE FROM r WHERE id BETWEEN 1000 AND 1099");
    let rows = root.ok("SELECT COUNT(*) FROM r")[0].clone();
    bring(&mut root, &engine, Place::Settled);
    for (name, _, numbers, _) in INDEXES {
        let sql = format!("SELECT SUM({}) FROM r FORCE INDEX ({name})", numbers[0]);
        let done = in_batches(&mut root, &sql);
        assert_eq!(format!("{done}|"), rows, "{sql}");
    }
}

/// A table without a primary key, whose index entries end with a row id.
#[test]
fn entries_may_end_with_a_row_id() {
    let machine = SimEnv::new(26);
    let (mut root, _) = table(&machine);
    root.ok("CREATE TABLE n (a INT NOT NULL, b INT, KEY by_b (b))");
    root.ok("INSERT INTO n SELECT id, i FROM r");
    let sql = "SELECT COUNT(*), SUM(b), MIN(b) FROM n FORCE INDEX (by_b) WHERE b <> 7";
    assert_eq!(root.parallel(sql), root.serial(sql));
    assert!(in_batches(&mut root, sql) > ROWS / 2);
}

#[test]
fn only_unusual_batches_go_the_row_way() {
    let machine = SimEnv::new(23);
    let (mut root, _) = table(&machine);
    let sum = "SELECT SUM(big), SUM(b), COUNT(*) FROM r";
    let done = in_batches(&mut root, sum);
    assert!((ROWS - 2 * 512..ROWS).contains(&done), "{done}");
    root.same(sum);
    // Sums that only evaluation a row at a time can hold, and those of the rest, come together.
    let products = "SELECT s, SUM(w * w), MAX(w), COUNT(*) FROM r GROUP BY s";
    let done = in_batches(&mut root, products);
    assert!(done > 0 && done < ROWS, "{done}");
    root.same(products);
    // Every batch: rows are evaluated one at a time without trying.
    root.ok("UPDATE r SET big = 18446744073709551615");
    assert_eq!(in_batches(&mut root, sum), 0);
    root.same(sum);
}

#[test]
fn warnings_and_errors_are_those_of_the_row_way() {
    let machine = SimEnv::new(24);
    let (mut root, _) = table(&machine);
    for sql in [
        // Texts that are no numbers.
        "SELECT COUNT(*) FROM r WHERE s > 5",
        "SELECT SUM(CAST(s AS SIGNED)) FROM r WHERE id < 300",
        "SELECT c, COUNT(*) FROM r GROUP BY c, s + 0",
        // 1690 for a row of the wild ones, and for a difference below zero.
        "SELECT SUM(b * b) FROM r",
        "SELECT SUM(u - 60) FROM r",
        "SELECT COUNT(*) FROM r WHERE i > 7 OR b + b > 0",
        "SELECT SUM(u - 60) FROM r WHERE id < 0",
    ] {
        let parallel = with_warnings(&mut root, Client::parallel, sql);
        let serial = with_warnings(&mut root, Client::serial, sql);
        assert_eq!(parallel, serial, "{sql}");
    }
    assert_eq!(root.parallel("SELECT SUM(b * b) FROM r"), Err(1690));
    assert!(
        !with_warnings(
            &mut root,
            Client::parallel,
            "SELECT COUNT(*) FROM r WHERE s > 5"
        )
        .1
        .is_empty()
    );
}

/// A transaction of an older snapshot, and one with changes of its own, ask about rows that have settled since.
#[test]
fn what_is_not_seen_is_in_no_batch() {
    let machine = SimEnv::new(27);
    let instance = open(&machine, &[]);
    let engine = instance.engine().clone();
    let [mut root, mut other] = [1, 2].map(|id| Client::new(&instance, id));
    root.ok("CREATE DATABASE d");
    for client in [&mut root, &mut other] {
        client.ok("USE d");
    }
    root.ok("CREATE TABLE r (id INT PRIMARY KEY, i INT, KEY by_i (i DESC, id))");
    let rows: Vec<String> = (0..ROWS).map(|id| format!("({id}, {})", id % 9)).collect();
    root.ok(&format!("INSERT INTO r VALUES {}", rows.join(",")));
    bring(&mut root, &engine, Place::Settled);
    let questions = [
        "SELECT COUNT(*), SUM(i), MAX(id) FROM r FORCE INDEX (PRIMARY)",
        "SELECT i, COUNT(*), SUM(id) FROM r FORCE INDEX (by_i) GROUP BY i ORDER BY i",
        "SELECT i % 4, COUNT(*), MIN(id) FROM r FORCE INDEX (PRIMARY) GROUP BY i % 4 ORDER BY 1",
    ];
    root.ok("BEGIN");
    let answers = questions.map(|sql| root.parallel(sql));
    other.ok("UPDATE r SET i = i + 100 WHERE id % 3 = 0");
    other.ok("DELETE FROM r WHERE id BETWEEN 3000 AND 3500");
    let rows: Vec<String> = (ROWS..2 * ROWS).map(|id| format!("({id}, 7)")).collect();
    other.ok(&format!("INSERT INTO r VALUES {}", rows.join(",")));
    // Versions that only one of them sees, in one extent, then without those that nobody sees.
    for _ in 0..2 {
        bring(&mut other, &engine, Place::Settled);
        for (sql, answer) in questions.iter().zip(&answers) {
            assert_eq!(&root.parallel(sql), answer, "{sql}");
            root.same(sql);
            assert_ne!(&other.parallel(sql), answer, "{sql}");
            other.same(sql);
        }
    }
    root.ok("COMMIT");
    bring(&mut other, &engine, Place::Settled);
    root.ok("BEGIN");
    root.ok("UPDATE r SET i = -5 WHERE id BETWEEN 5000 AND 5010");
    root.ok("DELETE FROM r WHERE id BETWEEN 6000 AND 6500");
    for sql in questions {
        root.same(sql);
        other.same(sql);
        assert_ne!(root.parallel(sql), other.parallel(sql), "{sql}");
    }
}
