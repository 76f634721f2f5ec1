//! Power loss at random I/O under a binary log: 40 seeds, or `ESKER_SIM_SEEDS`, from `ESKER_SIM_FIRST_SEED` on.

use esker_sim::binlog;

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name)
        .ok()
        .and_then(|v| v.parse().ok())
        .unwrap_or(default)
}

#[test]
fn files_have_what_the_table_has_after_power_loss() {
    let first = setting("ESKER_SIM_FIRST_SEED", 1);
    let seeds = setting("ESKER_SIM_SEEDS", 40);
    let (mut transactions, mut files) = (0, 0);
    for seed in first..first + seeds {
        let report = binlog::run(seed, 4);
        transactions += report.transactions;
        files += report.files;
    }
    assert!(
        transactions > 10 * seeds && files > 3 * seeds,
        "{transactions} in {files}"
    );
}

#[test]
fn a_seed_repeats_itself() {
    assert_eq!(binlog::run(7, 3), binlog::run(7, 3));
}
