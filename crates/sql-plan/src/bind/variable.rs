//! User variables, what is assigned to them, and system variables.
//!
//! Neighbours: `expr` binds them where they stand; the session's values come by [`BindEnv`].
//! **Invariant**: a user variable has the type that it has when the statement is bound, and the widest of its kind.

use esker_sql_catalog::variables::deprecated;
use esker_sql_syntax::ast;
use esker_types::collation::{Coercibility, Collation};
use esker_types::decimal::{MAX_PRECISION, MAX_SCALE};
use esker_types::sqltype::NOT_FIXED_DECIMALS;
use esker_types::{Level, SqlResult, SqlType, TypeKind};

use super::BindEnv;
use super::block::Volatility;
use super::expr::bind_expr;
use super::scope::Scope;
use crate::expr::{Expr, ExprKind};

/// Most bytes of a text in a user variable, as its type says.
const LONGEST_VARIABLE: u32 = 1 << 28;

pub(super) fn user_var(env: &BindEnv<'_>, scope: &Scope<'_>, name: &str) -> Expr {
    scope.note_volatility(Volatility::Variables);
    let mut ty = match env.vars.get(name) {
        Some((_, ty)) => ty,
        None => SqlType {
            collation: Collation::BINARY,
            ..SqlType::new(TypeKind::LongText)
        },
    };
    if ty.is_string()
        && let Some(collation) = env.assigned_collation(name)
    {
        ty.collation = collation;
    }
    // A variable has the widest type of its kind.
    if ty.is_integer() {
        ty = SqlType::bigint(ty.unsigned);
    } else if ty.kind == TypeKind::Decimal {
        ty = SqlType::decimal(MAX_PRECISION, MAX_SCALE).passing_on();
    } else if is_floating(&ty) {
        ty = SqlType::double(NOT_FIXED_DECIMALS);
    } else if ty.is_string() {
        ty = SqlType {
            length: LONGEST_VARIABLE / ty.collation.charset().max_len(),
            collation: ty.collation,
            ..SqlType::new(TypeKind::LongText)
        };
    }
    ty.nullable = true;
    let coer = if ty.is_string() {
        Coercibility::Implicit
    } else {
        Coercibility::Numeric
    };
    Expr {
        kind: ExprKind::UserVar(name.into()),
        ty,
        coer,
    }
}

pub(super) fn assign(
    env: &BindEnv<'_>,
    scope: &Scope<'_>,
    var: &str,
    value: &ast::Expr,
) -> SqlResult<Expr> {
    scope.note_volatility(Volatility::Volatile);
    let value = bind_expr(env, scope, value)?;
    let collation = match value.ty.is_string() {
        true => value.ty.collation,
        false => env.ctx.collation_connection,
    };
    env.note_assigned(var, collation);
    // It is the variable's value: without the digits and zeros that a column shows.
    let ty = match is_floating(&value.ty) {
        true => SqlType::double(NOT_FIXED_DECIMALS).with_nullable(value.ty.nullable),
        false => SqlType {
            zerofill: false,
            ..value.ty.clone()
        }
        .passing_on(),
    };
    Ok(Expr {
        kind: ExprKind::Assign(var.into(), Box::new(value)),
        ty,
        coer: Coercibility::Implicit,
    })
}

fn is_floating(ty: &SqlType) -> bool {
    matches!(ty.kind, TypeKind::Float | TypeKind::Double)
}

pub(super) fn system_var(env: &BindEnv<'_>, var: &ast::SysVar) -> SqlResult<Expr> {
    if let Some((code, text)) = deprecated::of_variable(&var.name.to_ascii_lowercase()) {
        env.ctx.warn(Level::Warning, code, text);
    }
    let (value, ty) = env.names.system_variable(var)?;
    let coer = if ty.is_string() {
        Coercibility::SysConst
    } else {
        Coercibility::Numeric
    };
    Ok(Expr {
        kind: ExprKind::Const(value),
        ty,
        coer,
    })
}
