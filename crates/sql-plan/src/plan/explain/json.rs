//! EXPLAIN FORMAT=JSON in the shape that MySQL's has (explain_json_format_version = 1).
//!
//! Neighbours: `mod` has the facts of a table's line, `text` prints expressions, `document` writes.
//! **Invariants**: members have MySQL's names and order; one table stands alone, several in a
//! `nested_loop` in the order in which they are read; numbers that MySQL writes as text are text.

use esker_sql_catalog::catalog::TableDef;
use esker_sql_syntax::ast::SetOp;

use super::document::{self, Json, Members, text};
use super::text::Names;
use super::{Explainee, Outside, ParallelEstimate, Shared, block_queries, first_id, scan_line};
use crate::expr::Expr;
use crate::plan::{
    Access, AccessKind, BlockPlan, JoinMethod, Node, QueryPlan, Root, ScanPlan, SetOpsPlan, Source,
    rows_looked_at,
};

/// The document for a statement.
pub(super) fn json(of: Explainee<'_>, outside: Outside<'_>) -> String {
    let block = match of {
        Explainee::Query(plan) => query(plan, None, outside),
        Explainee::Insert {
            query: rows_of,
            table,
            replace,
        } => insert(rows_of, table, replace, outside),
        Explainee::Update(plan) | Explainee::Delete(plan) => {
            let block = query(plan, None, outside);
            marked(block, of.query_type(), &of.targets())
        }
    };
    document::print(&Json::Object(vec![("query_block", block)]))
}

/// An INSERT: the table that is written, then where its rows come from.
fn insert(rows_of: Option<&QueryPlan>, table: &str, replace: bool, outside: Outside<'_>) -> Json {
    let verb = if replace { "replace" } else { "insert" };
    let written = vec![
        (verb, Json::Bool(true)),
        ("table_name", text(table)),
        ("access_type", text("ALL")),
    ];
    let mut members = vec![("select_id", Json::Number(1))];
    let mut from = Vec::new();
    if let Some(Json::Object(parts)) = rows_of.map(|plan| query(plan, None, outside)) {
        for part in parts {
            match part.0 {
                "select_id" => {}
                "cost_info" => members.push(part),
                _ => from.push(part),
            }
        }
    }
    members.push(("table", Json::Object(written)));
    if !from.is_empty() {
        members.push(("insert_from", Json::Object(from)));
    }
    Json::Object(members)
}

/// Marks the tables whose rows are changed.
fn marked(block: Json, verb: &'static str, targets: &[&str]) -> Json {
    let Json::Object(members) = block else {
        return block;
    };
    let is_target = |table: &Members| {
        let mut names = table.iter().filter(|(name, _)| *name == "table_name");
        names.any(|(_, name)| matches!(name, Json::Text(name) if targets.contains(&&**name)))
    };
    let mark = |member: (&'static str, Json)| match member {
        ("table", Json::Object(mut t)) if is_target(&t) => {
            t.insert(0, (verb, Json::Bool(true)));
            ("table", Json::Object(t))
        }
        ("nested_loop", Json::List(tables)) => {
            let each = tables.into_iter().map(|t| marked(t, verb, targets));
            ("nested_loop", Json::List(each.collect()))
        }
        ("ordering_operation", inner) => ("ordering_operation", marked(inner, verb, targets)),
        other => other,
    };
    Json::Object(members.into_iter().map(mark).collect())
}

fn cost(value: f64) -> Json {
    text(format!("{value:.2}"))
}

fn rows(value: f64) -> Json {
    Json::Number(value.round().max(1.0) as u64)
}

/// What `query_block` is.
fn query(plan: &QueryPlan, up: Option<&Names<'_>>, outside: Outside<'_>) -> Json {
    match &plan.root {
        Root::Block(block) => Json::Object(block_members(plan, block, up, outside)),
        Root::SetOps(ops) => Json::Object(set_ops(ops, up, outside)),
        Root::Recursive(recursive) => {
            let parts = std::iter::once(&recursive.seed).chain(&recursive.members);
            let parts = parts.map(|part| nested(part, false, up, outside)).collect();
            Json::Object(vec![
                ("recursive", Json::Bool(true)),
                ("query_specifications", Json::List(parts)),
            ])
        }
        Root::Values(_) => Json::Object(vec![("message", text("No tables used"))]),
    }
}

/// A query inside another.
fn nested(plan: &QueryPlan, dependent: bool, up: Option<&Names<'_>>, outside: Outside<'_>) -> Json {
    Json::Object(vec![
        ("dependent", Json::Bool(dependent)),
        ("cacheable", Json::Bool(!dependent)),
        ("query_block", query(plan, up, outside)),
    ])
}

fn set_ops(ops: &SetOpsPlan, up: Option<&Names<'_>>, outside: Outside<'_>) -> Members {
    let name = match ops.steps.last().map(|s| s.0) {
        Some(SetOp::Except) => "except",
        Some(SetOp::Intersect) => "intersect",
        _ => "union",
    };
    let parts = || std::iter::once(&ops.first).chain(ops.steps.iter().map(|(_, _, q)| q));
    let ids: Vec<String> = parts().map(|q| first_id(q).to_string()).collect();
    let streams = ops.order.is_empty()
        && ops
            .steps
            .iter()
            .all(|(op, all, _)| *op == SetOp::Union && *all);
    let mut members = vec![("using_temporary_table", Json::Bool(!streams))];
    if !streams {
        members.push(("table_name", text(format!("<{name}{}>", ids.join(",")))));
        members.push(("access_type", text("ALL")));
    }
    if !ops.order.is_empty() {
        members.push(("using_filesort", Json::Bool(true)));
    }
    let queries = parts().map(|q| nested(q, false, up, outside)).collect();
    members.push(("query_specifications", Json::List(queries)));
    let result = match name {
        "except" => "except_result",
        "intersect" => "intersect_result",
        _ => "union_result",
    };
    vec![(result, Json::Object(members))]
}

fn block_members(
    plan: &QueryPlan,
    block: &BlockPlan,
    up: Option<&Names<'_>>,
    outside: Outside<'_>,
) -> Members {
    let names = Names::of(block, up);
    let mut members = vec![("select_id", Json::Number(block.id.into()))];
    let mut tables = Vec::new();
    node(&block.source, &names, outside, &mut Vec::new(), &mut tables);
    if let (Some(first), Some(estimate)) = (tables.first_mut(), (outside.parallel)(block)) {
        first.push(shared_out(estimate));
    }
    let inside: Members = match &block.source {
        Node::Once if tables.is_empty() => vec![("message", text("No tables used"))],
        Node::Nothing(why) => vec![("message", text(*why))],
        _ => {
            members.push((
                "cost_info",
                Json::Object(vec![("query_cost", cost(plan.cost_rows))]),
            ));
            joined(tables)
        }
    };
    members.extend(in_operations(block, &names, inside));
    let mut inner = Vec::new();
    block_queries(block, &mut inner);
    let subqueries: Vec<Json> = inner
        .into_iter()
        .filter(|q| q.kind.ends_with("SUBQUERY"))
        .map(|q| {
            nested(
                q.plan,
                q.kind == "DEPENDENT SUBQUERY",
                Some(&names),
                outside,
            )
        })
        .collect();
    if !subqueries.is_empty() {
        members.push(("attached_subqueries", Json::List(subqueries)));
    }
    members
}

/// One table, or a join of several.
fn joined(tables: Vec<Members>) -> Members {
    let is_join = tables.len() != 1;
    let tables = tables.into_iter().map(|t| ("table", Json::Object(t)));
    match is_join {
        true => {
            let members = tables.map(|table| Json::Object(vec![table]));
            vec![("nested_loop", Json::List(members.collect()))]
        }
        false => tables.collect(),
    }
}

/// The tables of a block in what is done with their rows, from the inside out.
fn in_operations(block: &BlockPlan, names: &Names<'_>, mut inside: Members) -> Members {
    let around = |name, flags: &[(&'static str, bool)], inside: Members| -> Members {
        let mut members: Members = flags.iter().map(|(n, b)| (*n, Json::Bool(*b))).collect();
        members.extend(inside);
        vec![(name, Json::Object(members))]
    };
    if block.group.as_ref().is_some_and(|g| !g.implicit) {
        let flags = [("using_temporary_table", true), ("using_filesort", false)];
        inside = around("grouping_operation", &flags, inside);
    }
    if let Some(having) = &block.having {
        inside.push(("having_condition", text(names.text(having))));
    }
    if let Some(windows) = &block.windows {
        let sorts = windows.sorts.iter().any(|s| !s.keys.is_empty());
        let flags = [("using_temporary_table", true), ("using_filesort", sorts)];
        inside = around("windowing", &flags, inside);
    }
    if block.distinct {
        inside = around(
            "duplicates_removal",
            &[("using_temporary_table", true)],
            inside,
        );
    }
    if !block.order.is_empty() {
        inside = around("ordering_operation", &[("using_filesort", true)], inside);
    }
    inside
}

/// Adds the tables of a node; `conds`: conditions that are met above it, for its last table.
fn node(
    node_plan: &Node,
    names: &Names<'_>,
    outside: Outside<'_>,
    conds: &mut Vec<Expr>,
    out: &mut Vec<Members>,
) {
    match node_plan {
        Node::Once | Node::Nothing(_) => {}
        Node::Filter(child, more) => {
            conds.extend(more.iter().cloned());
            node(child, names, outside, conds, out);
        }
        Node::Join(join) => {
            node(&join.left, names, outside, &mut Vec::new(), out);
            let first = out.len();
            conds.extend(join.on.iter().cloned());
            node(&join.right, names, outside, conds, out);
            let buffer = match &join.method {
                JoinMethod::Nested => return,
                JoinMethod::Buffered => "Block Nested Loop",
                JoinMethod::Hash { .. } => "hash join",
            };
            if let Some(table) = out.get_mut(first) {
                table.push(("using_join_buffer", text(buffer)));
                if let JoinMethod::Hash { left, right, .. } = &join.method {
                    let keys = left.iter().zip(right);
                    let keys =
                        keys.map(|(l, r)| text(format!("({} = {})", names.text(l), names.text(r))));
                    table.push(("hash_condition", Json::List(keys.collect())));
                }
            }
        }
        Node::Scan(scan) => out.push(table(
            node_plan,
            scan,
            names,
            outside,
            std::mem::take(conds),
        )),
    }
}

/// How several threads share a block's first table, or the joining of its rows.
fn shared_out(estimate: ParallelEstimate) -> (&'static str, Json) {
    let name = match estimate.shared {
        Shared::Scan => "parallel_scan",
        Shared::Join => "parallel_join",
    };
    let mut members = vec![
        ("threads", Json::Number(estimate.threads.into())),
        ("tasks", Json::Number(estimate.tasks)),
        ("rows_from_metadata", Json::Number(estimate.from_metadata)),
    ];
    if let Some(what) = estimate.evaluation.word() {
        members.push(("evaluation", Json::Text(what.to_owned())));
    }
    if estimate.is_streaming {
        members.push(("streaming_aggregation", Json::Bool(true)));
    }
    (name, Json::Object(members))
}

/// The key that a scan reads.
fn key_members(
    def: &TableDef,
    access: &Access,
    key: String,
    length: Option<String>,
    names: &Names<'_>,
) -> Members {
    let key = match &access.kind {
        AccessKind::Union(union) => format!("{}({key})", union.name()),
        _ => key,
    };
    let mut members = vec![("key", text(key))];
    let index = &def.indexes[access.index];
    let parts = match &access.kind {
        AccessKind::Union(_) => None,
        AccessKind::Full | AccessKind::Match(_) | AccessKind::Elements(_) => {
            Some(index.parts.len())
        }
        AccessKind::Point(o) | AccessKind::Ref(o) => Some(o.len()),
        AccessKind::Ranges(spec) => Some(spec.leading_parts()),
        AccessKind::Skip(skip) => Some(skip.parts()),
    };
    if let Some(parts) = parts {
        let used = index.parts.iter().take(parts);
        let used = used.map(|p| text(&*def.columns[p.col].name)).collect();
        members.push(("used_key_parts", Json::List(used)));
    }
    if let Some(length) = length {
        members.push(("key_length", text(length)));
    }
    if let AccessKind::Point(operands) | AccessKind::Ref(operands) = &access.kind {
        let refs = operands.iter().map(|o| text(names.reference(&o.expr)));
        members.push(("ref", Json::List(refs.collect())));
    }
    members
}

/// The query of which a table has the rows.
fn materialized(
    scan: &ScanPlan,
    plan: &QueryPlan,
    names: &Names<'_>,
    outside: Outside<'_>,
) -> Json {
    let is_kept = matches!(scan.source, Source::Shared(..));
    let up = scan.lateral.then_some(names);
    Json::Object(vec![
        ("using_temporary_table", Json::Bool(is_kept)),
        ("dependent", Json::Bool(scan.lateral)),
        ("cacheable", Json::Bool(!scan.lateral)),
        ("query_block", query(plan, up, outside)),
    ])
}

fn table(
    node: &Node,
    scan: &ScanPlan,
    names: &Names<'_>,
    outside: Outside<'_>,
    conds: Vec<Expr>,
) -> Members {
    let line = scan_line(scan, names);
    let mut members = vec![("table_name", text(line.table.unwrap_or_default()))];
    if let Some(names) = (outside.partitions)(scan) {
        let names = names.into_iter().map(text).collect();
        members.push(("partitions", Json::List(names)));
    }
    if let Some(access) = line.access {
        members.push(("access_type", text(access)));
    }
    if let Some(possible) = line.possible {
        let keys = possible.split(',').map(text).collect();
        members.push(("possible_keys", Json::List(keys)));
    }
    let mut columns = Vec::new();
    if let Source::Base { def, access, .. } = &scan.source {
        if let Some(key) = line.key {
            members.extend(key_members(def, access, key, line.key_len, names));
        }
        columns = scan
            .columns
            .iter()
            .map(|(c, _)| text(&*def.columns[*c].name))
            .collect();
    }
    members.push(("rows_examined_per_scan", rows(scan.rows_in)));
    members.push(("rows_produced_per_join", rows(scan.rows_out)));
    if let Some(filtered) = line.filtered {
        members.push(("filtered", cost(filtered)));
    }
    for extra in &line.extra {
        match extra.as_str() {
            "Using index" => members.push(("using_index", Json::Bool(true))),
            "Backward index scan" => members.push(("backward_index_scan", Json::Bool(true))),
            _ => {}
        }
    }
    members.push((
        "cost_info",
        Json::Object(vec![("read_cost", cost(rows_looked_at(node)))]),
    ));
    if let Source::Derived(plan) | Source::Shared(_, plan) = &scan.source {
        columns = scan
            .columns
            .iter()
            .map(|(c, _)| text(&*plan.columns[*c].name))
            .collect();
        members.push((
            "materialized_from_subquery",
            materialized(scan, plan, names, outside),
        ));
    }
    if !columns.is_empty() {
        members.push(("used_columns", Json::List(columns)));
    }
    let all: Vec<Expr> = scan.conds.iter().cloned().chain(conds).collect();
    if !all.is_empty() {
        members.push(("attached_condition", text(names.all(&all))));
    }
    members
}
