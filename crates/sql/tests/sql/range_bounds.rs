//! Range scans read no more than the rows that match, whatever the types of column and constant.
//!
//! Every comparison is made once over the index and once over the whole table: the rows are the same, and the session's
//! `Handler_read_…` count at most [`SLACK`] more of them (a bound that is not exact in the column's type is rounded
//! outward by one step). The value stands in the statement, in a user variable, and in a parameter.

use crate::common::ask::Client;
use crate::common::open;
use esker_vfs::sim::SimEnv;

/// Entries beside the matching ones that a range may hold, one at each end, and the call that finds its end.
const SLACK: usize = 3;

/// A column: its type, an expression of `n` for its values (0 to [`ROWS`] - 1), constants to compare it with.
struct Case {
    ty: &'static str,
    value: &'static str,
    constants: &'static [&'static str],
}

impl Case {
    /// Is a user variable with this value compared in the order of the column's values? As in MySQL a TIME is compared
    /// with the text of one, a date with its number, a FLOAT(M,D) as a decimal, and latin1 as utf8mb4.
    fn takes_variable(&self, constant: &str) -> bool {
        let is_number = constant.bytes().all(|b| b.is_ascii_digit());
        match self.ty {
            "DATE" | "DATETIME(3)" | "DATETIME(6)" | "TIMESTAMP" => !is_number,
            "TIME" | "TIME(6)" | "FLOAT(8,2)" | "VARCHAR(20) CHARSET latin1" => false,
            _ => true,
        }
    }
}

const ROWS: usize = 300;

const NUMBERS: &[&str] = &[
    "0",
    "-10.5",
    "30.45",
    "-0.15",
    "3.045e1",
    "-1.5e-1",
    "1e1",
    "30.449999999999999",
    "0.150000001",
    "1e30",
    "-1e30",
    "9007199254740993",
    "9007199254740993e0",
    "18446744073709551615",
    "-9007199254740990.5",
    "'30.45'",
    "'10'",
    "CAST('30.45' AS DECIMAL(10,2))",
    "127",
    "-129",
    "b'1010'",
];

/// Beside a FLOAT(M,D): other constants are compared as decimals of what the column shows, without its order.
const FIXED_NUMBERS: &[&str] = &[
    "0", "-10.5", "30.45", "-0.15", "'30.45'", "'10'", "127", "-129", "b'1010'",
];

const MOMENTS: &[&str] = &[
    "'2020-01-15'",
    "'2020-01-15 12:30:00.5'",
    "'2020-1-2'",
    "20200115",
    "DATE'2020-01-15'",
    "TIMESTAMP'2020-01-15 12:00:00'",
];

const CASES: &[Case] = &[
    Case {
        ty: "TINYINT",
        value: "n - 128",
        constants: NUMBERS,
    },
    Case {
        ty: "SMALLINT UNSIGNED",
        value: "n * 7",
        constants: NUMBERS,
    },
    Case {
        ty: "MEDIUMINT",
        value: "n * 7 - 700",
        constants: NUMBERS,
    },
    Case {
        ty: "INT",
        value: "n * 7 - 700",
        constants: NUMBERS,
    },
    Case {
        ty: "BIGINT",
        value: "9007199254740992 + n - 200",
        constants: &["9007199254740992", "9007199254740993.5", "1e30", "'7'"],
    },
    Case {
        ty: "BIGINT UNSIGNED",
        value: "18446744073709551615 - n",
        constants: &[
            "18446744073709551615",
            "-1",
            "-1e30",
            "18446744073709551400.5",
        ],
    },
    Case {
        ty: "DECIMAL(12,2)",
        value: "n * 0.15 - 30",
        constants: NUMBERS,
    },
    Case {
        ty: "DECIMAL(40,10)",
        value: "n * 0.15 - 30",
        constants: NUMBERS,
    },
    Case {
        ty: "DECIMAL(8,3) UNSIGNED",
        value: "n * 0.15",
        constants: NUMBERS,
    },
    Case {
        ty: "FLOAT",
        value: "n * 0.15 - 30",
        constants: NUMBERS,
    },
    Case {
        ty: "FLOAT(8,2)",
        value: "n * 0.15 - 30",
        constants: FIXED_NUMBERS,
    },
    Case {
        ty: "DOUBLE",
        value: "n * 0.15 - 30",
        constants: NUMBERS,
    },
    Case {
        ty: "DATE",
        value: "DATE'2020-01-01' + INTERVAL n DAY",
        constants: MOMENTS,
    },
    Case {
        ty: "DATETIME(3)",
        value: "TIMESTAMP'2020-01-01 00:00:00' + INTERVAL n HOUR",
        constants: MOMENTS,
    },
    Case {
        ty: "DATETIME(6)",
        value: "TIMESTAMP'2020-01-01 00:00:00.25' + INTERVAL n HOUR",
        constants: MOMENTS,
    },
    Case {
        ty: "TIMESTAMP",
        value: "TIMESTAMP'2020-01-01 00:00:00' + INTERVAL n HOUR",
        constants: MOMENTS,
    },
    Case {
        ty: "TIME",
        value: "SEC_TO_TIME(n * 60 - 9000)",
        constants: &["'01:00:00'", "TIME'01:00:00.5'", "10000", "'-00:30:00'"],
    },
    Case {
        ty: "TIME(6)",
        value: "SEC_TO_TIME(n * 60.25 - 9000)",
        constants: &["'01:00:00'", "TIME'01:00:00.5'", "10000", "'-00:30:00'"],
    },
    Case {
        ty: "YEAR",
        value: "1901 + n % 250",
        constants: &["2000", "1999.5", "'2000'", "1e3"],
    },
    Case {
        ty: "BIT(12)",
        value: "n",
        constants: &["10", "10.5", "b'1010'", "1e30", "-1"],
    },
    Case {
        ty: "BIT(64)",
        value: "18446744073709551615 - n",
        constants: &[
            "10",
            "18446744073709551500",
            "18446744073709551500.5",
            "-1",
            "1e30",
        ],
    },
    Case {
        ty: "VARCHAR(20)",
        value: TEXTS,
        constants: STRINGS,
    },
    Case {
        ty: "VARCHAR(20) COLLATE utf8mb4_bin",
        value: TEXTS,
        constants: STRINGS,
    },
    Case {
        ty: "CHAR(20) COLLATE utf8mb4_general_ci",
        value: TEXTS,
        constants: STRINGS,
    },
    Case {
        ty: "VARCHAR(20) CHARSET latin1",
        value: TEXTS,
        constants: STRINGS,
    },
    Case {
        ty: "BINARY(8)",
        value: TEXTS,
        constants: STRINGS,
    },
    Case {
        ty: "TEXT",
        value: TEXTS,
        constants: STRINGS,
    },
    Case {
        ty: "VARBINARY(20)",
        value: TEXTS,
        constants: STRINGS,
    },
    Case {
        ty: "ENUM('a','b','c','d','e','f')",
        value: "n % 6 + 1",
        constants: &["3", "3.5", "-1", "0", "7", "2e0"],
    },
    Case {
        ty: "SET('a','b','c','d','e','f')",
        value: "n % 64",
        constants: &["3", "3.5", "-1", "0", "64", "2e0", "1e30"],
    },
];

/// Columns of labels, by whose texts nothing but equal ones are found.
const LABELS: &[Case] = &[
    Case {
        ty: "ENUM('a','b','c','d','e','f')",
        value: "n % 7",
        constants: LABEL_TEXTS,
    },
    Case {
        ty: "ENUM('a','B','b','A') COLLATE utf8mb4_bin",
        value: "n % 4 + 1",
        constants: LABEL_TEXTS,
    },
    Case {
        ty: "SET('a','b','c','d','e','f')",
        value: "n % 64",
        constants: LABEL_TEXTS,
    },
    Case {
        ty: "SET('a','B','b','A') COLLATE utf8mb4_bin",
        value: "n % 16",
        constants: LABEL_TEXTS,
    },
];
const LABEL_TEXTS: &[&str] = &[
    "'a'",
    "'B'",
    "'b,a'",
    "'a,b'",
    "'A,B'",
    "'a,b,c,d,e,f'",
    "'a,'",
    "',a'",
    "'none'",
    "''",
    "' '",
    "'a '",
    "'3'",
];
const EQUALITIES: &[&str] = &["p = #", "# <=> p", "p IN (#, 'c')"];

const TEXTS: &str = "CONCAT('k', LPAD(n, 5, '0'))";
const STRINGS: &[&str] = &["'k00100'", "'K00100'", "'k'", "'z'", "'k00100 '", "''"];

/// Conditions on the table of two columns, `a` (0 to 9) and `s` (texts), with an index over both.
const PAIRS: &[&str] = &[
    "(a, s) = (4, 'k00124')",
    "(a, s) > (4, 'k00124')",
    "(a, s) >= (4, 'k00124')",
    "(a, s) < (4, 'k00124')",
    "(a, s) <= (4.5, 'k00124')",
    "(a, s) > (8.5, 'x')",
    "(a, s) IN ((4, 'k00124'), (5, 'k00125'), (6, 'none'))",
    "a = 4 AND s LIKE 'k0012%'",
    "a = 4 AND s LIKE 'K0012_'",
    "a IN (1, 3) AND s LIKE 'k000%'",
    "a = 4 AND s BETWEEN 'k0012' AND 'k0013'",
    "a = '4' AND s > 'k00250'",
    "a = 4 AND s IN ('k00124', 'k00134', 'no')",
    "a <=> NULL",
    "a = 10",
    "a > 8 AND a < 9",
    "NOT (a <> 4 OR s < 'k00250')",
    "NOT (a < 9 OR NOT (s > 'k00150' AND a = 9))",
];

#[test]
fn ranges_of_two_parts_are_tight() {
    let machine = SimEnv::new(2);
    let instance = open(&machine, &[]);
    let mut root = Client::new(&instance, 1);
    root.ok("CREATE DATABASE bounds");
    root.ok("USE bounds");
    root.ok("CREATE TABLE t (id INT PRIMARY KEY, q INT, a TINYINT, s VARCHAR(20), KEY up (a, s), KEY down (a DESC, s DESC))");
    root.ok(&format!(
        "INSERT INTO t WITH RECURSIVE s AS (SELECT 0 n UNION ALL SELECT n + 1 FROM s WHERE n + 1 < {ROWS}) \
         SELECT n, n, n % 10, {TEXTS} FROM s"
    ));
    for cond in PAIRS {
        for index in ["up", "down"] {
            check(&mut root, "(TINYINT, VARCHAR)", index, cond);
        }
    }
}

const COMPARISONS: &[&str] = &[
    "p = #",
    "p <=> #",
    "p < #",
    "p <= #",
    "p > #",
    "# <= p",
    "p BETWEEN # AND #",
    "p IN (#, #)",
];

/// Comparisons with a value that is not in the statement, and the index that is used.
const GIVEN: &[(&str, &str)] = &[
    ("p = #", "up"),
    ("p < #", "down"),
    ("p BETWEEN # AND #", "up"),
];

/// Rows that have been read since the session's counters were set to zero.
fn rows_read(root: &mut Client) -> usize {
    let counters = root.ok("SHOW SESSION STATUS LIKE 'Handler_read%'");
    let value = |line: &String| {
        line.trim_end_matches('|')
            .rsplit('|')
            .next()?
            .parse::<usize>()
            .ok()
    };
    counters
        .iter()
        .map(|line| value(line).expect("a number"))
        .sum()
}

#[test]
fn ranges_are_as_tight_as_the_types_allow() {
    let machine = SimEnv::new(1);
    let instance = open(&machine, &[]);
    let mut root = Client::new(&instance, 1);
    root.ok("CREATE DATABASE bounds");
    root.ok("USE bounds");
    for case in CASES {
        fill(&mut root, case);
        for constant in case.constants {
            for (nth, comparison) in COMPARISONS.iter().enumerate() {
                let cond = comparison.replace('#', constant);
                let index = ["up", "down"][nth % 2];
                check(&mut root, case.ty, index, &cond);
            }
            // A variable would have a binary text.
            if constant.starts_with("b'") {
                continue;
            }
            root.ok(&format!("SET @v = {constant}"));
            for (comparison, index) in GIVEN {
                if case.takes_variable(constant) {
                    check(&mut root, case.ty, index, &comparison.replace('#', "@v"));
                }
                check_parameter(&mut root, case.ty, index, (comparison, constant));
            }
        }
    }
}

#[test]
fn labels_are_found_by_their_texts() {
    let machine = SimEnv::new(3);
    let instance = open(&machine, &[]);
    let mut root = Client::new(&instance, 1);
    root.ok("CREATE DATABASE bounds");
    root.ok("USE bounds");
    for case in LABELS {
        fill(&mut root, case);
        for constant in case.constants {
            for (nth, comparison) in EQUALITIES.iter().enumerate() {
                let cond = comparison.replace('#', constant);
                check(&mut root, case.ty, ["up", "down"][nth % 2], &cond);
            }
        }
    }
}

/// Values that the comparison does not tell apart are all found, and come in the order that was asked for.
#[test]
fn values_that_are_equal_in_a_comparison_are_all_found() {
    let machine = SimEnv::new(4);
    let instance = open(&machine, &[]);
    let mut root = Client::new(&instance, 1);
    root.ok("CREATE DATABASE bounds");
    root.ok("USE bounds");
    for (ty, value, cond) in [
        (
            "BIGINT",
            "9007199254740992 + n % 3",
            "p = 9007199254740992e0",
        ),
        (
            "DECIMAL(20,2)",
            "900719925474099200 + n % 3",
            "p = 9007199254740992e2",
        ),
        ("SET('','a')", "n % 4", "p = ''"),
        ("SET('','a')", "n % 4", "p = ',a'"),
        ("ENUM('','a')", "n % 3", "p = ''"),
        ("SET('x，y','z')", "n % 4", "p = 'x,y'"),
        ("SET('x','y')", "n % 4", "p = 'x，y'"),
        ("SET('x','y')", "n % 4", r"p = '\0'"),
        (
            "ENUM('a','A') COLLATE utf8mb4_bin",
            "n % 3",
            "p = 'A' COLLATE utf8mb4_general_ci",
        ),
        (
            "SET('a','A') COLLATE utf8mb4_bin",
            "n % 4",
            "p = 'A' COLLATE utf8mb4_general_ci",
        ),
    ] {
        let constants = &[];
        let case = Case {
            ty,
            value,
            constants,
        };
        fill(&mut root, &case);
        let whole = root.serial(&format!(
            "SELECT q FROM t IGNORE INDEX (up, down) WHERE {cond} ORDER BY id"
        ));
        for index in ["up", "down"] {
            let by_index =
                format!("SELECT q FROM t FORCE INDEX ({index}) WHERE {cond} ORDER BY id");
            assert_eq!(root.parallel(&by_index), whole, "{ty} {index}: {cond}");
        }
    }
}

/// Makes the table of a case, with an index in either direction.
fn fill(root: &mut Client, case: &Case) {
    root.ok("DROP TABLE IF EXISTS t");
    let prefix = if case.ty == "TEXT" { "(10)" } else { "" };
    root.ok(&format!(
        "CREATE TABLE t (id INT PRIMARY KEY, q INT, p {}, KEY up (p{prefix}), KEY down (p{prefix} DESC))",
        case.ty
    ));
    root.ok(&format!(
        "INSERT IGNORE INTO t WITH RECURSIVE s AS (SELECT 0 n UNION ALL SELECT n + 1 FROM s WHERE n + 1 < {ROWS}) \
         SELECT n, n, {} FROM s",
        case.value
    ));
    root.same("SELECT COUNT(*), COUNT(DISTINCT p) FROM t");
}

fn check(root: &mut Client, ty: &str, index: &str, cond: &str) {
    let by_index = format!("SELECT q FROM t FORCE INDEX ({index}) WHERE {cond} ORDER BY id");
    check_statement(root, ty, &by_index, cond);
}

/// A comparison with `@v` as a parameter finds what the one with its value, `constant`, finds.
fn check_parameter(root: &mut Client, ty: &str, index: &str, (comparison, constant): (&str, &str)) {
    let cond = comparison.replace('#', "?");
    root.ok(&format!(
        "PREPARE s FROM 'SELECT q FROM t FORCE INDEX ({index}) WHERE {cond} ORDER BY id'"
    ));
    let using = vec!["@v"; cond.matches('?').count()].join(", ");
    let cond = comparison.replace('#', constant);
    check_statement(root, ty, &format!("EXECUTE s USING {using}"), &cond);
}

/// A statement that reads an index finds the rows that meet the condition, and reads no others.
fn check_statement(root: &mut Client, ty: &str, sql: &str, cond: &str) {
    let whole = root.serial(&format!(
        "SELECT q FROM t IGNORE INDEX (up, down) WHERE {cond} ORDER BY id"
    ));
    assert_eq!(root.parallel(sql), whole, "{ty}: {sql}: {cond}");
    // Collations that do not mix.
    let Ok(matching) = whole else { return };
    root.ok("FLUSH STATUS");
    root.ok(sql);
    let read = rows_read(root);
    assert!(
        read <= matching.len() + SLACK,
        "{ty}: {sql}: {cond}: {read} rows read for {}",
        matching.len()
    );
}

/// Rows and blocks from before an integer was widened, and those from after it, are compared as one column.
#[test]
fn a_widened_integer_is_compared_like_one_that_always_was_so_wide() {
    let machine = SimEnv::new(2);
    let instance = open(&machine, &[]);
    let mut root = Client::new(&instance, 1);
    let fill = |root: &mut Client, table: &str, from: i32, to: i32, factor: i32| {
        root.ok(&format!(
            "INSERT INTO {table} WITH RECURSIVE s AS (SELECT {from} n UNION ALL SELECT n + 1 FROM s WHERE n + 1 < {to}) \
             SELECT n, n * {factor} - 1000, n % 7, REPEAT('x', 40) FROM s"
        ));
    };
    root.ok("CREATE DATABASE bounds");
    root.ok("USE bounds");
    root.ok("SET cte_max_recursion_depth = 10000");
    root.ok("CREATE TABLE t (id INT PRIMARY KEY, v SMALLINT, w TINYINT UNSIGNED, s VARCHAR(40))");
    root.ok("CREATE TABLE u (id INT PRIMARY KEY, v BIGINT, w INT UNSIGNED, s VARCHAR(40))");
    for table in ["t", "u"] {
        fill(&mut root, table, 0, 2000, 2);
    }
    instance.engine().flush_all().unwrap();
    root.ok("ALTER TABLE t MODIFY v BIGINT, MODIFY w INT UNSIGNED, ALGORITHM=INSTANT");
    for compacted in [false, true] {
        if compacted {
            root.ok("OPTIMIZE TABLE t, u");
        }
        for table in ["t", "u"] {
            let from = 2000 + 1000 * i32::from(compacted);
            fill(&mut root, table, from, from + 1000, 100);
            root.ok(&format!(
                "UPDATE {table} SET s = 'changed', v = v - 5000 WHERE id % 97 = 3"
            ));
        }
        instance.engine().flush_all().unwrap();
        for cond in [
            "v < -500",
            "v BETWEEN 10 AND 20",
            "v > 2000",
            "v > 100000",
            "v = 1500",
            "w = 3",
            "w * 2 = 4",
        ] {
            let question = |table: &str| {
                format!(
                    "SELECT COUNT(*), SUM(v), MIN(v), MAX(w), COUNT(DISTINCT v) FROM {table} WHERE {cond}"
                )
            };
            root.same(&question("t"));
            assert_eq!(root.ok(&question("t")), root.ok(&question("u")), "{cond}");
        }
        let all = "SELECT v, w, s FROM t ORDER BY v, id";
        root.same(all);
        assert_eq!(root.ok(all), root.ok(&all.replace(" t ", " u ")));
    }
}
