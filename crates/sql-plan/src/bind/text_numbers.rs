//! Texts where a number is wanted: `text + 1`, `IF(c, date, text) + 0`, `DATE_ADD('2020-01-01', …) = 20200102`.
//!
//! MySQL asks an operand itself for a number, and each kind of operand answers in its own way. IF and CASE hand the
//! question on to what they have chosen: a date is 20200101, a label of an ENUM or SET its number, a JSON value the
//! number in it. DATE_ADD and its kin of texts give the number of the temporal value, and LEAST and GREATEST that of
//! the temporal value that they found. TEXT and BLOB columns, COALESCE (also of JSON values, whose text it is then),
//! subqueries, MIN and MAX give the number at the beginning of the text and say nothing of what follows it; columns of
//! other types, constants and other functions warn of that (1292).
//!
//! Neighbours: `expr`, `compare`, `call` and `aggregates` bind what computes with numbers; `esker_types::cast` reads
//! them.
//! **Invariants**: an operand is looked at before it is folded; what is no text, and what warns as any text does, stays
//! as it is.

use esker_sql_syntax::ast::{self, UnaryOp};
use esker_types::cast::TextNumber;
use esker_types::collation::Coercibility;
use esker_types::decimal::{MAX_PRECISION, MAX_SCALE};
use esker_types::sqltype::NOT_FIXED_DECIMALS;
use esker_types::temporal::MAX_FSP;
use esker_types::{SqlResult, SqlType, TypeKind};

use super::expr::{bind_any, folded, number_literal, text_length};
use super::scope::{Grouping, Scope};
use super::{BindEnv, call, errors, json};
use crate::expr::{Case, Expr, ExprKind, FuncCall};

/// The kind of number that is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wanted {
    /// In calculations, conditions, and comparisons with numbers.
    Double,
    /// What counts.
    Integer,
    /// 64 bits.
    Bits,
    /// In DIV, and where digits count.
    Decimal,
}

impl Wanted {
    fn ty(self) -> SqlType {
        match self {
            Self::Double => SqlType::double(NOT_FIXED_DECIMALS),
            Self::Integer => SqlType::bigint(false),
            Self::Bits => SqlType::bigint(true),
            Self::Decimal => SqlType::decimal(MAX_PRECISION, MAX_SCALE),
        }
    }
}

/// Binds what a number or a boolean is wanted of: hexadecimal literals are numbers there.
pub(super) fn bind_number(
    env: &BindEnv<'_>,
    scope: &Scope<'_>,
    arg: &ast::Expr,
    wanted: Wanted,
) -> SqlResult<Expr> {
    if let Some(number) = number_literal(arg) {
        return Ok(number);
    }
    let operand = bind_operand(env, scope, arg)?;
    Ok(folded(env, scope, number_of(scope, operand, wanted)))
}

/// The same, of whose bits a number is made: binary strings stay what they are.
pub(super) fn bind_bits(env: &BindEnv<'_>, scope: &Scope<'_>, arg: &ast::Expr) -> SqlResult<Expr> {
    if let Some(number) = number_literal(arg) {
        return Ok(number);
    }
    let operand = bind_operand(env, scope, arg)?;
    let operand = match operand.ty.is_string() && operand.ty.collation.is_binary() {
        true => operand,
        false => number_of(scope, operand, Wanted::Bits),
    };
    Ok(folded(env, scope, operand))
}

/// Binds an operand that may yet turn out to be a text of which a number is wanted; [`folded`] is still to be called.
///
/// # Errors
/// 1241 for rows.
pub(super) fn bind_operand(
    env: &BindEnv<'_>,
    scope: &Scope<'_>,
    arg: &ast::Expr,
) -> SqlResult<Expr> {
    let operand = bind_side(env, scope, arg)?;
    match operand.kind {
        ExprKind::Row(_) => Err(errors::operand_columns(1)),
        _ => Ok(operand),
    }
}

/// The same, where it may be a row.
pub(super) fn bind_side(env: &BindEnv<'_>, scope: &Scope<'_>, arg: &ast::Expr) -> SqlResult<Expr> {
    match arg {
        ast::Expr::Call(c) => {
            let _level = env.enter_expr()?;
            call::bind_call(env, scope, c)
        }
        ast::Expr::Case {
            operand,
            whens,
            otherwise,
        } => {
            let _level = env.enter_expr()?;
            call::bind_case(env, scope, operand.as_deref(), whens, otherwise.as_deref())
        }
        ast::Expr::Unary { op, expr } if *op == UnaryOp::Plus => bind_operand(env, scope, expr),
        _ => bind_any(env, scope, arg),
    }
}

/// An operand of CAST to an integer: of a choice it reads the text, but LEAST and GREATEST compare temporal values.
pub(super) fn bind_cast_to_integer(
    env: &BindEnv<'_>,
    scope: &Scope<'_>,
    arg: &ast::Expr,
) -> SqlResult<Expr> {
    let operand = bind_operand(env, scope, arg)?;
    let number = match operand.kind {
        ExprKind::Func(ref call) if operand.ty.is_string() && chooses_moment(call) => {
            number_of(scope, operand, Wanted::Integer)
        }
        ExprKind::Aggregate(_) if operand.ty.is_label() => {
            number_of(scope, operand, Wanted::Integer)
        }
        ExprKind::Coalesce(_) | ExprKind::Case(_) => json::text(operand),
        _ => operand,
    };
    Ok(folded(env, scope, number))
}

/// The operand as the number that MySQL takes it for.
pub(super) fn number_of(scope: &Scope<'_>, e: Expr, wanted: Wanted) -> Expr {
    if e.ty.is_label() {
        return of_label(scope, e, wanted);
    }
    if !e.ty.is_string() {
        return e;
    }
    let Expr { kind, ty, coer } = e;
    match kind {
        ExprKind::Case(case) => of_choice(scope, *case, &ty, wanted),
        ExprKind::Func(call) if chooses_moment(&call) => of_extreme(*call, ty, coer, wanted),
        ExprKind::NullIf(cmp) if cmp.left.ty.is_label() => {
            let ty = cmp.left.ty.clone().with_nullable(true);
            let kind = ExprKind::NullIf(cmp);
            read(Expr { kind, ty, coer }, TextNumber::Loud, wanted)
        }
        kind => {
            let e = Expr { kind, ty, coer };
            match answer(&e, wanted) {
                TextNumber::Loud => e,
                how => read(e, how, wanted),
            }
        }
    }
}

/// A text that is compared with several numbers: it is read for all of them at once.
pub(super) fn read_once(e: Expr) -> Expr {
    match e.ty.is_string() && e.as_const().is_none() {
        true => read(e, TextNumber::Loud, Wanted::Double),
        false => e,
    }
}

/// How an operand that is a text answers.
fn answer(e: &Expr, wanted: Wanted) -> TextNumber {
    match &e.kind {
        ExprKind::Column(_) | ExprKind::Outer { .. } if is_long(&e.ty) => TextNumber::Silent,
        ExprKind::Coalesce(_) | ExprKind::Aggregate(_) | ExprKind::Subquery(_) => {
            TextNumber::Silent
        }
        // A subquery's label.
        ExprKind::Convert(inner) if inner.ty.is_label() => TextNumber::Silent,
        ExprKind::NullIf(cmp) => match cmp.left.ty.is_string() {
            true => answer(&cmp.left, wanted),
            false => TextNumber::Loud,
        },
        ExprKind::Func(call) if moves_moment(call) => TextNumber::Moment,
        ExprKind::Func(call) if matches!(call.def.name, "greatest" | "least") => TextNumber::Silent,
        // Functions say nothing of what follows a DECIMAL.
        ExprKind::Func(_) | ExprKind::Cast(..) | ExprKind::Recollate(_)
            if wanted == Wanted::Decimal =>
        {
            TextNumber::Silent
        }
        _ => TextNumber::Loud,
    }
}

/// TEXT or BLOB, whatever their size?
fn is_long(ty: &SqlType) -> bool {
    matches!(
        ty.kind,
        TypeKind::TinyText | TypeKind::Text | TypeKind::MediumText | TypeKind::LongText
    )
}

/// DATE_ADD and its kin: a temporal value among texts.
fn moves_moment(call: &FuncCall) -> bool {
    const PREFIXES: [&str; 3] = ["date_add_", "date_sub_", "timestampadd_"];
    let name = call.def.name;
    matches!(name, "addtime" | "subtime" | "adddate" | "subdate")
        || PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

/// A label of an ENUM or SET is its number where the value of a column is asked. Where no table lies between, MIN and
/// MAX give texts.
fn of_label(scope: &Scope<'_>, e: Expr, wanted: Wanted) -> Expr {
    let is_aggregate = matches!(e.kind, ExprKind::Aggregate(_));
    match is_aggregate && scope.grouping.get() != Grouping::ByKeys {
        true => read(as_text(e), TextNumber::Silent, wanted),
        false => e,
    }
}

/// The labels of an ENUM or SET as texts; anything else as it is.
pub(super) fn as_text(e: Expr) -> Expr {
    if !e.ty.is_label() {
        return e;
    }
    let text = SqlType::varchar(text_length(&e.ty), e.ty.collation);
    let (ty, coer) = (text.with_nullable(e.ty.nullable), e.coer);
    let kind = ExprKind::Convert(Box::new(e));
    Expr { kind, ty, coer }
}

fn of_choice(scope: &Scope<'_>, case: Case, ty: &SqlType, wanted: Wanted) -> Expr {
    let chosen = |e: Expr| {
        let number = number_of(scope, e, wanted);
        match number.kind {
            ExprKind::Number(..) => number,
            _ => read(number, TextNumber::Loud, wanted),
        }
    };
    let whens = case.whens.into_iter();
    let case = Case {
        whens: whens.map(|(when, then)| (when, chosen(then))).collect(),
        otherwise: case.otherwise.map(chosen),
    };
    Expr {
        kind: ExprKind::Case(Box::new(case)),
        ty: wanted.ty().with_nullable(ty.nullable),
        coer: Coercibility::Numeric,
    }
}

/// GREATEST or LEAST of texts and temporal values?
fn chooses_moment(call: &FuncCall) -> bool {
    let is_it = matches!(call.def.name, "greatest" | "least");
    is_it && call.args.iter().any(|a| a.ty.is_temporal())
}

fn of_extreme(mut call: FuncCall, ty: SqlType, coer: Coercibility, wanted: Wanted) -> Expr {
    let has = |kinds: &[TypeKind]| call.args.iter().any(|a| kinds.contains(&a.ty.kind));
    let moment = match has(&[TypeKind::DateTime, TypeKind::Timestamp]) {
        true => Some(SqlType {
            decimals: MAX_FSP,
            ..SqlType::new(TypeKind::DateTime)
        }),
        false => has(&[TypeKind::Date]).then(|| SqlType::new(TypeKind::Date)),
    };
    if let Some(moment) = moment {
        let kind = ExprKind::Func(Box::new(call));
        let text = Expr { kind, ty, coer };
        let moment = Expr {
            kind: ExprKind::Cast(Box::new(text), "".into()),
            ty: moment,
            coer: Coercibility::Numeric,
        };
        return read(moment, TextNumber::Loud, wanted);
    }
    // Numbers are compared.
    let double = |arg: Expr| read(arg, TextNumber::Loud, Wanted::Double);
    call.args = call.args.into_iter().map(double).collect();
    call.arg_types = call.args.iter().map(|a| a.ty.clone()).collect();
    call.signature.ret = Wanted::Double.ty();
    let ty = call.signature.ret.clone();
    let kind = ExprKind::Func(Box::new(call));
    let number = Expr { kind, ty, coer };
    match wanted {
        Wanted::Double => number,
        _ => read(number, TextNumber::Loud, wanted),
    }
}

/// A text as a number.
pub(super) fn read(e: Expr, how: TextNumber, wanted: Wanted) -> Expr {
    Expr {
        ty: wanted.ty().with_nullable(e.ty.nullable),
        kind: ExprKind::Number(Box::new(e), how),
        coer: Coercibility::Numeric,
    }
}
