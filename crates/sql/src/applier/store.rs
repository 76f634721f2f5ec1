//! The state of channels in the database.
//!
//! Neighbours: `esker_binlog::apply::state` has the format, the catalog the keys; workers write what they apply
//! themselves. **Invariants**: a checkpoint is in the log before any transaction that reuses a row which it covers; the
//! transaction in which a channel forgets what it has applied of MariaDB's GTIDs keeps them as `gtid_slave_pos`.

use esker_binlog::apply::slave_pos::{AppliedByChannel, SlavePos};
use esker_binlog::apply::state::ChannelState;
use esker_binlog::apply::{MariaGtidSet, Place};
use esker_sql_catalog::catalog::ChannelRow;
use esker_sql_catalog::exec_error::engine_error;
use esker_types::{SqlResult, errors};

use crate::instance::Instance;

/// What a channel has applied, as of the last commit.
///
/// # Errors
/// Damaged rows; those of the engine.
pub fn load(instance: &Instance, channel: &str) -> SqlResult<ChannelState> {
    let rows = instance.catalog.channel_rows(channel)?;
    let applied = rows.applied.iter().map(Vec::as_slice);
    ChannelState::read(rows.checkpoint.as_deref(), applied)
        .map_err(|e| errors::channel_damaged(format!("Replication channel '{channel}': {e}")))
}

/// A channel is to go on at `place`, whatever it has applied before. Its state forgets the GTIDs that were applied;
/// they stay executed.
///
/// # Errors
/// What is kept of MariaDB's is damaged; those of the engine.
pub fn place(instance: &Instance, channel: &str, place: Place) -> SqlResult<()> {
    let state = ChannelState {
        end: place,
        ..ChannelState::default()
    };
    let catalog = &instance.catalog;
    let _unlogged = instance.lock_unlogged();
    let mut txn = catalog.row_transaction();
    instance.write_unlogged(&mut txn)?;
    keep_maria(instance, &mut txn, channel)?;
    catalog.delete_channel_progress(&mut txn, channel)?;
    let row = ChannelRow::checkpoint(channel, state.checkpoint());
    catalog.put_channel_row(&mut txn, &row)?;
    commit(instance, txn)
}

/// Keeps a state in which only places of the relay log are new.
///
/// # Errors
/// Those of the engine.
pub(crate) fn keep_state(
    instance: &Instance,
    channel: &str,
    state: &ChannelState,
) -> SqlResult<()> {
    commit(instance, with_checkpoint(instance, channel, state)?)
}

/// Forgets a channel and its settings. Its GTIDs stay executed.
///
/// # Errors
/// What is kept of MariaDB's is damaged; those of the engine.
pub fn forget(instance: &Instance, channel: &str) -> SqlResult<()> {
    let catalog = &instance.catalog;
    let _unlogged = instance.lock_unlogged();
    let mut txn = catalog.row_transaction();
    instance.write_unlogged(&mut txn)?;
    keep_maria(instance, &mut txn, channel)?;
    catalog.delete_channel(&mut txn, channel)?;
    commit(instance, txn)
}

/// `gtid_slave_pos`, as of the last commit: the last GTID of MariaDB in each domain that any channel has applied.
///
/// # Errors
/// What is kept of it is damaged; those of the engine.
pub fn slave_pos(instance: &Instance) -> SqlResult<MariaGtidSet> {
    slave_pos_of(instance, &maria_by_channel(instance)?)
}

/// The same, where channels have applied this.
///
/// # Errors
/// As [`slave_pos`].
pub(crate) fn slave_pos_of(
    instance: &Instance,
    channels: &AppliedByChannel,
) -> SqlResult<MariaGtidSet> {
    Ok(kept_slave_pos(instance)?.now(channels))
}

/// SET GLOBAL gtid_slave_pos. No channel applies anything meanwhile.
///
/// # Errors
/// Those of the engine.
pub(crate) fn set_slave_pos(instance: &Instance, gtids: MariaGtidSet) -> SqlResult<()> {
    let _alone = instance.lock_unlogged();
    let position = SlavePos::at(gtids, maria_by_channel(instance)?);
    let mut txn = instance.catalog.row_transaction();
    instance.catalog.put_slave_pos(&mut txn, position.value())?;
    commit(instance, txn)
}

/// The transaction is one in which a channel forgets what it has applied: it keeps what was MariaDB's. The caller has
/// the lock of unlogged GTIDs until it is committed.
fn keep_maria(instance: &Instance, txn: &mut esker_engine::Txn, channel: &str) -> SqlResult<()> {
    let before = kept_slave_pos(instance)?;
    let position = before.without(channel, maria_by_channel(instance)?);
    match position == before {
        true => Ok(()),
        false => instance.catalog.put_slave_pos(txn, position.value()),
    }
}

fn kept_slave_pos(instance: &Instance) -> SqlResult<SlavePos> {
    let value = instance.catalog.slave_pos()?;
    SlavePos::read(value.as_deref())
        .map_err(|e| errors::channel_damaged(format!("gtid_slave_pos: {e}")))
}

/// What channels have applied of MariaDB's GTIDs. One that cannot be read counts as one that has applied nothing.
fn maria_by_channel(instance: &Instance) -> SqlResult<AppliedByChannel> {
    let mut applied = AppliedByChannel::new();
    for name in channels(instance)? {
        match load(instance, &name) {
            Ok(state) => drop(applied.insert(name, state.maria)),
            // The channel says so, too, when it is opened.
            Err(e) => tracing::error!("GTIDs of channel '{name}': {}", e.message),
        }
    }
    Ok(applied)
}

/// The channels that the database knows.
///
/// # Errors
/// Those of the engine.
pub fn channels(instance: &Instance) -> SqlResult<Vec<String>> {
    instance.catalog.channels()
}

/// How a channel is configured: bytes that only their owner reads.
///
/// # Errors
/// Those of the engine.
pub fn settings(instance: &Instance, channel: &str) -> SqlResult<Option<Vec<u8>>> {
    Ok(instance.catalog.channel_rows(channel)?.settings)
}

/// Keeps how a channel is configured.
///
/// # Errors
/// Those of the engine.
pub fn keep_settings(instance: &Instance, channel: &str, settings: Vec<u8>) -> SqlResult<()> {
    let catalog = &instance.catalog;
    let mut txn = catalog.row_transaction();
    catalog.put_channel_row(&mut txn, &ChannelRow::settings(channel, settings))?;
    commit(instance, txn)
}

/// Everything up to a transaction is applied. Not waited for: what relies on it comes behind it in the log.
pub(super) fn checkpoint(
    instance: &Instance,
    channel: &str,
    state: &ChannelState,
) -> SqlResult<()> {
    let mut txn = with_checkpoint(instance, channel, state)?;
    txn.commit().map(drop).map_err(|e| engine_error(&e))
}

/// A transaction that keeps the state, and nothing else yet.
fn with_checkpoint(
    instance: &Instance,
    channel: &str,
    state: &ChannelState,
) -> SqlResult<esker_engine::Txn> {
    let catalog = &instance.catalog;
    let mut txn = catalog.row_transaction();
    let row = ChannelRow::checkpoint(channel, state.checkpoint());
    catalog.put_channel_row(&mut txn, &row)?;
    Ok(txn)
}

fn commit(instance: &Instance, mut txn: esker_engine::Txn) -> SqlResult<()> {
    let commit = txn.commit().map_err(|e| engine_error(&e))?;
    let durable = instance.engine.wait_durable(commit.seq.unwrap_or(0));
    durable.block().map_err(|e| engine_error(&e))
}
