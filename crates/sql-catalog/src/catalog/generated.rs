//! Generated columns in the catalog: how their expressions are stored beside the table.
//!
//! Neighbours: `store` writes the extension; `ddl` makes the definitions, `dml::exprs` computes the values.
//! **Invariant**: a column is named by its id, so nothing here changes when columns move.

use esker_types::SqlResult;

use super::bytes::{Reader, Writer};
use super::def::{ColumnDef, GeneratedDef};
use crate::codec::damaged;

const STORED: u8 = 1;
const HIDDEN: u8 = 2;

/// The extension of a table; None: it has no generated column.
pub(super) fn extension_of(columns: &[ColumnDef]) -> Option<Vec<u8>> {
    let all: Vec<(u32, &GeneratedDef)> = columns
        .iter()
        .filter_map(|c| Some((c.id, c.generated.as_ref()?)))
        .collect();
    if all.is_empty() {
        return None;
    }
    let mut w = Writer::default();
    w.int(all.len() as u64);
    for (id, generated) in all {
        w.int(u64::from(id));
        let stored = if generated.stored { STORED } else { 0 };
        let hidden = if generated.hidden { HIDDEN } else { 0 };
        w.byte(stored | hidden);
        w.text(&generated.text);
    }
    Some(w.out)
}

/// Puts what an extension says into its columns; nothing if there is none.
pub(super) fn read_extension(content: &[u8], columns: &mut [ColumnDef]) -> SqlResult<()> {
    if content.is_empty() {
        return Ok(());
    }
    let mut r = Reader::new(content);
    let all = r.list(|r| Ok((r.int32()?, r.byte()?, r.text()?.into())))?;
    r.end()?;
    for (id, flags, text) in all {
        let column = columns.iter_mut().find(|c| c.id == id);
        let column = column.filter(|_| flags <= STORED | HIDDEN);
        let column = column.ok_or_else(|| damaged("catalog row: generated column"))?;
        column.generated = Some(GeneratedDef {
            text,
            stored: flags & STORED != 0,
            hidden: flags & HIDDEN != 0,
        });
    }
    Ok(())
}
