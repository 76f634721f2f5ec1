//! How fast the memory is read in order: what a scan of cached rows cannot exceed.
//!
//! Neighbours: `scan` puts it beside what it has measured.

use std::hint::black_box;
use std::sync::Barrier;
use std::thread;
use std::time::Instant;

/// What all threads read together in a pass: more than the processor's caches.
const BYTES: usize = 512 << 20;
const PASSES: usize = 4;

/// Bytes of a second that so many threads read together, each from memory of its own.
pub(crate) fn read_rate(threads: u64) -> f64 {
    let threads = threads as usize;
    let words = BYTES / size_of::<u64>() / threads;
    let barrier = Barrier::new(threads);
    let slowest = thread::scope(|scope| {
        let readers: Vec<_> = (0..threads)
            .map(|_| scope.spawn(|| seconds_of_reading(words, &barrier)))
            .collect();
        let seconds = readers
            .into_iter()
            .map(|reader| reader.join().expect("a sum does not fail"));
        seconds.fold(0.0, f64::max)
    });
    (threads * words * size_of::<u64>() * PASSES) as f64 / slowest
}

fn seconds_of_reading(words: usize, barrier: &Barrier) -> f64 {
    let buffer = vec![1u64; words];
    barrier.wait();
    let start = Instant::now();
    for _ in 0..PASSES {
        let sum: u64 = black_box(&buffer).iter().sum();
        black_box(sum);
    }
    start.elapsed().as_secs_f64()
}
