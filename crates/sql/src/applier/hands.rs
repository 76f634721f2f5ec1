//! Hands: the sessions of a worker, so that a transaction may rest in one while the worker runs the next.
//!
//! Neighbours: `worker` takes a hand for each group; `order` keeps those that rest; whoever ends a group gives its hand
//! back, from whatever thread. **Invariants**
//! - A worker runs [`HANDS`] groups ahead at most, and has one more hand for a group whose turn has come: that never
//!   waits for a hand. It begins its groups in their order, so the hands that rest have earlier ones, and come back
//!   without the one that waits for a hand.
//! - The free hand with the lowest number is taken: where nothing rests, all groups run in one session.

use std::sync::Arc;

use esker_binlog::apply::Group;
use esker_engine::{CancelReason, WaitCanceller};
use esker_sql_catalog::accounts::Account;
use esker_sql_catalog::catalog::TemporaryTables;
use parking_lot::{Condvar, Mutex};

use super::Handled;
use super::order::{Locks, Runner, Undo};
use super::shared::Shared;
use super::source_tables::{SourceSession, SourceTables};
use crate::instance::Instance;
use crate::session::listed::SYSTEM_USER;
use crate::session::registry::REPLICA_WORKER;
use crate::session::{ClientInfo, Session, in_line_before};

/// Sessions of a worker for groups that run ahead of their turn.
const HANDS: usize = 16;
/// A worker that had no hand goes on when so many are in use, so that it does not sleep before each group.
const FEW: usize = HANDS / 2;
/// What the process list says of one that has nothing to do.
const IDLE: &str = "Waiting for an event from Coordinator";

/// The locks of a hand's transaction, as others see them.
pub(super) struct HandLocks {
    rows: WaitCanceller,
    connection: u64,
    instance: Arc<Instance>,
}

impl Locks for HandLocks {
    fn waits_for(&self, other: &Self) -> bool {
        self.rows.waits_for(&other.rows)
    }

    fn waits_behind_strangers_for<'a>(
        &self,
        others: impl Iterator<Item = (u64, &'a Self)>,
    ) -> Vec<u64> {
        let line = in_line_before(self.connection, &self.instance);
        let in_line = others.filter(|(_, other)| line.contains(&other.connection));
        in_line.map(|(ordinal, _)| ordinal).collect()
    }

    fn is_wanted(&self) -> bool {
        self.instance.binlog.owned.is_wanted(self.connection)
    }

    fn cancel(&self) {
        self.rows.cancel(CancelReason::StatementKilled);
    }
}

/// A session of the channel.
pub(super) fn open_session(shared: &Shared, client: ClientInfo) -> Session {
    let client = ClientInfo {
        user: SYSTEM_USER.to_owned(),
        peer: String::new(),
        ..client
    };
    let mut session = Session::new(shared.instance.clone(), client);
    let mut sql = "SET autocommit = 1".to_owned();
    if !shared.rules.logs {
        sql.push_str(", sql_log_bin = 0");
    }
    if let Err(e) = session.apply_text(sql.as_bytes()) {
        tracing::warn!("replication: {sql}: {}", e.message);
    }
    session
}

/// A session that runs groups.
pub(super) struct Hand {
    pub(super) worker: usize,
    number: usize,
    pub(super) session: Session,
    pub(super) runner: Arc<Runner>,
    /// The settings that the session has now.
    pub(super) settings: String,
    /// Of which the session has the temporary tables.
    source: Option<SourceSession>,
    temporary: Arc<SourceTables>,
    instance: Arc<Instance>,
}

impl Hand {
    fn new(shared: &Shared, worker: usize, number: usize) -> Self {
        let id = (shared.settings.connection_ids)();
        let client = ClientInfo {
            thread: REPLICA_WORKER,
            ..ClientInfo::inside(id, Account::root(Vec::new()))
        };
        let mut session = open_session(shared, client);
        session
            .context
            .process
            .update(shared.instance.now_micros(), |detail| {
                detail.command = "Connect";
            });
        let locks = HandLocks {
            rows: session.wait_canceller(),
            connection: id,
            instance: shared.instance.clone(),
        };
        let runner = Runner::new(locks);
        // Where commits need no order, a later transaction frees its rows by itself.
        if shared.rules.in_order {
            // The order keeps hands: a strong handle would be a cycle.
            let (order, waiter) = (Arc::downgrade(&shared.order), Arc::clone(&runner));
            session.set_at_wait(move || {
                if let Some(order) = order.upgrade() {
                    order.look_for(&waiter);
                }
            });
        }
        let hand = Self {
            worker,
            number,
            runner,
            session,
            settings: String::new(),
            source: None,
            temporary: shared.settings.temporary.clone(),
            instance: shared.instance.clone(),
        };
        hand.show_idle();
        hand
    }

    /// It has nothing to do.
    fn show_idle(&self) {
        let now = self.instance.now_micros();
        self.session.context.process.update(now, |detail| {
            detail.state = IDLE;
            if let Some(info) = &mut detail.info {
                info.clear();
            }
        });
    }

    /// What it does, in the process list.
    pub(super) fn show(&self, state: &'static str) {
        self.session.context.process.show_state(state);
    }

    /// A group begins at this time, microseconds since the epoch.
    pub(super) fn show_begin(&self, micros: u64) {
        let now = i64::try_from(micros).unwrap_or(0);
        self.session.context.process.update(now, |detail| {
            detail.command = "Query";
            detail.state = "";
        });
    }

    /// Is it killed, and the server goes on?
    pub(super) fn is_killed(&self) -> bool {
        self.session.context.process.is_killed_alone()
    }

    /// A kill counts for the group, however often it is run again.
    pub(super) fn stay_killed(&self) {
        self.session.context.process.stay_killed();
    }

    /// A group of a session of the source begins, which finds its temporary tables.
    pub(super) fn enter(&mut self, source: Option<SourceSession>) {
        assert!(self.source.is_none(), "a group leaves when it has ended");
        self.source = source;
        if let Some(tables) = source.and_then(|source| self.temporary.take(source)) {
            self.session.exchange_temporary(tables);
        }
    }

    /// The group has ended, or is undone: whoever runs the next one of its session finds the tables.
    pub(super) fn leave(&mut self) {
        if let Some(source) = self.source.take()
            && self.session.has_temporary()
        {
            let tables = self.session.exchange_temporary(TemporaryTables::default());
            self.temporary.keep(&self.instance.engine, source, tables);
        }
    }
}

/// A group and the session that it runs in.
pub(super) struct Job {
    pub(super) group: Box<Group>,
    pub(super) hand: Box<Hand>,
    /// What others see of it.
    pub(super) handled: Handled,
}

impl Undo for Job {
    fn undo(&mut self) {
        self.hand.session.abandon_applied();
        self.hand.leave();
    }
}

/// What rests until its turn.
pub(super) enum Resting {
    /// It has begun.
    Job(Job),
    /// It was left for its turn.
    Group(Box<Group>),
}

impl Resting {
    /// Its number in the channel.
    pub(super) fn ordinal(&self) -> u64 {
        match self {
            Self::Job(job) => job.group.ordinal,
            Self::Group(group) => group.ordinal,
        }
    }
}

impl Undo for Resting {
    fn undo(&mut self) {
        if let Self::Job(job) = self {
            job.undo();
        }
    }
}

#[derive(Default)]
struct State {
    free: Vec<Box<Hand>>,
    made: usize,
    /// The worker waits until few are in use.
    is_wanted: bool,
}

impl State {
    fn in_use(&self) -> usize {
        self.made - self.free.len()
    }

    /// The number of a hand that is to be made, if none is free.
    fn take(&mut self) -> Result<Box<Hand>, usize> {
        let lowest = |at: &usize| self.free[*at].number;
        let at = (0..self.free.len()).min_by_key(lowest);
        let Some(at) = at else {
            self.made += 1;
            return Err(self.made - 1);
        };
        Ok(self.free.swap_remove(at))
    }
}

/// The hands of one worker.
#[derive(Default)]
pub(super) struct Hands {
    state: Mutex<State>,
    came: Condvar,
}

impl Hands {
    /// A hand for the worker's next group, which may have to wait for one; none if `is_wanted` does not hold then.
    pub(super) fn take(
        &self,
        shared: &Shared,
        worker: usize,
        is_wanted: impl Fn() -> bool,
    ) -> Option<Box<Hand>> {
        let mut state = self.state.lock();
        if state.in_use() >= HANDS {
            state.is_wanted = true;
            while state.in_use() > FEW {
                self.came.wait(&mut state);
            }
            state.is_wanted = false;
            if !is_wanted() {
                return None;
            }
        }
        let taken = state.take();
        drop(state);
        Some(taken.unwrap_or_else(|number| Box::new(Hand::new(shared, worker, number))))
    }

    /// A hand for a group that the worker's thread runs in its turn, one at a time.
    pub(super) fn take_in_turn(&self, shared: &Shared, worker: usize) -> Box<Hand> {
        let taken = self.state.lock().take();
        taken.unwrap_or_else(|number| Box::new(Hand::new(shared, worker, number)))
    }

    /// Makes the first one, which stands in the process list from now on.
    pub(super) fn begin(&self, shared: &Shared, worker: usize) {
        let hand = Box::new(Hand::new(shared, worker, 0));
        let mut state = self.state.lock();
        debug_assert_eq!(state.made, 0);
        state.made = 1;
        state.free.push(hand);
    }

    /// Is one of those killed that have nothing to do?
    pub(super) fn has_killed(&self) -> bool {
        self.state.lock().free.iter().any(|hand| hand.is_killed())
    }

    /// A group has ended, or will not be applied.
    pub(super) fn give_back(&self, hand: Box<Hand>) {
        hand.show_idle();
        let mut state = self.state.lock();
        state.free.push(hand);
        debug_assert!(state.made <= HANDS + 1, "the last is for turns");
        if state.is_wanted && state.in_use() <= FEW {
            self.came.notify_one();
        }
    }

    /// The channel has stopped: its sessions end.
    pub(super) fn dismiss(&self) {
        std::mem::take(&mut *self.state.lock());
    }
}
