//! JSON functions that make documents of SQL values, and back.
//!
//! Neighbours: `crate::json::from_value`.
//! **Invariant**: members of an object are in the order of documents, the last of equal keys stays.

use super::read::{check_text, value};
use super::{json, ret_json, ret_text};
use crate::cast;
use crate::ctx::{MANY_BYTES, Work};
use crate::error::SqlResult;
use crate::errors;
use crate::func::call::{Call, string};
use crate::func::ret::{string_type, text_chars};
use crate::func::{
    ANY_ARGS, ArgType, FuncDef, FuncFlags, PURE, RetCtx, Signature, TOTAL, TOTAL_EVEN, def,
};
use crate::json::{Json, JsonRef, null_key, object, parse, put_escaped, unquoted};
use crate::sqltype::TypeKind;
use crate::value::Value;

/// Characters of an escaped one: `\u0000`.
const ESCAPE_CHARS: u64 = 6;

pub(in crate::func) const DEFS: &[FuncDef] = &[
    def("json_array", 0, ANY_ARGS, TOTAL, ret_json, json_array),
    def(
        "json_object",
        0,
        ANY_ARGS,
        TOTAL_EVEN,
        ret_json,
        json_object,
    ),
    def("json_quote", 1, 1, PURE, ret_quoted, json_quote),
    def(
        "json_unquote",
        1,
        1,
        PURE.with(FuncFlags::UNQUOTES),
        ret_unquoted,
        json_unquote,
    ),
    // A truth value as JSON: the binder puts it around conditions that become JSON values.
    def("json truth", 1, 1, PURE, ret_json, json_truth),
];

fn json_array(c: &Call) -> SqlResult<Value> {
    json(
        c,
        &Json::Array((0..c.argc()).map(|i| value(c, i)).collect()),
    )
}

/// A member's name: any value but NULL and bytes, as text.
pub(in crate::func) fn member_name(v: &Value, ty: &crate::SqlType) -> SqlResult<Vec<u8>> {
    match v {
        Value::Null => Err(null_key()),
        Value::Str(_) if ty.is_string() && ty.collation.is_binary() => {
            Err(errors::json_from_binary())
        }
        Value::Json(doc) => Ok(unquoted(JsonRef::new(doc)).into_owned()),
        v => Ok(cast::to_str(v, ty).into_owned()),
    }
}

fn json_object(c: &Call) -> SqlResult<Value> {
    let members = (0..c.argc())
        .step_by(2)
        .map(|i| Ok((member_name(c.args[i], c.ty(i))?, value(c, i + 1))))
        .collect::<SqlResult<_>>()?;
    json(c, &object(members))
}

/// Every character may become six, and quotes go around them.
fn ret_quoted(args: &[ArgType], ctx: &RetCtx) -> SqlResult<Signature> {
    let chars = u64::from(text_chars(&args[0].ty));
    ret_sized(args, ctx, chars * ESCAPE_CHARS + 2)
}

fn ret_unquoted(args: &[ArgType], ctx: &RetCtx) -> SqlResult<Signature> {
    ret_sized(args, ctx, u64::from(text_chars(&args[0].ty)))
}

fn ret_sized(args: &[ArgType], ctx: &RetCtx, chars: u64) -> SqlResult<Signature> {
    let mut sig = ret_text(args, ctx)?;
    if args[0].ty.kind != TypeKind::Json {
        sig.ret = string_type(chars, sig.ret.collation);
    }
    Ok(sig)
}

fn json_quote(c: &Call) -> SqlResult<Value> {
    check_text(c, 0, "json_quote")?;
    if c.ty(0).kind == TypeKind::Json {
        return Err(errors::wrong_argument_type(1, "json_quote"));
    }
    let mut work = Work::new(c.ctx.session);
    let mut out = vec![b'"'];
    for part in c.text(0).chunks(MANY_BYTES) {
        work.done(part.len())?;
        put_escaped(part, &mut out);
    }
    out.push(b'"');
    string(out)
}

fn json_unquote(c: &Call) -> SqlResult<Value> {
    check_text(c, 0, "json_unquote")?;
    if let Value::Json(doc) = c.args[0] {
        return string(unquoted(JsonRef::new(doc)));
    }
    let text = c.text(0);
    if text.len() < 2 || !text.starts_with(b"\"") || !text.ends_with(b"\"") {
        return string(text);
    }
    match parse(&text, c.ctx.session) {
        Ok(Json::String(s)) => string(s),
        Ok(_) => string(text),
        Err(e) => Err(e.in_argument(1, "json_unquote")),
    }
}

fn json_truth(c: &Call) -> SqlResult<Value> {
    json(c, &Json::Bool(cast::to_bool(c.ctx, c.args[0])?))
}
