//! JSON_SEARCH.
//!
//! Neighbours: `collation` matches patterns.
//! **Invariant**: a path is in the result once, in the order of the document.

use std::collections::HashSet;
use std::ops::ControlFlow;

use super::read::{document, one_or_all, path};
use super::{json, ret_json};
use crate::collation::{Coercibility, Collation};
use crate::ctx::Work;
use crate::error::SqlResult;
use crate::errors;
use crate::func::call::Call;
use crate::func::{ANY_ARGS, ArgType, FuncDef, RetCtx, Signature, TOTAL, def};
use crate::json::{Json, Path, View, walk};
use crate::sqltype::TypeKind;
use crate::value::Value;

pub(in crate::func) const DEFS: &[FuncDef] = &[def(
    "json_search",
    3,
    ANY_ARGS,
    TOTAL,
    ret_search,
    json_search,
)];

/// A pattern that insists on its collation is compared in it, any other as the document's texts are.
fn ret_search(args: &[ArgType], ctx: &RetCtx) -> SqlResult<Signature> {
    let pattern = &args[2];
    let is_text =
        pattern.ty.is_string() || matches!(pattern.ty.kind, TypeKind::Enum(_) | TypeKind::Set(_));
    let insists = matches!(
        pattern.coercibility,
        Coercibility::Explicit | Coercibility::Implicit | Coercibility::SysConst
    );
    let collation = match is_text && insists && !pattern.ty.collation.is_binary() {
        true => pattern.ty.collation,
        false => Collation::UTF8MB4_0900_BIN,
    };
    Ok(Signature {
        collation,
        ..ret_json(args, ctx)?
    })
}

/// The escape character of argument `i`: backslash unless given, none if empty.
fn escape(c: &Call, i: usize) -> SqlResult<Option<char>> {
    if !c.has(i) || c.null(i) {
        return Ok(Some('\\'));
    }
    let text = c.text(i);
    let text = String::from_utf8_lossy(&text);
    let mut chars = text.chars();
    match (chars.next(), chars.next()) {
        // An empty text means the default here, unlike that of LIKE.
        (None, _) => Ok(Some('\\')),
        (found, None) => Ok(found),
        _ => Err(errors::wrong_arguments("ESCAPE")),
    }
}

fn json_search(c: &Call) -> SqlResult<Value> {
    const NAME: &str = "json_search";
    let Some(document) = document(c, 0, NAME)? else {
        return Ok(Value::Null);
    };
    let Some(one) = one_or_all(c, 1, NAME)? else {
        return Ok(Value::Null);
    };
    let escape = escape(c, 3)?;
    let mut paths = Vec::new();
    for i in 4..c.argc() {
        let Some(path) = path(c, i)? else {
            return Ok(Value::Null);
        };
        paths.push(path);
    }
    if paths.is_empty() {
        paths.push(std::rc::Rc::new(Path::default()));
    }
    if c.null(2) {
        return Ok(Value::Null);
    }
    let pattern = c.text(2);
    let mut found: Vec<Json> = Vec::new();
    let mut seen = HashSet::new();
    let matches = |text| {
        c.types
            .collation
            .like(text, &pattern, escape, c.ctx.session)
    };
    let mut failed = None;
    let work = &mut Work::new(c.ctx.session);
    for path in &paths {
        let end = walk(document.root(), path, work, &mut |at, v| {
            let View::String(text) = v.view() else {
                return ControlFlow::Continue(());
            };
            match matches(text) {
                Ok(true) if seen.insert(at.to_owned()) => found.push(Json::string(at)),
                Ok(_) => return ControlFlow::Continue(()),
                Err(e) => failed = Some(e),
            }
            match one || failed.is_some() {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            }
        })?;
        if end.is_break() {
            break;
        }
    }
    failed.map_or(Ok(()), Err)?;
    match found.len() {
        0 => Ok(Value::Null),
        1 => json(c, &found[0]),
        _ => json(c, &Json::Array(found)),
    }
}
