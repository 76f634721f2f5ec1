//! The clients of the mixed load that change tables: they create, load, index, copy, optimize, truncate, rename and
//! drop tables of their own and views, and index and copy the tables that the others write to. What is there after a
//! crash is what they know, with the one statement without an answer whole or not at all.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::{Path, PathBuf};

use esker_server::client::Client;

use super::{Dice, Gone, Load, ask, run};
use crate::common::Ask;

/// Tables of each client.
const TABLES: u64 = 3;
/// Files to load, and the rows of each: some flushes of the smallest memtable together.
const FILES: u64 = 4;
const FILE_ROWS: u64 = 5000;
/// Rows of a statement that writes some.
const FEW_ROWS: u64 = 50;
/// Bytes of each row's text.
const TEXT_BYTES: usize = 100;

/// Files that the server may load.
pub struct LoadFiles(PathBuf);

impl LoadFiles {
    pub fn written(dir: &Path) -> Self {
        let dir = dir.join("files");
        std::fs::create_dir(&dir).expect("folder");
        for n in 0..FILES {
            let rows = file_ids(n).map(|id| format!("{id}\t{id}\t{}\n", text(id)));
            std::fs::write(dir.join(n.to_string()), rows.collect::<String>()).expect("file");
        }
        LoadFiles(dir)
    }

    /// The server's setting that lets it read them.
    pub fn setting(&self) -> String {
        format!("--secure-file-priv={}", self.0.display())
    }
}

/// Each file has half of the rows of the next one, too.
fn file_ids(n: u64) -> std::ops::Range<u64> {
    n * FILE_ROWS / 2..n * FILE_ROWS / 2 + FILE_ROWS
}

fn text(id: u64) -> String {
    format!("{id:0>TEXT_BYTES$}")
}

#[derive(Clone, Default, PartialEq, Eq)]
struct Table {
    ids: BTreeSet<u64>,
    has_column: bool,
    has_index: bool,
}

/// What there is, by name.
#[derive(Clone, Default, PartialEq, Eq)]
struct State {
    tables: BTreeMap<String, Table>,
    /// Views and the number in each.
    views: BTreeMap<String, u64>,
}

/// What one client knows that changes tables.
pub struct Shapes {
    /// Its names begin with it.
    prefix: &'static str,
    state: State,
    /// What there is if the statement without an answer was done.
    perhaps: Option<State>,
    /// Statements that were done, by their first words.
    counts: BTreeMap<String, u64>,
}

impl fmt::Display for Shapes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {:?}", self.prefix, self.counts)
    }
}

impl Shapes {
    pub fn new(prefix: &'static str) -> Self {
        Shapes {
            prefix,
            state: State::default(),
            perhaps: None,
            counts: BTreeMap::new(),
        }
    }

    /// Statements until the server is gone or the load stops.
    pub fn live(&mut self, load: &Load<'_>, files: &LoadFiles, dice: &mut Dice) {
        let Ok(mut c) = load.server.try_connect() else {
            return;
        };
        // Prepared transactions keep tables to themselves for long.
        if run(&mut c, "SET lock_wait_timeout = 1").is_err() {
            return;
        }
        while load.goes_on() && self.step(&mut c, files, dice).is_ok() {}
    }

    fn step(&mut self, c: &mut Client, files: &LoadFiles, dice: &mut Dice) -> Result<(), Gone> {
        if dice.roll(6) == 0 {
            return self.change_foreign(c, dice);
        }
        let (sql, after) = self.choose(files, dice);
        self.perhaps = Some(after);
        let refused = ask(c, &sql)?;
        let after = self.perhaps.take().expect("set above");
        match refused {
            None => {
                self.state = after;
                self.count(&sql);
            }
            // A view is of a table that others are writing to.
            Some((1205, _)) if sql.contains(" VIEW ") => {}
            refused => assert_eq!(refused, None, "{sql}"),
        }
        Ok(())
    }

    fn count(&mut self, sql: &str) {
        let name = sql.split(' ').take(2).collect::<Vec<_>>().join(" ");
        *self.counts.entry(name).or_default() += 1;
    }

    /// Changes tables that others are writing to, in ways that change no rows.
    fn change_foreign(&mut self, c: &mut Client, dice: &mut Dice) -> Result<(), Gone> {
        let table = ["t", "big", "done", "parent", "child", "friend"][dice.roll(6) as usize];
        let sql = match dice.roll(5) {
            0 | 1 => format!(
                "CREATE INDEX more ON mix.{table} (id, {})",
                ["v", "client"][usize::from(table == "done")]
            ),
            2 => format!("DROP INDEX more ON mix.{table}"),
            3 if table != "done" => {
                let kind = ["INT", "BIGINT"][dice.roll(2) as usize];
                format!("ALTER TABLE mix.{table} MODIFY COLUMN v {kind} NOT NULL")
            }
            _ => format!("OPTIMIZE TABLE mix.{table}"),
        };
        match ask(c, &sql)? {
            None => self.count(&sql),
            // Locked, also a relative; there already; not there; changed meanwhile.
            Some((1205 | 1213 | 1061 | 1091 | 1412, _)) => {}
            Some((code, message)) => panic!("{sql}: {code} {message}"),
        }
        Ok(())
    }

    /// A statement that can be done, and what there is behind it.
    fn choose(&self, files: &LoadFiles, dice: &mut Dice) -> (String, State) {
        let mut after = self.state.clone();
        if dice.roll(10) == 0 {
            return (self.choose_view(&mut after, dice), after);
        }
        let name = format!("{}{}", self.prefix, dice.roll(TABLES));
        let moved = format!("{}moved", self.prefix);
        let others: Vec<String> = after.tables.keys().cloned().collect();
        let Some(table) = after.tables.get_mut(&name) else {
            after.tables.insert(name.clone(), Table::default());
            let sql = format!(
                "CREATE TABLE ddl.{name} (id INT PRIMARY KEY, v INT, s VARCHAR(120), KEY v (v))"
            );
            return (sql, after);
        };
        let sql = match dice.roll(20) {
            0 => {
                after.tables.remove(&name);
                format!("DROP TABLE ddl.{name}")
            }
            1 => {
                table.ids.clear();
                format!("TRUNCATE TABLE ddl.{name}")
            }
            2 | 3 => {
                let (verb, kind) = match table.has_column {
                    true => ("DROP", ""),
                    false => ("ADD", " INT DEFAULT 7"),
                };
                table.has_column = !table.has_column;
                format!("ALTER TABLE ddl.{name} {verb} COLUMN more{kind}")
            }
            // All rows are written to new trees.
            4 | 5 => {
                format!("ALTER TABLE ddl.{name} MODIFY COLUMN v BIGINT, MODIFY COLUMN id BIGINT")
            }
            6..=8 => {
                table.has_index = !table.has_index;
                match table.has_index {
                    true => format!("CREATE INDEX more ON ddl.{name} (s, v)"),
                    false => format!("DROP INDEX more ON ddl.{name}"),
                }
            }
            9 => format!("OPTIMIZE TABLE ddl.{name}"),
            10 if others.contains(&moved) => {
                after.tables.remove(&moved);
                format!("DROP TABLE ddl.{moved}")
            }
            10 => {
                let table = after.tables.remove(&name).expect("it is there");
                after.tables.insert(moved.clone(), table);
                format!("RENAME TABLE ddl.{name} TO ddl.{moved}")
            }
            11..=14 => load(table, &name, files, dice),
            15 => {
                let from = &others[dice.roll(others.len() as u64) as usize];
                let ids = self.state.tables[from].ids.clone();
                table.ids.extend(ids);
                format!("INSERT IGNORE INTO ddl.{name} (id, v, s) SELECT id, v, s FROM ddl.{from}")
            }
            16 => {
                let first = dice.roll(FILES * FILE_ROWS);
                let last = first + dice.roll(FILE_ROWS);
                table.ids.retain(|id| !(first..=last).contains(id));
                format!("DELETE FROM ddl.{name} WHERE id BETWEEN {first} AND {last}")
            }
            _ => replace(table, &name, dice),
        };
        (sql, after)
    }

    /// A change of a view.
    fn choose_view(&self, after: &mut State, dice: &mut Dice) -> String {
        let name = format!("{}{}", self.prefix, dice.roll(2));
        if after.views.remove(&name).is_some() && dice.roll(2) == 0 {
            return format!("DROP VIEW seen.{name}");
        }
        let number = dice.roll(1000);
        after.views.insert(name.clone(), number);
        format!(
            "CREATE OR REPLACE VIEW seen.{name} AS SELECT {number} AS number FROM mix.t LIMIT 1"
        )
    }

    fn found(&self, c: &mut Client) -> State {
        let mut state = State::default();
        for name in c.lines(&format!("SHOW TABLES FROM ddl LIKE '{}%'", self.prefix)) {
            let ids = c.lines(&format!("SELECT id FROM ddl.{name} ORDER BY id"));
            let ids: BTreeSet<u64> = ids.iter().map(|id| id.parse().expect("a number")).collect();
            let torn = format!(
                "SELECT COUNT(*) FROM ddl.{name} WHERE v <> id OR s <> LPAD(id, {TEXT_BYTES}, '0')"
            );
            assert_eq!(
                c.value(&torn),
                "0",
                "{name}: a row is not as it was written"
            );
            let columns = c.lines(&format!("SHOW COLUMNS FROM ddl.{name}"));
            let indexes = c.lines(&format!("SHOW INDEX FROM ddl.{name}"));
            let has_index = indexes.iter().any(|index| index.contains("|more|"));
            for (index, condition) in [("v", "v >= 0"), ("more", "s >= ''")] {
                if index == "v" || has_index {
                    let sql = format!(
                        "SELECT CONCAT(COUNT(*), ' ', COALESCE(SUM(id), 0)) FROM ddl.{name} FORCE INDEX ({index}) WHERE {condition}"
                    );
                    let expected = format!("{} {}", ids.len(), ids.iter().sum::<u64>());
                    assert_eq!(c.value(&sql), expected, "index {index} of {name}");
                }
            }
            let table = Table {
                ids,
                has_column: columns.iter().any(|column| column.starts_with("more|")),
                has_index,
            };
            state.tables.insert(name, table);
        }
        for name in c.lines(&format!("SHOW TABLES FROM seen LIKE '{}%'", self.prefix)) {
            let create = c.value(&format!("SELECT view_definition FROM information_schema.views WHERE table_schema = 'seen' AND table_name = '{name}'"));
            let number = create
                .split(|ch: char| !ch.is_ascii_digit())
                .find(|n| !n.is_empty());
            let number = number.expect("a number").parse().expect("a number");
            state.views.insert(name, number);
        }
        state
    }

    /// After a crash: there is what was there before the statement without an answer, or behind it.
    pub fn verify(&mut self, c: &mut Client) {
        let found = self.found(c);
        let perhaps = self.perhaps.take();
        if found != self.state {
            let (before, after) = (summary(&self.state), perhaps.as_ref().map(summary));
            assert!(
                perhaps.as_ref() == Some(&found),
                "found {:?}\nbefore {before:?}\nafter {after:?}",
                summary(&found)
            );
            self.state = found;
        }
    }
}

/// What a failure shows.
fn summary(state: &State) -> Vec<String> {
    let tables = state.tables.iter().map(|(name, t)| {
        let (count, sum) = (t.ids.len(), t.ids.iter().sum::<u64>());
        format!(
            "{name}: {count} rows, {sum}, {} {}",
            t.has_column, t.has_index
        )
    });
    tables
        .chain(state.views.iter().map(|(name, n)| format!("{name}: {n}")))
        .collect()
}

/// Loads a file into a table.
fn load(table: &mut Table, name: &str, files: &LoadFiles, dice: &mut Dice) -> String {
    let file = dice.roll(FILES);
    table.ids.extend(file_ids(file));
    let path = files.0.join(file.to_string());
    format!(
        "LOAD DATA INFILE '{}' IGNORE INTO TABLE ddl.{name} (id, v, s)",
        path.display()
    )
}

/// Puts a few rows into a table.
fn replace(table: &mut Table, name: &str, dice: &mut Dice) -> String {
    let first = dice.roll(FILES * FILE_ROWS);
    let ids = first..first + FEW_ROWS;
    table.ids.extend(ids.clone());
    let rows: Vec<String> = ids
        .map(|id| format!("({id}, {id}, '{}')", text(id)))
        .collect();
    format!(
        "REPLACE INTO ddl.{name} (id, v, s) VALUES {}",
        rows.join(",")
    )
}
