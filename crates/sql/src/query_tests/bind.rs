//! Names, types and errors of queries.

use esker_sql_catalog::result::meta_flag;
use esker_types::collation::Collation;
use esker_types::{SqlMode, TypeKind, Value};

use super::rig::Rig;

fn rig() -> Rig {
    Rig::new(&[
        "CREATE TABLE t (id INT PRIMARY KEY, a INT, b VARCHAR(20), c DECIMAL(10,2), \
         d DATETIME(3), e ENUM('x','y'), KEY ka (a))",
        "CREATE TABLE u (id INT NOT NULL AUTO_INCREMENT PRIMARY KEY, tid INT, x INT NOT NULL, \
         UNIQUE KEY ux (x))",
        "CREATE TABLE l (s VARCHAR(5) COLLATE latin1_swedish_ci, \
         g VARCHAR(5) COLLATE utf8mb4_general_ci, n VARCHAR(5) COLLATE utf8mb4_0900_ai_ci)",
        "INSERT INTO t VALUES (1, 10, 'one', 1.5, '2020-01-01', 'x'), (2, 20, 'two', 2, NULL, 'y')",
        "INSERT INTO u (tid, x) VALUES (1, 100), (2, 200)",
    ])
}

#[test]
fn errors_of_names() {
    let rig = rig();
    let cases = [
        (
            "SELECT nope FROM t",
            1054,
            "Unknown column 'nope' in 'field list'",
        ),
        (
            "SELECT 1 FROM t WHERE t.nope = 1",
            1054,
            "Unknown column 't.nope' in 'where clause'",
        ),
        (
            "SELECT 1 FROM t JOIN u ON nope = 1",
            1054,
            "Unknown column 'nope' in 'on clause'",
        ),
        (
            "SELECT 1 FROM t ORDER BY nope",
            1054,
            "Unknown column 'nope' in 'order clause'",
        ),
        (
            "SELECT a FROM t GROUP BY 7",
            1054,
            "Unknown column '7' in 'group statement'",
        ),
        (
            "SELECT a FROM t HAVING nope",
            1054,
            "Unknown column 'nope' in 'having clause'",
        ),
        (
            "SELECT id FROM t, u",
            1052,
            "Column 'id' in field list is ambiguous",
        ),
        (
            "SELECT 1 FROM t JOIN u USING (x)",
            1054,
            "Unknown column 'x' in 'from clause'",
        ),
        ("SELECT 1 FROM t, t", 1066, "Not unique table/alias: 't'"),
        (
            "SELECT 1 FROM (SELECT 1 a, 2 a) q",
            1060,
            "Duplicate column name 'a'",
        ),
        ("SELECT v.* FROM t", 1051, "Unknown table 'v'"),
        ("SELECT *", 1096, "No tables used"),
        ("SELECT 1 FROM nope", 1146, "Table 'd.nope' doesn't exist"),
        ("SELECT nope(1)", 1305, "FUNCTION d.nope does not exist"),
        (
            "SELECT length()",
            1582,
            "Incorrect parameter count in the call to native function 'length'",
        ),
        (
            "SELECT 1 FROM t USE INDEX (nope)",
            1176,
            "Key 'nope' doesn't exist in table 't'",
        ),
    ];
    for (sql, code, text) in cases {
        assert_eq!(rig.error(sql), (code, text.to_owned()), "{sql}");
    }
}

#[test]
fn illegal_mix_of_collations() {
    let rig = rig();
    let (code, text) = rig.error("SELECT 1 FROM l WHERE g = n");
    assert_eq!(code, 1267);
    assert_eq!(
        text,
        "Illegal mix of collations (utf8mb4_general_ci,IMPLICIT) and \
         (utf8mb4_0900_ai_ci,IMPLICIT) for operation '='"
    );
    assert_eq!(
        rig.rows("SELECT 1 FROM l WHERE g = n COLLATE utf8mb4_bin"),
        [""; 0]
    );
    assert_eq!(rig.rows("SELECT 1 FROM l WHERE s = g"), [""; 0]);
}

#[test]
fn collations_of_several_operands() {
    let rig = Rig::new(&[
        "CREATE TABLE c (g VARCHAR(5) COLLATE utf8mb4_general_ci, \
         u VARCHAR(5) COLLATE utf8mb4_unicode_ci, z VARCHAR(5) COLLATE utf8mb4_0900_bin, n INT)",
        "INSERT INTO c VALUES ('a', 'a', 'A', 1)",
    ]);
    for (sql, expected) in [
        // The _bin collation settles what the two others disagree about, if it comes before one of them.
        ("SELECT u BETWEEN z AND g FROM c", "1"),
        ("SELECT CASE u WHEN z THEN 1 WHEN g THEN 2 END FROM c", "2"),
        (
            "SELECT CASE 'A' WHEN g THEN 1 WHEN z THEN 2 END FROM c",
            "2",
        ),
        // Beside a number texts are compared as numbers.
        ("SELECT g BETWEEN u AND n FROM c", "1"),
        (
            "SELECT COLLATION(NULLIF('', z)), COERCIBILITY(NULLIF('', z)) FROM c",
            "utf8mb4_0900_bin|4",
        ),
        (
            "SELECT COLLATION(NULLIF(g, z)) FROM c",
            "utf8mb4_general_ci",
        ),
    ] {
        assert_eq!(rig.rows(sql), [expected], "{sql}");
    }
    for (sql, code, operation) in [
        ("SELECT u BETWEEN g AND z FROM c", 1270, "between"),
        (
            "SELECT CASE u WHEN g THEN 1 WHEN z THEN 2 END FROM c",
            1270,
            "case",
        ),
        ("SELECT CASE u WHEN g THEN 1 END FROM c", 1267, "case"),
        ("SELECT REGEXP_LIKE(g, u) FROM c", 1267, "regexp_like"),
        (
            "SELECT REGEXP_REPLACE(NULLIF('', g), 'a', 'b') FROM c",
            1267,
            "regexp_replace",
        ),
        ("SELECT CONVERT(z USING utf8mb4) = g FROM c", 1267, "="),
        ("SELECT CAST(1 AS CHAR) = u FROM c", 1267, "="),
        ("SELECT u IN (CAST('a' AS CHAR), 'b') FROM c", 1270, " IN "),
    ] {
        let (found, text) = rig.error(sql);
        assert_eq!(found, code, "{sql}");
        assert!(
            text.ends_with(&format!("for operation '{operation}'")),
            "{text}"
        );
    }
}

#[test]
fn another_character_set_comes_with_its_default_collation() {
    let mut rig = Rig::new(&["CREATE TABLE c (u VARCHAR(5) COLLATE utf8mb4_unicode_ci)"]);
    rig.collation = Collation::UTF8MB4_GENERAL_CI;
    let sql = "SELECT COLLATION(CONVERT(x USING utf8mb4)), COLLATION(CHAR(65 USING utf8mb4)), \
               COLLATION(CONVERT(x USING latin1)), COLLATION(CAST(x AS CHAR CHARACTER SET utf8mb4)) \
               FROM (SELECT 'a' COLLATE utf8mb4_bin AS x) d";
    let utf8mb4 = "utf8mb4_0900_ai_ci";
    let expected = format!("{utf8mb4}|{utf8mb4}|latin1_swedish_ci|{utf8mb4}");
    assert_eq!(rig.rows(sql), [expected]);
    // Two that insist on different ones make a text with none, constant or not.
    let mixed = "SELECT CONCAT(CAST(1 AS CHAR), CONVERT('a' USING utf8mb4)) = u FROM c";
    assert_eq!(rig.code(mixed), 1267);
}

#[test]
fn what_is_no_text_is_one_of_any_collation() {
    let rig = Rig::new(&[]);
    let sql = "SELECT 1 COLLATE latin1_bin, COLLATION(1.5 COLLATE latin1_bin), \
               DATE'2020-02-03' COLLATE latin1_bin, NULL COLLATE `binary`";
    assert_eq!(rig.rows(sql), ["1|latin1_bin|2020-02-03|NULL"]);
    // A variable is a text, whatever it has.
    assert_eq!(rig.rows("SELECT @n := 5"), ["5"]);
    assert_eq!(rig.code("SELECT @n COLLATE latin1_bin"), 1253);
}

#[test]
fn regular_expressions_keep_bytes_and_text_apart() {
    let rig = Rig::new(&[
        "CREATE TABLE r (b VARBINARY(5), g VARCHAR(5) COLLATE utf8mb4_general_ci)",
        "INSERT INTO r VALUES ('a', 'a')",
    ]);
    for (sql, names) in [
        (
            "SELECT REGEXP_LIKE(b, g) FROM r",
            ["binary", "utf8mb4_general_ci"],
        ),
        (
            "SELECT REGEXP_LIKE(g, b) FROM r",
            ["utf8mb4_general_ci", "binary"],
        ),
        (
            "SELECT REGEXP_REPLACE(g, 'a', b) FROM r",
            ["utf8mb4_general_ci", "binary"],
        ),
    ] {
        let (code, text) = rig.error(sql);
        assert_eq!(code, 3995, "{sql}");
        let [one, other] = names.map(|name| format!("'{name}'"));
        let begins =
            format!("Character set {one} cannot be used in conjunction with {other} in call");
        assert!(text.starts_with(&begins), "{text}");
    }
    assert_eq!(
        rig.rows("SELECT REGEXP_LIKE(b, b), REGEXP_LIKE(b, 3) FROM r"),
        ["1|0"]
    );
}

#[test]
fn a_common_table_expression_that_is_not_named_is_not_looked_into() {
    let rig = rig();
    for sql in [
        "WITH w AS (SELECT nope FROM t) SELECT 1",
        "WITH w AS (SELECT * FROM nope) SELECT 1",
        "WITH w (a, b) AS (SELECT 1) SELECT 1",
        "WITH RECURSIVE w AS (SELECT 1 FROM w) SELECT 1",
        "WITH w AS (SELECT nope), v AS (SELECT * FROM w) SELECT 1",
        "SELECT (WITH w AS (SELECT nope) SELECT 1)",
    ] {
        assert_eq!(rig.rows(sql), ["1"], "{sql}");
    }
    for (sql, code) in [
        ("WITH w AS (SELECT nope FROM t) SELECT 1 FROM w", 1054),
        (
            "WITH w AS (SELECT nope), v AS (SELECT * FROM w) SELECT * FROM v",
            1054,
        ),
        (
            "WITH w AS (SELECT nope) SELECT 1 WHERE EXISTS (SELECT * FROM w)",
            1054,
        ),
        ("WITH w AS (SELECT 1), w AS (SELECT 2) SELECT 1", 1066),
        ("WITH w AS (SELECT id, ID FROM t) SELECT 1 FROM w", 1060),
        ("WITH w (a, a) AS (SELECT 1, 2) SELECT 1 FROM w", 1060),
    ] {
        assert_eq!(rig.code(sql), code, "{sql}");
    }
    // Named below other blocks than the one it belongs to.
    let sql = "WITH w AS (SELECT id, a FROM t) SELECT u.id, (SELECT MAX(a) FROM w WHERE id = u.tid), \
               (SELECT COUNT(*) FROM (SELECT * FROM w) d), (SELECT COUNT(*) FROM w) FROM u";
    assert_eq!(rig.rows(sql), ["1|10|2|2", "2|20|2|2"]);
    let sql = "SELECT id, (WITH w AS (SELECT u.x + a AS s FROM t WHERE t.id = u.tid) \
               SELECT (SELECT s FROM w) + (SELECT MAX(s) FROM (SELECT s FROM w) d)) FROM u";
    assert_eq!(rig.rows(sql), ["1|220", "2|440"]);
}

#[test]
fn a_long_chain_of_common_table_expressions_is_an_error() {
    let rig = rig();
    let chain = |length: usize| {
        let later = (1..length).map(|n| format!(", w{n} AS (SELECT * FROM w{})", n - 1));
        let later: String = later.collect();
        format!("WITH w0 AS (SELECT 1){later} SELECT * FROM w{}", length - 1)
    };
    assert_eq!(rig.rows(&chain(5)), ["1"]);
    assert_eq!(rig.code(&chain(5000)), 1473);
}

#[test]
fn only_full_group_by() {
    let mut rig = rig();
    let (code, text) = rig.error("SELECT b, COUNT(*) FROM t GROUP BY a");
    assert_eq!(code, 1055);
    assert!(
        text.starts_with("Expression #1 of SELECT list is not in GROUP BY clause"),
        "{text}"
    );
    assert!(text.contains("'d.t.b'"), "{text}");
    let (code, text) = rig.error("SELECT COUNT(*), a FROM t");
    assert_eq!(code, 1140);
    assert!(text.contains("expression #2 of SELECT list contains nonaggregated column 'd.t.a'"));
    assert_eq!(rig.code("SELECT a FROM t GROUP BY a ORDER BY b"), 1055);
    assert_eq!(rig.code("SELECT DISTINCT a FROM t ORDER BY b"), 3065);
    assert_eq!(rig.code("SELECT a FROM t GROUP BY a HAVING b > 1"), 1054);

    // The primary key determines its table, equalities carry that on.
    assert_eq!(
        rig.rows("SELECT b, COUNT(*) FROM t GROUP BY id"),
        ["one|1", "two|1"]
    );
    assert_eq!(
        rig.rows("SELECT t.b FROM t JOIN u ON u.tid = t.id GROUP BY u.x"),
        ["one", "two"]
    );
    assert_eq!(rig.rows("SELECT a, COUNT(*) FROM t WHERE a = 10"), ["10|1"]);
    assert_eq!(
        rig.rows("SELECT ANY_VALUE(a), COUNT(*) FROM t WHERE id = 1"),
        ["10|1"]
    );
    assert_eq!(
        rig.rows("SELECT ANY_VALUE(a) FROM t ORDER BY id"),
        ["10", "20"]
    );

    rig.sql_mode = SqlMode(0);
    assert_eq!(
        rig.rows("SELECT b, COUNT(*) FROM t GROUP BY a"),
        ["one|1", "two|1"]
    );
}

#[test]
fn columns_of_natural_joins() {
    let rig = Rig::new(&[
        "CREATE TABLE p (k INT, a INT, z INT)",
        "CREATE TABLE q (z INT, b INT, k INT)",
        "INSERT INTO p VALUES (1, 2, 3)",
        "INSERT INTO q VALUES (3, 4, 1), (9, 9, 9)",
    ]);
    let names = |sql: &str| {
        let (columns, rows) = rig.run(sql, &[]).expect("runs");
        let names: Vec<String> = columns.iter().map(|c| c.name.to_string()).collect();
        (names.join(","), rows.len())
    };
    assert_eq!(
        names("SELECT * FROM p NATURAL JOIN q"),
        ("k,z,a,b".into(), 1)
    );
    assert_eq!(
        names("SELECT * FROM p JOIN q USING (z)"),
        ("z,k,a,b,k".into(), 1)
    );
    assert_eq!(
        names("SELECT * FROM p NATURAL RIGHT JOIN q"),
        ("z,k,b,a".into(), 2)
    );
    assert_eq!(
        rig.rows("SELECT k FROM p NATURAL RIGHT JOIN q ORDER BY k"),
        ["1", "9"]
    );
    assert_eq!(
        rig.rows("SELECT p.k, q.k FROM p NATURAL RIGHT JOIN q ORDER BY q.k"),
        ["1|1", "NULL|9"]
    );
}

#[test]
fn metadata_of_columns() {
    let rig = rig();
    let sql = "SELECT x.id AS i, x.b, x.a + 1, COUNT(*), 'lit', u.id, NULL, 1.50 \
               FROM t x LEFT JOIN u ON u.tid = x.id GROUP BY x.id, u.id";
    let (columns, _) = rig.run(sql, &[]).expect("runs");
    let id = &columns[0];
    assert_eq!((&*id.name, &*id.org_name), ("i", "id"));
    assert_eq!((&*id.table, &*id.org_table, &*id.schema), ("x", "t", "d"));
    assert!(!id.ty.nullable && id.ty.kind == TypeKind::Int);
    let key = meta_flag::PRI_KEY | meta_flag::PART_KEY;
    assert_eq!(id.flags, key | meta_flag::NO_DEFAULT_VALUE);
    let b = &columns[1];
    assert_eq!((&b.ty.kind, b.ty.length), (&TypeKind::VarChar, 20));
    assert_eq!(b.ty.collation, Collation::UTF8MB4_0900_AI_CI);
    let sum = &columns[2];
    assert_eq!(
        (&*sum.name, &*sum.org_name, &*sum.table),
        ("x.a + 1", "", "")
    );
    assert_eq!((&sum.ty.kind, sum.ty.nullable), (&TypeKind::BigInt, true));
    let count = &columns[3];
    assert_eq!(
        (&*count.name, &count.ty.kind, count.ty.nullable),
        ("COUNT(*)", &TypeKind::BigInt, false)
    );
    assert_eq!(
        (&*columns[4].name, &columns[4].ty.kind, columns[4].ty.length),
        ("lit", &TypeKind::VarChar, 3)
    );
    // The inner side of an outer join may be null whatever the column says.
    assert!(columns[5].ty.nullable);
    assert_eq!(
        columns[5].flags & meta_flag::AUTO_INCREMENT,
        meta_flag::AUTO_INCREMENT
    );
    assert_eq!(
        (&*columns[6].name, &columns[6].ty.kind),
        ("NULL", &TypeKind::Null)
    );
    assert_eq!((columns[7].ty.length, columns[7].ty.decimals), (3, 2));
}

#[test]
fn parameters_are_typed_by_their_values() {
    let rig = rig();
    let params = [Value::Int(2), Value::str("two")];
    assert_eq!(
        rig.rows_with("SELECT id FROM t WHERE id = ? AND b = ?", &params),
        ["2"]
    );
    assert_eq!(rig.rows_with("SELECT ? + 1", &[Value::Int(41)]), ["42"]);
    assert_eq!(
        rig.rows_with("SELECT id FROM t LIMIT ?", &[Value::Int(1)]),
        ["1"]
    );
    assert_eq!(
        rig.rows_with("SELECT id FROM t WHERE id = ?", &[Value::Null]),
        [""; 0]
    );
}

#[test]
fn variables() {
    let rig = rig();
    assert_eq!(rig.rows("SELECT @nope"), ["NULL"]);
    assert_eq!(rig.rows("SELECT @n := 5, @n + 1"), ["5|6"]);
    assert_eq!(
        rig.rows("SELECT @n := @n + id FROM t ORDER BY id"),
        ["6", "8"]
    );
    assert_eq!(rig.rows("SELECT @n, @@answer"), ["8|42"]);
    assert_eq!(rig.code("SELECT @@nope"), 1193);
}

#[test]
fn computed_tables_get_their_conditions() {
    let rig = rig();
    assert_eq!(
        rig.rows("SELECT n FROM v.numbers WHERE name = 'three'"),
        ["3"]
    );
    assert_eq!(
        rig.rows("SELECT t.b FROM v.numbers JOIN t ON t.id = n ORDER BY n"),
        ["one", "two"]
    );
    assert_eq!(
        rig.rows("SELECT COUNT(*) FROM v.numbers WHERE name LIKE 'f%'"),
        ["2"]
    );
}
