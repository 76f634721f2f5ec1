//! VALUES of partitions: constants as text, in the order that MySQL demands.
//!
//! Neighbours: `partitions` puts them together; the catalog makes conditions of them. **Invariant**: integers are
//! written as such, everything else as a literal that the column takes.

use std::collections::HashSet;
use std::fmt::Write;

use esker_sql_catalog::catalog::{
    ColumnDef, PartitionBound, PartitionDef, PartitionKind, PartitionMethod, PartitionValue,
    Partitioning, quoted, same_name,
};
use esker_sql_catalog::exec_error::ExecError;
use esker_sql_plan::expr::{CallStates, EvalEnv, NoVars};
use esker_sql_syntax::ast;
use esker_types::cast::{to_column, write_text};
use esker_types::hex::upper_hex;
use esker_types::{SqlResult, SqlType, TypeKind, Value, errors};

use super::Table;
use super::method::check_operations;
use crate::dml::bind_stored;
use crate::printer::expr_text;

/// The VALUES of a partition: 1480, 1479, 1566, 1653, 1654, 1697.
pub(super) fn bound(
    table: &Table<'_>,
    method: &PartitionMethod,
    spec: &ast::PartitionSpec,
) -> SqlResult<PartitionBound> {
    let row = |values: &[ast::PartitionValue]| {
        let width = method.columns.len().max(1);
        match (values.len() == width, method.has_columns(), method.kind) {
            (true, ..) => {}
            (false, false, PartitionKind::Range) => return Err(errors::several_range_values()),
            _ => return Err(errors::inconsistent_column_list()),
        }
        let values = values.iter().enumerate();
        let values = values.map(|(nth, v)| value(table, method, &spec.name.text, nth, v));
        values.collect::<SqlResult<Vec<_>>>()
    };
    match (&spec.values, method.kind) {
        (ast::PartitionValues::LessThan(values), PartitionKind::Range) => {
            let values = row(values)?;
            match values.contains(&PartitionValue::Null) {
                true => Err(errors::null_in_less_than()),
                false => Ok(PartitionBound::LessThan(values)),
            }
        }
        (ast::PartitionValues::In(rows), PartitionKind::List) => {
            let mut rows = rows.iter().map(|r| row(r)).collect::<SqlResult<Vec<_>>>()?;
            if !method.has_columns() {
                // MySQL keeps NULL apart, and shows it first.
                rows.sort_by_key(|r| *r != [PartitionValue::Null]);
            }
            Ok(PartitionBound::In(rows))
        }
        (ast::PartitionValues::LessThan(_), _) => {
            Err(errors::wrong_partition_values("RANGE", "LESS THAN"))
        }
        (ast::PartitionValues::In(_), _) => Err(errors::wrong_partition_values("LIST", "IN")),
        (_, PartitionKind::Range) => Err(errors::missing_partition_values("RANGE", "LESS THAN")),
        (_, PartitionKind::List) => Err(errors::missing_partition_values("LIST", "IN")),
        _ => Ok(PartitionBound::None),
    }
}

fn value(
    table: &Table<'_>,
    method: &PartitionMethod,
    partition: &str,
    nth: usize,
    value: &ast::PartitionValue,
) -> SqlResult<PartitionValue> {
    let ast::PartitionValue::Constant(expr) = value else {
        return Ok(PartitionValue::Max);
    };
    let (value, ty) = constant(table, expr)?;
    if value.is_null() {
        return Ok(PartitionValue::Null);
    }
    let mut text = String::new();
    match method.columns.get(nth) {
        None => match &value {
            Value::Int(v) if *v < 0 && is_unsigned(table, method)? => {
                return Err(errors::constant_out_of_domain());
            }
            Value::Int(_) | Value::UInt(_) => push_text(&value, &ty, &mut text),
            _ => return Err(errors::partition_value_not_int(partition)),
        },
        Some(name) => {
            let column = column_named(table, name);
            let is_number = matches!(value, Value::Int(_) | Value::UInt(_));
            let fits = column.ty.is_integer() == is_number;
            let ctx = table.eval;
            let strict = ctx.diagnostics.strict_write.replace(true);
            let converted = to_column(ctx, value.clone(), &ty, &column.ty, &column.name, 1);
            ctx.diagnostics.strict_write.set(strict);
            let (true, Ok(converted)) = (fits, converted) else {
                return Err(errors::partition_value_type());
            };
            match converted {
                _ if is_number => push_text(&value, &ty, &mut text),
                // As the column stores it: without the blanks behind a CHAR, with the zeros behind a BINARY.
                Value::Str(bytes) if column.ty.collation.is_binary() => {
                    push_bytes(&bytes, &mut text);
                }
                Value::Str(bytes) => push_literal(&String::from_utf8_lossy(&bytes), &mut text),
                _ => {
                    let mut plain = String::new();
                    push_text(&value, &ty, &mut plain);
                    push_literal(&plain, &mut text);
                }
            }
        }
    }
    Ok(PartitionValue::Literal(text.into()))
}

/// VALUES of columns are of the columns' types, also after these have changed: 1654.
pub(super) fn check_types(table: &Table<'_>, partitioning: &Partitioning) -> SqlResult<()> {
    let columns = &partitioning.method.columns;
    let is_number = |value: &PartitionValue| match value {
        PartitionValue::Literal(text) => Some(!text.starts_with(['\'', '_'])),
        PartitionValue::Max | PartitionValue::Null => None,
    };
    let fits = |row: &[PartitionValue]| {
        row.iter().zip(columns).all(|(value, name)| {
            let is_integer = column_named(table, name).ty.is_integer();
            is_number(value).is_none_or(|is_number| is_number == is_integer)
        })
    };
    let all_fit = partitioning.partitions.iter().all(|p| match &p.bound {
        PartitionBound::LessThan(row) => fits(row),
        PartitionBound::In(rows) => rows.iter().all(|row| fits(row)),
        PartitionBound::None => true,
    });
    match all_fit {
        true => Ok(()),
        false => Err(errors::partition_value_type()),
    }
}

fn push_bytes(bytes: &[u8], out: &mut String) {
    if bytes.is_empty() {
        out.push_str("_binary ''");
        return;
    }
    let _ = write!(out, "_binary 0x{}", upper_hex(bytes));
}

fn push_text(value: &Value, ty: &SqlType, out: &mut String) {
    let mut bytes = Vec::new();
    write_text(value.as_ref(), ty, &mut bytes);
    out.push_str(&String::from_utf8_lossy(&bytes));
}

fn push_literal(text: &str, out: &mut String) {
    out.push('\'');
    for c in text.chars() {
        match c {
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\0' => out.push_str("\\0"),
            '\\' => out.push_str("\\\\"),
            '\'' => out.push_str("''"),
            c => {
                let _ = out.write_char(c);
            }
        }
    }
    out.push('\'');
}

/// Are the values of the partitioning expression unsigned?
fn is_unsigned(table: &Table<'_>, method: &PartitionMethod) -> SqlResult<bool> {
    let columns = &table.built.columns;
    Ok(bind_stored(table.eval, table.name, columns, &method.expr)?
        .ty
        .unsigned)
}

fn column_named<'t>(table: &Table<'t>, name: &str) -> &'t ColumnDef {
    let mut columns = table.built.columns.iter();
    let found = columns.find(|c| same_name(&c.name, name));
    found.expect("the columns of a method are those of the table")
}

/// The value of a constant expression.
fn constant(table: &Table<'_>, expr: &ast::Expr) -> SqlResult<(Value, SqlType)> {
    check_operations(expr)?;
    let bound = bind_stored(table.eval, table.name, &[], &expr_text(expr)?);
    let bound = bound.map_err(|e| match e.code {
        1054 => {
            let name = e.message.split('\'').nth(1).unwrap_or_default();
            errors::unknown_column(name, "partition function")
        }
        _ => e,
    })?;
    let calls = CallStates::default();
    let env = EvalEnv::scalar(table.eval, &NoVars, &calls);
    let value = bound.eval(&[], &env).map_err(ExecError::without_wait)?;
    Ok((value, bound.ty))
}

/// The order and uniqueness of all VALUES: 1481, 1493, 1495.
pub(super) fn check(table: &Table<'_>, partitioning: &Partitioning) -> SqlResult<()> {
    match partitioning.method.kind {
        PartitionKind::Range => check_ranges(table, partitioning),
        PartitionKind::List => check_lists(table, partitioning),
        PartitionKind::Hash | PartitionKind::Key => Ok(()),
    }
}

fn less_than(partition: &PartitionDef) -> &[PartitionValue] {
    match &partition.bound {
        PartitionBound::LessThan(values) => values,
        _ => &[],
    }
}

fn check_ranges(table: &Table<'_>, partitioning: &Partitioning) -> SqlResult<()> {
    let all = &partitioning.partitions;
    let is_max = |p: &PartitionDef| less_than(p) == [PartitionValue::Max];
    if all[..all.len() - 1].iter().any(is_max) {
        return Err(errors::maxvalue_not_last());
    }
    for pair in all.windows(2) {
        if !is_before(
            table,
            &partitioning.method,
            less_than(&pair[0]),
            less_than(&pair[1]),
        )? {
            return Err(errors::range_not_increasing());
        }
    }
    Ok(())
}

/// Is one bound smaller than another?
pub(super) fn is_before(
    table: &Table<'_>,
    method: &PartitionMethod,
    a: &[PartitionValue],
    b: &[PartitionValue],
) -> SqlResult<bool> {
    for (nth, pair) in a.iter().zip(b).enumerate() {
        match pair {
            // What stands behind MAXVALUE tells nothing apart.
            (PartitionValue::Max, _) => return Ok(false),
            (_, PartitionValue::Max) => return Ok(true),
            (a, b) => {
                if compares(table, method, nth, (a, "<", b))? {
                    return Ok(true);
                }
                if !compares(table, method, nth, (a, "=", b))? {
                    return Ok(false);
                }
            }
        }
    }
    Ok(false)
}

/// Does a comparison of two values hold, as the column at `nth` has them?
fn compares(
    table: &Table<'_>,
    method: &PartitionMethod,
    nth: usize,
    (a, op, b): (&PartitionValue, &str, &PartitionValue),
) -> SqlResult<bool> {
    let calls = CallStates::default();
    let env = EvalEnv::scalar(table.eval, &NoVars, &calls);
    let Some(name) = method.columns.get(nth) else {
        let text = format!("{} {op} {}", a.text(), b.text());
        let bound = bind_stored(table.eval, table.name, &[], &text)?;
        let holds = bound
            .eval_bool(&[], &env)
            .map_err(ExecError::without_wait)?;
        return Ok(holds == Some(true));
    };
    let column = column_named(table, name);
    let one = std::slice::from_ref(column);
    let literal = bind_stored(table.eval, table.name, &[], a.text())?;
    let value = literal.eval(&[], &env).map_err(ExecError::without_wait)?;
    let value = to_column(table.eval, value, &literal.ty, &column.ty, &column.name, 1)?;
    let text = format!("{} {op} {}", quoted(name), b.text());
    let bound = bind_stored(table.eval, table.name, one, &text)?;
    let holds = bound
        .eval_bool(&[value], &env)
        .map_err(ExecError::without_wait)?;
    Ok(holds == Some(true))
}

fn check_lists(table: &Table<'_>, partitioning: &Partitioning) -> SqlResult<()> {
    let mut seen = HashSet::new();
    let method = &partitioning.method;
    let mut rows: Vec<&[PartitionValue]> = Vec::new();
    for partition in &partitioning.partitions {
        let PartitionBound::In(list) = &partition.bound else {
            continue;
        };
        rows.extend(list.iter().map(Vec::as_slice));
    }
    let are_texts = method.columns.iter().any(|name| {
        let ty = &column_named(table, name).ty;
        matches!(ty.kind, TypeKind::Char | TypeKind::VarChar) || ty.is_temporal()
    });
    for (nth, row) in rows.iter().enumerate() {
        let texts: Vec<&str> = row.iter().map(PartitionValue::text).collect();
        let is_new = seen.insert(texts);
        let is_twin = |other: &&[PartitionValue]| is_same(table, method, row, other);
        if !is_new || are_texts && any(rows[..nth].iter().map(is_twin))? {
            return Err(errors::repeated_list_constant());
        }
    }
    Ok(())
}

fn any(mut all: impl Iterator<Item = SqlResult<bool>>) -> SqlResult<bool> {
    let found = all.find(|one| !matches!(one, Ok(false)));
    found.unwrap_or(Ok(false))
}

fn is_same(
    table: &Table<'_>,
    method: &PartitionMethod,
    a: &[PartitionValue],
    b: &[PartitionValue],
) -> SqlResult<bool> {
    for (nth, (a, b)) in a.iter().zip(b).enumerate() {
        let null = PartitionValue::Null;
        let same = match *a == null || *b == null {
            true => a == b,
            false => compares(table, method, nth, (a, "=", b))?,
        };
        if !same {
            return Ok(false);
        }
    }
    Ok(true)
}
