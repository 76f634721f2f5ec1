//! Sessions on simulated machines, without a server.
//!
//! `common` opens instances and asks them. Answers that must not depend on how they are found: `plan_cache`,
//! `short_reads`, `range_bounds`, `parallel_scan`, `column_batches`, `views`, `benchmark`. What outlives what:
//! `reader_rule`, `storage`, `statement_power_loss`, `schema_power_loss`.

mod benchmark;
mod column_batches;
mod common;
mod parallel_scan;
mod plan_cache;
mod range_bounds;
mod reader_rule;
mod schema_power_loss;
mod short_reads;
mod statement_power_loss;
mod storage;
mod views;
