//! What the planner considered, for `information_schema.OPTIMIZER_TRACE`.
//!
//! The document has MySQL's steps and names; costs are in the unit of `plan/cost.rs`. Of each block it has the
//! conditions before and after the closure of equalities, the access paths of each table, every extension of a join
//! order that the search priced with the paths it chose from, and the order taken.
//!
//! Neighbours: `block` begins a block, `join_order` tells conditions, tables and the order taken, `join_search` each
//! extension; the session keeps documents. **Invariants**: where nobody traces each of these places costs one look;
//! the numbers told are those that decided; a statement keeps [`MOST_FACTS`] facts, and counts the others.

use std::cell::{Cell, RefCell};

use super::AccessKind;
use super::access::{Path, Target};
use super::conds::TableSet;
use super::explain::Names;
use super::explain::document::{Json, Members, print, print_line, text};
use super::explain::ranges;
use super::join_order::{Group, Joiner, Unit, UnitKind};
use super::join_search::{JoinEstimate, placed};
use crate::bind::{Block, TableKind};
use crate::expr::Expr;

/// Most paths and extensions of a statement that are kept.
const MOST_FACTS: usize = 10_000;

/// What is wanted of a trace (`optimizer_trace_features`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TraceFeatures {
    /// The extensions that the join search priced.
    pub greedy_search: bool,
    /// Access paths of single tables.
    pub range_optimizer: bool,
}

/// The trace of one statement.
#[derive(Debug)]
pub struct PlanTrace {
    features: TraceFeatures,
    blocks: RefCell<Vec<BlockTrace>>,
    facts: Cell<usize>,
}

/// What was considered for one query block.
#[derive(Debug, Default)]
struct BlockTrace {
    select: u32,
    conditions: Vec<Json>,
    dependencies: Vec<Json>,
    estimates: Vec<Json>,
    considered: Vec<Json>,
    omitted: u64,
    taken: Vec<Json>,
}

impl PlanTrace {
    /// A trace without facts.
    pub fn new(features: TraceFeatures) -> Self {
        Self {
            features,
            blocks: RefCell::default(),
            facts: Cell::new(0),
        }
    }

    /// The planner begins a block.
    pub(super) fn begin(&self, block: &Block) {
        self.blocks.borrow_mut().push(BlockTrace {
            select: block.id,
            ..BlockTrace::default()
        });
    }

    fn with_block(&self, block: &Block, f: impl FnOnce(&mut BlockTrace)) {
        let mut blocks = self.blocks.borrow_mut();
        // Blocks inside of others are planned between the parts of those.
        if let Some(own) = blocks.iter_mut().rev().find(|b| b.select == block.id) {
            f(own);
        }
    }

    /// Is there room for so many facts more?
    fn admit(&self, facts: usize) -> bool {
        let all = self.facts.get() + facts;
        let fits = all <= MOST_FACTS;
        if fits {
            self.facts.set(all);
        }
        fits
    }

    /// The document; `statement` is its text as it was understood, None if it failed.
    pub fn document(self, statement: Option<String>, one_line: bool) -> String {
        let prepared = statement.map(|s| Json::Object(vec![("expanded_query", text(s))]));
        let step = |name, select: u32, steps: Vec<Json>| {
            let members = vec![
                ("select#", Json::Number(select.into())),
                ("steps", Json::List(steps)),
            ];
            Json::Object(vec![(name, Json::Object(members))])
        };
        let is_whole = prepared.is_some();
        let mut steps = vec![step("join_preparation", 1, prepared.into_iter().collect())];
        let features = self.features;
        let blocks = self.blocks.into_inner().into_iter();
        steps.extend(blocks.map(|b| step("join_optimization", b.select, b.steps(features))));
        if is_whole {
            steps.push(step("join_execution", 1, Vec::new()));
        }
        let document = Json::Object(vec![("steps", Json::List(steps))]);
        match one_line {
            true => print_line(&document),
            false => print(&document),
        }
    }
}

impl BlockTrace {
    fn steps(self, features: TraceFeatures) -> Vec<Json> {
        let mut steps = Vec::new();
        let mut push = |name, list: Vec<Json>| {
            if !list.is_empty() {
                steps.push(Json::Object(vec![(name, Json::List(list))]));
            }
        };
        let elided = |wanted: bool, list: Vec<Json>| match wanted || list.is_empty() {
            true => list,
            false => vec![text("...")],
        };
        push("table_dependencies", self.dependencies);
        push(
            "rows_estimation",
            elided(features.range_optimizer, self.estimates),
        );
        let mut considered = elided(features.greedy_search, self.considered);
        if self.omitted > 0 {
            considered.push(Json::Object(vec![(
                "plans_not_shown",
                Json::Number(self.omitted),
            )]));
        }
        push("considered_execution_plans", considered);
        push("refine_plan", self.taken);
        let conditions = self.conditions.into_iter();
        conditions.chain(steps).collect()
    }
}

/// Conditions in one text.
fn joined(conds: &[Expr], names: &Names<'_>) -> Json {
    match conds {
        [] => Json::Null,
        [one] => text(names.text(one)),
        all => {
            let all: Vec<_> = all.iter().map(|c| names.text(c)).collect();
            text(format!("({})", all.join(" and ")))
        }
    }
}

fn quoted(name: &str) -> String {
    format!("`{}`", name.replace('`', "``"))
}

/// A cost or a number of rows, to six digits.
fn number(value: f64) -> Json {
    if !value.is_finite() {
        return text("unbounded");
    }
    let scale = 10f64
        .powi(5 - value.abs().max(1.0).log10().floor() as i32)
        .max(1.0);
    Json::Float((value * scale).round() / scale)
}

impl Joiner<'_> {
    fn trace(&self) -> Option<&PlanTrace> {
        self.env.trace
    }

    /// Tells the conditions of the block, and its tables with their access paths.
    pub(super) fn trace_tables(&self, group: &Group) {
        let Some(trace) = self.trace() else { return };
        let names = Names::of_tables(&self.block.tables);
        let transformed = |what, conds: &[Expr]| {
            Json::Object(vec![
                ("transformation", text(what)),
                ("resulting_condition", joined(conds, &names)),
            ])
        };
        let processing = Json::Object(vec![
            ("condition", text("WHERE")),
            ("original_condition", joined(&self.filter, &names)),
            (
                "steps",
                Json::List(vec![transformed("equality_propagation", &group.conds)]),
            ),
        ]);
        let mut dependencies = Vec::new();
        let mut estimates = Vec::new();
        for unit in &group.units {
            dependencies.push(self.depends_on(unit));
            if let UnitKind::Table(t) = unit.kind
                && let TableKind::Base(def) = &self.block.tables[t].kind
            {
                let target = Target::new(self.block, t, def);
                let known = |e: &Expr| self.is_known(e, 0);
                let paths = target.paths(self.env, &group.conds, &known);
                let facts = paths.len();
                if trace.admit(facts) {
                    estimates.push(self.range_analysis(t, &target, &paths));
                }
            }
        }
        trace.with_block(self.block, |own| {
            if !group.conds.is_empty() {
                let members = vec![("condition_processing", processing)];
                own.conditions.push(Json::Object(members));
            }
            own.dependencies.extend(dependencies);
            own.estimates.extend(estimates);
        });
    }

    /// The tables of a unit, by name.
    fn unit_name(&self, unit: &Unit) -> String {
        let tables = self.block.tables.iter().enumerate();
        let own = tables.filter(|(t, _)| unit.tables >> t & 1 == 1);
        let names: Vec<_> = own.map(|(_, table)| quoted(&table.alias)).collect();
        names.join(",")
    }

    fn depends_on(&self, unit: &Unit) -> Json {
        let bits = |set: TableSet| {
            let all = (0..u64::from(TableSet::BITS)).filter(|bit| set >> bit & 1 == 1);
            Json::List(all.map(Json::Number).collect())
        };
        Json::Object(vec![
            ("table", text(self.unit_name(unit))),
            (
                "row_may_be_null",
                Json::Bool(matches!(unit.kind, UnitKind::Left { .. })),
            ),
            ("map_bit", Json::Number(unit.tables.trailing_zeros().into())),
            ("depends_on_map_bits", bits(unit.deps)),
        ])
    }

    fn range_analysis(&self, t: usize, target: &Target<'_>, paths: &[Path]) -> Json {
        let whole = target.full(0);
        let scan = vec![("rows", number(whole.rows)), ("cost", number(whole.cost))];
        let best = cheapest(paths);
        let others = paths.iter().enumerate();
        let keyed = others.filter(|(_, path)| !matches!(path.access.kind, AccessKind::Full));
        let alternatives: Vec<Json> = keyed
            .map(|(nth, path)| self.path(t, target, path, Some(nth) == best))
            .collect();
        let mut members = vec![("table_scan", Json::Object(scan))];
        if !alternatives.is_empty() {
            let list = vec![("range_scan_alternatives", Json::List(alternatives))];
            members.push(("analyzing_range_alternatives", Json::Object(list)));
        }
        if let Some(best) = best {
            let members_of = vec![
                (
                    "range_access_plan",
                    self.path(t, target, &paths[best], true),
                ),
                ("rows_for_plan", number(paths[best].rows)),
                ("cost_for_plan", number(paths[best].cost)),
                ("chosen", Json::Bool(true)),
            ];
            members.push(("chosen_range_access_summary", Json::Object(members_of)));
        }
        Json::Object(vec![
            ("table", text(quoted(&self.block.tables[t].alias))),
            ("range_analysis", Json::Object(members)),
        ])
    }

    fn path(&self, t: usize, target: &Target<'_>, path: &Path, chosen: bool) -> Json {
        let index = &target.def.indexes[path.access.index];
        let kind = match &path.access.kind {
            AccessKind::Full if path.access.index == 0 => "scan",
            AccessKind::Full => "index_scan",
            AccessKind::Ranges(_) => "range",
            AccessKind::Ref(_) => "ref",
            AccessKind::Point(_) => "eq_ref",
            AccessKind::Match(_) => "fulltext",
            AccessKind::Elements(_) => "range",
            AccessKind::Skip(_) => "skip_scan",
            AccessKind::Union(_) => "index_merge",
        };
        let mut members: Members = vec![("access_type", text(kind)), ("index", text(&*index.name))];
        if let AccessKind::Ranges(spec) = &path.access.kind {
            let names = Names::of_tables(&self.block.tables[t..=t]);
            let shown = ranges(spec, target.def, &index.parts, &names);
            let shown = shown.into_iter().map(text).collect();
            members.push(("ranges", Json::List(shown)));
        }
        members.push(("index_only", Json::Bool(path.access.covering)));
        members.push(("rows", number(path.rows)));
        members.push(("cost", number(path.cost)));
        members.push(("chosen", Json::Bool(chosen)));
        if !chosen {
            members.push(("cause", text("cost")));
        }
        Json::Object(members)
    }

    /// Tells an extension of a join order, and whether the search goes on with it.
    pub(super) fn trace_extension(
        &self,
        group: &Group,
        conds: &[Expr],
        (order, before): (&[usize], &JoinEstimate),
        (next, priced): (usize, &JoinEstimate),
        outer: TableSet,
        kept: bool,
    ) {
        let Some(trace) = self.trace() else { return };
        let unit = &group.units[next];
        let mut paths = Vec::new();
        if let UnitKind::Table(t) = unit.kind
            && let TableKind::Base(def) = &self.block.tables[t].kind
        {
            let placed = placed(group, order, outer);
            let ready = self.ready(group, conds, placed, next);
            let target = Target::new(self.block, t, def).after(before.order());
            let known = |e: &Expr| self.is_known(e, placed);
            let all = target.paths(self.env, &ready, &known);
            let best = cheapest(&all);
            let each = all.iter().enumerate();
            paths = each
                .map(|(nth, path)| self.path(t, &target, path, Some(nth) == best))
                .collect();
        }
        if !trace.admit(1 + paths.len()) {
            trace.with_block(self.block, |own| own.omitted += 1);
            return;
        }
        let prefix = order.iter().map(|u| text(self.unit_name(&group.units[*u])));
        let mut members = vec![
            ("plan_prefix", Json::List(prefix.collect())),
            ("table", text(self.unit_name(unit))),
        ];
        if !paths.is_empty() {
            let considered = vec![("considered_access_paths", Json::List(paths))];
            members.push(("best_access_path", Json::Object(considered)));
        }
        members.push(("rows_for_plan", number(priced.rows)));
        members.push(("cost_for_plan", number(priced.cost)));
        members.push((
            if kept { "chosen" } else { "pruned_by_cost" },
            Json::Bool(true),
        ));
        trace.with_block(self.block, |own| own.considered.push(Json::Object(members)));
    }

    /// Tells the order taken.
    pub(super) fn trace_order(&self, group: &Group, order: &[usize]) {
        let Some(trace) = self.trace() else { return };
        let table = |u: &usize| {
            let name = self.unit_name(&group.units[*u]);
            Json::Object(vec![("table", text(name))])
        };
        let taken: Vec<Json> = order.iter().map(table).collect();
        trace.with_block(self.block, |own| own.taken.extend(taken));
    }
}

/// The number of the path that is taken of these.
fn cheapest(paths: &[Path]) -> Option<usize> {
    let costs = paths.iter().enumerate().map(|(nth, path)| (nth, path.cost));
    costs.min_by(|a, b| a.1.total_cmp(&b.1)).map(|(nth, _)| nth)
}
