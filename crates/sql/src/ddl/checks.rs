//! CHECK constraints that a table gets: what their expressions may be, and whose names they may not have.
//!
//! Neighbours: `draft` keeps them while a table is drawn up, `create`, `create_select`, `alter` and `table` ask here
//! before they publish; `dml::exprs` binds and evaluates them.
//! **Invariant**: names are unique in a database; those of temporary tables, and of databases that an earlier version
//! made, need not be.

use esker_sql_catalog::catalog::{CheckDef, Snapshot, TableId, same_name};
use esker_sql_syntax::ast::Expr;
use esker_types::{SqlError, SqlResult};

use super::names;
use crate::printer;

/// Functions that answer true or false, as MySQL counts them.
const PREDICATES: [&str; 35] = [
    "gtid_subset",
    "is_ipv4",
    "is_ipv4_compat",
    "is_ipv4_mapped",
    "is_ipv6",
    "is_uuid",
    "isnull",
    "json_contains",
    "json_contains_path",
    "json_overlaps",
    "json_schema_valid",
    "json_valid",
    "mbrcontains",
    "mbrcoveredby",
    "mbrcovers",
    "mbrdisjoint",
    "mbrequals",
    "mbrintersects",
    "mbroverlaps",
    "mbrtouches",
    "mbrwithin",
    "regexp_like",
    "st_contains",
    "st_crosses",
    "st_disjoint",
    "st_equals",
    "st_intersects",
    "st_isclosed",
    "st_isempty",
    "st_issimple",
    "st_isvalid",
    "st_overlaps",
    "st_touches",
    "st_within",
    "strcmp",
];

/// 3812 for an expression that is no condition.
pub(super) fn check_condition(name: &str, expr: &Expr) -> SqlResult<()> {
    match is_condition(expr) {
        true => Ok(()),
        false => {
            let text = format!(
                "An expression of non-boolean type specified to a check constraint '{name}'."
            );
            Err(SqlError::new(3812, "HY000", text))
        }
    }
}

/// The name of a constraint that the statement does not name.
pub(super) fn generated_name(table: &str, number: u32) -> Box<str> {
    format!("{table}_chk_{number}").into()
}

/// Checks names that constraints get; the table is `own` if it is there, and to be in `schema`.
///
/// # Errors
/// 3822 for one that a constraint of another table of the database has, 1059 for one that is too long.
pub(super) fn check_names<'a>(
    snapshot: &Snapshot,
    (schema, own): (&str, Option<TableId>),
    mut checks: impl Iterator<Item = &'a CheckDef>,
) -> SqlResult<()> {
    let Some(schema) = snapshot.schema(schema) else {
        return Ok(());
    };
    checks.try_for_each(|check| {
        names::check_constraint(&check.name)?;
        let mut others = schema.tables.values().filter(|t| Some(t.id) != own);
        let is_taken = others.any(|t| t.checks.iter().any(|c| same_name(&c.name, &check.name)));
        match is_taken {
            true => Err(duplicate_name(&check.name)),
            false => Ok(()),
        }
    })
}

/// 3822 for a name that one table's constraints have twice.
pub(super) fn check_distinct<'a>(checks: impl Iterator<Item = &'a CheckDef>) -> SqlResult<()> {
    match names::first_twin(checks.map(|check| &*check.name)) {
        Some(name) => Err(duplicate_name(name)),
        None => Ok(()),
    }
}

/// Generated names of constraints follow a table from one name to another.
pub(super) fn rename(checks: &mut [CheckDef], from: &str, to: &str) {
    let prefix = format!("{from}_chk_");
    for check in checks {
        if let Some(number) = names::behind(&check.name, &prefix) {
            check.name = format!("{to}_chk_{number}").into();
        }
    }
}

/// The greatest number of a generated name of a table's constraints.
pub(super) fn last_number(checks: &[CheckDef], table: &str) -> u32 {
    let prefix = format!("{table}_chk_");
    let number = |check: &CheckDef| check.name.strip_prefix(&prefix)?.parse().ok();
    checks.iter().filter_map(number).max().unwrap_or(0)
}

/// 3822.
pub(super) fn duplicate_name(name: &str) -> SqlError {
    let text = format!("Duplicate check constraint name '{name}'.");
    SqlError::new(3822, "HY000", text)
}

/// Is the value true, false or NULL by the form of the expression?
fn is_condition(e: &Expr) -> bool {
    printer::is_condition(e, |call| {
        let mut names = PREDICATES.iter();
        names.any(|name| call.name.text.eq_ignore_ascii_case(name))
    })
}
