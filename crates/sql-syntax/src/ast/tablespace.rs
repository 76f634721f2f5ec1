//! CREATE, ALTER and DROP TABLESPACE.

use super::Ident;

/// What becomes of a tablespace.
#[derive(Debug, Clone, PartialEq)]
pub struct TablespaceStatement {
    /// Its name.
    pub name: Ident,
    /// What is done.
    pub action: TablespaceAction,
    /// Options behind that.
    pub options: TablespaceOptions,
}

/// What is done to a tablespace.
#[derive(Debug, Clone, PartialEq)]
pub enum TablespaceAction {
    /// CREATE, with the file of ADD DATAFILE.
    Create(Option<Vec<u8>>),
    /// ALTER … ADD DATAFILE.
    AddDatafile(Vec<u8>),
    /// ALTER … DROP DATAFILE.
    DropDatafile(Vec<u8>),
    /// ALTER … RENAME TO.
    Rename(Ident),
    /// ALTER with options alone.
    Alter,
    /// DROP.
    Drop,
}

/// Options of a tablespace that mean something.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct TablespaceOptions {
    /// ENGINE.
    pub engine: Option<Box<str>>,
    /// FILE_BLOCK_SIZE in bytes.
    pub block_size: Option<u64>,
    /// AUTOEXTEND_SIZE in bytes.
    pub autoextend_size: Option<u64>,
    /// ENCRYPTION.
    pub encryption: Option<Vec<u8>>,
    /// ENGINE_ATTRIBUTE.
    pub attribute: Option<Vec<u8>>,
}
