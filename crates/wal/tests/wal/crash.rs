//! Power loss at random operations: what was durable is read back, and what is read back is a
//! prefix of what was appended, life after life on the same disk.

use crate::common::{Owned, append_random, assert_contiguous, commit, open_from, open_manual};
use esker_vfs::sim::{CrashImage, Fault, Op, SimEnv, SimFs, SimRng};
use esker_wal::{FlushMode, Lsn, Wal, WalError};

/// Random runs; each has several lives that end in a power loss.
const SEEDS: u64 = 400;

/// What must be true of the log, from outside.
struct Model {
    /// Appended in all lives and not known to be lost, in order.
    appended: Vec<Owned>,
    /// Where the last life would have appended next: behind records that failed half way, too.
    attempted: Lsn,
    /// The log said that everything below is durable.
    durable: Lsn,
    /// Records below are not needed any more.
    from: Lsn,
}

impl Model {
    fn new() -> Self {
        Self {
            appended: Vec::new(),
            attempted: Lsn::FIRST,
            durable: Lsn::FIRST,
            from: Lsn(0),
        }
    }

    fn end(&self) -> Lsn {
        self.appended
            .last()
            .map_or(Lsn::FIRST.max(self.from), |r| r.end)
    }

    /// Checks what a new life has read, and takes it over.
    fn check(&mut self, read: Vec<Owned>, end: Lsn, context: &str) {
        assert!(
            end >= self.durable,
            "{context}: end {end}, but {} was durable",
            self.durable
        );
        self.appended.retain(|r| r.end > self.from);
        assert!(
            read.len() <= self.appended.len(),
            "{context}: records out of nowhere"
        );
        assert_eq!(read, self.appended[..read.len()], "{context}");
        let lost = &self.appended[read.len()..];
        assert!(
            lost.iter().all(|r| r.end > self.durable),
            "{context}: a durable record is lost"
        );
        // Parts of a chained record may have survived without the last one.
        let floor = read.last().map_or(Lsn::FIRST.max(self.from), |r| r.end);
        let ceiling = lost.first().map_or(self.attempted.max(floor), |r| r.end);
        assert!(
            (floor..=ceiling).contains(&end),
            "{context}: {end} is not in {floor}..={ceiling}"
        );
        self.appended = read;
        self.durable = end;
        self.attempted = end;
    }
}

/// Uses the log until the power goes (or for long enough).
fn live(wal: &Wal, model: &mut Model, rng: &mut SimRng, fs: &SimFs) {
    for _ in 0..rng.below(80) {
        let result: Result<(), WalError> = (|| {
            match rng.below(10) {
                0..=5 => {
                    let record = append_random(wal, rng)?;
                    assert!(record.start >= model.end());
                    model.appended.push(record);
                }
                6..=8 => wal.flush_now()?,
                _ => {
                    let at = rng.below(model.appended.len() as u64 + 1) as usize;
                    if let Some(record) = model.appended.get(at)
                        && record.end <= wal.durable()
                    {
                        model.from = model.from.max(record.end);
                        wal.release_below(model.from)?;
                    }
                }
            }
            Ok(())
        })();
        model.durable = model.durable.max(wal.durable());
        model.attempted = wal.end();
        if let Err(error) = result {
            assert!(!fs.has_power(), "only the power loss is an error: {error}");
            return;
        }
    }
    if rng.chance(20) && wal.shutdown().is_ok() {
        model.durable = wal.end();
    }
}

fn run(seed: u64) {
    let mut rng = SimRng::new(seed);
    let mut sim = SimEnv::new(seed);
    let mut model = Model::new();
    for life in 0..6 {
        let context = format!("seed {seed}, life {life}");
        let most = if rng.chance(30) { 12 } else { 150 };
        sim.fs.halt_at(sim.fs.ops() + 1 + rng.below(most));
        match open_from(&sim, FlushMode::Manual, model.from) {
            Ok(log) => {
                model.check(log.records, log.recovered.end, &context);
                live(&log.wal, &mut model, &mut rng, &sim.fs);
            }
            Err(error) => assert!(!sim.fs.has_power(), "{context}: {error}"),
        }
        sim = sim.crash(rng.next_u64());
    }
    let log = open_from(&sim, FlushMode::Manual, model.from).unwrap();
    model.check(
        log.records,
        log.recovered.end,
        &format!("seed {seed}, at last"),
    );
}

#[test]
pub fn random_power_losses() {
    for seed in 0..SEEDS {
        run(seed);
    }
}

/// A fixed story, stopped after every single operation on the disk, with three kinds of images
/// each.
#[test]
fn power_loss_after_every_operation() {
    let story = |sim: &SimEnv, model: &mut Model| -> Result<(), WalError> {
        for round in 0..3 {
            let log = open_from(sim, FlushMode::Manual, model.from)?;
            model.check(log.records, log.recovered.end, "story");
            let result = (0..6).try_for_each(|i| {
                let size = if i == 3 { 30_000 } else { 100 * (i + 1) };
                let payload = vec![i as u8; size];
                let record = crate::common::append(
                    &log.wal,
                    esker_wal::RecordKind::Commit,
                    &[round],
                    &payload,
                )?;
                model.appended.push(record);
                if i % 2 == 1 {
                    let flushed = log.wal.flush_now();
                    model.durable = model.durable.max(log.wal.durable());
                    flushed?;
                }
                Ok(())
            });
            model.attempted = log.wal.end();
            result?;
            if round == 1 {
                model.from = log.wal.durable();
                log.wal.release_below(model.from)?;
            }
            let closed = log.wal.shutdown();
            model.durable = model.durable.max(log.wal.durable());
            closed?;
        }
        Ok(())
    };
    let whole = SimEnv::new(1);
    story(&whole, &mut Model::new()).unwrap();
    let ops = whole.fs.ops();
    assert!(ops > 60, "{ops} operations");
    for stop in 1..=ops {
        let sim = SimEnv::new(1);
        sim.fs.halt_at(stop);
        let mut model = Model::new();
        let result = story(&sim, &mut model);
        assert_eq!(result.is_ok(), stop == ops, "{result:?}");
        let images = [CrashImage::DropUnsynced, CrashImage::KeepUnsynced].into_iter();
        for image in images.chain((0..6).map(CrashImage::Random)) {
            let after = SimEnv::with_fs(sim.fs.crash_with(image), 2);
            let mut copy = Model {
                appended: model.appended.clone(),
                ..model
            };
            let log = open_from(&after, FlushMode::Manual, copy.from)
                .unwrap_or_else(|e| panic!("stop {stop}, {image:?}: {e}"));
            copy.check(
                log.records,
                log.recovered.end,
                &format!("stop {stop}, {image:?}"),
            );
        }
    }
}

/// With threads: whatever was acknowledged before the crash is there after it, in one order.
#[test]
pub fn power_loss_under_many_threads() {
    for seed in 0..40 {
        let sim = SimEnv::new(seed);
        let log = crate::common::open(&sim, FlushMode::Daemon);
        sim.fs.halt_at(sim.fs.ops() + 20 + seed * 3);
        let acknowledged: Vec<Owned> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4)
                .map(|thread| {
                    let wal = &log.wal;
                    scope.spawn(move || {
                        let mut rng = SimRng::new(seed * 10 + thread);
                        let mut done = Vec::new();
                        while let Ok(record) = append_random(wal, &mut rng) {
                            if wal.wait_durable(record.end).block().is_err() {
                                break;
                            }
                            done.push(record);
                        }
                        done
                    })
                })
                .collect();
            threads
                .into_iter()
                .flat_map(|thread| thread.join().unwrap())
                .collect()
        });
        // Joins the threads of the log.
        drop(log.wal);
        assert_eq!(log.fatals.count(), 1);
        for image in 0..4 {
            let after = open_manual(&sim.crash(image));
            assert_contiguous(&after.records);
            for record in &acknowledged {
                let found = after
                    .records
                    .binary_search_by_key(&record.start, |r| r.start);
                assert_eq!(
                    found.map(|at| &after.records[at]),
                    Ok(record),
                    "seed {seed}"
                );
            }
        }
    }
}

/// Sync failures instead of power losses: the process restarts on the same machine, page cache and
/// all, and then loses power.
#[test]
fn failed_syncs_and_restarts_on_the_same_cache() {
    for seed in 0..200 {
        let mut rng = SimRng::new(seed);
        let mut sim = SimEnv::new(seed);
        let mut model = Model::new();
        for life in 0..4 {
            let context = format!("seed {seed}, life {life}");
            sim.fs.inject(Fault::on(Op::Sync).after(rng.below(12)));
            match open_from(&sim, FlushMode::Manual, model.from) {
                Ok(log) => {
                    model.check(log.records, log.recovered.end, &context);
                    for _ in 0..10 {
                        let Ok(record) = append_random(&log.wal, &mut rng) else {
                            break;
                        };
                        model.appended.push(record);
                        if log.wal.flush_now().is_err() {
                            break;
                        }
                    }
                    model.durable = model.durable.max(log.wal.durable());
                    model.attempted = log.wal.end();
                }
                Err(error) => assert!(!sim.fs.fault_hits().is_empty(), "{context}: {error}"),
            }
            sim.fs.clear_faults();
            match rng.below(3) {
                0 => sim = sim.crash(rng.next_u64()),
                1 => sim.fs.drop_caches(),
                _ => {}
            }
        }
        sim.fs.clear_faults();
        let log = open_from(&sim, FlushMode::Manual, model.from).unwrap();
        model.check(
            log.records,
            log.recovered.end,
            &format!("seed {seed}, at last"),
        );
        commit(&log.wal, b"and on");
        log.wal.flush_now().unwrap();
    }
}
