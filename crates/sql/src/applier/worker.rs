//! A worker: takes groups from its queue and runs each; whose turn it is, it commits, and those that rest behind it.
//!
//! ```text
//! idle ─▶ running ─▶ resting ─▶ its turn ─▶ committed ─▶ the next one, if it rests
//!   │        │          │           │  ▲
//!   │        │ too early│ wounded   └──┘ again, if that may help   └─▶ failed: the channel stops
//!   │        └──────────┴─▶ undone, resting
//!   └─▶ left for its turn, resting
//! ```
//! Neighbours: `feed` fills the queue; `order` says whose turn it is; `hands` has the sessions, `run` does the work in
//! them. **Invariants**
//! - An error counts when everything before the group has ended; before that the group is undone and rests until its
//!   turn, and so does one that was in an earlier one's way: nobody is in the way of the same group twice.
//! - A group whose connection is killed, or that stands behind one that failed, is rolled back and not reported.
//! - A worker sleeps only where it has nothing to do: for groups, for hands, and, where most groups depend on others,
//!   for what a group depends on. Elsewhere such a group rests without a hand, and whoever ends the one before runs it.

use std::sync::Arc;
use std::time::Duration;

use esker_binlog::apply::Group;
use esker_binlog::apply::coordinator::Mode;

use super::hands::{Hand, Job, Resting};
use super::order::{Arrival, Undo};
use super::queues::Task;
use super::rules::Rules;
use super::run::{Ran, Run};
use super::{Failure, Shared};
use crate::session::TableCache;

/// Errors after which a transaction may go well when it is run again: deadlock, lock wait timeout, and a table that was
/// changed meanwhile. What performance_schema says of them.
const TRANSIENT: [(u16, &str); 3] = [
    (
        1213,
        "Deadlock found when trying to get lock; try restarting transaction",
    ),
    (
        1205,
        "Lock wait timeout exceeded; try restarting transaction",
    ),
    (
        1412,
        "Table definition has changed, please retry transaction",
    ),
];
/// The server goes down.
const SHUTDOWN: u16 = 1053;
/// Pause before a retry, times their number.
const RETRY_PAUSE: Duration = Duration::from_millis(10);
/// The longest of these pauses.
const MAX_RETRY_PAUSE: Duration = Duration::from_secs(1);

/// Stops the channel when the worker panics, for those that wait for its group.
struct Survivor {
    shared: Arc<Shared>,
    number: usize,
    ordinal: u64,
}

impl Drop for Survivor {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let failure = Failure {
                code: 1105,
                text: "Unknown error: a worker has panicked; the server's log says where"
                    .to_owned(),
                micros: self.shared.instance.now_micros(),
            };
            self.shared.failed(self.number, self.ordinal, failure);
        }
    }
}

/// A group whose turn has come. True: it has run, and nothing is left but to commit it.
type Due = (Resting, bool);

/// A worker's thread.
pub(super) struct Worker {
    shared: Arc<Shared>,
    number: usize,
    tables: TableCache,
}

impl Worker {
    /// Works until the queues are closed.
    pub(super) fn run(shared: &Arc<Shared>, number: usize) {
        let mut worker = Self {
            shared: shared.clone(),
            number,
            tables: TableCache::default(),
        };
        while let Some(task) = worker.next() {
            worker.take(task);
        }
    }

    /// The next group. Before it waits for one it has what was committed made durable: nobody else asks for that.
    fn next(&self) -> Option<Task> {
        let (shared, queues) = (&self.shared, &self.shared.queues);
        let is_ready = |task: &Task| shared.is_ready(task);
        queues.take(self.number, is_ready).or_else(|| {
            shared.harden();
            queues.await_next(self.number, is_ready)
        })
    }

    /// Runs a group, whatever comes of it, and commits what can be committed then.
    fn take(&mut self, task: Task) {
        let mut due = match self.leaves_for_its_turn(&task.after) {
            true => self.rest(Resting::Group(task.group), false),
            false => self.begin(task),
        };
        while let Some((resting, is_ready)) = due {
            due = match resting {
                Resting::Job(job) => self.in_turn(job, is_ready),
                Resting::Group(group) => self.begin_in_turn(group),
            };
        }
    }

    /// Begins a group. What comes is to be committed now.
    fn begin(&mut self, task: Task) -> Option<Due> {
        let Task { group, after } = task;
        let ordinal = group.ordinal;
        let _survivor = self.survivor(ordinal);
        let Some(hand) = self.ready_hand(ordinal, &after) else {
            self.shared.dropped(ordinal);
            return None;
        };
        let (job, is_turn) = self.job(group, hand)?;
        match is_turn {
            true => Some((Resting::Job(job), false)),
            false => self.ahead(job),
        }
    }

    /// Runs and commits a group that was left for its turn.
    fn begin_in_turn(&mut self, group: Box<Group>) -> Option<Due> {
        let survivor = self.survivor(group.ordinal);
        let shared = &self.shared;
        let hand = shared.hands[self.number].take_in_turn(shared, self.number);
        let (job, is_turn) = self.job(group, hand)?;
        drop(survivor);
        debug_assert!(is_turn, "who was before it has ended");
        self.in_turn(job, false)
    }

    /// A group begins in a hand. True: its turn has come. `None`: it is not applied any more.
    fn job(&self, group: Box<Group>, hand: Box<Hand>) -> Option<(Job, bool)> {
        let begun = self.shared.order.begin(group.ordinal, hand.runner.clone());
        let Some(is_turn) = begun else {
            self.shared.dropped(group.ordinal);
            self.shared.give_back(hand);
            return None;
        };
        let handled = self.shared.begins(&hand, &group);
        let job = Job {
            group,
            hand,
            handled,
        };
        Some((job, is_turn))
    }

    /// Is a group that depends on others not worth waiting for? Where keys say who depends on whom these are few, or
    /// all have to be run one after the other anyway: it rests without having run, and is run in its turn, while those
    /// behind it run ahead. Elsewhere most depend on a group of others, and would not run beside each other.
    fn leaves_for_its_turn(&self, after: &[u64]) -> bool {
        let rules = &self.shared.rules;
        let goes_by_keys = rules.in_order && rules.parallel == Mode::WriteSet;
        goes_by_keys
            && !after
                .iter()
                .all(|earlier| self.shared.order.has_ended(*earlier))
    }

    /// A session for a group, when what it depends on has ended. `None`: it is not applied any more.
    fn ready_hand(&self, ordinal: u64, after: &[u64]) -> Option<Box<Hand>> {
        let (shared, order) = (&self.shared, &self.shared.order);
        let mut have_ended = after.iter().map(|earlier| order.outwait(*earlier, ordinal));
        if order.is_stopped(ordinal) || !have_ended.all(|has_ended| has_ended) {
            return None;
        }
        let hands = &shared.hands[self.number];
        hands.take(shared, self.number, || !order.is_stopped(ordinal))
    }

    fn survivor(&self, ordinal: u64) -> Survivor {
        Survivor {
            shared: self.shared.clone(),
            number: self.number,
            ordinal,
        }
    }

    fn run_job(&mut self, job: &mut Job, is_turn: bool) -> Result<Ran, Failure> {
        job.hand.runner.take_wound();
        Run {
            shared: &self.shared,
            group: &job.group,
            hand: &mut job.hand,
            tables: &mut self.tables,
            is_turn,
        }
        .attempt()
    }

    fn commit_job(&mut self, job: &mut Job) -> Result<(), Failure> {
        Run {
            shared: &self.shared,
            group: &job.group,
            hand: &mut job.hand,
            tables: &mut self.tables,
            is_turn: true,
        }
        .commit()
    }

    /// Runs a group before its turn. What comes is to be committed now.
    fn ahead(&mut self, mut job: Job) -> Option<Due> {
        let ran = self.run_job(&mut job, false);
        let ended = match ran {
            Ok(Ran::Committed) => Ok(true),
            Ok(Ran::Open) if self.shared.rules.in_order => Ok(false),
            Ok(Ran::Open) => self.commit_job(&mut job).map(|()| true),
            Err(failure) => Err(failure),
        };
        let is_ready = match ended {
            Ok(true) => return self.shared.committed(job),
            Ok(false) => true,
            Err(failure) => {
                job.hand.stay_killed();
                job.undo();
                if failure.code == SHUTDOWN {
                    return self.halt(job);
                }
                false
            }
        };
        job.hand.show("Waiting for preceding transaction to commit");
        self.rest(Resting::Job(job), is_ready)
    }

    /// A group rests until its turn. What comes is to be committed now, for its turn has come.
    fn rest(&self, resting: Resting, is_ready: bool) -> Option<Due> {
        let ordinal = resting.ordinal();
        match self.shared.order.arrive(ordinal, resting, is_ready) {
            Arrival::Mine(resting, is_ready) => Some((resting, is_ready)),
            Arrival::Rests => None,
            Arrival::Stopped(mut resting) => {
                resting.undo();
                self.shared.leave(resting);
                None
            }
        }
    }

    /// Commits a group whose turn it is; tries until it is committed, or has failed for good.
    fn in_turn(&mut self, mut job: Job, mut is_ready: bool) -> Option<Due> {
        let ordinal = job.group.ordinal;
        let _survivor = self.survivor(ordinal);
        let mut retries = 0;
        loop {
            let ran = match is_ready {
                true => Ok(Ran::Open),
                false => self.run_job(&mut job, true),
            };
            let done = match ran {
                Ok(Ran::Open) => self.commit_job(&mut job),
                Ok(Ran::Committed) => Ok(()),
                Err(failure) => Err(failure),
            };
            let Err(failure) = done else {
                return self.shared.committed(job);
            };
            job.undo();
            if failure.code == SHUTDOWN {
                return self.halt(job);
            }
            let was_wounded = job.hand.runner.take_wound();
            if std::mem::take(&mut is_ready) || was_wounded {
                // What was wrong may have come before its turn.
                continue;
            }
            let transient = TRANSIENT.iter().find(|(code, _)| *code == failure.code);
            let may_retry = retries < Rules::retries(&self.shared.instance);
            let Some((_, text)) = transient.filter(|_| may_retry) else {
                self.shared.failed(job.hand.worker, ordinal, failure);
                self.shared.give_back(job.hand);
                return None;
            };
            // Those behind it may be what it has met, and come to the same rows again and again.
            self.shared.order.clear_way(ordinal);
            retries += 1;
            let text = (*text).to_owned();
            self.shared.retried(&mut job, Failure { text, ..failure });
            std::thread::sleep((RETRY_PAUSE * retries.min(100) as u32).min(MAX_RETRY_PAUSE));
            if self.shared.is_ending(ordinal) {
                self.shared.leave(Resting::Job(job));
                return None;
            }
        }
    }

    /// The server goes down, or the connection was killed: nothing from this group on is applied.
    fn halt(&self, job: Job) -> Option<Due> {
        self.shared.halt(job.group.ordinal);
        self.shared.leave(Resting::Job(job));
        None
    }
}
