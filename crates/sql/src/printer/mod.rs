//! Syntax trees as the text that MySQL prints: expressions that tables keep, and queries of views.
//!
//! Parts: `canonical` brings trees into the shape that MySQL's parser gives them, `expr` and `query` write them.
//! Neighbours: `ddl` stores DEFAULT (expr) and CHECK in this form, `session::views` stores views, `show` and
//! `infoschema` print them again.
//! **Invariants**: the text means the same in every SQL mode the server starts with (no double quotes, no `||`,
//! backslashes doubled); parsing it and printing again gives the same text.

mod canonical;
mod expr;
mod query;

use esker_sql_catalog::catalog::{Quotes, ViewDef};
use esker_sql_syntax::ast::{Expr, Query, Statement};
use esker_sql_syntax::{self as parse, ParseOptions};
use esker_types::{SqlMode, SqlResult};

pub(crate) use canonical::{is_condition, is_stored};
pub(crate) use expr::dictionary_text;

/// When a text literal has its character set in front.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Introducers {
    /// Always.
    Always,
    /// Where it was written.
    Written,
    /// Never.
    Never,
}

/// What differs between the places where a tree is printed.
#[derive(Clone, Copy)]
struct Style<'a> {
    introducers: Introducers,
    /// Columns have their table in front.
    qualified: bool,
    /// A database that is left out.
    hidden: Option<&'a str>,
    /// Tables that commas separate are joined in pairs.
    pairs: bool,
    /// Character set of CAST (… AS CHAR).
    charset: &'a str,
    quotes: Quotes,
}

/// Stored queries.
const STORED: Style<'_> = Style {
    introducers: Introducers::Written,
    qualified: true,
    hidden: None,
    pairs: false,
    charset: "utf8mb4",
    quotes: Quotes::BACKTICKS,
};

/// The text of an expression that a table keeps; 1235 for what it cannot keep (subqueries, variables, windows).
pub(crate) fn expr_text(expr: &Expr) -> SqlResult<Box<str>> {
    let mut expr = expr.clone();
    canonical::expr(&mut expr);
    let style = Style {
        introducers: Introducers::Always,
        qualified: false,
        ..STORED
    };
    expr::text(&expr, style)
}

/// The text under which a view's query is stored; `charset`: of the connection.
pub(crate) fn stored_query(query: &Query, charset: &str) -> SqlResult<Box<str>> {
    query_text(query, Style { charset, ..STORED })
}

/// Have both queries the same text, where tables that commas separate are joined in pairs?
pub(crate) fn print_the_same(a: &Query, b: &Query, charset: &str) -> bool {
    let style = Style {
        pairs: true,
        charset,
        ..STORED
    };
    let text = |query| query_text(query, style).ok();
    let first = text(a);
    first.is_some() && first == text(b)
}

/// A view's query as information_schema prints it.
pub(crate) fn view_definition(view: &ViewDef) -> Box<str> {
    let never = Style {
        introducers: Introducers::Never,
        ..STORED
    };
    // The text tells commas from JOIN, which reading it does not.
    match (reprinted(view, never), reprinted(view, STORED)) {
        (Some(without), Some(with)) if without != with => without,
        _ => view.text.clone(),
    }
}

/// A view's query as SHOW CREATE VIEW prints it, where `current` is the current database.
pub(crate) fn shown_query(view: &ViewDef, current: Option<&str>, quotes: Quotes) -> Box<str> {
    let style = Style {
        hidden: current,
        pairs: true,
        quotes,
        ..STORED
    };
    reprinted(view, style).unwrap_or_else(|| view.text.clone())
}

/// None: it was stored as it was written, and has something that is not printed.
fn reprinted(view: &ViewDef, style: Style<'_>) -> Option<Box<str>> {
    let query = parsed(&view.text, SqlMode::of_names(&view.sql_mode))?;
    query_text(&query, style).ok()
}

/// The query that a text is.
pub(crate) fn parsed(text: &str, sql_mode: SqlMode) -> Option<Query> {
    let options = ParseOptions {
        sql_mode,
        ..ParseOptions::default()
    };
    match parse::parse(text.as_bytes(), options).ok()?.stmt {
        Statement::Query(query) => Some(*query),
        _ => None,
    }
}

fn query_text(query: &Query, style: Style<'_>) -> SqlResult<Box<str>> {
    let mut query = query.clone();
    canonical::query(&mut query);
    query::text(&query, style)
}
