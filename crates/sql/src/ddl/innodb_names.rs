//! Names that InnoDB has a meaning for: `FTS_DOC_ID`, the column in which it numbers documents of full-text indexes,
//! its system columns, and its clustered index.
//!
//! Neighbours: `create`, `create_select` and `alter` ask when the draft is finished. **Invariant**: such a name has no
//! meaning here; what InnoDB would refuse is refused, so that a table can be made there, too. A table that has been so
//! from before can be altered.

use esker_sql_catalog::catalog::{ColumnDef, TableDef};
use esker_types::{SqlError, SqlResult, TypeKind, errors};

use super::draft_finish::{Built, BuiltIndex};

const COLUMN: &str = "FTS_DOC_ID";
const INDEX: &str = "FTS_DOC_ID_INDEX";

/// Columns that every InnoDB table has, hidden.
const SYSTEM_COLUMNS: [&str; 3] = ["DB_ROW_ID", "DB_TRX_ID", "DB_ROLL_PTR"];

/// 1797 and 1798 where a table with full-text indexes has a column or an index of these names that is none for
/// documents; 1166 where a new table without has such a column, and for a new column with the name of a system column.
pub(super) fn check(built: &Built, old: Option<&TableDef>) -> SqlResult<()> {
    check_system_columns(built, old)?;
    check_clustered_name(built)?;
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

fn check_system_columns(built: &Built, old: Option<&TableDef>) -> SqlResult<()> {
    let is_system = |name: &str| SYSTEM_COLUMNS.iter().any(|s| name.eq_ignore_ascii_case(s));
    let had = |name: &str| {
        let mut columns = old.into_iter().flat_map(|table| &table.columns);
        columns.any(|c| c.name.eq_ignore_ascii_case(name))
    };
    let mut columns = built.columns.iter();
    match columns.find(|c| is_system(&c.name) && !had(&c.name)) {
        Some(column) => Err(errors::wrong_column_name(&column.name)),
        None => Ok(()),
    }
}

/// 1280: InnoDB calls the clustered index so of a table without a key.
fn check_clustered_name(built: &Built) -> SqlResult<()> {
    const CLUSTERED: &str = "GEN_CLUST_INDEX";
    let is_new = |index: &&BuiltIndex| index.existing.is_none();
    let mut names = built.indexes.iter().filter(is_new).map(|index| &index.name);
    match names.any(|name| name.eq_ignore_ascii_case(CLUSTERED)) {
        true => Err(errors::wrong_index_name(CLUSTERED)),
        false => Ok(()),
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
