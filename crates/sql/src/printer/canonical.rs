//! Trees in the shape that MySQL's parser gives them: conditions are boolean, NOT is pushed down, functions have one
//! name each.
//!
//! Neighbours: `expr` and `query` print what comes out.
//! **Invariants**: the result means the same; doing it twice changes nothing.

use esker_sql_syntax::ast::{
    BinaryOp, Call, ColumnRef, DataType, Expr, IsTest, JoinOn, Literal, PartMut, Query, QueryBody,
    Select, SelectItem, SetOp, SetOpStep, TableRef, TypeName, UnaryOp,
};
use esker_types::func::{self, aggregate};

/// Functions that MySQL prints under another name.
const SYNONYMS: &[(&str, &str)] = &[
    ("atan2", "atan"),
    ("ceil", "ceiling"),
    ("character_length", "char_length"),
    ("day", "dayofmonth"),
    ("json_merge", "json_merge_preserve"),
    ("lcase", "lower"),
    ("mid", "substr"),
    ("octet_length", "length"),
    ("power", "pow"),
    ("schema", "database"),
    ("sha1", "sha"),
    ("stddev", "std"),
    ("stddev_pop", "std"),
    ("substring", "substr"),
    ("ucase", "upper"),
    ("var_pop", "variance"),
];

/// Functions that are conditions.
const CONDITIONS: &[&str] = &[
    "is_ipv4",
    "is_ipv4_compat",
    "is_ipv4_mapped",
    "is_ipv6",
    "is_uuid",
    "json_contains",
    "json_contains_path",
    "json_overlaps",
    "json_schema_valid",
    "json_valid",
    "regexp_like",
];

/// An expression that stands for a value.
pub(super) fn expr(e: &mut Expr) {
    for part in e.parts_mut() {
        match part {
            PartMut::Expr(e) => expr(e),
            PartMut::Query(q) => query(q),
            PartMut::Column(_) => {}
        }
    }
    match e {
        Expr::And(all) => {
            let parts = std::mem::take(all);
            *all = joined(parts, |e| match e {
                Expr::And(parts) => Ok(parts),
                e => Err(e),
            });
        }
        Expr::Or(all) => {
            let parts = std::mem::take(all);
            *all = joined(parts, |e| match e {
                Expr::Or(parts) => Ok(parts),
                e => Err(e),
            });
        }
        Expr::Xor(a, b) => {
            **a = truth(take(a));
            **b = truth(take(b));
        }
        Expr::Is {
            expr,
            test: IsTest::True | IsTest::False,
            ..
        } => **expr = truth(take(expr)),
        _ => *e = replaced(take(e)),
    }
}

/// Leaves NULL behind.
fn take(e: &mut Expr) -> Expr {
    std::mem::replace(e, Expr::Literal(Literal::Null))
}

/// Operands of AND or OR; those of an operand of the same kind are among them.
fn joined(parts: Vec<Expr>, same: fn(Expr) -> Result<Vec<Expr>, Expr>) -> Vec<Expr> {
    let mut all = Vec::with_capacity(parts.len());
    for part in parts {
        match same(part) {
            Ok(inner) => all.extend(inner),
            Err(part) => all.push(truth(part)),
        }
    }
    all
}

/// The expression's own node; what is below it is canonical.
fn replaced(e: Expr) -> Expr {
    match e {
        Expr::Not(e) => negated(*e),
        Expr::Regexp {
            expr,
            pattern,
            negated,
        } => {
            let call = named("regexp_like", vec![*expr, *pattern]);
            if negated { not(call) } else { call }
        }
        Expr::Like {
            expr,
            pattern,
            escape,
            negated: true,
        } => not(Expr::Like {
            expr,
            pattern,
            escape,
            negated: false,
        }),
        Expr::InList {
            expr,
            mut list,
            negated,
        } if list.len() == 1 => {
            let op = if negated { BinaryOp::Ne } else { BinaryOp::Eq };
            compared(op, *expr, list.remove(0))
        }
        Expr::Binary { op, left, right } => compared(op, *left, *right),
        Expr::Quantified {
            op,
            expr,
            all,
            query,
        } if op == (if all { BinaryOp::Ne } else { BinaryOp::Eq }) => Expr::InSubquery {
            expr,
            query,
            negated: all,
        },
        Expr::JsonArrow {
            column,
            path,
            unquote,
        } => {
            let value = json_extract(column, &path);
            match unquote {
                true => named("json_unquote", vec![value]),
                false => value,
            }
        }
        Expr::Unary {
            op: UnaryOp::Plus,
            expr,
        } => *expr,
        Expr::Literal(Literal::Decimal(text)) if text.starts_with('.') => {
            Expr::Literal(Literal::Decimal(format!("0{text}").into()))
        }
        Expr::Call(call) => called(*call),
        e => e,
    }
}

fn json_extract(column: ColumnRef, path: &str) -> Expr {
    let path = Expr::Literal(Literal::Str {
        bytes: path.as_bytes().to_vec(),
        charset: None,
    });
    named("json_extract", vec![Expr::Column(column), path])
}

/// A binary operation; rows are compared member by member.
fn compared(op: BinaryOp, left: Expr, right: Expr) -> Expr {
    let equality = matches!(op, BinaryOp::Eq | BinaryOp::Ne | BinaryOp::NullSafeEq);
    match (left, right) {
        (Expr::Row(a), Expr::Row(b)) if equality && a.len() == b.len() => {
            let pairs = a.into_iter().zip(b);
            let all = pairs.map(|(a, b)| compared(op, a, b)).collect();
            match op {
                BinaryOp::Ne => Expr::Or(all),
                _ => Expr::And(all),
            }
        }
        (left, right) => binary(op, left, right),
    }
}

fn binary(op: BinaryOp, left: Expr, right: Expr) -> Expr {
    Expr::Binary {
        op,
        left: Box::new(left),
        right: Box::new(right),
    }
}

fn int(value: u64) -> Expr {
    Expr::Literal(Literal::Int(value))
}

fn not(e: Expr) -> Expr {
    Expr::Not(Box::new(e))
}

fn named(name: &str, args: Vec<Expr>) -> Expr {
    Expr::Call(Box::new(Call::plain(
        esker_sql_syntax::ast::Ident::new(name),
        args,
    )))
}

fn cast(expr: Expr, to: TypeName) -> Expr {
    Expr::Cast {
        expr: Box::new(expr),
        ty: Box::new(DataType::new(to)),
    }
}

/// A condition: what is none is compared with 0.
fn truth(e: Expr) -> Expr {
    if is_condition(&e, is_predicate) {
        e
    } else {
        binary(BinaryOp::Ne, int(0), e)
    }
}

/// A function whose value is true, false or NULL, as the printer sees it.
fn is_predicate(call: &Call) -> bool {
    call.over.is_none() && CONDITIONS.contains(&&*call.name.text)
}

/// Is the value true, false or NULL by the form of the expression? `is_predicate` says it of functions.
pub(crate) fn is_condition(e: &Expr, is_predicate: impl FnOnce(&Call) -> bool) -> bool {
    match e {
        Expr::Call(call) => is_predicate(call),
        Expr::Unary {
            op: UnaryOp::Plus,
            expr,
        } => is_condition(expr, is_predicate),
        other => other.is_truth(),
    }
}

/// NOT of a canonical expression.
fn negated(e: Expr) -> Expr {
    match e {
        Expr::Binary { op, left, right } if opposite(op).is_some() => {
            binary(opposite(op).unwrap_or(op), *left, *right)
        }
        Expr::Not(e) => *e,
        Expr::And(all) => Expr::Or(all.into_iter().map(negated).collect()),
        Expr::Or(all) => Expr::And(all.into_iter().map(negated).collect()),
        Expr::Xor(a, b) => Expr::Xor(Box::new(negated(*a)), b),
        Expr::Is {
            expr,
            negated,
            test,
        } => Expr::Is {
            expr,
            negated: !negated,
            test,
        },
        Expr::Between {
            expr,
            low,
            high,
            negated,
        } => Expr::Between {
            expr,
            low,
            high,
            negated: !negated,
        },
        Expr::InList {
            expr,
            list,
            negated,
        } => Expr::InList {
            expr,
            list,
            negated: !negated,
        },
        Expr::InSubquery {
            expr,
            query,
            negated: true,
        } => Expr::InSubquery {
            expr,
            query,
            negated: false,
        },
        Expr::Quantified {
            op,
            expr,
            all,
            query,
        } if opposite(op).is_some() => replaced(Expr::Quantified {
            op: opposite(op).unwrap_or(op),
            expr,
            all: !all,
            query,
        }),
        e if is_condition(&e, is_predicate) => not(e),
        e => binary(BinaryOp::Eq, int(0), e),
    }
}

fn opposite(op: BinaryOp) -> Option<BinaryOp> {
    Some(match op {
        BinaryOp::Eq => BinaryOp::Ne,
        BinaryOp::Ne => BinaryOp::Eq,
        BinaryOp::Lt => BinaryOp::Ge,
        BinaryOp::Ge => BinaryOp::Lt,
        BinaryOp::Gt => BinaryOp::Le,
        BinaryOp::Le => BinaryOp::Gt,
        _ => return None,
    })
}

/// Is it a call of a stored function?
pub(crate) fn is_stored(call: &Call) -> bool {
    let name = &*call.name.text;
    let is_known = || {
        call.over.is_some()
            || name.eq_ignore_ascii_case("grouping")
            || aggregate::lookup(name).is_some()
            || func::lookup(name).is_some()
    };
    call.schema.is_some() || !is_known()
}

/// A call under MySQL's name for it.
fn called(mut call: Call) -> Expr {
    if is_stored(&call) {
        return Expr::Call(Box::new(call));
    }
    let lower = call.name.text.to_ascii_lowercase();
    let synonym = SYNONYMS.iter().find(|(from, _)| *from == lower);
    let name = synonym.map_or(&*lower, |(_, to)| *to);
    if call.star {
        call.star = false;
        call.args = vec![int(0)];
    }
    if matches!(name, "max" | "min") {
        call.distinct = false;
    }
    let Call { args, .. } = &mut call;
    let replaced = match (name, args.as_mut_slice()) {
        ("date", [e]) => Some(cast(take(e), TypeName::Date)),
        ("time", [e]) => Some(cast(take(e), TypeName::Time)),
        ("timestamp", [e]) => Some(cast(take(e), TypeName::DateTime)),
        ("isnull", [e]) => Some(Expr::Is {
            expr: Box::new(take(e)),
            negated: false,
            test: IsTest::Null,
        }),
        ("mod", [a, b]) => Some(binary(BinaryOp::Mod, take(a), take(b))),
        ("instr", [text, part]) => Some(named("locate", vec![take(part), take(text)])),
        ("datediff", [a, b]) => {
            let days = |e: &mut Expr| named("to_days", vec![take(e)]);
            Some(binary(BinaryOp::Sub, days(a), days(b)))
        }
        ("bin", [e]) => Some(named("conv", vec![take(e), int(10), int(2)])),
        ("oct", [e]) => Some(named("conv", vec![take(e), int(10), int(8)])),
        ("from_unixtime", [e, format]) => {
            let at = named("from_unixtime", vec![take(e)]);
            Some(named("date_format", vec![at, take(format)]))
        }
        ("json_length", [document, path]) => {
            let part = named("json_extract", vec![take(document), take(path)]);
            Some(named("json_length", vec![part]))
        }
        ("yearweek" | "round", [e]) => Some(named(name, vec![take(e), int(0)])),
        ("weekofyear", [e]) => Some(named("week", vec![take(e), int(3)])),
        (_, [amount, date]) => name
            .strip_prefix("timestampadd_")
            .map(|unit| named(&format!("date_add_{unit}"), vec![take(date), take(amount)])),
        _ => None,
    };
    let name = name.to_owned();
    replaced.unwrap_or_else(|| {
        call.name.text = name.into();
        Expr::Call(Box::new(call))
    })
}

/// An expression of WHERE, ON or HAVING, where UNKNOWN is as good as FALSE.
fn condition(e: &mut Expr) {
    expr(e);
    *e = truth(take(e));
    unknown_is_false(e);
}

fn unknown_is_false(e: &mut Expr) {
    match e {
        Expr::And(all) | Expr::Or(all) => all.iter_mut().for_each(unknown_is_false),
        Expr::InSubquery { negated, .. } if *negated => {
            *negated = false;
            *e = Expr::Is {
                expr: Box::new(take(e)),
                negated: false,
                test: IsTest::False,
            };
        }
        _ => {}
    }
}

/// A query and everything in it. Locks are no part of what a view is.
pub(super) fn query(q: &mut Query) {
    for cte in q.with.iter_mut().flat_map(|with| &mut with.ctes) {
        query(&mut cte.query);
    }
    body(&mut q.body);
    for item in &mut q.order_by {
        expr(&mut item.expr);
    }
    q.locking.clear();
}

fn body(body: &mut QueryBody) {
    match body {
        QueryBody::Select(select) => block(select),
        QueryBody::Nested(inner) => {
            query(inner);
            let plain = inner.with.is_none() && inner.order_by.is_empty() && inner.limit.is_none();
            if plain && matches!(inner.body, QueryBody::Select(_)) {
                *body = std::mem::replace(&mut inner.body, QueryBody::Values(Vec::new()));
            }
        }
        QueryBody::Values(rows) => rows.iter_mut().flatten().for_each(expr),
        QueryBody::SetOps { first, rest } => {
            self::body(first);
            for step in rest.iter_mut() {
                self::body(&mut step.right);
            }
            flatten(first, rest);
            // UNION after UNION ALL removes the duplicates of both.
            let distinct = |step: &SetOpStep| step.op == SetOp::Union && !step.all;
            let unions = rest.iter().take_while(|s| s.op == SetOp::Union).count();
            let last = rest[..unions].iter().rposition(distinct).unwrap_or(0);
            for step in &mut rest[..last] {
                step.all = false;
            }
        }
        QueryBody::Table(_) => {}
    }
}

/// Puts the operations of the leftmost operand before the others, and those of operands of UNION that are UNIONs
/// themselves among them.
fn flatten(first: &mut QueryBody, rest: &mut Vec<SetOpStep>) {
    while let QueryBody::SetOps {
        first: leftmost,
        rest: inner,
    } = first
    {
        inner.append(rest);
        *rest = std::mem::take(inner);
        *first = std::mem::replace(leftmost, QueryBody::Values(Vec::new()));
    }
    let is_union = |step: &SetOpStep| step.op == SetOp::Union;
    let mut steps = Vec::with_capacity(rest.len());
    for mut step in rest.drain(..) {
        match step.right {
            QueryBody::SetOps { first, rest }
                if step.op == SetOp::Union && !step.all && rest.iter().all(is_union) =>
            {
                step.right = *first;
                steps.push(step);
                steps.extend(
                    rest.into_iter()
                        .map(|step| SetOpStep { all: false, ..step }),
                );
            }
            right => steps.push(SetOpStep { right, ..step }),
        }
    }
    *rest = steps;
}

fn block(select: &mut Select) {
    for item in &mut select.items {
        if let SelectItem::Expr { expr: e, .. } = item {
            expr(e);
        }
    }
    select.from.iter_mut().for_each(table);
    for e in select.filter.iter_mut().chain(&mut select.having) {
        condition(e);
    }
    select.group_by.iter_mut().for_each(expr);
    for (_, window) in &mut select.windows {
        window.exprs_mut().into_iter().for_each(expr);
    }
    select.options.calc_found_rows = false;
    select.options.no_cache = false;
}

fn table(entry: &mut TableRef) {
    match entry {
        TableRef::Table(_) => {}
        TableRef::Derived { query: q, .. } => query(q),
        TableRef::Json { doc, .. } => expr(doc),
        TableRef::List(members) => members.iter_mut().for_each(table),
        TableRef::Join(join) => {
            table(&mut join.left);
            table(&mut join.right);
            if let Some(JoinOn::On(on)) = &mut join.on {
                condition(on);
            }
        }
    }
}
