//! What MySQL refuses in the expressions that a table brings along, when the table is defined: of its columns.
//!
//! Neighbours: `ddl::kept` has refused what is wrong by itself; `exprs` binds the expressions; DDL asks before a
//! definition is kept. **Invariant**: every refusal has the number that MySQL gives it.

use esker_sql_catalog::catalog::{CheckDef, ColumnDef, DefaultDef, GeneratedDef};
use esker_sql_plan::expr::{Expr, ExprKind};
use esker_types::{EvalCtx, SqlError, SqlResult, errors};

use super::{Binder, hidden_index_name};

/// Errors that a table's own expressions would have: unknown columns, functions that are not allowed. The table has
/// had the first `kept` CHECK constraints before.
pub(crate) fn validate(
    ctx: &EvalCtx<'_>,
    table: &str,
    columns: &[ColumnDef],
    checks: &[CheckDef],
    kept: usize,
) -> SqlResult<()> {
    let binder = Binder::new(ctx, table, columns);
    for (at, check) in checks.iter().enumerate() {
        let name = &check.name;
        let own = check.column.filter(|_| at >= kept);
        let bound = binder.bind(&check.text).map_err(|e| match own {
            Some(_) if e.code == 1054 => strays(name),
            _ => check_error(name, e),
        })?;
        if let Some(own) = own {
            check_own(name, columns, own, &bound)?;
        }
        validate_check(name, columns, &bound)?;
    }
    for (at, column) in columns.iter().enumerate() {
        if let DefaultDef::Expr(text) = &column.default {
            let bound = binder.bind(text).map_err(default_error)?;
            validate_default(columns, at, &bound)?;
        }
        if let Some(generated) = &column.generated {
            let what = Computed::of(column, generated);
            let bound = binder
                .bind_generated(column, generated)
                .map_err(|e| what.bind_error(e))?;
            what.validate(columns, at, &bound)?;
        }
    }
    Ok(())
}

/// May the column at `at` read this one, which is computed itself? Only one before it.
fn comes_too_late(columns: &[ColumnDef], at: usize, read: usize) -> bool {
    let column = &columns[read];
    let is_computed = column.generated.is_some() || matches!(column.default, DefaultDef::Expr(_));
    is_computed && read >= at
}

/// Functions whose values another server cannot know.
const NOT_REPEATABLE: [&str; 9] = [
    "current_user",
    "rand",
    "random_bytes",
    "session_user",
    "sysdate",
    "system_user",
    "user",
    "uuid",
    "uuid_short",
];

/// May the rows of a table get the defaults of new columns on a replica again? `is_new` tells these columns.
///
/// # Errors
/// 1674: they would be others there.
pub(crate) fn check_repeatable(
    ctx: &EvalCtx<'_>,
    table: &str,
    columns: &[ColumnDef],
    is_new: impl Fn(&ColumnDef) -> bool,
) -> SqlResult<()> {
    let binder = Binder::new(ctx, table, columns);
    for column in columns.iter().filter(|column| is_new(column)) {
        let DefaultDef::Expr(text) = &column.default else {
            continue;
        };
        let mut differs = false;
        binder.bind(text)?.visit(&mut |e| {
            differs |= match &e.kind {
                ExprKind::Func(call) => NOT_REPEATABLE.contains(&call.def.name),
                // In which order the rows come is not said.
                ExprKind::SeededRand(..) => true,
                _ => false,
            };
        });
        if differs {
            let text = "Statement is unsafe because it uses a system function that may return a different value on \
                        the replica.";
            return Err(SqlError::new(1674, "HY000", text));
        }
    }
    Ok(())
}

/// 3768, 3767.
fn validate_default(columns: &[ColumnDef], at: usize, bound: &Expr) -> SqlResult<()> {
    let name = &columns[at].name;
    let (mut auto, mut late) = (false, false);
    bound.slots(&mut |slot| {
        auto |= columns[slot as usize].auto_increment;
        late |= comes_too_late(columns, at, slot as usize);
    });
    let (code, what) = match (auto, late) {
        (true, _) => (3768, "an auto-increment column."),
        (_, true) => (
            3767,
            "a column defined after it if that column is a generated column or has an expression \
             as default value.",
        ),
        _ => return Ok(()),
    };
    let text = format!("Default value expression of column '{name}' cannot refer to {what}");
    Err(SqlError::new(code, "HY000", text))
}

/// What computes a value: a generated column or a functional key part.
#[derive(Clone, Copy)]
enum Computed<'a> {
    Column(&'a str),
    KeyPart(&'a str),
}

impl<'a> Computed<'a> {
    fn of(column: &'a ColumnDef, generated: &GeneratedDef) -> Self {
        match generated.hidden {
            false => Self::Column(&column.name),
            true => Self::KeyPart(hidden_index_name(&column.name)),
        }
    }

    fn bind_error(self, e: SqlError) -> SqlError {
        match e.code {
            1054 => {
                let place = match self {
                    Self::Column(_) => "generated column function",
                    Self::KeyPart(_) => "functional index",
                };
                errors::unknown_column(quoted(&e.message), place)
            }
            _ => e,
        }
    }

    /// 3109, 3754, 3107.
    fn validate(self, columns: &[ColumnDef], at: usize, bound: &Expr) -> SqlResult<()> {
        let (mut auto, mut late) = (false, false);
        bound.slots(&mut |slot| {
            auto |= columns[slot as usize].auto_increment;
            late |= comes_too_late(columns, at, slot as usize);
        });
        match (self, auto, late) {
            (Self::Column(name), true, _) => {
                let text =
                    format!("Generated column '{name}' cannot refer to auto-increment column.");
                Err(SqlError::new(3109, "HY000", text))
            }
            (Self::KeyPart(index), true, _) => {
                let text =
                    format!("Functional index '{index}' cannot refer to an auto-increment column.");
                Err(SqlError::new(3754, "HY000", text))
            }
            (_, _, true) => {
                let text =
                    "Generated column can refer only to generated columns defined prior to it.";
                Err(SqlError::new(3107, "HY000", text))
            }
            _ => Ok(()),
        }
    }
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
        _ => e,
    }
}

fn default_error(e: SqlError) -> SqlError {
    match e.code {
        1054 => {
            let name = quoted(&e.message);
            errors::unknown_column(name, "default value expression")
        }
        _ => e,
    }
}

/// 3813: a column's own CHECK reads another column.
fn check_own(name: &str, columns: &[ColumnDef], own: u32, bound: &Expr) -> SqlResult<()> {
    let mut is_own = true;
    bound.slots(&mut |slot| is_own &= columns[slot as usize].id == own);
    match is_own {
        true => Ok(()),
        false => Err(strays(name)),
    }
}

fn strays(name: &str) -> SqlError {
    let text = format!("Column check constraint '{name}' references other column.");
    SqlError::new(3813, "HY000", text)
}

fn validate_check(name: &str, columns: &[ColumnDef], bound: &Expr) -> SqlResult<()> {
    let mut auto = false;
    bound.slots(&mut |slot| auto |= columns[slot as usize].auto_increment);
    if auto {
        let text = format!("Check constraint '{name}' cannot refer to an auto-increment column.");
        return Err(SqlError::new(3818, "HY000", text));
    }
    Ok(())
}
