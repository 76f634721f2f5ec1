//! The one error type a user sees: MySQL's number, SQLSTATE and text.
//!
//! Neighbours: every layer above `engine` returns it; `wire` prints it.
//! **Invariant**: `state` is always five ASCII characters, `code` a number MySQL documents.

use std::fmt;

use crate::condition::Condition;

/// An error as a MySQL client sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SqlError {
    /// MySQL error number (1000-9999).
    pub code: u16,
    /// Five character SQLSTATE; [`Self::sqlstate`] knows that of SIGNAL, too.
    pub state: &'static str,
    /// Text, without a trailing period.
    pub message: String,
    /// What SIGNAL has said of it.
    pub condition: Option<Box<Condition>>,
}

/// Result of anything that can fail towards a client.
pub type SqlResult<T> = Result<T, SqlError>;

impl SqlError {
    /// Builds an error from a number, SQLSTATE and text.
    pub fn new(code: u16, state: &'static str, message: impl Into<String>) -> Self {
        debug_assert!(state.len() == 5);
        Self {
            code,
            state,
            message: message.into(),
            condition: None,
        }
    }

    /// The SQLSTATE.
    pub fn sqlstate(&self) -> &str {
        self.condition.as_ref().map_or(self.state, |c| c.state())
    }

    /// 1235: a feature Esker does not have, named.
    pub fn not_supported(what: impl fmt::Display) -> Self {
        Self::new(
            1235,
            "42000",
            format!("This version of Esker doesn't yet support '{what}'"),
        )
    }
}

impl fmt::Display for SqlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "ERROR {} ({}): {}",
            self.code,
            self.sqlstate(),
            self.message
        )
    }
}

impl std::error::Error for SqlError {}

/// Severity of a diagnostics-area entry (`SHOW WARNINGS`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    /// `Note`
    Note,
    /// `Warning`
    Warning,
    /// `Error`
    Error,
}

/// One diagnostics-area entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Warning {
    /// Severity.
    pub level: Level,
    /// MySQL error number.
    pub code: u16,
    /// Text.
    pub message: String,
    /// Its SQLSTATE, where that does not follow from the level, and what SIGNAL has said.
    pub condition: Option<Box<Condition>>,
}
