//! A hash index over the keys of one skiplist: point reads and changes of a key that is there find its node in two or
//! three cache misses, where a descent through a list of 100,000 rows takes twenty.
//!
//! Neighbours: `skiplist` owns the nodes, adds the newest of each key after it is linked, and asks before it descends.
//!
//! Slots hold chains of nodes, the youngest first. The table never moves: when a generation has as many nodes as slots,
//! a larger generation takes the later nodes, and a search goes from the youngest generation to the oldest.
//!
//! A key that is not there, as of every row that is inserted, would cost a node of each generation. So the upper bits
//! of a slot's pointer, which addresses leave free, are a filter of its chain: one bit of sixteen, chosen by the hash,
//! for each node (Leis et al., "Morsel-Driven Parallelism", SIGMOD 2014, section 4.2). Rows that come in the order of
//! their keys are spared the slots as well: their prefix is greater than all that have been added.
//!
//! **Invariants**
//! - A key has one node here, the first that was linked for it.
//! - Versions of one key come one after the other (row locks in the commit pipeline, key shards in recovery, one thread
//!   in a write set). So a node is added before any version of its key becomes visible to a snapshot, and a search that
//!   ends without a match has proven that the key is not there.
//! - No node has a prefix above `greatest`, which rises before the node is in its slot.
//! - A slot's filter has the bits of all nodes of its chain: both change in one exchange. Links between nodes have no
//!   filter.
//! - Nodes and generations are published with release and read with acquire, and stay until the list is cleared or
//!   dropped, which needs exclusive access.

use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::Ordering;

use esker_vfs::pages::prefetch_line;
use smallvec::SmallVec;

use super::GROUP;
use super::skiplist::{Node, NodeRef};
use crate::hash::fold_bytes;
use crate::sync::{AtomicPtr, AtomicU64, AtomicUsize};

/// Slots of the first generation; each further one has [`GROWTH`] times as many. Tests are to see many generations.
const FIRST_SLOTS: usize = if cfg!(test) { 2 } else { 128 };
const GROWTH: usize = 8;
/// Generations: 128 * 8^6 = 33 million slots in the last one, more than a memtable has entries.
const GENERATIONS: usize = 7;
/// Nodes of a chain that are looked at before the list is asked instead: keys that were chosen to collide.
const MAX_CHAIN: usize = 8;
/// Bits of an address; those above hold the filter. Linux gives no higher address to who does not ask for one.
const ADDRESS_BITS: u32 = 48;
const ADDRESS: usize = (1 << ADDRESS_BITS) - 1;

type Slots = Box<[AtomicPtr<Node>]>;

/// The answer of the index.
pub(super) enum Lookup {
    /// The node with the newest version of the key.
    Newest(NodeRef),
    /// The key has no version.
    Absent,
    /// The chain was too long to say.
    Unknown,
}

pub(super) struct KeyIndex {
    generations: [OnceLock<Slots>; GENERATIONS],
    /// The generation that takes new nodes; only grows.
    current: AtomicUsize,
    /// Nodes in all generations.
    added: AtomicU64,
    /// The greatest prefix of a key that was added.
    greatest: AtomicU64,
}

impl KeyIndex {
    pub(super) fn new() -> Self {
        KeyIndex {
            generations: [const { OnceLock::new() }; GENERATIONS],
            current: AtomicUsize::new(0),
            added: AtomicU64::new(0),
            greatest: AtomicU64::new(0),
        }
    }

    /// Adds the node of a key, complete and in the list.
    pub(super) fn add(&self, node: NodeRef, key: &[u8], prefix: u64) {
        if prefix > self.greatest.load(Ordering::Relaxed) {
            self.greatest.fetch_max(prefix, Ordering::Release);
        }
        let added = self.added.fetch_add(1, Ordering::Relaxed);
        let mut generation = self.current.load(Ordering::Acquire);
        if added >= capacity_through(generation) && generation + 1 < GENERATIONS {
            // Several threads may find this; one steps on, and nobody steps twice.
            let _ = self.current.compare_exchange(
                generation,
                generation + 1,
                Ordering::AcqRel,
                Ordering::Acquire,
            );
            generation = self.current.load(Ordering::Acquire);
        }
        debug_assert!(generation < GENERATIONS);
        let slots = self.generations[generation].get_or_init(|| new_slots(generation));
        let hash = hash(key);
        let slot = &slots[slot_of(hash, slots.len())];
        let address = node.as_ptr().addr();
        assert_eq!(address & !ADDRESS, 0, "its upper bits are the filter's");
        let mut first = slot.load(Ordering::Relaxed);
        loop {
            node.chain().store(node_of(first), Ordering::Relaxed);
            let filter = first.addr() & !ADDRESS | filter_bit(hash);
            match slot.compare_exchange_weak(
                first,
                node.as_ptr().map_addr(|address| address | filter),
                Ordering::Release,
                Ordering::Relaxed,
            ) {
                Ok(_) => return,
                Err(now) => first = now,
            }
        }
    }

    /// Asks for what a search for each of these keys looks at: their slots in the two generations that have most of the
    /// nodes, and then the first nodes of the chains (group prefetching, as `extent::multi_get` does it).
    pub(super) fn approach<'k>(&self, keys: impl Iterator<Item = &'k [u8]>) {
        let current = self.current.load(Ordering::Acquire);
        let generations = &self.generations[current.saturating_sub(1)..=current];
        let hashes: SmallVec<[u64; GROUP]> = keys.map(hash).collect();
        for slots in generations.iter().filter_map(OnceLock::get) {
            for hash in &hashes {
                prefetch_line(ptr::from_ref(&slots[slot_of(*hash, slots.len())]).cast());
            }
        }
        for slots in generations.iter().filter_map(OnceLock::get) {
            for hash in &hashes {
                let first = slots[slot_of(*hash, slots.len())].load(Ordering::Relaxed);
                if first.addr() & filter_bit(*hash) != 0 {
                    prefetch_line(node_of(first).cast());
                }
            }
        }
    }

    /// Finds the node of a key.
    pub(super) fn find(&self, key: &[u8], prefix: u64) -> Lookup {
        if prefix > self.greatest.load(Ordering::Acquire) {
            return Lookup::Absent;
        }
        let hash = hash(key);
        for generation in (0..=self.current.load(Ordering::Acquire)).rev() {
            // Not made yet: nothing was added to it.
            let Some(slots) = self.generations[generation].get() else {
                continue;
            };
            let first = slots[slot_of(hash, slots.len())].load(Ordering::Acquire);
            if first.addr() & filter_bit(hash) == 0 {
                continue;
            }
            let mut node = node_of(first);
            let mut looked_at = 0;
            while let Some(candidate) = NodeRef::from_link(node) {
                if candidate.has_key(key, prefix) {
                    return Lookup::Newest(candidate);
                }
                looked_at += 1;
                if looked_at == MAX_CHAIN {
                    return Lookup::Unknown;
                }
                // Written before the node was published, never changed.
                node = candidate.chain().load(Ordering::Relaxed);
            }
        }
        Lookup::Absent
    }

    /// Bytes of all generations made so far.
    pub(super) fn bytes(&self) -> usize {
        self.generations
            .iter()
            .filter_map(OnceLock::get)
            .map(|slots| size_of_val::<[_]>(slots))
            .sum()
    }

    /// Forgets all nodes; keeps the first generation.
    pub(super) fn clear(&mut self) {
        for generation in &mut self.generations[1..] {
            *generation = OnceLock::new();
        }
        if let Some(slots) = self.generations[0].get_mut() {
            slots
                .iter_mut()
                .for_each(|slot| *slot = AtomicPtr::new(ptr::null_mut()));
        }
        self.current = AtomicUsize::new(0);
        self.added = AtomicU64::new(0);
        self.greatest = AtomicU64::new(0);
    }
}

fn slots_in(generation: usize) -> usize {
    FIRST_SLOTS * GROWTH.pow(generation as u32)
}

/// Nodes that the generations up to this one take before the next is begun.
fn capacity_through(generation: usize) -> u64 {
    (0..=generation).map(|g| slots_in(g) as u64).sum()
}

fn new_slots(generation: usize) -> Slots {
    (0..slots_in(generation))
        .map(|_| AtomicPtr::new(ptr::null_mut()))
        .collect()
}

/// The upper bits choose: multiplication mixes upwards.
#[inline]
fn slot_of(hash: u64, slots: usize) -> usize {
    debug_assert!(slots > 1 && slots.is_power_of_two());
    (hash >> (u64::BITS - slots.trailing_zeros())) as usize
}

/// The bit of a key in the filter of its slot. Bits of the hash that choose no slot choose it.
#[inline]
fn filter_bit(hash: u64) -> usize {
    1 << (ADDRESS_BITS + (hash >> 32) as u32 % (usize::BITS - ADDRESS_BITS))
}

/// The first node of a chain, without the filter.
#[inline]
fn node_of(first: *mut Node) -> *mut Node {
    first.map_addr(|address| address & ADDRESS)
}

/// A quick hash of a key; an unlucky distribution costs time, never a wrong answer.
#[inline]
fn hash(key: &[u8]) -> u64 {
    const FACTOR: u64 = 0x9E37_79B9_7F4A_7C15;
    fold_bytes(key.len() as u64, key, FACTOR).wrapping_mul(FACTOR)
}
