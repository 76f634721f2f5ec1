//! Repair of the last file from the log: what is damaged of it is cut off behind the last whole transaction before, and
//! derived again.
//!
//! Neighbours: `start` and `set` find the damage when they open the files; whoever follows the log says what it still
//! has of the transactions that are lost ([`Damage::note`]); `group` knows where transactions are whole. **Invariants**
//! - Nothing is changed before it is sure that the log has every transaction between the damage and the noted position.
//! - What is derived again ends where it ended before: the file does not rotate on the way, and its settings are those
//!   that it was begun with, for whoever changes them begins a file.

use std::collections::VecDeque;

use esker_vfs::Fs;

use super::group::last_whole;
use super::names::Names;
use super::position::{Position, Positions, State};
use super::scan::Scan;
use crate::Result;
use crate::attachment::Attachment;
use crate::derive::Numbers;
use crate::event::EventType;

/// The last file is damaged before the position that was noted.
pub struct Damage {
    noted: Position,
    /// The end of the last whole transaction before the damage.
    whole: Position,
    /// Where the records of the last transactions begin in the log, as many as are lost, and whether their events were
    /// in a spool file, which is gone.
    kept: VecDeque<(u64, bool)>,
}

impl Damage {
    /// Looks for it; `None`: there is none, or not in a file that is derived from the log and was being written.
    ///
    /// # Errors
    /// The head of the file is damaged; of the disk.
    pub fn find(fs: &dyn Fs, names: &Names) -> Result<Option<Self>> {
        let (_, position) = Positions::open(fs, names)?;
        let Some(noted) = position.filter(|position| position.state == State::Open) else {
            return Ok(None);
        };
        let path = names.path(noted.file);
        if !fs.exists(&path)? {
            return Ok(None);
        }
        let numbers = noted.numbers;
        let begin = Position {
            offset: end_of_head(Scan::open(fs, &path, None)?)?,
            numbers: Numbers {
                sequence: 0,
                // Sequences count the transactions of a file.
                ordinal: numbers.ordinal.saturating_sub(numbers.sequence as u64),
            },
            ..noted
        };
        let mut whole = last_whole(fs, names, &begin)?;
        whole.max_size = noted.max_size.max(noted.offset + 1);
        let is_before = whole.offset < noted.offset && whole.numbers.sequence < numbers.sequence;
        Ok(is_before.then_some(Self {
            noted,
            whole,
            kept: VecDeque::new(),
        }))
    }

    /// Transactions that are lost.
    pub fn transactions(&self) -> u64 {
        self.noted.numbers.ordinal - self.whole.numbers.ordinal
    }

    /// Where the file is cut off.
    pub fn offset(&self) -> u64 {
        self.whole.offset
    }

    /// The records of all of them end here at the latest.
    pub fn end(&self) -> u64 {
        self.noted.lsn
    }

    /// The log has a record with an attachment: from `start` on, and up to [`Self::end`] at most. In the order of the
    /// log.
    ///
    /// # Errors
    /// A damaged attachment.
    pub fn note(&mut self, start: u64, attachment: &[u8]) -> Result<()> {
        debug_assert!(self.kept.back().is_none_or(|(last, _)| *last < start));
        let is_spooled = Attachment::parse(attachment)?.head.spooled.is_some();
        if self.kept.len() as u64 == self.transactions() {
            self.kept.pop_front();
        }
        self.kept.push_back((start, is_spooled));
        Ok(())
    }

    /// Has the log everything that is lost?
    pub fn can_be_repaired(&self) -> bool {
        let is_complete = self.kept.len() as u64 == self.transactions();
        is_complete && !self.kept.iter().any(|(_, is_spooled)| *is_spooled)
    }

    /// Notes that the files are derived up to the last whole transaction alone: opening them cuts off the rest, and the
    /// log is to be kept from there. Durable on return.
    ///
    /// # Errors
    /// Of the disk.
    pub fn repair(self, fs: &dyn Fs, names: &Names) -> Result<()> {
        assert!(self.can_be_repaired(), "nothing is given up");
        let (lsn, _) = self.kept[0];
        let (mut positions, _) = Positions::open(fs, names)?;
        positions.write(&Position { lsn, ..self.whole })
    }
}

/// Where the first transaction of a file begins.
fn end_of_head(mut scan: Scan) -> Result<u64> {
    while let Some((_, event)) = scan.next_event()? {
        if event.header.event_type() == Some(EventType::PreviousGtids) {
            return Ok(scan.offset());
        }
    }
    Err(scan.damaged("it has no list of earlier GTIDs"))
}
