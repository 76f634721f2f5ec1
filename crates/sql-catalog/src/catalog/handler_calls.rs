//! Calls of MySQL's storage engine interface that reads and changes of rows stand for, `Handler_read_key` and its kin,
//! and the rows that were examined and sorted.
//!
//! Neighbours: `access_counts` counts rows by table and tells this module of them; a session takes what its step has
//! made. MySQL makes a call for each row; here a scan tells once, when it ends or turns elsewhere.
//! **Invariants**: counts belong to the thread: whoever begins to work for a session forgets those of others, and takes
//! its own before it leaves the thread. Counting takes no lock and no shared cache line.

use std::cell::Cell;

/// A call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HandlerCall {
    /// A row is deleted.
    Delete,
    /// The first entry of an index is read.
    ReadFirst,
    /// A key is looked for.
    ReadKey,
    /// The last entry of an index is read.
    ReadLast,
    /// The next entry of an index is read.
    ReadNext,
    /// The entry before is read.
    ReadPrev,
    /// The next row of a table is read.
    ReadRndNext,
    /// A row is changed.
    Update,
    /// A row is written.
    Write,
}

/// How many kinds of calls there are.
const KINDS: usize = 9;

/// Calls by kind, in the order of [`HandlerCall`].
pub type HandlerCalls = [u64; KINDS];

/// What was read and changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Accesses {
    /// As calls.
    pub calls: HandlerCalls,
    /// Rows that were read: those of calls that found one.
    pub examined: u64,
    /// Rows that were sorted.
    pub sorted: u64,
}

thread_local! {
    static MADE: [Cell<u64>; KINDS] = const { [const { Cell::new(0) }; KINDS] };
    static EXAMINED: Cell<u64> = const { Cell::new(0) };
    static SORTED: Cell<u64> = const { Cell::new(0) };
    static ANY: Cell<bool> = const { Cell::new(false) };
}

/// So many calls more.
#[inline]
pub fn note_call(call: HandlerCall, times: u64) {
    MADE.with(|made| made[call as usize].update(|made| made + times));
    ANY.set(true);
}

/// So many rows more were read.
#[inline]
pub fn note_examined(rows: u64) {
    EXAMINED.set(EXAMINED.get() + rows);
    ANY.set(true);
}

/// So many rows more were sorted.
#[inline]
pub fn note_sorted(rows: u64) {
    SORTED.set(SORTED.get() + rows);
    ANY.set(true);
}

/// What was read and changed since it was taken last; `None` if nothing was.
#[inline]
pub fn take_accesses() -> Option<Accesses> {
    let take = |made: &[Cell<u64>; KINDS]| std::array::from_fn(|call| made[call].take());
    ANY.replace(false).then(|| Accesses {
        calls: MADE.with(take),
        examined: EXAMINED.take(),
        sorted: SORTED.take(),
    })
}

/// How a scan goes through an index.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Walk {
    /// Through the whole table.
    #[default]
    Table,
    /// Through a whole index, forwards.
    Index,
    /// Through a whole index, backwards.
    IndexBack,
    /// From keys that are looked for, forwards.
    Keys,
    /// From keys that are looked for, backwards.
    KeysBack,
    /// To keys that have one row each.
    Unique,
}

/// What scans of one kind have done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Walked {
    /// Times that such a scan began.
    pub scans: u64,
    /// Those that came to their end: they have looked for a row that was not there.
    pub ended: u64,
    /// Keys that were looked for.
    pub keys: u64,
    /// Rows that were read.
    pub rows: u64,
}

/// Notes the calls that the scans would be in MySQL, and their rows.
pub fn note_walk(walk: Walk, walked: Walked) {
    let Walked {
        scans,
        ended,
        keys,
        rows,
    } = walked;
    note_examined(rows);
    // The row that a key or an end of the index leads to is not the next of another.
    let next = (rows + ended).saturating_sub(keys.max(scans));
    match walk {
        Walk::Table => {
            note_call(HandlerCall::ReadFirst, scans);
            note_call(HandlerCall::ReadKey, scans);
            note_call(HandlerCall::ReadRndNext, rows + ended);
        }
        Walk::Index => {
            note_call(HandlerCall::ReadFirst, scans);
            note_call(HandlerCall::ReadKey, scans);
            note_call(HandlerCall::ReadNext, next);
        }
        Walk::IndexBack => {
            note_call(HandlerCall::ReadLast, scans);
            note_call(HandlerCall::ReadKey, scans);
            note_call(HandlerCall::ReadPrev, next);
        }
        Walk::Keys => {
            note_call(HandlerCall::ReadKey, keys);
            note_call(HandlerCall::ReadNext, next);
        }
        Walk::KeysBack => {
            note_call(HandlerCall::ReadKey, keys);
            note_call(HandlerCall::ReadPrev, next);
        }
        Walk::Unique => note_call(HandlerCall::ReadKey, keys),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn calls(walk: Walk, (scans, ended, keys, rows): (u64, u64, u64, u64)) -> HandlerCalls {
        let walked = Walked {
            scans,
            ended,
            keys,
            rows,
        };
        let _ = take_accesses();
        note_walk(walk, walked);
        let made = take_accesses().expect("some");
        assert_eq!(take_accesses(), None);
        assert_eq!(made.examined, rows);
        made.calls
    }

    #[test]
    fn scans_are_the_calls_that_mysql_makes() {
        assert_eq!(
            calls(Walk::Table, (1, 1, 0, 5)),
            [0, 1, 1, 0, 0, 0, 6, 0, 0]
        );
        assert_eq!(
            calls(Walk::Index, (1, 1, 0, 5)),
            [0, 1, 1, 0, 5, 0, 0, 0, 0]
        );
        assert_eq!(
            calls(Walk::IndexBack, (1, 0, 0, 1)),
            [0, 0, 1, 1, 0, 0, 0, 0, 0]
        );
        // Two keys, of which one has three rows and the other none.
        assert_eq!(calls(Walk::Keys, (1, 2, 2, 3)), [0, 0, 2, 0, 3, 0, 0, 0, 0]);
        assert_eq!(
            calls(Walk::KeysBack, (1, 0, 1, 2)),
            [0, 0, 1, 0, 0, 1, 0, 0, 0]
        );
        assert_eq!(
            calls(Walk::Unique, (1, 1, 3, 2)),
            [0, 0, 3, 0, 0, 0, 0, 0, 0]
        );
    }
}
