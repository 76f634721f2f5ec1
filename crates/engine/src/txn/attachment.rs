//! What a transaction gives the log for those who follow it: opaque bytes at the end of its commit record.
//!
//! Neighbours: [`Txn`](super::Txn) appends and truncates, `commit` writes it behind the writes; `recovery` does not
//! look at it.
//!
//! It has a body, which grows with the statements and is undone with them, and a head, which is set when all is known
//! and stands before the body.
//!
//! **Invariants**
//! - The body is as long as the savepoint that was rolled back to says, whatever came in between.
//! - Memory is charged to the transactions' account, as soon as it is worth it.

use std::sync::Arc;

use crate::budget::{Charge, MemoryBudget, MemoryUse};
use crate::commit::entry::AttachmentPieces;

/// A smaller buffer is not charged, and is kept for the next transaction.
const KEPT_BYTES: usize = 16 << 10;

/// The attachment of a transaction.
#[derive(Default)]
pub(crate) struct Attachment {
    head: Vec<u8>,
    body: Vec<u8>,
    charge: Option<Charge>,
}

impl Attachment {
    pub(super) fn body(&self) -> &[u8] {
        &self.body
    }

    /// Bytes of head and body.
    pub(super) fn bytes(&self) -> u64 {
        (self.head.len() + self.body.len()) as u64
    }

    /// As the record has it.
    pub(crate) fn pieces(&self) -> AttachmentPieces<'_> {
        [&self.head, &self.body]
    }

    pub(super) fn push(&mut self, bytes: &[u8], budget: &Arc<MemoryBudget>) {
        self.body.extend_from_slice(bytes);
        self.weigh(budget);
    }

    pub(super) fn set_head(&mut self, head: &[u8], budget: &Arc<MemoryBudget>) {
        self.head.clear();
        self.head.extend_from_slice(head);
        self.weigh(budget);
    }

    fn weigh(&mut self, budget: &Arc<MemoryBudget>) {
        let bytes = self.head.capacity() + self.body.capacity();
        if bytes > KEPT_BYTES {
            let charge = || Charge::new(budget, MemoryUse::Transactions);
            self.charge.get_or_insert_with(charge).raise_to(bytes);
        }
    }

    /// Forgets what was appended since the body had this length.
    pub(super) fn truncate(&mut self, bytes: usize) {
        assert!(
            bytes <= self.body.len(),
            "a savepoint is used before those that were taken earlier"
        );
        self.body.truncate(bytes);
    }

    /// Forgets everything, and keeps a little memory.
    pub(super) fn clear(&mut self) {
        if self.charge.is_some() {
            *self = Attachment::default();
        } else {
            self.head.clear();
            self.body.clear();
        }
    }
}
