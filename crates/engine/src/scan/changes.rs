//! Changed keys: what a tree has otherwise than at an older snapshot, without reading what has stayed.
//!
//! Neighbours: who keeps a copy of a tree in step asks for them again and again (online schema changes); the snapshot
//! of the transaction that is asked keeps what it saw from being dropped.
//!
//! A change is a version with a sequence above the older snapshot. Extents and memtables know the largest sequence that
//! they have, so those without a change are not opened. [`Engine::seal`](crate::Engine::seal) ends a memtable, so that
//! the next look need not walk over what this one has seen.
//!
//! **Invariants**
//! - Every key whose newest version up to `upto` is newer than the snapshot comes once, ascending. Its value may be the
//!   same as before.
//! - No version above the snapshot that is the newest up to `upto` can be missing: the snapshot is the older one, and
//!   versions are dropped only where a newer one is visible to the oldest snapshot.

use std::sync::Arc;

use crate::extent::{Extent, HasMeta, ReadMode};
use crate::iter::{InternalIter, MergingIter};
use crate::tree::{Run, RunIter, SuperVersion, Tree};
use crate::txn::Txn;
use crate::{Op, Result, Seq};

/// A walk over changed keys.
pub struct Changes {
    merged: MergingIter,
    since: Seq,
    upto: Seq,
    key: Vec<u8>,
    value: Option<Vec<u8>>,
    /// Keeps the memtables.
    _superversion: Arc<SuperVersion>,
}

impl Txn {
    /// The keys of `tree` that were changed after this transaction's snapshot and up to `upto`
    /// ([`LATEST`](crate::LATEST): all that is there).
    ///
    /// # Errors
    /// The log could not be replayed; an extent cannot be read.
    pub fn changes(&self, tree: &Tree, upto: Seq) -> Result<Changes> {
        self.check()?;
        let since = self.snapshot();
        debug_assert!(since <= upto, "changes follow the snapshot");
        let superversion = Arc::clone(&tree.superversion());
        let mut merged = MergingIter::new(sources(&superversion, since));
        merged.seek_to_first()?;
        Ok(Changes {
            merged,
            since,
            upto,
            key: Vec::new(),
            value: None,
            _superversion: superversion,
        })
    }
}

/// Everything that may have a version above `since`, newest tier first. What was replayed is older than every snapshot.
fn sources(superversion: &Arc<SuperVersion>, since: Seq) -> Vec<Box<dyn InternalIter>> {
    let mut sources: Vec<Box<dyn InternalIter>> = Vec::new();
    let tables = std::iter::once(&superversion.active).chain(&superversion.immutables);
    for table in tables.filter(|table| table.max_seq() > since) {
        sources.push(Box::new(table.iter()));
    }
    for run in superversion.version.levels().runs() {
        let is_new = |extent: &&Arc<Extent>| extent.meta().largest_seq > since;
        let extents: Vec<Arc<Extent>> = run.extents().iter().filter(is_new).cloned().collect();
        if !extents.is_empty() {
            let run = Run::new(run.id(), extents);
            sources.push(Box::new(RunIter::new(run, ReadMode::Once)));
        }
    }
    sources
}

impl Changes {
    /// To the next key; false at the end.
    ///
    /// # Errors
    /// An extent cannot be read.
    pub fn advance(&mut self) -> Result<bool> {
        while self.merged.valid() {
            debug_assert!(*self.key <= *self.merged.key(), "keys ascend");
            self.key.clear();
            self.key.extend_from_slice(self.merged.key());
            if self.newest_is_new()? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Walks over the versions of the key; is the newest one in sight a change?
    fn newest_is_new(&mut self) -> Result<bool> {
        let mut found = None;
        while self.merged.valid() && self.merged.key() == &*self.key {
            let seq = self.merged.seq();
            if found.is_none() && seq <= self.upto {
                found = Some(seq);
                self.value = (self.merged.op() == Op::Put).then(|| self.merged.value().to_vec());
            }
            self.merged.next()?;
        }
        Ok(found.is_some_and(|seq| seq > self.since))
    }

    /// The key.
    pub fn key(&self) -> &[u8] {
        &self.key
    }

    /// Its value now; None: it is gone.
    pub fn value(&self) -> Option<&[u8]> {
        self.value.as_deref()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::engine::tests::memory_engine;
    use crate::{Engine, Isolation, LATEST, View};

    type Rows = BTreeMap<Vec<u8>, Vec<u8>>;

    fn write(engine: &Engine, tree: &Tree, key: u64, value: Option<u64>) {
        let mut txn = engine.begin(Isolation::ReadCommitted);
        let key = key.to_be_bytes();
        match value {
            Some(value) => txn.put(tree, &key, &value.to_be_bytes()),
            None => txn.delete(tree, &key),
        }
        .expect("written");
        let _ = txn.commit().expect("committed");
    }

    fn random(state: &mut u64, below: u64) -> u64 {
        *state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (*state >> 33) % below
    }

    /// The rows that a transaction sees.
    fn rows(txn: &Txn, tree: &Tree, view: View) -> Rows {
        let mut rows = Rows::new();
        for key in 0..200u64 {
            let key = key.to_be_bytes();
            if let Some(value) = txn.get(tree, &key, view).expect("read") {
                rows.insert(key.to_vec(), value);
            }
        }
        rows
    }

    /// A copy that takes over changes in rounds is what the tree is, whatever the engine did with memtables and extents
    /// meanwhile.
    #[test]
    fn a_copy_that_follows_changes_equals_the_tree() {
        for seed in 0..20 {
            let engine = memory_engine();
            let tree = engine.create_tree().expect("a tree");
            let mut state = seed;
            let mut base = engine.begin(Isolation::RepeatableRead);
            base.snapshot();
            let mut copy = rows(&base, &tree, View::Snapshot);
            for _ in 0..12 {
                for _ in 0..random(&mut state, 60) {
                    let key = random(&mut state, 200);
                    let value = random(&mut state, 3).checked_sub(1).map(|v| v + key * 10);
                    write(&engine, &tree, key, value);
                }
                match random(&mut state, 4) {
                    0 => engine.flush_all().expect("flushed"),
                    1 => engine.compact().expect("compacted"),
                    2 => engine.seal(&tree),
                    _ => {}
                }
                let next = engine.begin(Isolation::RepeatableRead);
                let last = random(&mut state, 2) == 0;
                let upto = if last { LATEST } else { next.snapshot() };
                // What comes later is not for this round.
                let wanted = rows(
                    &next,
                    &tree,
                    if last { View::Latest } else { View::Snapshot },
                );
                if !last {
                    write(&engine, &tree, random(&mut state, 200), Some(7));
                }
                let mut changes = base.changes(&tree, upto).expect("changes");
                let mut before = None;
                while changes.advance().expect("advanced") {
                    let key = changes.key().to_vec();
                    assert!(before.as_ref() < Some(&key), "ascending, once");
                    match changes.value() {
                        Some(value) => copy.insert(key.clone(), value.to_vec()),
                        None => copy.remove(&key),
                    };
                    before = Some(key);
                }
                assert_eq!(copy, wanted, "seed {seed}");
                next.snapshot();
                base = next;
            }
        }
    }

    #[test]
    fn what_has_no_change_is_not_walked() {
        let engine = memory_engine();
        let tree = engine.create_tree().expect("a tree");
        (0..100).for_each(|key| write(&engine, &tree, key, Some(1)));
        engine.seal(&tree);
        let base = engine.begin(Isolation::RepeatableRead);
        let since = base.snapshot();
        write(&engine, &tree, 5, Some(2));
        let superversion = Arc::clone(&tree.superversion());
        assert_eq!(superversion.immutables.len(), 1);
        assert_eq!(sources(&superversion, since).len(), 1);
        engine.flush_all().expect("flushed");
        write(&engine, &tree, 6, None);
        let mut changes = base.changes(&tree, LATEST).expect("changes");
        let mut seen = Vec::new();
        while changes.advance().expect("advanced") {
            seen.push((changes.key()[7], changes.value().is_some()));
        }
        assert_eq!(seen, [(5, true), (6, false)]);
    }
}
