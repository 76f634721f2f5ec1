//! What a transaction gives the log for those who follow it: opaque bytes at the end of its commit record.
//!
//! Neighbours: [`Txn`](super::Txn) appends and truncates, `commit` writes it behind the writes; `recovery` does not
//! look at it.
//!
//! It has a body, which grows with the statements and is undone with them, and a head, which is set when all is known
//! and stands before the body. The owner may take the body out and keep it elsewhere, when it has become large.
//!
//! **Invariants**
//! - The body is as long as the savepoint that was rolled back to says, whatever came in between.
//! - Memory is charged to the transactions' account, as soon as it is worth it.

use std::sync::Arc;

use super::{ADMITTED_BYTES, Txn};
use crate::budget::{Charge, MemoryBudget, MemoryUse};
use crate::commit::entry::AttachmentPieces;
use crate::{EngineError, Result};

/// A smaller buffer is not charged, and is kept for the next transaction.
const KEPT_BYTES: usize = 16 << 10;

/// The attachment of a transaction.
#[derive(Default)]
pub(crate) struct Attachment {
    head: Vec<u8>,
    /// What of the body was taken out stands before this.
    body: Vec<u8>,
    /// Bytes that were taken out.
    taken: u64,
    charge: Option<Charge>,
}

impl Attachment {
    pub(super) fn body(&self) -> &[u8] {
        &self.body
    }

    /// Bytes of the body, with those that were taken out.
    pub(super) fn body_bytes(&self) -> u64 {
        self.taken + self.body.len() as u64
    }

    /// Bytes of the body that were taken out, and were not rolled back since.
    pub(super) fn taken(&self) -> u64 {
        self.taken
    }

    /// Takes the body out.
    pub(super) fn take_body(&mut self) {
        self.taken += self.body.len() as u64;
        self.body = Vec::new();
        self.charge = None;
    }

    /// Bytes of head and body in memory.
    pub(super) fn bytes(&self) -> u64 {
        (self.head.len() + self.body.len()) as u64
    }

    /// As the record has it.
    pub(crate) fn pieces(&self) -> AttachmentPieces<'_> {
        [&self.head, &self.body]
    }

    pub(super) fn push(&mut self, bytes: &[u8], budget: &Arc<MemoryBudget>) {
        self.body.extend_from_slice(bytes);
        self.charge_memory(budget);
    }

    pub(super) fn set_head(&mut self, head: &[u8], budget: &Arc<MemoryBudget>) {
        self.head.clear();
        self.head.extend_from_slice(head);
        self.charge_memory(budget);
    }

    fn charge_memory(&mut self, budget: &Arc<MemoryBudget>) {
        let bytes = self.head.capacity() + self.body.capacity();
        if bytes > KEPT_BYTES {
            let charge = || Charge::new(budget, MemoryUse::Transactions);
            self.charge.get_or_insert_with(charge).raise_to(bytes);
        }
    }

    /// Forgets what was appended since the body had this length.
    pub(super) fn truncate(&mut self, bytes: u64) {
        assert!(
            bytes <= self.body_bytes(),
            "a savepoint is used before those that were taken earlier"
        );
        match bytes.checked_sub(self.taken) {
            Some(kept) => self.body.truncate(kept as usize),
            None => {
                self.body.clear();
                self.taken = bytes;
            }
        }
    }

    /// Forgets everything, and keeps a little memory.
    pub(super) fn clear(&mut self) {
        if self.charge.is_some() {
            *self = Attachment::default();
        } else {
            self.head.clear();
            self.body.clear();
            self.taken = 0;
        }
    }
}

impl Txn {
    /// Appends to the attachment: opaque bytes that the log keeps with the record of this transaction, for whoever
    /// follows it ([`Engine::follow`]). A rollback to a savepoint takes them back. A transaction that has only an
    /// attachment is logged, too.
    ///
    /// # Errors
    /// The transaction is too large with them, or there is no memory.
    pub fn attach(&mut self, bytes: &[u8]) -> Result<()> {
        self.admit_attachment(bytes.len() as u64)?;
        self.attachment.push(bytes, &self.env.commit.budget);
        Ok(())
    }

    /// Sets what stands before the bytes of [`Txn::attach`]; what was set before goes. It is there for what is known
    /// only at the end, so no rollback to a savepoint changes it.
    ///
    /// # Errors
    /// As [`Txn::attach`].
    pub fn set_attachment_head(&mut self, head: &[u8]) -> Result<()> {
        self.admit_attachment(head.len() as u64)?;
        self.attachment.set_head(head, &self.env.commit.budget);
        Ok(())
    }

    /// What [`Txn::attach`] has gathered, without what was taken out.
    pub fn attachment(&self) -> &[u8] {
        self.attachment.body()
    }

    /// Bytes that [`Txn::attach`] has gathered, with those that were taken out.
    pub fn attachment_bytes(&self) -> u64 {
        self.attachment.body_bytes()
    }

    /// Forgets what [`Txn::attach`] has gathered, which the caller keeps elsewhere behind what it has taken before.
    pub fn take_attachment(&mut self) {
        self.attachment.take_body();
    }

    /// How much of what was taken out is left: a rollback to a savepoint takes that back, too.
    pub fn attachment_taken(&self) -> u64 {
        self.attachment.taken()
    }

    fn admit_attachment(&self, bytes: u64) -> Result<()> {
        self.check()?;
        let limit_bytes = self.env.limits.bytes;
        let before = self.attachment.bytes();
        if self.writes.total_bytes() + before + bytes > limit_bytes {
            return Err(EngineError::TxnTooLarge { limit_bytes });
        }
        if before / ADMITTED_BYTES != (before + bytes) / ADMITTED_BYTES {
            self.env
                .commit
                .budget
                .admit(bytes.max(ADMITTED_BYTES) as usize)?;
        }
        Ok(())
    }
}
