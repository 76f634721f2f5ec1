//! What every file begins with: magic, format description, GTIDs of the files before.
//!
//! Neighbours: `set` begins and ends files. **Invariants**: a file is synced, and its name, before anybody is told of
//! it.

use std::sync::Arc;

use esker_vfs::{File, Fs, OpenMode};

use super::names::FileNumber;
use super::scan::{FIRST_EVENT, MAGIC};
use super::set::Config;
use crate::Result;
use crate::event::format::FormatDescription;
use crate::event::{self, EventType, FLAG_IGNORABLE, FLAG_IN_USE, HEADER_BYTES, Stamp};
use crate::gtid::GtidSet;

/// Where the flags of the first event stand in a file.
pub(super) const FIRST_FLAGS_AT: u64 = FIRST_EVENT + HEADER_BYTES as u64 - 2;

/// What events of the files themselves are stamped with.
pub(super) fn stamp(config: &Config, timestamp: u32, flags: u16) -> Stamp {
    Stamp {
        timestamp,
        server_id: config.writer.server_id,
        flags,
    }
}

/// Begins a file: magic, format description, earlier GTIDs; synced on return. With the time, and that of the server's
/// start.
pub(super) fn begin_file(
    fs: &dyn Fs,
    config: &Config,
    number: FileNumber,
    executed: &GtidSet,
    (now, started): (u32, u32),
) -> Result<(Arc<dyn File>, u64)> {
    let mut head = MAGIC.to_vec();
    let format = FormatDescription {
        server_version: config.version.clone(),
        created: started,
        checksum: config.checksum,
    };
    format.write(stamp(config, now, FLAG_IN_USE), FIRST_EVENT, &mut head);
    let mut body = Vec::new();
    executed.encode(&mut body);
    let position = head.len() as u64;
    let stamp = stamp(config, now, FLAG_IGNORABLE);
    let kind = EventType::PreviousGtids;
    event::frame(kind, stamp, position, &body, config.checksum, &mut head);
    let file = fs.open(&config.names.path(number), OpenMode::CreateOrOpen)?;
    file.set_len(0)?;
    file.write_all_at(&head, 0)?;
    crate::synced(file.sync_all())?;
    crate::synced(fs.sync_dir(config.names.dir()))?;
    Ok((file, head.len() as u64))
}
