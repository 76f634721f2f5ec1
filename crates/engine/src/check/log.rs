//! Offline check of the log: whether the next start could read what it needs.
//!
//! Neighbours: `esker_wal::LogView` walks and finds damaged blocks; `recovery` does the real thing.
//!
//! **Invariants**
//! - Memory is bounded by the number of transactions that are prepared at the same time.
//! - What follows from damage that was reported is not reported again: behind it, the beginning of a chained record or
//!   a prepare record may be missing.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use esker_wal::{BlockView, DamageView, Lsn, PartView, RecordKind, SegmentView, Visitor};

use super::{Checked, DamagedPart, Finding};
use crate::codec::Malformed;
use crate::commit::id::{MAX_ID_BYTES, PreparedId};
use crate::commit::record::{NO_PREPARE, Reader};
use crate::recovery::wants_block;
use crate::tree::Uuid;
use crate::tree::check::CheckedTrees;
use crate::{EngineError, Result, Seq, TreeId};

/// So many bytes of a chained record are kept: enough for what names a two-phase transaction.
const KEPT_BYTES: usize = MAX_ID_BYTES + 32;

/// The block that was shown last.
struct Block {
    first: Lsn,
    trees: Option<Vec<TreeId>>,
    /// Whether a start reads it.
    needed: bool,
}

/// The parts of a chained record so far.
struct Chain {
    id: Lsn,
    /// The beginning of its payload.
    head: Vec<u8>,
}

/// Checks the log.
pub(super) struct LogCheck<'r> {
    /// Records up to here are not needed.
    from: Seq,
    /// The log was durable up to here, if not further.
    durable: Seq,
    counters_as_of: Seq,
    flushed_seqs: &'r BTreeMap<TreeId, Seq>,
    /// Whose log it has to be, if the manifest tells.
    uuid: Option<Uuid>,
    dir: &'r Path,
    checked: Checked,
    /// Start of the first segment.
    begins: Option<Seq>,
    block: Option<Block>,
    chain: Option<Chain>,
    /// There was damage just before, so the next part may belong to a chain whose beginning was not shown.
    chain_is_unknown: bool,
    undecided: BTreeSet<(PreparedId, Seq)>,
    report: &'r mut dyn FnMut(&Finding),
}

impl<'r> LogCheck<'r> {
    pub(super) fn new(
        trees: &'r CheckedTrees,
        dir: &'r Path,
        report: &'r mut dyn FnMut(&Finding),
    ) -> Self {
        let recorded = trees.log.from.max(trees.log.counters_as_of);
        let points = trees.flushed_seqs.values().copied();
        LogCheck {
            from: trees.log.from,
            durable: points.fold(recorded, Seq::max),
            counters_as_of: trees.log.counters_as_of,
            flushed_seqs: &trees.flushed_seqs,
            uuid: trees.uuid,
            dir,
            checked: Checked::default(),
            begins: None,
            block: None,
            chain: None,
            chain_is_unknown: false,
            undecided: BTreeSet::new(),
            report,
        }
    }

    /// Everything was shown.
    pub(super) fn finish(mut self) -> Checked {
        let dir = self.dir.display().to_string();
        let end = self.checked.log_end;
        match self.begins {
            // Nobody knows what is needed.
            _ if self.uuid.is_none() => {}
            None if self.from > 0 => {
                let what = "there is no log, but the database is not new";
                let error = EngineError::corruption(dir, 0, what);
                self.finding(self.from, None, error);
            }
            Some(begins) if begins > self.from.max(Lsn::FIRST.0) => {
                let what = format!("the log begins at LSN {begins}");
                let error = EngineError::corruption(dir, 0, what);
                self.finding(self.from, Some(begins), error);
            }
            Some(_) if end < self.durable && self.checked.findings == 0 => {
                let what = format!(
                    "the log ends at LSN {end}, but everything up to LSN {} was durable",
                    self.durable
                );
                let error = EngineError::corruption(dir, 0, what);
                self.finding(end, None, error);
            }
            _ => {}
        }
        let read_from = self.begins.unwrap_or(0).max(self.from);
        self.checked.replay_bytes = end.saturating_sub(read_from);
        self.checked.prepared = self.undecided.len() as u64;
        self.checked
    }

    /// Reports something that is needed.
    fn finding(&mut self, first: Seq, resumes: Option<Seq>, error: EngineError) {
        let part = DamagedPart::Log {
            first,
            resumes,
            trees: None,
            flushed: false,
        };
        (self.report)(&Finding { part, error });
    }

    /// Whether the next start reads the block.
    fn needs(&self, block: &BlockView<'_>) -> bool {
        let point = |tree: TreeId| self.flushed_seqs.get(&tree).copied();
        block.summary.end.0 > self.from
            && (block.chunks || wants_block(&block.summary, self.counters_as_of, point))
    }

    /// Follows chained records. What is wrong with them.
    fn chain(&mut self, part: &PartView<'_>) -> Option<&'static str> {
        let open = self.chain.take();
        let begins = part.chain.is_none_or(|id| id == part.start);
        // What is not needed may have lost its beginning with the segments before.
        let is_known = !self.chain_is_unknown && part.end.0 > self.from;
        self.chain_is_unknown &= !begins;
        let mut chain = match (open, part.chain) {
            (Some(chain), Some(id)) if chain.id == id && !begins => chain,
            (Some(_), _) if is_known => return Some("a chained record is not finished"),
            (_, Some(id)) if begins => Chain {
                id,
                head: Vec::new(),
            },
            (_, Some(_)) => {
                let what = "the beginning of a chained record is missing";
                return Some(what).filter(|_| is_known);
            }
            (_, None) => return None,
        };
        let room = KEPT_BYTES.saturating_sub(chain.head.len());
        let more = part.payload.len().min(room);
        chain.head.extend_from_slice(&part.payload[..more]);
        self.chain = Some(chain);
        None
    }

    /// Matches prepares and decisions.
    fn two_phase(&mut self, kind: RecordKind, head: &[u8], seq: Seq) -> Result<(), Malformed> {
        let mut reader = Reader::of_beginning(head)?;
        let id = reader.id()?;
        if kind == RecordKind::Prepare {
            self.undecided.insert((id, seq));
            return Ok(());
        }
        if reader.is_silent() {
            return Err(NO_PREPARE);
        }
        let prepare = reader.seq()?;
        let is_there = self.undecided.remove(&(id, prepare));
        match is_there || prepare <= self.from || self.checked.findings > 0 {
            true => Ok(()),
            false => Err("the prepare record that it decides about is missing"),
        }
    }

    /// Decodes a record that ends here.
    fn record(&mut self, kind: RecordKind, part: &PartView<'_>) -> Result<(), Malformed> {
        let chain = self.chain.take();
        match kind {
            RecordKind::Commit if part.chain.is_none() => decode_commit(part.payload),
            RecordKind::Prepare | RecordKind::CommitPrepared | RecordKind::RollbackPrepared => {
                match (part.chain, chain) {
                    (None, _) => self.two_phase(kind, part.payload, part.end.0),
                    (Some(_), Some(chain)) => self.two_phase(kind, &chain.head, part.end.0),
                    (Some(_), None) => Ok(()),
                }
            }
            _ => Ok(()),
        }
    }
}

impl Visitor for LogCheck<'_> {
    type Error = EngineError;

    fn wants_payloads(&self) -> bool {
        true
    }

    fn segment(&mut self, segment: &SegmentView<'_>) -> Result<()> {
        if segment.dead {
            return Ok(());
        }
        self.checked.segments += 1;
        let begins = segment.gap.unwrap_or(segment.start).0;
        self.begins.get_or_insert(begins);
        if segment.after_open {
            // A crash may leave the beginning of a record that never happened.
            self.chain = None;
        }
        if self.uuid.is_some_and(|uuid| uuid != segment.cluster) {
            let file = segment.path.display().to_string();
            let error = EngineError::corruption(file, 0, "it belongs to another database");
            self.finding(segment.start.0, None, error);
        }
        Ok(())
    }

    fn block(&mut self, block: &BlockView<'_>) -> Result<()> {
        self.checked.blocks += 1;
        let ids = block.summary.trees;
        self.block = Some(Block {
            first: block.summary.first,
            trees: ids.map(|ids| ids.iter().map(|id| TreeId(*id)).collect()),
            needed: self.needs(block),
        });
        Ok(())
    }

    fn part(&mut self, part: &PartView<'_>) -> Result<()> {
        let wrong = self.chain(part);
        let wrong = match (wrong, part.kind) {
            (None, Some(kind)) => self.record(kind, part).err(),
            (wrong, _) => wrong,
        };
        if part.kind.is_some() {
            self.checked.records += 1;
            self.chain = None;
        }
        if let Some(what) = wrong {
            self.checked.findings += 1;
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
        (self.chain, self.chain_is_unknown) = (None, true);
        self.checked.findings += 1;
        let resumes = damage.resumes.map(|lsn| lsn.0);
        // For the first segment the walk does not say so otherwise.
        self.begins.get_or_insert(damage.first.0);
        let block = self.block.take_if(|block| block.first == damage.first);
        let is_needed = block.as_ref().is_none_or(|block| block.needed);
        (self.report)(&Finding {
            part: DamagedPart::Log {
                first: damage.first.0,
                resumes,
                flushed: !is_needed || resumes.is_some_and(|lsn| lsn <= self.from),
                trees: block.and_then(|block| block.trees),
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
    reader.ingest().map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::put_varint;
    use crate::commit::record;

    fn part<'a>(
        place: std::ops::Range<u64>,
        kind: Option<RecordKind>,
        chain: Option<u64>,
        payload: &'a [u8],
    ) -> PartView<'a> {
        PartView {
            start: Lsn(place.start),
            end: Lsn(place.end),
            kind,
            chain: chain.map(Lsn),
            trees: Vec::new(),
            has_attachment: false,
            payload,
        }
    }

    /// What is said about these parts, which may have damage before the last.
    fn said(parts: &[PartView<'_>], damage_before_the_last: bool) -> Vec<String> {
        let trees = CheckedTrees {
            log: crate::tree::LogPoint {
                from: 100,
                counters_as_of: 100,
            },
            ..CheckedTrees::default()
        };
        let mut said = Vec::new();
        let mut report = |finding: &Finding| said.push(finding.error.to_string());
        let mut check = LogCheck::new(&trees, Path::new("/wal"), &mut report);
        for (at, part) in parts.iter().enumerate() {
            if damage_before_the_last && at + 1 == parts.len() {
                let damage = DamageView {
                    path: Path::new("/wal/1"),
                    offset: 0,
                    what: "damage".to_owned(),
                    first: Lsn(1),
                    resumes: None,
                };
                check.damage(&damage).unwrap();
            }
            check.part(part).unwrap();
        }
        check.finish();
        said.retain(|said| !said.ends_with("damage"));
        said
    }

    #[test]
    fn what_no_start_would_take_is_found() {
        let (commit, noop) = (Some(RecordKind::Commit), Some(RecordKind::Noop));
        let whole = [
            part(200..208, None, Some(200), b"a"),
            part(208..216, commit, Some(200), b"b"),
            part(216..224, noop, None, b""),
        ];
        assert_eq!(said(&whole, false), [""; 0]);
        let headless = &whole[1..];
        assert!(said(headless, false)[0].contains("beginning of a chained record is missing"));
        assert_eq!(said(&headless[..1], true), [""; 0]);
        let unfinished = [whole[0].clone(), whole[2].clone()];
        assert!(said(&unfinished, false)[0].contains("is not finished"));
        assert_eq!(said(&unfinished, true), [""; 0]);
        // Below the place from which records are needed.
        let old = [part(80..88, commit, Some(40), b"")];
        assert_eq!(said(&old, false), [""; 0]);
    }

    #[test]
    fn a_decision_needs_its_prepare_record() {
        let decision_about = |prepare| {
            let mut payload = Vec::new();
            record::begin(&mut payload, 0);
            record::put_id(&mut payload, &PreparedId::xa(b"x"));
            put_varint(&mut payload, prepare);
            payload
        };
        let payload = decision_about(150);
        let decision = part(160..168, Some(RecordKind::CommitPrepared), None, &payload);
        let alone = said(std::slice::from_ref(&decision), false);
        assert!(alone[0].contains("the prepare record that it decides about is missing"));
        assert_eq!(said(std::slice::from_ref(&decision), true), [""; 0]);
        let mut prepare = Vec::new();
        // With an attachment that lies in parts behind the first.
        record::begin(&mut prepare, 1000);
        record::put_id(&mut prepare, &PreparedId::xa(b"x"));
        let first = part(120..136, None, Some(120), &prepare);
        let last = part(136..150, Some(RecordKind::Prepare), Some(120), b"rest");
        assert_eq!(said(&[first, last, decision], false), [""; 0]);
        // One that the log has let go of.
        let payload = decision_about(90);
        let decision = part(160..168, Some(RecordKind::RollbackPrepared), None, &payload);
        assert_eq!(said(&[decision], false), [""; 0]);
    }

    #[test]
    fn only_a_prepare_can_be_silent() {
        let mut payload = Vec::new();
        record::begin_silent(&mut payload);
        record::put_id(&mut payload, &PreparedId::xa(b"x"));
        put_varint(&mut payload, 90);
        for kind in [RecordKind::CommitPrepared, RecordKind::Commit] {
            let said = said(&[part(160..168, Some(kind), None, &payload)], false);
            assert!(said[0].contains(NO_PREPARE), "{said:?}");
        }
    }
}
