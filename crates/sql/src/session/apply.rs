//! Transactions of another server, run in a session of this one.
//!
//! Neighbours: the applier's workers begin, run and end them; [`RowApplier`] writes rows below SQL; `binlog::statement`
//! and `ddl` put the [mark](AppliedMark) into the record that commits the transaction.
//! **Invariants**
//! - The mark is written in the transaction that it speaks of, whatever commits it: so a transaction is applied if and
//!   only if the channel's state says so.
//! - What is logged keeps the origin: GTID, server id and time of the server that committed it first.
//! - Calls here may block their thread.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake};
use std::thread::Thread;
use std::time::{Duration, Instant};

use esker_binlog::Origin;
use esker_binlog::attachment::Numbering;
use esker_binlog::event::EventType;
use esker_binlog::event::rows::{RowChange, Rows};
use esker_binlog::event::table_map::TableMap;
use esker_engine::{EngineError, Seq, WaitCanceller};
use esker_sql_catalog::catalog::ChannelRow;
use esker_sql_catalog::exec_error::{ExecError, engine_error};
use esker_sql_catalog::result::{Mode, OutcomeKind, RowSink, Step};
use esker_sql_catalog::variables::Level;
use esker_types::{SqlError, SqlMode, SqlResult, SqlType, ValueRef, errors};

use super::change::MAX_COMPILATIONS;
use super::{Request, Session, SessionContext};
use crate::capture::AppliedMark;
use crate::dml::apply::{ApplyMode, Conversions, RowApplier};
use crate::dml::{DmlDone, DmlEnv};

/// Tables that are known at a time.
const MAX_TABLES: usize = 256;
/// A wait for a metadata lock looks this often whether it is killed.
const LOOK: Duration = Duration::from_millis(100);
/// Bytes of rows that a statement gives and nobody wants.
const UNWANTED_BYTES: usize = 1 << 16;

/// The transaction that is being applied.
pub(crate) struct Applying {
    mark: Arc<AppliedMark>,
    origin: Origin,
}

impl Applying {
    /// A transaction of another server.
    pub(crate) fn new(row: ChannelRow, origin: Origin) -> Self {
        Self {
            mark: Arc::new(AppliedMark::new(row)),
            origin,
        }
    }
}

/// The row events of one statement, of another server or of BINLOG.
#[derive(Default)]
pub(crate) struct RowStatement<'a> {
    /// Bodies of the maps of its tables, and what is read of them.
    pub(crate) maps: Vec<(&'a [u8], TableMap)>,
    /// Row events, each with the position of its map.
    pub(crate) rows: Vec<(usize, Rows<'a>)>,
    /// When it began on the other server, seconds since the epoch.
    pub(crate) time: u32,
    /// `sql_mode` there, as far as it is known.
    pub(crate) sql_mode: Option<SqlMode>,
    /// User and host of an account that must be allowed to change the rows.
    pub(crate) checks_user: Option<&'a (String, String)>,
}

impl RowStatement<'_> {
    /// Makes the changes; `appliers` are those of the maps.
    ///
    /// # Errors
    /// 1610; those of the rows.
    pub(super) fn run(
        &self,
        appliers: &mut [RowApplier],
        env: &mut DmlEnv<'_>,
    ) -> Result<(), ExecError> {
        for (nth, (at, rows)) in self.rows.iter().enumerate() {
            let flags = rows.flags;
            env.foreign_key_checks = !(flags.no_foreign_key_checks || flags.sql_foreign_keys);
            if let Some(mut capture) = env.log.get() {
                capture.set_flags(flags);
            }
            let changes = rows.rows(&self.maps[*at].1);
            for (row, change) in changes
                .map_err(errors::corrupt_event)?
                .into_iter()
                .enumerate()
            {
                (env.check_killed)()?;
                let applier = &mut appliers[*at];
                if applier.wants_to_know(env.ctx, &change)? {
                    applier.look_ahead(env, &mut self.changes_from(nth, row))?;
                }
                applier.apply(env, change)?;
            }
        }
        env.scratch.trim();
        Ok(())
    }

    /// The changes of a table from one of an event on.
    fn changes_from(
        &self,
        nth: usize,
        row: usize,
    ) -> impl Iterator<Item = SqlResult<RowChange>> + '_ {
        let table = self.rows[nth].0;
        let of_table = self.rows[nth..].iter().filter(move |(at, _)| *at == table);
        let events = of_table.map(move |(at, rows)| rows.rows(&self.maps[*at].1));
        let changes = events.flat_map(|changes| match changes {
            Ok(changes) => changes.into_iter().map(Ok).collect(),
            Err(e) => vec![Err(errors::corrupt_event(e))],
        });
        changes.skip(row)
    }
}

/// Tables of events that were looked up before.
#[derive(Default)]
pub(crate) struct TableCache {
    version: u64,
    made_with: (Conversions, SqlMode),
    tables: HashMap<Box<[u8]>, RowApplier>,
}

impl TableCache {
    /// Forgets all of an older catalog, or made for other conversions or another `sql_mode`.
    fn renew(&mut self, version: u64, made_with: (Conversions, SqlMode)) {
        let is_current = (self.version, self.made_with) == (version, made_with);
        if !is_current || self.tables.len() >= MAX_TABLES {
            self.tables.clear();
            (self.version, self.made_with) = (version, made_with);
        }
    }
}

/// Takes rows and forgets them.
struct Nowhere;

impl RowSink for Nowhere {
    fn begin_row(&mut self) {}
    fn value(&mut self, _: ValueRef<'_>, _: &SqlType) {}
    fn end_row(&mut self) {}
    fn bytes(&self) -> usize {
        0
    }
}

impl Session {
    /// Is a transaction of another server being applied?
    pub(crate) fn is_applying(&self) -> bool {
        self.applying.is_some()
    }

    /// Where it was committed first.
    pub(crate) fn applied_origin(&self) -> Option<Origin> {
        self.applying.as_ref().map(|applying| applying.origin)
    }

    /// What its record is to say of it, if it does not yet.
    pub(crate) fn applied_mark(&self) -> Option<Arc<AppliedMark>> {
        let Some(applying) = &self.applying else {
            return self.context.gtid_mark();
        };
        let mark = &applying.mark;
        (!mark.is_written()).then(|| mark.clone())
    }

    /// Writes it with the session's transaction.
    ///
    /// # Errors
    /// Of the engine.
    pub(crate) fn mark_applied(&mut self) -> SqlResult<()> {
        if let Some(mark) = self.applied_mark() {
            let catalog = &self.context.instance.catalog;
            catalog.put_channel_row(&mut self.txn, mark.row())?;
            mark.written();
        }
        Ok(())
    }

    /// What ends a wait of the session.
    pub(crate) fn wait_canceller(&self) -> WaitCanceller {
        self.txn.wait_canceller()
    }

    /// Calls `look` when the session begins to wait for a row.
    pub(crate) fn set_at_wait(&mut self, look: impl Fn() + Send + Sync + 'static) {
        self.txn.set_at_wait(look);
    }

    /// What follows is a transaction of another server. False: one of this GTID is executed.
    ///
    /// # Errors
    /// Killed while another session owns the GTID; 1781, 1782: `gtid_mode` does not let it be.
    pub(crate) fn begin_applying(
        &mut self,
        applying: Applying,
        numbering: &Numbering,
    ) -> SqlResult<bool> {
        debug_assert!(!self.in_transaction());
        // A kill that was meant for the last one is not for this one.
        self.context.process.clear_query_kill();
        self.context.pace.enter(Mode::Thread);
        self.begin_statement(None)?;
        self.applying = Some(applying);
        self.own_gtid(numbering)
    }

    /// Begins the transaction itself.
    pub(crate) fn open_applied(&mut self) {
        self.state.explicit = true;
        // Rows are found by what they were: nothing is locked but them.
        self.state.next_isolation = Some(Level::ReadCommitted);
    }

    /// Makes the changes of a statement.
    ///
    /// # Errors
    /// Those of the rows; the statement's changes are undone then.
    pub(crate) fn apply_rows(
        &mut self,
        statement: &RowStatement<'_>,
        how: (ApplyMode, Conversions),
        cache: &mut TableCache,
    ) -> SqlResult<()> {
        self.begin_statement(None)?;
        self.fix_time(statement.time, 0);
        self.use_transaction();
        self.context.pace.enter(Mode::Thread);
        let own_mode = self.vars.sql_mode;
        self.vars.sql_mode = statement.sql_mode.unwrap_or(own_mode);
        let applied = self.apply_rows_at_pace(statement, how, cache);
        self.vars.sql_mode = own_mode;
        // A worker waits between statements, for its turn to commit too, and must not keep a processor from others.
        self.context.pace.rest();
        applied
    }

    fn apply_rows_at_pace(
        &mut self,
        statement: &RowStatement<'_>,
        how: (ApplyMode, Conversions),
        cache: &mut TableCache,
    ) -> SqlResult<()> {
        if let Some(account) = statement.checks_user {
            self.acting_as(account, |session| {
                session.context.require_changes(statement)
            })?;
        }
        let deadline = Instant::now() + self.vars.metadata_lock_timeout;
        let mut appliers = loop {
            match self.row_appliers(statement, how, cache) {
                Ok(appliers) => break appliers,
                Err(e) => self.outwait(e, deadline)?,
            }
        };
        let done = self.change_rows(&[], Mode::Thread, |env| {
            statement
                .run(&mut appliers, env)
                .map(|()| DmlDone::default())
        });
        for ((map, _), applier) in statement.maps.iter().zip(appliers) {
            cache.tables.insert((*map).into(), applier);
        }
        match done {
            Ok(_) => Ok(()),
            Err(ExecError::Sql(e)) => Err(e),
            Err(ExecError::Wait(_)) => Err(engine_error(&EngineError::LockWaitTimeout)),
        }
    }

    /// One for each map, its tables locked.
    ///
    /// # Errors
    /// Those of looking up and locking a table; 1412 when the catalog changes again and again.
    pub(super) fn row_appliers(
        &mut self,
        statement: &RowStatement<'_>,
        how: (ApplyMode, Conversions),
        cache: &mut TableCache,
    ) -> Result<Vec<RowApplier>, ExecError> {
        for _ in 0..MAX_COMPILATIONS {
            let version = self.context.instance.catalog.version();
            cache.renew(version, (how.1, self.vars.sql_mode));
            let appliers =
                statement
                    .maps
                    .iter()
                    .map(|(body, map)| match cache.tables.remove(*body) {
                        Some(applier) => Ok(applier.with_mode(how.0)),
                        None => self.applier(map, how),
                    });
            let appliers = appliers.collect::<SqlResult<Vec<_>>>()?;
            let mut is_current = true;
            for applier in &appliers {
                let table = applier.table();
                if self.filled(&table.schema, &table.name).is_some() {
                    // It is locked as a whole.
                    continue;
                }
                let targets = std::slice::from_ref(applier.table());
                is_current &= self.lock_targets(targets, applier.foreign_keys(), version)?;
            }
            if is_current {
                return Ok(appliers);
            }
        }
        Err(errors::definition_changed().into())
    }

    /// Waits for what a statement has met, or says that it cannot go on.
    fn outwait(&mut self, e: ExecError, deadline: Instant) -> SqlResult<()> {
        match e {
            ExecError::Sql(e) => Err(e),
            ExecError::Wait(ticket) => {
                self.context.check()?;
                if Instant::now() >= deadline {
                    let timeout = engine_error(&EngineError::LockWaitTimeout);
                    return Err(self.name_blockers(timeout));
                }
                // Not at first: others of the channel make way for a wait, in a moment.
                let begun = deadline - self.vars.metadata_lock_timeout;
                if begun.elapsed() >= LOOK && self.is_deadlocked() {
                    return Err(errors::deadlock());
                }
                match ticket.block(LOOK) {
                    Ok(()) | Err(EngineError::LockWaitTimeout) => Ok(()),
                    Err(e) => Err(engine_error(&e)),
                }
            }
        }
    }

    /// What NOW() is for the next statement.
    pub(crate) fn fix_time(&mut self, seconds: u32, micros: u32) {
        self.vars.fixed_now = Some(i64::from(seconds) * 1_000_000 + i64::from(micros));
    }

    /// Runs a statement to its end.
    ///
    /// # Errors
    /// The statement's.
    pub(crate) fn apply_text(&mut self, sql: &[u8]) -> SqlResult<()> {
        self.start(Request::Query(sql));
        self.finish_statement()
    }

    /// The same for a statement of a source, which may be slow.
    ///
    /// # Errors
    /// The statement's.
    pub(crate) fn apply_statement(&mut self, sql: &[u8]) -> SqlResult<()> {
        self.apply_text(sql)?;
        // One that fails says so itself.
        self.note_slow(self.context.instance.now_micros());
        Ok(())
    }

    /// The same with the rights of an account.
    ///
    /// # Errors
    /// 1449: there is none; the statement's.
    pub(crate) fn apply_statement_as(
        &mut self,
        account: &(String, String),
        sql: &[u8],
    ) -> SqlResult<()> {
        self.acting_as(account, |session| session.apply_statement(sql))
    }

    /// May an account set what comes with statements?
    ///
    /// # Errors
    /// 1227; 1449: there is none.
    pub(crate) fn admit_settings_of(&mut self, account: &(String, String)) -> SqlResult<()> {
        self.acting_as(account, |session| session.context.require_restricted())
    }

    fn acting_as(
        &mut self,
        (user, host): &(String, String),
        act: impl FnOnce(&mut Self) -> SqlResult<()>,
    ) -> SqlResult<()> {
        let account = self.context.instance.accounts().exact(user, host);
        let account = account.ok_or_else(|| errors::no_such_definer(user, host))?;
        let actor = self.context.actor(account);
        let own = self.context.swap_actor(actor);
        self.context.rebind();
        let done = act(self);
        self.context.swap_actor(own);
        self.context.rebind();
        done
    }

    /// Runs the statement that was started, on this thread; its rows go nowhere.
    ///
    /// # Errors
    /// The statement's.
    pub(crate) fn finish_statement(&mut self) -> SqlResult<()> {
        loop {
            match self.step(Mode::Thread) {
                Step::Done(outcome) => match outcome.result {
                    OutcomeKind::Err(e) => return Err(e),
                    OutcomeKind::Ok(_) => return Ok(()),
                    OutcomeKind::Rows(_) => break,
                },
                Step::Wait(mut wait) => {
                    let ended = loop {
                        let ready = block_within(wait.ready.as_mut(), wait.timeout);
                        if ready.is_some() {
                            break ready;
                        }
                        if let ControlFlow::Break(ended) = self.look(&mut wait) {
                            break ended;
                        }
                    };
                    self.waited(ended);
                }
                Step::NeedThread => {}
                Step::NeedFile(_) => {
                    let e = SqlError::not_supported("a client's file in a replicated statement");
                    self.waited(Some(Err(e)));
                }
            }
        }
        while self.next_rows(&mut Nowhere, UNWANTED_BYTES)?.more {}
        Ok(())
    }

    /// The default database of a statement. One that is not there is named all the same: error 1049 to what needs it.
    pub(crate) fn use_applied_database(&mut self, name: &str) {
        if self.context.database.as_deref() == Some(name) {
            return;
        }
        if name.is_empty() || self.use_database(name).is_err() {
            self.context.database = Some(name.into()).filter(|_| !name.is_empty());
            self.context.rebind();
        }
    }

    /// Commits the transaction with its mark; also where it has changed nothing.
    ///
    /// # Errors
    /// Of the engine; FLUSH TABLES WITH READ LOCK for too long.
    pub(crate) fn commit_applied(&mut self) -> SqlResult<Seq> {
        // A commit is short, whatever the changes took: it waits for no processor, and keeps none.
        self.context.pace.enter(Mode::Thread);
        self.begin_statement(None)?;
        self.use_transaction();
        let deadline = Instant::now() + self.vars.metadata_lock_timeout;
        while let Err(e) = self.admit_commit() {
            self.outwait(e, deadline)?;
        }
        let committed = self.commit_transaction();
        self.locks.release_statement();
        self.end_gtid(committed.is_ok());
        self.end_applying();
        self.context.pace.rest();
        committed
    }

    /// The end of a statement that has committed itself. What its record did not say is said behind it.
    ///
    /// # Errors
    /// Of the engine.
    pub(crate) fn settle_applied(&mut self) -> SqlResult<()> {
        match self.applied_mark() {
            Some(_) => {
                self.open_applied();
                self.commit_applied().map(drop)
            }
            None => {
                self.end_applying();
                // Of a statement that is not logged nothing else says that it is executed.
                self.use_gtid_apart();
                Ok(())
            }
        }
    }

    /// Undoes what there is of the transaction.
    pub(crate) fn abandon_applied(&mut self) {
        self.rollback_transaction();
        self.locks.release_statement();
        self.end_applying();
        self.context.pace.rest();
    }

    fn end_applying(&mut self) {
        self.applying = None;
        self.vars.fixed_now = None;
    }
}

impl SessionContext {
    /// May whom the session acts as make these changes of rows?
    pub(super) fn require_changes(&self, statement: &RowStatement<'_>) -> SqlResult<()> {
        for (at, rows) in &statement.rows {
            let (_, map) = &statement.maps[*at];
            let wanted = match rows.kind() {
                EventType::DeleteRows => "DELETE",
                EventType::WriteRows => "INSERT",
                _ => "UPDATE",
            };
            self.require_on(&[wanted], &map.schema, &map.table)?;
        }
        Ok(())
    }
}

/// Parks the thread until the future is ready or the time is over.
fn block_within<F: Future + ?Sized>(
    mut future: Pin<&mut F>,
    at_most: Duration,
) -> Option<F::Output> {
    struct Unpark(Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Arc::new(Unpark(std::thread::current())).into();
    let mut context = Context::from_waker(&waker);
    let deadline = Instant::now() + at_most;
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
            return Some(output);
        }
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return None;
        }
        std::thread::park_timeout(left);
    }
}
