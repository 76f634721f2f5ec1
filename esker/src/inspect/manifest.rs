//! `esker inspect manifest`: the trees of a database and their levels.
//!
//! Neighbours: `esker_engine::inspect` reads.

use std::io::{self, BufWriter, Write};

use clap::Args;
use esker_engine::EngineError;
use esker_engine::extent::ExtentMeta;
use esker_engine::inspect::{ManifestView, TreeView};
use esker_engine::tree::Run;
use esker_vfs::Env;

use super::{Common, Health, Stop, contents, damage, describe};
use crate::show::{Object, hex, key};

/// Options of `esker inspect manifest`.
#[derive(Args)]
pub(crate) struct Options {
    #[command(flatten)]
    common: Common,
    /// Show every extent.
    #[arg(long)]
    extents: bool,
}

pub(super) fn show(options: &Options) -> Result<Health, Stop> {
    let json = options.common.json;
    let mut out = BufWriter::new(io::stdout().lock());
    let view = match esker_engine::inspect::manifest(&Env::os(), &options.common.dir) {
        Ok(view) => view,
        Err(error @ EngineError::Corruption { .. }) => {
            writeln!(out, "{}", damage(json, &error))?;
            out.flush()?;
            return Ok(Health::Damaged);
        }
        Err(error) => return Err(error.into()),
    };
    writeln!(out, "{}", header(json, &view))?;
    for tree in &view.trees {
        writeln!(out, "{}", tree_line(json, tree))?;
        let l0_runs = tree.levels.l0_runs().iter().map(|run| (0, run));
        let lower = [1, 2].map(|level| (level, tree.levels.level(level)));
        for (level, run) in l0_runs.chain(lower).filter(|(_, run)| !run.is_empty()) {
            writeln!(out, "{}", run_line(json, tree, level, run))?;
            if options.extents {
                for meta in run.extents().iter() {
                    writeln!(out, "{}", extent_line(json, tree, level, run, meta))?;
                }
            }
        }
    }
    out.flush()?;
    Ok(Health::Whole)
}

fn header(json: bool, view: &ManifestView) -> String {
    if json {
        return Object::new("manifest")
            .text("file", view.file.display())
            .plain("format", view.format)
            .plain("extent_format", view.extent_format)
            .hex("database", &view.uuid)
            .plain("last_record", view.last_record)
            .plain("next_tree", view.next_tree.0)
            .plain("log_from", view.log_from)
            .plain("counters_as_of", view.counters_as_of)
            .plain("trees", view.trees.len())
            .end();
    }
    format!(
        "manifest {}: format {}, extents of format {}, database {}, to record {}\n\
         {} trees, the next gets id {}; the log is needed from LSN {}, counters are those of sequence {}",
        view.file.display(),
        view.format,
        view.extent_format,
        hex(&view.uuid),
        view.last_record,
        view.trees.len(),
        view.next_tree.0,
        view.log_from,
        view.counters_as_of,
    )
}

fn tree_line(json: bool, tree: &TreeView) -> String {
    if json {
        return Object::new("tree")
            .plain("tree", tree.id.0)
            .plain("flushed_seq", tree.flushed_seq)
            .plain("counter", tree.counter)
            .end();
    }
    let counter = match tree.counter {
        0 => String::new(),
        value => format!(", counter {value}"),
    };
    format!(
        "tree {}: flushed up to sequence {}{counter}",
        tree.id.0, tree.flushed_seq
    )
}

/// Sums and bounds of a run that is not empty.
fn run_line(json: bool, tree: &TreeView, level: u8, run: &Run<ExtentMeta>) -> String {
    let metas = run.extents();
    let sum = |of: fn(&ExtentMeta) -> u64| metas.iter().map(of).sum::<u64>();
    let (versions, deletes) = (sum(|m| m.entries), sum(|m| m.deletes));
    let smallest_seq = metas.iter().map(|m| m.smallest_seq).min().unwrap_or(0);
    let largest_seq = metas.iter().map(|m| m.largest_seq).max().unwrap_or(0);
    let first = metas.first().map_or(&[][..], |m| &m.first.key);
    let last = metas.last().map_or(&[][..], |m| &m.last.key);
    if json {
        return Object::new("run")
            .plain("tree", tree.id.0)
            .plain("level", level)
            .plain("run", run.id().0)
            .plain("extents", metas.len())
            .plain("stored_bytes", run.bytes())
            .plain("data_bytes", sum(|m| m.data_bytes))
            .plain("versions", versions)
            .plain("deletes", deletes)
            .plain("smallest_seq", smallest_seq)
            .plain("largest_seq", largest_seq)
            .hex("first_key", first)
            .hex("last_key", last)
            .end();
    }
    let name = match level {
        0 => format!("level 0, run {}", run.id().0),
        level => format!("level {level}"),
    };
    format!(
        "  {name}: {} extents, {} bytes, {} before compression, {versions} versions ({deletes} deletes), \
         sequences {smallest_seq} to {largest_seq}, keys {} to {}",
        metas.len(),
        run.bytes(),
        sum(|m| m.data_bytes),
        key(first),
        key(last),
    )
}

fn extent_line(
    json: bool,
    tree: &TreeView,
    level: u8,
    run: &Run<ExtentMeta>,
    meta: &ExtentMeta,
) -> String {
    if json {
        let line = Object::new("extent")
            .plain("tree", tree.id.0)
            .plain("level", level)
            .plain("run", run.id().0);
        return describe(line, meta).end();
    }
    format!(
        "    extent {} (file {}, slot {}): {} bytes, {}",
        meta.id.0,
        meta.id.file(),
        meta.id.slot(),
        meta.stored_bytes,
        contents(meta),
    )
}
