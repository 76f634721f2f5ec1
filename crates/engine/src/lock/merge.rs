//! Lock escalation, the deciding half: which covers take the place of the row locks of a transaction in a tree.
//!
//! Neighbours: `coarse` collects what is locked, and puts the covers in the place of the row locks.
//!
//! Rows between which others have nothing locked are merged to one cover, so rows in between that nobody has locked are
//! locked as well. As many covers are made as there is room for, cut where the keys lie furthest apart: runs of
//! neighbours stay exact, and scattered keys lock as little in between as can be. What others have locked is a barrier
//! (the term is that of RocksDB's range lock manager): no cover has it.
//!
//! **Invariants**
//! - No cover meets what others have locked.
//! - Every cover that the transaction has already is part of one of the new ones.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ops::Range;

use super::keys::SortedKeys;
use crate::span::{KeySpan, Spans, following, is_successor};

/// Covers of a tree that are made of rows: the rest of [`Spans::LIMIT`] is for scans that come later.
const MOST: usize = Spans::LIMIT / 2;

/// What others have locked in a tree.
#[derive(Debug, Default)]
pub(super) struct Barriers {
    keys: SortedKeys,
    /// In order, and apart from each other.
    spans: Vec<KeySpan>,
}

impl Barriers {
    pub(super) fn new(keys: SortedKeys, mut spans: Vec<KeySpan>) -> Self {
        spans.sort_unstable_by(|a, b| a.lower.cmp(&b.lower));
        spans.dedup_by(|next, last| {
            let is_apart = last.upper.as_ref().is_some_and(|end| *end < next.lower);
            if !is_apart {
                // `None` is the last of all ends, not the first.
                last.upper = match (last.upper.take(), next.upper.take()) {
                    (Some(a), Some(b)) => Some(a.max(b)),
                    _ => None,
                };
            }
            !is_apart
        });
        Barriers { keys, spans }
    }

    /// Whether others have locked anything in a span.
    pub(super) fn meet(&self, span: &KeySpan) -> bool {
        self.meet_between(&span.lower, span.upper.as_deref())
    }

    fn meet_between(&self, lower: &[u8], upper: Option<&[u8]>) -> bool {
        let is_before_end = |key: &[u8]| upper.is_none_or(|upper| key < upper);
        let is_before = |span: &KeySpan| span.upper.as_deref().is_some_and(|end| end <= lower);
        let span = self.spans.partition_point(is_before);
        self.keys.first_from(lower).is_some_and(is_before_end)
            || self
                .spans
                .get(span)
                .is_some_and(|s| is_before_end(&s.lower))
    }
}

/// Something that the transaction has locked.
#[derive(Clone, Copy)]
enum Place<'a> {
    Row(&'a [u8]),
    Cover(&'a KeySpan),
}

/// A place, and how many row locks lie in it.
struct Atom<'a> {
    place: Place<'a>,
    rows: usize,
}

impl<'a> Atom<'a> {
    fn lower(&self) -> &'a [u8] {
        match self.place {
            Place::Row(key) => key,
            Place::Cover(span) => &span.lower,
        }
    }

    /// The first key behind it; `None`: it has no end.
    fn upper(&self) -> Option<Vec<u8>> {
        match self.place {
            Place::Row(key) => Some(following(key)),
            Place::Cover(span) => span.upper.clone(),
        }
    }

    fn contains(&self, key: &[u8]) -> bool {
        match self.place {
            Place::Row(row) => row == key,
            Place::Cover(span) => span.contains(key),
        }
    }
}

/// The covers for these rows of a transaction, and the covers that it has already.
pub(super) fn merged(keys: &SortedKeys, covers: &Spans, barriers: &Barriers) -> Vec<KeySpan> {
    let atoms = atoms(keys, covers);
    let cuts = cuts(&atoms, barriers);
    let ends = cuts.iter().copied().chain([atoms.len()]);
    let mut begin = 0;
    let parts = ends.map(|end| std::mem::replace(&mut begin, end)..end);
    let parts: Vec<_> = parts.filter(|part| !part.is_empty()).collect();
    worthwhile(parts, &atoms)
        .into_iter()
        .map(|part| KeySpan {
            lower: atoms[part.start].lower().to_vec(),
            upper: atoms[part.end - 1].upper(),
        })
        .collect()
}

/// Rows and covers in order; a row in a cover counts with it.
fn atoms<'a>(keys: &'a SortedKeys, covers: &'a Spans) -> Vec<Atom<'a>> {
    let mut covers = covers.iter().peekable();
    let mut atoms: Vec<Atom<'_>> = Vec::with_capacity(keys.len() + covers.len());
    let cover = |span| Atom {
        place: Place::Cover(span),
        rows: 0,
    };
    for key in keys.iter() {
        while let Some(span) = covers.next_if(|span| span.lower.as_slice() <= key) {
            atoms.push(cover(span));
        }
        match atoms.last_mut() {
            Some(last) if last.contains(key) => last.rows += 1,
            _ => atoms.push(Atom {
                place: Place::Row(key),
                rows: 1,
            }),
        }
    }
    atoms.extend(covers.map(cover));
    atoms
}

/// The places between which the atoms become one: where others have locked something, and where they lie furthest
/// apart.
fn cuts(atoms: &[Atom<'_>], barriers: &Barriers) -> Vec<usize> {
    let prefix = common_prefix(atoms);
    let mut forced = Vec::new();
    // The widest places that are free to choose, the narrowest of them first.
    let mut free = BinaryHeap::with_capacity(MOST + 1);
    for (nth, pair) in atoms.windows(2).enumerate() {
        let (end, next) = (pair[0].upper().unwrap_or_default(), pair[1].lower());
        debug_assert!(end.as_slice() <= next, "atoms are in order");
        let last = end.strip_suffix(&[0]).unwrap_or(&end);
        if end == next {
            // No key lies between.
        } else if barriers.meet_between(&end, Some(next)) {
            forced.push(nth + 1);
        } else if !is_successor(last, next) {
            let width = number(next, prefix).saturating_sub(number(&end, prefix));
            // Of places that are as wide, the cuts are spread evenly: single rows gain nothing.
            free.push(Reverse((width, nth.reverse_bits(), nth + 1)));
            if free.len() > MOST {
                free.pop();
            }
        }
    }
    let room = MOST.saturating_sub(forced.len() + 1);
    while free.len() > room {
        free.pop();
    }
    let mut cuts = forced;
    cuts.extend(free.into_iter().map(|Reverse((.., at))| at));
    cuts.sort_unstable();
    cuts
}

fn common_prefix(atoms: &[Atom<'_>]) -> usize {
    let (Some(first), Some(last)) = (atoms.first(), atoms.last()) else {
        return 0;
    };
    let pairs = first.lower().iter().zip(last.lower());
    pairs.take_while(|(a, b)| a == b).count()
}

/// The eight bytes behind the prefix as a number, for distances.
fn number(key: &[u8], prefix: usize) -> u64 {
    let behind = key.get(prefix..).unwrap_or_default();
    let mut bytes = [0; 8];
    let length = behind.len().min(bytes.len());
    bytes[..length].copy_from_slice(&behind[..length]);
    u64::from_be_bytes(bytes)
}

/// The parts that become covers: those with a cover in any case, and of the others those that save the most locks.
fn worthwhile(parts: Vec<Range<usize>>, atoms: &[Atom<'_>]) -> Vec<Range<usize>> {
    let is_cover = |atom: &Atom<'_>| matches!(atom.place, Place::Cover(_));
    let has_cover = |part: &Range<usize>| atoms[part.clone()].iter().any(is_cover);
    let rows = |part: &Range<usize>| -> usize { atoms[part.clone()].iter().map(|a| a.rows).sum() };
    let (mut chosen, mut others): (Vec<_>, Vec<_>) = parts.into_iter().partition(has_cover);
    others.retain(|part| rows(part) > 1);
    others.sort_by_key(|part| Reverse(rows(part)));
    others.truncate(MOST.saturating_sub(chosen.len()));
    chosen.append(&mut others);
    chosen.sort_unstable_by_key(|part| part.start);
    chosen
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn key(n: u16) -> Vec<u8> {
        [b"tree".as_slice(), &u32::from(n).to_be_bytes()].concat()
    }

    fn span(from: u16, to: u16) -> KeySpan {
        KeySpan {
            lower: key(from),
            upper: Some(key(to)),
        }
    }

    fn keys(numbers: impl IntoIterator<Item = u16>) -> SortedKeys {
        let numbers: BTreeSet<_> = numbers.into_iter().collect();
        numbers.into_iter().rev().map(key).collect()
    }

    fn covered(spans: &[KeySpan], n: u16) -> bool {
        spans.iter().any(|span| span.contains(&key(n)))
    }

    #[test]
    fn runs_of_neighbours_are_locked_exactly() {
        let rows = keys((100..200).chain(300..400).chain(1000..1002));
        let spans = merged(&rows, &Spans::default(), &Barriers::default());
        assert_eq!(spans.len(), 3);
        for n in 0..2000 {
            let is_row =
                (100..200).contains(&n) || (300..400).contains(&n) || (1000..1002).contains(&n);
            assert_eq!(covered(&spans, n), is_row, "{n}");
        }
    }

    #[test]
    fn scattered_rows_are_cut_where_they_are_furthest_apart() {
        // A hundred wider steps, between ten rows each that are three apart.
        let rows = keys((0..1000).map(|n| n * 3 + n / 10 * 20));
        let spans = merged(&rows, &Spans::default(), &Barriers::default());
        assert!((100 - 10..=MOST).contains(&spans.len()));
        let covered_rows = rows.iter().filter(|r| spans.iter().any(|s| s.contains(r)));
        assert!(covered_rows.count() > rows.len() - MOST);
        // In the wide steps nothing is locked.
        assert!((1..100).all(|n| !covered(&spans, n * 10 * 3 + n * 20 - 10)));
    }

    #[test]
    fn what_others_have_between_stays_free() {
        let barriers = Barriers::new(keys([150]), vec![span(120, 130), span(110, 125)]);
        let rows = keys((100..105).chain(140..149).chain(160..170));
        let spans = merged(&rows, &Spans::default(), &barriers);
        assert!(covered(&spans, 100) && covered(&spans, 145) && covered(&spans, 165));
        assert!(!covered(&spans, 150) && !(110..130).any(|n| covered(&spans, n)));
        // Where everything is others' at every second key, nothing is saved.
        let barriers = Barriers::new(keys((1..2000).step_by(2)), Vec::new());
        let rows = keys((0..2000).step_by(2));
        assert!(merged(&rows, &Spans::default(), &barriers).is_empty());
        // A long part is chosen before short ones.
        let barriers = Barriers::new(keys((5..1000).step_by(5)), Vec::new());
        let rows = keys((0..2000).filter(|n| n % 5 != 0 || *n > 1000));
        let spans = merged(&rows, &Spans::default(), &barriers);
        assert_eq!(spans.len(), MOST);
        assert!((1001..2000).all(|n| covered(&spans, n)));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn covers_have_the_rows_and_nothing_of_others(
            own in prop::collection::btree_set(0u16..3000, 0..900),
            others in prop::collection::btree_set(0u16..3000, 0..200),
            ranges in prop::collection::vec((0u16..3000, 1u16..60), 0..6),
            before in prop::collection::vec((0u16..3000, 1u16..60), 0..300),
        ) {
            let foreign = |n: u16| others.contains(&n)
                || ranges.iter().any(|(from, length)| (*from..from + length).contains(&n));
            let mut covers = Spans::default();
            for (from, length) in before {
                if covers.has_room_for(&span(from, from + length)) && !(from..from + length).any(foreign) {
                    covers.add(span(from, from + length));
                }
            }
            let spans_of_others = ranges.iter().map(|(from, length)| span(*from, from + length));
            let barriers = Barriers::new(keys(others.iter().copied()), spans_of_others.collect());
            let rows = keys(own.iter().copied().filter(|n| !foreign(*n)));
            let made = merged(&rows, &covers, &barriers);
            for n in 0..3100 {
                prop_assert!(!(covered(&made, n) && foreign(n)), "{} is locked twice", n);
                prop_assert!(covered(&made, n) || !covers.contains(&key(n)), "{} was covered", n);
            }
            prop_assert!(!made.iter().any(|span| barriers.meet(span)));
            let uncovered = rows.iter().filter(|row| !made.iter().any(|s| s.contains(row)));
            let parts = MOST + barriers.keys.len() + barriers.spans.len() + covers.len();
            prop_assert!(made.len() >= MOST || uncovered.count() <= parts);
            prop_assert!(Spans::of(made).is_some());
        }
    }
}
