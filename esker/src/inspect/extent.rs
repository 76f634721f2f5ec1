//! `esker inspect extent`: what is in the extents of a database, block by block.
//!
//! Neighbours: `esker_engine::inspect` reads and verifies.

use std::io::{self, BufWriter, Write};
use std::ops::ControlFlow;

use clap::Args;
use esker_engine::EngineError;
use esker_engine::extent::{BlockParts, ExtentMeta, Packed};
use esker_engine::inspect::ExtentView;
use esker_engine::{TreeId, inspect};
use esker_vfs::Env;

use super::{Common, Health, Stop, contents, damage, describe};
use crate::show::{Object, key};

/// Options of `esker inspect extent`.
#[derive(Args)]
pub(crate) struct Options {
    #[command(flatten)]
    common: Common,
    /// Only extents of these trees, separated by commas (information_schema.ESKER_TREES and `inspect manifest` list
    /// them).
    #[arg(long, value_name = "ID", value_delimiter = ',')]
    tree: Vec<u32>,
    /// Only these extents, separated by commas.
    #[arg(long, value_name = "ID", value_delimiter = ',')]
    extent: Vec<u32>,
    /// Show every block.
    #[arg(long)]
    blocks: bool,
}

pub(super) fn show(options: &Options) -> Result<Health, Stop> {
    let mut out = BufWriter::new(io::stdout().lock());
    let (mut shown, mut damaged, mut written) = (0_u64, 0_u64, Ok(()));
    let wanted = |tree: TreeId, meta: &ExtentMeta| {
        let is_one_of = |list: &[u32], id: u32| list.is_empty() || list.contains(&id);
        is_one_of(&options.tree, tree.0) && is_one_of(&options.extent, meta.id.0)
    };
    let read = inspect::extents(&Env::os(), &options.common.dir, &wanted, &mut |extent| {
        shown += 1;
        damaged += u64::from(extent.parts.all_damage().next().is_some());
        written = print(&mut out, options, extent);
        match written {
            Ok(()) => ControlFlow::Continue(()),
            Err(_) => ControlFlow::Break(()),
        }
    });
    written?;
    let json = options.common.json;
    match read {
        Err(error @ EngineError::Corruption { .. }) => {
            damaged += 1;
            writeln!(out, "{}", damage(json, &error))?;
        }
        read => read?,
    }
    let line = Object::new("end")
        .plain("extents", shown)
        .plain("damaged", damaged);
    match json {
        true => writeln!(out, "{}", line.end())?,
        false => writeln!(out, "{shown} extents, {damaged} damaged")?,
    }
    out.flush()?;
    Ok(Health::from(damaged > 0))
}

fn print(out: &mut impl Write, options: &Options, extent: &ExtentView<'_>) -> io::Result<()> {
    let json = options.common.json;
    match json {
        true => writeln!(out, "{}", object(extent))?,
        false => writeln!(out, "{}", text(extent))?,
    }
    for (number, block) in extent.parts.blocks.iter().enumerate() {
        if !options.blocks && block.content.is_ok() {
            continue;
        }
        match json {
            true => writeln!(out, "{}", block_object(extent, number, block))?,
            false => writeln!(out, "  {}", block_text(number, block))?,
        }
    }
    for error in &extent.parts.damage {
        let indent = if json { "" } else { "  " };
        writeln!(out, "{indent}{}", damage(json, error))?;
    }
    Ok(())
}

fn object(extent: &ExtentView<'_>) -> String {
    let line = Object::new("extent")
        .plain("tree", extent.tree.0)
        .plain("level", extent.place.level)
        .plain("run", extent.place.run.0)
        .text("file", extent.file.display())
        .plain("offset", extent.meta.id.offset());
    describe(line, extent.meta)
        .plain("blocks", extent.parts.blocks.len())
        .plain("damaged", extent.parts.all_damage().next().is_some())
        .end()
}

fn text(extent: &ExtentView<'_>) -> String {
    let meta = extent.meta;
    let run = match extent.place.level {
        0 => format!(" run {}", extent.place.run.0),
        _ => String::new(),
    };
    format!(
        "extent {} of tree {}, level {}{run}: {} at offset {}, {} slots, stamp {:016x}\n\
         \x20 {} bytes, {} before compression, {} blocks, filter at {}, index at {}\n\
         \x20 {}",
        meta.id.0,
        extent.tree.0,
        extent.place.level,
        extent.file.display(),
        meta.id.offset(),
        meta.slots,
        meta.stamp,
        meta.stored_bytes,
        meta.data_bytes,
        extent.parts.blocks.len(),
        meta.filter_offset,
        meta.index_offset,
        contents(meta),
    )
}

fn name(packed: Packed) -> &'static str {
    match packed {
        Packed::Raw => "none",
        Packed::Lz4 => "lz4",
        Packed::Zstd => "zstd",
    }
}

fn block_object(extent: &ExtentView<'_>, number: usize, block: &BlockParts) -> String {
    let line = Object::new("block")
        .plain("extent", extent.meta.id.0)
        .plain("block", number)
        .plain("offset", block.offset)
        .plain("stored_bytes", block.stored_bytes);
    match &block.content {
        Ok(content) => line
            .text("compression", name(content.packed))
            .plain("raw_bytes", content.raw_bytes)
            .plain("restarts", content.restarts)
            .plain("versions", content.entries)
            .plain("deletes", content.deletes)
            .plain("smallest_seq", content.smallest_seq)
            .plain("largest_seq", content.largest_seq)
            .hex("first_key", &content.first.key)
            .hex("last_key", &content.last.key),
        Err(error) => line.text("damage", error),
    }
    .end()
}

fn block_text(number: usize, block: &BlockParts) -> String {
    let head = format!(
        "block {number} at {}: {} bytes",
        block.offset, block.stored_bytes
    );
    match &block.content {
        Ok(content) => format!(
            "{head} (compression {}, {} before), {} versions ({} deletes), {} restarts, sequences {} to {}, keys {} to {}",
            name(content.packed),
            content.raw_bytes,
            content.entries,
            content.deletes,
            content.restarts,
            content.smallest_seq,
            content.largest_seq,
            key(&content.first.key),
            key(&content.last.key),
        ),
        Err(error) => format!("{head}: DAMAGED {error}"),
    }
}
