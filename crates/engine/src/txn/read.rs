//! Reads of a transaction: lookups and scans over its own writes and what is committed.
//!
//! Neighbours: `visible` and `cursor` walk; `tombstones` learns what a scan has stepped over; `tree` has the tiers.
//!
//! **Invariants**
//! - The transaction's own writes come first, then committed versions from the newest tier to the oldest.
//! - The snapshot is taken before the tiers are looked up.
//! - Every version that is met is noted as a dependency of the answer.

use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::tombstones::TombstoneWalk;
use super::visible::{Range, VisibleIter};
use super::{Cursor, Direction, Isolation, Txn, View, note_dependency};
use crate::batch::{OwnWrites, Sight};
use crate::extent::ReadMode;
use crate::iter::{InternalIter, MergingIter};
use crate::tree::{SuperVersion, Tree};
use crate::{LATEST, Op, Result, Seq};

impl Txn {
    #[inline]
    fn sequence_of(&self, view: View) -> Seq {
        match view {
            View::Snapshot => self.snapshot(),
            View::Latest => LATEST,
        }
    }

    /// Brings what memtables find these keys by into the processor's caches: all of them are read soon.
    pub fn approach<'k>(&self, tree: &Tree, keys: impl Iterator<Item = &'k [u8]> + Clone) {
        let superversion = tree.superversion();
        for table in std::iter::once(&superversion.active).chain(&superversion.immutables) {
            table.approach(keys.clone());
        }
    }

    /// Reads a key and calls `f` with the value in place.
    #[inline]
    pub fn get_with<R>(
        &self,
        tree: &Tree,
        key: &[u8],
        view: View,
        f: impl FnOnce(&[u8]) -> R,
    ) -> Result<Option<R>> {
        self.check()?;
        if !self.writes.is_untouched()
            && let Some(written) = self.writes.get(tree.id(), key)?
        {
            return Ok(written.value().map(f));
        }
        let upto = self.sequence_of(view);
        let superversion = tree.superversion();
        let tables = std::iter::once(&superversion.active).chain(&superversion.immutables);
        for table in tables {
            if let Some(entry) = table.get(key, upto) {
                note_dependency(&self.dependency, entry.seq);
                return Ok((entry.op == Op::Put).then(|| f(entry.value)));
            }
        }
        for run in &superversion.replayed {
            if let Some(entry) = run.get(key, upto) {
                note_dependency(&self.dependency, entry.seq);
                return Ok((entry.op == Op::Put).then(|| f(entry.value)));
            }
        }
        let found = superversion.version.get(key, upto, |seq, op, value| {
            note_dependency(&self.dependency, seq);
            (op == Op::Put).then(|| f(value))
        })?;
        Ok(found.flatten())
    }

    /// Whether the newest version of a key is one that others have committed since this transaction took its snapshot,
    /// which goes on beyond the statement. The transaction holds the row lock and has read the newest version. False
    /// where it has written the key itself.
    pub fn is_newer_than_snapshot(&self, tree: &Tree, key: &[u8]) -> Result<bool> {
        self.check()?;
        let snapshot = self.snapshot.load(Ordering::Relaxed);
        let is_kept = self.isolation != Isolation::ReadCommitted && snapshot != LATEST;
        // The newest version is among what was read, though it need not be visible to new snapshots yet.
        let read = self.dependency.load(Ordering::Relaxed);
        if !is_kept || read.max(self.known.load(Ordering::Relaxed)) <= snapshot {
            return Ok(false);
        }
        if !self.writes.is_untouched() && self.writes.get(tree.id(), key)?.is_some() {
            return Ok(false);
        }
        let superversion = tree.superversion();
        let tables = std::iter::once(&superversion.active).chain(&superversion.immutables);
        for table in tables.filter(|table| table.max_seq() > snapshot) {
            if let Some(entry) = table.get(key, LATEST) {
                return Ok(entry.seq > snapshot);
            }
        }
        // What was replayed is older than every snapshot.
        let newest = superversion.version.get(key, LATEST, |seq, _, _| seq)?;
        Ok(newest.is_some_and(|seq| seq > snapshot))
    }

    /// Reads a key into a new vector.
    pub fn get(&self, tree: &Tree, key: &[u8], view: View) -> Result<Option<Vec<u8>>> {
        self.get_with(tree, key, view, <[u8]>::to_vec)
    }

    /// Scans a key range.
    pub fn scan(
        &self,
        tree: &Tree,
        lower: Bound<&[u8]>,
        upper: Bound<&[u8]>,
        direction: Direction,
        view: View,
    ) -> Result<Cursor> {
        self.check()?;
        let own = self.writes.view(tree.id());
        // The snapshot is taken before the tiers are looked up.
        let snapshot = self.sequence_of(view);
        let tombstones = self.tombstone_walk(tree, snapshot, direction);
        let tiers = tree.superversion();
        self.home.check_tombstone_skips(&tiers);
        let bounds = (lower, upper);
        rows_between(
            &tiers,
            own.as_ref(),
            snapshot,
            bounds,
            direction,
            &self.dependency,
            Some(tombstones),
        )
    }

    /// For a walk that sees versions up to `upto` and looks up its tiers after this.
    fn tombstone_walk(&self, tree: &Tree, upto: Seq, direction: Direction) -> TombstoneWalk {
        let complete = upto.min(self.env.commit.watermark.visible());
        TombstoneWalk::new(tree, complete, upto, direction, &self.dependency)
    }

    /// A cursor for many lookups, which is told for each where to go ([`Cursor::go_to`]).
    pub fn seeker(&self, tree: &Tree, view: View) -> Result<Cursor> {
        self.check()?;
        let everything = || Range {
            lower: Bound::Unbounded,
            upper: Bound::Unbounded,
        };
        let own = self.writes.view(tree.id()).map(|own| {
            VisibleIter::unplaced(
                own_iter(&own),
                own.sight(),
                everything(),
                Direction::Forward,
                None,
            )
        });
        // The snapshot is taken before the tiers are looked up.
        let upto = self.sequence_of(view);
        let sight = Sight::Snapshot(upto);
        let tombstones = self.tombstone_walk(tree, upto, Direction::Forward);
        let tiers = tree.superversion();
        self.home.check_tombstone_skips(&tiers);
        let committed = committed_iter(&tiers, Bound::Unbounded, Bound::Unbounded);
        drop(tiers);
        let committed = VisibleIter::unplaced(
            committed,
            sight,
            everything(),
            Direction::Forward,
            Some(tombstones),
        );
        Ok(Cursor::new(
            committed,
            own,
            Direction::Forward,
            Arc::clone(&self.dependency),
        ))
    }
}

/// All writes of a transaction to a tree.
fn own_iter(own: &OwnWrites) -> Box<dyn InternalIter> {
    let tables = own.tables.settled();
    let tables = tables.map(|table| Box::new(table.iter()) as Box<dyn InternalIter>);
    let spills = own.spills.iters(ReadMode::Cached);
    let spills = spills.map(|iter| Box::new(iter) as Box<dyn InternalIter>);
    let mut sources = tables.chain(spills);
    let newest = sources.next().expect("there is a table");
    let older: Vec<_> = sources.collect();
    if older.is_empty() {
        return newest;
    }
    Box::new(MergingIter::new(
        std::iter::once(newest).chain(older).collect(),
    ))
}

/// A cursor over the committed versions that a snapshot sees and a transaction's own writes.
pub(crate) fn rows_between(
    tiers: &SuperVersion,
    own: Option<&OwnWrites>,
    snapshot: Seq,
    (lower, upper): (Bound<&[u8]>, Bound<&[u8]>),
    direction: Direction,
    dependency: &Arc<AtomicU64>,
    tombstones: Option<TombstoneWalk>,
) -> Result<Cursor> {
    let range = Range {
        lower: lower.map(<[u8]>::to_vec),
        upper: upper.map(<[u8]>::to_vec),
    };
    let own = match own {
        None => None,
        Some(own) => {
            let walk =
                VisibleIter::new(own_iter(own), own.sight(), range.clone(), direction, None)?;
            Some(walk)
        }
    };
    let committed = committed_iter(tiers, lower, upper);
    let committed = VisibleIter::new(
        committed,
        Sight::Snapshot(snapshot),
        range,
        direction,
        tombstones,
    )?;
    Ok(Cursor::new(
        committed,
        own,
        direction,
        Arc::clone(dependency),
    ))
}

/// All committed versions of a tree, whichever tier they are in; tiers on disk that have nothing in the range are left
/// out.
fn committed_iter(
    superversion: &SuperVersion,
    lower: Bound<&[u8]>,
    upper: Bound<&[u8]>,
) -> Box<dyn InternalIter> {
    let mut sources = superversion.version.iters_in(lower, upper);
    let tables = std::iter::once(&superversion.active).chain(&superversion.immutables);
    let tables = tables
        .filter(|table| !table.is_empty())
        .map(|table| Box::new(table.iter()) as Box<dyn InternalIter>);
    let runs = superversion.replayed.iter();
    let runs = runs.map(|run| Box::new(run.iter()) as Box<dyn InternalIter>);
    sources.splice(0..0, tables.chain(runs));
    match sources.len() {
        1 => sources.pop().expect("there is one"),
        _ => Box::new(MergingIter::new(sources)),
    }
}
