//! Runtime join filters: Bloom filters of build sides, applied where probe rows are read.
//!
//! A row that would find nothing in the hash table of a later join is dropped before the rest of its columns is
//! decoded. Literature: "sideways information passing"; Bloom filters of hash joins in most analytical systems.
//! Neighbours: `prepare` makes a [`RuntimeFilter`] of each build side that is complete and hands it to what is read
//! afterwards: the source of the probe pipeline, and other build sides (`join` fills their tables); `task` applies its
//! own [`RuntimeFilters`], which drops filters that turn out not to be selective. **Invariants**: only inner joins have
//! filters, on plain columns that no stage before them changes, so a row that is dropped would have been dropped by the
//! join; no expression is evaluated for rows that would not have come to it.

use std::sync::Arc;

use esker_sql_catalog::catalog::TableDef;
use esker_sql_catalog::codec::FieldPlaces;
use esker_sql_catalog::exec_error::ExecResult;
use esker_sql_plan::bind::JoinType;
use esker_sql_plan::expr::rowkey;
use esker_sql_plan::expr::{Expr, ExprKind};
use esker_sql_plan::plan::{HashBy, JoinMethod, JoinPlan, Node, ScanPlan, Source, is_cheap};
use esker_types::Value;
use esker_types::cmp::CmpKind;

use super::super::join::{Kept, hash_key};
use super::super::key_filter::{KeyFilter, few_integers};
use super::super::memory::{Purpose, charge};
use super::super::node::all_true;
use super::super::scan::{Verdict, fill, meets};
use crate::ExecEnv;

/// After so many rows a task keeps the filters that drop one row of `MIN_DROP_RATE`, the most selective first.
const TRIAL_ROWS: u32 = 4096;
const MIN_DROP_RATE: u32 = 8;

/// A filter for the probe keys of one join.
#[derive(Clone)]
pub(crate) struct RuntimeFilter {
    exprs: Arc<[Expr]>,
    by: Arc<[HashBy]>,
    filter: Arc<KeyFilter>,
    /// The keys themselves, if they are integers and not many.
    few: Option<Arc<[i64]>>,
}

impl RuntimeFilter {
    /// The filter of a join with this build side, which was filtered itself or not, and the bytes it is charged with.
    /// `None` if it would let nearly every row pass.
    pub fn of(
        join: &JoinPlan,
        kept: &Kept,
        are_filtered: bool,
        env: &ExecEnv<'_>,
    ) -> ExecResult<Option<(Self, u64)>> {
        let (JoinMethod::Hash { left, by, .. }, Kept::Table(table)) = (&join.method, kept) else {
            return Ok(None);
        };
        let are_columns = left.iter().all(|e| e.as_column().is_some());
        if join.kind == JoinType::Left || !are_columns || (!are_filtered && is_whole(&join.right)) {
            return Ok(None);
        }
        let filter = KeyFilter::of(table, by)?;
        let few: Option<Arc<[i64]>> = few_integers(table, by)?.map(Arc::from);
        let listed = few.as_ref().map_or(0, |keys| size_of_val(&**keys) as u64);
        let bytes = filter.bytes() + listed;
        // It only saves time.
        if charge(env, bytes, Purpose::Hash).is_err() {
            return Ok(None);
        }
        debug_assert_eq!(left.len(), by.len());
        let filter = Self {
            exprs: left.as_slice().into(),
            by: by.as_slice().into(),
            filter: Arc::new(filter),
            few,
        };
        Ok(Some((filter, bytes)))
    }

    fn reads(&self, slot: u32) -> bool {
        self.exprs.iter().any(|e| e.as_column() == Some(slot))
    }

    /// The filter for the build side of an inner join of the same block: where it asks for what the join's keys equal,
    /// the right row's own column is asked for.
    pub fn for_build_side(&self, join: &JoinPlan) -> Option<Self> {
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

    /// Where the stored rows of a table have the one integer that is asked for.
    fn place(&self, scan: &ScanPlan) -> Option<FieldPlaces> {
        match (&*self.exprs, &*self.by, &scan.source) {
            ([expr], [by], Source::Base { def, .. }) if by.kind == CmpKind::Int => {
                let slot = expr.as_column()?;
                let (col, _) = scan.columns.iter().find(|(_, s)| *s == slot)?;
                def.layout.field_places(*col)
            }
            _ => None,
        }
    }

    /// The integers among which a slot has to be, if that is all it asks for and they are not many.
    pub fn few(&self, slot: u32) -> Option<&[i64]> {
        match &*self.exprs {
            [expr] if expr.as_column() == Some(slot) => self.few.as_deref(),
            _ => None,
        }
    }

    /// Does it ask for nothing but these slots?
    pub fn reads_only(&self, slots: &[u32]) -> bool {
        let mut columns = self.exprs.iter().filter_map(Expr::as_column);
        columns.all(|slot| slots.contains(&slot))
    }

    /// Does a row pass whose only asked column has this integer?
    #[inline]
    fn passes_integer(&self, value: i64, key: &mut Vec<u8>) -> bool {
        self.filter.may_have_integer(value).unwrap_or_else(|| {
            key.clear();
            rowkey::encode_for(&Value::Int(value), CmpKind::Int, key);
            self.filter.may_have(key)
        })
    }

    /// Does a row pass?
    #[inline]
    pub fn passes(&self, row: &[Value], env: &ExecEnv<'_>, key: &mut Vec<u8>) -> ExecResult<bool> {
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

/// The filters of a task, and the decoding of its source with them.
pub(super) struct RuntimeFilters<'t> {
    filters: Vec<Trial<'t>>,
    /// Columns that filters read and conditions do not, and the rest.
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
    filter: &'t RuntimeFilter,
    /// Where the stored row has the one integer that is asked for.
    place: Option<FieldPlaces>,
    dropped: u64,
}

impl<'t> Trial<'t> {
    fn new(filter: &'t RuntimeFilter, scan: &ScanPlan) -> Self {
        Self {
            filter,
            place: filter.place(scan),
            dropped: 0,
        }
    }
}

/// A filter for the stored rows of a table that is looked up for each row of others.
pub(crate) struct StoredRowFilter {
    filter: RuntimeFilter,
    place: FieldPlaces,
    key: Vec<u8>,
    asked: u32,
    dropped: u32,
}

impl StoredRowFilter {
    /// Those that can be asked before anything of a row is decoded, of those that later inner joins have. None where a
    /// condition could fail or warn of a row that they drop.
    pub fn all_of(filters: &[RuntimeFilter], scan: &ScanPlan) -> Vec<Self> {
        if !scan.conds.iter().all(is_cheap) {
            return Vec::new();
        }
        let stored = filters.iter().filter_map(|filter| {
            Some(Self {
                place: filter.place(scan)?,
                filter: filter.clone(),
                key: Vec::new(),
                asked: 0,
                dropped: 0,
            })
        });
        stored.collect()
    }

    /// Does a row pass?
    #[inline]
    pub fn passes(&mut self, stored: &[u8]) -> bool {
        if self.asked >= TRIAL_ROWS && self.dropped < TRIAL_ROWS / MIN_DROP_RATE {
            return true;
        }
        let found = self.place.integer(stored);
        let passes = found.is_none_or(|v| self.filter.passes_integer(v, &mut self.key));
        if self.asked < TRIAL_ROWS {
            self.asked += 1;
            self.dropped += u32::from(!passes);
        }
        passes
    }
}

/// Where the keys are that filters ask for.
enum Keys<'r, 'e> {
    /// In the row's slots.
    Decoded(&'r [Value], &'r ExecEnv<'e>),
    /// In the stored row, as integers.
    Stored(&'r [u8]),
}

impl<'t> RuntimeFilters<'t> {
    /// For rows of a table.
    pub fn new(filters: &'t [RuntimeFilter], scan: &ScanPlan) -> Self {
        let rest = scan.columns[scan.cond_columns..].iter();
        let (keys, late) = rest.partition(|(_, slot)| filters.iter().any(|s| s.reads(*slot)));
        let filters = filters.iter().map(|filter| Trial::new(filter, scan));
        Self {
            filters: filters.collect(),
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
        env: &ExecEnv<'_>,
    ) -> ExecResult<Verdict> {
        // Where no condition is left, nothing need be decoded for integers.
        let is_there = |s: &Trial<'_>| s.place.as_ref().and_then(|p| p.integer(stored)).is_some();
        let in_place = met == scan.conds.len() && self.filters.iter().all(is_there);
        if in_place && let Verdict::Drop = self.filter_by(Keys::Stored(stored))? {
            return Ok(Verdict::Drop);
        }
        let Some(reader) = meets(scan, def, met, stored, row, env)? else {
            return Ok(Verdict::Drop);
        };
        fill(&self.keys, &reader, row);
        if !in_place && let Verdict::Drop = self.filter_by(Keys::Decoded(row, env))? {
            return Ok(Verdict::Drop);
        }
        fill(&self.late, &reader, row);
        Ok(Verdict::Take)
    }

    /// Judges a row that is decoded; the first `met` conditions are known to be true. Conditions with subqueries come
    /// last: what a join drops need not be looked up for them.
    pub fn judge_decoded(
        &mut self,
        scan: &ScanPlan,
        met: usize,
        row: &[Value],
        env: &ExecEnv<'_>,
    ) -> ExecResult<Verdict> {
        let (cheap, costly) = scan.conds.split_at(self.costly_from);
        debug_assert!(met <= scan.conds.len());
        let cheap = cheap.get(met..).unwrap_or_default();
        let is_taken = all_true(cheap, row, env)?
            && matches!(self.filter_by(Keys::Decoded(row, env))?, Verdict::Take)
            && all_true(costly, row, env)?;
        Ok(match is_taken {
            true => Verdict::Take,
            false => Verdict::Drop,
        })
    }

    /// Does a row pass all filters?
    #[inline]
    fn filter_by(&mut self, keys: Keys<'_, '_>) -> ExecResult<Verdict> {
        if self.filters.is_empty() {
            return Ok(Verdict::Take);
        }
        self.asked = self.asked.saturating_add(1);
        if self.asked == TRIAL_ROWS {
            self.filters.sort_by_key(|s| std::cmp::Reverse(s.dropped));
            let least = u64::from(TRIAL_ROWS / MIN_DROP_RATE);
            self.filters.retain(|s| s.dropped >= least);
        }
        let is_trial = self.asked < TRIAL_ROWS;
        let mut verdict = Verdict::Take;
        for Trial {
            filter,
            place,
            dropped,
        } in &mut self.filters
        {
            let passes = match keys {
                Keys::Decoded(row, env) => filter.passes(row, env, &mut self.key)?,
                Keys::Stored(stored) => {
                    let found = place.as_ref().and_then(|p| p.integer(stored));
                    found.is_none_or(|v| filter.passes_integer(v, &mut self.key))
                }
            };
            if !passes {
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
