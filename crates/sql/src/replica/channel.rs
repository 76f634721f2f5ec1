//! A channel: its relay log, its receiver and its applier.
//!
//! Neighbours: `statements` starts, stops and changes it; `status` shows it. **Invariants**: the lock of the parts is
//! held while threads start and stop, never by those threads; the relay log is started anew only while both are off.

use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Weak};
use std::time::Duration;

use esker_binlog::files::{Home, Names};
use esker_binlog::gtid::GtidSet;
use esker_binlog::relay::{Received, RelayConfig, RelayLog};
use esker_sql_catalog::variables::VarValue;
use esker_types::{SqlError, SqlResult, errors};
use parking_lot::{Mutex, MutexGuard, RwLock};

use super::reception::{ReceiverState, ReceiverView, Reception};
use super::settings::ChannelSettings;
use crate::applier::{
    self, Anonymous, Applier, ChannelState, MariaGtidSet, Overtaken, Place, Settings, SourceTables,
    Status, Until,
};
use crate::instance::Instance;

/// What relay logs and their indexes are called where no option names them.
const UNNAMED: &str = "relay-bin";
const UNNAMED_INDEX: &str = "relay-bin.index";

/// What START REPLICA says.
#[derive(Default)]
pub(super) struct Start {
    pub(super) receives: bool,
    pub(super) applies: bool,
    pub(super) until: Option<Until>,
    /// Instead of the account that the channel has, until it stops.
    pub(super) user: Option<String>,
    pub(super) password: Option<String>,
}

impl Start {
    /// Receiver and applier, as they are configured.
    pub(super) fn everything() -> Self {
        Self {
            receives: true,
            applies: true,
            ..Self::default()
        }
    }
}

/// What runs.
#[derive(Default)]
struct Parts {
    reception: Option<Arc<Reception>>,
    applier: Option<Arc<Applier>>,
    until: Option<Until>,
}

/// A channel.
pub(crate) struct Channel {
    name: String,
    relay: Arc<RelayLog>,
    settings: RwLock<ChannelSettings>,
    /// Held from reading settings until the changed ones are kept; nobody waits for threads or for `changing` with it,
    /// for receivers change settings, too.
    configuring: Mutex<()>,
    /// Held by who starts, stops or changes the channel.
    changing: Mutex<()>,
    parts: Mutex<Parts>,
    temporary: Arc<SourceTables>,
    retries: Arc<AtomicU64>,
    this: Weak<Self>,
}

/// What a channel is at a moment.
#[derive(Default)]
pub(crate) struct ChannelView {
    pub(crate) settings: ChannelSettings,
    pub(crate) receiver: Option<ReceiverView>,
    pub(crate) applier: Option<Status>,
    pub(super) until: Option<Until>,
    /// Transactions that were received and are not applied.
    pub(super) waiting: u64,
}

/// The relay log cannot be opened or written.
fn relay_failed(name: &str, e: &esker_binlog::Error) -> SqlError {
    errors::channel_failed(format!(
        "Failed to open the relay log of channel '{name}': {e}"
    ))
}

/// A channel's name in those of files: other characters than letters and digits by their codes.
fn in_files(name: &str) -> String {
    let mut out = String::new();
    for byte in name.bytes() {
        match byte {
            b'a'..=b'z' | b'0'..=b'9' | b'-' => out.push(byte.into()),
            _ => out.push_str(&format!("_{byte:02x}")),
        }
    }
    out
}

/// What the relay log of a channel is called from now on: as `relay_log` says, or as before.
pub(super) fn relay_names(instance: &Instance, channel: &str) -> SqlResult<Names> {
    let data_dir = instance.data_dir();
    let (folder, ending) = match channel {
        "" => ("default".to_owned(), String::new()),
        name => (
            format!("channel-{}", in_files(name)),
            format!("-{}", in_files(name)),
        ),
    };
    let first = Names::new(data_dir.join("relay").join(folder), UNNAMED);
    let home = Home::new(&*instance.env.fs, data_dir, first);
    let option = instance.variable_text("relay_log");
    let is_named = |option: &str| !option.is_empty() && option != UNNAMED;
    let wanted = is_named(&option).then(|| {
        let names = Names::of(data_dir, &option);
        Names::new(names.dir().to_owned(), &format!("{}{ending}", names.base()))
    });
    let failed = |e| relay_failed(channel, &e);
    let names = home.settle(wanted).map_err(failed)?;
    let index = instance.variable_text("relay_log_index");
    let is_named = !index.is_empty() && index != UNNAMED_INDEX;
    let index = is_named.then(|| {
        let base = Names::of(data_dir, &index);
        base.dir().join(format!("{}{ending}.index", base.base()))
    });
    home.indexed(names, index).map_err(failed)
}

impl Channel {
    /// A channel that the database knows; `None`: it has no settings.
    ///
    /// # Errors
    /// Damaged settings; of the relay log.
    pub(super) fn open(instance: &Instance, name: &str) -> SqlResult<Option<Arc<Self>>> {
        let Some(bytes) = applier::settings(instance, name)? else {
            return Ok(None);
        };
        let mut settings = ChannelSettings::decode(&bytes)?;
        let at_start = instance.channels.at_start();
        at_start.lay_over(name, &mut settings.filters);
        Self::with(instance, name, settings).map(Some)
    }

    pub(super) fn with(
        instance: &Instance,
        name: &str,
        settings: ChannelSettings,
    ) -> SqlResult<Arc<Self>> {
        let config = RelayConfig {
            names: relay_names(instance, name)?,
            server_version: instance.version().to_owned(),
            server_id: instance.variable_u64("server_id") as u32,
        };
        if name.is_empty() {
            let names = &config.names;
            let base = names.dir().join(names.base());
            let text = VarValue::Text(base.display().to_string().into());
            instance.globals.tell("relay_log_basename", text);
        }
        let relay = RelayLog::open(instance.env.fs.clone(), config);
        let relay = Arc::new(relay.map_err(|e| relay_failed(name, &e))?);
        Ok(Arc::new_cyclic(|this| Self {
            name: name.to_owned(),
            relay,
            settings: RwLock::new(settings),
            configuring: Mutex::new(()),
            changing: Mutex::new(()),
            parts: Mutex::default(),
            temporary: Arc::default(),
            retries: Arc::default(),
            this: this.clone(),
        }))
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn relay(&self) -> &RelayLog {
        &self.relay
    }

    /// Temporary tables of the source's sessions that no transaction is using.
    pub(super) fn open_temporary(&self) -> usize {
        self.temporary.count()
    }

    /// Forgets them.
    pub(super) fn drop_temporary(&self, instance: &Instance) {
        self.temporary.clear(&instance.engine);
    }

    pub(super) fn settings(&self) -> ChannelSettings {
        self.settings.read().clone()
    }

    /// Nobody else changes the settings meanwhile.
    pub(super) fn lock_settings(&self) -> MutexGuard<'_, ()> {
        self.configuring.lock()
    }

    /// Keeps new settings; who changes some of those that are there holds [`Self::lock_settings`].
    ///
    /// # Errors
    /// Of the engine.
    pub(super) fn configure(
        &self,
        instance: &Instance,
        settings: ChannelSettings,
    ) -> SqlResult<()> {
        applier::keep_settings(instance, &self.name, settings.encode())?;
        *self.settings.write() = settings;
        Ok(())
    }

    /// Starts what does not run.
    ///
    /// # Errors
    /// 1200: it has no source; of the relay log.
    pub(super) fn start(&self, instance: &Arc<Instance>, start: Start) -> SqlResult<()> {
        let _changing = self.changing.lock();
        if self.settings.read().host.is_empty() {
            return Err(no_source());
        }
        let applies = start.applies && !self.is_applying();
        let receives = start.receives && !self.is_receiving();
        if !self.is_applying() && !self.is_receiving() {
            self.restore_relay(instance)?;
        }
        if applies {
            self.start_applier(instance, start.until)?;
        }
        if receives {
            self.start_receiver(instance, (start.user, start.password))?;
        }
        Ok(())
    }

    /// Where the relay log has lost what is to be applied next, it begins anew there: the source has it. Before a
    /// receiver runs, for what it appends must be what comes next.
    fn restore_relay(&self, instance: &Instance) -> SqlResult<()> {
        let failed = |e: esker_binlog::Error| relay_failed(&self.name, &e);
        let mut state = applier::load(instance, &self.name)?;
        if self
            .relay
            .reader(state.end.relay)
            .map_err(failed)?
            .is_some()
        {
            return Ok(());
        }
        let end = &state.end;
        state.end = (self.relay.restart(&end.source_file, end.source_pos)).map_err(failed)?;
        applier::keep_state(instance, &self.name, &state)
    }

    fn start_receiver(
        &self,
        instance: &Arc<Instance>,
        (user, password): (Option<String>, Option<String>),
    ) -> SqlResult<()> {
        let channel = self.this.upgrade().ok_or_else(no_source)?;
        let mut settings = self.settings();
        settings.user = user.unwrap_or(settings.user);
        settings.password = password.unwrap_or(settings.password);
        let reception = Reception::new(instance, &channel, settings, self.relay.clone());
        let reception = Arc::new(reception);
        let host = instance.host_slot.require("START REPLICA")?;
        reception.list(host.next_connection());
        host.receive(reception.clone()).map_err(errors::no_thread)?;
        self.parts.lock().reception = Some(reception);
        Ok(())
    }

    fn start_applier(&self, instance: &Arc<Instance>, until: Option<Until>) -> SqlResult<()> {
        let failed = |e: esker_binlog::Error| relay_failed(&self.name, &e);
        let state = applier::load(instance, &self.name)?;
        let reader = self.relay.reader(state.end.relay).map_err(failed)?;
        let reader = reader.ok_or_else(|| {
            errors::channel_failed(format!(
                "Relay log of channel '{}': the events to apply are not there",
                self.name
            ))
        })?;
        let configured = self.settings();
        let overtaken = match configured.maria_gtid {
            true => self.overtaken(instance, &state)?,
            false => Overtaken::default(),
        };
        let weak = Arc::downgrade(instance);
        // Transactions with GTIDs of their own are not skipped: an empty one with the same GTID says so.
        let has_gtids = instance.variable_text("gtid_mode") == "ON";
        let skips = match has_gtids && configured.anonymous == Anonymous::Off {
            true => 0,
            false => instance.variable_u64("sql_replica_skip_counter"),
        };
        let settings = Settings {
            filters: configured.filters,
            delay: Duration::from_secs(configured.delay.into()),
            until: until.clone(),
            ignored_servers: configured.ignored_servers,
            key_check: configured.key_check,
            row_format: configured.row_format,
            checks_user: configured.checks_user,
            anonymous: configured.anonymous,
            skips,
            temporary: self.temporary.clone(),
            overtaken,
            retries: self.retries.clone(),
            connection_ids: Arc::new(move || {
                let instance = weak.upgrade();
                let host = instance.as_ref().and_then(|instance| instance.host());
                host.map_or(0, crate::Host::next_connection)
            }),
        };
        let applier = Applier::start(instance, &self.name, state, Box::new(reader), settings)?;
        // It counts for the channel that has started first.
        for name in ["sql_replica_skip_counter", "sql_slave_skip_counter"] {
            instance.globals.tell(name, VarValue::UInt(0));
        }
        let mut parts = self.parts.lock();
        parts.applier = Some(Arc::new(applier));
        parts.until = until;
        Ok(())
    }

    /// What is in the relay log already, in domains in which others have come further than this channel: another
    /// channel, or `gtid_slave_pos` as it was set.
    fn overtaken(&self, instance: &Instance, state: &ChannelState) -> SqlResult<Overtaken> {
        let mut gtids = MariaGtidSet::default();
        for gtid in applier::slave_pos(instance)?.iter() {
            if state.maria.last(gtid.domain) != Some(gtid) {
                gtids.add(*gtid);
            }
        }
        let until = self.relay.received().end.relay;
        Ok(Overtaken { gtids, until })
    }

    /// What it has applied of MariaDB's GTIDs.
    ///
    /// # Errors
    /// Damaged rows; of the engine.
    pub(super) fn applied_maria(&self, instance: &Instance) -> SqlResult<MariaGtidSet> {
        let applier = self.parts.lock().applier.clone();
        match applier {
            Some(applier) => Ok(applier.status().maria),
            None => Ok(applier::load(instance, &self.name)?.maria),
        }
    }

    /// The threads that a statement speaks of.
    fn chosen(
        &self,
        receives: bool,
        applies: bool,
    ) -> (Option<Arc<Reception>>, Option<Arc<Applier>>) {
        let parts = self.parts.lock();
        let reception = parts.reception.clone().filter(|_| receives);
        let applier = parts.applier.clone().filter(|_| applies);
        (reception, applier)
    }

    /// What runs is to stop.
    pub(super) fn tell_to_stop(&self, receives: bool, applies: bool) {
        let (reception, applier) = self.chosen(receives, applies);
        if let Some(reception) = reception {
            reception.tell_to_end();
        }
        if let Some(applier) = applier {
            applier.tell_to_stop();
        }
    }

    /// Has it stopped?
    pub(super) fn has_stopped(&self, receives: bool, applies: bool) -> bool {
        let (reception, applier) = self.chosen(receives, applies);
        reception.is_none_or(|reception| reception.view().state == ReceiverState::Off)
            && applier.is_none_or(|applier| applier.has_ended())
    }

    /// Is the applier about to end, by itself or because it was told to?
    pub(super) fn is_ending(&self) -> bool {
        let (_, applier) = self.chosen(false, true);
        applier.is_some_and(|applier| applier.is_ending())
    }

    /// Stops what runs, and waits for it.
    pub(super) fn stop(&self, receives: bool, applies: bool) {
        let _changing = self.changing.lock();
        let (reception, applier) = self.chosen(receives, applies);
        if let Some(reception) = reception {
            reception.stop();
        }
        if let Some(applier) = applier {
            applier.stop();
        }
    }

    /// Nobody starts, stops or changes it meanwhile.
    pub(super) fn hold(&self) -> MutexGuard<'_, ()> {
        self.changing.lock()
    }

    /// Stops for good; nothing of the channel holds the database afterwards.
    pub(super) fn close(&self) {
        self.stop(true, true);
        *self.parts.lock() = Parts::default();
    }

    /// Throws away what was received, and goes on at a place of the source.
    ///
    /// # Errors
    /// Of the relay log and the engine.
    pub(super) fn restart(&self, instance: &Instance, file: &str, position: u64) -> SqlResult<()> {
        let _changing = self.changing.lock();
        let place = self.relay.restart(file, position);
        let place = place.map_err(|e| relay_failed(&self.name, &e))?;
        applier::place(instance, &self.name, place)?;
        self.parts.lock().applier = None;
        Ok(())
    }

    /// Throws away what was received and is not applied. The caller has [`Self::hold`], and nothing runs.
    ///
    /// # Errors
    /// Of the relay log and the engine.
    pub(super) fn receive_anew(&self, instance: &Instance) -> SqlResult<()> {
        let applied = applier::load(instance, &self.name)?.end;
        let place = self.relay.restart(&applied.source_file, applied.source_pos);
        let place = place.map_err(|e| relay_failed(&self.name, &e))?;
        applier::place(instance, &self.name, place)?;
        self.parts.lock().applier = None;
        Ok(())
    }

    /// Keeps what was received, and applies it from a place on.
    ///
    /// # Errors
    /// Of the engine.
    pub(super) fn go_on_at(&self, instance: &Instance, place: Place) -> SqlResult<()> {
        let _changing = self.changing.lock();
        applier::place(instance, &self.name, place)?;
        self.parts.lock().applier = None;
        Ok(())
    }

    /// Forgets the GTIDs of what was applied, where nothing is being applied; those that stay executed come back.
    ///
    /// # Errors
    /// Of the engine.
    pub(crate) fn forget_gtids(&self, instance: &Instance) -> SqlResult<GtidSet> {
        let _changing = self.changing.lock();
        let state = applier::load(instance, &self.name)?;
        let gtids = state.all_gtids();
        // Rows behind a gap say what is not to be applied again.
        if gtids.is_empty() || self.is_applying() || !state.ahead.is_empty() {
            return Ok(gtids);
        }
        applier::place(instance, &self.name, state.end)?;
        self.parts.lock().applier = None;
        Ok(GtidSet::default())
    }

    /// Ends the relay log's file.
    ///
    /// # Errors
    /// Of the disk.
    pub(crate) fn flush_relay(&self) -> SqlResult<()> {
        self.relay.flush().map_err(|e| relay_failed(&self.name, &e))
    }

    /// Removes files that are applied.
    ///
    /// # Errors
    /// Of the disk.
    pub(super) fn purge(&self, instance: &Instance) -> esker_binlog::Result<()> {
        if !instance.variable_is_on("relay_log_purge") {
            return Ok(());
        }
        let applier = self.parts.lock().applier.clone();
        match applier {
            Some(applier) if self.relay.files().len() > 1 => {
                self.relay.purge_applied(applier.status().applied.relay)
            }
            _ => Ok(()),
        }
    }

    /// Has the applier nothing left but what is still to come?
    pub(super) fn wants_more(&self) -> bool {
        let applier = self.parts.lock().applier.clone();
        let status = applier.map(|applier| applier.status());
        status.is_some_and(|s| s.is_running && s.in_flight == 0 && s.delay_left.is_none())
    }

    pub(super) fn is_receiving(&self) -> bool {
        let parts = self.parts.lock();
        let state = parts
            .reception
            .as_ref()
            .map(|reception| reception.view().state);
        state.is_some_and(|state| state != ReceiverState::Off)
    }

    pub(super) fn is_applying(&self) -> bool {
        let parts = self.parts.lock();
        parts
            .applier
            .as_ref()
            .is_some_and(|applier| applier.status().is_running)
    }

    pub(crate) fn view(&self) -> ChannelView {
        let parts = self.parts.lock();
        let mut settings = self.settings();
        if let Some(reception) = &parts.reception {
            settings.user.clone_from(&reception.settings.user);
        }
        let applier = parts.applier.as_ref().map(|applier| applier.status());
        ChannelView {
            settings,
            receiver: parts.reception.as_ref().map(|reception| reception.view()),
            waiting: waiting(&self.relay.received(), applier.as_ref()),
            applier,
            until: parts.until.clone(),
        }
    }
}

/// How many of the transactions that have come are not applied, as far as they have GTIDs; else those with the workers.
fn waiting(received: &Received, applier: Option<&Status>) -> u64 {
    let mut missing = received.gtids.clone();
    let Some(applier) = applier else {
        return missing.count();
    };
    missing.subtract(&applier.gtids);
    let behind = received.maria.iter().map(|last| {
        let applied = applier.maria.iter().find(|gtid| gtid.domain == last.domain);
        last.sequence
            .saturating_sub(applied.map_or(0, |gtid| gtid.sequence))
    });
    applier.in_flight.max(missing.count() + behind.sum::<u64>())
}

/// 1200.
pub(super) fn no_source() -> SqlError {
    let text = "The server is not configured as replica; fix in config file or with CHANGE REPLICATION SOURCE TO";
    SqlError::new(1200, "HY000", text)
}
