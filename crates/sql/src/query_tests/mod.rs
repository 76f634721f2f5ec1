//! Tests of queries from text to rows, which need everything from the parser to DML.
//!
//! `rig` runs the statements. By floor: `bind`, `aliases` (names and types) · `plan`, `cost`, `cost_ends`, `conds`,
//! `equalities`, `group_keys`, `index_paths`, `needed`, `planned_again` (plans) · `exec`, `window`, `spill`, `profile`
//! (running them) · `oracle` (answers recorded from MySQL).
//! Neighbours: `dml::testing` makes the tables.
//! **Invariant**: what a test of a lower floor needs of an upper one stands here, not there.

mod aliases;
mod bind;
mod conds;
mod cost;
mod cost_ends;
mod equalities;
mod exec;
mod group_keys;
mod index_paths;
mod needed;
mod oracle;
mod plan;
mod planned_again;
mod profile;
mod rig;
mod spill;
mod window;
