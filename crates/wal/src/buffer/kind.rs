//! The names of the log buffer's variants.
//!
//! **Invariants**
//! - A name that is displayed is understood again.

use std::fmt;
use std::str::FromStr;

use crate::error::WalError;

/// How appenders share the log buffer: the variants of Aether (PVLDB 3(1), 2010). What they cost is
/// in `docs/decisions/log-buffer.md`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum LogBufferKind {
    /// Baseline: one lock around reservation, copy and release.
    B,
    /// Consolidation array: threads that meet a busy lock share one critical section, copies
    /// included.
    C,
    /// Decoupled: the lock is free again when the place is reserved.
    D,
    /// Consolidation array and decoupled copies.
    #[default]
    Cd,
    /// As [`LogBufferKind::Cd`], with release in order, delegated to the predecessor.
    Cdme,
}

impl LogBufferKind {
    /// All variants, from the simplest.
    pub const ALL: [LogBufferKind; 5] = [Self::B, Self::C, Self::D, Self::Cd, Self::Cdme];

    fn name(self) -> &'static str {
        match self {
            Self::B => "B",
            Self::C => "C",
            Self::D => "D",
            Self::Cd => "CD",
            Self::Cdme => "CDME",
        }
    }
}

impl fmt::Display for LogBufferKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for LogBufferKind {
    type Err = WalError;

    /// Understands the names of the paper, in any case.
    fn from_str(name: &str) -> Result<Self, WalError> {
        Self::ALL
            .into_iter()
            .find(|kind| kind.name().eq_ignore_ascii_case(name))
            .ok_or_else(|| WalError::Config(format!("there is no log buffer named {name:?}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_understood_and_no_others() {
        for kind in LogBufferKind::ALL {
            assert_eq!(kind.to_string().parse::<LogBufferKind>().unwrap(), kind);
        }
        assert_eq!(
            "cdme".parse::<LogBufferKind>().unwrap(),
            LogBufferKind::Cdme
        );
        assert!("CDM".parse::<LogBufferKind>().is_err());
        assert!("".parse::<LogBufferKind>().is_err());
    }
}
