//! Variant CDME: CD, with release in LSN order, delegated to the predecessor.
//!
//! Source: Aether, the appendix on delegated buffer release. Records, and groups, release in LSN
//! order: the consumer may take what lies below the released LSN. In the paper's CD who is done
//! before its predecessor waits for it; when record sizes are very different, many wait for one
//! large record. Here it leaves its release to the predecessor and goes on (`release`).
//!
//! What our ring makes of it, honestly: publication by length word already lets everybody go on
//! (`decoupled`), so this variant does its work for nothing but the proof. It is kept as the
//! paper's protocol, whole: the consumer respects its released LSN although it could do without.
//!
//! **Invariants**
//! - Tickets are drawn in the critical section that gives the place, so their order is LSN order.
//! - A group has one ticket, left by its last member when all have filled.
//! - A streamed record waits for its turn before it fills, and releases part after part, because
//!   the consumer must take its beginning before it can be whole.

use super::admission::Admission;
use super::latch::Held;
use super::release::{ReleaseQueue, Ticket};
use super::slots::Slots;
use super::sync::yield_now;
use crate::lsn::Lsn;

pub(super) fn insert(
    admission: &Admission,
    slots: &Slots,
    queue: &ReleaseQueue,
    bytes: u64,
    fill: &impl Fn(Lsn),
) -> Option<Lsn> {
    if let Some(held) = admission.latch().lock_soon() {
        return alone(admission, queue, held, bytes, fill);
    }
    let contention = &admission.contention;
    match contention.while_busy(|| in_group(admission, slots, queue, bytes, fill)) {
        Some(start) => Some(start),
        None => {
            let held = admission.lock();
            alone(admission, queue, held, bytes, fill)
        }
    }
}

fn alone(
    admission: &Admission,
    queue: &ReleaseQueue,
    held: Held<'_>,
    bytes: u64,
    fill: &impl Fn(Lsn),
) -> Option<Lsn> {
    let place = draw(queue, &held, bytes, || admission.reserve(&held, bytes));
    drop(held);
    let (start, ticket) = place.or_else(|| {
        // Perhaps the queue was full: then whoever fills should run.
        yield_now();
        None
    })?;
    fill(start);
    queue.leave(ticket, || admission.has_failed());
    Some(start)
}

/// A place and its ticket, if there is room for both.
fn draw(
    queue: &ReleaseQueue,
    held: &Held<'_>,
    bytes: u64,
    reserve: impl FnOnce() -> Option<Lsn>,
) -> Option<(Lsn, Ticket)> {
    let start = queue.has_room(held).then(reserve).flatten()?;
    Some((start, queue.enter(held, start.plus(bytes))))
}

#[cold]
fn in_group(
    admission: &Admission,
    slots: &Slots,
    queue: &ReleaseQueue,
    bytes: u64,
    fill: &impl Fn(Lsn),
) -> Option<Lsn> {
    let member = slots.join(bytes)?;
    if member.leads() {
        let held = admission.latch().lock();
        let group = member.close();
        let place = draw(queue, &held, group.bytes, || {
            admission.reserve(&held, group.bytes)
        });
        drop(held);
        let tag = place.map_or(0, |(_, ticket)| ticket.0);
        member.publish(&group, place.map(|(start, _)| start), tag);
    }
    let start = member.await_place();
    if let Some(start) = start {
        fill(start);
    }
    if let Some(ticket) = member.leave()
        && start.is_some()
    {
        queue.leave(Ticket(ticket), || admission.has_failed());
    }
    start
}

/// The place of a streamed record, and its ticket.
pub(super) fn begin_stream(
    admission: &Admission,
    queue: &ReleaseQueue,
    bytes: u64,
) -> Option<(Lsn, Ticket)> {
    let held = admission.lock();
    let place = draw(queue, &held, bytes, || {
        admission.reserve_streamed(&held, bytes)
    });
    drop(held);
    if place.is_none() {
        yield_now();
    }
    place
}
