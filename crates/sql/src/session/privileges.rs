//! May the session's account do that? Checks by level, and the errors when it may not.
//!
//! Neighbours: everything a statement comes through asks here; `names` answers the binder with it; `accounts` adds
//! grants up.
//! **Invariants**
//! - An object's privileges are asked for before it is looked for: who may not see it does not hear whether it is
//!   there.
//! - 1142 and 1143 name the host that the client comes from, 1044 that of the account, as in MySQL.

use esker_sql_catalog::accounts::{Access, Privileges, RoleName};
use esker_sql_catalog::catalog::TableDef;
use esker_sql_plan::bind::{Need, Restricted, column_denied};
use esker_sql_syntax::ast::{
    Account, AlterAction, AlterTable, CreateTable, ForeignKey, Grant, LockTable, ObjectName,
    PartitionAction, Statement,
};
use esker_types::{SqlError, SqlResult, errors};

use super::SessionContext;
use super::grants::Way;
use crate::infoschema;

const SELECT: Privileges = Privileges::of(&["SELECT"]);
const UPDATE: Privileges = Privileges::of(&["UPDATE"]);
const LOCK_TABLES: Privileges = Privileges::of(&["LOCK TABLES"]);
/// Each of these allows FOR UPDATE.
const LOCKING: Privileges = Privileges::of(&["UPDATE", "DELETE", "LOCK TABLES"]);
/// One of these is enough to name a table in a view.
const IN_VIEW: Privileges = Privileges::of(&["SELECT", "INSERT", "UPDATE", "DELETE"]);
const SHOW_VIEW: Privileges = Privileges::of(&["SHOW VIEW"]);

/// 1345.
pub(super) fn no_explain() -> SqlError {
    let text = "EXPLAIN/SHOW can not be issued; lacking privileges for underlying table";
    SqlError::new(1345, "HY000", text)
}

impl SessionContext {
    /// Accounts with SYSTEM_USER are changed by those only who have it.
    ///
    /// # Errors
    /// 1227.
    pub(super) fn check_accounts_above(&self, statement: &Statement) -> SqlResult<()> {
        let named = |accounts: &mut dyn Iterator<Item = &Account>| {
            let names: Vec<RoleName> = accounts.map(|a| self.named(a)).collect();
            self.check_not_above(&names)
        };
        match statement {
            // Whoever may change no accounts at all hears of that.
            Statement::AlterUser(_) | Statement::DropUser { .. } | Statement::RenameUser(_)
                if self.require("CREATE USER").is_err() =>
            {
                Ok(())
            }
            Statement::AlterUser(alter) => named(&mut alter.users.iter().map(|u| &u.account)),
            Statement::DropUser { users, .. } => named(&mut users.iter()),
            Statement::RenameUser(pairs) => named(&mut pairs.iter().map(|(from, _)| from)),
            Statement::SetPassword(_) if self.require_to_change_others().is_err() => Ok(()),
            Statement::SetPassword(set) => named(&mut std::iter::once(&set.account)),
            Statement::Grant(grant) | Statement::Revoke(grant, _) => match &**grant {
                Grant::Privileges {
                    privileges,
                    target,
                    users,
                    grant_option,
                    ..
                } => match self.asked(privileges, target, *grant_option, Way::of(statement)) {
                    Ok(_) => named(&mut users.iter()),
                    Err(_) => Ok(()),
                },
                Grant::Roles { roles, users, .. } => named(&mut roles.iter().chain(users)),
                Grant::Proxy { users, .. } => named(&mut users.iter()),
                Grant::All { users } if self.require("CREATE USER").is_ok() => {
                    named(&mut users.iter())
                }
                Grant::All { .. } => Ok(()),
            },
            _ => Ok(()),
        }
    }

    /// May the session's account make `definer` the definer of an object?
    ///
    /// # Errors
    /// 1227.
    pub(super) fn check_definer(&self, definer: &RoleName) -> SqlResult<()> {
        if self.access.is_of(&definer.0, &definer.1) {
            return Ok(());
        }
        self.require_any(&["SUPER", "SET_ANY_DEFINER"])?;
        if self
            .instance
            .accounts()
            .exact(&definer.0, &definer.1)
            .is_none()
        {
            self.require_any(&["SUPER", "ALLOW_NONEXISTENT_DEFINER"])?;
        }
        self.check_not_above(std::slice::from_ref(definer))
    }
}

impl SessionContext {
    /// User and host as 1142 and 1143 name them.
    fn who(&self) -> (Box<str>, Box<str>) {
        (self.access.user.clone(), self.host.as_str().into())
    }

    /// 1370, which names the host of the account.
    pub(super) fn routine_denied(&self, command: &str, routine: &str) -> SqlError {
        let account = (self.access.user.clone(), self.access.host.clone());
        errors::routine_denied(command, account, routine)
    }

    /// Checks a global privilege.
    ///
    /// # Errors
    /// 1227.
    pub(crate) fn require(&self, privilege: &str) -> SqlResult<()> {
        self.require_any(&[privilege])
    }

    /// Checks that one of these global privileges is there.
    ///
    /// # Errors
    /// 1227.
    pub(crate) fn require_any(&self, privileges: &[&str]) -> SqlResult<()> {
        if self.access.global().meets(Privileges::of(privileges)) {
            return Ok(());
        }
        let listed = match privileges {
            [before @ .., last] if !before.is_empty() => format!("{} or {last}", before.join(", ")),
            all => all.join(""),
        };
        Err(errors::privilege_needed(listed))
    }

    /// The same, for the statements whose error lists them with commas.
    ///
    /// # Errors
    /// 1227.
    pub(crate) fn require_listed(&self, privileges: &[&str]) -> SqlResult<()> {
        if self.access.global().meets(Privileges::of(privileges)) {
            return Ok(());
        }
        Err(errors::privilege_needed(privileges.join(", ")))
    }

    /// For session variables that administrators alone set.
    ///
    /// # Errors
    /// 1227.
    pub(super) fn require_restricted(&self) -> SqlResult<()> {
        self.require_any(&["SUPER", "SYSTEM_VARIABLES_ADMIN", "SESSION_VARIABLES_ADMIN"])
    }

    /// For session variables that also whoever applies what others have logged sets.
    ///
    /// # Errors
    /// 1227.
    pub(super) fn require_applier(&self) -> SqlResult<()> {
        self.require_any(&[
            "SUPER",
            "SYSTEM_VARIABLES_ADMIN",
            "SESSION_VARIABLES_ADMIN",
            "REPLICATION_APPLIER",
        ])
    }

    /// Checks a privilege on a database.
    ///
    /// # Errors
    /// 1044.
    pub(crate) fn require_in(&self, privilege: &str, schema: &str) -> SqlResult<()> {
        let wanted = Privileges::of(&[privilege]);
        match self.access.on_schema(schema).contains(wanted) {
            true => Ok(()),
            false => Err(self.no_schema(&self.access.host, schema)),
        }
    }

    /// Is anything there that the account may use?
    ///
    /// # Errors
    /// 1044, which names `host`.
    pub(crate) fn require_some_in(&self, host: &str, schema: &str) -> SqlResult<()> {
        let open = schema.eq_ignore_ascii_case("information_schema");
        match open || self.access.sees_schema(schema) {
            true => Ok(()),
            false => Err(self.no_schema(host, schema)),
        }
    }

    /// 1044.
    pub(crate) fn no_schema(&self, host: &str, schema: &str) -> SqlError {
        let user = &self.access.user;
        errors::database_denied(format!("'{user}'@'{host}'"), schema)
    }

    /// Checks privileges on a whole table.
    ///
    /// # Errors
    /// 1142 with those that are missing.
    pub(crate) fn require_on(&self, wanted: &[&str], schema: &str, table: &str) -> SqlResult<()> {
        let missing = Privileges::of(wanted).without(self.access.on_table(schema, table));
        match missing.is_empty() {
            true => Ok(()),
            false => Err(self.denied(&missing.listed(), table)),
        }
    }

    /// Is anything granted on the table or its columns?
    ///
    /// # Errors
    /// 1142.
    pub(crate) fn require_some_on(&self, schema: &str, table: &str) -> SqlResult<()> {
        match self.access.sees_table(schema, table) {
            true => Ok(()),
            false => Err(self.denied("SELECT", table)),
        }
    }

    /// May the account hear what the table is made of?
    ///
    /// # Errors
    /// 1142.
    pub(crate) fn require_description(&self, schema: &str, table: &str) -> SqlResult<()> {
        match self.access.describes_table(schema, table) {
            true => Ok(()),
            false => Err(self.denied("SELECT", table)),
        }
    }

    /// May the account read anything of the table?
    ///
    /// # Errors
    /// 1142.
    pub(crate) fn require_read(&self, schema: &str, table: &str) -> SqlResult<()> {
        let have = self.access.on_table_or_columns(schema, table);
        match have.meets(SELECT) {
            true => Ok(()),
            false => Err(self.denied("SELECT", table)),
        }
    }

    /// May the account see this table of a system schema?
    ///
    /// # Errors
    /// 1142.
    pub(super) fn admit_system_table(&self, schema: &str, table: &str) -> SqlResult<()> {
        let spec = infoschema::schema(schema).and_then(|s| s.table(table));
        match schema == "information_schema" || spec.is_some_and(infoschema::is_open_table) {
            true => Ok(()),
            false => self.require_some_on(schema, table),
        }
    }

    /// Is anything granted on the whole table? For SHOW CREATE TABLE.
    ///
    /// # Errors
    /// 1142.
    pub(crate) fn require_definition(&self, schema: &str, table: &str) -> SqlResult<()> {
        let have = self.access.on_table(schema, table);
        // Nothing but reading is there for anybody.
        let wanted = match schema {
            "performance_schema" => SELECT,
            _ => Privileges::ON_TABLE,
        };
        match have.meets(wanted) {
            true => Ok(()),
            false => Err(self.denied("SHOW", table)),
        }
    }

    /// 1142.
    pub(super) fn denied(&self, command: &str, table: &str) -> SqlError {
        let (user, host) = self.who();
        errors::table_denied(command, &user, &host, table)
    }

    /// May `access` name the table for `need`? What is allowed on columns only is looked at again when columns are
    /// named.
    pub(super) fn admit(
        &self,
        access: &Access,
        need: Need,
        schema: &str,
        table: &str,
    ) -> SqlResult<()> {
        let columns = access.on_table_or_columns(schema, table);
        let have = access
            .on_table(schema, table)
            .or(columns.and(Privileges::ON_COLUMN));
        if need.alternative().is_some_and(|enough| have.meets(enough)) {
            return Ok(());
        }
        let missing = need.privileges().without(have);
        match missing.is_empty() {
            true => Ok(()),
            false => Err(self.denied(&missing.listed(), table)),
        }
    }

    /// May a view that is being made name the table?
    pub(super) fn admit_in_view(&self, schema: &str, table: &str) -> SqlResult<()> {
        let have = self.access.on_table_or_columns(schema, table);
        match have.meets(IN_VIEW) {
            true => Ok(()),
            false => Err(self.denied("ANY", table)),
        }
    }

    /// May EXPLAIN show a plan that reads this table, inside of a view?
    pub(super) fn admit_explained(&self, schema: &str, table: &str) -> SqlResult<()> {
        let have = self.access.on_table_or_columns(schema, table);
        have.meets(SELECT).then_some(()).ok_or_else(no_explain)
    }

    /// May EXPLAIN show what is inside the view?
    pub(super) fn admit_explained_view(&self, schema: &str, view: &str) -> SqlResult<()> {
        let have = self.access.on_table(schema, view);
        have.meets(SHOW_VIEW).then_some(()).ok_or_else(no_explain)
    }

    /// What `access` may not do with the rows and columns of the table.
    pub(super) fn restricted(
        &self,
        access: &Access,
        schema: &str,
        table: &str,
    ) -> Option<Restricted> {
        let have = access.on_table(schema, table);
        let columns = access.on_table_or_columns(schema, table);
        let may_lock = have.or(columns).meets(LOCKING);
        if have.meets(SELECT) && may_lock {
            return None;
        }
        Some(Restricted {
            who: self.who(),
            table: table.into(),
            readable: (!have.meets(SELECT)).then(|| access.columns_with(SELECT, schema, table)),
            may_lock,
            hidden: Vec::new(),
        })
    }

    /// Are these columns open to `access` for `need`? `listed`: the statement names them.
    ///
    /// # Errors
    /// 1143, or 1142 for columns that are not named.
    pub(super) fn check_columns(
        &self,
        access: &Access,
        need: Need,
        table: &TableDef,
        (columns, listed): (&[usize], bool),
    ) -> SqlResult<()> {
        let wanted = match need {
            Need::Update | Need::UpdateOrRead => UPDATE,
            _ => need.privileges().and(Privileges::of(&["INSERT"])),
        };
        let (schema, name) = (&*table.schema, &*table.name);
        if access.on_table(schema, name).contains(wanted) {
            return Ok(());
        }
        for &column in columns {
            let column = &*table.columns[column].name;
            if access.on_column(schema, name, column).contains(wanted) {
                continue;
            }
            return Err(match listed {
                true => column_denied(&wanted.listed(), &self.who(), column, name),
                false => self.denied(&wanted.listed(), name),
            });
        }
        Ok(())
    }

    /// Are the privileges that are to be granted on columns there, on the same columns or the table?
    ///
    /// # Errors
    /// 1143.
    pub(super) fn check_columns_granted(
        &self,
        asked: &[(Privileges, Vec<Box<str>>)],
        schema: &str,
        table: &str,
    ) -> SqlResult<()> {
        for (privilege, columns) in asked {
            for column in columns {
                let held = self.access.on_column(schema, table, column);
                if !held.contains(*privilege) {
                    return Err(column_denied(
                        &privilege.listed(),
                        &self.who(),
                        column,
                        table,
                    ));
                }
            }
        }
        Ok(())
    }

    /// Accounts with SYSTEM_USER are changed by those only who have it.
    ///
    /// # Errors
    /// 1227.
    pub(super) fn check_not_above(&self, accounts: &[RoleName]) -> SqlResult<()> {
        let system = Privileges::of(&["SYSTEM_USER"]);
        if self.access.global().meets(system) {
            return Ok(());
        }
        let list = self.instance.accounts();
        for (user, host) in accounts {
            let above = list.exact(user, host).is_some_and(|a| {
                let access = list.access(&a, &a.default_roles);
                access.global().meets(system)
            });
            if above {
                return self.require("SYSTEM_USER");
            }
        }
        Ok(())
    }

    /// What an account with SYSTEM_USER has defined is changed by those only who have it.
    ///
    /// # Errors
    /// 1227.
    pub(super) fn check_definer_not_above(&self, definer: &(Box<str>, Box<str>)) -> SqlResult<()> {
        let (user, host) = definer;
        self.check_not_above(&[(user.to_string(), host.to_string())])
    }

    /// Database and name of an object that a statement names.
    pub(crate) fn full_name<'a>(&'a self, name: &'a ObjectName) -> SqlResult<(&'a str, &'a str)> {
        let schema = match &name.schema {
            Some(s) => &*s.text,
            None => self.current_schema()?,
        };
        Ok((schema, &name.name.text))
    }

    /// Checks privileges on a whole table.
    ///
    /// # Errors
    /// 1046, 1142 with those that are missing.
    pub(super) fn require_named(&self, wanted: &[&str], name: &ObjectName) -> SqlResult<()> {
        let (schema, table) = self.full_name(name)?;
        self.require_on(wanted, schema, table)
    }

    /// A foreign key needs REFERENCES on the table it points to; on the columns is not enough, as in MySQL.
    fn require_parent(&self, key: &ForeignKey, child: &ObjectName) -> SqlResult<()> {
        let schema = match (&key.table.schema, &child.schema) {
            (Some(s), _) | (None, Some(s)) => &*s.text,
            (None, None) => self.current_schema()?,
        };
        let table = &*key.table.name.text;
        let have = self.access.on_table(schema, table);
        match have.meets(Privileges::of(&["REFERENCES"])) {
            true => Ok(()),
            false => Err(self.denied("REFERENCES", &format!("{schema}.{table}"))),
        }
    }

    /// LOCK TABLES: who may read a column may lock the table.
    ///
    /// # Errors
    /// 1044, 1046, 1142.
    pub(super) fn check_lock_rights(&self, tables: &[LockTable]) -> SqlResult<()> {
        for lock in tables {
            let (schema, table) = self.full_name(&lock.name)?;
            self.require_in("LOCK TABLES", schema)?;
            self.require_read(schema, table)?;
        }
        Ok(())
    }

    /// LOCK TABLES of a view, about a table below it: may its definer, or the session's account, lock and read it?
    ///
    /// # Errors
    /// 1142, which the view makes 1356.
    pub(super) fn admit_lock_below(
        &self,
        definer: &Access,
        schema: &str,
        table: &str,
    ) -> SqlResult<()> {
        let may = |access: &Access| {
            access.on_schema(schema).contains(LOCK_TABLES)
                && access.on_table(schema, table).contains(SELECT)
        };
        match may(definer) || may(&self.access) {
            true => Ok(()),
            false => Err(self.denied("SELECT, LOCK TABLES", table)),
        }
    }

    /// 1045.
    pub(crate) fn access_denied(&self) -> SqlError {
        let (user, host) = (&self.access.user, &self.access.host);
        errors::access_denied(format!("'{user}'@'{host}'"), !self.account.auth.is_empty())
    }

    fn require_rename(&self, from: &ObjectName, to: &ObjectName) -> SqlResult<()> {
        self.require_named(&["DROP", "ALTER"], from)?;
        self.require_named(&["INSERT", "CREATE"], to)
    }

    fn require_create_table(&self, create: &CreateTable) -> SqlResult<()> {
        match create.query {
            _ if create.temporary => {
                let (schema, _) = self.full_name(&create.name)?;
                self.require_in("CREATE TEMPORARY TABLES", schema)?;
            }
            Some(_) => self.require_named(&["INSERT", "CREATE"], &create.name)?,
            None => self.require_named(&["CREATE"], &create.name)?,
        }
        if let Some(source) = &create.like
            && !self.is_temporary(source)
        {
            self.require_named(&["SELECT"], source)?;
        }
        create
            .foreign_keys
            .iter()
            .try_for_each(|key| self.require_parent(key, &create.name))
    }

    fn require_alter_table(&self, alter: &AlterTable) -> SqlResult<()> {
        match &*alter.actions {
            [AlterAction::Partition(PartitionAction::Truncate(_))] => {
                return self.require_named(&["DROP"], &alter.name);
            }
            [AlterAction::Partition(PartitionAction::Exchange(_, with, _))] => {
                let all = &["INSERT", "CREATE", "DROP", "ALTER"];
                self.require_named(all, &alter.name)?;
                return self.require_named(all, with);
            }
            _ => {}
        }
        let to = alter.actions.iter().find_map(|a| match a {
            AlterAction::RenameTo(to) => Some(to),
            _ => None,
        });
        match to {
            Some(to) => self.require_rename(&alter.name, to)?,
            None => self.require_named(&["ALTER"], &alter.name)?,
        }
        alter.actions.iter().try_for_each(|a| match a.bare() {
            AlterAction::AddForeignKey(key) => self.require_parent(key, &alter.name),
            AlterAction::Partition(PartitionAction::Drop(_)) => {
                self.require_named(&["DROP"], &alter.name)
            }
            _ => Ok(()),
        })
    }

    /// Whoever drops a view needs DROP, and SYSTEM_USER as well if the view's definer has it.
    fn require_drop_view(&self, name: &ObjectName) -> SqlResult<()> {
        self.require_named(&["DROP"], name)?;
        let (schema, view) = self.full_name(name)?;
        match self.instance.catalog.view(schema, view) {
            Some(view) => self.check_definer_not_above(&view.definer),
            None => Ok(()),
        }
    }

    /// Whoever alters or drops an event needs EVENT, and SYSTEM_USER as well if the event's definer has it.
    pub(super) fn require_change_event(&self, schema: &str, name: &str) -> SqlResult<()> {
        self.require_in("EVENT", schema)?;
        match self.instance.catalog.event(schema, name) {
            Some(event) => self.check_definer_not_above(&event.settings.definer),
            None => Ok(()),
        }
    }

    /// What statements that change the schema want.
    ///
    /// # Errors
    /// 1044, 1046, 1142.
    pub(super) fn check_ddl_rights(&self, statement: &Statement) -> SqlResult<()> {
        match statement {
            Statement::CreateDatabase { name, .. } => self.require_in("CREATE", &name.text),
            Statement::DropDatabase { name, .. } => self.require_in("DROP", &name.text),
            Statement::AlterDatabase { name, .. } => match name {
                Some(name) => self.require_in("ALTER", &name.text),
                None => self.require_in("ALTER", self.current_schema()?),
            },
            Statement::CreateTable(create) => self.require_create_table(create),
            // Who made a temporary table may do everything with it.
            Statement::AlterTable(alter) if self.is_temporary(&alter.name) => Ok(()),
            Statement::Truncate { name, .. } if self.is_temporary(name) => Ok(()),
            Statement::CreateIndex(create) if self.is_temporary(&create.table) => Ok(()),
            Statement::DropIndex(drop) if self.is_temporary(&drop.table) => Ok(()),
            Statement::DropTable(drop) if drop.temporary => Ok(()),
            Statement::AlterTable(alter) => self.require_alter_table(alter),
            Statement::Truncate { name, .. } => self.require_named(&["DROP"], name),
            Statement::CreateIndex(create) => self.require_named(&["INDEX"], &create.table),
            Statement::DropIndex(drop) => self.require_named(&["INDEX"], &drop.table),
            Statement::DropTable(drop) => drop
                .names
                .iter()
                .filter(|name| !self.is_temporary(name))
                .try_for_each(|name| self.require_named(&["DROP"], name)),
            Statement::DropProgram(drop) if drop.kind == "TRIGGER" => {
                self.require_to_drop_trigger(&drop.name)
            }
            Statement::DropProgram(drop) if drop.kind == "EVENT" => {
                let (schema, name) = self.full_name(&drop.name)?;
                self.require_change_event(schema, name)
            }
            Statement::DropProgram(drop) => self.require_drop(drop),
            Statement::DropView(drop) => {
                let mut names = drop.names.iter();
                names.try_for_each(|name| self.require_drop_view(name))
            }
            Statement::RenameTable(rename) => rename
                .pairs
                .iter()
                .try_for_each(|(from, to)| self.require_rename(from, to)),
            Statement::Tablespace(_) => self.require_any(&["CREATE TABLESPACE"]),
            _ => Ok(()),
        }
    }
}
