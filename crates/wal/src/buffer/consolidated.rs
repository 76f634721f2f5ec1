//! Variant C: threads that meet a busy lock make a group, which takes the lock once.
//!
//! Source: Aether, section 5.2, "consolidation array". The group's first member takes the lock and
//! gets one place for all; all fill their parts of it in parallel; the last one to be done frees
//! the lock. So the lock is held while bytes are copied, as in variant B, but once for a group, and
//! the groups follow each other.
//!
//! *Busy* means held for longer than a running holder usually needs: the paper's single attempt
//! would consolidate two threads that could as well take turns, and pay two cache misses more for
//! it.
//!
//! **Invariants**
//! - The lock is held while any member of the group fills; exactly one member frees it.
//! - A group that gets no place is dissolved, and its members try alone: nobody waits for room on
//!   behalf of others, or with the lock.

use super::admission::Admission;
use super::baseline;
use super::slots::Slots;
use crate::lsn::Lsn;

pub(super) fn insert(
    admission: &Admission,
    slots: &Slots,
    bytes: u64,
    fill: &impl Fn(Lsn),
) -> Option<Lsn> {
    if let Some(held) = admission.latch().lock_soon() {
        let start = admission.reserve(&held, bytes)?;
        fill(start);
        drop(held);
        return Some(start);
    }
    let contention = &admission.contention;
    match contention.while_busy(|| in_group(admission, slots, bytes, fill)) {
        Some(start) => Some(start),
        None => baseline::insert(admission, bytes, fill),
    }
}

#[cold]
fn in_group(admission: &Admission, slots: &Slots, bytes: u64, fill: &impl Fn(Lsn)) -> Option<Lsn> {
    let member = slots.join(bytes)?;
    if member.leads() {
        let held = admission.latch().lock();
        let group = member.close();
        let start = admission.reserve(&held, group.bytes);
        if start.is_some() {
            held.leave_to_group();
        } else {
            drop(held);
        }
        member.publish(&group, start, 0);
    }
    let start = member.await_place();
    if let Some(start) = start {
        fill(start);
    }
    let was_last = member.leave().is_some();
    if was_last && start.is_some() {
        admission.latch().unlock_for_group();
    }
    start
}
