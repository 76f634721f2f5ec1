//! What the statements of an OLTP workload cost above the sockets: time and allocations each.
//!
//! Neighbours: drives [`Session`] as the server does, with a sink that throws rows away; nobody waits
//! for the disk. `cargo run --release -p esker-sql --example hot_statements [name] [count]`; one name
//! (or a part of it) restricts the run, for profilers: the work happens inside `measured`.
//! **Invariants**: every statement must succeed; only allocations of this thread are counted.

#![expect(clippy::print_stdout, reason = "the figures are this program's output")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Instant;

use esker_sql::accounts::Account;
use esker_sql::{
    ClientInfo, Instance, InstanceConfig, Mode, OutcomeKind, PasswordHashing, Request, RowSink,
    Session, Step,
};
use esker_types::{SqlType, Value, ValueRef};
use esker_vfs::Env;

/// Rows of the table, as `sysbench --table-size` would make.
const ROWS: u64 = 10_000;
/// Rows of one multi-row INSERT that fills the table.
const FILL: u64 = 100;
/// Rows of one range read.
const RANGE: u64 = 100;
/// Statements of each kind when nothing else is asked for.
const COUNT: u64 = 20_000;
/// Statements of each kind before the measured ones.
const WARM_UP: u64 = 100;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

/// Counts allocations of each thread.
struct Counting;

// SAFETY: every call goes unchanged to `System`, which is an allocator; the counter is a plain cell of
// this thread, initialised at compile time and without destructor, so touching it cannot allocate.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps the contract of `dealloc`, and `ptr` came from `System`.
        unsafe { System.dealloc(ptr, layout) }
    }
    unsafe fn realloc(&self, ptr: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        // SAFETY: the caller keeps the contract of `realloc`, and `ptr` came from `System`.
        unsafe { System.realloc(ptr, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Counts what it is given.
#[derive(Default)]
struct Discard {
    rows: u64,
    values: u64,
}

impl RowSink for Discard {
    fn begin_row(&mut self) {}
    fn value(&mut self, v: ValueRef<'_>, _ty: &SqlType) {
        self.values += u64::from(!matches!(v, ValueRef::Null));
    }
    fn end_row(&mut self) {
        self.rows += 1;
    }
    fn bytes(&self) -> usize {
        0
    }
}

fn run(session: &mut Session, request: Request<'_>) -> u64 {
    session.start(request);
    let mut step = session.step(Mode::Inline);
    if let Step::NeedThread = step {
        step = session.step(Mode::Thread);
    }
    let Step::Done(outcome) = step else {
        panic!("a lone session waits");
    };
    let rows = match outcome.result {
        OutcomeKind::Ok(ok) => ok.affected_rows,
        OutcomeKind::Err(e) => panic!("{e}"),
        OutcomeKind::Rows(_) => {
            let mut sink = Discard::default();
            while session
                .next_rows(&mut sink, 1 << 16)
                .expect("rows come")
                .more
            {}
            sink.rows
        }
    };
    std::hint::black_box((session.status(), session.warning_count()));
    assert!(!session.start_next());
    rows
}

fn text(session: &mut Session, sql: &str) -> u64 {
    run(session, Request::Query(sql.as_bytes()))
}

/// A kind of statement; called with the number of the execution.
type Statement = Box<dyn FnMut(&mut Session, u64)>;

/// Where a profiler begins to count.
#[inline(never)]
fn measured(session: &mut Session, statement: &mut Statement, from: u64, count: u64) {
    for n in from..from + count {
        statement(session, n);
    }
}

/// The row that execution `n` is about: far from the one before.
fn id_of(n: u64) -> u64 {
    n.wrapping_mul(0x9e37_79b9_7f4a_7c15) % (ROWS - RANGE) + 1
}

/// sysbench's `c`, which differs from execution to execution.
fn c_of(n: u64) -> String {
    format!(
        "{n:011}-96439406143-93774651418-41631865787-96406072701-20604855487-25459966574-\
         28203206787-41238978918-19503783441"
    )
}

/// sysbench's `pad`.
const PAD: &str = "22195207048-70116052123-74140395089-76317954521-98694025897";

fn int(n: u64) -> Value {
    Value::Int(n as i64)
}

/// Executions of a prepared statement; each touches or returns `rows` rows.
fn prepared(
    session: &mut Session,
    sql: &str,
    rows: u64,
    params: impl Fn(u64) -> Vec<Value> + 'static,
) -> Statement {
    let statement = session.prepare(sql.as_bytes()).expect("prepares").id;
    Box::new(move |session, n| {
        let params = params(n);
        assert_eq!(run(session, Request::Execute { statement, params }), rows);
    })
}

/// The same as text, which `write` puts into a reused buffer.
fn query(rows: u64, write: impl Fn(&mut String, u64) -> std::fmt::Result + 'static) -> Statement {
    let mut sql = String::with_capacity(1024);
    Box::new(move |session, n| {
        sql.clear();
        write(&mut sql, n).expect("a string takes it");
        assert_eq!(text(session, &sql), rows);
    })
}

fn prepared_statements(session: &mut Session) -> Vec<(&'static str, Statement)> {
    let one = |n| vec![int(id_of(n))];
    let range = |n| vec![int(id_of(n)), int(id_of(n) + RANGE - 1)];
    let sum = "SELECT SUM(k) FROM sbtest1 WHERE id BETWEEN ? AND ?";
    let order = "SELECT c FROM sbtest1 WHERE id BETWEEN ? AND ? ORDER BY c";
    let distinct = "SELECT DISTINCT c FROM sbtest1 WHERE id BETWEEN ? AND ? ORDER BY c";
    let insert = "INSERT INTO sbtest1 (id, k, c, pad) VALUES (?, ?, ?, ?)";
    let point = prepared(session, "SELECT c FROM sbtest1 WHERE id=?", 1, one);
    let index = prepared(session, "UPDATE sbtest1 SET k=k+1 WHERE id=?", 1, one);
    let non_index = prepared(session, "UPDATE sbtest1 SET c=? WHERE id=?", 1, |n| {
        vec![Value::str(c_of(n).as_bytes()), int(id_of(n))]
    });
    let inserts = prepared(session, insert, 1, |n| {
        let (c, pad) = (c_of(n), Value::str(PAD.as_bytes()));
        vec![int(ROWS + 1 + n), int(n), Value::str(c.as_bytes()), pad]
    });
    let deletes = prepared(session, "DELETE FROM sbtest1 WHERE id=?", 1, |n| {
        vec![int(ROWS + 1 + n)]
    });
    vec![
        ("prepared point select", point),
        ("prepared range sum", prepared(session, sum, 1, range)),
        (
            "prepared range order",
            prepared(session, order, RANGE, range),
        ),
        (
            "prepared range distinct",
            prepared(session, distinct, RANGE, range),
        ),
        ("prepared update index", index),
        ("prepared update non-index", non_index),
        ("prepared insert", inserts),
        ("prepared delete", deletes),
    ]
}

fn text_statements() -> Vec<(&'static str, Statement)> {
    let point = query(1, |s, n| {
        write!(s, "SELECT c FROM sbtest1 WHERE id={}", id_of(n))
    });
    let sum = query(1, |s, n| {
        let (low, high) = (id_of(n), id_of(n) + RANGE - 1);
        write!(
            s,
            "SELECT SUM(k) FROM sbtest1 WHERE id BETWEEN {low} AND {high}"
        )
    });
    let index = query(1, |s, n| {
        write!(s, "UPDATE sbtest1 SET k=k+1 WHERE id={}", id_of(n))
    });
    let non_index = query(1, |s, n| {
        write!(
            s,
            "UPDATE sbtest1 SET c='{}' WHERE id={}",
            c_of(COUNT + n),
            id_of(n)
        )
    });
    let insert = query(1, |s, n| {
        let (id, c) = (ROWS + 1 + n, c_of(n));
        write!(
            s,
            "INSERT INTO sbtest1 (id, k, c, pad) VALUES ({id}, {n}, '{c}', '{PAD}')"
        )
    });
    let delete = query(1, |s, n| {
        write!(s, "DELETE FROM sbtest1 WHERE id={}", ROWS + 1 + n)
    });
    let transaction: Statement = Box::new(|session, _| {
        text(session, "BEGIN");
        text(session, "COMMIT");
    });
    vec![
        ("text point select", point),
        ("text range sum", sum),
        ("text update index", index),
        ("text update non-index", non_index),
        ("text insert", insert),
        ("text delete", delete),
        ("text begin and commit", transaction),
    ]
}

/// A new database in `dir` with sysbench's table.
fn set_up(dir: &std::path::Path) -> (Arc<Instance>, Session) {
    let instance = Instance::open(InstanceConfig {
        env: Env::os(),
        data_dir: dir.to_owned(),
        settings: Vec::new(),
        root_password: None,
        passwords: PasswordHashing {
            hash: |_, password, _| password.to_vec(),
            verify: |_, password, stored| password == stored,
        },
    })
    .expect("opens");
    let root = ClientInfo::inside(1, Account::root(Vec::new()));
    let mut session = Session::new(instance.clone(), root);
    text(&mut session, "CREATE DATABASE sbtest");
    session.use_database("sbtest").expect("exists");
    text(
        &mut session,
        "CREATE TABLE sbtest1 (id INT NOT NULL AUTO_INCREMENT, k INT DEFAULT 0 NOT NULL, \
         c CHAR(120) DEFAULT '' NOT NULL, pad CHAR(60) DEFAULT '' NOT NULL, PRIMARY KEY (id))",
    );
    text(&mut session, "CREATE INDEX k_1 ON sbtest1 (k)");
    for first in (1..=ROWS).step_by(FILL as usize) {
        let row = |id| format!("({id}, {}, '{}', '{PAD}')", id * 7 % ROWS, c_of(id));
        let rows: Vec<String> = (first..first + FILL).map(row).collect();
        let sql = format!(
            "INSERT INTO sbtest1 (id, k, c, pad) VALUES {}",
            rows.join(",")
        );
        assert_eq!(text(&mut session, &sql), FILL);
    }
    (instance, session)
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let wanted = arguments.next().unwrap_or_default();
    let count = arguments
        .next()
        .map_or(COUNT, |n| n.parse().expect("a number"));
    let dir = tempfile::tempdir().expect("a directory");
    let (instance, mut session) = set_up(dir.path());
    let mut all = prepared_statements(&mut session);
    all.extend(text_statements());
    println!("{:<28}{:>10}{:>14}", "statement", "ns", "allocations");
    for (name, mut statement) in all {
        // Caches and buffers grow to their size first.
        for n in 0..WARM_UP {
            statement(&mut session, n);
        }
        if !name.contains(wanted.as_str()) {
            // Deletes need the rows of the inserts before them.
            (WARM_UP..WARM_UP + count).for_each(|n| statement(&mut session, n));
            continue;
        }
        let allocations = ALLOCATIONS.get();
        let begin = Instant::now();
        measured(&mut session, &mut statement, WARM_UP, count);
        let ns = begin.elapsed().as_nanos() as f64 / count as f64;
        let allocations = (ALLOCATIONS.get() - allocations) as f64 / count as f64;
        println!("{name:<28}{ns:>10.0}{allocations:>14.2}");
    }
    drop(session);
    instance.shutdown().expect("shuts down");
}
