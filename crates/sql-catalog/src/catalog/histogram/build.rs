//! Construction of histograms: from the values of a sample to buckets, one for each value or of equal height.
//!
//! Neighbours: `session::histogram` reads the rows.
//! **Invariant**: memory is that of the values that were added, of texts their first characters only.

use std::collections::BTreeMap;

use esker_types::collation::char_offset;
use esker_types::{SqlResult, Value, ValueRef};

use super::{About, Bucket, Histogram, codec_of};
use crate::catalog::ColumnDef;
use crate::codec::{KeyCodec, UTC};

/// Characters of a text that count, as in MySQL.
const TEXT_CHARS: usize = 42;

/// What a histogram is to be.
#[derive(Debug, Clone, Copy)]
pub struct Wanted {
    /// Most buckets.
    pub buckets: u32,
    /// Share of the rows that were read.
    pub sampling_rate: f64,
    /// Now, microseconds since the epoch.
    pub now_micros: i64,
    /// ANALYZE TABLE makes it anew.
    pub auto_update: bool,
}

/// Values of a column, with how often each was met.
pub struct Collector {
    codec: KeyCodec,
    /// By their encoding, which is their order.
    values: BTreeMap<Box<[u8]>, (Value, u64)>,
    nulls: u64,
    key: Vec<u8>,
}

impl Collector {
    /// Nothing yet.
    pub fn new(column: &ColumnDef) -> Self {
        Self {
            codec: codec_of(column),
            values: BTreeMap::new(),
            nulls: 0,
            key: Vec::new(),
        }
    }

    /// Adds the value of a row; TIMESTAMPs are in UTC.
    ///
    /// # Errors
    /// The value is not of the column's type.
    pub fn add(&mut self, value: ValueRef<'_>) -> SqlResult<()> {
        let value = match value {
            ValueRef::Null => {
                self.nulls += 1;
                return Ok(());
            }
            ValueRef::Str(text) => ValueRef::Str(self.beginning(text)),
            value => value,
        };
        self.key.clear();
        self.codec.encode_part(0, value, &UTC, &mut self.key)?;
        match self.values.get_mut(self.key.as_slice()) {
            Some((_, count)) => *count += 1,
            None => {
                let key = self.key.as_slice().into();
                self.values.insert(key, (value.to_owned(), 1));
            }
        }
        Ok(())
    }

    fn beginning<'t>(&self, text: &'t [u8]) -> &'t [u8] {
        let chars = match self.codec.parts()[0].ty.collation.is_binary() {
            true => text.len().min(TEXT_CHARS),
            false => char_offset(text, TEXT_CHARS),
        };
        &text[..chars]
    }

    /// The histogram of all that was added.
    ///
    /// # Errors
    /// A value cannot be encoded.
    pub fn finish(self, column: &ColumnDef, wanted: Wanted) -> SqlResult<Histogram> {
        let values: Vec<(Value, u64)> = self.values.into_values().collect();
        let rows = self.nulls + values.iter().map(|(_, count)| count).sum::<u64>();
        let singleton = values.len() <= wanted.buckets as usize;
        let mut division = Division {
            rows: rows.max(1) as f64,
            // A value that was met once stands for several that were not met (the GEE estimator).
            unmet: (1.0 / wanted.sampling_rate.clamp(1e-9, 1.0)).sqrt() - 1.0,
            passed: 0,
            open: None,
            buckets: Vec::with_capacity(values.len().min(wanted.buckets as usize)),
        };
        match singleton {
            true => division.one_each(values),
            false => division.of_like_weight(values, wanted.buckets as usize),
        }
        let about = About {
            singleton,
            nulls: self.nulls as f64 / division.rows,
            sampling_rate: wanted.sampling_rate,
            buckets_specified: wanted.buckets,
            updated_micros: wanted.now_micros,
            auto_update: wanted.auto_update,
        };
        Histogram::new(column, about, division.buckets)
    }
}

/// A bucket that is being filled.
struct Open {
    lower: Value,
    upper: Value,
    rows: u64,
    values: u64,
    /// Values that were met once.
    once: u64,
}

/// Divides values into buckets.
struct Division {
    /// All rows, those without a value too.
    rows: f64,
    /// Values that were not met, for each that was met once.
    unmet: f64,
    /// Rows in the buckets that are made.
    passed: u64,
    open: Option<Open>,
    buckets: Vec<Bucket>,
}

impl Division {
    fn one_each(&mut self, values: Vec<(Value, u64)>) {
        for (value, count) in values {
            self.passed += count;
            self.buckets.push(Bucket {
                lower: value.clone(),
                upper: value,
                cumulative: self.passed as f64 / self.rows,
                distinct: 1.0,
            });
        }
    }

    /// A value that is frequent enough for a bucket gets one for itself.
    fn of_like_weight(&mut self, values: Vec<(Value, u64)>, most: usize) {
        let all: u64 = values.iter().map(|(_, count)| count).sum();
        for (value, count) in values {
            let left = most - self.buckets.len();
            let share = (all - self.passed).div_ceil(left as u64);
            let full = |open: &Open| open.rows + count > share;
            if left > 1 && self.open.as_ref().is_some_and(full) {
                self.close();
            }
            match &mut self.open {
                None => {
                    self.open = Some(Open {
                        lower: value.clone(),
                        upper: value,
                        rows: count,
                        values: 1,
                        once: u64::from(count == 1),
                    });
                }
                Some(open) => {
                    open.upper = value;
                    open.rows += count;
                    open.values += 1;
                    open.once += u64::from(count == 1);
                }
            }
        }
        self.close();
    }

    fn close(&mut self) {
        let Some(open) = self.open.take() else {
            return;
        };
        self.passed += open.rows;
        self.buckets.push(Bucket {
            lower: open.lower,
            upper: open.upper,
            cumulative: self.passed as f64 / self.rows,
            distinct: open.values as f64 + open.once as f64 * self.unmet,
        });
    }
}
