//! The state of channels in the database.
//!
//! Neighbours: `esker_binlog::apply::state` has the format, the catalog the keys; workers write what they apply
//! themselves. **Invariant**: a checkpoint is in the log before any transaction that reuses a row which it covers.

use esker_binlog::apply::Place;
use esker_binlog::apply::state::ChannelState;
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
/// Those of the engine.
pub fn place(instance: &Instance, channel: &str, place: Place) -> SqlResult<()> {
    let state = ChannelState {
        end: place,
        ..ChannelState::default()
    };
    let catalog = &instance.catalog;
    let _unlogged = instance.lock_unlogged();
    let mut txn = catalog.row_transaction();
    instance.write_unlogged(&mut txn)?;
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

/// Forgets a channel and its settings.
///
/// # Errors
/// Those of the engine.
pub fn forget(instance: &Instance, channel: &str) -> SqlResult<()> {
    let catalog = &instance.catalog;
    let _unlogged = instance.lock_unlogged();
    let mut txn = catalog.row_transaction();
    instance.write_unlogged(&mut txn)?;
    catalog.delete_channel(&mut txn, channel)?;
    commit(instance, txn)
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
