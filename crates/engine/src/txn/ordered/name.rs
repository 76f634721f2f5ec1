//! Names of what is prepared for a second log: its number there, and the branch of a client's transaction it is about.
//!
//! ```text
//! identifier   number u64, big-endian | for a branch: step u8 (1 prepare, 2 commit, 3 roll back) | its identifier
//! ```
//! A branch (X/Open XA) is prepared twice: under the client's identifier, with its writes and locks, and before that
//! under a number, with nothing. The second log decides about the number, and the branch goes with it: a crash between
//! the two logs leaves the number undecided, and the restart does with both what that log says. Neighbours:
//! [`super::Ordered`] and the restart decide; `prepared` has the records.
//!
//! **Invariants**
//! - Identifiers ascend with the number.
//! - The number is prepared before the branch, and decided after it: whatever a crash cuts off, what is left names the
//!   step that may be missing.

use super::super::prepared;
use super::super::{Commit, TxnEnv};
use crate::commit::env::Background;
use crate::commit::id::PreparedId;
use crate::{EngineError, Result};

/// What happens to a client's transaction when the second log has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Step {
    /// It stays prepared; otherwise it is rolled back.
    Prepare = 1,
    /// It commits; otherwise it stays prepared.
    Commit = 2,
    /// It is rolled back; otherwise it stays prepared.
    RollBack = 3,
}

/// A step of a client's transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Branch {
    pub(super) step: Step,
    pub(super) id: PreparedId,
}

/// The name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Name {
    pub(super) number: u64,
    pub(super) branch: Option<Branch>,
}

impl Name {
    /// As the log has it.
    pub(super) fn id(&self) -> PreparedId {
        let mut bytes = self.number.to_be_bytes().to_vec();
        if let Some(branch) = &self.branch {
            bytes.push(branch.step as u8);
            bytes.extend_from_slice(branch.id.bytes());
        }
        PreparedId::internal(&bytes)
    }

    /// The opposite of [`Name::id`].
    pub(super) fn read(id: &PreparedId) -> Result<Self> {
        Self::parse(id.bytes()).ok_or_else(|| {
            let what = format!("a prepared transaction has no number: {id:?}");
            EngineError::corruption("the log", 0, what)
        })
    }

    fn parse(bytes: &[u8]) -> Option<Self> {
        let (number, rest) = bytes.split_first_chunk::<8>()?;
        let branch = match rest.split_first() {
            None => None,
            Some((_, [])) => return None,
            Some((step, id)) => Some(Branch {
                step: Step::of(*step)?,
                id: PreparedId::xa(id),
            }),
        };
        let number = u64::from_be_bytes(*number);
        Some(Self { number, branch })
    }

    /// The second log has it.
    pub(super) fn commit(&self, env: &TxnEnv, background: &dyn Background) -> Result<Commit> {
        if let Some(branch) = &self.branch {
            branch.go_on(env, background)?;
        }
        prepared::commit_decided(env, background, &self.id())
    }

    /// The second log has not got it.
    pub(super) fn roll_back(&self, env: &TxnEnv) -> Result<Commit> {
        if let Some(Branch {
            step: Step::Prepare,
            id,
        }) = &self.branch
        {
            let _before_the_number = absent_is_done(prepared::roll_back_decided(env, id))?;
        }
        prepared::roll_back_decided(env, &self.id())
    }
}

impl Step {
    fn of(code: u8) -> Option<Self> {
        match code {
            1 => Some(Self::Prepare),
            2 => Some(Self::Commit),
            3 => Some(Self::RollBack),
            _ => None,
        }
    }
}

impl Branch {
    fn go_on(&self, env: &TxnEnv, background: &dyn Background) -> Result<()> {
        let done = match self.step {
            Step::Prepare => return Ok(()),
            Step::Commit => prepared::commit_decided(env, background, &self.id),
            Step::RollBack => prepared::roll_back_decided(env, &self.id),
        };
        absent_is_done(done).map(drop)
    }
}

/// A crash may have come between the decision about a branch and that about its number.
fn absent_is_done(decided: Result<Commit>) -> Result<Option<Commit>> {
    match decided {
        Err(EngineError::NoSuchPrepared) => Ok(None),
        decided => decided.map(Some),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_again_and_ascend_with_their_numbers() {
        let branch = |step| {
            Some(Branch {
                step,
                id: PreparedId::xa(b"x\0"),
            })
        };
        let branches = [
            None,
            branch(Step::Prepare),
            branch(Step::Commit),
            branch(Step::RollBack),
        ];
        let names: Vec<_> = (254..258)
            .zip(branches)
            .map(|(number, branch)| Name { number, branch })
            .collect();
        for name in &names {
            assert_eq!(Name::read(&name.id()).unwrap(), *name);
        }
        assert!(names.iter().map(Name::id).is_sorted());
    }

    #[test]
    fn bytes_that_are_no_name_are_an_error() {
        for bytes in [
            &b"short"[..],
            b"12345678\x01",
            b"12345678\x04x",
            b"12345678\x00x",
        ] {
            let read = Name::read(&PreparedId::internal(bytes));
            assert!(
                matches!(read, Err(EngineError::Corruption { .. })),
                "{bytes:?}"
            );
        }
    }
}
