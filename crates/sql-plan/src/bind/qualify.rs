//! A query with its names written out: every column with its table, every table with its database, `*` as columns,
//! NATURAL and USING as conditions, positions as what they stand for.
//!
//! Neighbours: `from` and `scope` decide what a name means, the session stores views in this form, with the printer
//! behind it.
//! **Invariants**: the query has been bound before, so a name that is not found here is one of the select list's and
//! stays; the tree means the same as before.

use std::rc::Rc;

use esker_sql_catalog::catalog::same_name;
use esker_sql_syntax::ast::{self, PartMut, SelectItem, TableRef};
use esker_types::SqlResult;
use esker_types::func::aggregate;

use super::from::{bind_from, joined_names, natural_columns, using_columns};
use super::query::{define_ctes, table_as_select};
use super::rights::Need;
use super::scope::{ColumnAt, CteEntry, Scope};
use super::{BindEnv, errors};

/// What a query stands for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    /// Rows whose columns have names.
    Rows,
    /// A value or a list of values: columns have the names that were given.
    Value,
    /// Whether there are rows: columns do not matter.
    Exists,
}

/// Enclosing names of a query.
#[derive(Clone, Copy)]
struct Around<'a> {
    parent: Option<&'a Scope<'a>>,
    ctes: Option<&'a Rc<CteEntry>>,
}

/// Columns and tables of one side of a join.
struct Side {
    names: Vec<ColumnAt>,
    first: usize,
    end: usize,
}

/// Writes the names of a query out that has been bound.
///
/// # Errors
/// Those of binding.
pub fn qualify(env: &BindEnv<'_>, query: &mut ast::Query) -> SqlResult<()> {
    let around = Around {
        parent: None,
        ctes: None,
    };
    in_query(env, query, Place::Rows, around)
}

fn in_query(
    env: &BindEnv<'_>,
    query: &mut ast::Query,
    place: Place,
    around: Around<'_>,
) -> SqlResult<()> {
    let _level = env.enter_query()?;
    let own = match &mut query.with {
        Some(with) => in_with(env, with, around)?,
        None => around.ctes.cloned(),
    };
    let around = Around {
        ctes: own.as_ref(),
        ..around
    };
    let order = Order {
        items: &mut query.order_by,
        limited: query.limit.is_some(),
    };
    in_body(env, &mut query.body, order, place, around)
}

/// The common table expressions; what names after WITH may refer to.
fn in_with(
    env: &BindEnv<'_>,
    with: &mut ast::With,
    around: Around<'_>,
) -> SqlResult<Option<Rc<CteEntry>>> {
    let mut reachable = around.ctes.cloned();
    for cte in &mut with.ctes {
        let one = ast::With {
            recursive: with.recursive,
            ctes: vec![cte.clone()],
        };
        let with_itself = define_ctes(&one, around.parent, reachable.as_ref())?;
        let inside = if with.recursive {
            &with_itself
        } else {
            &reachable
        };
        let around = Around {
            ctes: inside.as_ref(),
            ..around
        };
        in_query(env, &mut cte.query, Place::Rows, around)?;
        reachable = with_itself;
    }
    Ok(reachable)
}

/// ORDER BY behind a query's body.
struct Order<'o> {
    items: &'o mut [ast::OrderItem],
    /// There is a LIMIT.
    limited: bool,
}

fn in_body(
    env: &BindEnv<'_>,
    body: &mut ast::QueryBody,
    order: Order<'_>,
    place: Place,
    around: Around<'_>,
) -> SqlResult<()> {
    if let ast::QueryBody::Table(name) = body {
        *body = ast::QueryBody::Select(Box::new(table_as_select(name)));
    }
    match body {
        ast::QueryBody::Select(select) => in_block(env, select, order, place, around),
        ast::QueryBody::Nested(query) => in_query(env, query, place, around),
        ast::QueryBody::Values(rows) => {
            let scope = Scope::inside(around.parent, around.ctes);
            rows.iter_mut()
                .flatten()
                .try_for_each(|e| in_expr(env, &scope, e))
        }
        ast::QueryBody::SetOps { first, rest } => {
            let none = || Order {
                items: &mut [],
                limited: false,
            };
            in_body(env, first, none(), place, around)?;
            for step in rest {
                in_body(env, &mut step.right, none(), place, around)?;
            }
            for item in order.items {
                if let Some(name) = nth(&item.expr).and_then(|nth| item_name(first, nth)) {
                    item.expr = bare(name);
                }
            }
            Ok(())
        }
        ast::QueryBody::Table(_) => Ok(()),
    }
}

/// The select-list position that an item of GROUP BY or ORDER BY is.
fn nth(expr: &ast::Expr) -> Option<usize> {
    match expr {
        ast::Expr::Literal(ast::Literal::Int(n)) => usize::try_from(*n).ok()?.checked_sub(1),
        _ => None,
    }
}

/// The name of a column of the first block.
fn item_name(body: &ast::QueryBody, nth: usize) -> Option<ast::Ident> {
    match body {
        ast::QueryBody::Select(select) => match select.items.get(nth)? {
            SelectItem::Expr { expr, alias, text } => Some(name_of(expr, alias.as_ref(), text)),
            _ => None,
        },
        ast::QueryBody::SetOps { first, .. } => item_name(first, nth),
        ast::QueryBody::Nested(query) => item_name(&query.body, nth),
        _ => None,
    }
}

fn name_of(expr: &ast::Expr, alias: Option<&ast::Ident>, text: &str) -> ast::Ident {
    match (alias, expr) {
        (Some(alias), _) => alias.clone(),
        (None, ast::Expr::Column(column)) => column.name.clone(),
        (None, _) => ast::Ident::new(text),
    }
}

fn bare(name: ast::Ident) -> ast::Expr {
    ast::Expr::Column(ast::ColumnRef {
        schema: None,
        table: None,
        name,
    })
}

fn in_block(
    env: &BindEnv<'_>,
    select: &mut ast::Select,
    order: Order<'_>,
    place: Place,
    around: Around<'_>,
) -> SqlResult<()> {
    let mut scope = Scope::inside(around.parent, around.ctes);
    bind_from(env, Need::Read, &mut scope, &select.from)?;
    let visible = scope.names.clone();
    let mut at = 0;
    for entry in &mut select.from {
        in_table(env, &mut scope, entry, &mut at)?;
    }
    scope.names = visible;
    write_stars(&scope, select, place);
    for item in &mut select.items {
        let SelectItem::Expr { expr, alias, text } = item else {
            continue;
        };
        if place == Place::Rows {
            *alias = Some(name_of(expr, alias.as_ref(), text));
        }
        in_expr(env, &scope, expr)?;
    }
    if let Some(filter) = &mut select.filter {
        in_expr(env, &scope, filter)?;
    }
    for (_, window) in &mut select.windows {
        for e in window.exprs_mut() {
            in_expr(env, &scope, e)?;
        }
    }
    let given = Given::of(select);
    for key in &mut select.group_by {
        match nth(key).and_then(|nth| given.exprs.get(nth)) {
            Some(expr) => *key = expr.clone(),
            None => in_expr(env, &scope, key)?,
        }
    }
    if let Some(having) = &mut select.having {
        in_having(env, &scope, &given, having)?;
    }
    let keeps_names = order.limited
        || select.distinct
        || !select.group_by.is_empty()
        || given.computes(order.items);
    for item in order.items {
        in_order(env, &scope, &given, keeps_names, &mut item.expr)?;
    }
    Ok(())
}

/// What the select list gives names to.
struct Given {
    names: Vec<Option<Box<str>>>,
    exprs: Vec<ast::Expr>,
}

impl Given {
    fn of(select: &ast::Select) -> Self {
        let (mut names, mut exprs) = (Vec::new(), Vec::new());
        for item in &select.items {
            if let SelectItem::Expr { expr, alias, .. } = item {
                // A column under its own name is the column.
                let own = matches!((expr, alias), (ast::Expr::Column(c), Some(a)) if c.name == *a);
                let name = alias.as_ref().filter(|_| !own);
                names.push(name.map(|a| a.text.clone()));
                exprs.push(expr.clone());
            }
        }
        Self { names, exprs }
    }

    /// The item that an unqualified name stands for.
    fn named(&self, expr: &ast::Expr) -> Option<usize> {
        let ast::Expr::Column(column) = expr else {
            return None;
        };
        let name = column.table.is_none().then_some(&column.name.text)?;
        let is = |n: &Option<Box<str>>| n.as_ref().is_some_and(|n| same_name(n, name));
        self.names.iter().position(is)
    }

    /// Are there aggregates or window functions?
    fn computes(&self, order_by: &[ast::OrderItem]) -> bool {
        let ordered = order_by.iter().map(|item| &item.expr);
        self.exprs.iter().chain(ordered).any(computes)
    }
}

fn computes(expr: &ast::Expr) -> bool {
    if let ast::Expr::Call(call) = expr
        && (call.over.is_some() || aggregate::lookup(&call.name.text).is_some())
    {
        return true;
    }
    expr.clone().parts_mut().into_iter().any(|part| match part {
        PartMut::Expr(e) => computes(e),
        PartMut::Column(_) | PartMut::Query(_) => false,
    })
}

/// HAVING: names of the select list come first.
fn in_having(
    env: &BindEnv<'_>,
    scope: &Scope<'_>,
    given: &Given,
    expr: &mut ast::Expr,
) -> SqlResult<()> {
    if given.named(expr).is_some() {
        return Ok(());
    }
    if matches!(expr, ast::Expr::Call(_)) {
        return in_expr(env, scope, expr);
    }
    for part in expr.parts_mut() {
        match part {
            PartMut::Expr(e) => in_having(env, scope, given, e)?,
            part => in_part(env, scope, part, Place::Value)?,
        }
    }
    Ok(())
}

/// ORDER BY: a name of the select list is what it stands for, but where rows are grouped, distinct or limited it stays.
fn in_order(
    env: &BindEnv<'_>,
    scope: &Scope<'_>,
    given: &Given,
    keeps_names: bool,
    expr: &mut ast::Expr,
) -> SqlResult<()> {
    match (nth(expr), given.named(expr)) {
        (Some(nth), _) => {
            if let Some(item) = given.exprs.get(nth) {
                *expr = item.clone();
            }
            Ok(())
        }
        (None, Some(_)) if keeps_names => Ok(()),
        (None, Some(nth)) => {
            *expr = given.exprs[nth].clone();
            Ok(())
        }
        (None, None) => in_expr(env, scope, expr),
    }
}

/// `*` as columns.
fn write_stars(scope: &Scope<'_>, select: &mut ast::Select, place: Place) {
    let mut items = Vec::with_capacity(select.items.len());
    for item in select.items.drain(..) {
        let columns: Vec<ColumnAt> = match &item {
            SelectItem::Expr { .. } => {
                items.push(item);
                continue;
            }
            _ if place == Place::Exists => {
                items.push(SelectItem::Expr {
                    expr: ast::Expr::Literal(ast::Literal::Int(1)),
                    alias: None,
                    text: "1".into(),
                });
                continue;
            }
            SelectItem::Wildcard => {
                let names = scope.names.iter().copied();
                names.filter(|at| scope.is_in_star(*at)).collect()
            }
            SelectItem::TableWildcard { schema, table } => {
                let is_it = |t: &usize| scope.tables[*t].is_named(schema.as_ref(), table);
                let tables = (0..scope.tables.len()).filter(is_it);
                let columns = |table: usize| {
                    let columns = scope.tables[table].columns.iter().enumerate();
                    let seen = columns.filter(|(_, column)| !column.invisible);
                    seen.map(move |(column, _)| ColumnAt { table, column })
                };
                tables.flat_map(columns).collect()
            }
        };
        items.extend(columns.iter().map(|at| SelectItem::Expr {
            expr: ast::Expr::Column(reference(scope, *at)),
            alias: None,
            text: (*scope.column_at(*at).name).into(),
        }));
    }
    select.items = items;
}

/// The column with its table.
fn reference(scope: &Scope<'_>, at: ColumnAt) -> ast::ColumnRef {
    let table = &scope.tables[at.table];
    ast::ColumnRef {
        schema: (!table.schema.is_empty()).then(|| ast::Ident::new(&*table.schema)),
        table: Some(ast::Ident::new(&*table.alias)),
        name: ast::Ident::new(&*table.columns[at.column].name),
    }
}

fn in_expr(env: &BindEnv<'_>, scope: &Scope<'_>, expr: &mut ast::Expr) -> SqlResult<()> {
    let place = match expr {
        ast::Expr::Exists(_) => Place::Exists,
        _ => Place::Value,
    };
    expr.parts_mut()
        .into_iter()
        .try_for_each(|part| in_part(env, scope, part, place))
}

fn in_part(env: &BindEnv<'_>, scope: &Scope<'_>, part: PartMut<'_>, place: Place) -> SqlResult<()> {
    match part {
        PartMut::Expr(expr) => in_expr(env, scope, expr),
        PartMut::Column(column) => {
            write_column(scope, column);
            Ok(())
        }
        PartMut::Query(query) => {
            let around = Around {
                parent: Some(scope),
                ctes: scope.ctes.as_ref(),
            };
            in_query(env, query, place, around)
        }
    }
}

fn write_column(scope: &Scope<'_>, column: &mut ast::ColumnRef) {
    let mut levels = std::iter::successors(Some(scope), |s| s.parent);
    let found = levels.find_map(|s| Some((s, s.find_here(column).ok()??)));
    if let Some((scope, at)) = found {
        *column = reference(scope, at);
    }
}

/// A part of FROM whose first table is the scope's table `at`; `at` moves behind its last.
fn in_table(
    env: &BindEnv<'_>,
    scope: &mut Scope<'_>,
    entry: &mut TableRef,
    at: &mut usize,
) -> SqlResult<Side> {
    match entry {
        TableRef::Table(table) => {
            let own = &mut scope.tables[*at];
            if table.name.schema.is_none() && !own.schema.is_empty() {
                table.name.schema = Some(ast::Ident::new(&*own.schema));
            }
            if table.alias.is_some() {
                own.schema = "".into();
            }
        }
        TableRef::Derived { lateral, query, .. } => {
            let around = Around {
                parent: if *lateral {
                    Some(&*scope)
                } else {
                    scope.parent
                },
                ctes: scope.ctes.as_ref(),
            };
            in_query(env, query, Place::Rows, around)?;
        }
        TableRef::Json { doc, .. } => in_expr(env, scope, doc)?,
        TableRef::List(members) => {
            let mut all: Option<Side> = None;
            for member in members {
                let side = in_table(env, scope, member, at)?;
                all = Some(match all {
                    None => side,
                    Some(left) => beside(left, side, &[], false),
                });
            }
            return all.ok_or_else(errors::no_tables_used);
        }
        TableRef::Join(join) => return in_join(env, scope, join, at),
    }
    let table = *at;
    *at += 1;
    let columns = 0..scope.tables[table].columns.len();
    Ok(Side {
        names: columns.map(|column| ColumnAt { table, column }).collect(),
        first: table,
        end: table + 1,
    })
}

fn beside(left: Side, right: Side, common: &[(ColumnAt, ColumnAt)], right_wins: bool) -> Side {
    Side {
        names: joined_names(&left.names, &right.names, common, right_wins),
        first: left.first,
        end: right.end,
    }
}

/// A join; RIGHT becomes LEFT.
fn in_join(
    env: &BindEnv<'_>,
    scope: &mut Scope<'_>,
    join: &mut ast::Join,
    at: &mut usize,
) -> SqlResult<Side> {
    let left = in_table(env, scope, &mut join.left, at)?;
    let right = in_table(env, scope, &mut join.right, at)?;
    let mut common = match &join.on {
        _ if join.natural => natural_columns(scope, &left.names, &right.names)?,
        Some(ast::JoinOn::Using(names)) => using_columns(scope, &left.names, &right.names, names)?,
        _ => Vec::new(),
    };
    common.sort_by_key(|(l, _)| left.names.iter().position(|n| n == l));
    let right_wins = join.kind == ast::JoinKind::Right;
    let is_merging = join.natural || matches!(join.on, Some(ast::JoinOn::Using(_)));
    match &mut join.on {
        Some(ast::JoinOn::On(on)) => {
            let mut names = left.names.clone();
            names.extend(&right.names);
            let before = std::mem::replace(&mut scope.names, names);
            let hidden = scope.hidden.replace(Some((left.first, right.end)));
            let done = in_expr(env, scope, on);
            scope.hidden.set(hidden);
            scope.names = before;
            done?;
        }
        on => *on = equal(scope, &common, right_wins).map(ast::JoinOn::On),
    }
    join.natural = false;
    if right_wins {
        join.kind = ast::JoinKind::Left;
        std::mem::swap(&mut join.left, &mut join.right);
    }
    Ok(beside(left, right, &common, right_wins && is_merging))
}

/// The condition that NATURAL or USING stands for.
fn equal(
    scope: &Scope<'_>,
    common: &[(ColumnAt, ColumnAt)],
    right_wins: bool,
) -> Option<ast::Expr> {
    let mut all: Vec<ast::Expr> = common
        .iter()
        .map(|(l, r)| {
            let (a, b) = if right_wins { (r, l) } else { (l, r) };
            let side = |at: &ColumnAt| Box::new(ast::Expr::Column(reference(scope, *at)));
            ast::Expr::Binary {
                op: ast::BinaryOp::Eq,
                left: side(a),
                right: side(b),
            }
        })
        .collect();
    match all.len() {
        0 | 1 => all.pop(),
        _ => Some(ast::Expr::And(all)),
    }
}
