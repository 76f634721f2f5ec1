//! Histograms as rows of the system tree; `docs/formats/catalog.md` has the bytes.
//!
//! Neighbours: `catalog` reads them with the tables, `change` writes and deletes them.
//! **Invariant**: bytes are checked when read, damage is an error.

use esker_types::SqlResult;

use super::{About, Bucket, Histogram, MAX_BUCKETS};
use crate::catalog::ColumnDef;
use crate::catalog::bytes::{Reader, Writer};
use crate::codec::damaged;

const HISTOGRAM_FORMAT: u8 = 1;

pub(in crate::catalog) fn write_histogram(histogram: &Histogram) -> Vec<u8> {
    let mut w = Writer::default();
    let about = &histogram.about;
    w.byte(HISTOGRAM_FORMAT);
    w.flag(about.singleton);
    w.double(about.nulls);
    w.double(about.sampling_rate);
    w.int(u64::from(about.buckets_specified));
    w.int(about.updated_micros as u64);
    w.flag(about.auto_update);
    w.int(histogram.buckets.len() as u64);
    for bucket in &histogram.buckets {
        w.value(&bucket.lower);
        w.option((!about.singleton).then_some(&bucket.upper), Writer::value);
        w.double(bucket.cumulative);
        w.double(bucket.distinct);
    }
    w.out
}

/// Reads the histogram of a column.
pub(in crate::catalog) fn read_histogram(bytes: &[u8], column: &ColumnDef) -> SqlResult<Histogram> {
    let mut r = Reader::new(bytes);
    if r.byte()? != HISTOGRAM_FORMAT {
        return Err(damaged("catalog row: unknown format"));
    }
    let about = About {
        singleton: r.flag()?,
        nulls: r.double()?,
        sampling_rate: r.double()?,
        buckets_specified: r.int32()?,
        updated_micros: r.int()? as i64,
        auto_update: r.flag()?,
    };
    let buckets = r.list(|r| {
        let lower = r.value()?;
        let upper = r.option(Reader::value)?;
        Ok(Bucket {
            upper: upper.unwrap_or_else(|| lower.clone()),
            lower,
            cumulative: r.double()?,
            distinct: r.double()?,
        })
    })?;
    r.end()?;
    let sound = buckets.len() as u64 <= MAX_BUCKETS
        && (0.0..=1.0).contains(&about.nulls)
        && buckets.iter().all(|b| b.distinct.is_finite());
    if !sound {
        return Err(damaged("catalog row: histogram"));
    }
    Histogram::new(column, about, buckets)
}
