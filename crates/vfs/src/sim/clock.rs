//! A clock that only moves when it is told to.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::env::Clock;

/// Virtual time. Monotonic and wall time advance together.
#[derive(Debug)]
pub struct SimClock {
    wall_start_micros: i64,
    nanos: AtomicU64,
}

impl SimClock {
    /// A clock that stands at this wall time.
    pub fn new(wall_start_micros: i64) -> Self {
        Self {
            wall_start_micros,
            nanos: AtomicU64::new(0),
        }
    }

    /// Moves time forward.
    pub fn advance(&self, by: Duration) {
        let nanos = u64::try_from(by.as_nanos()).unwrap_or(u64::MAX);
        self.nanos.fetch_add(nanos, Ordering::SeqCst);
    }
}

impl Clock for SimClock {
    fn wall_micros(&self) -> i64 {
        self.wall_start_micros + (self.mono_nanos() / 1000) as i64
    }

    fn mono_nanos(&self) -> u64 {
        self.nanos.load(Ordering::SeqCst)
    }
}
