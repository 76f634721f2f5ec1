//! Giving a column a value: NULL rules, conversion, implicit defaults.
//!
//! Neighbours: `insert` and `update` for every assignment, `ddl::fill` for converted rows.
//! **Invariant**: what comes out has the column's type and obeys its NOT NULL.

use esker_sql_catalog::catalog::{ColumnDef, DefaultDef, TableDef};
use esker_sql_catalog::codec::temporal;
use esker_types::cast::to_column;
use esker_types::json;
use esker_types::{
    Date, DateTime, Decimal, EvalCtx, Level, SqlError, SqlResult, SqlType, Time, TypeKind, Value,
    errors,
};

/// Converts `value` of type `from` for `column`. NULL in a NOT NULL column is error 1048, or, where `lenient` (IGNORE,
/// or several rows outside strict mode), the implicit default with a warning.
pub(crate) fn assign(
    ctx: &EvalCtx<'_>,
    value: Value,
    from: &SqlType,
    (table, column): (&str, &ColumnDef),
    row: u64,
    lenient: bool,
) -> SqlResult<Value> {
    if value.is_null() {
        return null_for(ctx, column, lenient);
    }
    if column.ty.kind == TypeKind::Json && !table.is_empty() {
        // Messages name the table, too, where it is known.
        let name = format!("{table}.{}", column.name);
        return to_column(ctx, value, from, &column.ty, &name, row);
    }
    to_column(ctx, value, from, &column.ty, &column.name, row)
}

/// NULL as the value of a column; see [`assign`].
pub(super) fn null_for(ctx: &EvalCtx<'_>, column: &ColumnDef, lenient: bool) -> SqlResult<Value> {
    if column.ty.nullable {
        return Ok(Value::Null);
    }
    let text = format!("Column '{}' cannot be null", column.name);
    if column.ty.is_geometry() {
        // There is no zero of geometries.
        return Err(SqlError::new(3673, "23000", text));
    }
    if !lenient {
        return Err(errors::null_column(&column.name));
    }
    ctx.warn(Level::Warning, 1048, text);
    Ok(reset_value(&column.ty))
}

/// The columns as BEFORE triggers see them: each may be NULL until the last of them has run.
pub(super) fn relaxed_columns(table: &TableDef) -> Vec<ColumnDef> {
    let mut columns = table.columns.clone();
    columns.iter_mut().for_each(|c| c.ty.nullable = true);
    columns
}

/// The value of a NOT NULL column that was given none: zero, the empty string, the first label.
pub(crate) fn implicit_value(ty: &SqlType) -> Value {
    match &ty.kind {
        _ if ty.is_integer() && ty.unsigned && ty.kind != TypeKind::Year => Value::UInt(0),
        _ if ty.is_integer() => Value::Int(0),
        TypeKind::Float | TypeKind::Double => Value::Double(0.0),
        TypeKind::Decimal => Value::Decimal(Decimal::from_i128(0, ty.decimals)),
        TypeKind::Date => Value::Date(Date::ZERO),
        TypeKind::Time => Value::Time(Time::ZERO),
        TypeKind::DateTime | TypeKind::Timestamp => Value::DateTime(DateTime::ZERO),
        TypeKind::Bit => Value::Bit(0, ty.length as u8),
        TypeKind::Enum(labels) => match labels.first() {
            Some(label) => Value::Label(1, label.as_bytes().into()),
            None => Value::Label(0, Box::default()),
        },
        TypeKind::Set(_) => Value::Label(0, Box::default()),
        TypeKind::Json => Value::Json(json::encode_scalar(&json::Json::Null)),
        TypeKind::Char if ty.collation.is_binary() => Value::Str(vec![0; ty.length as usize]),
        _ => Value::Str(Vec::new()),
    }
}

/// The value of a NOT NULL column that was given NULL, or nothing where something was due. Only a column that is not
/// mentioned gets the first label of an ENUM.
pub(crate) fn reset_value(ty: &SqlType) -> Value {
    match ty.kind {
        TypeKind::Enum(_) => Value::Label(0, Box::default()),
        _ => implicit_value(ty),
    }
}

/// The statement's time as a DATETIME or TIMESTAMP column keeps it.
pub(crate) fn now_for(ctx: &EvalCtx<'_>, ty: &SqlType) -> Value {
    let now = DateTime::from_utc(ctx.now_micros, &ctx.time_zone).unwrap_or(DateTime::ZERO);
    Value::DateTime(now.round(ty.decimals, true).unwrap_or(now))
}

/// A column's default.
pub(crate) enum Default {
    /// It has none.
    None,
    /// This value.
    Value(Value),
    /// `DEFAULT (expr)`, to be evaluated over the row.
    Expr,
}

/// The default of a column; AUTO_INCREMENT is NULL, for a number to be given later.
pub(crate) fn default_of(ctx: &EvalCtx<'_>, column: &ColumnDef) -> Default {
    match &column.default {
        _ if column.auto_increment => Default::Value(Value::Null),
        DefaultDef::None => Default::None,
        DefaultDef::Value(Value::DateTime(utc)) if column.ty.kind == TypeKind::Timestamp => {
            Default::Value(Value::DateTime(temporal::utc_to_zone(*utc, &ctx.time_zone)))
        }
        DefaultDef::Value(value) => Default::Value(value.clone()),
        DefaultDef::Now => Default::Value(now_for(ctx, &column.ty)),
        DefaultDef::Expr(_) => Default::Expr,
    }
}

/// DEFAULT written for a column that has none: 1364, a warning without strict mode; there is no zero of geometries.
pub(crate) fn missing_default(ctx: &EvalCtx<'_>, column: &ColumnDef) -> SqlResult<Value> {
    if column.ty.is_geometry() && !column.ty.nullable {
        return Err(errors::no_geometry_for_column());
    }
    if !matches!(column.ty.kind, TypeKind::Enum(_)) {
        let e = errors::no_default(&column.name);
        ctx.raise(e.code, "HY000", e.message)?;
    }
    Ok(unset_value(&column.ty))
}

/// The value of a column that was given none and has no default.
pub(crate) fn unset_value(ty: &SqlType) -> Value {
    match ty.nullable {
        true => Value::Null,
        false => implicit_value(ty),
    }
}
