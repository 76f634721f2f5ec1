//! What the measurements of disks share.

use std::time::Duration;

use rustix::param::page_size;
use rustix::time::{ClockId, clock_gettime};

/// A page-aligned part of a buffer that is a page longer, as direct I/O wants it.
pub fn aligned(buf: &mut [u8], len: usize) -> &mut [u8] {
    let skip = buf.as_ptr().align_offset(page_size());
    &mut buf[skip..skip + len]
}

/// Processor time of this process so far.
pub fn cpu_time() -> Duration {
    let t = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(t.tv_sec as u64, t.tv_nsec as u32)
}
