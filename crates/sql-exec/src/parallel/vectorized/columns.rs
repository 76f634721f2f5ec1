//! Memory of a batch: stored rows, the selection vector, and columns of numbers.
//!
//! Neighbours: `nodes` fills columns, `program` says with what. **Invariants**: a row is here as it is stored; a column
//! has valid values only for the rows that were selected when it was computed.

use esker_engine::scan::MOST_PIECES;
use smallvec::SmallVec;

/// Most rows of a batch: a column takes 4 KiB, so those of a statement stay in the processor's cache.
pub(super) const ROWS: usize = 512;
const _: () = assert!(MOST_PIECES <= ROWS);
/// Bytes of copied rows after which a batch is full.
const BYTES: usize = 128 << 10;

/// Something that only evaluation a row at a time deals with: all rows of the batch take it.
#[derive(Debug)]
pub(super) struct Unusual;

/// Copies of stored rows that came one by one.
#[derive(Default)]
pub(super) struct Copies {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Copies {
    #[inline]
    pub(super) fn push(&mut self, row: &[u8]) {
        debug_assert!(!self.is_full());
        self.bytes.extend_from_slice(row);
        self.ends.push(self.bytes.len());
    }

    pub(super) fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    pub(super) fn is_full(&self) -> bool {
        self.ends.len() == ROWS || self.bytes.len() >= BYTES
    }

    pub(super) fn pieces(&self) -> SmallVec<[&[u8]; ROWS]> {
        let mut start = 0;
        let pieces = self.ends.iter().map(|end| {
            let piece = &self.bytes[start..*end];
            start = *end;
            piece
        });
        pieces.collect()
    }

    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }
}

/// The stored rows of a batch, wherever they are.
#[derive(Clone, Copy)]
pub(super) struct Rows<'r> {
    pieces: &'r [&'r [u8]],
    lead: Option<u8>,
}

impl<'r> Rows<'r> {
    /// At most [`ROWS`].
    pub(super) fn new(pieces: &'r [&'r [u8]]) -> Self {
        debug_assert!(pieces.len() <= ROWS);
        let lead = pieces.first().and_then(|first| first.first());
        let is_common = pieces.iter().all(|piece| piece.first() == lead);
        Self {
            pieces,
            lead: lead.copied().filter(|_| is_common),
        }
    }

    pub(super) fn len(self) -> usize {
        self.pieces.len()
    }

    /// The byte with which all rows begin: of rows of a table, their version.
    pub(super) fn lead(self) -> Option<u8> {
        self.lead
    }

    #[inline(always)]
    pub(super) fn get(self, row: usize) -> &'r [u8] {
        self.pieces[row]
    }
}

/// The numbers of all rows that a batch can have.
static EVERY_ROW: [u16; ROWS] = {
    let mut rows = [0; ROWS];
    let mut row = 0;
    while row < ROWS {
        rows[row] = row as u16;
        row += 1;
    }
    rows
};

/// The rows that are left.
#[derive(Default)]
pub(super) struct Selection {
    rows: Vec<u16>,
    /// If nothing was dropped yet, so many rows from the first on.
    all: Option<usize>,
}

impl Selection {
    pub(super) fn take_all(&mut self, rows: usize) {
        debug_assert!(rows <= ROWS);
        self.all = Some(rows);
    }

    pub(super) fn len(&self) -> usize {
        self.all.unwrap_or(self.rows.len())
    }

    /// All of them, in order. For what is short enough to be there twice: if no row is missing, a loop over numbers can
    /// be made of it that does several at once.
    #[inline(always)]
    pub(super) fn each(&self, mut f: impl FnMut(usize)) {
        match self.all {
            Some(rows) => (0..rows.min(ROWS)).for_each(f),
            None => self.rows.iter().for_each(|row| f(usize::from(*row) % ROWS)),
        }
    }

    /// All of them until something is unusual.
    #[inline(always)]
    pub(super) fn try_each(
        &self,
        mut f: impl FnMut(usize) -> Result<(), Unusual>,
    ) -> Result<(), Unusual> {
        for row in self.rows() {
            f(usize::from(*row) % ROWS)?;
        }
        Ok(())
    }

    fn rows(&self) -> &[u16] {
        match self.all {
            Some(rows) => &EVERY_ROW[..rows],
            None => &self.rows,
        }
    }

    /// The `nth` row that is left.
    pub(super) fn row(&self, nth: usize) -> usize {
        self.rows()[nth].into()
    }

    /// Keeps the rows for which `f` says so.
    #[inline(always)]
    pub(super) fn keep(&mut self, mut f: impl FnMut(usize) -> bool) {
        if let Some(rows) = self.all.take() {
            self.rows.clear();
            self.rows.extend_from_slice(&EVERY_ROW[..rows]);
        }
        let mut left = 0;
        for nth in 0..self.rows.len() {
            let row = self.rows[nth];
            self.rows[left] = row;
            left += usize::from(f(usize::from(row) % ROWS));
        }
        self.rows.truncate(left);
        debug_assert!(self.rows.is_sorted(), "rows stay in their order");
    }
}

/// Numbers by row, some of them NULL.
pub(super) struct Lane {
    pub numbers: Box<[i64; ROWS]>,
    nulls: Box<[bool; ROWS]>,
    has_nulls: bool,
}

impl Default for Lane {
    fn default() -> Self {
        Self {
            numbers: Box::new([0; ROWS]),
            nulls: Box::new([false; ROWS]),
            has_nulls: false,
        }
    }
}

impl Lane {
    #[inline(always)]
    pub(super) fn is_null(&self, row: usize) -> bool {
        self.has_nulls && self.nulls[row]
    }

    pub(super) fn has_nulls(&self) -> bool {
        self.has_nulls
    }

    /// Says of the selected rows which are NULL.
    #[inline(always)]
    pub(super) fn set_nulls(
        &mut self,
        possible: bool,
        selection: &Selection,
        f: impl Fn(usize) -> bool,
    ) {
        self.has_nulls = possible;
        if possible {
            selection.each(|row| self.nulls[row] = f(row));
        }
    }

    /// Takes what `f` has for each selected row: a number, or NULL.
    #[inline(always)]
    pub(super) fn fill(
        &mut self,
        selection: &Selection,
        mut f: impl FnMut(usize) -> Result<Option<i64>, Unusual>,
    ) -> Result<(), Unusual> {
        let mut has_nulls = false;
        let done = selection.try_each(|row| {
            let number = f(row)?;
            self.numbers[row] = number.unwrap_or(0);
            self.nulls[row] = number.is_none();
            has_nulls |= number.is_none();
            Ok(())
        });
        self.has_nulls = has_nulls;
        done
    }
}
