//! SHOW: what it shows, as columns and rows; and the LIKE and WHERE that cut them down.
//!
//! Neighbours: `session` runs it; rows about schema objects come from `infoschema`, texts of CREATE
//! statements from `ddl`, counters from the engine.
//! Parts: this file (dispatch, filter) · `objects` (databases, tables, columns, keys, CREATE) · `triggers`, `routines`
//! (stored routines), `events` · `grants` · `privileges` · `server` (variables, status, sessions, everything else) ·
//! `engine` (SHOW ENGINE) ·
//! `status` (status variables), `innodb` (those that InnoDB has), `innodb_status` (its monitor), `uncounted` (those
//! that stay 0) · `users` (SHOW CREATE USER).
//! **Invariants**: column names, their order and their types are MySQL 8.4's, because clients read them by position and
//! convert values by type; LIKE applies to the first column, in SHOW TRIGGERS and SHOW OPEN TABLES to the table, in
//! SHOW EVENTS to the name.

mod engine;
mod events;
mod grants;
mod innodb;
mod innodb_status;
mod objects;
mod privileges;
mod routines;
mod server;
pub(crate) mod status;
mod triggers;
mod uncounted;
mod users;

use std::sync::Arc;

use esker_sql_catalog::catalog::{ProgramSettings, Quotes, Shown};
use esker_sql_catalog::exec_error::ExecError;
use esker_sql_catalog::result::ColumnMeta;
use esker_sql_syntax::ast::{Show, ShowFilter, ShowWhat};
use esker_sql_syntax::keyword::Kw;
use esker_types::collation::Collation;
use esker_types::{SqlMode, SqlResult, SqlType, TypeKind, Value};

use crate::infoschema::{self, TableSpec, Wanted};
use crate::session::{Described, Session};

/// A result that is made whole.
pub(crate) struct Table {
    pub(crate) columns: Arc<[ColumnMeta]>,
    pub(crate) rows: Vec<Vec<Value>>,
}

/// The error where no database is selected.
const NO_DATABASE: u16 = 1046;

/// Longest text column of SHOW, characters.
const TEXT: u32 = 1024;

pub(crate) fn text_type(chars: u32) -> SqlType {
    SqlType::varchar(chars, Collation::UTF8MB4_0900_AI_CI)
}

/// INT UNSIGNED.
fn int_type() -> SqlType {
    SqlType {
        unsigned: true,
        ..SqlType::new(TypeKind::Int)
    }
}

impl Table {
    /// A table of text columns.
    pub(crate) fn texts(names: &[&str], rows: Vec<Vec<Value>>) -> Self {
        Self::of_types(names.iter().map(|n| (*n, text_type(TEXT))), rows)
    }

    /// A table of columns with these names and types.
    pub(crate) fn of_types<'a>(
        columns: impl IntoIterator<Item = (&'a str, SqlType)>,
        rows: Vec<Vec<Value>>,
    ) -> Self {
        let columns = columns.into_iter();
        let columns = columns.map(|(name, ty)| ColumnMeta::computed(name, ty));
        Self {
            columns: columns.collect(),
            rows,
        }
    }

    /// A table whose columns named in `numbers` are BIGINT UNSIGNED.
    pub(crate) fn mixed(names: &[&str], numbers: &[&str], rows: Vec<Vec<Value>>) -> Self {
        let columns = names.iter().map(|n| match numbers.contains(n) {
            true => (*n, SqlType::bigint(true)),
            false => (*n, text_type(TEXT)),
        });
        Self::of_types(columns, rows)
    }

    /// A table whose columns have types of columns of a system table: pairs of their names there and here. Long texts
    /// are TEXT, as MySQL sends them.
    pub(crate) fn typed(
        spec: &TableSpec,
        shown: &[(&str, &str)],
        mut rows: Vec<Vec<Value>>,
    ) -> Self {
        let ty = |&(column, _): &(&str, &str)| {
            let at = spec.column(column).expect("a column of the table");
            let mut ty = spec.columns[at].ty.clone();
            if matches!(ty.kind, TypeKind::MediumText | TypeKind::LongText) {
                ty.kind = TypeKind::Text;
            }
            ty
        };
        let types: Vec<SqlType> = shown.iter().map(ty).collect();
        for row in &mut rows {
            for (value, ty) in row.iter_mut().zip(&types) {
                infoschema::fit_value(value, ty);
            }
        }
        let named = shown.iter().zip(types);
        Self::of_types(named.map(|((_, name), ty)| (*name, ty)), rows)
    }

    /// The same from whole rows of the system table.
    pub(crate) fn picked(spec: &TableSpec, shown: &[(&str, &str)], rows: Vec<Vec<Value>>) -> Self {
        let place =
            |(column, _): &(&str, &str)| spec.column(column).expect("a column of the table");
        let places: Vec<usize> = shown.iter().map(place).collect();
        let pick = |row: Vec<Value>| places.iter().map(|&at| row[at].clone()).collect();
        Self::typed(spec, shown, rows.into_iter().map(pick).collect())
    }

    /// Appends ` (pattern)` to the first column's name where MySQL does.
    fn name_pattern(&mut self, what: &ShowWhat, pattern: &[u8]) {
        if !matches!(what, ShowWhat::Databases | ShowWhat::Tables { .. }) {
            return;
        }
        let pattern = String::from_utf8_lossy(pattern);
        let mut columns = self.columns.to_vec();
        columns[0].name = format!("{} ({pattern})", columns[0].name).into();
        self.columns = columns.into();
    }
}

pub(crate) use users::secret as shown_secret;

/// What SHOW CREATE of a stored program answers with: columns of its own, and what it was made under.
fn of_program(own: Vec<(&str, Value)>, settings: &ProgramSettings) -> Table {
    let made_under = [
        ("character_set_client", t(&settings.charset_client)),
        ("collation_connection", t(&settings.collation_connection)),
        ("Database Collation", t(&settings.database_collation)),
    ];
    let (names, row): (Vec<&str>, Vec<Value>) = own.into_iter().chain(made_under).unzip();
    Table::texts(&names, vec![row])
}

/// The rows of a table of a system schema, for a SHOW that answers with them.
///
/// # Errors
/// The statement is killed or out of time.
fn read(session: &Session, spec: &TableSpec, wanted: &Wanted) -> SqlResult<Vec<Vec<Value>>> {
    infoschema::rows(spec, &session.context.viewer(), wanted, &session.context)
}

pub(crate) fn t(s: impl AsRef<str>) -> Value {
    Value::str(s.as_ref())
}

/// Is SHOW VARIABLES about GTIDs, so that it waits for those of what is committed? A list of all variables, which
/// clients ask for when they connect, waits for nothing.
pub(crate) fn asks_for_gtids(show: &Show) -> bool {
    match (&show.what, &show.filter) {
        (ShowWhat::Variables(_), Some(ShowFilter::Like(pattern))) => {
            pattern.to_ascii_lowercase().starts_with(b"gtid")
        }
        _ => false,
    }
}

/// How LIKE compares: databases and tables that differ in the case of letters are others, but for
/// information_schema and its tables.
fn like_collation(session: &Session, what: &ShowWhat, pattern: &[u8]) -> Collation {
    const SYSTEM: &str = "information_schema";
    let is_system = match what {
        ShowWhat::Databases => pattern.eq_ignore_ascii_case(SYSTEM.as_bytes()),
        ShowWhat::Tables { schema, .. } | ShowWhat::TableStatus { schema } => {
            let given = schema.as_ref().map(|s| &*s.text);
            let database = given.or(session.context.database.as_deref());
            database.is_some_and(|name| name.eq_ignore_ascii_case(SYSTEM))
        }
        ShowWhat::Triggers { .. } => false,
        _ => true,
    };
    match is_system {
        true => Collation::UTF8MB4_GENERAL_CI,
        false => Collation::UTF8MB4_BIN,
    }
}

/// Runs SHOW; `params` stand in its WHERE.
pub(crate) fn run(
    session: &mut Session,
    show: &Show,
    params: &[Value],
) -> Result<Table, ExecError> {
    if asks_for_gtids(show) {
        session.context.instance.await_binlog();
    }
    let mut table = make(session, &show.what)?;
    // Of routines and open tables, LIKE is about their names, of triggers about those of their tables.
    let liked = match show.what {
        ShowWhat::RoutineStatus(_) | ShowWhat::OpenTables { .. } => 1,
        ShowWhat::Triggers { .. } => triggers::LIKE_COLUMN,
        ShowWhat::Events { .. } => events::LIKE_COLUMN,
        _ => 0,
    };
    match &show.filter {
        None => (),
        Some(ShowFilter::Like(pattern)) => {
            let collation = like_collation(session, &show.what, pattern);
            let mut rows = Vec::new();
            for row in table.rows {
                if let Value::Str(s) = &row[liked]
                    && collation.like(s, pattern, Some('\\'), &session.context)?
                {
                    rows.push(row);
                }
            }
            table.rows = rows;
            table.name_pattern(&show.what, pattern);
        }
        Some(ShowFilter::Where(condition)) => session.filter_rows(&mut table, condition, params)?,
    }
    Ok(table)
}

/// The columns of SHOW, as COM_STMT_PREPARE tells them: none of those that MySQL does not run as queries, and none
/// where something is missing, which the execution will tell.
///
/// # Errors
/// 1046.
pub(crate) fn describe(session: &mut Session, show: &Show) -> SqlResult<Arc<[ColumnMeta]>> {
    // MySQL runs as queries those whose rows LIKE and WHERE may filter.
    if !show.what.is_filterable() {
        return Ok(Arc::default());
    }
    let mut table = match make(session, &show.what) {
        Ok(table) => table,
        Err(e) if e.code == NO_DATABASE => return Err(e),
        Err(_) => return Ok(Arc::default()),
    };
    if let Some(ShowFilter::Like(pattern)) = &show.filter {
        table.name_pattern(&show.what, pattern);
    }
    Ok(table.columns)
}

fn make(session: &mut Session, what: &ShowWhat) -> SqlResult<Table> {
    if let ShowWhat::Columns { table, .. } = what
        && let Described::View(_) = session.context.find_described(table)?
    {
        session.check_view(table)?;
    }
    match what {
        ShowWhat::Databases
        | ShowWhat::Tables { .. }
        | ShowWhat::OpenTables { .. }
        | ShowWhat::TableStatus { .. }
        | ShowWhat::Columns { .. }
        | ShowWhat::Index { .. }
        | ShowWhat::CreateTable(_)
        | ShowWhat::CreateView(_)
        | ShowWhat::CreateDatabase { .. }
        | ShowWhat::CreateRoutine(..)
        | ShowWhat::Triggers { .. }
        | ShowWhat::Events { .. }
        | ShowWhat::RoutineStatus(_) => objects::make(session, what),
        _ => server::make(session, what),
    }
}

/// The answer to HELP, whatever it is about: the tables of help are empty.
pub(crate) fn no_help() -> Table {
    let columns = [("name", text_type(64)), ("is_it_category", text_type(1))];
    Table::of_types(columns, Vec::new())
}

/// How this session sees definitions.
fn shown(session: &Session) -> Shown<'_> {
    let mode = session.vars.sql_mode;
    Shown {
        zone: &session.vars.time_zone,
        generated_key: session.vars.shows_generated_keys,
        quotes: Quotes::of(mode, bare_names(session)),
        ansi: mode.has(SqlMode::ANSI),
        every_format: session.values.named("show_create_table_verbosity").is_on(),
    }
}

/// Where `sql_quote_show_create` is OFF, what finds the words that have quotes all the same.
fn bare_names(session: &Session) -> Option<fn(&str) -> bool> {
    let is_keyword: fn(&str) -> bool = |name| {
        let word = Kw::lookup(name.as_bytes());
        word != Kw::OTHER && !word.is_function_word()
    };
    let always = session.values.named("sql_quote_show_create").is_on();
    (!always).then_some(is_keyword)
}

/// The answer where Esker has nothing of the kind: MySQL's columns, no rows.
fn empty(names: &[&str]) -> SqlResult<Table> {
    Ok(Table::texts(names, Vec::new()))
}
