//! Going on without what is behind damage: only when told, exactly up to the damage, and nothing is deleted.

use std::path::{Path, PathBuf};

use crate::common::{
    CLUSTER, DIR, Fatals, Opened, Owned, append_random, commit, config, open_manual, segments,
};
use esker_vfs::OpenMode;
use esker_vfs::sim::{SimEnv, SimRng};
use esker_wal::{
    BlockSummary, BlockView, DamageView, Draft, FlushMode, LogView, Lost, Lsn, PartView, Record,
    RecordKind, SegmentView, Visitor, Wal, WalError,
};

const PAGE: usize = 4096;
const RECORDS: usize = 240;

struct Forced {
    wal: Wal,
    records: Vec<Owned>,
    lost: Option<Lost>,
}

fn open_forced(sim: &SimEnv, from: Lsn, at_least: Lsn) -> Result<Forced, WalError> {
    let mut config = config(FlushMode::Manual, &Fatals::default());
    assert_eq!(config.cluster, CLUSTER);
    config.needs.at_least = at_least;
    config.point_in_time = true;
    let (wal, log) = Wal::create_or_open(&sim.env(), config, from)?;
    let mut records = Vec::new();
    let mut sink = |record: Record<'_>| {
        records.push(Owned::from(record));
        Ok::<(), WalError>(())
    };
    log.replay(&mut sink)?;
    let lost = log.lost().cloned();
    Ok(Forced { wal, records, lost })
}

fn try_open(sim: &SimEnv) -> Result<Opened, WalError> {
    crate::common::open_from(sim, FlushMode::Manual, Lsn(0))
}

/// A log of many segments and its records; cleanly ended.
fn written(sim: &SimEnv) -> Vec<Owned> {
    let mut rng = SimRng::new(1);
    let log = open_manual(sim);
    let mut records = Vec::new();
    for _ in 0..RECORDS {
        records.push(append_random(&log.wal, &mut rng).expect("room"));
        if rng.chance(30) {
            log.wal.flush_now().expect("the disk works");
        }
    }
    log.wal.shutdown().expect("a clean end");
    records
}

/// Changes bytes of a file, durably.
fn change(sim: &SimEnv, path: &Path, change: impl FnOnce(&mut Vec<u8>)) {
    let mut bytes = sim.fs.contents(path).expect("it is there");
    change(&mut bytes);
    let file = sim.env().fs.open(path, OpenMode::ReadWrite).expect("opens");
    file.set_len(bytes.len() as u64).expect("the disk works");
    file.write_all_at(&bytes, 0).expect("the disk works");
    file.sync_all().expect("the disk works");
}

/// All files below `lost`, with their bytes.
fn lost_files(sim: &SimEnv) -> Vec<(String, Vec<u8>)> {
    let lost = Path::new(DIR).join("lost");
    let fs = sim.env().fs;
    let mut found = Vec::new();
    for event in fs.list(&lost).unwrap_or_default() {
        for name in fs.list(&lost.join(&event)).expect("it is a directory") {
            let bytes = sim.fs.contents(&lost.join(&event).join(&name));
            found.push((name, bytes.expect("it is a file")));
        }
    }
    found
}

/// Which part of a segment is damaged.
#[derive(Debug, Clone, Copy)]
enum Place {
    SegmentHeader,
    BlockHeader(usize),
    Payload(usize),
    Missing,
    Truncated,
}

/// Offsets of the blocks with records of a segment image.
fn blocks(bytes: &[u8]) -> Vec<usize> {
    let is_block =
        |at: &usize| bytes[*at..*at + 4] == *b"EWLB" && bytes[*at + 16..*at + 20] != [0; 4];
    (PAGE..bytes.len()).step_by(PAGE).filter(is_block).collect()
}

/// Damages a segment. Where the first block begins that is hurt; `None` for the start of the segment.
fn hurt(sim: &SimEnv, path: &Path, place: Place) -> Option<u64> {
    let at = blocks(&sim.fs.contents(path).expect("it is there"));
    let first_lsn = |block: usize| {
        let bytes = sim.fs.contents(path).expect("it is there");
        u64::from_le_bytes(bytes[at[block] + 24..at[block] + 32].try_into().expect("8"))
    };
    let lsn = match place {
        Place::BlockHeader(n) | Place::Payload(n) => Some(first_lsn(n.min(at.len() - 1))),
        Place::Truncated => Some(first_lsn(at.len() - 1)),
        _ => None,
    };
    match place {
        Place::Missing => {
            sim.env().fs.remove_file(path).expect("the disk works");
            sim.env()
                .fs
                .sync_dir(Path::new(DIR))
                .expect("the disk works");
        }
        _ => change(sim, path, |bytes| match place {
            Place::SegmentHeader => bytes[20] ^= 1,
            Place::BlockHeader(n) => bytes[at[n.min(at.len() - 1)] + 100] ^= 1,
            Place::Payload(n) => bytes[at[n.min(at.len() - 1)] + 257] ^= 1,
            _ => bytes.truncate(at[at.len() - 1] + 100),
        }),
    }
    lsn
}

#[test]
fn damage_of_every_kind_stops_the_start_and_force_goes_on_before_it() {
    use Place::*;
    let whole = SimEnv::new(1);
    let all = written(&whole);
    let files = segments(&whole);
    let last = files.len() - 1;
    assert!(last > 6);
    // The last segment but the one that ends cleanly, and others.
    for index in [1, 2, last / 2, last - 1, last] {
        for place in [
            SegmentHeader,
            BlockHeader(0),
            BlockHeader(1),
            Payload(0),
            Payload(2),
            Missing,
            Truncated,
        ] {
            let sim = whole.crash(0);
            let context = format!("{place:?} of segment {index}");
            let start = u64::from_str_radix(
                &files[index].file_stem().expect("named").to_string_lossy(),
                16,
            );
            let hurt_at = hurt(&sim, &files[index], place);
            let whole_to = Lsn(hurt_at.unwrap_or(start.expect("a number")));
            let before: Vec<(PathBuf, Vec<u8>)> = segments(&sim)
                .into_iter()
                .map(|path| (path.clone(), sim.fs.contents(&path).expect("it is there")))
                .collect();

            let Some(WalError::Corruption {
                whole, loss, file, ..
            }) = try_open(&sim).err()
            else {
                panic!("{context}: it opened");
            };
            assert_eq!(whole, whole_to, "{context}");
            let loss = loss.expect("it is told");
            // Without its header, nobody knows how far the last segment goes.
            let unknown = index == last && matches!(place, SegmentHeader);
            assert!(
                loss.to >= whole && (loss.to <= all[RECORDS - 1].end || unknown),
                "{context}: {loss}"
            );
            assert_eq!(file, files[index], "{context}");

            let forced =
                open_forced(&sim, Lsn(0), Lsn(0)).unwrap_or_else(|e| panic!("{context}: {e}"));
            let kept = all.iter().take_while(|r| r.end <= whole_to).count();
            assert_eq!(forced.records, all[..kept], "{context}");
            let lost = forced.lost.expect("something is lost");
            assert_eq!(lost.loss.from, whole_to, "{context}");
            assert!(forced.wal.end() >= lost.loss.to && forced.wal.end() >= loss.to);
            // Everything that was there still is, in place or aside.
            let aside = lost_files(&sim);
            for (path, bytes) in before {
                let name = path
                    .file_name()
                    .expect("named")
                    .to_string_lossy()
                    .into_owned();
                let start =
                    Lsn(u64::from_str_radix(name.trim_end_matches(".wal"), 16).expect("a number"));
                let is_empty = blocks(&bytes).is_empty();
                let in_place =
                    start < whole_to && sim.fs.contents(&path).is_ok_and(|now| now == bytes);
                let is_aside = aside.contains(&(name, bytes));
                assert!(in_place || is_aside || is_empty, "{context}: {path:?}");
                assert!(
                    is_aside || start < whole_to || is_empty,
                    "{context}: {path:?}"
                );
            }
            // Life goes on behind the gap, for good.
            let mut expected = forced.records;
            expected.push(commit(&forced.wal, b"after"));
            forced.wal.flush_now().expect("the disk works");
            drop(forced.wal);
            let again = try_open(&sim.crash(0)).unwrap_or_else(|e| panic!("{context}: {e}"));
            assert_eq!(again.records, expected, "{context}");
            let twice = open_forced(&sim, Lsn(0), Lsn(0)).expect("it is whole");
            assert_eq!((twice.records, twice.lost), (expected, None), "{context}");
        }
    }
}

#[test]
fn a_crash_while_the_damaged_part_is_put_aside_changes_nothing() {
    let whole = SimEnv::new(2);
    let all = written(&whole);
    let files = segments(&whole);
    let at_least = Lsn(all[RECORDS - 1].end.0 + 80_000);
    let mut survived = 0;
    for halt in 1..80 {
        let mut sim = whole.crash(halt);
        let hurt_at = Lsn(hurt(&sim, &files[3], Place::Payload(1)).expect("a block"));
        let kept = all.iter().take_while(|r| r.end <= hurt_at).count();
        sim.fs.halt_at(sim.fs.ops() + halt);
        survived += u64::from(open_forced(&sim, Lsn(0), at_least).is_ok());
        sim = sim.crash(halt * 7);
        // Either still damaged, or ended with the gap; never something between.
        match try_open(&sim) {
            Ok(opened) => {
                assert_eq!(opened.records, all[..kept], "{halt}");
                assert!(opened.wal.end() >= at_least, "{halt}");
            }
            Err(WalError::Corruption { whole, .. }) => assert_eq!(whole, hurt_at, "{halt}"),
            Err(error) => panic!("{halt}: {error}"),
        }
        let forced = open_forced(&sim, Lsn(0), at_least).expect("forced");
        assert_eq!(forced.records, all[..kept], "{halt}");
        assert!(forced.wal.end() >= at_least, "{halt}");
        commit(&forced.wal, b"after");
        forced.wal.flush_now().expect("the disk works");
        drop(forced);
        let again = try_open(&sim).expect("it is whole");
        assert_eq!(again.records.len(), kept + 1, "{halt}");
        let aside = lost_files(&sim);
        let is_aside = |path: &PathBuf| aside.iter().any(|(name, _)| path.ends_with(name));
        assert!(files[3..].iter().all(is_aside), "{halt}");
    }
    assert!((1..70).contains(&survived), "{survived}");
}

#[test]
fn an_intact_log_is_opened_as_ever() {
    let sim = SimEnv::new(3);
    let all = written(&sim);
    let forced = open_forced(&sim, Lsn(0), Lsn(1 << 40)).expect("it opens");
    assert_eq!((forced.records, forced.lost), (all.clone(), None));
    assert_eq!(forced.wal.end(), all[RECORDS - 1].end);
    assert!(lost_files(&sim).is_empty());
}

#[test]
fn damage_that_nobody_needs_to_read_is_no_reason_to_end_the_log() {
    let sim = SimEnv::new(4);
    let log = open_manual(&sim);
    let mut all = Vec::new();
    for tree in 0..6 {
        let place = log
            .wal
            .append(&Draft::new(RecordKind::Commit, &[tree], &[&[7; 100]]));
        all.push(place.expect("room"));
        log.wal.flush_now().expect("the disk works");
    }
    log.wal.shutdown().expect("a clean end");
    drop(log);
    hurt(&sim, &segments(&sim)[0], Place::Payload(2));
    let not_tree_2 = |block: &BlockSummary<'_>| block.trees != Some(&[2][..]);
    let mut config = config(FlushMode::Manual, &Fatals::default());
    config.needs.wants_block = Box::new(not_tree_2);
    config.point_in_time = true;
    let (_wal, log) = Wal::create_or_open(&sim.env(), config, Lsn(0)).expect("it opens");
    assert_eq!((log.lost(), log.end()), (None, all[5].end));
}

/// Counts what a walk shows.
#[derive(Default)]
struct Seen {
    segments: usize,
    dead: usize,
    blocks: usize,
    ends: Vec<Lsn>,
    damage: Vec<(PathBuf, Lsn, Option<Lsn>)>,
    end: Option<(Lsn, bool)>,
}

impl Visitor for Seen {
    type Error = WalError;

    fn wants_payloads(&self) -> bool {
        true
    }

    fn segment(&mut self, segment: &SegmentView<'_>) -> Result<(), WalError> {
        self.segments += 1;
        self.dead += usize::from(segment.dead);
        Ok(())
    }

    fn block(&mut self, _: &BlockView<'_>) -> Result<(), WalError> {
        self.blocks += 1;
        Ok(())
    }

    fn part(&mut self, part: &PartView<'_>) -> Result<(), WalError> {
        if part.kind.is_some() {
            self.ends.push(part.end);
        }
        Ok(())
    }

    fn damage(&mut self, damage: &DamageView<'_>) -> Result<(), WalError> {
        let place = (damage.path.to_path_buf(), damage.first, damage.resumes);
        self.damage.push(place);
        Ok(())
    }

    fn end(&mut self, end: Lsn, torn: bool) -> Result<(), WalError> {
        self.end = Some((end, torn));
        Ok(())
    }
}

fn walk(sim: &SimEnv) -> Seen {
    let mut seen = Seen::default();
    let view = LogView::open(sim.env().fs, Path::new(DIR)).expect("it can be listed");
    view.walk(Lsn(0), &mut seen).expect("it can be read");
    seen
}

#[test]
fn a_walk_shows_everything_and_goes_on_behind_damage() {
    use Place::*;
    let whole = SimEnv::new(5);
    let all = written(&whole);
    let files = segments(&whole);
    let seen = walk(&whole);
    assert_eq!(seen.segments, files.len());
    assert_eq!(seen.ends, all.iter().map(|r| r.end).collect::<Vec<_>>());
    assert_eq!(
        (seen.damage, seen.end),
        (vec![], Some((all[RECORDS - 1].end, false)))
    );
    for place in [
        SegmentHeader,
        BlockHeader(0),
        BlockHeader(1),
        Payload(1),
        Missing,
        Truncated,
    ] {
        let sim = whole.crash(0);
        hurt(&sim, &files[2], place);
        let seen = walk(&sim);
        let [(file, first, Some(resumes))] = &seen.damage[..] else {
            panic!("{place:?}: {:?}", seen.damage);
        };
        assert_eq!(*file, files[2], "{place:?}");
        assert_eq!(seen.end, Some((all[RECORDS - 1].end, false)), "{place:?}");
        // A record is shown unless a part of it is in the damaged place.
        let hurt = |r: &&Owned| r.end <= *first || r.end > *resumes;
        let expected: Vec<Lsn> = all.iter().filter(hurt).map(|r| r.end).collect();
        assert_eq!(seen.ends, expected, "{place:?}");
        drop(open_forced(&sim, Lsn(0), Lsn(0)).expect("forced"));
        let after = walk(&sim);
        assert_eq!((after.damage, after.dead), (vec![], 0), "{place:?}");
    }
}
