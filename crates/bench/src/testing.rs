//! What the tests of the workloads share.
//!
//! Neighbours: unit tests of this crate only.
//!
//! **Invariants**
//! - Every session runs the number of transactions it is told, whatever deadlocks there are.

use esker_engine::{Acks, Engine, EngineConfig};
use esker_vfs::Env;
use esker_vfs::sim::SimFs;

use crate::executor::{run_all, yield_now};
use crate::session::{Counts, Session};
use crate::workload::Workload;

/// An engine in memory.
pub(crate) fn engine() -> Engine {
    let mut env = Env::os();
    env.fs = std::sync::Arc::new(SimFs::new());
    let mut config = EngineConfig::new("/bench");
    config.log_segment_bytes = 4 << 20;
    config.log_buffer_bytes = 1 << 20;
    Engine::open(env, config).expect("opens")
}

/// Runs `sessions` sessions of `each` transactions on this thread.
pub(crate) fn run_some(engine: &Engine, workload: &Workload, sessions: u64, each: u64) -> Counts {
    let acks = &Acks::new(engine);
    let futures = (0..sessions)
        .map(|id| async move {
            let mut session = Session::new(engine, Some(acks), id, 42);
            let mut counts = Counts::default();
            while counts.transactions < each {
                let outcome = session.attempt(workload).await.expect("runs");
                counts.add(outcome, 0);
                yield_now().await;
            }
            counts
        })
        .collect();
    let mut total = Counts::default();
    run_all(futures, Some(acks))
        .iter()
        .for_each(|counts| total.merge(counts));
    total
}
