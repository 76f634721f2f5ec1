//! The tables about replication channels.
//!
//! Neighbours: `replica` has the channels. **Invariant**: no password is here.

use esker_binlog::relay::Queued;
use esker_types::Value;

use super::super::source::Source;
use super::super::{Viewer, text};
use super::moment_if;
use crate::applier::{Anonymous, Failure, Filters, Handled, WorkerStatus, name_of};
use crate::replica::{
    Channel, ChannelView, OtherSource, ReceiverState, named, remaining_delay, rewritten,
};

pub(super) static SOURCES: &[Source] = &[
    Source::new(
        "replication_connection_configuration",
        &[
            "CHANNEL_NAME",
            "HOST",
            "PORT",
            "USER",
            "NETWORK_INTERFACE",
            "AUTO_POSITION",
            "SSL_ALLOWED",
            "SSL_CA_FILE",
            "SSL_CA_PATH",
            "SSL_CERTIFICATE",
            "SSL_CIPHER",
            "SSL_KEY",
            "SSL_VERIFY_SERVER_CERTIFICATE",
            "SSL_CRL_FILE",
            "SSL_CRL_PATH",
            "CONNECTION_RETRY_INTERVAL",
            "CONNECTION_RETRY_COUNT",
            "HEARTBEAT_INTERVAL",
            "TLS_VERSION",
            "PUBLIC_KEY_PATH",
            "GET_PUBLIC_KEY",
            "NETWORK_NAMESPACE",
            "COMPRESSION_ALGORITHM",
            "ZSTD_COMPRESSION_LEVEL",
            "TLS_CIPHERSUITES",
            "SOURCE_CONNECTION_AUTO_FAILOVER",
            "GTID_ONLY",
        ],
        connection_configuration,
    ),
    Source::new(
        "replication_asynchronous_connection_failover",
        &[
            "CHANNEL_NAME",
            "HOST",
            "PORT",
            "NETWORK_NAMESPACE",
            "WEIGHT",
        ],
        other_sources,
    ),
    Source::new(
        "replication_connection_status",
        &[
            "CHANNEL_NAME",
            "SOURCE_UUID",
            "SERVICE_STATE",
            "COUNT_RECEIVED_HEARTBEATS",
            "LAST_HEARTBEAT_TIMESTAMP",
            "RECEIVED_TRANSACTION_SET",
            "LAST_ERROR_NUMBER",
            "LAST_ERROR_MESSAGE",
            "LAST_ERROR_TIMESTAMP",
            "LAST_QUEUED_TRANSACTION",
            "LAST_QUEUED_TRANSACTION_ORIGINAL_COMMIT_TIMESTAMP",
            "LAST_QUEUED_TRANSACTION_IMMEDIATE_COMMIT_TIMESTAMP",
            "LAST_QUEUED_TRANSACTION_START_QUEUE_TIMESTAMP",
            "LAST_QUEUED_TRANSACTION_END_QUEUE_TIMESTAMP",
            "QUEUEING_TRANSACTION",
            "QUEUEING_TRANSACTION_ORIGINAL_COMMIT_TIMESTAMP",
            "QUEUEING_TRANSACTION_IMMEDIATE_COMMIT_TIMESTAMP",
            "QUEUEING_TRANSACTION_START_QUEUE_TIMESTAMP",
        ],
        connection_status,
    ),
    Source::new(
        "replication_applier_configuration",
        &[
            "CHANNEL_NAME",
            "DESIRED_DELAY",
            "PRIVILEGE_CHECKS_USER",
            "REQUIRE_ROW_FORMAT",
            "REQUIRE_TABLE_PRIMARY_KEY_CHECK",
            "ASSIGN_GTIDS_TO_ANONYMOUS_TRANSACTIONS_TYPE",
            "ASSIGN_GTIDS_TO_ANONYMOUS_TRANSACTIONS_VALUE",
        ],
        applier_configuration,
    ),
    Source::new(
        "replication_applier_status",
        &[
            "CHANNEL_NAME",
            "SERVICE_STATE",
            "REMAINING_DELAY",
            "COUNT_TRANSACTIONS_RETRIES",
        ],
        applier_status,
    ),
    Source::new(
        "replication_applier_filters",
        &[
            "CHANNEL_NAME",
            "FILTER_NAME",
            "FILTER_RULE",
            "CONFIGURED_BY",
            "ACTIVE_SINCE",
        ],
        filters,
    ),
    Source::new(
        "replication_applier_global_filters",
        &[
            "FILTER_NAME",
            "FILTER_RULE",
            "CONFIGURED_BY",
            "ACTIVE_SINCE",
        ],
        global_filters,
    ),
    Source::new(
        "replication_applier_status_by_coordinator",
        &[
            "CHANNEL_NAME",
            "SERVICE_STATE",
            "LAST_ERROR_NUMBER",
            "LAST_ERROR_MESSAGE",
            "LAST_ERROR_TIMESTAMP",
            "LAST_PROCESSED_TRANSACTION",
            "LAST_PROCESSED_TRANSACTION_ORIGINAL_COMMIT_TIMESTAMP",
            "LAST_PROCESSED_TRANSACTION_IMMEDIATE_COMMIT_TIMESTAMP",
            "LAST_PROCESSED_TRANSACTION_START_BUFFER_TIMESTAMP",
            "LAST_PROCESSED_TRANSACTION_END_BUFFER_TIMESTAMP",
            "PROCESSING_TRANSACTION",
            "PROCESSING_TRANSACTION_ORIGINAL_COMMIT_TIMESTAMP",
            "PROCESSING_TRANSACTION_IMMEDIATE_COMMIT_TIMESTAMP",
            "PROCESSING_TRANSACTION_START_BUFFER_TIMESTAMP",
        ],
        coordinators,
    ),
    Source::new(
        "replication_applier_status_by_worker",
        &[
            "CHANNEL_NAME",
            "WORKER_ID",
            "SERVICE_STATE",
            "LAST_ERROR_NUMBER",
            "LAST_ERROR_MESSAGE",
            "LAST_ERROR_TIMESTAMP",
            "LAST_APPLIED_TRANSACTION",
            "LAST_APPLIED_TRANSACTION_ORIGINAL_COMMIT_TIMESTAMP",
            "LAST_APPLIED_TRANSACTION_IMMEDIATE_COMMIT_TIMESTAMP",
            "LAST_APPLIED_TRANSACTION_START_APPLY_TIMESTAMP",
            "LAST_APPLIED_TRANSACTION_END_APPLY_TIMESTAMP",
            "LAST_APPLIED_TRANSACTION_RETRIES_COUNT",
            "LAST_APPLIED_TRANSACTION_LAST_TRANSIENT_ERROR_NUMBER",
            "LAST_APPLIED_TRANSACTION_LAST_TRANSIENT_ERROR_MESSAGE",
            "LAST_APPLIED_TRANSACTION_LAST_TRANSIENT_ERROR_TIMESTAMP",
            "APPLYING_TRANSACTION",
            "APPLYING_TRANSACTION_ORIGINAL_COMMIT_TIMESTAMP",
            "APPLYING_TRANSACTION_IMMEDIATE_COMMIT_TIMESTAMP",
            "APPLYING_TRANSACTION_START_APPLY_TIMESTAMP",
            "APPLYING_TRANSACTION_RETRIES_COUNT",
            "APPLYING_TRANSACTION_LAST_TRANSIENT_ERROR_NUMBER",
            "APPLYING_TRANSACTION_LAST_TRANSIENT_ERROR_MESSAGE",
            "APPLYING_TRANSACTION_LAST_TRANSIENT_ERROR_TIMESTAMP",
        ],
        workers,
    ),
];

/// A row of each channel.
fn rows(viewer: &Viewer, row: impl Fn(&Channel, &ChannelView) -> Vec<Value>) -> Vec<Vec<Value>> {
    let channels = viewer.instance.channels.all();
    let row = |channel: &std::sync::Arc<Channel>| {
        let mut all = vec![text(channel.name())];
        all.extend(row(channel, &channel.view()));
        all
    };
    channels.iter().map(row).collect()
}

fn number(n: impl Into<u64>) -> Value {
    Value::UInt(n.into())
}

fn yes(is_so: bool) -> Value {
    text(if is_so { "YES" } else { "NO" })
}

fn one_if(is_on: bool) -> Value {
    text(if is_on { "1" } else { "0" })
}

fn on(is_on: bool) -> Value {
    text(if is_on { "ON" } else { "OFF" })
}

fn failure(viewer: &Viewer, failure: Option<&Failure>) -> [Value; 3] {
    [
        number(failure.map_or(0, |failure| failure.code)),
        text(failure.map_or("", |failure| &failure.text)),
        moment_if(viewer, failure.map(|failure| failure.micros)),
    ]
}

fn connection_configuration(viewer: &Viewer) -> Vec<Vec<Value>> {
    rows(viewer, |_, view| {
        let settings = &view.settings;
        let heartbeat = settings.heartbeat.unwrap_or_else(|| {
            let seconds = viewer.instance.variable_u64("replica_net_timeout");
            seconds as f64 / 2.0
        });
        vec![
            text(&settings.host),
            number(settings.port),
            text(&settings.user),
            text(&settings.bind),
            one_if(settings.auto_position),
            yes(settings.ssl),
            text(&settings.ssl_ca),
            text(&settings.ssl_capath),
            text(&settings.ssl_cert),
            text(&settings.ssl_cipher),
            text(&settings.ssl_key),
            yes(settings.ssl_verify),
            text(&settings.ssl_crl),
            text(&settings.ssl_crlpath),
            number(settings.connect_retry),
            number(settings.retry_count),
            Value::Double(heartbeat),
            text(&settings.tls_version),
            text(&settings.public_key_path),
            yes(settings.get_public_key),
            text(&settings.network_namespace),
            text(&settings.compression),
            number(settings.zstd_level),
            settings
                .tls_ciphersuites
                .as_deref()
                .map_or(Value::Null, text),
            one_if(settings.auto_failover),
            one_if(settings.gtid_only),
        ]
    })
}

pub(in crate::infoschema) fn other_sources(viewer: &Viewer) -> Vec<Vec<Value>> {
    let mut rows = Vec::new();
    for channel in viewer.instance.channels.all() {
        let settings = channel.view().settings;
        let row = |one: &OtherSource| {
            vec![
                text(channel.name()),
                text(&one.host),
                number(one.port),
                // There are none that could be entered.
                text(""),
                number(one.weight),
            ]
        };
        rows.extend(settings.sources.iter().map(row));
    }
    rows
}

fn connection_status(viewer: &Viewer) -> Vec<Vec<Value>> {
    rows(viewer, |channel, view| {
        let receiver = view.receiver.as_ref();
        let state = match receiver.map(|receiver| receiver.state) {
            None | Some(ReceiverState::Off) => "OFF",
            Some(ReceiverState::Streaming | ReceiverState::NoSpace) => "ON",
            Some(_) => "CONNECTING",
        };
        let mut row = vec![
            text(receiver.map_or("", |receiver| &receiver.source_uuid)),
            text(state),
            number(receiver.map_or(0, |receiver| receiver.heartbeats)),
            moment_if(viewer, receiver.map(|receiver| receiver.heartbeat_micros)),
            text(channel.relay().received().gtids.to_string()),
        ];
        let last = receiver.and_then(|receiver| receiver.failure.as_ref());
        row.extend(failure(viewer, last));
        let (queued, comes) = channel.relay().queue();
        row.extend(queueing(viewer, queued.as_ref()));
        let ended = queued.map(|queued| queued.ended_micros as i64);
        row.push(moment_if(viewer, ended));
        row.extend(queueing(viewer, comes.as_ref()));
        row
    })
}

/// What it is called, when it was committed first and at its source, and when it began to come.
fn queueing(viewer: &Viewer, queued: Option<&Queued>) -> [Value; 4] {
    let at = |micros: fn(&Queued) -> u64| moment_if(viewer, queued.map(|q| micros(q) as i64));
    [
        text(queued.map_or_else(String::new, |queued| name_of(&queued.id))),
        at(|q| q.original_micros),
        at(|q| q.commit_micros),
        at(|q| q.begun_micros),
    ]
}

fn applier_configuration(viewer: &Viewer) -> Vec<Vec<Value>> {
    rows(viewer, |_, view| {
        let settings = &view.settings;
        let checks = settings.checks_user.as_ref();
        let (named, uuid) = match settings.anonymous {
            Anonymous::Off => ("OFF", Value::Null),
            Anonymous::Local => ("LOCAL", text(viewer.instance.variable_text("server_uuid"))),
            Anonymous::Uuid(sid) => ("UUID", text(sid.to_string())),
        };
        vec![
            number(settings.delay),
            checks.map_or(Value::Null, |(user, host)| {
                text(format!("'{user}'@'{host}'"))
            }),
            yes(settings.row_format),
            text(settings.key_check.name()),
            text(named),
            uuid,
        ]
    })
}

fn applier_status(viewer: &Viewer) -> Vec<Vec<Value>> {
    rows(viewer, |_, view| {
        let applier = view.applier.as_ref();
        vec![
            on(applier.is_some_and(|applier| applier.is_running)),
            remaining_delay(applier),
            number(applier.map_or(0, |applier| applier.retries)),
        ]
    })
}

/// How a rule is shown, for each kind that there is.
fn rules(filters: &Filters) -> Vec<(&'static str, String)> {
    let all = [
        ("REPLICATE_DO_DB", filters.do_db.join(",")),
        ("REPLICATE_IGNORE_DB", filters.ignore_db.join(",")),
        ("REPLICATE_DO_TABLE", named(&filters.do_table)),
        ("REPLICATE_IGNORE_TABLE", named(&filters.ignore_table)),
        ("REPLICATE_WILD_DO_TABLE", filters.wild_do_table.join(",")),
        (
            "REPLICATE_WILD_IGNORE_TABLE",
            filters.wild_ignore_table.join(","),
        ),
        ("REPLICATE_REWRITE_DB", rewritten(&filters.rewrite_db)),
    ];
    all.into_iter()
        .filter(|(_, rule)| !rule.is_empty())
        .collect()
}

fn filters(viewer: &Viewer) -> Vec<Vec<Value>> {
    let mut rows = Vec::new();
    for channel in viewer.instance.channels.all() {
        let settings = channel.view().settings;
        let at_start = viewer.instance.channels.at_start();
        let own = at_start.own(channel.name()).map(rules).unwrap_or_default();
        let global = rules(at_start.global());
        for (name, rule) in rules(&settings.filters) {
            let is_in =
                |list: &[(&'static str, String)]| list.iter().any(|r| *r == (name, rule.clone()));
            let by = match settings.has_own_filters {
                _ if is_in(&own) => "STARTUP_OPTIONS_FOR_CHANNEL",
                _ if is_in(&global) => "STARTUP_OPTIONS",
                true => "CHANGE_REPLICATION_FILTER_FOR_CHANNEL",
                false => "CHANGE_REPLICATION_FILTER",
            };
            let since = moment_if(viewer, Some(settings.filters_since));
            rows.push(vec![
                text(channel.name()),
                text(name),
                text(rule),
                text(by),
                since,
            ]);
        }
    }
    rows
}

fn global_filters(viewer: &Viewer) -> Vec<Vec<Value>> {
    let (filters, since) = viewer.instance.channels.global_filters();
    let since = moment_if(viewer, Some(since));
    let at_start = rules(viewer.instance.channels.at_start().global());
    let row = |(name, rule)| {
        let by = text(match at_start.contains(&(name, String::clone(&rule))) {
            true => "STARTUP_OPTIONS",
            false => "CHANGE_REPLICATION_FILTER",
        });
        vec![text(name), text(rule), by, since.clone()]
    };
    rules(&filters).into_iter().map(row).collect()
}

/// When it was committed first and at its source, and when the thread began.
fn beginning(viewer: &Viewer, handled: &Handled) -> [Value; 4] {
    let at = |micros: u64| moment_if(viewer, Some(micros as i64));
    [
        text(handled.id.as_ref().map_or_else(String::new, name_of)),
        at(handled.original_micros),
        at(handled.commit_micros),
        at(handled.begun_micros),
    ]
}

fn end(viewer: &Viewer, handled: &Handled) -> Value {
    moment_if(viewer, Some(handled.ended_micros as i64))
}

/// How often it was tried again, and why.
fn attempts(viewer: &Viewer, handled: &Handled) -> Vec<Value> {
    let mut row = vec![number(handled.retries)];
    row.extend(failure(viewer, handled.transient.as_ref()));
    row
}

fn coordinators(viewer: &Viewer) -> Vec<Vec<Value>> {
    let mut rows = Vec::new();
    for channel in viewer.instance.channels.all() {
        let Some(applier) = channel.view().applier else {
            continue;
        };
        let mut row = vec![text(channel.name()), on(applier.is_running)];
        row.extend(failure(viewer, applier.failure.as_ref()));
        row.extend(beginning(viewer, &applier.last_processed));
        row.push(end(viewer, &applier.last_processed));
        row.extend(beginning(viewer, &applier.processing));
        rows.push(row);
    }
    rows
}

fn workers(viewer: &Viewer) -> Vec<Vec<Value>> {
    let mut rows = Vec::new();
    for channel in viewer.instance.channels.all() {
        let applier = channel.view().applier;
        let mut push = |id: u64, is_running, error: Option<&Failure>, worker: &WorkerStatus| {
            let mut row = vec![text(channel.name()), number(id), on(is_running)];
            row.extend(failure(viewer, error));
            row.extend(beginning(viewer, &worker.last_applied));
            row.push(end(viewer, &worker.last_applied));
            row.extend(attempts(viewer, &worker.last_applied));
            row.extend(beginning(viewer, &worker.applying));
            row.extend(attempts(viewer, &worker.applying));
            rows.push(row);
        };
        let Some(applier) = applier else {
            // As in MySQL, for who looks whether a channel is applied.
            push(0, false, None, &WorkerStatus::default());
            continue;
        };
        for (n, worker) in applier.workers.iter().enumerate() {
            let error = applier.failure.as_ref();
            let own = error.filter(|_| applier.failed_worker == Some(n));
            push(n as u64 + 1, applier.is_running, own, worker);
        }
    }
    rows
}
