//! Following the log while it is written: everything once, in order, durable only, across segments, restarts and gaps.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use esker_vfs::sim::{SimEnv, SimRng};
use esker_wal::{
    Draft, FlushMode, Lsn, Progress, Record, RecordKind, Tail, Wal, WalConfig, WalError, Wanted,
};

use crate::common::{
    DIR, Fatals, Owned, append_random, commit, config, open, open_manual, segments,
};

/// Reads on until the tail is caught up.
fn read_all(tail: &mut Tail) -> Result<Vec<Owned>, WalError> {
    let mut records = Vec::new();
    let mut sink = |record: Record<'_>| {
        records.push(Owned::from(record));
        Ok::<(), WalError>(())
    };
    while tail.next(&mut sink)? == Progress::More {}
    Ok(records)
}

fn with_attachment(wal: &Wal, payload: &[u8]) -> Lsn {
    let pieces = [payload];
    let draft = Draft::new(RecordKind::Commit, &[1], &pieces).with_attachment();
    wal.append(&draft).expect("there is room").end
}

/// A config whose log is pinned from its beginning.
fn pinned() -> WalConfig {
    let mut config = config(FlushMode::Manual, &Fatals::default());
    config.pins = vec!["tail"];
    config
}

#[test]
fn a_tail_follows_over_segments_and_sees_only_what_is_durable() {
    let sim = SimEnv::new(1);
    let mut rng = SimRng::new(1);
    let log = open_manual(&sim);
    let mut tail = log.wal.tail(Lsn(0), Wanted::Everything).unwrap();
    assert_eq!(read_all(&mut tail).unwrap(), []);
    let (mut written, mut read) = (Vec::new(), Vec::new());
    for _ in 0..500 {
        written.push(append_random(&log.wal, &mut rng).unwrap());
        if rng.chance(30) {
            log.wal.flush_now().unwrap();
        }
        if rng.chance(20) {
            read.extend(read_all(&mut tail).unwrap());
            assert!(
                read.iter()
                    .all(|record: &Owned| record.end <= log.wal.durable())
            );
            // Large records have made room for themselves.
            let durable = |record: &&Owned| record.end <= log.wal.durable();
            let expected = written.iter().filter(durable).count();
            assert_eq!(read.len(), expected, "all that is durable");
        }
        if rng.chance(5) {
            log.wal.release_below(log.wal.durable()).unwrap();
        }
    }
    log.wal.flush_now().unwrap();
    read.extend(read_all(&mut tail).unwrap());
    assert_eq!(read, written);
    assert_eq!(tail.at(), log.wal.durable());
    assert!(log.wal.stats().segments > 5, "there were several segments");
    assert!(segments(&sim).len() < 4, "what was read was released");
}

#[test]
fn a_tail_begins_at_any_record() {
    let sim = SimEnv::new(2);
    let mut rng = SimRng::new(2);
    let log = open_manual(&sim);
    let mut written = Vec::new();
    for _ in 0..120 {
        written.push(append_random(&log.wal, &mut rng).unwrap());
        if rng.chance(20) {
            log.wal.flush_now().unwrap();
        }
    }
    log.wal.flush_now().unwrap();
    for (at, record) in written.iter().enumerate().step_by(7) {
        let mut tail = log.wal.tail(record.start, Wanted::Everything).unwrap();
        assert_eq!(read_all(&mut tail).unwrap(), written[at..]);
    }
    let mut tail = log.wal.tail(log.wal.end(), Wanted::Everything).unwrap();
    assert_eq!(read_all(&mut tail).unwrap(), []);
    let next = commit(&log.wal, b"next");
    log.wal.flush_now().unwrap();
    assert_eq!(read_all(&mut tail).unwrap(), [next]);
}

/// Chains of others begin in blocks that are passed over, and end in blocks that are read.
#[test]
fn who_wants_attachments_gets_them_and_nothing_else() {
    let sim = SimEnv::new(3);
    let mut rng = SimRng::new(3);
    let log = open_manual(&sim);
    let mut expected = Vec::new();
    let mut tail = log.wal.tail(Lsn(0), Wanted::Attachments).unwrap();
    let mut read = Vec::new();
    for _ in 0..300 {
        let bytes = if rng.chance(10) { 100_000 } else { 500 };
        let payload = vec![rng.below(256) as u8; 1 + rng.below(bytes) as usize];
        if rng.chance(30) {
            expected.push((with_attachment(&log.wal, &payload), payload));
        } else {
            commit(&log.wal, &payload);
        }
        if rng.chance(25) {
            log.wal.flush_now().unwrap();
            read.extend(read_all(&mut tail).unwrap());
        }
    }
    log.wal.flush_now().unwrap();
    read.extend(read_all(&mut tail).unwrap());
    let read: Vec<_> = read.into_iter().map(|r| (r.end, r.payload)).collect();
    assert_eq!(read, expected);
}

#[test]
fn a_pin_keeps_the_log_and_is_shown() {
    let sim = SimEnv::new(4);
    let (wal, _) = Wal::create_or_open(&sim.env(), pinned(), Lsn(0)).unwrap();
    let fill = || {
        for _ in 0..8 {
            commit(&wal, &[1; 20_000]);
            wal.flush_now().unwrap();
        }
    };
    while wal.stats().segments < 4 {
        fill();
    }
    let needed = wal.durable();
    wal.release_below(needed).unwrap();
    let space = wal.space();
    assert_eq!(space.first, Lsn::FIRST);
    let pin = space.pin.expect("it keeps the log");
    assert_eq!((pin.name, pin.from), ("tail", Lsn(0)));
    assert_eq!(space.pinned_bytes, needed.0 - Lsn::FIRST.0);
    // Moved, it lets go at once of what was released before.
    let middle = Lsn(needed.0 / 2);
    wal.pin("tail", middle).unwrap();
    let space = wal.space();
    assert!(space.first > Lsn::FIRST && space.first <= middle);
    assert_eq!(space.pinned_bytes, needed.0 - middle.0);
    assert!(matches!(
        wal.pin("late", Lsn::FIRST),
        Err(WalError::Missing { .. })
    ));
    assert!(matches!(
        wal.tail(Lsn::FIRST, Wanted::Everything),
        Err(WalError::Missing { .. })
    ));
    wal.unpin("tail").unwrap();
    let space = wal.space();
    assert_eq!(
        (space.pin, space.pinned_bytes, space.segments),
        (None, 0, 1)
    );
}

/// The engine needs nothing of the log, and a follower has not read it: over a crash it is still there, without what
/// was torn.
#[test]
fn after_a_crash_a_tail_goes_on_where_it_was() {
    for seed in 0..20 {
        let sim = SimEnv::new(seed);
        let mut rng = SimRng::new(seed);
        let (wal, _) = Wal::create_or_open(&sim.env(), pinned(), Lsn(0)).unwrap();
        let mut written = Vec::new();
        for _ in 0..60 {
            written.push(append_random(&wal, &mut rng).unwrap());
            if rng.chance(20) {
                wal.flush_now().unwrap();
            }
        }
        let durable = wal.durable();
        wal.release_below(durable).unwrap();
        let middle = written[written.len() / 3].start;
        // Power goes while the rest is written.
        sim.fs.halt_at(sim.fs.ops() + 1 + rng.below(3));
        let _ = wal.flush_now();
        let sim = sim.crash(seed);
        let (wal, found) = Wal::create_or_open(&sim.env(), pinned(), durable).unwrap();
        let end = found.end();
        assert!(end >= durable);
        written.retain(|record| record.end <= end);
        written.push(commit(&wal, b"behind"));
        wal.flush_now().unwrap();
        let mut tail = wal.tail(middle, Wanted::Everything).unwrap();
        let read = read_all(&mut tail).unwrap();
        assert_eq!(read, written[20..], "seed {seed}");
    }
}

#[test]
fn a_tail_passes_a_gap_and_tells_of_damage() {
    let sim = SimEnv::new(5);
    let log = open_manual(&sim);
    let mut written = Vec::new();
    while segments(&sim).len() < 4 {
        written.push(commit(&log.wal, &[3; 5000]));
        log.wal.flush_now().unwrap();
    }
    let mut tail = log.wal.tail(Lsn(0), Wanted::Everything).unwrap();
    // A byte of a payload in the second segment.
    let path = segments(&sim)[1].clone();
    let file = sim
        .env()
        .fs
        .open(&path, esker_vfs::OpenMode::ReadWrite)
        .unwrap();
    file.write_all_at(&[0xEE], 4096 + 300).unwrap();
    file.sync_all().unwrap();
    let damage = read_all(&mut tail).unwrap_err();
    let WalError::Corruption { file, whole, .. } = damage else {
        panic!("{damage}");
    };
    assert_eq!(file, path);
    drop((tail, log));
    // Given up from there on, the log goes on behind a gap.
    let mut forced = pinned();
    forced.point_in_time = true;
    let (wal, found) = Wal::create_or_open(&sim.env(), forced, Lsn(0)).unwrap();
    let next = commit(&wal, b"behind the gap");
    assert!(found.lost().is_some() && next.start > whole);
    wal.flush_now().unwrap();
    written.retain(|record| record.end <= whole);
    written.push(next);
    let mut tail = wal.tail(Lsn(0), Wanted::Everything).unwrap();
    assert_eq!(read_all(&mut tail).unwrap(), written);
}

/// The real thing: many appenders, the flush daemon, and one that sleeps until there is more.
/// How long a follower waits before it looks whether anybody still appends.
const PAUSE: Duration = Duration::from_millis(10);

#[test]
fn a_tail_follows_the_daemon() {
    let sim = SimEnv::new(6);
    let log = open(&sim, FlushMode::Daemon);
    let wal = &log.wal;
    let done = AtomicBool::new(false);
    let mut tail = wal.tail(Lsn(0), Wanted::Everything).unwrap();
    let (mut written, read) = std::thread::scope(|scope| {
        let follower = scope.spawn(|| {
            let mut read = Vec::new();
            loop {
                let is_last = done.load(Ordering::SeqCst);
                read.extend(read_all(&mut tail).unwrap());
                assert!(tail.at() <= wal.durable());
                wal.release_below(tail.at()).unwrap();
                if is_last {
                    return read;
                }
                // `done` may be set between the look at it and the last record.
                tail.wait().block_for(PAUSE).unwrap();
            }
        });
        let appenders: Vec<_> = (0..4)
            .map(|seed| {
                scope.spawn(move || {
                    let mut rng = SimRng::new(seed);
                    let append = |_| append_random(wal, &mut rng).unwrap();
                    (0..200).map(append).collect::<Vec<Owned>>()
                })
            })
            .collect();
        let written = appenders
            .into_iter()
            .flat_map(|thread| thread.join().unwrap());
        let written: Vec<Owned> = written.collect();
        wal.flush_now().unwrap();
        done.store(true, Ordering::SeqCst);
        (written, follower.join().unwrap())
    });
    let mut read = read;
    read.extend(read_all(&mut tail).unwrap());
    written.sort_by_key(|record| record.start);
    assert_eq!(read, written);
    assert!(segments(&sim).len() <= 3, "in {DIR}");
    assert_eq!(log.fatals.count(), 0);
}
