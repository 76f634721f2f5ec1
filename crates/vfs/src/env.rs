//! The bundle of outside-world services that is handed down from the top.
//!
//! **Invariants**
//! - `mono_nanos` never goes back; `wall_micros` may (somebody sets the clock).

use std::sync::Arc;

use crate::fs::Fs;
use crate::machine::{self, Resident};
use crate::os::{OsClock, OsFs, OsRandom};

/// Source of time.
pub trait Clock: Send + Sync {
    /// Microseconds since the UNIX epoch, UTC; negative before it.
    fn wall_micros(&self) -> i64;

    /// Nanoseconds since an arbitrary start; never goes back.
    fn mono_nanos(&self) -> u64;
}

/// Source of randomness.
pub trait Random: Send + Sync {
    /// Fills the buffer with random bytes.
    fn fill(&self, buf: &mut [u8]);

    /// A random number over the whole range.
    fn next_u64(&self) -> u64 {
        let mut bytes = [0; 8];
        self.fill(&mut bytes);
        u64::from_le_bytes(bytes)
    }
}

/// Disk, clock, randomness, and what is known of the process.
#[derive(Clone)]
pub struct Env {
    /// The disk.
    pub fs: Arc<dyn Fs>,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// The dice.
    pub random: Arc<dyn Random>,
    /// Memory of the process that is resident, if that is known.
    pub resident: fn() -> Option<Resident>,
    /// The heap of the process.
    pub heap: Heap,
}

/// The heap of the process, as far as it can be asked.
#[derive(Clone, Copy, Debug)]
pub struct Heap {
    /// Bytes that it has handed out and not got back, if it counts them.
    pub in_use: fn() -> Option<usize>,
    /// Whether it could hand out so many bytes more and keep a reserve for those who cannot be refused. Nothing is
    /// taken.
    pub has_room: fn(usize) -> bool,
    /// Gives what it keeps free back to the system, as far as it can.
    pub give_back: fn(),
}

impl Heap {
    /// One that tells nothing and does nothing.
    pub const UNKNOWN: Heap = Heap {
        in_use: || None,
        has_room: |_| true,
        give_back: || (),
    };
}

impl Env {
    /// The real machine.
    pub fn os() -> Self {
        Self {
            fs: Arc::new(OsFs::new()),
            clock: Arc::new(OsClock::new()),
            random: Arc::new(OsRandom),
            resident: machine::resident,
            heap: Heap::UNKNOWN,
        }
    }
}
