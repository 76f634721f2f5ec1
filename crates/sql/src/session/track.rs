//! What a client hears of its session's state besides answers (CLIENT_SESSION_TRACK): variables, the schema, that
//! something changed, which GTIDs its transactions got.
//!
//! Neighbours: SET, USE and PREPARE mark what they change; the server takes the marks for its next OK.
//! **Invariants**
//! - Nothing is marked for clients that did not ask.
//! - A mark stays until an OK takes it, also over a statement that failed, as in MySQL.
//! - Which marks are told is decided when they are taken, by the `session_track_...` variables.

use esker_binlog::attachment::Numbering;
use esker_binlog::files::Reached;
use esker_binlog::gtid::GtidSet;
use esker_engine::Seq;
use esker_sql_catalog::variables::{GtidsTold, VarId};

use super::Session;

/// Something that changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StateChange {
    /// A system variable and its value now.
    Variable(&'static str, String),
    /// The current schema; empty if there is none.
    Schema(String),
    /// Something, be it named by another entry or not.
    Any,
    /// GTIDs: those of its own transactions, or all that are executed.
    Gtids(String),
}

/// What changed since the last OK.
#[derive(Default)]
pub(crate) struct Marks {
    variables: Vec<&'static str>,
    schema: bool,
    any: bool,
    /// Transactions that were logged: ends of their records, and which GTIDs they were to get.
    logged: Vec<(Seq, Numbering)>,
    /// A transaction has ended that need not have been logged.
    ended: bool,
}

impl Session {
    /// From now on, changes are kept for [`Session::take_changes`].
    pub fn report_changes(&mut self) {
        self.marks = Some(Box::default());
    }

    /// What the next OK tells, in MySQL's order.
    pub fn take_changes(&mut self) -> Vec<StateChange> {
        let Some(marks) = &mut self.marks else {
            return Vec::new();
        };
        let has_gtids = marks.ended || !marks.logged.is_empty();
        if marks.variables.is_empty() && !marks.schema && !marks.any && !has_gtids {
            return Vec::new();
        }
        let mut marks = std::mem::take(&mut **marks);
        let mut changes = Vec::new();
        marks.variables.sort_unstable();
        marks.variables.dedup();
        let tracked = self.values.named("session_track_system_variables");
        let tracked = tracked.as_text().to_owned();
        let wanted = |name: &str| {
            let named = |entry: &str| entry.trim().eq_ignore_ascii_case(name);
            tracked.trim() == "*" || tracked.split(',').any(named)
        };
        for name in marks.variables.into_iter().filter(|name| wanted(name)) {
            if let Ok(id) = VarId::find(name) {
                changes.push(StateChange::Variable(
                    name,
                    self.session_variable(id).print(),
                ));
            }
        }
        if marks.schema && self.values.named("session_track_schema").is_on() {
            let schema = self.context.database.as_deref().unwrap_or_default();
            changes.push(StateChange::Schema(schema.to_owned()));
        }
        if marks.any && self.tracks_any_change() {
            changes.push(StateChange::Any);
        }
        if has_gtids {
            let told = self.tracked_gtids(&marks.logged);
            changes.extend(told.map(|set| StateChange::Gtids(set.to_string())));
        }
        changes
    }

    fn tracked_gtids(&self, logged: &[(Seq, Numbering)]) -> Option<GtidSet> {
        let instance = &self.context.instance;
        let set = match self.tracks_gtids() {
            GtidsTold::None => return None,
            GtidsTold::All => (*instance.binlog.view()?.executed).clone(),
            GtidsTold::Own => {
                let mut own = GtidSet::default();
                for (seq, numbering) in logged {
                    if let Some(gtid) = instance.gtid_of(*seq, numbering) {
                        own.add(&gtid);
                    }
                }
                own
            }
        };
        Some(set).filter(|set| !set.is_empty())
    }

    fn tracks_gtids(&self) -> GtidsTold {
        match self.marks {
            None => GtidsTold::None,
            Some(_) => self.vars.log.gtids_told,
        }
    }

    /// Is it to be remembered what is logged?
    pub(super) fn tracks_logged(&self) -> bool {
        self.tracks_gtids() != GtidsTold::None
    }

    /// What was numbered last has become the record that ends here.
    pub(super) fn mark_logged(&mut self, seq: Seq) {
        let numbered = self.context.gtid_next.take_numbered();
        if let (Some(marks), Some(numbering)) = (&mut self.marks, numbered)
            && seq > 0
        {
            marks.logged.push((seq, numbering));
        }
    }

    /// COMMIT ends a transaction, which may have changed nothing.
    pub(super) fn mark_end(&mut self) {
        let tracked = self.tracks_gtids() == GtidsTold::All;
        if let Some(marks) = self.marks.as_mut().filter(|_| tracked) {
            marks.ended = true;
        }
    }

    /// Resolves when the binary log has what the next OK is to tell of it. `None`: at once.
    pub fn wait_logged(&self) -> Option<Reached> {
        let (seq, _) = self
            .marks
            .as_ref()?
            .logged
            .iter()
            .max_by_key(|(seq, _)| seq)?;
        let published = self.context.instance.binlog.published()?;
        Some(published.reached(*seq))
    }

    fn tracks_any_change(&self) -> bool {
        self.values.named("session_track_state_change").is_on()
    }

    /// A system variable was set.
    pub(super) fn mark_variable(&mut self, name: &'static str) {
        if let Some(marks) = &mut self.marks {
            marks.variables.push(name);
        }
    }

    /// The current schema was chosen, or is gone.
    pub(super) fn mark_schema(&mut self) {
        if let Some(marks) = &mut self.marks {
            marks.schema = true;
        }
    }

    /// Some state is about to change.
    pub(super) fn mark_any(&mut self) {
        let tracked = self.marks.is_some() && self.tracks_any_change();
        if let Some(marks) = self.marks.as_mut().filter(|_| tracked) {
            marks.any = true;
        }
    }

    /// The session begins anew: the client knows.
    pub(super) fn forget_marks(&mut self) {
        if let Some(marks) = &mut self.marks {
            **marks = Marks::default();
        }
    }
}
