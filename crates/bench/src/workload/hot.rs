//! A few rows that everybody updates, some of them in each transaction, in any order.
//!
//! Neighbours: `session` gives locks, updates and the commit. The same test over the wire is
//! `bench/compare hot`.
//!
//! **Invariants**
//! - The counters of all rows add up to the updates committed.

use esker_engine::{Engine, Result, Tree};

use super::load::Loader;
use crate::session::{Outcome, Session};

const ROW_BYTES: usize = 180;

/// The loaded rows.
pub struct HotRows {
    tree: Tree,
    rows: u64,
    updates: u64,
}

impl HotRows {
    /// Makes and fills the table. Each transaction updates `updates` rows, which need not be different.
    pub fn load(engine: &Engine, rows: u64, updates: u64) -> Result<HotRows> {
        let tree = engine.create_tree()?;
        let mut loader = Loader::new(engine);
        for id in 0..rows {
            loader.put(&tree, &id.to_be_bytes(), &[0; ROW_BYTES])?;
        }
        loader.finish()?;
        Ok(HotRows {
            tree,
            rows,
            updates,
        })
    }

    pub(super) async fn transaction(&self, session: &mut Session<'_>) -> Result<Outcome> {
        for _ in 0..self.updates {
            let id = session.rng.below(self.rows);
            let found = session
                .update(&self.tree, &id.to_be_bytes(), count_up)
                .await?;
            assert!(found, "all rows were loaded");
        }
        session.commit().await?;
        Ok(Outcome::Done)
    }
}

fn count_up(row: &mut [u8]) {
    let counter: &mut [u8; 8] = row.first_chunk_mut().expect("rows have a counter");
    *counter = (u64::from_le_bytes(*counter) + 1).to_le_bytes();
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{engine, run_some};
    use crate::workload::Workload;
    use esker_engine::{Isolation, View};

    #[test]
    fn no_update_is_lost() {
        let engine = engine();
        let hot = HotRows::load(&engine, 4, 3).expect("loads");
        let tree = hot.tree.clone();
        let counts = run_some(&engine, &Workload::HotRows(hot), 8, 50);
        let txn = engine.begin(Isolation::ReadCommitted);
        let total: u64 = (0..4_u64)
            .map(|id| {
                let row = txn
                    .get(&tree, &id.to_be_bytes(), View::Snapshot)
                    .expect("reads")
                    .expect("there");
                u64::from_le_bytes(*row.first_chunk().expect("counter"))
            })
            .sum();
        assert_eq!(total, counts.transactions * 3);
        assert_eq!(counts.transactions, 8 * 50);
    }
}
