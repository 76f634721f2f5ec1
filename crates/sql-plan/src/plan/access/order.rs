//! In which order an access path gives rows: whether it saves the sort of an ORDER BY.
//!
//! Neighbours: the parent makes the paths; `block` asks.
//! **Invariant**: columns that a condition pins to one value do not count, and entries with equal parts follow each
//! other by clustered key.

use esker_sql_syntax::ast::IndexHintScope;
use esker_types::TypeKind;

use super::super::AccessKind;
use super::super::edge::{tells_apart, usable};
use super::{Path, Target};
use crate::bind::{BindEnv, OrderKey};
use crate::expr::{CmpOp, Expr, ExprKind, Test};

impl Target<'_> {
    /// Does the path give rows in this order? `Some(true)` when read backwards.
    pub(in crate::plan) fn order_of(
        &self,
        path: &Path,
        order: &[OrderKey],
        conds: &[Expr],
    ) -> Option<bool> {
        match path.access.kind {
            AccessKind::Point(_) => return Some(false),
            AccessKind::Match(_) | AccessKind::Elements(_) | AccessKind::Union(_) => return None,
            // Taken where an order is not wanted.
            AccessKind::Skip(_) => return None,
            AccessKind::Full | AccessKind::Ref(_) | AccessKind::Ranges(_) => {}
        }
        let index = &self.def.indexes[path.access.index];
        let fixed = |col: usize| conds.iter().any(|c| self.fixes(col, c));
        let mut parts: Vec<(usize, bool)> = Vec::new();
        for part in &index.parts {
            if part.prefix_len.is_some() {
                break;
            }
            parts.push((part.col, part.desc));
        }
        // Entries with equal parts follow each other by clustered key.
        if parts.len() == index.parts.len() && !index.unique {
            let primary = self.def.primary().parts.iter();
            parts.extend(
                primary
                    .take_while(|p| p.prefix_len.is_none())
                    .map(|p| (p.col, p.desc)),
            );
        }
        // A hidden clustered key orders nothing that a user can name; in a join a row of this table
        // may come several times.
        let ends = index.unique && !index.hidden && self.alone;
        let unique_end = ends.then_some(index.parts.len());
        let mut at = 0;
        let mut reverse = None;
        for key in order {
            if key.expr.is_row_independent() {
                continue;
            }
            let col = self.column_of(&key.expr)?;
            if fixed(col) {
                continue;
            }
            while parts.get(at).is_some_and(|(c, _)| *c != col && fixed(*c)) {
                at += 1;
            }
            if unique_end == Some(at) && !parts.iter().any(|(c, _)| self.types[*c].nullable) {
                // All parts of a unique key are spent: no two rows are left to order.
                break;
            }
            let (part, desc) = parts.get(at)?;
            if *part != col || !self.orders_like_index(col) {
                return None;
            }
            let backwards = *desc != key.desc;
            if *reverse.get_or_insert(backwards) != backwards {
                return None;
            }
            at += 1;
        }
        Some(reverse.unwrap_or(false))
    }

    /// Is the column's ORDER BY order its order in keys?
    fn orders_like_index(&self, col: usize) -> bool {
        // Local time repeats an hour when clocks go back; keys are in UTC.
        self.types[col].kind != TypeKind::Timestamp
    }

    /// Does the condition pin the column to one value?
    fn fixes(&self, col: usize, cond: &Expr) -> bool {
        match &cond.kind {
            ExprKind::Cmp(cmp) if matches!(cmp.op, CmpOp::Eq | CmpOp::NullSafeEq) => {
                let sides = [(&cmp.left, &cmp.right), (&cmp.right, &cmp.left)];
                sides.into_iter().any(|(a, b)| {
                    self.column_of(a) == Some(col)
                        && b.is_row_independent()
                        && usable(&self.types[col], b, cmp.kind)
                        && tells_apart(&self.types[col], cmp.kind)
                })
            }
            ExprKind::Is {
                arg,
                test: Test::Null,
                negated: false,
            } => self.column_of(arg) == Some(col),
            _ => false,
        }
    }

    /// Paths that give rows in this order, the table read through an index in it.
    pub(in crate::plan) fn ordered_paths(
        &self,
        env: &BindEnv<'_>,
        order: &[OrderKey],
        conds: &[Expr],
        known: &dyn Fn(&Expr) -> bool,
    ) -> Vec<Path> {
        let candidates = self.candidates(IndexHintScope::OrderBy).into_iter();
        let paths = candidates.flat_map(|(nth, _)| self.both_paths(env, nth, conds, known));
        paths
            .filter_map(|path| {
                let reverse = self.order_of(&path, order, conds)?;
                Some(path.in_order(reverse))
            })
            .collect()
    }

    /// Paths that give rows with equal keys together, and in the order of `leading`, which are some of the keys; with
    /// each the rows of a group.
    pub(in crate::plan) fn grouping_paths(
        &self,
        env: &BindEnv<'_>,
        (leading, keys): (&[OrderKey], &[Expr]),
        conds: &[Expr],
        known: &dyn Fn(&Expr) -> bool,
    ) -> Vec<(Path, f64)> {
        let mut found = Vec::new();
        for (nth, _) in self.candidates(IndexHintScope::GroupBy) {
            let Some((_, parts)) = self.in_index_order(nth, keys) else {
                continue;
            };
            for path in self.both_paths(env, nth, conds, known) {
                if let Some(reverse) = self.groups_together(&path, (leading, keys), conds) {
                    let rows = self.rows_per_group(env, nth, parts);
                    found.push((path.in_order(reverse), rows));
                }
            }
        }
        found
    }

    /// Does the path give rows with equal keys together, and in the order of `leading`, which are some of the keys?
    /// `Some(true)` when read backwards.
    pub(in crate::plan) fn groups_together(
        &self,
        path: &Path,
        (leading, keys): (&[OrderKey], &[Expr]),
        conds: &[Expr],
    ) -> Option<bool> {
        let index = path.access.index;
        let (sequence, _) = self.in_index_order(index, keys)?;
        let reverse = self.order_of(path, leading, conds)?;
        let parts = &self.def.indexes[index].parts;
        let further = sequence.iter().map(|(part, key)| OrderKey {
            expr: (*key).clone(),
            desc: parts.get(*part).is_some_and(|p| p.desc) != reverse,
        });
        let order: Vec<OrderKey> = leading.iter().cloned().chain(further).collect();
        let is_in_order = self.order_of(path, &distinct(order), conds) == Some(reverse);
        is_in_order.then_some(reverse)
    }

    /// Keys in the order of an index's parts, and how many leading parts they reach over; `None` if one is no column.
    fn in_index_order<'e>(
        &self,
        nth: usize,
        keys: &'e [Expr],
    ) -> Option<(Vec<(usize, &'e Expr)>, usize)> {
        let parts = &self.def.indexes[nth].parts;
        let mut placed = Vec::with_capacity(keys.len());
        for key in keys {
            let col = self.column_of(key)?;
            let part = parts.iter().position(|part| part.col == col);
            placed.push((part.unwrap_or(parts.len()), key));
        }
        placed.sort_by_key(|(part, _)| *part);
        let within = placed.iter().filter(|(part, _)| *part < parts.len());
        let reach = within.map(|(part, _)| part + 1).max()?;
        Some((placed, reach))
    }

    /// Reading the part of an index that the conditions ask for, and all of it.
    fn both_paths(
        &self,
        env: &BindEnv<'_>,
        nth: usize,
        conds: &[Expr],
        known: &dyn Fn(&Expr) -> bool,
    ) -> impl Iterator<Item = Path> {
        let keyed = self.keyed(env, nth, conds, known);
        let full = match keyed {
            // Its ranges say more of the conditions than their form does.
            Some(_) => self.full(nth),
            None => self.judged_early(self.full(nth), conds),
        };
        keyed.into_iter().chain([full])
    }
}

impl Path {
    /// The path, taken for the order of its rows.
    fn in_order(mut self, reverse: bool) -> Self {
        self.access.reverse = reverse;
        self.access.for_order = true;
        self
    }
}

/// Sort keys without those that an earlier one decides.
fn distinct(order: Vec<OrderKey>) -> Vec<OrderKey> {
    let mut kept: Vec<OrderKey> = Vec::with_capacity(order.len());
    for key in order {
        let is_known = |k: &OrderKey| k.expr.as_column() == key.expr.as_column();
        if !kept.iter().any(is_known) {
            kept.push(key);
        }
    }
    kept
}
