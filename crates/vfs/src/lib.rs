//! The file system, clock and randomness behind one interface.
//!
//! Everything above this crate receives an [`Env`] and touches the outside world through it, so that a whole engine
//! can run on the simulated disk of [`sim`], lose power at any operation, and be judged by what it reads back. Parts:
//! [`env`] (the bundle that is passed down) · `os` (the real machine), [`sim`] (the simulated one), `slow` (slower
//! syncs), `measured` (figures of each file) · [`machine`] (memory and processors), [`threads`] (processor time, who
//! waits), [`pages`] (memory in pages).
//!
//! **Invariants**
//! - `std::fs`, wall clock and ambient randomness are used in this crate and nowhere else.
//! - A write is durable only after [`File::sync_data`] (or `sync_all`) of that file returned `Ok`;
//!   a name (create, rename, remove) only after [`Fs::sync_dir`] of its directory returned `Ok`.
//! - After a failed sync nothing may be assumed about the bytes written since the last good one,
//!   and syncing again proves nothing.

mod env;
mod fs;
pub mod machine;
mod measured;
mod os;
mod outside;
pub mod pages;
pub mod sim;
mod slow;
pub mod threads;

pub use env::{Clock, Env, Heap, Random};
pub use fs::{DirLock, File, Fs, OpenMode, SHARE_ALIGN};
pub use measured::{FileFigures, IoFigures, MeasuredFs};
pub use os::{OsClock, OsFs, OsRandom};
pub use outside::{OutsideFile, OutsideKind};
pub use slow::SlowFs;
