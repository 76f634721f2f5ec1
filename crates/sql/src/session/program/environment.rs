//! Whose privileges, database and settings a program's statements have.
//!
//! Neighbours: `call` enters before a program's first instruction, `machine` leaves behind its last.
//! **Invariants**: what is entered is left, the innermost first, also when a program fails or panics; the plans of a
//! program's statements stay good from call to call, because the same binding outside gives the same one inside.

use std::sync::Arc;

use esker_sql_catalog::catalog::ProgramSettings;
use esker_sql_catalog::variables::{SessionVars, VarId, VarValue};
use esker_types::{SqlError, SqlResult, Value, errors};

use super::super::context::Actor;
use super::super::{Session, SessionContext};

/// Settings that a program keeps from when it was created.
const KEPT: [&str; 3] = ["sql_mode", "character_set_client", "collation_connection"];

/// Options that a function or trigger sets for itself only: those that MySQL keeps as bits.
const OPTIONS: [&str; 10] = [
    "foreign_key_checks",
    "sql_auto_is_null",
    "sql_big_selects",
    "sql_buffer_result",
    "sql_log_off",
    "sql_notes",
    "sql_quote_show_create",
    "sql_safe_updates",
    "sql_warnings",
    "unique_checks",
];

/// What a session goes back to behind a program.
pub(super) struct Environment {
    actor: Option<Actor>,
    database: Option<Arc<str>>,
    /// Settings as they were outside: a program may set them again.
    variables: Vec<(VarId, VarValue)>,
    /// The hot copies outside, if they are other ones inside and no variable was set there.
    vars: Option<SessionVars>,
    /// Bindings outside and inside.
    binding: (u64, u64),
    /// The prepared CALL that EXECUTE has entered the program by.
    prepared: Option<u32>,
}

impl Environment {
    pub(super) fn forget_vars(&mut self) {
        self.vars = None;
    }

    pub(super) fn note_prepared(&mut self, prepared: u32) {
        self.prepared = Some(prepared);
    }

    pub(super) fn prepared(&self) -> Option<u32> {
        self.prepared
    }

    /// Does the program act as somebody else?
    pub(super) fn has_actor(&self) -> bool {
        self.actor.is_some()
    }
}

impl Session {
    /// Enters a program's environment. `known` is the binding inside that belongs to one outside.
    ///
    /// # Errors
    /// 1449: there is no such definer.
    pub(super) fn enter_program(
        &mut self,
        schema: &Arc<str>,
        settings: &ProgramSettings,
        known: &mut Option<(u64, u64)>,
    ) -> SqlResult<()> {
        let actor = self.context.actor_for(settings)?;
        let outside = self.context.binding;
        self.program.outer.push(Environment {
            actor: actor.map(|actor| self.context.swap_actor(actor)),
            database: self.context.database.replace(schema.clone()),
            variables: Vec::with_capacity(KEPT.len() + 1),
            vars: None,
            binding: (outside, 0),
            prepared: None,
        });
        if let Err(e) = self.adopt(settings) {
            self.leave_program();
            return Err(e);
        }
        match known {
            Some((outer, inner)) if *outer == outside => self.context.binding = *inner,
            _ => {
                self.context.rebind();
                *known = Some((outside, self.context.binding));
            }
        }
        let inside = self.context.binding;
        if let Some(environment) = self.program.outer.last_mut() {
            environment.binding.1 = inside;
        }
        Ok(())
    }

    /// Takes over the settings of a program that is entered.
    fn adopt(&mut self, settings: &ProgramSettings) -> SqlResult<()> {
        let wanted = [
            &settings.sql_mode,
            &settings.charset_client,
            &settings.collation_connection,
        ];
        let mut is_changed = false;
        for (name, wanted) in KEPT.iter().zip(wanted) {
            let before = self.exchange(name, wanted)?;
            is_changed |= before.1.as_text() != &**wanted;
            if let Some(environment) = self.program.outer.last_mut() {
                environment.variables.push(before);
            }
        }
        if is_changed {
            let inside = self.vars.in_program(&self.values);
            let outside = std::mem::replace(&mut self.vars, inside);
            if let Some(environment) = self.program.outer.last_mut() {
                environment.vars = Some(outside);
            }
        }
        Ok(())
    }

    /// Lifts sql_select_limit for the procedure that is entered: it is for the caller's queries, as what the procedure
    /// sets is for its own.
    pub(super) fn lift_select_limit(&mut self) -> SqlResult<()> {
        let id = VarId::find("sql_select_limit")?;
        let before = self.values.get(id).clone();
        let is_limited = before != VarValue::UInt(u64::MAX);
        if let Some(environment) = self.program.outer.last_mut() {
            environment.variables.push((id, before));
        }
        if is_limited {
            self.values.put(id, VarValue::UInt(u64::MAX));
            self.refresh_vars()?;
        }
        Ok(())
    }

    /// Leaves the innermost program.
    pub(super) fn leave_program(&mut self) {
        let Some(environment) = self.program.outer.pop() else {
            return;
        };
        if let Some(actor) = environment.actor {
            self.context.swap_actor(actor);
        }
        self.context.database = environment.database;
        let mut is_changed = false;
        for (id, before) in environment.variables {
            if *self.values.get(id) != before {
                self.values.put(id, before);
                is_changed = true;
            }
        }
        let inside = self.context.binding;
        match environment.vars {
            Some(vars) => self.vars = vars,
            None if is_changed => self
                .refresh_vars()
                .expect("values that were in force before the program"),
            None => {}
        }
        match inside == environment.binding.1 {
            true => self.context.binding = environment.binding.0,
            // Something that names rest on has changed inside.
            false => self.context.rebind(),
        }
    }

    /// Leaves every program: the request is over.
    pub(in super::super) fn leave_programs(&mut self) {
        while self.program.is_running() {
            self.leave_program();
        }
        self.program.inside.clear();
        self.program.calling = None;
        self.program.strict = false;
        self.program.changes_strictly = false;
        self.program.stores = false;
        self.program.strict_around = false;
        self.program.queries_strictly = false;
        self.program.types = None;
        self.program.into = None;
        self.program.handled = None;
        self.program.gives_out_params = false;
    }

    /// A variable is about to be set: where a function or trigger does so, options are remembered.
    pub(in super::super) fn remember_option(&mut self, id: VarId) {
        if self.program.is_nested() && OPTIONS.contains(&id.def().name) {
            let before = self.values.get(id).clone();
            self.program.options.push((id, before));
        }
    }

    /// A function or trigger has ended: options are again what they were outside. `around`: those that the program
    /// around it has set.
    pub(super) fn restore_options(&mut self, around: Vec<(VarId, VarValue)>) -> SqlResult<()> {
        let set = std::mem::replace(&mut self.program.options, around);
        if set.is_empty() {
            return Ok(());
        }
        for (id, before) in set.into_iter().rev() {
            self.values.put(id, before);
        }
        self.refresh_vars()
    }

    /// Gives a variable a value; what it had.
    fn exchange(&mut self, name: &str, wanted: &str) -> Result<(VarId, VarValue), SqlError> {
        let id = VarId::find(name)?;
        let before = self.values.get(id).clone();
        if before.as_text() != wanted {
            let value = Value::Str(wanted.as_bytes().to_vec());
            self.values
                .set(&self.context.instance.globals, id, Some(&value))?;
        }
        Ok((id, before))
    }
}

impl SessionContext {
    /// Whom a program acts as; None: as whoever calls it.
    fn actor_for(&self, settings: &ProgramSettings) -> SqlResult<Option<Actor>> {
        let (user, host) = &settings.definer;
        let is_own = *self.account.user == **user && *self.account.host == **host;
        if settings.invoker || is_own {
            return Ok(None);
        }
        let account = self.instance.accounts().exact(user, host);
        let account = account.ok_or_else(|| errors::no_such_definer(user, host))?;
        Ok(Some(self.actor(account)))
    }
}
