//! Where more threads would stop helping a scan: its tasks, each timed alone on one thread here, dealt out to up to 64.
//!
//! Neighbours: `scan` cuts the tree as for that many threads and times every task; the table and the curve go to the
//! documentation.
//!
//! The model: the caller begins at once, helpers when they have been woken. A thread takes the next task under a lock
//! (serial), and works on it alone, but no faster than its share of the memory's bandwidth. The scan is over when the
//! last task is. It says nothing about what nobody has seen here: caches shared by cores, several sockets, clocks that
//! go down.
//!
//! **Invariants**
//! - The same costs give the same figures: tasks are dealt out in their order, to the thread that is free first.

use crate::plot::{Axis, Plot, Series};
use crate::report::{Table, Value};

/// Threads that are shown.
pub(super) const THREADS: [u64; 7] = [1, 2, 4, 8, 16, 32, 64];
/// Seconds until a helper that sleeps has begun.
const WAKE_SECONDS: f64 = 50e-6;
/// Seconds under the lock for a task.
const HAND_OUT_SECONDS: f64 = 0.5e-6;
/// Bytes that cross the memory's bus for each byte of keys and values: a scan writes next to nothing.
const TRAFFIC: f64 = 1.0;
/// A part that is so much of the time is what limits.
const MUCH: f64 = 0.9;

/// One way of cutting a scan, and what its tasks cost.
#[derive(Debug, Clone)]
pub(super) struct Cut {
    pub(super) threads: u64,
    /// Seconds of one thread for each task, in their order.
    pub(super) tasks: Vec<f64>,
    /// The same, cut into about as many tasks as there are threads.
    pub(super) coarse: Vec<f64>,
}

/// A tree, and how it is cut for so many threads.
#[derive(Debug, Clone)]
pub(super) struct Shape {
    pub(super) name: String,
    pub(super) rows: f64,
    pub(super) bytes: f64,
    pub(super) cuts: Vec<Cut>,
}

/// What the model says of one cut.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Forecast {
    seconds: f64,
    limit: &'static str,
}

/// Deals out tasks of so many bytes in all to threads; the memory gives so many bytes of a second.
fn deal(tasks: &[f64], threads: u64, bytes: f64, memory: f64) -> Forecast {
    let work: f64 = tasks.iter().sum();
    // With that many at work everybody gets this part of the bus; what a task reads goes with its time.
    let slowest = bytes * TRAFFIC * threads as f64 / memory;
    let cost = |task: f64| task.max(slowest * task / work.max(f64::MIN_POSITIVE));
    let mut free = vec![WAKE_SECONDS; threads as usize];
    free[0] = 0.0;
    let mut lock = 0.0_f64;
    for task in tasks {
        let thread = earliest(&free);
        lock = lock.max(free[thread]) + HAND_OUT_SECONDS;
        free[thread] = lock + cost(*task);
    }
    let seconds = free.iter().copied().fold(0.0, f64::max);
    let largest = tasks.iter().copied().fold(0.0, f64::max);
    let limit = if slowest > work {
        "memory"
    } else if largest > MUCH * seconds {
        "largest task"
    } else if WAKE_SECONDS > (1.0 - MUCH) * seconds && threads > 1 {
        "waking"
    } else {
        "threads"
    };
    Forecast { seconds, limit }
}

fn earliest(free: &[f64]) -> usize {
    let best = free.iter().enumerate().min_by(|a, b| a.1.total_cmp(b.1));
    best.map_or(0, |(thread, _)| thread)
}

/// The forecasts as a table and as curves.
pub(super) fn show(shapes: &[Shape], memory: f64) -> (Table, Plot) {
    let mut table = Table::new(
        "model of the parallel scan",
        &[
            "tiers",
            "threads",
            "tasks",
            "largest/mean",
            "ms",
            "rows/s",
            "speedup",
            "with a task per thread",
            "limited by",
        ],
    );
    let mut series = Vec::new();
    for shape in shapes {
        let forecast = |tasks: &[f64], threads| deal(tasks, threads, shape.bytes, memory);
        let one = shape
            .cuts
            .first()
            .map_or(0.0, |cut| forecast(&cut.tasks, 1).seconds);
        let mut points = Vec::new();
        for cut in &shape.cuts {
            let found = forecast(&cut.tasks, cut.threads);
            let coarse = forecast(&cut.coarse, cut.threads);
            let mean = cut.tasks.iter().sum::<f64>() / cut.tasks.len().max(1) as f64;
            let largest = cut.tasks.iter().copied().fold(0.0, f64::max);
            points.push((cut.threads as f64, one / found.seconds));
            table.push(vec![
                shape.name.as_str().into(),
                cut.threads.into(),
                (cut.tasks.len() as u64).into(),
                Value::Number(largest / mean, 2),
                Value::Number(found.seconds * 1e3, 2),
                Value::Number(shape.rows / found.seconds, 0),
                Value::Number(one / found.seconds, 2),
                Value::Number(one / coarse.seconds, 2),
                found.limit.into(),
            ]);
        }
        let name = shape.name.clone();
        series.push(Series { name, points });
    }
    let plot = Plot {
        title: "parallel scan, modelled from tasks timed on one thread".to_owned(),
        x: Axis::log("threads"),
        y: Axis::log("speedup"),
        series,
    };
    (table, plot)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FAST: f64 = 1e15;

    #[test]
    fn even_tasks_scale_and_one_large_task_does_not() {
        let even = vec![0.01; 64];
        let one = deal(&even, 1, 0.0, FAST);
        assert!((one.seconds - 0.64).abs() < 0.001, "{one:?}");
        let many = deal(&even, 16, 0.0, FAST);
        assert!(one.seconds / many.seconds > 15.5 && many.limit == "threads");
        let mut uneven = even;
        uneven[63] = 0.3;
        let found = deal(&uneven, 16, 0.0, FAST);
        assert!(
            found.seconds > 0.3 && found.limit == "largest task",
            "{found:?}"
        );
    }

    #[test]
    fn memory_and_waking_are_limits() {
        let tasks = vec![0.01; 64];
        let found = deal(&tasks, 64, 1e9, 20e9);
        assert!(
            found.seconds >= 1e9 / 20e9 && found.limit == "memory",
            "{found:?}"
        );
        let short = deal(&[1e-5; 64], 8, 0.0, FAST);
        assert_eq!(short.limit, "waking");
    }

    #[test]
    fn every_cut_has_its_line() {
        let cut = |threads| Cut {
            threads,
            tasks: vec![0.1; 4 * threads as usize],
            coarse: vec![0.4; threads as usize],
        };
        let shape = Shape {
            name: "even".to_owned(),
            rows: 1e6,
            bytes: 1e8,
            cuts: THREADS.map(cut).to_vec(),
        };
        let (table, plot) = show(&[shape.clone(), shape], FAST);
        assert_eq!(table.len(), 2 * THREADS.len());
        assert!(plot.series.iter().all(|s| s.points.len() == THREADS.len()));
    }
}
