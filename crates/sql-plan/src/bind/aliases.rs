//! The select list's names, and what GROUP BY, HAVING, ORDER BY and subqueries make of them.
//!
//! Neighbours: `select` and `order` fill the lists, `scope` asks when it resolves a name. The rules as a
//! user sees them are in `docs/names.md`; `query_tests/testdata/names.tsv` has what MySQL answers.
//! **Invariants**: a name stands for the first item that is an expression, or else for one column, however
//! often it is selected; expressions of the lists are over the block's rows, before grouping.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

use esker_sql_catalog::catalog::same_name;
use esker_sql_syntax::ast;
use esker_types::{Level, SqlResult};

use super::aggregates::reads_some_aggregate;
use super::clause::Clause;
use super::scope::{AggRule, ColumnAt, Scope, full_name};
use super::window::WindowRule;
use super::{BindEnv, errors, subquery};
use crate::expr::{Expr, ExprKind, Kept, walk};

/// Which names of the select list count where an expression stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AliasUse {
    /// None.
    No,
    /// In the select list: in subqueries, where no column has the name.
    Subqueries,
    /// In expressions of GROUP BY and ORDER BY, and in aggregates of HAVING: where no column has the name.
    Last,
    /// In HAVING: names are those of the select list and of GROUP BY.
    Having,
}

/// What is selected, under its name.
#[derive(Clone)]
pub(crate) struct SelectName {
    pub name: Arc<str>,
    pub expr: Expr,
    /// The item is a column and nothing else.
    pub column: Option<ColumnAt>,
    /// The item as it was written, where it contains a subquery.
    pub written: Option<Rc<ast::Expr>>,
}

/// What is grouped by.
pub(crate) struct GroupName {
    /// Name in the select list, if it is an item of that.
    pub name: Option<Arc<str>>,
    pub expr: Expr,
    /// The key is a column and nothing else.
    pub column: Option<ColumnAt>,
}

/// How an item was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FoundBy {
    /// Its name in the select list.
    Alias,
    /// The column that it is, which has another name there.
    Column,
}

/// The names of one block.
pub(crate) struct Aliases {
    /// What counts now.
    pub rule: Cell<AliasUse>,
    pub selected: RefCell<Vec<SelectName>>,
    /// Aliases of the whole select list, while it is being bound (1247).
    pub written: RefCell<Vec<Arc<str>>>,
    pub grouped: RefCell<Vec<GroupName>>,
    /// WITH ROLLUP: items whose name stands for a key and for no other value, and the positions of those keys.
    pub rolled: RefCell<Vec<(usize, usize)>>,
    /// Volatile items whose names stand in HAVING, each with the number of what stands for it there.
    pub judged: RefCell<Vec<(usize, u32)>>,
}

impl Default for Aliases {
    fn default() -> Self {
        Self {
            rule: Cell::new(AliasUse::No),
            selected: RefCell::default(),
            written: RefCell::default(),
            grouped: RefCell::default(),
            rolled: RefCell::default(),
            judged: RefCell::default(),
        }
    }
}

impl Aliases {
    /// An item was bound.
    pub fn add(&self, item: SelectName) {
        self.selected.borrow_mut().push(item);
    }
}

impl Scope<'_> {
    /// The item of the select list that a name stands for, by position.
    ///
    /// # Errors
    /// 1052: two different columns have the name.
    pub(super) fn find_selected(
        &self,
        name: &ast::ColumnRef,
    ) -> SqlResult<Option<(usize, FoundBy)>> {
        let wanted = &*name.name.text;
        let ambiguous = || errors::ambiguous_column(&full_name(name), self.clause.get().name());
        let selected = self.aliases.selected.borrow();
        let same = |a: usize, b: usize| walk::same(&selected[a].expr, &selected[b].expr);
        let (mut named, mut column, mut columns) = (None, None, false);
        for (nth, item) in selected.iter().enumerate() {
            let Some(at) = item.column else {
                if name.table.is_none() && same_name(&item.name, wanted) {
                    return Ok(Some((nth, FoundBy::Alias)));
                }
                continue;
            };
            let is_column = || same_name(&self.column_at(at).name, wanted);
            if let Some(table) = &name.table {
                let is_named = self.tables[at.table].is_named(name.schema.as_ref(), table);
                if is_named && is_column() {
                    if column.is_some_and(|c| !same(c, nth)) {
                        return Err(ambiguous());
                    }
                    column = Some(nth);
                }
            } else if same_name(&item.name, wanted) {
                if named.is_some_and(|n| !same(n, nth)) {
                    return Err(ambiguous());
                }
                named = Some(nth);
            } else if is_column() {
                columns |= column.is_some_and(|c| !same(c, nth));
                column = Some(nth);
            }
        }
        match (named, column) {
            (Some(nth), _) => Ok(Some((nth, FoundBy::Alias))),
            (None, Some(_)) if columns => Err(ambiguous()),
            (None, Some(nth)) => Ok(Some((nth, FoundBy::Column))),
            (None, None) => Ok(None),
        }
    }
}

impl Scope<'_> {
    /// The item that a name stands for, as an expression.
    pub(super) fn selected(&self, name: &ast::ColumnRef) -> SqlResult<Option<Expr>> {
        let Some((nth, _)) = self.find_selected(name)? else {
            return Ok(None);
        };
        let expr = self.aliases.selected.borrow()[nth].expr.clone();
        if expr.has_window() {
            return Err(errors::window::misplaced_alias(&name.name.text));
        }
        Ok(Some(expr))
    }

    /// The same in an expression of GROUP BY, ORDER BY or an aggregate. ORDER BY may read results of window functions.
    pub(super) fn selected_last(&self, name: &ast::ColumnRef) -> SqlResult<Option<Expr>> {
        let may_read = self.windows.rule.get() == WindowRule::Allowed
            && self.agg_rule.get() == AggRule::Allowed;
        match self.find_selected(name)? {
            Some((nth, _)) if may_read => {
                Ok(Some(self.aliases.selected.borrow()[nth].expr.clone()))
            }
            _ => self.selected(name),
        }
    }

    /// The key that an item is under its name; behind GROUP BY … WITH ROLLUP only.
    pub(super) fn rolled_up(&self, item: usize) -> Option<Expr> {
        let rolled = self.aliases.rolled.borrow();
        let (_, key) = rolled.iter().find(|(nth, _)| *nth == item)?;
        let mut expr = self.aliases.grouped.borrow()[*key].expr.clone();
        expr.kind = ExprKind::Key(*key as u32);
        expr.ty.nullable = true;
        Some(expr)
    }

    /// What was found under a name: where that is a key that is rolled up, the key.
    pub(super) fn or_rolled_up(&self, name: &ast::ColumnRef, found: Expr) -> SqlResult<Expr> {
        if self.aliases.rolled.borrow().is_empty() {
            return Ok(found);
        }
        let item = self.find_selected(name)?;
        let is_found = |nth: usize| walk::same(&self.aliases.selected.borrow()[nth].expr, &found);
        let key = item.filter(|(nth, by)| *by == FoundBy::Alias && is_found(*nth));
        Ok(key
            .and_then(|(nth, _)| self.rolled_up(nth))
            .unwrap_or(found))
    }

    /// What a name in HAVING stands for: what is selected or grouped by, where both differ the latter.
    pub(super) fn in_having(
        &self,
        env: &BindEnv<'_>,
        name: &ast::ColumnRef,
    ) -> SqlResult<Option<Expr>> {
        let selected = self.selected(name)?;
        let grouped = self.find_grouped(name)?;
        if let (Some(selected), None) = (&selected, &grouped)
            && selected.is_volatile()
            && let Some((nth, _)) = self.find_selected(name)?
        {
            return Ok(Some(self.judged(env, nth, selected.clone())));
        }
        Ok(match (selected, grouped) {
            (Some(selected), Some(grouped)) if !walk::same(&selected, &grouped) => {
                self.warn_ambiguous(env, name);
                Some(grouped)
            }
            (selected, grouped) => selected.or(grouped),
        })
    }

    /// A volatile item, marked: in a group its value is computed once.
    fn judged(&self, env: &BindEnv<'_>, nth: usize, item: Expr) -> Expr {
        let id = env.subquery_id();
        self.aliases.judged.borrow_mut().push((nth, id));
        Expr {
            ty: item.ty.clone(),
            coer: item.coer,
            kind: ExprKind::Kept(Box::new(Kept {
                id,
                expr: item,
                computes: true,
            })),
        }
    }

    /// The key of GROUP BY that fits a name best.
    fn find_grouped(&self, name: &ast::ColumnRef) -> SqlResult<Option<Expr>> {
        let grouped = self.aliases.grouped.borrow();
        let mut best: Option<(&GroupName, u8)> = None;
        for key in grouped.iter() {
            let fit = self.fit_of(key, name);
            match best {
                _ if fit == 0 => {}
                Some((found, degree)) if fit == degree && !walk::same(&found.expr, &key.expr) => {
                    return Err(errors::ambiguous_column(
                        &full_name(name),
                        self.clause.get().name(),
                    ));
                }
                Some((_, degree)) if fit <= degree => {}
                _ => best = Some((key, fit)),
            }
        }
        Ok(best.map(|(key, _)| key.expr.clone()))
    }

    /// How much of a name a key of GROUP BY has: 0 is nothing.
    fn fit_of(&self, key: &GroupName, name: &ast::ColumnRef) -> u8 {
        let wanted = &*name.name.text;
        let is_alias = key.name.as_ref().is_some_and(|n| same_name(n, wanted));
        if name.table.is_none() && is_alias {
            return 1;
        }
        let Some(at) = key.column else {
            return 0;
        };
        let table = &self.tables[at.table];
        let fits = same_name(&table.columns[at.column].name, wanted)
            && (name.table.as_ref()).is_none_or(|t| table.is_named(name.schema.as_ref(), t));
        match fits {
            true => 1 + u8::from(name.table.is_some()) + u8::from(name.schema.is_some()),
            false => 0,
        }
    }

    /// Warning 1052: a name means one of two things.
    pub(super) fn warn_ambiguous(&self, env: &BindEnv<'_>, name: &ast::ColumnRef) {
        let said = errors::ambiguous_column(&full_name(name), self.clause.get().name());
        env.ctx.warn(Level::Warning, said.code, said.message);
    }

    /// What a name in a subquery, `depth` levels further in, stands for among this block's items. `seen_from`: which
    /// names count in the subquery where it stands.
    ///
    /// # Errors
    /// 1247: the item is not computed yet there.
    pub(super) fn seen_from_below(
        &self,
        env: &BindEnv<'_>,
        name: &ast::ColumnRef,
        depth: u16,
        seen_from: AliasUse,
    ) -> SqlResult<Option<Expr>> {
        let rule = self.aliases.rule.get();
        if rule == AliasUse::No {
            return Ok(None);
        }
        let found = match rule {
            AliasUse::Having => self.in_having(env, name)?,
            _ => self.selected(name)?,
        };
        let text = &*name.name.text;
        let Some(expr) = found else {
            let is_further = |n: &Arc<str>| name.table.is_none() && same_name(n, text);
            return match self.aliases.written.borrow().iter().any(is_further) {
                true => Err(errors::illegal_reference(
                    text,
                    "forward reference in item list",
                )),
                false => Ok(None),
            };
        };
        let has_query = expr.any(&mut |e| matches!(e.kind, ExprKind::Subquery(_)));
        // Only HAVING is sure to be evaluated behind the grouping that the aggregate belongs to, except while that is
        // going on.
        let groups = self.clause.get() == Clause::Group && expr.has_aggregate();
        let may_aggregate = seen_from == AliasUse::Having && !has_query && !groups;
        if !may_aggregate && (expr.has_aggregate() || reads_some_aggregate(self, &expr)) {
            let why = "reference to group function";
            return Err(errors::illegal_reference(text, why));
        }
        if !has_query {
            let mut expr = expr;
            move_down(self, &mut expr, depth);
            return Ok(Some(expr));
        }
        let written = match self.find_selected(name)? {
            Some((nth, _)) => self.aliases.selected.borrow()[nth].written.clone(),
            None => None,
        };
        match written {
            Some(item) => self.bind_below(env, &item, depth).map(Some),
            None => Ok(None),
        }
    }

    /// Binds an item `depth` levels further in, where its names are still those of this block.
    fn bind_below(&self, env: &BindEnv<'_>, item: &ast::Expr, depth: u16) -> SqlResult<Expr> {
        let (rule, aggregates) = (
            self.aliases.rule.replace(AliasUse::No),
            self.agg_rule.replace(AggRule::Forbidden),
        );
        let bound = below_empty(env, self, item, depth);
        self.aliases.rule.set(rule);
        self.agg_rule.set(aggregates);
        bound
    }
}

/// Binds `(SELECT item)` below `depth` blocks without names.
fn below_empty(
    env: &BindEnv<'_>,
    scope: &Scope<'_>,
    item: &ast::Expr,
    depth: u16,
) -> SqlResult<Expr> {
    match depth.checked_sub(1) {
        None => subquery::bind_item(env, scope, item),
        Some(less) => below_empty(env, &Scope::inside(Some(scope), None), item, less),
    }
}

/// Columns and aggregates of the row of `owner` become columns of a row `depth` levels up.
fn move_down(owner: &Scope<'_>, e: &mut Expr, depth: u16) {
    match &mut e.kind {
        ExprKind::Column(slot) => e.kind = ExprKind::Outer { depth, slot: *slot },
        ExprKind::Aggregate(nth) => {
            let slot = owner.aggs.borrow()[*nth as usize].slot;
            e.kind = ExprKind::Outer { depth, slot };
        }
        ExprKind::Outer { depth: levels, .. } => *levels += depth,
        _ => {
            for child in e.children_mut() {
                move_down(owner, child, depth);
            }
        }
    }
}
