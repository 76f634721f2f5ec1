//! The last deadlocks: who waited for whom, with statements and keys.
//!
//! Neighbours: the engine tells of each while its members still wait; `locks` says what a lock is in words; SHOW ENGINE
//! INNODB STATUS shows the last one, `information_schema.ESKER_DEADLOCKS` all that are kept; with
//! `innodb_print_all_deadlocks` the server's log has each.
//! **Invariants**: at most [`KEPT`] are kept, each with statements of at most [`MAX_STATEMENT`] bytes; noting one takes
//! no lock of rows.

use std::collections::VecDeque;
use std::fmt::Write as _;
use std::sync::Arc;

use esker_engine::{Deadlock, LockInfo};
use esker_types::Value;
use parking_lot::Mutex;

use super::locks::{self, Indexes};
use super::{Viewer, shown_time, text};
use crate::instance::Instance;

/// Deadlocks that are remembered.
const KEPT: usize = 100;
/// Bytes of a statement that are remembered.
const MAX_STATEMENT: usize = 1024;

/// A member of a deadlock.
struct Member {
    /// Connection; `None` for one that is no session (a transaction of a replica's worker).
    thread: Option<u64>,
    user: String,
    statement: String,
    /// How long its transaction had been open, microseconds.
    active_micros: i64,
    /// What it waited for, in InnoDB's words, then what it held.
    waits: Vec<String>,
    holds: Vec<String>,
}

/// A deadlock.
struct Noted {
    number: u64,
    at_micros: i64,
    members: Vec<Member>,
    victim: usize,
}

/// The last deadlocks, the oldest first.
#[derive(Default)]
pub(crate) struct Deadlocks(Mutex<VecDeque<Arc<Noted>>>);

impl Deadlocks {
    fn all(&self) -> Vec<Arc<Noted>> {
        self.0.lock().iter().cloned().collect()
    }

    fn add(&self, make: impl FnOnce(u64) -> Noted) {
        let mut kept = self.0.lock();
        let number = kept.back().map_or(1, |last| last.number + 1);
        if kept.len() == KEPT {
            kept.pop_front();
        }
        kept.push_back(Arc::new(make(number)));
        debug_assert!(kept.len() <= KEPT);
    }
}

/// The first bytes of a statement.
fn cut(statement: &str) -> String {
    let mut end = statement.len().min(MAX_STATEMENT);
    while !statement.is_char_boundary(end) {
        end -= 1;
    }
    statement[..end].to_owned()
}

impl Instance {
    /// Remembers a deadlock.
    pub(crate) fn note_deadlock(&self, deadlock: &Deadlock) {
        let indexes = locks::indexes(self);
        let now = self.now_micros();
        let sessions = self.registry.list();
        let member = |member: &esker_engine::DeadlockMember| {
            let session = sessions.iter().find(|session| session.is_member(member));
            let detail = session.map(|session| session.detail());
            let thread = session.map(|session| session.id);
            let id = thread.unwrap_or(0);
            let lines = |granted: bool| {
                let of_them = member
                    .locks
                    .iter()
                    .filter(|lock| lock.is_granted == granted);
                of_them
                    .filter_map(|lock| line(&indexes, lock, id))
                    .collect()
            };
            let statement = detail.as_ref().and_then(|d| d.info.as_deref());
            let begun = detail.as_ref().and_then(|d| d.transaction);
            Member {
                thread,
                user: detail.as_ref().map(|d| d.user.clone()).unwrap_or_default(),
                statement: statement.map(cut).unwrap_or_default(),
                active_micros: begun.map_or(0, |begun| (now - begun).max(0)),
                waits: lines(false),
                holds: lines(true),
            }
        };
        let members: Vec<Member> = deadlock.members.iter().map(member).collect();
        self.deadlocks.add(|number| Noted {
            number,
            at_micros: now,
            members,
            victim: deadlock.victim,
        });
        if self.variable_is_on("innodb_print_all_deadlocks")
            && let Some(text) = latest_deadlock(self)
        {
            tracing::warn!("deadlock:\n{text}");
        }
    }
}

fn line(indexes: &Indexes, lock: &LockInfo, id: u64) -> Option<String> {
    locks::lock_text(indexes, lock, id)
}

/// The section of SHOW ENGINE INNODB STATUS about the last deadlock; `None`: there was none.
pub(crate) fn latest_deadlock(instance: &Instance) -> Option<String> {
    let last = instance.deadlocks.all().pop()?;
    let mut out = format!("{} {}\n", shown_time(last.at_micros), std::process::id());
    for (nth, member) in last.members.iter().enumerate() {
        let nth = nth + 1;
        let id = member.thread.unwrap_or(0);
        let seconds = member.active_micros / 1_000_000;
        let locks = member.holds.len() + member.waits.len();
        let _ = writeln!(
            out,
            "*** ({nth}) TRANSACTION:\nTRANSACTION {id}, ACTIVE {seconds} sec starting index read\n\
             mysql tables in use 1, locked 1\n\
             LOCK WAIT {locks} lock struct(s), heap size 0, {locks} row lock(s)\n\
             MySQL thread id {id}, OS thread handle 0, query id 0 {} updating\n{}\n",
            member.user, member.statement,
        );
        if !member.holds.is_empty() {
            let _ = writeln!(
                out,
                "*** ({nth}) HOLDS THE LOCK(S):\n{}",
                member.holds.join("\n")
            );
        }
        let _ = writeln!(
            out,
            "\n*** ({nth}) WAITING FOR THIS LOCK TO BE GRANTED:\n{}\n",
            member.waits.join("\n")
        );
    }
    let _ = writeln!(out, "*** WE ROLL BACK TRANSACTION ({})", last.victim + 1);
    Some(out)
}

/// Rows of ESKER_DEADLOCKS: one for each member, the newest deadlock first.
pub(super) fn rows(viewer: &Viewer) -> Vec<Vec<Value>> {
    let mut rows = Vec::new();
    for deadlock in viewer.instance.deadlocks.all().iter().rev() {
        for (nth, member) in deadlock.members.iter().enumerate() {
            rows.push(vec![
                Value::UInt(deadlock.number),
                text(shown_time(deadlock.at_micros)),
                member.thread.map_or(Value::Null, Value::UInt),
                text(&member.user),
                text(if nth == deadlock.victim { "YES" } else { "NO" }),
                text(&member.statement),
                text(member.waits.join("\n")),
                text(member.holds.join("\n")),
            ]);
        }
    }
    rows
}
