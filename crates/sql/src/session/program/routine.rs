//! CREATE, ALTER and DROP of procedures and functions.
//!
//! Neighbours: `ddl::routine` changes the catalog; `call` compiles what is kept.
//! **Invariants**: what is open is committed first; a routine is compiled once before it is kept, so its types exist.

use std::sync::Arc;

use esker_sql_catalog::accounts::{Access, Account, GrantScope, Privileges};
use esker_sql_catalog::catalog::{ProgramSettings, RoutineDef, RoutineKey, type_text};
use esker_sql_catalog::exec_error::ExecError;
use esker_sql_catalog::result::OkInfo;
use esker_sql_plan::expr::StoredFunction;
use esker_sql_syntax::ParseOptions;
use esker_sql_syntax::ast::{
    self, AlterRoutine, CreateRoutine, DataAccess, DropProgram, ObjectName,
};
use esker_types::collation::Charset;
use esker_types::program::RoutineKind;
use esker_types::{SqlError, SqlResult, SqlType, TypeKind, errors};

use super::super::run::Done;
use super::super::{Session, SessionContext};
use super::MAX_LOADED;
use crate::ddl;
use crate::program::stored;

impl Session {
    /// CREATE PROCEDURE, CREATE FUNCTION.
    pub(in super::super) fn create_routine(
        &mut self,
        create: &CreateRoutine,
    ) -> Result<Done, ExecError> {
        let (schema, name) = self.context.routine_name(&create.name)?;
        if create.kind == RoutineKind::Function && !create.body.traits.returns {
            return Err(errors::no_return(format!("{schema}.{name}")).into());
        }
        let committed = self.commit_transaction()?;
        self.context.instance.find_schema(&schema)?;
        self.context.require_in("CREATE ROUTINE", &schema)?;
        self.context.check_function(create)?;
        let mut def = self.routine_def(create, &schema, &name)?;
        if let Some(ty) = &self.compile_routine(&def)?.returns {
            def.returns = returned(ty);
        }
        let logged = self.logged_routine(create, &def);
        let scope = GrantScope::of_routine(create.kind, &schema, &name);
        let definer = def.settings.definer.clone();
        let done = self.with_logged_ddl(logged, |ctx| {
            ddl::routine::create(ctx, def, create.if_not_exists)
        })?;
        if !done.was_there {
            self.grant_to_maker(&scope)?;
        }
        self.note_missing_definer((&definer.0, &definer.1));
        Ok(Done::Ok(OkInfo::default(), committed.max(done.seq)))
    }

    /// automatic_sp_privileges: who makes a routine may run and change it.
    fn grant_to_maker(&self, scope: &GrantScope) -> SqlResult<()> {
        let GrantScope::Routine(kind, schema, name) = scope else {
            return Ok(());
        };
        let (context, both) = (&self.context, Privileges::ON_ROUTINE);
        let has_both = context
            .access
            .on_routine(*kind, schema, name)
            .contains(both);
        if has_both || !context.instance.variable_is_on("automatic_sp_privileges") {
            return Ok(());
        }
        self.change_routine_grants(|account| {
            if context.access.is_of(&account.user, &account.host) {
                account.change_grant(scope, both, false, true);
            }
        })
    }

    /// automatic_sp_privileges: what was granted on a routine that was dropped goes.
    pub(in super::super) fn forget_routine_grants(&self, drop: &DropProgram) -> SqlResult<()> {
        let Some(kind) = routine_kind(drop) else {
            return Ok(());
        };
        let (schema, name) = self.context.full_name(&drop.name)?;
        let scope = GrantScope::of_routine(kind, schema, name);
        let accounts = self.context.instance.accounts().all();
        let mut grants = accounts.iter().flat_map(|account| &account.grants);
        let is_granted = grants.any(|grant| grant.scope == scope);
        if !is_granted
            || !self
                .context
                .instance
                .variable_is_on("automatic_sp_privileges")
        {
            return Ok(());
        }
        self.change_routine_grants(|account| account.grants.retain(|grant| grant.scope != scope))
    }

    /// Changes accounts on the side: whoever repeats the statement does so, too.
    fn change_routine_grants(&self, change: impl FnMut(&mut Account)) -> SqlResult<()> {
        let changed = self.context.instance.change_accounts(
            |list| {
                list.iter_mut().for_each(change);
                Ok(())
            },
            |_| None,
        );
        self.note_commit(changed?);
        Ok(())
    }

    fn routine_def(
        &self,
        create: &CreateRoutine,
        schema: &str,
        name: &str,
    ) -> SqlResult<RoutineDef> {
        let definer = match &create.definer {
            Some(account) => self.context.named(account),
            None => self.context.named(&ast::Account::CurrentUser),
        };
        self.context.check_definer(&definer)?;
        let instance = &self.context.instance;
        let schema = instance.find_schema(schema)?;
        let variable = |name: &str| self.values.named(name).as_text().into();
        let given = &create.characteristics;
        let now = self.statement_now();
        Ok(RoutineDef {
            kind: create.kind,
            name: name.into(),
            parameters: create.parameters.clone(),
            returns: create.returns.as_ref().map_or("".into(), |r| r.1.clone()),
            body: create.body.text.clone(),
            deterministic: given.deterministic == Some(true),
            access: given.access.unwrap_or(DataAccess::ContainsSql),
            comment: given.comment.clone().unwrap_or_default(),
            settings: ProgramSettings {
                definer: (definer.0.into(), definer.1.into()),
                invoker: given.invoker == Some(true),
                sql_mode: variable("sql_mode"),
                charset_client: variable("character_set_client"),
                collation_connection: variable("collation_connection"),
                database_collation: instance.schema_collation(&schema).name().into(),
            },
            schema,
            created_micros: now,
            altered_micros: now,
        })
    }

    /// ALTER PROCEDURE, ALTER FUNCTION.
    pub(in super::super) fn alter_routine(
        &mut self,
        alter: &AlterRoutine,
    ) -> Result<Done, ExecError> {
        let committed = self.commit_transaction()?;
        let (schema, name) = self.context.routine_name(&alter.name)?;
        let key = RoutineKey::new(alter.kind, &name);
        let found = self.context.instance.catalog.routine(&schema, &key);
        let found = found.ok_or_else(|| missing(alter.kind, &schema, &name))?;
        self.context.require_change(&found)?;
        let mut def = RoutineDef::clone(&found);
        let given = &alter.characteristics;
        if let Some(comment) = &given.comment {
            def.comment = comment.clone();
        }
        if let Some(access) = given.access {
            def.access = access;
        }
        if let Some(invoker) = given.invoker {
            def.settings.invoker = invoker;
        }
        def.altered_micros = self.statement_now();
        let logged = self.logged(&self.statement_text, &[], true);
        let done = self.with_logged_ddl(logged, |ctx| ddl::routine::alter(ctx, def))?;
        Ok(Done::Ok(OkInfo::default(), committed.max(done.seq)))
    }
}

impl SessionContext {
    /// What the binary log asks of functions.
    ///
    /// # Errors
    /// 1418, 1419.
    fn check_function(&self, create: &CreateRoutine) -> SqlResult<()> {
        let instance = &self.instance;
        let is_free = create.kind == RoutineKind::Procedure
            || !instance.binlog.is_on()
            || instance.variable_is_on("log_bin_trust_function_creators");
        if is_free {
            return Ok(());
        }
        let given = &create.characteristics;
        let reads = matches!(
            given.access,
            Some(DataAccess::NoSql | DataAccess::ReadsSqlData)
        );
        if given.deterministic != Some(true) && !reads {
            return Err(errors::unsafe_function());
        }
        match self.require("SUPER") {
            Ok(()) => Ok(()),
            Err(_) => Err(errors::function_needs_super()),
        }
    }

    /// Database and name of a routine.
    ///
    /// # Errors
    /// 1046, 1059, 1458.
    fn routine_name(&self, name: &ObjectName) -> SqlResult<(String, String)> {
        let routine = &*name.name.text;
        if routine.is_empty() || routine.ends_with(' ') {
            return Err(errors::wrong_routine_name(routine));
        }
        let full = ddl::resolve(name, self.database.as_deref())?;
        Ok((full.schema, full.name))
    }
}

impl SessionContext {
    /// May the account drop the routine, if there is one?
    ///
    /// # Errors
    /// 1370.
    pub(in super::super) fn require_drop(&self, drop: &DropProgram) -> SqlResult<()> {
        let Some(kind) = routine_kind(drop) else {
            return Ok(());
        };
        let (schema, name) = self.full_name(&drop.name)?;
        let found = self
            .instance
            .catalog
            .routine(schema, &RoutineKey::new(kind, name));
        match found {
            Some(def) => self.require_change(&def),
            // Whoever may not drop it does not hear whether it is there.
            None => self.admit_routine(&self.access, "ALTER ROUTINE", (kind, schema, name)),
        }
    }

    /// May the account alter or drop the routine?
    ///
    /// # Errors
    /// 1370; 1227 where its definer has SYSTEM_USER and the account has not.
    fn require_change(&self, def: &RoutineDef) -> SqlResult<()> {
        self.require_routine("ALTER ROUTINE", def)?;
        self.check_definer_not_above(&def.settings.definer)
    }

    /// Checks a privilege on a routine.
    ///
    /// # Errors
    /// 1370.
    pub(in super::super) fn require_routine(
        &self,
        privilege: &'static str,
        def: &RoutineDef,
    ) -> SqlResult<()> {
        self.admit_routine(&self.access, privilege, (def.kind, &def.schema, &def.name))
    }

    /// The same for whoever has these rights, also where there is no such routine.
    pub(in super::super) fn admit_routine(
        &self,
        access: &Access,
        privilege: &'static str,
        (kind, schema, name): (RoutineKind, &str, &str),
    ) -> SqlResult<()> {
        let held = access.on_routine(kind, schema, name);
        if held.contains(Privileges::of(&[privilege])) {
            return Ok(());
        }
        let name = format!("{schema}.{name}");
        Err(self.routine_denied(&privilege.to_lowercase(), &name))
    }
}

impl SessionContext {
    /// What a function takes and gives; read once for each definition.
    ///
    /// # Errors
    /// Of the parser: this version does not know what it says.
    pub(in super::super) fn signature_of(
        &self,
        def: &Arc<RoutineDef>,
    ) -> SqlResult<Arc<StoredFunction>> {
        let key = (def.schema.clone(), def.key());
        let mut known = self.functions.borrow_mut();
        if let Some(function) = known.get(&key)
            && Arc::ptr_eq(&function.def, def)
        {
            return Ok(function.clone());
        }
        let create = stored::read(def, ParseOptions::default())?;
        let signature = stored::signature(&create, stored::collation_of(def))?;
        let returns = signature.returns;
        let parameters = signature.parameters.into_iter().map(|(_, _, ty)| ty);
        let function = Arc::new(StoredFunction {
            def: def.clone(),
            parameters: parameters.collect(),
            returns: returns.ok_or_else(|| errors::internal("a function without a result"))?,
        });
        if known.len() >= MAX_LOADED {
            known.clear();
        }
        known.insert(key, function.clone());
        Ok(function)
    }
}

/// The result of a function as MySQL writes it.
fn returned(ty: &SqlType) -> Box<str> {
    let mut text = type_text(ty);
    let charset = ty.collation.charset();
    let has_text = ty.is_string() || matches!(ty.kind, TypeKind::Enum(_) | TypeKind::Set(_));
    if has_text && charset != Charset::Binary {
        text.push_str(&format!(" CHARSET {}", charset.name()));
        if ty.collation != charset.default_collation() {
            text.push_str(&format!(" COLLATE {}", ty.collation.name()));
        }
    }
    text.into()
}

/// What DROP drops, if it is a routine.
fn routine_kind(drop: &DropProgram) -> Option<RoutineKind> {
    match drop.kind {
        "PROCEDURE" => Some(RoutineKind::Procedure),
        "FUNCTION" => Some(RoutineKind::Function),
        _ => None,
    }
}

/// 1305.
fn missing(kind: RoutineKind, schema: &str, name: &str) -> SqlError {
    errors::does_not_exist(kind.text(), format!("{schema}.{name}"))
}
