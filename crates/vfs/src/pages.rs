//! Memory in pages, straight from the operating system: what is not used can be given back page by page, which a heap cannot do.
//!
//! Neighbours: the block cache of the engine keeps its blocks in it.
//!
//! **Invariants**
//! - A region is mapped from its making to its drop, private and anonymous: all of it is readable and writable, and bytes that
//!   nobody has written since they were given back are zero.

use std::io;
use std::ptr::{self, NonNull};

use rustix::mm::{Advice, MapFlags, ProtFlags};

/// A region of memory. It takes address space at once, and memory as it is touched.
pub struct Pages {
    base: NonNull<u8>,
    bytes: usize,
}

// SAFETY: the region is plain memory that belongs to this value alone; who shares parts of it sees to their exclusive use
// (see `Pages::base`).
unsafe impl Send for Pages {}
// SAFETY: `&Pages` gives out an address and nothing else; using it is the caller's promise.
unsafe impl Sync for Pages {}

impl Pages {
    /// Smallest unit that can be given back; offsets and lengths are multiples of it.
    pub const UNIT: usize = 4096;

    /// A region of this many bytes, more than 0, all of them zero.
    ///
    /// # Errors
    /// The system has no address space left, or allows no more.
    pub fn map(bytes: usize) -> io::Result<Pages> {
        assert!(bytes > 0);
        // SAFETY: a new mapping at an address the system chooses touches nothing that exists.
        let base = unsafe {
            rustix::mm::mmap_anonymous(
                ptr::null_mut(),
                bytes,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::PRIVATE | MapFlags::NORESERVE,
            )?
        };
        let base = NonNull::new(base.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Pages { base, bytes })
    }

    /// Where it begins; valid as long as the region. Whoever reads or writes through it sees to it that nobody else uses the same
    /// bytes meanwhile.
    pub fn base(&self) -> NonNull<u8> {
        self.base
    }

    /// Gives the memory of a part back to the system; it is zero when it is next touched. If the system does not take it,
    /// nothing has happened.
    ///
    /// # Safety
    /// Nobody uses the part, or has a reference into it.
    pub unsafe fn give_back(&self, offset: usize, bytes: usize) {
        assert!(offset.is_multiple_of(Self::UNIT) && bytes.is_multiple_of(Self::UNIT));
        assert!(offset <= self.bytes && bytes <= self.bytes - offset);
        // SAFETY: the part lies in the region, and the caller's promise is that nobody uses it.
        let _ = unsafe {
            let part = self.base.add(offset).as_ptr().cast();
            rustix::mm::madvise(part, bytes, Advice::LinuxDontNeed)
        };
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: mapped by `map` with this length, unmapped once, here; who used it keeps the value alive.
        let _ = unsafe { rustix::mm::munmap(self.base.as_ptr().cast(), self.bytes) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_that_was_given_back_is_zero_and_the_rest_stays() {
        let pages = Pages::map(4 * Pages::UNIT).expect("maps");
        // SAFETY: nobody else knows the region.
        let all =
            || unsafe { std::slice::from_raw_parts_mut(pages.base().as_ptr(), 4 * Pages::UNIT) };
        assert!(all().iter().all(|byte| *byte == 0));
        all().fill(7);
        // SAFETY: no reference is left.
        unsafe { pages.give_back(Pages::UNIT, 2 * Pages::UNIT) };
        let sums: Vec<usize> = all()
            .chunks(Pages::UNIT)
            .map(|page| page.iter().map(|byte| usize::from(*byte)).sum())
            .collect();
        let full = 7 * Pages::UNIT;
        assert_eq!(sums, [full, 0, 0, full]);
    }
}
