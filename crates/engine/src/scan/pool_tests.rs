//! The pool that does the tasks of scans: order, help, ends and panics.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc;

use parking_lot::{Condvar, Mutex};

use super::*;

/// Tasks that call a function.
struct Calls<F>(F);

impl<T: Send, F: Fn(usize, &mut dyn FnMut() -> bool) -> T + Send + Sync + 'static> ScanWork
    for Calls<F>
{
    type Output = T;
    fn run(&self, task: usize, go_on: &mut dyn FnMut() -> bool) -> T {
        (self.0)(task, go_on)
    }
}

#[test]
fn results_come_in_order_whoever_did_the_tasks() {
    let pool = ScanPool::new(3);
    for helpers in 0..5 {
        let work = Arc::new(Calls(|task, _: &mut dyn FnMut() -> bool| task * task));
        let mut results = Vec::new();
        let outcome = pool.run(work, 200, helpers, &mut || true, |task, result| {
            results.push((task, result));
            true
        });
        assert_eq!(outcome, Outcome::Done);
        assert_eq!(results, (0..200).map(|n| (n, n * n)).collect::<Vec<_>>());
    }
    let stats = pool.stats();
    assert!(stats.tasks == 1000 && stats.helped <= 800, "{stats:?}");
}

#[test]
fn a_helper_does_what_the_caller_cannot() {
    // The caller's task waits for one that only a helper can do meanwhile.
    let pool = ScanPool::new(1);
    let state = Arc::new((Mutex::new(false), Condvar::new()));
    let shared = Arc::clone(&state);
    let work = Arc::new(Calls(move |task, _: &mut dyn FnMut() -> bool| {
        let (has_begun, changed) = &*shared;
        let mut has_begun = has_begun.lock();
        if std::thread::current().name() == Some("esker-scan") {
            *has_begun = true;
            changed.notify_all();
        } else {
            while !*has_begun {
                changed.wait(&mut has_begun);
            }
        }
        task
    }));
    let outcome = pool.run(work, 8, 1, &mut || true, |_, _| true);
    assert_eq!(outcome, Outcome::Done);
    assert!(pool.stats().helped >= 1);
}

#[test]
fn scans_share_the_helpers_and_none_waits_for_another() {
    // One helper; the first scan keeps it as long as it can.
    let pool = Arc::new(ScanPool::new(1));
    let (begun, has_begun) = mpsc::channel();
    let (release, may_end) = mpsc::channel::<()>();
    let may_end = Mutex::new(may_end);
    let long = std::thread::spawn({
        let pool = Arc::clone(&pool);
        move || {
            let work = Arc::new(Calls(move |_, _: &mut dyn FnMut() -> bool| {
                begun.send(()).unwrap();
                may_end.lock().recv().unwrap();
            }));
            pool.run(work, 2, 1, &mut || true, |_, ()| true)
        }
    });
    has_begun.recv().unwrap();
    has_begun.recv().unwrap();
    let work = Arc::new(Calls(|task, _: &mut dyn FnMut() -> bool| task));
    let outcome = pool.run(work, 50, 4, &mut || true, |_, _| true);
    assert_eq!(outcome, Outcome::Done);
    release.send(()).unwrap();
    release.send(()).unwrap();
    assert_eq!(long.join().unwrap(), Outcome::Done);
}

#[test]
fn a_stopped_scan_leaves_nobody_working() {
    let pool = ScanPool::new(2);
    let working = Arc::new(AtomicUsize::new(0));
    for stops_by_take in [true, false] {
        let count = Arc::clone(&working);
        // Tasks that end only when they are told to.
        let work = Arc::new(Calls(move |task, go_on: &mut dyn FnMut() -> bool| {
            count.fetch_add(1, Ordering::SeqCst);
            while task > 0 && go_on() {
                std::thread::yield_now();
            }
            count.fetch_sub(1, Ordering::SeqCst);
        }));
        let mut asked = 0;
        let mut go_on = || {
            asked += 1;
            stops_by_take || asked < 100
        };
        let outcome = pool.run(work, 100, 2, &mut go_on, |_, ()| !stops_by_take);
        assert_eq!(outcome, Outcome::Stopped);
        assert_eq!(working.load(Ordering::SeqCst), 0);
    }
}

#[test]
fn a_panic_in_a_task_reaches_the_caller_and_helpers_go_on() {
    let pool = ScanPool::new(1);
    for _ in 0..3 {
        let has_begun = AtomicBool::new(false);
        let work = Arc::new(Calls(move |task, _: &mut dyn FnMut() -> bool| {
            if std::thread::current().name() == Some("esker-scan") {
                has_begun.store(true, Ordering::SeqCst);
                panic!("as ordered, in task {task}");
            }
            while !has_begun.load(Ordering::SeqCst) {
                std::thread::yield_now();
            }
        }));
        let run = || pool.run(work, 1000, 1, &mut || true, |_, ()| true);
        assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(run)).is_err());
    }
    let work = Arc::new(Calls(|task, _: &mut dyn FnMut() -> bool| task));
    let outcome = pool.run(work, 10, 1, &mut || true, |_, _| true);
    assert_eq!(outcome, Outcome::Done);
}

#[test]
fn the_pool_shrinks_and_grows() {
    let pool = ScanPool::new(4);
    for limit in [4, 1, 0, 2] {
        pool.set_limit(limit);
        assert_eq!(pool.limit(), limit);
        let work = Arc::new(Calls(|task, _: &mut dyn FnMut() -> bool| task));
        assert_eq!(
            pool.run(work, 60, 8, &mut || true, |_, _| true),
            Outcome::Done
        );
    }
}
