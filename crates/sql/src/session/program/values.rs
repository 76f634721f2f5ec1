//! Values of a program's variables: read for statements and expressions, and set.
//!
//! Neighbours: `machine` and `statement`.
//! **Invariant**: a variable with a type holds a value of it, converted as for a column of that type.

use std::sync::Arc;

use esker_sql_catalog::exec_error::ExecError;
use esker_sql_plan::bind::{Params, Scope, bind_expr};
use esker_sql_plan::expr::{Expr as BoundExpr, ExprKind};
use esker_sql_syntax::ast::Expr;
use esker_types::cast::{to_bool, to_column};
use esker_types::{EvalCtx, SqlResult, SqlType, TypeKind, Value};

use super::super::Session;
use super::super::change::Watched;
use super::super::names::Purpose;
use super::super::plans::KeptExpr;
use super::super::set::is_plain;
use super::machine::Frame;
use crate::program::{Destination, Formula, Source};

impl Frame {
    fn source(&self, source: Source) -> (Value, SqlType) {
        match source {
            Source::Local(slot) => {
                let ty = self.program.slots[slot].ty.clone();
                let value = self.values[slot].clone();
                (value, ty.unwrap_or_else(|| self.kept_types[&slot].clone()))
            }
            Source::New(column) => self
                .row
                .as_ref()
                .map_or_else(none, |row| row.new_value(column)),
            Source::Old(column) => self
                .row
                .as_ref()
                .map_or_else(none, |row| row.old_value(column)),
        }
    }

    /// Does what is set have a type of its own?
    pub(super) fn has_type(&self, to: &Destination) -> bool {
        match to {
            Destination::Local(slot) => self.program.slots[*slot].ty.is_some(),
            Destination::User(_) | Destination::New(_) => true,
        }
    }

    /// As in MySQL, a variable that could not be set is NULL.
    pub(super) fn forget(&mut self, to: &Destination, e: &ExecError) {
        if let (Destination::Local(slot), ExecError::Sql(_)) = (to, e)
            && self.has_type(to)
        {
            self.values[*slot] = Value::Null;
        }
    }

    /// Values of parameters whose types are known.
    fn values(&self, sources: &[Source]) -> Vec<Value> {
        sources
            .iter()
            .map(|source| self.source(*source).0)
            .collect()
    }

    /// Parameters of a statement, and their types.
    pub(super) fn params(&self, sources: &[Source]) -> (Vec<Value>, Vec<SqlType>) {
        sources.iter().map(|source| self.source(*source)).unzip()
    }
}

fn none() -> (Value, SqlType) {
    (Value::Null, SqlType::new(TypeKind::Null))
}

/// Runs `f` with bad values being errors in strict mode, as where rows are changed.
fn strictly<R>(ctx: &EvalCtx<'_>, f: impl FnOnce(&EvalCtx<'_>) -> R) -> R {
    let before = ctx
        .diagnostics
        .strict_write
        .replace(ctx.sql_mode.is_strict());
    let result = f(ctx);
    ctx.diagnostics.strict_write.set(before);
    result
}

impl Session {
    /// The value of an expression that a variable is set to: bad values are errors in strict mode.
    pub(super) fn value_for(
        &mut self,
        frame: &Frame,
        formula: &Formula,
    ) -> Result<(Value, SqlType), ExecError> {
        self.program.strict = self.vars.sql_mode.is_strict();
        let value = self.formula(frame, formula);
        self.program.strict = false;
        value
    }

    /// Are bad values errors in what a function or trigger evaluates because they are in the statement around it? Not
    /// in a program whose own sql_mode is not strict.
    pub(in super::super) fn is_strict_around(&self) -> bool {
        self.program.strict_around && self.vars.sql_mode.is_strict()
    }

    /// The value of an expression of a program.
    pub(super) fn formula(
        &mut self,
        frame: &Frame,
        formula: &Formula,
    ) -> Result<(Value, SqlType), ExecError> {
        if let (Expr::Param(0), [source]) = (&formula.expr, formula.sources.as_slice()) {
            return Ok(frame.source(*source));
        }
        let strict = self.program.strict;
        self.program.strict |= self.is_strict_around();
        let value = self.formula_strictly(frame, formula);
        self.program.strict = strict;
        value
    }

    fn formula_strictly(
        &mut self,
        frame: &Frame,
        formula: &Formula,
    ) -> Result<(Value, SqlType), ExecError> {
        if let Some(id) = formula.number.map(|n| frame.first_plan.wrapping_add(n))
            && let Some(bound) = self.kept_expr(id, frame, formula)
        {
            return self.evaluate_bound(&bound, &frame.values(&formula.sources));
        }
        let (params, types) = frame.params(&formula.sources);
        self.program.types = Some(Arc::from(types));
        let value = match is_plain(&formula.expr) {
            true => self.evaluate(&formula.expr, &params),
            false => self.evaluate_alone(&formula.expr, &params),
        };
        self.program.types = None;
        value
    }

    /// The expression, bound for all values of its variables; `None`: it has to be bound for these.
    fn kept_expr(&mut self, id: u32, frame: &Frame, formula: &Formula) -> KeptExpr {
        let binding = self.context.binding;
        if let Some(known) = self.plans.expr(id, binding) {
            return known;
        }
        let (_, types) = frame.params(&formula.sources);
        // A NOT NULL column of NEW may be NULL as long as triggers run.
        let types: Arc<[SqlType]> = types.into_iter().map(|ty| ty.with_nullable(true)).collect();
        self.program.types = Some(types.clone());
        let (bound, raised) = self.bind_apart(Purpose::Run, |scope| {
            let vars = Watched::new(scope.vars);
            let env = scope.env_with(&vars, Params::Types(&types));
            let bound = bind_expr(&env, &Scope::new(), &formula.expr)?;
            let is_lasting =
                vars.is_lasting(&scope.names, 0) && !env.blocks.get() && !env.calls.get();
            let reads = |e: &BoundExpr| matches!(e.kind, ExprKind::Subquery(_));
            Ok((is_lasting && !bound.any(&mut |e| reads(e))).then(|| Arc::new(bound)))
        });
        self.program.types = None;
        // What is wrong with it is told where it is bound for its values; so is what binding warns of.
        let kept = bound.ok()?.filter(|_| raised.count == 0);
        self.plans.keep_expr(id, kept.clone(), binding);
        kept
    }

    /// The value of an expression that may read tables, as a statement of its own.
    fn evaluate_alone(
        &mut self,
        expr: &Expr,
        params: &[Value],
    ) -> Result<(Value, SqlType), ExecError> {
        self.use_transaction();
        let value = self.evaluate(expr, params)?;
        self.end_statement(true)?;
        Ok(value)
    }

    /// Whether a condition is true.
    pub(super) fn holds(&mut self, frame: &Frame, condition: &Formula) -> Result<bool, ExecError> {
        let (value, _) = self.formula(frame, condition)?;
        if value.is_null() {
            return Ok(false);
        }
        let ctx = self.context.eval_ctx(&self.vars);
        let truth = to_bool(&ctx, value.as_ref());
        let raised = ctx.diagnostics.take();
        drop(ctx);
        self.diagnostics.add(&self.vars, raised);
        Ok(truth?)
    }

    /// A value as a variable of a type keeps it.
    pub(super) fn converted(
        &mut self,
        value: Value,
        from: &SqlType,
        (to, name): (&SqlType, &str),
    ) -> SqlResult<Value> {
        let ctx = self.context.eval_ctx(&self.vars);
        let converted = strictly(&ctx, |ctx| to_column(ctx, value, from, to, name, 1));
        let raised = ctx.diagnostics.take();
        drop(ctx);
        self.diagnostics.add(&self.vars, raised);
        converted
    }

    /// Sets a variable.
    pub(super) fn assign(
        &mut self,
        frame: &mut Frame,
        to: &Destination,
        (value, from): (Value, SqlType),
    ) -> SqlResult<()> {
        match to {
            Destination::User(name) => self.context.set_user_var(name, value, from),
            Destination::Local(slot) => {
                let program = frame.program.clone();
                let variable = &program.slots[*slot];
                let Some(ty) = &variable.ty else {
                    frame.kept_types.insert(*slot, from);
                    frame.values[*slot] = value;
                    return Ok(());
                };
                let converted = self.converted(value, &from, (ty, &variable.name));
                let (value, result) = match converted {
                    Ok(value) => (value, Ok(())),
                    Err(e) => (Value::Null, Err(e)),
                };
                frame.values[*slot] = value;
                result
            }
            Destination::New(column) => {
                let Some(mut row) = frame.row.take() else {
                    return Ok(());
                };
                let (ty, name) = row.column(*column);
                let converted = self.converted(value, &from, (&ty, &name));
                let set = converted.map(|value| row.set_new(*column, value));
                frame.row = Some(row);
                set
            }
        }
    }
}
