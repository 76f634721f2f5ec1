//! What PERFORMANCE_SCHEMA collects: the rows behind its tables `setup_…`.
//!
//! Neighbours: `infoschema::performance` says what is there at the start, shows the rows, and asks whether something is
//! on; `session::instruments` changes rows; sessions ask [`Instruments::flags`] for every statement.
//! **Invariants**: rows of a table have as many cells as its columns; keys come first and are unique; cells behind them
//! are `YES` or `NO`. The flags say what the rows say.

use std::sync::atomic::{AtomicU8, Ordering};

use parking_lot::RwLock;

/// Rows that INSERT may add up to, in each table.
const MAX_ROWS: usize = 1000;

/// What statements cost and do is measured.
pub(crate) const STATEMENTS: u8 = 1;
/// It is added up by digest.
pub(crate) const DIGESTS: u8 = 2;
/// The last statements of sessions are kept.
pub(crate) const HISTORY: u8 = 4;
/// What runs is shown.
pub(crate) const CURRENT: u8 = 8;

/// A thread is measured.
pub(crate) const INSTRUMENTED: u8 = 1;
/// Its last statements are kept.
pub(crate) const REMEMBERED: u8 = 2;

/// A table with switches: its columns, those of the key first.
pub(crate) struct SwitchTable {
    pub(crate) name: &'static str,
    pub(crate) keys: &'static [&'static str],
    pub(crate) switches: &'static [&'static str],
    /// May rows be added and removed?
    pub(crate) grows: bool,
}

pub(crate) const ACTORS: usize = 0;
pub(crate) const CONSUMERS: usize = 1;
pub(crate) const INSTRUMENTS: usize = 2;
pub(crate) const OBJECTS: usize = 3;
pub(crate) const THREADS: usize = 4;

/// How many there are.
pub(crate) const NUMBER: usize = 5;

/// The tables whose rows are kept here; by the numbers above.
pub(crate) static TABLES: [SwitchTable; NUMBER] = [
    SwitchTable {
        name: "setup_actors",
        keys: &["HOST", "USER", "ROLE"],
        switches: &["ENABLED", "HISTORY"],
        grows: true,
    },
    SwitchTable {
        name: "setup_consumers",
        keys: &["NAME"],
        switches: &["ENABLED"],
        grows: false,
    },
    SwitchTable {
        name: "setup_instruments",
        keys: &["NAME"],
        switches: &["ENABLED", "TIMED"],
        grows: false,
    },
    SwitchTable {
        name: "setup_objects",
        keys: &["OBJECT_TYPE", "OBJECT_SCHEMA", "OBJECT_NAME"],
        switches: &["ENABLED", "TIMED"],
        grows: true,
    },
    SwitchTable {
        name: "setup_threads",
        keys: &["NAME"],
        switches: &["ENABLED", "HISTORY"],
        grows: false,
    },
];

/// A row: the cells of its key, then `YES` and `NO`.
pub(crate) type Row = Vec<String>;

/// Why a row is not added.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// There is one with this key.
    Duplicate,
    /// There are too many.
    Full,
}

/// The rows of all tables.
pub(crate) struct Instruments {
    tables: RwLock<[Vec<Row>; NUMBER]>,
    flags: AtomicU8,
}

fn is_on(rows: &[Row], name: &str) -> Option<bool> {
    let row = rows.iter().find(|row| row[0].eq_ignore_ascii_case(name))?;
    Some(row[1] == "YES")
}

/// What is on of all that statements ask for, by the rows.
fn flags_of(tables: &[Vec<Row>; NUMBER]) -> u8 {
    let consumes = |name| is_on(&tables[CONSUMERS], name).unwrap_or(false);
    let is_measured = is_on(&tables[INSTRUMENTS], "statement/sql/all") == Some(true);
    let threads = consumes("thread_instrumentation");
    let mut flags = 0;
    if consumes("global_instrumentation") && is_measured {
        flags |= STATEMENTS;
        for (flag, is_on) in [
            (DIGESTS, consumes("statements_digest")),
            (HISTORY, threads && consumes("events_statements_history")),
            (CURRENT, threads && consumes("events_statements_current")),
        ] {
            flags |= if is_on { flag } else { 0 };
        }
    }
    flags
}

impl Instruments {
    pub(crate) fn new(tables: [Vec<Row>; NUMBER]) -> Self {
        let flags = AtomicU8::new(flags_of(&tables));
        let tables = RwLock::new(tables);
        Self { tables, flags }
    }

    /// Rows of a table.
    pub(crate) fn rows(&self, table: usize) -> Vec<Row> {
        self.tables.read()[table].clone()
    }

    /// Gives rows other switches; those that are gone meanwhile are left out. How many have changed.
    pub(crate) fn update(&self, table: usize, changed: &[Row]) -> u64 {
        let keys = TABLES[table].keys.len();
        let mut tables = self.tables.write();
        let mut count = 0;
        for new in changed {
            let mut rows = tables[table].iter_mut();
            let found = rows.find(|row| row[..keys] == new[..keys]);
            if let Some(row) = found.filter(|row| **row != *new) {
                row.clone_from(new);
                count += 1;
            }
        }
        // Before the lock is given up: of two changes at once the later one says what is on.
        self.flags.store(flags_of(&tables), Ordering::Relaxed);
        count
    }

    /// Adds a row.
    pub(crate) fn insert(&self, table: usize, row: Row) -> Result<(), Refused> {
        let SwitchTable { keys, switches, .. } = &TABLES[table];
        debug_assert_eq!(row.len(), keys.len() + switches.len());
        let mut tables = self.tables.write();
        let rows = &mut tables[table];
        let key = &row[..keys.len()];
        if rows.iter().any(|old| old[..keys.len()] == *key) {
            return Err(Refused::Duplicate);
        }
        if rows.len() >= MAX_ROWS {
            return Err(Refused::Full);
        }
        rows.push(row);
        Ok(())
    }

    /// Removes rows by their keys; all of them without any. How many are gone.
    pub(crate) fn remove(&self, table: usize, removed: Option<&[Row]>) -> u64 {
        debug_assert!(TABLES[table].grows);
        let keys = TABLES[table].keys.len();
        let mut tables = self.tables.write();
        let rows = &mut tables[table];
        let before = rows.len();
        rows.retain(|row| {
            removed.is_some_and(|removed| !removed.iter().any(|gone| gone[..keys] == row[..keys]))
        });
        (before - rows.len()) as u64
    }

    /// Is the first switch of a row on? None: there is no such row. Names do not distinguish case.
    pub(crate) fn is_on(&self, table: usize, name: &str) -> Option<bool> {
        is_on(&self.tables.read()[table], name)
    }

    /// What is on of all that statements ask for.
    pub(crate) fn flags(&self) -> u8 {
        self.flags.load(Ordering::Relaxed)
    }

    /// What is measured of a new session of this user: as the row says that fits best, and nothing without one.
    pub(crate) fn of_actor(&self, host: &str, user: &str) -> u8 {
        let tables = self.tables.read();
        let fits = |cell: &str, what: &str| cell == "%" || cell.eq_ignore_ascii_case(what);
        let rows = tables[ACTORS].iter();
        let fitting = rows.filter(|row| fits(&row[0], host) && fits(&row[1], user));
        let best = fitting.max_by_key(|row| (row[0] != "%", row[1] != "%"));
        best.map_or(0, |row| {
            let bit = |cell: usize, flag: u8| if row[cell] == "YES" { flag } else { 0 };
            bit(3, INSTRUMENTED) | bit(4, REMEMBERED)
        })
    }

    /// Is what happens to a table counted? As the row says that fits best, and not without one.
    pub(crate) fn counts_table(&self, schema: &str, name: &str) -> bool {
        let tables = self.tables.read();
        let fits = |cell: &str, what: &str| cell == "%" || cell == what;
        let rows = tables[OBJECTS].iter().filter(|row| row[0] == "TABLE");
        let fitting = rows.filter(|row| fits(&row[1], schema) && fits(&row[2], name));
        let best = fitting.max_by_key(|row| (row[1] != "%", row[2] != "%"));
        best.is_some_and(|row| row[3] == "YES")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(cells: &[&str]) -> Row {
        cells.iter().map(|cell| (*cell).to_owned()).collect()
    }

    fn instruments() -> Instruments {
        let mut tables: [Vec<Row>; NUMBER] = Default::default();
        tables[ACTORS].push(row(&["%", "%", "%", "YES", "YES"]));
        for name in [
            "global_instrumentation",
            "thread_instrumentation",
            "statements_digest",
            "events_statements_history",
        ] {
            tables[CONSUMERS].push(row(&[name, "YES"]));
        }
        tables[INSTRUMENTS].push(row(&["statement/sql/all", "YES", "YES"]));
        Instruments::new(tables)
    }

    #[test]
    fn flags_follow_their_consumers() {
        let all = instruments();
        assert_eq!(all.flags(), STATEMENTS | DIGESTS | HISTORY);
        let off = |name: &str| all.update(CONSUMERS, &[row(&[name, "NO"])]);
        assert_eq!(off("thread_instrumentation"), 1);
        assert_eq!(off("thread_instrumentation"), 0, "it is off already");
        assert_eq!(all.flags(), STATEMENTS | DIGESTS);
        assert_eq!(off("no such thing"), 0);
        off("global_instrumentation");
        assert_eq!(all.flags(), 0);
    }

    #[test]
    fn the_row_that_fits_best_says_what_is_measured() {
        let all = instruments();
        for cells in [["h", "%", "%", "YES", "NO"], ["%", "u", "%", "NO", "YES"]] {
            assert_eq!(all.insert(ACTORS, row(&cells)), Ok(()));
        }
        let again = row(&["h", "%", "%", "NO", "NO"]);
        assert_eq!(all.insert(ACTORS, again), Err(Refused::Duplicate));
        assert_eq!(all.of_actor("x", "x"), INSTRUMENTED | REMEMBERED);
        assert_eq!(all.of_actor("h", "u"), INSTRUMENTED);
        assert_eq!(all.of_actor("x", "u"), REMEMBERED);
        assert_eq!(
            all.remove(ACTORS, Some(&[row(&["%", "%", "%", "", ""])])),
            1
        );
        assert_eq!(all.of_actor("x", "x"), 0);
        assert_eq!(all.remove(ACTORS, None), 2);
    }

    #[test]
    fn tables_grow_up_to_a_limit() {
        let all = instruments();
        let new = |n: usize| all.insert(ACTORS, row(&[&n.to_string(), "%", "%", "YES", "NO"]));
        assert!((1..MAX_ROWS).all(|n| new(n).is_ok()));
        assert_eq!(new(MAX_ROWS), Err(Refused::Full));
    }
}
