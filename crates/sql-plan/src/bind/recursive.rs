//! Recursive common table expressions.
//!
//! Neighbours: `query` comes here for a WITH RECURSIVE member that names itself; `from` resolves the name
//! inside; `exec::recursive` runs it.
//! **Invariants**: columns are the non-recursive part's, all nullable; a recursive member reads the
//! table once, in its own FROM, not on the nullable side of an outer join, and neither groups nor cuts
//! nor orders: whatever else MySQL's rules forbid is refused with MySQL's errors.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

use esker_sql_catalog::result::{ColumnMeta, StoredAs};
use esker_sql_syntax::ast;
use esker_types::collation::Collation;
use esker_types::{SqlError, SqlResult, SqlType, TypeKind};

use super::block::{Block, Body, BoundQuery, JoinNode, JoinType, Volatility};
use super::query::{bind_query, define_ctes, table_as_select};
use super::scope::{CteEntry, CteTable, Scope, TableKind};
use super::select::{Around, bind_limit, bind_select};
use super::{BindEnv, errors};

/// A recursive table as its own members see it.
pub struct RecursiveTable {
    /// Name.
    pub name: Box<str>,
    /// Number of its working table in the statement.
    pub id: u32,
    /// Columns.
    pub columns: Arc<[ColumnMeta]>,
    /// Uses in the member being bound.
    pub used: Cell<u32>,
}

/// The rows a recursive query adds, round by round.
pub struct RecursiveBody {
    /// Name, for errors.
    pub name: Box<str>,
    /// See [`RecursiveTable::id`].
    pub id: u32,
    /// The first rows.
    pub seed: Rc<BoundQuery>,
    /// What makes new rows of the last round's.
    pub members: Vec<Rc<BoundQuery>>,
    /// A row that was there is no new row.
    pub distinct: bool,
    /// LIMIT.
    pub limit: Option<super::LimitSpec>,
}

/// Does a query name `name` in the FROM of one of its blocks?
pub(super) fn is_recursive(query: &ast::Query, name: &str) -> bool {
    body_names(&query.body, name)
}

fn body_names(body: &ast::QueryBody, name: &str) -> bool {
    match body {
        ast::QueryBody::Select(s) => s.from.iter().any(|t| ref_names(t, name)),
        ast::QueryBody::SetOps { first, rest } => {
            body_names(first, name) || rest.iter().any(|s| body_names(&s.right, name))
        }
        ast::QueryBody::Values(_) => false,
        ast::QueryBody::Table(t) => t.schema.is_none() && *t.name.text == *name,
        ast::QueryBody::Nested(q) => body_names(&q.body, name),
    }
}

fn ref_names(t: &ast::TableRef, name: &str) -> bool {
    match t {
        ast::TableRef::Table(t) => t.name.schema.is_none() && *t.name.name.text == *name,
        ast::TableRef::Json { .. } => false,
        ast::TableRef::Derived { query, .. } => body_names(&query.body, name),
        ast::TableRef::Join(j) => ref_names(&j.left, name) || ref_names(&j.right, name),
        ast::TableRef::List(l) => l.iter().any(|t| ref_names(t, name)),
    }
}

fn no_union(name: &str) -> SqlError {
    let text = format!("Recursive Common Table Expression '{name}' should contain a UNION");
    SqlError::new(3573, "HY000", text)
}

fn no_seed(name: &str) -> SqlError {
    let text = format!(
        "Recursive Common Table Expression '{name}' should have one or more non-recursive query \
         blocks followed by one or more recursive ones"
    );
    SqlError::new(3574, "HY000", text)
}

fn aggregates(name: &str) -> SqlError {
    let text = format!(
        "Recursive Common Table Expression '{name}' can contain neither aggregation nor window \
         functions in recursive query block"
    );
    SqlError::new(3575, "HY000", text)
}

fn nullable_side(name: &str) -> SqlError {
    let text = format!(
        "In recursive query block of Recursive Common Table Expression '{name}', the recursive \
         table must neither be in the right argument of a LEFT JOIN, nor be forced to be non-first \
         with join order hints"
    );
    SqlError::new(3576, "HY000", text)
}

/// 3577
pub(super) fn read_elsewhere(name: &str) -> SqlError {
    let text = format!(
        "In recursive query block of Recursive Common Table Expression '{name}', the recursive \
         table must be referenced only once, and not in any subquery"
    );
    SqlError::new(3577, "HY000", text)
}

/// The name inside its own definition.
fn entry(
    env: &BindEnv<'_>,
    name: &str,
    columns: Arc<[ColumnMeta]>,
    up: Option<&Rc<CteEntry>>,
) -> Rc<CteEntry> {
    let table = RecursiveTable {
        name: name.into(),
        id: env.subquery_id(),
        columns,
        used: Cell::new(0),
    };
    Rc::new(CteEntry {
        name: name.into(),
        table: CteTable::Recursive(Rc::new(table)),
        up: up.cloned(),
    })
}

/// The name where it must not be read (3577): in the non-recursive part, and in subqueries.
pub(super) fn unreadable(env: &BindEnv<'_>, name: &str, up: Option<&Rc<CteEntry>>) -> Rc<CteEntry> {
    entry(env, name, [].into(), up)
}

/// Binds a common table expression that names itself.
pub(super) fn bind_recursive(
    env: &BindEnv<'_>,
    cte: &ast::Cte,
    parent: Option<&Scope<'_>>,
    ctes: Option<&Rc<CteEntry>>,
) -> SqlResult<BoundQuery> {
    let name = &*cte.name.text;
    let query = unwrapped(&cte.query);
    let (first, rest) = union_of(query, name)?;
    let around = match &query.with {
        Some(with) => define_ctes(with, parent, ctes)?,
        None => ctes.cloned(),
    };
    let seeds = seeds_of(first, rest, name)?;
    let steps = &rest[seeds - 1..];
    if steps.windows(2).any(|w| !w[0].all && w[1].all) {
        return Err(SqlError::not_supported(
            "recursive query blocks with UNION DISTINCT then UNION ALL, in recursive Common Table \
             Expression",
        ));
    }
    let seed = seed_query(first, rest, seeds);
    let without_name = unreadable(env, name, around.as_ref());
    let seed = bind_query(env, &seed, parent, Some(&without_name))?;
    let columns = columns_of(&seed, cte)?;
    let entry = entry(env, name, columns.clone(), around.as_ref());
    let CteTable::Recursive(table) = &entry.table else {
        unreachable!("made just now")
    };
    let mut members = Vec::with_capacity(steps.len());
    for step in steps {
        table.used.set(0);
        let member = bind_member(env, &step.right, parent, &entry)?;
        if member.columns.len() != columns.len() {
            return Err(errors::select_columns_differ());
        }
        check_member(&member, name)?;
        members.push(Rc::new(member));
    }
    let all = || std::iter::once(&seed).chain(members.iter().map(|m| &**m));
    let reach = all().map(|q| q.reach).max().unwrap_or(0);
    let volatility = all().map(|q| q.volatility).max();
    let body = RecursiveBody {
        name: name.into(),
        id: table.id,
        members: members.clone(),
        distinct: steps.iter().any(|s| !s.all),
        limit: bind_limit(env, query.limit.as_ref())?,
        seed: Rc::new(seed),
    };
    Ok(BoundQuery {
        columns,
        body: Body::Recursive(Box::new(body)),
        reach,
        volatility: volatility.unwrap_or(Volatility::Stable),
        shared: None,
    })
}

/// The union that a recursive query has to be.
fn union_of<'q>(
    query: &'q ast::Query,
    name: &str,
) -> SqlResult<(&'q ast::QueryBody, &'q [ast::SetOpStep])> {
    let ast::QueryBody::SetOps { first, rest } = &query.body else {
        return Err(no_union(name));
    };
    if rest.iter().any(|s| s.op != ast::SetOp::Union) {
        return Err(no_union(name));
    }
    if !query.order_by.is_empty() {
        return Err(SqlError::not_supported(
            "ORDER BY over UNION in recursive Common Table Expression",
        ));
    }
    Ok((first, rest))
}

/// How many members of the union come before those that read the name.
fn seeds_of(first: &ast::QueryBody, rest: &[ast::SetOpStep], name: &str) -> SqlResult<usize> {
    let all = std::iter::once(first).chain(rest.iter().map(|s| &s.right));
    let own: Vec<bool> = all.map(|b| body_names(b, name)).collect();
    let seeds = own.iter().take_while(|r| !**r).count();
    if seeds == 0 || own[seeds..].iter().any(|r| !r) {
        return Err(no_seed(name));
    }
    Ok(seeds)
}

/// The query inside parentheses that mean nothing.
fn unwrapped(query: &ast::Query) -> &ast::Query {
    match &query.body {
        ast::QueryBody::Nested(inner) if query.order_by.is_empty() && query.limit.is_none() => {
            unwrapped(inner)
        }
        _ => query,
    }
}

/// The non-recursive part as a query.
fn seed_query(first: &ast::QueryBody, rest: &[ast::SetOpStep], seeds: usize) -> ast::Query {
    let body = match seeds {
        1 => first.clone(),
        _ => ast::QueryBody::SetOps {
            first: Box::new(first.clone()),
            rest: rest[..seeds - 1].to_vec(),
        },
    };
    ast::Query {
        with: None,
        body,
        order_by: Vec::new(),
        limit: None,
        locking: Vec::new(),
        into: None,
    }
}

/// The table's columns: the first part's, all nullable, under the names that WITH gives.
fn columns_of(seed: &BoundQuery, cte: &ast::Cte) -> SqlResult<Arc<[ColumnMeta]>> {
    if !cte.columns.is_empty() && cte.columns.len() != seed.columns.len() {
        return Err(errors::view_columns_differ());
    }
    let column = |(nth, c): (usize, &ColumnMeta)| {
        let name: Arc<str> = match cte.columns.get(nth) {
            Some(name) => name.text.clone().into(),
            None => c.name.clone(),
        };
        let ty = match c.ty.kind {
            TypeKind::Null => SqlType::varchar(0, Collation::BINARY),
            _ => c.ty.clone(),
        };
        ColumnMeta {
            org_name: name.clone(),
            coercibility: c.coercibility,
            stored_as: StoredAs::Rows,
            ..ColumnMeta::computed(name, ty.with_nullable(true))
        }
    };
    Ok(seed.columns.iter().enumerate().map(column).collect())
}

/// Binds a recursive member: the name is the table in its own FROM only.
fn bind_member(
    env: &BindEnv<'_>,
    body: &ast::QueryBody,
    parent: Option<&Scope<'_>>,
    entry: &Rc<CteEntry>,
) -> SqlResult<BoundQuery> {
    let refused = || {
        SqlError::not_supported(
            "ORDER BY / LIMIT / SELECT DISTINCT in recursive query block of Common Table Expression",
        )
    };
    let _level = env.enter_query()?;
    match body {
        ast::QueryBody::Nested(query) if query.with.is_none() => {
            if !query.order_by.is_empty() || query.limit.is_some() {
                return Err(refused());
            }
            bind_member(env, &query.body, parent, entry)
        }
        ast::QueryBody::Select(select) if select.distinct => Err(refused()),
        ast::QueryBody::Select(select) => {
            bind_select(env, select, &Around::member(), parent, Some(entry))
        }
        ast::QueryBody::Table(name) => {
            let select = table_as_select(name);
            bind_select(env, &select, &Around::member(), parent, Some(entry))
        }
        _ => Err(read_elsewhere(&entry.name)),
    }
}

fn check_member(member: &BoundQuery, name: &str) -> SqlResult<()> {
    let Body::Block(block) = &member.body else {
        return Ok(());
    };
    if block.group.is_some() || !block.windows.calls.is_empty() {
        return Err(aggregates(name));
    }
    let nulled = block
        .join
        .as_ref()
        .is_some_and(|j| is_nulled(block, j, false));
    match nulled {
        true => Err(nullable_side(name)),
        false => Ok(()),
    }
}

/// Is the recursive table on the nullable side of an outer join?
fn is_nulled(block: &Block, node: &JoinNode, below: bool) -> bool {
    match node {
        JoinNode::Table(t) => below && matches!(block.tables[*t].kind, TableKind::Recursive(_)),
        JoinNode::Join {
            left, right, kind, ..
        } => {
            let inner = below || *kind == JoinType::Left;
            is_nulled(block, left, below) || is_nulled(block, right, inner)
        }
    }
}
