//! `esker inspect binlog`: the events of a file of the binary log.
//!
//! Neighbours: `esker_binlog::files::Scan` walks through the file and verifies every length and checksum.

use std::io::{self, BufWriter, Write};
use std::path::PathBuf;

use clap::Args;
use esker_binlog::Error;
use esker_binlog::event::info::info;
use esker_binlog::event::{Event, EventType};
use esker_binlog::files::Scan;
use esker_vfs::Env;

use super::{Health, Stop};
use crate::show::Object;

/// Options of `esker inspect binlog`.
#[derive(Args)]
pub(crate) struct Options {
    /// A file of the binary log, or of another server's.
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// One JSON object a line.
    #[arg(long)]
    json: bool,
}

pub(super) fn show(options: &Options) -> Result<Health, Stop> {
    let env = Env::os();
    let mut out = BufWriter::new(io::stdout().lock());
    let health = match Scan::open(&*env.fs, &options.file, None) {
        Ok(mut scan) => events(&mut scan, options.json, &mut out),
        Err(e) => Err(e.into()),
    };
    let health = match health {
        Err(Seen::Damage(e)) => {
            writeln!(out, "{}", damage(options.json, &e))?;
            Ok(Health::Damaged)
        }
        Err(Seen::Stop(stop)) => Err(stop),
        Ok(()) => Ok(Health::Whole),
    };
    out.flush()?;
    health
}

/// Why no more events are shown.
enum Seen {
    Damage(Error),
    Stop(Stop),
}

impl From<Error> for Seen {
    fn from(e: Error) -> Self {
        match e {
            Error::Io(e) => Self::Stop(Stop::Unreadable(e.to_string())),
            damage => Self::Damage(damage),
        }
    }
}

impl From<io::Error> for Seen {
    fn from(e: io::Error) -> Self {
        Self::Stop(e.into())
    }
}

fn events(scan: &mut Scan, json: bool, out: &mut impl Write) -> Result<(), Seen> {
    let mut count = 0u64;
    while let Some((offset, event)) = scan.next_event()? {
        writeln!(out, "{}", line(json, offset, &event)?)?;
        count += 1;
    }
    let (end, checksum) = (scan.offset(), scan.checksum());
    let end = match json {
        true => Object::new("end")
            .plain("events", count)
            .plain("bytes", end)
            .text("checksum", format_args!("{checksum:?}"))
            .end(),
        false => format!("{count} events, {end} bytes, checksums {checksum:?}"),
    };
    Ok(writeln!(out, "{end}")?)
}

fn line(json: bool, offset: u64, event: &Event<'_>) -> Result<String, Error> {
    let header = &event.header;
    let kind = header.event_type().map_or("Unknown", EventType::name);
    let stamp = header.stamp;
    Ok(match json {
        true => Object::new("event")
            .plain("offset", offset)
            .text("kind", kind)
            .plain("bytes", header.length)
            .plain("server_id", stamp.server_id)
            .plain("timestamp", stamp.timestamp)
            .plain("flags", stamp.flags)
            .text("info", info(event)?)
            .end(),
        false => format!(
            "{offset:>10} {kind:<20} {:>8} bytes, server {}, time {}: {}",
            header.length,
            stamp.server_id,
            stamp.timestamp,
            info(event)?
        ),
    })
}

fn damage(json: bool, error: &Error) -> String {
    if !json {
        return format!("DAMAGED {error}");
    }
    let line = Object::new("damage");
    match error {
        Error::DamagedFile { file, offset, what } => line
            .text("file", file)
            .plain("offset", offset)
            .text("what", what),
        other => line.text("what", other),
    }
    .end()
}
