//! `internal_partition`: the number of the partition that HASH and KEY give a row.
//!
//! Neighbours: the catalog writes calls of it into conditions over partitions; nobody else has a use for it. The
//! hashes of `collation` are not frozen, so this has its own. **Invariant**: the number of a row never changes, since
//! rows are counted and dropped by it; for integers and texts in the default collation it is MySQL's.

use super::call::{Call, int};
use super::ret::int as ret_int;
use super::{ANY_ARGS, FuncDef, TOTAL, def};
use crate::cast;
use crate::collation::Collation;
use crate::error::SqlResult;
use crate::sqltype::{SqlType, TypeKind};
use crate::value::Value;

/// Kind (0 HASH, 1 KEY ALGORITHM = 1, 2 KEY), LINEAR, number of partitions, then what decides.
pub(super) const DEFS: &[FuncDef] = &[def(
    "internal_partition",
    4,
    ANY_ARGS,
    TOTAL,
    ret_int::<10>,
    internal_partition,
)];

/// Most partitions of a table, subpartitions included: as in MySQL.
pub const MAX_PARTITIONS: usize = 8_192;

const FNV_OFFSET: u64 = 14_695_981_039_346_656_037;
const FNV_PRIME: u64 = 1_099_511_628_211;

fn internal_partition(c: &Call) -> SqlResult<Value> {
    let (is_hash, linear) = (c.int(0)? == 0, c.int(1)? != 0);
    let count = c.int(2)?.clamp(1, MAX_PARTITIONS as i64);
    let hash = match is_hash {
        // As if it were the smallest integer.
        true if c.null(3) => i64::MIN,
        true => c.int(3)?,
        false => {
            (3..c.argc())
                .fold(KeyHash::new(), |hash, i| hash.with(c.args[i], c.ty(i)))
                .first as u32 as i64
        }
    };
    if linear {
        return int(linear_part(hash, count));
    }
    int(match is_hash {
        true => (hash % count).abs(),
        false => hash % count,
    })
}

/// The part of a linear hash: a power of two that grows one part at a time.
fn linear_part(hash: i64, count: i64) -> i64 {
    let mask = (count as u64).next_power_of_two() as i64 - 1;
    match hash & mask {
        part if part < count => part,
        _ => hash & (mask >> 1),
    }
}

/// The hash of a key, column by column.
struct KeyHash {
    first: u64,
    second: u64,
}

impl KeyHash {
    fn new() -> Self {
        Self {
            first: 1,
            second: 4,
        }
    }

    fn with(mut self, value: &Value, ty: &SqlType) -> Self {
        match value {
            Value::Null => self.first ^= (self.first << 1) | 1,
            Value::Int(v) => self.bytes(&v.to_le_bytes()[..int_bytes(ty)]),
            Value::UInt(v) => self.bytes(&v.to_le_bytes()[..int_bytes(ty)]),
            Value::Date(d) => {
                let packed = d.year() * 512 + d.month() * 32 + d.day();
                self.bytes(&packed.to_le_bytes()[..3]);
            }
            Value::Double(v) if ty.kind == TypeKind::Float => {
                self.bytes(&(*v as f32).to_le_bytes());
            }
            Value::Double(v) => self.bytes(&v.to_le_bytes()),
            value => self.text(&cast::to_str(value, ty), ty.collation),
        }
        self
    }

    /// MySQL's `my_hash_sort_bin`.
    fn bytes(&mut self, bytes: &[u8]) {
        for byte in bytes {
            let mixed = (self.first & 63).wrapping_add(self.second);
            let mixed = mixed.wrapping_mul(u64::from(*byte));
            self.first ^= mixed.wrapping_add(self.first << 8);
            self.second = self.second.wrapping_add(3);
        }
    }

    /// A text, such that equal ones hash equally.
    fn text(&mut self, text: &[u8], collation: Collation) {
        if collation.is_binary() {
            return self.bytes(text);
        }
        let mut weights = Vec::new();
        collation.sort_key(text, &mut weights);
        if collation != Collation::UTF8MB4_0900_AI_CI {
            return self.bytes(&weights);
        }
        self.first ^= FNV_OFFSET;
        for weight in weights.chunks_exact(2) {
            self.first ^= u64::from(u16::from_be_bytes([weight[0], weight[1]]));
            self.first = self.first.wrapping_mul(FNV_PRIME);
        }
    }
}

/// Bytes of a stored integer.
fn int_bytes(ty: &SqlType) -> usize {
    match ty.kind {
        TypeKind::TinyInt | TypeKind::Year => 1,
        TypeKind::SmallInt => 2,
        TypeKind::MediumInt => 3,
        TypeKind::Int => 4,
        _ => 8,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn linear_parts_fill_the_last_power_of_two() {
        let parts: Vec<i64> = (0..8).map(|hash| linear_part(hash, 3)).collect();
        assert_eq!(parts, [0, 1, 2, 1, 0, 1, 2, 1]);
        assert_eq!(linear_part(7, 1), 0);
        assert_eq!(linear_part(-1, 4), 3);
    }
}
