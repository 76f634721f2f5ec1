//! What must be known of a table to log its rows.
//!
//! Neighbours: `sql` makes one of each table definition.
//! **Invariants**: columns are in the order of the table, invisible ones included.

use std::sync::Arc;

use esker_types::SqlType;
use esker_types::collation::Charset;

use super::Form;

/// A table.
#[derive(Debug, Clone)]
pub struct Shape {
    /// Number by which row events name the definition; 48 bits.
    pub table_id: u64,
    /// Database.
    pub schema: Arc<str>,
    /// Name.
    pub table: Arc<str>,
    /// Columns.
    pub columns: Vec<ShapeColumn>,
    /// It has foreign keys, or other tables have some that name it.
    pub is_related: bool,
    /// The first column is a generated invisible primary key.
    pub has_generated_key: bool,
    /// Columns of the primary key, each with the length of its prefix in characters; 0: the whole column.
    pub primary_key: Vec<(usize, u32)>,
}

/// A column.
#[derive(Debug, Clone)]
pub struct ShapeColumn {
    /// Name.
    pub name: Arc<str>,
    /// Type.
    pub ty: SqlType,
    /// How its values lie in images.
    pub form: Form,
    /// The character set its texts are to be in.
    pub charset: Charset,
    /// SELECT * does not show it.
    pub invisible: bool,
}

impl ShapeColumn {
    /// A column of this type.
    pub fn new(name: Arc<str>, ty: SqlType, invisible: bool) -> Self {
        let (form, charset) = (Form::of(&ty), ty.collation.charset());
        Self {
            name,
            ty,
            form,
            charset,
            invisible,
        }
    }
}
