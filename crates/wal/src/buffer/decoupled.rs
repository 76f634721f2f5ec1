//! Variant D: a lock around the reservation only; filling goes on in parallel.
//!
//! Source: Aether, section 5.3, "decoupled buffer fill". Insertion has three steps: acquire a
//! place, fill it, release it. Only the first must be exclusive.
//!
//! The paper must also release in LSN order, because its consumer knows only one released LSN: a
//! thread that is done waits for those with earlier places. Our ring makes that step unnecessary.
//! Each record is published by its own length word, the consumer walks over records anyway (a block
//! of the log holds whole ones) and stops at the first that is missing. So the order of release is
//! kept by the consumer, and no appender waits for another after it has its place. What it costs is
//! that the consumer clears what it took.
//!
//! **Invariants**
//! - The lock is never held while bytes are copied.

use super::admission::Admission;
use crate::lsn::Lsn;

#[inline]
pub(super) fn insert(admission: &Admission, bytes: u64, fill: &impl Fn(Lsn)) -> Option<Lsn> {
    let held = admission.lock();
    let start = admission.reserve(&held, bytes)?;
    drop(held);
    fill(start);
    Some(start)
}
