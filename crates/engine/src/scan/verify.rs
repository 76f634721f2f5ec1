//! Self-check of metadata answers against plain reading: a debug setting for tests.
//!
//! Neighbours: `Switches::verify_answers` turns it on; `view` carries it to the tasks; `txn` has the cursor that reads
//! plainly, over the same snapshot and the same tiers.
//!
//! A count is compared with the number of rows that a cursor finds. A task of a scan is followed row by row: what the
//! cursor finds and the task does not show must be ruled out by the conditions, for the fields of its value and for
//! whoever looks at the rows. A difference is fatal, with a line that says what differs.
//!
//! **Invariant**: nothing changes but the time it takes, unless there is a difference.

use super::view::PinnedView;
use super::view::cursor_over;
use crate::extent::Conditions;
use crate::span::KeySpan;
use crate::tree::{OnFatal, Tree};
use crate::txn::Cursor;
use crate::visit::{Piece, Visit};
use crate::{Result, TreeId};

/// Rows between two questions whether to go on.
const ROWS_PER_QUESTION: u64 = 256;

/// Says what differs.
pub(crate) struct Verifier {
    tree: Tree,
    on_fatal: OnFatal,
}

impl Verifier {
    pub(crate) fn new(tree: &Tree, on_fatal: &OnFatal) -> Verifier {
        Verifier {
            tree: tree.clone(),
            on_fatal: OnFatal::clone(on_fatal),
        }
    }

    fn differ(&self, what: &str) {
        let TreeId(tree) = self.tree.id();
        (self.on_fatal)(&format!(
            "metadata answer otherwise than reading, tree {tree}: {what}"
        ));
    }

    /// The tasks of a scan must be its spans, cut.
    pub(super) fn check_cut(&self, spans: &[KeySpan], tasks: &[KeySpan]) {
        let mut rest = tasks.iter();
        for span in spans {
            let mut lower = &span.lower;
            loop {
                let task = rest.next();
                let Some(task) = task.filter(|task| task.lower == *lower) else {
                    return self.differ(&format!("no task begins at {}", shown(lower)));
                };
                match &task.upper {
                    upper if *upper == span.upper => break,
                    Some(upper) if span.contains(upper) => lower = upper,
                    _ => return self.differ(&format!("a task goes beyond {span:?}")),
                }
            }
        }
        if let Some(task) = rest.next() {
            self.differ(&format!("a task behind the scan: {task:?}"));
        }
    }

    /// The rows of the spans must be so many; not looked at to the end if `go_on` says no.
    pub(super) fn check_count(
        &self,
        view: &PinnedView,
        spans: &[KeySpan],
        counted: u64,
        go_on: &mut dyn FnMut() -> bool,
    ) -> Result<()> {
        let mut rows = 0;
        for span in spans {
            let mut cursor = cursor_over(view, span)?;
            while cursor.next()?.is_some() {
                rows += 1;
                if rows % ROWS_PER_QUESTION == 0 && !go_on() {
                    return Ok(());
                }
            }
        }
        if rows != counted {
            self.differ(&format!(
                "{counted} rows counted, {rows} read, snapshot {}, {spans:?}",
                view.snapshot
            ));
        }
        Ok(())
    }
}

/// A row as a scan shows it.
#[derive(Clone, Copy)]
enum Shown<'r> {
    Row(&'r [u8], &'r [u8]),
    Value(&'r [u8]),
    Whole(&'r [u8]),
}

impl Shown<'_> {
    fn is(self, key: &[u8], value: &[u8]) -> bool {
        match self {
            Shown::Row(k, v) => k == key && v == value,
            Shown::Value(v) => v == value,
            Shown::Whole(both) => both.strip_prefix(key) == Some(value),
        }
    }

    fn text(self) -> String {
        match self {
            Shown::Row(key, value) => format!("{} with {}", shown(key), shown(value)),
            Shown::Value(bytes) | Shown::Whole(bytes) => shown(bytes),
        }
    }
}

fn shown(bytes: &[u8]) -> String {
    format!("'{}'", bytes.escape_ascii())
}

/// Goes along with a task and compares what it shows.
pub(super) struct Beside<'v> {
    verifier: &'v Verifier,
    conditions: Option<&'v Conditions>,
    plain: Cursor,
    visit: &'v mut dyn Visit,
    /// A difference is told once; an error of the plain reading ends the comparison, too.
    outcome: Result<bool>,
}

impl<'v> Beside<'v> {
    pub(super) fn new(
        verifier: &'v Verifier,
        conditions: Option<&'v Conditions>,
        plain: Cursor,
        visit: &'v mut dyn Visit,
    ) -> Self {
        Beside {
            verifier,
            conditions,
            plain,
            visit,
            outcome: Ok(true),
        }
    }

    /// Passes the rows that were left out in front of this one; all that are left, if there is none.
    fn pass_to(&mut self, row: Option<Shown<'_>>) {
        while matches!(self.outcome, Ok(true)) {
            match self.plain.next() {
                Err(e) => self.outcome = Err(e),
                Ok(None) => {
                    if let Some(row) = row {
                        self.outcome = Ok(false);
                        let text = row.text();
                        self.verifier
                            .differ(&format!("{text} is shown and not there"));
                    }
                    return;
                }
                Ok(Some((key, value))) => {
                    if row.is_some_and(|row| row.is(key, value)) {
                        return;
                    }
                    let fields = self.verifier.tree.fields();
                    let is_ruled_out = match (self.conditions, &fields) {
                        (Some(conditions), Some(fields)) => conditions.rule_out(&**fields, value),
                        _ => false,
                    };
                    if !is_ruled_out || !self.visit.may_leave_out(key, value) {
                        self.outcome = Ok(false);
                        let text = Shown::Row(key, value).text();
                        self.verifier.differ(&format!("{text} is left out"));
                    }
                }
            }
        }
    }

    /// Ends the comparison of a task that was done to its end.
    pub(super) fn finish(mut self) -> Result<()> {
        self.pass_to(None);
        self.outcome.map(|_| ())
    }
}

impl Visit for Beside<'_> {
    fn put(&mut self, key: &[u8], value: &[u8]) -> bool {
        self.pass_to(Some(Shown::Row(key, value)));
        self.visit.put(key, value)
    }

    fn delete(&mut self, key: &[u8]) -> bool {
        self.visit.delete(key)
    }

    fn piece(&self) -> Option<Piece> {
        self.visit.piece()
    }

    fn puts(&mut self, pieces: &[&[u8]]) -> bool {
        let piece = self.visit.piece();
        for bytes in pieces {
            let row = match piece {
                Some(Piece::Whole) => Shown::Whole(bytes),
                _ => Shown::Value(bytes),
            };
            self.pass_to(Some(row));
        }
        self.visit.puts(pieces)
    }
}
