//! Power loss during recovery, ten times in a row: 200 seeds, or `ESKER_SIM_SEEDS`, from `ESKER_SIM_FIRST_SEED` on.

use esker_sim::nested;

/// Recoveries that lose power, after each life.
const CRASHES: u32 = 10;

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name)
        .ok()
        .and_then(|v| v.parse().ok())
        .unwrap_or(default)
}

#[test]
#[expect(clippy::print_stdout, reason = "the figures of a long run by hand")]
fn nested_crashes_take_nothing_back() {
    let first = setting("ESKER_SIM_FIRST_SEED", 1);
    let seeds = setting("ESKER_SIM_SEEDS", 200);
    let mut total = nested::Report::default();
    for seed in first..first + seeds {
        let report = nested::run(seed, CRASHES);
        total.events += report.events;
        total.interrupted += report.interrupted;
        total.nested = total.nested.max(report.nested);
        total.completed += report.completed;
        total.lives += report.lives;
        total.in_doubt += report.in_doubt;
        total.flushes += report.flushes;
    }
    println!("{seeds} seeds: {total:?}");
    // Each of these happened, and often.
    assert!(total.events > 10 * seeds, "{total:?}");
    assert!(total.interrupted > seeds, "{total:?}");
    assert!(total.lives > seeds, "{total:?}");
    assert!(
        seeds < 16 || total.nested >= u64::from(CRASHES),
        "{total:?}"
    );
    assert!(total.completed > seeds, "{total:?}");
    assert!(seeds < 16 || total.in_doubt > seeds / 4, "{total:?}");
    assert!(seeds < 16 || total.flushes > seeds / 4, "{total:?}");
}

#[test]
fn a_seed_repeats_itself() {
    for seed in [2, 71, 828] {
        assert_eq!(nested::run(seed, 4), nested::run(seed, 4));
    }
}
