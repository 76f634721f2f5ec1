//! Seeded random numbers: the same seed gives the same run on every machine.
//!
//! **Invariants**
//! - The sequence of a seed never changes; failing seeds must stay reproducible.

use parking_lot::Mutex;

use crate::env::Random;

/// A small seeded generator (SplitMix64): fast, and good enough to explore schedules. Not for keys.
#[derive(Debug, Clone)]
pub struct SimRng {
    state: u64,
}

impl SimRng {
    /// The generator of this seed.
    pub fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// The next number over the whole range.
    pub fn next_u64(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number in `0..bound`; `bound` must not be zero.
    pub fn below(&mut self, bound: u64) -> u64 {
        assert!(bound > 0, "an empty range has no member");
        ((u128::from(self.next_u64()) * u128::from(bound)) >> 64) as u64
    }

    /// True in `percent` of 100 calls.
    pub fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    /// Fills the buffer.
    pub fn fill(&mut self, buf: &mut [u8]) {
        for chunk in buf.chunks_mut(8) {
            let bytes = self.next_u64().to_le_bytes();
            chunk.copy_from_slice(&bytes[..chunk.len()]);
        }
    }
}

/// [`SimRng`] behind the [`Random`] trait.
#[derive(Debug)]
pub struct SimRandom(Mutex<SimRng>);

impl SimRandom {
    /// The source of this seed.
    pub fn new(seed: u64) -> Self {
        Self(Mutex::new(SimRng::new(seed)))
    }
}

impl Random for SimRandom {
    fn fill(&self, buf: &mut [u8]) {
        self.0.lock().fill(buf);
    }
}
