//! SHOW of schema objects.
//!
//! Neighbours: `show` dispatches; `infoschema` and `ddl` supply context and texts.
//! **Invariant**: an object that the account may not see does not exist for it.

use std::sync::Arc;

use esker_sql_catalog::catalog::{SchemaDef, TableDef, ViewColumn, ViewDef};
use esker_sql_syntax::ast::{Ident, ObjectName, ShowWhat};
use esker_types::{SqlResult, Value, errors};

use super::{Table, events, read, routines, shown, t, triggers};
use crate::infoschema::{self, TableSpec, Wanted};
use crate::printer::shown_query;
use crate::session::{Described, Session};

pub(super) fn make(session: &Session, what: &ShowWhat) -> SqlResult<Table> {
    match what {
        ShowWhat::Databases => databases(session),
        ShowWhat::Tables { full, schema } => tables(session, *full, schema.as_ref()),
        ShowWhat::OpenTables { schema } => open_tables(session, schema.as_ref()),
        ShowWhat::TableStatus { schema } => table_status(session, schema.as_ref()),
        ShowWhat::Columns { full, table, .. } => columns(session, *full, table),
        ShowWhat::Index { table, .. } => indexes(session, table),
        ShowWhat::CreateTable(name) => create_table(session, name),
        ShowWhat::CreateView(name) => show_create_view(session, name),
        ShowWhat::CreateDatabase {
            name,
            if_not_exists,
        } => create_database(session, name, *if_not_exists),
        ShowWhat::CreateRoutine("TRIGGER", name) => triggers::create(session, name),
        ShowWhat::CreateRoutine("EVENT", name) => events::create(session, name),
        ShowWhat::CreateRoutine(kind, name) => match routines::kind_of(kind) {
            Some(kind) => routines::create(session, kind, name),
            None => Err(errors::no_such_trigger()),
        },
        ShowWhat::RoutineStatus(kind) => routines::status(session, routines::kind_of(kind)),
        ShowWhat::Triggers { schema } => triggers::list(session, schema.as_ref()),
        ShowWhat::Events { schema } => events::list(session, schema.as_ref()),
        other => unreachable!("{other:?} is shown elsewhere"),
    }
}

/// The schema a statement means.
pub(super) fn schema_of(session: &Session, given: Option<&Ident>) -> SqlResult<String> {
    let name = match given {
        Some(name) => name.text.to_string(),
        None => session.context.current_schema()?.to_owned(),
    };
    let schema = session.context.instance.find_schema(&name)?;
    session
        .context
        .require_some_in(&session.context.access.host, &schema)?;
    Ok(schema.to_string())
}

fn databases(session: &Session) -> SqlResult<Table> {
    if session
        .context
        .instance
        .variable_is_on("skip_show_database")
    {
        session.context.require("SHOW DATABASES")?;
    }
    let spec = infoschema::shown("SCHEMATA")?;
    let rows = read(session, spec, &Wanted::default())?;
    let mut shown = Table::picked(spec, &[("SCHEMA_NAME", "Database")], rows);
    shown.rows.sort_by(|a, b| match (&a[0], &b[0]) {
        (Value::Str(a), Value::Str(b)) => a.cmp(b),
        _ => std::cmp::Ordering::Equal,
    });
    Ok(shown)
}

/// Names and kinds of a schema's tables, as far as the account may see them.
fn names_in(session: &Session, schema: &str) -> Vec<(String, &'static str)> {
    if let Some(system) = infoschema::schema(schema) {
        let viewer = session.context.viewer();
        let shown = system.tables().iter().filter(|t| viewer.sees(t));
        return shown.map(|t| (t.name.to_owned(), t.kind.word())).collect();
    }
    let (tables, views) = (
        session.context.instance.tables_of(schema),
        session.context.instance.views_of(schema),
    );
    let tables = tables.iter().map(|t| (t.name.to_string(), "BASE TABLE"));
    let views = views.iter().map(|v| (v.name.to_string(), "VIEW"));
    let seen = |(name, _): &(String, _)| session.context.access.sees_table(schema, name);
    let mut names: Vec<(String, &'static str)> = tables.chain(views).filter(seen).collect();
    names.sort();
    names
}

fn tables(session: &Session, full: bool, schema: Option<&Ident>) -> SqlResult<Table> {
    let schema = schema_of(session, schema)?;
    let title = format!("Tables_in_{schema}");
    let names = names_in(session, &schema).into_iter();
    let rows = names.map(|(name, kind)| match full {
        true => vec![t(name), t(kind)],
        false => vec![t(name)],
    });
    let shown = [("TABLE_NAME", &*title), ("TABLE_TYPE", "Table_type")];
    let shown = if full { &shown[..] } else { &shown[..1] };
    Ok(Table::typed(
        infoschema::shown("TABLES")?,
        shown,
        rows.collect(),
    ))
}

fn table_status(session: &Session, schema: Option<&Ident>) -> SqlResult<Table> {
    let schema = schema_of(session, schema)?;
    let spec = infoschema::shown("TABLES")?;
    let wanted = Wanted {
        schema: Some(schema),
        table: None,
    };
    let rows = read(session, spec, &wanted)?;
    Ok(Table::picked(spec, &TABLE_STATUS, rows))
}

/// Columns of TABLES and what SHOW TABLE STATUS calls them.
const TABLE_STATUS: [(&str, &str); 18] = [
    ("TABLE_NAME", "Name"),
    ("ENGINE", "Engine"),
    ("VERSION", "Version"),
    ("ROW_FORMAT", "Row_format"),
    ("TABLE_ROWS", "Rows"),
    ("AVG_ROW_LENGTH", "Avg_row_length"),
    ("DATA_LENGTH", "Data_length"),
    ("MAX_DATA_LENGTH", "Max_data_length"),
    ("INDEX_LENGTH", "Index_length"),
    ("DATA_FREE", "Data_free"),
    ("AUTO_INCREMENT", "Auto_increment"),
    ("CREATE_TIME", "Create_time"),
    ("UPDATE_TIME", "Update_time"),
    ("CHECK_TIME", "Check_time"),
    ("TABLE_COLLATION", "Collation"),
    ("CHECKSUM", "Checksum"),
    ("CREATE_OPTIONS", "Create_options"),
    ("TABLE_COMMENT", "Comment"),
];

/// Columns of COLUMNS and what SHOW FULL COLUMNS calls them.
const FULL_COLUMNS: [(&str, &str); 9] = [
    ("COLUMN_NAME", "Field"),
    ("COLUMN_TYPE", "Type"),
    ("COLLATION_NAME", "Collation"),
    ("IS_NULLABLE", "Null"),
    ("COLUMN_KEY", "Key"),
    ("COLUMN_DEFAULT", "Default"),
    ("EXTRA", "Extra"),
    ("PRIVILEGES", "Privileges"),
    ("COLUMN_COMMENT", "Comment"),
];
/// Those that SHOW COLUMNS leaves out.
const OF_FULL: [&str; 3] = ["Collation", "Privileges", "Comment"];

fn columns(session: &Session, full: bool, name: &ObjectName) -> SqlResult<Table> {
    let rows = match session.context.find_described(name)? {
        Described::System(spec) => system_columns(session, full, spec),
        Described::View(view) => view_columns(session, full, &view),
        Described::Table(table) => user_columns(session, full, &table),
    };
    let shown = FULL_COLUMNS.iter().copied();
    let shown: Vec<_> = shown
        .filter(|(_, name)| full || !OF_FULL.contains(name))
        .collect();
    Ok(Table::typed(infoschema::shown("COLUMNS")?, &shown, rows))
}

fn system_columns(session: &Session, full: bool, spec: &TableSpec) -> Vec<Vec<Value>> {
    let shown = spec.columns.iter().enumerate();
    shown
        .filter_map(|(nth, c)| {
            let access = &session.context.access;
            let privileges = match spec.schema {
                "information_schema" => "select".to_owned(),
                _ => access.shown_on_column(spec.schema, spec.name, &c.name),
            };
            if privileges.is_empty() {
                return None;
            }
            let plain = vec![
                t(&c.name),
                t(&c.type_text),
                t(if c.ty.nullable { "YES" } else { "NO" }),
                t(spec.column_key(nth)),
                c.default.map_or(Value::Null, t),
                t(c.extra),
            ];
            Some(match full {
                true => widen(plain, &c.ty, &privileges, ""),
                false => plain,
            })
        })
        .collect()
}

fn user_columns(session: &Session, full: bool, table: &Arc<TableDef>) -> Vec<Vec<Value>> {
    let mut rows = Vec::new();
    for (i, c) in table.shown_columns(session.vars.shows_generated_keys) {
        let access = &session.context.access;
        let privileges = match table.temporary {
            true => "select,insert,update,references".to_owned(),
            false => access.shown_on_column(&table.schema, &table.name, &c.name),
        };
        if privileges.is_empty() {
            continue;
        }
        let plain = vec![
            t(&c.name),
            t(esker_sql_catalog::catalog::type_text(&c.ty)),
            t(if c.ty.nullable { "YES" } else { "NO" }),
            t(infoschema::column_key(table, i)),
            infoschema::column_default(&session.context.viewer(), c),
            t(infoschema::column_extra(c)),
        ];
        rows.push(if full {
            widen(plain, &c.ty, &privileges, &c.comment)
        } else {
            plain
        });
    }
    rows
}

fn view_columns(session: &Session, full: bool, view: &ViewDef) -> Vec<Vec<Value>> {
    let shown = infoschema::shown_columns(&session.context.viewer(), view);
    let row = |(c, shown): (&ViewColumn, infoschema::ShownColumn)| {
        let access = &session.context.access;
        let privileges = access.shown_on_column(&view.schema, &view.name, &c.name);
        if privileges.is_empty() {
            return None;
        }
        let plain = vec![
            t(&c.name),
            t(esker_sql_catalog::catalog::type_text(&shown.ty)),
            t(if shown.ty.nullable { "YES" } else { "NO" }),
            t(""),
            shown.default,
            t(shown.extra),
        ];
        Some(match full {
            true => widen(plain, &shown.ty, &privileges, &shown.comment),
            false => plain,
        })
    };
    view.columns.iter().zip(shown).filter_map(row).collect()
}

fn create_view(session: &Session, view: &ViewDef) -> Table {
    let current = session.context.database.as_deref();
    let how = shown(session);
    let query = shown_query(view, current, how.quotes);
    let at_home = current.is_some_and(|c| *c == *view.schema);
    let row = vec![
        t(&view.name),
        t(esker_sql_catalog::catalog::show_create_view(
            view, at_home, &query, &how,
        )),
        t(&*view.charset.0),
        t(&*view.charset.1),
    ];
    let names = [
        "View",
        "Create View",
        "character_set_client",
        "collation_connection",
    ];
    Table::texts(&names, vec![row])
}

/// Adds what FULL adds.
fn widen(
    plain: Vec<Value>,
    ty: &esker_types::SqlType,
    privileges: &str,
    comment: &str,
) -> Vec<Value> {
    use esker_types::TypeKind;
    use esker_types::collation::Collation;
    let has_text = (ty.is_string() || matches!(ty.kind, TypeKind::Enum(_) | TypeKind::Set(_)))
        && ty.collation != Collation::BINARY;
    let collation = if has_text {
        t(ty.collation.name())
    } else {
        Value::Null
    };
    let mut out = plain;
    out.insert(2, collation);
    out.extend([t(privileges), t(comment)]);
    out
}

fn indexes(session: &Session, name: &ObjectName) -> SqlResult<Table> {
    let viewer = session.context.viewer();
    let rows = match session.context.find_described(name)? {
        Described::System(spec) if !viewer.sees(spec) => Vec::new(),
        Described::System(spec) => infoschema::system_index_rows(spec),
        Described::View(_) => Vec::new(),
        Described::Table(table) => infoschema::index_rows(&viewer, &table),
    };
    let spec = infoschema::shown("STATISTICS")?;
    Ok(Table::picked(spec, &INDEX, rows))
}

/// Columns of STATISTICS and what SHOW INDEX calls them.
const INDEX: [(&str, &str); 15] = [
    ("TABLE_NAME", "Table"),
    ("NON_UNIQUE", "Non_unique"),
    ("INDEX_NAME", "Key_name"),
    ("SEQ_IN_INDEX", "Seq_in_index"),
    ("COLUMN_NAME", "Column_name"),
    ("COLLATION", "Collation"),
    ("CARDINALITY", "Cardinality"),
    ("SUB_PART", "Sub_part"),
    ("PACKED", "Packed"),
    ("NULLABLE", "Null"),
    ("INDEX_TYPE", "Index_type"),
    ("COMMENT", "Comment"),
    ("INDEX_COMMENT", "Index_comment"),
    ("IS_VISIBLE", "Visible"),
    ("EXPRESSION", "Expression"),
];

fn create_table(session: &Session, name: &ObjectName) -> SqlResult<Table> {
    let (schema, table) = session.context.full_name(name)?;
    if let Some(system) = infoschema::schema(schema)
        && system.name != "information_schema"
    {
        session.context.require_definition(system.name, table)?;
    }
    if let Some(spec) = session.context.find_system_table(name)? {
        let locks = session.context.instance.catalog.locks();
        if let Some(view) = infoschema::sys::view(spec, locks) {
            let context = &session.context;
            context.require_on(&["SHOW VIEW"], spec.schema, spec.name)?;
            return Ok(create_view(session, &view));
        }
        let row = vec![t(spec.name), t(infoschema::create_table(spec))];
        return Ok(Table::texts(&["Table", "Create Table"], vec![row]));
    }
    if !session.context.is_temporary(name) {
        let (schema, table) = session.context.full_name(name)?;
        session.context.require_definition(schema, table)?;
    }
    if let Some(view) = session.context.find_view(name)? {
        session
            .context
            .require_on(&["SHOW VIEW"], &view.schema, &view.name)?;
        return Ok(create_view(session, &view));
    }
    let table = session.context.find_table(name)?;
    session.require_locked(&table)?;
    let text = esker_sql_catalog::catalog::show_create_table_to(&table, &shown(session));
    let rows = vec![vec![t(&table.name), t(text)]];
    Ok(Table::texts(&["Table", "Create Table"], rows))
}

/// SHOW CREATE VIEW: who may read nothing of it does not hear whether it is there.
fn show_create_view(session: &Session, name: &ObjectName) -> SqlResult<Table> {
    let context = &session.context;
    let (schema, view) = context.full_name(name)?;
    if schema.eq_ignore_ascii_case("information_schema") {
        return create_table(session, name);
    }
    context.require_read(schema, view)?;
    let found = match session.context.find_system_table(name)? {
        Some(spec) => infoschema::sys::view(spec, context.instance.catalog.locks()),
        None => session.context.find_view(name)?,
    };
    let Some(found) = found else {
        if infoschema::schema(schema).is_none() {
            session.context.find_table(name)?;
        }
        return Err(errors::wrong_object(schema, view, "VIEW"));
    };
    context.require_on(&["SHOW VIEW"], schema, view)?;
    Ok(create_view(session, &found))
}

/// SHOW OPEN TABLES: the catalog keeps the definitions of all open.
fn open_tables(session: &Session, schema: Option<&Ident>) -> SqlResult<Table> {
    let access = &session.context.access;
    let mut rows = Vec::new();
    for found in session.context.instance.schemas() {
        if schema.is_some_and(|s| *s.text != *found.name) {
            continue;
        }
        let names = names_in(session, &found.name).into_iter();
        let shown = names.filter(|(name, _)| access.describes_table(&found.name, name));
        rows.extend(
            shown.map(|(name, _)| vec![t(&found.name), t(name), Value::UInt(0), Value::UInt(0)]),
        );
    }
    let names = ["Database", "Table", "In_use", "Name_locked"];
    Ok(Table::mixed(&names, &names[2..], rows))
}

fn create_database(session: &Session, name: &Ident, if_not_exists: bool) -> SqlResult<Table> {
    // This error names the client's host.
    session
        .context
        .require_some_in(&session.context.host, &name.text)?;
    let schema = session.context.instance.find_schema(&name.text)?;
    let collation = session.context.instance.schema_collation(&schema);
    let def = session.context.instance.catalog.schema(&schema);
    let def = SchemaDef {
        name: schema.clone(),
        collation,
        read_only: def.is_some_and(|def| def.read_only),
    };
    let quotes = shown(session).quotes;
    let mut text = esker_sql_catalog::catalog::show_create_database(&def, quotes);
    if if_not_exists {
        text = text.replacen("DATABASE ", "DATABASE /*!32312 IF NOT EXISTS*/ ", 1);
    }
    Ok(Table::texts(
        &["Database", "Create Database"],
        vec![vec![t(&*schema), t(text)]],
    ))
}
