//! Where the events of transactions gather before they commit: memory, and spool files for those that have many.
//!
//! Neighbours: `capture` fills it and seals it at the commit; `service` has the limits and the folder of the files.
//! **Invariants**
//! - Of a transaction no more than `binlog_cache_size` and what a statement gathers is in memory.
//! - The transaction of the engine knows how many bytes have gathered; a spool file is as long as what it says was
//!   taken out before anything is appended.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use esker_binlog::event::table_map::Detail;
use esker_binlog::spool::{Spool, Spooled, Spools};
use esker_engine::Txn;
use esker_sql_catalog::exec_error::ExecError;
use esker_sql_catalog::variables::Globals;
use esker_types::{SqlError, SqlResult, errors};

use super::filter::DatabaseFilter;

/// What all sessions share: where their events gather, and what events look like.
pub(crate) struct CaptureSettings {
    spools: Arc<Spools>,
    /// Which databases are logged.
    filter: DatabaseFilter,
    /// binlog_row_metadata is FULL.
    full_metadata: AtomicBool,
    /// binlog_row_event_max_size.
    event_bytes: AtomicU64,
    /// binlog_cache_size.
    kept: AtomicU64,
    /// max_binlog_cache_size.
    most: AtomicU64,
    /// Transactions that have used a file.
    spilled: AtomicU64,
}

impl CaptureSettings {
    pub(crate) fn new(spools: Arc<Spools>, globals: &Globals, filter: DatabaseFilter) -> Arc<Self> {
        let settings = Self {
            spools,
            filter,
            full_metadata: false.into(),
            event_bytes: 0.into(),
            kept: 0.into(),
            most: 0.into(),
            spilled: 0.into(),
        };
        settings.configure(globals);
        Arc::new(settings)
    }

    /// Which databases are logged.
    pub(crate) fn filter(&self) -> &DatabaseFilter {
        &self.filter
    }

    /// Takes over what the variables say.
    pub(crate) fn configure(&self, globals: &Globals) {
        let set = |limit: &AtomicU64, name| {
            limit.store(globals.named(name).as_u64(), Ordering::Relaxed);
        };
        set(&self.kept, "binlog_cache_size");
        set(&self.most, "max_binlog_cache_size");
        set(&self.event_bytes, "binlog_row_event_max_size");
        let is_full = globals.named("binlog_row_metadata").as_text() == "FULL";
        self.full_metadata.store(is_full, Ordering::Relaxed);
    }

    /// What TABLE_MAPs say.
    pub(crate) fn detail(&self) -> Detail {
        match self.full_metadata.load(Ordering::Relaxed) {
            true => Detail::Full,
            false => Detail::Minimal,
        }
    }

    /// Row events that are longer are ended.
    pub(crate) fn event_bytes(&self) -> usize {
        self.event_bytes.load(Ordering::Relaxed) as usize
    }

    /// Transactions that have used a file.
    pub(crate) fn spilled(&self) -> u64 {
        self.spilled.load(Ordering::Relaxed)
    }
}

/// What a session's transaction has gathered beside the engine's transaction.
#[derive(Default)]
pub(crate) struct EventCache {
    settings: Option<Arc<CaptureSettings>>,
    spool: Option<Spool>,
}

impl EventCache {
    /// The session's statements are logged.
    pub(crate) fn open(&mut self, settings: &Arc<CaptureSettings>) {
        self.settings.get_or_insert_with(|| Arc::clone(settings));
    }

    /// Are the rows of tables of this database logged?
    pub(crate) fn leaves_out(&self, database: &str) -> bool {
        let settings = self.settings.as_deref();
        settings.is_some_and(|settings| settings.filter.leaves_out(database))
    }

    /// Is a part of the transaction in a file?
    pub(crate) fn has_spool(&self) -> bool {
        self.spool.is_some()
    }

    /// Appends events.
    ///
    /// # Errors
    /// 1197: they are too many; 1021; of memory.
    pub(crate) fn push(&mut self, txn: &mut Txn, events: &[u8]) -> Result<(), ExecError> {
        if let Some(settings) = &self.settings {
            let most = settings.most.load(Ordering::Relaxed);
            if txn.attachment_bytes() + events.len() as u64 > most {
                return Err(too_large().into());
            }
            let kept = settings.kept.load(Ordering::Relaxed);
            if (txn.attachment().len() + events.len()) as u64 > kept {
                return self.spill(txn, events);
            }
        }
        Ok(txn.attach(events)?)
    }

    /// Moves everything to the file.
    fn spill(&mut self, txn: &mut Txn, events: &[u8]) -> Result<(), ExecError> {
        txn.attach(events)?;
        let Some(settings) = &self.settings else {
            return Ok(());
        };
        if self.spool.is_none() {
            self.spool = Some(settings.spools.create().map_err(|e| spool_failed(&e))?);
            settings.spilled.fetch_add(1, Ordering::Relaxed);
        }
        Ok(self.move_out(txn)?)
    }

    fn move_out(&mut self, txn: &mut Txn) -> SqlResult<()> {
        let Some(spool) = &mut self.spool else {
            return Ok(());
        };
        // What was rolled back since goes first.
        let moved = spool
            .truncate(txn.attachment_taken())
            .and_then(|()| spool.append(txn.attachment()));
        moved.map_err(|e| spool_failed(&e))?;
        txn.take_attachment();
        debug_assert_eq!(spool.bytes(), txn.attachment_taken());
        Ok(())
    }

    /// The transaction commits: makes the file durable, if there is one, and describes it.
    ///
    /// # Errors
    /// Of the file.
    pub(crate) fn seal(&mut self, txn: &mut Txn) -> SqlResult<Option<Spooled>> {
        if txn.attachment_taken() == 0 {
            self.spool = None;
            return Ok(None);
        }
        self.move_out(txn)?;
        let sealed = self.spool.as_mut().map(Spool::seal);
        sealed.transpose().map_err(|e| spool_failed(&e))
    }

    /// The transaction has not committed.
    pub(crate) fn discard(&mut self) {
        if let Some(spool) = self.spool.take() {
            spool.discard();
        }
    }

    /// The transaction is over; what was sealed is left to the log.
    pub(crate) fn end(&mut self) {
        self.spool = None;
    }
}

/// 1197.
fn too_large() -> SqlError {
    errors::transaction_too_large("'max_binlog_cache_size'", "this mysqld variable")
}

fn spool_failed(e: &esker_binlog::Error) -> SqlError {
    match e {
        // Also of its sync: the spool file goes with the transaction.
        esker_binlog::Error::Io(io) | esker_binlog::Error::Sync(io)
            if io.kind() == std::io::ErrorKind::StorageFull =>
        {
            disk_full()
        }
        _ => errors::binlog_failed(e),
    }
}

/// Waiting for space on the disk of the binary log was given up.
pub(crate) fn disk_full() -> SqlError {
    errors::disk_full("binary log", "waiting for someone to free some space...")
}
