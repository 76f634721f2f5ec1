//! JSON operators, and values that become JSON.
//!
//! Neighbours: `call` binds functions; `esker_types::func` has the kernels, under names that no statement can write.
//! **Invariants**: a condition that becomes a JSON value is true or false, not 1 or 0: what a condition is, the syntax
//! says; where a truth is wanted of a JSON value, it is compared with 0.

use esker_sql_syntax::ast;
use esker_types::cast::TextNumber;
use esker_types::cmp::CmpKind;
use esker_types::func::{self, FuncDef};
use esker_types::json;
use esker_types::{Level, SqlError, SqlResult, SqlType, TypeKind, Value};

use super::call::{apply, bind_function};
use super::expr::bind_expr;
use super::scope::Scope;
use super::text_numbers::{self, Wanted};
use super::{BindEnv, subquery};
use crate::expr::{Cmp, CmpOp, Expr, ExprKind};

/// `column->'path'` and `column->>'path'`.
pub(super) fn bind_arrow(
    env: &BindEnv<'_>,
    scope: &Scope<'_>,
    column: &ast::ColumnRef,
    path: &str,
    unquote: bool,
) -> SqlResult<Expr> {
    let path = ast::Expr::Literal(ast::Literal::Str {
        bytes: path.as_bytes().to_vec(),
        charset: None,
    });
    let args = [ast::Expr::Column(column.clone()), path];
    let found = bind_function(env, scope, "json_extract", &args)?;
    match unquote {
        true => apply(env, scope, operator("json_unquote"), vec![found]),
        false => Ok(found),
    }
}

/// `value MEMBER OF (array)`.
pub(super) fn bind_member(
    env: &BindEnv<'_>,
    scope: &Scope<'_>,
    value: &ast::Expr,
    array: &ast::Expr,
) -> SqlResult<Expr> {
    let value = bind_json_value(env, scope, value)?;
    let array = bind_expr(env, scope, array)?;
    apply(env, scope, operator("member of"), vec![value, array])
}

pub(super) fn operator(name: &str) -> &'static FuncDef {
    func::lookup(name).expect("operators are registered")
}

/// Binds what becomes a JSON value: a condition is true or false there.
pub(super) fn bind_json_value(
    env: &BindEnv<'_>,
    scope: &Scope<'_>,
    value: &ast::Expr,
) -> SqlResult<Expr> {
    let bound = bind_expr(env, scope, value)?;
    as_truth(env, scope, value, bound)
}

/// The bound value of `written` as true or false, if it is a condition.
pub(super) fn as_truth(
    env: &BindEnv<'_>,
    scope: &Scope<'_>,
    written: &ast::Expr,
    bound: Expr,
) -> SqlResult<Expr> {
    match is_condition(written) {
        true => apply(env, scope, operator("json truth"), vec![bound]),
        false => Ok(bound),
    }
}

/// The same where it is compared with a JSON value: a condition with constants only is a number there, unless it is the
/// word TRUE or FALSE.
pub(super) fn as_compared_truth(
    env: &BindEnv<'_>,
    scope: &Scope<'_>,
    written: &ast::Expr,
    bound: Expr,
) -> SqlResult<Expr> {
    match bound.as_const().is_some() && !is_truth_word(written) {
        true => Ok(bound),
        false => as_truth(env, scope, written, bound),
    }
}

/// Is it TRUE or FALSE, or a query of nothing else?
fn is_truth_word(written: &ast::Expr) -> bool {
    match written {
        ast::Expr::Literal(ast::Literal::Bool(_)) => true,
        ast::Expr::Subquery(query) => subquery::only_item(query).is_some_and(is_truth_word),
        _ => false,
    }
}

/// Functions whose result is a truth.
const TRUTHS: [&str; 14] = [
    "is_ipv4",
    "is_ipv4_compat",
    "is_ipv4_mapped",
    "is_ipv6",
    "is_uuid",
    "gtid_subset",
    "isnull",
    "json_contains",
    "json_contains_path",
    "json_overlaps",
    "json_schema_valid",
    "json_valid",
    "regexp_like",
    "strcmp",
];

fn is_condition(written: &ast::Expr) -> bool {
    match written {
        ast::Expr::Call(call) => TRUTHS
            .iter()
            .any(|name| call.name.text.eq_ignore_ascii_case(name)),
        ast::Expr::Subquery(query) => subquery::only_item(query).is_some_and(is_condition),
        other => other.is_truth(),
    }
}

/// Does argument number `nth` (from 0) of a function become a JSON value?
pub(super) fn takes_json_value(function: &str, nth: usize) -> bool {
    match function {
        "json_array" => true,
        "json_object" => nth % 2 == 1,
        "json_arrayagg" => nth == 0,
        "json_objectagg" => nth == 1,
        "json_set" | "json_insert" | "json_replace" | "json_array_append" | "json_array_insert" => {
            nth >= 2 && nth.is_multiple_of(2)
        }
        _ => false,
    }
}

/// The truth of a JSON value: is it different from 0? Warning 3986.
pub(super) fn condition(env: &BindEnv<'_>, value: Expr) -> SqlResult<Expr> {
    let text = "Evaluating a JSON value in SQL boolean context does an implicit comparison against JSON integer 0; \
                if this is not what you want, consider converting JSON to a SQL numeric type with JSON_VALUE RETURNING";
    env.ctx.warn(Level::Warning, 3986, text);
    let zero = constant(&Value::Int(0), &SqlType::bigint(false))?;
    let nullable = value.ty.nullable;
    let cmp = Cmp {
        op: CmpOp::Ne,
        kind: CmpKind::Json,
        left: value,
        right: zero,
    };
    Ok(Expr::condition(ExprKind::Cmp(Box::new(cmp)), nullable))
}

/// A SQL constant as a JSON one.
pub(super) fn constant(value: &Value, ty: &SqlType) -> SqlResult<Expr> {
    let doc = json::encode(&json::from_value(value.as_ref(), ty))?;
    let ty = SqlType::new(TypeKind::Json).with_nullable(false);
    Ok(Expr::constant(Value::Json(doc), ty))
}

/// A JSON value as a double, where arithmetic is done with it; messages name it as it is written.
pub(super) fn number(written: &ast::Expr, value: Expr) -> Expr {
    converted(
        written,
        value,
        (SqlType::new(TypeKind::Double), Wanted::Double),
    )
}

/// A JSON value as an integer, where bits are counted.
pub(super) fn integer(written: &ast::Expr, value: Expr) -> Expr {
    converted(written, value, (SqlType::bigint(false), Wanted::Integer))
}

fn converted(written: &ast::Expr, value: Expr, (ty, wanted): (SqlType, Wanted)) -> Expr {
    let value = coalesced(value, wanted);
    if value.ty.kind != TypeKind::Json {
        return value;
    }
    let ty = ty.with_nullable(value.ty.nullable);
    Expr {
        kind: ExprKind::Cast(Box::new(value), name_of(written)),
        ty,
        coer: esker_types::collation::Coercibility::Numeric,
    }
}

/// COALESCE of JSON values as the number in its text; any other value as it is.
pub(super) fn coalesced(value: Expr, wanted: Wanted) -> Expr {
    match value.kind {
        ExprKind::Coalesce(_) if value.ty.kind == TypeKind::Json => {
            text_numbers::read(text(value), TextNumber::Silent, wanted)
        }
        _ => value,
    }
}

/// A JSON value as text, where it is compared as one.
pub(super) fn text(value: Expr) -> Expr {
    if value.ty.kind != TypeKind::Json {
        return value;
    }
    let ty = SqlType {
        collation: value.ty.collation,
        nullable: value.ty.nullable,
        ..SqlType::new(TypeKind::LongText)
    };
    Expr {
        kind: ExprKind::Convert(Box::new(value)),
        ty,
        coer: esker_types::collation::Coercibility::Implicit,
    }
}

/// Warning 1235: what MySQL compares as numbers or texts where JSON values are.
pub(super) fn compared_otherwise(env: &BindEnv<'_>, what: &str) {
    let text =
        format!("This version of MySQL doesn't yet support 'comparison of JSON in the {what}'");
    env.ctx.warn(Level::Warning, 1235, text);
}

/// What messages call a JSON value that cannot be converted: the column, or the function.
pub(super) fn name_of(written: &ast::Expr) -> Box<str> {
    match written {
        ast::Expr::Column(column) => column.name.text.as_ref().into(),
        ast::Expr::Call(call) => call.name.text.to_ascii_lowercase().into(),
        ast::Expr::JsonArrow { unquote: false, .. } => "json_extract".into(),
        ast::Expr::JsonArrow { unquote: true, .. } => "json_unquote".into(),
        ast::Expr::JsonValue(_) => "json_value".into(),
        ast::Expr::Cast { .. } => "cast_as_json".into(),
        _ => "".into(),
    }
}

/// 3152
pub fn used_as_key(column: &str) -> SqlError {
    let text = format!(
        "JSON column '{column}' supports indexing only via generated columns on a specified JSON path."
    );
    SqlError::new(3152, "42000", text)
}
