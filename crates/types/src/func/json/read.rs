//! Arguments of JSON functions.
//!
//! Neighbours: every kernel of this directory.
//! **Invariants**: what is read from a column of type JSON is not copied; a text is parsed anew for every call.

use std::borrow::Cow;
use std::rc::Rc;

use crate::ctx::Work;
use crate::error::{SqlError, SqlResult};
use crate::errors;
use crate::func::call::Call;
use crate::json::{self, Fault, Json, JsonRef, Path};
use crate::sqltype::{SqlType, TypeKind};
use crate::value::Value;

/// A document argument.
pub(super) struct Document<'a>(Cow<'a, [u8]>);

impl<'a> Document<'a> {
    /// Its bytes.
    pub(super) fn into_bytes(self) -> Cow<'a, [u8]> {
        self.0
    }

    /// Its root.
    pub(super) fn root(&self) -> JsonRef<'_> {
        JsonRef::new(&self.0)
    }
}

/// May a value of this type be a document? Texts and JSON may, whatever they say; labels and geometries may not.
pub fn is_document_type(ty: &SqlType) -> bool {
    match ty.kind {
        TypeKind::Geometry(_) => false,
        TypeKind::Json | TypeKind::Null => true,
        _ => ty.is_string(),
    }
}

/// 3144 for bytes, 3146 for what is neither of a text's type nor JSON, also where it is NULL.
fn check_type(v: &Value, ty: &SqlType, i: usize, function: &str) -> SqlResult<()> {
    match v {
        Value::Json(_) => Ok(()),
        _ if !is_document_type(ty) => Err(errors::no_json(&i + 1, function)),
        Value::Str(_) if ty.is_string() && ty.collation.is_binary() => {
            Err(errors::json_from_binary())
        }
        Value::Str(_) | Value::Null => Ok(()),
        _ => Err(errors::no_json(&i + 1, function)),
    }
}

/// Argument `i` as a document; `None` if NULL.
pub(super) fn document<'a>(
    c: &Call<'a>,
    i: usize,
    function: &str,
) -> SqlResult<Option<Document<'a>>> {
    if let Value::Json(doc) = c.args[i] {
        return Ok(Some(Document(Cow::Borrowed(doc))));
    }
    let Some(parsed) = parsed(c, i, function)? else {
        return Ok(None);
    };
    let doc = parsed.map_err(|e| e.in_argument(i + 1, function))?;
    Ok(Some(Document(Cow::Owned(json::encode_watched(
        &doc,
        &mut Work::new(c.ctx.session),
    )?))))
}

/// Argument `i`, a text, parsed; `None` if NULL.
fn parsed(c: &Call, i: usize, function: &str) -> SqlResult<Option<Result<Json, Fault>>> {
    let v = c.args[i];
    check_type(v, c.ty(i), i, function)?;
    Ok(match v {
        Value::Str(text) => Some(json::parse(text, c.ctx.session)),
        _ => None,
    })
}

/// Argument `i` as a tree; `None` if NULL.
pub(super) fn tree(c: &Call, i: usize, function: &str) -> SqlResult<Option<Json>> {
    if let Value::Json(doc) = c.args[i] {
        let work = &mut Work::new(c.ctx.session);
        return JsonRef::new(doc).to_tree(work).map(Some);
    }
    match parsed(c, i, function)? {
        Some(doc) => doc.map(Some).map_err(|e| e.in_argument(i + 1, function)),
        None => Ok(None),
    }
}

/// Is argument `i` a document? `None` if NULL.
pub(super) fn is_document(c: &Call, i: usize) -> SqlResult<Option<bool>> {
    let v = c.args[i];
    let text = match v {
        _ if !is_document_type(c.ty(i)) => return Ok(Some(false)),
        Value::Null => return Ok(None),
        Value::Json(_) => return Ok(Some(true)),
        Value::Str(text) if !(c.ty(i).is_string() && c.ty(i).collation.is_binary()) => text,
        _ => return Ok(Some(false)),
    };
    match json::parse(text, c.ctx.session) {
        Ok(_) => Ok(Some(true)),
        Err(Fault::TooDeep) => Err(json::too_deep()),
        Err(Fault::Stopped(e)) => Err(e),
        Err(Fault::Syntax(..)) => Ok(Some(false)),
    }
}

/// Argument `i` as a JSON value: a text is a string, SQL NULL is null.
pub(super) fn value(c: &Call, i: usize) -> Json {
    json::from_value(c.args[i].as_ref(), c.ty(i))
}

/// Argument `i` as a path; `None` if NULL.
pub(super) fn path(c: &Call, i: usize) -> SqlResult<Option<Rc<Path>>> {
    if c.null(i) {
        return Ok(None);
    }
    if c.is_binary(i) {
        return Err(errors::json_from_binary());
    }
    let text = crate::cast::to_str(c.args[i], c.ty(i));
    json::parse_path(&text).map(Some)
}

/// The same where wildcards are not allowed: 3149.
pub(super) fn plain_path(c: &Call, i: usize) -> SqlResult<Option<Rc<Path>>> {
    let path = path(c, i)?;
    if path.as_ref().is_some_and(|p| p.many()) {
        let message = "In this situation, path expressions may not contain the * and ** tokens or an array range.";
        return Err(SqlError::new(3149, "42000", message));
    }
    Ok(path)
}

/// Argument `i` says 'one' rather than 'all'; `None` if NULL. Else 3154.
pub(super) fn one_or_all(c: &Call, i: usize, function: &str) -> SqlResult<Option<bool>> {
    if c.null(i) {
        return Ok(None);
    }
    let word = crate::cast::to_str(c.args[i], c.ty(i));
    if word.eq_ignore_ascii_case(b"one") {
        return Ok(Some(true));
    }
    if word.eq_ignore_ascii_case(b"all") {
        return Ok(Some(false));
    }
    let message =
        format!("The oneOrAll argument to {function} may take these values: 'one' or 'all'.");
    Err(SqlError::new(3154, "42000", message))
}

/// Is the argument's type one of texts? (JSON_QUOTE and JSON_UNQUOTE take no other.) Else 3064, or 3144 for bytes.
pub(super) fn check_text(c: &Call, i: usize, function: &str) -> SqlResult<()> {
    match c.ty(i).kind {
        TypeKind::Json | TypeKind::Enum(_) | TypeKind::Set(_) | TypeKind::Null => Ok(()),
        TypeKind::Geometry(_) => Err(errors::wrong_argument_type(i + 1, function)),
        _ if c.is_binary(i) => Err(errors::json_from_binary()),
        _ if c.ty(i).is_string() => Ok(()),
        _ => Err(errors::wrong_argument_type(i + 1, function)),
    }
}
