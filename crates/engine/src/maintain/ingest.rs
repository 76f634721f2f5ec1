//! The commit of a transaction that has a part of its writes in extents.
//!
//! Neighbours: `batch` has the extents, `tree::ingest` keeps them over a restart and hangs them into their trees,
//! `commit` goes on with the rest.
//!
//! Steps: settle the extents → sync them → flush what their trees have in memory → stage them in the manifest → append
//! the record, which names them → make it durable → ingest. Only then the record is completed in the watermark: what a
//! reader finds in extents is in a log that no crash takes back.
//!
//! **Invariants**
//! - Nobody flushes between the flush of the trees and the ingest. So the ingested layer is newer than every layer of
//!   its tree that may have an older version of one of its keys, and the memtables have none: the transaction holds the
//!   row locks.
//! - The log is durable up to the flushed sequences that are staged.
//! - After the record is appended nothing fails any more, unless the log does.
//!
//! Where a second log decides, the record is a prepare record, and the extents are ingested with its decision. Between
//! the two others may flush: the row locks, which are kept, keep every key of the extents out of what they flush.

use parking_lot::MutexGuard;

use super::Core;
use crate::batch::WriteSet;
use crate::commit::env::Ingest;
use crate::tree::IngestId;
use crate::{Result, Seq};

/// Extents that are staged. Dropping it forgets them.
struct Staged<'a> {
    core: &'a Core,
    ingest: IngestId,
    /// The trees they are for.
    trees: Vec<u32>,
    _flushing: MutexGuard<'a, ()>,
    is_over: bool,
}

/// Stages what a write set has in extents; `None` if nothing of it is live. An error where `go_on` says no meanwhile.
pub(super) fn stage<'a>(
    core: &'a Core,
    writes: &mut WriteSet,
    go_on: &dyn Fn() -> bool,
) -> Result<Option<Box<dyn Ingest + 'a>>> {
    let (trees, commit) = (&core.env.trees, &core.env.commit);
    trees.check_writable()?;
    let ingests = writes.finalize(&core.env.spilling(), &core.env.scans, go_on)?;
    if ingests.is_empty() {
        return Ok(None);
    }
    let extents = ingests.iter().flat_map(|(_, extents)| extents);
    trees
        .store()
        .space
        .sync(extents.map(|extent| extent.slots()))?;
    let flushing = core.maintenance.flushing();
    // Who had one of the row locks before has inserted what it wrote, but need not have completed its record.
    commit.watermark.block_until(commit.log.end());
    let flushed = commit.watermark.visible();
    for (tree, _) in &ingests {
        tree.rotate(flushed);
        while core.flush_oldest(tree, &flushing)? {}
    }
    commit.log.harden(flushed)?;
    let ingest = trees.stage(&ingests, flushed)?;
    trees.note(|work| {
        work.ingests += 1;
        work.ingested_extents += ingests.iter().map(|(_, e)| e.len() as u64).sum::<u64>();
    });
    Ok(Some(Box::new(Staged {
        core,
        ingest,
        trees: ingests.iter().map(|(tree, _)| tree.id().0).collect(),
        _flushing: flushing,
        is_over: false,
    })))
}

impl Ingest for Staged<'_> {
    fn id(&self) -> IngestId {
        self.ingest
    }

    fn trees(&self) -> &[u32] {
        &self.trees
    }

    fn ingest(mut self: Box<Self>, seq: Seq) {
        self.is_over = true;
        // A failure stops the engine, and whoever awaits the commit is told. The next start knows what became of it.
        let env = &self.core.env;
        if env.commit.log.harden(seq).is_ok() {
            env.trees.ingest(self.ingest, seq);
        }
    }

    fn prepared(mut self: Box<Self>) {
        self.is_over = true;
    }
}

impl Drop for Staged<'_> {
    fn drop(&mut self) {
        if self.is_over {
            return;
        }
        if let Err(error) = self.core.env.trees.unstage(self.ingest) {
            tracing::warn!(%error, "extents of a transaction that did not commit stay until the next start");
        }
    }
}
