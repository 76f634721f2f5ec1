//! Sequential read-ahead: a long scan reads large stretches from the device and takes single blocks from them.
//!
//! Neighbours: `iter` takes blocks out of it; `tree::run` carries it from one extent to the next.
//!
//! **Invariants**
//! - At most [`READ_AHEAD_BYTES`] are held, or one block that is larger. As many behind them were asked of the system,
//!   and at the border of an extent the next one.
//! - What is held belongs to one extent: [`ReadAhead::forget`] goes before another.

use super::reader::Extent;
use crate::Result;
use crate::budget::Charge;

/// Bytes that are read at once when reading ahead; as many behind them are asked for meanwhile.
const READ_AHEAD_BYTES: u32 = 512 << 10;

/// Stored bytes of an extent that were read ahead.
#[derive(Default)]
pub(crate) struct ReadAhead {
    /// Where they begin, and how many they are.
    offset: u32,
    bytes: u32,
    /// They are at its beginning. It is kept from one reading to the next, because new memory costs as much as reading
    /// into it.
    buffer: Vec<u8>,
    charge: Charge,
}

impl ReadAhead {
    /// The walk goes to another extent. What a large block has needed is not kept.
    pub(super) fn forget(&mut self) {
        self.bytes = 0;
        if self.buffer.len() > READ_AHEAD_BYTES as usize {
            self.release();
        }
    }

    fn release(&mut self) {
        self.buffer = Vec::new();
        self.charge = Charge::default();
    }

    /// Whether the walk had to read something of this extent.
    pub(super) fn is_in_use(&self) -> bool {
        self.bytes > 0
    }

    fn get(&self, offset: u32, bytes: u32) -> Option<&[u8]> {
        let start = offset.checked_sub(self.offset)?;
        let end = start.checked_add(bytes).filter(|end| *end <= self.bytes)?;
        self.buffer.get(start as usize..end as usize)
    }

    /// A stored block, out of what was read ahead or together with what follows it, up to `end`, which is asked for
    /// only then.
    pub(super) fn read(
        &mut self,
        extent: &Extent,
        offset: u32,
        stored_bytes: u32,
        end: impl FnOnce() -> u32,
    ) -> Result<&[u8]> {
        if self.get(offset, stored_bytes).is_none() {
            let rest = end() - offset;
            let bytes = rest.min(READ_AHEAD_BYTES).max(stored_bytes);
            if rest > bytes {
                extent.will_read(offset + bytes, (rest - bytes).min(READ_AHEAD_BYTES));
            }
            self.fill(extent, offset, bytes)?;
        }
        let stored = self.get(offset, stored_bytes);
        Ok(stored.expect("it was there, or was just read"))
    }

    fn fill(&mut self, extent: &Extent, offset: u32, bytes: u32) -> Result<()> {
        self.forget();
        if self.buffer.len() < bytes as usize {
            // Not both at once.
            self.release();
            self.charge = extent.background_charge(bytes as usize);
            self.buffer = vec![0; bytes as usize];
        }
        extent.read_to(&mut self.buffer[..bytes as usize], offset)?;
        (self.offset, self.bytes) = (offset, bytes);
        Ok(())
    }
}
