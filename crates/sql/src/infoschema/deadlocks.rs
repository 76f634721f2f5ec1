//! The last deadlocks: who waited for whom, with statements and keys.
//!
//! Neighbours: the engine tells of each while its members still wait and nobody else can find a cycle, so that only
//! what is gone afterwards is taken then ([`Instance::note_deadlock`]); words are made of it later. `locks` says what a
//! lock is in words; SHOW ENGINE INNODB STATUS shows the last one, `information_schema.ESKER_DEADLOCKS` all that are
//! kept; with `innodb_print_all_deadlocks` the server's log has each.
//! **Invariants**: at most [`KEPT`] are kept, each with statements of at most [`MAX_STATEMENT`] bytes; noting one takes
//! no lock of rows. What clients write makes no lines of its own in the log.

use std::collections::{HashMap, VecDeque};
use std::fmt::Write as _;
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use esker_engine::{Deadlock, DeadlockMember, LockInfo, OwnerId};
use esker_types::Value;
use parking_lot::Mutex;

use super::locks::{self, Indexes};
use super::{Viewer, shown_time, text};
use crate::instance::Instance;
use crate::loglines::{LineLimit, on_one_line};
use crate::session::registry::Process;

/// Deadlocks that are remembered.
const KEPT: usize = 100;
/// Bytes of a statement that are remembered.
const MAX_STATEMENT: usize = 1024;

/// A member of a deadlock.
struct Member {
    /// Connection; `None` for one that is no session (a transaction of a replica's worker).
    thread: Option<u64>,
    /// Host and address of its client.
    place: [String; 2],
    user: String,
    statement: String,
    /// How long its transaction had been open, microseconds.
    active_micros: i64,
}

/// The locks of a member in InnoDB's words.
#[derive(Default)]
struct LockWords {
    /// What it waited for.
    waits: Vec<String>,
    holds: Vec<String>,
}

/// A deadlock.
pub(crate) struct Noted {
    number: u64,
    at_micros: i64,
    members: Vec<Member>,
    victim: usize,
    /// The locks of every member, until there are words for them.
    locks: Mutex<Vec<Vec<LockInfo>>>,
    words: OnceLock<Vec<LockWords>>,
}

impl Noted {
    /// Every member with the words for its locks. They are made when they are first wanted.
    fn members(&self, instance: &Instance) -> impl Iterator<Item = (&Member, &LockWords)> {
        let words = self.words.get_or_init(|| {
            let indexes = locks::indexes(instance);
            let locks = std::mem::take(&mut *self.locks.lock());
            let of_all = self.members.iter().zip(&locks);
            let words = |(member, locks): (&Member, &Vec<LockInfo>)| member.words(locks, &indexes);
            of_all.map(words).collect()
        });
        debug_assert_eq!(words.len(), self.members.len());
        self.members.iter().zip(words)
    }
}

impl Member {
    fn words(&self, locks: &[LockInfo], indexes: &Indexes) -> LockWords {
        let id = self.thread.unwrap_or(0);
        let mut words = LockWords::default();
        for lock in locks {
            let list = match lock.is_granted {
                true => &mut words.holds,
                false => &mut words.waits,
            };
            list.extend(locks::lock_text(indexes, lock, id));
        }
        words
    }
}

/// The last deadlocks, the oldest first.
#[derive(Default)]
pub(crate) struct Deadlocks {
    kept: Mutex<VecDeque<Arc<Noted>>>,
    /// Those that the log has.
    told: LineLimit,
}

impl Deadlocks {
    fn all(&self) -> Vec<Arc<Noted>> {
        self.kept.lock().iter().cloned().collect()
    }

    fn add(&self, make: impl FnOnce(u64) -> Noted) -> Arc<Noted> {
        let mut kept = self.kept.lock();
        let number = kept.back().map_or(1, |last| last.number + 1);
        if kept.len() == KEPT {
            kept.pop_front();
        }
        let noted = Arc::new(make(number));
        kept.push_back(Arc::clone(&noted));
        debug_assert!(kept.len() <= KEPT);
        noted
    }
}

/// The first bytes of a statement.
pub(super) fn cut(statement: &str) -> String {
    let mut end = statement.len().min(MAX_STATEMENT);
    while !statement.is_char_boundary(end) {
        end -= 1;
    }
    statement[..end].to_owned()
}

impl Instance {
    /// Remembers a deadlock while its members still wait.
    pub(crate) fn note_deadlock(&self, deadlock: Deadlock) -> Arc<Noted> {
        let now = self.now_micros();
        let sessions = self.registry.list();
        let by_owner: HashMap<OwnerId, &Arc<Process>> = sessions
            .iter()
            .filter_map(|session| Some((session.lock_owner()?, session)))
            .collect();
        let member = |member: &DeadlockMember| {
            let session = by_owner.get(&member.owner);
            let detail = session.map(|session| session.detail());
            let statement = detail.as_ref().and_then(|d| d.info.as_deref());
            let begun = detail.as_ref().and_then(|d| d.transaction);
            Member {
                thread: session.map(|session| session.id),
                place: session.map_or_else(Default::default, |session| {
                    [session.host(), session.address()].map(str::to_owned)
                }),
                user: detail.as_ref().map(|d| d.user.clone()).unwrap_or_default(),
                statement: statement.map(cut).unwrap_or_default(),
                active_micros: begun.map_or(0, |begun| (now - begun).max(0)),
            }
        };
        let members: Vec<Member> = deadlock.members.iter().map(member).collect();
        let locks = deadlock.members.into_iter().map(|member| member.locks);
        let locks = Mutex::new(locks.collect());
        self.deadlocks.add(|number| Noted {
            number,
            at_micros: now,
            members,
            victim: deadlock.victim,
            locks,
            words: OnceLock::new(),
        })
    }

    /// Makes the words for a deadlock, and writes them to the log if that is wanted.
    pub(crate) fn tell_deadlock(&self, noted: &Noted) {
        let report = report(noted, self, on_one_line);
        if !self.variable_is_on("innodb_print_all_deadlocks") {
            return;
        }
        if let Some(left_out) = self.deadlocks.told.admit(Instant::now()) {
            if left_out > 0 {
                tracing::warn!("{left_out} more deadlocks are not listed");
            }
            tracing::warn!("deadlock:\n{report}");
        }
    }
}

/// The section of SHOW ENGINE INNODB STATUS about the last deadlock; `None`: there was none.
pub(crate) fn latest_deadlock(instance: &Instance) -> Option<String> {
    let last = instance.deadlocks.all().pop()?;
    Some(report(&last, instance, str::to_owned))
}

/// A deadlock in InnoDB's words, with statements as `shown` gives them.
fn report(noted: &Noted, instance: &Instance, shown: fn(&str) -> String) -> String {
    let mut out = format!("{} {}\n", shown_time(noted.at_micros), std::process::id());
    for (nth, (member, words)) in noted.members(instance).enumerate() {
        let nth = nth + 1;
        let id = member.thread.unwrap_or(0);
        let seconds = member.active_micros / 1_000_000;
        let locks = words.holds.len() + words.waits.len();
        let _ = writeln!(
            out,
            "*** ({nth}) TRANSACTION:\nTRANSACTION {id}, ACTIVE {seconds} sec starting index read\n\
             mysql tables in use 1, locked 1\n\
             LOCK WAIT {locks} lock struct(s), heap size 0, {locks} row lock(s)\n\
             MySQL thread id {id}, OS thread handle 0, query id 0 {} {} {} updating\n{}\n",
            member.place[0],
            member.place[1],
            on_one_line(&member.user),
            shown(&member.statement),
        );
        if !words.holds.is_empty() {
            let _ = writeln!(
                out,
                "*** ({nth}) HOLDS THE LOCK(S):\n{}",
                words.holds.join("\n")
            );
        }
        let _ = writeln!(
            out,
            "\n*** ({nth}) WAITING FOR THIS LOCK TO BE GRANTED:\n{}\n",
            words.waits.join("\n")
        );
    }
    let _ = writeln!(out, "*** WE ROLL BACK TRANSACTION ({})", noted.victim + 1);
    out
}

/// Rows of ESKER_DEADLOCKS: one for each member, the newest deadlock first.
pub(super) fn rows(viewer: &Viewer) -> Vec<Vec<Value>> {
    let mut rows = Vec::new();
    for deadlock in viewer.instance.deadlocks.all().iter().rev() {
        let members = deadlock.members(&viewer.instance);
        for (nth, (member, words)) in members.enumerate() {
            rows.push(vec![
                Value::UInt(deadlock.number),
                text(shown_time(deadlock.at_micros)),
                member.thread.map_or(Value::Null, Value::UInt),
                text(&member.user),
                text(if nth == deadlock.victim { "YES" } else { "NO" }),
                text(&member.statement),
                text(words.waits.join("\n")),
                text(words.holds.join("\n")),
            ]);
        }
    }
    rows
}
