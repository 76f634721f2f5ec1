//! What names in a statement mean to this session: tables with their metadata locks, system variables.
//!
//! Neighbours: the binder asks through [`bind::Names`](esker_sql_plan::bind::Names); `scope` makes one per
//! statement.
//! **Invariant**: what was bound is given out only with the shared metadata locks of all its tables held. A lock that
//! must be waited for leaves its ticket here; binding goes on without it, with definitions that nothing will run, and
//! [`SessionNames::conclude`] exchanges the result for the wait.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

use esker_engine::Ticket;
use esker_sql_catalog::accounts::Access;
use esker_sql_catalog::catalog::{IndexSample, RoutineKey, TableDef, ViewDef};
use esker_sql_catalog::exec_error::ExecError;
use esker_sql_catalog::mdl::{LockSet, MdlDuration, MdlMode, MdlObject};
use esker_sql_catalog::variables::{Scope, SessionValues, VarId, VarValue, unknown};
use esker_sql_plan::bind::{Names, Need, Restricted, TableSource};
use esker_sql_plan::expr::{StoredFunction, UserVars};
use esker_sql_syntax::ast::{SysVar, VarScope};
use esker_types::collation::Collation;
use esker_types::program::RoutineKind;
use esker_types::{SqlError, SqlResult, SqlType, TypeKind, Value, errors};

use super::SessionContext;
use super::profiles::Profiles;
use super::read_only::read_only_transaction;
use super::traces::Traces;
use crate::ddl::lock_tables::{announce_write, check_locked};
use crate::ddl::names::TableName;
use crate::infoschema::{self, SessionState, SpecKind, SystemSchema, SystemTable, is_open_table};
/// What names are resolved for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// Running a statement.
    Run,
    /// PREPARE: what its rows are. No row is locked.
    Describe,
    /// EXPLAIN: it shows what is inside of views.
    Explain,
    /// CREATE VIEW: it needs no right to read.
    DefineView,
    /// LOCK TABLES: which tables and views are below a view? No lock is taken.
    ListTables,
}

/// A session's names during one statement.
pub(crate) struct SessionNames<'a> {
    pub(crate) context: &'a SessionContext,
    pub(crate) values: &'a SessionValues,
    pub(crate) locks: RefCell<&'a mut LockSet>,
    /// The ticket of the first metadata lock that was not free; no lock is asked for after it.
    pending: RefCell<Option<Ticket>>,
    /// Warnings and errors in the diagnostics area (for @@warning_count, @@error_count).
    pub(crate) diagnostics: (u64, u64),
    profiles: &'a Profiles,
    traces: &'a Traces,
    /// Whose privileges the queries of views have that are being bound, the innermost last.
    pub(crate) privileges: RefCell<Vec<Arc<Access>>>,
    /// What the statement is about views for.
    pub(crate) purpose: Purpose,
    /// The transaction is READ ONLY.
    only_reads: bool,
    /// What the statement does comes from a source.
    applies: bool,
    /// The tables and views that were named, for [`Purpose::ListTables`].
    pub(crate) listed: RefCell<Vec<TableName>>,
    /// How many tables were asked for.
    pub(crate) tables: Cell<usize>,
    /// A system variable was asked for.
    pub(crate) variables: Cell<bool>,
}

impl<'a> SessionNames<'a> {
    /// Names of a session; `diagnostics` warnings and errors.
    pub(crate) fn new(
        context: &'a SessionContext,
        values: &'a SessionValues,
        locks: &'a mut LockSet,
        diagnostics: (u64, u64),
        (profiles, traces): (&'a Profiles, &'a Traces),
        purpose: Purpose,
    ) -> Self {
        Self {
            context,
            values,
            locks: RefCell::new(locks),
            pending: RefCell::default(),
            diagnostics,
            profiles,
            traces,
            privileges: RefCell::default(),
            purpose,
            only_reads: false,
            applies: false,
            listed: RefCell::default(),
            tables: Cell::new(0),
            variables: Cell::new(false),
        }
    }

    /// The same where tables may not be changed, or where a source says what is.
    pub(crate) fn reading_only(mut self, only_reads: bool, applies: bool) -> Self {
        self.only_reads = only_reads;
        self.applies = applies;
        self
    }
}

impl SessionNames<'_> {
    /// May the account see how the statement is planned? EXPLAIN fails if not, and a trace stays empty.
    fn admit_look(&self, admitted: SqlResult<()>) -> SqlResult<()> {
        if self.purpose == Purpose::Explain {
            return admitted;
        }
        if admitted.is_err() {
            self.context.hides_plan.set(true);
        }
        Ok(())
    }

    /// What came out of binding: a wait, if a lock was not free, whatever became of the rest.
    pub(crate) fn conclude<R>(&self, bound: SqlResult<R>) -> Result<R, ExecError> {
        match self.pending.borrow_mut().take() {
            Some(ticket) => Err(ExecError::Wait(ticket)),
            None => bound.map_err(ExecError::from),
        }
    }

    /// Is a lock not free?
    pub(super) fn waits(&self) -> bool {
        self.pending.borrow().is_some()
    }

    /// The temporary table of this name; views name none.
    fn temporary(&self, schema: &str, name: &str) -> Option<Arc<TableDef>> {
        match self.privileges.borrow().is_empty() {
            true => self.context.temporary_table(schema, name),
            false => None,
        }
    }

    /// Resolves a stored table and takes its lock.
    pub(crate) fn stored(
        &self,
        schema: &str,
        name: &str,
        mode: MdlMode,
    ) -> SqlResult<Arc<TableDef>> {
        loop {
            let table = self.context.instance.catalog.table_or_error(schema, name)?;
            self.lock(&table.mdl, name, mode)?;
            // A schema change may have come between the look-up and the lock.
            match self.context.instance.catalog.resolve(schema, name) {
                Some(now) if Arc::ptr_eq(&now, &table) => return Ok(table),
                _ if self.waits() => return Ok(table),
                _ => (),
            }
        }
    }

    /// A table or view of a system schema.
    fn system_table(
        &self,
        need: Need,
        schema: &'static SystemSchema,
        name: &str,
    ) -> SqlResult<TableSource> {
        let found = schema.table(name);
        // A join of which some tables are changed may read it; the change itself would be refused.
        let reads = need.is_read() || need == Need::UpdateOrRead;
        if !reads && found.is_none_or(|spec| spec.kind != SpecKind::View) {
            return Err(match schema.name {
                "information_schema" => {
                    let context = self.context;
                    context.no_schema(&context.access.host, schema.name)
                }
                _ => {
                    let missing = need.privileges();
                    let command = missing.names().next().unwrap_or("SELECT");
                    self.context.denied(command, name)
                }
            });
        }
        if schema.name != "information_schema" && !found.is_some_and(is_open_table) {
            self.admit(need, schema.name, name)?;
        }
        let spec = found.ok_or_else(|| infoschema::unknown_table(schema.name, name))?;
        if infoschema::opens_with_process(spec) {
            self.context.require("PROCESS")?;
        }
        if let Some(view) = infoschema::sys::view(spec, self.context.instance.catalog.locks()) {
            return Ok(TableSource::View(view));
        }
        let mut viewer = self.context.viewer();
        if infoschema::wants_session(spec) {
            viewer.session = Some(Arc::new(self.state()));
        }
        let table = SystemTable::new(spec, viewer);
        Ok(TableSource::Virtual(Arc::new(table)))
    }

    /// What tables about the session itself show.
    fn state(&self) -> SessionState {
        let (context, values) = (self.context, self.values);
        let variables = VarId::all().map(|id| {
            let value = match id.def().scope {
                Scope::Global => context.instance.global_variable(id),
                _ => session_variable(context, values, self.diagnostics, id),
            };
            (id.def().name, value.print())
        });
        SessionState {
            variables: variables.collect(),
            roles: context.active_roles.clone(),
            user_variables: context.user_variables(),
            stages: self.profiles.all_stages(),
            traces: self.traces.shown(),
        }
    }

    /// Takes the lock of a table or view, or leaves the ticket of a wait for it.
    fn lock(&self, object: &Arc<MdlObject>, name: &str, mode: MdlMode) -> SqlResult<()> {
        if self.waits() || self.purpose == Purpose::ListTables {
            return Ok(());
        }
        let mut locks = self.locks.borrow_mut();
        if locks.has_explicit() {
            let write = mode == MdlMode::SharedWrite;
            check_locked(&locks, object, name, write)?;
        }
        self.settle(locks.acquire(object, mode, MdlDuration::Transaction))
    }

    /// Leaves the ticket of a wait.
    fn settle(&self, acquired: Result<(), ExecError>) -> SqlResult<()> {
        match acquired {
            Ok(()) => Ok(()),
            Err(ExecError::Sql(e)) => Err(e),
            Err(ExecError::Wait(ticket)) => {
                *self.pending.borrow_mut() = Some(ticket);
                Ok(())
            }
        }
    }

    /// 1100 under LOCK TABLES, which does not know a table that is not there.
    fn under_lock_tables(&self, e: SqlError, name: &str) -> SqlError {
        const NO_SUCH_TABLE: u16 = 1146;
        match e.code == NO_SUCH_TABLE && self.locks.borrow().has_explicit() {
            true => errors::table_not_locked(name),
            false => e,
        }
    }

    fn is_view(&self, schema: &str, name: &str) -> bool {
        self.context.instance.catalog.view(schema, name).is_some()
    }

    fn schema<'b>(&'b self, given: Option<&'b str>) -> SqlResult<&'b str> {
        match given {
            Some(name) => Ok(name),
            None => self.context.current_schema(),
        }
    }
}

/// The type that `@@name` has.
fn variable_type(value: &VarValue) -> SqlType {
    match value {
        VarValue::Bool(_) => SqlType {
            length: 1,
            ..SqlType::bigint(false)
        },
        VarValue::UInt(_) => SqlType {
            length: 21,
            ..SqlType::bigint(true)
        },
        VarValue::Int(_) => SqlType {
            length: 21,
            ..SqlType::bigint(false)
        },
        VarValue::Double(_) => SqlType {
            decimals: 6,
            ..SqlType::new(TypeKind::Double)
        },
        VarValue::Text(t) => {
            let chars = t.chars().count().max(1) as u32;
            SqlType::varchar(chars, Collation::UTF8MB3_GENERAL_CI)
        }
        VarValue::Null => SqlType::varchar(0, Collation::UTF8MB3_GENERAL_CI),
    }
}

impl Names for SessionNames<'_> {
    fn table(&self, need: Need, schema: Option<&str>, name: &str) -> SqlResult<TableSource> {
        self.tables.set(self.tables.get() + 1);
        if let Some(branch) = &self.context.xa {
            branch.admit_tables()?;
        }
        let schema = self.schema(schema)?;
        if let Some(system) = infoschema::schema(schema)
            && self.temporary(schema, name).is_none()
        {
            return self.system_table(need, system, name);
        }
        if let Some(table) = self.temporary(schema, name) {
            self.context.admit_temporary()?;
            if self.purpose == Purpose::DefineView {
                let text = format!("View's SELECT refers to a temporary table '{name}'");
                return Err(SqlError::new(1352, "HY000", text));
            }
            return Ok(TableSource::Base(table));
        }
        self.admit(need, schema, name)?;
        if need.writes() && self.only_reads {
            return Err(read_only_transaction());
        }
        if self.purpose == Purpose::ListTables {
            self.listed.borrow_mut().push(TableName {
                schema: schema.to_owned(),
                name: name.to_owned(),
            });
        }
        loop {
            let Some(view) = self.context.instance.catalog.view(schema, name) else {
                let table = self.stored(schema, name, MdlMode::SharedRead);
                let table = table.map_err(|e| self.under_lock_tables(e, name));
                return table.map(TableSource::Base);
            };
            self.lock(&view.mdl, name, MdlMode::SharedRead)?;
            // It may have been changed between the look-up and the lock.
            let now = self.context.instance.catalog.view(schema, name);
            if self.waits() || now.is_some_and(|now| Arc::ptr_eq(&now, &view)) {
                self.admit_look(self.context.admit_explained_view(schema, name))?;
                return Ok(TableSource::View(view));
            }
        }
    }

    fn admit(&self, need: Need, schema: &str, table: &str) -> SqlResult<()> {
        let privileges = self.privileges.borrow();
        match (privileges.last(), self.purpose) {
            (None, Purpose::DefineView) => self.context.admit_in_view(schema, table),
            (None, _) => self
                .context
                .admit(&self.context.access, need, schema, table),
            // Views below it are made of tables, which are asked about.
            (Some(_), Purpose::ListTables) if self.is_view(schema, table) => Ok(()),
            (Some(access), Purpose::ListTables) => {
                self.context.admit_lock_below(access, schema, table)
            }
            (Some(access), _) => {
                self.admit_look(self.context.admit_explained(schema, table))?;
                self.context.admit(access, need, schema, table)
            }
        }
    }

    fn admit_row_locks(&self, table: &TableDef) -> SqlResult<()> {
        // As in MySQL EXPLAIN takes none, but counts a change for one.
        if self.purpose == Purpose::Explain {
            return Ok(());
        }
        if self.only_reads {
            return Err(read_only_transaction());
        }
        if self.purpose != Purpose::Run || self.waits() {
            return Ok(());
        }
        self.context.check_server_writable(self.applies)?;
        let mut locks = self.locks.borrow_mut();
        if locks.has_explicit() {
            // LOCK TABLES … WRITE has announced them.
            return check_locked(&locks, &table.mdl, &table.name, true);
        }
        let announced = announce_write(
            &self.context.instance.catalog,
            &mut locks,
            MdlDuration::Statement,
        );
        self.settle(announced)
    }

    fn check_writable(&self, schema: &str) -> SqlResult<()> {
        self.context.instance.catalog.check_writable(schema)
    }

    fn restricted(&self, schema: &str, table: &str) -> Option<Rc<Restricted>> {
        if self.temporary(schema, table).is_some() || self.purpose == Purpose::ListTables {
            return None;
        }
        let privileges = self.privileges.borrow();
        let access = privileges.last().unwrap_or(&self.context.access);
        self.context.restricted(access, schema, table).map(Rc::new)
    }

    fn check_columns(
        &self,
        need: Need,
        table: &TableDef,
        columns: &[usize],
        listed: bool,
    ) -> SqlResult<()> {
        match table.temporary || self.purpose == Purpose::ListTables {
            true => Ok(()),
            false => {
                let privileges = self.privileges.borrow();
                let access = privileges.last().unwrap_or(&self.context.access);
                let context = self.context;
                context.check_columns(access, need, table, (columns, listed))
            }
        }
    }

    fn enter_view(&self, view: &ViewDef) -> SqlResult<()> {
        let (user, host) = &view.definer;
        let access = match (view.invoker, self.privileges.borrow().last()) {
            (true, Some(outside)) => outside.clone(),
            (true, None) => self.context.access.clone(),
            (false, _) => {
                let accounts = self.context.instance.accounts();
                let account = accounts.exact(user, host);
                let account = account.ok_or_else(|| errors::no_such_definer(user, host))?;
                Arc::new(accounts.access(&account, &account.default_roles))
            }
        };
        self.privileges.borrow_mut().push(access);
        Ok(())
    }

    fn leave_view(&self) {
        self.privileges.borrow_mut().pop();
    }

    fn account_in_view(&self) -> Option<String> {
        let privileges = self.privileges.borrow();
        let access = privileges.last()?;
        Some(format!("{}@{}", access.user, access.host))
    }

    fn stored_function(
        &self,
        schema: &str,
        name: &str,
        _qualified: bool,
    ) -> SqlResult<Option<Arc<StoredFunction>>> {
        let kind = RoutineKind::Function;
        let (key, catalog) = (RoutineKey::new(kind, name), &self.context.instance.catalog);
        let admit = || {
            let privileges = self.privileges.borrow();
            let access = privileges.last().unwrap_or(&self.context.access);
            let routine = (kind, schema, name);
            self.context.admit_routine(access, "EXECUTE", routine)
        };
        if catalog.routine(schema, &key).is_none() {
            // Whoever may not call it does not hear whether it is there.
            return admit().map(|()| None);
        }
        if !self.waits() {
            let object = catalog.locks().routine(kind, schema, name);
            let (mode, until) = (MdlMode::SharedRead, MdlDuration::Transaction);
            let acquired = self.locks.borrow_mut().acquire(&object, mode, until);
            self.settle(acquired)?;
        }
        // It may have been changed between the look-up and the lock.
        let Some(def) = catalog.routine(schema, &key) else {
            return Ok(None);
        };
        admit()?;
        self.context.signature_of(&def).map(Some)
    }

    fn related(&self, schema: &str, table: &str) -> Option<Arc<TableDef>> {
        self.context.instance.catalog.resolve(schema, table)
    }

    fn sample(&self, table: &TableDef, index: usize, entries: f64) -> Option<Arc<IndexSample>> {
        table
            .runtime
            .sample(self.context.instance.engine(), table, index, entries)
    }

    fn system_variable(&self, var: &SysVar) -> SqlResult<(Value, SqlType)> {
        self.variables.set(true);
        let value = self.variable(var)?;
        let ty = variable_type(&value);
        Ok((value.to_value(), ty))
    }
}

impl SessionNames<'_> {
    /// The value of `@@name`.
    ///
    /// # Errors
    /// 1193, and 1238 for a scope the variable does not have.
    fn variable(&self, var: &SysVar) -> SqlResult<VarValue> {
        if let Some(base) = &var.base {
            return Err(unknown(&format!("{base}.{}", var.name)));
        }
        if self.is_domain_for_mariadb(var) {
            return Ok(VarValue::UInt(0));
        }
        let id = VarId::find(&var.name)?;
        let def = id.def();
        let wrong = |kind: &str| errors::read_only_variable(def.name, kind);
        match (var.scope, def.scope) {
            (Some(VarScope::Global), Scope::Session) => Err(wrong("SESSION")),
            (Some(VarScope::Session), Scope::Global) => Err(wrong("GLOBAL")),
            (Some(VarScope::Global), _) | (_, Scope::Global) => {
                Ok(self.context.instance.global_variable(id))
            }
            _ => Ok(session_variable(
                self.context,
                self.values,
                self.diagnostics,
                id,
            )),
        }
    }
}

impl SessionNames<'_> {
    /// The variable by which a replica of MariaDB knows whether its GTIDs are understood. There is no such variable for
    /// anybody else, who would take the server for MariaDB.
    fn is_domain_for_mariadb(&self, var: &SysVar) -> bool {
        var.name.eq_ignore_ascii_case("gtid_domain_id")
            && UserVars::get(self.context, "mariadb_slave_capability").is_some()
    }
}

/// A session's value, computed ones included. `diagnostics`: warnings and errors.
pub(crate) fn session_variable(
    context: &SessionContext,
    values: &SessionValues,
    diagnostics: (u64, u64),
    id: VarId,
) -> VarValue {
    match id.def().name {
        "last_insert_id" | "identity" => VarValue::UInt(context.last_insert_id.get()),
        "insert_id" => VarValue::UInt(context.insert_id.get()),
        "proxy_user" => match &context.proxy_user {
            Some(user) => VarValue::Text(user.as_str().into()),
            None => VarValue::Null,
        },
        "pseudo_thread_id" => VarValue::UInt(context.process.id),
        "warning_count" => VarValue::UInt(diagnostics.0),
        "error_count" => VarValue::UInt(diagnostics.1),
        "timestamp" => match values.get(id) {
            VarValue::Double(fixed) if *fixed > 0.0 => VarValue::Double(*fixed),
            _ => VarValue::Double(context.instance.now_micros() as f64 / 1e6),
        },
        "gtid_owned" => {
            let owned = context.gtid_next.owned();
            VarValue::Text(owned.map(ToString::to_string).unwrap_or_default().into())
        }
        "gtid_executed" | "gtid_purged" => context.instance.global_variable(id),
        _ => values.get(id).clone(),
    }
}
