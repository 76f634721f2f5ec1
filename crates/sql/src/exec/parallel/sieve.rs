//! Rows that would find nothing in the hash table of a later join are dropped where they are read, before the rest of their columns is.
//!
//! Neighbours: `prepare` makes a [`Sieve`] of each right side that is there and hands it to what is read afterwards: the tasks' table, and
//! other right sides (`join` fills their tables); `task` sifts with a [`Sifter`] of its own.
//! **Invariants**: only inner joins have sieves, on plain columns that no stage before them changes, so a row that is dropped would have
//! been dropped by the join; no expression is evaluated for rows that would not have come to it.

use std::sync::Arc;

use esker_types::{SqlResult, Value};

use super::super::join::{Kept, hash_key};
use super::super::key_filter::KeyFilter;
use super::super::memory::{Purpose, charge};
use super::super::node::all_true;
use super::super::scan::{Verdict, fill, meets};
use crate::bind::JoinType;
use crate::catalog::TableDef;
use crate::expr::{EvalEnv, Expr, ExprKind};
use crate::plan::{HashBy, JoinMethod, JoinPlan, Node, ScanPlan};

/// After so many rows a task keeps the sieves that drop one of `LEAST_RATE`, the finest first.
const TRIAL_ROWS: u32 = 4096;
const LEAST_RATE: u32 = 8;

/// What the keys of a join's left rows have to pass.
#[derive(Clone)]
pub(in crate::exec) struct Sieve {
    exprs: Arc<[Expr]>,
    by: Arc<[HashBy]>,
    filter: Arc<KeyFilter>,
}

impl Sieve {
    /// What a join with these right rows, which were sifted themselves or not, lets pass, where that is less than everything, and the
    /// bytes it is charged with.
    pub fn of(
        join: &JoinPlan,
        kept: &Kept,
        are_sifted: bool,
        env: &EvalEnv<'_>,
    ) -> SqlResult<Option<(Self, u64)>> {
        let (JoinMethod::Hash { left, by, .. }, Kept::Table(table)) = (&join.method, kept) else {
            return Ok(None);
        };
        let are_columns = left.iter().all(|e| e.as_column().is_some());
        if join.kind == JoinType::Left || !are_columns || (!are_sifted && is_whole(&join.right)) {
            return Ok(None);
        }
        let filter = KeyFilter::of(table, by)?;
        let bytes = filter.bytes();
        // It only saves time.
        if charge(env, bytes, Purpose::Hash).is_err() {
            return Ok(None);
        }
        let sieve = Self {
            exprs: left.as_slice().into(),
            by: by.as_slice().into(),
            filter: Arc::new(filter),
        };
        Ok(Some((sieve, bytes)))
    }

    fn reads(&self, slot: u32) -> bool {
        self.exprs.iter().any(|e| e.as_column() == Some(slot))
    }

    /// The sieve for right rows of an inner join of the same block: where it asks for what the join's keys equal, the right row's own
    /// column is asked for.
    pub fn for_right(&self, join: &JoinPlan) -> Option<Self> {
        let JoinMethod::Hash { left, right, by } = &join.method else {
            return None;
        };
        let mut filled = Vec::new();
        join.right.filled_slots(&mut filled);
        let own = |(expr, how): (&Expr, &HashBy)| {
            let slot = expr.as_column()?;
            if filled.contains(&slot) {
                return Some(expr.clone());
            }
            let mut pairs = left.iter().zip(right).zip(by);
            let equal = pairs.find(|((l, r), by)| {
                let is_same = l.as_column() == Some(slot) && by.kind == how.kind && !by.null_safe;
                is_same && r.as_column().is_some_and(|r| filled.contains(&r))
            });
            equal.map(|((_, r), _)| r.clone())
        };
        let exprs: Option<Vec<Expr>> = self.exprs.iter().zip(&*self.by).map(own).collect();
        Some(Self {
            exprs: exprs?.into(),
            ..self.clone()
        })
    }

    /// Does it ask for nothing but these slots?
    pub fn reads_only(&self, slots: &[u32]) -> bool {
        let mut columns = self.exprs.iter().filter_map(Expr::as_column);
        columns.all(|slot| slots.contains(&slot))
    }

    /// Does a row pass?
    #[inline]
    pub fn passes(&self, row: &[Value], env: &EvalEnv<'_>, key: &mut Vec<u8>) -> SqlResult<bool> {
        if let [expr] = &*self.exprs
            && let Some(passes) = self.filter.may_have_value(&*expr.eval_ref(row, env)?)
        {
            return Ok(passes);
        }
        Ok(hash_key(&self.exprs, &self.by, row, env, key)? && self.filter.may_have(key))
    }
}

fn has_subquery(e: &Expr) -> bool {
    e.any(&mut |e| matches!(e.kind, ExprKind::Subquery(_)))
}

/// Are all rows of a table wanted? Then nearly every left row has one.
fn is_whole(node: &Node) -> bool {
    matches!(node, Node::Scan(scan) if scan.conds.is_empty())
}

/// The sieves of a task, and how its table is decoded with them.
pub(super) struct Sifter<'t> {
    sieves: Vec<Trial<'t>>,
    /// Columns that sieves read and conditions do not, and the rest.
    keys: Vec<(usize, u32)>,
    late: Vec<(usize, u32)>,
    /// The first condition with a subquery.
    costly_from: usize,
    key: Vec<u8>,
    asked: u32,
    /// Rows that did not pass.
    pub dropped: u64,
}

struct Trial<'t> {
    sieve: &'t Sieve,
    dropped: u64,
}

impl<'t> Sifter<'t> {
    /// For rows of a table.
    pub fn new(sieves: &'t [Sieve], scan: &ScanPlan) -> Self {
        let rest = scan.columns[scan.cond_columns..].iter();
        let (keys, late) = rest.partition(|(_, slot)| sieves.iter().any(|s| s.reads(*slot)));
        let sieves = sieves.iter().map(|sieve| Trial { sieve, dropped: 0 });
        Self {
            sieves: sieves.collect(),
            keys,
            late,
            costly_from: scan
                .conds
                .iter()
                .position(has_subquery)
                .unwrap_or(scan.conds.len()),
            key: Vec::new(),
            asked: 0,
            dropped: 0,
        }
    }

    /// Decodes a stored row as far as it gets; the first `met` conditions are known to be true.
    pub fn judge(
        &mut self,
        scan: &ScanPlan,
        def: &TableDef,
        met: usize,
        stored: &[u8],
        row: &mut [Value],
        env: &EvalEnv<'_>,
    ) -> SqlResult<Verdict> {
        let Some(reader) = meets(scan, def, met, stored, row, env)? else {
            return Ok(Verdict::Drop);
        };
        fill(&self.keys, &reader, row);
        if let Verdict::Drop = self.sift(row, env)? {
            return Ok(Verdict::Drop);
        }
        fill(&self.late, &reader, row);
        Ok(Verdict::Take)
    }

    /// Judges a row that is decoded; the first `met` conditions are known to be true. Conditions with subqueries come last: what a
    /// join drops need not be looked up for them.
    pub fn judge_decoded(
        &mut self,
        scan: &ScanPlan,
        met: usize,
        row: &[Value],
        env: &EvalEnv<'_>,
    ) -> SqlResult<Verdict> {
        let (cheap, costly) = scan.conds.split_at(self.costly_from);
        let cheap = cheap.get(met..).unwrap_or_default();
        let is_taken = all_true(cheap, row, env)?
            && matches!(self.sift(row, env)?, Verdict::Take)
            && all_true(costly, row, env)?;
        Ok(match is_taken {
            true => Verdict::Take,
            false => Verdict::Drop,
        })
    }

    /// Does the row, whose keys are there, pass all sieves?
    fn sift(&mut self, row: &[Value], env: &EvalEnv<'_>) -> SqlResult<Verdict> {
        if self.sieves.is_empty() {
            return Ok(Verdict::Take);
        }
        self.asked = self.asked.saturating_add(1);
        if self.asked == TRIAL_ROWS {
            self.sieves.sort_by_key(|s| std::cmp::Reverse(s.dropped));
            let least = u64::from(TRIAL_ROWS / LEAST_RATE);
            self.sieves.retain(|s| s.dropped >= least);
        }
        let is_trial = self.asked < TRIAL_ROWS;
        let mut verdict = Verdict::Take;
        for Trial { sieve, dropped } in &mut self.sieves {
            if !sieve.passes(row, env, &mut self.key)? {
                verdict = Verdict::Drop;
                *dropped += 1;
                // For a while each is asked, so that the finest comes first.
                if !is_trial {
                    break;
                }
            }
        }
        self.dropped += u64::from(matches!(verdict, Verdict::Drop));
        Ok(verdict)
    }
}
