//! `esker inspect wal`: the segments, blocks and records of the log.
//!
//! Neighbours: `esker_wal::LogView` walks through the log.

use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use clap::Args;
use esker_vfs::{Env, Fs};
use esker_wal::{
    BlockView, DamageView, LogView, Lsn, PartView, RecordKind, SegmentView, Visitor, WalError,
};

use super::{Health, Stop};
use crate::show::{hex, json_text};

/// Options of `esker inspect wal`.
#[derive(Args)]
pub(crate) struct Options {
    /// The data directory, or the directory of the log itself.
    #[arg(value_name = "DIR")]
    dir: PathBuf,
    /// Show every block with its summary.
    #[arg(long)]
    blocks: bool,
    /// Show every record; reads and verifies all payloads.
    #[arg(long)]
    records: bool,
    /// One JSON object a line.
    #[arg(long)]
    json: bool,
}

pub(super) fn show(options: &Options) -> Result<Health, Stop> {
    let env = Env::os();
    let mut printer = Printer {
        out: BufWriter::new(io::stdout().lock()),
        blocks: options.blocks || options.records,
        records: options.records,
        json: options.json,
        sums: Sums::default(),
        is_damaged: false,
    };
    let view = LogView::open(env.fs.clone(), &log_dir(&*env.fs, &options.dir))?;
    view.walk(Lsn(0), &mut printer)?;
    printer.out.flush()?;
    Ok(Health::from(printer.is_damaged))
}

fn log_dir(fs: &dyn Fs, dir: &Path) -> PathBuf {
    let inside = dir.join("wal");
    match fs.exists(&inside) {
        Ok(true) => inside,
        _ => dir.to_owned(),
    }
}

impl From<WalError> for Stop {
    fn from(error: WalError) -> Self {
        Stop::Unreadable(error.to_string())
    }
}

/// What a segment had.
#[derive(Default)]
struct Sums {
    blocks: u64,
    records: u64,
    bytes: u64,
    end: u64,
    is_open: bool,
}

struct Printer<W> {
    out: W,
    blocks: bool,
    records: bool,
    json: bool,
    sums: Sums,
    is_damaged: bool,
}

impl<W: Write> Printer<W> {
    /// Prints the sums of the segment before.
    fn finish_segment(&mut self) -> io::Result<()> {
        let sums = std::mem::take(&mut self.sums);
        if !sums.is_open {
            return Ok(());
        }
        let Sums {
            blocks,
            records,
            bytes,
            end,
            ..
        } = sums;
        match self.json {
            true => writeln!(
                self.out,
                "{{\"type\":\"segment_end\",\"blocks\":{blocks},\"records\":{records},\"bytes\":{bytes},\"end\":{end}}}"
            ),
            false => writeln!(
                self.out,
                "  {blocks} blocks, {records} records, {bytes} bytes, to LSN {end}"
            ),
        }
    }
}

impl<W: Write> Visitor for Printer<W> {
    type Error = Stop;

    fn wants_payloads(&self) -> bool {
        self.records
    }

    fn segment(&mut self, segment: &SegmentView<'_>) -> Result<(), Stop> {
        self.finish_segment()?;
        self.sums.end = segment.start.0;
        self.sums.is_open = !segment.dead;
        let cluster = hex(&segment.cluster);
        let path = segment.path.display().to_string();
        let gap = segment.gap.map(|lsn| lsn.0);
        if self.json {
            writeln!(
                self.out,
                "{{\"type\":\"segment\",\"file\":{},\"start\":{},\"cluster\":\"{cluster}\",\"id\":\"{:016x}\",\
                 \"file_bytes\":{},\"after_open\":{},\"gap_from\":{},\"dead\":{}}}",
                json_text(&path),
                segment.start,
                segment.id,
                segment.file_bytes,
                segment.after_open,
                gap.map_or("null".to_owned(), |lsn| lsn.to_string()),
                segment.dead,
            )?;
            return Ok(());
        }
        write!(
            self.out,
            "segment {path}: from LSN {}, {} bytes, id {:016x}, cluster {cluster}",
            segment.start, segment.file_bytes, segment.id
        )?;
        if segment.after_open {
            write!(self.out, ", begun by a start")?;
        }
        if let Some(gap) = gap {
            write!(self.out, ", the log from LSN {gap} to here was given up")?;
        }
        if segment.dead {
            write!(self.out, ", given up")?;
        }
        writeln!(self.out)?;
        Ok(())
    }

    fn block(&mut self, block: &BlockView<'_>) -> Result<(), Stop> {
        let summary = &block.summary;
        self.sums.blocks += 1;
        self.sums.records += u64::from(summary.records);
        self.sums.bytes += summary.end.0 - summary.first.0;
        self.sums.end = summary.end.0;
        if !self.blocks {
            return Ok(());
        }
        let trees = summary.trees.map(list);
        if self.json {
            writeln!(
                self.out,
                "{{\"type\":\"block\",\"offset\":{},\"first\":{},\"end\":{},\"records\":{},\"smallest_seq\":{},\
                 \"largest_seq\":{},\"trees\":{},\"two_phase\":{},\"counters\":{},\"attachments\":{},\"chunks\":{},\"durable\":{}}}",
                block.offset,
                summary.first,
                summary.end,
                summary.records,
                summary.seqs.0,
                summary.seqs.1,
                trees.map_or("null".to_owned(), |ids| format!(
                    "[{}]",
                    ids.replace(' ', ",")
                )),
                summary.two_phase,
                summary.counters,
                summary.attachments,
                block.chunks,
                block.durable,
            )?;
            return Ok(());
        }
        if summary.first == summary.end {
            writeln!(self.out, "  offset {}: a clean end", block.offset)?;
            return Ok(());
        }
        let flag = |set: bool, name: &'static str| if set { name } else { "" };
        writeln!(
            self.out,
            "  offset {}: LSN {} to {}, {} records, sequences {} to {}, trees {}{}{}{}{}, durable to {}",
            block.offset,
            summary.first,
            summary.end,
            summary.records,
            summary.seqs.0,
            summary.seqs.1,
            trees.as_deref().unwrap_or("(many)"),
            flag(summary.two_phase, ", two-phase"),
            flag(summary.counters, ", counters"),
            flag(summary.attachments, ", attachments"),
            flag(block.chunks, ", parts of large records"),
            block.durable,
        )?;
        Ok(())
    }

    fn part(&mut self, part: &PartView<'_>) -> Result<(), Stop> {
        let kind = match part.kind {
            Some(RecordKind::Commit) => "commit",
            Some(RecordKind::Prepare) => "prepare",
            Some(RecordKind::CommitPrepared) => "commit prepared",
            Some(RecordKind::RollbackPrepared) => "rollback prepared",
            Some(RecordKind::CounterSet) => "counter",
            Some(RecordKind::Noop) => "nothing",
            Some(RecordKind::Note) => "note",
            None => "chunk",
        };
        let (start, end, bytes) = (part.start, part.end, part.payload.len());
        let trees = list(&part.trees);
        let attachment = match part.has_attachment {
            true => " with an attachment",
            false => "",
        };
        match (self.json, part.chain) {
            (true, chain) => writeln!(
                self.out,
                "{{\"type\":\"record\",\"start\":{start},\"end\":{end},\"kind\":\"{kind}\",\"trees\":[{}],\"bytes\":{bytes},\
                 \"attachment\":{},\"chain\":{}}}",
                trees.replace(' ', ","),
                part.has_attachment,
                chain.map_or("null".to_owned(), |lsn| lsn.to_string()),
            )?,
            (false, Some(chain)) => writeln!(
                self.out,
                "    {start} to {end}: {kind}, {bytes} bytes{attachment}, trees {trees}, a part of the record that starts at {chain}"
            )?,
            (false, None) => writeln!(
                self.out,
                "    {start} to {end}: {kind}, {bytes} bytes{attachment}, trees {trees}"
            )?,
        }
        Ok(())
    }

    fn damage(&mut self, damage: &DamageView<'_>) -> Result<(), Stop> {
        self.is_damaged = true;
        let path = damage.path.display().to_string();
        let (offset, first) = (damage.offset, damage.first);
        let resumes = damage.resumes.map(|lsn| lsn.0);
        match self.json {
            true => writeln!(
                self.out,
                "{{\"type\":\"damage\",\"file\":{},\"offset\":{offset},\"first\":{first},\"resumes\":{},\"what\":{}}}",
                json_text(&path),
                resumes.map_or("null".to_owned(), |lsn| lsn.to_string()),
                json_text(&damage.what)
            )?,
            false => writeln!(
                self.out,
                "DAMAGED {path} at offset {offset}: {} (LSN {first} to {})",
                damage.what,
                resumes.map_or("the end".to_owned(), |lsn| lsn.to_string()),
            )?,
        }
        Ok(())
    }

    fn end(&mut self, end: Lsn, torn: bool) -> Result<(), Stop> {
        self.finish_segment()?;
        match (self.json, torn) {
            (true, _) => writeln!(
                self.out,
                "{{\"type\":\"end\",\"end\":{end},\"torn\":{torn}}}"
            )?,
            (false, true) => writeln!(
                self.out,
                "the log ends at LSN {end}; behind it is the rest of unfinished writes"
            )?,
            (false, false) => writeln!(self.out, "the log ends at LSN {end}")?,
        }
        Ok(())
    }
}

fn list(ids: &[u32]) -> String {
    let ids: Vec<String> = ids.iter().map(u32::to_string).collect();
    ids.join(" ")
}
