//! What the lock-free parts of this crate synchronise with, in one place, so that unit tests can explore the schedules
//! of their threads.
//!
//! Neighbours: the memtable's arena, skiplist and pins, the watermark and the gate take their primitives from here and
//! from nowhere else; their tests explore them.
//!
//! In unit tests every operation is a place where, during an exploration, `shuttle` may go on with another thread
//! (`explored`); everywhere else these are the ordinary primitives.
//!
//! **Invariants**
//! - An exploration executes in a sequentially consistent order, so weaker orders are argued where they are used, and
//!   stress tests run them on real threads.

#[cfg(test)]
mod explored;

#[cfg(test)]
pub(crate) use explored::*;
#[cfg(not(test))]
pub(crate) use real::*;

#[cfg(not(test))]
mod real {
    pub(crate) use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, AtomicUsize};

    pub(crate) use parking_lot::{Condvar, Mutex, MutexGuard};

    /// Looks at a condition before a thread that waits for it parks.
    pub(crate) const SPINS: usize = 64;
}
