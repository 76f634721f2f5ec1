//! Fields of every width and place, as they are stored in rows and entries, and damaged ones.

use crate::common::ask::Client;
use crate::common::open;
use esker_engine::Isolation;
use esker_vfs::sim::SimEnv;

use super::{Dice, Place, bring, in_batches};

/// Types of numbers of every width, and values: the smallest and largest ones, or what is special.
const WIDTHS: [(&str, &str, [&str; 4]); 18] = [
    ("t1", "TINYINT", ["-128", "127", "-1", "5"]),
    ("t1u", "TINYINT UNSIGNED", ["0", "255", "128", "5"]),
    ("t2", "SMALLINT", ["-32768", "32767", "-1", "300"]),
    ("t2u", "SMALLINT UNSIGNED", ["0", "65535", "32768", "300"]),
    ("t3", "MEDIUMINT", ["-8388608", "8388607", "-1", "70000"]),
    (
        "t3u",
        "MEDIUMINT UNSIGNED",
        ["0", "16777215", "8388608", "70000"],
    ),
    ("t4", "INT", ["-2147483648", "2147483647", "-1", "0"]),
    (
        "t4u",
        "INT UNSIGNED",
        ["0", "4294967295", "2147483648", "7"],
    ),
    (
        "t8",
        "BIGINT",
        ["-9223372036854775808", "9223372036854775807", "-1", "0"],
    ),
    (
        "t8u",
        "BIGINT UNSIGNED",
        ["0", "9223372036854775807", "1024", "1"],
    ),
    (
        "wide",
        "BIGINT UNSIGNED",
        ["0", "18446744073709551615", "9223372036854775808", "1"],
    ),
    ("y", "YEAR", ["1901", "2155", "0", "2024"]),
    (
        "m9",
        "DECIMAL(9,4)",
        ["-99999.9999", "99999.9999", "-0.0001", "12.5"],
    ),
    (
        "m18",
        "DECIMAL(18,0)",
        ["-999999999999999999", "999999999999999999", "-1", "0"],
    ),
    (
        "da",
        "DATE",
        [
            "'1000-01-01'",
            "'9999-12-31'",
            "'0000-00-00'",
            "'2024-02-29'",
        ],
    ),
    (
        "ti",
        "TIME(3)",
        [
            "'-838:59:59'",
            "'838:59:59'",
            "'-00:00:00.001'",
            "'12:00:00'",
        ],
    ),
    (
        "mo",
        "DATETIME(6)",
        [
            "'1000-01-01'",
            "'9999-12-31 23:59:59.999999'",
            "'0000-00-00'",
            "'2024-02-29 12:00:00.000001'",
        ],
    ),
    (
        "bi",
        "BIT(13)",
        ["b'0'", "b'1111111111111'", "b'1'", "b'101'"],
    ),
];

#[test]
fn numbers_of_every_width_are_read_from_rows_and_entries() {
    let machine = SimEnv::new(28);
    let instance = open(&machine, &[]);
    let engine = instance.engine().clone();
    let mut root = Client::new(&instance, 1);
    root.ok("CREATE DATABASE d");
    root.ok("USE d");
    root.ok("SET sql_mode = ''");
    for null in ["NULL", "NOT NULL"] {
        let columns = WIDTHS.map(|(name, ty, _)| format!("{name} {ty} {null}"));
        let keys = WIDTHS.map(|(name, ..)| {
            format!("KEY up_{name} ({name}), KEY down_{name} ({name} DESC, id DESC)")
        });
        root.ok("DROP TABLE IF EXISTS r");
        root.ok(&format!(
            "CREATE TABLE r (id INT PRIMARY KEY, {}, {})",
            columns.join(", "),
            keys.join(", ")
        ));
        let mut dice = Dice(5);
        let rows: Vec<String> = (0..900)
            .map(|id| {
                let values = WIDTHS.map(|(.., values)| match dice.below(5) {
                    4 if null == "NULL" => "NULL",
                    n => values[n % 4],
                });
                format!("({id}, {})", values.join(", "))
            })
            .collect();
        root.ok(&format!("INSERT INTO r VALUES {}", rows.join(",")));
        bring(&mut root, &engine, Place::Settled);
        for (name, _, values) in WIDTHS {
            let hints = [
                "PRIMARY".to_owned(),
                format!("up_{name}"),
                format!("down_{name}"),
            ];
            for hint in hints {
                let from = format!("FROM r FORCE INDEX ({hint})");
                let extremes = format!("COUNT({name}), MIN({name}), MAX({name})");
                root.same(&format!("SELECT COUNT(*), {extremes} {from}"));
                root.same(&format!("SELECT SUM({name} DIV 3), AVG({name}) {from}"));
                root.same(&format!("SELECT {name}, SUM(id) {from} GROUP BY {name}"));
                root.same(&format!(
                    "SELECT {name} % 1024, SUM(id) {from} GROUP BY {name} % 1024"
                ));
                root.same(&format!(
                    "SELECT COALESCE({name}, 0), SUM(id) {from} GROUP BY 1"
                ));
                for value in values {
                    root.same(&format!(
                        "SELECT SUM(id), {extremes} {from} WHERE {name} > {value}"
                    ));
                    root.same(&format!(
                        "SELECT SUM(id), COUNT(*) {from} WHERE {name} = {value}"
                    ));
                }
                root.same(&format!(
                    "SELECT SUM(id), COUNT(*) {from} WHERE {name} IS NULL"
                ));
                let sum = format!("SELECT MIN({name}), SUM(id) {from} WHERE id >= 0");
                if name != "wide" {
                    assert_eq!(in_batches(&mut root, &sum), 900, "{sum}");
                }
            }
        }
    }
}

/// Rows of all sizes: several in a block, some that are not copied, one in a block of its own, and with wide offsets.
#[test]
fn long_rows_lie_between_short_ones() {
    let machine = SimEnv::new(29);
    let instance = open(&machine, &[]);
    let engine = instance.engine().clone();
    let mut root = Client::new(&instance, 1);
    root.ok("CREATE DATABASE d");
    root.ok("USE d");
    root.ok(
        "CREATE TABLE r (id INT PRIMARY KEY, i INT, x LONGTEXT, s VARCHAR(9), gone INT, z TEXT)",
    );
    let mut lengths = Vec::new();
    for id in 0..3000 {
        let length = match id % 500 {
            100 | 101 => 70_000,
            200 => 20_000,
            300..303 => 5_000,
            n if n < 400 => n % 3,
            n => n * 2,
        };
        lengths.push(format!(
            "({id}, {}, REPEAT('a', {length}), '{}', 1, IF({id} % 4 = 0, NULL, ''))",
            id % 6,
            ["", "b", "cc"][id % 3]
        ));
    }
    root.ok(&format!("INSERT INTO r VALUES {}", lengths.join(",")));
    root.ok("ALTER TABLE r DROP COLUMN gone, ALGORITHM=INSTANT");
    root.ok("ALTER TABLE r ADD COLUMN late VARCHAR(9) DEFAULT 'dd', ALGORITHM=INSTANT");
    root.ok("UPDATE r SET late = 'e' WHERE id % 50 IN (7, 8)");
    for place in [Place::Written, Place::Settled] {
        bring(&mut root, &engine, place);
        for sql in [
            "SELECT COUNT(*), SUM(i), COUNT(z), SUM(LENGTH(x)), MAX(LENGTH(x)) FROM r",
            "SELECT s, late, COUNT(*), SUM(id), SUM(LENGTH(z)) FROM r GROUP BY s, late",
            "SELECT LENGTH(x), COUNT(*), MIN(id) FROM r WHERE i <> 3 GROUP BY LENGTH(x)",
            "SELECT COUNT(*), SUM(id) FROM r WHERE s = 'cc' AND late <> 'dd'",
            "SELECT id, s, late, LENGTH(x) FROM r WHERE i = 2 AND z IS NULL",
        ] {
            root.same(sql);
            assert!(in_batches(&mut root, sql) > 2000, "{place:?}: {sql}");
        }
    }
}

/// Where a damaged row is found to be so, it is by both ways.
#[test]
fn damaged_rows_are_errors() {
    let machine = SimEnv::new(30);
    let instance = open(&machine, &[]);
    let engine = instance.engine().clone();
    let mut root = Client::new(&instance, 1);
    root.ok("CREATE DATABASE d");
    root.ok("USE d");
    let before = engine.tree_ids();
    root.ok("CREATE TABLE r (id INT PRIMARY KEY, i INT, s VARCHAR(9), t VARCHAR(9))");
    let tree = engine
        .tree_ids()
        .into_iter()
        .find(|id| !before.contains(id));
    let rows: Vec<String> = (0..1000)
        .map(|id| format!("({id}, {id}, 'abc', 'de')"))
        .collect();
    root.ok(&format!("INSERT INTO r VALUES {}", rows.join(",")));
    let tree = engine
        .tree(tree.expect("it was made"))
        .expect("it is there");
    let key = 500u32 ^ 1 << 31;
    // Of no version; without flags; cut in the fixed fields, in the ends, in the text; ends that lie outside, or
    // backwards.
    let whole = [
        0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 5, 0, b'a', b'b', b'c', b'd', b'e',
    ];
    let patched = |at: usize, byte: u8| {
        let mut row = whole.to_vec();
        row[at] = byte;
        row
    };
    let cut = [0, 1, 2, 5, 9, 12, 14, 16].map(|length| whole[..length].to_vec());
    let bad = [
        patched(0, 9),
        patched(1, 1),
        patched(13, 200),
        patched(11, 200),
        patched(11, 6),
    ];
    let sql = "SELECT SUM(LENGTH(t)), SUM(i), SUM(LENGTH(s)), COUNT(*) FROM r WHERE i >= 0";
    for (nth, row) in cut.iter().chain(&bad).chain([&whole.to_vec()]).enumerate() {
        let mut txn = engine.begin(Isolation::RepeatableRead);
        txn.put(&tree, &key.to_be_bytes(), row).expect("puts");
        let _ = txn.commit().expect("commits");
        bring(&mut root, &engine, Place::Settled);
        let is_whole = nth == cut.len() + bad.len();
        assert_eq!(root.parallel(sql).is_ok(), is_whole, "{row:?}");
        root.same(sql);
    }
    assert_eq!(in_batches(&mut root, sql), 1000);
}
