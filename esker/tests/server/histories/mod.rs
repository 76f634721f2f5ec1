//! Histories of transactions that append to lists: no anomaly that their isolation level forbids, also with kills in
//! between.
//!
//! The approach is Elle's (Kingsbury and Alvaro, "Elle: inferring isolation anomalies from experimental observations"):
//! every appended number is unique, so a list tells who wrote it, in which order, and what each reader has missed.
//!
//! In flow order: `load` drives a server with several sessions and writes down what they asked and heard; `history` is
//! that; `checker` infers who came before whom and looks for cycles; `cycles` finds them. What is allowed where is in
//! the table of `checker`.
//!
//! Settings of the environment: `ESKER_HISTORY_TRANSACTIONS` (default 1500) of each level; `ESKER_HISTORY_KILLS`
//! (default 1) of the server meanwhile; `ESKER_HISTORY_SESSIONS` (default 6); `ESKER_HISTORY_SEED` (default 1);
//! `ESKER_HISTORY_PORT`: a running server that is asked instead of one that the test starts and kills, as root without
//! a password (its database `histories` is dropped). A long run by hand:
//!
//! ```text
//! ESKER_HISTORY_TRANSACTIONS=350000 ESKER_HISTORY_KILLS=50 cargo test -p esker --test server histories::
//! ```

mod checker;
mod checker_tests;
mod cycles;
mod history;
mod load;

use checker::check;
use history::Level;

use crate::common::setting;

/// Runs the load and checks what came of it.
#[expect(clippy::print_stdout, reason = "the figures of a long run by hand")]
fn run(level: Level) {
    let scale = load::Scale {
        transactions: setting("ESKER_HISTORY_TRANSACTIONS", 1500),
        kills: setting("ESKER_HISTORY_KILLS", 1),
        sessions: setting("ESKER_HISTORY_SESSIONS", 6).max(2),
        seed: setting("ESKER_HISTORY_SEED", 1),
        port: setting("ESKER_HISTORY_PORT", 0) as u16,
    };
    let history = load::drive(level, &scale);
    let found = check(&history, level);
    assert!(
        found.is_empty(),
        "{level:?} forbids {} of these:\n{}",
        found.len(),
        checker::report(&history, &found)
    );
    // What the level allows shows that sessions got in each other's way at all.
    let allowed = check(&history, Level::Serializable);
    let committed = history.committed();
    println!(
        "{level:?}: {committed} of {} committed, {} anomalies that the level allows",
        history.txns.len(),
        allowed.len()
    );
    assert!(
        committed as u64 > scale.transactions / 4,
        "{committed} committed"
    );
}

#[test]
fn read_committed_keeps_its_promises() {
    run(Level::ReadCommitted);
}

#[test]
fn repeatable_read_keeps_its_promises() {
    run(Level::RepeatableRead);
}

#[test]
fn serializable_keeps_its_promises() {
    run(Level::Serializable);
}
