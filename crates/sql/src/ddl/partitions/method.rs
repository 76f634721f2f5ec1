//! What decides the partition of a row: expressions and columns, as MySQL allows them.
//!
//! Neighbours: `partitions` puts them together with the partitions. **Invariant**: an expression that passes is a
//! function of the row alone, without the session's time zone, and gives integers.

use std::collections::BTreeSet;

use esker_sql_catalog::catalog::{
    ColumnDef, MAX_KEY_BYTES, MAX_KEY_PARTS, PartitionKind, PartitionMethod, Partitioning,
    same_name,
};
use esker_sql_syntax::ast::{self, BinaryOp, Expr, UnaryOp};
use esker_types::{SqlResult, SqlType, TypeKind, errors};

use super::super::columns::is_blob;
use super::super::draft_finish::column_bytes;
use super::super::key_length::key_bytes;
use super::Table;
use crate::dml::{columns_of_stored, type_of_stored};
use crate::printer::expr_text;

/// Functions that MySQL allows, and the kinds of columns they take: of dates (`d`), times (`t`), DATETIME alone (`b`),
/// TIMESTAMP alone (`s`), none of these (`o`), or any number (`n`).
const FUNCTIONS: &[(&str, &str)] = &[
    ("abs", "n"),
    ("ceiling", "n"),
    ("ceil", "n"),
    ("floor", "n"),
    ("mod", "n"),
    ("datediff", "d"),
    ("day", "d"),
    ("dayofmonth", "d"),
    ("dayofweek", "d"),
    ("dayofyear", "d"),
    ("month", "d"),
    ("quarter", "d"),
    ("to_days", "d"),
    ("to_seconds", "d"),
    ("weekday", "d"),
    ("year", "d"),
    ("yearweek", "d"),
    ("hour", "t"),
    ("minute", "t"),
    ("second", "t"),
    ("microsecond", "t"),
    ("time_to_sec", "t"),
    ("unix_timestamp", "s"),
    ("from_days", "o"),
    ("extract_year", "d"),
    ("extract_quarter", "d"),
    ("extract_month", "d"),
    ("extract_day", "d"),
    ("extract_year_month", "d"),
    ("extract_hour", "t"),
    ("extract_minute", "t"),
    ("extract_second", "t"),
    ("extract_microsecond", "t"),
    ("extract_hour_minute", "t"),
    ("extract_hour_second", "t"),
    ("extract_minute_second", "t"),
    ("extract_day_hour", "b"),
    ("extract_day_minute", "b"),
    ("extract_day_second", "b"),
    ("extract_day_microsecond", "b"),
];

/// A method as written.
pub(super) fn define(
    table: &Table<'_>,
    method: &ast::PartitionMethod,
) -> SqlResult<PartitionMethod> {
    let kind = match method.kind {
        ast::PartitionKind::Range => PartitionKind::Range,
        ast::PartitionKind::List => PartitionKind::List,
        ast::PartitionKind::Hash => PartitionKind::Hash,
        ast::PartitionKind::Key => PartitionKind::Key,
    };
    let mut out = PartitionMethod {
        kind,
        linear: method.linear,
        old_hash: method.algorithm == Some(1),
        expr: Box::default(),
        columns: Vec::new(),
        by_primary: false,
    };
    match &method.on {
        ast::PartitionOn::Expr(source) => {
            check_functions(table, &source.expr, None)?;
            let mut expr = source.expr.clone();
            name_columns(table, &mut expr)?;
            out.expr = expr_text(&expr)?;
            check_expr(table, &expr, &out.expr)?;
        }
        ast::PartitionOn::Columns(names) if names.is_empty() => {
            out.by_primary = true;
            out.columns = primary_columns(table)?;
        }
        ast::PartitionOn::Columns(names) if names.len() > MAX_KEY_PARTS => {
            return Err(errors::too_many_partition_fields(
                "list of partition fields",
            ));
        }
        ast::PartitionOn::Columns(names) => {
            for (nth, name) in names.iter().enumerate() {
                if names[..nth].iter().any(|n| same_name(&n.text, &name.text)) {
                    return Err(errors::duplicate_partition_field(&name.text));
                }
                let column = find(table, &name.text)?;
                check_type(column, kind)?;
                out.columns.push((*column.name).into());
            }
        }
    }
    check_length(table, &out.columns)?;
    Ok(out)
}

/// 1660: the columns together must fit into a key.
fn check_length(table: &Table<'_>, columns: &[Box<str>]) -> SqlResult<()> {
    /// What counts for the length of a text in a key.
    const LENGTH_BYTES: u64 = 2;
    let mut bytes = 0;
    for name in columns {
        let ty = &find(table, name)?.ty;
        bytes += u64::from(ty.nullable);
        bytes += match ty.kind {
            TypeKind::VarChar => LENGTH_BYTES + key_bytes(ty, None),
            _ => column_bytes(ty),
        };
    }
    match bytes <= MAX_KEY_BYTES {
        true => Ok(()),
        false => Err(errors::partition_fields_too_long()),
    }
}

/// 1488.
fn find<'t>(table: &Table<'t>, name: &str) -> SqlResult<&'t ColumnDef> {
    let columns = &table.built.columns;
    let found = columns
        .iter()
        .find(|c| !c.is_hidden() && same_name(&c.name, name));
    found.ok_or_else(errors::partition_field_missing)
}

/// The columns of `KEY ()`.
pub(super) fn primary_columns(table: &Table<'_>) -> SqlResult<Vec<Box<str>>> {
    let built = table.built;
    let is_key = |i: &&super::super::draft_finish::BuiltIndex| {
        i.unique && i.parts.iter().all(|p| !built.columns[p.col].ty.nullable)
    };
    let primary = built.indexes.iter().find(|i| i.primary);
    let key = primary.or_else(|| built.indexes.iter().find(is_key));
    let key = key.ok_or_else(errors::partition_field_missing)?;
    let names = key
        .parts
        .iter()
        .map(|p| (*built.columns[p.col].name).into());
    Ok(names.collect())
}

/// 1502, 1659.
fn check_type(column: &ColumnDef, kind: PartitionKind) -> SqlResult<()> {
    if is_blob(&column.ty) || column.ty.kind == TypeKind::Json || column.ty.is_geometry() {
        return Err(errors::blob_in_partition_function());
    }
    let is_allowed = match (kind, &column.ty.kind) {
        (PartitionKind::Key, _) => true,
        (_, TypeKind::Date | TypeKind::DateTime | TypeKind::Time) => true,
        (_, TypeKind::Char | TypeKind::VarChar) => true,
        _ => column.ty.is_integer() && column.ty.kind != TypeKind::Year,
    };
    match is_allowed {
        true => Ok(()),
        false => Err(errors::partition_field_type(&column.name)),
    }
}

/// The types of columns again, after the table was altered.
pub(super) fn check_columns(table: &Table<'_>, partitioning: &Partitioning) -> SqlResult<()> {
    let methods = [Some(&partitioning.method), partitioning.sub.as_ref()];
    for method in methods.into_iter().flatten() {
        for name in &method.columns {
            check_type(find(table, name)?, method.kind)?;
        }
        check_length(table, &method.columns)?;
        if !method.expr.is_empty() {
            let expr = esker_sql_syntax::parse_expression(&method.expr)?;
            check_expr(table, &expr, &method.expr)?;
        }
    }
    Ok(())
}

/// Ordinals of the columns that decide.
pub(super) fn deciding_columns(
    table: &Table<'_>,
    partitioning: &Partitioning,
) -> SqlResult<Vec<usize>> {
    let columns = &table.built.columns;
    let mut out = Vec::new();
    for text in partitioning.exprs() {
        out.extend(columns_of_stored(table.eval, table.name, columns, text)?);
    }
    let named = columns.iter().enumerate();
    let named = named.filter(|(_, c)| partitioning.names_column(&c.name));
    out.extend(named.map(|(at, _)| at));
    Ok(out)
}

/// 1054, 1486, 1491, 1564, 1659.
fn check_expr(table: &Table<'_>, expr: &Expr, text: &str) -> SqlResult<()> {
    check_functions(table, expr, None)?;
    let columns = &table.built.columns;
    let bound = type_of_stored(table.eval, table.name, columns, text);
    let (ty, is_column) = bound.map_err(|e| match e.code {
        1054 => {
            let name = e.message.split('\'').nth(1).unwrap_or_default();
            errors::unknown_column(name, "partition function")
        }
        _ => e,
    })?;
    if is_column {
        let Expr::Column(column) = expr else {
            return Err(errors::partition_function_type());
        };
        let column = find(table, &column.name.text)?;
        return match ty.is_integer() || ty.kind == TypeKind::Bit {
            true => Ok(()),
            false => Err(errors::partition_field_type(&column.name)),
        };
    }
    let used = columns_of_stored(table.eval, table.name, columns, text)?;
    let used: BTreeSet<usize> = used.into_iter().collect();
    if used.len() > MAX_KEY_PARTS {
        return Err(errors::too_many_partition_fields("partition function"));
    }
    if used.is_empty() {
        return Err(errors::constant_partition_function());
    }
    match ty.is_integer() {
        true => Ok(()),
        false => Err(errors::partition_function_type()),
    }
}

/// Gives columns the names that the table has for them: 1054 for those of others.
fn name_columns(table: &Table<'_>, expr: &mut Expr) -> SqlResult<()> {
    if let Expr::Column(column) = expr {
        let own = |name: &Option<ast::Ident>, own| name.as_ref().is_none_or(|n| &*n.text == own);
        let mut columns = table.built.columns.iter();
        let found = columns.find(|c| !c.is_hidden() && same_name(&c.name, &column.name.text));
        match found {
            Some(found) if own(&column.table, table.name) && own(&column.schema, table.schema) => {
                column.name.text = (*found.name).into();
            }
            _ => {
                let written = [&column.schema, &column.table].into_iter().flatten();
                let written = written.chain([&column.name]).map(|name| &*name.text);
                let name = written.collect::<Vec<_>>().join(".");
                return Err(errors::unknown_column(&name, "partition function"));
            }
        }
    }
    for part in expr.parts_mut() {
        if let ast::PartMut::Expr(expr) = part {
            name_columns(table, expr)?;
        }
    }
    Ok(())
}

/// Only what MySQL allows; `of`: the kinds of columns that the function around takes.
fn check_functions(table: &Table<'_>, expr: &Expr, of: Option<&str>) -> SqlResult<()> {
    // Functions of dates take columns, and nothing else.
    if of.is_some_and(|of| of != "n") && !matches!(expr, Expr::Column(_)) {
        check_functions(table, expr, None)?;
        return Err(errors::constant_partition_function());
    }
    match expr {
        Expr::Literal(_) => Ok(()),
        Expr::Column(column) => {
            let mut columns = table.built.columns.iter();
            let found = columns.find(|c| same_name(&c.name, &column.name.text));
            match (found, of) {
                (Some(column), _) if is_blob(&column.ty) && of.is_none_or(|of| of == "n") => {
                    Err(errors::blob_in_partition_function())
                }
                (Some(column), Some(of)) => check_argument(&column.ty, of),
                _ => Ok(()),
            }
        }
        Expr::Unary {
            op: UnaryOp::Neg,
            expr,
        } => check_functions(table, expr, of.or(Some("n"))),
        Expr::Binary {
            op: BinaryOp::Add | BinaryOp::Sub | BinaryOp::Mul | BinaryOp::IntDiv | BinaryOp::Mod,
            left,
            right,
        } => {
            check_functions(table, left, Some("n"))?;
            check_functions(table, right, Some("n"))
        }
        Expr::Call(call) => {
            let name = call.name.text.to_ascii_lowercase();
            let known = FUNCTIONS.iter().find(|(f, _)| *f == name);
            let (_, of) = known.ok_or_else(errors::partition_function_not_allowed)?;
            let mut args = call.args.iter();
            args.try_for_each(|arg| check_functions(table, arg, Some(of)))
        }
        _ => Err(errors::partition_function_not_allowed()),
    }
}

/// 1564 for a constant that is made by more than MySQL allows.
pub(super) fn check_operations(expr: &Expr) -> SqlResult<()> {
    match expr {
        Expr::Literal(_) | Expr::Column(_) => Ok(()),
        Expr::Unary {
            op: UnaryOp::Neg | UnaryOp::Plus,
            expr,
        } => check_operations(expr),
        Expr::Binary {
            op: BinaryOp::Add | BinaryOp::Sub | BinaryOp::Mul | BinaryOp::IntDiv | BinaryOp::Mod,
            left,
            right,
        } => {
            check_operations(left)?;
            check_operations(right)
        }
        Expr::Call(call) => {
            let name = call.name.text.to_ascii_lowercase();
            match FUNCTIONS.iter().any(|(f, _)| *f == name) {
                true => call.args.iter().try_for_each(check_operations),
                false => Err(errors::partition_function_not_allowed()),
            }
        }
        _ => Err(errors::partition_function_not_allowed()),
    }
}

/// 1486 for a column whose value the function would have to convert.
fn check_argument(ty: &SqlType, of: &str) -> SqlResult<()> {
    let is_moment = matches!(
        ty.kind,
        TypeKind::Date | TypeKind::Time | TypeKind::DateTime | TypeKind::Timestamp
    );
    let fits = match of {
        "d" => matches!(ty.kind, TypeKind::Date | TypeKind::DateTime),
        "t" => matches!(ty.kind, TypeKind::Time | TypeKind::DateTime),
        "b" => ty.kind == TypeKind::DateTime,
        "s" => ty.kind == TypeKind::Timestamp,
        "o" => !is_moment,
        // The number of a TIMESTAMP depends on the session's time zone.
        _ => ty.kind != TypeKind::Timestamp,
    };
    match fits {
        true => Ok(()),
        false => Err(errors::constant_partition_function()),
    }
}
