//! In-order release with delegation: the released LSN of the paper.
//!
//! Source: Aether (see `slots`), the appendix on delegated buffer release. Whoever was given a
//! place takes a ticket in the same order. When the place is filled, its owner may release it, that
//! is, move the released LSN over it, once everything before is released. If that is not so yet, the
//! owner does not wait: it marks its ticket as delegated and leaves, and whoever releases the
//! predecessor releases this one too. The paper queues by an abortable MCS lock; tickets in an array
//! do the same without pointers, because the order is known when the ticket is drawn.
//!
//! So that no thread spends its life releasing for others, one that has released
//! [`MANY_FOR_OTHERS`] tickets in a row says that it is tired, and who comes next waits for its turn
//! instead. (In the paper one of 32 threads always waits. With more threads than processors that is
//! a wait for a thread that does not run, which cost most of the throughput.)
//!
//! **Invariants**
//! - The released LSN moves over places in order, and only over filled ones.
//! - Exactly one ticket has the turn, or will get it when it is drawn; only its owner, or who it
//!   delegated to, moves the released LSN.
//! - A ticket's node is not used for a later ticket before it is released.

use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

use super::latch::Held;
use super::sync::{AtomicBool, AtomicU64, yield_now};
use crate::lsn::Lsn;

/// Tickets that can be outstanding: threads that fill, and what was delegated to them.
const NODES: u64 = 1024;

/// Tickets that one thread releases for others before it asks to be relieved. Tests are to see it.
const MANY_FOR_OTHERS: u64 = if cfg!(test) { 1 } else { 64 };

/// Nobody has this ticket yet.
const FUTURE: u64 = 0;
/// Its place is being filled, and something before it is not released.
const FILLING: u64 = 1;
/// Its place is filled, and its owner has gone.
const DELEGATED: u64 = 2;
/// Everything before it is released.
const TURN: u64 = 3;

struct Node {
    state: AtomicU64,
    end: AtomicU64,
}

/// A ticket: the right and the duty to release a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Ticket(pub(super) u64);

pub(crate) struct ReleaseQueue {
    nodes: Box<[Node]>,
    /// Everything below is filled.
    released: AtomicU64,
    /// Tickets released.
    done: AtomicU64,
    /// The next ticket; written by holders of the latch.
    next: AtomicU64,
    /// Somebody has released very many tickets in a row, and goes on.
    tired: AtomicBool,
}

impl ReleaseQueue {
    pub(super) fn new(start: Lsn) -> Self {
        Self::with_nodes(start, NODES)
    }

    pub(super) fn with_nodes(start: Lsn, nodes: u64) -> Self {
        let node = |i| Node {
            state: AtomicU64::new(if i == 0 { TURN } else { FUTURE }),
            end: AtomicU64::new(0),
        };
        Self {
            nodes: (0..nodes).map(node).collect(),
            released: AtomicU64::new(start.0),
            done: AtomicU64::new(0),
            next: AtomicU64::new(0),
            tired: AtomicBool::new(false),
        }
    }

    /// Everything below is filled.
    pub(super) fn released(&self) -> Lsn {
        Lsn(self.released.load(Acquire))
    }

    /// Whether there is a node for the next ticket.
    pub(super) fn has_room(&self, _held: &Held<'_>) -> bool {
        // Acquire, and `done` is stored with release behind the reset of the node.
        self.next.load(Relaxed) - self.done.load(Acquire) < self.nodes.len() as u64
    }

    /// Draws the ticket for a place that ends at `end`. The caller has seen that there is room and
    /// holds the latch since it reserved the place.
    pub(super) fn enter(&self, _held: &Held<'_>, end: Lsn) -> Ticket {
        let ticket = Ticket(self.next.load(Relaxed));
        self.next.store(ticket.0 + 1, Relaxed);
        let node = self.node(ticket);
        node.end.store(end.0, Relaxed);
        // If this fails, it has been given the turn already. Release, for `end`.
        let drawn = node
            .state
            .compare_exchange(FUTURE, FILLING, Release, Relaxed);
        assert!(
            drawn.is_ok() || drawn == Err(TURN),
            "a node has one ticket at a time"
        );
        ticket
    }

    /// The place is filled: releases it, or leaves that to the predecessor.
    pub(super) fn leave(&self, ticket: Ticket, has_failed: impl Fn() -> bool) {
        if self.tired.load(Relaxed) {
            self.await_turn(ticket, has_failed);
        }
        let state = &self.node(ticket).state;
        let has_turn = || state.load(Acquire) == TURN;
        let delegate = || state.compare_exchange(FILLING, DELEGATED, AcqRel, Acquire);
        if has_turn() || delegate().is_err() {
            self.release_from(ticket);
        }
    }

    /// Waits until everything before the ticket is released, or the log has failed. True for the
    /// turn.
    pub(super) fn await_turn(&self, ticket: Ticket, has_failed: impl Fn() -> bool) -> bool {
        while self.node(ticket).state.load(Acquire) != TURN {
            if has_failed() {
                return false;
            }
            yield_now();
        }
        true
    }

    /// Releases a part of the place, for an owner that has the turn.
    pub(super) fn release_part(&self, ticket: Ticket, upto: Lsn) {
        assert!(self.node(ticket).state.load(Relaxed) == TURN);
        assert!(upto.0 <= self.node(ticket).end.load(Relaxed));
        self.released.store(upto.0, Release);
    }

    /// Releases the place whose ticket has the turn, and all behind it that were delegated.
    fn release_from(&self, mut ticket: Ticket) {
        let mut for_others = 0;
        loop {
            let node = self.node(ticket);
            self.released.store(node.end.load(Relaxed), Release);
            node.state.store(FUTURE, Relaxed);
            ticket.0 += 1;
            self.done.store(ticket.0, Release);
            if self.pass_turn(ticket) != DELEGATED {
                break;
            }
            for_others += 1;
            if for_others == MANY_FOR_OTHERS {
                self.tired.store(true, Relaxed);
            }
        }
        if for_others >= MANY_FOR_OTHERS {
            self.tired.store(false, Relaxed);
        }
    }

    /// Gives the turn to a ticket, and returns the state it was in.
    fn pass_turn(&self, ticket: Ticket) -> u64 {
        let before = self.node(ticket).state.swap(TURN, AcqRel);
        assert!(before != TURN, "there is one turn");
        before
    }

    /// The next ticket's number.
    #[cfg(test)]
    pub(super) fn peek(&self, _held: &Held<'_>) -> u64 {
        self.next.load(Relaxed)
    }

    fn node(&self, ticket: Ticket) -> &Node {
        &self.nodes[(ticket.0 % self.nodes.len() as u64) as usize]
    }
}
