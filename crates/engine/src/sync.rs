//! What the lock-free parts of this crate synchronise with, in one place, so that a test can compile the same files
//! with primitives whose schedule is explored (`tests/interleavings.rs`).
//!
//! Neighbours: the memtable's arena, skiplist and pins, and the watermark take their primitives from here and from
//! nowhere else.
//!
//! **Invariants**
//! - These are the ordinary primitives. The exploring ones execute in a sequentially consistent order, so weaker orders
//!   are argued where they are used, and stress tests run them on real threads.

pub(crate) use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, AtomicUsize};

pub(crate) use parking_lot::{Condvar, Mutex, MutexGuard};

/// Looks at a condition before a thread that waits for it parks.
pub(crate) const SPINS: usize = 64;
