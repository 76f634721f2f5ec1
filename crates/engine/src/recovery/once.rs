//! Something that is made when it is first needed, by whoever needs it first.
//!
//! Neighbours: each shard of a `run` is one. Its interleavings are explored in `tests/interleavings.rs`.
//!
//! **Invariants**
//! - It is made once, from what it was given; who comes meanwhile waits until it is there.
//! - Once it is made, looking at it takes no lock.

use std::sync::OnceLock;

use crate::sync::Mutex;

/// Holds an `R` until a `T` is made of it.
pub(crate) struct MadeOnce<R, T> {
    raw: Mutex<Option<R>>,
    made: OnceLock<T>,
}

impl<R, T> MadeOnce<R, T> {
    pub(crate) fn new(raw: R) -> Self {
        MadeOnce {
            raw: Mutex::new(Some(raw)),
            made: OnceLock::new(),
        }
    }

    /// What was made; made now, with `make`, if it is not yet.
    #[inline]
    pub(crate) fn get(&self, make: impl FnOnce(R) -> T) -> &T {
        match self.made.get() {
            Some(made) => made,
            None => self.make(make),
        }
    }

    /// What was made, if it is.
    pub(crate) fn look(&self) -> Option<&T> {
        self.made.get()
    }

    #[cold]
    fn make(&self, make: impl FnOnce(R) -> T) -> &T {
        // Held while it is made: whoever else needs it waits here.
        let mut raw = self.raw.lock();
        if let Some(raw) = raw.take() {
            let is_first = self.made.set(make(raw)).is_ok();
            debug_assert!(is_first, "there was one raw material");
        }
        self.made
            .get()
            .expect("made above, or by who took the raw material")
    }
}
