//! Random histories without threads: whatever the workers do, what depends on each other is done in order.

use super::*;

const MODES: [Mode; 5] = [
    Mode::Serial,
    Mode::Database,
    Mode::CommitGroup,
    Mode::WriteSet,
    Mode::Optimistic,
];

fn facts(ordinal: u64, keys: &[u64]) -> Facts {
    Facts {
        ordinal,
        bytes: 1,
        is_barrier: false,
        writes: WriteSet::Keys(keys.to_vec()),
        clock: None,
    }
}

/// xorshift.
struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % n
    }
}

fn history(random: &mut Random, length: u64) -> Vec<Facts> {
    let mut sequence = 0;
    (1..=length)
        .map(|ordinal| {
            let count = 1 + random.below(3);
            let keys: Vec<u64> = (0..count).map(|_| random.below(12)).collect();
            // Files of forty transactions.
            sequence = if ordinal % 40 == 0 { 1 } else { sequence + 1 };
            let kind = random.below(20);
            Facts {
                bytes: (1 + random.below(30) as usize) * FILL_BYTES / 16,
                is_barrier: kind == 0,
                writes: match kind {
                    0 | 1 => WriteSet::Everything,
                    _ => WriteSet::Keys(keys.clone()),
                },
                clock: (kind != 2).then(|| Clock {
                    last_committed: sequence - 1 - random.below(sequence as u64) as i64,
                    sequence,
                }),
                ..facts(ordinal, &[])
            }
        })
        .collect()
}

/// Must `later` wait for `earlier` in this mode?
fn depends(mode: Mode, earlier: &Facts, later: &Facts, file: impl Fn(u64) -> u64) -> bool {
    if earlier.is_barrier || later.is_barrier {
        return true;
    }
    match mode {
        Mode::Serial => true,
        Mode::Optimistic => false,
        Mode::CommitGroup => match (earlier.clock, later.clock) {
            (Some(a), Some(b)) => {
                file(earlier.ordinal) != file(later.ordinal) || a.sequence <= b.last_committed
            }
            (_, None) => true,
            (None, _) => false,
        },
        Mode::Database | Mode::WriteSet => match (&earlier.writes, &later.writes) {
            (WriteSet::Keys(a), WriteSet::Keys(b)) => a.iter().any(|key| b.contains(key)),
            _ => true,
        },
    }
}

/// Runs a history on queues of workers that go on in random order, and checks every start. Where commits need no order,
/// workers take what is ready, wherever it is in a queue, and it ends at once; else they wait for what is first.
fn run(seed: u64, (mode, in_order): (Mode, bool), workers: usize) {
    let mut random = Random(seed * 2 + 1);
    let history = history(&mut random, 200);
    let mut coordinator = Coordinator::new(mode, workers, 8 * FILL_BYTES, in_order);
    let mut queues: Vec<VecDeque<(Facts, Vec<u64>)>> = vec![VecDeque::new(); coordinator.workers()];
    let mut has_begun = vec![false; history.len() + 1];
    let mut has_ended = has_begun.clone();
    let (mut ended, mut next) = (0, 0);
    while ended < history.len() {
        let places = next < history.len() && random.below(3) > 0;
        if places {
            match coordinator.place(&history[next]) {
                Placement::Wait(count) => {
                    assert!((1..=next - ended).contains(&count), "nobody would wake it");
                }
                Placement::Worker { worker, after } => {
                    let depends = |e: &&Facts| depends(mode, e, &history[next], |o| o / 40);
                    let last = history[ended.min(next)..next].iter().rfind(depends);
                    if mode != Mode::CommitGroup && in_order {
                        let last: Vec<u64> = last.iter().map(|last| last.ordinal).collect();
                        assert_eq!(after, last, "{mode:?}");
                    }
                    queues[worker].push_back((history[next].clone(), after));
                    next += 1;
                }
                Placement::Barrier(worker) => {
                    assert_eq!(ended, next, "a barrier is alone");
                    queues[worker].push_back((history[next].clone(), Vec::new()));
                    next += 1;
                }
            }
            continue;
        }
        let worker = random.below(queues.len() as u64) as usize;
        let is_ready = |(_, after): &(Facts, Vec<u64>)| {
            after.iter().all(|ordinal| has_ended[*ordinal as usize])
        };
        let ready = match in_order {
            true => queues[worker]
                .front()
                .filter(|first| is_ready(first))
                .map(|_| 0),
            false => queues[worker].iter().position(is_ready),
        };
        let Some((begun, _)) = ready.and_then(|at| queues[worker].remove(at)) else {
            continue;
        };
        let file = |ordinal: u64| ordinal / 40;
        for earlier in &history[..begun.ordinal as usize - 1] {
            let is_before = has_ended[earlier.ordinal as usize];
            let must = depends(mode, earlier, &begun, file);
            assert!(is_before || !must, "{mode:?} {earlier:?} before {begun:?}");
        }
        has_begun[begun.ordinal as usize] = true;
        let oldest = ended as u64 + 1;
        let mut end = |ordinal: u64| {
            has_ended[ordinal as usize] = true;
            ended += 1;
            coordinator.ended(ordinal);
        };
        match in_order {
            true => (oldest..)
                .take_while(|ordinal| has_begun.get(*ordinal as usize) == Some(&true))
                .for_each(end),
            false => end(begun.ordinal),
        }
    }
    assert!(coordinator.is_idle() && coordinator.bytes() == 0);
}

#[test]
fn what_depends_on_each_other_is_done_in_order() {
    for seed in 1..=10 {
        for mode in MODES {
            for workers in [1, 3, 8] {
                run(seed, (mode, true), workers);
                if mode != Mode::Serial {
                    run(seed, (mode, false), workers);
                }
            }
        }
    }
}

/// At the end of a worker's queue, without (0) or behind another.
fn to(worker: usize, after: u64) -> Placement {
    let after = if after == 0 { Vec::new() } else { vec![after] };
    Placement::Worker { worker, after }
}

/// Too large for a second one in a queue that is to be filled first.
fn large(ordinal: u64, keys: &[u64]) -> Facts {
    Facts {
        bytes: FILL_BYTES,
        ..facts(ordinal, keys)
    }
}

#[test]
fn databases_in_common_go_to_one_worker_and_others_to_another() {
    let mut coordinator = Coordinator::new(Mode::Database, 2, usize::MAX, true);
    assert_eq!(coordinator.place(&large(1, &[1])), to(0, 0));
    assert_eq!(coordinator.place(&large(2, &[2])), to(1, 0));
    assert_eq!(coordinator.place(&large(3, &[1])), to(0, 1));
    assert_eq!(coordinator.place(&large(4, &[2])), to(1, 2));
    // Of several workers: it is placed as if it waited for none.
    assert_eq!(coordinator.place(&large(5, &[1, 2])), to(0, 4));
    coordinator.ended(1);
    coordinator.ended(2);
    assert_eq!(coordinator.place(&large(6, &[3])), to(1, 0));
}

/// No worker waits for a predecessor then, so dependents may be in any queue.
#[test]
fn keys_in_common_keep_nobody_in_one_queue() {
    let mut coordinator = Coordinator::new(Mode::WriteSet, 2, usize::MAX, true);
    assert_eq!(coordinator.place(&large(1, &[1])), to(0, 0));
    assert_eq!(coordinator.place(&large(2, &[1])), to(1, 1));
    assert_eq!(coordinator.place(&large(3, &[2])), to(0, 0));
    assert_eq!(coordinator.place(&large(4, &[2, 1])), to(1, 3));
}

#[test]
fn without_order_nobody_waits_to_be_placed_behind_several() {
    let mut coordinator = Coordinator::new(Mode::WriteSet, 2, usize::MAX, false);
    for ordinal in 1..=2 {
        let worker = ordinal as usize - 1;
        assert_eq!(
            coordinator.place(&large(ordinal, &[ordinal])),
            to(worker, 0)
        );
    }
    let after = |placement| match placement {
        Placement::Worker { after, .. } => after,
        other => panic!("{other:?}"),
    };
    assert_eq!(after(coordinator.place(&large(3, &[1, 2, 1]))), [1, 2]);
    assert_eq!(after(coordinator.place(&large(4, &[4]))), [0; 0]);
    let everything = Facts {
        writes: WriteSet::Everything,
        ..large(5, &[])
    };
    assert_eq!(after(coordinator.place(&everything)), [1, 2, 3, 4]);
    // It has waited for all of them.
    let everything = Facts {
        ordinal: 6,
        ..everything
    };
    assert_eq!(after(coordinator.place(&everything)), [5]);
    assert_eq!(after(coordinator.place(&large(7, &[4]))), [6]);
}

#[test]
fn the_source_says_who_was_committed_together() {
    let mut coordinator = Coordinator::new(Mode::CommitGroup, 4, usize::MAX, true);
    let with = |ordinal, last_committed, sequence| Facts {
        clock: Some(Clock {
            last_committed,
            sequence,
        }),
        ..large(ordinal, &[])
    };
    assert_eq!(coordinator.place(&with(1, 0, 1)), to(0, 0));
    assert_eq!(coordinator.place(&with(2, 0, 2)), to(1, 0));
    assert_eq!(coordinator.place(&with(3, 1, 3)), to(0, 1));
    assert_eq!(coordinator.place(&with(4, 2, 4)), to(2, 2));
    assert_eq!(coordinator.place(&with(5, 2, 5)), to(3, 2));
}

#[test]
fn a_worker_has_enough_to_do_before_the_next_one_is_woken() {
    let mut coordinator = Coordinator::new(Mode::Optimistic, 3, usize::MAX, true);
    let half = |ordinal| Facts {
        bytes: FILL_BYTES / 2,
        ..facts(ordinal, &[])
    };
    let places = (1..=10).map(|ordinal| coordinator.place(&half(ordinal)));
    let places: Vec<_> = places.collect();
    // Where all have enough, each gets a batch in turn.
    let workers = [0, 0, 1, 1, 2, 2, 0, 0, 1, 1];
    assert_eq!(places, workers.map(|worker| to(worker, 0)));
    for ordinal in [3, 4, 9] {
        coordinator.ended(ordinal);
    }
    assert_eq!(coordinator.place(&half(11)), to(1, 0));
    assert_eq!(coordinator.place(&half(12)), to(2, 0));
}

/// A long row of transactions with one worker would be run by it alone.
#[test]
fn busy_workers_take_turns_after_a_few_transactions() {
    let mut coordinator = Coordinator::new(Mode::Optimistic, 2, usize::MAX, true);
    let filling = |ordinal| Facts {
        bytes: FILL_BYTES,
        ..facts(ordinal, &[])
    };
    assert_eq!(coordinator.place(&filling(1)), to(0, 0));
    assert_eq!(coordinator.place(&filling(2)), to(1, 0));
    let mut next = 3;
    let mut batch = |worker| {
        for _ in 0..BATCH {
            assert_eq!(coordinator.place(&facts(next, &[])), to(worker, 0));
            next += 1;
        }
    };
    for worker in [0, 1, 0, 1] {
        batch(worker);
    }
}

#[test]
fn queues_are_bounded_in_bytes_and_in_number() {
    let mut coordinator = Coordinator::new(Mode::Serial, 4, 100, true);
    let large = Facts {
        bytes: 1000,
        ..facts(1, &[1])
    };
    assert_eq!(coordinator.place(&large), to(0, 0));
    assert_eq!(coordinator.place(&facts(2, &[1])), Placement::Wait(1));
    coordinator.ended(1);
    let last = 1 + QUEUE_DEPTH as u64;
    for ordinal in 2..=last {
        let after = if ordinal == 2 { 0 } else { ordinal - 1 };
        assert_eq!(coordinator.place(&facts(ordinal, &[1])), to(0, after));
    }
    let next = coordinator.place(&facts(last + 1, &[1]));
    assert_eq!(next, Placement::Wait(QUEUE_DEPTH / 2));
}

#[test]
fn keys_of_what_has_ended_are_forgotten() {
    let mut coordinator = Coordinator::new(Mode::WriteSet, 2, usize::MAX, true);
    for ordinal in 1..=3 * MAX_KEYS as u64 {
        assert_eq!(coordinator.place(&facts(ordinal, &[ordinal])), to(0, 0));
        coordinator.ended(ordinal);
    }
    assert!(coordinator.last_writer.len() <= MAX_KEYS);
}
