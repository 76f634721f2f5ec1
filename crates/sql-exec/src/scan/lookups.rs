//! Lookups of one key after the other in the same index: when a cursor that goes from key to key is worth it.
//!
//! Neighbours: `scan` asks for each key of a join's inner side; the engine's seeker does the walking.
//! **Invariant**: which way a key is looked up never changes what is found.

use esker_engine::Cursor;
use esker_sql_catalog::catalog::IndexDef;
use esker_sql_catalog::exec_error::{ExecResult, engine_error};

use super::set;
use crate::ctx::ExecCtx;

/// After so many ascending keys a row's own key is looked for near the last one; if of so many asked keys not half were
/// near, it is not any more.
const ASCENDING_TRIAL: u32 = 16;
const NEAR_TRIAL: u32 = 64;

/// Lookups of one key after the other in the same index.
#[derive(Default)]
pub(super) struct Lookups {
    /// Goes from key to key, where that is worth it.
    pub(super) seeker: Option<Box<Cursor>>,
    /// The last key, and how many keys before it did not lie behind the ones before them.
    pub(super) last: Vec<u8>,
    ascending: u32,
    /// How many of the keys were found near the one before.
    asked: u32,
    near: u32,
}

impl Lookups {
    /// Notes a key that is about to be looked up; is the seeker to look for it, and may it lie near the last one? A
    /// single row is found faster without, unless it does.
    pub(super) fn is_sought(&mut self, key: &[u8], is_row: bool) -> Option<bool> {
        let is_first = self.last.is_empty();
        self.ascending = match *self.last <= *key {
            true => self.ascending.saturating_add(1),
            false => 0,
        };
        set(&mut self.last, key);
        let is_near = self.ascending > ASCENDING_TRIAL
            && (self.asked < NEAR_TRIAL || self.near >= self.asked / 2);
        let is_sought = is_near || !(is_row || is_first);
        is_sought.then_some(is_near)
    }

    /// Makes the first entry from `key` on the next one that the seeker gives.
    pub(super) fn go_to(
        &mut self,
        index: &IndexDef,
        (key, may_be_near): (&[u8], bool),
        exec: &ExecCtx<'_>,
    ) -> ExecResult<()> {
        let seeker = match &mut self.seeker {
            Some(seeker) => seeker,
            None => {
                let new = exec.txn().seeker(&index.tree, exec.view);
                let new = Box::new(new.map_err(|e| engine_error(&e))?);
                self.seeker.insert(new)
            }
        };
        let is_near = seeker.go_to(key, may_be_near);
        let is_near = is_near.map_err(|e| engine_error(&e))?;
        if may_be_near {
            self.asked += 1;
            self.near += u32::from(is_near);
            debug_assert!(self.near <= self.asked);
        }
        Ok(())
    }
}
