//! Zone maps: minimum, maximum and presence of NULL per block, for some fields of the values.
//!
//! Neighbours: `writer` collects, `index` keeps them behind the separators, `iter` passes over blocks for a
//! [`BlockSkipper`](super::BlockSkipper). Whoever gives values a meaning knows their [`Fields`]; without that nothing
//! is said. The bytes are described in `docs/formats/extent.md`.
//!
//! **Invariants**
//! - What a block says is true for every version in it, whatever a snapshot sees of them. A block with deletes only has
//!   no value.
//! - A block says nothing if its last key goes on in the next block of the extent: whoever left it out would take an
//!   older version of that key for the newest.

use std::ops::RangeInclusive;
use std::sync::Arc;

use crate::Op;
use crate::codec::{Malformed, Reader, put_varint};

/// Most fields that blocks speak of.
pub const MAX_FIELDS: usize = 16;

/// Names a field. Fields whose numbers mean something else have other names, also in the future: what is on disk is
/// found again by them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FieldId(pub u64);

/// A field of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldValue {
    /// It could not be read.
    Unknown,
    /// There is none.
    Null,
    /// Its place in the order of all values of the field.
    Number(u64),
}

/// Knows the fields of a tree's values.
pub trait Fields: Send + Sync {
    /// Which there are; no more than [`MAX_FIELDS`].
    fn ids(&self) -> &[FieldId];

    /// Reads the fields of a value into as many places.
    fn read(&self, value: &[u8], out: &mut [FieldValue]);
}

/// Values of a field.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Zone {
    has_null: bool,
    /// The smallest and the largest number.
    numbers: Option<(u64, u64)>,
}

/// A condition on one field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldTest {
    /// Of which field.
    pub field: FieldId,
    /// Whether it may hold for NULL.
    pub null: bool,
    /// For which numbers it may hold.
    pub numbers: Vec<RangeInclusive<u64>>,
}

impl FieldTest {
    /// Whether it may hold for a value.
    pub(super) fn may_hold_for(&self, value: FieldValue) -> bool {
        match value {
            FieldValue::Unknown => true,
            FieldValue::Null => self.null,
            FieldValue::Number(number) => self.numbers.iter().any(|range| range.contains(&number)),
        }
    }

    fn may_hold(&self, zone: &Zone) -> bool {
        let overlaps = |(low, high): (u64, u64)| {
            let mut ranges = self.numbers.iter();
            ranges.any(|range| *range.start() <= high && low <= *range.end())
        };
        (zone.has_null && self.null) || zone.numbers.is_some_and(overlaps)
    }
}

/// What is known of a field of the block that is being filled.
#[derive(Clone, Copy, Default)]
struct Seen {
    is_unknown: bool,
    zone: Zone,
}

/// How a field's zone begins on disk.
const UNKNOWN: u8 = 0;
const NO_VALUE: u8 = 1;
const ONLY_NULL: u8 = 2;
const NUMBERS: u8 = 3;
const NUMBERS_AND_NULL: u8 = 4;

/// Most bytes of a zone: its kind and two varints.
const MAX_ZONE_BYTES: usize = 21;
const _: () = assert!(MAX_ZONE_BYTES == 1 + 10 + 10, "what it is, and two numbers");
/// Name and base of a field.
const MAX_FIELD_BYTES: usize = 18;
const _: () = assert!(
    MAX_FIELD_BYTES == size_of::<FieldId>() + 10,
    "its id and its base"
);

/// Collects what the blocks of an extent say.
#[derive(Default)]
pub(super) struct ZoneBuilder {
    fields: Option<Arc<dyn Fields>>,
    /// The first number of each field; the smallest ones of the blocks are stored as distances from it.
    bases: Vec<Option<u64>>,
    values: Vec<FieldValue>,
    seen: Vec<Seen>,
    body: Vec<u8>,
    block: Vec<u8>,
}

impl ZoneBuilder {
    pub(super) fn new(fields: Option<Arc<dyn Fields>>) -> Self {
        // Of no field nothing is written, not even for each block.
        let fields = fields.filter(|f| !f.ids().is_empty());
        let count = fields.as_ref().map_or(0, |f| f.ids().len());
        assert!(count <= MAX_FIELDS);
        ZoneBuilder {
            bases: vec![None; count],
            values: vec![FieldValue::Unknown; count],
            seen: vec![Seen::default(); count],
            fields,
            ..ZoneBuilder::default()
        }
    }

    /// Takes an entry of the current block.
    pub(super) fn add(&mut self, op: Op, value: &[u8]) {
        let Some(fields) = &self.fields else {
            return;
        };
        if op == Op::Delete {
            return;
        }
        self.values.fill(FieldValue::Unknown);
        debug_assert_eq!(self.values.len(), fields.ids().len());
        fields.read(value, &mut self.values);
        for (seen, value) in self.seen.iter_mut().zip(&self.values) {
            match *value {
                FieldValue::Unknown => seen.is_unknown = true,
                FieldValue::Null => seen.zone.has_null = true,
                FieldValue::Number(n) => {
                    let numbers = &mut seen.zone.numbers;
                    *numbers =
                        Some(numbers.map_or((n, n), |(low, high)| (low.min(n), high.max(n))));
                }
            }
        }
    }

    /// Ends a block; `goes_on`: its last key has versions in the next one.
    pub(super) fn finish_block(&mut self, goes_on: bool) {
        if self.fields.is_none() {
            return;
        }
        self.block.clear();
        for (seen, base) in self.seen.iter_mut().zip(&mut self.bases) {
            let Seen { is_unknown, zone } = std::mem::take(seen);
            match (is_unknown, zone.numbers) {
                (true, _) => self.block.push(UNKNOWN),
                (false, None) if zone.has_null => self.block.push(ONLY_NULL),
                (false, None) => self.block.push(NO_VALUE),
                (false, Some((low, high))) => {
                    let kind = if zone.has_null {
                        NUMBERS_AND_NULL
                    } else {
                        NUMBERS
                    };
                    self.block.push(kind);
                    let base = *base.get_or_insert(low);
                    put_varint(&mut self.block, zigzag(low.wrapping_sub(base)));
                    put_varint(&mut self.block, high - low);
                }
            }
        }
        debug_assert!(self.block.len() <= self.seen.len() * MAX_ZONE_BYTES);
        if goes_on {
            self.block.clear();
        }
        put_varint(&mut self.body, self.block.len() as u64);
        self.body.extend_from_slice(&self.block);
    }

    /// Upper bound of what [`ZoneBuilder::finish`] would append if one block more were ended.
    pub(super) fn bound(&self) -> usize {
        let fields = self.seen.len();
        5 + fields * (MAX_FIELD_BYTES + MAX_ZONE_BYTES) + self.body.len() + 5
    }

    /// Appends what was collected and begins a new extent.
    pub(super) fn finish(&mut self, out: &mut Vec<u8>) {
        let most = out.len() + self.bound();
        put_varint(out, self.seen.len() as u64);
        if let Some(fields) = &self.fields {
            for (id, base) in fields.ids().iter().zip(&mut self.bases) {
                out.extend_from_slice(&id.0.to_le_bytes());
                put_varint(out, base.take().unwrap_or_default());
            }
        }
        out.append(&mut self.body);
        debug_assert!(out.len() <= most);
    }
}

/// A distance in either direction as a small number.
fn zigzag(distance: u64) -> u64 {
    let signed = distance as i64;
    ((signed << 1) ^ (signed >> 63)) as u64
}

fn unzigzag(number: u64) -> u64 {
    (number >> 1) ^ (number & 1).wrapping_neg()
}

/// What the blocks of an extent say, as it is kept in memory.
#[derive(Default)]
pub(super) struct ZoneMaps {
    /// Name and base of each field.
    fields: Box<[(FieldId, u64)]>,
    body: Box<[u8]>,
    /// Where the zone_maps of each block begin and end in `body`.
    places: Box<[(u32, u32)]>,
}

impl ZoneMaps {
    /// What [`ZoneBuilder::finish`] has written for so many blocks, to the end of `reader`.
    pub(super) fn read(reader: &mut Reader<'_>, blocks: usize) -> Result<ZoneMaps, Malformed> {
        let count = reader.varint_u32()? as usize;
        if count > MAX_FIELDS {
            return Err("blocks speak of too many fields");
        }
        if count == 0 {
            return Ok(ZoneMaps::default());
        }
        let mut fields = Vec::with_capacity(count);
        for _ in 0..count {
            fields.push((FieldId(reader.u64()?), reader.varint()?));
        }
        let (mut body, mut places) = (Vec::new(), Vec::with_capacity(blocks));
        for _ in 0..blocks {
            let start = body.len() as u32;
            body.extend_from_slice(reader.bytes()?);
            places.push((start, body.len() as u32));
        }
        let zone_maps = ZoneMaps {
            fields: fields.into(),
            body: body.into(),
            places: places.into(),
        };
        for block in 0..blocks {
            let known = zone_maps.each(block, |_, _| {})?;
            if !known && zone_maps.places[block].0 != zone_maps.places[block].1 {
                return Err("a block speaks of more or fewer fields than there are");
            }
        }
        Ok(zone_maps)
    }

    pub(super) fn bytes(&self) -> usize {
        self.body.len() + size_of_val(&*self.fields) + size_of_val(&*self.places)
    }

    /// Whether no value of the block can meet all tests.
    pub(super) fn rule_out(&self, block: usize, tests: &[FieldTest]) -> bool {
        let mut ruled_out = false;
        // It was read once, so that there can be no error.
        let read = self.each(block, |field, zone| {
            let mut tests = tests.iter().filter(|test| test.field == field);
            ruled_out |= tests.any(|test| !test.may_hold(zone));
        });
        debug_assert!(read.is_ok());
        ruled_out && read == Ok(true)
    }

    /// Calls `visit` with what is known of the fields of a block; false if nothing is said of the block.
    fn each(&self, block: usize, mut visit: impl FnMut(FieldId, &Zone)) -> Result<bool, Malformed> {
        let Some(&(start, end)) = self.places.get(block) else {
            return Ok(false);
        };
        if start == end {
            return Ok(false);
        }
        let mut reader = Reader::new(&self.body[start as usize..end as usize]);
        for (id, base) in &self.fields {
            let kind = reader.u8()?;
            let numbers = match kind {
                UNKNOWN => continue,
                NO_VALUE | ONLY_NULL => None,
                NUMBERS | NUMBERS_AND_NULL => {
                    let low = base.wrapping_add(unzigzag(reader.varint()?));
                    let high = low.checked_add(reader.varint()?);
                    Some((low, high.ok_or("the numbers of a block are too large")?))
                }
                _ => return Err("a block says something that is not known"),
            };
            let zone = Zone {
                has_null: matches!(kind, ONLY_NULL | NUMBERS_AND_NULL),
                numbers,
            };
            visit(*id, &zone);
        }
        Ok(reader.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values of two bytes per field: 0 NULL, 1 unknown, else a number of the second.
    struct Pairs([FieldId; 2]);

    impl Fields for Pairs {
        fn ids(&self) -> &[FieldId] {
            &self.0
        }
        fn read(&self, value: &[u8], out: &mut [FieldValue]) {
            for (pair, out) in value.chunks(2).zip(out) {
                *out = match pair[0] {
                    0 => FieldValue::Null,
                    1 => FieldValue::Unknown,
                    // Numbers at both ends, so that distances wrap.
                    2 => FieldValue::Number(u64::from(pair[1])),
                    _ => FieldValue::Number(u64::MAX - u64::from(pair[1])),
                };
            }
        }
    }

    const IDS: [FieldId; 2] = [FieldId(7), FieldId(1 << 60)];

    fn zone_maps(blocks: &[(&[[u8; 4]], bool)]) -> (Vec<u8>, ZoneMaps) {
        let mut builder = ZoneBuilder::new(Some(Arc::new(Pairs(IDS))));
        for (values, goes_on) in blocks {
            values.iter().for_each(|value| builder.add(Op::Put, value));
            builder.add(Op::Delete, b"");
            builder.finish_block(*goes_on);
        }
        let bound = builder.bound();
        let mut bytes = Vec::new();
        builder.finish(&mut bytes);
        assert!(bytes.len() <= bound);
        let zone_maps = ZoneMaps::read(&mut Reader::new(&bytes), blocks.len()).unwrap();
        (bytes, zone_maps)
    }

    fn test(field: usize, null: bool, numbers: RangeInclusive<u64>) -> FieldTest {
        FieldTest {
            field: IDS[field],
            null,
            numbers: vec![numbers],
        }
    }

    #[test]
    fn a_block_is_ruled_out_by_what_none_of_its_values_meets() {
        let (_, zone_maps) = zone_maps(&[
            (&[[2, 10, 3, 5], [2, 20, 3, 1]], false),
            (&[[0, 0, 2, 9], [2, 5, 2, 9]], false),
            (&[[1, 0, 0, 0], [2, 5, 0, 0]], false),
            (&[[2, 5, 2, 5]], true),
            (&[], false),
        ]);
        let out = |block, tests: &[FieldTest]| zone_maps.rule_out(block, tests);
        assert!(!out(0, &[test(0, false, 20..=30)]) && !out(0, &[test(0, false, 0..=10)]));
        assert!(out(0, &[test(0, true, 21..=30)]) && out(0, &[test(0, true, 0..=9)]));
        assert!(!out(0, &[test(1, false, u64::MAX - 5..=u64::MAX - 5)]));
        assert!(out(0, &[test(1, false, u64::MAX..=u64::MAX)]));
        // One of several is enough; a test without numbers rules out what has no NULL.
        assert!(out(0, &[test(0, false, 0..=50), test(1, false, 0..=50)]));
        let never = FieldTest {
            field: IDS[0],
            null: true,
            numbers: Vec::new(),
        };
        assert!(out(0, std::slice::from_ref(&never)) && !out(1, &[never]));
        assert!(!out(1, &[test(0, true, 6..=9)]) && out(1, &[test(0, false, 6..=9)]));
        // Something unknown, a field only of NULLs, a key that goes on, deletes only, a field nobody speaks of.
        assert!(!out(2, &[test(0, false, 6..=9)]) && out(2, &[test(1, false, 0..=u64::MAX)]));
        assert!(!out(3, &[test(0, false, 6..=9)]));
        assert!(out(4, &[test(0, true, 0..=u64::MAX)]));
        let other = FieldTest {
            field: FieldId(3),
            null: false,
            numbers: Vec::new(),
        };
        assert!((0..5).all(|block| !out(block, std::slice::from_ref(&other))));
        assert!(!ZoneMaps::default().rule_out(0, &[test(0, false, 0..=0)]));
    }

    #[test]
    fn values_without_fields_leave_no_bytes_for_their_blocks() {
        struct Nothing;
        impl Fields for Nothing {
            fn ids(&self) -> &[FieldId] {
                &[]
            }
            fn read(&self, _: &[u8], _: &mut [FieldValue]) {}
        }
        let mut builder = ZoneBuilder::new(Some(Arc::new(Nothing)));
        for _ in 0..3 {
            builder.add(Op::Put, b"x");
            builder.finish_block(false);
        }
        let mut bytes = Vec::new();
        builder.finish(&mut bytes);
        let mut reader = Reader::new(&bytes);
        assert!(ZoneMaps::read(&mut reader, 3).is_ok() && reader.is_empty());
    }

    #[test]
    fn damaged_zones_are_refused_or_stay_inside() {
        let (bytes, _) = zone_maps(&[
            (&[[2, 10, 3, 5], [2, 20, 3, 1]], false),
            (&[[0, 0, 2, 9], [2, 5, 2, 9]], false),
        ]);
        for cut in 0..bytes.len() {
            assert!(ZoneMaps::read(&mut Reader::new(&bytes[..cut]), 2).is_err());
        }
        for bit in 0..bytes.len() * 8 {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            if let Ok(zone_maps) = ZoneMaps::read(&mut Reader::new(&damaged), 2) {
                for block in 0..3 {
                    let _ = zone_maps.rule_out(block, &[test(0, true, 0..=3)]);
                }
            }
        }
    }
}
