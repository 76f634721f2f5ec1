//! The expressions a table brings along: DEFAULT (expr) and CHECK.
//!
//! Neighbours: `insert` and `change` evaluate them over the row's columns; `ddl` binds them to find
//! errors when a table is defined.
//! **Invariants**: they see one row and constants only, no other table, no parameter, no variable;
//! slot `i` is column `i`.

use std::sync::Arc;

use esker_types::{EvalCtx, SqlError, SqlMode, SqlResult, SqlType, Value};

use crate::bind::{BindEnv, Names, Need, Params, Scope, TableSource, bind_expr};
use crate::catalog::{CheckDef, ColumnDef, DefaultDef, TableDef};
use crate::expr::{EvalEnv, Expr, ExprKind, NoVars, fold};
use crate::parse::{self, ParseOptions, ast};

/// A table's own expressions, bound.
#[derive(Debug, Default)]
pub(crate) struct TableExprs {
    /// By column ordinal; only `DEFAULT (expr)`.
    defaults: Vec<Option<Expr>>,
    /// Enforced CHECK constraints: name and condition.
    pub(crate) checks: Vec<(Box<str>, Expr)>,
}

/// Names inside a table's own expressions: there are no tables and no variables.
struct NoNames;

impl Names for NoNames {
    fn table(&self, _need: Need, _schema: Option<&str>, _name: &str) -> SqlResult<TableSource> {
        Err(disallowed("subquery"))
    }

    fn system_variable(&self, _var: &ast::SysVar) -> SqlResult<(Value, SqlType)> {
        Err(disallowed("variable"))
    }
}

/// Code of [`disallowed`] until its constraint's name is known.
const DISALLOWED: u16 = 3814;

fn disallowed(what: &str) -> SqlError {
    SqlError::new(DISALLOWED, "HY000", what)
}

/// Reads the text of a stored expression.
fn parse_stored(text: &str) -> SqlResult<ast::Expr> {
    let statement = format!("DO {text}");
    let options = ParseOptions {
        sql_mode: SqlMode::default(),
        ..ParseOptions::default()
    };
    match parse::parse(statement.as_bytes(), options)?.stmt {
        ast::Statement::Do(mut exprs) if exprs.len() == 1 => Ok(exprs.remove(0)),
        _ => Err(crate::codec::damaged("stored expression")),
    }
}

/// Binds stored expressions over columns.
struct Binder<'a> {
    env: BindEnv<'a>,
    scope: Scope<'a>,
}

impl<'a> Binder<'a> {
    fn new(ctx: &'a EvalCtx<'a>, table: &str, columns: &[ColumnDef]) -> Self {
        let columns: Vec<(Arc<str>, SqlType)> = columns
            .iter()
            .map(|c| (c.name.clone(), c.ty.clone()))
            .collect();
        let mut scope = Scope::new();
        scope.add_named_row(table, &columns, 0);
        Self {
            env: BindEnv::new(ctx, &NoVars, &NoNames, Params::Values(&[])),
            scope,
        }
    }

    fn bind(&self, text: &str) -> SqlResult<Expr> {
        bind_expr(&self.env, &self.scope, &parse_stored(text)?)
    }
}

impl TableExprs {
    /// Binds those of a table; most tables have none, which costs nothing.
    pub(crate) fn compile(ctx: &EvalCtx<'_>, def: &TableDef) -> SqlResult<Self> {
        let enforced: Vec<&CheckDef> = def.checks.iter().filter(|c| c.enforced).collect();
        let has_defaults = def
            .columns
            .iter()
            .any(|c| matches!(c.default, DefaultDef::Expr(_)));
        if !has_defaults && enforced.is_empty() {
            return Ok(Self::default());
        }
        let binder = Binder::new(ctx, &def.name, &def.columns);
        let mut out = Self::default();
        for check in enforced {
            out.checks
                .push((check.name.clone(), binder.bind(&check.text)?));
        }
        if has_defaults {
            for column in &def.columns {
                out.defaults.push(match &column.default {
                    DefaultDef::Expr(text) => Some(binder.bind(text)?),
                    _ => None,
                });
            }
        }
        Ok(out)
    }

    /// The bound DEFAULT of a column.
    pub(crate) fn default_of(&self, col: usize) -> Option<&Expr> {
        self.defaults.get(col).and_then(Option::as_ref)
    }

    /// 3819 for the first CHECK that is false; NULL passes.
    #[inline]
    pub(crate) fn check(&self, row: &[Value], env: &EvalEnv<'_>) -> SqlResult<()> {
        for (name, condition) in &self.checks {
            if condition.eval_bool(row, env)? == Some(false) {
                let text = format!("Check constraint '{name}' is violated.");
                return Err(SqlError::new(3819, "HY000", text));
            }
        }
        Ok(())
    }
}

/// Errors that a table's own expressions would have: unknown columns, functions that are not allowed.
pub(crate) fn validate(
    ctx: &EvalCtx<'_>,
    table: &str,
    columns: &[ColumnDef],
    checks: &[CheckDef],
) -> SqlResult<()> {
    let binder = Binder::new(ctx, table, columns);
    for check in checks {
        let name = &check.name;
        let bound = binder.bind(&check.text).map_err(|e| check_error(name, e))?;
        validate_check(name, columns, &bound)?;
    }
    for column in columns {
        if let DefaultDef::Expr(text) = &column.default {
            binder
                .bind(text)
                .map_err(|e| default_error(&column.name, e))?;
        }
    }
    Ok(())
}

/// The first name in quotes of an error text.
fn quoted(message: &str) -> &str {
    message.split('\'').nth(1).unwrap_or_default()
}

fn check_error(name: &str, e: SqlError) -> SqlError {
    match e.code {
        1054 => {
            let column = quoted(&e.message);
            let text =
                format!("Check constraint '{name}' refers to non-existing column '{column}'.");
            SqlError::new(3820, "HY000", text)
        }
        DISALLOWED => {
            let text = format!(
                "An expression of a check constraint '{name}' contains disallowed function: {}.",
                e.message
            );
            SqlError::new(3814, "HY000", text)
        }
        _ => e,
    }
}

fn default_error(column: &str, e: SqlError) -> SqlError {
    match e.code {
        1054 => {
            let name = quoted(&e.message);
            let text = format!("Unknown column '{name}' in 'default value expression'");
            SqlError::new(1054, "42S22", text)
        }
        DISALLOWED => {
            let text = format!(
                "Default value expression of column '{column}' contains a disallowed function: {}.",
                e.message
            );
            SqlError::new(3770, "HY000", text)
        }
        _ => e,
    }
}

fn validate_check(name: &str, columns: &[ColumnDef], bound: &Expr) -> SqlResult<()> {
    let mut refused = None;
    bound.visit(&mut |e| match &e.kind {
        ExprKind::Func(call) if !fold::is_pure(call.def) => refused = Some(call.def.name),
        ExprKind::UserVar(_) | ExprKind::Assign(..) => refused = Some("variable"),
        ExprKind::Subquery(_) => refused = Some("subquery"),
        _ => {}
    });
    if let Some(what) = refused {
        return Err(check_error(name, disallowed(what)));
    }
    let mut auto = false;
    bound.slots(&mut |slot| auto |= columns[slot as usize].auto_increment);
    if auto {
        let text = format!("Check constraint '{name}' cannot refer to an auto-increment column.");
        return Err(SqlError::new(3818, "HY000", text));
    }
    Ok(())
}

/// Ordinals of the columns that a CHECK reads.
pub(crate) fn columns_of_check(
    ctx: &EvalCtx<'_>,
    table: &str,
    columns: &[ColumnDef],
    text: &str,
) -> SqlResult<Vec<usize>> {
    let mut used = Vec::new();
    let bound = Binder::new(ctx, table, columns).bind(text)?;
    bound.slots(&mut |slot| used.push(slot as usize));
    Ok(used)
}
