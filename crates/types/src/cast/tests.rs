//! Table driven: what MySQL did with several hundred assignments and casts.

use super::*;
use crate::collation::Collation;
use crate::ctx::SqlMode;
use crate::sqltype::{SqlType, TypeKind};
use crate::testing::{column_type, diagnostics, literal, with_ctx_at};
use crate::value::Value;

/// What a stored value looks like in the tables.
fn shown(v: &Value, ty: &SqlType) -> String {
    let mut text = Vec::new();
    write_text(v.as_ref(), ty, &mut text);
    let hex = |b: &[u8]| b.iter().map(|b| format!("{b:02X}")).collect::<String>();
    match v {
        Value::Null => "NULL".into(),
        Value::Bit(n, _) => format!("{n:X}"),
        Value::Str(s) if ty.collation.is_binary() => hex(s),
        _ => String::from_utf8(text).unwrap(),
    }
}

fn assign(mode: SqlMode, ty: &str, value: &str) -> (String, String) {
    let (v, from) = literal(value);
    let ty = column_type(ty);
    let mut out = Default::default();
    with_ctx_at(mode, crate::testing::NOW_MICROS, |ctx| {
        ctx.diagnostics.strict_write.set(mode.is_strict());
        let result = to_column(ctx, v.clone(), &from, &ty, "c", 1);
        let stored = result.as_ref().map_or("!".into(), |v| shown(v, &ty));
        let mut raised = ctx.diagnostics.take();
        raised.kept.dedup();
        ctx.diagnostics.add_raised(&raised);
        out = (diagnostics(ctx, result.as_ref().err()), stored);
    });
    out
}

const STRICT: SqlMode =
    SqlMode(SqlMode::STRICT_TRANS_TABLES.0 | SqlMode::NO_ZERO_IN_DATE.0 | SqlMode::NO_ZERO_DATE.0);

#[test]
fn columns_take_what_mysql_columns_take() {
    let mut wrong = Vec::new();
    let mut cases = 0;
    for line in include_str!("testdata/column.tsv")
        .lines()
        .filter(|l| !l.starts_with('#'))
    {
        let f: Vec<&str> = line.split('\t').collect();
        let [ty, value, strict, strict_stored, lax, lax_stored] = f[..] else {
            panic!("six fields: {line}")
        };
        cases += 1;
        for (mode, diag, stored) in [
            (STRICT, strict, strict_stored),
            (SqlMode(0), lax, lax_stored),
        ] {
            let got = assign(mode, ty, value);
            // Two errors at once: the statement reports the first.
            let first = if diag.starts_with('E') {
                diag.split(" ; E").next()
            } else {
                None
            };
            let expected = (first.unwrap_or(diag).to_owned(), stored.to_owned());
            if got != expected {
                wrong.push(format!(
                    "{ty} <- {value}\n   mysql {expected:?}\n   we    {got:?}"
                ));
            }
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

/// A target of CAST as the table writes it.
fn cast_type(text: &str) -> SqlType {
    let string = Collation::UTF8MB4_0900_AI_CI;
    match text {
        "signed" => SqlType::bigint(false),
        "unsigned" => SqlType::bigint(true),
        "char" => SqlType::varchar(u32::MAX, string),
        "char(3)" => SqlType::varchar(3, string),
        other => column_type(other),
    }
}

#[test]
fn casts_give_what_mysql_casts_give() {
    let mut wrong = Vec::new();
    let mut cases = 0;
    for line in include_str!("testdata/cast.tsv")
        .lines()
        .filter(|l| !l.starts_with('#'))
    {
        let f: Vec<&str> = line.split('\t').collect();
        let [value, ty, result, diag] = f[..] else {
            panic!("four fields: {line}")
        };
        cases += 1;
        let ((v, from), to) = (literal(value), cast_type(ty));
        let got = with_ctx_at(SqlMode::DEFAULT, crate::testing::NOW_MICROS, |ctx| {
            let got = cast(ctx, &v, &from, &to, &"%");
            let text = got.as_ref().map_or("!".into(), |v| shown(v, &to));
            (text, diagnostics(ctx, got.as_ref().err()))
        });
        if got != (result.to_owned(), diag.to_owned()) {
            wrong.push(format!(
                "cast({value} as {ty})\n   mysql {:?}\n   we    {got:?}",
                (result, diag)
            ));
        }
    }
    assert!(cases > 600);
    assert!(
        wrong.is_empty(),
        "{} differ:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

#[test]
fn doubles_print_as_mysql_prints_them() {
    let text = |v: f64, kind: TypeKind| {
        let mut text = Vec::new();
        write_text(Value::Double(v).as_ref(), &SqlType::new(kind), &mut text);
        String::from_utf8(text).unwrap()
    };
    let mut cases = 0;
    for line in include_str!("testdata/doubles.tsv")
        .lines()
        .filter(|l| !l.starts_with('#'))
    {
        let f: Vec<&str> = line.split('\t').collect();
        let [written, double, float, float_as_double] = f[..] else {
            panic!("{line}")
        };
        let v: f64 = written.parse().unwrap();
        let narrow = f64::from(v.clamp(f32::MIN.into(), f32::MAX.into()) as f32);
        assert_eq!(text(v, TypeKind::Double), double);
        assert_eq!(text(narrow, TypeKind::Float), float);
        assert_eq!(text(narrow, TypeKind::Double), float_as_double);
        cases += 1;
    }
    assert!(cases > 100);
    for (v, shown) in [
        (0.0, "0"),
        (-0.0, "-0"),
        (1e14, "100000000000000"),
        (1e15, "1e15"),
        (999_999_999_999_999.0, "999999999999999"),
        (1e-15, "0.000000000000001"),
        (1e-16, "1e-16"),
        (0.1 + 0.2, "0.30000000000000004"),
        (123_456_789_012_345_678.0, "1.2345678901234568e17"),
        (-1.5e-20, "-1.5e-20"),
        (f64::MAX, "1.7976931348623157e308"),
        (5e-324, "5e-324"),
    ] {
        assert_eq!(text(v, TypeKind::Double), shown);
    }
}

#[test]
fn types_decide_how_values_print() {
    let text = |v: Value, ty: SqlType| {
        let mut out = b"|".to_vec();
        write_text(v.as_ref(), &ty, &mut out);
        String::from_utf8(out).unwrap()
    };
    let zero = |ty: SqlType, length| SqlType {
        zerofill: true,
        unsigned: true,
        length,
        ..ty
    };
    assert_eq!(
        text(Value::UInt(42), zero(SqlType::bigint(true), 5)),
        "|00042"
    );
    assert_eq!(
        text(Value::UInt(123_456), zero(SqlType::bigint(true), 5)),
        "|123456"
    );
    let d = Value::Decimal("1.5".parse().unwrap());
    assert_eq!(text(d.clone(), SqlType::decimal(5, 3)), "|1.500");
    assert_eq!(text(d.clone(), SqlType::decimal(5, 0)), "|2");
    assert_eq!(text(d, zero(SqlType::decimal(6, 2), 6)), "|0001.50");
    assert_eq!(text(Value::Int(0), SqlType::new(TypeKind::Year)), "|0000");
    assert_eq!(
        text(Value::Int(2024), SqlType::new(TypeKind::Year)),
        "|2024"
    );
    let scaled = SqlType {
        decimals: 2,
        ..SqlType::new(TypeKind::Double)
    };
    assert_eq!(text(Value::Double(1.005), scaled), "|1.00");
    assert_eq!(text(Value::Null, SqlType::bigint(false)), "|");
    assert_eq!(
        text(Value::Int(i64::MIN), SqlType::bigint(false)),
        format!("|{}", i64::MIN)
    );
    assert_eq!(
        text(Value::UInt(u64::MAX), SqlType::bigint(true)),
        format!("|{}", u64::MAX)
    );
    assert_eq!(
        text(Value::Bit(0x4142, 15), SqlType::new(TypeKind::Bit)),
        "|AB"
    );
    assert_eq!(text(Value::Bit(0x41, 3), SqlType::new(TypeKind::Bit)), "|A");
    let moment = crate::DateTime::from_utc_micros(1_767_268_800_250_000).unwrap();
    let fsp = |n| SqlType {
        decimals: n,
        ..SqlType::new(TypeKind::DateTime)
    };
    assert_eq!(
        text(Value::DateTime(moment), fsp(0)),
        "|2026-01-01 12:00:00"
    );
    assert_eq!(
        text(Value::DateTime(moment), fsp(3)),
        "|2026-01-01 12:00:00.250"
    );
    let time = Value::Time(crate::Time::MIN);
    assert_eq!(
        text(
            time,
            SqlType {
                decimals: 1,
                ..SqlType::new(TypeKind::Time)
            }
        ),
        "|-838:59:59.0"
    );
    assert_eq!(
        text(
            Value::Label(3, b"a,b"[..].into()),
            SqlType::new(TypeKind::Null)
        ),
        "|a,b"
    );
}

#[test]
fn implicit_conversions_warn_once() {
    with_ctx_at(SqlMode::DEFAULT, 0, |ctx| {
        assert_eq!(to_f64(ctx, &Value::str("1abc")), Ok(1.0));
        assert_eq!(to_f64(ctx, &Value::str(" 12.5 ")), Ok(12.5));
        assert_eq!(to_f64(ctx, &Value::str("")), Ok(0.0));
        assert_eq!(to_int(ctx, &Value::str("9x")), Ok(9));
        assert_eq!(to_i64(ctx, &Value::UInt(u64::MAX)), Ok(i64::MAX));
        assert_eq!(to_u64(ctx, &Value::Int(-1)), Ok(u64::MAX));
        assert_eq!(to_int(ctx, &Value::Double(2.5)), Ok(2));
        assert_eq!(to_int(ctx, &Value::Double(1e30)), Ok(i64::MAX.into()));
        assert_eq!(to_bool(ctx, &Value::str("0.5")), Ok(true));
        assert_eq!(to_bool(ctx, &Value::str("x")), Ok(false));
        assert_eq!(
            to_decimal(ctx, &Value::str("-1.50")).unwrap().to_string(),
            "-1.50"
        );
        let warnings: Vec<String> = ctx
            .diagnostics
            .kept()
            .iter()
            .map(|w| w.message.clone())
            .collect();
        assert_eq!(
            warnings,
            [
                "Truncated incorrect DOUBLE value: '1abc'",
                "Truncated incorrect INTEGER value: '9x'",
                "Truncated incorrect INTEGER value: '1e30'",
                "Truncated incorrect DOUBLE value: 'x'",
            ]
        );
        ctx.diagnostics.strict_write.set(true);
        let error = to_f64(ctx, &Value::str("1abc")).unwrap_err();
        assert_eq!((error.code, error.state), (1292, "22007"));
    });
}

#[test]
fn messages_show_bytes_and_stop() {
    assert_eq!(quoted(b"a\xffb\xc3\xa9"), "a\\xFFb\u{e9}");
    assert_eq!(quoted("\u{e9}".repeat(100).as_bytes()), "\u{e9}".repeat(64));
    assert_eq!(literal_bytes_to_u64(&[0, 0, 1, 2]), Some(258));
    assert_eq!(literal_bytes_to_u64(&[1; 9]), None);
}

#[test]
fn implicit_defaults_fit_their_columns() {
    for ty in [
        "int",
        "int unsigned",
        "decimal(5,2)",
        "double",
        "varchar(3)",
        "binary(3)",
        "date",
        "timestamp",
        "time",
        "year",
        "bit(3)",
        "set('a','b')",
        "enum('x','y')",
    ] {
        let ty = column_type(ty);
        let v = implicit_default(&ty);
        with_ctx_at(SqlMode(0), 0, |ctx| {
            let again = to_column(ctx, v.clone(), &ty, &ty, "c", 1).unwrap();
            assert_eq!(to_str(&again, &ty), to_str(&v, &ty));
            assert_eq!(ctx.diagnostics.count(), 0, "{ty:?}");
        });
    }
}

/// The codes of the warnings of an assignment that is not strict, though the mode may be (IGNORE).
fn warned(mode: SqlMode, ty: &str, value: &str) -> (Vec<u16>, String) {
    let (v, from) = literal(value);
    let ty = column_type(ty);
    let mut out = Default::default();
    with_ctx_at(mode, crate::testing::NOW_MICROS, |ctx| {
        let stored = to_column(ctx, v.clone(), &from, &ty, "c", 1).unwrap();
        let codes = ctx.diagnostics.kept().iter().map(|w| w.code).collect();
        out = (codes, shown(&stored, &ty));
    });
    out
}

#[test]
fn what_is_out_of_range_twice_warns_twice() {
    const WIDE: &str = "99999999999999999999";
    for (mode, ty, value, codes, stored) in [
        (
            SqlMode(0),
            "tinyint",
            "9223372036854775808.4",
            &[1264, 1264][..],
            "127",
        ),
        (SqlMode(0), "tinyint", "300", &[1264], "127"),
        (
            SqlMode(0),
            "tinyint unsigned",
            "9223372036854775808.4",
            &[1264],
            "255",
        ),
        (SqlMode(0), "tinyint unsigned", WIDE, &[1264, 1264], "255"),
        (SqlMode(0), "bigint", WIDE, &[1264], "9223372036854775807"),
        (SqlMode(0), "int", "5e9", &[1264], "2147483647"),
        (
            SqlMode(0),
            "int unsigned",
            "5e9",
            &[1264, 1264],
            "4294967295",
        ),
        (SqlMode(0), "int unsigned", "-5e9", &[1264], "0"),
        (SqlMode(0), "year", WIDE, &[1264, 1264], "0000"),
        (SqlMode(0), "year", "'300 x'", &[1264], "0000"),
        (SqlMode(0), "year", "'2000 x'", &[1265], "2000"),
        (SqlMode(0), "bit(8)", "300", &[1264], "FF"),
        (STRICT, "bit(8)", "300", &[1406], "FF"),
        (STRICT, "bit(8)", WIDE, &[1264, 1406], "FF"),
        (STRICT, "bit(8)", "-99999999999999999999", &[1264], "0"),
    ] {
        let got = warned(mode, ty, value);
        assert_eq!(got, (codes.to_vec(), stored.into()), "{ty} {value}");
    }
    let refused = assign(STRICT, "bit(8)", WIDE).0;
    assert!(refused.starts_with("E1264"), "{refused}");
}

#[test]
fn bytes_that_are_no_text_never_enter_a_text_column() {
    // As a parameter of a prepared statement brings them: called a text, looked at by nobody.
    let sent = Value::Str(b"ok\xFF\x00".to_vec());
    let from = SqlType::varchar(4, Collation::UTF8MB4_0900_AI_CI);
    let column = column_type("varchar(9)");
    let refused = "Incorrect string value: '\\xFF\\x00' @";
    for (strict, stored, raised) in [(true, "!", 'E'), (false, "ok", 'W')] {
        with_ctx_at(SqlMode::default(), crate::testing::NOW_MICROS, |ctx| {
            ctx.diagnostics.strict_write.set(strict);
            let result = to_column(ctx, sent.clone(), &from, &column, "c", 1);
            let value = result.as_ref().map_or("!".into(), |v| shown(v, &column));
            assert_eq!(value, stored);
            let said = diagnostics(ctx, result.as_ref().err());
            assert_eq!(said, format!("{raised}1366 {refused}"));
        });
    }
}
