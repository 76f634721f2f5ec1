//! System variables, status variables and user variables as tables.
//!
//! Neighbours: `variables` holds the global values, the session that looks its own; `show::status` has the counters.
//! **Invariant**: the values are those of SHOW VARIABLES and SHOW STATUS. Only the own thread's system variables and
//! user variables are known: others keep theirs to themselves.

use std::collections::BTreeMap;
use std::sync::Arc;

use esker_sql_catalog::variables::value::default_of;
use esker_sql_catalog::variables::{Change, Scope, VarDef, VarId, VarKind, VarValue};
use esker_types::Value;

use super::super::source::Source;
use super::super::{Viewer, optional, text};
use crate::persisted::Kept;
use crate::session::registry::Process;
use crate::show::status;

const NAME_VALUE: &[&str] = &["VARIABLE_NAME", "VARIABLE_VALUE"];
const BY_THREAD: &[&str] = &["THREAD_ID", "VARIABLE_NAME", "VARIABLE_VALUE"];

pub(super) static SOURCES: &[Source] = &[
    Source::new("global_variables", NAME_VALUE, global_variables),
    Source::new("session_variables", NAME_VALUE, session_variables),
    Source::new("variables_by_thread", BY_THREAD, variables_by_thread),
    Source::new("variables_info", VARIABLES_INFO, variables_info),
    Source::new("persisted_variables", NAME_VALUE, persisted_variables),
    Source::new("global_status", NAME_VALUE, global_status),
    Source::new("session_status", NAME_VALUE, session_status),
    Source::new("status_by_thread", BY_THREAD, status_by_thread),
    Source::new(
        "status_by_account",
        &["USER", "HOST", "VARIABLE_NAME", "VARIABLE_VALUE"],
        status_by_account,
    ),
    Source::new(
        "status_by_user",
        &["USER", "VARIABLE_NAME", "VARIABLE_VALUE"],
        status_by_user,
    ),
    Source::new(
        "status_by_host",
        &["HOST", "VARIABLE_NAME", "VARIABLE_VALUE"],
        status_by_host,
    ),
    Source::new(
        "user_variables_by_thread",
        BY_THREAD,
        user_variables_by_thread,
    ),
];

fn global_variables(viewer: &Viewer) -> Vec<Vec<Value>> {
    let shown = VarId::all().filter(|id| id.def().scope != Scope::Session);
    shown
        .map(|id| {
            let value = viewer.instance.listed_variable(id);
            vec![text(id.def().name), text(value.print())]
        })
        .collect()
}

fn session_variables(viewer: &Viewer) -> Vec<Vec<Value>> {
    let variables = viewer.session.iter().flat_map(|s| &s.variables);
    variables
        .map(|(name, value)| vec![text(name), text(value)])
        .collect()
}

fn variables_by_thread(viewer: &Viewer) -> Vec<Vec<Value>> {
    let is_own = |name: &str| VarId::find(name).is_ok_and(|id| id.def().scope != Scope::Global);
    let variables = viewer.session.iter().flat_map(|s| &s.variables);
    let own = variables.filter(|(name, _)| is_own(name));
    own.map(|(name, value)| vec![Value::UInt(viewer.connection), text(name), text(value)])
        .collect()
}

const VARIABLES_INFO: &[&str] = &[
    "VARIABLE_NAME",
    "VARIABLE_SOURCE",
    "VARIABLE_PATH",
    "MIN_VALUE",
    "MAX_VALUE",
    "SET_TIME",
    "SET_USER",
    "SET_HOST",
];

fn persisted_variables(viewer: &Viewer) -> Vec<Vec<Value>> {
    let all = viewer.instance.persisted().all().into_iter();
    all.map(|(name, kept)| vec![text(name), text(kept.value)])
        .collect()
}

/// Where a value came from that SET PERSIST did not set.
fn source_of(def: &VarDef, value: &VarValue) -> &'static str {
    match default_of(def) == *value {
        true => "COMPILED",
        false if def.dynamic => "DYNAMIC",
        false => "COMMAND_LINE",
    }
}

fn variables_info(viewer: &Viewer) -> Vec<Vec<Value>> {
    let globals = viewer.instance.globals.snapshot();
    let persisted = viewer.instance.persisted().all();
    let is_loaded = viewer
        .instance
        .globals
        .named("persisted_globals_load")
        .is_on();
    let row = |(id, value): (VarId, &VarValue)| {
        let def = id.def();
        let kept = persisted
            .get(def.name)
            .filter(|kept| is_loaded && kept.value == value.print());
        let (min, max) = match def.kind {
            VarKind::UInt { min, max } => (min.to_string(), max.to_string()),
            VarKind::Int { min, max } => (min.to_string(), max.to_string()),
            VarKind::Double { min, max } => (min.to_string(), max.to_string()),
            _ => ("0".to_owned(), "0".to_owned()),
        };
        let change = viewer.instance.globals.change(id);
        let source = match (kept, &change) {
            (_, Some(_)) => "DYNAMIC",
            (Some(_), None) => "PERSISTED",
            (None, None) => source_of(def, value),
        };
        let kept = change.or_else(|| kept.map(Kept::change));
        let set_at = kept
            .as_ref()
            .map_or(Value::Null, |by| super::moment(viewer, by.micros));
        let by = |who: fn(&Change) -> &String| optional(kept.as_ref().map(who));
        vec![
            text(def.name),
            text(source),
            text(""),
            text(min),
            text(max),
            set_at,
            by(|change| &change.user),
            by(|change| &change.host),
        ]
    };
    VarId::all().zip(globals.iter()).map(row).collect()
}

fn global_status(viewer: &Viewer) -> Vec<Vec<Value>> {
    let rows = status::global(&viewer.instance).into_iter();
    rows.map(|(name, value)| vec![text(name), text(value)])
        .collect()
}

/// The session that looks.
fn own(viewer: &Viewer) -> Option<Arc<Process>> {
    let sessions = viewer.instance.registry.list();
    sessions.into_iter().find(|p| p.id == viewer.connection)
}

fn session_status(viewer: &Viewer) -> Vec<Vec<Value>> {
    let rows = own(viewer).map(|process| status::of_session(&viewer.instance, &process));
    let rows = rows.into_iter().flatten();
    rows.map(|(name, value)| vec![text(name), text(value)])
        .collect()
}

fn status_by_thread(viewer: &Viewer) -> Vec<Vec<Value>> {
    let mut rows = Vec::new();
    for process in viewer.instance.registry.list() {
        for (name, value) in status::own_of_session(&process) {
            rows.push(vec![Value::UInt(process.id), text(name), text(value)]);
        }
    }
    rows
}

/// Sums of the counters of living sessions, by what `key` says of each.
fn sums<K: Ord>(viewer: &Viewer, key: impl Fn(&Process) -> K) -> BTreeMap<K, Vec<u64>> {
    let mut sums: BTreeMap<K, Vec<u64>> = BTreeMap::new();
    for process in viewer.instance.registry.list() {
        let sum = sums.entry(key(&process)).or_insert_with(status::zeros);
        process.counts.add_to(sum);
    }
    sums
}

fn counted(place: &[String], counts: &[u64]) -> Vec<Vec<Value>> {
    let names = status::counter_names().iter().zip(counts);
    let row = |(name, count): (&&str, &u64)| {
        let mut row: Vec<Value> = place.iter().map(text).collect();
        row.extend([text(name), text(count.to_string())]);
        row
    };
    names.map(row).collect()
}

fn status_by_account(viewer: &Viewer) -> Vec<Vec<Value>> {
    let sums = sums(viewer, |p| (p.detail().user, p.host().to_owned()));
    let rows = sums.into_iter();
    rows.flat_map(|((user, host), counts)| counted(&[user, host], &counts))
        .collect()
}

fn status_by_user(viewer: &Viewer) -> Vec<Vec<Value>> {
    let sums = sums(viewer, |p| p.detail().user).into_iter();
    sums.flat_map(|(user, counts)| counted(&[user], &counts))
        .collect()
}

fn status_by_host(viewer: &Viewer) -> Vec<Vec<Value>> {
    let sums = sums(viewer, |p| p.host().to_owned()).into_iter();
    sums.flat_map(|(host, counts)| counted(&[host], &counts))
        .collect()
}

fn user_variables_by_thread(viewer: &Viewer) -> Vec<Vec<Value>> {
    let variables = viewer.session.iter().flat_map(|s| &s.user_variables);
    variables
        .map(|(name, value)| vec![Value::UInt(viewer.connection), text(name), value.clone()])
        .collect()
}
