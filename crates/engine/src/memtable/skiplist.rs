//! A skiplist of versions in an arena: concurrent insert without locks, reads without locks, nothing is ever removed.
//!
//! Neighbours: memory comes from `arena`; `key_index` finds single keys; `memtable::Memtable` adds what the commit
//! pipeline and flush need.
//!
//! Node (in the arena, 8-byte aligned):
//! ```text
//! prefix u64 | seq u64 | chain ptr | value_len u32 | key_len u16 | op u8 | height u8 | tower [ptr; height] | key | value
//! ```
//! `prefix` is the first eight key bytes, big endian, zero padded: most comparisons end there, in the cache line that
//! the link led to. `chain` belongs to `key_index`.
//!
//! **Invariants**
//! - Order: key ascending, sequence descending. No two nodes have the same (key, sequence).
//! - A node is complete before its address is published: it is written with plain stores, then linked at level 0 by a
//!   compare-exchange with release; every link is read with acquire.
//! - A node reachable at level n is reachable at every level below, and links only ever change from one successor to a
//!   nearer one, so a search that started from an older link still finds everything that was there when it began.

use std::cmp::Ordering as Cmp;
use std::mem::{align_of, size_of};
use std::ptr;
use std::sync::atomic::Ordering;

use super::arena::{ALIGN, Arena};
use super::key_index::{KeyIndex, Lookup};
use crate::sync::{AtomicPtr, AtomicU64};
use crate::{Op, Seq};

/// Levels: with one node in four rising, 12 levels serve 4^12 = 16 million entries.
const MAX_HEIGHT: usize = 12;

/// Versions of a key that are too new for a read, before the read descends through the list instead.
const MAX_NEWER: usize = 8;

#[repr(C)]
pub(super) struct Node {
    prefix: u64,
    seq: Seq,
    chain: AtomicPtr<Node>,
    value_len: u32,
    key_len: u16,
    op: Op,
    height: u8,
    // The tower, the key and the value follow.
}

const _: () = assert!(align_of::<Node>() <= ALIGN);
const _: () = assert!(size_of::<Node>().is_multiple_of(align_of::<AtomicPtr<Node>>()));
const _: () = assert!(crate::MAX_KEY_BYTES <= u16::MAX as usize);
const _: () = assert!(crate::MAX_VALUE_BYTES <= u32::MAX as usize);

/// A node of a live list. Valid as long as the list; copies freely.
#[derive(Clone, Copy)]
pub(super) struct NodeRef(*const Node);

impl NodeRef {
    /// The node a link leads to; the link is one of a live list.
    #[inline]
    pub(super) fn from_link(node: *mut Node) -> Option<Self> {
        (!node.is_null()).then_some(NodeRef(node))
    }

    pub(super) fn as_ptr(self) -> *mut Node {
        self.0.cast_mut()
    }

    /// The next node in the same slot of the key index.
    #[inline]
    pub(super) fn chain(&self) -> &AtomicPtr<Node> {
        &self.header().chain
    }

    #[inline]
    pub(super) fn has_key(&self, key: &[u8], prefix: u64) -> bool {
        // SAFETY: the slice does not leave this function, and the caller of a list method keeps the list alive.
        self.header().prefix == prefix && unsafe { self.key() } == key
    }

    fn header(&self) -> &Node {
        // SAFETY: a `NodeRef` is only made from a link of the list or a node just built, so it points at a complete node
        // in the arena; the holder keeps the list alive (see `SkipList` methods and `MemIter`).
        unsafe { &*self.0 }
    }

    pub(super) fn seq(&self) -> Seq {
        self.header().seq
    }

    pub(super) fn op(&self) -> Op {
        self.header().op
    }

    /// The key, for as long as the caller keeps the list alive.
    ///
    /// # Safety
    /// The list must outlive `'a`.
    pub(super) unsafe fn key<'a>(self) -> &'a [u8] {
        let node = self.header();
        let offset = size_of::<Node>() + usize::from(node.height) * size_of::<AtomicPtr<Node>>();
        // SAFETY: the node was allocated with tower, key and value behind the header, and the key is initialised before
        // the node is published and never changes.
        unsafe {
            let start = self.0.cast::<u8>().add(offset);
            std::slice::from_raw_parts(start, usize::from(node.key_len))
        }
    }

    /// The value, for as long as the caller keeps the list alive.
    ///
    /// # Safety
    /// The list must outlive `'a`.
    pub(super) unsafe fn value<'a>(self) -> &'a [u8] {
        let node = self.header();
        let offset = size_of::<Node>()
            + usize::from(node.height) * size_of::<AtomicPtr<Node>>()
            + usize::from(node.key_len);
        // SAFETY: as for the key.
        unsafe {
            let start = self.0.cast::<u8>().add(offset);
            std::slice::from_raw_parts(start, node.value_len as usize)
        }
    }

    fn link(&self, level: usize) -> &AtomicPtr<Node> {
        debug_assert!(level < usize::from(self.header().height));
        // SAFETY: `level` is below the node's height (callers come down from a link at this level), and the tower is
        // initialised before the node is published.
        unsafe {
            let tower = self
                .0
                .cast::<u8>()
                .add(size_of::<Node>())
                .cast::<AtomicPtr<Node>>();
            &*tower.add(level)
        }
    }

    /// Compares this node with a place in the order.
    #[inline]
    fn compare(&self, at: &Place<'_>) -> Cmp {
        let node = self.header();
        if node.prefix != at.prefix {
            return node.prefix.cmp(&at.prefix);
        }
        // SAFETY: the slice does not leave this function, and the caller of a list method keeps the list alive.
        let key = unsafe { self.key() };
        key.cmp(at.key).then_with(|| at.seq.cmp(&node.seq))
    }
}

/// A place in the order: before the version (`key`, `seq`) if there is one.
struct Place<'a> {
    prefix: u64,
    key: &'a [u8],
    seq: Seq,
}

impl<'a> Place<'a> {
    #[inline]
    fn new(key: &'a [u8], seq: Seq) -> Self {
        Place {
            prefix: prefix_of(key),
            key,
            seq,
        }
    }
}

#[inline]
fn prefix_of(key: &[u8]) -> u64 {
    match key.first_chunk::<8>() {
        Some(bytes) => u64::from_be_bytes(*bytes),
        None => {
            let mut bytes = [0; 8];
            bytes[..key.len()].copy_from_slice(key);
            u64::from_be_bytes(bytes)
        }
    }
}

/// What one search leaves behind: the nodes around the place, per level. A predecessor of `None` is the head.
struct Splice {
    before: [Option<NodeRef>; MAX_HEIGHT],
    after: [*mut Node; MAX_HEIGHT],
}

/// The list.
pub(super) struct SkipList {
    head: [AtomicPtr<Node>; MAX_HEIGHT],
    entries: AtomicU64,
    index: KeyIndex,
    arena: Arena,
}

impl SkipList {
    pub(super) fn new() -> Self {
        SkipList {
            head: [const { AtomicPtr::new(ptr::null_mut()) }; MAX_HEIGHT],
            entries: AtomicU64::new(0),
            index: KeyIndex::new(),
            arena: Arena::new(),
        }
    }

    /// Inserts a version. False if (key, seq) is there already; the list is then unchanged.
    ///
    /// Versions of one key come one after the other, from the oldest to the newest (see `key_index`); one that is older
    /// than what is there is found only by a descent.
    pub(super) fn insert(&self, key: &[u8], seq: Seq, op: Op, value: &[u8]) -> bool {
        let place = Place::new(key, seq);
        let mut splice = Splice {
            before: [None; MAX_HEIGHT],
            after: [ptr::null_mut(); MAX_HEIGHT],
        };
        self.find_splice(&place, &mut splice);
        if self.is_at(splice.after[0], &place) {
            return false;
        }
        let number = self.entries.fetch_add(1, Ordering::Relaxed);
        let height = height_of(number);
        let node = self.build(&place, op, value, height);
        for level in 0..height {
            while !self.try_link(node, level, &splice) {
                self.find_at_level(&place, level, &mut splice);
                if level == 0 && self.is_at(splice.after[0], &place) {
                    // Another thread inserted the same version meanwhile; ours was never published.
                    self.entries.fetch_sub(1, Ordering::Relaxed);
                    return false;
                }
            }
        }
        let newest = splice.before[0].is_none_or(|before| !before.has_key(key, place.prefix));
        if newest {
            self.index.add(node, key);
        }
        true
    }

    fn is_at(&self, node: *mut Node, place: &Place<'_>) -> bool {
        !node.is_null() && NodeRef(node).compare(place) == Cmp::Equal
    }

    fn build(&self, place: &Place<'_>, op: Op, value: &[u8], height: usize) -> NodeRef {
        let key_len = u16::try_from(place.key.len()).expect("callers check the length of keys");
        let value_len = u32::try_from(value.len()).expect("callers check the length of values");
        let tower_bytes = height * size_of::<AtomicPtr<Node>>();
        let size = size_of::<Node>() + tower_bytes + place.key.len() + value.len();
        let memory = self.arena.allocate(size).as_ptr();
        let header = Node {
            prefix: place.prefix,
            seq: place.seq,
            chain: AtomicPtr::new(ptr::null_mut()),
            value_len,
            key_len,
            op,
            height: height as u8,
        };
        // SAFETY: `memory` is `size` fresh bytes, aligned for `Node`, that nobody else knows; the parts are written one
        // behind the other and end exactly at `size`. The tower is aligned because `size_of::<Node>()` is a multiple
        // of a pointer's alignment.
        unsafe {
            memory.cast::<Node>().write(header);
            let tower = memory.add(size_of::<Node>()).cast::<AtomicPtr<Node>>();
            for level in 0..height {
                tower.add(level).write(AtomicPtr::new(ptr::null_mut()));
            }
            let key = memory.add(size_of::<Node>() + tower_bytes);
            ptr::copy_nonoverlapping(place.key.as_ptr(), key, place.key.len());
            ptr::copy_nonoverlapping(value.as_ptr(), key.add(place.key.len()), value.len());
        }
        NodeRef(memory.cast_const().cast::<Node>())
    }

    /// Links `node` between the neighbours of the splice; false if the gap has changed.
    fn try_link(&self, node: NodeRef, level: usize, splice: &Splice) -> bool {
        let after = splice.after[level];
        node.link(level).store(after, Ordering::Relaxed);
        self.link(splice.before[level], level)
            .compare_exchange(
                after,
                node.0.cast_mut(),
                Ordering::Release,
                Ordering::Relaxed,
            )
            .is_ok()
    }

    #[inline]
    fn link(&self, before: Option<NodeRef>, level: usize) -> &AtomicPtr<Node> {
        match before {
            // SAFETY: the node is in this list's arena, which lives as long as `&self`.
            Some(node) => unsafe { &*ptr::from_ref(node.link(level)) },
            None => &self.head[level],
        }
    }

    #[inline]
    fn following(&self, before: Option<NodeRef>, level: usize) -> *mut Node {
        self.link(before, level).load(Ordering::Acquire)
    }

    fn find_splice(&self, place: &Place<'_>, splice: &mut Splice) {
        let mut before = None;
        for level in (0..MAX_HEIGHT).rev() {
            let after = self.walk(&mut before, level, place);
            splice.before[level] = before;
            splice.after[level] = after;
        }
    }

    /// Repairs one level of a splice after another thread linked into its gap.
    fn find_at_level(&self, place: &Place<'_>, level: usize, splice: &mut Splice) {
        let mut before = splice.before[level];
        splice.after[level] = self.walk(&mut before, level, place);
        splice.before[level] = before;
    }

    /// Moves `before` along `level` up to the place; gives the node at or behind the place.
    #[inline]
    fn walk(&self, before: &mut Option<NodeRef>, level: usize, place: &Place<'_>) -> *mut Node {
        loop {
            let after = self.following(*before, level);
            if after.is_null() || NodeRef(after).compare(place) != Cmp::Less {
                return after;
            }
            *before = Some(NodeRef(after));
        }
    }

    /// The newest version of `key` that is not newer than `seq`.
    #[inline]
    pub(super) fn get(&self, key: &[u8], seq: Seq) -> Option<NodeRef> {
        let prefix = prefix_of(key);
        let mut node = match self.index.find(key, prefix) {
            Lookup::Newest(node) => node,
            Lookup::Absent => return None,
            Lookup::Unknown => return self.get_by_descent(key, prefix, seq),
        };
        for _ in 0..MAX_NEWER {
            if node.seq() <= seq {
                return Some(node);
            }
            node = self.after(node).filter(|node| node.has_key(key, prefix))?;
        }
        self.get_by_descent(key, prefix, seq)
    }

    fn get_by_descent(&self, key: &[u8], prefix: u64, seq: Seq) -> Option<NodeRef> {
        self.seek(key, seq).filter(|node| node.has_key(key, prefix))
    }

    /// The first node at or after (`key`, `seq`).
    pub(super) fn seek(&self, key: &[u8], seq: Seq) -> Option<NodeRef> {
        let place = Place::new(key, seq);
        let mut before: Option<NodeRef> = None;
        let mut bound: *mut Node = ptr::null_mut();
        let mut after = ptr::null_mut();
        for level in (0..MAX_HEIGHT).rev() {
            // A node already found to be at or behind the place need not be compared again on the level below.
            loop {
                after = self.following(before, level);
                if after.is_null() || after == bound {
                    break;
                }
                if NodeRef(after).compare(&place) != Cmp::Less {
                    bound = after;
                    break;
                }
                before = Some(NodeRef(after));
            }
        }
        (!after.is_null()).then_some(NodeRef(after))
    }

    /// The last node strictly before (`key`, `seq`).
    pub(super) fn seek_before(&self, key: &[u8], seq: Seq) -> Option<NodeRef> {
        let place = Place::new(key, seq);
        let mut before = None;
        for level in (0..MAX_HEIGHT).rev() {
            self.walk(&mut before, level, &place);
        }
        before
    }

    pub(super) fn first(&self) -> Option<NodeRef> {
        let first = self.following(None, 0);
        (!first.is_null()).then_some(NodeRef(first))
    }

    pub(super) fn last(&self) -> Option<NodeRef> {
        let mut before = None;
        for level in (0..MAX_HEIGHT).rev() {
            loop {
                let after = self.following(before, level);
                if after.is_null() {
                    break;
                }
                before = Some(NodeRef(after));
            }
        }
        before
    }

    pub(super) fn after(&self, node: NodeRef) -> Option<NodeRef> {
        let after = self.following(Some(node), 0);
        (!after.is_null()).then_some(NodeRef(after))
    }

    pub(super) fn entries(&self) -> u64 {
        self.entries.load(Ordering::Relaxed)
    }

    pub(super) fn used_bytes(&self) -> usize {
        self.arena.used_bytes()
    }

    pub(super) fn allocated_bytes(&self) -> usize {
        self.arena.allocated_bytes() + self.index.bytes()
    }

    /// Empties the list and keeps a little memory for the next use.
    pub(super) fn clear(&mut self) {
        for link in &mut self.head {
            *link = AtomicPtr::new(ptr::null_mut());
        }
        self.entries = AtomicU64::new(0);
        self.index.clear();
        self.arena.clear();
    }
}

/// The height of the `number`-th node: deterministic (a simulation repeats itself) and spread like random bits.
fn height_of(number: u64) -> usize {
    // The finaliser of splitmix64.
    let mut bits = number.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    bits ^= bits >> 31;
    (1 + bits.trailing_zeros() as usize / 2).min(MAX_HEIGHT)
}
