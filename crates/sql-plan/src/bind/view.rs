//! Views in FROM: the stored query, bound as a derived table.
//!
//! Neighbours: `from` meets them; `session::views` stores their texts, the session's names decide whose
//! rights the query has.
//! **Invariants**: a view has the columns that it was created with; what is wrong inside of it is
//! error 1356 and tells nothing of the tables below; no view contains itself (1462).

use std::rc::Rc;
use std::sync::Arc;

use esker_sql_catalog::catalog::ViewDef;
use esker_sql_syntax::{self as parse, ParseOptions, ast};
use esker_types::collation::Collation;
use esker_types::errors::no_such_table;
use esker_types::{SqlError, SqlMode, SqlResult};

use super::BindEnv;
use super::from::from_query;
use super::query::bind_query;
use super::scope::ScopeTable;

/// Errors that the outside hears as 1356: unknown databases, tables, columns and functions, and what the
/// definer or invoker may not read or call.
const INSIDE: &[u16] = &[1049, 1054, 1109, 1142, 1143, 1146, 1305, 1370];

/// The table that a view is.
pub(super) fn table(
    env: &BindEnv<'_>,
    view: &Arc<ViewDef>,
    alias: Option<&str>,
) -> SqlResult<ScopeTable> {
    let bound = within_query_of(env, view, |query| {
        let _level = env.enter_query()?;
        let name = alias.unwrap_or(&view.name);
        env.locks.within_view((&view.schema, name), || {
            env.within_view(view, name, || bind_query(env, query, None, None))
        })
    });
    let bound = bound.map_err(|e| as_seen_outside(view, e))?;
    if bound.columns.len() != view.columns.len() {
        return Err(invalid(view));
    }
    let names: Vec<ast::Ident> = view
        .columns
        .iter()
        .map(|c| ast::Ident {
            text: (*c.name).into(),
            quoted: true,
        })
        .collect();
    let alias: Arc<str> = alias.map_or_else(|| view.name.clone(), Arc::from);
    let mut table = from_query(alias, &Rc::new(bound), Some(&names));
    table.schema = view.schema.clone();
    for column in &mut table.columns {
        column.meta.schema = view.schema.clone();
    }
    Ok(table)
}

/// What the outside hears of an error inside of a view.
pub(super) fn as_seen_outside(view: &ViewDef, e: SqlError) -> SqlError {
    match INSIDE.contains(&e.code) {
        true => invalid(view),
        false => e,
    }
}

/// Runs `bind`, which binds a view's query.
///
/// # Errors
/// 1462 when the view is being bound already.
fn within_view<T>(
    env: &BindEnv<'_>,
    schema: &Arc<str>,
    name: &Arc<str>,
    bind: impl FnOnce() -> SqlResult<T>,
) -> SqlResult<T> {
    let is_inside = |(s, n): &(Arc<str>, Arc<str>)| s == schema && n == name;
    if env.views.borrow().iter().any(is_inside) {
        return Err(contains_itself(schema, name));
    }
    env.views.borrow_mut().push((schema.clone(), name.clone()));
    let result = bind();
    env.views.borrow_mut().pop();
    result
}

/// The same for the query that a view is made of.
///
/// # Errors
/// 1146 where it reads the view itself.
pub fn defining_view<T>(
    env: &BindEnv<'_>,
    schema: &Arc<str>,
    name: &Arc<str>,
    bind: impl FnOnce() -> SqlResult<T>,
) -> SqlResult<T> {
    debug_assert!(env.views.borrow().is_empty(), "it is the outermost");
    let own = contains_itself(schema, name);
    within_view(env, schema, name, bind).map_err(|e| match e.message == own.message {
        true => no_such_table(schema, name),
        false => e,
    })
}

/// 1462
fn contains_itself(schema: &str, name: &str) -> SqlError {
    let text = format!("`{schema}`.`{name}` contains view recursion");
    SqlError::new(1462, "HY000", text)
}

/// Runs `bind`, which binds the stored query of a view, where its names and literals are those of its creator.
pub(super) fn within_query_of<T>(
    env: &BindEnv<'_>,
    view: &ViewDef,
    bind: impl FnOnce(&ast::Query) -> SqlResult<T>,
) -> SqlResult<T> {
    within_view(env, &view.schema, &view.name, || {
        env.names.enter_view(view)?;
        let around = env.literals.replace(Collation::by_name(&view.charset.1));
        let bound = query_of(view).and_then(|query| bind(&query));
        env.literals.set(around);
        env.names.leave_view();
        bound
    })
}

fn query_of(view: &ViewDef) -> SqlResult<ast::Query> {
    let options = ParseOptions {
        sql_mode: SqlMode::of_names(&view.sql_mode),
        ..ParseOptions::default()
    };
    match parse::parse(view.text.as_bytes(), options)?.stmt {
        ast::Statement::Query(query) => Ok(*query),
        _ => Err(invalid(view)),
    }
}

/// 1356.
pub(super) fn invalid(view: &ViewDef) -> SqlError {
    let text = format!(
        "View '{}.{}' references invalid table(s) or column(s) or function(s) or definer/invoker of view \
         lack rights to use them",
        view.schema, view.name
    );
    SqlError::new(1356, "HY000", text)
}
