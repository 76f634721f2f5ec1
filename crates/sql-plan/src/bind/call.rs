//! Calls: functions of the registry, and the forms that evaluate lazily.
//!
//! Neighbours: `esker_types::func` knows names, types and kernels; `aggregates` and `window` bind the calls that see
//! several rows.
//! **Invariants**: an argument is bound once; a function that waits or changes from row to row marks the block.

use std::sync::Arc;

use esker_sql_syntax::ast;
use esker_types::cmp::CmpKind;
use esker_types::collation::Coercibility;
use esker_types::func::aggregate;
use esker_types::func::merge::merge_types;
use esker_types::func::{self, ArgType, FuncDef, FuncFlags, RetCtx};
use esker_types::names::check_length;
use esker_types::{Level, SqlError, SqlResult, SqlType, TypeKind, Value, cast};

use super::block::Volatility;
use super::chosen::{self, NoDate};
use super::clause::Clause;
use super::expr::{bind_all, bind_condition, bind_expr, number_literal};
use super::scope::{AggRule, Scope};
use super::text_numbers::{Wanted, bind_bits, bind_number};
use super::{BindEnv, aggregates, compare, errors, json, parameter, print, window};
use crate::expr::{Case, Cmp, CmpOp, Expr, ExprKind, FuncCall, StoredCall, StoredFunction, fold};

/// What the registry wants to know about bound arguments.
pub(super) fn arg_types(args: &[Expr]) -> Vec<ArgType<'_>> {
    args.iter()
        .map(|a| ArgType {
            ty: a.ty.clone(),
            coercibility: a.coer,
            value: a.as_const(),
        })
        .collect()
}

/// The common type of values that become one column.
pub(super) fn merged(
    env: &BindEnv<'_>,
    values: &[&Expr],
    operation: &str,
) -> SqlResult<func::Signature> {
    let args: Vec<ArgType<'_>> = values
        .iter()
        .map(|a| ArgType {
            ty: a.ty.clone(),
            coercibility: a.coer,
            value: a.as_const(),
        })
        .collect();
    merge_types(&args, &RetCtx::of(env.ctx), operation)
}

/// Binds a call.
pub(super) fn bind_call(env: &BindEnv<'_>, scope: &Scope<'_>, call: &ast::Call) -> SqlResult<Expr> {
    if let Some(over) = &call.over {
        return window::bind_window_call(env, scope, call, over);
    }
    if let Some(schema) = &call.schema {
        let name = format!("sys.{}", call.name.text.to_ascii_lowercase());
        if *schema.text == *"sys"
            && let Some(def) = func::lookup(&name)
        {
            // EXECUTE is asked for as of any function; the catalog has none of the name.
            env.names.stored_function("sys", &call.name.text, true)?;
            let (expected, got) = (usize::from(def.min_args), call.args.len());
            if expected != got {
                return Err(errors::wrong_argument_count(
                    "FUNCTION", name, expected, got,
                ));
            }
            return bind_function(env, scope, &name, &call.args);
        }
        let (schema, name) = (&*schema.text, &*call.name.text);
        return match env.names.stored_function(schema, name, true)? {
            Some(function) => bind_stored(env, scope, (function, true), &call.args),
            None => Err(no_function(Some(schema), name)),
        };
    }
    if let Some(def) = aggregate::lookup(&call.name.text) {
        return aggregates::bind(env, scope, def, call);
    }
    if call.star || call.distinct || !call.order_by.is_empty() || call.separator.is_some() {
        return Err(errors::syntax(&call.name.text));
    }
    if call.name.is("grouping") {
        return bind_grouping(env, scope, &call.args);
    }
    let bound = bind_function(env, scope, &call.name.text, &call.args)?;
    Ok(match env.names.account_in_view() {
        Some(account) if call.name.is("current_user") => Expr {
            kind: ExprKind::Const(Value::Str(account.into_bytes())),
            ..bound
        },
        _ => bound,
    })
}

/// NAME_CONST takes constants as they are written, also with a sign or a collation.
fn check_named_constant(name: &ast::Expr, value: &ast::Expr) -> SqlResult<()> {
    use ast::Literal;
    let is_plain = |e: &ast::Expr| match e {
        ast::Expr::Literal(literal) => !matches!(
            literal,
            Literal::Bool(_) | Literal::Date(_) | Literal::Time(_) | Literal::Timestamp(_)
        ),
        ast::Expr::Param(_) => true,
        _ => false,
    };
    let is_constant = match value {
        ast::Expr::Unary {
            op: ast::UnaryOp::Neg,
            expr,
        } => is_plain(expr),
        ast::Expr::Collate { expr, .. } => is_plain(expr),
        value => is_plain(value),
    };
    match name {
        ast::Expr::Literal(Literal::Null) => Err(errors::reserved_name_const()),
        name if is_plain(name) && is_constant => Ok(()),
        _ => Err(errors::wrong_arguments("NAME_CONST")),
    }
}

/// Binds a call of a plain function.
pub(super) fn bind_function(
    env: &BindEnv<'_>,
    scope: &Scope<'_>,
    name: &str,
    args: &[ast::Expr],
) -> SqlResult<Expr> {
    let Some(def) = func::lookup(name) else {
        return bind_unknown(env, scope, name, args);
    };
    if !def.accepts(args.len()) {
        return Err(errors::wrong_parameter_count(name));
    }
    if let ("name_const", [name, value]) = (def.name, args) {
        check_named_constant(name, value)?;
    }
    if let ("isnull", [tested]) = (def.name, args)
        && let Some(side) = compare::bind_tested_side(env, scope, tested)?
    {
        return apply(env, scope, def, vec![side]);
    }
    let mut args = bind_arguments(env, scope, def.name, args)?;
    match def.name {
        "greatest" | "least" if args.iter().any(|a| a.ty.kind == TypeKind::Json) => {
            json::compared_otherwise(env, "LEAST and GREATEST operators");
            args = args.into_iter().map(json::text).collect();
        }
        "if" => {
            let [when, then, otherwise] =
                <[Expr; 3]>::try_from(args).map_err(|_| errors::wrong_parameter_count(name))?;
            return case(env, vec![(when, then)], Some(otherwise), "if");
        }
        "ifnull" | "coalesce" => return coalesce(env, def.name, args),
        "nullif" => {
            let [left, right] =
                <[Expr; 2]>::try_from(args).map_err(|_| errors::wrong_parameter_count(name))?;
            return nullif(env, left, right);
        }
        _ => {}
    }
    if def.name == "json_merge" {
        let text = "'JSON_MERGE' is deprecated and will be removed in a future release. Please use \
                    JSON_MERGE_PRESERVE/JSON_MERGE_PATCH instead";
        env.ctx.warn(Level::Warning, 1287, text);
    }
    apply(env, scope, def, args)
}

/// A call of a plain function with bound arguments.
pub(super) fn apply(
    env: &BindEnv<'_>,
    scope: &Scope<'_>,
    def: &'static FuncDef,
    args: Vec<Expr>,
) -> SqlResult<Expr> {
    if def.flags.has(FuncFlags::BLOCKS) {
        env.blocks.set(true);
    }
    if fold::is_volatile(def) {
        scope.note_volatility(Volatility::Volatile);
    }
    let signature = def.bind(&arg_types(&args), &RetCtx::of(env.ctx))?;
    let args = match def.name {
        "greatest" | "least" => constant_moments(env, args, &signature.ret),
        _ => args,
    };
    let arg_types = args.iter().map(|a| a.ty.clone()).collect();
    let (ty, coer) = (signature.ret.clone(), signature.coercibility);
    if let ("rand", [seed]) = (def.name, &args[..])
        && seed.is_row_independent()
    {
        let kind = ExprKind::SeededRand(env.subquery_id(), Box::new(seed.clone()));
        return Ok(Expr { kind, ty, coer });
    }
    let kind = ExprKind::Func(Box::new(FuncCall {
        def,
        args,
        arg_types,
        signature,
    }));
    Ok(Expr { kind, ty, coer })
}

/// Constant texts among the DATETIMEs of GREATEST or LEAST are the temporal values that they name: the result then has
/// the digits of their fractions, not of any text's.
fn constant_moments(env: &BindEnv<'_>, args: Vec<Expr>, ret: &SqlType) -> Vec<Expr> {
    if !func::is_text_of_datetime(args.iter().map(|a| &a.ty), ret) {
        return args;
    }
    let flags = cast::date_flags(env.ctx);
    let moment = |arg: Expr| match &arg.kind {
        ExprKind::Const(Value::Str(text)) if arg.ty.is_string() => {
            let Some((moment, decimals)) = func::constant_moment(text, flags) else {
                return arg;
            };
            let ty = SqlType {
                decimals,
                nullable: false,
                ..SqlType::new(TypeKind::DateTime)
            };
            Expr::constant(Value::DateTime(moment), ty)
        }
        _ => arg,
    };
    args.into_iter().map(moment).collect()
}

/// Binds the arguments; where a function computes with numbers, hexadecimal and bit literals are some.
fn bind_arguments(
    env: &BindEnv<'_>,
    scope: &Scope<'_>,
    function: &str,
    args: &[ast::Expr],
) -> SqlResult<Vec<Expr>> {
    let bind = |(nth, arg)| match takes_number(function, nth) {
        Some(Takes::Number(wanted)) => bind_number(env, scope, arg, wanted),
        Some(Takes::Bits) => bind_bits(env, scope, arg),
        Some(Takes::Written) => match number_literal(arg) {
            Some(number) => Ok(number),
            None => bind_expr(env, scope, arg),
        },
        None if json::takes_json_value(function, nth) => json::bind_json_value(env, scope, arg),
        None => bind_expr(env, scope, arg),
    };
    let mut bound: Vec<Expr> = args
        .iter()
        .enumerate()
        .map(bind)
        .collect::<SqlResult<_>>()?;
    parameter::take_as_moments(env, function, args, &mut bound);
    let first_value = match function {
        "if" => 1,
        "ifnull" | "coalesce" | "nullif" | "greatest" | "least" => 0,
        _ => return Ok(bound),
    };
    let written: Vec<&ast::Expr> = args.iter().skip(first_value).collect();
    let no_date = match function {
        "greatest" | "least" => NoDate::PassedOver,
        _ => NoDate::Null,
    };
    let mut values: Vec<&mut Expr> = bound.iter_mut().skip(first_value).collect();
    chosen::take_type_of_others(env, &written, &mut values, no_date)?;
    Ok(bound)
}

/// What a function wants of an argument with which it computes, or which it judges.
enum Takes {
    /// A number.
    Number(Wanted),
    /// 64 bits, or a binary string.
    Bits,
    /// The argument as it is; a hexadecimal literal is a number.
    Written,
}

/// What a function wants of its `nth` argument (from 0), if it computes with it.
fn takes_number(function: &str, nth: usize) -> Option<Takes> {
    use Wanted::{Decimal, Double, Integer};
    let starts = |prefix: &str| function.starts_with(prefix);
    let wanted = match (function, nth) {
        ("if" | "format", 0) => Double,
        ("elt" | "make_set" | "export_set", 0) | ("repeat" | "left" | "right", 1) => Integer,
        ("from_unixtime", 0) | ("maketime", 2) | ("sec_to_time", _) => Decimal,
        ("round" | "truncate" | "lpad" | "rpad" | "week" | "yearweek" | "format" | "sha2", 1)
        | ("substr" | "substring" | "mid" | "insert" | "conv", 1 | 2)
        | ("locate" | "position" | "substring_index", 2)
        | ("export_set", 4) => Integer,
        ("bit_count", _) => return Some(Takes::Bits),
        ("st_x" | "st_y" | "st_latitude" | "st_longitude" | "st_srid", 1)
        | ("bin" | "oct" | "interval" | "point", _)
        | ("conv", 0) => return Some(Takes::Written),
        (
            "char" | "from_days" | "inet_ntoa" | "makedate" | "maketime" | "period_add"
            | "period_diff" | "rand" | "space",
            _,
        ) => Integer,
        (
            "abs" | "acos" | "asin" | "atan" | "atan2" | "ceil" | "ceiling" | "cos" | "cot"
            | "degrees" | "exp" | "floor" | "ln" | "log" | "log10" | "log2" | "mod" | "pow"
            | "power" | "radians" | "round" | "sign" | "sin" | "sqrt" | "tan" | "truncate",
            _,
        ) => Double,
        _ if starts("char_using_") => Integer,
        (_, 1) if starts("date_add_") || starts("date_sub_") => return Some(Takes::Written),
        (_, 0) if starts("timestampadd_") => return Some(Takes::Written),
        (_, 1) if starts("st_") && function.ends_with("fromtext") => return Some(Takes::Written),
        (_, 1) if starts("st_") && function.ends_with("fromwkb") => return Some(Takes::Written),
        _ => return None,
    };
    Some(Takes::Number(wanted))
}

/// A call of a name that no function of the registry has: the stored function of the current database.
///
/// # Errors
/// 1305, or 1235 for what MySQL has and Esker does not.
fn bind_unknown(
    env: &BindEnv<'_>,
    scope: &Scope<'_>,
    name: &str,
    args: &[ast::Expr],
) -> SqlResult<Expr> {
    let schema = env.current_schema();
    if let Some(schema) = &schema
        && let Some(function) = env.names.stored_function(schema, name, false)?
    {
        return bind_stored(env, scope, (function, false), args);
    }
    let lower = name.to_ascii_lowercase();
    let families = ["st_", "mbr", "xa_"];
    if families.iter().any(|f| lower.starts_with(f)) {
        return Err(SqlError::not_supported(name));
    }
    Err(no_function(schema.as_deref(), name))
}

/// 1305; 1059 for names that are too long for one.
fn no_function(schema: Option<&str>, name: &str) -> SqlError {
    let mut names = schema.into_iter().chain([name]);
    match (names.try_for_each(check_length), schema) {
        (Err(too_long), _) => too_long,
        (Ok(()), Some(schema)) => errors::unknown_function(&format!("{schema}.{name}")),
        (Ok(()), None) => errors::unknown_function(name),
    }
}

/// Binds a call of a stored function; `qualified`: it was named with its database.
///
/// # Errors
/// 1318.
fn bind_stored(
    env: &BindEnv<'_>,
    scope: &Scope<'_>,
    (function, qualified): (Arc<StoredFunction>, bool),
    args: &[ast::Expr],
) -> SqlResult<Expr> {
    let (wanted, given) = (function.parameters.len(), args.len());
    if wanted != given {
        let name = format!("{}.{}", function.def.schema, function.def.name);
        return Err(errors::wrong_argument_count(
            "FUNCTION", name, wanted, given,
        ));
    }
    let args = bind_all(env, scope, args)?;
    let texts: Vec<String> = args.iter().map(|arg| print::text(scope, arg)).collect();
    let text = format!("{}({})", function.def.name, texts.join(",")).into();
    env.calls.set(true);
    if !function.def.deterministic {
        scope.note_volatility(Volatility::Volatile);
    }
    let ty = function.returns.clone().with_nullable(true);
    let coer = match ty.is_string() {
        true => Coercibility::Coercible,
        false => Coercibility::of_column(&ty),
    };
    let kind = ExprKind::Stored(Box::new(StoredCall {
        function,
        qualified,
        text,
        args,
    }));
    Ok(Expr { kind, ty, coer })
}

/// NULLIF: the operands are compared as `=` compares them; the result is the first as it was written, but beside a
/// YEAR.
fn nullif(env: &BindEnv<'_>, mut left: Expr, mut right: Expr) -> SqlResult<Expr> {
    let given = left.as_const().is_some().then(|| left.clone());
    compare::adapt_pair(env, &mut left, &mut right)?;
    let is_kept = |given: &Expr| {
        let (a, b) = (&given.ty, &left.ty);
        let is_finer = a.is_temporal() && a.decimals != b.decimals;
        (a.kind != b.kind || is_finer) && b.kind != TypeKind::Year
    };
    if let Some(given) = given.filter(is_kept) {
        return constant_unless_equal(env, given, left, right);
    }
    let kind = compare::kind_of(&left, &right, "nullif")?;
    // A constant text takes on the collation in which it is compared.
    if let (ExprKind::Const(Value::Str(text)), CmpKind::Str(compared)) = (&left.kind, kind)
        && (text.is_ascii() || compared.charset() == left.ty.collation.charset())
    {
        left.ty.collation = compared;
    }
    let signature = merged(env, &[&left], "nullif")?;
    let ty = signature.ret.with_nullable(true).passing_on();
    let cmp = Box::new(Cmp {
        op: CmpOp::Eq,
        kind,
        left,
        right,
    });
    Ok(Expr {
        kind: ExprKind::NullIf(cmp),
        ty,
        coer: signature.coercibility,
    })
}

/// NULLIF of a constant that was adapted to a column: the constant, unless what became of it is equal.
fn constant_unless_equal(
    env: &BindEnv<'_>,
    given: Expr,
    adapted: Expr,
    right: Expr,
) -> SqlResult<Expr> {
    let cmp = Cmp {
        op: CmpOp::Eq,
        kind: compare::kind_of(&adapted, &right, "nullif")?,
        left: adapted,
        right,
    };
    let is_equal = Expr::condition(ExprKind::Cmp(Box::new(cmp)), true);
    let mut chosen = case(env, vec![(is_equal, Expr::null())], Some(given), "nullif")?;
    chosen.ty.nullable = true;
    Ok(chosen)
}

fn coalesce(env: &BindEnv<'_>, name: &str, args: Vec<Expr>) -> SqlResult<Expr> {
    let signature = merged(env, &args.iter().collect::<Vec<_>>(), name)?;
    let ty = signature
        .ret
        .with_nullable(args.iter().all(|a| a.ty.nullable));
    Ok(Expr {
        kind: ExprKind::Coalesce(args),
        ty,
        coer: signature.coercibility,
    })
}

/// A choice among values by conditions.
fn case(
    env: &BindEnv<'_>,
    whens: Vec<(Expr, Expr)>,
    otherwise: Option<Expr>,
    operation: &str,
) -> SqlResult<Expr> {
    let values: Vec<&Expr> = whens.iter().map(|(_, t)| t).chain(&otherwise).collect();
    let signature = merged(env, &values, operation)?;
    let nullable = otherwise.is_none() || values.iter().any(|v| v.ty.nullable);
    let ty = signature.ret.with_nullable(nullable).passing_on();
    let kind = ExprKind::Case(Box::new(Case { whens, otherwise }));
    Ok(Expr {
        kind,
        ty,
        coer: signature.coercibility,
    })
}

/// CASE, with or without operand.
pub(super) fn bind_case(
    env: &BindEnv<'_>,
    scope: &Scope<'_>,
    operand: Option<&ast::Expr>,
    whens: &[(ast::Expr, ast::Expr)],
    otherwise: Option<&ast::Expr>,
) -> SqlResult<Expr> {
    let operand = operand.map(|e| bind_expr(env, scope, e)).transpose()?;
    let mut bound = Vec::with_capacity(whens.len());
    for (when, then) in whens {
        let when = match &operand {
            Some(_) => bind_expr(env, scope, when)?,
            None => bind_condition(env, scope, when)?,
        };
        bound.push((when, bind_expr(env, scope, then)?));
    }
    if let Some(operand) = operand {
        let (whens, thens): (Vec<_>, Vec<_>) = bound.into_iter().unzip();
        let whens = compare::compare_case(env, &operand, whens)?;
        bound = whens.into_iter().zip(thens).collect();
    }
    let mut last = otherwise.map(|e| bind_expr(env, scope, e)).transpose()?;
    let written: Vec<&ast::Expr> = whens
        .iter()
        .map(|(_, then)| then)
        .chain(otherwise)
        .collect();
    let mut values: Vec<&mut Expr> = bound.iter_mut().map(|(_, then)| then).collect();
    values.extend(&mut last);
    chosen::take_type_of_others(env, &written, &mut values, NoDate::Null)?;
    case(env, bound, last, "case")
}

/// GROUPING(a, …): which keys are rolled up.
fn bind_grouping(env: &BindEnv<'_>, scope: &Scope<'_>, args: &[ast::Expr]) -> SqlResult<Expr> {
    if scope.agg_rule.get() == AggRule::Forbidden {
        return Err(match scope.clause.get() {
            Clause::Group => errors::wrong_group_field("GROUPING function"),
            _ => errors::invalid_group_function(),
        });
    }
    let args = bind_all(env, scope, args)?;
    let ty = esker_types::SqlType::bigint(false).with_nullable(false);
    let coer = esker_types::collation::Coercibility::Numeric;
    Ok(Expr {
        kind: ExprKind::Grouping(args),
        ty,
        coer,
    })
}
