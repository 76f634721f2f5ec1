//! BENCHMARK evaluates its argument as often as it is told to, and ends with an error when it is killed or
//! out of time.

use std::thread;

use esker_sql::{Mode, OutcomeKind, Request, Session, Step};
use esker_vfs::sim::SimEnv;

use crate::common::rows::Rows;
use crate::common::{await_durable, client, open};

/// All values of the answer, or the number of the error.
fn ask(session: &mut Session, sql: &str) -> Result<Vec<String>, u16> {
    session.start(Request::Query(sql.as_bytes()));
    let Step::Done(outcome) = session.step(Mode::Thread) else {
        panic!("nothing to wait for in {sql}");
    };
    await_durable(session, outcome.depends_on);
    let mut values = Rows::default();
    match outcome.result {
        OutcomeKind::Err(e) => return Err(e.code),
        OutcomeKind::Rows(_) => {
            while session
                .next_rows(&mut values, usize::MAX)
                .map_err(|e| e.code)?
                .more
            {}
        }
        _ => {}
    }
    Ok(values.rows.concat())
}

const ENDLESS: &str = "BENCHMARK(18446744073709551615, CRC32(@n))";

#[test]
fn it_evaluates_its_argument_that_often() {
    let instance = open(&SimEnv::new(1), &[]);
    let mut session = Session::new(instance, client(1));
    let mut values = |sql: &str| ask(&mut session, sql).map(|v| v.join("|"));
    assert_eq!(values("SET @n = 0"), Ok(String::new()));
    let counted = "SELECT BENCHMARK(5, @n := @n + 1), @n, BENCHMARK(0, @n := 100), BENCHMARK(NULL, @n := 100), BENCHMARK(-1, @n := 100), @n";
    assert_eq!(values(counted), Ok("0|5|0|NULL|NULL|5".to_owned()));
}

#[test]
fn a_time_limit_and_a_kill_are_errors() {
    let instance = open(&SimEnv::new(2), &[]);
    let mut root = Session::new(instance.clone(), client(1));
    let limited = format!("SELECT /*+ MAX_EXECUTION_TIME(5) */ {ENDLESS}");
    assert_eq!(ask(&mut root, &limited), Err(3024));
    let victim = thread::spawn(move || {
        let mut victim = Session::new(instance, client(20));
        ask(&mut victim, &format!("SELECT {ENDLESS}"))
    });
    while !victim.is_finished() {
        // Before the statement begins there is nothing to kill.
        let _ = ask(&mut root, "KILL QUERY 20");
        thread::yield_now();
    }
    assert_eq!(victim.join().expect("ends"), Err(1317));
}
