//! Words about triggers that the syntax, the catalog and everything above them share.
//!
//! Neighbours: the parser reads them, the catalog keeps them, SHOW and INFORMATION_SCHEMA print them.
//! **Invariant**: the numbers are in the catalog, for ever.

/// When a trigger runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum TriggerTiming {
    /// BEFORE.
    Before,
    /// AFTER.
    After,
}

/// What a trigger runs for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum TriggerEvent {
    /// INSERT.
    Insert,
    /// UPDATE.
    Update,
    /// DELETE.
    Delete,
}

impl TriggerTiming {
    /// As SQL writes it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Before => "BEFORE",
            Self::After => "AFTER",
        }
    }

    /// Its number in the catalog.
    pub fn to_byte(self) -> u8 {
        match self {
            Self::Before => 0,
            Self::After => 1,
        }
    }

    /// The one with this number.
    pub fn from_byte(byte: u8) -> Option<Self> {
        let all = [Self::Before, Self::After];
        all.into_iter().find(|timing| timing.to_byte() == byte)
    }
}

impl TriggerEvent {
    /// As SQL writes it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Insert => "INSERT",
            Self::Update => "UPDATE",
            Self::Delete => "DELETE",
        }
    }

    /// Its number in the catalog.
    pub fn to_byte(self) -> u8 {
        match self {
            Self::Insert => 0,
            Self::Update => 1,
            Self::Delete => 2,
        }
    }

    /// The one with this number.
    pub fn from_byte(byte: u8) -> Option<Self> {
        let all = [Self::Insert, Self::Update, Self::Delete];
        all.into_iter().find(|event| event.to_byte() == byte)
    }
}
