//! The end of a draft: the table is checked as a whole, and its indexes get names, parts and their order.
//!
//! Neighbours: `draft` was drawn up by `create` or `alter`; [`Draft::finish`] makes the parts of a
//! [`esker_sql_catalog::catalog::TableDef`] or MySQL's error.
//! **Invariant**: after `finish` the indexes are in MySQL's order (primary, unique without NULL, unique, others,
//! full-text), and //! every part is a column ordinal.

use std::sync::Arc;

use esker_engine::TreeId;
use esker_sql_catalog::catalog::{
    CheckDef, ColumnDef, DefaultDef, ForeignKeyDef, IndexPart, MAX_COLUMNS, MAX_KEY_BYTES,
    MAX_KEY_PARTS, MAX_SECONDARY_INDEXES, Partitioning, same_name,
};
use esker_types::fulltext::WordRules;
use esker_types::{SqlError, SqlResult, SqlType, TypeKind, Value, errors};

use super::checks;
use super::columns::is_blob;
use super::draft::{
    Draft, DraftColumn, DraftIndex, DraftPart, PRIMARY, PartColumn, not_for_generated,
};
use super::key_length::{check_prefix, incorrect_prefix, kept_prefix, key_bytes, too_long_key};

/// Longest row in MySQL's row format, not counting BLOBs.
const MAX_ROW_BYTES: u64 = 65_535;

/// A finished index.
#[derive(Debug, Clone)]
pub(super) struct BuiltIndex {
    pub(super) name: Arc<str>,
    pub(super) unique: bool,
    pub(super) primary: bool,
    pub(super) invisible: bool,
    pub(super) generated: bool,
    pub(super) parts: Vec<IndexPart>,
    pub(super) comment: Box<str>,
    pub(super) using: Option<Box<str>>,
    /// It is a full-text index of such words.
    pub(super) fulltext: Option<WordRules>,
    /// It is a multi-valued index.
    pub(super) multi_valued: bool,
    pub(super) existing: Option<TreeId>,
}

/// A draft that passed every check.
pub(super) struct Built {
    pub(super) columns: Vec<ColumnDef>,
    /// The primary key first, if there is one.
    pub(super) indexes: Vec<BuiltIndex>,
    /// Those that the table has had before come first.
    pub(super) checks: Vec<CheckDef>,
    pub(super) kept_checks: usize,
    pub(super) foreign_keys: Vec<ForeignKeyDef>,
    /// Names of the foreign keys that the table has not had before.
    pub(super) new_keys: Vec<Box<str>>,
    /// How it is partitioned: decided when all else is finished.
    pub(super) partitioning: Option<Arc<Partitioning>>,
    /// Names of new indexes that are like one before them.
    pub(super) twins: Vec<Arc<str>>,
    /// Columns without SRID of new spatial indexes.
    pub(super) without_srid: Vec<Arc<str>>,
}

impl BuiltIndex {
    /// Is it an index of the same kind and key parts?
    fn is_like(&self, other: &BuiltIndex) -> bool {
        (self.unique, self.primary, self.fulltext.is_some())
            == (other.unique, other.primary, other.fulltext.is_some())
            && self.parts == other.parts
    }
}

impl Built {
    /// Has it a key that InnoDB would order the rows by?
    pub(super) fn has_clustered(&self) -> bool {
        let is_filled = |part: &IndexPart| !self.columns[part.col].ty.nullable;
        let mut unique = self.indexes.iter().filter(|index| index.unique);
        unique.any(|index| index.primary || index.parts.iter().all(is_filled))
    }

    /// Is there a primary key?
    pub(super) fn has_primary(&self) -> bool {
        self.indexes.iter().any(|index| index.primary)
    }

    /// Is there a unique key without NULL, which tells rows apart as a primary key does?
    pub(super) fn has_row_key(&self) -> bool {
        let is_whole =
            |part: &IndexPart| part.prefix_len.is_none() && !self.columns[part.col].ty.nullable;
        let mut unique = self.indexes.iter().filter(|index| index.unique);
        unique.any(|index| index.parts.iter().all(is_whole))
    }
}

impl Draft {
    /// Functional key parts whose index is gone have no use any more.
    fn drop_unused_parts(&mut self) {
        let is_unused = |c: &DraftColumn| c.def.is_hidden() && !self.has_index_of(c.def.id);
        let unused: Vec<u32> = self
            .columns
            .iter()
            .filter(|c| is_unused(c))
            .map(|c| c.def.id)
            .collect();
        self.columns.retain(|c| !unused.contains(&c.def.id));
    }

    /// 3106: a virtual column cannot be in the primary key.
    fn check_primary_generated(&self, primary: &DraftIndex) -> SqlResult<()> {
        let is_virtual = |part: &DraftPart| {
            let at = self.part_position(part)?;
            self.columns[at].def.generated.as_ref().map(|g| !g.stored)
        };
        match primary.parts.iter().any(|p| is_virtual(p) == Some(true)) {
            true => Err(not_for_generated(
                "Defining a virtual generated column as primary key",
            )),
            false => Ok(()),
        }
    }

    /// Checks the table as a whole.
    pub(super) fn finish(mut self) -> SqlResult<Built> {
        self.drop_unused_parts();
        self.check_columns()?;
        self.name_checks()?;
        let primary = self.indexes.iter().find(|i| i.primary).cloned();
        if let Some(primary) = primary {
            self.check_primary_generated(&primary)?;
            self.make_not_null(&primary)?;
        }
        let all = self.indexes.iter();
        let mut parts: Vec<Vec<IndexPart>> = all
            .map(|index| self.resolve_parts(index))
            .collect::<SqlResult<_>>()?;
        self.drop_redundant(&mut parts);
        let (foreign_keys, new_keys) = self.finish_keys()?;
        let (mut indexes, twins) = self.build_indexes(parts)?;
        if indexes.iter().filter(|i| !i.primary).count() > MAX_SECONDARY_INDEXES {
            let text = format!("Too many keys specified; max {MAX_SECONDARY_INDEXES} keys allowed");
            return Err(SqlError::new(1069, "42000", text));
        }
        let without_srid = self.spatial_without_srid();
        let columns: Vec<ColumnDef> = self.columns.into_iter().map(|c| c.def).collect();
        check_row_size(&columns)?;
        check_auto_column(&columns, &indexes)?;
        indexes.sort_by_key(|index| rank(index, &columns));
        check_visible_key(&columns, &indexes)?;
        Ok(Built {
            columns,
            indexes,
            kept_checks: self.checks.len(),
            checks: [self.checks, self.added_checks].concat(),
            foreign_keys,
            new_keys,
            partitioning: None,
            twins,
            without_srid,
        })
    }

    /// The indexes with their names, and the names of those that are like another.
    fn build_indexes(
        &self,
        parts: Vec<Vec<IndexPart>>,
    ) -> SqlResult<(Vec<BuiltIndex>, Vec<Arc<str>>)> {
        let mut indexes: Vec<BuiltIndex> = Vec::with_capacity(self.indexes.len());
        let mut twins = Vec::new();
        for (index, parts) in self.indexes.iter().zip(parts) {
            let name = self.name_index(index, &parts, &indexes)?;
            let built = BuiltIndex {
                name,
                unique: index.unique,
                primary: index.primary,
                invisible: index.invisible,
                generated: index.generated,
                multi_valued: parts.iter().any(|p| self.columns[p.col].def.is_array()),
                parts,
                comment: index.comment.clone(),
                using: index.using.clone(),
                fulltext: index.fulltext.clone(),
                existing: index.existing,
            };
            let mut others = indexes.iter().filter(|other| !other.generated);
            if index.is_written && others.any(|other| other.is_like(&built)) {
                twins.push(built.name.clone());
            }
            indexes.push(built);
        }
        Ok((indexes, twins))
    }

    fn check_columns(&self) -> SqlResult<()> {
        if self.columns.is_empty() {
            let text = "A table must have at least 1 column";
            return Err(SqlError::new(1113, "42000", text));
        }
        if self.columns.len() > MAX_COLUMNS {
            return Err(errors::too_many_columns());
        }
        for (at, column) in self.columns.iter().enumerate() {
            if self.columns[..at]
                .iter()
                .any(|c| same_name(&c.def.name, &column.def.name))
            {
                return Err(errors::duplicate_column(&column.def.name));
            }
        }
        if self.columns.iter().all(|c| c.def.invisible) {
            return Err(errors::no_visible_column());
        }
        Ok(())
    }

    /// Generated names follow that of the table, and go on behind the greatest number of those that stay.
    fn name_checks(&mut self) -> SqlResult<()> {
        checks::rename(&mut self.checks, &self.name, &self.to);
        let mut last = checks::last_number(&self.checks, &self.to);
        for check in &mut self.added_checks {
            if check.name.is_empty() {
                last = last.saturating_add(1);
                check.name = checks::generated_name(&self.to, last);
            }
        }
        checks::check_distinct(self.checks.iter().chain(&self.added_checks))
    }

    /// Columns of the primary key are NOT NULL; one that was written NULL is an error.
    fn make_not_null(&mut self, primary: &DraftIndex) -> SqlResult<()> {
        for part in &primary.parts {
            let Some(at) = self.part_position(part) else {
                continue;
            };
            let column = &mut self.columns[at];
            if column.explicit_null {
                let text = "All parts of a PRIMARY KEY must be NOT NULL; if you need NULL in a \
                            key, use UNIQUE instead";
                return Err(SqlError::new(1171, "42000", text));
            }
            if column.def.ty.nullable {
                column.def.ty.nullable = false;
                let is_null = matches!(column.def.default, DefaultDef::Value(Value::Null));
                if is_null && column.def.generated.is_none() {
                    column.def.default = DefaultDef::None;
                }
            }
        }
        Ok(())
    }

    fn resolve_parts(&self, index: &DraftIndex) -> SqlResult<Vec<IndexPart>> {
        if index.parts.len() > MAX_KEY_PARTS {
            return Err(errors::too_many_key_parts(MAX_KEY_PARTS));
        }
        let mut parts: Vec<IndexPart> = Vec::with_capacity(index.parts.len());
        let mut bytes = 0;
        for part in &index.parts {
            let col = self.part_position(part).ok_or_else(|| {
                let name = match &part.column {
                    PartColumn::Name(name) => name.to_string(),
                    PartColumn::Id(id) => id.to_string(),
                };
                let text = format!("Key column '{name}' doesn't exist in table");
                SqlError::new(1072, "42000", text)
            })?;
            let column = &self.columns[col].def;
            if parts.iter().any(|p| p.col == col) {
                return Err(errors::duplicate_column(&column.name));
            }
            if index.fulltext.is_some() {
                check_text(column, &parts, &self.columns, index.is_outdated)?;
                parts.push(IndexPart {
                    col,
                    prefix_len: None,
                    desc: false,
                });
                continue;
            }
            if column.is_array() {
                parts.push(IndexPart {
                    col,
                    prefix_len: None,
                    desc: false,
                });
                continue;
            }
            if index.spatial || column.ty.is_geometry() {
                parts.push(spatial_part(index, part, (col, column))?);
                continue;
            }
            let prefix = match part.column {
                PartColumn::Id(_) if !index.is_written => kept_prefix(&column.ty, part.prefix_len),
                _ => part.prefix_len,
            };
            let prefix_len = check_prefix(column, prefix)?;
            bytes += key_bytes(&column.ty, prefix_len);
            parts.push(IndexPart {
                col,
                prefix_len,
                desc: part.desc,
            });
        }
        if bytes > MAX_KEY_BYTES {
            return Err(too_long_key(MAX_KEY_BYTES));
        }
        Ok(parts)
    }

    /// The columns of new spatial indexes that have no SRID.
    fn spatial_without_srid(&self) -> Vec<Arc<str>> {
        let written = self.indexes.iter().filter(|index| index.is_written);
        let parts = written.flat_map(|index| &index.parts);
        let columns = parts.filter_map(|part| self.part_position(part));
        let columns = columns.map(|at| &self.columns[at].def);
        let is_free = |column: &&ColumnDef| match column.ty.kind {
            TypeKind::Geometry(geometry) => geometry.srid.is_none(),
            _ => false,
        };
        columns.filter(is_free).map(|c| c.name.clone()).collect()
    }

    /// The name of an index: as written, or after its first column with a number that is free.
    fn name_index(
        &self,
        index: &DraftIndex,
        parts: &[IndexPart],
        before: &[BuiltIndex],
    ) -> SqlResult<Arc<str>> {
        let taken = |name: &str| {
            before.iter().any(|i| same_name(&i.name, name))
                || self
                    .indexes
                    .iter()
                    .any(|i| i.name.as_deref().is_some_and(|n| same_name(n, name)))
        };
        let Some(name) = &index.name else {
            let first = &self.columns[parts[0].col].def.name;
            if !taken(first) && !first.eq_ignore_ascii_case(PRIMARY) {
                return Ok(first.clone());
            }
            let numbered = (2..)
                .map(|n| format!("{first}_{n}"))
                .find(|name| !taken(name));
            return Ok(numbered.unwrap_or_default().into());
        };
        if before.iter().any(|i| same_name(&i.name, name)) {
            return Err(errors::duplicate_key_name(name));
        }
        Ok(name.clone())
    }
}

/// 1283 for a column that has no texts, or those of a character set without single bytes, or of another collation than
/// the first one of the index; 3106 for a virtual one. An outdated index stays.
fn check_text(
    column: &ColumnDef,
    before: &[IndexPart],
    columns: &[DraftColumn],
    is_outdated: bool,
) -> SqlResult<()> {
    let ty = &column.ty;
    if ty.kind == TypeKind::Json {
        return Err(esker_sql_plan::bind::json::used_as_key(&column.name));
    }
    let is_text = matches!(ty.kind, TypeKind::Char | TypeKind::VarChar) || is_blob(ty);
    let first = before.first().map(|part| &columns[part.col].def.ty);
    let is_alike = first.is_none_or(|first| first.collation == ty.collation);
    if is_text && !ty.collation.is_binary() && is_alike {
        if is_outdated || !has_no_words(column) {
            return Ok(());
        }
        if is_narrow(ty) {
            return Err(not_for_generated(
                "Fulltext index on virtual generated column",
            ));
        }
    }
    let text = format!("Column '{}' cannot be part of FULLTEXT index", column.name);
    Err(SqlError::new(1283, "HY000", text))
}

/// The part of a spatial index: one geometry that is NOT NULL, of which the first bytes are stored. 1070, 1089, 1252,
/// 1687, 3106, 3728.
fn spatial_part(
    index: &DraftIndex,
    part: &DraftPart,
    (col, column): (usize, &ColumnDef),
) -> SqlResult<IndexPart> {
    /// As many as MySQL shows.
    const STORED_BYTES: u32 = 32;
    if !column.ty.is_geometry() {
        let text = "A SPATIAL index may only contain a geometrical type column";
        return Err(SqlError::new(1687, "42000", text));
    }
    if index.unique || index.primary {
        return Err(errors::spatial_unique_index());
    }
    if index.parts.len() > 1 {
        return Err(errors::too_many_key_parts(1));
    }
    if part.prefix_len.is_some() {
        return Err(incorrect_prefix());
    }
    if is_virtual(column) {
        return Err(not_for_generated(
            "Spatial index on virtual generated column",
        ));
    }
    if column.ty.nullable {
        let text = "All parts of a SPATIAL index must be NOT NULL";
        return Err(SqlError::new(1252, "42000", text));
    }
    Ok(IndexPart {
        col,
        prefix_len: Some(STORED_BYTES),
        desc: false,
    })
}

fn is_virtual(column: &ColumnDef) -> bool {
    column.generated.as_ref().is_some_and(|g| !g.stored)
}

/// Can no full-text index be made of the column any more: it is virtual, or of a character set without single bytes?
pub(super) fn has_no_words(column: &ColumnDef) -> bool {
    is_virtual(column) || !is_narrow(&column.ty)
}

fn is_narrow(ty: &SqlType) -> bool {
    ty.collation.charset().min_len() == 1
}

/// 1118: what a row may take at most, counted as MySQL counts it.
fn check_row_size(columns: &[ColumnDef]) -> SqlResult<()> {
    let nullable = columns.iter().filter(|c| c.ty.nullable).count() as u64;
    let bytes: u64 = columns.iter().map(|c| column_bytes(&c.ty)).sum();
    if bytes + nullable.div_ceil(8) <= MAX_ROW_BYTES {
        return Ok(());
    }
    let text = format!(
        "Row size too large. The maximum row size for the used table type, not counting BLOBs, is \
         {MAX_ROW_BYTES}. This includes storage overhead, check the manual. You have to change some \
         columns to TEXT or BLOBs"
    );
    Err(SqlError::new(1118, "42000", text))
}

/// Bytes of a column in MySQL's row format.
pub(super) fn column_bytes(ty: &SqlType) -> u64 {
    /// Blobs count as a pointer and their length.
    const BLOB_POINTER: u64 = 8;
    let fraction = u64::from(ty.decimals.div_ceil(2));
    let chars = u64::from(ty.length) * u64::from(ty.collation.charset().max_len());
    match &ty.kind {
        TypeKind::Null => 0,
        TypeKind::TinyInt | TypeKind::Year => 1,
        TypeKind::SmallInt => 2,
        TypeKind::MediumInt | TypeKind::Date => 3,
        TypeKind::Int | TypeKind::Float => 4,
        TypeKind::BigInt | TypeKind::Double => 8,
        TypeKind::Decimal => u64::from(ty.length).div_ceil(9) * 4,
        TypeKind::Time => 3 + fraction,
        TypeKind::DateTime => 5 + fraction,
        TypeKind::Timestamp => 4 + fraction,
        TypeKind::Char => chars,
        TypeKind::VarChar => chars + if chars > 255 { 2 } else { 1 },
        TypeKind::TinyText => BLOB_POINTER + 1,
        TypeKind::Text => BLOB_POINTER + 2,
        TypeKind::MediumText => BLOB_POINTER + 3,
        TypeKind::LongText | TypeKind::Json | TypeKind::Geometry(_) => BLOB_POINTER + 4,
        TypeKind::Bit => u64::from(ty.length).div_ceil(8),
        TypeKind::Enum(labels) => {
            if labels.len() > 255 {
                2
            } else {
                1
            }
        }
        TypeKind::Set(labels) => match labels.len().div_ceil(8) {
            bytes @ 0..=4 => bytes as u64,
            _ => 8,
        },
    }
}

/// 3522 for the unique index that stands for a primary key, where there is none and no column of it may be NULL.
fn check_visible_key(columns: &[ColumnDef], indexes: &[BuiltIndex]) -> SqlResult<()> {
    let stands = |index: &BuiltIndex| {
        index.unique
            && index.parts.iter().all(|part| {
                let column = &columns[part.col];
                !column.ty.nullable && column.generated.is_none() && part.prefix_len.is_none()
            })
    };
    let has_primary = indexes.iter().any(|index| index.primary);
    match indexes.iter().find(|index| stands(index)) {
        Some(key) if key.invisible && !has_primary => Err(errors::invisible_primary_key()),
        _ => Ok(()),
    }
}

/// 1075: one AUTO_INCREMENT column, first in some index.
fn check_auto_column(columns: &[ColumnDef], indexes: &[BuiltIndex]) -> SqlResult<()> {
    let mut autos = columns.iter().enumerate().filter(|(_, c)| c.auto_increment);
    let Some((auto, _)) = autos.next() else {
        return Ok(());
    };
    let leads = indexes
        .iter()
        .any(|i| i.parts.first().is_some_and(|p| p.col == auto));
    if autos.next().is_some() || !leads {
        let text = "Incorrect table definition; there can be only one auto column and it must be \
                    defined as a key";
        return Err(SqlError::new(1075, "42000", text));
    }
    Ok(())
}

/// Where an index stands among those of its table, as in MySQL.
fn rank(index: &BuiltIndex, columns: &[ColumnDef]) -> (u8, bool, bool) {
    let mut parts = index.parts.iter();
    let has_null = || index.parts.iter().any(|p| columns[p.col].ty.nullable);
    let class = match (index.primary, index.unique) {
        _ if index.fulltext.is_some() => 5,
        _ if index.multi_valued => 4,
        (true, _) => 0,
        (false, true) if !has_null() => 1,
        (false, true) => 2,
        (false, false) => 3,
    };
    let has_prefix = index.unique && parts.clone().any(|p| p.prefix_len.is_some());
    let is_virtual = |p: &IndexPart| columns[p.col].generated.as_ref().is_some_and(|g| !g.stored);
    (class, has_prefix, parts.any(is_virtual))
}
