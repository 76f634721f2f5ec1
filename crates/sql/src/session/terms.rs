//! What a transaction began with, for others to see.
//!
//! Neighbours: `transaction` notes it at the begin; the process list keeps it in one byte.
//! **Invariant**: the byte that [`Terms::to_byte`] makes is read back as the same terms.

use esker_engine::Isolation;

const REPEATABLE_READ: u8 = 1;
const SERIALIZABLE: u8 = 2;
const READ_ONLY: u8 = 4;
const NO_UNIQUE_CHECKS: u8 = 8;
const NO_FOREIGN_KEY_CHECKS: u8 = 16;

/// What a transaction began with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Terms {
    /// Its level.
    pub isolation: Isolation,
    /// READ ONLY.
    pub read_only: bool,
    /// `unique_checks`.
    pub unique_checks: bool,
    /// `foreign_key_checks`.
    pub foreign_key_checks: bool,
}

impl Terms {
    pub(super) fn to_byte(self) -> u8 {
        let level = match self.isolation {
            Isolation::ReadCommitted => 0,
            Isolation::RepeatableRead => REPEATABLE_READ,
            Isolation::Serializable => SERIALIZABLE,
        };
        let flag = |on: bool, bit: u8| if on { bit } else { 0 };
        level
            | flag(self.read_only, READ_ONLY)
            | flag(!self.unique_checks, NO_UNIQUE_CHECKS)
            | flag(!self.foreign_key_checks, NO_FOREIGN_KEY_CHECKS)
    }

    pub(super) fn from_byte(byte: u8) -> Self {
        Self {
            isolation: match byte & (REPEATABLE_READ | SERIALIZABLE) {
                SERIALIZABLE => Isolation::Serializable,
                REPEATABLE_READ => Isolation::RepeatableRead,
                _ => Isolation::ReadCommitted,
            },
            read_only: byte & READ_ONLY != 0,
            unique_checks: byte & NO_UNIQUE_CHECKS == 0,
            foreign_key_checks: byte & NO_FOREIGN_KEY_CHECKS == 0,
        }
    }

    /// The level in SQL's words.
    pub fn isolation_name(&self) -> &'static str {
        match self.isolation {
            Isolation::ReadCommitted => "READ COMMITTED",
            Isolation::RepeatableRead => "REPEATABLE READ",
            Isolation::Serializable => "SERIALIZABLE",
        }
    }
}
