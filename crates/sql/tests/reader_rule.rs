//! Which replies depend on what the session has seen of others: `docs/decisions/reader-rule.md`.

mod common;

use std::sync::Arc;

use common::{client, open};
use esker_sql::{Instance, Mode, OutcomeKind, Request, RowSink, Session, Step};
use esker_types::{SqlType, ValueRef};

/// A sink that is never full.
struct Nowhere;

impl RowSink for Nowhere {
    fn begin_row(&mut self) {}
    fn value(&mut self, _: ValueRef<'_>, _: &SqlType) {}
    fn end_row(&mut self) {}
    fn bytes(&self) -> usize {
        0
    }
}

/// Runs a statement. What its reply waits for, and whether it was an error.
fn run(session: &mut Session, sql: &str) -> (u64, bool) {
    session.start(Request::Query(sql.as_bytes()));
    let Step::Done(outcome) = session.step(Mode::Thread) else {
        panic!("nothing to wait for in {sql}");
    };
    let mut depends_on = outcome.depends_on;
    let failed = matches!(outcome.result, OutcomeKind::Err(_));
    if let OutcomeKind::Rows(_) = outcome.result {
        while let Ok(batch) = session.next_rows(&mut Nowhere, usize::MAX) {
            depends_on = depends_on.max(batch.depends_on);
            if !batch.more {
                break;
            }
        }
    }
    (depends_on, failed)
}

fn ok(session: &mut Session, sql: &str) -> u64 {
    let (depends_on, failed) = run(session, sql);
    assert!(!failed, "{sql}");
    depends_on
}

/// Two sessions and a table; the second number is what the first session's last commit is.
fn begin() -> (Arc<Instance>, Session, u64) {
    let instance = open();
    let mut writer = Session::new(instance.clone(), client(1));
    ok(&mut writer, "CREATE DATABASE d");
    ok(&mut writer, "CREATE TABLE d.t (id INT PRIMARY KEY, v INT)");
    let commit = ok(&mut writer, "INSERT INTO d.t VALUES (1, 1), (2, 1)");
    assert!(commit > 0);
    let reader = Session::new(instance.clone(), client(2));
    (instance, reader, commit)
}

#[test]
fn rows_errors_and_single_statements_wait_for_what_they_saw() {
    let (_instance, mut s, commit) = begin();
    assert_eq!(ok(&mut s, "SELECT v FROM d.t WHERE id = 1"), commit);
    assert_eq!(ok(&mut s, "SELECT SUM(v) FROM d.t"), commit);
    assert_eq!(run(&mut s, "INSERT INTO d.t VALUES (1, 1)"), (commit, true));
    // Changes nothing, so it commits nothing, but it has seen the row.
    assert_eq!(ok(&mut s, "UPDATE d.t SET v = 1 WHERE id = 1"), commit);
}

#[test]
fn an_ok_inside_a_transaction_leaves_the_wait_to_its_end() {
    for (last, changes) in [("COMMIT", false), ("ROLLBACK", false), ("COMMIT", true)] {
        let (_instance, mut s, commit) = begin();
        let text = format!("UPDATE d.t SET v = v + {} WHERE id = 1", i32::from(changes));
        assert_eq!(ok(&mut s, "BEGIN"), 0);
        // Often enough that it runs from a plan in the end.
        for _ in 0..3 {
            assert_eq!(ok(&mut s, &text), 0, "{text}");
        }
        let end = ok(&mut s, last);
        if changes {
            assert!(end > commit);
        } else {
            assert_eq!(end, commit, "{last}");
        }
        // Nothing is waited for twice.
        assert_eq!(ok(&mut s, "DO 1"), 0);
    }
}

#[test]
fn what_was_put_off_is_waited_for_before_anything_is_shown() {
    let (_instance, mut s, commit) = begin();
    ok(&mut s, "BEGIN");
    assert_eq!(ok(&mut s, "SELECT v INTO @seen FROM d.t WHERE id = 1"), 0);
    assert_eq!(ok(&mut s, "SELECT @seen"), commit);
    assert_eq!(ok(&mut s, "UPDATE d.t SET v = v + 1 WHERE id = 2"), 0);
    let (depends_on, failed) = run(&mut s, "SELECT no_such_column FROM d.t");
    assert!(failed);
    assert_eq!(depends_on, commit);
    // An implicit commit ends the transaction, too.
    assert_eq!(ok(&mut s, "UPDATE d.t SET v = v + 1 WHERE id = 1"), 0);
    assert!(ok(&mut s, "CREATE TABLE d.u (id INT PRIMARY KEY)") > commit);
}
