//! XA transactions: the branch a session works in, and decisions about prepared ones.
//!
//! Neighbours: `xids` knows every identifier of the server and keeps what is prepared; `transaction` begins and ends
//! what a branch consists of; `run` asks here before a statement runs in a branch.
//!
//! ```text
//! XA START → Active → XA END → Idle → XA PREPARE → prepared, nobody's → XA COMMIT, XA ROLLBACK of any session
//!             ↑  XA START … RESUME │→ XA COMMIT … ONE PHASE
//!             └────────────────────┘→ XA ROLLBACK
//! ```
//! **Invariants**
//! - While a branch is open, nothing but XA statements ends the transaction.
//! - A branch that a deadlock has rolled back can only be ended; what is written in it until then is refused.
//! - The OK of XA PREPARE, XA COMMIT and XA ROLLBACK waits for the log (`docs/decisions/reader-rule.md`).

use std::cell::Cell;

use esker_engine::{Commit, Seq};
use esker_sql_catalog::exec_error::ExecError;
use esker_sql_catalog::result::{ColumnMeta, Mode, OkInfo};
use esker_sql_syntax::ast::{Begin, MaintainKind, ShowWhat, Statement, Xa, XaStart, Xid};
use esker_types::collation::Collation;
use esker_types::hex::upper_hex;
use esker_types::{SqlError, SqlResult, SqlType, Value};

use super::rows::RowSource;
use super::run::Done;
use super::utility::commits_implicitly;
use super::{Session, SessionContext};
use crate::ddl;
use crate::ddl::lock_tables::announce_commit;
use crate::xids::{self, Claim};

/// How far a branch has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Active,
    Idle,
    /// Prepared, and kept by the session (`xa_detach_on_prepare` = OFF).
    Prepared,
    RollbackOnly,
}

impl Phase {
    fn name(self) -> &'static str {
        match self {
            Self::Active => "ACTIVE",
            Self::Idle => "IDLE",
            Self::Prepared => "PREPARED",
            Self::RollbackOnly => "ROLLBACK ONLY",
        }
    }
}

/// The branch a session works in.
pub(crate) struct Branch {
    xid: Xid,
    /// A cell, because a refused statement ends a rolled-back branch, as in MySQL.
    phase: Cell<Phase>,
    /// A deadlock has rolled it back.
    rolled_back: bool,
}

impl Branch {
    /// Fails when the branch may not touch tables.
    ///
    /// # Errors
    /// 1399, 1614.
    pub(crate) fn admit_tables(&self) -> SqlResult<()> {
        if self.rolled_back {
            self.phase.set(Phase::RollbackOnly);
            return Err(rolled_back_by_deadlock());
        }
        match self.phase.get() {
            Phase::Active => Ok(()),
            phase => Err(wrong_state(phase.name())),
        }
    }

    /// 1399 with the branch's state.
    pub(super) fn refusal(&self) -> SqlError {
        wrong_state(self.phase.get().name())
    }

    /// Fails for statements that MySQL refuses in a branch in this state.
    fn admit(&self, statement: &Statement) -> SqlResult<()> {
        let active = self.phase.get() == Phase::Active;
        let admitted = match statement {
            Statement::Rollback(_) | Statement::Flush { .. } => false,
            // They find out by themselves.
            Statement::Set(_) | Statement::Xa(_) => true,
            Statement::Maintain(m) => active && m.kind == MaintainKind::Checksum,
            Statement::Savepoint(_) | Statement::RollbackTo(_) | Statement::ReleaseSavepoint(_) => {
                active
            }
            Statement::Show(show) => active || shows_no_table(&show.what),
            other => !ddl::is_ddl(other) && !commits_implicitly(other),
        };
        if admitted {
            Ok(())
        } else {
            Err(self.refusal())
        }
    }
}

/// SHOW statements that MySQL answers without opening a table or a view.
fn shows_no_table(what: &ShowWhat) -> bool {
    matches!(
        what,
        ShowWhat::Warnings { .. }
            | ShowWhat::Errors { .. }
            | ShowWhat::CountWarnings
            | ShowWhat::CountErrors
            | ShowWhat::Processlist { .. }
            | ShowWhat::Grants { .. }
            | ShowWhat::CreateDatabase { .. }
            | ShowWhat::Engine { .. }
            | ShowWhat::Privileges
            | ShowWhat::Profiles
            | ShowWhat::BinlogStatus
            | ShowWhat::BinaryLogs
            | ShowWhat::BinlogEvents { .. }
            | ShowWhat::ReplicaStatus { .. }
            | ShowWhat::Replicas { .. }
    )
}

/// 1399. The two spaces are MySQL's.
fn wrong_state(state: &str) -> SqlError {
    let text = format!(
        "XAER_RMFAIL: The command cannot be executed when global transaction is in the  {state} state"
    );
    SqlError::new(1399, "XAE07", text)
}

/// 1397.
fn unknown_xid() -> SqlError {
    SqlError::new(1397, "XAE04", "XAER_NOTA: Unknown XID")
}

/// 1398.
fn invalid() -> SqlError {
    let text = "XAER_INVAL: Invalid arguments (or unsupported command)";
    SqlError::new(1398, "XAE05", text)
}

/// 1400.
fn outside() -> SqlError {
    let text = "XAER_OUTSIDE: Some work is done outside global transaction";
    SqlError::new(1400, "XAE09", text)
}

/// 1401.
fn resource_manager() -> SqlError {
    let text = "XAER_RMERR: Fatal error occurred in the transaction branch - check your data for consistency";
    SqlError::new(1401, "XAE03", text)
}

/// 1402.
fn rolled_back() -> SqlError {
    let text = "XA_RBROLLBACK: Transaction branch was rolled back";
    SqlError::new(1402, "XA100", text)
}

/// 1440.
fn duplicate() -> SqlError {
    SqlError::new(1440, "XAE08", "XAER_DUPID: The XID already exists")
}

/// 1614.
fn rolled_back_by_deadlock() -> SqlError {
    let text = "XA_RBDEADLOCK: Transaction branch was rolled back: deadlock was detected";
    SqlError::new(1614, "XA102", text)
}

/// What is done to a prepared transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Decision {
    Commit,
    Rollback,
}

impl Decision {
    /// The statement that makes it.
    fn verb(self) -> &'static str {
        match self {
            Self::Commit => "XA COMMIT",
            Self::Rollback => "XA ROLLBACK",
        }
    }
}

fn ok(seq: Seq) -> Done {
    Done::Ok(OkInfo::default(), seq)
}

impl Session {
    /// Runs an XA statement.
    pub(super) fn run_xa(&mut self, xa: &Xa, mode: Mode) -> Result<Done, ExecError> {
        // The first one after a start may wait until the prepared transactions are known.
        if mode == Mode::Inline && !self.context.instance.knows_xids() {
            return Ok(Done::NeedThread);
        }
        let result = match xa {
            Xa::Start { xid, how } => self.xa_start(xid, *how),
            Xa::End { xid, suspend } => self.context.xa_end(xid, *suspend),
            Xa::Prepare(xid) => self.xa_prepare(xid),
            Xa::Commit { xid, one_phase } => self.xa_commit(xid, *one_phase, mode),
            Xa::Rollback(xid) => self.xa_rollback(xid, mode),
            Xa::Recover { convert } => self.context.xa_recover(*convert),
        };
        if matches!(result, Ok(Done::Rows(_)) | Err(ExecError::Sql(_))) {
            // "Unknown XID" tells that somebody has decided, a list what somebody has prepared.
            let told = self.context.instance.xids().last_change();
            self.owed = self.owed.max(told);
        }
        result
    }

    fn xa_start(&mut self, xid: &Xid, how: XaStart) -> Result<Done, ExecError> {
        if let (Some(branch), XaStart::Resume) = (&self.context.xa, how)
            && branch.phase.get() == Phase::Idle
        {
            if branch.xid != *xid {
                return Err(unknown_xid().into());
            }
            branch.phase.set(Phase::Active);
            return Ok(ok(0));
        }
        if how != XaStart::New {
            return Err(invalid().into());
        }
        if let Some(branch) = &self.context.xa {
            return Err(branch.refusal().into());
        }
        self.forget_unbegun();
        if self.in_transaction() || self.locks.has_explicit() {
            return Err(outside().into());
        }
        if !self.context.instance.xids().open(xid, self.connection_id()) {
            return Err(duplicate().into());
        }
        let begun = self.begin(&Begin::default());
        // What is prepared is in one record of the log.
        self.txn.set_may_spill(false);
        self.context.xa = Some(Box::new(Branch {
            xid: xid.clone(),
            phase: Cell::new(Phase::Active),
            rolled_back: false,
        }));
        match begun {
            Ok(seq) => Ok(ok(seq)),
            Err(e) => {
                self.rollback_transaction();
                Err(e.into())
            }
        }
    }

    fn xa_prepare(&mut self, xid: &Xid) -> Result<Done, ExecError> {
        let Some(branch) = &self.context.xa else {
            return Err(self.context.wrong_branch_state().into());
        };
        if branch.phase.get() != Phase::Idle {
            return Err(branch.refusal().into());
        }
        if branch.xid != *xid {
            return Err(unknown_xid().into());
        }
        let is_logged = self.seal_prepared(xid)?;
        let seq = match self.txn.prepare(&xids::encode(xid)) {
            Ok(seq) => seq,
            Err(e) => {
                tracing::warn!("XA PREPARE of {}: {e}", xids::literal(xid));
                self.rollback_transaction();
                return Err(rolled_back().into());
            }
        };
        let last = self.keep_gtid_apart(is_logged).unwrap_or(seq);
        let detaches = self.values.named("xa_detach_on_prepare").is_on();
        let keeper = (!detaches).then(|| self.connection_id());
        let locks = self.locks.detach();
        let by = (
            self.context.user.clone(),
            self.context.instance.now_micros(),
        );
        let instance = self.context.instance.clone();
        instance
            .xids()
            .prepared(xid, (seq, is_logged), locks, by, keeper);
        if detaches {
            self.end_transaction();
        } else if let Some(branch) = &self.context.xa {
            branch.phase.set(Phase::Prepared);
        }
        Ok(ok(last))
    }

    fn xa_commit(&mut self, xid: &Xid, one_phase: bool, mode: Mode) -> Result<Done, ExecError> {
        let Some(branch) = self.context.own_branch(xid) else {
            return self.decide_detached(xid, Decision::Commit, mode);
        };
        if branch.rolled_back {
            self.rollback_transaction();
            return Err(rolled_back_by_deadlock().into());
        }
        match (branch.phase.get(), one_phase) {
            (Phase::Idle, true) => {
                self.check_commit()?;
                let committed = self.seal().map(|()| self.txn.commit());
                if !matches!(committed, Ok(Ok(_))) {
                    self.capture.forget_transaction();
                }
                self.end_transaction();
                let committed = committed?;
                let commit = committed.map_err(|e| {
                    tracing::warn!("XA COMMIT of {}: {e}", xids::literal(xid));
                    rolled_back()
                })?;
                Ok(ok(commit.seq.unwrap_or(0)))
            }
            (Phase::Prepared, false) => self.decide(xid, Decision::Commit, mode),
            _ => Err(branch.refusal().into()),
        }
    }

    fn xa_rollback(&mut self, xid: &Xid, mode: Mode) -> Result<Done, ExecError> {
        let Some(branch) = self.context.own_branch(xid) else {
            return self.decide_detached(xid, Decision::Rollback, mode);
        };
        match branch.phase.get() {
            Phase::Active => Err(branch.refusal().into()),
            Phase::Prepared => self.decide(xid, Decision::Rollback, mode),
            Phase::Idle | Phase::RollbackOnly => {
                self.rollback_transaction();
                Ok(ok(0))
            }
        }
    }

    /// Decides about a prepared transaction that is not this session's.
    fn decide_detached(
        &mut self,
        xid: &Xid,
        decision: Decision,
        mode: Mode,
    ) -> Result<Done, ExecError> {
        if self.in_transaction() {
            return Err(self.context.wrong_branch_state().into());
        }
        self.decide(xid, decision, mode)
    }

    fn decide(&mut self, xid: &Xid, decision: Decision, mode: Mode) -> Result<Done, ExecError> {
        // FLUSH TABLES WITH READ LOCK excludes it as any commit. It must not wait for who only stops writers: those may
        // wait for the prepared transaction, which nobody knows to wait for this session.
        let instance = self.context.instance.clone();
        announce_commit(&instance.catalog, &mut self.locks)?;
        let xids = instance.xids();
        let is_logged = loop {
            match (xids.claim(xid, self.connection_id()), mode) {
                (Claim::Yes { is_logged }, _) => break is_logged,
                (Claim::Busy, Mode::Inline) => return Ok(Done::NeedThread),
                (Claim::Busy, Mode::Thread) => xids.await_decision(xid),
                (Claim::Unknown, _) => return Err(unknown_xid().into()),
            }
        };
        let name = xids::encode(xid);
        let logged = match is_logged {
            true => self.logged_decision(decision.verb(), xid).into_bytes(),
            false => Vec::new(),
        };
        let is_logged = !logged.is_empty();
        let decided = match decision {
            Decision::Commit => instance.engine.commit_prepared(&name, &logged),
            Decision::Rollback => instance.engine.rollback_prepared(&name, &logged),
        };
        self.locks.release_statement();
        match decided {
            Ok(Commit { seq }) => {
                let seq = seq.unwrap_or(0);
                let last = self.keep_gtid_apart(is_logged).unwrap_or(seq);
                // Before the identifier is free for others.
                self.context.xa = None;
                xids.decided(xid, seq);
                self.end_transaction();
                Ok(ok(last))
            }
            Err(e) => {
                tracing::warn!("{decision:?} of {}: {e}", xids::literal(xid));
                xids.undecided(xid);
                Err(resource_manager().into())
            }
        }
    }

    /// The end of the transaction is the end of the branch; a prepared one is anybody's then.
    pub(super) fn end_branch(&mut self) {
        if let Some(branch) = self.context.xa.take() {
            self.context.instance.xids().close(&branch.xid);
            self.txn.set_may_spill(true);
        }
    }

    /// A deadlock inside the branch: its work is undone, the branch waits for its XA END and XA ROLLBACK.
    pub(super) fn doom_branch(&mut self) {
        self.undo_work();
        if let Some(branch) = &mut self.context.xa {
            branch.rolled_back = true;
        }
    }
}

impl SessionContext {
    /// Fails when the open branch, if there is one, does not admit the statement.
    pub(super) fn admit_in_branch(&self, statement: &Statement) -> SqlResult<()> {
        match &self.xa {
            Some(branch) => branch.admit(statement),
            None => Ok(()),
        }
    }

    /// The session's branch and its state if it is this one.
    fn own_branch(&self, xid: &Xid) -> Option<&Branch> {
        self.xa.as_deref().filter(|branch| branch.xid == *xid)
    }

    /// 1399 with the state of the session's branch, or that there is none.
    fn wrong_branch_state(&self) -> SqlError {
        let none = || wrong_state("NON-EXISTING");
        self.xa.as_deref().map_or_else(none, Branch::refusal)
    }

    fn xa_end(&mut self, xid: &Xid, suspend: bool) -> Result<Done, ExecError> {
        if suspend {
            return Err(invalid().into());
        }
        let Some(branch) = &self.xa else {
            return Err(self.wrong_branch_state().into());
        };
        if branch.phase.get() != Phase::Active {
            return Err(branch.refusal().into());
        }
        if branch.xid != *xid {
            return Err(unknown_xid().into());
        }
        if branch.rolled_back {
            branch.phase.set(Phase::RollbackOnly);
            return Err(rolled_back_by_deadlock().into());
        }
        branch.phase.set(Phase::Idle);
        Ok(ok(0))
    }

    fn xa_recover(&self, convert: bool) -> Result<Done, ExecError> {
        /// MySQL's length of `data`: two hexadecimal digits a byte, and `0x`.
        const DATA_CHARS: u32 = 2 * 2 * Xid::MAX_PART as u32 + 2;
        if self.require("XA_RECOVER_ADMIN").is_err() {
            return Err(resource_manager().into());
        }
        let number = SqlType::bigint(false).with_nullable(false);
        let data = SqlType::varchar(DATA_CHARS, Collation::UTF8MB4_0900_AI_CI);
        let columns = [
            ColumnMeta::computed("formatID", number.clone()),
            ColumnMeta::computed("gtrid_length", number.clone()),
            ColumnMeta::computed("bqual_length", number),
            ColumnMeta::computed("data", data.with_nullable(false)),
        ];
        let row = |xid: Xid| {
            let (gtrid, bqual) = (xid.gtrid.len() as i64, xid.bqual.len() as i64);
            let mut data = xid.gtrid;
            data.extend_from_slice(&xid.bqual);
            if convert {
                data = format!("0x{}", upper_hex(&data)).into_bytes();
            }
            vec![
                Value::Int(xid.format as i64),
                Value::Int(gtrid),
                Value::Int(bqual),
                Value::Str(data),
            ]
        };
        let list = self.instance.xids().list();
        let rows: Vec<_> = list.into_iter().map(|p| row(p.xid)).collect();
        let source = RowSource::Table(columns.into(), rows.into_iter());
        Ok(Done::Rows(Box::new(source)))
    }
}
