//! What readers may see of the files, and waiting for it.
//!
//! Neighbours: `set` publishes; statements that show state of the binary log, and streams, wait here.
//! **Invariants**: a view is of one moment; its LSN never goes back while the server runs.

use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use super::names::FileNumber;
use crate::gtid::GtidSet;

/// A file that readers may open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileInfo {
    /// Its number.
    pub number: FileNumber,
    /// Bytes that may be read.
    pub size: u64,
}

/// The state of the binary log at one moment.
#[derive(Debug, Clone, Default)]
pub struct View {
    /// Files in order; the last one is being written.
    pub files: Vec<FileInfo>,
    /// Everything in the log below is in the files.
    pub lsn: u64,
    /// What is below will not be derived again.
    pub synced_lsn: u64,
    /// Transactions since the first file.
    pub ordinal: u64,
    /// What was executed.
    pub executed: Arc<GtidSet>,
    /// What of it is in no file.
    pub purged: Arc<GtidSet>,
}

/// The current view.
#[derive(Debug, Default)]
pub struct Published {
    view: Mutex<View>,
    changed: Condvar,
}

impl Published {
    pub(super) fn set(&self, view: View) {
        *self.view.lock() = view;
        self.changed.notify_all();
    }

    /// The current view.
    pub fn view(&self) -> View {
        self.view.lock().clone()
    }

    /// Waits until `is_there` holds of the view, at most this long; then the view, whatever it is.
    pub fn wait(&self, at_most: Duration, is_there: impl Fn(&View) -> bool) -> View {
        let until = Instant::now() + at_most;
        let mut view = self.view.lock();
        while !is_there(&view) {
            if self.changed.wait_until(&mut view, until).timed_out() {
                break;
            }
        }
        view.clone()
    }
}
