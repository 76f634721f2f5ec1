//! A table in scope: where its rows come from, its columns, and what names, hints and views say of it.
//!
//! Neighbours: `from` makes them; `scope` finds columns in them.
//! **Invariant**: a column has a slot only once something reads it.

use super::super::TargetName;
use super::super::block::BoundQuery;
use super::super::hint::TableHints;
use super::super::json_table::JsonTable;
use super::super::merged::MergedView;
use super::super::recursive::RecursiveTable;
use super::super::rights::Restricted;
use crate::bind::virt::VirtualTable;
use esker_sql_catalog::catalog::{IndexDef, TableDef, ViewDef, same_name};
use esker_sql_catalog::result::{ColumnMeta, StoredAs};
use esker_sql_syntax::ast::{self, IndexHintKind, IndexHintScope};
use esker_types::SqlType;
use esker_types::collation::Coercibility;
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

/// Where a scope's table gets its rows.
#[derive(Clone)]
pub enum TableKind {
    /// A stored table.
    Base(Arc<TableDef>),
    /// A computed table.
    Virtual(Arc<dyn VirtualTable>),
    /// A subquery of FROM, or a common table expression.
    Derived(Rc<BoundQuery>),
    /// JSON_TABLE.
    Json(Arc<JsonTable>),
    /// A recursive common table expression inside its own definition.
    Recursive(Rc<RecursiveTable>),
    /// A row that is simply there (INSERT's values, a trigger's row).
    Row,
}

/// A column as names see it.
#[derive(Debug, Clone)]
pub struct ScopeColumn {
    /// Name.
    pub name: Arc<str>,
    /// Type; nullable also when an outer join may null it.
    pub ty: SqlType,
    /// What a result set says about it.
    pub meta: ColumnMeta,
    /// Left out of `*`.
    pub invisible: bool,
}

/// A table in scope.
#[derive(Clone)]
pub struct ScopeTable {
    /// Schema of the name, empty for derived tables.
    pub schema: Arc<str>,
    /// Alias, or the name.
    pub alias: Arc<str>,
    /// Where rows come from.
    pub kind: TableKind,
    /// Columns.
    pub columns: Vec<ScopeColumn>,
    /// Index hints.
    pub hints: Vec<ast::IndexHint>,
    /// The partitions that are named: all rows are in them, also those that are stored.
    pub partitions: Vec<ast::Ident>,
    /// What other hints say.
    pub told: TableHints,
    /// Slots of the columns that are used, by column.
    pub slots: RefCell<Vec<Option<u32>>>,
    /// Slot of the encoded row key, when a statement wants it.
    pub key_slot: Option<u32>,
    /// Slot of the stored row, when a statement wants it.
    pub row_slot: Option<u32>,
    /// A LATERAL derived table: it sees the tables before it.
    pub lateral: bool,
    /// An outer join may give it a row of NULL.
    pub nulled: bool,
    /// What may not be done with it, while it is being bound.
    pub restricted: Option<Rc<Restricted>>,
    /// It only has the names of a view's columns; the view's tables come behind it.
    pub merged: Option<Rc<MergedView>>,
    /// The views that it is inside of, the innermost first. No name finds such a table.
    pub views: Vec<Arc<ViewDef>>,
}

impl ScopeTable {
    /// How errors name it as what a statement changes.
    pub fn as_target(&self, verb: &'static str) -> TargetName {
        let view = self.merged.as_ref();
        TargetName {
            alias: self.alias.clone(),
            verb,
            view: view.map(|view| (view.def.schema.clone(), view.def.name.clone())),
        }
    }

    /// Does a hint ask for the index? None: it may not be used.
    pub(crate) fn allowed(&self, index: &IndexDef, scope: IndexHintScope) -> Option<bool> {
        let hints = self.hints.iter();
        let hints = hints.filter(|h| h.scope.is_none_or(|s| s == scope));
        let (mut forced, mut wanted, mut positive) = (false, false, false);
        for hint in hints {
            let mut names = hint.indexes.iter();
            let is_named = names.any(|n| same_name(&n.text, &index.name));
            positive |= matches!(hint.kind, IndexHintKind::Use | IndexHintKind::Force);
            match hint.kind {
                IndexHintKind::Ignore if is_named => return None,
                IndexHintKind::Force => forced |= is_named,
                IndexHintKind::Use => wanted |= is_named,
                IndexHintKind::Ignore => {}
            }
        }
        let is_allowed = match positive {
            true => forced || wanted,
            false => !index.invisible,
        };
        is_allowed.then_some(forced)
    }

    /// A stored table under its name or an alias.
    pub(crate) fn base(def: Arc<TableDef>, alias: Option<&str>) -> Self {
        let alias: Arc<str> = alias.map_or_else(|| def.name.clone(), Into::into);
        let columns = def
            .columns
            .iter()
            .enumerate()
            .map(|(nth, c)| ScopeColumn {
                name: c.name.clone(),
                ty: c.ty.clone(),
                meta: ColumnMeta::stored(&def, nth, alias.clone()),
                invisible: c.invisible,
            })
            .collect();
        let schema = def.schema.clone();
        Self::with_columns(schema, alias, TableKind::Base(def), columns)
    }

    /// A computed table.
    pub(crate) fn virt(table: Arc<dyn VirtualTable>, alias: Option<&str>) -> Self {
        let schema: Arc<str> = table.schema().into();
        let name: Arc<str> = table.name().into();
        let alias: Arc<str> = alias.map_or_else(|| name.clone(), Into::into);
        let columns = table
            .columns()
            .iter()
            .map(|c| ScopeColumn {
                name: c.name.clone(),
                ty: c.ty.clone(),
                meta: ColumnMeta {
                    schema: schema.clone(),
                    table: alias.clone(),
                    org_table: name.clone(),
                    name: c.name.clone(),
                    org_name: c.name.clone(),
                    ty: c.ty.clone(),
                    flags: 0,
                    coercibility: Coercibility::of_column(&c.ty),
                    stored_as: StoredAs::Same,
                },
                invisible: false,
            })
            .collect();
        Self::with_columns(schema, alias, TableKind::Virtual(table), columns)
    }

    /// A table of `columns`.
    pub(crate) fn with_columns(
        schema: Arc<str>,
        alias: Arc<str>,
        kind: TableKind,
        columns: Vec<ScopeColumn>,
    ) -> Self {
        let slots = RefCell::new(vec![None; columns.len()]);
        let (hints, key_slot, row_slot) = (Vec::new(), None, None);
        Self {
            schema,
            alias,
            kind,
            columns,
            hints,
            partitions: Vec::new(),
            told: TableHints::default(),
            slots,
            key_slot,
            row_slot,
            lateral: false,
            nulled: false,
            restricted: None,
            merged: None,
            views: Vec::new(),
        }
    }

    /// Is this the table that `schema.table` names?
    pub(crate) fn is_named(&self, schema: Option<&ast::Ident>, table: &ast::Ident) -> bool {
        // Table names are compared as written (lower_case_table_names = 0), schemas likewise.
        *self.alias == *table.text && schema.is_none_or(|s| *self.schema == *s.text)
    }

    /// The stored table, if it is one.
    pub fn base_def(&self) -> Option<&Arc<TableDef>> {
        match &self.kind {
            TableKind::Base(def) => Some(def),
            _ => None,
        }
    }

    /// Every slot of the table that is in use.
    pub(crate) fn used_slots(&self) -> Vec<u32> {
        let columns = self.slots.borrow();
        columns
            .iter()
            .flatten()
            .copied()
            .chain(self.key_slot)
            .chain(self.row_slot)
            .collect()
    }
}
