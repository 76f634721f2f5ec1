//! A table being drawn up: what CREATE TABLE writes and ALTER TABLE edits, before it is checked as a
//! whole.
//!
//! Neighbours: `create` fills one from a statement, `alter` from a definition; `draft_finish` checks it as a whole.
//! **Invariant**: columns are known by their ids, so renaming or moving one leaves its indexes alone.

use std::sync::Arc;

use esker_engine::TreeId;
use esker_sql_catalog::catalog::{
    CheckDef, ColumnDef, DefaultDef, GeneratedDef, StorageEngine, TableDef, same_name,
};
use esker_sql_catalog::result::StoredAs;
use esker_sql_plan::bind::check_array_type;
use esker_sql_syntax::ast::{self, ColumnPosition, IndexAlgorithm, IndexKind, KeyPartKind};
use esker_types::collation::Collation;
use esker_types::fulltext::WordRules;
use esker_types::{EvalCtx, SqlError, SqlResult, TypeKind, Value, errors};

use super::checks;
use super::columns::{self, Inline, is_blob};
use super::create_select::stored_type;
use super::draft_finish::has_no_words;
use super::draft_keys::{DraftKey, last_key};
use super::kept::Keeper;
use super::names;
use crate::dml::{HIDDEN_PREFIX, type_of_key_part};
use crate::printer::expr_text;

/// Longest COMMENT of an index, in characters.
const MAX_INDEX_COMMENT_CHARS: usize = 1024;
/// Name of every primary key.
pub(super) const PRIMARY: &str = "PRIMARY";

/// Algorithm of indexes that MEMORY tables show.
const HASH: &str = "HASH";

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
    /// It is a full-text index of such words.
    pub(super) fulltext: Option<WordRules>,
    /// It was written as a spatial index, or is one.
    pub(super) spatial: bool,
    /// It has columns that a full-text index could have once, and cannot have any more.
    pub(super) is_outdated: bool,
    /// The statement has written it: a twin of another index is warned of.
    pub(super) is_written: bool,
    /// The index of the existing table that this one continues.
    pub(super) existing: Option<TreeId>,
}

/// A table being drawn up.
pub(super) struct Draft {
    pub(super) name: Box<str>,
    pub(super) columns: Vec<DraftColumn>,
    pub(super) indexes: Vec<DraftIndex>,
    /// Those that the table has already.
    pub(super) checks: Vec<CheckDef>,
    pub(super) added_checks: Vec<CheckDef>,
    /// Generated names of CHECKs follow it: what the table is to be called.
    pub(super) to: Box<str>,
    pub(super) foreign_keys: Vec<DraftKey>,
    /// The greatest number of a generated name among the foreign keys that the table had before.
    pub(super) last_key: u64,
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
            added_checks: Vec::new(),
            to: name.into(),
            foreign_keys: Vec::new(),
            last_key: 0,
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
                    prefix_len: p.prefix_len.map(u64::from).filter(|_| !def.is_spatial(i)),
                    desc: p.desc,
                })
                .collect(),
            comment: i.comment.clone(),
            using: i.using.clone(),
            fulltext: i.words.as_ref().map(|w| w.words().rules().clone()),
            spatial: def.is_spatial(i),
            is_outdated: i.words.is_some()
                && i.parts.iter().any(|p| has_no_words(&def.columns[p.col])),
            is_written: false,
            existing: Some(i.id),
        };
        Self {
            name: (&*def.name).into(),
            columns: def.columns.iter().map(column).collect(),
            indexes: def.visible_indexes().iter().map(index).collect(),
            checks: def.checks.clone(),
            added_checks: Vec::new(),
            to: (&*def.name).into(),
            foreign_keys: def.foreign_keys.iter().map(DraftKey::of).collect(),
            last_key: last_key(def),
            collation: def.collation,
            next_column_id: def.next_column_id,
        }
    }

    /// Turns the draft of an existing table into that of a new one like it.
    pub(super) fn become_copy(&mut self, name: &str) {
        self.name = name.into();
        self.to = name.into();
        self.columns
            .iter_mut()
            .for_each(|c| c.def.instant_default = None);
        self.indexes.iter_mut().for_each(|i| i.existing = None);
        self.foreign_keys.clear();
        // Numbered anew in the order in which they are shown.
        self.added_checks = std::mem::take(&mut self.checks);
        self.added_checks.sort_by_key(|c| c.name.to_lowercase());
        for check in &mut self.added_checks {
            check.name = Box::default();
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
            ColumnPosition::First => self.first(),
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
            fulltext: None,
            spatial: false,
            is_outdated: false,
            is_written: true,
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
            return Err(errors::multiple_primary_keys());
        }
        self.indexes.insert(0, index);
        Ok(())
    }

    /// Adds an index as written.
    pub(super) fn add_index(
        &mut self,
        ctx: &EvalCtx<'_>,
        spec: &ast::IndexSpec,
        rules: Option<WordRules>,
    ) -> SqlResult<()> {
        debug_assert_eq!(rules.is_some(), spec.kind == IndexKind::FullText);
        let primary = spec.kind == IndexKind::Primary;
        match spec.kind {
            IndexKind::FullText => check_fulltext(spec)?,
            IndexKind::Spatial => check_spatial(spec)?,
            IndexKind::Primary | IndexKind::Unique | IndexKind::Plain => {}
        }
        let parts = self.draft_parts(ctx, spec)?;
        let is_functional = |p: &DraftPart| matches!(p.column, PartColumn::Id(_));
        let name: Option<Arc<str>> = match &spec.name {
            _ if primary => Some(PRIMARY.into()),
            Some(name) => {
                names::check_index(&name.text)?;
                Some((&*name.text).into())
            }
            None if parts.iter().any(is_functional) => Some(self.functional_name(spec).into()),
            None => None,
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
            unique: matches!(spec.kind, IndexKind::Primary | IndexKind::Unique),
            primary,
            invisible: spec.invisible,
            generated: false,
            parts,
            comment,
            using: spec.using.map(|algorithm| algorithm.name().into()),
            fulltext: rules,
            spatial: spec.kind == IndexKind::Spatial || spec.using == Some(IndexAlgorithm::RTree),
            is_outdated: false,
            is_written: true,
            existing: None,
        };
        if primary {
            return self.push_primary(index);
        }
        self.indexes.push(index);
        Ok(())
    }

    /// The parts of an index; an expression becomes a hidden column.
    fn draft_parts(
        &mut self,
        ctx: &EvalCtx<'_>,
        spec: &ast::IndexSpec,
    ) -> SqlResult<Vec<DraftPart>> {
        let mut parts = Vec::with_capacity(spec.parts.len());
        for part in &spec.parts {
            let (column, prefix_len) = match &part.what {
                KeyPartKind::Column(name, prefix_len) => {
                    (PartColumn::Name(name.text.clone()), *prefix_len)
                }
                KeyPartKind::Expr(_) if spec.kind == IndexKind::Primary => {
                    let text = "The primary key cannot be a functional index";
                    return Err(SqlError::new(3756, "HY000", text));
                }
                KeyPartKind::Expr(e) => {
                    check_array(spec, part, &e.expr)?;
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
        Ok(parts)
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
        let text = Keeper::KeyPart(index).text(expr)?;
        let defs: Vec<ColumnDef> = self.columns.iter().map(|c| c.def.clone()).collect();
        let ty =
            type_of_key_part(ctx, &self.name, &defs, (index, &text)).map_err(|e| match e.code {
                1054 => {
                    let name = e.message.split('\'').nth(1).unwrap_or_default();
                    errors::unknown_column(name, "functional index")
                }
                _ => e,
            })?;
        let ty = stored_type(&ty, StoredAs::Value).with_nullable(true);
        if is_blob(&ty) {
            let text = "Cannot create a functional index on an expression that returns a BLOB or TEXT. Please consider using CAST.";
            return error(3757, text.to_owned());
        }
        if ty.is_geometry() || ty.kind == TypeKind::Json && array_type(expr).is_none() {
            let text = "Cannot create a functional index on a function that returns a JSON or GEOMETRY value.";
            return Err(SqlError::new(3753, "42000", text));
        }
        if ty.kind == TypeKind::Null || (ty.is_string() && ty.length == 0) {
            let text = format!("The used storage engine cannot index the expression '{text}'.");
            return error(3761, text);
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

    /// 1178 for descending parts.
    pub(super) fn check_ascending(&self) -> SqlResult<()> {
        let mut parts = self.indexes.iter().flat_map(|index| &index.parts);
        match parts.any(|part| part.desc) {
            true => Err(errors::engine_without("descending indexes")),
            false => Ok(()),
        }
    }

    /// There are no hash indexes, and only MEMORY tables go on saying that theirs are: how many others are trees now.
    pub(super) fn drop_hash(&mut self) -> usize {
        let is_hash = |i: &&mut DraftIndex| i.using.as_deref() == Some(HASH);
        let hashes = self.indexes.iter_mut().filter(is_hash);
        hashes.map(|index| index.using = None).count()
    }

    /// 1178 for columns of geometries.
    pub(super) fn check_no_geometry(&self) -> SqlResult<()> {
        match self.columns.iter().any(|c| c.def.ty.is_geometry()) {
            true => Err(errors::engine_without("GEOMETRY")),
            false => Ok(()),
        }
    }

    /// 1796 and 1214 for full-text indexes of tables that have none.
    pub(super) fn check_fulltext(
        &self,
        is_temporary: bool,
        engine: StorageEngine,
    ) -> SqlResult<()> {
        if !self.indexes.iter().any(|i| i.fulltext.is_some()) {
            return Ok(());
        }
        match (is_temporary, engine) {
            (_, StorageEngine::Memory) => Err(errors::no_fulltext()),
            (true, _) => {
                let text = "Cannot create FULLTEXT index on temporary InnoDB table";
                Err(SqlError::new(1796, "HY000", text))
            }
            (false, _) => Ok(()),
        }
    }

    /// Is the column a part of an index?
    pub(super) fn has_index_of(&self, id: u32) -> bool {
        let is_it = |p: &DraftPart| matches!(p.column, PartColumn::Id(part) if part == id);
        self.indexes.iter().any(|i| i.parts.iter().any(is_it))
    }

    /// Refuses what CHECKs that are to be added may not be (3812) or have, under the names that they will get.
    pub(super) fn check_forms<'c>(
        &self,
        written: impl Iterator<Item = &'c ast::Check>,
    ) -> SqlResult<()> {
        let last = |table: &str| checks::last_number(&self.checks, table);
        let mut last = last(&self.name).max(last(&self.to));
        for check in written {
            let name = match &check.name {
                Some(name) => name.text.clone(),
                None => {
                    last = last.saturating_add(1);
                    checks::generated_name(&self.to, last)
                }
            };
            checks::check_condition(&name, &check.expr.expr)?;
            Keeper::Check(&name).check(&check.expr.expr)?;
        }
        Ok(())
    }

    /// Adds a CHECK of which [`Self::check_forms`] has been asked; an unnamed one is named when the draft is finished.
    pub(super) fn add_check(&mut self, check: &ast::Check, column: Option<u32>) -> SqlResult<()> {
        let name = match &check.name {
            Some(name) => {
                names::check_constraint(&name.text)?;
                name.text.clone()
            }
            None => Box::default(),
        };
        self.added_checks.push(CheckDef {
            name,
            text: expr_text(&check.expr.expr)?,
            enforced: check.enforced,
            column,
        });
        Ok(())
    }

    /// Puts the added checks in the order of these places in the statement's text; unnamed ones are numbered in that.
    pub(super) fn order_checks(&mut self, places: impl Iterator<Item = usize>) {
        let mut placed: Vec<_> = places.zip(self.added_checks.drain(..)).collect();
        placed.sort_by_key(|(at, _)| *at);
        self.added_checks = placed.into_iter().map(|(_, check)| check).collect();
    }

    pub(super) fn part_position(&self, part: &DraftPart) -> Option<usize> {
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
}

/// WITH PARSER ngram.
pub(super) fn is_ngram(spec: &ast::IndexSpec) -> bool {
    let mut parser = spec.parser.iter();
    parser.any(|parser| parser.text.eq_ignore_ascii_case("ngram"))
}

/// What 1221 says of ASC and DESC.
const ORDERED: &str = "spatial/fulltext/hash index and explicit index order";

/// Refuses what a spatial index cannot have.
fn check_spatial(spec: &ast::IndexSpec) -> SqlResult<()> {
    let is_expr = |part: &ast::KeyPart| matches!(part.what, KeyPartKind::Expr(_));
    if spec.parts.iter().any(is_expr) {
        let text = "Spatial functional index is not supported.";
        return Err(SqlError::new(3760, "HY000", text));
    }
    match spec.parts.iter().any(|part| part.has_order) {
        true => Err(errors::wrong_usage(ORDERED)),
        false => Ok(()),
    }
}

/// Refuses what a full-text index cannot have.
fn check_fulltext(spec: &ast::IndexSpec) -> SqlResult<()> {
    if let Some(parser) = &spec.parser
        && !is_ngram(spec)
    {
        let text = format!("Function '{}' is not defined", parser.text);
        return Err(SqlError::new(1128, "HY000", text));
    }
    if spec.parts.iter().any(|part| part.has_order) {
        return Err(errors::wrong_usage(ORDERED));
    }
    let is_expr = |part: &ast::KeyPart| matches!(part.what, KeyPartKind::Expr(_));
    match spec.parts.iter().any(is_expr) {
        true => {
            let text = "Fulltext functional index is not supported.";
            Err(SqlError::new(3759, "HY000", text))
        }
        false => Ok(()),
    }
}

/// The type of the elements, if a key part is multi-valued.
fn array_type(expr: &ast::Expr) -> Option<&ast::DataType> {
    match expr {
        ast::Expr::Cast { ty, .. } if ty.array => Some(ty),
        _ => None,
    }
}

/// Checks a multi-valued key part: 1221, 1235.
fn check_array(spec: &ast::IndexSpec, part: &ast::KeyPart, expr: &ast::Expr) -> SqlResult<()> {
    let Some(ty) = array_type(expr) else {
        return Ok(());
    };
    check_array_type(ty)?;
    if part.has_order {
        return Err(errors::wrong_usage(
            "multi-valued index and explicit index order",
        ));
    }
    let is_array = |part: &&ast::KeyPart| match &part.what {
        KeyPartKind::Expr(e) => array_type(&e.expr).is_some(),
        KeyPartKind::Column(..) => false,
    };
    if spec.parts.iter().filter(is_array).count() > 1 {
        return Err(SqlError::not_supported(
            "more than one multi-valued key part per index",
        ));
    }
    Ok(())
}

/// 3106.
pub(super) fn not_for_generated(what: &str) -> SqlError {
    let text = format!("'{what}' is not supported for generated columns.");
    SqlError::new(3106, "HY000", text)
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
