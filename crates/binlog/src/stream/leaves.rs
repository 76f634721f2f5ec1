//! Which transactions may leave the server, as `gtid_mode` says.
//!
//! Neighbours: the parent asks before each transaction is sent; `sql` knows the mode. **Invariants**: what MySQL's dump
//! thread refuses is refused, in its words; replicas of MariaDB, whose GTIDs are made for them, are not asked about.

use super::{From, Refused, Stream};
use crate::event::EventType;

/// Which transactions may leave (`gtid_mode`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Leaves {
    /// All.
    All,
    /// Those with GTIDs: ON.
    Named,
    /// Those without: OFF.
    Anonymous,
}

impl Stream {
    /// May a transaction leave that begins with this event?
    pub(super) fn check_mode(&self, kind: EventType) -> Result<(), Refused> {
        let is_named = match kind {
            EventType::Gtid | EventType::GtidTagged => true,
            EventType::AnonymousGtid => false,
            _ => return Ok(()),
        };
        let by_gtids = matches!(self.request.from, From::Gtids { .. });
        match ((self.log.leaves)(), is_named) {
            (Leaves::Anonymous, true) => {
                Err(self.may_not_leave("GTID-transaction when @@GLOBAL.GTID_MODE = OFF"))
            }
            (Leaves::Named, false) if !by_gtids => {
                Err(self.may_not_leave("anonymous transaction when @@GLOBAL.GTID_MODE = ON"))
            }
            _ => Ok(()),
        }
    }

    pub(super) fn may_not_leave(&self, what: &str) -> Refused {
        let (file, at) = (self.log.names.name(self.number), self.reader.offset());
        Refused(format!(
            "Cannot replicate {what}, at file {file}, position {at}."
        ))
    }
}
