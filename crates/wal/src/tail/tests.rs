//! A tail beside whoever writes, begins, releases and recycles segments, under many schedules of the threads (see
//! `buffer::sync`): real files on a simulated disk, segments of a few pages.

use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;

use esker_vfs::sim::SimEnv;
use shuttle::rand::{Rng, thread_rng};
use shuttle::thread;

use super::*;
use crate::buffer::sync::{AtomicBool, AtomicU64, yield_now};
use crate::config::{Sizes, WalConfig};
use crate::files::CurrentSegment;
use crate::flush::summarize;
use crate::format::{BLOCK_HEADER_BYTES, PAGE_BYTES, RecordKind, SegmentHeader, Summary};
use crate::recover::record::Record;

const SCHEDULES: usize = 400;
const GROUPS: u64 = 9;
const CLUSTER: [u8; 16] = [3; 16];

/// Three blocks of a page and the one that closes the segment fit behind the header.
const SIZES: Sizes = Sizes {
    segment: 5 * PAGE_BYTES,
    buffer: 4096,
    block_payload: 1024,
    part: 512,
    held_back: 0,
};

struct Log {
    files: SegmentFiles,
    durable: AtomicU64,
    ended: AtomicBool,
}

impl Followed for Log {
    fn files(&self) -> &SegmentFiles {
        &self.files
    }

    fn cluster(&self) -> [u8; 16] {
        CLUSTER
    }

    fn durable(&self) -> Lsn {
        if thread_rng().gen_range(0..8) == 0 {
            Pace::any().pause();
        }
        Lsn(self.durable.load(SeqCst))
    }
}

fn begin_segment(log: &Log, start: Lsn, before: Option<&CurrentSegment>) -> CurrentSegment {
    if log.files.spare_count() == 0 {
        log.files.prepare_spare(false).unwrap();
    }
    let header = SegmentHeader {
        cluster: CLUSTER,
        start,
        id: start.0 * 7,
        file_bytes: SIZES.segment,
        after_open: before.is_none(),
        gap: None,
    };
    let before = before.map(|segment| segment.unclosed(start));
    log.files.begin_segment(header, before).unwrap()
}

/// How long a thread is held up at most between two steps. Else no schedule that is likely has one far behind another.
struct Pace(u32);

impl Pace {
    fn any() -> Self {
        Pace([0, 3, 30][thread_rng().gen_range(0..3)])
    }

    fn pause(&self) {
        for _ in 0..thread_rng().gen_range(0..=self.0) {
            yield_now();
        }
    }
}

/// What the flush does, group after group, each of one block with one or two records.
fn write(log: &Log, mut segment: CurrentSegment) {
    let pace = Pace::any();
    let mut at = Lsn::FIRST;
    for group in 0..GROUPS {
        pace.pause();
        if segment.offset + 2 * PAGE_BYTES > segment.file_bytes {
            segment = begin_segment(log, at, Some(&segment));
        }
        let payload: Vec<u8> = (0..1 + group % 2)
            .flat_map(|nth| record(group, nth))
            .collect();
        let mut summary = Summary::default();
        summarize(&mut summary, &payload, at);
        let header = BlockHeader {
            first: at,
            payload_bytes: payload.len() as u32,
            payload_crc: crc32c::crc32c(&payload),
            segment_id: segment.id,
            durable: log.durable(),
            summary,
        };
        let mut block = vec![0; PAGE_BYTES as usize];
        header.encode_into(&mut block);
        block[BLOCK_HEADER_BYTES..][..payload.len()].copy_from_slice(&payload);
        let file = segment.handles.take(&**log.files.fs()).unwrap();
        let handles = &segment.handles;
        handles
            .write_and_sync(file, &block, segment.offset)
            .unwrap();
        // Written, synced, and nobody has been told.
        yield_now();
        if segment.offset == PAGE_BYTES {
            log.files.close_predecessor(header.end()).unwrap();
        }
        segment.offset += PAGE_BYTES;
        at = header.end();
        log.durable.store(at.0, SeqCst);
    }
    log.ended.store(true, SeqCst);
}

/// A record that says which it is.
fn record(group: u64, nth: u64) -> Vec<u8> {
    let mut bytes = vec![
        8,
        0,
        0,
        0,
        RecordKind::Noop as u8,
        0,
        group as u8,
        nth as u8,
    ];
    bytes[0] = bytes.len() as u8;
    bytes
}

fn follow(log: &Log, mut tail: TailCursor, pinned: bool) {
    let pace = Pace::any();
    let mut seen = Vec::new();
    let mut last = Lsn::FIRST;
    loop {
        pace.pause();
        let ended = log.ended.load(SeqCst);
        let durable = log.durable();
        let mut each = |record: Record<'_>| -> Result<(), WalError> {
            assert_eq!(record.start, last, "in order, without a gap");
            last = record.end;
            seen.push((u64::from(record.payload[0]), u64::from(record.payload[1])));
            Ok(())
        };
        let progress = tail.next(log, &mut each).expect("what is needed is there");
        assert!(tail.at <= log.durable(), "nothing before it is durable");
        // What a consumer does when it has made its own state durable.
        if pinned {
            log.files.pin("tail", tail.at).expect("it is still there");
        }
        match progress {
            Progress::More => {}
            Progress::CaughtUp if ended => break,
            Progress::CaughtUp => {
                assert!(tail.at >= durable, "all that was durable before");
                yield_now();
            }
        }
    }
    let all = (0..GROUPS).flat_map(|group| (0..1 + group % 2).map(move |nth| (group, nth)));
    assert_eq!(seen, all.collect::<Vec<_>>(), "every record once");
}

fn race(pinned: bool) {
    let machine = SimEnv::new(1);
    let mut config = WalConfig::new("/wal");
    if pinned {
        config.pins = vec!["tail"];
    }
    let log = Arc::new(Log {
        files: SegmentFiles::open(&machine.env(), &config, &SIZES).unwrap(),
        durable: AtomicU64::new(Lsn::FIRST.0),
        ended: AtomicBool::new(false),
    });
    let first = begin_segment(&log, Lsn::FIRST, None);
    // Without a pin the tail keeps the segments by reading, from the first on.
    let opened = (!pinned).then(|| TailCursor::open(&*log, Lsn(0), Wanted::Everything).unwrap());
    let writer = Arc::clone(&log);
    let writer = thread::spawn(move || write(&writer, first));
    let releaser = Arc::clone(&log);
    let releaser = thread::spawn(move || {
        while !releaser.ended.load(SeqCst) {
            releaser.files.release_below(releaser.durable()).unwrap();
            yield_now();
        }
    });
    let follower = Arc::clone(&log);
    let follower = thread::spawn(move || {
        if pinned {
            Pace::any().pause();
        }
        let open = || TailCursor::open(&*follower, Lsn(0), Wanted::Everything);
        let tail = opened.unwrap_or_else(|| open().expect("all of it is pinned"));
        follow(&follower, tail, pinned);
    });
    for thread in [writer, releaser, follower] {
        thread.join().unwrap();
    }
    // It lets go in the end.
    log.files.release_below(log.durable()).unwrap();
    assert_eq!(log.files.space().segments, 1);
}

#[test]
fn a_tail_sees_every_record_once_whatever_is_released() {
    shuttle::check_random(|| race(true), SCHEDULES);
    shuttle::check_pct(|| race(true), SCHEDULES, 3);
}

#[test]
fn a_tail_keeps_what_it_reads_without_a_pin() {
    shuttle::check_random(|| race(false), SCHEDULES);
    shuttle::check_pct(|| race(false), SCHEDULES, 3);
}
