//! Variant CD: groups as in C, and filling outside the lock as in D.
//!
//! Source: Aether, section 5.4, "putting it all together". A thread that meets a busy lock joins a
//! group; the group's leader takes the lock, gets one place for all and frees the lock at once; the
//! members fill in parallel with everybody else. If the holder of the lock is not running, the
//! waiting threads cost it one critical section for all of them afterwards, not one each.
//!
//! The paper's group then releases in LSN order, its last member waiting for the groups before. As
//! in D, the ring makes that unnecessary: members publish their own records. So a member leaves its
//! slot as soon as it knows its place, before it fills, and slots are needed for a shorter time
//! than in the paper. The in-order release is to be found in CDME (`delegated`).
//!
//! **Invariants**
//! - The lock is never held while bytes are copied or while a group is waited for.
//! - A group that gets no place is dissolved, and its members try alone.

use super::admission::Admission;
use super::decoupled;
use super::slots::Slots;
use crate::lsn::Lsn;

#[inline]
pub(super) fn insert(
    admission: &Admission,
    slots: &Slots,
    bytes: u64,
    fill: &impl Fn(Lsn),
) -> Option<Lsn> {
    let start = match admission.gate().lock_soon() {
        Some(held) => admission.reserve(&held, bytes)?,
        None => match place_in_group(admission, slots, bytes) {
            Some(start) => start,
            None => return decoupled::insert(admission, bytes, fill),
        },
    };
    fill(start);
    Some(start)
}

#[cold]
fn place_in_group(admission: &Admission, slots: &Slots, bytes: u64) -> Option<Lsn> {
    let member = slots.join(bytes)?;
    if member.leads() {
        let held = admission.gate().lock();
        let group = member.close();
        let start = admission.reserve(&held, group.bytes);
        drop(held);
        member.publish(&group, start, 0);
    }
    let start = member.await_place();
    member.leave();
    start
}
