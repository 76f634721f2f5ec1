//! Division of the memory limit into shares: a pure function of the memory in use.
//!
//! Neighbours: the budget takes the picture and sees to it that the shares are kept.
//!
//! What is fixed, what is demanded and what nobody counts comes first. Of the rest memtables may have half: with less
//! of it they are flushed earlier. The cache has what memtables do not use, counted by their recent peak: between two
//! flushes their size swings, and a cache that swung with it would leave holes in the heap instead of memory.
//!
//! **Invariants**
//! - `fixed + uncounted + demands + memtables_hard + cache` stays below the limit, as long as neither share is at its
//!   minimum nor what is not counted above its maximum.
//! - The more is demanded, the smaller are both shares; neither falls below its minimum.

/// One part in so many of the limit, at least, is for what nobody counts: code, stacks, connections, and the holes of
/// the allocator.
const LEAST_UNCOUNTED: usize = 16;
/// However much of it there is, no more than one part in so many of the limit is taken off for it.
pub(super) const MOST_UNCOUNTED: usize = 4;
/// Memtables and cache have at least one part in so many of the limit together, whatever is fixed or demanded.
const LEAST_ROOM: usize = 8;
/// The cache has at least one part in so many of the limit.
const LEAST_CACHE: usize = 32;
/// The cache grows by no less than one part in so many of the limit, so that it does not follow every flush.
const CACHE_STEP: usize = 64;

/// What the division depends on, bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Picture {
    pub(super) limit: usize,
    /// There as long as the database is open.
    pub(super) fixed: usize,
    /// What was resident lately beside all that is counted.
    pub(super) uncounted: usize,
    /// Transactions, statements, background work, and what readers keep.
    pub(super) demands: usize,
    /// The recent peak of memtables that are not flushed.
    pub(super) memtables: usize,
    /// The capacity of the cache.
    pub(super) cache: usize,
}

/// The shares, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shares {
    /// Memtables above this are flushed.
    pub(super) memtables_soft: usize,
    /// While memtables are above this writers wait.
    pub(super) memtables_hard: usize,
    pub(super) cache: usize,
}

impl Shares {
    pub(super) fn of(picture: &Picture) -> Shares {
        let limit = picture.limit;
        let uncounted = picture.uncounted.min(limit / MOST_UNCOUNTED);
        let uncounted = uncounted.max(limit / LEAST_UNCOUNTED);
        let taken = uncounted + picture.fixed + picture.demands;
        let room = limit.saturating_sub(taken).max(limit / LEAST_ROOM);
        let memtables_hard = room / 2;
        let free = room.saturating_sub(picture.memtables);
        let step = limit / CACHE_STEP + 1;
        let cache = match free {
            // A little more is not worth it.
            free if free >= picture.cache && free - picture.cache < step => picture.cache,
            free => free / step * step,
        };
        Shares {
            memtables_soft: memtables_hard / 4 * 3,
            memtables_hard,
            cache: cache.max(limit / LEAST_CACHE),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MIB: usize = 1 << 20;

    fn idle() -> Picture {
        Picture {
            limit: 1024 * MIB,
            fixed: 24 * MIB,
            uncounted: 0,
            demands: 0,
            memtables: 0,
            cache: 0,
        }
    }

    #[test]
    fn an_idle_database_gives_the_cache_what_memtables_do_not_use() {
        let shares = Shares::of(&idle());
        assert_eq!(shares.memtables_hard, 468 * MIB);
        assert_eq!(shares.memtables_soft, 351 * MIB);
        assert!(
            (900 * MIB..=936 * MIB).contains(&shares.cache),
            "{shares:?}"
        );
    }

    #[test]
    fn memtables_displace_the_cache_and_demands_displace_both() {
        let before = Shares::of(&idle());
        let writing = Shares::of(&Picture {
            memtables: 400 * MIB,
            ..idle()
        });
        assert_eq!(writing.memtables_hard, before.memtables_hard);
        let gone = before.cache - writing.cache;
        assert!((380 * MIB..=420 * MIB).contains(&gone), "{gone}");
        let sorting = Shares::of(&Picture {
            demands: 400 * MIB,
            memtables: 400 * MIB,
            ..idle()
        });
        // Memtables have more than they may now, so they are flushed.
        assert!(sorting.memtables_hard < 400 * MIB);
        assert_eq!(sorting.memtables_hard, before.memtables_hard - 200 * MIB);
        assert!(sorting.cache < 150 * MIB, "{sorting:?}");
    }

    #[test]
    fn the_cache_does_not_grow_by_a_little_and_shrinks_at_once() {
        let now = Shares::of(&Picture {
            memtables: 200 * MIB,
            ..idle()
        });
        let with = |memtables| {
            Shares::of(&Picture {
                memtables,
                cache: now.cache,
                ..idle()
            })
        };
        assert_eq!(with(205 * MIB).cache, now.cache);
        assert!(with(150 * MIB).cache > now.cache);
        assert!(with(230 * MIB).cache < now.cache);
    }

    #[test]
    fn what_nobody_counts_is_taken_off_up_to_a_quarter() {
        let room = |uncounted| {
            let shares = Shares::of(&Picture {
                uncounted,
                ..idle()
            });
            (shares.memtables_hard, shares.cache)
        };
        assert_eq!(room(0), room(64 * MIB));
        let (memtables, cache) = room(64 * MIB);
        let less = room(100 * MIB);
        assert_eq!(less.0, memtables - 18 * MIB);
        assert!((cache - less.1).abs_diff(36 * MIB) <= 16 * MIB);
        assert_eq!(room(256 * MIB), room(2000 * MIB));
    }

    proptest! {
        #[test]
        fn the_limit_holds_and_nobody_is_left_without(
            limit in 1..1_000_000_usize,
            fixed in 0..1_000_000_usize,
            uncounted in 0..1_000_000_usize,
            demands in 0..1_000_000_usize,
            memtables in 0..1_000_000_usize,
            cache in 0..1_000_000_usize,
        ) {
            let picture = Picture { limit, fixed, uncounted, demands, memtables, cache };
            let shares = Shares::of(&picture);
            prop_assert!(shares.memtables_soft <= shares.memtables_hard);
            prop_assert!(shares.cache >= limit / LEAST_CACHE);
            prop_assert!(shares.memtables_hard >= limit / LEAST_ROOM / 2);
            let beside = uncounted.min(limit / MOST_UNCOUNTED).max(limit / LEAST_UNCOUNTED);
            let room = limit.saturating_sub(beside + fixed + demands);
            if room >= limit / LEAST_ROOM && memtables <= room - limit / LEAST_CACHE {
                let sum = fixed + demands + memtables + shares.cache;
                prop_assert!(sum <= limit, "{shares:?}");
            }
            let more = Shares::of(&Picture { demands: demands + 1000, ..picture });
            prop_assert!(more.memtables_hard <= shares.memtables_hard);
            prop_assert!(more.cache <= shares.cache);
        }
    }
}
