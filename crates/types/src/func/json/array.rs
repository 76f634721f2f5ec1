//! CAST (… AS type ARRAY), which only key parts have.
//!
//! Neighbours: the binder calls it with the type and the index's name; `crate::json::elements` does the work.
//! **Invariant**: the result is an array of scalars of the type, whatever the document is.

use super::read::document;
use super::{json, ret_json};
use crate::cast::date_flags;
use crate::error::SqlResult;
use crate::func::call::Call;
use crate::func::{FuncDef, TOTAL, def};
use crate::json::{ElementType, JsonRef, check_length, elements};
use crate::value::Value;

const NAME: &str = "cast as array";

pub(in crate::func) const DEFS: &[FuncDef] = &[
    // `CAST(document AS type ARRAY)`: document, numbers of the type, index.
    def(NAME, 5, 5, TOTAL, ret_json, cast_as_array),
];

fn cast_as_array(c: &Call) -> SqlResult<Value> {
    let Some(document) = document(c, 0, NAME)? else {
        return Ok(Value::Null);
    };
    let number = |i: usize| match *c.args[i] {
        Value::Int(n) => n as u32,
        Value::UInt(n) => n as u32,
        _ => 0,
    };
    let ty = ElementType::of_numbers([number(1), number(2), number(3)]);
    let index = crate::cast::to_str(c.args[4], c.ty(4));
    let index = String::from_utf8_lossy(&index);
    let array = json(
        c,
        &elements(document.root(), ty, date_flags(c.ctx), &index)?,
    )?;
    if let Value::Json(array) = &array {
        check_length(JsonRef::new(array), &index)?;
    }
    Ok(array)
}
