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

/// Takes the table's exclusive lock, and follows the changes of its rows until nothing is left to follow.
pub(super) fn close(
    ctx: &mut DdlCtx<'_>,
    name: &TableName,
    mut catch_up: Option<&mut CatchUp<'_>>,
) -> SqlResult<()> {
    let object = ctx.catalog.locks().table(&name.schema, &name.name);
    let wait = ctx.publish_wait;
    let mut windows = Windows::new(wait.window);
    let begun = Instant::now();
    loop {
        if let Some(catch_up) = &mut catch_up {
            catch_up_quickly(catch_up)?;
        }
        (ctx.check_killed)()?;
        if lock_within(ctx, &object, windows.closed())? {
            return match catch_up {
                Some(catch_up) => catch_up.finish().map(drop),
                None => Ok(()),
            };
        }
        if begun.elapsed() >= wait.limit.max(wait.window) {
            return Err(engine_error(&EngineError::LockWaitTimeout));
        }
        rest(ctx, catch_up.as_deref_mut(), windows.open())?;
    }
}

fn lock_within(
    ctx: &mut DdlCtx<'_>,
    object: &Arc<MdlObject>,
    at_most: Duration,
) -> SqlResult<bool> {
    let (mode, duration) = (MdlMode::Exclusive, MdlDuration::Statement);
    ctx.locks.acquire_within(object, mode, duration, at_most)
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
