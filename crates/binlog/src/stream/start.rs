//! Where a stream begins.
//!
//! Neighbours: the parent opens the file that is found here. **Invariants**: a consumer gets everything it has not, or
//! an error that says what is missing; texts are MySQL's.

use super::mariadb::MariaDb;
use super::{From, Log, Refused, no_first_file, number_of};
use crate::event::EventType;
use crate::event::group::parse_xid;
use crate::files::{FIRST_EVENT, FileInfo, FileNumber, Scan, View, previous_gtids};
use crate::gtid::GtidSet;

/// The file and position of the first event that may be of use to the consumer.
///
/// # Errors
/// No such place; something that the consumer lacks is purged; it has what the server never had.
pub(super) fn find(log: &Log, view: &View, from: &From) -> Result<(FileNumber, u64), Refused> {
    match from {
        From::Position { file, position } => {
            let first = || first_file(view).map(|(number, _)| number);
            place(log, view, file, *position, first)
        }
        // Nothing says of transactions without GTIDs how many are purged but their numbers.
        From::MariaDb(None) if is_whole(view) => first_file(view),
        From::MariaDb(None) => behind(log, view, 0),
        From::MariaDb(Some(known)) => behind(log, view, *known),
        From::Gtids {
            known,
            file,
            position,
        } => place(log, view, file, *position, || {
            check_known(log, view, known)?;
            last_needed(log, view, known)
        }),
    }
}

/// A place that the consumer names, whatever it has; without a file's name that of `unnamed`.
fn place(
    log: &Log,
    view: &View,
    file: &str,
    position: u64,
    unnamed: impl FnOnce() -> Result<FileNumber, Refused>,
) -> Result<(FileNumber, u64), Refused> {
    let number = match file.is_empty() {
        true => unnamed()?,
        false => number_of(log, view, file).ok_or_else(no_first_file)?,
    };
    if position < FIRST_EVENT {
        let text = "Client requested source to start replication from position < 4";
        return Err(Refused::new(text));
    }
    let end = view.files.iter().find(|f| f.number == number);
    if end.is_none_or(|file| position > file.size) {
        let text = "Client requested source to start replication from position > file size";
        return Err(Refused::new(text));
    }
    Ok((number, position))
}

/// Has the consumer what is purged, and has it nothing of this server's that the server has not?
fn check_known(log: &Log, view: &View, known: &GtidSet) -> Result<(), Refused> {
    let is_ahead = known.sources().any(|(source, numbers)| {
        let own = view.executed.of(source);
        source.sid == log.sid && !own.is_some_and(|own| own.contains_all(numbers))
    });
    if is_ahead {
        return Err(Refused::new(
            "Replica has more GTIDs than the source has, using the source's SERVER_UUID. This may indicate that the \
             the last binary log file was truncated or lost, e.g., after a power failure when sync_binlog != 1. The source \
             may have rolled back transactions that were already replicated to the replica. Replicate any transactions \
             that source has rolled back from replica to source, and/or commit empty transactions on source to account \
             for transactions that have been committed on source but are not included in GTID_EXECUTED.",
        ));
    }
    if known.contains_all(&view.purged) {
        return Ok(());
    }
    let mut missing = (*view.purged).clone();
    missing.subtract(known);
    Err(Refused(format!(
        "Cannot replicate because the source purged required binary logs. Replicate the missing transactions from \
         elsewhere, or provision a new replica from backup. Consider increasing the source's binary log expiration \
         period. The GTID set sent by the replica is '{known}', and the missing transactions are '{missing}'"
    )))
}

/// The last file before which there is nothing that the consumer lacks.
fn last_needed(log: &Log, view: &View, known: &GtidSet) -> Result<FileNumber, Refused> {
    for file in view.files.iter().rev() {
        let path = log.names.path(file.number);
        let previous = previous_gtids(&*log.fs, &path, Some(file.size));
        let previous = previous.map_err(|e| Refused(format!("cannot read a binary log: {e}")))?;
        if known.contains_all(&previous) {
            return Ok(file.number);
        }
    }
    // The first file begins with what is purged, which the consumer has.
    first_file(view).map(|(number, _)| number)
}

/// Is everything in the files that was ever executed, or since they began anew with the first one?
fn is_whole(view: &View) -> bool {
    let is_first = |file: &FileInfo| file.number == FileNumber::FIRST;
    view.purged.is_empty() && view.files.first().is_some_and(is_first)
}

fn first_file(view: &View) -> Result<(FileNumber, u64), Refused> {
    let first = view.files.first().ok_or_else(no_first_file)?;
    Ok((first.number, FIRST_EVENT))
}

/// The file with the transaction behind that of number `known`.
fn behind(log: &Log, view: &View, known: u64) -> Result<(FileNumber, u64), Refused> {
    let gtid = format!("0-{}-{known}", log.server_id);
    if known > view.ordinal {
        return Err(Refused(format!(
            "Error: connecting slave requested to start from GTID {gtid}, which is not in the master's binlog"
        )));
    }
    let mut next = view.ordinal + 1;
    for file in view.files.iter().rev() {
        next = first_ordinal(log, *file, next)?;
        if next <= known + 1 {
            return Ok((file.number, FIRST_EVENT));
        }
    }
    Err(Refused::new(
        "Could not find GTID state requested by slave in any binlog files. Probably the slave state is too old and \
         required binlog files have been purged.",
    ))
}

/// The dialect of a replica that begins at the beginning of this file.
pub(super) fn mariadb(
    log: &Log,
    view: &View,
    number: FileNumber,
    known: Option<u64>,
) -> Result<MariaDb, Refused> {
    let mut next = view.ordinal + 1;
    for file in view.files.iter().rev().take_while(|f| f.number >= number) {
        next = first_ordinal(log, *file, next)?;
    }
    Ok(MariaDb::by_gtid(
        next - 1,
        known.unwrap_or(0),
        log.server_id,
    ))
}

/// The number of the first transaction of a file; `next` is that of the first one behind it.
fn first_ordinal(log: &Log, file: FileInfo, next: u64) -> Result<u64, Refused> {
    let unread = |e: crate::Error| Refused(format!("cannot read a binary log: {e}"));
    let path = log.names.path(file.number);
    let mut scan = Scan::open(&*log.fs, &path, Some(file.size)).map_err(unread)?;
    let mut groups = 0;
    while let Some((_, event)) = scan.next_event().map_err(unread)? {
        let xid = match event.header.event_type() {
            Some(EventType::Gtid | EventType::GtidTagged | EventType::AnonymousGtid) => {
                groups += 1;
                None
            }
            Some(EventType::Xid) => Some(parse_xid(event.body).map_err(unread)?),
            _ => None,
        };
        if let Some(xid) = xid {
            return Ok((xid + 1).saturating_sub(groups));
        }
    }
    Ok(next.saturating_sub(groups))
}
