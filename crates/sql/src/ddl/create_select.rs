//! CREATE TABLE … SELECT: the table that a query's columns make.
//!
//! Neighbours: `session::schema` binds and runs the query between the steps that are here; `create` draws up the
//! rest of the definition; `dml` stores the rows.
//! **Invariants**
//! - The name is locked before the query is bound, so nobody else makes the table meanwhile.
//! - Rows and definition are one commit: the rows go to trees that nothing names before it.

use std::sync::Arc;

use esker_engine::Seq;
use esker_sql_catalog::catalog::{ColumnDef, DefaultDef, NewTrees, TableDef, same_name};
use esker_sql_catalog::exec_error::ExecError;
use esker_sql_catalog::result::{ColumnMeta, StoredAs};
use esker_sql_syntax::ast::CreateTable;
use esker_types::collation::Collation;
use esker_types::ctx::SqlMode;
use esker_types::decimal::{MAX_PRECISION, MAX_SCALE};
use esker_types::names::check_column;
use esker_types::sqltype::NOT_FIXED_DECIMALS;
use esker_types::{SqlError, SqlResult, SqlType, TypeKind, Value, errors};

use super::create::{self, Meta};
use super::foreign::{self, Shape};
use super::innodb_names;
use super::names::{self, TableName, resolve};
use super::{DdlCtx, draft::Draft};
use crate::dml::{generated_value, implicit_value, validate};

/// Longest text of an expression that becomes a VARCHAR; a longer one becomes a TEXT. Characters.
const MAX_VARCHAR_CHARS: u64 = 512;
/// Digits and sign of an integer expression that fits into INT.
const INT_CHARS: u32 = 11;
/// Those of a variable or a literal that does.
const INT_DIGITS: u32 = 9;

/// The name of the new table, locked; None: there is a table already, which was noted.
///
/// # Errors
/// 1050, 1049, 1044, 3978 with foreign keys, 3979 with START TRANSACTION before a query.
pub fn claim(ctx: &mut DdlCtx<'_>, create: &CreateTable) -> Result<Option<TableName>, ExecError> {
    let name = resolve(&create.name, ctx.database)?;
    names::check_any_table(&name, create.temporary, ctx.user)?;
    create::check_supported(create)?;
    if create.starts_transaction && create.query.is_some() {
        let text =
            "START TRANSACTION clause cannot be used with CREATE TABLE ... AS SELECT statement.";
        return Err(SqlError::new(3979, "HY000", text).into());
    }
    if !create.foreign_keys.is_empty() {
        let text = "Foreign key creation is not allowed with CREATE TABLE as SELECT and CREATE TABLE with START \
                    TRANSACTION statement.";
        return Err(SqlError::new(3978, "HY000", text).into());
    }
    match create::claim(ctx, create, &name)? {
        true => Ok(Some(name)),
        false => create::already_exists(ctx, create, &name).map(|_| None),
    }
}

/// A table that is filled before it exists.
pub struct NewTable {
    /// Its definition.
    pub def: Arc<TableDef>,
    /// The column of each of the query's columns.
    pub columns: Vec<usize>,
    trees: NewTrees,
}

/// Defines the table. `origins`: the stored columns that the query's columns are, if they are such.
///
/// # Errors
/// Those of CREATE TABLE.
pub fn define(
    ctx: &DdlCtx<'_>,
    create: &CreateTable,
    name: &TableName,
    query: &[ColumnMeta],
    origins: &[Option<ColumnDef>],
) -> SqlResult<NewTable> {
    let around = names::collation_around(ctx.catalog, name, create.temporary)?;
    let (mut draft, options) = create::drawn(ctx, create, name, around)?;
    for (meta, origin) in query.iter().zip(origins) {
        check_column(&meta.name).map_err(|_| errors::wrong_column_name(&meta.name))?;
        draft.take_selected(selected(meta, origin.as_ref(), ctx.eval.sql_mode))?;
    }
    if let Some(column) = draft
        .columns
        .iter()
        .find(|c| c.is_selected && c.def.generated.is_some())
    {
        return Err(generated_value(&column.def.name, &name.name));
    }
    forget_defaults_of_primary(&mut draft, origins, query);
    draft.generate_key(ctx, create, options.engine)?;
    let (collation, next_column_id) = (draft.collation, draft.next_column_id);
    draft.check_fulltext(create.temporary, options.engine.unwrap_or_default())?;
    draft.cut_key_parts(ctx, options.row_format.as_deref().unwrap_or_default(), true)?;
    let mut built = draft.finish()?;
    create::partition(ctx, (create, name), &mut built, options.engine)?;
    innodb_names::check(&built, None)?;
    ctx.warn_of_indexes(name, &built);
    if ctx.require_primary_key && !built.has_primary() && !built.has_row_key() {
        return Err(create::without_primary_key());
    }
    validate(ctx.eval, &name.name, &built.columns, &built.checks, 0)?;
    create::check_constraints(ctx, create, name, &built)?;
    if !create.temporary {
        foreign::check_as_parent(ctx, &ctx.catalog.snapshot(), &Shape::built(name, &built))?;
    }
    let mut trees = NewTrees::new(ctx.catalog.engine());
    let meta = Meta {
        collation,
        next_column_id,
        options: &options,
    };
    let mut def = create::assemble(ctx, &mut trees, name, built, meta)?;
    create::begin_numbers(&mut def, &options);
    def.temporary = create.temporary;
    let columns = query
        .iter()
        .filter_map(|meta| def.column_index(&meta.name))
        .collect();
    def.announce_fields();
    Ok(NewTable {
        def: Arc::new(def),
        columns,
        trees,
    })
}

/// Makes the table known with what the session's transaction has written into it, in one commit. A temporary table is
/// known at once, and its rows are the transaction's.
///
/// # Errors
/// Of the engine: neither table nor rows are there then.
pub fn publish(ctx: &mut DdlCtx<'_>, table: NewTable) -> SqlResult<Seq> {
    if table.def.temporary {
        let def = TableDef::clone(&table.def);
        ctx.temporary.borrow_mut().add(def, table.trees)?;
        return Ok(0);
    }
    let mut change = ctx.catalog.change_in(ctx.txn);
    change.adopt(table.trees);
    let last = table.def.runtime.last_auto();
    if table.def.auto_column.is_some() && last > 0 {
        change.bump_counter(table.def.counter_tree(), last);
    }
    change.put_table(TableDef::clone(&table.def))?;
    change.commit()
}

/// The column that a column of the query makes.
fn selected(meta: &ColumnMeta, origin: Option<&ColumnDef>, mode: SqlMode) -> ColumnDef {
    let origin = origin.filter(|_| meta.stored_as != StoredAs::RolledUp);
    let ty = match origin {
        Some(column) => column.ty.clone().with_nullable(meta.ty.nullable),
        None => stored_type(&meta.ty, meta.stored_as),
    };
    let default = match origin {
        Some(column) if column.auto_increment => DefaultDef::Value(implicit_value(&ty)),
        Some(column) if column.generated.is_some() => implicit_default(&ty, mode),
        Some(column) if !matches!(column.default, DefaultDef::None) => column.default.clone(),
        Some(column) if ty.nullable && !column.ty.nullable => DefaultDef::Value(Value::Null),
        Some(_) => DefaultDef::None,
        None => implicit_default(&ty, mode),
    };
    ColumnDef {
        id: 0,
        name: meta.name.clone(),
        generated: None,
        explicit_collation: origin.is_some_and(|c| c.explicit_collation),
        on_update_now: origin.is_some_and(|c| c.on_update_now),
        auto_increment: false,
        invisible: false,
        comment: origin.map(|c| c.comment.clone()).unwrap_or_default(),
        instant_default: None,
        ty,
        default,
    }
}

/// The default of a column that an expression makes.
fn implicit_default(ty: &SqlType, mode: SqlMode) -> DefaultDef {
    let has_none = match ty.kind {
        TypeKind::Date | TypeKind::DateTime | TypeKind::Timestamp => {
            mode.has(SqlMode::NO_ZERO_DATE)
        }
        _ => matches!(
            ty.kind,
            TypeKind::TinyText
                | TypeKind::Text
                | TypeKind::MediumText
                | TypeKind::LongText
                | TypeKind::Json
                | TypeKind::Geometry(_)
                | TypeKind::Enum(_)
                | TypeKind::Set(_)
        ),
    };
    match (ty.nullable, has_none) {
        (true, _) => DefaultDef::Value(Value::Null),
        (false, true) => DefaultDef::None,
        (false, false) => DefaultDef::Value(implicit_value(ty)),
    }
}

/// The type of a column that stores values of an expression of type `ty`.
pub(super) fn stored_type(ty: &SqlType, stored_as: StoredAs) -> SqlType {
    let out = match &ty.kind {
        TypeKind::Null => SqlType::varchar(0, Collation::BINARY),
        TypeKind::Decimal if stored_as == StoredAs::Widest => {
            SqlType::decimal(MAX_PRECISION, MAX_SCALE)
        }
        TypeKind::Decimal => stored_decimal(ty),
        TypeKind::Char | TypeKind::VarChar if u64::from(ty.length) > MAX_VARCHAR_CHARS => {
            text_of(bytes_of(ty), ty)
        }
        TypeKind::Year if stored_as == StoredAs::Variable => stored_number(ty, INT_DIGITS),
        _ if ty.is_integer() && stored_as == StoredAs::Variable => stored_number(ty, INT_DIGITS),
        _ if ty.is_integer() && stored_as == StoredAs::Literal => stored_number(ty, INT_DIGITS),
        TypeKind::Year if stored_as == StoredAs::Subquery => stored_number(ty, INT_CHARS),
        _ if ty.is_integer() && stored_as == StoredAs::Subquery => stored_number(ty, INT_CHARS),
        TypeKind::Char if stored_as == StoredAs::Subquery => stored_value(ty),
        _ if matches!(
            stored_as,
            StoredAs::Value | StoredAs::Literal | StoredAs::RolledUp
        ) =>
        {
            stored_value(ty)
        }
        TypeKind::Char | TypeKind::Enum(_) | TypeKind::Set(_)
            if matches!(stored_as, StoredAs::Choice | StoredAs::Variable) =>
        {
            stored_value(ty)
        }
        kind if is_text(kind) => match stored_as {
            StoredAs::Rows | StoredAs::Variable => text_of(bytes_of(ty), ty),
            StoredAs::Choice => text_of(u64::from(u32::MAX), ty),
            _ => text_of(u64::from(ty.length), ty),
        },
        // An integer is as long as its type.
        _ if ty.is_integer() => SqlType {
            unsigned: ty.unsigned,
            ..SqlType::new(ty.kind.clone())
        },
        _ => ty.clone(),
    };
    SqlType {
        zerofill: false,
        nullable: ty.nullable || ty.kind == TypeKind::Null,
        ..out
    }
}

/// The type that a function's value calls for.
fn stored_value(ty: &SqlType) -> SqlType {
    let kind = match &ty.kind {
        TypeKind::Year => TypeKind::Year,
        _ if ty.is_integer() || ty.kind == TypeKind::Bit => return stored_number(ty, INT_CHARS),
        TypeKind::Double if ty.decimals < NOT_FIXED_DECIMALS => {
            return SqlType {
                decimals: ty.decimals,
                unsigned: ty.unsigned,
                ..SqlType::new(TypeKind::Double)
            };
        }
        TypeKind::Char | TypeKind::Enum(_) | TypeKind::Set(_) => TypeKind::VarChar,
        kind if is_text(kind) => return text_of(u64::from(u32::MAX), ty),
        kind => kind.clone(),
    };
    SqlType { kind, ..ty.clone() }
}

/// INT for integers of so many characters, BIGINT for longer ones.
fn stored_number(ty: &SqlType, chars: u32) -> SqlType {
    let kind = match ty.length <= chars {
        true => TypeKind::Int,
        false => TypeKind::BigInt,
    };
    SqlType {
        unsigned: ty.is_unsigned() || ty.kind == TypeKind::Year,
        ..SqlType::new(kind)
    }
}

/// A literal has more digits than a column may.
fn stored_decimal(ty: &SqlType) -> SqlType {
    let decimals = ty.decimals.min(MAX_SCALE);
    let whole = ty.length.saturating_sub(u32::from(ty.decimals));
    let digits = whole + u32::from(decimals);
    SqlType {
        decimals,
        length: digits.clamp(1, MAX_PRECISION),
        ..ty.clone()
    }
}

fn is_text(kind: &TypeKind) -> bool {
    matches!(
        kind,
        TypeKind::TinyText | TypeKind::Text | TypeKind::MediumText | TypeKind::LongText
    )
}

/// Bytes that the characters of a text take at most.
fn bytes_of(ty: &SqlType) -> u64 {
    u64::from(ty.length) * u64::from(ty.collation.charset().max_len())
}

/// The smallest TEXT of so many bytes, in the collation of `ty`.
fn text_of(bytes: u64, ty: &SqlType) -> SqlType {
    let kind = match bytes {
        0..=255 => TypeKind::TinyText,
        256..=65_535 => TypeKind::Text,
        65_536..=16_777_215 => TypeKind::MediumText,
        _ => TypeKind::LongText,
    };
    SqlType {
        collation: ty.collation,
        ..SqlType::new(kind)
    }
}

/// A key of expressions has no defaults that would be taken twice.
fn forget_defaults_of_primary(
    draft: &mut Draft,
    origins: &[Option<ColumnDef>],
    query: &[ColumnMeta],
) {
    let Some(primary) = draft.indexes.iter().find(|i| i.primary).cloned() else {
        return;
    };
    for (meta, _) in query.iter().zip(origins).filter(|(_, o)| o.is_none()) {
        let column = draft
            .columns
            .iter_mut()
            .find(|c| c.is_selected && same_name(&c.def.name, &meta.name));
        if let Some(column) = column
            && primary
                .parts
                .iter()
                .any(|p| p.is(column.def.id, &column.def.name))
        {
            column.def.default = DefaultDef::None;
        }
    }
}
