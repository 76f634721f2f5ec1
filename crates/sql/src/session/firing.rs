//! Changes of tables with triggers: row by row, with the triggers between the steps.
//!
//! Neighbours: `change` comes here with a compiled change, `load` with a LOAD DATA; `dml` does the steps; `program`
//! runs the bodies, whose statements come through `change` again.
//!
//! **Invariants**
//! - Nothing of the session is borrowed while a trigger runs: it may do whatever a statement may.
//! - All of it is one statement: it commits, and its events end, when the outermost one is over; an error undoes what
//!   its triggers did, too.
//! - A trigger changes no table that a statement around it uses (1442), so rows that were found stay what they are,
//!   but for what foreign keys do to them: the step behind a trigger reads the row again, leaves out one that is gone,
//!   and fires no AFTER trigger for it.
//! - Actions of foreign keys fire no triggers, and neither do rows that are applied for another server.

use std::collections::HashMap;
use std::sync::Arc;

use esker_sql_catalog::accounts::Privileges;
use esker_sql_catalog::catalog::{Quotes, TableDef, TableId, TriggerDef, show_create_trigger};
use esker_sql_catalog::exec_error::ExecError;
use esker_sql_catalog::result::Mode;
use esker_sql_syntax::ast::Statement;
use esker_sql_syntax::{self as parse, ParseOptions};
use esker_types::collation::Collation;
use esker_types::trigger::TriggerEvent::{self, Delete, Insert, Update};
use esker_types::trigger::TriggerTiming::{self, After, Before};
use esker_types::{SqlError, SqlMode, SqlResult, Value, errors};

use super::program::{TriggerProgram, TriggerRow};
use super::run::Done;
use super::{Session, SessionContext};
use crate::dml::{
    ChangedRow, Compiled, CompiledDelete, CompiledInsert, CompiledLoad, CompiledUpdate, DmlDone,
    DmlEnv, InsertSteps, StoreStep,
};
use crate::program::Program;
use crate::textfile::FileSource;

/// Most tables whose triggers a session keeps compiled.
const MAX_KEPT: usize = 256;

const DEADLOCK: u16 = 1213;
/// What a definer needs on the table of its trigger.
const TRIGGER: Privileges = Privileges::of(&["TRIGGER"]);

/// A trigger that can run.
struct Fired {
    def: Arc<TriggerDef>,
    program: TriggerProgram,
    /// The version of the accounts at which its definer was last found to have the TRIGGER privilege, and one more.
    admitted_at: u64,
}

/// What a session knows of triggers.
#[derive(Default)]
pub(super) struct Firing {
    /// The tables that each statement uses that has fired triggers, the outermost first.
    used: Vec<Vec<TableId>>,
    /// The innermost statement is inside of another one: an error leaves its rows before the one that failed.
    pub(super) keeps_rows: bool,
    /// Those of a table, by it and the version of its definition; a statement takes them out while it runs.
    kept: HashMap<(TableId, u64), Vec<Fired>>,
    /// What the innermost of these statements has told LAST_INSERT_ID(…) in its steps so far.
    told_insert_id: Option<u64>,
}

/// The triggers of each table that a statement changes.
type Triggers = Vec<Vec<Fired>>;

/// Brings the rows of an INSERT, as BEFORE triggers see them.
type NextRow<'n> =
    dyn FnMut(&mut DmlEnv<'_>, &mut InsertSteps) -> Result<Option<Vec<Value>>, ExecError> + 'n;

impl Session {
    /// Is a trigger running?
    pub(super) fn is_firing(&self) -> bool {
        !self.firing.used.is_empty()
    }

    /// Does the error end the statement that has fired the trigger, whatever handlers there are? So does one that takes
    /// the transaction with it.
    pub(super) fn ends_what_fired(&self, e: &SqlError) -> bool {
        self.is_firing() && e.code == DEADLOCK
    }

    /// Forgets the triggers that were running: their statements are given up.
    pub(super) fn stop_firing(&mut self) {
        self.firing.used.clear();
        self.firing.keeps_rows = false;
        self.locks.pass_explicit(false);
    }

    /// May a statement change these tables?
    ///
    /// # Errors
    /// 1442: a statement around it uses one of them.
    pub(super) fn check_unused(&self, targets: &[Arc<TableDef>]) -> SqlResult<()> {
        let mut used = self.firing.used.iter().flatten();
        match used.find_map(|id| targets.iter().find(|table| table.id == *id)) {
            None => Ok(()),
            Some(table) => Err(used_around(&table.name)),
        }
    }

    /// Runs a change whose tables have triggers and are locked.
    pub(super) fn change_firing(
        &mut self,
        compiled: &Compiled,
        params: &[Value],
    ) -> Result<Done, ExecError> {
        let targets = compiled.targets();
        self.fire_within(
            targets,
            &compiled.beside().reads,
            |session, triggers| match compiled {
                Compiled::Insert(insert) => {
                    let steps = session.change_step(params, |env| Ok(insert.begin(env)))?;
                    let next = &mut |env: &mut DmlEnv<'_>, steps: &mut InsertSteps| {
                        insert.next(env, steps)
                    };
                    session.insert_firing(insert, (params, &mut triggers[0][..]), steps, next)
                }
                Compiled::Update(update) => session.update_firing(update, params, triggers),
                Compiled::Delete(delete) => session.delete_firing(delete, params, triggers),
            },
        )
    }

    /// Runs a LOAD DATA into a table that has triggers and is locked.
    pub(super) fn load_firing(
        &mut self,
        load: &CompiledLoad,
        file: &mut dyn FileSource,
    ) -> Result<Done, ExecError> {
        let process = self.context.process.clone();
        let killed = move || process.kill_error().map_or(Ok(()), Err);
        let memory = self.txn.memory().clone();
        let insert = load.insert();
        self.fire_within(
            load.targets(),
            &insert.beside().reads,
            |session, triggers| {
                let steps = session.change_step(&[], |env| Ok(load.begin_insert(env)))?;
                let mut lines = load.begin(&memory, file, &killed)?;
                let next =
                    &mut |env: &mut DmlEnv<'_>, steps: &mut InsertSteps| lines.next(env, steps);
                session.insert_firing(insert, (&[][..], &mut triggers[0][..]), steps, next)
            },
        )
    }

    /// Runs a statement that uses these tables and fires triggers of its targets.
    fn fire_within(
        &mut self,
        targets: &[Arc<TableDef>],
        reads: &[TableId],
        run: impl FnOnce(&mut Self, &mut Triggers) -> Result<DmlDone, ExecError>,
    ) -> Result<Done, ExecError> {
        let used = targets
            .iter()
            .map(|table| table.id)
            .chain(reads.iter().copied());
        let used: Vec<TableId> = used.collect();
        let depth = self.firing.used.len();
        let taken = targets.iter().map(|table| self.take_triggers(table));
        let mut triggers = taken.collect::<SqlResult<Triggers>>()?;
        let done = self.as_statement(|session| {
            session.firing.used.push(used);
            let around = session.firing.told_insert_id.take();
            let done = run(session, &mut triggers);
            session.firing.told_insert_id = around;
            session.firing.used.truncate(depth);
            done
        });
        if self.firing.kept.len() >= MAX_KEPT {
            self.firing.kept.clear();
        }
        let keys = targets.iter().map(|table| (table.id, table.version));
        self.firing.kept.extend(keys.zip(triggers));
        done
    }

    /// One step of a change.
    fn change_step<R>(
        &mut self,
        params: &[Value],
        step: impl FnOnce(&mut DmlEnv<'_>) -> Result<R, ExecError>,
    ) -> Result<R, ExecError> {
        let mut told = self.firing.told_insert_id;
        let done = self.execute_change(params, Mode::Thread, |env| {
            let diagnostics = &env.ctx.diagnostics;
            diagnostics.told_insert_id.set(told);
            let done = step(env);
            told = diagnostics.told_insert_id.get();
            done
        });
        self.firing.told_insert_id = told;
        done
    }

    fn insert_firing(
        &mut self,
        insert: &CompiledInsert,
        (params, triggers): (&[Value], &mut [Fired]),
        mut steps: InsertSteps,
        next: &mut NextRow<'_>,
    ) -> Result<DmlDone, ExecError> {
        let stored = self.store_all_firing(insert, (params, triggers), &mut steps, next);
        if matches!(stored, Err(ExecError::Sql(_))) && self.firing.keeps_rows {
            self.change_step(params, |env| insert.keep_numbers(env, &mut steps))?;
        }
        stored?;
        let warnings = self.diagnostics.total();
        self.change_step(params, |env| insert.finish(env, &mut steps, warnings))
    }

    /// Stores the rows of an INSERT.
    fn store_all_firing(
        &mut self,
        insert: &CompiledInsert,
        (params, triggers): (&[Value], &mut [Fired]),
        steps: &mut InsertSteps,
        next: &mut NextRow<'_>,
    ) -> Result<(), ExecError> {
        let table = &insert.targets()[0];
        while let Some(new) = self.change_step(params, |env| next(env, steps))? {
            let new = self.fire(table, triggers, (Before, Insert), (None, Some(new)))?;
            if self.change_step(params, |env| insert.accept(env, steps, new))? {
                self.store_firing(insert, params, steps, triggers)?;
            }
        }
        Ok(())
    }

    /// Stores a row of an INSERT, and does with rows in its way what the statement says.
    fn store_firing(
        &mut self,
        insert: &CompiledInsert,
        params: &[Value],
        steps: &mut InsertSteps,
        triggers: &mut [Fired],
    ) -> Result<(), ExecError> {
        let table = &insert.targets()[0];
        loop {
            match self.change_step(params, |env| insert.store_step(env, steps))? {
                StoreStep::Done => return Ok(()),
                StoreStep::Stored(new) => {
                    self.fire(table, triggers, (After, Insert), (None, Some(new)))?;
                    return Ok(());
                }
                StoreStep::Delete(old) => {
                    self.fire(table, triggers, (Before, Delete), (Some(old.clone()), None))?;
                    if self.change_step(params, |env| insert.delete_other(env, steps))? {
                        self.fire(table, triggers, (After, Delete), (Some(old), None))?;
                    }
                }
                StoreStep::Update(ChangedRow { old, new }) => {
                    let rows = (Some(old.clone()), Some(new));
                    let new = self.fire(table, triggers, (Before, Update), rows)?;
                    let written =
                        self.change_step(params, |env| insert.update_other(env, steps, new))?;
                    if written.is_some() {
                        self.fire(table, triggers, (After, Update), (Some(old), written))?;
                    }
                    return Ok(());
                }
            }
        }
    }

    fn update_firing(
        &mut self,
        update: &CompiledUpdate,
        params: &[Value],
        triggers: &mut Triggers,
    ) -> Result<DmlDone, ExecError> {
        let mut steps = self.change_step(params, |env| update.begin(env))?;
        while let Some(found) = self.change_step(params, |env| update.next(env, &mut steps))? {
            let ChangedRow { old, new } = found;
            let nth = steps.target();
            let (table, triggers) = (&update.targets()[nth], &mut triggers[nth]);
            let rows = (Some(old.clone()), Some(new));
            let new = self.fire(table, triggers, (Before, Update), rows)?;
            let written =
                self.change_step(params, |env| update.write_proposed(env, &mut steps, new))?;
            if written.is_some() {
                self.fire(table, triggers, (After, Update), (Some(old), written))?;
            }
        }
        let warnings = self.diagnostics.total();
        self.change_step(params, |env| Ok(update.finish(env, &steps, warnings)))
    }

    fn delete_firing(
        &mut self,
        delete: &CompiledDelete,
        params: &[Value],
        triggers: &mut Triggers,
    ) -> Result<DmlDone, ExecError> {
        let mut steps = self.change_step(params, |env| delete.begin(env))?;
        while let Some(old) = self.change_step(params, |env| delete.next(env, &mut steps))? {
            let nth = steps.target();
            let (table, triggers) = (&delete.targets()[nth], &mut triggers[nth]);
            self.fire(table, triggers, (Before, Delete), (Some(old.clone()), None))?;
            if self.change_step(params, |env| delete.delete_found(env, &mut steps))? {
                self.fire(table, triggers, (After, Delete), (Some(old), None))?;
            }
        }
        self.change_step(params, |env| Ok(delete.finish(env, &steps)))
    }

    /// Runs the triggers of a timing and an event for a row, OLD and NEW: NEW as they leave it.
    fn fire(
        &mut self,
        table: &TableDef,
        triggers: &mut [Fired],
        kind: (TriggerTiming, TriggerEvent),
        (old, new): (Option<Vec<Value>>, Option<Vec<Value>>),
    ) -> Result<Vec<Value>, ExecError> {
        let is_of_kind = |t: &&mut Fired| (t.def.timing, t.def.event) == kind;
        let mut of_kind = triggers.iter_mut().filter(is_of_kind).peekable();
        if of_kind.peek().is_none() {
            return Ok(new.unwrap_or_default());
        }
        let mut row = TriggerRow::new(table, old, new);
        for trigger in of_kind {
            self.context.check_definer_of(trigger, table)?;
            row = self.run_apart(&mut trigger.program, row)?;
        }
        Ok(row.into_new().unwrap_or_default())
    }

    /// Runs a trigger so that the statement that has fired it finds its own state again.
    fn run_apart(
        &mut self,
        program: &mut TriggerProgram,
        row: TriggerRow,
    ) -> Result<TriggerRow, ExecError> {
        let passes = self.locks.pass_explicit(true);
        let warned = self.diagnostics.mark();
        let ran = self.apart(|session| session.run_trigger(program, row));
        if ran.is_ok() {
            // Nobody hears what a trigger was warned of, unless it fails.
            self.diagnostics.forget_since(warned);
        }
        self.locks.pass_explicit(passes);
        ran
    }

    /// Runs a function that a statement calls, which uses these tables.
    pub(super) fn firing_within<R>(
        &mut self,
        used: &[TableId],
        run: impl FnOnce(&mut Self) -> R,
    ) -> R {
        let depth = self.firing.used.len();
        self.firing.used.push(used.to_vec());
        let ran = self.apart(run);
        self.firing.used.truncate(depth);
        ran
    }

    /// Runs what is inside of a statement, so that this finds its own state again.
    fn apart<R>(&mut self, run: impl FnOnce(&mut Self) -> R) -> R {
        let ids = (
            self.context.last_insert_id.get(),
            // It is for the statement around.
            self.context.insert_id.replace(0),
        );
        let aside = self.diagnostics.put_aside();
        let calling = self.program.calling.take();
        let (strict, around) = (self.program.strict, self.program.strict_around);
        self.program.strict_around |= strict | self.program.changes_strictly;
        self.program.strict = false;
        let stores = std::mem::take(&mut self.program.stores);
        let queries_strictly = self.program.queries_strictly;
        self.program.queries_strictly |= strict;
        let ran = run(self);
        self.program.queries_strictly = queries_strictly;
        (self.program.strict, self.program.strict_around) = (strict, around);
        self.program.stores = stores;
        self.program.calling = calling;
        self.context.last_insert_id.set(ids.0);
        self.context.insert_id.set(ids.1);
        self.diagnostics.put_back(aside);
        ran
    }

    /// The triggers of a table, compiled, for the time of a statement.
    fn take_triggers(&mut self, table: &Arc<TableDef>) -> SqlResult<Vec<Fired>> {
        if let Some(triggers) = self.firing.kept.remove(&(table.id, table.version)) {
            return Ok(triggers);
        }
        let compiled = table.triggers.iter().map(|def| {
            Ok(Fired {
                program: self.load_trigger(
                    compiled(table, def)?,
                    table.schema.clone(),
                    def.settings.clone(),
                ),
                def: def.clone(),
                admitted_at: 0,
            })
        });
        compiled.collect()
    }
}

impl SessionContext {
    /// May the definer of a trigger still have it?
    ///
    /// # Errors
    /// 1449, 1142.
    fn check_definer_of(&self, trigger: &mut Fired, table: &TableDef) -> SqlResult<()> {
        let accounts = self.instance.accounts();
        let version = accounts.version() + 1;
        if trigger.admitted_at == version {
            return Ok(());
        }
        let (user, host) = &trigger.def.settings.definer;
        let access = match self.access.is_of(user, host) {
            true => self.access.clone(),
            false => {
                let account = accounts.exact(user, host);
                let account = account.ok_or_else(|| errors::no_such_definer(user, host))?;
                Arc::new(accounts.access(&account, &account.default_roles))
            }
        };
        if !access
            .on_table(&table.schema, &table.name)
            .contains(TRIGGER)
        {
            return Err(errors::table_denied("TRIGGER", user, host, &table.name));
        }
        trigger.admitted_at = version;
        Ok(())
    }
}

/// A trigger as it is stored, read and compiled again.
fn compiled(table: &TableDef, def: &TriggerDef) -> SqlResult<Arc<Program>> {
    let options = ParseOptions {
        sql_mode: SqlMode::of_names(&def.settings.sql_mode),
        ..ParseOptions::default()
    };
    let text = show_create_trigger(table, def, Quotes::BACKTICKS);
    let parsed = parse::parse(text.as_bytes(), options)?;
    let Statement::CreateTrigger(create) = &parsed.stmt else {
        return Err(errors::no_such_trigger());
    };
    let collation = Collation::by_name(&def.settings.database_collation);
    let collation = collation.unwrap_or(table.collation);
    Program::compile(&create.body, Vec::new(), None, &table.columns, collation)
}

/// 1442.
fn used_around(table: &str) -> SqlError {
    let text = format!(
        "Can't update table '{table}' in stored function/trigger because it is already used by statement which \
         invoked this stored function/trigger."
    );
    SqlError::new(1442, "HY000", text)
}
