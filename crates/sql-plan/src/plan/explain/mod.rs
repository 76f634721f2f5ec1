//! EXPLAIN: a plan as MySQL's twelve columns (here; `line` has those of one table), as a `tree` of operators, or as
//! `json`; `operator` prints a tree as text or as a document, `document` writes documents, `text` prints expressions,
//! `bounds` those of ranges; `words` has MySQL's names of operators, `parallel` what is said of several threads.
//!
//! Neighbours: `session` answers EXPLAIN with it; the planner's structures are read, nothing is run. For
//! EXPLAIN ANALYZE the session has run the plan, and `profile` knows what it did.
//! **Invariant**: one row per table in the order it is read, subqueries after the block they stand in.

mod bounds;
pub(super) mod document;
mod json;
mod line;
mod operator;
mod parallel;
mod text;
mod tree;
mod words;

use std::collections::HashSet;
use std::sync::Arc;

use esker_types::collation::Collation;
use esker_types::{SqlType, TypeKind, Value};

use line::{Line, node_lines, scan_line};
pub use parallel::{Outside, ParallelEstimate, SERIAL, Shared};

use super::profile::Profile;
use super::semi_join::is_joined;
use super::{BlockPlan, GroupPlan, Node, QueryPlan, Root, SetOpsPlan, Source};
use crate::expr::{Expr, ExprKind};
pub(super) use bounds::ranges;
use esker_sql_catalog::result::ColumnMeta;
use esker_sql_syntax::ast::SetOp;
pub(super) use text::Names;

/// Rows of an EXPLAIN.
pub type Explained = (Arc<[ColumnMeta]>, Vec<Vec<Value>>);

/// A statement that is explained: its plan, and what its rows are for.
#[derive(Debug, Clone, Copy)]
pub enum Explainee<'p> {
    /// A query.
    Query(&'p QueryPlan),
    /// INSERT or REPLACE into a table; one of VALUES has no query.
    Insert {
        /// Where the rows come from.
        query: Option<&'p QueryPlan>,
        /// The table.
        table: &'p str,
        /// REPLACE.
        replace: bool,
    },
    /// UPDATE: the search for its rows.
    Update(&'p QueryPlan),
    /// DELETE, likewise.
    Delete(&'p QueryPlan),
}

/// In what form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// A table.
    Traditional,
    /// Indented text.
    Tree,
    /// A document of `explain_json_format_version` = 1.
    Json,
    /// A document of version 2: the tree.
    JsonTree,
}

impl<'p> Explainee<'p> {
    fn query(self) -> Option<&'p QueryPlan> {
        match self {
            Self::Query(plan) | Self::Update(plan) | Self::Delete(plan) => Some(plan),
            Self::Insert { query, .. } => query,
        }
    }

    /// The tables whose rows are changed, by the names they have in the statement.
    fn targets(self) -> Vec<&'p str> {
        fn add<'p>(node: &'p Node, targets: &mut Vec<&'p str>) {
            match node {
                Node::Once | Node::Nothing(_) => {}
                Node::Filter(child, _) => add(child, targets),
                Node::Join(join) => {
                    add(&join.left, targets);
                    add(&join.right, targets);
                }
                // Only rows that are to be changed are wanted as they are stored.
                Node::Scan(scan) if scan.row_slot.is_some() => targets.push(&scan.alias),
                Node::Scan(_) => {}
            }
        }
        let mut targets = Vec::new();
        match self {
            Self::Insert { table, .. } => targets.push(table),
            Self::Query(_) => {}
            Self::Update(plan) | Self::Delete(plan) => {
                if let Root::Block(block) = &plan.root {
                    add(&block.source, &mut targets);
                }
            }
        }
        targets
    }

    fn query_type(self) -> &'static str {
        match self {
            Self::Query(_) => "select",
            Self::Insert { replace: false, .. } => "insert",
            Self::Insert { replace: true, .. } => "replace",
            Self::Update(_) => "update",
            Self::Delete(_) => "delete",
        }
    }
}

/// Shows a statement.
pub fn explain(of: Explainee<'_>, form: Form, outside: Outside<'_>) -> Explained {
    match form {
        Form::Traditional => traditional(of, outside),
        Form::Tree => document(operator::text(&tree::tree(of, None, outside))),
        Form::Json => document(json::json(of, outside)),
        Form::JsonTree => {
            let lines = tree::tree(of, None, outside);
            document(operator::json(&lines, of.query_type()))
        }
    }
}

/// Shows a statement whose query was run, and what that did, as text or as a document of version 2.
pub fn explain_analyzed(of: Explainee<'_>, profile: &Profile, as_document: bool) -> Explained {
    let lines = tree::tree(of, Some(profile), SERIAL);
    document(match as_document {
        true => operator::json(&lines, of.query_type()),
        false => operator::text(&lines),
    })
}

/// One column with one text.
fn document(text: String) -> Explained {
    let columns: Arc<[ColumnMeta]> = Arc::new([ColumnMeta::computed("EXPLAIN", text_type(1024))]);
    (columns, vec![vec![Value::str(text)]])
}

fn text_type(length: u32) -> SqlType {
    SqlType::varchar(length, Collation::UTF8MB4_0900_AI_CI)
}

fn columns() -> Arc<[ColumnMeta]> {
    let big = || SqlType::bigint(true);
    let list: [(&str, SqlType); 12] = [
        ("id", big()),
        ("select_type", text_type(19).with_nullable(false)),
        ("table", text_type(64)),
        ("partitions", text_type(1024)),
        ("type", text_type(10)),
        ("possible_keys", text_type(4096)),
        ("key", text_type(64)),
        ("key_len", text_type(4096)),
        ("ref", text_type(2048)),
        ("rows", big()),
        (
            "filtered",
            SqlType {
                decimals: 2,
                ..SqlType::new(TypeKind::Double)
            },
        ),
        ("Extra", text_type(255)),
    ];
    list.into_iter()
        .map(|(name, ty)| ColumnMeta::computed(name, ty))
        .collect()
}

fn traditional(of: Explainee<'_>, outside: Outside<'_>) -> Explained {
    let mut out = Rows::new(outside);
    if let Explainee::Insert { table, replace, .. } = of {
        let target = Line {
            table: Some(table.to_owned()),
            access: Some("ALL"),
            ..Line::default()
        };
        out.push(Some(1), if replace { "REPLACE" } else { "INSERT" }, target);
    }
    if let Some(plan) = of.query() {
        let kind = match of {
            Explainee::Update(_) => "UPDATE",
            Explainee::Delete(_) => "DELETE",
            _ if out.is_simple(plan) => "SIMPLE",
            _ => "PRIMARY",
        };
        out.query(plan, kind, None);
    }
    (columns(), out.rows)
}

struct Rows<'f> {
    rows: Vec<Vec<Value>>,
    /// Plans already shown.
    seen: HashSet<*const QueryPlan>,
    /// Common table expressions already shown: each of their names has a plan.
    seen_shared: HashSet<u32>,
    outside: Outside<'f>,
}

impl<'f> Rows<'f> {
    fn new(outside: Outside<'f>) -> Self {
        Rows {
            rows: Vec::new(),
            seen: HashSet::new(),
            seen_shared: HashSet::new(),
            outside,
        }
    }

    /// A single block without subqueries?
    fn is_simple(&self, plan: &QueryPlan) -> bool {
        match &plan.root {
            Root::Block(block) => {
                let mut inner = Vec::new();
                block_queries(block, &mut inner);
                inner.is_empty()
            }
            _ => false,
        }
    }

    fn query(&mut self, plan: &QueryPlan, kind: &str, up: Option<&Names<'_>>) {
        if !self.seen.insert(std::ptr::from_ref(plan)) {
            return;
        }
        match &plan.root {
            Root::Block(block) => self.block(block, kind, up),
            Root::SetOps(ops) => self.set_ops(ops, kind, up),
            Root::Recursive(recursive) => {
                let first = if kind == "SIMPLE" { "PRIMARY" } else { kind };
                self.query(&recursive.seed, first, up);
                let from = self.rows.len();
                for member in &recursive.members {
                    self.query(member, "UNION", up);
                }
                if let Some(cells) = self.rows.get_mut(from) {
                    prepend_extra(cells, "Recursive");
                }
            }
            Root::Values(_) => {
                let line = Line {
                    extra: vec!["No tables used".into()],
                    ..Line::default()
                };
                self.push(None, kind, line);
            }
        }
    }

    fn set_ops(&mut self, ops: &SetOpsPlan, kind: &str, up: Option<&Names<'_>>) {
        let first = if kind == "SIMPLE" { "PRIMARY" } else { kind };
        self.query(&ops.first, first, up);
        let mut ids = vec![first_id(&ops.first)];
        let mut name = "union";
        for (op, _, query) in &ops.steps {
            let kind = match op {
                SetOp::Union => "UNION",
                SetOp::Except => "EXCEPT",
                SetOp::Intersect => "INTERSECT",
            };
            name = match op {
                SetOp::Union => "union",
                SetOp::Except => "except",
                SetOp::Intersect => "intersect",
            };
            self.query(query, kind, up);
            ids.push(first_id(query));
        }
        if ops
            .steps
            .iter()
            .all(|(op, all, _)| *op == SetOp::Union && *all)
            && ops.order.is_empty()
        {
            return;
        }
        let ids: Vec<String> = ids.iter().map(u32::to_string).collect();
        let mut extra = vec!["Using temporary".to_owned()];
        if !ops.order.is_empty() {
            extra.push("Using filesort".into());
        }
        let line = Line {
            table: Some(format!("<{name}{}>", ids.join(","))),
            access: Some("ALL"),
            extra,
            ..Line::default()
        };
        let kind = format!("{} RESULT", name.to_ascii_uppercase());
        self.push(None, &kind, line);
    }

    fn block(&mut self, block: &BlockPlan, kind: &str, up: Option<&Names<'_>>) {
        let before = self.rows.len();
        let names = Names::of(block, up);
        let mut lines = Vec::new();
        node_lines(&block.source, &names, self.outside, &mut lines);
        if let Some(first) = lines.first_mut() {
            let windows = block.windows.is_some();
            let is_kept = |g: &GroupPlan| !g.implicit && !g.is_streaming;
            if windows || block.group.as_ref().is_some_and(is_kept) || block.distinct {
                first.extra.push("Using temporary".into());
            }
            let sorted = block
                .windows
                .iter()
                .flat_map(|w| &w.sorts)
                .any(|s| !s.keys.is_empty());
            if sorted || !block.order.is_empty() {
                first.extra.push("Using filesort".into());
            }
            if let Some(estimate) = (self.outside.parallel)(block) {
                let word = estimate.shared.word();
                first
                    .extra
                    .push(format!("Using parallel {word} ({estimate})"));
            }
        }
        for line in lines {
            self.push(Some(block.id), kind, line);
        }
        debug_assert!(self.rows.len() > before);
        let mut inner = Vec::new();
        block_queries(block, &mut inner);
        for Inner { kind, plan, shared } in inner {
            if shared.is_none_or(|id| self.seen_shared.insert(id)) {
                self.query(plan, kind, Some(&names));
            }
        }
    }

    fn push(&mut self, id: Option<u32>, kind: &str, line: Line) {
        let text = |s: Option<String>| s.map_or(Value::Null, Value::str);
        self.rows.push(vec![
            id.map_or(Value::Null, |n| Value::UInt(n.into())),
            Value::str(kind),
            text(line.table),
            text(line.partitions),
            line.access.map_or(Value::Null, Value::str),
            text(line.possible),
            text(line.key),
            text(line.key_len),
            text(line.refs),
            line.rows
                .map_or(Value::Null, |n| Value::UInt(n.round().max(1.0) as u64)),
            line.filtered
                .map_or(Value::Null, |f| Value::Double((f * 100.0).round() / 100.0)),
            text((!line.extra.is_empty()).then(|| line.extra.join("; "))),
        ]);
    }
}

fn first_id(plan: &QueryPlan) -> u32 {
    match &plan.root {
        Root::Block(block) => block.id,
        Root::SetOps(ops) => first_id(&ops.first),
        Root::Recursive(recursive) => first_id(&recursive.seed),
        Root::Values(_) => 0,
    }
}

/// Puts a word before what the last column says.
fn prepend_extra(cells: &mut [Value], word: &str) {
    let Some(extra) = cells.last_mut() else {
        return;
    };
    *extra = match extra {
        Value::Str(text) => Value::str(format!("{word}; {}", String::from_utf8_lossy(text))),
        _ => Value::str(word),
    };
}

/// A query inside a block.
struct Inner<'p> {
    kind: &'static str,
    plan: &'p QueryPlan,
    /// The number of a common table expression that several places read.
    shared: Option<u32>,
}

/// Queries inside a block: derived tables, then subqueries of its expressions.
fn block_queries<'p>(block: &'p BlockPlan, out: &mut Vec<Inner<'p>>) {
    let mut exprs: Vec<&'p Expr> = block.output.iter().chain(&block.having).collect();
    exprs.extend(block.order.iter().map(|k| &k.expr));
    if let Some(group) = &block.group {
        exprs.extend(&group.keys);
        exprs.extend(group.aggs.iter().flat_map(|a| &a.args));
    }
    exprs.extend(block.windows.iter().flat_map(|w| w.exprs()));
    node_queries(&block.source, &mut exprs, out);
    // The columns of a row subquery are expressions of the same query.
    let mut seen = HashSet::new();
    for expr in exprs {
        expr.visit(&mut |e| {
            if let ExprKind::Subquery(q) = &e.kind
                && seen.insert(q.id)
            {
                let kind = if q.correlated {
                    "DEPENDENT SUBQUERY"
                } else {
                    "SUBQUERY"
                };
                out.push(Inner {
                    kind,
                    plan: &q.plan,
                    shared: None,
                });
            }
        });
    }
}

fn node_queries<'p>(node: &'p Node, exprs: &mut Vec<&'p Expr>, out: &mut Vec<Inner<'p>>) {
    match node {
        Node::Once | Node::Nothing(_) => {}
        Node::Filter(child, conds) => {
            exprs.extend(conds);
            node_queries(child, exprs, out);
        }
        Node::Join(join) => {
            exprs.extend(&join.on);
            node_queries(&join.left, exprs, out);
            node_queries(&join.right, exprs, out);
        }
        Node::Scan(scan) => {
            exprs.extend(&scan.conds);
            if let Source::Derived(plan) | Source::Shared(_, plan) = &scan.source {
                out.push(Inner {
                    kind: if scan.lateral {
                        "DEPENDENT DERIVED"
                    } else if is_joined(scan) {
                        "MATERIALIZED"
                    } else {
                        "DERIVED"
                    },
                    plan,
                    shared: match scan.source {
                        Source::Shared(id, _) => Some(id),
                        _ => None,
                    },
                });
            }
        }
    }
}
