//! Walking expressions: what an expression consists of, for passes that rewrite trees.
//!
//! Neighbours: `expr` has the nodes; views are brought into their canonical form with this.
//! **Invariant**: every expression, column and query directly below a node is named once, in source order.

use super::{
    Call, ColumnRef, Expr, FrameBound, JsonFallback, JsonValue, OrderItem, Over, Query, WindowSpec,
};

/// Something directly below an expression.
pub enum PartMut<'e> {
    /// An expression.
    Expr(&'e mut Expr),
    /// A column that is no expression of its own.
    Column(&'e mut ColumnRef),
    /// A subquery.
    Query(&'e mut Query),
}

impl Expr {
    /// What is directly below the expression.
    pub fn parts_mut(&mut self) -> Vec<PartMut<'_>> {
        let mut parts = Vec::new();
        match self {
            Self::Literal(_) | Self::Param(_) | Self::UserVar(_) | Self::SysVar(_) => {}
            Self::Default(None) => {}
            Self::Column(column) | Self::Default(Some(column)) | Self::Values(column) => {
                parts.push(PartMut::Column(column));
            }
            Self::JsonArrow { column, .. } => parts.push(PartMut::Column(column)),
            Self::Assign { value: e, .. }
            | Self::Unary { expr: e, .. }
            | Self::Not(e)
            | Self::Is { expr: e, .. }
            | Self::Cast { expr: e, .. }
            | Self::Collate { expr: e, .. } => parts.push(PartMut::Expr(e)),
            Self::Binary {
                left: a, right: b, ..
            }
            | Self::Xor(a, b)
            | Self::Regexp {
                expr: a,
                pattern: b,
                ..
            }
            | Self::MemberOf { expr: a, array: b } => {
                parts.extend([PartMut::Expr(a), PartMut::Expr(b)]);
            }
            Self::And(all) | Self::Or(all) | Self::Row(all) => exprs(&mut parts, all),
            Self::Like {
                expr,
                pattern,
                escape,
                ..
            } => {
                parts.extend([PartMut::Expr(expr), PartMut::Expr(pattern)]);
                parts.extend(escape.iter_mut().map(|e| PartMut::Expr(e)));
            }
            Self::Between {
                expr, low, high, ..
            } => parts.extend([expr, low, high].map(|e| PartMut::Expr(e))),
            Self::InList { expr, list, .. } => {
                parts.push(PartMut::Expr(expr));
                exprs(&mut parts, list);
            }
            Self::InSubquery { expr, query, .. } | Self::Quantified { expr, query, .. } => {
                parts.extend([PartMut::Expr(expr), PartMut::Query(query)]);
            }
            Self::Exists(query) | Self::Subquery(query) => parts.push(PartMut::Query(query)),
            Self::Case {
                operand,
                whens,
                otherwise,
            } => {
                parts.extend(operand.iter_mut().map(|e| PartMut::Expr(e)));
                for (when, then) in whens {
                    parts.extend([PartMut::Expr(when), PartMut::Expr(then)]);
                }
                parts.extend(otherwise.iter_mut().map(|e| PartMut::Expr(e)));
            }
            Self::Call(call) => call_parts(&mut parts, call),
            Self::Match {
                columns, against, ..
            } => {
                parts.extend(columns.iter_mut().map(PartMut::Column));
                parts.push(PartMut::Expr(against));
            }
            Self::JsonValue(value) => json_value_parts(&mut parts, value),
        }
        parts
    }
}

fn exprs<'e>(parts: &mut Vec<PartMut<'e>>, all: &'e mut [Expr]) {
    parts.extend(all.iter_mut().map(PartMut::Expr));
}

fn json_value_parts<'e>(parts: &mut Vec<PartMut<'e>>, value: &'e mut JsonValue) {
    parts.push(PartMut::Expr(&mut value.doc));
    for fallback in [&mut value.on_empty, &mut value.on_error] {
        if let Some(JsonFallback::Default(e)) = fallback {
            parts.push(PartMut::Expr(e));
        }
    }
}

fn call_parts<'e>(parts: &mut Vec<PartMut<'e>>, call: &'e mut Call) {
    exprs(parts, &mut call.args);
    order(parts, &mut call.order_by);
    if let Some(Over::Spec(window)) = &mut call.over {
        parts.extend(window.exprs_mut().into_iter().map(PartMut::Expr));
    }
}

fn order<'e>(parts: &mut Vec<PartMut<'e>>, items: &'e mut [OrderItem]) {
    parts.extend(items.iter_mut().map(|item| PartMut::Expr(&mut item.expr)));
}

impl WindowSpec {
    /// What the window is made of.
    pub fn exprs_mut(&mut self) -> Vec<&mut Expr> {
        let mut all: Vec<&mut Expr> = self.partition_by.iter_mut().collect();
        all.extend(self.order_by.iter_mut().map(|item| &mut item.expr));
        if let Some(frame) = &mut self.frame {
            for bound in [&mut frame.start, &mut frame.end] {
                if let FrameBound::Preceding(e, _) | FrameBound::Following(e, _) = bound {
                    all.push(e);
                }
            }
        }
        all
    }
}
