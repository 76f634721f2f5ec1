//! Beginning and ending transactions.
//!
//! Neighbours: `run` calls these for BEGIN, COMMIT, ROLLBACK, SAVEPOINT and around every statement;
//! the engine's `Txn` holds writes, locks and the snapshot.
//! **Invariants**
//! - `explicit` is set from BEGIN to COMMIT or ROLLBACK; with autocommit off, a transaction is open from
//!   its first statement on.
//! - Metadata locks of a transaction go when it ends, after its row locks.
//! - Savepoint names differ in neither case nor accents alone, as in MySQL; setting one again moves it to the end.

use esker_engine::{SavepointId, Seq};
use esker_sql_catalog::exec_error::ExecError;
use esker_sql_catalog::mdl::{MdlDuration, MdlMode};
use esker_sql_catalog::variables::{Level, VarId, VarValue};
use esker_sql_syntax::ast::{Begin, Completion, Isolation, SetTransaction, VarScope};
use esker_types::collation::Collation;
use esker_types::{SqlError, SqlResult, errors};

use super::Session;
use super::terms::Terms;
use crate::counts::Counter;

/// Savepoints of a transaction: names are bounded, so this bounds their memory.
const MAX_SAVEPOINTS: usize = 1 << 14;

/// Do two names mean the same savepoint?
fn is_same(a: &str, b: &str) -> bool {
    Collation::UTF8MB3_GENERAL_CI.eq(a.as_bytes(), b.as_bytes())
}

/// Transaction state beside the engine's.
#[derive(Default)]
pub(crate) struct TransactionState {
    /// BEGIN was said.
    pub(crate) explicit: bool,
    /// A statement has used the transaction (matters with autocommit off).
    pub(crate) active: bool,
    /// START TRANSACTION READ ONLY, or the session's default at its beginning.
    pub(crate) read_only: bool,
    /// SET TRANSACTION without scope: for the next transaction only.
    pub(crate) next_isolation: Option<Level>,
    pub(crate) next_read_only: Option<bool>,
    /// A temporary table was made, or dropped, which a rollback does not undo.
    pub(super) made_temporary: bool,
    pub(super) dropped_temporary: bool,
    savepoints: Savepoints,
    /// The process shows the position of its snapshot.
    pub(super) has_position: bool,
}

/// Savepoints by name, the oldest first.
pub(super) type Savepoints = Vec<(String, SavepointId)>;

/// What SET TRANSACTION says of the next transaction: the isolation level, READ ONLY.
pub(super) type NextCharacteristics = (Option<Level>, Option<bool>);

impl Session {
    /// Is a transaction open?
    pub(crate) fn in_transaction(&self) -> bool {
        self.state.explicit || (!self.vars.autocommit && self.state.active)
    }

    /// Does its end take no time: are there no rows to take back and no statement to give up?
    pub fn ends_at_once(&self) -> bool {
        !self.state.active && self.running.is_none()
    }

    /// Is a transaction open, as the client's status bits show it? With autocommit off it begins with the first table
    /// that is used: `SELECT 1` does not open one, nor does CALL of a procedure that uses none.
    pub(super) fn shows_transaction(&self) -> bool {
        self.state.explicit
            || (self.in_transaction() && (self.locks.has_tables() || self.txn.has_writes()))
    }

    /// With autocommit off, a transaction that has used no table has not begun: what `SELECT 1` or SAVEPOINT has opened
    /// is no transaction to statements that want none to be open. Savepoints stay.
    pub(super) fn forget_unbegun(&mut self) {
        let is_bound = self.context.gtid_next.owned().is_some();
        if self.in_transaction() && !self.shows_transaction() && !is_bound {
            self.state.active = false;
        }
    }

    /// Is the transaction, or the next one, SERIALIZABLE?
    pub(crate) fn is_serializable(&self) -> bool {
        match self.state.active {
            true => self.txn.isolation() == esker_engine::Isolation::Serializable,
            false => self.isolation() == Level::Serializable,
        }
    }

    /// The isolation level of the transaction, or of the next one.
    fn isolation(&self) -> Level {
        match self.state.active {
            true => self.context.process.terms().isolation,
            false => self.state.next_isolation.unwrap_or(self.vars.isolation),
        }
    }

    /// Does the current statement's end commit?
    pub(crate) fn commits_at_end(&self) -> bool {
        self.vars.autocommit && !self.state.explicit && !self.program.is_nested()
    }

    /// Prepares the engine's transaction for a statement that reads or writes.
    pub(crate) fn use_transaction(&mut self) {
        if !self.state.active {
            self.state.active = true;
            let isolation = self.state.next_isolation.unwrap_or(self.vars.isolation);
            self.txn.set_isolation(isolation.served());
            if !self.state.explicit {
                self.state.read_only = self.state.next_read_only.unwrap_or(self.vars.read_only);
            }
            self.context.process.note_terms(Terms {
                isolation,
                read_only: self.state.read_only,
                unique_checks: !self.vars.log.flags.relaxed_unique_checks,
                foreign_key_checks: self.vars.foreign_key_checks,
            });
        }
        if !self.program.is_nested() {
            // What is inside of a statement sees what this sees.
            self.txn.new_statement();
        }
    }

    /// START TRANSACTION. Commits what is open.
    pub(crate) fn begin(&mut self, begin: &Begin) -> SqlResult<Seq> {
        let unused = self.unused_characteristics();
        let seq = self.commit_transaction()?;
        self.keep_unused(unused);
        // The end of LOCK TABLES, but not of FLUSH TABLES WITH READ LOCK.
        self.locks.release_explicit();
        self.state.explicit = true;
        // Decided now: SET SESSION TRANSACTION after it is for later ones.
        self.state.next_isolation.get_or_insert(self.vars.isolation);
        self.state.read_only = begin
            .read_only
            .or(self.state.next_read_only.take())
            .unwrap_or(self.vars.read_only);
        if begin.snapshot
            && let Err(e) = self.take_positioned_snapshot()
        {
            self.rollback_transaction();
            return Err(e);
        }
        Ok(seq)
    }

    /// Before a statement that commits what is open: waits while another session holds FLUSH TABLES WITH READ LOCK.
    /// Held until the statement or the transaction ends.
    pub(super) fn admit_commit(&mut self) -> Result<(), ExecError> {
        if !self.has_changed_tables() && self.filling.is_none() {
            return Ok(());
        }
        let commit = self.context.instance.catalog.locks().commit().clone();
        let mode = MdlMode::IntentionExclusive;
        self.locks.acquire(&commit, mode, MdlDuration::Statement)
    }

    /// Commits whatever is open; 0 when nothing was written.
    ///
    /// # Errors
    /// 1399 in an XA transaction, which only XA statements end; 1290, and it is rolled back; those of the engine.
    pub(crate) fn commit_transaction(&mut self) -> SqlResult<Seq> {
        if let Some(branch) = &self.context.xa {
            return Err(branch.refusal());
        }
        if let Some(table) = self.filling.take() {
            return self.commit_filled(table);
        }
        if self.txn.attachment_bytes() > 0 && self.context.instance.engine.is_decided_elsewhere() {
            // An implicit commit blocks, too.
            self.context.pace.leave();
        }
        self.check_commit()?;
        self.count_if_used(Counter::HandlerCommit);
        let result = match self.seal() {
            Ok(()) => self.txn.commit(),
            Err(e) => {
                self.rollback_transaction();
                return Err(e);
            }
        };
        if result.is_err() {
            self.capture.forget_transaction();
        }
        if self.state.explicit {
            self.tracker.mark_end(&self.vars);
        }
        self.end_transaction();
        match result {
            Ok(commit) => {
                let seq = commit.seq.unwrap_or(0);
                // Whatever the statement answers after that: the next reply waits for it.
                self.unanswered = self.unanswered.max(seq);
                self.tracker
                    .mark_logged(self.context.gtid_next.take_numbered(), seq);
                Ok(seq)
            }
            Err(e) => Err(esker_sql_catalog::exec_error::engine_error(&e)),
        }
    }

    /// Counts the end of a transaction that has used tables, as MySQL does.
    fn count_if_used(&self, counter: Counter) {
        if !self.locks.is_empty() {
            self.count(counter, 1);
        }
    }

    /// Rolls back whatever is open, an XA transaction that is not prepared included.
    pub(crate) fn rollback_transaction(&mut self) {
        self.count_if_used(Counter::HandlerRollback);
        self.txn.rollback();
        self.filling = None;
        self.capture.forget_transaction();
        self.end_gtid(false);
        self.end_transaction();
    }

    /// What is left to do when the engine's transaction has ended.
    pub(super) fn end_transaction(&mut self) {
        self.capture.end_transaction();
        self.forget_position();
        self.end_branch();
        self.state.explicit = false;
        self.state.active = false;
        (self.state.next_isolation, self.state.next_read_only) = (None, None);
        (self.state.made_temporary, self.state.dropped_temporary) = (false, false);
        self.state.savepoints.clear();
        self.locks.release_transaction();
    }

    /// Takes back the rows of a table that is made; its statement waits, and begins anew then.
    pub(super) fn undo_filling(&mut self) {
        self.txn.rollback();
        self.filling = None;
        self.capture.forget_transaction();
    }

    /// Rolls back what was done; the transaction stays open.
    pub(super) fn undo_work(&mut self) {
        self.txn.rollback();
        self.filling = None;
        self.capture.end_transaction();
        self.state.savepoints.clear();
        self.locks.release_transaction();
    }

    /// COMMIT [AND CHAIN] [RELEASE]: the sequence number that its reply waits for.
    pub(crate) fn commit(&mut self, completion: Completion) -> SqlResult<Seq> {
        let next = self.characteristics();
        // A COMMIT alone is an empty transaction for a GTID that waits for one.
        self.state.explicit |= self.context.gtid_next.owned().is_some();
        let seq = self.commit_transaction()?;
        self.follow_up(completion, next)?;
        Ok(seq)
    }

    /// ROLLBACK [AND CHAIN] [RELEASE].
    pub(crate) fn roll_back(&mut self, completion: Completion) -> SqlResult<()> {
        let next = self.characteristics();
        self.warn_of_temporary();
        self.rollback_transaction();
        self.follow_up(completion, next)
    }

    /// What a chained transaction takes over from the one before.
    fn characteristics(&self) -> (Level, bool) {
        (self.isolation(), self.state.read_only)
    }

    /// What SET TRANSACTION has said of the next transaction, while none has begun: a statement that uses no table,
    /// such as `SELECT 1`, leaves it for the next.
    pub(super) fn unused_characteristics(&self) -> Option<NextCharacteristics> {
        let next = (self.state.next_isolation, self.state.next_read_only);
        let is_used = self.state.active && (self.locks.has_tables() || self.txn.has_writes());
        (!self.state.explicit && !is_used).then_some(next)
    }

    /// After what ends a transaction: [`Self::unused_characteristics`] from before.
    pub(super) fn keep_unused(&mut self, unused: Option<NextCharacteristics>) {
        if let Some((isolation, read_only)) = unused {
            self.state.next_isolation = isolation;
            self.state.next_read_only = read_only;
        }
    }

    /// The end of a failed statement that is a transaction of its own.
    pub(super) fn roll_back_statement(&mut self, unused: Option<NextCharacteristics>) {
        self.rollback_transaction();
        self.keep_unused(unused);
    }

    /// What COMMIT and ROLLBACK do once the transaction is over.
    fn follow_up(
        &mut self,
        completion: Completion,
        (isolation, read_only): (Level, bool),
    ) -> SqlResult<()> {
        if completion.chain.unwrap_or(self.vars.chain) {
            self.state.next_isolation = Some(isolation);
            self.begin(&Begin {
                snapshot: false,
                read_only: Some(read_only),
            })?;
        }
        if completion.release.unwrap_or(self.vars.release) {
            self.client.is_released = true;
        }
        Ok(())
    }

    /// Puts other savepoints in place of those there are.
    pub(super) fn swap_savepoints(&mut self, savepoints: Savepoints) -> Savepoints {
        std::mem::replace(&mut self.state.savepoints, savepoints)
    }

    /// SAVEPOINT.
    ///
    /// # Errors
    /// 1041 for one more than [`MAX_SAVEPOINTS`]; the transaction is too large.
    pub(crate) fn savepoint(&mut self, name: &str) -> SqlResult<()> {
        if self.commits_at_end() {
            // Its transaction would be over at once; MySQL accepts and forgets it.
            return Ok(());
        }
        self.use_transaction();
        self.state.savepoints.retain(|(n, _)| !is_same(n, name));
        if self.state.savepoints.len() >= MAX_SAVEPOINTS {
            return Err(errors::out_of_memory("too many savepoints"));
        }
        // Inside of a statement: its rows so far stay in the binary log, whatever is undone behind them.
        let handed_over = self.capture.begin_savepoint(&mut self.txn);
        handed_over.map_err(ExecError::without_wait)?;
        let id = self.txn.savepoint();
        self.count(Counter::HandlerSavepoint, 1);
        self.state.savepoints.push((name.to_owned(), id));
        Ok(())
    }

    fn find_savepoint(&self, name: &str) -> SqlResult<usize> {
        self.state
            .savepoints
            .iter()
            .position(|(n, _)| is_same(n, name))
            .ok_or_else(|| errors::does_not_exist("SAVEPOINT", name))
    }

    /// ROLLBACK TO SAVEPOINT.
    pub(crate) fn rollback_to(&mut self, name: &str) -> SqlResult<()> {
        let at = self.find_savepoint(name)?;
        self.warn_of_temporary();
        self.count(Counter::HandlerSavepointRollback, 1);
        self.capture.undo_to_savepoint();
        self.txn.rollback_to(self.state.savepoints[at].1);
        self.state.savepoints.truncate(at + 1);
        Ok(())
    }

    /// RELEASE SAVEPOINT.
    pub(crate) fn release_savepoint(&mut self, name: &str) -> SqlResult<()> {
        let at = self.find_savepoint(name)?;
        self.state.savepoints.truncate(at);
        Ok(())
    }

    /// SET TRANSACTION without a scope: for the next transaction.
    fn set_next(&mut self, set: &SetTransaction) -> SqlResult<()> {
        self.forget_unbegun();
        // A function or trigger is a part of a statement, and that is of a transaction.
        if self.in_transaction() || self.is_firing() {
            return Err(SqlError::new(
                1568,
                "25001",
                "Transaction characteristics can't be changed while a transaction is in progress",
            ));
        }
        if let Some(level) = set.isolation {
            self.state.next_isolation = Some(match level {
                Isolation::ReadUncommitted => Level::ReadUncommitted,
                Isolation::ReadCommitted => Level::ReadCommitted,
                Isolation::RepeatableRead => Level::RepeatableRead,
                Isolation::Serializable => Level::Serializable,
            });
        }
        if set.read_only.is_some() {
            self.state.next_read_only = set.read_only;
        }
        Ok(())
    }

    /// A characteristic of the session that is set takes the place of the one for the next transaction.
    pub(super) fn forget_next(&mut self, id: VarId) {
        let name = id.def().name;
        if !matches!(name, "transaction_isolation" | "transaction_read_only") {
            return;
        }
        self.forget_unbegun();
        match name {
            _ if self.in_transaction() => {}
            "transaction_isolation" => self.state.next_isolation = None,
            _ => self.state.next_read_only = None,
        }
    }

    /// SET [GLOBAL | SESSION] TRANSACTION.
    pub(crate) fn set_transaction(&mut self, set: &SetTransaction) -> SqlResult<()> {
        let Some(scope) = set.scope else {
            return self.set_next(set);
        };
        let mut wanted = Vec::new();
        if let Some(level) = set.isolation {
            wanted.push((
                VarId::find("transaction_isolation")?,
                VarValue::Text(level.name().into()),
            ));
        }
        if let Some(read_only) = set.read_only {
            wanted.push((
                VarId::find("transaction_read_only")?,
                VarValue::Bool(read_only),
            ));
        }
        for (id, value) in wanted {
            if scope == VarScope::Session {
                self.values.put(id, value);
                self.forget_next(id);
            } else {
                self.context
                    .require_any(&["SUPER", "SYSTEM_VARIABLES_ADMIN"])?;
                self.context
                    .instance
                    .globals
                    .set(id, Some(&value.to_value()))?;
            }
        }
        self.refresh_vars()
    }
}
