//! Threads without a session in the process list: receivers and appliers of a replica.
//!
//! Neighbours: `replica::Reception` and `applier` have one for each of their threads; `registry` lists and kills it.
//! **Invariant**: the thread looks whether it is killed; nothing else ends it.

use std::sync::Arc;

use super::registry::{Connection, Process};
use crate::instance::Instance;

/// Whose threads these are.
pub(crate) const SYSTEM_USER: &str = "system user";

/// The entry of a thread, while this lives.
pub(crate) struct ListedThread {
    process: Arc<Process>,
    instance: Arc<Instance>,
}

impl ListedThread {
    /// Lists a thread as `id`; KILL CONNECTION of it calls `on_kill`.
    pub(crate) fn new(
        instance: &Arc<Instance>,
        id: u64,
        thread: &'static str,
        (peer, command): (&str, &'static str),
        on_kill: Box<dyn Fn() + Send + Sync>,
    ) -> Self {
        let connection = Connection {
            inside: true,
            thread,
            ..Connection::default()
        };
        let now = instance.now_micros();
        let registry = &instance.registry;
        let process = registry.add(id, SYSTEM_USER, peer.to_owned(), connection, now, on_kill);
        process.update(now, |detail| detail.command = command);
        Self {
            process,
            instance: instance.clone(),
        }
    }

    /// What it does.
    pub(crate) fn show_state(&self, state: &'static str) {
        self.process.show_state(state);
    }

    /// Is it killed, or does the server go down?
    pub(crate) fn is_killed(&self) -> bool {
        self.process.is_killed()
    }

    /// Is it killed, and the server goes on?
    pub(crate) fn is_killed_alone(&self) -> bool {
        self.process.is_killed_alone()
    }

    /// The thread ends.
    pub(crate) fn leave(&self) {
        self.instance.registry.remove(self.process.id);
    }
}

impl Drop for ListedThread {
    fn drop(&mut self) {
        self.leave();
    }
}
