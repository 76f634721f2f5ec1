//! Conditions to key ranges of an index.
//!
//! Neighbours: `conds` hands over the conditions on a table, `edge` places values among a column's,
//! the key codec encodes; scans ask [`RangeSpec::build`] when they open.
//! **Invariants**: the ranges have every row for which the conditions are true (they may have more:
//! conditions are evaluated again); ranges of one build are sorted and do not touch; there are never
//! more than [`MAX_RANGES`].

use std::ops::Bound;

use esker_types::cmp::CmpKind;
use esker_types::collation::{Collation, char_offset};
use esker_types::{EvalCtx, SqlResult, SqlType, TypeKind, Value, ValueRef};

use super::KeyOperand;
use super::edge::{Edge, locate, usable};
use crate::catalog::IndexDef;
use crate::codec::{KeyCodec, KeyRange, prefix_successor};
use crate::expr::{CmpOp, EvalEnv, Expr, ExprKind, Test};

/// Most ranges of one scan; beyond, fewer key parts are used.
pub const MAX_RANGES: usize = 20_000;

/// Conditions in the form ranges are made of.
#[derive(Debug, Clone)]
pub struct RangeSpec {
    pred: Pred,
}

/// What a condition says of an index.
#[derive(Debug, Clone)]
enum Pred {
    /// Nothing.
    Any,
    /// It is never true.
    None,
    And(Vec<Pred>),
    Or(Vec<Pred>),
    /// Something about one key part.
    Part(usize, PartTest),
}

/// A condition on one key part; values are computed when the scan opens.
#[derive(Debug, Clone)]
enum PartTest {
    Cmp(CmpOp, Expr),
    In(Vec<Expr>),
    Null,
    NotNull,
    /// LIKE with this pattern, in the column's collation.
    Like(Expr, Option<char>),
}

/// A run of values of one key part, as encoded bytes: from `start`, up to before `end` (`None`: to
/// the end).
#[derive(Debug, Clone, PartialEq, Eq)]
struct Run {
    start: Vec<u8>,
    end: Option<Vec<u8>>,
    /// Exactly the keys that begin with `start`.
    point: bool,
}

impl Run {
    const ALL: Run = Run {
        start: Vec::new(),
        end: None,
        point: false,
    };

    fn point(key: Vec<u8>) -> Self {
        let mut end = key.clone();
        let end = prefix_successor(&mut end).then_some(end);
        Run {
            start: key,
            end,
            point: true,
        }
    }

    fn new(start: Vec<u8>, end: Option<Vec<u8>>) -> Option<Self> {
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
type Runs = Vec<Run>;

fn union(mut runs: Runs) -> Runs {
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

fn intersect(a: &Runs, b: &Runs) -> Runs {
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

impl RangeSpec {
    /// What `conds` say of the index; `slots` are the table's slots by column. `None` when they say
    /// nothing.
    pub(crate) fn new(
        index: &IndexDef,
        columns: &[SqlType],
        slots: &[Option<u32>],
        conds: &[Expr],
        known: &dyn Fn(&Expr) -> bool,
    ) -> Option<Self> {
        let shape = Shape {
            index,
            columns,
            slots,
            known,
        };
        let preds = conds
            .iter()
            .map(|c| shape.pred(c))
            .filter(|p| !matches!(p, Pred::Any));
        let preds: Vec<Pred> = preds.collect();
        let useful = preds.iter().any(Pred::starts_index);
        useful.then(|| RangeSpec {
            pred: Pred::And(preds),
        })
    }

    /// The ranges, ascending.
    pub fn build(
        &self,
        codec: &KeyCodec,
        row: &[Value],
        env: &EvalEnv<'_>,
    ) -> SqlResult<Vec<KeyRange>> {
        let builder = Builder { codec, row, env };
        let runs = builder.build(&self.pred)?;
        Ok(runs.into_iter().map(KeyRange::from).collect())
    }

    /// Are all compared values constants?
    pub(crate) fn is_constant(&self) -> bool {
        self.pred.is_constant()
    }

    /// How many leading key parts the conditions speak about.
    pub(crate) fn leading_parts(&self) -> usize {
        let mut parts = 0;
        while self.pred.mentions(parts) {
            parts += 1;
        }
        parts
    }
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

impl Pred {
    /// Does it restrict the first key part?
    fn starts_index(&self) -> bool {
        match self {
            Pred::Any => false,
            Pred::None => true,
            Pred::Part(part, _) => *part == 0,
            Pred::And(preds) => preds.iter().any(Pred::starts_index),
            Pred::Or(preds) => preds.iter().all(Pred::starts_index),
        }
    }

    fn mentions(&self, part: usize) -> bool {
        match self {
            Pred::Any | Pred::None => false,
            Pred::Part(p, _) => *p == part,
            Pred::And(preds) | Pred::Or(preds) => preds.iter().any(|p| p.mentions(part)),
        }
    }

    fn is_constant(&self) -> bool {
        match self {
            Pred::Any | Pred::None => true,
            Pred::And(preds) | Pred::Or(preds) => preds.iter().all(Pred::is_constant),
            Pred::Part(_, test) => match test {
                PartTest::Null | PartTest::NotNull => true,
                PartTest::Cmp(_, e) | PartTest::Like(e, _) => e.as_const().is_some(),
                PartTest::In(members) => members.iter().all(|e| e.as_const().is_some()),
            },
        }
    }

    /// The only part it speaks about.
    fn only_part(&self) -> Option<usize> {
        match self {
            Pred::Any | Pred::None => None,
            Pred::Part(part, _) => Some(*part),
            Pred::And(preds) | Pred::Or(preds) => {
                let mut parts = preds.iter().map(Pred::only_part);
                let first = parts.next()??;
                parts.all(|p| p == Some(first)).then_some(first)
            }
        }
    }
}

/// Reads conditions.
struct Shape<'a> {
    index: &'a IndexDef,
    columns: &'a [SqlType],
    slots: &'a [Option<u32>],
    /// Can the expression be evaluated when the scan opens?
    known: &'a dyn Fn(&Expr) -> bool,
}

impl Shape<'_> {
    /// The key part an expression is, and its column's type.
    fn part(&self, e: &Expr) -> Option<(usize, &SqlType)> {
        let slot = e.as_column()?;
        let col = self.slots.iter().position(|s| *s == Some(slot))?;
        let part = self.index.parts.iter().position(|p| p.col == col)?;
        Some((part, &self.columns[col]))
    }

    fn pred(&self, cond: &Expr) -> Pred {
        match &cond.kind {
            ExprKind::Const(_) => match crate::expr::fold::constant_truth(cond) {
                Some(false) => Pred::None,
                _ => Pred::Any,
            },
            ExprKind::And(conds) => {
                let preds = conds
                    .iter()
                    .map(|c| self.pred(c))
                    .filter(|p| !matches!(p, Pred::Any));
                let preds: Vec<Pred> = preds.collect();
                if preds.is_empty() {
                    Pred::Any
                } else {
                    Pred::And(preds)
                }
            }
            ExprKind::Or(conds) => {
                let preds: Vec<Pred> = conds.iter().map(|c| self.pred(c)).collect();
                match preds.iter().any(|p| matches!(p, Pred::Any)) {
                    true => Pred::Any,
                    false => Pred::Or(preds),
                }
            }
            ExprKind::Cmp(cmp) => {
                let direct = self.comparison(cmp.op, &cmp.left, &cmp.right, cmp.kind);
                direct
                    .or_else(|| self.comparison(cmp.op.flip(), &cmp.right, &cmp.left, cmp.kind))
                    .unwrap_or(Pred::Any)
            }
            ExprKind::Between(b) if !b.negated => {
                let low = self.comparison(CmpOp::Ge, &b.arg, &b.low.0, b.low.1);
                let high = self.comparison(CmpOp::Le, &b.arg, &b.high.0, b.high.1);
                match (low, high) {
                    (None, None) => Pred::Any,
                    (low, high) => Pred::And(low.into_iter().chain(high).collect()),
                }
            }
            ExprKind::Between(b) => {
                let low = self.comparison(CmpOp::Lt, &b.arg, &b.low.0, b.low.1);
                let high = self.comparison(CmpOp::Gt, &b.arg, &b.high.0, b.high.1);
                match (low, high) {
                    (Some(low), Some(high)) => Pred::Or(vec![low, high]),
                    _ => Pred::Any,
                }
            }
            ExprKind::InList(list) if !list.negated => self.in_list(list).unwrap_or(Pred::Any),
            ExprKind::Is {
                arg,
                test: Test::Null,
                negated,
            } => match self.part(arg) {
                Some((part, _)) => Pred::Part(
                    part,
                    if *negated {
                        PartTest::NotNull
                    } else {
                        PartTest::Null
                    },
                ),
                None => Pred::Any,
            },
            ExprKind::Like(like) if !like.negated => match self.part(&like.text) {
                Some((part, ty))
                    if ty.is_string()
                        && like.collation == ty.collation
                        && like.pattern.ty.is_string()
                        && (self.known)(&like.pattern) =>
                {
                    Pred::Part(part, PartTest::Like(like.pattern.clone(), like.escape))
                }
                _ => Pred::Any,
            },
            _ => Pred::Any,
        }
    }

    fn comparison(&self, op: CmpOp, arg: &Expr, value: &Expr, kind: CmpKind) -> Option<Pred> {
        let (part, ty) = self.part(arg)?;
        if !(self.known)(value) || !usable(ty, value, kind) {
            return None;
        }
        // An ENUM's order is its labels' numbers, not their texts.
        let textual_enum = matches!(ty.kind, TypeKind::Enum(_)) && matches!(kind, CmpKind::Str(_));
        if textual_enum && !matches!(op, CmpOp::Eq | CmpOp::NullSafeEq) {
            return None;
        }
        Some(Pred::Part(part, PartTest::Cmp(op, value.clone())))
    }

    fn in_list(&self, list: &crate::expr::InList) -> Option<Pred> {
        let (part, ty) = self.part(&list.arg)?;
        let mut members = list.list.iter().zip(&list.kinds);
        let fits = members.all(|(m, kind)| (self.known)(m) && usable(ty, m, *kind));
        fits.then(|| Pred::Part(part, PartTest::In(list.list.clone())))
    }
}

/// Computes values and encodes them.
struct Builder<'a, 'e> {
    codec: &'a KeyCodec,
    row: &'a [Value],
    env: &'a EvalEnv<'e>,
}

impl Builder<'_, '_> {
    fn ctx(&self) -> &EvalCtx<'_> {
        self.env.ctx
    }

    /// Ranges over whole keys.
    fn build(&self, pred: &Pred) -> SqlResult<Runs> {
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
    fn conjunction(&self, preds: Vec<&Pred>) -> SqlResult<Runs> {
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
    fn composite(&self, preds: &[&Pred]) -> SqlResult<Runs> {
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
    fn part_runs(&self, part: usize, pred: &Pred) -> SqlResult<Runs> {
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

    fn test_runs(&self, part: usize, test: &PartTest) -> SqlResult<Runs> {
        match test {
            PartTest::Null => Ok(self.null(part)?.into_iter().collect()),
            PartTest::NotNull => Ok(vec![self.not_null(part)?]),
            PartTest::In(members) => {
                let mut runs = Vec::with_capacity(members.len());
                for member in members {
                    runs.extend(self.compared(part, CmpOp::Eq, member)?);
                }
                Ok(union(runs))
            }
            PartTest::Cmp(op, value) => self.compared(part, *op, value),
            PartTest::Like(pattern, escape) => self.like(part, pattern, *escape),
        }
    }

    fn compared(&self, part: usize, op: CmpOp, value: &Expr) -> SqlResult<Runs> {
        let value = value.eval_ref(self.row, self.env)?;
        let edge = locate(&self.ctx().quiet(), &value, &self.codec.parts()[part].ty)?;
        let not_null = self.not_null(part)?;
        Ok(match (op, edge) {
            (CmpOp::NullSafeEq, Edge::Null) => self.null(part)?.into_iter().collect(),
            (_, Edge::Null) => Vec::new(),
            (_, Edge::Anywhere) => vec![not_null],
            (CmpOp::Eq | CmpOp::NullSafeEq, Edge::At(v)) => vec![Run::point(self.key(part, &v)?)],
            (CmpOp::Eq | CmpOp::NullSafeEq, _) => Vec::new(),
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

    fn key(&self, part: usize, value: &Value) -> SqlResult<Vec<u8>> {
        let mut key = Vec::with_capacity(16);
        let zone = self.ctx().time_zone;
        self.codec
            .encode_part(part, value.as_ref(), zone, &mut key)?;
        Ok(key)
    }

    fn null(&self, part: usize) -> SqlResult<Option<Run>> {
        if !self.codec.parts()[part].ty.nullable {
            return Ok(None);
        }
        let mut key = Vec::new();
        self.codec
            .encode_part(part, ValueRef::Null, self.ctx().time_zone, &mut key)?;
        Ok(Some(Run::point(key)))
    }

    /// Everything but NULL.
    fn not_null(&self, part: usize) -> SqlResult<Run> {
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

    /// Values below `value` (and itself).
    fn below(&self, part: usize, value: &Value, inclusive: bool) -> SqlResult<Runs> {
        let whole = self.not_null(part)?;
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
    fn above(&self, part: usize, value: &Value, inclusive: bool) -> SqlResult<Runs> {
        let whole = self.not_null(part)?;
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

    /// Texts that begin as the pattern does before its first wildcard.
    fn like(&self, part: usize, pattern: &Expr, escape: Option<char>) -> SqlResult<Runs> {
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
    let mut key = Vec::with_capacity(prefix.len() * 2);
    if collation.pad_space() {
        // A space's weight depends on what follows; the end has a unit of its own.
        let end = prefix
            .iter()
            .rposition(|b| *b != b' ')
            .map_or(0, |at| at + 1);
        let mut empty = Vec::new();
        collation.sort_key(b"", &mut empty);
        collation.sort_key(&prefix[..end], &mut key);
        key.truncate(key.len() - empty.len());
    } else if collation.is_bin() || collation.is_binary() {
        collation.sort_key(prefix, &mut key);
    } else {
        // Further levels come after all primary weights, which all 0900 collations share.
        Collation::UTF8MB4_0900_AI_CI.sort_key(prefix, &mut key);
    }
    key
}

/// Encodes operands of leading key parts into `out`; false when no key can match.
pub(crate) fn encode_operands(
    codec: &KeyCodec,
    operands: &[KeyOperand],
    row: &[Value],
    env: &EvalEnv<'_>,
    out: &mut Vec<u8>,
) -> SqlResult<bool> {
    for (nth, operand) in operands.iter().enumerate() {
        let value = operand.expr.eval_ref(row, env)?;
        let part = &codec.parts()[nth];
        let zone = env.ctx.time_zone;
        match (&*value, &part.ty.kind) {
            (Value::Null, _) => {
                if !operand.null_safe || !part.ty.nullable {
                    return Ok(false);
                }
                codec.encode_part(nth, ValueRef::Null, zone, out)?;
            }
            (Value::Int(_), TypeKind::BigInt) if !part.ty.unsigned => {
                codec.encode_part(nth, value.as_ref(), zone, out)?;
            }
            _ => match locate(&env.ctx.quiet(), &value, &part.ty)? {
                Edge::At(v) => codec.encode_part(nth, v.as_ref(), zone, out)?,
                _ => return Ok(false),
            },
        }
    }
    Ok(true)
}
