//! Sessions as threads, their attributes, and who is connected by user and host.
//!
//! Neighbours: `session::registry` has the sessions.
//! **Invariants**: a session's thread has the session's id; whoever may read `threads` sees all of them, while
//! `processlist` and `session_account_connect_attrs` show everybody's only with the PROCESS privilege.

use std::collections::BTreeMap;
use std::sync::Arc;

use esker_types::Value;

use super::super::source::Source;
use super::super::{Viewer, optional, server, text, yes_no};
use crate::instance::Instance;
use crate::instruments::{INSTRUMENTED, REMEMBERED};
use crate::session::registry::Process;

pub(super) static SOURCES: &[Source] = &[
    Source::new("threads", THREADS, threads),
    Source::new(
        "processlist",
        &[
            "ID", "USER", "HOST", "DB", "COMMAND", "TIME", "STATE", "INFO",
        ],
        server::processes,
    ),
    Source::new("session_connect_attrs", ATTRIBUTES, all_attributes),
    Source::new(
        "session_account_connect_attrs",
        ATTRIBUTES,
        account_attributes,
    ),
    Source::new(
        "accounts",
        &["USER", "HOST", "CURRENT_CONNECTIONS", "TOTAL_CONNECTIONS"],
        accounts,
    )
    .emptied_by(forget_logins),
    Source::new(
        "users",
        &["USER", "CURRENT_CONNECTIONS", "TOTAL_CONNECTIONS"],
        users,
    )
    .emptied_by(forget_logins),
    Source::new(
        "hosts",
        &["HOST", "CURRENT_CONNECTIONS", "TOTAL_CONNECTIONS"],
        hosts,
    )
    .emptied_by(forget_logins),
];

/// All three are sums of the same counts.
fn forget_logins(instance: &Instance) {
    instance.registry.forget_logins();
}

const THREADS: &[&str] = &[
    "THREAD_ID",
    "NAME",
    "TYPE",
    "PROCESSLIST_ID",
    "PROCESSLIST_USER",
    "PROCESSLIST_HOST",
    "PROCESSLIST_DB",
    "PROCESSLIST_COMMAND",
    "PROCESSLIST_TIME",
    "PROCESSLIST_STATE",
    "PROCESSLIST_INFO",
    "INSTRUMENTED",
    "HISTORY",
    "CONNECTION_TYPE",
    "RESOURCE_GROUP",
    "EXECUTION_ENGINE",
    "TELEMETRY_ACTIVE",
];

fn threads(viewer: &Viewer) -> Vec<Vec<Value>> {
    let now = viewer.instance.now_micros();
    let row = |p: &Arc<Process>| {
        let detail = p.detail();
        let seconds = (now - p.since_micros()).max(0) / 1_000_000;
        let transport = p.connection().transport().map_or(Value::Null, text);
        vec![
            Value::UInt(p.id),
            text(p.connection().thread),
            text("FOREGROUND"),
            Value::UInt(p.id),
            text(&detail.user),
            text(p.host()),
            optional(detail.database.as_ref()),
            text(detail.command),
            Value::Int(seconds),
            optional(Some(p.state()).filter(|state| !state.is_empty())),
            optional(detail.info.as_ref().filter(|i| !i.is_empty())),
            yes_no(p.measured() & INSTRUMENTED != 0),
            yes_no(p.measured() & REMEMBERED != 0),
            transport,
            text("USR_default"),
            text("PRIMARY"),
            text("NO"),
        ]
    };
    viewer.instance.registry.list().iter().map(row).collect()
}

const ATTRIBUTES: &[&str] = &[
    "PROCESSLIST_ID",
    "ATTR_NAME",
    "ATTR_VALUE",
    "ORDINAL_POSITION",
];

fn all_attributes(viewer: &Viewer) -> Vec<Vec<Value>> {
    attributes(viewer, |_| true)
}

fn account_attributes(viewer: &Viewer) -> Vec<Vec<Value>> {
    let all = viewer.may("PROCESS");
    attributes(viewer, |p| all || p.is_of(&viewer.user))
}

fn attributes(viewer: &Viewer, is_shown: impl Fn(&Process) -> bool) -> Vec<Vec<Value>> {
    let mut rows = Vec::new();
    for process in viewer.instance.registry.list() {
        if !is_shown(&process) {
            continue;
        }
        for (nth, (name, value)) in process.connection().attributes.iter().enumerate() {
            rows.push(vec![
                Value::UInt(process.id),
                text(name),
                text(value),
                Value::Int(nth as i64),
            ]);
        }
    }
    rows
}

/// Sessions now and ever, by what `key` makes of user and host.
fn connections<K: Ord>(viewer: &Viewer, key: impl Fn(&str, &str) -> K) -> BTreeMap<K, (u64, u64)> {
    let mut sums: BTreeMap<K, (u64, u64)> = BTreeMap::new();
    for ((user, host), total) in viewer.instance.registry.logins() {
        sums.entry(key(&user, &host)).or_default().1 += total;
    }
    for process in viewer.instance.registry.list() {
        let user = process.detail().user;
        sums.entry(key(&user, process.host())).or_default().0 += 1;
    }
    sums
}

fn counted(mut place: Vec<Value>, (now, ever): (u64, u64)) -> Vec<Value> {
    place.extend([Value::UInt(now), Value::UInt(ever.max(now))]);
    place
}

fn accounts(viewer: &Viewer) -> Vec<Vec<Value>> {
    let sums = connections(viewer, |user, host| (user.to_owned(), host.to_owned()));
    let rows = sums.into_iter();
    rows.map(|((user, host), counts)| counted(vec![text(user), text(host)], counts))
        .collect()
}

fn users(viewer: &Viewer) -> Vec<Vec<Value>> {
    let sums = connections(viewer, |user, _| user.to_owned()).into_iter();
    sums.map(|(user, counts)| counted(vec![text(user)], counts))
        .collect()
}

fn hosts(viewer: &Viewer) -> Vec<Vec<Value>> {
    let sums = connections(viewer, |_, host| host.to_owned()).into_iter();
    sums.map(|(host, counts)| counted(vec![text(host)], counts))
        .collect()
}
