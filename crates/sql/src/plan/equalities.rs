//! What follows from columns that are equal: of `a = b AND b = c` also `a = c`, so that tables can be joined in more
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
    /// Adds to conjuncts the equalities of columns of different tables that follow from them.
    pub fn complete(conds: &mut Vec<Expr>, map: &SlotMap) -> Self {
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
                    let is_new = !conds.iter().any(|c| equates(c, a, b));
                    if is_new && map.tables_of(a) != map.tables_of(b) {
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

#[cfg(test)]
mod tests {
    use crate::exec::testing::Rig;
    use crate::plan::{JoinMethod, JoinPlan, Node, Root};

    fn rig() -> Rig {
        let mut rig = Rig::new(&[
            "CREATE TABLE a (i INT, s VARCHAR(10) COLLATE utf8mb4_general_ci)",
            "CREATE TABLE b (i BIGINT UNSIGNED, s VARCHAR(10) COLLATE utf8mb4_general_ci)",
            "CREATE TABLE c (i SMALLINT, s VARCHAR(10) COLLATE utf8mb4_general_ci, j INT)",
        ]);
        for n in 0..30 {
            for (table, of) in [("a (i, s)", 7), ("b (i, s)", 5), ("c (i, s)", 11)] {
                let i = if n % of == 0 {
                    "NULL".to_owned()
                } else {
                    (n % of).to_string()
                };
                rig.bench
                    .ok(&format!("INSERT INTO {table} VALUES ({i}, 's{}')", n % of));
            }
        }
        rig
    }

    /// Numbers of hash keys of the joins, the last join first; 0 for a join of each row with each.
    fn keys(rig: &Rig, sql: &str) -> Vec<usize> {
        fn collect(node: &Node, found: &mut Vec<usize>) {
            match node {
                Node::Join(join) => {
                    let JoinPlan { left, method, .. } = &**join;
                    found.push(match method {
                        JoinMethod::Hash { right, .. } => right.len(),
                        _ => 0,
                    });
                    collect(left, found);
                }
                Node::Filter(input, _) => collect(input, found),
                _ => {}
            }
        }
        let plan = rig.plan(sql, &[]).unwrap();
        let Root::Block(block) = &plan.root else {
            panic!("{sql} is one block")
        };
        let mut found = Vec::new();
        collect(&block.source, &mut found);
        found
    }

    #[test]
    fn tables_are_joined_by_what_follows_and_each_column_once() {
        let rig = rig();
        let select = "SELECT STRAIGHT_JOIN COUNT(*), SUM(a.i), SUM(b.i), SUM(c.i) FROM";
        let equal = "a.i = b.i AND b.i = c.i";
        let all = rig.rows(&format!("{select} a, b, c WHERE {equal}"));
        assert_ne!(all, ["0,NULL,NULL,NULL"]);
        for order in ["a, c, b", "c, a, b", "b, c, a", "c, b, a"] {
            let sql = format!("{select} {order} WHERE {equal}");
            assert_eq!(keys(&rig, &sql), [1, 1], "{sql}");
            assert_eq!(rig.rows(&sql), all, "{sql}");
        }
    }

    #[test]
    fn strings_and_other_comparisons_imply_nothing() {
        let rig = rig();
        for cond in [
            "a.s = b.s AND b.s = c.s",
            "a.i <=> b.i AND b.i <=> c.i",
            "a.i = b.i AND b.i < c.i",
        ] {
            let sql = format!("SELECT STRAIGHT_JOIN COUNT(*) FROM a, c, b WHERE {cond}");
            assert_eq!(keys(&rig, &sql)[1], 0, "{sql}");
        }
        // A row that an outer join makes up has no equals.
        let sql =
            "SELECT COUNT(*), COUNT(c.i) FROM a LEFT JOIN b ON a.i = b.i LEFT JOIN c ON b.i = c.i";
        let nested = "SELECT COUNT(*), COUNT(c.i) FROM a LEFT JOIN (b LEFT JOIN c ON b.i = c.i) ON a.i = b.i";
        assert_eq!(rig.rows(sql), rig.rows(nested));
    }
}
