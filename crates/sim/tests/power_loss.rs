//! Power loss at random I/O under transfers: 1,000 seeds, or `ESKER_SIM_SEEDS`, from
//! `ESKER_SIM_FIRST_SEED` on.

use esker_sim::bank;

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
    for seed in first..first + seeds {
        acknowledged += bank::run(seed, 3).acknowledged;
    }
    assert!(
        acknowledged > seeds,
        "only {acknowledged} transfers acknowledged in {seeds} seeds"
    );
}

#[test]
fn a_seed_repeats_itself() {
    for seed in [3, 14, 159] {
        assert_eq!(bank::run(seed, 4), bank::run(seed, 4));
    }
}
