//! Seeded simulations of the whole engine on a disk that loses power.
//!
//! Neighbours: `esker-engine` is driven by hand on `esker-vfs`'s simulated disk; the tests of this crate run the
//! workloads over many seeds: `bank` (transfers with power loss), `nested` (power loss during recovery), `binlog` (the
//! binary log's files). Development only. **Invariant**: one thread, one seed: a run repeats exactly.

pub mod bank;
pub mod binlog;
pub mod nested;
