//! Which rows of its partition a row sees.
//!
//! Neighbours: `value` and `aggregate` read the frames; `bind::window` prepared what a RANGE bound is.
//! **Invariants**: neither end of a frame moves backwards from one row to the next; a NULL key is
//! before every other and at a distance of nothing but NULL keys; an empty frame has equal ends.

use std::cmp::Ordering;
use std::ops::Range;

use esker_sql_catalog::exec_error::ExecResult;
use esker_sql_plan::bind::{Bound, Offset, errors, is_below_zero, whole_number};
use esker_sql_plan::expr::eval::compare_values;
use esker_sql_plan::expr::{CmpOp, Expr};
use esker_sql_plan::plan::WindowRun;
use esker_types::Value;

use super::Sorted;
use crate::ExecEnv;

/// A frame: from this row up to but not including that.
pub(super) type Span = (u32, u32);

/// One end of a window's frames, its distance known.
enum End<'p> {
    Unbounded,
    /// The current row, or (RANGE) its first or last peer.
    Current,
    /// That many rows away, backwards if negative.
    Rows(i64),
    /// At that distance in keys.
    Range(&'p Offset, Value),
}

/// Both ends.
pub(super) struct Ends<'p> {
    start: End<'p>,
    end: End<'p>,
    peers: bool,
    whole: bool,
}

impl<'p> Ends<'p> {
    /// Evaluates the distances of a window's frame.
    ///
    /// # Errors
    /// 3586 for what is no distance.
    pub fn of(window: &'p WindowRun, env: &ExecEnv<'_>) -> ExecResult<Self> {
        let illegal = || errors::window::frame_illegal(&window.name);
        let range = window.frame.range;
        let distance = |offset: &'p Offset, sign: i64| -> ExecResult<End<'p>> {
            let amount = offset.amount.eval(&[], env)?;
            if range {
                return match is_below_zero(&amount) {
                    true => Err(illegal().into()),
                    false => Ok(End::Range(offset, amount)),
                };
            }
            let rows = whole_number(&amount).ok_or_else(illegal)?;
            Ok(End::Rows(sign * i64::try_from(rows).unwrap_or(i64::MAX)))
        };
        let end = |bound: &'p Bound| match bound {
            Bound::Unbounded => Ok(End::Unbounded),
            Bound::Current => Ok(End::Current),
            Bound::Preceding(offset) => distance(offset, -1),
            Bound::Following(offset) => distance(offset, 1),
        };
        Ok(Self {
            start: end(&window.frame.start)?,
            end: end(&window.frame.end)?,
            peers: range,
            whole: window.is_whole(),
        })
    }

    /// The frames of a partition's rows.
    pub fn frames(
        &self,
        sorted: &Sorted<'_>,
        window: &WindowRun,
        part: Range<usize>,
        env: &ExecEnv<'_>,
    ) -> ExecResult<Vec<Span>> {
        if self.whole {
            return Ok(vec![(part.start as u32, part.end as u32); part.len()]);
        }
        let mut frames = Vec::with_capacity(part.len());
        if !self.peers {
            for row in part.clone() {
                frames.push(self.rows_frame(row, &part));
            }
            return Ok(frames);
        }
        let (mut low, mut high) = (part.start, part.start);
        for peers in sorted.peers(part.clone(), window.ordered) {
            let start = match &self.start {
                End::Range(offset, amount) => {
                    let search = Search::new(sorted, window, offset, amount, &peers, env)?;
                    low = search.first(low, &part, Ordering::Less, env)?;
                    low
                }
                End::Unbounded => part.start,
                _ => peers.start,
            };
            let end = match &self.end {
                End::Range(offset, amount) => {
                    let search = Search::new(sorted, window, offset, amount, &peers, env)?;
                    high = search.first(high, &part, Ordering::Equal, env)?;
                    high
                }
                End::Unbounded => part.end,
                _ => peers.end,
            };
            debug_assert!(start >= part.start && end <= part.end);
            let span = (start as u32, end.max(start) as u32);
            frames.resize(frames.len() + peers.len(), span);
        }
        Ok(frames)
    }

    fn rows_frame(&self, row: usize, part: &Range<usize>) -> Span {
        debug_assert!(part.contains(&row));
        let clamp = |at: i64| at.clamp(part.start as i64, part.end as i64) as u32;
        let moved = |by: i64| (row as i64).saturating_add(by);
        let start = match &self.start {
            End::Unbounded => part.start as u32,
            End::Rows(by) => clamp(moved(*by)),
            _ => row as u32,
        };
        let end = match &self.end {
            End::Unbounded => part.end as u32,
            End::Rows(by) => clamp(moved(*by).saturating_add(1)),
            _ => row as u32 + 1,
        };
        (start, end.max(start))
    }
}

/// The search for the end of the frames of some peers.
struct Search<'s> {
    sorted: &'s Sorted<'s>,
    /// Position of the order key.
    key: usize,
    desc: bool,
    /// The peers, for a key of NULL.
    peers: &'s Range<usize>,
    /// `None`: the current key is NULL.
    target: Option<Value>,
    shifted: &'s (Expr, esker_types::cmp::CmpKind),
    key_ty: &'s esker_types::SqlType,
}

impl<'s> Search<'s> {
    fn new(
        sorted: &'s Sorted<'s>,
        window: &'s WindowRun,
        offset: &'s Offset,
        amount: &Value,
        peers: &'s Range<usize>,
        env: &ExecEnv<'_>,
    ) -> ExecResult<Self> {
        let key = window
            .key
            .as_ref()
            .expect("RANGE with a distance has one order key");
        let shifted = offset.shifted.as_ref().expect("a RANGE bound shifts a key");
        let current = &sorted.rows[peers.start][key.at];
        let target = match current.is_null() {
            true => None,
            false => Some(shifted.0.eval(&[current.clone(), amount.clone()], env)?),
        };
        Ok(Self {
            sorted,
            key: key.at,
            desc: key.desc,
            peers,
            target,
            shifted,
            key_ty: &key.ty,
        })
    }

    /// The first row from `from` on that is not before the target (`upto` Less), or is behind it
    /// (`upto` Equal).
    fn first(
        &self,
        from: usize,
        part: &Range<usize>,
        upto: Ordering,
        env: &ExecEnv<'_>,
    ) -> ExecResult<usize> {
        let Some(target) = &self.target else {
            return Ok(match upto {
                Ordering::Less => self.peers.start,
                _ => self.peers.end,
            });
        };
        if target.is_null() {
            // Beyond all moments.
            return Ok(match upto {
                Ordering::Less => part.start,
                _ => part.end,
            });
        }
        let mut at = from;
        while at < part.end && self.is_before(at, target, upto, env)? {
            at += 1;
        }
        Ok(at)
    }

    fn is_before(
        &self,
        row: usize,
        target: &Value,
        upto: Ordering,
        env: &ExecEnv<'_>,
    ) -> ExecResult<bool> {
        let key = &self.sorted.rows[row][self.key];
        if key.is_null() {
            return Ok(!self.desc);
        }
        let op = match (self.desc, upto) {
            (false, Ordering::Less) => CmpOp::Lt,
            (false, _) => CmpOp::Le,
            (true, Ordering::Less) => CmpOp::Gt,
            (true, _) => CmpOp::Ge,
        };
        let (expr, kind) = self.shifted;
        let types = (self.key_ty, &expr.ty);
        Ok(compare_values(op, key, target, *kind, types, env)? == Some(true))
    }
}
