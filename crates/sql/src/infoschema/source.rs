//! Where the rows of a system table come from: the columns that are filled, and a function that makes them.
//!
//! Neighbours: `mysql` and `performance` list their sources; `infoschema` puts the rows under the declared columns.
//! **Invariants**: a source names columns of its table (a test looks); a column that no source fills is NULL, or the
//! zero of its type where it cannot be; values have the type of their column when they leave here.

use std::sync::Arc;

use esker_types::{SqlType, TypeKind, Value};

use super::{
    TableSpec, Viewer, dictionary, events, metrics, mysql, performance, profiling, roles, routines,
    tablespaces, traces, view_usage,
};
use crate::instance::Instance;
use crate::session::Trace;

/// The rows of a system table.
pub(super) struct Source {
    /// The table it fills.
    pub(super) table: &'static str,
    /// The columns that its rows have.
    pub(super) columns: &'static [&'static str],
    /// Makes the rows.
    pub(super) make: fn(&Viewer) -> Vec<Vec<Value>>,
    /// Empties what the rows are made of, for TRUNCATE.
    pub(super) truncate: Option<fn(&Instance)>,
}

impl Source {
    /// The rows that `make` makes, of these columns.
    pub(super) const fn new(
        table: &'static str,
        columns: &'static [&'static str],
        make: fn(&Viewer) -> Vec<Vec<Value>>,
    ) -> Self {
        Self {
            table,
            columns,
            make,
            truncate: None,
        }
    }

    /// The same, which TRUNCATE empties.
    pub(super) const fn emptied_by(mut self, truncate: fn(&Instance)) -> Self {
        self.truncate = Some(truncate);
        self
    }

    /// The same, of which nothing can be forgotten: TRUNCATE is let through, and what is under way is there again.
    pub(super) const fn of_the_moment(self) -> Self {
        self.emptied_by(|_| ())
    }

    /// Rows with all columns of the table.
    pub(super) fn rows(&self, spec: &TableSpec, viewer: &Viewer) -> Vec<Vec<Value>> {
        let blank: Vec<Value> = spec.columns.iter().map(|c| blank(&c.ty)).collect();
        let place = |name: &&str| spec.column(name).expect("a source names columns");
        let places: Vec<usize> = self.columns.iter().map(place).collect();
        let whole = |values: Vec<Value>| {
            assert_eq!(values.len(), places.len(), "{}", self.table);
            let mut row = blank.clone();
            for (&place, value) in places.iter().zip(values) {
                row[place] = value;
            }
            row
        };
        (self.make)(viewer).into_iter().map(whole).collect()
    }
}

/// The source of a table.
pub(super) fn find(spec: &TableSpec) -> Option<&'static Source> {
    let mut sources = all_of(spec.schema);
    sources.find(|s| s.table == spec.name)
}

/// Tables of INFORMATION_SCHEMA whose rows come from sources; the other parts of `infoschema` make the rest.
const INFORMATION_SCHEMA: &[&[Source]] = &[
    roles::SOURCES,
    routines::SOURCES,
    events::SOURCES,
    dictionary::SOURCES,
    metrics::SOURCES,
    tablespaces::SOURCES,
    profiling::SOURCES,
    traces::SOURCES,
    view_usage::SOURCES,
];

/// The sources of a schema.
fn all_of(schema: &str) -> impl Iterator<Item = &'static Source> {
    let parts = match schema {
        "information_schema" => INFORMATION_SCHEMA,
        "mysql" => mysql::SOURCES,
        "performance_schema" => performance::SOURCES,
        "sys" => super::sys::SOURCES,
        _ => &[],
    };
    parts.iter().copied().flatten()
}

/// TRUNCATE of a system table. False: it is none that can be emptied.
pub(crate) fn truncate(spec: &TableSpec, instance: &Instance) -> bool {
    let Some(source) = find(spec) else {
        return is_always_empty(spec.schema, spec.name);
    };
    if let Some(empty) = source.truncate {
        empty(instance);
    }
    source.truncate.is_some()
}

/// Does a table without a source have what MySQL counts, and lets one forget? Nothing is counted here.
fn is_always_empty(schema: &str, table: &str) -> bool {
    schema == "performance_schema"
        && (table.starts_with("events_") || table.contains("_summary_") || table == "host_cache")
}

/// What tables about the session that looks at them show.
#[derive(Debug, Default)]
pub(crate) struct SessionState {
    /// System variables.
    pub(crate) variables: Vec<(&'static str, String)>,
    /// Active roles: user and host.
    pub(crate) roles: Vec<(String, String)>,
    /// User variables.
    pub(crate) user_variables: Vec<(String, Value)>,
    /// Of the last statements: number, number of the stage, state, microseconds.
    pub(crate) stages: Vec<(u64, u64, &'static str, u64)>,
    /// What the planner considered for the last statements.
    pub(crate) traces: Vec<Trace>,
}

/// Does the table show the session that looks at it?
pub(crate) fn wants_session(spec: &TableSpec) -> bool {
    const TABLES: &[&str] = &[
        "session_variables",
        "session_status",
        "status_by_thread",
        "user_variables_by_thread",
        "variables_by_thread",
    ];
    matches!(spec.name, "ENABLED_ROLES" | "OPTIMIZER_TRACE" | "PROFILING")
        || spec.schema == "performance_schema" && TABLES.contains(&spec.name)
}

/// The value of a column that nothing fills.
fn blank(ty: &SqlType) -> Value {
    if ty.nullable {
        return Value::Null;
    }
    match &ty.kind {
        TypeKind::Float | TypeKind::Double => Value::Double(0.0),
        TypeKind::Enum(labels) => Value::Label(1, labels[0].as_bytes().into()),
        TypeKind::Set(_) => Value::Label(0, Box::default()),
        TypeKind::Date | TypeKind::Time | TypeKind::DateTime | TypeKind::Timestamp => Value::Null,
        TypeKind::Json => Value::Null,
        _ if ty.is_integer() => integer(0, ty),
        TypeKind::Decimal => Value::Int(0),
        _ => Value::Str(Vec::new()),
    }
}

fn integer(n: i64, ty: &SqlType) -> Value {
    match ty.unsigned {
        true => Value::UInt(n.max(0) as u64),
        false => Value::Int(n),
    }
}

/// Gives every value the type of its column.
pub(super) fn fit(row: &mut [Value], spec: &TableSpec) {
    for (value, column) in row.iter_mut().zip(&spec.columns) {
        fit_value(value, &column.ty);
    }
}

/// Gives a value the type of its column.
pub(crate) fn fit_value(value: &mut Value, ty: &SqlType) {
    let fitted = match (&ty.kind, &*value) {
        (TypeKind::Enum(labels), Value::Str(text)) => enum_label(labels, text),
        (TypeKind::Set(labels), Value::Str(text)) => set_label(labels, text),
        (_, Value::Int(n)) if ty.is_integer() && ty.unsigned => Value::UInt((*n).max(0) as u64),
        (_, Value::UInt(n)) if ty.is_integer() && !ty.unsigned => {
            Value::Int(i64::try_from(*n).unwrap_or(i64::MAX))
        }
        (_, Value::UInt(n)) if ty.is_string() => Value::str(n.to_string()),
        _ => return,
    };
    *value = fitted;
}

/// The label that a text is; its error value for one that is none.
fn enum_label(labels: &[Arc<str>], text: &[u8]) -> Value {
    let is_it = |label: &Arc<str>| label.as_bytes().eq_ignore_ascii_case(text);
    match labels.iter().position(is_it) {
        Some(nth) => Value::Label(nth as u64 + 1, labels[nth].as_bytes().into()),
        None => Value::Label(0, Box::default()),
    }
}

/// The set that a text with commas is.
fn set_label(labels: &[Arc<str>], text: &[u8]) -> Value {
    let named = |label: &Arc<str>| {
        let mut parts = text.split(|b| *b == b',');
        parts.any(|part| label.as_bytes().eq_ignore_ascii_case(part))
    };
    let bits = labels.iter().enumerate().filter(|(_, label)| named(label));
    let (mut mask, mut texts) = (0_u64, Vec::new());
    for (nth, label) in bits {
        mask |= 1 << nth;
        texts.push(&**label);
    }
    Value::Label(mask, texts.join(",").into_bytes().into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_name_columns_of_their_tables() {
        for schema in ["information_schema", "mysql", "performance_schema"] {
            let sources = all_of(schema);
            let schema = super::super::schema(schema).unwrap();
            for source in sources {
                let table = schema.table(source.table);
                let table = table.unwrap_or_else(|| panic!("no table {}", source.table));
                for column in source.columns {
                    assert!(table.column(column).is_some(), "{}.{column}", table.name);
                }
            }
        }
    }

    #[test]
    fn what_is_always_empty_can_be_emptied() {
        for (table, expected) in [
            ("host_cache", true),
            ("events_waits_summary_global_by_event_name", true),
            ("replication_connection_status", false),
            ("log_status", false),
        ] {
            assert_eq!(is_always_empty("performance_schema", table), expected);
        }
        assert!(!is_always_empty("mysql", "host_cache"));
    }

    #[test]
    fn texts_become_labels() {
        let labels: Vec<Arc<str>> = ["N", "Y"].map(Arc::from).to_vec();
        let label = |value| match value {
            Value::Label(number, text) => (number, String::from_utf8_lossy(&text).into_owned()),
            other => panic!("{other:?}"),
        };
        assert_eq!(label(enum_label(&labels, b"y")), (2, "Y".to_owned()));
        assert_eq!(label(enum_label(&labels, b"x")), (0, String::new()));
        assert_eq!(label(set_label(&labels, b"Y,N")), (3, "N,Y".to_owned()));
        assert_eq!(label(set_label(&labels, b"")), (0, String::new()));
    }
}
