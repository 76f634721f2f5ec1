//! A change of a table beside those that use it: the new trees are filled from a snapshot, follow the table in rounds,
//! and are published under an exclusive lock that is held for the last, short round.
//!
//! Neighbours: `alter` has drawn up the definition and publishes it; `fill` and `catch_up` do the work; `mdl` grants
//! the lock. Why so: `docs/decisions/online-ddl.md`.
//!
//! **Invariants**
//! - From beginning to end the statement holds the table `SharedUpgradable`: its definition does not change, its rows
//!   may, unless it holds `SharedReadOnly`, too. Only the lock for the end is waited for in place, so nothing that was
//!   made is made again.
//! - Nobody waits longer than the window for that lock. As long as it is not granted the trees go on following, so the
//!   round under it stays short.

use std::sync::Arc;
use std::time::{Duration, Instant};

use esker_engine::EngineError;
use esker_sql_catalog::exec_error::engine_error;
use esker_sql_catalog::mdl::{MdlDuration, MdlMode, MdlObject, Windows};
use esker_types::SqlResult;

use super::super::catch_up::CatchUp;
use super::super::progress::Stage;
use super::super::{DdlCtx, TableName};

/// A round that took no longer is short enough for one under the lock.
const SHORT_ROUND: Duration = Duration::from_millis(20);
/// Rounds after which the lock is tried even so: the writers are as fast as this thread.
const MAX_ROUNDS: u32 = 64;
/// Longest time between two rounds while the lock is waited for.
const BETWEEN_ROUNDS: Duration = Duration::from_millis(100);

/// How the exclusive lock for publishing is waited for.
#[derive(Debug, Clone, Copy)]
pub struct PublishWait {
    /// How long at a time others may have to wait for this.
    pub window: Duration,
    /// How long in all.
    pub limit: Duration,
}

impl PublishWait {
    /// How long others may pass after a try, if there is another one: the last try is at the end of the time.
    fn pause(self, waited: Duration, open: Duration) -> Option<Duration> {
        let left = self.limit.max(self.window).checked_sub(waited)?;
        (!left.is_zero()).then(|| open.min(left))
    }
}

/// Takes the exclusive locks of the tables whose definitions change, and follows the changes of rows until nothing is
/// left to follow.
pub(super) fn close(
    ctx: &mut DdlCtx<'_>,
    tables: &[TableName],
    mut catch_up: Option<&mut CatchUp<'_>>,
) -> SqlResult<()> {
    let object = |name: &TableName| ctx.catalog.locks().table(&name.schema, &name.name);
    let objects: Vec<Arc<MdlObject>> = tables.iter().map(object).collect();
    let wait = ctx.publish_wait;
    let mut windows = Windows::new(wait.window);
    let begun = Instant::now();
    let mode = (MdlMode::Exclusive, MdlDuration::Statement);
    let check_killed = ctx.check_killed;
    loop {
        if let Some(catch_up) = &mut catch_up {
            catch_up_quickly(catch_up)?;
        }
        check_killed()?;
        ctx.progress.begin(Stage::Wait, 0);
        let gives_up = || check_killed().is_err();
        let locks = &mut ctx.locks;
        if locks.acquire_within(&objects, mode, windows.closed(), &gives_up)? {
            return match catch_up {
                Some(catch_up) => catch_up.finish().map(drop),
                None => Ok(()),
            };
        }
        let Some(pause) = wait.pause(begun.elapsed(), windows.open()) else {
            return Err(engine_error(&EngineError::LockWaitTimeout));
        };
        rest(ctx, catch_up.as_deref_mut(), pause)?;
    }
}

/// Rounds until one is short.
fn catch_up_quickly(catch_up: &mut CatchUp<'_>) -> SqlResult<()> {
    for _ in 0..MAX_ROUNDS {
        let begun = Instant::now();
        let changed = catch_up.round()?;
        if changed == 0 || begun.elapsed() <= SHORT_ROUND {
            break;
        }
    }
    Ok(())
}

/// Lets others pass for a while.
fn rest(ctx: &DdlCtx<'_>, mut catch_up: Option<&mut CatchUp<'_>>, open: Duration) -> SqlResult<()> {
    let until = Instant::now() + open;
    loop {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(());
        }
        std::thread::sleep(left.min(BETWEEN_ROUNDS));
        (ctx.check_killed)()?;
        if let Some(catch_up) = &mut catch_up {
            catch_up.round()?;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_does_not_outlast_the_limit() {
        let seconds = Duration::from_secs;
        let wait = PublishWait {
            window: seconds(1),
            limit: seconds(3),
        };
        assert_eq!(wait.pause(seconds(0), seconds(2)), Some(seconds(2)));
        assert_eq!(wait.pause(seconds(2), seconds(9)), Some(seconds(1)));
        assert_eq!(wait.pause(seconds(3), seconds(9)), None);
        let at_once = PublishWait {
            limit: seconds(0),
            ..wait
        };
        assert_eq!(at_once.pause(seconds(0), seconds(9)), Some(seconds(1)));
    }
}
