//! Power loss at random I/O under transfers: 1,000 seeds, or `ESKER_SIM_SEEDS`, from
//! `ESKER_SIM_FIRST_SEED` on, a quarter of them with each combination of early lock release and flush
//! pipelining.

use esker_sim::bank::{self, Combination};

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name)
        .ok()
        .and_then(|v| v.parse().ok())
        .unwrap_or(default)
}

#[test]
fn acknowledged_transfers_survive_power_loss() {
    let first = setting("ESKER_SIM_FIRST_SEED", 1);
    let seeds = setting("ESKER_SIM_SEEDS", 1000);
    let mut acknowledged = 0;
    let mut refused = 0;
    for seed in first..first + seeds {
        let report = bank::run(seed, 3);
        acknowledged += report.acknowledged;
        refused += report.refused;
    }
    assert!(
        acknowledged > seeds,
        "only {acknowledged} transfers acknowledged in {seeds} seeds"
    );
    assert!(seeds < 16 || refused > 0, "no lock was held for the log");
}

#[test]
fn every_combination_acknowledges_transfers() {
    for seed in 4..8 {
        let report = bank::run(seed, 8);
        assert!(report.acknowledged > 0, "{:?}", Combination::of(seed));
    }
}

#[test]
fn a_seed_repeats_itself() {
    for seed in [3, 14, 159] {
        assert_eq!(bank::run(seed, 4), bank::run(seed, 4));
    }
}
