//! EXPLAIN FORMAT=TREE and EXPLAIN ANALYZE: operators as indented text.
//!
//! Neighbours: `text` prints expressions; `profile` measured what ran.
//! **Invariants**: an operator stands above what it reads; `cost` is the estimated number of rows that
//! are looked at for it and below it, `rows` the estimate of what it gives; actual times are
//! milliseconds, and like rows averages over the loops.

use std::fmt::Write as _;

use esker_sql_syntax::ast::SetOp;

use super::text::Names;
use super::{Inner, ParallelEstimate, ParallelEstimates, block_queries, first_id, scan_line};
use crate::bind::JoinType;
use crate::expr::Expr;
use crate::plan::profile::{Profile, Stage};
use crate::plan::{
    AccessKind, BlockPlan, JoinMethod, JoinPlan, KeyOperand, Node, QueryPlan, Root, ScanPlan,
    Source, rows_looked_at,
};

/// The tree of a plan; with a profile, what it did.
pub(super) fn tree(
    plan: &QueryPlan,
    profile: Option<&Profile>,
    estimates: ParallelEstimates<'_>,
) -> String {
    let mut tree = Tree {
        out: String::new(),
        profile,
        estimates,
        estimate: None,
    };
    tree.query(plan, 0, None);
    tree.out
}

struct Tree<'p> {
    out: String,
    profile: Option<&'p Profile>,
    estimates: ParallelEstimates<'p>,
    /// How the rows of the block are shared out whose first table comes next.
    estimate: Option<ParallelEstimate>,
}

/// Estimates of a line: cost and rows.
type Estimate = Option<(f64, f64)>;

impl Tree<'_> {
    /// A line; `of`: whose work it is.
    fn line<T>(&mut self, depth: usize, text: &str, estimate: Estimate, of: Option<(&T, Stage)>) {
        // Writing to a String cannot fail.
        let _ = write!(self.out, "{:indent$}-> {text}", "", indent = depth * 4);
        if let Some((cost, rows)) = estimate {
            let _ = write!(
                self.out,
                "  (cost={cost:.2} rows={})",
                rows.round().max(0.0)
            );
        }
        if let (Some(profile), Some((plan, stage))) = (self.profile, of) {
            match profile.of(plan, stage).filter(|m| m.loops > 0) {
                None => self.out.push_str(" (never executed)"),
                Some(m) => {
                    let loops = m.loops as f64;
                    let millis = |d: std::time::Duration| d.as_secs_f64() * 1000.0 / loops;
                    let (first, last) = (millis(m.first), millis(m.total));
                    let rows = m.rows as f64 / loops;
                    let rows = match m.rows % m.loops {
                        0 => format!("{rows}"),
                        _ => format!("{rows:.2}"),
                    };
                    let _ = write!(
                        self.out,
                        " (actual time={first:.3}..{last:.3} rows={rows} loops={})",
                        m.loops
                    );
                }
            }
        }
        self.out.push('\n');
    }

    fn plain(&mut self, depth: usize, text: &str) {
        self.line::<QueryPlan>(depth, text, None, None);
    }

    fn query(&mut self, plan: &QueryPlan, depth: usize, up: Option<&Names<'_>>) {
        let whole = Some((plan, Stage::Root));
        let estimate = Some((plan.cost_rows, plan.rows));
        match &plan.root {
            Root::Block(block) => self.block(plan, block, depth, up),
            Root::SetOps(ops) => {
                let words: Vec<&str> = ops
                    .steps
                    .iter()
                    .map(|(op, all, _)| word(*op, *all))
                    .collect();
                let mut depth = depth;
                if ops.limit.is_some() {
                    self.line(depth, "Limit", estimate, whole);
                    depth += 1;
                }
                if !ops.order.is_empty() {
                    let stage = Some((plan, Stage::Sort));
                    let text = format!("Sort: {} key(s)", ops.order.len());
                    self.line(depth, &text, estimate, stage);
                    depth += 1;
                }
                let text = format!("Set operations: {}", words.join(", "));
                self.line(depth, &text, estimate, whole);
                self.query(&ops.first, depth + 1, up);
                for (_, _, query) in &ops.steps {
                    self.query(query, depth + 1, up);
                }
            }
            Root::Recursive(recursive) => {
                self.line(depth, "Repeat until convergence", estimate, whole);
                self.query(&recursive.seed, depth + 1, up);
                for member in &recursive.members {
                    self.query(member, depth + 1, up);
                }
            }
            Root::Values(_) => self.line(depth, "Rows fetched before execution", estimate, whole),
        }
    }

    fn block(
        &mut self,
        plan: &QueryPlan,
        block: &BlockPlan,
        mut depth: usize,
        up: Option<&Names<'_>>,
    ) {
        let names = Names::of(block, up);
        let all = Some((plan.cost_rows, plan.rows));
        let whole = Some((plan, Stage::Root));
        if let Some(limit) = &block.limit {
            let mut text = format!("Limit: {} row(s)", names.text(&limit.count));
            if let Some(offset) = &limit.offset {
                text = format!(
                    "Limit/Offset: {}/{} row(s)",
                    names.text(&limit.count),
                    names.text(offset)
                );
            }
            self.line(depth, &text, all, whole);
            depth += 1;
        }
        if !block.order.is_empty() {
            let keys = block.order.iter().map(|k| {
                let text = names.text(&k.expr);
                if k.desc { text + " DESC" } else { text }
            });
            let text = format!("Sort: {}", keys.collect::<Vec<_>>().join(", "));
            self.line(depth, &text, all, Some((plan, Stage::Sort)));
            depth += 1;
        }
        if block.distinct {
            // Behind it are only the sort and the limit, which have lines of their own.
            let own =
                (block.order.is_empty() && block.limit.is_none()).then_some((plan, Stage::Root));
            self.line(depth, "Deduplicate rows", all, own);
            depth += 1;
        }
        if let Some(windows) = &block.windows {
            for (nth, sort) in windows.sorts.iter().enumerate().rev() {
                let calls: usize = sort.windows.iter().map(|w| w.calls.len()).sum();
                let last = nth + 1 == windows.sorts.len();
                let own = last.then_some((plan, Stage::Window));
                let text = format!("Window aggregate: {calls} function(s)");
                self.line(depth, &text, all, own);
                depth += 1;
                if !sort.keys.is_empty() {
                    self.plain(depth, &format!("Sort: {} key(s)", sort.keys.len()));
                    depth += 1;
                }
            }
        }
        if let Some(having) = &block.having {
            let text = format!("Filter: {}", names.text(having));
            self.line(depth, &text, all, Some((plan, Stage::Having)));
            depth += 1;
        }
        if let Some(group) = &block.group {
            let text = match group.keys.is_empty() {
                true => "Aggregate".to_owned(),
                false => {
                    let keys: Vec<String> = group.keys.iter().map(|k| names.text(k)).collect();
                    format!("Group aggregate: {}", keys.join(", "))
                }
            };
            self.line(depth, &text, all, Some((plan, Stage::Group)));
            depth += 1;
        }
        self.estimate = (self.estimates)(block);
        self.node(&block.source, depth, &names);
        let mut inner = Vec::new();
        block_queries(block, &mut inner);
        for Inner {
            kind, plan: query, ..
        } in inner
        {
            // Derived tables stand below their scans.
            let subquery = match kind {
                "SUBQUERY" => "run only once",
                "DEPENDENT SUBQUERY" => "dependent",
                _ => continue,
            };
            let text = format!(
                "Select #{} (subquery in condition; {subquery})",
                first_id(query)
            );
            self.plain(depth, &text);
            self.query(query, depth + 1, Some(&names));
        }
    }

    fn node(&mut self, node: &Node, depth: usize, names: &Names<'_>) {
        let own = Some((node, Stage::Node));
        match node {
            Node::Once => self.line(
                depth,
                "Rows fetched before execution",
                Some((0.0, 1.0)),
                own,
            ),
            Node::Nothing(why) => {
                let text = format!("Zero rows ({why})");
                self.line(depth, &text, Some((0.0, 0.0)), own);
            }
            Node::Filter(child, conds) => {
                let text = format!("Filter: {}", names.all(conds));
                self.line(depth, &text, None, own);
                self.note(node, depth + 1);
                self.node(child, depth + 1, names);
            }
            Node::Join(join) => {
                let text = join_text(join, names);
                let estimate = Some((rows_looked_at(node), join.rows));
                self.line(depth, &text, estimate, own);
                self.note(node, depth + 1);
                self.node(&join.left, depth + 1, names);
                self.node(&join.right, depth + 1, names);
            }
            Node::Scan(scan) => self.scan(node, scan, depth, names),
        }
    }

    /// What only the operator knew of its work.
    fn note(&mut self, node: &Node, depth: usize) {
        if let Some(note) = self.profile.and_then(|p| p.note_of(node)) {
            self.plain(depth, &note);
        }
    }

    fn scan(&mut self, node: &Node, scan: &ScanPlan, depth: usize, names: &Names<'_>) {
        let (mut depth, mut own) = (depth, Some((node, Stage::Node)));
        let cost = rows_looked_at(node);
        if !scan.conds.is_empty() {
            let text = format!("Filter: {}", names.all(&scan.conds));
            self.line(depth, &text, Some((cost, scan.rows_out)), own);
            depth += 1;
            own = None;
        }
        let mut text = scan_text(scan, names);
        if let (None, Some(profile)) = (own, self.profile)
            && let Some(read) = profile.of(scan, Stage::Read)
        {
            let _ = write!(text, "  (rows read={})", read.rows);
        }
        self.line(depth, &text, Some((cost, scan.rows_in)), own);
        self.note(node, depth + 1);
        // The first table of a block stands above all others of it.
        if let Some(estimate) = self.estimate.take() {
            let word = estimate.shared.word();
            self.plain(depth + 1, &format!("Parallel {word}: {estimate}"));
        }
        if let Source::Derived(plan) | Source::Shared(_, plan) = &scan.source {
            let up = if scan.lateral { Some(names) } else { None };
            if matches!(scan.source, Source::Shared(..)) {
                self.plain(depth + 1, "Materialize CTE");
                depth += 1;
            }
            self.query(plan, depth + 1, up);
        }
    }
}

fn word(op: SetOp, all: bool) -> &'static str {
    match (op, all) {
        (SetOp::Union, false) => "union",
        (SetOp::Union, true) => "union all",
        (SetOp::Except, false) => "except",
        (SetOp::Except, true) => "except all",
        (SetOp::Intersect, false) => "intersect",
        (SetOp::Intersect, true) => "intersect all",
    }
}

fn join_text(join: &JoinPlan, names: &Names<'_>) -> String {
    let kind = match join.kind {
        JoinType::Left => "left join",
        _ => "inner join",
    };
    let conds = |conds: &[Expr]| match conds.is_empty() {
        true => String::new(),
        false => format!("  (extra conditions: {})", names.all(conds)),
    };
    match &join.method {
        JoinMethod::Nested => format!("Nested loop {kind}{}", conds(&join.on)),
        JoinMethod::Buffered => format!("Buffered nested loop {kind}{}", conds(&join.on)),
        JoinMethod::Hash { left, right, by } => {
            let keys = left.iter().zip(right).zip(by).map(|((l, r), by)| {
                let op = if by.null_safe { "<=>" } else { "=" };
                format!("({} {op} {})", names.text(l), names.text(r))
            });
            let mut kind = kind.to_owned();
            if join.kind == JoinType::Left {
                kind = "left hash join".into();
            } else {
                kind = kind.replace("join", "hash join");
            }
            let kind = kind[..1].to_uppercase() + &kind[1..];
            format!(
                "{kind} {}{}",
                keys.collect::<Vec<_>>().join(", "),
                conds(&join.on)
            )
        }
    }
}

/// What a scan reads and how.
fn scan_text(scan: &ScanPlan, names: &Names<'_>) -> String {
    let Source::Base { def, access, .. } = &scan.source else {
        return match &scan.source {
            Source::Work(_) => format!("Scan new records on {}", scan.alias),
            _ => format!("Table scan on {}", scan.alias),
        };
    };
    let index = &def.indexes[access.index];
    let covering = if access.covering {
        "Covering index"
    } else {
        "Index"
    };
    let reverse = if access.reverse { " (reverse)" } else { "" };
    let keys = |operands: &[KeyOperand]| {
        let each = operands.iter().zip(&index.parts).map(|(o, part)| {
            let column = &def.columns[part.col].name;
            let op = if o.null_safe { "<=>" } else { "=" };
            format!("{column}{op}{}", names.text(&o.expr))
        });
        each.collect::<Vec<_>>().join(", ")
    };
    match &access.kind {
        AccessKind::Full if scan_line(scan).access == Some("index") => {
            format!(
                "{covering} scan on {} using {}{reverse}",
                scan.alias, index.name
            )
        }
        AccessKind::Full => format!("Table scan on {}{reverse}", scan.alias),
        AccessKind::Point(operands) => format!(
            "Single-row {} lookup on {} using {} ({})",
            covering.to_lowercase(),
            scan.alias,
            index.name,
            keys(operands)
        ),
        AccessKind::Ref(operands) => format!(
            "{covering} lookup on {} using {} ({}){reverse}",
            scan.alias,
            index.name,
            keys(operands)
        ),
        AccessKind::Ranges(_) => {
            format!(
                "{covering} range scan on {} using {}{reverse}",
                scan.alias, index.name
            )
        }
    }
}
