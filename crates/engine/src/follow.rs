//! Following the log: the attachments of transactions, in the order of their commits, as soon as they are durable.
//!
//! Neighbours: `esker_wal::Tail` reads the log; `commit::record` knows what is in a record; whoever follows gives the
//! attachments a meaning.
//!
//! **Invariants**
//! - What is handed over is durable: no crash takes it back. It need not be visible yet.
//! - Records come once each, in the order of their sequences; those without an attachment do not come.
//! - The log stays from where its follower has released it, whatever the engine itself needs.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use esker_wal::{DurableFuture, Lsn, Progress, Record, RecordKind, Tail, Wal, Wanted};

use crate::commit::id::PreparedId;
use crate::commit::record::Reader;
use crate::{EngineError, Op, Result, Seq, TreeId};

/// What a record with an attachment is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FollowedKind {
    /// A transaction has committed.
    Commit,
    /// A transaction is prepared.
    Prepare(PreparedId),
    /// A decision about what was prepared with this sequence.
    Decision {
        /// Its identifier.
        id: PreparedId,
        /// Sequence of its prepare record.
        prepare: Seq,
        /// Whether it commits.
        commits: bool,
    },
    /// Nothing but the attachment.
    Note,
}

/// A record with an attachment.
pub struct Followed<'a> {
    /// Where its record starts.
    pub start: u64,
    /// Its sequence.
    pub seq: Seq,
    /// What it is about.
    pub kind: FollowedKind,
    /// Opaque here.
    pub attachment: &'a [u8],
    /// Stands before the counters of a body; `None` if the record has none.
    body: Option<Reader<'a>>,
}

impl<'a> Followed<'a> {
    fn of(record: &Record<'a>) -> Result<Self> {
        let malformed = |what| {
            EngineError::corruption("the log", record.start.0, format!("the record: {what}"))
        };
        let read = match record.kind {
            RecordKind::Prepare => Reader::of_prepare,
            _ => Reader::new,
        };
        let mut body = read(record.payload).map_err(malformed)?;
        let attachment = body.attachment();
        let (kind, has_body) = Self::head(record.kind, &mut body).map_err(malformed)?;
        Ok(Followed {
            start: record.start.0,
            seq: record.end.0,
            kind,
            attachment,
            body: has_body.then_some(body),
        })
    }

    /// Reads up to the body. Whether there is one.
    fn head(
        kind: RecordKind,
        reader: &mut Reader<'_>,
    ) -> std::result::Result<(FollowedKind, bool), &'static str> {
        Ok(match kind {
            RecordKind::Commit => (FollowedKind::Commit, true),
            RecordKind::Prepare => {
                let id = reader.id()?;
                reader.locks(|_, _| ())?;
                (FollowedKind::Prepare(id), true)
            }
            RecordKind::CommitPrepared | RecordKind::RollbackPrepared => {
                let decision = FollowedKind::Decision {
                    id: reader.id()?,
                    prepare: reader.seq()?,
                    commits: kind == RecordKind::CommitPrepared,
                };
                (decision, false)
            }
            RecordKind::Note => (FollowedKind::Note, false),
            RecordKind::CounterSet | RecordKind::Noop => {
                return Err("a record of this kind has no attachment");
            }
        })
    }

    /// Calls `each` for what the record writes, trees and keys ascending. False if a part of it is not in the record,
    /// because it was too large: then nobody knows which keys that part has.
    ///
    /// # Errors
    /// The record is malformed.
    pub fn for_each_write(&self, mut each: impl FnMut(TreeId, Op, &[u8])) -> Result<bool> {
        let Some(body) = &self.body else {
            return Ok(true);
        };
        let mut reader = body.clone();
        let mut read = || {
            reader.counters(|_, _| ())?;
            for _ in 0..reader.trees()? {
                let (tree, writes) = reader.tree_writes()?;
                for _ in 0..writes {
                    let write = reader.write()?;
                    each(tree, write.op, write.key);
                }
            }
            match self.kind {
                FollowedKind::Commit | FollowedKind::Prepare(_) => reader.ingest(),
                _ => reader.finish().map(|()| None),
            }
        };
        match read() {
            Ok(ingest) => Ok(ingest.is_none()),
            Err(what) => {
                let what = format!("the record: {what}");
                Err(EngineError::corruption("the log", self.start, what))
            }
        }
    }
}

/// Follows the log of an engine; made by [`Engine::follow`](crate::Engine::follow). What it has not released stays,
/// also when it is dropped: [`Engine::unfollow`](crate::Engine::unfollow) ends that.
pub struct Follower {
    name: &'static str,
    wal: Wal,
    tail: Tail,
}

impl Follower {
    pub(crate) fn new(wal: &Wal, name: &'static str, from: Seq) -> Result<Self> {
        let from = Lsn(from).max(wal.space().first);
        wal.pin(name, from)?;
        Ok(Follower {
            name,
            tail: wal.tail(from, Wanted::Attachments)?,
            wal: wal.clone(),
        })
    }

    /// Everything with a sequence up to here was handed over.
    pub fn at(&self) -> Seq {
        self.tail.at().0
    }

    /// Hands over what the next block of the log has; false if there is nothing more that is durable.
    ///
    /// # Errors
    /// The log is damaged, cannot be read, or `each` has failed. The follower must not be used any more.
    pub fn next(&mut self, each: &mut dyn FnMut(&Followed<'_>) -> Result<()>) -> Result<bool> {
        let mut sink = |record: Record<'_>| each(&Followed::of(&record)?);
        Ok(self.tail.next(&mut sink)? == Progress::More)
    }

    /// What ends at or below `seq` is not needed any more, also after a restart.
    ///
    /// # Errors
    /// The log cannot be recycled.
    pub fn release(&self, seq: Seq) -> Result<()> {
        assert!(seq <= self.at(), "what was not read is needed");
        Ok(self.wal.pin(self.name, Lsn(seq))?)
    }

    /// Resolves when there may be more. It asks for no flush.
    pub fn wait(&self) -> MoreLog {
        MoreLog(self.tail.wait())
    }
}

/// Made by [`Follower::wait`].
#[must_use = "a future does nothing unless awaited"]
pub struct MoreLog(DurableFuture);

impl MoreLog {
    /// Waits on this thread, for at most so long. False if that was not enough.
    ///
    /// # Errors
    /// The log has ended.
    pub fn block_for(self, at_most: Duration) -> Result<bool> {
        Ok(self.0.block_for(at_most)?)
    }
}

impl Future for MoreLog {
    type Output = Result<()>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        Pin::new(&mut self.0)
            .poll(context)
            .map_err(EngineError::from)
    }
}
