//! Compiles expressions of a statement into a vectorized program.
//!
//! Neighbours: `conditions` compiles booleans; `program` has the nodes; `expr::eval` defines what expressions mean.
//! **Invariants**: a node is made only where its numbers equal those of row-at-a-time execution, for all values that
//! are not unusual; constants are evaluated row at a time, once, and quietly.

use std::cmp::Ordering;

use esker_sql_catalog::catalog::TableDef;
use esker_sql_catalog::codec::Phys;
use esker_sql_plan::bind::AggCall;
use esker_sql_plan::expr::eval::convert;
use esker_sql_plan::expr::{Arith, Case, EvalEnv, Expr, ExprKind, FuncCall, Unary};
use esker_sql_plan::plan::strategy::{Evaluation, ProbePipeline, parallel_safe};
use esker_sql_plan::plan::{GroupPlan, Node as PlanNode, ScanPlan, Source};
use esker_types::arith::{BinOp, UnOp};
use esker_types::collation::Charset;
use esker_types::{SqlType, TypeKind, Value};

use super::super::task::Consumer;
use super::program::{
    Agg, BOOLEAN, ByRow, Column, Fold, Keys, Kind, Measure, Node, Operand, Program, Step, Sum, What,
};
use super::stored::Form;
use crate::ExecEnv;

/// Powers of ten in 64 bits.
pub(super) const MOST_DIGITS: u8 = 18;

pub(super) struct Compiler<'c> {
    scan: &'c ScanPlan,
    def: &'c TableDef,
    index: usize,
    form: Form,
    /// Where constants are evaluated: warnings stay there.
    pub(super) env: &'c ExecEnv<'c>,
    columns: Vec<Column>,
    nodes: Vec<Node>,
    by_row: Vec<ByRow>,
    steps: Vec<Step>,
    /// Nodes that steps compute already.
    stepped: usize,
}

impl Program {
    /// How the rows of the consumer's first table are judged, which are read by an index. `None`: row by row, because
    /// the plan says so or because values of constants do not go into a batch.
    pub(in crate::parallel) fn of(
        consumer: &Consumer,
        evaluation: Evaluation,
        index: usize,
        env: &ExecEnv<'_>,
    ) -> Option<Self> {
        let Evaluation::Vectorized { folds } = evaluation else {
            return None;
        };
        let node: &PlanNode = match consumer {
            Consumer::Block(block) => &block.source,
            Consumer::Right { node, .. } => node,
        };
        let probe = ProbePipeline::of(node)?;
        let Source::Base { def, access, .. } = &probe.source.source else {
            return None;
        };
        debug_assert!(index == 0 || access.covering, "the plan knows the columns");
        let quiet = env.ctx.quiet();
        let eval = EvalEnv {
            ctx: &quiet,
            ..env.eval
        };
        let env = ExecEnv { eval, ..*env };
        let mut compiler = Compiler {
            scan: probe.source,
            def,
            index,
            form: Form::of(def, index),
            env: &env,
            columns: Vec::new(),
            nodes: Vec::new(),
            by_row: Vec::new(),
            steps: Vec::new(),
            stepped: 0,
        };
        let met = compiler.conditions();
        let mut fold = None;
        if let (Consumer::Block(block), true) = (consumer, folds)
            && let Some(group) = &block.group
            && met == probe.source.conds.len()
        {
            fold = compiler.fold(group);
        }
        if fold.is_none() && met == 0 {
            return None;
        }
        Some(Self {
            index,
            form: compiler.form,
            columns: compiler.columns,
            nodes: compiler.nodes,
            by_row: compiler.by_row,
            steps: compiler.steps,
            met,
            fold,
        })
    }
}

impl Compiler<'_> {
    /// Steps for the table's conditions as far as they are understood; gives how many.
    fn conditions(&mut self) -> usize {
        let conds = &self.scan.conds;
        for (nth, cond) in conds.iter().enumerate() {
            let Some(boolean) = self.boolean(cond) else {
                return nth;
            };
            self.compute_nodes();
            self.steps.push(Step::Keep(boolean));
        }
        conds.len()
    }

    fn compute_nodes(&mut self) {
        let new = self.stepped..self.nodes.len();
        self.steps.extend(new.map(Step::Compute));
        self.stepped = self.nodes.len();
    }

    fn fold(&mut self, group: &GroupPlan) -> Option<Fold> {
        let marks = self.marks();
        let found = self.groups(group);
        match found {
            Some(_) => self.compute_nodes(),
            None => self.back_to(marks),
        }
        found
    }

    fn groups(&mut self, group: &GroupPlan) -> Option<Fold> {
        let keys = match &group.keys[..] {
            [] => None,
            _ => Some(self.keys(group)?),
        };
        let (mut sums, mut aggs) = (Vec::new(), Vec::new());
        for call in &group.aggs {
            let (sum, what) = self.aggregate(call)?;
            let known = sums.iter().position(|s| *s == sum);
            let sum = known.unwrap_or_else(|| {
                sums.push(sum);
                sums.len() - 1
            });
            aggs.push(Agg { sum, what });
        }
        Some(Fold { keys, sums, aggs })
    }

    fn keys(&mut self, group: &GroupPlan) -> Option<Keys> {
        if group.keys.iter().any(parallel_safe::has_queries) {
            return None;
        }
        if let Some(numbers) = self.number_keys(group) {
            return Some(Keys::Numbers(numbers));
        }
        let mut slots = Vec::new();
        for expr in &group.keys {
            expr.slots(&mut |slot| slots.push(slot));
        }
        slots.sort_unstable();
        slots.dedup();
        let columns = slots.into_iter().map(|slot| self.column(slot));
        Some(Keys::Columns(columns.collect::<Option<_>>()?))
    }

    /// Keys as numbers, if one of them is computed: different columns then may lead to one group.
    fn number_keys(&mut self, group: &GroupPlan) -> Option<Vec<Operand>> {
        if group.telling_keys().all(|key| key.as_column().is_some()) {
            return None;
        }
        let marks = self.marks();
        let keys = group.telling_keys().map(|key| self.native(key));
        let found: Option<Vec<_>> = keys.map(|key| key.map(|(operand, _)| operand)).collect();
        if found.is_none() {
            self.back_to(marks);
        }
        found
    }

    fn aggregate(&mut self, call: &AggCall) -> Option<(Sum, What)> {
        if call.args.is_empty() {
            return Some((Sum::Rows, What::Count));
        }
        let [arg] = &call.args[..] else {
            return None;
        };
        if call.distinct {
            return None;
        }
        match call.def.name {
            "count" => Some((self.count(arg)?, What::Count)),
            "sum" | "avg" if call.types.ret.kind == TypeKind::Decimal => {
                let (operand, kind) = self.number(arg)?;
                let scale = kind.scale()?;
                Some((Sum::Total(operand), What::Sum { scale }))
            }
            "min" | "max" => {
                let (operand, kind) = self.number(arg)?;
                let order = match call.def.name {
                    "min" => Ordering::Less,
                    _ => Ordering::Greater,
                };
                Some((Sum::Extreme(operand, order), What::Extreme(kind)))
            }
            _ => None,
        }
    }

    /// What COUNT(`arg`) counts.
    fn count(&mut self, arg: &Expr) -> Option<Sum> {
        let Some(slot) = arg.as_column() else {
            return self.number(arg).map(|(operand, _)| Sum::NotNull(operand));
        };
        let column = self.column(slot)?;
        if Kind::of_column(self.columns[column].places.phys()).is_some() {
            return self.number(arg).map(|(operand, _)| Sum::NotNull(operand));
        }
        // 1 where it is not NULL, and NULL where it is.
        let is_null = self.node(Node::ColumnIsNull(column));
        Some(Sum::NotNull(self.node(Node::Case {
            whens: vec![(is_null, Operand::Null)],
            otherwise: Operand::Const(1),
        })))
    }

    pub(super) fn marks(&self) -> (usize, usize) {
        (self.nodes.len(), self.by_row.len())
    }

    /// Forgets what was made since: nobody needs it.
    pub(super) fn back_to(&mut self, (nodes, by_row): (usize, usize)) {
        debug_assert!(self.stepped <= nodes, "steps keep their nodes");
        self.nodes.truncate(nodes);
        self.by_row.truncate(by_row);
    }

    /// The node, once.
    pub(super) fn node(&mut self, node: Node) -> Operand {
        let known = self.nodes.iter().position(|n| *n == node);
        Operand::Node(known.unwrap_or_else(|| {
            self.nodes.push(node);
            self.nodes.len() - 1
        }))
    }

    /// The stored column of a slot.
    pub(super) fn column(&mut self, slot: u32) -> Option<usize> {
        if let Some(known) = self.columns.iter().position(|c| c.slot == slot) {
            return Some(known);
        }
        let (col, _) = *self.scan.columns.iter().find(|(_, s)| *s == slot)?;
        let places = self.form.places(self.def, self.index, col)?;
        let missing = match places.missing(self.def, col) {
            Some(Value::Null) => Some(None),
            Some(value) => Kind::of_column(places.phys())
                .and_then(|kind| kind.number(value))
                .map(Some),
            None => None,
        };
        self.columns.push(Column {
            col,
            slot,
            places,
            missing,
        });
        Some(self.columns.len() - 1)
    }

    /// The value of an expression that needs no row; `None` also if it fails or warns.
    pub(super) fn constant(&self, expr: &Expr) -> Option<Value> {
        let needs_row = expr.any(&mut |e| {
            matches!(
                e.kind,
                ExprKind::Column(_) | ExprKind::Outer { .. } | ExprKind::Subquery(_)
            )
        });
        if needs_row {
            return None;
        }
        let before = self.env.ctx.diagnostics.count();
        let value = expr.eval(&[], self.env).ok()?;
        (self.env.ctx.diagnostics.count() == before).then_some(value)
    }

    /// An expression as numbers, and what they stand for.
    pub(super) fn number(&mut self, expr: &Expr) -> Option<(Operand, Kind)> {
        let marks = self.marks();
        if let Some(found) = self.native(expr) {
            return Some(found);
        }
        self.back_to(marks);
        let kind = Kind::of_type(&expr.ty)?;
        Some((self.by_row(expr, false, kind)?, kind))
    }

    fn native(&mut self, expr: &Expr) -> Option<(Operand, Kind)> {
        if let Some(value) = self.constant(expr) {
            let kind = Kind::of(&value)?;
            return Some((Operand::Const(kind.number(&value)?), kind));
        }
        match &expr.kind {
            ExprKind::Column(slot) => {
                let column = self.column(*slot)?;
                let kind = Kind::of_column(self.columns[column].places.phys())?;
                Some((self.node(Node::Column(column)), kind))
            }
            ExprKind::Arith(arith) => self.arith(arith, &expr.ty),
            ExprKind::Unary(unary) => self.negation(unary, &expr.ty),
            ExprKind::Case(case) => self.case(case, &expr.ty),
            ExprKind::Coalesce(args) => self.coalesce(args, &expr.ty),
            ExprKind::NullIf(cmp) => {
                let equal = self.compare(cmp.op, (&cmp.left, &cmp.right), cmp.kind)?;
                let kind = Kind::of_type(&expr.ty)?;
                let otherwise = self.converted(&cmp.left, &expr.ty, kind)?;
                let whens = vec![(equal, Operand::Null)];
                Some((self.node(Node::Case { whens, otherwise }), kind))
            }
            ExprKind::Convert(arg) => {
                let kind = Kind::of_type(&expr.ty)?;
                Some((self.converted(arg, &expr.ty, kind)?, kind))
            }
            ExprKind::Func(call) => self.length(call),
            ExprKind::Number(..) => None,
            _ => Some((self.condition(expr)?, BOOLEAN)),
        }
    }

    /// The length of a stored string.
    fn length(&mut self, call: &FuncCall) -> Option<(Operand, Kind)> {
        let [arg] = &call.args[..] else {
            return None;
        };
        let collation = arg.ty.collation;
        let measure = match call.def.name {
            "length" | "octet_length" => Measure::Bytes(collation.charset()),
            "char_length" | "character_length" if collation.is_binary() => {
                Measure::Bytes(Charset::Binary)
            }
            "char_length" | "character_length" => Measure::Characters,
            _ => return None,
        };
        let column = self.column(arg.as_column()?)?;
        let Column { places, col, .. } = &self.columns[column];
        if places.phys() != Phys::Var {
            return None;
        }
        let missing = match places.missing(self.def, *col) {
            Some(Value::Str(text)) => Some(measure.of(text)),
            _ => None,
        };
        Some((self.node(Node::Length(column, measure, missing)), BOOLEAN))
    }

    /// An expression of one column, evaluated a row at a time.
    pub(super) fn by_row(&mut self, expr: &Expr, is_truth: bool, kind: Kind) -> Option<Operand> {
        let mut slots = Vec::new();
        expr.slots(&mut |slot| slots.push(slot));
        slots.dedup();
        let &[slot] = &slots[..] else {
            return None;
        };
        let needs_more =
            expr.any(&mut |e| matches!(e.kind, ExprKind::Outer { .. } | ExprKind::Subquery(_)));
        if needs_more {
            return None;
        }
        let column = self.column(slot)?;
        self.by_row.push(ByRow {
            expr: expr.clone(),
            column,
            is_truth,
            kind,
        });
        Some(self.node(Node::ByRow(self.by_row.len() - 1)))
    }

    fn arith(&mut self, arith: &Arith, ty: &SqlType) -> Option<(Operand, Kind)> {
        let divides = match arith.op {
            BinOp::Add | BinOp::Sub | BinOp::Mul => false,
            BinOp::IntDiv | BinOp::Mod => true,
            _ => return None,
        };
        let [(a, a_kind), (b, b_kind)] =
            [self.number(&arith.args[0])?, self.number(&arith.args[1])?];
        let (a_scale, b_scale) = (a_kind.scale()?, b_kind.scale()?);
        let mut args = [a, b];
        let (kind, unsigned) = match ty.kind {
            TypeKind::BigInt if a_scale == 0 && b_scale == 0 => {
                let is_int = |kind| matches!(kind, Kind::Int { .. });
                if !is_int(a_kind) || !is_int(b_kind) {
                    return None;
                }
                let unsigned = ty.unsigned;
                (Kind::Int { unsigned }, unsigned)
            }
            TypeKind::Decimal if !divides => {
                let scale = match arith.op {
                    BinOp::Mul => a_scale + b_scale,
                    _ => a_scale.max(b_scale),
                };
                if arith.op != BinOp::Mul {
                    args = [
                        self.scaled(a, scale - a_scale)?,
                        self.scaled(b, scale - b_scale)?,
                    ];
                }
                if scale != ty.decimals {
                    return None;
                }
                (Kind::Decimal { scale }, false)
            }
            _ => return None,
        };
        let op = arith.op;
        Some((self.node(Node::Arith { op, args, unsigned }), kind))
    }

    /// The operand times `10^digits`.
    pub(super) fn scaled(&mut self, operand: Operand, digits: u8) -> Option<Operand> {
        if digits > MOST_DIGITS {
            return None;
        }
        let factor = 10i64.pow(u32::from(digits));
        match operand {
            _ if digits == 0 => Some(operand),
            Operand::Const(n) => n.checked_mul(factor).map(Operand::Const),
            Operand::Null => Some(Operand::Null),
            Operand::Node(_) => Some(self.node(Node::Arith {
                op: BinOp::Mul,
                args: [operand, Operand::Const(factor)],
                unsigned: false,
            })),
        }
    }

    fn negation(&mut self, unary: &Unary, ty: &SqlType) -> Option<(Operand, Kind)> {
        if unary.op != UnOp::Neg {
            return None;
        }
        let (arg, kind) = self.number(&unary.arg)?;
        let kind = match (kind, &ty.kind) {
            (Kind::Int { .. }, TypeKind::BigInt) if !ty.unsigned => BOOLEAN,
            (Kind::Decimal { scale }, TypeKind::Decimal) if scale == ty.decimals => kind,
            _ => return None,
        };
        Some((self.node(Node::Negate(arg)), kind))
    }

    fn case(&mut self, case: &Case, ty: &SqlType) -> Option<(Operand, Kind)> {
        let kind = Kind::of_type(ty)?;
        let mut whens = Vec::with_capacity(case.whens.len());
        for (when, then) in &case.whens {
            whens.push((self.boolean(when)?, self.converted(then, ty, kind)?));
        }
        let otherwise = match &case.otherwise {
            Some(otherwise) => self.converted(otherwise, ty, kind)?,
            None => Operand::Null,
        };
        Some((self.node(Node::Case { whens, otherwise }), kind))
    }

    fn coalesce(&mut self, args: &[Expr], ty: &SqlType) -> Option<(Operand, Kind)> {
        let kind = Kind::of_type(ty)?;
        let mut whens = Vec::with_capacity(args.len());
        for arg in args {
            let value = self.converted(arg, ty, kind)?;
            let is_null = self.node(Node::IsNull(value));
            whens.push((self.node(Node::Not(is_null)), value));
        }
        let otherwise = Operand::Null;
        Some((self.node(Node::Case { whens, otherwise }), kind))
    }

    /// An expression converted to a type, as `expr::eval::convert` does it.
    fn converted(&mut self, expr: &Expr, ty: &SqlType, wanted: Kind) -> Option<Operand> {
        if let Some(value) = self.constant(expr) {
            let before = self.env.ctx.diagnostics.count();
            let value = convert(self.env.ctx, value, &expr.ty, ty).ok()?;
            if self.env.ctx.diagnostics.count() != before {
                return None;
            }
            return match value {
                Value::Null => Some(Operand::Null),
                value => wanted.number(&value).map(Operand::Const),
            };
        }
        let (operand, kind) = self.number(expr)?;
        match (kind, wanted) {
            _ if kind == wanted => Some(operand),
            (Kind::Int { .. }, Kind::Decimal { scale }) => self.scaled(operand, scale),
            (Kind::Decimal { scale: from }, Kind::Decimal { scale: to }) if from < to => {
                self.scaled(operand, to - from)
            }
            _ => None,
        }
    }
}
