//! The diagnostics area (SQL standard): the conditions that statements have raised, and how many there were.
//!
//! Neighbours: whatever runs a statement adds to it; SHOW WARNINGS and GET DIAGNOSTICS read it; `program` looks for
//! handlers of what it got since a [`Mark`]; `firing` puts it aside while a trigger or a function runs.
//! **Invariants**
//! - It keeps at most `max_error_count` conditions of a statement, and counts all; notes only while `sql_notes` is on.
//! - A statement that shows it leaves it as it is; every other begins with an empty one.

use esker_sql_catalog::variables::SessionVars;
use esker_sql_syntax::Deprecation;
use esker_types::condition::Condition;
use esker_types::ctx::Raised;
use esker_types::{Level, SqlError, Warning};

/// The conditions of the last statement.
#[derive(Default)]
pub(crate) struct Diagnostics {
    conditions: Vec<Warning>,
    /// How many there were, kept or not.
    total: u64,
    /// The counts of the statement before, while one runs that asks for them.
    counts_before: Option<(u64, u64)>,
    /// How many there were before the last statement, if it shows the conditions of the one before.
    shown: Option<u64>,
    /// How often it was emptied.
    cleared: u64,
}

/// A place in the diagnostics area: what came before it, and what after.
#[derive(Debug, Clone, Copy)]
pub(super) struct Mark {
    cleared: u64,
    kept: usize,
    total: u64,
}

impl Mark {
    /// Before all that the area has.
    pub(super) const START: Self = Self {
        cleared: u64::MAX,
        kept: 0,
        total: 0,
    };
}

/// What the area had when it was put aside.
pub(super) struct Aside {
    conditions: Vec<Warning>,
    total: u64,
}

impl Diagnostics {
    /// Adds a condition.
    pub(super) fn warn(&mut self, vars: &SessionVars, level: Level, code: u16, message: String) {
        if level == Level::Note && !vars.notes {
            return;
        }
        self.total += 1;
        if self.conditions.len() < vars.max_error_count {
            self.conditions.push(Warning {
                level,
                code,
                message,
                condition: None,
            });
        }
        debug_assert!(
            self.conditions.len() as u64 <= self.total,
            "all are counted"
        );
    }

    /// Adds a condition with items of its own.
    pub(super) fn warn_with(
        &mut self,
        vars: &SessionVars,
        (level, code, message): (Level, u16, String),
        condition: Box<Condition>,
    ) {
        let before = self.conditions.len();
        self.warn(vars, level, code, message);
        if let Some(added) = self.conditions.get_mut(before) {
            added.condition = Some(condition);
        }
    }

    /// Adds the error that a statement ends with.
    pub(super) fn record(&mut self, vars: &SessionVars, e: &SqlError) {
        let entry = (Level::Error, e.code, e.message.clone());
        self.warn_with(vars, entry, condition_of(e));
    }

    /// Forgets the last condition that is this one.
    pub(super) fn forget_last(&mut self, condition: &Warning) {
        let is_it = |w: &Warning| w.code == condition.code && w.message == condition.message;
        if let Some(at) = self.conditions.iter().rposition(is_it) {
            self.conditions.remove(at);
            self.total -= 1;
        }
    }

    /// Adds what kernels have raised.
    pub(super) fn add(&mut self, vars: &SessionVars, raised: Raised) {
        let (mut conditions, mut total) = (raised.kept, raised.count);
        if !vars.notes {
            let before = conditions.len();
            conditions.retain(|w| w.level != Level::Note);
            total -= (before - conditions.len()) as u64;
        }
        let room = vars.max_error_count.saturating_sub(self.conditions.len());
        self.conditions.extend(conditions.into_iter().take(room));
        self.total += total;
    }

    /// Adds what a text has of deprecated syntax.
    pub(super) fn warn_of(&mut self, vars: &SessionVars, deprecations: &[Deprecation]) {
        for deprecation in deprecations {
            let (code, text) = deprecation.warning();
            self.warn(vars, Level::Warning, code, text);
        }
    }

    /// A statement begins: what was said of the one before is forgotten.
    pub(super) fn begin(&mut self, vars: &SessionVars, deprecations: Option<&[Deprecation]>) {
        self.clear();
        self.warn_of(vars, deprecations.unwrap_or_default());
    }

    /// A statement begins that shows what was said of the one before.
    pub(super) fn show(&mut self) {
        self.shown = Some(self.total);
    }

    /// What was shown belongs to the statement that runs: a CALL ends whose last statement has shown it.
    pub(super) fn end_show(&mut self) {
        self.shown = None;
    }

    /// Keeps the counts for a statement that asks for those of the one before.
    pub(super) fn keep_counts(&mut self, are_asked_for: bool) {
        self.counts_before = are_asked_for.then(|| self.counts_now());
    }

    /// Empties it.
    pub(super) fn clear(&mut self) {
        self.cleared += 1;
        self.conditions.clear();
        self.total = 0;
        self.shown = None;
    }

    /// What it keeps, oldest first.
    pub(crate) fn conditions(&self) -> &[Warning] {
        &self.conditions
    }

    /// The errors among what it keeps.
    pub(crate) fn errors(&self) -> impl Iterator<Item = &Warning> {
        self.conditions.iter().filter(|w| w.level == Level::Error)
    }

    /// All that were raised, kept or not.
    pub(crate) fn total(&self) -> u64 {
        self.total
    }

    /// Did the last statement show the conditions of the one before?
    pub(super) fn is_shown(&self) -> bool {
        self.shown.is_some()
    }

    /// All that the last statement raised itself, kept or not.
    pub(super) fn new_total(&self) -> u64 {
        self.total.saturating_sub(self.shown.unwrap_or(0))
    }

    /// What a handler handles is passed on: the conditions are those that it began with again.
    pub(super) fn pass_on(&mut self, conditions: &[Warning]) {
        self.clear();
        self.conditions.extend_from_slice(conditions);
        self.total = conditions.len() as u64;
    }

    /// The oldest conditions give way to one that comes.
    pub(super) fn make_room(&mut self, vars: &SessionVars) {
        let room = vars.max_error_count.saturating_sub(1);
        let too_many = self.conditions.len().saturating_sub(room);
        self.conditions.drain(..too_many);
    }

    /// What `@@warning_count` and `@@error_count` are.
    pub(super) fn counts(&self) -> (u64, u64) {
        self.counts_before.unwrap_or_else(|| self.counts_now())
    }

    fn counts_now(&self) -> (u64, u64) {
        (self.total, self.errors().count() as u64)
    }

    /// Where it stands.
    pub(super) fn mark(&self) -> Mark {
        Mark {
            cleared: self.cleared,
            kept: self.conditions.len(),
            total: self.total,
        }
    }

    /// What came since: numbers and conditions.
    pub(super) fn since(&self, mark: Mark) -> impl Iterator<Item = &Warning> {
        let from = match mark.cleared == self.cleared {
            true => mark.kept,
            false => 0,
        };
        self.conditions.iter().skip(from)
    }

    /// Forgets what came since.
    pub(super) fn forget_since(&mut self, mark: Mark) {
        self.conditions.truncate(mark.kept);
        self.total = mark.total;
    }

    /// Forgets what was there before, unless it was emptied meanwhile.
    pub(super) fn forget_before(&mut self, mark: Mark) {
        if mark.cleared == self.cleared {
            self.conditions
                .drain(..mark.kept.min(self.conditions.len()));
            self.total = self.conditions.len() as u64;
        }
    }

    /// Begins an empty one for what runs inside of a statement.
    pub(super) fn put_aside(&mut self) -> Aside {
        Aside {
            conditions: std::mem::take(&mut self.conditions),
            total: std::mem::take(&mut self.total),
        }
    }

    /// Puts back what was put aside, before what came since.
    pub(super) fn put_back(&mut self, aside: Aside) {
        let raised = std::mem::replace(&mut self.conditions, aside.conditions);
        self.conditions.extend(raised);
        self.total += aside.total;
    }
}

/// What SIGNAL has said of an error, or its SQLSTATE.
fn condition_of(e: &SqlError) -> Box<Condition> {
    let said = e.condition.clone();
    said.unwrap_or_else(|| Box::new(Condition::of(e.state)))
}

/// An error as an entry of the area.
pub(super) fn entry_of(e: &SqlError) -> Warning {
    Warning {
        level: Level::Error,
        code: e.code,
        message: e.message.clone(),
        condition: Some(condition_of(e)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use esker_sql_catalog::variables::{Globals, SessionValues};

    fn vars(max_error_count: usize, notes: bool) -> SessionVars {
        let values = SessionValues::new(&Globals::default());
        let mut vars = SessionVars::derive(&values).expect("defaults are valid");
        (vars.max_error_count, vars.notes) = (max_error_count, notes);
        vars
    }

    fn codes(area: &Diagnostics) -> Vec<u16> {
        area.conditions().iter().map(|w| w.code).collect()
    }

    fn warn(area: &mut Diagnostics, vars: &SessionVars, code: u16) {
        area.warn(vars, Level::Warning, code, String::new());
    }

    #[test]
    fn what_is_beyond_the_limit_is_counted_and_changes_nothing_kept() {
        let (mut area, vars) = (Diagnostics::default(), vars(1, false));
        warn(&mut area, &vars, 1);
        let condition = Box::new(Condition::of("45000"));
        area.warn_with(&vars, (Level::Warning, 2, String::new()), condition);
        area.warn(&vars, Level::Note, 3, String::new());
        assert_eq!((codes(&area), area.counts()), (vec![1], (2, 0)));
        assert_eq!(area.conditions()[0].condition, None);
    }

    #[test]
    fn a_mark_parts_what_came_before_from_what_came_after() {
        let (mut area, vars) = (Diagnostics::default(), vars(64, true));
        let since =
            |area: &Diagnostics, mark| -> Vec<u16> { area.since(mark).map(|w| w.code).collect() };
        warn(&mut area, &vars, 1);
        let mark = area.mark();
        warn(&mut area, &vars, 2);
        assert_eq!(since(&area, mark), [2]);
        assert_eq!(since(&area, Mark::START), [1, 2]);
        area.forget_since(mark);
        assert_eq!((codes(&area), area.total()), (vec![1], 1));
        warn(&mut area, &vars, 3);
        area.forget_before(mark);
        assert_eq!((codes(&area), area.total()), (vec![3], 1));
        // It is emptied: all that it has came since, and nothing of it was there before.
        let mark = area.mark();
        area.clear();
        warn(&mut area, &vars, 4);
        assert_eq!(since(&area, mark), [4]);
        area.forget_before(mark);
        assert_eq!(codes(&area), [4]);
    }

    #[test]
    fn what_is_passed_on_pushes_out_the_oldest() {
        let (mut area, vars) = (Diagnostics::default(), vars(3, true));
        (1..=3).for_each(|code| warn(&mut area, &vars, code));
        let handled = area.conditions().to_vec();
        area.clear();
        warn(&mut area, &vars, 9);
        area.pass_on(&handled);
        assert_eq!((codes(&area), area.total()), (vec![1, 2, 3], 3));
        area.make_room(&vars);
        warn(&mut area, &vars, 4);
        assert_eq!((codes(&area), area.total()), (vec![2, 3, 4], 4));
        // One that is replaced makes room itself.
        area.forget_last(&handled[2]);
        area.make_room(&vars);
        assert_eq!(codes(&area), [2, 4]);
    }

    #[test]
    fn a_statement_that_shows_the_area_counts_what_it_adds() {
        let (mut area, vars) = (Diagnostics::default(), vars(64, true));
        warn(&mut area, &vars, 1);
        area.show();
        assert_eq!((area.new_total(), area.total()), (0, 1));
        warn(&mut area, &vars, 2);
        assert_eq!((area.new_total(), area.total()), (1, 2));
        area.end_show();
        assert_eq!(area.new_total(), 2);
    }

    #[test]
    fn what_is_put_aside_comes_back_before_what_came_since() {
        let (mut area, vars) = (Diagnostics::default(), vars(64, true));
        warn(&mut area, &vars, 1);
        let aside = area.put_aside();
        assert_eq!(area.counts(), (0, 0));
        warn(&mut area, &vars, 2);
        area.put_back(aside);
        assert_eq!((codes(&area), area.total()), (vec![1, 2], 2));
    }
}
