//! TPC-B: move money on an account and sum it up in its teller and branch.
//!
//! Source: TPC Benchmark B, revision 2.0, as the Aether paper uses it (R. Johnson et al., "Aether: a scalable
//! approach to logging", PVLDB 3(1), 2010): branches and accounts are drawn with Zipf's distribution, to see
//! what early lock release is worth on hot rows. An account is of the teller's branch in 85 of 100 cases.
//! Fewer accounts per branch than the 100,000 of the standard keep it in memory.
//!
//! Neighbours: `session` gives locks, updates and the commit.
//!
//! **Invariants**
//! - The sums of the balances of all accounts, all tellers and all branches and of all history are equal.
//! - Rows are locked in one order (account, teller, branch): there are no deadlocks.

use esker_engine::{Engine, Result, Tree};

use super::load::Loader;
use crate::session::{Outcome, Session};
use crate::zipf::Zipf;

const TELLERS_PER_BRANCH: u64 = 10;
/// Bytes of a row of a branch, teller or account; the first eight are the balance.
const ROW_BYTES: usize = 100;
const HISTORY_BYTES: usize = 50;
const LOCAL_PERCENT: u64 = 85;
/// Amounts are between -999,999 and 999,999.
const AMOUNTS: u64 = 1_999_999;

/// The loaded database.
pub struct TpcB {
    branches: Tree,
    tellers: Tree,
    accounts: Tree,
    history: Tree,
    branch_count: u64,
    accounts_per_branch: u64,
    branch: Zipf,
    account: Zipf,
}

impl TpcB {
    /// Makes and fills the tables.
    pub fn load(
        engine: &Engine,
        branches: u64,
        accounts_per_branch: u64,
        skew: f64,
    ) -> Result<TpcB> {
        let tpcb = TpcB {
            branches: engine.create_tree()?,
            tellers: engine.create_tree()?,
            accounts: engine.create_tree()?,
            history: engine.create_tree()?,
            branch_count: branches,
            accounts_per_branch,
            branch: Zipf::new(branches, skew),
            account: Zipf::new(accounts_per_branch, skew),
        };
        let mut loader = Loader::new(engine);
        let row = [0; ROW_BYTES];
        for (tree, rows) in [
            (&tpcb.branches, branches),
            (&tpcb.tellers, branches * TELLERS_PER_BRANCH),
            (&tpcb.accounts, branches * accounts_per_branch),
        ] {
            for id in 0..rows {
                loader.put(tree, &id.to_be_bytes(), &row)?;
            }
        }
        loader.finish()?;
        Ok(tpcb)
    }

    pub(super) async fn transaction(&self, session: &mut Session<'_>) -> Result<Outcome> {
        let branch = self.branch.sample(&mut session.rng);
        let teller = branch * TELLERS_PER_BRANCH + session.rng.below(TELLERS_PER_BRANCH);
        let account = self.account(session, branch);
        let amount = session.rng.below(AMOUNTS) as i64 - AMOUNTS as i64 / 2;
        for (tree, id) in [
            (&self.accounts, account),
            (&self.tellers, teller),
            (&self.branches, branch),
        ] {
            let found = session
                .update(tree, &id.to_be_bytes(), |row| add(row, amount))
                .await?;
            assert!(found, "all rows were loaded");
        }
        self.note(session, account, teller, branch, amount)?;
        session.commit().await?;
        Ok(Outcome::Done)
    }

    fn account(&self, session: &mut Session<'_>, branch: u64) -> u64 {
        let others = self.branch_count - 1;
        let of = if others == 0 || session.rng.chance(LOCAL_PERCENT) {
            branch
        } else {
            // Any branch but this one.
            (branch + 1 + session.rng.below(others)) % self.branch_count
        };
        of * self.accounts_per_branch + self.account.sample(&mut session.rng)
    }

    /// A line of history. Its key is the session's own, so it needs no lock.
    fn note(
        &self,
        session: &mut Session<'_>,
        account: u64,
        teller: u64,
        branch: u64,
        amount: i64,
    ) -> Result<()> {
        let mut key = [0; 16];
        key[..8].copy_from_slice(&session.id.to_be_bytes());
        key[8..].copy_from_slice(&session.begun.to_be_bytes());
        let mut row = [0; HISTORY_BYTES];
        let fields = [amount as u64, account, teller, branch];
        for (place, field) in row.chunks_exact_mut(8).zip(fields) {
            place.copy_from_slice(&field.to_le_bytes());
        }
        session.txn.put(&self.history, &key, &row)
    }
}

fn add(row: &mut [u8], amount: i64) {
    let balance: &mut [u8; 8] = row.first_chunk_mut().expect("rows have a balance");
    *balance = (i64::from_le_bytes(*balance) + amount).to_le_bytes();
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{engine, run_some};
    use crate::workload::Workload;
    use esker_engine::{Direction, Isolation, View};
    use std::ops::Bound;

    fn sum(engine: &Engine, tree: &Tree) -> (i64, u64) {
        let txn = engine.begin(Isolation::ReadCommitted);
        let (lower, upper) = (Bound::Unbounded, Bound::Unbounded);
        let mut cursor = txn
            .scan(tree, lower, upper, Direction::Forward, View::Snapshot)
            .expect("opens");
        let (mut total, mut rows) = (0, 0);
        while let Some((_, row)) = cursor.next().expect("reads") {
            total += i64::from_le_bytes(*row.first_chunk().expect("balance"));
            rows += 1;
        }
        (total, rows)
    }

    #[test]
    fn all_sums_stay_equal() {
        let engine = engine();
        let tpcb = TpcB::load(&engine, 3, 20, 1.0).expect("loads");
        let trees = [&tpcb.accounts, &tpcb.tellers, &tpcb.branches, &tpcb.history].map(Tree::clone);
        let counts = run_some(&engine, &Workload::TpcB(tpcb), 4, 200);
        assert_eq!(counts.deadlocks, 0);
        assert_eq!(counts.missed, 0);
        let sums = trees.map(|tree| sum(&engine, &tree));
        assert_eq!(sums.map(|(_, rows)| rows), [60, 30, 3, 800]);
        assert!(
            sums.iter().all(|(total, _)| *total == sums[0].0),
            "{sums:?}"
        );
        assert_ne!(sums[0].0, 0);
    }

    #[test]
    fn accounts_are_of_other_branches_sometimes() {
        let engine = engine();
        let tpcb = TpcB::load(&engine, 10, 7, 0.0).expect("loads");
        let mut session = Session::new(&engine, None, 1, 1);
        const DRAWS: usize = 10_000;
        let local = (0..DRAWS)
            .filter(|_| {
                let account = tpcb.account(&mut session, 4);
                assert!(account < 70);
                account / 7 == 4
            })
            .count();
        assert!((8300..8700).contains(&local), "{local}");
    }
}
