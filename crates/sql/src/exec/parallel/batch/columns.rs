//! Memory of a batch: the stored rows, which of them are left, and columns of numbers.
//!
//! Neighbours: `nodes` fills columns, `program` says with what.
//! **Invariants**: a row is here as it is stored, and can be read; what a column has is only said of rows that were left when it was
//! computed.

/// Most rows of a batch: a column takes 4 KiB, so those of a statement stay in the processor's cache.
pub(super) const ROWS: usize = 512;
/// Bytes of rows after which a batch is full.
const BYTES: usize = 128 << 10;

/// Something that only the row way deals with: all rows of the batch go that way.
#[derive(Debug)]
pub(super) struct Unusual;

/// Stored rows.
#[derive(Default)]
pub(super) struct Rows {
    bytes: Vec<u8>,
    ends: Vec<u32>,
    /// First byte of the first row.
    lead: u8,
    /// Others begin with another one.
    is_mixed: bool,
}

impl Rows {
    /// Takes a row, which has some bytes.
    #[inline]
    pub(super) fn push(&mut self, row: &[u8]) {
        match self.ends.is_empty() {
            true => (self.lead, self.is_mixed) = (row[0], false),
            false => self.is_mixed |= row[0] != self.lead,
        }
        self.bytes.extend_from_slice(row);
        self.ends.push(self.bytes.len() as u32);
    }

    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }

    /// The byte with which all rows begin: of rows of a table, their version.
    pub(super) fn lead(&self) -> Option<u8> {
        (!self.is_mixed && !self.ends.is_empty()).then_some(self.lead)
    }

    pub(super) fn is_full(&self) -> bool {
        self.ends.len() == ROWS || self.bytes.len() >= BYTES
    }

    #[inline(always)]
    pub(super) fn get(&self, row: usize) -> &[u8] {
        let start = row.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.bytes[start as usize..self.ends[row] as usize]
    }

    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }
}

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

    #[inline(always)]
    pub(super) fn each(&self, mut f: impl FnMut(usize)) {
        match self.all {
            Some(rows) => (0..rows.min(ROWS)).for_each(f),
            None => self.rows.iter().for_each(|row| f(usize::from(*row))),
        }
    }

    /// The same until something is unusual.
    #[inline(always)]
    pub(super) fn try_each(
        &self,
        mut f: impl FnMut(usize) -> Result<(), Unusual>,
    ) -> Result<(), Unusual> {
        match self.all {
            Some(rows) => (0..rows.min(ROWS)).try_for_each(f),
            None => self.rows.iter().try_for_each(|row| f(usize::from(*row))),
        }
    }

    /// The `nth` row that is left.
    pub(super) fn row(&self, nth: usize) -> usize {
        match self.all {
            Some(_) => nth,
            None => self.rows[nth].into(),
        }
    }

    /// Keeps the rows for which `f` says so.
    #[inline(always)]
    pub(super) fn keep(&mut self, mut f: impl FnMut(usize) -> bool) {
        match self.all.take() {
            Some(rows) => {
                self.rows.clear();
                self.rows.resize(rows, 0);
                let mut left = 0;
                for row in 0..rows {
                    self.rows[left] = row as u16;
                    left += usize::from(f(row));
                }
                self.rows.truncate(left);
            }
            None => self.rows.retain(|row| f(usize::from(*row))),
        }
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
