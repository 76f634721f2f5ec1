//! Operands to keys: where values lie among those of their columns, and the ranges between them.
//!
//! Neighbours: `select` binds parameters with it; `plan` places values in columns; the key codec encodes.
//! **Invariants**
//! - A range has exactly the rows of its conditions, or there is no answer.
//! - Merged ranges are in order and do not overlap.

use std::ops::Bound as RangeBound;

use esker_types::collation::Charset;
use esker_types::{SqlResult, SqlType, Value, ValueRef};
use jiff::tz::TimeZone;
use smallvec::SmallVec;

use super::{Operand, RangeSpec};
use esker_sql_catalog::catalog::IndexDef;
use esker_sql_catalog::codec::KeyRange;
use esker_sql_plan::plan::{Edge, locate_plain};

pub(super) fn value<'a>(operand: &'a Operand, params: &'a [Value]) -> Option<ValueRef<'a>> {
    match operand {
        Operand::Param(n) => params.get(*n as usize).map(Value::as_ref),
        Operand::Const(v) => Some(v.as_ref()),
        Operand::Null => Some(ValueRef::Null),
    }
}

/// A number of rows; `None` if it is none.
pub(super) fn count(operand: &Operand, params: &[Value]) -> Option<u64> {
    match value(operand, params)? {
        ValueRef::Int(n) => u64::try_from(n).ok(),
        ValueRef::UInt(n) => Some(n),
        _ => None,
    }
}

/// Where a value lies among those of a column.
enum Place<'a> {
    /// It is this one.
    At(Placed<'a>),
    /// Between this one and the next.
    JustAfter(Placed<'a>),
    BeforeAll,
    AfterAll,
}

/// A value of a column.
enum Placed<'a> {
    Given(ValueRef<'a>),
    Made(Value),
}

impl Placed<'_> {
    fn as_ref(&self) -> ValueRef<'_> {
        match self {
            Self::Given(v) => *v,
            Self::Made(v) => v.as_ref(),
        }
    }
}

/// The place of an operand's value, if it is known exactly.
fn place<'a>(
    operand: &'a Operand,
    params: &'a [Value],
    ty: &SqlType,
    zone: &TimeZone,
) -> Option<Place<'a>> {
    let v = value(operand, params)?;
    if matches!(operand, Operand::Null) {
        debug_assert!(ty.nullable);
        return Some(Place::At(Placed::Given(v)));
    }
    if let ValueRef::Str(text) = v
        && ty.is_string()
    {
        let fits = !lacks(ty.collation.charset(), text);
        return fits.then_some(Place::At(Placed::Given(v)));
    }
    Some(match locate_plain(v, ty, zone)? {
        Edge::At(v) => Place::At(Placed::Made(v)),
        Edge::JustAfter(v) => Place::JustAfter(Placed::Made(v)),
        Edge::BeforeAll => Place::BeforeAll,
        Edge::AfterAll => Place::AfterAll,
        Edge::Near(..) | Edge::Null | Edge::Anywhere => return None,
    })
}

/// Does the text have characters that the column's character set has not? Comparing them is an error.
fn lacks(charset: Charset, text: &[u8]) -> bool {
    let has_all = matches!(charset, Charset::Utf8mb4 | Charset::Binary);
    !has_all && !text.is_ascii() && charset.encode(text).is_err()
}

/// The keys of a range specification.
pub(super) enum Keys {
    /// These.
    Some(KeyRange),
    /// No row meets the conditions.
    Empty,
}

/// One end of a range.
enum End<'a> {
    Open,
    /// At this value, inclusive or not.
    At(Placed<'a>, bool),
    Empty,
}

fn low_end<'a>(place: Place<'a>, inclusive: bool) -> End<'a> {
    match place {
        Place::At(v) => End::At(v, inclusive),
        Place::JustAfter(v) => End::At(v, false),
        Place::BeforeAll => End::Open,
        Place::AfterAll => End::Empty,
    }
}

fn high_end<'a>(place: Place<'a>, inclusive: bool) -> End<'a> {
    match place {
        Place::At(v) => End::At(v, inclusive),
        Place::JustAfter(v) => End::At(v, true),
        Place::BeforeAll => End::Empty,
        Place::AfterAll => End::Open,
    }
}

/// The keys of one range; `None` when the place of a value is not known.
pub(super) fn range(
    index: &IndexDef,
    spec: &RangeSpec,
    params: &[Value],
    zone: &TimeZone,
) -> SqlResult<Option<Keys>> {
    let parts = index.codec.parts();
    let place_in = |nth: usize, operand| place(operand, params, &parts[nth].ty, zone);
    let mut equal: SmallVec<[Placed<'_>; 4]> = SmallVec::new();
    for (nth, operand) in spec.equal.iter().enumerate() {
        match place_in(nth, operand) {
            Some(Place::At(v)) => equal.push(v),
            Some(_) => return Ok(Some(Keys::Empty)),
            None => return Ok(None),
        }
    }
    type ToEnd = for<'v> fn(Place<'v>, bool) -> End<'v>;
    let sides: [(_, ToEnd); 2] = [(&spec.low, low_end), (&spec.high, high_end)];
    let mut ends = [End::Open, End::Open];
    for ((side, to_end), slot) in sides.into_iter().zip(&mut ends) {
        let Some((operand, inclusive)) = side else {
            continue;
        };
        let Some(place) = place_in(equal.len(), operand) else {
            return Ok(None);
        };
        *slot = to_end(place, *inclusive);
    }
    let is_bounded = spec.low.is_some() || spec.high.is_some();
    match &ends {
        [End::Empty, _] | [_, End::Empty] => return Ok(Some(Keys::Empty)),
        // A comparison is never true of NULL.
        [End::Open, End::Open] if is_bounded && parts[equal.len()].ty.nullable => return Ok(None),
        _ => {}
    }
    let [low, high] = ends.each_ref().map(|end| match end {
        End::At(v, inclusive) => Some((v.as_ref(), *inclusive)),
        End::Open | End::Empty => None,
    });
    let equal: SmallVec<[ValueRef<'_>; 4]> = equal.iter().map(Placed::as_ref).collect();
    let keys = index.codec.range(&equal, low, high, zone)?;
    Ok(Some(match is_empty(&keys) {
        true => Keys::Empty,
        false => Keys::Some(keys),
    }))
}

/// Appends the full key of a unique index; false when the place of a value is not known. A key that no row can have is
/// left empty.
pub(super) fn full_key(
    index: &IndexDef,
    spec: &RangeSpec,
    params: &[Value],
    zone: &TimeZone,
    key: &mut Vec<u8>,
) -> SqlResult<bool> {
    key.clear();
    for (nth, operand) in spec.equal.iter().enumerate() {
        let ty = &index.codec.parts()[nth].ty;
        match place(operand, params, ty, zone) {
            Some(Place::At(v)) => index.codec.encode_part(nth, v.as_ref(), zone, key)?,
            Some(_) => {
                key.clear();
                return Ok(true);
            }
            None => return Ok(false),
        }
    }
    Ok(true)
}

fn start(r: &KeyRange) -> &[u8] {
    match &r.lower {
        RangeBound::Included(k) | RangeBound::Excluded(k) => k,
        RangeBound::Unbounded => &[],
    }
}

fn is_empty(r: &KeyRange) -> bool {
    match (&r.lower, &r.upper) {
        (RangeBound::Included(l), RangeBound::Included(u)) => l > u,
        (
            RangeBound::Included(l) | RangeBound::Excluded(l),
            RangeBound::Included(u) | RangeBound::Excluded(u),
        ) => l >= u,
        _ => false,
    }
}

/// Sorts ranges and joins those that overlap.
pub(super) fn merge(ranges: &mut Vec<KeyRange>) {
    if ranges.len() < 2 {
        return;
    }
    let excluded = |r: &KeyRange| matches!(r.lower, RangeBound::Excluded(_));
    ranges.sort_by(|a, b| (start(a), excluded(a)).cmp(&(start(b), excluded(b))));
    let mut merged: Vec<KeyRange> = Vec::with_capacity(ranges.len());
    for r in ranges.drain(..) {
        match merged.last_mut() {
            Some(last) if reaches(last, &r) => {
                if ends_before(last, &r) {
                    last.upper = r.upper;
                }
            }
            _ => merged.push(r),
        }
    }
    debug_assert!(merged.windows(2).all(|pair| !reaches(&pair[0], &pair[1])));
    *ranges = merged;
}

/// Does `a` end at or after the start of `b`?
fn reaches(a: &KeyRange, b: &KeyRange) -> bool {
    match &a.upper {
        RangeBound::Unbounded => true,
        RangeBound::Included(end) | RangeBound::Excluded(end) => end.as_slice() >= start(b),
    }
}

fn ends_before(a: &KeyRange, b: &KeyRange) -> bool {
    match (&a.upper, &b.upper) {
        (RangeBound::Unbounded, _) => false,
        (_, RangeBound::Unbounded) => true,
        (RangeBound::Included(x), RangeBound::Excluded(y)) => x < y,
        (RangeBound::Excluded(x), RangeBound::Included(y)) => x <= y,
        (RangeBound::Included(x), RangeBound::Included(y))
        | (RangeBound::Excluded(x), RangeBound::Excluded(y)) => x < y,
    }
}
