//! gtid_next: the GTID that a session's next transaction is to have.
//!
//! Neighbours: SET comes here; `binlog::owned` knows which GTIDs are taken; heads of attachments
//! ([`Session::number_transaction`]) say what was chosen; `run` asks before each statement.
//!
//! ```text
//! AUTOMATIC, ANONYMOUS  ⇄  Given: owned → a commit or rollback → Used → SET gtid_next
//!                          Given: not owned, for it is executed: statements are skipped
//! ```
//! **Invariants**
//! - A transaction takes the GTID with its commit, also one that changed nothing; an error or a rollback gives it back.
//!   A statement that commits what is open and is not logged itself is such a transaction.
//! - Between its end and the next SET, statements that would begin a transaction are refused (1837).

use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::time::Duration;

use esker_binlog::attachment::Numbering;
use esker_binlog::gtid::{Gtid, Source, Tag};
use esker_engine::Seq;
use esker_sql_catalog::exec_error::ExecError;
use esker_sql_catalog::result::OkInfo;
use esker_sql_syntax::ast::{Expr, FlushWhat, Literal, MaintainKind, SetItem, Statement};
use esker_types::{SqlError, SqlResult, Value, errors};

use super::run::Done;
use super::utility::commits_implicitly;
use super::{Session, SessionContext};
use crate::binlog::{Counted, Taken, unlogged_row};
use crate::capture::AppliedMark;
use crate::ddl;

/// A session that waits for a GTID looks this often whether it may go on.
const WAIT_STEP: Duration = Duration::from_millis(50);

/// Variables that a session does not set while it owns a GTID.
const NOT_WITH_GTID: [&str; 4] = [
    "enforce_gtid_consistency",
    "gtid_mode",
    "gtid_purged",
    "session_track_gtids",
];

/// What the next transaction gets.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Next {
    Automatic(Tag),
    /// Of another source, for what an applier names.
    Of(Source),
    Anonymous,
    Given {
        gtid: Gtid,
        is_owned: bool,
    },
    Used(Gtid),
}

impl Default for Next {
    fn default() -> Self {
        Self::Automatic(Tag::default())
    }
}

/// gtid_next of a session.
pub(crate) struct GtidNext {
    next: Next,
    /// A transaction goes on that is to have no GTID, or one is about to begin.
    anonymous: Option<Counted>,
    /// The session asks for tagged GTIDs of this server.
    tagged: Option<Counted>,
    /// The record of the statement that runs has the GTID.
    is_logged: Cell<bool>,
    /// What the last record was to get, for clients that are told.
    numbered: RefCell<Option<Numbering>>,
}

impl Default for GtidNext {
    fn default() -> Self {
        Self {
            next: Next::default(),
            anonymous: None,
            tagged: None,
            is_logged: Cell::new(false),
            numbered: RefCell::default(),
        }
    }
}

impl GtidNext {
    /// Has the session said nothing special?
    pub(super) fn is_plain(&self) -> bool {
        matches!(self.next, Next::Automatic(_) | Next::Of(_))
    }

    /// What the last record was to get, once.
    pub(super) fn take_numbered(&self) -> Option<Numbering> {
        self.numbered.take()
    }

    /// The GTID that the session owns.
    pub(crate) fn owned(&self) -> Option<&Gtid> {
        match &self.next {
            Next::Given {
                gtid,
                is_owned: true,
            } => Some(gtid),
            _ => None,
        }
    }
}

impl SessionContext {
    /// May the session set this variable, for what it has itself of GTIDs?
    ///
    /// # Errors
    /// 3138: it owns one.
    pub(super) fn admit_setting_with_gtid(&self, name: &str) -> SqlResult<()> {
        let Some(owned) = self
            .gtid_next
            .owned()
            .filter(|_| NOT_WITH_GTID.contains(&name))
        else {
            return Ok(());
        };
        let text = format!(
            "Variable {name} cannot be changed by a client that owns a GTID. The client owns {owned}. Ownership is \
             released on COMMIT or ROLLBACK."
        );
        Err(SqlError::new(3138, "HY000", text))
    }

    /// May the session say which GTID comes next?
    ///
    /// # Errors
    /// 1227; 6038: one with a tag is asked for.
    pub(super) fn admit_gtid_next(&self, given: Option<&Value>) -> SqlResult<()> {
        let admitted = self.require_applier();
        let Some(Value::Str(text)) = given else {
            return admitted;
        };
        let next = self.parse_next(&String::from_utf8_lossy(text));
        let tag = match &next {
            Ok(Next::Automatic(tag)) => tag,
            Ok(Next::Given { gtid, .. }) => &gtid.source.tag,
            _ => return admitted,
        };
        if tag.is_empty() || admitted.is_ok() && self.require("TRANSACTION_GTID_TAG").is_ok() {
            return admitted;
        }
        let text = "Access denied; you need the TRANSACTION_GTID_TAG and at least one of the: SYSTEM_VARIABLES_ADMIN, \
                    SESSION_VARIABLES_ADMIN or REPLICATION_APPLIER privilege(s) for this operation";
        Err(SqlError::new(6038, "HY000", text))
    }

    fn parse_next(&self, text: &str) -> SqlResult<Next> {
        let mode = self.instance.globals.named("gtid_mode");
        let mode = mode.as_text();
        let malformed = || {
            let text = format!("Malformed GTID specification '{text}'.");
            SqlError::new(1774, "HY000", text)
        };
        let word = text.to_ascii_uppercase();
        if word == "ANONYMOUS" {
            return admit_next(Next::Anonymous, mode);
        }
        // Spaces may be around a tag, and around the parts of a GTID.
        if let Some(rest) = word.strip_prefix("AUTOMATIC") {
            let tag = match rest.strip_prefix(':') {
                Some(tag) => Tag::new(tag.trim()).filter(|tag| !tag.is_empty()),
                None => Some(Tag::default()).filter(|_| rest.is_empty()),
            };
            return admit_next(tag.map(Next::Automatic).ok_or_else(malformed)?, mode);
        }
        let gtid: Gtid = text.parse().map_err(|_| malformed())?;
        let is_owned = false;
        admit_next(Next::Given { gtid, is_owned }, mode)
    }
}

/// What is wanted, if `gtid_mode` lets it be.
///
/// # Errors
/// 1781, 1782, 6039, 6040.
fn admit_next(next: Next, gtid_mode: &str) -> SqlResult<Next> {
    let refused = |code, text| Err(SqlError::new(code, "HY000", text));
    match (&next, gtid_mode) {
        (Next::Anonymous, "ON") => refused(
            1782,
            "@@SESSION.GTID_NEXT cannot be set to ANONYMOUS when @@GLOBAL.GTID_MODE = ON.",
        ),
        (Next::Automatic(tag), "OFF" | "OFF_PERMISSIVE") if !tag.is_empty() => refused(
            6039,
            "@@SESSION.GTID_NEXT cannot be set to AUTOMATIC:<TAG> when @@GLOBAL.GTID_MODE = OFF or OFF_PERMISSIVE",
        ),
        (Next::Given { gtid, .. }, "OFF") if !gtid.source.tag.is_empty() => refused(
            6040,
            "@@SESSION.GTID_NEXT cannot be set to UUID:TAG:NUMBER when @@GLOBAL.GTID_MODE = OFF.",
        ),
        (Next::Given { .. }, "OFF") => refused(
            1781,
            "@@SESSION.GTID_NEXT cannot be set to UUID:NUMBER when @@GLOBAL.GTID_MODE = OFF.",
        ),
        _ => Ok(next),
    }
}

/// The statement may run whatever gtid_next is: it begins no transaction, or only reads.
fn is_exempt(statement: &Statement) -> bool {
    match statement {
        Statement::Begin(_)
        | Statement::Commit(_)
        | Statement::Rollback(_)
        | Statement::Savepoint(_)
        | Statement::RollbackTo(_)
        | Statement::ReleaseSavepoint(_)
        | Statement::Set(_)
        | Statement::SetTransaction(_)
        | Statement::Query(_)
        | Statement::Explain(_)
        | Statement::Show(_)
        | Statement::Use(_)
        | Statement::Do(_)
        | Statement::Empty
        | Statement::Prepare { .. }
        | Statement::Deallocate(_)
        | Statement::Kill(_) => true,
        // The statement that is executed is looked at.
        Statement::Execute { .. } => true,
        Statement::Flush { what, .. } => what.iter().all(|w| matches!(w, FlushWhat::Status)),
        _ => false,
    }
}

/// Does the statement end what is open before and behind it, so that a GTID is used up by it even if it is not logged?
fn is_transaction_of_its_own(statement: &Statement) -> bool {
    match statement {
        Statement::Maintain(maintain) => maintain.kind != MaintainKind::Checksum,
        // They begin something, or see to their GTID themselves.
        Statement::Set(_)
        | Statement::Begin(_)
        | Statement::Commit(_)
        | Statement::Xa(_)
        | Statement::LockTables { .. } => false,
        other => ddl::is_ddl(other) || commits_implicitly(other),
    }
}

impl Session {
    /// SET gtid_next. Waits where another session has the GTID.
    pub(super) fn set_gtid_next(&mut self, given: Option<&Value>) -> SqlResult<String> {
        let text = match given {
            None => "AUTOMATIC".to_owned(),
            Some(Value::Str(text)) => String::from_utf8_lossy(text).into_owned(),
            Some(Value::Null) => return Err(errors::wrong_value("gtid_next", "NULL")),
            Some(_) => return Err(errors::wrong_type("gtid_next")),
        };
        let next = self.context.parse_next(&text)?;
        if let Some(owned) = self.context.gtid_next.owned() {
            let text = format!(
                "@@SESSION.GTID_NEXT cannot be changed by a client that owns a GTID. The client owns {owned}. \
                 Ownership is released on COMMIT or ROLLBACK."
            );
            // As with every statement that fails, it is given back.
            self.end_gtid(false);
            return Err(SqlError::new(1790, "HY000", text));
        }
        self.end_gtid(false);
        let shown = match &next {
            Next::Automatic(tag) if tag.is_empty() => "AUTOMATIC".to_owned(),
            Next::Automatic(tag) => format!("AUTOMATIC:{}", tag.as_str()),
            Next::Of(source) => format!("AUTOMATIC:{source}"),
            Next::Anonymous => "ANONYMOUS".to_owned(),
            Next::Given { gtid, .. } | Next::Used(gtid) => gtid.to_string(),
        };
        self.context.gtid_next.tagged = self.context.count_tagged(&next)?;
        if next == Next::Anonymous {
            self.context.hold_anonymous()?;
        }
        self.context.gtid_next.next = match next {
            Next::Given { gtid, .. } => {
                let is_owned = self.context.take_gtid(&gtid)?;
                Next::Given { gtid, is_owned }
            }
            next => next,
        };
        Ok(shown)
    }

    /// How the next transaction, of another server, is to be numbered. False: it is executed.
    ///
    /// # Errors
    /// 1781, 1782: gtid_mode does not let it be.
    pub(super) fn own_gtid(&mut self, wanted: &Numbering) -> SqlResult<bool> {
        self.end_gtid(false);
        self.context.gtid_next = GtidNext::default();
        let next = match wanted {
            Numbering::Automatic(tag) => Next::Automatic(tag.clone()),
            Numbering::Next(source) => Next::Of(source.clone()),
            Numbering::Anonymous => Next::Anonymous,
            Numbering::Given(gtid) => Next::Given {
                gtid: gtid.clone(),
                is_owned: false,
            },
        };
        let instance = &self.context.instance;
        let next = admit_next(next, instance.globals.named("gtid_mode").as_text())?;
        if next == Next::Anonymous {
            self.context.hold_anonymous()?;
        }
        let mut is_new = true;
        self.context.gtid_next.next = match next {
            Next::Given { gtid, .. } => {
                is_new = self.context.take_gtid(&gtid)?;
                match is_new {
                    true => Next::Given {
                        gtid,
                        is_owned: true,
                    },
                    false => Next::default(),
                }
            }
            next => next,
        };
        Ok(is_new)
    }

    /// What gtid_next says of a statement: `Some` if it is skipped, for its transaction is executed.
    ///
    /// # Errors
    /// 1837: the GTID is used up; 1778: the statement would commit a transaction that is to have more; 1782: there is
    /// to be none, and `gtid_mode` is ON by now.
    pub(super) fn admit_gtid(&mut self, statement: &Statement) -> SqlResult<Option<Done>> {
        let gtid_next = &self.context.gtid_next;
        gtid_next.is_logged.set(false);
        if gtid_next.is_plain() {
            return Ok(None);
        }
        if gtid_next.next == Next::Anonymous {
            return match is_exempt(statement) && !matches!(statement, Statement::Begin(_)) {
                true => Ok(None),
                false => self.context.hold_anonymous().map(|()| None),
            };
        }
        let commits = matches!(statement, Statement::Begin(_)) || ddl::commits(statement);
        if commits && gtid_next.owned().is_some() && self.in_transaction() {
            return Err(errors::commits_implicitly());
        }
        match &gtid_next.next {
            _ if is_exempt(statement) => Ok(None),
            Next::Used(gtid) => {
                let text = format!(
                    "When @@SESSION.GTID_NEXT is set to a GTID, you must explicitly set it to a different value \
                     after a COMMIT or ROLLBACK. Please check GTID_NEXT variable manual page for detailed \
                     explanation. Current @@SESSION.GTID_NEXT is '{gtid}'."
                );
                Err(SqlError::new(1837, "HY000", text))
            }
            Next::Given {
                is_owned: false, ..
            } => Ok(Some(Done::Ok(OkInfo::default(), 0))),
            _ => Ok(None),
        }
    }

    /// A statement that commits itself (XA PREPARE, the end of a prepared transaction, what is done to temporary
    /// tables) has used a GTID up, though no record of its own says so unless it `is_logged`: the record that does. In
    /// a binary log that is an empty transaction, without one a row. It is not the prepared transaction's own row,
    /// which would go with XA ROLLBACK, and comes behind it: where one of the two is lost, that is the GTID.
    pub(super) fn keep_gtid_apart(&mut self, is_logged: bool) -> Option<Seq> {
        if is_logged || self.is_applying() {
            return None;
        }
        let gtid = self.context.gtid_next.owned()?.clone();
        let instance = self.context.instance.clone();
        if !instance.binlog.is_on() {
            self.context.use_gtid_unlogged();
            return instance.keep_unlogged_gtid(&gtid);
        }
        self.log_empty().unwrap_or_else(|e| {
            tracing::warn!("GTID {gtid} of an empty transaction: {}", e.message);
            // What the binary log does not have is not executed: it is given back, as by a statement that fails.
            self.end_gtid(false);
            None
        })
    }

    /// For the head of a record that is about to be logged.
    pub(crate) fn number_transaction(&self) -> Numbering {
        let gtid_next = &self.context.gtid_next;
        let numbering = match &gtid_next.next {
            Next::Automatic(tag) => Numbering::Automatic(tag.clone()),
            Next::Of(source) => Numbering::Next(source.clone()),
            Next::Anonymous => Numbering::Anonymous,
            Next::Given { gtid, .. } => {
                gtid_next.is_logged.set(true);
                Numbering::Given(gtid.clone())
            }
            Next::Used(_) => Numbering::default(),
        };
        if self.tracker.tracks_logged(&self.vars) {
            gtid_next.numbered.replace(Some(numbering.clone()));
        }
        numbering
    }

    /// After a statement: what was logged has used its GTID up.
    pub(super) fn settle_gtid(&mut self, statement: &Statement, result: &Result<Done, ExecError>) {
        let goes_on = self.in_transaction() || matches!(statement, Statement::Set(_));
        if !goes_on {
            self.context.gtid_next.anonymous = None;
        }
        let is_logged = self.context.gtid_next.is_logged.get();
        let seq = match result {
            Ok(Done::Ok(_, seq)) => *seq,
            _ => 0,
        };
        self.tracker
            .mark_logged(self.context.gtid_next.take_numbered(), seq);
        match result {
            Ok(_) if is_logged => self.end_gtid(true),
            Ok(Done::Ok(..) | Done::Rows(_)) if is_transaction_of_its_own(statement) => {
                self.use_gtid_apart();
            }
            Err(ExecError::Sql(_)) if is_logged => self.end_gtid(false),
            _ => {}
        }
    }

    /// A statement that has used tables was a transaction of its own. Without a binary log it has used its GTID up even
    /// if it has changed nothing; with one, only if it has.
    pub(super) fn use_gtid_of_unlogged_statement(&mut self) {
        let gtid_next = &self.context.gtid_next;
        let is_kept = self.context.instance.binlog.is_on() || gtid_next.is_logged.get();
        if !is_kept {
            self.use_gtid_apart();
        }
    }

    /// The GTID that the session owns, if it does, is that of a statement that is not in the binary log.
    pub(super) fn use_gtid_apart(&mut self) {
        if self.context.gtid_next.owned().is_none() || self.is_applying() || self.in_transaction() {
            return;
        }
        if let Some(seq) = self.keep_gtid_apart(false) {
            self.owed = self.owed.max(seq);
        }
        // Rows may have been sent meanwhile, so nobody comes to settle it.
        self.end_gtid(true);
    }

    /// The session's GTID is used (`is_committed`), or given back.
    pub(super) fn end_gtid(&mut self, is_committed: bool) {
        let gtid_next = &mut self.context.gtid_next;
        gtid_next.is_logged.set(false);
        gtid_next.anonymous = None;
        let Next::Given { gtid, is_owned } = &gtid_next.next else {
            return;
        };
        let gtid = gtid.clone();
        if *is_owned {
            let binlog = &self.context.instance.binlog;
            match is_committed {
                true if binlog.is_on() => binlog.owned.committed(&gtid),
                true => self.note_unlogged(&gtid),
                false => binlog.owned.give_back(&gtid),
            }
            self.context.gtid_next.next = Next::Used(gtid);
        }
    }

    /// A transaction is committed without a binary log.
    fn note_unlogged(&self, gtid: &Gtid) {
        let instance = &self.context.instance;
        let are_many = instance.binlog.owned.executed_unlogged(gtid);
        // What a channel applies has no rows of its own.
        if are_many && !self.is_applying() {
            instance.try_to_keep();
        }
    }
}

impl SessionContext {
    /// From now on a transaction goes on that is to have no GTID.
    ///
    /// # Errors
    /// 1782: `gtid_mode` has become ON.
    fn hold_anonymous(&mut self) -> SqlResult<()> {
        if self.gtid_next.anonymous.is_some() {
            return Ok(());
        }
        let instance = &self.instance;
        let counted = instance.binlog.owned.begin_anonymous();
        let mode = instance.globals.named("gtid_mode");
        admit_next(Next::Anonymous, mode.as_text())?;
        self.gtid_next.anonymous = Some(counted);
        Ok(())
    }

    /// Counts a session that asks for tagged GTIDs. Whoever turns GTIDs off looks behind the mode, and this before it.
    ///
    /// # Errors
    /// 6039: `gtid_mode` has become another one.
    fn count_tagged(&self, next: &Next) -> SqlResult<Option<Counted>> {
        if !matches!(next, Next::Automatic(tag) if !tag.is_empty()) {
            return Ok(None);
        }
        let instance = &self.instance;
        let counted = instance.binlog.owned.begin_tagged();
        let mode = instance.globals.named("gtid_mode");
        admit_next(next.clone(), mode.as_text())?;
        Ok(Some(counted))
    }

    /// False: it is executed.
    fn take_gtid(&self, gtid: &Gtid) -> SqlResult<bool> {
        let binlog = &self.instance.binlog;
        loop {
            match (binlog.owned).take(gtid, self.process.id, || binlog.executed()) {
                Taken::Owned => return Ok(true),
                Taken::Executed => return Ok(false),
                Taken::Busy => {
                    let presses = self.process.is_applier();
                    binlog.owned.wait(gtid, presses, WAIT_STEP);
                }
            }
            self.check()?;
        }
    }

    /// May SET have to wait for a GTID of another session?
    pub(super) fn may_wait_for_gtid(&self, items: &[SetItem]) -> bool {
        items.iter().any(|item| {
            let SetItem::SysVar { var, value } = item else {
                return false;
            };
            if !var.name.eq_ignore_ascii_case("gtid_next") {
                return false;
            }
            match value {
                None => false,
                Some(Expr::Literal(Literal::Str { bytes, .. })) => {
                    let gtid = String::from_utf8_lossy(bytes).parse::<Gtid>();
                    let owned = &self.instance.binlog.owned;
                    gtid.is_ok_and(|gtid| owned.is_busy(&gtid))
                }
                Some(_) => true,
            }
        })
    }

    /// What the record of the session's transaction is to say of its GTID, where no binary log does.
    pub(super) fn gtid_mark(&self) -> Option<Arc<AppliedMark>> {
        let gtid = self.gtid_next.owned()?;
        let is_logged = self.instance.binlog.is_on();
        (!is_logged).then(|| Arc::new(AppliedMark::new(unlogged_row(gtid))))
    }

    /// A statement that commits itself has used the GTID up, though no binary log says so.
    pub(crate) fn use_gtid_unlogged(&self) {
        if !self.instance.binlog.is_on() && self.gtid_next.owned().is_some() {
            self.gtid_next.is_logged.set(true);
        }
    }
}
