//! Transactions in spool files: the one that is being copied into the binary log, and which spool files may go.
//!
//! Neighbours: `set` copies piece by piece; `spool` has the files. **Invariants**
//! - A copy that was interrupted, for the disk was full, goes on where it was.
//! - A spool file goes when its events are synced. What a start has found goes when all of the log that was there is
//!   derived: what is left then belongs to transactions that have not committed.

use std::path::Path;
use std::sync::Arc;

use esker_vfs::Fs;

use crate::Result;
use crate::attachment::{Attachment, What};
use crate::derive::{Deriver, Ending, Target, no_create};
use crate::gtid::Gtid;
use crate::spool::{SpoolId, SpoolReader, Spooled, Spools};

/// Folder of the spool files, in that of the binary log.
const FOLDER: &str = "spool";

/// All of them.
pub(super) struct Copies {
    pub(super) spools: Arc<Spools>,
    pub(super) current: Option<Copying>,
    /// There at the start.
    left: Vec<SpoolId>,
    /// Copied, and not synced.
    pub(super) spent: Vec<SpoolId>,
}

/// A transaction whose beginning is in the binary log.
pub(super) struct Copying {
    reader: SpoolReader,
    ending: Ending,
    /// Where its log record ends.
    pub(super) lsn: u64,
    /// When it was committed, seconds since the epoch.
    pub(super) time: u32,
    pub(super) gtid: Option<Gtid>,
}

impl Copies {
    /// Opens the folder of spool files in that of the binary log.
    pub(super) fn open(fs: &Arc<dyn Fs>, dir: &Path) -> Result<Self> {
        let (spools, left) = Spools::open(Arc::clone(fs), dir.join(FOLDER))?;
        crate::synced(fs.sync_dir(dir))?;
        Ok(Self {
            spools,
            current: None,
            left,
            spent: Vec::new(),
        })
    }

    /// The same files, for a set that begins again.
    pub(super) fn begin_again(&mut self) -> Self {
        debug_assert!(self.current.is_none(), "a reset follows what is committed");
        Self {
            spools: Arc::clone(&self.spools),
            current: None,
            left: std::mem::take(&mut self.left),
            spent: std::mem::take(&mut self.spent),
        }
    }

    /// Everything in the log that was there at the start is derived.
    pub(super) fn caught_up(&mut self) {
        self.spent.append(&mut self.left);
    }

    /// These events are in the files.
    pub(super) fn done(&mut self, copying: &Copying) {
        self.spent.push(copying.reader.id());
    }

    /// Everything that is copied is synced.
    pub(super) fn remove_spent(&mut self) -> Result<()> {
        while let Some(id) = self.spent.last() {
            self.spools.remove(*id)?;
            self.spent.pop();
        }
        Ok(())
    }
}

impl Copying {
    /// Begins to copy a transaction: appends what stands before its events.
    pub(super) fn begin(
        copies: &Copies,
        deriver: &mut Deriver,
        attachment: &Attachment<'_>,
        (spooled, lsn): (Spooled, u64),
        target: &mut Target<'_>,
    ) -> Result<Self> {
        let mut reader = copies.spools.read(spooled)?;
        let create = match attachment.head.what {
            What::CreateAndFill => {
                let first = reader.next_part()?;
                Some(first.ok_or_else(no_create)?)
            }
            _ => None,
        };
        let (gtid, ending) =
            deriver.spooled_transaction(attachment, create.as_ref(), spooled, target)?;
        Ok(Self {
            reader,
            ending,
            lsn,
            time: attachment.head.commit_seconds(),
            gtid,
        })
    }

    /// Appends the next event; false behind the last one, where the end of the transaction is appended.
    pub(super) fn step(&mut self, target: &mut Target<'_>) -> Result<bool> {
        if let Some(part) = self.reader.next_part()? {
            self.ending.frame(&part, target);
            return Ok(true);
        }
        self.reader.check()?;
        self.ending.write(target);
        Ok(false)
    }
}
