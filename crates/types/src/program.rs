//! Words about stored programs that the syntax, the catalog and everything above them share.
//!
//! Neighbours: the parser reads them, the catalog keeps them, SHOW and INFORMATION_SCHEMA print them.
//! **Invariant**: the numbers of [`DataAccess`] are in the catalog, for ever.

/// Which kind a stored routine is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RoutineKind {
    /// FUNCTION.
    Function,
    /// PROCEDURE.
    Procedure,
}

impl RoutineKind {
    /// As MySQL writes it.
    pub fn text(self) -> &'static str {
        match self {
            Self::Procedure => "PROCEDURE",
            Self::Function => "FUNCTION",
        }
    }
}

/// What a routine says of the data that it touches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum DataAccess {
    /// CONTAINS SQL.
    #[default]
    ContainsSql,
    /// NO SQL.
    NoSql,
    /// READS SQL DATA.
    ReadsSqlData,
    /// MODIFIES SQL DATA.
    ModifiesSqlData,
}

impl DataAccess {
    const ALL: [Self; 4] = [
        Self::ContainsSql,
        Self::NoSql,
        Self::ReadsSqlData,
        Self::ModifiesSqlData,
    ];

    /// As MySQL writes it.
    pub fn text(self) -> &'static str {
        match self {
            Self::ContainsSql => "CONTAINS SQL",
            Self::NoSql => "NO SQL",
            Self::ReadsSqlData => "READS SQL DATA",
            Self::ModifiesSqlData => "MODIFIES SQL DATA",
        }
    }

    /// Its number in the catalog.
    pub fn to_byte(self) -> u8 {
        match self {
            Self::ContainsSql => 0,
            Self::NoSql => 1,
            Self::ReadsSqlData => 2,
            Self::ModifiesSqlData => 3,
        }
    }

    /// The one with this number.
    pub fn from_byte(byte: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|a| a.to_byte() == byte)
    }
}
