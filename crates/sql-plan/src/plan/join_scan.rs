//! Reading one table of a join: by which path, which conditions are tested there and which columns are decoded.
//!
//! Neighbours: `join_order` says which tables are read before it; `access` prices the paths.
//! **Invariant**: a condition stands behind the columns that it reads.

use std::sync::Arc;

use esker_sql_catalog::catalog::TableDef;
use esker_types::SqlResult;

use super::access::{Ascending, Path, Target, cheapest};
use super::block::is_shared;
use super::conds::{TableSet, cheap_first};
use super::join_order::{Joiner, Planned};
use super::{AccessKind, Node, ScanPlan, Source};
use crate::bind::TableKind;
use crate::bind::virt::Pushed;
use crate::expr::{CmpOp, Expr, ExprKind};

impl Joiner<'_> {
    /// Plans the reading of one table.
    pub(super) fn scan(
        &self,
        t: usize,
        mut conds: Vec<Expr>,
        seen: TableSet,
        order: Option<Ascending>,
    ) -> SqlResult<Planned> {
        let table = &self.block.tables[t];
        let lock = self.block.locks[t];
        let estimate = self.table_estimate(t, &conds, seen, order);
        let mut rows_in = estimate.rows;
        cheap_first(&mut conds);
        let mut entry_conds = Vec::new();
        let source = match &table.kind {
            TableKind::Row => return Ok(Planned::one_row(1 << t)),
            TableKind::Base(def) => {
                let (path, candidates) = self.path_in(t, def, &conds, seen, order);
                rows_in = path.rows;
                let target = Target::new(self.block, t, def);
                entry_conds = target.entry_conds(&path, &conds);
                Source::Base {
                    def: def.clone(),
                    access: path.access,
                    candidates,
                }
            }
            TableKind::Virtual(table) => Source::Virtual {
                table: table.clone(),
                pushed: self.pushed(t, &conds),
            },
            TableKind::Derived(query) => {
                let plan = self.derived[t].clone().expect("planned before the joins");
                match is_shared(query) {
                    Some(id) => Source::Shared(id, plan),
                    None => Source::Derived(plan),
                }
            }
            TableKind::Json(table) => Source::Json(table.clone()),
            TableKind::Recursive(table) => Source::Work(table.id),
        };
        let (columns, cond_ends) = self.columns_of(t, &conds);
        let scan = ScanPlan {
            alias: table.alias.clone(),
            source,
            conds,
            entry_conds,
            columns,
            cond_columns: cond_ends.last().copied().unwrap_or(0),
            cond_ends,
            key_slot: table.key_slot,
            row_slot: table.row_slot,
            lateral: table.lateral,
            first_only: false,
            first_of: None,
            lock,
            rows_in,
            rows_out: estimate.rows.min(rows_in),
        };
        let node = Node::Scan(Box::new(scan));
        Ok(Planned {
            node,
            tables: 1 << t,
            rows: estimate.rows,
            cost: estimate.cost,
            ascending: estimate.ascending,
        })
    }

    /// The best way to read a stored table, and the indexes that might serve.
    fn path_in(
        &self,
        t: usize,
        def: &Arc<TableDef>,
        conds: &[Expr],
        seen: TableSet,
        order: Option<Ascending>,
    ) -> (Path, Vec<usize>) {
        let target = Target::new(self.block, t, def).after(order);
        let target = target.remembering(t, &self.counted_ranges);
        let known = |e: &Expr| self.is_known(e, seen);
        let paths = target.paths(self.env, conds, &known);
        let path = self.pinned.get(&t).unwrap_or_else(|| cheapest(&paths));
        let path = path.clone();
        let candidates = paths
            .into_iter()
            .filter(|p| !matches!(p.access.kind, AccessKind::Full))
            .flat_map(|p| p.access.indexes())
            .collect();
        (path, candidates)
    }

    /// Columns to decode, those that conditions read first, and how many of them each condition needs.
    fn columns_of(&self, t: usize, conds: &[Expr]) -> (Vec<(usize, u32)>, Vec<usize>) {
        let slots = self.block.tables[t].slots.borrow();
        let used = slots.iter().enumerate();
        let mut rest: Vec<(usize, u32)> = used.filter_map(|(col, s)| Some((col, (*s)?))).collect();
        let (mut columns, mut cond_ends) = (Vec::with_capacity(rest.len()), Vec::new());
        for cond in conds {
            let mut wanted = std::collections::HashSet::new();
            cond.slots(&mut |slot| {
                wanted.insert(slot);
            });
            let (own, others): (Vec<_>, Vec<_>) =
                rest.into_iter().partition(|(_, s)| wanted.contains(s));
            columns.extend(own);
            cond_ends.push(columns.len());
            rest = others;
        }
        columns.extend(rest);
        (columns, cond_ends)
    }

    /// Conditions `column = text` of a computed table.
    fn pushed(&self, t: usize, conds: &[Expr]) -> Vec<Pushed> {
        let slots = self.block.tables[t].slots.borrow();
        let column = |e: &Expr| {
            let slot = e.as_column()?;
            slots.iter().position(|s| *s == Some(slot))
        };
        let mut pushed = Vec::new();
        for cond in conds {
            let ExprKind::Cmp(cmp) = &cond.kind else {
                continue;
            };
            if cmp.op != CmpOp::Eq {
                continue;
            }
            for (arg, value) in [(&cmp.left, &cmp.right), (&cmp.right, &cmp.left)] {
                let text = match (&value.kind, self.env.describe_only) {
                    (ExprKind::Const(v), _) => Some(v.clone()),
                    (_, false) if value.is_row_independent() && !has_subquery(value) => {
                        value.eval(&[], &self.env.fold_env()).ok()
                    }
                    _ => None,
                };
                if let (Some(column), Some(esker_types::Value::Str(text))) = (column(arg), text) {
                    pushed.push(Pushed {
                        column,
                        value: text,
                    });
                }
            }
        }
        pushed
    }
}

fn has_subquery(e: &Expr) -> bool {
    e.any(&mut |e| matches!(e.kind, ExprKind::Subquery(_) | ExprKind::Outer { .. }))
}
