//! SHOW REPLICA STATUS, with today's and with the old names of its columns.
//!
//! Neighbours: `channel` has what is shown. **Invariant**: names and order are MySQL 8.4's; with SLAVE, those before.

use esker_types::{DateTime, SqlResult, Value};

use super::channel::{Channel, ChannelView};
use super::reception::{ReceiverState, ReceiverView};
use super::settings::ChannelSettings;
use super::statements::chosen;
use crate::applier::{Failure, Filters, Status, Until, state_of_applier};
use crate::instance::Instance;
use crate::show::{Table, t};

/// What columns hold that are no texts.
const NUMBERS: &[&str] = &[
    "Source_Port",
    "Connect_Retry",
    "Read_Source_Log_Pos",
    "Relay_Log_Pos",
    "Last_Errno",
    "Skip_Counter",
    "Exec_Source_Log_Pos",
    "Relay_Log_Space",
    "Until_Log_Pos",
    "Seconds_Behind_Source",
    "Last_IO_Errno",
    "Last_SQL_Errno",
    "Source_Server_Id",
    "SQL_Delay",
    "SQL_Remaining_Delay",
    "Source_Retry_Count",
    "Auto_Position",
    "Get_Source_public_key",
];

/// The old name of a column.
fn old_name(name: &str) -> String {
    match name {
        "Get_Source_public_key" => return "Get_master_public_key".to_owned(),
        "Source_TLS_Version" => return "Master_TLS_Version".to_owned(),
        _ => {}
    }
    if name.starts_with("Replicate_") {
        return name.to_owned();
    }
    name.replace("Source", "Master").replace("Replica", "Slave")
}

impl Instance {
    /// SHOW REPLICA STATUS of one channel, or of all.
    ///
    /// # Errors
    /// 3074; 3076.
    pub(crate) fn show_replica_status(
        &self,
        name: Option<&[u8]>,
        old_names: bool,
    ) -> SqlResult<Table> {
        let channels = chosen(self, name)?;
        let blank = columns(self, None);
        let names: Vec<_> = blank.iter().map(|(name, _)| *name).collect();
        let mut rows = Vec::new();
        for channel in &channels {
            let row = columns(self, Some(channel));
            rows.push(row.into_iter().map(|(_, value)| value).collect());
        }
        if !old_names {
            return Ok(Table::mixed(&names, NUMBERS, rows));
        }
        let old: Vec<_> = names.iter().map(|name| old_name(name)).collect();
        let numbers: Vec<_> = NUMBERS.iter().map(|name| old_name(name)).collect();
        let old: Vec<_> = old.iter().map(String::as_str).collect();
        let numbers: Vec<_> = numbers.iter().map(String::as_str).collect();
        Ok(Table::mixed(&old, &numbers, rows))
    }
}

fn number(n: impl Into<u64>) -> Value {
    Value::UInt(n.into())
}

fn yes(is_so: bool) -> Value {
    t(if is_so { "Yes" } else { "No" })
}

fn receiving(state: ReceiverState) -> &'static str {
    match state {
        ReceiverState::Off => "No",
        ReceiverState::Streaming | ReceiverState::NoSpace => "Yes",
        _ => "Connecting",
    }
}

/// Number, text and time of what has gone wrong.
fn failure(instance: &Instance, failure: Option<&Failure>) -> (Value, Value, Value) {
    let Some(failure) = failure else {
        return (number(0u64), t(""), t(""));
    };
    let time = DateTime::from_utc(failure.micros, &instance.system_zone);
    let time = time.map_or_else(String::new, |time| time.to_string());
    let time: String = time
        .chars()
        .skip(2)
        .filter(|c| *c != '-')
        .take("yymmdd hh:mm:ss".len())
        .collect();
    (number(failure.code), t(&failure.text), t(time))
}

/// Seconds until the transaction that is delayed is applied; those that have begun count.
pub(crate) fn remaining_delay(applier: Option<&Status>) -> Value {
    let left = applier.and_then(|applier| applier.delay_left);
    left.map_or(Value::Null, |left| {
        number(left.as_millis().div_ceil(1000) as u64)
    })
}

/// Tables of a rule.
pub(crate) fn named(tables: &[(String, String)]) -> String {
    let all: Vec<_> = tables.iter().map(|(d, t)| format!("{d}.{t}")).collect();
    all.join(",")
}

/// Databases of a rule that gives them other names.
pub(crate) fn rewritten(pairs: &[(String, String)]) -> String {
    let all: Vec<_> = pairs.iter().map(|(a, b)| format!("({a},{b})")).collect();
    all.join(",")
}

/// Names and values of a row; without a channel, names alone count.
fn columns(instance: &Instance, channel: Option<&Channel>) -> Vec<(&'static str, Value)> {
    let view = channel.map(Channel::view);
    let name = channel.map(Channel::name).unwrap_or_default();
    let Some((channel, view)) = channel.zip(view) else {
        let view = ChannelView::default();
        return row(instance, name, &view, &Places::default());
    };
    let places = Places::of(channel, &view);
    row(instance, name, &view, &places)
}

/// Where the channel is in the logs.
#[derive(Default)]
struct Places {
    read_file: String,
    read_pos: u64,
    relay_file: String,
    relay_pos: u64,
    exec_file: String,
    exec_pos: u64,
    relay_space: u64,
    /// Of UNTIL, if that is one.
    until_relay_file: String,
    retrieved: String,
}

impl Places {
    fn of(channel: &Channel, view: &ChannelView) -> Self {
        let relay = channel.relay();
        let received = relay.received();
        let applied = view.applier.as_ref().map(|applier| applier.passed.clone());
        let applied = applied.unwrap_or_else(|| received.end.clone());
        Self {
            read_file: received.end.source_file,
            read_pos: received.end.source_pos,
            relay_file: relay.name_of(applied.relay),
            relay_pos: applied.relay.offset,
            exec_file: applied.source_file,
            exec_pos: applied.source_pos,
            relay_space: relay.space(),
            until_relay_file: match &view.until {
                Some(Until::RelayPosition(place)) => relay.name_of(*place),
                _ => String::new(),
            },
            retrieved: received.gtids.to_string(),
        }
    }
}

fn lag(receiver: Option<&ReceiverView>, applier: Option<&Status>, places: &Places) -> Value {
    let Some(applier) = applier.filter(|applier| applier.is_running) else {
        return Value::Null;
    };
    let is_behind = (&places.exec_file, places.exec_pos) != (&places.read_file, places.read_pos);
    match (applier.lag_seconds, receiver.map(|receiver| receiver.state)) {
        (Some(seconds), _) if is_behind => number(seconds),
        (_, Some(ReceiverState::Streaming | ReceiverState::NoSpace)) => number(0u64),
        _ => Value::Null,
    }
}

fn until(until: Option<&Until>) -> (&'static str, String, u64) {
    match until {
        None => ("None", String::new(), 0),
        Some(Until::BeforeGtids(_)) => ("SQL_BEFORE_GTIDS", String::new(), 0),
        Some(Until::AfterGtids(_)) => ("SQL_AFTER_GTIDS", String::new(), 0),
        Some(Until::AfterGaps) => ("SQL_AFTER_MTS_GAPS", String::new(), 0),
        Some(Until::SourcePosition(file, at)) => ("Source", file.clone(), *at),
        Some(Until::RelayPosition(place)) => ("Relay", String::new(), place.offset),
    }
}

/// A column and its value.
type Column = (&'static str, Value);

/// The source, how far what it sends has come, and what runs.
fn connection(
    settings: &ChannelSettings,
    places: &Places,
    state: ReceiverState,
    is_applying: bool,
) -> [Column; 12] {
    [
        ("Replica_IO_State", t(state.text())),
        ("Source_Host", t(&settings.host)),
        ("Source_User", t(&settings.user)),
        ("Source_Port", number(settings.port)),
        ("Connect_Retry", number(settings.connect_retry)),
        ("Source_Log_File", t(&places.read_file)),
        ("Read_Source_Log_Pos", number(places.read_pos)),
        ("Relay_Log_File", t(&places.relay_file)),
        ("Relay_Log_Pos", number(places.relay_pos)),
        ("Relay_Source_Log_File", t(&places.exec_file)),
        ("Replica_IO_Running", t(receiving(state))),
        ("Replica_SQL_Running", yes(is_applying)),
    ]
}

/// The rules about what is applied.
fn rules(filters: &Filters) -> [Column; 6] {
    [
        ("Replicate_Do_DB", t(filters.do_db.join(","))),
        ("Replicate_Ignore_DB", t(filters.ignore_db.join(","))),
        ("Replicate_Do_Table", t(named(&filters.do_table))),
        ("Replicate_Ignore_Table", t(named(&filters.ignore_table))),
        (
            "Replicate_Wild_Do_Table",
            t(filters.wild_do_table.join(",")),
        ),
        (
            "Replicate_Wild_Ignore_Table",
            t(filters.wild_ignore_table.join(",")),
        ),
    ]
}

fn tls(settings: &ChannelSettings) -> [Column; 6] {
    [
        ("Source_SSL_Allowed", yes(settings.ssl)),
        ("Source_SSL_CA_File", t(&settings.ssl_ca)),
        ("Source_SSL_CA_Path", t(&settings.ssl_capath)),
        ("Source_SSL_Cert", t(&settings.ssl_cert)),
        ("Source_SSL_Cipher", t(&settings.ssl_cipher)),
        ("Source_SSL_Key", t(&settings.ssl_key)),
    ]
}

/// The columns that MySQL has added behind all others.
fn last(name: &str, settings: &ChannelSettings) -> [Column; 7] {
    let filters = &settings.filters;
    [
        ("Auto_Position", number(u64::from(settings.auto_position))),
        ("Replicate_Rewrite_DB", t(rewritten(&filters.rewrite_db))),
        ("Channel_Name", t(name)),
        ("Source_TLS_Version", t(&settings.tls_version)),
        ("Source_public_key_path", t(&settings.public_key_path)),
        (
            "Get_Source_public_key",
            number(u64::from(settings.get_public_key)),
        ),
        ("Network_Namespace", t(&settings.network_namespace)),
    ]
}

fn row(instance: &Instance, name: &str, view: &ChannelView, places: &Places) -> Vec<Column> {
    let settings = &view.settings;
    let receiver = view.receiver.as_ref();
    let applier = view.applier.as_ref();
    let state = receiver.map_or(ReceiverState::Off, |receiver| receiver.state);
    let is_applying = applier.is_some_and(|applier| applier.is_running);
    let receiver_failure = receiver.and_then(|receiver| receiver.failure.as_ref());
    let applier_failure = applier.and_then(|applier| applier.failure.as_ref());
    let (io_errno, io_error, io_time) = failure(instance, receiver_failure);
    let (sql_errno, sql_error, sql_time) = failure(instance, applier_failure);
    let (until_kind, mut until_file, until_pos) = until(view.until.as_ref());
    until_file.push_str(&places.until_relay_file);
    let filters = &settings.filters;
    let ignored: Vec<_> = settings
        .ignored_servers
        .iter()
        .map(ToString::to_string)
        .collect();
    let executed = instance.gtid_executed().to_string();
    let mut row = connection(settings, places, state, is_applying).to_vec();
    row.extend(rules(filters));
    row.extend([
        ("Last_Errno", sql_errno.clone()),
        ("Last_Error", sql_error.clone()),
        (
            "Skip_Counter",
            number(applier.map_or(0, |applier| applier.skips)),
        ),
        ("Exec_Source_Log_Pos", number(places.exec_pos)),
        ("Relay_Log_Space", number(places.relay_space)),
        ("Until_Condition", t(until_kind)),
        ("Until_Log_File", t(until_file)),
        ("Until_Log_Pos", number(until_pos)),
    ]);
    row.extend(tls(settings));
    row.extend([
        ("Seconds_Behind_Source", lag(receiver, applier, places)),
        ("Source_SSL_Verify_Server_Cert", yes(settings.ssl_verify)),
        ("Last_IO_Errno", io_errno),
        ("Last_IO_Error", io_error),
        ("Last_SQL_Errno", sql_errno),
        ("Last_SQL_Error", sql_error),
        ("Replicate_Ignore_Server_Ids", t(ignored.join(","))),
        (
            "Source_Server_Id",
            number(receiver.map_or(0, |receiver| receiver.source_id)),
        ),
        (
            "Source_UUID",
            t(receiver.map_or("", |receiver| &receiver.source_uuid)),
        ),
        ("Source_Info_File", t("mysql.slave_master_info")),
        ("SQL_Delay", number(settings.delay)),
        ("SQL_Remaining_Delay", remaining_delay(applier)),
        (
            "Replica_SQL_Running_State",
            t(applier.map_or("", state_of_applier)),
        ),
        ("Source_Retry_Count", number(settings.retry_count)),
        ("Source_Bind", t(&settings.bind)),
        ("Last_IO_Error_Timestamp", io_time),
        ("Last_SQL_Error_Timestamp", sql_time),
        ("Source_SSL_Crl", t(&settings.ssl_crl)),
        ("Source_SSL_Crlpath", t(&settings.ssl_crlpath)),
        ("Retrieved_Gtid_Set", t(&places.retrieved)),
        ("Executed_Gtid_Set", t(executed)),
    ]);
    row.extend(last(name, settings));
    row
}

#[cfg(test)]
mod tests {
    use super::old_name;

    #[test]
    fn old_names_of_columns() {
        for (name, old) in [
            ("Replica_IO_State", "Slave_IO_State"),
            ("Source_Host", "Master_Host"),
            ("Seconds_Behind_Source", "Seconds_Behind_Master"),
            ("Replicate_Do_DB", "Replicate_Do_DB"),
            ("Replicate_Ignore_Server_Ids", "Replicate_Ignore_Server_Ids"),
            ("Source_public_key_path", "Master_public_key_path"),
            ("Get_Source_public_key", "Get_master_public_key"),
        ] {
            assert_eq!(old_name(name), old);
        }
    }
}
