//! The heap of the process: mimalloc, see docs/decisions/allocator.md.
//!
//! Neighbours: `serve` hands [`reclaim`] to the server, whose memory budget calls it when values take much.

// Many small buffers of many sessions on two or more threads: the system allocator keeps more memory
// and takes longer. Without huge pages: one small thing that is left in one would keep 2 MiB.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

// SAFETY: the signature is that of mimalloc.h, which the global allocator links; any thread may call it at any time.
unsafe extern "C" {
    safe fn mi_collect(force: bool);
}

/// Gives what the heap keeps free back to the system, but for pages that belong to other threads.
pub(crate) fn reclaim() {
    mi_collect(true);
}
