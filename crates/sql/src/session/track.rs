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
use esker_sql_catalog::variables::{GtidsTold, SessionValues, SessionVars, VarId};

use super::Session;
use crate::instance::Instance;

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
struct Marks {
    variables: Vec<&'static str>,
    schema: bool,
    any: bool,
    /// Transactions that were logged: ends of their records, and which GTIDs they were to get.
    logged: Vec<(Seq, Numbering)>,
    /// A transaction has ended that need not have been logged.
    ended: bool,
}

impl Marks {
    fn has_gtids(&self) -> bool {
        self.ended || !self.logged.is_empty()
    }

    fn is_empty(&self) -> bool {
        self.variables.is_empty() && !self.schema && !self.any && !self.has_gtids()
    }
}

/// The session tracker: what the client hears with the next OK; `None`: it did not ask.
#[derive(Default)]
pub(super) struct StateTracker(Option<Box<Marks>>);

impl StateTracker {
    /// Which GTIDs the client hears of.
    fn gtids_told(&self, vars: &SessionVars) -> GtidsTold {
        match self.0 {
            None => GtidsTold::None,
            Some(_) => vars.log.gtids_told,
        }
    }

    /// Is it to be remembered what is logged?
    pub(super) fn tracks_logged(&self, vars: &SessionVars) -> bool {
        self.gtids_told(vars) != GtidsTold::None
    }

    /// What was `numbered` last has become the record that ends at `seq`; 0: it has not.
    pub(super) fn mark_logged(&mut self, numbered: Option<Numbering>, seq: Seq) {
        if let (Some(marks), Some(numbering)) = (&mut self.0, numbered)
            && seq > 0
        {
            marks.logged.push((seq, numbering));
        }
    }

    /// COMMIT ends a transaction, which may have changed nothing.
    pub(super) fn mark_end(&mut self, vars: &SessionVars) {
        let tracked = self.gtids_told(vars) == GtidsTold::All;
        if let Some(marks) = self.0.as_mut().filter(|_| tracked) {
            marks.ended = true;
        }
    }

    /// A system variable was set.
    pub(super) fn mark_variable(&mut self, name: &'static str) {
        if let Some(marks) = &mut self.0 {
            marks.variables.push(name);
        }
    }

    /// The current schema was chosen, or is gone.
    pub(super) fn mark_schema(&mut self) {
        if let Some(marks) = &mut self.0 {
            marks.schema = true;
        }
    }

    /// Some state is about to change.
    pub(super) fn mark_any(&mut self, values: &SessionValues) {
        if let Some(marks) = &mut self.0
            && tracks_any_change(values)
        {
            marks.any = true;
        }
    }

    /// The session begins anew: the client knows.
    pub(super) fn forget(&mut self) {
        if let Some(marks) = &mut self.0 {
            **marks = Marks::default();
        }
    }

    /// What the next OK tells, if there is anything.
    fn take(&mut self) -> Option<Marks> {
        let marks = self.0.as_mut().filter(|marks| !marks.is_empty())?;
        Some(std::mem::take(&mut **marks))
    }

    /// End of the newest transaction that the next OK tells of.
    fn newest(&self) -> Option<Seq> {
        let logged = &self.0.as_ref()?.logged;
        logged.iter().map(|(seq, _)| *seq).max()
    }
}

fn tracks_any_change(values: &SessionValues) -> bool {
    values.named("session_track_state_change").is_on()
}

/// The GTIDs that are told of these transactions.
fn gtids_of(instance: &Instance, told: GtidsTold, logged: &[(Seq, Numbering)]) -> Option<GtidSet> {
    let set = match told {
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

impl Session {
    /// From now on, changes are kept for [`Session::take_changes`].
    pub fn report_changes(&mut self) {
        self.tracker = StateTracker(Some(Box::default()));
    }

    /// What the next OK tells, in MySQL's order.
    pub fn take_changes(&mut self) -> Vec<StateChange> {
        let Some(mut marks) = self.tracker.take() else {
            return Vec::new();
        };
        let mut changes = Vec::new();
        marks.variables.sort_unstable();
        marks.variables.dedup();
        let tracked = self.values.named("session_track_system_variables");
        let tracked = tracked.as_text().to_owned();
        let wanted = |name: &str| {
            let named = |entry: &str| entry.trim().eq_ignore_ascii_case(name);
            tracked.trim() == "*" || tracked.split(',').any(named)
        };
        for name in marks.variables.iter().filter(|name| wanted(name)) {
            if let Ok(id) = VarId::find(name) {
                let shown = self.session_variable(id).print();
                changes.push(StateChange::Variable(name, shown));
            }
        }
        if marks.schema && self.values.named("session_track_schema").is_on() {
            let schema = self.context.database.as_deref().unwrap_or_default();
            changes.push(StateChange::Schema(schema.to_owned()));
        }
        if marks.any && tracks_any_change(&self.values) {
            changes.push(StateChange::Any);
        }
        if marks.has_gtids() {
            let told = self.tracker.gtids_told(&self.vars);
            let told = gtids_of(&self.context.instance, told, &marks.logged);
            changes.extend(told.map(|set| StateChange::Gtids(set.to_string())));
        }
        changes
    }

    /// Resolves when the binary log has what the next OK is to tell of it. `None`: at once.
    pub fn wait_logged(&self) -> Option<Reached> {
        let newest = self.tracker.newest()?;
        let published = self.context.instance.binlog.published()?;
        Some(published.reached(newest))
    }
}
