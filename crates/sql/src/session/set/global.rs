//! Global settings: what is checked of a value, what is kept for the next start, and what is logged of a change.
//!
//! Neighbours: `set` gives session and global variables their values.
//! **Invariant**: a value is kept only after it was accepted.

use super::super::SessionContext;
use super::super::{refused, stopwords};
use super::{UTF8MB4_DEFAULTS, invalid_utf8mb4_default, printed};
use crate::persisted::Kept;
use crate::querylog::{self, OtherFile};
use crate::scheduler::DISABLED;
use esker_sql_catalog::variables::{
    Change, Effect, NOT_PERSISTED, Scope, Taken, VarId, VarValue, value,
};
use esker_types::collation::Charset;
use esker_types::{SqlResult, Value, errors};

impl SessionContext {
    /// DISABLED is for the start alone, and stays.
    ///
    /// # Errors
    /// 1231, 1290.
    pub(super) fn admit_event_scheduler(
        &self,
        before: &VarValue,
        given: Option<&Value>,
    ) -> SqlResult<()> {
        if before.as_text() == DISABLED {
            let option = "event-scheduler=DISABLED or --skip-grant-tables";
            return Err(errors::option_prevents(option));
        }
        let now = self.instance.globals.named("event_scheduler");
        if now.as_text() == DISABLED {
            let given = given.map(printed).unwrap_or_default();
            return Err(errors::wrong_value("event_scheduler", given));
        }
        Ok(())
    }

    /// SET PERSIST_ONLY: the value counts after the next start.
    pub(super) fn persist_only(&mut self, id: VarId, given: Option<&Value>) -> SqlResult<Taken> {
        let def = id.def();
        self.require_any(&["SUPER", "SYSTEM_VARIABLES_ADMIN"])?;
        self.require("PERSIST_RO_VARIABLES_ADMIN")?;
        if def.scope == Scope::Session {
            return Err(errors::session_variable(def.name));
        }
        if def.effect == Effect::Fact || NOT_PERSISTED.contains(&def.name) {
            return Err(errors::read_only_variable(
                def.name,
                "non persistent read only",
            ));
        }
        self.check_log_name(def.name, given)?;
        let (value, clamped) = match given {
            None => (value::default_of(def), false),
            Some(given) => value::from_value(def, given)?,
        };
        self.keep(id, &value)?;
        Ok(Taken {
            clamped,
            idle: false,
        })
    }

    /// Who has set a variable, for `variables_info`.
    pub(super) fn note_setting(&self, id: VarId) {
        let change = Change {
            user: self.user.clone(),
            host: self.host.clone(),
            micros: self.instance.now_micros(),
        };
        self.instance.globals.note(id, change);
    }

    pub(super) fn keep(&self, id: VarId, value: &VarValue) -> SqlResult<()> {
        let kept = Kept {
            value: value.print(),
            user: self.user.clone(),
            host: self.host.clone(),
            micros: self.instance.now_micros().max(0) as u64,
        };
        self.instance.persist(id.def().name, kept)
    }

    /// The file of a log is none of the server's others, and can be made.
    pub(super) fn check_log_name(&self, name: &str, given: Option<&Value>) -> SqlResult<()> {
        let Some(Value::Str(text)) = given.filter(|_| querylog::FILES.contains(&name)) else {
            return Ok(());
        };
        let (instance, text) = (&self.instance, String::from_utf8_lossy(text));
        let data_dir = instance.data_dir();
        let mut others = querylog::other_files(data_dir, &|name| instance.variable_text(name));
        for channel in instance.channels.all() {
            others.extend(OtherFile::of_relay_log(channel.relay().names()));
        }
        match querylog::place(data_dir, &text, &others) {
            querylog::Place::Fine => Ok(()),
            _ => Err(errors::wrong_value(name, text)),
        }
    }

    /// Values that need more than the table knows.
    pub(in crate::session) fn check_special(
        &self,
        id: VarId,
        given: Option<&Value>,
    ) -> SqlResult<()> {
        self.admit_setting_with_gtid(id.def().name)?;
        if id.def().name == "time_zone"
            && let Some(Value::Str(text)) = given
        {
            esker_sql_catalog::variables::hot::time_zone(&String::from_utf8_lossy(text))?;
        }
        if id.def().name == "default_collation_for_utf8mb4"
            && let Some(given) = given
        {
            let (value, _) = value::from_value(id.def(), given)?;
            let collation = value.as_text();
            if !UTF8MB4_DEFAULTS.contains(&collation) {
                return Err(invalid_utf8mb4_default(collation));
            }
        }
        let name = id.def().name;
        self.check_log_name(name, given)?;
        if let Some(Value::Str(text)) = given {
            refused::check(self, name, &String::from_utf8_lossy(text))?;
        }
        if stopwords::VARIABLES.contains(&name)
            && let Some(Value::Str(text)) = given
        {
            stopwords::check_name(self, name, &String::from_utf8_lossy(text))?;
        }
        Ok(())
    }

    pub(super) fn default_charset(&self) -> Charset {
        let globals = &self.instance.globals;
        Charset::by_name(globals.named("character_set_client").as_text())
            .unwrap_or(Charset::Utf8mb4)
    }
}
