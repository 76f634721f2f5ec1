//! CREATE and ALTER VIEW: the query is bound once, so that what is stored can be used.
//!
//! Neighbours: `ddl::view` changes the catalog; `bind::view` uses what is stored here.
//! **Invariants**: the stored text names every table with its database and has no `*` in its outermost
//! select list, so it means the same whatever the current database is and whatever columns tables get;
//! who may not read a table cannot make a view of it.

use std::sync::Arc;

use esker_sql_catalog::catalog::{CheckOption, ViewColumn, ViewDef, quoted, same_name};
use esker_sql_catalog::exec_error::ExecError;
use esker_sql_catalog::result::{ColumnMeta, OkInfo, StoredAs};
use esker_sql_plan::bind::{
    BoundQuery, Params, bind_query, defining_view, is_mergeable, is_updatable, qualify,
};
use esker_sql_syntax::ast::{Account, CreateView, Expr, Ident, Query, QueryBody, SelectItem};
use esker_types::collation::Collation;
use esker_types::{Level, SqlError, SqlMode, SqlResult, SqlType, TypeKind, errors, names};

use super::names::Purpose;
use super::run::Done;
use super::{Session, SessionContext};
use crate::ddl::{self, TableName};
use crate::printer;

/// A view's query, bound once.
struct BoundView {
    columns: Arc<[ColumnMeta]>,
    /// Its canonical text, unless it has something that has none.
    text: Option<Box<str>>,
    /// Rows can be changed through it.
    is_updatable: bool,
    /// It can be a part of a query that names it.
    is_mergeable: bool,
}

impl Session {
    pub(super) fn create_view(&mut self, create: &CreateView) -> Result<Done, ExecError> {
        let committed = self.commit_transaction()?;
        let name = ddl::resolve(&create.name, self.context.database.as_deref())?;
        let wanted: &[&str] = match create.alter || create.or_replace {
            true => &["DROP", "CREATE VIEW"],
            false => &["CREATE VIEW"],
        };
        self.context.require_on(wanted, &name.schema, &name.name)?;
        let definer = self.context.definer(create, &name)?;
        self.note_missing_definer((&definer.0, &definer.1));
        let query = named_columns(&create.query);
        let bound = self.bind_view(&query, &name)?;
        let columns = bound.columns;
        let (algorithm, invoker) = self.clauses_of(create, &name, bound.is_mergeable);
        let updatable = bound.is_updatable && *algorithm != *"TEMPTABLE";
        let check_option = match create.check_option {
            None => CheckOption::None,
            Some("LOCAL") => CheckOption::Local,
            Some(_) => CheckOption::Cascaded,
        };
        if check_option != CheckOption::None && !updatable {
            return Err(check_of_not_updatable(&name).into());
        }
        self.commit_transaction()?;
        let database = self.context.database.as_deref();
        let text = bound
            .text
            .unwrap_or_else(|| stored_text(create, &columns, database));
        let variable = |name: &str| self.values.named(name).as_text().into();
        let def = ViewDef {
            schema: name.schema.as_str().into(),
            name: name.name.as_str().into(),
            columns: columns
                .iter()
                .enumerate()
                .map(|(nth, c)| ViewColumn {
                    name: named(create, nth).unwrap_or_else(|| c.name.clone()),
                    ty: shown_type(c),
                })
                .collect(),
            named: !create.columns.is_empty(),
            text,
            algorithm,
            definer,
            invoker,
            check_option,
            updatable,
            sql_mode: variable("sql_mode"),
            charset: (
                variable("character_set_client"),
                variable("collation_connection"),
            ),
            create_time_micros: self.context.eval_ctx(&self.vars).now_micros,
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
        let logged = self.logged_view(create, &def);
        let done =
            self.with_logged_ddl(logged, |ctx| ddl::view::create(ctx, create, &name, def))?;
        Ok(Done::Ok(OkInfo::default(), committed.max(done.seq)))
    }

    /// ALGORITHM, and SQL SECURITY INVOKER: ALTER VIEW keeps what it does not say. MERGE of a view that cannot be
    /// merged is nothing.
    fn clauses_of(
        &mut self,
        create: &CreateView,
        name: &TableName,
        is_mergeable: bool,
    ) -> (Box<str>, bool) {
        let catalog = &self.context.instance.catalog;
        let present = catalog.view(&name.schema, &name.name);
        let kept = present.as_deref().filter(|_| create.alter);
        let given = create.algorithm.as_deref().filter(|a| *a != "UNDEFINED");
        let algorithm = given.or(kept.map(|view| &*view.algorithm));
        let mut algorithm = algorithm.unwrap_or("UNDEFINED").into();
        let invoker = create.invoker.or(kept.map(|view| view.invoker));
        if algorithm == Box::from("MERGE") && !is_mergeable {
            let text =
                "View merge algorithm can't be used here for now (assumed undefined algorithm)";
            self.warn(Level::Warning, 1354, text.to_owned());
            algorithm = "UNDEFINED".into();
        }
        (algorithm, invoker == Some(true))
    }

    /// Binds the query with the privileges of the session: its columns, and its text in the form in which views are
    /// stored, unless it has something that has no such form.
    fn bind_view(&mut self, query: &Query, name: &TableName) -> Result<BoundView, ExecError> {
        self.use_transaction();
        let (schema, own) = (
            Arc::from(name.schema.as_str()),
            Arc::from(name.name.as_str()),
        );
        let charset = self
            .values
            .named("character_set_connection")
            .as_text()
            .to_owned();
        let mode = SqlMode::of_names(self.values.named("sql_mode").as_text());
        let (bound, (is_updatable, is_mergeable), text) =
            self.bind_quietly(Purpose::DefineView, |scope| {
                let bind = |query: &Query| {
                    let env = scope.env(Params::Values(&[]));
                    defining_view(&env, &schema, &own, || bind_query(&env, query, None, None))
                };
                let env = scope.env(Params::Values(&[]));
                let bound =
                    defining_view(&env, &schema, &own, || bind_query(&env, query, None, None))?;
                let can = (is_updatable(&env, query, &bound)?, is_mergeable(&bound));
                let mut written_out = query.clone();
                let env = scope.env(Params::Values(&[]));
                let text = defining_view(&env, &schema, &own, || qualify(&env, &mut written_out))
                    .and_then(|()| printer::stored_query(&written_out, &charset))
                    .ok()
                    .filter(|text| {
                        is_read_as(text, mode, (&written_out, &charset), &bound.columns, bind)
                    });
                Ok((bound, can, text))
            })?;
        Ok(BoundView {
            columns: bound.columns,
            text,
            is_updatable,
            is_mergeable,
        })
    }
}

impl SessionContext {
    /// User and host of the view's definer: as written, with ALTER VIEW the one it has, else the session's account.
    fn definer(&self, create: &CreateView, name: &TableName) -> SqlResult<(Box<str>, Box<str>)> {
        let catalog = &self.instance.catalog;
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
}

/// 1368.
fn check_of_not_updatable(name: &TableName) -> SqlError {
    let text = format!(
        "CHECK OPTION on non-updatable view '{}.{}'",
        name.schema, name.name
    );
    SqlError::new(1368, "HY000", text)
}

/// Does the canonical text give these columns, and print as itself?
fn is_read_as(
    text: &str,
    mode: SqlMode,
    (written_out, charset): (&Query, &str),
    columns: &[ColumnMeta],
    bind: impl Fn(&Query) -> SqlResult<BoundQuery>,
) -> bool {
    let Some(query) = printer::parsed(text, mode) else {
        return false;
    };
    let same = |(a, b): (&ColumnMeta, &ColumnMeta)| {
        a.name == b.name && a.ty.kind == b.ty.kind && a.ty.unsigned == b.ty.unsigned
    };
    printer::print_the_same(&query, written_out, charset)
        && bind(&query).is_ok_and(|bound| {
            bound.columns.len() == columns.len() && columns.iter().zip(&*bound.columns).all(same)
        })
}

/// The query with other names for what cannot be the name of a column: too long, or twice there without having been
/// given.
fn named_columns(query: &Query) -> Query {
    let mut query = query.clone();
    let mut body = &mut query.body;
    while let QueryBody::SetOps { first, .. } = body {
        body = first;
    }
    if let QueryBody::Select(select) = body {
        name_items(&mut select.items);
    }
    query
}

fn name_items(items: &mut [SelectItem]) {
    let given: Vec<(Box<str>, bool)> = items
        .iter()
        .map(|item| match item {
            SelectItem::Expr { alias: Some(a), .. } => (a.text.clone(), true),
            SelectItem::Expr {
                expr: Expr::Column(c),
                ..
            } => (c.name.text.clone(), true),
            SelectItem::Expr { text, .. } => (text.clone(), false),
            _ => ("".into(), true),
        })
        .collect();
    let mut names: Vec<Box<str>> = given.iter().map(|(name, _)| name.clone()).collect();
    for nth in 0..items.len() {
        let (name, own) = &given[nth];
        let alone = |names: &[Box<str>], new: &str| {
            let others = names.iter().enumerate().filter(|(at, _)| *at != nth);
            others.into_iter().all(|(_, other)| !same_name(other, new))
        };
        let valid = names::check_column(name).is_ok();
        // Of two, the later one gets another name, unless it alone was given.
        let first = names[..nth].iter().all(|other| !same_name(other, name));
        let later_given = given[nth + 1..]
            .iter()
            .any(|(other, own)| *own && same_name(other, name));
        if *own || valid && first && !later_given {
            continue;
        }
        let new = if valid {
            let numbered = (1..).map(|n| format!("Name_exp_{n}_{name}"));
            let mut all = std::iter::once(format!("Name_exp_{name}")).chain(numbered);
            all.find(|new| alone(&names, new)).unwrap_or_default()
        } else {
            format!("Name_exp_{}", nth + 1)
        };
        names[nth] = new.as_str().into();
        if let SelectItem::Expr { alias, .. } = &mut items[nth] {
            *alias = Some(Ident::new(new));
        }
    }
}

/// The name that the view's column list gives a column.
fn named(create: &CreateView, nth: usize) -> Option<Arc<str>> {
    create.columns.get(nth).map(|c| Arc::from(&*c.text))
}

/// 1166, 1060.
fn check_columns(def: &ViewDef) -> SqlResult<()> {
    for (nth, column) in def.columns.iter().enumerate() {
        names::check_column(&column.name).map_err(|_| errors::wrong_column_name(&column.name))?;
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

/// What is shown of a column: INT where that is enough for the digits of what is computed, no bytes for NULL.
fn shown_type(column: &ColumnMeta) -> SqlType {
    /// Integers of so many digits may not fit.
    const INT_DIGITS: u32 = 10;
    let ty = &column.ty;
    // Columns keep their type, whatever width they are shown with, and so does what is chosen among them.
    let is_value = matches!(column.stored_as, StoredAs::Value | StoredAs::Literal);
    match ty.kind {
        TypeKind::BigInt if is_value && ty.length < INT_DIGITS => SqlType {
            unsigned: ty.unsigned,
            ..SqlType::new(TypeKind::Int)
        }
        .with_nullable(ty.nullable),
        TypeKind::Null => SqlType::varchar(0, Collation::BINARY),
        _ => ty.clone(),
    }
}
