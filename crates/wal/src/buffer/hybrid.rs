//! Variant CD: groups as in C, and filling outside the lock as in D.
//!
//! Source: Aether, section 5.4, "putting it all together", with two steps less.
//!
//! In the paper a thread tries the lock; if it is busy, it joins a group, whose leader takes the
//! lock, gets one place for all and frees the lock at once, and then all fill in parallel. What
//! that lock protects is by now one comparison and one addition, and those are one
//! compare-and-swap. So here a thread tries that, a few times; if others are faster each time, it
//! joins a group. The lock is left to the leaders: one group at a time gets its place, and the
//! groups behind it grow meanwhile. A thread that is interrupted in the middle of a reservation
//! stops nobody, where the holder of the paper's lock stops everybody until it runs again; with
//! more threads than processors that is what counts.
//!
//! The paper's group releases in LSN order, its last member waiting for the groups before. As in D,
//! the ring makes that unnecessary: members publish their own records. So a member leaves its slot
//! as soon as it knows its place, before it fills, and slots are needed for a shorter time than in
//! the paper. The in-order release, and the lock, are to be found in CDME (`delegated`).
//!
//! **Invariants**
//! - No lock is held while bytes are copied; who is alone takes none.
//! - A group that gets no place is dissolved, and its members try alone.

use super::admission::{Admission, Attempt};
use super::slots::Slots;
use crate::lsn::Lsn;

/// Attempts alone: on two processors the first one nearly always succeeds, and a failed one has at
/// least brought the line here. Tests are to see groups.
const ATTEMPTS: u32 = if cfg!(test) { 1 } else { 4 };
const _: () = assert!(ATTEMPTS > 0);

#[inline]
pub(super) fn insert(
    admission: &Admission,
    slots: &Slots,
    bytes: u64,
    fill: &impl Fn(Lsn),
) -> Option<Lsn> {
    for attempt in 0..ATTEMPTS {
        match admission.reserve_freely(bytes, attempt == 0) {
            Attempt::Given(start) => {
                fill(start);
                return Some(start);
            }
            Attempt::Full => return None,
            Attempt::Contended => {}
        }
    }
    let contention = &admission.contention;
    let start = match contention.while_busy(|| place_in_group(admission, slots, bytes)) {
        Some(start) => start,
        None => admission.reserve_at_last(bytes)?,
    };
    fill(start);
    Some(start)
}

#[cold]
fn place_in_group(admission: &Admission, slots: &Slots, bytes: u64) -> Option<Lsn> {
    let member = slots.join(bytes)?;
    if member.leads() {
        let held = admission.latch().lock();
        let group = member.close();
        let start = admission.reserve_at_last(group.bytes);
        drop(held);
        member.publish(&group, start, 0);
    }
    let start = member.await_place();
    member.leave();
    start
}
