//! Checking a database that nobody has open: manifest, extents, log.
//!
//! Neighbours: `tree::check` reads the extents, `esker_wal::LogView` shows the log; the command `esker check` prints.
//!
//! **Invariants**
//! - Nothing is changed. The directory is locked meanwhile.
//! - Damage is a finding, and what can still be checked is checked.

use std::io::ErrorKind;
use std::path::Path;

use esker_vfs::Env;
use esker_wal::{BlockView, DamageView, LogView, Lsn, PartView, RecordKind, SegmentView, Visitor};

use crate::codec::Malformed;
use crate::commit::record::Reader;
use crate::tree;
use crate::{EngineError, Result, Seq, TreeId};

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
        /// Whether all of it was flushed, so that nothing is lost.
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
    let name = || dir.display().to_string();
    let io = |e| EngineError::io(format!("opening the data directory {}", name()), e);
    if !env.fs.exists(&dir.join("manifest")).map_err(io)? {
        return Err(io(ErrorKind::NotFound.into()));
    }
    let _lock = env.fs.lock_dir(dir).map_err(|e| match e.kind() {
        ErrorKind::WouldBlock => EngineError::InUse(name().into()),
        _ => io(e),
    })?;
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
    let mut log = LogCheck {
        from: trees.log.from,
        uuid: trees.uuid,
        checked: Checked::default(),
        block: None,
        report: &mut count,
    };
    let view = LogView::open(env.fs.clone(), &dir.join("wal"))?;
    view.walk(Lsn(trees.log.from), &mut log)?;
    let checked = log.checked;
    Ok(Checked {
        trees: trees.trees,
        extents: trees.extents,
        extent_bytes: trees.extent_bytes,
        findings,
        ..checked
    })
}

/// Checks the log.
struct LogCheck<'r> {
    /// Records up to here are not needed.
    from: Seq,
    /// Whose log it has to be, if the manifest tells.
    uuid: Option<tree::Uuid>,
    checked: Checked,
    /// The block that was shown last: its first LSN and its trees.
    block: Option<(Lsn, Option<Vec<TreeId>>)>,
    report: &'r mut dyn FnMut(&Finding),
}

impl Visitor for LogCheck<'_> {
    type Error = EngineError;

    fn wants_payloads(&self) -> bool {
        true
    }

    fn segment(&mut self, segment: &SegmentView<'_>) -> Result<()> {
        self.checked.segments += u64::from(!segment.dead);
        if self.uuid.is_some_and(|uuid| uuid != segment.cluster) {
            let file = segment.path.display().to_string();
            (self.report)(&Finding {
                part: DamagedPart::Log {
                    first: segment.start.0,
                    resumes: None,
                    trees: None,
                    flushed: false,
                },
                error: EngineError::corruption(file, 0, "it belongs to another database"),
            });
        }
        Ok(())
    }

    fn block(&mut self, block: &BlockView<'_>) -> Result<()> {
        self.checked.blocks += 1;
        let summary = &block.summary;
        let trees = summary.trees.map(|ids| ids.iter().map(|id| TreeId(*id)));
        self.block = Some((summary.first, trees.map(Iterator::collect)));
        Ok(())
    }

    fn part(&mut self, part: &PartView<'_>) -> Result<()> {
        self.checked.records += u64::from(part.kind.is_some());
        if part.kind == Some(RecordKind::Commit)
            && part.chain.is_none()
            && let Err(what) = decode_commit(part.payload)
        {
            let first = part.start.0;
            (self.report)(&Finding {
                part: DamagedPart::Log {
                    first,
                    resumes: Some(part.end.0),
                    trees: Some(part.trees.iter().map(|id| TreeId(*id)).collect()),
                    flushed: part.end.0 <= self.from,
                },
                error: EngineError::corruption("the log", first, what),
            });
        }
        Ok(())
    }

    fn damage(&mut self, damage: &DamageView<'_>) -> Result<()> {
        let block = self.block.take_if(|(first, _)| *first == damage.first);
        (self.report)(&Finding {
            part: DamagedPart::Log {
                first: damage.first.0,
                resumes: damage.resumes.map(|lsn| lsn.0),
                trees: block.and_then(|(_, trees)| trees),
                flushed: damage.resumes.is_some_and(|lsn| lsn.0 <= self.from),
            },
            error: EngineError::corruption(
                damage.path.display().to_string(),
                damage.offset,
                damage.what.as_str(),
            ),
        });
        Ok(())
    }

    fn end(&mut self, end: Lsn, torn: bool) -> Result<()> {
        (self.checked.log_end, self.checked.torn) = (end.0, torn);
        Ok(())
    }
}

/// Whether the payload of a commit record can be decoded.
fn decode_commit(payload: &[u8]) -> Result<(), Malformed> {
    let mut reader = Reader::new(payload)?;
    reader.counters(|_, _| {})?;
    for _ in 0..reader.trees()? {
        let (_, writes) = reader.tree_writes()?;
        for _ in 0..writes {
            reader.write()?;
        }
    }
    reader.finish()
}
