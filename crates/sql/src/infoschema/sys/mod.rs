//! The views of the schema `sys`: their queries; and its one table. Its procedures are in `procedures`.
//!
//! Neighbours: `declared` has their columns; the session hands them to the binder like views of users, with the rights
//! of whoever reads them.
//! **Invariants**: a view's query has as many columns as the view (a test binds all of them); a view without a query
//! here has no rows, because Esker does not count what it shows.

pub(crate) mod procedures;

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use esker_sql_catalog::catalog::{CheckOption, ViewColumn, ViewDef};
use esker_sql_catalog::mdl::MetadataLocks;
use esker_types::func::sys::CONFIG;

use super::source::Source;
use super::{TableSpec, optional, text};

/// The table: what its functions are set to, which nobody changes.
pub(super) static SOURCES: &[&[Source]] =
    &[&[Source::new("sys_config", &["variable", "value"], |_| {
        let row = |(name, value)| vec![text(name), optional(value)];
        CONFIG.map(row).to_vec()
    })]];

/// Queries by the name of their view, as they stand in the file.
static QUERIES: LazyLock<HashMap<&'static str, String>> = LazyLock::new(|| {
    let mut queries = HashMap::new();
    for block in include_str!("views.sql").split("\nview ").skip(1) {
        let (name, query) = block.split_once('\n').expect("a query behind a name");
        queries.insert(name, query.trim().replace('\n', " "));
    }
    queries
});

/// The query of a view.
pub(crate) fn query(spec: &TableSpec) -> Option<String> {
    if spec.schema != "sys" {
        return None;
    }
    let (name, is_raw) = match spec.name.strip_prefix("x$") {
        Some(name) if !QUERIES.contains_key(spec.name) => (name, true),
        _ => (spec.name, false),
    };
    QUERIES.get(name).map(|query| expand(query, is_raw))
}

/// Writes out `{time:…}` and the other marks.
fn expand(query: &str, is_raw: bool) -> String {
    let mut out = String::with_capacity(query.len());
    let mut rest = query;
    while let Some((before, marked)) = rest.split_once('{') {
        out.push_str(before);
        let (inside, behind) = marked.split_once('}').expect("a mark has an end");
        match (inside.split_once(':'), is_raw) {
            // The other view with the same kind of numbers.
            (None, true) => out.push_str("x$"),
            (None, false) => (),
            (Some((_, argument)), true) => out.push_str(argument),
            (Some(("raw", _)), false) => (),
            (Some((kind, argument)), false) => {
                let function = match kind {
                    "time" => "format_pico_time",
                    "bytes" => "format_bytes",
                    "path" => "sys.format_path",
                    _ => "sys.format_statement",
                };
                out.push_str(&format!("{function}({argument})"));
            }
        }
        rest = behind;
    }
    out.push_str(rest);
    out
}

/// The view as the binder takes it.
pub(crate) fn view(spec: &TableSpec, locks: &MetadataLocks) -> Option<Arc<ViewDef>> {
    let query = query(spec)?;
    let column = |c: &super::ColumnSpec| ViewColumn {
        name: c.name.clone(),
        ty: c.ty.clone(),
    };
    Some(Arc::new(ViewDef {
        schema: Arc::from(spec.schema),
        name: Arc::from(spec.name),
        columns: spec.columns.iter().map(column).collect(),
        named: true,
        text: query.into(),
        algorithm: "UNDEFINED".into(),
        definer: ("mysql.sys".into(), "localhost".into()),
        invoker: true,
        check_option: CheckOption::None,
        updatable: false,
        sql_mode: "".into(),
        charset: ("utf8mb4".into(), "utf8mb4_0900_ai_ci".into()),
        create_time_micros: 0,
        mdl: locks.table(spec.schema, spec.name),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_belong_to_views() {
        let sys = super::super::schema("sys").unwrap();
        for name in QUERIES.keys() {
            assert!(sys.table(name).is_some(), "{name}");
        }
        let with = sys.tables().iter().filter(|t| query(t).is_some()).count();
        assert!(with >= 62, "{with}");
    }

    #[test]
    fn marks_are_written_out() {
        let text = "select {time:a + 1}, {bytes:b} from sys.{x}t";
        assert_eq!(
            expand(text, false),
            "select format_pico_time(a + 1), format_bytes(b) from sys.t"
        );
        assert_eq!(expand(text, true), "select a + 1, b from sys.x$t");
    }
}
