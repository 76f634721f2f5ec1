//! The last file of the binary log is damaged: what the log still has of it is derived again.
//!
//! Neighbours: the writer comes here when it cannot open the files; `esker_binlog::files` finds the damage and cuts it
//! off. **Invariant**: a file changes only if the log has everything that is cut off; else the error says what is
//! damaged, and what somebody can do about it.

use esker_binlog::files::{Damage, Names};
use esker_sql_catalog::exec_error::engine_error;
use esker_types::{SqlResult, errors};

use super::writer::{FOLLOWER, StartArgs, failed};

/// What to do where the log cannot help.
const ADVICE: &str = "it cannot be derived from the write-ahead log again. The tables are whole: move the files of \
                      the binary log away, or restore this one, and start again; replicas that had not read it have \
                      to be set up anew";

/// Cuts off what is damaged, if the log has it; opening the files derives it again.
///
/// # Errors
/// 1598: what `damage` says, and advice.
pub(super) fn repair(
    args: &StartArgs<'_>,
    names: &Names,
    error: &esker_binlog::Error,
) -> SqlResult<()> {
    let fs = &*args.env.fs;
    let hopeless = || errors::binlog_failed(format!("{error}; {ADVICE}"));
    let mut damage = match Damage::find(fs, names) {
        Ok(Some(damage)) => damage,
        Err(e @ esker_binlog::Error::Io(_)) => return Err(failed(&e)),
        // There is nothing to derive it from, or its head is damaged, too.
        Ok(None) | Err(_) => return Err(hopeless()),
    };
    // All that there is: what is below is gone.
    let follower = args.engine.follow(FOLLOWER, 0);
    let mut follower = follower.map_err(|e| engine_error(&e))?;
    let end = damage.end();
    let mut read = Vec::new();
    while follower.at() < end {
        let more = follower.next(&mut |record| {
            if record.seq <= end {
                read.push((record.start, record.attachment.to_vec()));
            }
            Ok(())
        });
        let more = more.map_err(|e| engine_error(&e))?;
        for (start, attachment) in read.drain(..) {
            damage.note(start, &attachment).map_err(|e| failed(&e))?;
        }
        if !more {
            break;
        }
    }
    if !damage.can_be_repaired() {
        return Err(hopeless());
    }
    tracing::warn!(
        "{error}; the file is cut at {}, and its last {} transactions are derived from the log again",
        damage.offset(),
        damage.transactions()
    );
    damage.repair(fs, names).map_err(|e| failed(&e))
}
