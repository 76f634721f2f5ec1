//! Waits for locks, from one look to the next: whose turn it is to let others pass, who blocks whom, and cycles that
//! lead through metadata locks and row locks.
//!
//! Neighbours: `step` begins and ends waits; `mdl` knows who holds metadata locks, the engine who holds rows; the
//! server sleeps between two looks.
//! **Invariants**
//! - A wait for a metadata lock is looked at again at least every [`LOOK`]. So a cycle of waits that involves one is
//!   found, whichever wait closes it; the one that looks is its victim (1213).
//! - Other accounts are named only to those that have the PROCESS privilege.

use std::collections::HashSet;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::{Duration, Instant};

use esker_types::{Level, SqlError, SqlResult, errors};
use jiff::Timestamp;

use super::registry::{Process, Registry};
use super::{Session, SessionContext};
use crate::instance::Instance;
use esker_sql_catalog::accounts::Privileges;
use esker_sql_catalog::exec_error::ExecError;
use esker_sql_catalog::mdl::MetadataLocks;
use esker_sql_catalog::result::WaitFor;
use esker_sql_syntax::ast::{LockWait, Statement};

/// Longest time between two looks at a wait for a metadata lock.
const LOOK: Duration = Duration::from_millis(250);
/// Blockers that an error names.
const NAMED: usize = 3;

impl Session {
    /// What NOWAIT, WAIT n and `esker_ddl_lock_timeout` say about the statement's metadata locks, and for how long at a
    /// time its requests may stop others.
    pub(super) fn begin_lock_waits(&mut self, statement: &Statement) {
        let Some(clause) = statement.lock_wait() else {
            return;
        };
        self.statement_lock_wait = match clause {
            LockWait::NoWait => Some(Duration::ZERO),
            LockWait::Seconds(n) => Some(Duration::from_secs(n)),
            LockWait::Default | LockWait::SkipLocked => {
                let seconds = self.values.named("esker_ddl_lock_timeout").as_i64();
                u64::try_from(seconds).ok().map(Duration::from_secs)
            }
        };
        // Who does not wait stops nobody.
        let waits = self.statement_lock_wait != Some(Duration::ZERO);
        self.locks.set_window(match waits {
            true => self.context.ddl_window(),
            false => Duration::ZERO,
        });
    }

    /// The error of a statement that has waited in place for a metadata lock says who was in the way.
    pub(super) fn explained(&mut self, e: ExecError) -> ExecError {
        const TIMEOUT: u16 = 1205;
        match e {
            ExecError::Sql(e) if e.code == TIMEOUT => self.name_blockers(e).into(),
            e => e,
        }
    }

    /// A wait's [`WaitFor::timeout`] has passed. Says how the wait has ended ([`Self::waited`] takes it), or to go on.
    pub fn look(&mut self, wait: &mut WaitFor) -> ControlFlow<Option<SqlResult<()>>> {
        let left = self.time_left();
        if left.is_zero() {
            return ControlFlow::Break(None);
        }
        if self.is_deadlocked() {
            return ControlFlow::Break(Some(Err(errors::deadlock())));
        }
        wait.timeout = self.until_look(left);
        ControlFlow::Continue(())
    }

    /// How long the current wait may still take.
    pub(super) fn time_left(&self) -> Duration {
        let since = self.running.as_ref().and_then(|r| r.waiting_since);
        self.time_left_since(since.unwrap_or_else(Instant::now))
    }

    pub(super) fn time_left_since(&self, since: Instant) -> Duration {
        let left = self.lock_timeout().saturating_sub(since.elapsed());
        match self.context.pace.deadline() {
            Some(deadline) => left.min(deadline.saturating_duration_since(Instant::now())),
            None => left,
        }
    }

    /// Turns the door of a request that waits. How long to wait for the next look.
    pub(super) fn until_look(&mut self, left: Duration) -> Duration {
        if !self.locks.is_waiting() {
            return left;
        }
        let now = Instant::now();
        let turn = self.locks.turn(now);
        let turn = turn.map_or(LOOK, |at| at.saturating_duration_since(now));
        left.min(LOOK).min(turn)
    }

    /// Does the wait for a metadata lock lead back to this session, through metadata locks and rows?
    pub(super) fn is_deadlocked(&self) -> bool {
        if !self.locks.is_waiting() {
            return false;
        }
        let instance = &self.context.instance;
        let own = self.context.process.id;
        // A grant that came meanwhile has changed the picture.
        closes_cycle(own, &instance.registry, instance.catalog.locks()) && self.locks.is_waiting()
    }

    /// Adds to error 1205 who was in the way, and to the diagnostics area how to be rid of them.
    pub(super) fn name_blockers(&mut self, mut e: SqlError) -> SqlError {
        let (ids, prepared) = self.locks.blockers();
        let registry = &self.context.instance.registry;
        let known = ids.iter().filter_map(|id| registry.find(*id).ok());
        let blockers: Vec<Arc<Process>> = known.collect();
        let mut named: Vec<String> = blockers
            .iter()
            .take(NAMED)
            .map(|process| self.described(process))
            .collect();
        if prepared > 0 {
            named.push(format!("{prepared} prepared XA transaction(s)"));
        }
        let more = blockers.len().saturating_sub(NAMED);
        if more > 0 {
            named.push(format!("{more} more"));
        }
        if named.is_empty() {
            return e;
        }
        e.message = format!("{}; blocked by {}", e.message, named.join(", "));
        for process in blockers.iter().take(NAMED) {
            let text = format!(
                "KILL {} ends the session that blocks this statement",
                process.id
            );
            self.blocker_advice.push(text);
        }
        e
    }

    /// The advice follows the error that it belongs to.
    pub(super) fn advise(&mut self) {
        for text in std::mem::take(&mut self.blocker_advice) {
            self.warn(Level::Note, 1205, text);
        }
    }

    /// `connection 2 (root@127.0.0.1, idle 20 s in a transaction since 16:28:04)`.
    fn described(&self, process: &Process) -> String {
        let detail = process.detail();
        let sees_all = self.context.access.global();
        let may_see =
            process.is_of(&self.context.user) || sees_all.contains(Privileges::of(&["PROCESS"]));
        if !may_see {
            return format!("connection {}", process.id);
        }
        let now = self.context.instance.now_micros();
        let seconds = (now - process.since_micros()).max(0) / 1_000_000;
        let doing = match detail.command {
            "Sleep" => "idle",
            _ => "running",
        };
        let host = process
            .peer
            .rsplit_once(':')
            .map_or(&*process.peer, |(host, _)| host);
        let since = detail.transaction.and_then(|micros| {
            let zoned = Timestamp::from_microsecond(micros).ok()?;
            let zoned = zoned.to_zoned(self.vars.time_zone.clone());
            Some(format!(
                " in a transaction since {}",
                zoned.strftime("%H:%M:%S")
            ))
        });
        format!(
            "connection {} ({}@{host}, {doing} {seconds} s{})",
            process.id,
            detail.user,
            since.unwrap_or_default()
        )
    }
}

impl SessionContext {
    /// `esker_ddl_window`.
    pub(super) fn ddl_window(&self) -> Duration {
        let globals = &self.instance.globals;
        Duration::from_millis(globals.named("esker_ddl_window").as_u64())
    }
}

/// Connections that must end, or open a door, before `start` can go on.
pub(crate) fn in_line_before(start: u64, instance: &Instance) -> HashSet<u64> {
    let (registry, locks) = (&instance.registry, instance.catalog.locks());
    let mut seen = HashSet::new();
    let mut todo = vec![start];
    while let Some(id) = todo.pop() {
        let mut blockers = locks.awaited_by(id);
        let process = registry.find(id).ok();
        if let Some(waiter) = process.filter(awaits_row) {
            let sessions = registry.list();
            let in_its_way = sessions.iter().filter(|other| waiter.waits_for(other));
            blockers.extend(in_its_way.map(|p| p.id));
        }
        todo.extend(blockers.into_iter().filter(|id| seen.insert(*id)));
    }
    seen
}

fn awaits_row(process: &Arc<Process>) -> bool {
    process.locks(1).iter().any(|lock| !lock.is_granted)
}

/// Is `start` among those that must end before `start` can go on?
fn closes_cycle(start: u64, registry: &Registry, locks: &MetadataLocks) -> bool {
    let waits = locks.waits();
    let sessions = registry.list();
    let row_waiters: Vec<&Arc<Process>> = sessions.iter().filter(|p| awaits_row(p)).collect();
    if row_waiters.is_empty() {
        // Cycles of metadata locks alone are found when their last wait begins.
        return false;
    }
    let mut seen = HashSet::from([start]);
    let mut todo = vec![start];
    while let Some(id) = todo.pop() {
        let mut blockers: Vec<u64> = waits.iter().filter(|w| w.0 == id).map(|w| w.1).collect();
        if let Some(waiter) = row_waiters.iter().find(|p| p.id == id) {
            let in_its_way = sessions.iter().filter(|other| waiter.waits_for(other));
            blockers.extend(in_its_way.map(|p| p.id));
        }
        for blocker in blockers {
            if blocker == start {
                return true;
            }
            if seen.insert(blocker) {
                todo.push(blocker);
            }
        }
    }
    false
}
