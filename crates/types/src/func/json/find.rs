//! JSON functions that look into documents.
//!
//! Neighbours: `crate::json::seek` follows paths in the encoded bytes.
//! **Invariant**: what a single path without wildcards finds is the result itself, everything else is an array.

use super::read::{document, one_or_all, path, plain_path, value};
use super::{json, ret_json, ret_strict_truth};
use crate::ctx::Work;
use crate::error::SqlResult;
use crate::func::call::{Call, int};
use crate::func::ret::int_null;
use crate::func::{ANY_ARGS, FuncDef, FuncFlags, TOTAL, def};
use crate::json::{self as doc, Json, JsonRef, View};
use crate::value::Value;

pub(in crate::func) const DEFS: &[FuncDef] = &[
    def(
        "json_extract",
        2,
        ANY_ARGS,
        TOTAL.with(FuncFlags::EXTRACTS),
        ret_json,
        json_extract,
    ),
    def("json_contains", 2, 3, TOTAL, int_null::<21>, json_contains),
    def(
        "json_contains_path",
        3,
        ANY_ARGS,
        TOTAL,
        int_null::<21>,
        json_contains_path,
    ),
    def(
        "json_overlaps",
        2,
        2,
        TOTAL,
        ret_strict_truth,
        json_overlaps,
    ),
    def("json_keys", 1, 2, TOTAL, ret_json, json_keys),
    def("json_length", 1, 2, TOTAL, int_null::<21>, json_length),
    // `value MEMBER OF (document)`.
    def("member of", 2, 2, TOTAL, ret_strict_truth, member_of),
];

/// What JSON_EXTRACT finds.
enum Extracted<'a> {
    /// What a single path without wildcards finds.
    Part(JsonRef<'a>),
    /// The document of an array of everything that is found.
    List(Vec<u8>),
}

fn json_extract(c: &Call) -> SqlResult<Value> {
    extract(c, |found| {
        Value::Json(match found {
            Extracted::Part(part) => part.to_document(),
            Extracted::List(list) => list,
        })
    })
}

/// JSON_UNQUOTE of what JSON_EXTRACT finds.
pub(in crate::func) fn json_extract_unquoted(c: &Call) -> SqlResult<Value> {
    extract(c, |found| {
        let text = match &found {
            Extracted::Part(part) => doc::unquoted(*part),
            Extracted::List(list) => doc::unquoted(JsonRef::new(list)),
        };
        Value::Str(text.into_owned())
    })
}

/// What `make` makes of what the paths find, NULL where they find nothing.
fn extract(c: &Call, make: impl FnOnce(Extracted<'_>) -> Value) -> SqlResult<Value> {
    const NAME: &str = "json_extract";
    let Some(document) = document(c, 0, NAME)? else {
        return Ok(Value::Null);
    };
    let root = document.root();
    let (mut found, work) = (Vec::new(), &mut Work::new(c.ctx.session));
    for i in 1..c.argc() {
        let Some(path) = path(c, i)? else {
            return Ok(Value::Null);
        };
        if c.argc() == 2 && !path.many() {
            let one = doc::extract_one(root, &path);
            return Ok(one.map_or(Value::Null, |part| make(Extracted::Part(part))));
        }
        found.append(&mut doc::seek(root, &path, work)?);
    }
    if found.is_empty() {
        return Ok(Value::Null);
    }
    let items = found.iter().map(|v| v.to_tree(work));
    let list = Json::Array(items.collect::<SqlResult<_>>()?);
    let list = doc::encode_watched(&list, work)?;
    Ok(make(Extracted::List(list)))
}

/// The part of a document that an optional path argument names; `None` for NULL.
fn part<'a>(c: &Call, root: JsonRef<'a>, i: usize) -> SqlResult<Option<JsonRef<'a>>> {
    if !c.has(i) {
        return Ok(Some(root));
    }
    Ok(match plain_path(c, i)? {
        Some(path) => doc::extract_one(root, &path),
        None => None,
    })
}

fn json_contains(c: &Call) -> SqlResult<Value> {
    const NAME: &str = "json_contains";
    // Behind a NULL nothing is looked at.
    let Some(target) = document(c, 0, NAME)? else {
        return Ok(Value::Null);
    };
    let Some(candidate) = document(c, 1, NAME)? else {
        return Ok(Value::Null);
    };
    Ok(match part(c, target.root(), 2)? {
        Some(target) => Value::bool(doc::contains(
            target,
            candidate.root(),
            &mut Work::new(c.ctx.session),
        )?),
        None => Value::Null,
    })
}

fn json_contains_path(c: &Call) -> SqlResult<Value> {
    const NAME: &str = "json_contains_path";
    let Some(document) = document(c, 0, NAME)? else {
        return Ok(Value::Null);
    };
    let Some(one) = one_or_all(c, 1, NAME)? else {
        return Ok(Value::Null);
    };
    let work = &mut Work::new(c.ctx.session);
    for i in 2..c.argc() {
        let Some(path) = path(c, i)? else {
            return Ok(Value::Null);
        };
        if doc::exists(document.root(), &path, work)? == one {
            return Ok(Value::bool(one));
        }
    }
    Ok(Value::bool(!one))
}

fn json_overlaps(c: &Call) -> SqlResult<Value> {
    const NAME: &str = "json_overlaps";
    let Some(a) = document(c, 0, NAME)? else {
        return Ok(Value::Null);
    };
    let Some(b) = document(c, 1, NAME)? else {
        return Ok(Value::Null);
    };
    let work = &mut Work::new(c.ctx.session);
    doc::overlaps(a.root(), b.root(), work).map(Value::bool)
}

fn member_of(c: &Call) -> SqlResult<Value> {
    let Some(list) = document(c, 1, "member of")? else {
        return Ok(Value::Null);
    };
    if c.null(0) {
        return Ok(Value::Null);
    }
    let wanted = doc::encode(&value(c, 0))?;
    let work = &mut Work::new(c.ctx.session);
    doc::member_of(JsonRef::new(&wanted), list.root(), work).map(Value::bool)
}

fn json_keys(c: &Call) -> SqlResult<Value> {
    let Some(document) = document(c, 0, "json_keys")? else {
        return Ok(Value::Null);
    };
    let found = match c.has(1) {
        false => Some(document.root()),
        true => match plain_path(c, 1)? {
            Some(path) => {
                let work = &mut Work::new(c.ctx.session);
                doc::seek_in_arrays(document.root(), &path, work)?.pop()
            }
            None => None,
        },
    };
    match found.map(JsonRef::view) {
        Some(View::Object(items)) => json(
            c,
            &Json::Array(items.members().map(|(key, _)| Json::string(key)).collect()),
        ),
        _ => Ok(Value::Null),
    }
}

fn json_length(c: &Call) -> SqlResult<Value> {
    let Some(document) = document(c, 0, "json_length")? else {
        return Ok(Value::Null);
    };
    let root = document.root();
    let found = if c.has(1) {
        let Some(path) = path(c, 1)? else {
            return Ok(Value::Null);
        };
        if path.many() {
            let found = doc::seek(root, &path, &mut Work::new(c.ctx.session))?.len();
            return if found == 0 {
                Ok(Value::Null)
            } else {
                int(found as i64)
            };
        }
        doc::extract_one(root, &path)
    } else {
        Some(root)
    };
    match found.map(JsonRef::view) {
        None => Ok(Value::Null),
        Some(View::Array(items) | View::Object(items)) => int(items.len() as i64),
        Some(_) => int(1),
    }
}
