//! Updatable views in statements that change rows: a view becomes part of the block that names it.
//!
//! Its tables take its place in FROM, its WHERE joins the statement's, and the names of its columns stand for its
//! expressions over the same row. So the rows behind a view are found, locked and changed as those of any table. The
//! same is done to derived tables that are only read by `plan::merge`, behind the binder.
//!
//! Neighbours: `from` meets the view; `scope` keeps it as a table that only has names; `dml` asks here what is changed
//! when a column is assigned to, what CHECK OPTION wants, and whether the owner of the view may do it.
//! **Invariants**: what is inside has slots of the block's row from the beginning, so that subqueries in it read that
//! row; no name of the statement finds a table inside.

use std::borrow::Cow;
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use esker_sql_catalog::catalog::{CheckOption, TableDef, TableId, ViewColumn, ViewDef};
use esker_sql_catalog::result::ColumnMeta;
use esker_sql_syntax::ast;
use esker_types::{SqlError, SqlResult};

use super::block::{Body, BoundQuery, JoinNode};
use super::clause::Clause;
use super::filter::bind_filter;
use super::from::bind_from;
use super::query::{define_ctes, table_as_select};
use super::rights::{Need, Restricted};
use super::scope::{ColumnAt, Scope, ScopeColumn, ScopeTable, TableKind};
use super::select::bind_items;
use super::view::{as_seen_outside, invalid, within_query_of};
use super::{BindEnv, QueryPlace, TableSource, errors};
use crate::expr::{Expr, ExprKind};

/// A view that is part of a block.
pub struct MergedView {
    /// Its definition.
    pub def: Arc<ViewDef>,
    /// What its columns stand for.
    pub columns: Vec<Expr>,
    /// WHERE and ON of its query.
    conditions: Vec<Expr>,
    /// Tables that subqueries of its WHERE and ON read, but for those of `views`.
    read_inside: Vec<TableId>,
    /// The views that its query names.
    views: Vec<Rc<MergedView>>,
}

/// A view's query, bound over the row of the block around it.
struct Inside {
    scope: Scope<'static>,
    join: JoinNode,
    /// WHERE of views in it, which does not stand in `join`.
    conditions: Vec<Expr>,
    /// Its own WHERE.
    filter: Option<Expr>,
    /// Tables that subqueries of these conditions read.
    read_inside: Vec<TableId>,
    columns: Vec<(Expr, ColumnMeta)>,
    /// By column: why it may not be read.
    refused: Vec<Option<SqlError>>,
}

/// A view's place in FROM.
pub(super) struct Merged {
    /// Its place among the tables; those inside come behind it.
    pub place: usize,
    pub join: JoinNode,
    /// Conditions on its rows.
    pub conditions: Vec<Expr>,
}

/// Makes an updatable view a part of the block of `scope`; `None` if it has to be a derived table there: an outer join
/// makes NULL of its columns, which it computes.
pub(super) fn merge(
    env: &BindEnv<'_>,
    need: Need,
    scope: &mut Scope<'_>,
    view: &Arc<ViewDef>,
    alias: Option<&str>,
) -> SqlResult<Option<Merged>> {
    let inside = within_query_of(env, view, |query| {
        let _level = env.enter_query()?;
        env.within(QueryPlace::Derived, || {
            bind_inside(env, need, query, scope.width())
        })
    });
    let inside = inside.map_err(|e| as_seen_outside(view, e))?;
    if inside.columns.len() != view.columns.len() {
        return Err(invalid(view));
    }
    let computes = inside.columns.iter().any(|(e, _)| e.as_column().is_none());
    if computes && scope.is_nulled.get() {
        return Ok(None);
    }
    Ok(Some(add(env, scope, view, alias, inside)))
}

fn bind_inside(
    env: &BindEnv<'_>,
    need: Need,
    query: &ast::Query,
    first_slot: u32,
) -> SqlResult<Inside> {
    let with = query.with.as_ref();
    let ctes = with
        .map(|w| define_ctes(w, None, None))
        .transpose()?
        .flatten();
    let select = select_of(&query.body).ok_or_else(errors::no_tables_used)?;
    let mut scope = Scope::inside(None, ctes.as_ref());
    scope.merges_views = true;
    scope.widen(first_slot);
    let is_join = !matches!(*select.from, [ast::TableRef::Table(_)]);
    let first_read = env.tables_read().len();
    let join = bind_from(env, need.inside_view(is_join), &mut scope, &select.from)?;
    let join = join.ok_or_else(errors::no_tables_used)?;
    let conditions = std::mem::take(&mut scope.view_conditions);
    scope.clause.set(Clause::Where);
    let filter = select.filter.as_ref();
    let filter = filter.map(|f| bind_filter(env, &scope, f)).transpose()?;
    let read_inside = env.read_inside_since(first_read);
    scope.clause.set(Clause::FieldList);
    scope.refused = Some(RefCell::default());
    let outputs = bind_items(env, &scope, &select.items)?.into_iter();
    let (columns, refused) = outputs.map(|o| ((o.expr, o.meta), o.refused)).unzip();
    Ok(Inside {
        join,
        conditions,
        filter,
        read_inside,
        columns,
        refused,
        scope,
    })
}

fn add(
    env: &BindEnv<'_>,
    scope: &mut Scope<'_>,
    view: &Arc<ViewDef>,
    alias: Option<&str>,
    inside: Inside,
) -> Merged {
    let place = scope.tables.len();
    let alias: Arc<str> = alias.map_or_else(|| view.name.clone(), Arc::from);
    let join = inside.join.map(&|nth| place + 1 + nth, &Expr::clone);
    let mut own: Vec<Expr> = inside.filter.iter().cloned().collect();
    let mut ons = Vec::new();
    join.conditions(&mut ons);
    own.extend(ons.into_iter().cloned());
    let named = |(column, (e, meta)): (&ViewColumn, &(Expr, ColumnMeta))| ScopeColumn {
        name: column.name.clone(),
        ty: e.ty.clone(),
        meta: ColumnMeta {
            schema: view.schema.clone(),
            table: alias.clone(),
            name: column.name.clone(),
            ..meta.clone()
        },
        invisible: false,
    };
    let columns = view
        .columns
        .iter()
        .zip(&inside.columns)
        .map(named)
        .collect();
    scope.widen(inside.scope.width());
    let tables = inside.scope.tables;
    let named = tables.iter().filter(|t| t.views.is_empty());
    let views: Vec<_> = named.filter_map(|t| t.merged.clone()).collect();
    let is_own = |id: &TableId| !views.iter().any(|view| view.rereads(*id));
    let merged = MergedView {
        read_inside: inside.read_inside.into_iter().filter(is_own).collect(),
        def: view.clone(),
        columns: inside.columns.into_iter().map(|(e, _)| e).collect(),
        conditions: own,
        views,
    };
    let schema = view.schema.clone();
    let mut table = ScopeTable::with_columns(schema, alias, TableKind::Row, columns);
    table.merged = Some(Rc::new(merged));
    let hidden = view.columns.iter().zip(inside.refused);
    let hidden = hidden.filter_map(|(c, e)| Some(((*c.name).into(), as_seen_outside(view, e?))));
    let own = env.names.restricted(&view.schema, &view.name);
    table.restricted = Restricted::by_view(own, &view.name, hidden.collect());
    scope.add_table(table);
    for mut table in tables {
        table.views.push(view.clone());
        scope.tables.push(table);
    }
    Merged {
        place,
        join,
        conditions: inside.conditions.into_iter().chain(inside.filter).collect(),
    }
}

/// The only SELECT of a query.
fn select_of(body: &ast::QueryBody) -> Option<Cow<'_, ast::Select>> {
    match body {
        ast::QueryBody::Select(select) => Some(Cow::Borrowed(select)),
        ast::QueryBody::Table(name) => Some(Cow::Owned(table_as_select(name))),
        _ => None,
    }
}

/// Can rows be changed through a view of this query? As MySQL decides it when the view is made: every row is one of a
/// table, and tables are joined by inner joins. One of them is enough whose rows can be changed.
pub fn is_updatable(env: &BindEnv<'_>, query: &ast::Query, bound: &BoundQuery) -> SqlResult<bool> {
    let (Some(select), Body::Block(block)) = (select_of(&query.body), &bound.body) else {
        return Ok(false);
    };
    let is_plain = is_mergeable(bound)
        && block.output.iter().any(|e| column_behind(e).is_some())
        && block.join.as_ref().is_some_and(JoinNode::is_inner);
    // Which table a view of several changes is known when it is changed (see `rereads`).
    let is_base = |table: &&ScopeTable| table.base_def().is_some();
    let is_of_one = block.tables.iter().filter(is_base).count() == 1;
    if !is_plain || is_of_one && env.reads_again_in_subquery() {
        return Ok(false);
    }
    let ctes: &[ast::Cte] = query.with.as_ref().map_or(&[], |with| &with.ctes);
    has_updatable(env, ctes, &select.from)
}

/// May a view of this query have the algorithm MERGE?
pub fn is_mergeable(bound: &BoundQuery) -> bool {
    let Body::Block(block) = &bound.body else {
        return false;
    };
    block.group.is_none()
        && block.having.is_none()
        && block.windows.calls.is_empty()
        && !block.distinct
        && block.limit.is_none()
        && block.join.is_some()
}

/// The slot of the column that an item of a view's select list changes when it is assigned to. COLLATE says how texts
/// are compared, not where they are.
fn column_behind(item: &Expr) -> Option<u32> {
    match &item.kind {
        ExprKind::Recollate(arg) => column_behind(arg),
        _ => item.as_column(),
    }
}

/// Is one of the tables neither a view that cannot be changed nor computed by the server?
fn has_updatable(env: &BindEnv<'_>, ctes: &[ast::Cte], from: &[ast::TableRef]) -> SqlResult<bool> {
    for table in from {
        let is_updatable = match table {
            ast::TableRef::Table(table) => {
                let (schema, name) = (table.name.schema.as_ref(), &table.name.name);
                let is_cte = schema.is_none() && ctes.iter().any(|c| c.name.text == name.text);
                is_cte
                    || match env
                        .names
                        .table(Need::Read, schema.map(|s| &*s.text), &name.text)?
                    {
                        TableSource::Base(_) => true,
                        TableSource::Virtual(_) => false,
                        TableSource::View(view) => view.updatable,
                    }
            }
            ast::TableRef::List(members) => has_updatable(env, ctes, members)?,
            ast::TableRef::Join(join) => {
                let one = |side| has_updatable(env, ctes, std::slice::from_ref(side));
                one(&join.left)? || one(&join.right)?
            }
            ast::TableRef::Derived { .. } | ast::TableRef::Json { .. } => true,
        };
        if is_updatable {
            return Ok(true);
        }
    }
    Ok(false)
}

impl MergedView {
    /// Does a subquery of its own conditions read the table? UPDATE of that table through the view is refused then.
    pub fn rereads_itself(&self, id: TableId) -> bool {
        self.read_inside.contains(&id)
    }

    /// Does one of its conditions, or of those of views in it? So is INSERT.
    pub fn rereads(&self, id: TableId) -> bool {
        self.rereads_itself(id) || self.views.iter().any(|view| view.rereads(id))
    }

    /// What rows have to meet that are stored through the view: its WITH CHECK OPTION, and those of the views below.
    pub fn checked(&self) -> Vec<Expr> {
        let mut conditions = Vec::new();
        self.add_checked(false, &mut conditions);
        conditions
    }

    /// What all rows meet that the view shows.
    pub fn shown(&self) -> Vec<Expr> {
        let inside = self.views.iter().flat_map(|view| view.shown());
        self.conditions.iter().cloned().chain(inside).collect()
    }

    fn add_checked(&self, is_cascaded: bool, conditions: &mut Vec<Expr>) {
        let option = self.def.check_option;
        let is_cascaded = is_cascaded || option == CheckOption::Cascaded;
        if is_cascaded || option == CheckOption::Local {
            conditions.extend(self.conditions.iter().cloned());
        }
        for view in &self.views {
            view.add_checked(is_cascaded, conditions);
        }
    }

    /// What column `nth` stands for, seen from `depth` blocks further in.
    pub(super) fn seen_from_below(&self, nth: usize, depth: u16) -> SqlResult<Expr> {
        let mut e = self.columns[nth].clone();
        if e.any(&mut |e| matches!(e.kind, ExprKind::Subquery(_) | ExprKind::Outer { .. })) {
            return Err(SqlError::not_supported(
                "a view's subquery inside of another subquery",
            ));
        }
        raise(&mut e, depth);
        Ok(e)
    }
}

/// Turns columns into those of a block `depth` levels up.
fn raise(e: &mut Expr, depth: u16) {
    if let ExprKind::Column(slot) = e.kind {
        e.kind = ExprKind::Outer { depth, slot };
    }
    for child in e.children_mut() {
        raise(child, depth);
    }
}

/// The view as the only table of a block, for a statement that stores rows in it.
///
/// # Errors
/// 1356.
pub fn merged_view<'p>(env: &BindEnv<'_>, need: Need, view: &Arc<ViewDef>) -> SqlResult<Scope<'p>> {
    let mut scope = Scope::new();
    scope.merges_views = true;
    merge(env, need, &mut scope, view, None)?;
    Ok(scope)
}

impl Scope<'_> {
    /// The tables inside of the view at `place`, those of views in it included.
    pub fn inside_view(&self, place: usize) -> std::ops::Range<usize> {
        let behind = self.tables.iter().enumerate().skip(place + 1);
        let mut outside = behind.filter(|(_, t)| t.views.is_empty());
        place + 1..outside.next().map_or(self.tables.len(), |(nth, _)| nth)
    }

    /// Tables that FROM names, those inside of views not counted.
    pub fn named_tables(&self) -> usize {
        self.tables.iter().filter(|t| t.views.is_empty()).count()
    }

    /// Tables that are joined: all but the names of views.
    pub fn joined_tables(&self) -> usize {
        self.tables.iter().filter(|t| t.merged.is_none()).count()
    }

    /// The column of a table that a column stands for that is assigned to; itself, but for those of views.
    ///
    /// # Errors
    /// 1348: the view computes it.
    pub fn assigned(&self, at: ColumnAt) -> SqlResult<ColumnAt> {
        let Some(view) = &self.tables[at.table].merged else {
            return Ok(at);
        };
        let slot = column_behind(&view.columns[at.column]);
        slot.and_then(|slot| self.column_of_slot(slot))
            .ok_or_else(|| errors::column_not_updatable(&self.column_at(at).name))
    }

    /// The stored table at `table` as the view at `place` shows it: under the names of view and columns; what the view
    /// does not show has none.
    pub fn seen_through(&self, place: usize, table: usize) -> Option<Arc<TableDef>> {
        let (view, def) = (
            self.tables[place].merged.as_ref()?,
            self.tables[table].base_def()?,
        );
        let mut seen = TableDef::clone(def);
        (seen.schema, seen.name) = (view.def.schema.clone(), view.def.name.clone());
        for column in &mut seen.columns {
            column.name = "".into();
        }
        for (column, e) in view.def.columns.iter().zip(&view.columns) {
            let at = column_behind(e).and_then(|slot| self.column_of_slot(slot));
            if let Some(at) = at.filter(|at| at.table == table) {
                seen.columns[at.column].name = column.name.clone();
            }
        }
        Some(Arc::new(seen))
    }

    /// The place of `view`, which is in `depth` other views, where it is around the table at `table`.
    fn place_around(&self, table: usize, view: &Arc<ViewDef>, depth: usize) -> Option<usize> {
        let is_it = |t: &ScopeTable| {
            let def = t.merged.as_ref().map(|merged| &merged.def);
            t.views.len() == depth && def.is_some_and(|def| Arc::ptr_eq(def, view))
        };
        self.tables[..table].iter().rposition(is_it)
    }

    /// May `need` be done with columns of a table inside of a view, by the owners of the views around it?
    ///
    /// # Errors
    /// 1356.
    pub fn admit_inside(
        &self,
        env: &BindEnv<'_>,
        need: Need,
        table: usize,
        columns: &[usize],
    ) -> SqlResult<()> {
        let (place, table) = (table, &self.tables[table]);
        let (Some(def), Some(outermost)) = (table.base_def(), table.views.last()) else {
            return Ok(());
        };
        let mut entered = 0;
        let mut admit = || {
            for view in table.views.iter().rev() {
                if entered > 0 {
                    env.names.admit(need, &view.schema, &view.name)?;
                    let around = self.place_around(place, view, entered);
                    let seen = around.and_then(|around| self.seen_through(around, place));
                    if let Some(seen) = seen.filter(|_| !columns.is_empty()) {
                        env.names.check_columns(need, &seen, columns, true)?;
                    }
                }
                env.names.enter_view(view)?;
                entered += 1;
            }
            env.names.admit(need, &def.schema, &def.name)?;
            match columns {
                [] => Ok(()),
                columns => env.names.check_columns(need, def, columns, true),
            }
        };
        let admitted = admit();
        (0..entered).for_each(|_| env.names.leave_view());
        admitted.map_err(|e| as_seen_outside(outermost, e))
    }
}
