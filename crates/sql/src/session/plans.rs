//! Compiled statements a session keeps, so that running one again costs no binding and no planning.
//!
//! Neighbours: `run` and `change` look here first; prepared statements are found by id, text statements
//! by their digest.
//! **Invariants**
//! - A plan is used only for the catalog version, SQL mode and schema it was made for; anything else
//!   makes it as good as absent.
//! - The number of plans kept for text statements is bounded; the oldest half goes when it is full.

use std::collections::HashMap;
use std::sync::Arc;

use esker_types::Value;

use crate::dml;
use crate::short::{Scratch, ShortSelect};

/// Plans kept for prepared statements and for digests together.
const MAX_PLANS: usize = 512;

/// What a plan depends on besides its statement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Validity {
    pub(super) catalog: u64,
    pub(super) sql_mode: u64,
    pub(super) database: Option<Arc<str>>,
    /// Kinds of the parameters: their types decide comparisons and conversions.
    pub(super) params: Box<[u8]>,
}

/// A compiled statement.
#[derive(Clone)]
pub(super) enum Plan {
    /// A short read.
    Read(Arc<ShortSelect>),
    /// Not short, and not worth asking again.
    LongRead,
    /// A change of rows.
    Change(Arc<dml::Compiled>),
}

/// Which statement.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum PlanKey {
    /// COM_STMT_EXECUTE or EXECUTE.
    Prepared(u32),
}

/// A session's plans and the buffers that running them reuses.
#[derive(Default)]
pub(super) struct Plans {
    kept: HashMap<PlanKey, (Validity, Plan)>,
    /// Buffers of short reads.
    pub(super) scratch: Scratch,
    /// Buffers of changes.
    pub(super) dml_scratch: dml::Scratch,
}

impl Plans {
    /// A plan that is still good.
    pub(super) fn get(&self, key: &PlanKey, validity: &Validity) -> Option<Plan> {
        self.kept
            .get(key)
            .filter(|(v, _)| v == validity)
            .map(|(_, plan)| plan.clone())
    }

    /// Keeps a plan.
    pub(super) fn put(&mut self, key: PlanKey, validity: Validity, plan: Plan) {
        if self.kept.len() >= MAX_PLANS && !self.kept.contains_key(&key) {
            self.kept.clear();
        }
        self.kept.insert(key, (validity, plan));
    }

    /// A prepared statement is gone.
    pub(super) fn forget_prepared(&mut self, id: u32) {
        self.kept.remove(&PlanKey::Prepared(id));
    }
}

/// One byte per parameter: what kind of value it is.
pub(super) fn kinds(params: &[Value]) -> Box<[u8]> {
    params
        .iter()
        .map(|v| match v {
            Value::Null => 0,
            Value::Int(_) => 1,
            Value::UInt(_) => 2,
            Value::Double(_) => 3,
            Value::Decimal(_) => 4,
            Value::Str(_) => 5,
            Value::Date(_) => 6,
            Value::Time(_) => 7,
            Value::DateTime(_) => 8,
            Value::Bit(..) => 9,
            Value::Label(..) => 10,
        })
        .collect()
}
