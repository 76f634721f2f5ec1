//! Statements that ask the process around the database: SHUTDOWN, RESTART, ALTER INSTANCE RELOAD TLS, FLUSH LOGS.
//!
//! Neighbours: [`Host`](crate::Host) is the process; `utility` and `flush` call these.
//! **Invariant**: the privilege is checked before the process is asked.

use esker_sql_catalog::exec_error::ExecError;
use esker_types::{SqlError, SqlResult, errors};

use super::Session;
use super::run::{Done, ok};

impl Session {
    /// SHUTDOWN.
    pub(super) fn shut_down(&mut self) -> Result<Done, ExecError> {
        self.context.require("SHUTDOWN")?;
        let instance = self.context.instance.clone();
        let host = instance.host_slot.require("SHUTDOWN")?;
        host.shut_down(&self.context.account.name());
        Ok(ok(0))
    }

    /// RESTART: nothing would start the server again.
    pub(super) fn restart(&mut self) -> Result<Done, ExecError> {
        self.context.require("SHUTDOWN")?;
        let text = "Restart server failed (mysqld is not managed by supervisor process).";
        Err(SqlError::new(3707, "HY000", text).into())
    }

    /// ALTER INSTANCE RELOAD TLS.
    pub(super) fn reload_tls(&mut self) -> Result<Done, ExecError> {
        self.context.require_any(&["SUPER", "CONNECTION_ADMIN"])?;
        let instance = self.context.instance.clone();
        let host = instance.host_slot.require("ALTER INSTANCE RELOAD TLS")?;
        host.reload_tls().map_err(|e| {
            let text =
                format!("Failed to set up SSL because of the following SSL library error: {e}");
            SqlError::new(3888, "HY000", text)
        })?;
        Ok(ok(0))
    }

    /// The part of FLUSH LOGS that is the logs of statements.
    pub(super) fn reopen_query_logs(&self) {
        let logs = &self.context.instance.query_logs;
        logs.slow.reopen();
        logs.general.reopen();
        self.context.instance.audit.reopen();
    }

    /// The part of FLUSH LOGS that is the error log.
    pub(super) fn reopen_logs(&self) -> SqlResult<()> {
        let Some(host) = self.context.instance.host() else {
            return Ok(());
        };
        host.reopen_logs()
            .map_err(|e| errors::unknown_error(format!("cannot open the error log: {e}")))
    }
}
