//! `FTS_DOC_ID`, the column in which InnoDB numbers documents of full-text indexes.
//!
//! Neighbours: `create`, `create_select` and `alter` ask when the draft is finished. **Invariant**: a column of this
//! name has no meaning here; what InnoDB would refuse is refused, so that a table can be made there, too. A table that
//! has been so from before can be altered.

use esker_sql_catalog::catalog::{ColumnDef, TableDef};
use esker_types::{SqlError, SqlResult, TypeKind, errors};

use super::draft_finish::{Built, BuiltIndex};

const COLUMN: &str = "FTS_DOC_ID";
const INDEX: &str = "FTS_DOC_ID_INDEX";

/// 1797 and 1798 where a table with full-text indexes has a column or an index of these names that is none for
/// documents; 1166 where a new table without has such a column.
pub(super) fn check(built: &Built, old: Option<&TableDef>) -> SqlResult<()> {
    if old.is_some_and(is_refused) {
        return Ok(());
    }
    let is_new = old.is_none();
    let has_words = built.indexes.iter().any(|index| index.fulltext.is_some());
    let mut columns = built.columns.iter();
    let column = columns.find(|c| c.name.eq_ignore_ascii_case(COLUMN));
    if let Some(column) = column
        && !is_doc_id(column, is_new)
    {
        match (has_words, is_new) {
            (true, _) => {
                let text = format!(
                    "Column '{}' is of wrong type for an InnoDB FULLTEXT index",
                    column.name
                );
                return Err(SqlError::new(1797, "HY000", text));
            }
            (false, true) => return Err(errors::wrong_column_name(&column.name)),
            (false, false) => {}
        }
    }
    let mut indexes = built.indexes.iter();
    match indexes.find(|index| index.name.eq_ignore_ascii_case(INDEX)) {
        Some(index) if has_words && !is_of_doc_id(built, index) => {
            let text = format!(
                "Index '{}' is of wrong type for an InnoDB FULLTEXT index",
                index.name
            );
            Err(SqlError::new(1798, "HY000", text))
        }
        _ => Ok(()),
    }
}

/// Has the table full-text indexes beside a column that InnoDB would not have?
fn is_refused(table: &TableDef) -> bool {
    let mut columns = table.columns.iter();
    let column = columns.find(|c| c.name.eq_ignore_ascii_case(COLUMN));
    !table.fulltext().is_empty() && column.is_some_and(|c| !is_doc_id(c, false))
}

/// A new table may have it signed.
fn is_doc_id(column: &ColumnDef, is_new: bool) -> bool {
    let ty = &column.ty;
    let is_number = ty.kind == TypeKind::BigInt && (ty.unsigned || is_new);
    &*column.name == COLUMN && is_number && !ty.nullable
}

fn is_of_doc_id(built: &Built, index: &BuiltIndex) -> bool {
    let names = index
        .parts
        .iter()
        .map(|part| &*built.columns[part.col].name);
    &*index.name == INDEX && index.unique && names.eq([COLUMN])
}
