//! The watermark and the gate under schedules that `shuttle` explores (see `crate::sync`): every thread may be
//! interrupted everywhere. A thread that would sleep for ever fails the test.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Wake, Waker};

use super::gate::Gate;
use super::level::Reached;
use super::watermark::Watermark;
use crate::Seq;
use crate::sync::{AtomicBool, AtomicU64, Condvar, Mutex, explore, in_parallel};

/// Wakes a thread of the exploration.
struct Bell {
    rung: Mutex<bool>,
    changed: Condvar,
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        *self.rung.lock() = true;
        self.changed.notify_all();
    }
}

/// Awaits a future as a runtime does: polls it again only when it was woken.
fn await_future(mut future: Reached) {
    let bell = Arc::new(Bell {
        rung: Mutex::new(false),
        changed: Condvar::new(),
    });
    let waker = Waker::from(Arc::clone(&bell));
    while Pin::new(&mut future)
        .poll(&mut Context::from_waker(&waker))
        .is_pending()
    {
        let mut rung = bell.rung.lock();
        while !*rung {
            bell.changed.wait(&mut rung);
        }
        *rung = false;
    }
}

#[test]
fn the_watermark_covers_what_is_applied_and_wakes_everybody() {
    explore(|| {
        const RECORDS: [(u64, u64); 3] = [(10, 20), (20, 25), (25, 40)];
        let watermark = Watermark::new(10);
        let applied = Arc::new(RECORDS.map(|_| AtomicBool::new(false)));
        let covered = |applied: &[AtomicBool; 3], visible: Seq| {
            for (at, (_, end)) in RECORDS.into_iter().enumerate() {
                assert!(visible < end || applied[at].load(Ordering::SeqCst));
            }
        };
        let mut threads: Vec<Box<dyn FnOnce() + Send>> = Vec::new();
        for (at, (start, end)) in RECORDS.into_iter().enumerate() {
            let (watermark, applied) = (Arc::clone(&watermark), Arc::clone(&applied));
            threads.push(Box::new(move || {
                applied[at].store(true, Ordering::SeqCst);
                watermark.complete(start, end);
                // A committer sees what it has committed as soon as what is before it is there.
                watermark.block_until(end);
                covered(&applied, watermark.visible());
            }));
        }
        for seq in [20, 40] {
            let (watermark, applied) = (Arc::clone(&watermark), Arc::clone(&applied));
            threads.push(Box::new(move || {
                let before = watermark.visible();
                await_future(watermark.reached(seq));
                let after = watermark.visible();
                assert!(after >= seq && after >= before);
                covered(&applied, after);
            }));
        }
        // One that goes away while it waits.
        let left = Arc::clone(&watermark);
        threads.push(Box::new(move || {
            let mut future = left.reached(40);
            let _ = Pin::new(&mut future).poll(&mut Context::from_waker(Waker::noop()));
        }));
        in_parallel(threads);
        assert_eq!(watermark.visible(), 40);
    });
}

/// Records that all have their places in the log before any is applied, while the flush covers one after the other.
/// Each committer asks `may_be_told` with what is durable then, and goes away if it may not be.
fn commit_and_tell(
    gate: &Arc<Gate>,
    watermark: &Arc<Watermark>,
    may_be_told: fn(&Gate, Seq, Seq) -> bool,
    told: fn(is_seen: bool),
) {
    const RECORDS: [(u64, u64); 3] = [(10, 20), (20, 25), (25, 40)];
    let applied = Arc::new(RECORDS.map(|_| AtomicBool::new(false)));
    let durable = Arc::new(AtomicU64::new(10));
    let mut threads: Vec<Box<dyn FnOnce() + Send>> = Vec::new();
    for (at, (start, end)) in RECORDS.into_iter().enumerate() {
        let (watermark, applied) = (Arc::clone(watermark), Arc::clone(&applied));
        let (durable, gate) = (Arc::clone(&durable), Arc::clone(gate));
        threads.push(Box::new(move || {
            applied[at].store(true, Ordering::SeqCst);
            watermark.complete(start, end);
            let is_durable = durable.load(Ordering::SeqCst);
            if !may_be_told(&gate, is_durable, end) {
                return;
            }
            // The reply has left. Whoever begins now reads up to here, and finds what came before.
            let snapshot = watermark.visible();
            let mut before = RECORDS.iter().zip(&*applied);
            let is_whole = before
                .all(|((_, before), applied)| *before > end || applied.load(Ordering::SeqCst));
            told(snapshot >= end && is_durable >= end && is_whole);
        }));
    }
    threads.push(Box::new(move || {
        for (_, end) in RECORDS {
            durable.store(end, Ordering::SeqCst);
        }
    }));
    in_parallel(threads);
}

/// A commit is told only when everybody sees it, also where the log is durable before an earlier record is applied.
#[test]
fn what_is_told_is_durable_and_seen_by_everybody() {
    explore(|| {
        let watermark = Watermark::new(10);
        let gate = Arc::new(Gate::new(&watermark));
        let may_be_told = |gate: &Gate, durable, seq| seq <= gate.told_up_to(Some(durable));
        commit_and_tell(&gate, &watermark, may_be_told, |is_seen| assert!(is_seen));
    });
}

/// Why durability alone does not do: there is a schedule in which a commit is durable and told, and the next reader
/// does not see it.
#[test]
fn durability_alone_would_tell_too_early() {
    static UNSEEN: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);
    explore(|| {
        let watermark = Watermark::new(10);
        let gate = Arc::new(Gate::new(&watermark));
        let is_durable = |_: &Gate, durable, seq| seq <= durable;
        commit_and_tell(&gate, &watermark, is_durable, |is_seen| {
            UNSEEN.fetch_add(u64::from(!is_seen), Ordering::SeqCst);
        });
    });
    assert!(UNSEEN.load(Ordering::SeqCst) > 0);
}

/// Others have to acknowledge from some moment on, and not any more from another: what may be told never falls, nobody
/// waits for ever, and nobody passes the closed gate.
#[test]
fn the_gate_never_takes_back_what_was_told() {
    explore(|| {
        const END: Seq = 60;
        let watermark = Watermark::new(10);
        let gate = Arc::new(Gate::new(&watermark));
        // All is applied; the flush goes on while the gate is closed, but for the moment of closing, which its lock
        // keeps.
        watermark.complete(10, END);
        let durable = Arc::new(Mutex::new(10));
        let shown = Arc::new(AtomicU64::new(10));
        let mut threads: Vec<Box<dyn FnOnce() + Send>> = Vec::new();
        let (flushed, visible) = (Arc::clone(&durable), Arc::clone(&shown));
        threads.push(Box::new(move || {
            for seq in [20, 40, END] {
                let mut durable = flushed.lock();
                *durable = seq;
                visible.store(seq, Ordering::SeqCst);
            }
        }));
        let (reader, visible) = (Arc::clone(&gate), Arc::clone(&shown));
        threads.push(Box::new(move || {
            let mut before = 0;
            for _ in 0..4 {
                let durable = visible.load(Ordering::SeqCst);
                let told = reader.told_up_to(Some(durable));
                assert!(told >= before && told <= durable, "{told} after {before}");
                before = told;
            }
        }));
        let waiter = Arc::clone(&gate);
        threads.push(Box::new(move || {
            if let Some(reached) = waiter.to_await(END) {
                await_future(reached);
            }
        }));
        let holder = Arc::clone(&gate);
        threads.push(Box::new(move || {
            {
                let durable = durable.lock();
                holder.hold(*durable, || *durable);
                assert!(holder.told_up_to(Some(END)) <= *durable);
            }
            holder.acknowledge(30);
            holder.release();
        }));
        in_parallel(threads);
        assert_eq!(gate.told_up_to(Some(END)), END);
    });
}
