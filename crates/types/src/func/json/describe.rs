//! JSON functions that say something of documents: type, depth, size, validity, layout.
//!
//! Neighbours: `crate::json::schema` checks JSON Schema.
//! **Invariant**: a change never leaves free room in a document, so JSON_STORAGE_FREE is 0.

use super::read::{document, is_document};
use super::{json, ret_json, ret_strict_truth, ret_text};
use crate::collation::Collation;
use crate::ctx::Work;
use crate::error::{SqlError, SqlResult};
use crate::func::call::{Call, int, string};
use crate::func::ret::{int_null as ret_int, string_type};
use crate::func::{ArgType, FuncDef, RetCtx, Signature, TOTAL, def};
use crate::json::schema::{self, Failure};
use crate::json::{self as doc, Json, View, object};
use crate::value::Value;

pub(in crate::func) const DEFS: &[FuncDef] = &[
    def("json_type", 1, 1, TOTAL, ret_type_name, json_type),
    def("json_depth", 1, 1, TOTAL, ret_int::<21>, json_depth),
    def("json_valid", 1, 1, TOTAL, ret_int::<21>, json_valid),
    def("json_pretty", 1, 1, TOTAL, ret_text, json_pretty),
    def(
        "json_storage_size",
        1,
        1,
        TOTAL,
        ret_int::<21>,
        json_storage_size,
    ),
    def(
        "json_storage_free",
        1,
        1,
        TOTAL,
        ret_int::<21>,
        json_storage_free,
    ),
    def(
        "json_schema_valid",
        2,
        2,
        TOTAL,
        ret_strict_truth,
        json_schema_valid,
    ),
    def(
        "json_schema_validation_report",
        2,
        2,
        TOTAL,
        ret_json,
        json_schema_validation_report,
    ),
];

/// Names of types, in the collation of JSON's texts.
fn ret_type_name(_: &[ArgType], _: &RetCtx) -> SqlResult<Signature> {
    const LONGEST_NAME: u64 = 17;
    let ty = string_type(LONGEST_NAME, Collation::UTF8MB4_BIN);
    Ok(Signature::plain(ty))
}

fn json_type(c: &Call) -> SqlResult<Value> {
    Ok(match document(c, 0, "json_type")? {
        Some(d) => Value::str(d.root().type_name()),
        None => Value::Null,
    })
}

fn json_depth(c: &Call) -> SqlResult<Value> {
    match document(c, 0, "json_depth")? {
        Some(d) => int(doc::depth(d.root()) as i64),
        None => Ok(Value::Null),
    }
}

fn json_valid(c: &Call) -> SqlResult<Value> {
    Ok(is_document(c, 0)?.map_or(Value::Null, Value::bool))
}

fn json_pretty(c: &Call) -> SqlResult<Value> {
    let Some(document) = document(c, 0, "json_pretty")? else {
        return Ok(Value::Null);
    };
    let mut out = Vec::new();
    doc::pretty(document.root(), &mut out);
    match c.too_large("json_pretty", out.len() as u128)? {
        true => Ok(Value::Null),
        false => string(out),
    }
}

fn json_storage_size(c: &Call) -> SqlResult<Value> {
    match document(c, 0, "json_storage_size")? {
        Some(d) => int(d.root().to_document().len() as i64),
        None => Ok(Value::Null),
    }
}

fn json_storage_free(c: &Call) -> SqlResult<Value> {
    match document(c, 0, "json_storage_free")? {
        Some(_) => int(0),
        None => Ok(Value::Null),
    }
}

/// What is wrong with argument 1 by the schema in argument 0; the outer `None` for NULL.
fn validate(c: &Call, function: &str) -> SqlResult<Option<Option<Failure>>> {
    let (Some(schema), Some(document)) = (document(c, 0, function)?, document(c, 1, function)?)
    else {
        return Ok(None);
    };
    if !matches!(schema.root().view(), View::Object(_)) {
        let message = format!(
            "Invalid JSON type in argument 1 to function {function}; an object is required."
        );
        return Err(SqlError::new(3853, "22032", message));
    }
    let work = Work::new(c.ctx.session);
    schema::validate(schema.root(), document.root(), work).map(Some)
}

fn json_schema_valid(c: &Call) -> SqlResult<Value> {
    let found = validate(c, "json_schema_valid")?;
    Ok(found.map_or(Value::Null, |failure| Value::bool(failure.is_none())))
}

fn json_schema_validation_report(c: &Call) -> SqlResult<Value> {
    let report = match validate(c, "json_schema_validation_report")? {
        None => return Ok(Value::Null),
        Some(None) => vec![(b"valid".to_vec(), Json::Bool(true))],
        Some(Some(failure)) => vec![
            (b"valid".to_vec(), Json::Bool(false)),
            (b"reason".to_vec(), Json::string(failure.to_string())),
            (b"schema-location".to_vec(), Json::string(&failure.schema)),
            (
                b"document-location".to_vec(),
                Json::string(&failure.document),
            ),
            (
                b"schema-failed-keyword".to_vec(),
                Json::string(failure.keyword),
            ),
        ],
    };
    json(c, &object(report))
}
