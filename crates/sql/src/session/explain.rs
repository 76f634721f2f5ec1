//! EXPLAIN of queries and of changes.
//!
//! Neighbours: `run` and `change` compile as for running; `plan::explain` shows what came out.
//! **Invariants**: nothing is run and nothing is written; the rights and the metadata locks are those
//! of the statement itself.

use esker_types::{SqlError, Value};

use super::Session;
use super::change::changed_meanwhile;
use super::run::{Done, RowSource};
use crate::exec_error::ExecError;
use crate::parse::ast::{Explain, ExplainFormat, ExplainWhat, Statement};
use crate::plan::explain::{explain, explain_change, explain_insert};
use crate::result::Mode;

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
        if asked.analyze {
            return Err(SqlError::not_supported("EXPLAIN ANALYZE").into());
        }
        let ExplainWhat::Statement(statement) = &asked.what else {
            return Err(SqlError::not_supported("EXPLAIN FOR CONNECTION").into());
        };
        let format = match asked.format {
            ExplainFormat::Default => self.default_explain_format(),
            given => given,
        };
        let (columns, rows) = match &**statement {
            Statement::Query(query) => explain(&*self.plan(query, params)?, format)?,
            change @ (Statement::Insert(_) | Statement::Update(_) | Statement::Delete(_)) => {
                self.use_transaction();
                let version = self.facts.instance.catalog.version();
                let (compiled, _) = self.compile_change(change, params)?;
                if !self.lock_targets(&compiled, version)? {
                    return Err(changed_meanwhile().into());
                }
                match (change, compiled.query()) {
                    (Statement::Insert(insert), query) => {
                        let verb = if insert.replace { "REPLACE" } else { "INSERT" };
                        explain_insert(query, verb, &insert.table.name.text, format)?
                    }
                    (Statement::Update(_), Some(query)) => explain_change(query, "UPDATE", format)?,
                    (_, Some(query)) => explain_change(query, "DELETE", format)?,
                    (_, None) => return Err(SqlError::not_supported("EXPLAIN of this").into()),
                }
            }
            _ => return Err(SqlError::not_supported("EXPLAIN of this statement").into()),
        };
        self.end_statement(true)?;
        let rows = rows.into_iter();
        Ok(Done::Rows(Box::new(RowSource::Table(columns, rows))))
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
