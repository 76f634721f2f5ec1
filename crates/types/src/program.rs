//! Words about stored programs that the syntax, the catalog and everything above them share.
//!
//! Neighbours: the parser reads them, the catalog keeps them, SHOW and INFORMATION_SCHEMA print them.
//! **Invariant**: the numbers of [`DataAccess`] and [`EventStatus`] are in the catalog, for ever.

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

/// Whether an event runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum EventStatus {
    /// It runs at its times.
    #[default]
    Enabled,
    /// It does not.
    Disabled,
    /// It runs on the source, and what it does comes from there.
    ReplicaSideDisabled,
}

impl EventStatus {
    const ALL: [Self; 3] = [Self::Enabled, Self::Disabled, Self::ReplicaSideDisabled];

    /// As INFORMATION_SCHEMA.EVENTS has it.
    pub fn text(self) -> &'static str {
        match self {
            Self::Enabled => "ENABLED",
            Self::Disabled => "DISABLED",
            Self::ReplicaSideDisabled => "REPLICA_SIDE_DISABLED",
        }
    }

    /// As CREATE EVENT has it.
    pub fn clause(self) -> &'static str {
        match self {
            Self::Enabled => "ENABLE",
            Self::Disabled => "DISABLE",
            Self::ReplicaSideDisabled => "DISABLE ON REPLICA",
        }
    }

    /// Its number in the catalog.
    pub fn to_byte(self) -> u8 {
        match self {
            Self::Enabled => 0,
            Self::Disabled => 1,
            Self::ReplicaSideDisabled => 2,
        }
    }

    /// The one with this number.
    pub fn from_byte(byte: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|s| s.to_byte() == byte)
    }
}
