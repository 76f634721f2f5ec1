//! Statements that change rows, and short reads: compiled, kept, run.
//!
//! Neighbours: `dml` and `short` compile and run; `plans` keeps what they made; `text` comes here with
//! statements that are known by their text.
//! **Invariants**
//! - A change runs between a savepoint and its release: an error or a wait leaves none of its writes.
//! - Parameters of a kept plan are read at run time; the plan is for their kinds, not their values.

use std::cell::Cell;
use std::sync::Arc;

use esker_engine::Seq;
use esker_sql_catalog::accounts::Privileges;
use esker_sql_catalog::catalog::TableDef;
use esker_sql_catalog::exec_error::ExecError;
use esker_sql_catalog::mdl::{MdlDuration, MdlMode};
use esker_sql_catalog::result::{Mode, OkInfo};
use esker_sql_exec::short::{self, GeneralPath, ShortSelect};
use esker_sql_plan::bind::Params;
use esker_sql_plan::expr::UserVars;
use esker_sql_plan::plan::plan_query;
use esker_sql_syntax::ast::{Query, Statement};
use esker_types::temporal::digits_of;
use esker_types::{Level, SqlError, SqlResult, SqlType, TypeKind, Value, errors};

use super::explain::RunningPlan;
use super::hints;
use super::names::{Purpose, SessionNames};
use super::plans::{KeyedQuery, Plan, PlanKey};
use super::run::{Done, INLINE_ROWS as QUERY_ROWS};
use super::shapes;
use super::{Session, SessionContext};
use crate::counts::{Counter, command_of};
use crate::ddl::lock_tables::{announce_write, check_locked};
use crate::dml::foreign::{ForeignKeyPlan, Relative};
use crate::dml::{self, Compiled, DmlDone, DmlEnv};

/// Rows that a change may look at on a shared worker.
const INLINE_ROWS: f64 = 1000.0;
/// What a SELECT by key costs: about a row.
const COST_BY_KEY: f64 = 1.0;

/// A plan that was kept may be void when its tables are locked; one that was just made, with the tables
/// locked for reading, cannot be.
pub(super) const MAX_COMPILATIONS: u32 = 2;

/// What may be done with the plan of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Keep {
    /// It may be used again.
    Lasting,
    /// It is for one use: it has a variable's value in it, or reads tables that running it would not
    /// lock.
    Once,
    /// It calls a function that waits, or a stored one, so it needs a thread and is not kept.
    Blocks,
}

/// User variables that tell whether they were asked for: their types are bound into a plan.
pub(super) struct Watched<'a> {
    vars: &'a dyn UserVars,
    asked: Cell<bool>,
}

impl<'a> Watched<'a> {
    pub(super) fn new(vars: &'a dyn UserVars) -> Self {
        Self {
            vars,
            asked: Cell::new(false),
        }
    }

    /// May what was bound be used again? Only if no variable's value is in it, and it reads no more than `tables`,
    /// which running it locks.
    pub(super) fn is_lasting(&self, names: &SessionNames<'_>, tables: usize) -> bool {
        !self.asked.get() && !names.variables.get() && names.tables.get() == tables
    }
}

impl UserVars for Watched<'_> {
    fn get(&self, name: &str) -> Option<(Value, SqlType)> {
        self.asked.set(true);
        self.vars.get(name)
    }
    fn set(&self, name: &str, value: Value, ty: SqlType) {
        self.vars.set(name, value, ty);
    }
}

impl Session {
    /// Runs a query from its plan, if it is one whose plan is kept.
    pub(super) fn run_kept(
        &mut self,
        query: &Query,
        params: &[Value],
        prepared: Option<u32>,
        mode: Mode,
    ) -> Result<Option<Done>, ExecError> {
        let binding = self.context.binding;
        let catalog = &self.context.instance.catalog;
        let version = catalog.version();
        let kept = prepared.and_then(|id| self.plans.prepared(id, binding, catalog, params));
        let plan = match (kept, prepared) {
            (Some(plan), _) => plan,
            (None, Some(id)) => {
                let plan = self.compile_select(query, params);
                self.plans
                    .keep_prepared(id, plan.clone(), binding, version, params);
                plan
            }
            // A text that came again would have been run from its plan.
            (None, None) => match self.context.compile_short(query, params.len()) {
                Ok(read) => Plan::Read(read),
                Err(why) => Plan::Long(why),
            },
        };
        match plan {
            Plan::Read(read) => self.run_read(&read, version, params),
            Plan::Query(query) => self.run_keyed(&query, version, params, mode),
            Plan::Long(why) => Ok(self.take_general(why)),
            Plan::Change(..) | Plan::Parsed(_) => Ok(None),
        }
    }

    /// The plan of a SELECT for other values of these kinds, too.
    pub(super) fn compile_select(&mut self, query: &Query, params: &[Value]) -> Plan {
        match self.context.compile_short(query, params.len()) {
            Ok(read) => Plan::Read(read),
            Err(why) => self
                .compile_keyed(query, params)
                .map_or(Plan::Long(why), Plan::Query),
        }
    }

    /// The plan of a query whose tables are read by keys, whatever their values are.
    fn compile_keyed(&mut self, query: &Query, params: &[Value]) -> Option<Arc<KeyedQuery>> {
        if !shapes::may_be_keyed(query) || self.locks.has_explicit() {
            return None;
        }
        let types = self.types_of(params);
        let bound = self.bind_quietly(Purpose::Run, |scope| {
            let vars = Watched::new(scope.vars);
            let env = scope.env_with(&vars, Params::Types(&types));
            let plan = plan_query(&env, query)?;
            let tables = plan
                .keyed_tables()
                .filter(|tables| vars.is_lasting(&scope.names, tables.len()));
            Ok(tables.map(|tables| Arc::new(KeyedQuery { plan, tables })))
        });
        // What is wrong with it is told where it is planned to run.
        let keyed = bound.ok().flatten()?;
        (keyed.plan.cost_rows <= QUERY_ROWS).then_some(keyed)
    }

    /// Types of parameters: those of a program's variables, or what the values suggest.
    fn types_of(&self, params: &[Value]) -> Vec<SqlType> {
        match &self.program.types {
            Some(types) if types.len() == params.len() => types.to_vec(),
            _ => params.iter().map(|v| type_of(v, &self.vars)).collect(),
        }
    }

    /// Starts a query that was planned for the catalog's `version`; None: this time it has to be planned.
    pub(super) fn run_keyed(
        &mut self,
        query: &KeyedQuery,
        version: u64,
        params: &[Value],
        mode: Mode,
    ) -> Result<Option<Done>, ExecError> {
        // Then a plain read locks, or has another limit; or a locking one is refused.
        let is_refused = query.plan.locking && !self.may_lock_rows();
        if is_refused || self.is_serializable() || self.vars.select_limit != u64::MAX {
            return Ok(self.take_general(GeneralPath::Values));
        }
        if let Some(branch) = &self.context.xa {
            branch.admit_tables()?;
        }
        for table in &query.tables {
            if !self.lock_read(table, version) {
                return Ok(None);
            }
        }
        self.check_join_size(query.plan.cost_rows)?;
        self.use_transaction();
        self.count(Counter::EskerSelectByPlan, 1);
        self.open_query(query.plan.clone(), None, params, mode)
            .map(Some)
    }

    /// A SELECT is planned; counts why.
    fn take_general(&self, why: GeneralPath) -> Option<Done> {
        let counter = match why {
            GeneralPath::Shape => Counter::EskerSelectPlannedShape,
            GeneralPath::Columns => Counter::EskerSelectPlannedColumns,
            GeneralPath::Conditions => Counter::EskerSelectPlannedConditions,
            GeneralPath::Order => Counter::EskerSelectPlannedOrder,
            GeneralPath::Values => Counter::EskerSelectPlannedValues,
        };
        self.count(counter, 1);
        None
    }

    /// Starts a short read that was compiled for the catalog's `version`; None: this time it has to go
    /// the general path.
    pub(super) fn run_read(
        &mut self,
        plan: &Arc<ShortSelect>,
        version: u64,
        params: &[Value],
    ) -> Result<Option<Done>, ExecError> {
        // See the note on stale index entries in the scan operator.
        let has_writes = || self.txn.has_writes_to(plan.table.primary().id);
        let stale_entries = !plan.is_by_primary() && has_writes();
        let adapted = self.is_serializable() || self.vars.select_limit != u64::MAX;
        if adapted || stale_entries {
            return Ok(self.take_general(GeneralPath::Values));
        }
        if let Some(branch) = &self.context.xa {
            branch.admit_tables()?;
        }
        // LOCK TABLES and lock waits are for the general path.
        if !self.lock_read(&plan.table, version) {
            return Ok(None);
        }
        self.use_transaction();
        let (zone, scratch) = (&self.vars.time_zone, &mut self.plans.scratch);
        let is_short =
            plan.bind(params, zone, scratch)? && plan.gather(&self.txn, zone, scratch)?;
        Ok(match is_short {
            true => {
                self.count(Counter::EskerSelectByKey, 1);
                self.context.process.note_cost(COST_BY_KEY);
                Some(Done::ShortRows(plan.clone()))
            }
            false => self.take_general(GeneralPath::Values),
        })
    }

    /// Locks a table for a short read, if that needs no waiting; false also if it is not what it was at `version`.
    fn lock_read(&mut self, table: &Arc<TableDef>, version: u64) -> bool {
        if table.temporary {
            // What its name means changes with the binding only.
            return self.context.xa.is_none();
        }
        let (mode, duration) = (MdlMode::SharedRead, MdlDuration::Transaction);
        !self.locks.has_explicit()
            && self.locks.try_acquire(&table.mdl, mode, duration)
            && self.context.is_current(table, version)
    }

    /// INSERT, REPLACE, UPDATE, DELETE.
    pub(super) fn run_change(
        &mut self,
        statement: &Statement,
        params: &[Value],
        prepared: Option<u32>,
        mode: Mode,
    ) -> Result<Done, ExecError> {
        let may_be_temporary = !self.context.temporary.get_mut().is_empty();
        if !may_be_temporary {
            self.check_writable()?;
        }
        self.use_transaction();
        for _ in 0..MAX_COMPILATIONS {
            let version = self.context.instance.catalog.version();
            let (compiled, blocks) = self.compiled(statement, params, prepared)?;
            if may_be_temporary {
                self.check_writable_tables(compiled.targets())?;
            }
            if mode == Mode::Inline && blocks {
                return Ok(Done::NeedThread);
            }
            if self.vars.safe_updates {
                check_safe(statement, &compiled)?;
            }
            if let Some(refusal) = compiled.refused_limit() {
                self.admit_limit(refusal)?;
            }
            if let Some(done) = self.run_compiled(&compiled, version, params, mode)? {
                return Ok(done);
            }
            if let Some(id) = prepared {
                self.plans.forget(PlanKey::Prepared(id));
            }
        }
        Err(errors::definition_changed().into())
    }

    /// updatable_views_with_limit: which rows a LIMIT of a view picks may be left open.
    ///
    /// # Errors
    /// The `refusal`.
    fn admit_limit(&mut self, refusal: &SqlError) -> SqlResult<()> {
        if self.values.named("updatable_views_with_limit").as_text() == "NO" {
            return Err(refusal.clone());
        }
        let text = "View being updated does not have complete key of underlying table in it";
        self.warn(Level::Note, 1355, text.to_owned());
        Ok(())
    }

    /// Compiles, or finds what was compiled before. The second value: it calls a function that waits
    /// (SLEEP, GET_LOCK).
    fn compiled(
        &mut self,
        statement: &Statement,
        params: &[Value],
        prepared: Option<u32>,
    ) -> Result<(Arc<Compiled>, bool), ExecError> {
        let binding = self.context.binding;
        let catalog = &self.context.instance.catalog;
        let version = catalog.version();
        if let Some(id) = prepared
            && let Some(Plan::Change(plan, _)) = self.plans.prepared(id, binding, catalog, params)
        {
            return Ok((plan, false));
        }
        let (compiled, keep) = self.compile_change(Purpose::Run, statement, params)?;
        if let Some(id) = prepared
            && keep == Keep::Lasting
        {
            let plan = Plan::Change(compiled.clone(), command_of(statement));
            self.plans.keep_prepared(id, plan, binding, version, params);
        }
        Ok((compiled, keep == Keep::Blocks))
    }

    /// Compiles a change for parameters of these kinds, and says what may be done with the plan.
    pub(super) fn compile_change(
        &mut self,
        purpose: Purpose,
        statement: &Statement,
        params: &[Value],
    ) -> Result<(Arc<Compiled>, Keep), ExecError> {
        let types = self.types_of(params);
        let (compiled, mut raised) = self.bind_apart(purpose, |scope| {
            let vars = Watched::new(scope.vars);
            let env = scope.env_with(&vars, Params::Types(&types));
            let compiled = dml::compile(&env, statement)?;
            let lasting = vars.is_lasting(&scope.names, compiled.targets().len())
                && compiled.refused_limit().is_none()
                && compiled.foreign_keys().missing().is_empty();
            let waits = env.blocks.get() || env.calls.get();
            let keep = match (waits, lasting) {
                (true, _) => Keep::Blocks,
                (false, true) => Keep::Lasting,
                (false, false) => Keep::Once,
            };
            Ok((Arc::new(compiled), keep))
        });
        // What values warn of, they warn of again when the change runs.
        if hints::of(statement).is_some() && compiled.is_ok() {
            hints::only_about_hints(&mut raised);
            self.diagnostics.add(&self.vars, raised);
        }
        compiled
    }

    /// Locks and runs a change that was compiled at the catalog's `version`; None if its tables have
    /// changed since.
    pub(super) fn run_compiled(
        &mut self,
        compiled: &Arc<Compiled>,
        version: u64,
        params: &[Value],
        mode: Mode,
    ) -> Result<Option<Done>, ExecError> {
        if let Some(rows) = compiled.selected_rows() {
            self.check_join_size(rows)?;
        }
        let engine = &self.context.instance.engine;
        let may_block =
            || engine.holds_writers() || (self.commits_at_end() && engine.is_decided_elsewhere());
        let keys = compiled.foreign_keys();
        // How many rows a cascade reaches is not known, nor what triggers do.
        let is_long = || compiled.cost_rows() > INLINE_ROWS || keys.cascades() || compiled.fires();
        if mode == Mode::Inline && (is_long() || may_block()) {
            return Ok(Some(Done::NeedThread));
        }
        self.context
            .process
            .show_plan(RunningPlan::Change(compiled.clone()));
        let query = compiled.query();
        self.no_index_used = query.is_some_and(|query| query.scans_a_table());
        if !self.lock_targets(compiled.targets(), keys, version)? {
            return Ok(None);
        }
        self.check_unused(compiled.targets())?;
        let beside = compiled.beside();
        let is_strict = self.vars.sql_mode.is_strict() && !compiled.ignores();
        let before = std::mem::replace(&mut self.program.changes_strictly, is_strict);
        let done = self.calling(compiled.targets(), beside, |session| {
            match compiled.fires() {
                true => session.change_firing(compiled, params),
                false => session.change_rows(params, mode, |env| compiled.run(env)),
            }
        });
        self.program.changes_strictly = before;
        done.map(Some)
    }

    /// Runs what changes rows of tables that are locked, as [`Self::whole`] does.
    pub(super) fn change_rows(
        &mut self,
        params: &[Value],
        mode: Mode,
        run: impl FnOnce(&mut DmlEnv<'_>) -> Result<DmlDone, ExecError>,
    ) -> Result<Done, ExecError> {
        self.as_statement(|session| session.execute_change(params, mode, run))
    }

    /// Runs what is a statement of its own, or one inside of a statement that has fired a trigger, as [`Self::whole`]
    /// does.
    pub(super) fn as_statement(
        &mut self,
        run: impl FnOnce(&mut Self) -> Result<DmlDone, ExecError>,
    ) -> Result<Done, ExecError> {
        let done = self.whole(run)?;
        match self.is_firing() {
            true => Ok(self.changed_inside(done)),
            false => self.changed(done),
        }
    }

    /// Runs what may change rows: an error or a wait leaves none of its writes. But inside of another statement an
    /// error leaves the rows before the one that failed, as in MySQL: if a handler takes it they count, and otherwise
    /// they go with the statement around.
    pub(super) fn whole<R>(
        &mut self,
        run: impl FnOnce(&mut Self) -> Result<R, ExecError>,
    ) -> Result<R, ExecError> {
        let is_inside = self.is_firing();
        match is_inside {
            true => self.capture.begin_inside(),
            false => self.begin_capture(),
        }
        // Behind what the statement around it has logged: that stays, whatever becomes of this one.
        let savepoint = self.txn.savepoint();
        let around = std::mem::replace(&mut self.firing.keeps_rows, is_inside);
        let mut done = run(self);
        self.firing.keeps_rows = around;
        // What runs again after its wait must not find rows of its first attempt.
        let has_failed = matches!(done, Err(ExecError::Sql(_)));
        let stays = done.is_ok() || (has_failed && is_inside && !self.capture.is_torn());
        match (stays, is_inside) {
            (true, true) => self.capture.end_inside(),
            (true, false) => {
                let logged = self.capture.end_statement(&mut self.txn);
                done = done.and_then(|done| logged.map(|()| done));
            }
            (false, _) => {}
        }
        if !stays || (done.is_err() && !is_inside) {
            match is_inside {
                true => self.capture.undo_inside(),
                false => self.capture.undo_statement(),
            }
            self.txn.rollback_to(savepoint);
        }
        done
    }

    /// Metadata locks of the tables that are changed, and of those that their foreign keys lead to; false if one is not
    /// what it was.
    pub(super) fn lock_targets(
        &mut self,
        targets: &[Arc<TableDef>],
        keys: &ForeignKeyPlan,
        version: u64,
    ) -> Result<bool, ExecError> {
        if let Some(branch) = &self.context.xa {
            branch.admit_tables()?;
        }
        if targets.iter().all(|t| t.temporary) {
            return Ok(true);
        }
        let transaction = MdlDuration::Transaction;
        // FLUSH TABLES WITH READ LOCK waits for statements that write, and not for what is open between them: that
        // waits when it commits. Where the statement's end commits it is all one.
        let writing = match self.commits_at_end() {
            true => transaction,
            false => MdlDuration::Statement,
        };
        let catalog = &self.context.instance.catalog;
        announce_write(catalog, &mut self.locks, writing)?;
        for table in targets.iter().filter(|t| !t.temporary) {
            if esker_sql_catalog::catalog::is_system_schema(&table.schema) {
                self.context.require("SUPER")?;
            }
            if self.locks.has_explicit() {
                let names = self.scope(Purpose::Run).names;
                let now = names.stored(&table.schema, &table.name, MdlMode::SharedWrite);
                let now = names.conclude(now)?;
                if !Arc::ptr_eq(&now, table) {
                    return Ok(false);
                }
                continue;
            }
            self.locks
                .acquire(&table.mdl, MdlMode::SharedWrite, transaction)?;
            if !self.context.is_current(table, version) {
                return Ok(false);
            }
            self.check_schema_writable(table)?;
        }
        match self.vars.foreign_key_checks {
            true => self.lock_relatives(keys, version),
            false => Ok(true),
        }
    }

    /// 3989, but for what a source has done.
    fn check_schema_writable(&self, table: &TableDef) -> Result<(), ExecError> {
        if self.is_applying() {
            return Ok(());
        }
        let catalog = &self.context.instance.catalog;
        Ok(catalog.check_writable(&table.schema)?)
    }

    fn lock_relatives(&mut self, keys: &ForeignKeyPlan, version: u64) -> Result<bool, ExecError> {
        let is_explicit = self.locks.has_explicit();
        for Relative { table, is_changed } in keys.relatives() {
            let mode = match is_changed {
                true => MdlMode::SharedWrite,
                false => MdlMode::SharedRead,
            };
            match is_explicit {
                // LOCK TABLES has locked the relatives, too.
                true => check_locked(&self.locks, &table.mdl, &table.name, *is_changed)?,
                false => {
                    let until = MdlDuration::Transaction;
                    self.locks.acquire(&table.mdl, mode, until)?;
                }
            }
            if !self.context.is_current(table, version) {
                return Ok(false);
            }
            if *is_changed {
                self.check_schema_writable(table)?;
            }
        }
        for (schema, name) in keys.missing() {
            let catalog = &self.context.instance.catalog;
            let object = catalog.locks().table(schema, name);
            if !is_explicit {
                let until = MdlDuration::Transaction;
                self.locks.acquire(&object, MdlMode::SharedRead, until)?;
            }
            if catalog.resolve(schema, name).is_some() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The end of a change that went well.
    fn changed(&mut self, done: DmlDone) -> Result<Done, ExecError> {
        self.context.after_change(&done);
        let committed: Seq = self.end_statement(true)?;
        Ok(told(done, committed))
    }

    /// The same, inside of a statement, whose end commits.
    fn changed_inside(&mut self, done: DmlDone) -> Done {
        self.context.after_change(&done);
        told(done, 0)
    }
}

impl SessionContext {
    /// Names that do not resolve, or not for this account, get their errors on the general path.
    pub(super) fn compile_short(
        &self,
        query: &Query,
        params: usize,
    ) -> Result<Arc<ShortSelect>, GeneralPath> {
        let named = short::candidate(query).ok_or(GeneralPath::Shape)?;
        let schema = match &named.name.schema {
            Some(s) => Some(&*s.text),
            None => self.database.as_deref(),
        };
        let table = schema.and_then(|schema| self.resolve(schema, &named.name.name.text));
        let table = table.ok_or(GeneralPath::Shape)?;
        let privileges = self.access.on_table(&table.schema, &table.name);
        if !table.temporary && !privileges.contains(Privileges::of(&["SELECT"])) {
            return Err(GeneralPath::Shape);
        }
        short::compile(query, &table, params).map(Arc::new)
    }

    /// Is this definition, which was the catalog's at `version`, still the catalog's? Asked with the
    /// table's lock held.
    fn is_current(&self, table: &Arc<TableDef>, version: u64) -> bool {
        let catalog = &self.instance.catalog;
        catalog.version() == version
            || catalog
                .snapshot()
                .table(&table.schema, &table.name)
                .is_some_and(|t| Arc::ptr_eq(t, table))
    }

    /// What functions tell of a change that went well.
    pub(super) fn after_change(&mut self, done: &DmlDone) {
        if let Some(id) = done.generated {
            self.last_insert_id.set(id);
            // It was for this statement.
            self.insert_id.set(0);
        }
    }
}

/// What the client hears of a change.
fn told(done: DmlDone, committed: Seq) -> Done {
    let info = OkInfo {
        affected_rows: done.affected_rows,
        last_insert_id: done.insert_id,
        info: done.info,
    };
    Done::Ok(info, committed.max(done.depends_on))
}

/// sql_safe_updates: rows to change are found by a key, or their number is limited.
///
/// # Errors
/// 1175.
fn check_safe(statement: &Statement, compiled: &Compiled) -> SqlResult<()> {
    let limited = match statement {
        Statement::Update(update) => update.limit.is_some(),
        Statement::Delete(delete) => delete.limit.is_some(),
        _ => true,
    };
    if limited || !compiled.query().is_some_and(|q| q.reads_without_key()) {
        return Ok(());
    }
    let text = "You are using safe update mode and you tried to update a table without a WHERE \
                that uses a KEY column. ";
    Err(SqlError::new(1175, "HY000", text))
}

/// The static type of a parameter, from its value.
fn type_of(v: &Value, vars: &esker_sql_catalog::variables::SessionVars) -> SqlType {
    match v {
        Value::Null => SqlType::new(TypeKind::Null),
        Value::Int(_) => SqlType::bigint(false),
        Value::UInt(_) => SqlType::bigint(true),
        Value::Double(_) => SqlType::new(TypeKind::Double),
        Value::Decimal(d) => SqlType::decimal(d.precision().max(1), d.scale()),
        Value::Str(s) => SqlType::varchar(s.len() as u32, vars.collation_connection),
        Value::Json(_) => SqlType::new(TypeKind::Json),
        Value::Date(_) => SqlType::new(TypeKind::Date),
        Value::Time(time) => SqlType {
            decimals: digits_of(time.microsecond()),
            ..SqlType::new(TypeKind::Time)
        },
        Value::DateTime(moment) => SqlType {
            decimals: digits_of(moment.microsecond()),
            ..SqlType::new(TypeKind::DateTime)
        },
        Value::Bit(_, n) => SqlType {
            length: u32::from(*n),
            ..SqlType::new(TypeKind::Bit)
        },
        Value::Label(_, s) => SqlType::varchar(s.len() as u32, vars.collation_connection),
    }
}
