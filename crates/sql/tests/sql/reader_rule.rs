//! Which replies depend on what the session has seen of others: `docs/decisions/reader-rule.md`.

use std::sync::Arc;

use crate::common::rows::Rows;
use crate::common::{await_durable, client, open};
use esker_sql::{Instance, Mode, OutcomeKind, Request, Session, Step};
use esker_vfs::sim::SimEnv;

/// Runs a statement. What its reply waits for, and whether it was an error.
fn run(session: &mut Session, sql: &str) -> (u64, bool) {
    session.start(Request::Query(sql.as_bytes()));
    let Step::Done(outcome) = session.step(Mode::Thread) else {
        panic!("nothing to wait for in {sql}");
    };
    let mut depends_on = outcome.depends_on;
    let failed = matches!(outcome.result, OutcomeKind::Err(_));
    if let OutcomeKind::Rows(_) = outcome.result {
        let mut rows = Rows::default();
        while let Ok(batch) = session.next_rows(&mut rows, usize::MAX) {
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

/// Two sessions and a table; the number is the last commit of the first one. Durable snapshots are off, so that it is
/// seen whether or not it is durable yet.
fn begin() -> (Arc<Instance>, Session, u64) {
    let (instance, mut writer, commit) = begin_on(&SimEnv::new(7));
    ok(&mut writer, "SET GLOBAL esker_durable_snapshots = OFF");
    let reader = Session::new(instance.clone(), client(2));
    (instance, reader, commit)
}

/// A table, its writer and his commit.
fn begin_on(machine: &SimEnv) -> (Arc<Instance>, Session, u64) {
    let instance = open(machine, &[]);
    let mut writer = Session::new(instance.clone(), client(1));
    ok(&mut writer, "CREATE DATABASE d");
    ok(&mut writer, "CREATE TABLE d.t (id INT PRIMARY KEY, v INT)");
    let commit = ok(&mut writer, "INSERT INTO d.t VALUES (1, 1), (2, 1)");
    assert!(commit > 0);
    (instance, writer, commit)
}

/// On a device that does not answer: a plain read shows what is durable and waits for nothing, a locking read shows
/// what is committed and waits, and who has locked the table sees everything.
#[test]
fn plain_reads_leave_out_what_is_not_durable() {
    let machine = SimEnv::new(7);
    let (instance, mut writer, commit) = begin_on(&machine);
    await_durable(&writer, commit);
    machine.fs.hold_syncs();
    let update = ok(&mut writer, "UPDATE d.t SET v = 2 WHERE id = 1");
    let session = |id| Session::new(instance.clone(), client(id));
    const READ: &str = "SELECT v FROM d.t WHERE id = 1";

    let mut reader = session(2);
    assert_eq!(ok(&mut reader, READ), commit);
    assert!(reader.wait_durable(commit, || false).is_none());
    assert_eq!(ok(&mut reader, "SELECT SUM(v) FROM d.t"), commit);
    assert_eq!(ok(&mut writer, READ), update, "own commits are seen");
    assert_eq!(
        ok(&mut reader, "SELECT v FROM d.t WHERE id = 1 FOR UPDATE"),
        update
    );
    assert!(reader.wait_durable(update, || false).is_some());
    assert_eq!(ok(&mut reader, READ), update, "what was seen stays seen");

    let mut keeper = session(3);
    assert_eq!(ok(&mut keeper, READ), commit);
    ok(&mut keeper, "LOCK TABLES d.t READ");
    assert_eq!(ok(&mut keeper, READ), update);
    machine.fs.release_syncs();
    await_durable(&writer, update);
    assert_eq!(ok(&mut session(4), READ), update);
}

/// Without durable snapshots a plain read shows what is committed.
#[test]
fn plain_reads_may_show_what_is_not_durable() {
    let machine = SimEnv::new(7);
    let (instance, mut writer, commit) = begin_on(&machine);
    await_durable(&writer, commit);
    // effect: esker_durable_snapshots
    ok(&mut writer, "SET GLOBAL esker_durable_snapshots = OFF");
    machine.fs.hold_syncs();
    let update = ok(&mut writer, "UPDATE d.t SET v = 2 WHERE id = 1");
    let mut reader = Session::new(instance.clone(), client(2));
    assert_eq!(ok(&mut reader, "SELECT v FROM d.t WHERE id = 1"), update);
    machine.fs.release_syncs();
}

/// Locks of a commit that is not durable yet are free, or kept until it is.
#[test]
fn locks_are_released_early_if_they_are_to() {
    // effect: esker_early_lock_release
    for (setting, is_kept) in [("ON", false), ("OFF", true)] {
        let machine = SimEnv::new(7);
        let (instance, mut writer, commit) = begin_on(&machine);
        ok(
            &mut writer,
            &format!("SET GLOBAL esker_early_lock_release = {setting}"),
        );
        await_durable(&writer, commit);
        machine.fs.hold_syncs();
        ok(&mut writer, "UPDATE d.t SET v = 2 WHERE id = 1");
        let mut other = Session::new(instance.clone(), client(2));
        ok(&mut other, "SET innodb_lock_wait_timeout = 1");
        let (_, failed) = run(&mut other, "UPDATE d.t SET v = 3 WHERE id = 1");
        assert_eq!(failed, is_kept, "{setting}");
        machine.fs.release_syncs();
    }
}

/// Everything acknowledged without being durable is seen when durable snapshots begin.
#[test]
fn asynchronous_commits_are_seen_after_it_ends() {
    let (instance, mut writer, _) = begin_on(&SimEnv::new(7));
    // effect: esker_async_commit
    ok(&mut writer, "SET GLOBAL esker_async_commit = ON");
    let update = ok(&mut writer, "UPDATE d.t SET v = 2 WHERE id = 1");
    let mut reader = Session::new(instance.clone(), client(2));
    assert_eq!(ok(&mut reader, "SELECT v FROM d.t WHERE id = 1"), update);
    ok(&mut writer, "SET GLOBAL esker_async_commit = OFF");
    assert_eq!(ok(&mut reader, "SELECT v FROM d.t WHERE id = 1"), update);
    assert!(reader.wait_durable(update, || false).is_none());
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

#[test]
fn xa_decisions_and_what_tells_of_them() {
    let (instance, mut writer, _) = begin();
    let mut other = Session::new(instance.clone(), client(3));
    let branch = |s: &mut Session, id: u32| {
        ok(s, "XA START 'x'");
        ok(s, &format!("UPDATE d.t SET v = v + 1 WHERE id = {id}"));
        ok(s, "XA END 'x'");
    };
    let mut last = 0;
    for decision in ["XA COMMIT 'x'", "XA ROLLBACK 'x'"] {
        branch(&mut writer, 1);
        let prepared = ok(&mut writer, "XA PREPARE 'x'");
        assert!(prepared > last);
        // The list, and that the identifier is in use, tell of the preparation.
        assert_eq!(ok(&mut other, "XA RECOVER"), prepared);
        assert_eq!(run(&mut other, "XA START 'x'"), (prepared, true));
        let decided = ok(&mut other, decision);
        assert!(decided > prepared);
        // That there is nothing more to decide tells of the decision.
        assert_eq!(run(&mut writer, "XA COMMIT 'x'"), (decided, true));
        assert_eq!(ok(&mut writer, "XA RECOVER"), decided);
        last = decided;
    }
    branch(&mut writer, 2);
    assert!(ok(&mut writer, "XA COMMIT 'x' ONE PHASE") > last);
    // The OK of a statement in a branch puts its wait off, as in any transaction.
    let commit = ok(&mut other, "UPDATE d.t SET v = 0 WHERE id = 2");
    ok(&mut writer, "XA START 'x'");
    assert_eq!(ok(&mut writer, "UPDATE d.t SET v = 0 WHERE id = 2"), 0);
    assert_eq!(ok(&mut writer, "XA END 'x'"), 0);
    assert_eq!(ok(&mut writer, "XA ROLLBACK 'x'"), commit);
}
