//! All lockable names, and who waits for whom.
//!
//! Neighbours: `catalog` asks for the object of each table it publishes; [`super::LockSet`] reports
//! the waits.
//! **Invariants**
//! - At most one object lives per name; it lives as long as anybody refers to it.
//! - Lock order inside: the graph, then one object. An object never reaches for the graph.
//! - A cycle consists of waiting sessions only, so what the waiters hold is enough to find it.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use super::mode::MdlMode;
use super::object::{MdlObject, Waiter};

/// Names are swept for dead ones when there are this many, then when their number has doubled.
const SWEEP_AT: usize = 256;

/// What can be locked.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum MdlKey {
    /// Every change of anything (FLUSH TABLES WITH READ LOCK).
    Global,
    /// Every commit (FLUSH TABLES WITH READ LOCK).
    Commit,
    /// A database.
    Schema(Arc<str>),
    /// A table, existing or not.
    Table(Arc<str>, Arc<str>),
}

/// A waiting session as the graph knows it.
#[derive(Clone)]
pub(super) struct Pending {
    pub(super) id: u64,
    pub(super) object: Arc<MdlObject>,
    pub(super) mode: MdlMode,
    pub(super) waiter: Arc<Waiter>,
    pub(super) held: Arc<[(Arc<MdlObject>, MdlMode)]>,
}

struct Names {
    objects: HashMap<MdlKey, Weak<MdlObject>>,
    sweep_at: usize,
}

struct Inner {
    global: Arc<MdlObject>,
    commit: Arc<MdlObject>,
    names: Mutex<Names>,
    waiting: Mutex<HashMap<u64, Pending>>,
    next_id: AtomicU64,
}

/// The metadata lock manager. A handle; clones are the same manager.
#[derive(Clone)]
pub struct MetadataLocks {
    inner: Arc<Inner>,
}

impl Default for MetadataLocks {
    fn default() -> Self {
        Self::new()
    }
}

impl MetadataLocks {
    /// A manager with nothing locked.
    pub fn new() -> Self {
        let inner = Inner {
            global: Arc::new(MdlObject::new(MdlKey::Global)),
            commit: Arc::new(MdlObject::new(MdlKey::Commit)),
            names: Mutex::new(Names {
                objects: HashMap::new(),
                sweep_at: SWEEP_AT,
            }),
            waiting: Mutex::default(),
            next_id: AtomicU64::new(1),
        };
        Self {
            inner: Arc::new(inner),
        }
    }

    /// The global scope: statements that change something hold it `IntentionExclusive`.
    pub fn global(&self) -> &Arc<MdlObject> {
        &self.inner.global
    }

    /// The commit scope: a commit that wrote holds it `IntentionExclusive` meanwhile.
    pub fn commit(&self) -> &Arc<MdlObject> {
        &self.inner.commit
    }

    /// The object of a name.
    pub fn object(&self, key: MdlKey) -> Arc<MdlObject> {
        match key {
            MdlKey::Global => return self.inner.global.clone(),
            MdlKey::Commit => return self.inner.commit.clone(),
            MdlKey::Schema(_) | MdlKey::Table(..) => {}
        }
        let mut names = self.inner.names.lock();
        if let Some(object) = names.objects.get(&key).and_then(Weak::upgrade) {
            return object;
        }
        if names.objects.len() >= names.sweep_at {
            names.objects.retain(|_, object| object.strong_count() > 0);
            names.sweep_at = SWEEP_AT.max(names.objects.len() * 2);
        }
        let object = Arc::new(MdlObject::new(key.clone()));
        names.objects.insert(key, Arc::downgrade(&object));
        object
    }

    /// The object of a table's name.
    pub fn table(&self, schema: &str, name: &str) -> Arc<MdlObject> {
        self.object(MdlKey::Table(schema.into(), name.into()))
    }

    /// The object of a database's name.
    pub fn schema(&self, name: &str) -> Arc<MdlObject> {
        self.object(MdlKey::Schema(name.into()))
    }

    /// Number of sessions that wait.
    pub fn waiting(&self) -> usize {
        self.inner
            .waiting
            .lock()
            .values()
            .filter(|p| p.waiter.is_waiting())
            .count()
    }

    /// Number of names known, dead ones that were not swept yet included.
    #[cfg(test)]
    pub(super) fn names(&self) -> usize {
        self.inner.names.lock().objects.len()
    }

    pub(super) fn next_id(&self) -> u64 {
        self.inner.next_id.fetch_add(1, Ordering::Relaxed)
    }

    /// Enters a wait in the graph; true if it closes a cycle, and then it is not entered.
    pub(super) fn begin_wait(&self, pending: Pending) -> bool {
        let mut waiting = self.inner.waiting.lock();
        waiting.retain(|_, p| p.waiter.is_waiting());
        let id = pending.id;
        waiting.insert(id, pending);
        let deadlock = closes_cycle(&waiting, id);
        if deadlock {
            waiting.remove(&id);
        }
        deadlock
    }

    pub(super) fn end_wait(&self, id: u64) {
        self.inner.waiting.lock().remove(&id);
    }
}

/// Does the wait of `start` lead back to `start`?
fn closes_cycle(waiting: &HashMap<u64, Pending>, start: u64) -> bool {
    let mut seen = vec![start];
    let mut next = 0;
    while let Some(&id) = seen.get(next) {
        next += 1;
        let Some(wait) = waiting.get(&id) else {
            continue;
        };
        let ahead = wait.object.ahead_of(&wait.waiter);
        for (&other, blocker) in waiting {
            let blocks = other != id
                && blocker.waiter.is_waiting()
                && (holds_against(blocker, wait)
                    || ahead.iter().any(|w| Arc::ptr_eq(w, &blocker.waiter)));
            if !blocks {
                continue;
            }
            if other == start {
                return true;
            }
            if !seen.contains(&other) {
                seen.push(other);
            }
        }
    }
    false
}

fn holds_against(blocker: &Pending, wait: &Pending) -> bool {
    blocker
        .held
        .iter()
        .any(|(object, mode)| Arc::ptr_eq(object, &wait.object) && wait.mode.conflicts(*mode))
}
