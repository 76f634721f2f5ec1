//! The payloads of the engine's log records.
//!
//! Neighbours: `entry` puts a record together with what is here, `recovery` and `follow` decode; `esker-wal` frames and
//! checks the bytes.
//!
//! ```text
//! payload           head | content, by kind | attachment, if the head says so
//! head              version u8 = 2 | flags u8 | length of the attachment varint, with flag bit 0 (ATTACHMENT)
//!                   flag bit 1 (SILENT): of a prepare that nobody who follows hears of, so not of its decision either
//!
//! Commit            body | ingest, if it has extents
//! Prepare           id | locks | body | ingest, if it has extents
//! CommitPrepared    id | prepare seq varint | ingest, if it has extents
//! RollbackPrepared  id | prepare seq varint
//! CounterSet        how u8 (1 raise, 2 set) | tree varint | value varint
//! Note              nothing
//!
//! id        namespace u8 (0 internal, 1 XA) | length varint | bytes
//! locks     number varint | per lock: kind u8 | tree varint | key or span
//!           kind: 1 shared row, 2 exclusive row: key;  3 gap, 4 shared cover, 5 exclusive cover: span
//! key       length varint | bytes
//! span      lower key | has an end u8 (0, 1) | upper key, if it has an end
//! body      counters | number of trees varint | per tree: tree varint | number of writes varint | writes
//! counters  number varint | per counter: tree varint | value varint       (raises: the larger value wins)
//! ingest     number varint                                                    (what is staged in the manifest under it)
//! write     op u8 | key length varint | key | for a put: value length varint | value
//! ```
//! Varints are LEB128, least significant group first. Trees ascend, keys of a tree ascend. The attachment is the end of
//! the payload, and its bytes mean nothing here.
//!
//! Version 1, which is read and not written any more, has no flags, no attachments, no notes, and identifiers without a
//! namespace, which are XA's.
//!
//! **Invariants**
//! - Nothing is decoded beyond where the attachment begins.
//! - Decoding never panics and never reads outside the payload, whatever the bytes.
//! - Counters are raised by the record they stand in, also by a prepare that is rolled back: a number that was given
//!   stays given.
//! - A prepared transaction is named by its XID and the sequence of its prepare record: an XID may be used again.

use super::id::{MAX_ID_BYTES, Namespace, PreparedId};
use crate::codec::{self, Malformed, put_bytes, put_varint};
use crate::lock::{LockMode, RangeKind};
use crate::span::KeySpan;
use crate::tree::IngestId;
use crate::{MAX_KEY_BYTES, MAX_VALUE_BYTES, Op, Seq, TreeId};

/// Version of the payloads that are written.
const PAYLOAD_VERSION: u8 = 2;
/// The version before: no flags, and identifiers without a namespace.
const FIRST_VERSION: u8 = 1;
/// Flag of the head: the payload ends with an attachment.
const ATTACHMENT: u8 = 1;
/// Flag of the head: nobody who follows is told of what is prepared here.
const SILENT: u8 = 2;

/// How a counter record changes its counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum CounterChange {
    /// The larger of the two values stays.
    Raise = 1,
    /// The value is what the record says.
    Set = 2,
}

/// Begins a payload that will end with an attachment of this many bytes, or with none.
pub(crate) fn begin(out: &mut Vec<u8>, attachment_bytes: usize) {
    out.clear();
    match attachment_bytes {
        0 => out.extend_from_slice(&[PAYLOAD_VERSION, 0]),
        bytes => {
            out.extend_from_slice(&[PAYLOAD_VERSION, ATTACHMENT]);
            put_varint(out, bytes as u64);
        }
    }
}

/// Begins the payload of a prepare of which nobody who follows is told.
pub(crate) fn begin_silent(out: &mut Vec<u8>) {
    out.clear();
    out.extend_from_slice(&[PAYLOAD_VERSION, SILENT]);
}

pub(crate) fn put_id(out: &mut Vec<u8>, id: &PreparedId) {
    debug_assert!((1..=MAX_ID_BYTES).contains(&id.bytes().len()));
    out.push(id.namespace() as u8);
    put_bytes(out, id.bytes());
}

pub(super) fn put_lock(out: &mut Vec<u8>, mode: LockMode, tree: TreeId, key: &[u8]) {
    debug_assert!(key.len() <= MAX_KEY_BYTES);
    out.push(match mode {
        LockMode::Shared => 1,
        LockMode::Exclusive => 2,
    });
    put_varint(out, u64::from(tree.0));
    put_bytes(out, key);
}

pub(super) fn put_range(out: &mut Vec<u8>, kind: RangeKind, tree: TreeId, span: &KeySpan) {
    debug_assert!(span.lower.len() <= MAX_KEY_BYTES + 1);
    out.push(match kind {
        RangeKind::Gap => 3,
        RangeKind::Cover(LockMode::Shared) => 4,
        RangeKind::Cover(LockMode::Exclusive) => 5,
    });
    put_varint(out, u64::from(tree.0));
    put_bytes(out, &span.lower);
    out.push(u8::from(span.upper.is_some()));
    if let Some(upper) = &span.upper {
        put_bytes(out, upper);
    }
}

/// A lock of a prepare record.
pub(crate) enum Locked<'a> {
    Row(LockMode, &'a [u8]),
    Range(RangeKind, KeySpan),
}

pub(super) fn put_counters(out: &mut Vec<u8>, counters: &[(TreeId, u64)]) {
    put_varint(out, counters.len() as u64);
    for (tree, value) in counters {
        put_varint(out, u64::from(tree.0));
        put_varint(out, *value);
    }
}

pub(crate) fn put_write(out: &mut Vec<u8>, op: Op, key: &[u8], value: &[u8]) {
    debug_assert!(key.len() <= MAX_KEY_BYTES && value.len() <= MAX_VALUE_BYTES);
    out.push(op as u8);
    put_bytes(out, key);
    if op == Op::Put {
        put_bytes(out, value);
    }
}

/// Ends the content of a commit that brings extents.
pub(super) fn put_ingest(out: &mut Vec<u8>, ingest: IngestId) {
    put_varint(out, u64::from(ingest.0));
}

pub(super) fn put_counter_change(out: &mut Vec<u8>, how: CounterChange, tree: TreeId, value: u64) {
    out.push(how as u8);
    put_varint(out, u64::from(tree.0));
    put_varint(out, value);
}

/// A write of a body.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Write<'a> {
    pub(crate) op: Op,
    pub(crate) key: &'a [u8],
    pub(crate) value: &'a [u8],
    /// The whole write as it stands in the payload.
    pub(crate) encoded: &'a [u8],
    /// Where it stands in the payload.
    pub(crate) offset: usize,
}

/// Reads the content of a payload from the front.
#[derive(Clone)]
pub(crate) struct Reader<'a> {
    /// Ends where the attachment begins.
    rest: codec::Reader<'a>,
    has_namespaces: bool,
    is_silent: bool,
    attachment: &'a [u8],
}

impl<'a> Reader<'a> {
    /// Checks the head and stands behind it; of a record that is no prepare.
    pub(crate) fn new(payload: &'a [u8]) -> Result<Self, Malformed> {
        match Self::of_prepare(payload)? {
            reader if reader.is_silent => Err(NO_PREPARE),
            reader => Ok(reader),
        }
    }

    /// The same of a prepare, which may be marked as silent.
    pub(crate) fn of_prepare(payload: &'a [u8]) -> Result<Self, Malformed> {
        let mut head = codec::Reader::new(payload);
        let read = read_head(&mut head)?;
        let begin = head.position();
        let attached = usize::try_from(read.attached).map_err(|_| TOO_LONG)?;
        let content_bytes = payload.len() - begin;
        let end = begin + content_bytes.checked_sub(attached).ok_or(TOO_LONG)?;
        let (before, attachment) = payload.split_at(end);
        let mut rest = codec::Reader::new(before);
        rest.skip(begin)?;
        Ok(Reader {
            rest,
            has_namespaces: read.version > FIRST_VERSION,
            is_silent: read.is_silent,
            attachment,
        })
    }

    /// For a payload without its attachment, or of which only the beginning is there.
    pub(crate) fn of_beginning(payload: &'a [u8]) -> Result<Self, Malformed> {
        let mut rest = codec::Reader::new(payload);
        let read = read_head(&mut rest)?;
        Ok(Reader {
            rest,
            has_namespaces: read.version > FIRST_VERSION,
            is_silent: read.is_silent,
            attachment: &[],
        })
    }

    /// The bytes behind the content that mean nothing here; empty if there are none.
    pub(crate) fn attachment(&self) -> &'a [u8] {
        self.attachment
    }

    /// Is it marked as a prepare of which nobody who follows is told?
    pub(crate) fn is_silent(&self) -> bool {
        self.is_silent
    }

    fn bytes(&mut self, limit: usize) -> Result<&'a [u8], Malformed> {
        let bytes = self.rest.bytes()?;
        if bytes.len() > limit {
            return Err("length over the limit");
        }
        Ok(bytes)
    }

    fn tree(&mut self) -> Result<TreeId, Malformed> {
        self.rest.varint_u32().map(TreeId)
    }

    /// The identifier of a prepared transaction.
    pub(crate) fn id(&mut self) -> Result<PreparedId, Malformed> {
        let namespace = match self.has_namespaces {
            true => Namespace::from_code(self.rest.u8()?).ok_or("unknown namespace")?,
            false => Namespace::Xa,
        };
        match self.bytes(MAX_ID_BYTES)? {
            [] => Err("an identifier is empty"),
            bytes => Ok(PreparedId::new(namespace, bytes)),
        }
    }

    pub(crate) fn seq(&mut self) -> Result<Seq, Malformed> {
        self.rest.varint()
    }

    /// Calls `each` for every lock of a prepare record.
    pub(crate) fn locks(
        &mut self,
        mut each: impl FnMut(TreeId, Locked<'a>),
    ) -> Result<(), Malformed> {
        for _ in 0..self.rest.varint()? {
            let kind = self.rest.u8()?;
            let tree = self.tree()?;
            let locked = match kind {
                1 => Locked::Row(LockMode::Shared, self.bytes(MAX_KEY_BYTES)?),
                2 => Locked::Row(LockMode::Exclusive, self.bytes(MAX_KEY_BYTES)?),
                3 => Locked::Range(RangeKind::Gap, self.span()?),
                4 => Locked::Range(RangeKind::Cover(LockMode::Shared), self.span()?),
                5 => Locked::Range(RangeKind::Cover(LockMode::Exclusive), self.span()?),
                _ => return Err("unknown kind of lock"),
            };
            each(tree, locked);
        }
        Ok(())
    }

    /// A span; its bounds may be one byte longer than a key, to be behind it.
    fn span(&mut self) -> Result<KeySpan, Malformed> {
        let lower = self.bytes(MAX_KEY_BYTES + 1)?.to_vec();
        let upper = match self.rest.u8()? {
            0 => None,
            1 => Some(self.bytes(MAX_KEY_BYTES + 1)?.to_vec()),
            _ => return Err("unknown end of a span"),
        };
        Ok(KeySpan { lower, upper })
    }

    pub(crate) fn counter_change(&mut self) -> Result<(CounterChange, TreeId, u64), Malformed> {
        let how = match self.rest.u8()? {
            1 => CounterChange::Raise,
            2 => CounterChange::Set,
            _ => return Err("unknown counter change"),
        };
        Ok((how, self.tree()?, self.rest.varint()?))
    }

    pub(crate) fn counters(&mut self, mut each: impl FnMut(TreeId, u64)) -> Result<(), Malformed> {
        for _ in 0..self.rest.varint()? {
            let tree = self.tree()?;
            each(tree, self.rest.varint()?);
        }
        Ok(())
    }

    /// Number of trees that the body has writes for; for each follow [`Reader::tree_writes`] and that many times
    /// [`Reader::write`], and then [`Reader::finish`].
    pub(crate) fn trees(&mut self) -> Result<u64, Malformed> {
        self.rest.varint()
    }

    /// The next tree and the number of its writes.
    pub(crate) fn tree_writes(&mut self) -> Result<(TreeId, u64), Malformed> {
        Ok((self.tree()?, self.rest.varint()?))
    }

    /// The next write.
    #[inline]
    pub(crate) fn write(&mut self) -> Result<Write<'a>, Malformed> {
        let begin = self.rest.position();
        let op = Op::from_code(self.rest.u8()?).ok_or("unknown operation")?;
        let key = self.bytes(MAX_KEY_BYTES)?;
        let value = match op {
            Op::Put => self.bytes(MAX_VALUE_BYTES)?,
            Op::Delete => &[],
        };
        Ok(Write {
            op,
            key,
            value,
            encoded: self.rest.since(begin),
            offset: begin,
        })
    }

    /// What the record of a commit brings in extents, behind its writes. Nothing may follow.
    pub(crate) fn ingest(&mut self) -> Result<Option<IngestId>, Malformed> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        let ingest = IngestId(self.rest.varint_u32()?);
        self.finish()?;
        Ok(Some(ingest))
    }

    /// Nothing may follow the last part of the content.
    pub(crate) fn finish(&self) -> Result<(), Malformed> {
        if self.rest.is_empty() {
            Ok(())
        } else {
            Err("bytes behind the end of the payload")
        }
    }
}

/// Only a prepare can be silent.
pub(crate) const NO_PREPARE: Malformed = "the mark of a silent prepare in a record of another kind";
const TOO_LONG: Malformed = "the attachment is longer than the record";

struct Head {
    version: u8,
    is_silent: bool,
    /// Length of the attachment.
    attached: u64,
}

fn read_head(head: &mut codec::Reader<'_>) -> Result<Head, Malformed> {
    let version = head.u8()?;
    let (is_silent, attached) = match version {
        FIRST_VERSION => (false, 0),
        PAYLOAD_VERSION => match head.u8()? {
            0 => (false, 0),
            ATTACHMENT => (false, head.varint()?),
            SILENT => (true, 0),
            _ => return Err("unknown flags of a payload"),
        },
        _ => return Err("unknown payload version"),
    };
    Ok(Head {
        version,
        is_silent,
        attached,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    type Write = (bool, Vec<u8>, Vec<u8>);

    fn decode(payload: &[u8]) -> Result<Vec<(u32, Vec<Write>)>, Malformed> {
        let mut reader = Reader::new(payload)?;
        reader.counters(|_, _| {})?;
        let mut trees = Vec::new();
        for _ in 0..reader.trees()? {
            let (tree, count) = reader.tree_writes()?;
            let mut writes = Vec::new();
            for _ in 0..count {
                let write = reader.write()?;
                let begin = write.offset;
                assert_eq!(&payload[begin..begin + write.encoded.len()], write.encoded);
                writes.push((
                    write.op == Op::Put,
                    write.key.to_vec(),
                    write.value.to_vec(),
                ));
            }
            trees.push((tree.0, writes));
        }
        reader.finish()?;
        Ok(trees)
    }

    /// Version 1 of the same content.
    fn in_version_1(payload: &[u8]) -> Vec<u8> {
        assert_eq!(payload[..2], [PAYLOAD_VERSION, 0]);
        [&[FIRST_VERSION], &payload[2..]].concat()
    }

    #[test]
    fn an_identifier_of_version_1_is_xas() {
        let mut out = Vec::new();
        begin(&mut out, 0);
        put_id(&mut out, &PreparedId::internal(b"id"));
        let read = |payload: &[u8]| Reader::new(payload).and_then(|mut reader| reader.id());
        assert_eq!(read(&out), Ok(PreparedId::internal(b"id")));
        // Without the byte of the namespace.
        let mut old = in_version_1(&out);
        old.remove(1);
        assert_eq!(read(&old), Ok(PreparedId::xa(b"id")));
        out[2] = 7;
        assert!(read(&out).is_err(), "unknown namespace");
    }

    #[test]
    fn an_attachment_has_a_place_of_its_own() {
        let mut out = Vec::new();
        begin(&mut out, 300);
        let content = out.len();
        out.extend_from_slice(&[0, 0]);
        out.extend_from_slice(&[7; 300]);
        let mut reader = Reader::new(&out).unwrap();
        assert_eq!(reader.attachment(), [7; 300]);
        reader.counters(|_, _| {}).unwrap();
        assert_eq!(reader.trees(), Ok(0));
        assert_eq!(reader.ingest().unwrap(), None);
        // Reading on from there finds nothing, although bytes follow.
        assert!(reader.trees().is_err());
        for cut in 0..content + 300 {
            assert!(Reader::new(&out[..cut]).is_err(), "{cut}");
        }
        let mut beginning = Reader::of_beginning(&out[..content + 1]).unwrap();
        assert!(beginning.counters(|_, _| {}).is_ok() && beginning.attachment().is_empty());
        let longest = [
            PAYLOAD_VERSION,
            ATTACHMENT,
            255,
            255,
            255,
            255,
            255,
            255,
            255,
            255,
            255,
            1,
        ];
        assert!(Reader::new(&longest).is_err());
        for unknown in [SILENT | ATTACHMENT, 4] {
            assert!(Reader::new(&[PAYLOAD_VERSION, unknown, 0]).is_err());
        }
    }

    #[test]
    fn the_mark_of_a_silent_prepare_is_in_its_head() {
        let mut out = vec![9; 3];
        begin_silent(&mut out);
        put_id(&mut out, &PreparedId::xa(b"id"));
        for read in [Reader::of_prepare, Reader::of_beginning] {
            let mut reader = read(&out).unwrap();
            assert!(reader.is_silent() && reader.attachment().is_empty());
            assert_eq!(reader.id(), Ok(PreparedId::xa(b"id")));
        }
        // No other record can have it.
        assert_eq!(Reader::new(&out).map(drop), Err(NO_PREPARE));
        // What was written before there was a mark has none.
        begin(&mut out, 0);
        assert!(!Reader::of_prepare(&out).unwrap().is_silent());
        assert!(!Reader::of_prepare(&[FIRST_VERSION]).unwrap().is_silent());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn what_is_encoded_is_decoded(
            trees in prop::collection::vec(
                (any::<u32>(), prop::collection::vec(
                    (any::<bool>(), prop::collection::vec(any::<u8>(), 0..40), prop::collection::vec(any::<u8>(), 0..300)), 0..6)), 0..4),
            counters in prop::collection::vec((any::<u32>(), any::<u64>()), 0..3),
            attachment in prop::collection::vec(any::<u8>(), 0..300),
        ) {
            let mut out = Vec::new();
            begin(&mut out, attachment.len());
            let ids: Vec<(TreeId, u64)> = counters.iter().map(|(t, v)| (TreeId(*t), *v)).collect();
            put_counters(&mut out, &ids);
            put_varint(&mut out, trees.len() as u64);
            let mut expected = Vec::new();
            for (tree, writes) in &trees {
                put_varint(&mut out, u64::from(*tree));
                put_varint(&mut out, writes.len() as u64);
                let mut kept = Vec::new();
                for (is_put, key, value) in writes {
                    let op = if *is_put { Op::Put } else { Op::Delete };
                    put_write(&mut out, op, key, value);
                    kept.push((*is_put, key.clone(), if *is_put { value.clone() } else { Vec::new() }));
                }
                expected.push((*tree, kept));
            }
            if attachment.is_empty() {
                prop_assert_eq!(&decode(&in_version_1(&out)).unwrap(), &expected);
            }
            out.extend_from_slice(&attachment);
            prop_assert_eq!(decode(&out).unwrap(), expected);
            prop_assert_eq!(Reader::new(&out).unwrap().attachment(), attachment);
            let mut seen = Vec::new();
            let mut reader = Reader::new(&out).unwrap();
            reader.counters(|tree, value| seen.push((tree, value))).unwrap();
            prop_assert_eq!(seen, ids);
            // Every shorter prefix is refused.
            for cut in 0..out.len() {
                prop_assert!(decode(&out[..cut]).is_err());
            }
        }

        #[test]
        fn any_bytes_are_decoded_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = decode(&bytes);
        }
    }
}
