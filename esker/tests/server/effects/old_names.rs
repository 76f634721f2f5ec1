//! Variables of replication have the names of two ages: who sets one sets the other, whose effect is seen elsewhere.

use super::start;
use crate::common::Ask;

#[test]
fn who_sets_the_one_sets_the_other() {
    // effect: rpl_semi_sync_slave_enabled, rpl_semi_sync_master_enabled, rpl_semi_sync_master_timeout
    // effect: rpl_semi_sync_master_wait_for_slave_count, rpl_semi_sync_master_wait_no_slave, log_slave_updates
    // effect: slave_exec_mode, slave_net_timeout, skip_slave_start, slave_parallel_workers
    // effect: slave_pending_jobs_size_max, slave_preserve_commit_order, slave_skip_errors
    // effect: slave_transaction_retries, slave_type_conversions
    #[rustfmt::skip] // one line each, to be read as a table
    const NAMES: [(&str, &str, &str); 15] = [
        ("rpl_semi_sync_slave_enabled", "rpl_semi_sync_replica_enabled", "1"),
        ("rpl_semi_sync_master_enabled", "rpl_semi_sync_source_enabled", "1"),
        ("rpl_semi_sync_master_timeout", "rpl_semi_sync_source_timeout", "77"),
        ("rpl_semi_sync_master_wait_for_slave_count", "rpl_semi_sync_source_wait_for_replica_count", "3"),
        ("rpl_semi_sync_master_wait_no_slave", "rpl_semi_sync_source_wait_no_replica", "0"),
        ("log_slave_updates", "log_replica_updates", "0"),
        ("slave_exec_mode", "replica_exec_mode", "IDEMPOTENT"),
        ("slave_net_timeout", "replica_net_timeout", "77"),
        ("skip_slave_start", "skip_replica_start", "1"),
        ("slave_parallel_workers", "replica_parallel_workers", "3"),
        ("slave_pending_jobs_size_max", "replica_pending_jobs_size_max", "2048"),
        ("slave_preserve_commit_order", "replica_preserve_commit_order", "0"),
        ("slave_skip_errors", "replica_skip_errors", "1062"),
        ("slave_transaction_retries", "replica_transaction_retries", "5"),
        ("slave_type_conversions", "replica_type_conversions", "ALL_LOSSY"),
    ];
    let options = NAMES.map(|(old, _, value)| format!("--{old}={value}"));
    let (server, _dir) = start(&options.each_ref().map(String::as_str));
    let mut c = server.connect();
    for (old, new, value) in NAMES {
        assert_eq!(c.value(&format!("SELECT @@GLOBAL.{new}")), value, "{old}");
    }
    let (server, _dir) = start(&[]);
    let mut c = server.connect();
    for (old, new, value) in NAMES {
        let literal = match value.parse::<u64>() {
            Ok(number) => number.to_string(),
            Err(_) => format!("'{value}'"),
        };
        match c.code(&format!("SET GLOBAL {old} = {literal}")) {
            None => assert_eq!(c.value(&format!("SELECT @@GLOBAL.{new}")), value, "{old}"),
            // Of the start.
            code => assert_eq!(code, Some(1238), "{old}"),
        }
    }
}
