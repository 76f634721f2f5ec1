//! Memory in pages, straight from the operating system: what is not used is given back at once, as a whole or page by
//! page, which a heap cannot do.
//!
//! Neighbours: the block cache of the engine keeps its blocks in it, memtables their larger chunks.
//!
//! **Invariants**
//! - A region is mapped from its making to its drop, private and anonymous: all of it is readable and writable, and
//!   bytes that nobody has written since they were given back are zero.
//! - In a region whose huge pages are over, only pages of [`Pages::UNIT`] come: what takes memory is what was touched,
//!   whatever the system is set to.
//! - [`in_use`] counts each dense region from its making to its drop, whatever its users have touched of it.

use std::io;
use std::mem;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicUsize, Ordering};

use rustix::mm::{Advice, MapFlags, ProtFlags};

/// Asks the processor to bring these bytes into its second cache: they will be read soon, in an order that it does not
/// foresee.
#[inline]
pub fn prefetch(bytes: &[u8]) {
    for line in bytes.chunks(LINE_BYTES) {
        prefetch_line(line.as_ptr());
    }
}

/// The same for what lies in one line of the cache; nothing need be there.
#[inline]
pub fn prefetch_line(address: *const u8) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T1, _mm_prefetch};
        // SAFETY: at any address this reads and changes nothing.
        unsafe { _mm_prefetch::<_MM_HINT_T1>(address.cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}

/// Bytes that processors of today have in their caches together.
const LINE_BYTES: usize = 64;

/// Bytes of regions that somebody uses.
static IN_USE: AtomicUsize = AtomicUsize::new(0);

/// Bytes of all regions of the process that are in use: dense ones as a whole, of others what was [taken](take).
pub fn in_use() -> usize {
    IN_USE.load(Ordering::Relaxed)
}

/// So many bytes of a sparse region come into use.
pub fn take(bytes: usize) {
    IN_USE.fetch_add(bytes, Ordering::Relaxed);
}

/// So many bytes of a sparse region that were [taken](take) are free again.
pub fn leave(bytes: usize) {
    let before = IN_USE.fetch_sub(bytes, Ordering::Relaxed);
    debug_assert!(before >= bytes, "what is left was taken");
}

/// A region of memory. It takes address space at once, and memory as it is touched.
pub struct Pages {
    base: NonNull<u8>,
    bytes: usize,
    /// What of it counts as used as long as it is there: all of a dense region, nothing of a sparse one.
    counted: usize,
}

// SAFETY: the region is plain memory that belongs to this value alone; whoever shares parts of it sees to their
// exclusive use (see `Pages::base`).
unsafe impl Send for Pages {}
// SAFETY: `&Pages` gives out an address and nothing else; using it is the caller's promise.
unsafe impl Sync for Pages {}

impl Pages {
    /// Smallest unit that can be given back; offsets and lengths are multiples of it.
    pub const UNIT: usize = 4096;

    /// Bytes of a huge page, which takes memory as a whole. A dense region of a multiple of it begins at a multiple of
    /// it.
    pub const HUGE: usize = 2 << 20;

    /// A region of this many bytes, more than 0, all of them zero, that will be used as a whole: of huge pages, if it
    /// has room for them and the system has them.
    ///
    /// # Errors
    /// The system has no address space left, or allows no more.
    pub fn map_dense(bytes: usize) -> io::Result<Pages> {
        let mut pages = Self::map(bytes)?;
        if bytes.is_multiple_of(Self::HUGE) {
            // Systems of today place such regions well by themselves.
            if !pages.base.addr().get().is_multiple_of(Self::HUGE) {
                pages = Self::map(bytes + Self::HUGE)?.cut_to_huge(bytes);
            }
            pages.advise(Advice::LinuxHugepage);
        }
        take(bytes);
        pages.counted = bytes;
        Ok(pages)
    }

    /// The part of this many bytes that begins at a multiple of [`Pages::HUGE`].
    fn cut_to_huge(self, bytes: usize) -> Pages {
        let front = self.base.addr().get().next_multiple_of(Self::HUGE) - self.base.addr().get();
        let whole = mem::ManuallyDrop::new(self);
        // SAFETY: at most HUGE less than the base, and there are HUGE bytes more than the part has.
        let (base, end) = unsafe { (whole.base.add(front), whole.base.add(front + bytes)) };
        for (start, length) in [(whole.base, front), (end, Self::HUGE - front)] {
            if length > 0 {
                // SAFETY: these bytes of the region are in front of the part or behind it, and nobody knows them.
                let _ = unsafe { rustix::mm::munmap(start.as_ptr().cast(), length) };
            }
        }
        Pages {
            base,
            bytes,
            counted: 0,
        }
    }

    /// A region of this many bytes, more than 0, all of them zero, that begins with small pages.
    ///
    /// # Errors
    /// As [`Pages::map_dense`].
    pub fn map_sparse(bytes: usize) -> io::Result<Pages> {
        let pages = Self::map(bytes)?;
        pages.end_huge();
        Ok(pages)
    }

    /// All of the region is in use: the system may put its pages together to huge ones when it has time.
    pub fn begin_huge(&self) {
        self.advise(Advice::LinuxHugepage);
    }

    /// No more huge pages come, also not where there are pages now: parts of the region will be given back and used
    /// again.
    pub fn end_huge(&self) {
        self.advise(Advice::LinuxNoHugepage);
    }

    /// Says how the region will be used. A system that does not want to know it goes on as before.
    fn advise(&self, advice: Advice) {
        // SAFETY: the region is mapped, and this advice does not change what is in it.
        let _ = unsafe { rustix::mm::madvise(self.base.as_ptr().cast(), self.bytes, advice) };
    }

    fn map(bytes: usize) -> io::Result<Pages> {
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
        Ok(Pages {
            base,
            bytes,
            counted: 0,
        })
    }

    /// Where it begins; valid as long as the region. Whoever reads or writes through it sees to it that nobody else
    /// uses the same bytes meanwhile.
    pub fn base(&self) -> NonNull<u8> {
        self.base
    }

    /// Gives the memory of a part back to the system; it is zero when it is next touched. If the system does not take
    /// it, nothing has happened.
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
        // SAFETY: mapped by `map` with this length, unmapped once, here; whoever used it keeps the value alive.
        let _ = unsafe { rustix::mm::munmap(self.base.as_ptr().cast(), self.bytes) };
        leave(self.counted);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_that_was_given_back_is_zero_and_the_rest_stays() {
        let pages = Pages::map_sparse(4 * Pages::UNIT).expect("maps");
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

    #[test]
    fn dense_regions_are_counted_and_of_sparse_ones_what_is_taken() {
        let large = 64 * Pages::HUGE;
        let before = in_use();
        let (dense, sparse) = (Pages::map_dense(large), Pages::map_sparse(large));
        // Other tests have regions, too, but not such large ones.
        let about = |expected: usize| in_use().abs_diff(before + expected) < large / 4;
        assert!(about(large));
        take(large);
        assert!(about(2 * large));
        drop(dense);
        assert!(about(large));
        leave(large);
        drop(sparse);
        assert!(about(0));
    }

    #[test]
    fn a_dense_region_begins_where_a_huge_page_can() {
        // Two that follow each other, with something odd between them, are not both placed well by accident.
        let regions: Vec<Pages> = (0..8)
            .map(|n| match n % 2 {
                0 => Pages::map_dense(Pages::HUGE),
                _ => Pages::map_dense(3 * Pages::UNIT),
            })
            .map(|region| region.expect("maps"))
            .collect();
        for region in &regions {
            // SAFETY: nobody else uses the region.
            let all =
                unsafe { std::slice::from_raw_parts_mut(region.base().as_ptr(), region.bytes) };
            assert!(all.iter().all(|byte| *byte == 0));
            all.fill(1);
            if region.bytes == Pages::HUGE {
                assert!(region.base().addr().get().is_multiple_of(Pages::HUGE));
            }
        }
        let cut = Pages::map(2 * Pages::HUGE).expect("maps");
        let cut = cut.cut_to_huge(Pages::HUGE);
        assert!(cut.base().addr().get().is_multiple_of(Pages::HUGE));
        // SAFETY: nobody else uses the region.
        unsafe { std::slice::from_raw_parts_mut(cut.base().as_ptr(), cut.bytes) }.fill(1);
    }
}
