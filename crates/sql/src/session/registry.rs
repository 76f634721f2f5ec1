//! Who is connected: the process list, and KILL.
//!
//! Neighbours: `Session` registers itself, `listed` threads that have none; `show` and `information_schema` list; the
//! server's KILL reaches sessions through here.
//! **Invariants**: an entry lives exactly as long as its session; a kill flag is set before the
//! session's wait is cancelled, so a waiter that wakes sees why.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use esker_engine::{CancelReason, LockInfo, LockWait, OwnerId, Ticket, TreeId, WaitCanceller};
use esker_sql_catalog::exec_error::{engine_error, interrupted};
use esker_types::{SqlError, SqlResult, errors};
use parking_lot::{Condvar, Mutex, RwLock};

use super::explain::RunningPlan;
use super::terms::Terms;
use super::user_locks::UserLocks;
use crate::binlog::Position;
use crate::counts::Counts;
use crate::ddl::Progress;
use crate::instruments::{INSTRUMENTED, REMEMBERED};
use crate::statements::{self, ByCommand, History};

/// Longest statement text kept for the process list, bytes.
pub(super) const MAX_INFO: usize = 64 * 1024;

/// The command of what serves the server itself and ends with it.
pub(crate) const DAEMON: &str = "Daemon";

const ALIVE: u8 = 0;
const KILL_QUERY: u8 = 1;
const KILL_CONNECTION: u8 = 2;
const SHUT_DOWN: u8 = 3;

/// Accounts whose logins are counted apart.
const MAX_LOGINS: usize = 1000;

/// How a client is connected; the same for the whole life of its session.
#[derive(Debug, Default)]
pub struct Connection {
    /// Host as accounts see it.
    pub host: String,
    /// Connection attributes.
    pub attributes: Vec<(String, String)>,
    /// TLS cipher and version.
    pub tls: Option<(String, String)>,
    /// Algorithm and level, if packets are compressed.
    pub compression: Option<(&'static str, u32)>,
    /// There is no client: the session serves the server itself.
    pub inside: bool,
    /// What performance_schema calls its thread.
    pub thread: &'static str,
}

impl Connection {
    /// How packets come; None: there is no client.
    pub(crate) fn transport(&self) -> Option<&'static str> {
        match self.tls {
            Some(_) => Some("SSL/TLS"),
            None if self.inside => None,
            None => Some("TCP/IP"),
        }
    }
}

/// What performance_schema calls the threads that apply what a source has logged.
pub(crate) const REPLICA_WORKER: &str = "thread/sql/replica_worker";

/// What the process list shows of a session; shared between it and everybody who asks.
pub struct Process {
    /// Connection id.
    pub id: u64,
    /// User name and where it comes from (`host:port`).
    pub peer: String,
    connection: Connection,
    kill: AtomicU8,
    /// Another session has ended the connection: its client hears nothing more.
    is_cut_off: AtomicBool,
    /// Microseconds since the epoch at which the current state began.
    since: AtomicI64,
    detail: Mutex<Detail>,
    canceller: Mutex<Option<WaitCanceller>>,
    /// [`Terms`] of the transaction.
    terms: AtomicU8,
    /// What PERFORMANCE_SCHEMA measures of it: flags of [`crate::instruments`].
    measured: AtomicU8,
    wake: WakeList,
    /// The position of the snapshot of its transaction.
    snapshot: Mutex<Option<Position>>,
    /// What the session has done.
    pub(crate) counts: Counts,
    /// What its last query cost as the planner sees it, the bits of an `f64`.
    last_cost: AtomicU64,
    /// How far its schema change is.
    pub(crate) progress: Progress,
    /// Its last statements, and sums by command.
    history: Mutex<History>,
    on_kill: Box<dyn Fn() + Send + Sync>,
    #[cfg(test)]
    panic_after: Mutex<Option<u32>>,
}

/// Wakers of waits that are not engine tickets (SLEEP, GET_LOCK), and of the session's task.
#[derive(Default)]
struct WakeList {
    generation: Mutex<u64>,
    changed: Condvar,
    task: Mutex<Option<Waker>>,
}

/// A wait for a lock that a KILL ends: a ticket, whichever queue it stands in.
pub(crate) struct KillableWait {
    process: Arc<Process>,
    ticket: Ticket,
}

impl KillableWait {
    /// Waits for `ticket` on behalf of `process`.
    pub(crate) fn new(process: Arc<Process>, ticket: Ticket) -> Self {
        Self { process, ticket }
    }
}

impl Future for KillableWait {
    type Output = SqlResult<()>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<SqlResult<()>> {
        // Before the look at the flag, so that a KILL that comes after it wakes this task.
        self.process.wake_on_kill(cx.waker());
        if let Some(e) = self.process.kill_error() {
            return Poll::Ready(Err(e));
        }
        Pin::new(&mut self.ticket)
            .poll(cx)
            .map_err(|e| engine_error(&e))
    }
}

/// The changing part of a process list entry.
#[derive(Debug, Clone, Default)]
pub struct Detail {
    /// User.
    pub user: String,
    /// Current schema.
    pub database: Option<String>,
    /// `Query`, `Execute`, `Sleep`, …
    pub command: &'static str,
    /// What it is doing; empty when nothing special.
    pub state: &'static str,
    /// Statement text.
    pub info: Option<String>,
    /// The plan of the statement it runs.
    pub(crate) plan: Option<RunningPlan>,
    /// Begin of the transaction that is open between statements, microseconds since the epoch.
    pub transaction: Option<i64>,
}

impl Process {
    /// A query of this cost runs.
    pub(crate) fn note_cost(&self, cost: f64) {
        self.last_cost.store(cost.to_bits(), Ordering::Relaxed);
    }

    /// What the last query cost: Last_query_cost.
    pub(crate) fn last_cost(&self) -> f64 {
        f64::from_bits(self.last_cost.load(Ordering::Relaxed))
    }

    /// How its client is connected.
    pub fn connection(&self) -> &Connection {
        &self.connection
    }

    /// Host as accounts see it.
    pub fn host(&self) -> &str {
        &self.connection.host
    }

    /// The address of its client without the port; empty where it has none.
    pub(crate) fn address(&self) -> &str {
        self.peer
            .rsplit_once(':')
            .map_or("", |(address, _)| address)
    }

    /// Does it run what another server has logged?
    pub(crate) fn is_applier(&self) -> bool {
        self.connection.thread == REPLICA_WORKER
    }

    /// Its last statements, and sums by command.
    pub(crate) fn history(&self) -> &Mutex<History> {
        &self.history
    }

    /// What it is doing; empty when nothing special.
    pub(crate) fn state(&self) -> String {
        let stage = self.progress.shown();
        stage.map_or_else(
            || self.detail.lock().state.to_owned(),
            |stage| stage.state(),
        )
    }

    /// A copy of the changing part.
    pub fn detail(&self) -> Detail {
        self.detail.lock().clone()
    }

    /// Is it a session of this user? What serves the server itself is nobody's, whatever it is called.
    pub fn is_of(&self, user: &str) -> bool {
        !self.connection.inside && self.detail.lock().user == user
    }

    /// Does it wait for its client?
    pub fn is_idle(&self) -> bool {
        self.detail.lock().command == "Sleep"
    }

    /// When the current state began, microseconds since the epoch.
    pub fn since_micros(&self) -> i64 {
        self.since.load(Ordering::Relaxed)
    }

    /// Changes what the list shows.
    pub fn update(&self, now_micros: i64, change: impl FnOnce(&mut Detail)) {
        self.since.store(now_micros, Ordering::Relaxed);
        change(&mut self.detail.lock());
    }

    /// Shows the position of a snapshot, or that there is none any more.
    pub(crate) fn show_snapshot(&self, position: Option<Position>) {
        *self.snapshot.lock() = position;
    }

    /// The position of the snapshot of its transaction.
    pub(crate) fn snapshot(&self) -> Option<Position> {
        self.snapshot.lock().clone()
    }

    /// Shows what a statement waits for; empty: it goes on.
    pub fn show_state(&self, state: &'static str) {
        self.detail.lock().state = state;
    }

    /// Shows what a statement runs.
    pub(crate) fn show_plan(&self, plan: RunningPlan) {
        self.detail.lock().plan = Some(plan);
    }

    /// Shows a statement's beginning. Reuses the text's buffer.
    pub fn begin(&self, now_micros: i64, command: &'static str, sql: &[u8]) {
        self.since.store(now_micros, Ordering::Relaxed);
        let mut detail = self.detail.lock();
        detail.command = command;
        detail.plan = None;
        let info = detail.info.get_or_insert_default();
        info.clear();
        match std::str::from_utf8(&sql[..sql.len().min(MAX_INFO)]) {
            Ok(text) => info.push_str(text),
            Err(_) => info.push_str(&String::from_utf8_lossy(&sql[..sql.len().min(MAX_INFO)])),
        }
    }

    /// Shows another text as the statement that runs: what one says inside of a program. Gives the one before.
    pub fn show_text(&self, text: String) -> String {
        let mut detail = self.detail.lock();
        detail.info.replace(text).unwrap_or_default()
    }

    /// Shows that the session waits for its client. Returns how long the last state lasted,
    /// microseconds.
    pub fn idle(&self, now_micros: i64, in_transaction: bool) -> i64 {
        let since = self.since.load(Ordering::Relaxed);
        self.since.store(now_micros, Ordering::Relaxed);
        let mut detail = self.detail.lock();
        detail.command = "Sleep";
        detail.state = "";
        detail.plan = None;
        detail.transaction = in_transaction.then(|| detail.transaction.unwrap_or(since));
        if let Some(info) = &mut detail.info {
            info.clear();
            info.shrink_to(256);
        }
        now_micros - since
    }

    /// Lets KILL end the row lock waits of a transaction.
    pub fn set_canceller(&self, canceller: Option<WaitCanceller>) {
        *self.canceller.lock() = canceller;
    }

    /// What its transaction waits for and what it has locked, at most `limit` locks.
    pub(crate) fn locks(&self, limit: usize) -> Vec<LockInfo> {
        // Not under the lock: the session does not wait for who looks at it.
        let canceller = self.canceller.lock().clone();
        canceller.map_or_else(Vec::new, |c| c.locks(limit))
    }

    /// The wait for a lock that its transaction is in, with at most `limit` of those in its way.
    pub(crate) fn lock_wait(&self, limit: usize) -> Option<LockWait> {
        let canceller = self.canceller.lock().clone();
        canceller?.wait(limit)
    }

    /// Its transaction, as others' waits name it.
    pub(crate) fn lock_owner(&self) -> Option<OwnerId> {
        let canceller = self.canceller.lock().clone();
        canceller.map(|canceller| canceller.owner())
    }

    /// How many entries its transaction has written into each tree.
    pub(crate) fn written(&self) -> Vec<(TreeId, u64)> {
        let canceller = self.canceller.lock();
        canceller.as_ref().map_or_else(Vec::new, |c| c.written())
    }

    /// What its transaction, or the last one, began with.
    pub(crate) fn terms(&self) -> Terms {
        Terms::from_byte(self.terms.load(Ordering::Relaxed))
    }

    /// What PERFORMANCE_SCHEMA measures of it.
    pub(crate) fn measured(&self) -> u8 {
        self.measured.load(Ordering::Relaxed)
    }

    /// Has PERFORMANCE_SCHEMA measure something else. What it was before.
    pub(crate) fn set_measured(&self, flags: u8) -> u8 {
        self.measured.swap(flags, Ordering::Relaxed)
    }

    /// A transaction begins.
    pub(crate) fn note_terms(&self, terms: Terms) {
        self.terms.store(terms.to_byte(), Ordering::Relaxed);
    }

    /// Does its transaction wait for the one of another session?
    pub(crate) fn waits_for(&self, other: &Process) -> bool {
        // One lock after the other: both may be the same session's.
        let own = self.canceller.lock().clone();
        let others = other.canceller.lock().clone();
        matches!((own, others), (Some(own), Some(other)) if own.waits_for(&other))
    }

    /// Has the task woken when the session is killed.
    pub(crate) fn wake_on_kill(&self, waker: &Waker) {
        *self.wake.task.lock() = Some(waker.clone());
    }

    /// Is the current statement or the session killed?
    pub fn is_killed(&self) -> bool {
        self.kill.load(Ordering::Relaxed) != ALIVE
    }

    /// The same, and the server does not go down.
    pub(crate) fn is_killed_alone(&self) -> bool {
        matches!(
            self.kill.load(Ordering::Relaxed),
            KILL_QUERY | KILL_CONNECTION
        )
    }

    /// What is killed stays so, whatever begins next.
    pub(crate) fn stay_killed(&self) {
        if self.is_killed() {
            self.mark(KILL_CONNECTION);
        }
    }

    /// The error of a killed statement, if it is killed.
    pub fn kill_error(&self) -> Option<SqlError> {
        #[cfg(test)]
        self.count_look();
        match self.kill.load(Ordering::Acquire) {
            ALIVE => None,
            SHUT_DOWN => Some(errors::shutdown_in_progress()),
            _ => Some(interrupted()),
        }
    }

    /// The session panics when it looks whether it is killed, after `looks` looks without one.
    #[cfg(test)]
    pub(crate) fn panic_after(&self, looks: Option<u32>) {
        *self.panic_after.lock() = looks;
    }

    #[cfg(test)]
    fn count_look(&self) {
        let mut looks = self.panic_after.lock();
        *looks = match *looks {
            Some(0) => panic!("injected"),
            left => left.map(|n| n - 1),
        };
    }

    /// A new statement begins: a KILL QUERY that came too late is forgotten.
    pub fn clear_query_kill(&self) {
        // A relaxed load first keeps the common case free of a bus lock.
        if self.kill.load(Ordering::Relaxed) == KILL_QUERY {
            let _ =
                self.kill
                    .compare_exchange(KILL_QUERY, ALIVE, Ordering::AcqRel, Ordering::Acquire);
        }
    }

    /// KILL QUERY or KILL CONNECTION.
    pub fn kill(&self, connection: bool) {
        let value = if connection {
            KILL_CONNECTION
        } else {
            KILL_QUERY
        };
        let reason = if connection {
            CancelReason::SessionKilled
        } else {
            CancelReason::StatementKilled
        };
        self.interrupt(value, reason);
        if connection {
            (self.on_kill)();
        }
    }

    /// KILL CONNECTION by another session: what runs is not answered any more.
    pub(crate) fn cut_off(&self) {
        // Before the kill, so that who sees the kill sees this.
        self.is_cut_off.store(true, Ordering::Release);
        self.kill(true);
    }

    /// Has another session ended the connection?
    pub(crate) fn is_cut_off(&self) -> bool {
        self.is_cut_off.load(Ordering::Relaxed)
    }

    fn mark(&self, value: u8) {
        self.kill.fetch_max(value, Ordering::AcqRel);
    }

    fn interrupt(&self, value: u8, reason: CancelReason) {
        self.mark(value);
        if let Some(canceller) = &*self.canceller.lock() {
            canceller.cancel(reason);
        }
        *self.wake.generation.lock() += 1;
        self.wake.changed.notify_all();
        let task = self.wake.task.lock().take();
        if let Some(task) = task {
            task.wake();
        }
    }

    /// Parks until `deadline` or a kill. True when killed.
    pub fn sleep_until(&self, deadline: Instant) -> bool {
        let mut generation = self.wake.generation.lock();
        while !self.is_killed() {
            if self
                .wake
                .changed
                .wait_until(&mut generation, deadline)
                .timed_out()
            {
                return self.is_killed();
            }
        }
        true
    }
}

/// All sessions, and the user-level locks that end with them.
#[derive(Default)]
pub struct Registry {
    processes: RwLock<BTreeMap<u64, Arc<Process>>>,
    /// How many of them have no client; written under the write lock of `processes`.
    inside: AtomicUsize,
    /// What sessions did that are gone; written under the write lock of `processes`.
    gone: Counts,
    /// Sums by command of sessions that are gone, by user and host.
    gone_sums: Mutex<BTreeMap<(String, String), ByCommand>>,
    /// How often each user came from each host.
    logins: Mutex<BTreeMap<(String, String), u64>>,
    /// Locks that sessions hold by name.
    pub(crate) user_locks: UserLocks,
    /// The server goes down.
    is_closed: AtomicBool,
}

impl Registry {
    /// Registers a session.
    pub fn add(
        &self,
        id: u64,
        user: &str,
        peer: String,
        connection: Connection,
        now_micros: i64,
        on_kill: Box<dyn Fn() + Send + Sync>,
    ) -> Arc<Process> {
        self.count_login(user, &connection.host);
        let process = Arc::new(Process {
            id,
            peer,
            connection,
            kill: AtomicU8::new(ALIVE),
            is_cut_off: AtomicBool::new(false),
            since: AtomicI64::new(now_micros),
            detail: Mutex::new(Detail {
                user: user.to_owned(),
                command: "Sleep",
                ..Detail::default()
            }),
            canceller: Mutex::new(None),
            terms: AtomicU8::new(0),
            measured: AtomicU8::new(INSTRUMENTED | REMEMBERED),
            wake: WakeList::default(),
            snapshot: Mutex::new(None),
            counts: Counts::default(),
            last_cost: AtomicU64::new(0),
            progress: Progress::default(),
            history: Mutex::default(),
            on_kill,
            #[cfg(test)]
            panic_after: Mutex::new(None),
        });
        let mut processes = self.processes.write();
        let replaced = processes.insert(id, process.clone());
        self.count_inside(Some(&process), replaced.as_deref());
        drop(processes);
        // Behind the entry: `shut_down` sees that, or this sees the server's end.
        if self.is_closed.load(Ordering::SeqCst) {
            process.mark(SHUT_DOWN);
        }
        process
    }

    fn count_login(&self, user: &str, host: &str) {
        let mut logins = self.logins.lock();
        let key = (user.to_owned(), host.to_owned());
        if logins.len() < MAX_LOGINS || logins.contains_key(&key) {
            *logins.entry(key).or_default() += 1;
        }
    }

    /// How often each user came from each host; of the first [`MAX_LOGINS`] of them.
    pub(crate) fn logins(&self) -> Vec<((String, String), u64)> {
        let logins = self.logins.lock();
        logins.iter().map(|(key, n)| (key.clone(), *n)).collect()
    }

    /// Counts from now on: only who is connected has come, once for each session.
    pub(crate) fn forget_logins(&self) {
        let processes = self.list();
        self.logins.lock().clear();
        for process in processes {
            self.count_login(&process.detail().user, process.host());
        }
    }

    /// Forgets a session and its user-level locks.
    pub fn remove(&self, id: u64) {
        let mut processes = self.processes.write();
        if let Some(process) = processes.remove(&id) {
            self.count_inside(None, Some(&process));
            self.gone.absorb(&process.counts);
            self.absorb_sums(&process);
        }
        drop(processes);
        self.user_locks.release_all(id);
    }

    fn absorb_sums(&self, process: &Process) {
        let key = (process.detail().user, process.host().to_owned());
        let mut gone = self.gone_sums.lock();
        if gone.len() < MAX_LOGINS || gone.contains_key(&key) {
            let all = gone.entry(key).or_default();
            statements::merge(all, process.history.lock().sums());
        }
    }

    /// Sums by command of all sessions, by user and host.
    pub(crate) fn sums_by_account(&self) -> BTreeMap<(String, String), ByCommand> {
        let processes = self.processes.read();
        let mut all = self.gone_sums.lock().clone();
        for process in processes.values() {
            let key = (process.detail().user, process.host().to_owned());
            let sums = all.entry(key).or_default();
            statements::merge(sums, process.history.lock().sums());
        }
        all
    }

    /// Forgets the sums by command of all sessions.
    pub(crate) fn forget_sums(&self) {
        let processes = self.processes.read();
        self.gone_sums.lock().clear();
        for process in processes.values() {
            process.history.lock().forget_sums();
        }
    }

    /// FLUSH STATUS: the session counts from zero again.
    pub(crate) fn flush_counts(&self, process: &Process) {
        let _no_reader = self.processes.write();
        self.gone.absorb(&process.counts);
    }

    /// What all sessions have done, in the order of the counters.
    pub(crate) fn sums(&self) -> Vec<u64> {
        let mut sums = Counts::zeros();
        let processes = self.processes.read();
        self.gone.add_to(&mut sums);
        for process in processes.values() {
            process.counts.add_to(&mut sums);
        }
        sums
    }

    /// Everybody, by connection id.
    pub fn list(&self) -> Vec<Arc<Process>> {
        self.processes.read().values().cloned().collect()
    }

    /// The server goes down: what runs or waits ends with error 1053, and so does what newcomers begin.
    pub fn shut_down(&self) {
        self.is_closed.store(true, Ordering::SeqCst);
        let all = self.list();
        // Everybody is marked before anybody is woken: what one rolls back lets nobody through who waits for it.
        all.iter().for_each(|p| p.mark(SHUT_DOWN));
        for p in &all {
            p.interrupt(SHUT_DOWN, CancelReason::Shutdown);
        }
    }

    /// One session.
    ///
    /// # Errors
    /// 1094.
    pub fn find(&self, id: u64) -> SqlResult<Arc<Process>> {
        self.find_where(id, |_| true)
    }

    /// A session that may be stopped: as in MySQL no daemon is.
    ///
    /// # Errors
    /// 1094.
    pub(super) fn find_to_kill(&self, id: u64) -> SqlResult<Arc<Process>> {
        self.find_where(id, |process| process.detail().command != DAEMON)
    }

    fn find_where(&self, id: u64, fits: fn(&Process) -> bool) -> SqlResult<Arc<Process>> {
        let found = self.processes.read().get(&id).cloned();
        found
            .filter(|process| fits(process))
            .ok_or_else(|| SqlError::new(1094, "HY000", format!("Unknown thread id: {id}")))
    }

    /// How many sessions there are.
    pub fn count(&self) -> usize {
        self.processes.read().len()
    }

    /// One came, another went; the caller holds the write lock of `processes`.
    fn count_inside(&self, came: Option<&Process>, gone: Option<&Process>) {
        let inside = |p: Option<&Process>| usize::from(p.is_some_and(|p| p.connection.inside));
        self.inside.fetch_add(inside(came), Ordering::Relaxed);
        self.inside.fetch_sub(inside(gone), Ordering::Relaxed);
    }

    /// How many of them serve a client.
    pub fn clients(&self) -> usize {
        let processes = self.processes.read();
        processes.len() - self.inside.load(Ordering::Relaxed)
    }
}
