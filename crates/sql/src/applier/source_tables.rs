//! Temporary tables of the source's sessions, between the transactions that use them.
//!
//! A source that logs statements logs those about temporary tables, too, and each says which session it is of. Here
//! whichever session of a worker is free runs it, so the tables go from one to the next. Neighbours: [`Hand`] takes
//! them for a group and gives them back; `feed` keeps groups that use some apart, and forgets all when the source has
//! started anew; the channel keeps them while its applier is stopped.
//!
//! **Invariant**: a table of a session of the source is in one place at a time: in the session that runs a group of it,
//! or here.
//!
//! [`Hand`]: super::hands::Hand

use std::collections::HashMap;

use esker_binlog::apply::{Group, PartKind};
use esker_binlog::event::query::Query;
use esker_engine::Engine;
use esker_sql_catalog::catalog::{TemporaryTables, drop_temporary_trees};
use parking_lot::Mutex;

/// A session where it was first: number of the server, and of the session there.
pub(super) type SourceSession = (u32, u32);

/// Whose statements a group has; `None`: it has none.
pub(super) fn session_of(group: &Group) -> Option<SourceSession> {
    let part = group.parts.iter().find(|p| p.kind == PartKind::Query)?;
    let query = Query::parse(group.body(part)).ok()?;
    Some((group.server_id, query.thread_id))
}

/// The temporary tables of a channel.
#[derive(Default)]
pub struct SourceTables {
    by_session: Mutex<HashMap<SourceSession, TemporaryTables>>,
}

impl SourceTables {
    /// How many there are.
    pub(crate) fn count(&self) -> usize {
        let by_session = self.by_session.lock();
        by_session.values().map(TemporaryTables::count).sum()
    }

    /// Forgets all of them.
    pub(crate) fn clear(&self, engine: &Engine) {
        let all = std::mem::take(&mut *self.by_session.lock());
        for mut tables in all.into_values() {
            tables.clear();
            drop_temporary_trees(engine, tables.take_doomed());
        }
    }

    /// Does a session have some that no group is using?
    pub(super) fn has(&self, session: SourceSession) -> bool {
        self.by_session.lock().contains_key(&session)
    }

    pub(super) fn take(&self, session: SourceSession) -> Option<TemporaryTables> {
        self.by_session.lock().remove(&session)
    }

    /// Keeps what a session has now; nothing of it is being changed. There are some already where two of its groups ran
    /// side by side, in different databases, and each made its first.
    pub(super) fn keep(
        &self,
        engine: &Engine,
        session: SourceSession,
        mut tables: TemporaryTables,
    ) {
        let mut doomed = tables.take_doomed();
        if !tables.is_empty() {
            let mut by_session = self.by_session.lock();
            let kept = by_session.entry(session).or_default();
            kept.absorb(tables);
            doomed.append(&mut kept.take_doomed());
        }
        drop_temporary_trees(engine, doomed);
    }
}
