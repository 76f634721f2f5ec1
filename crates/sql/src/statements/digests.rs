//! Statements by digest: by database and text without literals.
//!
//! Neighbours: sessions keep the digests they met and add to them; PERFORMANCE_SCHEMA lists them.
//! **Invariants**: a digest stays the same object until the table is emptied, which raises the generation: a session
//! that kept digests of an earlier one forgets them. Time spent here is paid by every statement.

use esker_types::hex::lower_hex;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};

use parking_lot::{Mutex, RwLock};
use sha2::{Digest as _, Sha256};

use super::histogram::BUCKETS;
use super::{Histogram, MAX_DIGESTS, MAX_TEXT, Measured, Sums, beginning};

/// Parts of a digest's sums; sessions are spread over them.
const SHARDS: usize = 16;

/// A digest's sums of some sessions, on cache lines of their own.
#[derive(Default)]
#[repr(align(64))]
struct Shard(Mutex<Option<Box<Part>>>);

#[derive(Default)]
struct Part {
    sums: Sums,
    histogram: Histogram,
}

/// The slowest statement with a digest.
#[derive(Debug, Clone, Default)]
pub(crate) struct Sample {
    /// Its text.
    pub(crate) text: String,
    /// When it began, microseconds since the epoch.
    pub(crate) began: i64,
    /// How long it took, microseconds.
    pub(crate) micros: u64,
}

/// Statements of one text in one database.
pub(crate) struct Digest {
    /// The database; None for none, and for the entry of all that have no other.
    pub(crate) schema: Option<Arc<str>>,
    /// The text without literals; None for the entry of all that have no other.
    pub(crate) text: Option<Box<str>>,
    shards: [Shard; SHARDS],
    first_seen: AtomicI64,
    last_seen: AtomicI64,
    /// [`Sample::micros`], to be looked at without the lock.
    slowest: AtomicU64,
    sample: Mutex<Sample>,
}

impl Digest {
    fn new(schema: Option<Arc<str>>, text: Option<Box<str>>) -> Self {
        Self {
            schema,
            text,
            shards: Default::default(),
            first_seen: AtomicI64::new(i64::MAX),
            last_seen: AtomicI64::new(0),
            slowest: AtomicU64::new(0),
            sample: Mutex::default(),
        }
    }

    /// Adds a statement of a session; `text` is asked for only if it becomes the sample.
    pub(crate) fn add(&self, session: u64, one: &Measured, text: &dyn Fn() -> String) {
        let shard = &self.shards[session as usize % SHARDS];
        let mut part = shard.0.lock();
        let part = part.get_or_insert_default();
        part.sums.add(one);
        part.histogram.add(one.micros);
        let first = part.sums.count == 1;
        if first {
            self.first_seen.fetch_min(one.began, Ordering::Relaxed);
        }
        let ended = one.began.saturating_add_unsigned(one.micros);
        // One write in a while is exact enough, and leaves the cache line to readers.
        if ended - self.last_seen.load(Ordering::Relaxed) > 1000 {
            self.last_seen.fetch_max(ended, Ordering::Relaxed);
        }
        if first && self.slowest.load(Ordering::Relaxed) == 0
            || one.micros > self.slowest.load(Ordering::Relaxed)
        {
            self.keep_sample(one, text());
        }
    }

    /// What it takes in memory, about.
    fn bytes(&self) -> usize {
        let text = self.text.as_ref().map_or(0, |text| text.len());
        let is_used = |shard: &&Shard| shard.0.lock().is_some();
        let parts = self.shards.iter().filter(is_used).count();
        let sample = self.sample.lock().text.capacity();
        size_of::<Self>() + text + sample + parts * size_of::<Part>()
    }

    #[cold]
    fn keep_sample(&self, one: &Measured, text: String) {
        let mut sample = self.sample.lock();
        if one.micros < sample.micros {
            return;
        }
        self.slowest.store(one.micros.max(1), Ordering::Relaxed);
        *sample = Sample {
            text: beginning(&text).to_owned(),
            began: one.began,
            micros: one.micros,
        };
    }

    /// What has been added up.
    pub(crate) fn row(&self) -> DigestRow {
        let mut row = DigestRow {
            sums: Sums::default(),
            buckets: vec![0; BUCKETS],
            first_seen: self.first_seen.load(Ordering::Relaxed),
            last_seen: self.last_seen.load(Ordering::Relaxed),
            sample: self.sample.lock().clone(),
        };
        for shard in &self.shards {
            if let Some(part) = &*shard.0.lock() {
                row.sums.merge(&part.sums);
                part.histogram.add_to(&mut row.buckets);
            }
        }
        row
    }

    /// The hash that stands for the text, in hexadecimal digits.
    pub(crate) fn hash(&self) -> Option<String> {
        let hash = Sha256::digest(self.text.as_ref()?.as_bytes());
        Some(lower_hex(&hash))
    }
}

/// The sums of a digest at one moment.
pub(crate) struct DigestRow {
    /// Sums.
    pub(crate) sums: Sums,
    /// Statements by bucket of latency.
    pub(crate) buckets: Vec<u64>,
    /// When the first began, microseconds since the epoch.
    pub(crate) first_seen: i64,
    /// When the last ended, within a millisecond.
    pub(crate) last_seen: i64,
    /// The slowest.
    pub(crate) sample: Sample,
}

type Key = (Option<Arc<str>>, Box<str>);

/// All digests.
pub(crate) struct Digests {
    entries: RwLock<HashMap<Key, Arc<Digest>>>,
    /// For statements that have no digest of their own because there are too many.
    others: RwLock<Arc<Digest>>,
    generation: AtomicU64,
    is_on: AtomicBool,
}

impl Default for Digests {
    fn default() -> Self {
        Self {
            entries: RwLock::default(),
            others: RwLock::new(Arc::new(Digest::new(None, None))),
            generation: AtomicU64::new(0),
            is_on: AtomicBool::new(true),
        }
    }
}

impl Digests {
    /// Are statements measured?
    pub(crate) fn is_on(&self) -> bool {
        self.is_on.load(Ordering::Relaxed)
    }

    /// Statements that begin from now on are measured, or not.
    pub(crate) fn switch(&self, on: bool) {
        self.is_on.store(on, Ordering::Relaxed);
    }

    /// Grows when the table is emptied.
    pub(crate) fn generation(&self) -> u64 {
        self.generation.load(Ordering::Relaxed)
    }

    /// The digest of a text without literals.
    pub(crate) fn digest(&self, schema: Option<&Arc<str>>, text: &str) -> Arc<Digest> {
        let key: Key = (schema.cloned(), beginning(text).into());
        if let Some(found) = self.entries.read().get(&key) {
            return found.clone();
        }
        let mut entries = self.entries.write();
        if entries.len() >= MAX_DIGESTS && !entries.contains_key(&key) {
            return self.others.read().clone();
        }
        let new = || Arc::new(Digest::new(key.0.clone(), Some(key.1.clone())));
        let digest = entries.entry(key.clone()).or_insert_with(new).clone();
        debug_assert!(digest.text.as_ref().is_some_and(|t| t.len() <= MAX_TEXT));
        digest
    }

    /// Every digest that something was added to.
    pub(crate) fn all(&self) -> Vec<(Arc<Digest>, DigestRow)> {
        let mut all: Vec<Arc<Digest>> = self.entries.read().values().cloned().collect();
        all.push(self.others.read().clone());
        let rows = all.into_iter().map(|digest| {
            let row = digest.row();
            (digest, row)
        });
        rows.filter(|(_, row)| row.sums.count > 0).collect()
    }

    /// How many there are, and what they take in memory, about.
    pub(crate) fn memory(&self) -> (usize, usize) {
        let entries = self.entries.read();
        let bytes = entries.values().map(|digest| digest.bytes());
        (entries.len(), bytes.sum())
    }

    /// Forgets everything.
    pub(crate) fn clear(&self) {
        let mut entries = self.entries.write();
        entries.clear();
        *self.others.write() = Arc::new(Digest::new(None, None));
        self.generation.fetch_add(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::super::sums::sample;
    use super::*;

    #[test]
    fn sums_of_all_sessions_are_one_row() {
        let digests = Digests::default();
        let schema: Arc<str> = "d".into();
        let digest = digests.digest(Some(&schema), "SELECT ?");
        assert!(Arc::ptr_eq(
            &digest,
            &digests.digest(Some(&schema), "SELECT ?")
        ));
        assert!(!Arc::ptr_eq(&digest, &digests.digest(None, "SELECT ?")));
        for session in 0..40 {
            digest.add(session, &sample(session), &|| format!("SELECT {session}"));
        }
        let all = digests.all();
        assert_eq!(all.len(), 1, "the one without a database has no statements");
        let row = &all[0].1;
        assert_eq!((row.sums.count, row.sums.max), (40, 39));
        assert_eq!(row.sample.text, "SELECT 39");
        assert_eq!(row.buckets.iter().sum::<u64>(), 40);
        let generation = digests.generation();
        digests.clear();
        assert!(digests.all().is_empty() && digests.generation() > generation);
    }

    #[test]
    fn too_many_texts_share_an_entry() {
        let digests = Digests::default();
        for nth in 0..MAX_DIGESTS + 2 {
            let digest = digests.digest(None, &format!("SELECT `a{nth}`"));
            assert_eq!(digest.text.is_none(), nth >= MAX_DIGESTS);
        }
    }
}
