//! A panic inside a statement: a defect of the server that costs the statement and its transaction, not the session.
//!
//! Neighbours: `step`, `prepared`, `cursor`, `load` and `lookup` run their work in [`Session::survive`]; the server's
//! panic hook has logged the place by the time the panic arrives here. What the work would be as calls of MySQL's
//! storage engine interface is counted here, too.
//!
//! **Invariants**
//! - Nobody knows how far the statement has come, so its whole transaction is rolled back (a branch of an XA
//!   transaction can only be rolled back from then on): what was half done is never committed.
//! - A session that cannot even roll back ends.

use std::panic::{AssertUnwindSafe, catch_unwind};

use esker_sql_catalog::catalog::take_accesses;
use esker_types::{SqlError, SqlResult, errors};

use super::Session;
use crate::counts::Counter;

/// ER_INTERNAL_ERROR.
fn internal_error() -> SqlError {
    errors::internal(
        "the statement met a defect of the server, whose log says where; the transaction was rolled back",
    )
}

impl Session {
    /// Does a part of a statement.
    ///
    /// # Errors
    /// 1815 for a panic; the transaction is rolled back then.
    pub(super) fn survive<T>(&mut self, work: impl FnOnce(&mut Self) -> T) -> SqlResult<T> {
        // What others have left on this thread.
        let _ = take_accesses();
        // What a panic leaves behind in the session is put right by `abandon`.
        let done = catch_unwind(AssertUnwindSafe(|| work(self)));
        self.count_accesses();
        done.map_err(|_| {
            let abandoned = catch_unwind(AssertUnwindSafe(|| self.abandon()));
            if abandoned.is_err() {
                self.context.process.kill(true);
            }
            internal_error()
        })
    }

    /// Counts the calls that a part of a statement would be in MySQL, and the rows that it has examined.
    pub(super) fn count_accesses(&mut self) {
        const COUNTERS: [Counter; 9] = [
            Counter::HandlerDelete,
            Counter::HandlerReadFirst,
            Counter::HandlerReadKey,
            Counter::HandlerReadLast,
            Counter::HandlerReadNext,
            Counter::HandlerReadPrev,
            Counter::HandlerReadRndNext,
            Counter::HandlerUpdate,
            Counter::HandlerWrite,
        ];
        if let Some(accesses) = take_accesses() {
            self.measure.examined(accesses.examined);
            if accesses.sorted > 0 {
                self.count(Counter::SortRows, accesses.sorted);
            }
            let made = COUNTERS.into_iter().zip(accesses.calls);
            for (counter, times) in made.filter(|(_, times)| *times > 0) {
                self.count(counter, times);
            }
        }
    }

    /// Gives up the statement and its transaction.
    fn abandon(&mut self) {
        self.stop_firing();
        self.locks.release_statement();
        if self.context.xa.is_some() {
            self.doom_branch();
        } else {
            self.rollback_transaction();
        }
    }
}

#[cfg(test)]
mod tests {

    use esker_types::{SqlType, Value, ValueRef};
    use esker_vfs::sim::SimEnv;

    use super::super::{ClientInfo, Request};
    use super::*;
    use crate::testing;
    use esker_sql_catalog::accounts::Account;
    use esker_sql_catalog::result::{Mode, OutcomeKind, RowSink, Step};

    #[derive(Default)]
    struct Rows(Vec<Value>);

    impl RowSink for Rows {
        fn begin_row(&mut self) {}
        fn value(&mut self, v: ValueRef<'_>, _: &SqlType) {
            self.0.push(v.to_owned());
        }
        fn end_row(&mut self) {}
        fn bytes(&self) -> usize {
            self.0.len()
        }
    }

    fn run(session: &mut Session, sql: &str) -> SqlResult<Vec<Value>> {
        session.start(Request::Query(sql.as_bytes()));
        let Step::Done(outcome) = session.step(Mode::Thread) else {
            panic!("{sql}: not done")
        };
        let mut rows = Rows::default();
        match outcome.result {
            OutcomeKind::Err(e) => return Err(e),
            OutcomeKind::Ok(_) => {}
            OutcomeKind::Rows(_) => while session.next_rows(&mut rows, usize::MAX)?.more {},
        }
        session.start_next();
        Ok(rows.0)
    }

    #[test]
    fn a_panic_costs_the_transaction_and_the_session_goes_on() {
        let instance = testing::open(&SimEnv::new(1), &[]);
        let root = |id| {
            let client = ClientInfo::inside(id, Account::root(Vec::new()));
            Session::new(instance.clone(), client)
        };
        let (mut session, mut other) = (root(1), root(2));
        for sql in [
            "CREATE DATABASE d",
            "CREATE TABLE d.t (id INT PRIMARY KEY)",
            "INSERT INTO d.t VALUES (1), (2), (3)",
        ] {
            run(&mut session, sql).unwrap();
        }
        let mut met = 0;
        for sql in [
            "INSERT INTO d.t VALUES (8)",
            "UPDATE d.t SET id = id + 100 ORDER BY id",
            "SELECT id FROM d.t ORDER BY id",
            "SELECT COUNT(*) FROM d.t a, d.t b, d.t c",
            "SHOW TABLES FROM d",
            "DELETE FROM d.t WHERE id > 1",
        ] {
            // At its beginning, among its rows, among those it sends.
            for looks in 0..4 {
                run(&mut session, "BEGIN").unwrap();
                run(&mut session, "INSERT INTO d.t VALUES (7)").unwrap();
                session.context.process.panic_after(Some(looks));
                let result = run(&mut session, sql);
                session.context.process.panic_after(None);
                match result {
                    Err(e) if e.code == 1815 => met += 1,
                    _ => {
                        assert_ne!(looks, 0, "{sql}: it looks whether it is killed");
                        run(&mut session, "ROLLBACK").unwrap();
                    }
                }
                assert_eq!(session.status() & 1, 0, "{sql}: no transaction is open");
                let kept = run(&mut session, "SELECT id FROM d.t ORDER BY id").unwrap();
                let kept: Vec<_> = kept.iter().map(|v| format!("{v:?}")).collect();
                assert_eq!(
                    kept,
                    [1, 2, 3].map(|n| format!("{:?}", Value::Int(n))),
                    "{sql}"
                );
                // No lock is left behind, neither of rows nor of the table.
                let brief = "SET lock_wait_timeout = 1, innodb_lock_wait_timeout = 1";
                run(&mut other, brief).unwrap();
                run(&mut other, "ALTER TABLE d.t COMMENT 'x'").unwrap();
                run(&mut other, "DELETE FROM d.t WHERE id = 7").unwrap();
            }
        }
        assert!(met > 8, "{met}");
    }
}
