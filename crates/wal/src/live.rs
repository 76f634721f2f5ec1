//! The segments that hold the log, and what keeps them: readers, and pins by name.
//!
//! Neighbours: `files` keeps the list under its lock and does what it says; `tail` and `recover` read the segments.
//!
//! **Invariants**
//! - Segments are in the order of their starts, and are released from the oldest on.
//! - A segment is released only if its owner (the engine) needs nothing of it, no pin lies in it or before it, and
//!   nobody reads it or an older one.
//! - A pin is set only where the log is still there, so what is pinned can be read.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::Arc;

use crate::lsn::Lsn;

/// Most pins at a time.
const MAX_PINS: usize = 16;

/// A segment that holds a part of the log.
#[derive(Clone)]
pub(crate) struct LiveSegment {
    pub(crate) start: Lsn,
    pub(crate) path: PathBuf,
    /// Whoever has a clone is reading the file: it stays as it is.
    readers: Arc<()>,
}

impl LiveSegment {
    pub(crate) fn new(start: Lsn, path: PathBuf) -> Self {
        let readers = Arc::default();
        Self {
            start,
            path,
            readers,
        }
    }

    /// Only the list of segments makes clones, so this does not become true again by itself.
    fn is_being_read(&self) -> bool {
        Arc::strong_count(&self.readers) > 1
    }
}

/// Keeps the log from a place on, whatever its owner releases.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogPin {
    /// Who needs it.
    pub name: &'static str,
    /// From here on.
    pub from: Lsn,
}

/// The list.
pub(crate) struct LiveSegments {
    segments: VecDeque<LiveSegment>,
    pins: Vec<LogPin>,
    /// The owner needs nothing below.
    released: Lsn,
}

impl LiveSegments {
    /// What was found on disk. The names pin all of it.
    pub(crate) fn new(mut segments: Vec<LiveSegment>, pins: &[&'static str]) -> Self {
        segments.sort_unstable_by_key(|segment| segment.start);
        let from = Lsn(0);
        let pins = pins.iter().map(|name| LogPin { name, from });
        let list = Self {
            segments: segments.into(),
            pins: pins.collect(),
            released: Lsn(0),
        };
        list.validate();
        list
    }

    pub(crate) fn len(&self) -> usize {
        self.segments.len()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &LiveSegment> {
        self.segments.iter()
    }

    pub(crate) fn first(&self) -> Option<&LiveSegment> {
        self.segments.front()
    }

    pub(crate) fn last(&self) -> Option<&LiveSegment> {
        self.segments.back()
    }

    /// The segment that has this place, as far as starts tell.
    pub(crate) fn at(&self, lsn: Lsn) -> Option<&LiveSegment> {
        let behind = self.segments.partition_point(|s| s.start <= lsn);
        let found = self.segments.get(behind.checked_sub(1)?);
        debug_assert!(found.is_some_and(|segment| segment.start <= lsn));
        found
    }

    /// The first segment that starts behind this place.
    pub(crate) fn after(&self, lsn: Lsn) -> Option<&LiveSegment> {
        let behind = self.segments.partition_point(|s| s.start <= lsn);
        let found = self.segments.get(behind);
        debug_assert!(found.is_none_or(|segment| segment.start > lsn));
        found
    }

    /// A segment begins. One without records starts where its successor does, and is replaced by it.
    pub(crate) fn begin(&mut self, segment: LiveSegment) {
        if self.last().is_some_and(|last| last.start == segment.start) {
            self.segments.pop_back();
        }
        assert!(
            self.last().is_none_or(|last| last.start < segment.start),
            "segments begin in the order of the log"
        );
        self.segments.push_back(segment);
    }

    /// Takes the last one out.
    pub(crate) fn pop_last(&mut self) -> Option<LiveSegment> {
        self.segments.pop_back()
    }

    /// Takes out the first for which this holds.
    pub(crate) fn remove(&mut self, is_it: impl Fn(&LiveSegment) -> bool) -> Option<LiveSegment> {
        let at = self.segments.iter().position(is_it)?;
        let removed = self.segments.remove(at);
        self.validate();
        removed
    }

    /// The owner needs nothing below this place any more.
    pub(crate) fn release_below(&mut self, lsn: Lsn) {
        self.released = self.released.max(lsn);
    }

    /// The log is kept from here on, if not from further back.
    fn kept_from(&self) -> Lsn {
        let pins = self.pins.iter().map(|pin| pin.from);
        let kept = pins.fold(self.released, Lsn::min);
        debug_assert!(kept <= self.released);
        kept
    }

    /// The next segment that nobody needs.
    pub(crate) fn pop_released(&mut self) -> Option<LiveSegment> {
        if self.segments.get(1)?.start > self.kept_from() || self.first()?.is_being_read() {
            return None;
        }
        self.validate();
        self.segments.pop_front()
    }

    /// Sets or moves a pin. An error, with where the log begins, if that is further than the pin.
    pub(crate) fn pin(&mut self, name: &'static str, from: Lsn) -> Result<(), Lsn> {
        if let Some(first) = self
            .first()
            .filter(|first| first.start > from.max(Lsn::FIRST))
        {
            return Err(first.start);
        }
        match self.pins.iter_mut().find(|pin| pin.name == name) {
            Some(pin) => pin.from = from,
            None => self.pins.push(LogPin { name, from }),
        }
        assert!(self.pins.len() <= MAX_PINS, "names of pins are few");
        Ok(())
    }

    /// Takes a pin away.
    pub(crate) fn unpin(&mut self, name: &'static str) {
        self.pins.retain(|pin| pin.name != name);
    }

    /// The pin that keeps most of the log, if it keeps some that its owner does not need.
    pub(crate) fn holding_pin(&self) -> Option<LogPin> {
        let oldest = self.pins.iter().min_by_key(|pin| pin.from)?;
        (oldest.from < self.released).then_some(*oldest)
    }

    /// Bytes of the log that are kept only because of pins.
    pub(crate) fn pinned_bytes(&self) -> u64 {
        let first = self.first().map_or(self.released, |first| first.start);
        let kept = self.kept_from().max(first);
        self.released.0.saturating_sub(kept.0)
    }

    fn validate(&self) {
        debug_assert!(
            self.segments
                .iter()
                .zip(self.segments.iter().skip(1))
                .all(|(a, b)| a.start < b.start),
            "segments are in the order of their starts"
        );
        debug_assert!(
            self.pins
                .iter()
                .enumerate()
                .all(|(nth, pin)| self.pins[..nth].iter().all(|other| other.name != pin.name)),
            "a name pins once"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(starts: &[u64], pins: &[&'static str]) -> LiveSegments {
        let segments = starts
            .iter()
            .map(|&start| LiveSegment::new(Lsn(start), PathBuf::new()));
        LiveSegments::new(segments.collect(), pins)
    }

    fn released(list: &mut LiveSegments) -> Vec<u64> {
        let popped = std::iter::from_fn(|| list.pop_released());
        popped.map(|segment| segment.start.0).collect()
    }

    #[test]
    fn what_is_pinned_or_read_stays() {
        let mut list = list(&[8, 100, 200, 300], &["a"]);
        list.release_below(Lsn(320));
        assert_eq!(
            released(&mut list),
            [],
            "all of it is pinned from the start"
        );
        assert_eq!(list.holding_pin().map(|pin| pin.name), Some("a"));
        assert_eq!(list.pinned_bytes(), 312);
        list.pin("b", Lsn(150)).unwrap();
        list.pin("a", Lsn(250)).unwrap();
        assert_eq!(released(&mut list), [8]);
        assert_eq!(list.pin("c", Lsn(99)), Err(Lsn(100)), "that is gone");
        let reader = list.at(Lsn(150)).cloned();
        list.unpin("b");
        assert_eq!(released(&mut list), []);
        drop(reader);
        assert_eq!(released(&mut list), [100]);
        list.unpin("a");
        assert_eq!(list.holding_pin(), None);
        assert_eq!(released(&mut list), [200], "the last one stays");
    }

    #[test]
    fn places_are_found_by_the_starts() {
        let mut list = list(&[100, 8], &[]);
        assert!(list.at(Lsn(7)).is_none());
        let start = |segment: Option<&LiveSegment>| segment.map(|segment| segment.start.0);
        assert_eq!(start(list.at(Lsn(99))), Some(8));
        assert_eq!(start(list.at(Lsn(100))), Some(100));
        assert_eq!(start(list.after(Lsn(8))), Some(100));
        assert_eq!(start(list.after(Lsn(100))), None);
        // An empty one is replaced.
        list.begin(LiveSegment::new(Lsn(100), PathBuf::new()));
        list.begin(LiveSegment::new(Lsn(120), PathBuf::new()));
        assert_eq!((list.len(), start(list.last())), (3, Some(120)));
    }
}
