//! What readers may see of the files, and waiting for it; which files streams read.
//!
//! Neighbours: `set` publishes; statements that show state of the binary log, and streams, wait here.
//! **Invariants**
//! - A view is of one moment; its LSN never goes back while the server runs.
//! - A future that waits for more is woken by every view with more that is published after its last poll, one that
//!   waits for a place of the log by the first view that has it.
//! - Whoever begins to wait for what a view does not have yet ends a [`Published::gather`] that goes on.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use super::begins::Begins;
use super::names::FileNumber;
use super::places::{Place, Places};
use crate::gtid::GtidSet;
use crate::tally::{Tally, Weight};

/// A file that readers may open.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct FileInfo {
    /// Its number.
    pub number: FileNumber,
    /// Bytes that may be read.
    pub size: u64,
}

/// The state of the binary log at one moment.
#[derive(Debug, Clone, Default)]
pub struct View {
    /// Files in order; the last one is being written.
    pub files: Vec<FileInfo>,
    /// Everything in the log below is in the files.
    pub lsn: u64,
    /// What is below will not be derived again.
    pub synced_lsn: u64,
    /// The last file of which something is synced, and how much of it: what lies before may leave the server.
    pub synced: FileInfo,
    /// Where in the log they begin, as far as that is known.
    pub begins: Arc<Begins>,
    /// How often the files have begun again.
    pub resets: u64,
    /// Transactions since the first file.
    pub ordinal: u64,
    /// What was executed.
    pub executed: Arc<GtidSet>,
    /// What of it is in no file.
    pub purged: Arc<GtidSet>,
}

impl View {
    /// Bytes of a file that may leave the server: they are synced, so that no crash makes others of them.
    pub fn sendable(&self, number: FileNumber) -> Option<u64> {
        let at = self
            .files
            .binary_search_by_key(&number, |f| f.number)
            .ok()?;
        Some(match number.cmp(&self.synced.number) {
            std::cmp::Ordering::Less => self.files[at].size,
            std::cmp::Ordering::Equal => self.synced.size,
            std::cmp::Ordering::Greater => 0,
        })
    }

    /// The last file, with its size.
    pub fn end(&self) -> FileInfo {
        self.files.last().copied().unwrap_or_default()
    }

    /// The range of the log whose transactions are in a file: they are above the first LSN, and not above the second.
    /// `None` where it is not known.
    pub fn covered(&self, number: FileNumber) -> (Option<u64>, Option<u64>) {
        let begin = |n: FileNumber| self.begins.get(&n).copied();
        let end = match self.after(number) {
            Some(next) => begin(next),
            None => Some(self.lsn),
        };
        (begin(number), end)
    }

    /// The file behind this one.
    pub fn after(&self, number: FileNumber) -> Option<FileNumber> {
        let at = self.files.partition_point(|f| f.number <= number);
        self.files.get(at).map(|f| f.number)
    }
}

/// What is in the files before a place.
#[derive(Debug, Clone, Copy)]
pub struct Covered {
    /// Everything in the log up to here is in the files before the place, or in none; `None`: there is no place.
    pub place: Option<u64>,
    /// Transactions between what is known and there.
    pub newly: u64,
    /// Up to here there is no transaction behind what is known.
    pub nothing: u64,
    /// How far the view is.
    pub end: u64,
    /// How many transactions it has.
    pub transactions: u64,
}

/// The current view, and who reads.
#[derive(Debug, Default)]
pub struct Published {
    shown: Mutex<Shown>,
    changed: Condvar,
    /// Somebody has begun to wait.
    asked: Condvar,
    tally: Mutex<Tally>,
}

#[derive(Debug, Default)]
struct Shown {
    view: View,
    /// Ends of transactions that the view has.
    places: Places,
    /// How many views there were that had more for streams than the one before.
    generation: u64,
    wakers: Vec<Waker>,
    /// Those who wait for the log up to some place, and for which.
    waiting: Vec<(u64, Waker)>,
    /// Threads that wait for a state of the view.
    blocked: usize,
    /// The file that each stream reads.
    streams: BTreeMap<u64, FileNumber>,
    last_stream: u64,
}

impl Shown {
    /// Does anybody wait for more than there is?
    fn is_awaited(&self) -> bool {
        self.blocked > 0 || !self.waiting.is_empty() || !self.streams.is_empty()
    }
}

impl Published {
    /// A transaction has come to the files.
    pub(super) fn count(&self, one: Weight) {
        self.tally.lock().add(one);
    }

    /// What transactions take since the start, or since it was forgotten.
    pub fn tally(&self) -> Tally {
        self.tally.lock().clone()
    }

    /// Begins to count anew.
    pub fn forget_tally(&self) {
        *self.tally.lock() = Tally::default();
    }

    /// Lets time pass in which what is to be shown gathers: until somebody waits for it, at most this long.
    pub fn gather(&self, at_most: Duration) {
        let until = Instant::now() + at_most;
        let mut shown = self.shown.lock();
        while !shown.is_awaited() {
            if self.asked.wait_until(&mut shown, until).timed_out() {
                break;
            }
        }
    }

    /// Shows a view, and where the transactions end that the one before had not.
    pub(super) fn set(&self, view: View, places: Vec<Place>) {
        let mut shown = self.shown.lock();
        shown.places.add(places);
        let is_more = (shown.view.synced, shown.view.resets) != (view.synced, view.resets);
        shown.view = view;
        let mut wakers = match is_more {
            true => {
                shown.generation += 1;
                std::mem::take(&mut shown.wakers)
            }
            false => Vec::new(),
        };
        let lsn = shown.view.lsn;
        let reached = shown.waiting.extract_if(.., |(wanted, _)| *wanted <= lsn);
        wakers.extend(reached.map(|(_, waker)| waker));
        drop(shown);
        self.changed.notify_all();
        wakers.into_iter().for_each(Waker::wake);
    }

    /// The current view.
    pub fn view(&self) -> View {
        self.shown.lock().view.clone()
    }

    /// What was executed, of the view as it is.
    pub fn executed(&self) -> Arc<GtidSet> {
        self.shown.lock().view.executed.clone()
    }

    /// Where everything ends that a snapshot at `lsn` sees, with the view that it was found in. `None`: that is too
    /// long ago.
    pub fn place(&self, lsn: u64) -> Option<(Place, View)> {
        let shown = self.shown.lock();
        let place = shown.places.at(lsn)?;
        Some((place, shown.view.clone()))
    }

    /// What is in the files before a place, where everything in the log up to `known` is known already.
    pub fn covered(&self, place: Option<FileInfo>, known: u64) -> Covered {
        let shown = self.shown.lock();
        let end = shown.view.lsn;
        let covered = place.map(|place| {
            let at = (place.number, place.size);
            shown.places.covered(at, end, known)
        });
        let nothing = shown.places.without_transaction(known, end);
        Covered {
            place: covered.map(|(lsn, _)| lsn),
            newly: covered.map_or(0, |(_, newly)| newly),
            nothing,
            end,
            transactions: shown.view.ordinal,
        }
    }

    /// Looks at the current view without a copy, and tells which one it is.
    pub fn look<T>(&self, look: impl FnOnce(&View) -> T) -> (T, u64) {
        let shown = self.shown.lock();
        (look(&shown.view), shown.generation)
    }

    /// Waits until `is_there` holds of the view, at most this long; then the view, whatever it is.
    pub fn wait(&self, at_most: Duration, is_there: impl Fn(&View) -> bool) -> View {
        let until = Instant::now() + at_most;
        let mut shown = self.shown.lock();
        if is_there(&shown.view) {
            return shown.view.clone();
        }
        shown.blocked += 1;
        self.asked.notify_all();
        while !is_there(&shown.view) {
            if self.changed.wait_until(&mut shown, until).timed_out() {
                break;
            }
        }
        shown.blocked -= 1;
        shown.view.clone()
    }

    /// The number in the GTID of the transaction whose record ends at `lsn`, if it has one and is not too long ago.
    pub fn gno(&self, lsn: u64) -> Option<u64> {
        self.shown.lock().places.gno(lsn)
    }

    /// Resolves when the view has the log up to `lsn`.
    pub fn reached(self: &Arc<Self>, lsn: u64) -> Reached {
        let published = Arc::clone(self);
        Reached { published, lsn }
    }

    /// Resolves when there is more for streams than in the view of `generation`.
    pub fn newer(self: &Arc<Self>, generation: u64) -> Newer {
        Newer {
            published: Arc::clone(self),
            generation,
        }
    }

    /// A stream begins to read here.
    pub fn begin_stream(self: &Arc<Self>, number: FileNumber) -> Reading {
        let mut shown = self.shown.lock();
        shown.last_stream += 1;
        let id = shown.last_stream;
        shown.streams.insert(id, number);
        self.asked.notify_all();
        let published = Arc::clone(self);
        Reading { published, id }
    }

    /// Is there a stream? What it is to send has to be synced.
    pub fn has_streams(&self) -> bool {
        !self.shown.lock().streams.is_empty()
    }

    /// The first file that a stream reads.
    pub fn first_read(&self) -> Option<FileNumber> {
        self.shown.lock().streams.values().min().copied()
    }

    /// Streams that read this file.
    pub fn streams_of(&self, number: FileNumber) -> usize {
        let shown = self.shown.lock();
        shown.streams.values().filter(|n| **n == number).count()
    }
}

/// Waits for a view with more in it.
#[derive(Debug)]
pub struct Newer {
    published: Arc<Published>,
    generation: u64,
}

impl Future for Newer {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let mut shown = self.published.shown.lock();
        if shown.generation != self.generation {
            return Poll::Ready(());
        }
        if !shown.wakers.iter().any(|w| w.will_wake(cx.waker())) {
            shown.wakers.push(cx.waker().clone());
        }
        Poll::Pending
    }
}

/// Waits for a view that has the log up to some place.
#[derive(Debug)]
pub struct Reached {
    published: Arc<Published>,
    lsn: u64,
}

impl Future for Reached {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let mut shown = self.published.shown.lock();
        if shown.view.lsn >= self.lsn {
            return Poll::Ready(());
        }
        let is_same = |(lsn, waker): &(u64, Waker)| *lsn == self.lsn && waker.will_wake(cx.waker());
        if !shown.waiting.iter().any(is_same) {
            shown.waiting.push((self.lsn, cx.waker().clone()));
            self.published.asked.notify_all();
        }
        Poll::Pending
    }
}

/// Keeps the file that a stream reads, and those behind it, from being purged.
#[derive(Debug)]
pub struct Reading {
    published: Arc<Published>,
    id: u64,
}

impl Reading {
    /// The stream goes on with this file.
    pub fn move_to(&self, number: FileNumber) {
        let mut shown = self.published.shown.lock();
        shown.streams.insert(self.id, number);
    }
}

impl Drop for Reading {
    fn drop(&mut self) {
        self.published.shown.lock().streams.remove(&self.id);
    }
}

#[cfg(test)]
mod tests {
    use std::thread::{scope, sleep};

    use super::*;

    const LONG: Duration = Duration::from_secs(3600);
    /// Long enough on the slowest machine.
    const PATIENCE: Duration = Duration::from_secs(60);
    const STEP: Duration = Duration::from_millis(1);

    /// Gathers on a thread, does this until that ends, and tells whether it has.
    fn ends_when(published: &Published, mut act: impl FnMut()) -> bool {
        scope(|threads| {
            let gathering = threads.spawn(|| published.gather(LONG));
            let begun = Instant::now();
            while !gathering.is_finished() && begun.elapsed() < PATIENCE {
                act();
                sleep(STEP);
            }
            let has_ended = gathering.is_finished();
            // Lets the thread go in any case.
            published.shown.lock().blocked += 1;
            published.asked.notify_all();
            has_ended
        })
    }

    #[test]
    fn gathering_ends_when_a_thread_waits_for_more() {
        let published = Published::default();
        assert!(ends_when(&published, || {
            published.wait(STEP, |view| view.lsn > 0);
        }));
    }

    #[test]
    fn gathering_ends_when_a_reply_waits_for_the_log() {
        let published = Arc::new(Published::default());
        let mut context = Context::from_waker(Waker::noop());
        let mut reached = std::pin::pin!(published.reached(1));
        assert!(ends_when(&published, || {
            assert!(reached.as_mut().poll(&mut context).is_pending());
        }));
    }

    #[test]
    fn gathering_ends_when_a_stream_begins() {
        let published = Arc::new(Published::default());
        let mut streams = Vec::new();
        assert!(ends_when(&published, || {
            streams.push(published.begin_stream(FileNumber(1)));
        }));
    }

    #[test]
    fn nobody_who_finds_what_is_there_ends_the_gathering() {
        let published = Published::default();
        published.set(
            View {
                lsn: 7,
                ..View::default()
            },
            Vec::new(),
        );
        published.wait(LONG, |view| view.lsn >= 7);
        assert!(!published.shown.lock().is_awaited());
        published.gather(STEP);
    }
}
