//! The manager of metadata locks: all lockable names, and the waits-for graph of sessions.
//!
//! Neighbours: `catalog` asks for the object of each table it publishes; [`super::LockSet`] reports
//! the waits.
//! **Invariants**
//! - At most one object lives per name; it lives as long as anybody refers to it.
//! - Lock order inside: the graph, then the owners, then one owner's list or one object. An object never reaches for
//!   the graph, and no object is locked while an owner's list is.
//! - A cycle consists of waiting sessions only, so what the waiters hold is enough to find it.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use esker_engine::wait::Wakeup;
use esker_types::program::RoutineKind;
use parking_lot::Mutex;

use super::mode::{MdlDuration, MdlMode};
use super::object::{MdlObject, Waiter};
use super::owner::{Held, MdlInfo, Owner};

/// Names are swept for dead ones when there are this many, then when their number has doubled.
const SWEEP_AT: usize = 256;

/// What can be locked.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum MdlKey {
    /// Every change of anything (FLUSH TABLES WITH READ LOCK).
    Global,
    /// Every commit (FLUSH TABLES WITH READ LOCK).
    Commit,
    /// Every change of what there is (LOCK INSTANCE FOR BACKUP).
    Backup,
    /// A database.
    Schema(Arc<str>),
    /// A table, existing or not.
    Table(Arc<str>, Arc<str>),
    /// A procedure or function: its database, and its name in lower case.
    Routine(RoutineKind, Arc<str>, Arc<str>),
    /// An event: its database, and its name in lower case.
    Event(Arc<str>, Arc<str>),
    /// A tablespace.
    Tablespace(Arc<str>),
}

impl MdlKey {
    /// What a session that waits for it does, in MySQL's words.
    pub(super) fn stage(&self) -> &'static str {
        match self {
            Self::Global => "Waiting for global read lock",
            Self::Commit => "Waiting for commit lock",
            Self::Backup => "Waiting for backup lock",
            Self::Schema(_) => "Waiting for schema metadata lock",
            Self::Table(..) => "Waiting for table metadata lock",
            Self::Routine(RoutineKind::Function, ..) => "Waiting for stored function metadata lock",
            Self::Routine(RoutineKind::Procedure, ..) => {
                "Waiting for stored procedure metadata lock"
            }
            Self::Event(..) => "Waiting for event metadata lock",
            Self::Tablespace(_) => "Waiting for tablespace lock",
        }
    }
}

/// A waiting session as the graph knows it.
#[derive(Clone)]
pub(super) struct Pending {
    pub(super) owner: Arc<Owner>,
    pub(super) object: Arc<MdlObject>,
    pub(super) mode: MdlMode,
    pub(super) duration: MdlDuration,
    pub(super) waiter: Arc<Waiter>,
    /// What it has got in the same mode and gives back when it gives up the wait, which it does soon.
    pub(super) tentative: Arc<[Arc<MdlObject>]>,
}

impl Pending {
    /// Has it been granted what a request for `mode` on the object must wait for, and not taken it over yet?
    fn is_granted_against(&self, object: &Arc<MdlObject>, mode: MdlMode) -> bool {
        Arc::ptr_eq(&self.object, object) && mode.conflicts(self.mode) && self.waiter.is_granted()
    }

    /// Is its statement done again cheaply, and frees everything that it holds with its transaction? That is one on
    /// rows: schema changes have modes that are not fast, and LOCK TABLES and its kin outlive transactions.
    fn is_cheap(&self) -> bool {
        let is_of_rows =
            |held: &Held| held.mode.fast().is_some() && held.duration <= MdlDuration::Transaction;
        self.mode.fast().is_some() && self.owner.held().iter().all(is_of_rows)
    }

    /// Does it hold what a request for `mode` on the object must wait for, and keep it if it gives up the wait?
    fn keeps_against(&self, object: &Arc<MdlObject>, mode: MdlMode) -> bool {
        let is_tentative = self.tentative.iter().any(|t| Arc::ptr_eq(t, object));
        self.owner
            .holds_against(object, mode, is_tentative.then_some(self.mode))
    }
}

struct Names {
    objects: HashMap<MdlKey, Weak<MdlObject>>,
    sweep_at: usize,
}

struct Inner {
    global: Arc<MdlObject>,
    commit: Arc<MdlObject>,
    backup: Arc<MdlObject>,
    names: Mutex<Names>,
    waiting: Mutex<HashMap<u64, Pending>>,
    owners: Mutex<BTreeMap<u64, Arc<Owner>>>,
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
            backup: Arc::new(MdlObject::new(MdlKey::Backup)),
            names: Mutex::new(Names {
                objects: HashMap::new(),
                sweep_at: SWEEP_AT,
            }),
            waiting: Mutex::default(),
            owners: Mutex::default(),
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

    /// The scope of LOCK INSTANCE FOR BACKUP: statements that change what there is hold it `IntentionExclusive`.
    pub fn backup(&self) -> &Arc<MdlObject> {
        &self.inner.backup
    }

    /// The tables that sessions have locked with LOCK TABLES.
    pub fn locked_tables(&self) -> Vec<Arc<MdlObject>> {
        let is_locked = |lock: &MdlInfo| {
            let is_table = matches!(lock.key, MdlKey::Table(..));
            is_table && lock.is_granted && lock.duration == MdlDuration::Explicit
        };
        let locks = self.list().into_iter().filter(is_locked);
        locks.map(|lock| self.object(lock.key)).collect()
    }

    /// The object of a name.
    pub fn object(&self, key: MdlKey) -> Arc<MdlObject> {
        match key {
            MdlKey::Global => return self.inner.global.clone(),
            MdlKey::Commit => return self.inner.commit.clone(),
            MdlKey::Backup => return self.inner.backup.clone(),
            MdlKey::Schema(_)
            | MdlKey::Table(..)
            | MdlKey::Routine(..)
            | MdlKey::Event(..)
            | MdlKey::Tablespace(_) => {}
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

    /// The object of a routine's name.
    pub fn routine(&self, kind: RoutineKind, schema: &str, name: &str) -> Arc<MdlObject> {
        self.object(MdlKey::Routine(
            kind,
            schema.into(),
            name.to_lowercase().into(),
        ))
    }

    /// The object of an event's name.
    pub fn event(&self, schema: &str, name: &str) -> Arc<MdlObject> {
        self.object(MdlKey::Event(schema.into(), name.to_lowercase().into()))
    }

    /// The object of a tablespace's name.
    pub fn tablespace(&self, name: &str) -> Arc<MdlObject> {
        self.object(MdlKey::Tablespace(name.into()))
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

    pub(super) fn new_owner(&self) -> Arc<Owner> {
        let id = self.inner.next_id.fetch_add(1, Ordering::Relaxed);
        let owner = Arc::new(Owner::new(id));
        self.inner.owners.lock().insert(id, owner.clone());
        owner
    }

    pub(super) fn forget_owner(&self, id: u64) {
        self.inner.owners.lock().remove(&id);
    }

    /// Enters a wait in the graph; true if it is the victim of a cycle, and then it is not entered. `may_insist`: where
    /// the others of a cycle lose less, one of them is the victim.
    pub(super) fn begin_wait(&self, pending: Pending, may_insist: bool) -> bool {
        let mut waiting = self.inner.waiting.lock();
        // A grant is held, although its session does not know of it yet.
        waiting.retain(|_, p| p.waiter.is_waiting() || p.waiter.is_granted());
        let id = pending.owner.id;
        let insists = may_insist && !pending.is_cheap();
        waiting.insert(id, pending);
        let mut victims = Vec::new();
        while let Some(cycle) = cycle_of(&waiting, id, &victims) {
            let victim = cycle.into_iter().find(|other| waiting[other].is_cheap());
            let Some(victim) = victim.filter(|_| insists) else {
                waiting.remove(&id);
                return true;
            };
            victims.push(victim);
        }
        // One that is granted meanwhile is in no cycle any more.
        let refused = victims.iter().map(|victim| &waiting[victim]);
        let woken: Vec<Wakeup> = refused.flat_map(|p| p.object.refuse(&p.waiter)).collect();
        drop(waiting);
        woken.into_iter().for_each(Wakeup::wake);
        false
    }

    pub(super) fn end_wait(&self, id: u64) {
        self.inner.waiting.lock().remove(&id);
    }

    /// Connections that a request waits for, and the number of owners without one. `doors`: those too that only have
    /// their door closed at the moment, or will give back soon what they hold.
    pub(super) fn blockers(&self, wait: &Pending, doors: bool) -> (Vec<u64>, usize) {
        let waiting = self.inner.waiting.lock();
        let ahead = wait.object.ahead_of(&wait.waiter, doors);
        let owners = self.inner.owners.lock();
        let is_ahead = |id: &u64| {
            let other = waiting.get(id);
            other.is_some_and(|p| ahead.iter().any(|w| Arc::ptr_eq(w, &p.waiter)))
        };
        let is_granted = |id: &u64| {
            let other = waiting.get(id);
            other.is_some_and(|p| p.is_granted_against(&wait.object, wait.mode))
        };
        let holds = |id: &u64, owner: &Owner| match waiting.get(id) {
            Some(pending) if !doors => pending.keeps_against(&wait.object, wait.mode),
            _ => owner.holds_against(&wait.object, wait.mode, None),
        };
        let blocks = |(id, owner): &(&u64, &Arc<Owner>)| {
            **id != wait.owner.id && (holds(id, owner) || is_granted(id) || is_ahead(id))
        };
        let (mut connections, mut others) = (Vec::new(), 0);
        for (_, owner) in owners.iter().filter(blocks) {
            match owner.connection() {
                Some(id) => connections.push(id),
                None => others += 1,
            }
        }
        (connections, others)
    }

    /// Connections that one waits for, as far as metadata locks go.
    pub fn awaited_by(&self, connection: u64) -> Vec<u64> {
        let waiting = self.inner.waiting.lock();
        let mut all = waiting.values();
        let wait = all.find(|p| p.owner.connection() == Some(connection));
        let wait = wait.filter(|p| p.waiter.is_waiting()).cloned();
        drop(waiting);
        wait.map_or_else(Vec::new, |wait| self.blockers(&wait, true).0)
    }

    /// Which connection waits for which, as far as metadata locks go: the edges of the graph.
    pub fn waits(&self) -> Vec<(u64, u64)> {
        let waiting = self.inner.waiting.lock();
        let all: Vec<Pending> = waiting.values().cloned().collect();
        drop(waiting);
        let mut edges = Vec::new();
        for wait in all.iter().filter(|p| p.waiter.is_waiting()) {
            let Some(waiter) = wait.owner.connection() else {
                continue;
            };
            let (blockers, _) = self.blockers(wait, false);
            edges.extend(blockers.into_iter().map(|blocker| (waiter, blocker)));
        }
        edges
    }

    /// Asserts that the locks of owners are counted: for tests, while nobody takes or gives back a lock.
    pub fn validate(&self) {
        let owners: Vec<Arc<Owner>> = self.inner.owners.lock().values().cloned().collect();
        let named: Vec<Arc<MdlObject>> = {
            let names = self.inner.names.lock();
            names.objects.values().filter_map(Weak::upgrade).collect()
        };
        let scopes = [&self.inner.global, &self.inner.commit, &self.inner.backup];
        for object in scopes.into_iter().chain(&named) {
            let mut modes = Vec::new();
            for owner in &owners {
                let held = owner.held();
                let same = held.iter().filter(|h| Arc::ptr_eq(&h.object, object));
                modes.extend(same.map(|h| h.mode));
            }
            object.validate(&modes);
        }
    }

    /// Every lock that is held or waited for, by owner.
    pub fn list(&self) -> Vec<MdlInfo> {
        let waiting: HashMap<u64, Pending> = self.inner.waiting.lock().clone();
        let owners: Vec<Arc<Owner>> = self.inner.owners.lock().values().cloned().collect();
        let mut all = Vec::new();
        for owner in owners {
            let connection = owner.connection();
            all.extend(owner.held().iter().map(|h| MdlInfo {
                key: h.object.key().clone(),
                mode: h.mode,
                duration: h.duration,
                is_granted: true,
                connection,
            }));
            let is_shown = |p: &&Pending| p.waiter.is_waiting() || p.waiter.is_granted();
            let wait = waiting.get(&owner.id).filter(is_shown);
            all.extend(wait.map(|p| MdlInfo {
                key: p.object.key().clone(),
                mode: p.mode,
                duration: p.duration,
                is_granted: p.waiter.is_granted(),
                connection,
            }));
        }
        all
    }
}

/// The waits that lead from `start` back to `start`, which comes first, through none of `but_for`.
fn cycle_of(waiting: &HashMap<u64, Pending>, start: u64, but_for: &[u64]) -> Option<Vec<u64>> {
    // Each with the place of the one that waits for it.
    let mut seen = vec![(start, 0)];
    let mut next = 0;
    while let Some(&(id, _)) = seen.get(next) {
        let at = next;
        next += 1;
        let Some(wait) = waiting.get(&id) else {
            continue;
        };
        let ahead = wait.object.ahead_of(&wait.waiter, false);
        for (&other, blocker) in waiting {
            let blocks = other != id
                && !but_for.contains(&other)
                && blocker.waiter.is_waiting()
                && (blocker.keeps_against(&wait.object, wait.mode)
                    || ahead.iter().any(|w| Arc::ptr_eq(w, &blocker.waiter)));
            if !blocks {
                continue;
            }
            if other == start {
                return Some(path_to(&seen, at));
            }
            if seen.iter().all(|(id, _)| *id != other) {
                seen.push((other, at));
            }
        }
    }
    None
}

/// The way from the first one to the one at `at`.
fn path_to(seen: &[(u64, usize)], mut at: usize) -> Vec<u64> {
    let mut path = vec![seen[at].0];
    while at != 0 {
        at = seen[at].1;
        path.push(seen[at].0);
    }
    path.reverse();
    path
}
