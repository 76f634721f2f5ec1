//! Exact trees: operator precedence, lexical forms, lowered calls, SQL modes.

use esker_types::SqlMode;

use super::show_tree::show;
use super::{first_expr, parsed};

#[track_caller]
fn tree(expr: &str, wanted: &str) {
    tree_in(SqlMode::default(), expr, wanted);
}

#[track_caller]
fn tree_in(mode: SqlMode, expr: &str, wanted: &str) {
    assert_eq!(
        show(&first_expr(&format!("SELECT {expr}"), mode)),
        wanted,
        "{expr}"
    );
}

#[test]
fn precedence() {
    // The probes that stock parsers get wrong, in the order of precedence.sql.
    tree("a DIV b + 1", "((a DIV b) + 1)");
    tree("a || b = c", "(a OR (b = c))");
    tree("a = 1 && b = 2", "((a = 1) AND (b = 2))");
    tree("a OR b XOR c AND d", "(a OR (b XOR (c AND d)))");
    tree("a = 1 XOR b = 2", "((a = 1) XOR (b = 2))");
    tree("! a = b", "((NOT a) = b)");
    tree("NOT a = b", "(NOT (a = b))");
    tree("a ^ b * c", "((a ^ b) * c)");
    tree("a & b << 1", "(a & (b << 1))");
    tree("- a ^ 2", "((-a) ^ 2)");
    tree("a->>'$.x' = 1", "((a ->> '$.x') = 1)");
    tree("a = b LIKE c", "(a = (b LIKE c))");
    tree("a LIKE b = c", "((a LIKE b) = c)");
    tree("BINARY a = b", "(CAST(a AS Binary) = b)");
    tree("a = b COLLATE utf8mb4_bin", "(a = (b COLLATE utf8mb4_bin))");
    tree("a + b COLLATE utf8mb4_bin", "(a + (b COLLATE utf8mb4_bin))");
    tree("a MOD b * c", "((a % b) * c)");
    tree("@x := 1 + 2", "(@x := (1 + 2))");
    tree("@x := a OR b", "(@x := (a OR b))");
    tree("a BETWEEN b AND c AND d", "((a BETWEEN b AND c) AND d)");
    tree("a IS NULL = b", "((a IS NULL) = b)");
    tree("- 1 - 1", "((-1) - 1)");
    tree("NOT a BETWEEN 1 AND 2", "(NOT (a BETWEEN 1 AND 2))");
}

#[test]
fn more_precedence() {
    tree("a = b = c", "((a = b) = c)");
    tree("a < b <=> c", "((a < b) <=> c)");
    tree(
        "a | b & c << d + e * f ^ g",
        "(a | (b & (c << (d + (e * (f ^ g))))))",
    );
    tree("a - b - c", "((a - b) - c)");
    tree("a / b % c DIV d", "(((a / b) % c) DIV d)");
    tree("NOT NOT a AND b", "((NOT (NOT a)) AND b)");
    tree("a AND NOT b OR c", "((a AND (NOT b)) OR c)");
    tree("a IS NOT TRUE OR b", "((a IS NOT TRUE) OR b)");
    tree("NOT a IS NULL", "(NOT (a IS NULL))");
    tree(
        "a NOT LIKE b ESCAPE '!' AND c",
        "((a NOT LIKE b ESCAPE '!') AND c)",
    );
    tree(
        "a NOT BETWEEN b + 1 AND c LIKE d",
        "(a NOT BETWEEN (b + 1) AND (c LIKE d))",
    );
    tree("a REGEXP b + c", "(a REGEXP (b + c))");
    tree("a NOT RLIKE b", "(a NOT REGEXP b)");
    tree("a SOUNDS LIKE b", "(soundex(a) = soundex(b))");
    tree("- a COLLATE x", "(-(a COLLATE x))");
    tree("BINARY - a", "CAST((-a) AS Binary)");
    tree("a + @x := b + c", "(a + (@x := (b + c)))");
    tree("(a OR b) AND c", "((a OR b) AND c)");
    tree("a AND b AND c OR d OR e", "((a AND b AND c) OR d OR e)");
    tree("(a AND b) AND (c AND d)", "(a AND b AND (c AND d))");
    tree("a IN (1, 2) = b", "((a IN [1, 2]) = b)");
    tree(
        "(a, b) IN ((1, 2), (3, 4))",
        "(ROW(a, b) IN [ROW(1, 2), ROW(3, 4)])",
    );
    tree("a MEMBER OF (b) AND c", "((a MEMBER OF b) AND c)");
    tree("a = ANY (SELECT 1) OR b", "((a = ANY query) OR b)");
    tree("a <> ALL (SELECT 1)", "(a <> ALL query)");
    tree(
        "CASE a WHEN 1 THEN 2 ELSE 3 END + 1",
        "(CASE a WHEN 1 THEN 2 ELSE 3 END + 1)",
    );
    tree(
        "CASE WHEN a THEN b WHEN c THEN d END",
        "CASE WHEN a THEN b WHEN c THEN d END",
    );
}

#[test]
fn parentheses_find_out_what_they_hold() {
    tree("((1))", "1");
    tree("((1) + 2) * 3", "((1 + 2) * 3)");
    tree("((SELECT 1) + 1)", "(query + 1)");
    tree("((SELECT 1))", "query");
    tree("((SELECT 1) UNION (SELECT 2))", "query");
    tree("((SELECT 1) LIMIT 1) + 1", "(query + 1)");
    tree("((a), (b + 1))", "ROW(a, (b + 1))");
    tree("((a, b), c)", "ROW(ROW(a, b), c)");
    tree("a IN ((SELECT 1))", "(a IN query)");
    tree("a IN ((SELECT 1), 2)", "(a IN [query, 2])");
    tree("a IN ((SELECT 1) + 1)", "(a IN [(query + 1)])");
    tree("ROW(1, 2)", "ROW(1, 2)");
    tree(
        "EXISTS (SELECT 1) AND NOT EXISTS ((TABLE t))",
        "(EXISTS query AND (NOT EXISTS query))",
    );
    tree("(VALUES(a) + 1)", "(VALUES(a) + 1)");
    tree("(VALUES ROW(1))", "query");
}

#[test]
fn intervals() {
    tree("d + INTERVAL 1 DAY", "date_add_day(d, 1)");
    tree(
        "d - INTERVAL '1:2' MINUTE_SECOND",
        "date_sub_minute_second(d, '1:2')",
    );
    tree(
        "d + INTERVAL 1 DAY - INTERVAL 2 HOUR",
        "date_sub_hour(date_add_day(d, 1), 2)",
    );
    tree("INTERVAL 1 DAY + d", "date_add_day(d, 1)");
    tree("INTERVAL 1 DAY + d > e", "date_add_day((d > e), 1)");
    tree("INTERVAL(3, 1, 2)", "interval(3, 1, 2)");
    tree("1 + INTERVAL(3, 1) * 2", "(1 + (interval(3, 1) * 2))");
    tree(
        "d + INTERVAL (a) + 1 SQL_TSI_MONTH",
        "date_add_month(d, (a + 1))",
    );
    tree("d + INTERVAL (SELECT 1) YEAR", "date_add_year(d, query)");
    tree(
        "DATE_ADD(d, INTERVAL a + 1 WEEK)",
        "date_add_week(d, (a + 1))",
    );
    tree("SUBDATE(d, 5)", "date_sub_day(d, 5)");
    tree(
        "ADDDATE(d, INTERVAL 5 YEAR_MONTH)",
        "date_add_year_month(d, 5)",
    );
    tree("TIMESTAMPADD(MINUTE, 1, d)", "timestampadd_minute(1, d)");
    tree(
        "TIMESTAMPDIFF(SQL_TSI_DAY, a, b)",
        "timestampdiff_day(a, b)",
    );
    tree("EXTRACT(DAY_HOUR FROM d)", "extract_day_hour(d)");
}

#[test]
fn special_calls_are_lowered() {
    tree("TRIM(a)", "trim(a)");
    tree("TRIM('x' FROM a)", "trim_both(a, 'x')");
    tree("TRIM(LEADING FROM a)", "ltrim(a)");
    tree("TRIM(TRAILING 'x' FROM a)", "trim_trailing(a, 'x')");
    tree("SUBSTR(a FROM 2 FOR 3)", "substring(a, 2, 3)");
    tree("MID(a, 2, 3)", "substring(a, 2, 3)");
    tree("POSITION('a' IN b)", "locate('a', b)");
    tree("CHAR(77, 121 USING utf8mb4)", "char_using_utf8mb4(77, 121)");
    tree("CONVERT(a USING binary)", "convert_using_binary(a)");
    tree("CONVERT(a, UNSIGNED)", "CAST(a AS BigInt unsigned)");
    tree("CAST(a AS SIGNED INTEGER)", "CAST(a AS BigInt)");
    tree("CAST(a AS DECIMAL(10,2))", "CAST(a AS Decimal 10 2)");
    tree(
        "CAST(a AS CHAR(3) CHARACTER SET latin1)",
        "CAST(a AS Char 3 latin1)",
    );
    tree("CURRENT_TIMESTAMP(6)", "now(6)");
    tree("LOCALTIME", "now()");
    tree("CURRENT_DATE()", "curdate()");
    tree("SCHEMA()", "database()");
    tree("CURRENT_USER", "current_user()");
    tree(
        "GET_FORMAT(TIMESTAMP, 'ISO')",
        "get_format('DATETIME', 'ISO')",
    );
    tree("WEIGHT_STRING(a AS CHAR(3))", "weight_string_char(a, 3)");
    tree(
        "MATCH(a, b) AGAINST (c IN BOOLEAN MODE)",
        "MATCH(a, b) AGAINST(c Boolean)",
    );
    tree("DEFAULT(t.a)", "DEFAULT(t.a)");
    tree("COUNT(*)", "COUNT(*)");
    tree("count(DISTINCT a, b)", "count(DISTINCT a, b)");
    tree("MAX(ALL a)", "MAX(a)");
    let list = "GROUP_CONCAT(DISTINCT a ORDER BY b DESC SEPARATOR ';')";
    tree(list, "GROUP_CONCAT(DISTINCT a ORDER b DESC SEPARATOR ';')");
    tree(
        "ROW_NUMBER() OVER (PARTITION BY a ORDER BY b)",
        "ROW_NUMBER() OVER",
    );
    tree("LEFT(a, 1)", "LEFT(a, 1)");
    tree("foo(a, 1)", "foo(a, 1)");
}

#[test]
fn literals() {
    tree("1", "1");
    tree("18446744073709551615", "18446744073709551615");
    tree("18446744073709551616", "18446744073709551616m");
    tree(".5", ".5m");
    tree("1.", "1.m");
    tree("1e3", "1000d");
    tree("'it''s' \"so\" 'x\\ty\\%'", "'it'ssox\ty\\%'");
    tree("N'n'", "_utf8mb3'n'");
    tree("_latin1'x'", "_latin1'x'");
    tree("_utf8 0x41", "_utf8mb3x'41'");
    tree("x'4d2A'", "x'4d2a'");
    tree("0x123", "x'0123'");
    tree("b'101'", "b'05'");
    tree("0b0", "b'00'");
    tree("DATE'2020-01-01'", "DATE'2020-01-01'");
    tree("TIMESTAMP \"2020-01-01\"", "TIMESTAMP'2020-01-01'");
    tree("{d '2020-01-01'}", "DATE'2020-01-01'");
    tree("{fn 1 + 1}", "(1 + 1)");
    tree("null", "NULL");
    tree("TRUE", "TRUE");
    tree("? + ?", "(?0 + ?1)");
}

#[test]
fn names() {
    tree("1a", "1a");
    tree("0xyz", "0xyz");
    tree("1e", "1e");
    tree("a.1b", "a.1b");
    tree("t.select", "t.select");
    tree("d.t.c", "d.t.c");
    tree("`a``b`.`c`", "a`b.c");
    tree("$$", "$$");
    tree("größe", "größe");
    tree("date", "date");
    tree("count", "count");
    tree("@A", "@a");
    tree("@`My Var`", "@my var");
    tree("@a.b$c", "@a.b$c");
    tree("@@sql_mode", "@@None.sql_mode");
    tree("@@GLOBAL.Max_Connections", "@@Some(Global).max_connections");
    tree("@@local.a", "@@Some(Session).a");
    tree("@@`a`", "@@None.a");
    tree("/*! 1 + */ 2", "(1 + 2)");
    tree("/*!80000 1 + */ 2 /*!99999 + 3 */", "(1 + 2)");
    tree("/*M! 1 + */ 2 # x", "2");
    tree("1 -- 2\n + 3", "(1 + 3)");
    tree("1 --2", "(1 - (-2))");
    tree("1 /* -- */ + 2", "(1 + 2)");
}

#[test]
fn modes() {
    tree_in(SqlMode::PIPES_AS_CONCAT, "a || b = c", "(concat(a, b) = c)");
    tree_in(
        SqlMode::PIPES_AS_CONCAT,
        "- a || b + c",
        "(concat((-a), b) + c)",
    );
    tree_in(
        SqlMode::PIPES_AS_CONCAT,
        "a || b || c",
        "concat(concat(a, b), c)",
    );
    tree_in(SqlMode::ANSI_QUOTES, "\"a\".\"b\"", "a.b");
    tree_in(SqlMode::NO_BACKSLASH_ESCAPES, r"'a\'", r"'a\'");
    tree_in(SqlMode::HIGH_NOT_PRECEDENCE, "NOT a = b", "((NOT a) = b)");
    tree_in(SqlMode::HIGH_NOT_PRECEDENCE, "a = NOT b", "(a = (NOT b))");
    tree_in(
        SqlMode::HIGH_NOT_PRECEDENCE,
        "a NOT IN (1)",
        "(a NOT IN [1])",
    );
    tree_in(SqlMode::IGNORE_SPACE, "COUNT (*)", "COUNT(*)");
    tree_in(
        SqlMode::REAL_AS_FLOAT,
        "CAST(a AS REAL)",
        "CAST(a AS Float)",
    );
    assert_eq!(parsed("SELECT COUNT (*)").unwrap_err().code, 1064);
}

#[test]
fn a_view_knows_where_its_text_needs_a_database() {
    let places = |query: &str| {
        let sql = format!("CREATE VIEW v AS {query}");
        let parsed = crate::parse(sql.as_bytes(), crate::ParseOptions::default());
        let crate::ast::Statement::CreateView(view) = parsed.expect(query).stmt else {
            panic!("{query}: not a view");
        };
        assert_eq!(&*view.text, query);
        let tables = view.bare_tables.iter().map(|at| &view.text[*at..*at + 1]);
        let stars = view
            .stars
            .iter()
            .map(|(start, end)| &view.text[*start..*end]);
        (
            tables.collect::<String>(),
            stars.collect::<Vec<_>>().join(" "),
        )
    };
    let check = |query: &str, tables: &str, stars: &str| {
        assert_eq!(
            places(query),
            (tables.to_owned(), stars.to_owned()),
            "{query}"
        );
    };
    check("SELECT * FROM a", "a", "*");
    check(
        "SELECT x.*, 1, d.b.* FROM a x JOIN d.b USING (i)",
        "a",
        "x.* d.b.*",
    );
    check(
        "WITH q AS (SELECT * FROM a) SELECT q.*, (SELECT 1 FROM b) FROM q, d.c, (e)",
        "abe",
        "q.*",
    );
    check(
        "SELECT i FROM a WHERE EXISTS (SELECT 2 FROM b, (SELECT 3 FROM c) x)",
        "abc",
        "",
    );
    check(
        "(SELECT 1 FROM a) UNION SELECT 2 FROM b ORDER BY 1",
        "ab",
        "",
    );
}
