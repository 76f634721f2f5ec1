//! Random statements about three tables with random foreign keys, against a model of them.
//!
//! **Checked** after every statement: error or not, all rows, (by [`Bench::rows`]) that every index has exactly the
//! entries that the rows ask for, and that no row is without its parents.

use std::collections::BTreeMap;

use proptest::prelude::*;

use crate::dml::testing::Bench;

const TABLES: usize = 3;
const DEPTH: usize = 15;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Action {
    Refuse,
    Cascade,
    SetNull,
}

/// A foreign key of a column (`f` or `g`) to the `id` of a table.
#[derive(Debug, Clone, Copy)]
struct Key {
    child: usize,
    column: usize,
    parent: usize,
    on_delete: Action,
    on_update: Action,
}

type Row = [Option<u8>; 2];

#[derive(Debug, Clone)]
enum Op {
    Insert(usize, u8, Row),
    Replace(usize, u8, Row),
    Delete(usize, u8),
    DeleteAll(usize),
    MoveId(usize, u8, u8),
    Set(usize, usize, u8, Option<u8>),
}

#[derive(Debug, Clone, Default)]
struct Model {
    tables: [BTreeMap<u8, Row>; TABLES],
}

struct Refused;

/// A row being changed further up.
#[derive(Clone, Copy)]
struct Link {
    table: usize,
    id: u8,
    deletes: bool,
}

impl Model {
    fn has_parents(&self, keys: &[Key], table: usize, row: Row) -> bool {
        let own = keys.iter().filter(|k| k.child == table);
        let mut parents = own.filter_map(|k| Some((k.parent, row[k.column]?)));
        parents.all(|(parent, id)| self.tables[parent].contains_key(&id))
    }

    fn children(&self, key: &Key, id: u8) -> Vec<u8> {
        let rows = self.tables[key.child].iter();
        let refers = rows.filter(|(_, row)| row[key.column] == Some(id));
        refers.map(|(id, _)| *id).collect()
    }

    /// Settles the children of a row that goes, or gets the id `new`.
    fn settle(&mut self, keys: &[Key], chain: &[Link], new: Option<u8>) -> Result<(), Refused> {
        let Link { table, id, .. } = chain[chain.len() - 1];
        for key in keys.iter().filter(|k| k.parent == table) {
            let action = match new {
                None => key.on_delete,
                Some(_) => key.on_update,
            };
            let deletes = new.is_none() && action == Action::Cascade;
            let is_updated = chain.iter().any(|l| !l.deletes && l.table == key.child);
            for child in self.children(key, id) {
                if action == Action::Refuse || (!deletes && is_updated) {
                    return Err(Refused);
                }
                let goes = |l: &Link| l.deletes && (l.table, l.id) == (key.child, child);
                if chain.iter().any(goes) || !self.tables[key.child].contains_key(&child) {
                    continue;
                }
                if chain.len() >= DEPTH {
                    return Err(Refused);
                }
                if deletes {
                    self.delete(keys, chain, key.child, child)?;
                } else if let Some(row) = self.tables[key.child].get_mut(&child) {
                    row[key.column] = new.filter(|_| action == Action::Cascade);
                }
            }
        }
        Ok(())
    }

    fn delete(
        &mut self,
        keys: &[Key],
        cause: &[Link],
        table: usize,
        id: u8,
    ) -> Result<(), Refused> {
        let mut chain = cause.to_vec();
        chain.push(Link {
            table,
            id,
            deletes: true,
        });
        self.settle(keys, &chain, None)?;
        self.tables[table].remove(&id);
        Ok(())
    }

    fn insert(&mut self, keys: &[Key], table: usize, id: u8, row: Row) -> Result<(), Refused> {
        self.tables[table].insert(id, row);
        match self.has_parents(keys, table, row) {
            true => Ok(()),
            false => Err(Refused),
        }
    }

    fn apply(&mut self, keys: &[Key], op: &Op) -> Result<(), Refused> {
        match *op {
            Op::Insert(table, id, _) if self.tables[table].contains_key(&id) => Err(Refused),
            Op::Insert(table, id, row) => self.insert(keys, table, id, row),
            Op::Replace(table, id, row) => {
                if self.tables[table].contains_key(&id) {
                    let is_parent = keys.iter().any(|k| k.parent == table);
                    if !is_parent && self.tables[table][&id] == row {
                        return Ok(());
                    }
                    self.delete(keys, &[], table, id)?;
                }
                self.insert(keys, table, id, row)
            }
            Op::Delete(table, id) if self.tables[table].contains_key(&id) => {
                self.delete(keys, &[], table, id)
            }
            Op::Delete(..) => Ok(()),
            Op::DeleteAll(table) => {
                let ids: Vec<u8> = self.tables[table].keys().copied().collect();
                for id in ids {
                    if self.tables[table].contains_key(&id) {
                        self.delete(keys, &[], table, id)?;
                    }
                }
                Ok(())
            }
            Op::MoveId(table, id, new) => {
                if id == new || !self.tables[table].contains_key(&id) {
                    return Ok(());
                }
                let link = Link {
                    table,
                    id,
                    deletes: false,
                };
                self.settle(keys, &[link], Some(new))?;
                if self.tables[table].contains_key(&new) {
                    return Err(Refused);
                }
                let row = self.tables[table].remove(&id).unwrap_or_default();
                self.insert(keys, table, new, row)
            }
            Op::Set(table, column, id, value) => {
                let Some(row) = self.tables[table].get_mut(&id) else {
                    return Ok(());
                };
                row[column] = value;
                let mut changed = Row::default();
                changed[column] = value;
                match self.has_parents(keys, table, changed) {
                    true => Ok(()),
                    false => Err(Refused),
                }
            }
        }
    }

    fn shown(&self, table: usize) -> Vec<String> {
        let rows = self.tables[table].iter();
        let shown = rows.map(|(id, [f, g])| format!("{id}|{}|{}", sql(*f), sql(*g)));
        shown.collect()
    }
}

fn sql(value: Option<u8>) -> String {
    value.map_or("NULL".into(), |v| v.to_string())
}

impl Op {
    fn sql(&self) -> String {
        let column = |c: usize| ["f", "g"][c];
        let values = |id: u8, [f, g]: Row| format!("({id}, {}, {})", sql(f), sql(g));
        match *self {
            Op::Insert(t, id, row) => format!("INSERT INTO t{t} VALUES {}", values(id, row)),
            Op::Replace(t, id, row) => format!("REPLACE INTO t{t} VALUES {}", values(id, row)),
            Op::Delete(t, id) => format!("DELETE FROM t{t} WHERE id = {id}"),
            Op::DeleteAll(t) => format!("DELETE FROM t{t}"),
            Op::MoveId(t, id, new) => format!("UPDATE t{t} SET id = {new} WHERE id = {id}"),
            Op::Set(t, c, id, value) => {
                format!(
                    "UPDATE t{t} SET {} = {} WHERE id = {id}",
                    column(c),
                    sql(value)
                )
            }
        }
    }
}

impl Key {
    fn sql(&self, nth: usize) -> String {
        let word = |action| match action {
            Action::Refuse => "RESTRICT",
            Action::Cascade => "CASCADE",
            Action::SetNull => "SET NULL",
        };
        format!(
            "ALTER TABLE t{} ADD CONSTRAINT k{nth} FOREIGN KEY ({}) REFERENCES t{} (id) ON DELETE {} ON UPDATE {}",
            self.child,
            ["f", "g"][self.column],
            self.parent,
            word(self.on_delete),
            word(self.on_update),
        )
    }
}

fn action() -> impl Strategy<Value = Action> {
    prop_oneof![
        1 => Just(Action::Refuse),
        3 => Just(Action::Cascade),
        1 => Just(Action::SetNull),
    ]
}

/// One key at most for each column.
fn keys() -> impl Strategy<Value = Vec<Key>> {
    let key = (0..TABLES, action(), action());
    proptest::collection::vec(proptest::option::weighted(0.7, key), TABLES * 2).prop_map(|keys| {
        let places = keys.into_iter().enumerate();
        let key = |(at, key): (usize, Option<(usize, Action, Action)>)| {
            let (parent, on_delete, on_update) = key?;
            Some(Key {
                child: at / 2,
                column: at % 2,
                parent,
                on_delete,
                on_update,
            })
        };
        places.filter_map(key).collect()
    })
}

fn op() -> impl Strategy<Value = Op> {
    let (table, id) = (|| 0..TABLES, || 0u8..5);
    let row = || proptest::array::uniform2(proptest::option::weighted(0.6, 0u8..5));
    prop_oneof![
        8 => (table(), id(), row()).prop_map(|(t, id, row)| Op::Insert(t, id, row)),
        2 => (table(), id(), row()).prop_map(|(t, id, row)| Op::Replace(t, id, row)),
        3 => (table(), id()).prop_map(|(t, id)| Op::Delete(t, id)),
        1 => table().prop_map(Op::DeleteAll),
        3 => (table(), id(), id()).prop_map(|(t, id, new)| Op::MoveId(t, id, new)),
        4 => (table(), 0usize..2, id(), proptest::option::weighted(0.8, 0u8..5))
            .prop_map(|(t, c, id, value)| Op::Set(t, c, id, value)),
    ]
}

/// One server for all cases: each makes its own tables.
fn run(bench: &mut Bench, keys: &[Key], ops: &[Op]) {
    bench.ok("DROP TABLE IF EXISTS t0, t1, t2");
    for table in 0..TABLES {
        bench.ok(&format!(
            "CREATE TABLE t{table} (id INT PRIMARY KEY, f INT, g INT)"
        ));
    }
    for (nth, key) in keys.iter().enumerate() {
        bench.ok(&key.sql(nth));
    }
    let mut model = Model::default();
    for op in ops {
        let mut after = model.clone();
        let expected = after.apply(keys, op);
        let found = bench.attempt(&op.sql());
        assert_eq!(found.is_ok(), expected.is_ok(), "{}", op.sql());
        if expected.is_ok() {
            model = after;
        }
        for table in 0..TABLES {
            assert_eq!(
                bench.rows(&format!("t{table}")),
                model.shown(table),
                "{}",
                op.sql()
            );
            let rows = model.tables[table].values();
            assert!(rows.copied().all(|row| model.has_parents(keys, table, row)));
        }
    }
}

#[test]
fn random_statements_keep_foreign_keys_as_a_model_does() {
    let mut bench = Bench::new();
    let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig {
        cases: 40,
        failure_persistence: None,
        ..ProptestConfig::default()
    });
    let cell = std::cell::RefCell::new(&mut bench);
    runner
        .run(
            &(keys(), proptest::collection::vec(op(), 1..60)),
            |(keys, ops)| {
                run(&mut cell.borrow_mut(), &keys, &ops);
                Ok(())
            },
        )
        .unwrap_or_else(|e| panic!("{e}"));
}
