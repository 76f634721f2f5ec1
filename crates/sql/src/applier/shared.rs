//! What the threads of a channel know of each other.
//!
//! Neighbours: `feed` and `worker` are the threads; [`Status`] is what others see. **Invariants**
//! - A group is told of as committed after its commit, and before the next one is told that its turn has come only if
//!   nobody relies on the order of the two.
//! - The failure that is kept is that of the earliest group.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use esker_binlog::apply::progress::{Done, Progress};
use esker_binlog::apply::state::ChannelState;
use esker_binlog::apply::{Group, Id, Place};
use parking_lot::{Condvar, Mutex};

use super::hands::{Hand, Hands, Job, Resting};
use super::order::CommitOrder;
use super::queues::{Queues, Task};
use super::rules::Rules;
use super::{Failure, Handled, Settings, Status, WorkerStatus};
use crate::instance::Instance;

/// Workers that always have something to do have the log flushed this often, in microseconds: until then no session
/// sees what they have committed.
const HARDEN_EVERY: u64 = 10_000;

/// What changes while a channel runs.
struct View {
    progress: Progress,
    /// Groups that have ended since the channel's thread last looked.
    ended: Vec<u64>,
    /// The group, the worker if it was one, and what has happened.
    failure: Option<(u64, Option<usize>, Failure)>,
    /// The group that the channel's thread has, and the last one that it had.
    processing: Handled,
    last_processed: Handled,
    workers: Vec<WorkerStatus>,
    /// The last group that a worker has begun.
    begun: u64,
    placed: u64,
    /// The channel's thread waits until so many have ended; 0: it does not wait.
    awaited: usize,
    read: Place,
    /// Nothing before is left to apply.
    passed: Place,
    transactions: u64,
    /// When the group that is delayed is due, microseconds since the epoch.
    delayed_until: Option<u64>,
    /// Events that are still to be skipped.
    skips: u64,
    is_running: bool,
    /// When the group that was begun last was committed at its source, microseconds since the epoch.
    begun_micros: u64,
}

/// Shared by the threads of a channel.
pub(super) struct Shared {
    pub(super) instance: Arc<Instance>,
    pub(super) channel: String,
    pub(super) settings: Settings,
    pub(super) rules: Rules,
    pub(super) order: Arc<CommitOrder<Resting>>,
    pub(super) queues: Queues,
    /// Of each worker.
    pub(super) hands: Vec<Hands>,
    /// The first group that is not applied at the start.
    first: u64,
    view: Mutex<View>,
    changed: Condvar,
    is_stopping: AtomicBool,
    /// When the log was last asked to make durable what was committed, microseconds since the epoch.
    hardened_micros: AtomicU64,
    /// Kills the session of `init_replica` while it runs.
    interrupt: Mutex<Option<Box<dyn Fn() + Send + Sync>>>,
}

/// What it is called in messages.
pub(crate) fn name_of(id: &Id) -> String {
    match id {
        Id::Gtid(gtid) => gtid.to_string(),
        Id::Maria(gtid) => gtid.to_string(),
        Id::Position => "ANONYMOUS".to_owned(),
    }
}

impl Shared {
    pub(super) fn new(
        instance: Arc<Instance>,
        channel: &str,
        settings: Settings,
        rules: Rules,
        state: ChannelState,
    ) -> Self {
        let first = state.next_ordinal();
        let ahead = state.ahead.keys().copied().collect();
        let read = state.end.clone();
        let workers = vec![WorkerStatus::default(); rules.workers];
        let hands = (0..rules.workers).map(|_| Hands::default()).collect();
        let queues = Queues::new(rules.workers, rules.in_order);
        let view = View {
            progress: Progress::new(state),
            ended: Vec::new(),
            failure: None,
            processing: Handled::default(),
            last_processed: Handled::default(),
            workers,
            begun: 0,
            placed: 0,
            awaited: 0,
            passed: read.clone(),
            read,
            transactions: 0,
            delayed_until: None,
            skips: settings.skips,
            is_running: true,
            begun_micros: 0,
        };
        Self {
            instance,
            channel: channel.to_owned(),
            settings,
            rules,
            order: Arc::new(CommitOrder::new(first, ahead)),
            queues,
            hands,
            first,
            view: Mutex::new(view),
            changed: Condvar::new(),
            is_stopping: AtomicBool::new(false),
            hardened_micros: AtomicU64::new(0),
            interrupt: Mutex::default(),
        }
    }

    /// May it be that the group was done already, but for its mark?
    pub(super) fn may_repeat(&self, ordinal: u64) -> bool {
        ordinal == self.first
    }

    fn now(&self) -> u64 {
        self.instance.now_micros().max(0) as u64
    }

    /// A thread begins to work on a group.
    fn handled(&self, group: &Group) -> Handled {
        Handled {
            id: Some(group.id.clone()),
            original_micros: group.original_micros,
            commit_micros: group.commit_micros,
            begun_micros: self.now(),
            ..Handled::default()
        }
    }

    pub(super) fn begins(&self, hand: &Hand, group: &Group) -> Handled {
        let handled = self.handled(group);
        hand.show_begin(handled.begun_micros);
        let worker = hand.worker;
        let mut view = self.view.lock();
        view.begun = view.begun.max(group.ordinal);
        view.begun_micros = group.original_micros;
        view.workers[worker].applying.clone_from(&handled);
        view.workers[worker].begun = group.ordinal;
        handled
    }

    /// The channel's thread has a group, and looks for a worker.
    pub(super) fn processes(&self, group: &Group) {
        let handled = self.handled(group);
        self.view.lock().processing = handled;
    }

    /// A group is committed. What comes is the next one, if it rests, and whether it has run.
    pub(super) fn committed(&self, job: Job) -> Option<(Resting, bool)> {
        let Job {
            group,
            hand,
            mut handled,
        } = job;
        let (worker, ordinal) = (hand.worker, group.ordinal);
        let done = Done::from(*group);
        let ended_micros = self.now();
        handled.ended_micros = ended_micros;
        let due = self.order.end(ordinal);
        self.give_back(hand);
        let mut view = self.view.lock();
        view.ended.push(ordinal);
        view.transactions += 1;
        view.progress.done(done);
        let status = &mut view.workers[worker];
        status.transactions += 1;
        status.last_applied = handled;
        if status.begun == ordinal {
            status.applying = Handled::default();
        }
        let is_awaited = view.awaited > 0 && view.ended.len() >= view.awaited;
        drop(view);
        if is_awaited {
            self.changed.notify_all();
        }
        self.harden_now_and_then(ended_micros);
        due
    }

    /// Has what was committed made durable, and does not wait for it.
    pub(super) fn harden(&self) {
        self.hardened_micros.store(self.now(), Ordering::Relaxed);
        self.instance.engine.request_flush();
    }

    fn harden_now_and_then(&self, now: u64) {
        let last = self.hardened_micros.load(Ordering::Relaxed);
        if now.saturating_sub(last) >= HARDEN_EVERY {
            self.harden();
        }
    }

    /// The hand that a group had is free.
    pub(super) fn give_back(&self, hand: Box<Hand>) {
        self.hands[hand.worker].give_back(hand);
    }

    pub(super) fn failed(&self, worker: usize, ordinal: u64, failure: Failure) {
        tracing::error!("replication channel '{}': {}", self.channel, failure.text);
        let mut view = self.view.lock();
        if view
            .failure
            .as_ref()
            .is_none_or(|(earliest, ..)| ordinal < *earliest)
        {
            view.failure = Some((ordinal, Some(worker), failure));
        }
        drop(view);
        self.halt(ordinal);
        self.order.leave(ordinal);
    }

    /// A group was neither committed nor is it to blame.
    pub(super) fn leave(&self, resting: Resting) {
        match resting {
            Resting::Job(job) => {
                self.dropped(job.group.ordinal);
                self.give_back(job.hand);
            }
            Resting::Group(group) => self.dropped(group.ordinal),
        }
    }

    /// The same, without a hand.
    pub(super) fn dropped(&self, ordinal: u64) {
        debug_assert!(self.is_ending(ordinal));
        self.forget_applying(ordinal);
        self.order.leave(ordinal);
        self.changed.notify_all();
    }

    /// A group that a worker has begun will not be applied: the worker has nothing.
    fn forget_applying(&self, ordinal: u64) {
        let mut view = self.view.lock();
        let of_it = view.workers.iter_mut().filter(|w| w.begun == ordinal);
        of_it.for_each(|worker| worker.applying = Handled::default());
    }

    /// A group is tried again after an error.
    pub(super) fn retried(&self, job: &mut Job, failure: Failure) {
        job.handled.retries += 1;
        job.handled.transient = Some(failure);
        self.settings.retries.fetch_add(1, Ordering::Relaxed);
        let mut view = self.view.lock();
        let status = &mut view.workers[job.hand.worker];
        if status.begun == job.group.ordinal {
            status.applying.clone_from(&job.handled);
        }
    }

    /// Nothing from this group on is applied any more.
    pub(super) fn halt(&self, ordinal: u64) {
        self.stop_behind(ordinal - 1);
    }

    /// May a group begin, or need it not begin any more?
    pub(super) fn is_ready(&self, task: &Task) -> bool {
        let have_ended = task
            .after
            .iter()
            .all(|ordinal| self.order.has_ended(*ordinal));
        have_ended || self.is_ending(task.group.ordinal)
    }

    /// Looks for those that hold others up: who makes way, and who takes over.
    pub(super) fn look(&self) {
        self.order.look();
        self.queues.share_out(|task| self.is_ready(task));
    }

    /// Is this group not to be applied any more?
    pub(super) fn is_ending(&self, ordinal: u64) -> bool {
        self.order.is_stopped(ordinal)
    }

    /// Groups that have begun are the last ones; what runs before the first one is killed.
    pub(super) fn stop(&self) {
        let begun = self.view.lock().begun;
        self.stop_behind(begun);
        self.interrupt();
    }

    /// Runs what comes before the first group: a stop calls `kill`, also one that has come already.
    pub(super) fn while_interruptible<R>(
        &self,
        kill: Box<dyn Fn() + Send + Sync>,
        run: impl FnOnce() -> R,
    ) -> R {
        *self.interrupt.lock() = Some(kill);
        // A stop marks the channel before it looks for something to kill, so one of the two sees the other.
        if self.is_stopping() {
            self.interrupt();
        }
        let done = run();
        *self.interrupt.lock() = None;
        done
    }

    /// Kills what comes before the first group.
    pub(super) fn interrupt(&self) {
        if let Some(kill) = &*self.interrupt.lock() {
            kill();
        }
    }

    fn stop_behind(&self, last: u64) {
        self.is_stopping.store(true, Ordering::Release);
        for resting in self.order.stop_behind(last) {
            self.forget_applying(resting.ordinal());
            if let Resting::Job(job) = resting {
                self.give_back(job.hand);
            }
        }
        self.changed.notify_all();
    }

    pub(super) fn is_stopping(&self) -> bool {
        self.is_stopping.load(Ordering::Acquire)
    }

    /// Does it apply nothing new: was it told to stop, or has something failed?
    pub(super) fn gives_up(&self) -> bool {
        self.is_stopping() || self.view.lock().failure.is_some()
    }

    /// The channel's thread has an error of its own.
    pub(super) fn fail(&self, ordinal: u64, failure: Failure) {
        tracing::error!("replication channel '{}': {}", self.channel, failure.text);
        let mut view = self.view.lock();
        view.failure.get_or_insert((ordinal, None, failure));
    }

    /// The threads have ended.
    pub(super) fn has_ended(&self) {
        self.hands.iter().for_each(Hands::dismiss);
        let mut view = self.view.lock();
        view.is_running = false;
        view.processing = Handled::default();
        drop(view);
        self.changed.notify_all();
    }

    pub(super) fn note_read(&self, place: &Place) {
        self.view.lock().read.clone_from(place);
    }

    /// Nothing up to there is left to apply.
    pub(super) fn note_passed(&self, place: &Place) {
        self.view.lock().passed.clone_from(place);
    }

    pub(super) fn note_placed(&self, ordinal: u64) {
        let now = self.now();
        let mut view = self.view.lock();
        view.placed = ordinal;
        view.last_processed = std::mem::take(&mut view.processing);
        view.last_processed.ended_micros = now;
    }

    /// Is this group of so many events to be skipped? Then that is counted.
    pub(super) fn takes_skip(&self, events: u64) -> bool {
        let mut view = self.view.lock();
        let skips = view.skips > 0;
        view.skips = view.skips.saturating_sub(events);
        skips
    }

    /// The next group waits until then, microseconds since the epoch.
    pub(super) fn set_delayed(&self, until: Option<u64>) {
        self.view.lock().delayed_until = until;
    }

    /// What has ended since the last look.
    pub(super) fn take_ended(&self) -> Vec<u64> {
        std::mem::take(&mut self.view.lock().ended)
    }

    /// Waits at most this long until so many have ended since the last look, or the channel is to stop.
    pub(super) fn wait_ended(&self, count: usize, at_most: Duration) -> Vec<u64> {
        let mut view = self.view.lock();
        if view.ended.len() < count && !self.is_stopping() {
            view.awaited = count;
            self.changed.wait_for(&mut view, at_most);
            view.awaited = 0;
        }
        std::mem::take(&mut view.ended)
    }

    /// Asks what is applied.
    pub(super) fn progress<R>(&self, ask: impl FnOnce(&Progress) -> R) -> R {
        ask(&self.view.lock().progress)
    }

    /// How many transactions something is kept of.
    #[cfg(test)]
    pub(super) fn kept(&self) -> usize {
        let view = self.view.lock();
        view.ended.len() + view.progress.state().ahead.len() + self.order.kept()
    }

    pub(super) fn status(&self) -> Status {
        let now = self.now();
        let view = self.view.lock();
        let state = view.progress.checkpoint();
        let is_busy = view
            .workers
            .iter()
            .any(|worker| worker.applying.id.is_some());
        Status {
            is_running: view.is_running,
            delay_left: (view.delayed_until)
                .map(|due| Duration::from_micros(due.saturating_sub(now))),
            failure: view.failure.as_ref().map(|(.., failure)| failure.clone()),
            failed_worker: view.failure.as_ref().and_then(|(_, worker, _)| *worker),
            processing: view.processing.clone(),
            last_processed: view.last_processed.clone(),
            applied: state.end.clone(),
            passed: match view.passed.relay > state.end.relay {
                true => view.passed.clone(),
                false => state.end.clone(),
            },
            read: view.read.clone(),
            gtids: view.progress.state().all_gtids(),
            maria: state.maria.clone(),
            transactions: view.transactions,
            skips: view.skips,
            in_flight: view.placed.saturating_sub(view.progress.low()),
            retries: self.settings.retries.load(Ordering::Relaxed),
            lag_seconds: is_busy.then(|| now.saturating_sub(view.begun_micros) / 1_000_000),
            workers: view.workers.clone(),
        }
    }
}
