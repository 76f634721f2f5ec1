//! FROM: tables, derived tables and joins.
//!
//! Neighbours: `scope` holds the tables, `query` binds derived tables, `plan::join_order` reorders.
//! **Invariants**: RIGHT joins are turned around; USING and NATURAL become equalities, and their
//! common columns are visible once; ON sees the operands of its join (and enclosing queries), nothing
//! else of this FROM.

use std::rc::Rc;
use std::sync::Arc;

use esker_sql_catalog::catalog::{ViewDef, same_name};
use esker_sql_catalog::result::ColumnMeta;
use esker_sql_syntax::ast;
use esker_types::{SqlError, SqlResult};

use super::block::{BoundQuery, JoinNode, JoinType};
use super::clause::Clause;
use super::computed::Reading;
use super::expr::bind_condition;
use super::query::{bind_correlated, bind_named, bind_query};
use super::rights::Need;
use super::scope::{ColumnAt, CteEntry, CteTable, Scope, ScopeColumn, ScopeTable, TableKind};
use super::{
    BindEnv, QueryPlace, TableSource, compare, errors, json_table, merged, partitions, recursive,
};
use crate::expr::{CmpOp, Expr, ExprKind};

/// Most tables in one query block, as MySQL has it.
const MAX_TABLES: usize = 61;

/// A bound part of FROM: its tree and its visible columns.
struct Bound {
    node: JoinNode,
    names: Vec<ColumnAt>,
    /// Conditions on the rows of views in it, which belong to the next ON or WHERE above.
    conditions: Vec<Expr>,
    /// Tables it has, as a range of the scope's.
    first: usize,
    end: usize,
}

/// Binds FROM into `scope`; `need` is what the statement does with its tables.
pub fn bind_from(
    env: &BindEnv<'_>,
    need: Need,
    scope: &mut Scope<'_>,
    from: &[ast::TableRef],
) -> SqlResult<Option<JoinNode>> {
    let mut all: Option<Bound> = None;
    for entry in from {
        let bound = bind_ref(env, need, scope, entry)?;
        all = Some(match all {
            None => bound,
            Some(left) => cross(left, bound),
        });
    }
    let Some(all) = all else {
        scope.names.clear();
        return Ok(None);
    };
    scope.names = all.names;
    scope.view_conditions = all.conditions;
    Ok(Some(all.node))
}

/// A cross join.
fn cross(left: Bound, right: Bound) -> Bound {
    let (mut names, mut conditions) = (left.names, left.conditions);
    names.extend(right.names);
    conditions.extend(right.conditions);
    let node = JoinNode::Join {
        left: Box::new(left.node),
        right: Box::new(right.node),
        kind: JoinType::Inner,
        on: None,
    };
    Bound {
        node,
        names,
        conditions,
        first: left.first,
        end: right.end,
    }
}

fn bind_ref(
    env: &BindEnv<'_>,
    need: Need,
    scope: &mut Scope<'_>,
    entry: &ast::TableRef,
) -> SqlResult<Bound> {
    match entry {
        ast::TableRef::Table(table) => match named_table(env, need, scope, table)? {
            Named::Table(named) => {
                let mut bound = add(scope, *named)?;
                let condition = partitions::of_table(env, scope, bound.first, &table.partitions)?;
                if condition.is_some() {
                    scope.tables[bound.first].partitions = table.partitions.clone();
                }
                bound.conditions.extend(condition);
                Ok(bound)
            }
            Named::Part(_) if !table.partitions.is_empty() => Err(errors::not_partitioned()),
            Named::Part(bound) => Ok(*bound),
        },
        ast::TableRef::Derived {
            lateral,
            query,
            alias,
            columns,
        } => {
            let table = derived_table(env, scope, *lateral, query, alias, columns)?;
            add(scope, table)
        }
        ast::TableRef::Json { doc, rows, alias } => json_ref(env, scope, doc, rows, alias),
        ast::TableRef::List(members) => {
            let mut all: Option<Bound> = None;
            for member in members {
                let bound = bind_ref(env, need, scope, member)?;
                all = Some(match all {
                    None => bound,
                    Some(left) => cross(left, bound),
                });
            }
            all.ok_or_else(errors::no_tables_used)
        }
        ast::TableRef::Join(join) => bind_join(env, need, scope, join),
    }
}

/// JSON_TABLE, apart from [`bind_ref`], which is on the stack once for every level of tables.
fn json_ref(
    env: &BindEnv<'_>,
    scope: &mut Scope<'_>,
    doc: &ast::Expr,
    rows: &ast::JsonColumns,
    alias: &ast::Ident,
) -> SqlResult<Bound> {
    let table = json_table::bind_json_table(env, scope, doc, rows, alias)?;
    add(scope, table)
}

/// What a name in FROM stands for.
enum Named {
    Table(Box<ScopeTable>),
    /// A view whose tables are in the scope.
    Part(Box<Bound>),
}

/// May a table of this name come into the block?
fn check_new(scope: &Scope<'_>, schema: &str, alias: &str) -> SqlResult<()> {
    let is_it = |t: &ScopeTable| *t.alias == *alias && *t.schema == *schema && t.views.is_empty();
    if scope.tables.iter().any(is_it) {
        return Err(errors::not_unique_table(alias));
    }
    check_room(scope)
}

/// Is there room for the block's tables?
fn check_room(scope: &Scope<'_>) -> SqlResult<()> {
    if scope.tables.len() >= MAX_TABLES {
        let text = format!("Too many tables; MySQL can only use {MAX_TABLES} tables in a join");
        return Err(SqlError::new(1116, "HY000", text));
    }
    Ok(())
}

/// A view whose tables become tables of the block.
fn merged_view(
    env: &BindEnv<'_>,
    need: Need,
    scope: &mut Scope<'_>,
    view: &Arc<ViewDef>,
    alias: Option<&str>,
) -> SqlResult<Option<Bound>> {
    check_new(scope, &view.schema, alias.unwrap_or(&view.name))?;
    let Some(merged) = merged::merge(env, need, scope, view, alias)? else {
        return Ok(None);
    };
    let (place, end) = (merged.place, scope.tables.len());
    let columns = 0..scope.tables[place].columns.len();
    check_room(scope)?;
    Ok(Some(Bound {
        node: merged.join,
        names: columns
            .map(|column| ColumnAt {
                table: place,
                column,
            })
            .collect(),
        conditions: merged.conditions,
        first: place,
        end,
    }))
}

fn add(scope: &mut Scope<'_>, table: ScopeTable) -> SqlResult<Bound> {
    check_new(scope, &table.schema, &table.alias)?;
    let columns = table.columns.len();
    let at = scope.add_table(table);
    let names = (0..columns)
        .map(|column| ColumnAt { table: at, column })
        .collect();
    Ok(Bound {
        node: JoinNode::Table(at),
        names,
        conditions: Vec::new(),
        first: at,
        end: at + 1,
    })
}

fn named_table(
    env: &BindEnv<'_>,
    need: Need,
    scope: &mut Scope<'_>,
    table: &ast::NamedTable,
) -> SqlResult<Named> {
    let found = |table: ScopeTable| Ok(Named::Table(Box::new(table)));
    let alias = table.alias.as_ref().map(|a| &*a.text);
    if table.name.schema.is_none()
        && let Some(cte) = find_cte(scope.ctes.as_ref(), &table.name.name.text)
    {
        let alias: Arc<str> = alias.unwrap_or(&table.name.name.text).into();
        return found(cte_table(env, scope, cte, alias)?);
    }
    let schema = table.name.schema.as_ref().map(|s| &*s.text);
    let stored = match env.names.table(need, schema, &table.name.name.text)? {
        TableSource::Base(def) => {
            env.check_readable(&def, alias.unwrap_or(&def.name))?;
            env.locks.admit(env.names, &def, alias)?;
            ScopeTable {
                restricted: env.names.restricted(&def.schema, &def.name),
                hints: resolved_hints(&def, &table.hints, alias)?,
                ..ScopeTable::base(def, alias)
            }
        }
        TableSource::Virtual(found) => {
            env.blocks.set(env.blocks.get() || found.waits());
            let name = alias.unwrap_or(&table.name.name.text);
            ScopeTable {
                hints: table.hints.clone(),
                ..ScopeTable::virt(found, Some(name))
            }
        }
        TableSource::View(view) => {
            // A view has no indexes of its own, and not even none of them, as in MySQL.
            if let Some(hint) = table.hints.first() {
                let index = hint.indexes.first().map_or("(null)", |index| &index.text);
                return Err(errors::unknown_key(index, &view.name));
            }
            if scope.merges_views
                && view.updatable
                && let Some(bound) = merged_view(env, need, scope, &view, alias)?
            {
                return Ok(Named::Part(Box::new(bound)));
            }
            return found(ScopeTable {
                restricted: env.names.restricted(&view.schema, &view.name),
                ..super::view::table(env, &view, alias)?
            });
        }
    };
    found(stored)
}

/// A table that stands for a common table expression.
fn cte_table(
    env: &BindEnv<'_>,
    scope: &Scope<'_>,
    cte: &CteEntry,
    alias: Arc<str>,
) -> SqlResult<ScopeTable> {
    match &cte.table {
        CteTable::Defined(defined) => {
            let bound = bind_named(env, defined, scope.parent)?;
            env.place(bound.measured)?;
            let Some(query) = &bound.query else {
                let bound = bind_correlated(env, defined, scope.parent)?;
                scope.note_reach(bound.reach);
                scope.note_volatility(bound.volatility);
                return Ok(from_query(alias, &Rc::new(bound), None));
            };
            if let Some(shared) = &query.shared {
                shared.uses.set(shared.uses.get() + 1);
            }
            Ok(from_query(alias, query, None))
        }
        CteTable::Recursive(table) => {
            table.used.set(table.used.get() + 1);
            if !scope.member || table.columns.is_empty() || table.used.get() > 1 {
                return Err(recursive::read_elsewhere(&table.name));
            }
            let columns = columns_named(&alias, &table.columns, None);
            let kind = TableKind::Recursive(table.clone());
            Ok(ScopeTable::with_columns("".into(), alias, kind, columns))
        }
    }
}

/// Hints with the whole names of their indexes.
fn resolved_hints(
    def: &esker_sql_catalog::catalog::TableDef,
    hints: &[ast::IndexHint],
    alias: Option<&str>,
) -> SqlResult<Vec<ast::IndexHint>> {
    let mut hints = hints.to_vec();
    for index in hints.iter_mut().flat_map(|h| &mut h.indexes) {
        // A hint finds no index that is invisible.
        let found = def.hinted_index(&index.text);
        let Some(at) = found.filter(|at| !def.indexes[*at].invisible) else {
            return Err(errors::unknown_key(&index.text, alias.unwrap_or(&def.name)));
        };
        index.text = def.indexes[at].name.as_ref().into();
    }
    let has = |kind: ast::IndexHintKind| hints.iter().any(|h| h.kind == kind);
    if has(ast::IndexHintKind::Use) && has(ast::IndexHintKind::Force) {
        return Err(esker_types::errors::wrong_usage(
            "USE INDEX and FORCE INDEX",
        ));
    }
    Ok(hints)
}

fn find_cte<'e>(mut at: Option<&'e Rc<CteEntry>>, name: &str) -> Option<&'e CteEntry> {
    while let Some(entry) = at {
        if *entry.name == *name {
            return Some(entry);
        }
        at = entry.up.as_ref();
    }
    None
}

fn derived_table(
    env: &BindEnv<'_>,
    scope: &mut Scope<'_>,
    lateral: bool,
    query: &ast::Query,
    alias: &ast::Ident,
    columns: &[ast::Ident],
) -> SqlResult<ScopeTable> {
    let parent = if lateral { Some(&*scope) } else { scope.parent };
    let bound = env.within(QueryPlace::Derived, || {
        bind_query(env, query, parent, scope.ctes.as_ref())
    })?;
    // One level further in when lateral: level 1 is this block itself.
    let reach = bound.reach.saturating_sub(u16::from(lateral));
    if reach > 0 {
        scope.note_reach(reach);
    }
    scope.note_volatility(bound.volatility);
    let names = (!columns.is_empty()).then_some(columns);
    if names.is_some_and(|n| n.len() != bound.columns.len()) {
        return Err(errors::view_columns_differ());
    }
    let mut table = from_query(alias.text.clone().into(), &Rc::new(bound), names);
    table.lateral = lateral;
    check_distinct(table.columns.iter().map(|c| &*c.name))?;
    Ok(table)
}

/// 1060 where two columns of a query that stands for a table have the same name.
pub(super) fn check_distinct<'n>(names: impl Iterator<Item = &'n str> + Clone) -> SqlResult<()> {
    for (nth, name) in names.clone().enumerate() {
        if names.clone().take(nth).any(|n| same_name(n, name)) {
            return Err(errors::duplicate_column(name));
        }
    }
    Ok(())
}

/// A table whose rows are a query's.
pub(super) fn from_query(
    alias: Arc<str>,
    query: &Rc<BoundQuery>,
    names: Option<&[ast::Ident]>,
) -> ScopeTable {
    let columns = columns_named(&alias, &query.columns, names);
    ScopeTable::with_columns("".into(), alias, TableKind::Derived(query.clone()), columns)
}

/// A query's columns as those of a table.
fn columns_named(
    alias: &Arc<str>,
    columns: &[ColumnMeta],
    names: Option<&[ast::Ident]>,
) -> Vec<ScopeColumn> {
    columns
        .iter()
        .enumerate()
        .map(|(nth, c)| {
            let name: Arc<str> = match names {
                Some(names) => names[nth].text.clone().into(),
                None => c.name.clone(),
            };
            let mut meta = ColumnMeta {
                table: alias.clone(),
                name: name.clone(),
                ..c.clone()
            };
            if meta.org_name.is_empty() {
                meta.org_name = name.clone();
            }
            ScopeColumn {
                name,
                ty: c.ty.clone(),
                meta,
                invisible: false,
            }
        })
        .collect()
}

fn bind_join(
    env: &BindEnv<'_>,
    need: Need,
    scope: &mut Scope<'_>,
    join: &ast::Join,
) -> SqlResult<Bound> {
    let (mut left, mut right) = bind_sides(env, need, scope, join)?;
    let common = common_columns(scope, join, &left, &right)?;
    let mut conds = Vec::new();
    for &(l, r) in &common {
        let (l, r) = (scope.read(l)?, scope.read(r)?);
        conds.push(compare::compare(env, CmpOp::Eq, l, r)?);
    }
    if let Some(ast::JoinOn::On(on)) = &join.on {
        if !matches!(join.kind, ast::JoinKind::Left | ast::JoinKind::Right) {
            scope.reads_computed.set(Reading::Plain.of(on));
        }
        conds.push(bind_on(env, scope, &left, &right, on)?);
    }
    let (left_nulled, right_nulled) = (
        join.kind == ast::JoinKind::Right,
        join.kind == ast::JoinKind::Left,
    );
    let mut conditions = Vec::new();
    for (side, is_nulled) in [(&mut left, left_nulled), (&mut right, right_nulled)] {
        if !is_nulled {
            conditions.append(&mut side.conditions);
            continue;
        }
        // What an outer join may null is nullable from here on.
        for table in side.first..side.end {
            let table = &mut scope.tables[table];
            table.nulled = true;
            let columns = table.columns.iter_mut();
            columns.for_each(|column| column.ty.nullable = true);
        }
        // Conditions of a view on the side that may become NULL say which of its rows there are.
        conds.append(&mut side.conditions);
    }
    let is_merging = join.natural || matches!(join.on, Some(ast::JoinOn::Using(_)));
    let names = joined_names(
        &left.names,
        &right.names,
        &common,
        left_nulled && is_merging,
    );
    let (first, end) = (left.first, right.end);
    let (kind, outer, inner) = match join.kind {
        ast::JoinKind::Inner => (JoinType::Inner, left, right),
        ast::JoinKind::Straight => (JoinType::Straight, left, right),
        ast::JoinKind::Left => (JoinType::Left, left, right),
        ast::JoinKind::Right => (JoinType::Left, right, left),
    };
    let node = JoinNode::Join {
        left: Box::new(outer.node),
        right: Box::new(inner.node),
        kind,
        on: (!conds.is_empty()).then(|| Expr::all_of(conds)),
    };
    Ok(Bound {
        node,
        names,
        conditions,
        first,
        end,
    })
}

/// Binds the tables of both sides, the left one first, as they are written.
fn bind_sides(
    env: &BindEnv<'_>,
    need: Need,
    scope: &mut Scope<'_>,
    join: &ast::Join,
) -> SqlResult<(Bound, Bound)> {
    let left = nulling(scope, join.kind == ast::JoinKind::Right, |scope| {
        bind_ref(env, need, scope, &join.left)
    })?;
    let unseen = scope.unseen.get();
    if join.kind == ast::JoinKind::Right {
        // The rows of the right side come first, so nothing in it can read the left side.
        let own = (left.first..left.end).fold(0, |set, table| set | 1 << table);
        scope.unseen.set(unseen | own);
    }
    let right = nulling(scope, join.kind == ast::JoinKind::Left, |scope| {
        bind_ref(env, need, scope, &join.right)
    });
    scope.unseen.set(unseen);
    Ok((left, right?))
}

/// Pairs of columns that NATURAL or USING makes one.
fn common_columns(
    scope: &mut Scope<'_>,
    join: &ast::Join,
    left: &Bound,
    right: &Bound,
) -> SqlResult<Vec<(ColumnAt, ColumnAt)>> {
    match &join.on {
        _ if join.natural => natural_columns(scope, &left.names, &right.names),
        Some(ast::JoinOn::Using(names)) => {
            let common = using_columns(scope, &left.names, &right.names, names)?;
            let both = common.iter().flat_map(|(l, r)| [l, r]);
            scope.in_using.extend(both);
            Ok(common)
        }
        _ => Ok(Vec::new()),
    }
}

/// Binds a side of a join, which may become NULL if `is_nulled`.
fn nulling<'p, T>(
    scope: &mut Scope<'p>,
    is_nulled: bool,
    bind: impl FnOnce(&mut Scope<'p>) -> T,
) -> T {
    let before = scope.is_nulled.get();
    scope.is_nulled.set(before || is_nulled);
    let bound = bind(scope);
    scope.is_nulled.set(before);
    bound
}

/// Binds ON with only the operands' columns in view.
fn bind_on(
    env: &BindEnv<'_>,
    scope: &mut Scope<'_>,
    left: &Bound,
    right: &Bound,
    on: &ast::Expr,
) -> SqlResult<Expr> {
    let mut names = left.names.clone();
    names.extend(&right.names);
    let before = std::mem::replace(&mut scope.names, names);
    // Tables of this FROM outside the operands cannot be named.
    let hidden = scope.hidden.replace(Some((left.first, right.end)));
    let clause = scope.clause.replace(Clause::On);
    let bound = bind_condition(env, scope, on);
    scope.clause.set(clause);
    scope.hidden.set(hidden);
    scope.names = before;
    bound
}

/// Columns both sides have, in the left side's order.
pub(super) fn natural_columns(
    scope: &Scope<'_>,
    left: &[ColumnAt],
    right: &[ColumnAt],
) -> SqlResult<Vec<(ColumnAt, ColumnAt)>> {
    let mut pairs = Vec::new();
    for &l in left {
        let column = scope.column_at(l);
        if column.invisible {
            continue;
        }
        if let Some(r) = one_of(scope, right, &column.name)?
            && one_of(scope, left, &column.name)?.is_some()
            && !scope.column_at(r).invisible
        {
            pairs.push((l, r));
        }
    }
    Ok(pairs)
}

pub(super) fn using_columns(
    scope: &Scope<'_>,
    left: &[ColumnAt],
    right: &[ColumnAt],
    names: &[ast::Ident],
) -> SqlResult<Vec<(ColumnAt, ColumnAt)>> {
    let mut pairs = Vec::new();
    for name in names {
        let missing = || errors::unknown_column(&name.text, "from clause");
        let l = one_of(scope, left, &name.text)?.ok_or_else(missing)?;
        let r = one_of(scope, right, &name.text)?.ok_or_else(missing)?;
        pairs.push((l, r));
    }
    Ok(pairs)
}

/// The one column of this name in view; 1052 for several.
fn one_of(scope: &Scope<'_>, side: &[ColumnAt], name: &str) -> SqlResult<Option<ColumnAt>> {
    let mut found = side
        .iter()
        .filter(|at| same_name(&scope.column_at(**at).name, name));
    let first = found.next().copied();
    match found.next() {
        Some(_) => Err(errors::ambiguous_column(name, "from clause")),
        None => Ok(first),
    }
}

/// Visible columns of a join: common ones first, once. `right_wins`: the right operand's come first.
pub(super) fn joined_names(
    left: &[ColumnAt],
    right: &[ColumnAt],
    common: &[(ColumnAt, ColumnAt)],
    right_wins: bool,
) -> Vec<ColumnAt> {
    let mut names: Vec<ColumnAt> = Vec::new();
    // Common columns are the preserved operand's and come in its order, and so do, with USING or
    // NATURAL, its other columns before the second operand's.
    let (first, second) = if right_wins {
        (right, left)
    } else {
        (left, right)
    };
    let in_common = |at: &ColumnAt| common.iter().any(|(l, r)| l == at || r == at);
    names.extend(first.iter().copied().filter(|at| in_common(at)));
    names.extend(first.iter().copied().filter(|at| !in_common(at)));
    names.extend(second.iter().copied().filter(|at| !in_common(at)));
    names
}

/// Does the condition compare two columns for equality? Their slots.
pub fn equated_slots(cond: &Expr) -> Option<(u32, u32)> {
    match &cond.kind {
        ExprKind::Cmp(cmp) if cmp.op == CmpOp::Eq => {
            Some((cmp.left.as_column()?, cmp.right.as_column()?))
        }
        _ => None,
    }
}
