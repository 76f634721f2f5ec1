//! A scan: the rows of a key range as one transaction sees them.
//!
//! Neighbours: `Txn::scan` builds it from a superversion and the write set; `visible` resolves versions.
//!
//! **Invariants**
//! - The cursor owns what it reads (memtables, the version of the tree, a view of the write set): it may outlive the
//!   statement, and sees neither later writes of its own transaction nor anything that background work changes.
//! - Every committed version it resolves, tombstones too, raises the transaction's dependency before the row is given.

use std::cmp::Ordering as Cmp;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use super::visible::VisibleIter;
use super::{Direction, note_dependency};
use crate::{Op, Result};

/// A scan in progress. Rows are lent until the next call.
pub struct Cursor {
    committed: VisibleIter,
    /// The transaction's own writes, if it has any to this tree.
    own: Option<VisibleIter>,
    direction: Direction,
    dependency: Arc<AtomicU64>,
    /// What the last row came from and must be moved before the next one.
    at: At,
}

/// What a cursor has found nearby.
#[derive(Debug, PartialEq, Eq)]
pub enum Near<'a> {
    /// A row.
    Row(&'a [u8], &'a [u8]),
    /// Nothing but deletes, up to this key.
    Deleted(&'a [u8]),
    /// There are no more rows.
    End,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum At {
    Start,
    Committed,
    Own,
    Both,
}

impl Cursor {
    pub(super) fn new(
        committed: VisibleIter,
        own: Option<VisibleIter>,
        direction: Direction,
        dependency: Arc<AtomicU64>,
    ) -> Self {
        Cursor {
            committed,
            own,
            direction,
            dependency,
            at: At::Start,
        }
    }

    /// The next row as (key, value), or `None` at the end. After the end, or an error, it must not be called again.
    #[expect(
        clippy::should_implement_trait,
        reason = "rows are lent, an Iterator cannot do that"
    )]
    #[inline]
    pub fn next(&mut self) -> Result<Option<(&[u8], &[u8])>> {
        match self.next_within(u64::MAX)? {
            Near::Row(key, value) => Ok(Some((key, value))),
            Near::Deleted(_) | Near::End => Ok(None),
        }
    }

    /// As [`Cursor::next`], but gives up at the delete behind `patience` others that it has stepped over. The next call
    /// goes on from there.
    #[inline]
    pub fn next_within(&mut self, patience: u64) -> Result<Near<'_>> {
        let mut deletes = 0;
        loop {
            self.advance()?;
            self.at = self.choose();
            match self.at {
                At::Start => return Ok(Near::End),
                At::Committed => {
                    note_dependency(&self.dependency, self.committed.seq());
                    if self.committed.op() == Op::Put {
                        break;
                    }
                }
                At::Own | At::Both => {
                    let own = self.own.as_ref().expect("chosen, so there");
                    if own.op() == Op::Put {
                        break;
                    }
                }
            }
            if deletes == patience {
                return Ok(Near::Deleted(self.standing().key()));
            }
            deletes += 1;
        }
        let row = self.standing();
        Ok(Near::Row(row.key(), row.value()))
    }

    /// Makes the first row from `key` on the next one, whether it lies ahead or behind. If it `may_be_near`, a few rows
    /// ahead of the last one are looked at first; true if it was found so. For cursors of
    /// [`Txn::seeker`](super::Txn::seeker).
    pub fn go_to(&mut self, key: &[u8], may_be_near: bool) -> Result<bool> {
        self.at = At::Start;
        let mut is_near = self.committed.go_to(key, may_be_near)?;
        if let Some(own) = &mut self.own {
            is_near &= own.go_to(key, may_be_near)?;
        }
        Ok(is_near)
    }

    /// What the cursor stands on.
    #[inline]
    fn standing(&self) -> &VisibleIter {
        match (self.at, &self.own) {
            (At::Own | At::Both, Some(own)) => own,
            _ => &self.committed,
        }
    }

    #[inline]
    fn advance(&mut self) -> Result<()> {
        if matches!(self.at, At::Committed | At::Both) {
            self.committed.advance()?;
        }
        if matches!(self.at, At::Own | At::Both) {
            self.own.as_mut().expect("chosen, so there").advance()?;
        }
        Ok(())
    }

    /// Which side has the next key; on the same key the own write hides the committed version.
    #[inline]
    fn choose(&self) -> At {
        let own = self.own.as_ref().filter(|own| own.valid());
        match (self.committed.valid(), own) {
            (false, None) => At::Start,
            (true, None) => At::Committed,
            (false, Some(_)) => At::Own,
            (true, Some(own)) => {
                let order = own.key().cmp(self.committed.key());
                let order = if self.direction == Direction::Forward {
                    order
                } else {
                    order.reverse()
                };
                match order {
                    Cmp::Less => At::Own,
                    Cmp::Equal => At::Both,
                    Cmp::Greater => At::Committed,
                }
            }
        }
    }
}
