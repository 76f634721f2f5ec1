//! The engine on real files, with its own threads, over a restart.

use std::sync::Arc;

use esker_engine::{Engine, EngineConfig, EngineError, Isolation, View};
use esker_vfs::Env;

fn config(dir: &std::path::Path) -> EngineConfig {
    let mut config = EngineConfig::new(dir);
    config.memtable_bytes = 256 << 10;
    config.log_segment_bytes = 1 << 20;
    config.log_buffer_bytes = 1 << 20;
    config.log_limit_bytes = 2 << 20;
    config.on_fatal = Arc::new(|message| panic!("{message}"));
    config
}

#[test]
fn rows_are_there_after_a_restart_with_and_without_shutdown() {
    let dir = tempfile::tempdir().unwrap();
    let mut id = None;
    for life in 0..4u64 {
        let engine = Engine::open(Env::os(), config(dir.path())).unwrap();
        let second = Engine::open(Env::os(), config(dir.path()));
        assert!(matches!(second, Err(EngineError::InUse(_))));
        let id = *id.get_or_insert_with(|| engine.create_tree().unwrap().id());
        let tree = engine.tree(id).unwrap();
        let mut txn = engine.begin(Isolation::ReadCommitted);
        let mut last = 0;
        for i in 0..2000u64 {
            let key = (life * 1000 + i).to_be_bytes();
            txn.put(&tree, &key, &[life as u8; 700]).unwrap();
            last = txn.commit().unwrap().seq.unwrap();
        }
        engine.wait_durable(last).block().unwrap();
        for i in 0..(life + 2) * 1000 {
            let expected = (i / 1000).min(life) as u8;
            let value = txn.get(&tree, &i.to_be_bytes(), View::Snapshot).unwrap();
            assert_eq!(value.unwrap(), [expected; 700], "life {life} row {i}");
            txn.rollback();
        }
        if life % 2 == 0 {
            engine.shutdown().unwrap();
            txn.put(&tree, b"too", b"late").unwrap();
            assert!(txn.commit().is_err());
        }
    }
}
