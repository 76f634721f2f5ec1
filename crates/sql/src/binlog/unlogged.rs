//! GTIDs of a server without binary log: of transactions that replicas apply, and of sessions with `gtid_next`.
//!
//! Neighbours: [`owned`](super::owned) has the set in memory; a channel's state says what the channel has applied, and
//! a session's transaction has a row of its own, which the catalog keeps. Where such a set goes away, all of it is
//! written down as one row. Reasons: `docs/decisions/binlog.md`.
//!
//! **Invariants**
//! - What is in memory is committed before it is there, so a row that is written with it is behind it in the log.
//! - A statement that fails to write changes nothing in memory.
//! - There is a row if and only if the server has run without a binary log since the last start with one.

use esker_binlog::gtid::{Gtid, GtidSet};
use esker_engine::{Seq, Txn};
use esker_sql_catalog::catalog::ChannelRow;
use esker_sql_catalog::exec_error::engine_error;
use esker_types::{SqlResult, errors};
use parking_lot::MutexGuard;

use super::owned::NotAdded;
use super::writer::Command;
use crate::applier;
use crate::instance::Instance;

/// The form of the rows: this byte, and a set.
const VERSION: u8 = 1;

fn value(set: &GtidSet) -> Vec<u8> {
    let mut out = vec![VERSION];
    set.encode(&mut out);
    out
}

fn read(bytes: &[u8]) -> SqlResult<GtidSet> {
    let set = match bytes {
        [VERSION, set @ ..] => GtidSet::decode(set).ok(),
        _ => None,
    };
    set.ok_or_else(|| errors::channel_damaged("GTIDs executed without a binary log".to_owned()))
}

/// All that these rows say.
fn read_all(rows: &[Vec<u8>]) -> SqlResult<GtidSet> {
    let mut all = GtidSet::default();
    for row in rows {
        all.union(&read(row)?);
    }
    Ok(all)
}

/// The row of a session's transaction.
pub(crate) fn row(gtid: &Gtid) -> ChannelRow {
    let mut set = GtidSet::default();
    set.add(gtid);
    ChannelRow::unlogged(gtid.to_string().as_bytes(), value(&set))
}

impl Instance {
    /// Learns at a start what was executed without a binary log. If there is one now, that becomes purged.
    ///
    /// # Errors
    /// Damaged rows or files; of the engine.
    pub(crate) fn gather_unlogged(&self) -> SqlResult<()> {
        let kept = self.catalog.unlogged_rows()?;
        let mut executed = read_all(&kept)?;
        let is_first = kept.is_empty();
        if self.binlog.is_on() && is_first {
            return Ok(());
        }
        let channels = applier::channels(self)?;
        for channel in &channels {
            match applier::load(self, channel) {
                Ok(state) => executed.union(&state.all_gtids()),
                // The channel says so, too, when it is opened.
                Err(e) => tracing::error!("GTIDs of channel '{channel}': {}", e.message),
            }
        }
        if self.binlog.is_on() {
            return self.log_unlogged(executed);
        }
        if is_first {
            executed.union(&self.binlog.left_executed(&*self.env.fs)?);
        }
        let is_new = is_first && !(executed.is_empty() && channels.is_empty());
        self.binlog.owned.set_unlogged(executed);
        if is_new || kept.len() > 1 {
            self.try_to_keep();
        }
        Ok(())
    }

    /// Writes down what is executed; where that fails (a full disk) what is kept says it for now.
    pub(crate) fn try_to_keep(&self) {
        if let Err(e) = self.keep_unlogged() {
            tracing::warn!("GTIDs executed without a binary log: {}", e.message);
        }
    }

    /// From now on the binary log says what was executed without one.
    fn log_unlogged(&self, mut executed: GtidSet) -> SqlResult<()> {
        executed.subtract(&self.gtid_executed());
        if !executed.is_empty() {
            self.binlog.order(Command::AddPurged(executed))?;
        }
        let mut txn = self.catalog.row_transaction();
        self.catalog.replace_unlogged(&mut txn, |_| Ok(None))?;
        self.commit_unlogged(txn)
    }

    /// Only who holds this replaces what is kept.
    pub(crate) fn lock_unlogged(&self) -> MutexGuard<'_, ()> {
        self.binlog.owned.keeping.lock()
    }

    /// Without a binary log: the transaction writes down all that is executed, as one row. The caller has
    /// [`Self::lock_unlogged`] until it is committed.
    ///
    /// # Errors
    /// Damaged rows; of the engine.
    pub(crate) fn write_unlogged(&self, txn: &mut Txn) -> SqlResult<()> {
        if self.binlog.is_on() {
            return Ok(());
        }
        let executed = self.binlog.owned.unlogged();
        self.replace_unlogged(txn, |kept| kept.union(&executed))
    }

    /// One row from now on, with what `change` makes of all that is kept. Sessions may have committed some of that
    /// which are not in memory yet.
    fn replace_unlogged(&self, txn: &mut Txn, change: impl FnOnce(&mut GtidSet)) -> SqlResult<()> {
        self.catalog.replace_unlogged(txn, |rows| {
            let mut kept = read_all(rows)?;
            change(&mut kept);
            Ok(Some(value(&kept)))
        })
    }

    /// Writes down one GTID in a transaction of its own: its record, which need not be durable yet. Where that fails (a
    /// full disk) memory alone has it.
    pub(crate) fn keep_unlogged_gtid(&self, gtid: &Gtid) -> Option<Seq> {
        let mut txn = self.catalog.row_transaction();
        let put = self.catalog.put_channel_row(&mut txn, &row(gtid));
        let commit = put.and_then(|()| txn.commit().map_err(|e| engine_error(&e)));
        match commit {
            Ok(commit) => commit.seq,
            Err(e) => {
                tracing::warn!("GTID {gtid}, executed without a binary log: {}", e.message);
                None
            }
        }
    }

    /// Writes it down in a transaction of its own.
    ///
    /// # Errors
    /// Damaged rows; of the engine.
    fn keep_unlogged(&self) -> SqlResult<()> {
        let _alone = self.lock_unlogged();
        let mut txn = self.catalog.row_transaction();
        self.write_unlogged(&mut txn)?;
        self.commit_unlogged(txn)?;
        self.binlog.owned.all_are_kept();
        Ok(())
    }

    /// SET GLOBAL gtid_purged without a binary log.
    ///
    /// # Errors
    /// Some of them are executed or taken; damaged rows; of the engine.
    pub(super) fn add_unlogged(&self, gtids: &GtidSet) -> Result<(), NotAdded> {
        let _alone = self.lock_unlogged();
        let owned = &self.binlog.owned;
        owned.add_unlogged(gtids, || {
            let executed = owned.unlogged();
            let mut txn = self.catalog.row_transaction();
            self.replace_unlogged(&mut txn, |kept| {
                kept.union(&executed);
                kept.union(gtids);
            })?;
            self.commit_unlogged(txn)
        })
    }

    /// RESET BINARY LOGS AND GTIDS without a binary log. What channels that run have applied stays executed.
    ///
    /// # Errors
    /// Damaged rows; of the engine.
    pub(super) fn forget_unlogged(&self) -> SqlResult<()> {
        self.binlog.owned.forget_unlogged(|forgotten| {
            let mut left = GtidSet::default();
            for channel in self.channels.all() {
                left.union(&channel.forget_gtids(self)?);
            }
            // What channels had is among the rows by now, so all of it goes at once.
            let _alone = self.lock_unlogged();
            let mut txn = self.catalog.row_transaction();
            self.replace_unlogged(&mut txn, |kept| kept.subtract(forgotten))?;
            self.commit_unlogged(txn)?;
            Ok(left)
        })
    }

    fn commit_unlogged(&self, mut txn: Txn) -> SqlResult<()> {
        let commit = txn.commit().map_err(|e| engine_error(&e))?;
        let durable = self.engine.wait_durable(commit.seq.unwrap_or(0));
        durable.block().map_err(|e| engine_error(&e))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_read_as_they_were_written() {
        let set: GtidSet = "11111111-1111-1111-1111-111111111111:1-5:9:tag:3"
            .parse()
            .expect("set");
        assert_eq!(read(&value(&set)).expect("row"), set);
        for bytes in [&[][..], &[2], &value(&set)[..20]] {
            assert!(read(bytes).is_err());
        }
    }
}
