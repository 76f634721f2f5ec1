//! Arena of one memtable: chunks that grow, are filled by many threads at once, and are freed together.
//!
//! Neighbours: only `skiplist` allocates here. Large chunks are regions of pages, which the system has back as soon as
//! they are dropped: on the heap a flushed table was there for another second, while the cache had been told that its
//! memory is free.
//!
//! **Invariants**
//! - A chunk never moves and is never freed while the arena is shared: what was allocated stays where it is until the
//!   arena is dropped or cleared, and both need exclusive access.
//! - Two allocations never overlap: inside a chunk the place is taken by one `fetch_add` on `used`.
//! - An arena without allocations owns no memory: thousands of empty trees cost nothing here.

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::ptr::{self, NonNull};
use std::sync::atomic::Ordering;

use esker_vfs::pages::Pages;

use crate::sync::{AtomicPtr, AtomicUsize, Mutex};

/// Alignment of every allocation.
pub(super) const ALIGN: usize = 8;
/// Size of the first chunk; every further one is twice as large as the one before.
const FIRST_CHUNK_BYTES: usize = 2 * 1024;
/// Chunks do not grow beyond this: a huge page, which a list of rows in random places is the better for.
const MAX_CHUNK_BYTES: usize = Pages::HUGE;
/// Chunks of this size and above are pages of their own: a small transaction does not ask the system for memory.
const PAGES_FROM_BYTES: usize = 256 * 1024;
/// An allocation larger than this share of the next chunk gets a chunk of its own.
const OWN_CHUNK_DIVISOR: usize = 4;
/// The largest chunk that `clear` keeps for the next use.
pub(super) const KEPT_CHUNK_BYTES: usize = 16 * 1024;

/// Header of a chunk; the usable bytes follow in an allocation of their own.
struct Chunk {
    base: NonNull<u8>,
    capacity: usize,
    used: AtomicUsize,
    /// The region it is; none on the heap.
    pages: Option<Pages>,
}

impl Chunk {
    /// A chunk of at least this many bytes.
    fn new(bytes: usize) -> Box<Chunk> {
        if bytes < PAGES_FROM_BYTES {
            return Self::on_heap(bytes);
        }
        let capacity = bytes.next_multiple_of(Pages::UNIT);
        // Without address space there may still be room between other things.
        let Ok(pages) = Pages::map_dense(capacity) else {
            return Self::on_heap(bytes);
        };
        Box::new(Chunk {
            base: pages.base(),
            capacity,
            used: AtomicUsize::new(0),
            pages: Some(pages),
        })
    }

    fn on_heap(capacity: usize) -> Box<Chunk> {
        let layout = Self::layout(capacity);
        // SAFETY: the layout has a size above zero (all callers ask for at least `FIRST_CHUNK_BYTES` or a node).
        let raw = unsafe { alloc(layout) };
        let Some(base) = NonNull::new(raw) else {
            handle_alloc_error(layout)
        };
        Box::new(Chunk {
            base,
            capacity,
            used: AtomicUsize::new(0),
            pages: None,
        })
    }

    fn layout(capacity: usize) -> Layout {
        assert!(capacity > 0);
        Layout::from_size_align(capacity, ALIGN).expect("a chunk is far below isize::MAX")
    }

    /// Takes `size` bytes, or nothing if they do not fit. An attempt that fails in a race leaves `used` beyond the
    /// capacity, which only says that the chunk is full.
    fn take(&self, size: usize) -> Option<NonNull<u8>> {
        if size > self.unused() {
            return None;
        }
        let offset = self.used.fetch_add(size, Ordering::Relaxed);
        if offset.checked_add(size)? > self.capacity {
            return None;
        }
        // SAFETY: `offset + size <= capacity`, so the result points into (or, never for size > 0, one past) the
        // allocation that `base` owns.
        Some(unsafe { self.base.add(offset) })
    }

    fn unused(&self) -> usize {
        self.capacity
            .saturating_sub(self.used.load(Ordering::Relaxed))
    }
}

impl Drop for Chunk {
    fn drop(&mut self) {
        if self.pages.is_some() {
            return;
        }
        // SAFETY: `base` came from `alloc` with this very layout and is freed once, here.
        unsafe { dealloc(self.base.as_ptr(), Self::layout(self.capacity)) };
    }
}

/// What the slow path changes, under one lock.
struct Chunks {
    /// Owned chunks, as raw pointers because `current` points at one of them and readers follow it concurrently.
    all: Vec<NonNull<Chunk>>,
    next_bytes: usize,
}

/// A growing set of chunks.
pub(super) struct Arena {
    /// The chunk allocations are taken from; null before the first one.
    current: AtomicPtr<Chunk>,
    /// Capacity of all chunks together.
    allocated: AtomicUsize,
    chunks: Mutex<Chunks>,
}

// SAFETY: the raw chunk pointers are owned by this arena alone; shared access only reads `base` and `capacity`
// (constant after construction) and uses the atomic `used`. Freeing needs `&mut self`.
unsafe impl Send for Arena {}
// SAFETY: as above.
unsafe impl Sync for Arena {}

impl Arena {
    pub(super) fn new() -> Self {
        Arena {
            current: AtomicPtr::new(ptr::null_mut()),
            allocated: AtomicUsize::new(0),
            chunks: Mutex::new(Chunks {
                all: Vec::new(),
                next_bytes: FIRST_CHUNK_BYTES,
            }),
        }
    }

    /// Memory of at least `size` bytes, aligned to [`ALIGN`], not initialised, valid as long as the arena.
    pub(super) fn allocate(&self, size: usize) -> NonNull<u8> {
        assert!(size > 0);
        let size = size.next_multiple_of(ALIGN);
        loop {
            let current = self.current.load(Ordering::Acquire);
            // SAFETY: a non-null `current` points at a chunk that lives as long as the arena.
            if let Some(place) = unsafe { current.as_ref() }.and_then(|chunk| chunk.take(size)) {
                return place;
            }
            if let Some(place) = self.grow(current, size) {
                return place;
            }
        }
    }

    /// Adds a chunk unless another thread did since `seen` was loaded. Gives the memory if it came from a chunk of
    /// its own.
    fn grow(&self, seen: *mut Chunk, size: usize) -> Option<NonNull<u8>> {
        let mut chunks = self.chunks.lock();
        if size > chunks.next_bytes / OWN_CHUNK_DIVISOR {
            let chunk = self.adopt(&mut chunks, size);
            // SAFETY: just made, lives as long as the arena.
            let place = unsafe { chunk.as_ref() }.take(size);
            assert!(place.is_some(), "a chunk made for one allocation holds it");
            return place;
        }
        if self.current.load(Ordering::Acquire) == seen {
            let bytes = chunks.next_bytes;
            chunks.next_bytes = (bytes * 2).min(MAX_CHUNK_BYTES);
            let chunk = self.adopt(&mut chunks, bytes);
            self.current.store(chunk.as_ptr(), Ordering::Release);
        }
        None
    }

    fn adopt(&self, chunks: &mut Chunks, bytes: usize) -> NonNull<Chunk> {
        let chunk = Chunk::new(bytes);
        self.allocated.fetch_add(chunk.capacity, Ordering::Relaxed);
        let chunk = NonNull::from(Box::leak(chunk));
        chunks.all.push(chunk);
        chunk
    }

    /// Bytes handed out (approximately: the unused rest of closed chunks counts as used).
    pub(super) fn used_bytes(&self) -> usize {
        let current = self.current.load(Ordering::Acquire);
        // SAFETY: as in `allocate`.
        let unused = unsafe { current.as_ref() }.map_or(0, Chunk::unused);
        self.allocated
            .load(Ordering::Relaxed)
            .saturating_sub(unused)
    }

    /// Bytes taken from the system.
    pub(super) fn allocated_bytes(&self) -> usize {
        self.allocated.load(Ordering::Relaxed)
    }

    /// Forgets everything allocated; keeps one small chunk for the next use.
    pub(super) fn clear(&mut self) {
        let chunks = self.chunks.get_mut();
        let mut kept: Option<NonNull<Chunk>> = None;
        for chunk in chunks.all.drain(..) {
            // SAFETY: owned by this arena, and `&mut self` says nobody else uses it.
            let capacity = unsafe { chunk.as_ref() }.capacity;
            if kept.is_none() && (FIRST_CHUNK_BYTES..=KEPT_CHUNK_BYTES).contains(&capacity) {
                kept = Some(chunk);
            } else {
                // SAFETY: made by `Box::leak` in `adopt`, drained from the list, so freed once.
                drop(unsafe { Box::from_raw(chunk.as_ptr()) });
            }
        }
        let mut allocated = 0;
        chunks.next_bytes = FIRST_CHUNK_BYTES;
        if let Some(chunk) = kept {
            // SAFETY: exclusive access, see above.
            let header = unsafe { chunk.as_ref() };
            header.used.store(0, Ordering::Relaxed);
            allocated = header.capacity;
            chunks.next_bytes = (allocated * 2).min(MAX_CHUNK_BYTES);
            chunks.all.push(chunk);
        }
        self.current = AtomicPtr::new(kept.map_or(ptr::null_mut(), NonNull::as_ptr));
        self.allocated = AtomicUsize::new(allocated);
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        for chunk in self.chunks.get_mut().all.drain(..) {
            // SAFETY: made by `Box::leak` in `adopt`, in the list once, and nobody can use the arena any more.
            drop(unsafe { Box::from_raw(chunk.as_ptr()) });
        }
    }
}
