//! LIKE: the collation it compares in, and what escapes its wildcards.
//!
//! Neighbours: `expr` hands the syntax over; `compare` agrees on the collation.
//! **Invariant**: the escape character is known when the statement is bound, but for a parameter that has no value yet.

use esker_sql_syntax::ast;
use esker_types::{SqlMode, SqlResult, Value, cast, func};

use super::compare::{common_collation, is_textual};
use super::expr::bind_expr;
use super::scope::Scope;
use super::{BindEnv, errors};
use crate::expr::{Expr, ExprKind, Like};

/// `text [NOT] LIKE pattern [ESCAPE e]`.
pub(super) fn bind_like(
    env: &BindEnv<'_>,
    scope: &Scope<'_>,
    text: &ast::Expr,
    pattern: &ast::Expr,
    escape: Option<&ast::Expr>,
    negated: bool,
) -> SqlResult<Expr> {
    let (text, pattern) = (
        bind_expr(env, scope, text)?,
        bind_expr(env, scope, pattern)?,
    );
    func::refuse_geometries([&text.ty, &pattern.ty], "like")?;
    let texts = [&text, &pattern].into_iter();
    let texts: Vec<_> = texts.filter(|e| is_textual(&e.ty)).collect();
    let collation = match texts.is_empty() {
        true => env.ctx.collation_connection,
        false => common_collation(&texts, "like")?,
    };
    let escape = match escape {
        None => match env.ctx.sql_mode.has(SqlMode::NO_BACKSLASH_ESCAPES) {
            true => NO_ESCAPE,
            false => Some('\\'),
        },
        Some(e) => {
            let e = bind_expr(env, scope, e)?;
            // What a parameter stands for is known when the statement runs.
            match matches!(e.kind, ExprKind::Param(_)) && env.describe_only {
                true => None,
                false => escape_char(&e)?,
            }
        }
    };
    let nullable = text.ty.nullable || pattern.ty.nullable;
    let like = Like {
        text,
        pattern,
        escape,
        collation,
        negated,
    };
    Ok(Expr::condition(ExprKind::Like(Box::new(like)), nullable))
}

/// What escapes where ESCAPE is '' or backslashes do not: the character with the number 0, as in MySQL.
const NO_ESCAPE: Option<char> = Some('\0');

/// The one character of ESCAPE.
fn escape_char(e: &Expr) -> SqlResult<Option<char>> {
    let wrong = || errors::wrong_arguments("ESCAPE");
    match e.as_const() {
        Some(Value::Null) => Ok(Some('\\')),
        // A number is written out.
        Some(value) => {
            let text = cast::to_str(value, &e.ty);
            let text = std::str::from_utf8(&text).map_err(|_| wrong())?;
            let mut chars = text.chars();
            match (chars.next(), chars.next()) {
                (first, None) => Ok(first.or(NO_ESCAPE)),
                _ => Err(wrong()),
            }
        }
        None => Err(wrong()),
    }
}
