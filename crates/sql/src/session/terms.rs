//! What a transaction began with, for others to see.
//!
//! Neighbours: `transaction` notes it at the begin; the process list keeps it in one byte.
//! **Invariant**: the byte that [`Terms::to_byte`] makes is read back as the same terms.

use esker_sql_catalog::variables::Level;

const REPEATABLE_READ: u8 = 1;
const SERIALIZABLE: u8 = 2;
const READ_ONLY: u8 = 4;
const NO_UNIQUE_CHECKS: u8 = 8;
const NO_FOREIGN_KEY_CHECKS: u8 = 16;
/// Beside no other level.
const READ_UNCOMMITTED: u8 = 32;

/// What a transaction began with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Terms {
    /// Its level.
    pub isolation: Level,
    /// READ ONLY.
    pub read_only: bool,
    /// `unique_checks`.
    pub unique_checks: bool,
    /// `foreign_key_checks`.
    pub foreign_key_checks: bool,
}

impl Default for Terms {
    fn default() -> Self {
        Self::from_byte(REPEATABLE_READ)
    }
}

impl Terms {
    pub(super) fn to_byte(self) -> u8 {
        let level = match self.isolation {
            Level::ReadUncommitted => READ_UNCOMMITTED,
            Level::ReadCommitted => 0,
            Level::RepeatableRead => REPEATABLE_READ,
            Level::Serializable => SERIALIZABLE,
        };
        let flag = |on: bool, bit: u8| if on { bit } else { 0 };
        level
            | flag(self.read_only, READ_ONLY)
            | flag(!self.unique_checks, NO_UNIQUE_CHECKS)
            | flag(!self.foreign_key_checks, NO_FOREIGN_KEY_CHECKS)
    }

    pub(super) fn from_byte(byte: u8) -> Self {
        Self {
            isolation: match byte & (REPEATABLE_READ | SERIALIZABLE | READ_UNCOMMITTED) {
                SERIALIZABLE => Level::Serializable,
                REPEATABLE_READ => Level::RepeatableRead,
                READ_UNCOMMITTED => Level::ReadUncommitted,
                _ => Level::ReadCommitted,
            },
            read_only: byte & READ_ONLY != 0,
            unique_checks: byte & NO_UNIQUE_CHECKS == 0,
            foreign_key_checks: byte & NO_FOREIGN_KEY_CHECKS == 0,
        }
    }
}
