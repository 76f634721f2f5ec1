//! Column definitions as written, checked and made into catalog columns.
//!
//! Neighbours: `types` for the type, `draft` for the table around it.
//! **Invariant**: a constant default has the column's type, TIMESTAMP constants are in UTC; a default
//! that a row could not have is error 1067 here, not a surprise at the first INSERT.

use esker_sql_catalog::catalog::{ColumnDef, DefaultDef, GeneratedDef};
use esker_sql_catalog::codec::temporal;
use esker_sql_plan::bind::types::{column_type, repeated_labels};
use esker_sql_syntax::ast::{self, ColumnDefault, Literal, TypeName, UnaryOp};
use esker_types::cast::{is_zero_date, to_column, to_str};
use esker_types::collation::{Charset, Collation};
use esker_types::geometry::srs;
use esker_types::names::check_column;
use esker_types::{Decimal, EvalCtx, Level, SqlError, SqlResult, SqlType, TypeKind, Value, errors};

use super::kept::Keeper;

/// Longest COMMENT of a column, in characters.
const MAX_COMMENT_CHARS: usize = 1024;

/// What else a column definition asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Inline {
    pub(super) unique: bool,
    pub(super) primary: bool,
    /// NULL was written out.
    pub(super) explicit_null: bool,
}

/// A comment of at most `most` characters: a longer one is an error, or cut with a warning without strict mode.
pub(super) fn fit_comment(
    ctx: &EvalCtx<'_>,
    written: Option<&str>,
    most: usize,
    too_long: impl FnOnce() -> SqlError,
) -> SqlResult<Box<str>> {
    let written = written.unwrap_or_default();
    let Some((end, _)) = written.char_indices().nth(most) else {
        return Ok(written.into());
    };
    debug_assert!(end <= written.len() && most > 0);
    let error = too_long();
    if ctx.sql_mode.is_strict() {
        return Err(error);
    }
    ctx.warn(Level::Warning, error.code, error.message);
    Ok(written[..end].into())
}

/// Makes the catalog column of a written one; `collation` is the table's default.
pub(super) fn build(
    ctx: &EvalCtx<'_>,
    def: &ast::ColumnDef,
    id: u32,
    collation: Collation,
) -> SqlResult<(ColumnDef, Inline)> {
    let name = &*def.name.text;
    check_column(name)?;
    check_generated(def)?;
    let serial = def.ty.name == TypeName::Serial;
    warn_deprecated(ctx, &def.ty);
    let mut ty = type_of_column(ctx, &def.ty, name, collation)?;
    if let Some(srid) = def.srid {
        set_srid(&mut ty, srid)?;
    }
    ty.nullable = !(serial || def.primary || def.not_null == Some(true));
    let auto_increment = def.auto_increment || serial;
    if auto_increment {
        check_auto_increment(&ty, def, name)?;
        // MySQL makes it NOT NULL whatever was written.
        ty.nullable = false;
    }
    check_on_update(&ty, def, name)?;
    let generated = def
        .generated
        .as_ref()
        .map(|g| build_generated(g, name))
        .transpose()?;
    let default = match (&def.default, auto_increment) {
        _ if generated.is_some() => DefaultDef::Value(Value::Null),
        (_, true) => DefaultDef::None,
        (default, false) => build_default(ctx, default.as_ref(), &ty, name)?,
    };
    let comment = fit_comment(ctx, def.comment.as_deref(), MAX_COMMENT_CHARS, || {
        let text = format!(
            "The maximum supported character limit for the field, '{name}', has been exceeded (max = \
             {MAX_COMMENT_CHARS})"
        );
        SqlError::new(1629, "HY000", text)
    })?;
    let column = ColumnDef {
        id,
        name: name.into(),
        explicit_collation: (def.ty.collation.is_some()
            || def.ty.charset.is_some()
            || def.ty.binary)
            && !ty.collation.is_binary(),
        ty,
        default,
        on_update_now: def.on_update_now.is_some(),
        auto_increment,
        invisible: def.invisible == Some(true),
        comment,
        instant_default: None,
        generated,
    };
    let inline = Inline {
        unique: def.unique || serial,
        primary: def.primary,
        explicit_null: def.not_null == Some(false),
    };
    Ok((column, inline))
}

/// The type that was written. Without strict mode a VARCHAR or VARBINARY that is too long becomes a TEXT or BLOB, and
/// labels may come twice.
fn type_of_column(
    ctx: &EvalCtx<'_>,
    ty: &ast::DataType,
    column: &str,
    collation: Collation,
) -> SqlResult<SqlType> {
    let (from, to, name) = match ty.name {
        TypeName::VarChar => ("VARCHAR", "TEXT", TypeName::Text),
        TypeName::VarBinary => ("VARBINARY", "BLOB", TypeName::Blob),
        TypeName::Enum | TypeName::Set => {
            let made = column_type(ty, column, collation)?;
            for e in repeated_labels(&made, column) {
                if ctx.sql_mode.is_strict() {
                    return Err(e);
                }
                ctx.warn(Level::Note, e.code, e.message);
            }
            return Ok(made);
        }
        _ => return column_type(ty, column, collation),
    };
    match column_type(ty, column, collation) {
        Err(e) if e.code == 1074 && !ctx.sql_mode.is_strict() => {
            let text = format!("Converting column '{column}' from {from} to {to}");
            ctx.warn(Level::Note, 1246, text);
            let ty = ast::DataType { name, ..ty.clone() };
            column_type(&ty, column, collation)
        }
        ty => ty,
    }
}

/// SRID of a geometry column: 1221 for others, 3548 for one that is not known.
fn set_srid(ty: &mut SqlType, srid: u64) -> SqlResult<()> {
    let TypeKind::Geometry(geometry) = &mut ty.kind else {
        return Err(errors::wrong_usage("SRID and non-geometry column"));
    };
    let known = u32::try_from(srid).ok().and_then(srs::find);
    let known = known.ok_or_else(|| errors::no_such_srid(srid))?;
    geometry.srid = Some(known.srid);
    Ok(())
}

/// Attributes that a generated column cannot have.
fn check_generated(def: &ast::ColumnDef) -> SqlResult<()> {
    if def.generated.is_none() {
        return Ok(());
    }
    let wrong = [
        (def.default.is_some(), "DEFAULT"),
        (def.on_update_now.is_some(), "ON UPDATE"),
        (def.auto_increment, "AUTO_INCREMENT"),
    ];
    match wrong.iter().find(|(present, _)| *present) {
        Some((_, what)) => Err(errors::wrong_usage(format!("{what} and generated column"))),
        None => Ok(()),
    }
}

fn build_generated(generated: &ast::Generated, name: &str) -> SqlResult<GeneratedDef> {
    Ok(GeneratedDef {
        text: Keeper::Generated(name).text(&generated.expr.expr)?,
        stored: generated.stored,
        hidden: false,
    })
}

/// Warns of what MySQL wants to be rid of in types.
fn warn_deprecated(ctx: &EvalCtx<'_>, ty: &ast::DataType) {
    let warn = |text: &str| ctx.warn(Level::Warning, 1681, text.to_owned());
    if ty.zerofill {
        warn(
            "The ZEROFILL attribute is deprecated and will be removed in a future release. Use the \
             LPAD function to zero-pad numbers, or store the formatted numbers in a CHAR column.",
        );
    }
    let real = matches!(ty.name, TypeName::Float | TypeName::Double);
    if real && ty.decimals.is_some() {
        warn(
            "Specifying number of digits for floating point data types is deprecated and will be \
             removed in a future release.",
        );
    }
    if ty.unsigned && (real || ty.name == TypeName::Decimal) {
        warn(
            "UNSIGNED for decimal and floating point data types is deprecated and support for it \
             will be removed in a future release.",
        );
    }
    let integer = matches!(
        ty.name,
        TypeName::TinyInt
            | TypeName::SmallInt
            | TypeName::MediumInt
            | TypeName::Int
            | TypeName::BigInt
    );
    if integer && ty.length.is_some() {
        warn("Integer display width is deprecated and will be removed in a future release.");
    }
    if ty.binary {
        let text = "'BINARY as attribute of a type' is deprecated and will be removed in a future release. Please use \
                    a CHARACTER SET clause with _bin collation instead";
        ctx.warn(Level::Warning, 1287, text.to_owned());
    }
    if ty.name == TypeName::Year && ty.length.is_some() {
        let text = "'YEAR(4)' is deprecated and will be removed in a future release. Please use \
                    YEAR instead";
        ctx.warn(Level::Warning, 1287, text.to_owned());
    }
}

fn check_auto_increment(ty: &SqlType, def: &ast::ColumnDef, name: &str) -> SqlResult<()> {
    if !ty.is_integer() || ty.kind == TypeKind::Year {
        return Err(errors::wrong_column_specifier(name));
    }
    if def.default.is_some() {
        return Err(errors::invalid_default(name));
    }
    Ok(())
}

fn takes_now(ty: &SqlType) -> bool {
    matches!(ty.kind, TypeKind::DateTime | TypeKind::Timestamp)
}

fn check_on_update(ty: &SqlType, def: &ast::ColumnDef, name: &str) -> SqlResult<()> {
    match def.on_update_now {
        Some(fsp) if !takes_now(ty) || fsp != ty.decimals => {
            let text = format!("Invalid ON UPDATE clause for '{name}' column");
            Err(SqlError::new(1294, "HY000", text))
        }
        _ => Ok(()),
    }
}

/// TEXT, BLOB, JSON and geometry columns, whose defaults must be expressions.
pub(super) fn has_no_literal_default(ty: &SqlType) -> bool {
    is_blob(ty) || ty.kind == TypeKind::Json || ty.is_geometry()
}

/// 1101
pub(super) fn no_literal_default(column: &str) -> SqlError {
    let text = format!("BLOB, TEXT, GEOMETRY or JSON column '{column}' can't have a default value");
    SqlError::new(1101, "42000", text)
}

/// The literal that an expression is, but for a plus before it.
pub(super) fn as_literal(expr: &ast::Expr) -> Option<&ast::Expr> {
    match expr {
        ast::Expr::Literal(_) => Some(expr),
        ast::Expr::Unary {
            op: UnaryOp::Plus,
            expr,
        } => as_literal(expr),
        _ => None,
    }
}

/// `DATE '…'` and its kin, which MySQL takes for no default.
pub(super) fn is_moment(expr: &ast::Expr) -> bool {
    matches!(
        expr,
        ast::Expr::Literal(Literal::Date(_) | Literal::Time(_) | Literal::Timestamp(_))
    )
}

/// TEXT and BLOB columns.
pub(super) fn is_blob(ty: &SqlType) -> bool {
    matches!(
        ty.kind,
        TypeKind::TinyText | TypeKind::Text | TypeKind::MediumText | TypeKind::LongText
    )
}

/// The default of a column of type `ty`; without DEFAULT it is NULL, or none when NOT NULL.
pub(super) fn build_default(
    ctx: &EvalCtx<'_>,
    default: Option<&ColumnDefault>,
    ty: &SqlType,
    name: &str,
) -> SqlResult<DefaultDef> {
    match default {
        None if ty.nullable => Ok(DefaultDef::Value(Value::Null)),
        None => Ok(DefaultDef::None),
        Some(ColumnDefault::Now(fsp)) if takes_now(ty) && *fsp == ty.decimals => {
            Ok(DefaultDef::Now)
        }
        Some(ColumnDefault::Now(_)) => Err(errors::invalid_default(name)),
        Some(ColumnDefault::Expr(e)) => Keeper::Default(name).text(&e.expr).map(DefaultDef::Expr),
        Some(ColumnDefault::Literal(e)) => {
            let value = literal(e, ty).ok_or_else(|| errors::invalid_default(name))?;
            if value.is_null() {
                return match ty.nullable {
                    true => Ok(DefaultDef::Value(Value::Null)),
                    false => Err(errors::invalid_default(name)),
                };
            }
            if has_no_literal_default(ty) {
                let error = no_literal_default(name);
                let is_empty = matches!(&value, Value::Str(s) if s.is_empty());
                if ctx.sql_mode.is_strict() || !is_empty || !is_blob(ty) {
                    return Err(error);
                }
                ctx.warn(Level::Warning, error.code, error.message);
                return Ok(match ty.nullable {
                    true => DefaultDef::Value(Value::Null),
                    false => DefaultDef::None,
                });
            }
            constant(ctx, value, ty, name).map(DefaultDef::Value)
        }
    }
}

/// Converts a constant default; anything MySQL would warn about is an error, whose cause is listed before it, a note is
/// none. Nor are dates with zeros that `sql_mode` forbids, but not strictly: they become 0000-00-00.
fn constant(ctx: &EvalCtx<'_>, value: Value, ty: &SqlType, name: &str) -> SqlResult<Value> {
    let is_labelled = matches!(ty.kind, TypeKind::Enum(_) | TypeKind::Set(_));
    let written = is_labelled.then(|| to_str(&value, &literal_type(&value)).into_owned());
    let value = written.clone().map_or(value, Value::Str);
    let is_strict = ctx.sql_mode.is_strict();
    let strict = ctx.diagnostics.strict_write.replace(is_strict);
    let mark = ctx.diagnostics.mark();
    let from = literal_type(&value);
    let is_zero = is_zero_date(ctx, &value, ty);
    let converted = to_column(ctx, value, &from, ty, name, 1);
    ctx.diagnostics.strict_write.set(strict);
    let lossy = ctx.diagnostics.doubted_since(mark) && !is_zero;
    // Of a label that there is not MySQL says no more than that it is no default.
    if is_labelled {
        ctx.diagnostics.undo_to(mark);
    } else if let Err(cause) = &converted {
        ctx.warn(Level::Error, cause.code, &*cause.message);
    }
    match converted {
        // A number is the label that is written so, not the number of a label.
        Ok(Value::Label(_, label)) if written.is_some_and(|w| is_digits(&w) && *w != *label) => {
            Err(errors::invalid_default(name))
        }
        Ok(Value::DateTime(t)) if ty.kind == TypeKind::Timestamp && !lossy => {
            temporal::zone_to_utc(t, &ctx.time_zone)
                .map(Value::DateTime)
                .map_err(|_| errors::invalid_default(name))
        }
        Ok(value) if !lossy => Ok(value),
        _ => Err(errors::invalid_default(name)),
    }
}

fn is_digits(text: &[u8]) -> bool {
    !text.is_empty() && text.iter().all(u8::is_ascii_digit)
}

/// The static type of a literal's value.
fn literal_type(value: &Value) -> SqlType {
    match value {
        Value::Int(_) => SqlType::bigint(false),
        Value::UInt(_) => SqlType::bigint(true),
        Value::Double(_) => SqlType::new(TypeKind::Double),
        Value::Decimal(v) => SqlType::decimal(v.precision(), v.scale()),
        Value::Str(s) => SqlType::varchar(s.len() as u32, Collation::UTF8MB4_0900_AI_CI),
        _ => SqlType::new(TypeKind::Null),
    }
}

/// The value of a literal with an optional sign; `None` for anything else. Hexadecimal and bit
/// literals are numbers where `ty` is numeric.
fn literal(expr: &ast::Expr, ty: &SqlType) -> Option<Value> {
    match expr {
        ast::Expr::Literal(l) => literal_value(l, ty),
        ast::Expr::Unary {
            op: UnaryOp::Plus,
            expr,
        } => literal(expr, ty),
        ast::Expr::Unary {
            op: UnaryOp::Neg,
            expr,
        } => Some(match literal(expr, ty)? {
            Value::Int(v) => Value::Int(v.checked_neg()?),
            Value::UInt(v) if v == 1 << 63 => Value::Int(i64::MIN),
            Value::UInt(v) => Value::Decimal(Decimal::from_u64(v).negate()),
            Value::Double(v) => Value::Double(-v),
            Value::Decimal(v) => Value::Decimal(v.negate()),
            _ => return None,
        }),
        _ => None,
    }
}

/// `None` for `DATE '…'` and its kin, which MySQL takes for no default.
fn literal_value(literal: &Literal, ty: &SqlType) -> Option<Value> {
    Some(match literal {
        Literal::Null => Value::Null,
        Literal::Bool(b) => Value::bool(*b),
        Literal::Int(v) => i64::try_from(*v).map_or(Value::UInt(*v), Value::Int),
        Literal::Decimal(text) => Value::Decimal(Decimal::parse(text.as_bytes()).0),
        Literal::Double(v) => Value::Double(*v),
        Literal::Str {
            bytes,
            charset: Some(name),
        }
        | Literal::Hex {
            bytes,
            charset: Some(name),
        }
        | Literal::Bit {
            bytes,
            charset: Some(name),
        } => {
            let charset = Charset::by_name(name).unwrap_or(Charset::Binary);
            let bytes = charset.whole_units(bytes);
            Value::Str(charset.decode_lossy(&bytes).into_owned())
        }
        Literal::Str { bytes, .. } => Value::Str(bytes.clone()),
        Literal::Date(_) | Literal::Time(_) | Literal::Timestamp(_) => return None,
        Literal::Hex { bytes, .. } | Literal::Bit { bytes, .. } => {
            if ty.is_numeric() && bytes.len() <= 8 {
                let word = bytes.iter().fold(0, |acc, b| acc << 8 | u64::from(*b));
                return Some(Value::UInt(word));
            }
            // Bytes are those of the column's character set.
            let text = ty.collation.charset().decode(bytes);
            Value::Str(text.map_or_else(|_| bytes.clone(), |text| text.into_owned()))
        }
    })
}
