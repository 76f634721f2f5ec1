//! Where a measurement is: warming up, measuring, over.
//!
//! Neighbours: the runner moves it on, sessions look at it.
//!
//! **Invariants**
//! - It only moves forward.

use std::sync::atomic::{AtomicU8, Ordering};

const WARM_UP: u8 = 0;
const MEASURE: u8 = 1;
const OVER: u8 = 2;

/// The phase of a run.
#[derive(Debug)]
pub(crate) struct Phase(AtomicU8);

impl Phase {
    pub(crate) fn new() -> Self {
        Phase(AtomicU8::new(WARM_UP))
    }

    pub(crate) fn measure(&self) {
        self.0.fetch_max(MEASURE, Ordering::AcqRel);
    }

    pub(crate) fn end(&self) {
        self.0.fetch_max(OVER, Ordering::AcqRel);
    }

    #[inline]
    pub(crate) fn is_measuring(&self) -> bool {
        self.0.load(Ordering::Acquire) == MEASURE
    }

    #[inline]
    pub(crate) fn is_over(&self) -> bool {
        self.0.load(Ordering::Acquire) == OVER
    }
}
