//! OPTIMIZER_TRACE: which statements of a session are traced, and which traces it keeps.
//!
//! Neighbours: `run` begins a trace, `scope` gives it to the planner, `step` ends it with the statement;
//! `infoschema::traces` shows what is kept.
//! **Invariants**
//! - A statement of a session that does not trace pays one look.
//! - Texts and traces that are kept have `optimizer_trace_max_mem_size` bytes at most, and 1 KiB of each text; what is
//!   cut off is counted.
//! - Whoever may not look into a view gets no trace of a statement that reads it.

use std::collections::VecDeque;

use esker_sql_catalog::result::{Outcome, OutcomeKind};
use esker_sql_catalog::variables::TraceVars;
use esker_sql_plan::plan::{PlanTrace, TraceFeatures};
use esker_sql_syntax::ast::Statement;

use super::Session;
use super::request::Running;

/// The table that shows traces; statements that read it are not traced.
const TABLE: &str = "optimizer_trace";
/// Traces that a session keeps at most, whatever the offset says.
const MAX_KEPT: usize = 1000;
/// Bytes of texts and traces that it keeps at most, whatever `optimizer_trace_max_mem_size` says.
const MAX_BYTES: usize = 64 << 20;
/// Of a statement's text this much is kept where there is no room.
const TEXT_BYTES: usize = 1024;

/// A trace that is kept.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Trace {
    pub(crate) query: String,
    pub(crate) trace: String,
    /// Bytes of the trace that had no room.
    pub(crate) missing: u64,
    /// It is empty, for the account may not look into a view.
    pub(crate) is_hidden: bool,
}

impl Trace {
    fn bytes(&self) -> usize {
        self.query.len() + self.trace.len()
    }
}

/// Cuts a text off, and says how many bytes are lost.
fn cut(text: &mut String, room: usize) -> u64 {
    let mut end = text.len().min(room);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    let lost = text.len() - end;
    text.truncate(end);
    text.shrink_to_fit();
    lost as u64
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

    fn keep(&mut self, mut new: Trace, vars: &TraceVars) {
        self.renew(vars);
        let nth = self.made;
        self.made += 1;
        let last = match u64::try_from(vars.offset) {
            Ok(offset) => {
                if nth < offset || nth - offset >= vars.limit || self.kept.len() >= MAX_KEPT {
                    return;
                }
                MAX_KEPT
            }
            Err(_) => usize::try_from(vars.offset.unsigned_abs()).unwrap_or(usize::MAX),
        };
        while self.kept.len() >= last.min(MAX_KEPT) {
            self.kept.pop_front();
        }
        let used: usize = self.kept.iter().map(Trace::bytes).sum();
        let most = usize::try_from(vars.max_bytes).unwrap_or(usize::MAX);
        let room = most.min(MAX_BYTES).saturating_sub(used);
        let lost = cut(&mut new.query, room.max(TEXT_BYTES));
        let room = room.saturating_sub(new.query.len());
        new.missing = lost + cut(&mut new.trace, room);
        self.kept.push_back(new);
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
            self.context.hides_plan.set(false);
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
        let query = self.context.statement_said(running);
        if query.to_ascii_lowercase().contains(TABLE) {
            return;
        }
        let understood = match outcome.result {
            OutcomeKind::Err(_) => None,
            _ => Some(format!("/* select#1 */ {query}")),
        };
        let vars = self.vars.trace;
        let is_hidden = self.context.hides_plan.get();
        let new = match is_hidden {
            true => Trace {
                is_hidden,
                ..Trace::default()
            },
            false => Trace {
                trace: trace.document(understood, vars.one_line),
                query,
                ..Trace::default()
            },
        };
        self.traces.keep(new, &vars);
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
            let new = Trace {
                query: format!("q{n}"),
                trace: "0123456789".into(),
                ..Trace::default()
            };
            traces.keep(new, &vars);
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
    fn however_many_are_asked_for_memory_is_bounded() {
        assert_eq!(kept(i64::MIN, u64::MAX, 0, MAX_KEPT + 5).len(), MAX_KEPT);
        assert_eq!(kept(0, u64::MAX, 0, MAX_KEPT + 5).len(), MAX_KEPT);
        let vars = TraceVars {
            offset: -1,
            limit: 1,
            ..TraceVars::default()
        };
        let mut traces = Traces::default();
        let query = "x".repeat(5 * TEXT_BYTES);
        let new = Trace {
            query,
            ..Trace::default()
        };
        traces.keep(new, &vars);
        assert_eq!(traces.shown()[0].query.len(), TEXT_BYTES);
        assert_eq!(traces.shown()[0].missing, 4 * TEXT_BYTES as u64);
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
