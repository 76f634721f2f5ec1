//! Arrays of multi-valued indexes: the cast that a key part is, and what conditions look for in them.
//!
//! Neighbours: a table's own expressions are bound here; `plan::access` asks which rows of an index a condition may be
//! true for. **Invariants**: elements are those of the documents, and their keys are equal where the documents' are
//! equal for JSON, so a condition is true only for rows that have one of the keys.

use std::borrow::Cow;
use std::sync::Arc;

use esker_sql_catalog::catalog::TableDef;
use esker_sql_syntax::{ast, parse_expression};
use esker_types::json::{self, JsonRef, View};
use esker_types::{EvalCtx, SqlResult, SqlType, TypeKind, Value};

use super::computed::bind_alone;
use super::expr::bind_expr;
use super::literal::{cast_type, check_array_type};
use super::scope::{Scope, ScopeTable};
use super::{BindEnv, call};
use crate::bind::json::operator;
use crate::expr::walk::same;
use crate::expr::{Expr, ExprKind};

/// Smaller numbers may be equal for DECIMAL where their keys are not.
const LEAST_NUMBER: f64 = 1e-12;
/// Most elements that one condition looks for in an index.
const MAX_ELEMENTS: usize = 4096;

/// Binds the cast that is a key part of `index`.
///
/// # Errors
/// Those of the document's expression and of the type.
pub fn bind_array(
    env: &BindEnv<'_>,
    scope: &Scope<'_>,
    document: &ast::Expr,
    (written, index): (&ast::DataType, &str),
) -> SqlResult<Expr> {
    check_array_type(written)?;
    let single = ast::DataType {
        array: false,
        ..written.clone()
    };
    let ty = cast_type(env, &single)?;
    let whole_digits = ty.length.saturating_sub(ty.decimals.into());
    // As `func::json::array` numbers them.
    let (number, length) = match ty.kind {
        TypeKind::Decimal => (2, whole_digits),
        TypeKind::Date | TypeKind::DateTime => (5, 0),
        TypeKind::Time => (6, 0),
        _ if ty.is_string() && ty.collation.is_binary() => (4, ty.length),
        _ if ty.is_string() => (3, ty.length),
        _ => (u32::from(!ty.unsigned), 0),
    };
    let document = bind_expr(env, scope, document)?;
    let int = |n: u32| Expr::constant(Value::Int(n.into()), SqlType::bigint(false));
    let name = Value::Str(index.as_bytes().into());
    let name_type = SqlType::varchar(index.chars().count() as u32, env.ctx.collation_connection);
    let args = vec![
        document,
        int(number),
        int(length),
        Expr::constant(name, name_type),
    ];
    call::apply(env, scope, operator("cast as array"), args)
}

/// How a condition compares a document with what it looks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Membership {
    /// MEMBER OF.
    Member,
    /// JSON_CONTAINS.
    Contains,
    /// JSON_OVERLAPS.
    Overlaps,
}

/// What is looked for in a multi-valued index.
#[derive(Debug)]
pub enum Elements {
    /// Keys of constants.
    Keys(Vec<Vec<u8>>),
    /// What the value says that an expression has when the scan opens.
    Of(Membership, Expr),
}

/// What a value says of the rows for which a condition can be true.
#[derive(Debug, PartialEq, Eq)]
pub enum Wanted {
    /// There are none.
    Nothing,
    /// They may be anywhere.
    Anything,
    /// They have one of these keys.
    Keys(Vec<Vec<u8>>),
}

/// Elements of which a row has one if a condition is true for it; `is_document` says what is a document of the index,
/// `is_known` what has a value when the scan opens. Not known for most conditions.
pub(crate) fn wanted_elements(
    env: &BindEnv<'_>,
    cond: &Expr,
    is_document: impl Fn(&Expr) -> bool,
    is_known: &dyn Fn(&Expr) -> bool,
) -> Option<Elements> {
    let ExprKind::Func(call) = &cond.kind else {
        return None;
    };
    let [a, b] = call.args.as_slice() else {
        return None;
    };
    let (how, document, sought) = match call.def.name {
        "member of" => (Membership::Member, b, a),
        "json_contains" => (Membership::Contains, a, b),
        "json_overlaps" if is_document(a) => (Membership::Overlaps, a, b),
        "json_overlaps" => (Membership::Overlaps, b, a),
        _ => return None,
    };
    if !is_document(document) {
        return None;
    }
    match sought.as_const() {
        Some(value) => match wanted_by(how, value, &sought.ty, env.ctx) {
            Wanted::Keys(keys) => Some(Elements::Keys(keys)),
            Wanted::Nothing | Wanted::Anything => None,
        },
        None if is_known(sought) => Some(Elements::Of(how, sought.clone())),
        None => None,
    }
}

/// What a value of this type says.
pub fn wanted_by(how: Membership, value: &Value, ty: &SqlType, ctx: &EvalCtx<'_>) -> Wanted {
    if value.is_null() {
        return Wanted::Nothing;
    }
    let Some(sought) = as_document(value, ty, how == Membership::Member, ctx) else {
        return Wanted::Anything;
    };
    let root = JsonRef::new(&sought);
    let keys = |doc| Wanted::Keys(json::element_keys(doc).into_iter().collect());
    let items = match (root.view(), how) {
        (View::Object(_), _) | (View::Array(_), Membership::Member) => return Wanted::Anything,
        (View::Array(items), _) => items,
        _ if is_sought(root) => return keys(root),
        _ => return Wanted::Anything,
    };
    // Of elements that must all be there, one finds the row.
    if how == Membership::Contains {
        let one = items.iter().find(|item| is_sought(*item));
        return one.map_or(Wanted::Anything, keys);
    }
    match items.len() <= MAX_ELEMENTS && items.iter().all(is_sought) {
        true => keys(root),
        false => Wanted::Anything,
    }
}

/// Is what equals the value found by its key?
fn is_sought(item: JsonRef<'_>) -> bool {
    match item.view() {
        View::Array(_) | View::Object(_) => false,
        View::Decimal(d) => d.to_f64().abs() >= LEAST_NUMBER,
        View::Double(d) => d.abs() >= LEAST_NUMBER,
        _ => true,
    }
}

/// A value as a document: a text is one, or a value that is not.
fn as_document<'v>(
    value: &'v Value,
    ty: &SqlType,
    is_value: bool,
    ctx: &EvalCtx<'_>,
) -> Option<Cow<'v, [u8]>> {
    let encoded = match value {
        Value::Json(document) => return Some(Cow::Borrowed(document)),
        Value::Str(text) if !is_value => {
            let is_text = ty.is_string() && !ty.collation.is_binary();
            let parsed = is_text.then(|| json::parse(text, ctx.session).ok())??;
            json::encode(&parsed)
        }
        // Labels of ENUM and SET are texts, too; what else is no document is an error of the condition.
        _ if !is_value => return None,
        value => json::encode(&json::from_value(value.as_ref(), ty)),
    };
    encoded.ok().map(Cow::Owned)
}

/// The document of a multi-valued index of a block's table, with the block's slots.
///
/// # Errors
/// Of a stored expression that cannot be read.
pub(crate) fn indexed_document(
    env: &BindEnv<'_>,
    table: &ScopeTable,
    def: &Arc<TableDef>,
    column: usize,
) -> SqlResult<Option<Expr>> {
    let Some(generated) = &def.columns[column].generated else {
        return Ok(None);
    };
    match parse_expression(&generated.text)? {
        ast::Expr::Cast { expr, .. } => bind_alone(env, table, def, &expr).map(Some),
        _ => Ok(None),
    }
}

/// Is it the document of an index? The path may be written in another character set than the table has kept.
pub(crate) fn is_same_document(e: &Expr, document: &Expr) -> bool {
    if same(e, document) {
        return true;
    }
    let (ExprKind::Func(a), ExprKind::Func(b)) = (&e.kind, &document.kind) else {
        return false;
    };
    let is_same_path = |a: &Expr, b: &Expr| match (a.as_const(), b.as_const()) {
        (Some(Value::Str(a)), Some(Value::Str(b))) => a.is_ascii() && a == b,
        _ => false,
    };
    let ([a_document, a_path], [b_document, b_path]) = (a.args.as_slice(), b.args.as_slice())
    else {
        return false;
    };
    (a.def.name, b.def.name) == ("json_extract", "json_extract")
        && same(a_document, b_document)
        && is_same_path(a_path, b_path)
}
