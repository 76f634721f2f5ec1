//! Which tables' rows a query block locks.
//!
//! Neighbours: `select` asks for each block; `view` says when a locked view is being bound; the session and `dml` say
//! what the statement reads for.
//!
//! A locking clause is for the tables of its own block, and reaches into the views that the block names, not into
//! derived tables, common table expressions or subqueries. What no clause locks is locked as the statement wants it:
//! rows that a change depends on, and every row that a transaction at SERIALIZABLE reads.

use std::cell::{Cell, RefCell};
use std::sync::Arc;

use esker_engine::{LockMode, WaitPolicy};
use esker_sql_catalog::catalog::TableDef;
use esker_sql_syntax::ast;
use esker_types::{SqlError, SqlResult};

use super::Names;
use super::block::{LockReason, LockSpec};
use super::scope::Scope;

/// How rows of stored tables are locked that are read while a statement is being bound.
#[derive(Default)]
pub struct LockRules {
    /// What the statement reads for, if that locks.
    reads_for: Cell<Option<LockReason>>,
    /// The table that the statement makes and fills.
    fills: RefCell<Option<Arc<str>>>,
    /// The lock on the view that is being bound.
    view: Cell<Option<LockSpec>>,
    /// Clauses of the block whose FROM is being bound.
    clauses: RefCell<Vec<ast::Locking>>,
}

impl LockRules {
    /// What the statement reads for from here on.
    pub fn read_for(&self, reason: Option<LockReason>) {
        self.reads_for.set(reason);
    }

    pub(crate) fn read_for_what(&self) -> Option<LockReason> {
        self.reads_for.get()
    }

    /// What is read is for a new table: nobody may ask to change what it comes from.
    pub fn fill(&self, table: &str) {
        self.fills.replace(Some(table.into()));
    }

    /// Binds the tables of a block with these clauses.
    pub(super) fn within_from<T>(&self, clauses: &[ast::Locking], bind: impl FnOnce() -> T) -> T {
        let before = self.clauses.replace(clauses.to_vec());
        let result = bind();
        self.clauses.replace(before);
        result
    }

    /// Binds the query of a view of `schema` that a block names by `alias`: the lock on the view is one on its tables.
    pub(super) fn within_view<T>(
        &self,
        (schema, alias): (&str, &str),
        bind: impl FnOnce() -> SqlResult<T>,
    ) -> SqlResult<T> {
        let asked = asked_for(&self.clauses.borrow(), (schema, alias))?;
        self.admit_change(asked, alias)?;
        let before = self.view.get();
        self.view.set(asked.or(before));
        let result = bind();
        self.view.set(before);
        result
    }

    /// May rows of a table of the block whose FROM is being bound be locked as is asked for?
    ///
    /// # Errors
    /// 1746, 1792.
    pub(super) fn admit(
        &self,
        names: &dyn Names,
        def: &TableDef,
        alias: Option<&str>,
    ) -> SqlResult<()> {
        let asked = asked_for(
            &self.clauses.borrow(),
            (&def.schema, alias.unwrap_or(&def.name)),
        )?;
        let asked = asked.or(self.view.get());
        self.admit_change(asked, &def.name)?;
        match asked {
            Some(lock) if lock.mode == LockMode::Exclusive && !def.temporary => {
                names.admit_row_locks(def)
            }
            _ => Ok(()),
        }
    }

    /// 1746: this is locked as if it were changed, and read to fill a new table.
    fn admit_change(&self, asked: Option<LockSpec>, name: &str) -> SqlResult<()> {
        match &*self.fills.borrow() {
            Some(new) if asked.is_some_and(|lock| lock.mode == LockMode::Exclusive) => {
                let text = format!("Can't update table '{name}' while '{new}' is being created.");
                Err(SqlError::new(1746, "HY000", text))
            }
            _ => Ok(()),
        }
    }

    /// The locks on the tables of a block.
    pub(super) fn of_block(
        &self,
        names: &dyn Names,
        scope: &Scope<'_>,
        clauses: &[ast::Locking],
    ) -> SqlResult<BlockLocks> {
        for name in clauses.iter().flat_map(|clause| &clause.of) {
            let mut tables = scope.tables.iter();
            if !tables.any(|t| t.is_named(name.schema.as_ref(), &name.name)) {
                let schema = name.schema.iter().map(|schema| format!("`{schema}`."));
                let text = format!(
                    "Unresolved table name {}`{}` in locking clause.",
                    schema.collect::<String>(),
                    name.name
                );
                return Err(SqlError::new(3568, "HY000", text));
            }
        }
        let unasked = self
            .view
            .get()
            .or_else(|| self.reads_for.get().map(LockSpec::of_source));
        let mut locks = BlockLocks::default();
        for table in &scope.tables {
            let asked = asked_for(clauses, (&table.schema, &table.alias))?;
            let base = table.base_def().filter(|def| !def.temporary);
            let is_stored = table.base_def().is_some();
            if let (Some(def), Some(asked)) = (base, &asked)
                && asked.mode == LockMode::Exclusive
            {
                names.check_writable(&def.schema)?;
            }
            if let (Some(restricted), Some(asked)) = (&table.restricted, &asked)
                && asked.mode == LockMode::Exclusive
            {
                restricted.lock()?;
            }
            locks.are_asked |= asked.is_some() && is_stored;
            let lock = asked.or(unasked);
            locks.by_table.push(lock.filter(|_| is_stored));
        }
        Ok(locks)
    }
}

/// The locks of one block.
#[derive(Default)]
pub(super) struct BlockLocks {
    pub(super) by_table: Vec<Option<LockSpec>>,
    /// A clause of the block asked for one of them.
    pub(super) are_asked: bool,
}

/// The lock that clauses ask for on the table of this database that has the alias.
fn asked_for(
    clauses: &[ast::Locking],
    (schema, alias): (&str, &str),
) -> SqlResult<Option<LockSpec>> {
    let is_it = |name: &&ast::ObjectName| {
        *name.name.text == *alias && name.schema.as_ref().is_none_or(|s| *s.text == *schema)
    };
    let mut lock = None;
    for clause in clauses {
        let named = clause.of.iter().filter(is_it).count();
        let is_named = named > 0;
        if !clause.of.is_empty() && !is_named {
            continue;
        }
        if lock.is_some() || named > 1 {
            let quote = if is_named { "`" } else { "" };
            let text = format!("Table {quote}{alias}{quote} appears in multiple locking clauses.");
            return Err(SqlError::new(3569, "HY000", text));
        }
        lock = Some(LockSpec {
            mode: match clause.share {
                true => LockMode::Shared,
                false => LockMode::Exclusive,
            },
            policy: match clause.wait {
                ast::LockWait::Default => WaitPolicy::Wait,
                ast::LockWait::NoWait => WaitPolicy::NoWait,
                ast::LockWait::SkipLocked => WaitPolicy::Skip,
                ast::LockWait::Seconds(_) => {
                    return Err(SqlError::not_supported("FOR UPDATE WAIT n"));
                }
            },
            reason: LockReason::Asked,
        });
    }
    Ok(lock)
}
