//! How far a schema change is: a stage with a numerator and a denominator, for the process list and for
//! `events_stages_current`.
//!
//! Neighbours: `fill`, `catch_up` and `alter::online` work through a [`Watch`]; `session::registry` keeps the
//! [`Progress`] of every session, `infoschema` shows it.
//! **Invariants**: only the session's own thread begins and ends stages; a [`Watch`] looks for a KILL, and shows its
//! numbers, after a bounded number of rows and of bytes, whatever the rows are like.

use std::time::Instant;

use esker_types::SqlResult;
use parking_lot::Mutex;

/// Most rows, and bytes of them, between two looks.
const ROWS_PER_LOOK: u64 = 1024;
const BYTES_PER_LOOK: usize = 1 << 20;

/// What a schema change is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// Reads rows for new indexes.
    Read,
    /// Copies rows to a new clustered tree.
    Copy,
    /// Holds rows against new constraints.
    Check,
    /// Merges sorted runs into trees.
    Merge,
    /// Follows rows that have changed, for new indexes.
    FollowIndex,
    /// The same for a copy.
    FollowTable,
    /// Waits for the lock of its end.
    Wait,
}

impl Stage {
    /// Every stage.
    pub(crate) const ALL: [Stage; 7] = [
        Stage::Read,
        Stage::Copy,
        Stage::Check,
        Stage::Merge,
        Stage::FollowIndex,
        Stage::FollowTable,
        Stage::Wait,
    ];

    /// The name of its event, which MySQL has for the same work.
    pub(crate) fn event(self) -> &'static str {
        match self {
            Stage::Read => "stage/innodb/alter table (read PK and internal sort)",
            Stage::Copy => "stage/sql/copy to tmp table",
            Stage::Check => "stage/sql/altering table",
            Stage::Merge => "stage/innodb/alter table (merge sort)",
            Stage::FollowIndex => "stage/innodb/alter table (log apply index)",
            Stage::FollowTable => "stage/innodb/alter table (log apply table)",
            Stage::Wait => "stage/sql/Waiting for table metadata lock",
        }
    }

    fn verb(self) -> &'static str {
        match self {
            Stage::Read => "read",
            Stage::Copy => "copied",
            Stage::Check => "checked",
            Stage::Merge => "sorted",
            Stage::FollowIndex | Stage::FollowTable => "caught up",
            Stage::Wait => "waited",
        }
    }
}

/// A stage, and how far it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shown {
    /// What it is about.
    pub(crate) stage: Stage,
    /// The how manieth stage of the session.
    pub(crate) number: u64,
    /// When it began.
    pub(crate) began: Instant,
    /// What is done: rows, or trees of a merge.
    pub(crate) done: u64,
    /// What there will be to do, roughly; never less than what is done.
    pub(crate) estimated: u64,
}

impl Shown {
    /// The State of the process list.
    pub(crate) fn state(&self) -> String {
        let Self {
            stage,
            done,
            estimated,
            ..
        } = self;
        let percent = (done * 100).checked_div(*estimated).unwrap_or(100);
        let verb = stage.verb();
        match stage {
            Stage::Wait => "Waiting for table metadata lock".to_owned(),
            Stage::FollowIndex | Stage::FollowTable => {
                format!("altering table: {verb} {done} changed rows")
            }
            Stage::Merge => {
                format!("altering table: {verb} {done} of {estimated} trees ({percent} %)")
            }
            Stage::Read | Stage::Copy | Stage::Check => {
                format!("altering table: {verb} {done} of {estimated} rows ({percent} %)")
            }
        }
    }
}

/// The stage that a session is in.
#[derive(Debug, Default)]
pub struct Progress {
    shown: Mutex<(u64, Option<Shown>)>,
}

impl Progress {
    /// The current stage.
    pub(crate) fn shown(&self) -> Option<Shown> {
        self.shown.lock().1
    }

    /// A stage begins.
    pub(super) fn begin(&self, stage: Stage, estimated: u64) {
        let mut shown = self.shown.lock();
        shown.0 += 1;
        shown.1 = Some(Shown {
            stage,
            number: shown.0,
            began: Instant::now(),
            done: 0,
            estimated,
        });
    }

    fn advance(&self, more: u64) {
        if let Some(shown) = &mut self.shown.lock().1 {
            shown.done += more;
            shown.estimated = shown.estimated.max(shown.done);
        }
    }

    /// Ends the last stage with what is given, however the statement ends.
    pub(crate) fn until_end(&self) -> impl Drop {
        UntilEnd(self)
    }
}

struct UntilEnd<'a>(&'a Progress);

impl Drop for UntilEnd<'_> {
    fn drop(&mut self) {
        self.0.shown.lock().1 = None;
    }
}

/// Watches over a stage while it goes from row to row.
pub(super) struct Watch<'a> {
    progress: &'a Progress,
    check_killed: &'a dyn Fn() -> SqlResult<()>,
    rows: u64,
    bytes: usize,
}

impl<'a> Watch<'a> {
    pub(super) fn new(progress: &'a Progress, check_killed: &'a dyn Fn() -> SqlResult<()>) -> Self {
        Self {
            progress,
            check_killed,
            rows: 0,
            bytes: 0,
        }
    }

    /// A row of so many bytes is done; fails if the statement was killed.
    pub(super) fn row(&mut self, bytes: usize) -> SqlResult<()> {
        self.rows += 1;
        self.bytes += bytes;
        if self.rows >= ROWS_PER_LOOK || self.bytes >= BYTES_PER_LOOK {
            self.show();
            return (self.check_killed)();
        }
        Ok(())
    }

    /// Something that is long in itself is done, such as a tree.
    pub(super) fn step(&mut self) -> SqlResult<()> {
        self.rows += 1;
        self.show();
        (self.check_killed)()
    }

    /// The stage ends: what comes is no part of it.
    pub(super) fn end(&mut self) {
        self.show();
    }

    /// Shows the rows since the last look.
    fn show(&mut self) {
        self.progress.advance(self.rows);
        (self.rows, self.bytes) = (0, 0);
    }
}

impl Drop for Watch<'_> {
    fn drop(&mut self) {
        self.show();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use esker_sql_catalog::exec_error::interrupted;

    fn killed() -> SqlResult<()> {
        Err(interrupted())
    }

    #[test]
    fn a_stage_shows_rows_and_percent_and_never_more_than_all() {
        let progress = Progress::default();
        let end = progress.until_end();
        assert_eq!(progress.shown(), None);
        progress.begin(Stage::Copy, 4096);
        let mut watch = Watch::new(&progress, &|| Ok(()));
        for _ in 0..ROWS_PER_LOOK {
            watch.row(10).expect("nobody kills");
        }
        let state = |progress: &Progress| progress.shown().map(|s| s.state());
        let shown = |text: &str| Some(format!("altering table: {text}"));
        assert_eq!(state(&progress), shown("copied 1024 of 4096 rows (25 %)"));
        for _ in 0..4 * ROWS_PER_LOOK {
            watch.row(10).expect("nobody kills");
        }
        watch.row(10).expect("nobody kills");
        drop(watch);
        assert_eq!(state(&progress), shown("copied 5121 of 5121 rows (100 %)"));
        progress.begin(Stage::Merge, 0);
        assert_eq!(state(&progress), shown("sorted 0 of 0 trees (100 %)"));
        assert_eq!(progress.shown().map(|s| s.number), Some(2));
        drop(end);
        assert_eq!(progress.shown(), None);
    }

    /// Wide rows are no reason to look for a KILL less often.
    #[test]
    fn a_kill_is_noticed_within_a_number_of_rows_and_of_bytes() {
        let progress = Progress::default();
        for (bytes, rows) in [
            (1, ROWS_PER_LOOK),
            (BYTES_PER_LOOK / 2, 2),
            (BYTES_PER_LOOK, 1),
        ] {
            let mut watch = Watch::new(&progress, &killed);
            let noticed = (1..).find(|_| watch.row(bytes).is_err());
            assert_eq!(noticed, Some(rows), "{bytes}");
        }
    }

    /// STATE of the process list has 64 characters.
    #[test]
    fn the_longest_state_fits() {
        for stage in Stage::ALL {
            let shown = Shown {
                stage,
                number: 1,
                began: Instant::now(),
                done: 9_999_999_999,
                estimated: 9_999_999_999,
            };
            assert!(shown.state().len() <= 64, "{}", shown.state());
        }
    }
}
