//! What unit tests of kernels need: a context over a session without facts; literals, types
//! and diagnostics as the test tables write them.

use std::cell::Cell;
use std::sync::Arc;

use crate::collation::Collation;
use crate::ctx::{EvalCtx, EvalSettings, NoSession, SessionInfo, SqlMode};
use crate::error::{Level, SqlError, SqlResult};
use crate::sqltype::{SqlType, TypeKind};
use crate::temporal::{DateFlags, parse_datetime, parse_time};
use crate::value::Value;

/// 2026-01-01 12:00:00.25 UTC, the clock of the test tables.
pub(crate) const NOW_MICROS: i64 = 1_767_268_800_250_000;

/// A session whose statement is killed after it has been asked so many times whether it may go on.
pub(crate) struct Killed(Cell<u32>);

impl Killed {
    pub(crate) fn after(questions: u32) -> Self {
        Self(Cell::new(questions))
    }
}

impl SessionInfo for Killed {
    fn go_on(&self, _: usize) -> SqlResult<()> {
        let left = self.0.get().checked_sub(1);
        self.0
            .set(left.ok_or_else(|| SqlError::new(1317, "70100", "killed"))?);
        Ok(())
    }
}

/// Runs `f` with a context in UTC at `now_micros`.
pub(crate) fn with_ctx_at<T>(mode: SqlMode, now_micros: i64, f: impl FnOnce(&EvalCtx) -> T) -> T {
    let settings = EvalSettings {
        sql_mode: mode,
        now_micros,
        ..EvalSettings::default()
    };
    let ctx = EvalCtx::new(settings, &NoSession);
    f(&ctx)
}

/// A column type as the tables write it.
pub(crate) fn column_type(text: &str) -> SqlType {
    let (name, rest) = text.split_at(text.find(['(', ' ']).unwrap_or(text.len()));
    let inner = rest
        .strip_prefix('(')
        .and_then(|r| r.split_once(')'))
        .map_or("", |(i, _)| i);
    let unsigned = text.ends_with(" unsigned");
    let labels = || -> Arc<[Arc<str>]> {
        inner
            .split(',')
            .map(|l| Arc::from(l.trim_matches('\'')))
            .collect()
    };
    let numbers: Vec<u32> = inner.split(',').filter_map(|n| n.parse().ok()).collect();
    let kind = match name {
        "tinyint" => TypeKind::TinyInt,
        "int" => TypeKind::Int,
        "bigint" => TypeKind::BigInt,
        "decimal" => TypeKind::Decimal,
        "float" => TypeKind::Float,
        "double" => TypeKind::Double,
        "varchar" | "varbinary" => TypeKind::VarChar,
        "char" | "binary" => TypeKind::Char,
        "tinytext" => TypeKind::TinyText,
        "bit" => TypeKind::Bit,
        "year" => TypeKind::Year,
        "date" => TypeKind::Date,
        "datetime" => TypeKind::DateTime,
        "timestamp" => TypeKind::Timestamp,
        "time" => TypeKind::Time,
        "enum" => TypeKind::Enum(labels()),
        "set" => TypeKind::Set(labels()),
        other => panic!("type {other}"),
    };
    let mut ty = SqlType {
        unsigned,
        ..SqlType::new(kind)
    };
    if ty.is_string() || matches!(ty.kind, TypeKind::Enum(_) | TypeKind::Set(_)) {
        ty.collation = match name {
            _ if text.contains("latin1") => Collation::LATIN1_SWEDISH_CI,
            "varbinary" | "binary" => Collation::BINARY,
            _ => Collation::UTF8MB4_0900_AI_CI,
        };
    }
    // The display widths that MySQL gives by default.
    ty.length = match (&ty.kind, unsigned) {
        (TypeKind::TinyInt, true) => 3,
        (TypeKind::Int, true) => 10,
        _ => ty.length,
    };
    match (numbers.as_slice(), ty.is_temporal()) {
        ([fsp], true) => ty.decimals = *fsp as u8,
        ([length], false) => ty.length = *length,
        ([length, scale], _) => (ty.length, ty.decimals) = (*length, *scale as u8),
        _ => {}
    }
    ty
}

/// A literal as the tables write it.
pub(crate) fn literal(text: &str) -> (Value, SqlType) {
    let string = Collation::UTF8MB4_0900_AI_CI;
    let quoted = |prefix: &str| text.strip_prefix(prefix)?.strip_suffix('\'');
    if text == "null" {
        return (Value::Null, SqlType::new(TypeKind::Null));
    }
    if let Some(s) = quoted("'") {
        return (Value::str(s), SqlType::varchar(s.len() as u32, string));
    }
    if let Some(s) = quoted("x'") {
        let bytes: Vec<u8> = (0..s.len() / 2)
            .map(|i| u8::from_str_radix(&s[2 * i..2 * i + 2], 16).unwrap())
            .collect();
        return (
            Value::Str(bytes),
            SqlType::varchar(s.len() as u32 / 2, Collation::BINARY),
        );
    }
    let digits = text.split_once('.').map_or(0, |(_, f)| f.len() - 1) as u8;
    if let Some(s) = quoted("date'") {
        let d = parse_datetime(s.as_bytes(), DateFlags::NONE)
            .unwrap()
            .datetime
            .date();
        return (Value::Date(d), SqlType::new(TypeKind::Date));
    }
    if let Some(s) = quoted("timestamp'") {
        let d = parse_datetime(s.as_bytes(), DateFlags::NONE)
            .unwrap()
            .datetime;
        return (
            Value::DateTime(d),
            SqlType {
                decimals: digits,
                ..SqlType::new(TypeKind::DateTime)
            },
        );
    }
    if let Some(s) = quoted("time'") {
        let t = parse_time(s.as_bytes(), DateFlags::NONE).unwrap().time;
        return (
            Value::Time(t),
            SqlType {
                decimals: digits,
                ..SqlType::new(TypeKind::Time)
            },
        );
    }
    if text.contains('e') {
        return (
            Value::Double(text.parse().unwrap()),
            SqlType::new(TypeKind::Double),
        );
    }
    if let Ok(v) = text.parse::<i64>() {
        return (Value::Int(v), SqlType::bigint(false));
    }
    if let Ok(v) = text.parse::<u64>() {
        return (Value::UInt(v), SqlType::bigint(true));
    }
    let d: crate::Decimal = text.parse().unwrap();
    (
        Value::Decimal(d),
        SqlType::decimal(d.precision(), d.scale()),
    )
}

/// The diagnostics of a statement as the tables write them.
pub(crate) fn diagnostics(ctx: &EvalCtx, error: Option<&SqlError>) -> String {
    let place = " for column 'c' at row 1";
    let list: Vec<String> = ctx
        .diagnostics
        .kept()
        .iter()
        .map(|w| {
            let level = match w.level {
                Level::Note => 'N',
                Level::Warning => 'W',
                Level::Error => 'E',
            };
            format!("{level}{} {}", w.code, w.message)
        })
        .chain(error.map(|e| format!("E{} {}", e.code, e.message)))
        .map(|m| m.replace(place, " @"))
        .collect();
    if list.is_empty() {
        "-".into()
    } else {
        list.join(" ; ")
    }
}
