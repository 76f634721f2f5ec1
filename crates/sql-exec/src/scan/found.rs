//! Clustered keys that a search has gathered before rows are read by them.
//!
//! Neighbours: `elements` (multi-valued indexes) and `union` (several indexes) gather; scans read the rows.
//! **Invariant**: what is kept is charged to the statement, in portions.

use esker_sql_catalog::exec_error::ExecResult;

use crate::ExecEnv;
use crate::memory::{Purpose, charge, refund};

/// What a kept key takes beyond its bytes.
const KEY_BYTES: u64 = 32;
/// Kept keys are charged in portions of so many bytes.
const CHARGED_BYTES: u64 = 64 * 1024;

/// Memory of kept keys.
#[derive(Default)]
pub(crate) struct KeptBytes {
    /// Bytes that are not charged yet, and that are.
    held: u64,
    charged: u64,
}

impl KeptBytes {
    /// A key is kept.
    pub fn add(&mut self, key: &[u8], env: &ExecEnv<'_>) -> ExecResult<()> {
        self.held += key.len() as u64 + KEY_BYTES;
        match self.held >= CHARGED_BYTES {
            true => self.charge(env),
            false => Ok(()),
        }
    }

    fn charge(&mut self, env: &ExecEnv<'_>) -> ExecResult<()> {
        charge(env, self.held, Purpose::Hash)?;
        self.charged += std::mem::take(&mut self.held);
        Ok(())
    }

    /// The keys are dropped.
    pub fn give_back(self, env: &ExecEnv<'_>) {
        refund(env, self.charged);
    }
}

/// Keys as they are found.
#[derive(Default)]
pub(crate) struct Found {
    pub keys: Vec<Box<[u8]>>,
    pub bytes: KeptBytes,
}

impl Found {
    pub fn add(&mut self, key: &[u8], env: &ExecEnv<'_>) -> ExecResult<()> {
        self.bytes.add(key, env)?;
        self.keys.push(key.into());
        Ok(())
    }

    /// All have been found: puts them in order, each once.
    pub fn finish(&mut self, env: &ExecEnv<'_>) -> ExecResult<()> {
        self.bytes.charge(env)?;
        self.keys.sort_unstable();
        self.keys.dedup();
        debug_assert_eq!(self.bytes.held, 0, "what is kept is charged");
        Ok(())
    }
}
