//! The consolidation array: where threads that meet a busy lock become a group.
//!
//! Source: Johnson et al., "Aether: A Scalable Approach to Logging", PVLDB 3(1), 2010, section 5.2
//! and the appendix; the encoding is that of Shore-MT and its descendants. A slot has one 64-bit
//! status. While it is open, the high word counts the threads in it and the low word their bytes,
//! so that joining is one compare-and-swap, whose old value tells the thread where in the group its
//! place begins. Whoever finds it empty is the group's leader. The leader waits for the lock, closes
//! the slot (*pending*), puts a fresh one in its place in the active array, gets one place for
//! all, and publishes it (*finished*, with the number of members who have not left yet). The last
//! to leave gives the slot back.
//!
//! **Invariants**
//! - A slot is in one of the states unused, claimed, open, pending, finished, and takes them in
//!   this order. Only open slots can be joined; only a member's leaving ends *finished*.
//! - Members of a group own disjoint ranges of its bytes, without a gap.
//! - The fields beside the status are written before the status that publishes them, by the one
//!   thread that may (claimer, leader), and read while that status lasts.
//! - A closed slot is in the active array only if the pool had no other to put there; then its last
//!   member opens it again.

use std::cell::Cell;
use std::sync::atomic::AtomicU32 as PlainAtomicU32;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

use super::sync::{AtomicBool, AtomicU32, AtomicU64, Condvar, Mutex, spin};
use crate::lsn::Lsn;

/// Slots that can be joined at a time. More would make more and smaller groups, which pays when a
/// single status word is itself contended: with many more processors than this was measured on
/// (`docs/decisions/log-buffer.md`).
pub(super) const ACTIVE_SLOTS: usize = 2;

/// Slots in all: groups that are being filled keep theirs.
pub(super) const POOL_SLOTS: usize = 64;

/// One thread, in the high word of an open slot's status.
const THREAD: u64 = 1 << 32;

/// Open, without members.
const AVAILABLE: u64 = 0;

/// The first status that is not open.
const CLOSED: u64 = 1 << 63;

/// The leader has closed the slot, the group has no place yet.
const PENDING: u64 = CLOSED;

/// In the pool.
const UNUSED: u64 = CLOSED | 1;

/// On its way from the pool to the active array.
const CLAIMED: u64 = CLOSED | 2;

/// The group has its place, or was refused one; plus the number of members who have not left.
const FINISHED: u64 = CLOSED | 1 << 62;

/// In the place of a start: the group got none.
const REFUSED: u64 = u64::MAX;

#[repr(align(128))]
struct Slot {
    status: AtomicU64,
    /// Where the group's place starts, or [`REFUSED`].
    start: AtomicU64,
    /// What the variant wants its last member to know.
    tag: AtomicU64,
    /// Where it is in the active array.
    position: AtomicU32,
    /// Another slot has its place in the active array.
    replaced: AtomicBool,
    /// Members who sleep until the group has a place; taken to set *finished*.
    sleepers: Mutex<()>,
    finished: Condvar,
}

impl Slot {
    fn new(status: u64, position: u32) -> Self {
        Self {
            status: AtomicU64::new(status),
            start: AtomicU64::new(REFUSED),
            tag: AtomicU64::new(0),
            position: AtomicU32::new(position),
            replaced: AtomicBool::new(false),
            sleepers: Mutex::new(()),
            finished: Condvar::default(),
        }
    }

    fn is_finished(&self) -> bool {
        self.status.load(Acquire) & FINISHED == FINISHED
    }
}

pub(crate) struct Slots {
    pool: Box<[Slot]>,
    active: Box<[AtomicU32]>,
    /// Groups are refused to grow beyond this.
    most_bytes: u64,
    /// Where the search in the pool begins.
    next: AtomicU32,
    /// Members of groups of more than one, so far.
    grouped: AtomicU64,
}

/// A thread's membership in a group.
pub(super) struct Member<'a> {
    slots: &'a Slots,
    slot: &'a Slot,
    /// Where its bytes begin in the group's.
    offset: u64,
}

/// A closed group.
pub(super) struct Group {
    threads: u64,
    /// The sum of its members' bytes.
    pub(super) bytes: u64,
}

impl Slots {
    /// An array whose groups get at most `most_bytes`.
    pub(super) fn new(most_bytes: u64) -> Self {
        Self::with_pool(most_bytes, ACTIVE_SLOTS, POOL_SLOTS)
    }

    pub(super) fn with_pool(most_bytes: u64, active: usize, pool: usize) -> Self {
        assert!(most_bytes < THREAD, "a group's bytes fit in the low word");
        assert!(0 < active && active <= pool);
        let slot = |i: usize| {
            let status = if i < active { AVAILABLE } else { UNUSED };
            Slot::new(status, i as u32)
        };
        Self {
            pool: (0..pool).map(slot).collect(),
            active: (0..active as u32).map(AtomicU32::new).collect(),
            most_bytes,
            next: AtomicU32::new(active as u32),
            grouped: AtomicU64::new(0),
        }
    }

    /// How often a thread was in a group with others.
    pub(super) fn grouped(&self) -> u64 {
        self.grouped.load(Relaxed)
    }

    /// Asserts that nobody is in a group, and that every slot can be used again.
    #[cfg(test)]
    pub(super) fn assert_at_rest(&self) {
        let mut open = Vec::new();
        for (position, index) in self.active.iter().enumerate() {
            let index = index.load(Relaxed);
            let slot = &self.pool[index as usize];
            assert_eq!(slot.position.load(Relaxed) as usize, position);
            open.push(index);
        }
        for (index, slot) in self.pool.iter().enumerate() {
            let places = open.iter().filter(|i| **i as usize == index).count();
            let status = if places == 1 { AVAILABLE } else { UNUSED };
            assert!(places < 2 && slot.status.load(Relaxed) == status);
        }
    }

    /// Joins an open slot, unless none takes this many bytes more.
    pub(super) fn join(&self, bytes: u64) -> Option<Member<'_>> {
        if bytes > self.most_bytes {
            return None;
        }
        let first = thread_number() as usize;
        (0..self.active.len()).find_map(|i| {
            let position = (first + i) % self.active.len();
            let index = self.active[position].load(Acquire) as usize;
            self.join_slot(&self.pool[index], bytes)
        })
    }

    fn join_slot<'a>(&'a self, slot: &'a Slot, bytes: u64) -> Option<Member<'a>> {
        let mut status = slot.status.load(Acquire);
        loop {
            let offset = status & (THREAD - 1);
            if status >= CLOSED || offset + bytes > self.most_bytes {
                return None;
            }
            // The status is all that matters of an open slot, so it does not matter either if it
            // was closed and opened again in between.
            let joined = status + THREAD + bytes;
            match slot
                .status
                .compare_exchange_weak(status, joined, AcqRel, Acquire)
            {
                Ok(_) => {
                    return Some(Member {
                        slots: self,
                        slot,
                        offset,
                    });
                }
                Err(now) => status = now,
            }
        }
    }

    /// Puts an unused slot where a closed one was. False if there is none.
    fn replace(&self, closed: &Slot) -> bool {
        let position = closed.position.load(Relaxed);
        let first = self.next.load(Relaxed) as usize;
        for i in 0..self.pool.len() {
            let index = (first + i) % self.pool.len();
            let slot = &self.pool[index];
            if slot.status.load(Relaxed) == UNUSED
                && slot
                    .status
                    .compare_exchange(UNUSED, CLAIMED, Acquire, Relaxed)
                    .is_ok()
            {
                self.next.store(index as u32 + 1, Relaxed);
                slot.position.store(position, Relaxed);
                slot.status.store(AVAILABLE, Release);
                self.active[position as usize].store(index as u32, Release);
                return true;
            }
        }
        false
    }
}

impl Member<'_> {
    /// Whether this thread must get the group its place: it was the first.
    pub(super) fn leads(&self) -> bool {
        self.offset == 0
    }

    /// Closes the group to others. For the leader, once, when it has the lock.
    pub(super) fn close(&self) -> Group {
        let status = self.slot.status.swap(PENDING, AcqRel);
        assert!(
            (THREAD..CLOSED).contains(&status),
            "a leader closes its own, open slot"
        );
        let replaced = self.slots.replace(self.slot);
        self.slot.replaced.store(replaced, Relaxed);
        let threads = status >> 32;
        if threads > 1 {
            self.slots.grouped.fetch_add(threads, Relaxed);
        }
        Group {
            threads,
            bytes: status & (THREAD - 1),
        }
    }

    /// Tells the group where its place starts, or that it got none, and gives the last member the
    /// `tag`. For the leader, once.
    pub(super) fn publish(&self, group: &Group, start: Option<Lsn>, tag: u64) {
        let slot = self.slot;
        slot.start
            .store(start.map_or(REFUSED, |start| start.0), Relaxed);
        slot.tag.store(tag, Relaxed);
        {
            let _sleepers = slot.sleepers.lock();
            slot.status.store(FINISHED + group.threads, Release);
        }
        slot.finished.notify_all();
    }

    /// Waits for the group's place; where this member's begins in it, or `None` if the group was
    /// refused one.
    pub(super) fn await_place(&self) -> Option<Lsn> {
        let slot = self.slot;
        if spin(|| slot.is_finished().then_some(())).is_none() {
            let mut sleepers = slot.sleepers.lock();
            while !slot.is_finished() {
                sleepers = slot.finished.wait(sleepers);
            }
        }
        let start = slot.start.load(Relaxed);
        (start != REFUSED).then(|| Lsn(start + self.offset))
    }

    /// Leaves the group. For the last one to leave, the tag.
    pub(super) fn leave(self) -> Option<u64> {
        let slot = self.slot;
        let before = slot.status.fetch_sub(1, AcqRel);
        assert!(before > FINISHED, "a member leaves a finished group once");
        if before - 1 != FINISHED {
            return None;
        }
        let tag = slot.tag.load(Relaxed);
        let status = match slot.replaced.load(Relaxed) {
            true => UNUSED,
            false => AVAILABLE,
        };
        slot.status.store(status, Release);
        Some(tag)
    }
}

/// Spreads threads over the slots.
fn thread_number() -> u32 {
    static NEXT: PlainAtomicU32 = PlainAtomicU32::new(0);
    thread_local! {
        static NUMBER: Cell<u32> = Cell::new(NEXT.fetch_add(1, Relaxed));
    }
    NUMBER.with(Cell::get)
}
