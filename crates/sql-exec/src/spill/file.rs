//! Temporary files: checked blocks, and runs of records in them.
//!
//! ```text
//! block   crc32c of the rest (4, little endian) | records
//! record  length (4, little endian) | bytes
//! ```
//! Neighbours: `space` makes the files; everything else in `spill` writes and reads runs. **Invariants**: a file only
//! grows, its blocks belong to runs that are written side by side; a block holds whole records, at least one; a run is
//! read as it was written, block by block; buffers are charged, as large as they are.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use esker_engine::Charge;
use esker_sql_catalog::codec::damaged;
use esker_sql_catalog::exec_error::{os_text, out_of_descriptors};
use esker_types::{SqlError, SqlResult, errors};
use esker_vfs::File;

use super::space::TempSpace;

/// Largest block of records that are smaller, bytes.
const MAX_BLOCK: u64 = 64 * 1024;
/// Smallest, bytes.
const MIN_BLOCK: u64 = 4 * 1024;
/// Blocks of this size fit a budget this many times.
const BLOCKS_PER_BUDGET: u64 = 16;
const CRC_BYTES: usize = 4;
const LEN_BYTES: usize = 4;

/// Bytes of a block for an operator that may keep `budget` bytes.
pub(crate) fn block_bytes(budget: u64) -> usize {
    (budget / BLOCKS_PER_BUDGET).clamp(MIN_BLOCK, MAX_BLOCK) as usize
}

/// What an error of the device means to the client.
pub(super) fn io_error(code: u16, what: &str, e: &io::Error) -> SqlError {
    if e.kind() == io::ErrorKind::StorageFull {
        return errors::disk_full(
            "temporary files",
            "free some space and run the statement again",
        );
    }
    if let Some(out) = out_of_descriptors("temporary", e) {
        return out;
    }
    let text = format!("{what} 'temporary' ({})", os_text(e));
    SqlError::new(code, "HY000", text)
}

/// A file that belongs to one operator.
pub(crate) struct SpillFile {
    handle: Arc<Handle>,
    end: u64,
}

/// The open file; its bytes count as used until the last reader is gone.
struct Handle {
    file: Arc<dyn File>,
    space: Arc<TempSpace>,
    bytes: std::sync::atomic::AtomicU64,
}

impl Drop for Handle {
    fn drop(&mut self) {
        let bytes = self.bytes.load(Ordering::Relaxed);
        let used = self.space.used.fetch_sub(bytes, Ordering::Relaxed);
        assert!(used >= bytes, "what a file used was counted");
    }
}

impl SpillFile {
    pub(super) fn new(file: Arc<dyn File>, space: Arc<TempSpace>) -> Self {
        let handle = Handle {
            file,
            space,
            bytes: 0.into(),
        };
        Self {
            handle: Arc::new(handle),
            end: 0,
        }
    }

    fn append(&mut self, block: &[u8]) -> SqlResult<Block> {
        let len = u32::try_from(block.len()).map_err(|_| too_long())?;
        let at = self.end;
        let written = self.handle.file.write_all_at(block, at);
        written.map_err(|e| io_error(3, "Error writing file", &e))?;
        self.end += u64::from(len);
        let handle = &self.handle;
        handle.bytes.fetch_add(u64::from(len), Ordering::Relaxed);
        let used = &handle.space.used;
        used.fetch_add(u64::from(len), Ordering::Relaxed);
        debug_assert!(block.len() > CRC_BYTES, "a block holds a record");
        debug_assert_eq!(
            handle.bytes.load(Ordering::Relaxed),
            self.end,
            "a file only grows"
        );
        Ok(Block { at, len })
    }

    /// Reads a run of this file from its beginning.
    pub fn read(&self, run: &Run) -> RunReader {
        RunReader {
            handle: self.handle.clone(),
            blocks: run.blocks.clone(),
            next: 0,
            buffer: Vec::new(),
            at: 0,
            charge: self.buffer_charge(),
        }
    }

    /// A charge for a buffer of what is written to it or read from it.
    pub(super) fn buffer_charge(&self) -> Charge {
        self.handle.space.buffer_charge()
    }
}

fn too_long() -> SqlError {
    errors::out_of_memory("a row of a temporary result is too long")
}

#[derive(Debug, Clone, Copy)]
struct Block {
    at: u64,
    len: u32,
}

/// Records in the order in which they were written.
#[derive(Debug, Clone, Default)]
pub(crate) struct Run {
    blocks: Arc<[Block]>,
    /// How many.
    pub records: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Bytes of the largest block.
    pub(super) longest: usize,
}

/// Writes one run.
pub(crate) struct RunWriter {
    buffer: Vec<u8>,
    blocks: Vec<Block>,
    records: u64,
    bytes: u64,
    longest: usize,
    block_bytes: usize,
    charge: Option<Charge>,
}

impl RunWriter {
    /// A run with blocks of about `block_bytes`.
    pub fn new(block_bytes: usize) -> Self {
        Self {
            buffer: Vec::new(),
            blocks: Vec::new(),
            records: 0,
            bytes: 0,
            longest: 0,
            block_bytes,
            charge: None,
        }
    }

    /// Appends what `write` writes as one record.
    pub fn push(
        &mut self,
        file: &mut SpillFile,
        write: impl FnOnce(&mut Vec<u8>),
    ) -> SqlResult<()> {
        if self.buffer.len() >= self.block_bytes {
            self.flush(file)?;
        }
        if self.buffer.is_empty() {
            self.buffer.extend_from_slice(&[0; CRC_BYTES]);
        }
        let start = self.buffer.len();
        self.buffer.extend_from_slice(&[0; LEN_BYTES]);
        write(&mut self.buffer);
        let charge = self.charge.get_or_insert_with(|| file.buffer_charge());
        charge.raise_to(self.buffer.capacity());
        let len = self.buffer.len() - start - LEN_BYTES;
        let stored = u32::try_from(len).map_err(|_| too_long())?;
        self.buffer[start..start + LEN_BYTES].copy_from_slice(&stored.to_le_bytes());
        self.records += 1;
        self.bytes += len as u64;
        Ok(())
    }

    fn flush(&mut self, file: &mut SpillFile) -> SqlResult<()> {
        if self.buffer.is_empty() {
            return Ok(());
        }
        debug_assert!(self.records > 0 && self.buffer.len() > CRC_BYTES);
        let crc = crc32c::crc32c(&self.buffer[CRC_BYTES..]);
        self.buffer[..CRC_BYTES].copy_from_slice(&crc.to_le_bytes());
        self.blocks.push(file.append(&self.buffer)?);
        self.longest = self.longest.max(self.buffer.len());
        self.buffer.clear();
        Ok(())
    }

    /// Ends the run.
    pub fn finish(mut self, file: &mut SpillFile) -> SqlResult<Run> {
        self.flush(file)?;
        debug_assert!(self.buffer.is_empty());
        debug_assert_eq!(self.blocks.is_empty(), self.records == 0);
        Ok(Run {
            blocks: self.blocks.into(),
            records: self.records,
            bytes: self.bytes,
            longest: self.longest,
        })
    }
}

/// Reads one run.
pub(crate) struct RunReader {
    handle: Arc<Handle>,
    blocks: Arc<[Block]>,
    next: usize,
    buffer: Vec<u8>,
    at: usize,
    charge: Charge,
}

impl RunReader {
    /// The next record, lent until the next call.
    pub fn next(&mut self) -> SqlResult<Option<&[u8]>> {
        if self.at >= self.buffer.len() && !self.next_block()? {
            return Ok(None);
        }
        let (at, broken) = (self.at, || damaged("temporary file"));
        let len = self.buffer.get(at..at + LEN_BYTES).ok_or_else(broken)?;
        let len = u32::from_le_bytes(len.try_into().map_err(|_| broken())?) as usize;
        self.at = at + LEN_BYTES + len;
        let record = self.buffer.get(at + LEN_BYTES..self.at);
        record.map(Some).ok_or_else(broken)
    }

    fn next_block(&mut self) -> SqlResult<bool> {
        let Some(block) = self.blocks.get(self.next) else {
            return Ok(false);
        };
        self.next += 1;
        debug_assert!(
            self.at >= self.buffer.len(),
            "the block before is read to its end"
        );
        self.buffer.resize(block.len as usize, 0);
        self.charge.raise_to(self.buffer.capacity());
        let read = self.handle.file.read_exact_at(&mut self.buffer, block.at);
        read.map_err(|e| io_error(2, "Error reading file", &e))?;
        let (stored, records) = self.buffer.split_at(CRC_BYTES);
        if stored != crc32c::crc32c(records).to_le_bytes() {
            return Err(damaged("temporary file"));
        }
        self.at = CRC_BYTES;
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use esker_engine::{MemoryBudget, MemoryUse};

    use super::*;
    use crate::spill::{TempFiles, TempSpace};

    #[test]
    fn without_a_file_descriptor_the_error_is_mysqls() -> SqlResult<()> {
        use esker_vfs::sim::{Fault, Op};
        let machine = esker_vfs::sim::SimEnv::new(1);
        let memory = MemoryBudget::unlimited();
        let space = TempSpace::open(machine.env().fs, std::path::Path::new("/data"), &memory)?;
        let temp = TempFiles::new(space);
        machine.fs.inject(Fault::on(Op::Create).no_descriptor());
        let error = temp.create().err().expect("no file");
        let text =
            "Out of resources when opening file 'temporary' (OS errno 24 - Too many open files)";
        assert_eq!((error.code, &*error.message), (23, text));
        temp.create().map(drop)
    }

    #[test]
    fn runs_side_by_side_are_read_back_and_damage_is_found() -> SqlResult<()> {
        let machine = esker_vfs::sim::SimEnv::new(1);
        let memory = MemoryBudget::unlimited();
        let dir = std::path::Path::new("/data");
        let space = TempSpace::open(machine.env().fs, dir, &memory)?;
        let counted = || memory.used(MemoryUse::TempFiles);
        let temp = TempFiles::new(space.clone());
        let mut file = temp.create()?;
        let names = machine.env().fs.list(dir).expect("lists");
        assert!(names.is_empty(), "a file in use has no name");
        let mut writers = [RunWriter::new(64), RunWriter::new(64)];
        for n in 0..100_u8 {
            let writer = &mut writers[usize::from(n % 2)];
            // Some are longer than a block, some are empty.
            writer.push(&mut file, |out| {
                out.resize(out.len() + usize::from(n) * 3 % 200, n)
            })?;
        }
        // Two buffers, each for a block and the record that ended it.
        assert!((2 * 64..4 * 300).contains(&counted()), "{}", counted());
        let [even, odd] = writers;
        let runs = [even.finish(&mut file)?, odd.finish(&mut file)?];
        for (first, run) in runs.iter().enumerate() {
            let mut reader = file.read(run);
            assert_eq!(counted(), 0);
            for n in (first as u8..100).step_by(2) {
                let expected = vec![n; usize::from(n) * 3 % 200];
                assert_eq!(reader.next()?, Some(&expected[..]));
            }
            assert_eq!(reader.next()?, None);
            assert!(counted() >= run.longest && run.longest >= 64);
        }
        assert_eq!((space.used_bytes(), counted()), (file.end, 0));
        let at = runs[0].blocks[1].at + 9;
        file.handle
            .file
            .write_all_at(&[0xA5; 3], at)
            .expect("writes");
        let mut reader = file.read(&runs[0]);
        let error = loop {
            match reader.next() {
                Ok(Some(_)) => {}
                Ok(None) => panic!("damage was not found"),
                Err(e) => break e,
            }
        };
        assert_eq!(error.code, 1815);
        drop((file, reader));
        assert_eq!(space.used_bytes(), 0);
        Ok(())
    }
}
