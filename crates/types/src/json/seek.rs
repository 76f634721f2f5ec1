//! What a path finds in a document.
//!
//! Neighbours: `path` parses; `view` reads only what is on the way.
//! **Invariants**: a value is found once, in the order of the document; a scalar or an object is taken for an array
//! of itself where a path asks for a cell, but for [`seek_in_arrays`]; a path with several `**` visits no value more
//! often than it has legs, for `**` goes on from a value once.

use std::collections::HashSet;
use std::ops::ControlFlow;

use super::path::{ArrayIndex, Leg, Path, shown_key};
use super::view::{Items, JsonRef, View};
use crate::ctx::Work;
use crate::error::{SqlError, SqlResult};

/// A visited value is as much work as so many bytes.
const VISIT_BYTES: usize = 16;

/// Everything the path finds.
///
/// # Errors
/// The statement is killed or out of time.
pub fn seek<'a>(doc: JsonRef<'a>, path: &Path, work: &mut Work<'_>) -> SqlResult<Vec<JsonRef<'a>>> {
    let mut found = all(doc, path, true, work)?;
    // Only `**` comes to a value on several ways.
    if path.legs.contains(&Leg::Descend) {
        let mut seen = HashSet::new();
        found.retain(|v| seen.insert(v.address()));
    }
    Ok(found)
}

/// Everything the path finds where a cell is one of an array, and of nothing else: JSON_KEYS and JSON_SEARCH look so.
///
/// # Errors
/// The statement is killed or out of time.
pub fn seek_in_arrays<'a>(
    doc: JsonRef<'a>,
    path: &Path,
    work: &mut Work<'_>,
) -> SqlResult<Vec<JsonRef<'a>>> {
    all(doc, path, false, work)
}

fn all<'a>(
    doc: JsonRef<'a>,
    path: &Path,
    wraps: bool,
    work: &mut Work<'_>,
) -> SqlResult<Vec<JsonRef<'a>>> {
    let mut found = Vec::new();
    Search::new(path, wraps, work).run(doc, &mut |v| {
        found.push(v);
        ControlFlow::Continue(())
    })?;
    Ok(found)
}

/// Does the path find anything?
///
/// # Errors
/// The statement is killed or out of time.
pub fn exists(doc: JsonRef<'_>, path: &Path, work: &mut Work<'_>) -> SqlResult<bool> {
    let mut found = false;
    Search::new(path, true, work).run(doc, &mut |_| {
        found = true;
        ControlFlow::Break(())
    })?;
    Ok(found)
}

/// The one value that a path without wildcards finds.
pub fn extract_one<'a>(doc: JsonRef<'a>, path: &Path) -> Option<JsonRef<'a>> {
    debug_assert!(!path.many());
    path.legs
        .iter()
        .try_fold(doc, |doc, leg| step(leg, doc, true))
}

/// Where a leg without wildcards leads. `wraps`: a value that is no array is the only cell of one.
fn step<'a>(leg: &Leg, doc: JsonRef<'a>, wraps: bool) -> Option<JsonRef<'a>> {
    match (leg, doc.view()) {
        (Leg::Member(key), View::Object(items)) => items.find(key),
        (Leg::Cell(at), View::Array(items)) => {
            let at = usize::try_from(at.place(items.len())).ok()?;
            (at < items.len()).then(|| items.get(at))
        }
        (Leg::Cell(at), _) if wraps => (at.place(1) == 0).then_some(doc),
        _ => None,
    }
}

type Visit<'v, 'a> = &'v mut dyn FnMut(JsonRef<'a>) -> ControlFlow<()>;

/// Why a search ends before its end.
enum Stop {
    /// It has found what it was for.
    Found,
    Error(SqlError),
}

struct Search<'s, 'w> {
    path: &'s Path,
    /// A value that is no array is the only cell of one.
    wraps: bool,
    work: &'s mut Work<'w>,
    /// Where `**` has gone on from, with the number of legs behind it. Empty if there is only one in the path.
    been: HashSet<(usize, *const u8)>,
    remembers: bool,
}

impl<'s, 'w> Search<'s, 'w> {
    fn new(path: &'s Path, wraps: bool, work: &'s mut Work<'w>) -> Self {
        let descends = path.legs.iter().filter(|leg| **leg == Leg::Descend);
        Search {
            path,
            wraps,
            work,
            been: HashSet::new(),
            remembers: descends.count() > 1,
        }
    }

    fn run<'a>(mut self, doc: JsonRef<'a>, visit: Visit<'_, 'a>) -> SqlResult<()> {
        match self.follow(doc, &self.path.legs, visit) {
            ControlFlow::Break(Stop::Error(error)) => Err(error),
            ControlFlow::Break(Stop::Found) | ControlFlow::Continue(()) => Ok(()),
        }
    }

    fn follow<'a>(
        &mut self,
        doc: JsonRef<'a>,
        legs: &'s [Leg],
        visit: Visit<'_, 'a>,
    ) -> ControlFlow<Stop> {
        if let Err(error) = self.work.done(VISIT_BYTES) {
            return ControlFlow::Break(Stop::Error(error));
        }
        let Some((leg, rest)) = legs.split_first() else {
            return visit(doc).map_break(|()| Stop::Found);
        };
        match (leg, doc.view()) {
            (Leg::Member(_) | Leg::Cell(_), _) => match step(leg, doc, self.wraps) {
                Some(value) => self.follow(value, rest, visit),
                None => ControlFlow::Continue(()),
            },
            (Leg::AnyMember, View::Object(items)) | (Leg::AnyCell, View::Array(items)) => {
                items.iter().try_for_each(|v| self.follow(v, rest, visit))
            }
            (Leg::Range(from, to), View::Array(items)) => range(*from, *to, items.len())
                .try_for_each(|at| self.follow(items.get(at), rest, visit)),
            (Leg::Range(from, to), _) if self.wraps => match range(*from, *to, 1).next() {
                Some(_) => self.follow(doc, rest, visit),
                None => ControlFlow::Continue(()),
            },
            (Leg::Descend, view) => {
                if self.remembers && !self.been.insert((rest.len(), doc.address())) {
                    return ControlFlow::Continue(());
                }
                self.follow(doc, rest, visit)?;
                children(view).try_for_each(|v| self.follow(v, legs, visit))
            }
            _ => ControlFlow::Continue(()),
        }
    }
}

/// The cells of a range that an array of `len` cells has.
pub(super) fn range(from: ArrayIndex, to: ArrayIndex, len: usize) -> std::ops::Range<usize> {
    let clamp = |at: i64| usize::try_from(at.clamp(0, len as i64)).unwrap_or(0);
    let start = clamp(from.place(len));
    start..clamp(to.place(len) + 1).max(start)
}

fn children(view: View<'_>) -> impl Iterator<Item = JsonRef<'_>> {
    let items: Option<Items<'_>> = match view {
        View::Array(items) | View::Object(items) => Some(items),
        _ => None,
    };
    items.into_iter().flat_map(Items::iter)
}

/// Calls `f` for every value below one that [`seek_in_arrays`] finds, itself included, with its path from the root as
/// text, which begins with `path` if that has no wildcards.
///
/// # Errors
/// The statement is killed or out of time.
pub fn walk<'a>(
    doc: JsonRef<'a>,
    path: &Path,
    work: &mut Work<'_>,
    f: &mut dyn FnMut(&str, JsonRef<'a>) -> ControlFlow<()>,
) -> SqlResult<ControlFlow<()>> {
    let found = seek_in_arrays(doc, path, work)?;
    if let ([one], false) = (&found[..], path.many()) {
        // As it is written: a cell that is counted from the end stays `last`.
        let at = &mut path.to_string();
        return Ok(below(*one, true, &HashSet::new(), at, f));
    }
    let starts: HashSet<_> = found.iter().map(|v| v.address()).collect();
    let mut at = String::from("$");
    Ok(below(doc, false, &starts, &mut at, f))
}

fn below<'a>(
    doc: JsonRef<'a>,
    inside: bool,
    starts: &HashSet<*const u8>,
    at: &mut String,
    f: &mut dyn FnMut(&str, JsonRef<'a>) -> ControlFlow<()>,
) -> ControlFlow<()> {
    let inside = inside || starts.contains(&doc.address());
    if inside {
        f(at, doc)?;
    }
    let len = at.len();
    match doc.view() {
        View::Array(items) => {
            for (i, item) in items.iter().enumerate() {
                at.push_str(&format!("[{i}]"));
                below(item, inside, starts, at, f)?;
                at.truncate(len);
            }
        }
        View::Object(items) => {
            for (key, item) in items.members() {
                at.push('.');
                at.push_str(&shown_key(key));
                below(item, inside, starts, at, f)?;
                at.truncate(len);
            }
        }
        _ => {}
    }
    ControlFlow::Continue(())
}
