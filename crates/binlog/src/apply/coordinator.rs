//! Which worker gets a transaction, and when: the five ways to apply in parallel.
//!
//! | mode | a transaction waits for |
//! |---|---|
//! | SERIAL | all before it |
//! | DATABASE | those that changed one of its databases |
//! | COMMIT-GROUP | what the source says (`last_committed`) |
//! | WRITESET | those that changed one of its keys |
//! | OPTIMISTIC | nothing: what was wrong is undone and done again in its turn |
//!
//! A transaction that waits for others is placed, too, and told for whom: with commits in order for the last of them,
//! which ends last. Where workers sleep meanwhile, it is queued behind them if one worker has them all. Neighbours: the
//! applier computes [`Facts`], obeys, and says what has ended. **Invariants**
//! - Two transactions that are in flight together depend on each other only if the later one is told of the earlier, or
//!   of one behind it that ends later. A barrier is in flight alone.
//! - Queues and their bytes are bounded; a transaction that is larger than the bound is in flight alone.
//! - Ordinals come in order, and every worker has its transactions in that order: the oldest in flight is the first of
//!   its worker and depends on nothing in flight, so workers that wait cannot wait for each other.

use std::collections::{HashMap, VecDeque};

use super::Clock;
use crate::writeset::WriteSet;

/// Transactions that wait in the queue of one worker, at most.
pub const QUEUE_DEPTH: usize = 64;
/// Keys whose last writer is remembered before those that have ended are forgotten.
const MAX_KEYS: usize = 100_000;
/// Transactions in flight that one may wait for where commits need no order.
const MAX_AFTER: usize = 16;
/// A worker gets more work before the next one gets any while its queue has less than these bytes: small transactions
/// cost less than waking a thread for each, and where there is more to do, all queues are fuller than that.
const FILL_BYTES: usize = 8 << 10;
/// Where all queues are fuller, workers take turns after so many transactions in a row, or [`FILL_BYTES`]: with commits
/// in order a worker runs a few before their turn, and a long row with one worker would be run by it alone.
const BATCH: usize = 8;

/// How transactions are spread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// One after the other.
    Serial,
    /// By database.
    Database,
    /// As they were committed together.
    CommitGroup,
    /// By the keys of the rows.
    WriteSet,
    /// All at once.
    Optimistic,
}

/// What must be known of a transaction to place it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Facts {
    /// Its number.
    pub ordinal: u64,
    /// Memory it takes.
    pub bytes: usize,
    /// It runs alone.
    pub is_barrier: bool,
    /// Hashes of what it changes: databases or keys, whatever the mode goes by.
    pub writes: WriteSet,
    /// What the source says.
    pub clock: Option<Clock>,
}

/// What is to be done with a transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Placement {
    /// Ask again when so many of those in flight have ended.
    Wait(usize),
    /// It goes to the end of a worker's queue.
    Worker {
        /// Whose.
        worker: usize,
        /// It runs when these have ended. With commits in order it is one at most.
        after: Vec<u64>,
    },
    /// It goes to this worker, and nothing else runs meanwhile.
    Barrier(usize),
}

/// What a worker has to do.
#[derive(Debug, Clone, Copy, Default)]
struct Load {
    count: usize,
    bytes: usize,
}

/// A transaction that was given to a worker.
#[derive(Debug, Clone, Copy)]
struct Flight {
    ordinal: u64,
    worker: usize,
    bytes: usize,
    is_barrier: bool,
    sequence: i64,
    has_ended: bool,
}

/// Decides.
#[derive(Debug)]
pub struct Coordinator {
    mode: Mode,
    max_bytes: usize,
    /// Transactions end in their order.
    in_order: bool,
    /// What is in the queue of each worker.
    queued: Vec<Load>,
    in_flight: VecDeque<Flight>,
    bytes: usize,
    /// Whose turn it is while all have much to do, and what it has got of it.
    turn: usize,
    batch: Load,
    last_writer: HashMap<u64, u64>,
    /// Everything depends on it: the last transaction that did not say what it writes.
    floor: u64,
}

/// Those in flight that a transaction must follow.
#[derive(Default)]
struct Before {
    ordinals: Vec<u64>,
    /// In whose queue the last of them is.
    worker: Option<usize>,
    /// They are in several queues.
    are_spread: bool,
}

impl Before {
    fn add(&mut self, flight: &Flight, in_order: bool) {
        self.are_spread |= self.worker.is_some_and(|worker| worker != flight.worker);
        self.worker = Some(flight.worker);
        if in_order {
            // When the last has ended, all before it have.
            let last = self.ordinals.pop().unwrap_or(0);
            self.ordinals.push(flight.ordinal.max(last));
        } else if self.ordinals.len() <= MAX_AFTER && !self.ordinals.contains(&flight.ordinal) {
            self.ordinals.push(flight.ordinal);
        }
    }

    /// Can it not be in flight with them?
    fn are_too_many(&self) -> bool {
        self.ordinals.len() > MAX_AFTER
    }
}

impl Coordinator {
    /// For so many workers; transactions in flight have `max_bytes` at most, and end in their order or in any.
    pub fn new(mode: Mode, workers: usize, max_bytes: usize, in_order: bool) -> Self {
        assert!(workers > 0, "somebody must do the work");
        assert!(in_order || mode != Mode::Serial, "one after the other");
        let workers = if mode == Mode::Serial { 1 } else { workers };
        Self {
            mode,
            max_bytes,
            in_order,
            queued: vec![Load::default(); workers],
            in_flight: VecDeque::new(),
            bytes: 0,
            turn: 0,
            batch: Load::default(),
            last_writer: HashMap::new(),
            floor: 0,
        }
    }

    /// How many workers are used.
    pub fn workers(&self) -> usize {
        self.queued.len()
    }

    /// Memory of what is in flight.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Is nothing in flight?
    pub fn is_idle(&self) -> bool {
        self.in_flight.is_empty()
    }

    /// Places the next transaction. Unless it has to wait, it is in flight then.
    pub fn place(&mut self, facts: &Facts) -> Placement {
        debug_assert!(
            self.in_flight
                .back()
                .is_none_or(|last| last.ordinal < facts.ordinal)
        );
        let is_idle = self.is_idle();
        let holds_all = self.in_flight.back().is_some_and(|last| last.is_barrier);
        if !is_idle && (facts.is_barrier || holds_all) {
            return Placement::Wait(self.queued.iter().map(|load| load.count).sum());
        }
        if !is_idle && self.bytes + facts.bytes > self.max_bytes {
            return Placement::Wait(1);
        }
        let before = self.before(facts);
        if before.are_too_many() {
            return Placement::Wait(1);
        }
        let worker = self.queue_behind(&before);
        let worker = worker.unwrap_or_else(|| self.next_worker(facts.bytes));
        if self.queued[worker].count >= QUEUE_DEPTH {
            // Many at once: whoever places sleeps and wakes less often than transactions end.
            return Placement::Wait(QUEUE_DEPTH / 2);
        }
        self.remember(facts);
        self.queued[worker].count += 1;
        self.queued[worker].bytes += facts.bytes;
        self.bytes += facts.bytes;
        self.in_flight.push_back(Flight {
            ordinal: facts.ordinal,
            worker,
            bytes: facts.bytes,
            is_barrier: facts.is_barrier,
            sequence: facts.clock.map_or(0, |clock| clock.sequence),
            has_ended: false,
        });
        match facts.is_barrier {
            true => Placement::Barrier(worker),
            false => Placement::Worker {
                worker,
                after: before.ordinals,
            },
        }
    }

    /// A transaction has ended.
    ///
    /// # Panics
    /// It was not in flight.
    pub fn ended(&mut self, ordinal: u64) {
        let at = self
            .in_flight
            .binary_search_by_key(&ordinal, |flight| flight.ordinal);
        let flight = &mut self.in_flight[at.expect("it was placed")];
        assert!(!flight.has_ended, "a transaction ends once");
        flight.has_ended = true;
        self.queued[flight.worker].count -= 1;
        self.queued[flight.worker].bytes -= flight.bytes;
        self.bytes -= flight.bytes;
        while self
            .in_flight
            .front()
            .is_some_and(|flight| flight.has_ended)
        {
            self.in_flight.pop_front();
        }
    }

    /// Who gets what depends on nothing: the first with little to do, else each in turn.
    fn next_worker(&mut self, bytes: usize) -> usize {
        let has_room = |load: &Load| load.bytes < FILL_BYTES && load.count < QUEUE_DEPTH;
        if let Some(idle) = self.queued.iter().position(has_room) {
            return idle;
        }
        let workers = self.queued.len();
        if self.batch.count >= BATCH || self.batch.bytes >= FILL_BYTES {
            self.turn = (self.turn + 1) % workers;
            self.batch = Load::default();
        }
        let mut from_turn = (0..workers).map(|nth| (self.turn + nth) % workers);
        let with_room = from_turn.find(|worker| self.queued[*worker].count < QUEUE_DEPTH);
        if let Some(worker) = with_room {
            if worker != self.turn {
                (self.turn, self.batch) = (worker, Load::default());
            }
            self.batch.count += 1;
            self.batch.bytes += bytes;
        }
        self.turn
    }

    /// The queue of those it waits for, where its worker would sleep until they have ended. With `WRITESET` and commits
    /// in order no worker does.
    fn queue_behind(&self, before: &Before) -> Option<usize> {
        let is_anywhere = self.in_order && (self.mode == Mode::WriteSet || before.are_spread);
        before.worker.filter(|_| !is_anywhere)
    }

    /// Those in flight that must end before this one begins.
    fn before(&self, facts: &Facts) -> Before {
        let running = self.in_flight.iter().filter(|flight| !flight.has_ended);
        let must_end = |flight: &&Flight| match (self.mode, facts.clock) {
            (Mode::Optimistic, _) => false,
            (Mode::CommitGroup, Some(clock)) => {
                // Numbers begin again with a file: what has larger ones is of the file before.
                flight.sequence <= clock.last_committed || flight.sequence >= clock.sequence
            }
            _ => true,
        };
        let goes_by_writes = matches!(self.mode, Mode::Database | Mode::WriteSet);
        if let (true, WriteSet::Keys(keys)) = (goes_by_writes, &facts.writes) {
            return self.writers(keys);
        }
        // What everything depends on has waited for all before it.
        let from = if goes_by_writes { self.floor } else { 0 };
        let mut found = Before::default();
        for flight in running.filter(|flight| flight.ordinal >= from && must_end(flight)) {
            found.add(flight, self.in_order);
        }
        found
    }

    fn writers(&self, keys: &[u64]) -> Before {
        let mut found = Before::default();
        let writers = keys.iter().filter_map(|key| self.last_writer.get(key));
        for ordinal in writers.chain([&self.floor]) {
            let Ok(at) = self
                .in_flight
                .binary_search_by_key(ordinal, |flight| flight.ordinal)
            else {
                continue;
            };
            let flight = &self.in_flight[at];
            if !flight.has_ended {
                found.add(flight, self.in_order);
            }
        }
        found
    }

    fn remember(&mut self, facts: &Facts) {
        match &facts.writes {
            WriteSet::Everything => {
                self.last_writer.clear();
                self.floor = facts.ordinal;
            }
            WriteSet::Keys(keys) => {
                if self.last_writer.len() + keys.len() > MAX_KEYS {
                    let oldest = self
                        .in_flight
                        .front()
                        .map_or(facts.ordinal, |flight| flight.ordinal);
                    self.last_writer.retain(|_, ordinal| *ordinal >= oldest);
                }
                self.last_writer
                    .extend(keys.iter().map(|key| (*key, facts.ordinal)));
            }
        }
    }
}

#[cfg(test)]
mod tests;
