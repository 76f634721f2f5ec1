//! The plan cache of a session: compiled statements, so that running one again costs no parsing, no binding and no
//! planning.
//!
//! Neighbours: `change` compiles and runs them; prepared statements are found by id, text statements
//! (see `text`) by their digest. Each session keeps its own: nothing is shared between workers on the
//! way of a statement, not even a reference count.
//! **Invariants**
//! - A plan is used only for the bindings it was made for (schema, SQL mode, collations, account: see
//!   `SessionContext::rebind`) and for the kinds of parameters it was made for.
//! - A plan is used only while the tables it was made for are the catalog's.
//! - The plans of text statements are bounded in number and in bytes of their keys; the one that was
//!   not used for longest goes first. Only texts that come again are kept.

use std::collections::{BTreeMap, HashMap};
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;

use esker_sql_catalog::catalog::{Catalog, TableDef};
use esker_sql_exec::short::{GeneralPath, Scratch, ShortSelect};
use esker_sql_plan::expr::Expr;
use esker_sql_plan::plan::QueryPlan;
use esker_sql_syntax::Deprecation;
use esker_sql_syntax::ast::Statement;
use esker_sql_syntax::digest::Digest;
use esker_types::Value;
use esker_types::temporal::digits_of;
use smallvec::SmallVec;

use crate::counts::{Counter, command_of};
use crate::dml::{self, foreign::Relative};

/// Plans kept for texts.
const MAX_TEXT_PLANS: usize = 128;

/// Bytes of the texts whose plans are kept.
const MAX_TEXT_BYTES: usize = 64 * 1024;

/// Places where texts that came once are remembered.
const SEEN_ONCE: usize = 256;

/// Hash of a digest's key. A collision costs a plan, no more: keys are compared.
pub(super) fn hash_of(key: &[u8]) -> u64 {
    /// Odd, with bits all over: the golden ratio of 2^64.
    const MIX: u64 = 0x9e37_79b9_7f4a_7c15;
    let mix = |h: u64, word: u64| (h ^ word).wrapping_mul(MIX).rotate_left(29);
    let (words, rest) = key.as_chunks::<8>();
    let h = words
        .iter()
        .fold(key.len() as u64, |h, w| mix(h, u64::from_le_bytes(*w)));
    let rest = rest.iter().fold(0, |w, b| w << 8 | u64::from(*b));
    mix(mix(h, rest), MIX)
}

/// For keys that are hashes already.
#[derive(Default)]
pub(super) struct AsIs(u64);

/// Builds [`AsIs`].
pub(super) type AsIsHasher = BuildHasherDefault<AsIs>;

impl Hasher for AsIs {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        self.0 = hash_of(bytes);
    }
    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }
}

/// What a session's plans for texts have come to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlanStatistics {
    /// Texts that are kept, at most 128.
    pub texts: usize,
    /// Their bytes, at most 64 KiB.
    pub text_bytes: usize,
    /// Statements that ran from the plan of their text.
    pub hits: u64,
}

/// A query all of whose tables are read by keys that its shape tells.
pub(super) struct KeyedQuery {
    pub(super) plan: Arc<QueryPlan>,
    pub(super) tables: Vec<Arc<TableDef>>,
}

/// A compiled statement.
#[derive(Clone)]
pub(super) enum Plan {
    /// A short read.
    Read(Arc<ShortSelect>),
    /// A query that is not short, but whose plan depends on no value.
    Query(Arc<KeyedQuery>),
    /// A change of rows, and what it counts as.
    Change(Arc<dml::Compiled>, Counter),
    /// No plan, but no need to parse the text again.
    Parsed(Arc<Statement>),
    /// Neither, and not worth asking again: why.
    Long(GeneralPath),
}

/// What a parsed text has of deprecated syntax; None: nothing.
pub(super) type Deprecations = Option<Arc<[Deprecation]>>;

/// What a text was made into.
#[derive(Clone)]
pub(super) struct Made {
    pub(super) plan: Plan,
    /// Warnings that come with every run, as if the text were parsed.
    pub(super) deprecations: Deprecations,
}

impl Plan {
    /// What running it counts as.
    pub(super) fn command(&self) -> Counter {
        match self {
            Self::Read(_) | Self::Query(_) => Counter::ComSelect,
            Self::Change(_, command) => *command,
            Self::Parsed(statement) => command_of(statement),
            Self::Long(_) => Counter::EskerComOther,
        }
    }

    /// Tables that foreign keys tie to those.
    fn relatives(&self) -> &[Relative] {
        match self {
            Self::Change(change, _) => change.foreign_keys().relatives(),
            Self::Read(_) | Self::Query(_) | Self::Parsed(_) | Self::Long(_) => &[],
        }
    }

    fn tables(&self) -> &[Arc<TableDef>] {
        match self {
            Self::Read(read) => std::slice::from_ref(&read.table),
            Self::Query(query) => &query.tables,
            Self::Change(change, _) => change.targets(),
            Self::Parsed(_) | Self::Long(_) => &[],
        }
    }
}

/// What of a parameter decides about comparisons and conversions: kind, precision, scale.
pub(super) type ParamKind = (u8, u8, u8);

/// Kind of a parameter.
pub(super) fn kind_of(value: &Value) -> ParamKind {
    match value {
        Value::Null => (0, 0, 0),
        Value::Int(_) => (1, 0, 0),
        Value::UInt(_) => (2, 0, 0),
        Value::Double(_) => (3, 0, 0),
        Value::Decimal(d) => (4, d.precision().min(255) as u8, d.scale()),
        Value::Str(_) => (5, 0, 0),
        Value::Date(_) => (6, 0, 0),
        Value::Time(t) => (7, 0, digits_of(t.microsecond())),
        Value::DateTime(t) => (8, 0, digits_of(t.microsecond())),
        Value::Bit(_, bits) => (9, *bits, 0),
        Value::Label(..) => (10, 0, 0),
        Value::Json(_) => (11, 0, 0),
    }
}

/// A plan and what it was made for.
struct Kept {
    plan: Plan,
    /// `SessionContext::binding` when it was made.
    binding: u64,
    /// Catalog version at which its tables were last found to be the catalog's.
    catalog: u64,
    params: SmallVec<[ParamKind; 8]>,
}

impl Kept {
    fn new(plan: Plan, binding: u64, catalog: u64, params: &[Value]) -> Self {
        Self {
            plan,
            binding,
            catalog,
            params: params.iter().map(kind_of).collect(),
        }
    }

    /// The plan, if it is still good for these parameters.
    fn plan(&mut self, binding: u64, catalog: &Catalog, params: &[Value]) -> Option<Plan> {
        let fits = self.binding == binding
            && self.params.len() == params.len()
            && self
                .params
                .iter()
                .zip(params)
                .all(|(k, v)| *k == kind_of(v));
        (fits && self.is_current(catalog)).then(|| self.plan.clone())
    }

    fn is_current(&mut self, catalog: &Catalog) -> bool {
        if catalog.version() == self.catalog {
            return true;
        }
        let now = catalog.snapshot();
        // What a temporary table's name means changes with the binding only.
        let same = |t: &Arc<TableDef>| {
            t.temporary
                || now
                    .table(&t.schema, &t.name)
                    .is_some_and(|found| Arc::ptr_eq(found, t))
        };
        let relatives = self.plan.relatives();
        // A plan without tables says "not short"; another schema may make it short.
        let current = !matches!(self.plan, Plan::Long(_))
            && self.plan.tables().iter().all(same)
            && relatives.iter().all(|r| same(&r.table));
        if current {
            self.catalog = now.version();
        }
        current
    }
}

/// A bound expression of a stored program, which reads no table; `None`: it has to be bound for each use.
pub(super) type KeptExpr = Option<Arc<Expr>>;

/// The plan of a text.
struct TextPlan {
    /// The whole key, for hashes may collide.
    key: Box<[u8]>,
    kept: Kept,
    deprecations: Deprecations,
    /// When it was last used, counted in look-ups.
    used: u64,
}

/// Which statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PlanKey {
    /// COM_STMT_EXECUTE or EXECUTE.
    Prepared(u32),
    /// A text, by the hash of its digest.
    Text(u64),
}

/// A session's plans and the buffers that running them reuses.
#[derive(Default)]
pub(super) struct Plans {
    prepared: BTreeMap<u32, Kept>,
    /// Expressions of programs, with the binding that they were made for.
    exprs: BTreeMap<u32, (KeptExpr, u64)>,
    texts: HashMap<u64, TextPlan, AsIsHasher>,
    text_bytes: usize,
    /// Hashes of texts that came once, by their low bits.
    seen_once: Box<[u64]>,
    look_ups: u64,
    /// Texts that ran from a plan.
    hits: u64,
    /// The text of the request that runs, without its literals.
    pub(super) digest: Digest,
    /// Buffers of short reads.
    pub(super) scratch: Scratch,
    /// Buffers of changes.
    pub(super) dml_scratch: dml::Scratch,
}

/// What is known of a text.
pub(super) enum Known {
    /// It came before and has a plan.
    Made(Made),
    /// It came before; make a plan.
    Again,
    /// It is new.
    New,
}

impl Plans {
    /// A plan of a prepared statement that is still good.
    pub(super) fn prepared(
        &mut self,
        id: u32,
        binding: u64,
        catalog: &Catalog,
        params: &[Value],
    ) -> Option<Plan> {
        self.prepared
            .get_mut(&id)
            .and_then(|kept| kept.plan(binding, catalog, params))
    }

    /// Keeps a plan of a prepared statement. Their number is bounded by that of the statements.
    pub(super) fn keep_prepared(
        &mut self,
        id: u32,
        plan: Plan,
        binding: u64,
        catalog: u64,
        params: &[Value],
    ) {
        self.prepared
            .insert(id, Kept::new(plan, binding, catalog, params));
    }

    /// An expression of a program; `None`: it was not bound under this binding yet.
    pub(super) fn expr(&self, id: u32, binding: u64) -> Option<KeptExpr> {
        let (expr, made_for) = self.exprs.get(&id)?;
        (*made_for == binding).then(|| expr.clone())
    }

    /// Keeps an expression. Their number is bounded by that of the programs.
    pub(super) fn keep_expr(&mut self, id: u32, expr: KeptExpr, binding: u64) {
        self.exprs.insert(id, (expr, binding));
    }

    /// Looks a text up by its digest.
    pub(super) fn text(
        &mut self,
        hash: u64,
        key: &[u8],
        binding: u64,
        catalog: &Catalog,
        params: &[Value],
    ) -> Known {
        self.look_ups += 1;
        if let Some(text) = self.texts.get_mut(&hash) {
            text.used = self.look_ups;
            if *text.key != *key {
                return Known::New;
            }
            return match text.kept.plan(binding, catalog, params) {
                Some(plan) => Known::Made(Made {
                    plan,
                    deprecations: text.deprecations.clone(),
                }),
                None => Known::Again,
            };
        }
        if self.seen_once.is_empty() {
            self.seen_once = vec![0; SEEN_ONCE].into();
        }
        let seen = &mut self.seen_once[hash as usize % SEEN_ONCE];
        if std::mem::replace(seen, hash) == hash {
            Known::Again
        } else {
            Known::New
        }
    }

    /// A text ran from its plan.
    pub(super) fn count_hit(&mut self) {
        self.hits += 1;
    }

    /// What became of the texts so far.
    pub(super) fn statistics(&self) -> PlanStatistics {
        PlanStatistics {
            texts: self.texts.len(),
            text_bytes: self.text_bytes,
            hits: self.hits,
        }
    }

    /// Keeps the plan of a text.
    pub(super) fn keep_text(
        &mut self,
        hash: u64,
        key: &[u8],
        made: Made,
        binding: u64,
        catalog: u64,
        params: &[Value],
    ) {
        self.forget_text(hash);
        while !self.texts.is_empty()
            && (self.texts.len() >= MAX_TEXT_PLANS || self.text_bytes + key.len() > MAX_TEXT_BYTES)
        {
            let oldest = self.texts.iter().min_by_key(|(_, t)| t.used);
            if let Some(hash) = oldest.map(|(hash, _)| *hash) {
                self.forget_text(hash);
            }
        }
        self.text_bytes += key.len();
        let text = TextPlan {
            key: key.into(),
            kept: Kept::new(made.plan, binding, catalog, params),
            deprecations: made.deprecations,
            used: self.look_ups,
        };
        self.texts.insert(hash, text);
    }

    fn forget_text(&mut self, hash: u64) {
        if let Some(text) = self.texts.remove(&hash) {
            self.text_bytes -= text.key.len();
        }
    }

    /// The tables of this plan have changed, or its statement is gone.
    pub(super) fn forget(&mut self, key: PlanKey) {
        match key {
            PlanKey::Prepared(id) => {
                self.prepared.remove(&id);
                self.exprs.remove(&id);
            }
            PlanKey::Text(hash) => self.forget_text(hash),
        }
    }

    /// Forgets every text (the session begins anew).
    pub(super) fn forget_texts(&mut self) {
        self.texts = HashMap::default();
        self.text_bytes = 0;
        self.seen_once = Box::default();
    }
}
