//! Tests of slots: which are used again, and what a failing disk leaves.

use esker_vfs::sim::{Fault, Op, SimEnv};

use super::*;

fn space() -> (SimEnv, Arc<Space>) {
    let sim = SimEnv::new(1);
    let fs = sim.env().fs;
    let dir = Path::new("/data/extents");
    fs.create_dir_all(dir).unwrap();
    let space = Space::open(fs, dir, Health::for_tests(), std::iter::empty()).unwrap();
    (sim, space)
}

#[test]
fn freed_slots_are_used_again_and_empty_files_go() {
    let (sim, space) = space();
    let first = space.allocate(1).unwrap();
    let second = space.allocate(3).unwrap();
    let third = space.allocate(1).unwrap();
    let ids = [&first, &second, &third].map(|slots| slots.id().0);
    assert_eq!(ids, [0, 1, 4]);
    drop(second);
    assert_eq!(space.allocate(4).unwrap().id().0, 5);
    assert_eq!(space.allocate(2).unwrap().id().0, 1);
    let kept = space.allocate(2).unwrap();
    kept.keep();
    drop((first, third, kept));
    assert_eq!(
        space.stats(),
        SpaceStats {
            files: 1,
            used_slots: 2,
            free_slots: 510,
            hollow_slots: 503,
        }
    );
    let released = space.slots(
        ExtentId(1),
        2,
        Arc::clone(&space.state.lock().files[&0].handle),
        false,
    );
    drop(released);
    assert_eq!(space.stats(), SpaceStats::default());
    assert!(
        sim.env()
            .fs
            .list(Path::new("/data/extents"))
            .unwrap()
            .is_empty()
    );
}

#[test]
fn runs_span_words_and_giants_get_a_file_of_their_own() {
    let (_sim, space) = space();
    let mut held: Vec<Slots> = (0..130).map(|_| space.allocate(1).unwrap()).collect();
    // Free 60..70: a run across the border of two words.
    held.drain(60..70);
    assert_eq!(space.allocate(10).unwrap().id().0, 60);
    assert_eq!(space.allocate(11).unwrap().id().0, 130);
    let giant = space.allocate(600).unwrap();
    assert_eq!(
        (giant.id().file(), giant.id().slot(), giant.count()),
        (1, 0, 600)
    );
    let next = space.allocate(400).unwrap();
    assert_eq!(next.id().file(), 2 - 2 * u32::from(next.id().file() == 0));
    drop(giant);
    assert!(space.allocate(512).unwrap().id().slot() == 0);
}

#[test]
fn a_failed_sync_concerns_everybody_who_wrote_to_the_file() {
    let (sim, space) = space();
    let write = || {
        let slots = space.allocate(1).unwrap();
        slots.write(b"extent").unwrap();
        slots
    };
    let (first, second) = (write(), write());
    sim.fs.inject(Fault::on(Op::Sync).path(".extents"));
    assert!(matches!(
        space.sync([&first].into_iter()),
        Err(EngineError::WriteFailed { .. })
    ));
    // The device works again, but the bytes may be gone.
    assert!(space.sync([&second].into_iter()).is_err());
    let third = write();
    assert_eq!((third.id().file(), third.id().slot()), (1, 0));
    space.sync([&third].into_iter()).unwrap();
    // Slots that come back are not used again; the file goes when it is empty.
    drop(second);
    assert_eq!(space.allocate(1).unwrap().id().file(), 1);
    drop(first);
    assert_eq!(space.stats().files, 1);
    assert!(space.health.check().is_ok());
}

#[test]
fn slots_that_cannot_be_written_are_left_alone() {
    let (sim, space) = space();
    let slots = space.allocate(1).unwrap();
    sim.fs.inject(Fault::on(Op::Write).path(".extents"));
    assert!(matches!(
        slots.write(b"x"),
        Err(EngineError::WriteFailed { .. })
    ));
    drop(slots);
    assert_eq!(space.allocate(1).unwrap().id().slot(), 1);
    // A full disk is nobody's fault.
    let slots = space.allocate(1).unwrap();
    sim.fs
        .inject(Fault::on(Op::Write).no_space().path(".extents"));
    assert!(matches!(slots.write(b"x"), Err(EngineError::DiskFull(_))));
    let slot = slots.id().slot();
    drop(slots);
    assert_eq!(space.allocate(1).unwrap().id().slot(), slot.min(1));
}

#[test]
fn nothing_is_given_back_after_a_fatal_failure() {
    let (_sim, space) = space();
    let slots = space.allocate(1).unwrap();
    let _error = space.health.stop("test".to_owned());
    drop(slots);
    assert_eq!(space.stats().used_slots, 1);
}

const EXTENTS: u32 = 40;

fn written(space: &Arc<Space>, count: u32) -> Vec<Slots> {
    let write = |_| {
        let slots = space.allocate(1).unwrap();
        slots.write(&[7; SLOT_BYTES as usize]).unwrap();
        slots
    };
    (0..count).map(write).collect()
}

fn trim_all(space: &Space) {
    while space.trim(Kept::ForSoon).unwrap() {}
}

#[test]
fn disk_space_of_free_slots_goes_back_and_files_become_shorter() {
    let (sim, space) = space();
    let path = Path::new("/data/extents/000000.extents");
    let mut held = written(&space, EXTENTS);
    let used = |slots: u64| slots * SLOT_BYTES;
    assert_eq!(sim.fs.used_bytes(), used(u64::from(EXTENTS)));
    // All but the first and the one in the middle: the tail is cut, a hole is left between.
    let middle = held.remove(20);
    held.truncate(1);
    trim_all(&space);
    assert_eq!(sim.fs.used_bytes(), used(2 + KEPT_FREE_SLOTS));
    assert_eq!(sim.fs.contents(path).unwrap().len() as u64, used(21));
    assert_eq!(sim.fs.contents(path).unwrap()[used(20) as usize], 7);
    // What is free is used again, with space or without.
    while space.trim(Kept::Nothing).unwrap() {}
    assert_eq!(sim.fs.used_bytes(), used(2));
    held.extend(written(&space, EXTENTS));
    assert_eq!(space.stats().free_slots, 512 - 2 - u64::from(EXTENTS));
    assert_eq!(sim.fs.used_bytes(), used(2 + u64::from(EXTENTS)));
    // An extent that is shorter than the one before it keeps nothing of that.
    drop(middle);
    let short = space.allocate(1).unwrap();
    assert_eq!(short.id().slot(), 20);
    short.write(&[8; 5000]).unwrap();
    assert_eq!(
        sim.fs.used_bytes(),
        used(1 + u64::from(EXTENTS)) + 2 * HOLE_ALIGN
    );
    held.clear();
    drop(short);
    assert_eq!((space.stats(), sim.fs.used_bytes()), Default::default());
}

#[test]
fn nobody_writes_behind_a_tail_that_is_being_cut_off() {
    let (_sim, space) = space();
    let mut held = written(&space, EXTENTS);
    held.truncate(1);
    // As `trim` does, with an allocation that fits nowhere before the tail when the lock is let go.
    let (number, trim, _) = space.begin_trim(Kept::ForSoon).unwrap();
    assert!(trim.is_tail);
    let wide = space.allocate(KEPT_FREE_SLOTS as u32 + 1).unwrap();
    assert_ne!(wide.id().file(), number, "{trim:?}");
    assert_eq!(space.allocate(1).unwrap().id().file(), number);
}

#[test]
fn extents_written_beside_trims_are_whole() {
    const ROUNDS: u32 = 10_000;
    const BYTES: [u8; 64] = [7; 64];
    let (_sim, space) = space();
    let _first = space.allocate(1).unwrap();
    let write_and_read = || {
        for round in 0..ROUNDS {
            let slots = space.allocate(1 + round % 3).unwrap();
            slots.write(&BYTES).unwrap();
            std::thread::yield_now();
            let mut read = [0; BYTES.len()];
            let offset = slots.id().offset();
            slots.file().read_exact_at(&mut read, offset).unwrap();
            assert_eq!(read, BYTES, "round {round}, {:?}", slots.id());
        }
    };
    std::thread::scope(|scope| {
        let writer = scope.spawn(write_and_read);
        while !writer.is_finished() {
            space.trim(Kept::Nothing).unwrap();
        }
    });
}

#[test]
fn a_file_system_that_gives_nothing_back_is_no_failure() {
    let (sim, space) = space();
    let mut held = written(&space, EXTENTS);
    for op in [Op::Punch, Op::SetLen] {
        sim.fs.inject(Fault::on(op).forever());
    }
    held.drain(..30);
    trim_all(&space);
    assert_eq!(space.stats().hollow_slots, 512 - u64::from(EXTENTS) + 14);
    held.extend(written(&space, EXTENTS));
    assert!(space.health.check().is_ok());
}
