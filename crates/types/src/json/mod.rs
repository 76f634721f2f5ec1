//! JSON documents: their bytes, and everything that is done with them.
//!
//! In flow order: `text` (text to tree, with `diagnose` for what is wrong with a text), `dom` (the tree), `encode`
//! (tree to bytes, docs/formats/json.md), `view` (bytes read in place), `print` (bytes to text), `order`
//! (comparison, hash), `key` (sort keys), `path` (path expressions) and `seek` (what they find), `modify` (changes
//! of a tree), `differ` (what makes one document of another), `contains` (JSON_CONTAINS, JSON_OVERLAPS), `scalar`
//! (SQL values to JSON), `convert` (JSON to SQL values), `table` (JSON_VALUE, JSON_TABLE) and `default` (of
//! JSON_VALUE), `array` (elements of multi-valued indexes) and `schema` (JSON Schema). Neighbours: `Value::Json`
//! holds encoded documents; `func::json` are the SQL functions; `cast` and `cmp` call `convert` and `order`.
//!
//! **Invariants**: a document has at most [`MAX_DEPTH`] levels; members of an object are sorted by length of the
//! key, then by its bytes, and no key is there twice; reading damaged bytes gives JSON null where they are damaged,
//! never a panic.

mod array;
mod contains;
pub mod convert;
pub mod default;
mod diagnose;
mod differ;
mod dom;
#[cfg(test)]
mod element_tests;
mod encode;
mod key;
mod modify;
mod order;
mod path;
mod print;
mod scalar;
pub mod schema;
mod seek;
pub mod table;
#[cfg(test)]
mod tests;
mod text;
mod view;

pub use array::{
    ElementType, check_length, element, element_keys, elements, elements_text, invalid_element,
};
pub use contains::{contains, member_of, overlaps};
pub use differ::{Step, differ};
pub use dom::{Json, object};
pub use encode::{encode, encode_scalar, encode_watched};
pub use key::sort_key;
pub use modify::{
    ArrayInsert, Edit, append, array_insert, edit, holds, merge_patch, merge_preserve, remove,
};
pub use order::{compare, hash64};
pub use path::{ArrayIndex, Leg, Path, parse_path};
pub use print::{depth, pretty, print, put_escaped, quote, unquoted};
pub use scalar::from_value;
pub use seek::{exists, extract_one, seek, seek_in_arrays, walk};
pub use text::{Fault, parse};
pub use view::{Items, JsonRef, View, is_sound};

use crate::error::SqlError;

/// Most levels of a document.
pub const MAX_DEPTH: usize = 100;
/// Longest key of a member, in bytes: its length is stored in 16 bits.
pub const MAX_KEY: usize = 65_535;

/// MySQL's field types, as opaque values carry them.
pub mod field_type {
    /// TIMESTAMP.
    pub const TIMESTAMP: u8 = 7;
    /// DATE.
    pub const DATE: u8 = 10;
    /// TIME.
    pub const TIME: u8 = 11;
    /// DATETIME.
    pub const DATETIME: u8 = 12;
    /// VARBINARY, and byte strings of expressions.
    pub const VARCHAR: u8 = 15;
    /// BIT.
    pub const BIT: u8 = 16;
    /// DECIMAL.
    pub const NEWDECIMAL: u8 = 246;
    /// TINYBLOB.
    pub const TINY_BLOB: u8 = 249;
    /// MEDIUMBLOB.
    pub const MEDIUM_BLOB: u8 = 250;
    /// LONGBLOB.
    pub const LONG_BLOB: u8 = 251;
    /// BLOB.
    pub const BLOB: u8 = 252;
    /// VARBINARY in metadata.
    pub const VAR_STRING: u8 = 253;
    /// BINARY.
    pub const STRING: u8 = 254;
    /// Spatial types.
    pub const GEOMETRY: u8 = 255;
}

/// 3157
pub fn too_deep() -> SqlError {
    SqlError::new(
        3157,
        "22032",
        "The JSON document exceeds the maximum depth.",
    )
}

/// 3150
pub fn too_big() -> SqlError {
    SqlError::new(
        3150,
        "22032",
        "The JSON value is too big to be stored in a JSON column.",
    )
}

/// 3151
pub fn key_too_long() -> SqlError {
    SqlError::new(
        3151,
        "22032",
        "The JSON object contains a key name that is too long.",
    )
}

/// 3158
pub fn null_key() -> SqlError {
    SqlError::new(
        3158,
        "22032",
        "JSON documents may not contain NULL member names.",
    )
}
