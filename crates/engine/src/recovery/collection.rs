//! A collection: everything that was collected from a range of the log, and the runs that it becomes.
//!
//! Neighbours: `dispatch` says which tasks belong to a collection and when it is complete; `parallel` settles it and
//! installs its runs.
//!
//! **Invariants**
//! - A collection has every write of its range of the log that is wanted: it is made only of all parts of that range.
//!   So the end of the range is a flushed sequence of every tree in it (rule R4: nothing older can come later).

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::thread;

use super::collect::{Collector, Part, Plan};
use super::counts::CounterChanges;
use super::two_phase::{Prepare, TwoPhase};
use crate::commit::counters::Counters;
use crate::replayed::entry::Buffers;
use crate::replayed::run::{Facts, Pieces, ReplayedRun};
use crate::tree::{IngestId, Tree};
use crate::{Result, Seq};

/// Decided prepares that one more thread is worth.
const DECIDED_PER_THREAD: usize = 256;

/// What was collected from a range of the log.
pub(super) struct Collection {
    parts: Vec<Part>,
    /// End of the range.
    end: Seq,
}

impl Collection {
    /// `parts` are all parts of the range of the log up to `end`.
    pub(super) fn new(parts: Vec<Part>, end: Seq) -> Self {
        Collection { parts, end }
    }

    /// Brings prepares and decisions together, collects what was committed by them, and applies the changes of
    /// counters. Harvests are settled in the order of the log. Gives the number of rows that were committed by
    /// decisions.
    pub(super) fn finalize(
        &mut self,
        plan: &Plan,
        two_phase: &mut TwoPhase,
        counters: &Counters,
        threads: usize,
    ) -> Result<u64> {
        let changes = self.parts.iter_mut();
        let changes = changes.map(|part| std::mem::take(&mut part.counters));
        CounterChanges::apply(changes.collect(), counters);
        for part in &mut self.parts {
            for prepare in part.prepares.drain(..) {
                two_phase.prepare(prepare)?;
            }
        }
        let mut committed = Vec::new();
        for part in &mut self.parts {
            for decision in part.decisions.drain(..) {
                let prepare = two_phase.decide(&decision)?;
                if let Some(prepare) = prepare.filter(|_| decision.commits) {
                    committed.push((prepare, decision.seq));
                }
            }
        }
        two_phase.keep_alone();
        let parts = collect_committed(plan, &committed, threads)?;
        let rows = parts.iter().map(|part| part.rows).sum();
        self.parts.extend(parts);
        Ok(rows)
    }

    /// The extents that came with its commits, in the order of the log.
    pub(super) fn take_ingests(&mut self) -> Vec<(Seq, IngestId)> {
        let parts = self.parts.iter_mut();
        let mut ingests: Vec<_> = parts.flat_map(|part| part.ingests.drain(..)).collect();
        ingests.sort_unstable();
        ingests
    }

    /// End of its range of the log.
    pub(super) fn end(&self) -> Seq {
        self.end
    }

    /// The runs, with their trees.
    pub(super) fn into_runs(
        self,
        plan: &Plan,
        sorted: &Arc<AtomicU64>,
    ) -> Vec<(Tree, Arc<ReplayedRun>)> {
        let mut buffers = Vec::new();
        let mut drafts: Vec<Option<Draft>> = plan.trees.iter().map(|_| None).collect();
        for part in self.parts {
            debug_assert!(
                part.prepares.is_empty() && part.decisions.is_empty(),
                "what is decided was decided before"
            );
            let base = buffers.len() as u32;
            buffers.extend(part.buffers);
            for (index, lists) in part.trees.into_iter().enumerate() {
                let Some(lists) = lists else { continue };
                let shards = plan.trees[index].router.shards();
                let draft = drafts[index].get_or_insert_with(|| Draft::new(shards, self.end));
                let facts = &mut draft.facts;
                facts.first_lsn = facts.first_lsn.min(lists.first_lsn);
                facts.max_seq = facts.max_seq.max(lists.max_seq);
                facts.entries += lists.entries;
                facts.deletes += lists.deletes;
                facts.row_bytes += lists.row_bytes;
                for (to, pieces) in draft.shards.iter_mut().zip(lists.into_pieces()) {
                    to.extend(pieces.map(|piece| (piece, base)));
                }
            }
        }
        let buffers = Arc::new(Buffers::new(buffers));
        let runs = plan.trees.iter().zip(drafts);
        runs.filter_map(|(planned, draft)| {
            let Draft { shards, facts } = draft?;
            let router = Arc::clone(&planned.router);
            let (buffers, sorted) = (Arc::clone(&buffers), Arc::clone(sorted));
            let run = ReplayedRun::new(router, shards, buffers, facts, sorted);
            Some((planned.tree.clone(), Arc::new(run)))
        })
        .collect()
    }
}

/// A run that is being put together.
struct Draft {
    shards: Vec<Pieces>,
    facts: Facts,
}

impl Draft {
    fn new(shards: usize, flushed_seq: Seq) -> Self {
        Draft {
            shards: (0..shards).map(|_| Pieces::new()).collect(),
            facts: Facts {
                first_lsn: u64::MAX,
                max_seq: 0,
                flushed_seq,
                entries: 0,
                deletes: 0,
                row_bytes: 0,
            },
        }
    }
}

/// Collects the writes of prepared transactions, each with the sequence of its decision.
fn collect_committed(
    plan: &Plan,
    committed: &[(Prepare, Seq)],
    threads: usize,
) -> Result<Vec<Part>> {
    let collect = |share: &[(Prepare, Seq)]| {
        let mut collector = Collector::new(plan);
        for (prepare, seq) in share {
            collector.committed(prepare, *seq)?;
        }
        Ok(collector.take())
    };
    let threads = threads.min(committed.len().div_ceil(DECIDED_PER_THREAD));
    if threads <= 1 {
        return Ok(vec![collect(committed)?]);
    }
    thread::scope(|scope| {
        let shares = committed.chunks(committed.len().div_ceil(threads));
        let workers: Vec<_> = shares.map(|share| scope.spawn(|| collect(share))).collect();
        let parts = workers
            .into_iter()
            .map(|worker| worker.join().expect("collecting does not panic"));
        parts.collect()
    })
}
