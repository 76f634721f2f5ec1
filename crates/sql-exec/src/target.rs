//! The rows an UPDATE or DELETE is about: found, locked, read again under the lock, checked again.
//!
//! Neighbours: `dml` binds its clauses through [`TargetScope`], pulls rows from [`TargetStream`], or
//! the only row there can be from [`TargetPlan::find_one`], and writes; planning and scanning are those
//! of SELECT.
//! **Invariants**: every row given was read while its exclusive lock was held; it is a whole row of
//! the join, in slots: `key_slot` has the clustered key and `row_slot` the stored bytes of each target
//! table (NULL where an outer join found none); a row of one table may come several times in a join.

use std::rc::Rc;
use std::sync::Arc;

use esker_engine::{LockMode, WaitPolicy};
use esker_sql_catalog::catalog::TableDef;
use esker_sql_catalog::exec_error::ExecResult;
use esker_sql_catalog::result::ColumnMeta;
use esker_sql_plan::bind::{
    BindEnv, Block, BlockOrder, Body, BoundQuery, Clause, JoinNode, LockReason, LockSpec, Need,
    Scope, ScopeTable, Volatility, Windows, apply_hints, bind_filter, bind_from, bind_limit,
    bind_row_order, define_ctes, read_computed_columns,
};
use esker_sql_plan::expr::{Expr, ExprKind};
use esker_sql_plan::plan::{AccessKind, Node, QueryPlan, Root, ScanPlan, Source, plan_bound};
use esker_sql_syntax::ast;
use esker_types::{SqlResult, Value};

use super::scan::ScanState;
use super::stream::{RowStream, StatementEnv};
use crate::ExecEnv;

/// Names of an UPDATE or DELETE while it is being bound.
pub struct TargetScope<'e> {
    /// Names; [`bind_expr`](esker_sql_plan::bind::bind_expr) with it binds assignments over the row given by
    /// [`TargetStream::next`].
    pub scope: Scope<'e>,
    join: Option<JoinNode>,
    told: BlockOrder,
    targets: Vec<TargetTable>,
    /// Numbers this statement as one SELECT for EXPLAIN.
    id: u32,
}

/// A table whose rows are changed.
#[derive(Clone)]
pub struct TargetTable {
    /// Its place in the scope.
    pub table: usize,
    /// Its definition.
    pub def: Arc<TableDef>,
    /// Slot of the clustered key, a string.
    pub key_slot: u32,
    /// Slot of the stored row, a string.
    pub row_slot: u32,
}

/// The clauses around the tables.
#[derive(Clone, Copy)]
pub struct TargetClauses<'q> {
    /// Why the rows are locked.
    pub reason: LockReason,
    /// WHERE.
    pub filter: Option<&'q ast::Expr>,
    /// ORDER BY.
    pub order_by: &'q [ast::OrderItem],
    /// LIMIT.
    pub limit: Option<&'q ast::Limit>,
}

/// A planned search for target rows.
pub struct TargetPlan {
    /// Tables whose rows are changed, in the order they were asked for.
    pub targets: Vec<TargetTable>,
    plan: Arc<QueryPlan>,
}

impl<'e> TargetScope<'e> {
    /// Binds WITH and the tables, which the statement names for `need`.
    ///
    /// # Errors
    /// Unknown names.
    pub fn bind(
        env: &BindEnv<'_>,
        need: Need,
        with: Option<&ast::With>,
        tables: &[ast::TableRef],
        hints: Option<&ast::BlockHints>,
    ) -> SqlResult<Self> {
        let id = env.select_id();
        let ctes = with
            .map(|w| define_ctes(w, None, None))
            .transpose()?
            .flatten();
        let mut scope = Scope::inside(None, ctes.as_ref());
        scope.merges_views = true;
        let join = bind_from(env, need, &mut scope, tables)?;
        let told = apply_hints(env, &mut scope, hints);
        Ok(Self {
            scope,
            join,
            told,
            targets: Vec::new(),
            id,
        })
    }

    /// Makes table `table` of the scope one whose rows are changed; `None` when it is no stored table.
    pub fn add_target(&mut self, table: usize) -> Option<&TargetTable> {
        if let Some(at) = self.targets.iter().position(|t| t.table == table) {
            return self.targets.get(at);
        }
        let def = self.scope.tables.get(table)?.base_def()?.clone();
        let (key_slot, row_slot) = (self.scope.new_slot(), self.scope.new_slot());
        let entry = &mut self.scope.tables[table];
        (entry.key_slot, entry.row_slot) = (Some(key_slot), Some(row_slot));
        self.targets.push(TargetTable {
            table,
            def,
            key_slot,
            row_slot,
        });
        self.targets.last()
    }

    /// Binds the clauses and plans the search. Bind assignments before: they may use further columns.
    ///
    /// # Errors
    /// Unknown names, 1111 for aggregates.
    pub fn plan(self, env: &BindEnv<'_>, clauses: &TargetClauses<'_>) -> SqlResult<TargetPlan> {
        let Self {
            scope,
            join,
            told,
            targets,
            id,
        } = self;
        scope.clause.set(Clause::Where);
        let mut filter = clauses
            .filter
            .map(|f| bind_filter(env, &scope, f))
            .transpose()?;
        let mut order = bind_row_order(env, &scope, clauses.order_by)?;
        read_computed_columns(env, &scope, &mut filter, &mut order)?;
        let mut scope = scope;
        let of_views = std::mem::take(&mut scope.view_conditions);
        if !of_views.is_empty() {
            let conditions = filter.into_iter().chain(of_views).collect();
            filter = Some(Expr::all_of(conditions));
        }
        let limit = bind_limit(env, clauses.limit)?;
        let locks = locks_of(&scope.tables, &targets, clauses.reason);
        let width = scope.width();
        let output: Vec<Expr> = (0..width).map(|slot| slot_expr(&scope, slot)).collect();
        let columns = output
            .iter()
            .map(|e| ColumnMeta::computed("", e.ty.clone()))
            .collect();
        let (tables, join, locks) = without_names(scope.tables, join, locks);
        let block = Block {
            id,
            tables,
            names: Vec::new(),
            join,
            filter,
            group: None,
            having: None,
            windows: Windows::default(),
            output,
            distinct: false,
            beside: 0,
            order,
            limit,
            locks,
            width,
            straight_join: told.is_fixed,
            orders: told.orders,
            calc_found_rows: false,
        };
        let body = Body::Block(Box::new(block));
        let query = BoundQuery {
            columns,
            body,
            reach: 0,
            volatility: Volatility::Volatile,
            shared: None,
        };
        Ok(TargetPlan {
            targets,
            plan: plan_bound(env, &Rc::new(query))?,
        })
    }
}

/// The locks on rows of tables, some of which are changed for this reason.
fn locks_of(
    tables: &[ScopeTable],
    targets: &[TargetTable],
    reason: LockReason,
) -> Vec<Option<LockSpec>> {
    // Tables that are only read here decide what is changed.
    let is_stored = |table: &ScopeTable| table.base_def().is_some();
    let source = LockSpec::of_source(LockReason::Source);
    let mut locks: Vec<_> = tables
        .iter()
        .map(|t| is_stored(t).then_some(source))
        .collect();
    for target in targets {
        debug_assert!(locks[target.table].is_some(), "a table of rows is changed");
        locks[target.table] = Some(LockSpec {
            mode: LockMode::Exclusive,
            policy: WaitPolicy::Wait,
            reason,
        });
    }
    locks
}

/// The block without the entries that only name the columns of views.
fn without_names(
    tables: Vec<ScopeTable>,
    join: Option<JoinNode>,
    locks: Vec<Option<LockSpec>>,
) -> (Vec<ScopeTable>, Option<JoinNode>, Vec<Option<LockSpec>>) {
    let is_table: Vec<bool> = tables.iter().map(|t| t.merged.is_none()).collect();
    if is_table.iter().all(|is_table| *is_table) {
        return (tables, join, locks);
    }
    let number = |nth: usize| is_table[..nth].iter().filter(|is_table| **is_table).count();
    let join = join.map(|join| join.map(&number, &Expr::clone));
    let locks = locks.into_iter().zip(&is_table);
    let locks = locks
        .filter(|(_, is_table)| **is_table)
        .map(|(lock, _)| lock);
    let tables = tables.into_iter().filter(|t| t.merged.is_none());
    (tables.collect(), join, locks.collect())
}

/// A slot of the joined row as an expression.
fn slot_expr(scope: &Scope<'_>, slot: u32) -> Expr {
    match scope.column_of_slot(slot) {
        Some(at) => scope.column_expr(at),
        None => {
            let ty = esker_types::SqlType::new(esker_types::TypeKind::LongText);
            let coer = esker_types::collation::Coercibility::Implicit;
            Expr {
                kind: ExprKind::Column(slot),
                ty,
                coer,
            }
        }
    }
}

impl TargetPlan {
    /// Starts the search.
    pub fn open(&self) -> TargetStream {
        TargetStream(RowStream::open(self.plan.clone()))
    }

    /// Estimated rows that have to be looked at.
    pub fn cost_rows(&self) -> f64 {
        self.plan.cost_rows
    }

    /// Are several tables searched? Then a target row may come more than once.
    pub fn is_join(&self) -> bool {
        self.plan.is_join()
    }

    /// The plan, for EXPLAIN.
    pub fn query(&self) -> &Arc<QueryPlan> {
        &self.plan
    }

    /// The look-up that is the whole search, if a unique key decides about the one row.
    fn look_up(&self) -> Option<(&ScanPlan, u32)> {
        let Root::Block(block) = &self.plan.root else {
            return None;
        };
        let (Node::Scan(scan), [_], None) = (&block.source, &*self.targets, &block.limit) else {
            return None;
        };
        match &scan.source {
            Source::Base { access, .. }
                if matches!(access.kind, AccessKind::Point(_)) && block.order.is_empty() =>
            {
                Some((scan, block.width))
            }
            _ => None,
        }
    }

    /// Is the search the look-up of one row? Then [`Self::find_one`] does it.
    pub fn finds_one(&self) -> bool {
        self.look_up().is_some()
    }

    /// Finds and locks the one row there may be, into `found.row`; false if there is none.
    pub fn find_one(&self, found: &mut OneRow, env: &ExecEnv<'_>) -> ExecResult<bool> {
        let Some((scan, width)) = self.look_up() else {
            unreachable!("the caller asked finds_one");
        };
        let OneRow { state, row } = found;
        row.resize(width as usize, Value::Null);
        state.adopt(scan);
        let one = state
            .open(scan, row, env)
            .and_then(|()| state.next(scan, row, env));
        state.close();
        one
    }
}

/// A row found by [`TargetPlan::find_one`], in buffers that are kept between statements.
#[derive(Default)]
pub struct OneRow {
    state: ScanState,
    /// The row's slots; what the search did not fill is left over from another row.
    pub row: Vec<Value>,
}

impl OneRow {
    /// Gives back texts with room for more than `kept` bytes.
    pub fn trim(&mut self, kept: usize) {
        for value in &mut self.row {
            if matches!(value, Value::Str(s) if s.capacity() > kept) {
                *value = Value::Null;
            }
        }
        self.state.trim(kept);
    }
}

/// A running search.
pub struct TargetStream(RowStream);

impl TargetStream {
    /// The next row's slots, lent until the next call.
    pub fn next(&mut self, env: &StatementEnv<'_>) -> ExecResult<Option<&[Value]>> {
        self.0.next(env)
    }
}
