//! JSON_VALUE.
//!
//! Neighbours: the binder makes the arguments and the type of the result; `crate::json::table` does the work.
//! **Invariant**: the arguments are the document, the path, then for ON EMPTY and for ON ERROR what to do ([`NULL`],
//! [`ERROR`], [`DEFAULT`]) and the default, which has the type of the result.

use super::read::{document, path};
use super::ret_json;
use crate::error::SqlResult;
use crate::func::call::Call;
use crate::func::{FuncDef, TOTAL, def};
use crate::json::table::{self, Fallback};
use crate::value::Value;

pub(in crate::func) const DEFS: &[FuncDef] =
    &[def("json value", 6, 6, TOTAL, ret_json, json_value)];

/// NULL ON …
pub const NULL: i64 = 0;
/// ERROR ON …
pub const ERROR: i64 = 1;
/// DEFAULT … ON …
pub const DEFAULT: i64 = 2;

fn fallback(c: &Call, i: usize) -> Fallback {
    match c.args[i] {
        Value::Int(ERROR) => Fallback::Error,
        Value::Int(DEFAULT) => Fallback::Default(c.args[i + 1].clone()),
        _ => Fallback::Null,
    }
}

fn json_value(c: &Call) -> SqlResult<Value> {
    let (on_empty, on_error) = (fallback(c, 2), fallback(c, 4));
    let Some(path) = path(c, 1)? else {
        return Ok(Value::Null);
    };
    let document = match document(c, 0, "json_value") {
        Ok(Some(document)) => document,
        Ok(None) => return Ok(Value::Null),
        // A text that is no document is such an error, too; a warning tells.
        Err(e) if e.code == 3141 && !matches!(on_error, Fallback::Error) => {
            c.warn(e.code, e.message);
            return Ok(match on_error {
                Fallback::Default(v) => v,
                _ => Value::Null,
            });
        }
        Err(e) => return Err(e),
    };
    table::value(
        c.ctx,
        document.root(),
        &path,
        c.types.ret,
        &on_empty,
        &on_error,
    )
}
