//! EXPLAIN of queries and of changes, and EXPLAIN ANALYZE of queries.
//!
//! Neighbours: `run` and `change` compile as for running; `plan::explain` shows what came out.
//! **Invariants**: without ANALYZE nothing is run; nothing is ever written; the privileges and the metadata
//! locks are those of the statement itself; what runs for ANALYZE stops on KILL and at the time limit
//! like any query.

use esker_sql_catalog::exec_error::ExecError;
use esker_sql_catalog::result::{Mode, RowSink};
use esker_sql_exec::{RowStream, SubqueryStates, parallel};
use esker_sql_plan::plan::QueryPlan;
use esker_sql_plan::plan::explain::{
    Explained, explain, explain_analyzed, explain_change, explain_insert,
};
use esker_sql_syntax::ast::{Explain, ExplainFormat, ExplainWhat, Query, Statement};
use esker_types::{SqlError, SqlResult, Value};

use super::Session;
use super::change::changed_meanwhile;
use super::names::Purpose;
use super::run::{Done, RowSource};

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
        let ExplainWhat::Statement(statement) = &asked.what else {
            return Err(SqlError::not_supported("EXPLAIN FOR CONNECTION").into());
        };
        let format = match asked.format {
            ExplainFormat::Default => self.default_explain_format(),
            given => given,
        };
        let (columns, rows) = match &**statement {
            Statement::Query(query) if asked.analyze => {
                check_analyze_format(asked.format)?;
                self.analyze(query, params)?
            }
            Statement::Query(query) => {
                let plan = self.plan_for(Purpose::Explain, query, params)?;
                self.show(&plan, params, format)
            }
            _ if asked.analyze => {
                let what = "EXPLAIN ANALYZE of a statement that changes rows";
                return Err(SqlError::not_supported(what).into());
            }
            change @ (Statement::Insert(_) | Statement::Update(_) | Statement::Delete(_)) => {
                self.use_transaction();
                let version = self.context.instance.catalog.version();
                let (compiled, _) = self.compile_change(Purpose::Explain, change, params)?;
                let keys = compiled.foreign_keys();
                if !self.lock_targets(compiled.targets(), keys, version)? {
                    return Err(changed_meanwhile().into());
                }
                match (change, compiled.query()) {
                    (Statement::Insert(insert), query) => {
                        let verb = if insert.replace { "REPLACE" } else { "INSERT" };
                        explain_insert(query, verb, &insert.table.name.text, format)?
                    }
                    (Statement::Update(_), Some(query)) => explain_change(query, "UPDATE", format),
                    (_, Some(query)) => explain_change(query, "DELETE", format),
                    (_, None) => return Err(SqlError::not_supported("EXPLAIN of this").into()),
                }
            }
            _ => return Err(SqlError::not_supported("EXPLAIN of this statement").into()),
        };
        self.end_statement(true)?;
        let rows = rows.into_iter();
        Ok(Done::Rows(Box::new(RowSource::Table(columns, rows))))
    }

    /// Shows a plan, and how several threads would now read its tables.
    fn show(&self, plan: &QueryPlan, params: &[Value], format: ExplainFormat) -> Explained {
        let states = SubqueryStates::default();
        let (explained, _) = self.execute(Mode::Thread, false, params, |env| {
            let executor = env.executor(&states);
            let env = env.env(&executor);
            // What cannot be split now is an error only when the statement runs.
            explain(plan, format, &|block| {
                let estimate = parallel::estimate(block, &env);
                estimate.ok().flatten()
            })
        });
        explained
    }

    /// Runs a query, throws its rows away, and shows what its operators did.
    fn analyze(&mut self, query: &Query, params: &[Value]) -> Result<Explained, ExecError> {
        let plan = self.plan_for(Purpose::Explain, query, params)?;
        let stream = Box::new(RowStream::measured(plan));
        let mut source = RowSource::Stream(stream, params.to_vec(), Mode::Thread);
        while self.pull(&mut source, &mut Nowhere::default(), ROWS_AT_A_TIME)? {}
        let RowSource::Stream(stream, ..) = &source else {
            unreachable!("made above");
        };
        let profile = stream.profile();
        let profile = profile.ok_or_else(|| SqlError::not_supported("EXPLAIN ANALYZE of this"))?;
        Ok(explain_analyzed(stream.plan(), profile))
    }

    /// The variable `explain_format`.
    fn default_explain_format(&self) -> ExplainFormat {
        match self.values.named("explain_format").as_text() {
            "JSON" => ExplainFormat::Json,
            "TREE" => ExplainFormat::Tree,
            _ => ExplainFormat::Traditional,
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

/// ANALYZE is shown as a tree only, as in MySQL.
fn check_analyze_format(given: ExplainFormat) -> SqlResult<()> {
    match given {
        ExplainFormat::Default | ExplainFormat::Tree => Ok(()),
        ExplainFormat::Traditional => Err(SqlError::not_supported(
            "EXPLAIN ANALYZE with TRADITIONAL format",
        )),
        ExplainFormat::Json => Err(SqlError::not_supported("EXPLAIN ANALYZE with JSON format")),
    }
}
