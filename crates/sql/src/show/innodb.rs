//! Status variables that MySQL calls `Innodb_…`, from what Esker counts in their place.
//!
//! Neighbours: the engine has the figures; `status` lists them.
//! **Invariants**: the buffer pool is the block cache, dirty pages are memtables, the redo log is the log; a page has
//! 16 KiB.

use esker_engine::EngineStats;

use super::status::Status;
use crate::counts::Counter;
use crate::instance::Instance;
use crate::statements::Sums;

/// Bytes of a page, by which sizes are told.
const PAGE_BYTES: u64 = 16 * 1024;

/// Names and values.
pub(super) fn values(instance: &Instance) -> Vec<Status> {
    let stats = instance.engine().stats();
    let mut values: Vec<(&str, u64)> = cache(&stats);
    values.extend(log(instance, &stats));
    values.extend(statements(instance));
    values.extend(instance.counters.row_lock_waits.status());
    let mut rows: Vec<Status> = values
        .into_iter()
        .map(|(name, n)| (name, n.to_string()))
        .collect();
    rows.push(("Innodb_redo_log_enabled", "ON".to_owned()));
    rows
}

fn cache(stats: &EngineStats) -> Vec<(&'static str, u64)> {
    let memory = &stats.memory;
    let free = memory.cache_limit.saturating_sub(memory.cache.now);
    vec![
        ("Innodb_buffer_pool_bytes_data", memory.cache.now),
        ("Innodb_buffer_pool_bytes_dirty", memory.memtables.now),
        (
            "Innodb_buffer_pool_pages_data",
            memory.cache.now / PAGE_BYTES,
        ),
        (
            "Innodb_buffer_pool_pages_dirty",
            memory.memtables.now / PAGE_BYTES,
        ),
        ("Innodb_buffer_pool_pages_free", free / PAGE_BYTES),
        (
            "Innodb_buffer_pool_pages_total",
            memory.cache_limit / PAGE_BYTES,
        ),
        ("Innodb_buffer_pool_reads", stats.cache.loads),
        ("Innodb_page_size", PAGE_BYTES),
    ]
}

fn log(instance: &Instance, stats: &EngineStats) -> Vec<(&'static str, u64)> {
    let log = &stats.log;
    let work = &stats.storage.work;
    let compacted: u64 = work.kinds.iter().map(|(_, done)| done.written_bytes).sum();
    let written = log.disk_bytes + work.flushed_bytes + work.built_bytes + compacted;
    let full = log.waits(esker_engine::WaitCause::BufferFull).count;
    let segment = instance.variable_u64("esker_log_segment_size");
    vec![
        ("Innodb_data_fsyncs", log.flushes),
        ("Innodb_data_written", written),
        ("Innodb_log_waits", full),
        ("Innodb_log_write_requests", log.records),
        ("Innodb_log_writes", log.flushes),
        ("Innodb_os_log_fsyncs", log.flushes),
        ("Innodb_os_log_written", log.bytes),
        ("Innodb_redo_log_checkpoint_lsn", stats.log_needed_from),
        ("Innodb_redo_log_current_lsn", stats.log_end),
        (
            "Innodb_redo_log_flushed_to_disk_lsn",
            instance.engine().durable_seq(),
        ),
        (
            "Innodb_redo_log_logical_size",
            stats.log_end.saturating_sub(stats.log_needed_from),
        ),
        (
            "Innodb_redo_log_physical_size",
            stats.log_space.segments * segment,
        ),
    ]
}

/// Rows that were read, as far as statements were measured.
pub(super) fn rows_read(instance: &Instance) -> u64 {
    let sums = instance.registry.sums_by_account();
    sums.values().flatten().map(|(_, sums)| sums.examined).sum()
}

/// What statements did, as far as they were measured.
fn statements(instance: &Instance) -> Vec<(&'static str, u64)> {
    let sums = instance.registry.sums_by_account();
    let all = || sums.values().flatten();
    let changed = |commands: &[Counter]| -> u64 {
        let of_them = all().filter(|(command, _)| commands.contains(command));
        of_them.map(|(_, sums)| sums.affected).sum()
    };
    let total = |what: fn(&Sums) -> u64| -> u64 { all().map(|(_, sums)| what(sums)).sum() };
    let sessions = instance.registry.list();
    let waits = sessions
        .iter()
        .filter(|p| p.detail().state == "Waiting for row lock");
    vec![
        ("Innodb_row_lock_current_waits", waits.count() as u64),
        (
            "Innodb_rows_deleted",
            changed(&[Counter::ComDelete, Counter::ComDeleteMulti]),
        ),
        (
            "Innodb_rows_inserted",
            changed(&[
                Counter::ComInsert,
                Counter::ComInsertSelect,
                Counter::ComReplace,
                Counter::ComReplaceSelect,
            ]),
        ),
        ("Innodb_rows_read", total(|s| s.examined)),
        (
            "Innodb_rows_updated",
            changed(&[Counter::ComUpdate, Counter::ComUpdateMulti]),
        ),
        ("Open_table_definitions", instance.table_count() as u64),
        ("Performance_schema_digest_lost", 0),
    ]
}
