//! Moving a block's expressions behind its grouping, and MySQL's ONLY_FULL_GROUP_BY.
//!
//! Neighbours: `select` hands over its clauses; `dependencies` says which columns the keys determine; `exec::group`
//! produces the grouped row.
//! **Invariants**: the grouped row has the table columns of the group's first row in their slots,
//! then the keys, then the aggregates, then the rolled-up flags; with ONLY_FULL_GROUP_BY every column
//! read from it is determined by the keys.

use std::collections::HashSet;

use esker_sql_catalog::catalog::same_name;
use esker_sql_catalog::result::StoredAs;
use esker_sql_syntax::ast;
use esker_types::{SqlMode, SqlResult, SqlType, Value};

use super::aggregates::any_value_of;
use super::aliases::GroupName;
use super::block::{AggCall, GroupBy, JoinNode, OrderKey, Windows};
use super::dependencies::{self, Source};
use super::expr::bind_expr;
use super::scope::Scope;
use super::select::Output;
use super::text_numbers::as_text;
use super::{BindEnv, errors};
use crate::expr::{Expr, ExprKind, walk};

/// The clauses that are evaluated after grouping, and what determines columns.
pub(super) struct Clauses<'c, 'p> {
    pub scope: &'c Scope<'p>,
    pub outputs: &'c mut Vec<Output>,
    pub having: &'c mut Option<Expr>,
    pub order: &'c mut Vec<OrderKey>,
    pub windows: &'c mut Windows,
    pub filter: Option<&'c Expr>,
    pub join: Option<&'c JoinNode>,
    pub distinct: bool,
}

impl Clauses<'_, '_> {
    fn exprs_mut(&mut self) -> impl Iterator<Item = &mut Expr> {
        self.outputs
            .iter_mut()
            .map(|o| &mut o.expr)
            .chain(self.having.iter_mut())
            .chain(self.order.iter_mut().map(|k| &mut k.expr))
            .chain(self.windows.exprs_mut())
    }
}

/// Decides whether the block groups, checks it and rewrites its clauses. Returns the grouping and
/// the width of the row.
pub(super) fn apply(
    env: &BindEnv<'_>,
    clauses: &mut Clauses<'_, '_>,
    keys: Vec<Expr>,
    rollup: bool,
    explicit: bool,
) -> SqlResult<(Option<GroupBy>, u32)> {
    let scope = clauses.scope;
    let mut aggs = scope.aggs.take();
    let strict = env.ctx.sql_mode.has(SqlMode::ONLY_FULL_GROUP_BY);
    if !explicit && clauses.exprs_mut().any(|e| calls_grouping(e)) {
        return Err(errors::invalid_group_function());
    }
    if !explicit && aggs.iter().all(AggCall::is_any_value) {
        if strict && clauses.distinct {
            check_distinct_order(clauses, &aggs)?;
        }
        put_for_any_values(clauses, &aggs);
        return Ok((None, scope.width()));
    }
    check_grouping(clauses, &keys)?;
    if !explicit {
        // There is one row: what it would be ordered by need not be determined.
        clauses.order.clear();
    }
    if strict {
        check_full(env, clauses, &keys, rollup, &aggs, explicit)?;
        if clauses.distinct && explicit && (rollup || !selects_all(clauses, &keys)) {
            check_distinct_order(clauses, &aggs)?;
        }
    }
    if explicit && !rollup {
        compute_once(env, clauses, &mut aggs)?;
    }
    let key_base = scope.width();
    let mut width = key_base + keys.len() as u32;
    let rollup = rollup.then(|| {
        let base = width;
        width += keys.len() as u32;
        base
    });
    let moved = Moved {
        keys: &keys,
        key_base,
        aggs: &aggs,
        rollup,
    };
    for expr in clauses.exprs_mut() {
        moved.rewrite(expr);
    }
    for (output, key) in clauses.scope.aliases.rolled.take() {
        let expr = &mut clauses.outputs[output].expr;
        expr.kind = ExprKind::Column(key_base + key as u32);
        expr.ty.nullable = true;
    }
    let group = GroupBy {
        keys,
        key_base,
        aggs,
        rollup,
        implicit: !explicit,
    };
    Ok((Some(group), width))
}

/// Notes the items of the select list that are keys of GROUP BY … WITH ROLLUP under their name only: those that another
/// key before is equal to, for each is rolled up in its own turn, and those that are the same for every row.
pub(super) fn note_rolled_up(scope: &Scope<'_>, outputs: &[Output], keys: &[Expr]) {
    let grouped = scope.aliases.grouped.borrow();
    let key_of = |output: &Output| {
        let is_it = |(nth, key): &(usize, &GroupName)| {
            let names = |key: &GroupName| key.name.as_ref() == Some(&output.meta.name);
            let is_first = names(key) && !grouped.iter().take(*nth).any(names);
            let is_equal = |other: &Expr| walk::same(other, &output.expr);
            let is_alone = output.expr.is_row_independent() || keys[..*nth].iter().any(is_equal);
            is_first && is_equal(&key.expr) && is_alone
        };
        grouped.iter().enumerate().find(is_it).map(|(nth, _)| nth)
    };
    let outputs = outputs.iter().enumerate();
    let rolled = outputs.filter_map(|(nth, output)| Some((nth, key_of(output)?)));
    *scope.aliases.rolled.borrow_mut() = rolled.collect();
}

/// The keys of GROUP BY … WITH ROLLUP that are constants, as they are written: 2 is another one than 1 + 1.
pub(super) fn constant_keys(
    env: &BindEnv<'_>,
    scope: &Scope<'_>,
    select: &ast::Select,
) -> Vec<Expr> {
    let constant = |key: &ast::Expr| bind_expr(env, scope, written_key(select, key)?).ok();
    scope.stays_written.set(true);
    let constants = select.group_by.iter().filter_map(constant).collect();
    scope.stays_written.set(false);
    constants
}

/// The constant that a key is written as: in GROUP BY, or in the select list under a position or a name.
fn written_key<'s>(select: &'s ast::Select, key: &'s ast::Expr) -> Option<&'s ast::Expr> {
    let item = |found: &dyn Fn(usize, Option<&ast::Ident>) -> bool| {
        let items = select.items.iter().enumerate();
        items.into_iter().find_map(|(nth, item)| match item {
            ast::SelectItem::Expr { expr, alias, .. } if found(nth, alias.as_ref()) => Some(expr),
            _ => None,
        })
    };
    let written = match key {
        ast::Expr::Literal(ast::Literal::Int(n)) => {
            item(&|nth, _| usize::try_from(*n).is_ok_and(|n| n == nth + 1))?
        }
        ast::Expr::Column(name) if name.table.is_none() => {
            item(&|_, alias| alias.is_some_and(|a| same_name(&a.text, &name.name.text)))?
        }
        key => key,
    };
    is_constant(written).then_some(written)
}

/// A literal, or a calculation with some?
fn is_constant(e: &ast::Expr) -> bool {
    match e {
        ast::Expr::Literal(_) => true,
        ast::Expr::Unary { expr, .. } => is_constant(expr),
        ast::Expr::Binary { left, right, .. } => is_constant(left) && is_constant(right),
        _ => false,
    }
}

/// ANY_VALUE alone does not make a query an aggregated one: it is its argument.
fn put_for_any_values(clauses: &mut Clauses<'_, '_>, calls: &[AggCall]) {
    fn replace(e: &mut Expr, calls: &[AggCall]) {
        if let ExprKind::Aggregate(nth) = e.kind {
            *e = calls[nth as usize].args[0].clone();
            return;
        }
        for child in e.children_mut() {
            replace(child, calls);
        }
    }
    debug_assert!(calls.iter().all(|call| call.args.len() == 1));
    for expr in clauses.exprs_mut() {
        replace(expr, calls);
    }
}

/// Volatile items whose names HAVING reads have one value in a group: that for its first row, as with ANY_VALUE.
fn compute_once(
    env: &BindEnv<'_>,
    clauses: &mut Clauses<'_, '_>,
    aggs: &mut Vec<AggCall>,
) -> SqlResult<()> {
    for (item, id) in clauses.scope.aliases.judged.take() {
        let output = &mut clauses.outputs[item].expr;
        if output.is_volatile() && !output.has_aggregate() {
            let slot = clauses.scope.new_slot();
            let (call, read) = any_value_of(env, output.clone(), slot)?;
            *output = read;
            output.kind = ExprKind::Aggregate(aggs.len() as u32);
            aggs.push(call);
        }
        // Else the value is that of another name, or needs the whole group.
        if matches!(output.kind, ExprKind::Aggregate(_)) {
            let having = clauses.having.iter_mut();
            having.for_each(|having| put_for_kept(having, id, output));
        }
    }
    Ok(())
}

fn put_for_kept(place: &mut Expr, id: u32, value: &Expr) {
    if matches!(&place.kind, ExprKind::Kept(kept) if kept.id == id) {
        *place = value.clone();
        return;
    }
    for child in place.children_mut() {
        put_for_kept(child, id, value);
    }
}

/// Where things are after grouping.
struct Moved<'k> {
    keys: &'k [Expr],
    key_base: u32,
    aggs: &'k [AggCall],
    rollup: Option<u32>,
}

/// Keys of GROUP BY … WITH ROLLUP are no columns any more where they are selected, and labels are texts.
pub(super) fn roll_up_outputs(scope: &Scope<'_>, outputs: &mut [Output], keys: &[Expr]) {
    let rolled = scope.aliases.rolled.borrow();
    for (nth, output) in outputs.iter_mut().enumerate() {
        let is_key = keys.iter().any(|key| walk::same(key, &output.expr));
        if is_key && rolled.iter().all(|(at, _)| *at != nth) {
            let expr = std::mem::replace(&mut output.expr, Expr::null());
            output.expr = as_text(expr);
        }
        if is_key && output.meta.stored_as == StoredAs::Same {
            output.meta.stored_as = StoredAs::RolledUp;
        }
    }
}

impl Moved<'_> {
    fn rewrite(&self, e: &mut Expr) {
        if let ExprKind::Aggregate(nth) = e.kind {
            e.kind = ExprKind::Column(self.aggs[nth as usize].slot);
            return;
        }
        if let ExprKind::Key(nth) = e.kind {
            e.kind = ExprKind::Column(self.key_base + nth);
            return;
        }
        if let ExprKind::Grouping(args) = &mut e.kind {
            for arg in args {
                let nth = grouped_key(self.keys, arg);
                *arg = match (nth, self.rollup) {
                    (Some(nth), Some(base)) => {
                        Expr::column(base + nth as u32, SqlType::bigint(false))
                    }
                    _ => Expr::boolean(false),
                };
            }
            return;
        }
        // A key that is a plain column keeps its own slot, which the grouped row fills too.
        if let Some(nth) = self.keys.iter().position(|k| walk::same(k, e)) {
            let keeps_slot = match self.rollup {
                Some(_) => {
                    // Constants too are NULL where they are rolled up.
                    e.ty.nullable = true;
                    matches!(e.kind, ExprKind::Column(_))
                }
                None => matches!(e.kind, ExprKind::Column(_) | ExprKind::Const(_)),
            };
            if !keeps_slot {
                e.kind = ExprKind::Column(self.key_base + nth as u32);
            }
            return;
        }
        for child in e.children_mut() {
            self.rewrite(child);
        }
    }
}

pub(super) fn calls_grouping(e: &Expr) -> bool {
    let mut found = false;
    e.visit(&mut |e| found |= matches!(e.kind, ExprKind::Grouping(_)));
    found
}

/// The key that an argument of GROUPING() is.
fn grouped_key(keys: &[Expr], arg: &Expr) -> Option<usize> {
    match arg.kind {
        ExprKind::Key(nth) => Some(nth as usize),
        _ => keys.iter().position(|key| walk::same(key, arg)),
    }
}

/// Arguments of GROUPING() are keys (3602, or 1210 for constants).
fn check_grouping(clauses: &mut Clauses<'_, '_>, keys: &[Expr]) -> SqlResult<()> {
    let mut missing = None;
    for expr in clauses.exprs_mut() {
        expr.visit(&mut |e| {
            if let ExprKind::Grouping(args) = &e.kind {
                let unknown = |a: &Expr| grouped_key(keys, a).is_none();
                let at = args.iter().position(unknown);
                missing = missing.or(at.map(|at| (at, args[at].as_const().is_some())));
            }
        });
    }
    match missing {
        Some((_, true)) => Err(errors::wrong_arguments("GROUPING function")),
        Some((nth, false)) => Err(errors::not_grouped_argument(nth + 1)),
        None => Ok(()),
    }
}

/// Every column read after grouping must be determined by the keys (1055, 1140).
fn check_full(
    env: &BindEnv<'_>,
    clauses: &Clauses<'_, '_>,
    keys: &[Expr],
    rollup: bool,
    aggs: &[AggCall],
    explicit: bool,
) -> SqlResult<()> {
    let mut determined = determined_slots(env, clauses, keys, rollup);
    determined.extend(aggs.iter().map(|agg| agg.slot));
    let check = |e: &Expr, parts: &[Expr], nth: usize, clause: &str| -> SqlResult<()> {
        let mut free = first_free(e, parts, &determined);
        e.visit(&mut |e| {
            if let ExprKind::Window(call) = e.kind {
                let mut args = clauses.windows.calls[call as usize].args.iter();
                free = free.or_else(|| args.find_map(|e| first_free(e, keys, &determined)));
            }
        });
        let Some(slot) = free else {
            return Ok(());
        };
        let column = qualified(clauses.scope, slot);
        Err(match explicit {
            true => errors::not_in_group_by(nth, clause, &column),
            false => errors::mixed_aggregate(nth, clause, &column),
        })
    };
    for (nth, output) in clauses.outputs.iter().enumerate() {
        // A key that is an expression determines itself, but as in MySQL nothing that is computed from it.
        let whole = &output.expr;
        if !keys.iter().any(|key| walk::same(key, whole)) {
            check(whole, &[], nth + 1, "SELECT list")?;
        }
    }
    // Here keys stand for what the select list gives a name to.
    if let Some(having) = &*clauses.having {
        check(having, keys, 1, "HAVING clause")?;
    }
    for (nth, key) in clauses.order.iter().enumerate() {
        check(&key.expr, keys, nth + 1, "ORDER BY clause")?;
    }
    for window in &clauses.windows.specs {
        let clause = format!(
            "PARTITION BY or ORDER BY clause of window '{}'",
            window.name
        );
        let order = window.order.iter().map(|key| &key.expr).enumerate();
        for (nth, key) in window.partition.iter().enumerate().chain(order) {
            check(key, keys, nth + 1, &clause)?;
        }
    }
    Ok(())
}

/// The first column of an expression that is neither a key nor determined.
fn first_free(e: &Expr, keys: &[Expr], determined: &HashSet<u32>) -> Option<u32> {
    if keys.iter().any(|k| walk::same(k, e)) {
        return None;
    }
    match &e.kind {
        ExprKind::Column(slot) => (!determined.contains(slot)).then_some(*slot),
        ExprKind::Grouping(_) => None,
        ExprKind::Subquery(q) => {
            let mut free = None;
            q.plan.outer_slots(1, &mut |slot| {
                if !determined.contains(&slot) {
                    free.get_or_insert(slot);
                }
            });
            let left = e
                .children()
                .into_iter()
                .find_map(|c| first_free(c, keys, determined));
            left.or(free)
        }
        _ => e
            .children()
            .into_iter()
            .find_map(|c| first_free(c, keys, determined)),
    }
}

/// `db.table.column` of a slot, for messages.
fn qualified(scope: &Scope<'_>, slot: u32) -> String {
    let Some(at) = scope.column_of_slot(slot) else {
        return String::new();
    };
    let table = &scope.tables[at.table];
    let column = &table.columns[at.column].name;
    match table.schema.is_empty() {
        true => format!("{}.{column}", table.alias),
        false => format!("{}.{}.{column}", table.schema, table.alias),
    }
}

/// Slots whose value is the same for all rows of a group.
fn determined_slots(
    env: &BindEnv<'_>,
    clauses: &Clauses<'_, '_>,
    keys: &[Expr],
    rollup: bool,
) -> HashSet<u32> {
    let known: HashSet<u32> = keys.iter().filter_map(Expr::as_column).collect();
    if rollup {
        // In the rows of sums keys are NULL, and determine nothing.
        return known;
    }
    let source = Source {
        tables: &clauses.scope.tables,
        join: clauses.join,
        filter: clauses.filter,
    };
    dependencies::determined(env, source, clauses.scope.width(), known)
}

/// Does every group have a row of its own in the result? DISTINCT changes nothing then.
fn selects_all(clauses: &Clauses<'_, '_>, keys: &[Expr]) -> bool {
    let is_selected = |key: &Expr| clauses.outputs.iter().any(|o| walk::same(&o.expr, key));
    keys.iter().all(is_selected)
}

/// Is there an aggregate in the expression, outside of parts that are selected? ANY_VALUE is none.
fn aggregates(e: &Expr, selected: &[Expr], calls: &[AggCall]) -> bool {
    if selected.iter().any(|s| walk::same(s, e)) {
        return false;
    }
    match e.kind {
        ExprKind::Aggregate(nth) => !calls.get(nth as usize).is_some_and(AggCall::is_any_value),
        ExprKind::Grouping(_) => true,
        _ => (e.children().into_iter()).any(|c| aggregates(c, selected, calls)),
    }
}

/// ORDER BY of a DISTINCT query reads only what is selected (3065, 3066).
fn check_distinct_order(clauses: &Clauses<'_, '_>, aggs: &[AggCall]) -> SqlResult<()> {
    let selected: Vec<Expr> = clauses.outputs.iter().map(|o| o.expr.clone()).collect();
    let slots: HashSet<u32> = selected.iter().filter_map(Expr::as_column).collect();
    for (nth, key) in clauses.order.iter().enumerate() {
        if matches!(&key.expr.kind, ExprKind::Const(Value::Null)) {
            continue;
        }
        if aggregates(&key.expr, &selected, aggs) {
            return Err(errors::aggregate_not_in_distinct(nth + 1));
        }
        if let Some(slot) = first_free(&key.expr, &selected, &slots) {
            let column = qualified(clauses.scope, slot);
            return Err(errors::not_in_distinct(nth + 1, &column));
        }
    }
    Ok(())
}
