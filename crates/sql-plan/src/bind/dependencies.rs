//! Functional dependencies: which columns of a block's rows have one value where others have one.
//!
//! ONLY_FULL_GROUP_BY asks. The rules are MySQL's ("Detection of Functional Dependence" in its manual; the theory is in
//! H. Darwen, "The Role of Functional Dependence in Query Decomposition"): a unique key determines its row, an equality
//! in WHERE or in the ON of an inner join its other side, what a generated column is computed from that column, the ON
//! of an outer join what it sets equal in the optional table, and the columns of a derived table or view what their
//! expressions determine.
//!
//! Dependencies are rules between nodes ("if all of these are known, so are those"), and what is known is their
//! closure. A node is a slot of the block's row or of a derived table's, the row of a table, or the *presence* of the
//! optional side of an outer join: whether it has a row, or is complemented with NULL.
//! Neighbours: `group` asks for the closure of the grouping keys.
//! **Invariant**: where a side may be complemented, nothing is known of it before its presence is.

use std::collections::HashSet;

use super::BindEnv;
use super::block::{Block, Body, GroupBy, JoinNode, JoinType};
use super::computed::computations;
use super::scope::{ScopeTable, TableKind};
use crate::expr::{Cmp, CmpOp, Expr, ExprKind, SubqueryForm, Test, fold};

/// Where rows come from before grouping.
#[derive(Clone, Copy)]
pub(super) struct Source<'a> {
    pub tables: &'a [ScopeTable],
    pub join: Option<&'a JoinNode>,
    pub filter: Option<&'a Expr>,
}

impl<'a> Source<'a> {
    fn of(block: &'a Block) -> Self {
        Self {
            tables: &block.tables,
            join: block.join.as_ref(),
            filter: block.filter.as_ref(),
        }
    }
}

/// The slots among `0..width` that have one value in all rows in which those of `known` have one.
pub(super) fn determined(
    env: &BindEnv<'_>,
    source: Source<'_>,
    width: u32,
    known: HashSet<u32>,
) -> HashSet<u32> {
    let mut rules = Rules {
        env,
        rules: Vec::new(),
        next: width,
    };
    let top = Frame {
        base: 0,
        lateral: None,
        is_lateral: false,
    };
    rules.add_block(source, top);
    rules.close(known)
}

type Node = u32;

struct Rule {
    from: Vec<Node>,
    to: Vec<Node>,
}

/// Where the slots of a block are.
#[derive(Clone, Copy)]
struct Frame {
    /// The node of slot 0.
    base: Node,
    /// The node of slot 0 of the block whose rows a LATERAL table sees.
    lateral: Option<Node>,
    /// It is, or is inside of, a LATERAL table: rows of enclosing blocks are no constants.
    is_lateral: bool,
}

impl Frame {
    fn node(self, slot: u32) -> Node {
        self.base + slot
    }
}

/// The optional side of an outer join.
struct Optional {
    presence: Node,
    slots: HashSet<u32>,
}

struct Rules<'e> {
    env: &'e BindEnv<'e>,
    rules: Vec<Rule>,
    next: Node,
}

impl Rules<'_> {
    fn fresh(&mut self, count: u32) -> Node {
        let first = self.next;
        self.next += count;
        first
    }

    fn add(&mut self, from: impl IntoIterator<Item = Node>, to: impl IntoIterator<Item = Node>) {
        self.rules.push(Rule {
            from: from.into_iter().collect(),
            to: to.into_iter().collect(),
        });
    }

    fn close(&self, mut known: HashSet<Node>) -> HashSet<Node> {
        loop {
            let before = known.len();
            for rule in &self.rules {
                if rule.from.iter().all(|node| known.contains(node)) {
                    known.extend(&rule.to);
                }
            }
            if known.len() == before {
                return known;
            }
        }
    }

    /// The dependencies of a block before grouping; the node of its row.
    fn add_block(&mut self, source: Source<'_>, frame: Frame) -> Node {
        let row = self.fresh(1);
        let first = self.fresh(source.tables.len() as u32);
        let rows = first..self.next;
        self.add(rows.clone(), [row]);
        self.add([row], rows);
        // Not NULL, or of a side that is complemented.
        let mut not_null = HashSet::new();
        if let Some(filter) = source.filter {
            self.add_facts(filter, frame, None);
            collect_not_null(filter, &mut not_null);
        }
        let mut presences = vec![None; source.tables.len()];
        if let Some(join) = source.join {
            self.add_join(join, source.tables, frame, None, &mut presences);
            collect_present(join, source.tables, &mut not_null);
        }
        for (nth, table) in source.tables.iter().enumerate() {
            let row = first + nth as u32;
            self.add_table(table, frame, row, presences[nth], &not_null);
        }
        // A stored expression that cannot be read determines nothing.
        for column in computations(self.env, source.tables).unwrap_or_default() {
            let from = column.from.iter().map(|slot| frame.node(*slot));
            self.add(
                from.chain(presences[column.table]),
                [frame.node(column.slot)],
            );
        }
        row
    }

    /// The dependencies of ON conditions below `join`, itself on the side `optional` of the innermost outer join.
    fn add_join(
        &mut self,
        join: &JoinNode,
        tables: &[ScopeTable],
        frame: Frame,
        optional: Option<&Optional>,
        presences: &mut [Option<Node>],
    ) {
        let JoinNode::Join {
            left,
            right,
            kind,
            on,
        } = join
        else {
            if let JoinNode::Table(nth) = join {
                presences[*nth] = optional.map(|o| o.presence);
            }
            return;
        };
        self.add_join(left, tables, frame, optional, presences);
        if *kind != JoinType::Left {
            if let Some(on) = on {
                self.add_facts(on, frame, optional);
            }
            self.add_join(right, tables, frame, optional, presences);
            return;
        }
        let inner = Optional {
            presence: self.fresh(1),
            slots: slots_below(right, tables),
        };
        self.add([inner.presence], optional.map(|o| o.presence));
        match on {
            Some(on) if is_function(on) => {
                // Whether a row of the left side finds some on the right depends on what ON reads of it.
                let mut from: Vec<Node> = optional.iter().map(|o| o.presence).collect();
                on.slots(&mut |slot| {
                    if !inner.slots.contains(&slot) {
                        from.push(frame.node(slot));
                    }
                });
                self.add(from, [inner.presence]);
                self.add_facts(on, frame, Some(&inner));
            }
            _ => {}
        }
        self.add_join(right, tables, frame, Some(&inner), presences);
    }

    /// What `column = constant`, `column = column` and `column IS NULL` say, of the columns of `optional` only if there
    /// is one.
    fn add_facts(&mut self, cond: &Expr, frame: Frame, optional: Option<&Optional>) {
        match &cond.kind {
            ExprKind::And(conds) => {
                for cond in conds {
                    self.add_facts(cond, frame, optional);
                }
            }
            ExprKind::Cmp(cmp) if matches!(cmp.op, CmpOp::Eq | CmpOp::NullSafeEq) => {
                self.add_equality(cmp, &cmp.left, &cmp.right, frame, optional);
                self.add_equality(cmp, &cmp.right, &cmp.left, frame, optional);
            }
            ExprKind::Is {
                arg,
                test: Test::Null,
                negated: false,
            } => {
                if let Some(slot) = arg.as_column().filter(|s| concerns(optional, *s)) {
                    self.add(optional.map(|o| o.presence), [frame.node(slot)]);
                }
            }
            _ => {}
        }
    }

    /// What an equality says of its side `column`.
    fn add_equality(
        &mut self,
        cmp: &Cmp,
        column: &Expr,
        other: &Expr,
        frame: Frame,
        optional: Option<&Optional>,
    ) {
        let Some(slot) = column.as_column().filter(|s| concerns(optional, *s)) else {
            return;
        };
        let presence = optional.map(|o| o.presence);
        if cmp.op == CmpOp::Eq {
            // It is NULL only where the side is complemented.
            self.add([frame.node(slot)], presence);
        }
        let from = match (&other.kind, frame.lateral) {
            (ExprKind::Column(other), _) => Some(frame.node(*other)),
            (ExprKind::Outer { depth: 1, slot }, Some(base)) => Some(base + slot),
            _ if other.is_row_independent() && (!frame.is_lateral || !reads_outer(other)) => None,
            _ => return,
        };
        self.add(from.into_iter().chain(presence), [frame.node(slot)]);
    }

    fn add_table(
        &mut self,
        table: &ScopeTable,
        frame: Frame,
        row: Node,
        presence: Option<Node>,
        not_null: &HashSet<u32>,
    ) {
        let slots = table.slots.borrow();
        let used = slots.iter().flatten().map(|slot| frame.node(*slot));
        self.add([row], used.chain(presence));
        match &table.kind {
            TableKind::Base(def) => {
                let is_set = |col: usize| match slots[col] {
                    Some(slot) => !def.columns[col].ty.nullable || not_null.contains(&slot),
                    None => false,
                };
                for index in def.visible_indexes().iter().filter(|i| i.unique) {
                    let parts = &index.parts;
                    if parts
                        .iter()
                        .all(|p| p.prefix_len.is_none() && is_set(p.col))
                    {
                        let key = parts.iter().filter_map(|p| slots[p.col]);
                        self.add(key.map(|slot| frame.node(slot)), [row]);
                    }
                }
                for (slot, column) in slots.iter().zip(&def.columns) {
                    if let (Some(slot), false) = (slot, column.ty.nullable) {
                        self.add([frame.node(*slot)], presence);
                    }
                }
            }
            TableKind::Derived(query) => {
                if let Body::Block(block) = &query.body {
                    let inner = Frame {
                        base: self.fresh(block.width),
                        lateral: table.lateral.then_some(frame.base),
                        is_lateral: frame.is_lateral || table.lateral,
                    };
                    let outputs = slots.iter().map(|s| s.map(|slot| frame.node(slot)));
                    self.add_derived(block, inner, row, presence, outputs);
                }
            }
            _ => {}
        }
    }

    /// The dependencies of a derived table, whose columns are the nodes `outputs`.
    fn add_derived(
        &mut self,
        block: &Block,
        inner: Frame,
        row: Node,
        presence: Option<Node>,
        outputs: impl Iterator<Item = Option<Node>>,
    ) {
        let mut inner_row = self.add_block(Source::of(block), inner);
        match &block.group {
            // In the rows of sums nothing holds that held before.
            Some(group) if group.rollup.is_some() => return,
            Some(group) => inner_row = self.add_group(group, block.width, inner),
            None => {}
        }
        self.add(presence.into_iter().chain([inner_row]), [row]);
        self.add([row], [inner_row]);
        for (e, output) in block.output.iter().zip(outputs) {
            let Some(output) = output else {
                continue;
            };
            if is_function(e) {
                let mut from: Vec<Node> = presence.into_iter().collect();
                e.slots(&mut |slot| from.push(inner.node(slot)));
                self.add(from, [output]);
            }
            if presence.is_none() || !e.ty.nullable {
                let column = e.as_column().map(|slot| inner.node(slot));
                self.add([output], column.into_iter().chain(presence));
            }
        }
    }

    /// The keys of a grouping determine its row; the node of that.
    fn add_group(&mut self, group: &GroupBy, width: u32, frame: Frame) -> Node {
        let row = self.fresh(1);
        let first = frame.node(group.key_base);
        self.add(first..first + group.keys.len() as u32, [row]);
        self.add([row], frame.base..frame.base + width);
        for (nth, key) in group.keys.iter().enumerate() {
            let node = first + nth as u32;
            if let Some(slot) = key.as_column() {
                self.add([node], [frame.node(slot)]);
            }
            if is_function(key) {
                let mut from = Vec::new();
                key.slots(&mut |slot| from.push(frame.node(slot)));
                self.add(from, [node]);
            }
        }
        row
    }
}

fn concerns(optional: Option<&Optional>, slot: u32) -> bool {
    optional.is_none_or(|o| o.slots.contains(&slot))
}

fn reads_outer(e: &Expr) -> bool {
    let mut reads = false;
    e.visit(&mut |e| reads |= matches!(e.kind, ExprKind::Outer { .. } | ExprKind::Subquery(_)));
    reads
}

/// Is the value a function of the slots that the expression reads, and of nothing else?
fn is_function(e: &Expr) -> bool {
    let mut is_one = true;
    e.visit(&mut |e| {
        is_one &= match &e.kind {
            ExprKind::Aggregate(_)
            | ExprKind::Window(_)
            | ExprKind::Key(_)
            | ExprKind::Assign(..)
            | ExprKind::UserVar(_)
            | ExprKind::SeededRand(..)
            | ExprKind::Grouping(_)
            | ExprKind::Outer { .. }
            | ExprKind::Subquery(_) => false,
            ExprKind::Func(call) => fold::is_pure(call.def),
            ExprKind::Stored(call) => !call.is_volatile(),
            _ => true,
        }
    });
    is_one
}

/// Slots of all tables of a join.
fn slots_below(join: &JoinNode, tables: &[ScopeTable]) -> HashSet<u32> {
    match join {
        JoinNode::Table(nth) => tables[*nth].used_slots().into_iter().collect(),
        JoinNode::Join { left, right, .. } => {
            let mut slots = slots_below(left, tables);
            slots.extend(slots_below(right, tables));
            slots
        }
    }
}

/// Columns that ON does not let be NULL, unless their side is complemented.
fn collect_present(join: &JoinNode, tables: &[ScopeTable], out: &mut HashSet<u32>) {
    let JoinNode::Join {
        left,
        right,
        kind,
        on,
    } = join
    else {
        return;
    };
    collect_present(left, tables, out);
    collect_present(right, tables, out);
    let mut here = HashSet::new();
    on.iter().for_each(|on| collect_not_null(on, &mut here));
    if *kind == JoinType::Left {
        let optional = slots_below(right, tables);
        here.retain(|slot| optional.contains(slot));
    }
    out.extend(here);
}

/// Columns that are not NULL where the condition holds.
fn collect_not_null(cond: &Expr, out: &mut HashSet<u32>) {
    match &cond.kind {
        ExprKind::And(conds) => conds.iter().for_each(|cond| collect_not_null(cond, out)),
        ExprKind::Is { arg, test, negated } if (*test == Test::Null) == *negated => {
            collect_strict(arg, out);
        }
        ExprKind::Subquery(query) => {
            if let SubqueryForm::Compare { left, op, all, .. } = &query.form
                && *op != CmpOp::NullSafeEq
                && !all
            {
                left.iter().for_each(|operand| collect_strict(operand, out));
            }
        }
        _ => collect_strict(cond, out),
    }
}

/// Columns that are not NULL where the expression is not.
fn collect_strict(e: &Expr, out: &mut HashSet<u32>) {
    match &e.kind {
        ExprKind::Column(slot) => _ = out.insert(*slot),
        ExprKind::Cmp(cmp) if cmp.op != CmpOp::NullSafeEq => {
            collect_strict(&cmp.left, out);
            collect_strict(&cmp.right, out);
        }
        ExprKind::Between(between) => collect_strict(&between.arg, out),
        ExprKind::InList(list) => collect_strict(&list.arg, out),
        ExprKind::Like(like) => collect_strict(&like.text, out),
        ExprKind::Arith(arith) => arith.args.iter().for_each(|arg| collect_strict(arg, out)),
        ExprKind::Unary(unary) => collect_strict(&unary.arg, out),
        ExprKind::Not(arg)
        | ExprKind::Cast(arg, _)
        | ExprKind::Convert(arg)
        | ExprKind::Recollate(arg)
        | ExprKind::Number(arg, _) => collect_strict(arg, out),
        _ => {}
    }
}
