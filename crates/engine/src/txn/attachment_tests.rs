//! Attachments: what follows savepoints, what counts, what is logged.

use std::path::Path;

use esker_vfs::sim::SimEnv;
use esker_wal::{FlushMode, Lsn, Record, RecordKind, Wal, WalConfig, WalError};

use crate::budget::MemoryUse;
use crate::commit::record::Reader;
use crate::engine::tests::{engine_on, memory_engine};
use crate::{Engine, EngineError, Isolation, PreparedId, Seq, Txn, inspect};

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

/// The attachments that a log has, by the sequences of their records.
fn attachments(machine: &SimEnv) -> Vec<(Seq, Vec<u8>)> {
    let view = inspect::manifest(&machine.env(), Path::new("/db")).unwrap();
    let mut log = WalConfig::new("/db/wal");
    log.cluster = view.uuid;
    log.segment_bytes = 1 << 20;
    log.buffer_bytes = 1 << 20;
    log.mode = FlushMode::Manual;
    let (_wal, reader) = Wal::create_or_open(&machine.env(), log, Lsn(view.log_from)).unwrap();
    let mut found = Vec::new();
    let mut sink = |record: Record<'_>| -> Result<(), WalError> {
        let reader = Reader::new(record.payload);
        let reader = reader.expect("well-formed");
        assert_eq!(record.has_attachment, !reader.attachment().is_empty());
        if record.has_attachment {
            found.push((record.end.0, reader.attachment().to_vec()));
        }
        assert!(record.kind != RecordKind::Note || record.has_attachment);
        Ok(())
    };
    reader.replay(&mut sink).unwrap();
    found
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
        engine.flush_log().unwrap();
    }
    assert_eq!(attachments(&machine.crash(6)), expected);
}
