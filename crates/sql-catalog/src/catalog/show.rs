//! The text of SHOW CREATE TABLE, SHOW CREATE TRIGGER and their kin, as MySQL 8.4 prints it.
//!
//! Neighbours: `session` answers SHOW with it; `information_schema` uses [`type_text`] for COLUMN_TYPE.
//! **Invariant**: the text, run again, makes the same table.

use std::fmt::Write;

use esker_types::cast::write_text;
use esker_types::collation::Collation;
use esker_types::geometry::GeometryType;
use esker_types::hex::upper_hex;
use esker_types::sqltype::NOT_FIXED_DECIMALS;
use esker_types::{SqlType, TypeKind, Value};
use jiff::tz::TimeZone;

use super::def::{ColumnDef, DefaultDef, IndexDef, SchemaDef, TableDef};
use super::quotes::Quotes;
use super::shown_options::ShownOption;
use super::storage_engine::StorageEngine;
use crate::codec::temporal;

/// How a session sees definitions.
#[derive(Debug, Clone, Copy)]
pub struct Shown<'a> {
    /// Where TIMESTAMP defaults are shown.
    pub zone: &'a TimeZone,
    /// Generated invisible primary keys are shown, too.
    pub generated_key: bool,
    /// Quotes of names.
    pub quotes: Quotes,
    /// `sql_mode` ANSI: what only MySQL has is left out.
    pub ansi: bool,
    /// The row format is shown where none was written, too.
    pub every_format: bool,
}

/// SHOW CREATE VIEW; `text` is its query as it is to be shown, `at_home` says that its database is the current one.
pub fn show_create_view(
    view: &super::ViewDef,
    at_home: bool,
    text: &str,
    shown: &Shown<'_>,
) -> String {
    let name = |n: &str| shown.quotes.name(n);
    let mut columns = String::new();
    if view.named {
        let names: Vec<String> = view.columns.iter().map(|c| name(&c.name)).collect();
        columns = format!(" ({})", names.join(","));
    }
    let database = match at_home {
        true => String::new(),
        false => format!("{}.", name(&view.schema)),
    };
    let check = match view.check_option {
        super::CheckOption::None => String::new(),
        option => format!(" WITH {} CHECK OPTION", option.name()),
    };
    let how = match shown.ansi {
        true => String::new(),
        false => format!(
            "ALGORITHM={} DEFINER={} SQL SECURITY {} ",
            view.algorithm,
            shown.quotes.account(&view.definer.0, &view.definer.1),
            if view.invoker { "INVOKER" } else { "DEFINER" },
        ),
    };
    let name = name(&view.name);
    format!("CREATE {how}VIEW {database}{name}{columns} AS {text}{check}")
}

/// SHOW CREATE TRIGGER.
pub fn show_create_trigger(
    table: &TableDef,
    trigger: &super::TriggerDef,
    quotes: Quotes,
) -> String {
    let (user, host) = &trigger.settings.definer;
    format!(
        "CREATE DEFINER={} TRIGGER {} {} {} ON {} FOR EACH ROW {}",
        quotes.account(user, host),
        quotes.name(&trigger.name),
        trigger.timing.word(),
        trigger.event.word(),
        quotes.name(&table.name),
        trigger.body,
    )
}

/// CREATE DATABASE of a database.
pub fn show_create_database(def: &SchemaDef, quotes: Quotes) -> String {
    let mut out = String::from("CREATE DATABASE ");
    quotes.push(&mut out, &def.name);
    let charset = def.collation.charset().name();
    let _ = write!(out, " /*!40100 DEFAULT CHARACTER SET {charset}");
    if prints_collation(def.collation) {
        let _ = write!(out, " COLLATE {}", def.collation.name());
    }
    out.push_str(" */ /*!80016 DEFAULT ENCRYPTION='N' */");
    if def.read_only {
        out.push_str(" /* READ ONLY = 1 */");
    }
    out
}

/// The whole definition, as SHOW CREATE TABLE; TIMESTAMP defaults are shown in `zone`.
pub fn show_create_table(def: &TableDef, zone: &TimeZone) -> String {
    let all = Shown {
        zone,
        generated_key: true,
        quotes: Quotes::BACKTICKS,
        ansi: false,
        every_format: false,
    };
    show_create_table_to(def, &all)
}

/// SHOW CREATE TABLE.
pub fn show_create_table_to(def: &TableDef, how: &Shown<'_>) -> String {
    let (quotes, generated_key) = (how.quotes, how.generated_key);
    let mut out = String::from(match def.temporary {
        true => "CREATE TEMPORARY TABLE ",
        false => "CREATE TABLE ",
    });
    quotes.push(&mut out, &def.name);
    out.push_str(" (\n");
    let shown = def.shown_columns(generated_key);
    for (nth, (_, column)) in shown.enumerate() {
        out.push_str(if nth == 0 { "  " } else { ",\n  " });
        push_column(&mut out, def, column, how);
    }
    for index in def.shown_indexes(generated_key) {
        out.push_str(",\n  ");
        push_index(&mut out, def, index, how);
    }
    for key in def.sorted_foreign_keys() {
        out.push_str(",\n  ");
        out.push_str(&key.text_in(quotes, def));
    }
    let mut checks: Vec<_> = def.checks.iter().collect();
    checks.sort_by_key(|c| c.name.to_lowercase());
    for check in checks {
        out.push_str(",\n  CONSTRAINT ");
        quotes.push(&mut out, &check.name);
        let _ = write!(out, " CHECK ({})", check.text);
        if !check.enforced {
            out.push_str(" /*!80016 NOT ENFORCED */");
        }
    }
    out.push_str("\n)");
    if !how.ansi {
        push_options(&mut out, def, how);
    }
    if let Some(partitioning) = &def.partitioning {
        let engine = (!how.ansi).then_some(def.engine.name());
        partitioning.push_clause(engine, quotes, &mut out);
    }
    out
}

/// What follows the columns and keys.
fn push_options(out: &mut String, def: &TableDef, how: &Shown<'_>) {
    let options = &def.shown_options;
    if let Some(name) = options.get(ShownOption::Tablespace) {
        out.push_str(" /*!50100 TABLESPACE ");
        how.quotes.push(out, name);
        out.push_str(" */");
    }
    if let Some(size) = options.get(ShownOption::AutoextendSize) {
        let _ = write!(out, " /*!80023 AUTOEXTEND_SIZE={size} */");
    }
    let _ = write!(out, " ENGINE={}", def.engine.name());
    let hides_counter = !how.generated_key && def.has_generated_key();
    if let Some(next) = def.next_auto()
        && next > 1
        && !hides_counter
    {
        let _ = write!(out, " AUTO_INCREMENT={next}");
    }
    let _ = write!(out, " DEFAULT CHARSET={}", def.collation.charset().name());
    if prints_collation(def.collation) {
        let _ = write!(out, " COLLATE={}", def.collation.name());
    }
    push_further_options(out, def, how.every_format);
}

/// What follows the collation: options and the comment. `every_format`: also the row format that the engine chose.
fn push_further_options(out: &mut String, def: &TableDef, every_format: bool) {
    let options = &def.shown_options;
    for (name, value) in options.numbers() {
        let _ = write!(out, " {name}={value}");
    }
    let chosen = match def.engine {
        StorageEngine::InnoDb => "DYNAMIC",
        _ => "FIXED",
    };
    match &*def.row_format {
        "" | "DEFAULT" if every_format => _ = write!(out, " ROW_FORMAT={chosen}"),
        "" | "DEFAULT" => (),
        format => _ = write!(out, " ROW_FORMAT={format}"),
    }
    if let Some(size) = options.get(ShownOption::KeyBlockSize) {
        let _ = write!(out, " KEY_BLOCK_SIZE={size}");
    }
    if let Some(name) = options.get(ShownOption::Compression) {
        out.push_str(" COMPRESSION=");
        push_quoted(out, name);
    }
    if !def.comment.is_empty() {
        out.push_str(" COMMENT=");
        push_quoted(out, &def.comment);
    }
    if let Some(text) = options.get(ShownOption::Connection) {
        out.push_str(" CONNECTION=");
        push_quoted(out, text);
    }
}

fn is_default_collation(collation: Collation) -> bool {
    Collation::default_of(collation.charset()) == collation
}

fn prints_collation(collation: Collation) -> bool {
    !is_default_collation(collation) || collation == Collation::UTF8MB4_0900_AI_CI
}

/// A string literal as MySQL's `append_unescaped` writes it.
pub fn quoted_literal(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    push_quoted(&mut out, text);
    out
}

fn push_quoted(out: &mut String, text: &str) {
    out.push('\'');
    for c in text.chars() {
        match c {
            '\0' => out.push_str("\\0"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\\' => out.push_str("\\\\"),
            '\'' => out.push_str("''"),
            c => out.push(c),
        }
    }
    out.push('\'');
}

fn push_column(out: &mut String, def: &TableDef, column: &ColumnDef, how: &Shown<'_>) {
    let ty = &column.ty;
    how.quotes.push(out, &column.name);
    out.push(' ');
    out.push_str(&type_text(ty));
    if has_charset(ty) {
        if ty.collation != def.collation || column.explicit_collation {
            let _ = write!(out, " CHARACTER SET {}", ty.collation.charset().name());
        }
        let ai_ci = Collation::UTF8MB4_0900_AI_CI;
        if !is_default_collation(ty.collation)
            || column.explicit_collation
            || (ty.collation == ai_ci && def.collation != ai_ci)
        {
            let _ = write!(out, " COLLATE {}", ty.collation.name());
        }
    }
    if let Some(generated) = &column.generated {
        let kind = if generated.stored {
            "STORED"
        } else {
            "VIRTUAL"
        };
        let text = how.quotes.column_expression(&generated.text);
        let _ = write!(out, " GENERATED ALWAYS AS ({text}) {kind}");
    }
    if !ty.nullable {
        out.push_str(" NOT NULL");
    }
    if let TypeKind::Geometry(GeometryType {
        srid: Some(srid), ..
    }) = ty.kind
    {
        let _ = write!(out, " /*!80003 SRID {srid} */");
    }
    if ty.nullable && ty.kind == TypeKind::Timestamp {
        out.push_str(" NULL");
    }
    push_default(out, column, how);
    if column.on_update_now {
        let _ = write!(out, " ON UPDATE {}", now_text(ty));
    }
    if column.auto_increment {
        out.push_str(" AUTO_INCREMENT");
    }
    if column.invisible {
        out.push_str(" /*!80023 INVISIBLE */");
    }
    if !column.comment.is_empty() {
        out.push_str(" COMMENT ");
        push_quoted(out, &column.comment);
    }
}

fn push_default(out: &mut String, column: &ColumnDef, how: &Shown<'_>) {
    if column.auto_increment || column.generated.is_some() {
        return;
    }
    match &column.default {
        DefaultDef::None => {}
        DefaultDef::Value(Value::Null) => {
            if !is_blob(&column.ty) {
                out.push_str(" DEFAULT NULL");
            }
        }
        DefaultDef::Value(Value::Bit(bits, _)) => {
            let _ = write!(out, " DEFAULT b'{bits:b}'");
        }
        // Bytes that are no text.
        DefaultDef::Value(Value::Str(bytes)) if std::str::from_utf8(bytes).is_err() => {
            let _ = write!(out, " DEFAULT 0x{}", upper_hex(bytes));
        }
        DefaultDef::Value(value) => {
            out.push_str(" DEFAULT ");
            push_quoted(out, &default_text(value, &column.ty, how.zone));
        }
        DefaultDef::Now => {
            let _ = write!(out, " DEFAULT {}", now_text(&column.ty));
        }
        DefaultDef::Expr(text) => {
            let _ = write!(out, " DEFAULT ({})", how.quotes.column_expression(text));
        }
    }
}

/// A constant default as text; TIMESTAMP constants are kept in UTC.
pub(crate) fn default_text(value: &Value, ty: &SqlType, zone: &TimeZone) -> String {
    let mut bytes = Vec::new();
    match value {
        Value::DateTime(utc) if ty.kind == TypeKind::Timestamp => {
            let local = Value::DateTime(temporal::utc_to_zone(*utc, zone));
            write_text(local.as_ref(), ty, &mut bytes);
        }
        value => write_text(value.as_ref(), ty, &mut bytes),
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

fn now_text(ty: &SqlType) -> String {
    match ty.decimals {
        0 => "CURRENT_TIMESTAMP".to_owned(),
        fsp => format!("CURRENT_TIMESTAMP({fsp})"),
    }
}

fn has_charset(ty: &SqlType) -> bool {
    let is_label = matches!(ty.kind, TypeKind::Enum(_) | TypeKind::Set(_));
    (ty.is_string() || is_label) && !ty.collation.is_binary()
}

fn is_blob(ty: &SqlType) -> bool {
    matches!(
        ty.kind,
        TypeKind::TinyText | TypeKind::Text | TypeKind::MediumText | TypeKind::LongText
    )
}

fn push_index(out: &mut String, def: &TableDef, index: &IndexDef, how: &Shown<'_>) {
    if index.primary {
        out.push_str("PRIMARY KEY (");
    } else {
        out.push_str(match index.unique {
            true => "UNIQUE KEY ",
            false if index.is_fulltext() => "FULLTEXT KEY ",
            false if def.is_spatial(index) => "SPATIAL KEY ",
            false => "KEY ",
        });
        how.quotes.push(out, &index.name);
        out.push_str(" (");
    }
    for (at, part) in index.parts.iter().enumerate() {
        if at > 0 {
            out.push(',');
        }
        match &def.columns[part.col].generated {
            Some(generated) if generated.hidden => {
                let text = how.quotes.column_expression(&generated.text);
                let _ = write!(out, "({text})");
            }
            _ => how.quotes.push(out, &def.columns[part.col].name),
        }
        if let Some(len) = part.prefix_len.filter(|_| !def.is_spatial(index)) {
            let _ = write!(out, "({len})");
        }
        if part.desc {
            out.push_str(" DESC");
        }
    }
    out.push(')');
    if !how.ansi {
        push_index_options(out, index);
    }
}

fn push_index_options(out: &mut String, index: &IndexDef) {
    if let Some(using) = &index.using {
        let _ = write!(out, " USING {using}");
    }
    if !index.comment.is_empty() {
        out.push_str(" COMMENT ");
        push_quoted(out, &index.comment);
    }
    if index.invisible {
        out.push_str(" /*!80000 INVISIBLE */");
    }
    let words = index.words.as_ref().map(|w| w.words().rules());
    if words.is_some_and(|rules| rules.ngram.is_some()) {
        out.push_str(" /*!50100 WITH PARSER `ngram` */ ");
    }
}

/// A type as SHOW CREATE TABLE and COLUMN_TYPE print it, without character set.
pub fn type_text(ty: &SqlType) -> String {
    let binary = ty.collation.is_binary();
    let mut out = match &ty.kind {
        TypeKind::Null => "null".to_owned(),
        TypeKind::TinyInt if ty.length == 1 && !ty.unsigned => "tinyint(1)".to_owned(),
        TypeKind::TinyInt => int_text("tinyint", ty),
        TypeKind::SmallInt => int_text("smallint", ty),
        TypeKind::MediumInt => int_text("mediumint", ty),
        TypeKind::Int => int_text("int", ty),
        TypeKind::BigInt => int_text("bigint", ty),
        TypeKind::Float => real_text("float", ty),
        TypeKind::Double => real_text("double", ty),
        TypeKind::Decimal => format!("decimal({},{})", ty.length, ty.decimals),
        TypeKind::Date => "date".to_owned(),
        TypeKind::Time => fsp_text("time", ty),
        TypeKind::DateTime => fsp_text("datetime", ty),
        TypeKind::Timestamp => fsp_text("timestamp", ty),
        TypeKind::Year => "year".to_owned(),
        TypeKind::Char if binary => format!("binary({})", ty.length),
        TypeKind::Char => format!("char({})", ty.length),
        TypeKind::VarChar if binary => format!("varbinary({})", ty.length),
        TypeKind::VarChar => format!("varchar({})", ty.length),
        TypeKind::TinyText => (if binary { "tinyblob" } else { "tinytext" }).to_owned(),
        TypeKind::Text => (if binary { "blob" } else { "text" }).to_owned(),
        TypeKind::MediumText => (if binary { "mediumblob" } else { "mediumtext" }).to_owned(),
        TypeKind::LongText => (if binary { "longblob" } else { "longtext" }).to_owned(),
        TypeKind::Bit => format!("bit({})", ty.length),
        TypeKind::Enum(labels) => labels_text("enum", labels),
        TypeKind::Set(labels) => labels_text("set", labels),
        TypeKind::Json => "json".to_owned(),
        TypeKind::Geometry(geometry) => geometry.shape.name().to_owned(),
    };
    if ty.is_numeric() && ty.kind != TypeKind::Year && ty.kind != TypeKind::Bit {
        if ty.unsigned {
            out.push_str(" unsigned");
        }
        if ty.zerofill {
            out.push_str(" zerofill");
        }
    }
    out
}

fn int_text(name: &str, ty: &SqlType) -> String {
    if ty.zerofill {
        format!("{name}({})", ty.length)
    } else {
        name.to_owned()
    }
}

fn real_text(name: &str, ty: &SqlType) -> String {
    match ty.decimals {
        NOT_FIXED_DECIMALS => name.to_owned(),
        decimals => format!("{name}({},{decimals})", ty.length),
    }
}

fn fsp_text(name: &str, ty: &SqlType) -> String {
    match ty.decimals {
        0 => name.to_owned(),
        fsp => format!("{name}({fsp})"),
    }
}

fn labels_text(name: &str, labels: &[std::sync::Arc<str>]) -> String {
    let mut out = format!("{name}(");
    for (at, label) in labels.iter().enumerate() {
        if at > 0 {
            out.push(',');
        }
        push_quoted(&mut out, label);
    }
    out.push(')');
    out
}
