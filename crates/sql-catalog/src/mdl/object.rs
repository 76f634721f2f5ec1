//! One lockable name: an atomic word that counts fast holders, and a queue beside it.
//!
//! ```text
//! word   bit 63: SLOW = somebody holds or wants a mode that is not counted here
//!        bits 0-19, 20-39, 40-59: holders of each fast class
//! ```
//! Neighbours: [`super::LockSet`] for holders, `manager` for waiters, `door` decides when a waiter stops newcomers.
//! **Invariants**
//! - Holders of fast modes are counted in the word, always; of other modes in `Slow::holders`.
//! - The word is added to without the mutex only while SLOW is clear; it may be subtracted from at
//!   any time, and whoever subtracts while SLOW is set serves the queue.
//! - SLOW is set while `Slow` has a waiter or a holder that fast modes conflict with, and cleared under the mutex.
//! - A waiter is granted at most once and counted from that moment on.
//! - At most one door is closed: that of the first waiter for a slow mode. A request for a fast mode waits for no other
//!   waiter than that one, and only while its door is closed.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use esker_engine::wait::{Resolver, WaitQueue, Wakeup, ticket};
use esker_engine::{EngineError, Ticket};
use parking_lot::Mutex;

use super::door::Door;
use super::manager::MdlKey;
use super::mode::{FAST_CLASSES, FAST_MODES, MODES, MdlMode};

const SLOW: u64 = 1 << 63;
const CLASS_BITS: u32 = 20;
const CLASS_MASK: u64 = (1 << CLASS_BITS) - 1;

const WAITING: u8 = 0;
const GRANTED: u8 = 1;
const OVER: u8 = 2;

fn one(class: usize) -> u64 {
    1 << (CLASS_BITS * class as u32)
}

/// A request in a queue, shared by the queue, its ticket and its session.
pub(super) struct Waiter {
    mode: MdlMode,
    /// Modes the same session holds on the object already.
    own: Box<[MdlMode]>,
    state: AtomicU8,
    resolver: Resolver,
}

impl Waiter {
    /// Is it still in the queue?
    pub(super) fn is_waiting(&self) -> bool {
        self.state.load(Ordering::Acquire) == WAITING
    }

    /// Has it been granted, and its session has not taken it over yet?
    pub(super) fn is_granted(&self) -> bool {
        self.state.load(Ordering::Acquire) == GRANTED
    }

    /// Claims a grant; false if there was none or it went back already.
    pub(super) fn take_over(&self) -> bool {
        self.state
            .compare_exchange(GRANTED, OVER, Ordering::AcqRel, Ordering::Acquire)
            .is_ok()
    }
}

/// A waiter and its door; that of a fast mode never closes.
struct Queued {
    waiter: Arc<Waiter>,
    door: Door,
}

impl Queued {
    /// Must a newcomer that wants `mode` wait for this one? Nobody on a scope waits for changes that have not begun, as
    /// in MySQL: they wait for such a lock themselves.
    fn stops(&self, mode: MdlMode) -> bool {
        let stops = match mode {
            MdlMode::ScopeShared => self.waiter.mode.fast().is_none(),
            _ => mode.fast().is_none() || self.door.is_closed(),
        };
        stops && mode.conflicts(self.waiter.mode)
    }
}

#[derive(Default)]
struct Slow {
    holders: [u32; MODES],
    queue: VecDeque<Queued>,
}

impl Slow {
    /// The first waiter for a slow mode; one that holds the object waits for nobody in the queue.
    fn first_slow(&self) -> Option<&Arc<Waiter>> {
        let mut waiters = self.queue.iter().map(|q| &q.waiter);
        let holder = waiters
            .clone()
            .find(|w| !w.own.is_empty() && w.mode.fast().is_none());
        holder.or_else(|| waiters.find(|w| w.mode.fast().is_none()))
    }

    fn position(&self, waiter: &Arc<Waiter>) -> Option<usize> {
        self.queue
            .iter()
            .position(|q| Arc::ptr_eq(&q.waiter, waiter))
    }
}

/// A name that can be locked.
pub struct MdlObject {
    key: MdlKey,
    word: AtomicU64,
    slow: Mutex<Slow>,
}

/// Answer to a request.
pub(super) enum Granted {
    Now,
    Later(Ticket, Arc<Waiter>),
}

/// The queue as a ticket sees it.
struct Place {
    object: Arc<MdlObject>,
    waiter: Arc<Waiter>,
}

impl WaitQueue for Place {
    fn leave(&self) -> bool {
        self.object.leave(&self.waiter)
    }

    fn give_back(&self) {
        if self.waiter.take_over() {
            self.object.release(self.waiter.mode);
        }
    }
}

impl MdlObject {
    pub(super) fn new(key: MdlKey) -> Self {
        Self {
            key,
            word: AtomicU64::new(0),
            slow: Mutex::default(),
        }
    }

    /// What it locks.
    pub fn key(&self) -> &MdlKey {
        &self.key
    }

    /// Takes a fast mode if nobody holds or wants anything else.
    #[inline]
    pub(super) fn acquire_fast(&self, mode: MdlMode) -> bool {
        let Some(class) = mode.fast() else {
            return false;
        };
        let mut word = self.word.load(Ordering::Relaxed);
        loop {
            if word & SLOW != 0 {
                return false;
            }
            match self.word.compare_exchange_weak(
                word,
                word + one(class),
                Ordering::Acquire,
                Ordering::Relaxed,
            ) {
                Ok(_) => return true,
                Err(now) => word = now,
            }
        }
    }

    /// Takes a mode or joins the queue. `own`: modes the same session holds on this object; `door`: that of a request
    /// that has to wait, for a slow mode.
    pub(super) fn request(
        self: &Arc<Self>,
        mode: MdlMode,
        own: &[MdlMode],
        door: Door,
        now: Instant,
    ) -> Granted {
        let mut slow = self.slow.lock();
        self.word.fetch_or(SLOW, Ordering::AcqRel);
        let free = self.admits(&slow, mode, own)
            && (!own.is_empty() || !slow.queue.iter().any(|q| q.stops(mode)));
        if free {
            self.count(&mut slow, mode);
            self.clear_slow(&slow);
            return Granted::Now;
        }
        let mut queued = None;
        let (ticket, _) = ticket(|resolver| {
            let waiter = Arc::new(Waiter {
                mode,
                own: own.into(),
                state: AtomicU8::new(WAITING),
                resolver: resolver.clone(),
            });
            queued = Some(waiter.clone());
            Box::new(Place {
                object: self.clone(),
                waiter,
            })
        });
        let waiter = queued.expect("the queue was just made");
        let mut queued = Queued {
            waiter: waiter.clone(),
            door: match mode.fast() {
                Some(_) => Door::new(Duration::ZERO),
                None => door,
            },
        };
        let may_close = self.may_close(&slow, &waiter);
        queued.door.turn(now, may_close);
        slow.queue.push_back(queued);
        Granted::Later(ticket, waiter)
    }

    /// Closes or opens the door of a waiter if its time has come; when to do it again.
    pub(super) fn turn(&self, waiter: &Arc<Waiter>, now: Instant) -> Option<Instant> {
        let mut slow = self.slow.lock();
        let at = slow.position(waiter)?;
        let may_close = self.may_close(&slow, waiter);
        let has_opened = slow.queue[at].door.turn(now, may_close);
        let next = slow.queue[at].door.next(now);
        let woken = match has_opened {
            true => self.serve(&mut slow),
            false => Vec::new(),
        };
        drop(slow);
        woken.into_iter().for_each(Wakeup::wake);
        next
    }

    /// Gives a mode back.
    #[inline]
    pub(super) fn release(&self, mode: MdlMode) {
        if let Some(class) = mode.fast() {
            let before = self.word.fetch_sub(one(class), Ordering::AcqRel);
            debug_assert!(before >> (CLASS_BITS * class as u32) & CLASS_MASK > 0);
            if before & SLOW == 0 {
                return;
            }
        }
        self.release_slow(mode);
    }

    #[cold]
    fn release_slow(&self, mode: MdlMode) {
        let mut slow = self.slow.lock();
        if mode.fast().is_none() {
            debug_assert!(slow.holders[mode.index()] > 0);
            slow.holders[mode.index()] -= 1;
        }
        let woken = self.serve(&mut slow);
        drop(slow);
        woken.into_iter().for_each(Wakeup::wake);
    }

    /// Takes a waiter out of the queue; false if it had been granted before.
    pub(super) fn leave(&self, waiter: &Arc<Waiter>) -> bool {
        let Some(woken) = self.take_out(waiter) else {
            return false;
        };
        woken.into_iter().for_each(Wakeup::wake);
        true
    }

    /// Ends a wait with an error, as the victim of a deadlock, unless it is over. Who is to be woken.
    pub(super) fn refuse(&self, waiter: &Arc<Waiter>) -> Vec<Wakeup> {
        let mut woken = self.take_out(waiter).unwrap_or_default();
        if waiter.state.load(Ordering::Acquire) == OVER {
            woken.extend(waiter.resolver.resolve(Err(EngineError::Deadlock)));
        }
        woken
    }

    /// Takes a waiter out of the queue, and serves those that may have waited only for it. None: it had been granted.
    fn take_out(&self, waiter: &Arc<Waiter>) -> Option<Vec<Wakeup>> {
        let mut slow = self.slow.lock();
        let at = slow.position(waiter)?;
        slow.queue.remove(at);
        waiter.state.store(OVER, Ordering::Release);
        Some(self.serve(&mut slow))
    }

    /// Grants everything that may be granted now, in order of arrival.
    fn serve(&self, slow: &mut Slow) -> Vec<Wakeup> {
        let mut woken = Vec::new();
        let mut at = 0;
        while at < slow.queue.len() {
            let waiter = slow.queue[at].waiter.clone();
            let mut ahead = slow.queue.iter().take(at);
            let behind = waiter.own.is_empty() && ahead.any(|q| q.stops(waiter.mode));
            if behind || !self.admits(slow, waiter.mode, &waiter.own) {
                at += 1;
                continue;
            }
            slow.queue.remove(at);
            self.count(slow, waiter.mode);
            waiter.state.store(GRANTED, Ordering::Release);
            woken.extend(waiter.resolver.resolve(Ok(())));
        }
        self.clear_slow(slow);
        woken
    }

    /// May the door of this waiter close? It would not help where another one is first, or where a lock is in the way
    /// that is not held for a transaction's time only.
    fn may_close(&self, slow: &Slow, waiter: &Arc<Waiter>) -> bool {
        let is_first = slow
            .first_slow()
            .is_none_or(|first| Arc::ptr_eq(first, waiter));
        is_first && self.admits_slow(slow, waiter.mode, &waiter.own)
    }

    fn count(&self, slow: &mut Slow, mode: MdlMode) {
        match mode.fast() {
            Some(class) => {
                self.word.fetch_add(one(class), Ordering::AcqRel);
            }
            None => slow.holders[mode.index()] += 1,
        }
    }

    fn clear_slow(&self, slow: &Slow) {
        let is_harmless = |m: &MdlMode| slow.holders[m.index()] == 0 || m.admits_fast();
        if slow.queue.is_empty() && MdlMode::ALL.iter().all(is_harmless) {
            self.word.fetch_and(!SLOW, Ordering::AcqRel);
        }
    }

    /// Asserts that what sessions hold is counted, while nobody else takes or gives back a lock. A grant that its
    /// session has not taken over yet is counted, too.
    pub(super) fn validate(&self, held: &[MdlMode]) {
        let slow = self.slow.lock();
        let word = self.word.load(Ordering::Acquire);
        for class in 0..FAST_CLASSES {
            let counted = word >> (CLASS_BITS * class as u32) & CLASS_MASK;
            let holders = held.iter().filter(|m| m.fast() == Some(class)).count();
            assert!(counted >= holders as u64, "{:?}, class {class}", self.key);
        }
        for mode in MdlMode::ALL.iter().filter(|m| m.fast().is_none()) {
            let holders = held.iter().filter(|m| *m == mode).count();
            let counted = slow.holders[mode.index()] as usize;
            assert!(counted >= holders, "{:?}, {mode:?}", self.key);
        }
        let holds_up = |m: &MdlMode| m.fast().is_none() && !m.admits_fast();
        if !slow.queue.is_empty() || held.iter().any(holds_up) {
            assert_ne!(word & SLOW, 0, "{:?}: newcomers must look at it", self.key);
        }
        let is_waiting = |queued: &Queued| queued.waiter.is_waiting();
        assert!(slow.queue.iter().all(is_waiting), "{:?}", self.key);
    }

    /// Can `mode` be held beside all holders other than `own`?
    fn admits(&self, slow: &Slow, mode: MdlMode, own: &[MdlMode]) -> bool {
        let word = self.word.load(Ordering::Acquire);
        let fast_free = (0..FAST_CLASSES).all(|class| {
            let holders = word >> (CLASS_BITS * class as u32) & CLASS_MASK;
            let own_here = own.iter().filter(|o| o.fast() == Some(class)).count() as u64;
            holders == own_here || !mode.conflicts(FAST_MODES[class])
        });
        fast_free && self.admits_slow(slow, mode, own)
    }

    /// Can it be held beside the holders of slow modes?
    fn admits_slow(&self, slow: &Slow, mode: MdlMode, own: &[MdlMode]) -> bool {
        let mine = |m: MdlMode| own.iter().filter(|&&o| o == m).count() as u64;
        let mut slow_modes = MdlMode::ALL.iter().filter(|m| m.fast().is_none());
        slow_modes.all(|&held| {
            u64::from(slow.holders[held.index()]) == mine(held) || !mode.conflicts(held)
        })
    }

    /// Waiters ahead of `waiter` that it has to wait for: those whose doors open again before they are granted only if
    /// `doors`.
    pub(super) fn ahead_of(&self, waiter: &Arc<Waiter>, doors: bool) -> Vec<Arc<Waiter>> {
        if !waiter.own.is_empty() {
            return Vec::new();
        }
        let is_edge = |q: &&Queued| doors || waiter.mode.fast().is_none() || q.door.is_firm();
        let slow = self.slow.lock();
        // Whoever has left the queue says whom it waited for, and is in no cycle.
        if !doors && slow.position(waiter).is_none() {
            return Vec::new();
        }
        let ahead = slow
            .queue
            .iter()
            .take_while(|q| !Arc::ptr_eq(&q.waiter, waiter));
        let stops = |q: &&Queued| q.stops(waiter.mode);
        ahead
            .filter(stops)
            .filter(is_edge)
            .map(|q| q.waiter.clone())
            .collect()
    }
}

impl fmt::Debug for MdlObject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MdlObject")
            .field("key", &self.key)
            .finish_non_exhaustive()
    }
}
