//! Shadowing: which keys of newer tiers are rows of the run below, and how they change its row count.
//!
//! Neighbours: `overlay` brings the keys; `extent` looks for many of them at once, and remembers what was found: who
//! counts a table again and again looks only for what has changed since the last time.
//!
//! **Invariants**
//! - Keys come in ascending order, each once, with the newest version that is seen.
//! - `change` has what all keys change but those that wait.

use std::mem;
use std::sync::Arc;

use smallvec::SmallVec;

use crate::extent::{Extent, HasMeta, KnownKeys, MOST_KEYS};
use crate::tree::Run;
use crate::{LATEST, Op, Result};

/// Most bytes of keys that are remembered of an extent; if there are more, none are.
const MAX_KNOWN_KEY_BYTES: usize = 256 << 10;

/// A way through a run, from key to key.
pub(super) struct Below<'a> {
    run: &'a Run<Arc<Extent>>,
    /// Where the last key was, or would be.
    extent: Option<&'a Arc<Extent>>,
    /// What was known of the extent, and the number of the first key in it that is not before the last key.
    known: Option<Arc<KnownKeys>>,
    next_known: usize,
    /// The keys that came for the extent, and what is known of them now.
    asked: KnownKeys,
    /// Some had to go from `asked`.
    is_cut: bool,
    /// Something was found out that was not known.
    is_news: bool,
    /// Those in `asked` that are still to be looked for, by their number.
    waiting: SmallVec<[(usize, Op); MOST_KEYS]>,
    /// Rows that came, less those that went.
    change: i64,
}

impl<'a> Below<'a> {
    pub(super) fn new(run: &'a Run<Arc<Extent>>) -> Self {
        Below {
            run,
            extent: None,
            known: None,
            next_known: 0,
            asked: KnownKeys::default(),
            is_cut: false,
            is_news: false,
            waiting: SmallVec::new(),
            change: 0,
        }
    }

    /// Takes the next key.
    pub(super) fn take(&mut self, key: &[u8], op: Op) -> Result<()> {
        if self.extent.is_none_or(|at| *key > *at.meta().last.key) {
            self.leave()?;
            self.enter(self.run.extents().get(self.run.find(key, LATEST)));
        }
        if self.extent.is_none_or(|at| *key < *at.meta().first.key) {
            self.note(op, false);
            return Ok(());
        }
        let known = self.known(key);
        if self.asked.key_bytes() + key.len() > MAX_KNOWN_KEY_BYTES {
            self.look_up()?;
            self.asked.clear();
            self.is_cut = true;
        }
        let number = self.asked.push(key, known.unwrap_or_default());
        match known {
            Some(is_row) => self.note(op, is_row),
            None => {
                self.waiting.push((number, op));
                if self.waiting.len() == MOST_KEYS {
                    self.look_up()?;
                }
            }
        }
        Ok(())
    }

    /// The number of rows that came, less those that went, when all keys have come.
    pub(super) fn finish(mut self) -> Result<i64> {
        self.leave()?;
        Ok(self.change)
    }

    fn enter(&mut self, extent: Option<&'a Arc<Extent>>) {
        self.extent = extent;
        self.known = extent.and_then(|extent| extent.known_keys());
        self.next_known = 0;
    }

    /// Leaves the extent, which remembers what came out.
    fn leave(&mut self) -> Result<()> {
        self.look_up()?;
        let (is_cut, is_news) = (mem::take(&mut self.is_cut), mem::take(&mut self.is_news));
        if let Some(extent) = self.extent.take()
            && is_news
            && !is_cut
        {
            extent.remember_keys(&self.asked);
        }
        self.asked.clear();
        Ok(())
    }

    /// Whether the key is a row of the extent, if that is known.
    #[inline]
    fn known(&mut self, key: &[u8]) -> Option<bool> {
        let known = self.known.as_ref()?;
        while let Some((there, is_row)) = known.get(self.next_known) {
            if there >= key {
                return (there == key).then_some(is_row);
            }
            self.next_known += 1;
        }
        None
    }

    /// Looks for the keys that wait.
    fn look_up(&mut self) -> Result<()> {
        let Some(extent) = self.extent.filter(|_| !self.waiting.is_empty()) else {
            return Ok(());
        };
        let waiting = mem::take(&mut self.waiting);
        debug_assert!(waiting.len() <= MOST_KEYS);
        let mut is_row = [false; MOST_KEYS];
        let is_row = &mut is_row[..waiting.len()];
        let key = |(number, _): &(usize, Op)| self.asked.get(*number).expect("it was asked").0;
        let keys: SmallVec<[&[u8]; MOST_KEYS]> = waiting.iter().map(key).collect();
        extent.find_rows(&keys, is_row)?;
        drop(keys);
        for ((number, op), is_row) in waiting.into_iter().zip(&*is_row) {
            self.asked.set(number, *is_row);
            self.note(op, *is_row);
        }
        self.is_news = true;
        Ok(())
    }

    fn note(&mut self, op: Op, is_row: bool) {
        self.change += match op {
            Op::Put => i64::from(!is_row),
            Op::Delete => -i64::from(is_row),
        };
    }
}
