//! The bytes of a file around the place that is read, which come in pieces.
//!
//! Neighbours: `read` makes fields of text files, `xml` rows of XML; a [`FileSource`] brings the pieces.
//!
//! **Invariants**
//! - Two pieces are in memory at most, and what is looked ahead for.
//! - What they and the reader take is reserved of the server's memory, or refused.

use std::sync::Arc;

use esker_engine::{MemoryBudget, Reservation};
use esker_sql_catalog::exec_error::engine_error;
use esker_types::SqlResult;
use esker_types::collation::Charset;

use super::FileSource;

/// Longest code of a character set of several bytes.
const MOST_CODE_BYTES: usize = 4;
/// Memory is reserved in pieces of this size.
const RESERVED_STEP: usize = 64 << 10;

/// The bytes of the file around the place that is read.
pub(super) struct Input<'a> {
    source: &'a mut dyn FileSource,
    check_killed: &'a dyn Fn() -> SqlResult<()>,
    buf: Vec<u8>,
    pub(super) pos: usize,
    /// The source has no more.
    ended: bool,
    piece: Vec<u8>,
    /// What the reader keeps of it, bytes.
    pub(super) field_bytes: usize,
    memory: Reservation,
}

impl<'a> Input<'a> {
    /// The file from its beginning.
    ///
    /// # Errors
    /// There is no memory left.
    pub(super) fn new(
        source: &'a mut dyn FileSource,
        check_killed: &'a dyn Fn() -> SqlResult<()>,
        memory: &Arc<MemoryBudget>,
    ) -> SqlResult<Self> {
        Ok(Self {
            source,
            check_killed,
            buf: Vec::new(),
            pos: 0,
            ended: false,
            piece: Vec::new(),
            field_bytes: 0,
            memory: memory.reserve(0).map_err(|e| engine_error(&e))?,
        })
    }

    /// Makes sure that `count` bytes are there, unless the file ends before.
    pub(super) fn look(&mut self, count: usize) -> SqlResult<&[u8]> {
        while self.buf.len() - self.pos < count && !self.ended {
            self.piece.clear();
            (self.check_killed)()?;
            self.source.read(&mut self.piece, self.check_killed)?;
            self.ended = self.piece.is_empty();
            self.buf.drain(..self.pos);
            self.pos = 0;
            if self.buf.is_empty() {
                std::mem::swap(&mut self.buf, &mut self.piece);
            } else {
                self.buf.extend_from_slice(&self.piece);
            }
            self.reserve()?;
        }
        Ok(&self.buf[self.pos..])
    }

    /// Reserves what is taken, beyond what was at most taken before.
    pub(super) fn reserve(&mut self) -> SqlResult<()> {
        let taken = self.buf.capacity() + self.piece.capacity() + self.field_bytes;
        let taken = taken.next_multiple_of(RESERVED_STEP);
        let more = taken.saturating_sub(self.memory.bytes());
        if more == 0 {
            return Ok(());
        }
        self.memory.grow(more).map_err(|e| engine_error(&e))
    }

    pub(super) fn peek(&mut self) -> SqlResult<Option<u8>> {
        match self.buf.get(self.pos) {
            Some(byte) => Ok(Some(*byte)),
            None => Ok(self.look(1)?.first().copied()),
        }
    }

    /// Steps over `text` if it comes next. Never over an empty one.
    pub(super) fn eat(&mut self, text: &[u8]) -> SqlResult<bool> {
        if text.is_empty() || self.peek()? != Some(text[0]) {
            return Ok(false);
        }
        let found = self.look(text.len())?.starts_with(text);
        if found {
            self.pos += text.len();
        }
        Ok(found)
    }

    /// The bytes at hand up to the first that is `special`.
    pub(super) fn plain(&mut self, special: &[bool; 256]) -> &[u8] {
        let rest = &self.buf[self.pos..];
        let end = rest.iter().position(|b| special[usize::from(*b)]);
        let plain = &rest[..end.unwrap_or(rest.len())];
        self.pos += plain.len();
        plain
    }

    /// Steps over the next byte; None at the end of the file.
    pub(super) fn next(&mut self) -> SqlResult<Option<u8>> {
        let byte = self.peek()?;
        self.pos += usize::from(byte.is_some());
        Ok(byte)
    }

    /// Bytes of what comes next and is taken whole, at least one.
    pub(super) fn code_len(&mut self, charset: Charset) -> SqlResult<usize> {
        if !charset.is_of_several_bytes() {
            return Ok(1);
        }
        Ok(charset.code_len(self.look(MOST_CODE_BYTES)?).max(1))
    }
}

/// Files for tests of the readers.
#[cfg(test)]
pub(super) mod testing {
    use super::{FileSource, SqlResult};

    /// A file that comes in pieces of one size.
    pub(in crate::textfile) struct Pieces<'a>(std::slice::Chunks<'a, u8>);

    impl<'a> Pieces<'a> {
        pub(in crate::textfile) fn new(file: &'a [u8], size: usize) -> Self {
            Self(file.chunks(size))
        }
    }

    impl FileSource for Pieces<'_> {
        fn read(
            &mut self,
            piece: &mut Vec<u8>,
            _check_killed: &dyn Fn() -> SqlResult<()>,
        ) -> SqlResult<()> {
            piece.extend_from_slice(self.0.next().unwrap_or_default());
            Ok(())
        }
    }
}
