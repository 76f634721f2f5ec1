//! Tests of the parser: whole corpora (`corpus`), exact trees (`show_tree` prints them; `xa`), `digests`, `errors`,
//! bodies of stored programs (`programs`), random input (`fuzz`).
//!
//! Neighbours: `data/` holds statements that MySQL users and tools send.

mod corpus;
mod digests;
mod errors;
mod fuzz;
mod programs;
mod show_tree;
mod statements;
mod trees;
mod xa;

use esker_types::{SqlError, SqlMode};

use super::ast::{Expr, Query, QueryBody, Select, SelectItem, Statement};
use super::{ParseOptions, Parsed, parse};

/// Parses in default mode with parameters allowed.
fn parsed(sql: &str) -> Result<Parsed, SqlError> {
    parse(
        sql.as_bytes(),
        ParseOptions {
            params: true,
            ..ParseOptions::default()
        },
    )
}

fn ok(sql: &str) -> Statement {
    match parsed(sql) {
        Ok(parsed) => parsed.stmt,
        Err(e) => panic!("{sql}: {e}"),
    }
}

fn query(sql: &str) -> Query {
    match ok(sql) {
        Statement::Query(query) => *query,
        other => panic!("{sql}: {other:?}"),
    }
}

fn select(sql: &str) -> Select {
    match query(sql).body {
        QueryBody::Select(select) => *select,
        other => panic!("{sql}: {other:?}"),
    }
}

/// The first expression of a SELECT, in a given mode.
fn first_expr(sql: &str, sql_mode: SqlMode) -> Expr {
    let options = ParseOptions {
        sql_mode,
        params: true,
        ..ParseOptions::default()
    };
    let stmt = match parse(sql.as_bytes(), options) {
        Ok(parsed) => parsed.stmt,
        Err(e) => panic!("{sql}: {e}"),
    };
    let Statement::Query(query) = stmt else {
        panic!("{sql}: {stmt:?}")
    };
    let QueryBody::Select(mut select) = query.body else {
        panic!("{sql}")
    };
    match select.items.remove(0) {
        SelectItem::Expr { expr, .. } => expr,
        other => panic!("{sql}: {other:?}"),
    }
}
