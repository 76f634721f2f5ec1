//! Entries of an index in place: where they have a column, and as which number.
//!
//! An entry is taken as its key, followed by its value: the parts of the index, then those of the clustered key,
//! wherever the index keeps them.
//!
//! Neighbours: `key` has the format; `exec::parallel::batch` reads columns of many entries.
//! **Invariant**: a place is asked only about whole entries ([`EntryShape::fits`]).

use esker_types::{Decimal, ValueRef};
use jiff::tz::TimeZone;

use super::key::{KeyCodec, PartShape};
use super::phys::Phys;
use super::row::Raw;
use super::temporal;
use crate::catalog::{IndexDef, TableDef};

/// Bytes of a hidden row id.
const ROW_ID_BYTES: usize = 8;
/// Widest number.
const WORD_BYTES: usize = 8;

/// What the entries of an index are made of.
#[derive(Debug)]
pub struct EntryShape {
    parts: Vec<PartShape>,
    /// Bytes of all parts, if all entries have as many.
    bytes: Option<usize>,
    /// Bytes behind the parts.
    row_id_bytes: usize,
}

/// Where entries have a column.
#[derive(Debug)]
pub struct EntryPlace {
    start: Start,
    shape: PartShape,
    phys: Phys,
    /// The codec of the clustered key has the part, not that of the index.
    is_clustered: bool,
    nth: usize,
}

#[derive(Debug)]
enum Start {
    At(usize),
    Behind(Vec<PartShape>),
}

impl EntryShape {
    /// The entries of a secondary index.
    pub fn of(def: &TableDef, index: &IndexDef) -> Self {
        let parts = index
            .codec
            .parts()
            .iter()
            .chain(def.primary().codec.parts());
        let parts: Vec<_> = parts.map(PartShape::of).collect();
        let has_row_id = def.primary().codec.parts().is_empty();
        let row_id_bytes = if has_row_id { ROW_ID_BYTES } else { 0 };
        Self {
            bytes: parts.iter().map(|part| part.same_len()).sum(),
            parts,
            row_id_bytes,
        }
    }

    /// Does an entry have all parts, and nothing else?
    #[inline]
    pub fn fits(&self, entry: &[u8]) -> bool {
        let bytes = match self.bytes {
            Some(bytes) => Some(bytes),
            None => self
                .parts
                .iter()
                .try_fold(0, |at, part| Some(at + part.len(entry.get(at..)?)?)),
        };
        bytes.is_some_and(|bytes| bytes + self.row_id_bytes == entry.len())
    }

    /// Where entries have a column, if it can be read from them.
    pub fn place(&self, def: &TableDef, index: &IndexDef, col: usize) -> Option<EntryPlace> {
        let of = |codec: &KeyCodec| {
            let has = |nth: &usize| codec.parts()[*nth].col == col && codec.is_reversible(*nth);
            (0..codec.parts().len()).find(has)
        };
        let own_parts = index.codec.parts().len();
        let (is_clustered, nth, at) = match of(&index.codec) {
            Some(nth) => (false, nth, nth),
            None => of(&def.primary().codec).map(|nth| (true, nth, own_parts + nth))?,
        };
        let before = &self.parts[..at];
        Some(EntryPlace {
            start: match before.iter().map(|part| part.same_len()).sum() {
                Some(bytes) => Start::At(bytes),
                None => Start::Behind(before.to_vec()),
            },
            shape: self.parts[at],
            phys: Phys::of(&def.columns[col].ty),
            is_clustered,
            nth,
        })
    }
}

impl EntryPlace {
    /// How rows would store the column.
    pub fn phys(&self) -> Phys {
        self.phys
    }

    /// The part, and what is behind it.
    #[inline]
    fn part<'e>(&self, entry: &'e [u8]) -> &'e [u8] {
        match &self.start {
            Start::At(bytes) => &entry[*bytes..],
            Start::Behind(parts) => parts.iter().fold(entry, |rest, part| {
                let bytes = part.len(rest);
                &rest[bytes.expect("the entry is whole")..]
            }),
        }
    }

    /// The field, in the form that keys have.
    #[inline]
    pub fn find<'e>(&self, entry: &'e [u8]) -> Raw<'e> {
        let part = self.part(entry);
        if self.shape.is_null(part) == Some(true) {
            return Raw::Null;
        }
        Raw::Bytes(self.shape.value(part))
    }

    /// The value of the field.
    pub fn value<'e>(
        &self,
        def: &'e TableDef,
        index: &'e IndexDef,
        entry: &'e [u8],
        zone: &TimeZone,
    ) -> Option<ValueRef<'e>> {
        let owner = if self.is_clustered {
            def.primary()
        } else {
            index
        };
        let found = owner.codec.decode_part(self.nth, self.part(entry), zone);
        found.map(|(value, _)| value)
    }

    /// The number that [`Phys::number`] has for the field as rows store it.
    #[inline]
    pub fn number(&self, bytes: &[u8]) -> Option<i64> {
        let flip = self.shape.flip();
        if let Phys::Decimal { precision, .. } = self.phys {
            let precision = u32::from(precision);
            return match flip {
                0 => Decimal::decode_digits(precision, bytes),
                _ => {
                    let bytes: Vec<u8> = bytes.iter().map(|b| b ^ flip).collect();
                    Decimal::decode_digits(precision, &bytes)
                }
            };
        }
        if let Phys::Int { unsigned, .. } = self.phys {
            return self.integer(bytes, unsigned);
        }
        let (word, unused_bits) = self.word(bytes)?;
        match self.phys {
            Phys::Date => {
                let date = temporal::date_of((word >> unused_bits) as u32);
                Some(date.packed().into())
            }
            Phys::DateTime => {
                let datetime = temporal::datetime_of(word >> unused_bits);
                i64::try_from(datetime.packed()).ok()
            }
            Phys::Time => Some(temporal::time_of(signed(word, unused_bits)).micros()),
            _ => None,
        }
    }

    /// The same of an integer.
    #[inline(always)]
    pub fn integer(&self, bytes: &[u8], unsigned: bool) -> Option<i64> {
        let (word, unused_bits) = self.word(bytes)?;
        match unsigned {
            true => i64::try_from(word >> unused_bits).ok(),
            false => Some(signed(word, unused_bits)),
        }
    }

    /// The bytes of a field as a number whose first bit is the first bit of the field, and how many bits it does not
    /// use.
    #[inline(always)]
    fn word(&self, bytes: &[u8]) -> Option<(u64, u32)> {
        let word = match *bytes {
            // The usual sizes, for which no loop is needed.
            [a, b, c, d] => u32::from_be_bytes([a, b, c, d]).into(),
            [a, b, c, d, e, f, g, h] => u64::from_be_bytes([a, b, c, d, e, f, g, h]),
            _ => {
                let mut word = [0; WORD_BYTES];
                word[WORD_BYTES.checked_sub(bytes.len())?..].copy_from_slice(bytes);
                u64::from_be_bytes(word)
            }
        };
        let flips = u64::from_ne_bytes([self.shape.flip(); WORD_BYTES]);
        let unused_bits = 8 * (WORD_BYTES - bytes.len()) as u32;
        Some(((word ^ flips) << unused_bits, unused_bits))
    }
}

/// The signed number of a field of which this is the word.
#[inline(always)]
fn signed(word: u64, unused_bits: u32) -> i64 {
    (word ^ 1 << 63) as i64 >> unused_bits
}
