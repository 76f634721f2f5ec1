//! The data of `esker bench recovery`: a directory as a crash leaves it, and what a restart has to find in it.
//!
//! Neighbours: `recovery` makes it once; `restart` opens copies of it and checks what it finds against
//! [`Content`].
//!
//! A part of the log can be dead: rows of a tree of their own, which are in extents. One row of a live tree before
//! them keeps the log from being released.
//!
//! **Invariants**
//! - The same settings give the same keys and values, in the same order.
//! - No memtable of a live tree is flushed, so everything live is in the log and nowhere else.

use std::hash::{DefaultHasher, Hasher};
use std::path::Path;

use esker_engine::{Engine, EngineConfig, Isolation, Mode, PreparedId, Tree, Txn};
use esker_vfs::Env;
use esker_vfs::sim::SimRng;

use crate::{Error, Progress, Result};

/// Bytes of a key, as `db_bench` has them by default.
pub(super) const KEY_BYTES: usize = 16;
/// Bytes of a record beside key and value, roughly: to tell how many rows a share of the log has.
const RECORD_BYTES: u64 = 24;
/// The log buffer while data are written; a flush comes before a quarter of it is full.
const BUFFER_BYTES: usize = 64 << 20;
/// Largest and smallest memtable of what is flushed: little of it is left unflushed.
const DEAD_MEMTABLES: (u64, u64) = (16 << 10, 32 << 20);
/// Memtables that are flushed of what is to be dead.
const DEAD_PARTS: u64 = 64;
/// Rows of a dead transaction.
const DEAD_BATCH: u64 = 100;
/// Rows between two lines of progress.
const PROGRESS_ROWS: u64 = 100_000;

/// In which order rows were written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Order {
    /// Each key is larger than the one before.
    Sequential,
    /// Keys come in no order.
    Random,
}

/// What the log holds.
#[derive(Debug, Clone)]
pub struct Shape {
    /// Live rows.
    pub rows: u64,
    /// Bytes of a value.
    pub value_bytes: u64,
    /// Percent of the log's bytes that are dead.
    pub dead: u64,
    /// Percent of the transactions that were prepared and then committed.
    pub two_phase: u64,
    /// Transactions that are prepared and not decided, with one row each.
    pub prepared: u64,
    /// Trees beside the rows' own, with one entry for each row.
    pub indexes: u64,
    /// The order of the rows' keys; indexes' keys are in none.
    pub order: Order,
    /// Rows of a transaction.
    pub batch: u64,
    /// Bytes of log between two flushes.
    pub group_bytes: u64,
    /// Of the random numbers.
    pub seed: u64,
}

/// What a restart has to bring back.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Content {
    /// Versions in all trees.
    pub entries: u64,
    /// A sum over all of them, whatever their order.
    pub checksum: u64,
}

impl Content {
    /// Adds an entry.
    pub(super) fn add(&mut self, tree: TreeNumber, key: &[u8], value: &[u8]) {
        let mut hasher = DefaultHasher::new();
        hasher.write_u32(tree);
        hasher.write(key);
        hasher.write(value);
        self.entries += 1;
        self.checksum = self.checksum.wrapping_add(hasher.finish());
    }
}

/// The number of a tree in a checksum.
pub(super) type TreeNumber = u32;

impl Shape {
    /// Dead rows beside the live ones.
    pub(super) fn dead_rows(&self) -> u64 {
        let row = KEY_BYTES as u64 + self.value_bytes + RECORD_BYTES;
        let index = self.indexes * (KEY_BYTES as u64 + RECORD_BYTES / 2);
        let live = self.rows * (row + index);
        live * self.dead / (100 - self.dead) / row
    }

    /// Bytes of log between two flushes, as far as the buffer allows.
    fn group(&self) -> u64 {
        self.group_bytes.min(BUFFER_BYTES as u64 / 4)
    }

    fn key(&self, row: u64) -> [u8; KEY_BYTES] {
        let number = match self.order {
            Order::Sequential => row,
            Order::Random => mix(row ^ self.seed),
        };
        let mut key = [b'0'; KEY_BYTES];
        key[..8].copy_from_slice(&number.to_be_bytes());
        key
    }

    /// The key of a row that is there, to be asked for first.
    pub(super) fn middle_key(&self) -> [u8; KEY_BYTES] {
        self.key(self.rows / 2)
    }
}

/// A bijection that leaves no order (the finalizer of SplitMix64: Steele, Lea, Flood, "Fast splittable pseudorandom
/// number generators", OOPSLA 2014).
fn mix(number: u64) -> u64 {
    let z = number.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// Fills `value` from the row's number.
fn fill(value: &mut [u8], row: u64) {
    for (index, piece) in value.chunks_mut(8).enumerate() {
        let word = mix(row.wrapping_add((index as u64) << 40)).to_le_bytes();
        piece.copy_from_slice(&word[..piece.len()]);
    }
}

/// The configuration with which data are written and, unless told otherwise, found again: nothing is flushed.
pub(super) fn config(dir: &Path, memory_bytes: usize) -> EngineConfig {
    let mut config = EngineConfig::new(dir);
    config.memory_limit = memory_bytes;
    config.memtable_bytes = memory_bytes;
    config.log_limit_bytes = 1 << 40;
    config.log_buffer_bytes = BUFFER_BYTES;
    config
}

/// Writes the data into `dir` and leaves them as if the process had been killed.
pub(super) fn write(
    shape: &Shape,
    dir: &Path,
    memory_bytes: usize,
    progress: Progress<'_>,
) -> Result<Content> {
    let mut content = Content::default();
    write_dead(shape, dir, memory_bytes, &mut content, progress)?;
    let mut config = config(dir, memory_bytes);
    config.mode = Mode::Manual;
    let engine = Engine::open(Env::os(), config)?;
    let trees: Vec<Tree> = engine
        .tree_ids()
        .into_iter()
        .filter_map(|id| engine.tree(id))
        .collect();
    let mut writer = Writer::new(&engine, shape, &mut content);
    for row in 0..shape.rows {
        writer.put_row(&trees[1..], row)?;
        if row % PROGRESS_ROWS == 0 {
            progress(&format!("writing rows: {row} of {}", shape.rows));
        }
    }
    writer.prepare_some(&trees[1])?;
    engine.flush_log()?;
    if engine.stats().storage.work.flushes > 0 {
        let text = "the rows do not fit into memory; raise --memory-mib";
        return Err(Error::Restart(text.to_owned()));
    }
    Ok(content)
}

/// Makes the trees, pins the log with one row, and writes what is to be dead.
fn write_dead(
    shape: &Shape,
    dir: &Path,
    memory_bytes: usize,
    content: &mut Content,
    progress: Progress<'_>,
) -> Result<()> {
    let rows = shape.dead_rows();
    let mut config = config(dir, memory_bytes);
    config.mode = Mode::Manual;
    let bytes = rows * (KEY_BYTES as u64 + shape.value_bytes) / DEAD_PARTS;
    config.memtable_bytes = bytes.clamp(DEAD_MEMTABLES.0, DEAD_MEMTABLES.1) as usize;
    let engine = Engine::open(Env::os(), config)?;
    let dead = engine.create_tree()?;
    let live = engine.create_tree()?;
    for _ in 0..shape.indexes {
        engine.create_tree()?;
    }
    let mut txn = engine.begin(Isolation::ReadCommitted);
    let pin = [0xFF; KEY_BYTES];
    txn.put(&live, &pin, b"pin")?;
    content.add(1, &pin, b"pin");
    let mut flushed = txn.commit()?.seq.unwrap_or(0);
    let mut value = vec![0; shape.value_bytes as usize];
    for row in 0..rows {
        let key = shape.key(row);
        fill(&mut value, row);
        txn.put(&dead, &key, &value)?;
        content.add(0, &key, &value);
        if txn.write_count() == DEAD_BATCH {
            let end = txn.commit()?.seq.unwrap_or(flushed);
            if end - flushed >= shape.group() {
                engine.flush_log()?;
                while engine.maintain()? {}
                flushed = end;
            }
        }
        if row % PROGRESS_ROWS == 0 {
            progress(&format!("writing dead rows: {row} of {rows}"));
        }
    }
    // Durable with the flush.
    let _ = txn.commit()?;
    engine.flush_log()?;
    while engine.maintain()? {}
    Ok(())
}

/// Writes live rows.
struct Writer<'a> {
    engine: &'a Engine,
    shape: &'a Shape,
    content: &'a mut Content,
    txn: Txn,
    rng: SimRng,
    value: Vec<u8>,
    /// Transactions so far.
    transactions: u64,
    /// The log was flushed up to here.
    flushed: u64,
}

impl<'a> Writer<'a> {
    fn new(engine: &'a Engine, shape: &'a Shape, content: &'a mut Content) -> Self {
        Writer {
            engine,
            shape,
            content,
            txn: engine.begin(Isolation::ReadCommitted),
            rng: SimRng::new(shape.seed),
            value: vec![0; shape.value_bytes as usize],
            transactions: 0,
            flushed: engine.stats().log_end,
        }
    }

    /// Puts a row into its tree and the indexes, and commits when the transaction has enough.
    fn put_row(&mut self, trees: &[Tree], row: u64) -> Result<()> {
        let key = self.shape.key(row);
        fill(&mut self.value, row);
        self.txn.put(&trees[0], &key, &self.value)?;
        self.content.add(1, &key, &self.value);
        for (index, tree) in trees[1..].iter().enumerate() {
            let mut entry = [0; KEY_BYTES];
            entry[..8].copy_from_slice(&mix(row ^ (index as u64 + 1) << 48).to_be_bytes());
            entry[8..].copy_from_slice(&key[..8]);
            self.txn.put(tree, &entry, &[])?;
            self.content.add(2 + index as u32, &entry, &[]);
        }
        if (row + 1).is_multiple_of(self.shape.batch) || row + 1 == self.shape.rows {
            self.commit()?;
        }
        Ok(())
    }

    fn commit(&mut self) -> Result<()> {
        self.transactions += 1;
        let end = if self.rng.below(100) < self.shape.two_phase {
            let xid = self.transactions.to_be_bytes();
            self.txn.prepare(&PreparedId::xa(&xid))?;
            self.engine.commit_prepared(&PreparedId::xa(&xid), &[])?.seq
        } else {
            self.txn.commit()?.seq
        };
        let end = end.unwrap_or(self.flushed);
        if end - self.flushed >= self.shape.group() {
            self.engine.flush_log()?;
            self.flushed = end;
        }
        Ok(())
    }

    /// Transactions that stay prepared.
    fn prepare_some(&mut self, tree: &Tree) -> Result<()> {
        for number in 0..self.shape.prepared {
            let mut key = [0xFE; KEY_BYTES];
            key[8..].copy_from_slice(&number.to_be_bytes());
            self.txn.put(tree, &key, &self.value)?;
            let mut xid = *b"undecided-........";
            xid[10..].copy_from_slice(&number.to_be_bytes());
            self.txn.prepare(&PreparedId::xa(&xid))?;
        }
        Ok(())
    }
}
