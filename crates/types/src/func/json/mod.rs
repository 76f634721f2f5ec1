//! JSON functions.
//!
//! In flow order: `read` (arguments), `build` (JSON_ARRAY, JSON_OBJECT, JSON_QUOTE, JSON_UNQUOTE), `find` (what looks
//! into documents), `search` (JSON_SEARCH), `change` (what makes changed ones), `describe` (JSON_TYPE, JSON_PRETTY,
//! sizes, schemas), `extract` (JSON_VALUE), `array` (CAST … ARRAY).
//! Neighbours: `crate::json` does the work; JSON_TABLE is there, too.
//! **Invariants**: a document that is given as text is parsed; a value that is given as text is a string; names of
//! functions with a space are what operators are bound to, no statement can call them.

pub mod array;
pub(super) mod build;
pub(super) mod change;
pub(super) mod describe;
pub mod extract;
pub(super) mod find;
mod read;
pub(super) mod search;

pub use read::is_document_type;

use super::ret::{any_nullable, int};
use std::borrow::Cow;

use super::call::Call;
use super::{ArgType, FuncTypes, RetCtx, Signature};
use crate::collation::{Coercibility, Collation};
use crate::ctx::{EvalCtx, Work};
use crate::error::SqlResult;
use crate::sqltype::{SqlType, TypeKind};
use crate::value::Value;

/// A JSON value that may be NULL.
fn ret_json(_: &[ArgType], _: &RetCtx) -> SqlResult<Signature> {
    Ok(Signature {
        coercibility: Coercibility::Implicit,
        ..Signature::plain(SqlType::new(TypeKind::Json))
    })
}

/// A text in utf8mb4 that may be NULL. As in MySQL it gives way to a column's collation: `j->>'$.a' = c` is compared as
/// the column is.
fn ret_text(_: &[ArgType], _: &RetCtx) -> SqlResult<Signature> {
    let ty = SqlType {
        collation: Collation::UTF8MB4_BIN,
        ..SqlType::new(TypeKind::LongText)
    };
    Ok(Signature {
        coercibility: Coercibility::Coercible,
        ..Signature::plain(ty)
    })
}

/// A truth value that is NULL only if an argument is.
fn ret_strict_truth(args: &[ArgType], ctx: &RetCtx) -> SqlResult<Signature> {
    Ok(int::<1>(args, ctx)?.nullable(any_nullable(args)))
}

/// A value as the bytes of a document; `None` for NULL. `function` is what messages call its user.
///
/// # Errors
/// As those of a function's first argument.
pub fn as_document<'a>(
    ctx: &'a EvalCtx<'a>,
    value: &'a Value,
    types: &'a FuncTypes<'a>,
    function: &str,
) -> SqlResult<Option<Cow<'a, [u8]>>> {
    if let Value::Json(document) = value {
        return Ok(Some(Cow::Borrowed(document)));
    }
    let args = &[value];
    let parsed = read::document(&Call { ctx, args, types }, 0, function)?;
    Ok(parsed.map(|document| Cow::Owned(document.into_bytes().into_owned())))
}

/// An encoded document.
fn json(c: &Call, doc: &crate::json::Json) -> SqlResult<Value> {
    let mut work = Work::new(c.ctx.session);
    crate::json::encode_watched(doc, &mut work).map(Value::Json)
}
