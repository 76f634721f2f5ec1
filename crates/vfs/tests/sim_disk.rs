//! What the simulated disk promises, and above all what it does not.

use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use esker_vfs::sim::{CrashImage, Fault, Op, SECTOR_BYTES, SimEnv, SimFs, SimRng};
use esker_vfs::{File, Fs, OpenMode};

const DIR: &str = "/data";
const PATH: &str = "/data/file";

fn disk() -> SimFs {
    let fs = SimFs::new();
    fs.create_dir_all(Path::new(DIR)).unwrap();
    fs
}

fn create(fs: &SimFs, path: &str) -> Arc<dyn File> {
    fs.open(Path::new(path), OpenMode::CreateNew).unwrap()
}

/// A file whose name is durable.
fn created(fs: &SimFs) -> Arc<dyn File> {
    let file = create(fs, PATH);
    fs.sync_dir(Path::new(DIR)).unwrap();
    file
}

fn contents(fs: &SimFs) -> Vec<u8> {
    fs.contents(Path::new(PATH)).unwrap()
}

#[test]
fn unsynced_bytes_may_vanish_and_synced_ones_stay() {
    let fs = disk();
    let file = created(&fs);
    file.write_all_at(b"one", 0).unwrap();
    file.sync_data().unwrap();
    file.write_all_at(b"two", 3).unwrap();
    assert_eq!(contents(&fs), b"onetwo");
    assert!(fs.has_unsynced_bytes());
    assert_eq!(contents(&fs.crash_with(CrashImage::DropUnsynced)), b"one");
    assert_eq!(
        contents(&fs.crash_with(CrashImage::KeepUnsynced)),
        b"onetwo"
    );
    // The old disk is not touched by a crash.
    assert_eq!(contents(&fs), b"onetwo");
}

#[test]
fn every_crash_keeps_synced_sectors_and_some_tear_or_lose_the_others() {
    let fs = disk();
    let file = created(&fs);
    let sectors = 64;
    file.write_all_at(&vec![1; sectors * SECTOR_BYTES], 0)
        .unwrap();
    file.sync_data().unwrap();
    let dirty = 16;
    file.write_all_at(&vec![2; dirty * SECTOR_BYTES], 0)
        .unwrap();
    let (mut torn, mut kept, mut lost) = (0, 0, 0);
    for seed in 0..200 {
        let after = contents(&fs.crash(seed));
        assert_eq!(after.len(), sectors * SECTOR_BYTES);
        assert!(
            after[dirty * SECTOR_BYTES..].iter().all(|b| *b == 1),
            "seed {seed}"
        );
        for sector in after[..dirty * SECTOR_BYTES].chunks(SECTOR_BYTES) {
            match sector.iter().filter(|b| **b == 2).count() {
                0 => lost += 1,
                SECTOR_BYTES => kept += 1,
                _ => torn += 1,
            }
        }
    }
    assert!(
        torn > 20 && kept > 200 && lost > 200,
        "{torn} torn, {kept} kept, {lost} lost"
    );
}

#[test]
fn length_may_survive_without_data_and_the_reverse() {
    let fs = disk();
    let file = created(&fs);
    file.write_all_at(&[1; SECTOR_BYTES], 0).unwrap();
    file.sync_data().unwrap();
    file.write_all_at(&[2; SECTOR_BYTES], 0).unwrap();
    file.write_all_at(&[3; SECTOR_BYTES], SECTOR_BYTES as u64)
        .unwrap();
    let (mut length_only, mut data_only) = (false, false);
    for seed in 0..300 {
        let after = contents(&fs.crash(seed));
        match after.len() / SECTOR_BYTES {
            1 => data_only |= after[..SECTOR_BYTES].iter().all(|b| *b == 2),
            2 => length_only |= after[SECTOR_BYTES..].iter().all(|b| *b == 0),
            n => panic!("{n} sectors"),
        }
    }
    assert!(length_only && data_only);
}

#[test]
fn a_failed_sync_forgets_that_bytes_were_dirty_so_a_retry_saves_nothing() {
    let fs = disk();
    let file = created(&fs);
    file.write_all_at(b"old", 0).unwrap();
    file.sync_data().unwrap();
    file.write_all_at(b"new", 0).unwrap();
    fs.inject(Fault::on(Op::Sync));
    assert_eq!(file.sync_data().unwrap_err().raw_os_error(), Some(5));
    assert_eq!(contents(&fs), b"new", "readers see the page cache");
    file.sync_data()
        .expect("the second sync finds nothing to write");
    for image in [
        CrashImage::KeepUnsynced,
        CrashImage::DropUnsynced,
        CrashImage::Random(3),
    ] {
        assert_eq!(contents(&fs.crash_with(image)), b"old");
    }
    fs.drop_caches();
    assert_eq!(contents(&fs), b"old", "readers see the platter");
    // Writing the bytes again makes them dirty again; that is the only way.
    file.write_all_at(b"new", 0).unwrap();
    file.sync_data().unwrap();
    assert_eq!(contents(&fs.crash_with(CrashImage::DropUnsynced)), b"new");
}

#[test]
fn names_need_a_directory_sync() {
    let fs = disk();
    let file = create(&fs, PATH);
    file.write_all_at(b"x", 0).unwrap();
    file.sync_all().unwrap();
    let path = Path::new(PATH);
    assert!(
        !fs.crash_with(CrashImage::DropUnsynced)
            .exists(path)
            .unwrap()
    );
    fs.sync_dir(Path::new(DIR)).unwrap();
    assert_eq!(contents(&fs.crash_with(CrashImage::DropUnsynced)), b"x");
    fs.remove_file(path).unwrap();
    assert!(!fs.exists(path).unwrap());
    assert_eq!(
        contents(&fs.crash_with(CrashImage::DropUnsynced)),
        b"x",
        "the removal reverts"
    );
    fs.sync_dir(Path::new(DIR)).unwrap();
    assert!(
        !fs.crash_with(CrashImage::DropUnsynced)
            .exists(path)
            .unwrap()
    );
    // The handle goes on working.
    let mut byte = [0];
    file.read_exact_at(&mut byte, 0).unwrap();
    assert_eq!(&byte, b"x");
}

#[test]
fn a_rename_without_directory_sync_keeps_one_of_both_files() {
    let fs = disk();
    let path = Path::new(PATH);
    created(&fs).write_all_at(b"old", 0).unwrap();
    let file = fs.open(path, OpenMode::ReadWrite).unwrap();
    file.sync_data().unwrap();
    let next = create(&fs, "/data/next");
    next.write_all_at(b"new", 0).unwrap();
    next.sync_data().unwrap();
    fs.rename(Path::new("/data/next"), path).unwrap();
    let mut seen = [false; 2];
    for seed in 0..100 {
        let after = fs.crash(seed);
        match contents(&after).as_slice() {
            b"old" => seen[0] = true,
            b"new" => seen[1] = true,
            other => panic!("{other:?}"),
        }
        let names = after.list(Path::new(DIR)).unwrap();
        assert!(
            names.contains(&"file".to_owned()),
            "never without the name: {names:?}"
        );
    }
    assert_eq!(seen, [true, true]);
    fs.sync_dir(Path::new(DIR)).unwrap();
    assert_eq!(contents(&fs.crash_with(CrashImage::DropUnsynced)), b"new");
    assert_eq!(fs.list(Path::new(DIR)).unwrap(), ["file"]);
}

#[test]
fn a_full_disk_refuses_writes_and_gets_space_back() {
    let fs = disk();
    fs.set_capacity(10 * SECTOR_BYTES as u64);
    let file = created(&fs);
    file.allocate(0, 8 * SECTOR_BYTES as u64).unwrap();
    assert_eq!(
        fs.free_bytes(Path::new(DIR)).unwrap(),
        2 * SECTOR_BYTES as u64
    );
    let other = create(&fs, "/data/other");
    let error = other.write_all_at(&[7; 3 * SECTOR_BYTES], 0).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::StorageFull);
    assert_eq!(
        other.len().unwrap(),
        2 * SECTOR_BYTES as u64,
        "what fitted is there"
    );
    assert_eq!(
        other.allocate(0, 4096).unwrap_err().kind(),
        ErrorKind::StorageFull
    );
    // What was reserved can be written.
    file.write_all_at(&[1; 8 * SECTOR_BYTES], 0).unwrap();
    drop(file);
    fs.remove_file(Path::new(PATH)).unwrap();
    other.write_all_at(&[7; 3 * SECTOR_BYTES], 0).unwrap();
    other.set_len(SECTOR_BYTES as u64).unwrap();
    assert_eq!(fs.used_bytes(), SECTOR_BYTES as u64);
}

#[test]
fn faults_hit_the_planned_operation_only() {
    let fs = disk();
    let file = created(&fs);
    fs.inject(
        Fault::on(Op::Write)
            .after(1)
            .times(2)
            .no_space()
            .path("file"),
    );
    file.write_all_at(b"a", 0).unwrap();
    for _ in 0..2 {
        let error = file.write_all_at(b"b", 0).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::StorageFull);
    }
    file.write_all_at(b"c", 0).unwrap();
    assert_eq!(fs.fault_hits().len(), 2);
    fs.inject(Fault::on(Op::Write).path("elsewhere"));
    file.write_all_at(b"d", 0).unwrap();
    fs.clear_faults();
    fs.inject(Fault::on(Op::Read).forever());
    assert!(file.read_at(&mut [0], 0).is_err() && file.read_at(&mut [0], 0).is_err());
}

#[test]
fn without_power_nothing_changes() {
    let fs = disk();
    let file = created(&fs);
    file.write_all_at(b"a", 0).unwrap();
    fs.halt_at(fs.ops() + 1);
    file.write_all_at(b"b", 0).unwrap();
    assert!(!fs.has_power());
    assert!(file.write_all_at(b"c", 0).is_err());
    assert!(file.sync_data().is_err());
    assert!(fs.open(Path::new(PATH), OpenMode::Read).is_err());
    let after = fs.crash_with(CrashImage::KeepUnsynced);
    assert_eq!(contents(&after), b"b");
    after
        .open(Path::new(PATH), OpenMode::ReadWrite)
        .unwrap()
        .sync_data()
        .unwrap();
}

#[test]
fn a_sync_covers_only_what_was_written_before_it_began() {
    let fs = disk();
    let file = created(&fs);
    file.write_all_at(b"early", 0).unwrap();
    fs.hold_syncs();
    let done = Arc::new(AtomicBool::new(false));
    let syncer = std::thread::spawn({
        let (file, done) = (file.clone(), done.clone());
        move || {
            file.sync_data().unwrap();
            done.store(true, Ordering::SeqCst);
        }
    });
    fs.await_held_sync();
    file.write_all_at(b"late", SECTOR_BYTES as u64).unwrap();
    assert!(!done.load(Ordering::SeqCst));
    assert_eq!(contents(&fs.crash_with(CrashImage::DropUnsynced)), b"");
    fs.release_syncs();
    syncer.join().unwrap();
    assert_eq!(contents(&fs.crash_with(CrashImage::DropUnsynced)), b"early");
}

#[test]
fn truncated_bytes_do_not_come_back_when_the_file_grows() {
    let fs = disk();
    let file = created(&fs);
    file.write_all_at(&[9; 2000], 0).unwrap();
    file.sync_data().unwrap();
    file.set_len(100).unwrap();
    file.set_len(2000).unwrap();
    let mut expected = vec![9; 100];
    expected.resize(2000, 0);
    assert_eq!(contents(&fs), expected);
    file.sync_data().unwrap();
    assert_eq!(contents(&fs.crash_with(CrashImage::DropUnsynced)), expected);
}

#[test]
fn a_flipped_bit_stays_flipped() {
    let fs = disk();
    let file = created(&fs);
    file.write_all_at(&[0; 4], 0).unwrap();
    file.sync_data().unwrap();
    fs.flip_bit(Path::new(PATH), 2, 3).unwrap();
    assert_eq!(contents(&fs), [0, 0, 8, 0]);
    assert_eq!(contents(&fs.crash(1)), [0, 0, 8, 0]);
}

#[test]
fn directory_locks_exclude_and_are_released() {
    let fs = disk();
    let dir = Path::new(DIR);
    let lock = fs.lock_dir(dir).unwrap();
    assert_eq!(
        fs.lock_dir(dir).err().unwrap().kind(),
        ErrorKind::WouldBlock
    );
    assert!(
        fs.crash(0).lock_dir(dir).is_ok(),
        "a dead machine holds no lock"
    );
    drop(lock);
    assert!(fs.lock_dir(dir).is_ok());
}

#[test]
fn errors_of_names_are_the_usual_ones() {
    let fs = disk();
    let kind = |path: &str, mode| fs.open(Path::new(path), mode).err().map(|e| e.kind());
    assert_eq!(
        kind("/data/none", OpenMode::Read),
        Some(ErrorKind::NotFound)
    );
    assert_eq!(
        kind("/nowhere/file", OpenMode::CreateNew),
        Some(ErrorKind::NotFound)
    );
    assert_eq!(kind(DIR, OpenMode::Read), Some(ErrorKind::IsADirectory));
    assert_eq!(kind(PATH, OpenMode::CreateOrOpen), None);
    assert_eq!(
        kind(PATH, OpenMode::CreateNew),
        Some(ErrorKind::AlreadyExists)
    );
    assert_eq!(kind("data/./x/../file", OpenMode::Read), None);
    let read_only = fs.open(Path::new(PATH), OpenMode::Read).unwrap();
    assert!(read_only.write_all_at(b"x", 0).is_err());
    assert!(fs.list(Path::new("/nowhere")).is_err());
}

/// Random operations against a plain vector, with a crash and a full image in between.
#[test]
fn agrees_with_a_vector() {
    for seed in 0..50 {
        let mut rng = SimRng::new(seed);
        let mut fs = disk();
        let mut file = created(&fs);
        let mut model: Vec<u8> = Vec::new();
        for step in 0..60 {
            match rng.below(6) {
                0..=2 => {
                    let at = rng.below(3000) as usize;
                    let mut bytes = vec![0; 1 + rng.below(1500) as usize];
                    rng.fill(&mut bytes);
                    file.write_all_at(&bytes, at as u64).unwrap();
                    let end = at + bytes.len();
                    model.resize(model.len().max(end), 0);
                    model[at..end].copy_from_slice(&bytes);
                }
                3 => {
                    let len = rng.below(4000);
                    file.set_len(len).unwrap();
                    model.resize(len as usize, 0);
                }
                4 => {
                    file.sync_data().unwrap();
                    fs = fs.crash(rng.next_u64());
                    file = fs.open(Path::new(PATH), OpenMode::ReadWrite).unwrap();
                }
                _ => {
                    fs = fs.crash_with(CrashImage::KeepUnsynced);
                    file = fs.open(Path::new(PATH), OpenMode::ReadWrite).unwrap();
                }
            }
            assert_eq!(contents(&fs), model, "seed {seed}, step {step}");
        }
    }
}

#[test]
fn every_open_file_hears_once_of_an_error_whoever_met_it() {
    let fs = disk();
    let file = created(&fs);
    let other = fs.open(Path::new(PATH), OpenMode::ReadWrite).unwrap();
    file.write_all_at(b"lost", 0).unwrap();
    fs.inject(Fault::on(Op::Sync));
    assert!(other.sync_data().is_err());
    other.sync_data().expect("it has heard of it");
    assert!(file.sync_data().is_err(), "its bytes are gone");
    file.sync_data().expect("now it has heard, too");
    let late = fs.open(Path::new(PATH), OpenMode::ReadWrite).unwrap();
    late.sync_data().expect("opened after the error");
}

#[test]
fn the_same_seed_gives_the_same_crash() {
    let fs = disk();
    let file = created(&fs);
    file.write_all_at(&[5; 100 * SECTOR_BYTES], 0).unwrap();
    for seed in 0..20 {
        assert_eq!(contents(&fs.crash(seed)), contents(&fs.crash(seed)));
    }
}

#[test]
fn the_simulated_machine_has_a_clock_and_dice() {
    let sim = SimEnv::new(1);
    let env = sim.env();
    let (wall, mono) = (env.clock.wall_micros(), env.clock.mono_nanos());
    sim.clock.advance(std::time::Duration::from_millis(3));
    assert_eq!(env.clock.wall_micros(), wall + 3000);
    assert_eq!(env.clock.mono_nanos(), mono + 3_000_000);
    let again = SimEnv::new(1).env();
    assert_eq!(env.random.next_u64(), again.random.next_u64());
    sim.fs.create_dir_all(Path::new(DIR)).unwrap();
    let after = sim.crash(9);
    assert!(after.env().fs.exists(Path::new(DIR)).unwrap());
    assert_eq!(
        after.env().clock.mono_nanos(),
        mono + 3_000_000,
        "time goes on"
    );
}

#[test]
fn a_hole_gives_space_back_and_only_whole_sectors_are_in_it() {
    let fs = disk();
    let file = created(&fs);
    let sector = SECTOR_BYTES as u64;
    file.write_all_at(&[7; 8 * SECTOR_BYTES], 0).unwrap();
    file.sync_data().unwrap();
    assert!(file.punch_hole(sector + 1, 4 * sector).unwrap());
    assert_eq!(fs.used_bytes(), 5 * sector);
    let bytes = contents(&fs);
    assert_eq!(bytes.len() as u64, 8 * sector);
    for (number, bytes) in bytes.chunks(SECTOR_BYTES).enumerate() {
        let expected = if (2..5).contains(&number) { 0 } else { 7 };
        assert!(bytes.iter().all(|b| *b == expected), "sector {number}");
    }
    // Until it is synced a crash may bring the bytes back.
    let old = contents(&fs.crash_with(CrashImage::DropUnsynced));
    assert!(old.iter().all(|b| *b == 7));
    fs.inject(Fault::on(Op::Punch));
    assert!(file.punch_hole(0, sector).is_err());
    assert_eq!(fs.used_bytes(), 5 * sector);
}

/// Disks are kept as they were before a change, with what was noted then, and the original goes on.
#[test]
fn crashes_are_kept_while_the_disk_goes_on() {
    let fs = disk();
    let file = created(&fs);
    let first = fs.ops();
    fs.keep_crashes(move |ops| Some((CrashImage::KeepUnsynced, (ops - first) as usize)));
    for (at, byte) in b"abc".iter().enumerate() {
        file.write_all_at(&[*byte], at as u64).unwrap();
    }
    let kept = fs.kept_crashes();
    for (nth, (disk, note)) in kept.iter().enumerate() {
        assert_eq!((&contents(disk)[..], *note), (&b"abc"[..nth], nth));
    }
    assert_eq!(kept.len(), 3);
    file.write_all_at(b"d", 3).unwrap();
    assert!(fs.kept_crashes().is_empty(), "the watch has ended");
    assert_eq!(contents(&fs), b"abcd");
}
