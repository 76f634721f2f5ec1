//! Interval algebra over encoded keys: runs of keys, united and intersected.
//!
//! Neighbours: `range_build` makes and combines them; `ranges` hands them to scans as key ranges.
//! **Invariants**: the runs of a [`Runs`] are sorted and do not overlap; a point is exactly the keys
//! that begin with its start.

use std::ops::Bound;

use esker_sql_catalog::codec::{KeyRange, prefix_successor};

/// A run of values of one key part, as encoded bytes: from `start`, up to before `end` (`None`: to
/// the end).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Run {
    pub start: Vec<u8>,
    pub end: Option<Vec<u8>>,
    /// Exactly the keys that begin with `start`.
    pub point: bool,
}

impl Run {
    pub const ALL: Run = Run {
        start: Vec::new(),
        end: None,
        point: false,
    };

    pub fn point(key: Vec<u8>) -> Self {
        let mut end = key.clone();
        let end = prefix_successor(&mut end).then_some(end);
        Run {
            start: key,
            end,
            point: true,
        }
    }

    pub fn new(start: Vec<u8>, end: Option<Vec<u8>>) -> Option<Self> {
        match &end {
            Some(end) if *end <= start => None,
            _ => Some(Run {
                start,
                end,
                point: false,
            }),
        }
    }

    fn intersect(&self, other: &Run) -> Option<Run> {
        let end = match (&self.end, &other.end) {
            (Some(a), Some(b)) => Some(a.min(b).clone()),
            (Some(e), None) | (None, Some(e)) => Some(e.clone()),
            (None, None) => None,
        };
        if self.point && (other.start <= self.start) && end == self.end {
            return Some(self.clone());
        }
        if other.point && (self.start <= other.start) && end == other.end {
            return Some(other.clone());
        }
        Run::new(self.start.clone().max(other.start.clone()), end)
    }
}

/// Sorted runs that do not touch.
pub(super) type Runs = Vec<Run>;

pub(super) fn union(mut runs: Runs) -> Runs {
    runs.sort_by(|a, b| a.start.cmp(&b.start).then_with(|| a.point.cmp(&b.point)));
    let mut out: Runs = Vec::with_capacity(runs.len());
    for run in runs {
        let Some(last) = out.last_mut() else {
            out.push(run);
            continue;
        };
        let apart = last.end.as_ref().is_some_and(|end| {
            // Neighbouring points stay points: they are keys to look up.
            *end < run.start || (*end == run.start && (last.point || run.point))
        });
        if apart {
            out.push(run);
            continue;
        }
        if *last == run {
            continue;
        }
        last.point = false;
        last.end = match (last.end.take(), run.end) {
            (Some(a), Some(b)) => Some(a.max(b)),
            _ => None,
        };
    }
    out
}

pub(super) fn intersect(a: &Runs, b: &Runs) -> Runs {
    let (mut i, mut j, mut out) = (0, 0, Vec::new());
    while let (Some(x), Some(y)) = (a.get(i), b.get(j)) {
        out.extend(x.intersect(y));
        let x_first = match (&x.end, &y.end) {
            (Some(x), Some(y)) => x <= y,
            (Some(_), None) => true,
            (None, _) => false,
        };
        if x_first { i += 1 } else { j += 1 }
    }
    out
}

impl From<Run> for KeyRange {
    fn from(run: Run) -> Self {
        let lower = match run.start.is_empty() {
            true => Bound::Unbounded,
            false => Bound::Included(run.start),
        };
        KeyRange {
            lower,
            upper: run.end.map_or(Bound::Unbounded, Bound::Excluded),
        }
    }
}
