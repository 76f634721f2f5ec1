//! Transitive closure of equality predicates: of `a = b AND b = c` also `a = c`, so that tables can be joined in more
//! orders.
//!
//! Neighbours: `join_order` adds what follows to the conditions of a join, and asks which of them are enough; `conds`
//! has tables by slot. **Invariants**: only integers imply others: what is equal of them is the same value; what is
//! added follows from conditions that are evaluated; a condition is left out only where others make it true.

use std::collections::HashMap;

use super::conds::{SlotMap, TableSet};
use crate::bind::equated_slots;
use crate::expr::{Cmp, Expr, ExprKind};

/// Classes of columns that are equal, by slot.
#[derive(Default)]
pub(super) struct Equalities {
    class_of: HashMap<u32, usize>,
}

impl Equalities {
    /// Adds to conjuncts the equalities of columns that follow from them: of different tables, so that any may come
    /// first, and of one, because what is joined to it later is compared with only one of them.
    pub fn complete(conds: &mut Vec<Expr>) -> Self {
        let mut classes: Vec<Vec<Expr>> = Vec::new();
        for cmp in conds.iter().filter_map(equal_integers) {
            let mut class = vec![cmp.left.clone(), cmp.right.clone()];
            let has =
                |class: &Vec<Expr>, e: &Expr| class.iter().any(|o| o.as_column() == e.as_column());
            let (joined, apart): (Vec<_>, Vec<_>) = std::mem::take(&mut classes)
                .into_iter()
                .partition(|c| class.iter().any(|e| has(c, e)));
            classes = apart;
            for e in joined.into_iter().flatten() {
                if !has(&class, &e) {
                    class.push(e);
                }
            }
            classes.push(class);
        }
        let mut equalities = Self::default();
        for (nth, class) in classes.iter().enumerate().filter(|(_, c)| c.len() > 2) {
            let slots = class.iter().filter_map(Expr::as_column);
            equalities.class_of.extend(slots.map(|slot| (slot, nth)));
            for (at, a) in class.iter().enumerate() {
                for b in &class[at + 1..] {
                    if !conds.iter().any(|c| equates(c, a, b)) {
                        conds.push(equality(a, b));
                    }
                }
            }
        }
        equalities
    }

    /// Conditions that are evaluated when a unit is joined to tables that are there: of those that make one column of
    /// the unit equal to columns of one class, which are equal to each other already, the first.
    pub fn enough(&self, mut conds: Vec<Expr>, unit: TableSet, map: &SlotMap) -> Vec<Expr> {
        let mut tied: Vec<(u32, usize)> = Vec::new();
        conds.retain(|cond| {
            let Some(cmp) = equal_integers(cond) else {
                return true;
            };
            let is_own = |e: &Expr| map.tables_of(e) & unit != 0;
            let own = match (is_own(&cmp.left), is_own(&cmp.right)) {
                (true, false) => &cmp.left,
                (false, true) => &cmp.right,
                _ => return true,
            };
            let slot = own.as_column();
            let Some((slot, class)) = slot.and_then(|s| Some((s, *self.class_of.get(&s)?))) else {
                return true;
            };
            let is_first = !tied.contains(&(slot, class));
            tied.push((slot, class));
            is_first
        });
        conds
    }
}

/// An equality of two columns of integers.
fn equal_integers(cond: &Expr) -> Option<&Cmp> {
    let ExprKind::Cmp(cmp) = &cond.kind else {
        return None;
    };
    let are_integers = cmp.left.ty.is_integer() && cmp.right.ty.is_integer();
    equated_slots(cond).filter(|_| are_integers).map(|_| &**cmp)
}

fn equates(cond: &Expr, a: &Expr, b: &Expr) -> bool {
    let (a, b) = (a.as_column(), b.as_column());
    equated_slots(cond)
        .is_some_and(|(l, r)| (Some(l), Some(r)) == (a, b) || (Some(l), Some(r)) == (b, a))
}

fn equality(a: &Expr, b: &Expr) -> Expr {
    let nullable = a.ty.nullable || b.ty.nullable;
    let cmp = Cmp {
        op: crate::expr::CmpOp::Eq,
        left: a.clone(),
        right: b.clone(),
        kind: esker_types::cmp::CmpKind::Int,
    };
    Expr::condition(ExprKind::Cmp(Box::new(cmp)), nullable)
}
