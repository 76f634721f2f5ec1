//! The order of JSON values, and a hash that agrees with it.
//!
//! Neighbours: `cmp` compares SQL values of type JSON here; `contains` looks for equal values.
//! **Invariants**: a total order: null, numbers, strings, objects, arrays, booleans, dates, times, datetimes, opaque
//! values; numbers compare by value, whatever their types; equal values have one hash.

use std::cmp::Ordering;

use super::view::{Items, JsonRef, View};
use crate::decimal::{Decimal, EXACT_IN_DOUBLE};

/// Doubles from here on are beyond what DECIMAL holds (and beyond every integer).
const BEYOND_DECIMAL: f64 = 1e65;

/// The rank of all numbers.
pub(super) const NUMBERS: u8 = 1;

pub(super) fn rank(v: &View<'_>) -> u8 {
    match v {
        View::Null => 0,
        View::Int(_) | View::UInt(_) | View::Double(_) | View::Decimal(_) => NUMBERS,
        View::String(_) => 2,
        View::Object(_) => 3,
        View::Array(_) => 4,
        View::Bool(_) => 5,
        View::Date(_) => 6,
        View::Time(_) => 7,
        View::DateTime(..) => 8,
        View::Opaque(..) => 9,
    }
}

/// Compares two values.
pub fn compare(a: JsonRef<'_>, b: JsonRef<'_>) -> Ordering {
    let (a, b) = (a.view(), b.view());
    match (&a, &b) {
        (View::Bool(a), View::Bool(b)) => a.cmp(b),
        (View::String(a), View::String(b)) => a.cmp(b),
        (View::Date(a), View::Date(b)) => a.cmp(b),
        (View::Time(a), View::Time(b)) => a.cmp(b),
        (View::DateTime(a, _), View::DateTime(b, _)) => a.cmp(b),
        (View::Opaque(k, a), View::Opaque(l, b)) => k.cmp(l).then_with(|| a.cmp(b)),
        (View::Array(a), View::Array(b)) => arrays(*a, *b),
        (View::Object(a), View::Object(b)) => objects(*a, *b),
        _ if rank(&a) == NUMBERS && rank(&b) == NUMBERS => numbers(&a, &b),
        _ => rank(&a).cmp(&rank(&b)),
    }
}

fn arrays(a: Items<'_>, b: Items<'_>) -> Ordering {
    a.iter()
        .zip(b.iter())
        .map(|(a, b)| compare(a, b))
        .find(|o| o.is_ne())
        .unwrap_or_else(|| a.len().cmp(&b.len()))
}

/// An object with fewer members comes first. Members are in the order of the lengths of their keys, which compare as
/// bytes.
fn objects(a: Items<'_>, b: Items<'_>) -> Ordering {
    a.len().cmp(&b.len()).then_with(|| {
        a.members()
            .zip(b.members())
            .map(|((k, a), (l, b))| k.cmp(l).then_with(|| compare(a, b)))
            .find(|o| o.is_ne())
            .unwrap_or(Ordering::Equal)
    })
}

fn integer(v: &View<'_>) -> Option<i128> {
    match v {
        View::Int(n) => Some((*n).into()),
        View::UInt(n) => Some((*n).into()),
        _ => None,
    }
}

fn numbers(a: &View<'_>, b: &View<'_>) -> Ordering {
    match (a, b) {
        (View::Double(a), View::Double(b)) => a.partial_cmp(b).unwrap_or(Ordering::Equal),
        (View::Double(d), other) => double_and_exact(*d, other),
        (other, View::Double(d)) => double_and_exact(*d, other).reverse(),
        _ => match (integer(a), integer(b)) {
            (Some(a), Some(b)) => a.cmp(&b),
            _ => exact(a).cmp(&exact(b)),
        },
    }
}

fn exact(v: &View<'_>) -> Decimal {
    match v {
        View::Decimal(d) => *d,
        v => integer(v).map_or(Decimal::ZERO, |n| Decimal::from_i128(n, 0)),
    }
}

fn double_and_exact(d: f64, other: &View<'_>) -> Ordering {
    if d.abs() >= BEYOND_DECIMAL {
        return d.total_cmp(&0.0);
    }
    // As MySQL does, the shortest decimal that reads as the double stands for it.
    if let Some(n) = integer(other) {
        let rounded = d.partial_cmp(&(n as f64)).unwrap_or(Ordering::Equal);
        if rounded.is_ne() || n.unsigned_abs() <= u128::from(EXACT_IN_DOUBLE) {
            return rounded;
        }
    }
    let (near, other) = (Decimal::from_f64(d).0, exact(other));
    match near.cmp(&other) {
        // What is nearer to zero than any decimal is not zero.
        Ordering::Equal if near.is_zero() => d.partial_cmp(&0.0).unwrap_or(Ordering::Equal),
        order => order,
    }
}

/// A hash that is equal for equal values; not stable between versions.
pub fn hash64(doc: JsonRef<'_>) -> u64 {
    let v = doc.view();
    let seed = mix(0, rank(&v).into());
    match v {
        View::Null => seed,
        View::Bool(b) => mix(seed, b.into()),
        View::Int(n) => mix(seed, double_bits(n as f64)),
        View::UInt(n) => mix(seed, double_bits(n as f64)),
        View::Double(d) => mix(seed, double_bits(d)),
        View::Decimal(d) => mix(seed, double_bits(d.to_f64())),
        View::String(s) => bytes(seed, s),
        View::Date(d) => mix(seed, d.packed().into()),
        View::Time(t) => mix(seed, t.packed()),
        View::DateTime(d, _) => mix(seed, d.packed()),
        View::Opaque(kind, s) => bytes(mix(seed, kind.into()), s),
        View::Array(items) => items.iter().fold(seed, |h, item| mix(h, hash64(item))),
        View::Object(items) => items
            .members()
            .fold(seed, |h, (k, item)| mix(bytes(h, k), hash64(item))),
    }
}

/// Equal numbers are the same double, if not the other way round; 0 and -0 are equal.
fn double_bits(d: f64) -> u64 {
    if d == 0.0 { 0 } else { d.to_bits() }
}

fn mix(h: u64, v: u64) -> u64 {
    let x = (h.rotate_left(23) ^ v).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    x ^ x >> 32
}

fn bytes(seed: u64, s: &[u8]) -> u64 {
    s.chunks(8).fold(mix(seed, s.len() as u64), |h, chunk| {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        mix(h, u64::from_le_bytes(word))
    })
}
