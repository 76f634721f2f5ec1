//! Errors as MySQL words them, statement splitting, limits.

use esker_types::SqlMode;

use super::{ok, parsed};
use crate::ast::{Expr, Statement};
use crate::{MAX_EXPR_HEIGHT, MAX_NESTING, ParseOptions, parse, parse_at};

#[track_caller]
pub(super) fn near(sql: &str, near: &str, line: u32) {
    let wanted = format!(
        "You have an error in your SQL syntax; check the manual that corresponds to your MySQL \
         server version for the right syntax to use near '{near}' at line {line}"
    );
    let error = parsed(sql).expect_err(sql);
    assert_eq!(
        (error.code, error.state, &*error.message),
        (1064, "42000", &*wanted),
        "{sql}"
    );
}

/// Each text was compared with a MySQL server's.
#[test]
fn syntax_errors_point_where_mysql_points() {
    near("selekt", "selekt", 1);
    near("SELECT 1 +", "", 1);
    near("SELECT 'abc", "'abc", 1);
    near("SELECT 1 /* open", "/* open", 1);
    near("SELECT `a", "`a", 1);
    near("SELECT 1\n FROM\n frim a b;", "b", 3);
    near("SELECT 1\n\n FROM t WHERE a == 1", "== 1", 3);
    near("\n\nSELECT FROM t", "FROM t", 1);
    near("SELECT a LIKE b LIKE c", "LIKE c", 1);
    near("SELECT 'a' LIKE 'b' + 1", "+ 1", 1);
    near("SELECT 1 = NOT 0", "NOT 0", 1);
    near("SELECT 1 IS TRUE = 1", "= 1", 1);
    near("SELECT 1 IN (1) IN (1)", "IN (1)", 1);
    near("SELECT 1 IN ()", ")", 1);
    near("SELECT 1=!0", "=!0", 1);
    near("SELECT COUNT (*)", "*)", 1);
    near("SELECT x'1'", "x'1'", 1);
    near("SELECT a 'x' 'y'", "'y'", 1);
    near("SELECT LEFT('a', 1, 2)", ", 2)", 1);
    near("SELECT CHAR XOR b", "XOR b", 1);
    near("SELECT EXISTS (1)", "1)", 1);
    near("SELECT ROW_NUMBER()", "", 1);
    near("SELECT ROW(1)", ")", 1);
    near("SELECT 1 AS select", "select", 1);
    near("SELECT rank FROM t", "FROM t", 1);
    near("SELECT * FROM t TABLES TABLES", "TABLES", 1);
    near("SELECT * FROM a LEFT JOIN b", "", 1);
    near(
        "SELECT * FROM a FULL OUTER JOIN b ON 1",
        "OUTER JOIN b ON 1",
        1,
    );
    near("SELECT * FROM t USE USE INDEX (i)", "USE INDEX (i)", 1);
    near("INSERT INTO t VALUES (1", "", 1);
    near("UPDATE t SET a = 1, WHERE b = 2", "WHERE b = 2", 1);
    near("DELETE FROM t LIMIT 1, 2", ", 2", 1);
    near("CREATE TABLE t (a)", ")", 1);
    near("CREATE TABLE t (a INT,)", ")", 1);
    near("CREATE TABLE t (a VARCHAR)", ")", 1);
    near("CREATE TABLE t (key INT)", "INT)", 1);
    near("CREATE TABLE count(a INT)", "count(a INT)", 1);
    near("ALTER TABLE t ADD", "", 1);
    near("SHOW CHARACTER SELECT", "SELECT", 1);
    near("SET SESSION SESSION a = 1", "SESSION a = 1", 1);
    near("GRANT GRANT ALL ON *.* TO u", "ALL ON *.* TO u", 1);
    near("COMMIT NO", "", 1);
    // Nothing is no statement in front of another one.
    near(";SELECT 1", ";SELECT 1", 1);
    near("/* c */; SELECT 1", "; SELECT 1", 1);
    // Names have no NUL, and a text ends at one.
    near("SELECT `a\0b` FROM t", "`a", 1);
    near("SELECT @`a\0b`", "`a", 1);
    near("SELECT 1 \0 2", "", 1);
}

#[test]
fn near_text_is_80_bytes_of_whole_characters() {
    let tail = "ö".repeat(60);
    near(
        &format!("SELECT 1 frim frim '{tail}'"),
        &format!("frim '{}", "ö".repeat(37)),
        1,
    );
    let x = "x".repeat(100);
    near(&format!("SELECT 1 frim {x}"), &"x".repeat(80), 1);
}

#[test]
fn other_errors() {
    for (sql, code, state, text) in [
        ("", 1065, "42000", "Query was empty"),
        (" ;; ", 1065, "42000", "Query was empty"),
        (
            "SELECT * FROM (SELECT 1)",
            1248,
            "42000",
            "Every derived table must have its own alias",
        ),
        (
            "SELECT SUM (a) FROM t",
            1630,
            "42000",
            "FUNCTION SUM does not exist. Check the 'Function Name Parsing and Resolution' section \
             in the Reference Manual",
        ),
        (
            "SELECT abs(1 x)",
            1583,
            "42000",
            "Incorrect parameters in the call to native function 'abs'",
        ),
        (
            "SELECT * FROM t LIMIT a",
            1327,
            "42000",
            "Undeclared variable: a",
        ),
        (
            "SELECT ALL DISTINCT 1",
            1221,
            "HY000",
            "Incorrect usage of ALL and DISTINCT",
        ),
        (
            "UPDATE a, b SET x = 1 ORDER BY 1",
            1221,
            "HY000",
            "Incorrect usage of UPDATE and ORDER BY",
        ),
        (
            "ALTER TABLE t ALGORITHM=x",
            1800,
            "HY000",
            "Unknown ALGORITHM 'x'",
        ),
        (
            "ALTER TABLE t LOCK=foo",
            1801,
            "HY000",
            "Unknown LOCK type 'foo'",
        ),
        (
            "CREATE TABLE t",
            4028,
            "HY000",
            "A table must have at least one visible column.",
        ),
        (
            "EXPLAIN FORMAT=X SELECT 1",
            1791,
            "HY000",
            "Unknown EXPLAIN format name: 'X'",
        ),
    ] {
        let error = parsed(sql).expect_err(sql);
        assert_eq!(
            (error.code, error.state, &*error.message),
            (code, state, text),
            "{sql}"
        );
    }
    let error = parse(b"SELECT a\xff FROM t", ParseOptions::default()).unwrap_err();
    assert_eq!(
        (error.code, &*error.message),
        (1300, "Invalid utf8mb4 character string: '\\xFF'")
    );
    // Bytes inside a string are data.
    assert!(parse(b"SELECT _binary'\xff'", ParseOptions::default()).is_ok());
}

#[test]
fn parameters_only_where_they_may_be() {
    let text = ParseOptions::default();
    let prepare = ParseOptions {
        params: true,
        ..text
    };
    assert_eq!(parse(b"SELECT ?, ? + ?", prepare).map(|p| p.params), Ok(3));
    assert_eq!(
        parse(b"SELECT a FROM t LIMIT ?, ?", prepare).map(|p| p.params),
        Ok(2)
    );
    let error = parse(b"SELECT ?", text).unwrap_err();
    assert!(error.message.ends_with("near '?' at line 1"), "{error}");
    assert!(parse(b"SELECT ?a", prepare).is_err());
}

#[test]
fn statements_are_split_at_semicolons() {
    let multi = ParseOptions {
        multi: true,
        ..ParseOptions::default()
    };
    let sql = b" SELECT ';' ; /* ; */ SELECT 2;\n\n bad;  ";
    let first = parse_at(sql, 0, multi).unwrap();
    assert_eq!(&sql[first.span.start..first.span.end], b"SELECT ';'");
    let second = parse_at(sql, first.rest.unwrap(), multi).unwrap();
    assert_eq!(
        &sql[second.span.start..second.span.end],
        b"/* ; */ SELECT 2"
    );
    let error = parse_at(sql, second.rest.unwrap(), multi).unwrap_err();
    assert!(error.message.ends_with("near 'bad' at line 1"), "{error}");
    // A comment after the last `;` is one more, empty statement; white space is not.
    let last = parse(b"SELECT 1; -- x", multi).unwrap();
    assert_eq!(
        parse_at(b"SELECT 1; -- x", last.rest.unwrap(), multi)
            .unwrap()
            .stmt,
        Statement::Empty
    );
    assert_eq!(parse(b"SELECT 1; ; ", multi).unwrap().rest, None);
    // Without the capability, and when preparing, a second statement is an error.
    for options in [
        ParseOptions::default(),
        ParseOptions {
            params: true,
            ..multi
        },
    ] {
        let error = parse(b"SELECT 1; SELECT 2", options).unwrap_err();
        assert!(
            error.message.ends_with("near 'SELECT 2' at line 1"),
            "{error}"
        );
        assert!(parse(b"SELECT 1;", options).is_ok());
    }
}

/// However a statement nests, the answer is a tree or an error, and the stack holds.
#[test]
fn depth_is_bounded() {
    let n = 20_000;
    for (head, open, middle, close, tail) in [
        ("SELECT ", "(", "1", ")", ""),
        ("SELECT ", "f(", "1", ")", ""),
        ("SELECT ", "(SELECT ", "1", ")", ""),
        ("SELECT ", "NOT ", "1", "", ""),
        ("SELECT ", "- ", "1", "", ""),
        ("SELECT ", "CASE WHEN ", "1", " THEN 1 END", ""),
        ("SELECT ", "1 IN (", "1", ")", ""),
        ("SELECT ", "1 + ", "1", "", ""),
        ("SELECT ", "@a := ", "1", "", ""),
        ("SELECT * FROM ", "(SELECT * FROM ", "t", ") x", ""),
        ("SELECT * FROM ", "(", "t", ")", ""),
        ("SELECT * FROM ", "t JOIN ", "t", "", ""),
        ("SELECT * FROM t", " JOIN t ON 1", "", "", ""),
        ("", "(", "SELECT 1", ")", ""),
        ("", "WITH a AS (", "SELECT 1", ") SELECT 1", ""),
    ] {
        let sql = format!("{head}{}{middle}{}{tail}", open.repeat(n), close.repeat(n));
        let error = parsed(&sql).expect_err(open);
        let code = match open.starts_with("(SELECT ") {
            true => 1473,
            false => 1436,
        };
        assert_eq!(error.code, code, "{open}: {error}");
    }
}

#[test]
fn wide_statements_are_not_deep() {
    let n = 20_000;
    for sql in [
        format!("SELECT {}1", "1 OR ".repeat(n)),
        format!("SELECT {}1", "1 AND ".repeat(n)),
        format!("SELECT 1 {}", "UNION SELECT 1 ".repeat(n)),
        format!("SELECT a IN ({}1)", "1, ".repeat(n)),
        format!("INSERT INTO t VALUES (1){}", ", (1)".repeat(n)),
    ] {
        ok(&sql);
    }
    let chain = |n: u32| format!("SELECT {}1", "1 + ".repeat(n as usize));
    assert!(parsed(&chain(MAX_EXPR_HEIGHT - 2)).is_ok());
    assert_eq!(parsed(&chain(MAX_EXPR_HEIGHT + 1)).unwrap_err().code, 1436);
    let parens = |n: u32| {
        format!(
            "SELECT {}1{}",
            "(".repeat(n as usize),
            ")".repeat(n as usize)
        )
    };
    assert!(parsed(&parens(MAX_NESTING / 2 - 4)).is_ok());
}

#[test]
fn strings_end_as_the_mode_says() {
    let no_escapes = ParseOptions {
        sql_mode: SqlMode::NO_BACKSLASH_ESCAPES,
        ..ParseOptions::default()
    };
    assert!(parse(br"SELECT 'a\', 'b'", no_escapes).is_ok());
    assert!(parse(br"SELECT 'a\', 'b'", ParseOptions::default()).is_err());
    let Statement::Do(exprs) = ok(r"DO 'a\\', 'b'") else {
        panic!()
    };
    assert!(matches!(&exprs[..], [Expr::Literal(_), Expr::Literal(_)]));
}
