//! The heap of the process: mimalloc, see docs/decisions/allocator.md, and a count of what it has handed out.
//!
//! Neighbours: `serve` hands [`HEAP`] to the server, whose memory budget asks it what is in use and whether there is
//! room, and has what is free given back. `reserve` has what an allocation takes that has failed.
//!
//! **Invariants**
//! - What is in use is the sum of what all threads have told and what each still keeps to itself, which is less than
//!   [`STEP`]; a thread that ends tells everything.
//! - Counting allocates nothing, and allocating takes no lock and touches no memory that other threads write, but for
//!   once in [`STEP`] bytes.

use std::alloc::{GlobalAlloc, Layout};
use std::cell::Cell;
use std::sync::atomic::{AtomicIsize, Ordering};

use esker_vfs::Heap;
use mimalloc::MiMalloc;

use crate::reserve;

// Many small buffers of many sessions on two or more threads: the system allocator keeps more memory
// and takes longer. Without huge pages: one small thing that is left in one would keep 2 MiB.
#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// The heap, for the memory budget.
pub(crate) const HEAP: Heap = Heap {
    in_use,
    has_room,
    give_back: reclaim,
};

/// Nothing that is smaller asks for room.
const LARGE_BYTES: usize = 1 << 20;

/// A thread keeps no more than so many bytes to itself, given out or taken back.
const STEP: isize = 32 << 10;

/// Bytes handed out and not given back, as far as threads have told. It may be below zero for a moment: a thread frees
/// what another has allocated and not told yet.
static TOLD: AtomicIsize = AtomicIsize::new(0);

/// What a thread has not told.
struct Untold(Cell<isize>);

impl Drop for Untold {
    fn drop(&mut self) {
        TOLD.fetch_add(self.0.take(), Ordering::Relaxed);
    }
}

thread_local! {
    static UNTOLD: Untold = const { Untold(Cell::new(0)) };
}

#[inline]
fn count(bytes: isize) {
    let counted = UNTOLD.try_with(|Untold(own)| {
        let sum = own.get() + bytes;
        if (-STEP..=STEP).contains(&sum) {
            own.set(sum);
        } else {
            own.set(0);
            TOLD.fetch_add(sum, Ordering::Relaxed);
        }
    });
    if counted.is_err() {
        // The thread is ending.
        TOLD.fetch_add(bytes, Ordering::Relaxed);
    }
}

/// Mimalloc, counted, with a reserve.
struct Counting;

// SAFETY: every call goes to mimalloc with the arguments it came with, and neither counting nor the reserve allocates
// or unwinds.
unsafe impl GlobalAlloc for Counting {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise.
        let attempt = || unsafe { MiMalloc.alloc(layout) };
        let mut start = attempt();
        if start.is_null() {
            start = reserve::allocate(attempt);
        }
        if !start.is_null() {
            count(layout.size() as isize);
        }
        start
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise.
        let attempt = || unsafe { MiMalloc.alloc_zeroed(layout) };
        let mut start = attempt();
        if start.is_null() {
            start = reserve::allocate(attempt);
        }
        if !start.is_null() {
            count(layout.size() as isize);
        }
        start
    }

    #[inline]
    unsafe fn dealloc(&self, start: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise.
        unsafe { MiMalloc.dealloc(start, layout) };
        count(-(layout.size() as isize));
    }

    #[inline]
    unsafe fn realloc(&self, start: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        // SAFETY: the caller's promise; what cannot grow stays as it is.
        let attempt = || unsafe { MiMalloc.realloc(start, layout, new_size) };
        let mut moved = attempt();
        if moved.is_null() {
            moved = reserve::allocate(attempt);
        }
        if !moved.is_null() {
            count(new_size as isize - layout.size() as isize);
        }
        moved
    }
}

// SAFETY: the signature is that of mimalloc.h, which the global allocator links; any thread may call it at any time.
unsafe extern "C" {
    safe fn mi_collect(force: bool);
}

/// Whether the heap could hand out so many bytes and leave the reserve whole. Where there is none, nobody is refused.
fn has_room(bytes: usize) -> bool {
    if bytes < LARGE_BYTES || !reserve::is_kept() {
        return true;
    }
    let room = || reserve::is_whole() && succeeds(bytes);
    room() || {
        // What others have freed may be with the heap still.
        reclaim();
        room()
    }
}

/// Whether an allocation of so many bytes, more than 0, succeeds now. Nobody writes to them, so they take no memory.
fn succeeds(bytes: usize) -> bool {
    debug_assert!(bytes > 0);
    let Ok(layout) = Layout::from_size_align(bytes, 1) else {
        return false;
    };
    // SAFETY: the layout has a size above zero.
    let start = unsafe { MiMalloc.alloc(layout) };
    if start.is_null() {
        return false;
    }
    // SAFETY: allocated just now with this layout, and nobody has the address.
    unsafe { MiMalloc.dealloc(start, layout) };
    true
}

/// Gives what the heap keeps free back to the system, but for pages that belong to other threads.
fn reclaim() {
    mi_collect(true);
}

/// Bytes that the heap has handed out and not got back.
fn in_use() -> Option<usize> {
    Some(TOLD.load(Ordering::Relaxed).max(0) as usize)
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    const MIB: usize = 1 << 20;

    #[test]
    fn what_one_thread_allocates_and_another_frees_is_counted() {
        let used = || in_use().expect("this heap counts");
        let before = used();
        let mut large = thread::spawn(|| vec![1_u8; 64 * MIB])
            .join()
            .expect("allocates");
        // Other tests of this process allocate, too, but not as much.
        assert!(used() > before + 60 * MIB);
        large.resize(96 * MIB, 1);
        assert!(used() > before + 90 * MIB);
        let small: Vec<Box<[u8]>> = (0..16 * 1024).map(|_| vec![1_u8; 1024].into()).collect();
        assert!(used() > before + 106 * MIB);
        thread::spawn(move || drop((large, small)))
            .join()
            .expect("frees");
        assert!(used() < before + 4 * MIB);
    }
}
