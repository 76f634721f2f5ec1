//! A channel's thread: events to groups, and groups to workers.
//!
//! Neighbours: an [`EventSource`] has the events; [`Coordinator`] says who gets a group, and when; workers take them
//! from their queues. **Invariants**
//! - Facts of a group are computed when no schema change before it is still to come.
//! - A group is placed only if the ring of the channel's state has room for it.
//! - What was applied before is not applied again: by its number in the channel, or by its GTID.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use esker_binlog::apply::assemble::Assembler;
use esker_binlog::apply::coordinator::{Coordinator, Facts, Mode, Placement};
use esker_binlog::apply::filter::named_table;
use esker_binlog::apply::state::{CHECKPOINT_EVERY, RING};
use esker_binlog::apply::{EventSource, Group, Id, PartKind, Place, Shape};
use esker_binlog::event::query::{Query, Settings as QuerySettings};
use esker_binlog::event::table_map;
use esker_binlog::gtid::GtidSet;
use esker_binlog::writeset::{WriteSet, key_hash};
use esker_sql_catalog::accounts::Account;

use super::checks::admit_account;
use super::hands::{Hands, open_session};
use super::keys::KeyHasher;
use super::queues::Task;
use super::shared::Shared;
use super::source_tables::session_of;
use super::touched::touched;
use super::worker::Worker;
use super::{Failure, Until, state_of_applier, store};
use crate::session::ClientInfo;
use crate::session::listed::ListedThread;

/// How long the thread waits for events, or for workers, before it looks around.
const LOOK: Duration = Duration::from_millis(50);
/// The same while something is in flight: it may rest with locks that an earlier one waits for.
const GLANCE: Duration = Duration::from_millis(2);
/// The relay log cannot be read.
const RELAY_LOG_READ_FAILURE: u16 = 1594;

/// `init_replica` cannot be run.
const INIT_FAILED: u16 = 13145;
/// A thread of the channel is killed.
const KILLED: u16 = 1756;

/// The state of the thread.
pub(super) struct Feed {
    shared: Arc<Shared>,
    source: Box<dyn EventSource>,
    assembler: Assembler,
    coordinator: Coordinator,
    hasher: KeyHasher,
    /// The last checkpoint in the database.
    checkpoint: u64,
    /// Where the next group begins.
    begin: Place,
    /// What of `SQL_AFTER_GTIDS` has not been placed.
    awaited: Option<GtidSet>,
    /// Some of `SQL_BEFORE_GTIDS` are executed already.
    is_behind: bool,
    /// `SQL_AFTER_MTS_GAPS`: no group behind this one is applied.
    gaps_end: Option<u64>,
    /// The last group that was placed, or found done.
    last: u64,
    threads: Vec<JoinHandle<()>>,
    listed: ListedThread,
    /// What the process list says of it.
    shown: &'static str,
}

/// Why the thread ends.
enum End {
    /// It was told to, or has come to where it was to stop.
    Stopped,
    Failed(Failure),
}

impl Feed {
    pub(super) fn new(shared: Arc<Shared>, source: Box<dyn EventSource>) -> Self {
        let rules = &shared.rules;
        let (low, end) = shared.progress(|p| (p.low(), p.checkpoint().end.clone()));
        let executed = |shared: &Shared| {
            let mut executed = shared.instance.gtid_executed();
            executed.union(&shared.progress(|p| p.state().all_gtids()));
            executed
        };
        let awaited = match &shared.settings.until {
            Some(Until::AfterGtids(set)) => {
                let mut awaited = set.clone();
                awaited.subtract(&executed(&shared));
                Some(awaited)
            }
            _ => None,
        };
        let is_behind = match &shared.settings.until {
            Some(Until::BeforeGtids(set)) => set.intersects(&executed(&shared)),
            _ => false,
        };
        let gaps_end = match &shared.settings.until {
            Some(Until::AfterGaps) => {
                let ahead = shared.progress(|p| p.state().ahead.keys().next_back().copied());
                Some(ahead.unwrap_or(low))
            }
            _ => None,
        };
        let id = (shared.settings.connection_ids)();
        let killed = Arc::downgrade(&shared);
        let listed = ListedThread::new(
            &shared.instance,
            id,
            "thread/sql/replica_sql",
            ("", "Query"),
            Box::new(move || {
                if let Some(shared) = killed.upgrade() {
                    shared.interrupt();
                }
            }),
        );
        Self {
            listed,
            shown: "",
            begin: end.clone(),
            awaited,
            is_behind,
            gaps_end,
            last: low,
            assembler: Assembler::new(low + 1, end, rules.max_bytes),
            coordinator: Coordinator::new(
                rules.parallel,
                rules.workers,
                rules.pending_bytes,
                rules.in_order,
            ),
            hasher: KeyHasher::default(),
            checkpoint: 0,
            threads: Vec::new(),
            source,
            shared,
        }
    }

    /// Applies until the channel stops.
    pub(super) fn run(mut self) {
        let end = match self.start_workers() {
            Ok(()) => self.feed(),
            Err(end) => end,
        };
        if let End::Failed(failure) = end {
            let next = self.shared.progress(|p| p.low()) + 1;
            self.shared.fail(next, failure);
        }
        self.shared.queues.close();
        while self.threads.iter().any(|thread| !thread.is_finished()) {
            self.shared.look();
            std::thread::sleep(GLANCE);
        }
        for thread in self.threads.drain(..) {
            // A worker that has panicked has said so.
            let _ = thread.join();
        }
        // Whoever stops a channel wants to see what it has done; plain reads leave out what is not durable.
        let engine = &self.shared.instance.engine;
        if let Err(e) = engine.wait_durable(engine.visible_seq()).block() {
            tracing::warn!("replication: {e}");
        }
        self.shared.has_ended();
    }

    fn start_workers(&mut self) -> Result<(), End> {
        let shared = &self.shared;
        if let Some(account) = &shared.settings.checks_user {
            let admitted = admit_account(&shared.instance, &shared.channel, account);
            admitted.map_err(|e| self.failed(e.code, &e.message))?;
        }
        self.initialize()?;
        for number in 0..self.coordinator.workers() {
            self.shared.hands[number].begin(&self.shared, number);
            let shared = self.shared.clone();
            let thread = std::thread::Builder::new()
                .name(format!("replica-{number}"))
                .spawn(move || Worker::run(&shared, number));
            let thread = thread.map_err(|e| self.failed(1135, &format!("no thread: {e}")))?;
            self.threads.push(thread);
        }
        self.write_checkpoint()
    }

    /// Runs the statements of `init_replica`.
    fn initialize(&self) -> Result<(), End> {
        let shared = &self.shared;
        let text = shared.instance.variable_text("init_replica");
        if text.is_empty() {
            return Ok(());
        }
        let id = (shared.settings.connection_ids)();
        let client = ClientInfo {
            multi_statements: true,
            ..ClientInfo::inside(id, Account::root(Vec::new()))
        };
        let mut session = open_session(shared, client);
        let ran = shared.while_interruptible(session.killer(), || {
            let mut ran = session.apply_text(text.as_bytes());
            while ran.is_ok() && session.start_next() {
                ran = session.finish_statement();
            }
            ran
        });
        if shared.is_stopping() {
            return Err(End::Stopped);
        }
        ran.map_err(|e| {
            let text = format!(
                "Replica SQL thread aborted. Can't execute init_replica query, MY-{:06} - '{}'",
                e.code, e.message
            );
            self.failed(INIT_FAILED, &text)
        })
    }

    fn failed(&self, code: u16, text: &str) -> End {
        End::Failed(Failure {
            code,
            text: text.to_owned(),
            micros: self.shared.instance.now_micros(),
        })
    }

    fn unreadable(&self, e: &esker_binlog::Error) -> End {
        match e {
            esker_binlog::Error::Refused(code, text) => self.failed(*code, text),
            e => {
                let place = self.assembler.place();
                let text = format!(
                    "Relay log read failure: {e}; the event behind source log {}, position {}",
                    place.source_file, place.source_pos
                );
                self.failed(RELAY_LOG_READ_FAILURE, &text)
            }
        }
    }

    fn feed(&mut self) -> End {
        if self.is_behind || self.is_all_placed() {
            return End::Stopped;
        }
        loop {
            match self.next_group() {
                Ok(Some(group)) => {
                    self.show("Reading event from the relay log");
                    if let Err(end) = self.take(group) {
                        return end;
                    }
                }
                Ok(None) => {
                    self.show(state_of_applier(&self.shared.status()));
                    self.forget_executed();
                    if self.shared.hands.iter().any(Hands::has_killed) {
                        return self.killed();
                    }
                }
                Err(end) => return end,
            }
            if self.shared.is_stopping() || self.is_all_placed() {
                return End::Stopped;
            }
            if let Err(end) = self.look_around() {
                return end;
            }
        }
    }

    /// The next group, if it comes soon.
    fn next_group(&mut self) -> Result<Option<Group>, End> {
        while !self.shared.is_stopping() {
            let pause = self.pause();
            let event = self.source.next(pause);
            let Some(event) = event.map_err(|e| self.unreadable(&e))? else {
                self.shared.look();
                let place = self.assembler.place();
                self.shared.note_read(place);
                if self.coordinator.is_idle() && !self.assembler.is_open() {
                    self.shared.note_passed(place);
                }
                return Ok(None);
            };
            let group = self.assembler.push(&event);
            if self.assembler.take_restart() {
                self.forget_source_tables()?;
            }
            if let Some(group) = group.map_err(|e| self.unreadable(&e))? {
                return Ok(Some(group));
            }
        }
        Ok(None)
    }

    /// The source has started anew: its sessions are others.
    fn forget_source_tables(&mut self) -> Result<(), End> {
        while !self.coordinator.is_idle() {
            self.wait(1)?;
        }
        let shared = &self.shared;
        shared.settings.temporary.clear(&shared.instance.engine);
        Ok(())
    }

    /// Shows in the process list what it does.
    fn show(&mut self, state: &'static str) {
        if self.shown != state {
            self.shown = state;
            self.listed.show_state(state);
        }
    }

    /// One of the threads is killed: what has begun is ended, and nothing else is.
    fn killed(&self) -> End {
        self.shared.stop();
        self.failed(
            KILLED,
            "... The replica coordinator and worker threads are stopped, possibly leaving data in inconsistent state. A \
             restart should restore consistency automatically, although using non-transactional storage for data or \
             info tables or DDL queries could lead to problems. In such cases you have to examine your data (see \
             documentation for details).",
        )
    }

    /// Learns what workers have done; writes a checkpoint if it is time.
    fn look_around(&mut self) -> Result<(), End> {
        if self.listed.is_killed_alone() {
            return Err(self.killed());
        }
        for ordinal in self.shared.take_ended() {
            self.coordinator.ended(ordinal);
        }
        let low = self.shared.progress(|p| p.low());
        match low - self.checkpoint >= CHECKPOINT_EVERY {
            true => self.write_checkpoint(),
            false => Ok(()),
        }
    }

    fn write_checkpoint(&mut self) -> Result<(), End> {
        let state = self.shared.progress(|p| p.checkpoint().clone());
        let written = store::checkpoint(&self.shared.instance, &self.shared.channel, &state);
        written.map_err(|e| self.failed(e.code, &e.message))?;
        self.checkpoint = state.low;
        Ok(())
    }

    /// How long to wait before the next look.
    fn pause(&self) -> Duration {
        match self.coordinator.is_idle() {
            true => LOOK,
            false => GLANCE,
        }
    }

    /// Waits until workers have ended so many groups, or for a glance.
    fn wait(&mut self, count: usize) -> Result<(), End> {
        let ended = self.shared.wait_ended(count, self.pause());
        if ended.is_empty() {
            self.shared.look();
        }
        for ordinal in ended {
            self.coordinator.ended(ordinal);
        }
        match self.shared.is_stopping() {
            true => Err(End::Stopped),
            false => self.look_around(),
        }
    }

    /// Gives a group to a worker, unless it is done or the channel ends before it.
    fn take(&mut self, mut group: Group) -> Result<(), End> {
        let ordinal = group.ordinal;
        let is_ahead = self.shared.progress(|p| p.has(ordinal, &Id::Position));
        if is_ahead {
            self.last = ordinal;
            return Ok(());
        }
        if self.is_last(&group) {
            return Err(End::Stopped);
        }
        self.shared.processes(&group);
        if self.is_own(&group) {
            group.skip();
            if self.is_lost(&group) {
                // It stays so, and may still be fetched under another number of the server.
                group.id = Id::Position;
            }
        } else if self.shared.settings.overtaken.has(&group) {
            // Nor does it say how far its domain is.
            group.skip();
            group.id = Id::Position;
        } else if self.is_unwanted(&group) || self.shared.takes_skip(group.events()) {
            group.skip();
        }
        let filters = &self.shared.settings.filters;
        let stripped = filters.strip(&mut group, &touched);
        stripped.map_err(|e| self.unreadable(&e))?;
        self.outwait_delay(&group)?;
        while ordinal > self.checkpoint + RING {
            self.wait(1)?;
        }
        let facts = self.facts(&group).map_err(|e| self.unreadable(&e))?;
        let placement = loop {
            match self.coordinator.place(&facts) {
                Placement::Wait(count) => self.wait(count)?,
                placement => break placement,
            }
        };
        let (worker, after, is_barrier) = match placement {
            Placement::Worker { worker, after } => (worker, after, false),
            Placement::Barrier(worker) => (worker, Vec::new(), true),
            Placement::Wait(_) => unreachable!("it was waited for"),
        };
        self.note_placed(&group);
        let group = Box::new(group);
        self.shared.queues.push(worker, Task { group, after });
        // What comes behind it is to be seen with what it does.
        while is_barrier && !self.coordinator.is_idle() {
            self.wait(1)?;
        }
        Ok(())
    }

    /// It says that it was executed here first.
    fn is_own(&self, group: &Group) -> bool {
        group.server_id == self.shared.rules.own_id && group.server_id != 0
    }

    /// This server does not have what it has executed once: it was made anew.
    fn is_lost(&self, group: &Group) -> bool {
        let binlog = &self.shared.instance.binlog;
        match &group.id {
            Id::Gtid(gtid) => !binlog.owned.is_executed(gtid, || binlog.executed()),
            Id::Maria(_) | Id::Position => false,
        }
    }

    /// It is of a server that does not count, or has come another way.
    fn is_unwanted(&self, group: &Group) -> bool {
        let shared = &self.shared;
        shared.settings.ignored_servers.contains(&group.server_id)
            || shared.progress(|p| p.has(group.ordinal, &group.id))
    }

    /// Is this group where the channel is to stop?
    fn is_last(&self, group: &Group) -> bool {
        let begin = &self.begin;
        match &self.shared.settings.until {
            None => false,
            Some(Until::BeforeGtids(set)) => match &group.id {
                Id::Gtid(gtid) => set.contains(gtid),
                Id::Maria(_) | Id::Position => false,
            },
            Some(Until::AfterGtids(_) | Until::AfterGaps) => self.is_all_placed(),
            Some(Until::SourcePosition(file, position)) => {
                (begin.source_file.as_str(), begin.source_pos) >= (file.as_str(), *position)
            }
            Some(Until::RelayPosition(place)) => begin.relay >= *place,
        }
    }

    /// Are all groups of `SQL_AFTER_GTIDS` or `SQL_AFTER_MTS_GAPS` applied, or with the workers?
    fn is_all_placed(&self) -> bool {
        self.awaited.as_ref().is_some_and(GtidSet::is_empty)
            || self.gaps_end.is_some_and(|end| self.last >= end)
    }

    /// What is awaited may be executed by others meanwhile: by sessions, or by other channels.
    fn forget_executed(&mut self) {
        if let Some(awaited) = self.awaited.as_mut().filter(|set| !set.is_empty()) {
            awaited.subtract(&self.shared.instance.gtid_executed());
        }
    }

    fn note_placed(&mut self, group: &Group) {
        debug_assert!(group.ordinal > self.last, "groups come in order");
        self.last = group.ordinal;
        self.shared.note_placed(group.ordinal);
        self.shared.note_read(&group.end);
        self.begin.clone_from(&group.end);
        if let (Some(awaited), Id::Gtid(gtid)) = (&mut self.awaited, &group.id) {
            let mut placed = GtidSet::default();
            placed.add(gtid);
            awaited.subtract(&placed);
        }
    }

    /// Waits until the group is as old as `SOURCE_DELAY` says.
    fn outwait_delay(&mut self, group: &Group) -> Result<(), End> {
        let delay = self.shared.settings.delay.as_micros() as u64;
        if delay == 0 {
            return Ok(());
        }
        let due = group.commit_micros + delay;
        let shared = self.shared.clone();
        let now = || shared.instance.now_micros().max(0) as u64;
        self.shared.set_delayed(Some(due));
        self.show(state_of_applier(&self.shared.status()));
        while now() < due && !self.shared.is_stopping() {
            std::thread::sleep((self.pause()).min(Duration::from_micros(due - now().min(due))));
            self.shared.look();
            self.look_around()?;
        }
        self.shared.set_delayed(None);
        match self.shared.is_stopping() {
            true => Err(End::Stopped),
            false => Ok(()),
        }
    }

    /// What the coordinator must know.
    fn facts(&mut self, group: &Group) -> esker_binlog::Result<Facts> {
        let mode = self.shared.rules.parallel;
        let has_statement = group.parts.iter().any(|part| part.kind == PartKind::Query);
        let temporary = &self.shared.settings.temporary;
        let has_temporary = || session_of(group).is_some_and(|session| temporary.has(session));
        // Statements in a transaction are as the source says, or as their database is; nobody knows their keys.
        let is_ordered = matches!(mode, Mode::Database | Mode::CommitGroup);
        let is_known = !has_statement || (is_ordered && !has_temporary());
        let is_barrier = match group.shape {
            Shape::Empty => false,
            Shape::Transaction => !is_known,
            Shape::Statement | Shape::CreateAndFill | Shape::Xa => true,
        };
        let writes = match mode {
            Mode::Database => databases(group)?,
            Mode::WriteSet if !is_barrier => {
                let (catalog, filters) =
                    (&self.shared.instance.catalog, &self.shared.settings.filters);
                self.hasher.writes(group, catalog, filters)?
            }
            _ => WriteSet::Everything,
        };
        Ok(Facts {
            ordinal: group.ordinal,
            bytes: group.bytes(),
            is_barrier,
            writes,
            clock: group.clock,
        })
    }
}

/// The databases that a group changes.
fn databases(group: &Group) -> esker_binlog::Result<WriteSet> {
    let mut hashes = Vec::new();
    for part in &group.parts {
        let body = group.body(part);
        match part.kind {
            PartKind::TableMap => {
                if table_map::is_related(body)? {
                    // What its foreign keys do is in other databases, perhaps.
                    return Ok(WriteSet::Everything);
                }
                let (_, database, _) = named_table(body)?;
                hashes.push(key_hash(0, database.as_bytes()));
            }
            PartKind::Query => {
                let query = Query::parse(body)?;
                hashes.push(key_hash(0, query.schema));
                let updated = QuerySettings::parse(query.settings)?.updated_databases;
                hashes.extend(updated.iter().map(|name| key_hash(0, name.as_bytes())));
            }
            _ => {}
        }
    }
    Ok(WriteSet::Keys(hashes))
}
