//! The event scheduler: a thread that sleeps until the next event is due, and a thread for each event that runs.
//!
//! Parts: `queue` (when each event is due), `worker` (one run of an event); here the thread that waits and its switch.
//! Neighbours: `session::events` and `ddl` change events and tell; SET GLOBAL event_scheduler switches it; the server
//! starts it when statements may run and stops it before the sessions. `docs/decisions/events.md` has the reasons.
//!
//! **Invariants**
//! - Nothing polls: the thread sleeps until the earliest event is due or somebody tells that something has changed.
//! - When an event began is durable before it runs: a crash does not run it twice.
//! - At most [`MAX_RUNNING`] events run; what is due then waits for one to end.
//! - There is no scheduler without a server around the database.

mod queue;
mod worker;

use std::sync::Arc;
use std::time::Duration;

use esker_sql_catalog::accounts::Account;
use esker_types::temporal::MICROS_PER_SEC;
use parking_lot::{Condvar, Mutex};

use crate::instance::Instance;
use crate::session::registry::DAEMON;
use crate::session::{ClientInfo, Session};
use queue::Queue;
pub(crate) use queue::zone_of;
use worker::Job;

/// Most events that run at a time.
const MAX_RUNNING: usize = 128;
/// Longest wait for events that were interrupted to end, at shutdown.
const LEAVE_WITHIN: Duration = Duration::from_secs(5);
/// Stack of the thread of an event: what the deepest statement needs.
const STACK_BYTES: usize = 16 << 20;

/// The variable's value with which a server starts that never runs events.
pub(crate) const DISABLED: &str = "DISABLED";

#[derive(Default)]
struct State {
    /// The thread is there.
    is_up: bool,
    /// It is to end.
    ends: bool,
    /// Something has changed since it looked.
    changed: bool,
    /// Events that run.
    running: usize,
}

/// What an instance has of its scheduler.
#[derive(Default)]
pub(crate) struct Scheduler {
    state: Mutex<State>,
    told: Condvar,
    /// Held while it is switched.
    switching: Mutex<()>,
}

impl Scheduler {
    /// Events were made, changed or dropped.
    pub(crate) fn events_changed(&self) {
        let mut state = self.state.lock();
        if state.is_up {
            state.changed = true;
            self.told.notify_all();
        }
    }

    /// A place for one more event; false: as many run as may.
    fn take_place(&self) -> bool {
        let mut state = self.state.lock();
        let fits = state.running < MAX_RUNNING;
        state.running += usize::from(fits);
        fits
    }

    fn give_place_back(&self) {
        let mut state = self.state.lock();
        assert!(state.running > 0, "every place was taken before");
        state.running -= 1;
        state.changed = true;
        self.told.notify_all();
    }

    /// Sleeps until something has changed or the time is over. False: it is to end.
    fn sleep(&self, time: Option<Duration>) -> bool {
        let mut state = self.state.lock();
        let rests = |state: &mut State| !state.changed && !state.ends;
        match time {
            Some(time) => {
                self.told.wait_while_for(&mut state, rests, time);
            }
            None => self.told.wait_while(&mut state, rests),
        }
        state.changed = false;
        !state.ends
    }

    /// Ends the thread, if it is there; what runs goes on.
    fn stop(&self) {
        let mut state = self.state.lock();
        state.ends = true;
        self.told.notify_all();
        self.told.wait_while(&mut state, |state| state.is_up);
        state.ends = false;
    }
}

/// The thread is up; it is down when this goes.
struct Up(Arc<Instance>);

impl Drop for Up {
    fn drop(&mut self) {
        let scheduler = &self.0.scheduler;
        scheduler.state.lock().is_up = false;
        scheduler.told.notify_all();
    }
}

impl Instance {
    /// Starts the scheduler if event_scheduler says so, or stops it. Events that run go on.
    pub(crate) fn apply_event_scheduler(self: &Arc<Self>) {
        let _one_at_a_time = self.scheduler.switching.lock();
        if self.host().is_none() {
            return;
        }
        if self.globals.named("event_scheduler").as_text() != "ON" {
            return self.scheduler.stop();
        }
        let mut state = self.scheduler.state.lock();
        if state.is_up {
            return;
        }
        state.is_up = true;
        drop(state);
        let up = Up(self.clone());
        let thread = std::thread::Builder::new().name("esker-events".to_owned());
        if let Err(e) = thread.spawn(move || watch(&up)) {
            tracing::error!("Event Scheduler: no thread: {e}");
        }
    }

    /// Starts the scheduler: statements may run.
    pub fn start_events(self: &Arc<Self>) {
        self.apply_event_scheduler();
    }

    /// No event begins from now on.
    pub fn stop_events(&self) {
        let _one_at_a_time = self.scheduler.switching.lock();
        self.scheduler.stop();
    }

    /// Waits for the events that run; they have been interrupted.
    pub fn await_events(&self) {
        let mut state = self.scheduler.state.lock();
        let busy = |state: &mut State| state.running > 0;
        let waited = self
            .scheduler
            .told
            .wait_while_for(&mut state, busy, LEAVE_WITHIN);
        if waited.timed_out() {
            tracing::warn!("events still run after {LEAVE_WITHIN:?}");
        }
    }
}

/// What the thread does.
fn watch(up: &Up) {
    let instance = &up.0;
    let Some(host) = instance.host() else {
        return;
    };
    let client = ClientInfo {
        user: "event_scheduler".to_owned(),
        peer: "localhost".to_owned(),
        ..ClientInfo::inside(host.next_connection(), Account::root(Vec::new()))
    };
    // It stands in the process list.
    let session = Session::new(instance.clone(), client);
    let mut queue = Queue::default();
    loop {
        queue.renew(instance);
        run_due(instance, &mut queue);
        let next = queue.next();
        let state = match next {
            Some(_) => "Waiting for next activation",
            None => "Waiting on empty queue",
        };
        let now = instance.now_micros();
        session.context.process.update(now, |detail| {
            detail.command = DAEMON;
            detail.state = state;
        });
        let until = |seconds: i64| {
            let micros = seconds.saturating_mul(MICROS_PER_SEC).saturating_sub(now);
            Duration::from_micros(u64::try_from(micros).unwrap_or(0))
        };
        // What is due and found no place waits for the end of another one.
        let next = next.filter(|next| *next > now.div_euclid(MICROS_PER_SEC));
        if !instance.scheduler.sleep(next.map(until)) {
            return;
        }
    }
}

/// Begins what is due.
fn run_due(instance: &Arc<Instance>, queue: &mut Queue) {
    while let Some(def) = queue.due(instance.now_micros()) {
        if !instance.scheduler.take_place() {
            return;
        }
        let job = Job::new(instance, &def);
        match queue.begin(instance, &def) {
            Ok(Some(turn)) => job.start(turn),
            Ok(None) => {}
            Err(e) => worker::log(&def, &e),
        }
    }
}
