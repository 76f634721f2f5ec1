//! Sessions of others between transactions of a channel: one waits for a transaction that rests, and the one whose turn
//! it is waits for the session. Without undoing what rests, only a time limit would end that.

use std::time::{Duration, Instant};

use super::tests::{Server, await_status, settings};
use super::{Applier, Incoming};

/// Nothing takes this long.
const LIMIT: Duration = Duration::from_secs(60);
/// Somebody has the row.
const LOCKED: u16 = 3572;

fn await_true(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < LIMIT, "{what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// A replica whose channel applies three transactions: the first changes w and t, the second t, the third u. A local
/// session has the row of w, so the third rests behind the others, though its worker has the second, which depends on
/// the first, before it. `meanwhile` is called then, with the events of the third, and with what lets the first go on.
fn with_one_that_rests(meanwhile: impl FnOnce(&Server, &[Incoming], &mut dyn FnMut(&str))) {
    let source = Server::source();
    let mut there = source.client(1);
    there.ok("CREATE DATABASE a");
    for table in ["t", "u", "w"] {
        there.ok(&format!(
            "CREATE TABLE a.{table} (id INT PRIMARY KEY, v INT, pad TEXT)"
        ));
        there.ok(&format!(
            "INSERT INTO a.{table} VALUES (1, 0, ''), (2, 0, '')"
        ));
    }
    let first = source.events();
    there.ok("BEGIN");
    // So much that another worker gets the others.
    there.ok("UPDATE a.w SET v = 1, pad = REPEAT('x', 60000) WHERE id = 1");
    there.ok("UPDATE a.t SET v = 1 WHERE id = 1");
    there.ok("COMMIT");
    there.ok("UPDATE a.t SET v = 3 WHERE id = 1");
    let without_third = source.events().len();
    there.ok("UPDATE a.u SET v = 1 WHERE id = 1");
    let events = source.events();
    let replica = Server::replica(&[
        ("replica_parallel_workers", "2"),
        ("innodb_lock_wait_timeout", "100000"),
    ]);
    assert_eq!(replica.apply(&first).failure, None);
    let mut holder = replica.client(1);
    // The channel would wait for ever; who waits for it fails.
    holder.ok("SET innodb_lock_wait_timeout = 60");
    holder.ok("BEGIN");
    holder.ok("UPDATE a.w SET v = 2 WHERE id = 1");
    let applier: Applier = replica.start_with(&events, settings());
    let mut other = replica.client(2);
    await_true("the third has its row", || {
        other.ask("SELECT * FROM a.u WHERE id = 1 FOR UPDATE NOWAIT") == Err(LOCKED)
    });
    let third = &events[without_third..];
    meanwhile(&replica, third, &mut |sql| drop(holder.ok(sql)));
    let last = events.last().map_or(0, |event| event.relay.offset);
    let status = await_status(&applier, |s| {
        s.read.relay.offset >= last && s.in_flight == 0
    });
    assert_eq!(status.failure, None);
    applier.stop();
    let rows = |table: &str| {
        replica
            .client(3)
            .ok(&format!("SELECT v FROM a.{table} WHERE id = 1"))
    };
    assert_eq!([rows("w"), rows("t"), rows("u")], [["1|"], ["3|"], ["1|"]]);
}

#[test]
fn a_local_change_of_a_row_does_not_stop_the_channel() {
    with_one_that_rests(|_, _, holder| {
        // It waits for the third, which waits for the first, which waits for this session.
        holder("UPDATE a.u SET v = 2 WHERE id = 1");
        holder("COMMIT");
    });
}

#[test]
fn local_table_locks_do_not_stop_the_channel() {
    with_one_that_rests(|replica, _, holder| {
        std::thread::scope(|scope| {
            let locked = scope.spawn(|| {
                let mut client = replica.client(5);
                client.ok("SET lock_wait_timeout = 60");
                let locked = client.0.apply_text(b"LOCK TABLES a.t WRITE, a.u WRITE");
                locked.expect("the tables");
                client.ok("UNLOCK TABLES");
            });
            await_true("it waits for one of the tables", || {
                replica.instance.catalog.locks().waiting() > 0
            });
            holder("ROLLBACK");
            locked.join().expect("it has had the tables");
        });
    });
}

/// Where two channels bring the same transactions in another order, each would wait for what rests in the other one.
#[test]
fn a_gtid_that_another_channel_wants_is_given_back() {
    with_one_that_rests(|replica, third, holder| {
        let other = replica.start_channel("other", third, settings());
        await_status(&other, |s| s.transactions > 0);
        other.stop();
        assert_eq!(other.status().failure, None);
        holder("COMMIT");
    });
}
