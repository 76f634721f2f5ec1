//! What a receiver and its channel know of each other.
//!
//! Neighbours: the server's receiver runs in a thread of its own, asks here where to begin, and appends to the relay
//! log; `channel` starts and stops it; `status` shows. **Invariant**: a receiver that was told to stop has appended its
//! last event when [`Reception::stop`] returns.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use esker_binlog::event::control::Rotate;
use esker_binlog::event::{Header, Stamp};
use esker_binlog::gtid::GtidSet;
use esker_binlog::relay::RelayLog;
use parking_lot::{Condvar, Mutex};

use super::{Channel, ChannelSettings};
use crate::applier::Failure;
use crate::instance::Instance;
use crate::session::listed::ListedThread;

/// How often a receiver looks whether there is space in the relay log again.
const SPACE_LOOK: Duration = Duration::from_millis(20);

/// What a receiver does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReceiverState {
    /// There is none.
    Off,
    /// It opens a connection.
    Connecting,
    /// It logs in, and asks the source about itself.
    Handshake,
    /// It asks for events.
    Registered,
    /// Events come.
    Streaming,
    /// It waits before it tries again.
    Backoff,
    /// The relay log is as large as it may be: it waits for the applier.
    NoSpace,
    /// There is no space on the disk for the relay log.
    FullDisk,
}

impl ReceiverState {
    /// As SHOW REPLICA STATUS has it.
    pub(super) fn text(self) -> &'static str {
        match self {
            Self::Off => "",
            Self::Connecting => "Connecting to source",
            Self::Handshake => "Checking source version",
            Self::Registered => "Requesting binlog dump",
            Self::Streaming => "Waiting for source to send event",
            Self::Backoff => "Waiting to reconnect after a failed source event read",
            Self::NoSpace => "Waiting for the replica SQL thread to free relay log space",
            Self::FullDisk => "Waiting for disk space",
        }
    }
}

/// From where on events are wanted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StartFrom {
    /// A file and an offset; an empty file is the first one.
    Position(String, u64),
    /// All transactions but these.
    Gtids(GtidSet),
    /// All that come behind these of MariaDB, a list as `gtid_slave_pos`.
    Maria(String),
}

/// What others see of a receiver.
#[derive(Debug, Clone)]
pub(crate) struct ReceiverView {
    pub(crate) state: ReceiverState,
    pub(crate) failure: Option<Failure>,
    pub(crate) source_id: u32,
    pub(crate) source_uuid: String,
    pub(crate) heartbeats: u64,
    pub(crate) heartbeat_micros: i64,
    /// The source waits for acknowledgements.
    pub(crate) is_semi_sync: bool,
}

/// Where a receiver connects to.
struct Target {
    at: (String, u16),
    /// The sources that were tried in this round, which began when events came or all had been tried.
    tried: Vec<(String, u16)>,
}

/// Where a receiver goes whose source does not answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GoesOver {
    /// Nowhere: no other source is listed, or none is wanted.
    Nowhere,
    /// To a source that was not tried since events came.
    ToAnother,
    /// To the first one again, for all were tried.
    Round,
}

/// One life of a receiver, from START to STOP REPLICA.
pub struct Reception {
    /// How to reach the source, and as whom; where it is says [`Self::target`].
    pub settings: ChannelSettings,
    /// Where events go.
    pub relay: Arc<RelayLog>,
    name: String,
    instance: Arc<Instance>,
    channel: Weak<Channel>,
    view: Mutex<ReceiverView>,
    ended: Condvar,
    is_stopping: AtomicBool,
    target: Mutex<Target>,
    /// Ends the connection, so that nobody waits for its next packet.
    hang_up: Mutex<Option<Box<dyn Fn() + Send>>>,
    listed: OnceLock<ListedThread>,
}

impl Reception {
    pub(super) fn new(
        instance: &Arc<Instance>,
        channel: &Arc<Channel>,
        settings: ChannelSettings,
        relay: Arc<RelayLog>,
    ) -> Self {
        let view = ReceiverView {
            state: ReceiverState::Connecting,
            failure: None,
            source_id: 0,
            source_uuid: String::new(),
            heartbeats: 0,
            heartbeat_micros: 0,
            is_semi_sync: false,
        };
        let target = (settings.host.clone(), settings.port);
        Self {
            settings,
            relay,
            name: channel.name().to_owned(),
            instance: instance.clone(),
            channel: Arc::downgrade(channel),
            view: Mutex::new(view),
            ended: Condvar::new(),
            is_stopping: AtomicBool::new(false),
            target: Mutex::new(Target {
                tried: vec![target.clone()],
                at: target,
            }),
            hang_up: Mutex::new(None),
            listed: OnceLock::new(),
        }
    }

    /// Stands in the process list as `id` until the receiver ends.
    pub(super) fn list(self: &Arc<Self>, id: u64) {
        let this = Arc::downgrade(self);
        let on_kill = move || {
            if let Some(reception) = this.upgrade() {
                reception.tell_to_end();
            }
        };
        let what = ("connecting host", "Connect");
        let thread = "thread/sql/replica_io";
        let listed = ListedThread::new(&self.instance, id, thread, what, Box::new(on_kill));
        listed.show_state(self.view.lock().state.text());
        assert!(self.listed.set(listed).is_ok(), "it is listed once");
    }

    /// The channel's name.
    pub fn channel(&self) -> &str {
        &self.name
    }

    /// The database that receives.
    pub fn instance(&self) -> &Instance {
        &self.instance
    }

    /// Where the stream is to begin.
    ///
    /// # Errors
    /// What was applied cannot be read.
    pub fn start_from(&self) -> esker_types::SqlResult<StartFrom> {
        let received = self.relay.received();
        if !self.settings.auto_position && !self.settings.maria_gtid {
            return Ok(StartFrom::Position(
                received.end.source_file,
                received
                    .end
                    .source_pos
                    .max(esker_binlog::files::FIRST_EVENT),
            ));
        }
        if self.settings.maria_gtid {
            let mut known = crate::applier::slave_pos(&self.instance)?;
            received.maria.iter().for_each(|gtid| known.raise(*gtid));
            return Ok(StartFrom::Maria(known.to_string()));
        }
        let state = crate::applier::load(&self.instance, &self.name)?;
        let mut known = self.instance.gtid_executed();
        known.union(&state.all_gtids());
        known.union(&received.gtids);
        Ok(StartFrom::Gtids(known))
    }

    /// Host and port of the source.
    pub fn target(&self) -> (String, u16) {
        self.target.lock().at.clone()
    }

    /// The source does not answer: goes over to the next one that is listed, round and round.
    ///
    /// # Errors
    /// What is configured cannot be kept.
    pub fn goes_over(&self) -> esker_types::SqlResult<GoesOver> {
        let Some(channel) = self.channel.upgrade() else {
            return Ok(GoesOver::Nowhere);
        };
        let mut target = self.target.lock();
        let mut how = GoesOver::ToAnother;
        let mut next = channel.go_over(&self.instance, &target.tried)?;
        if next.is_none() {
            how = GoesOver::Round;
            target.tried.clear();
            next = channel.go_over(&self.instance, &[])?;
        }
        let Some(next) = next else {
            return Ok(GoesOver::Nowhere);
        };
        tracing::info!(
            "replication channel '{}': the source is {}:{} now",
            self.name,
            next.0,
            next.1
        );
        target.tried.push(next.clone());
        target.at = next;
        Ok(how)
    }

    /// Events come: what was tried before may be tried again.
    pub fn has_come_over(&self) {
        let mut target = self.target.lock();
        target.tried = vec![target.at.clone()];
    }

    /// The receiver has come this far.
    pub fn enter(&self, state: ReceiverState) {
        if let Some(listed) = self.listed.get() {
            listed.show_state(state.text());
        }
        let mut view = self.view.lock();
        view.state = state;
        if state == ReceiverState::Streaming {
            view.failure = None;
        }
    }

    /// Who the source is.
    pub fn met(&self, server_id: u32, uuid: &str) {
        let mut view = self.view.lock();
        view.source_id = server_id;
        uuid.clone_into(&mut view.source_uuid);
    }

    /// Is the source to wait for acknowledgements, if it can?
    pub fn wants_semi_sync(&self) -> bool {
        self.instance
            .variable_is_on("rpl_semi_sync_replica_enabled")
    }

    /// Whether it does.
    pub fn set_semi_sync(&self, is_semi_sync: bool) {
        self.view.lock().is_semi_sync = is_semi_sync;
    }

    /// What has gone wrong last.
    pub fn failed(&self, code: u16, text: &str) {
        let failure = self.failure(code, text);
        self.view.lock().failure = Some(failure);
    }

    fn failure(&self, code: u16, text: &str) -> Failure {
        tracing::warn!("replication channel '{}': receiver: {text}", self.name);
        Failure {
            code,
            text: text.to_owned(),
            micros: self.instance.now_micros(),
        }
    }

    /// The receiver ends with this: whoever sees why may start another one.
    pub fn gives_up(&self, code: u16, text: &str) {
        let failure = self.failure(code, text);
        self.end_with(Some(failure));
    }

    /// The source is alive.
    pub fn heartbeat(&self) {
        let mut view = self.view.lock();
        view.heartbeats += 1;
        view.heartbeat_micros = self.instance.now_micros();
    }

    /// Appends an event.
    ///
    /// # Errors
    /// Of the relay log.
    pub fn append(&self, header: &Header, body: &[u8]) -> esker_binlog::Result<()> {
        self.wait_for_space()?;
        let (max, now) = self.bounds();
        self.relay.append(header, body, max, now)
    }

    /// Waits while the relay log is larger than `relay_log_space_limit`, unless the applier waits for more: what it has
    /// may end in the middle of a transaction.
    fn wait_for_space(&self) -> esker_binlog::Result<()> {
        let limit = self.instance.variable_u64("relay_log_space_limit");
        if limit == 0 || self.relay.space() <= limit {
            return Ok(());
        }
        let state = std::mem::replace(&mut self.view.lock().state, ReceiverState::NoSpace);
        self.enter(ReceiverState::NoSpace);
        loop {
            // What has come is to be seen, and what is applied is to go.
            self.publish(false)?;
            let Some(channel) = self.channel.upgrade() else {
                break;
            };
            let is_over = self.relay.space() <= limit || channel.wants_more();
            if is_over || self.pause(SPACE_LOOK) {
                break;
            }
        }
        self.enter(state);
        Ok(())
    }

    /// The source says where it stands: with GTIDs it has left out what is known here.
    ///
    /// # Errors
    /// Of the relay log.
    pub fn advance(&self, stamp: Stamp, place: Rotate<'_>) -> esker_binlog::Result<()> {
        if !self.settings.auto_position {
            return Ok(());
        }
        let (max, now) = self.bounds();
        self.relay.advance(stamp, place, max, now)
    }

    /// How large a relay log may be, and what the time is.
    fn bounds(&self) -> (u64, u64) {
        let instance = &self.instance;
        let max = match instance.variable_u64("max_relay_log_size") {
            0 => instance.variable_u64("max_binlog_size"),
            max => max,
        };
        (max, instance.now_micros().max(0) as u64)
    }

    /// Makes what was appended known, and removes files that are applied. With `is_owed` it is durable then: the source
    /// hears that it is safe here.
    ///
    /// # Errors
    /// Of the relay log.
    pub fn publish(&self, is_owed: bool) -> esker_binlog::Result<()> {
        let sync_every = match is_owed {
            true => 1,
            false => self.instance.variable_u64("sync_relay_log"),
        };
        let published = self.relay.publish(sync_every);
        // Also where there is no space: what is removed makes some.
        if let Some(channel) = self.channel.upgrade() {
            channel.purge(&self.instance)?;
        }
        published
    }

    /// Is the receiver to end?
    pub fn is_stopping(&self) -> bool {
        let is_killed = || self.listed.get().is_some_and(ListedThread::is_killed);
        self.is_stopping.load(Ordering::Acquire) || is_killed()
    }

    /// How the connection is ended from outside.
    pub fn on_stop(&self, hang_up: Box<dyn Fn() + Send>) {
        let mut place = self.hang_up.lock();
        if self.is_stopping() {
            hang_up();
        }
        *place = Some(hang_up);
    }

    /// Waits this long, or until the receiver is to end, which it says.
    pub fn pause(&self, time: Duration) -> bool {
        let mut view = self.view.lock();
        if !self.is_stopping() {
            self.ended.wait_for(&mut view, time);
        }
        self.is_stopping()
    }

    /// The receiver's thread ends.
    pub fn has_ended(&self) {
        self.end_with(None);
    }

    fn end_with(&self, failure: Option<Failure>) {
        if let Some(listed) = self.listed.get() {
            listed.leave();
        }
        {
            let mut view = self.view.lock();
            view.state = ReceiverState::Off;
            view.is_semi_sync = false;
            view.failure = failure.or(view.failure.take());
        }
        self.ended.notify_all();
    }

    /// Tells the receiver to end, whatever it waits for.
    pub(super) fn tell_to_end(&self) {
        {
            let _view = self.view.lock();
            self.is_stopping.store(true, Ordering::Release);
        }
        self.ended.notify_all();
        if let Some(hang_up) = &*self.hang_up.lock() {
            hang_up();
        }
    }

    /// Ends the receiver, and waits for it.
    pub(super) fn stop(&self) {
        self.tell_to_end();
        let mut view = self.view.lock();
        while view.state != ReceiverState::Off {
            self.ended.wait(&mut view);
        }
    }

    pub(super) fn view(&self) -> ReceiverView {
        self.view.lock().clone()
    }
}
