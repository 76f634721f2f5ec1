//! Fills trees before a measurement.
//!
//! Neighbours: the workloads' constructors.
//!
//! **Invariants**
//! - On return of [`Loader::finish`] everything is committed and durable.

use esker_engine::{Engine, Isolation, Result, Tree, Txn};

/// Rows per transaction.
const BATCH_ROWS: u64 = 1000;

/// Puts rows in batches.
pub(super) struct Loader {
    engine: Engine,
    txn: Txn,
    seq: u64,
}

impl Loader {
    pub(super) fn new(engine: &Engine) -> Self {
        Loader {
            engine: engine.clone(),
            txn: engine.begin(Isolation::ReadCommitted),
            seq: 0,
        }
    }

    pub(super) fn put(&mut self, tree: &Tree, key: &[u8], row: &[u8]) -> Result<()> {
        self.txn.put(tree, key, row)?;
        if self.txn.write_count() >= BATCH_ROWS {
            self.commit()?;
        }
        Ok(())
    }

    fn commit(&mut self) -> Result<()> {
        if let Some(seq) = self.txn.commit()?.seq {
            self.seq = seq;
        }
        Ok(())
    }

    pub(super) fn finish(mut self) -> Result<()> {
        self.commit()?;
        self.engine.wait_durable(self.seq).block()
    }
}
