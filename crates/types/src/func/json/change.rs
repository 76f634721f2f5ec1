//! JSON functions that make changed documents.
//!
//! Neighbours: `crate::json::modify` changes trees.
//! **Invariant**: changes are made from left to right, each on the result of the one before.

use super::read::{plain_path, tree, value};
use super::{json, ret_json};
use crate::ctx::Work;
use crate::error::{SqlError, SqlResult};
use crate::func::call::Call;
use crate::func::{ANY_ARGS, FuncDef, TOTAL, TOTAL_ODD, def};
use crate::json::{self as doc, ArrayInsert, Edit, Json, Leg};
use crate::value::Value;

pub(in crate::func) const DEFS: &[FuncDef] = &[
    def("json_set", 3, ANY_ARGS, TOTAL_ODD, ret_json, json_set),
    def("json_insert", 3, ANY_ARGS, TOTAL_ODD, ret_json, json_insert),
    def(
        "json_replace",
        3,
        ANY_ARGS,
        TOTAL_ODD,
        ret_json,
        json_replace,
    ),
    def("json_remove", 2, ANY_ARGS, TOTAL, ret_json, json_remove),
    def(
        "json_array_append",
        3,
        ANY_ARGS,
        TOTAL_ODD,
        ret_json,
        json_array_append,
    ),
    def(
        "json_array_insert",
        3,
        ANY_ARGS,
        TOTAL_ODD,
        ret_json,
        json_array_insert,
    ),
    def(
        "json_merge_preserve",
        2,
        ANY_ARGS,
        TOTAL,
        ret_json,
        json_merge_preserve,
    ),
    def(
        "json_merge",
        2,
        ANY_ARGS,
        TOTAL,
        ret_json,
        json_merge_preserve,
    ),
    def(
        "json_merge_patch",
        2,
        ANY_ARGS,
        TOTAL,
        ret_json,
        json_merge_patch,
    ),
];

/// Changes a document by each pair of path and value; NULL if it or a path is.
fn pairs(
    c: &Call,
    function: &str,
    mut change: impl FnMut(&mut Json, &[Leg], Json) -> SqlResult<()>,
) -> SqlResult<Value> {
    let Some(mut tree) = tree(c, 0, function)? else {
        return Ok(Value::Null);
    };
    for i in (1..c.argc()).step_by(2) {
        let Some(path) = plain_path(c, i)? else {
            return Ok(Value::Null);
        };
        change(&mut tree, &path.legs, value(c, i + 1))?;
    }
    json(c, &tree)
}

fn edit(c: &Call, function: &str, how: Edit) -> SqlResult<Value> {
    pairs(c, function, |tree, legs, value| {
        doc::edit(tree, legs, value, how);
        Ok(())
    })
}

fn json_set(c: &Call) -> SqlResult<Value> {
    edit(c, "json_set", Edit::Set)
}

fn json_insert(c: &Call) -> SqlResult<Value> {
    edit(c, "json_insert", Edit::Insert)
}

fn json_replace(c: &Call) -> SqlResult<Value> {
    edit(c, "json_replace", Edit::Replace)
}

fn json_array_append(c: &Call) -> SqlResult<Value> {
    pairs(c, "json_array_append", |tree, legs, value| {
        doc::append(tree, legs, value);
        Ok(())
    })
}

fn json_array_insert(c: &Call) -> SqlResult<Value> {
    pairs(
        c,
        "json_array_insert",
        |tree, legs, value| match doc::array_insert(tree, legs, value) {
            ArrayInsert::Cell => Ok(()),
            ArrayInsert::NoCell => Err(SqlError::new(
                3165,
                "42000",
                "A path expression is not a path to a cell in an array.",
            )),
        },
    )
}

fn json_remove(c: &Call) -> SqlResult<Value> {
    let Some(mut tree) = tree(c, 0, "json_remove")? else {
        return Ok(Value::Null);
    };
    for i in 1..c.argc() {
        let Some(path) = plain_path(c, i)? else {
            return Ok(Value::Null);
        };
        if path.legs.is_empty() {
            let message = "The path expression '$' is not allowed in this context.";
            return Err(SqlError::new(3153, "42000", message));
        }
        doc::remove(&mut tree, &path.legs);
    }
    json(c, &tree)
}

fn json_merge_preserve(c: &Call) -> SqlResult<Value> {
    let (mut merged, mut work) = (None, Work::new(c.ctx.session));
    for i in 0..c.argc() {
        let Some(next) = tree(c, i, "json_merge_preserve")? else {
            return Ok(Value::Null);
        };
        merged = Some(match merged {
            Some(merged) => doc::merge_preserve(merged, next, &mut work)?,
            None => next,
        });
    }
    merged.map_or(Ok(Value::Null), |m| json(c, &m))
}

/// What was merged so far: NULL is undone by a later document that is no object.
fn json_merge_patch(c: &Call) -> SqlResult<Value> {
    let mut merged = tree(c, 0, "json_merge_patch")?;
    let mut work = Work::new(c.ctx.session);
    for i in 1..c.argc() {
        let next = tree(c, i, "json_merge_patch")?;
        merged = match (merged, next) {
            (_, None) => None,
            (None, Some(Json::Object(_))) => None,
            (None, Some(next)) => Some(next),
            (Some(merged), Some(next)) => Some(doc::merge_patch(merged, next, &mut work)?),
        };
    }
    merged.map_or(Ok(Value::Null), |m| json(c, &m))
}
