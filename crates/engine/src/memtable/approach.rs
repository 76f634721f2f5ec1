//! Brings the nodes of a group of keys, or those around their places, into the processor's caches before versions are
//! inserted there.
//!
//! Neighbours: `skiplist` inserts; [`super::Ascending`] has groups of versions whose keys ascend.
//!
//! A descent through a large list waits for memory at most of its nodes, one after the other, and a search of the key
//! index at each of its steps. `key_index` asks for the slots of the whole group at once. Here the descents of a group
//! take turns, and each asks for its next node before the others go on (asynchronous memory access chaining: Kocberber,
//! Falsafi, Grot, PVLDB 9(4), 2015).
//!
//! **Invariant**: nothing is changed, and nothing that is found is kept: whoever inserts searches for himself.

use std::cmp::Ordering as Cmp;

use esker_vfs::pages::prefetch_line;
use smallvec::SmallVec;

use super::GROUP;
use super::skiplist::{MAX_HEIGHT, Node, NodeRef, Place, SkipList, link_address};

/// A descent on its way.
struct Descent<'k> {
    place: Place<'k>,
    /// The last node that is known to be before the place.
    before: Option<NodeRef>,
    /// What follows it at this level. It was asked for and not looked at.
    after: *mut Node,
    level: usize,
}

impl SkipList {
    /// Asks for the nodes before and behind all these keys.
    pub(super) fn approach_places<'k>(&self, keys: impl Iterator<Item = &'k [u8]>) {
        let start = |key| Descent {
            place: Place::new(key, crate::Seq::MAX),
            before: None,
            after: self.following(None, MAX_HEIGHT - 1),
            level: MAX_HEIGHT - 1,
        };
        let mut descents: SmallVec<[Descent<'_>; GROUP]> = keys.map(start).collect();
        while !descents.is_empty() {
            descents.retain(|descent| descent.step(self));
        }
    }
}

impl Descent<'_> {
    /// Looks at one node and asks for the next. False: the place is found.
    fn step(&mut self, list: &SkipList) -> bool {
        let node = NodeRef::from_link(self.after);
        match node.filter(|node| node.compare(&self.place) == Cmp::Less) {
            Some(passed) => {
                self.before = Some(passed);
                self.after = list.following(self.before, self.level);
            }
            None => {
                // Down to a level at which something else follows.
                let bound = self.after;
                while self.after == bound {
                    if self.level == 0 {
                        return false;
                    }
                    self.level -= 1;
                    self.after = list.following(self.before, self.level);
                }
            }
        }
        prefetch_line(self.after.cast());
        prefetch_line(link_address(self.after, self.level));
        true
    }
}
