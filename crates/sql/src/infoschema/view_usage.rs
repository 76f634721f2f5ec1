//! VIEW_TABLE_USAGE and VIEW_ROUTINE_USAGE: the tables, views and stored functions that views name.
//!
//! Neighbours: `objects` has the views; `printer` parses their texts; `source` asks by table name.
//! **Invariants**: names are as the view's text has them, which writes out the database of every table (what has none
//! is a common table expression) and of functions of other databases; each is listed once, whether it is still there or
//! not; only what the account sees is listed.

use std::collections::BTreeSet;
use std::sync::Arc;

use esker_sql_catalog::catalog::ViewDef;
use esker_sql_syntax::ast::{
    Call, Expr, JoinOn, ObjectName, OrderItem, PartMut, Query, QueryBody, Select, SelectItem,
    TableRef,
};
use esker_types::func;
use esker_types::program::RoutineKind;
use esker_types::{SqlMode, Value};

use super::objects::visible_views;
use super::source::Source;
use super::{Viewer, Wanted, text};
use crate::printer;

pub(super) static SOURCES: &[Source] = &[
    Source::new("VIEW_TABLE_USAGE", TABLES, tables),
    Source::new("VIEW_ROUTINE_USAGE", ROUTINES, routines),
];

const TABLES: &[&str] = &[
    "VIEW_CATALOG",
    "VIEW_SCHEMA",
    "VIEW_NAME",
    "TABLE_CATALOG",
    "TABLE_SCHEMA",
    "TABLE_NAME",
];
const ROUTINES: &[&str] = &[
    "TABLE_CATALOG",
    "TABLE_SCHEMA",
    "TABLE_NAME",
    "SPECIFIC_CATALOG",
    "SPECIFIC_SCHEMA",
    "SPECIFIC_NAME",
];

fn tables(viewer: &Viewer) -> Vec<Vec<Value>> {
    rows(
        viewer,
        |used| used.tables,
        |schema, name| viewer.access.sees_table(schema, name),
    )
}

fn routines(viewer: &Viewer) -> Vec<Vec<Value>> {
    let seen = super::routines::visible(viewer);
    let sees = |schema: &str, name: &str| {
        seen.iter().any(|def| {
            let is_function = def.kind == RoutineKind::Function;
            is_function && *def.schema == *schema && def.name.eq_ignore_ascii_case(name)
        })
    };
    rows(viewer, |used| used.functions, sees)
}

/// A row for everything of a kind that a view names.
fn rows(
    viewer: &Viewer,
    of: fn(Used) -> BTreeSet<(String, String)>,
    sees: impl Fn(&str, &str) -> bool,
) -> Vec<Vec<Value>> {
    let views = visible_views(viewer, &Wanted::default());
    let of_view = |view: &Arc<ViewDef>| {
        let used = of(used(view)).into_iter();
        let seen = used.filter(|(schema, name)| sees(schema, name));
        let row = |(schema, name)| {
            vec![
                text("def"),
                text(&view.schema),
                text(&view.name),
                text("def"),
                text(schema),
                text(name),
            ]
        };
        seen.map(row).collect::<Vec<_>>()
    };
    views.iter().flat_map(of_view).collect()
}

/// What a view names: databases and names.
struct Used {
    /// The view's database, which is that of functions without one.
    schema: Arc<str>,
    tables: BTreeSet<(String, String)>,
    functions: BTreeSet<(String, String)>,
}

fn used(view: &ViewDef) -> Used {
    let mut used = Used {
        schema: view.schema.clone(),
        tables: BTreeSet::new(),
        functions: BTreeSet::new(),
    };
    // A text that this version cannot read names nothing.
    if let Some(mut query) = printer::parsed(&view.text, SqlMode::of_names(&view.sql_mode)) {
        used.query(&mut query);
    }
    used
}

impl Used {
    fn query(&mut self, query: &mut Query) {
        for cte in query.with.iter_mut().flat_map(|with| &mut with.ctes) {
            self.query(&mut cte.query);
        }
        self.body(&mut query.body);
        self.order(&mut query.order_by);
    }

    fn body(&mut self, body: &mut QueryBody) {
        match body {
            QueryBody::Select(select) => self.select(select),
            QueryBody::SetOps { first, rest } => {
                self.body(first);
                rest.iter_mut().for_each(|step| self.body(&mut step.right));
            }
            QueryBody::Values(rows) => rows.iter_mut().flatten().for_each(|e| self.expr(e)),
            QueryBody::Table(name) => self.table(name),
            QueryBody::Nested(query) => self.query(query),
        }
    }

    fn select(&mut self, select: &mut Select) {
        for item in &mut select.items {
            if let SelectItem::Expr { expr, .. } = item {
                self.expr(expr);
            }
        }
        select.from.iter_mut().for_each(|from| self.from(from));
        let conditions = select.filter.iter_mut().chain(&mut select.having);
        let all = conditions.chain(&mut select.group_by);
        all.for_each(|e| self.expr(e));
        for (_, window) in &mut select.windows {
            window.exprs_mut().into_iter().for_each(|e| self.expr(e));
        }
    }

    fn from(&mut self, from: &mut TableRef) {
        match from {
            TableRef::Table(table) => self.table(&table.name),
            TableRef::Derived { query, .. } => self.query(query),
            TableRef::Json { doc, .. } => self.expr(doc),
            TableRef::Join(join) => {
                self.from(&mut join.left);
                self.from(&mut join.right);
                if let Some(JoinOn::On(condition)) = &mut join.on {
                    self.expr(condition);
                }
            }
            TableRef::List(members) => members.iter_mut().for_each(|member| self.from(member)),
        }
    }

    fn table(&mut self, name: &ObjectName) {
        if let Some(schema) = &name.schema {
            let name = name.name.text.to_string();
            self.tables.insert((schema.text.to_string(), name));
        }
    }

    fn order(&mut self, items: &mut [OrderItem]) {
        items.iter_mut().for_each(|item| self.expr(&mut item.expr));
    }

    fn expr(&mut self, e: &mut Expr) {
        if let Expr::Call(call) = e {
            self.function(call);
        }
        for part in e.parts_mut() {
            match part {
                PartMut::Expr(e) => self.expr(e),
                PartMut::Query(query) => self.query(query),
                PartMut::Column(_) => {}
            }
        }
    }

    fn function(&mut self, call: &Call) {
        let name = call.name.text.to_string();
        let schema = match &call.schema {
            Some(schema) => schema.text.to_string(),
            None if func::lookup(&name.to_ascii_lowercase()).is_some() => return,
            None => self.schema.to_string(),
        };
        self.functions.insert((schema, name));
    }
}
