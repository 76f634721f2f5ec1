//! Replay of what was recorded: whole, torn, damaged.

use esker_vfs::sim::{Fault, Op as DiskOp, SimEnv};

use super::write::CHECKPOINT_RECORD_BYTES;
use super::*;
use crate::{TreeId, extent};

const DIR: &str = "/db/manifest";

fn site(sim: &SimEnv, edit_bytes: u64) -> Site {
    let fs = sim.env().fs;
    let dir = PathBuf::from(DIR);
    fs.create_dir_all(&dir).unwrap();
    Site {
        fs,
        dir,
        health: Health::for_tests(),
        edit_bytes,
    }
}

fn create(sim: &SimEnv, edit_bytes: u64) -> Manifest {
    Manifest::create(site(sim, edit_bytes), [7; 16], None, std::iter::empty()).unwrap()
}

fn tree(n: u32) -> Change {
    Change::CreateTree {
        tree: TreeId(n),
        flushed_seq: 100 + u64::from(n),
    }
}

fn read(sim: &SimEnv) -> Result<Vec<u32>> {
    let replayed = replay(&*sim.env().fs, Path::new(DIR))?.expect("there is a manifest");
    assert_eq!(replayed.uuid, [7; 16]);
    Ok(replayed.state.trees.keys().map(|id| id.0).collect())
}

fn path_in_force(sim: &SimEnv) -> PathBuf {
    let fs = sim.env().fs;
    let numbers = file_numbers(&*fs, Path::new(DIR)).unwrap();
    assert_eq!(numbers.len(), 1);
    file_path(Path::new(DIR), numbers[0])
}

#[test]
fn edits_are_replayed_in_order_and_the_tail_may_be_torn() {
    let sim = SimEnv::new(1);
    let mut manifest = create(&sim, 1 << 20);
    manifest.append(&[tree(1), tree(2)]).unwrap();
    manifest
        .append(&[tree(3), Change::DropTree { tree: TreeId(1) }])
        .unwrap();
    let before_last = manifest.bytes();
    manifest.append(&[tree(4)]).unwrap();
    assert_eq!(read(&sim).unwrap(), [2, 3, 4]);
    // Any flip in the last record takes it away, and nothing else.
    let path = path_in_force(&sim);
    for byte in [0, 4, 9, 17, 22, 24, 26] {
        sim.fs.flip_bit(&path, before_last + byte, 0).unwrap();
        assert_eq!(read(&sim).unwrap(), [2, 3], "byte {byte}");
        sim.fs.flip_bit(&path, before_last + byte, 0).unwrap();
    }
    // The padding has no meaning.
    sim.fs.flip_bit(&path, before_last + 200, 0).unwrap();
    assert_eq!(read(&sim).unwrap(), [2, 3, 4]);
}

#[test]
fn damage_before_the_tail_is_an_error_that_says_what_is_lost() {
    let sim = SimEnv::new(1);
    let mut manifest = create(&sim, 1 << 20);
    let mut starts = Vec::new();
    for n in 1..=4 {
        starts.push(manifest.bytes());
        manifest.append(&[tree(n)]).unwrap();
    }
    let path = path_in_force(&sim);
    sim.fs.flip_bit(&path, starts[1] + 25, 2).unwrap();
    let EngineError::Corruption { file, offset, what } = read(&sim).unwrap_err() else {
        panic!("not a corruption");
    };
    assert_eq!((file.as_ref(), offset), (path.to_str().unwrap(), starts[1]));
    assert!(what.contains("2 later edits would be lost"), "{what}");
    sim.fs.flip_bit(&path, starts[1] + 25, 2).unwrap();
    // Header and checkpoint must be whole even if nothing follows.
    for offset in [0, 30, PAGE_BYTES as u64 + 1] {
        sim.fs.flip_bit(&path, offset, 1).unwrap();
        assert!(
            matches!(read(&sim), Err(EngineError::Corruption { .. })),
            "offset {offset}"
        );
        sim.fs.flip_bit(&path, offset, 1).unwrap();
    }
    assert_eq!(read(&sim).unwrap(), [1, 2, 3, 4]);
}

#[test]
fn another_format_of_manifest_or_extents_is_refused_with_what_to_do() {
    let sim = SimEnv::new(1);
    create(&sim, 1 << 20);
    let path = path_in_force(&sim);
    let file = sim.env().fs.open(&path, OpenMode::ReadWrite).unwrap();
    let whole = sim.fs.contents(&path).unwrap();
    let uuid = [7; 16];
    let old = |version: u16| [&version.to_le_bytes()[..], &uuid].concat();
    let new = |version: u16, extents: u16| {
        [
            &version.to_le_bytes()[..],
            &extents.to_le_bytes(),
            &uuid[..],
        ]
        .concat()
    };
    let (manifest, extents) = (FORMAT_VERSION, extent::FORMAT_VERSION);
    for (header, expected) in [
        (old(1), "manifest format 1, and"),
        (new(manifest, extents - 1), "extent format 3, and"),
    ] {
        let mut page = Vec::new();
        put_record(&mut page, Kind::Header, 1, &header);
        file.write_all_at(&page, 0).unwrap();
        let refused = read(&sim).unwrap_err();
        assert!(matches!(refused, EngineError::OtherFormat { .. }));
        let text = refused.to_string();
        assert!(
            text.starts_with(path.to_str().unwrap())
                && text.contains(expected)
                && text.contains("dump the data"),
            "{text}"
        );
    }
    for header in [new(manifest + 1, extents), new(manifest, extents + 1)] {
        let mut page = Vec::new();
        put_record(&mut page, Kind::Header, 1, &header);
        file.write_all_at(&page, 0).unwrap();
        let text = read(&sim).unwrap_err().to_string();
        assert!(text.contains("written by a newer version"), "{text}");
    }
    file.write_all_at(&whole, 0).unwrap();
    assert_eq!(read(&sim).unwrap(), [0; 0]);
}

#[test]
fn impossible_edits_are_damage() {
    let sim = SimEnv::new(1);
    let mut manifest = create(&sim, 1 << 20);
    manifest.append(&[tree(1)]).unwrap();
    manifest.append(&[tree(1)]).unwrap();
    assert!(matches!(read(&sim), Err(EngineError::Corruption { .. })));
}

#[test]
fn a_checkpoint_takes_over_and_the_old_file_goes() {
    let sim = SimEnv::new(1);
    let mut manifest = create(&sim, 8 * PAGE_BYTES as u64);
    let mut checkpoints = 0;
    for n in 1..=40 {
        manifest.append(&[tree(n)]).unwrap();
        if manifest.checkpoint_is_due() {
            checkpoints += 1;
            manifest.checkpoint((1..=n).map(tree)).unwrap();
            assert!(!manifest.checkpoint_is_due());
        }
        assert_eq!(read(&sim).unwrap(), (1..=n).collect::<Vec<_>>());
        // And the space for the next one.
        assert_eq!(sim.env().fs.list(Path::new(DIR)).unwrap().len(), 2);
    }
    assert!((3..=6).contains(&checkpoints), "{checkpoints}");
}

#[test]
fn a_large_checkpoint_is_several_records() {
    let sim = SimEnv::new(1);
    let trees = 200_000;
    let site = site(&sim, 1 << 20);
    let manifest = Manifest::create(site, [7; 16], None, (1..=trees).map(tree)).unwrap();
    assert!(manifest.bytes() > CHECKPOINT_RECORD_BYTES as u64);
    assert_eq!(read(&sim).unwrap().len(), trees as usize);
}

#[test]
fn a_full_disk_is_survived_and_other_failures_are_final() {
    let sim = SimEnv::new(1);
    let mut manifest = create(&sim, 1 << 20);
    manifest.append(&[tree(1)]).unwrap();
    let reopen = |content: &[u32]| {
        Manifest::create(
            site(&sim, 1 << 20),
            [7; 16],
            replay(&*sim.env().fs, Path::new(DIR)).unwrap().as_ref(),
            content.iter().copied().map(tree),
        )
        .unwrap()
    };
    let mut manifest = reopen(&[1]);
    sim.fs.inject(Fault::on(DiskOp::Write).no_space());
    assert!(matches!(
        manifest.append(&[tree(2)]),
        Err(EngineError::DiskFull(_))
    ));
    assert_eq!(read(&sim).unwrap(), [1]);
    manifest.append(&[tree(3)]).unwrap();
    assert_eq!(read(&sim).unwrap(), [1, 3]);
    // Some space was reserved ahead.
    let mut manifest = reopen(&[1, 3]);
    sim.fs
        .inject(Fault::on(DiskOp::Allocate).no_space().forever());
    let mut trees = 4..;
    let error = loop {
        if let Err(error) = manifest.append(&[tree(trees.next().unwrap())]) {
            break error;
        }
    };
    assert!(matches!(error, EngineError::DiskFull(_)), "{error}");
    let appended = trees.start - 5;
    assert!(appended >= 16, "{appended}");
    assert_eq!(read(&sim).unwrap().len() as u32, 2 + appended);
    sim.fs.clear_faults();
    manifest.append(&[tree(1000)]).unwrap();
    assert_eq!(read(&sim).unwrap().len() as u32, 3 + appended);
    for op in [DiskOp::Write, DiskOp::Sync] {
        let sim = SimEnv::new(1);
        let mut manifest = create(&sim, 1 << 20);
        manifest.append(&[tree(1)]).unwrap();
        let syncs = sim.fs.ops();
        sim.fs.inject(Fault::on(op));
        assert!(matches!(
            manifest.append(&[tree(2)]),
            Err(EngineError::Stopped(_))
        ));
        // Nothing is tried again: not the write, not the sync.
        let after = sim.fs.ops();
        assert!(after > syncs);
        assert!(matches!(
            manifest.append(&[tree(3)]),
            Err(EngineError::Stopped(_))
        ));
        assert!(matches!(
            manifest.checkpoint(std::iter::empty()),
            Err(EngineError::Stopped(_))
        ));
        assert_eq!(sim.fs.ops(), after);
    }
}

#[test]
fn a_disk_that_is_full_at_the_start_keeps_the_old_file_in_force() {
    let sim = SimEnv::new(1);
    let mut manifest = create(&sim, 1 << 20);
    manifest.append(&[tree(1)]).unwrap();
    let old = path_in_force(&sim);
    sim.env()
        .fs
        .remove_file(&Path::new(DIR).join(SPARE))
        .unwrap();
    for op in [DiskOp::Create, DiskOp::Write, DiskOp::Sync, DiskOp::Rename] {
        sim.fs
            .inject(Fault::on(op).no_space().path(".new").forever());
        let replayed = replay(&*sim.env().fs, Path::new(DIR)).unwrap();
        let site = site(&sim, 1 << 20);
        let content = || std::iter::once(tree(1));
        let mut manifest = Manifest::create(site, [7; 16], replayed.as_ref(), content()).unwrap();
        assert!(manifest.is_overdue());
        assert!(matches!(
            manifest.checkpoint(content()),
            Err(EngineError::DiskFull(_))
        ));
        assert_eq!(path_in_force(&sim), old);
        assert_eq!(sim.env().fs.list(Path::new(DIR)).unwrap().len(), 1);
        assert_eq!(read(&sim).unwrap(), [1]);
        sim.fs.clear_faults();
    }
    let replayed = replay(&*sim.env().fs, Path::new(DIR)).unwrap();
    sim.fs.inject(Fault::on(DiskOp::Write).no_space());
    let content = std::iter::once(tree(1));
    let site = site(&sim, 1 << 20);
    let mut manifest = Manifest::create(site, [7; 16], replayed.as_ref(), content).unwrap();
    // There is room again.
    manifest.checkpoint(std::iter::once(tree(1))).unwrap();
    assert!(!manifest.is_overdue());
    assert_ne!(path_in_force(&sim), old);
    manifest.append(&[tree(2)]).unwrap();
    assert_eq!(read(&sim).unwrap(), [1, 2]);
}

#[test]
fn a_file_cut_short_anywhere_is_damage_and_not_an_older_state() {
    let sim = SimEnv::new(1);
    let mut manifest = create(&sim, 64 << 20);
    // Beyond the space that is reserved at first, twice.
    for n in 1..=150 {
        manifest.append(&[tree(n)]).unwrap();
    }
    let path = path_in_force(&sim);
    let file = sim.env().fs.open(&path, OpenMode::ReadWrite).unwrap();
    let mut whole = vec![0; file.len().unwrap() as usize];
    file.read_exact_at(&mut whole, 0).unwrap();
    assert!(whole.len() as u64 > 2 * RESERVE_BYTES);
    for cut in (0..whole.len())
        .step_by(PAGE_BYTES / 2)
        .chain([1, whole.len() - 1])
    {
        file.set_len(cut as u64).unwrap();
        let Err(EngineError::Corruption {
            file: named, what, ..
        }) = read(&sim)
        else {
            panic!("cut at {cut}");
        };
        assert_eq!(&*named, path.to_str().unwrap());
        assert!(what.contains("from a copy"), "{cut}: {what}");
        file.write_all_at(&whole[cut..], cut as u64).unwrap();
    }
    assert_eq!(read(&sim).unwrap().len(), 150);
}

#[test]
fn a_file_that_got_no_space_ahead_knows_its_length() {
    let sim = SimEnv::new(1);
    drop(create(&sim, 1 << 20));
    let replayed = replay(&*sim.env().fs, Path::new(DIR)).unwrap().unwrap();
    let enough = 3 * PAGE_BYTES as u64;
    let used = sim.fs.used_bytes();
    sim.fs.set_capacity(used + enough);
    let content = std::iter::once(tree(9));
    let full = Manifest::create(site(&sim, 1 << 20), [7; 16], Some(&replayed), content).unwrap();
    assert!(!full.is_overdue());
    drop(full);
    assert_eq!(read(&sim).unwrap(), [9]);
    let path = path_in_force(&sim);
    let file = sim.env().fs.open(&path, OpenMode::ReadWrite).unwrap();
    let len = file.len().unwrap();
    file.set_len(len - 1).unwrap();
    assert!(read(&sim).is_err());
}

#[test]
fn a_full_disk_has_space_for_a_manifest_at_each_start() {
    let sim = SimEnv::new(1);
    let mut manifest = create(&sim, 1 << 20);
    manifest.append(&[tree(1)]).unwrap();
    drop(manifest);
    for n in 2..10 {
        sim.fs.set_capacity(sim.fs.used_bytes());
        let replayed = replay(&*sim.env().fs, Path::new(DIR)).unwrap();
        let content = (1..n).map(tree);
        let site = site(&sim, 1 << 20);
        let mut manifest = Manifest::create(site, [7; 16], replayed.as_ref(), content).unwrap();
        assert!(!manifest.is_overdue(), "{n}");
        manifest.append(&[tree(n)]).unwrap();
        assert_eq!(read(&sim).unwrap(), (1..=n).collect::<Vec<_>>());
    }
}
