//! Statements about the binary log and replication: PURGE, RESET, BINLOG, and those of channels.
//!
//! Neighbours: `utility` calls this; `binlog::admin` changes the binary log, `replay` runs BINLOG,
//! `replica::statements` has the statements of channels.
//! **Invariant**: the privilege is checked before the binary log is asked.

use std::ops::RangeInclusive;

use esker_sql_catalog::exec_error::ExecError;
use esker_sql_syntax::ast::{Call, Expr, Ident, Replication};
use esker_types::{SqlError, Value, errors};

use super::Session;
use super::run::{Done, ok};

impl Session {
    pub(super) fn run_replication(&mut self, replication: &Replication) -> Result<Done, ExecError> {
        match replication {
            Replication::PurgeTo(file) => {
                self.context.require_any(&["SUPER", "BINLOG_ADMIN"])?;
                self.purge_binlog_to(file)?;
            }
            Replication::PurgeBefore(before) => {
                self.context.require_any(&["SUPER", "BINLOG_ADMIN"])?;
                let before = self.seconds_of(before)?;
                self.purge_binlog_before(before)?;
            }
            Replication::Binlog(coded) => return self.replay(coded),
            Replication::Group { .. } => {
                let rights = &["SUPER", "GROUP_REPLICATION_ADMIN"];
                self.context.require_any(rights)?;
                return Err(errors::no_group_member().into());
            }
            Replication::ResetBinlog { to } => {
                self.context.require("RELOAD")?;
                let first = to.unwrap_or(*FIRST_FILES.start());
                if !FIRST_FILES.contains(&first) {
                    return Err(out_of_files(first).into());
                }
                self.context.reset_binlog(first as u32)?;
            }
            Replication::ResetSeveral(list) => {
                for one in list {
                    self.run_replication(one)?;
                }
            }
            _ if self.run_channel_statement(replication)? => {}
            _ => return Err(SqlError::not_supported("replication").into()),
        }
        Ok(ok(0))
    }

    /// A moment in the session's time zone, in seconds since the epoch.
    fn seconds_of(&mut self, moment: &Expr) -> Result<u32, ExecError> {
        let call = Expr::Call(Box::new(Call::plain(
            Ident::new("unix_timestamp"),
            vec![moment.clone()],
        )));
        let (value, _) = self.evaluate(&call, &[])?;
        let seconds = match value {
            Value::Int(v) => v,
            Value::UInt(v) => v as i64,
            Value::Decimal(v) => v.to_i64().0,
            // Before no time at all there is nothing.
            Value::Null => 0,
            _ => {
                return Err(errors::wrong_arguments("PURGE LOGS BEFORE").into());
            }
        };
        Ok(u32::try_from(seconds.max(0)).unwrap_or(u32::MAX))
    }
}

/// What RESET BINARY LOGS AND GTIDS TO may say.
const FIRST_FILES: RangeInclusive<u64> = 1..=2_000_000_000;

/// 3567.
fn out_of_files(first: u64) -> SqlError {
    let (start, end) = (FIRST_FILES.start(), FIRST_FILES.end());
    let text = format!(
        "The requested value '{first}' for the next binary log index is out of range. Please use a value between \
         '{start}' and '{end}'."
    );
    SqlError::new(3567, "HY000", text)
}
