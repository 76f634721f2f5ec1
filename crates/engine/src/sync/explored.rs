//! The same primitives with a place before every operation where an exploration may switch threads.
//!
//! Neighbours: the tests of what is lock-free begin explorations with [`explore`].
//!
//! Shuttle runs one thread at a time, all on one thread of the system. So the ordinary primitives do, as long as nobody
//! blocks in one: who finds a lock taken, or waits for a condition, lets others run and looks again. Outside an
//! exploration, in the many tests that run a whole engine, these are the ordinary primitives.
//!
//! **Invariants**
//! - During an exploration no thread blocks in the system. One that waits for ever exceeds shuttle's limit of steps,
//!   which fails the test.

use std::cell::Cell;
use std::ops::{Deref, DerefMut};
use std::sync::atomic;

/// Once: a schedule in which it succeeds later is another schedule.
pub(crate) const SPINS: usize = 1;

/// Schedules per test and strategy.
const SCHEDULES: usize = 3000;

thread_local! {
    static EXPLORING: Cell<bool> = const { Cell::new(false) };
}

/// Runs the test under many schedules of its threads, which it makes with `shuttle::thread`.
pub(crate) fn explore(test: fn()) {
    EXPLORING.set(true);
    shuttle::check_random(test, SCHEDULES);
    shuttle::check_pct(test, SCHEDULES, 3);
    EXPLORING.set(false);
}

/// Runs these at the same time, in an exploration.
pub(crate) fn in_parallel(threads: Vec<Box<dyn FnOnce() + Send>>) {
    let handles: Vec<_> = threads.into_iter().map(shuttle::thread::spawn).collect();
    for handle in handles {
        handle.join().expect("no thread panics");
    }
}

/// Another thread may go on here.
fn switch() {
    if EXPLORING.get() {
        shuttle::thread::yield_now();
    }
}

/// A place to switch before every use.
#[repr(transparent)]
#[derive(Debug, Default)]
pub(crate) struct Switching<A>(A);

impl<A> Deref for Switching<A> {
    type Target = A;

    fn deref(&self) -> &A {
        switch();
        &self.0
    }
}

impl<A> DerefMut for Switching<A> {
    fn deref_mut(&mut self) -> &mut A {
        // Nobody else has it.
        &mut self.0
    }
}

pub(crate) type AtomicBool = Switching<atomic::AtomicBool>;
pub(crate) type AtomicU64 = Switching<atomic::AtomicU64>;
pub(crate) type AtomicUsize = Switching<atomic::AtomicUsize>;
pub(crate) type AtomicPtr<T> = Switching<atomic::AtomicPtr<T>>;

impl AtomicBool {
    pub(crate) const fn new(value: bool) -> Self {
        Switching(atomic::AtomicBool::new(value))
    }
}

impl AtomicU64 {
    pub(crate) const fn new(value: u64) -> Self {
        Switching(atomic::AtomicU64::new(value))
    }
}

impl AtomicUsize {
    pub(crate) const fn new(value: usize) -> Self {
        Switching(atomic::AtomicUsize::new(value))
    }
}

impl<T> AtomicPtr<T> {
    pub(crate) const fn new(value: *mut T) -> Self {
        Switching(atomic::AtomicPtr::new(value))
    }
}

#[derive(Default)]
pub(crate) struct Mutex<T>(parking_lot::Mutex<T>);

/// `None` only while a condition is waited for.
pub(crate) struct MutexGuard<'a, T> {
    mutex: &'a Mutex<T>,
    held: Option<parking_lot::MutexGuard<'a, T>>,
}

impl<T> Mutex<T> {
    pub(crate) const fn new(value: T) -> Self {
        Mutex(parking_lot::Mutex::new(value))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        MutexGuard {
            mutex: self,
            held: Some(self.take()),
        }
    }

    fn take(&self) -> parking_lot::MutexGuard<'_, T> {
        if !EXPLORING.get() {
            return self.0.lock();
        }
        loop {
            switch();
            if let Some(held) = self.0.try_lock() {
                return held;
            }
        }
    }

    pub(crate) fn get_mut(&mut self) -> &mut T {
        self.0.get_mut()
    }
}

impl<T> Deref for MutexGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.held.as_ref().expect("held")
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        self.held.as_mut().expect("held")
    }
}

#[derive(Default)]
pub(crate) struct Condvar {
    real: parking_lot::Condvar,
    notified: atomic::AtomicU64,
}

impl Condvar {
    pub(crate) const fn new() -> Self {
        Condvar {
            real: parking_lot::Condvar::new(),
            notified: atomic::AtomicU64::new(0),
        }
    }

    pub(crate) fn wait<T>(&self, guard: &mut MutexGuard<'_, T>) {
        if !EXPLORING.get() {
            return self.real.wait(guard.held.as_mut().expect("held"));
        }
        let before = self.notified.load(atomic::Ordering::SeqCst);
        guard.held = None;
        while self.notified.load(atomic::Ordering::SeqCst) == before {
            switch();
        }
        guard.held = Some(guard.mutex.take());
    }

    pub(crate) fn notify_all(&self) {
        self.notified.fetch_add(1, atomic::Ordering::SeqCst);
        self.real.notify_all();
    }
}
