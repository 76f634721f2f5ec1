//! Rows of the tables of the schema `mysql`.
//!
//! Neighbours: `source` asks by table name. Parts: `grants` (accounts and what they may do) · `logs` (the logs of
//! statements) · `statistics` (sizes of tables and indexes, costs, time zones, GTIDs).
//! **Invariants**: the tables are for reading; CREATE USER, GRANT and the like change what they show. A table that is
//! not listed here has no rows: Esker has nothing of its kind.

mod grants;
mod logs;
mod statistics;

use super::performance;
use super::source::Source;

/// Every table that has rows.
pub(super) static SOURCES: &[&[Source]] = &[TABLES, logs::SOURCES];

static TABLES: &[Source] = &[
    Source::new("user", grants::USER, grants::users),
    Source::new(
        "replication_asynchronous_connection_failover",
        &[
            "Channel_name",
            "Host",
            "Port",
            "Network_namespace",
            "Weight",
        ],
        performance::other_sources,
    ),
    Source::new("db", grants::DB, grants::databases),
    Source::new("tables_priv", grants::TABLES_PRIV, grants::tables),
    Source::new("columns_priv", grants::COLUMNS_PRIV, grants::columns),
    Source::new("procs_priv", grants::PROCS_PRIV, grants::routines),
    Source::new("proxies_priv", grants::PROXIES_PRIV, grants::proxies),
    Source::new("role_edges", grants::ROLE_EDGES, grants::role_edges),
    Source::new(
        "default_roles",
        grants::DEFAULT_ROLES,
        grants::default_roles,
    ),
    Source::new("global_grants", grants::GLOBAL_GRANTS, grants::dynamic),
    Source::new(
        "password_history",
        grants::PASSWORD_HISTORY,
        grants::passwords,
    ),
    Source::new(
        "engine_cost",
        statistics::ENGINE_COST,
        statistics::engine_costs,
    ),
    Source::new(
        "server_cost",
        statistics::SERVER_COST,
        statistics::server_costs,
    ),
    Source::new(
        "gtid_executed",
        statistics::GTID_EXECUTED,
        statistics::gtids,
    ),
    Source::new(
        "innodb_table_stats",
        statistics::TABLE_STATS,
        statistics::tables,
    ),
    Source::new(
        "innodb_index_stats",
        statistics::INDEX_STATS,
        statistics::indexes,
    ),
    Source::new("time_zone", statistics::TIME_ZONE, statistics::zones),
    Source::new(
        "time_zone_name",
        statistics::TIME_ZONE_NAME,
        statistics::zone_names,
    ),
];
