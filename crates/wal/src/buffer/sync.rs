//! What the log buffer synchronises with, in one place, so that its unit tests can run under
//! `shuttle`, which explores thread schedules; everywhere else these are the ordinary primitives.
//!
//! Shuttle and not loom: it needs no build of its own and gets through protocols of this size in
//! seconds. It does not explore weak memory orders, so each of them is argued where it is used, and
//! real threads hammer the real thing in `tests/`.
//!
//! **Invariants**
//! - Everything in `buffer` that two threads share is one of these, except the bytes of the ring.

#[cfg(test)]
pub(crate) use explored::*;
#[cfg(not(test))]
pub(crate) use real::*;

#[cfg(not(test))]
mod real {
    pub(crate) use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64};
    pub(crate) use std::thread::yield_now;

    /// Looks at something this often before giving the processor away: longer than a short critical
    /// section takes, shorter than two switches of threads.
    const SPINS: u32 = 60;

    /// Gives the processor away this often before going to sleep.
    const YIELDS: u32 = 4;

    pub(crate) type MutexGuard<'a, T> = parking_lot::MutexGuard<'a, T>;

    #[derive(Default)]
    pub(crate) struct Mutex<T>(parking_lot::Mutex<T>);

    impl<T> Mutex<T> {
        pub(crate) fn new(value: T) -> Self {
            Self(parking_lot::Mutex::new(value))
        }

        pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
            self.0.lock()
        }

        pub(crate) fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
            self.0.try_lock()
        }
    }

    #[derive(Default)]
    pub(crate) struct Condvar(parking_lot::Condvar);

    impl Condvar {
        pub(crate) fn wait<'a, T>(&self, mut guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
            self.0.wait(&mut guard);
            guard
        }

        pub(crate) fn notify_one(&self) {
            self.0.notify_one();
        }

        pub(crate) fn notify_all(&self) {
            self.0.notify_all();
        }
    }

    /// Tries until there is an answer, or until it is time to sleep.
    pub(crate) fn spin<T>(attempt: impl FnMut() -> Option<T>) -> Option<T> {
        spin_at_most(SPINS, YIELDS, attempt)
    }

    /// As [`spin`], without giving the processor away.
    pub(crate) fn spin_briefly<T>(attempt: impl FnMut() -> Option<T>) -> Option<T> {
        spin_at_most(SPINS, 0, attempt)
    }

    #[inline]
    fn spin_at_most<T>(
        spins: u32,
        yields: u32,
        mut attempt: impl FnMut() -> Option<T>,
    ) -> Option<T> {
        for round in 0..spins + yields {
            if let Some(answer) = attempt() {
                return Some(answer);
            }
            if round < spins {
                std::hint::spin_loop();
            } else {
                yield_now();
            }
        }
        None
    }
}

#[cfg(test)]
mod explored {
    pub(crate) use shuttle::sync::atomic::{AtomicBool, AtomicU32, AtomicU64};
    pub(crate) use shuttle::thread::yield_now;

    pub(crate) type MutexGuard<'a, T> = shuttle::sync::MutexGuard<'a, T>;

    #[derive(Default)]
    pub(crate) struct Mutex<T>(shuttle::sync::Mutex<T>);

    impl<T> Mutex<T> {
        pub(crate) fn new(value: T) -> Self {
            Self(shuttle::sync::Mutex::new(value))
        }

        pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
            self.0.lock().expect("no test thread panics with a lock")
        }

        pub(crate) fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
            self.0.try_lock().ok()
        }
    }

    #[derive(Default)]
    pub(crate) struct Condvar(shuttle::sync::Condvar);

    impl Condvar {
        pub(crate) fn wait<'a, T>(&self, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
            let woken = self.0.wait(guard);
            woken.expect("no test thread panics with a lock")
        }

        pub(crate) fn notify_one(&self) {
            self.0.notify_one();
        }

        pub(crate) fn notify_all(&self) {
            self.0.notify_all();
        }
    }

    /// Once: a schedule in which it succeeds later is another schedule.
    pub(crate) fn spin<T>(mut attempt: impl FnMut() -> Option<T>) -> Option<T> {
        attempt()
    }

    pub(crate) fn spin_briefly<T>(mut attempt: impl FnMut() -> Option<T>) -> Option<T> {
        attempt()
    }
}
