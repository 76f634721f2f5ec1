//! A statement gives the same with and without the plan of its text.
//!
//! Two sessions run the same statements on two databases that begin equal. One of them writes a
//! comment with a new number into every text, so no text of its ever comes again and none is run from
//! a plan. Everything a client can see is compared, and in the end the tables.
//! **Invariant**: the other session must really have used plans, or nothing was tested.

use std::sync::Arc;

use esker_sql::{ColumnMeta, Instance, Mode, OutcomeKind, Request, Session, Step};
use esker_vfs::sim::SimEnv;

use crate::common::rows::Rows;
use crate::common::{await_durable, client, open};

/// What a client sees of a statement.
#[derive(Debug, Default, PartialEq)]
struct Answer {
    error: Option<(u16, String)>,
    affected: u64,
    insert_id: u64,
    info: String,
    columns: Vec<ColumnMeta>,
    rows: Vec<Vec<String>>,
    warnings: u64,
    status: u16,
}

/// A session on its own database.
struct Side {
    session: Session,
    database: &'static str,
    /// Numbers the comments of the side that is to have no plans.
    comment: Option<u64>,
}

impl Side {
    fn new(instance: &Arc<Instance>, database: &'static str, plans: bool) -> Self {
        let id = if plans { 1 } else { 2 };
        let mut side = Self {
            session: Session::new(instance.clone(), client(id)),
            database,
            comment: (!plans).then_some(0),
        };
        side.run(&format!("CREATE DATABASE {database}"));
        side.run(&format!("USE {database}"));
        side
    }

    /// The statement; on the side without plans unlike any before.
    fn text(&mut self, sql: &str) -> String {
        let sql = sql.replace("{db}", self.database);
        let Some(n) = &mut self.comment else {
            return sql;
        };
        *n += 1;
        let (first, rest) = sql.split_once(' ').unwrap_or((&sql, ""));
        format!("{first}/*{n}*/ {rest}")
    }

    fn run(&mut self, sql: &str) -> Answer {
        let sql = self.text(sql);
        let mut answer = self.request(&sql);
        answer.warnings = self.session.warning_count();
        answer.status = self.session.status();
        // Messages name the database.
        if let Some((_, text)) = &mut answer.error {
            *text = text.replace(self.database, "db");
        }
        for column in &mut answer.columns {
            column.schema = column.schema.replace(self.database, "db").into();
        }
        answer
    }

    fn request(&mut self, sql: &str) -> Answer {
        let mut answer = Answer::default();
        self.session.start(Request::Query(sql.as_bytes()));
        let outcome = match self.session.step(Mode::Thread) {
            Step::Done(outcome) => outcome,
            Step::Wait(_) | Step::NeedThread | Step::NeedFile(_) => {
                panic!("a lone session waits: {sql}")
            }
        };
        await_durable(&self.session, outcome.depends_on);
        match outcome.result {
            OutcomeKind::Ok(ok) => {
                answer.affected = ok.affected_rows;
                answer.insert_id = ok.last_insert_id;
                answer.info = ok.info.to_string();
            }
            OutcomeKind::Err(e) => answer.error = Some((e.code, e.message)),
            OutcomeKind::Rows(columns) => {
                answer.columns = columns.to_vec();
                let mut rows = Rows::default();
                loop {
                    rows.bytes = 0;
                    match self.session.next_rows(&mut rows, 1 << 16) {
                        Ok(batch) if batch.more => {}
                        Ok(_) => break,
                        Err(e) => {
                            answer.error = Some((e.code, e.message));
                            break;
                        }
                    }
                }
                answer.rows = rows.rows;
            }
        }
        self.session.start_next();
        answer
    }
}

struct Pair {
    plans: Side,
    plain: Side,
}

impl Pair {
    fn new() -> Self {
        let instance = open(&SimEnv::new(7), &[]);
        let mut pair = Self {
            plans: Side::new(&instance, "with_plans", true),
            plain: Side::new(&instance, "without", false),
        };
        for sql in TABLES {
            assert_eq!(pair.both(sql).error, None, "{sql}");
        }
        pair
    }

    /// Runs a statement whose answer names the database on both sides.
    fn apart(&mut self, sql: &str) {
        for answer in [self.plans.run(sql), self.plain.run(sql)] {
            assert_eq!(answer.error, None, "{sql}");
        }
    }

    /// Runs a statement on both sides and compares.
    fn both(&mut self, sql: &str) -> Answer {
        let with = self.plans.run(sql);
        let without = self.plain.run(sql);
        assert_eq!(with, without, "{sql}");
        if with.warnings > 0 {
            let show = "SHOW WARNINGS";
            let (a, b) = (self.plans.run(show).rows, self.plain.run(show).rows);
            let same = |rows: Vec<Vec<String>>, side: &Side| {
                format!("{rows:?}").replace(side.database, "db")
            };
            assert_eq!(
                same(a, &self.plans),
                same(b, &self.plain),
                "warnings of {sql}"
            );
        }
        with
    }

    fn hits(&self) -> u64 {
        assert_eq!(self.plain.session.plan_statistics().hits, 0);
        self.plans.session.plan_statistics().hits
    }

    fn compare_tables(&mut self) {
        for table in ["n", "s", "m", "auto", "touched"] {
            let rows = self
                .both(&format!("SELECT * FROM {table} ORDER BY 1, 2"))
                .rows;
            assert!(!rows.is_empty(), "{table} has rows to compare");
        }
    }
}

const TABLES: &[&str] = &[
    "CREATE TABLE n (id INT PRIMARY KEY, k INT, u TINYINT UNSIGNED, d DECIMAL(6,2), f DOUBLE, \
     v VARCHAR(8), KEY (k), UNIQUE KEY (u))",
    "CREATE TABLE s (id VARCHAR(10) PRIMARY KEY, b VARBINARY(4), e ENUM('a','b'), t DATETIME, \
     bits BIT(6), UNIQUE KEY (b))",
    "CREATE TABLE m (a INT, b VARCHAR(5) COLLATE utf8mb4_bin, c BIGINT UNSIGNED NOT NULL, \
     PRIMARY KEY (a, b), KEY (c))",
    "CREATE TABLE auto (id INT AUTO_INCREMENT PRIMARY KEY, k INT NOT NULL, w VARCHAR(3), \
     CHECK (k <> 13), UNIQUE KEY (w))",
    "CREATE TABLE touched (id INT PRIMARY KEY, v INT, at TIMESTAMP(0) NULL ON UPDATE CURRENT_TIMESTAMP)",
    "INSERT INTO n VALUES (1,10,1,1.50,0.5,'one'), (2,20,2,2.25,1e3,'two'), (3,20,3,NULL,NULL,NULL), \
     (4,0,255,-9999.99,-1,'7'), (7,70,7,7,7,'7')",
    "INSERT INTO s VALUES ('1','1','a','2020-01-02 03:04:05',1), ('abc','x','b',NULL,5), \
     ('Abd','','a','2021-01-01',63), ('7','7','b','2022-02-02',7)",
    "INSERT INTO m VALUES (1,'a',1), (1,'A',2), (2,'b',3), (7,'7',18446744073709551615)",
    "INSERT INTO auto VALUES (1,1,'a'), (2,2,'b'), (7,7,'7')",
    "INSERT INTO touched VALUES (1,1,NULL), (7,7,NULL)",
];

/// Statements with a hole for a literal; `#` is a second hole.
const SHAPES: &[&str] = &[
    "SELECT * FROM n WHERE id=@",
    "SELECT id AS x, v FROM n AS a WHERE @=a.id",
    "SELECT k FROM n WHERE id=@ AND k=#",
    "SELECT v FROM n WHERE u=@",
    "SELECT id FROM n WHERE k=@ ORDER BY id",
    "SELECT SUM(k), COUNT(*), MIN(u), MAX(k) FROM n WHERE id BETWEEN @ AND #",
    "SELECT v FROM n WHERE id BETWEEN @ AND # ORDER BY v",
    "SELECT DISTINCT v FROM n WHERE id >= @ AND id < # ORDER BY v",
    "SELECT id FROM n WHERE id IN (@, #, 2)",
    "SELECT id FROM n WHERE id=@ OR id=#",
    "SELECT id, @ FROM n WHERE id=#",
    "SELECT id FROM n WHERE id > @ LIMIT 2",
    "SELECT id FROM n WHERE id > @ ORDER BY id DESC LIMIT #",
    "SELECT id FROM n ORDER BY id LIMIT @ OFFSET #",
    "SELECT k, id FROM n FORCE INDEX (k) WHERE k >= @ ORDER BY k, id LIMIT 2",
    "SELECT id FROM n FORCE INDEX (nothing) WHERE k >= @ LIMIT 2",
    "SELECT MIN(u) FROM n WHERE u >= @",
    "SELECT id FROM m USE INDEX (PRIMARY) WHERE a=@ ORDER BY b LIMIT 2",
    "SELECT id FROM s WHERE id >= @ ORDER BY id LIMIT 3",
    "SELECT id FROM n WHERE d=@ OR f=#",
    "SELECT id FROM s WHERE b IS NULL OR b=@",
    "SELECT id FROM m WHERE c IS NULL OR c=@",
    "SELECT id FROM n WHERE id=1 GROUP BY @",
    "SELECT id, k FROM n WHERE id < # ORDER BY @",
    "SELECT id FROM n WHERE v LIKE @",
    "SELECT * FROM s WHERE id=@",
    "SELECT id FROM s WHERE b=@",
    "SELECT id FROM s WHERE e=@ OR bits=#",
    "SELECT id FROM s WHERE t > @",
    "SELECT * FROM m WHERE a=@ AND b=#",
    "SELECT a FROM m WHERE c=@",
    "SELECT a FROM m WHERE a=-@",
    "SELECT v FROM n WHERE id=@ FOR UPDATE",
    "SELECT id, d FROM n WHERE k=@ FOR SHARE",
    "SELECT a FROM m WHERE b=@ AND a=# FOR UPDATE SKIP LOCKED",
    "SELECT t FROM s WHERE t=@ FOR UPDATE",
    "SELECT n.v, m.c FROM n, m WHERE n.id=@ AND m.a=n.id AND m.b=#",
    "SELECT n.id, m.c FROM n JOIN m ON m.a=n.id WHERE n.k=@ ORDER BY m.c LIMIT #",
    "SELECT x.id, m.a FROM n AS x LEFT JOIN m ON m.a=x.id AND m.b=# WHERE x.id=@ FOR UPDATE OF x",
    "SELECT s.e, n.v FROM s, n WHERE s.id=@ AND n.id=#",
    "SELECT SUM(d), COUNT(v), MAX(v) FROM n WHERE k=@",
    "SELECT v, COUNT(*) FROM n WHERE k=@ GROUP BY v HAVING COUNT(*) > 0",
    "SELECT CONCAT(v, '-', id) FROM n WHERE id=@",
    "SELECT n.id FROM n, m WHERE n.id=@ AND m.c=#",
    "UPDATE n SET k=k+1 WHERE id=@",
    "UPDATE n SET k=@ WHERE id=7",
    "UPDATE n SET k=k+@ WHERE id=7",
    "UPDATE n SET u=u-@ WHERE id=7",
    "UPDATE n SET u=3*u WHERE id=@",
    "UPDATE n SET d=@, v=# WHERE id=7",
    "UPDATE n SET d=d*@ WHERE id=7",
    "UPDATE n SET f=@ WHERE u=#",
    "UPDATE n SET v=@ WHERE id=# AND k > 0",
    "UPDATE n SET v=@ WHERE id=7 AND k BETWEEN 0 AND #",
    "UPDATE n SET v=CONCAT(v, @) WHERE id=#",
    "UPDATE IGNORE n SET u=@ WHERE id=7",
    "UPDATE n SET id=@ WHERE id=7",
    "UPDATE n SET id=7 WHERE id=@",
    "UPDATE n SET k=@ ORDER BY id LIMIT 1",
    "UPDATE s SET b=@ WHERE id='7'",
    "UPDATE s SET e=@ WHERE id=#",
    "UPDATE s SET bits=@ WHERE id='7'",
    "UPDATE s SET t=@ WHERE id='7'",
    "UPDATE m SET c=@ WHERE a=7 AND b=#",
    "UPDATE touched SET v=@ WHERE id=7",
    "UPDATE auto SET k=@ WHERE id=7",
    "UPDATE auto SET w=@ WHERE id=7",
    "UPDATE nowhere SET w=@ WHERE id=7",
    "UPDATE n SET nothing=@ WHERE id=7",
    "INSERT INTO n (id, k) VALUES (@, #)",
    "INSERT INTO n VALUES (@, #, 9, @, #, @)",
    "INSERT INTO n (id, v) VALUES (-@, #)",
    "INSERT INTO s VALUES (@, #, 'a', NULL, 3)",
    "INSERT INTO s (id, e, t) VALUES ('new', @, #)",
    "INSERT INTO s (id, bits) VALUES ('new', @)",
    "INSERT INTO m VALUES (@, #, 5)",
    "INSERT INTO auto (k) VALUES (@)",
    "INSERT INTO auto (k, w) VALUES (@, #), (5, @)",
    "INSERT IGNORE INTO auto (id, k) VALUES (@, #)",
    "INSERT INTO auto (id, k) VALUES (@, 4) ON DUPLICATE KEY UPDATE k=#",
    "INSERT INTO auto VALUES (@, DEFAULT, #)",
    "INSERT INTO auto SET k=@, w=#",
    "REPLACE INTO auto (id, k) VALUES (@, #)",
    "DELETE FROM auto WHERE id=@",
    "DELETE FROM n WHERE id=@ AND k=#",
    "DELETE FROM s WHERE b=@",
    "DELETE FROM m WHERE a=@ AND b=#",
    "DELETE FROM n WHERE k > @ LIMIT 1",
];

/// Literals; each comes several times in a row, so that its plan is made and used.
const LITERALS: &[&str] = &[
    "7",
    "1",
    "300",
    "99999999999",
    "9223372036854775808",
    "1.5",
    "7.0",
    "1e0",
    "'7'",
    "'abc'",
    "'ABC '",
    "'it''s'",
    r"'\n\'x'",
    "''",
    "'7x'",
    "NULL",
    "-1",
    "0x37",
    "TRUE",
    "'2022-02-02'",
    "a",
];

/// All statements, each in a transaction that is rolled back.
fn run_shapes(pair: &mut Pair) {
    for shape in SHAPES {
        for (nth, literal) in LITERALS.iter().enumerate() {
            let second = LITERALS[(nth * 5 + 1) % LITERALS.len()];
            let sql = shape.replace('@', literal).replace('#', second);
            for _ in 0..3 {
                pair.both("BEGIN");
                pair.both(&sql);
                pair.both("SELECT * FROM n WHERE id=7");
                pair.both("ROLLBACK");
            }
        }
    }
}

#[test]
fn answers_are_the_same() {
    let mut pair = Pair::new();
    run_shapes(&mut pair);
    assert!(pair.hits() > 2000, "{} statements had a plan", pair.hits());
    pair.compare_tables();
}

#[test]
fn answers_are_the_same_outside_strict_mode() {
    let mut pair = Pair::new();
    pair.both("SET sql_mode = 'NO_BACKSLASH_ESCAPES,ANSI_QUOTES'");
    run_shapes(&mut pair);
    assert!(pair.hits() > 2000, "{} statements had a plan", pair.hits());
    pair.compare_tables();
}

#[test]
fn committed_changes_are_the_same() {
    let mut pair = Pair::new();
    for n in 100..160 {
        pair.both(&format!(
            "INSERT INTO n (id, k, v) VALUES ({n}, {}, 'v{n}')",
            n % 7
        ));
        pair.both(&format!(
            "INSERT INTO auto (k, w) VALUES ({n}, 'x{}')",
            n % 50
        ));
        pair.both(&format!("UPDATE n SET k=k+{} WHERE id={n}", n % 3));
        pair.both(&format!("UPDATE n SET v='w{n}' WHERE id={}", n - 1));
        pair.both(&format!("SELECT v FROM n WHERE k={}", n % 7));
        pair.both(&format!("DELETE FROM n WHERE id={}", n - 10));
        pair.both(&format!(
            "SELECT COUNT(*) FROM n WHERE id BETWEEN {} AND {n}",
            n - 20
        ));
        pair.both("SELECT LAST_INSERT_ID(), ROW_COUNT(), FOUND_ROWS()");
    }
    assert!(pair.hits() > 300, "{} statements had a plan", pair.hits());
    pair.compare_tables();
}

/// Every change of what a statement binds to comes between two runs of the same digest.
#[test]
fn a_plan_ends_with_what_it_was_made_for() {
    let mut pair = Pair::new();
    let statements = [
        "SELECT * FROM n WHERE id=7",
        "SELECT v FROM n WHERE k=20",
        "UPDATE n SET v='7' WHERE id=7",
        "INSERT INTO n (id, k) VALUES (7, 7)",
        "SELECT id FROM s WHERE id='ABC'",
        "SELECT v FROM n WHERE id=7 FOR UPDATE",
        "SELECT SUM(id) FROM n WHERE k=20",
        "SELECT n.v, s.e FROM n, s WHERE n.id=7 AND s.id='abc'",
        "UPDATE s SET t='2020-02-30' WHERE id='7'",
        r"SELECT id FROM n WHERE v='\7'",
    ];
    let changes = [
        "ALTER TABLE n ADD COLUMN late INT DEFAULT 5",
        "ALTER TABLE n MODIFY v CHAR(3)",
        "DROP INDEX k ON n",
        "CREATE INDEX again ON n (k)",
        "ANALYZE TABLE n",
        "ANALYZE TABLE n UPDATE HISTOGRAM ON v",
        "SET sql_mode = ''",
        "SET sql_mode = 'NO_BACKSLASH_ESCAPES'",
        "SET sql_mode = DEFAULT",
        "SET NAMES latin1",
        "SET NAMES utf8mb4 COLLATE utf8mb4_bin",
        "SET time_zone = '+05:00'",
        "ALTER TABLE s MODIFY id VARCHAR(10) COLLATE utf8mb4_bin",
        "CREATE DATABASE {db}_other",
        "USE {db}_other",
        "CREATE TABLE {db}_other.n (id INT PRIMARY KEY, k VARCHAR(3), v INT)",
        "USE {db}",
        "LOCK TABLES n READ",
        "UNLOCK TABLES",
        "SET SESSION TRANSACTION READ ONLY",
        "SET SESSION TRANSACTION READ WRITE",
        "SET SESSION TRANSACTION ISOLATION LEVEL SERIALIZABLE",
        "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ",
        "SET GLOBAL super_read_only = ON",
        "SET GLOBAL super_read_only = OFF",
        "DROP TABLE n",
        "CREATE TABLE n (id BIGINT UNSIGNED PRIMARY KEY, k DOUBLE, v TEXT)",
        "INSERT INTO n VALUES (7, 20, 'seven')",
        "RENAME TABLE n TO gone",
        "DROP DATABASE {db}",
    ];
    for change in changes {
        for _ in 0..3 {
            for sql in statements {
                pair.both(sql);
            }
        }
        match change.starts_with("ANALYZE") {
            true => pair.apart(change),
            false => drop(pair.both(change)),
        }
    }
    assert!(pair.hits() > 200, "{} statements had a plan", pair.hits());
}

#[test]
fn the_number_of_plans_is_bounded() {
    let mut pair = Pair::new();
    // Every alias is another digest.
    for n in 0..400 {
        for id in 0..3 {
            pair.both(&format!("SELECT v AS alias_{n} FROM n WHERE id={id}"));
        }
    }
    let statistics = pair.plans.session.plan_statistics();
    assert!(statistics.texts <= 128 && statistics.text_bytes <= 64 * 1024);
    assert!(statistics.texts >= 100, "{statistics:?}");
    // The ones used last are there still, and texts that never come again push nothing out.
    for n in 0..1000 {
        pair.both(&format!("SELECT v AS once_{n} FROM n WHERE id=1"));
    }
    let before = pair.hits();
    pair.both("SELECT v AS alias_399 FROM n WHERE id=2");
    assert_eq!(pair.hits(), before + 1);
}

/// How many SELECTs of a side ran from a plan that does not depend on their values.
fn kept_plans(side: &mut Side) -> u64 {
    let answer = side.run("SHOW SESSION STATUS LIKE 'Esker_select_by_plan'");
    answer.rows[0][1].parse().unwrap()
}

/// Joins by key, locking reads by key and aggregates of the rows of a key are planned once for all values.
#[test]
fn queries_by_key_are_planned_once() {
    let mut pair = Pair::new();
    let shapes = [
        "SELECT v FROM n WHERE id=@ FOR UPDATE",
        "SELECT n.v, m.c FROM n, m WHERE n.id=@ AND m.a=n.id AND m.b='a'",
        "SELECT SUM(d) FROM n FORCE INDEX (k) WHERE k=@",
        "SELECT id FROM n FORCE INDEX (k) WHERE k=@ ORDER BY id LIMIT 1 FOR UPDATE",
    ];
    for shape in shapes {
        let before = kept_plans(&mut pair.plans);
        for id in 0..10 {
            pair.both(&shape.replace('@', &id.to_string()));
        }
        let ran = kept_plans(&mut pair.plans) - before;
        assert_eq!(ran, 9, "the first one is planned to be run: {shape}");
    }
    // A range has as many rows as its values say.
    let before = kept_plans(&mut pair.plans);
    for id in 0..10 {
        pair.both(&format!("SELECT SUM(d) FROM n WHERE id > {id}"));
    }
    assert_eq!(kept_plans(&mut pair.plans), before);
    assert_eq!(kept_plans(&mut pair.plain), 0);
}

/// A read of an index is short as long as the transaction has not written to that very table.
#[test]
fn writes_to_other_tables_leave_reads_short() {
    let mut pair = Pair::new();
    let short = |side: &mut Side| -> u64 {
        let answer = side.run("SHOW SESSION STATUS LIKE 'Esker_select_by_key'");
        answer.rows[0][1].parse().unwrap()
    };
    pair.both("BEGIN");
    pair.both("UPDATE touched SET v=5 WHERE id=7");
    let before = short(&mut pair.plans);
    for k in [10, 20, 70] {
        pair.both(&format!("SELECT v FROM n WHERE k={k} ORDER BY k"));
    }
    assert!(short(&mut pair.plans) > before);
    pair.both("UPDATE n SET k=20 WHERE id=7");
    let before = short(&mut pair.plans);
    for k in [10, 20, 70] {
        pair.both(&format!("SELECT v FROM n WHERE k={k} ORDER BY k"));
    }
    assert_eq!(short(&mut pair.plans), before);
    pair.both("ROLLBACK");
}

/// Waits for what a step waits for, without a runtime.
fn wait_for(wait: esker_sql::WaitFor) -> Result<(), esker_types::SqlError> {
    let mut ready = wait.ready;
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    match ready.as_mut().poll(&mut context) {
        std::task::Poll::Ready(result) => result,
        std::task::Poll::Pending => panic!("the lock is still held"),
    }
}

/// Starts a text that meets a foreign row lock.
fn start_waiting(side: &mut Side, sql: &str) -> esker_sql::WaitFor {
    side.session.start(Request::Query(sql.as_bytes()));
    match side.session.step(Mode::Inline) {
        Step::Wait(wait) => wait,
        _ => panic!("{sql} does not wait"),
    }
}

/// Goes on with it when the lock is free; rows affected.
fn finish_waiting(side: &mut Side, wait: esker_sql::WaitFor) -> u64 {
    side.session.waited(Some(wait_for(wait)));
    let affected = match side.session.step(Mode::Inline) {
        Step::Done(outcome) => match outcome.result {
            OutcomeKind::Ok(ok) => {
                await_durable(&side.session, outcome.depends_on);
                ok.affected_rows
            }
            _ => panic!("no success"),
        },
        _ => panic!("it waits again"),
    };
    side.session.start_next();
    affected
}

/// A change by key that runs from a plan waits for the row and then works on its newest version.
#[test]
fn a_planned_change_waits_for_its_row() {
    let instance = open(&SimEnv::new(7), &[]);
    let mut one = Side::new(&instance, "one", true);
    let mut two = Side {
        session: Session::new(instance.clone(), client(3)),
        database: "one",
        comment: None,
    };
    one.run("CREATE TABLE c (id INT PRIMARY KEY, k INT, KEY (k))");
    one.run("INSERT INTO c VALUES (1, 0), (2, 0), (3, 0)");
    two.run("USE one");
    for id in 1..=3 {
        for sql in [
            "UPDATE c SET k=k+10 WHERE id=",
            "DELETE FROM c WHERE k=5 AND id=",
        ] {
            assert_eq!(two.run(&format!("{sql}{id}")).error, None);
        }
    }
    let hits = two.session.plan_statistics().hits;

    one.run("BEGIN");
    one.run("UPDATE c SET k=k+1 WHERE id=1");
    let wait = start_waiting(&mut two, "UPDATE c SET k=k+10 WHERE id=1");
    one.run("COMMIT");
    assert_eq!(finish_waiting(&mut two, wait), 1);

    // The row is gone when the lock comes.
    one.run("BEGIN");
    one.run("DELETE FROM c WHERE id=2");
    let wait = start_waiting(&mut two, "UPDATE c SET k=k+10 WHERE id=2");
    one.run("COMMIT");
    assert_eq!(finish_waiting(&mut two, wait), 0);

    // The row no longer fits the rest of the condition; and then it does.
    one.run("UPDATE c SET k=5 WHERE id=3");
    one.run("BEGIN");
    one.run("UPDATE c SET k=6 WHERE id=3");
    let wait = start_waiting(&mut two, "DELETE FROM c WHERE k=5 AND id=3");
    one.run("ROLLBACK");
    assert_eq!(finish_waiting(&mut two, wait), 1);

    assert_eq!(one.run("SELECT * FROM c").rows, [["1", "21"]]);
    assert_eq!(two.session.plan_statistics().hits, hits + 3);
    // No metadata lock of an abandoned attempt is left behind.
    assert_eq!(one.run("DROP TABLE c").error, None);
}
