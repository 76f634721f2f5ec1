//! Expressions that a stored table computes already: conditions and ORDER BY read the generated column instead, so
//! that its index serves them.
//!
//! Neighbours: `compare`, `between` and `in_list` come here with what they compare, before they decide how; `select`
//! and the search of UPDATE and DELETE when a block's clauses are bound; `group` asks what generated columns are
//! determined by; `array` does the same for multi-valued indexes.
//! **Invariants**
//! - Only columns that an index has which hints allow are put in. This is the user's way to say which of two meanings a
//!   condition has, as in MySQL: the column may be of another type or collation than the expression.
//! - Conditions by themselves are meant: below IS or a function the expression is evaluated.

use std::cell::RefCell;
use std::sync::Arc;

use esker_sql_catalog::catalog::TableDef;
use esker_sql_syntax::ast::{self, IndexHintScope};
use esker_sql_syntax::parse_expression;
use esker_types::collation::Coercibility;
use esker_types::{SqlResult, SqlType, TypeKind, Value};

use super::compare::comparison;
use super::expr::folded;
use super::scope::{ColumnAt, Scope, ScopeTable};
use super::{BindEnv, OrderKey, array, bind_expr};
use crate::expr::walk::same;
use crate::expr::{CmpOp, Expr, ExprKind};

/// Slots of columns that the block does not read, in expressions to be compared with those of the block.
const UNREAD: u32 = u32::MAX / 2;

/// A column that is computed from others, and how.
struct ComputedColumn {
    at: ColumnAt,
    expr: Expr,
    ty: SqlType,
    /// It is a functional key part.
    is_hidden: bool,
}

/// The kinds of values that MySQL tells apart where it puts a column in the place of an expression.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Class {
    Integer,
    Real,
    Decimal,
    Text,
}

/// Does a condition read generated columns?
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Reading {
    /// It is not one of WHERE or of ON of an inner join, by itself.
    #[default]
    Never,
    /// It is one of them, among AND and OR.
    Plain,
    /// It is, below NOT, which MySQL moves into the conditions before it looks.
    Negated,
}

impl Reading {
    /// The same of a condition, or a part of one.
    pub(super) fn of(self, cond: &ast::Expr) -> Self {
        match reads_by_itself(cond) {
            true => self,
            false => Self::Never,
        }
    }

    /// What is below NOT.
    pub(super) fn negated(self) -> Self {
        match self {
            Self::Never => Self::Never,
            Self::Plain => Self::Negated,
            Self::Negated => Self::Plain,
        }
    }

    /// Does a comparison by this operator?
    pub(super) fn compares_by(self, op: CmpOp) -> bool {
        let op = match self {
            Self::Never => return false,
            Self::Plain => Some(op),
            Self::Negated => op.negate(),
        };
        !matches!(op, None | Some(CmpOp::Ne | CmpOp::NullSafeEq))
    }
}

/// Is it a condition that reads generated columns by itself, or hands the question on to its parts?
fn reads_by_itself(cond: &ast::Expr) -> bool {
    match cond {
        ast::Expr::And(_)
        | ast::Expr::Or(_)
        | ast::Expr::Not(_)
        | ast::Expr::Between { .. }
        | ast::Expr::InList { .. } => true,
        ast::Expr::Binary { op, .. } => comparison(*op).is_some(),
        _ => false,
    }
}

/// Lets an operand of a comparison, before it meets the `others`, be the indexed generated column that computes the
/// same; true if it is. As in MySQL the column then compares by its own type and collation, where the others are
/// known before its row is read and of the column's class.
///
/// # Errors
/// Of a stored expression that cannot be read.
pub(super) fn read_operand(
    env: &BindEnv<'_>,
    scope: &Scope<'_>,
    operand: &mut Expr,
    others: &[&Expr],
) -> SqlResult<bool> {
    let computes = |e: &Expr| {
        let is_leaf = e.as_const().is_some() || e.as_column().is_some();
        !is_leaf && !matches!(e.kind, ExprKind::Row(_)) && !e.is_row_independent()
    };
    if !computes(operand) {
        return Ok(false);
    }
    let written = folded(env, scope, operand.clone());
    for computed in computed_columns(env, scope, IndexHintScope::Join)? {
        // What wins where collations meet must be the same, too.
        let meets_alike = !written.ty.is_string() || written.coer == Coercibility::Implicit;
        let fits = meets_alike && fits(&computed.expr.ty, &computed.ty);
        if fits && same(&written, &computed.expr)
            || computed.stands_for(&written) && computed.compares_with(&written, others)
        {
            *operand = scope.column_expr(computed.at);
            return Ok(true);
        }
    }
    Ok(false)
}

/// Lets tests for NULL and keys of ORDER BY read the indexed generated columns of a block's tables that compute the
/// same, and conditions on arrays the multi-valued indexes.
///
/// # Errors
/// Of a stored expression that cannot be read.
pub fn read_computed_columns(
    env: &BindEnv<'_>,
    scope: &Scope<'_>,
    filter: &mut Option<Expr>,
    order: &mut [OrderKey],
) -> SqlResult<()> {
    if let Some(filter) = filter {
        for computed in computed_columns(env, scope, IndexHintScope::Join)? {
            computed.put_in(scope, filter);
        }
        array::read_arrays(env, scope, filter)?;
    }
    if order.iter().all(|key| key.expr.as_column().is_some()) {
        return Ok(());
    }
    for computed in computed_columns(env, scope, IndexHintScope::OrderBy)? {
        let keys = order.iter_mut().map(|key| &mut key.expr);
        for key in keys.filter(|key| computed.stands_for(key)) {
            *key = scope.column_expr(computed.at);
        }
    }
    Ok(())
}

/// The generated columns of a block's tables that an index has which may be used; none for most.
fn computed_columns(
    env: &BindEnv<'_>,
    scope: &Scope<'_>,
    hints: IndexHintScope,
) -> SqlResult<Vec<ComputedColumn>> {
    let mut found = Vec::new();
    for (nth, table) in scope.tables.iter().enumerate() {
        let Some(def) = table.base_def() else {
            continue;
        };
        for (col, column) in def.columns.iter().enumerate() {
            let Some(generated) = &column.generated else {
                continue;
            };
            if !is_indexed(table, def, col, hints) {
                continue;
            }
            let expr = bind_alone(env, table, def, &parse_expression(&generated.text)?)?;
            // A column is read itself, as in MySQL: a copy may be shorter outside of strict mode. In a row that an
            // outer join adds the column is NULL, whatever its expression would be.
            let is_copy = expr.as_column().is_some();
            if !is_copy && (!table.nulled || is_null_of_nulls(env, scope, &expr)) {
                found.push(ComputedColumn {
                    at: ColumnAt {
                        table: nth,
                        column: col,
                    },
                    expr,
                    ty: column.ty.clone(),
                    is_hidden: column.is_hidden(),
                });
            }
        }
    }
    Ok(found)
}

fn is_indexed(table: &ScopeTable, def: &TableDef, col: usize, hints: IndexHintScope) -> bool {
    let mut indexes = def.ordered().iter();
    indexes.any(|index| {
        index.parts.iter().any(|part| part.col == col) && table.allowed(index, hints).is_some()
    })
}

/// Is the expression NULL in a row of NULL?
fn is_null_of_nulls(env: &BindEnv<'_>, scope: &Scope<'_>, expr: &Expr) -> bool {
    fn compute(env: &BindEnv<'_>, scope: &Scope<'_>, e: &mut Expr) {
        for operand in e.children_mut() {
            compute(env, scope, operand);
        }
        let of_nulls = std::mem::replace(e, Expr::null());
        *e = match of_nulls.as_column() {
            Some(_) => Expr::constant(Value::Null, of_nulls.ty.with_nullable(true)),
            None => folded(env, scope, of_nulls),
        };
    }
    let mut of_nulls = expr.clone();
    compute(env, scope, &mut of_nulls);
    of_nulls.as_const().is_some_and(Value::is_null)
}

/// Binds an expression over one table of a block, with the block's slots.
pub(super) fn bind_alone(
    env: &BindEnv<'_>,
    table: &ScopeTable,
    def: &Arc<TableDef>,
    expr: &ast::Expr,
) -> SqlResult<Expr> {
    let mut alone = Scope::new();
    let mut own = ScopeTable::base(def.clone(), Some(&table.alias));
    let read = table.slots.borrow().clone();
    let slots = read
        .iter()
        .zip(UNREAD..)
        .map(|(slot, unread)| Some(slot.unwrap_or(unread)));
    own.slots = RefCell::new(slots.collect());
    alone.add_table(own);
    bind_expr(env, &alone, expr)
}

/// A generated column that a block reads, and the columns that determine it.
pub(super) struct Computation {
    /// Its table.
    pub table: usize,
    /// Its slot.
    pub slot: u32,
    /// Slots of the columns that it is computed from.
    pub from: Vec<u32>,
}

/// The generated columns among those that the block reads, where it reads what they are computed from, too.
///
/// # Errors
/// Of a stored expression that cannot be read.
pub(super) fn computations(
    env: &BindEnv<'_>,
    tables: &[ScopeTable],
) -> SqlResult<Vec<Computation>> {
    let mut found = Vec::new();
    for (nth, table) in tables.iter().enumerate() {
        let Some(def) = table.base_def() else {
            continue;
        };
        let slots = table.slots.borrow().clone();
        for (col, slot) in slots.iter().enumerate() {
            let mut from = Vec::new();
            if let Some(slot) = slot
                && def.columns[col].generated.is_some()
                && collect_read(env, table, def, col, &mut from)?
            {
                found.push(Computation {
                    table: nth,
                    slot: *slot,
                    from,
                });
            }
        }
    }
    Ok(found)
}

/// Collects the slots that a generated column is computed from; false where the block does not read one.
fn collect_read(
    env: &BindEnv<'_>,
    table: &ScopeTable,
    def: &Arc<TableDef>,
    col: usize,
    from: &mut Vec<u32>,
) -> SqlResult<bool> {
    let Some(generated) = &def.columns[col].generated else {
        return Ok(false);
    };
    let expr = bind_alone(env, table, def, &parse_expression(&generated.text)?)?;
    let mut read = Vec::new();
    expr.slots(&mut |slot| read.push(slot));
    for slot in read {
        match slot.checked_sub(UNREAD) {
            None => from.push(slot),
            // Columns that it is computed from were defined before it, so this ends.
            Some(unread) if !collect_read(env, table, def, unread as usize, from)? => {
                return Ok(false);
            }
            Some(_) => {}
        }
    }
    Ok(true)
}

/// Has the column all values of the expression, which compare alike with whatever they meet? Outside of strict mode it
/// has others where it is shorter.
fn fits(expr: &SqlType, column: &SqlType) -> bool {
    if expr.is_string() && column.is_string() {
        return expr.collation == column.collation && expr.length <= column.length;
    }
    let is_alike = match expr.is_integer() {
        true => column.is_integer() && expr.unsigned == column.unsigned,
        false => expr.kind == column.kind && expr.decimals == column.decimals,
    };
    is_alike && (!expr.is_numeric() || expr.length <= column.length)
}

impl Class {
    /// The class of a type's values.
    pub fn of(ty: &SqlType) -> Self {
        match ty.kind {
            TypeKind::Decimal => Self::Decimal,
            TypeKind::Float | TypeKind::Double => Self::Real,
            TypeKind::Year | TypeKind::Bit => Self::Integer,
            _ if ty.is_integer() => Self::Integer,
            _ => Self::Text,
        }
    }
}

/// What a function of the kind makes its result of.
fn peeled(e: &Expr, layer: Layer) -> Option<&Expr> {
    match (&e.kind, layer) {
        (ExprKind::Recollate(inner), Layer::Collate) | (ExprKind::Cast(inner, _), Layer::Cast) => {
            Some(inner)
        }
        (ExprKind::Func(call), Layer::Unquote) if call.def.name == "json_unquote" => {
            call.args.first()
        }
        _ => None,
    }
}

/// What may be around an expression in a generated column, and not in a condition that the column stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Layer {
    Collate,
    Cast,
    Unquote,
}

impl ComputedColumn {
    /// Does MySQL put the column in the place of the expression? COLLATE, CAST and JSON_UNQUOTE of the column's need
    /// not be written.
    fn stands_for(&self, written: &Expr) -> bool {
        let is_text = Class::of(&self.ty) == Class::Text;
        if is_text && self.expr.ty.kind == TypeKind::Json {
            return false;
        }
        let mut expr = &self.expr;
        for layer in [Layer::Collate, Layer::Cast, Layer::Unquote] {
            if let (Some(inner), None) = (peeled(expr, layer), peeled(written, layer)) {
                expr = inner;
            }
        }
        expr.as_column().is_none() && same(written, expr)
    }

    /// May it stand for the expression beside the others? Functional key parts do if their collation is the
    /// expression's.
    fn compares_with(&self, written: &Expr, others: &[&Expr]) -> bool {
        let collates =
            !self.is_hidden || !self.ty.is_string() || self.ty.collation == written.ty.collation;
        let is_known = |other: &Expr| {
            let mut is_known = !other.has_aggregate();
            other.slots(&mut |_| is_known = false);
            is_known
        };
        let are_alike =
            |other: &&Expr| Class::of(&other.ty) == Class::of(&self.ty) && is_known(other);
        collates && others.iter().all(are_alike)
    }

    /// Puts the column in where its expression is tested for NULL, as one of the conditions.
    fn put_in(&self, scope: &Scope<'_>, condition: &mut Expr) {
        match &mut condition.kind {
            ExprKind::Is { arg, .. } if fits(&self.expr.ty, &self.ty) && same(arg, &self.expr) => {
                **arg = scope.column_expr(self.at);
            }
            ExprKind::And(_) | ExprKind::Or(_) => {
                for part in condition.children_mut() {
                    self.put_in(scope, part);
                }
            }
            _ => (),
        }
    }
}
