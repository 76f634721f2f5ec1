//! Computing the values of a [`RangeSpec`](super::ranges::RangeSpec) and encoding them as runs of keys.
//!
//! Neighbours: `ranges` knows what conditions say, `runs` combines, `edge` places values, the key codec
//! encodes.
//! **Invariant**: a run may be wider than its condition, never narrower.

use esker_sql_catalog::codec::{KeyCodec, prefix_successor};
use esker_sql_catalog::exec_error::ExecResult;
use esker_types::cmp::CmpKind;
use esker_types::collation::{Collation, char_offset};
use esker_types::{EvalCtx, Value, ValueRef};

use super::edge::{Edge, locate};
use super::ranges::{MAX_RANGES, PartTest, Pred};
use super::runs::{Run, Runs, intersect, union};
use crate::expr::{CmpOp, EvalEnv, Expr};

/// Computes values and encodes them.
pub(super) struct Builder<'a, 'e> {
    pub codec: &'a KeyCodec,
    pub row: &'a [Value],
    pub env: &'a EvalEnv<'e>,
}

impl Builder<'_, '_> {
    fn ctx(&self) -> &EvalCtx<'_> {
        self.env.ctx
    }

    /// Ranges over whole keys.
    pub fn build(&self, pred: &Pred) -> ExecResult<Runs> {
        match pred {
            Pred::Any => Ok(vec![Run::ALL]),
            Pred::None => Ok(Vec::new()),
            Pred::Or(preds) if pred.only_part().is_none() => {
                let mut runs = Vec::new();
                for pred in preds {
                    runs.extend(self.build(pred)?);
                }
                let runs = union(runs);
                Ok(if runs.len() > MAX_RANGES {
                    vec![Run::ALL]
                } else {
                    runs
                })
            }
            Pred::And(preds) => self.conjunction(preds.iter().collect()),
            one => self.conjunction(vec![one]),
        }
    }

    /// Conditions that all hold: those on single parts make composite ranges, the others are built on
    /// their own and intersected.
    fn conjunction(&self, preds: Vec<&Pred>) -> ExecResult<Runs> {
        let (mut flat, mut todo) = (Vec::new(), preds);
        while let Some(pred) = todo.pop() {
            match pred {
                Pred::And(inner) => todo.extend(inner),
                Pred::None => return Ok(Vec::new()),
                pred => flat.push(pred),
            }
        }
        let mut result = self.composite(&flat)?;
        for pred in flat {
            if pred.only_part().is_none() && !matches!(pred, Pred::Any) {
                result = intersect(&result, &self.build(pred)?);
            }
        }
        Ok(result)
    }

    /// Points of leading parts, extended part by part, ended by the first part with runs.
    fn composite(&self, preds: &[&Pred]) -> ExecResult<Runs> {
        let mut prefixes: Vec<Vec<u8>> = vec![Vec::new()];
        for part in 0..self.codec.parts().len() {
            let mut runs: Option<Runs> = None;
            for pred in preds.iter().filter(|p| p.only_part() == Some(part)) {
                let found = self.part_runs(part, pred)?;
                runs = Some(match runs {
                    None => found,
                    Some(before) => intersect(&before, &found),
                });
            }
            let Some(runs) = runs else { break };
            if runs.len().saturating_mul(prefixes.len()) > MAX_RANGES {
                break;
            }
            if runs.iter().all(|r| r.point) {
                prefixes = prefixes
                    .iter()
                    .flat_map(|p| runs.iter().map(move |r| [p.as_slice(), &r.start].concat()))
                    .collect();
                continue;
            }
            let joined = prefixes
                .iter()
                .flat_map(|p| runs.iter().map(|r| prefixed(p, r)));
            return Ok(joined.collect());
        }
        Ok(prefixes
            .into_iter()
            .map(|p| {
                if p.is_empty() {
                    Run::ALL
                } else {
                    Run::point(p)
                }
            })
            .collect())
    }

    /// Runs of one part for a condition on that part alone.
    fn part_runs(&self, part: usize, pred: &Pred) -> ExecResult<Runs> {
        Ok(match pred {
            Pred::Any => vec![Run::ALL],
            Pred::None => Vec::new(),
            Pred::Part(_, test) => self.test_runs(part, test)?,
            Pred::Or(preds) => {
                let mut runs = Vec::new();
                for pred in preds {
                    runs.extend(self.part_runs(part, pred)?);
                }
                union(runs)
            }
            Pred::And(preds) => {
                let mut runs = vec![Run::ALL];
                for pred in preds {
                    runs = intersect(&runs, &self.part_runs(part, pred)?);
                }
                runs
            }
        })
    }

    fn test_runs(&self, part: usize, test: &PartTest) -> ExecResult<Runs> {
        match test {
            PartTest::Null => Ok(self.null(part)?.into_iter().collect()),
            PartTest::NotNull => Ok(vec![self.not_null(part)?]),
            PartTest::In(members) => {
                let mut runs = Vec::with_capacity(members.len());
                for (member, kind) in members {
                    self.env.turn()?;
                    runs.extend(self.compared(part, CmpOp::Eq, member, *kind)?);
                }
                Ok(union(runs))
            }
            PartTest::Cmp(op, value, kind) => self.compared(part, *op, value, *kind),
            PartTest::Like(pattern, escape) => self.like(part, pattern, *escape),
        }
    }

    fn compared(&self, part: usize, op: CmpOp, value: &Expr, kind: CmpKind) -> ExecResult<Runs> {
        let value = value.eval_ref(self.row, self.env)?;
        let ty = &self.codec.parts()[part].ty;
        let edge = locate(&self.ctx().quiet(), &value, ty, kind)?;
        let not_null = self.not_null(part)?;
        Ok(match (op, edge) {
            (CmpOp::NullSafeEq, Edge::Null) => self.null(part)?.into_iter().collect(),
            (_, Edge::Null) => Vec::new(),
            (_, Edge::Anywhere) => vec![not_null],
            (CmpOp::Eq | CmpOp::NullSafeEq, Edge::At(v)) => vec![Run::point(self.key(part, &v)?)],
            (CmpOp::Eq | CmpOp::NullSafeEq, Edge::Near(low, high)) => {
                let from = self.from(part, low.as_ref())?;
                intersect(&from, &self.up_to(part, high.as_ref())?)
            }
            (CmpOp::Eq | CmpOp::NullSafeEq, _) => Vec::new(),
            (CmpOp::Lt | CmpOp::Le, Edge::Near(_, high)) => self.up_to(part, high.as_ref())?,
            (CmpOp::Gt | CmpOp::Ge, Edge::Near(low, _)) => self.from(part, low.as_ref())?,
            (CmpOp::Lt | CmpOp::Le, Edge::BeforeAll) | (CmpOp::Gt | CmpOp::Ge, Edge::AfterAll) => {
                Vec::new()
            }
            (CmpOp::Lt | CmpOp::Le, Edge::AfterAll) | (CmpOp::Gt | CmpOp::Ge, Edge::BeforeAll) => {
                vec![not_null]
            }
            (CmpOp::Lt, Edge::At(v)) => self.below(part, &v, false)?,
            (CmpOp::Le, Edge::At(v)) | (CmpOp::Lt | CmpOp::Le, Edge::JustAfter(v)) => {
                self.below(part, &v, true)?
            }
            (CmpOp::Ge, Edge::At(v)) => self.above(part, &v, true)?,
            (CmpOp::Gt, Edge::At(v)) | (CmpOp::Gt | CmpOp::Ge, Edge::JustAfter(v)) => {
                self.above(part, &v, false)?
            }
            (CmpOp::Ne, Edge::At(v)) if self.codec.parts()[part].prefix_len.is_none() => {
                let mut runs = self.below(part, &v, false)?;
                runs.extend(self.above(part, &v, false)?);
                union(runs)
            }
            (CmpOp::Ne, _) => vec![not_null],
        })
    }

    fn key(&self, part: usize, value: &Value) -> ExecResult<Vec<u8>> {
        let mut key = Vec::with_capacity(16);
        let zone = &self.ctx().time_zone;
        self.codec
            .encode_part(part, value.as_ref(), zone, &mut key)?;
        Ok(key)
    }

    fn null(&self, part: usize) -> ExecResult<Option<Run>> {
        if !self.codec.parts()[part].ty.nullable {
            return Ok(None);
        }
        let mut key = Vec::new();
        self.codec
            .encode_part(part, ValueRef::Null, &self.ctx().time_zone, &mut key)?;
        Ok(Some(Run::point(key)))
    }

    /// Everything but NULL.
    fn not_null(&self, part: usize) -> ExecResult<Run> {
        let desc = self.codec.parts()[part].desc;
        Ok(match (self.null(part)?, desc) {
            (None, _) => Run::ALL,
            (Some(null), false) => Run {
                start: null.end.unwrap_or_default(),
                end: None,
                point: false,
            },
            (Some(null), true) => Run {
                start: Vec::new(),
                end: Some(null.start),
                point: false,
            },
        })
    }

    /// Are the values of a part in the order of what the key has of them? Of a text it may have the beginning only.
    fn is_ordered(&self, part: usize) -> bool {
        let def = &self.codec.parts()[part];
        def.prefix_len.is_none() || def.ty.collation.orders_by_prefix()
    }

    /// Values below `value` (and itself).
    fn below(&self, part: usize, value: &Value, inclusive: bool) -> ExecResult<Runs> {
        let whole = self.not_null(part)?;
        if !self.is_ordered(part) {
            return Ok(vec![whole]);
        }
        let at = Run::point(self.key(part, value)?);
        let def = &self.codec.parts()[part];
        let inclusive = inclusive || def.prefix_len.is_some();
        let run = match (def.desc, inclusive) {
            (false, true) => Run::new(whole.start, at.end),
            (false, false) => Run::new(whole.start, Some(at.start)),
            (true, true) => Run::new(at.start, whole.end),
            (true, false) => at.end.and_then(|end| Run::new(end, whole.end)),
        };
        Ok(run.into_iter().collect())
    }

    /// Values above `value` (and itself).
    fn above(&self, part: usize, value: &Value, inclusive: bool) -> ExecResult<Runs> {
        let whole = self.not_null(part)?;
        if !self.is_ordered(part) {
            return Ok(vec![whole]);
        }
        let at = Run::point(self.key(part, value)?);
        let def = &self.codec.parts()[part];
        let inclusive = inclusive || def.prefix_len.is_some();
        let run = match (def.desc, inclusive) {
            (false, true) => Run::new(at.start, whole.end),
            (false, false) => at.end.and_then(|end| Run::new(end, whole.end)),
            (true, true) => Run::new(whole.start, at.end),
            (true, false) => Run::new(whole.start, Some(at.start)),
        };
        Ok(run.into_iter().collect())
    }

    /// Values from `low` on, or all.
    fn from(&self, part: usize, low: Option<&Value>) -> ExecResult<Runs> {
        match low {
            Some(low) => self.above(part, low, true),
            None => Ok(vec![self.not_null(part)?]),
        }
    }

    /// Values up to `high`, or all.
    fn up_to(&self, part: usize, high: Option<&Value>) -> ExecResult<Runs> {
        match high {
            Some(high) => self.below(part, high, true),
            None => Ok(vec![self.not_null(part)?]),
        }
    }

    /// Texts that begin as the pattern does before its first wildcard.
    fn like(&self, part: usize, pattern: &Expr, escape: Option<char>) -> ExecResult<Runs> {
        let pattern = pattern.eval_ref(self.row, self.env)?;
        let Value::Str(pattern) = &*pattern else {
            return Ok(if pattern.is_null() {
                Vec::new()
            } else {
                vec![self.not_null(part)?]
            });
        };
        let def = &self.codec.parts()[part];
        let prefix = like_prefix(pattern, escape, def.ty.collation);
        let chars = def.prefix_len.map_or(usize::MAX, |n| n as usize);
        let cut = match def.ty.collation.is_binary() {
            true => prefix.len().min(chars),
            false => char_offset(&prefix, chars),
        };
        let weights = prefix_weights(&prefix[..cut], def.ty.collation);
        if weights.is_empty() {
            return Ok(vec![self.not_null(part)?]);
        }
        // In ascending form the texts follow NULL.
        let mut key = match (self.null(part)?, def.desc) {
            (None, _) => Vec::new(),
            (Some(null), false) => null.end.unwrap_or_default(),
            (Some(null), true) => {
                let mut ascending = Run::point(null.start.iter().map(|b| !b).collect());
                ascending.end.take().unwrap_or_default()
            }
        };
        for b in weights {
            key.push(b);
            if b == 0 {
                key.push(0xFF);
            }
        }
        if def.desc {
            for b in &mut key {
                *b = !*b;
            }
        }
        Ok(vec![Run {
            point: false,
            ..Run::point(key)
        }])
    }
}

fn prefixed(prefix: &[u8], run: &Run) -> Run {
    let start = [prefix, &run.start].concat();
    let end = match &run.end {
        Some(end) => Some([prefix, end].concat()),
        None if prefix.is_empty() => None,
        None => {
            let mut end = prefix.to_vec();
            prefix_successor(&mut end).then_some(end)
        }
    };
    Run {
        start,
        end,
        point: run.point,
    }
}

/// The text before the first wildcard, escapes resolved.
fn like_prefix(pattern: &[u8], escape: Option<char>, collation: Collation) -> Vec<u8> {
    let mut escape_bytes = [0; 4];
    let escape = escape.map(|c| c.encode_utf8(&mut escape_bytes).as_bytes());
    let mut out = Vec::with_capacity(pattern.len());
    let mut rest = pattern;
    while let Some(&b) = rest.first() {
        if let Some(escape) = escape.filter(|e| rest.starts_with(e) && rest.len() > e.len()) {
            rest = &rest[escape.len()..];
        } else if b == b'%' || b == b'_' {
            break;
        }
        let len = if collation.is_binary() {
            1
        } else {
            esker_types::collation::char_len(rest).clamp(1, rest.len())
        };
        out.extend_from_slice(&rest[..len]);
        rest = &rest[len..];
    }
    out
}

/// The bytes with which the sort key of every text that begins with `prefix` begins.
fn prefix_weights(prefix: &[u8], collation: Collation) -> Vec<u8> {
    let prefix = collation.certain_prefix(prefix);
    let end = match collation.pad_space() {
        // A space's weight depends on what follows.
        true => {
            let last = prefix.iter().rposition(|b| *b != b' ');
            last.map_or(0, |at| at + 1)
        }
        false => prefix.len(),
    };
    let mut key = Vec::with_capacity(prefix.len() * 2);
    collation.prefix_key(&prefix[..end], &mut key);
    key
}
