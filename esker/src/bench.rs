//! `esker bench`: measures the log, the commit pipeline and the trees.
//!
//! Neighbours: `esker_bench` measures; here its arguments meet the terminal.
//!
//! **Invariants**
//! - Standard output carries the result and nothing else; progress goes to standard error, and only where
//!   somebody looks at it.

use std::io::{IsTerminal, Write};
use std::process::ExitCode;

use clap::{Args, Subcommand};
use esker_bench::commit::{self, CommitArgs};
use esker_bench::footprint::{self, MemoryArgs};
use esker_bench::kv::{self, KvArgs};
use esker_bench::logbuf::{self, LogArgs};
use esker_bench::paper::{self, PaperArgs};
use esker_bench::recovery::restart::{self, RestartArgs};
use esker_bench::recovery::{self, RecoveryArgs};
use esker_bench::report::{self, Table};
use esker_bench::scan::{self, ScanArgs};

/// Arguments of `esker bench`.
#[derive(Args)]
pub(crate) struct Options {
    #[command(subcommand)]
    what: What,
    /// Print JSON instead of a table.
    #[arg(long, global = true)]
    json: bool,
}

#[derive(Subcommand)]
enum What {
    /// Transactions of many sessions on the engine, with the commit pipeline switched as asked.
    ///
    /// Reports transactions per second, deadlocks, commits per flush of the log, latencies, voluntary
    /// context switches and CPU time per transaction. Example, early lock release on a slow disk:
    ///
    ///     esker bench commit tpcb --skew 1 --sync-latency 10ms --elr off
    #[command(verbatim_doc_comment)]
    Commit(CommitArgs),
    /// The variants of the log buffer against each other, into memory.
    ///
    /// Reports records and bytes inserted per second for each variant, number of threads and size of
    /// records, with and without holders of the lock that are put to sleep as if they were preempted.
    /// Example, many threads that disturb each other:
    ///
    ///     esker bench log --threads 64 --sizes 120 --preemption on
    #[command(verbatim_doc_comment)]
    Log(LogArgs),
    /// Restarts after a crash, with everything still in the log.
    ///
    /// Writes rows once, and restarts on copies of them: time until the engine is open, until statements may run, until
    /// the first row is read and until nothing is left to do, rows and bytes of log per second, memory. Every restart
    /// has to bring back every row. Example, a log of which little is live, from the disk:
    ///
    ///     esker bench recovery --rows 5000000 --dead 95 --cache cold
    #[command(verbatim_doc_comment)]
    Recovery(RecoveryArgs),
    /// One restart: what `recovery` starts for each.
    #[command(hide = true)]
    Restart(RestartArgs),
    /// Memory that is touched and given back: what `recovery` may start before each.
    #[command(hide = true)]
    Touch {
        #[arg(long)]
        mib: u64,
    },
    /// Keys and values through the engine, in the steps that RocksDB's db_bench has.
    ///
    /// Reports operations per second and latencies of each step, bytes written to extents per byte that was put
    /// (the log not counted), extents that compaction linked, and the space in use. Commits are not waited for,
    /// except in fillsync. Example, beside `db_bench --benchmarks=fillrandom,overwrite`:
    ///
    ///     esker bench kv fillrandom,overwrite --num 5000000 --threads 1 --dir /var/tmp
    #[command(verbatim_doc_comment)]
    Kv(KvArgs),
    /// All rows of a tree counted or summed by several threads.
    ///
    /// Reports rows per second of each query, where the rows are in a memtable, in one run of extents, or spread over
    /// both; `rows` counts as a user's COUNT(*) does, without reading what need not be read. Example, from a disk:
    ///
    ///     esker bench scan --rows 10000000 --tiers compacted --cache cold --dir /var/tmp
    #[command(verbatim_doc_comment)]
    Scan(ScanArgs),
    /// More data than memory: who has how much of it while rows are loaded, read, changed and scanned.
    ///
    /// Reports for each step the most that the engine counted, by itself and as a share of the limit, the most that was
    /// resident, and how often writers were held back. Example, a small one:
    ///
    ///     esker bench memory --data-mib 200 --limit-mib 64 --memtable-mib 8 --dir /var/tmp
    #[command(verbatim_doc_comment)]
    Memory(MemoryArgs),
    /// Every comparison of the Aether paper, as tables (Markdown) and curves (SVG).
    ///
    /// The log buffer's variants; early lock release over skew and sync latency; flush pipelining against
    /// blocking and asynchronous commit; TPC-B and TATP with all of it on and all off. The series takes some eight
    /// minutes and wants a quiet machine; the pages say how quiet it was.
    Paper(PaperArgs),
}

/// Runs a benchmark and prints what it found.
pub(crate) fn run(options: &Options) -> Result<ExitCode, String> {
    let progress = |line: &str| show_progress(line);
    let result = match &options.what {
        What::Commit(args) => commit::run(args, &progress).map(|table| vec![table]),
        What::Kv(args) => kv::run(args, &progress).map(|table| vec![table]),
        What::Scan(args) => scan::run(args, &progress).map(|table| vec![table]),
        What::Log(args) => logbuf::run(args, &progress).map(|table| vec![table]),
        What::Memory(args) => footprint::run(args, &progress).map(|table| vec![table]),
        What::Recovery(args) => recovery::run(args, &progress).map(|table| vec![table]),
        What::Restart(args) => {
            print(&restart::run(args).map_err(|e| e.to_string())?);
            return Ok(ExitCode::SUCCESS);
        }
        What::Touch { mib } => {
            recovery::touch(*mib);
            return Ok(ExitCode::SUCCESS);
        }
        What::Paper(args) => paper::run(args, &progress),
    };
    show_progress("");
    let tables = result.map_err(|e| e.to_string())?;
    let text = match options.json {
        true => report::to_json(&tables),
        false => tables
            .iter()
            .map(Table::to_text)
            .collect::<Vec<_>>()
            .join("\n"),
    };
    print(&text);
    Ok(ExitCode::SUCCESS)
}

fn print(text: &str) {
    // A reader that went away wants no more.
    let _ = std::io::stdout().write_all(text.as_bytes());
}

/// Replaces the line of progress, on a terminal.
fn show_progress(line: &str) {
    let mut out = std::io::stderr();
    if out.is_terminal() {
        let _ = write!(out, "\r\x1b[K{line}");
        let _ = out.flush();
    }
}
