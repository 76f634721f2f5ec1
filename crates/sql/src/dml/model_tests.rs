//! Random statements against a model of one table: a primary key, a unique key that allows NULL, a
//! plain index.
//!
//! **Checked** after every statement: error or not, affected rows, all rows, and (by
//! [`Bench::rows`]) that every index has exactly the entries the rows ask for.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::testing::Bench;

type Row = (Option<u8>, u8);

/// The table: id to (u, n).
#[derive(Debug, Clone, Default)]
struct Model {
    rows: BTreeMap<u8, Row>,
}

#[derive(Debug, Clone)]
enum Op {
    Insert(u8, Row),
    Ignore(Vec<(u8, Row)>),
    Replace(u8, Row),
    OnDuplicate(u8, Row),
    MoveId(u8, u8),
    SetUnique(u8, Option<u8>),
    AddToN(u8, u8),
    Delete(u8, bool),
}

fn row() -> impl Strategy<Value = Row> {
    (proptest::option::of(0u8..6), 0u8..4)
}

fn op() -> impl Strategy<Value = Op> {
    let id = || 0u8..8;
    prop_oneof![
        3 => (id(), row()).prop_map(|(id, row)| Op::Insert(id, row)),
        1 => proptest::collection::vec((id(), row()), 1..4).prop_map(Op::Ignore),
        2 => (id(), row()).prop_map(|(id, row)| Op::Replace(id, row)),
        2 => (id(), row()).prop_map(|(id, row)| Op::OnDuplicate(id, row)),
        1 => (id(), 0u8..3).prop_map(|(id, by)| Op::MoveId(id, by)),
        1 => (0u8..4, proptest::option::of(0u8..6)).prop_map(|(n, u)| Op::SetUnique(n, u)),
        1 => (0u8..4, 0u8..3).prop_map(|(n, by)| Op::AddToN(n, by)),
        1 => (0u8..8, any::<bool>()).prop_map(|(limit, by_n)| Op::Delete(limit, by_n)),
    ]
}

fn sql_value(v: Option<u8>) -> String {
    v.map_or("NULL".into(), |v| v.to_string())
}

fn values(id: u8, (u, n): Row) -> String {
    format!("({id}, {}, {n})", sql_value(u))
}

impl Op {
    fn sql(&self) -> String {
        match self {
            Op::Insert(id, row) => format!("INSERT INTO t VALUES {}", values(*id, *row)),
            Op::Ignore(rows) => {
                let all: Vec<String> = rows.iter().map(|(id, row)| values(*id, *row)).collect();
                format!("INSERT IGNORE INTO t VALUES {}", all.join(", "))
            }
            Op::Replace(id, row) => format!("REPLACE INTO t VALUES {}", values(*id, *row)),
            Op::OnDuplicate(id, row) => format!(
                "INSERT INTO t VALUES {} ON DUPLICATE KEY UPDATE n = n + VALUES(n), u = VALUES(u)",
                values(*id, *row)
            ),
            Op::MoveId(id, by) => format!("UPDATE t SET id = id + {by} WHERE id = {id}"),
            Op::SetUnique(n, u) => format!("UPDATE t SET u = {} WHERE n = {n}", sql_value(*u)),
            Op::AddToN(n, by) => format!("UPDATE t SET n = n + {by} WHERE n >= {n}"),
            Op::Delete(limit, true) => format!("DELETE FROM t WHERE n >= {limit}"),
            Op::Delete(limit, false) => format!("DELETE FROM t WHERE id < {limit}"),
        }
    }
}

impl Model {
    /// The row that has this unique value.
    fn holder(&self, u: Option<u8>) -> Option<u8> {
        u?;
        self.rows
            .iter()
            .find(|(_, row)| row.0 == u)
            .map(|(id, _)| *id)
    }

    /// The row in the way of a new one: by the primary key, then by the unique one.
    fn in_the_way(&self, id: u8, row: Row) -> Option<u8> {
        self.rows
            .contains_key(&id)
            .then_some(id)
            .or_else(|| self.holder(row.0))
    }

    /// Puts a changed row; `None` if its unique value is another row's.
    fn change(&mut self, id: u8, new: Row) -> Option<u64> {
        if self.holder(new.0).is_some_and(|other| other != id) {
            return None;
        }
        let old = self.rows.insert(id, new);
        Some(u64::from(old != Some(new)))
    }

    /// Affected rows, or `None` for a duplicate; then nothing has changed.
    fn apply(&mut self, op: &Op) -> Option<u64> {
        let before = self.clone();
        let affected = self.try_apply(op);
        if affected.is_none() {
            *self = before;
        }
        affected
    }

    fn try_apply(&mut self, op: &Op) -> Option<u64> {
        match op {
            Op::Insert(id, row) => {
                if self.in_the_way(*id, *row).is_some() {
                    return None;
                }
                self.rows.insert(*id, *row);
                Some(1)
            }
            Op::Ignore(rows) => {
                let mut inserted = 0;
                for (id, row) in rows {
                    if self.in_the_way(*id, *row).is_none() {
                        self.rows.insert(*id, *row);
                        inserted += 1;
                    }
                }
                Some(inserted)
            }
            Op::Replace(id, row) => {
                let mut affected = 1;
                while let Some(other) = self.in_the_way(*id, *row) {
                    self.rows.remove(&other);
                    affected += 1;
                }
                self.rows.insert(*id, *row);
                Some(affected)
            }
            Op::OnDuplicate(id, row) => match self.in_the_way(*id, *row) {
                None => {
                    self.rows.insert(*id, *row);
                    Some(1)
                }
                Some(other) => {
                    let n = self.rows[&other].1 + row.1;
                    self.change(other, (row.0, n)).map(|changed| 2 * changed)
                }
            },
            Op::MoveId(id, by) => {
                let Some(row) = self.rows.get(id).copied() else {
                    return Some(0);
                };
                if *by == 0 {
                    return Some(0);
                }
                if self.rows.contains_key(&(id + by)) {
                    return None;
                }
                self.rows.remove(id);
                self.rows.insert(id + by, row);
                Some(1)
            }
            Op::SetUnique(n, u) => {
                let ids: Vec<u8> = self
                    .rows
                    .iter()
                    .filter(|(_, r)| r.1 == *n)
                    .map(|(id, _)| *id)
                    .collect();
                ids.into_iter().map(|id| self.change(id, (*u, *n))).sum()
            }
            Op::AddToN(n, by) => {
                let hit = self.rows.values_mut().filter(|r| r.1 >= *n);
                let count = hit.map(|r| r.1 += by).count() as u64;
                Some(if *by == 0 { 0 } else { count })
            }
            Op::Delete(limit, by_n) => {
                let before = self.rows.len();
                self.rows
                    .retain(|id, r| if *by_n { r.1 < *limit } else { id >= limit });
                Some((before - self.rows.len()) as u64)
            }
        }
    }

    fn shown(&self) -> Vec<String> {
        let show = |(id, (u, n)): (&u8, &Row)| format!("{id}|{}|{n}", sql_value(*u));
        self.rows.iter().map(show).collect()
    }
}

/// One server for all cases: each takes its own table.
fn run(bench: &mut Bench, ops: &[Op]) {
    bench.ok("DROP TABLE IF EXISTS t");
    bench.ok("CREATE TABLE t (id INT PRIMARY KEY, u TINYINT, n INT, UNIQUE (u), KEY (n, u))");
    let mut model = Model::default();
    for op in ops {
        let sql = op.sql();
        match model.apply(op) {
            None => assert_eq!(bench.code(&sql), 1062, "{sql}"),
            Some(affected) => {
                let found = bench.ok(&sql).affected;
                // A row that replaces one equal to it may count as one or as two.
                if !matches!(op, Op::Replace(..)) {
                    assert_eq!(found, affected, "{sql}");
                }
            }
        }
        assert_eq!(bench.rows("t"), model.shown(), "{sql}");
    }
}

#[test]
fn random_statements_do_what_a_model_does() {
    let mut bench = Bench::new();
    let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig {
        cases: 40,
        failure_persistence: None,
        ..ProptestConfig::default()
    });
    let cell = std::cell::RefCell::new(&mut bench);
    runner
        .run(&proptest::collection::vec(op(), 1..30), |ops| {
            run(&mut cell.borrow_mut(), &ops);
            Ok(())
        })
        .unwrap_or_else(|e| panic!("{e}"));
}
