//! Stopwords of full-text indexes that are made: none, the default ones, or those of a table.
//!
//! Neighbours: `schema` hands them to schema statements, `set` asks which tables may be named; the catalog stores the
//! words with the index.
//! **Invariant**: a table is read once, when an index is made: what becomes of it later changes no index.

use std::ops::Bound;
use std::sync::Arc;

use esker_engine::{Direction, Isolation, View};
use esker_sql_catalog::catalog::{StorageEngine, TableDef};
use esker_sql_catalog::codec::{RowReader, UTC};
use esker_sql_catalog::exec_error::engine_error;
use esker_sql_catalog::variables::{SessionValues, VarValue};
use esker_types::fulltext::Stopwords;
use esker_types::{SqlError, SqlResult, TypeKind, ValueRef, errors};

use super::context::SessionContext;

/// Bytes of all words of a table.
const MAX_BYTES: usize = 1 << 20;
/// The variables that name one: the session's own counts first.
pub(super) const VARIABLES: [&str; 2] = [
    "innodb_ft_user_stopword_table",
    "innodb_ft_server_stopword_table",
];

/// What new full-text indexes of a session leave out.
///
/// # Errors
/// The table has too many words, or cannot be read.
pub(super) fn of_session(context: &SessionContext, values: &SessionValues) -> SqlResult<Stopwords> {
    if !values.named("innodb_ft_enable_stopword").is_on() {
        return Ok(Stopwords::None);
    }
    let [own, of_server] = VARIABLES;
    let named = match values.named(own) {
        VarValue::Null => context.instance.globals.named(of_server),
        own => own.clone(),
    };
    if named == VarValue::Null {
        return Ok(Stopwords::Default);
    }
    // As in InnoDB, one that has gone counts as none.
    match table_named(context, named.as_text()) {
        Some(table) => Ok(Stopwords::Own(words_of(context, &table)?.into())),
        None => Ok(Stopwords::Default),
    }
}

/// 1231 if a table of stopwords cannot have this name.
pub(super) fn check_name(context: &SessionContext, variable: &str, name: &str) -> SqlResult<()> {
    match table_named(context, name) {
        Some(_) => Ok(()),
        None => Err(errors::wrong_value(variable, name)),
    }
}

/// The table `database/table`, whose first column is `value` VARCHAR.
fn table_named(context: &SessionContext, name: &str) -> Option<Arc<TableDef>> {
    let (schema, table) = name.split_once('/')?;
    let table = context.instance.catalog.resolve(schema, table)?;
    let column = table.columns.first()?;
    let is_one = &*column.name == "value"
        && column.ty.kind == TypeKind::VarChar
        && table.engine == StorageEngine::InnoDb;
    is_one.then_some(table)
}

fn words_of(context: &SessionContext, table: &TableDef) -> SqlResult<Vec<Box<str>>> {
    let txn = context.instance.engine.begin(Isolation::ReadCommitted);
    let (all, tree) = (Bound::Unbounded, &table.primary().tree);
    let rows = txn.scan(tree, all, all, Direction::Forward, View::Latest);
    let mut rows = rows.map_err(|e| engine_error(&e))?;
    let (mut words, mut bytes) = (Vec::new(), 0);
    while let Some((_, row)) = rows.next().map_err(|e| engine_error(&e))? {
        context.check()?;
        let row = RowReader::new(&table.layout, &UTC, row)?;
        if let ValueRef::Str(word) = row.field(0) {
            bytes += word.len();
            words.push(Box::from(&*String::from_utf8_lossy(word)));
        }
        if bytes > MAX_BYTES {
            let limit = format_args!("a stopword table of more than {MAX_BYTES} bytes");
            return Err(SqlError::not_supported(limit));
        }
    }
    Ok(words)
}
