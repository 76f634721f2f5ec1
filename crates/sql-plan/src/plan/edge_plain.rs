//! The place of a value among those of a column, of a value as it stands in a statement: without an expression around
//! it and without a look at modes.
//!
//! Neighbours: `edge` places whatever else is compared; `esker_sql_exec::short` makes the keys of short reads with
//! this. **Invariant**: what is placed is compared exactly, without a warning, and means the same in all modes; for the
//! rest there is no answer.

use esker_types::sqltype::NOT_FIXED_DECIMALS;
use esker_types::{Date, DateTime, Decimal, SqlType, TypeKind, Value, ValueRef};
use jiff::tz::TimeZone;

use super::edge::{Edge, decimal_edge, floor_decimal, in_floats, integer_edge, moment_edge};

/// Most digits of a text that is placed among integers: comparing them as doubles is exact then.
const MAX_DIGITS: usize = 15;

/// The place of a value in a column; TIMESTAMP is in `zone`. `None` where it is not known exactly.
pub fn locate_plain(value: ValueRef<'_>, column: &SqlType, zone: &TimeZone) -> Option<Edge> {
    let moment = match (&column.kind, value) {
        (TypeKind::Date | TypeKind::DateTime | TypeKind::Timestamp, value) => match value {
            ValueRef::Str(text) => moment(text)?,
            ValueRef::DateTime(moment) => moment,
            ValueRef::Date(date) => date.at_midnight(),
            _ => return None,
        },
        // Beside others a text is compared as a double, which several of their values may be equal to.
        (_, ValueRef::Str(text)) if column.is_integer() && column.kind != TypeKind::Year => {
            return locate_number(ValueRef::Int(integer(text)?), column);
        }
        (_, ValueRef::Str(_)) => return None,
        (_, value) => return locate_number(value, column),
    };
    let is_held = column.kind != TypeKind::Timestamp || moment.to_timestamp(zone).is_some();
    is_held.then(|| moment_edge(moment, column))
}

/// The integer that a text is, with digits and a sign alone.
fn integer(text: &[u8]) -> Option<i64> {
    let digits = text.strip_prefix(b"-").unwrap_or(text);
    let are_digits = digits.iter().all(u8::is_ascii_digit);
    let is_plain = are_digits && (1..=MAX_DIGITS).contains(&digits.len());
    is_plain.then(|| std::str::from_utf8(text).ok()?.parse().ok())?
}

/// The moment that a text is in the form in which such columns are shown: `2026-11-30`, `2026-11-30 09:05:00`, with up
/// to six digits of a second. Days that are not in the calendar are none.
fn moment(text: &[u8]) -> Option<DateTime> {
    let (date, time) = match text.len() {
        10 => (text, None),
        19..=26 if matches!(text[10], b' ' | b'T') => (&text[..10], Some(&text[11..])),
        _ => return None,
    };
    let [year, month, day] = [
        number(&date[..4])?,
        number(&date[5..7])?,
        number(&date[8..])?,
    ];
    let date = Date::new(year, month, day).filter(|date| date.is_calendar_day() && year > 0)?;
    if text[4] != b'-' || text[7] != b'-' {
        return None;
    }
    let Some(time) = time else {
        return Some(date.at_midnight());
    };
    let [hour, minute, second] = [
        number(&time[..2])?,
        number(&time[3..5])?,
        number(&time[6..8])?,
    ];
    let micro = match time[8..].split_first() {
        None => 0,
        Some((b'.', digits)) if !digits.is_empty() => {
            number(digits)? * 10u32.pow(6 - digits.len() as u32)
        }
        Some(_) => return None,
    };
    let has_colons = time[2] == b':' && time[5] == b':';
    has_colons.then(|| DateTime::new(date, hour, minute, second, micro))?
}

/// The number that some digits are.
fn number(digits: &[u8]) -> Option<u32> {
    debug_assert!(digits.len() < 8);
    let add = |sum: u32, digit: &u8| {
        digit
            .is_ascii_digit()
            .then(|| sum * 10 + u32::from(digit - b'0'))
    };
    digits.iter().try_fold(0, add)
}

/// Of a number, in a column of numbers. `None` where they are compared in a domain that may not tell exactly.
fn locate_number(value: ValueRef<'_>, column: &SqlType) -> Option<Edge> {
    let double = match value {
        ValueRef::Int(v) => v as f64,
        ValueRef::UInt(v) => v as f64,
        ValueRef::Decimal(d) => d.to_f64(),
        ValueRef::Double(v) => v,
        _ => return None,
    };
    let integer = match value {
        ValueRef::Int(v) => Some((i128::from(v), true)),
        ValueRef::UInt(v) => Some((i128::from(v), true)),
        ValueRef::Decimal(d) => floor_decimal(&d),
        _ => None,
    };
    match &column.kind {
        TypeKind::TinyInt
        | TypeKind::SmallInt
        | TypeKind::MediumInt
        | TypeKind::Int
        | TypeKind::BigInt => integer.map(|(floor, exact)| integer_edge(floor, exact, column)),
        TypeKind::Decimal => match value {
            ValueRef::Decimal(d) => Some(decimal_edge(&d, column)),
            ValueRef::Double(_) => None,
            _ => integer.map(|(v, _)| decimal_edge(&Decimal::from_i128(v, 0), column)),
        },
        // What a FLOAT(M,D) is equal to, the condition around it decides.
        TypeKind::Float if column.decimals < NOT_FIXED_DECIMALS => None,
        TypeKind::Float => Some(in_floats(double)),
        TypeKind::Double if !double.is_nan() => Some(Edge::At(Value::Double(double))),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_read_as_they_are_shown() {
        let shown = |text: &str| moment(text.as_bytes()).map(|moment| moment.format(6));
        assert_eq!(
            shown("2026-11-30").as_deref(),
            Some("2026-11-30 00:00:00.000000")
        );
        assert_eq!(
            shown("2026-11-30 09:05:07").as_deref(),
            Some("2026-11-30 09:05:07.000000")
        );
        assert_eq!(
            shown("2024-02-29T23:59:59.25").as_deref(),
            Some("2024-02-29 23:59:59.250000")
        );
        for other in [
            "",
            "2026-1-30",
            "2026-11-31",
            "2026-00-10",
            "0000-01-01",
            "2026/11/30",
            "2026-11-30 ",
            "20261130",
            "2026-11-30 9:05:07",
            "2026-11-30 09:05",
            "2026-11-30 24:00:00",
            "2026-11-30 09:05:60",
            "2026-11-30 09:05:07.",
            "2026-11-30 09:05:07.1234567",
            "2026-11-30 09:05:07+01:00",
            "2026-11-30x09:05:07",
            "2026-11-30 09-05-07",
            "2026-11-30 09:05:07 1",
            "x026-11-30",
        ] {
            assert_eq!(shown(other), None, "{other}");
        }
    }

    #[test]
    fn a_text_has_a_place_among_integers_and_not_among_decimals() {
        let place = |kind| {
            let column = SqlType::new(kind);
            locate_plain(ValueRef::Str(b"77"), &column, &TimeZone::UTC)
        };
        assert!(matches!(
            place(TypeKind::Int),
            Some(Edge::At(Value::Int(77)))
        ));
        for kind in [
            TypeKind::Decimal,
            TypeKind::Year,
            TypeKind::Bit,
            TypeKind::Json,
        ] {
            assert!(place(kind.clone()).is_none(), "{kind:?}");
        }
    }

    #[test]
    fn texts_of_digits_are_integers() {
        assert_eq!(
            [integer(b"77"), integer(b"-007"), integer(b"0")],
            [Some(77), Some(-7), Some(0)]
        );
        for other in ["", "-", "+1", " 1", "1 ", "1.0", "1e3", "1234567890123456"] {
            assert_eq!(integer(other.as_bytes()), None, "{other}");
        }
    }
}
