//! The statements of one session: the last ones, and sums by command.
//!
//! Neighbours: a session adds to its own; PERFORMANCE_SCHEMA reads all, and the registry keeps the sums of sessions
//! that are gone.
//! **Invariants**: events are numbered from 1, also those that are not kept; the buffers of old events are used again.

use std::collections::VecDeque;
use std::sync::Arc;

use super::{Digest, HISTORY, Measured, Sums, beginning};
use crate::counts::Counter;

/// A statement that has ended, with its text.
#[derive(Clone)]
pub(crate) struct Past {
    /// Its number in its session.
    pub(crate) event: u64,
    /// What was measured.
    pub(crate) measured: Measured,
    /// Its text.
    pub(crate) text: String,
    /// The database.
    pub(crate) schema: Option<Arc<str>>,
    /// Message of its error.
    pub(crate) message: Option<String>,
    /// Its digest.
    pub(crate) digest: Option<Arc<Digest>>,
}

/// Sums by command.
pub(crate) type ByCommand = Vec<(Counter, Sums)>;

/// What a session did.
#[derive(Default)]
pub(crate) struct History {
    events: u64,
    last: VecDeque<Past>,
    sums: ByCommand,
}

impl History {
    /// Adds a statement to the sums only.
    pub(crate) fn count(&mut self, measured: &Measured) {
        self.events += 1;
        add_to(&mut self.sums, measured.command, |sums| sums.add(measured));
    }

    /// Adds a statement.
    pub(crate) fn add(
        &mut self,
        measured: &Measured,
        text: &str,
        schema: Option<&Arc<str>>,
        message: Option<&str>,
        digest: Option<&Arc<Digest>>,
    ) {
        self.count(measured);
        let oldest = match self.last.len() {
            HISTORY => self.last.pop_front(),
            _ => None,
        };
        let mut past = oldest.unwrap_or_else(|| Past {
            event: 0,
            measured: *measured,
            text: String::new(),
            schema: None,
            message: None,
            digest: None,
        });
        past.event = self.events;
        past.measured = *measured;
        past.text.clear();
        past.text.push_str(beginning(text));
        past.message = message.map(str::to_owned);
        // The counts of these references are shared by all sessions: the same again leaves them alone.
        if !is_same(past.schema.as_ref(), schema) {
            past.schema = schema.cloned();
        }
        if !is_same(past.digest.as_ref(), digest) {
            past.digest = digest.cloned();
        }
        self.last.push_back(past);
    }

    /// The last statements, the oldest first.
    pub(crate) fn last(&self) -> Vec<Past> {
        self.last.iter().cloned().collect()
    }

    /// What the last statements take in memory, about.
    pub(crate) fn bytes(&self) -> usize {
        let texts = self.last.iter().map(|past| past.text.capacity());
        self.last.capacity() * size_of::<Past>() + texts.sum::<usize>()
    }

    /// Sums by command.
    pub(crate) fn sums(&self) -> &[(Counter, Sums)] {
        &self.sums
    }

    /// Forgets the last statements.
    pub(crate) fn forget_last(&mut self) {
        self.last.clear();
    }

    /// Forgets the sums.
    pub(crate) fn forget_sums(&mut self) {
        self.sums.clear();
    }
}

fn is_same<T: ?Sized>(a: Option<&Arc<T>>, b: Option<&Arc<T>>) -> bool {
    match (a, b) {
        (Some(a), Some(b)) => Arc::ptr_eq(a, b),
        (a, b) => a.is_none() && b.is_none(),
    }
}

/// Changes the sums of a command.
fn add_to(all: &mut ByCommand, command: Counter, add: impl FnOnce(&mut Sums)) {
    match all.iter_mut().find(|(c, _)| *c == command) {
        Some((_, sums)) => add(sums),
        None => {
            let mut sums = Sums::default();
            add(&mut sums);
            all.push((command, sums));
        }
    }
}

/// Adds the sums of one session to those of others.
pub(crate) fn merge(all: &mut ByCommand, more: &[(Counter, Sums)]) {
    for (command, sums) in more {
        add_to(all, *command, |all| all.merge(sums));
    }
}

#[cfg(test)]
mod tests {
    use super::super::sums::sample;
    use super::*;

    #[test]
    fn the_last_statements_are_kept_and_all_are_added_up() {
        let mut history = History::default();
        for nth in 0..HISTORY as u64 + 3 {
            history.add(&sample(nth), &format!("SELECT {nth}"), None, None, None);
        }
        let last = history.last();
        assert_eq!(last.len(), HISTORY);
        assert_eq!((last[0].event, &*last[0].text), (4, "SELECT 3"));
        assert_eq!(history.sums()[0].1.count, HISTORY as u64 + 3);
        let mut all = Vec::new();
        merge(&mut all, history.sums());
        merge(&mut all, history.sums());
        assert_eq!(all[0].1.count, 2 * (HISTORY as u64 + 3));
    }
}
