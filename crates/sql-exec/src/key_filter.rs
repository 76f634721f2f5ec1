//! Filters over the keys of a hash table: a bitmap of close integers, or a blocked Bloom filter.
//!
//! Neighbours: `join_table` has the keys; `parallel::runtime_filter` applies it to rows of tables that are read before
//! the join. **Invariant**: a key that the table has passes.

use esker_sql_catalog::exec_error::ExecResult;
use esker_sql_plan::expr::rowkey::integer_of;
use esker_sql_plan::plan::HashBy;
use esker_types::Value;
use esker_types::cmp::CmpKind;

use super::join_table::{JoinTable, KeyHash};

/// Integers have a bit each, unless that takes more than so many bits for a key, and more than so many in all.
const MOST_BITS_PER_KEY: u64 = 64;
const FEW_BITS: u64 = 1 << 20;
/// Keys for a word of the other filter: of what is not there one in forty passes.
const KEYS_PER_WORD: usize = 4;

/// Integers that are worth a list, by which they are looked up one by one.
pub(crate) const FEW_INTEGERS: usize = 16 << 10;

/// See the module.
pub(crate) enum KeyFilter {
    /// Integers from `first` on.
    Integers { first: i64, bits: Box<[u64]> },
    /// Three bits of one word for each hash; as many words as a power of two.
    Hashes { hash: KeyHash, words: Box<[u64]> },
}

impl KeyFilter {
    /// The keys of a table, which compare by `by`.
    pub fn of(table: &JoinTable, by: &[HashBy]) -> ExecResult<Self> {
        let keys = table.keys() as u64;
        let most = (keys * MOST_BITS_PER_KEY).max(FEW_BITS);
        if let Some((first, last)) = integers(table, by)?
            && last.abs_diff(first) < most
        {
            let mut bits = vec![0_u64; (last.abs_diff(first) / 64 + 1) as usize].into();
            table.each(|key, _| {
                let nth = integer_of(key).map_or(0, |v| v.abs_diff(first));
                set(&mut bits, nth);
                Ok(())
            })?;
            return Ok(Self::Integers { first, bits });
        }
        let hash = KeyHash::default();
        debug_assert!(most >= FEW_BITS);
        let mut words: Box<[u64]> =
            vec![0; table.keys().div_ceil(KEYS_PER_WORD).next_power_of_two()].into();
        table.each(|key, _| {
            let (word, bits) = place(hash.of(key), words.len());
            words[word] |= bits;
            Ok(())
        })?;
        Ok(Self::Hashes { hash, words })
    }

    /// Bytes in memory.
    pub fn bytes(&self) -> u64 {
        let words = match self {
            Self::Integers { bits, .. } => bits.len(),
            Self::Hashes { words, .. } => words.len(),
        };
        (words * size_of::<u64>()) as u64
    }

    /// The answer for a key of one value, where that needs no encoding.
    #[inline]
    pub fn may_have_value(&self, value: &Value) -> Option<bool> {
        if let Self::Hashes { .. } = self {
            return None;
        }
        match value {
            Value::Int(v) => self.may_have_integer(*v),
            Value::UInt(v) => match i64::try_from(*v) {
                Ok(v) => self.may_have_integer(v),
                Err(_) => Some(false),
            },
            _ => Some(false),
        }
    }

    /// The answer for an integer, where that needs no encoding.
    #[inline]
    pub fn may_have_integer(&self, value: i64) -> Option<bool> {
        let Self::Integers { first, bits } = self else {
            return None;
        };
        let nth = value.checked_sub(*first).and_then(|n| n.try_into().ok());
        Some(nth.is_some_and(|nth: u64| {
            let word = bits.get((nth / 64) as usize);
            word.is_some_and(|word| word >> (nth % 64) & 1 == 1)
        }))
    }

    /// May a row of the table have this key?
    #[inline]
    pub fn may_have(&self, key: &[u8]) -> bool {
        match self {
            Self::Integers { .. } => integer_of(key)
                .and_then(|v| self.may_have_value(&Value::Int(v)))
                .unwrap_or(false),
            Self::Hashes { hash, words } => {
                let (word, bits) = place(hash.of(key), words.len());
                words[word] & bits == bits
            }
        }
    }
}

/// The keys of a table, in order, if they are integers and not many.
pub(crate) fn few_integers(table: &JoinTable, by: &[HashBy]) -> ExecResult<Option<Box<[i64]>>> {
    if !matches!(by, [by] if by.kind == CmpKind::Int) || table.keys() > FEW_INTEGERS {
        return Ok(None);
    }
    let mut found = Some(Vec::with_capacity(table.keys()));
    table.each(|key, _| {
        match (&mut found, integer_of(key)) {
            (Some(all), Some(v)) => all.push(v),
            _ => found = None,
        }
        Ok(())
    })?;
    Ok(found.map(|mut all| {
        all.sort_unstable();
        all.dedup();
        debug_assert!(all.len() <= FEW_INTEGERS);
        all.into()
    }))
}

/// The smallest and the largest key, if all are integers.
fn integers(table: &JoinTable, by: &[HashBy]) -> ExecResult<Option<(i64, i64)>> {
    let mut range = match by {
        [by] if by.kind == CmpKind::Int => Some((i64::MAX, i64::MIN)),
        _ => return Ok(None),
    };
    table.each(|key, _| {
        range = range.and_then(|(first, last)| {
            let v = integer_of(key)?;
            Some((first.min(v), last.max(v)))
        });
        Ok(())
    })?;
    Ok(range.filter(|(first, last)| first <= last))
}

#[inline]
fn set(bits: &mut Box<[u64]>, nth: u64) {
    bits[(nth / 64) as usize] |= 1 << (nth % 64);
}

/// The word of a hash, of so many, and its bits.
#[inline]
fn place(hash: u64, words: usize) -> (usize, u64) {
    let bits = 1 << (hash & 63) | 1 << (hash >> 6 & 63) | 1 << (hash >> 12 & 63);
    debug_assert!(words.is_power_of_two());
    ((hash >> 32) as usize & (words - 1), bits)
}

#[cfg(test)]
mod tests {
    use super::*;
    use esker_sql_plan::expr::rowkey::encode_for;

    fn table(values: &[Value], kind: CmpKind) -> JoinTable {
        let mut table = JoinTable::default();
        for value in values {
            table.push(&key(value, kind), std::iter::empty());
        }
        table
    }

    fn key(value: &Value, kind: CmpKind) -> Vec<u8> {
        let mut out = Vec::new();
        encode_for(value, kind, &mut out);
        out
    }

    fn by(kind: CmpKind) -> [HashBy; 1] {
        [HashBy {
            kind,
            null_safe: false,
        }]
    }

    #[test]
    fn integers_pass_exactly_if_they_are_there() {
        let has = |v: i64| v % 7 == 0;
        let values: Vec<Value> = (-500..500).filter(|v| has(*v)).map(Value::Int).collect();
        let filter = KeyFilter::of(&table(&values, CmpKind::Int), &by(CmpKind::Int)).unwrap();
        for v in -1000..1000 {
            let expected = has(v) && (-500..500).contains(&v);
            assert_eq!(filter.may_have_value(&Value::Int(v)), Some(expected), "{v}");
            let found = filter.may_have(&key(&Value::Int(v), CmpKind::Int));
            assert_eq!(found, expected, "{v}");
        }
        for other in [Value::Int(i64::MIN), Value::UInt(u64::MAX), Value::Null] {
            assert_eq!(filter.may_have_value(&other), Some(false), "{other:?}");
        }
        assert_eq!(filter.may_have_value(&Value::UInt(7)), Some(true));
    }

    #[test]
    fn what_is_far_apart_or_no_integer_has_few_bits_all_the_same() {
        let far: Vec<Value> = (0..1000).map(|n| Value::Int(n << 40)).collect();
        let all = [i64::MIN, -1, 0, i64::MAX].map(Value::Int).to_vec();
        let huge = vec![Value::UInt(u64::MAX), Value::Int(1)];
        let doubles: Vec<Value> = (0..1000).map(|n| Value::Double(f64::from(n))).collect();
        let kinds = [CmpKind::Int, CmpKind::Int, CmpKind::Int, CmpKind::Double];
        for (values, kind) in [far, all, huge, doubles].into_iter().zip(kinds) {
            let filter = KeyFilter::of(&table(&values, kind), &by(kind)).unwrap();
            assert!(filter.bytes() <= 1 << 17, "{} bytes", filter.bytes());
            assert!(filter.may_have_value(&values[0]).is_none());
            for value in &values {
                assert!(filter.may_have(&key(value, kind)), "{value:?}");
            }
            let others = (0..1000).filter(|n| {
                let other = match kind {
                    CmpKind::Double => Value::Double(f64::from(*n) + 0.5),
                    _ => Value::Int((i64::from(*n) << 40) + 5),
                };
                filter.may_have(&key(&other, kind))
            });
            let passed = others.count();
            assert!(passed < 200, "{passed} of 1000 pass");
        }
        let none = KeyFilter::of(&JoinTable::default(), &by(CmpKind::Int)).unwrap();
        assert!(!none.may_have(&key(&Value::Int(1), CmpKind::Int)));
    }
}
