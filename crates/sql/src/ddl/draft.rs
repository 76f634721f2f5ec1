//! A table being drawn up: what CREATE TABLE writes and ALTER TABLE edits, before it is checked as a
//! whole.
//!
//! Neighbours: `create` fills one from a statement, `alter` from a definition; [`Draft::finish`] makes
//! the parts of a [`esker_sql_catalog::catalog::TableDef`] or MySQL's error.
//! **Invariants**: columns are known by their ids, so renaming or moving one leaves its indexes
//! alone; after `finish` the indexes are in MySQL's order (primary, unique without NULL, unique,
//! others) and every part is a column ordinal.

use std::sync::Arc;

use esker_engine::TreeId;
use esker_sql_catalog::catalog::{
    CheckDef, ColumnDef, DefaultDef, ForeignKeyDef, GeneratedDef, IndexPart, MAX_COLUMNS,
    MAX_KEY_BYTES, MAX_KEY_PARTS, MAX_SECONDARY_INDEXES, TableDef, same_name,
};
use esker_sql_syntax::ast::{self, ColumnPosition, IndexKind, KeyPartKind};
use esker_types::collation::Collation;
use esker_types::{EvalCtx, SqlError, SqlResult, SqlType, TypeKind, Value, errors};

use super::columns::{self, Inline, is_blob};
use super::create_select::stored_type;
use super::draft_keys::DraftKey;
use super::names;
use super::print::expr_text;
use crate::dml::{HIDDEN_PREFIX, type_of_stored};

/// Longest row in MySQL's row format, not counting BLOBs.
const MAX_ROW_BYTES: u64 = 65_535;
/// Longest COMMENT of an index, in characters.
const MAX_INDEX_COMMENT_CHARS: usize = 1024;
/// Name of every primary key.
pub(super) const PRIMARY: &str = "PRIMARY";

/// A column of a draft.
#[derive(Debug, Clone)]
pub(super) struct DraftColumn {
    pub(super) def: ColumnDef,
    pub(super) explicit_null: bool,
    /// The query of CREATE TABLE … SELECT makes it.
    pub(super) is_selected: bool,
}

/// A key part of a draft.
#[derive(Debug, Clone)]
pub(super) struct DraftPart {
    pub(super) column: PartColumn,
    pub(super) prefix_len: Option<u64>,
    pub(super) desc: bool,
}

/// A column of a key part: known, or to be looked up when the draft is finished.
#[derive(Debug, Clone)]
pub(super) enum PartColumn {
    Id(u32),
    Name(Box<str>),
}

/// An index of a draft.
#[derive(Debug, Clone)]
pub(super) struct DraftIndex {
    /// `None`: named after its first column when the draft is finished.
    pub(super) name: Option<Arc<str>>,
    pub(super) unique: bool,
    pub(super) primary: bool,
    pub(super) invisible: bool,
    /// Made for a foreign key.
    pub(super) generated: bool,
    pub(super) parts: Vec<DraftPart>,
    pub(super) comment: Box<str>,
    pub(super) using: Option<Box<str>>,
    /// The index of the existing table that this one continues.
    pub(super) existing: Option<TreeId>,
}

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
    pub(super) existing: Option<TreeId>,
}

/// A draft that passed every check.
pub(super) struct Built {
    pub(super) columns: Vec<ColumnDef>,
    /// The primary key first, if there is one.
    pub(super) indexes: Vec<BuiltIndex>,
    pub(super) checks: Vec<CheckDef>,
    pub(super) foreign_keys: Vec<ForeignKeyDef>,
    /// Names of the foreign keys that the table has not had before.
    pub(super) new_keys: Vec<Box<str>>,
}

impl Built {
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

/// A table being drawn up.
pub(super) struct Draft {
    pub(super) name: Box<str>,
    pub(super) columns: Vec<DraftColumn>,
    pub(super) indexes: Vec<DraftIndex>,
    pub(super) checks: Vec<CheckDef>,
    pub(super) foreign_keys: Vec<DraftKey>,
    pub(super) collation: Collation,
    pub(super) next_column_id: u32,
}

impl Draft {
    /// An empty table.
    pub(super) fn new(name: &str, collation: Collation) -> Self {
        Self {
            name: name.into(),
            columns: Vec::new(),
            indexes: Vec::new(),
            checks: Vec::new(),
            foreign_keys: Vec::new(),
            collation,
            next_column_id: 1,
        }
    }

    /// An existing table.
    pub(super) fn of(def: &TableDef) -> Self {
        let column = |c: &ColumnDef| DraftColumn {
            def: c.clone(),
            explicit_null: false,
            is_selected: false,
        };
        let index = |i: &esker_sql_catalog::catalog::IndexDef| DraftIndex {
            name: Some(i.name.clone()),
            unique: i.unique,
            primary: i.primary,
            invisible: i.invisible,
            generated: i.generated,
            parts: i
                .parts
                .iter()
                .map(|p| DraftPart {
                    column: PartColumn::Id(def.columns[p.col].id),
                    prefix_len: p.prefix_len.map(u64::from),
                    desc: p.desc,
                })
                .collect(),
            comment: i.comment.clone(),
            using: i.using.clone(),
            existing: Some(i.id),
        };
        Self {
            name: (&*def.name).into(),
            columns: def.columns.iter().map(column).collect(),
            indexes: def.visible_indexes().iter().map(index).collect(),
            checks: def.checks.clone(),
            foreign_keys: def.foreign_keys.iter().map(DraftKey::of).collect(),
            collation: def.collation,
            next_column_id: def.next_column_id,
        }
    }

    /// Turns the draft of an existing table into that of a new one like it.
    pub(super) fn become_copy(&mut self, name: &str) {
        let generated = format!("{}_chk_", self.name);
        self.name = name.into();
        self.columns
            .iter_mut()
            .for_each(|c| c.def.instant_default = None);
        self.indexes.iter_mut().for_each(|i| i.existing = None);
        self.foreign_keys.clear();
        for check in &mut self.checks {
            if check.name.starts_with(&generated) {
                check.name = Box::default();
            }
        }
    }

    /// Position of a column: 1054 when there is none.
    pub(super) fn find(&self, name: &str) -> SqlResult<usize> {
        self.position(name)
            .ok_or_else(|| errors::unknown_column(name, &self.name))
    }

    pub(super) fn position(&self, name: &str) -> Option<usize> {
        self.columns
            .iter()
            .position(|c| same_name(&c.def.name, name))
    }

    /// Adds a column with the keys written beside it, and its checks.
    pub(super) fn add_column(
        &mut self,
        ctx: &EvalCtx<'_>,
        def: &ast::ColumnDef,
        position: &ColumnPosition,
    ) -> SqlResult<()> {
        let id = self.next_column_id;
        let (column, inline) = columns::build(ctx, def, id, self.collation)?;
        if self.position(&column.name).is_some() {
            return Err(errors::duplicate_column(&column.name));
        }
        self.next_column_id += 1;
        let at = match position {
            ColumnPosition::Unchanged => self.columns.len(),
            ColumnPosition::First => 0,
            ColumnPosition::After(name) => self.find(&name.text)? + 1,
        };
        self.columns.insert(
            at,
            DraftColumn {
                def: column,
                explicit_null: inline.explicit_null,
                is_selected: false,
            },
        );
        self.add_inline(id, inline)?;
        for check in &def.checks {
            self.add_check(check, Some(id))?;
        }
        Ok(())
    }

    /// Adds a column of the query of CREATE TABLE … SELECT. One that was defined by its name moves behind those that
    /// the query does not have.
    pub(super) fn take_selected(&mut self, mut def: ColumnDef) -> SqlResult<()> {
        if let Some(at) = self.position(&def.name) {
            let mut column = self.columns.remove(at);
            if column.is_selected {
                return Err(errors::duplicate_column(&def.name));
            }
            column.def.name = def.name;
            self.columns.push(DraftColumn {
                is_selected: true,
                ..column
            });
            return Ok(());
        }
        def.id = self.next_column_id;
        self.next_column_id += 1;
        self.columns.push(DraftColumn {
            def,
            explicit_null: false,
            is_selected: true,
        });
        Ok(())
    }

    /// Adds the keys of a column definition.
    pub(super) fn add_inline(&mut self, id: u32, inline: Inline) -> SqlResult<()> {
        let index = |primary: bool| DraftIndex {
            name: primary.then(|| PRIMARY.into()),
            unique: true,
            primary,
            invisible: false,
            generated: false,
            parts: vec![DraftPart {
                column: PartColumn::Id(id),
                prefix_len: None,
                desc: false,
            }],
            comment: Box::default(),
            using: None,
            existing: None,
        };
        if inline.primary {
            self.push_primary(index(true))?;
        }
        if inline.unique {
            self.indexes.push(index(false));
        }
        Ok(())
    }

    fn push_primary(&mut self, index: DraftIndex) -> SqlResult<()> {
        if self.indexes.iter().any(|i| i.primary) {
            return Err(SqlError::new(1068, "42000", "Multiple primary key defined"));
        }
        self.indexes.insert(0, index);
        Ok(())
    }

    /// Adds an index as written.
    pub(super) fn add_index(&mut self, ctx: &EvalCtx<'_>, spec: &ast::IndexSpec) -> SqlResult<()> {
        let primary = spec.kind == IndexKind::Primary;
        match spec.kind {
            IndexKind::FullText => return Err(SqlError::not_supported("FULLTEXT indexes")),
            IndexKind::Spatial => return Err(SqlError::not_supported("SPATIAL indexes")),
            IndexKind::Primary | IndexKind::Unique | IndexKind::Plain => {}
        }
        let mut parts = Vec::with_capacity(spec.parts.len());
        for part in &spec.parts {
            let (column, prefix_len) = match &part.what {
                KeyPartKind::Column(name, prefix_len) => {
                    (PartColumn::Name(name.text.clone()), *prefix_len)
                }
                KeyPartKind::Expr(_) if primary => {
                    let text = "The primary key cannot be a functional index";
                    return Err(SqlError::new(3756, "HY000", text));
                }
                KeyPartKind::Expr(e) => {
                    let index = self.functional_name(spec);
                    let id = self.add_key_part(ctx, &index, parts.len(), &e.expr)?;
                    (PartColumn::Id(id), None)
                }
            };
            parts.push(DraftPart {
                column,
                prefix_len,
                desc: part.desc,
            });
        }
        let is_functional = |p: &DraftPart| matches!(p.column, PartColumn::Id(_));
        let unnamed = spec.name.is_none() && !primary;
        let functional = (unnamed && parts.first().is_some_and(is_functional))
            .then(|| Arc::from(self.functional_name(spec)));
        let name: Option<Arc<str>> = match &spec.name {
            _ if primary => Some(PRIMARY.into()),
            Some(name) => {
                names::check_index(&name.text)?;
                Some((&*name.text).into())
            }
            None => functional,
        };
        let comment = spec.comment.as_deref();
        let comment = columns::fit_comment(ctx, comment, MAX_INDEX_COMMENT_CHARS, || {
            let name = name.as_deref().unwrap_or_default();
            let text =
                format!("Comment for index '{name}' is too long (max = {MAX_INDEX_COMMENT_CHARS})");
            SqlError::new(1688, "HY000", text)
        })?;
        if primary && spec.invisible {
            return Err(errors::invisible_primary_key());
        }
        let index = DraftIndex {
            name,
            unique: spec.kind != IndexKind::Plain,
            primary,
            invisible: spec.invisible,
            generated: false,
            parts,
            comment,
            // There are no hash indexes; as InnoDB does, a B-tree's order is given instead.
            using: spec.using.clone().filter(|u| &**u != "HASH"),
            existing: None,
        };
        if primary {
            return self.push_primary(index);
        }
        self.indexes.push(index);
        Ok(())
    }

    /// The name of an index with a functional part: as written, or one that is free.
    fn functional_name(&self, spec: &ast::IndexSpec) -> String {
        const STEM: &str = "functional_index";
        if let Some(name) = &spec.name {
            return name.text.to_string();
        }
        let is_taken = |name: &String| {
            let same = |i: &DraftIndex| i.name.as_deref().is_some_and(|n| same_name(n, name));
            self.indexes.iter().any(same)
        };
        let numbered = (2..).map(|n| format!("{STEM}_{n}"));
        let mut names = std::iter::once(STEM.to_owned()).chain(numbered);
        names.find(|name| !is_taken(name)).unwrap_or_default()
    }

    /// Adds the column behind a functional key part: its id.
    fn add_key_part(
        &mut self,
        ctx: &EvalCtx<'_>,
        index: &str,
        part: usize,
        expr: &ast::Expr,
    ) -> SqlResult<u32> {
        let error = |code, text: String| Err(SqlError::new(code, "HY000", text));
        if matches!(expr, ast::Expr::Column(_)) {
            let text = "Functional index on a column is not supported. Consider using a regular index instead.";
            return error(3762, text.to_owned());
        }
        let text = columns::kept_text(expr, index, || {
            let text =
                format!("Expression of functional index '{index}' contains a disallowed function.");
            SqlError::new(3758, "HY000", text)
        })?;
        let defs: Vec<ColumnDef> = self.columns.iter().map(|c| c.def.clone()).collect();
        let (ty, _) = type_of_stored(ctx, &self.name, &defs, &text).map_err(|e| match e.code {
            1054 => {
                let name = e.message.split('\'').nth(1).unwrap_or_default();
                errors::unknown_column(name, "functional index")
            }
            _ => e,
        })?;
        let ty = stored_type(&ty).with_nullable(true);
        if is_blob(&ty) {
            let text = "Cannot create a functional index on an expression that returns a BLOB or TEXT. Please consider using CAST.";
            return error(3757, text.to_owned());
        }
        if ty.kind == TypeKind::Json {
            let text = "Cannot create a functional index on a function that returns a JSON or GEOMETRY value.";
            return error(3753, text.to_owned());
        }
        let id = self.next_column_id;
        self.next_column_id += 1;
        let def = ColumnDef {
            id,
            name: format!("{HIDDEN_PREFIX}{index}!{part}!{id}").into(),
            ty,
            default: DefaultDef::Value(Value::Null),
            on_update_now: false,
            auto_increment: false,
            invisible: true,
            comment: Box::default(),
            instant_default: None,
            explicit_collation: false,
            generated: Some(GeneratedDef {
                text,
                stored: false,
                hidden: true,
            }),
        };
        self.columns.push(DraftColumn {
            def,
            explicit_null: false,
            is_selected: false,
        });
        Ok(id)
    }

    /// Is the column a part of an index?
    pub(super) fn has_index_of(&self, id: u32) -> bool {
        let is_it = |p: &DraftPart| matches!(p.column, PartColumn::Id(part) if part == id);
        self.indexes.iter().any(|i| i.parts.iter().any(is_it))
    }

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

    /// Adds a CHECK; an unnamed one is named when the draft is finished.
    pub(super) fn add_check(&mut self, check: &ast::Check, column: Option<u32>) -> SqlResult<()> {
        let name = match &check.name {
            Some(name) => {
                names::check_constraint(&name.text)?;
                name.text.clone()
            }
            None => Box::default(),
        };
        self.checks.push(CheckDef {
            name,
            text: expr_text(&check.expr.expr)?,
            enforced: check.enforced,
            column,
        });
        Ok(())
    }

    /// Puts the checks in the order of these places in the statement's text; unnamed ones are numbered in that.
    pub(super) fn order_checks(&mut self, places: impl Iterator<Item = usize>) {
        let mut placed: Vec<_> = places.zip(self.checks.drain(..)).collect();
        placed.sort_by_key(|(at, _)| *at);
        self.checks = placed.into_iter().map(|(_, check)| check).collect();
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
        let mut indexes = Vec::with_capacity(self.indexes.len());
        for (index, parts) in self.indexes.iter().zip(parts) {
            let name = self.name_index(index, &parts, &indexes)?;
            indexes.push(BuiltIndex {
                name,
                unique: index.unique,
                primary: index.primary,
                invisible: index.invisible,
                generated: index.generated,
                parts,
                comment: index.comment.clone(),
                using: index.using.clone(),
                existing: index.existing,
            });
        }
        if indexes.iter().filter(|i| !i.primary).count() > MAX_SECONDARY_INDEXES {
            let text = format!("Too many keys specified; max {MAX_SECONDARY_INDEXES} keys allowed");
            return Err(SqlError::new(1069, "42000", text));
        }
        let columns: Vec<ColumnDef> = self.columns.into_iter().map(|c| c.def).collect();
        check_row_size(&columns)?;
        check_auto_column(&columns, &indexes)?;
        let has_null = |i: &BuiltIndex| i.parts.iter().any(|p| columns[p.col].ty.nullable);
        let is_virtual = |i: &BuiltIndex| {
            let mut generated = i
                .parts
                .iter()
                .filter_map(|p| columns[p.col].generated.as_ref());
            generated.any(|g| !g.stored)
        };
        indexes.sort_by_key(|i| {
            let class = match (i.primary, i.unique) {
                (true, _) => 0,
                (false, true) if !has_null(i) => 1,
                (false, true) => 2,
                (false, false) => 3,
            };
            (class, is_virtual(i))
        });
        Ok(Built {
            columns,
            indexes,
            checks: self.checks,
            foreign_keys,
            new_keys,
        })
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

    fn name_checks(&mut self) -> SqlResult<()> {
        let mut number = 0;
        for at in 0..self.checks.len() {
            if self.checks[at].name.is_empty() {
                let name = loop {
                    number += 1;
                    let name = format!("{}_chk_{number}", self.name);
                    if !self.checks.iter().any(|c| same_name(&c.name, &name)) {
                        break name;
                    }
                };
                self.checks[at].name = name.into();
            }
            let name = &self.checks[at].name;
            if self.checks[..at].iter().any(|c| same_name(&c.name, name)) {
                let text = format!("Duplicate check constraint name '{name}'.");
                return Err(SqlError::new(3822, "HY000", text));
            }
        }
        Ok(())
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
                let is_null = matches!(
                    column.def.default,
                    esker_sql_catalog::catalog::DefaultDef::Value(esker_types::Value::Null)
                );
                if is_null && column.def.generated.is_none() {
                    column.def.default = esker_sql_catalog::catalog::DefaultDef::None;
                }
            }
        }
        Ok(())
    }

    fn part_position(&self, part: &DraftPart) -> Option<usize> {
        self.column_position(&part.column)
    }

    /// The id of a column of a key, if it is there.
    pub(super) fn column_id(&self, column: &PartColumn) -> Option<u32> {
        let at = self.column_position(column)?;
        Some(self.columns[at].def.id)
    }

    fn column_position(&self, column: &PartColumn) -> Option<usize> {
        match column {
            PartColumn::Id(id) => self.columns.iter().position(|c| c.def.id == *id),
            PartColumn::Name(name) => self.position(name),
        }
    }

    fn resolve_parts(&self, index: &DraftIndex) -> SqlResult<Vec<IndexPart>> {
        if index.parts.len() > MAX_KEY_PARTS {
            let text = format!("Too many key parts specified; max {MAX_KEY_PARTS} parts allowed");
            return Err(SqlError::new(1070, "42000", text));
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
            let prefix_len = check_prefix(column, part.prefix_len)?;
            bytes += key_bytes(&column.ty, prefix_len);
            parts.push(IndexPart {
                col,
                prefix_len,
                desc: part.desc,
            });
        }
        if bytes > MAX_KEY_BYTES {
            let text =
                format!("Specified key was too long; max key length is {MAX_KEY_BYTES} bytes");
            return Err(SqlError::new(1071, "42000", text));
        }
        Ok(parts)
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
            return Err(SqlError::new(
                1061,
                "42000",
                format!("Duplicate key name '{name}'"),
            ));
        }
        Ok(name.clone())
    }
}

/// 3106.
pub(super) fn not_for_generated(what: &str) -> SqlError {
    let text = format!("'{what}' is not supported for generated columns.");
    SqlError::new(3106, "HY000", text)
}

fn check_prefix(column: &ColumnDef, prefix: Option<u64>) -> SqlResult<Option<u32>> {
    let ty = &column.ty;
    if ty.kind == TypeKind::Json {
        return Err(esker_sql_plan::bind::json::used_as_key(&column.name));
    }
    match prefix {
        None if is_blob(ty) => {
            let text = format!(
                "BLOB/TEXT column '{}' used in key specification without a key length",
                column.name
            );
            Err(SqlError::new(1170, "42000", text))
        }
        None => Ok(None),
        Some(0) => {
            let text = format!("Key part '{}' length cannot be 0", column.name);
            Err(SqlError::new(1391, "HY000", text))
        }
        Some(len) if !ty.is_string() || (!is_blob(ty) && len > u64::from(ty.length)) => {
            let _ = len;
            let text = "Incorrect prefix key; the used key part isn't a string, the used length \
                        is longer than the key part, or the storage engine doesn't support unique \
                        prefix keys";
            Err(SqlError::new(1089, "HY000", text))
        }
        Some(len) if !is_blob(ty) && len == u64::from(ty.length) => Ok(None),
        Some(len) => Ok(Some(u32::try_from(len).unwrap_or(u32::MAX))),
    }
}

/// Bytes a part counts towards the limit of a key.
fn key_bytes(ty: &SqlType, prefix_len: Option<u32>) -> u64 {
    let width = u64::from(ty.collation.charset().max_len());
    match (&ty.kind, prefix_len) {
        (_, Some(len)) => u64::from(len) * width,
        (TypeKind::Char | TypeKind::VarChar, None) => u64::from(ty.length) * width,
        _ => 8,
    }
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
fn column_bytes(ty: &SqlType) -> u64 {
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
        TypeKind::LongText | TypeKind::Json => BLOB_POINTER + 4,
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

impl DraftPart {
    /// Does the part stand for this column?
    pub(super) fn is(&self, id: u32, name: &str) -> bool {
        match &self.column {
            PartColumn::Id(part) => *part == id,
            PartColumn::Name(part) => same_name(part, name),
        }
    }
}
