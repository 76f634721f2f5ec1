//! Where more threads would stop helping: the parallel replay as a model of its stages, with costs measured here.
//!
//! Neighbours: `recovery` measures one restart with one thread and hands the costs over; the table and the curve go to
//! the documentation.
//!
//! The model: a thread takes a task under a lock (serial), has the device or the page cache deliver its bytes (shared
//! by all, at the rate measured), and collects them (alone, but no faster than its share of the memory's bandwidth).
//! When all are done, the serial rest follows; then threads sort shards. It says nothing about what nobody has seen
//! here: caches shared by cores, several sockets.
//!
//! **Invariants**
//! - The same costs give the same figures: events happen in the order of time, then of the threads' numbers.

use crate::plot::{Axis, Plot, Series};
use crate::report::{Table, Value};

/// Threads that are shown.
const THREADS: [u64; 7] = [1, 2, 4, 8, 16, 32, 64];
/// Bytes of a task, as the engine cuts them.
const TASK_BYTES: f64 = (4 << 20) as f64;
/// Bytes of log that one shard is worth.
const SHARD_BYTES: f64 = (2 << 20) as f64;
/// Seconds under the lock for a task: block headers are followed there. About 1 us for each block of up to 1 MiB.
const HAND_OUT_SECONDS: f64 = 5e-6;
/// Bytes that cross the memory's bus for each byte of the log: into the buffer, through the check, through the parser.
const TRAFFIC: f64 = 3.0;
/// A stage that is busy for this part of the time is what limits.
const BUSY: f64 = 0.9;

/// What one thread needs, and what all share.
#[derive(Debug, Clone, Copy)]
pub(super) struct Costs {
    /// Bytes of the log.
    pub(super) log_bytes: f64,
    /// Rows and index entries in it.
    pub(super) entries: f64,
    /// Seconds of one thread to read and collect it from the page cache.
    pub(super) collect: f64,
    /// Seconds of one thread to sort it.
    pub(super) sort: f64,
    /// Seconds that are serial: opening, and bringing decisions together.
    pub(super) serial: f64,
    /// Bytes of a second that the device gives; infinite for a log in the page cache.
    pub(super) device: f64,
    /// Bytes of a second that the memory gives to all.
    pub(super) memory: f64,
}

/// What the model says.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Forecast {
    ready: f64,
    built: f64,
    limit: &'static str,
}

impl Costs {
    fn forecast(&self, threads: u64) -> Forecast {
        let tasks = (self.log_bytes / TASK_BYTES).ceil().max(1.0);
        let bytes = self.log_bytes / tasks;
        // With that many at work everybody gets this part of the bus.
        let on_bus = bytes * TRAFFIC * threads as f64 / self.memory;
        let alone = self.collect / tasks;
        let collect = alone.max(on_bus);
        let mut free = vec![0.0_f64; threads as usize];
        let (mut lock, mut device) = (0.0_f64, 0.0_f64);
        for _ in 0..tasks as u64 {
            let thread = earliest(&free);
            lock = lock.max(free[thread]) + HAND_OUT_SECONDS;
            device = device.max(lock) + bytes / self.device;
            free[thread] = device + collect;
        }
        let read = free.iter().copied().fold(0.0, f64::max);
        let ready = read + self.serial;
        let built = ready + self.sorted(threads);
        let limit = if tasks * bytes / self.device > BUSY * read {
            "device"
        } else if tasks * HAND_OUT_SECONDS > BUSY * read {
            "handing out"
        } else if self.serial > read {
            "serial rest"
        } else if on_bus > alone {
            "memory"
        } else {
            "threads"
        };
        Forecast {
            ready,
            built,
            limit,
        }
    }

    /// Seconds to sort all shards.
    fn sorted(&self, threads: u64) -> f64 {
        let shards = (self.log_bytes / SHARD_BYTES).ceil().max(1.0);
        let on_bus = self.log_bytes / shards * threads as f64 / self.memory;
        let each = (self.sort / shards).max(on_bus);
        (shards / threads as f64).ceil() * each
    }
}

fn earliest(free: &[f64]) -> usize {
    let best = free.iter().enumerate().min_by(|a, b| a.1.total_cmp(b.1));
    best.map_or(0, |(thread, _)| thread)
}

/// The forecasts as a table and as curves, for the log in the page cache and on the device.
pub(super) fn show(costs: &Costs) -> (Table, Plot) {
    let mut table = Table::new(
        "model of the parallel replay",
        &[
            "log",
            "threads",
            "ready s",
            "built s",
            "entries/s",
            "speedup",
            "limited by",
        ],
    );
    let warm = Costs {
        device: f64::INFINITY,
        ..*costs
    };
    let mut series = Vec::new();
    for (log, costs) in [("page cache", warm), ("device", *costs)] {
        let one = costs.forecast(1).built;
        let mut points = Vec::new();
        for threads in THREADS {
            let forecast = costs.forecast(threads);
            let rate = costs.entries / forecast.built;
            points.push((threads as f64, rate));
            table.push(vec![
                log.into(),
                threads.into(),
                Value::Number(forecast.ready, 3),
                Value::Number(forecast.built, 3),
                Value::Number(rate, 0),
                Value::Number(one / forecast.built, 2),
                forecast.limit.into(),
            ]);
        }
        let name = log.to_owned();
        series.push(Series { name, points });
    }
    let plot = Plot {
        title: "parallel replay, modelled from one thread's costs".to_owned(),
        x: Axis::log("threads"),
        y: Axis::log("entries per second"),
        series,
    };
    (table, plot)
}

#[cfg(test)]
mod tests {
    use super::*;

    const COSTS: Costs = Costs {
        log_bytes: 512e6,
        entries: 4e6,
        collect: 1.0,
        sort: 0.5,
        serial: 0.01,
        device: 1e9,
        memory: 40e9,
    };

    #[test]
    fn threads_help_until_something_else_is_busy() {
        let warm = Costs {
            device: f64::INFINITY,
            ..COSTS
        };
        let (one, two) = (warm.forecast(1), warm.forecast(2));
        assert!((one.built - 1.51).abs() < 0.02, "{one:?}");
        assert!(one.built / two.built > 1.9 && two.limit == "threads");
        let many = warm.forecast(64);
        assert_eq!(many.limit, "memory");
        assert!(many.built > TRAFFIC * warm.log_bytes / warm.memory);
        let cold = COSTS.forecast(16);
        assert_eq!(cold.limit, "device");
        assert!(cold.ready > COSTS.log_bytes / COSTS.device);
        assert!(COSTS.forecast(64).built <= cold.built * 1.05);
    }

    #[test]
    fn every_number_of_threads_has_its_line() {
        let (table, plot) = show(&COSTS);
        assert_eq!(table.len(), 2 * THREADS.len());
        assert!(plot.series.iter().all(|s| s.points.len() == THREADS.len()));
    }
}
