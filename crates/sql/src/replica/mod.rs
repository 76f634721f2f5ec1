//! Replication channels: where their source is, what has been received, and how far it is applied.
//!
//! In flow order: `options` (what CHANGE REPLICATION SOURCE and FILTER say), `settings` (what is kept of it, and its
//! form in the catalog), `at_start`
//! (rules among the options of a start), `reception` (what a receiver and its channel know of each other), `channel`
//! (a channel: relay log, receiver, applier), `failover` (other sources that it may go over to), `statements` (of
//! sessions), `slave_pos` (`gtid_slave_pos`), `status` (SHOW REPLICA STATUS), `wait` (SOURCE_POS_WAIT). Neighbours: the
//! server's receivers have the sockets and are begun through [`Host`](crate::Host); [`applier`](crate::applier)
//! applies. Reasons: `docs/decisions/replica.md`.
//!
//! **Invariants**
//! - Passwords are in the catalog alone: nothing shows or logs them.
//! - A channel has at most one receiver and one applier; whoever starts or stops them holds the channel's lock.

mod at_start;
mod channel;
mod failover;
mod options;
mod reception;
mod settings;
mod slave_pos;
mod statements;
mod status;
mod wait;

use std::collections::BTreeMap;
use std::sync::Arc;

use esker_types::{SqlError, SqlResult, errors};
use parking_lot::Mutex;

pub(crate) use at_start::RulesAtStart;
use channel::Start;
pub(crate) use channel::{Channel, ChannelView};
pub use reception::{GoesOver, ReceiverState, Reception, StartFrom};
pub use settings::{ChannelSettings, OtherSource};
pub(crate) use status::{named, remaining_delay, rewritten};

use crate::applier::{self, Anonymous, Filters};
use crate::instance::Instance;

/// Most channels of a server, like MySQL.
const MAX_CHANNELS: usize = 256;

/// All channels by name; the default one has the empty name.
pub(crate) struct Channels {
    by_name: Mutex<BTreeMap<String, Arc<Channel>>>,
    /// Those that could not be opened when the server started, and why.
    unopened: Mutex<BTreeMap<String, SqlError>>,
    /// Rules that new channels begin with, and when they were made, microseconds since the epoch. Gone with the server,
    /// as MySQL's are.
    global: Mutex<(Filters, i64)>,
    at_start: RulesAtStart,
}

impl Channels {
    /// None yet; a server that starts `now` has these rules.
    pub(crate) fn new(at_start: RulesAtStart, now: i64) -> Self {
        Self {
            by_name: Mutex::default(),
            unopened: Mutex::default(),
            global: Mutex::new((at_start.global().clone(), now)),
            at_start,
        }
    }

    /// The rules among the options of the start.
    pub(crate) fn at_start(&self) -> &RulesAtStart {
        &self.at_start
    }

    pub(crate) fn all(&self) -> Vec<Arc<Channel>> {
        self.by_name.lock().values().cloned().collect()
    }

    /// What CHANGE REPLICATION FILTER without a channel has said, and when.
    pub(crate) fn global_filters(&self) -> (Filters, i64) {
        self.global.lock().clone()
    }

    fn set_global_filters(&self, filters: Filters, now: i64) {
        *self.global.lock() = (filters, now);
    }

    /// # Errors
    /// 3074; why it could not be opened.
    pub(crate) fn get(&self, name: &str) -> SqlResult<Arc<Channel>> {
        let found = self.by_name.lock().get(name).cloned();
        let unopened = || self.unopened.lock().get(name).cloned();
        found.ok_or_else(|| unopened().unwrap_or_else(|| does_not_exist(name)))
    }

    /// All; there may be none.
    ///
    /// # Errors
    /// None of them could be opened.
    fn all_opened(&self) -> SqlResult<Vec<Arc<Channel>>> {
        let all = self.all();
        let unopened = self.unopened.lock();
        match unopened.values().next().filter(|_| all.is_empty()) {
            Some(why) => Err(why.clone()),
            None => Ok(all),
        }
    }

    /// May a channel go without its name? The default one is always there, so not beside another one.
    ///
    /// # Errors
    /// 3079.
    fn admit_unnamed(&self) -> SqlResult<()> {
        let is_named = |name: &String| !name.is_empty();
        match self.by_name.lock().keys().any(is_named) {
            true => Err(several_channels()),
            false => Ok(()),
        }
    }

    fn add(&self, channel: Arc<Channel>) -> SqlResult<()> {
        let mut all = self.by_name.lock();
        if all.len() >= MAX_CHANNELS {
            let text =
                "Failed to create or recover replication info repositories: too many channels";
            return Err(errors::channel_failed(text));
        }
        self.unopened.lock().remove(channel.name());
        all.insert(channel.name().to_owned(), channel);
        Ok(())
    }

    fn remove(&self, name: &str) -> Option<Arc<Channel>> {
        self.by_name.lock().remove(name)
    }
}

/// Why gtid_mode does not become ON.
const IGNORES_SERVERS: &str = "there is at least one replication channel with IGNORE_SEVER_IDS configured (i.e. not \
                               empty).Before you set @@GLOBAL.GTID_MODE = ON, ensure no channel has a configured \
                               value for IGNORE_SERVER_IDS";

/// There is no such channel.
const DOES_NOT_EXIST: u16 = 3074;

fn does_not_exist(name: &str) -> SqlError {
    let text = format!("Replica channel '{name}' does not exist.");
    SqlError::new(DOES_NOT_EXIST, "HY000", text)
}

/// 3079.
fn several_channels() -> SqlError {
    let text =
        "Multiple channels exist on the replica. Please provide channel name as an argument.";
    SqlError::new(3079, "HY000", text)
}

/// 3111: `gtid_mode` cannot have this value now.
pub(crate) fn gtid_mode_refused(mode: &str, why: impl std::fmt::Display) -> SqlError {
    let text = format!("SET @@GLOBAL.GTID_MODE = {mode} is not allowed because {why}.");
    SqlError::new(3111, "HY000", text)
}

impl Instance {
    /// May the global `binlog_format` be set?
    ///
    /// # Errors
    /// 3746: statements of a source have temporary tables open; 3747: an applier runs.
    pub(crate) fn admit_binlog_format(&self) -> SqlResult<()> {
        for channel in self.channels.all() {
            if channel.open_temporary() > 0 {
                let text = "Changing @@global.binlog_format or @@persist.binlog_format is disallowed when any \
                            replication channel has open temporary table(s). You could wait until \
                            Replica_open_temp_tables = 0 and try again";
                return Err(SqlError::new(3746, "HY000", text));
            }
            if channel.is_applying() {
                return Err(errors::applier_keeps_binlog_format());
            }
        }
        Ok(())
    }

    /// May `gtid_mode` have this value, as channels are configured?
    ///
    /// # Errors
    /// 3111, 3992.
    pub(crate) fn admit_gtid_mode(&self, mode: &str) -> SqlResult<()> {
        for channel in self.channels.all() {
            let (settings, name) = (channel.settings(), channel.name());
            if settings.auto_failover && mode != "ON" {
                let text = format!(
                    "The @@GLOBAL.GTID_MODE = {mode} cannot be executed because Asynchronous Replication Connection \
                     Failover is enabled i.e. CHANGE REPLICATION SOURCE TO SOURCE_CONNECTION_AUTO_FAILOVER = 1."
                );
                return Err(SqlError::new(3992, "HY000", text));
            }
            let why = if settings.anonymous != Anonymous::Off && mode != "ON" {
                format!(
                    "replication channel '{name}' is configured with ASSIGN_GTIDS_TO_ANONYMOUS_TRANSACTIONS set to \
                     LOCAL or to a UUID. Execute CHANGE REPLICATION SOURCE TO ASSIGN_GTIDS_TO_ANONYMOUS_TRANSACTIONS = \
                     OFF FOR CHANNEL '{name}' before you set @@GLOBAL.GTID_MODE = '{mode}'"
                )
            } else if settings.gtid_only && mode != "ON" {
                format!(
                    "replication channel '{name}' is configured with GTID_ONLY = 1. Execute CHANGE REPLICATION SOURCE \
                     TO GTID_ONLY = 0 FOR CHANNEL '{name}' before you set @@GLOBAL.GTID_MODE = '{mode}'"
                )
            } else if !settings.ignored_servers.is_empty() && mode == "ON" {
                IGNORES_SERVERS.to_owned()
            } else if settings.auto_position && mode == "OFF" {
                format!(
                    "replication channel '{name}' is configured in AUTO_POSITION mode. Execute CHANGE REPLICATION \
                     SOURCE TO SOURCE_AUTO_POSITION = 0 FOR CHANNEL '{name}' before you set @@GLOBAL.GTID_MODE = OFF."
                )
            } else {
                continue;
            };
            return Err(gtid_mode_refused(mode, why));
        }
        Ok(())
    }

    /// Is there something to skip, and `gtid_mode` ON? Then only channels skip that give GTIDs to what has none.
    pub(crate) fn skips_assigned_alone(&self) -> bool {
        self.variable_u64("sql_replica_skip_counter") > 0 && self.variable_text("gtid_mode") == "ON"
    }

    /// Opens the channels that the database knows, and starts them unless `skip_replica_start` says otherwise. One that
    /// cannot be opened is logged, and opened by the next statement about channels.
    pub fn start_replication(self: &Arc<Self>) {
        let skips = self.variable_is_on("skip_replica_start");
        let names = match applier::channels(self) {
            Ok(names) => names,
            Err(e) => return tracing::error!("replication channels: {}", e.message),
        };
        for name in names {
            let opened = self.open_channel(&name);
            let started = opened.and_then(|channel| match channel.filter(|_| !skips) {
                None => Ok(()),
                Some(channel) => channel.start(self, Start::everything()),
            });
            if let Err(e) = started {
                tracing::error!("replication channel '{name}': {}", e.message);
            }
        }
    }

    fn open_channel(self: &Arc<Self>, name: &str) -> SqlResult<Option<Arc<Channel>>> {
        let opened = Channel::open(self, name).inspect_err(|why| {
            let mut unopened = self.channels.unopened.lock();
            unopened.insert(name.to_owned(), why.clone());
        })?;
        if let Some(channel) = &opened {
            self.channels.add(channel.clone())?;
        }
        Ok(opened)
    }

    /// Opens the channels that could not be opened at the start: the disk was full then, perhaps. Of those that still
    /// cannot be opened statements that name them say why.
    fn open_missing_channels(self: &Arc<Self>) {
        let missing: Vec<String> = self.channels.unopened.lock().keys().cloned().collect();
        for name in missing {
            if let Err(e) = self.open_channel(&name) {
                tracing::error!("replication channel '{name}': {}", e.message);
            }
        }
    }

    /// `Rpl_semi_sync_replica_status`, how many transactions that have come are not applied, and how many that go on
    /// are to have no GTID.
    pub(crate) fn replica_counters(&self) -> Vec<(&'static str, String)> {
        let views: Vec<_> = self
            .channels
            .all()
            .iter()
            .map(|channel| channel.view())
            .collect();
        let mut receivers = views.iter().filter_map(|view| view.receiver.as_ref());
        let shown = match receivers.any(|receiver| receiver.is_semi_sync) {
            true => "ON",
            false => "OFF",
        };
        let waiting: u64 = views.iter().map(|view| view.waiting).sum();
        let channels = self.channels.all();
        let temporary: usize = channels.iter().map(|c| c.open_temporary()).sum();
        vec![
            ("Replica_open_temp_tables", temporary.to_string()),
            ("Slave_open_temp_tables", temporary.to_string()),
            ("Esker_replica_lag_transactions", waiting.to_string()),
            (
                "Ongoing_anonymous_transaction_count",
                self.binlog.owned.anonymous().to_string(),
            ),
            ("Rpl_semi_sync_replica_status", shown.to_owned()),
            ("Rpl_semi_sync_slave_status", shown.to_owned()),
        ]
    }

    /// Stops all channels, before the database closes.
    pub fn stop_replication(&self) {
        for channel in self.channels.all() {
            channel.close();
        }
    }
}
