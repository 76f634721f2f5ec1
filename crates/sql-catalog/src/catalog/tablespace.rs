//! General tablespaces: names that tables may give, and what is told of them.
//!
//! Neighbours: `store` has the keys and the pieces, [`super::Change`] writes, `ddl::tablespace` decides.
//! **Invariants**: a tablespace has neither a file nor rows, those of its tables are in the tables' trees; names are
//! compared as they are written.

use std::sync::Arc;

use esker_types::SqlResult;

use super::bytes::{Reader, Writer};
use crate::codec::damaged;

const TABLESPACE_FORMAT: u8 = 1;
/// Numbers of tablespaces are beyond those of trees, which tables have in their place.
pub const FIRST_TABLESPACE: u32 = 1 << 30;

/// The tablespace of a table that names InnoDB's own one.
pub const SYSTEM_TABLESPACE: &str = "innodb_system";
/// The name for one of its own.
pub const FILE_PER_TABLE: &str = "innodb_file_per_table";
/// Bytes of InnoDB's page, by which sizes are told.
pub const PAGE_BYTES: u64 = 16 << 10;

/// A general tablespace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TablespaceDef {
    /// Name.
    pub name: Arc<str>,
    /// Its number.
    pub id: u32,
    /// The file of ADD DATAFILE.
    pub file: Box<str>,
    /// FILE_BLOCK_SIZE in bytes.
    pub block_size: u64,
    /// AUTOEXTEND_SIZE in bytes.
    pub autoextend_size: u64,
    /// ENGINE_ATTRIBUTE.
    pub attribute: Option<Box<str>>,
}

pub(super) fn value(def: &TablespaceDef) -> Vec<u8> {
    let mut w = Writer::default();
    w.byte(TABLESPACE_FORMAT);
    w.text(&def.name);
    w.int(def.id.into());
    w.text(&def.file);
    w.int(def.block_size);
    w.int(def.autoextend_size);
    w.option(def.attribute.as_deref(), |w, text| w.text(text));
    w.out
}

pub(super) fn read(bytes: &[u8]) -> SqlResult<TablespaceDef> {
    let bad = || damaged("catalog row: tablespace");
    let mut r = Reader::new(bytes);
    if r.byte()? != TABLESPACE_FORMAT {
        return Err(damaged("catalog row: unknown format"));
    }
    let def = TablespaceDef {
        name: r.text()?.into(),
        id: u32::try_from(r.int()?).map_err(|_| bad())?,
        file: r.text()?.into(),
        block_size: r.int()?,
        autoextend_size: r.int()?,
        attribute: r.option(|r| Ok(r.text()?.into()))?,
    };
    r.end()?;
    Ok(def)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tablespace_comes_back() {
        for attribute in [None, Some("{}".into())] {
            let def = TablespaceDef {
                name: "t".into(),
                id: FIRST_TABLESPACE,
                file: "t.ibd".into(),
                block_size: 8192,
                autoextend_size: 4 << 20,
                attribute,
            };
            let bytes = value(&def);
            assert_eq!(read(&bytes), Ok(def));
            assert!((0..bytes.len()).all(|end| read(&bytes[..end]).is_err()));
        }
    }
}
