//! CREATE and ALTER VIEW: the query is bound once, so that what is stored can be used.
//!
//! Neighbours: `ddl::view` changes the catalog; `bind::view` uses what is stored here.
//! **Invariants**: the stored text names every table with its database and has no `*` in its outermost
//! select list, so it means the same whatever the current database is and whatever columns tables get;
//! who may not read a table cannot make a view of it.

use std::sync::Arc;

use esker_sql_catalog::catalog::{ViewColumn, ViewDef, same_name};
use esker_sql_catalog::exec_error::ExecError;
use esker_sql_catalog::result::{ColumnMeta, OkInfo};
use esker_sql_plan::bind::{Params, Volatility, bind_query, within_view};
use esker_sql_syntax::ast::{Account, CreateView, QueryBody, SelectItem};
use esker_types::{SqlError, SqlResult, errors};

use super::Session;
use super::names::Purpose;
use super::run::Done;
use crate::ddl::{self, TableName};

impl Session {
    pub(super) fn create_view(&mut self, create: &CreateView) -> Result<Done, ExecError> {
        self.check_writable()?;
        let name = ddl::resolve(&create.name, self.context.database.as_deref())?;
        let wanted: &[&str] = match create.alter || create.or_replace {
            true => &["DROP", "CREATE VIEW"],
            false => &["CREATE VIEW"],
        };
        self.context.require_on(wanted, &name.schema, &name.name)?;
        if create.check_option.is_some() {
            return Err(SqlError::not_supported("WITH CHECK OPTION").into());
        }
        if create.query.into.is_some() {
            let text = "View's SELECT contains a 'INTO' clause";
            return Err(SqlError::new(1350, "HY000", text).into());
        }
        let definer = self.definer(create, &name)?;
        let committed = self.commit_transaction()?;
        let columns = self.bind_view(create, &name)?;
        self.commit_transaction()?;
        let text = stored_text(create, &columns, self.context.database.as_deref());
        let variable = |name: &str| self.values.named(name).as_text().into();
        let def = ViewDef {
            schema: name.schema.as_str().into(),
            name: name.name.as_str().into(),
            columns: columns
                .iter()
                .enumerate()
                .map(|(nth, c)| ViewColumn {
                    name: named(create, nth).unwrap_or_else(|| c.name.clone()),
                    ty: c.ty.clone(),
                })
                .collect(),
            named: !create.columns.is_empty(),
            text,
            algorithm: create
                .algorithm
                .clone()
                .unwrap_or_else(|| "UNDEFINED".into()),
            definer,
            invoker: create.invoker,
            sql_mode: variable("sql_mode"),
            charset: (
                variable("character_set_client"),
                variable("collation_connection"),
            ),
            mdl: self
                .context
                .instance
                .catalog
                .locks()
                .table(&name.schema, &name.name),
        };
        if def.named && create.columns.len() != columns.len() {
            return Err(errors::view_columns_differ().into());
        }
        check_columns(&def)?;
        let logged = self.logged(&self.statement_text, &[], true);
        let done = self.with_ddl(|ctx| {
            ctx.logged = logged;
            ddl::view::create(ctx, create, &name, def)
        })?;
        Ok(Done::Ok(OkInfo::default(), committed.max(done.seq)))
    }

    /// User and host of the view's definer: as written, with ALTER VIEW the one it has, else the session's account.
    fn definer(&self, create: &CreateView, name: &TableName) -> SqlResult<(Box<str>, Box<str>)> {
        let catalog = &self.context.instance.catalog;
        let present = catalog.view(&name.schema, &name.name);
        let definer = match (&create.definer, present) {
            (Some(account), _) => self.named(account),
            (None, Some(view)) if create.alter => {
                let (user, host) = &view.definer;
                (user.to_string(), host.to_string())
            }
            (None, _) => self.named(&Account::CurrentUser),
        };
        self.check_definer(&definer)?;
        Ok((definer.0.into(), definer.1.into()))
    }

    /// Binds the query with the privileges of the session: its columns.
    fn bind_view(
        &mut self,
        create: &CreateView,
        name: &TableName,
    ) -> Result<Arc<[ColumnMeta]>, ExecError> {
        self.use_transaction();
        let (schema, own) = (
            Arc::from(name.schema.as_str()),
            Arc::from(name.name.as_str()),
        );
        let (bound, reads_variables) = self.bind_quietly(Purpose::DefineView, |scope| {
            let env = scope.env(Params::Values(&[]));
            let bound = within_view(&env, &schema, &own, || {
                bind_query(&env, &create.query, None, None)
            })?;
            Ok((bound, scope.names.variables.get()))
        })?;
        if bound.volatility == Volatility::Variables || reads_variables {
            let text = "View's SELECT contains a variable or parameter";
            return Err(SqlError::new(1351, "HY000", text).into());
        }
        Ok(bound.columns)
    }
}

/// The name that the view's column list gives a column.
fn named(create: &CreateView, nth: usize) -> Option<Arc<str>> {
    create.columns.get(nth).map(|c| Arc::from(&*c.text))
}

/// 1060.
fn check_columns(def: &ViewDef) -> SqlResult<()> {
    for (nth, column) in def.columns.iter().enumerate() {
        if def.columns[..nth]
            .iter()
            .any(|c| same_name(&c.name, &column.name))
        {
            return Err(errors::duplicate_column(&column.name));
        }
    }
    Ok(())
}

/// The text with databases and without `*`.
fn stored_text(create: &CreateView, columns: &[ColumnMeta], database: Option<&str>) -> Box<str> {
    let mut edits: Vec<(usize, usize, String)> = Vec::new();
    if let Some(database) = database {
        let prefix = format!("{}.", quoted(database));
        edits.extend(
            create
                .bare_tables
                .iter()
                .map(|at| (*at, *at, prefix.clone())),
        );
    }
    edits.extend(expanded_stars(create, columns));
    // The parser may have read a part of the text twice.
    edits.sort();
    edits.dedup();
    let mut text = String::with_capacity(create.text.len() + 64);
    let mut at = 0;
    for (start, end, new) in edits {
        if start >= at && end <= create.text.len() {
            text.push_str(&create.text[at..start]);
            text.push_str(&new);
            at = end;
        }
    }
    text.push_str(&create.text[at..]);
    text.into()
}

/// What stands for each `*` of the outermost select list; nothing when that cannot be told.
fn expanded_stars(create: &CreateView, columns: &[ColumnMeta]) -> Vec<(usize, usize, String)> {
    let QueryBody::Select(select) = &create.query.body else {
        return Vec::new();
    };
    let is_star = |item: &&SelectItem| !matches!(item, SelectItem::Expr { .. });
    let stars = select.items.iter().filter(is_star).count();
    if stars == 0 || stars != create.stars.len() {
        return Vec::new();
    }
    let single = (columns.len() + 1).checked_sub(select.items.len());
    let (mut edits, mut at) = (Vec::new(), 0);
    let mut places = create.stars.iter();
    for item in &select.items {
        let count = match item {
            SelectItem::Expr { .. } => {
                at += 1;
                continue;
            }
            _ if stars == 1 => single.unwrap_or(0),
            SelectItem::TableWildcard { table, .. } => {
                let own = columns.get(at..).unwrap_or_default().iter();
                own.take_while(|c| *c.table == *table.text).count()
            }
            SelectItem::Wildcard => return Vec::new(),
        };
        let (Some(own), Some((start, end))) = (columns.get(at..at + count), places.next()) else {
            return Vec::new();
        };
        let texts = own.iter().map(|c| {
            let (table, name) = (quoted(&c.table), quoted(&c.name));
            format!("{table}.{name} AS {name}")
        });
        edits.push((*start, *end, texts.collect::<Vec<_>>().join(",")));
        at += count;
    }
    edits
}

/// A name in backticks.
fn quoted(name: &str) -> String {
    format!("`{}`", name.replace('`', "``"))
}
