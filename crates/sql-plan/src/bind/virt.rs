//! Tables that are computed: information_schema and performance_schema.
//!
//! Neighbours: the session's name resolver hands them to the binder; the scan operator reads them.
//! **Invariant**: every row has exactly as many values as there are columns.

use std::sync::Arc;

use esker_types::{SqlResult, SqlType, Value};

use crate::expr::EvalEnv;

/// A column of a virtual table.
#[derive(Debug, Clone)]
pub struct VirtualColumn {
    /// Name.
    pub name: Arc<str>,
    /// Type.
    pub ty: SqlType,
}

/// A condition `column = text` that a virtual table may use to make fewer rows. Rows that do not fit
/// are filtered out again, so ignoring it is correct.
#[derive(Debug, Clone)]
pub struct Pushed {
    /// Column ordinal.
    pub column: usize,
    /// The text it equals.
    pub value: Vec<u8>,
}

/// A computed table.
pub trait VirtualTable: Send + Sync {
    /// Schema name as shown.
    fn schema(&self) -> &str;
    /// Table name as shown.
    fn name(&self) -> &str;
    /// Are its columns called what they are called there, however a query writes them? So it is with views.
    fn is_view(&self) -> bool;
    /// Do its rows wait for something, so that no worker may ask for them that others share?
    fn waits(&self) -> bool {
        false
    }
    /// Columns in order.
    fn columns(&self) -> &[VirtualColumn];
    /// Its rows now.
    fn rows(&self, env: &EvalEnv<'_>, pushed: &[Pushed]) -> SqlResult<Vec<Vec<Value>>>;
}
