//! Comparisons against frozen results of MySQL.

use super::*;
use crate::ctx::SqlMode;
use crate::testing::{NOW_MICROS, column_type, diagnostics, literal, with_ctx_at};

fn constant(ty: &SqlType) -> Operand<'_> {
    Operand { ty, constant: true }
}

/// `=` and `<` as the table shows them, and the diagnostics.
fn compared(left: &str, right: &str) -> (String, String) {
    let ((a, a_ty), (b, b_ty)) = (literal(left), literal(right));
    let collation = if a_ty.is_string() && a_ty.collation.is_binary()
        || b_ty.is_string() && b_ty.collation.is_binary()
    {
        Collation::BINARY
    } else {
        Collation::UTF8MB4_0900_AI_CI
    };
    let kind = cmp_kind(constant(&a_ty), constant(&b_ty), collation);
    with_ctx_at(SqlMode::DEFAULT, NOW_MICROS, |ctx| {
        let order = check_date_constant(ctx, &a, &b_ty)
            .and_then(|()| check_date_constant(ctx, &b, &a_ty))
            .and_then(|()| compare(ctx, &a, &b, kind, (&a_ty, &b_ty)));
        let text = match &order {
            Err(_) => "!".into(),
            Ok(None) => "N N".into(),
            Ok(Some(o)) => format!("{} {}", u8::from(o.is_eq()), u8::from(o.is_lt())),
        };
        (text, diagnostics(ctx, order.as_ref().err()))
    })
}

#[test]
fn comparisons_give_what_mysqls_give() {
    let mut wrong = Vec::new();
    let mut cases = 0;
    for line in include_str!("comparisons.tsv")
        .lines()
        .filter(|l| !l.starts_with('#'))
    {
        let f: Vec<&str> = line.split('\t').collect();
        let [left, right, result, diag] = f[..] else {
            panic!("four fields: {line}")
        };
        cases += 1;
        let got = compared(left, right);
        if got != (result.to_owned(), diag.to_owned()) {
            wrong.push(format!(
                "{left} <=> {right}\n   mysql {:?}\n   we    {got:?}",
                (result, diag)
            ));
        }
    }
    assert!(cases > 900);
    assert!(
        wrong.is_empty(),
        "{} differ:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

fn as_column(value: &str, ty: &str) -> Option<String> {
    let (v, from) = literal(value);
    let ty = column_type(ty);
    with_ctx_at(SqlMode::DEFAULT, NOW_MICROS, |ctx| {
        let v = constant_as_column(ctx, &v, &from, &ty, false);
        assert_eq!(ctx.diagnostics.count(), 0, "tried quietly");
        v.map(|v| String::from_utf8(to_str(&v, &ty).into_owned()).unwrap())
    })
}

#[test]
fn constants_become_column_values_when_nothing_is_lost() {
    for (value, ty, expected) in [
        ("'5'", "int", Some("5")),
        ("' 5 '", "int", Some("5")),
        ("'5.0'", "int", Some("5")),
        ("5e0", "int", Some("5")),
        ("'5.5'", "int", None),
        ("'5x'", "int", None),
        ("''", "int", None),
        ("5000000000", "int", None),
        ("-1", "int unsigned", None),
        ("'9007199254740993'", "bigint", Some("9007199254740993")),
        ("9007199254740993e0", "bigint", Some("9007199254740992")),
        ("9007199254740993.0", "bigint", Some("9007199254740993")),
        ("24", "year", Some("2024")),
        ("'24'", "year", Some("2024")),
        ("'2024-1-2'", "date", Some("2024-01-02")),
        ("'2024-01-02 00:00:00'", "date", Some("2024-01-02")),
        ("'2024-01-02 10:00:00'", "date", None),
        ("20240102", "date", Some("2024-01-02")),
        ("'2024-01-02 10:00:00.5'", "datetime", None),
        ("'2024-01-02'", "datetime", Some("2024-01-02 00:00:00")),
        ("'x'", "datetime", None),
        ("'10:00'", "time", Some("10:00:00")),
        ("'10:00:00.5'", "time", None),
        ("100000", "time", Some("10:00:00")),
        ("null", "int", None),
        ("5", "decimal(5,2)", Some("5.00")),
        ("'1.50'", "decimal(5,2)", Some("1.50")),
        ("1.505", "decimal(5,2)", None),
        ("1000", "decimal(5,2)", None),
        ("1.5e0", "decimal(5,2)", None),
        ("'0.1'", "double", Some("0.1")),
        ("0.1", "double", Some("0.1")),
        ("0.1", "float", None),
        ("0.5", "float", Some("0.5")),
        ("'x'", "double", None),
        ("5", "bit(3)", Some("\u{5}")),
        ("9", "bit(3)", None),
        ("'longer than that'", "varchar(3)", Some("longer than that")),
        ("'a '", "char(3)", Some("a ")),
        ("5", "varchar(3)", None),
        ("x'41'", "varchar(3)", None),
        ("'a'", "enum('a')", None),
    ] {
        assert_eq!(as_column(value, ty).as_deref(), expected, "{value} as {ty}");
    }
}

#[test]
fn columns_and_constants_choose_their_domain() {
    let string = Collation::UTF8MB4_0900_AI_CI;
    let ty = |t: &str| column_type(t);
    let kind = |a: &str, b: &str| cmp_kind(&ty(a), &ty(b), string);
    assert_eq!(kind("int", "bigint unsigned"), CmpKind::Int);
    assert_eq!(kind("int", "decimal(5,2)"), CmpKind::Decimal);
    assert_eq!(kind("int", "varchar(5)"), CmpKind::Double);
    assert_eq!(kind("decimal(5,2)", "varchar(5)"), CmpKind::Double);
    assert_eq!(kind("decimal(5,2)", "double"), CmpKind::Double);
    assert_eq!(kind("varchar(5)", "enum('a')"), CmpKind::Str(string));
    assert_eq!(kind("int", "enum('a')"), CmpKind::Double);
    assert_eq!(kind("date", "datetime"), CmpKind::DateTime);
    assert_eq!(kind("date", "varchar(5)"), CmpKind::DateTime);
    assert_eq!(kind("date", "time"), CmpKind::DateTime);
    assert_eq!(kind("date", "int"), CmpKind::Double);
    assert_eq!(kind("time", "time"), CmpKind::Time);
    assert_eq!(kind("time", "varchar(5)"), CmpKind::Str(string));
    assert_eq!(kind("bit(3)", "int"), CmpKind::Int);
    let (decimal, text) = (ty("decimal(5,2)"), ty("varchar(5)"));
    assert_eq!(
        cmp_kind(&decimal, constant(&text), string),
        CmpKind::Decimal
    );
}

#[test]
fn sorting_and_hashing_agree() {
    let values: Vec<(Value, SqlType)> = [
        "null",
        "1",
        "-1",
        "18446744073709551615",
        "9223372036854775807",
    ]
    .map(literal)
    .into();
    let ty = SqlType::bigint(false);
    let mut numbers: Vec<Value> = values.into_iter().map(|(v, _)| v).collect();
    numbers.push(Value::UInt(1));
    for (i, a) in numbers.iter().enumerate() {
        for b in &numbers[i..] {
            assert_eq!(sort_cmp(a, b, &ty), sort_cmp(b, a, &ty).reverse());
            if sort_cmp(a, b, &ty).is_eq() {
                assert_eq!(hash64(a, &ty), hash64(b, &ty));
            }
        }
    }
    numbers.sort_by(|a, b| sort_cmp(a, b, &ty));
    let shown: Vec<String> = numbers
        .iter()
        .map(|v| {
            if v.is_null() {
                "NULL".into()
            } else {
                String::from_utf8(to_str(v, &ty).into_owned()).unwrap()
            }
        })
        .collect();
    assert_eq!(
        shown,
        [
            "NULL",
            "-1",
            "1",
            "1",
            "9223372036854775807",
            "18446744073709551615"
        ]
    );

    let decimal = SqlType::decimal(10, 2);
    let d = |t: &str| Value::Decimal(t.parse().unwrap());
    assert!(sort_cmp(&d("1.50"), &d("1.5"), &decimal).is_eq());
    assert_eq!(hash64(&d("1.50"), &decimal), hash64(&d("1.5"), &decimal));
    assert_ne!(hash64(&d("1.50"), &decimal), hash64(&d("15"), &decimal));
    let text = SqlType::varchar(5, Collation::UTF8MB4_0900_AI_CI);
    assert!(sort_cmp(&Value::str("ABC"), &Value::str("abc"), &text).is_eq());
    assert_eq!(
        hash64(&Value::str("ABC"), &text),
        hash64(&Value::str("abc"), &text)
    );
    let double = SqlType::new(TypeKind::Double);
    assert_eq!(
        hash64(&Value::Double(0.0), &double),
        hash64(&Value::Double(-0.0), &double)
    );
    let label = |n, t: &str| Value::Label(n, t.as_bytes().into());
    assert!(
        sort_cmp(
            &label(2, "a"),
            &label(1, "z"),
            &column_type("enum('z','a')")
        )
        .is_gt()
    );
}
