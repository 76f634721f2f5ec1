//! Guests who do not behave: delays after failed logins, and addresses whose handshakes keep failing.
//!
//! Neighbours: `login` asks before it checks a proof and reports how that went; `connection` reports
//! handshakes. The limits are system variables.
//! **Invariants**
//! - A wait is a timer of the connection's task: it holds no thread. Everything is decided from the
//!   time passed in, so nothing here sleeps.
//! - Guesses at one account from one address come one after the other, however many connections
//!   make them: each takes the next free moment, and beyond the longest delay it is refused.
//! - Memory is bounded by [`MAX_KEYS`] and [`MAX_ADDRESSES`]; when they are full, harmless entries go
//!   first.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// Most pairs of account and address that are remembered.
const MAX_KEYS: usize = 16_384;
/// Most addresses that are remembered.
const MAX_ADDRESSES: usize = 4_096;
/// A failed login is forgotten after this time without another one.
const FORGET_AFTER: Duration = Duration::from_secs(600);

/// The variables `connection_control_…`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    /// Failures in a row that cost nothing; 0 switches the delays off.
    pub(crate) threshold: u64,
    /// Delay of the first failure beyond, and what each further one adds.
    pub(crate) min: Duration,
    /// Longest delay.
    pub(crate) max: Duration,
}

#[derive(Debug, Clone, Copy)]
struct Attempts {
    failures: u64,
    /// The next moment that is free for an attempt.
    next: Instant,
    last: Instant,
}

/// What is known about guests.
#[derive(Default)]
pub(crate) struct Throttle {
    hasher: RandomState,
    logins: Mutex<HashMap<u64, Attempts>>,
    /// Interrupted handshakes in a row, by address.
    addresses: Mutex<Addresses>,
}

#[derive(Default)]
struct Addresses {
    errors: HashMap<IpAddr, u64>,
    /// FLUSH HOSTS statements heard of.
    flushes: u64,
}

/// A pair of account and address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Key(u64);

impl Throttle {
    /// The key of an account as an address names it.
    pub(crate) fn key(&self, user: &str, host: &str) -> Key {
        Key(self.hasher.hash_one((user, host)))
    }

    /// How long an attempt has to wait; None: it is refused.
    pub(crate) fn admit(&self, key: Key, limits: Limits, now: Instant) -> Option<Duration> {
        let mut logins = self.logins.lock();
        let Some(attempts) = logins.get_mut(&key.0) else {
            return Some(Duration::ZERO);
        };
        let delay = attempts.delay(limits);
        if delay.is_zero() || now.duration_since(attempts.last) > FORGET_AFTER {
            return Some(Duration::ZERO);
        }
        let wait = attempts.next.saturating_duration_since(now);
        if wait > limits.max {
            return None;
        }
        attempts.next = attempts.next.max(now) + delay;
        Some(wait)
    }

    /// A login failed.
    pub(crate) fn failed(&self, key: Key, limits: Limits, now: Instant) {
        if limits.threshold == 0 {
            return;
        }
        let mut logins = self.logins.lock();
        if logins.len() >= MAX_KEYS && !logins.contains_key(&key.0) {
            logins.retain(|_, a| {
                !a.delay(limits).is_zero() && now.duration_since(a.last) <= FORGET_AFTER
            });
            if logins.len() >= MAX_KEYS {
                logins.clear();
            }
        }
        let fresh = Attempts {
            failures: 0,
            next: now,
            last: now,
        };
        let attempts = logins.entry(key.0).or_insert(fresh);
        if now.duration_since(attempts.last) > FORGET_AFTER {
            *attempts = fresh;
        }
        attempts.failures += 1;
        attempts.last = now;
        attempts.next = attempts.next.max(now + attempts.delay(limits));
    }

    /// A login succeeded: what failed before is forgiven.
    pub(crate) fn succeeded(&self, key: Key) {
        let mut logins = self.logins.lock();
        if !logins.is_empty() {
            logins.remove(&key.0);
        }
    }

    /// Is the address blocked, after `limit` handshakes in a row that broke? `flushes`: how many
    /// FLUSH HOSTS there were.
    pub(crate) fn is_blocked(&self, address: IpAddr, limit: u64, flushes: u64) -> bool {
        let mut addresses = self.addresses.lock();
        addresses.hear(flushes);
        addresses.errors.get(&address).is_some_and(|e| *e >= limit)
    }

    /// A handshake broke or timed out. Loopback is trusted, as in MySQL.
    pub(crate) fn interrupted(&self, address: IpAddr, limit: u64) {
        if address.is_loopback() {
            return;
        }
        let errors = &mut self.addresses.lock().errors;
        if errors.len() >= MAX_ADDRESSES && !errors.contains_key(&address) {
            errors.retain(|_, e| *e >= limit);
            if errors.len() >= MAX_ADDRESSES {
                errors.clear();
            }
        }
        *errors.entry(address).or_default() += 1;
    }

    /// A handshake went well.
    pub(crate) fn completed(&self, address: IpAddr) {
        let errors = &mut self.addresses.lock().errors;
        if !errors.is_empty() {
            errors.remove(&address);
        }
    }
}

impl Attempts {
    fn delay(&self, limits: Limits) -> Duration {
        if limits.threshold == 0 || self.failures < limits.threshold {
            return Duration::ZERO;
        }
        let steps = u32::try_from(self.failures - limits.threshold + 1).unwrap_or(u32::MAX);
        limits.min.saturating_mul(steps).min(limits.max)
    }
}

impl Addresses {
    fn hear(&mut self, flushes: u64) {
        if self.flushes != flushes {
            self.flushes = flushes;
            self.errors.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits {
        threshold: 3,
        min: Duration::from_secs(1),
        max: Duration::from_secs(4),
    };
    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn delays_grow_to_their_bound_and_end_with_success() {
        let throttle = Throttle::default();
        let key = throttle.key("u", "h");
        let mut now = Instant::now();
        let mut waits = Vec::new();
        for _ in 0..8 {
            let wait = throttle.admit(key, LIMITS, now).unwrap();
            waits.push(wait.as_secs());
            now += wait;
            throttle.failed(key, LIMITS, now);
        }
        assert_eq!(waits, [0, 0, 0, 1, 2, 3, 4, 4]);
        let other = throttle.key("u", "elsewhere");
        assert_eq!(throttle.admit(other, LIMITS, now), Some(Duration::ZERO));
        throttle.succeeded(key);
        assert_eq!(throttle.admit(key, LIMITS, now), Some(Duration::ZERO));
    }

    #[test]
    fn parallel_guesses_queue_up_and_are_refused_beyond_the_bound() {
        let throttle = Throttle::default();
        let key = throttle.key("u", "h");
        let now = Instant::now();
        for _ in 0..3 {
            throttle.failed(key, LIMITS, now);
        }
        let waits: Vec<_> = (0..6).map(|_| throttle.admit(key, LIMITS, now)).collect();
        let after = |n| Some(SECOND * n);
        assert_eq!(waits, [after(1), after(2), after(3), after(4), None, None]);
        let later = now + FORGET_AFTER + SECOND;
        assert_eq!(throttle.admit(key, LIMITS, later), Some(Duration::ZERO));
    }

    #[test]
    fn memory_is_bounded() {
        let throttle = Throttle::default();
        let now = Instant::now();
        let guilty = throttle.key("u", "h");
        for _ in 0..3 {
            throttle.failed(guilty, LIMITS, now);
        }
        for i in 0..2 * MAX_KEYS as u64 {
            throttle.failed(Key(i), LIMITS, now);
        }
        assert!(throttle.logins.lock().len() <= MAX_KEYS);
        assert!(throttle.admit(guilty, LIMITS, now).unwrap() > Duration::ZERO);
        for i in 0..2 * MAX_ADDRESSES as u32 {
            throttle.interrupted(IpAddr::from((0x0a00_0000 + i).to_be_bytes()), 5);
        }
        assert!(throttle.addresses.lock().errors.len() <= MAX_ADDRESSES);
    }

    #[test]
    fn broken_handshakes_block_an_address_until_it_is_flushed() {
        let throttle = Throttle::default();
        let bad = IpAddr::from([10, 0, 0, 1]);
        for _ in 0..3 {
            assert!(!throttle.is_blocked(bad, 3, 0));
            throttle.interrupted(bad, 3);
        }
        assert!(throttle.is_blocked(bad, 3, 0));
        assert!(!throttle.is_blocked(IpAddr::from([10, 0, 0, 2]), 3, 0));
        assert!(!throttle.is_blocked(bad, 3, 1));
        throttle.interrupted(bad, 3);
        throttle.completed(bad);
        throttle.interrupted(bad, 2);
        assert!(!throttle.is_blocked(bad, 2, 1));
        let loopback = IpAddr::from([127, 0, 0, 1]);
        (0..9).for_each(|_| throttle.interrupted(loopback, 3));
        assert!(!throttle.is_blocked(loopback, 3, 1));
    }
}
