//! CAST (… AS type ARRAY), which only key parts have.
//!
//! Neighbours: the binder calls it with the type and the index's name; `crate::json::check_elements` does the work.
//! **Invariant**: the result is the document itself: what it says is checked, not changed.

use super::read::document;
use super::ret_json;
use crate::cast::date_flags;
use crate::error::SqlResult;
use crate::func::call::Call;
use crate::func::{FuncDef, TOTAL, def};
use crate::json::{ElementType, check_elements};
use crate::value::Value;

const NAME: &str = "cast as array";

pub(in crate::func) const DEFS: &[FuncDef] = &[
    // `CAST(document AS type ARRAY)`: document, number of the type, its length, index.
    def(NAME, 4, 4, TOTAL, ret_json, cast_as_array),
];

/// Numbers of types, as the binder gives them.
pub const ARRAY_TYPES: [fn(u32) -> ElementType; 7] = [
    |_| ElementType::Unsigned,
    |_| ElementType::Signed,
    ElementType::Decimal,
    ElementType::Char,
    ElementType::Binary,
    |_| ElementType::Moment,
    |_| ElementType::Time,
];

fn cast_as_array(c: &Call) -> SqlResult<Value> {
    let Some(document) = document(c, 0, NAME)? else {
        return Ok(Value::Null);
    };
    let number = |i: usize| match *c.args[i] {
        Value::Int(n) => n as usize,
        Value::UInt(n) => n as usize,
        _ => 0,
    };
    let ty = ARRAY_TYPES[number(1).min(ARRAY_TYPES.len() - 1)](number(2) as u32);
    let index = crate::cast::to_str(c.args[3], c.ty(3));
    let index = String::from_utf8_lossy(&index);
    check_elements(document.root(), ty, date_flags(c.ctx), &index)?;
    Ok(Value::Json(document.into_bytes().into_owned()))
}
