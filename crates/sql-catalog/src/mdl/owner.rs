//! What a session holds, so that others can see it: who blocks whom is asked from outside.
//!
//! Neighbours: [`super::LockSet`] changes its own; `manager` knows all owners and reads them.
//! **Invariants**: a lock is in the list before anybody can be told that it is in the way, but for the time between
//! its grant and its entry, in which `manager` knows it; objects are never locked while a list is.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::{Mutex, MutexGuard};

use super::manager::MdlKey;
use super::mode::{MdlDuration, MdlMode};
use super::object::MdlObject;

/// A lock held by a session.
pub(super) struct Held {
    pub(super) object: Arc<MdlObject>,
    pub(super) mode: MdlMode,
    pub(super) duration: MdlDuration,
}

/// A session as the lock manager knows it.
pub(super) struct Owner {
    pub(super) id: u64,
    /// Its connection id; 0: it has none (a prepared transaction, the server itself).
    connection: AtomicU64,
    held: Mutex<Vec<Held>>,
}

impl Owner {
    pub(super) fn new(id: u64) -> Self {
        Self {
            id,
            connection: AtomicU64::new(0),
            held: Mutex::default(),
        }
    }

    pub(super) fn set_connection(&self, id: u64) {
        self.connection.store(id, Ordering::Relaxed);
    }

    pub(super) fn connection(&self) -> Option<u64> {
        match self.connection.load(Ordering::Relaxed) {
            0 => None,
            id => Some(id),
        }
    }

    #[inline]
    pub(super) fn held(&self) -> MutexGuard<'_, Vec<Held>> {
        self.held.lock()
    }

    /// Does it hold what a request for `mode` on the object must wait for, other than in the mode `but_for`?
    pub(super) fn holds_against(
        &self,
        object: &Arc<MdlObject>,
        mode: MdlMode,
        but_for: Option<MdlMode>,
    ) -> bool {
        let held = self.held();
        let mut same = held.iter().filter(|h| Arc::ptr_eq(&h.object, object));
        same.any(|h| mode.conflicts(h.mode) && but_for != Some(h.mode))
    }
}

/// A lock or a request, as it is shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MdlInfo {
    /// What is locked.
    pub key: MdlKey,
    /// How.
    pub mode: MdlMode,
    /// For how long.
    pub duration: MdlDuration,
    /// False: it is waited for.
    pub is_granted: bool,
    /// Connection id of the session; None: a prepared transaction, or the server itself.
    pub connection: Option<u64>,
}
