//! GTIDs that sessions have taken for themselves (`gtid_next = 'uuid:n'`).
//!
//! Neighbours: `session` takes and gives back; what is executed stands in the files' view. **Invariants**
//! - A GTID is at most one session's. One that was committed stays taken until the files have it, so nobody takes it
//!   between commit and derivation.
//! - Without a binary log what was committed is remembered here for good (`unlogged` keeps it); with one, nothing is.
//! - Numbers that the server gives itself never come here: they cost no lock.
//! - Transactions that are to stay without GTID are counted while they go on: whoever turns GTIDs on looks after the
//!   mode is set, and a session looks at the mode after it has counted itself, so one of them sees the other.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use esker_binlog::gtid::{Gtid, GtidSet};
use esker_types::{SqlError, SqlResult};
use parking_lot::{Condvar, Mutex};

/// What the files have by now is looked up when so many transactions were committed.
const SWEEP_AT: usize = 1024;

#[derive(Default)]
struct Entries {
    /// Sessions (connection ids) by what they own.
    owners: HashMap<Gtid, u64>,
    /// Owners that workers of replicas wait for, and how many do.
    wanted: HashMap<u64, usize>,
    /// Committed, and not in the files yet, as far as is known. A set, for it is mostly one interval: a session asks
    /// for every transaction that is applied, however far behind the files are.
    committed: GtidSet,
    /// How many were committed since it was last compared with the files.
    unswept: usize,
    /// What is executed, where there is no binary log to say so.
    unlogged: GtidSet,
    /// How many of them sessions have added since they were kept as one.
    loose: usize,
    /// What is about to be executed without a transaction: nobody takes it meanwhile.
    reserved: GtidSet,
}

impl Entries {
    /// Is it a session's, or about to be executed?
    fn is_busy(&self, gtid: &Gtid) -> bool {
        self.owners.contains_key(gtid) || self.reserved.contains(gtid)
    }

    /// Is it executed, as far as the files, which have `in_files`, and this know?
    fn is_executed(&self, gtid: &Gtid, in_files: &GtidSet) -> bool {
        in_files.contains(gtid) || self.unlogged.contains(gtid) || self.committed.contains(gtid)
    }

    /// One less waits for a GTID of this session.
    fn forget_wish(&mut self, owner: u64) {
        let left = self.wanted.get_mut(&owner).expect("it was counted");
        *left -= 1;
        if *left == 0 {
            self.wanted.remove(&owner);
        }
    }

    /// Forgets what the files have.
    fn sweep(&mut self, executed: &GtidSet) {
        self.committed.subtract(executed);
        self.unswept = 0;
    }
}

/// GTIDs that are taken.
#[derive(Default)]
pub(crate) struct OwnedGtids {
    entries: Mutex<Entries>,
    changed: Condvar,
    anonymous: Arc<AtomicU64>,
    waiting: Arc<AtomicU64>,
    tagged: Arc<AtomicU64>,
    /// Held by who replaces what is kept of those without a binary log.
    pub(super) keeping: Mutex<()>,
}

/// Somebody who is counted until this is dropped.
pub(crate) struct Counted(Arc<AtomicU64>);

impl Counted {
    fn among(number: &Arc<AtomicU64>) -> Self {
        number.fetch_add(1, Ordering::SeqCst);
        Self(number.clone())
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        let before = self.0.fetch_sub(1, Ordering::SeqCst);
        debug_assert!(before > 0, "whoever goes was counted");
    }
}

/// What came of an attempt to take a GTID.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Taken {
    /// It is the session's now.
    Owned,
    /// It is executed.
    Executed,
    /// It is another session's, or about to be executed without one.
    Busy,
}

/// Why GTIDs did not become executed.
#[derive(Debug, PartialEq)]
pub(super) enum NotAdded {
    /// Some are.
    Executed,
    /// A session has one, or its transaction is committed.
    Owned,
    /// It could not be written down.
    Failed(SqlError),
}

impl OwnedGtids {
    /// Takes a GTID for a session. `executed`: what the files have now; asked under the lock, for what another session
    /// has forgotten since would be in no older view.
    pub(crate) fn take(
        &self,
        gtid: &Gtid,
        session: u64,
        executed: impl FnOnce() -> Arc<GtidSet>,
    ) -> Taken {
        let mut entries = self.entries.lock();
        let executed = executed();
        if entries.is_executed(gtid, &executed) {
            return Taken::Executed;
        }
        if entries.unswept >= SWEEP_AT {
            entries.sweep(&executed);
        }
        if entries.is_busy(gtid) {
            return Taken::Busy;
        }
        entries.owners.insert(gtid.clone(), session);
        Taken::Owned
    }

    /// Is it executed? `executed` as above.
    pub(crate) fn is_executed(&self, gtid: &Gtid, executed: impl FnOnce() -> Arc<GtidSet>) -> bool {
        let entries = self.entries.lock();
        entries.is_executed(gtid, &executed())
    }

    /// Would a session have to wait for it?
    pub(crate) fn is_busy(&self, gtid: &Gtid) -> bool {
        self.entries.lock().is_busy(gtid)
    }

    /// Waits at most this long for a GTID to be given back. A worker `presses`: if the owner rests, it is undone.
    pub(crate) fn wait(&self, gtid: &Gtid, presses: bool, at_most: Duration) {
        let mut entries = self.entries.lock();
        if !entries.is_busy(gtid) {
            return;
        }
        let owner = entries.owners.get(gtid).copied().filter(|_| presses);
        if let Some(owner) = owner {
            *entries.wanted.entry(owner).or_default() += 1;
        }
        self.changed.wait_for(&mut entries, at_most);
        if let Some(owner) = owner {
            entries.forget_wish(owner);
        }
    }

    /// Does a worker of a replica wait for a GTID that this session owns?
    pub(crate) fn is_wanted(&self, session: u64) -> bool {
        self.entries.lock().wanted.contains_key(&session)
    }

    /// The session's transaction was rolled back, or there was none.
    pub(crate) fn give_back(&self, gtid: &Gtid) {
        self.entries.lock().owners.remove(gtid);
        self.changed.notify_all();
    }

    /// The session's transaction is committed, without a binary log. True: sessions have added many by now.
    pub(crate) fn executed_unlogged(&self, gtid: &Gtid) -> bool {
        let mut entries = self.entries.lock();
        entries.owners.remove(gtid);
        entries.unlogged.add(gtid);
        entries.loose += 1;
        let are_many = entries.loose >= SWEEP_AT;
        drop(entries);
        self.changed.notify_all();
        are_many
    }

    /// What is executed without a binary log.
    pub(crate) fn unlogged(&self) -> GtidSet {
        self.entries.lock().unlogged.clone()
    }

    /// It is this, at the start.
    pub(super) fn set_unlogged(&self, executed: GtidSet) {
        self.entries.lock().unlogged = executed;
    }

    /// GTIDs are executed from now on, if `keep` has written that down. Nobody takes one of them meanwhile.
    ///
    /// # Errors
    /// Some are executed or taken; of `keep`. Nothing has changed then.
    pub(super) fn add_unlogged(
        &self,
        gtids: &GtidSet,
        keep: impl FnOnce() -> SqlResult<()>,
    ) -> Result<(), NotAdded> {
        let mut entries = self.entries.lock();
        if entries.unlogged.intersects(gtids) {
            return Err(NotAdded::Executed);
        }
        let is_owned = entries.owners.keys().any(|gtid| gtids.contains(gtid));
        if is_owned || entries.committed.intersects(gtids) {
            return Err(NotAdded::Owned);
        }
        debug_assert!(entries.reserved.is_empty(), "one at a time");
        entries.reserved = gtids.clone();
        drop(entries);
        let kept = keep();
        let mut entries = self.entries.lock();
        entries.reserved = GtidSet::default();
        if kept.is_ok() {
            entries.unlogged.union(gtids);
        }
        drop(entries);
        self.changed.notify_all();
        kept.map_err(NotAdded::Failed)
    }

    /// What is executed by now is forgotten, if `keep` has written down that nothing but the result is; sessions may
    /// have added more meanwhile, which stays.
    ///
    /// # Errors
    /// Of `keep`. Nothing has changed then.
    pub(super) fn forget_unlogged(
        &self,
        keep: impl FnOnce(&GtidSet) -> SqlResult<GtidSet>,
    ) -> SqlResult<()> {
        let forgotten = self.unlogged();
        let left = keep(&forgotten)?;
        let mut entries = self.entries.lock();
        entries.unlogged.subtract(&forgotten);
        entries.unlogged.union(&left);
        drop(entries);
        self.changed.notify_all();
        Ok(())
    }

    /// What sessions have added is kept as one.
    pub(super) fn all_are_kept(&self) {
        self.entries.lock().loose = 0;
    }

    /// Waits at most this long until these are executed without a binary log; are they?
    pub(super) fn wait_unlogged(&self, wanted: &GtidSet, at_most: Duration) -> bool {
        let mut entries = self.entries.lock();
        if !entries.unlogged.contains_all(wanted) {
            self.changed.wait_for(&mut entries, at_most);
        }
        entries.unlogged.contains_all(wanted)
    }

    /// The session's transaction is committed, and the files will have it.
    pub(crate) fn committed(&self, gtid: &Gtid) {
        let mut entries = self.entries.lock();
        let owner = entries.owners.remove(gtid);
        debug_assert!(owner.is_some(), "who commits a GTID owns it");
        entries.committed.add(gtid);
        entries.unswept += 1;
        drop(entries);
        self.changed.notify_all();
    }

    /// RESET BINARY LOGS AND GTIDS: what was committed is forgotten.
    pub(crate) fn forget_committed(&self) {
        let mut entries = self.entries.lock();
        entries.committed = GtidSet::default();
        entries.unswept = 0;
    }

    /// A transaction begins that is to have no GTID.
    pub(crate) fn begin_anonymous(&self) -> Counted {
        Counted::among(&self.anonymous)
    }

    /// How many of them go on.
    pub(crate) fn anonymous(&self) -> u64 {
        self.anonymous.load(Ordering::SeqCst)
    }

    /// A session asks for tagged GTIDs of this server.
    pub(crate) fn begin_tagged(&self) -> Counted {
        Counted::among(&self.tagged)
    }

    /// Does one?
    pub(crate) fn is_any_tagged(&self) -> bool {
        self.tagged.load(Ordering::SeqCst) > 0
    }

    /// A session begins to wait for GTIDs that are to be executed.
    pub(crate) fn begin_waiting(&self) -> Counted {
        Counted::among(&self.waiting)
    }

    /// Does one wait?
    pub(crate) fn is_any_waiting(&self) -> bool {
        self.waiting.load(Ordering::SeqCst) > 0
    }

    /// Has a session one?
    pub(crate) fn is_any_taken(&self) -> bool {
        !self.entries.lock().owners.is_empty()
    }

    /// `@@GLOBAL.gtid_owned`.
    pub(crate) fn shown(&self) -> String {
        let entries = self.entries.lock();
        let mut owned: Vec<_> = entries.owners.iter().collect();
        owned.sort();
        let owned = owned.iter().map(|(gtid, id)| format!("{gtid}#{id}"));
        owned.collect::<Vec<_>>().join(",\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn take(owned: &OwnedGtids, gtid: &Gtid, session: u64, executed: &GtidSet) -> Taken {
        owned.take(gtid, session, || Arc::new(executed.clone()))
    }

    #[test]
    fn a_gtid_is_one_sessions_until_it_is_executed_or_given_back() {
        let owned = OwnedGtids::default();
        let gtid: Gtid = "11111111-1111-1111-1111-111111111111:7"
            .parse()
            .expect("GTID");
        let mut executed = GtidSet::default();
        assert_eq!(take(&owned, &gtid, 1, &executed), Taken::Owned);
        assert_eq!(take(&owned, &gtid, 2, &executed), Taken::Busy);
        assert!(owned.shown().ends_with(":7#1"));
        owned.give_back(&gtid);
        assert_eq!(take(&owned, &gtid, 2, &executed), Taken::Owned);
        owned.committed(&gtid);
        // The files do not have it yet.
        assert_eq!(take(&owned, &gtid, 1, &executed), Taken::Executed);
        assert_eq!(owned.shown(), "");
        executed.add(&gtid);
        assert_eq!(take(&owned, &gtid, 1, &executed), Taken::Executed);
    }

    #[test]
    fn without_a_binary_log_nothing_is_forgotten() {
        let owned = OwnedGtids::default();
        let gtid: Gtid = "11111111-1111-1111-1111-111111111111:7"
            .parse()
            .expect("GTID");
        let nothing = GtidSet::default();
        assert_eq!(take(&owned, &gtid, 1, &nothing), Taken::Owned);
        assert!(!owned.executed_unlogged(&gtid));
        assert_eq!(take(&owned, &gtid, 2, &nothing), Taken::Executed);
        assert!(owned.wait_unlogged(&owned.unlogged(), Duration::ZERO));
        let next: Gtid = "11111111-1111-1111-1111-111111111111:8"
            .parse()
            .expect("GTID");
        let kept = owned.forget_unlogged(|forgotten| {
            assert!(forgotten.contains(&gtid));
            // A session that had its own commits meanwhile.
            assert_eq!(take(&owned, &next, 1, &nothing), Taken::Owned);
            assert!(!owned.executed_unlogged(&next));
            Ok(GtidSet::default())
        });
        kept.expect("kept");
        assert_eq!(take(&owned, &gtid, 2, &nothing), Taken::Owned);
        assert_eq!(take(&owned, &next, 2, &nothing), Taken::Executed);
        let failed = owned.forget_unlogged(|_| Err(SqlError::new(1021, "HY000", "full")));
        assert!(failed.is_err() && owned.unlogged().contains(&next));
    }

    #[test]
    fn what_is_being_added_is_nobodys() {
        let owned = OwnedGtids::default();
        let nth = |n| -> Gtid {
            let text = format!("11111111-1111-1111-1111-111111111111:{n}");
            text.parse().expect("GTID")
        };
        let set = |text: &str| -> GtidSet {
            let text = format!("11111111-1111-1111-1111-111111111111:{text}");
            text.parse().expect("set")
        };
        let nothing = GtidSet::default();
        assert_eq!(take(&owned, &nth(9), 1, &nothing), Taken::Owned);
        let taken = owned.add_unlogged(&set("7-9"), || unreachable!("it is taken"));
        assert_eq!(taken, Err(NotAdded::Owned));
        let during = || {
            assert_eq!(take(&owned, &nth(3), 1, &nothing), Taken::Busy);
            assert!(owned.is_busy(&nth(3)) && owned.unlogged().is_empty());
        };
        let failed = SqlError::new(1021, "HY000", "full");
        let failure = owned.add_unlogged(&set("1-3"), || {
            during();
            Err(failed.clone())
        });
        assert_eq!(failure, Err(NotAdded::Failed(failed.clone())));
        assert!(owned.unlogged().is_empty() && !owned.is_busy(&nth(3)));
        let added = owned.add_unlogged(&set("1-3"), || {
            during();
            Ok(())
        });
        assert_eq!(added, Ok(()));
        assert_eq!(take(&owned, &nth(3), 1, &nothing), Taken::Executed);
        let again = owned.add_unlogged(&set("3-4"), || unreachable!("it is executed"));
        assert_eq!(again, Err(NotAdded::Executed));
    }

    #[test]
    fn what_the_files_have_is_forgotten() {
        let owned = OwnedGtids::default();
        let mut executed = GtidSet::default();
        let nth = |n| -> Gtid {
            let text = format!("11111111-1111-1111-1111-111111111111:{n}");
            text.parse().expect("GTID")
        };
        for n in 1..=SWEEP_AT as u64 {
            assert_eq!(take(&owned, &nth(n), 1, &GtidSet::default()), Taken::Owned);
            owned.committed(&nth(n));
            executed.add(&nth(n));
        }
        assert_eq!(owned.entries.lock().committed, executed);
        assert_eq!(take(&owned, &nth(0xffff), 1, &executed), Taken::Owned);
        assert!(owned.entries.lock().committed.is_empty());
        assert_eq!(take(&owned, &nth(1), 1, &executed), Taken::Executed);
    }
}
