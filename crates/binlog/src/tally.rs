//! How much transactions take in a log, with and without compression.
//!
//! Neighbours: `files` counts what is derived, `relay` what comes; `performance_schema` shows it. **Invariants**: what
//! is in files that were there at the start is not counted; counting costs commits nothing.

use crate::gtid::Gtid;

/// What one transaction takes, without its GTID event.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Weight {
    /// Its events are compressed.
    pub is_compressed: bool,
    /// Bytes in the log.
    pub written: u64,
    /// Bytes without compression.
    pub plain: u64,
    /// What it is called; `None`: nothing.
    pub gtid: Option<Gtid>,
    /// When, microseconds since the epoch.
    pub micros: u64,
}

/// What all of one kind take.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sums {
    /// How many there are.
    pub transactions: u64,
    /// Bytes in the log.
    pub written: u64,
    /// Bytes without compression.
    pub plain: u64,
    /// The first one.
    pub first: Weight,
    /// The last one.
    pub last: Weight,
}

impl Sums {
    /// How much smaller compression makes them, in percent.
    pub fn percentage(&self) -> i64 {
        match self.plain {
            0 => 0,
            plain => ((1.0 - self.written as f64 / plain as f64) * 100.0).round() as i64,
        }
    }
}

/// Transactions of a log.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tally {
    /// Those that are compressed, if there was one.
    pub compressed: Option<Sums>,
    /// The others.
    pub plain: Option<Sums>,
}

impl Tally {
    /// Counts a transaction.
    pub fn add(&mut self, one: Weight) {
        let sums = match one.is_compressed {
            true => &mut self.compressed,
            false => &mut self.plain,
        };
        match sums {
            None => {
                *sums = Some(Sums {
                    transactions: 1,
                    written: one.written,
                    plain: one.plain,
                    first: one.clone(),
                    last: one,
                });
            }
            Some(sums) => {
                sums.transactions += 1;
                sums.written += one.written;
                sums.plain += one.plain;
                sums.last = one;
            }
        }
    }

    /// Counts what another log has as well.
    pub fn merge(&mut self, other: Self) {
        for (sums, other) in [
            (&mut self.compressed, other.compressed),
            (&mut self.plain, other.plain),
        ] {
            match (&mut *sums, other) {
                (_, None) => {}
                (None, other) => *sums = other,
                (Some(sums), Some(other)) => {
                    sums.transactions += other.transactions;
                    sums.written += other.written;
                    sums.plain += other.plain;
                    if other.first.micros < sums.first.micros {
                        sums.first = other.first;
                    }
                    if other.last.micros > sums.last.micros {
                        sums.last = other.last;
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_counted_by_themselves() {
        let weight = |is_compressed, written, micros| Weight {
            is_compressed,
            written,
            plain: 100,
            gtid: None,
            micros,
        };
        let mut tally = Tally::default();
        tally.add(weight(true, 12, 5));
        tally.add(weight(false, 100, 6));
        let mut other = Tally::default();
        other.add(weight(true, 13, 4));
        other.add(weight(true, 12, 9));
        tally.merge(other);
        let sums = tally.compressed.expect("some");
        assert_eq!((sums.transactions, sums.written, sums.plain), (3, 37, 300));
        assert_eq!((sums.first.micros, sums.last.micros), (4, 9));
        assert_eq!(sums.percentage(), 88);
        let sums = tally.plain.expect("one");
        assert_eq!((sums.transactions, sums.percentage()), (1, 0));
    }
}
