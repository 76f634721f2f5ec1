//! IN with a list of values.
//!
//! Neighbours: `compare` has what every comparison does with its sides, and compares rows; `subquery` binds IN with a
//! query.
//! **Invariant**: a list of constants that compare in one way without a warning is sorted, for binary search.

use esker_sql_syntax::ast;
use esker_types::cmp::{self, CmpKind};
use esker_types::{SqlResult, TypeKind, Value};

use super::compare::{
    adapt_listed, adapt_listed_time, common_collation, compare_any, is_textual, kind_of, moment_of,
    pair, settle,
};
use super::computed::Reading;
use super::expr::{bind_any, folded, negation, number_literal};
use super::scope::Scope;
use super::text_numbers::{Wanted, bind_side, number_of, read_once};
use super::{BindEnv, computed, errors, json, numbers, parameter};
use crate::expr::{CmpOp, Expr, ExprKind, InList, SortedList};

/// `arg [NOT] IN (list)`.
pub(super) fn bind_in(
    env: &BindEnv<'_>,
    scope: &Scope<'_>,
    arg: &ast::Expr,
    list: &[ast::Expr],
    negated: bool,
) -> SqlResult<Expr> {
    let reading = scope.reads_computed.take();
    let reads_computed = match list.len() {
        1 if negated => reading.compares_by(CmpOp::Ne),
        1 => reading.compares_by(CmpOp::Eq),
        _ => reading != Reading::Never,
    };
    let mut bound = bind_side(env, scope, arg)?;
    let mut members = bind_members(env, scope, list, &bound)?;
    if reads_computed {
        let others: Vec<&Expr> = members.iter().collect();
        if computed::read_operand(env, scope, &mut bound, &others)? {
            members = bind_members(env, scope, list, &bound)?;
        }
    }
    if members.iter().all(|m| m.ty.is_numeric()) {
        bound = match number_literal(arg) {
            Some(number) => number,
            None => number_of(scope, bound, Wanted::Double),
        };
    }
    if members.iter().all(|m| m.ty.kind == TypeKind::Json) {
        bound = json::as_compared_truth(env, scope, arg, bound)?;
    }
    bound = folded(env, scope, bound);
    if let Some(moment) = moment_of(&members)
        && (moment.kind != TypeKind::Time || members.len() == 1)
    {
        parameter::compare_with(env, arg, &mut bound, &moment, false)?;
    }
    if matches!(bound.kind, ExprKind::Row(_)) || members.len() == 1 {
        let found = equals_one(env, scope, (arg, &bound), list.iter().zip(members))?;
        return Ok(if negated { negation(found) } else { found });
    }
    if members.iter().any(|m| matches!(m.kind, ExprKind::Row(_))) {
        return Err(errors::operand_columns(1));
    }
    for member in &mut members {
        env.meets(member, &bound.ty);
        adapt_listed(env, member, &bound);
        adapt_listed_time(env, member, &bound)?;
    }
    let kinds = in_kinds(&bound, &members)?;
    for (member, kind) in members.iter_mut().zip(&kinds) {
        settle(env, member, *kind)?;
    }
    let nullable = bound.ty.nullable || members.iter().any(|m| m.ty.nullable);
    let sorted = sort_members(env, &members, &kinds);
    let sorted = sorted.map(|list| Box::new(list.keyed_for(&bound.ty)));
    if kinds.iter().all(|kind| *kind == CmpKind::Double) {
        bound = read_once(bound);
    }
    let list = InList {
        arg: bound,
        kinds,
        list: members,
        sorted,
        negated,
    };
    Ok(Expr::condition(ExprKind::InList(Box::new(list)), nullable))
}

/// Binds the members of a list: numbers as such where the value that is looked for is one, conditions as truths where
/// it is a JSON value.
fn bind_members(
    env: &BindEnv<'_>,
    scope: &Scope<'_>,
    list: &[ast::Expr],
    sought: &Expr,
) -> SqlResult<Vec<Expr>> {
    let takes_numbers = sought.ty.is_numeric();
    let is_document = sought.ty.kind == TypeKind::Json;
    let mut members = Vec::with_capacity(list.len());
    for member in list {
        let mut one = match number_literal(member) {
            Some(number) if takes_numbers => number,
            _ if takes_numbers => {
                let operand = bind_side(env, scope, member)?;
                folded(env, scope, number_of(scope, operand, Wanted::Double))
            }
            _ if is_document => {
                let operand = bind_any(env, scope, member)?;
                json::as_compared_truth(env, scope, member, folded(env, scope, operand))?
            }
            _ => bind_any(env, scope, member)?,
        };
        if sought.ty.is_integer() || list.len() == 1 {
            parameter::compare_with(env, member, &mut one, &sought.ty, false)?;
        }
        members.push(one);
    }
    Ok(members)
}

/// A list of rows, or of one member, as comparisons.
fn equals_one<'e>(
    env: &BindEnv<'_>,
    scope: &Scope<'_>,
    (arg, sought): (&ast::Expr, &Expr),
    members: impl Iterator<Item = (&'e ast::Expr, Expr)>,
) -> SqlResult<Expr> {
    let conds = members.map(|(written, mut member)| {
        let mut sought = sought.clone();
        if matches!(sought.kind, ExprKind::Row(_)) {
            (sought, member) = pair(env, scope, (arg, sought), (written, member))?;
        }
        numbers::exact_text(scope, &mut member, &sought);
        compare_any(env, CmpOp::Eq, sought, member)
    });
    let mut conds = conds.collect::<SqlResult<Vec<_>>>()?;
    if conds.len() == 1 {
        return Ok(conds.remove(0));
    }
    let nullable = conds.iter().any(|c| c.ty.nullable);
    Ok(Expr::condition(ExprKind::Or(conds), nullable))
}

/// Kinds of comparison with every member; strings agree on one collation.
fn in_kinds(arg: &Expr, members: &[Expr]) -> SqlResult<Vec<CmpKind>> {
    if is_textual(&arg.ty) && members.iter().all(|m| is_textual(&m.ty)) {
        let texts: Vec<_> = std::iter::once(arg).chain(members).collect();
        let collation = common_collation(&texts, " IN ")?;
        return Ok(vec![CmpKind::Str(collation); members.len()]);
    }
    members.iter().map(|m| kind_of(arg, m, " IN ")).collect()
}

/// Sorts constant members for binary search.
fn sort_members(env: &BindEnv<'_>, members: &[Expr], kinds: &[CmpKind]) -> Option<SortedList> {
    let (kind, ty) = (kinds[0], members[0].ty.clone());
    let alike = |m: &Expr| m.ty.kind == ty.kind || m.ty.kind == TypeKind::Null;
    if kinds.iter().any(|k| *k != kind) || !members.iter().all(alike) {
        return None;
    }
    let mut values: Vec<Value> = Vec::with_capacity(members.len());
    let mut has_null = false;
    for member in members {
        match member.as_const() {
            None => return None,
            Some(Value::Null) => has_null = true,
            Some(v) => values.push(v.clone()),
        }
    }
    // Comparisons may warn (a string that is no number): then evaluate one by one, as MySQL does.
    let quiet = env.ctx.quiet();
    let mut failed = false;
    values.sort_by(|a, b| match cmp::compare(&quiet, a, b, kind, (&ty, &ty)) {
        Ok(Some(ord)) => ord,
        _ => {
            failed = true;
            std::cmp::Ordering::Equal
        }
    });
    if failed || quiet.diagnostics.count() > 0 {
        return None;
    }
    Some(SortedList {
        kind,
        ty,
        values,
        has_null,
        keys: None,
    })
}
