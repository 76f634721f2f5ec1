//! Generated invisible primary keys (`sql_generate_invisible_primary_key`).
//!
//! A table that has neither a primary key nor a unique one without NULL gets the column `my_row_id` before its first,
//! and a primary key of it. From then on its definition says what it is: the column may be shown and hidden, commented
//! on, and go together with the key, but not become something else. Neighbours: `create` and `create_select` ask for
//! the key; `alter` checks what becomes of it; the catalog's `has_generated_key` knows it again. **Invariant**: the
//! binary log has the whole definition, because the setting is not among those that go with a statement.

use esker_sql_catalog::catalog::{ColumnDef, DefaultDef, ROW_ID, StorageEngine, TableDef, quoted};
use esker_sql_syntax::ast::{AlterAction, ColumnPosition, CreateTable};
use esker_types::{SqlError, SqlResult, SqlType, TypeKind};

use super::DdlCtx;
use super::columns::Inline;
use super::draft::{Draft, DraftColumn, DraftPart};
use crate::capture::definition;

/// Why no key can be made.
fn cannot_generate(code: u16, why: &str) -> SqlError {
    let text = format!("Failed to generate invisible primary key. {why} already exists.");
    SqlError::new(code, "HY000", text)
}

/// 4110.
fn altering_not_allowed() -> SqlError {
    let text =
        format!("Altering generated invisible primary key column '{ROW_ID}' is not allowed.");
    SqlError::new(4110, "HY000", text)
}

/// The column.
fn row_id(id: u32) -> ColumnDef {
    ColumnDef {
        id,
        name: ROW_ID.into(),
        ty: SqlType {
            unsigned: true,
            ..SqlType::new(TypeKind::BigInt).with_nullable(false)
        },
        default: DefaultDef::None,
        on_update_now: false,
        auto_increment: true,
        invisible: true,
        comment: Box::default(),
        instant_default: None,
        explicit_collation: false,
        generated: None,
    }
}

impl Draft {
    /// Is there a primary key, or a unique one of whole columns without NULL?
    fn has_row_key(&self) -> bool {
        self.indexes.iter().any(|index| {
            let mut parts = index.parts.iter();
            index.primary
                || index.unique
                    && parts.all(|part| {
                        let column = self.part_position(part).map(|at| &self.columns[at].def);
                        part.prefix_len.is_none() && column.is_some_and(|c| !c.ty.nullable)
                    })
        })
    }

    /// Gives a new table a primary key if it has none and the session wants one; true if it was given one.
    ///
    /// # Errors
    /// 4108, 4109; 1235 for a partitioned table.
    pub(super) fn generate_key(
        &mut self,
        ctx: &DdlCtx<'_>,
        create: &CreateTable,
        engine: Option<StorageEngine>,
    ) -> SqlResult<bool> {
        let is_wanted = ctx.generates_primary_key
            && engine.unwrap_or_default() == StorageEngine::InnoDb
            && create.like.is_none();
        if !is_wanted || self.has_row_key() {
            return Ok(false);
        }
        if create.partition_by.is_some() {
            let what = "generating invisible primary key for the partitioned tables";
            return Err(SqlError::not_supported(what));
        }
        if self.columns.iter().any(|c| c.def.auto_increment) {
            return Err(cannot_generate(4109, "Auto-increment column"));
        }
        if self.position(ROW_ID).is_some() {
            return Err(cannot_generate(4108, &format!("Column '{ROW_ID}'")));
        }
        let id = self.next_column_id;
        self.next_column_id += 1;
        let column = DraftColumn {
            def: row_id(id),
            explicit_null: false,
            is_selected: false,
        };
        self.columns.insert(0, column);
        let inline = Inline {
            primary: true,
            ..Inline::default()
        };
        self.add_inline(id, inline)?;
        Ok(true)
    }

    /// Where FIRST is: a generated key stays before everything.
    pub(super) fn first(&self) -> usize {
        let is_row_id = self.columns.first().is_some_and(|c| c.def.is_row_id());
        usize::from(is_row_id && self.is_keyed_by(self.columns[0].def.id))
    }

    /// Is the primary key this column alone?
    fn is_keyed_by(&self, id: u32) -> bool {
        let primary = self.indexes.iter().find(|index| index.primary);
        let parts = primary.map(|index| &*index.parts);
        matches!(parts, Some([part]) if self.part_column(part) == Some(id))
    }

    /// The column of a key part.
    fn part_column(&self, part: &DraftPart) -> Option<u32> {
        let at = self.part_position(part)?;
        Some(self.columns[at].def.id)
    }

    /// What became of the key of `old`.
    ///
    /// # Errors
    /// 1235: a key is gone, while new tables are given one. 4111: the column of a generated one is to stay without it.
    pub(super) fn check_altered_key(&self, ctx: &DdlCtx<'_>, old: &TableDef) -> SqlResult<()> {
        let had_key = old.shown_primary().is_some();
        if ctx.generates_primary_key && had_key && !self.has_row_key() {
            return Err(SqlError::not_supported(
                "an operation that leaves the table without a PRIMARY KEY or a UNIQUE NOT NULL key while \
                 @@sql_generate_invisible_primary_key=ON.",
            ));
        }
        let id = old.columns[0].id;
        let stays = self.columns.iter().any(|column| column.def.id == id);
        if !old.has_generated_key() || !stays || self.is_keyed_by(id) {
            return Ok(());
        }
        let text =
            "Please drop primary key column to be able to drop generated invisible primary key.";
        Err(SqlError::new(4111, "HY000", text))
    }
}

/// Would this change the column of the generated key of `old` into something else?
pub(super) fn check_action(old: &TableDef, action: &AlterAction) -> SqlResult<()> {
    let changes = match action {
        AlterAction::RenameColumn { old: name, .. } => name.is(ROW_ID),
        AlterAction::SetDefault { column, .. } | AlterAction::DropDefault(column) => {
            column.is(ROW_ID)
        }
        AlterAction::ModifyColumn { def, position } => {
            def.name.is(ROW_ID) && *position != ColumnPosition::Unchanged
        }
        AlterAction::ChangeColumn { old, position, .. } => {
            old.is(ROW_ID) && *position != ColumnPosition::Unchanged
        }
        _ => false,
    };
    match changes && old.has_generated_key() {
        true => Err(altering_not_allowed()),
        false => Ok(()),
    }
}

/// As [`check_action`], for a column that was defined anew.
pub(super) fn check_column(old: &TableDef, column: &ColumnDef) -> SqlResult<()> {
    let is_key = old.has_generated_key() && old.columns[0].id == column.id;
    match is_key && !column.is_row_id() {
        true => Err(altering_not_allowed()),
        false => Ok(()),
    }
}

/// Has the log say what the table is, the generated key with it.
pub(super) fn log_definition(
    ctx: &mut DdlCtx<'_>,
    create: &CreateTable,
    def: &TableDef,
) -> SqlResult<()> {
    let Some(logged) = ctx.logged.take() else {
        return Ok(());
    };
    let name = match ctx.database {
        Some(database) if *database == *def.schema => quoted(&def.name),
        _ => format!("{}.{}", quoted(&def.schema), quoted(&def.name)),
    };
    let text = definition(def, &name, create.if_not_exists, &ctx.eval.time_zone);
    ctx.logged = Some(logged.reworded(text.as_bytes())?);
    Ok(())
}
