//! Statements that ask the process around the database: SHUTDOWN, RESTART, ALTER INSTANCE, FLUSH LOGS.
//!
//! Neighbours: [`Host`](crate::Host) is the process; `utility` and `flush` call these.
//! **Invariant**: the privilege is checked before the process is asked.

use esker_sql_catalog::exec_error::ExecError;
use esker_sql_syntax::ast::{AlterInstance, TlsChannel};
use esker_types::{Level, SqlError, SqlResult, errors};

use super::run::{Done, ok};
use super::{Session, SessionContext};

impl Session {
    /// ALTER INSTANCE. There is no keyring, and the log is always on.
    pub(super) fn alter_instance(&mut self, what: AlterInstance) -> Result<Done, ExecError> {
        let (privilege, refused) = match what {
            AlterInstance::ReloadTls {
                channel,
                keeps_error,
            } => return self.reload_tls(channel, keeps_error),
            AlterInstance::ReloadKeyring => {
                ("ENCRYPTION_KEY_ADMIN", Some(errors::no_keyring_reload()))
            }
            AlterInstance::RotateKey { is_binlog: false } => {
                ("ENCRYPTION_KEY_ADMIN", Some(errors::no_master_key()))
            }
            AlterInstance::RotateKey { is_binlog: true } => (
                "BINLOG_ENCRYPTION_ADMIN",
                Some(errors::no_binlog_encryption()),
            ),
            AlterInstance::RedoLog(true) => ("INNODB_REDO_LOG_ENABLE", None),
            AlterInstance::RedoLog(false) => {
                let what = "ALTER INSTANCE DISABLE INNODB REDO_LOG";
                (
                    "INNODB_REDO_LOG_ENABLE",
                    Some(SqlError::not_supported(what)),
                )
            }
        };
        self.context.require_any(&["SUPER", privilege])?;
        match refused {
            Some(e) => Err(e.into()),
            None => Ok(ok(0)),
        }
    }

    /// ALTER INSTANCE RELOAD TLS. The admin port has no certificates of its own to be read.
    fn reload_tls(&mut self, channel: TlsChannel, keeps_error: bool) -> Result<Done, ExecError> {
        self.context.require_any(&["SUPER", "CONNECTION_ADMIN"])?;
        match channel {
            TlsChannel::Main => {}
            TlsChannel::Admin => return Ok(ok(0)),
            TlsChannel::Unknown => return Err(errors::syntax_of_old().into()),
        }
        let instance = self.context.instance.clone();
        let host = instance.host_slot.require("ALTER INSTANCE RELOAD TLS")?;
        if let Err(e) = host.reload_tls(keeps_error) {
            let text =
                format!("Failed to set up SSL because of the following SSL library error: {e}");
            if !keeps_error {
                return Err(SqlError::new(3888, "HY000", text).into());
            }
            self.warn(Level::Warning, 3888, text);
        }
        Ok(ok(0))
    }
}

impl SessionContext {
    /// SHUTDOWN.
    pub(super) fn shut_down(&mut self) -> Result<Done, ExecError> {
        self.require("SHUTDOWN")?;
        let instance = self.instance.clone();
        let host = instance.host_slot.require("SHUTDOWN")?;
        host.shut_down(&self.account.name());
        Ok(ok(0))
    }

    /// RESTART: nothing would start the server again.
    pub(super) fn restart(&mut self) -> Result<Done, ExecError> {
        self.require("SHUTDOWN")?;
        let text = "Restart server failed (mysqld is not managed by supervisor process).";
        Err(SqlError::new(3707, "HY000", text).into())
    }

    /// The part of FLUSH LOGS that is the logs of statements.
    pub(super) fn reopen_query_logs(&self) {
        let logs = &self.instance.query_logs;
        logs.slow.reopen();
        logs.general.reopen();
        self.instance.audit.reopen();
    }

    /// The part of FLUSH LOGS that is the error log.
    pub(super) fn reopen_logs(&self) -> SqlResult<()> {
        let Some(host) = self.instance.host() else {
            return Ok(());
        };
        host.reopen_logs()
            .map_err(|e| errors::unknown_error(format!("cannot open the error log: {e}")))
    }
}
