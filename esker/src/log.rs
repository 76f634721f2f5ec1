//! Where the lines of the server's log go: standard error, or the file that `log_error` names.
//!
//! Neighbours: `serve` chooses the place before the server starts; `bar` makes room for lines on a terminal; the server
//! calls [`reopen`] at SIGHUP and FLUSH LOGS.
//! **Invariants**: a line is written whole and to one place; a file that cannot be opened anew stays the one in use, so
//! no line is lost while files are rotated.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use crate::bar::AboveBar;

/// `log_error` for standard error.
const STDERR: &str = "stderr";

/// The file in use; None: standard error.
static FILE: Mutex<Option<Open>> = Mutex::new(None);

struct Open {
    path: PathBuf,
    file: File,
}

/// Everything from here on goes where `log_error` says, relative to the data directory.
pub(crate) fn send_to(log_error: &str, data_dir: &Path) -> Result<(), String> {
    if log_error.is_empty() || log_error == STDERR {
        return Ok(());
    }
    if Path::new(log_error).is_relative() {
        let made = std::fs::create_dir_all(data_dir);
        made.map_err(|e| format!("cannot make {}: {e}", data_dir.display()))?;
    }
    let path = data_dir.join(log_error);
    let file = open(&path)?;
    *lock() = Some(Open { path, file });
    Ok(())
}

/// Opens the file anew, which was renamed to begin another.
pub(crate) fn reopen() -> Result<(), String> {
    let mut current = lock();
    if let Some(open_file) = &mut *current {
        open_file.file = open(&open_file.path)?;
    }
    Ok(())
}

fn open(path: &Path) -> Result<File, String> {
    if let Some(dir) = path.parent().filter(|dir| !dir.exists()) {
        return Err(format!("log_error: there is no folder {}", dir.display()));
    }
    let file = OpenOptions::new().create(true).append(true).open(path);
    file.map_err(|e| format!("log_error: cannot open {}: {e}", path.display()))
}

fn lock() -> std::sync::MutexGuard<'static, Option<Open>> {
    // A panic while a line was written leaves the place as it was.
    FILE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Writes lines to the place in use.
pub(crate) struct Sink;

impl Write for Sink {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        match &mut *lock() {
            Some(open_file) => open_file.file.write(line),
            None => AboveBar.write(line),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match &mut *lock() {
            Some(open_file) => open_file.file.flush(),
            None => AboveBar.flush(),
        }
    }
}
