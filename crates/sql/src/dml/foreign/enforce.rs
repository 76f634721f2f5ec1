//! Keeping foreign keys for one row.
//!
//! Neighbours: [`super::plan`] says which tables and indexes are met; [`super::child`] makes the rows of children anew,
//! [`Writer`] locks keys and writes them.
//! **Invariants**
//! - A parent is looked for under a shared lock: of its key where the index is unique in it, else of its row. Whoever
//!   takes the key away holds that lock exclusively, so a child and the end of its parent never pass each other.
//! - A child row is locked before a cascade changes it, and judged by what is in the index then. One that forbids a
//!   change is waited for only where others are writing its entry of the index.
//! - A row that is being deleted further up is left alone, and a table whose rows are being updated further up is not
//!   updated by a cascade (1451): both as InnoDB does, so every cascade ends.

use std::ops::Bound;

use esker_engine::scan::KeySpan;
use esker_engine::{Direction, Isolation, LockMode, Txn, View};
use esker_sql_catalog::catalog::{ForeignKeyDef, IndexDef, ReferentialAction, TableDef, TableId};
use esker_sql_catalog::codec::{KeyRange, RowReader, UTC};
use esker_sql_catalog::exec_error::ExecError;
use esker_types::{EvalCtx, SqlError, SqlResult, ValueRef};

use super::child::{ChildChange, generated, patched};
use super::plan::{ForeignKeyPlan, ParentLink};
use super::{MAX_CASCADE_DEPTH, has_children, no_parent, too_deep};
use crate::dml::DmlEnv;
use crate::dml::write::{EntryBuffers, RowChange, Scratch, Writer, Written};

/// Index entries that are gathered before their rows are looked at.
const ENTRIES_AT_A_TIME: usize = 256;

/// A row under its lock.
#[derive(Clone, Copy)]
pub(in crate::dml) struct RowAt<'r> {
    /// Node of its table; of a target, its number.
    pub(in crate::dml) node: usize,
    /// Clustered key.
    pub(in crate::dml) clustered: &'r [u8],
    /// Its latest version.
    pub(in crate::dml) stored: &'r [u8],
}

/// A row that is being changed, and the row whose change caused that.
struct Chain<'c> {
    table: TableId,
    clustered: &'c [u8],
    deletes: bool,
    cause: Option<&'c Chain<'c>>,
}

impl<'c> Chain<'c> {
    fn links(&'c self) -> impl Iterator<Item = &'c Chain<'c>> {
        std::iter::successors(Some(self), |chain| chain.cause)
    }

    /// Is this row on its way out?
    fn deletes(&self, table: TableId, clustered: &[u8]) -> bool {
        self.links()
            .any(|c| c.deletes && c.table == table && c.clustered == clustered)
    }

    fn updates(&self, table: TableId) -> bool {
        self.links().any(|c| !c.deletes && c.table == table)
    }
}

/// An entry of an index.
struct Found {
    entry: Vec<u8>,
    clustered: Vec<u8>,
}

impl ForeignKeyPlan {
    /// Is a row that was found at the beginning still there? A cascade of the same statement, or of one in a function
    /// that it calls, may have deleted or changed it since: then its latest version is put into the scratch's
    /// `old_row`.
    pub(in crate::dml) fn is_still_there(
        &self,
        env: &mut DmlEnv<'_>,
        table: &TableDef,
        clustered: &[u8],
    ) -> Result<bool, ExecError> {
        if !self.cascades() && !env.calls_functions() {
            return Ok(true);
        }
        env.reread(table, clustered)
    }
}

/// Keeps the foreign keys of a statement that runs.
pub(in crate::dml) struct Enforcer<'e> {
    plan: &'e ForeignKeyPlan,
    writer: Writer<'e>,
    ctx: &'e EvalCtx<'e>,
    check_killed: &'e dyn Fn() -> SqlResult<()>,
}

impl<'e> Enforcer<'e> {
    /// For the rows of a statement, and its buffers; `None` where it has nothing to keep.
    pub(in crate::dml) fn new<'s>(
        plan: &'e ForeignKeyPlan,
        env: &'s mut DmlEnv<'_>,
    ) -> Option<(Self, &'s mut Scratch)>
    where
        's: 'e,
    {
        if plan.is_empty() || !env.foreign_key_checks {
            return None;
        }
        let writer = Writer {
            txn: env.txn,
            mode: env.mode,
            limits: env.limits,
            on_duplicate: LockMode::Shared,
        };
        let enforcer = Self {
            plan,
            writer,
            ctx: env.ctx,
            check_killed: env.check_killed,
        };
        Some((enforcer, env.scratch))
    }

    fn txn(&self) -> &Txn {
        self.writer.txn
    }

    /// 1452; it says nothing of a parent that the account has no privilege on.
    fn no_parent(&self, child: &TableDef, key: &ForeignKeyDef) -> SqlError {
        let (schema, name) = &key.parent;
        no_parent(child, key, self.ctx.session.may_hear_of(schema, name))
    }

    /// 1451; it says nothing of a child that the account has no privilege on.
    fn has_children(&self, child: &TableDef, key: &ForeignKeyDef) -> SqlError {
        let is_told = self.ctx.session.may_hear_of(&child.schema, &child.name);
        has_children(child, key, is_told)
    }

    /// 1452 unless a row that has been written has its parents; with the version `before` it, only those that it did
    /// not have then.
    pub(in crate::dml) fn check_parents(
        &mut self,
        node: usize,
        before: Option<&[u8]>,
        stored: &[u8],
    ) -> Result<(), ExecError> {
        self.check_parents_but(node, before, stored, None)
    }

    fn check_parents_but(
        &mut self,
        node: usize,
        before: Option<&[u8]>,
        stored: &[u8],
        kept: Option<usize>,
    ) -> Result<(), ExecError> {
        let plan = self.plan;
        let node = &plan.nodes[node];
        let layout = &node.table.layout;
        let row = RowReader::new(layout, &UTC, stored)?;
        let before = before
            .map(|b| RowReader::new(layout, &UTC, b))
            .transpose()?;
        for link in &node.parents {
            let is_same = |before: &RowReader<'_>| same_fields(before, &row, &link.columns);
            if Some(link.key) == kept
                || before.as_ref().is_some_and(is_same)
                || has_null(&row, &link.columns)
            {
                continue;
            }
            if !self.has_parent(link, &row)? {
                return Err(self.no_parent(&node.table, node.key(link.key)).into());
            }
        }
        Ok(())
    }

    fn has_parent(&mut self, link: &ParentLink, row: &RowReader<'_>) -> Result<bool, ExecError> {
        let Some((parent, index)) = &link.parent else {
            return Ok(false);
        };
        let key = key_of(&parent.indexes[index.at], row, &link.columns)?;
        let tree = &parent.indexes[index.at].tree;
        if !index.is_whole_unique {
            return self.has_locked(parent, index.at, &key, None);
        }
        let new = self.writer.lock_as(tree.id(), &key, LockMode::Shared)?;
        let found = self.txn().get_with(tree, &key, View::Latest, |_| ())?;
        if found.is_none() && new {
            self.txn().release(tree.id(), &key);
        }
        Ok(found.is_some())
    }

    /// Is there a row whose entry of the index begins with `prefix`? It is then locked shared, unless it is to forbid
    /// the change `leaving`: whatever becomes of such a row later, so a lock is needed only where others are writing
    /// its entry, or where what has been seen has to stay. Rows that `leaving` deletes do not count where the index is
    /// the clustered one, which they have left already.
    fn has_locked(
        &mut self,
        table: &TableDef,
        index: usize,
        prefix: &[u8],
        leaving: Option<&Chain<'_>>,
    ) -> Result<bool, ExecError> {
        let mut after = None;
        loop {
            let mut found = self.entries(table, index, prefix, after.take())?;
            let is_last = found.len() < ENTRIES_AT_A_TIME;
            if is_last {
                found.extend(self.uncommitted(table, index, prefix)?);
            }
            for Found { entry, clustered } in &found {
                if index == 0 && leaving.is_some_and(|c| c.deletes(table.id, clustered)) {
                    continue;
                }
                let rows = table.primary().id;
                let tree = &table.indexes[index].tree;
                let needs_lock = leaving.is_none()
                    || self.txn().isolation() == Isolation::Serializable
                    || self.txn().is_written_by_others(tree.id(), entry)?;
                let new = needs_lock && self.writer.lock_as(rows, clustered, LockMode::Shared)?;
                if self
                    .txn()
                    .get_with(tree, entry, View::Latest, |_| ())?
                    .is_some()
                {
                    return Ok(true);
                }
                if new {
                    self.txn().release(rows, clustered);
                }
            }
            if is_last {
                return Ok(false);
            }
            after = found.pop().map(|last| last.entry);
        }
    }

    /// The next entries that begin with `prefix`, behind the entry `after`.
    fn entries(
        &self,
        table: &TableDef,
        index: usize,
        prefix: &[u8],
        after: Option<Vec<u8>>,
    ) -> Result<Vec<Found>, ExecError> {
        let range = KeyRange::prefix(prefix.to_vec());
        let lower = match &after {
            Some(entry) => Bound::Excluded(&**entry),
            None => range.lower(),
        };
        let def = &table.indexes[index];
        let (direction, view) = (Direction::Forward, View::Latest);
        let mut cursor = self
            .txn()
            .scan(&def.tree, lower, range.upper(), direction, view)?;
        let mut out = Vec::new();
        while out.len() < ENTRIES_AT_A_TIME
            && let Some((key, value)) = cursor.next()?
        {
            out.push(found(def, key, value)?);
        }
        Ok(out)
    }

    /// Entries that begin with `prefix`, written by others and not committed.
    fn uncommitted(
        &self,
        table: &TableDef,
        index: usize,
        prefix: &[u8],
    ) -> Result<Vec<Found>, ExecError> {
        let range = KeyRange::prefix(prefix.to_vec());
        let def = &table.indexes[index];
        let span = KeySpan::new(range.lower(), range.upper());
        let others = self
            .txn()
            .uncommitted(def.tree.id(), &span, Direction::Forward)?;
        let entries = others.entries.iter();
        let found = entries.map(|(key, value)| found(def, key, value));
        Ok(found.collect::<SqlResult<_>>()?)
    }

    /// Before a row goes, or becomes `becomes`: its children are refused (1451), or go and change with it.
    pub(in crate::dml) fn settle_children(
        &mut self,
        row: RowAt<'_>,
        becomes: Option<&[u8]>,
    ) -> Result<(), ExecError> {
        let plan = self.plan;
        let chain = Chain {
            table: plan.nodes[row.node].table.id,
            clustered: row.clustered,
            deletes: becomes.is_none(),
            cause: None,
        };
        self.settle(row, becomes, &chain)
    }

    fn settle(
        &mut self,
        row: RowAt<'_>,
        becomes: Option<&[u8]>,
        chain: &Chain<'_>,
    ) -> Result<(), ExecError> {
        let plan = self.plan;
        let parent = &plan.nodes[row.node].table;
        let old = RowReader::new(&parent.layout, &UTC, row.stored)?;
        let new = becomes
            .map(|bytes| RowReader::new(&parent.layout, &UTC, bytes))
            .transpose()?;
        for link in &plan.nodes[row.node].children {
            let is_same = |new: &RowReader<'_>| same_fields(&old, new, &link.parent_columns);
            if new.as_ref().is_some_and(is_same) || has_null(&old, &link.parent_columns) {
                continue;
            }
            let of_parent = &parent.indexes[link.parent_index.at];
            if link.parent_index.at > 0 && link.parent_index.is_whole_unique {
                let key = key_of(of_parent, &old, &link.parent_columns)?;
                self.writer.lock(of_parent.id, &key)?;
            }
            let change = ChildChange {
                link,
                parent,
                old: &old,
                new: new.as_ref(),
            };
            self.settle_link(&change, chain)?;
        }
        Ok(())
    }

    fn settle_link(
        &mut self,
        change: &ChildChange<'_>,
        chain: &Chain<'_>,
    ) -> Result<(), ExecError> {
        let plan = self.plan;
        let link = change.link;
        let node = &plan.nodes[link.child];
        let (child, key) = (&node.table, node.key(link.key));
        let index = &child.indexes[link.index];
        let prefix = key_of(index, change.old, &link.parent_columns)?;
        let action = match change.new {
            None => key.on_delete,
            Some(_) => key.on_update,
        };
        let deletes = change.new.is_none() && action == ReferentialAction::Cascade;
        let is_refused = !action.changes_children() || (!deletes && chain.updates(child.id));
        if is_refused {
            return match self.has_locked(child, link.index, &prefix, Some(chain))? {
                true => Err(self.has_children(child, key).into()),
                false => Ok(()),
            };
        }
        let mut buffers = EntryBuffers::default();
        let mut after = None;
        loop {
            let mut found = self.entries(child, link.index, &prefix, after.take())?;
            let entries = found.iter().map(|found| &found.entry[..]);
            let rows = found.iter().map(|found| &found.clustered[..]);
            self.txn().approach(&index.tree, entries);
            self.txn().approach(&child.primary().tree, rows);
            for Found { entry, clustered } in &found {
                (self.check_killed)()?;
                self.writer.lock(child.primary().id, clustered)?;
                let tree = &index.tree;
                let is_there = self.txn().get_with(tree, entry, View::Latest, |_| ())?;
                if is_there.is_none() || chain.deletes(child.id, clustered) {
                    continue;
                }
                if chain.links().count() >= MAX_CASCADE_DEPTH {
                    return Err(too_deep().into());
                }
                match deletes {
                    true => self.delete_child(change, clustered, chain, &mut buffers)?,
                    false => self.update_child(change, action, clustered, chain, &mut buffers)?,
                }
            }
            match found.len() < ENTRIES_AT_A_TIME {
                true => return Ok(()),
                false => after = found.pop().map(|last| last.entry),
            }
        }
    }

    fn delete_child(
        &mut self,
        change: &ChildChange<'_>,
        clustered: &[u8],
        cause: &Chain<'_>,
        buffers: &mut EntryBuffers,
    ) -> Result<(), ExecError> {
        let plan = self.plan;
        let child = &plan.nodes[change.link.child].table;
        let mut stored = Vec::new();
        if !self.writer.read_locked(child, clustered, &mut stored)? {
            return Ok(());
        }
        let chain = Chain {
            table: child.id,
            clustered,
            deletes: true,
            cause: Some(cause),
        };
        let row = RowAt {
            node: change.link.child,
            clustered,
            stored: &stored,
        };
        self.settle(row, None, &chain)?;
        self.writer
            .delete(child, clustered, &stored, &mut buffers.entries())
    }

    fn update_child(
        &mut self,
        change: &ChildChange<'_>,
        action: ReferentialAction,
        clustered: &[u8],
        cause: &Chain<'_>,
        buffers: &mut EntryBuffers,
    ) -> Result<(), ExecError> {
        let plan = self.plan;
        let link = change.link;
        let node = &plan.nodes[link.child];
        let child = &node.table;
        let mut stored = Vec::new();
        if !self.writer.read_locked(child, clustered, &mut stored)? {
            return Ok(());
        }
        let Some(values) = change.values(action, child) else {
            return Err(self.has_children(child, node.key(link.key)).into());
        };
        let becomes = patched(child, &stored, &link.columns, &values)?;
        let becomes = generated(node.exprs(self.ctx)?, child, self.ctx, becomes)?;
        let chain = Chain {
            table: child.id,
            clustered,
            deletes: false,
            cause: Some(cause),
        };
        let row = RowAt {
            node: link.child,
            clustered,
            stored: &stored,
        };
        self.settle(row, Some(&becomes), &chain)?;
        let mut new_clustered = clustered.to_vec();
        if !child.primary().hidden {
            let reader = RowReader::new(&child.layout, &UTC, &becomes)?;
            new_clustered.clear();
            let codec = &child.primary().codec;
            codec.encode_row_parts(&reader, &mut new_clustered)?;
        }
        let row_change = RowChange {
            clustered,
            old: &stored,
            new_clustered: &new_clustered,
            new: &becomes,
            entries_change: true,
            // Partitioned tables have no foreign keys.
            may_enter: false,
        };
        match self
            .writer
            .update(child, row_change, &mut buffers.entries())?
        {
            Written::Done => {}
            Written::Conflict(conflict) => {
                let index = &child.indexes[conflict.index];
                return Err(change.duplicate(child, index).into());
            }
        }
        self.check_parents_but(link.child, Some(&stored), &becomes, Some(link.key))
    }
}

fn found(index: &IndexDef, key: &[u8], value: &[u8]) -> SqlResult<Found> {
    let clustered = match index.primary {
        true => key,
        false => index.codec.clustered_of(key, value)?,
    };
    Ok(Found {
        entry: key.to_vec(),
        clustered: clustered.to_vec(),
    })
}

/// The beginning of the keys that an index has for these columns of a row, of this table or of a related one.
pub(super) fn key_of(
    index: &IndexDef,
    row: &RowReader<'_>,
    columns: &[usize],
) -> SqlResult<Vec<u8>> {
    let values: Vec<ValueRef<'_>> = columns.iter().map(|&c| row.field(c)).collect();
    let mut key = Vec::with_capacity(16);
    index.codec.encode_prefix(&values, &UTC, &mut key)?;
    Ok(key)
}

pub(super) fn has_null(row: &RowReader<'_>, columns: &[usize]) -> bool {
    columns
        .iter()
        .any(|&c| matches!(row.field(c), ValueRef::Null))
}

/// Are the fields the same, byte by byte? `a` and `A` are two, even where the collation takes them for one.
pub(super) fn same_fields(a: &RowReader<'_>, b: &RowReader<'_>, columns: &[usize]) -> bool {
    columns.iter().all(|&c| a.field(c) == b.field(c))
}
