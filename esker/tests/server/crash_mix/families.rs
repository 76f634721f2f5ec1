//! The clients of the mixed load that change families: parents whose keys cascade to children and grandchildren, and
//! generated columns, stored, virtual and indexed, also over the columns that cascades change. A transaction of theirs
//! is there as a whole or not at all; no child has lost its parent, every generated column says what its expression
//! says, and every index what its table says.

use std::collections::BTreeMap;
use std::fmt;

use esker_server::client::Client;

use super::{Dice, Gone, Load, ask, run};
use crate::common::Ask;

/// Ids of each client in each table.
const IDS: u64 = 40;
/// Most statements of a transaction.
const STATEMENTS: u64 = 4;

/// In the database of the tables that [`Shapes`](super::shapes::Shapes) alters.
pub const SCHEMA: &str = "
    CREATE TABLE mix.parent (id BIGINT PRIMARY KEY, v INT NOT NULL, twice INT AS (v * 2) VIRTUAL,
      name VARCHAR(20) AS (CONCAT('p', v)) STORED NOT NULL, KEY twice (twice), UNIQUE KEY name (name, id));
    CREATE TABLE mix.child (id BIGINT PRIMARY KEY, v INT NOT NULL, parent BIGINT NOT NULL,
      below BIGINT AS (parent + id) VIRTUAL, total BIGINT AS (v + id) STORED, KEY below (below), UNIQUE KEY total (total, id),
      CONSTRAINT child_parent FOREIGN KEY (parent) REFERENCES mix.parent (id) ON DELETE CASCADE ON UPDATE CASCADE);
    CREATE TABLE mix.grandchild (id BIGINT PRIMARY KEY, v INT NOT NULL, child BIGINT NOT NULL, KEY text ((CONCAT('g', v))),
      CONSTRAINT grandchild_child FOREIGN KEY (child) REFERENCES mix.child (id) ON DELETE CASCADE);
    CREATE TABLE mix.friend (id BIGINT PRIMARY KEY, v INT NOT NULL, parent BIGINT,
      is_alone BOOLEAN AS (parent IS NULL) VIRTUAL, KEY is_alone (is_alone, v),
      CONSTRAINT friend_parent FOREIGN KEY (parent) REFERENCES mix.parent (id) ON DELETE SET NULL ON UPDATE SET NULL)";

/// Rows that break a promise.
const BROKEN: [(&str, &str); 6] = [
    (
        "parent",
        "NOT (twice <=> v * 2 AND name <=> CONCAT('p', v))",
    ),
    ("child", "NOT (below <=> parent + id AND total <=> v + id)"),
    ("friend", "NOT (is_alone <=> (parent IS NULL))"),
    ("child", "parent NOT IN (SELECT id FROM mix.parent)"),
    ("grandchild", "child NOT IN (SELECT id FROM mix.child)"),
    (
        "friend",
        "parent IS NOT NULL AND parent NOT IN (SELECT id FROM mix.parent)",
    ),
];

/// Secondary indexes, with a condition that is true of every row and that the index is read for.
const INDEXES: [(&str, &str, &str); 9] = [
    ("parent", "twice", "twice >= 0"),
    ("parent", "name", "name >= 'p'"),
    ("child", "below", "below >= 0"),
    ("child", "total", "total >= 0"),
    ("child", "child_parent", "parent >= 0"),
    ("grandchild", "grandchild_child", "child >= 0"),
    ("grandchild", "text", "CONCAT('g', v) >= 'g'"),
    ("friend", "is_alone", "is_alone >= 0"),
    ("friend", "friend_parent", "parent IS NULL OR parent >= 0"),
];

/// The value and whom it refers to of a row of each table but `parent`, by id.
type Rows = BTreeMap<u64, (u64, Option<u64>)>;

/// What there is of one client.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
struct State {
    parents: BTreeMap<u64, u64>,
    children: Rows,
    grandchildren: Rows,
    friends: Rows,
}

/// What one client knows that changes families.
pub struct Families {
    /// Its ids begin here.
    first: u64,
    state: State,
    /// What there is if the COMMIT without an answer was done.
    perhaps: Option<State>,
    commits: u64,
    cascades: u64,
}

impl fmt::Display for Families {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "families {}: {} commits, {} cascades",
            self.first, self.commits, self.cascades
        )
    }
}

impl State {
    /// A row whose parent is gone.
    fn lose(&mut self, parent: u64) {
        self.children.retain(|_, (_, of)| *of != Some(parent));
        let children = &self.children;
        let has_child = |of: &Option<u64>| of.is_some_and(|of| children.contains_key(&of));
        self.grandchildren.retain(|_, (_, of)| has_child(of));
        self.leave(parent);
    }

    /// Friends whose parent is gone or is called otherwise.
    fn leave(&mut self, parent: u64) {
        for (_, of) in self.friends.values_mut() {
            *of = of.filter(|of| *of != parent);
        }
    }
}

impl Families {
    pub fn new(client: u64) -> Self {
        Families {
            first: 1 + client * 1_000_000,
            state: State::default(),
            perhaps: None,
            commits: 0,
            cascades: 0,
        }
    }

    /// Transactions until the server is gone or the load stops.
    pub fn live(&mut self, load: &Load<'_>, dice: &mut Dice) {
        let Ok(mut c) = load.server.try_connect() else {
            return;
        };
        // Others alter these tables, and gaps lie between the clients' rows.
        let settings = "SET lock_wait_timeout = 1, innodb_lock_wait_timeout = 1";
        if run(&mut c, settings).is_err() {
            return;
        }
        while load.goes_on() && self.step(&mut c, dice).is_ok() {}
    }

    fn step(&mut self, c: &mut Client, dice: &mut Dice) -> Result<(), Gone> {
        let mut after = self.state.clone();
        run(c, "BEGIN")?;
        for _ in 0..1 + dice.roll(STATEMENTS) {
            let (sql, expected) = self.choose(&mut after, dice);
            match ask(c, &sql)? {
                None => assert_eq!(expected, None, "{sql}"),
                Some((code, _)) if Some(code) == expected => {}
                // Locked, a deadlock, or altered meanwhile.
                Some((1205 | 1213 | 1412, _)) => return run(c, "ROLLBACK").map(|_| ()),
                Some((code, message)) => panic!("{sql}: {code} {message}"),
            }
        }
        if dice.roll(8) == 0 {
            return run(c, "ROLLBACK").map(|_| ());
        }
        self.perhaps = Some(after);
        assert!(run(c, "COMMIT")?, "a commit is not refused");
        self.state = self.perhaps.take().expect("set above");
        self.commits += 1;
        Ok(())
    }

    fn id(&self, dice: &mut Dice) -> u64 {
        self.first + dice.roll(IDS)
    }

    /// A statement, which changes `after`, or the error that it ends with.
    fn choose(&mut self, after: &mut State, dice: &mut Dice) -> (String, Option<u16>) {
        let (id, other, v) = (self.id(dice), self.id(dice), dice.roll(1_000_000));
        match dice.roll(10) {
            0 | 1 => match after.parents.remove(&id) {
                Some(_) if dice.roll(2) == 0 => {
                    self.cascades += 1;
                    after.lose(id);
                    (format!("DELETE FROM mix.parent WHERE id = {id}"), None)
                }
                Some(was) if !after.parents.contains_key(&other) && other != id => {
                    self.cascades += 1;
                    after.parents.insert(other, was);
                    let children = after.children.values_mut();
                    for (_, of) in children.filter(|(_, of)| *of == Some(id)) {
                        *of = Some(other);
                    }
                    after.leave(id);
                    let sql = format!("UPDATE mix.parent SET id = {other} WHERE id = {id}");
                    (sql, None)
                }
                _ => {
                    after.parents.insert(id, v);
                    let sql = format!(
                        "INSERT INTO mix.parent (id, v) VALUES ({id}, {v}) ON DUPLICATE KEY UPDATE v = {v}"
                    );
                    (sql, None)
                }
            },
            2 | 3 => {
                after.parents.insert(id, v);
                let sql = format!(
                    "INSERT INTO mix.parent (id, v) VALUES ({id}, {v}) ON DUPLICATE KEY UPDATE v = {v}"
                );
                (sql, None)
            }
            4 => {
                let changed = after.children.get_mut(&id);
                changed.into_iter().for_each(|(was, _)| *was = v);
                let sql = format!("UPDATE mix.child SET v = {v} WHERE id = {id}");
                (sql, None)
            }
            5 => {
                let was = after.children.remove(&id);
                self.cascades += u64::from(was.is_some());
                after.grandchildren.retain(|_, (_, of)| *of != Some(id));
                (format!("DELETE FROM mix.child WHERE id = {id}"), None)
            }
            nth => {
                let (table, column) = [
                    ("child", "parent"),
                    ("grandchild", "child"),
                    ("friend", "parent"),
                ][nth as usize % 3];
                self.refer(after, (table, column), (id, v, other))
            }
        }
    }

    /// Puts a row that refers to another one where no row is yet, or else changes nothing but its value.
    fn refer(
        &self,
        after: &mut State,
        (table, column): (&str, &str),
        (id, v, to): (u64, u64, u64),
    ) -> (String, Option<u16>) {
        let is_there = match table {
            "grandchild" => after.children.contains_key(&to),
            _ => after.parents.contains_key(&to),
        };
        let rows = match table {
            "child" => &mut after.children,
            "grandchild" => &mut after.grandchildren,
            _ => &mut after.friends,
        };
        if let Some((was, _)) = rows.get_mut(&id) {
            *was = v;
            return (
                format!("UPDATE mix.{table} SET v = {v} WHERE id = {id}"),
                None,
            );
        }
        if is_there {
            rows.insert(id, (v, Some(to)));
        }
        let sql = format!("INSERT INTO mix.{table} (id, v, {column}) VALUES ({id}, {v}, {to})");
        (sql, (!is_there).then_some(1452))
    }

    fn found(&self, c: &mut Client) -> State {
        let (from, to) = (self.first, self.first + IDS);
        let mut rows = |table: &str, column: &str| -> Rows {
            let sql =
                format!("SELECT id, v, {column} FROM mix.{table} WHERE id BETWEEN {from} AND {to}");
            let number =
                |cell: &Option<String>| cell.as_ref().map(|n| n.parse().expect("a number"));
            let rows = c.rows(&sql);
            let rows = rows.iter().map(|row| {
                let id = number(&row[0]).expect("an id");
                (id, (number(&row[1]).expect("a value"), number(&row[2])))
            });
            rows.collect()
        };
        let parents = rows("parent", "NULL").into_iter();
        State {
            parents: parents.map(|(id, (v, _))| (id, v)).collect(),
            children: rows("child", "parent"),
            grandchildren: rows("grandchild", "child"),
            friends: rows("friend", "parent"),
        }
    }

    /// After a crash: there is what was there before the COMMIT without an answer, or behind it.
    pub fn verify(&mut self, c: &mut Client) {
        let found = self.found(c);
        let perhaps = self.perhaps.take();
        if found != self.state {
            assert_eq!(perhaps.as_ref(), Some(&found), "before {:?}", self.state);
            self.state = found;
        }
    }
}

/// What holds of all rows, whoever has written them.
pub fn promises_hold(c: &mut Client) {
    for (table, broken) in BROKEN {
        let sql = format!("SELECT * FROM mix.{table} WHERE {broken}");
        assert_eq!(c.lines(&sql), Vec::<String>::new(), "{table}: {broken}");
    }
    for (table, index, condition) in INDEXES {
        let sum = |by: &str| {
            format!(
                "SELECT CONCAT(COUNT(*), ' ', COALESCE(SUM(id), 0), ' ', COALESCE(SUM(v), 0)) FROM mix.{table} FORCE INDEX ({by}) \
                 WHERE {condition}"
            )
        };
        let whole = c.value(&sum("PRIMARY"));
        assert_eq!(c.value(&sum(index)), whole, "index {index} of {table}");
    }
}
