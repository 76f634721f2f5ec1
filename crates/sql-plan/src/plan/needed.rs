//! Column pruning: which columns of joined rows are still read. Joins keep no others beside a row, in hash tables, in
//! buffers and on disk.
//!
//! Neighbours: `block` asks when the whole block is planned; `exec::join` keeps what is left. **Invariant**: a slot
//! that an expression reads after a join is among the join's slots, if one of its tables fills it.

use std::collections::HashSet;
use std::sync::Arc;

use super::{BlockPlan, JoinMethod, Node, Source};
use crate::expr::Expr;

/// Slots that are read.
type Slots = HashSet<u32>;

/// Takes from the joins of a block what nobody reads after them.
pub(super) fn prune(block: &mut BlockPlan) {
    // Windows keep rows of their own.
    if block.windows.is_some() {
        return;
    }
    let mut needed = Slots::new();
    if let Some(group) = &block.group {
        needed.extend(&group.kept);
        read(&group.keys, &mut needed);
        for agg in &group.aggs {
            read(&agg.args, &mut needed);
            read(agg.order.iter().map(|key| &key.expr), &mut needed);
        }
    }
    read(block.output.iter().chain(&block.having), &mut needed);
    read(block.order.iter().map(|key| &key.expr), &mut needed);
    keep(&mut block.source, needed);
}

fn read<'e>(exprs: impl IntoIterator<Item = &'e Expr>, slots: &mut Slots) {
    for expr in exprs {
        expr.slots(&mut |slot| {
            slots.insert(slot);
        });
    }
}

/// The same below a node, of whose rows these slots are read.
fn keep(node: &mut Node, mut needed: Slots) {
    match node {
        Node::Once | Node::Nothing(_) | Node::Scan(_) => {}
        Node::Filter(input, conds) => {
            read(&*conds, &mut needed);
            keep(input, needed);
        }
        Node::Join(join) => {
            read(&join.on, &mut needed);
            join.left_slots.retain(|slot| needed.contains(slot));
            join.right_slots.retain(|slot| needed.contains(slot));
            if let JoinMethod::Hash { left, right, .. } = &join.method {
                read(left.iter().chain(right), &mut needed);
            }
            // What the right side reads of the left one.
            read_below(&join.right, &mut needed);
            keep(&mut join.left, needed.clone());
            if let Some(right) = Arc::get_mut(&mut join.right) {
                keep(right, needed);
            }
        }
    }
}

/// Everything that a node's operators read.
fn read_below(node: &Node, slots: &mut Slots) {
    match node {
        Node::Once | Node::Nothing(_) => {}
        Node::Filter(input, conds) => {
            read(conds, slots);
            read_below(input, slots);
        }
        Node::Join(join) => {
            read(&join.on, slots);
            if let JoinMethod::Hash { left, right, .. } = &join.method {
                read(left.iter().chain(right), slots);
            }
            read_below(&join.left, slots);
            read_below(&join.right, slots);
        }
        Node::Scan(scan) => {
            // Ways to find rows are made of conditions.
            read(&scan.conds, slots);
            if let Source::Json(table) = &scan.source {
                read([&table.doc], slots);
            }
            if let Source::Derived(plan) | Source::Shared(_, plan) = &scan.source
                && scan.lateral
            {
                plan.outer_slots(1, &mut |slot| {
                    slots.insert(slot);
                });
            }
        }
    }
}
