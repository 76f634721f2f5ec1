//! Workloads of the commit benchmark: TPC-B (`tpcb`), TATP (`tatp`), and updates of a few hot rows; `load` fills their
//! trees.
//!
//! Neighbours: `session` runs the transactions; each workload is a file with its own trees.
//!
//! **Invariants**
//! - A workload is loaded before its sessions begin and holds nothing that they change.

mod hot;
mod load;
mod tatp;
mod tpcb;

pub use hot::HotRows;
pub use tatp::{Mix, Tatp};
pub use tpcb::TpcB;

use esker_engine::Result;

use crate::session::{Outcome, Session};

/// A loaded workload.
pub enum Workload {
    /// Transfers: an account, a teller, a branch and a line of history.
    TpcB(TpcB),
    /// A mobile network's subscriber database.
    Tatp(Tatp),
    /// A few rows that everybody updates.
    HotRows(HotRows),
}

impl Workload {
    /// Runs one transaction to its answer.
    pub(crate) async fn transaction(&self, session: &mut Session<'_>) -> Result<Outcome> {
        match self {
            Workload::TpcB(workload) => workload.transaction(session).await,
            Workload::Tatp(workload) => workload.transaction(session).await,
            Workload::HotRows(workload) => workload.transaction(session).await,
        }
    }
}
