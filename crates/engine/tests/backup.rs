//! Backups beside a writer: what is restored is the database as it was when the backup was begun, and damage is named.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::path::{Path, PathBuf};

use esker_engine::{
    BackupSet, Direction, Engine, EngineConfig, EngineError, Isolation, Mode, TreeId, View, check,
};
use esker_vfs::sim::{SimEnv, SimRng};
use esker_vfs::{Env, OpenMode};

const TREES: usize = 3;
const KEYS: u64 = 300;

type Rows = BTreeMap<Vec<u8>, Vec<u8>>;
type State = BTreeMap<TreeId, Rows>;

fn config(dir: &Path) -> EngineConfig {
    let mut config = EngineConfig::new(dir);
    config.mode = Mode::Manual;
    config.memory_limit = 2 << 20;
    config.memtable_bytes = 16 << 10;
    config.txn_memory_bytes = 32 << 10;
    config.log_segment_bytes = 256 << 10;
    config.log_buffer_bytes = 64 << 10;
    config.log_limit_bytes = 512 << 10;
    config
}

fn read(engine: &Engine) -> State {
    let txn = engine.begin(Isolation::RepeatableRead);
    let mut state = State::new();
    for id in engine.tree_ids() {
        let tree = engine.tree(id).expect("listed");
        let all = (Bound::Unbounded, Bound::Unbounded);
        let mut cursor = txn
            .scan(&tree, all.0, all.1, Direction::Forward, View::Snapshot)
            .expect("scan");
        let rows = state.entry(id).or_default();
        while let Some((key, value)) = cursor.next().expect("row") {
            rows.insert(key.to_vec(), value.to_vec());
        }
    }
    state
}

/// A database, what it should have, and a writer.
struct Run {
    env: Env,
    engine: Engine,
    model: State,
    rng: SimRng,
}

impl Run {
    fn new(seed: u64) -> Self {
        let env = SimEnv::new(seed).env();
        let engine = Engine::open(env.clone(), config(Path::new("/db"))).expect("open");
        let mut model = State::new();
        for _ in 0..TREES {
            model.insert(engine.create_tree().expect("tree").id(), Rows::new());
        }
        let rng = SimRng::new(seed ^ 1);
        Self {
            env,
            engine,
            model,
            rng,
        }
    }

    /// Some transactions, small ones and such as bring extents; flushes and compactions.
    fn work(&mut self) {
        for _ in 0..self.rng.below(30) {
            let writes = match self.rng.below(12) {
                0 => 400,
                _ => 1 + self.rng.below(20),
            };
            let ids: Vec<TreeId> = self.model.keys().copied().collect();
            let mut txn = self.engine.begin(Isolation::RepeatableRead);
            for _ in 0..writes {
                let id = ids[self.rng.below(ids.len() as u64) as usize];
                let tree = self.engine.tree(id).expect("there");
                let key = format!("key{:05}", self.rng.below(KEYS)).into_bytes();
                let rows = self.model.get_mut(&id).expect("there");
                if self.rng.below(4) == 0 {
                    txn.delete(&tree, &key).expect("delete");
                    rows.remove(&key);
                } else {
                    let value = format!("{:0>200}", self.rng.below(1 << 40)).into_bytes();
                    txn.put(&tree, &key, &value).expect("put");
                    rows.insert(key, value);
                }
            }
            let _ = txn.commit().expect("commit");
            match self.rng.below(6) {
                0 => self.engine.flush_all().expect("flush"),
                1 => self.engine.compact().expect("compact"),
                2 => self.engine.flush_log().expect("log"),
                _ => {}
            }
            while self.engine.maintain().expect("maintain") {}
        }
        if self.rng.below(4) == 0 {
            let dropped = *self.model.keys().next().expect("some");
            self.engine.drop_tree(dropped).expect("drop");
            self.model.remove(&dropped);
            let fresh = self.engine.create_tree().expect("tree").id();
            self.model.insert(fresh, Rows::new());
        }
    }

    /// Takes a backup while the writer goes on; what it should have.
    fn back_up(&mut self, dir: &Path, base: Option<&Path>) -> State {
        let mut backup = self.engine.begin_backup(dir, base).expect("begin");
        let state = self.model.clone();
        let second = self.engine.begin_backup(Path::new("/other"), None);
        assert!(matches!(second, Err(EngineError::Backup(_))));
        backup.add_file("own", b"of the layer above").expect("file");
        backup.note("word", "some words");
        self.work();
        // The slots of what has gone would be used again now.
        self.engine.flush_all().expect("flush");
        self.engine.compact().expect("compact");
        self.work();
        let copied = backup.copy(&mut |_| Ok(())).expect("copy");
        // The simulated file system shares blocks.
        match base {
            None => assert_eq!(copied.shared_bytes, copied.extent_bytes),
            Some(_) => assert!(copied.shared_bytes <= copied.extent_bytes),
        }
        state
    }

    fn restored(&self, dir: &Path, into: &str) -> State {
        let into = Path::new(into);
        let set = BackupSet::open(&self.env, dir, &[]).expect("set");
        assert_eq!(set.note("word"), Some("some words"));
        let mut last = None;
        let verified = set.verify(&mut |error| panic!("{error}"), &mut |progress| {
            assert!(progress.done <= progress.total);
            last = Some(progress);
            Ok(())
        });
        assert_eq!(verified.expect("verify").findings, 0);
        assert!(last.is_some_and(|last| last.done == last.total));
        set.restore(into, &mut |_| Ok(())).expect("restore");
        let checked = check(&self.env, into, &mut |finding| panic!("{finding:?}"));
        checked.expect("check");
        let engine = Engine::open(self.env.clone(), config(into)).expect("open");
        let state = read(&engine);
        engine.validate();
        state
    }
}

#[test]
fn a_backup_has_what_there_was_when_it_began() {
    let mut ingests = 0;
    for seed in 0..5 {
        let mut run = Run::new(seed);
        run.work();
        let (full, one, two) = (Path::new("/full"), Path::new("/one"), Path::new("/two"));
        let at_full = run.back_up(full, None);
        let at_one = run.back_up(one, Some(full));
        run.work();
        let at_two = run.back_up(two, Some(one));
        assert_eq!(read(&run.engine), run.model);
        assert_eq!(run.restored(full, "/r0"), at_full, "seed {seed}");
        assert_eq!(run.restored(one, "/r1"), at_one, "seed {seed}");
        assert_eq!(run.restored(two, "/r2"), at_two, "seed {seed}");
        ingests += run.engine.stats().storage.work.ingests;
    }
    assert!(ingests > 0, "large transactions were among them");
}

/// All files of a backup.
fn files(env: &Env, dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for name in env.fs.list(dir).expect("list") {
        let path = dir.join(name);
        match env.fs.open(&path, OpenMode::Read) {
            Ok(_) => found.push(path),
            Err(_) => found.extend(files(env, &path)),
        }
    }
    found
}

#[test]
fn what_is_cut_or_changed_is_named() {
    let mut run = Run::new(77);
    while run.engine.stats().storage.space.used_slots < 6 {
        run.work();
        run.engine.flush_all().expect("flush");
    }
    let (full, more) = (Path::new("/full"), Path::new("/more"));
    run.back_up(full, None);
    run.back_up(more, Some(full));
    let env = run.env.clone();
    let mut paths = files(&env, full);
    paths.extend(files(&env, more));
    assert!(paths.len() > 6, "{paths:?}");
    for path in paths {
        let file = env.fs.open(&path, OpenMode::ReadWrite).expect("open");
        let length = file.len().expect("length");
        let mut whole = vec![0; length as usize];
        file.read_exact_at(&mut whole, 0).expect("read");
        // Zeros may be what lies between two extents, which is nothing.
        let mut places = std::iter::repeat_with(|| run.rng.below(length));
        let place = places.find(|at| whole[*at as usize] != 0).expect("endless");
        // What follows the extents of a pack belongs to none of them.
        let is_read_whole = ["/wal/", "/manifest/", "/accounts"]
            .iter()
            .any(|part| path.display().to_string().contains(part));
        let damages = ["changed", "cut", "lengthened"];
        for damage in &damages[..2 + usize::from(is_read_whole)] {
            match *damage {
                "cut" => file.set_len(place).expect("cut"),
                "lengthened" => file.write_all_at(&[1], length).expect("lengthen"),
                _ => {
                    let changed = whole[place as usize] ^ 4;
                    file.write_all_at(&[changed], place).expect("change");
                }
            }
            // What only the base has, and the other one does not need, is found in the base.
            let dir = path
                .ancestors()
                .find(|dir| dir == &full || dir == &more)
                .expect("a backup");
            let mut found = Vec::new();
            let verified = BackupSet::open(&env, dir, &[]).and_then(|set| {
                let into = PathBuf::from(format!("/bad{}{damage}", run.rng.below(1 << 60)));
                let restored = set.restore(&into, &mut |_| Ok(()));
                assert!(restored.is_err(), "{}", path.display());
                // A directory that was not finished is no database.
                assert!(files(&env, &into.join("manifest")).is_empty());
                set.verify(&mut |e| found.push(e.to_string()), &mut |_| Ok(()))
            });
            found.extend(verified.err().map(|e| e.to_string()));
            let name = path.display().to_string();
            assert!(
                found.iter().any(|what| what.contains(&name)),
                "{name}: {found:?}"
            );
            file.set_len(length).expect("restore the length");
            file.write_all_at(&whole, 0).expect("restore the bytes");
        }
    }
}

#[test]
fn what_cannot_be_backed_up_is_refused() {
    let mut run = Run::new(5);
    run.work();
    run.back_up(Path::new("/full"), None);
    let refusal = |result: Result<_, EngineError>, part: &str| match result {
        Ok(_) => panic!("taken: {part}"),
        Err(e) => assert!(e.to_string().contains(part), "{e}"),
    };
    let begin = |dir: &str, base: Option<&str>| {
        let begun = run.engine.begin_backup(Path::new(dir), base.map(Path::new));
        begun.map(|backup| backup.id())
    };
    refusal(begin("/full", None), "not empty");
    refusal(begin("/next", Some("/nothing")), "no complete backup");
    let other = Engine::open(run.env.clone(), config(Path::new("/db2"))).expect("open");
    let of_other = other
        .begin_backup(Path::new("/full2"), None)
        .expect("begin");
    of_other.copy(&mut |_| Ok(())).expect("copy");
    refusal(begin("/next", Some("/full2")), "another database");
    // Broken off: no backup, and the next one is taken.
    let backup = run.engine.begin_backup(Path::new("/broken"), None);
    let stop = || Err(EngineError::Backup("stop".into()));
    let stopped = backup.expect("begin").copy(&mut |_| stop());
    refusal(stopped.map(|_| esker_engine::BackupId([0; 16])), "stop");
    let set = BackupSet::open(&run.env, Path::new("/broken"), &[]);
    refusal(set.map(|set| set.id()), "no complete backup");
    run.back_up(Path::new("/again"), None);
    // The base has moved.
    run.back_up(Path::new("/next2"), Some(Path::new("/again")));
    let listing = Path::new("/again/backup.manifest");
    env_rename(&run.env, listing, Path::new("/elsewhere"));
    let set = BackupSet::open(&run.env, Path::new("/next2"), &[]);
    refusal(set.map(|set| set.id()), "say where it is");
}

fn env_rename(env: &Env, from: &Path, to: &Path) {
    env.fs.rename(from, to).expect("rename");
}
