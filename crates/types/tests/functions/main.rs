//! Every scalar function against what a real MySQL answered (`testdata/*.txt`): result type,
//! value, warnings, errors.
//!
//! `parse` reads the expressions, `session` is a session with fixed facts, `types` tests the types made
//! of columns, `large` what functions do with large values.

mod large;
mod parse;
mod session;
mod types;

use esker_types::cast;
use esker_types::collation::Coercibility;
use esker_types::func::{self, ArgType, FuncTypes, RetCtx, Signature};
use esker_types::sqltype::{SqlType, TypeKind};
use esker_types::temporal::{DateFlags, parse_datetime};
use esker_types::{EvalCtx, SqlError, SqlResult, Value};

use parse::{Expr, parse};
use session::with_context;

/// A computed expression: what a binder and an executor would know of it.
struct Done {
    value: Value,
    ty: SqlType,
    coercibility: Coercibility,
}

fn compute(ctx: &EvalCtx, expr: &Expr) -> SqlResult<Done> {
    match expr {
        Expr::Literal {
            value,
            ty,
            coercibility,
        } => Ok(Done {
            value: value.clone(),
            ty: ty.clone(),
            coercibility: *coercibility,
        }),
        Expr::Collate(inner, collation) => {
            let mut done = compute(ctx, inner)?;
            done.ty.collation = *collation;
            done.coercibility = Coercibility::Explicit;
            Ok(done)
        }
        Expr::Call(name, args) => {
            let missing =
                || SqlError::new(1305, "42000", format!("FUNCTION {name} does not exist"));
            let def = func::lookup(name).ok_or_else(missing)?;
            let args = args
                .iter()
                .map(|a| compute(ctx, a))
                .collect::<SqlResult<Vec<_>>>()?;
            let described: Vec<_> = args
                .iter()
                .map(|a| ArgType {
                    ty: a.ty.clone(),
                    coercibility: a.coercibility,
                    value: Some(&a.value),
                })
                .collect();
            let sig: Signature = def.bind(&described, &RetCtx::of(ctx))?;
            let types: Vec<_> = args.iter().map(|a| a.ty.clone()).collect();
            let values: Vec<_> = args.iter().map(|a| &a.value).collect();
            let value = def.call(ctx, &values, &FuncTypes::new(&types, &sig))?;
            Ok(Done {
                value,
                ty: sig.ret,
                coercibility: sig.coercibility,
            })
        }
    }
}

/// The type as the test data writes it.
fn type_text(ty: &SqlType) -> String {
    let decimals = ty.decimals;
    let collation = match ty.collation {
        // The data was asked through a utf8mb4 connection, which converts.
        c if c.is_binary() => 63,
        _ => 255,
    };
    let mut name = match &ty.kind {
        TypeKind::Null => "NULL".into(),
        TypeKind::TinyInt => "TINY".into(),
        TypeKind::SmallInt => "SHORT".into(),
        TypeKind::MediumInt => "INT24".into(),
        TypeKind::Int => "LONG".into(),
        TypeKind::BigInt => "LONGLONG".into(),
        TypeKind::Float => "FLOAT".into(),
        TypeKind::Double => "DOUBLE".into(),
        TypeKind::Decimal => format!("DECIMAL({},{decimals})", ty.length),
        TypeKind::Date => "DATE".into(),
        TypeKind::Time => format!("TIME({decimals})"),
        TypeKind::DateTime => format!("DATETIME({decimals})"),
        TypeKind::Timestamp => format!("TIMESTAMP({decimals})"),
        TypeKind::Year => "YEAR".into(),
        TypeKind::Char => format!("STRING#{collation}"),
        TypeKind::VarChar => format!("VAR_STRING#{collation}"),
        TypeKind::Bit => "BIT".into(),
        TypeKind::Enum(_) => "ENUM".into(),
        TypeKind::Set(_) => "SET".into(),
        _ => format!("BLOB#{collation}"),
    };
    if ty.unsigned && ty.is_integer() && ty.kind != TypeKind::Year {
        name.push_str(" UNSIGNED");
    }
    if !ty.nullable {
        name.push_str(" NOT NULL");
    }
    name
}

fn value_text(done: &Done) -> String {
    if done.value.is_null() {
        return "NULL".into();
    }
    let mut bytes = Vec::new();
    cast::write_text(done.value.as_ref(), &done.ty, &mut bytes);
    let is_bytes = done.ty.is_string() && done.ty.collation.is_binary();
    let short = matches!(done.ty.kind, TypeKind::Char | TypeKind::VarChar);
    if is_bytes && short || bytes.contains(&0) {
        let digits: String = bytes.iter().map(|b| format!("{b:02X}")).collect();
        return format!("x'{digits}'");
    }
    let text = String::from_utf8(bytes).expect("UTF-8");
    text.replace('\\', "\\\\")
        .replace('\n', "\\n")
        .replace('\t', "\\t")
}

/// The line that the data should have.
fn answer(expression: &str) -> String {
    with_context(
        |ctx| match parse(expression).and_then(|e| compute(ctx, &e)) {
            Err(e) => format!("{expression}\terror {}", e.code),
            Ok(done) => {
                let mut codes: Vec<_> = ctx.diagnostics.kept().iter().map(|w| w.code).collect();
                codes.sort_unstable();
                let codes: Vec<_> = codes.iter().map(u16::to_string).collect();
                let columns = [type_text(&done.ty), value_text(&done), codes.join(" ")];
                format!("{expression}\t{}", columns.join("\t"))
                    .trim_end()
                    .to_owned()
            }
        },
    )
}

/// Which part of the metadata is not compared: MySQL calls some results NOT NULL that could be
/// NULL for other arguments and the other way round, depending on constants.
fn comparable(line: &str) -> String {
    line.replace(" NOT NULL", "").trim_end().to_owned()
}

fn check(data: &str) {
    let mut wrong = Vec::new();
    let mut lines = 0;
    for line in data
        .lines()
        .filter(|l| !l.is_empty() && !l.starts_with('#'))
    {
        let line = line.trim_start_matches('!');
        let expression = line.split('\t').next().expect("a first column");
        let ours = answer(expression);
        lines += 1;
        if comparable(&ours) != comparable(line) {
            wrong.push(format!("wanted {line}\ngot    {ours}"));
        }
    }
    assert!(
        wrong.is_empty(),
        "{} of {lines} differ:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

#[test]
fn functions_answer_as_mysql() {
    check(include_str!("../../testdata/functions.txt"));
}

#[test]
fn date_functions_answer_as_mysql() {
    check(include_str!("../../testdata/dates.txt"));
}

/// NULL arguments everywhere: no function fails on them in a way it should not.
#[test]
fn null_in_every_place_is_no_panic() {
    for def in func::all().filter(|d| !d.flags.has(func::FuncFlags::BLOCKS)) {
        let most = if def.max_args == func::ANY_ARGS {
            def.min_args + 2
        } else {
            def.max_args
        };
        for n in def.min_args..=most {
            for value in [
                "null",
                "'x'",
                "-1",
                "1.5",
                "x'FF'",
                "date'0000-00-00'",
                "1e300",
                "''",
            ] {
                let args = (0..n).map(|_| parse(value).expect("parses")).collect();
                let expr = Expr::Call(def.name.into(), args);
                with_context(|ctx| drop(compute(ctx, &expr)));
            }
        }
    }
}

/// Functions whose answers depend on the session or on chance.
#[test]
fn session_functions() {
    let text = |expression: &str| {
        with_context(|ctx| {
            let done = compute(ctx, &parse(expression).expect("parses")).expect("computes");
            value_text(&done)
        })
    };
    for (expression, wanted) in [
        ("connection_id()", "7"),
        ("database()", "shop"),
        ("schema()", "shop"),
        ("user()", "root@localhost"),
        ("session_user()", "root@localhost"),
        ("current_user()", "root@%"),
        ("current_role()", "NONE"),
        ("version()", "8.4.0-esker"),
        ("row_count()", "-1"),
        ("found_rows()", "3"),
        ("sysdate(6)", "2023-11-14 22:13:21.123456"),
        ("get_lock('free', 1)", "1"),
        ("get_lock('Taken', 0)", "0"),
        ("release_lock('x')", "NULL"),
        ("is_free_lock('free')", "1"),
        ("is_used_lock('taken')", "9"),
        ("is_used_lock('FREE')", "NULL"),
        ("is_uuid(uuid())", "1"),
        ("length(random_bytes(13))", "13"),
        ("charset(user())", "utf8mb3"),
    ] {
        assert_eq!(text(expression), wanted, "{expression}");
    }
    assert_ne!(text("uuid()"), text("uuid()"));
    assert_ne!(text("uuid_short()"), text("uuid_short()"));
    assert_ne!(text("rand()"), "NULL");
}

#[test]
fn last_insert_id_is_set_for_the_session() {
    with_context(|ctx| {
        let ask = |expression: &str| {
            value_text(&compute(ctx, &parse(expression).expect("parses")).expect("computes"))
        };
        assert_eq!(ask("last_insert_id()"), "0");
        assert_eq!(ask("last_insert_id(42)"), "42");
        assert_eq!(ask("last_insert_id()"), "42");
    });
}

/// RAND(3) row by row, as MySQL 9.7 gives it.
#[test]
fn seeded_random_numbers_are_mysqls() {
    let mut rand = func::SeededRand::new(3);
    let drawn: Vec<f64> = (0..3).map(|_| rand.draw()).collect();
    assert_eq!(
        drawn,
        [0.9057697559760601, 0.37307905813034536, 0.14808605345719125]
    );
}

/// A zero date in a column (a text is refused by the SQL mode, with a warning): MySQL 9.7.
#[test]
fn zero_dates_in_columns() {
    let column = |text: &str| {
        let flags = DateFlags::FUZZY;
        let date = parse_datetime(text.as_bytes(), flags)
            .expect("a date")
            .datetime
            .date();
        let ty = SqlType::new(TypeKind::Date);
        Expr::Literal {
            value: Value::Date(date),
            ty,
            coercibility: Coercibility::Numeric,
        }
    };
    for (name, zero, partial) in [
        ("month", "0", "0"),
        ("year", "0", "2020"),
        ("dayofweek", "NULL", "NULL"),
        ("monthname", "NULL", "NULL"),
        ("date", "NULL", "NULL"),
        ("timestamp", "NULL", "NULL"),
        ("to_days", "NULL", "NULL"),
        ("week", "NULL", "NULL"),
        ("hour", "0", "0"),
    ] {
        for (text, wanted) in [("0000-00-00", zero), ("2020-00-10", partial)] {
            with_context(|ctx| {
                let call = Expr::Call(name.into(), vec![column(text)]);
                let done = compute(ctx, &call).expect("computes");
                assert_eq!(value_text(&done), wanted, "{name}({text})");
                assert_eq!(ctx.diagnostics.count(), 0, "{name}({text})");
            });
        }
    }
}

/// In a strict INSERT or UPDATE a bad value is an error.
#[test]
fn strict_writes_fail() {
    for (expression, code) in [
        ("date_add('x', interval 1 day)", 1292),
        ("str_to_date('x', '%Y')", 1411),
        ("ln(0)", 3020),
        ("char(255 using utf8mb4)", 1300),
        ("repeat('x', 100000000)", 1301),
        ("unhex('zz')", 1411),
    ] {
        with_context(|ctx| {
            ctx.diagnostics.strict_write.set(true);
            let failed = compute(ctx, &parse(expression).expect("parses")).err();
            assert_eq!(failed.map(|e| e.code), Some(code), "{expression}");
        });
    }
}

#[test]
fn unknown_and_absent_functions() {
    for name in ["st_buffer", "no_such_function"] {
        assert!(func::lookup(name).is_none(), "{name}");
    }
}
