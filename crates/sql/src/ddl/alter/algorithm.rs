//! What ALGORITHM and LOCK of an ALTER TABLE ask for, and whether the change can be made so.
//!
//! Neighbours: `plan` says what the change costs; `alter` asks before it takes locks for long.
//! **Invariants**: pure. Codes and texts are MySQL's. A clause that asks for less than the change needs is refused; one
//! that MySQL refuses is accepted where Esker can do what it asks for (`docs/decisions/online-ddl.md`).

use esker_sql_catalog::catalog::{ColumnDef, StorageEngine, TableDef};
use esker_sql_syntax::ast::{AlterAction, DdlOptions};
use esker_types::{SqlError, SqlResult, errors};

use super::edit::AlterContext;
use super::plan::{self, Plan};
use crate::ddl::draft_finish::Built;

/// The change that is asked for.
pub(super) struct Asked<'a> {
    pub(super) old: &'a TableDef,
    pub(super) built: &'a Built,
    pub(super) context: &'a AlterContext,
    pub(super) actions: &'a [AlterAction],
    pub(super) foreign_key_checks: bool,
}

const CHECKS_KEYS: &str = "Adding foreign keys needs foreign_key_checks=OFF";

/// 1221: an instant change takes no lock that one could choose.
pub(super) fn check_options(options: &DdlOptions) -> SqlResult<()> {
    match (options.algorithm.as_deref(), options.lock.as_deref()) {
        (Some("INSTANT"), Some(_)) => Err(errors::wrong_usage(
            "ALGORITHM=INSTANT and LOCK=NONE/SHARED/EXCLUSIVE",
        )),
        _ => Ok(()),
    }
}

/// 1845 and 1846, where ALGORITHM or LOCK ask for more than the change can give.
pub(super) fn check(options: &DdlOptions, plan: Plan, asked: &Asked<'_>) -> SqlResult<()> {
    let (algorithm, lock) = (options.algorithm.as_deref(), options.lock.as_deref());
    if algorithm == Some("COPY") && lock == Some("NONE") {
        let reason = "COPY algorithm requires a lock";
        return Err(refused("LOCK=NONE", Some(reason), "LOCK=SHARED"));
    }
    if matches!(lock, Some("NONE" | "SHARED")) && asked.renames_only() {
        return Err(refused("LOCK=NONE/SHARED", None, "LOCK=EXCLUSIVE"));
    }
    let for_lock = asked.reason_for_lock(plan);
    let is_instant = plan == Plan::DefinitionOnly && for_lock.is_none() && !asked.checks_new_keys();
    match algorithm {
        Some("INSTANT") if asked.lacks_versions_only(plan) => {
            return Err(out_of_versions(asked.old));
        }
        Some("INSTANT") if !is_instant => {
            let reason = asked.reason_not_instant(plan);
            return Err(refused(
                "ALGORITHM=INSTANT",
                reason,
                "ALGORITHM=COPY/INPLACE",
            ));
        }
        Some("INPLACE") => asked.check_in_place(plan)?,
        _ => {}
    }
    let is_free = plan == Plan::DefinitionOnly || plan::is_online(asked.old, asked.built, plan);
    match lock {
        Some("NONE") if !is_free || for_lock.is_some() => {
            Err(refused("LOCK=NONE", for_lock, "LOCK=SHARED"))
        }
        _ => Ok(()),
    }
}

impl Asked<'_> {
    fn renames_only(&self) -> bool {
        let renames = |a: &AlterAction| matches!(a, AlterAction::RenameTo(_));
        !self.actions.is_empty() && self.actions.iter().all(renames)
    }

    /// Is the table copied for want of row versions, and for nothing else?
    fn lacks_versions_only(&self, plan: Plan) -> bool {
        plan == Plan::Copy
            && !self.context.force_copy
            && !plan::changes_rows(self.old, self.built, self.context)
    }

    fn adds_auto_increment(&self) -> bool {
        let mut columns = self.built.columns.iter();
        columns.any(|c| c.auto_increment && self.context.added.contains(&c.id))
    }

    /// Would MySQL number the rows of a new AUTO_INCREMENT column in place, as InnoDB does, or in a copy?
    pub(super) fn numbers_in_place(
        &self,
        options: &DdlOptions,
        engine: StorageEngine,
        plan: Plan,
    ) -> bool {
        let is_computed =
            |c: &ColumnDef| c.generated.is_some() && self.context.added.contains(&c.id);
        let is_of_innodb = engine == StorageEngine::InnoDb && engine == self.old.engine;
        self.adds_auto_increment()
            && options.algorithm.as_deref() != Some("COPY")
            && is_of_innodb
            && !self.old.temporary
            && !self.loses_key()
            && self.context.new_checks.is_empty()
            && !self.built.columns.iter().any(is_computed)
            && !self.changes_integers()
            && self.check_in_place(plan).is_ok()
    }

    /// Does an integer become a wider one? Esker leaves the rows as they are.
    fn changes_integers(&self) -> bool {
        self.built.columns.iter().any(|new| {
            let before = self.old.columns.iter().find(|c| c.id == new.id);
            before.is_some_and(|before| new.ty.is_integer() && before.ty.kind != new.ty.kind)
        })
    }

    fn loses_key(&self) -> bool {
        self.old.has_primary_key() && !self.built.has_primary()
    }

    fn adds_stored_column(&self) -> bool {
        let mut columns = self.built.columns.iter();
        columns.any(|c| {
            let is_stored = c.generated.as_ref().is_some_and(|g| g.stored);
            is_stored && self.context.added.contains(&c.id)
        })
    }

    fn adds_key_part(&self) -> bool {
        let mut columns = self.built.columns.iter();
        columns.any(|c| c.is_hidden() && self.context.added.contains(&c.id))
    }

    fn adds_fulltext(&self) -> bool {
        let mut indexes = self.built.indexes.iter();
        indexes.any(|i| i.fulltext.is_some() && i.existing.is_none())
    }

    /// Does it get foreign keys that its rows are held against?
    pub(super) fn checks_new_keys(&self) -> bool {
        self.foreign_key_checks && !self.built.new_keys.is_empty()
    }

    /// Why writers have to be kept away.
    fn reason_for_lock(&self, plan: Plan) -> Option<&'static str> {
        if self.checks_new_keys() && !plan::is_online(self.old, self.built, plan) {
            Some(CHECKS_KEYS)
        } else if self.adds_auto_increment() {
            Some("Adding an auto-increment column requires a lock")
        } else if self.loses_key() {
            Some("Dropping a primary key is not allowed without also adding a new primary key")
        } else {
            None
        }
    }

    fn check_in_place(&self, plan: Plan) -> SqlResult<()> {
        let reason = match plan == Plan::Copy && plan::changes_type(self.old, self.built) {
            true => Some("Cannot change column type INPLACE"),
            false => self
                .reason_for_lock(plan)
                .filter(|_| !self.adds_auto_increment()),
        };
        match reason.is_some() || (plan == Plan::Copy && self.adds_stored_column()) {
            true => Err(refused("ALGORITHM=INPLACE", reason, "ALGORITHM=COPY")),
            false => Ok(()),
        }
    }

    fn reason_not_instant(&self, plan: Plan) -> Option<&'static str> {
        if plan == Plan::Copy && plan::changes_type(self.old, self.built) {
            Some("Need to rebuild the table to change column type")
        } else if self.adds_key_part() {
            Some("ADD COLUMN col...VIRTUAL, ADD INDEX(col)")
        } else if self.adds_fulltext() {
            Some("Fulltext index creation requires a lock")
        } else if self.checks_new_keys() {
            Some(CHECKS_KEYS)
        } else {
            self.reason_for_lock(plan)
        }
    }
}

/// 4092.
fn out_of_versions(table: &TableDef) -> SqlError {
    let text = format!(
        "Maximum row versions reached for table {}/{}. No more columns can be added or dropped instantly. Please use \
         COPY/INPLACE.",
        table.schema, table.name
    );
    SqlError::new(4092, "HY000", text)
}

fn refused(what: &str, reason: Option<&str>, instead: &str) -> SqlError {
    match reason {
        None => {
            let text = format!("{what} is not supported for this operation. Try {instead}.");
            SqlError::new(1845, "0A000", text)
        }
        Some(reason) => {
            let text = format!("{what} is not supported. Reason: {reason}. Try {instead}.");
            SqlError::new(1846, "0A000", text)
        }
    }
}
