//! Names of storage engines: which exist, and which InnoDB stands in for.
//!
//! Neighbours: `ddl` reads `ENGINE =`, SHOW and information_schema list the names, `variables` checks
//! `default_storage_engine`.
//! **Invariant**: every table is stored the same way. An engine says what its table is called and whether its
//! rows outlive a restart.

/// What SHOW CREATE TABLE calls the engine of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum StorageEngine {
    /// Transactions, row locks, rows that last.
    #[default]
    InnoDb,
    /// The same, but the rows are gone after a restart.
    Memory,
}

impl StorageEngine {
    /// The name that is shown.
    pub fn name(self) -> &'static str {
        match self {
            Self::InnoDb => "InnoDB",
            Self::Memory => "MEMORY",
        }
    }
}

/// What becomes of a table that asks for an engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EngineChoice {
    /// There is such an engine.
    Own(StorageEngine),
    /// MySQL has it, and a table of it can live in InnoDB: its rows are what was written.
    Substituted(&'static str),
    /// MySQL may have it, but a table in InnoDB would be something else (or nothing of the name exists).
    Unknown,
}

/// Every name of an engine of MySQL's, as it is shown, with what stands in for it.
pub const ENGINES: &[(&str, EngineChoice)] = &[
    ("InnoDB", EngineChoice::Own(StorageEngine::InnoDb)),
    ("MEMORY", EngineChoice::Own(StorageEngine::Memory)),
    ("MyISAM", EngineChoice::Substituted("MyISAM")),
    ("ARCHIVE", EngineChoice::Substituted("ARCHIVE")),
    ("CSV", EngineChoice::Substituted("CSV")),
    ("MRG_MYISAM", EngineChoice::Unknown),
    ("BLACKHOLE", EngineChoice::Unknown),
    ("FEDERATED", EngineChoice::Unknown),
    ("ndbcluster", EngineChoice::Unknown),
];

/// Other names of engines.
const ALIASES: &[(&str, &str)] = &[
    ("HEAP", "MEMORY"),
    ("MERGE", "MRG_MYISAM"),
    ("NDB", "ndbcluster"),
    ("INNOBASE", "InnoDB"),
    ("Esker", "InnoDB"),
    ("RocksDB", "InnoDB"),
    ("XEngine", "InnoDB"),
];

/// What becomes of a table with `ENGINE = name`, in any case.
pub fn engine_choice(name: &str) -> EngineChoice {
    let alias = ALIASES.iter().find(|a| a.0.eq_ignore_ascii_case(name));
    let name = alias.map_or(name, |a| a.1);
    let known = ENGINES.iter().find(|e| e.0.eq_ignore_ascii_case(name));
    known.map_or(EngineChoice::Unknown, |e| e.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_in_any_case_and_by_alias() {
        let memory = EngineChoice::Own(StorageEngine::Memory);
        assert_eq!(engine_choice("heap"), memory);
        assert_eq!(engine_choice("Memory"), memory);
        assert_eq!(engine_choice("myisam"), EngineChoice::Substituted("MyISAM"));
        assert_eq!(engine_choice("merge"), EngineChoice::Unknown);
        assert_eq!(engine_choice(""), EngineChoice::Unknown);
    }
}
