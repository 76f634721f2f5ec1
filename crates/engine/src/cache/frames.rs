//! Frame allocator of the block cache: frames of one size in large regions, returned to the system one by one.
//!
//! Neighbours: `extent::reader` keeps what it has decoded in frames; `budget` has them trimmed when the cache has
//! shrunk.
//!
//! Why not the heap: a cache that gives way leaves holes all over it, each too small to be given back and of no use to
//! memtables. Why huge pages: they are found with one entry of the processor's tables. Why not from the start: where
//! the host of a virtual machine has taken back what was free, a new huge page takes five times as long as the small
//! pages of its size, of which the system finds some that are still there.
//!
//! **Invariants**
//! - A frame belongs to one [`Bytes`], from `keep` to its drop, or is in one of the lists; never both, never twice.
//! - The bytes of a frame are written before anybody else has the `Bytes`, and never again before its drop.
//! - A region is allowed huge pages when all of its frames were taken, and not any more from the first one on that is
//!   given back: so what takes memory is what was touched.
//! - Regions live as long as the pool, and every `Bytes` keeps the pool.

use std::mem;
use std::ops::Deref;
use std::ptr::NonNull;
use std::sync::Arc;

use esker_vfs::pages::{self, Pages};
use parking_lot::Mutex;

use crate::budget::heap_bytes;

/// Bytes of a frame: a block of the usual size.
const FRAME_BYTES: usize = 16 << 10;
/// Frames of a region.
const REGION_FRAMES: usize = 1024;

const _: () = assert!(FRAME_BYTES.is_multiple_of(Pages::UNIT));
const _: () = assert!(REGION_FRAMES <= 1 << u16::BITS);

/// A frame: its region, and its number there.
#[derive(Clone, Copy)]
struct Place {
    region: u32,
    number: u16,
}

struct Region {
    pages: Arc<Pages>,
    /// Frames that were never taken.
    untouched: usize,
    /// Some of it was given back.
    is_broken: bool,
}

#[derive(Default)]
struct State {
    regions: Vec<Region>,
    /// Free, but still with memory.
    warm: Vec<Place>,
    /// Free, and without.
    cold: Vec<Place>,
    /// The system gave no more: the heap has to do.
    is_exhausted: bool,
}

/// A pool of frames.
#[derive(Default)]
pub(crate) struct Frames {
    state: Mutex<State>,
}

impl Frames {
    /// So many bytes, which `write` writes: in a frame if they fit into one and are worth it, else on the heap.
    pub(crate) fn fill<E>(
        self: &Arc<Self>,
        length: usize,
        write: impl FnOnce(&mut [u8]) -> Result<(), E>,
    ) -> Result<Bytes, E> {
        let usual = FRAME_BYTES / 2 + 1..=FRAME_BYTES;
        let taken = usual.contains(&length).then(|| self.take()).flatten();
        let Some((place, region)) = taken else {
            let mut bytes = vec![0; length];
            write(&mut bytes)?;
            return Ok(Bytes::from(bytes.into_boxed_slice()));
        };
        pages::take(FRAME_BYTES);
        // SAFETY: the frame lies in the region, which the pool keeps mapped.
        let start = unsafe { region.base().add(usize::from(place.number) * FRAME_BYTES) };
        let bytes = Bytes {
            start,
            length,
            owner: Owner::Frame {
                pool: Arc::clone(self),
                place,
            },
        };
        // SAFETY: the frame was taken off the lists and is at least so long, its memory is initialised, and nobody else
        // has the bytes before this call has returned them.
        write(unsafe { std::slice::from_raw_parts_mut(start.as_ptr(), length) })?;
        Ok(bytes)
    }

    fn take(&self) -> Option<(Place, Arc<Pages>)> {
        let mut state = self.state.lock();
        if state.warm.is_empty() && state.cold.is_empty() {
            state.grow();
        }
        if let Some(place) = state.warm.pop() {
            return Some((place, Arc::clone(state.pages_of(place))));
        }
        let place = state.cold.pop()?;
        let region = &mut state.regions[place.region as usize];
        if !region.is_broken {
            debug_assert!(
                region.untouched > 0,
                "cold frames of a whole region are untouched"
            );
            region.untouched -= 1;
            if region.untouched == 0 {
                region.pages.begin_huge();
            }
        }
        Some((place, Arc::clone(&region.pages)))
    }

    fn put(&self, place: Place) {
        let mut state = self.state.lock();
        debug_assert!((place.region as usize) < state.regions.len());
        state.warm.push(place);
    }

    /// Gives the memory of free frames back to the system.
    pub(crate) fn trim(&self) {
        let mut state = self.state.lock();
        let mut warm = mem::take(&mut state.warm);
        for place in &warm {
            let region = &mut state.regions[place.region as usize];
            if !mem::replace(&mut region.is_broken, true) {
                region.pages.end_huge();
            }
        }
        let pages = state.regions.iter().map(|region| Arc::clone(&region.pages));
        let pages: Vec<_> = pages.collect();
        drop(state);
        for place in &warm {
            let offset = usize::from(place.number) * FRAME_BYTES;
            // SAFETY: the frame was taken off the lists and is free, so no `Bytes` has it.
            unsafe { pages[place.region as usize].give_back(offset, FRAME_BYTES) };
        }
        self.state.lock().cold.append(&mut warm);
    }

    /// Free frames that still have memory.
    #[cfg(test)]
    fn warm(&self) -> usize {
        self.state.lock().warm.len()
    }
}

impl State {
    fn pages_of(&self, place: Place) -> &Arc<Pages> {
        &self.regions[place.region as usize].pages
    }

    fn grow(&mut self) {
        if self.is_exhausted {
            return;
        }
        debug_assert!(self.warm.is_empty() && self.cold.is_empty());
        match Pages::map_sparse(REGION_FRAMES * FRAME_BYTES) {
            Ok(pages) => {
                let region = self.regions.len() as u32;
                let frames = (0..REGION_FRAMES as u16).rev();
                self.cold
                    .extend(frames.map(|number| Place { region, number }));
                self.regions.push(Region {
                    pages: Arc::new(pages),
                    untouched: REGION_FRAMES,
                    is_broken: false,
                });
            }
            Err(error) => {
                tracing::warn!(%error, "no more address space for cached blocks; they go to the heap");
                self.is_exhausted = true;
            }
        }
    }
}

enum Owner {
    Heap,
    Frame { pool: Arc<Frames>, place: Place },
}

/// Bytes that do not change, in a frame or on the heap.
pub(crate) struct Bytes {
    start: NonNull<u8>,
    length: usize,
    owner: Owner,
}

// SAFETY: the bytes are written before the value exists and only read afterwards, and the owner keeps them.
unsafe impl Send for Bytes {}
// SAFETY: as above.
unsafe impl Sync for Bytes {}

impl Bytes {
    /// What they take of the memory.
    pub(crate) fn memory(&self) -> usize {
        match self.owner {
            Owner::Heap => heap_bytes(self.length),
            Owner::Frame { .. } => FRAME_BYTES,
        }
    }
}

impl From<Box<[u8]>> for Bytes {
    fn from(bytes: Box<[u8]>) -> Self {
        // Taken back by the drop.
        let owned = Box::leak(bytes);
        Bytes {
            length: owned.len(),
            start: NonNull::from(owned).cast(),
            owner: Owner::Heap,
        }
    }
}

impl Deref for Bytes {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        // SAFETY: the owner keeps these bytes, which nobody writes while the value lives.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.length) }
    }
}

impl Drop for Bytes {
    fn drop(&mut self) {
        match &self.owner {
            Owner::Frame { pool, place } => {
                pool.put(*place);
                pages::leave(FRAME_BYTES);
            }
            Owner::Heap => {
                let owned = NonNull::slice_from_raw_parts(self.start, self.length);
                // SAFETY: leaked from a box of this length by `from`, and dropped once, here.
                drop(unsafe { Box::from_raw(owned.as_ptr()) });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    fn content(seed: usize, length: usize) -> Box<[u8]> {
        (0..length).map(|n| (n * 31 + seed * 7) as u8).collect()
    }

    fn keep(pool: &Arc<Frames>, content: &[u8]) -> Bytes {
        let write = |bytes: &mut [u8]| {
            bytes.copy_from_slice(content);
            Ok::<_, ()>(())
        };
        pool.fill(content.len(), write).expect("written")
    }

    #[test]
    fn what_is_kept_stays_as_it_is_wherever_it_is() {
        let pool = Arc::new(Frames::default());
        // Small, usual, just fitting, too large; and more than a region.
        let lengths = [0, 100, FRAME_BYTES - 1, FRAME_BYTES, FRAME_BYTES + 1];
        let kept: Vec<(usize, usize, Bytes)> = (0..3 * REGION_FRAMES)
            .map(|n| {
                let length = lengths[n % lengths.len()];
                (n, length, keep(&pool, &content(n, length)))
            })
            .collect();
        for (n, length, bytes) in &kept {
            assert_eq!(**bytes, *content(*n, *length));
        }
        drop(kept);
        assert!(pool.warm() >= REGION_FRAMES);
    }

    #[test]
    fn frames_are_used_again_and_trimming_touches_only_free_ones() {
        let pool = Arc::new(Frames::default());
        let keep = |n| keep(&pool, &content(n, 16 << 10));
        let first: Vec<Bytes> = (0..100).map(keep).collect();
        let places: Vec<_> = first.iter().map(|bytes| bytes.as_ptr()).collect();
        drop(first);
        let again: Vec<Bytes> = (0..50).map(keep).collect();
        assert!(again.iter().all(|bytes| places.contains(&bytes.as_ptr())));
        assert_eq!(pool.warm(), 50);
        pool.trim();
        assert_eq!(pool.warm(), 0);
        for (n, bytes) in again.iter().enumerate() {
            assert_eq!(**bytes, *content(n, 16 << 10));
        }
        drop(again);
        assert_eq!(pool.warm(), 50);
        // What was given back is used before there is another region.
        pool.trim();
        let all: Vec<Bytes> = (0..REGION_FRAMES).map(keep).collect();
        assert_eq!(pool.state.lock().regions.len(), 1);
        drop(all);
    }

    #[test]
    fn threads_keep_drop_and_trim_at_once() {
        let pool = Arc::new(Frames::default());
        thread::scope(|scope| {
            for seed in 0..4 {
                let pool = &pool;
                scope.spawn(move || {
                    for round in 0..200 {
                        let length = (12 << 10) + round;
                        let kept: Vec<Bytes> = (0..8)
                            .map(|n| keep(pool, &content(seed + n, length)))
                            .collect();
                        for (n, bytes) in kept.iter().enumerate() {
                            assert_eq!(**bytes, *content(seed + n, length));
                        }
                        if round % 50 == 0 {
                            pool.trim();
                        }
                    }
                });
            }
        });
    }

    #[test]
    fn a_frame_counts_as_a_whole_and_a_failure_keeps_nothing() {
        let pool = Arc::new(Frames::default());
        let memory = |length| keep(&pool, &content(1, length)).memory();
        assert_eq!(memory(FRAME_BYTES), FRAME_BYTES);
        assert_eq!(memory(12 << 10), FRAME_BYTES);
        assert_eq!(memory(FRAME_BYTES + 1), heap_bytes(FRAME_BYTES + 1));
        pool.trim();
        assert_eq!(memory(FRAME_BYTES), FRAME_BYTES);
        assert!(pool.fill(16 << 10, |_| Err(())).is_err());
        assert!(pool.fill(100, |_| Err(())).is_err());
        assert_eq!(pool.warm(), 1);
    }
}
