//! Row locks, metadata locks, and who waits for whom.
//!
//! Neighbours: `infoschema::locks` makes the rows, which the tables of INFORMATION_SCHEMA show, too.
//! **Invariant**: an owner is named by its thread, which has the id of its connection.

use super::super::locks;
use super::super::source::Source;

pub(super) static SOURCES: &[Source] = &[
    Source::new("data_locks", DATA_LOCKS, locks::data_locks),
    Source::new("data_lock_waits", DATA_LOCK_WAITS, locks::lock_waits),
    Source::new("metadata_locks", METADATA_LOCKS, locks::metadata_locks),
];

const DATA_LOCKS: &[&str] = &[
    "ENGINE",
    "ENGINE_LOCK_ID",
    "ENGINE_TRANSACTION_ID",
    "THREAD_ID",
    "EVENT_ID",
    "OBJECT_SCHEMA",
    "OBJECT_NAME",
    "PARTITION_NAME",
    "SUBPARTITION_NAME",
    "INDEX_NAME",
    "OBJECT_INSTANCE_BEGIN",
    "LOCK_TYPE",
    "LOCK_MODE",
    "LOCK_STATUS",
    "LOCK_DATA",
];

const DATA_LOCK_WAITS: &[&str] = &[
    "ENGINE",
    "REQUESTING_ENGINE_LOCK_ID",
    "REQUESTING_ENGINE_TRANSACTION_ID",
    "REQUESTING_THREAD_ID",
    "REQUESTING_EVENT_ID",
    "REQUESTING_OBJECT_INSTANCE_BEGIN",
    "BLOCKING_ENGINE_LOCK_ID",
    "BLOCKING_ENGINE_TRANSACTION_ID",
    "BLOCKING_THREAD_ID",
    "BLOCKING_EVENT_ID",
    "BLOCKING_OBJECT_INSTANCE_BEGIN",
];

const METADATA_LOCKS: &[&str] = &[
    "OBJECT_TYPE",
    "OBJECT_SCHEMA",
    "OBJECT_NAME",
    "COLUMN_NAME",
    "OBJECT_INSTANCE_BEGIN",
    "LOCK_TYPE",
    "LOCK_DURATION",
    "LOCK_STATUS",
    "SOURCE",
    "OWNER_THREAD_ID",
    "OWNER_EVENT_ID",
];
