//! Arrays of multi-valued indexes: the cast that a key part is, and what conditions look for in them.
//!
//! As MySQL does, a condition with a constant reads the array instead of the document if the constant can be made an
//! element and the index may be used. `"1"` is then found as 1 in an array of integers, which it is not in the
//! document.
//!
//! Neighbours: a table's own expressions are bound here; `computed` does the same for other indexes; `plan::access`
//! asks which rows of an index a condition may be true for. **Invariants**: a condition on an array is true only for
//! rows that have one of the keys; so is one on the document, since equal values are equal elements
//! ([`ElementType::keeps_equality`]).

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::Arc;

use esker_sql_catalog::catalog::TableDef;
use esker_sql_syntax::{ast, parse_expression};
use esker_types::cast::date_flags;
use esker_types::json::{self, ElementType, Json, JsonRef, View};
use esker_types::{EvalCtx, SqlResult, SqlType, TypeKind, Value};

use super::computed::{Class, bind_alone};
use super::expr::bind_expr;
use super::literal::{cast_type, check_array_type};
use super::scope::{ColumnAt, Scope, ScopeTable};
use super::{BindEnv, call};
use crate::bind::json::operator;
use crate::expr::walk::same;
use crate::expr::{Expr, ExprKind, FuncCall};

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
    let [which, length, decimals] = element_type(env, written)?.numbers();
    let document = bind_expr(env, scope, document)?;
    let int = |n: u32| Expr::constant(Value::Int(n.into()), SqlType::bigint(false));
    let name = Value::Str(index.as_bytes().into());
    let name_type = SqlType::varchar(index.chars().count() as u32, env.ctx.collation_connection);
    let args = vec![
        document,
        int(which),
        int(length),
        int(decimals),
        Expr::constant(name, name_type),
    ];
    call::apply(env, scope, operator("cast as array"), args)
}

/// The type of the elements of an array that is written so.
fn element_type(env: &BindEnv<'_>, written: &ast::DataType) -> SqlResult<ElementType> {
    check_array_type(written)?;
    let single = ast::DataType {
        array: false,
        ..written.clone()
    };
    let ty = cast_type(env, &single)?;
    let whole_digits = ty.length.saturating_sub(ty.decimals.into());
    Ok(match ty.kind {
        TypeKind::Decimal => ElementType::Decimal(whole_digits, ty.decimals),
        TypeKind::Date => ElementType::Date,
        TypeKind::DateTime => ElementType::DateTime(ty.decimals),
        TypeKind::Time => ElementType::Time(ty.decimals),
        _ if ty.is_string() && ty.collation.is_binary() => ElementType::Binary(ty.length),
        _ if ty.is_string() => ElementType::Char(ty.length),
        _ if ty.unsigned => ElementType::Unsigned,
        _ => ElementType::Signed,
    })
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
    /// What the value says that an expression has when the scan opens, of elements of a type.
    Of(Membership, Expr, ElementType),
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

/// An array of a multi-valued index.
pub(crate) struct IndexedArray {
    /// What its elements are made of, with the block's slots.
    document: Expr,
    ty: ElementType,
}

/// What a condition looks for, and in what: as numbers of its operands.
fn sides(
    call: &FuncCall,
    is_document: &dyn Fn(&Expr) -> bool,
) -> Option<(Membership, usize, usize)> {
    let [a, b] = call.args.as_slice() else {
        return None;
    };
    let (how, document, sought) = match call.def.name {
        "member of" => (Membership::Member, 1, 0),
        "json_contains" => (Membership::Contains, 0, 1),
        "json_overlaps" if is_document(a) => (Membership::Overlaps, 0, 1),
        "json_overlaps" => (Membership::Overlaps, 1, 0),
        _ => return None,
    };
    is_document([a, b][document]).then_some((how, document, sought))
}

/// Lets conditions read arrays of multi-valued indexes that may be used, where constants are looked for.
///
/// # Errors
/// Of a stored expression that cannot be read.
pub(super) fn read_arrays(
    env: &BindEnv<'_>,
    scope: &Scope<'_>,
    condition: &mut Expr,
) -> SqlResult<()> {
    for (nth, table) in scope.tables.iter().enumerate() {
        let Some(def) = table.base_def() else {
            continue;
        };
        for index in def.inverted() {
            let Some(codec) = &index.elements else {
                continue;
            };
            if table.allowed(index, ast::IndexHintScope::Join).is_none() {
                continue;
            }
            let at = ColumnAt {
                table: nth,
                column: codec.column(),
            };
            if let Some(array) = indexed_array(env, table, def, at.column)? {
                array.put_in(env, scope, at, condition)?;
            }
        }
    }
    Ok(())
}

impl IndexedArray {
    /// Is it the document, or the array itself, which has this slot?
    pub(crate) fn is_read_by(&self, e: &Expr, slot: Option<u32>) -> bool {
        slot.is_some() && e.as_column() == slot || is_same_document(e, &self.document)
    }

    /// Puts the array in for the document in conditions by themselves, and those that are compared.
    fn put_in(
        &self,
        env: &BindEnv<'_>,
        scope: &Scope<'_>,
        at: ColumnAt,
        condition: &mut Expr,
    ) -> SqlResult<()> {
        match &mut condition.kind {
            ExprKind::And(_) | ExprKind::Or(_) | ExprKind::Cmp(_) => {
                for part in condition.children_mut() {
                    self.put_in(env, scope, at, part)?;
                }
                Ok(())
            }
            ExprKind::Func(call) => {
                let found = sides(call, &|e| is_same_document(e, &self.document));
                let Some((how, document, sought)) = found else {
                    return Ok(());
                };
                let Some(elements) = self.elements_of(how, &call.args[sought], env.ctx) else {
                    return Ok(());
                };
                let mut args = call.args.clone();
                args[document] = scope.column_expr(at);
                let ty = SqlType::new(TypeKind::Json).with_nullable(false);
                args[sought] = Expr::constant(Value::Json(json::encode(&elements)?), ty);
                *condition = call::apply(env, scope, call.def, args)?;
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// What a constant is in an array: for MEMBER OF an element, or else an array of elements. `None` if it cannot be
    /// that.
    fn elements_of(&self, how: Membership, sought: &Expr, ctx: &EvalCtx<'_>) -> Option<Json> {
        let value = sought.as_const().filter(|value| !value.is_null())?;
        let is_member = how == Membership::Member;
        if is_member && Class::of(&sought.ty) != self.class() {
            return None;
        }
        let document = as_document(value, &sought.ty, is_member, ctx)?;
        let root = JsonRef::new(&document);
        let element = |item: JsonRef<'_>| match item.view() {
            View::Null if !is_member => Some(Json::Null),
            _ if item.is_scalar() => json::element(item, self.ty, date_flags(ctx), "").ok(),
            _ => None,
        };
        match root.view() {
            _ if is_member => element(root),
            View::Array(items) if items.len() <= MAX_ELEMENTS => Some(Json::Array(
                items.iter().map(element).collect::<Option<_>>()?,
            )),
            _ => Some(Json::Array(vec![element(root)?])),
        }
    }

    /// The class that constants must have in MEMBER OF.
    fn class(&self) -> Class {
        match self.ty {
            ElementType::Unsigned | ElementType::Signed => Class::Integer,
            ElementType::Decimal(..) => Class::Decimal,
            _ => Class::Text,
        }
    }

    /// Elements of which a row has one if a condition is true for it; `is_known` says what has a value when the scan
    /// opens, `slot` is that of the array. Not known for most conditions.
    pub(crate) fn wanted(
        &self,
        env: &BindEnv<'_>,
        cond: &Expr,
        slot: Option<u32>,
        is_known: &dyn Fn(&Expr) -> bool,
    ) -> Option<Elements> {
        let ExprKind::Func(call) = &cond.kind else {
            return None;
        };
        let (how, _, sought) = sides(call, &|e| self.is_read_by(e, slot))?;
        let sought = &call.args[sought];
        match sought.as_const() {
            Some(value) => match wanted_by(how, value, (&sought.ty, self.ty), env.ctx) {
                Wanted::Keys(keys) => Some(Elements::Keys(keys)),
                Wanted::Nothing | Wanted::Anything => None,
            },
            None if is_known(sought) => Some(Elements::Of(how, sought.clone(), self.ty)),
            None => None,
        }
    }
}

/// What a value of a type says of elements of another type.
pub fn wanted_by(
    how: Membership,
    value: &Value,
    (ty, elements): (&SqlType, ElementType),
    ctx: &EvalCtx<'_>,
) -> Wanted {
    if value.is_null() {
        return Wanted::Nothing;
    }
    let Some(sought) = as_document(value, ty, how == Membership::Member, ctx) else {
        return Wanted::Anything;
    };
    let root = JsonRef::new(&sought);
    let key = |item: JsonRef<'_>| key_of(item, elements, ctx);
    let items = match (root.view(), how) {
        (View::Object(_), _) | (View::Array(_), Membership::Member) => return Wanted::Anything,
        (View::Array(items), _) => items,
        _ => return key(root).map_or(Wanted::Anything, |key| Wanted::Keys(vec![key])),
    };
    // Of elements that must all be there, one finds the row.
    if how == Membership::Contains {
        let one = items.iter().find_map(key);
        return one.map_or(Wanted::Anything, |key| Wanted::Keys(vec![key]));
    }
    // No row with NULL in its array is in the index.
    let items = items.iter().filter(|item| !item.is_null());
    let keys: Option<BTreeSet<Vec<u8>>> = items.take(MAX_ELEMENTS + 1).map(key).collect();
    match keys.filter(|keys| keys.len() <= MAX_ELEMENTS) {
        Some(keys) if keys.is_empty() => Wanted::Nothing,
        Some(keys) => Wanted::Keys(keys.into_iter().collect()),
        None => Wanted::Anything,
    }
}

/// The key of what equals the value in an array; `None` if it may have others.
fn key_of(item: JsonRef<'_>, ty: ElementType, ctx: &EvalCtx<'_>) -> Option<Vec<u8>> {
    if item.is_null() || !ty.keeps_equality(item) {
        return None;
    }
    let element = json::element(item, ty, date_flags(ctx), "").ok()?;
    let encoded = json::encode(&element).ok()?;
    let mut key = Vec::new();
    json::sort_key(JsonRef::new(&encoded), &mut key);
    Some(key)
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

/// The array of a multi-valued index of a block's table, with the block's slots.
///
/// # Errors
/// Of a stored expression that cannot be read.
pub(crate) fn indexed_array(
    env: &BindEnv<'_>,
    table: &ScopeTable,
    def: &Arc<TableDef>,
    column: usize,
) -> SqlResult<Option<IndexedArray>> {
    let Some(generated) = &def.columns[column].generated else {
        return Ok(None);
    };
    match parse_expression(&generated.text)? {
        ast::Expr::Cast { expr, ty } => Ok(Some(IndexedArray {
            document: bind_alone(env, table, def, &expr)?,
            ty: element_type(env, &ty)?,
        })),
        _ => Ok(None),
    }
}

/// Is it the document of an index? The path may be written in another character set than the table has kept.
fn is_same_document(e: &Expr, document: &Expr) -> bool {
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
