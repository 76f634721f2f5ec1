//! Attachments: what follows savepoints, what counts, what is logged.

use std::time::Duration;

use esker_vfs::sim::SimEnv;

use crate::budget::MemoryUse;
use crate::engine::tests::{engine_on, memory_engine};
use crate::{Engine, EngineError, Followed, Isolation, PreparedId, Seq, Txn};

fn begin(engine: &Engine) -> Txn {
    engine.begin(Isolation::ReadCommitted)
}

#[test]
fn a_savepoint_takes_the_attachment_back() {
    let engine = memory_engine();
    let tree = engine.create_tree().unwrap();
    let mut txn = begin(&engine);
    let empty = txn.savepoint();
    txn.attach(b"one ").unwrap();
    txn.put(&tree, b"1", b"").unwrap();
    let first = txn.savepoint();
    // A statement that waits is undone and runs again.
    for _ in 0..3 {
        txn.attach(b"two ").unwrap();
        txn.put(&tree, b"2", b"").unwrap();
        txn.rollback_to(first);
        assert_eq!(txn.attachment(), b"one ");
    }
    txn.attach(b"three").unwrap();
    assert_eq!(txn.attachment(), b"one three");
    txn.set_attachment_head(b"head").unwrap();
    txn.rollback_to(empty);
    assert_eq!(txn.attachment(), b"");
    txn.attach(b"again").unwrap();
    txn.rollback();
    assert_eq!(txn.attachment(), b"", "as new");
    assert_eq!(txn.commit().unwrap().seq, None, "nothing is left to log");
}

#[test]
fn a_savepoint_takes_back_what_was_taken_out() {
    let engine = memory_engine();
    let mut txn = begin(&engine);
    txn.attach(b"first").unwrap();
    let early = txn.savepoint();
    txn.attach(b", second").unwrap();
    txn.take_attachment();
    assert_eq!((txn.attachment(), txn.attachment_bytes()), (&b""[..], 13));
    let late = txn.savepoint();
    txn.attach(b", third").unwrap();
    txn.rollback_to(late);
    assert_eq!((txn.attachment_taken(), txn.attachment_bytes()), (13, 13));
    txn.rollback_to(early);
    txn.attach(b"!").unwrap();
    assert_eq!((txn.attachment_taken(), txn.attachment()), (5, &b"!"[..]));
    txn.rollback();
    assert_eq!((txn.attachment_taken(), txn.attachment_bytes()), (0, 0));
}

#[test]
fn an_attachment_counts_as_much_as_writes() {
    let engine = memory_engine();
    let tree = engine.create_tree().unwrap();
    let used = || engine.memory().used(MemoryUse::Transactions);
    let before = used();
    let mut txn = begin(&engine);
    let piece = vec![1; 1 << 20];
    let mut pieces = 0;
    let refused = loop {
        match txn.attach(&piece) {
            Ok(()) => pieces += 1,
            Err(error) => break error,
        }
    };
    assert!(matches!(refused, EngineError::TxnTooLarge { .. }));
    assert_eq!(pieces, 8, "max_txn_bytes of this engine");
    assert!(used() >= before + (8 << 20));
    assert!(matches!(
        txn.put(&tree, b"key", b"value"),
        Err(EngineError::TxnTooLarge { .. })
    ));
    assert!(matches!(
        txn.set_attachment_head(b"x"),
        Err(EngineError::TxnTooLarge { .. })
    ));
    txn.rollback();
    assert!(used() < before + (1 << 20), "given back");
    txn.put(&tree, b"key", b"value").unwrap();
}

/// Attachments, by the sequences of their records.
type Attached = Vec<(Seq, Vec<u8>)>;

/// What a follower is told, by the sequences of the records; and the keys written.
fn attachments(engine: &Engine, from: Seq) -> (Attached, Vec<Vec<u8>>) {
    let mut follower = engine.follow("test", from).unwrap();
    let (mut found, mut keys) = (Vec::new(), Vec::new());
    let mut each = |record: &Followed<'_>| {
        assert!(record.start < record.seq);
        found.push((record.seq, record.attachment.to_vec()));
        record.for_each_write(|_, _, key| keys.push(key.to_vec()))?;
        Ok(())
    };
    while follower.next(&mut each).unwrap() {}
    assert_eq!(follower.at(), engine.durable_seq());
    (found, keys)
}

#[test]
fn every_kind_of_record_carries_one() {
    let machine = SimEnv::new(5);
    let mut expected = Vec::new();
    {
        let engine = engine_on(&machine);
        let tree = engine.create_tree().unwrap();
        let mut txn = begin(&engine);
        let mut expect = |seq: Seq, bytes: &[u8]| expected.push((seq, bytes.to_vec()));
        txn.put(&tree, b"a", b"1").unwrap();
        txn.attach(b"rows").unwrap();
        txn.set_attachment_head(b"not this").unwrap();
        txn.set_attachment_head(b"head, ").unwrap();
        expect(txn.commit().unwrap().seq.unwrap(), b"head, rows");
        // Nothing but an attachment, and nothing but a head.
        txn.attach(b"alone").unwrap();
        expect(txn.commit().unwrap().seq.unwrap(), b"alone");
        txn.set_attachment_head(b"head").unwrap();
        expect(txn.commit().unwrap().seq.unwrap(), b"head");
        expect(engine.note(b"note").unwrap(), b"note");
        // Writes that were undone, and what was attached beside them.
        let place = txn.savepoint();
        txn.put(&tree, b"b", b"1").unwrap();
        txn.rollback_to(place);
        txn.attach(b"text").unwrap();
        expect(txn.commit().unwrap().seq.unwrap(), b"text");
        for (id, commits) in [(b"1", true), (b"2", false)] {
            let id = PreparedId::internal(id);
            txn.put(&tree, b"c", b"1").unwrap();
            txn.attach(b"prepared").unwrap();
            expect(txn.prepare(&id).unwrap(), b"prepared");
            let decided = match commits {
                true => engine.commit_prepared(&id, b"decided"),
                false => engine.rollback_prepared(&id, b"undone"),
            };
            let bytes: &[u8] = if commits { b"decided" } else { b"undone" };
            expect(decided.unwrap().seq.unwrap(), bytes);
        }
        // One that is cut into chunks.
        let large = vec![7; 400_000];
        txn.put(&tree, b"d", &[1; 300_000]).unwrap();
        txn.attach(&large).unwrap();
        expect(txn.commit().unwrap().seq.unwrap(), &large);
        txn.put(&tree, b"e", b"without").unwrap();
        assert!(txn.commit().unwrap().seq.is_some());
        assert_eq!(attachments(&engine, 0).0, [], "nothing is durable");
        engine.flush_log().unwrap();
        let (found, keys) = attachments(&engine, 0);
        assert_eq!(found, expected);
        assert_eq!(keys, [b"a", b"c", b"c", b"d"]);
        // From any of them on.
        let (from, _) = expected[3];
        assert_eq!(attachments(&engine, from).0, expected[4..]);
        engine.unfollow("test").unwrap();
    }
    let engine = engine_on(&machine.crash(6));
    assert_eq!(attachments(&engine, 0).0, expected, "after a crash, too");
}

/// Whoever was not told of a prepare is not to be told of its decision, which may come after a restart.
#[test]
fn a_silent_prepare_is_known_as_such_after_a_crash() {
    let (loud, silent, none) = (
        PreparedId::xa(b"1"),
        PreparedId::xa(b"2"),
        PreparedId::xa(b"3"),
    );
    let machine = SimEnv::new(8);
    let told = |engine: &Engine| [&loud, &silent, &none].map(|id| engine.is_prepared_silently(id));
    {
        let engine = engine_on(&machine);
        let tree = engine.create_tree().unwrap();
        let mut txn = begin(&engine);
        txn.put(&tree, b"a", b"1").unwrap();
        txn.attach(b"events").unwrap();
        txn.prepare(&loud).unwrap();
        txn.put(&tree, b"b", b"1").unwrap();
        txn.prepare(&silent).unwrap();
        txn.prepare(&none).unwrap();
        assert_eq!(told(&engine), [false, true, true]);
        engine.flush_log().unwrap();
    }
    assert_eq!(told(&engine_on(&machine.crash(9))), [false, true, true]);
}

/// The engine has everything on disk and needs no log; a follower that has not come yet does.
#[test]
fn the_log_is_kept_for_a_follower_over_restarts() {
    let machine = SimEnv::new(7);
    let open = |machine: &SimEnv, followers: Vec<&'static str>| {
        let mut config = crate::EngineConfig::new("/db");
        config.mode = crate::Mode::Manual;
        config.log_segment_bytes = 1 << 20;
        config.log_buffer_bytes = 1 << 20;
        config.followers = followers;
        Engine::open(machine.env(), config).unwrap()
    };
    let fill = |engine: &Engine| {
        let tree = engine.create_tree().unwrap();
        let mut txn = begin(engine);
        let mut seqs = Vec::new();
        for n in 0..6u8 {
            txn.put(&tree, &[n], &vec![n; 600_000]).unwrap();
            txn.attach(&[n; 10]).unwrap();
            seqs.push((txn.commit().unwrap().seq.unwrap(), vec![n; 10]));
        }
        engine.flush_all().unwrap();
        seqs
    };
    let engine = open(&machine, vec!["test"]);
    let mut expected = fill(&engine);
    let pin = engine.stats().log_space.pin.expect("it holds the log");
    assert_eq!(pin.name, "test");
    drop(engine);
    let machine = machine.crash(8);
    let engine = open(&machine, vec!["test"]);
    expected.extend(fill(&engine));
    let (found, _) = attachments(&engine, 0);
    assert_eq!(found, expected);
    let follower = engine.follow("test", expected[3].0).unwrap();
    let waited = follower.wait().block_for(Duration::ZERO);
    assert!(waited.unwrap(), "there is more");
    drop(follower);
    assert!(engine.stats().log_space.first.0 <= expected[3].0);
    assert!(engine.stats().log_space.first.0 > expected[0].0, "released");
    drop(engine);
    // Without it nobody keeps anything.
    let engine = open(&machine.crash(9), Vec::new());
    engine.flush_all().unwrap();
    assert_eq!(attachments(&engine, 0).0, []);
}
