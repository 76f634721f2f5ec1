//! K-way merge over the tiers of a tree within a key range: per key the newest visible version.
//!
//! Neighbours: `view` says which tiers there are; `tree::RunIter`, `memtable::MemIter` and `recovery::ReplayedIter` are
//! what is merged. `iter::MergingIter` is the walk in both directions for cursors, which stop anywhere; this one is
//! made to run.
//!
//! As long as one tier is alone in front, it is drained up to the key of the next one in a loop of its own. Only where
//! two tiers have the same key they are looked at together.
//!
//! **Invariants**
//! - Between two steps every tier stands on the first version of a key, or is at its end. `order` has those that are
//!   not, by (key, tier).
//! - A version of a newer tier hides all versions of the same key in older ones, if it is seen.

use std::cmp::Ordering;

use crate::batch::Sight;
use crate::iter::InternalIter;
use crate::memtable::MemIter;
use crate::replayed::ReplayedIter;
use crate::tree::RunIter;
use crate::visit::{Visit, show};
use crate::{Op, Result, Seq};

/// Steps over versions of one key before a seek is tried instead.
const MAX_STEPS: usize = 8;
/// Tiers that are compared one by one with one that has fallen behind; among the others its place is found by halving.
const NEAR_TIERS: usize = 3;
/// Keys between two questions whether to go on, where no block ends.
const KEYS_PER_QUESTION: u32 = 256;

/// A walk over one tier.
pub(super) enum Source {
    Run(Box<RunIter>),
    Memtable(Box<MemIter>),
    Replayed(Box<ReplayedIter>),
}

/// A tier of the merge.
pub(super) struct Tier {
    source: Source,
    sight: Sight,
    /// The newest committed sequence that was shown.
    newest: Seq,
}

/// Calls something for whatever the source is.
macro_rules! with {
    ($source:expr, $iter:ident => $body:expr) => {
        match $source {
            Source::Run($iter) => $body,
            Source::Memtable($iter) => $body,
            Source::Replayed($iter) => $body,
        }
    };
}

impl Source {
    fn seek(&mut self, key: &[u8]) -> Result<()> {
        with!(self, iter => iter.seek(key))
    }

    #[inline]
    fn valid(&self) -> bool {
        with!(self, iter => iter.valid())
    }

    #[inline]
    fn key(&self) -> &[u8] {
        with!(self, iter => iter.key())
    }
}

impl Tier {
    pub(super) fn new(source: Source, sight: Sight) -> Self {
        Tier {
            source,
            sight,
            newest: 0,
        }
    }

    /// Shows the keys before `bound`.
    fn drain(
        &mut self,
        bound: Option<&[u8]>,
        key: &mut Vec<u8>,
        visit: &mut impl Visit,
        go_on: &mut dyn FnMut() -> bool,
    ) -> Result<bool> {
        let Tier {
            source,
            sight,
            newest,
        } = self;
        match (source, &*sight) {
            (Source::Run(iter), Sight::Snapshot(upto)) => {
                iter.drain(bound, *upto, newest, visit, go_on)
            }
            (Source::Run(iter), Sight::Own(..)) => {
                drain(&mut **iter, bound, sight, &mut 0, key, visit, go_on)
            }
            (Source::Memtable(iter), Sight::Snapshot(upto)) => {
                while iter.drain(bound, *upto, newest, KEYS_PER_QUESTION, visit) {
                    if !iter.valid() || bound.is_some_and(|bound| iter.key() >= bound) {
                        return Ok(true);
                    }
                    if !go_on() {
                        break;
                    }
                }
                Ok(false)
            }
            (Source::Memtable(iter), Sight::Own(..)) => {
                drain(&mut **iter, bound, sight, &mut 0, key, visit, go_on)
            }
            (Source::Replayed(iter), sight) => {
                drain(&mut **iter, bound, sight, newest, key, visit, go_on)
            }
        }
    }

    /// Passes the current key, which is `key`; shows its version if `wanted` and there is one that is seen. Whether
    /// there was, and whether to go on.
    fn pass_key(
        &mut self,
        key: &[u8],
        wanted: bool,
        visit: &mut impl Visit,
    ) -> Result<(bool, bool)> {
        let Tier {
            source,
            sight,
            newest,
        } = self;
        let mut unnoted = 0;
        let newest = match sight {
            Sight::Snapshot(_) => newest,
            Sight::Own(..) => &mut unnoted,
        };
        let mut pass = Pass {
            sight,
            newest,
            resolved: !wanted,
        };
        let goes_on = with!(source, iter => pass.key(&mut **iter, key, visit))?;
        Ok((wanted && pass.resolved, goes_on))
    }
}

/// The way over the versions of one key.
struct Pass<'a> {
    sight: &'a Sight,
    newest: &'a mut Seq,
    /// No further version is wanted.
    resolved: bool,
}

impl Pass<'_> {
    /// Moves `iter`, which stands on the first version of `key`, to the first version of a later key.
    #[inline]
    fn key<I: InternalIter + ?Sized>(
        &mut self,
        iter: &mut I,
        key: &[u8],
        visit: &mut impl Visit,
    ) -> Result<bool> {
        let mut steps = 0;
        loop {
            debug_assert!(iter.key() == key);
            if !self.resolved && self.sight.sees(iter.seq()) {
                self.resolved = true;
                *self.newest = iter.seq().max(*self.newest);
                if iter.op() == Op::Delete {
                    iter.step_over();
                }
                if !show(visit, key, iter.op(), iter.value()) {
                    return Ok(false);
                }
            }
            steps += 1;
            if steps < MAX_STEPS {
                iter.next()?;
            } else if self.resolved {
                // Sequence 0 is behind every version of the key.
                iter.seek_version(key, 0)?;
            } else {
                // What is too new is passed at once; of the transaction's own writes, one by one, some may be dead.
                let upto = self.sight.upto();
                match iter.seq() > upto {
                    true => iter.seek_version(key, upto)?,
                    false => iter.next()?,
                }
            }
            if !iter.valid() || iter.key() != key {
                return Ok(true);
            }
        }
    }
}

/// As [`RunIter::drain`] for any walk.
fn drain<I: InternalIter>(
    iter: &mut I,
    bound: Option<&[u8]>,
    sight: &Sight,
    newest: &mut Seq,
    key: &mut Vec<u8>,
    visit: &mut impl Visit,
    go_on: &mut dyn FnMut() -> bool,
) -> Result<bool> {
    let mut asked = 0;
    while iter.valid() && bound.is_none_or(|bound| iter.key() < bound) {
        key.clear();
        key.extend_from_slice(iter.key());
        let mut pass = Pass {
            sight,
            newest,
            resolved: false,
        };
        if !pass.key(iter, key, visit)? {
            return Ok(false);
        }
        asked += 1;
        if asked == KEYS_PER_QUESTION {
            asked = 0;
            if !go_on() {
                return Ok(false);
            }
        }
    }
    Ok(true)
}

/// The merge. Tiers are named from the newest to the oldest.
pub(super) struct Merge {
    tiers: Vec<Tier>,
    order: Vec<usize>,
    /// Keys at or behind it are not shown.
    upper: Option<Vec<u8>>,
    bound: Vec<u8>,
    key: Vec<u8>,
}

impl Merge {
    /// A walk over the keys from `lower` on and before `upper`.
    pub(super) fn new(mut tiers: Vec<Tier>, lower: &[u8], upper: Option<&[u8]>) -> Result<Self> {
        for tier in &mut tiers {
            tier.source.seek(lower)?;
        }
        let mut merge = Merge {
            order: Vec::with_capacity(tiers.len()),
            tiers,
            upper: upper.map(<[u8]>::to_vec),
            bound: Vec::new(),
            key: Vec::new(),
        };
        for tier in 0..merge.tiers.len() {
            merge.enter(tier);
        }
        Ok(merge)
    }

    /// Puts a tier at its place in the order, unless it is at its end.
    fn enter(&mut self, tier: usize) {
        let source = &self.tiers[tier].source;
        if !source.valid() {
            return;
        }
        debug_assert!(!self.order.contains(&tier), "a tier waits once");
        let precedes = |other: &usize| {
            let order = self.tiers[*other].source.key().cmp(source.key());
            order.then(other.cmp(&tier)) == Ordering::Less
        };
        // Most often it goes on near the front.
        let near = self.order.len().min(NEAR_TIERS);
        let ahead = self.order[..near]
            .iter()
            .take_while(|o| precedes(o))
            .count();
        let at = match ahead == near {
            true => near + self.order[near..].partition_point(precedes),
            false => ahead,
        };
        self.order.insert(at, tier);
    }

    /// Shows `visit` every key with the newest version of it that is seen, tombstones included. Asks `go_on` now and
    /// then. False if one of them has said no.
    pub(super) fn run(
        &mut self,
        visit: &mut impl Visit,
        go_on: &mut dyn FnMut() -> bool,
    ) -> Result<bool> {
        let mut turns = 0;
        while let Some(&first) = self.order.first() {
            let key = self.tiers[first].source.key();
            let bound = match self.order.get(1) {
                None => self.upper.as_deref(),
                Some(&second) => {
                    let second = self.tiers[second].source.key();
                    if second == key {
                        if !self.pass_shared_key(visit)? {
                            return Ok(false);
                        }
                        continue;
                    }
                    self.bound.clear();
                    self.bound.extend_from_slice(second);
                    match &self.upper {
                        Some(upper) if *upper < self.bound => Some(upper.as_slice()),
                        _ => Some(self.bound.as_slice()),
                    }
                }
            };
            if self.is_beyond(key) {
                break;
            }
            if !self.tiers[first].drain(bound, &mut self.key, visit, go_on)? {
                return Ok(false);
            }
            debug_assert!(
                !self.tiers[first].source.valid()
                    || bound.is_none_or(|bound| self.tiers[first].source.key() >= bound),
                "a tier is drained up to its bound"
            );
            self.order.remove(0);
            self.enter(first);
            turns += 1;
            if turns == KEYS_PER_QUESTION {
                turns = 0;
                if !go_on() {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    #[inline]
    fn is_beyond(&self, key: &[u8]) -> bool {
        self.upper
            .as_ref()
            .is_some_and(|upper| key >= upper.as_slice())
    }

    /// Shows the smallest key, which several tiers have.
    fn pass_shared_key(&mut self, visit: &mut impl Visit) -> Result<bool> {
        let mut key = std::mem::take(&mut self.key);
        key.clear();
        key.extend_from_slice(self.tiers[self.order[0]].source.key());
        if self.is_beyond(&key) {
            self.order.clear();
            return Ok(true);
        }
        let has_key = |tier: &&usize| self.tiers[**tier].source.key() == key;
        let shared = self.order.iter().take_while(has_key).count();
        let tiers: smallvec::SmallVec<[usize; 8]> = self.order.drain(..shared).collect();
        debug_assert!(
            tiers.len() > 1 && tiers.is_sorted(),
            "the newest comes first"
        );
        let mut found = false;
        // Of equal keys the newest tier comes first.
        for &tier in &tiers {
            let (is_seen, goes_on) = self.tiers[tier].pass_key(&key, !found, visit)?;
            found |= is_seen;
            if !goes_on {
                return Ok(false);
            }
        }
        for tier in tiers {
            self.enter(tier);
        }
        self.key = key;
        Ok(true)
    }

    /// The newest committed sequence that was shown: whoever answers from it waits until that is durable.
    pub(super) fn newest(&self) -> Seq {
        self.tiers.iter().map(|tier| tier.newest).max().unwrap_or(0)
    }
}
