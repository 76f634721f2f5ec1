//! Catching up with an online schema change: new trees follow a table whose rows go on changing. What was changed since
//! a snapshot is taken out of them and put in anew, in rounds, until little is left for the table's exclusive lock.
//!
//! Neighbours: `fill` makes the trees what they should be at the first snapshot, `alter::online` asks for rounds and
//! for the lock; the engine tells which keys have changed ([`Txn::changes`]). Why so: `docs/decisions/online-ddl.md`.
//!
//! **Invariants**
//! - After a round the new trees are, entry by entry, what they would be if the table had been read at the round's
//!   snapshot. So a duplicate that a round meets is one of two rows that were there at the same time.
//! - Where keys of different rows may be equal a round takes everything back before it puts anything in: two rows that
//!   exchange a unique value are no duplicate. Elsewhere it goes over the changes once.
//! - A round gives way to others for as long as half of the time whose changes it follows, no longer: each is half as
//!   long as the one before it, or as fast as this thread can.
//! - An entry that is taken back was put in by this statement: the same row always has the same entries.
//! - Where the table gets foreign keys, no row was without a parent at the round's snapshot.
//! - Nothing here touches the table, its locks or its rows: an error ends the schema change and nothing else.

use std::sync::Arc;
use std::time::Instant;

use esker_engine::{Isolation, LATEST, Seq, Txn, View};
use esker_sql_catalog::catalog::TableDef;
use esker_sql_catalog::codec::{RowReader, UTC};
use esker_sql_catalog::exec_error::engine_error;
use esker_types::SqlResult;

use super::convert::Conversion;
use super::fill::{Building, Checks};
use super::progress::Stage;
use crate::dml::duplicate_entry;
use crate::dml::foreign::{NewKeys, Seen};
use crate::throttle::{Pace, Throttle};

/// A transaction writes so many entries, or bytes, of the new trees.
const BATCH_ENTRIES: usize = 1000;
const BATCH_BYTES: usize = 1 << 20;
/// A round gives way to others for this part of the time whose changes it follows.
const FOLLOWED_PER_ROUND: u32 = 2;

/// What the new trees hold of a row.
pub(super) enum Derived<'a> {
    /// Entries of these indexes of a definition under which the rows stay as they are.
    Entries {
        new: &'a TableDef,
        which: Vec<usize>,
        checks: Option<Checks<'a>>,
    },
    /// The converted row, and its entries in all indexes.
    Copies(Conversion<'a>),
}

/// A key and value of an index.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Entry {
    index: usize,
    key: Vec<u8>,
    value: Vec<u8>,
}

/// A row as the new definition has it, and its entries in order.
#[derive(Default)]
struct Image {
    row: Vec<u8>,
    entries: Vec<Entry>,
}

impl Image {
    fn has_key_of(&self, entry: &Entry) -> bool {
        let key = (entry.index, &entry.key);
        let found = self
            .entries
            .binary_search_by_key(&key, |e| (e.index, &e.key));
        found.is_ok()
    }
}

impl Derived<'_> {
    fn stage(&self) -> Stage {
        match self {
            Derived::Entries { .. } => Stage::FollowIndex,
            Derived::Copies(_) => Stage::FollowTable,
        }
    }

    /// May a row get the key that another row of `table` has had?
    fn keys_may_meet(&self, table: &TableDef) -> bool {
        let new = self.new_table();
        let meet = |at: usize| new.indexes[at].unique && !holds_clustered_key(table, new, at);
        match self {
            Derived::Entries { which, .. } => which.iter().any(|&at| meet(at)),
            // A row without a primary key keeps its hidden one only if it had no other.
            Derived::Copies(_) if new.primary().hidden => {
                !table.primary().hidden || (1..new.indexes.len()).any(meet)
            }
            Derived::Copies(_) => (0..new.indexes.len()).any(meet),
        }
    }

    fn new_table(&self) -> &TableDef {
        match self {
            Derived::Entries { new, .. } => new,
            Derived::Copies(conversion) => conversion.new,
        }
    }

    /// What they hold of the row with this clustered key.
    fn image(&self, key: &[u8], stored: &[u8], number: u64) -> SqlResult<Image> {
        match self {
            Derived::Entries { new, which, .. } => Ok(Image {
                entries: entries(new, which.iter().copied(), key, stored)?,
                row: stored.to_vec(),
            }),
            Derived::Copies(conversion) => {
                let row = conversion.row(key, stored, number)?;
                let new = conversion.new;
                let mut all = vec![Entry {
                    index: 0,
                    key: row.key,
                    value: row.bytes,
                }];
                let (key, bytes) = (&all[0].key, &all[0].value);
                let secondary = entries(new, 1..new.indexes.len(), key, bytes)?;
                let row = bytes.clone();
                all.extend(secondary);
                Ok(Image { row, entries: all })
            }
        }
    }

    /// 3819 if the changed row violates a new CHECK constraint; a copy checks what it converts.
    fn check(&self, stored: &[u8]) -> SqlResult<()> {
        match self {
            Derived::Entries {
                checks: Some(checks),
                ..
            } => checks.check(stored),
            _ => Ok(()),
        }
    }
}

/// Do the columns of the index at `at` tell the clustered key that the row has in `table`? Then no other row has these.
fn holds_clustered_key(table: &TableDef, new: &TableDef, at: usize) -> bool {
    let clustered = table.primary();
    let holds = |col: usize| {
        let old = &table.columns[col];
        new.indexes[at].parts.iter().any(|part| {
            let column = &new.columns[part.col];
            let is_kept = column.id == old.id && column.ty == old.ty && column.generated.is_none();
            is_kept && column.auto_increment == old.auto_increment && part.prefix_len.is_none()
        })
    };
    !clustered.hidden && clustered.parts.iter().all(|part| holds(part.col))
}

fn entries(
    table: &TableDef,
    which: impl Iterator<Item = usize>,
    clustered: &[u8],
    stored: &[u8],
) -> SqlResult<Vec<Entry>> {
    let row = RowReader::new(&table.layout, &UTC, stored)?;
    let (mut all, mut buffer) = (Vec::new(), Vec::new());
    for index in which {
        table.indexes[index].entries(&row, clustered, &mut buffer, |key, value| {
            all.push(Entry {
                index,
                key: key.to_vec(),
                value: value.to_vec(),
            });
            Ok(())
        })?;
    }
    all.sort_unstable();
    Ok(all)
}

/// What is done while going over the changes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Pass {
    TakeBack,
    PutIn,
    Both,
}

/// New trees, and how far they have followed.
pub(super) struct CatchUp<'a> {
    building: Building<'a>,
    /// The table as others see it.
    table: &'a TableDef,
    derived: Derived<'a>,
    /// Foreign keys that it gets.
    keys: Option<&'a NewKeys<'a>>,
    /// The new trees are what the table is for this snapshot.
    base: Txn,
    /// When it was taken.
    since: Instant,
    throttle: &'a Throttle<'a>,
}

impl<'a> CatchUp<'a> {
    /// For trees that were filled from what `base` sees, a snapshot taken at `since`.
    pub(super) fn new(
        building: Building<'a>,
        table: &'a TableDef,
        (derived, keys): (Derived<'a>, Option<&'a NewKeys<'a>>),
        (base, since): (Txn, Instant),
        throttle: &'a Throttle<'a>,
    ) -> Self {
        Self {
            building,
            table,
            derived,
            keys,
            base,
            since,
            throttle,
        }
    }

    /// Follows to what is committed now; the number of rows that had changed.
    pub(super) fn round(&mut self) -> SqlResult<u64> {
        let engine = self.building.catalog.engine();
        // What comes from now on lies apart, and the next round need not walk over what this one has seen.
        engine.seal(&self.table.primary().tree);
        for parent in self.parents() {
            engine.seal(&parent.primary().tree);
        }
        let (next, now) = (engine.begin(Isolation::RepeatableRead), Instant::now());
        let seen = Seen {
            txn: &next,
            view: View::Snapshot,
        };
        let pace = self
            .throttle
            .for_at_most(now.duration_since(self.since) / FOLLOWED_PER_ROUND);
        let changed = self.follow(next.snapshot(), seen, Some(&pace))?;
        (self.base, self.since) = (next, now);
        Ok(changed)
    }

    /// The last round, under the exclusive locks of the table and of new parents.
    pub(super) fn finish(&mut self) -> SqlResult<u64> {
        let latest = self.building.latest();
        let seen = Seen {
            txn: &latest,
            view: View::Latest,
        };
        self.follow(LATEST, seen, None)
    }

    fn parents(&self) -> impl Iterator<Item = &Arc<TableDef>> {
        self.keys.into_iter().flat_map(NewKeys::parents)
    }

    /// To what is `seen`, which is everything up to `upto`.
    fn follow(&self, upto: Seq, seen: Seen<'_>, pace: Option<&Pace<'_>>) -> SqlResult<u64> {
        let rows = match self.derived.keys_may_meet(self.table) {
            true => {
                self.pass(upto, seen, (Pass::TakeBack, pace))?;
                self.pass(upto, seen, (Pass::PutIn, pace))?
            }
            false => self.pass(upto, seen, (Pass::Both, pace))?,
        };
        Ok(rows + self.follow_parents(upto, seen, pace)?)
    }

    /// Nobody may refer to a parent that has gone. The child's new trees are as far as `seen` is.
    fn follow_parents(&self, upto: Seq, seen: Seen<'_>, pace: Option<&Pace<'_>>) -> SqlResult<u64> {
        let Some(keys) = self.keys else {
            return Ok(0);
        };
        let own = self.building.latest();
        let fresh = Seen {
            txn: &own,
            view: View::Latest,
        };
        let mut count = 0;
        for parent in keys.parents() {
            let tree = &parent.primary().tree;
            let changes = self.base.changes(tree, upto);
            let mut changes = changes.map_err(|e| engine_error(&e))?;
            let mut watch = self.building.watch(self.derived.stage(), 0);
            while changes.advance().map_err(|e| engine_error(&e))? {
                count += 1;
                let (key, now) = (changes.key(), changes.value());
                watch.row(key.len() + now.map_or(0, <[u8]>::len))?;
                let before = self.base.get(tree, key, View::Snapshot);
                if let Some(before) = before.map_err(|e| engine_error(&e))? {
                    keys.check_parent(parent, (&before, now), seen, fresh)?;
                }
                self.give_way(pace);
            }
        }
        Ok(count)
    }

    fn pass(
        &self,
        upto: Seq,
        seen: Seen<'_>,
        (pass, pace): (Pass, Option<&Pace<'_>>),
    ) -> SqlResult<u64> {
        let tree = &self.table.primary().tree;
        let changes = self.base.changes(tree, upto);
        let mut changes = changes.map_err(|e| engine_error(&e))?;
        let mut writer = Writer::new(self.building, self.derived.new_table());
        let mut watch = self.building.watch(self.derived.stage(), 0);
        let mut count = 0;
        while changes.advance().map_err(|e| engine_error(&e))? {
            count += 1;
            let (key, now) = (changes.key(), changes.value());
            watch.row(key.len() + now.map_or(0, <[u8]>::len))?;
            let before = self.base.get(tree, key, View::Snapshot);
            let before = match before.map_err(|e| engine_error(&e))? {
                Some(stored) => self.quietly(|| self.derived.image(key, &stored, count))?,
                None => Image::default(),
            };
            let after = match now {
                None => Image::default(),
                Some(stored) if pass != Pass::TakeBack => {
                    self.derived.check(stored)?;
                    if let Some(keys) = self.keys {
                        keys.check(seen, stored)?;
                    }
                    self.derived.image(key, stored, count)?
                }
                Some(stored) => self.quietly(|| self.derived.image(key, stored, count))?,
            };
            if pass != Pass::PutIn {
                writer.take_back(&before, &after)?;
            }
            if pass != Pass::TakeBack {
                writer.put_in(&before, &after)?;
            }
            writer.end_row()?;
            self.give_way(pace);
        }
        writer.commit()?;
        Ok(count)
    }

    fn give_way(&self, pace: Option<&Pace<'_>>) {
        if let Some(pace) = pace {
            pace.look(|| self.building.catalog.engine().holds_writers());
        }
    }

    /// Derives what was derived before or will be again, and gives no warnings for it.
    fn quietly<R>(&self, derive: impl FnOnce() -> R) -> R {
        let diagnostics = &self.building.eval.diagnostics;
        let mark = diagnostics.mark();
        let derived = derive();
        diagnostics.undo_to(mark);
        derived
    }
}

/// Writes entries in transactions of bounded size. Nobody else knows the trees, so no row is locked.
struct Writer<'a> {
    building: Building<'a>,
    table: &'a TableDef,
    txn: Txn,
    entries: usize,
    bytes: usize,
}

impl<'a> Writer<'a> {
    fn new(building: Building<'a>, table: &'a TableDef) -> Self {
        let txn = building.catalog.engine().begin(Isolation::ReadCommitted);
        Self {
            building,
            table,
            txn,
            entries: 0,
            bytes: 0,
        }
    }

    fn take_back(&mut self, before: &Image, after: &Image) -> SqlResult<()> {
        let gone = before.entries.iter().filter(|e| !after.has_key_of(e));
        for entry in gone {
            self.count(entry);
            let tree = &self.table.indexes[entry.index].tree;
            let deleted = self.txn.delete(tree, &entry.key);
            deleted.map_err(|e| engine_error(&e))?;
        }
        Ok(())
    }

    fn put_in(&mut self, before: &Image, after: &Image) -> SqlResult<()> {
        let is_changed = |e: &&Entry| before.entries.binary_search(e).is_err();
        let changed = after.entries.iter().filter(is_changed);
        for entry in changed {
            let is_new = !before.has_key_of(entry);
            let index = &self.table.indexes[entry.index];
            if index.unique && is_new && self.has(entry)? {
                let zone = &self.building.eval.time_zone;
                let row = RowReader::new(&self.table.layout, zone, &after.row)?;
                return Err(duplicate_entry(self.table, index, &row));
            }
            self.count(entry);
            let put = self.txn.put(&index.tree, &entry.key, &entry.value);
            put.map_err(|e| engine_error(&e))?;
        }
        Ok(())
    }

    fn has(&self, entry: &Entry) -> SqlResult<bool> {
        let tree = &self.table.indexes[entry.index].tree;
        let found = self.txn.get_with(tree, &entry.key, View::Latest, |_| ());
        Ok(found.map_err(|e| engine_error(&e))?.is_some())
    }

    fn count(&mut self, entry: &Entry) {
        self.entries += 1;
        self.bytes += entry.key.len() + entry.value.len();
    }

    /// Between two rows: commits if that is due.
    fn end_row(&mut self) -> SqlResult<()> {
        if self.entries >= BATCH_ENTRIES || self.bytes >= BATCH_BYTES {
            self.commit()?;
        }
        Ok(())
    }

    fn commit(&mut self) -> SqlResult<()> {
        (self.entries, self.bytes) = (0, 0);
        // The record of the catalog's change comes later in the log: this is durable with it, or not needed.
        let committed = self.txn.commit();
        committed.map(drop).map_err(|e| engine_error(&e))
    }
}
