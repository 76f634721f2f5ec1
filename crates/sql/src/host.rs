//! What a statement needs of the process around the database: to stop it, to reopen its log or read the last lines, to
//! reload its certificate, to receive from another server.
//!
//! Neighbours: the server implements [`Host`] and hands it to [`Instance::serve_for`](crate::Instance::serve_for);
//! `session` asks it. A database without a server has none: the statements are refused.
//! **Invariant**: nothing here blocks; SHUTDOWN is answered before the process ends.

use std::sync::{Arc, OnceLock};

use esker_types::{SqlError, SqlResult};

use crate::replica::Reception;

/// How urgent a line of the error log is, by MySQL's names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogPriority {
    /// Something failed.
    Error,
    /// Something may fail.
    Warning,
    /// Something happened.
    Note,
}

/// A line of the error log.
#[derive(Clone, Debug)]
pub struct LogLine {
    /// When it was written: microseconds since 1970.
    pub micros: i64,
    /// How urgent it is.
    pub priority: LogPriority,
    /// What it says.
    pub text: String,
}

/// What the lines of the error log look like, and which there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogForm {
    /// Each is an object of JSON.
    pub json: bool,
    /// Those of [`LogPriority::Warning`] are among them.
    pub warnings: bool,
}

impl LogForm {
    /// As `log_error_services` and `log_error_verbosity` say it. The latter is what the filter goes by, and no
    /// verbosity leaves out what the server says of itself, which MySQL calls System.
    pub fn of(services: &str, verbosity: u64) -> Self {
        let names = |name: &str| {
            let mut all = services.split([';', ',']);
            all.any(|service| service.trim().eq_ignore_ascii_case(name))
        };
        Self {
            json: names("log_sink_json"),
            warnings: verbosity > 1 || !names("log_filter_internal"),
        }
    }
}

/// The process.
pub trait Host: Send + Sync {
    /// Ends the server as SIGTERM does. `by` is the account, for the log.
    fn shut_down(&self, by: &str);

    /// Opens the files of the error log anew (FLUSH LOGS).
    ///
    /// # Errors
    /// What the system says; the log goes on in the file it had.
    fn reopen_logs(&self) -> Result<(), String>;

    /// Lines of the error log are of this form from now on.
    fn form_log(&self, form: LogForm);

    /// The last lines of the error log, the oldest first.
    fn recent_log(&self) -> Vec<LogLine>;

    /// Reads certificate and key again (ALTER INSTANCE RELOAD TLS); connections that are open keep theirs.
    ///
    /// # Errors
    /// What is wrong with the files. The old ones stay in use, or with `keeps_error` there is no TLS.
    fn reload_tls(&self, keeps_error: bool) -> Result<(), String>;

    /// Status variables of the certificate and the settings that new connections get.
    fn tls_status(&self) -> Vec<(&'static str, String)>;

    /// Begins a thread that receives from a source.
    ///
    /// # Errors
    /// There is no thread.
    fn receive(&self, reception: Arc<Reception>) -> Result<(), String>;

    /// A number for a session that no client has.
    fn next_connection(&self) -> u64;
}

/// The place of the host, empty until the server is up.
#[derive(Default)]
pub(crate) struct HostSlot(OnceLock<Box<dyn Host>>);

impl HostSlot {
    pub(crate) fn set(&self, host: Box<dyn Host>) {
        let first = self.0.set(host).is_ok();
        assert!(first, "one process serves an instance");
    }

    /// The host, if there is one.
    pub(crate) fn get(&self) -> Option<&dyn Host> {
        self.0.get().map(Box::as_ref)
    }

    /// The host that a statement cannot do without.
    pub(crate) fn require(&self, statement: &'static str) -> SqlResult<&dyn Host> {
        self.get().ok_or_else(|| SqlError::not_supported(statement))
    }
}
