//! Flush: the oldest in-memory tier of a tree, an immutable memtable or a replayed run, becomes a sorted run of level
//! 0.
//!
//! Neighbours: `maintain` calls it after the log is durable up to the table's largest sequence; `compact::retain` drops
//! what nobody can see; `tree` installs the result.
//!
//! **Invariants**
//! - Tiers of a tree are flushed from the oldest to the newest, one at a time, and only when no committer writes to
//!   them.
//! - The manifest edit that adds the run also moves the flushed sequence of the tree; the tier leaves the superversion
//!   in the step that brings the run.

use std::sync::Arc;

use crate::compact::{Gaps, Settled, retain};
use crate::extent::RunWriter;
use crate::iter::InternalIter;
use crate::tree::{Installation, Oldest, Run, RunAddress, RunId, ShapeEdit, Tree, Trees};
use crate::{Result, Seq};

impl Trees {
    /// Writes the oldest replayed run or immutable memtable of `tree` to extents. The log must be durable up to its
    /// largest sequence. False if there is none, or a committer still writes to it. After an error everything is as it
    /// was.
    pub fn flush(&self, tree: &Tree, oldest_snapshot: Seq) -> Result<bool> {
        let _guard = tree.flushing();
        let Some((oldest, flushed_seq)) = tree.oldest_quiescent() else {
            return Ok(false);
        };
        self.write_persistently("the flush", tree.id(), || match &oldest {
            Oldest::Replayed(run) => {
                self.flush_tier(tree, &mut run.iter(), flushed_seq, oldest_snapshot)
            }
            Oldest::Memtable(table) => {
                self.flush_tier(tree, &mut table.iter(), flushed_seq, oldest_snapshot)
            }
        })
    }

    fn flush_tier(
        &self,
        tree: &Tree,
        versions: &mut impl InternalIter,
        flushed_seq: Seq,
        oldest_snapshot: Seq,
    ) -> Result<bool> {
        self.check_writable()?;
        let version = Arc::clone(&tree.superversion().version);
        let mut writer = RunWriter::new(self.store(), tree.id(), 0).with_fields(tree.fields());
        // There is no older tier in memory, so the extents are all that lies below.
        let is_bottom = |delete: Settled<'_>| delete.has_nothing_in(version.levels().runs());
        let below = version.levels().runs().cloned();
        let mut gaps = Gaps::new(below, self.limits().gap_bytes);
        let counts = retain(
            versions,
            oldest_snapshot,
            is_bottom,
            |key, seq, op, value| {
                if gaps.is_before(key) {
                    writer.cut()?;
                }
                writer.add(key, seq, op, value)
            },
        )?;
        writer.cut()?;
        let written_bytes = writer.written_bytes();
        let extents = writer.finish()?;
        debug_assert!(
            Run::new(RunId(0), extents.clone()).is_sorted(),
            "a flush makes one sorted run"
        );
        self.store()
            .space
            .sync(extents.iter().map(|extent| extent.slots()))?;
        tracing::debug!(
            tree = tree.id().0,
            extents = extents.len(),
            ?counts,
            "flushed"
        );
        let place = RunAddress::l0(version.levels().next_run());
        let added = extents.into_iter().map(|extent| (place, extent)).collect();
        let edit = ShapeEdit {
            removed: Vec::new(),
            added,
        };
        let flushed_seq = Some(flushed_seq);
        let installed = self.install(
            tree,
            Installation {
                edit,
                flushed: true,
                flushed_seq,
            },
        )?;
        self.note(|work| {
            work.flushes += 1;
            work.flushed_bytes += written_bytes;
        });
        Ok(installed)
    }
}
