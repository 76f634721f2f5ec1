//! The session context: account, database, clock and user variables, as functions and expressions see them.
//!
//! Neighbours: kernels see it as `esker_types::SessionInfo`, expressions as `expr::UserVars`.
//! **Invariant**: shared by reference while a statement runs, so every part that a statement may
//! change is a cell; nothing keeps a borrow across a call.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use esker_sql_catalog::accounts::{Access, Account, Privileges, Role, RoleName, graphml};
use esker_sql_catalog::catalog::{RoutineKey, TemporaryTables};
use esker_sql_catalog::exec_error::engine_error;
use esker_sql_exec::Reserved;
use esker_sql_plan::expr::{StoredFunction, UserVars};
use esker_sql_syntax::digest::digest_text;
use esker_sql_syntax::{self as parse, ParseOptions};
use esker_types::collation::Collation;
use esker_types::ctx::{RegexpLimits, SourceChange, SourceWait};
use esker_types::decimal::MAX_SCALE;
use esker_types::func::SeededRand;
use esker_types::{
    SessionInfo, SqlError, SqlMode, SqlResult, SqlType, TypeKind, Value, cast, errors,
};

use super::gtid::GtidNext;
use super::pace::Pace;
use super::registry::Process;
use super::xa::Branch;
use crate::infoschema::{self, Viewer};
use crate::instance::Instance;
use crate::textfile::{Places, read_file};

/// Most user variables of a session.
const MAX_USER_VARS: usize = 10_000;

/// Stored functions by database and name.
type KnownFunctions = HashMap<(Arc<str>, RoutineKey), Arc<StoredFunction>>;

/// What functions and expressions may read of one session.
pub struct SessionContext {
    pub(crate) instance: Arc<Instance>,
    pub(crate) process: Arc<Process>,
    /// How long the statement may go on.
    pub(super) pace: Pace,
    /// User name as the client gave it.
    pub(crate) user: String,
    /// Host as accounts see it.
    pub(crate) host: String,
    pub(crate) account: Account,
    /// The statement reads a view inside of which the account may not look.
    pub(super) hides_plan: Cell<bool>,
    /// `show_gipk_in_create_table_and_information_schema`.
    pub(crate) shows_generated_keys: bool,
    /// `proxy_user`.
    pub(super) proxy_user: Option<String>,
    /// What it may do.
    pub(crate) access: Arc<Access>,
    /// Roles of the account whose privileges the session has taken on.
    pub(crate) active_roles: Vec<RoleName>,
    /// [`Accounts::version`](esker_sql_catalog::accounts::Accounts::version) that `account` was read at.
    accounts_version: Option<u64>,
    /// The account is not one of the instance's list (a session inside the process).
    embedded: bool,
    pub(crate) database: Option<Arc<str>>,
    /// Changes whenever a statement may bind to something else than before: see [`Self::rebind`].
    pub(crate) binding: u64,
    /// The last binding that was given.
    last_binding: u64,
    /// When the statement began, microseconds since the epoch.
    pub(crate) statement_micros: Cell<i64>,
    pub(crate) last_insert_id: Cell<u64>,
    /// `insert_id`: the first AUTO_INCREMENT value of the next statement that generates one; 0: as the table has it.
    pub(crate) insert_id: Cell<u64>,
    /// `rand_seed1`, `rand_seed2`: where RAND() goes on, once they were set.
    pub(crate) seeds: Cell<Option<(u64, u64)>>,
    pub(crate) row_count: Cell<i64>,
    pub(crate) found_rows: Cell<u64>,
    /// The password has expired: nothing goes before it is changed.
    pub(crate) must_change_password: bool,
    /// The GTID of its next transaction.
    pub(crate) gtid_next: GtidNext,
    /// The XA transaction the session works in.
    pub(crate) xa: Option<Box<Branch>>,
    /// Temporary tables.
    pub(crate) temporary: RefCell<TemporaryTables>,
    user_vars: RefCell<UserVariables>,
    /// What the client says of the statement: names and values.
    pub(super) attributes: Vec<(Vec<u8>, Option<Vec<u8>>)>,
    /// What USER() is where nobody has logged in.
    pub(super) caller: Option<&'static str>,
    /// Stored functions that statements have called.
    pub(super) functions: RefCell<KnownFunctions>,
    /// Bytes worked on since it was asked what memory there is.
    worked: Cell<usize>,
    /// It was asked since the last request ended.
    has_asked: Cell<bool>,
}

/// Whom a session acts as: an account with its roles.
pub(super) struct Actor {
    account: Account,
    access: Arc<Access>,
    active_roles: Vec<RoleName>,
    accounts_version: Option<u64>,
}

/// Values of this size ask for memory; smaller ones are part of what a connection costs.
const LARGE_VALUE: usize = 1 << 20;
/// After work on so many bytes a statement asks whether there is memory to go on.
const LOOK_AT_MEMORY: usize = 4 << 20;

/// The user variables of a session, and the memory they take.
#[derive(Default)]
struct UserVariables {
    values: HashMap<Box<str>, (Value, SqlType)>,
    /// Bytes of names and texts.
    bytes: u64,
    reserved: Reserved,
}

/// What a user variable takes.
fn variable_bytes(name: &str, value: &Value) -> u64 {
    (name.len() + value.text_len()) as u64
}

impl SessionContext {
    /// SessionContext of a new session.
    pub(crate) fn new(
        instance: Arc<Instance>,
        (process, pace): (Arc<Process>, Pace),
        user: String,
        host: String,
        account: Account,
        embedded: bool,
    ) -> Self {
        Self {
            instance,
            process,
            pace,
            user,
            host,
            hides_plan: Cell::new(false),
            shows_generated_keys: true,
            proxy_user: None,
            access: Arc::new(Access::of(&account)),
            active_roles: Vec::new(),
            account,
            accounts_version: None,
            embedded,
            database: None,
            binding: 0,
            last_binding: 0,
            statement_micros: Cell::new(0),
            last_insert_id: Cell::new(0),
            insert_id: Cell::new(0),
            seeds: Cell::new(None),
            row_count: Cell::new(-1),
            found_rows: Cell::new(0),
            must_change_password: false,
            xa: None,
            gtid_next: GtidNext::default(),
            temporary: RefCell::default(),
            user_vars: RefCell::default(),
            attributes: Vec::new(),
            caller: None,
            functions: RefCell::default(),
            worked: Cell::new(0),
            has_asked: Cell::new(false),
        }
    }

    /// The session acts as `account` from now on.
    pub(crate) fn act_as(&mut self, user: &str, account: Account) {
        user.clone_into(&mut self.user);
        self.account = account;
        self.take_login_roles();
    }

    /// Roles that the session may take on: those of the account, and the mandatory ones.
    pub(crate) fn roles_held(&self) -> Vec<RoleName> {
        let mut held: Vec<RoleName> = self.account.roles.iter().map(|r| r.role.clone()).collect();
        for role in self.instance.mandatory_roles() {
            if !held.contains(&role) && !self.access.is_of(&role.0, &role.1) {
                held.push(role);
            }
        }
        held
    }

    /// The roles that a session begins with.
    pub(crate) fn take_login_roles(&mut self) {
        let is_on = |name| self.instance.globals.named(name).is_on();
        let roles = if is_on("activate_all_roles_on_login") {
            self.roles_held()
        } else {
            let mut roles = self.account.default_roles.clone();
            if is_on("activate_mandatory_roles") {
                roles.extend(self.instance.mandatory_roles());
            }
            roles
        };
        self.activate(roles);
    }

    /// These roles are active from now on.
    pub(crate) fn activate(&mut self, mut roles: Vec<RoleName>) {
        roles.sort();
        roles.dedup();
        self.active_roles = roles;
        self.accounts_version = None;
        self.renew_rights();
    }

    /// Before every statement: what GRANT, REVOKE, DROP USER and their kin have done since the one before
    /// holds from here on. An account that is gone has no privileges.
    pub(crate) fn renew_rights(&mut self) {
        let accounts = self.instance.accounts();
        let version = accounts.version();
        if self.accounts_version == Some(version) {
            return;
        }
        if !self.embedded {
            match accounts.exact(&self.account.user, &self.account.host) {
                Some(account) => self.account = account,
                None => self.account.grants.clear(),
            }
        }
        let held = self.roles_held();
        self.active_roles.retain(|role| held.contains(role));
        self.access = Arc::new(accounts.access(&self.account, &self.active_roles));
        self.accounts_version = Some(version);
        // Plans rest on the privileges of views' definers, too.
        self.rebind();
    }

    /// Fails while the password has to be changed.
    ///
    /// # Errors
    /// 1820.
    pub(crate) fn check_password_is_fresh(&self) -> SqlResult<()> {
        if !self.must_change_password {
            return Ok(());
        }
        let text = "You must reset your password using ALTER USER statement before executing this statement.";
        Err(SqlError::new(1820, "HY000", text))
    }

    /// The current schema, the account, the SQL mode, a collation, the time zone or another variable
    /// that binding asks for has changed: plans made before are void.
    pub(crate) fn rebind(&mut self) {
        self.last_binding += 1;
        self.binding = self.last_binding;
    }

    /// Whom the session would act as in the name of an account, with its default roles.
    pub(super) fn actor(&self, account: Account) -> Actor {
        let accounts = self.instance.accounts();
        let active_roles = account.default_roles.clone();
        Actor {
            access: Arc::new(accounts.access(&account, &active_roles)),
            active_roles,
            accounts_version: Some(accounts.version()),
            account,
        }
    }

    /// Acts as another for a while; gives back whom it acted as.
    pub(super) fn swap_actor(&mut self, actor: Actor) -> Actor {
        Actor {
            account: std::mem::replace(&mut self.account, actor.account),
            access: std::mem::replace(&mut self.access, actor.access),
            active_roles: std::mem::replace(&mut self.active_roles, actor.active_roles),
            accounts_version: std::mem::replace(&mut self.accounts_version, actor.accounts_version),
        }
    }

    /// As after COM_RESET_CONNECTION.
    pub(crate) fn reset(&mut self) {
        self.rebind();
        self.last_insert_id.set(0);
        self.insert_id.set(0);
        self.seeds.set(None);
        self.row_count.set(-1);
        self.found_rows.set(0);
        *self.user_vars.get_mut() = UserVariables::default();
    }

    /// Is asked now and then while a statement runs.
    ///
    /// # Errors
    /// The statement is killed, or out of time.
    pub(crate) fn check(&self) -> SqlResult<()> {
        self.pace.look(&self.process)
    }

    /// A request is over.
    pub(super) fn give_back(&self) {
        if self.has_asked.take() {
            self.instance.engine.memory().values_are_gone();
        }
    }

    /// Is there memory for so many bytes that nobody counts?
    fn ask_for(&self, bytes: usize) -> SqlResult<()> {
        self.has_asked.set(true);
        let memory = self.instance.engine.memory();
        memory.admit_values(bytes).map_err(|e| engine_error(&e))
    }

    /// Sets a user variable.
    ///
    /// # Errors
    /// 1041 when the session has too many, or when there is no memory for its value.
    pub(crate) fn set_user_var(&self, name: &str, value: Value, ty: SqlType) -> SqlResult<()> {
        let (value, ty) = as_variable(value, ty);
        let mut vars = self.user_vars.borrow_mut();
        let before = vars.values.get(name).map(|v| variable_bytes(name, &v.0));
        if vars.values.len() >= MAX_USER_VARS && before.is_none() {
            return Err(errors::out_of_memory("too many user variables"));
        }
        let bytes = vars.bytes - before.unwrap_or(0) + variable_bytes(name, &value);
        vars.reserved
            .raise(bytes, self.instance.engine.memory())
            .map_err(|e| engine_error(&e))?;
        vars.bytes = bytes;
        vars.values.insert(name.into(), (value, ty));
        vars.reserved.lower(bytes);
        Ok(())
    }

    /// The current schema.
    ///
    /// # Errors
    /// 1046.
    pub(crate) fn current_schema(&self) -> SqlResult<&str> {
        self.database.as_deref().ok_or_else(errors::no_database)
    }

    /// What decides which objects are shown.
    pub(crate) fn viewer(&self) -> Viewer {
        Viewer {
            instance: self.instance.clone(),
            access: self.access.clone(),
            user: self.user.clone(),
            connection: self.process.id,
            generated_keys: self.shows_generated_keys,
            session: None,
        }
    }
}

impl SessionContext {
    /// Names and values of all user variables.
    pub(crate) fn user_variables(&self) -> Vec<(String, Value)> {
        let variables = self.user_vars.borrow();
        let named = variables.values.iter();
        let mut all: Vec<_> = named
            .map(|(name, (value, _))| (name.to_string(), value.clone()))
            .collect();
        all.sort_by(|a, b| a.0.cmp(&b.0));
        all
    }
}

impl SessionInfo for SessionContext {
    fn wall_micros(&self) -> i64 {
        self.instance.env.clock.wall_micros()
    }
    fn connection_id(&self) -> u64 {
        self.process.id
    }
    fn database(&self) -> Option<&str> {
        self.database.as_deref()
    }
    fn user(&self) -> String {
        match self.caller {
            Some(caller) => caller.to_owned(),
            None => format!("{}@{}", self.user, self.host),
        }
    }
    fn current_user(&self) -> String {
        self.account.name()
    }
    fn current_role(&self) -> String {
        match self.active_roles.as_slice() {
            [] => "NONE".to_owned(),
            roles => {
                let names = roles.iter().map(|r| Role(r).to_string());
                names.collect::<Vec<_>>().join(",")
            }
        }
    }
    fn version(&self) -> &str {
        self.instance.version()
    }
    fn last_insert_id(&self) -> u64 {
        self.last_insert_id.get()
    }
    fn set_last_insert_id(&self, id: u64) {
        self.last_insert_id.set(id);
    }
    fn row_count(&self) -> i64 {
        self.row_count.get()
    }
    fn found_rows(&self) -> u64 {
        self.found_rows.get()
    }
    fn random(&self) -> u64 {
        self.instance.env.random.next_u64()
    }
    fn seeded(&self) -> Option<f64> {
        let mut generator = SeededRand::resume(self.seeds.get()?);
        let drawn = generator.draw();
        self.seeds.set(Some(generator.seeds()));
        Some(drawn)
    }
    fn query_attribute(&self, name: &[u8]) -> Option<Vec<u8>> {
        let lower = |name: &[u8]| String::from_utf8_lossy(name).to_lowercase();
        let (name, mut all) = (lower(name), self.attributes.iter());
        all.find(|(n, _)| lower(n) == name)?.1.clone()
    }
    fn may_hear_of(&self, schema: &str, table: &str) -> bool {
        self.access
            .on_table(schema, table)
            .meets(Privileges::ON_TABLE)
    }
    fn killed(&self) -> bool {
        self.process.is_killed() || self.pace.is_late()
    }
    fn pause(&self, time: Duration) {
        self.process.show_state("User sleep");
        self.process.sleep_until(Instant::now() + time);
        self.process.show_state("");
    }
    fn go_on(&self, bytes: usize) -> SqlResult<()> {
        self.pace.look_at_bytes(bytes, &self.process)?;
        // Work on many bytes may leave many behind.
        let worked = self.worked.get().saturating_add(bytes);
        let is_due = worked >= LOOK_AT_MEMORY;
        self.worked.set(if is_due { 0 } else { worked });
        if is_due { self.ask_for(0) } else { Ok(()) }
    }
    fn may_make(&self, bytes: usize) -> SqlResult<()> {
        match bytes < LARGE_VALUE {
            true => Ok(()),
            false => self.ask_for(bytes),
        }
    }
    fn regexp_limits(&self) -> RegexpLimits {
        let globals = &self.instance.globals;
        RegexpLimits {
            steps: globals.named("regexp_time_limit").as_u64(),
            bytes: globals.named("regexp_stack_limit").as_u64(),
        }
    }
    fn get_lock(&self, name: &str, timeout_secs: f64) -> SqlResult<Option<bool>> {
        let locks = &self.instance.registry.user_locks;
        let go_on = || self.pace.may_go_on(&self.process, Instant::now());
        let shows = |waits: bool| {
            let state = if waits { "User lock" } else { "" };
            self.process.show_state(state);
        };
        let taken = locks.get(self.process.id, name, timeout_secs, go_on, shows)?;
        Ok(Some(taken))
    }
    fn release_lock(&self, name: &str) -> Option<bool> {
        let locks = &self.instance.registry.user_locks;
        locks.release(self.process.id, name)
    }
    fn lock_holder(&self, name: &str) -> Option<u64> {
        self.instance.registry.user_locks.holder(name)
    }
    fn release_all_locks(&self) -> u64 {
        let locks = &self.instance.registry.user_locks;
        locks.release_all(self.process.id)
    }
    fn has_connection(&self, id: u64) -> bool {
        self.instance.registry.find(id).is_ok()
    }
    fn connection_account(&self, id: u64) -> Option<String> {
        let process = self.instance.registry.find(id).ok()?;
        Some(format!("{}@{}", process.detail().user, process.host()))
    }
    fn collects(&self, consumer: &str) -> Option<bool> {
        infoschema::is_collected(&self.instance, consumer)
    }
    fn load_file(&self, name: &[u8], most: u64) -> SqlResult<Option<Vec<u8>>> {
        match self.require("FILE") {
            Ok(()) => read_file(&Places::of(&self.instance.globals), name, most, self),
            Err(_) => Ok(None),
        }
    }
    fn digest_text(&self, statement: &[u8]) -> SqlResult<String> {
        let watch = parse::Watch {
            session: self,
            most_bytes: u64::MAX,
        };
        let options = ParseOptions {
            watch: Some(watch),
            ..ParseOptions::default()
        };
        parse::parse(statement, options)?;
        Ok(digest_text(statement, SqlMode::default()))
    }
    fn user_variable(&self, name: &str) -> Option<(Value, SqlType)> {
        self.user_vars.borrow().values.get(name).cloned()
    }
    fn roles_graphml(&self) -> String {
        let sees = self.access.global().meets(Privileges::of(&["ROLE_ADMIN"]));
        let accounts = self.instance.accounts().all();
        graphml::roles(if sees { &accounts } else { &[] })
    }
    fn wait_for_source(&self, wait: &SourceWait) -> SqlResult<Option<i64>> {
        self.wait_for_channel(wait)
    }
    fn change_sources(&self, change: &SourceChange) -> SqlResult<bool> {
        self.change_listed_sources(change)
    }
    fn gtids(&self) -> Option<&dyn esker_types::ctx::GtidFunctions> {
        Some(self)
    }
}

/// What a user variable keeps: numbers and texts. Decimals have the digits of their value. Dates, times and JSON become
/// texts, and so do the labels of ENUM and SET; bits and years are integers.
fn as_variable(value: Value, ty: SqlType) -> (Value, SqlType) {
    if let Value::Decimal(number) = value {
        let number = match number.scale() > MAX_SCALE {
            true => number.round(MAX_SCALE).unwrap_or(number),
            false => number,
        };
        let ty = SqlType {
            decimals: number.scale(),
            own_scale: false,
            ..ty
        };
        return (Value::Decimal(number), ty);
    }
    let number = match &value {
        Value::Bit(bits, _) => Some(*bits),
        Value::Int(year) if ty.kind == TypeKind::Year => Some(year.unsigned_abs()),
        _ => None,
    };
    if let Some(number) = number {
        return (Value::UInt(number), SqlType::bigint(true));
    }
    if let Value::Label(_, text) = value {
        let chars = String::from_utf8_lossy(&text).chars().count() as u32;
        return (
            Value::Str(text.into_vec()),
            SqlType::varchar(chars, ty.collation),
        );
    }
    if let Value::Json(_) = value {
        let text = cast::to_str(&value, &ty).into_owned();
        let ty = SqlType {
            collation: Collation::UTF8MB4_BIN,
            nullable: ty.nullable,
            ..SqlType::new(TypeKind::LongText)
        };
        return (Value::Str(text), ty);
    }
    if !matches!(value, Value::Date(_) | Value::Time(_) | Value::DateTime(_)) {
        return (value, ty);
    }
    let text = cast::to_str(&value, &ty).into_owned();
    let chars = text.len() as u32;
    let ty = SqlType::varchar(chars, Collation::LATIN1_SWEDISH_CI);
    (Value::Str(text), ty)
}

impl UserVars for SessionContext {
    fn get(&self, name: &str) -> Option<(Value, SqlType)> {
        self.user_vars.borrow().values.get(name).cloned()
    }
    fn set(&self, name: &str, value: Value, ty: SqlType) {
        if let Err(e) = self.set_user_var(name, value, ty) {
            self.pace.fail(e);
        }
    }
}
