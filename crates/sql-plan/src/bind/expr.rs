//! Expressions: from the syntax tree to bound trees.
//!
//! Neighbours: `compare` (comparisons, IN, LIKE), `call` (functions, aggregates, CASE), `subquery`,
//! `literal`; `scope` resolves names.
//! **Invariants**: what comes out is folded, has no [`ExprKind::Row`] at its top when one value is
//! wanted, and its static type is final.

use esker_sql_syntax::ast::{self, BinaryOp, IsTest, UnaryOp};
use esker_types::arith::{self, ArithFacts, BinOp, UnOp};
use esker_types::collation::{Coercibility, Collation};
use esker_types::{SqlResult, SqlType, TypeKind, func};

use super::aliases::AliasUse;
use super::default::bind_default;
use super::scope::{ColumnAt, Scope, ScopeColumn};
use super::text_numbers::{Wanted, bind_bits, bind_number, bind_operand, number_of};
use super::{
    BindEnv, between, call, compare, errors, fulltext, in_list, json, json_table, like, literal,
    parameter, print, subquery, text_numbers, variable,
};
use crate::expr::{Arith, Expr, ExprKind, Test, Unary, fold, walk};

/// Binds an expression that stands for one value.
///
/// # Errors
/// Unknown names, wrong types, 1241 for rows.
pub fn bind_expr(env: &BindEnv<'_>, scope: &Scope<'_>, expr: &ast::Expr) -> SqlResult<Expr> {
    let bound = bind_any(env, scope, expr)?;
    match bound.kind {
        ExprKind::Row(_) => Err(errors::operand_columns(1)),
        _ => Ok(bound),
    }
}

/// Binds an expression that stands for a boolean.
///
/// # Errors
/// As [`bind_expr`].
pub fn bind_condition(env: &BindEnv<'_>, scope: &Scope<'_>, expr: &ast::Expr) -> SqlResult<Expr> {
    let bound = bind_number(env, scope, expr, Wanted::Double)?;
    match bound.ty.kind {
        TypeKind::Json => json::condition(env, bound),
        _ => Ok(bound),
    }
}

/// Binds several.
pub(super) fn bind_all(
    env: &BindEnv<'_>,
    scope: &Scope<'_>,
    exprs: &[ast::Expr],
) -> SqlResult<Vec<Expr>> {
    exprs.iter().map(|e| bind_expr(env, scope, e)).collect()
}

/// Binds an expression that may be a row.
pub(super) fn bind_any(env: &BindEnv<'_>, scope: &Scope<'_>, expr: &ast::Expr) -> SqlResult<Expr> {
    let _level = env.enter_expr()?;
    let bound = match expr {
        ast::Expr::Literal(l) => return literal::bind_literal(env, l),
        ast::Expr::Param(nth) => return Ok(literal::bind_param(env, *nth)),
        ast::Expr::Column(name) => return scope.resolve(env, name),
        ast::Expr::UserVar(name) => variable::user_var(env, scope, name),
        ast::Expr::Assign { var, value } => variable::assign(env, scope, var, value)?,
        ast::Expr::SysVar(var) => variable::system_var(env, var)?,
        ast::Expr::Unary { op, expr } => unary(env, scope, *op, expr)?,
        ast::Expr::Binary { op, left, right } => match compare::comparison(*op) {
            Some(op) => compare::bind_comparison(env, scope, op, left, right)?,
            None => arithmetic(env, scope, *op, left, right)?,
        },
        ast::Expr::And(conds) => connective(env, scope, conds, ExprKind::And)?,
        ast::Expr::Or(conds) => connective(env, scope, conds, ExprKind::Or)?,
        ast::Expr::Xor(a, b) => xor(env, scope, a, b)?,
        ast::Expr::Not(e) => {
            let reading = scope.reads_computed.take();
            scope.reads_computed.set(reading.negated().of(e));
            negation(bind_condition(env, scope, e)?)
        }
        ast::Expr::Is { .. }
        | ast::Expr::Like { .. }
        | ast::Expr::Regexp { .. }
        | ast::Expr::Between { .. }
        | ast::Expr::InList { .. }
        | ast::Expr::InSubquery { .. }
        | ast::Expr::Exists(_)
        | ast::Expr::Quantified { .. } => predicate(env, scope, expr)?,
        ast::Expr::Subquery(query) => subquery::bind_operand(env, scope, query)?,
        ast::Expr::Case {
            operand,
            whens,
            otherwise,
        } => call::bind_case(env, scope, operand.as_deref(), whens, otherwise.as_deref())?,
        ast::Expr::Cast { expr, ty } => bind_cast(env, scope, expr, ty)?,
        ast::Expr::Call(c) => call::bind_call(env, scope, c)?,
        ast::Expr::Row(members) => {
            let members = members.iter().map(|m| bind_any(env, scope, m));
            return Ok(Expr::row(members.collect::<SqlResult<_>>()?));
        }
        ast::Expr::Default(Some(column)) => bind_default(env, scope, column)?,
        ast::Expr::Default(None) => return Err(errors::syntax("DEFAULT")),
        ast::Expr::Values(column) => inserted_value(scope, column)?,
        ast::Expr::Match {
            columns,
            against,
            mode,
        } => fulltext::bind_match(env, scope, columns, against, *mode)?,
        ast::Expr::JsonArrow {
            column,
            path,
            unquote,
        } => json::bind_arrow(env, scope, column, path, *unquote)?,
        ast::Expr::JsonValue(call) => json_table::bind_json_value(env, scope, call)?,
        ast::Expr::MemberOf { expr, array } => json::bind_member(env, scope, expr, array)?,
        ast::Expr::Collate { expr, collation } => collate(env, scope, expr, collation)?,
    };
    Ok(folded(env, scope, bound))
}

/// The expression with what is constant in it computed, but for constants that GROUP BY … WITH ROLLUP makes NULL in
/// rows of sums.
pub(super) fn folded(env: &BindEnv<'_>, scope: &Scope<'_>, bound: Expr) -> Expr {
    let constants = scope.rolled_constants.borrow();
    let is_rolled = |e: &Expr| constants.iter().any(|c| walk::same(c, e));
    if scope.stays_written.get() || !constants.is_empty() && bound.any(&mut |e| is_rolled(e)) {
        return bound;
    }
    if constants.is_empty() {
        return fold::fold(bound, &env.fold_env());
    }
    // A calculation whose result is a key is not that key: 1 + 1 is not 2.
    let computed = fold::fold(bound.clone(), &env.fold_env());
    match is_rolled(&computed) {
        true => bound,
        false => computed,
    }
}

/// Binds what tests a value by words of its own.
fn predicate(env: &BindEnv<'_>, scope: &Scope<'_>, expr: &ast::Expr) -> SqlResult<Expr> {
    match expr {
        ast::Expr::Is {
            expr,
            negated,
            test,
        } => bind_is(env, scope, expr, *test, *negated),
        ast::Expr::Like {
            expr,
            pattern,
            escape,
            negated,
        } => like::bind_like(env, scope, expr, pattern, escape.as_deref(), *negated),
        ast::Expr::Regexp {
            expr,
            pattern,
            negated,
        } => regexp(env, scope, [expr, pattern], *negated),
        ast::Expr::Between {
            expr,
            low,
            high,
            negated,
        } => between::bind_between(env, scope, expr, low, high, *negated),
        ast::Expr::InList {
            expr,
            list,
            negated,
        } => in_list::bind_in(env, scope, expr, list, *negated),
        ast::Expr::InSubquery {
            expr,
            query,
            negated,
        } => subquery::bind_in(env, scope, expr, query, *negated),
        ast::Expr::Exists(query) => subquery::bind_exists(env, scope, query),
        ast::Expr::Quantified {
            op,
            expr,
            all,
            query,
        } => subquery::bind_quantified(env, scope, *op, expr, *all, query),
        other => unreachable!("{other:?} is none of them"),
    }
}

/// IS [NOT] NULL, TRUE or FALSE.
fn bind_is(
    env: &BindEnv<'_>,
    scope: &Scope<'_>,
    expr: &ast::Expr,
    test: IsTest,
    negated: bool,
) -> SqlResult<Expr> {
    let (arg, test) = match test {
        IsTest::Null => (null_tested(env, scope, expr)?, Test::Null),
        IsTest::True => (bind_condition(env, scope, expr)?, Test::True),
        IsTest::False => (bind_condition(env, scope, expr)?, Test::False),
    };
    if test == Test::Null && !negated && is_never_null(env, &arg) {
        return Ok(Expr::boolean(false));
    }
    let arg = Box::new(arg);
    Ok(Expr::condition(ExprKind::Is { arg, test, negated }, false))
}

/// What IS NULL tests: numbers are taken as they are written.
fn null_tested(env: &BindEnv<'_>, scope: &Scope<'_>, expr: &ast::Expr) -> SqlResult<Expr> {
    if let Some(side) = compare::bind_tested_side(env, scope, expr)? {
        return Ok(side);
    }
    match number_literal(expr) {
        Some(number) => Ok(number),
        None => bind_expr(env, scope, expr),
    }
}

fn regexp(
    env: &BindEnv<'_>,
    scope: &Scope<'_>,
    args: [&ast::Expr; 2],
    negated: bool,
) -> SqlResult<Expr> {
    let found = call::bind_function(env, scope, "regexp_like", &args.map(ast::Expr::clone))?;
    Ok(if negated { negation(found) } else { found })
}

fn xor(env: &BindEnv<'_>, scope: &Scope<'_>, a: &ast::Expr, b: &ast::Expr) -> SqlResult<Expr> {
    let (a, b) = (
        bind_condition(env, scope, a)?,
        bind_condition(env, scope, b)?,
    );
    let nullable = a.ty.nullable || b.ty.nullable;
    Ok(Expr::condition(ExprKind::Xor(Box::new([a, b])), nullable))
}

fn connective(
    env: &BindEnv<'_>,
    scope: &Scope<'_>,
    conds: &[ast::Expr],
    kind: fn(Vec<Expr>) -> ExprKind,
) -> SqlResult<Expr> {
    let reading = scope.reads_computed.take();
    let bind = |cond| {
        scope.reads_computed.set(reading.of(cond));
        bind_condition(env, scope, cond)
    };
    let conds = conds.iter().map(bind).collect::<SqlResult<Vec<_>>>()?;
    let nullable = conds.iter().any(|c| c.ty.nullable);
    Ok(Expr::condition(kind(conds), nullable))
}

/// NOT, pushed into comparisons where that changes nothing for NULL.
pub(super) fn negation(arg: Expr) -> Expr {
    let Expr { kind, ty, coer } = arg;
    let kind = match kind {
        ExprKind::Cmp(mut cmp) => match cmp.op.negate() {
            Some(op) => {
                cmp.op = op;
                ExprKind::Cmp(cmp)
            }
            None => ExprKind::Not(Box::new(Expr {
                kind: ExprKind::Cmp(cmp),
                ty: ty.clone(),
                coer,
            })),
        },
        ExprKind::Is { arg, test, negated } => ExprKind::Is {
            arg,
            test,
            negated: !negated,
        },
        ExprKind::Between(mut b) => {
            b.negated = !b.negated;
            ExprKind::Between(b)
        }
        ExprKind::InList(mut l) => {
            l.negated = !l.negated;
            ExprKind::InList(l)
        }
        ExprKind::Like(mut l) => {
            l.negated = !l.negated;
            ExprKind::Like(l)
        }
        // By De Morgan, which holds for NULL, too: ranges come from what is not negated.
        ExprKind::And(all) => ExprKind::Or(all.into_iter().map(negation).collect()),
        ExprKind::Or(any) => ExprKind::And(any.into_iter().map(negation).collect()),
        kind => ExprKind::Not(Box::new(Expr {
            kind,
            ty: ty.clone(),
            coer,
        })),
    };
    Expr::condition(kind, ty.nullable)
}

fn unary(env: &BindEnv<'_>, scope: &Scope<'_>, op: UnaryOp, arg: &ast::Expr) -> SqlResult<Expr> {
    let (op, arg) = match op {
        // A plus says nothing, and asks for no number.
        UnaryOp::Plus => return bind_expr(env, scope, arg),
        UnaryOp::Neg => {
            let operand = bind_number(env, scope, arg, Wanted::Double)?;
            (UnOp::Neg, json::number(arg, operand))
        }
        UnaryOp::BitNot => {
            let operand = bind_bits(env, scope, arg)?;
            (UnOp::BitNot, json::integer(arg, operand))
        }
    };
    let sign = if op == UnOp::Neg { "-" } else { "~" };
    func::refuse_geometries([&arg.ty], sign)?;
    let ty = arith::unary_type(op, &arg.ty, arg.as_const());
    let text = format!("{sign}({})", print::text(scope, &arg)).into();
    let kind = ExprKind::Unary(Box::new(Unary { op, arg, text }));
    Ok(Expr {
        kind,
        ty,
        coer: Coercibility::Numeric,
    })
}

/// A hexadecimal or bit literal without introducer as a number.
pub fn number_literal(e: &ast::Expr) -> Option<Expr> {
    match e {
        ast::Expr::Literal(literal) => literal::as_number(literal),
        ast::Expr::Subquery(query) => subquery::only_item(query).and_then(number_literal),
        ast::Expr::Unary { op, expr } if *op == UnaryOp::Plus => number_literal(expr),
        _ => None,
    }
}

/// The kernel of an arithmetic or bit operator.
fn kernel(op: BinaryOp) -> BinOp {
    match op {
        BinaryOp::Add => BinOp::Add,
        BinaryOp::Sub => BinOp::Sub,
        BinaryOp::Mul => BinOp::Mul,
        BinaryOp::Div => BinOp::Div,
        BinaryOp::IntDiv => BinOp::IntDiv,
        BinaryOp::Mod => BinOp::Mod,
        BinaryOp::BitOr => BinOp::BitOr,
        BinaryOp::BitAnd => BinOp::BitAnd,
        BinaryOp::BitXor => BinOp::BitXor,
        BinaryOp::Shl => BinOp::ShiftLeft,
        BinaryOp::Shr => BinOp::ShiftRight,
        BinaryOp::Eq
        | BinaryOp::NullSafeEq
        | BinaryOp::Ne
        | BinaryOp::Lt
        | BinaryOp::Le
        | BinaryOp::Gt
        | BinaryOp::Ge => unreachable!("comparisons are bound elsewhere"),
    }
}

/// A JSON operand as what the operator computes with.
fn operand_of(op: BinOp, written: &ast::Expr, value: Expr) -> Expr {
    match op {
        BinOp::BitOr | BinOp::BitAnd | BinOp::BitXor | BinOp::ShiftLeft | BinOp::ShiftRight => {
            json::integer(written, value)
        }
        BinOp::IntDiv => json::number(written, json::coalesced(value, Wanted::Decimal)),
        _ => json::number(written, value),
    }
}

fn arithmetic(
    env: &BindEnv<'_>,
    scope: &Scope<'_>,
    op: BinaryOp,
    left: &ast::Expr,
    right: &ast::Expr,
) -> SqlResult<Expr> {
    let op = kernel(op);
    let mut args = operands(env, scope, op, [left, right])?;
    let [a, b] = &args;
    func::refuse_geometries([&a.ty, &b.ty], op.symbol())?;
    env.meets(a, &b.ty);
    env.meets(b, &a.ty);
    if env.describe_only {
        take_types(&mut args);
    }
    let [a, b] = &args;
    let ty = arith::result_type(op, &a.ty, &b.ty, &ArithFacts::of(env.ctx));
    let coer = if ty.is_string() {
        Coercibility::Implicit
    } else {
        Coercibility::Numeric
    };
    let (a, b) = (print::text(scope, a), print::text(scope, b));
    let text = format!("({a} {} {b})", op.symbol()).into();
    Ok(Expr {
        kind: ExprKind::Arith(Box::new(Arith { op, args, text })),
        ty,
        coer,
    })
}

/// Operands as what the operator computes with: numbers, or binary strings.
fn operands(
    env: &BindEnv<'_>,
    scope: &Scope<'_>,
    op: BinOp,
    written: [&ast::Expr; 2],
) -> SqlResult<[Expr; 2]> {
    let [left, right] = written;
    let bound = [
        bind_operand(env, scope, left)?,
        bind_operand(env, scope, right)?,
    ];
    // Beside a binary string a hexadecimal literal is one, too.
    let mut literals = written.map(number_literal);
    let is_binary = |e: &Expr| e.ty.is_string() && e.ty.collation.is_binary();
    let is_column = [0, 1].map(|nth: usize| literals[nth].is_none() && is_binary(&bound[nth]));
    let stays = match op {
        BinOp::BitAnd | BinOp::BitOr | BinOp::BitXor if bound.iter().all(is_binary) => {
            [is_column[0] || is_column[1]; 2]
        }
        BinOp::ShiftLeft | BinOp::ShiftRight => [is_column[0], false],
        _ => [false; 2],
    };
    let wanted = match op {
        BinOp::BitAnd | BinOp::BitOr | BinOp::BitXor | BinOp::ShiftLeft | BinOp::ShiftRight => {
            Wanted::Bits
        }
        BinOp::IntDiv => Wanted::Decimal,
        BinOp::Add | BinOp::Sub | BinOp::Mul | BinOp::Div | BinOp::Mod => Wanted::Double,
    };
    let mut nth = 0;
    Ok(bound.map(|operand| {
        let (at, number) = (nth, literals[nth].take());
        nth += 1;
        let operand = match number {
            _ if stays[at] => operand,
            Some(number) => number,
            None => number_of(scope, operand, wanted),
        };
        operand_of(op, written[at], folded(env, scope, operand))
    }))
}

/// Before there are values, a parameter in a calculation is taken for a number of the other operand's kind.
fn take_types(args: &mut [Expr; 2]) {
    let known = args.each_ref().map(|e| {
        let is_param = matches!(e.kind, ExprKind::Param(_));
        (!is_param).then(|| e.ty.clone())
    });
    let [a, b] = args;
    for (param, other) in [(a, &known[1]), (b, &known[0])] {
        let (ExprKind::Param(_), Some(other)) = (&param.kind, other) else {
            continue;
        };
        param.ty = match &other.kind {
            TypeKind::Decimal => SqlType::decimal(65, 30),
            _ if other.is_integer() => SqlType {
                length: 21,
                ..SqlType::bigint(other.unsigned)
            },
            _ => continue,
        };
        param.coer = Coercibility::Numeric;
    }
}

fn bind_cast(
    env: &BindEnv<'_>,
    scope: &Scope<'_>,
    arg: &ast::Expr,
    data_type: &ast::DataType,
) -> SqlResult<Expr> {
    let mut ty = literal::cast_type(env, data_type)?;
    let (name, written) = (json::name_of(arg), arg);
    // BINARY and hexadecimal literals keep their bytes; numbers are numbers.
    let mut arg = match number_literal(arg) {
        Some(number) if ty.is_numeric() => number,
        _ if ty.kind == TypeKind::Json => json::bind_json_value(env, scope, arg)?,
        _ if ty.is_integer() => text_numbers::bind_cast_to_integer(env, scope, arg)?,
        _ if ty.is_numeric() => {
            let wanted = match ty.kind {
                TypeKind::Decimal => Wanted::Decimal,
                _ => Wanted::Double,
            };
            json::coalesced(bind_number(env, scope, arg, wanted)?, wanted)
        }
        _ => bind_expr(env, scope, arg)?,
    };
    let cannot_be = match ty.kind {
        TypeKind::BigInt if ty.unsigned => Some("cast_as_unsigned"),
        TypeKind::BigInt => Some("cast_as_signed"),
        TypeKind::Year => Some("cast_as_year"),
        _ => None,
    };
    if let Some(operation) = cannot_be {
        func::refuse_geometries([&arg.ty], operation)?;
    }
    parameter::cast_as_moment(env, written, &mut arg, &ty);
    if data_type.length.is_none() && ty.is_string() {
        let mut length = cast_length(&arg.ty);
        if ty.collation.is_binary() && arg.ty.is_string() {
            // As many bytes as the characters may have.
            length = length.saturating_mul(arg.ty.collation.charset().max_len());
        }
        if length <= MAX_VARCHAR_CHARS {
            ty = SqlType::varchar(length, ty.collation);
        }
    }
    // A cast may fail to NULL, except to a number.
    ty.nullable = arg.ty.nullable || !ty.is_numeric() || ty.kind == TypeKind::Year;
    let coer = if ty.is_string() || ty.kind == TypeKind::Json {
        Coercibility::Implicit
    } else {
        Coercibility::Numeric
    };
    Ok(Expr {
        kind: ExprKind::Cast(Box::new(arg), name),
        ty,
        coer,
    })
}

/// Longest VARCHAR in utf8mb4.
const MAX_VARCHAR_CHARS: u32 = 16_383;

/// Characters that CAST without a length leaves room for: no value of the type is cut, whatever
/// display width was declared.
fn cast_length(ty: &SqlType) -> u32 {
    /// `-2.2250738585072014e-308`.
    const DOUBLE_CHARS: u32 = 24;
    let least = match ty.kind {
        TypeKind::Double => DOUBLE_CHARS,
        _ if ty.is_integer() => SqlType::new(ty.kind.clone()).length,
        _ => 0,
    };
    match ty.length < least {
        true => least,
        false => text_length(ty),
    }
}

/// Characters a value of this type may take as text.
pub(super) fn text_length(ty: &SqlType) -> u32 {
    match &ty.kind {
        TypeKind::Decimal => ty.length + u32::from(ty.decimals > 0) + u32::from(!ty.unsigned),
        TypeKind::Bit => ty.length.div_ceil(8),
        TypeKind::Enum(labels) => labels
            .iter()
            .map(|l| l.chars().count() as u32)
            .max()
            .unwrap_or(0),
        TypeKind::Set(labels) => labels
            .iter()
            .map(|l| l.chars().count() as u32 + 1)
            .sum::<u32>()
            .saturating_sub(1),
        // The length of a computed temporal value does not always count its fraction.
        TypeKind::Time | TypeKind::DateTime | TypeKind::Timestamp => {
            let fraction = u32::from(ty.decimals) + u32::from(ty.decimals > 0);
            SqlType::new(ty.kind.clone()).length + fraction
        }
        _ => ty.length,
    }
}

fn collate(env: &BindEnv<'_>, scope: &Scope<'_>, arg: &ast::Expr, name: &str) -> SqlResult<Expr> {
    let collation = Collation::by_name(name).ok_or_else(|| errors::unknown_collation(name))?;
    let arg = bind_expr(env, scope, arg)?;
    let from = match arg.ty.kind {
        TypeKind::Enum(_) | TypeKind::Set(_) => Some(arg.ty.collation),
        // NULL is of bytes.
        TypeKind::Null => Some(Collation::BINARY),
        _ if arg.ty.is_string() => Some(arg.ty.collation),
        // A variable is a text where one is wanted.
        _ if matches!(arg.kind, ExprKind::UserVar(_)) => Some(env.ctx.collation_connection),
        // Numbers and temporal values have characters that are in every set.
        _ => None,
    };
    if let Some(from) = from.filter(|from| from.charset() != collation.charset()) {
        let charset = from.charset().name();
        return Err(errors::collation_mismatch(collation.name(), charset));
    }
    let mut ty = match arg.ty.is_string() {
        true => SqlType {
            collation,
            ..arg.ty.clone()
        },
        false => SqlType::varchar(text_length(&arg.ty), collation),
    };
    ty.nullable = arg.ty.nullable;
    let kind = ExprKind::Recollate(Box::new(arg));
    Ok(Expr {
        kind,
        ty,
        coer: Coercibility::Explicit,
    })
}

/// `VALUES(col)` in ON DUPLICATE KEY UPDATE; NULL elsewhere, as in MySQL.
fn inserted_value(scope: &Scope<'_>, column: &ast::ColumnRef) -> SqlResult<Expr> {
    let Some(base) = scope.values_base else {
        return Ok(Expr::null());
    };
    let unknown =
        || errors::unknown_column(super::scope::full_name(column), scope.clause.get().name());
    // It is a column of the table that is inserted into, whatever other tables have.
    let table = &scope.tables[0];
    let is_named =
        (column.table.as_ref()).is_none_or(|t| table.is_named(column.schema.as_ref(), t));
    let is_column =
        |c: &ScopeColumn| esker_sql_catalog::catalog::same_name(&c.name, &column.name.text);
    let at = table.columns.iter().position(is_column);
    let at = at.filter(|_| is_named).ok_or_else(unknown)?;
    scope.admit(ColumnAt {
        table: 0,
        column: at,
    })?;
    Ok(Expr::column(base + at as u32, table.columns[at].ty.clone()))
}

/// Runs `f` with other alias rules in force.
pub(super) fn with_aliases<T>(
    scope: &Scope<'_>,
    rule: AliasUse,
    f: impl FnOnce() -> SqlResult<T>,
) -> SqlResult<T> {
    let before = scope.aliases.rule.replace(rule);
    let result = f();
    scope.aliases.rule.set(before);
    result
}

/// Is it a constant that cannot be NULL? As in MySQL, `IS NULL` does not evaluate such a one, and warns of nothing.
fn is_never_null(env: &BindEnv<'_>, e: &Expr) -> bool {
    if e.ty.nullable || !e.is_constant() {
        return false;
    }
    let value = env.foresee(|eval_env| e.eval(&[], eval_env));
    value.is_ok_and(|value| !value.is_null())
}
