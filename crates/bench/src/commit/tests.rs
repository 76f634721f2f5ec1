//! Short runs of every workload and switch.

use esker_vfs::{Fs, OsFs};

use super::*;

fn short(load: Load) -> Settings {
    let mut settings = Settings::new(load);
    settings.measure = Duration::from_millis(150);
    settings.sessions = 8;
    settings
}

fn quiet(settings: &Settings) -> Measured {
    measure(settings, &|_| {}).expect("runs")
}

/// Measures, and longer if it does not hold: on a busy machine little is done in a short time.
fn measured_until(settings: &Settings, holds: impl Fn(&Measured) -> bool) -> Measured {
    const LONGEST: Duration = Duration::from_secs(8);
    let mut settings = settings.clone();
    loop {
        let measured = quiet(&settings);
        settings.measure *= 4;
        if holds(&measured) || settings.measure > LONGEST {
            return measured;
        }
    }
}

const TPCB: Load = Load::TpcB {
    branches: 4,
    accounts: 50,
    skew: 1.0,
};

#[test]
fn every_workload_is_measured() {
    for load in [
        TPCB,
        Load::Tatp {
            subscribers: 100,
            mix: Mix::Standard,
        },
        Load::HotRows {
            rows: 8,
            updates: 2,
        },
    ] {
        let settings = short(load);
        let is_enough = |m: &Measured| m.transactions() > 0 && m.commits_per_flush() >= 1.0;
        let measured = measured_until(&settings, is_enough);
        assert!(measured.transactions() > 0);
        assert!(measured.flushes > 0);
        assert!(measured.commits_per_flush() >= 1.0);
        assert!(measured.latency_millis(50.0) > 0.0);
        assert!(measured.latency_millis(50.0) <= measured.latency_millis(99.0));
        let mut table = table("t");
        table.push(row(&settings, &measured));
        assert_eq!(table.len(), 1);
    }
}

#[test]
fn a_slow_sync_is_waited_for_unless_commit_is_asynchronous() {
    let latency = Duration::from_millis(20);
    let mut settings = short(TPCB);
    settings.sync_latency = latency;
    settings.pipelining = false;
    let waited = measured_until(&settings, |m| m.transactions() > 0);
    assert!(waited.latency_millis(50.0) >= 20.0);
    // Each of the eight waits for at least one sync per transaction.
    let most = 8.0 * (waited.elapsed.as_secs_f64() / latency.as_secs_f64() + 1.0);
    assert!(waited.transactions() as f64 <= most);
    settings.async_commit = true;
    // Of the others, some may wait for a processor.
    let fastest = |m: &Measured| m.latency_millis(0.0);
    let unsafe_run = measured_until(&settings, |m| m.transactions() > 0 && fastest(m) < 20.0);
    assert!(unsafe_run.transactions() > 0 && fastest(&unsafe_run) < 20.0);
}

#[test]
fn without_early_release_a_hot_row_waits_for_the_sync() {
    let latency = Duration::from_millis(10);
    let mut settings = short(Load::HotRows {
        rows: 1,
        updates: 1,
    });
    settings.sync_latency = latency;
    settings.elr = false;
    let held = quiet(&settings);
    let syncs = held.elapsed.as_secs_f64() / latency.as_secs_f64();
    assert!(held.transactions() as f64 <= syncs + 1.0);
    settings.elr = true;
    let released = measured_until(&settings, |m| m.commits_per_flush() > 1.0);
    assert!(released.commits_per_flush() > 1.0);
}

#[test]
fn the_real_disk_is_left_clean() {
    let dir = tempfile::tempdir().expect("directory");
    let mut settings = short(TPCB);
    settings.measure = Duration::from_millis(50);
    settings.dir = Some(dir.path().to_owned());
    let measured = measured_until(&settings, |m| m.transactions() > 0);
    assert!(measured.transactions() > 0);
    assert_eq!(OsFs.list(dir.path()).expect("lists"), Vec::<String>::new());
}

#[test]
fn latencies_are_read_as_they_are_shown() {
    for text in ["0", "100us", "1ms", "10ms", "2s"] {
        let latency = parse_latency(text).expect("is good");
        assert_eq!(show_latency(latency), text);
    }
    for text in ["", "ms", "5", "-1ms", "1h", "11s"] {
        assert!(parse_latency(text).is_err(), "{text}");
    }
    assert!(parse_skew("5.1").is_err() && parse_skew("NaN").is_err());
    assert!(parse_seconds("0").is_err() && parse_seconds("inf").is_err());
}
