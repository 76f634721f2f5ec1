//! From syntax to bound trees: names, types, comparison kinds, collations.
//!
//! In flow order: `scope` (what names mean), `clause` (where they stand) and `aliases` (those of the select list),
//! `literal`, `variable`, `expr`, `compare`, `between`, `in_list`, `like` and `numbers` (its operands), `text_numbers`
//! (in calculations), `call`, `parameter` and `chosen` (as its argument), `aggregates`, `json` and `json_table`,
//! `array` (multi-valued key parts), `fulltext` (MATCH), `default` (of a column), `subquery` (expressions) · `from`
//! (tables and joins), `partitions` (PARTITION (…)), `hint`, `locks` (of their rows), `filter` (WHERE), `select`,
//! `group` and `dependencies` (functional), `window`, `frame`, `order`, `computed` (generated columns in place of what
//! they compute), `query`, `block`, `recursive` (query blocks, set operations, recursive queries) · `view`, `merged`
//! (views that rows are changed through), `qualify` (queries with their names written out) and `print` (views, and
//! expressions as text) · `rights` (what may be done with a table) · `virt` (computed tables) · `types` (of columns, as
//! written) · `errors` (MySQL's texts). Neighbours: the parser's tree comes in; `plan` chooses how to execute what goes
//! out. The session implements [`Names`].
//!
//! **Invariants**: nothing here reads rows; every error a user can make with names and types is
//! raised here, in MySQL's order and words; binding happens for one execution, so parameters whose
//! values are known are constants.

mod aggregates;
mod aliases;
pub(crate) mod array;
mod between;
mod block;
mod call;
mod chosen;
mod clause;
mod compare;
mod computed;
mod default;
mod dependencies;
pub mod errors;
mod expr;
mod filter;
mod frame;
mod from;
pub(crate) mod fulltext;
mod group;
mod hint;
mod in_list;
pub mod json;
mod json_table;
mod like;
mod literal;
mod locks;
mod merged;
mod numbers;
mod order;
mod parameter;
mod partitions;
mod print;
mod qualify;
mod query;
mod recursive;
mod rights;
mod scope;
mod select;
mod subquery;
mod text_numbers;
pub mod types;
mod variable;
mod view;
pub mod virt;
mod window;

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

use esker_sql_catalog::catalog::{IndexSample, TableDef, TableId, ViewDef};
use esker_sql_syntax::ast;
use esker_types::collation::Collation;
use esker_types::{EvalCtx, SqlError, SqlResult, SqlType, Value};

use crate::bind::virt::VirtualTable;
use crate::expr::{CallStates, EvalEnv, Expr, ExprKind, StoredFunction, UserVars};
use crate::plan::PlanTrace;

pub use array::{Elements, Membership, Wanted, bind_array, wanted_by};
pub use clause::Clause;
pub use computed::read_computed_columns;
pub use expr::{bind_condition, bind_expr};
pub use filter::bind_filter;
pub use hint::{BlockOrder, JoinHint, JoinOrder, TableHints, apply_hints, check_hints};
pub use json_table::JsonTable;
pub use literal::{cast_type, check_array_type};
pub(crate) use locks::LockRules;
pub use merged::{MergedView, is_mergeable, is_updatable, merged_view};
pub use partitions::partition_condition;
pub use scope::{ColumnAt, Scope, ScopeColumn, ScopeTable, TableKind};

pub use block::{
    AggCall, Block, Body, Bound, BoundQuery, Frame, GroupBy, JoinNode, JoinType, LimitSpec,
    LockReason, LockSpec, Offset, OrderKey, SetStep, Volatility, Window, WindowCall, WindowFunc,
    Windows,
};
pub use expr::number_literal;
pub use frame::is_below_zero;
pub use from::{bind_from, equated_slots};
pub use order::bind_row_order;
pub use qualify::qualify;
pub use query::{bind_query, define_ctes};
pub use recursive::{RecursiveBody, RecursiveTable};
pub use rights::column_denied;
pub use rights::{Need, Restricted};
pub use select::bind_limit;
pub(crate) use subquery::move_up;
pub use view::defining_view;
pub use window::whole_number;

/// What a table name stands for.
#[derive(Clone)]
pub enum TableSource {
    /// A stored table.
    Base(Arc<TableDef>),
    /// A computed table.
    Virtual(Arc<dyn VirtualTable>),
    /// A view.
    View(Arc<ViewDef>),
}

/// What the binder asks the session.
pub trait Names {
    /// Resolves a table for `need` (1046 no database, 1049, 1146 unknown, 1142 no privilege). The
    /// implementation takes the metadata lock.
    fn table(&self, need: Need, schema: Option<&str>, name: &str) -> SqlResult<TableSource>;
    /// Value and type of a system variable (1193, 1238).
    fn system_variable(&self, var: &ast::SysVar) -> SqlResult<(Value, SqlType)>;
    /// From here on names are those of the view's query: tables are looked for with the rights of its
    /// definer, or with SQL SECURITY INVOKER with those from before. Always followed by
    /// [`Names::leave_view`], unless it fails (1449: the definer does not exist).
    fn enter_view(&self, _view: &ViewDef) -> SqlResult<()> {
        Ok(())
    }
    /// The view's query is bound.
    fn leave_view(&self) {}
    /// Whose rights the names of a view have, if they are those of one: its CURRENT_USER().
    fn account_in_view(&self) -> Option<String> {
        None
    }
    /// May the statement do `need` with the table? For what is known only when the table was resolved for something
    /// else. 1142 when not.
    fn admit(&self, _need: Need, _schema: &str, _table: &str) -> SqlResult<()> {
        Ok(())
    }
    /// May rows of the table be locked exclusively by a query of this transaction?
    ///
    /// # Errors
    /// 1792, 1290, 1223; 1099 under LOCK TABLES.
    fn admit_row_locks(&self, _table: &TableDef) -> SqlResult<()> {
        Ok(())
    }
    /// May rows of a database's tables be locked exclusively? 3989 when not.
    fn check_writable(&self, _schema: &str) -> SqlResult<()> {
        Ok(())
    }
    /// What may not be done with a table or view that is read; None: it may be read and locked whole.
    fn restricted(&self, _schema: &str, _table: &str) -> Option<Rc<Restricted>> {
        None
    }
    /// May `need` assign these columns? 1143 when not, or 1142 where the statement does not list them.
    fn check_columns(
        &self,
        _need: Need,
        _table: &TableDef,
        _columns: &[usize],
        _listed: bool,
    ) -> SqlResult<()> {
        Ok(())
    }
    /// A stored function that the statement may call (1370 when not), if there is one of this name. `qualified`: it was
    /// written with its database.
    fn stored_function(
        &self,
        _schema: &str,
        _name: &str,
        _qualified: bool,
    ) -> SqlResult<Option<Arc<StoredFunction>>> {
        Ok(None)
    }
    /// A table that foreign keys tie to one of the statement's; whoever runs the statement locks it.
    fn related(&self, _schema: &str, _table: &str) -> Option<Arc<TableDef>> {
        None
    }
    /// A sample of one of a table's indexes, for estimates; `entries` is about what it has.
    fn sample(&self, _table: &TableDef, _index: usize, _entries: f64) -> Option<Arc<IndexSample>> {
        None
    }
}

/// Statement parameters as the binder sees them.
#[derive(Clone, Copy)]
pub enum Params<'a> {
    /// Values of this execution: parameters become constants.
    Values(&'a [Value]),
    /// The same with types of their own: variables of a stored program.
    Typed(&'a [Value], &'a [SqlType]),
    /// Types only (preparing, or a plan made for many executions): parameters are read at run time.
    Types(&'a [SqlType]),
}

/// What binding one statement needs.
pub struct BindEnv<'a> {
    /// Modes, connection collation, clock; also evaluates constant expressions.
    pub ctx: &'a EvalCtx<'a>,
    /// User variables (types of `@x`).
    pub vars: &'a dyn UserVars,
    /// The session's names.
    pub names: &'a dyn Names,
    /// Parameters.
    pub params: Params<'a>,
    /// Parameters are variables of a stored program.
    pub of_program: bool,
    /// EXPLAIN or a prepare: nothing with an effect may be evaluated.
    pub describe_only: bool,
    /// A bound function waits (SLEEP, GET_LOCK).
    pub blocks: Cell<bool>,
    /// The statement calls a stored function.
    pub calls: Cell<bool>,
    /// User variables that the statement assigns, and what collation they have behind that.
    assigned: RefCell<HashMap<String, Collation>>,
    /// The statement changes rows: warnings of values may be errors when it runs.
    pub changes_rows: Cell<bool>,
    /// It changes them in strict mode, without IGNORE.
    pub changes_strictly: Cell<bool>,
    /// How rows of stored tables are locked.
    pub locks: LockRules,
    /// Estimated rows from which on several threads read.
    pub parallel_rows: u64,
    /// Gets told what the planner considers.
    pub trace: Option<&'a PlanTrace>,
    /// Tables that the statement changes (1093).
    targets: RefCell<Vec<ChangedTable>>,
    /// Stored tables that queries of the statement read, and whether in a subquery.
    reads: RefCell<Vec<(esker_sql_catalog::catalog::TableId, bool)>>,
    /// The outermost view in the subquery that is being bound.
    read_through: RefCell<Option<ReadThrough>>,
    /// Views whose queries are being bound, the outermost first.
    views: RefCell<Vec<(Arc<str>, Arc<str>)>>,
    /// The collation of literals in the view that is being bound.
    literals: Cell<Option<Collation>>,
    /// Where the query being bound stands.
    place: Cell<QueryPlace>,
    /// Somewhere around it is a subquery.
    is_in_subquery: Cell<bool>,
    /// What the query that is bound next is for.
    purpose: Cell<Purpose>,
    next_subquery: Cell<u32>,
    /// Bound queries of subqueries, by number: the planner may join them.
    subqueries: RefCell<HashMap<u32, Rc<BoundQuery>>>,
    /// Blocks that were planned a second time, with subqueries joined.
    planned_again: Cell<u32>,
    next_select: Cell<u32>,
    nesting: Cell<Nesting>,
    fold_calls: CallStates,
    /// By parameter: the type it meets first. Kept only when a prepare asks.
    met: RefCell<Vec<Option<SqlType>>>,
}

/// A table that the statement changes.
#[derive(Clone)]
struct ChangedTable {
    id: esker_sql_catalog::catalog::TableId,
    /// Only this alias means the table that is changed; another one another reading of it.
    same_alias: Option<Arc<str>>,
    named: TargetName,
}

/// How errors name what a statement changes.
#[derive(Clone)]
pub struct TargetName {
    /// Alias of the table or of the view.
    pub alias: Arc<str>,
    /// `INSERT`, `UPDATE` or `DELETE`.
    pub verb: &'static str,
    /// Schema and name of the view.
    pub view: Option<(Arc<str>, Arc<str>)>,
}

/// A view in a subquery through which tables are read.
#[derive(Clone)]
struct ReadThrough {
    /// Its schema and name.
    view: (Arc<str>, Arc<str>),
    alias: Arc<str>,
}

impl TargetName {
    /// 1093 or 1443, as MySQL chooses: a subquery reads what is changed.
    fn refusal(&self, read: Option<&ReadThrough>) -> SqlError {
        let is_read = |view: &(Arc<str>, Arc<str>)| read.is_some_and(|read| read.view == *view);
        match (&self.view, read) {
            (Some(view), _) if is_read(view) => errors::target_table_used(&self.alias),
            (None, None) => errors::target_table_used(&self.alias),
            (_, Some(read)) => errors::view_prevents(&read.alias, self.verb, &self.alias),
            (Some(_), None) => errors::view_prevents(&self.alias, self.verb, &self.alias),
        }
    }
}

/// Where a query stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum QueryPlace {
    /// It is the statement, or its source of rows.
    Statement,
    /// In a subquery of an expression.
    Subquery,
    /// In a derived table, a common table expression or a view, however deep inside.
    Derived,
}

/// What the query around one makes of its rows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// Their order matters, too.
    #[default]
    InOrder,
    /// They are those of a member of a set operation: ORDER BY without LIMIT is resolved and dropped.
    InAnyOrder,
    /// EXISTS, IN, ANY or ALL ask whether one fits: groups of one row each are dropped as well.
    OneThatFits,
}

/// Deepest nesting of a statement with its common table expressions put where they are named; planning,
/// running and dropping a query recurse this deep.
const MAX_NESTING: u32 = 1000;
/// What a query inside a query counts for in [`MAX_NESTING`]: its frames are larger than an expression's.
const QUERY_NESTING: u32 = 8;
/// Most query blocks of a statement with its common table expressions put where they are named.
const MAX_BLOCKS: u32 = 16_384;

/// Most blocks of a statement that are planned in two forms.
const MAX_PLANNED_AGAIN: u32 = 64;

/// After so many expressions a long statement asks whether it may go on.
const EXPRS_PER_LOOK: u32 = 1024;
/// What an expression takes in a plan, about.
const PLAN_BYTES_PER_EXPR: usize = 256;

/// Size of the statement so far. The parser bounds what is written; a common table expression that
/// names others makes more of it.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Nesting {
    /// Where the binder is.
    depth: u32,
    /// Largest depth met.
    deepest: u32,
    /// Query blocks met.
    blocks: u32,
    /// Expressions met.
    exprs: u32,
}

/// Puts the depth back when a level is left.
pub(crate) struct Level<'a>(&'a Cell<Nesting>, u32);

impl Drop for Level<'_> {
    fn drop(&mut self) {
        let mut n = self.0.get();
        n.depth -= self.1;
        self.0.set(n);
    }
}

impl<'a> BindEnv<'a> {
    /// An environment for one statement.
    pub fn new(
        ctx: &'a EvalCtx<'a>,
        vars: &'a dyn UserVars,
        names: &'a dyn Names,
        params: Params<'a>,
    ) -> Self {
        Self {
            ctx,
            vars,
            names,
            params,
            of_program: false,
            describe_only: false,
            blocks: Cell::new(false),
            calls: Cell::new(false),
            assigned: RefCell::default(),
            changes_rows: Cell::new(false),
            changes_strictly: Cell::new(false),
            locks: LockRules::default(),
            parallel_rows: u64::MAX,
            trace: None,
            targets: RefCell::new(Vec::new()),
            read_through: RefCell::new(None),
            reads: RefCell::new(Vec::new()),
            views: RefCell::new(Vec::new()),
            literals: Cell::new(None),
            place: Cell::new(QueryPlace::Statement),
            purpose: Cell::default(),
            is_in_subquery: Cell::new(false),
            next_subquery: Cell::new(0),
            subqueries: RefCell::default(),
            planned_again: Cell::new(0),
            next_select: Cell::new(0),
            nesting: Cell::default(),
            fold_calls: CallStates::default(),
            met: RefCell::default(),
        }
    }

    /// The same environment, as new, with other user variables.
    pub fn with_vars<'b>(&'b self, vars: &'b dyn UserVars) -> BindEnv<'b> {
        let mut env = BindEnv::new(self.ctx, vars, self.names, self.params);
        env.parallel_rows = self.parallel_rows;
        env.trace = self.trace;
        env.changes_rows.set(self.changes_rows.get());
        env.changes_strictly.set(self.changes_strictly.get());
        env.locks.read_for(self.locks.read_for_what());
        env.targets.replace(self.targets.borrow().clone());
        env
    }

    /// The collation of literals, and of CAST to CHAR without another: the session's, in a view that of the session
    /// that created it.
    pub(crate) fn literal_collation(&self) -> Collation {
        let of_view = self.literals.get();
        of_view.unwrap_or(self.ctx.collation_connection)
    }

    /// The statement assigns a user variable: what reads it from here on gets text of this collation.
    fn note_assigned(&self, var: &str, collation: Collation) {
        let mut assigned = self.assigned.borrow_mut();
        assigned.insert(var.to_ascii_lowercase(), collation);
    }

    /// Does the statement assign user variables?
    pub(crate) fn assigns(&self) -> bool {
        !self.assigned.borrow().is_empty()
    }

    /// The collation of what the statement has assigned to a user variable last.
    fn assigned_collation(&self, var: &str) -> Option<Collation> {
        let assigned = self.assigned.borrow();
        if assigned.is_empty() {
            return None;
        }
        assigned.get(&var.to_ascii_lowercase()).copied()
    }

    /// The statement changes this table: subqueries bound from here on may not read it, or, of INSERT and
    /// REPLACE into a table itself, not under this alias.
    pub fn note_target(&self, table: &TableDef, named: TargetName) {
        let has_own_alias = named.verb == "INSERT" && named.view.is_none();
        self.targets.borrow_mut().push(ChangedTable {
            id: table.id,
            same_alias: has_own_alias.then(|| named.alias.clone()),
            named,
        });
    }

    /// Binds the query of a view: in a subquery one that can be a part of it reads its tables for it.
    fn within_view<T>(&self, view: &ViewDef, alias: &str, bind: impl FnOnce() -> T) -> T {
        if self.place.get() != QueryPlace::Subquery || !view.updatable {
            return self.within(QueryPlace::Derived, bind);
        }
        let outer = self.read_through.borrow().clone();
        let through = outer.clone().unwrap_or_else(|| ReadThrough {
            view: (view.schema.clone(), view.name.clone()),
            alias: alias.into(),
        });
        self.read_through.replace(Some(through));
        let result = bind();
        self.read_through.replace(outer);
        result
    }

    /// May the table be read here? 1093 or 1443 in a subquery of a statement that changes it; a derived table is
    /// filled before the first change, so it and what is inside of it may read anything.
    pub(crate) fn check_readable(&self, table: &TableDef, alias: &str) -> SqlResult<()> {
        let place = self.is_in_subquery.get();
        self.reads.borrow_mut().push((table.id, place));
        if self.place.get() != QueryPlace::Subquery {
            return Ok(());
        }
        let means_it = |t: &ChangedTable| t.same_alias.as_ref().is_none_or(|own| **own == *alias);
        let targets = self.targets.borrow();
        let changed = targets.iter().find(|t| t.id == table.id && means_it(t));
        match changed {
            Some(target) => Err(target.named.refusal(self.read_through.borrow().as_ref())),
            None => Ok(()),
        }
    }

    /// The database in which a name without one is looked for: the view's inside of a view.
    pub(crate) fn current_schema(&self) -> Option<Arc<str>> {
        let views = self.views.borrow();
        match views.last() {
            Some((schema, _)) => Some(schema.clone()),
            None => self.ctx.session.database().map(Arc::from),
        }
    }

    /// Does a query that was bound read the table?
    pub fn reads(&self, table: &TableDef) -> bool {
        self.reads.borrow().iter().any(|(id, _)| *id == table.id)
    }

    /// The tables that the statement reads so far.
    pub fn tables_read(&self) -> Vec<TableId> {
        self.reads.borrow().iter().map(|(id, _)| *id).collect()
    }

    /// Those that subqueries read, but for the `first` tables that were read.
    fn read_inside_since(&self, first: usize) -> Vec<TableId> {
        let reads = self.reads.borrow();
        let inside = reads[first..].iter().filter(|(_, is_inside)| *is_inside);
        inside.map(|(id, _)| *id).collect()
    }

    /// Does a subquery read a table that is read outside of it, too?
    fn reads_again_in_subquery(&self) -> bool {
        let reads = self.reads.borrow();
        let mut inside = reads.iter().filter(|(_, is_inside)| *is_inside);
        inside.any(|(id, _)| reads.contains(&(*id, false)))
    }

    /// Runs `f` inside of a subquery, or of a derived table.
    pub(crate) fn within<T>(&self, place: QueryPlace, f: impl FnOnce() -> T) -> T {
        let before = (self.place.get(), self.is_in_subquery.get());
        self.place.set(before.0.max(place));
        self.is_in_subquery
            .set(before.1 || place == QueryPlace::Subquery);
        let result = f();
        self.place.set(before.0);
        self.is_in_subquery.set(before.1);
        result
    }

    /// Remembers the type that a parameter is compared with, assigned to or needed as.
    pub fn meets(&self, param: &Expr, ty: &SqlType) {
        let ExprKind::Param(nth) = param.kind else {
            return;
        };
        if !self.describe_only {
            return;
        }
        let (nth, mut met) = (nth as usize, self.met.borrow_mut());
        if met.len() <= nth {
            met.resize(nth + 1, None);
        }
        met[nth].get_or_insert_with(|| ty.clone());
    }

    /// The types that parameters met; shorter than the list of parameters where the last met none.
    pub fn met_types(&self) -> Vec<Option<SqlType>> {
        self.met.take()
    }

    /// Number for the next subquery of the statement.
    pub(crate) fn subquery_id(&self) -> u32 {
        let id = self.next_subquery.get();
        self.next_subquery.set(id + 1);
        id
    }

    /// Keeps what was bound of a subquery.
    pub(crate) fn keep_subquery(&self, id: u32, bound: Rc<BoundQuery>) {
        self.subqueries.borrow_mut().insert(id, bound);
    }

    /// What was bound of a subquery.
    pub(crate) fn subquery(&self, id: u32) -> Option<Rc<BoundQuery>> {
        self.subqueries.borrow().get(&id).cloned()
    }

    /// May one more block be planned a second time? One in another is planned again with each that is around it.
    pub(crate) fn may_plan_again(&self) -> bool {
        let planned = self.planned_again.get();
        self.planned_again.set(planned + 1);
        planned < MAX_PLANNED_AGAIN
    }

    /// Number of the next SELECT, from 1 (EXPLAIN's `id`).
    pub fn select_id(&self) -> u32 {
        self.next_select.set(self.next_select.get() + 1);
        self.next_select.get()
    }

    /// One expression further in, until the guard goes.
    ///
    /// # Errors
    /// 1473; the statement may not go on, or there is no memory for its plan.
    pub(crate) fn enter_expr(&self) -> SqlResult<Level<'_>> {
        let mut n = self.nesting.get();
        n.exprs = n.exprs.wrapping_add(1);
        self.nesting.set(n);
        if n.exprs.is_multiple_of(EXPRS_PER_LOOK) {
            let bytes = EXPRS_PER_LOOK as usize * PLAN_BYTES_PER_EXPR;
            self.ctx.session.go_on(bytes)?;
        }
        self.enter(1, 0)
    }

    /// One query further in, until the guard goes.
    ///
    /// # Errors
    /// 1473.
    pub(crate) fn enter_query(&self) -> SqlResult<Level<'_>> {
        self.enter(QUERY_NESTING, 1)
    }

    fn enter(&self, levels: u32, blocks: u32) -> SqlResult<Level<'_>> {
        self.grow(levels, blocks)?;
        let mut n = self.nesting.get();
        n.depth += levels;
        self.nesting.set(n);
        Ok(Level(&self.nesting, levels))
    }

    /// Something of this height and this many query blocks stands here.
    fn grow(&self, height: u32, blocks: u32) -> SqlResult<()> {
        let mut n = self.nesting.get();
        n.deepest = n.deepest.max(n.depth.saturating_add(height));
        n.blocks = n.blocks.saturating_add(blocks);
        if n.deepest > MAX_NESTING || n.blocks > MAX_BLOCKS {
            return Err(errors::selects_nest_too_deep());
        }
        self.nesting.set(n);
        Ok(())
    }

    /// Measures what `bind` binds, which stands elsewhere, too: its height and its query blocks. The height adds to
    /// that of here meanwhile, because so does the stack.
    pub(crate) fn measure<T>(
        &self,
        bind: impl FnOnce() -> SqlResult<T>,
    ) -> SqlResult<(T, [u32; 2])> {
        let outside = self.nesting.get();
        self.nesting.set(Nesting {
            depth: outside.depth,
            deepest: outside.depth,
            blocks: 0,
            exprs: 0,
        });
        let bound = bind();
        let inside = self.nesting.replace(outside);
        Ok((bound?, [inside.deepest - outside.depth, inside.blocks]))
    }

    /// What was measured stands here.
    ///
    /// # Errors
    /// 1473.
    pub(crate) fn place(&self, measured: [u32; 2]) -> SqlResult<()> {
        self.grow(measured[0], measured[1])
    }

    /// An environment to evaluate constants in.
    pub(crate) fn fold_env(&self) -> EvalEnv<'_> {
        EvalEnv::scalar(self.ctx, self.vars, &self.fold_calls)
    }

    /// Evaluates something for an estimate. What is wrong with a value is told when rows are looked for.
    pub(crate) fn foresee<T>(&self, evaluate: impl FnOnce(&EvalEnv<'_>) -> T) -> T {
        let diagnostics = &self.ctx.diagnostics;
        let (mark, strict) = (diagnostics.mark(), diagnostics.strict_write.replace(false));
        let value = evaluate(&self.fold_env());
        diagnostics.strict_write.set(strict);
        diagnostics.undo_to(mark);
        value
    }
}
