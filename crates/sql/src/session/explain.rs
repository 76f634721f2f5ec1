//! EXPLAIN of queries and of changes, EXPLAIN ANALYZE, EXPLAIN INTO and EXPLAIN FOR CONNECTION.
//!
//! Neighbours: `run` and `change` compile as for running, and show the process list what they run; `plan::explain`
//! shows what came out.
//! **Invariants**: without ANALYZE nothing is run; nothing is ever written, not even by EXPLAIN ANALYZE of a change,
//! which runs only the search for its rows; the privileges and the metadata locks are those of the statement itself;
//! what runs for ANALYZE stops on KILL and at the time limit like any query.

use std::sync::Arc;

use esker_sql_catalog::exec_error::{ExecError, INTERRUPTED};
use esker_sql_catalog::result::{Mode, RowSink};
use esker_sql_exec::{RowStream, SubqueryStates, parallel};
use esker_sql_plan::plan::QueryPlan;
use esker_sql_plan::plan::explain::{
    Explained, Explainee, Form, Outside, explain, explain_analyzed,
};
use esker_sql_syntax::ast::{Explain, ExplainFormat, ExplainWhat, Statement};
use esker_types::{Level, SqlError, SqlResult, Value, errors};

use super::names::Purpose;
use super::pruning::partitions_of;
use super::rows::RowSource;
use super::run::{Done, ok};
use super::{Session, SessionContext};
use crate::dml::Compiled;

/// What a session runs, for EXPLAIN FOR CONNECTION.
#[derive(Clone)]
pub(crate) enum RunningPlan {
    Query(Arc<QueryPlan>),
    Change(Arc<Compiled>),
}

impl std::fmt::Debug for RunningPlan {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Query(_) => "Query",
            Self::Change(_) => "Change",
        })
    }
}

impl RunningPlan {
    fn explainee(&self) -> Explainee<'_> {
        match self {
            Self::Query(plan) => Explainee::Query(plan),
            Self::Change(change) => change.explainee(),
        }
    }

    /// The query that finds its rows; INSERT … VALUES has none.
    fn query(&self) -> Option<&Arc<QueryPlan>> {
        match self {
            Self::Query(plan) => Some(plan),
            Self::Change(change) => change.query(),
        }
    }
}

impl Session {
    pub(super) fn explain(
        &mut self,
        asked: &Explain,
        params: &[Value],
        mode: Mode,
    ) -> Result<Done, ExecError> {
        if mode == Mode::Inline {
            return Ok(Done::NeedThread);
        }
        let form = self.explain_form(asked)?;
        let (columns, rows) = match &asked.what {
            ExplainWhat::Connection(id) => {
                let Some(running) = self.context.running_plan(*id)? else {
                    return Ok(ok(0));
                };
                self.show(running.explainee(), &[], form)
            }
            ExplainWhat::Statement(statement) => {
                let compiled = self.in_schema(asked, |session| {
                    session.compile_explained(statement, params)
                })?;
                match asked.analyze {
                    true => self.analyze(&compiled, params, form)?,
                    false => self.show(compiled.explainee(), params, form),
                }
            }
        };
        self.end_statement(true)?;
        let Some(variable) = &asked.into else {
            let rows = rows.into_iter();
            return Ok(Done::Rows(Box::new(RowSource::Table(columns, rows))));
        };
        let mut cells = rows.into_iter().flatten();
        let document = cells.next().expect("a document is one row of one column");
        let ty = columns[0].ty.clone();
        self.context.set_user_var(variable, document, ty)?;
        Ok(ok(0))
    }

    /// Compiles a statement as for running, with its tables locked.
    fn compile_explained(
        &mut self,
        statement: &Statement,
        params: &[Value],
    ) -> Result<RunningPlan, ExecError> {
        match statement {
            Statement::Query(query) => {
                let plan = self.plan_for(Purpose::Explain, query, params)?;
                Ok(RunningPlan::Query(plan))
            }
            change @ (Statement::Insert(_) | Statement::Update(_) | Statement::Delete(_)) => {
                self.use_transaction();
                let version = self.context.instance.catalog.version();
                let (compiled, _) = self.compile_change(Purpose::Explain, change, params)?;
                self.check_writable_tables(compiled.targets())?;
                let keys = compiled.foreign_keys();
                if !self.lock_targets(compiled.targets(), keys, version)? {
                    return Err(errors::definition_changed().into());
                }
                Ok(RunningPlan::Change(compiled))
            }
            _ => Err(SqlError::not_supported("EXPLAIN of this statement").into()),
        }
    }

    /// FOR SCHEMA: compiles with another default database.
    fn in_schema<R>(
        &mut self,
        asked: &Explain,
        compile: impl FnOnce(&mut Self) -> Result<R, ExecError>,
    ) -> Result<R, ExecError> {
        let Some(schema) = &asked.schema else {
            return compile(self);
        };
        let host = &self.context.access.host;
        self.context.require_some_in(host, &schema.text)?;
        let schema = self.context.instance.find_schema(&schema.text)?;
        let before = self.context.database.replace(schema);
        let compiled = compile(self);
        self.context.database = before;
        compiled
    }

    /// Shows a plan, and how several threads would now read its tables.
    fn show(&self, of: Explainee<'_>, params: &[Value], form: Form) -> Explained {
        let states = SubqueryStates::default();
        let (explained, _) = self.execute(Mode::Thread, false, params, |env| {
            let executor = env.executor(&states);
            let env = env.env(&executor);
            // What cannot be split now is an error only when the statement runs.
            let outside = Outside {
                parallel: &|block| {
                    let estimate = parallel::estimate(block, &env);
                    estimate.ok().flatten()
                },
                partitions: &|scan| partitions_of(scan, &env),
            };
            explain(of, form, outside)
        });
        explained
    }

    /// Runs the query of a statement, throws its rows away, and shows what its operators did.
    fn analyze(
        &mut self,
        compiled: &RunningPlan,
        params: &[Value],
        form: Form,
    ) -> Result<Explained, ExecError> {
        let Some(plan) = compiled.query() else {
            return Ok(self.show(compiled.explainee(), params, form));
        };
        let stream = Box::new(RowStream::measured(plan.clone()));
        let mut source = RowSource::Stream(stream, params.to_vec(), Mode::Thread);
        loop {
            match self.pull(&mut source, &mut Nowhere::default(), ROWS_AT_A_TIME) {
                Ok(true) => {}
                Ok(false) => break,
                // KILL QUERY: what it has done until then is the answer.
                Err(ExecError::Sql(e)) if e.code == INTERRUPTED => {
                    self.context.process.clear_query_kill();
                    self.warn(Level::Warning, e.code, e.message);
                    break;
                }
                Err(e) => return Err(e),
            }
        }
        let RowSource::Stream(stream, ..) = &source else {
            unreachable!("made above");
        };
        let profile = stream.profile().expect("it is measured");
        let as_document = form == Form::JsonTree;
        Ok(explain_analyzed(compiled.explainee(), profile, as_document))
    }

    /// The form that is asked for, by the statement or by `explain_format`.
    fn explain_form(&self, asked: &Explain) -> SqlResult<Form> {
        let document = match self.values.named("explain_json_format_version").as_u64() {
            2 => Form::JsonTree,
            _ => Form::Json,
        };
        let default = match self.values.named("explain_format").as_text() {
            "JSON" => document,
            "TREE" => Form::Tree,
            _ => Form::Traditional,
        };
        let form = match asked.format {
            ExplainFormat::Default => default,
            ExplainFormat::Traditional => Form::Traditional,
            ExplainFormat::Json => document,
            ExplainFormat::Tree => Form::Tree,
        };
        check_into(asked)?;
        match (asked.analyze, form) {
            (false, _) => Ok(form),
            (true, _) if matches!(asked.what, ExplainWhat::Connection(_)) => {
                Err(SqlError::not_supported("EXPLAIN ANALYZE FOR CONNECTION"))
            }
            // What explain_format says is not for ANALYZE if that cannot do it.
            (true, Form::Traditional) if asked.format == ExplainFormat::Default => Ok(Form::Tree),
            (true, Form::Traditional) => Err(SqlError::not_supported(
                "EXPLAIN ANALYZE with TRADITIONAL format",
            )),
            (true, Form::Json) => Err(SqlError::new(
                6412,
                "0A000",
                "EXPLAIN ANALYZE does not support FORMAT=JSON with explain_json_format_version=1.",
            )),
            (true, Form::Tree | Form::JsonTree) => Ok(form),
        }
    }
}

impl SessionContext {
    /// What another session runs; `None` if it runs nothing that has a plan yet.
    fn running_plan(&self, id: u64) -> SqlResult<Option<RunningPlan>> {
        let process = self.instance.registry.find(id)?;
        let detail = process.detail();
        if !process.is_of(&self.user) {
            self.require("PROCESS")?;
        }
        let is_own = id == self.process.id;
        if is_own || (detail.plan.is_none() && detail.command == "Query") {
            let text = "EXPLAIN FOR CONNECTION command is supported only for SELECT/UPDATE/INSERT/DELETE/REPLACE";
            return Err(SqlError::new(3012, "HY000", text));
        }
        Ok(detail.plan)
    }
}

/// INTO takes documents only.
fn check_into(asked: &Explain) -> SqlResult<()> {
    let refused = |code: u16, text: &str| Err(SqlError::new(code, "0A000", text));
    match (&asked.into, asked.format) {
        (None, _) => Ok(()),
        (Some(_), _) if matches!(asked.what, ExplainWhat::Connection(_)) => {
            let text = "EXPLAIN FOR CONNECTION does not support the INTO clause.";
            refused(6009, text)
        }
        (Some(_), ExplainFormat::Json) => Ok(()),
        (Some(_), ExplainFormat::Default) => {
            refused(6006, "EXPLAIN INTO does not support implicit FORMAT.")
        }
        (Some(_), ExplainFormat::Tree) => {
            refused(6007, "EXPLAIN INTO does not support FORMAT=TREE.")
        }
        (Some(_), ExplainFormat::Traditional) => {
            refused(6007, "EXPLAIN INTO does not support FORMAT=TRADITIONAL.")
        }
    }
}

/// Rows that [`Nowhere`] takes at a time; between them the session looks at KILL and the time limit.
const ROWS_AT_A_TIME: usize = 1000;

/// Takes rows and keeps none.
#[derive(Default)]
struct Nowhere(usize);

impl RowSink for Nowhere {
    fn begin_row(&mut self) {}
    fn value(&mut self, _value: esker_types::ValueRef<'_>, _ty: &esker_types::SqlType) {}
    fn end_row(&mut self) {
        self.0 += 1;
    }
    fn bytes(&self) -> usize {
        self.0
    }
}
