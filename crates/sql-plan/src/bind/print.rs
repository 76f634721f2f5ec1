//! Bound expressions as MySQL prints them in messages.
//!
//! Neighbours: arithmetic keeps its text for error 1690, EXPLAIN prints conditions.
//! **Invariant**: the text is for people; nothing parses it again, so what has no short form is
//! abbreviated.

use esker_types::cast;
use esker_types::{TypeKind, Value};

use super::scope::Scope;
use crate::expr::{Expr, ExprKind};

/// Longest text kept; the rest is cut.
const MAX_TEXT_BYTES: usize = 256;

/// The expression's text.
pub(crate) fn text(scope: &Scope<'_>, e: &Expr) -> String {
    let mut out = String::new();
    write(scope, e, &mut out);
    if out.len() > MAX_TEXT_BYTES {
        let cut = (0..=MAX_TEXT_BYTES)
            .rev()
            .find(|i| out.is_char_boundary(*i))
            .unwrap_or(0);
        out.truncate(cut);
    }
    out
}

fn write(scope: &Scope<'_>, e: &Expr, out: &mut String) {
    match &e.kind {
        ExprKind::Const(v) => constant(v, e, out),
        ExprKind::Column(slot) => column(scope, *slot, out),
        ExprKind::Outer { depth, slot } => {
            let mut at = scope.parent;
            for _ in 1..*depth {
                at = at.and_then(|s| s.parent);
            }
            match at {
                Some(scope) => column(scope, *slot, out),
                None => out.push('?'),
            }
        }
        ExprKind::Param(_) => out.push('?'),
        ExprKind::UserVar(name) => {
            out.push('@');
            out.push_str(name);
        }
        ExprKind::Arith(a) => out.push_str(&a.text),
        ExprKind::Unary(u) => out.push_str(&u.text),
        ExprKind::Func(call) => list(scope, call.def.name, &call.args, out),
        ExprKind::Coalesce(args) => list(scope, "coalesce", args, out),
        ExprKind::Aggregate(nth) => match scope.aggs.borrow().get(*nth as usize) {
            Some(call) => list(scope, call.def.name, &call.args, out),
            None => out.push('?'),
        },
        ExprKind::Cast(arg, _) if e.ty.kind == TypeKind::BigInt => {
            out.push_str("cast(");
            write(scope, arg, out);
            let sign = if e.ty.unsigned { "unsigned" } else { "signed" };
            out.push_str(" as ");
            out.push_str(sign);
            out.push(')');
        }
        ExprKind::Cast(arg, _)
        | ExprKind::Convert(arg)
        | ExprKind::Recollate(arg)
        | ExprKind::Number(arg, _) => write(scope, arg, out),
        ExprKind::Subquery(_) => out.push_str("(subquery)"),
        _ => out.push('…'),
    }
}

fn list(scope: &Scope<'_>, name: &str, args: &[Expr], out: &mut String) {
    out.push_str(name);
    out.push('(');
    for (nth, arg) in args.iter().enumerate() {
        if nth > 0 {
            out.push(',');
        }
        write(scope, arg, out);
    }
    out.push(')');
}

fn constant(v: &Value, e: &Expr, out: &mut String) {
    match v {
        Value::Null => out.push_str("NULL"),
        Value::Str(_) | Value::Date(_) | Value::Time(_) | Value::DateTime(_) | Value::Label(..) => {
            out.push('\'');
            out.push_str(&String::from_utf8_lossy(&cast::to_str(v, &e.ty)));
            out.push('\'');
        }
        _ => out.push_str(&String::from_utf8_lossy(&cast::to_str(v, &e.ty))),
    }
}

fn column(scope: &Scope<'_>, slot: u32, out: &mut String) {
    let Some(at) = scope.column_of_slot(slot) else {
        out.push('?');
        return;
    };
    let table = &scope.tables[at.table];
    let parts = [&table.schema, &table.alias, &table.columns[at.column].name];
    for (nth, part) in parts.into_iter().filter(|p| !p.is_empty()).enumerate() {
        if nth > 0 {
            out.push('.');
        }
        out.push('`');
        out.push_str(part);
        out.push('`');
    }
}
