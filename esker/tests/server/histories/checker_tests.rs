//! The checker against histories that have each anomaly, at each level.

use super::checker::{Anomaly, Kind, check};
use super::history::{End, History, How, Key, Level, Number, Op, Txn};

const LEVELS: [Level; 3] = [
    Level::ReadCommitted,
    Level::RepeatableRead,
    Level::Serializable,
];

fn append(key: Key, number: Number) -> Op {
    Op::Append(key, number)
}

fn plain<const N: usize>(key: Key, list: [Number; N]) -> Op {
    Op::Read(How::Plain, vec![(key, list.to_vec())])
}

fn locking<const N: usize>(key: Key, list: [Number; N]) -> Op {
    Op::Read(How::Locking, vec![(key, list.to_vec())])
}

/// Transactions that committed, each of a session of its own, and what the lists become.
fn history<const L: usize>(txns: Vec<Vec<Op>>, last: [(Key, &[Number]); L]) -> History {
    let txns = txns.into_iter().enumerate().map(|(n, ops)| Txn {
        session: n as u64,
        ops,
        end: End::Committed,
    });
    let last = last.into_iter().map(|(key, list)| (key, list.to_vec()));
    History {
        txns: txns.collect(),
        last: last.collect(),
    }
}

fn kinds(found: &[Anomaly]) -> Vec<Kind> {
    found.iter().map(|a| a.kind).collect()
}

/// What each level says of the history: READ COMMITTED, REPEATABLE READ, SERIALIZABLE.
#[track_caller]
fn expect(history: &History, expected: [&[Kind]; 3]) {
    for (level, expected) in LEVELS.into_iter().zip(expected) {
        let found = check(history, level);
        assert_eq!(kinds(&found), expected, "{level:?}: {found:?}");
    }
}

#[test]
fn a_serial_history_has_nothing() {
    let history = history(
        vec![
            vec![append(1, 10), plain(2, [])],
            vec![
                plain(1, [10]),
                append(1, 11),
                append(2, 20),
                plain(1, [10, 11]),
            ],
            vec![locking(1, [10, 11]), locking(2, [20])],
        ],
        [(1, &[10, 11]), (2, &[20])],
    );
    expect(&history, [&[], &[], &[]]);
}

#[test]
fn dirty_writes() {
    let history = history(
        vec![
            vec![append(1, 10), append(2, 20)],
            vec![append(1, 11), append(2, 21)],
        ],
        [(1, &[10, 11]), (2, &[21, 20])],
    );
    expect(&history, [&[Kind::G0]; 3]);
}

#[test]
fn aborted_reads() {
    let mut history = history(vec![vec![append(1, 10)], vec![plain(1, [10])]], []);
    history.txns[0].end = End::RolledBack;
    expect(&history, [&[Kind::G1a]; 3]);
    // Nobody knows how it ended, and nothing of it is there: it was rolled back.
    history.txns[0].end = End::Unknown;
    expect(&history, [&[Kind::G1a]; 3]);
    // It is there, so it was not.
    history.last.insert(1, vec![10]);
    expect(&history, [&[], &[], &[]]);
    history.txns[0].end = End::RolledBack;
    expect(&history, [&[Kind::G1a, Kind::G1a]; 3]);
}

#[test]
fn intermediate_reads() {
    let history = history(
        vec![vec![append(1, 10), append(1, 11)], vec![plain(1, [10])]],
        [(1, &[10, 11])],
    );
    let found = check(&history, Level::ReadCommitted);
    assert!(kinds(&found).contains(&Kind::G1b), "{found:?}");
}

#[test]
fn circular_flow() {
    let history = history(
        vec![
            vec![append(1, 10), plain(2, [20])],
            vec![append(2, 20), plain(1, [10])],
        ],
        [(1, &[10]), (2, &[20])],
    );
    // At REPEATABLE READ the reads are before the commits, so it is a cycle there as well.
    expect(&history, [&[Kind::G1c]; 3]);
}

#[test]
fn reads_of_different_moments() {
    let history = history(
        vec![
            vec![append(1, 10), append(2, 20)],
            vec![plain(1, []), plain(2, [20])],
        ],
        [(1, &[10]), (2, &[20])],
    );
    expect(&history, [&[], &[Kind::GSingle], &[Kind::GSingle]]);
    // In one statement it is forbidden at all levels.
    let mut at_once = history;
    at_once.txns[1].ops = vec![Op::Read(How::Plain, vec![(1, vec![]), (2, vec![20])])];
    expect(&at_once, [&[Kind::GSingle]; 3]);
    // Time does not go back from one statement to the next.
    at_once.txns[1].ops = vec![plain(1, [10]), plain(1, [])];
    expect(&at_once, [&[Kind::GSingle]; 3]);
}

#[test]
fn lost_updates() {
    let by = |read: fn(Key, [Number; 1]) -> Op| {
        history(
            vec![
                vec![append(1, 10)],
                vec![read(1, [10]), append(1, 11)],
                vec![read(1, [10]), append(1, 12)],
            ],
            [(1, &[10, 11, 12])],
        )
    };
    expect(&by(plain), [&[], &[], &[Kind::LostUpdate]]);
    expect(&by(locking), [&[Kind::LostUpdate]; 3]);
}

#[test]
fn write_skew() {
    let by = |read: fn(Key, [Number; 1]) -> Op| {
        history(
            vec![
                vec![append(1, 10), append(2, 20)],
                vec![read(1, [10]), append(2, 21)],
                vec![read(2, [20]), append(1, 11)],
            ],
            [(1, &[10, 11]), (2, &[20, 21])],
        )
    };
    expect(&by(plain), [&[], &[], &[Kind::G2Item]]);
    expect(&by(locking), [&[Kind::G2Item]; 3]);
}

#[test]
fn phantoms() {
    let by = |read: fn(Key, [Number; 0]) -> Op| {
        history(
            vec![
                vec![read(1, []), append(2, 20)],
                vec![read(2, []), append(1, 10)],
            ],
            [(1, &[10]), (2, &[20])],
        )
    };
    expect(&by(plain), [&[], &[], &[Kind::G2Item]]);
    // Only READ COMMITTED locks no gaps.
    expect(&by(locking), [&[], &[Kind::G2Item], &[Kind::G2Item]]);
}

#[test]
fn own_appends_are_seen() {
    let blind = history(vec![vec![append(1, 10), plain(1, [])]], [(1, &[10])]);
    expect(&blind, [&[Kind::Internal]; 3]);
    let early = history(vec![vec![plain(1, [10]), append(1, 10)]], [(1, &[10])]);
    expect(&early, [&[Kind::Internal]; 3]);
}

#[test]
fn what_was_acknowledged_is_there() {
    let lost = history(vec![vec![append(1, 10)], vec![append(1, 11)]], [(1, &[11])]);
    expect(&lost, [&[Kind::Lost]; 3]);
    let twice = history(vec![vec![append(1, 10)]], [(1, &[10, 10])]);
    expect(&twice, [&[Kind::Disorder]; 3]);
}

#[test]
fn lists_that_are_no_beginnings() {
    let history = history(
        vec![
            vec![append(1, 10)],
            vec![append(1, 11)],
            vec![plain(1, [11])],
        ],
        [(1, &[10, 11])],
    );
    let found = check(&history, Level::ReadCommitted);
    assert!(kinds(&found).contains(&Kind::Disorder), "{found:?}");
}

#[test]
fn a_session_sees_what_it_has_committed() {
    let mut history = history(vec![vec![append(1, 10)], vec![plain(1, [])]], [(1, &[10])]);
    expect(&history, [&[], &[], &[]]);
    history.txns[1].session = history.txns[0].session;
    expect(&history, [&[Kind::GSingle]; 3]);
}
