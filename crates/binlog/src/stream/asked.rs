//! Which events a consumer is asked to acknowledge, and what it has.
//!
//! Neighbours: the parent sends; `sql` counts what replicas acknowledge.
//! **Invariants**: nobody has acknowledged what was not sent; a consumer is asked for the last event of the files
//! alone, which stands for all before it.

use super::{PacketSink, Stream};
use crate::event::EventType;
use crate::files::FileInfo;

impl Stream {
    /// Some of an event was sent that ends at `end`.
    pub(super) fn has_put(&mut self, end: u64, sink: &mut dyn PacketSink) {
        if self.asks && self.unsent == 0 {
            self.asks = false;
            if self.request.acknowledges {
                self.asked = FileInfo {
                    number: self.number,
                    size: end,
                };
                self.times_asked += 1;
                sink.asked();
            }
        }
    }

    /// What a consumer acknowledges that says it has everything before this position.
    pub fn acknowledged(&self, file: &str, position: u64) -> Option<FileInfo> {
        let number = self.log.names.number(file)?;
        let said = FileInfo {
            number,
            size: position,
        };
        Some(said.min(self.asked))
    }

    /// How often the files had begun anew when the stream began: its places are in those.
    pub fn resets(&self) -> u64 {
        self.resets
    }

    /// How often the consumer was asked since the last call.
    pub fn take_asked(&mut self) -> u64 {
        std::mem::take(&mut self.times_asked)
    }

    /// What the consumer has without being asked: a replica that comes back with everything is asked for nothing.
    pub fn had(&self) -> FileInfo {
        self.has
    }

    pub(super) fn skip_to(&mut self, end: u64) {
        self.skipped_to = Some(end);
        if !self.has_sent {
            self.has = FileInfo {
                number: self.number,
                size: end,
            };
        }
    }
}

/// Acknowledged as the last event that there is, it stands for everything before it. The transaction that fills a file
/// comes with the ROTATE behind it.
pub(super) fn is_asked_for(kind: EventType) -> bool {
    may_end_transaction(kind) || kind == EventType::Rotate
}

fn may_end_transaction(kind: EventType) -> bool {
    matches!(
        kind,
        EventType::Xid | EventType::Query | EventType::XaPrepare | EventType::TransactionPayload
    )
}

pub(super) fn is_of_transaction(kind: EventType) -> bool {
    let begins = matches!(
        kind,
        EventType::Gtid | EventType::GtidTagged | EventType::AnonymousGtid
    );
    begins || may_end_transaction(kind)
}
