//! CREATE TRIGGER: who may make one, and what is kept of the session that does.
//!
//! Neighbours: `ddl::trigger` changes the catalog; `program` reads the body; `firing` runs what is stored here.
//! **Invariant**: what is logged names the definer: other servers shall not take whoever replays it for that.

use esker_sql_catalog::catalog::{ProgramSettings, TableDef, TriggerDef, is_system_schema, quoted};
use esker_sql_catalog::exec_error::ExecError;
use esker_sql_catalog::result::OkInfo;
use esker_sql_syntax::ast::{Account, CreateTrigger, ObjectName};
use esker_types::SqlResult;

use super::run::Done;
use super::{Session, SessionContext};
use crate::capture::LoggedStatement;
use crate::ddl::{self, TableName};
use crate::program::Program;

impl Session {
    /// CREATE TRIGGER.
    pub(super) fn create_trigger(&mut self, create: &CreateTrigger) -> Result<Done, ExecError> {
        let committed = self.commit_transaction()?;
        let database = self.context.database.as_deref();
        let table = ddl::trigger::table_of(create, database)?;
        if is_system_schema(&table.schema) {
            return Err(self
                .context
                .no_schema(&self.context.access.host, &table.schema)
                .into());
        }
        let account = create.definer.as_ref().unwrap_or(&Account::CurrentUser);
        let definer = self.context.named(account);
        self.context.check_definer(&definer)?;
        self.context
            .require_on(&["TRIGGER"], &table.schema, &table.name)?;
        let def = self.trigger_def(create, &table, (&definer.0, &definer.1));
        let logged = self.logged_trigger(create, &def);
        let collation = self.context.instance.schema_collation(&table.schema);
        let check = |table: &TableDef| {
            Program::compile(&create.body, Vec::new(), None, &table.columns, collation).map(drop)
        };
        let done = self.with_logged_ddl(logged, |ctx| {
            ddl::trigger::create(ctx, create, &table, def, &check)
        })?;
        self.note_missing_definer((&definer.0, &definer.1));
        Ok(Done::Ok(OkInfo::default(), committed.max(done.seq)))
    }

    /// The definition as the catalog keeps it.
    fn trigger_def(
        &self,
        create: &CreateTrigger,
        table: &TableName,
        definer: (&str, &str),
    ) -> TriggerDef {
        let instance = &self.context.instance;
        let variable = |name: &str| self.values.named(name).as_text().into();
        TriggerDef {
            name: (&*create.name.name.text).into(),
            timing: create.timing,
            event: create.event,
            body: create.body.text.clone(),
            settings: ProgramSettings {
                definer: (definer.0.into(), definer.1.into()),
                invoker: false,
                sql_mode: variable("sql_mode"),
                charset_client: variable("character_set_client"),
                collation_connection: variable("collation_connection"),
                database_collation: instance.schema_collation(&table.schema).name().into(),
            },
            created_micros: self.statement_now(),
        }
    }

    /// CREATE TRIGGER for the log, with its definer.
    fn logged_trigger(&self, create: &CreateTrigger, def: &TriggerDef) -> Option<LoggedStatement> {
        let (user, host) = &def.settings.definer;
        let (user, host, text) = (quoted(user), quoted(host), &create.text);
        let text = format!("CREATE DEFINER={user}@{host} {text}");
        self.logged(text.as_bytes(), &[], true)
    }
}

impl SessionContext {
    /// May the account drop the trigger, if it is there?
    ///
    /// # Errors
    /// 1142.
    pub(super) fn require_to_drop_trigger(&self, name: &ObjectName) -> SqlResult<()> {
        let (schema, name) = self.full_name(name)?;
        let now = self.instance.catalog.snapshot();
        match now.trigger(schema, name) {
            Some((table, _)) => self.require_on(&["TRIGGER"], &table.schema, &table.name),
            None => Ok(()),
        }
    }
}
