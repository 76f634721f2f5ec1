//! Crashes under a binary log: power loss at random I/O of 40 seeds, or `ESKER_SIM_SEEDS`, from `ESKER_SIM_FIRST_SEED`
//! on; and power loss and kill at every `ESKER_SIM_STRIDE`th I/O of `ESKER_SIM_TRACES` traces.

use esker_binlog::files::Commits;
use esker_sim::binlog::{self, points};

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name)
        .ok()
        .and_then(|v| v.parse().ok())
        .unwrap_or(default)
}

#[test]
fn files_have_what_the_table_has_after_power_loss() {
    crash(Commits::OneSync);
}

#[test]
fn prepared_transactions_end_as_the_files_say_after_power_loss() {
    crash(Commits::TwoPhase);
}

fn crash(commits: Commits) {
    let first = setting("ESKER_SIM_FIRST_SEED", 1);
    let seeds = setting("ESKER_SIM_SEEDS", 40);
    let (mut transactions, mut files, mut ingests) = (0, 0, 0);
    for seed in first..first + seeds {
        let report = binlog::run(seed, 4, commits);
        transactions += report.transactions;
        files += report.files;
        ingests += report.ingests;
    }
    assert!(
        transactions > 10 * seeds && files > 3 * seeds && 2 * ingests > seeds,
        "{transactions} in {files}, {ingests} large"
    );
}

#[test]
fn files_have_what_the_table_has_after_a_crash_at_any_operation() {
    crash_at_every_operation(Commits::OneSync);
}

#[test]
fn prepared_transactions_end_as_the_files_say_after_a_crash_at_any_operation() {
    crash_at_every_operation(Commits::TwoPhase);
}

#[expect(clippy::print_stdout, reason = "the figures of a long run by hand")]
fn crash_at_every_operation(commits: Commits) {
    let first = setting("ESKER_SIM_FIRST_SEED", 1);
    let traces = setting("ESKER_SIM_TRACES", 2);
    let stride = setting("ESKER_SIM_STRIDE", 11);
    let (mut crashes, mut transactions) = (0, 0);
    for seed in first..first + traces {
        for death in [points::Death::Power, points::Death::Kill] {
            let came = points::run(seed, (1 + seed % stride, stride), commits, death);
            crashes += came.crashes;
            transactions += came.transactions;
        }
    }
    println!("{commits:?}: {crashes} crashes in {traces} traces");
    assert!(
        crashes * stride > 200 * traces && transactions > 20 * traces,
        "{crashes} crashes, {transactions} transactions"
    );
}

#[test]
fn a_seed_repeats_itself() {
    for commits in [Commits::OneSync, Commits::TwoPhase] {
        let run = || binlog::run(7, 3, commits);
        assert_eq!(run(), run());
    }
}
