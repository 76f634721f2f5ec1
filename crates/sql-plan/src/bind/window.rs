//! Window functions: calls with OVER, the WINDOW clause, frames.
//!
//! Neighbours: `call` hands over calls with OVER, `select` the WINDOW clause and, behind the grouping,
//! the slots of the results; `plan::window` and `exec::window` compute them.
//! **Invariants**: a window is bound once per block however often it is written; a frame that was not
//! written is the default one, so that nothing further on asks whether there was one; what is bound
//! here is over the same rows as the select list.

use std::cell::{Cell, RefCell};
use std::sync::Arc;

use esker_sql_catalog::catalog::same_name;
use esker_sql_syntax::ast;
use esker_types::collation::Coercibility;
use esker_types::func::RetCtx;
use esker_types::func::aggregate::{self, AggDef, AggTypes};
use esker_types::{SqlError, SqlResult, SqlType, TypeKind};

use super::BindEnv;
use super::aliases::AliasUse;
use super::block::{Bound, Frame, OrderKey, Window, WindowCall, WindowFunc, Windows};
use super::call::{arg_types, merged};
use super::clause::Clause;
use super::errors::{self, window as wrong};
use super::expr::{bind_expr, text_length};
use super::frame::{bind_frame, check_frame};
use super::scope::{AggRule, Scope};
use super::text_numbers::as_text;
use crate::expr::{Expr, ExprKind, walk};

/// What errors call a window without a name.
const UNNAMED: &str = "<unnamed window>";

/// What a window function means where an expression stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum WindowRule {
    /// Error 3593.
    #[default]
    Forbidden,
    /// Collected in the block.
    Allowed,
    /// In PARTITION BY or ORDER BY of a window: error 3595.
    Specification,
}

/// Windows of one query block while it is being bound.
#[derive(Default)]
pub(crate) struct WindowScope {
    pub rule: Cell<WindowRule>,
    pub found: RefCell<Windows>,
    /// The WINDOW clause with what each window inherits.
    named: RefCell<Vec<(Arc<str>, ast::WindowSpec)>>,
    /// The window being bound, for error 3595.
    current: RefCell<Box<str>>,
}

/// Takes the WINDOW clause: names are unique, references lead somewhere and to no circle.
pub(super) fn declare(
    scope: &Scope<'_>,
    windows: &[(ast::Ident, ast::WindowSpec)],
) -> SqlResult<()> {
    for (nth, (name, _)) in windows.iter().enumerate() {
        if windows[..nth]
            .iter()
            .any(|(n, _)| same_name(&n.text, &name.text))
        {
            return Err(wrong::defined_twice(&name.text));
        }
    }
    let find = |name: &str| windows.iter().find(|(n, _)| same_name(&n.text, name));
    let mut resolved = Vec::with_capacity(windows.len());
    for (name, spec) in windows {
        // From the outermost ancestor inwards.
        let mut chain = vec![(&*name.text, spec)];
        while let Some(base) = chain.last().and_then(|(_, s)| s.base.as_ref()) {
            let (base_name, base_spec) =
                find(&base.text).ok_or_else(|| wrong::no_such_window(&base.text))?;
            if chain.len() > windows.len() {
                return Err(wrong::circularity());
            }
            chain.push((&base_name.text, base_spec));
        }
        let mut chain = chain.into_iter().rev();
        let (mut base_name, mut whole) = match chain.next() {
            Some((name, spec)) => (name, spec.clone()),
            None => continue,
        };
        for (name, spec) in chain {
            whole = inherit(name, spec, base_name, &whole)?;
            base_name = name;
        }
        resolved.push((name.text.as_ref().into(), whole));
    }
    *scope.windows.named.borrow_mut() = resolved;
    Ok(())
}

/// A window with what it takes from another.
fn inherit(
    name: &str,
    spec: &ast::WindowSpec,
    base_name: &str,
    base: &ast::WindowSpec,
) -> SqlResult<ast::WindowSpec> {
    if !spec.partition_by.is_empty() {
        return Err(wrong::child_partitions());
    }
    if base.frame.is_some() {
        return Err(wrong::inherits_frame(base_name));
    }
    if !spec.order_by.is_empty() && !base.order_by.is_empty() {
        return Err(wrong::redefines_order(name, base_name));
    }
    let order = match spec.order_by.is_empty() {
        true => &base.order_by,
        false => &spec.order_by,
    };
    Ok(ast::WindowSpec {
        base: None,
        partition_by: base.partition_by.clone(),
        order_by: order.clone(),
        frame: spec.frame.clone(),
    })
}

/// Binds windows that no function used, for their errors.
pub(super) fn check_declared(env: &BindEnv<'_>, scope: &Scope<'_>) -> SqlResult<()> {
    let named = scope.windows.named.borrow().clone();
    for (name, spec) in &named {
        bind_spec(env, scope, name, spec)?;
    }
    Ok(())
}

/// Binds a call with OVER.
pub(super) fn bind_window_call(
    env: &BindEnv<'_>,
    scope: &Scope<'_>,
    call: &ast::Call,
    over: &ast::Over,
) -> SqlResult<Expr> {
    let name = call.name.text.to_ascii_lowercase();
    match scope.windows.rule.get() {
        WindowRule::Allowed if scope.agg_rule.get() != AggRule::Nested => {}
        WindowRule::Specification => {
            return Err(wrong::nested(&scope.windows.current.borrow()));
        }
        _ => return Err(wrong::misplaced(&name)),
    }
    let aggregate = aggregate::lookup(&name);
    if call.distinct && !matches!(&*name, "min" | "max") {
        return Err(SqlError::not_supported("<window function>(DISTINCT ..)"));
    }
    if name == "group_concat" {
        return Err(SqlError::not_supported("group_concat as window function"));
    }
    let rule = scope.windows.rule.replace(WindowRule::Forbidden);
    let bound = bind_parts(env, scope, &name, aggregate, call, over);
    scope.windows.rule.set(rule);
    let (bound, coer) = bound?;
    let ty = bound.ty.clone();
    let mut found = scope.windows.found.borrow_mut();
    found.calls.push(bound);
    let nth = found.calls.len() as u32 - 1;
    let kind = ExprKind::Window(nth);
    Ok(Expr { kind, ty, coer })
}

fn bind_parts(
    env: &BindEnv<'_>,
    scope: &Scope<'_>,
    name: &str,
    aggregate: Option<&'static AggDef>,
    call: &ast::Call,
    over: &ast::Over,
) -> SqlResult<(WindowCall, Coercibility)> {
    let window = match over {
        ast::Over::Named(name) => {
            let spec = named_spec(scope, &name.text)?;
            bind_spec(env, scope, &name.text, &spec)?
        }
        ast::Over::Spec(spec) => {
            let whole = match &spec.base {
                Some(base) => {
                    let base_spec = named_spec(scope, &base.text)?;
                    inherit(UNNAMED, spec, &base.text, &base_spec)?
                }
                None => spec.clone(),
            };
            bind_spec(env, scope, UNNAMED, &whole)?
        }
    };
    let args: Vec<Expr> = call
        .args
        .iter()
        .map(|a| bind_expr(env, scope, a))
        .collect::<SqlResult<_>>()?;
    if let Some(def) = aggregate {
        let args: Vec<Expr> = args.into_iter().map(as_text).collect();
        let signature = def.bind(&arg_types(&args), &RetCtx::of(env.ctx))?;
        let types = AggTypes::new(args.iter().map(|a| a.ty.clone()).collect(), &signature);
        let (mut ty, coer) = (signature.ret, signature.coercibility);
        if matches!(def.name, "min" | "max") {
            ty = value_type(&Expr::column(0, ty), true);
        }
        let func = WindowFunc::Aggregate { def, types };
        let number = None;
        let call = WindowCall {
            func,
            args,
            number,
            window,
            ty,
        };
        return Ok((call, coer));
    }
    own_function(env, name, args, window)
}

fn named_spec(scope: &Scope<'_>, name: &str) -> SqlResult<ast::WindowSpec> {
    let named = scope.windows.named.borrow();
    let found = named.iter().find(|(n, _)| same_name(n, name));
    found
        .map(|(_, spec)| spec.clone())
        .ok_or_else(|| wrong::no_such_window(name))
}

/// Binds a call of a function that is nothing but a window function.
fn own_function(
    env: &BindEnv<'_>,
    name: &str,
    mut args: Vec<Expr>,
    window: usize,
) -> SqlResult<(WindowCall, Coercibility)> {
    let count = || {
        let ty = SqlType {
            length: 21,
            ..SqlType::bigint(true)
        };
        ty.with_nullable(false)
    };
    let fraction = || SqlType::new(TypeKind::Double).with_nullable(false);
    let (func, ty) = match name {
        "row_number" => (WindowFunc::RowNumber, count()),
        "rank" => (WindowFunc::Rank, count()),
        "dense_rank" => (WindowFunc::DenseRank, count()),
        "percent_rank" => (WindowFunc::PercentRank, fraction()),
        "cume_dist" => (WindowFunc::CumeDist, fraction()),
        "ntile" => (WindowFunc::Ntile, count()),
        "first_value" => (WindowFunc::FirstValue, value_type(&args[0], true)),
        "last_value" => (WindowFunc::LastValue, value_type(&args[0], true)),
        "nth_value" => (WindowFunc::NthValue, value_type(&args[0], true)),
        "lag" => (WindowFunc::Lag, SqlType::bigint(false)),
        "lead" => (WindowFunc::Lead, SqlType::bigint(false)),
        name => return Err(SqlError::not_supported(name)),
    };
    let number = match func {
        WindowFunc::Ntile => args.pop(),
        WindowFunc::NthValue => args.pop(),
        WindowFunc::Lag | WindowFunc::Lead if args.len() > 1 => Some(args.remove(1)),
        _ => None,
    };
    if let Some(n) = &number {
        env.meets(n, &SqlType::bigint(true));
        let is_wrong = match &n.kind {
            ExprKind::Const(v) => func.rows_of(v).is_none() && !env.describe_only,
            ExprKind::Param(_) | ExprKind::UserVar(_) => false,
            _ => true,
        };
        if is_wrong {
            return Err(errors::wrong_arguments(name));
        }
    }
    let mut coer = args.first().map_or(Coercibility::Numeric, |a| a.coer);
    let ty = match (&func, &args[..]) {
        (WindowFunc::Lag | WindowFunc::Lead, [value]) => value_type(value, true),
        (WindowFunc::Lag | WindowFunc::Lead, [value, default]) => {
            let signature = merged(env, &[value, default], name)?;
            coer = signature.coercibility;
            let nullable = value.ty.nullable || default.ty.nullable;
            let merged = Expr::column(0, signature.ret);
            value_type(&merged, nullable)
        }
        _ => ty,
    };
    let call = WindowCall {
        func,
        args,
        number,
        window,
        ty,
    };
    Ok((call, coer))
}

impl WindowFunc {
    /// As EXPLAIN prints it.
    pub fn name(&self) -> String {
        let name = match self {
            Self::RowNumber => "row_number",
            Self::Rank => "rank",
            Self::DenseRank => "dense_rank",
            Self::PercentRank => "percent_rank",
            Self::CumeDist => "cume_dist",
            Self::Ntile => "ntile",
            Self::Lag => "lag",
            Self::Lead => "lead",
            Self::FirstValue => "first_value",
            Self::LastValue => "last_value",
            Self::NthValue => "nth_value",
            Self::Aggregate { def, .. } => def.name,
        };
        name.to_lowercase()
    }

    /// The number of rows that a value is to a function that wants one.
    pub fn rows_of(&self, v: &esker_types::Value) -> Option<u64> {
        let least = u64::from(!matches!(self, Self::Lag | Self::Lead));
        whole_number(v).filter(|n| (least..=i64::MAX as u64).contains(n))
    }
}

/// A number that counts rows.
pub fn whole_number(v: &esker_types::Value) -> Option<u64> {
    match v {
        esker_types::Value::Int(v) => u64::try_from(*v).ok(),
        esker_types::Value::UInt(v) => Some(*v),
        _ => None,
    }
}

/// The type of a value of another row: integers are BIGINT, labels texts.
fn value_type(value: &Expr, nullable: bool) -> SqlType {
    if matches!(value.ty.kind, TypeKind::Enum(_) | TypeKind::Set(_)) {
        return SqlType::varchar(text_length(&value.ty), value.ty.collation)
            .with_nullable(nullable);
    }
    let kind = match &value.ty.kind {
        TypeKind::TinyInt | TypeKind::SmallInt | TypeKind::MediumInt | TypeKind::Int => {
            TypeKind::BigInt
        }
        kind => kind.clone(),
    };
    SqlType {
        kind,
        ..value.ty.clone()
    }
    .with_nullable(nullable)
}

/// Binds a window; its position in the block's.
fn bind_spec(
    env: &BindEnv<'_>,
    scope: &Scope<'_>,
    name: &str,
    spec: &ast::WindowSpec,
) -> SqlResult<usize> {
    let rule = scope.windows.rule.replace(WindowRule::Specification);
    let outer_name = scope.windows.current.replace(name.into());
    let clause = scope.clause.get();
    let aliases = scope.aliases.rule.replace(AliasUse::No);
    let bound = bind_window(env, scope, name, spec);
    scope.aliases.rule.set(aliases);
    scope.clause.set(clause);
    scope.windows.current.replace(outer_name);
    scope.windows.rule.set(rule);
    let bound = bound?;
    let mut found = scope.windows.found.borrow_mut();
    let at = found.specs.iter().position(|w| same_window(w, &bound));
    Ok(at.unwrap_or_else(|| {
        found.specs.push(bound);
        found.specs.len() - 1
    }))
}

fn bind_window(
    env: &BindEnv<'_>,
    scope: &Scope<'_>,
    name: &str,
    spec: &ast::WindowSpec,
) -> SqlResult<Window> {
    if let Some(frame) = &spec.frame {
        check_frame(name, frame)?;
    }
    let key = |expr: &ast::Expr| match expr {
        ast::Expr::Literal(ast::Literal::Int(_)) => Err(wrong::by_position(name)),
        expr => bind_expr(env, scope, expr),
    };
    scope.clause.set(Clause::WindowPartition);
    let partition = spec
        .partition_by
        .iter()
        .map(key)
        .collect::<SqlResult<Vec<_>>>()?;
    scope.clause.set(Clause::WindowOrder);
    let order = spec
        .order_by
        .iter()
        .map(|item| {
            Ok(OrderKey {
                expr: key(&item.expr)?,
                desc: item.desc,
            })
        })
        .collect::<SqlResult<Vec<_>>>()?;
    let frame = match &spec.frame {
        Some(frame) => bind_frame(env, scope, name, frame, &order)?,
        None => Frame {
            range: true,
            start: Bound::Unbounded,
            end: match order.is_empty() {
                true => Bound::Unbounded,
                false => Bound::Current,
            },
        },
    };
    Ok(Window {
        name: name.into(),
        partition,
        order,
        frame,
    })
}

fn same_window(a: &Window, b: &Window) -> bool {
    let same_all = |a: &[Expr], b: &[Expr]| {
        a.len() == b.len() && a.iter().zip(b).all(|(a, b)| walk::same(a, b))
    };
    let same_bound = |a: &Bound, b: &Bound| match (a, b) {
        (Bound::Unbounded, Bound::Unbounded) | (Bound::Current, Bound::Current) => true,
        (Bound::Preceding(a), Bound::Preceding(b)) | (Bound::Following(a), Bound::Following(b)) => {
            let shifted = match (&a.shifted, &b.shifted) {
                (None, None) => true,
                (Some((a, _)), Some((b, _))) => walk::same(a, b),
                _ => false,
            };
            shifted && walk::same(&a.amount, &b.amount)
        }
        _ => false,
    };
    same_all(&a.partition, &b.partition)
        && a.order.len() == b.order.len()
        && a.order
            .iter()
            .zip(&b.order)
            .all(|(a, b)| a.desc == b.desc && walk::same(&a.expr, &b.expr))
        && a.frame.range == b.frame.range
        && same_bound(&a.frame.start, &b.frame.start)
        && same_bound(&a.frame.end, &b.frame.end)
}

impl Windows {
    /// Everything that is evaluated for a row of the block.
    pub(crate) fn exprs(&self) -> impl Iterator<Item = &Expr> {
        let keys = self
            .specs
            .iter()
            .flat_map(|w| w.partition.iter().chain(w.order.iter().map(|k| &k.expr)));
        keys.chain(self.calls.iter().flat_map(|c| &c.args))
    }

    /// See [`exprs`](Self::exprs).
    pub(super) fn exprs_mut(&mut self) -> impl Iterator<Item = &mut Expr> {
        let keys = self.specs.iter_mut().flat_map(|w| {
            let order = w.order.iter_mut().map(|k| &mut k.expr);
            w.partition.iter_mut().chain(order)
        });
        keys.chain(self.calls.iter_mut().flat_map(|c| &mut c.args))
    }

    /// Gives the results slots from `base` on and puts columns in the places of the calls.
    pub(super) fn place<'e>(
        &mut self,
        base: u32,
        exprs: impl Iterator<Item = &'e mut Expr>,
    ) -> u32 {
        fn replace(e: &mut Expr, base: u32) {
            if let ExprKind::Window(nth) = e.kind {
                e.kind = ExprKind::Column(base + nth);
                return;
            }
            for child in e.children_mut() {
                replace(child, base);
            }
        }
        self.base = base;
        for e in exprs {
            replace(e, base);
        }
        base + self.calls.len() as u32
    }
}
