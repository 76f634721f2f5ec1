//! Index statistics by sampling: how many entries share a key prefix.
//!
//! Neighbours: `plan::access` weighs paths of joins with them; the session and tests take them through
//! [`TableRuntime::sample`].
//! **Invariants**: a sample never decides what is true, only how it is found; it is taken anew when the
//! index has grown or shrunk by half, so its cost per change is bounded.

use std::collections::HashMap;
use std::ops::Bound;
use std::sync::Arc;

use esker_engine::{Direction, Engine, Isolation, Near, Tree, TreeId, View};
use parking_lot::Mutex;

use super::{IndexDef, TableDef, TableRuntime};
use crate::codec::KeyCodec;

/// Places of an index that are looked at.
const PLACES: u64 = 32;
/// Entries at each, at least and at most; a run ends where the first part changes.
const SHORT_RUN: u64 = 64;
const LONG_RUN: u64 = 2048;
/// Entries up to which all are looked at, and most that are looked at in a larger index.
const WHOLE: f64 = (PLACES * SHORT_RUN) as f64;
const MOST: u64 = 16_384;
/// Deletes that are stepped over for an entry, and for all of a small index. A sample is for plans: it must not take
/// longer than they save where all has just been deleted.
const PATIENCE: u64 = 1024;
const WHOLE_PATIENCE: u64 = PLACES * PATIENCE;

/// What a sample says of an index.
#[derive(Debug)]
pub struct IndexSample {
    /// Entries when it was taken.
    entries: f64,
    /// Entries per distinct value of the first 1, 2, … parts.
    per_prefix: Vec<f64>,
    /// Different values of the first part as keys have them: some of those that were met.
    firsts: Vec<Box<[u8]>>,
}

/// Samples of a table's indexes.
pub(super) type Samples = Mutex<HashMap<TreeId, Arc<IndexSample>>>;

impl TableRuntime {
    /// The sample of an index, `entries` being about what it has. `None` for an empty index and where
    /// reading fails: then there is no estimate.
    pub fn sample(
        &self,
        engine: &Engine,
        def: &TableDef,
        index: usize,
        entries: f64,
    ) -> Option<Arc<IndexSample>> {
        let index = &def.indexes[index];
        let known = self.samples.lock().get(&index.tree.id()).cloned();
        if let Some(sample) = known.filter(|s| s.is_of(entries)) {
            return Some(sample);
        }
        let sample = Arc::new(IndexSample::take(engine, index, entries)?);
        let mut samples = self.samples.lock();
        samples.retain(|id, _| def.indexes.iter().any(|i| i.tree.id() == *id));
        samples.insert(index.tree.id(), sample.clone());
        Some(sample)
    }
}

impl TableRuntime {
    /// ANALYZE TABLE: takes the samples of all indexes anew; `entries` says about how many a tree has. One that cannot
    /// be read keeps the sample it had.
    pub fn resample(&self, engine: &Engine, def: &TableDef, entries: impl Fn(&Tree) -> f64) {
        for index in def.ordered().iter().filter(|index| !index.parts.is_empty()) {
            let entries = entries(&index.tree);
            if let Some(sample) = IndexSample::take(engine, index, entries) {
                let mut samples = self.samples.lock();
                samples.insert(index.tree.id(), Arc::new(sample));
            }
        }
    }
}

impl IndexSample {
    /// Does it still speak of an index of that many entries?
    fn is_of(&self, entries: f64) -> bool {
        (self.entries * 0.5 - 100.0..=self.entries * 2.0 + 100.0).contains(&entries)
    }

    /// Entries per distinct value of the first `parts` parts.
    pub fn per_prefix(&self, parts: usize) -> Option<f64> {
        self.per_prefix.get(parts.checked_sub(1)?).copied()
    }

    /// Some values of the first part, as keys have them.
    pub fn firsts(&self) -> &[Box<[u8]>] {
        &self.firsts
    }

    fn take(engine: &Engine, index: &IndexDef, entries: f64) -> Option<Self> {
        let txn = engine.begin(Isolation::ReadCommitted);
        let end = |direction| -> Option<Box<[u8]>> {
            let all = Bound::Unbounded;
            let mut cursor = txn
                .scan(&index.tree, all, all, direction, View::Latest)
                .ok()?;
            match cursor.next_within(PATIENCE).ok()? {
                // Only for places between the ends: a key that is gone will do.
                Near::Row(key, _) | Near::Deleted(key) => Some(key.into()),
                Near::End => None,
            }
        };
        let (low, high) = (end(Direction::Forward)?, end(Direction::Backward)?);
        let mut counts = Counts::new(index);
        let read = |from: &[u8], whole: bool, counts: &mut Counts<'_>| -> Option<()> {
            counts.start_run();
            let tree: &Tree = &index.tree;
            let from = Bound::Included(from);
            let mut cursor = txn
                .scan(
                    tree,
                    from,
                    Bound::Unbounded,
                    Direction::Forward,
                    View::Latest,
                )
                .ok()?;
            let patience = if whole { WHOLE_PATIENCE } else { PATIENCE };
            while whole || counts.wants_more() {
                let Near::Row(key, _) = cursor.next_within(patience).ok()? else {
                    break;
                };
                counts.add(key);
            }
            Some(())
        };
        if entries <= WHOLE {
            read(&low, true, &mut counts)?;
        } else {
            let shared = common(&low, &high);
            let (first, last) = (number_behind(&low, shared), number_behind(&high, shared));
            for nth in 0..PLACES {
                let at = first + (last - first) / PLACES * nth;
                let mut from = low[..shared].to_vec();
                from.extend_from_slice(&at.to_be_bytes());
                read(&from, false, &mut counts)?;
            }
        }
        let per_prefix = counts.per_prefix(entries);
        Some(Self {
            entries,
            per_prefix,
            firsts: counts.firsts,
        })
    }
}

/// Where between two keys (0 to 1) a third one lies, taken as numbers.
pub(super) fn place_between(low: &[u8], high: &[u8], key: &[u8]) -> f64 {
    if key <= low {
        return 0.0;
    }
    if key >= high {
        return 1.0;
    }
    let shared = common(low, high);
    let number = |key| number_behind(key, shared) as f64;
    let (low, high, at) = (number(low), number(high), number(key));
    (at - low) / (high - low).max(1.0)
}

/// Bytes that two keys have in common.
fn common(a: &[u8], b: &[u8]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

/// The eight bytes from `at` on as a number.
fn number_behind(key: &[u8], at: usize) -> u64 {
    let mut bytes = [0; 8];
    for (to, from) in bytes.iter_mut().zip(key.iter().skip(at)) {
        *to = *from;
    }
    u64::from_be_bytes(bytes)
}

/// Neighbouring keys that were seen, and how often a prefix changed.
struct Counts<'i> {
    codec: &'i KeyCodec,
    parts: usize,
    before: Vec<u8>,
    pairs: u64,
    runs: u64,
    /// Pairs in this run, and whether the last one was a change of the first part.
    run: (u64, bool),
    /// By number of parts less one.
    changes: Vec<u64>,
    /// Values of the first part.
    firsts: Vec<Box<[u8]>>,
}

impl<'i> Counts<'i> {
    fn new(index: &'i IndexDef) -> Self {
        let parts = index.parts.len();
        Self {
            codec: &index.codec,
            parts,
            before: Vec::new(),
            pairs: 0,
            runs: 0,
            run: (0, false),
            changes: vec![0; parts],
            firsts: Vec::new(),
        }
    }

    fn start_run(&mut self) {
        self.before.clear();
        self.runs += 1;
        self.run = (0, false);
    }

    /// Should the run go on? A place is where a value begins as often as not; so that values are
    /// counted whole, the run ends where one ends.
    fn wants_more(&self) -> bool {
        let (pairs, changed) = self.run;
        self.pairs < MOST && (pairs < SHORT_RUN || (!changed && pairs < LONG_RUN))
    }

    fn add(&mut self, key: &[u8]) {
        let is_first = self.before.is_empty();
        if !is_first {
            self.pairs += 1;
            let before = self.changes[0];
            let same = common(&self.before, key);
            let mut end = 0;
            for nth in 0..self.parts {
                let Some(length) = self.codec.part_len(nth, &key[end..]) else {
                    break;
                };
                end += length;
                self.changes[nth] += u64::from(end > same);
            }
            self.run = (self.run.0 + 1, self.changes[0] > before);
        }
        if is_first || self.run.1 {
            self.note_first(key);
        }
        self.before.clear();
        self.before.extend_from_slice(key);
    }

    /// Keeps the first part of a key with which it changed.
    fn note_first(&mut self, key: &[u8]) {
        let first = self.codec.part_len(0, key).map_or(key, |len| &key[..len]);
        let is_known = self.firsts.last().is_some_and(|last| **last == *first);
        if !is_known && self.firsts.len() < PLACES as usize {
            self.firsts.push(first.into());
        }
    }

    fn per_prefix(&self, entries: f64) -> Vec<f64> {
        let pairs = self.pairs as f64;
        let per = |changes: &u64| match (*changes, self.runs) {
            // Nothing changed in any run: every place may have its own value, or all the same.
            (0, runs) => (entries / runs as f64)
                .max(pairs + 1.0)
                .min(entries.max(1.0)),
            // All was read: that many values and one.
            (changes, 1) => (pairs + 1.0) / (changes as f64 + 1.0),
            (changes, _) => pairs / changes as f64,
        };
        self.changes.iter().map(per).collect()
    }
}
