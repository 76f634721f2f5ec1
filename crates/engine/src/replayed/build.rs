//! Sorting the entries of a shard.
//!
//! Neighbours: `run` calls it once per shard, when the first reader needs it or in the background.
//!
//! The sort looks at the prefixes, which lie in the entries, side by side in memory. Only keys that agree there are
//! looked up in the log's buffers: eight bytes further on at a time, all of a group at once, so that the memory is read
//! in many places at the same time. What all keys of a shard begin with is found first and left out.
//!
//! **Invariants**
//! - The result is in internal order: key ascending, sequence descending.
//! - All keys of a sorted shard begin with `common`; prefixes and spans are those behind it.

use std::cmp::Ordering;

use super::entry::{Buffers, Entry, PREFIX_BYTES, prefix_and_span};
use crate::Seq;
use crate::iter::compare_versions;

/// Fewer bytes that all keys begin with are not worth a look at every key.
const MIN_COMMON: u32 = 4;
/// Groups of equal prefixes up to this size are compared pair by pair.
const SMALL_GROUP: usize = 12;
/// Every so many entries one prefix is noted in a row, so that a search begins in a small piece of memory.
const ENTRIES_PER_MARK: usize = 16;
/// Rounds of eight bytes for one group before it is compared pair by pair: recursion stays flat.
const MAX_ROUNDS: usize = 64;

/// A shard in order.
pub(crate) struct Sorted {
    entries: Box<[Entry]>,
    /// Prefix of the first of every [`ENTRIES_PER_MARK`] entries.
    marks: Box<[u64]>,
    /// What all keys begin with.
    common: Box<[u8]>,
}

/// Sorts the entries of a shard, which show their keys behind `strip` bytes that all have in common.
pub(crate) fn sort(mut entries: Vec<Entry>, strip: usize, buffers: &Buffers) -> Sorted {
    let strip = find_common(&mut entries, strip, buffers);
    sort_group(&mut entries, strip, MAX_ROUNDS, buffers);
    debug_assert!(
        entries.is_sorted_by(|a, b| {
            compare_versions(buffers.key(a), a.seq, buffers.key(b), b.seq) != Ordering::Greater
        }),
        "versions are in internal order"
    );
    let common = entries
        .first()
        .map_or_else(Box::default, |entry| buffers.key(entry)[..strip].into());
    let marks = entries.iter().step_by(ENTRIES_PER_MARK);
    Sorted {
        marks: marks.map(|entry| entry.prefix).collect(),
        entries: entries.into_boxed_slice(),
        common,
    }
}

/// While there are keys that go on behind their prefix, and all prefixes begin much alike: shows the bytes behind that.
/// Gives the number of bytes that all keys have in common before what is shown then.
fn find_common(entries: &mut [Entry], mut strip: usize, buffers: &Buffers) -> usize {
    loop {
        let Some((first, rest)) = entries.split_first() else {
            return strip;
        };
        let (mut differing, mut shortest, mut longest) = (0, first.span(), first.span());
        for entry in rest {
            differing |= entry.prefix ^ first.prefix;
            shortest = shortest.min(entry.span());
            longest = longest.max(entry.span());
        }
        let alike = (differing.leading_zeros() / 8)
            .min(shortest)
            .min(PREFIX_BYTES as u32);
        if alike < MIN_COMMON || longest <= PREFIX_BYTES as u32 {
            return strip;
        }
        strip += alike as usize;
        for entry in entries.iter_mut() {
            entry.show(&buffers.key(entry)[strip..]);
        }
    }
}

fn sort_group(entries: &mut [Entry], strip: usize, rounds: usize, buffers: &Buffers) {
    entries.sort_unstable_by(|a, b| {
        a.compare_shown(b.prefix, b.span())
            .then_with(|| b.seq.cmp(&a.seq))
    });
    let groups = entries.chunk_by_mut(|a, b| a.prefix == b.prefix && a.span() == b.span());
    for group in groups.filter(|group| group.len() > 1 && group[0].goes_on()) {
        sort_longer(group, strip + PREFIX_BYTES, rounds, buffers);
    }
}

/// Sorts keys that are alike up to `strip` and go on.
fn sort_longer(group: &mut [Entry], strip: usize, rounds: usize, buffers: &Buffers) {
    if group.len() <= SMALL_GROUP || rounds == 0 {
        group.sort_unstable_by(|a, b| {
            let (a_key, b_key) = (buffers.key(a), buffers.key(b));
            a_key[strip..]
                .cmp(&b_key[strip..])
                .then_with(|| b.seq.cmp(&a.seq))
        });
        return;
    }
    let (prefix, span) = (group[0].prefix, group[0].span());
    for entry in group.iter_mut() {
        entry.show(&buffers.key(entry)[strip..]);
    }
    sort_group(group, strip, rounds - 1, buffers);
    for entry in group {
        entry.set_shown(prefix, span);
    }
}

impl Sorted {
    #[inline]
    pub(crate) fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// Index of the first entry at or after (`key`, `seq`) in internal order.
    #[inline]
    pub(crate) fn find(&self, key: &[u8], seq: Seq, buffers: &Buffers) -> usize {
        let Some(rest) = key.strip_prefix(&*self.common) else {
            return match key < &*self.common {
                true => 0,
                false => self.entries.len(),
            };
        };
        let (prefix, span) = prefix_and_span(rest);
        let smaller = self.marks.partition_point(|mark| *mark < prefix);
        let equal = self.marks[smaller..].partition_point(|mark| *mark == prefix);
        let from = smaller.saturating_sub(1) * ENTRIES_PER_MARK;
        let to = ((smaller + equal) * ENTRIES_PER_MARK).min(self.entries.len());
        let is_before = |entry: &Entry| {
            entry
                .compare_shown(prefix, span)
                .then_with(|| match entry.goes_on() {
                    true => buffers.key(entry)[self.common.len() + PREFIX_BYTES..]
                        .cmp(&rest[PREFIX_BYTES..]),
                    false => Ordering::Equal,
                })
                .then_with(|| seq.cmp(&entry.seq))
                .is_lt()
        };
        from + self.entries[from..to].partition_point(is_before)
    }
}
