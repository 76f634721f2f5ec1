//! Aggregate functions, and the query block whose rows each of them sees.
//!
//! By the SQL standard an aggregate in a subquery belongs to the innermost block that one of the columns in its
//! arguments comes from; MySQL looks further where aggregates are not allowed there (in WHERE, ON and GROUP BY). The
//! subquery reads the result like a column of the enclosing row.
//!
//! Neighbours: `call` finds the function, `group` moves the aggregates behind the grouping of their block.
//! **Invariants**: an aggregate is bound once per block however often it is written, and has a slot of that block's
//! row; its arguments, over that block's rows before grouping, read no such slot (1111).

use esker_sql_syntax::ast;
use esker_types::collation::Coercibility;
use esker_types::func::RetCtx;
use esker_types::func::aggregate::{self, AggDef, AggTypes};
use esker_types::sqltype::NOT_FIXED_DECIMALS;
use esker_types::{SqlMode, SqlResult, SqlType, TypeKind};

use super::block::{ANY_VALUE, AggCall, OrderKey};
use super::call::arg_types;
use super::expr::{bind_all, bind_expr};
use super::scope::{AggRule, Scope};
use super::subquery::move_up;
use super::text_numbers::{Wanted, as_text, bind_bits, bind_number};
use super::{BindEnv, errors, json};
use crate::expr::{Expr, ExprKind, walk};

/// Binds an aggregate in the block it belongs to.
///
/// # Errors
/// 1111: no block may have it.
pub(super) fn bind(
    env: &BindEnv<'_>,
    scope: &Scope<'_>,
    def: &'static AggDef,
    call: &ast::Call,
) -> SqlResult<Expr> {
    let rule = scope.agg_rule.get();
    if rules(scope).all(|rule| rule == AggRule::Forbidden) {
        // ANY_VALUE of what is not grouped is the value.
        return match (def.name, call.args.as_slice()) {
            (ANY_VALUE, [value]) => bind_expr(env, scope, value),
            _ => Err(errors::invalid_group_function()),
        };
    }
    let (mut args, mut order) = match (def.name, call.args.as_slice()) {
        (ANY_VALUE, [value]) => {
            let value = as_text(bind_expr(env, scope, value)?);
            let is_computed = value.has_aggregate() || value.has_window();
            if rule == AggRule::Nested || is_computed || reads_some_aggregate(scope, &value) {
                return any_value_inside(env, scope, value);
            }
            (vec![value], Vec::new())
        }
        _ => {
            scope.agg_rule.set(AggRule::Nested);
            let parts = bind_parts(env, scope, def.name, call);
            scope.agg_rule.set(rule);
            parts?
        }
    };
    let depth = depth_of_owner(env, scope, &args)?;
    let owner = scope.up(depth).ok_or_else(errors::invalid_group_function)?;
    let keys = order.iter_mut().map(|key| &mut key.expr);
    move_to(owner, depth, args.iter_mut().chain(keys))?;
    if call.distinct && matches!(def.name, "sum" | "avg") {
        args.iter_mut().for_each(distinct_as_number);
    }
    let signature = def.bind(&arg_types(&args), &RetCtx::of(env.ctx))?;
    let mut types = AggTypes::new(args.iter().map(|a| a.ty.clone()).collect(), &signature);
    if let Some(separator) = &call.separator {
        types.separator.clone_from(separator);
    }
    let bound = AggCall {
        def,
        types,
        args,
        distinct: call.distinct,
        order,
        slot: owner.width(),
    };
    let (nth, slot) = collect(owner, bound);
    let kind = match depth {
        0 => ExprKind::Aggregate(nth),
        _ => {
            scope.note_reach(depth);
            ExprKind::Outer { depth, slot }
        }
    };
    Ok(Expr {
        kind,
        ty: signature.ret,
        coer: signature.coercibility,
    })
}

/// How many levels up the block of an aggregate with these arguments is.
fn depth_of_owner(env: &BindEnv<'_>, scope: &Scope<'_>, args: &[Expr]) -> SqlResult<u16> {
    let depth = owner_of(scope, args)?;
    let is_outer = |arg: &Expr| innermost_level(scope, arg).is_some_and(|level| level > 0);
    if depth == 0 && args.iter().any(is_outer) && env.ctx.sql_mode.has(SqlMode::ANSI) {
        // As the standard has it, such an aggregate is of an enclosing block or of none.
        return Err(errors::invalid_group_function());
    }
    Ok(depth)
}

/// Makes expressions those of a block so many levels up, in which aggregates do not nest.
fn move_to<'e>(
    owner: &Scope<'_>,
    depth: u16,
    exprs: impl Iterator<Item = &'e mut Expr>,
) -> SqlResult<()> {
    for expr in exprs {
        if depth > 0 {
            move_up(expr, depth);
        }
        if reads_aggregate(owner, expr) {
            return Err(errors::invalid_group_function());
        }
    }
    Ok(())
}

/// ANY_VALUE of what is more than a value of the group's first row: of the parts that are.
fn any_value_inside(env: &BindEnv<'_>, scope: &Scope<'_>, mut value: Expr) -> SqlResult<Expr> {
    let is_computed = |e: &Expr| e.has_aggregate() || e.has_window();
    let is_whole = matches!(value.kind, ExprKind::Aggregate(_) | ExprKind::Window(_));
    if is_whole || !is_computed(&value) {
        return Ok(value);
    }
    debug_assert_eq!(
        scope.agg_rule.get(),
        AggRule::Allowed,
        "the block has aggregates"
    );
    for part in value.children_mut() {
        let inner = std::mem::replace(part, Expr::null());
        *part = match innermost_level(scope, &inner) {
            _ if is_computed(&inner) => any_value_inside(env, scope, inner)?,
            Some(0) => {
                let (call, mut any) = any_value_of(env, inner, scope.width())?;
                any.kind = ExprKind::Aggregate(collect(scope, call).0);
                any
            }
            _ => inner,
        };
    }
    Ok(value)
}

/// ANY_VALUE of an expression, and what reads it when it is the block's first aggregate.
pub(super) fn any_value_of(
    env: &BindEnv<'_>,
    value: Expr,
    slot: u32,
) -> SqlResult<(AggCall, Expr)> {
    let def = aggregate::lookup(ANY_VALUE).ok_or_else(errors::invalid_group_function)?;
    let args = vec![value];
    let signature = def.bind(&arg_types(&args), &RetCtx::of(env.ctx))?;
    let types = AggTypes::new(args.iter().map(|a| a.ty.clone()).collect(), &signature);
    let call = AggCall {
        def,
        types,
        args,
        distinct: false,
        order: Vec::new(),
        slot,
    };
    let read = Expr {
        kind: ExprKind::Aggregate(0),
        ty: signature.ret,
        coer: signature.coercibility,
    };
    Ok((call, read))
}

/// SUM and AVG of DISTINCT texts tell numbers apart, not texts: '1' and '1.0' are one.
fn distinct_as_number(text: &mut Expr) {
    if text.ty.is_string() && !matches!(text.ty.kind, TypeKind::Geometry(_)) {
        let ty = SqlType::double(NOT_FIXED_DECIMALS).with_nullable(text.ty.nullable);
        let inner = std::mem::replace(text, Expr::null());
        *text = Expr {
            kind: ExprKind::Convert(Box::new(inner)),
            ty,
            coer: Coercibility::Numeric,
        };
    }
}

/// Adds an aggregate to its block, if it is not there yet: its position and slot.
fn collect(owner: &Scope<'_>, mut bound: AggCall) -> (u32, u32) {
    let mut aggs = owner.aggs.borrow_mut();
    let known = aggs.iter().position(|a| same_call(a, &bound));
    let nth = known.unwrap_or_else(|| {
        bound.slot = owner.new_slot();
        aggs.push(bound);
        aggs.len() - 1
    });
    let slot = aggs[nth].slot;
    assert!(slot < owner.width(), "an aggregate has a slot of its block");
    (nth as u32, slot)
}

/// What aggregates may do here and in the enclosing queries.
fn rules<'s>(scope: &'s Scope<'_>) -> impl Iterator<Item = AggRule> + 's {
    let levels = (0..).map_while(|depth| scope.up(depth));
    levels.map(|scope| scope.agg_rule.get())
}

/// Levels up to the block whose rows an aggregate with these arguments sees.
fn owner_of(scope: &Scope<'_>, args: &[Expr]) -> SqlResult<u16> {
    let innermost = args.iter().filter_map(|arg| innermost_level(scope, arg));
    let innermost = innermost.min();
    let rules: Vec<AggRule> = rules(scope).collect();
    let admits = |depth: usize| rules.get(depth).is_some_and(|r| *r != AggRule::Forbidden);
    let between = match innermost {
        Some(depth) => 1..usize::from(depth),
        None => 1..rules.len(),
    };
    let depth = match innermost {
        Some(depth) if admits(usize::from(depth)) => usize::from(depth),
        None if rules[0] == AggRule::Allowed => 0,
        _ => between.into_iter().find(|d| admits(*d)).unwrap_or(0),
    };
    debug_assert!(innermost.is_none_or(|level| depth <= usize::from(level)));
    match rules[depth] {
        AggRule::Allowed => Ok(depth as u16),
        AggRule::Forbidden | AggRule::Nested => Err(errors::invalid_group_function()),
    }
}

/// Levels up to the nearest block a column of which an argument reads; what subqueries in it read belongs to this one.
/// Aggregates of enclosing blocks are constants here.
fn innermost_level(scope: &Scope<'_>, arg: &Expr) -> Option<u16> {
    let mut level: Option<u16> = None;
    arg.visit(&mut |e| {
        let here = match e.kind {
            ExprKind::Column(_) | ExprKind::Subquery(_) => 0,
            ExprKind::Outer { depth, .. } if !reads_some_aggregate(scope, e) => depth,
            _ => return,
        };
        level = Some(level.map_or(here, |l| l.min(here)));
    });
    level
}

/// Does an expression over the block's rows read an aggregate of that block, through a subquery too?
pub(super) fn reads_aggregate(owner: &Scope<'_>, e: &Expr) -> bool {
    let aggs = owner.aggs.borrow();
    let mut found = false;
    e.slots(&mut |slot| found |= aggs.iter().any(|a| a.slot == slot));
    found
}

/// Does an expression over the block's rows read an aggregate of that block or of an enclosing one?
pub(super) fn reads_some_aggregate(scope: &Scope<'_>, e: &Expr) -> bool {
    let outer = (1..).map_while(|depth| Some((depth, scope.up(depth)?)));
    let reads_of = |(depth, owner): (u16, &Scope<'_>)| {
        let aggs = owner.aggs.borrow();
        let mut found = false;
        e.outer_slots(depth, &mut |slot| {
            found |= aggs.iter().any(|a| a.slot == slot)
        });
        found
    };
    reads_aggregate(scope, e) || outer.into_iter().any(reads_of)
}

fn bind_parts(
    env: &BindEnv<'_>,
    scope: &Scope<'_>,
    name: &str,
    call: &ast::Call,
) -> SqlResult<(Vec<Expr>, Vec<OrderKey>)> {
    // What chooses or counts values takes them as they are.
    let chooses = matches!(name, "count" | "group_concat" | "max" | "min");
    let args = match chooses {
        true => bind_all(env, scope, &call.args)?,
        false => {
            let bind = |(nth, arg)| match name {
                "json_arrayagg" | "json_objectagg" => match json::takes_json_value(name, nth) {
                    true => json::bind_json_value(env, scope, arg),
                    false => bind_expr(env, scope, arg),
                },
                "bit_and" | "bit_or" | "bit_xor" => {
                    Ok(json::integer(arg, bind_bits(env, scope, arg)?))
                }
                _ => {
                    let number = bind_number(env, scope, arg, Wanted::Double)?;
                    Ok(json::number(arg, number))
                }
            };
            call.args
                .iter()
                .enumerate()
                .map(bind)
                .collect::<SqlResult<_>>()?
        }
    };
    let mut order = Vec::with_capacity(call.order_by.len());
    for item in &call.order_by {
        // A position names an argument.
        let expr = match &item.expr {
            ast::Expr::Literal(ast::Literal::Int(n)) => {
                let at = usize::try_from(*n).ok().and_then(|n| n.checked_sub(1));
                at.and_then(|at| args.get(at))
                    .cloned()
                    .ok_or_else(|| errors::unknown_column(n.to_string(), "order clause"))?
            }
            e => bind_expr(env, scope, e)?,
        };
        order.push(OrderKey {
            expr,
            desc: item.desc,
        });
    }
    if name == "group_concat" && call.distinct && order.is_empty() {
        // MySQL keeps different values in a tree, so they come sorted.
        order.extend(args.iter().map(|arg| OrderKey {
            expr: arg.clone(),
            desc: false,
        }));
    }
    Ok((args, order))
}

fn same_call(a: &AggCall, b: &AggCall) -> bool {
    let same_all = |a: &[Expr], b: &[Expr]| {
        a.len() == b.len() && a.iter().zip(b).all(|(a, b)| walk::same(a, b))
    };
    a.def.name == b.def.name
        && a.distinct == b.distinct
        && a.types.separator == b.types.separator
        && same_all(&a.args, &b.args)
        && a.order.len() == b.order.len()
        && a.order
            .iter()
            .zip(&b.order)
            .all(|(a, b)| a.desc == b.desc && walk::same(&a.expr, &b.expr))
}
