//! Rows as text, NULL as `NULL`.

use esker_sql::RowSink;
use esker_types::cast::write_text;
use esker_types::{SqlType, ValueRef};

/// Takes rows from a session.
#[derive(Default)]
pub struct Rows {
    pub rows: Vec<Vec<String>>,
    /// Bytes since the test has set it to 0 the last time.
    pub bytes: usize,
    /// The most there were at the end of a row.
    pub most_bytes: usize,
}

impl Rows {
    /// Each row's values, joined by this.
    pub fn joined(&self, separator: &str) -> Vec<String> {
        self.rows.iter().map(|row| row.join(separator)).collect()
    }
}

impl RowSink for Rows {
    fn begin_row(&mut self) {
        self.rows.push(Vec::new());
    }

    fn value(&mut self, v: ValueRef<'_>, ty: &SqlType) {
        let mut text = Vec::new();
        match v {
            ValueRef::Null => text.extend_from_slice(b"NULL"),
            v => write_text(v, ty, &mut text),
        }
        self.bytes += text.len();
        let row = self.rows.last_mut().expect("a row was begun");
        row.push(String::from_utf8_lossy(&text).into_owned());
    }

    fn end_row(&mut self) {
        self.most_bytes = self.most_bytes.max(self.bytes);
    }

    fn bytes(&self) -> usize {
        self.bytes
    }
}
