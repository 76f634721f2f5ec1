//! When a group is flushed: X transactions, L bytes or T time, or at once where the device is free.
//!
//! Source: "flush pipelining" in Johnson et al., "Aether: A Scalable Approach to Logging" (2010),
//! section 4, whose daemon flushes every X transactions, L bytes or T time units, whichever comes
//! first. Fixed values are wrong for most loads: waiting for T costs an idle system its latency,
//! and not waiting costs a busy one its groups. So by default T is zero, and what fills the groups
//! is the device: whoever comes while it works gathers in the next group.
//!
//! A second group may begin before the first is durable. That halves the wait of those who just
//! missed a group, and costs processor time for smaller groups, so it is done where the first
//! outweighs the second: on devices whose sync takes [`FlushPolicy::overlap_from`] or longer, and
//! for backlogs of L bytes. The groups on their way are spaced evenly, or the second one would take
//! the one commit that came first and everybody else would have to wait for the third.
//!
//! Neighbours: `daemon` asks and obeys; `signals` keeps the policy and the picture.
//!
//! **Invariants**
//! - Deciding changes nothing: the same picture under the same policy gives the same decision.
//! - What somebody waits for is flushed after T at the latest, if the device is free.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Most groups that may be on their way to the device at once.
pub const MAX_IN_FLIGHT: usize = 4;

/// Longest time that a policy can let a commit wait for others.
pub const MAX_FLUSH_INTERVAL: Duration = Duration::from_secs(1);

/// The policy of the flush daemon. Can be changed while the log works.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FlushPolicy {
    /// X: this many waiting transactions are flushed without waiting for T. 0: any number.
    pub transactions: u64,
    /// L: this many bytes are flushed without waiting for T, and are worth a group beside those on
    /// their way. 0: a quarter of the log buffer.
    pub bytes: u64,
    /// T: how long a transaction waits for others when the device is free, at most
    /// [`MAX_FLUSH_INTERVAL`]. Zero: not at all.
    pub interval: Duration,
    /// Groups on their way at once, from 1 to [`MAX_IN_FLIGHT`].
    pub in_flight: usize,
    /// On a device whose groups take this long or longer, a group may begin before the last one is
    /// durable.
    pub overlap_from: Duration,
}

impl Default for FlushPolicy {
    /// Adapts by itself: at once where the device is free, and as many as come while it is busy.
    /// Measured in `docs/decisions/log-flush.md`.
    fn default() -> Self {
        Self {
            transactions: 0,
            bytes: 0,
            interval: Duration::ZERO,
            in_flight: MAX_IN_FLIGHT,
            overlap_from: Duration::from_micros(500),
        }
    }
}

/// A [`FlushPolicy`] that threads share. Its fields change one by one: a decision in between sees
/// some of them old, which is as good as having come earlier.
pub(crate) struct PolicyCell {
    transactions: AtomicU64,
    bytes: AtomicU64,
    interval_nanos: AtomicU64,
    in_flight: AtomicU64,
    overlap_nanos: AtomicU64,
    /// Where waiting for more makes no sense, because who should fill it waits for room.
    most_bytes: u64,
}

impl PolicyCell {
    pub(crate) fn new(policy: &FlushPolicy, buffer_bytes: u64) -> Self {
        let cell = Self {
            transactions: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            interval_nanos: AtomicU64::new(0),
            in_flight: AtomicU64::new(1),
            overlap_nanos: AtomicU64::new(0),
            most_bytes: buffer_bytes / 4,
        };
        cell.set(policy);
        cell
    }

    pub(crate) fn set(&self, policy: &FlushPolicy) {
        let nanos = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let store = |cell: &AtomicU64, value| cell.store(value, Ordering::Relaxed);
        store(&self.transactions, policy.transactions);
        store(&self.bytes, policy.bytes);
        store(
            &self.interval_nanos,
            nanos(policy.interval.min(MAX_FLUSH_INTERVAL)),
        );
        store(
            &self.in_flight,
            policy.in_flight.clamp(1, MAX_IN_FLIGHT) as u64,
        );
        store(&self.overlap_nanos, nanos(policy.overlap_from));
    }

    pub(crate) fn get(&self) -> FlushPolicy {
        let load = |cell: &AtomicU64| cell.load(Ordering::Relaxed);
        FlushPolicy {
            transactions: load(&self.transactions),
            bytes: load(&self.bytes),
            interval: self.interval(),
            in_flight: load(&self.in_flight) as usize,
            overlap_from: Duration::from_nanos(load(&self.overlap_nanos)),
        }
    }

    /// The policy with numbers in the place of "whatever".
    pub(crate) fn effective(&self) -> FlushPolicy {
        let policy = self.get();
        let or_most = |limit: u64, most: u64| if limit == 0 { most } else { limit.min(most) };
        let effective = FlushPolicy {
            transactions: or_most(policy.transactions, u64::MAX),
            bytes: or_most(policy.bytes, self.most_bytes),
            ..policy
        };
        debug_assert!((1..=MAX_IN_FLIGHT).contains(&effective.in_flight));
        debug_assert!(effective.bytes <= self.most_bytes);
        debug_assert!(effective.interval <= MAX_FLUSH_INTERVAL);
        effective
    }

    /// T.
    pub(crate) fn interval(&self) -> Duration {
        Duration::from_nanos(self.interval_nanos.load(Ordering::Relaxed))
    }
}

/// What there is to flush and what is on its way.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Load {
    /// Somebody waits for what is not on its way yet.
    pub(crate) wanted: bool,
    /// Somebody cannot go on before room is made in the buffer.
    pub(crate) hurry: bool,
    /// Bytes appended that are not on their way.
    pub(crate) bytes: u64,
    /// Transactions that have asked for them.
    pub(crate) transactions: u64,
    /// Time since the first of these has asked.
    pub(crate) age: Duration,
    /// Groups on their way.
    pub(crate) in_flight: usize,
    /// Time since the last of them began.
    pub(crate) since_last: Duration,
    /// How long a group takes to become durable, as experience has it.
    pub(crate) expected: Duration,
}

/// What the daemon should do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Decision {
    /// Nothing: wait for somebody who asks.
    Rest,
    /// Begin a group after this time, unless things change.
    After(Duration),
    /// Begin a group.
    Now,
    /// Look again when a group is durable.
    Land,
}

impl Load {
    /// `policy` is an effective one.
    pub(crate) fn decide(&self, policy: &FlushPolicy) -> Decision {
        debug_assert!(self.in_flight <= MAX_IN_FLIGHT);
        debug_assert!(policy.in_flight > 0, "an effective policy");
        if !self.wanted && !self.hurry {
            return Decision::Rest;
        }
        let is_full = self.is_full(policy);
        if self.in_flight > 0 && !self.may_overlap(policy) {
            return Decision::Land;
        }
        if is_full {
            return Decision::Now;
        }
        let to_fill = policy.interval.saturating_sub(self.age);
        let to_space = match self.in_flight {
            0 => Duration::ZERO,
            _ => (self.expected / policy.in_flight as u32).saturating_sub(self.since_last),
        };
        match to_fill.max(to_space) {
            Duration::ZERO => Decision::Now,
            pause => Decision::After(pause),
        }
    }

    /// Whether another group may begin beside those on their way.
    pub(crate) fn may_overlap(&self, policy: &FlushPolicy) -> bool {
        self.in_flight < policy.in_flight
            && (self.expected >= policy.overlap_from || self.bytes >= policy.bytes)
    }

    /// Whether waiting for more makes no sense.
    fn is_full(&self, policy: &FlushPolicy) -> bool {
        self.hurry || self.bytes >= policy.bytes || self.transactions >= policy.transactions
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn effective(policy: FlushPolicy) -> FlushPolicy {
        PolicyCell::new(&policy, 4 << 20).effective()
    }

    fn adaptive() -> FlushPolicy {
        effective(FlushPolicy::default())
    }

    fn patient() -> FlushPolicy {
        effective(FlushPolicy {
            transactions: 10,
            bytes: 1000,
            interval: 5 * MS,
            ..FlushPolicy::default()
        })
    }

    fn one_waits() -> Load {
        Load {
            wanted: true,
            bytes: 100,
            transactions: 1,
            ..Load::default()
        }
    }

    #[test]
    fn an_idle_device_is_used_at_once_and_nobody_waiting_means_rest() {
        assert_eq!(one_waits().decide(&adaptive()), Decision::Now);
        let lazy = Load {
            wanted: false,
            bytes: 1 << 30,
            ..one_waits()
        };
        assert_eq!(lazy.decide(&adaptive()), Decision::Rest);
        assert_eq!(lazy.decide(&patient()), Decision::Rest);
    }

    #[test]
    fn a_fast_device_fills_the_next_group_while_it_is_busy() {
        let busy = Load {
            in_flight: 1,
            expected: MS / 10,
            since_last: MS,
            ..one_waits()
        };
        assert_eq!(busy.decide(&adaptive()), Decision::Land);
        let backlog = Load {
            bytes: 1 << 20,
            ..busy
        };
        assert_eq!(backlog.decide(&adaptive()), Decision::Now);
    }

    #[test]
    fn a_slow_device_gets_groups_at_even_distances_up_to_the_limit() {
        let slow = Load {
            in_flight: 1,
            expected: 8 * MS,
            since_last: MS / 2,
            ..one_waits()
        };
        assert_eq!(slow.decide(&adaptive()), Decision::After(MS + MS / 2));
        let later = Load {
            since_last: 2 * MS,
            ..slow
        };
        assert_eq!(later.decide(&adaptive()), Decision::Now);
        let all = Load {
            in_flight: MAX_IN_FLIGHT,
            ..later
        };
        assert_eq!(all.decide(&adaptive()), Decision::Land);
        let single = FlushPolicy {
            in_flight: 1,
            ..adaptive()
        };
        assert_eq!(later.decide(&single), Decision::Land);
    }

    #[test]
    fn patience_ends_with_transactions_bytes_or_time_whichever_comes_first() {
        let policy = patient();
        assert_eq!(one_waits().decide(&policy), Decision::After(5 * MS));
        let aged = Load {
            age: 2 * MS,
            ..one_waits()
        };
        assert_eq!(aged.decide(&policy), Decision::After(3 * MS));
        for full in [
            Load {
                age: 5 * MS,
                ..one_waits()
            },
            Load {
                transactions: 10,
                ..one_waits()
            },
            Load {
                bytes: 1000,
                ..one_waits()
            },
            Load {
                hurry: true,
                wanted: false,
                ..one_waits()
            },
        ] {
            assert_eq!(full.decide(&policy), Decision::Now, "{full:?}");
        }
    }

    #[test]
    fn settings_out_of_range_are_brought_into_it() {
        let policy = FlushPolicy {
            bytes: u64::MAX,
            interval: Duration::MAX,
            in_flight: 1000,
            overlap_from: Duration::MAX,
            ..FlushPolicy::default()
        };
        let effective = effective(policy);
        assert_eq!(effective.bytes, 1 << 20);
        assert_eq!(effective.interval, MAX_FLUSH_INTERVAL);
        assert_eq!(effective.in_flight, MAX_IN_FLIGHT);
        assert_eq!(
            PolicyCell::new(&patient(), 4 << 20).get(),
            patient(),
            "what is in range is kept"
        );
    }
}
