//! EXPLAIN FORMAT=TREE and EXPLAIN ANALYZE: a plan as operators.
//!
//! Neighbours: `operator` prints them; `words` names some; `text` and `bounds` print expressions; `profile` measured
//! what ran.
//! **Invariants**: an operator stands above what it reads; `cost` is the estimated number of rows that
//! are looked at for it and below it, `rows` the estimate of what it gives. The conditions of a scan are evaluated
//! while its rows are decoded, so both lines have the same times.

use esker_sql_catalog::catalog::{IndexPart, TableDef};

use super::bounds;
use super::document::{Json, Members, text};
use super::operator::{Actual, Line};
use super::text::Names;
use super::{
    Explainee, Inner, Outside, ParallelEstimate, block_queries, first_id, scan_line, words,
};
use crate::bind::{Elements, JoinType};
use crate::expr::Expr;
use crate::plan::block::limit_value;
use crate::plan::profile::{Measured, Profile, Stage};
use crate::plan::ranges::RangeSpec;
use crate::plan::{
    Access, AccessKind, BlockPlan, JoinMethod, JoinPlan, KeyOperand, Node, QueryPlan, Root,
    ScanPlan, SetOpsPlan, Source, WindowPlan, rows_looked_at,
};

/// The operators of a statement; with a profile, what they did.
pub(super) fn tree(
    of: Explainee<'_>,
    profile: Option<&Profile>,
    outside: Outside<'_>,
) -> Vec<Line> {
    let mut tree = Tree {
        lines: Vec::new(),
        profile,
        outside,
        estimate: None,
    };
    let targets = of.targets().join(", ");
    let change = match of {
        Explainee::Query(_) => None,
        Explainee::Insert { replace: false, .. } => Some(format!("Insert into {targets}")),
        Explainee::Insert { .. } => Some(format!("Replace into {targets}")),
        Explainee::Update(_) => Some(format!("Update {targets}")),
        Explainee::Delete(_) => Some(format!("Delete from {targets}")),
    };
    let depth = usize::from(change.is_some());
    if let Some(change) = change {
        let line = tree.plain(0, &change);
        line.details.push(("table_name", text(targets)));
    }
    match of.query() {
        Some(plan) => tree.query(plan, depth, None),
        None => drop(tree.plain(depth, "Rows fetched before execution")),
    }
    tree.lines
}

struct Tree<'p> {
    lines: Vec<Line>,
    profile: Option<&'p Profile>,
    outside: Outside<'p>,
    /// How the rows of the block are shared out whose first table comes next.
    estimate: Option<ParallelEstimate>,
}

/// Estimates of a line: cost and rows.
type Estimate = Option<(f64, f64)>;

impl Tree<'_> {
    /// An operator; `of`: whose work it is.
    fn line<T>(
        &mut self,
        depth: usize,
        text: &str,
        estimate: Estimate,
        of: Option<(&T, Stage)>,
    ) -> &mut Line {
        let actual = match (self.profile, of) {
            (Some(profile), Some((plan, stage))) => {
                match profile.of(plan, stage).filter(|m| m.loops > 0) {
                    None => Actual::Never,
                    Some(m) => Actual::Ran(m),
                }
            }
            _ => Actual::Unmeasured,
        };
        self.push(depth, text, estimate, actual)
    }

    fn push(&mut self, depth: usize, text: &str, estimate: Estimate, actual: Actual) -> &mut Line {
        self.lines.push(Line {
            depth,
            text: text.to_owned(),
            details: Members::new(),
            estimate,
            actual,
        });
        self.lines.last_mut().expect("just pushed")
    }

    fn plain(&mut self, depth: usize, text: &str) -> &mut Line {
        self.push(depth, text, None, Actual::Unmeasured)
    }

    fn query(&mut self, plan: &QueryPlan, depth: usize, up: Option<&Names<'_>>) {
        let whole = Some((plan, Stage::Root));
        let estimate = Some((plan.cost_rows, plan.rows));
        match &plan.root {
            Root::Block(block) => self.block(plan, block, depth, up),
            Root::SetOps(ops) => self.set_ops(plan, ops, depth, up),
            Root::Recursive(recursive) => {
                self.line(depth, "Repeat until convergence", estimate, whole);
                self.query(&recursive.seed, depth + 1, up);
                for member in &recursive.members {
                    self.query(member, depth + 1, up);
                }
            }
            Root::Values(_) => {
                self.line(depth, "Rows fetched before execution", estimate, whole);
            }
        }
    }

    fn set_ops(
        &mut self,
        plan: &QueryPlan,
        ops: &SetOpsPlan,
        mut depth: usize,
        up: Option<&Names<'_>>,
    ) {
        let whole = Some((plan, Stage::Root));
        let estimate = Some((plan.cost_rows, plan.rows));
        if let Some(limit) = &ops.limit {
            let most = limit_value(&limit.count).map_or(plan.rows, |n| plan.rows.min(n as f64));
            let text = words::set_limit(limit);
            self.line(depth, &text, Some((plan.cost_rows, most)), whole);
            depth += 1;
        }
        if !ops.order.is_empty() {
            let stage = Some((plan, Stage::Sort));
            let line = format!("Sort: {}", words::set_order(plan, ops));
            self.line(depth, &line, estimate, stage);
            depth += 1;
        }
        // Its rows are counted where nothing is done with them.
        let own = (ops.limit.is_none() && ops.order.is_empty()).then_some((plan, Stage::Root));
        // A query that only wants its rows sorted is alone.
        if !ops.steps.is_empty() {
            self.line(depth, &words::set_operation(ops), estimate, own);
            depth += 1;
        }
        self.query(&ops.first, depth, up);
        for (_, _, query) in &ops.steps {
            self.query(query, depth, up);
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
        let rows = block.estimates;
        let cost = |rows: f64| Some((plan.cost_rows, rows));
        if let Some(limit) = &block.limit {
            let mut text = format!("Limit: {} row(s)", names.text(&limit.count));
            if let Some(offset) = &limit.offset {
                text = format!(
                    "Limit/Offset: {}/{} row(s)",
                    names.text(&limit.count),
                    names.text(offset)
                );
            }
            self.line(depth, &text, cost(plan.rows), Some((plan, Stage::Root)));
            depth += 1;
        }
        if !block.order.is_empty() {
            let keys = block.order.iter().map(|k| {
                let text = names.text(&k.expr);
                if k.desc { text + " DESC" } else { text }
            });
            let mut text = format!("Sort: {}", keys.collect::<Vec<_>>().join(", "));
            if let Some(limit) = &block.limit {
                text += &format!(", limit input to {} row(s)", names.text(&limit.count));
            }
            self.line(depth, &text, cost(rows.distinct), Some((plan, Stage::Sort)));
            depth += 1;
        }
        if block.distinct {
            let own = Some((plan, Stage::Distinct));
            self.line(depth, words::DISTINCT, cost(rows.distinct), own);
            depth += 1;
        }
        if let Some(windows) = &block.windows {
            depth = self.windows(plan, (windows, &names), depth, cost(rows.kept));
        }
        if let Some(having) = &block.having {
            let text = format!("Filter: {}", names.text(having));
            self.line(depth, &text, cost(rows.kept), Some((plan, Stage::Having)));
            depth += 1;
        }
        if let Some(group) = &block.group {
            let text = words::group(group, &names);
            self.line(depth, &text, cost(rows.grouped), Some((plan, Stage::Group)));
            depth += 1;
        }
        self.estimate = (self.outside.parallel)(block);
        self.node(&block.source, depth, &names);
        self.subqueries(block, depth, &names);
    }

    /// The sorts and window functions; returns the depth of what they read.
    fn windows(
        &mut self,
        plan: &QueryPlan,
        (windows, names): (&WindowPlan, &Names<'_>),
        mut depth: usize,
        estimate: Estimate,
    ) -> usize {
        for (nth, sort) in windows.sorts.iter().enumerate().rev() {
            let last = nth + 1 == windows.sorts.len();
            let own = last.then_some((plan, Stage::Window));
            let text = words::windows(windows, sort, names);
            self.line(depth, &text, estimate, own);
            depth += 1;
            if !sort.keys.is_empty() {
                let keys = words::window_order(windows, sort, names);
                self.plain(depth, &format!("Sort: {keys}"));
                depth += 1;
            }
        }
        depth
    }

    fn subqueries(&mut self, block: &BlockPlan, depth: usize, names: &Names<'_>) {
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
            self.query(query, depth + 1, Some(names));
        }
    }

    fn node(&mut self, node: &Node, depth: usize, names: &Names<'_>) {
        let own = Some((node, Stage::Node));
        match node {
            Node::Once => {
                let text = "Rows fetched before execution";
                self.line(depth, text, Some((0.0, 1.0)), own);
            }
            Node::Nothing(why) => {
                let text = format!("Zero rows ({why})");
                self.line(depth, &text, Some((0.0, 0.0)), own);
            }
            Node::Filter(child, conds) => {
                let line = format!("Filter: {}", names.all(conds));
                let line = self.line(depth, &line, None, own);
                line.details.push(("condition", text(names.all(conds))));
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
        let mut depth = depth;
        let cost = rows_looked_at(node);
        let ran = self.profile.and_then(|p| p.of(node, Stage::Node));
        let actual = |m: Option<Measured>| match (self.profile, m.filter(|m| m.loops > 0)) {
            (None, _) => Actual::Unmeasured,
            (Some(_), None) => Actual::Never,
            (Some(_), Some(m)) => Actual::Ran(m),
        };
        let mut looked_at = actual(ran);
        if !scan.conds.is_empty() {
            if let (Actual::Ran(m), Some(profile)) = (&mut looked_at, self.profile) {
                m.rows = profile
                    .of(scan, Stage::Read)
                    .map_or(m.rows, |read| read.rows);
            }
            let (met, conds) = (actual(ran), names.all(&scan.conds));
            let line = format!("Filter: {conds}");
            let line = self.push(depth, &line, Some((cost, scan.rows_out)), met);
            line.details.push(("condition", text(conds)));
            depth += 1;
        }
        let (line, details) = scan_text(scan, names);
        let line = self.push(depth, &line, Some((cost, scan.rows_in)), looked_at);
        line.details = details;
        self.members(scan, depth + 1, names);
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

impl Tree<'_> {
    /// The ranges that an index merge union reads.
    fn members(&mut self, scan: &ScanPlan, depth: usize, names: &Names<'_>) {
        let Source::Base { def, access, .. } = &scan.source else {
            return;
        };
        let AccessKind::Union(union) = &access.kind else {
            return;
        };
        for member in &union.members {
            let index = &def.indexes[member.index];
            let (over, ranges) = ranges_text(&member.ranges, def, &index.parts, names);
            let line = format!(
                "Index range scan on {} using {}{over}",
                scan.alias, index.name
            );
            let line = self.push(
                depth,
                &line,
                Some((member.rows, member.rows)),
                Actual::Unmeasured,
            );
            line.details = vec![
                ("table_name", text(&*scan.alias)),
                ("schema_name", text(&*def.schema)),
                ("access_type", text("index")),
                ("index_name", text(&*index.name)),
                ("covering", Json::Bool(false)),
                ranges,
                ("index_access_type", text("index_range_scan")),
            ];
        }
    }
}

/// The ranges of an index, as a text and as a member of a document.
fn ranges_text(
    spec: &RangeSpec,
    def: &TableDef,
    parts: &[IndexPart],
    names: &Names<'_>,
) -> (String, (&'static str, Json)) {
    let ranges = bounds::ranges(spec, def, parts, names);
    let over = match ranges.is_empty() {
        true => String::new(),
        false => format!(" over {}", bounds::joined(&ranges)),
    };
    let ranges = ranges.into_iter().map(text).collect();
    (over, ("ranges", Json::List(ranges)))
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

/// What a scan reads and how, in words and as members of a document.
fn scan_text(scan: &ScanPlan, names: &Names<'_>) -> (String, Members) {
    let mut details = vec![("table_name", text(&*scan.alias))];
    let Source::Base { def, access, .. } = &scan.source else {
        details.push(("access_type", text("table")));
        let line = match &scan.source {
            Source::Work(_) => format!("Scan new records on {}", scan.alias),
            _ => format!("Table scan on {}", scan.alias),
        };
        return (line, details);
    };
    details.push(("schema_name", text(&*def.schema)));
    let columns = scan.columns.iter();
    let columns = columns.map(|(c, _)| text(&*def.columns[*c].name)).collect();
    details.push(("used_columns", Json::List(columns)));
    let index = &def.indexes[access.index];
    let reverse = if access.reverse { " (reverse)" } else { "" };
    let is_index = !matches!(access.kind, AccessKind::Full)
        || matches!(scan_line(scan, names).access, Some("index" | "range"));
    if !is_index {
        details.push(("access_type", text("table")));
        return (format!("Table scan on {}{reverse}", scan.alias), details);
    }
    if let AccessKind::Union(union) = &access.kind {
        let (kind, line) = match union.is_sorted {
            true => ("index_merge", "Sort-deduplicate by row ID"),
            false => ("rowid_union", "Deduplicate rows sorted by row ID"),
        };
        details.push(("access_type", text(kind)));
        return (line.to_owned(), details);
    }
    details.push(("access_type", text("index")));
    details.push(("index_name", text(&*index.name)));
    details.push(("covering", Json::Bool(access.covering)));
    let IndexRead { how, which, kind } = index_read(scan, def, access, names, &mut details);
    details.push(("index_access_type", text(kind)));
    let line = format!(
        "{} {how} on {} using {}{which}{reverse}",
        index_word(access),
        scan.alias,
        index.name
    );
    (line, details)
}

/// What an index is called that is read this way.
fn index_word(access: &Access) -> &'static str {
    match (&access.kind, access.covering) {
        (AccessKind::Match(_), _) => "Full-text index",
        (AccessKind::Point(_), true) => "Single-row covering index",
        (AccessKind::Point(_), false) => "Single-row index",
        (_, true) => "Covering index",
        (_, false) => "Index",
    }
}

/// How an index is read.
struct IndexRead {
    /// In words.
    how: &'static str,
    /// Which of its entries, in words that follow its name.
    which: String,
    /// The name of that in a document.
    kind: &'static str,
}

impl IndexRead {
    fn of(how: &'static str, which: String, kind: &'static str) -> Self {
        Self { how, which, kind }
    }
}

/// How a scan reads its index; ranges add themselves to `details`.
fn index_read(
    scan: &ScanPlan,
    def: &TableDef,
    access: &Access,
    names: &Names<'_>,
    details: &mut Members,
) -> IndexRead {
    let index = &def.indexes[access.index];
    let keys = |operands: &[KeyOperand]| {
        let each = operands.iter().zip(&index.parts).map(|(o, part)| {
            let column = &def.columns[part.col].name;
            let op = if o.null_safe { "<=>" } else { "=" };
            format!("{column}{op}{}", names.text(&o.expr))
        });
        format!(" ({})", each.collect::<Vec<_>>().join(", "))
    };
    match &access.kind {
        AccessKind::Full if scan.first_of.is_some() => {
            IndexRead::of("skip scan for grouping", String::new(), "index_skip_scan")
        }
        AccessKind::Full => IndexRead::of("scan", String::new(), "index_scan"),
        AccessKind::Point(operands) | AccessKind::Ref(operands) => {
            IndexRead::of("lookup", keys(operands), "index_lookup")
        }
        AccessKind::Match(call) => {
            let column = &def.columns[index.parts[0].col].name;
            let which = format!(" ({column}={})", names.text(&call.against));
            IndexRead::of("search", which, "full_text_search")
        }
        AccessKind::Elements(search) => {
            let over = match &search.elements {
                Elements::Keys(keys) if keys.len() == 1 => " over 1 element".to_owned(),
                Elements::Keys(keys) => format!(" over {} elements", keys.len()),
                Elements::Of(_, e, _) => format!(" over elements of {}", names.text(e)),
            };
            IndexRead::of("range scan", over, "index_range_scan")
        }
        AccessKind::Ranges(spec) => {
            let (over, ranges) = ranges_text(spec, def, &index.parts, names);
            details.push(ranges);
            match scan.first_of {
                Some(_) => IndexRead::of("skip scan for grouping", over, "index_skip_scan"),
                None => IndexRead::of("range scan", over, "index_range_scan"),
            }
        }
        AccessKind::Skip(skip) => {
            let (over, ranges) = ranges_text(&skip.ranges, def, &index.parts[1..], names);
            details.push(ranges);
            IndexRead::of("skip scan", over, "index_skip_scan")
        }
        AccessKind::Union(_) => unreachable!("it is no read of one index"),
    }
}
