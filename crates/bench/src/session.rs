//! A logical session: one transaction after the other on the engine, with random numbers of its own.
//!
//! Neighbours: `workload` says what its transactions do; the executor runs many of them on a thread.
//!
//! **Invariants**
//! - A transaction is counted when its outcome may be told: it is durable, and so is all it has read.
//! - The victim of a deadlock is rolled back and counted; nothing else may fail.

use std::future::Future;
use std::pin::Pin;
use std::time::{Duration, Instant};

use esker_engine::{
    Acks, Engine, EngineError, Isolation, LockMode, LockOutcome, Result, Tree, Txn, View,
    WaitPolicy,
};
use esker_vfs::sim::SimRng;

use crate::executor::yield_now;
use crate::latency::Latencies;
use crate::phase::Phase;
use crate::workload::Workload;

/// How a transaction ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// It did what it was made for.
    Done,
    /// The row it wanted is not there (or there already), as the benchmark's definition expects it of a part
    /// of the transactions.
    Missed,
}

/// What a session has counted while the measurement ran.
#[derive(Debug, Default, Clone)]
pub(crate) struct Counts {
    /// Transactions that ended, missed ones included.
    pub(crate) transactions: u64,
    pub(crate) missed: u64,
    pub(crate) deadlocks: u64,
    /// From the beginning of a transaction to its answer.
    pub(crate) latencies: Latencies,
}

impl Counts {
    pub(crate) fn add(&mut self, outcome: Option<Outcome>, nanos: u64) {
        match outcome {
            None => self.deadlocks += 1,
            Some(outcome) => {
                self.transactions += 1;
                self.missed += u64::from(outcome == Outcome::Missed);
                self.latencies.add(nanos);
            }
        }
    }

    pub(crate) fn merge(&mut self, other: &Counts) {
        self.transactions += other.transactions;
        self.missed += other.missed;
        self.deadlocks += other.deadlocks;
        self.latencies.merge(&other.latencies);
    }
}

/// A session.
pub(crate) struct Session<'a> {
    pub(crate) id: u64,
    pub(crate) rng: SimRng,
    /// Transactions begun.
    pub(crate) begun: u64,
    pub(crate) txn: Txn,
    engine: Engine,
    /// Where the sessions of its thread wait for the log together; without it, it waits by itself.
    acks: Option<&'a Acks>,
    /// The last commit was not told at once.
    has_waited: bool,
    row: Vec<u8>,
}

impl<'a> Session<'a> {
    pub(crate) fn new(engine: &Engine, acks: Option<&'a Acks>, id: u64, seed: u64) -> Self {
        // Sessions must not draw the same numbers one after the other.
        let seed = SimRng::new(seed ^ id.rotate_left(32)).next_u64();
        Session {
            id,
            rng: SimRng::new(seed),
            begun: 0,
            txn: engine.begin(Isolation::ReadCommitted),
            engine: engine.clone(),
            acks,
            has_waited: false,
            row: Vec::new(),
        }
    }

    /// Runs transactions until the measurement is over.
    pub(crate) async fn run(mut self, workload: &Workload, phase: &Phase) -> Result<Counts> {
        let mut counts = Counts::default();
        while !phase.is_over() {
            let start = Instant::now();
            let outcome = self.attempt(workload).await?;
            if phase.is_measuring() {
                counts.add(outcome, nanos(start.elapsed()));
            }
            // Whoever has waited for the log has let the others have their turn.
            if !std::mem::take(&mut self.has_waited) {
                yield_now().await;
            }
        }
        Ok(counts)
    }

    /// Runs one transaction; `None` if it was the victim of a deadlock.
    pub(crate) async fn attempt(&mut self, workload: &Workload) -> Result<Option<Outcome>> {
        self.begun += 1;
        self.txn.new_statement();
        match workload.transaction(self).await {
            Ok(outcome) => Ok(Some(outcome)),
            Err(EngineError::Deadlock) => {
                self.txn.rollback();
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// Locks a row for writing.
    pub(crate) async fn lock(&mut self, tree: &Tree, key: &[u8]) -> Result<()> {
        loop {
            let outcome = self
                .txn
                .lock(tree.id(), key, LockMode::Exclusive, WaitPolicy::Wait)?;
            match outcome {
                LockOutcome::Granted { .. } => return Ok(()),
                LockOutcome::Wait(ticket) => ticket.await?,
                LockOutcome::Skipped => unreachable!("only asked to skip"),
            }
        }
    }

    /// Locks a row and changes it in place; false if it is not there.
    pub(crate) async fn update(
        &mut self,
        tree: &Tree,
        key: &[u8],
        change: impl FnOnce(&mut [u8]),
    ) -> Result<bool> {
        self.lock(tree, key).await?;
        let row = &mut self.row;
        row.clear();
        let found = self.txn.get_with(tree, key, View::Latest, |value| {
            row.extend_from_slice(value);
        })?;
        if found.is_some() {
            change(row);
            self.txn.put(tree, key, row)?;
        }
        Ok(found.is_some())
    }

    /// Commits and waits until the outcome may be told.
    pub(crate) async fn commit(&mut self) -> Result<()> {
        let commit = self.txn.commit()?;
        let seq = commit.seq.unwrap_or(0).max(self.txn.dependency());
        let has_waited = &mut self.has_waited;
        match self.acks {
            Some(acks) => noting(acks.wait(seq), has_waited).await,
            None if seq > self.engine.durable_seq() => {
                noting(self.engine.wait_durable(seq), has_waited).await
            }
            None => Ok(()),
        }
    }
}

/// Notes whether the thread did something else meanwhile.
async fn noting<F: Future + Unpin>(mut future: F, has_waited: &mut bool) -> F::Output {
    std::future::poll_fn(|context| {
        let polled = Pin::new(&mut future).poll(context);
        *has_waited |= polled.is_pending();
        polled
    })
    .await
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
