//! Offline consistency check of a database: manifest, extents, log.
//!
//! Neighbours: `tree::check` reads the extents, `log` what `esker_wal::LogView` shows; the command `esker check`
//! prints.
//!
//! **Invariants**
//! - Nothing is changed. The directory is locked meanwhile.
//! - Damage is a finding, and what can still be checked is checked.
//! - What would stop the start of the server is a finding that is needed ([`DamagedPart::Log`]), also where every byte
//!   is as it was written: a log that lacks its beginning or its end, a decision without its prepare record.

mod log;

use std::path::Path;

use esker_vfs::Env;
use esker_wal::{LogView, Lsn};

use crate::{EngineError, Result, Seq, TreeId, inspect, tree};

/// A part of a database that is damaged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DamagedPart {
    /// What says which trees and extents there are.
    Manifest,
    /// Rows of a tree.
    Extent {
        /// Which tree.
        tree: TreeId,
        /// Smallest key that is in the damaged extent.
        first: Box<[u8]>,
        /// Largest key.
        last: Box<[u8]>,
        /// Versions in it.
        versions: u64,
    },
    /// A part of the log.
    Log {
        /// Where the damage begins.
        first: u64,
        /// Where there are records again, if that is known.
        resumes: Option<u64>,
        /// The trees that the damaged block touches, if its header can be read and lists them.
        trees: Option<Vec<TreeId>>,
        /// Whether all of it was flushed, so that nothing is lost and a start does not read it.
        flushed: bool,
    },
}

/// Something that is damaged.
#[derive(Clone, Debug)]
pub struct Finding {
    /// What is hurt by it.
    pub part: DamagedPart,
    /// File, offset and what is wrong there.
    pub error: EngineError,
}

/// What was checked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Checked {
    /// Trees of the manifest.
    pub trees: u64,
    /// Extents that were read.
    pub extents: u64,
    /// Their bytes.
    pub extent_bytes: u64,
    /// Segments of the log.
    pub segments: u64,
    /// Blocks of the log.
    pub blocks: u64,
    /// Records of the log.
    pub records: u64,
    /// Where the log ends.
    pub log_end: Seq,
    /// Length of the log that the next start has to look at, in LSN bytes.
    pub replay_bytes: u64,
    /// Transactions that are prepared and wait for their decision.
    pub prepared: u64,
    /// Whether the rest of unfinished writes lies behind the end; the next start drops it.
    pub torn: bool,
    /// What is damaged.
    pub findings: u64,
}

/// Checks the database in this directory; passes what is damaged to `report`.
///
/// # Errors
/// There is no database, somebody has it open, or the system refuses to read.
pub fn check(env: &Env, dir: &Path, report: &mut dyn FnMut(&Finding)) -> Result<Checked> {
    let _lock = inspect::lock(env, dir)?;
    let mut findings = 0;
    let mut count = |finding: &Finding| {
        findings += 1;
        report(finding);
    };
    let trees = tree::check::check(env, dir, &mut |extent, error| {
        let part = match extent {
            None => DamagedPart::Manifest,
            Some((tree, meta)) => DamagedPart::Extent {
                tree,
                first: meta.first.key.clone(),
                last: meta.last.key.clone(),
                versions: meta.entries,
            },
        };
        count(&Finding { part, error });
    });
    let trees = match trees {
        Err(error @ EngineError::Corruption { .. }) => {
            let part = DamagedPart::Manifest;
            count(&Finding { part, error });
            tree::check::CheckedTrees::default()
        }
        trees => trees?,
    };
    let wal = dir.join("wal");
    let from = Lsn(trees.log.from);
    let mut log = log::LogCheck::new(&trees, &wal, &mut count);
    // A directory that is not there has no segments: `finish` says what that means.
    if inspect::exists(env, dir, &wal)? {
        LogView::open(env.fs.clone(), &wal)?.walk(from, &mut log)?;
    }
    let checked = log.finish();
    Ok(Checked {
        trees: trees.trees,
        extents: trees.extents,
        extent_bytes: trees.extent_bytes,
        findings,
        ..checked
    })
}
