//! What a path finds in a document.
//!
//! Neighbours: `path` parses; `view` reads only what is on the way.
//! **Invariants**: a value is found once, in the order of the document; a scalar or an object is taken for an array
//! of itself where a path asks for a cell, but for [`seek_in_arrays`].

use std::collections::HashSet;
use std::ops::ControlFlow;

use super::path::{ArrayIndex, Leg, Path, shown_key};
use super::view::{Items, JsonRef, View};

/// Everything the path finds.
pub fn seek<'a>(doc: JsonRef<'a>, path: &Path) -> Vec<JsonRef<'a>> {
    let mut found: Vec<JsonRef<'a>> = Vec::new();
    let _ = follow(doc, &path.legs, true, &mut |v| {
        found.push(v);
        ControlFlow::Continue(())
    });
    // Only `**` comes to a value on several ways.
    if path.legs.contains(&Leg::Descend) {
        let mut seen = HashSet::new();
        found.retain(|v| seen.insert(v.address()));
    }
    found
}

/// Everything the path finds where a cell is one of an array, and of nothing else: JSON_KEYS and JSON_SEARCH look so.
pub fn seek_in_arrays<'a>(doc: JsonRef<'a>, path: &Path) -> Vec<JsonRef<'a>> {
    let mut found = Vec::new();
    let _ = follow(doc, &path.legs, false, &mut |v| {
        found.push(v);
        ControlFlow::Continue(())
    });
    found
}

/// Does the path find anything?
pub fn exists(doc: JsonRef<'_>, path: &Path) -> bool {
    follow(doc, &path.legs, true, &mut |_| ControlFlow::Break(())).is_break()
}

/// The one value that a path without wildcards finds.
pub fn extract_one<'a>(doc: JsonRef<'a>, path: &Path) -> Option<JsonRef<'a>> {
    debug_assert!(!path.many());
    let mut found = None;
    let _ = follow(doc, &path.legs, true, &mut |v| {
        found = Some(v);
        ControlFlow::Break(())
    });
    found
}

type Visit<'v, 'a> = &'v mut dyn FnMut(JsonRef<'a>) -> ControlFlow<()>;

/// `wraps`: a value that is no array is the only cell of one.
fn follow<'a>(
    doc: JsonRef<'a>,
    legs: &[Leg],
    wraps: bool,
    visit: Visit<'_, 'a>,
) -> ControlFlow<()> {
    let Some((leg, rest)) = legs.split_first() else {
        return visit(doc);
    };
    match (leg, doc.view()) {
        (Leg::Member(key), View::Object(items)) => match items.find(key) {
            Some(value) => follow(value, rest, wraps, visit),
            None => ControlFlow::Continue(()),
        },
        (Leg::AnyMember, View::Object(items)) | (Leg::AnyCell, View::Array(items)) => {
            items.iter().try_for_each(|v| follow(v, rest, wraps, visit))
        }
        (Leg::Cell(at), View::Array(items)) => match usize::try_from(at.place(items.len())) {
            Ok(at) if at < items.len() => follow(items.get(at), rest, wraps, visit),
            _ => ControlFlow::Continue(()),
        },
        (Leg::Cell(at), _) if wraps => match at.place(1) {
            0 => follow(doc, rest, wraps, visit),
            _ => ControlFlow::Continue(()),
        },
        (Leg::Range(from, to), View::Array(items)) => range(*from, *to, items.len())
            .try_for_each(|at| follow(items.get(at), rest, wraps, visit)),
        (Leg::Range(from, to), _) if wraps => match range(*from, *to, 1).next() {
            Some(_) => follow(doc, rest, wraps, visit),
            None => ControlFlow::Continue(()),
        },
        (Leg::Descend, view) => {
            follow(doc, rest, wraps, visit)?;
            children(view).try_for_each(|v| follow(v, legs, wraps, visit))
        }
        _ => ControlFlow::Continue(()),
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
pub fn walk<'a>(
    doc: JsonRef<'a>,
    path: &Path,
    f: &mut dyn FnMut(&str, JsonRef<'a>) -> ControlFlow<()>,
) -> ControlFlow<()> {
    let found = seek_in_arrays(doc, path);
    if let ([one], false) = (&found[..], path.many()) {
        // As it is written: a cell that is counted from the end stays `last`.
        return below(*one, true, &HashSet::new(), &mut path.to_string(), f);
    }
    let starts: HashSet<_> = found.iter().map(|v| v.address()).collect();
    let mut at = String::from("$");
    below(doc, false, &starts, &mut at, f)
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
