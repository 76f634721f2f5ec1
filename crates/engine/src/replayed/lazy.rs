//! Lazy initialisation: a value that the first thread that needs it makes, from what it was given.
//!
//! Neighbours: each shard of a `run` is one.
//!
//! **Invariants**
//! - It is made once, from what it was given; who comes meanwhile waits until it is there.
//! - Once it is made, looking at it takes no lock.

use std::sync::OnceLock;

use crate::sync::Mutex;

/// Holds an `R` until a `T` is made of it.
pub(crate) struct LazyValue<R, T> {
    raw: Mutex<Option<R>>,
    made: OnceLock<T>,
}

impl<R, T> LazyValue<R, T> {
    pub(crate) fn new(raw: R) -> Self {
        LazyValue {
            raw: Mutex::new(Some(raw)),
            made: OnceLock::new(),
        }
    }

    /// What was made; made now, with `make`, if it is not yet.
    #[inline]
    pub(crate) fn get(&self, make: impl FnOnce(R) -> T) -> &T {
        match self.made.get() {
            Some(made) => made,
            None => self.make(make),
        }
    }

    /// What was made, if it is.
    pub(crate) fn peek(&self) -> Option<&T> {
        self.made.get()
    }

    #[cold]
    fn make(&self, make: impl FnOnce(R) -> T) -> &T {
        // Held while it is made: whoever else needs it waits here.
        let mut raw = self.raw.lock();
        if let Some(raw) = raw.take() {
            let is_first = self.made.set(make(raw)).is_ok();
            debug_assert!(is_first, "there was one raw material");
        }
        self.made
            .get()
            .expect("made above, or by who took the raw material")
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::Ordering;

    use shuttle::thread;

    use super::*;
    use crate::sync::{AtomicU64, explore};

    /// A shard is sorted once, from all that was collected for it, whoever needs it first; nobody sees it half done,
    /// and whoever comes meanwhile gets the same.
    #[test]
    fn a_shard_is_made_once_whoever_needs_it_first() {
        explore(|| {
            let made = Arc::new(AtomicU64::new(0));
            let shard = Arc::new(LazyValue::new(vec![3u32, 1, 2]));
            let need = {
                let (made, shard) = (Arc::clone(&made), Arc::clone(&shard));
                move || {
                    // Whoever only looks sees nothing or all of it.
                    assert!(shard.peek().is_none_or(|sorted| *sorted == [1, 2, 3]));
                    let sorted = shard.get(|mut raw| {
                        made.fetch_add(1, Ordering::SeqCst);
                        thread::yield_now();
                        raw.sort_unstable();
                        raw
                    });
                    assert_eq!(*sorted, [1, 2, 3]);
                    std::ptr::from_ref(sorted).addr()
                }
            };
            let others: Vec<_> = (0..2).map(|_| thread::spawn(need.clone())).collect();
            let mine = need();
            for other in others {
                assert_eq!(other.join().unwrap(), mine);
            }
            assert_eq!(made.load(Ordering::SeqCst), 1);
        });
    }
}
