//! Sizes that are whole numbers of blocks: MySQL rounds them down, and so one reads another number than one has set.
//!
//! Neighbours: `value` fits numbers with it. **Invariants**: every name is a variable's that holds a number; a block is
//! a power of two, and no variable's least value lies below one block unless it is 0.

/// Variables and the bytes of their blocks, by name; those that are not here have bytes of their own.
const BLOCKS: [(&str, u64); 25] = [
    ("binlog_cache_size", 4096),
    ("binlog_stmt_cache_size", 4096),
    ("innodb_log_buffer_size", 1024),
    ("join_buffer_size", 128),
    ("key_buffer_size", 4096),
    ("max_allowed_packet", 1024),
    ("max_binlog_cache_size", 4096),
    ("max_binlog_size", 4096),
    ("max_binlog_stmt_cache_size", 4096),
    ("max_heap_table_size", 1024),
    ("max_relay_log_size", 4096),
    ("net_buffer_length", 1024),
    ("query_alloc_block_size", 1024),
    ("query_prealloc_size", 1024),
    ("range_alloc_block_size", 1024),
    ("read_buffer_size", 4096),
    ("replica_max_allowed_packet", 1024),
    ("replica_pending_jobs_size_max", 1024),
    ("rpl_read_size", 4096),
    ("select_into_buffer_size", 4096),
    ("set_operations_buffer_size", 1024),
    ("slave_max_allowed_packet", 1024),
    ("slave_pending_jobs_size_max", 1024),
    ("transaction_alloc_block_size", 1024),
    ("transaction_prealloc_size", 1024),
];

/// A number that the variable can have: between the bounds, and a whole number of its blocks.
pub(super) fn fit(name: &str, value: u64, (min, max): (u64, u64)) -> u64 {
    let fitted = value.clamp(min, max);
    match BLOCKS.binary_search_by_key(&name, |(name, _)| name) {
        Ok(at) => fitted - fitted % BLOCKS[at].1,
        Err(_) => fitted,
    }
}

#[cfg(test)]
mod tests {
    use super::super::{VarId, VarKind};
    use super::*;

    #[test]
    fn numbers_are_bounded_and_whole_blocks() {
        let fit = |name, value| fit(name, value, (4096, u64::MAX));
        assert_eq!(fit("max_binlog_size", 1_000_001), 999_424);
        assert_eq!(fit("max_binlog_size", 4097), 4096);
        assert_eq!(fit("max_binlog_size", 5), 4096);
        assert_eq!(fit("join_buffer_size", 100_000), 99_968);
        assert_eq!(fit("max_heap_table_size", u64::MAX), u64::MAX - 1023);
        assert_eq!(fit("max_connections", 4099), 4099);
    }

    #[test]
    fn blocks_are_of_variables_that_hold_sizes() {
        assert!(BLOCKS.is_sorted());
        for (name, block) in BLOCKS {
            assert!(block.is_power_of_two(), "{name}");
            let def = VarId::find(name)
                .unwrap_or_else(|_| panic!("{name} is no variable"))
                .def();
            let VarKind::UInt { min, .. } = def.kind else {
                panic!("{name} is no size");
            };
            assert!(min == 0 || min >= block, "{name}");
        }
    }
}
