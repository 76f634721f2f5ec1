//! Generic plans, as good for other values of their parameters: every table is read by the key that nothing but the
//! statement's shape decides about.
//!
//! Neighbours: the session binds a statement with the types of its parameters, asks here, and keeps the plan.
//! **Invariants**
//! - No estimate could have led to another plan worth having: each table has one row for a unique key; all but one,
//!   whose index has all of the conditions or is the only one that could have been used.
//! - A parameter is compared with a column in the column's own domain, and stands nowhere else but in LIMIT: neither
//!   the result's columns nor what is warned about depend on it.

use std::sync::Arc;

use esker_sql_catalog::catalog::TableDef;
use esker_types::{SqlType, TypeKind};

use super::{AccessKind, JoinMethod, Node, QueryPlan, Root, ScanPlan, Source, Strategy};
use crate::expr::{Expr, ExprKind};

/// The tables of a plan, as far as it has been walked.
#[derive(Default)]
struct Walk {
    tables: Vec<Arc<TableDef>>,
    /// Tables of which several rows may be read.
    several: usize,
}

impl QueryPlan {
    /// The tables it reads, if the plan is good for all values of the types it was made for.
    pub fn keyed_tables(&self) -> Option<Vec<Arc<TableDef>>> {
        let Root::Block(block) = &self.root else {
            return None;
        };
        let is_plain = block.windows.is_none()
            && !block.calc_found_rows
            && matches!(block.strategy, Strategy::Serial)
            && !self.blocks
            && self.calls.is_none();
        if !is_plain {
            return None;
        }
        let mut walk = Walk::default();
        if !walk.node(&block.source) || walk.several > 1 {
            return None;
        }
        let mut are_kept = true;
        block.each_expr(&mut |e| are_kept &= is_kept(e));
        are_kept.then_some(walk.tables)
    }
}

impl Walk {
    /// Whether all tables below are read by their keys.
    fn node(&mut self, node: &Node) -> bool {
        match node {
            Node::Once | Node::Nothing(_) => false,
            Node::Filter(input, _) => self.node(input),
            Node::Join(join) => {
                matches!(join.method, JoinMethod::Nested)
                    && self.node(&join.left)
                    && self.node(&join.right)
            }
            Node::Scan(scan) => self.scan(scan),
        }
    }

    fn scan(&mut self, scan: &ScanPlan) -> bool {
        let Source::Base {
            def,
            access,
            candidates,
        } = &scan.source
        else {
            return false;
        };
        let (operands, is_best) = match &access.kind {
            AccessKind::Point(operands) => (operands, true),
            AccessKind::Ref(operands) => {
                let has_all = operands.len() == scan.conds.len();
                (operands, has_all || candidates.len() == 1)
            }
            AccessKind::Full
            | AccessKind::Ranges(_)
            | AccessKind::Match(_)
            | AccessKind::Elements(_)
            | AccessKind::Skip(_)
            | AccessKind::Union(_) => return false,
        };
        self.several += usize::from(matches!(access.kind, AccessKind::Ref(_)));
        self.tables.push(def.clone());
        let parts = &def.indexes[access.index].parts;
        is_best
            && parts.iter().zip(operands).all(|(part, operand)| {
                let e = &operand.expr;
                match e.kind {
                    ExprKind::Param(_) => is_same_kind(&def.columns[part.col].ty, &e.ty),
                    _ => is_kept(e),
                }
            })
    }
}

/// Has an expression no parameter but beside columns of its kind, and no subquery?
fn is_kept(e: &Expr) -> bool {
    match &e.kind {
        ExprKind::Param(_) | ExprKind::Subquery(_) => false,
        ExprKind::Cmp(cmp) => match (&cmp.left.kind, &cmp.right.kind) {
            (ExprKind::Column(_), ExprKind::Param(_))
            | (ExprKind::Param(_), ExprKind::Column(_)) => {
                is_same_kind(&cmp.left.ty, &cmp.right.ty)
            }
            _ => is_kept(&cmp.left) && is_kept(&cmp.right),
        },
        _ => e.children().into_iter().all(is_kept),
    }
}

/// Are both compared as they are, whatever their lengths?
fn is_same_kind(a: &SqlType, b: &SqlType) -> bool {
    let is_number = |ty: &SqlType| ty.is_integer() && ty.kind != TypeKind::Year;
    (is_number(a) && is_number(b)) || (a.is_string() && b.is_string())
}
