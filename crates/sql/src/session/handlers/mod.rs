//! HANDLER: tables that a session reads row by row in the order of an index.
//!
//! Parts: `place` (where a handler stands, and the keys from there on: pure), `read` (HANDLER … READ); OPEN, CLOSE and
//! what closes handlers besides is here. Neighbours: `utility` calls this; `names` resolves tables and takes their
//! locks.
//!
//! **Invariants**
//! - A handler holds no metadata lock between its statements. Each READ looks at the table that has the name then, and
//!   begins anew if that is another one or has another definition.
//! - What the session itself does to a table closes the handlers on it, whether it succeeds or not, as in MySQL.

mod place;
mod read;

use std::sync::Arc;

use esker_sql_catalog::catalog::{TableDef, same_name};
use esker_sql_catalog::exec_error::ExecError;
use esker_sql_catalog::result::{Mode, OkInfo};
use esker_sql_plan::bind::{Names, Need, TableSource};
use esker_sql_syntax::ast::{
    FlushWhat, HandlerStatement, Ident, MaintainKind, ObjectName, Statement,
};
use esker_types::{SqlResult, errors};

use super::Session;
use super::names::{Purpose, SessionNames};
use super::run::Done;
use crate::infoschema;
use place::Spot;

/// Most handlers that a session has open.
const MAX_HANDLERS: usize = 1024;

/// The handlers of a session.
#[derive(Default)]
pub(super) struct Handlers(Vec<OpenHandler>);

/// An open handler.
struct OpenHandler {
    /// What it is called.
    alias: Box<str>,
    schema: Box<str>,
    name: Box<str>,
    /// The table as the handler last saw it.
    table: Arc<TableDef>,
    /// Where it stands: in an index, or, with `None`, in the order of the rows. `None`: nowhere yet.
    stands: Option<(Option<usize>, Spot)>,
}

impl Handlers {
    fn find(&self, alias: &str) -> SqlResult<usize> {
        let mut open = self.0.iter();
        open.position(|handler| same_name(&handler.alias, alias))
            .ok_or_else(|| errors::unknown_table_in(alias, "HANDLER"))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Closes all.
    pub(super) fn clear(&mut self) {
        self.0 = Vec::new();
    }
}

impl Session {
    pub(super) fn run_handler(
        &mut self,
        handler: &HandlerStatement,
        mode: Mode,
    ) -> Result<Done, ExecError> {
        if self.locks.has_explicit() {
            return Err(errors::has_locked_tables().into());
        }
        match handler {
            HandlerStatement::Open { table, alias } => self.open_handler(table, alias.as_ref())?,
            HandlerStatement::Read(read) => return self.read_handler(read, mode),
            HandlerStatement::Close(name) => {
                let at = self.handlers.find(&name.text)?;
                self.handlers.0.remove(at);
            }
        }
        Ok(Done::Ok(OkInfo::default(), self.end_statement(true)?))
    }

    fn open_handler(&mut self, table: &ObjectName, alias: Option<&Ident>) -> Result<(), ExecError> {
        let alias = &*alias.unwrap_or(&table.name).text;
        let (schema, name) = self.context.full_name(table)?;
        let (schema, name): (Box<str>, Box<str>) = (schema.into(), name.into());
        if self.handlers.find(alias).is_ok() {
            return Err(errors::not_unique_table(alias).into());
        }
        if self.handlers.0.len() >= MAX_HANDLERS {
            let text = format!("a session has at most {MAX_HANDLERS} open handlers");
            return Err(errors::out_of_memory(text).into());
        }
        let is_open = self.shows_transaction();
        self.use_transaction();
        let table = self.bind(Purpose::Run, |scope| {
            base_table(&scope.names, &schema, &name)
        });
        // While it waits it keeps its place in the queue; what was granted shows when it runs again and asks.
        if !is_open && !matches!(table, Err(ExecError::Wait(_))) {
            // With autocommit off it is the first read that begins a transaction, not this, whether it fails or not.
            self.locks.release_transaction();
            self.forget_unbegun();
        }
        let table = table?;
        self.handlers.0.push(OpenHandler {
            alias: alias.into(),
            schema,
            name,
            table,
            stands: None,
        });
        Ok(())
    }

    /// Runs a statement that may change tables on which there are handlers, and closes those.
    pub(super) fn run_beside_handlers<R>(
        &mut self,
        statement: &Statement,
        run: impl FnOnce(&mut Self) -> R,
    ) -> R {
        self.close_named(statement);
        // What a statement does to tables that it does not name shows in their definitions.
        let is_current = |session: &Self, handler: &OpenHandler| {
            let now = session.context.resolve(&handler.schema, &handler.name);
            now.is_some_and(|now| Arc::ptr_eq(&now, &handler.table))
        };
        let open = |session: &Self| -> Vec<bool> {
            let handlers = session.handlers.0.iter();
            handlers
                .map(|handler| is_current(session, handler))
                .collect()
        };
        let before = open(self);
        let done = run(self);
        let after = open(self);
        let changed = before.into_iter().zip(after);
        let mut changed = changed.map(|(before, after)| before && !after);
        let handlers = &mut self.handlers.0;
        handlers.retain(|_| !changed.next().unwrap_or(false));
        done
    }

    /// Closes the handlers on tables that the statement works on. FLUSH TABLES only makes them begin anew.
    fn close_named(&mut self, statement: &Statement) {
        let (names, is_flush) = match statement {
            Statement::Flush { what, .. } => (flushed(what), true),
            other => (Some(worked_on(other)), false),
        };
        let full = |name: &ObjectName| {
            let (schema, name) = self.context.full_name(name).ok()?;
            Some((schema.to_owned(), name.to_owned()))
        };
        let named: Option<Vec<(String, String)>> =
            names.map(|names| names.into_iter().filter_map(full).collect());
        let is_meant = |handler: &OpenHandler| {
            let is_it = |(schema, name): &(String, String)| {
                **schema == *handler.schema && **name == *handler.name
            };
            named.as_ref().is_none_or(|named| named.iter().any(is_it))
        };
        match is_flush {
            true => self.handlers.0.iter_mut().for_each(|handler| {
                if is_meant(handler) {
                    handler.stands = None;
                }
            }),
            false => self.handlers.0.retain(|handler| !is_meant(handler)),
        }
    }
}

/// The table of this name, with its lock.
fn base_table(names: &SessionNames<'_>, schema: &str, name: &str) -> SqlResult<Arc<TableDef>> {
    match names.table(Need::Read, Some(schema), name)? {
        TableSource::Base(table) => Ok(table),
        TableSource::Virtual(_) => Err(match infoschema::schema(schema) {
            Some(system) if system.name == "information_schema" => {
                errors::wrong_object(system.name, name.to_uppercase(), "BASE TABLE")
            }
            _ => errors::no_such_option(name),
        }),
        TableSource::View(_) => Err(errors::wrong_object(schema, name, "BASE TABLE")),
    }
}

/// Tables that FLUSH is about; `None`: all.
fn flushed(what: &[FlushWhat]) -> Option<Vec<&ObjectName>> {
    let mut named = Vec::new();
    for item in what {
        match item {
            FlushWhat::Tables { names, .. } if names.is_empty() => return None,
            FlushWhat::Tables { names, .. } => named.extend(names),
            _ => {}
        }
    }
    Some(named)
}

/// Tables that a statement names and works on as a whole.
fn worked_on(statement: &Statement) -> Vec<&ObjectName> {
    match statement {
        Statement::CreateTable(create) => vec![&create.name],
        Statement::AlterTable(alter) => vec![&alter.name],
        Statement::DropTable(drop) => drop.names.iter().collect(),
        Statement::Truncate { name, .. } => vec![name],
        Statement::RenameTable(rename) => {
            let pairs = rename.pairs.iter();
            pairs.flat_map(|(from, to)| [from, to]).collect()
        }
        Statement::CreateIndex(create) => vec![&create.table],
        Statement::DropIndex(drop) => vec![&drop.table],
        Statement::CreateTrigger(create) => vec![&create.table],
        Statement::Maintain(maintain) if maintain.kind != MaintainKind::Checksum => {
            maintain.tables.iter().collect()
        }
        _ => Vec::new(),
    }
}
