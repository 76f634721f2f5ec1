//! Arrays of one type, as multi-valued indexes have them: what becomes of the values of a document.
//!
//! Neighbours: `func::json::array` is the cast; entries of the index are the elements' sort keys (`key`); the binder
//! looks for elements that it makes of constants here.
//! **Invariants**: elements are scalars of the array's type, in the document's order; an element is its own element; a
//! row's keys are bounded by [`MAX_BYTES`].

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use super::convert::has_blank_end;
use super::key::sort_key;
use super::print::{print, unquoted};
use super::view::{JsonRef, View};
use super::{Json, field_type};
use crate::cast::{IntStatus, parse_int, round_f64};
use crate::collation::char_offset;
use crate::decimal::{Decimal, ParseStatus};
use crate::error::SqlError;
use crate::errors;
use crate::temporal::{DateFlags, DateTime, Time, parse_datetime, parse_time};

/// Most bytes of the keys of one row, as many as fit into a page of InnoDB's undo log.
pub const MAX_BYTES: usize = 65_221;

/// Numbers between these are equal where their elements are, whatever types they have.
const EXACT: std::ops::Range<f64> = 1e-12..1e15;

/// The type of an array's elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ElementType {
    /// UNSIGNED.
    Unsigned,
    /// SIGNED.
    Signed,
    /// DECIMAL with so many digits before and behind its point.
    Decimal(u32, u8),
    /// CHAR, in characters.
    Char(u32),
    /// BINARY, in bytes.
    Binary(u32),
    /// DATE.
    Date,
    /// DATETIME with so many digits of a second's fraction.
    DateTime(u8),
    /// TIME with so many digits of a second's fraction.
    Time(u8),
}

impl ElementType {
    /// Numbers that the type can be made of again: which it is, its length, its decimals.
    pub fn numbers(self) -> [u32; 3] {
        match self {
            Self::Unsigned => [0, 0, 0],
            Self::Signed => [1, 0, 0],
            Self::Decimal(digits, scale) => [2, digits, scale.into()],
            Self::Char(limit) => [3, limit, 0],
            Self::Binary(limit) => [4, limit, 0],
            Self::Date => [5, 0, 0],
            Self::DateTime(fsp) => [6, 0, fsp.into()],
            Self::Time(fsp) => [7, 0, fsp.into()],
        }
    }

    /// The type of [`Self::numbers`].
    pub fn of_numbers([which, length, decimals]: [u32; 3]) -> Self {
        let decimals = decimals as u8;
        match which {
            0 => Self::Unsigned,
            1 => Self::Signed,
            2 => Self::Decimal(length, decimals),
            3 => Self::Char(length),
            4 => Self::Binary(length),
            5 => Self::Date,
            6 => Self::DateTime(decimals),
            _ => Self::Time(decimals),
        }
    }

    /// Are the elements that equal JSON values become equal? Numbers that are equal may be different texts, or be
    /// rounded differently.
    pub fn keeps_equality(self, item: JsonRef<'_>) -> bool {
        let number = match item.view() {
            View::Array(_) | View::Object(_) => return false,
            View::Int(n) => n as f64,
            View::UInt(n) => n as f64,
            View::Double(d) => d,
            View::Decimal(d) => d.to_f64(),
            _ => return true,
        };
        let is_exact = number == 0.0 || EXACT.contains(&number.abs());
        match self {
            Self::Unsigned | Self::Signed => is_exact && number.fract() == 0.0,
            Self::Decimal(..) => is_exact,
            _ => false,
        }
    }
}

/// The distinct keys of the elements of a document, in their order.
pub fn element_keys(doc: JsonRef<'_>) -> BTreeSet<Vec<u8>> {
    let key = |item| {
        let mut key = Vec::new();
        sort_key(item, &mut key);
        key
    };
    match doc.view() {
        View::Array(items) => items.iter().map(key).collect(),
        _ => BTreeSet::from([key(doc)]),
    }
}

/// The distinct elements of a document, in their order, as an array's text.
pub fn elements_text(doc: JsonRef<'_>) -> String {
    let mut texts = BTreeMap::new();
    let mut add = |item| {
        let (mut key, mut text) = (Vec::new(), Vec::new());
        sort_key(item, &mut key);
        print(item, &mut text);
        texts.insert(key, String::from_utf8_lossy(&text).into_owned());
    };
    match doc.view() {
        View::Array(items) => items.iter().for_each(add),
        _ => add(doc),
    }
    let texts: Vec<String> = texts.into_values().collect();
    format!("[{}]", texts.join(", "))
}

/// The array of elements that a document becomes: those of an array, or itself as the only one.
///
/// # Errors
/// 1235, 3751, 3752, 3903, 3904, 3906, 3907, 3908: `index` cannot have it.
pub fn elements(
    doc: JsonRef<'_>,
    ty: ElementType,
    flags: DateFlags,
    index: &str,
) -> Result<Json, SqlError> {
    let elements = match doc.view() {
        View::Object(_) => return Err(unsupported("OBJECT")),
        View::Array(items) => {
            let each = items.iter().map(|item| match item.is_scalar() {
                true => element(item, ty, flags, index),
                false => Err(no_scalar(index)),
            });
            each.collect::<Result<_, _>>()?
        }
        View::Bool(_) => return Err(unsupported("BOOLEAN")),
        _ => vec![element(doc, ty, flags, index)?],
    };
    Ok(Json::Array(elements))
}

/// Checks that the keys of an array's elements are not too many.
///
/// # Errors
/// 3906
pub fn check_length(elements: JsonRef<'_>, index: &str) -> Result<(), SqlError> {
    let bytes: usize = element_keys(elements).iter().map(Vec::len).sum();
    match bytes.checked_sub(MAX_BYTES) {
        None | Some(0) => Ok(()),
        Some(beyond) => Err(too_many_bytes(index, beyond)),
    }
}

/// The element that a scalar becomes.
///
/// # Errors
/// Those of [`elements`], but for 3906.
pub fn element(
    item: JsonRef<'_>,
    ty: ElementType,
    flags: DateFlags,
    index: &str,
) -> Result<Json, SqlError> {
    debug_assert!(item.is_scalar(), "an array or object is no element");
    if item.is_null() {
        return Err(invalid_element(index));
    }
    let truncated = || errors::key_part_truncated(index, 1);
    match ty {
        ElementType::Unsigned => {
            let n = integer(item, index)?;
            let n = u64::try_from(n).map_err(|_| errors::key_part_out_of_range(index, 1))?;
            Ok(Json::UInt(n))
        }
        ElementType::Signed => {
            let n = integer(item, index)?;
            let n = i64::try_from(n).map_err(|_| errors::key_part_out_of_range(index, 1))?;
            Ok(Json::Int(n))
        }
        ElementType::Decimal(digits, scale) => decimal(item, (digits, scale), index),
        ElementType::Char(limit) => characters(&text_of(item), limit, index),
        ElementType::Binary(limit) => {
            let bytes = text_of(item);
            match bytes.len() <= limit as usize {
                true => Ok(Json::Opaque(field_type::VARCHAR, bytes.into_owned())),
                false => Err(too_long(index)),
            }
        }
        ElementType::Date => {
            let found = moment(item, flags).ok_or_else(truncated)?;
            let rounded = found.round(0, false).map_err(|_| truncated())?;
            Ok(Json::Date(rounded.date()))
        }
        ElementType::DateTime(fsp) => {
            let found = moment(item, flags).ok_or_else(truncated)?;
            let rounded = found.round(fsp, false).map_err(|_| truncated())?;
            Ok(Json::DateTime(rounded, false))
        }
        ElementType::Time(fsp) => {
            let found = duration(item, flags).ok_or_else(truncated)?;
            Ok(Json::Time(found.round(fsp, false).0))
        }
    }
}

/// Its text; of bytes, themselves.
fn text_of(item: JsonRef<'_>) -> Cow<'_, [u8]> {
    match item.view() {
        View::Opaque(_, bytes) if std::str::from_utf8(bytes).is_ok() => Cow::Borrowed(bytes),
        _ => unquoted(item),
    }
}

fn moment(item: JsonRef<'_>, flags: DateFlags) -> Option<DateTime> {
    let parse = |text: &[u8]| {
        let parsed = parse_datetime(text, flags).ok()?;
        parsed.warn.is_none().then_some(parsed.datetime)
    };
    match item.view() {
        View::Date(d) => Some(d.at_midnight()),
        View::DateTime(d, _) => Some(d),
        View::String(s) => parse(s),
        View::Int(_) | View::UInt(_) => parse(&unquoted(item)),
        _ => None,
    }
}

fn duration(item: JsonRef<'_>, flags: DateFlags) -> Option<Time> {
    let parse = |text: &[u8]| {
        let parsed = parse_time(text, flags).ok()?;
        parsed.warn.is_none().then_some(parsed.time)
    };
    match item.view() {
        View::Time(t) => Some(t),
        View::DateTime(d, _) => Some(d.time()),
        View::String(s) => parse(s),
        View::Int(_) | View::UInt(_) | View::Double(_) | View::Decimal(_) => parse(&unquoted(item)),
        _ => None,
    }
}

fn integer(item: JsonRef<'_>, index: &str) -> Result<i128, SqlError> {
    let value = match item.view() {
        View::Bool(b) => b.into(),
        View::Int(n) => n.into(),
        View::UInt(n) => n.into(),
        View::Double(d) => match round_f64(d) {
            (_, true) => return Err(too_large(index)),
            (n, false) => n.into(),
        },
        View::Decimal(d) => match d.to_i64() {
            (_, true) => return Err(too_large(index)),
            (n, false) => n.into(),
        },
        View::String(s) => match parse_int(s) {
            (n, IntStatus::Exact) if !has_blank_end(s) => n,
            (_, IntStatus::Overflow) => return Err(too_large(index)),
            _ => return Err(invalid_element(index)),
        },
        _ => return Err(invalid_element(index)),
    };
    Ok(value)
}

fn decimal(item: JsonRef<'_>, (digits, scale): (u32, u8), index: &str) -> Result<Json, SqlError> {
    let out_of_range = || errors::key_part_out_of_range(index, 1);
    let value = match item.view() {
        View::Bool(b) => Decimal::from(i64::from(b)),
        View::Int(n) => Decimal::from(n),
        View::UInt(n) => Decimal::from(n),
        View::Decimal(d) => d,
        View::Double(d) => match Decimal::from_f64(d) {
            (_, true) => return Err(out_of_range()),
            (n, false) => n,
        },
        View::String(s) => match Decimal::parse(s) {
            (d, ParseStatus::Exact | ParseStatus::Cut) => d,
            _ => return Err(invalid_element(index)),
        },
        _ => return Err(invalid_element(index)),
    };
    let rounded = value.round(scale).map_err(|_| out_of_range())?;
    match rounded.fits(digits + u32::from(scale), scale) {
        true => Ok(Json::Decimal(rounded)),
        false => Err(out_of_range()),
    }
}

/// A text of at most so many characters; blanks beyond are cut off.
fn characters(text: &[u8], limit: u32, index: &str) -> Result<Json, SqlError> {
    let end = char_offset(text, limit as usize);
    match text[end..].iter().all(|byte| *byte == b' ') {
        true => Ok(Json::string(&text[..end])),
        false => Err(too_long(index)),
    }
}

fn unsupported(kind: &str) -> SqlError {
    SqlError::not_supported(format_args!("CAST-ing JSON {kind} type to array"))
}

/// 3903
pub fn invalid_element(index: &str) -> SqlError {
    let text = format!("Invalid JSON value for CAST for functional index '{index}'.");
    SqlError::new(3903, "22018", text)
}

/// 3904
fn too_large(index: &str) -> SqlError {
    let text = format!("Out of range JSON value for CAST for functional index '{index}'.");
    SqlError::new(3904, "22003", text)
}

/// 3906
fn too_many_bytes(index: &str, beyond: usize) -> SqlError {
    let text = format!(
        "Exceeded max total length of values per record for multi-valued index '{index}' by {beyond} bytes"
    );
    SqlError::new(3906, "HY000", text)
}

/// 3907
fn too_long(index: &str) -> SqlError {
    let text = format!("Data too long for functional index '{index}'.");
    SqlError::new(3907, "22001", text)
}

/// 3908
fn no_scalar(index: &str) -> SqlError {
    let text =
        format!("Cannot store an array or an object in a scalar key part of the index '{index}'.");
    SqlError::new(3908, "HY000", text)
}
