//! Rows of the catalog's tree that define nothing: what replication channels have applied, and how they are configured;
//! MariaDB's GTIDs that channels have forgotten; the number of the last change of the accounts; when events ran last.
//!
//! Neighbours: the applier of the crate above knows what is in the values; here are their keys. **Invariants**: a row
//! that says what was applied is written in the transaction that did it, without a lock: no two transactions of a
//! channel in flight write the same one.

use std::sync::Arc;

use esker_engine::{Engine, Txn, View};
use esker_types::SqlResult;
use esker_types::program::EventStatus;

use super::change::Change;
use super::event::{self, EventDef};
use super::{Catalog, scan_prefix, store};
use crate::exec_error::engine_error;

/// Kinds of rows of a channel.
const CHECKPOINT: u8 = b'C';
const APPLIED: u8 = b'P';
const SETTINGS: u8 = b'S';

/// GTIDs that were executed without a binary log have rows as channels have, under a name that no channel can have.
const UNLOGGED: &str = "\n";
/// The same for what is kept of MariaDB's GTIDs apart from channels.
const SLAVE_POS: &str = "\n\n";

/// A row of a channel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChannelRow {
    key: Vec<u8>,
    value: Vec<u8>,
}

impl ChannelRow {
    /// Everything up to a transaction is applied.
    pub fn checkpoint(channel: &str, value: Vec<u8>) -> Self {
        let key = store::channel_key(channel, &[CHECKPOINT]);
        Self { key, value }
    }

    /// One transaction is applied.
    pub fn applied(channel: &str, slot: u16, value: Vec<u8>) -> Self {
        let [high, low] = slot.to_be_bytes();
        let key = store::channel_key(channel, &[APPLIED, high, low]);
        Self { key, value }
    }

    /// A GTID was executed without a binary log; both are bytes that only their owner reads.
    pub fn unlogged(gtid: &[u8], value: Vec<u8>) -> Self {
        let key = store::channel_key(UNLOGGED, &[&[APPLIED], gtid].concat());
        Self { key, value }
    }

    /// How the channel is configured.
    pub fn settings(channel: &str, value: Vec<u8>) -> Self {
        let key = store::channel_key(channel, &[SETTINGS]);
        Self { key, value }
    }
}

/// All rows of a channel.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ChannelRows {
    /// Up to where all is applied.
    pub checkpoint: Option<Vec<u8>>,
    /// What is applied, by slot.
    pub applied: Vec<Vec<u8>>,
    /// How it is configured.
    pub settings: Option<Vec<u8>>,
}

impl Catalog {
    /// The channels that have rows.
    ///
    /// # Errors
    /// Of the engine.
    pub fn channels(&self) -> SqlResult<Vec<String>> {
        let mut names = Vec::new();
        let prefix = [store::CHANNEL_PREFIX];
        scan_prefix(&self.inner.engine, &self.inner.tree, &prefix, |key, _| {
            let name = key.split(|byte| *byte == 0).next().unwrap_or_default();
            let name = String::from_utf8_lossy(name).into_owned();
            if names.last() != Some(&name) && ![UNLOGGED, SLAVE_POS].contains(&&*name) {
                names.push(name);
            }
            Ok(())
        })?;
        Ok(names)
    }

    /// The rows of a channel.
    ///
    /// # Errors
    /// Of the engine.
    pub fn channel_rows(&self, channel: &str) -> SqlResult<ChannelRows> {
        let mut rows = ChannelRows::default();
        let prefix = store::channel_key(channel, &[]);
        scan_prefix(
            &self.inner.engine,
            &self.inner.tree,
            &prefix,
            |key, value| {
                match key.first() {
                    Some(&CHECKPOINT) => rows.checkpoint = Some(value.to_vec()),
                    Some(&APPLIED) => rows.applied.push(value.to_vec()),
                    Some(&SETTINGS) => rows.settings = Some(value.to_vec()),
                    _ => {}
                }
                Ok(())
            },
        )?;
        Ok(rows)
    }

    /// Writes a row with what else the transaction does.
    ///
    /// # Errors
    /// Of the engine.
    pub fn put_channel_row(&self, txn: &mut Txn, row: &ChannelRow) -> SqlResult<()> {
        txn.put(&self.inner.tree, &row.key, &row.value)
            .map_err(|e| engine_error(&e))
    }

    /// Deletes what says how far a channel has applied; its settings stay.
    ///
    /// # Errors
    /// Of the engine.
    pub fn delete_channel_progress(&self, txn: &mut Txn, channel: &str) -> SqlResult<()> {
        self.delete_channel_rows(txn, channel, |key| key.first() != Some(&SETTINGS))
    }

    /// Deletes all rows of a channel.
    ///
    /// # Errors
    /// Of the engine.
    pub fn delete_channel(&self, txn: &mut Txn, channel: &str) -> SqlResult<()> {
        self.delete_channel_rows(txn, channel, |_| true)
    }

    fn delete_channel_rows(
        &self,
        txn: &mut Txn,
        channel: &str,
        goes: impl Fn(&[u8]) -> bool,
    ) -> SqlResult<()> {
        let prefix = store::channel_key(channel, &[]);
        let mut keys = Vec::new();
        scan_prefix(&self.inner.engine, &self.inner.tree, &prefix, |key, _| {
            if goes(key) {
                keys.push([&prefix, key].concat());
            }
            Ok(())
        })?;
        for key in keys {
            txn.delete(&self.inner.tree, &key)
                .map_err(|e| engine_error(&e))?;
        }
        Ok(())
    }

    /// Values of the rows about GTIDs that were executed without a binary log.
    ///
    /// # Errors
    /// Of the engine.
    pub fn unlogged_rows(&self) -> SqlResult<Vec<Vec<u8>>> {
        let mut rows = self.channel_rows(UNLOGGED)?;
        rows.applied.extend(rows.checkpoint);
        Ok(rows.applied)
    }

    /// One row stands from now on for those that are there, or none: `one` makes its value of theirs. A row that comes
    /// meanwhile stays.
    ///
    /// # Errors
    /// Of `one` and the engine.
    pub fn replace_unlogged(
        &self,
        txn: &mut Txn,
        one: impl FnOnce(&[Vec<u8>]) -> SqlResult<Option<Vec<u8>>>,
    ) -> SqlResult<()> {
        let prefix = store::channel_key(UNLOGGED, &[]);
        let (mut keys, mut values) = (Vec::new(), Vec::new());
        let (engine, tree) = (&self.inner.engine, &self.inner.tree);
        scan_prefix(engine, tree, &prefix, |key, value| {
            keys.push([&prefix, key].concat());
            values.push(value.to_vec());
            Ok(())
        })?;
        for key in keys {
            txn.delete(tree, &key).map_err(|e| engine_error(&e))?;
        }
        match one(&values)? {
            Some(value) => self.put_channel_row(txn, &ChannelRow::checkpoint(UNLOGGED, value)),
            None => Ok(()),
        }
    }

    /// What is kept of MariaDB's GTIDs apart from channels: bytes that only their owner reads.
    ///
    /// # Errors
    /// Of the engine.
    pub fn slave_pos(&self) -> SqlResult<Option<Vec<u8>>> {
        Ok(self.channel_rows(SLAVE_POS)?.checkpoint)
    }

    /// Keeps another value of it, or none.
    ///
    /// # Errors
    /// Of the engine.
    pub fn put_slave_pos(&self, txn: &mut Txn, value: Option<Vec<u8>>) -> SqlResult<()> {
        match value {
            Some(value) => self.put_channel_row(txn, &ChannelRow::checkpoint(SLAVE_POS, value)),
            None => self.delete_channel(txn, SLAVE_POS),
        }
    }

    /// The number of the last change of the accounts that was decided.
    ///
    /// # Errors
    /// Of the engine; damage.
    pub fn accounts_change(&self) -> SqlResult<u32> {
        let txn = self.row_transaction();
        let row = txn.get(&self.inner.tree, store::ACCOUNTS_KEY, View::Latest);
        match row.map_err(|e| engine_error(&e))? {
            Some(bytes) => store::read_accounts(&bytes),
            None => Ok(0),
        }
    }

    /// Says with a transaction that a change of the accounts is decided.
    ///
    /// # Errors
    /// Of the engine.
    pub fn put_accounts_change(&self, txn: &mut Txn, change: u32) -> SqlResult<()> {
        let value = store::accounts_value(change);
        txn.put(&self.inner.tree, store::ACCOUNTS_KEY, &value)
            .map_err(|e| engine_error(&e))
    }

    /// Keeps when an event began, under the lock of changes. False: it is gone meanwhile, or is another one now, and
    /// nothing is kept.
    ///
    /// # Errors
    /// Of the engine.
    pub fn keep_event_run(&self, def: &Arc<EventDef>, micros: i64) -> SqlResult<bool> {
        let _changing = self.inner.changing.lock();
        let now = self.event(&def.schema, &def.name);
        if !now.is_some_and(|now| Arc::ptr_eq(&now, def)) {
            return Ok(false);
        }
        let mut txn = self.row_transaction();
        let key = store::event_ran_key(&def.schema, &def.name);
        txn.put(&self.inner.tree, &key, &event::ran_value(micros))
            .map_err(|e| engine_error(&e))?;
        let commit = txn.commit().map_err(|e| engine_error(&e))?;
        let durable = self.inner.engine.wait_durable(commit.seq.unwrap_or(0));
        durable.block().map_err(|e| engine_error(&e))?;
        def.runs_at(micros);
        Ok(true)
    }

    /// Disables an event that has no time left; one that is another by now stays as it is.
    ///
    /// # Errors
    /// Of the engine.
    pub fn disable_event(&self, def: &Arc<EventDef>) -> SqlResult<()> {
        let mut change = self.change();
        let now = change.snapshot().event(&def.schema, &def.name);
        if !now.is_some_and(|now| Arc::ptr_eq(now, def)) {
            return Ok(());
        }
        change.put_event(EventDef {
            status: EventStatus::Disabled,
            ..EventDef::clone(def)
        })?;
        change.commit().map(drop)
    }

    /// Begins a transaction for such rows alone.
    pub fn row_transaction(&self) -> Txn {
        let engine: &Engine = &self.inner.engine;
        engine.begin(esker_engine::Isolation::ReadCommitted)
    }
}

impl Change<'_> {
    /// Writes a row of a channel with the change.
    ///
    /// # Errors
    /// Of the engine.
    pub fn put_channel_row(&mut self, row: &ChannelRow) -> SqlResult<()> {
        self.put(&row.key, &row.value)
    }
}
