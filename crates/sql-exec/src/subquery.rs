//! Queries inside expressions: scalar, EXISTS, IN, ANY and ALL.
//!
//! Neighbours: expression evaluation calls [`evaluate`]; `root` runs the query; states live in
//! [`SubqueryStates`](crate::SubqueryStates); `extreme` keeps the rows that decide an order.
//! **Invariants**: a subquery that refers to no enclosing row and is not volatile runs once per
//! statement; three-valued logic is MySQL's (`x IN (empty)` is false even for NULL); a state is out
//! of the table while it is being used, so a query cannot meet its own state.

mod extreme;

use std::collections::HashSet;
use std::sync::Arc;

use esker_engine::View;
use esker_sql_catalog::exec_error::ExecResult;
use esker_sql_catalog::result::ColumnMeta;
use esker_sql_plan::bind::{Volatility, errors};
use esker_sql_plan::expr::eval::compare_values;
use esker_sql_plan::expr::rowkey;
use esker_sql_plan::expr::{CmpOp, Expr, OuterRow, Subquery, SubqueryForm};
use esker_types::cmp::CmpKind;
use esker_types::{SqlType, Value};

use super::join_table::{KeyHash, KeyMap};
use super::key_filter::FEW_INTEGERS;
use super::memory::{Purpose, charge, row_bytes};
use super::root::RootExec;
use super::spill::write_values;
use crate::{ExecEnv, SubqueryStates};
use extreme::Extreme;

/// Running state of one subquery.
pub struct SubqueryState {
    exec: RootExec,
    cached: Option<Arc<Cached>>,
    /// Assignments made when `cached` was computed.
    as_of: u64,
    /// Values for rows seen before, as long as that pays.
    memo: Option<Memo>,
    /// The left side of a comparison and its key; kept for their memory.
    left: Vec<Value>,
    key: Vec<u8>,
}

/// Values of a correlated subquery by the columns of the enclosing row that it reads.
struct Memo {
    slots: Vec<u32>,
    values: KeyMap<Value>,
    key: Vec<u8>,
    bytes: usize,
    asked: u32,
    known: u32,
}

/// Bytes of a memo: then it begins anew.
const MEMO_BYTES: usize = 1 << 20;
/// After so many questions a memo has to have known one of so many.
const MEMO_TRIAL: u32 = 1000;
const MEMO_RATE: u32 = 8;

/// The result of a subquery that does not depend on the row.
enum Cached {
    /// The values of the only row, or that of EXISTS.
    Row(Vec<Value>),
    Rows(Rows),
}

/// Materialised rows of IN, ANY, ALL.
struct Rows {
    rows: Vec<Vec<Value>>,
    /// Keys of the rows without NULL, when equality can be decided on keys.
    keys: Option<HashSet<Box<[u8]>, KeyHash>>,
    /// Some row has a NULL.
    has_null: bool,
    /// The keys, if they are single integers and not many.
    few_integers: Option<Box<[i64]>>,
}

/// Value of a subquery for the current row.
pub(crate) fn evaluate(query: &Subquery, row: &[Value], env: &ExecEnv<'_>) -> ExecResult<Value> {
    let mut state = match env.states.take(query.id) {
        Some(state) => state,
        None => Box::new(SubqueryState::new(query, None)),
    };
    let now = env.calls.assignments.get();
    if state.as_of != now && query.plan.volatility == Volatility::Variables {
        state.cached = None;
    }
    state.as_of = now;
    let outer = OuterRow { row, up: env.outer };
    let result = state.value(query, row, env, &env.nested(&outer));
    env.states.put(query.id, state);
    result
}

/// The result of a subquery that depends on no row, for other threads.
pub(crate) struct Constant {
    query: Box<Subquery>,
    result: Arc<Cached>,
}

impl Constant {
    /// Computes it, unless that was done before.
    pub fn of(query: &Subquery, env: &ExecEnv<'_>) -> ExecResult<Self> {
        debug_assert!(!query.correlated);
        let mut state = match env.states.take(query.id) {
            Some(state) => state,
            None => Box::new(SubqueryState::new(query, None)),
        };
        let outer = OuterRow {
            row: &[],
            up: env.outer,
        };
        let result = state.constant(query, &env.nested(&outer));
        env.states.put(query.id, state);
        Ok(Self {
            query: Box::new(query.clone()),
            result: result?,
        })
    }

    /// Is it the result of this subquery?
    pub fn is_of(&self, query: &Subquery) -> bool {
        self.query.id == query.id
    }

    /// What a single column has that is found by equality, but for NULL: integers, if they are not many.
    pub fn few_integers(&self) -> Option<&[i64]> {
        match &*self.result {
            Cached::Rows(rows) => rows.few_integers.as_deref(),
            Cached::Row(_) => None,
        }
    }

    /// Makes it known to a thread.
    pub fn give_to(&self, states: &SubqueryStates) {
        let state = SubqueryState::new(&self.query, Some(Arc::clone(&self.result)));
        states.put(self.query.id, Box::new(state));
    }
}

impl Memo {
    /// A memo for a subquery that gives the same value for the same columns.
    fn of(query: &Subquery) -> Option<Self> {
        let plan = &query.plan;
        let is_function = plan.reach == 1
            && plan.volatility == Volatility::Stable
            && !plan.blocks
            && !plan.locking
            && !matches!(query.form, SubqueryForm::Compare { .. })
            && (plan.columns.len() == 1 || matches!(query.form, SubqueryForm::Exists));
        let mut slots = Vec::new();
        plan.outer_slots(1, &mut |slot| {
            if !slots.contains(&slot) {
                slots.push(slot);
            }
        });
        is_function.then(|| Self {
            slots,
            values: KeyMap::default(),
            key: Vec::new(),
            bytes: 0,
            asked: 0,
            known: 0,
        })
    }

    /// The value for a row, if it is known.
    fn get(&mut self, row: &[Value]) -> Option<Value> {
        self.key.clear();
        write_values(self.slots.iter().map(|s| &row[*s as usize]), &mut self.key);
        self.asked += 1;
        let value = self.values.get(&*self.key)?;
        self.known += 1;
        Some(value.clone())
    }

    /// Notes the value for the row that was asked for last.
    fn put(&mut self, value: &Value) {
        let bytes = self.key.len() + size_of::<(Box<[u8]>, Value)>() * 2;
        debug_assert!(self.known <= self.asked);
        if self.bytes + bytes > MEMO_BYTES {
            self.values.clear();
            self.bytes = 0;
        }
        self.bytes += bytes;
        self.values
            .insert(self.key.as_slice().into(), value.clone());
    }

    fn pays(&self) -> bool {
        self.asked < MEMO_TRIAL || self.known >= self.asked / MEMO_RATE
    }
}

impl SubqueryState {
    fn new(query: &Subquery, cached: Option<Arc<Cached>>) -> Self {
        Self {
            exec: RootExec::new(&query.plan),
            memo: query.correlated.then(|| Memo::of(query)).flatten(),
            cached,
            as_of: 0,
            left: Vec::new(),
            key: Vec::new(),
        }
    }

    /// The result of a subquery that depends on no row.
    fn constant(&mut self, query: &Subquery, inner: &ExecEnv<'_>) -> ExecResult<Arc<Cached>> {
        if let Some(cached) = &self.cached {
            return Ok(Arc::clone(cached));
        }
        let cached = match &query.form {
            SubqueryForm::Scalar { .. } => {
                let row = self.only_row(query, inner, <[Value]>::to_vec)?;
                let none = || vec![Value::Null; query.plan.columns.len()];
                Cached::Row(row.unwrap_or_else(none))
            }
            SubqueryForm::Exists => Cached::Row(vec![self.exists(query, inner)?]),
            SubqueryForm::Compare {
                left,
                op,
                kinds,
                all,
                ..
            } => {
                let test = Test {
                    left: &[],
                    exprs: left,
                    columns: &query.plan.columns,
                    op: *op,
                    kinds,
                    all: *all,
                };
                Cached::Rows(self.materialise(query, &test, inner)?)
            }
        };
        let cached = Arc::new(cached);
        self.cached = Some(Arc::clone(&cached));
        Ok(cached)
    }

    /// The value of EXISTS or of a scalar subquery, from its rows.
    fn single(&mut self, query: &Subquery, inner: &ExecEnv<'_>) -> ExecResult<Value> {
        match query.form {
            SubqueryForm::Scalar { column } => {
                let value = self.only_row(query, inner, |row| row[column].clone())?;
                Ok(value.unwrap_or(Value::Null))
            }
            _ => self.exists(query, inner),
        }
    }

    fn exists(&mut self, query: &Subquery, inner: &ExecEnv<'_>) -> ExecResult<Value> {
        self.exec.reset(inner);
        let found = self.exec.next_of(&query.plan, inner)?.is_some();
        self.exec.reset(inner);
        Ok(Value::bool(found))
    }

    /// The same for a row: from the memo if that may be asked.
    fn single_for(
        &mut self,
        query: &Subquery,
        row: &[Value],
        inner: &ExecEnv<'_>,
    ) -> ExecResult<Value> {
        // What the statement itself changes may change the value.
        let is_fixed = |e: &super::ExecCtx<'_>| e.view == View::Snapshot && !e.txn().has_writes();
        if !inner.exec.is_some_and(is_fixed) || inner.states.profile.is_some() {
            return self.single(query, inner);
        }
        let Some(memo) = &mut self.memo else {
            return self.single(query, inner);
        };
        if let Some(value) = memo.get(row) {
            return Ok(value);
        }
        if !memo.pays() {
            self.memo = None;
        }
        let warnings = inner.ctx.diagnostics.count();
        let value = self.single(query, inner)?;
        if let Some(memo) = &mut self.memo
            && inner.ctx.diagnostics.count() == warnings
        {
            memo.put(&value);
        }
        Ok(value)
    }

    fn value(
        &mut self,
        query: &Subquery,
        row: &[Value],
        env: &ExecEnv<'_>,
        inner: &ExecEnv<'_>,
    ) -> ExecResult<Value> {
        match &query.form {
            SubqueryForm::Scalar { .. } | SubqueryForm::Exists => {
                if query.correlated {
                    return self.single_for(query, row, inner);
                }
                match &*self.constant(query, inner)? {
                    Cached::Row(values) => Ok(values[query.form.column()].clone()),
                    Cached::Rows(_) => unreachable!("its form has a value"),
                }
            }
            SubqueryForm::Compare {
                left,
                op,
                kinds,
                all,
                single,
            } => {
                let mut values = std::mem::take(&mut self.left);
                values.resize(left.len(), Value::Null);
                for (e, value) in left.iter().zip(&mut values) {
                    e.eval_into(row, env, value)?;
                }
                let test = Test {
                    left: &values,
                    exprs: left,
                    columns: &query.plan.columns,
                    op: *op,
                    kinds,
                    all: *all,
                };
                let result = match (*single, query.correlated) {
                    (true, _) => self.compare_row(query, &test, inner),
                    (false, true) => self.search_stream(query, &test, inner),
                    (false, false) => self.search(query, &test, inner),
                };
                self.left = values;
                result
            }
        }
    }

    fn search(
        &mut self,
        query: &Subquery,
        test: &Test<'_>,
        inner: &ExecEnv<'_>,
    ) -> ExecResult<Value> {
        match &*self.constant(query, inner)? {
            Cached::Rows(rows) => rows.search(test, &mut self.key, inner),
            Cached::Row(_) => unreachable!("its form has rows"),
        }
    }

    /// What is taken of the only row, if there is one.
    fn only_row<T>(
        &mut self,
        query: &Subquery,
        inner: &ExecEnv<'_>,
        take: impl FnOnce(&[Value]) -> T,
    ) -> ExecResult<Option<T>> {
        self.exec.reset(inner);
        let Some(first) = self.exec.next_of(&query.plan, inner)? else {
            self.exec.reset(inner);
            return Ok(None);
        };
        let taken = take(first);
        if self.exec.next_of(&query.plan, inner)?.is_some() {
            return Err(errors::subquery_rows().into());
        }
        self.exec.reset(inner);
        Ok(Some(taken))
    }

    /// `(a, b) = (SELECT …)`: at most one row.
    fn compare_row(
        &mut self,
        query: &Subquery,
        test: &Test<'_>,
        inner: &ExecEnv<'_>,
    ) -> ExecResult<Value> {
        self.exec.reset(inner);
        let found = match self.exec.next_of(&query.plan, inner)? {
            Some(row) => test.row(row, inner)?,
            None => None,
        };
        if self.exec.next_of(&query.plan, inner)?.is_some() {
            return Err(errors::subquery_rows().into());
        }
        self.exec.reset(inner);
        Ok(boolean_value(found))
    }

    fn search_stream(
        &mut self,
        query: &Subquery,
        test: &Test<'_>,
        inner: &ExecEnv<'_>,
    ) -> ExecResult<Value> {
        self.exec.reset(inner);
        let mut verdict = Verdict::new(test.all);
        while let Some(row) = self.exec.next_of(&query.plan, inner)? {
            if verdict.add(test.row(row, inner)?) {
                break;
            }
        }
        self.exec.reset(inner);
        Ok(boolean_value(verdict.result))
    }

    fn materialise(
        &mut self,
        query: &Subquery,
        test: &Test<'_>,
        inner: &ExecEnv<'_>,
    ) -> ExecResult<Rows> {
        self.exec.reset(inner);
        let types: Vec<&SqlType> = query.plan.columns.iter().map(|c| &c.ty).collect();
        let hashed = test.op == CmpOp::Eq
            && !test.all
            && test
                .exprs
                .iter()
                .zip(&types)
                .zip(test.kinds)
                .all(|((e, ty), kind)| rowkey::same_representation(&e.ty, ty, *kind));
        let mut rows = Rows {
            rows: Vec::new(),
            keys: hashed.then(HashSet::default),
            has_null: false,
            few_integers: None,
        };
        if let Some(mut extreme) = Extreme::of(test) {
            while let Some(row) = self.exec.next_of(&query.plan, inner)? {
                extreme.add(&row[0], test, inner)?;
            }
            self.exec.reset(inner);
            rows.rows = extreme.into_rows();
            return Ok(rows);
        }
        let mut key = Vec::new();
        while let Some(row) = self.exec.next_of(&query.plan, inner)? {
            let null = row.iter().any(Value::is_null);
            rows.has_null |= null;
            if let (Some(keys), false) = (&mut rows.keys, null) {
                test.key(row, inner, &mut key)?;
                if keys.contains(&*key) {
                    continue;
                }
                charge(inner, key.len() as u64 + 32, Purpose::Hash)?;
                keys.insert(key.as_slice().into());
                // A single column is decided by its key alone.
                if row.len() == 1 {
                    continue;
                }
            }
            charge(inner, row_bytes(row), Purpose::Hash)?;
            rows.rows.push(row.to_vec());
        }
        self.exec.reset(inner);
        if let (Some(keys), [CmpKind::Int]) = (&rows.keys, test.kinds)
            && keys.len() <= FEW_INTEGERS
        {
            rows.few_integers = keys.iter().map(|key| rowkey::integer_of(key)).collect();
        }
        Ok(rows)
    }
}

impl Rows {
    fn search(&self, test: &Test<'_>, key: &mut Vec<u8>, env: &ExecEnv<'_>) -> ExecResult<Value> {
        let Some(keys) = &self.keys else {
            return self.scan(test, env);
        };
        if keys.is_empty() && self.rows.is_empty() {
            return Ok(Value::bool(false));
        }
        if test.left.iter().any(Value::is_null) {
            // One column: NULL. Several: false if the other columns differ everywhere.
            return if test.left.len() == 1 {
                Ok(Value::Null)
            } else {
                self.scan(test, env)
            };
        }
        test.key(test.left, env, key)?;
        if keys.contains(key.as_slice()) {
            return Ok(Value::bool(true));
        }
        match (self.has_null, test.left.len()) {
            (false, _) => Ok(Value::bool(false)),
            (true, 1) => Ok(Value::Null),
            (true, _) => self.scan(test, env),
        }
    }

    fn scan(&self, test: &Test<'_>, env: &ExecEnv<'_>) -> ExecResult<Value> {
        let mut verdict = Verdict::new(test.all);
        for row in &self.rows {
            if verdict.add(test.row(row, env)?) {
                break;
            }
        }
        Ok(boolean_value(verdict.result))
    }
}

/// The comparison of a left row with one row of the subquery.
struct Test<'a> {
    left: &'a [Value],
    exprs: &'a [Expr],
    columns: &'a [ColumnMeta],
    op: CmpOp,
    kinds: &'a [CmpKind],
    all: bool,
}

impl Test<'_> {
    /// Truth of `left op row`.
    fn row(&self, row: &[Value], env: &ExecEnv<'_>) -> ExecResult<Option<bool>> {
        if let ([left], [right], [kind]) = (self.left, row, self.kinds) {
            return compare_values(self.op, left, right, *kind, self.types(0), env);
        }
        let each = match self.op {
            CmpOp::Ne => CmpOp::Eq,
            CmpOp::Lt | CmpOp::Le | CmpOp::Gt | CmpOp::Ge => return self.ordered(row, env),
            op => op,
        };
        let mut equal = Some(true);
        for (nth, (left, right)) in self.left.iter().zip(row).enumerate() {
            match compare_values(each, left, right, self.kinds[nth], self.types(nth), env)? {
                Some(true) => {}
                Some(false) => {
                    equal = Some(false);
                    break;
                }
                None => equal = None,
            }
        }
        Ok(if self.op == CmpOp::Ne {
            equal.map(|e| !e)
        } else {
            equal
        })
    }

    /// The same for `<` and its kin of several columns: the first that differ decide.
    fn ordered(&self, row: &[Value], env: &ExecEnv<'_>) -> ExecResult<Option<bool>> {
        let strict = match self.op {
            CmpOp::Lt | CmpOp::Le => CmpOp::Lt,
            _ => CmpOp::Gt,
        };
        for (nth, (left, right)) in self.left.iter().zip(row).enumerate() {
            let compare =
                |op| compare_values(op, left, right, self.kinds[nth], self.types(nth), env);
            match compare(CmpOp::Eq)? {
                Some(true) => {}
                Some(false) => return compare(strict),
                None => return Ok(None),
            }
        }
        Ok(Some(matches!(self.op, CmpOp::Le | CmpOp::Ge)))
    }

    fn types(&self, nth: usize) -> (&SqlType, &SqlType) {
        (&self.exprs[nth].ty, &self.columns[nth].ty)
    }

    fn key(&self, row: &[Value], env: &ExecEnv<'_>, out: &mut Vec<u8>) -> ExecResult<()> {
        out.clear();
        for (value, kind) in row.iter().zip(self.kinds) {
            rowkey::encode_compared(env.ctx, value, *kind, out)?;
        }
        Ok(())
    }
}

/// Running OR (ANY) or AND (ALL).
struct Verdict {
    all: bool,
    result: Option<bool>,
}

impl Verdict {
    fn new(all: bool) -> Self {
        Self {
            all,
            result: Some(all),
        }
    }

    /// Adds one comparison; true when the result cannot change any more.
    fn add(&mut self, found: Option<bool>) -> bool {
        match found {
            Some(b) if b != self.all => {
                self.result = Some(b);
                return true;
            }
            None => self.result = None,
            Some(_) => {}
        }
        false
    }
}

fn boolean_value(boolean: Option<bool>) -> Value {
    boolean.map_or(Value::Null, Value::bool)
}
