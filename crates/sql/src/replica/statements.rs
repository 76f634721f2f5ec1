//! CHANGE REPLICATION SOURCE and FILTER, START, STOP and RESET REPLICA, SHOW RELAYLOG EVENTS.
//!
//! Neighbours: the session dispatches; `settings` reads options, `channel` does. **Invariants**: what would change
//! under a running thread is refused; a statement about all channels does them one by one and stops at the first error.

use std::sync::Arc;
use std::time::{Duration, Instant};

use esker_binlog::apply::{Place, RelayPlace};
use esker_binlog::files::{FIRST_EVENT, Names, Scan};
use esker_sql_syntax::ast::{ReplicaThreads, Replication};
use esker_types::{Level, SqlError, SqlResult, errors};

use super::channel::{Channel, Start, no_source};
use super::does_not_exist;
use super::options::{NewPlace, change_filters};
use super::settings::ChannelSettings;
use crate::applier::{self, Anonymous, Until};
use crate::binlog::{no_events, parse_set, show_events};
use crate::instance::Instance;
use crate::session::{Session, SessionContext};
use crate::show::Table;

/// STOP REPLICA looks this often.
const STOP_STEP: Duration = Duration::from_millis(5);
/// The rights to change channels: one is enough.
const RIGHTS: &[&str] = &["SUPER", "REPLICATION_SLAVE_ADMIN"];
/// Levels, numbers and texts of what is said of a statement.
type Notes = Vec<(Level, u16, String)>;

/// Warning 1703.
const SHORT_HEARTBEAT: &str = "The requested value for the heartbeat period is less than 1 millisecond. The value is \
    reset to 0, meaning that heartbeating will effectively be disabled.";

/// Warning 3022.
const TEMPORARY_STAYS: &str = "This operation may not be safe when the replica has temporary tables. The tables will be \
    kept open until the server restarts or until the tables are deleted by any replicated DROP statement. Suggest to \
    wait until replica_open_temp_tables = 0.";

/// Note 4017.
const NAMES_ANONYMOUS: &str = "Using ASSIGN_GTIDS_TO_ANONYMOUS_TRANSACTIONS creates limitations on the replication \
    topology - you cannot fail over between downstream and upstream servers. Only use this option if it is not \
    possible to enable GTIDs on the source, for instance, because of lack of permissions. If possible, use the \
    procedure for enabling GTID transactions online instead, as described in the documentation.";

/// Names of channels that group replication, which is not here, keeps for itself.
const GROUP_CHANNELS: [&str; 2] = ["group_replication_applier", "group_replication_recovery"];

/// Longest name of a channel, characters.
const MAX_NAME: usize = 64;

/// Options that concern the receiver, the applier, or both.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Concerns {
    Receiver,
    Applier,
    Both,
}

fn concerns(option: &str) -> Concerns {
    match option {
        "SOURCE_DELAY"
        | "MASTER_DELAY"
        | "REQUIRE_TABLE_PRIMARY_KEY_CHECK"
        | "PRIVILEGE_CHECKS_USER"
        | "RELAY_LOG_FILE"
        | "RELAY_LOG_POS" => Concerns::Applier,
        "SOURCE_AUTO_POSITION"
        | "MASTER_AUTO_POSITION"
        | "MASTER_USE_GTID"
        | "SOURCE_HOST"
        | "MASTER_HOST"
        | "SOURCE_PORT"
        | "MASTER_PORT"
        | "SOURCE_LOG_FILE"
        | "MASTER_LOG_FILE"
        | "SOURCE_LOG_POS"
        | "MASTER_LOG_POS"
        | "REQUIRE_ROW_FORMAT"
        | "GTID_ONLY"
        | "ASSIGN_GTIDS_TO_ANONYMOUS_TRANSACTIONS" => Concerns::Both,
        _ => Concerns::Receiver,
    }
}

/// 3081.
pub(super) fn must_stop(name: &str) -> SqlError {
    let text = format!(
        "This operation cannot be performed with running replication threads; run STOP REPLICA FOR CHANNEL '{name}' \
         first"
    );
    SqlError::new(3081, "HY000", text)
}

/// Refuses what concerns a thread that runs: 3021, 3085, 3081.
fn admit(channel: &Channel, concerns: Concerns) -> SqlResult<()> {
    let name = channel.name();
    let (receives, applies) = (channel.is_receiving(), channel.is_applying());
    match concerns {
        Concerns::Receiver if receives => {
            let text = format!(
                "This operation cannot be performed with a running replica io thread; run STOP REPLICA IO_THREAD FOR \
                 CHANNEL '{name}' first."
            );
            Err(SqlError::new(3021, "HY000", text))
        }
        Concerns::Applier if applies => {
            let text = format!(
                "This operation cannot be performed with a running replica sql thread; run STOP REPLICA SQL_THREAD FOR \
                 CHANNEL '{name}' first."
            );
            Err(SqlError::new(3085, "HY000", text))
        }
        Concerns::Both if receives || applies => Err(must_stop(name)),
        _ => Ok(()),
    }
}

fn name_of(channel: Option<&[u8]>) -> SqlResult<String> {
    let name = String::from_utf8_lossy(channel.unwrap_or_default()).to_lowercase();
    if name.contains('\n') {
        return Err(errors::line_feed(name));
    }
    let is_valid = name.chars().count() <= MAX_NAME && !name.contains('\0');
    is_valid.then_some(name).ok_or_else(|| {
        let text = "Couldn't create channel: Channel name is either invalid or too long.";
        SqlError::new(3076, "HY000", text)
    })
}

fn until(options: &[(Box<str>, Vec<u8>)], channel: &Channel) -> SqlResult<Option<Until>> {
    let bad = || {
        let text = "Incorrect parameter or combination of parameters for START REPLICA UNTIL";
        SqlError::new(1277, "HY000", text)
    };
    // What is said twice counts as it is said last.
    let value = |names: &[&str]| {
        let mut found = options.iter().rev();
        let found = found.find(|(name, _)| names.contains(&&**name));
        found.map(|(_, value)| String::from_utf8_lossy(value).into_owned())
    };
    let position = |text: String| {
        let position = text.parse::<u64>().map_err(|_| bad())?;
        SqlResult::Ok(position.max(FIRST_EVENT))
    };
    let file = value(&["SOURCE_LOG_FILE", "MASTER_LOG_FILE"]);
    let at = value(&["SOURCE_LOG_POS", "MASTER_LOG_POS"]);
    let relay = (value(&["RELAY_LOG_FILE"]), value(&["RELAY_LOG_POS"]));
    let gtids = (value(&["SQL_BEFORE_GTIDS"]), value(&["SQL_AFTER_GTIDS"]));
    let gaps = value(&["SQL_AFTER_MTS_GAPS"]);
    match (gaps, file, at, relay, gtids) {
        _ if options.is_empty() => Ok(None),
        (Some(_), None, None, (None, None), _) => Ok(Some(Until::AfterGaps)),
        (None, Some(file), Some(at), (None, None), (None, None)) if is_numbered(&file) => {
            Ok(Some(Until::SourcePosition(file, position(at)?)))
        }
        (None, None, None, (Some(file), Some(at)), (None, None)) => {
            let number = channel.relay().names().number(&file).ok_or_else(bad)?;
            Ok(Some(Until::RelayPosition(RelayPlace {
                file: number.0.into(),
                offset: position(at)?,
            })))
        }
        (None, None, None, (None, None), (Some(before), None)) => {
            Ok(Some(Until::BeforeGtids(parse_set(&before)?)))
        }
        (None, None, None, (None, None), (None, Some(after))) => {
            Ok(Some(Until::AfterGtids(parse_set(&after)?)))
        }
        _ => Err(bad()),
    }
}

/// Can a binary log's file be called so?
fn is_numbered(file: &str) -> bool {
    let number = file.rsplit_once('.').map_or("", |(_, number)| number);
    number.starts_with(|c: char| c.is_ascii_digit())
}

impl Session {
    /// Runs a statement about channels; false: it is about something else.
    ///
    /// # Errors
    /// Missing rights, options that do not fit, threads that run.
    pub(crate) fn run_channel_statement(&mut self, statement: &Replication) -> SqlResult<bool> {
        let instance = self.context.instance.clone();
        match statement {
            Replication::ResetReplica { all, channel } => {
                self.context.require("RELOAD")?;
                instance.open_missing_channels();
                for channel in chosen(&instance, channel.as_deref())? {
                    reset(&instance, &channel, *all)?;
                }
                return Ok(true);
            }
            Replication::ChangeSource { .. }
            | Replication::ChangeFilter { .. }
            | Replication::Start(_)
            | Replication::Stop(_) => self.context.require_any(RIGHTS)?,
            _ => return Ok(false),
        }
        instance.open_missing_channels();
        match statement {
            Replication::ChangeSource { options, channel } => {
                self.note(change_source(
                    &instance,
                    options,
                    &name_of(channel.as_deref())?,
                )?);
            }
            Replication::ChangeFilter { filters, channel } => {
                change_rules(&instance, filters, channel.as_deref())?;
            }
            Replication::Start(threads) => {
                self.outwait_ending(threads)?;
                self.note(start(&instance, threads)?);
            }
            // The applier may wait for locks of this very session.
            Replication::Stop(_) if self.locks.has_explicit() || self.locks.has_global() => {
                return Err(errors::has_locked_tables());
            }
            Replication::Stop(threads) if which(threads).1 && self.locks.has_instance() => {
                let text = "Cannot stop the replica SQL thread while the instance is locked for backup. Try running \
                            `UNLOCK INSTANCE` first.";
                return Err(SqlError::new(3857, "HY000", text));
            }
            Replication::Stop(threads) => {
                let (receives, applies) = which(threads);
                let channels = chosen(&instance, threads.channel.as_deref())?;
                if channels.is_empty() {
                    self.note(vec![already_stopped("")]);
                }
                let seconds = instance.variable_u64("rpl_stop_replica_timeout");
                let deadline = Instant::now() + Duration::from_secs(seconds);
                for channel in channels {
                    let runs =
                        (receives && channel.is_receiving()) || (applies && channel.is_applying());
                    if !runs {
                        self.note(vec![already_stopped(channel.name())]);
                    }
                    // What the applier waits for may never come: locks of an open transaction, for example.
                    channel.tell_to_stop(receives, applies);
                    while !channel.has_stopped(receives, applies) {
                        self.context.check()?;
                        if Instant::now() >= deadline {
                            return Err(stop_timeout(applies && !channel.has_stopped(false, true)));
                        }
                        std::thread::sleep(STOP_STEP);
                    }
                    channel.stop(receives, applies);
                    if applies && channel.open_temporary() > 0 {
                        self.note(vec![(Level::Warning, 3022, TEMPORARY_STAYS.to_owned())]);
                    }
                }
            }
            _ => unreachable!("the others are told above"),
        }
        Ok(true)
    }

    /// An applier that has failed says so before its threads have ended. What is started then begins behind them.
    fn outwait_ending(&self, threads: &ReplicaThreads) -> SqlResult<()> {
        let (_, applies) = which(threads);
        let channels = chosen(&self.context.instance, threads.channel.as_deref())?;
        for channel in channels.iter().filter(|_| applies) {
            while channel.is_ending() {
                self.context.check()?;
                std::thread::sleep(STOP_STEP);
            }
        }
        Ok(())
    }

    fn note(&mut self, notes: Notes) {
        for (level, code, text) in notes {
            self.warn(level, code, text);
        }
    }
}

impl SessionContext {
    /// FLUSH RELAY LOGS: of one channel, or of all.
    ///
    /// # Errors
    /// 3074; of the disk.
    pub(crate) fn rotate_relay_logs(&self, channel: Option<&[u8]>) -> SqlResult<()> {
        let channels = chosen(&self.instance, channel)?;
        channels
            .iter()
            .try_for_each(|channel| channel.flush_relay())
    }

    /// SHOW RELAYLOG EVENTS.
    ///
    /// # Errors
    /// 1220: no such file; 3074; 3079: one of several channels is not named.
    pub(crate) fn show_relay_events(
        &self,
        file: Option<&[u8]>,
        position: Option<u64>,
        limit: Option<(u64, u64)>,
        channel: Option<&[u8]>,
    ) -> SqlResult<Table> {
        let channels = &self.instance.channels;
        if channel.is_none() {
            channels.admit_unnamed()?;
        }
        let name = name_of(channel)?;
        let channel = match channels.get(&name) {
            // The default channel is always there.
            Err(_) if name.is_empty() => return Ok(no_events()),
            found => found?,
        };
        let relay = channel.relay();
        let files = relay.files();
        let wanted = file.map(|name| relay.names().number(&String::from_utf8_lossy(name)));
        let found = files
            .iter()
            .find(|(number, _)| wanted.is_none_or(|w| w == Some(*number)));
        let refused = |why: String| errors::show_events_failed("SHOW RELAYLOG EVENTS", why);
        let (number, size) =
            found.ok_or_else(|| refused("Could not find target log".to_owned()))?;
        let path = relay.names().path(*number);
        let scan = Scan::open(&*self.instance.env.fs, &path, Some(*size));
        let scan = scan.map_err(|e| refused(e.to_string()))?;
        let name = relay.names().name(*number);
        show_events(self, scan, &name, position, limit, &|why| {
            refused(why.to_owned())
        })
    }
}

/// Which threads a statement is about: receiver, applier.
fn which(threads: &ReplicaThreads) -> (bool, bool) {
    match (threads.io, threads.sql) {
        (false, false) => (true, true),
        named => named,
    }
}

/// The channel that is named, or all. The default channel may always be named: it is there, and does nothing.
pub(super) fn chosen(instance: &Instance, name: Option<&[u8]>) -> SqlResult<Vec<Arc<Channel>>> {
    let Some(name) = name else {
        return instance.channels.all_opened();
    };
    match instance.channels.get(&name_of(Some(name))?) {
        Err(e) if name.is_empty() && e.code == super::DOES_NOT_EXIST => Ok(Vec::new()),
        found => Ok(vec![found?]),
    }
}

/// 1875, 1876: the threads end later.
fn stop_timeout(is_applier: bool) -> SqlError {
    let (code, thread) = if is_applier {
        (1875, "SQL")
    } else {
        (1876, "IO")
    };
    let text = format!(
        "STOP REPLICA command execution is incomplete: Replica {thread} thread got the stop signal, thread is busy, \
         {thread} thread will stop once the current task is complete."
    );
    SqlError::new(code, "HY000", text)
}

fn already_stopped(channel: &str) -> (Level, u16, String) {
    let text = format!("Replication thread(s) for channel '{channel}' are already stopped.");
    (Level::Note, 3084, text)
}

fn start(instance: &Arc<Instance>, threads: &ReplicaThreads) -> SqlResult<Notes> {
    let channels = chosen(instance, threads.channel.as_deref())?;
    if channels.is_empty() {
        return Err(no_source());
    }
    let is_about_one = !threads.until.is_empty() || !threads.connection.is_empty();
    if is_about_one && channels.len() > 1 {
        return Err(super::several_channels());
    }
    if instance.variable_u64("server_id") == 0 {
        return Err(no_source());
    }
    let (receives, applies) = which(threads);
    let mut notes = Notes::new();
    let is_about_gaps = (threads.until.iter()).any(|(option, _)| &**option == "SQL_AFTER_MTS_GAPS");
    if !applies && !threads.until.is_empty() {
        let text = "SQL thread is not to be started so UNTIL options are ignored";
        notes.push((Level::Note, 1279, text.to_owned()));
    }
    if applies && !receives && !threads.connection.is_empty() {
        let text = "Setting authentication options is not possible when only the Replica SQL Thread is being started.";
        return Err(SqlError::new(1763, "HY000", text));
    }
    let is_place = |(option, _): &(Box<str>, Vec<u8>)| option.contains("_LOG_");
    if applies
        && threads.until.iter().any(is_place)
        && !instance.variable_is_on("skip_replica_start")
    {
        let text = "It is recommended to use --skip-replica-start when doing step-by-step replication with START \
                    REPLICA UNTIL; otherwise, you will get problems if you get an unexpected replica's mysqld restart";
        notes.push((Level::Note, 1278, text.to_owned()));
    }
    for channel in channels {
        let mut start = Start {
            receives,
            applies,
            until: until(&threads.until, &channel)?,
            ..Start::default()
        };
        for (option, value) in &threads.connection {
            account(&mut start, option, value)?;
        }
        admit_start(instance, &channel, &start)?;
        let has_gtids = || instance.variable_text("gtid_mode") == "ON";
        if applies && is_about_gaps && channel.settings().auto_position && has_gtids() {
            notes.push(no_gaps_known(channel.name()));
        }
        let starts = (receives && !channel.is_receiving()) || (applies && !channel.is_applying());
        if !starts {
            let name = channel.name();
            let text = format!("Replication thread(s) for channel '{name}' are already running.");
            notes.push((Level::Note, 3083, text));
        }
        channel.start(instance, start)?;
    }
    Ok(notes)
}

/// Warning 4047.
fn no_gaps_known(channel: &str) -> (Level, u16, String) {
    let text = format!(
        "The until clause SQL_AFTER_MTS_GAPS is being used for channel '{channel}' when GTID_MODE = ON and \
         SOURCE_AUTO_POSITION=1 meaning the server did not compute internally what gaps may exist in the relay log \
         transaction execution. To close any execution gaps use either the SQL_BEFORE_GTIDS or SQL_AFTER_GTIDS until \
         clause."
    );
    (Level::Warning, 4047, text)
}

/// Does `gtid_mode`, and how a channel is to stop, fit to what it is configured for?
///
/// # Errors
/// 3112, 4013, 4019.
fn admit_start(instance: &Instance, channel: &Channel, start: &Start) -> SqlResult<()> {
    let settings = channel.settings();
    let mode = instance.variable_text("gtid_mode");
    let refused = |code, text: String| Err(SqlError::new(code, "HY000", text));
    let whose = match channel.name() {
        "" => String::new(),
        name => format!(" for channel '{name}'"),
    };
    if start.receives && settings.auto_position && mode == "OFF" {
        let text = format!(
            "The replication receiver thread{whose} cannot start in AUTO_POSITION mode: this server uses \
             @@GLOBAL.GTID_MODE = OFF."
        );
        return refused(3112, text);
    }
    if settings.anonymous == Anonymous::Off {
        return Ok(());
    }
    if mode != "ON" {
        let text = format!(
            "Replication cannot start{whose} with ASSIGN_GTIDS_TO_ANONYMOUS_TRANSACTIONS = LOCAL|<UUID> as this server \
             uses @@GLOBAL.GTID_MODE <> ON."
        );
        return refused(4013, text);
    }
    if matches!(
        start.until,
        Some(Until::AfterGtids(_) | Until::BeforeGtids(_))
    ) {
        let text = "The SQL_AFTER_GTIDS or SQL_BEFORE_GTIDS clauses for START REPLICA cannot be used when the \
                    replication channel is configured with ASSIGN_GTIDS_TO_ANONYMOUS_TRANSACTIONS = LOCAL|<UUID>.";
        return refused(4019, text.to_owned());
    }
    Ok(())
}

/// Takes USER, PASSWORD, DEFAULT_AUTH or PLUGIN_DIR. The source says which method it wants; methods need no plugins.
fn account(start: &mut Start, option: &str, value: &[u8]) -> SqlResult<()> {
    let text = String::from_utf8_lossy(value).into_owned();
    match option {
        "USER" => start.user = Some(text),
        "PASSWORD" => start.password = Some(text),
        "DEFAULT_AUTH" => {}
        _ if text.is_empty() => {}
        option => {
            let what = format_args!("START REPLICA {option} = …");
            return Err(SqlError::not_supported(what));
        }
    }
    Ok(())
}

fn change_source(
    instance: &Instance,
    options: &[(Box<str>, Option<Vec<u8>>)],
    name: &str,
) -> SqlResult<Notes> {
    if GROUP_CHANNELS.contains(&name) {
        let what = "CHANGE REPLICATION SOURCE with the given parameters";
        return Err(errors::channel_refuses(what, name));
    }
    let known = instance.channels.get(name).ok();
    if let Some(channel) = &known {
        for (option, _) in options {
            admit(channel, concerns(option))?;
        }
    }
    let alone = known.as_ref().map(|channel| channel.lock_settings());
    let mut settings = match &known {
        Some(channel) => channel.settings(),
        None => {
            let (mut filters, filters_since) = instance.channels.global_filters();
            instance
                .channels
                .at_start()
                .lay_over_own(name, &mut filters);
            ChannelSettings {
                filters,
                filters_since,
                ..ChannelSettings::default()
            }
        }
    };
    let place = settings.change(name, options)?;
    let asks = |wanted: &str| options.iter().any(|(option, _)| &**option == wanted);
    settings.check(name, (&place, &asks), &instance.variable_text("gtid_mode"))?;
    if let Some(account) = &settings.checks_user {
        applier::checks_account(instance, name, account)?;
    }
    let moves = place.is_other_source || place.file.is_some() || place.position.is_some();
    let file = place.file.clone().unwrap_or_default();
    let position = place.position.unwrap_or(FIRST_EVENT);
    let mut notes = of_secrets(options, &settings);
    if asks("ASSIGN_GTIDS_TO_ANONYMOUS_TRANSACTIONS") && settings.anonymous != Anonymous::Off {
        notes.push((Level::Note, 4017, NAMES_ANONYMOUS.to_owned()));
    }
    if place.warns_of_heartbeat {
        notes.push((Level::Warning, 1703, SHORT_HEARTBEAT.to_owned()));
    }
    if asks("SOURCE_HEARTBEAT_PERIOD") || asks("MASTER_HEARTBEAT_PERIOD") {
        let timeout = instance.variable_u64("replica_net_timeout");
        notes.extend(settings.has_long_heartbeat(timeout).then(long_heartbeat));
    }
    match &known {
        Some(channel) => {
            let relay = relay_place(channel, &place)?;
            channel.configure(instance, settings)?;
            drop(alone);
            if let Some(relay) = relay {
                channel.go_on_at(instance, relay)?;
            } else if moves {
                channel.restart(instance, &file, position)?;
            }
        }
        None if place.is_of_relay_log() => {
            return Err(no_relay_file(&super::channel::relay_names(instance, name)?));
        }
        None => create(instance, name, settings, &file, position)?,
    }
    Ok(notes)
}

/// 1380.
fn no_relay_file(names: &Names) -> SqlError {
    let text = format!(
        "Failed initializing relay log position: Could not find target log file mentioned in applier metadata in the \
         index file '{}' during relay log initialization",
        names.index().display()
    );
    SqlError::new(1380, "HY000", text)
}

/// Where the applier goes on in the relay log, if RELAY_LOG_FILE or RELAY_LOG_POS says so.
fn relay_place(channel: &Channel, place: &NewPlace) -> SqlResult<Option<Place>> {
    if !place.is_of_relay_log() {
        return Ok(None);
    }
    let relay = channel.relay();
    let missing = || no_relay_file(relay.names());
    let file = match &place.relay_file {
        Some(name) => relay.names().number(name).ok_or_else(missing)?.0.into(),
        None => relay.end().file,
    };
    let offset = place.relay_position.unwrap_or(FIRST_EVENT);
    let found = relay.place_at(RelayPlace { file, offset });
    let found = found.map_err(|e| errors::channel_failed(e.to_string()))?;
    found.ok_or_else(missing).map(Some)
}

/// Warning 1704.
fn long_heartbeat() -> (Level, u16, String) {
    let text = "The requested value for the heartbeat period exceeds the value of `replica_net_timeout' seconds. A \
                sensible value for the period should be less than the timeout.";
    (Level::Warning, 1704, text.to_owned())
}

impl Instance {
    /// What is said of a new value of `replica_net_timeout`: a channel's heartbeats come less often.
    pub(crate) fn doubts_of_timeout(&self, seconds: u64) -> Option<(Level, u16, String)> {
        let mut channels = self.channels.all().into_iter();
        channels
            .any(|channel| channel.settings().has_long_heartbeat(seconds))
            .then(long_heartbeat)
    }
}

/// What MySQL says of passwords that travel, and of those that are kept.
fn of_secrets(options: &[(Box<str>, Option<Vec<u8>>)], settings: &ChannelSettings) -> Notes {
    let has = |names: &[&str]| options.iter().any(|(name, _)| names.contains(&&**name));
    let mut notes = Notes::new();
    if !has(&[
        "SOURCE_USER",
        "MASTER_USER",
        "SOURCE_PASSWORD",
        "MASTER_PASSWORD",
    ]) {
        return notes;
    }
    if !settings.ssl {
        let text = "Sending passwords in plain text without SSL/TLS is extremely insecure.";
        notes.push((Level::Note, 1759, text.to_owned()));
    }
    let text = "Storing MySQL user name or password information in the connection metadata repository is not secure \
                and is therefore not recommended. Please consider using the USER and PASSWORD connection options for \
                START REPLICA; see the 'START REPLICA Syntax' in the MySQL Manual for more information.";
    notes.push((Level::Note, 1760, text.to_owned()));
    notes
}

/// CHANGE REPLICATION FILTER: of one channel, or of all and those that come.
fn change_rules(
    instance: &Instance,
    rules: &[(Box<str>, Vec<Box<str>>)],
    channel: Option<&[u8]>,
) -> SqlResult<()> {
    let channels = chosen(instance, channel)?;
    for channel in &channels {
        admit(channel, Concerns::Applier)?;
    }
    let now = instance.now_micros();
    if channel.is_none() {
        let (mut global, _) = instance.channels.global_filters();
        change_filters(&mut global, rules)?;
        instance.channels.set_global_filters(global, now);
    }
    for found in channels {
        let _alone = found.lock_settings();
        let mut settings = found.settings();
        settings.change_filters(rules, channel.is_some(), now)?;
        found.configure(instance, settings)?;
    }
    Ok(())
}

fn create(
    instance: &Instance,
    name: &str,
    settings: ChannelSettings,
    file: &str,
    position: u64,
) -> SqlResult<()> {
    let channel = Channel::with(instance, name, settings.clone())?;
    channel.restart(instance, file, position)?;
    channel.configure(instance, settings)?;
    instance.channels.add(channel)
}

fn reset(instance: &Instance, channel: &Channel, all: bool) -> SqlResult<()> {
    admit(channel, Concerns::Both)?;
    channel.restart(instance, "", FIRST_EVENT)?;
    if all {
        applier::forget(instance, channel.name())?;
        let removed = instance.channels.remove(channel.name());
        let removed = removed.ok_or_else(|| does_not_exist(channel.name()))?;
        removed.drop_temporary(instance);
        let gone = removed.relay().remove();
        gone.map_err(|e| {
            SqlError::new(1371, "HY000", format!("Failed purging old relay logs: {e}"))
        })?;
    }
    Ok(())
}
