//! The progress bars of a restart and of backups, on a terminal.
//!
//! Neighbours: `serve` hands the server a callback that draws it, and the log a writer that makes room for its lines.
//! **Invariants**: nothing is drawn where standard error is no terminal; a line of the log is never written into the
//! bar.

use std::io::{self, IsTerminal, Write};
use std::sync::OnceLock;

use esker_engine::{BackupProgress, ReplayPhase, ReplayProgress};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// A replay that has less log is over before anybody can read a bar.
const MIN_BYTES: u64 = 16 << 20;

const READING: &str =
    "recovery [{bar:40}] {bytes} of {total_bytes}, {binary_bytes_per_sec}, {eta} left";
const BUILDING: &str = "recovery [{bar:40}] statements run, {pos} of {len} shards built";

/// The bar that is drawn now, if one is.
static BAR: OnceLock<ProgressBar> = OnceLock::new();

/// Draws how far a replay is.
pub(crate) struct Bar {
    phase: Option<ReplayPhase>,
}

impl Bar {
    pub(crate) fn new() -> Self {
        Self { phase: None }
    }

    /// Draws it anew.
    pub(crate) fn show(&mut self, progress: &ReplayProgress) {
        if !io::stderr().is_terminal() || progress.bytes_total < MIN_BYTES {
            return;
        }
        let (template, done, total) = match progress.phase {
            ReplayPhase::Reading => (READING, progress.bytes_done, progress.bytes_total),
            ReplayPhase::Sorting => (BUILDING, progress.shards_built, progress.shards_total),
            ReplayPhase::Done | ReplayPhase::Failed => {
                if let Some(bar) = BAR.get() {
                    bar.finish_and_clear();
                }
                return;
            }
        };
        let bar =
            BAR.get_or_init(|| ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr()));
        if self.phase.replace(progress.phase) != Some(progress.phase) {
            bar.set_style(style(template));
        }
        bar.set_length(total);
        bar.set_position(done);
    }
}

const COPYING: &str = "[{bar:40}] {bytes} of {total_bytes}, {binary_bytes_per_sec}, {eta} left";

/// Draws how many bytes of a backup are done; goes when it is dropped.
pub(crate) struct ByteBar(Option<ProgressBar>);

impl ByteBar {
    pub(crate) fn new(what: &str) -> Self {
        let bar = io::stderr().is_terminal().then(|| {
            let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
            bar.set_style(style(&format!("{what} {COPYING}")));
            bar
        });
        Self(bar)
    }

    /// Is there a terminal?
    pub(crate) fn is_drawn(&self) -> bool {
        self.0.is_some()
    }

    pub(crate) fn show(&mut self, progress: BackupProgress) {
        if let Some(bar) = &self.0 {
            bar.set_length(progress.total);
            bar.set_position(progress.done);
        }
    }
}

impl Drop for ByteBar {
    fn drop(&mut self) {
        if let Some(bar) = &self.0 {
            bar.finish_and_clear();
        }
    }
}

fn style(template: &str) -> ProgressStyle {
    let style = ProgressStyle::with_template(template);
    style
        .expect("the template is a constant")
        .progress_chars("=> ")
}

/// Standard error for the lines of the log: above the bar, where there is one.
pub(crate) struct AboveBar;

impl Write for AboveBar {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        match BAR.get() {
            Some(bar) => bar.suspend(|| io::stderr().write(line)),
            None => io::stderr().write(line),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn templates_are_understood() {
        for template in [READING, BUILDING, COPYING] {
            style(template);
        }
    }
}
