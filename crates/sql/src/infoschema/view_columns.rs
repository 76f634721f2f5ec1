//! What the columns of a view show: types, defaults and comments of the columns that they stand for, as these are now.
//!
//! Neighbours: `objects` and SHOW COLUMNS show it; `printer` parses a view's text; the catalog knows the tables.
//! **Invariants**: a column stands for another where its expression is nothing but its name, through views and derived
//! tables of one block each; the walk is as deep as [`MAX_VIEWS`] at most. As in MySQL, a column that stands for none
//! has the zero of its type as default where it cannot be NULL.

use esker_sql_catalog::catalog::{ColumnDef, DefaultDef, Snapshot, ViewDef, same_name};
use esker_sql_syntax::ast::{
    ColumnRef, Expr, JoinKind, Query, QueryBody, Select, SelectItem, TableRef,
};
use esker_types::cast::{implicit_default, write_text};
use esker_types::{SqlMode, SqlType, TypeKind, Value};

use super::columns::{column_default, default_extra};
use super::{Viewer, text};
use crate::printer;

/// Views and derived tables are followed so deep.
const MAX_VIEWS: usize = 32;

/// What is shown of a column.
#[derive(Debug, Clone)]
pub(crate) struct ShownColumn {
    /// Type; `nullable` tells NOT NULL.
    pub(crate) ty: SqlType,
    /// DEFAULT.
    pub(crate) default: Value,
    /// Extra.
    pub(crate) extra: String,
    /// COMMENT.
    pub(crate) comment: Box<str>,
}

/// What is shown of each column of a view.
pub(crate) fn of_view(viewer: &Viewer, view: &ViewDef) -> Vec<ShownColumn> {
    let snapshot = viewer.instance.catalog.snapshot();
    let query = printer::parsed(&view.text, SqlMode::of_names(&view.sql_mode));
    let columns = view.columns.iter().enumerate();
    let shown = columns.map(|(nth, column)| {
        let origin = query.as_ref().and_then(|q| of_query(&snapshot, q, nth, 0));
        match origin {
            Some(origin) => of_column(viewer, &origin),
            None => computed(&column.ty),
        }
    });
    shown.collect()
}

/// A column of a table.
struct Origin {
    column: ColumnDef,
    /// It may be NULL all the same: an outer join or WITH ROLLUP lies between.
    outer: bool,
}

fn of_column(viewer: &Viewer, origin: &Origin) -> ShownColumn {
    let column = &origin.column;
    let default = match &column.default {
        _ if column.auto_increment => text("0"),
        // MySQL does not print them here.
        DefaultDef::Value(Value::Bit(..)) => Value::Null,
        _ => column_default(viewer, column),
    };
    let nullable = column.ty.nullable || origin.outer;
    ShownColumn {
        ty: column.ty.clone().with_nullable(nullable),
        default,
        extra: default_extra(column),
        comment: column.comment.clone(),
    }
}

fn computed(ty: &SqlType) -> ShownColumn {
    let has_none = matches!(
        ty.kind,
        TypeKind::TinyText
            | TypeKind::Text
            | TypeKind::MediumText
            | TypeKind::LongText
            | TypeKind::Json
            | TypeKind::Geometry(_)
            | TypeKind::Null
    );
    let default = match ty.nullable || has_none {
        true => Value::Null,
        false => {
            let mut zero = Vec::new();
            write_text(implicit_default(ty).as_ref(), ty, &mut zero);
            Value::Str(zero)
        }
    };
    ShownColumn {
        ty: ty.clone(),
        default,
        extra: String::new(),
        comment: Box::default(),
    }
}

/// The stored column for which a column of a query stands.
fn of_query(snapshot: &Snapshot, query: &Query, nth: usize, depth: usize) -> Option<Origin> {
    if depth >= MAX_VIEWS || query.with.is_some() {
        return None;
    }
    let select = match &query.body {
        QueryBody::Select(select) => select,
        QueryBody::Nested(query) => return of_query(snapshot, query, nth, depth + 1),
        _ => return None,
    };
    match item(select, nth)? {
        Expr::Column(column) => {
            let mut origin = of_name(snapshot, &select.from, column, depth)?;
            origin.outer |= select.rollup;
            Some(origin)
        }
        _ => None,
    }
}

/// A member of a select list in which no `*` stands for several.
fn item(select: &Select, nth: usize) -> Option<&Expr> {
    let single = |item: &SelectItem| matches!(item, SelectItem::Expr { .. });
    match select.items.get(nth) {
        Some(SelectItem::Expr { expr, .. }) if select.items.iter().all(single) => Some(expr),
        _ => None,
    }
}

/// The stored column that a name with its table means.
fn of_name(
    snapshot: &Snapshot,
    tables: &[TableRef],
    name: &ColumnRef,
    depth: usize,
) -> Option<Origin> {
    tables.iter().find_map(|table| match table {
        TableRef::Table(table) => {
            let alias = table.alias.as_ref().unwrap_or(&table.name.name);
            let schema = &table.name.schema.as_ref()?.text;
            let is_it = name.table.as_ref().is_some_and(|t| *t.text == *alias.text)
                && name.schema.as_ref().is_none_or(|s| *s.text == **schema);
            if !is_it {
                return None;
            }
            of_table(snapshot, (&**schema, &*table.name.name.text), name, depth)
        }
        TableRef::Derived {
            query,
            alias,
            columns,
            ..
        } if name.table.as_ref().is_some_and(|t| *t.text == *alias.text) => {
            let nth = match columns.is_empty() {
                true => place_in(query, &name.name.text)?,
                false => columns
                    .iter()
                    .position(|c| same_name(&c.text, &name.name.text))?,
            };
            of_query(snapshot, query, nth, depth + 1)
        }
        TableRef::Derived { .. } | TableRef::Json { .. } => None,
        TableRef::Join(join) => {
            let sides = [(&join.left, JoinKind::Right), (&join.right, JoinKind::Left)];
            sides.into_iter().find_map(|(side, outer)| {
                let mut origin = of_name(snapshot, std::slice::from_ref(side), name, depth)?;
                origin.outer |= join.kind == outer;
                Some(origin)
            })
        }
        TableRef::List(tables) => of_name(snapshot, tables, name, depth),
    })
}

/// The column of this name of a table or view.
fn of_table(
    snapshot: &Snapshot,
    (schema, table): (&str, &str),
    name: &ColumnRef,
    depth: usize,
) -> Option<Origin> {
    let name = &name.name.text;
    if let Some(def) = snapshot.table(schema, table) {
        let column = def.columns[def.column_index(name)?].clone();
        let outer = false;
        return Some(Origin { column, outer });
    }
    let view = snapshot.view(schema, table)?;
    let nth = view.columns.iter().position(|c| same_name(&c.name, name))?;
    let query = printer::parsed(&view.text, SqlMode::of_names(&view.sql_mode))?;
    of_query(snapshot, &query, nth, depth + 1)
}

/// Where a query has a column of this name.
fn place_in(query: &Query, name: &str) -> Option<usize> {
    let QueryBody::Select(select) = &query.body else {
        return None;
    };
    select.items.iter().position(|item| match item {
        SelectItem::Expr {
            alias: Some(alias), ..
        } => same_name(&alias.text, name),
        SelectItem::Expr {
            expr: Expr::Column(column),
            ..
        } => same_name(&column.name.text, name),
        _ => false,
    })
}
