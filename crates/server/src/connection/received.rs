//! Memory for what clients have sent and no statement works on yet.
//!
//! Neighbours: `connection` makes room here before each read, `parameters` before it keeps long data.
//!
//! **Invariants**
//! - Buffers grow with what has come, never to what a packet says it will be.
//! - What all clients together have of [`LARGE`] and more stays below a part of the memory limit, but for one client's
//!   alone: a command may always be as long as `max_allowed_packet`.
//! - [`ALL`] is the sum over all clients; one that goes takes its part with it.

use std::sync::atomic::{AtomicUsize, Ordering};

use esker_engine::MemoryBudget;
use esker_types::{SqlResult, errors, large};

/// Smaller buffers are part of what a connection costs, and double; from here on they grow by a quarter.
const LARGE: usize = 1 << 20;
/// Large ones have one part in so many of the memory limit together.
const PART: usize = 8;
/// However small the limit is, they may have so much.
const LEAST: usize = 32 << 20;

/// Bytes of what is large, of all clients.
static ALL: AtomicUsize = AtomicUsize::new(0);

/// What a client may send much of.
#[derive(Clone, Copy)]
pub(crate) enum Sent {
    /// Packets, whole or not, and what they were compressed to.
    Packets,
    /// Long data of parameters that were not executed yet.
    LongData,
}

/// What one client has of [`ALL`].
#[derive(Default)]
pub(crate) struct Received {
    held: [usize; 2],
}

impl Received {
    /// Makes room for `chunk` bytes more behind what is in a buffer of packets; `others` are bytes of the client's
    /// other buffers of packets.
    ///
    /// # Errors
    /// 1041: there is no memory for it.
    pub(crate) fn make_room(
        &mut self,
        buffer: &mut Vec<u8>,
        chunk: usize,
        others: usize,
        budget: &MemoryBudget,
    ) -> SqlResult<()> {
        let length = buffer.len();
        if buffer.capacity() - length >= chunk {
            return Ok(());
        }
        self.hold(Sent::Packets, others + length + step(length, chunk), budget)?;
        grow(buffer, chunk)?;
        debug_assert!(buffer.capacity() - length >= chunk);
        Ok(())
    }

    /// The client has so many bytes of this from now on.
    ///
    /// # Errors
    /// 1041: that is more than it had, and too much.
    pub(crate) fn hold(
        &mut self,
        what: Sent,
        bytes: usize,
        budget: &MemoryBudget,
    ) -> SqlResult<()> {
        let (bytes, before) = (if_large(bytes), self.held[what as usize]);
        if bytes <= before {
            self.keep(what, bytes);
            return Ok(());
        }
        let own: usize = self.held.iter().sum();
        let others = ALL.fetch_add(bytes - before, Ordering::Relaxed) - own;
        let all = others + own + bytes - before;
        if others > 0 && all > (budget.limit() / PART).max(LEAST) {
            ALL.fetch_sub(bytes - before, Ordering::Relaxed);
            return Err(errors::out_of_memory(
                "a client sends more than there is memory for",
            ));
        }
        self.held[what as usize] = bytes;
        Ok(())
    }

    /// The client has no more of this than so many bytes from now on.
    pub(crate) fn keep(&mut self, what: Sent, bytes: usize) {
        let held = &mut self.held[what as usize];
        let less = held.saturating_sub(if_large(bytes));
        if less > 0 {
            *held -= less;
            let all = ALL.fetch_sub(less, Ordering::Relaxed);
            debug_assert!(all >= less, "what is given back was held");
        }
    }
}

impl Drop for Received {
    fn drop(&mut self) {
        self.keep(Sent::Packets, 0);
        self.keep(Sent::LongData, 0);
    }
}

/// Makes room for `least` bytes more in a buffer, and for some that may follow them.
///
/// # Errors
/// 1041: the heap has no more.
pub(crate) fn grow(buffer: &mut Vec<u8>, least: usize) -> SqlResult<()> {
    if buffer.capacity() - buffer.len() >= least {
        return Ok(());
    }
    large::exact_room(buffer, step(buffer.len(), least))
}

/// What a buffer of this length grows by.
fn step(length: usize, least: usize) -> usize {
    least.max(if length < LARGE { length } else { length / 4 })
}

fn if_large(bytes: usize) -> usize {
    if bytes < LARGE { 0 } else { bytes }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHUNK: usize = 4096;

    fn fill(
        received: &mut Received,
        buffer: &mut Vec<u8>,
        to: usize,
        budget: &MemoryBudget,
    ) -> SqlResult<()> {
        while buffer.len() < to {
            received.make_room(buffer, CHUNK, 0, budget)?;
            let (length, room) = (buffer.len(), buffer.capacity() - buffer.len());
            assert!(room >= CHUNK && (length < 2 * LARGE || room <= length / 2));
            buffer.resize(buffer.capacity(), 0);
        }
        Ok(())
    }

    #[test]
    fn buffers_grow_with_what_has_come_and_one_client_may_always_go_on() {
        let budget = MemoryBudget::new(64 << 20);
        let (mut one, mut first) = (Received::default(), Vec::new());
        one.hold(Sent::LongData, 40 * LARGE, &budget)
            .expect("nobody else has anything");
        fill(&mut one, &mut first, 48 * LARGE, &budget).expect("nor now");
        let (mut other, mut second) = (Received::default(), Vec::new());
        let refused = fill(&mut other, &mut second, 2 * LARGE, &budget);
        assert_eq!(refused.expect_err("the first has all").code, 1041);
        assert!(second.len() < 2 * LARGE);
        one.keep(Sent::Packets, 0);
        one.keep(Sent::LongData, LARGE / 2);
        fill(&mut other, &mut second, 12 * LARGE, &budget).expect("the first has nothing");
        let mut third = Vec::new();
        fill(&mut one, &mut third, 2 * LARGE, &budget).expect("there is some");
        drop((one, other));
        assert_eq!(ALL.load(Ordering::Relaxed), 0);
    }
}
