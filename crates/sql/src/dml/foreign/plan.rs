//! Which tables stand around those that a statement changes, and how foreign keys tie them together.
//!
//! Neighbours: `dml`'s statements build a plan when they are compiled; [`super::enforce`] walks it; the session locks
//! [`ForeignKeyPlan::relatives`] and uses a compiled statement only while they are the catalog's.
//! **Invariants**: a table is one node, the statement's targets come first, in their order; a node's links are those
//! that its effects can reach, so a table that is only looked at has none.

use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock};

use esker_sql_catalog::catalog::{ForeignKeyDef, KeyIndex, TableDef};
use esker_sql_plan::plan::fixed_bytes;
use esker_types::{EvalCtx, SqlResult};

use crate::dml::exprs::TableExprs;

/// Finds a table by database and name.
pub(crate) type Lookup<'a> = dyn Fn(&str, &str) -> Option<Arc<TableDef>> + 'a;

/// What a statement may do to the rows of a table.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct RowEffects {
    /// Rows come.
    pub(crate) inserts: bool,
    /// Rows go.
    pub(crate) deletes: bool,
    /// Ordinals of columns that change in rows that stay.
    pub(crate) updates: BTreeSet<usize>,
}

impl RowEffects {
    /// Rows come, go, and change in every column.
    pub(crate) fn everything(table: &TableDef) -> Self {
        Self {
            inserts: true,
            deletes: true,
            updates: (0..table.columns.len()).collect(),
        }
    }

    fn is_nothing(&self) -> bool {
        *self == Self::default()
    }

    /// Adds what the other one may do; true if that is more.
    fn widen(&mut self, other: &Self) -> bool {
        let before = self.clone();
        self.inserts |= other.inserts;
        self.deletes |= other.deletes;
        self.updates.extend(&other.updates);
        *self != before
    }

    fn touches(&self, columns: &[usize]) -> bool {
        columns.iter().any(|c| self.updates.contains(c))
    }
}

/// A foreign key seen from its child.
#[derive(Debug)]
pub(super) struct ParentLink {
    /// Position among the child's foreign keys.
    pub(super) key: usize,
    /// Ordinals of the child's columns.
    pub(super) columns: Vec<usize>,
    /// The parent and its index; `None` where there is no such parent.
    pub(super) parent: Option<(Arc<TableDef>, KeyIndex)>,
}

/// A foreign key seen from its parent.
#[derive(Debug)]
pub(super) struct ChildLink {
    /// The child's node.
    pub(super) child: usize,
    /// Position among the child's foreign keys.
    pub(super) key: usize,
    /// Ordinals of the parent's columns, and the index that children look them up in.
    pub(super) parent_columns: Vec<usize>,
    pub(super) parent_index: KeyIndex,
    /// Ordinals of the child's columns, and the position of its index of them.
    pub(super) columns: Vec<usize>,
    pub(super) index: usize,
}

/// A table.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) table: Arc<TableDef>,
    effects: RowEffects,
    pub(super) parents: Vec<ParentLink>,
    pub(super) children: Vec<ChildLink>,
    /// Bound when the first row changes by a cascade.
    exprs: OnceLock<TableExprs>,
}

impl Node {
    fn new(table: Arc<TableDef>, effects: RowEffects) -> Self {
        Self {
            table,
            effects,
            parents: Vec::new(),
            children: Vec::new(),
            exprs: OnceLock::new(),
        }
    }

    /// The table's own expressions.
    pub(super) fn exprs(&self, ctx: &EvalCtx<'_>) -> SqlResult<&TableExprs> {
        if let Some(bound) = self.exprs.get() {
            return Ok(bound);
        }
        let bound = TableExprs::compile(ctx, &self.table)?;
        Ok(self.exprs.get_or_init(|| bound))
    }

    pub(super) fn key(&self, at: usize) -> &ForeignKeyDef {
        &self.table.foreign_keys[at]
    }
}

/// A table that a statement looks at or changes because of foreign keys.
#[derive(Debug, Clone)]
pub(crate) struct Relative {
    /// The table.
    pub(crate) table: Arc<TableDef>,
    /// Its rows may change.
    pub(crate) is_changed: bool,
}

/// The foreign keys that a statement has to keep.
#[derive(Debug, Default)]
pub(crate) struct ForeignKeyPlan {
    pub(super) nodes: Vec<Node>,
    relatives: Vec<Relative>,
    missing: Vec<(Arc<str>, Arc<str>)>,
    cascades: bool,
}

impl ForeignKeyPlan {
    /// The plan of a statement with these targets.
    pub(crate) fn new(lookup: &Lookup<'_>, targets: Vec<(Arc<TableDef>, RowEffects)>) -> Self {
        let is_alone = |t: &TableDef| t.foreign_keys.is_empty() && t.referenced_by.is_empty();
        if targets.iter().all(|(table, _)| is_alone(table)) {
            return Self::default();
        }
        let count = targets.len();
        let mut plan = Self::default();
        let mut waiting: Vec<usize> = Vec::new();
        for (at, (table, effects)) in targets.into_iter().enumerate() {
            plan.nodes.push(Node::new(table, effects));
            waiting.push(at);
        }
        while let Some(at) = waiting.pop() {
            plan.link_parents(lookup, at);
            plan.link_children(lookup, at, &mut waiting);
        }
        plan.gather_relatives(count);
        plan
    }

    /// Is there nothing to keep?
    pub(crate) fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// May rows change that the statement does not name?
    pub(crate) fn cascades(&self) -> bool {
        self.cascades
    }

    /// Tables beside the targets.
    pub(crate) fn relatives(&self) -> &[Relative] {
        &self.relatives
    }

    /// Names of parents that are not there. Such a plan is for one execution: they may come.
    pub(crate) fn missing(&self) -> &[(Arc<str>, Arc<str>)] {
        &self.missing
    }

    fn link_parents(&mut self, lookup: &Lookup<'_>, at: usize) {
        let Node { table, effects, .. } = &self.nodes[at];
        // A row that moves is looked at as if it came.
        let primary = table.primary().parts.iter();
        let moves = primary
            .map(|part| part.col)
            .any(|col| effects.updates.contains(&col));
        let mut links = Vec::new();
        for (key, def) in table.foreign_keys.iter().enumerate() {
            let columns = def.child_columns(table);
            if !effects.inserts && !effects.touches(&columns) && !moves {
                continue;
            }
            let parent = match def.refers_to(table) {
                true => Some(table.clone()),
                false => lookup(&def.parent.0, &def.parent.1),
            };
            if parent.is_none() {
                self.missing.push(def.parent.clone());
            }
            let parent = parent.and_then(|parent| {
                let of_parent = def.parent_ordinals(&parent)?;
                let index = parent.key_index(&of_parent)?;
                let meet = can_meet((table, &columns), (&parent, &of_parent));
                meet.then_some((parent, index))
            });
            links.push(ParentLink {
                key,
                columns,
                parent,
            });
        }
        self.nodes[at].parents = links;
    }

    fn link_children(&mut self, lookup: &Lookup<'_>, at: usize, waiting: &mut Vec<usize>) {
        let parent = self.nodes[at].table.clone();
        let effects = self.nodes[at].effects.clone();
        let mut links = Vec::new();
        for referrer in &parent.referenced_by {
            let Some(child) = lookup(&referrer.schema, &referrer.table) else {
                continue;
            };
            for (key, def) in child.foreign_keys.iter().enumerate() {
                let Some(parent_columns) = def
                    .parent_ordinals(&parent)
                    .filter(|_| def.refers_to(&parent))
                else {
                    continue;
                };
                let is_updated = effects.touches(&parent_columns);
                let columns = def.child_columns(&child);
                let (Some(parent_index), Some(index)) =
                    (parent.key_index(&parent_columns), child.key_index(&columns))
                else {
                    continue;
                };
                let is_changed = effects.deletes || is_updated;
                if !is_changed || !can_meet((&child, &columns), (&parent, &parent_columns)) {
                    continue;
                }
                let node = self.node_of(&child);
                let caused = caused(def, &columns, effects.deletes, is_updated);
                self.cascades |= !caused.is_nothing();
                if self.nodes[node].effects.widen(&caused) && !waiting.contains(&node) {
                    waiting.push(node);
                }
                links.push(ChildLink {
                    child: node,
                    key,
                    parent_columns,
                    parent_index,
                    columns,
                    index: index.at,
                });
            }
        }
        self.nodes[at].children = links;
    }

    fn node_of(&mut self, table: &Arc<TableDef>) -> usize {
        let found = self.nodes.iter().position(|n| n.table.id == table.id);
        found.unwrap_or_else(|| {
            self.nodes
                .push(Node::new(table.clone(), RowEffects::default()));
            self.nodes.len() - 1
        })
    }

    fn gather_relatives(&mut self, targets: usize) {
        let mut out: Vec<Relative> = Vec::new();
        let targets = &self.nodes[..targets];
        let is_target = |t: &TableDef| targets.iter().any(|n| n.table.id == t.id);
        let parents = self.nodes.iter().flat_map(|n| &n.parents);
        let parents = parents.filter_map(|l| l.parent.as_ref().map(|(t, _)| (t, false)));
        let nodes = self
            .nodes
            .iter()
            .map(|n| (&n.table, !n.effects.is_nothing()));
        for (table, is_changed) in nodes.chain(parents) {
            if is_target(table) {
                continue;
            }
            match out.iter_mut().find(|r| r.table.id == table.id) {
                Some(known) => known.is_changed |= is_changed,
                None => out.push(Relative {
                    table: table.clone(),
                    is_changed,
                }),
            }
        }
        // One order for all sessions.
        out.sort_by(|a, b| (&a.table.schema, &a.table.name).cmp(&(&b.table.schema, &b.table.name)));
        self.relatives = out;
    }
}

/// Can rows of the two have the same key? InnoDB compares stored bytes: values of types that have other numbers of
/// them, as DATETIME and DATETIME(6) have, are never the same.
fn can_meet(child: (&TableDef, &[usize]), parent: (&TableDef, &[usize])) -> bool {
    debug_assert_eq!(child.1.len(), parent.1.len());
    let bytes = |table: &TableDef, column: usize| fixed_bytes(&table.columns[column].ty);
    let mut pairs = child.1.iter().zip(parent.1);
    pairs.all(|(&of_child, &of_parent)| bytes(child.0, of_child) == bytes(parent.0, of_parent))
}

/// What a change of the parent does to rows of the child.
fn caused(key: &ForeignKeyDef, columns: &[usize], deletes: bool, updates: bool) -> RowEffects {
    use esker_sql_catalog::catalog::ReferentialAction::{Cascade, SetNull};
    let sets = (deletes && key.on_delete == SetNull)
        || (updates && matches!(key.on_update, Cascade | SetNull));
    RowEffects {
        inserts: false,
        deletes: deletes && key.on_delete == Cascade,
        updates: match sets {
            true => columns.iter().copied().collect(),
            false => BTreeSet::new(),
        },
    }
}
