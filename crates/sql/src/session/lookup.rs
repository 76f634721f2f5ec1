//! Look-ups outside of statements that run: tables by name, columns of a table, columns a statement
//! will have.
//!
//! Neighbours: SHOW, COM_FIELD_LIST and COM_STMT_PREPARE ask.
//! **Invariant**: nothing here keeps a metadata lock beyond the call, except inside a transaction.

use std::sync::Arc;

use esker_sql_catalog::catalog::{TableDef, ViewDef};
use esker_sql_catalog::result::ColumnMeta;
use esker_sql_plan::bind::Params;
use esker_sql_plan::plan::plan_query;
use esker_sql_syntax::ast::{ObjectName, Statement};

use super::names::Purpose;
use super::{Session, SessionContext};
use crate::dml;
use crate::infoschema::{self, ColumnSpec, TableSpec};
use esker_types::collation::Collation;
use esker_types::{SqlResult, SqlType, TypeKind};

/// Most characters of a text parameter, as MySQL describes it: 65,532 bytes of utf8mb4.
const MAX_PARAMETER_CHARS: u32 = 16_383;

/// What a statement that describes a table has found by its name.
pub(crate) enum Described {
    System(&'static TableSpec),
    View(Arc<ViewDef>),
    Table(Arc<TableDef>),
}

impl Session {
    /// TRUNCATE of a system table: of one whose rows are statistics.
    ///
    /// # Errors
    /// 1142, and 1044 in INFORMATION_SCHEMA.
    pub(super) fn truncate_system_table(&self, spec: &TableSpec) -> SqlResult<()> {
        let context = &self.context;
        if spec.schema == "information_schema" {
            return Err(context.no_schema(&context.access.host, spec.schema));
        }
        context.require_on(&["DROP"], spec.schema, spec.name)?;
        match infoschema::truncate(spec, &context.instance) {
            true => Ok(()),
            false => Err(context.denied("DROP", spec.name)),
        }
    }

    /// COM_FIELD_LIST.
    ///
    /// # Errors
    /// As [`Self::find_table`].
    pub fn field_list(&mut self, table: &str) -> SqlResult<Vec<ColumnMeta>> {
        self.context.check_password_is_fresh()?;
        self.context.renew_rights();
        let name = ObjectName::bare(table);
        if let Some(spec) = self.context.find_system_table(&name)? {
            return Ok(system_fields(spec));
        }
        let table = self.survive(|session| session.context.find_table(&name))??;
        Ok(table
            .columns
            .iter()
            .enumerate()
            .filter(|(_, c)| !c.is_hidden())
            .map(|(nth, _)| ColumnMeta::stored(&table, nth, table.name.clone()))
            .collect())
    }

    /// COM_STATISTICS.
    pub fn statistics(&self) -> String {
        crate::show::status::line(self)
    }

    /// What a statement will give and wants, for COM_STMT_PREPARE. Columns that depend on the execution
    /// are none here; the execution brings them.
    pub(super) fn describe(
        &mut self,
        statement: &Statement,
        params: usize,
    ) -> SqlResult<Description> {
        let in_transaction = self.in_transaction();
        let shown = match statement {
            Statement::Show(show) => crate::show::describe(self, show)?,
            _ => Arc::default(),
        };
        // Parameters have no type yet; text converts to everything.
        let unknown = SqlType::varchar(MAX_PARAMETER_CHARS, self.vars.collation_connection);
        let types = vec![unknown; params];
        let switches = self.context.switching(statement).is_some();
        let scope = self.scope(Purpose::Describe);
        let mut env = scope.env(Params::Types(&types));
        env.describe_only = true;
        let columns = match statement {
            Statement::Query(query) if query.into.is_none() => {
                plan_query(&env, query).map(|plan| plan.columns.to_vec())
            }
            _ if switches => Ok(Vec::new()),
            Statement::Insert(_) | Statement::Update(_) | Statement::Delete(_) => {
                dml::compile(&env, statement).map(|_| Vec::new())
            }
            _ => Ok(shown.to_vec()),
        };
        let met = env.met_types();
        // A table that is being changed right now: the execution will wait for it.
        let waits = scope.names.waits();
        if !in_transaction {
            self.locks.release_transaction();
        }
        let columns = if waits { Vec::new() } else { columns? };
        let param = |nth: usize| {
            let met = met.get(nth).and_then(Option::as_ref);
            parameter_type(met, self.vars.collation_connection)
        };
        let params = (0..params).map(|nth| ColumnMeta::computed("?", param(nth)));
        Ok(Description {
            columns,
            params: params.collect(),
        })
    }
}

impl SessionContext {
    /// A table by name, on which the account has any privilege.
    ///
    /// # Errors
    /// 1046, 1049, 1146, 1142.
    pub(crate) fn find_table(&self, name: &ObjectName) -> SqlResult<Arc<TableDef>> {
        let (schema, table) = self.full_name(name)?;
        if let Some(table) = self.temporary_table(schema, table) {
            return Ok(table);
        }
        self.require_some_on(schema, table)?;
        self.instance.catalog.table_or_error(schema, table)
    }

    /// A view by name, if it is one; the account has any privilege on it.
    ///
    /// # Errors
    /// 1046, 1142.
    pub(crate) fn find_view(&self, name: &ObjectName) -> SqlResult<Option<Arc<ViewDef>>> {
        let (schema, table) = self.full_name(name)?;
        if self.temporary_table(schema, table).is_some() {
            return Ok(None);
        }
        self.require_some_on(schema, table)?;
        Ok(self.instance.catalog.view(schema, table))
    }

    /// A table of a system schema, if the name means one.
    ///
    /// # Errors
    /// 1109 and 1146: there is no such table; 1142: the account may not see it.
    pub(crate) fn find_system_table(
        &self,
        name: &ObjectName,
    ) -> SqlResult<Option<&'static TableSpec>> {
        let schema = match &name.schema {
            Some(s) => Some(&*s.text),
            None => self.database.as_deref(),
        };
        let Some(schema) = schema.and_then(infoschema::schema) else {
            return Ok(None);
        };
        self.admit_system_table(schema.name, &name.name.text)?;
        match schema.table(&name.name.text) {
            Some(spec) => Ok(Some(spec)),
            None => Err(infoschema::unknown_table(schema.name, &name.name.text)),
        }
    }

    /// What SHOW COLUMNS and SHOW INDEX are about. Unlike elsewhere, who may not hear what it is made of hears whether
    /// it is there, as in MySQL.
    ///
    /// # Errors
    /// 1046, 1049, 1109, 1142, 1146.
    pub(crate) fn find_described(&self, name: &ObjectName) -> SqlResult<Described> {
        let (schema, table) = self.full_name(name)?;
        if let Some(system) = infoschema::schema(schema) {
            let found = system.table(table);
            let spec = found.ok_or_else(|| infoschema::unknown_table(system.name, table))?;
            if !crate::schema::is_open_schema(system.name) {
                self.require_description(system.name, spec.name)?;
            }
            return Ok(Described::System(spec));
        }
        if let Some(table) = self.temporary_table(schema, table) {
            return Ok(Described::Table(table));
        }
        self.instance.find_schema(schema)?;
        let catalog = &self.instance.catalog;
        let found = match catalog.view(schema, table) {
            Some(view) => Described::View(view),
            None => Described::Table(catalog.table_or_error(schema, table)?),
        };
        self.require_description(schema, table)?;
        Ok(found)
    }
}

/// COM_FIELD_LIST of a system table.
fn system_fields(spec: &TableSpec) -> Vec<ColumnMeta> {
    let field = |c: &ColumnSpec| ColumnMeta {
        schema: Arc::from(spec.schema),
        table: Arc::from(spec.name),
        org_table: Arc::from(spec.name),
        org_name: c.name.clone(),
        ..ColumnMeta::computed(&*c.name, c.ty.clone())
    };
    spec.columns.iter().map(field).collect()
}

/// What COM_STMT_PREPARE tells.
pub(super) struct Description {
    /// Result columns.
    pub(super) columns: Vec<ColumnMeta>,
    /// Parameters.
    pub(super) params: Vec<ColumnMeta>,
}

/// The type MySQL gives a parameter that meets `other`: the widest of its kind. Drivers choose by it
/// how they send numbers.
fn parameter_type(other: Option<&SqlType>, connection: Collation) -> SqlType {
    let text = |collation| SqlType::varchar(MAX_PARAMETER_CHARS, collation);
    let Some(other) = other else {
        return text(connection);
    };
    let longest = |kind| SqlType {
        decimals: 6,
        length: 26,
        ..SqlType::new(kind)
    };
    match &other.kind {
        TypeKind::Null => text(connection),
        TypeKind::Year | TypeKind::Date => SqlType::new(other.kind.clone()),
        TypeKind::Bit => SqlType {
            length: 64,
            ..SqlType::new(TypeKind::Bit)
        },
        TypeKind::Decimal => SqlType::decimal(65, 30),
        TypeKind::Float | TypeKind::Double => SqlType::new(TypeKind::Double),
        TypeKind::Time => longest(TypeKind::Time),
        TypeKind::DateTime | TypeKind::Timestamp => longest(TypeKind::DateTime),
        _ if other.is_integer() => SqlType {
            length: 21,
            ..SqlType::bigint(other.unsigned)
        },
        _ => text(other.collation),
    }
}
