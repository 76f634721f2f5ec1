//! Values of aggregates, checked against MySQL 9.7, and that merging changes nothing.

use super::{AggState, AggTypes, lookup};
use crate::cast;
use crate::collation::{Coercibility, Collation};
use crate::ctx::{EvalCtx, SqlMode};
use crate::decimal::Decimal;
use crate::func::{ArgType, RetCtx};
use crate::sqltype::{SqlType, TypeKind};
use crate::testing::with_ctx_at;
use crate::value::Value;

const ALL: &[&str] = &[
    "count",
    "sum",
    "avg",
    "min",
    "max",
    "bit_and",
    "bit_or",
    "bit_xor",
    "std",
    "stddev_samp",
    "var_pop",
    "var_samp",
    "any_value",
    "group_concat",
];

fn types(ctx: &EvalCtx, name: &str, ty: &SqlType) -> AggTypes {
    let arg = ArgType {
        ty: ty.clone(),
        coercibility: Coercibility::Implicit,
        value: None,
    };
    let sig = lookup(name)
        .expect("exists")
        .bind(&[arg], &RetCtx::of(ctx))
        .expect("binds");
    AggTypes::new(vec![ty.clone()], &sig)
}

fn text(state: &mut dyn AggState, ctx: &EvalCtx, types: &AggTypes) -> String {
    let v = state.finish(ctx).expect("a result");
    if v.is_null() {
        return "NULL".into();
    }
    String::from_utf8(cast::to_str(&v, &types.ret).into_owned()).expect("text")
}

/// The result of one state over all rows, which must be that of two merged ones.
fn run(name: &str, ty: &SqlType, rows: &[Value]) -> String {
    with_ctx_at(SqlMode::DEFAULT, 0, |ctx| {
        let types = types(ctx, name, ty);
        let def = lookup(name).expect("exists");
        let fill = |rows: &[Value]| {
            let mut state = def.state(&types);
            rows.iter()
                .for_each(|v| state.update(ctx, std::slice::from_ref(v)).expect("updates"));
            state
        };
        let whole = text(&mut *fill(rows), ctx, &types);
        for cut in 0..=rows.len() {
            let mut first = fill(&rows[..cut]);
            first.merge(ctx, fill(&rows[cut..])).expect("merges");
            let merged = text(&mut *first, ctx, &types);
            if types.ret.kind == TypeKind::Double && whole != "NULL" {
                let (a, b): (f64, f64) = (whole.parse().unwrap(), merged.parse().unwrap());
                assert!((a - b).abs() <= a.abs() * 1e-12, "{name}: {a} {b}");
            } else {
                assert_eq!(whole, merged, "{name} merged at {cut}");
            }
        }
        whole
    })
}

/// A sum that comes as one of all rows, or of some beside single ones.
#[test]
fn sums_of_many_rows_at_once() {
    let rows = decimals(&["1.25", "-7.50", "0.00", "99999999.99"]);
    let digits = [125, -750, 0, 9_999_999_999_i128];
    for name in ["sum", "avg"] {
        let ty = SqlType::decimal(10, 2);
        let wanted = run(name, &ty, &rows);
        with_ctx_at(SqlMode::DEFAULT, 0, |ctx| {
            let types = types(ctx, name, &ty);
            for cut in 0..=rows.len() {
                let mut state = lookup(name).expect("exists").state(&types);
                for row in &rows[..cut] {
                    state
                        .update(ctx, std::slice::from_ref(row))
                        .expect("updates");
                }
                let rest = &digits[cut..];
                state
                    .add_sum(rest.len() as u64, rest.iter().sum(), 2)
                    .expect("adds");
                assert_eq!(text(&mut *state, ctx, &types), wanted, "{name} from {cut}");
            }
        });
    }
}

fn ints(rows: &[i64]) -> Vec<Value> {
    rows.iter().map(|v| Value::Int(*v)).collect()
}

fn decimals(rows: &[&str]) -> Vec<Value> {
    rows.iter()
        .map(|v| Value::Decimal(Decimal::parse(v.as_bytes()).0))
        .collect()
}

fn strings(rows: &[&str]) -> Vec<Value> {
    rows.iter().map(Value::str).collect()
}

#[test]
fn of_no_rows() {
    for name in ALL {
        let wanted = match *name {
            "count" | "bit_or" | "bit_xor" => "0",
            "bit_and" => "18446744073709551615",
            _ => "NULL",
        };
        assert_eq!(run(name, &SqlType::bigint(false), &[]), wanted, "{name}");
        assert_eq!(
            run(name, &SqlType::bigint(false), &[Value::Null]),
            wanted,
            "{name}"
        );
    }
}

#[test]
fn of_integers() {
    let ty = SqlType::bigint(false);
    let rows = [ints(&[1, 2, 4]), vec![Value::Null]].concat();
    for (name, wanted) in [
        ("count", "3"),
        ("sum", "7"),
        ("avg", "2.3333"),
        ("min", "1"),
        ("max", "4"),
        ("std", "1.247219128924647"),
        ("var_samp", "2.333333333333333"),
        ("bit_or", "7"),
        ("bit_xor", "7"),
        ("any_value", "1"),
        ("group_concat", "1,2,4"),
    ] {
        assert_eq!(run(name, &ty, &rows), wanted, "{name}");
    }
    assert_eq!(run("bit_and", &ty, &ints(&[6, 3])), "2");
    assert_eq!(run("avg", &ty, &ints(&[1, 2, 2])), "1.6667");
    assert_eq!(
        run("sum", &ty, &ints(&[i64::MAX, i64::MAX])),
        "18446744073709551614"
    );
    let unsigned = [Value::UInt(u64::MAX), Value::UInt(1)];
    assert_eq!(
        run("avg", &SqlType::bigint(true), &unsigned),
        "9223372036854775808.0000"
    );
}

#[test]
fn of_decimals_and_doubles() {
    let ty = SqlType::decimal(5, 2);
    let rows = decimals(&["1.50", "2.25"]);
    assert_eq!(run("sum", &ty, &rows), "3.75");
    assert_eq!(run("avg", &ty, &rows), "1.875000");
    assert_eq!(
        run("stddev_samp", &ty, &decimals(&["1.5", "2", "4"])),
        "1.3228756555322954"
    );
    // Beyond an i128, and with scales that differ from the column's.
    let large = "99999999999999999999999999999999999999999.9";
    let rows = decimals(&[large, large, "0.05"]);
    let sum = "199999999999999999999999999999999999999999.85";
    assert_eq!(run("sum", &SqlType::decimal(60, 2), &rows), sum);
    let doubles = [Value::Double(1.0), Value::Double(2.5)];
    assert_eq!(run("sum", &SqlType::new(TypeKind::Double), &doubles), "3.5");
}

#[test]
fn of_strings() {
    let ty = SqlType::varchar(10, Collation::UTF8MB4_0900_AI_CI);
    let rows = strings(&["b", "B", "a", "é"]);
    assert_eq!(run("min", &ty, &rows), "a");
    assert_eq!(run("max", &ty, &rows), "é");
    assert_eq!(run("max", &ty, &rows[..2]), "b", "the first of equal ones");
    assert_eq!(run("sum", &ty, &strings(&["1", "2x"])), "3");
    assert_eq!(run("group_concat", &ty, &rows), "b,B,a,é");
}

#[test]
fn count_of_rows_unseen() {
    with_ctx_at(SqlMode::DEFAULT, 0, |ctx| {
        let sig = lookup("COUNT")
            .expect("exists")
            .bind(&[], &RetCtx::of(ctx))
            .expect("binds");
        let types = AggTypes::new(Vec::new(), &sig);
        let mut state = lookup("count").expect("exists").state(&types);
        state.add_rows(5);
        state.update(ctx, &[]).expect("updates");
        state.update_int(ctx, 3).expect("updates");
        assert_eq!(text(&mut *state, ctx, &types), "7");
    });
}

#[test]
fn group_concat_is_cut_between_characters() {
    with_ctx_at(SqlMode::DEFAULT, 0, |ctx| {
        let mut types = types(
            ctx,
            "group_concat",
            &SqlType::varchar(2000, Collation::UTF8MB4_0900_AI_CI),
        );
        types.separator = b"; ".to_vec();
        let mut state = lookup("group_concat").expect("exists").state(&types);
        for row in ["x".repeat(1020), "é漢".into(), "more".into()] {
            state.update(ctx, &[Value::str(row)]).expect("updates");
        }
        assert_eq!(
            text(&mut *state, ctx, &types),
            format!("{}; é", "x".repeat(1020))
        );
        let warnings = ctx.diagnostics.kept();
        assert_eq!(warnings.len(), 1);
        assert_eq!(warnings[0].code, 1260);
        assert_eq!(warnings[0].message, "Row 2 was cut by GROUP_CONCAT()");
    });
}

#[test]
fn wrong_number_of_arguments() {
    with_ctx_at(SqlMode::DEFAULT, 0, |ctx| {
        let e = lookup("sum")
            .expect("exists")
            .bind(&[], &RetCtx::of(ctx))
            .unwrap_err();
        assert_eq!(e.code, 1582);
        assert!(lookup("median").is_none());
    });
}

#[test]
fn long_binary_strings_are_counted_as_they_come() {
    let ty = SqlType::varchar(200, Collation::BINARY);
    with_ctx_at(SqlMode::DEFAULT, 0, |ctx| {
        for name in ["bit_and", "bit_or", "bit_xor"] {
            let (types, def) = (types(ctx, name, &ty), lookup(name).expect("exists"));
            assert!(def.grows(&types), "{name}");
            let mut state = def.state(&types);
            assert_eq!(state.bytes(), 0, "{name}");
            let row = [Value::Str(vec![1; 200])];
            for _ in 0..2 {
                state.update(ctx, &row).expect("updates");
                assert_eq!(state.bytes(), 200, "{name}");
            }
        }
    });
    assert!(!with_ctx_at(SqlMode::DEFAULT, 0, |ctx| {
        let ty = SqlType::bigint(false);
        lookup("bit_or")
            .expect("exists")
            .grows(&types(ctx, "bit_or", &ty))
    }));
}
