//! Changes of documents: JSON_SET and its kin, JSON_REMOVE, JSON_ARRAY_APPEND, JSON_ARRAY_INSERT, the merges.
//!
//! Neighbours: `func::json::change` parses arguments and paths; `dom` is what is changed.
//! **Invariants**: paths have no wildcards (the caller has refused those); a path that finds nothing changes nothing,
//! except where its last leg can be added.

use std::cmp::Ordering;

use super::dom::{Json, key_order};
use super::path::{ArrayIndex, Leg};
use crate::ctx::Work;
use crate::error::SqlResult;

/// What a member of merged objects counts for, bytes.
const EACH: usize = 64;

/// What happens at the end of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Edit {
    /// Replaces what is there, adds what is not.
    Set,
    /// Adds only.
    Insert,
    /// Replaces only.
    Replace,
}

/// Why JSON_ARRAY_INSERT cannot: error 3165.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ArrayInsert {
    /// The path ends with a cell.
    Cell,
    /// It does not.
    NoCell,
}

/// The value that a path without wildcards leads to.
fn locate<'a>(doc: &'a mut Json, legs: &[Leg]) -> Option<&'a mut Json> {
    let Some((leg, rest)) = legs.split_first() else {
        return Some(doc);
    };
    let next = match (leg, doc) {
        (Leg::Member(key), Json::Object(members)) => {
            let at = Json::find(members, key).ok()?;
            &mut members[at].1
        }
        (Leg::Cell(at), Json::Array(items)) => {
            let at = usize::try_from(at.place(items.len())).ok()?;
            items.get_mut(at)?
        }
        // A scalar or an object is an array of itself.
        (Leg::Cell(at), doc) if at.place(1) == 0 => doc,
        _ => return None,
    };
    locate(next, rest)
}

/// Does a path without wildcards lead to a value?
pub fn holds(doc: &mut Json, legs: &[Leg]) -> bool {
    locate(doc, legs).is_some()
}

/// Where an element goes that is put at a cell: cells beyond the ends are those at the ends.
fn clamp(at: ArrayIndex, len: usize) -> usize {
    usize::try_from(at.place(len).clamp(0, len as i64)).unwrap_or(0)
}

/// JSON_SET, JSON_INSERT, JSON_REPLACE with one path.
pub fn edit(doc: &mut Json, legs: &[Leg], value: Json, how: Edit) {
    if let Some(found) = locate(doc, legs) {
        if how != Edit::Insert {
            *found = value;
        }
        return;
    }
    let (Some((last, parents)), true) = (legs.split_last(), how != Edit::Replace) else {
        return;
    };
    let Some(parent) = locate(doc, parents) else {
        return;
    };
    match (last, parent) {
        (Leg::Member(key), Json::Object(members)) => {
            if let Err(at) = Json::find(members, key) {
                members.insert(at, (key.clone(), value));
            }
        }
        (Leg::Cell(at), Json::Array(items)) => items.insert(clamp(*at, items.len()), value),
        (Leg::Cell(at), parent) => {
            let mut items = vec![std::mem::replace(parent, Json::Null)];
            items.insert(clamp(*at, 1), value);
            *parent = Json::Array(items);
        }
        _ => {}
    }
}

/// JSON_REMOVE with one path, which is not `$`.
pub fn remove(doc: &mut Json, mut legs: &[Leg]) {
    // A cell of what is no array is the value itself.
    while let Some((Leg::Cell(at), parents)) = legs.split_last()
        && at.place(1) == 0
        && locate(doc, parents).is_some_and(|parent| !matches!(parent, Json::Array(_)))
    {
        legs = parents;
    }
    let Some((last, parents)) = legs.split_last() else {
        return;
    };
    match (last, locate(doc, parents)) {
        (Leg::Member(key), Some(Json::Object(members))) => {
            if let Ok(at) = Json::find(members, key) {
                members.remove(at);
            }
        }
        (Leg::Cell(at), Some(Json::Array(items))) => {
            if let Some(at) = usize::try_from(at.place(items.len()))
                .ok()
                .filter(|at| *at < items.len())
            {
                items.remove(at);
            }
        }
        _ => {}
    }
}

/// JSON_ARRAY_APPEND with one path.
pub fn append(doc: &mut Json, legs: &[Leg], value: Json) {
    match locate(doc, legs) {
        Some(Json::Array(items)) => items.push(value),
        Some(found) => {
            let old = std::mem::replace(found, Json::Null);
            *found = Json::Array(vec![old, value]);
        }
        None => {}
    }
}

/// JSON_ARRAY_INSERT with one path.
pub fn array_insert(doc: &mut Json, legs: &[Leg], value: Json) -> ArrayInsert {
    let Some((Leg::Cell(at), parents)) = legs.split_last() else {
        return ArrayInsert::NoCell;
    };
    if let Some(Json::Array(items)) = locate(doc, parents) {
        items.insert(clamp(*at, items.len()), value);
    }
    ArrayInsert::Cell
}

/// JSON_MERGE_PRESERVE of two documents.
///
/// # Errors
/// The statement may not go on.
pub fn merge_preserve(a: Json, b: Json, work: &mut Work<'_>) -> SqlResult<Json> {
    match (a, b) {
        (Json::Object(a), Json::Object(b)) => {
            let merge = |a: Option<Json>, b: Option<Json>, work: &mut Work<'_>| match (a, b) {
                (Some(a), Some(b)) => merge_preserve(a, b, work).map(Some),
                (one, None) | (None, one) => Ok(one),
            };
            merge_members(a, b, work, merge)
        }
        (a, b) => {
            let mut items = a.into_elements();
            items.append(&mut b.into_elements());
            Ok(Json::Array(items))
        }
    }
}

/// JSON_MERGE_PATCH of two documents (RFC 7396).
///
/// # Errors
/// The statement may not go on.
pub fn merge_patch(target: Json, patch: Json, work: &mut Work<'_>) -> SqlResult<Json> {
    let Json::Object(changes) = patch else {
        return Ok(patch);
    };
    let members = match target {
        Json::Object(members) => members,
        _ => Vec::new(),
    };
    merge_members(members, changes, work, |old, change, work| match change {
        None => Ok(old),
        Some(Json::Null) => Ok(None),
        Some(change) => merge_patch(old.unwrap_or(Json::Null), change, work).map(Some),
    })
}

/// An object of what `merge` makes of the values of each key of two objects.
fn merge_members(
    a: Vec<(Vec<u8>, Json)>,
    b: Vec<(Vec<u8>, Json)>,
    work: &mut Work<'_>,
    merge: impl Fn(Option<Json>, Option<Json>, &mut Work<'_>) -> SqlResult<Option<Json>>,
) -> SqlResult<Json> {
    let mut out = Vec::with_capacity(a.len().max(b.len()));
    let (mut a, mut b) = (a.into_iter().peekable(), b.into_iter().peekable());
    loop {
        work.done(EACH)?;
        let order = match (a.peek(), b.peek()) {
            (Some(x), Some(y)) => key_order(&x.0, &y.0),
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (None, None) => return Ok(Json::Object(out)),
        };
        let left = if order.is_le() { a.next() } else { None };
        let right = if order.is_ge() { b.next() } else { None };
        let (key, x, y) = match (left, right) {
            (Some((key, x)), right) => (key, Some(x), right.map(|(_, y)| y)),
            (None, Some((key, y))) => (key, None, Some(y)),
            (None, None) => unreachable!("one of them is next"),
        };
        if let Some(value) = merge(x, y, work)? {
            out.push((key, value));
        }
    }
}
