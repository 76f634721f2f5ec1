//! Bytes that are not what was written: torn tails are dropped, damage is an error, nothing panics.

use std::path::{Path, PathBuf};

use crate::common::{
    DIR, Fatals, Opened, Owned, append_random, commit, config, open_from, open_manual, segments,
};
use esker_vfs::OpenMode;
use esker_vfs::sim::{SimEnv, SimRng};
use esker_wal::{
    BlockView, DamageView, FlushMode, LogView, Lsn, PartView, SegmentView, Visitor, Wal, WalError,
};

const PAGE: usize = 4096;

/// A file of a disk, to be changed and put on other disks.
struct Image {
    files: Vec<(PathBuf, Vec<u8>)>,
}

impl Image {
    fn of(sim: &SimEnv) -> Self {
        let read = |path: PathBuf| {
            let bytes = sim.fs.contents(&path).unwrap();
            (path, bytes)
        };
        Self {
            files: segments(sim).into_iter().map(read).collect(),
        }
    }

    fn last(&self) -> &[u8] {
        &self.files.last().unwrap().1
    }

    /// A disk with these files, all durable, after a change of the one with this index.
    fn disk(&self, index: usize, change: impl FnOnce(&mut Vec<u8>)) -> SimEnv {
        let sim = SimEnv::new(99);
        let fs = sim.env().fs;
        fs.create_dir_all(Path::new(DIR)).unwrap();
        let mut change = Some(change);
        for (i, (path, bytes)) in self.files.iter().enumerate() {
            let mut bytes = bytes.clone();
            if i == index {
                (change.take().unwrap())(&mut bytes);
            }
            let file = fs.open(path, OpenMode::CreateNew).unwrap();
            file.write_all_at(&bytes, 0).unwrap();
            file.sync_all().unwrap();
        }
        fs.sync_dir(Path::new(DIR)).unwrap();
        sim
    }
}

fn try_open(sim: &SimEnv) -> Result<Opened, WalError> {
    open_from(sim, FlushMode::Manual, Lsn(0))
}

/// Offset behind the last block of a segment image.
fn used(bytes: &[u8]) -> usize {
    bytes
        .chunks(PAGE)
        .rposition(|page| page.iter().any(|b| *b != 0))
        .unwrap()
        * PAGE
        + PAGE
}

/// Groups of records in one segment, not cleanly shut down: the records of each group.
fn groups(sim: &SimEnv, sizes: &[&[usize]]) -> Vec<Vec<Owned>> {
    let log = open_manual(sim);
    sizes
        .iter()
        .map(|sizes| {
            let records = sizes
                .iter()
                .map(|size| commit(&log.wal, &vec![*size as u8; *size]));
            let records = records.collect();
            log.wal.flush_now().unwrap();
            records
        })
        .collect()
}

#[test]
fn the_last_group_torn_at_any_byte_is_dropped_and_nothing_else() {
    let sim = SimEnv::new(1);
    let groups = groups(&sim, &[&[100], &[50, 60], &[300, 20, 500]]);
    let before: Vec<Owned> = groups[..2].concat();
    let image = Image::of(&sim);
    let start = used(image.last()) - PAGE;
    // The payload ends well inside the page; what is torn behind it is padding.
    let content = 256 + (groups[2].last().unwrap().end.0 - groups[2][0].start.0) as usize;
    for cut in (0..content).chain([content, content + 1, PAGE - 1]) {
        for fill in [0_u8, 0xa5] {
            let torn = image.disk(0, |bytes| bytes[start + cut..start + PAGE].fill(fill));
            let log = try_open(&torn).unwrap_or_else(|e| panic!("cut at {cut}: {e}"));
            // The last bytes of a block may be zeros anyway.
            let intact = Image::of(&torn).files[0].1[start..start + content]
                == image.last()[start..start + content];
            let expected = if intact {
                groups.concat()
            } else {
                before.clone()
            };
            assert_eq!(log.records, expected, "cut at {cut}");
            // Life goes on behind the end, and the torn bytes stay dead.
            let next = commit(&log.wal, b"next");
            log.wal.flush_now().unwrap();
            assert_eq!(next.start, expected.last().unwrap().end);
            drop(log);
            let records = open_manual(&torn).records;
            assert_eq!(records, [expected, vec![next]].concat(), "cut at {cut}");
        }
    }
}

#[test]
fn a_lost_sector_of_a_group_of_several_blocks_ends_the_log_there() {
    let sim = SimEnv::new(2);
    // The last group has several blocks (16 KiB of payload each).
    let groups = groups(&sim, &[&[10], &[7000, 7000, 7000, 7000, 30]]);
    let all = groups.concat();
    let image = Image::of(&sim);
    let (start, end) = (2 * PAGE, used(image.last()));
    assert!(end - start > 4 * PAGE);
    for sector in start / 512..end / 512 {
        let range = sector * 512..(sector + 1) * 512;
        if image.last()[range.clone()].iter().all(|b| *b == 0) {
            continue;
        }
        let torn = image.disk(0, |bytes| bytes[range].fill(0));
        let log = try_open(&torn).unwrap();
        let kept = log.records.len();
        assert!(
            (1..all.len()).contains(&kept),
            "sector {sector}: {kept} records"
        );
        assert_eq!(log.records, all[..kept]);
    }
}

#[test]
fn damage_before_the_tail_is_an_error_that_names_the_place() {
    let sim = SimEnv::new(3);
    let groups = groups(&sim, &[&[100, 50], &[900], &[20]]);
    let image = Image::of(&sim);
    for (group, records) in groups[..2].iter().enumerate() {
        let start = PAGE * (1 + group);
        let content = 256 + (records.last().unwrap().end.0 - records[0].start.0) as usize;
        for byte in 0..content {
            let bad = image.disk(0, |bytes| bytes[start + byte] ^= 1 << (byte % 8));
            match try_open(&bad).err() {
                Some(WalError::Corruption {
                    file,
                    offset,
                    what,
                    whole,
                    loss,
                }) => {
                    let loss = loss.expect("it is told");
                    assert_eq!((whole, loss.from), (records[0].start, whole), "byte {byte}");
                    assert_eq!(
                        (loss.to, loss.segments),
                        (groups[2][0].end, 1),
                        "byte {byte}"
                    );
                    assert_eq!(file, image.files[0].0);
                    assert_eq!(offset, start as u64, "byte {byte}: {what}");
                    assert!(
                        what.contains(&format!("LSN {}", records[0].start)),
                        "{what}"
                    );
                }
                other => panic!("byte {byte}: {other:?}"),
            }
        }
        let harmless = image.disk(0, |bytes| bytes[start + content] ^= 1);
        assert_eq!(try_open(&harmless).unwrap().records, groups.concat());
    }
}

#[test]
fn after_a_clean_shutdown_all_damage_is_noticed() {
    let sim = SimEnv::new(4);
    let log = open_manual(&sim);
    let record = commit(&log.wal, b"the only one");
    log.wal.shutdown().unwrap();
    drop(log);
    let image = Image::of(&sim);
    for byte in 0..(256 + record.end.0 - record.start.0) as usize {
        let bad = image.disk(0, |bytes| bytes[PAGE + byte] ^= 0x10);
        assert!(
            matches!(try_open(&bad).err(), Some(WalError::Corruption { .. })),
            "byte {byte}"
        );
    }
    // Damage to the seal itself only takes the proof away.
    let bad = image.disk(0, |bytes| bytes[2 * PAGE] ^= 1);
    assert_eq!(try_open(&bad).unwrap().records, [record]);
}

#[test]
fn damage_in_an_older_segment_is_an_error_wherever_it_is() {
    let sim = SimEnv::new(5);
    let log = open_manual(&sim);
    for _ in 0..30 {
        commit(&log.wal, &[3; 4000]);
        log.wal.flush_now().unwrap();
    }
    drop(log);
    let image = Image::of(&sim);
    assert!(image.files.len() >= 3);
    // But for the block that closes it.
    let end = used(&image.files[1].1) - PAGE;
    for page in 1..end / PAGE {
        if image.files[1].1[page * PAGE..(page + 1) * PAGE]
            .iter()
            .all(|b| *b == 0)
        {
            continue;
        }
        let bad = image.disk(1, |bytes| bytes[page * PAGE + 3] ^= 0x40);
        let error = try_open(&bad).err().expect("damage is noticed");
        assert!(
            matches!(error, WalError::Corruption { .. }),
            "page {page}: {error}"
        );
        assert!(
            error
                .to_string()
                .contains(image.files[1].0.to_str().unwrap()),
            "{error}"
        );
    }
    // A whole segment missing in the middle, or cut short.
    let gap = image.disk(usize::MAX, |_| {});
    gap.env().fs.remove_file(&image.files[1].0).unwrap();
    assert!(matches!(
        try_open(&gap).err(),
        Some(WalError::Corruption { .. })
    ));
    for len in [0, 30, PAGE, 3 * PAGE + 100] {
        let short = image.disk(1, |bytes| bytes.truncate(len));
        assert!(
            matches!(try_open(&short).err(), Some(WalError::Corruption { .. })),
            "{len}"
        );
    }
}

#[test]
fn a_damaged_segment_header_is_an_error() {
    let sim = SimEnv::new(6);
    groups(&sim, &[&[100], &[200]]);
    let image = Image::of(&sim);
    for byte in 0..64 {
        let bad = image.disk(0, |bytes| bytes[byte] ^= 4);
        match try_open(&bad).err() {
            Some(WalError::Corruption { offset: 0, .. }) => {}
            other => panic!("byte {byte}: {other:?}"),
        }
    }
    // A segment under another segment's name.
    let renamed = image.disk(usize::MAX, |_| {});
    let to = Path::new(DIR).join("0000000000000001.wal");
    renamed.env().fs.rename(&image.files[0].0, &to).unwrap();
    assert!(matches!(
        try_open(&renamed).err(),
        Some(WalError::Corruption { offset: 0, .. })
    ));
}

/// A header that is valid in itself, but no log gets there.
#[test]
fn a_segment_that_starts_where_no_record_can_is_an_error() {
    let sim = SimEnv::new(8);
    drop(open_manual(&sim));
    let image = Image::of(&sim);
    for (start, opens) in [
        (1 << 58, true),
        (1 << 59, false),
        (u64::MAX, false),
        (9, false),
    ] {
        let moved = image.disk(0, |bytes| {
            bytes[32..40].copy_from_slice(&u64::to_le_bytes(start));
            bytes[8..12].fill(0);
            let crc = crc32c::crc32c(&bytes[..64]);
            bytes[8..12].copy_from_slice(&crc.to_le_bytes());
        });
        let to = Path::new(DIR).join(format!("{start:016x}.wal"));
        moved.env().fs.rename(&image.files[0].0, &to).unwrap();
        match open_from(&moved, FlushMode::Manual, Lsn(start)) {
            Ok(opened) => assert!(opens && opened.wal.end() == Lsn(start)),
            Err(WalError::Corruption { .. }) => assert!(!opens, "{start}"),
            Err(other) => panic!("{start}: {other}"),
        }
    }
}

#[test]
fn a_log_shorter_than_the_starting_point_is_damage() {
    let sim = SimEnv::new(7);
    let groups = groups(&sim, &[&[100], &[200]]);
    let end = groups[1][0].end;
    let error = open_from(&sim, FlushMode::Manual, Lsn(end.0 + 8))
        .err()
        .unwrap();
    assert!(matches!(error, WalError::Corruption { .. }), "{error}");
    assert!(
        open_from(&sim, FlushMode::Manual, end)
            .unwrap()
            .records
            .is_empty()
    );
}

/// The manifest knows what was durable, also where records are needed from much further before.
#[test]
fn a_log_shorter_than_what_was_durable_is_damage() {
    let sim = SimEnv::new(10);
    let groups = groups(&sim, &[&[100], &[200]]);
    let end = groups[1][0].end;
    for (durable, opens) in [(end, true), (Lsn(end.0 + 8), false)] {
        let mut config = config(FlushMode::Manual, &Fatals::default());
        config.needs.durable = durable;
        match Wal::create_or_open(&sim.crash(0).env(), config, groups[0][0].end) {
            Ok((wal, _)) => assert!(opens && wal.end() == end),
            Err(WalError::Corruption { whole, .. }) => assert!(!opens && whole == end),
            Err(other) => panic!("{other}"),
        }
    }
    // Whoever goes on without it gives no sequence again that was given.
    let mut config = config(FlushMode::Manual, &Fatals::default());
    config.needs.durable = Lsn(end.0 + 800);
    config.point_in_time = true;
    let (wal, log) = Wal::create_or_open(&sim.env(), config, Lsn(0)).expect("it goes on");
    assert_eq!(wal.end(), Lsn(end.0 + 800));
    assert_eq!(log.lost().expect("a part is lost").loss.from, end);
}

#[test]
fn damage_below_the_starting_point_hurts_nobody() {
    let sim = SimEnv::new(11);
    // The second record is a chain of two parts.
    let groups = groups(&sim, &[&[100, 9000], &[700, 900], &[20], &[30]]);
    let first_segment = Image::of(&sim);
    let straddling = (PAGE..).step_by(PAGE).find(|at| {
        let first = groups[1][0].start.0.to_le_bytes();
        first_segment.last()[at + 24..at + 32] == first
    });
    let straddling = straddling.expect("a block begins there");
    // The same blocks in the last segment, and in one that others follow.
    let log = open_manual(&sim);
    let later = commit(&log.wal, b"in the next segment");
    log.wal.flush_now().unwrap();
    drop(log);
    let older_segment = Image::of(&sim);
    let from = groups[1][1].end;
    let needed = groups[2..].concat();
    let open_at = |disk: &SimEnv, from| open_from(disk, FlushMode::Manual, from);
    let blocks_end = used(&first_segment.files[0].1) - 2 * PAGE;
    for (image, behind) in [(&first_segment, vec![]), (&older_segment, vec![later])] {
        let expected = [needed.clone(), behind].concat();
        for byte in (PAGE..blocks_end).step_by(13) {
            let bad = image.disk(0, |bytes| bytes[byte] ^= 0x11);
            let log = open_at(&bad, from).unwrap_or_else(|e| panic!("byte {byte}: {e}"));
            assert_eq!(log.records, expected, "byte {byte}");
            drop(log);
            assert_eq!(open_at(&bad, from).expect("again").records, expected);
        }
        // All of it at once.
        let bad = image.disk(0, |bytes| bytes[PAGE..blocks_end].fill(0x77));
        assert_eq!(open_at(&bad, from).expect("opens").records, expected);
        // A block of which a part is needed is needed.
        for from in [groups[1][0].end, groups[0][0].start] {
            let bad = image.disk(0, |bytes| bytes[straddling + 30] ^= 1);
            let error = open_at(&bad, from).err();
            assert!(
                matches!(error, Some(WalError::Corruption { .. })),
                "{error:?}"
            );
        }
    }
}

/// Wherever else there is damage, and whenever it is met: what is named is the first, and what would be lost is all
/// behind it.
#[test]
fn of_several_damaged_places_the_first_is_named() {
    let sim = SimEnv::new(12);
    let log = open_manual(&sim);
    let records: Vec<Owned> = (0..40)
        .map(|_| {
            let record = commit(&log.wal, &[3; 4000]);
            log.wal.flush_now().unwrap();
            record
        })
        .collect();
    drop(log);
    let image = Image::of(&sim);
    let last = image.files.len() - 1;
    assert!(last >= 3);
    // Each record takes two pages; this is in the payload of the second.
    let (first_place, whole) = (3 * PAGE + 300, records[1].start);
    for (other, byte) in [
        (1, 20),
        (1, 3 * PAGE),
        (2, PAGE + 300),
        (last, 20),
        (last, PAGE),
    ] {
        let bad = image.disk(other, |bytes| bytes[byte] ^= 1);
        let path = &image.files[0].0;
        let mut bytes = bad.fs.contents(path).unwrap();
        bytes[first_place] ^= 1;
        let file = bad.env().fs.open(path, OpenMode::ReadWrite).unwrap();
        file.write_all_at(&bytes, 0).unwrap();
        match try_open(&bad).err() {
            Some(WalError::Corruption {
                file,
                whole: to,
                loss,
                ..
            }) => {
                assert_eq!((&file, to), (path, whole), "{other} {byte}");
                assert_eq!(loss.expect("it is told").from, whole);
            }
            error => panic!("{other} {byte}: {error:?}"),
        }
    }
}

/// A crash leaves blocks behind the end of the log whose LSNs are given again in the next life.
/// When their file is recycled, such a block can lie exactly where the reader expects the next one,
/// with the LSN that it expects.
#[test]
fn stale_blocks_of_a_recycled_segment_stay_dead() {
    let sim = SimEnv::new(9);
    // Three blocks of one group; the first of them is lost.
    let groups = groups(&sim, &[&[100], &[7000, 7000, 7000, 7000]]);
    let lost = 2 * PAGE;
    let stale_at = 6 * PAGE;
    let image = Image::of(&sim);
    let torn = image.disk(0, |bytes| bytes[lost..lost + 512].fill(0));
    let log = open_manual(&torn);
    assert_eq!(log.records, groups[0]);
    let stale_first = groups[1][2].start;
    // The old segment becomes a spare, and the next to be used.
    log.wal.release_below(log.wal.end()).unwrap();
    assert_eq!(segments(&torn).len(), 1);
    // Fill the new segment with small groups: many pages, few LSNs.
    while log.wal.stats().segments == 0 {
        commit(&log.wal, b"small");
        log.wal.flush_now().unwrap();
    }
    // One block of one page is there now; a second one ends where the stale one begins.
    let filler = stale_first.0 - log.wal.end().0;
    let first = commit(&log.wal, &[5; 7000]);
    let rest = filler - (first.end.0 - first.start.0);
    commit(&log.wal, &vec![5; rest as usize - 7]);
    log.wal.flush_now().unwrap();
    assert_eq!(log.wal.end(), stale_first);
    let current = Image::of(&torn);
    assert_eq!(
        current.last()[stale_at..stale_at + 4],
        *b"EWLB",
        "the stale block is in place"
    );
    let from = log.wal.end();
    drop(log);
    let log = open_from(&torn, FlushMode::Manual, from).unwrap();
    assert_eq!((log.records.len(), log.recovered.end), (0, from));
}

/// Random damage of every sort: either an error, or a prefix of what was written.
#[test]
fn random_damage_never_panics_and_never_invents_records() {
    let sim = SimEnv::new(8);
    let log = open_manual(&sim);
    let mut rng = SimRng::new(8);
    let mut expected = Vec::new();
    for _ in 0..60 {
        expected.push(append_random(&log.wal, &mut rng).unwrap());
        if rng.chance(40) {
            log.wal.flush_now().unwrap();
        }
    }
    log.wal.flush_now().unwrap();
    drop(log);
    let image = Image::of(&sim);
    let (mut opened, mut refused) = (0, 0);
    for round in 0..300 {
        let index = rng.below(image.files.len() as u64) as usize;
        let seed = rng.next_u64();
        let bad = image.disk(index, |bytes| damage(bytes, &mut SimRng::new(seed)));
        match try_open(&bad) {
            Ok(log) => {
                let n = log.records.len();
                assert_eq!(log.records, expected[..n], "round {round}");
                opened += 1;
            }
            Err(WalError::Corruption { .. }) => refused += 1,
            Err(other) => panic!("round {round}: {other}"),
        }
    }
    assert!(
        opened > 20 && refused > 20,
        "{opened} opened, {refused} refused"
    );
}

/// Flips bits, overwrites ranges, swaps or repeats pages, cuts the file.
fn damage(bytes: &mut Vec<u8>, rng: &mut SimRng) {
    let end = used(bytes);
    let at = rng.below(end as u64) as usize;
    match rng.below(5) {
        0 => bytes[at] ^= 1 << rng.below(8),
        1 => {
            let to = (at + rng.below(3000) as usize).min(end);
            rng.fill(&mut bytes[at..to]);
        }
        2 => {
            let other = rng.below((end / PAGE) as u64) as usize * PAGE;
            let page = at / PAGE * PAGE;
            bytes.copy_within(page..page + PAGE, other);
        }
        3 => bytes.truncate(at),
        _ => {
            let to = (at + rng.below(20_000) as usize).min(end);
            bytes[at..to].fill(0);
        }
    }
}

/// What opening says of a disk, as (file, message with the loss).
fn refusal(sim: &SimEnv) -> (PathBuf, String) {
    match try_open(sim).err() {
        Some(error @ WalError::Corruption { .. }) => {
            let message = error.to_string();
            let WalError::Corruption { file, .. } = error else {
                unreachable!()
            };
            (file, message)
        }
        other => panic!("{other:?}"),
    }
}

/// What `esker check` would be told of a disk.
fn shown(sim: &SimEnv) -> Vec<String> {
    #[derive(Default)]
    struct Told(Vec<String>);
    impl Visitor for Told {
        type Error = WalError;
        fn wants_payloads(&self) -> bool {
            true
        }
        fn segment(&mut self, _: &SegmentView<'_>) -> Result<(), WalError> {
            Ok(())
        }
        fn block(&mut self, _: &BlockView<'_>) -> Result<(), WalError> {
            Ok(())
        }
        fn part(&mut self, _: &PartView<'_>) -> Result<(), WalError> {
            Ok(())
        }
        fn damage(&mut self, damage: &DamageView<'_>) -> Result<(), WalError> {
            let file = damage.path.display();
            self.0.push(format!("{file}: {}", damage.what));
            Ok(())
        }
        fn end(&mut self, _: Lsn, _: bool) -> Result<(), WalError> {
            Ok(())
        }
    }
    let mut told = Told::default();
    let view = LogView::open(sim.env().fs, Path::new(DIR)).unwrap();
    view.walk(Lsn(0), &mut told).unwrap();
    told.0
}

/// Logs that have lost their newest segment must have been written by at least this many lives.
fn log_of_several_segments(sim: &SimEnv, lives: usize) -> Vec<Owned> {
    let mut records = Vec::new();
    for life in 0..lives {
        let log = open_manual(sim);
        for size in 0..40 {
            records.push(commit(&log.wal, &[life as u8; 3000][..2000 + size]));
            log.wal.flush_now().unwrap();
        }
        if life % 2 == 1 {
            log.wal.shutdown().unwrap();
        }
    }
    records
}

#[test]
fn a_missing_segment_is_named_wherever_it_was() {
    for lives in 1..4 {
        let sim = SimEnv::new(31);
        let records = log_of_several_segments(&sim, lives);
        let image = Image::of(&sim);
        assert!(image.files.len() > lives);
        assert_eq!(try_open(&image.disk(0, |_| {})).unwrap().records, records);
        for missing in 1..image.files.len() {
            let (path, _) = &image.files[missing];
            let broken = image.disk(0, |_| {});
            broken.env().fs.remove_file(path).unwrap();
            let told = shown(&broken);
            let (file, message) = refusal(&broken);
            assert_eq!(&file, path, "{message}");
            assert!(message.contains("the file is missing"), "{message}");
            assert!(message.contains("would be lost"), "{message}");
            assert!(
                told.iter()
                    .any(|told| told.contains(&path.display().to_string())),
                "{told:?}"
            );
        }
    }
}

#[test]
fn a_segment_without_acknowledged_records_may_be_missing() {
    let sim = SimEnv::new(32);
    let mut records = log_of_several_segments(&sim, 2);
    for _ in 0..3 {
        let log = open_manual(&sim);
        assert_eq!(log.records, records);
        drop(log);
        let newest = segments(&sim).pop().unwrap();
        sim.env().fs.remove_file(&newest).unwrap();
    }
    // One that took the place of an empty one is known, too.
    drop(open_manual(&sim));
    let log = open_manual(&sim);
    records.push(commit(&log.wal, b"acknowledged"));
    log.wal.flush_now().unwrap();
    drop(log);
    let newest = segments(&sim).pop().unwrap();
    sim.env().fs.remove_file(&newest).unwrap();
    assert_eq!(refusal(&sim).0, newest);
    assert_eq!(shown(&sim).len(), 1);
}

#[test]
fn a_segment_that_was_cut_short_is_damage_at_any_length() {
    let sim = SimEnv::new(33);
    log_of_several_segments(&sim, 1);
    let image = Image::of(&sim);
    let newest = image.files.len() - 1;
    let whole = image.last().len();
    for len in (0..whole)
        .step_by(PAGE / 2)
        .chain([1, 63, 64, 4097, whole - 1])
    {
        let cut = image.disk(newest, |bytes| bytes.truncate(len));
        let told = shown(&cut);
        let (file, message) = refusal(&cut);
        assert_eq!(file, image.files[newest].0, "{len}: {message}");
        assert!(message.contains("short"), "{len}: {message}");
        assert!(message.contains("would be lost"), "{len}: {message}");
        assert_eq!(told.len(), 1, "{len}: {told:?}");
    }
    // Behind what the next one continues, nothing can be missing.
    let harmless = image.disk(0, |bytes| bytes.truncate(used(bytes)));
    assert!(try_open(&harmless).is_ok());
}
