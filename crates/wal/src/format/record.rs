//! Records, and the parts of chained ones.

/// Records start at multiples of this.
pub(crate) const RECORD_ALIGN: u64 = 8;

/// Length word and kind byte.
pub(crate) const HEAD_BYTES: u64 = 5;

/// Chain id of chunks and last parts.
pub(crate) const CHAIN_BYTES: u64 = 8;

/// Most trees that one record may list.
pub(crate) const MAX_TREES: usize = 1 << 16;

const CHAINED: u8 = 0x80;
const ATTACHMENT: u8 = 0x40;
/// The bits of the kind byte that hold the kind.
const KIND_MASK: u8 = !(CHAINED | ATTACHMENT);
const CHUNK: u8 = 6;
const _: () = assert!(CHUNK & (CHAINED | ATTACHMENT) == 0);

/// What a record is for. The log itself gives a meaning to none of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum RecordKind {
    /// A transaction's writes.
    Commit = 1,
    /// The writes of a two-phase transaction, not decided yet.
    Prepare = 2,
    /// A prepared transaction commits.
    CommitPrepared = 3,
    /// A prepared transaction is rolled back.
    RollbackPrepared = 4,
    /// A counter is set outside a transaction.
    CounterSet = 5,
    /// Nothing.
    Noop = 7,
    /// An attachment and nothing else.
    Note = 8,
}

impl RecordKind {
    fn from_byte(byte: u8) -> Option<Self> {
        Some(match byte {
            1 => Self::Commit,
            2 => Self::Prepare,
            3 => Self::CommitPrepared,
            4 => Self::RollbackPrepared,
            5 => Self::CounterSet,
            7 => Self::Noop,
            8 => Self::Note,
            _ => return None,
        })
    }

    pub(super) fn is_two_phase(self) -> bool {
        matches!(
            self,
            Self::Prepare | Self::CommitPrepared | Self::RollbackPrepared
        )
    }

    pub(super) fn is_counter(self) -> bool {
        self == Self::CounterSet
    }
}

/// The kind byte of a record of one part.
#[inline]
pub(crate) fn whole_byte(kind: RecordKind, has_attachment: bool) -> u8 {
    kind as u8 | attachment_bit(has_attachment)
}

/// The kind byte of a part of a chained record: the last one (`Some`) or a chunk (`None`).
pub(crate) fn chain_byte(kind: Option<RecordKind>, has_attachment: bool) -> u8 {
    let kind = kind.map_or(CHUNK, |kind| kind as u8 | CHAINED);
    debug_assert!(kind & ATTACHMENT == 0);
    kind | attachment_bit(has_attachment)
}

#[inline]
fn attachment_bit(has_attachment: bool) -> u8 {
    if has_attachment { ATTACHMENT } else { 0 }
}

/// Bytes of a varint.
pub(crate) fn varint_len(value: u32) -> u64 {
    u64::from((32 - (value | 1).leading_zeros()).div_ceil(7))
}

/// Encodes a varint into `out` and returns the used part.
pub(crate) fn put_varint(mut value: u32, out: &mut [u8; 5]) -> &[u8] {
    debug_assert!(varint_len(value) <= out.len() as u64);
    let mut n = 0;
    while value >= 0x80 {
        out[n] = value as u8 | 0x80;
        value >>= 7;
        n += 1;
    }
    out[n] = value as u8;
    &out[..=n]
}

/// A varint and what follows it.
fn take_varint(bytes: &[u8]) -> Option<(u32, &[u8])> {
    let mut value = 0_u64;
    for (i, &byte) in bytes.iter().enumerate().take(5) {
        value |= u64::from(byte & 0x7f) << (7 * i);
        if byte & 0x80 == 0 {
            return Some((u32::try_from(value).ok()?, &bytes[i + 1..]));
        }
    }
    None
}

/// A record, or one part of a chained one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Part<'a> {
    /// `None` for a chunk.
    pub(crate) kind: Option<RecordKind>,
    /// Where the chain starts, for parts of chained records.
    pub(crate) chain: Option<u64>,
    /// Whether the record ends with an attachment; every part of a chained one says so.
    pub(crate) has_attachment: bool,
    /// Encoded tree ids, checked.
    tree_bytes: &'a [u8],
    pub(crate) payload: &'a [u8],
    /// Length with padding.
    pub(crate) padded: u64,
}

impl Part<'_> {
    pub(crate) fn trees(&self) -> impl Iterator<Item = u32> {
        let mut rest = self.tree_bytes;
        std::iter::from_fn(move || {
            let (tree, behind) = take_varint(rest)?;
            rest = behind;
            Some(tree)
        })
    }
}

/// The part at the start of `bytes`; `None` if there is no valid one.
pub(crate) fn parse_part(bytes: &[u8]) -> Option<Part<'_>> {
    let len = u32::from_le_bytes(bytes.get(..4)?.try_into().ok()?);
    let padded = u64::from(len).next_multiple_of(RECORD_ALIGN);
    if padded > bytes.len() as u64 {
        return None;
    }
    let (&kind_byte, mut rest) = bytes.get(4..len as usize)?.split_first()?;
    let chained = kind_byte & CHAINED != 0;
    let has_attachment = kind_byte & ATTACHMENT != 0;
    let is_chunk = kind_byte & !ATTACHMENT == CHUNK;
    let kind = if is_chunk {
        None
    } else {
        Some(RecordKind::from_byte(kind_byte & KIND_MASK)?)
    };
    let mut chain = None;
    if chained || is_chunk {
        let (id, behind) = rest.split_first_chunk()?;
        chain = Some(u64::from_le_bytes(*id));
        rest = behind;
    }
    let mut tree_bytes: &[u8] = &[];
    if !is_chunk {
        let (count, behind) = take_varint(rest)?;
        if count as usize > MAX_TREES {
            return None;
        }
        let mut payload = behind;
        for _ in 0..count {
            payload = take_varint(payload)?.1;
        }
        tree_bytes = &behind[..behind.len() - payload.len()];
        rest = payload;
    }
    debug_assert!(kind.is_some() || chain.is_some());
    Some(Part {
        kind,
        chain,
        has_attachment,
        tree_bytes,
        payload: rest,
        padded,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn varints_round_trip(value: u32) {
            let mut buf = [0; 5];
            let encoded = put_varint(value, &mut buf);
            prop_assert_eq!(encoded.len() as u64, varint_len(value));
            prop_assert_eq!(take_varint(encoded), Some((value, &[][..])));
        }

        #[test]
        fn any_bytes_are_parsed_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
            if let Some(part) = parse_part(&bytes) {
                prop_assert!(part.padded as usize <= bytes.len());
                prop_assert!(part.payload.len() < bytes.len());
                prop_assert!(part.trees().count() <= part.tree_bytes.len());
            }
        }
    }

    #[test]
    fn every_kind_and_no_other_is_known() {
        for byte in 0..=255_u8 {
            let mut bytes = [0; 24];
            bytes[0] = 20;
            bytes[4] = byte;
            let known = matches!(byte & KIND_MASK, 1..=5 | 7 | 8) || byte & !ATTACHMENT == CHUNK;
            assert_eq!(parse_part(&bytes).is_some(), known, "kind byte {byte}");
        }
    }
}
