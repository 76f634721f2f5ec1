//! Sessions of one thread that wait for the log together: nobody goes on too early, everybody goes on.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use esker_engine::{Acknowledged, Acks, Engine, EngineConfig, FlushPolicy, Isolation, Seq, Tree};
use esker_vfs::sim::{Fault, Op, SimEnv};

#[derive(Default)]
struct Count(AtomicUsize);

impl Wake for Count {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

impl Count {
    fn new() -> (Arc<Count>, Waker) {
        let count = Arc::new(Count::default());
        (Arc::clone(&count), Waker::from(count))
    }

    fn get(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }

    fn wait_for_more_than(&self, times: usize) {
        while self.get() <= times {
            std::thread::yield_now();
        }
    }
}

/// An engine of which only the log's own threads flush: with a policy that lets commits wait nobody else may.
fn open() -> (SimEnv, Engine, Tree) {
    let machine = SimEnv::new(1);
    let mut config = EngineConfig::new("/data");
    config.log_segment_bytes = 1 << 20;
    config.log_buffer_bytes = 64 << 10;
    config.on_fatal = Arc::new(|_| {});
    let engine = Engine::open(machine.env(), config).expect("opens");
    engine.set_flush_policy(&FlushPolicy {
        interval: Duration::from_nanos(1),
        ..FlushPolicy::default()
    });
    let tree = engine.create_tree().expect("a tree");
    let seq = commit(&engine, &tree, b"first");
    engine.wait_durable(seq).block().expect("durable");
    (machine, engine, tree)
}

fn commit(engine: &Engine, tree: &Tree, key: &[u8]) -> Seq {
    let mut txn = engine.begin(Isolation::ReadCommitted);
    txn.put(tree, key, b"v").expect("puts");
    txn.commit().expect("commits").seq.expect("has written")
}

fn poll(wait: &mut Acknowledged<'_>, waker: &Waker) -> Poll<esker_engine::Result<()>> {
    Pin::new(wait).poll(&mut Context::from_waker(waker))
}

#[test]
fn sessions_go_on_when_their_commits_are_durable_and_not_before() {
    let (machine, engine, tree) = open();
    machine.fs.hold_syncs();
    let acks = Acks::new(&engine);
    let seqs = [b"a", b"b", b"c"].map(|key| commit(&engine, &tree, key));
    let mut sessions: Vec<_> = seqs
        .iter()
        // The order in which they ask does not matter.
        .rev()
        .map(|&seq| (acks.wait(seq), Count::new()))
        .collect();
    for (wait, (_, waker)) in &mut sessions {
        assert!(poll(wait, waker).is_pending());
    }
    acks.begin_turn(0);
    let (thread, thread_waker) = Count::new();
    assert!(acks.rest(&thread_waker), "nobody can go on");
    assert!(acks.rest(&thread_waker), "asking again changes nothing");
    assert!(engine.durable_seq() < seqs[0]);
    assert!(sessions.iter().all(|(_, (count, _))| count.get() == 0));

    machine.fs.release_syncs();
    thread.wait_for_more_than(0);
    while sessions.iter().any(|(_, (count, _))| count.get() == 0) {
        // All are durable soon: the thread has asked for the last one.
        acks.begin_turn(0);
        std::thread::yield_now();
    }
    for (wait, (count, waker)) in &mut sessions {
        assert_eq!(count.get(), 1);
        assert!(matches!(poll(wait, waker), Poll::Ready(Ok(()))));
    }
    assert!(acks.rest(&thread_waker), "nobody waits any more");
    let mut late = acks.wait(seqs[2]);
    assert!(matches!(
        poll(&mut late, &thread_waker),
        Poll::Ready(Ok(()))
    ));
}

#[test]
fn a_thread_is_woken_for_the_first_of_its_sessions() {
    let (machine, engine, tree) = open();
    let acks = Acks::new(&engine);
    let (first, first_waker) = Count::new();
    let (second, second_waker) = Count::new();
    machine.fs.hold_syncs();
    let (a, b) = (commit(&engine, &tree, b"a"), commit(&engine, &tree, b"b"));
    let (mut later, mut sooner) = (acks.wait(b), acks.wait(a));
    assert!(poll(&mut later, &second_waker).is_pending());
    assert!(poll(&mut sooner, &first_waker).is_pending());
    let (thread, thread_waker) = Count::new();
    assert!(acks.rest(&thread_waker));
    machine.fs.release_syncs();
    thread.wait_for_more_than(0);
    assert!(engine.durable_seq() >= a);
    acks.begin_turn(0);
    assert_eq!(first.get(), 1);
    assert!(second.get() == 0 || engine.durable_seq() >= b);
}

#[test]
fn a_failed_log_reaches_everybody_who_waits() {
    let (machine, engine, tree) = open();
    machine.fs.hold_syncs();
    // Before the group can begin, and of a segment in use: the log prepares the next ones meanwhile.
    machine.fs.inject(Fault::on(Op::Sync).path(".wal"));
    let acks = Acks::new(&engine);
    let seq = commit(&engine, &tree, b"lost");
    let (count, waker) = Count::new();
    let mut wait = acks.wait(seq);
    assert!(poll(&mut wait, &waker).is_pending());
    let (thread, thread_waker) = Count::new();
    assert!(acks.rest(&thread_waker));
    machine.fs.release_syncs();
    thread.wait_for_more_than(0);
    assert!(!acks.rest(&thread_waker), "the sessions have to hear of it");
    assert_eq!(count.get(), 1);
    assert!(matches!(poll(&mut wait, &waker), Poll::Ready(Err(_))));
    let mut another = acks.wait(seq);
    if poll(&mut another, &waker).is_pending() {
        assert!(!acks.rest(&thread_waker), "and who comes later, too");
    }
    assert!(matches!(poll(&mut another, &waker), Poll::Ready(Err(_))));
}

#[test]
fn threads_that_flush_by_themselves_tell_nobody_too_early() {
    const ROUNDS: u64 = 300;
    const SESSIONS: u64 = 10;
    let (_machine, engine, tree) = open();
    engine.set_flush_policy(&FlushPolicy::default());
    std::thread::scope(|scope| {
        for thread in 0..3_u64 {
            let (engine, tree) = (&engine, &tree);
            scope.spawn(move || {
                let acks = Acks::new(engine);
                let (count, waker) = Count::new();
                for round in 0..ROUNDS {
                    let mut waits = Vec::new();
                    for session in 0..=round % SESSIONS {
                        let key = [thread, round, session].map(u64::to_be_bytes).concat();
                        let seq = commit(engine, tree, &key);
                        waits.push((seq, acks.wait(seq)));
                    }
                    while !waits.is_empty() {
                        // A wait can wake those that were polled before it: then there is something to do.
                        let before = count.get();
                        waits.retain_mut(|(seq, wait)| match poll(wait, &waker) {
                            Poll::Pending => true,
                            Poll::Ready(told) => {
                                told.expect("no failure");
                                assert!(
                                    engine.durable_seq() >= *seq && engine.visible_seq() >= *seq
                                );
                                false
                            }
                        });
                        if acks.rest(&waker) && !waits.is_empty() {
                            count.wait_for_more_than(before);
                        }
                    }
                }
            });
        }
    });
}

#[test]
fn asynchronous_commit_waits_for_nobody() {
    let (machine, engine, tree) = open();
    machine.fs.hold_syncs();
    engine.switches().set_async_commit(true);
    let acks = Acks::new(&engine);
    let seq = commit(&engine, &tree, b"a");
    let (_, waker) = Count::new();
    assert!(matches!(
        poll(&mut acks.wait(seq), &waker),
        Poll::Ready(Ok(()))
    ));
    assert!(engine.durable_seq() < seq);
    machine.fs.release_syncs();
}
