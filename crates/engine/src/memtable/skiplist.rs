//! A skiplist of keys in an arena, each with its versions: concurrent insert without locks, reads without locks,
//! nothing is ever removed.
//!
//! Neighbours: memory comes from `arena`; `versions` has what came to a key after its first version; `key_index` finds
//! single keys; `memtable::Memtable` adds what the commit pipeline and flush need.
//!
//! Node (in the arena, 8-byte aligned):
//! ```text
//! prefix u64 | versions ptr | chain ptr | seq u64 | value_len u32 | key_len u16 | op u8 | height u8 | tower [ptr; height] | key | value
//! ```
//! `prefix` is the first eight key bytes, big endian, zero padded: most comparisons end there, in the cache line that
//! the link led to. `chain` belongs to `key_index`. `seq`, `op` and the value are the first version of the key; newer
//! ones are `versions`, so that a change of a row that is here already needs no descent.
//!
//! **Invariants**
//! - Order: key ascending, sequence descending. No two versions have the same (key, sequence).
//! - The first node that is linked for a key stays the newest of the key: newer versions go to its `versions`, and an
//!   older one (which no committer brings) gets a node of its own behind it. Only the newest node is in the key index.
//! - A node is complete before its address is published: it is written with plain stores, then linked at level 0 by a
//!   compare-exchange with release; every link is read with acquire.
//! - A node reachable at level n is reachable at every level below, and links only ever change from one successor to a
//!   nearer one, so a search that started from an older link still finds everything that was there when it began.
//! - `recent` of a level is null or a node that is linked there. It is a hint: rows that come in the order of their
//!   keys are linked behind it without a descent (a finger search; RocksDB's skiplist keeps such a splice per writer).

use std::cmp::Ordering as Cmp;
use std::mem::{align_of, size_of};
use std::ptr;
use std::sync::atomic::Ordering;

use super::arena::{ALIGN, Arena};
use super::key_index::{KeyIndex, Lookup};
use super::versions::{VersionRef, Versions};
use crate::sync::{AtomicPtr, AtomicU64};
use crate::{Op, Seq};

/// Levels: with one node in four rising, 12 levels serve 4^12 = 16 million entries.
pub(super) const MAX_HEIGHT: usize = 12;

#[repr(C)]
pub(super) struct Node {
    prefix: u64,
    versions: Versions,
    chain: AtomicPtr<Node>,
    seq: Seq,
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

/// The node of a key in a live list. Valid as long as the list; copies freely.
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
        // SAFETY: a `NodeRef` is only made from a link of the list or a node just built, so it points at a complete
        // node in the arena; the holder keeps the list alive (see `SkipList` methods and `MemIter`).
        unsafe { &*self.0 }
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

    /// The value of the first version, for as long as the caller keeps the list alive.
    ///
    /// # Safety
    /// The list must outlive `'a`.
    unsafe fn first_value<'a>(self) -> &'a [u8] {
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
    pub(super) fn compare(&self, at: &Place<'_>) -> Cmp {
        let node = self.header();
        if node.prefix != at.prefix {
            return node.prefix.cmp(&at.prefix);
        }
        // SAFETY: the slice does not leave this function, and the caller of a list method keeps the list alive.
        let key = unsafe { self.key() };
        key.cmp(at.key).then_with(|| at.seq.cmp(&node.seq))
    }
}

/// A version in a live list. Valid as long as the list; copies freely.
#[derive(Clone, Copy)]
pub(super) struct Entry {
    node: NodeRef,
    /// `None`: the first version of the key.
    version: Option<VersionRef>,
}

impl Entry {
    /// The newest version in a node.
    fn newest(node: NodeRef) -> Self {
        let version = node.header().versions.newest();
        Entry { node, version }
    }

    /// The first version in a node, which is its oldest.
    fn oldest(node: NodeRef) -> Self {
        let version = None;
        Entry { node, version }
    }

    /// The newest version in a node that is not newer than `seq`.
    #[inline]
    fn up_to(node: NodeRef, seq: Seq) -> Option<Self> {
        let version = node.header().versions.up_to(seq);
        (version.is_some() || node.header().seq <= seq).then_some(Entry { node, version })
    }

    #[inline]
    pub(super) fn seq(&self) -> Seq {
        match &self.version {
            Some(version) => version.seq(),
            None => self.node.header().seq,
        }
    }

    pub(super) fn op(&self) -> Op {
        match &self.version {
            Some(version) => version.op(),
            None => self.node.header().op,
        }
    }

    /// The key, for as long as the caller keeps the list alive.
    ///
    /// # Safety
    /// The list must outlive `'a`.
    #[inline]
    pub(super) unsafe fn key<'a>(self) -> &'a [u8] {
        // SAFETY: the caller's promise is the same.
        unsafe { self.node.key() }
    }

    /// The value, for as long as the caller keeps the list alive.
    ///
    /// # Safety
    /// The list must outlive `'a`.
    #[inline]
    pub(super) unsafe fn value<'a>(self) -> &'a [u8] {
        match self.version {
            // SAFETY: the caller's promise is the same.
            Some(version) => unsafe { version.value() },
            // SAFETY: as above.
            None => unsafe { self.node.first_value() },
        }
    }
}

/// Where a node has its link of a level, whether or not there is a node.
#[inline]
pub(super) fn link_address(node: *const Node, level: usize) -> *const u8 {
    let offset = size_of::<Node>() + level * size_of::<AtomicPtr<Node>>();
    node.cast::<u8>().wrapping_add(offset)
}

/// A place in the order: before the version (`key`, `seq`) if there is one.
pub(super) struct Place<'a> {
    prefix: u64,
    key: &'a [u8],
    seq: Seq,
}

impl<'a> Place<'a> {
    #[inline]
    pub(super) fn new(key: &'a [u8], seq: Seq) -> Self {
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

/// What one search leaves behind: the nodes around the place, per level. A predecessor of `None` is the head. The next
/// search of a sorted batch begins here. Of use as long as the list lives and is not cleared.
pub(super) struct Splice {
    before: [Option<NodeRef>; MAX_HEIGHT],
    after: [*mut Node; MAX_HEIGHT],
    /// All levels are those of one search, or of what was inserted behind it.
    is_whole: bool,
}

/// A key lies so many nodes behind a place, or it is near: one node in four rises, and this is two levels up.
const NEAR_LEVEL: usize = 2;

impl Splice {
    pub(super) fn new() -> Self {
        Splice {
            before: [None; MAX_HEIGHT],
            after: [ptr::null_mut(); MAX_HEIGHT],
            is_whole: false,
        }
    }

    /// Does a key lie so far behind the last place that a search from there meets nodes which are not in the caches?
    pub(super) fn is_far(&self, key: &[u8]) -> bool {
        let place = Place::new(key, Seq::MAX);
        let behind = NodeRef::from_link(self.after[NEAR_LEVEL]);
        self.is_whole && behind.is_some_and(|node| node.compare(&place) == Cmp::Less)
    }
}

/// The list.
pub(super) struct SkipList {
    head: [AtomicPtr<Node>; MAX_HEIGHT],
    /// The node that was linked last at each level.
    recent: [AtomicPtr<Node>; MAX_HEIGHT],
    entries: AtomicU64,
    /// Heights that were drawn for nodes.
    heights: AtomicU64,
    pub(super) index: KeyIndex,
    arena: Arena,
}

impl SkipList {
    pub(super) fn new() -> Self {
        SkipList {
            head: [const { AtomicPtr::new(ptr::null_mut()) }; MAX_HEIGHT],
            recent: [const { AtomicPtr::new(ptr::null_mut()) }; MAX_HEIGHT],
            entries: AtomicU64::new(0),
            heights: AtomicU64::new(0),
            index: KeyIndex::new(),
            arena: Arena::new(),
        }
    }

    /// Inserts a version. False if (key, seq) is there already; the list is then unchanged. `splice` is new, or that of
    /// an insert before (key, seq).
    pub(super) fn insert(
        &self,
        splice: &mut Splice,
        key: &[u8],
        seq: Seq,
        (op, value): (Op, &[u8]),
    ) -> bool {
        let place = Place::new(key, seq);
        let inserted = match self.index.find(key, place.prefix) {
            Lookup::Newest(node) if node.header().seq < seq => {
                let versions = &node.header().versions;
                versions.insert(&self.arena, seq, op, value)
            }
            Lookup::Newest(_) | Lookup::Absent | Lookup::Unknown => {
                self.insert_node(splice, &place, op, value)
            }
        };
        if inserted {
            self.entries.fetch_add(1, Ordering::Relaxed);
        }
        inserted
    }

    /// As [`SkipList::insert`], for a key that is not known to be there.
    fn insert_node(&self, splice: &mut Splice, place: &Place<'_>, op: Op, value: &[u8]) -> bool {
        let height = height_of(self.heights.fetch_add(1, Ordering::Relaxed));
        if splice.is_whole {
            self.advance(place, splice);
        } else if !self.is_behind_recent(place, height, splice) {
            self.find_splice(place, splice);
        }
        let mut built = None;
        loop {
            let has_key = |node: NodeRef| node.has_key(place.key, place.prefix);
            let is_newest = !splice.before[0].is_some_and(has_key);
            let after = NodeRef::from_link(splice.after[0]).filter(|node| has_key(*node));
            match after {
                Some(node) if node.header().seq == place.seq => return false,
                Some(node) if is_newest => {
                    let versions = &node.header().versions;
                    return versions.insert(&self.arena, place.seq, op, value);
                }
                Some(_) | None => (),
            }
            let node = *built.get_or_insert_with(|| self.build(place, height, op, value));
            if self.try_link(node, 0, splice) {
                self.raise(node, place, splice);
                splice.before[..height].fill(Some(node));
                if is_newest {
                    self.index.add(node, place.key, place.prefix);
                }
                return true;
            }
            self.find_at_level(place, 0, splice);
        }
    }

    /// Moves the splice of an earlier place to this one: up to the first level at which, by what it knows, nothing lies
    /// between the two, and down again. Nodes of others that it does not know of are met when it is linked.
    fn advance(&self, place: &Place<'_>, splice: &mut Splice) {
        debug_assert!(splice.before[0].is_none_or(|node| node.compare(place) == Cmp::Less));
        let is_before = |node: NodeRef| node.compare(place) == Cmp::Less;
        let passes =
            |level: &usize| NodeRef::from_link(splice.after[*level]).is_some_and(is_before);
        let levels = (0..MAX_HEIGHT).take_while(passes).count();
        let Some(top) = levels.checked_sub(1) else {
            return;
        };
        let mut before = splice.before[top];
        for level in (0..=top).rev() {
            splice.after[level] = self.walk(&mut before, level, place);
            splice.before[level] = before;
        }
    }

    /// Links a node that is in the list at the levels above the lowest.
    fn raise(&self, node: NodeRef, place: &Place<'_>, splice: &mut Splice) {
        for level in 1..usize::from(node.header().height) {
            while !self.try_link(node, level, splice) {
                self.find_at_level(place, level, splice);
            }
        }
    }

    fn build(&self, place: &Place<'_>, height: usize, op: Op, value: &[u8]) -> NodeRef {
        debug_assert!((1..=MAX_HEIGHT).contains(&height));
        let key_len = u16::try_from(place.key.len()).expect("callers check the length of keys");
        let value_len = u32::try_from(value.len()).expect("callers check the length of values");
        let tower_bytes = height * size_of::<AtomicPtr<Node>>();
        let size = size_of::<Node>() + tower_bytes + place.key.len() + value.len();
        let memory = self.arena.allocate(size).as_ptr();
        let header = Node {
            prefix: place.prefix,
            versions: Versions::new(),
            chain: AtomicPtr::new(ptr::null_mut()),
            seq: place.seq,
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
        let is_linked = self
            .link(splice.before[level], level)
            .compare_exchange(
                after,
                node.0.cast_mut(),
                Ordering::Release,
                Ordering::Relaxed,
            )
            .is_ok();
        if is_linked {
            self.recent[level].store(node.0.cast_mut(), Ordering::Release);
        }
        is_linked
    }

    /// Whether the place comes right behind the nodes that were linked last at all levels below `height`; those are the
    /// splice then.
    #[inline]
    fn is_behind_recent(&self, place: &Place<'_>, height: usize, splice: &mut Splice) -> bool {
        (0..height).all(|level| {
            let recent = NodeRef::from_link(self.recent[level].load(Ordering::Acquire));
            let Some(node) = recent.filter(|node| node.compare(place) == Cmp::Less) else {
                return false;
            };
            let after = self.following(recent, level);
            splice.before[level] = Some(node);
            splice.after[level] = after;
            NodeRef::from_link(after).is_none_or(|after| after.compare(place) != Cmp::Less)
        })
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
    pub(super) fn following(&self, before: Option<NodeRef>, level: usize) -> *mut Node {
        self.link(before, level).load(Ordering::Acquire)
    }

    fn find_splice(&self, place: &Place<'_>, splice: &mut Splice) {
        splice.is_whole = true;
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
    pub(super) fn get(&self, key: &[u8], seq: Seq) -> Option<Entry> {
        let prefix = prefix_of(key);
        match self.index.find(key, prefix) {
            Lookup::Newest(node) => {
                Entry::up_to(node, seq).or_else(|| self.get_by_descent(key, prefix, seq))
            }
            Lookup::Absent => None,
            Lookup::Unknown => self.get_by_descent(key, prefix, seq),
        }
    }

    fn get_by_descent(&self, key: &[u8], prefix: u64, seq: Seq) -> Option<Entry> {
        self.seek(key, seq)
            .filter(|entry| entry.node.has_key(key, prefix))
    }

    /// The first version at or after (`key`, `seq`).
    pub(super) fn seek(&self, key: &[u8], seq: Seq) -> Option<Entry> {
        let place = Place::new(key, seq);
        let node = self.seek_node(&place)?;
        match node.has_key(key, place.prefix) {
            true => Entry::up_to(node, seq),
            false => Some(Entry::newest(node)),
        }
    }

    /// The first node at or after the place.
    fn seek_node(&self, place: &Place<'_>) -> Option<NodeRef> {
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
                if NodeRef(after).compare(place) != Cmp::Less {
                    bound = after;
                    break;
                }
                before = Some(NodeRef(after));
            }
        }
        (!after.is_null()).then_some(NodeRef(after))
    }

    /// The last version strictly before (`key`, `seq`).
    pub(super) fn seek_before(&self, key: &[u8], seq: Seq) -> Option<Entry> {
        let place = Place::new(key, seq);
        let mut before = None;
        let mut after = ptr::null_mut();
        for level in (0..MAX_HEIGHT).rev() {
            after = self.walk(&mut before, level, &place);
        }
        // A node that begins at or behind the place may have versions before it.
        let newer = NodeRef::from_link(after)
            .filter(|node| node.has_key(key, place.prefix))
            .and_then(|node| {
                let version = Some(node.header().versions.after(seq)?);
                Some(Entry { node, version })
            });
        newer.or_else(|| before.map(Entry::oldest))
    }

    /// Calls `each` with keys that are spread evenly over the list from `lower` on and before `upper`: at least
    /// `wanted`, if there are so many. Each stands for about the returned number of keys.
    pub(super) fn sample<'a>(
        &'a self,
        lower: &[u8],
        upper: Option<&[u8]>,
        wanted: usize,
        mut each: impl FnMut(&'a [u8]),
    ) -> u64 {
        let place = Place::new(lower, Seq::MAX);
        let mut before = None;
        for level in (0..MAX_HEIGHT).rev() {
            let first = self.walk(&mut before, level, &place);
            let keys = std::iter::successors(NodeRef::from_link(first), |node| {
                NodeRef::from_link(self.following(Some(*node), level))
            });
            // SAFETY: the nodes are in this list's arena, which lives as long as `&'a self`.
            let keys = keys.map(|node| unsafe { node.key::<'a>() });
            let keys = keys.take_while(|key| upper.is_none_or(|upper| *key < upper));
            if level == 0 || keys.clone().take(wanted).count() == wanted {
                keys.for_each(&mut each);
                // One node in four rises.
                return 1 << (2 * level);
            }
        }
        unreachable!("level 0 is always taken")
    }

    pub(super) fn first(&self) -> Option<Entry> {
        NodeRef::from_link(self.following(None, 0)).map(Entry::newest)
    }

    pub(super) fn last(&self) -> Option<Entry> {
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
        before.map(Entry::oldest)
    }

    pub(super) fn after(&self, entry: Entry) -> Option<Entry> {
        let node = entry.node;
        match entry.version {
            Some(version) => Some(Entry {
                node,
                version: version.older(),
            }),
            None => NodeRef::from_link(self.following(Some(node), 0)).map(Entry::newest),
        }
    }

    /// The newest version of the entry's key that is not newer than `seq`, and the newest one of the key behind it.
    #[inline]
    pub(super) fn pass_key(&self, entry: Entry, seq: Seq) -> (Option<Entry>, Option<Entry>) {
        let mut node = entry.node;
        let mut found = None;
        loop {
            found = found.or_else(|| Entry::up_to(node, seq));
            let Some(next) = NodeRef::from_link(self.following(Some(node), 0)) else {
                return (found, None);
            };
            // SAFETY: the slice does not leave this function, and `&self` keeps the list alive.
            let key = unsafe { node.key() };
            // Only a version that is older than the first one of its key has a node of its own.
            if !next.has_key(key, node.header().prefix) {
                return (found, Some(Entry::newest(next)));
            }
            node = next;
        }
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
        for link in self.head.iter_mut().chain(&mut self.recent) {
            *link = AtomicPtr::new(ptr::null_mut());
        }
        self.entries = AtomicU64::new(0);
        self.heights = AtomicU64::new(0);
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
