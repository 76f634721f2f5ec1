//! Handing out the log, task by task, and keeping the memory for what was collected below its limit.
//!
//! Neighbours: the threads of `parallel` ask for their next task here and hand in what they have collected.
//!
//! Usually all tasks belong to one collection. When what was collected needs too much memory, the collection is closed:
//! later tasks belong to the next one, and as soon as every thread has handed in its part, one of them turns the
//! collection into extents while the others go on. Nobody waits unless collecting is far ahead of that.
//!
//! **Invariants**
//! - Tasks are handed out in the order of the log, so a collection is a range of it.
//! - A collection leaves only when it is closed and nobody has a task of it (rule R4), and only the oldest one does.

use std::collections::VecDeque;

use esker_wal::{LogReader, Replay, Task};

use super::collect::Part;
use super::collection::Collection;
use crate::Seq;
use crate::sync::{Condvar, Mutex, MutexGuard};

/// A log larger than the memory is cut into collections of this share of the memory.
const SHARES: usize = 4;

/// What a thread has to do next.
pub(super) enum Step {
    /// Collect the records of a task.
    Read(Task),
    /// Turn the collection into extents, then say [`Dispatch::flushed`] with the bytes.
    Flush(Collection, usize),
    /// There are no more tasks, or somebody has failed.
    End,
}

/// A collection on its way.
#[derive(Default)]
struct Growing {
    parts: Vec<Part>,
    /// Threads that may still have something for it.
    inside: usize,
    bytes: usize,
    /// End of its range of the log, once it is closed.
    end: Option<Seq>,
}

impl Growing {
    /// Whether nothing is missing any more.
    fn is_complete(&self) -> bool {
        self.end.is_some() && self.inside == 0
    }
}

struct State {
    /// From the oldest to the one that tasks are handed out for.
    collections: VecDeque<Growing>,
    /// Harvests that have left.
    left: usize,
    /// Bytes of all collections, also of the one that is being flushed.
    bytes: usize,
    peak_bytes: usize,
    is_flushing: bool,
    /// Nothing can be flushed: the disk is full, and the limits do not hold any more.
    is_unlimited: bool,
    /// The log is handed out up to here.
    handed_out: Seq,
    has_failed: bool,
}

/// Memory limits of a replay, bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct MemoryLimits {
    /// A collection is closed when it has more.
    share: usize,
    /// The oldest collection is flushed when all together have more.
    total: usize,
    /// Nobody takes a task while all together have more.
    most: usize,
}

impl MemoryLimits {
    /// What memtables may use is what a replay may use. A log that may fit is collected in one piece.
    pub(super) fn new(memory_bytes: usize, log_bytes: u64) -> Self {
        let share = match log_bytes > memory_bytes as u64 {
            true => memory_bytes / SHARES,
            false => memory_bytes,
        };
        MemoryLimits {
            share,
            total: memory_bytes,
            most: memory_bytes + memory_bytes / SHARES,
        }
    }

    #[cfg(test)]
    pub(super) fn of(share: usize, total: usize, most: usize) -> Self {
        MemoryLimits { share, total, most }
    }
}

/// Hands out the log.
pub(super) struct Dispatch<'a> {
    log: &'a LogReader,
    limits: MemoryLimits,
    state: Mutex<State>,
    changed: Condvar,
}

/// A thread's place in the dispatch.
pub(super) struct Seat {
    /// The collection it collects for.
    collection: usize,
}

impl<'a> Dispatch<'a> {
    pub(super) fn new(log: &'a LogReader, limits: MemoryLimits) -> Self {
        Dispatch {
            log,
            limits,
            state: Mutex::new(State {
                collections: VecDeque::from([Growing::default()]),
                left: 0,
                bytes: 0,
                peak_bytes: 0,
                is_flushing: false,
                is_unlimited: false,
                handed_out: log.from().0,
                has_failed: false,
            }),
            changed: Condvar::new(),
        }
    }

    /// A place for one more thread.
    pub(super) fn seat(&self) -> Seat {
        let mut state = self.state.lock();
        state.collections.back_mut().expect(NEVER_EMPTY).inside += 1;
        Seat {
            collection: state.open(),
        }
    }

    /// What the thread has to do next. `take` gives what it has collected.
    pub(super) fn next<R: Replay>(
        &self,
        seat: &mut Seat,
        blocks: &mut R,
        mut take: impl FnMut() -> Part,
    ) -> Result<Step, R::Error> {
        let mut state = self.state.lock();
        loop {
            if state.has_failed {
                return Ok(Step::End);
            }
            let open = state.open();
            if seat.collection < open {
                self.hand_in(&mut state, seat, take());
                state.collections.back_mut().expect(NEVER_EMPTY).inside += 1;
                seat.collection = open;
            }
            let is_limited = !state.is_unlimited;
            if is_limited && state.collections.back().expect(NEVER_EMPTY).bytes > self.limits.share
            {
                state.close();
                continue;
            }
            if is_limited
                && state.bytes > self.limits.total
                && let Some(step) = state.oldest_to_flush()
            {
                return Ok(step);
            }
            if is_limited && state.bytes > self.limits.most {
                self.changed.wait(&mut state);
                continue;
            }
            return Ok(match self.log.next(blocks)? {
                Some(task) => {
                    state.handed_out = task.end().0;
                    Step::Read(task)
                }
                None => Step::End,
            });
        }
    }

    /// A task was read; the thread has collected that much more.
    pub(super) fn collected(&self, seat: &Seat, bytes: usize) {
        let mut state = self.state.lock();
        let index = seat.collection - state.left;
        state.collections[index].bytes += bytes;
        state.bytes += bytes;
        state.peak_bytes = state.peak_bytes.max(state.bytes);
    }

    fn hand_in(&self, state: &mut MutexGuard<'_, State>, seat: &Seat, part: Part) {
        let index = seat.collection - state.left;
        let collection = &mut state.collections[index];
        assert!(
            collection.inside > 0,
            "who hands in had a seat in the collection"
        );
        collection.parts.push(part);
        collection.inside -= 1;
        self.changed.notify_all();
    }

    /// A collection was turned into extents.
    pub(super) fn flushed(&self, bytes: usize) {
        let mut state = self.state.lock();
        assert!(state.is_flushing, "one collection is flushed at a time");
        assert!(state.bytes >= bytes, "its bytes are a part of all");
        state.bytes -= bytes;
        state.is_flushing = false;
        self.changed.notify_all();
    }

    /// A collection became tiers in memory instead, and all that comes has to stay there as well.
    pub(super) fn kept(&self) {
        let mut state = self.state.lock();
        state.is_flushing = false;
        state.is_unlimited = true;
        self.changed.notify_all();
    }

    /// The thread leaves, with the last it has collected.
    pub(super) fn leave(&self, seat: Seat, part: Part) {
        let mut state = self.state.lock();
        self.hand_in(&mut state, &seat, part);
    }

    /// The thread has failed: the others end, too.
    pub(super) fn fail(&self) {
        self.state.lock().has_failed = true;
        self.changed.notify_all();
    }

    /// What is left when everybody has left: one collection up to the end of the log, and the most memory that was
    /// needed.
    pub(super) fn finish(self) -> (Collection, usize) {
        let end = self.log.end().0;
        let mut state = self.state.lock();
        let collections = std::mem::take(&mut state.collections);
        assert!(!state.is_flushing && collections.iter().all(|collection| collection.inside == 0));
        let parts = collections
            .into_iter()
            .flat_map(|collection| collection.parts);
        (Collection::new(parts.collect(), end), state.peak_bytes)
    }
}

const NEVER_EMPTY: &str = "there is always a collection to collect for";

impl State {
    /// Number of the collection that tasks are handed out for.
    fn open(&self) -> usize {
        self.left + self.collections.len() - 1
    }

    fn close(&mut self) {
        let end = self.handed_out;
        self.collections.back_mut().expect(NEVER_EMPTY).end = Some(end);
        self.collections.push_back(Growing::default());
    }

    /// The oldest collection, if it is complete and no other one is being flushed.
    fn oldest_to_flush(&mut self) -> Option<Step> {
        let oldest = self
            .collections
            .front()
            .filter(|oldest| oldest.is_complete())?;
        let end = oldest.end?;
        if self.is_flushing {
            return None;
        }
        let oldest = self.collections.pop_front()?;
        assert!(!self.collections.is_empty(), "{NEVER_EMPTY}");
        self.left += 1;
        self.is_flushing = true;
        Some(Step::Flush(
            Collection::new(oldest.parts, end),
            oldest.bytes,
        ))
    }
}
