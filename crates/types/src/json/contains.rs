//! JSON_CONTAINS, JSON_OVERLAPS and MEMBER OF.
//!
//! Neighbours: `order` says what is equal.
//! **Invariant**: documents are at most [`super::MAX_DEPTH`] deep, so the recursion ends.

use super::order::compare;
use super::view::{Items, JsonRef, View};
use crate::ctx::Work;
use crate::error::SqlResult;

/// What a comparison counts for, bytes.
const EACH: usize = 32;

fn equal(a: JsonRef<'_>, b: JsonRef<'_>) -> bool {
    compare(a, b).is_eq()
}

/// JSON_CONTAINS: is the candidate in the target?
///
/// # Errors
/// The statement may not go on.
pub fn contains(
    target: JsonRef<'_>,
    candidate: JsonRef<'_>,
    work: &mut Work<'_>,
) -> SqlResult<bool> {
    work.done(EACH)?;
    match (target.view(), candidate.view()) {
        (View::Array(items), View::Array(wanted)) => {
            for w in wanted.iter() {
                if !within(items, w, work)? {
                    return Ok(false);
                }
            }
            Ok(true)
        }
        (View::Array(items), _) => within(items, candidate, work),
        (View::Object(members), View::Object(wanted)) => {
            for (key, w) in wanted.members() {
                match members.find(key) {
                    Some(v) if contains(v, w, work)? => (),
                    _ => return Ok(false),
                }
            }
            Ok(true)
        }
        _ => Ok(equal(target, candidate)),
    }
}

/// Is the candidate in one of the elements?
fn within(items: Items<'_>, candidate: JsonRef<'_>, work: &mut Work<'_>) -> SqlResult<bool> {
    for item in items.iter() {
        if contains(item, candidate, work)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// JSON_OVERLAPS: is an element of one in the other, or a member, or are they equal?
pub fn overlaps(a: JsonRef<'_>, b: JsonRef<'_>) -> bool {
    match (a.view(), b.view()) {
        (View::Array(a), View::Array(b)) => common(a, b),
        (View::Array(items), _) => items.iter().any(|item| equal(item, b)),
        (_, View::Array(items)) => items.iter().any(|item| equal(item, a)),
        (View::Object(a), View::Object(b)) => a
            .members()
            .any(|(key, v)| b.find(key).is_some_and(|w| equal(v, w))),
        _ => equal(a, b),
    }
}

/// Do two arrays have an equal element? The longer one is sorted, not searched again and again.
fn common(a: Items<'_>, b: Items<'_>) -> bool {
    let (short, long) = if a.len() < b.len() { (a, b) } else { (b, a) };
    let mut sorted: Vec<_> = long.iter().collect();
    sorted.sort_by(|x, y| compare(*x, *y));
    short.iter().any(|item| {
        sorted
            .binary_search_by(|probe| compare(*probe, item))
            .is_ok()
    })
}
