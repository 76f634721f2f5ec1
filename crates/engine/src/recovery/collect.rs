//! Collecting: from records of the log to lists of entries, one list per tree and shard.
//!
//! Neighbours: `esker-wal` hands the records of a task over; `collection` joins what the collectors of all threads
//! have. Each thread has a collector of its own, so nothing is shared here.
//!
//! Rows are not copied: entries point into the buffers of the log, which are kept. If little of what was read last is
//! wanted, rows are copied out instead, so that a few live rows do not keep a dead log in memory.
//!
//! **Invariants**
//! - A write of sequence s to a tree is left out if and only if s is at or below the tree's flushed sequence, or the
//!   tree was dropped. A counter change is left out if and only if s is at or below the sequence the stored counters
//!   stand for, or the tree was dropped.
//! - A record that cannot be decoded is damage, whatever its checksum says.

use std::sync::Arc;

use esker_wal::{BlockSummary, LogBytes, Record, RecordKind};

use super::counts::CounterChanges;
use super::two_phase::{Decision, Prepare, damaged};
use crate::codec::Malformed;
use crate::commit::COUNTERS_TREE;
use crate::commit::record::{CounterChange, Reader, Write};
use crate::replayed::entry::{Bytes, Entry, MAX_BUFFERS, Spot};
use crate::replayed::route::Router;
use crate::tree::{IngestId, Recovered, Tree, Trees};
use crate::{EngineError, Op, Result, Seq, TreeId};

/// Entries of the first piece of a list, and of the largest.
const FIRST_PIECE: usize = 16;
const LARGEST_PIECE: usize = 1024;
/// Rows are copied while less than this share of the buffer before was wanted: three quarters. What is kept must not
/// need more memory than the memtables that the rows come from.
const WANTED_SHARE: (usize, usize) = (3, 4);
/// Sizes of the first buffer for copied rows, and of the largest.
const FIRST_COPIES_BYTES: usize = 16 << 10;
const LARGEST_COPIES_BYTES: usize = 1 << 20;

/// A tree that the log may have something for.
pub(super) struct PlannedTree {
    pub(super) tree: Tree,
    /// Writes up to here are in extents.
    pub(super) flushed_seq: Seq,
    pub(super) router: Arc<Router>,
}

impl PlannedTree {
    /// A tree as one shard.
    fn whole(tree: Tree) -> Self {
        PlannedTree {
            flushed_seq: tree.flushed_seq(),
            router: Arc::default(),
            tree,
        }
    }
}

/// What is wanted of the log.
pub(super) struct Plan {
    /// Ascending by id.
    pub(super) trees: Vec<PlannedTree>,
    /// The counters were stored with the effect of everything up to here.
    pub(super) counters_as_of: Seq,
}

impl Plan {
    /// Everything that is not on disk, without a division of the trees into shards.
    pub(super) fn whole(trees: &Trees, recovered: &Recovered) -> Self {
        let trees: Vec<_> = trees.all().into_iter().map(PlannedTree::whole).collect();
        debug_assert!(trees.is_sorted_by_key(|planned| planned.tree.id()));
        Plan {
            trees,
            counters_as_of: recovered.counters_as_of,
        }
    }

    #[inline]
    fn index_of(&self, tree: TreeId) -> Option<usize> {
        self.trees
            .binary_search_by_key(&tree, |planned| planned.tree.id())
            .ok()
    }

    /// The tree, if its writes of sequence `seq` are wanted.
    #[inline]
    pub(super) fn wanted(&self, tree: TreeId, seq: Seq) -> Option<usize> {
        self.index_of(tree)
            .filter(|index| seq > self.trees[*index].flushed_seq)
    }

    /// Whether a change of the counter with sequence `seq` is wanted.
    pub(super) fn wants_counter(&self, tree: TreeId, seq: Seq) -> bool {
        seq > self.counters_as_of && self.index_of(tree).is_some()
    }

    /// Whether a block has anything that is wanted.
    pub(super) fn wants_block(&self, block: &BlockSummary<'_>) -> bool {
        let point = |tree| Some(self.trees[self.index_of(tree)?].flushed_seq);
        wants_block(block, self.counters_as_of, point)
    }
}

/// Whether a block has anything that a replay wants, if counters are stored as of this sequence and trees have these
/// flushed sequences; `None` for a tree that is not there any more.
pub(crate) fn wants_block(
    block: &BlockSummary<'_>,
    counters_as_of: Seq,
    flushed_seq: impl Fn(TreeId) -> Option<Seq>,
) -> bool {
    let largest = block.seqs.1;
    let stored = |tree: &u32| match TreeId(*tree) {
        COUNTERS_TREE => largest <= counters_as_of,
        tree => flushed_seq(tree).is_none_or(|point| largest <= point),
    };
    // A decision may be about an earlier prepare, so two-phase records are always looked at.
    block.two_phase || !block.trees.is_some_and(|trees| trees.iter().all(stored))
}

/// A list that grows by pieces, so that growing copies nothing.
#[derive(Default)]
struct List {
    full: Vec<Vec<Entry>>,
    open: Vec<Entry>,
}

impl List {
    /// Adds an entry. Gives the bytes that were allocated for it.
    #[inline]
    fn push(&mut self, entry: Entry) -> usize {
        let mut allocated = 0;
        if self.open.len() == self.open.capacity() {
            let capacity = (self.open.capacity() * 2).clamp(FIRST_PIECE, LARGEST_PIECE);
            let full = std::mem::replace(&mut self.open, Vec::with_capacity(capacity));
            if !full.is_empty() {
                self.full.push(full);
            }
            allocated = capacity * size_of::<Entry>();
        }
        debug_assert!(self.open.len() < self.open.capacity());
        self.open.push(entry);
        allocated
    }
}

/// What was collected for a tree.
pub(super) struct TreeLists {
    shards: Box<[List]>,
    pub(super) first_lsn: u64,
    pub(super) max_seq: Seq,
    pub(super) entries: u64,
    pub(super) deletes: u64,
    pub(super) row_bytes: usize,
}

impl TreeLists {
    fn new(shards: usize) -> Self {
        TreeLists {
            shards: (0..shards).map(|_| List::default()).collect(),
            first_lsn: u64::MAX,
            max_seq: 0,
            entries: 0,
            deletes: 0,
            row_bytes: 0,
        }
    }

    /// The pieces of every shard.
    pub(super) fn into_pieces(self) -> impl Iterator<Item = impl Iterator<Item = Vec<Entry>>> {
        self.shards.into_iter().map(|list| {
            let open = (!list.open.is_empty()).then_some(list.open);
            list.full.into_iter().chain(open)
        })
    }
}

/// What a collector leaves behind.
#[derive(Default)]
pub(super) struct Part {
    /// By index in the plan.
    pub(super) trees: Vec<Option<Box<TreeLists>>>,
    pub(super) buffers: Vec<Bytes>,
    pub(super) prepares: Vec<Prepare>,
    pub(super) decisions: Vec<Decision>,
    pub(super) counters: CounterChanges,
    /// Extents that came with a commit, each with its sequence.
    pub(super) ingests: Vec<(Seq, IngestId)>,
    /// Memory: kept buffers and entries.
    pub(super) bytes: usize,
    pub(super) records: u64,
    pub(super) rows: u64,
}

/// The buffer of the log that records come from at the moment.
#[derive(Default)]
struct Source {
    buffer: Option<Arc<LogBytes>>,
    /// Its number among the kept buffers, once it is one.
    number: Option<u32>,
    /// Bytes of wanted rows in it.
    wanted: usize,
    /// Rows of it are copied.
    copies: bool,
}

/// Collects on one thread.
pub(super) struct Collector<'a> {
    plan: &'a Plan,
    part: Part,
    source: Source,
    /// The buffer that takes copies: the last one of the kept buffers, if it is one.
    copies: Option<usize>,
}

impl<'a> Collector<'a> {
    pub(super) fn new(plan: &'a Plan) -> Self {
        Collector {
            plan,
            part: Part::default(),
            source: Source::default(),
            copies: None,
        }
    }

    /// Memory of what was collected since the last [`Collector::take`].
    pub(super) fn bytes(&self) -> usize {
        self.part.bytes
    }

    pub(super) fn records(&self) -> u64 {
        self.part.records
    }

    pub(super) fn rows(&self) -> u64 {
        self.part.rows
    }

    /// A task of the log is over.
    pub(super) fn end_task(&mut self) {
        self.part.counters.end_task();
    }

    /// What was collected; the collector is as new.
    pub(super) fn take(&mut self) -> Part {
        self.source = Source::default();
        self.copies = None;
        std::mem::take(&mut self.part)
    }

    /// Takes the next record.
    pub(super) fn record(&mut self, record: &Record<'_>) -> Result<()> {
        self.part.records += 1;
        self.apply(record)
            .map_err(|what| damaged(record.start.0, what))
    }

    fn apply(&mut self, record: &Record<'_>) -> Result<(), Malformed> {
        let (start, seq) = (record.start.0, record.end.0);
        match record.kind {
            RecordKind::Commit => {
                let mut reader = Reader::new(record.payload)?;
                self.raise_counters(&mut reader, seq)?;
                self.enter(record.buffer);
                let (share, of) = WANTED_SHARE;
                let content = record.payload.len() - reader.attachment().len();
                let origin = match content < record.payload.len() / of * share {
                    // Rows that stay where they are keep the attachment beside them in memory.
                    true => Origin::Elsewhere,
                    false => Origin::Log {
                        base: record.payload_range().start,
                    },
                };
                self.writes(&mut reader, start, seq, origin)?;
                self.part
                    .ingests
                    .extend(reader.ingest()?.map(|ingest| (seq, ingest)));
                Ok(())
            }
            RecordKind::Prepare => {
                let range = record.payload_range();
                let (prepare, mut reader) = Prepare::read(record.buffer, range, start, seq)?;
                let kept = prepare.bytes();
                self.part.bytes += kept;
                let (share, of) = WANTED_SHARE;
                let is_alone = kept >= record.buffer.len() / of * share;
                // A small piece would keep all of the buffer, and nobody counts that.
                self.part.prepares.push(match is_alone {
                    true => prepare,
                    false => prepare.alone(),
                });
                self.raise_counters(&mut reader, seq)
            }
            RecordKind::CommitPrepared | RecordKind::RollbackPrepared => {
                let commits = record.kind == RecordKind::CommitPrepared;
                let decision = Decision::read(record.payload, start, seq, commits)?;
                let ingest = decision.ingest.map(|ingest| (seq, ingest));
                self.part.ingests.extend(ingest);
                self.part.decisions.push(decision);
                Ok(())
            }
            RecordKind::CounterSet => {
                let mut reader = Reader::new(record.payload)?;
                let (how, tree, value) = reader.counter_change()?;
                reader.finish()?;
                self.change_counter(how, tree, value, seq);
                Ok(())
            }
            RecordKind::Noop | RecordKind::Note => Ok(()),
        }
    }

    fn raise_counters(&mut self, reader: &mut Reader<'_>, seq: Seq) -> Result<(), Malformed> {
        reader.counters(|tree, value| {
            self.change_counter(CounterChange::Raise, tree, value, seq);
        })
    }

    fn change_counter(&mut self, how: CounterChange, tree: TreeId, value: u64, seq: Seq) {
        if self.plan.wants_counter(tree, seq) {
            self.part.counters.add(how, tree, value, seq);
        }
    }

    /// Collects the writes of a prepared transaction that was committed with sequence `seq`. They are copied.
    pub(super) fn committed(&mut self, prepare: &Prepare, seq: Seq) -> Result<(), EngineError> {
        let collected = prepare.writes().and_then(|mut reader| {
            self.writes(&mut reader, prepare.start, seq, Origin::Elsewhere)?;
            // The decision has brought them.
            reader.ingest().map(drop)
        });
        collected.map_err(|what| prepare.damaged(what))
    }

    /// The next records come from this buffer.
    #[inline]
    fn enter(&mut self, buffer: &Arc<LogBytes>) {
        let current = self.source.buffer.as_ref();
        if current.is_none_or(|current| !Arc::ptr_eq(current, buffer)) {
            self.change_buffer(buffer);
        }
    }

    #[cold]
    fn change_buffer(&mut self, buffer: &Arc<LogBytes>) {
        let (share, of) = WANTED_SHARE;
        let copies = match &self.source.buffer {
            Some(before) => self.source.wanted < before.len() / of * share,
            // Not known yet: then copying costs least if it is wrong.
            None => true,
        };
        self.source = Source {
            // Rows far behind in a very large buffer have no place in an entry.
            copies: copies || buffer.len() > u32::MAX as usize,
            buffer: Some(Arc::clone(buffer)),
            number: None,
            wanted: 0,
        };
    }

    fn writes(
        &mut self,
        reader: &mut Reader<'_>,
        start: u64,
        seq: Seq,
        origin: Origin,
    ) -> Result<(), Malformed> {
        for _ in 0..reader.trees()? {
            let (tree, writes) = reader.tree_writes()?;
            let Some(index) = self.plan.wanted(tree, seq) else {
                for _ in 0..writes {
                    reader.write()?;
                }
                continue;
            };
            let router = &*self.plan.trees[index].router;
            self.part.rows += writes;
            let mut lists = self.lists(index);
            lists.first_lsn = lists.first_lsn.min(start);
            lists.max_seq = lists.max_seq.max(seq);
            for _ in 0..writes {
                let write = reader.write()?;
                let spot = self.spot(&write, origin);
                let route = router.route(write.key);
                debug_assert!(route.strip <= write.key.len());
                lists.entries += 1;
                lists.deletes += u64::from(write.op == Op::Delete);
                lists.row_bytes += write.encoded.len();
                let entry = Entry::new(&write.key[route.strip..], seq, spot);
                self.part.bytes += lists.shards[route.shard].push(entry);
            }
            debug_assert!(lists.deletes <= lists.entries && lists.first_lsn < lists.max_seq);
            self.part.trees[index] = Some(lists);
        }
        Ok(())
    }

    /// The lists of a tree, to be put back.
    #[inline]
    fn lists(&mut self, index: usize) -> Box<TreeLists> {
        if self.part.trees.is_empty() {
            self.part.trees.resize_with(self.plan.trees.len(), || None);
        }
        debug_assert_eq!(self.part.trees.len(), self.plan.trees.len());
        let shards = || self.plan.trees[index].router.shards();
        self.part.trees[index]
            .take()
            .unwrap_or_else(|| Box::new(TreeLists::new(shards())))
    }

    /// Where the write is to be found from now on.
    #[inline]
    fn spot(&mut self, write: &Write<'_>, origin: Origin) -> Spot {
        let Origin::Log { base } = origin else {
            return self.copy(write.encoded);
        };
        self.source.wanted += write.encoded.len();
        if self.source.copies {
            return self.copy(write.encoded);
        }
        Spot {
            buffer: match self.source.number {
                Some(number) => number,
                None => self.keep_source(),
            },
            offset: (base + write.offset) as u32,
        }
    }

    #[cold]
    fn keep_source(&mut self) -> u32 {
        let buffer = self.source.buffer.clone().expect("records have a buffer");
        let number = self.keep(Bytes::Log(buffer));
        self.source.number = Some(number);
        number
    }

    fn keep(&mut self, bytes: Bytes) -> u32 {
        let number = self.part.buffers.len();
        assert!(number < MAX_BUFFERS, "a collection has fewer buffers");
        self.part.bytes += bytes.capacity();
        self.part.buffers.push(bytes);
        number as u32
    }

    fn copy(&mut self, row: &[u8]) -> Spot {
        let number = match self.copies {
            Some(number) if self.part.buffers[number].room() >= row.len() => number,
            earlier => {
                let before = earlier.map_or(0, |number| self.part.buffers[number].capacity());
                let usual = (before * 2).clamp(FIRST_COPIES_BYTES, LARGEST_COPIES_BYTES);
                let bytes = Bytes::Copied(Vec::with_capacity(usual.max(row.len())));
                let number = self.keep(bytes) as usize;
                self.copies = Some(number);
                number
            }
        };
        debug_assert!(self.part.buffers[number].room() >= row.len());
        let offset = self.part.buffers[number].append(row);
        Spot {
            buffer: number as u32,
            offset: offset as u32,
        }
    }
}

/// Where the writes at hand stand.
#[derive(Clone, Copy)]
enum Origin {
    /// In the source buffer, in a payload that begins at `base`.
    Log {
        base: usize,
    },
    Elsewhere,
}
