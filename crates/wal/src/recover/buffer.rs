//! The bytes that were read: shared with whoever keeps a piece of them, reused if nobody does.
//!
//! **Invariants**
//! - Bytes that are shared never change.
//! - A buffer that somebody keeps is at most twice as large as what was read into it.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use parking_lot::Mutex;

/// Buffers that wait for the next reading; about one a thread is used at a time.
const KEPT_BUFFERS: usize = 64;

/// Bytes of the log. Payloads of records lie in them.
#[derive(PartialEq, Eq)]
pub struct LogBytes(Vec<u8>);

impl LogBytes {
    pub(crate) fn new(bytes: Vec<u8>) -> Self {
        Self(bytes)
    }

    /// What they cost: their room in memory, in bytes.
    pub fn capacity(&self) -> usize {
        self.0.capacity()
    }
}

impl Deref for LogBytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for LogBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LogBytes({} bytes)", self.len())
    }
}

/// Buffers nobody uses.
#[derive(Default)]
pub(crate) struct Buffers {
    free: Mutex<Vec<Vec<u8>>>,
}

impl Buffers {
    /// A buffer of this length; what is in it means nothing.
    pub(crate) fn take(&self, len: usize) -> Vec<u8> {
        let fits = |kept: &Vec<u8>| (len..=2 * len).contains(&kept.capacity());
        let mut free = self.free.lock();
        match free.iter().rposition(fits) {
            Some(at) => {
                let mut bytes = free.swap_remove(at);
                drop(free);
                bytes.resize(len, 0);
                debug_assert!(bytes.capacity() <= 2 * len);
                bytes
            }
            None => {
                drop(free);
                vec![0; len]
            }
        }
    }

    /// Takes a buffer back if nobody has kept it.
    pub(crate) fn give_back(&self, bytes: Arc<LogBytes>) {
        if let Some(LogBytes(bytes)) = Arc::into_inner(bytes) {
            let mut free = self.free.lock();
            if free.len() < KEPT_BUFFERS {
                free.push(bytes);
            }
        }
    }
}
