//! Row images: how the columns of a table lie in row events.
//!
//! `form` (the kinds of fields, with their type codes), `write` and `read` (values to bytes and back), `shape` (what
//! must be known of a table). Neighbours: `sql` makes a [`Shape`] of each table definition and hands in values;
//! `event::table_map` prints the shape, `event::rows` puts images together. **Invariants**: `read(write(v)) == v` for
//! every value a column can hold; texts are in the column's character set.

mod form;
mod read;
mod shape;
mod write;

pub use form::Form;
pub use shape::{Shape, ShapeColumn};
pub use write::NotInImage;
