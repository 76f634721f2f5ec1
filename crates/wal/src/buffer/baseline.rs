//! Variant B: one lock around everything.
//!
//! Source: Aether, section 5.1, "baseline": a thread locks the log buffer, gets its place, copies
//! its record and releases it, and unlocks. Threads that come meanwhile wait.
//!
//! *Release* is here what it is in all variants but CDME: the record's length word is stored last,
//! and the consumer takes records up to the first word that is missing (`ring`). A separate
//! released LSN would be stored by the same thread in the same critical section.
//!
//! A streamed record is the exception: it is larger than what the consumer takes at a time, so the
//! consumer must work while it is filled, and it is filled outside the lock.
//!
//! **Invariants**
//! - At most one record is being filled at any time, streamed ones apart.

use super::admission::Admission;
use crate::lsn::Lsn;

pub(super) fn insert(admission: &Admission, bytes: u64, fill: &impl Fn(Lsn)) -> Option<Lsn> {
    let held = admission.lock();
    let start = admission.reserve(&held, bytes)?;
    fill(start);
    drop(held);
    Some(start)
}
