//! Rows and keys as bytes.
//!
//! In flow order: `temporal` (dates as words), `phys` (how a type is stored), `row` ([`RowLayout`], [`RowReader`],
//! [`encode_row`], [`patch_row`]), `key` ([`KeyCodec`]: memcomparable keys, ranges, decoding), `entry` (columns in
//! entries of an index), `fields` (columns as numbers, of which blocks on disk speak), `words` ([`WordCodec`]:
//! entries of full-text indexes), `elements` ([`ElementCodec`]: those of multi-valued ones). Neighbours: `catalog`
//! derives layouts and key codecs from definitions; `exec` and `dml` read rows and build keys only through this
//! module.
//!
//! **Invariants**: reading a field allocates nothing and is O(1); damaged bytes are an error when a
//! reader is made, never a panic later; the order of encoded keys is the order of the values, NULL
//! first (last when DESC); two strings encode equally exactly when their collation says they are
//! equal; a stored row keeps TIMESTAMP in UTC, so index entries are computed in UTC on both sides
//! and a change of the session's time zone cannot lose an entry.

use esker_types::errors;
mod elements;
mod entry;
mod fields;
mod key;
mod phys;
mod row;
pub mod temporal;
#[cfg(test)]
mod tests;
mod words;

pub use elements::ElementCodec;
pub use entry::{EntryPlace, EntryShape};
pub use fields::{RowFields, columns_with_fields, field_of, part_of};
pub use key::{KeyCodec, KeyPart, KeyRange, prefix_successor};
pub use phys::Phys;
pub use row::{FieldPlaces, MAX_LAYOUT_VERSIONS, Raw};
pub use row::{LayoutVersion, RowLayout, RowReader, encode_row, patch_row};
pub use temporal::utc_to_zone;
pub use words::WordCodec;

/// The zone in which rows are read to build keys.
pub static UTC: jiff::tz::TimeZone = jiff::tz::TimeZone::UTC;

/// 1815: bytes that a checksum let pass are not what this code wrote.
pub fn damaged(what: &str) -> esker_types::SqlError {
    errors::internal(format!("damaged {what}"))
}
