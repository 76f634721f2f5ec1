//! A table's line of an EXPLAIN: how it is read, and what EXPLAIN says of that in its columns.
//!
//! Neighbours: the module above puts lines together; the documents of `json` and `tree` take words of them.
//! **Invariant**: there is one line per table, and one for a block that reads none.

use esker_sql_catalog::catalog::TableDef;

use super::super::semi_join::is_joined;
use super::super::stats::key_len;
use super::super::{
    Access, AccessKind, IndexUnion, JoinMethod, KeyOperand, Node, ScanPlan, Source,
};
use super::text::Names;
use super::{Outside, first_id};
use crate::bind::{Elements, Membership};
use crate::expr::{Expr, ExprKind};

/// One line.
#[derive(Default)]
pub(super) struct Line {
    pub table: Option<String>,
    pub partitions: Option<String>,
    pub access: Option<&'static str>,
    pub possible: Option<String>,
    pub key: Option<String>,
    pub key_len: Option<String>,
    pub refs: Option<String>,
    pub rows: Option<f64>,
    pub filtered: Option<f64>,
    pub extra: Vec<String>,
}

/// The lines of a node, a table each, in the order they are read.
pub(super) fn node_lines(
    node: &Node,
    names: &Names<'_>,
    outside: Outside<'_>,
    lines: &mut Vec<Line>,
) {
    match node {
        Node::Once => {
            lines.push(Line {
                extra: vec!["No tables used".into()],
                ..Line::default()
            });
        }
        Node::Nothing(why) => {
            lines.push(Line {
                extra: vec![(*why).into()],
                ..Line::default()
            });
        }
        Node::Filter(child, _) => {
            let first = lines.len();
            node_lines(child, names, outside, lines);
            let last = lines.len() - 1;
            debug_assert!(last >= first);
            add_extra(&mut lines[last], "Using where");
        }
        Node::Scan(scan) => lines.push(Line {
            partitions: (outside.partitions)(scan).map(|names| names.join(",")),
            ..scan_line(scan, names)
        }),
        Node::Join(join) => {
            node_lines(&join.left, names, outside, lines);
            // A join with one empty row is not shown.
            if matches!(join.left, Node::Once) {
                lines.pop();
            }
            let first = lines.len();
            node_lines(&join.right, names, outside, lines);
            let how = match join.method {
                JoinMethod::Nested => return,
                JoinMethod::Buffered | JoinMethod::Hash { .. } => "Using join buffer (hash join)",
            };
            if !join.on.is_empty() || matches!(join.method, JoinMethod::Hash { .. }) {
                add_extra(&mut lines[first], "Using where");
            }
            add_extra(&mut lines[first], how);
        }
    }
}

fn add_extra(line: &mut Line, text: &str) {
    if !line.extra.iter().any(|e| e == text) {
        line.extra.push(text.into());
    }
}

/// The line of a table, without what its block adds.
pub(super) fn scan_line(scan: &ScanPlan, names: &Names<'_>) -> Line {
    let mut line = Line {
        table: Some(scan.alias.to_string()),
        rows: Some(scan.rows_in),
        filtered: Some((100.0 * scan.rows_out / scan.rows_in.max(1e-9)).clamp(0.01, 100.0)),
        access: Some("ALL"),
        ..Line::default()
    };
    let mut has_row_of_key = false;
    match &scan.source {
        Source::Base {
            def,
            access,
            candidates,
        } => {
            show_keys(def, access, candidates, &mut line);
            show_access(def, access, names, &mut line);
            has_row_of_key = matches!(access.kind, AccessKind::Point(_));
        }
        Source::Virtual { .. } => {
            line.rows = None;
            line.filtered = None;
        }
        Source::Json(_) => {
            add_extra(&mut line, "Table function: json_table");
            add_extra(&mut line, "Using temporary");
        }
        Source::Work(_) => {}
        Source::Derived(plan) | Source::Shared(_, plan) => {
            line.table = Some(match is_joined(scan) {
                true => scan.alias.to_string(),
                false => format!("<derived{}>", first_id(plan)),
            });
        }
    }
    if !scan.entry_conds.is_empty() {
        add_extra(&mut line, "Using index condition");
    }
    if !scan.conds.is_empty() && !has_row_of_key {
        add_extra(&mut line, "Using where");
    }
    if let Source::Base { def, access, .. } = &scan.source {
        show_order(scan, def, access, &mut line);
    }
    line
}

/// The indexes that might serve, and the one that does.
fn show_keys(def: &TableDef, access: &Access, candidates: &[usize], line: &mut Line) {
    let possible: Vec<&str> = candidates.iter().map(|i| &*def.indexes[*i].name).collect();
    line.possible = (!possible.is_empty()).then(|| possible.join(","));
    let index = &def.indexes[access.index];
    let is_keyed = !matches!(access.kind, AccessKind::Full) || access.is_index_scan();
    if is_keyed && !index.hidden {
        line.key = Some(index.name.to_string());
    }
}

/// How the index is read, and by what.
fn show_access(def: &TableDef, access: &Access, names: &Names<'_>, line: &mut Line) {
    let index = &def.indexes[access.index];
    let length = |parts: usize| Some(key_len(def, index, parts).to_string());
    match &access.kind {
        AccessKind::Full if access.is_index_scan() && !index.hidden => {
            line.access = Some("index");
            line.key_len = length(index.parts.len());
        }
        AccessKind::Full => {}
        AccessKind::Point(operands) => {
            let constant = operands.iter().all(|o| is_constant(&o.expr));
            line.access = Some(if constant { "const" } else { "eq_ref" });
            line.key_len = length(operands.len());
            line.refs = Some(refs(operands, names));
            line.filtered = Some(100.0);
        }
        AccessKind::Ref(operands) => {
            line.access = Some("ref");
            line.key_len = length(operands.len());
            line.refs = Some(refs(operands, names));
        }
        AccessKind::Match(_) => {
            line.access = Some("fulltext");
            line.key_len = Some("0".to_owned());
            line.refs = Some("const".to_owned());
        }
        AccessKind::Elements(search) => {
            line.refs = match &search.elements {
                Elements::Keys(keys) => (keys.len() == 1).then(|| "const".to_owned()),
                Elements::Of(Membership::Overlaps, ..) => None,
                Elements::Of(_, e, _) => Some(names.reference(e)),
            };
            line.access = Some(match line.refs {
                Some(_) => "ref",
                None => "range",
            });
            line.possible = line.key.clone();
        }
        AccessKind::Ranges(spec) => {
            line.access = Some("range");
            line.key_len = length(spec.leading_parts());
        }
        AccessKind::Skip(skip) => {
            line.access = Some("range");
            line.key_len = length(skip.parts());
        }
        AccessKind::Union(union) => show_union(union, def, line),
    }
}

/// In which order the index is read, and whether its entries are enough.
fn show_order(scan: &ScanPlan, def: &TableDef, access: &Access, line: &mut Line) {
    if access.reverse {
        add_extra(line, "Backward index scan");
    }
    if let Some(first_of) = scan.first_of {
        line.access = Some("range");
        line.key_len = Some(key_len(def, &def.indexes[access.index], first_of.parts).to_string());
        if line.possible.is_none() {
            line.possible.clone_from(&line.key);
        }
        add_extra(line, "Using index for group-by");
    } else if matches!(access.kind, AccessKind::Skip(_)) {
        add_extra(line, "Using index for skip scan");
    } else if access.covering {
        add_extra(line, "Using index");
    }
}

fn show_union(union: &IndexUnion, def: &TableDef, line: &mut Line) {
    let (mut keys, mut lengths) = (Vec::new(), Vec::new());
    for member in &union.members {
        let index = &def.indexes[member.index];
        keys.push(&*index.name);
        lengths.push(key_len(def, index, member.ranges.leading_parts()).to_string());
    }
    line.access = Some("index_merge");
    add_extra(line, &format!("Using {}({})", union.name(), keys.join(",")));
    line.key = Some(keys.join(","));
    line.key_len = Some(lengths.join(","));
}

/// Does the value come from no table of the block?
fn is_constant(e: &Expr) -> bool {
    !e.any(&mut |e| matches!(e.kind, ExprKind::Column(_)))
}

/// What key parts are compared with.
fn refs(operands: &[KeyOperand], names: &Names<'_>) -> String {
    let each: Vec<String> = operands.iter().map(|o| names.reference(&o.expr)).collect();
    each.join(",")
}
