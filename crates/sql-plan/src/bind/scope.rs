//! What names mean at one place of a statement.
//!
//! Neighbours: `table` is what one of its tables is; `from` fills a scope with tables, `expr` looks columns up, `dml`
//! makes scopes over one table's row.
//! **Invariants**: a slot belongs to one column of one table for the whole query block; tables of an
//! enclosing query are reached through `parent` and only then give [`ExprKind::Outer`]; the visible
//! list (`names`) decides unqualified names and the order of `*`.

mod table;

use std::cell::{Cell, OnceCell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

use esker_sql_catalog::catalog::{ColumnDef, TableDef, same_name};
use esker_sql_catalog::result::ColumnMeta;
use esker_sql_syntax::ast;
use esker_types::{SqlError, SqlResult, SqlType};

pub use table::{ScopeColumn, ScopeTable, TableKind};

use super::BindEnv;
use super::aliases::{AliasUse, Aliases};
use super::block::{AggCall, BoundQuery, Volatility};
use super::clause::Clause;
use super::computed::Reading;
use super::errors;
use super::hint::TableHints;
use super::recursive::RecursiveTable;
use super::window::WindowScope;
use crate::expr::{Expr, ExprKind};

/// A column's place: table and column ordinals.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ColumnAt {
    /// Table in the scope.
    pub table: usize,
    /// Column in the table.
    pub column: usize,
}

/// A common table expression that names may refer to.
pub struct CteEntry {
    pub name: Box<str>,
    pub table: CteTable,
    pub up: Option<Rc<CteEntry>>,
}

/// What a common table expression's name stands for.
pub enum CteTable {
    /// Behind its definition.
    Defined(Box<DefinedCte>),
    /// Inside its own definition.
    Recursive(Rc<RecursiveTable>),
}

/// A common table expression as it was written.
pub struct DefinedCte {
    pub cte: ast::Cte,
    /// After WITH RECURSIVE.
    pub recursive: bool,
    /// Query blocks around the WITH clause.
    pub level: usize,
    /// Common table expressions that it may name.
    pub ctes: Option<Rc<CteEntry>>,
    /// Filled in where it is first named: as in MySQL, nobody looks into one that is not.
    pub bound: OnceCell<BoundCte>,
}

/// What binding a common table expression has shown.
pub struct BoundCte {
    /// `None`: its rows depend on an enclosing query's, so it is bound anew at each name.
    pub query: Option<Rc<BoundQuery>>,
    /// Height and query blocks, see [`BindEnv::measure`](super::BindEnv::measure).
    pub measured: [u32; 2],
}

/// What aggregates do where an expression stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AggRule {
    /// An enclosing query's, or error 1111.
    Forbidden,
    /// Collected in the block.
    Allowed,
    /// Inside an aggregate's argument: an enclosing query's, or error 1111.
    Nested,
}

/// How a query block groups its rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Grouping {
    /// It has no GROUP BY.
    #[default]
    None,
    /// By keys.
    ByKeys,
    /// WITH ROLLUP.
    RolledUp,
}

/// Names of one query block.
pub struct Scope<'p> {
    /// Tables, in FROM order.
    pub tables: Vec<ScopeTable>,
    /// Visible columns for unqualified names and `*`.
    pub names: Vec<ColumnAt>,
    /// While ON is bound: only tables of this range can be named.
    pub(crate) hidden: Cell<Option<(usize, usize)>>,
    /// While the right side of a RIGHT JOIN is bound: the tables of its left side, which LATERAL ones
    /// in it do not see. A bit a table.
    pub(crate) unseen: Cell<u64>,
    /// Updatable views become part of the block: its rows are changed, or it is inside of such a view.
    pub merges_views: bool,
    /// Definitions of the columns, where the scope is the row of a table that an expression of its own is over.
    pub defined: Option<&'p [ColumnDef]>,
    /// Which of these columns `DEFAULT(column)` names.
    pub read_defaults: RefCell<Vec<usize>>,
    /// The first column that an item of such a view's query reads and may not: a statement that reads the column of the
    /// view gets the error. `None`: it is an error at once.
    pub(super) refused: Option<RefCell<Option<SqlError>>>,
    /// Conditions on the rows of such views, which belong to WHERE.
    pub view_conditions: Vec<Expr>,
    /// Columns that USING names: `*` has them even if they are invisible.
    pub(super) in_using: Vec<ColumnAt>,
    /// While the side of an outer join is bound that may become NULL.
    pub(crate) is_nulled: Cell<bool>,
    /// Does the condition that is bound next read indexed generated columns instead of what they compute?
    pub(super) reads_computed: Cell<Reading>,
    /// The enclosing query's names.
    pub(crate) parent: Option<&'p Scope<'p>>,
    /// Common table expressions in reach.
    pub(crate) ctes: Option<Rc<CteEntry>>,
    /// The block is a member of the recursive common table expression that `ctes` begins with.
    pub(crate) member: bool,
    /// Where the expression being bound stands.
    pub clause: Cell<Clause>,
    /// What an aggregate means now.
    pub(crate) agg_rule: Cell<AggRule>,
    /// Aggregates found.
    pub(crate) aggs: RefCell<Vec<AggCall>>,
    /// Window functions found, and the windows they may name.
    pub(crate) windows: WindowScope,
    /// What is selected and grouped by, and where that gives names.
    pub(crate) aliases: Aliases,
    /// Constants that are keys of GROUP BY … WITH ROLLUP: what is made of them is rolled up, too.
    pub(crate) rolled_constants: RefCell<Vec<Expr>>,
    /// How the block groups its rows, as far as it says so.
    pub(crate) grouping: Cell<Grouping>,
    /// Calculations with constants stay as they are written: such a key is bound.
    pub(crate) stays_written: Cell<bool>,
    /// Slot of `VALUES(col)`: column ordinal of table 0 added to this.
    pub values_base: Option<u32>,
    width: Cell<u32>,
    /// Levels of enclosing queries that something in this block refers to (0 = none).
    outer_reach: Cell<u16>,
    /// Something in the block must be evaluated anew each time (RAND(), user variables, …).
    volatility: Cell<Volatility>,
}

impl Default for Scope<'_> {
    fn default() -> Self {
        Self::new()
    }
}

impl<'p> Scope<'p> {
    /// A scope without tables.
    pub fn new() -> Self {
        Self::inside(None, None)
    }

    /// A scope of a query block inside another.
    pub fn inside(parent: Option<&'p Scope<'p>>, ctes: Option<&Rc<CteEntry>>) -> Self {
        Self {
            tables: Vec::new(),
            names: Vec::new(),
            hidden: Cell::new(None),
            unseen: Cell::new(0),
            merges_views: false,
            defined: None,
            read_defaults: RefCell::default(),
            refused: None,
            view_conditions: Vec::new(),
            in_using: Vec::new(),
            is_nulled: Cell::new(false),
            reads_computed: Cell::default(),
            parent,
            ctes: ctes.cloned(),
            member: false,
            clause: Cell::new(Clause::FieldList),
            agg_rule: Cell::new(AggRule::Forbidden),
            aggs: RefCell::new(Vec::new()),
            windows: WindowScope::default(),
            aliases: Aliases::default(),
            rolled_constants: RefCell::default(),
            grouping: Cell::default(),
            stays_written: Cell::new(false),
            values_base: None,
            width: Cell::new(0),
            outer_reach: Cell::new(0),
            volatility: Cell::new(Volatility::Stable),
        }
    }

    /// A scope over one stored table whose row lies in slots `base ..`, in column order. The names of
    /// a second table added the same way must be qualified when they are ambiguous.
    pub fn add_row(&mut self, def: &Arc<TableDef>, alias: &str, base: u32) {
        let mut table = ScopeTable::base(def.clone(), Some(alias));
        let n = table.columns.len() as u32;
        table.slots = RefCell::new((base..base + n).map(Some).collect());
        self.width.set(self.width.get().max(base + n));
        self.add_table(table);
    }

    /// Adds names over plain slots `base ..` (INSERT's `AS new(a, b)`).
    pub fn add_named_row(&mut self, alias: &str, columns: &[(Arc<str>, SqlType)], base: u32) {
        let alias: Arc<str> = alias.into();
        let columns = columns
            .iter()
            .map(|(name, ty)| ScopeColumn {
                name: name.clone(),
                ty: ty.clone(),
                meta: ColumnMeta::computed(name.clone(), ty.clone()),
                invisible: false,
            })
            .collect::<Vec<_>>();
        let n = columns.len() as u32;
        self.width.set(self.width.get().max(base + n));
        self.add_table(ScopeTable {
            schema: "".into(),
            alias,
            kind: TableKind::Row,
            columns,
            hints: Vec::new(),
            partitions: Vec::new(),
            told: TableHints::default(),
            slots: RefCell::new((base..base + n).map(Some).collect()),
            key_slot: None,
            row_slot: None,
            lateral: false,
            nulled: false,
            restricted: None,
            merged: None,
            views: Vec::new(),
        });
    }

    /// Adds a table; its columns become visible.
    pub(crate) fn add_table(&mut self, table: ScopeTable) -> usize {
        let at = self.tables.len();
        self.names
            .extend((0..table.columns.len()).map(|column| ColumnAt { table: at, column }));
        self.tables.push(table);
        at
    }

    /// Slots handed out so far: the width of the block's row.
    pub fn width(&self) -> u32 {
        self.width.get()
    }

    /// Slots below `width` belong to others.
    pub(super) fn widen(&self, width: u32) {
        self.width.set(self.width.get().max(width));
    }

    /// A slot that belongs to no column.
    pub fn new_slot(&self) -> u32 {
        let slot = self.width.get();
        self.width.set(slot + 1);
        slot
    }

    /// The slot of a column, handed out at its first use.
    pub fn slot_of(&self, at: ColumnAt) -> u32 {
        let mut slots = self.tables[at.table].slots.borrow_mut();
        *slots[at.column].get_or_insert_with(|| self.new_slot())
    }

    /// The column as an expression of this block.
    pub fn column_expr(&self, at: ColumnAt) -> Expr {
        let column = self.column_at(at);
        if let Some(view) = &self.tables[at.table].merged {
            return Expr {
                ty: column.ty.clone(),
                ..view.columns[at.column].clone()
            };
        }
        Expr {
            coer: column.meta.coercibility,
            ..Expr::column(self.slot_of(at), column.ty.clone())
        }
    }

    /// The column as an expression that a statement reads.
    ///
    /// # Errors
    /// 1143.
    pub(crate) fn read(&self, at: ColumnAt) -> SqlResult<Expr> {
        self.admit(at)?;
        Ok(self.column_expr(at))
    }

    /// May the column be read?
    pub(crate) fn admit(&self, at: ColumnAt) -> SqlResult<()> {
        match &self.tables[at.table].restricted {
            Some(restricted) => self.or_refused(restricted.read(&self.column_at(at).name)),
            None => Ok(()),
        }
    }

    /// Puts off the error of a column that may not be read, where that is to be.
    pub(super) fn or_refused(&self, admitted: SqlResult<()>) -> SqlResult<()> {
        let (Some(refused), Err(e)) = (&self.refused, &admitted) else {
            return admitted;
        };
        refused.borrow_mut().get_or_insert_with(|| e.clone());
        Ok(())
    }

    /// What has been put off since this was asked last.
    pub(super) fn take_refused(&self) -> Option<SqlError> {
        self.refused.as_ref()?.borrow_mut().take()
    }

    /// A column.
    pub fn column_at(&self, at: ColumnAt) -> &ScopeColumn {
        &self.tables[at.table].columns[at.column]
    }

    /// Is a column in view part of `*`?
    pub(super) fn is_in_star(&self, at: ColumnAt) -> bool {
        !self.column_at(at).invisible || self.in_using.contains(&at)
    }

    /// Is it a column of a computed table that is a view in MySQL?
    pub(crate) fn is_system_view(&self, at: ColumnAt) -> bool {
        matches!(&self.tables[at.table].kind, TableKind::Virtual(table) if table.is_view())
    }

    /// The column that has this slot.
    pub fn column_of_slot(&self, slot: u32) -> Option<ColumnAt> {
        self.tables.iter().enumerate().find_map(|(table, t)| {
            let column = t.slots.borrow().iter().position(|s| *s == Some(slot))?;
            Some(ColumnAt { table, column })
        })
    }

    /// How long the block's result holds.
    pub(crate) fn volatility(&self) -> Volatility {
        self.volatility.get()
    }

    /// Notes that something in the block holds no longer than this.
    pub(crate) fn note_volatility(&self, volatility: Volatility) {
        self.volatility.set(self.volatility.get().max(volatility));
    }

    /// The scope `depth` levels up; this one for 0.
    pub(super) fn up(&self, depth: u16) -> Option<&Scope<'p>> {
        (0..depth).try_fold(self, |scope, _| scope.parent)
    }

    /// Levels of enclosing queries the block refers to.
    pub(crate) fn outer_reach(&self) -> u16 {
        self.outer_reach.get()
    }

    /// Notes that something in the block reaches `levels` up.
    pub(crate) fn note_reach(&self, levels: u16) {
        self.outer_reach.set(self.outer_reach.get().max(levels));
    }

    /// Looks a column up in this block only: `None` when there is none, 1052 when there are several.
    pub fn find_here(&self, name: &ast::ColumnRef) -> SqlResult<Option<ColumnAt>> {
        let Some(table) = &name.table else {
            return match self.find_unqualified(&name.name.text)? {
                None => self.find_rowid(None, name),
                found => Ok(found),
            };
        };
        let mut found = None;
        for (t, scope_table) in self.tables.iter().enumerate() {
            let hidden = self
                .hidden
                .get()
                .is_some_and(|(first, end)| t < first || t >= end);
            let is_inside = !scope_table.views.is_empty();
            let is_named = scope_table.is_named(name.schema.as_ref(), table);
            if hidden || is_inside || self.is_unseen(t) || !is_named {
                continue;
            }
            let at = scope_table
                .columns
                .iter()
                .position(|c| same_name(&c.name, &name.name.text));
            if let Some(column) = at {
                if found.is_some() {
                    return Err(errors::ambiguous_column(
                        &full_name(name),
                        self.clause.get().name(),
                    ));
                }
                found = Some(ColumnAt { table: t, column });
            }
        }
        match found {
            None => self.find_rowid(Some(table), name),
            found => Ok(found),
        }
    }

    /// The column that `_rowid` stands for, of the named table, or the only one that has such a column.
    fn find_rowid(
        &self,
        table: Option<&ast::Ident>,
        name: &ast::ColumnRef,
    ) -> SqlResult<Option<ColumnAt>> {
        if !name.name.is("_rowid") {
            return Ok(None);
        }
        let is_meant = |(nth, t): &(usize, &ScopeTable)| {
            let is_named = table.is_none_or(|table| t.is_named(name.schema.as_ref(), table));
            t.views.is_empty() && is_named && !self.is_unseen(*nth)
        };
        let tables = self.tables.iter().enumerate().filter(is_meant);
        let mut columns = tables.filter_map(|(table, t)| {
            let column = t.base_def()?.rowid_column()?;
            Some(ColumnAt { table, column })
        });
        match (columns.next(), columns.next()) {
            (Some(_), Some(_)) => Err(errors::ambiguous_column(
                &name.name.text,
                self.clause.get().name(),
            )),
            (found, _) => Ok(found),
        }
    }

    fn is_unseen(&self, table: usize) -> bool {
        self.unseen.get() >> table & 1 == 1
    }

    fn find_unqualified(&self, name: &str) -> SqlResult<Option<ColumnAt>> {
        let mut found = None;
        let seen = self.names.iter().filter(|at| !self.is_unseen(at.table));
        for &at in seen {
            if same_name(&self.column_at(at).name, name) && found != Some(at) {
                if found.is_some() {
                    return Err(errors::ambiguous_column(name, self.clause.get().name()));
                }
                found = Some(at);
            }
        }
        Ok(found)
    }

    /// Binds a column reference: here, then in the enclosing queries.
    pub(crate) fn resolve(&self, env: &BindEnv<'_>, name: &ast::ColumnRef) -> SqlResult<Expr> {
        let rule = match (self.aliases.rule.get(), self.agg_rule.get()) {
            (AliasUse::Having, AggRule::Nested) => AliasUse::Last,
            (rule, _) => rule,
        };
        let is_nested = self.agg_rule.get() == AggRule::Nested;
        let found = match rule {
            AliasUse::Having => self.in_having(env, name)?,
            _ => match self.find_here(name)? {
                Some(at) => Some(self.read(at)?),
                None if rule == AliasUse::Last => self.selected_last(name)?,
                None => None,
            },
        };
        match found {
            Some(e) if is_nested && e.has_aggregate() => Err(errors::invalid_group_function()),
            Some(e) if !is_nested && rule != AliasUse::No => self.or_rolled_up(name, e),
            Some(e) => Ok(e),
            None => self.resolve_outer(env, name),
        }
    }

    fn resolve_outer(&self, env: &BindEnv<'_>, name: &ast::ColumnRef) -> SqlResult<Expr> {
        if self.clause.get() == Clause::GlobalOrder && name.table.is_some() {
            return Err(self.not_found(name));
        }
        let (mut level, mut depth) = (self.parent, 1u16);
        while let Some(scope) = level {
            if let Some(at) = scope.find_here(name)? {
                scope.admit(at)?;
                self.note_reach(depth);
                if let Some(view) = &scope.tables[at.table].merged {
                    return view.seen_from_below(at.column, depth);
                }
                let kind = ExprKind::Outer {
                    depth,
                    slot: scope.slot_of(at),
                };
                return Ok(Expr {
                    kind,
                    ..scope.column_expr(at)
                });
            }
            if let Some(e) = scope.seen_from_below(env, name, depth, self.aliases.rule.get())? {
                self.note_reach(depth);
                return Ok(e);
            }
            (level, depth) = (scope.parent, depth + 1);
        }
        Err(self.not_found(name))
    }

    /// 1054; 1109 for a column of a table where no table is to be seen; 1250 where only the result is.
    fn not_found(&self, name: &ast::ColumnRef) -> SqlError {
        let sees_none = (0..self.tables.len()).all(|table| self.is_unseen(table));
        match &name.table {
            Some(table) if self.clause.get() == Clause::GlobalOrder => {
                errors::table_of_operand(&table.text)
            }
            Some(table) if self.parent.is_none() && sees_none => {
                errors::unknown_table_in(&table.text, self.clause.get().name())
            }
            _ => errors::unknown_column(full_name(name), self.clause.get().name()),
        }
    }
}

/// `schema.table.column` as written, for messages.
pub(crate) fn full_name(name: &ast::ColumnRef) -> String {
    let mut out = String::new();
    for part in name.schema.iter().chain(&name.table) {
        out.push_str(&part.text);
        out.push('.');
    }
    out.push_str(&name.name.text);
    out
}
