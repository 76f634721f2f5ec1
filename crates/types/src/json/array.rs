//! Arrays of one type, as multi-valued indexes have them: which values may be elements.
//!
//! Neighbours: `func::json::array` is the cast; entries of the index are the elements' sort keys (`key`).
//! **Invariants**: the type refuses values and changes none, so what MEMBER OF, JSON_CONTAINS and JSON_OVERLAPS call
//! equal has one key; a row's keys are bounded by [`MAX_BYTES`].

use std::collections::{BTreeMap, BTreeSet};

use super::key::sort_key;
use super::print::{print, unquoted};
use super::view::{JsonRef, View};
use crate::cast::{IntStatus, parse_int, round_f64};
use crate::decimal::{Decimal, ParseStatus};
use crate::error::SqlError;
use crate::errors;
use crate::temporal::{DateFlags, parse_datetime, parse_time};

/// Most bytes of the keys of one row, as many as fit into a page of InnoDB's undo log.
pub const MAX_BYTES: usize = 65_221;

/// The type of an array's elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ElementType {
    /// UNSIGNED.
    Unsigned,
    /// SIGNED.
    Signed,
    /// DECIMAL with so many digits before its point.
    Decimal(u32),
    /// CHAR, in characters.
    Char(u32),
    /// BINARY, in bytes.
    Binary(u32),
    /// DATE or DATETIME.
    Moment,
    /// TIME.
    Time,
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

/// Checks that a document is an array of such elements, or one of them.
///
/// # Errors
/// 1235, 3751, 3752, 3903, 3904, 3906, 3907, 3908: `index` cannot have it.
pub fn check_elements(
    doc: JsonRef<'_>,
    ty: ElementType,
    flags: DateFlags,
    index: &str,
) -> Result<(), SqlError> {
    match doc.view() {
        View::Object(_) => return Err(unsupported("OBJECT")),
        View::Array(items) => {
            for item in items.iter() {
                if !item.is_scalar() {
                    return Err(no_scalar(index));
                }
                check(item, ty, flags, index)?;
            }
        }
        View::Bool(_) => return Err(unsupported("BOOLEAN")),
        _ => check(doc, ty, flags, index)?,
    }
    let bytes: usize = element_keys(doc).iter().map(Vec::len).sum();
    match bytes.checked_sub(MAX_BYTES) {
        None | Some(0) => Ok(()),
        Some(beyond) => Err(too_many_bytes(index, beyond)),
    }
}

fn check(
    item: JsonRef<'_>,
    ty: ElementType,
    flags: DateFlags,
    index: &str,
) -> Result<(), SqlError> {
    if item.is_null() {
        return Err(invalid_element(index));
    }
    match ty {
        ElementType::Unsigned => integer(item, 0..=u64::MAX.into(), index),
        ElementType::Signed => integer(item, i64::MIN.into()..=i64::MAX.into(), index),
        ElementType::Decimal(digits) => decimal(item, digits, index),
        ElementType::Char(limit) => {
            let text = unquoted(item);
            let chars = String::from_utf8_lossy(&text).chars().count();
            is_short(chars, limit, index)
        }
        ElementType::Binary(limit) => is_short(unquoted(item).len(), limit, index),
        ElementType::Moment => match item.view() {
            View::Date(_) | View::DateTime(..) => Ok(()),
            View::String(s) if parse_datetime(s, flags).is_ok() => Ok(()),
            _ => Err(errors::key_part_truncated(index, 1)),
        },
        ElementType::Time => match item.view() {
            View::Time(_) | View::DateTime(..) => Ok(()),
            View::String(s) if parse_time(s, flags).is_ok() => Ok(()),
            View::Int(_) | View::UInt(_) | View::Double(_) | View::Decimal(_)
                if parse_time(&unquoted(item), flags).is_ok() =>
            {
                Ok(())
            }
            _ => Err(errors::key_part_truncated(index, 1)),
        },
    }
}

fn integer(
    item: JsonRef<'_>,
    range: std::ops::RangeInclusive<i128>,
    index: &str,
) -> Result<(), SqlError> {
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
            (n, IntStatus::Exact) => n,
            (_, IntStatus::Overflow) => return Err(too_large(index)),
            _ => return Err(invalid_element(index)),
        },
        _ => return Err(invalid_element(index)),
    };
    match range.contains(&value) {
        true => Ok(()),
        false => Err(errors::key_part_out_of_range(index, 1)),
    }
}

fn decimal(item: JsonRef<'_>, digits: u32, index: &str) -> Result<(), SqlError> {
    let value = match item.view() {
        View::Bool(b) => Decimal::from(i64::from(b)),
        View::Int(n) => Decimal::from(n),
        View::UInt(n) => Decimal::from(n),
        View::Decimal(d) => d,
        View::Double(d) => match Decimal::from_f64(d) {
            (_, true) => return Err(errors::key_part_out_of_range(index, 1)),
            (n, false) => n,
        },
        View::String(s) => match Decimal::parse(s) {
            (d, ParseStatus::Exact | ParseStatus::Cut) => d,
            _ => return Err(invalid_element(index)),
        },
        _ => return Err(invalid_element(index)),
    };
    let text = value.to_string();
    let whole = text.trim_start_matches('-').split('.').next();
    let whole = whole.unwrap_or_default().trim_start_matches('0');
    match whole.len() <= digits as usize {
        true => Ok(()),
        false => Err(errors::key_part_out_of_range(index, 1)),
    }
}

fn is_short(length: usize, limit: u32, index: &str) -> Result<(), SqlError> {
    match length <= limit as usize {
        true => Ok(()),
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
