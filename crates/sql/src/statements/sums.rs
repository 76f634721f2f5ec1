//! What is measured of a statement, and its sums.
//!
//! Neighbours: `digests` and `history` add up.
//! **Invariant**: a sum that nothing was added to has no minimum: [`Sums::min`] is 0 then.

use crate::counts::Counter;

/// A statement that has ended.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Measured {
    /// What it counts as.
    pub(crate) command: Counter,
    /// When it began, microseconds since the epoch.
    pub(crate) began: i64,
    /// How long it took, microseconds.
    pub(crate) micros: u64,
    /// How long it waited for locks as a future, microseconds.
    pub(crate) lock_micros: u64,
    /// Its error; 0 for none.
    pub(crate) error: u16,
    /// Entries in its diagnostics area.
    pub(crate) warnings: u64,
    /// Rows it changed.
    pub(crate) affected: u64,
    /// Rows it sent.
    pub(crate) sent: u64,
    /// Rows it read.
    pub(crate) examined: u64,
    /// Hash tables and sorted runs that went to disk.
    pub(crate) disk_tables: u64,
    /// Times that sorted runs were merged.
    pub(crate) merge_passes: u64,
    /// It read a table from end to end.
    pub(crate) no_index_used: bool,
}

/// Sums of statements.
#[derive(Debug, Clone, Default)]
pub(crate) struct Sums {
    /// How many.
    pub(crate) count: u64,
    /// Their time, microseconds.
    pub(crate) micros: u64,
    /// The shortest.
    min: u64,
    /// The longest.
    pub(crate) max: u64,
    /// Waits for locks.
    pub(crate) lock_micros: u64,
    /// Those that failed.
    pub(crate) errors: u64,
    /// Warnings.
    pub(crate) warnings: u64,
    /// Rows changed.
    pub(crate) affected: u64,
    /// Rows sent.
    pub(crate) sent: u64,
    /// Rows read.
    pub(crate) examined: u64,
    /// Hash tables and sorted runs that went to disk.
    pub(crate) disk_tables: u64,
    /// Times that sorted runs were merged.
    pub(crate) merge_passes: u64,
    /// Those that read a table from end to end.
    pub(crate) no_index_used: u64,
}

impl Sums {
    /// Adds a statement.
    pub(crate) fn add(&mut self, one: &Measured) {
        self.min = match self.count {
            0 => one.micros,
            _ => self.min.min(one.micros),
        };
        self.count += 1;
        self.micros += one.micros;
        self.max = self.max.max(one.micros);
        self.lock_micros += one.lock_micros;
        self.errors += u64::from(one.error != 0);
        self.warnings += one.warnings;
        self.affected += one.affected;
        self.sent += one.sent;
        self.examined += one.examined;
        self.disk_tables += one.disk_tables;
        self.merge_passes += one.merge_passes;
        self.no_index_used += u64::from(one.no_index_used);
    }

    /// Adds what others have added up.
    pub(crate) fn merge(&mut self, other: &Self) {
        if other.count == 0 {
            return;
        }
        self.min = match self.count {
            0 => other.min,
            _ => self.min.min(other.min),
        };
        self.count += other.count;
        self.micros += other.micros;
        self.max = self.max.max(other.max);
        self.lock_micros += other.lock_micros;
        self.errors += other.errors;
        self.warnings += other.warnings;
        self.affected += other.affected;
        self.sent += other.sent;
        self.examined += other.examined;
        self.disk_tables += other.disk_tables;
        self.merge_passes += other.merge_passes;
        self.no_index_used += other.no_index_used;
    }

    /// The shortest, microseconds.
    pub(crate) fn min(&self) -> u64 {
        self.min
    }

    /// The mean, microseconds.
    pub(crate) fn mean(&self) -> u64 {
        self.micros.checked_div(self.count).unwrap_or(0)
    }
}

#[cfg(test)]
pub(super) fn sample(micros: u64) -> Measured {
    Measured {
        command: Counter::ComSelect,
        began: 1_000_000,
        micros,
        lock_micros: 0,
        error: 0,
        warnings: 0,
        affected: 0,
        sent: 1,
        examined: 2,
        disk_tables: 0,
        merge_passes: 0,
        no_index_used: false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_of_parts_are_the_sum_of_all() {
        let (mut all, mut a, mut b) = (Sums::default(), Sums::default(), Sums::default());
        for (nth, micros) in [30, 10, 20].into_iter().enumerate() {
            let one = Measured {
                error: nth as u16,
                ..sample(micros)
            };
            all.add(&one);
            if nth == 0 { a.add(&one) } else { b.add(&one) }
        }
        a.merge(&b);
        a.merge(&Sums::default());
        for sums in [all, a] {
            assert_eq!((sums.count, sums.micros, sums.mean()), (3, 60, 20));
            assert_eq!((sums.min(), sums.max, sums.errors), (10, 30, 2));
        }
        assert_eq!(Sums::default().mean(), 0);
    }
}
