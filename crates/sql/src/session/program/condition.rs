//! SIGNAL, RESIGNAL and GET DIAGNOSTICS.
//!
//! Neighbours: `utility` dispatches here, in programs and outside; the diagnostics area is the session's list of
//! warnings, to which errors belong, too.
//! **Invariants**: a condition of class 01 is a warning, as is one that RESIGNAL passes on from a
//! statement that only warned; every other one is an error; RESIGNAL needs a handler that runs,
//! and keeps what it does not set.

use esker_sql_catalog::exec_error::ExecError;
use esker_sql_syntax::ast::{
    ConditionItem, DiagnosticsItems, Expr, GetDiagnostics, Signal, StatementItem, Target,
};
use esker_types::cast::{to_i64, to_str};
use esker_types::condition::Condition;
use esker_types::{Level, SqlError, SqlType, Value, Warning, errors};

use super::super::Session;
use super::super::run::{Done, ok};
use super::machine::ends_everything;

/// GET STACKED DIAGNOSTICS outside of handlers.
const NO_HANDLER: u16 = 3004;
/// Most characters of MESSAGE_TEXT.
const MAX_MESSAGE_CHARS: usize = 128;
/// Most characters of every other item.
const MAX_ITEM_CHARS: usize = 64;
/// Numbers above this one are no numbers of errors.
const MAX_CODE: i64 = 65_535;

/// The SQLSTATE of a condition.
pub(super) fn sqlstate_of(warning: &Warning) -> &str {
    if let Some(condition) = &warning.condition {
        return condition.state();
    }
    match (warning.code, warning.level) {
        (1329, _) => "02000",
        (1264 | 1690, _) => "22003",
        (1292 | 1411, _) => "22007",
        (1365, _) => "22012",
        (1406, _) => "22001",
        (1048 | 1062 | 1451 | 1452, _) => "23000",
        (1051 | 1146, _) => "42S02",
        (1305, _) => "42000",
        (1265 | 1642, _) => "01000",
        _ => "HY000",
    }
}

/// A condition that is being made up.
struct Raised {
    condition: Condition,
    code: u16,
    message: String,
}

impl Session {
    /// SIGNAL and RESIGNAL.
    pub(in super::super) fn signal(
        &mut self,
        signal: &Signal,
        params: &[Value],
    ) -> Result<Done, ExecError> {
        let (mut raised, mut is_warning) = match signal.resignal {
            true => self.handled_condition()?,
            false => {
                let raised = Raised {
                    condition: Condition {
                        signalled: true,
                        ..Condition::of("45000")
                    },
                    code: 0,
                    message: String::new(),
                };
                (raised, false)
            }
        };
        if let Some(state) = signal.state {
            raised.condition.state = state;
            let (code, message) = default_of(&state);
            raised.code = code;
            // What is passed on has its text already.
            if !signal.resignal {
                raised.message = message;
            }
            is_warning = state.starts_with(b"01");
        }
        for (item, value) in &signal.items {
            self.set_item(&mut raised, *item, value, params)?;
        }
        if signal.resignal {
            self.pass_on_handled(signal.state.is_none());
        }
        match is_warning {
            true => {
                self.warn_signalled(raised);
                Ok(ok(0))
            }
            false => Err(into_error(raised).into()),
        }
    }

    /// What the handler that runs handles, and whether that is a warning.
    fn handled_condition(&self) -> Result<(Raised, bool), SqlError> {
        let handled = self.program.handled.as_ref();
        let handled = handled.ok_or_else(errors::resignal_without_handler)?;
        let warning = &handled.raised;
        let condition = warning.condition.as_deref().cloned();
        let raised = Raised {
            condition: condition.unwrap_or_else(|| Condition::of(sqlstate_of(warning))),
            code: warning.code,
            message: warning.message.clone(),
        };
        Ok((raised, warning.level != Level::Error))
    }

    /// Beside what is passed on stand the conditions that the handler began with, without the one that is `replaced`;
    /// the oldest give way to it.
    fn pass_on_handled(&mut self, replaced: bool) {
        if let Some(handled) = self.program.handled.clone() {
            self.diagnostics.pass_on(&handled.conditions);
            if replaced {
                self.diagnostics.forget_last(&handled.raised);
            }
            self.diagnostics.make_room(&self.vars);
        }
    }

    fn warn_signalled(&mut self, raised: Raised) {
        let warning = (Level::Warning, raised.code, raised.message);
        self.diagnostics
            .warn_with(&self.vars, warning, Box::new(raised.condition));
    }

    fn set_item(
        &mut self,
        raised: &mut Raised,
        item: ConditionItem,
        value: &Expr,
        params: &[Value],
    ) -> Result<(), ExecError> {
        let (value, ty) = self.evaluate(value, params)?;
        let wrong = |shown: &str| errors::wrong_value(item.text(), shown);
        if value.is_null() {
            return Err(wrong("NULL").into());
        }
        if item == ConditionItem::MysqlErrno {
            let ctx = self.context.eval_ctx(&self.vars);
            let code = to_i64(&ctx, value.as_ref())?;
            return match u16::try_from(code) {
                Ok(number) if number > 0 && code <= MAX_CODE => {
                    raised.code = number;
                    Ok(())
                }
                _ => Err(wrong(&code.to_string()).into()),
            };
        }
        let text = String::from_utf8_lossy(&to_str(value.as_ref(), &ty)).into_owned();
        let most = match item {
            ConditionItem::MessageText => MAX_MESSAGE_CHARS,
            _ => MAX_ITEM_CHARS,
        };
        let text = self.fit_item(item, text, most)?;
        match item {
            ConditionItem::MessageText => raised.message = text,
            _ => {
                raised.condition.items.retain(|(known, _)| *known != item);
                raised.condition.items.push((item, text));
            }
        }
        Ok(())
    }

    /// A text that is too long is an error in strict mode, else it is cut.
    fn fit_item(
        &mut self,
        item: ConditionItem,
        mut text: String,
        most: usize,
    ) -> Result<String, SqlError> {
        let Some((end, _)) = text.char_indices().nth(most) else {
            return Ok(text);
        };
        if self.vars.sql_mode.is_strict() {
            return Err(errors::condition_item_too_long(item.text()));
        }
        let cut = format!("Data truncated for condition item '{}'", item.text());
        self.warn(Level::Warning, 1647, cut);
        text.truncate(end);
        Ok(text)
    }

    /// GET DIAGNOSTICS. What fails is told beside what is there, and the statement goes well; that there is no handler
    /// is an error.
    pub(in super::super) fn get_diagnostics(
        &mut self,
        get: &GetDiagnostics,
        params: &[Value],
    ) -> Result<Done, ExecError> {
        match self.copy_diagnostics(get, params) {
            Err(ExecError::Sql(e)) if e.code != NO_HANDLER && !ends_everything(&e) => {
                self.diagnostics.record(&self.vars, &e);
                self.context.row_count.set(-1);
            }
            copied => copied?,
        }
        Ok(ok(0))
    }

    fn copy_diagnostics(
        &mut self,
        get: &GetDiagnostics,
        params: &[Value],
    ) -> Result<(), ExecError> {
        let area: Vec<Warning> = match get.stacked {
            true => match &self.program.handled {
                Some(handled) => handled.conditions.clone(),
                None => return Err(errors::no_stacked_diagnostics().into()),
            },
            false => self.diagnostics.conditions().to_vec(),
        };
        match &get.what {
            DiagnosticsItems::Statement(items) => {
                for (target, item) in items {
                    let value = match item {
                        StatementItem::Number => area.len() as i64,
                        StatementItem::RowCount => self.context.row_count.get(),
                    };
                    self.give(target, (Value::Int(value), SqlType::bigint(false)))?;
                }
            }
            DiagnosticsItems::Condition(number, items) => {
                let (number, _) = self.evaluate(number, params)?;
                let ctx = self.context.eval_ctx(&self.vars);
                let number = to_i64(&ctx, number.as_ref())?;
                drop(ctx);
                let nth = usize::try_from(number).ok().and_then(|n| n.checked_sub(1));
                let condition = nth.and_then(|nth| area.get(nth));
                let condition = condition.ok_or_else(errors::wrong_condition_number)?;
                for (target, item) in items {
                    let value = self.item_of(condition, *item);
                    self.give(target, value)?;
                }
            }
        }
        Ok(())
    }

    fn item_of(&self, condition: &Warning, item: ConditionItem) -> (Value, SqlType) {
        let state = sqlstate_of(condition);
        let text = match item {
            ConditionItem::MysqlErrno => {
                return (Value::Int(condition.code.into()), SqlType::bigint(false));
            }
            ConditionItem::MessageText => &*condition.message,
            ConditionItem::ReturnedSqlstate => state,
            item => match condition.condition.as_ref().and_then(|c| c.item(item)) {
                Some(text) => text,
                None if condition.condition.as_ref().is_some_and(|c| c.signalled) => "",
                None => origin_of(item, state),
            },
        };
        let ty = SqlType::varchar(text.chars().count() as u32, self.vars.collation_connection);
        (Value::Str(text.as_bytes().to_vec()), ty)
    }

    /// A value for a target: a user variable at once, a program's variable when the statement is over.
    fn give(&mut self, target: &Target, value: (Value, SqlType)) -> Result<(), ExecError> {
        match (&mut self.program.into, target) {
            (Some(given), _) => given.push(value),
            (None, Target::User(name)) => {
                self.context.set_user_var(name, value.0, value.1)?;
            }
            (None, Target::Local(_) | Target::New(_)) => {
                return Err(errors::internal("a variable of no program").into());
            }
        }
        Ok(())
    }
}

/// CLASS_ORIGIN and SUBCLASS_ORIGIN of a condition that nobody gave them: MySQL judges both by the class. Every other
/// item is empty.
fn origin_of(item: ConditionItem, state: &str) -> &'static str {
    let is_origin = matches!(
        item,
        ConditionItem::ClassOrigin | ConditionItem::SubclassOrigin
    );
    let is_standard = matches!(state.bytes().next(), Some(b'0'..=b'4' | b'A'..=b'H'));
    match (is_origin, is_standard) {
        (false, _) => "",
        (true, true) => "ISO 9075",
        (true, false) => "MySQL",
    }
}

/// Number and text of a condition of which only the SQLSTATE is known.
fn default_of(state: &[u8; 5]) -> (u16, String) {
    let (code, what) = match state {
        [b'0', b'1', ..] => (1642, "warning"),
        [b'0', b'2', ..] => (1643, "not found"),
        _ => (1644, "exception"),
    };
    (code, format!("Unhandled user-defined {what} condition"))
}

fn into_error(raised: Raised) -> SqlError {
    SqlError {
        condition: Some(Box::new(raised.condition)),
        ..SqlError::new(raised.code, "HY000", raised.message)
    }
}
