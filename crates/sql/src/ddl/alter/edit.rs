//! The actions of ALTER TABLE, applied to a draft: those on columns and on the table here, `keys` has the others.
//!
//! Neighbours: `draft` for the pieces, `plan` reads the [`AlterContext`] noted on the way.
//! **Invariant**: actions name columns and indexes as the table had them before the statement, so
//! `RENAME a TO b, RENAME b TO a` exchanges two names.

mod keys;

use esker_sql_catalog::catalog::{ColumnDef, DefaultDef, GeneratedDef, TableDef, same_name};
use esker_sql_plan::bind::types::{charset_by_name, collation_by_name, pick_collation};
use esker_sql_syntax::ast::{self, AlterAction, ColumnPosition, Ident, PartitionAction};
use esker_types::collation::{Charset, Collation};
use esker_types::names::check_column;
use esker_types::{SqlError, SqlResult, TypeKind, errors};

use super::super::DdlCtx;
use super::super::columns;
use super::super::draft::{Draft, DraftPart, PartColumn, not_for_generated};
use super::super::generated_key;
use super::super::key_length::incorrect_prefix;
use super::super::names::TableName;
use super::super::options::Options;
use super::super::partitions;
use crate::dml::{columns_of_stored, defaults_of_stored};

/// What `plan` and `fill` must know beyond the finished draft.
#[derive(Debug, Clone, Default)]
pub(in crate::ddl) struct AlterContext {
    /// FORCE, or something that cannot be done in place.
    pub(in crate::ddl) force_copy: bool,
    /// Ids of added columns.
    pub(in crate::ddl) added: Vec<u32>,
    /// Names of CHECK constraints that rows are to be held against: they are new, or mean something else now. Empty
    /// names are the unnamed ones.
    pub(in crate::ddl) new_checks: Vec<Box<str>>,
    /// Which rows go with their partitions: SQL over the columns of the old table.
    pub(in crate::ddl) discards: Option<String>,
    /// AUTO_INCREMENT begins anew.
    pub(in crate::ddl) begins_anew: bool,
}

/// A draft being edited.
pub(super) struct Edit<'a> {
    ctx: &'a DdlCtx<'a>,
    old: &'a TableDef,
    /// What it is to be called.
    to: &'a TableName,
    /// Of the whole statement.
    actions: &'a [AlterAction],
    pub(super) draft: Draft,
    pub(super) context: AlterContext,
    /// Columns of keys that are dropped while the statement adds one of the same name.
    replaced: Vec<ColumnDef>,
}

pub(super) fn cannot_drop(name: &str) -> SqlError {
    let text = format!("Can't DROP '{name}'; check that column/key exists");
    SqlError::new(1091, "42000", text)
}

/// What is computed from a column.
#[derive(Clone, Copy)]
enum Dependency {
    Generated,
    KeyPart,
    Default,
}

impl Dependency {
    /// The column may not go, nor change its name.
    fn error(self, column: &str, table: &str) -> SqlError {
        let stays = "and cannot be dropped or renamed.";
        let (code, text) = match self {
            Self::Generated => (
                3108,
                format!("Column '{column}' has a generated column dependency."),
            ),
            Self::KeyPart => (
                3837,
                format!("Column '{column}' has a functional index dependency {stays}"),
            ),
            Self::Default => (
                3766,
                format!(
                    "Column '{column}' of table '{table}' has a default value expression dependency {stays}"
                ),
            ),
        };
        SqlError::new(code, "HY000", text)
    }
}

impl<'a> Edit<'a> {
    pub(super) fn new(
        ctx: &'a DdlCtx<'a>,
        (old, to): (&'a TableDef, &'a TableName),
        actions: &'a [AlterAction],
    ) -> Self {
        let mut draft = Draft::of(old);
        draft.to = to.name.as_str().into();
        Self {
            ctx,
            old,
            to,
            actions,
            draft,
            context: AlterContext::default(),
            replaced: Vec::new(),
        }
    }

    /// DEFAULT CHARACTER SET and COLLATE of the table: for columns added from now on.
    pub(super) fn table_collation(&mut self, options: &Options) -> SqlResult<()> {
        self.draft.collation = options.collation(self.draft.collation)?;
        Ok(())
    }

    /// Draft position of a column that the table had before: 1054.
    fn column(&self, name: &Ident) -> SqlResult<usize> {
        let unknown = || errors::unknown_column(&name.text, &self.old.name);
        let at = self.old.column_index(&name.text).ok_or_else(unknown)?;
        let id = self.old.columns[at].id;
        self.draft
            .columns
            .iter()
            .position(|c| c.def.id == id)
            .ok_or_else(unknown)
    }

    pub(super) fn apply(&mut self, action: &AlterAction) -> SqlResult<()> {
        generated_key::check_action(self.old, action)?;
        match action {
            AlterAction::AddColumn { def, position } => self.add_column(def, position),
            AlterAction::DropColumn(name) => self.drop_column(name),
            AlterAction::ModifyColumn { def, position } => {
                self.change_column(&def.name, def, position)
            }
            AlterAction::ChangeColumn { old, def, position } => {
                self.change_column(old, def, position)
            }
            AlterAction::RenameColumn { old, new } => self.rename_column(old, new),
            AlterAction::SetDefault { column, default } => self.set_default(column, default),
            AlterAction::DropDefault(column) => {
                let at = self.column(column)?;
                self.draft.columns[at].def.default = DefaultDef::None;
                Ok(())
            }
            AlterAction::SetColumnVisible { column, visible } => {
                let at = self.column(column)?;
                self.draft.columns[at].def.invisible = !visible;
                Ok(())
            }
            AlterAction::ConvertCharset { charset, collation } => {
                self.convert(charset, collation.as_deref())
            }
            AlterAction::Force => {
                self.context.force_copy = true;
                Ok(())
            }
            AlterAction::DisableKeys | AlterAction::EnableKeys => {
                let e = errors::no_such_option(&self.old.name);
                self.ctx.note(e.code, e.message);
                Ok(())
            }
            AlterAction::Tablespace(_) if self.old.temporary => {
                Err(errors::tablespace_of_temporary())
            }
            AlterAction::Tablespace(verb) => {
                let (schema, name) = (&self.old.schema, &self.old.name);
                Err(errors::not_file_per_table(verb, schema, name))
            }
            // Rows are in the order of the clustered key, as InnoDB's are; `alter` warns of it.
            AlterAction::OrderBy(columns) => {
                columns.iter().try_for_each(|c| self.column(c).map(|_| ()))
            }
            // Read before the edit began.
            AlterAction::RenameTo(_) | AlterAction::Option(_) => Ok(()),
            // Done when all else is finished.
            AlterAction::Partition(_) => Ok(()),
            other => self.apply_to_keys(other),
        }
    }

    fn add_column(&mut self, def: &ast::ColumnDef, position: &ColumnPosition) -> SqlResult<()> {
        self.context.added.push(self.draft.next_column_id);
        self.context.new_checks.extend(def.checks.iter().map(|c| {
            c.name
                .as_ref()
                .map_or_else(Box::default, |n| n.text.clone())
        }));
        self.draft.add_column(self.ctx.eval, def, position)
    }

    fn drop_column(&mut self, name: &Ident) -> SqlResult<()> {
        let at = self.column(name).map_err(|_| cannot_drop(&name.text))?;
        if let Some(ordinal) = self.old_ordinal(at) {
            self.forget_checks_of(ordinal, true)?;
        }
        let column = self.draft.columns.remove(at).def;
        let is_replaced = self.actions.iter().any(|action| {
            matches!(action, AlterAction::AddColumn { def, .. } if def.name.is(&column.name))
        });
        for index in &mut self.draft.indexes {
            if !is_replaced {
                index.parts.retain(|p| !p.is(column.id, &column.name));
                continue;
            }
            // As in MySQL, keys are those of names: a column that is added in place of another has its place in them.
            for part in &mut index.parts {
                if part.is(column.id, &column.name) {
                    part.column = PartColumn::Name((*column.name).into());
                    index.existing = None;
                    self.replaced.push(column.clone());
                }
            }
        }
        self.draft.indexes.retain(|i| !i.parts.is_empty());
        Ok(())
    }

    /// 1089 for a column in keys in whose place comes one of another type.
    fn check_replaced(&self) -> SqlResult<()> {
        let in_key = |old: &&ColumnDef| {
            let is_it =
                |p: &DraftPart| matches!(&p.column, PartColumn::Name(n) if **n == *old.name);
            let mut kept = self.draft.indexes.iter().filter(|i| !i.is_written);
            kept.any(|i| i.parts.iter().any(is_it))
        };
        for old in self.replaced.iter().filter(in_key) {
            let new = &self.draft.columns[self.draft.find(&old.name)?].def.ty;
            let are_texts = old.ty.is_string() && new.is_string();
            if !are_texts && old.ty.kind != new.kind {
                return Err(incorrect_prefix());
            }
        }
        Ok(())
    }

    /// A column that goes or changes its name takes the checks along that use nothing else (when
    /// `drop`); others forbid it (3959).
    fn forget_checks_of(&mut self, column: usize, drop: bool) -> SqlResult<()> {
        for check in &self.old.checks {
            let used = columns_of_stored(
                self.ctx.eval,
                &self.old.name,
                &self.old.columns,
                &check.text,
            )?;
            if !used.contains(&column) {
                continue;
            }
            let Some(at) = self.check_position(&check.name) else {
                continue;
            };
            if !drop || used.iter().any(|&c| c != column) {
                let text = format!(
                    "Check constraint '{}' uses column '{}', hence column cannot be dropped or \
                     renamed.",
                    check.name, self.old.columns[column].name
                );
                return Err(SqlError::new(3959, "HY000", text));
            }
            self.draft.checks.remove(at);
        }
        Ok(())
    }

    /// Ordinal in the old table of the draft's column at `at`.
    fn old_ordinal(&self, at: usize) -> Option<usize> {
        let id = self.draft.columns[at].def.id;
        self.old.columns.iter().position(|c| c.id == id)
    }

    fn change_column(
        &mut self,
        old: &Ident,
        def: &ast::ColumnDef,
        position: &ColumnPosition,
    ) -> SqlResult<()> {
        let at = self.column(old)?;
        let before = self.draft.columns[at].clone();
        if !same_name(&before.def.name, &def.name.text)
            && let Some(ordinal) = self.old_ordinal(at)
        {
            self.forget_checks_of(ordinal, false)?;
        }
        let id = before.def.id;
        let (mut column, inline) = columns::build(self.ctx.eval, def, id, self.draft.collation)?;
        generated_key::check_column(self.old, &column)?;
        column.instant_default = before.def.instant_default;
        self.note_generated(&before.def.generated, &column.generated)?;
        self.draft.columns[at].def = column;
        self.draft.columns[at].explicit_null = inline.explicit_null;
        for check in &def.checks {
            let name = check
                .name
                .as_ref()
                .map_or_else(Box::default, |n| n.text.clone());
            self.context.new_checks.push(name);
            self.draft.add_check(check, Some(id))?;
        }
        self.draft.add_inline(id, inline)?;
        self.move_column(at, position)
    }

    /// What a column's expression becomes: values may have to be computed anew, and whether they are stored stays.
    fn note_generated(
        &mut self,
        before: &Option<GeneratedDef>,
        after: &Option<GeneratedDef>,
    ) -> SqlResult<()> {
        let stored = |g: &Option<GeneratedDef>| g.as_ref().is_none_or(|g| g.stored);
        if stored(before) != stored(after) {
            return Err(not_for_generated("Changing the STORED status"));
        }
        let text = |g: &Option<GeneratedDef>| g.as_ref().map(|g| g.text.clone());
        self.context.force_copy |= after.is_some() && text(before) != text(after);
        Ok(())
    }

    /// Columns that others are computed from stay, under their names: 3108, 3766, 3837. Those in keys keep their type
    /// if they come again: 1089.
    pub(super) fn check_dependents(&mut self) -> SqlResult<()> {
        self.check_replaced()?;
        // As in MySQL, RENAME COLUMN gives a column another name even if that is the same.
        let is_renamed = |old: &ColumnDef| {
            let renames = |a: &AlterAction| matches!(a, AlterAction::RenameColumn { old: name, .. } if name.is(&old.name));
            self.actions.iter().any(renames)
        };
        let stays = |old: &ColumnDef| {
            let now = self.draft.columns.iter().find(|c| c.def.id == old.id);
            now.is_some_and(|now| same_name(&now.def.name, &old.name)) && !is_renamed(old)
        };
        let partitions = self.old.partitioning.as_deref();
        if let Some(partitioning) = partitions.filter(|_| !self.partitions_anew()) {
            let mut used = Vec::new();
            for text in partitioning.exprs() {
                let (name, columns) = (&self.old.name, &self.old.columns);
                used.extend(columns_of_stored(self.ctx.eval, name, columns, text)?);
            }
            partitions::check_dependents(partitioning, &used, &self.old.columns, &stays)?;
        }
        let mut recomputes = false;
        for column in &self.old.columns {
            let Some((text, dependency)) = self.kept_expression(column) else {
                continue;
            };
            let used = columns_of_stored(self.ctx.eval, &self.old.name, &self.old.columns, text)?;
            let Some(&lost) = used.iter().find(|&&c| !stays(&self.old.columns[c])) else {
                continue;
            };
            // Written again it means the new columns.
            if !self.redefines(column) {
                return Err(dependency.error(&self.old.columns[lost].name, &self.old.name));
            }
            recomputes |= column.generated.is_some();
        }
        self.context.force_copy |= recomputes;
        self.follow_defaults();
        Ok(())
    }

    /// Where a column gets another default, values that are computed of it (`DEFAULT(column)`) are computed anew, and
    /// rows are held against CHECKs that read it.
    fn follow_defaults(&mut self) {
        let changes = |old: &ColumnDef| {
            let now = self.draft.columns.iter().find(|c| c.def.id == old.id);
            now.is_some_and(|now| {
                let is_same = now.def.default.is_same(&old.default);
                !is_same || now.def.auto_increment != old.auto_increment
            })
        };
        let changed: Vec<bool> = self.old.columns.iter().map(changes).collect();
        if !changed.contains(&true) {
            return;
        }
        let reads = |text: &str| {
            let (name, columns) = (&self.old.name, &self.old.columns);
            let read = defaults_of_stored(self.ctx.eval, name, columns, text);
            read.iter().any(|&at| changed[at])
        };
        let mut generated = self.old.columns.iter().filter_map(|c| c.generated.as_ref());
        let recomputes = generated.any(|g| reads(&g.text));
        let enforced = self.draft.checks.iter().filter(|check| check.enforced);
        let affected = enforced.filter(|check| reads(&check.text));
        let affected: Vec<Box<str>> = affected.map(|check| check.name.clone()).collect();
        self.context.new_checks.extend(affected);
        self.context.force_copy |= recomputes;
    }

    /// Does the statement say anew how a column is computed?
    fn redefines(&self, column: &ColumnDef) -> bool {
        self.actions.iter().any(|action| {
            let named = match action {
                AlterAction::ModifyColumn { def, .. } => &def.name,
                AlterAction::ChangeColumn { old, .. } => old,
                AlterAction::SetDefault { column, .. } => column,
                _ => return false,
            };
            same_name(&named.text, &column.name)
        })
    }

    /// Does the statement give up the old partitioning?
    fn partitions_anew(&self) -> bool {
        let is_new = |a: &AlterAction| {
            matches!(
                a,
                AlterAction::Partition(PartitionAction::By(_) | PartitionAction::Remove)
            )
        };
        self.actions.iter().any(is_new)
    }

    /// The expression that computes a column of the old table, if it still does.
    fn kept_expression<'c>(&self, column: &'c ColumnDef) -> Option<(&'c str, Dependency)> {
        let mut columns = self.draft.columns.iter();
        let now = &columns.find(|c| c.def.id == column.id)?.def;
        match (&column.generated, &column.default) {
            (Some(generated), _) => {
                let is_gone = generated.hidden && !self.draft.has_index_of(column.id);
                let is_same = now
                    .generated
                    .as_ref()
                    .is_some_and(|g| g.text == generated.text);
                let dependency = match generated.hidden {
                    true => Dependency::KeyPart,
                    false => Dependency::Generated,
                };
                (is_same && !is_gone).then_some((&*generated.text, dependency))
            }
            (None, DefaultDef::Expr(text)) => {
                let is_same = matches!(&now.default, DefaultDef::Expr(now) if now == text);
                is_same.then_some((&**text, Dependency::Default))
            }
            _ => None,
        }
    }

    fn move_column(&mut self, at: usize, position: &ColumnPosition) -> SqlResult<()> {
        let to = match position {
            ColumnPosition::Unchanged => return Ok(()),
            ColumnPosition::First => self.draft.first(),
            ColumnPosition::After(name) => {
                let after = self.draft.find(&name.text)?;
                if after == at {
                    return Err(errors::unknown_column(&name.text, &self.old.name));
                }
                // Taking the column out moves what follows it forward.
                if after > at { after } else { after + 1 }
            }
        };
        let column = self.draft.columns.remove(at);
        self.draft.columns.insert(to, column);
        Ok(())
    }

    fn rename_column(&mut self, old: &Ident, new: &Ident) -> SqlResult<()> {
        check_column(&new.text).map_err(|_| errors::wrong_column_name(&new.text))?;
        let at = self.column(old)?;
        if !same_name(&self.draft.columns[at].def.name, &new.text)
            && let Some(ordinal) = self.old_ordinal(at)
        {
            self.forget_checks_of(ordinal, false)?;
        }
        self.draft.columns[at].def.name = (&*new.text).into();
        Ok(())
    }

    fn set_default(&mut self, column: &Ident, default: &ast::ColumnDefault) -> SqlResult<()> {
        let at = self.column(column)?;
        let def = &mut self.draft.columns[at].def;
        if def.auto_increment {
            return Err(errors::invalid_default(&def.name));
        }
        if def.generated.is_some() {
            return Err(errors::wrong_usage("DEFAULT and generated column"));
        }
        // As in MySQL, a literal in parentheses is no expression here.
        let literal = match default {
            ast::ColumnDefault::Literal(e) => Some(e),
            ast::ColumnDefault::Expr(e) => columns::as_literal(&e.expr),
            ast::ColumnDefault::Now(_) => None,
        };
        if literal.is_some_and(|e| !columns::is_moment(e))
            && columns::has_no_literal_default(&def.ty)
        {
            return Err(columns::no_literal_default(&def.name));
        }
        let literal = literal.cloned().map(ast::ColumnDefault::Literal);
        let default = literal.as_ref().unwrap_or(default);
        def.default = columns::build_default(self.ctx.eval, Some(default), &def.ty, &def.name)?;
        Ok(())
    }

    /// CONVERT TO: the table's default and every character column.
    fn convert(&mut self, charset: &str, collation: Option<&str>) -> SqlResult<()> {
        let default = self.old.collation;
        let charset = match charset {
            name if name.eq_ignore_ascii_case("default") => default.charset(),
            name => charset_by_name(name)?,
        };
        let collation = collation.map(collation_by_name).transpose()?;
        let target = pick_collation(Some(charset), collation, default)?;
        self.draft.collation = target;
        for column in &mut self.draft.columns {
            let ty = &mut column.def.ty;
            let is_label = matches!(ty.kind, TypeKind::Enum(_) | TypeKind::Set(_));
            if !(ty.is_string() || is_label) || ty.collation.is_binary() {
                continue;
            }
            if target.charset().max_len() > ty.collation.charset().max_len() {
                ty.kind = wider_text(&ty.kind);
            }
            ty.collation = target;
        }
        debug_assert!(target.charset() != Charset::Binary || target == Collation::BINARY);
        Ok(())
    }
}

/// TEXT types count bytes: in a wider character set the same text needs the next one.
fn wider_text(kind: &TypeKind) -> TypeKind {
    match kind {
        TypeKind::TinyText => TypeKind::Text,
        TypeKind::Text => TypeKind::MediumText,
        TypeKind::MediumText => TypeKind::LongText,
        other => other.clone(),
    }
}
