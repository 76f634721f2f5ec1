//! JSON_CONTAINS, JSON_OVERLAPS and MEMBER OF, by hashing where arrays meet.
//!
//! Neighbours: `order` says what is equal, and hashes; `schema` looks for different values, too.
//! **Invariant**: documents are at most [`super::MAX_DEPTH`] deep, so the recursion ends.

use std::collections::HashMap;

use super::order::{compare, hash64};
use super::view::{Items, JsonRef, View};
use crate::ctx::Work;
use crate::error::SqlResult;

/// What a comparison counts for, bytes.
const EACH: usize = 32;
/// Candidates that are compared with one element after the other.
const FEW: usize = 4;

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
        (View::Array(items), View::Array(wanted)) => contains_all(items, wanted, work),
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

/// Are all the candidates in elements? Of many, scalars are looked for by their hashes.
fn contains_all(items: Items<'_>, wanted: Items<'_>, work: &mut Work<'_>) -> SqlResult<bool> {
    let mut scalars = Distinct::default();
    if wanted.len() > FEW {
        for item in items.iter().filter(|item| item.is_scalar()) {
            scalars.add(item, work)?;
        }
    }
    for w in wanted.iter() {
        let is_found = w.is_scalar() && scalars.has(w, work)?;
        if !is_found && !within(items, w, work)? {
            return Ok(false);
        }
    }
    Ok(true)
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
///
/// # Errors
/// The statement may not go on.
pub fn overlaps(a: JsonRef<'_>, b: JsonRef<'_>, work: &mut Work<'_>) -> SqlResult<bool> {
    match (a.view(), b.view()) {
        (View::Array(a), View::Array(b)) => common(a, b, work),
        (View::Array(_), _) => member_of(b, a, work),
        (_, View::Array(_)) => member_of(a, b, work),
        (View::Object(a), View::Object(b)) => {
            for (key, v) in a.members() {
                work.done(EACH)?;
                if b.find(key).is_some_and(|w| equal(v, w)) {
                    return Ok(true);
                }
            }
            Ok(false)
        }
        _ => Ok(equal(a, b)),
    }
}

/// MEMBER OF: is the value an element of the array, or equal to what is no array?
///
/// # Errors
/// The statement may not go on.
pub fn member_of(value: JsonRef<'_>, list: JsonRef<'_>, work: &mut Work<'_>) -> SqlResult<bool> {
    let View::Array(items) = list.view() else {
        return Ok(equal(list, value));
    };
    for item in items.iter() {
        work.done(EACH)?;
        if equal(item, value) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Do two arrays have an equal element?
fn common(a: Items<'_>, b: Items<'_>, work: &mut Work<'_>) -> SqlResult<bool> {
    let (short, long) = if a.len() < b.len() { (a, b) } else { (b, a) };
    let mut known = Distinct::default();
    for item in short.iter() {
        known.add(item, work)?;
    }
    for item in long.iter() {
        if known.has(item, work)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Different values, found by their hashes.
#[derive(Default)]
pub(super) struct Distinct<'a> {
    values: HashMap<u64, Vec<JsonRef<'a>>>,
}

impl<'a> Distinct<'a> {
    /// Is a value equal to one of them?
    pub(super) fn has(&self, value: JsonRef<'_>, work: &mut Work<'_>) -> SqlResult<bool> {
        work.done(EACH)?;
        match self.values.get(&hash64(value)) {
            Some(alike) => is_among(alike, value, work),
            None => Ok(false),
        }
    }

    /// Adds a value; false if an equal one is there already.
    pub(super) fn add(&mut self, value: JsonRef<'a>, work: &mut Work<'_>) -> SqlResult<bool> {
        work.done(EACH)?;
        let alike = self.values.entry(hash64(value)).or_default();
        if is_among(alike, value, work)? {
            return Ok(false);
        }
        alike.push(value);
        Ok(true)
    }
}

/// Many values may have one hash: numbers with more digits than a double has, or texts that somebody has chosen.
fn is_among(alike: &[JsonRef<'_>], value: JsonRef<'_>, work: &mut Work<'_>) -> SqlResult<bool> {
    for known in alike {
        if equal(*known, value) {
            return Ok(true);
        }
        work.done(EACH)?;
    }
    Ok(false)
}
