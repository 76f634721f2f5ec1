//! `esker bench paper`: every comparison of the Aether paper, as tables and curves.
//!
//! Source: R. Johnson, I. Pandis, R. Stoica, M. Athanassoulis, A. Ailamaki, "Aether: a scalable approach to
//! logging", PVLDB 3(1), 2010.
//!
//! Parts: `scale` (how much of it, quick or in full) · `series` (the four comparisons) · `output` (the
//! Markdown file and the pictures).
//!
//! Neighbours: [`crate::commit`] and [`crate::logbuf`] measure.
//!
//! **Invariants**
//! - Runs that are compared follow each other directly.
//! - The files are written after everything was measured, so that a broken run changes none of them.

mod output;
mod scale;
mod series;
#[cfg(test)]
mod tests;

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use crate::plot::Plot;
use crate::process::Machine;
use crate::report::Table;
use crate::{Progress, Result};
use scale::Scale;

/// Arguments of `esker bench paper`.
#[derive(Debug, Clone, Args)]
pub struct PaperArgs {
    /// Fewer cases, and short runs that are not repeated: some two minutes, to see that everything works.
    #[arg(long)]
    quick: bool,
    /// Only these comparisons.
    #[arg(long, value_enum, value_delimiter = ',', value_name = "NAMES")]
    only: Vec<Comparison>,
    /// Where the tables and plots go.
    #[arg(long, default_value = "docs/benchmarks", value_name = "DIR")]
    out: PathBuf,
    /// Put the data of the runs without simulated latency below this directory of the real disk.
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

/// A comparison of the paper.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Comparison {
    /// The variants of the log buffer.
    LogBuffer,
    /// Early lock release: skew and latency.
    Elr,
    /// Flush pipelining, blocking and asynchronous commit.
    Pipelining,
    /// All of it on against all off.
    Ablation,
}

impl Comparison {
    const ALL: [Comparison; 4] = [
        Comparison::LogBuffer,
        Comparison::Elr,
        Comparison::Pipelining,
        Comparison::Ablation,
    ];
}

/// How far the figures of a chapter can be trusted.
#[derive(Default)]
struct Trust {
    /// How the figures were made of single runs.
    method: String,
    /// Of each figure that was measured more than once, half of the distance between its extremes, in percent.
    percents: Vec<f64>,
    /// How much of the machine other processes used, from 0 to 1.
    others: f64,
}

/// What a comparison has shown.
pub(crate) struct Chapter {
    /// Name of its files.
    name: &'static str,
    title: &'static str,
    /// How it was made and what to look for.
    words: String,
    trust: Trust,
    tables: Vec<Table>,
    /// Each with the end of its file's name.
    plots: Vec<(String, Plot)>,
}

/// Runs `esker bench paper`: measures, writes the files, and returns the tables.
pub fn run(args: &PaperArgs, progress: Progress<'_>) -> Result<Vec<Table>> {
    let scale = match args.quick {
        true => Scale::quick(),
        false => Scale::full(),
    };
    run_at(args, &scale, progress)
}

fn run_at(args: &PaperArgs, scale: &Scale, progress: Progress<'_>) -> Result<Vec<Table>> {
    let wanted = Comparison::ALL
        .into_iter()
        .filter(|c| args.only.is_empty() || args.only.contains(c));
    let chapters = wanted
        .map(|comparison| {
            let before = Machine::now();
            let mut chapter = match comparison {
                Comparison::LogBuffer => series::log_buffer(scale, progress),
                Comparison::Elr => series::early_lock_release(scale, progress),
                Comparison::Pipelining => series::pipelining(scale, args.dir.as_deref(), progress),
                Comparison::Ablation => series::ablation(scale, args.dir.as_deref(), progress),
            }?;
            chapter.trust.others = Machine::now().used_by_others_since(&before);
            Ok(chapter)
        })
        .collect::<Result<Vec<Chapter>>>()?;
    for chapter in &chapters {
        output::write(&args.out, chapter, args.quick)?;
    }
    Ok(chapters.into_iter().flat_map(|c| c.tables).collect())
}
