//! Variables of replication that have two names: today's, and the one of the days of masters and slaves.
//!
//! Neighbours: SET GLOBAL gives both the same value; what reads them reads the new one. **Invariant**: an option file
//! may use either; of both the one that comes last counts.

use esker_sql_catalog::variables::Globals;

/// New names and old ones.
#[rustfmt::skip] // one line each, to be read as a table
const TWINS: &[(&str, &str)] = &[
    ("rpl_semi_sync_replica_enabled", "rpl_semi_sync_slave_enabled"),
    ("rpl_semi_sync_source_enabled", "rpl_semi_sync_master_enabled"),
    ("rpl_semi_sync_source_timeout", "rpl_semi_sync_master_timeout"),
    ("rpl_semi_sync_source_wait_for_replica_count", "rpl_semi_sync_master_wait_for_slave_count"),
    ("rpl_semi_sync_source_wait_no_replica", "rpl_semi_sync_master_wait_no_slave"),
    ("rpl_stop_replica_timeout", "rpl_stop_slave_timeout"),
    ("init_replica", "init_slave"),
    ("log_replica_updates", "log_slave_updates"),
    ("log_slow_replica_statements", "log_slow_slave_statements"),
    ("replica_exec_mode", "slave_exec_mode"),
    ("replica_net_timeout", "slave_net_timeout"),
    ("skip_replica_start", "skip_slave_start"),
    ("replica_parallel_workers", "slave_parallel_workers"),
    ("replica_pending_jobs_size_max", "slave_pending_jobs_size_max"),
    ("replica_preserve_commit_order", "slave_preserve_commit_order"),
    ("replica_skip_errors", "slave_skip_errors"),
    ("replica_transaction_retries", "slave_transaction_retries"),
    ("replica_type_conversions", "slave_type_conversions"),
    ("sql_replica_skip_counter", "sql_slave_skip_counter"),
];

/// The other name of a variable.
pub(super) fn twin(name: &str) -> Option<&'static str> {
    TWINS.iter().find_map(|(new, old)| match name {
        _ if name == *new => Some(*old),
        _ if name == *old => Some(*new),
        _ => None,
    })
}

/// Is a switch on, by either name?
pub(super) fn is_either_on(globals: &Globals, new: &str) -> bool {
    let old = twin(new).map(|old| globals.named(old).is_on());
    globals.named(new).is_on() || old == Some(true)
}

/// After the settings of a start: what was set by one name has the same value by the other.
pub(crate) fn adopt_names<'a>(globals: &Globals, set: impl Iterator<Item = &'a str>) {
    for name in set {
        let name = name.strip_prefix("loose_").unwrap_or(name);
        if let Some(twin) = twin(name) {
            globals.tell(twin, globals.named(name));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use esker_sql_catalog::variables::VarId;

    #[test]
    fn variables_have_two_names() {
        for (new, old) in TWINS {
            assert_eq!((twin(new), twin(old)), (Some(*old), Some(*new)));
            // What one takes, the other takes, and both begin with the same.
            let [new, old] = [new, old].map(|name| VarId::find(name).expect("variable").def());
            assert_eq!(new.kind, old.kind, "{}", new.name);
            assert_eq!(new.default, old.default, "{}", new.name);
            assert_eq!(new.scope, old.scope, "{}", new.name);
        }
        assert_eq!(twin("server_id"), None);
    }
}
