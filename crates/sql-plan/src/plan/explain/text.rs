//! Expressions of a plan as EXPLAIN prints them.
//!
//! Neighbours: `tree` and `json`. The binder's own texts (`bind::print`) know a scope; a plan has only
//! slots, whose names are gathered from the operators that fill them.
//! **Invariant**: for people only; what has no name is shown as what it is.

use std::collections::HashMap;
use std::sync::Arc;

use esker_types::Value;
use esker_types::cast;
use esker_types::fulltext::MatchMode;

use crate::bind::ScopeTable;
use crate::expr::{Case, Cmp, Expr, ExprKind, Match, StoredCall, Subquery, SubqueryForm, Test};
use crate::plan::{BlockPlan, Node, Source};

/// Names of the slots of a block's row, and of the rows around it.
pub(in crate::plan) struct Names<'n> {
    slots: HashMap<u32, String>,
    /// Databases of the tables that fill them.
    schemas: HashMap<u32, Arc<str>>,
    up: Option<&'n Names<'n>>,
}

impl<'n> Names<'n> {
    /// The names in a block, inside of others.
    pub fn of(block: &BlockPlan, up: Option<&'n Names<'n>>) -> Self {
        let mut names = Self {
            slots: HashMap::new(),
            schemas: HashMap::new(),
            up,
        };
        names.add_node(&block.source);
        if let Some(group) = &block.group {
            for (nth, key) in group.keys.iter().enumerate() {
                let text = names.text(key);
                names.slots.insert(group.key_base + nth as u32, text);
            }
            for call in &group.aggs {
                let mut text = format!("{}(", call.def.name);
                if call.distinct {
                    text.push_str("distinct ");
                }
                match call.args.is_empty() {
                    true => text.push('0'),
                    false => text.push_str(&names.list(&call.args)),
                }
                text.push(')');
                names.slots.insert(call.slot, text);
            }
        }
        if let Some(windows) = &block.windows {
            for (slot, expr) in &windows.computed {
                let text = names.text(expr);
                names.slots.insert(*slot, text);
            }
            for nth in 0..windows.results as u32 {
                names.slots.insert(windows.base + nth, "<window>".into());
            }
        }
        names
    }

    /// The names of the columns of these tables.
    pub fn of_tables(tables: &[ScopeTable]) -> Self {
        let mut slots = HashMap::new();
        for table in tables {
            for (column, slot) in table.slots.borrow().iter().enumerate() {
                if let (Some(slot), Some(column)) = (slot, table.columns.get(column)) {
                    slots.insert(*slot, format!("{}.{}", table.alias, column.name));
                }
            }
        }
        Self {
            slots,
            schemas: HashMap::new(),
            up: None,
        }
    }

    fn add_node(&mut self, node: &Node) {
        match node {
            Node::Once | Node::Nothing(_) => {}
            Node::Filter(child, _) => self.add_node(child),
            Node::Join(join) => {
                self.add_node(&join.left);
                self.add_node(&join.right);
            }
            Node::Scan(scan) => {
                for (column, slot) in &scan.columns {
                    if let Source::Base { def, .. } = &scan.source {
                        self.schemas.insert(*slot, def.schema.clone());
                    }
                    let name = match &scan.source {
                        Source::Base { def, .. } => Some(&*def.columns[*column].name),
                        Source::Virtual { table, .. } => Some(&*table.columns()[*column].name),
                        Source::Derived(plan) | Source::Shared(_, plan) => {
                            Some(&*plan.columns[*column].name)
                        }
                        Source::Json(table) => Some(&*table.names[*column]),
                        Source::Work(_) => None,
                    };
                    let text = match name {
                        Some(name) => format!("{}.{name}", scan.alias),
                        None => format!("{}.#{}", scan.alias, column + 1),
                    };
                    self.slots.insert(*slot, text);
                }
            }
        }
    }

    /// What the column `ref` says of a value that a key part is compared with.
    pub fn reference(&self, e: &Expr) -> String {
        let qualified = |names: &Self, slot: u32| match names.schemas.get(&slot) {
            Some(schema) => format!("{schema}.{}", names.slot(slot)),
            None => names.slot(slot),
        };
        match &e.kind {
            ExprKind::Column(slot) => qualified(self, *slot),
            ExprKind::Outer { depth, slot } => {
                let names = self.outer(*depth);
                names.map_or("func".into(), |names| qualified(names, *slot))
            }
            _ if is_constant(e) => "const".into(),
            _ => "func".into(),
        }
    }

    /// The names so many levels up.
    fn outer(&self, depth: u16) -> Option<&Names<'n>> {
        (1..depth).fold(self.up, |at, _| at.and_then(|names| names.up))
    }

    /// What fills a slot.
    pub fn slot(&self, slot: u32) -> String {
        self.slots.get(&slot).map_or("?".into(), Clone::clone)
    }

    fn list(&self, args: &[Expr]) -> String {
        let texts: Vec<String> = args.iter().map(|a| self.text(a)).collect();
        texts.join(",")
    }

    /// Conditions that all hold.
    pub fn all(&self, conds: &[Expr]) -> String {
        match conds {
            [one] => self.text(one),
            _ => format!("({})", self.joined(conds, " and ")),
        }
    }

    fn joined(&self, args: &[Expr], word: &str) -> String {
        let texts: Vec<String> = args.iter().map(|a| self.text(a)).collect();
        texts.join(word)
    }

    fn cmp(&self, cmp: &Cmp) -> String {
        let (left, right) = (self.text(&cmp.left), self.text(&cmp.right));
        format!("({left} {} {right})", cmp.op.text())
    }

    /// An expression.
    pub fn text(&self, e: &Expr) -> String {
        match &e.kind {
            ExprKind::Const(v) => constant(v, e),
            ExprKind::Column(slot) => self.slot(*slot),
            ExprKind::Outer { depth, slot } => {
                let names = self.outer(*depth);
                names.map_or("?".into(), |names| names.slot(*slot))
            }
            ExprKind::Param(_) => "?".into(),
            ExprKind::UserVar(name) => format!("@{name}"),
            ExprKind::Assign(name, value) => format!("(@{name}:={})", self.text(value)),
            ExprKind::Cmp(cmp) => self.cmp(cmp),
            ExprKind::And(args) => format!("({})", self.joined(args, " and ")),
            ExprKind::Or(args) => format!("({})", self.joined(args, " or ")),
            ExprKind::Xor(args) => format!("({})", self.joined(&args[..], " xor ")),
            ExprKind::Not(arg) => format!("(not({}))", self.text(arg)),
            ExprKind::Is { .. }
            | ExprKind::Between(_)
            | ExprKind::InList(_)
            | ExprKind::Like(_) => self.predicate(e),
            ExprKind::Arith(a) => {
                let (left, right) = (self.text(&a.args[0]), self.text(&a.args[1]));
                format!("({left} {} {right})", a.op.symbol())
            }
            ExprKind::Unary(u) => u.text.to_string(),
            ExprKind::Func(call) => format!("{}({})", call.def.name, self.list(&call.args)),
            ExprKind::Stored(call) => self.stored(call),
            ExprKind::Case(case) => self.case(case),
            ExprKind::Coalesce(args) => format!("coalesce({})", self.list(args)),
            ExprKind::NullIf(cmp) => {
                format!("nullif({},{})", self.text(&cmp.left), self.text(&cmp.right))
            }
            ExprKind::Cast(arg, _) => {
                let ty = esker_sql_catalog::catalog::type_text(&e.ty);
                format!("cast({} as {ty})", self.text(arg))
            }
            ExprKind::Convert(arg) | ExprKind::Recollate(arg) | ExprKind::Number(arg, _) => {
                self.text(arg)
            }
            ExprKind::Kept(kept) => self.text(&kept.expr),
            ExprKind::SeededRand(_, seed) => format!("rand({})", self.text(seed)),
            ExprKind::Aggregate(_) => "<aggregate>".into(),
            ExprKind::Window(_) => "<window>".into(),
            ExprKind::Key(_) => "<key>".into(),
            ExprKind::Grouping(args) => format!("grouping({})", self.list(args)),
            ExprKind::Match(call) => self.matched(call),
            ExprKind::Row(args) => format!("({})", self.list(args)),
            ExprKind::Subquery(query) => self.subquery(query),
        }
    }

    /// IS, BETWEEN, IN and LIKE, which may stand behind NOT.
    fn predicate(&self, e: &Expr) -> String {
        let not = |negated: bool| if negated { "not " } else { "" };
        match &e.kind {
            ExprKind::Is { arg, test, negated } => {
                let what = match test {
                    Test::Null => "null",
                    Test::True => "true",
                    Test::False => "false",
                };
                format!("({} is {}{what})", self.text(arg), not(*negated))
            }
            ExprKind::Between(b) => format!(
                "({} {}between {} and {})",
                self.text(&b.arg),
                not(b.negated),
                self.text(&b.low.0),
                self.text(&b.high.0)
            ),
            ExprKind::InList(list) => {
                let (arg, all) = (self.text(&list.arg), self.list(&list.list));
                format!("({arg} {}in ({all}))", not(list.negated))
            }
            ExprKind::Like(like) => {
                let (text, pattern) = (self.text(&like.text), self.text(&like.pattern));
                format!("({text} {}like {pattern})", not(like.negated))
            }
            other => unreachable!("{other:?} is none of them"),
        }
    }

    fn stored(&self, call: &StoredCall) -> String {
        let def = &call.function.def;
        let schema = match call.qualified {
            true => format!("`{}`.", def.schema),
            false => String::new(),
        };
        format!("{schema}`{}`({})", def.name, self.list(&call.args))
    }

    fn case(&self, case: &Case) -> String {
        let mut text = "(case".to_owned();
        for (when, then) in &case.whens {
            text += &format!(" when {} then {}", self.text(when), self.text(then));
        }
        if let Some(otherwise) = &case.otherwise {
            text += &format!(" else {}", self.text(otherwise));
        }
        text + " end)"
    }

    fn matched(&self, call: &Match) -> String {
        let mode = match call.mode {
            MatchMode::Natural => "",
            MatchMode::Boolean => " in boolean mode",
            MatchMode::Expansion => " with query expansion",
        };
        let (columns, against) = (self.list(&call.columns), self.text(&call.against));
        format!("(match {columns} against ({against}{mode}))")
    }

    fn subquery(&self, query: &Subquery) -> String {
        let id = super::first_id(&query.plan);
        match &query.form {
            SubqueryForm::Scalar { .. } => format!("(select #{id})"),
            SubqueryForm::Exists => format!("exists(select #{id})"),
            SubqueryForm::Compare { left, op, all, .. } => {
                let word = if *all { "all" } else { "any" };
                format!("({} {} {word} (select #{id}))", self.list(left), op.text())
            }
        }
    }
}

/// Does the value come from no table?
fn is_constant(e: &Expr) -> bool {
    !e.any(&mut |e| matches!(e.kind, ExprKind::Column(_) | ExprKind::Outer { .. }))
}

fn constant(v: &Value, e: &Expr) -> String {
    let text = || String::from_utf8_lossy(&cast::to_str(v, &e.ty)).into_owned();
    match v {
        Value::Null => "NULL".into(),
        Value::Str(_) | Value::Date(_) | Value::Time(_) | Value::DateTime(_) | Value::Label(..) => {
            format!("'{}'", text().replace('\'', "''"))
        }
        _ => text(),
    }
}
