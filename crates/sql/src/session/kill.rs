//! KILL and KILL QUERY, as statements and through the protocol.
//!
//! Neighbours: `utility` and the server call this; `registry` knows the sessions and stops them.
//! **Invariants**: without a privilege an account stops only sessions of its own user; a client whose connection
//! another one ends hears nothing more, not even an error: its driver would take the connection for a live one.

use std::time::Instant;

use esker_sql_catalog::exec_error::ExecError;
use esker_sql_syntax::ast::Kill;
use esker_types::{SqlError, SqlResult, Value};

use super::registry::Process;
use super::run::{Done, ok};
use super::{Session, SessionContext};
use crate::loglines::on_one_line;

impl Session {
    /// KILL CONNECTION through the protocol.
    ///
    /// # Errors
    /// 1094, 1095.
    pub fn kill(&mut self, id: u64) -> SqlResult<()> {
        self.context.kill_session(id, true)
    }

    pub(super) fn run_kill(&mut self, kill: &Kill, params: &[Value]) -> Result<Done, ExecError> {
        let (value, _) = self.evaluate(&kill.id, params)?;
        let id = match value {
            Value::Int(i) if i >= 0 => i as u64,
            Value::UInt(u) => u,
            // A text that is no number names thread 0, which there never is.
            Value::Str(text) => {
                let text = String::from_utf8_lossy(&text);
                text.trim().parse().unwrap_or(0)
            }
            _ => 0,
        };
        self.context.kill_session(id, !kill.query)?;
        match self.context.process.kill_error() {
            Some(e) => Err(e.into()),
            None => Ok(ok(0)),
        }
    }
}

impl SessionContext {
    /// KILL of another session (or this one).
    fn kill_session(&self, id: u64, connection: bool) -> SqlResult<()> {
        let target = self.instance.registry.find_to_kill(id)?;
        let is_own = target.is_of(&self.user);
        if !is_own {
            let not_owner =
                |_| SqlError::new(1095, "HY000", format!("You are not owner of thread {id}"));
            self.require_any(&["SUPER", "CONNECTION_ADMIN"])
                .map_err(not_owner)?;
        }
        let ends_other = connection && id != self.process.id;
        // Whoever ends the statements of its own sessions, as clients do at their timeouts, is not told of.
        if ends_other || !is_own {
            self.tell_kill(&target, connection);
        }
        match ends_other {
            true => target.cut_off(),
            false => target.kill(connection),
        }
        Ok(())
    }

    /// Tells the server's log of it, unless it hears that too often.
    fn tell_kill(&self, target: &Process, connection: bool) {
        let Some(left_out) = self.instance.kills_told.admit(Instant::now()) else {
            return;
        };
        if left_out > 0 {
            tracing::info!("{left_out} more KILL are not listed");
        }
        let what = if connection { "KILL" } else { "KILL QUERY" };
        let (id, user, peer) = (target.id, target.detail().user, &target.peer);
        tracing::info!(
            "{what} {id} (user {user:?} from {peer}) by {}",
            on_one_line(&self.account.name())
        );
    }
}
