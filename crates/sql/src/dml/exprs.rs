//! The expressions a table brings along: DEFAULT (expr) and CHECK.
//!
//! Neighbours: `ddl::kept` and `validate` have what they must not be, which `ddl` asks when a table is defined;
//! `insert` and `change` evaluate them over the row's columns.
//! **Invariants**: they see one row and constants only, no other table, no parameter, no variable;
//! slot `i` is column `i`.

mod validate;

use std::sync::Arc;

use esker_sql_catalog::catalog::{CheckDef, ColumnDef, DefaultDef, GeneratedDef, TableDef};
use esker_sql_catalog::exec_error::{ExecError, ExecResult};
use esker_sql_plan::bind::{
    BindEnv, Names, Need, Params, Scope, TableSource, bind_array, bind_expr, partition_condition,
};
use esker_sql_plan::expr::{EvalEnv, Expr, ExprKind, FuncCall, NoVars, StoredFunction};
use esker_sql_syntax::{ast, parse_expression};
use esker_types::cast::to_str;
use esker_types::json::{JsonRef, View, invalid_element};
use esker_types::{EvalCtx, Level, SqlError, SqlResult, SqlType, TypeKind, Value, errors, func};

use super::values::assign;

pub(crate) use validate::{check_repeatable, validate};

/// A table's own expressions, bound.
#[derive(Debug, Default)]
pub(crate) struct TableExprs {
    /// By column ordinal; only `DEFAULT (expr)`.
    defaults: Vec<Option<Expr>>,
    /// Generated columns in order: ordinal and expression.
    generated: Vec<(usize, Expr)>,
    /// Enforced CHECK constraints: name and condition.
    pub(crate) checks: Vec<(Box<str>, Expr)>,
    /// What rows need to be in a partition, or in one of some partitions.
    partition: Option<Box<PartitionCheck>>,
}

/// What rows of a partitioned table have to meet.
#[derive(Debug)]
struct PartitionCheck {
    /// There is a partition; none: there always is.
    accepted: Option<Expr>,
    /// It is one of those that the statement names.
    chosen: Option<Expr>,
    /// The value for which there is none, if it is one.
    value: Option<Expr>,
}

/// Names inside a table's own expressions: no tables, variables and functions, which DDL refuses before with errors
/// that say whose expression it is.
struct NoNames;

impl Names for NoNames {
    fn table(&self, _need: Need, _schema: Option<&str>, _name: &str) -> SqlResult<TableSource> {
        Err(SqlError::not_supported(
            "a subquery in a table's expression",
        ))
    }

    fn system_variable(&self, _var: &ast::SysVar) -> SqlResult<(Value, SqlType)> {
        Err(SqlError::not_supported(
            "a variable in a table's expression",
        ))
    }

    fn stored_function(
        &self,
        _schema: &str,
        _name: &str,
        _qualified: bool,
    ) -> SqlResult<Option<Arc<StoredFunction>>> {
        Err(SqlError::not_supported(
            "a function in a table's expression",
        ))
    }
}

/// Binds stored expressions over columns.
struct Binder<'a> {
    env: BindEnv<'a>,
    scope: Scope<'a>,
}

impl<'a> Binder<'a> {
    fn new(ctx: &'a EvalCtx<'a>, table: &str, columns: &'a [ColumnDef]) -> Self {
        let named: Vec<(Arc<str>, SqlType)> = columns
            .iter()
            .map(|c| (c.name.clone(), c.ty.clone()))
            .collect();
        let mut scope = Scope::new();
        scope.add_named_row(table, &named, 0);
        scope.defined = Some(columns);
        Self {
            env: BindEnv::new(ctx, &NoVars, &NoNames, Params::Values(&[])),
            scope,
        }
    }

    fn bind(&self, text: &str) -> SqlResult<Expr> {
        bind_expr(&self.env, &self.scope, &parse_expression(text)?)
    }

    /// A key part of `index` may be an array.
    fn bind_key_part(&self, text: &str, index: &str) -> SqlResult<Expr> {
        match parse_expression(text)? {
            ast::Expr::Cast { expr, ty } if ty.array => {
                bind_array(&self.env, &self.scope, &expr, (&ty, index))
            }
            expr => bind_expr(&self.env, &self.scope, &expr),
        }
    }

    fn bind_generated(&self, column: &ColumnDef, generated: &GeneratedDef) -> SqlResult<Expr> {
        match generated.hidden {
            true => self.bind_key_part(&generated.text, hidden_index_name(&column.name)),
            false => self.bind(&generated.text),
        }
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
        let has_generated = def.columns.iter().any(|c| c.generated.is_some());
        let is_partitioned = def.partitioning.is_some();
        if !has_defaults && !has_generated && enforced.is_empty() && !is_partitioned {
            return Ok(Self::default());
        }
        let binder = Binder::new(ctx, &def.name, &def.columns);
        let mut out = Self::default();
        if let Some(partitioning) = &def.partitioning
            && let Some(accepted) = partitioning.accepts()
        {
            let value = partitioning.missing_value().map(|v| binder.bind(v));
            out.partition = Some(Box::new(PartitionCheck {
                accepted: Some(binder.bind(&accepted)?),
                chosen: None,
                value: value.transpose()?,
            }));
        }
        for (col, column) in def.columns.iter().enumerate() {
            if let Some(generated) = &column.generated {
                out.generated
                    .push((col, binder.bind_generated(column, generated)?));
            }
        }
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

    /// The same for a statement that names partitions: 1747, 1735.
    pub(crate) fn within(
        mut self,
        ctx: &EvalCtx<'_>,
        def: &TableDef,
        names: &[ast::Ident],
    ) -> SqlResult<Self> {
        if names.is_empty() {
            return Ok(self);
        }
        let condition = partition_condition(def, names)?;
        let binder = Binder::new(ctx, &def.name, &def.columns);
        let chosen = Some(binder.bind(&condition)?);
        self.partition = Some(Box::new(match self.partition {
            Some(check) => PartitionCheck { chosen, ..*check },
            None => PartitionCheck {
                accepted: None,
                chosen,
                value: None,
            },
        }));
        Ok(self)
    }

    /// Can a row have no partition, or a wrong one?
    #[inline]
    pub(crate) fn checks_partition(&self) -> bool {
        self.partition.is_some()
    }

    /// 1526, 1748.
    pub(crate) fn check_partition(&self, row: &[Value], env: &EvalEnv<'_>) -> SqlResult<()> {
        let Some(check) = &self.partition else {
            return Ok(());
        };
        let holds = |condition: &Option<Expr>| match condition {
            None => Ok(true),
            Some(e) => {
                let holds = e.eval_bool(row, env).map_err(ExecError::without_wait)?;
                Ok::<_, SqlError>(holds == Some(true))
            }
        };
        if !holds(&check.accepted)? {
            let Some(value) = &check.value else {
                return Err(errors::no_partition_for("from column_list"));
            };
            let found = value.eval(row, env).map_err(ExecError::without_wait)?;
            if found.is_null() {
                return Err(errors::no_partition_for("NULL"));
            }
            let text = to_str(&found, &value.ty);
            return Err(errors::no_partition_for(String::from_utf8_lossy(&text)));
        }
        match holds(&check.chosen)? {
            true => Ok(()),
            false => Err(errors::row_outside_partitions()),
        }
    }

    /// Are there generated columns?
    pub(crate) fn generates(&self) -> bool {
        !self.generated.is_empty()
    }

    /// Are there CHECKs that are enforced?
    pub(crate) fn checks(&self) -> bool {
        !self.checks.is_empty()
    }

    /// Ordinals of the generated columns.
    pub(crate) fn generated(&self) -> impl Iterator<Item = usize> {
        self.generated.iter().map(|(col, _)| *col)
    }

    /// Computes the generated columns of a row of `columns`; each may read those before it.
    pub(crate) fn generate(
        &self,
        columns: &[ColumnDef],
        row: &mut [Value],
        (row_number, lenient): (u64, bool),
        env: &EvalEnv<'_>,
    ) -> SqlResult<()> {
        for (col, e) in &self.generated {
            let column = &columns[*col];
            let compute = || {
                let value = e.eval(row, env).map_err(ExecError::without_wait)?;
                assign(env.ctx, value, &e.ty, ("", column), row_number, lenient)
            };
            row[*col] = match column.is_hidden() {
                true => key_part(env.ctx, &column.name, row_number, compute)?,
                false => compute()?,
            };
        }
        Ok(())
    }

    /// The bound DEFAULT of a column.
    pub(crate) fn default_of(&self, col: usize) -> Option<&Expr> {
        self.defaults.get(col).and_then(Option::as_ref)
    }

    /// 3819 for the first CHECK that is false; NULL passes.
    #[inline]
    pub(crate) fn check(&self, row: &[Value], env: &EvalEnv<'_>) -> SqlResult<()> {
        for (name, condition) in &self.checks {
            let holds = condition.eval_bool(row, env);
            if holds.map_err(ExecError::without_wait)? == Some(false) {
                report_schema(condition, row, env).map_err(ExecError::without_wait)?;
                let text = format!("Check constraint '{name}' is violated.");
                return Err(SqlError::new(3819, "HY000", text));
            }
        }
        Ok(())
    }
}

/// 3934 beside the error of a CHECK that is JSON_SCHEMA_VALID alone: what of the schema the document does not fulfil.
fn report_schema(condition: &Expr, row: &[Value], env: &EvalEnv<'_>) -> ExecResult<()> {
    let ExprKind::Func(call) = &condition.kind else {
        return Ok(());
    };
    let Some(def) = func::lookup("json_schema_validation_report") else {
        return Ok(());
    };
    if call.def.name != "json_schema_valid" {
        return Ok(());
    }
    let report = Expr {
        kind: ExprKind::Func(Box::new(FuncCall {
            def,
            ..(**call).clone()
        })),
        ty: SqlType::new(TypeKind::Json),
        coer: condition.coer,
    };
    if let Value::Json(report) = report.eval(row, env)?
        && let View::Object(members) = JsonRef::new(&report).view()
        && let Some((_, reason)) = members.members().find(|(key, _)| *key == b"reason")
        && let View::String(reason) = reason.view()
    {
        let text = format!("{}.", String::from_utf8_lossy(reason));
        env.ctx.warn(Level::Error, 3934, text);
    }
    Ok(())
}

/// A functional key part's value. What becomes of it is told of its index instead of its column, which nobody sees.
fn key_part(
    ctx: &EvalCtx<'_>,
    column: &str,
    row: u64,
    compute: impl Fn() -> SqlResult<Value>,
) -> SqlResult<Value> {
    let mark = ctx.diagnostics.mark();
    let mut value = compute();
    // As in MySQL such a document is never refused.
    if value.as_ref().is_err_and(|e| e.code == INVALID_DOCUMENT) {
        let strict = ctx.diagnostics.strict_write.replace(false);
        value = compute();
        ctx.diagnostics.strict_write.set(strict);
    }
    let index = hidden_index_name(column);
    ctx.diagnostics.reword_since(mark, |warning| {
        if let Some(error) = of_key_part(warning.code, index, row) {
            (warning.code, warning.message) = (error.code, error.message);
        }
    });
    value.map_err(|error| of_key_part(error.code, index, row).unwrap_or(error))
}

/// Code of a JSON document that is no value of the type it is cast to.
const INVALID_DOCUMENT: u16 = 3156;

/// What is said of a key part of `index` instead of what has this code.
fn of_key_part(code: u16, index: &str, row: u64) -> Option<SqlError> {
    match code {
        1264 => Some(errors::key_part_out_of_range(index, row)),
        1265 | 1292 => Some(errors::key_part_truncated(index, row)),
        INVALID_DOCUMENT => Some(invalid_element(index)),
        _ => None,
    }
}

/// The index in the name of a functional key part's column, `!hidden!index!part!number`.
fn hidden_index_name(column: &str) -> &str {
    let name = column.strip_prefix(HIDDEN_PREFIX).unwrap_or(column);
    let end = name.rmatch_indices('!').nth(1);
    end.map_or(name, |(at, _)| &name[..at])
}

/// How names of functional key parts' columns begin.
pub(crate) const HIDDEN_PREFIX: &str = "!hidden!";

/// The type of an expression over columns, and the column if it is nothing but that.
pub(crate) fn type_of_stored(
    ctx: &EvalCtx<'_>,
    table: &str,
    columns: &[ColumnDef],
    text: &str,
) -> SqlResult<(SqlType, bool)> {
    let bound = Binder::new(ctx, table, columns).bind(text)?;
    let is_column = bound.as_column().is_some();
    Ok((bound.ty, is_column))
}

/// The type of a key part of `index`, an expression over columns.
pub(crate) fn type_of_key_part(
    ctx: &EvalCtx<'_>,
    table: &str,
    columns: &[ColumnDef],
    (index, text): (&str, &str),
) -> SqlResult<SqlType> {
    let bound = Binder::new(ctx, table, columns).bind_key_part(text, index)?;
    Ok(bound.ty)
}

/// Ordinals of the columns whose defaults an expression of the table reads: `DEFAULT(column)`.
pub(crate) fn defaults_of_stored(
    ctx: &EvalCtx<'_>,
    table: &str,
    columns: &[ColumnDef],
    text: &str,
) -> Vec<usize> {
    let binder = Binder::new(ctx, table, columns);
    // A default that is missing is read as well.
    let _ = binder.bind_key_part(text, "");
    binder.scope.read_defaults.take()
}

/// 3105.
pub(crate) fn generated_value(column: &str, table: &str) -> SqlError {
    let text = format!(
        "The value specified for generated column '{column}' in table '{table}' is not allowed."
    );
    SqlError::new(3105, "HY000", text)
}

/// An expression over columns, bound: slot `i` is column `i`.
pub(crate) fn bind_stored(
    ctx: &EvalCtx<'_>,
    table: &str,
    columns: &[ColumnDef],
    text: &str,
) -> SqlResult<Expr> {
    Binder::new(ctx, table, columns).bind(text)
}

/// Ordinals of the columns that an expression of the table reads.
pub(crate) fn columns_of_stored(
    ctx: &EvalCtx<'_>,
    table: &str,
    columns: &[ColumnDef],
    text: &str,
) -> SqlResult<Vec<usize>> {
    let mut used = Vec::new();
    let bound = Binder::new(ctx, table, columns).bind_key_part(text, "")?;
    bound.slots(&mut |slot| used.push(slot as usize));
    Ok(used)
}
