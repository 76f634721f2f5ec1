//! Operators against frozen results of MySQL.

use super::*;
use crate::cast::{to_str, write_text};
use crate::testing::{NOW_MICROS, column_type, diagnostics, literal, with_ctx_at};

fn operator(text: &str) -> BinOp {
    use BinOp as B;
    [
        B::Add,
        B::Sub,
        B::Mul,
        B::Div,
        B::IntDiv,
        B::Mod,
        B::BitAnd,
        B::BitOr,
        B::BitXor,
        B::ShiftLeft,
        B::ShiftRight,
    ]
    .into_iter()
    .find(|op| op.symbol() == text)
    .unwrap()
}

const FACTS: ArithFacts = ArithFacts {
    div_precision_increment: 4,
    no_unsigned_subtraction: false,
};

/// A negative literal is an operator and a literal to MySQL.
fn as_printed(text: &str) -> String {
    match text.strip_prefix('-') {
        Some(rest) => format!("-({rest})"),
        None => text.into(),
    }
}

#[test]
fn operators_give_what_mysqls_give() {
    let mut wrong = Vec::new();
    let mut cases = 0;
    for line in include_str!("operators.tsv")
        .lines()
        .filter(|l| !l.starts_with('#'))
    {
        let f: Vec<&str> = line.split('\t').collect();
        let [left, op, right, result, diag] = f[..] else {
            panic!("five fields: {line}")
        };
        cases += 1;
        let ((a, a_ty), (b, b_ty)) = (literal(left), literal(right));
        let ty = result_type(operator(op), &a_ty, &b_ty, &FACTS);
        let text = format!("({} {op} {})", as_printed(left), as_printed(right));
        let got = with_ctx_at(SqlMode::DEFAULT, NOW_MICROS, |ctx| {
            let got = eval(ctx, operator(op), &a, &b, &ty, &text);
            let shown = match &got {
                Err(_) => "!".to_owned(),
                Ok(Value::Null) => "NULL".into(),
                Ok(v) => {
                    let mut text = Vec::new();
                    write_text(v.as_ref(), &ty, &mut text);
                    String::from_utf8(text).unwrap()
                }
            };
            (shown, diagnostics(ctx, got.as_ref().err()))
        });
        if got != (result.to_owned(), diag.to_owned()) {
            wrong.push(format!(
                "{text}\n   mysql {:?}\n   we    {got:?}",
                (result, diag)
            ));
        }
    }
    assert!(cases > 1900);
    assert!(
        wrong.is_empty(),
        "{} differ:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

/// The type of a result as the table shows it: every integer type is "int" (the table's come from
/// CREATE TABLE AS, which picks by display width).
fn shown_type(ty: &SqlType) -> String {
    let unsigned = if ty.unsigned { " unsigned" } else { "" };
    match ty.kind {
        TypeKind::Decimal => format!("decimal({},{}){unsigned}", ty.length, ty.decimals),
        TypeKind::Double if ty.decimals < NOT_FIXED_DECIMALS => {
            format!("double(22,{}){unsigned}", ty.decimals)
        }
        TypeKind::Double => format!("double{unsigned}"),
        _ => format!("int{unsigned}"),
    }
}

#[test]
fn result_types_are_mysqls() {
    let mut wrong = Vec::new();
    let mut cases = 0;
    for line in include_str!("types.tsv")
        .lines()
        .filter(|l| !l.starts_with('#'))
    {
        let f: Vec<&str> = line.split('\t').collect();
        let [left, op, right, expected] = f[..] else {
            panic!("four fields: {line}")
        };
        let ty = result_type(
            operator(op),
            &column_type(left),
            &column_type(right),
            &FACTS,
        );
        let got = shown_type(&ty);
        let expected = expected
            .replace("bigint", "int")
            .replace("double(22,31)", "double");
        if got != expected {
            wrong.push(format!("{left} {op} {right}: mysql {expected} we {got}"));
        }
        cases += 1;
    }
    assert!(cases > 500);
    assert!(
        wrong.is_empty(),
        "{} differ:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

#[test]
fn negation_and_complement() {
    let neg = |value: &str, constant: bool| {
        let (v, ty) = literal(value);
        let ty = unary_type(UnOp::Neg, &ty, constant.then_some(&v));
        let got = with_ctx_at(SqlMode::DEFAULT, 0, |ctx| {
            eval_unary(ctx, UnOp::Neg, &v, &ty, &format_args!("-({value})"))
        });
        got.map(|v| String::from_utf8(to_str(&v, &ty).into_owned()).unwrap())
            .map_err(|e| e.message)
    };
    assert_eq!(neg("5", false).as_deref(), Ok("-5"));
    assert_eq!(neg("1.50", false).as_deref(), Ok("-1.50"));
    assert_eq!(neg("'1abc'", false).as_deref(), Ok("-1"));
    assert_eq!(neg("'abc'", false).as_deref(), Ok("-0"));
    assert_eq!(
        neg("9223372036854775808", true).as_deref(),
        Ok("-9223372036854775808")
    );
    assert_eq!(
        neg("18446744073709551615", true).as_deref(),
        Ok("-18446744073709551615")
    );
    assert_eq!(
        neg("18446744073709551615", false).unwrap_err(),
        "BIGINT value is out of range in '-(18446744073709551615)'"
    );
    assert_eq!(
        neg("-9223372036854775808", true).as_deref(),
        Ok("9223372036854775808")
    );
    assert_eq!(neg("null", false).as_deref(), Ok(""));
    with_ctx_at(SqlMode::DEFAULT, 0, |ctx| {
        let ty = unary_type(UnOp::BitNot, &SqlType::bigint(false), None);
        let not = eval_unary(ctx, UnOp::BitNot, &Value::Int(0), &ty, &"~0").unwrap();
        assert!(matches!(not, Value::UInt(u64::MAX)));
    });
}

#[test]
fn binary_strings_are_operated_on_byte_by_byte() {
    let ty = SqlType::varchar(2, Collation::BINARY);
    let run = |op, a: &[u8], b: Value, b_ty: &SqlType| {
        let result = result_type(op, &ty, b_ty, &FACTS);
        with_ctx_at(SqlMode::DEFAULT, 0, |ctx| {
            match eval(ctx, op, &Value::str(a), &b, &result, &"") {
                Ok(Value::Str(s)) => Ok(s),
                Ok(other) => panic!("{other:?}"),
                Err(e) => Err(e.code),
            }
        })
    };
    let bytes = |op, b: &[u8]| run(op, b"ab", Value::str(b), &ty);
    assert_eq!(bytes(BinOp::BitAnd, b"cd").unwrap(), b"a`");
    assert_eq!(bytes(BinOp::BitOr, b"cd").unwrap(), b"cf");
    assert_eq!(bytes(BinOp::BitXor, b"ab").unwrap(), [0, 0]);
    assert_eq!(bytes(BinOp::BitXor, b"abc"), Err(3513));
    let shift = |op, n| run(op, b"ab", Value::Int(n), &SqlType::bigint(false)).unwrap();
    assert_eq!(shift(BinOp::ShiftLeft, 4), [0x16, 0x20]);
    assert_eq!(shift(BinOp::ShiftRight, 4), [0x06, 0x16]);
    assert_eq!(shift(BinOp::ShiftLeft, 8), [b'b', 0]);
    assert_eq!(shift(BinOp::ShiftRight, 9), [0, 0x30]);
    assert_eq!(shift(BinOp::ShiftLeft, 99), [0, 0]);
    with_ctx_at(SqlMode::DEFAULT, 0, |ctx| {
        let not = unary_type(UnOp::BitNot, &ty, None);
        let v = eval_unary(ctx, UnOp::BitNot, &Value::str("ab"), &not, &"").unwrap();
        assert!(matches!(v, Value::Str(s) if s == [0x9e, 0x9d]));
    });
}

#[test]
fn modes_change_subtraction_and_division() {
    let (a, b) = (Value::UInt(1), Value::Int(2));
    let (a_ty, b_ty) = (SqlType::bigint(true), SqlType::bigint(false));
    with_ctx_at(SqlMode::NO_UNSIGNED_SUBTRACTION, 0, |ctx| {
        let ty = result_type(BinOp::Sub, &a_ty, &b_ty, &ArithFacts::of(ctx));
        assert!(matches!(
            eval(ctx, BinOp::Sub, &a, &b, &ty, &""),
            Ok(Value::Int(-1))
        ));
        let ty = result_type(BinOp::Div, &a_ty, &b_ty, &ArithFacts::of(ctx));
        assert!(matches!(
            eval(ctx, BinOp::Div, &a, &Value::Int(0), &ty, &""),
            Ok(Value::Null)
        ));
        assert_eq!(
            ctx.diagnostics.count(),
            0,
            "only ERROR_FOR_DIVISION_BY_ZERO warns"
        );
    });
    with_ctx_at(SqlMode::DEFAULT, 0, |ctx| {
        ctx.diagnostics.strict_write.set(true);
        let ty = result_type(BinOp::Mod, &a_ty, &b_ty, &ArithFacts::of(ctx));
        let e = eval(ctx, BinOp::Mod, &a, &Value::Int(0), &ty, &"").unwrap_err();
        assert_eq!(
            (e.code, e.state, e.message.as_str()),
            (1365, "22012", "Division by 0")
        );
    });
}
