//! OPTIMIZER_TRACE: which statements of a session are traced, and which traces it keeps.
//!
//! Neighbours: `run` begins a trace, `scope` gives it to the planner, `step` ends it with the statement;
//! `infoschema::traces` shows what is kept.
//! **Invariants**: of a session that does not trace a statement pays one look; texts and traces that are kept have
//! `optimizer_trace_max_mem_size` bytes at most, what is cut off is counted.

use std::collections::VecDeque;

use esker_sql_catalog::result::{Outcome, OutcomeKind};
use esker_sql_catalog::variables::TraceVars;
use esker_sql_plan::plan::{PlanTrace, TraceFeatures};
use esker_sql_syntax::ast::Statement;

use super::Session;
use super::step::Running;

/// The table that shows traces; statements that read it are not traced.
const TABLE: &str = "optimizer_trace";

/// A trace that is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Trace {
    pub(crate) query: String,
    pub(crate) trace: String,
    /// Bytes of the trace that had no room.
    pub(crate) missing: u64,
}

/// The traces of a session.
#[derive(Default)]
pub(crate) struct Traces {
    /// Of the statement that runs.
    current: Option<PlanTrace>,
    kept: VecDeque<Trace>,
    /// Traces made since the offset or the limit was set.
    made: u64,
    /// The offset and the limit they were kept for.
    range: (i64, u64),
}

impl Traces {
    /// The trace of the statement that runs.
    pub(super) fn current(&self) -> Option<&PlanTrace> {
        self.current.as_ref()
    }

    /// What OPTIMIZER_TRACE shows.
    pub(crate) fn shown(&self) -> Vec<Trace> {
        let limit = usize::try_from(self.range.1).unwrap_or(usize::MAX);
        self.kept.iter().take(limit).cloned().collect()
    }

    /// With another offset or limit the traces of before are forgotten.
    pub(super) fn renew(&mut self, vars: &TraceVars) {
        let range = (vars.offset, vars.limit);
        if self.range != range {
            *self = Self {
                range,
                ..Self::default()
            };
        }
    }

    fn keep(&mut self, query: String, trace: String, vars: &TraceVars) {
        self.renew(vars);
        let nth = self.made;
        self.made += 1;
        let last = match u64::try_from(vars.offset) {
            Ok(offset) => {
                if nth < offset || nth - offset >= vars.limit {
                    return;
                }
                usize::MAX
            }
            Err(_) => usize::try_from(vars.offset.unsigned_abs()).unwrap_or(usize::MAX),
        };
        while self.kept.len() >= last {
            self.kept.pop_front();
        }
        let used = |t: &Trace| t.query.len() + t.trace.len();
        let used: usize = self.kept.iter().map(used).sum();
        let most = usize::try_from(vars.max_bytes).unwrap_or(usize::MAX);
        let room = most.saturating_sub(used + query.len());
        let mut trace = trace;
        let mut end = trace.len().min(room);
        while !trace.is_char_boundary(end) {
            end -= 1;
        }
        let missing = (trace.len() - end) as u64;
        trace.truncate(end);
        self.kept.push_back(Trace {
            query,
            trace,
            missing,
        });
    }
}

fn is_traced(statement: &Statement) -> bool {
    matches!(
        statement,
        Statement::Query(_)
            | Statement::Explain(_)
            | Statement::Insert(_)
            | Statement::Update(_)
            | Statement::Delete(_)
            | Statement::Do(_)
    )
}

impl Session {
    /// Is the statement that runs traced?
    pub(super) fn is_tracing(&self) -> bool {
        self.traces.current.is_some()
    }

    /// A statement begins, perhaps once more.
    pub(super) fn begin_trace(&mut self, statement: &Statement) {
        self.traces.current = None;
        if self.vars.trace.enabled && is_traced(statement) {
            self.traces.current = Some(PlanTrace::new(TraceFeatures {
                greedy_search: self.vars.trace.greedy_search,
                range_optimizer: self.vars.trace.range_optimizer,
            }));
        }
    }

    /// The statement has its outcome.
    pub(super) fn end_trace(&mut self, running: &Running, outcome: &Outcome) {
        let Some(trace) = self.traces.current.take() else {
            return;
        };
        let query = self.statement_said(running);
        if query.to_ascii_lowercase().contains(TABLE) {
            return;
        }
        let understood = match outcome.result {
            OutcomeKind::Err(_) => None,
            _ => Some(format!("/* select#1 */ {query}")),
        };
        let vars = self.vars.trace;
        let document = trace.document(understood, vars.one_line);
        self.traces.keep(query, document, &vars);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(offset: i64, limit: u64, max_bytes: u64, made: usize) -> Vec<(String, String, u64)> {
        let vars = TraceVars {
            offset,
            limit,
            max_bytes,
            ..TraceVars::default()
        };
        let mut traces = Traces::default();
        for n in 0..made {
            traces.keep(format!("q{n}"), "0123456789".into(), &vars);
        }
        let shown = traces.shown().into_iter();
        shown.map(|t| (t.query, t.trace, t.missing)).collect()
    }

    fn names(offset: i64, limit: u64, made: usize) -> Vec<String> {
        let kept = kept(offset, limit, 1 << 20, made).into_iter();
        kept.map(|t| t.0).collect()
    }

    #[test]
    fn offset_and_limit_are_mysqls() {
        assert_eq!(names(-1, 1, 5), ["q4"]);
        assert_eq!(names(-3, 2, 5), ["q2", "q3"]);
        assert_eq!(names(0, 2, 5), ["q0", "q1"]);
        assert_eq!(names(3, 9, 5), ["q3", "q4"]);
        assert!(names(0, 0, 5).is_empty());
    }

    #[test]
    fn what_has_no_room_is_counted() {
        assert_eq!(
            kept(0, 3, 20, 3),
            [
                ("q0".into(), "0123456789".into(), 0),
                ("q1".into(), "012345".into(), 4),
                ("q2".into(), String::new(), 10)
            ]
        );
    }
}
