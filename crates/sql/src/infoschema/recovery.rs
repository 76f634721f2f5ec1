//! How far the replay of the log is, or how it went: one row, and the `Esker_recovery_…` values of SHOW STATUS.
//!
//! Neighbours: the engine counts; the server's log and the progress bar on a terminal show the same figures
//! through [`rate`] and [`left`].
//! **Invariants**: the table and SHOW STATUS show the same figures, times in milliseconds; as the tables about
//! the log, it shows its row only to who has the PROCESS privilege.

use std::time::Duration;

use esker_engine::{ReplayPhase, ReplayProgress};
use esker_types::Value;

use super::{Viewer, text};
use crate::instance::Instance;

/// The row of the table; None when it is another one.
pub(super) fn rows(table: &str, viewer: &Viewer) -> Option<Vec<Vec<Value>>> {
    if table != "ESKER_RECOVERY" {
        return None;
    }
    if !viewer.may("PROCESS") {
        return Some(Vec::new());
    }
    let cell = |(_, figure)| match figure {
        Figure::Word(word) => text(word),
        Figure::Number(number) => Value::UInt(number),
    };
    Some(vec![figures(&viewer.instance).map(cell).to_vec()])
}

/// The values of SHOW STATUS.
pub(crate) fn status(instance: &Instance) -> Vec<(&'static str, String)> {
    let shown = |(name, figure)| match figure {
        Figure::Word(word) => (name, word),
        Figure::Number(number) => (name, number.to_string()),
    };
    figures(instance).map(shown).to_vec()
}

/// A value of the row.
enum Figure {
    Word(String),
    Number(u64),
}

/// Names in SHOW STATUS with their values, in the order of the table's columns.
fn figures(instance: &Instance) -> [(&'static str, Figure); 15] {
    use Figure::{Number, Word};
    let progress = instance.engine().replay();
    let millis = |time: Duration| Number(time.as_millis() as u64);
    let mode = instance.globals.named("esker_recovery_mode");
    [
        (
            "Esker_recovery_phase",
            Word(phase(progress.phase).to_owned()),
        ),
        ("Esker_recovery_mode", Word(mode.as_text().to_owned())),
        (
            "Esker_recovery_threads",
            Number(instance.variable_u64("esker_recovery_threads")),
        ),
        ("Esker_recovery_bytes_done", Number(progress.bytes_done)),
        ("Esker_recovery_bytes_total", Number(progress.bytes_total)),
        ("Esker_recovery_bytes_per_second", Number(rate(&progress))),
        ("Esker_recovery_records", Number(progress.records)),
        ("Esker_recovery_rows", Number(progress.rows)),
        ("Esker_recovery_shards_built", Number(progress.shards_built)),
        ("Esker_recovery_shards_total", Number(progress.shards_total)),
        ("Esker_recovery_elapsed", millis(progress.elapsed)),
        ("Esker_recovery_until_ready", millis(progress.until_ready)),
        ("Esker_recovery_time_left", millis(left(&progress))),
        ("Esker_recovery_flushes", Number(progress.flushes)),
        ("Esker_recovery_peak_bytes", Number(progress.peak_bytes)),
    ]
}

/// A phase in a word.
pub fn phase(phase: ReplayPhase) -> &'static str {
    match phase {
        ReplayPhase::Reading => "READING",
        ReplayPhase::Sorting => "BUILDING",
        ReplayPhase::Done => "DONE",
        ReplayPhase::Failed => "FAILED",
    }
}

/// Bytes of the log read per second.
pub fn rate(progress: &ReplayProgress) -> u64 {
    let seconds = progress.until_ready.as_secs_f64();
    match seconds > 0.0 {
        true => (progress.bytes_done as f64 / seconds) as u64,
        false => 0,
    }
}

/// How long it will still take if it goes on as it went. While the log is being read, nothing is known about what
/// comes after.
pub fn left(progress: &ReplayProgress) -> Duration {
    match progress.phase {
        ReplayPhase::Reading => share_left(
            (progress.bytes_done, progress.bytes_total),
            progress.until_ready,
        ),
        ReplayPhase::Sorting => share_left(
            (progress.shards_built, progress.shards_total),
            progress.elapsed.saturating_sub(progress.until_ready),
        ),
        ReplayPhase::Done | ReplayPhase::Failed => Duration::ZERO,
    }
}

/// How long the rest takes when `done` of `total` took so long.
fn share_left((done, total): (u64, u64), took: Duration) -> Duration {
    match done {
        0 => Duration::ZERO,
        _ => took.mul_f64(total.saturating_sub(done) as f64 / done as f64),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_goes_on_as_it_went() {
        let done = (500, 2000);
        let took = Duration::from_secs(2);
        assert_eq!(share_left(done, took), Duration::from_secs(6));
        assert_eq!(share_left((0, 10), took), Duration::ZERO);
        assert_eq!(share_left((10, 10), took), Duration::ZERO);
    }
}
