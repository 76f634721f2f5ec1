//! CREATE EVENT and ALTER EVENT: who may, and when the event will run.
//!
//! Neighbours: `ddl::event` changes the catalog; `scheduler` runs what is kept here; DROP EVENT is in `ddl::program`.
//! **Invariants**: times are computed once, when the statement runs, in the session's time zone, which is kept with
//! them; what is logged names the definer; on a replica an event is disabled (REPLICA_SIDE_DISABLED).

use esker_sql_catalog::catalog::{
    EventDef, EventInterval, ProgramSettings, Schedule, is_system_schema, quoted, quoted_literal,
};
use esker_sql_catalog::exec_error::ExecError;
use esker_sql_catalog::result::OkInfo;
use esker_sql_syntax::ast::{
    Account, AlterEvent, CreateEvent, EventClauses, EventSchedule, EventStatus, Expr, ObjectName,
    PartMut, QueryBody,
};
use esker_types::cast::{date_flags, to_datetime, to_f64, to_i64, to_str};
use esker_types::temporal::{Interval, IntervalUnit, LAST_UNIX_SECOND, MICROS_PER_SEC};
use esker_types::{Level, SqlError, SqlResult, SqlType, Value, errors};

use super::run::Done;
use super::{Session, SessionContext};
use crate::capture::LoggedStatement;
use crate::ddl::{self, TableName};
use crate::printer::is_stored;
use crate::program::Program;

/// A clause that says when.
struct Clause {
    value: Value,
    text: String,
}

impl Session {
    /// CREATE EVENT.
    pub(super) fn create_event(
        &mut self,
        create: &CreateEvent,
        params: &[Value],
    ) -> Result<Done, ExecError> {
        let committed = self.commit_transaction()?;
        let name = self.context.event_name(&create.name)?;
        let definer = self.context.event_definer(create.definer.as_ref())?;
        let clauses = &create.clauses;
        let schedule = match &clauses.schedule {
            Some(schedule) => self.schedule_of(schedule, params)?,
            None => return Err(errors::internal("an event without its schedule").into()),
        };
        self.context.require_in("EVENT", &name.schema)?;
        self.context.check_event_body(clauses, &name.schema)?;
        let computed = Some(schedule.clone());
        let def = self.event_def(create, &name, &definer, schedule);
        let (def, note) = self.in_time(def, clauses.status);
        let text = match params {
            [] => create.text.to_string(),
            _ => self.event_text(
                &create.name,
                create.if_not_exists,
                None,
                (clauses, &computed),
            ),
        };
        let logged = self.logged_event("CREATE", &definer, &text);
        let if_not_exists = create.if_not_exists;
        let done = self.with_logged_ddl(logged, |ctx| {
            ddl::event::create(ctx, &name, def, if_not_exists)
        })?;
        self.note_event(&definer, note);
        Ok(Done::Ok(OkInfo::default(), committed.max(done.seq)))
    }

    /// ALTER EVENT.
    pub(super) fn alter_event(
        &mut self,
        alter: &AlterEvent,
        params: &[Value],
    ) -> Result<Done, ExecError> {
        let committed = self.commit_transaction()?;
        let name = self.context.event_name(&alter.name)?;
        let definer = self.context.event_definer(alter.definer.as_ref())?;
        let clauses = &alter.clauses;
        let schedule = match &clauses.schedule {
            Some(schedule) => Some(self.schedule_of(schedule, params)?),
            None => None,
        };
        self.context
            .require_change_event(&name.schema, &name.name)?;
        let rename = self.context.event_rename(alter, &name)?;
        self.context.check_event_body(clauses, &name.schema)?;
        let text = match params {
            [] => alter.text.to_string(),
            _ => self.event_text(
                &alter.name,
                false,
                alter.rename.as_ref(),
                (clauses, &schedule),
            ),
        };
        let logged = self.logged_event("ALTER", &definer, &text);
        let changes = self.event_changes(clauses, &definer, schedule, &name);
        let mut note = None;
        let mut altered = |before: &EventDef| {
            let (def, raised) = changes.apply(before)?;
            note = raised;
            Ok(def)
        };
        let done = self.with_logged_ddl(logged, |ctx| {
            ddl::event::alter(ctx, &name, rename.as_ref(), &mut altered)
        })?;
        self.note_event(&definer, note);
        Ok(Done::Ok(OkInfo::default(), committed.max(done.seq)))
    }

    fn event_settings(&self, definer: &(String, String), schema: &str) -> ProgramSettings {
        let variable = |name: &str| self.values.named(name).as_text().into();
        let collation = self.context.instance.schema_collation(schema);
        ProgramSettings {
            definer: (definer.0.as_str().into(), definer.1.as_str().into()),
            invoker: false,
            sql_mode: variable("sql_mode"),
            charset_client: variable("character_set_client"),
            collation_connection: variable("collation_connection"),
            database_collation: collation.name().into(),
        }
    }

    fn event_def(
        &self,
        create: &CreateEvent,
        name: &TableName,
        definer: &(String, String),
        schedule: Schedule,
    ) -> EventDef {
        let clauses = &create.clauses;
        let body = clauses.body.as_ref().map(|body| body.text.clone());
        let now = self.statement_now();
        EventDef {
            schema: name.schema.as_str().into(),
            name: name.name.as_str().into(),
            body: body.unwrap_or_default(),
            schedule,
            preserve: clauses.preserve == Some(true),
            status: self.event_status(clauses.status.unwrap_or_default()),
            comment: clauses.comment.clone().unwrap_or_default(),
            originator: self.event_originator(),
            time_zone: self.values.named("time_zone").as_text().into(),
            settings: self.event_settings(definer, &name.schema),
            created_micros: now,
            altered_micros: now,
            runtime: std::sync::Arc::default(),
        }
    }

    fn event_changes<'c>(
        &self,
        clauses: &'c EventClauses,
        definer: &(String, String),
        schedule: Option<Schedule>,
        name: &TableName,
    ) -> EventChanges<'c> {
        EventChanges {
            clauses,
            schedule,
            status: match (clauses.status, self.is_applying()) {
                (None, false) => None,
                (given, _) => Some(self.event_status(given.unwrap_or_default())),
            },
            originator: self.event_originator(),
            time_zone: self.values.named("time_zone").as_text().into(),
            settings: self.event_settings(definer, &name.schema),
            now: self.statement_now(),
        }
    }

    /// What comes from a source does not run here, and is told from what was disabled here.
    fn event_status(&self, given: EventStatus) -> EventStatus {
        match self.is_applying() {
            true => EventStatus::ReplicaSideDisabled,
            false => given,
        }
    }

    fn event_originator(&self) -> u32 {
        match self.applied_origin() {
            Some(origin) => origin.server_id,
            None => self.context.instance.variable_u64("server_id") as u32,
        }
    }

    /// An event whose last time has passed: one that is not preserved is not made at all.
    fn in_time(
        &self,
        mut def: EventDef,
        given: Option<EventStatus>,
    ) -> (Option<EventDef>, Option<SqlError>) {
        if !has_passed(&def.schedule, self.statement_now()) {
            return (Some(def), None);
        }
        if !def.preserve {
            return (None, Some(errors::event_never_due()));
        }
        let note = disable_passed(&mut def, given);
        (Some(def), note)
    }

    fn note_event(&mut self, definer: &(String, String), passed: Option<SqlError>) {
        if let Some(note) = passed {
            self.warn(Level::Note, note.code, note.message);
        }
        self.note_missing_definer((&definer.0, &definer.1));
        self.context.instance.scheduler.events_changed();
    }

    fn logged_event(
        &self,
        verb: &str,
        definer: &(String, String),
        text: &str,
    ) -> Option<LoggedStatement> {
        let (user, host) = (quoted(&definer.0), quoted(&definer.1));
        let text = format!("{verb} DEFINER={user}@{host} {text}");
        self.logged(text.as_bytes(), &[], true)
    }

    /// The statement from EVENT on where it has parameters or variables of a program: other servers do not know them.
    fn event_text(
        &self,
        name: &ObjectName,
        if_not_exists: bool,
        rename: Option<&ObjectName>,
        (clauses, schedule): (&EventClauses, &Option<Schedule>),
    ) -> String {
        let exists = if if_not_exists { "IF NOT EXISTS " } else { "" };
        let mut text = format!("EVENT {exists}{}", self.context.named_in_log(name));
        if let Some(schedule) = schedule {
            text += &format!(" ON SCHEDULE {}", schedule.text(&self.vars.time_zone));
        }
        if let Some(preserve) = clauses.preserve {
            let not = if preserve { "" } else { "NOT " };
            text += &format!(" ON COMPLETION {not}PRESERVE");
        }
        if let Some(rename) = rename {
            text += &format!(" RENAME TO {}", self.context.named_in_log(rename));
        }
        if let Some(status) = clauses.status {
            text += &format!(" {}", status.clause());
        }
        if let Some(comment) = &clauses.comment {
            text += &format!(" COMMENT {}", quoted_literal(comment));
        }
        if let Some(body) = &clauses.body {
            text += &format!(" DO {}", body.text);
        }
        text
    }

    // Times.

    /// ON SCHEDULE.
    ///
    /// # Errors
    /// 1525, 1542, 1543, 1235.
    fn schedule_of(
        &mut self,
        schedule: &EventSchedule,
        params: &[Value],
    ) -> Result<Schedule, ExecError> {
        match schedule {
            EventSchedule::At(at) => {
                let at = self.clause(at, params)?;
                Ok(Schedule::At(self.required_moment("AT", &at)?))
            }
            EventSchedule::Every {
                amount,
                unit,
                starts,
                ends,
            } => {
                let interval = self.interval_of(amount, unit, params)?;
                let starts = match starts {
                    Some(starts) => {
                        let starts = self.clause(starts, params)?;
                        self.required_moment("STARTS", &starts)?
                    }
                    None => self.statement_now().div_euclid(MICROS_PER_SEC),
                };
                let ends = match ends {
                    Some(ends) => {
                        let ends = self.clause(ends, params)?;
                        let moment = self.moment(&ends).filter(|ends| *ends > starts);
                        Some(moment.ok_or_else(errors::ends_before_starts)?)
                    }
                    None => None,
                };
                Ok(Schedule::Every {
                    interval,
                    starts,
                    ends,
                })
            }
        }
    }

    fn computed(&mut self, expr: &Expr, params: &[Value]) -> Result<(Value, SqlType), ExecError> {
        if looks_up(&mut expr.clone()) {
            let what =
                "Event schedule expressions which contain subqueries or stored function calls";
            return Err(SqlError::not_supported(what).into());
        }
        self.use_transaction();
        let value = self.evaluate(expr, params)?;
        self.end_statement(true)?;
        Ok(value)
    }

    fn clause(&mut self, expr: &Expr, params: &[Value]) -> Result<Clause, ExecError> {
        let (value, ty) = self.computed(expr, params)?;
        let text = match &value {
            Value::Null => "NULL".to_owned(),
            value => String::from_utf8_lossy(&to_str(value, &ty)).into_owned(),
        };
        Ok(Clause { value, text })
    }

    /// The moment, in seconds; None: it is none that an event can have.
    fn moment(&self, clause: &Clause) -> Option<i64> {
        let eval = self.context.eval_ctx(&self.vars);
        let local = to_datetime(&eval, &clause.value, date_flags(&eval)).ok()??;
        let utc = local.to_utc(&self.vars.time_zone)?;
        let seconds = utc.micros.div_euclid(MICROS_PER_SEC);
        Some(seconds).filter(|seconds| (1..=LAST_UNIX_SECOND).contains(seconds))
    }

    fn required_moment(&self, word: &str, clause: &Clause) -> SqlResult<i64> {
        let moment = self.moment(clause);
        moment.ok_or_else(|| errors::incorrect_value(word, &clause.text))
    }

    fn interval_of(
        &mut self,
        amount: &Expr,
        unit: &str,
        params: &[Value],
    ) -> Result<EventInterval, ExecError> {
        let unit = IntervalUnit::by_name(unit).ok_or_else(errors::bad_event_interval)?;
        if unit.has_micros() {
            return Err(SqlError::not_supported("MICROSECOND").into());
        }
        let (value, ty) = self.computed(amount, params)?;
        if matches!(value, Value::Null) {
            return Err(errors::incorrect_value("INTERVAL", "NULL").into());
        }
        let eval = self.context.eval_ctx(&self.vars);
        let interval = if unit.is_compound() {
            Interval::from_text(unit, &to_str(&value, &ty))
        } else if unit == IntervalUnit::Second {
            // A fraction of a second counts for nothing.
            let seconds = to_f64(&eval, &value).map_or(0.0, f64::trunc);
            Interval::from_int(unit, seconds as i64)
        } else {
            Interval::from_int(unit, to_i64(&eval, &value).unwrap_or(0))
        };
        let interval = interval.and_then(|interval| EventInterval::of(unit, &interval));
        Ok(interval.ok_or_else(errors::bad_event_interval)?)
    }
}

impl SessionContext {
    /// Database and name of an event.
    ///
    /// # Errors
    /// 1044, 1046, 1059, 1458.
    fn event_name(&self, name: &ObjectName) -> SqlResult<TableName> {
        let event = &*name.name.text;
        if event.is_empty() || event.ends_with(' ') {
            return Err(errors::wrong_routine_name(event));
        }
        let name = ddl::resolve(name, self.database.as_deref())?;
        match is_system_schema(&name.schema) {
            true => Err(self.no_schema(&self.access.host, &name.schema)),
            false => Ok(name),
        }
    }

    /// The new name.
    ///
    /// # Errors
    /// 1551, 1044.
    fn event_rename(&self, alter: &AlterEvent, name: &TableName) -> SqlResult<Option<TableName>> {
        let Some(rename) = &alter.rename else {
            return Ok(None);
        };
        let new = self.event_name(rename)?;
        if new.schema == name.schema && new.name.to_lowercase() == name.name.to_lowercase() {
            return Err(errors::same_event_name());
        }
        self.require_in("EVENT", &new.schema)?;
        Ok(Some(new))
    }

    fn event_definer(&self, given: Option<&Account>) -> SqlResult<(String, String)> {
        let definer = self.named(given.unwrap_or(&Account::CurrentUser));
        self.check_definer(&definer)?;
        Ok(definer)
    }

    /// The body is compiled once before it is kept, so its types exist.
    fn check_event_body(&self, clauses: &EventClauses, schema: &str) -> SqlResult<()> {
        let Some(body) = &clauses.body else {
            return Ok(());
        };
        let collation = self.instance.schema_collation(schema);
        Program::compile(body, Vec::new(), None, &[], collation).map(drop)
    }
}

/// What ALTER EVENT changes.
struct EventChanges<'a> {
    clauses: &'a EventClauses,
    schedule: Option<Schedule>,
    status: Option<EventStatus>,
    originator: u32,
    time_zone: Box<str>,
    settings: ProgramSettings,
    now: i64,
}

impl EventChanges<'_> {
    /// The event as it will be, and a note.
    fn apply(&self, before: &EventDef) -> SqlResult<(EventDef, Option<SqlError>)> {
        let mut def = before.clone();
        let clauses = self.clauses;
        def.preserve = clauses.preserve.unwrap_or(def.preserve);
        if let Some(status) = self.status {
            def.status = status;
            def.originator = self.originator;
        }
        if let Some(comment) = &clauses.comment {
            def.comment = comment.clone();
        }
        // Who alters an event is its definer from then on, as in MySQL.
        def.settings = ProgramSettings {
            sql_mode: before.settings.sql_mode.clone(),
            ..self.settings.clone()
        };
        if let Some(body) = &clauses.body {
            def.body = body.text.clone();
            def.settings.sql_mode = self.settings.sql_mode.clone();
        }
        def.altered_micros = self.now;
        let mut note = None;
        if let Some(schedule) = &self.schedule {
            def.schedule = schedule.clone();
            def.time_zone = self.time_zone.clone();
            if has_passed(schedule, self.now) {
                if !def.preserve {
                    return Err(errors::event_not_altered());
                }
                note = disable_passed(&mut def, clauses.status);
            }
        }
        Ok((def, note))
    }
}
/// Does a time ask tables or a stored function?
fn looks_up(expr: &mut Expr) -> bool {
    let below = expr.parts_mut().into_iter().any(|part| match part {
        PartMut::Expr(expr) => looks_up(expr),
        PartMut::Query(query) => !matches!(&query.body, QueryBody::Select(s) if s.from.is_empty()),
        PartMut::Column(_) => false,
    });
    below || matches!(expr, Expr::Call(call) if is_stored(call))
}

/// Is there no time left at which it would run?
fn has_passed(schedule: &Schedule, now_micros: i64) -> bool {
    let last = match schedule {
        Schedule::At(at) => Some(*at),
        Schedule::Every { ends, .. } => *ends,
    };
    last.is_some_and(|last| last < now_micros.div_euclid(MICROS_PER_SEC))
}

/// Disables an event that stays though it will not run, unless it is disabled anyway.
fn disable_passed(def: &mut EventDef, given: Option<EventStatus>) -> Option<SqlError> {
    if given.unwrap_or_default() != EventStatus::Enabled {
        return None;
    }
    def.status = EventStatus::Disabled;
    Some(errors::event_time_passed())
}
