//! Deadlock detection: cycle search in the waits-for graph, and the choice of a victim.
//!
//! Neighbours: `lock::LockManager` calls it when a wait begins; there is no periodic search.
//!
//! The graph is not stored: an edge leads from a waiting transaction to every transaction that holds the row and keeps
//! it from being granted, or whose ranges are in its way. Those who stand before it in the same queue need no edges of
//! their own: each waits for nothing else than this row, so whatever blocks them is among the holders that are followed
//! anyway. This keeps a search linear when a thousand sessions queue for one row.
//!
//! **Invariants**
//! - One search at a time. Shards are visited one by one; a member of a cycle cannot move, so what was seen stays true
//!   unless a wait is given up meanwhile, and then the victim was one wait too many, never one too few.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use smallvec::SmallVec;

use super::owner::Place;
use super::{LockInfo, LockManager, LockOwner, OwnerId};
use crate::{EngineError, Result};

/// Locks of one member that an observer gets to see.
const SHOWN_LOCKS: usize = 16;
/// Members of one cycle that an observer gets to see, beside the victim.
const SHOWN_MEMBERS: usize = 32;

/// A cycle of waits that has been found.
pub struct Deadlock {
    /// Its members; each waits for the next one, and the last for the first. Of a long cycle the first ones, and the
    /// victim.
    pub members: Vec<DeadlockMember>,
    /// The member whose wait is about to end.
    pub victim: usize,
}

/// A transaction in a cycle.
pub struct DeadlockMember {
    /// Which transaction it is.
    pub owner: OwnerId,
    /// What it waits for, then some of what it has locked.
    pub locks: Vec<LockInfo>,
}

/// What is left to do about a deadlock when others may look for cycles again.
pub type AfterDeadlock = Box<dyn FnOnce() + Send>;

/// Whoever wants to know of deadlocks. It is called while the members still wait, and nobody else finds a cycle
/// meanwhile: it takes what it needs, waits for no locks, and gives back what it does later.
pub type DeadlockObserver = Box<dyn Fn(Deadlock) -> AfterDeadlock + Send + Sync>;

impl LockManager {
    /// Breaks every cycle that the wait of `requester` closes. An error means that the requester itself was chosen; it
    /// is no longer in the queue.
    pub(super) fn break_cycles(&self, requester: &Arc<LockOwner>) -> Result<()> {
        let mut left: SmallVec<[AfterDeadlock; 1]> = SmallVec::new();
        let outcome = self.break_each_cycle(requester, |later| left.push(later));
        left.into_iter().for_each(|later| later());
        outcome
    }

    /// The same; what the observer does afterwards goes to `later`.
    fn break_each_cycle(
        &self,
        requester: &Arc<LockOwner>,
        mut later: impl FnMut(AfterDeadlock),
    ) -> Result<()> {
        let _one_at_a_time = self.detecting.lock();
        while let Some(cycle) = self.find_cycle(requester) {
            let victim = choose_victim(requester, &cycle);
            let Some(victim) = victim else {
                // A member stopped waiting while we looked: there is no cycle any more.
                continue;
            };
            self.deadlocks.fetch_add(1, Ordering::Relaxed);
            if let Some(observer) = self.observer.get() {
                later(observer(self.described(&cycle, &victim)));
            }
            let ended = self.end_wait(&victim, EngineError::Deadlock);
            if Arc::ptr_eq(&victim, requester) {
                // If the wait ended otherwise in this very moment its ticket says how; the victim is not needed.
                return if ended {
                    Err(EngineError::Deadlock)
                } else {
                    Ok(())
                };
            }
        }
        Ok(())
    }

    fn described(&self, cycle: &[Arc<LockOwner>], victim: &Arc<LockOwner>) -> Deadlock {
        let member = |owner: &Arc<LockOwner>| DeadlockMember {
            owner: OwnerId::of(owner),
            locks: self.list(owner, SHOWN_LOCKS),
        };
        let is_victim = |owner: &Arc<LockOwner>| Arc::ptr_eq(owner, victim);
        let place = cycle.iter().position(is_victim);
        let place = place.expect("the victim is a member");
        let first = cycle.iter().take(SHOWN_MEMBERS);
        let last = cycle.get(place).filter(|_| place >= SHOWN_MEMBERS);
        let members: Vec<_> = first.chain(last).map(member).collect();
        let victim = place.min(SHOWN_MEMBERS);
        debug_assert!(victim < members.len());
        Deadlock { members, victim }
    }

    /// Has deadlocks told from now on; the first observer stays.
    pub(crate) fn observe(&self, observer: DeadlockObserver) {
        let _ = self.observer.set(observer);
    }

    /// The transactions of a cycle through `requester`, which comes first.
    fn find_cycle(&self, requester: &Arc<LockOwner>) -> Option<Vec<Arc<LockOwner>>> {
        // Depth first: the path from the requester, and for each member the blockers still to be followed.
        let mut visited: HashSet<*const LockOwner> = HashSet::new();
        let mut path = vec![(Arc::clone(requester), self.blockers(requester))];
        while let Some((_, todo)) = path.last_mut() {
            let Some(next) = todo.pop() else {
                path.pop();
                continue;
            };
            if Arc::ptr_eq(&next, requester) {
                debug_assert!(path.len() > 1, "nobody waits for itself");
                return Some(path.into_iter().map(|(owner, _)| owner).collect());
            }
            // Addresses stay unique during the search for those that can still be met: they wait or hold.
            if !visited.insert(Arc::as_ptr(&next)) {
                continue;
            }
            debug_assert!(path.len() <= visited.len(), "the path visits nobody twice");
            let blockers = self.blockers(&next);
            if !blockers.is_empty() {
                path.push((next, blockers));
            }
        }
        None
    }

    pub(super) fn blockers(&self, owner: &LockOwner) -> SmallVec<[Arc<LockOwner>; 4]> {
        let Some(waiting) = owner.waiting() else {
            return SmallVec::new();
        };
        match waiting.place {
            Place::Row(lock) => {
                let shard = self.shards[lock.shard as usize].0.lock();
                let row = shard.row(lock);
                row.map(|row| row.blockers(owner)).unwrap_or_default()
            }
            Place::Range(tree, key, want) => self.ranges.blockers(owner, tree, &key, want),
        }
    }
}

/// The member that has done the least; the requester if it is among them. `None` if a member no longer waits.
fn choose_victim(requester: &Arc<LockOwner>, cycle: &[Arc<LockOwner>]) -> Option<Arc<LockOwner>> {
    debug_assert!(
        Arc::ptr_eq(requester, &cycle[0]),
        "the requester closes the cycle"
    );
    let mut victim = Arc::clone(requester);
    let mut least = requester.waiting()?.work;
    for member in cycle {
        let work = member.waiting()?.work;
        if work < least {
            least = work;
            victim = Arc::clone(member);
        }
    }
    Some(victim)
}
