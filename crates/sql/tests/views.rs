//! Views in sessions of an instance on a simulated machine: what they show, whose rights they have, crashes.

mod common;

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use common::{await_durable, client, open};
use esker_sql::accounts::{GrantEntry, GrantScope, Privileges};
use esker_sql::{Instance, Mode, OutcomeKind, Request, RowSink, Session, Step};
use esker_types::cast::write_text;
use esker_types::{SqlResult, SqlType, ValueRef};
use esker_vfs::sim::SimEnv;

/// Rows as text, values joined by `|`.
#[derive(Default)]
struct Lines(Vec<String>);

impl RowSink for Lines {
    fn begin_row(&mut self) {
        self.0.push(String::new());
    }
    fn value(&mut self, v: ValueRef<'_>, ty: &SqlType) {
        let line = self.0.last_mut().unwrap();
        if !line.is_empty() {
            line.push('|');
        }
        let mut text = Vec::new();
        write_text(v, ty, &mut text);
        line.push_str(std::str::from_utf8(&text).unwrap());
    }
    fn end_row(&mut self) {}
    fn bytes(&self) -> usize {
        0
    }
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    let mut context = Context::from_waker(Waker::noop());
    loop {
        match future.as_mut().poll(&mut context) {
            Poll::Ready(value) => return value,
            Poll::Pending => std::thread::yield_now(),
        }
    }
}

fn run(session: &mut Session, sql: &str) -> SqlResult<Vec<String>> {
    session.start(Request::Query(sql.as_bytes()));
    let outcome = loop {
        match session.step(Mode::Thread) {
            Step::Done(outcome) => break outcome,
            Step::Wait(wait) => {
                let waited = block_on(wait.ready);
                session.waited(Some(waited));
            }
            Step::NeedThread => (),
            Step::NeedFile(_) => unreachable!("no statement here loads a file"),
        }
    };
    let mut lines = Lines::default();
    match outcome.result {
        OutcomeKind::Ok(_) => await_durable(session, outcome.depends_on),
        OutcomeKind::Rows(_) => while session.next_rows(&mut lines, usize::MAX)?.more {},
        OutcomeKind::Err(e) => return Err(e),
    }
    session.start_next();
    Ok(lines.0)
}

fn lines(session: &mut Session, sql: &str) -> Vec<String> {
    run(session, sql).unwrap_or_else(|e| panic!("{sql}: {e}"))
}

fn all(session: &mut Session, statements: &[&str]) {
    for sql in statements {
        lines(session, sql);
    }
}

fn code(session: &mut Session, sql: &str) -> u16 {
    run(session, sql).err().map_or(0, |e| e.code)
}

fn root(instance: &Arc<Instance>) -> Session {
    let mut session = Session::new(instance.clone(), client(1));
    lines(&mut session, "USE d");
    session
}

fn database(machine: &SimEnv) -> Arc<Instance> {
    let instance = open(machine, &[]);
    let mut session = Session::new(instance.clone(), client(1));
    all(
        &mut session,
        &[
            "CREATE DATABASE d",
            "CREATE TABLE d.t (id INT PRIMARY KEY, g INT, s VARCHAR(10) NOT NULL, KEY g (g))",
            "INSERT INTO d.t VALUES (1,1,'a'),(2,1,'b'),(3,2,'c'),(4,NULL,'d')",
        ],
    );
    instance
}

#[test]
fn a_view_is_its_query() {
    let instance = database(&SimEnv::new(1));
    let mut s = root(&instance);
    all(
        &mut s,
        &[
            "CREATE VIEW v AS SELECT * FROM t WHERE id < 4",
            "CREATE VIEW sums (grp, n, names) AS SELECT g, COUNT(*), GROUP_CONCAT(s ORDER BY id) \
             FROM t GROUP BY g",
            "CREATE OR REPLACE VIEW both_of AS SELECT v.id, sums.names FROM v JOIN sums ON v.g = sums.grp",
        ],
    );
    assert_eq!(
        lines(&mut s, "SELECT * FROM v"),
        ["1|1|a", "2|1|b", "3|2|c"]
    );
    assert_eq!(lines(&mut s, "SELECT x.s FROM d.v x WHERE x.id = 2"), ["b"]);
    assert_eq!(lines(&mut s, "SELECT v.s FROM v WHERE d.v.g = 2"), ["c"]);
    assert_eq!(
        lines(&mut s, "SELECT names, n FROM sums WHERE grp = 1"),
        ["a,b|2"]
    );
    assert_eq!(
        lines(&mut s, "SELECT * FROM both_of ORDER BY id"),
        ["1|a,b", "2|a,b", "3|c"]
    );
    assert_eq!(
        lines(
            &mut s,
            "SELECT COUNT(*) FROM t WHERE id IN (SELECT id FROM v)"
        ),
        ["3"]
    );
    // The condition reaches the table's key.
    let tree = lines(&mut s, "EXPLAIN FORMAT=TREE SELECT s FROM v WHERE id = 2");
    assert!(tree[0].contains("using PRIMARY (id=2)"), "{tree:?}");
    // What is stored does not depend on the current database, nor on columns added later.
    all(
        &mut s,
        &[
            "CREATE DATABASE other",
            "USE other",
            "ALTER TABLE d.t ADD COLUMN late INT FIRST",
            "INSERT INTO d.t VALUES (NULL, 0, 0, 'z')",
        ],
    );
    assert_eq!(lines(&mut s, "SELECT * FROM d.v WHERE id = 1"), ["1|1|a"]);
    assert_eq!(lines(&mut s, "SELECT COUNT(*) FROM d.v"), ["4"]);
    all(
        &mut s,
        &[
            "CREATE VIEW d.cte AS WITH q AS (SELECT id FROM d.t) SELECT q.* FROM q, q r WHERE q.id = r.id",
            "PREPARE p FROM 'SELECT s FROM d.v WHERE id = ?'",
            "SET @a = 3",
        ],
    );
    assert_eq!(lines(&mut s, "SELECT COUNT(*) FROM d.cte"), ["5"]);
    assert_eq!(lines(&mut s, "EXECUTE p USING @a"), ["c"]);
    all(
        &mut s,
        &[
            "ALTER VIEW d.cte AS SELECT 1 AS one",
            "INSERT INTO d.t SELECT 9, 9, 9, one FROM d.cte",
        ],
    );
    assert_eq!(lines(&mut s, "SELECT s FROM d.t WHERE id = 9"), ["1"]);
}

#[test]
fn what_cannot_be_is_refused() {
    let instance = database(&SimEnv::new(2));
    let mut s = root(&instance);
    all(
        &mut s,
        &[
            "CREATE VIEW v AS SELECT id, s FROM t",
            "CREATE TABLE w (a INT)",
        ],
    );
    for (sql, expected) in [
        ("CREATE VIEW v AS SELECT 1", 1050),
        ("CREATE VIEW t AS SELECT 1", 1050),
        ("CREATE OR REPLACE VIEW t AS SELECT 1 AS a", 1347),
        ("ALTER VIEW nope AS SELECT 1", 1146),
        ("CREATE TABLE v (a INT)", 1050),
        ("RENAME TABLE w TO v", 1050),
        ("DROP VIEW t", 1347),
        ("DROP VIEW nope", 1051),
        ("DROP TABLE v", 1051),
        ("ALTER TABLE v ADD COLUMN x INT", 1347),
        ("SHOW CREATE VIEW t", 1347),
        ("CREATE VIEW x (a, b) AS SELECT 1", 1353),
        ("CREATE VIEW x AS SELECT 1 AS a, 2 AS a", 1060),
        ("CREATE VIEW x AS SELECT @a", 1351),
        ("CREATE VIEW x AS SELECT * FROM missing", 1146),
        ("CREATE VIEW x AS SELECT nope FROM t", 1054),
        ("CREATE VIEW x AS SELECT id FROM t WITH CHECK OPTION", 1235),
        ("CREATE OR REPLACE VIEW v AS SELECT * FROM v", 1462),
        ("INSERT INTO v VALUES (7, 'x')", 1288),
        ("UPDATE v SET s = 'x'", 1288),
        ("DELETE FROM v", 1288),
    ] {
        assert_eq!(code(&mut s, sql), expected, "{sql}");
    }
    all(
        &mut s,
        &[
            "CREATE VIEW IF NOT EXISTS v AS SELECT 1",
            "DROP VIEW IF EXISTS nope",
            "CREATE VIEW u AS SELECT * FROM v",
        ],
    );
    let circle = "CREATE OR REPLACE VIEW v AS SELECT * FROM u";
    assert_eq!(code(&mut s, circle), 1462);
    // A view whose table has lost a column.
    lines(&mut s, "ALTER TABLE t DROP COLUMN s");
    assert_eq!(code(&mut s, "SELECT * FROM v"), 1356);
    assert_eq!(code(&mut s, "SELECT id FROM u"), 1356);
    all(&mut s, &["DROP VIEW u, v", "CREATE TABLE v (a INT)"]);
}

#[test]
fn rights_are_the_definer_s_or_the_invoker_s() {
    let instance = database(&SimEnv::new(3));
    let mut s = root(&instance);
    all(
        &mut s,
        &[
            "CREATE VIEW mine AS SELECT id FROM t",
            "CREATE SQL SECURITY INVOKER VIEW yours AS SELECT id FROM t",
            "CREATE DEFINER = gone@localhost VIEW lost AS SELECT id FROM t",
        ],
    );
    assert_eq!(code(&mut s, "SELECT * FROM lost"), 1449);
    let mut low = client(2);
    let select = |table: &str| GrantEntry {
        scope: GrantScope::Table("d".into(), table.into()),
        privileges: Privileges::named("SELECT").unwrap(),
        grant_option: false,
    };
    (low.user, low.account.user) = ("low".into(), "low".into());
    low.account.grants = vec![select("mine"), select("yours")];
    let mut low = Session::new(instance, low);
    assert_eq!(lines(&mut low, "SELECT COUNT(*) FROM d.mine"), ["4"]);
    for (sql, expected) in [
        ("SELECT COUNT(*) FROM d.yours", 1356),
        ("SELECT COUNT(*) FROM d.t", 1142),
        ("CREATE VIEW d.x AS SELECT 1", 1142),
        ("DROP VIEW d.mine", 1142),
    ] {
        assert_eq!(code(&mut low, sql), expected, "{sql}");
    }
}

#[test]
fn what_is_shown_of_views() {
    let instance = database(&SimEnv::new(4));
    let mut s = root(&instance);
    all(
        &mut s,
        &[
            "CREATE VIEW v AS SELECT id, s FROM t",
            "CREATE VIEW w (a) AS SELECT 1 + 1",
        ],
    );
    assert_eq!(
        lines(&mut s, "SHOW FULL TABLES"),
        ["t|BASE TABLE", "v|VIEW", "w|VIEW"]
    );
    let shown = lines(&mut s, "SHOW CREATE VIEW v");
    let text = "v|CREATE ALGORITHM=UNDEFINED DEFINER=`root`@`localhost` SQL SECURITY DEFINER VIEW `v` AS \
                SELECT id, s FROM t|utf8mb4|";
    assert!(shown[0].starts_with(text), "{shown:?}");
    let shown = lines(&mut s, "SHOW CREATE TABLE w");
    assert!(
        shown[0].contains("VIEW `w` (`a`) AS SELECT 1 + 1"),
        "{shown:?}"
    );
    let columns = lines(&mut s, "SHOW COLUMNS FROM v");
    assert!(columns[0].starts_with("id|int|NO"), "{columns:?}");
    assert!(columns[1].starts_with("s|varchar(10)|NO"), "{columns:?}");
    assert_eq!(
        lines(
            &mut s,
            "SELECT TABLE_NAME, VIEW_DEFINITION, IS_UPDATABLE, DEFINER, SECURITY_TYPE \
             FROM information_schema.VIEWS WHERE TABLE_SCHEMA = 'd' ORDER BY 1"
        ),
        [
            "v|SELECT id, s FROM `d`.t|NO|root@localhost|DEFINER",
            "w|SELECT 1 + 1|NO|root@localhost|DEFINER"
        ]
    );
    assert_eq!(
        lines(
            &mut s,
            "SELECT TABLE_NAME, TABLE_TYPE FROM information_schema.TABLES \
             WHERE TABLE_SCHEMA = 'd' ORDER BY 1"
        ),
        ["t|BASE TABLE", "v|VIEW", "w|VIEW"]
    );
    let columns = "SELECT COUNT(*) FROM information_schema.COLUMNS WHERE TABLE_NAME = 'v'";
    assert_eq!(lines(&mut s, columns), ["2"]);
    // Locked by name for reading, as a dump without a transaction does.
    all(
        &mut s,
        &[
            "LOCK TABLES v READ, t READ",
            "SELECT * FROM v",
            "UNLOCK TABLES",
        ],
    );
}

#[test]
fn views_survive_a_power_loss_and_go_with_their_database() {
    let machine = SimEnv::new(5);
    let instance = database(&machine);
    let mut s = root(&instance);
    all(
        &mut s,
        &[
            "CREATE VIEW v AS SELECT id FROM t",
            "CREATE VIEW gone AS SELECT 1 AS a",
            "DROP VIEW gone",
            "CREATE OR REPLACE VIEW v (n) AS SELECT COUNT(*) FROM t",
        ],
    );
    drop((s, instance));
    let machine = machine.crash(6);
    let instance = open(&machine, &[]);
    let mut s = root(&instance);
    assert_eq!(lines(&mut s, "SELECT n FROM v"), ["4"]);
    assert_eq!(code(&mut s, "SELECT * FROM gone"), 1146);
    all(&mut s, &["DROP DATABASE d", "CREATE DATABASE d", "USE d"]);
    assert_eq!(code(&mut s, "SELECT * FROM v"), 1146);
    drop((s, instance));
    let machine = machine.crash(7);
    let instance = open(&machine, &[]);
    let mut s = root(&instance);
    assert!(lines(&mut s, "SHOW TABLES").is_empty());
}
