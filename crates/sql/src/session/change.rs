//! Statements that change rows, and short reads: compiled, kept, run.
//!
//! Neighbours: `dml` and `short` compile and run; `plans` keeps what they made.
//! **Invariants**
//! - A change runs between a savepoint and its release: an error or a wait leaves none of its writes.
//! - Parameters of a kept plan are read at run time; the plan is for their kinds, not their values.

use std::cell::RefCell;
use std::sync::Arc;

use esker_engine::Seq;
use esker_types::{SqlType, TypeKind, Value};

use super::Session;
use super::names::{SessionNames, count_diagnostics};
use super::plans::{Plan, PlanKey, Validity, kinds};
use super::run::{Done, RowSource, check_killed, eval_ctx};
use crate::bind::{BindEnv, Params};
use crate::catalog::AutoStep;
use crate::dml::{self, Compiled, DmlDone, DmlEnv};
use crate::exec_error::ExecError;
use crate::mdl::{MdlDuration, MdlMode};
use crate::parse::ast::{Query, Statement};
use crate::plan::QueryPlan;
use crate::result::{Mode, OkInfo};
use crate::short;

/// Rows that a change may look at on a shared worker.
const INLINE_ROWS: f64 = 1000.0;

impl Session {
    fn validity(&self, params: &[Value]) -> Validity {
        Validity {
            catalog: self.facts.instance.catalog.version(),
            sql_mode: self.vars.sql_mode.0,
            database: self.facts.database.clone(),
            params: kinds(params),
        }
    }

    fn names(&mut self) -> SessionNames<'_> {
        SessionNames {
            facts: &self.facts,
            values: &self.values,
            locks: RefCell::new(&mut self.locks),
            pending: RefCell::default(),
            diagnostics: count_diagnostics(&self.warnings, self.warning_total),
        }
    }

    /// Runs a query the short way if it is that kind.
    pub(super) fn run_short(
        &mut self,
        query: &Query,
        params: &[Value],
        prepared: Option<u32>,
    ) -> Result<Option<Done>, ExecError> {
        if self.vars.serializable || self.vars.select_limit != u64::MAX {
            return Ok(None);
        }
        // See the note on stale index entries in the scan operator.
        let by_primary_only = self.txn.has_writes();
        let Some(named) = short::candidate(query) else {
            return Ok(None);
        };
        let validity = self.validity(params);
        let key = prepared.map(PlanKey::Prepared);
        let kept = key.as_ref().and_then(|k| self.plans.get(k, &validity));
        let plan = match kept {
            Some(Plan::Read(plan)) => plan,
            Some(_) => return Ok(None),
            None => {
                let schema = match &named.name.schema {
                    Some(s) => Some(&*s.text),
                    None => self.facts.database.as_deref(),
                };
                // Names that do not resolve get their errors on the long way.
                let Some(table) = schema.and_then(|s| {
                    self.facts
                        .instance
                        .catalog
                        .resolve(s, &named.name.name.text)
                }) else {
                    return Ok(None);
                };
                let compiled = short::compile(query, &table, params.len()).map(Arc::new);
                if let Some(key) = key {
                    let plan = compiled.clone().map_or(Plan::LongRead, Plan::Read);
                    self.plans.put(key, validity, plan);
                }
                match compiled {
                    Some(plan) => plan,
                    None => return Ok(None),
                }
            }
        };
        self.facts
            .require_on("SELECT", &plan.table.schema, &plan.table.name)?;
        // LOCK TABLES and lock waits are for the long way.
        if self.locks.has_explicit()
            || !self.locks.try_acquire(
                &plan.table.mdl,
                MdlMode::SharedRead,
                MdlDuration::Transaction,
            )
        {
            return Ok(None);
        }
        let current = self
            .facts
            .instance
            .catalog
            .resolve(&plan.table.schema, &plan.table.name);
        if !current.is_some_and(|t| Arc::ptr_eq(&t, &plan.table)) {
            return Ok(None);
        }
        if by_primary_only && !plan.is_by_primary() {
            return Ok(None);
        }
        self.use_transaction();
        let bound = plan.bind(params, &self.vars.time_zone)?;
        Ok(bound.map(|b| Done::Rows(Box::new(RowSource::Short(plan, b)))))
    }

    /// INSERT, REPLACE, UPDATE, DELETE.
    pub(super) fn run_change(
        &mut self,
        statement: &Statement,
        params: &[Value],
        prepared: Option<u32>,
        mode: Mode,
    ) -> Result<Done, ExecError> {
        self.check_writable()?;
        self.use_transaction();
        let (compiled, blocks) = self.compiled(statement, params, prepared)?;
        if mode == Mode::Inline && (blocks || compiled.cost_rows() > INLINE_ROWS) {
            return Ok(Done::NeedThread);
        }
        self.lock_targets(statement, &compiled)?;
        if self.vars.safe_updates {
            check_safe(statement, &compiled)?;
        }
        let savepoint = self.txn.savepoint();
        match self.run_compiled(&compiled, params, mode) {
            Ok(done) => self.changed(done),
            Err(e) => {
                self.txn.rollback_to(savepoint);
                Err(e)
            }
        }
    }

    /// Compiles, or finds what was compiled before. The second value: it calls a function that waits
    /// (SLEEP, GET_LOCK); such a statement is not kept.
    pub(super) fn compiled(
        &mut self,
        statement: &Statement,
        params: &[Value],
        prepared: Option<u32>,
    ) -> Result<(Arc<Compiled>, bool), ExecError> {
        let validity = self.validity(params);
        let key = prepared.map(PlanKey::Prepared);
        if let Some(Plan::Change(plan)) = key.as_ref().and_then(|k| self.plans.get(k, &validity)) {
            return Ok((plan, false));
        }
        let clock = self.facts.instance.env.clock.clone();
        let wall = move || clock.wall_micros();
        let ctx = eval_ctx(&self.facts, &self.vars, &wall);
        let names = SessionNames {
            facts: &self.facts,
            values: &self.values,
            locks: RefCell::new(&mut self.locks),
            pending: RefCell::default(),
            diagnostics: count_diagnostics(&self.warnings, self.warning_total),
        };
        let types: Vec<SqlType> = params.iter().map(|v| type_of(v, &self.vars)).collect();
        let env = BindEnv::new(&ctx, &self.facts, &names, Params::Types(&types));
        let compiled = dml::compile(&env, statement).map_err(|e| names.stop(e))?;
        let blocks = env.blocks.get();
        let compiled = Arc::new(compiled);
        if let (Some(key), false) = (key, blocks) {
            self.plans
                .put(key, validity, Plan::Change(compiled.clone()));
        }
        Ok((compiled, blocks))
    }

    /// Rights and metadata locks of the tables that are changed.
    pub(super) fn lock_targets(
        &mut self,
        statement: &Statement,
        compiled: &Compiled,
    ) -> Result<(), ExecError> {
        let command = match statement {
            Statement::Insert(_) => "INSERT",
            Statement::Update(_) => "UPDATE",
            _ => "DELETE",
        };
        let global = self.facts.instance.catalog.locks().global().clone();
        if self.locks.has_global() {
            let text = "Can't execute the query because you have a conflicting read lock";
            return Err(esker_types::SqlError::new(1223, "HY000", text).into());
        }
        self.locks.acquire(
            &global,
            MdlMode::IntentionExclusive,
            MdlDuration::Transaction,
        )?;
        for table in compiled.targets() {
            self.facts.require_on(command, &table.schema, &table.name)?;
            if crate::catalog::is_system_schema(&table.schema) {
                self.facts.require("SUPER")?;
            }
            let names = self.names();
            let now = names
                .stored(&table.schema, &table.name, MdlMode::SharedWrite)
                .map_err(|e| names.stop(e))?;
            if !Arc::ptr_eq(&now, table) {
                // The schema changed since the plan was made: the statement is planned again.
                self.plans = Default::default();
                return Err(changed_meanwhile().into());
            }
        }
        Ok(())
    }

    fn run_compiled(
        &mut self,
        compiled: &Compiled,
        params: &[Value],
        mode: Mode,
    ) -> Result<DmlDone, ExecError> {
        let clock = self.facts.instance.env.clock.clone();
        let wall = move || clock.wall_micros();
        let limits = self.limits();
        let autocommit = self.commits_at_end();
        let deadline = self.statement_deadline;
        let ctx = eval_ctx(&self.facts, &self.vars, &wall);
        let killed = || check_killed(&self.facts, deadline);
        let mut env = DmlEnv {
            txn: &mut self.txn,
            engine: &self.facts.instance.engine,
            ctx: &ctx,
            params,
            vars: &self.facts,
            mode,
            limits,
            check_killed: &killed,
            autocommit,
            found_rows: self.client.found_rows,
            auto_step: AutoStep {
                increment: self.vars.auto_increment_increment,
                offset: self.vars.auto_increment_offset,
            },
            auto_interval: self.vars.auto_increment_interval,
            scratch: &mut self.plans.dml_scratch,
        };
        let result = compiled.run(&mut env);
        let (warnings, total) = (ctx.warnings.take(), ctx.warning_count.get());
        if !matches!(result, Err(ExecError::Wait(_))) {
            self.add_warnings(warnings, total);
        }
        result
    }

    /// The end of a change that went well.
    fn changed(&mut self, done: DmlDone) -> Result<Done, ExecError> {
        if let Some(id) = done.generated {
            self.facts.last_insert_id.set(id);
        }
        self.facts.row_count.set(done.affected_rows as i64);
        let committed: Seq = self.end_statement(true)?;
        let info = OkInfo {
            affected_rows: done.affected_rows,
            last_insert_id: done.insert_id,
            info: done.info,
        };
        Ok(Done::Ok(info, committed.max(done.depends_on)))
    }
}

/// sql_safe_updates: rows to change are found by a key, or their number is limited.
///
/// # Errors
/// 1175.
fn check_safe(statement: &Statement, compiled: &Compiled) -> esker_types::SqlResult<()> {
    let limited = match statement {
        Statement::Update(update) => update.limit.is_some(),
        Statement::Delete(delete) => delete.limit.is_some(),
        _ => true,
    };
    if limited || !compiled.query().is_some_and(QueryPlan::reads_without_key) {
        return Ok(());
    }
    let text = "You are using safe update mode and you tried to update a table without a WHERE \
                that uses a KEY column";
    Err(esker_types::SqlError::new(1175, "HY000", text))
}

/// The error of a statement whose table changed between planning and locking (MySQL: 1412).
fn changed_meanwhile() -> esker_types::SqlError {
    let text = "Table definition has changed, please retry transaction";
    esker_types::SqlError::new(1412, "HY000", text)
}

/// The static type of a parameter, from its value.
fn type_of(v: &Value, vars: &crate::variables::SessionVars) -> SqlType {
    match v {
        Value::Null => SqlType::new(TypeKind::Null),
        Value::Int(_) => SqlType::bigint(false),
        Value::UInt(_) => SqlType::bigint(true),
        Value::Double(_) => SqlType::new(TypeKind::Double),
        Value::Decimal(d) => SqlType::decimal(d.precision().max(1), d.scale()),
        Value::Str(s) => SqlType::varchar(s.len() as u32, vars.collation_connection),
        Value::Date(_) => SqlType::new(TypeKind::Date),
        Value::Time(_) => SqlType {
            decimals: 6,
            ..SqlType::new(TypeKind::Time)
        },
        Value::DateTime(_) => SqlType {
            decimals: 6,
            ..SqlType::new(TypeKind::DateTime)
        },
        Value::Bit(_, n) => SqlType {
            length: u32::from(*n),
            ..SqlType::new(TypeKind::Bit)
        },
        Value::Label(_, s) => SqlType::varchar(s.len() as u32, vars.collation_connection),
    }
}
