//! A reserve of addresses for allocations that fail, where the process may have only so many (`ulimit -v`).
//!
//! Neighbours: `heap` comes here with an allocation that has failed, and before it grants a large value; `serve` has
//! the reserve taken. docs/decisions/memory.md says why.
//!
//! **Invariants**
//! - A piece is mapped and nobody writes to it: it takes addresses and no memory. It goes back to the system for an
//!   allocation that has failed and for nothing else, and is taken again when somebody asks for room.
//! - Nothing here allocates after [`keep`]: an allocation may be what waits for it.
//! - Without a limit of addresses there is no reserve, and the heap is as it was.

use std::ffi::{c_int, c_long};
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;
use std::time::Duration;

use esker_vfs::pages::Pages;
use rustix::process::{Resource, getrlimit};

/// Bytes of a piece: room for a long value, and for what it is copied to.
const PIECE_BYTES: usize = 64 << 20;
/// Pieces that there are at most.
const MOST_PIECES: usize = 16;
/// The reserve takes one part in so many of the addresses that are left at the start.
const SHARE: usize = 4;

/// How long an allocation waits for others to give memory back, when the reserve is gone, too.
const PAUSE: Duration = Duration::from_millis(1);
/// See [`PAUSE`].
const PAUSES: usize = 5000;

static RESERVE: OnceLock<Reserve> = OnceLock::new();

struct Reserve {
    /// Those that are there, with room for all: neither they nor the lock, a word of memory on Linux, allocate.
    pieces: Mutex<Vec<Pages>>,
    /// How many there should be.
    whole: usize,
    is_whole: AtomicBool,
}

impl Reserve {
    /// One of so many pieces, as far as the system gives them.
    fn new(whole: usize) -> Self {
        let reserve = Reserve {
            pieces: Mutex::new(Vec::with_capacity(whole)),
            whole,
            is_whole: AtomicBool::new(false),
        };
        reserve.refill();
        reserve
    }

    /// None panics with it.
    fn pieces(&self) -> MutexGuard<'_, Vec<Pages>> {
        self.pieces.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes what is missing; false if the system has no room for it.
    fn refill(&self) -> bool {
        let mut pieces = self.pieces();
        debug_assert!(pieces.len() <= self.whole && self.whole <= pieces.capacity());
        while pieces.len() < self.whole {
            let Ok(piece) = Pages::map_sparse(PIECE_BYTES) else {
                return false;
            };
            pieces.push(piece);
        }
        self.is_whole.store(true, Ordering::Release);
        true
    }

    /// Gives one piece back to the system; false if there is none.
    fn give_up(&self) -> bool {
        let mut pieces = self.pieces();
        self.is_whole.store(false, Ordering::Release);
        pieces.pop().is_some()
    }

    /// Tries an allocation that has failed again, with one piece less each time, and then in the hope that others give
    /// back what they have: the end of the process would cost them more.
    #[cold]
    fn allocate(&self, attempt: impl Fn() -> *mut u8) -> *mut u8 {
        let mut pauses = 0;
        while pauses < PAUSES {
            if !self.give_up() {
                thread::sleep(PAUSE);
                pauses += 1;
            }
            let start = attempt();
            if !start.is_null() {
                return start;
            }
        }
        ptr::null_mut()
    }
}

/// Takes the reserve where addresses are limited, and has the heaps give back theirs.
/// To be called before there are threads.
pub(crate) fn keep() {
    if getrlimit(Resource::As).current.is_none() {
        return;
    }
    return_addresses();
    let has_room = |pieces: &usize| Pages::map_sparse(SHARE * pieces * PIECE_BYTES).is_ok();
    let whole = (1..=MOST_PIECES).rev().find(has_room).unwrap_or(0);
    let is_first = RESERVE.set(Reserve::new(whole)).is_ok();
    debug_assert!(is_first, "a process has one reserve");
    tracing::info!("addresses are limited: {whole} times 64 MiB of them are kept in reserve");
}

/// Heaps take addresses in large pieces and keep them for ever; a reserve that was given up could not come back.
fn return_addresses() {
    mi_option_set(ARENA_RESERVE, 0);
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    {
        /// `M_ARENA_MAX` of malloc.h. The C library has a heap of its own, which zstd uses: 64 MiB for each of the
        /// first threads, 16 times on two processors.
        const MOST_ARENAS: c_int = -8;
        // SAFETY: the signature is that of malloc.h; it may be called at any time.
        unsafe extern "C" {
            safe fn mallopt(parameter: c_int, value: c_int) -> c_int;
        }
        let is_set = mallopt(MOST_ARENAS, 1);
        debug_assert_eq!(is_set, 1, "the C library knows the parameter");
    }
}

/// `mi_option_arena_reserve` of mimalloc.h: how many KiB mimalloc takes at a time, 1 GiB by itself. At 0 it takes what
/// an allocation needs that has no room in what it has, and gives that back when it is freed, whichever thread does it.
const ARENA_RESERVE: c_int = 23;

// SAFETY: the signature is that of mimalloc.h, which the global allocator links; an option may be set at any time.
unsafe extern "C" {
    safe fn mi_option_set(option: c_int, value: c_long);
}

/// Whether there is a reserve.
pub(crate) fn is_kept() -> bool {
    RESERVE.get().is_some()
}

/// Whether all of the reserve is there, or could be taken again just now, and the system has as much as a piece beside
/// it, for those who ask nobody: stacks of threads, the C library.
pub(crate) fn is_whole() -> bool {
    RESERVE.get().is_none_or(|reserve| {
        let is_whole = reserve.is_whole.load(Ordering::Acquire) || reserve.refill();
        is_whole && Pages::map_sparse(PIECE_BYTES).is_ok()
    })
}

/// Tries an allocation that has failed again, from the reserve.
#[cold]
pub(crate) fn allocate(attempt: impl Fn() -> *mut u8) -> *mut u8 {
    match RESERVE.get() {
        Some(reserve) => reserve.allocate(attempt),
        None => ptr::null_mut(),
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn the_option_is_that_of_arenas() {
        unsafe extern "C" {
            safe fn mi_option_get(option: c_int) -> c_long;
        }
        assert_eq!(mi_option_get(ARENA_RESERVE), 1 << 20, "1 GiB in KiB");
    }

    #[test]
    fn pieces_go_one_by_one_and_come_back() {
        let reserve = Reserve::new(4);
        let held = || reserve.pieces().len();
        assert_eq!(held(), 4);
        // An allocation that fails twice costs two pieces.
        let tries = Cell::new(0);
        let start = reserve.allocate(|| {
            tries.set(tries.get() + 1);
            match tries.get() {
                2 => ptr::dangling_mut(),
                _ => ptr::null_mut(),
            }
        });
        assert!(!start.is_null());
        assert_eq!(held(), 2);
        assert!(reserve.refill());
        assert_eq!(held(), 4);
    }
}
