//! Statements known by their text: run from the plan of an earlier text that differed in literals only.
//!
//! Neighbours: `parse::digest` takes the literals out and gives the key; `shapes` says which statements
//! may share a plan; `plans` keeps the plans; `change` runs them.
//! **Invariants**
//! - A statement gives the same rows, metadata, effects, warnings and errors as without its plan. Where
//!   a plan cannot promise that for these literals, the text goes the way of any other text.
//! - A text is compiled for its digest only when that digest comes for the second time, so texts that
//!   never come again cost one reading of their tokens.

use std::sync::Arc;

use esker_sql_catalog::exec_error::ExecError;
use esker_sql_catalog::result::Mode;
use esker_sql_exec::short::GeneralPath;
use esker_sql_syntax::ast::{Literal, Statement};
use esker_sql_syntax::digest::{Digest, DigestKind, MAX_DIGEST_PARAMS};
use esker_sql_syntax::{self as parse, ParseOptions, Parsed};
use esker_types::{Decimal, Value};

use super::change::Keep;
use super::names::Purpose;
use super::plans::{Known, Made, Plan, PlanKey, PlanStatistics, hash_of};
use super::request::KEPT_TEXT_BYTES;
use super::run::{Done, deprecations};
use super::shapes;
use super::{Running, Session};
use crate::counts::command_of;

/// Rows that a change known by its text looks at: it is about single rows.
const MAX_TEXT_ROWS: f64 = MAX_DIGEST_PARAMS as f64;

/// Longest text that is kept with its tree; BEGIN, COMMIT and SET are short.
const MAX_PARSED_BYTES: usize = 64;

/// A number out of its type's range: the text of this error shows the expression with its literals.
const OUT_OF_RANGE: u16 = 1690;

impl Session {
    /// The plan for the request's text, if it has one, and a version of the catalog that its tables are not older than;
    /// then the literals are the parameters.
    pub(super) fn find_text_plan(&mut self, running: &mut Running) -> Option<(PlanKey, Plan, u64)> {
        if running.next != 0 {
            return None;
        }
        let mut digest = std::mem::take(&mut self.plans.digest);
        let found = if digest.read(&running.text, self.vars.sql_mode) {
            self.take_literals(&digest, running);
            self.look_up(digest.key(), running, |session, running| {
                session.compile_text(&digest, running)
            })
        } else if running.text.len() <= MAX_PARSED_BYTES {
            running.params.clear();
            self.look_up(&running.text, running, Self::parse_short)
        } else {
            None
        };
        self.plans.digest = digest;
        if found.is_none() && running.text.len() > KEPT_TEXT_BYTES {
            // The tree will have them once more.
            running.params = Vec::new();
        }
        let (key, made, version) = found?;
        running.next = running.text.len();
        self.deprecations = made.deprecations;
        Some((key, made.plan, version))
    }

    /// Turns the literals into parameters, in the buffers of the ones before.
    fn take_literals(&self, digest: &Digest, running: &mut Running) {
        let (text, mode) = (&running.text, self.vars.sql_mode);
        running.params.resize(digest.params().len(), Value::Null);
        for (literal, slot) in digest.params().iter().zip(&mut running.params) {
            match (literal.kind, slot) {
                (DigestKind::Int(v), slot) => {
                    *slot = i64::try_from(v).map_or(Value::UInt(v), Value::Int);
                }
                (DigestKind::Str, Value::Str(buffer)) => {
                    buffer.clear();
                    buffer.extend_from_slice(&literal.text(text, mode));
                }
                (DigestKind::Str, slot) => {
                    *slot = Value::Str(literal.text(text, mode).into_owned());
                }
                (_, slot) => {
                    *slot = match literal.literal(text, mode) {
                        Literal::Decimal(text) => Value::Decimal(Decimal::parse(text.as_bytes()).0),
                        Literal::Double(v) => Value::Double(v),
                        _ => Value::Null,
                    };
                }
            }
        }
    }

    /// The plan that is kept under `key`; `make` makes one when the key comes again.
    fn look_up(
        &mut self,
        key: &[u8],
        running: &Running,
        make: impl FnOnce(&mut Self, &Running) -> Option<Made>,
    ) -> Option<(PlanKey, Made, u64)> {
        let hash = hash_of(key);
        let binding = self.context.binding;
        let catalog = &self.context.instance.catalog;
        let version = catalog.version();
        let made = match self
            .plans
            .text(hash, key, binding, catalog, &running.params)
        {
            Known::New => return None,
            Known::Made(made) => made,
            Known::Again => {
                let made = make(self, running)?;
                let kept = made.clone();
                self.plans
                    .keep_text(hash, key, kept, binding, version, &running.params);
                made
            }
        };
        match made.plan {
            Plan::Long(_) => None,
            _ => Some((PlanKey::Text(hash), made, version)),
        }
    }

    /// The tree of a statement that begins or ends a transaction or sets a variable: its text is its
    /// key, and it is over before a plan would pay.
    fn parse_short(&mut self, running: &Running) -> Option<Made> {
        let options = ParseOptions {
            multi: self.client.multi_statements,
            ..self.parse_options()
        };
        let parsed = parse::parse(&running.text, options).ok()?;
        let deprecations = deprecations(parsed.deprecations);
        let plan = match parsed.stmt {
            Statement::Begin(_)
            | Statement::Commit(_)
            | Statement::Rollback(_)
            | Statement::Set(_)
                if parsed.rest.is_none() =>
            {
                Plan::Parsed(Arc::new(parsed.stmt))
            }
            _ => Plan::Long(GeneralPath::Shape),
        };
        Some(Made { plan, deprecations })
    }

    /// A plan for every text with this digest. None: it has an error or must wait, which is found again
    /// on the way of any other text.
    fn compile_text(&mut self, digest: &Digest, running: &Running) -> Option<Made> {
        let offsets = digest.offsets();
        let options = ParseOptions {
            sql_mode: self.vars.sql_mode,
            client: self.vars.charset_client,
            multi: self.client.multi_statements,
            lift: Some(&offsets),
            ..ParseOptions::default()
        };
        let mut parsed = parse::parse(&running.text, options).ok()?;
        let deprecations = deprecations(std::mem::take(&mut parsed.deprecations));
        let plan = self.compile_parsed(&parsed, &running.params)?;
        Some(Made { plan, deprecations })
    }

    fn compile_parsed(&mut self, parsed: &Parsed, params: &[Value]) -> Option<Plan> {
        if parsed.rest.is_some() || parsed.params as usize != params.len() {
            return Some(Plan::Long(GeneralPath::Shape));
        }
        if let Statement::Query(query) = &parsed.stmt {
            return Some(self.compile_select(query, params));
        }
        if !shapes::shares_plan(&parsed.stmt, params) {
            return Some(Plan::Long(GeneralPath::Shape));
        }
        // Compiling locks the table; a text that is not run must not begin anything.
        let (compiled, keep) = self
            .compile_change(Purpose::Run, &parsed.stmt, params)
            .ok()?;
        let typed = compiled
            .targets()
            .iter()
            .all(|table| shapes::fits_columns(&parsed.stmt, table, params));
        let kept = keep == Keep::Lasting && typed && compiled.cost_rows() <= MAX_TEXT_ROWS;
        Some(if kept {
            Plan::Change(compiled, command_of(&parsed.stmt))
        } else {
            Plan::Long(GeneralPath::Shape)
        })
    }

    /// How the plans of texts have served so far.
    pub fn plan_statistics(&self) -> PlanStatistics {
        self.plans.statistics()
    }

    /// Runs the plan of a text; None: this time the text goes the way of any other text. `version` is the catalog's
    /// from when the plan was found: the statement may have waited since, for the very change that makes the plan
    /// stale.
    pub(super) fn run_text_plan(
        &mut self,
        key: PlanKey,
        plan: &Plan,
        version: u64,
        params: &[Value],
        mode: Mode,
    ) -> Result<Option<Done>, ExecError> {
        if let Plan::Parsed(statement) = plan {
            self.plans.count_hit();
            return self.run_statement(statement, &[], None, mode).map(Some);
        }
        let limit = self.vars.max_execution_time;
        let is_select = matches!(plan, Plan::Read(_) | Plan::Query(_));
        self.begin_statement(limit.filter(|_| is_select))?;
        self.diagnostics
            .begin(&self.vars, self.deprecations.as_deref());
        let done = match plan {
            Plan::Read(read) => self.run_read(read, version, params),
            Plan::Query(query) => self.run_keyed(query, version, params, mode),
            // Safe updates are about clauses that a plan does not show.
            Plan::Change(..) if self.vars.safe_updates => Ok(None),
            Plan::Change(change, _) => {
                self.check_writable_tables(change.targets())?;
                self.use_transaction();
                match self.run_compiled(change, version, params, mode) {
                    Ok(None) => {
                        self.plans.forget(key);
                        Ok(None)
                    }
                    Err(ExecError::Sql(e)) if e.code == OUT_OF_RANGE => Ok(None),
                    other => other,
                }
            }
            Plan::Parsed(_) | Plan::Long(_) => Ok(None),
        };
        if matches!(done, Ok(Some(_))) {
            self.plans.count_hit();
        }
        done
    }
}
