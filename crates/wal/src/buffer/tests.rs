//! The protocols of the variants under many schedules of their threads (see `sync`).
//!
//! The buffers are so small that a few records wrap around, fill the ring, exhaust the pool of slots
//! and the nodes of the release queue. Shuttle itself notices when nobody can go on.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicU64 as PlainAtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use super::sync::{Mutex, yield_now};
use super::*;
use crate::stats::{Counters, WaitCause};
use shuttle::thread;

const THREADS: u8 = 3;
const RECORDS: u8 = 3;
const SCHEDULES: usize = 1_500;

const SIZES: Sizes = Sizes {
    segment: 80_000,
    buffer: 128,
    block_payload: 64,
    part: 64,
    held_back: 0,
};

/// A buffer with a consumer that checks what it takes.
struct Tested {
    buffer: LogBuffer,
    taken: Mutex<Taken>,
}

struct Taken {
    upto: Lsn,
    /// Payloads by the start of their record.
    records: BTreeMap<u64, Vec<u8>>,
}

fn variant(kind: LogBufferKind, slots: usize) -> Variant {
    let slots = || Slots::with_pool(SIZES.buffer / 2, 1, slots);
    match kind {
        LogBufferKind::B => Variant::Baseline,
        LogBufferKind::C => Variant::Consolidated(slots()),
        LogBufferKind::D => Variant::Decoupled,
        LogBufferKind::Cd => Variant::Hybrid(slots()),
        LogBufferKind::Cdme => {
            Variant::Delegated(slots(), Box::new(ReleaseQueue::with_nodes(Lsn::FIRST, 2)))
        }
    }
}

impl Tested {
    fn new(kind: LogBufferKind, slots: usize, disk_room: u64) -> Arc<Self> {
        let pause: Pause = Box::new(yield_now);
        let start = Lsn::FIRST;
        let from = Beginning {
            start,
            segment_room: disk_room,
            spares: 0,
            spare_room: 0,
        };
        let contention = Contention::new(esker_vfs::Env::os().clock);
        Arc::new(Self {
            buffer: LogBuffer {
                ring: Ring::new(SIZES.buffer),
                admission: Admission::new(SIZES, &from, contention, Some(pause)),
                variant: variant(kind, slots),
            },
            taken: Mutex::new(Taken {
                upto: start,
                records: BTreeMap::new(),
            }),
        })
    }

    fn write(&self, start: Lsn, payload: &[u8]) {
        let len = 4 + payload.len() as u32;
        // SAFETY: called with places that the buffer has just given, once each.
        let mut writer = unsafe { RingWriter::new(&self.buffer.ring, start, len) };
        let (a, b) = payload.split_at(payload.len() / 2);
        writer.put(a);
        yield_now();
        writer.put(b);
        writer.finish();
    }

    /// Inserts; what to do about a lack of room is `wait`'s.
    fn insert(&self, payload: &[u8], wait: impl Fn(Blocked)) -> Result<Lsn, WalError> {
        let bytes = (4 + payload.len() as u64).next_multiple_of(8);
        loop {
            let start = self
                .buffer
                .insert(bytes, &|start| self.write(start, payload));
            if let Some(start) = start {
                return Ok(start);
            }
            if let Some(blocked) = self.buffer.blocked(bytes, false)? {
                wait(blocked);
            }
        }
    }

    /// Takes what is filled, record by record.
    fn consume(&self) {
        let Some(mut taken) = self.taken.try_lock() else {
            yield_now();
            return;
        };
        self.assert_no_hole(taken.upto);
        let mut took = false;
        while let Some(len) = self.buffer.filled(taken.upto) {
            let mut bytes = vec![0; len as usize];
            // SAFETY: the lock on `taken` makes this the only consumer; just seen filled.
            unsafe { self.buffer.ring.take(taken.upto, &mut bytes) };
            let exact = u32::from_le_bytes(bytes[..4].try_into().unwrap());
            let start = taken.upto.0;
            taken
                .records
                .insert(start, bytes[4..exact as usize].to_vec());
            taken.upto = taken.upto.plus(len);
            self.buffer.release(taken.upto, 0);
            took = true;
        }
        drop(taken);
        if !took {
            yield_now();
        }
    }

    /// Everything below the released LSN is filled.
    fn assert_no_hole(&self, mut at: Lsn) {
        if let Variant::Delegated(_, queue) = &self.buffer.variant {
            let released = queue.released();
            assert!(at <= released && released <= self.buffer.end());
            while at < released {
                at = at.plus(self.buffer.ring.published(at).expect("no hole"));
            }
        }
    }

    /// Consumes the rest and asserts that exactly these records have come, in order and whole.
    fn assert_taken(&self, mut expected: Vec<(Lsn, Vec<u8>)>) {
        self.consume();
        let taken = self.taken.lock();
        assert_eq!(taken.upto, self.buffer.end(), "everything was taken");
        match &self.buffer.variant {
            Variant::Baseline | Variant::Decoupled => {}
            Variant::Consolidated(slots)
            | Variant::Hybrid(slots)
            | Variant::Delegated(slots, _) => slots.assert_at_rest(),
        }
        expected.sort();
        let expected: Vec<_> = expected.into_iter().map(|(at, p)| (at.0, p)).collect();
        let seen: Vec<_> = taken.records.clone().into_iter().collect();
        assert_eq!(seen, expected);
    }
}

fn payload(thread: u8, record: u8) -> Vec<u8> {
    let len = 4 + 8 * ((thread + record) % 3);
    vec![16 * (1 + thread) + record; usize::from(len)]
}

/// Runs writers until all have returned; their answers.
fn write_all(
    tested: &Arc<Tested>,
    wait: fn(&Tested, Blocked),
) -> Vec<Result<(Lsn, Vec<u8>), WalError>> {
    let threads: Vec<_> = (0..THREADS)
        .map(|number| {
            let tested = tested.clone();
            thread::spawn(move || {
                let write = |record| {
                    let payload = payload(number, record);
                    let start = tested.insert(&payload, |blocked| wait(&tested, blocked))?;
                    Ok((start, payload))
                };
                (0..RECORDS).map(write).collect::<Vec<_>>()
            })
        })
        .collect();
    let answers: Vec<Vec<_>> = threads.into_iter().map(|t| t.join().unwrap()).collect();
    for answers in &answers {
        let starts: Vec<Lsn> = answers.iter().flatten().map(|(start, _)| *start).collect();
        assert!(starts.is_sorted(), "a thread's records keep their order");
    }
    answers.into_iter().flatten().collect()
}

fn consume_when_blocked(tested: &Tested, blocked: Blocked) {
    assert_eq!(blocked.why, Refused::Ring);
    tested.consume();
}

fn explore(test: impl Fn() + Send + Sync + 'static) {
    let test = Arc::new(test);
    let again = test.clone();
    shuttle::check_random(move || test(), SCHEDULES);
    shuttle::check_pct(move || again(), SCHEDULES / 3, 3);
}

/// No record is lost, torn or doubled, whoever is interrupted where: with a ring that wraps around
/// and fills up, and slots that are used again or run out. And threads do make groups.
fn keeps_every_record(kind: LogBufferKind, slots: usize) {
    let grouped = Arc::new(PlainAtomicU64::new(0));
    let total = grouped.clone();
    let busy = Arc::new(PlainAtomicU64::new(0));
    let waits = busy.clone();
    explore(move || {
        let tested = Tested::new(kind, slots, 1 << 40);
        let answers = write_all(&tested, consume_when_blocked);
        let records = answers.into_iter().map(Result::unwrap).collect();
        tested.assert_taken(records);
        grouped.fetch_add(tested.buffer.grouped(), Relaxed);
        let stats = Counters::default().get(tested.buffer.contention());
        busy.fetch_add(stats.waits(WaitCause::BufferBusy).count, Relaxed);
    });
    let makes_groups = !matches!(kind, LogBufferKind::B | LogBufferKind::D);
    assert_eq!(total.load(Relaxed) > 0, makes_groups, "{kind}");
    assert!(
        waits.load(Relaxed) > 0,
        "{kind}: waits for others are counted"
    );
}

#[test]
fn b_keeps_every_record() {
    keeps_every_record(LogBufferKind::B, 1);
}

#[test]
fn c_keeps_every_record() {
    keeps_every_record(LogBufferKind::C, 2);
}

#[test]
fn c_keeps_every_record_with_a_single_slot() {
    keeps_every_record(LogBufferKind::C, 1);
}

#[test]
fn d_keeps_every_record() {
    keeps_every_record(LogBufferKind::D, 1);
}

#[test]
fn cd_keeps_every_record() {
    keeps_every_record(LogBufferKind::Cd, 2);
}

#[test]
fn cd_keeps_every_record_with_a_single_slot() {
    keeps_every_record(LogBufferKind::Cd, 1);
}

#[test]
fn cdme_keeps_every_record() {
    keeps_every_record(LogBufferKind::Cdme, 2);
}

#[test]
fn cdme_keeps_every_record_with_a_single_slot() {
    keeps_every_record(LogBufferKind::Cdme, 1);
}

/// A log that fails while threads wait in groups, for the lock or for room: each gets its place or
/// the error, and what was given is filled.
#[test]
fn a_failure_reaches_everybody() {
    for kind in LogBufferKind::ALL {
        let refused = Arc::new(PlainAtomicU64::new(0));
        let total = refused.clone();
        explore(move || {
            let tested = Tested::new(kind, 1, 1 << 40);
            let failing = tested.clone();
            let failer = thread::spawn(move || failing.buffer.fail(&WalError::Closed));
            let answers = write_all(&tested, consume_when_blocked);
            failer.join().unwrap();
            let (kept, refusals): (Vec<_>, Vec<_>) =
                answers.into_iter().partition(|answer| answer.is_ok());
            let closed = |r: &Result<_, _>| matches!(r, Err(WalError::Closed));
            assert!(refusals.iter().all(closed));
            refused.fetch_add(refusals.len() as u64, Relaxed);
            tested.assert_taken(kept.into_iter().map(Result::unwrap).collect());
            assert!(matches!(
                tested.insert(b"late", |_| ()),
                Err(WalError::Closed)
            ));
        });
        assert!(total.load(Relaxed) > 0, "{kind}: some schedules fail early");
    }
}

/// Room on the disk for two records or so at first; the others wait until somebody adds a spare.
#[test]
fn no_more_is_admitted_than_the_disk_has_room_for() {
    fn wait(tested: &Tested, blocked: Blocked) {
        match blocked.why {
            Refused::Ring => tested.consume(),
            Refused::Disk { .. } => {
                tested.buffer.await_change(blocked);
            }
        }
    }
    for kind in LogBufferKind::ALL {
        explore(move || {
            let room = SIZES.room_for(40);
            let tested = Tested::new(kind, 2, room);
            let adding = tested.clone();
            let adder = thread::spawn(move || {
                assert!(adding.buffer.end() <= Lsn::FIRST.plus(40));
                adding.buffer.spare_added(SIZES.segment);
                adding.buffer.spare_added(SIZES.segment);
            });
            let answers = write_all(&tested, wait);
            adder.join().unwrap();
            tested.assert_taken(answers.into_iter().map(Result::unwrap).collect());
        });
    }
}

/// When room has gone, no reservation that began before still goes by what there was.
#[test]
fn a_lowered_limit_holds_at_once() {
    for kind in LogBufferKind::ALL {
        let refused = Arc::new(PlainAtomicU64::new(0));
        let total = refused.clone();
        explore(move || {
            let tested = Tested::new(kind, 2, SIZES.room_for(100));
            let inserting = tested.clone();
            let inserter = thread::spawn(move || {
                let fill = |start| inserting.write(start, &[1; 12]);
                (0..3)
                    .filter_map(|_| inserting.buffer.insert(16, &fill))
                    .count()
            });
            tested.buffer.release(Lsn::FIRST, 1 << 40);
            let end = tested.buffer.end();
            let given = inserter.join().unwrap() as u64;
            assert_eq!(tested.buffer.end(), end);
            assert_eq!(end, Lsn::FIRST.plus(16 * given));
            refused.fetch_add(3 - given, Relaxed);
        });
        assert!(total.load(Relaxed) > 0, "{kind}: some come too late");
    }
}

/// A streamed record, larger than the ring, among others.
#[test]
fn streams_do_not_stop_others_nor_are_stopped() {
    const PARTS: u64 = 3;
    const PART: [u8; 60] = [0xee; 60];
    for kind in LogBufferKind::ALL {
        explore(move || {
            let tested = Tested::new(kind, 2, 1 << 40);
            let streaming = tested.clone();
            let streamer = thread::spawn(move || {
                let buffer = &streaming.buffer;
                let stream = loop {
                    if let Some(stream) = buffer.begin_stream(64 * PARTS) {
                        break stream;
                    }
                    streaming.consume();
                };
                let parts = (0..PARTS).map(|i| stream.start.plus(64 * i));
                let parts: Vec<_> = parts.map(|at| (at, PART.to_vec())).collect();
                for (at, part) in &parts {
                    while buffer.window(&stream, at.plus(64)).unwrap().is_some() {
                        streaming.consume();
                    }
                    streaming.write(*at, part);
                    buffer.part_filled(&stream, at.plus(64));
                }
                buffer.end_stream(stream);
                parts
            });
            let answers = write_all(&tested, consume_when_blocked);
            let mut records: Vec<_> = answers.into_iter().map(Result::unwrap).collect();
            records.extend(streamer.join().unwrap());
            tested.assert_taken(records);
        });
    }
}

/// Tickets that are left in any order are released in theirs, one release each.
#[test]
fn delegated_releases_happen_in_order() {
    explore(|| {
        let latch = Arc::new(super::latch::Latch::default());
        let queue = Arc::new(ReleaseQueue::with_nodes(Lsn(0), 3));
        let filled: Arc<[super::sync::AtomicBool]> = (0..6).map(|_| Default::default()).collect();
        let threads: Vec<_> = (0..3)
            .map(|_| {
                let (latch, queue, filled) = (latch.clone(), queue.clone(), filled.clone());
                thread::spawn(move || {
                    for _ in 0..2 {
                        let ticket = loop {
                            let held = latch.lock();
                            if queue.has_room(&held) {
                                // Ends follow from tickets, so that they are known beforehand.
                                let end = queue.peek(&held) + 1;
                                break queue.enter(&held, Lsn(end));
                            }
                            drop(held);
                            yield_now();
                        };
                        filled[ticket.0 as usize].store(true, Relaxed);
                        queue.leave(ticket, || false);
                        let released = queue.released().0 as usize;
                        assert!(filled[..released].iter().all(|f| f.load(Relaxed)));
                    }
                })
            })
            .collect();
        for thread in threads {
            thread.join().unwrap();
        }
        assert_eq!(queue.released(), Lsn(6));
    });
}
