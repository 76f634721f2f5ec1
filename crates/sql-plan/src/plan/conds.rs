//! Predicate analysis: the conjuncts of a condition, which tables each reads, and what it rejects.
//!
//! Neighbours: `join_order` and `access` place conditions with these helpers.
//! **Invariants**: splitting keeps the conjunction's meaning where only TRUE counts; the table set of
//! a condition covers every slot it may read, also from subqueries.

use esker_types::func::FuncFlags;

use crate::bind::ScopeTable;
use crate::expr::{CmpOp, Expr, ExprKind, Test, walk};

/// A set of a block's tables, as bits.
pub(crate) type TableSet = u64;

/// Splits a condition into conjuncts.
pub(super) fn split(cond: &Expr, out: &mut Vec<Expr>) {
    match &cond.kind {
        ExprKind::And(conds) => {
            for cond in conds {
                split(cond, out);
            }
        }
        ExprKind::Or(branches) => split_or(cond, branches, out),
        _ => out.push(cond.clone()),
    }
}

/// Takes what all branches of a disjunction have in common out of it, so that
/// `(a = b AND x) OR (a = b AND y)` joins by `a = b`.
fn split_or(cond: &Expr, branches: &[Expr], out: &mut Vec<Expr>) {
    let mut parts: Vec<Vec<Expr>> = Vec::with_capacity(branches.len());
    for branch in branches {
        let mut conjuncts = Vec::new();
        split(branch, &mut conjuncts);
        parts.push(conjuncts);
    }
    let (first, others) = parts.split_first().expect("a disjunction has branches");
    let everywhere =
        |c: &&Expr| !changes(c) && others.iter().all(|o| o.iter().any(|d| walk::same(c, d)));
    let common: Vec<Expr> = first.iter().filter(everywhere).cloned().collect();
    if common.is_empty() {
        out.push(cond.clone());
        return;
    }
    for conjuncts in &mut parts {
        conjuncts.retain(|c| !common.iter().any(|d| walk::same(c, d)));
    }
    out.extend(common);
    // A branch that had nothing else is true now, and with it the disjunction.
    if parts.iter().all(|p| !p.is_empty()) {
        out.push(Expr::any_of(parts.into_iter().map(Expr::all_of).collect()));
    }
}

/// May evaluating it once more or less be noticed?
fn changes(e: &Expr) -> bool {
    e.any(&mut |e| match &e.kind {
        ExprKind::Assign(..) | ExprKind::SeededRand(..) | ExprKind::Subquery(_) => true,
        ExprKind::Stored(_) => true,
        ExprKind::Func(call) => crate::expr::fold::is_volatile(call.def),
        _ => false,
    })
}

/// What a disjunction over several tables says of each alone: of
/// `(x.a = 1 AND y.b = 2) OR (x.a = 3 AND y.b = 4)` the conditions `x.a = 1 OR x.a = 3` and
/// `y.b = 2 OR y.b = 4`. They follow from it and only save rows early.
pub(super) fn implied(cond: &Expr, map: &SlotMap) -> Vec<Expr> {
    let ExprKind::Or(branches) = &cond.kind else {
        return Vec::new();
    };
    let tables = map.tables_of(cond);
    if tables.count_ones() < 2 || changes(cond) {
        return Vec::new();
    }
    let of_table = |t: u32| -> Option<Expr> {
        let mut alone = Vec::with_capacity(branches.len());
        for branch in branches {
            let mut conjuncts = Vec::new();
            split(branch, &mut conjuncts);
            conjuncts.retain(|c| map.tables_of(c) == 1 << t);
            if conjuncts.is_empty() {
                return None;
            }
            alone.push(Expr::all_of(conjuncts));
        }
        Some(Expr::any_of(alone))
    };
    (0..64)
        .filter(|t| tables >> t & 1 == 1)
        .filter_map(of_table)
        .collect()
}

/// Moves conditions to the front that cost next to nothing and neither fail nor warn; the others keep their order.
pub(super) fn cheap_first(conds: &mut [Expr]) {
    conds.sort_by_key(|cond| !is_cheap(cond));
}

/// Does it compare numbers with numbers, or temporal values with temporal values, as they are?
pub fn is_cheap(cond: &Expr) -> bool {
    let is_plain = |e: &Expr| matches!(e.kind, ExprKind::Column(_) | ExprKind::Const(_));
    let are_plain = |arg: &Expr, others: &[&Expr]| {
        let is_like_arg =
            |e: &Expr| (arg.ty.is_numeric() && e.ty.is_numeric()) || arg.ty.kind == e.ty.kind;
        let is_number = arg.ty.is_numeric() || arg.ty.is_temporal();
        is_number && is_plain(arg) && others.iter().all(|e| is_plain(e) && is_like_arg(e))
    };
    match &cond.kind {
        ExprKind::Cmp(cmp) => are_plain(&cmp.left, &[&cmp.right]),
        ExprKind::Between(b) => are_plain(&b.arg, &[&b.low.0, &b.high.0]),
        ExprKind::InList(list) => are_plain(&list.arg, &list.list.iter().collect::<Vec<_>>()),
        _ => false,
    }
}

/// Which table a slot belongs to, by slot.
pub(super) struct SlotMap {
    tables: Vec<Option<usize>>,
}

impl SlotMap {
    pub fn new(tables: &[ScopeTable], width: u32) -> Self {
        let mut map = vec![None; width as usize];
        for (nth, table) in tables.iter().enumerate() {
            for slot in table.used_slots() {
                map[slot as usize] = Some(nth);
            }
        }
        Self { tables: map }
    }

    /// Tables an expression reads.
    pub fn tables_of(&self, e: &Expr) -> TableSet {
        let mut set = 0;
        e.slots(&mut |slot| {
            if let Some(table) = self.tables.get(slot as usize).copied().flatten() {
                set |= 1 << table;
            }
        });
        set
    }
}

/// Is the expression NULL whenever all columns of `tables` in it are NULL, and does it read one?
fn is_strict(e: &Expr, map: &SlotMap, tables: TableSet) -> bool {
    match &e.kind {
        ExprKind::Column(_) => map.tables_of(e) & tables != 0,
        ExprKind::Arith(a) => a.args.iter().any(|a| is_strict(a, map, tables)),
        ExprKind::Unary(u) => is_strict(&u.arg, map, tables),
        ExprKind::Cast(e, _)
        | ExprKind::Convert(e)
        | ExprKind::Recollate(e)
        | ExprKind::Number(e, _) => is_strict(e, map, tables),
        ExprKind::Func(call) => {
            call.def.flags.has(FuncFlags::NULL_IN_NULL_OUT)
                && call.args.iter().any(|a| is_strict(a, map, tables))
        }
        _ => false,
    }
}

/// Is the condition never TRUE for a row whose columns of `tables` are all NULL?
pub(super) fn rejects_null(cond: &Expr, map: &SlotMap, tables: TableSet) -> bool {
    match &cond.kind {
        ExprKind::Cmp(cmp) => {
            cmp.op != CmpOp::NullSafeEq
                && (is_strict(&cmp.left, map, tables) || is_strict(&cmp.right, map, tables))
        }
        ExprKind::And(conds) => conds.iter().any(|c| rejects_null(c, map, tables)),
        ExprKind::Or(conds) => conds.iter().all(|c| rejects_null(c, map, tables)),
        ExprKind::Between(b) => {
            is_strict(&b.arg, map, tables)
                || (!b.negated
                    && (is_strict(&b.low.0, map, tables) || is_strict(&b.high.0, map, tables)))
        }
        ExprKind::InList(l) => is_strict(&l.arg, map, tables),
        ExprKind::Like(l) => is_strict(&l.text, map, tables) || is_strict(&l.pattern, map, tables),
        ExprKind::Is {
            arg,
            test: Test::Null,
            negated: true,
        } => is_strict(arg, map, tables),
        ExprKind::Is {
            arg,
            test: Test::True,
            negated: false,
        } => rejects_null(arg, map, tables),
        ExprKind::Is {
            arg,
            test: Test::False,
            negated: false,
        } => is_strict(arg, map, tables),
        // NOT of something that is NULL is NULL.
        ExprKind::Not(arg) => match &arg.kind {
            ExprKind::Cmp(_) | ExprKind::InList(_) | ExprKind::Like(_) => {
                rejects_null(arg, map, tables)
            }
            _ => is_strict(arg, map, tables),
        },
        _ => is_strict(cond, map, tables),
    }
}
