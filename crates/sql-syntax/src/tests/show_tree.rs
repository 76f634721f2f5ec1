//! A fully parenthesised one-line form of expressions, to compare trees with.

use crate::ast::{ColumnRef, Expr, IsTest, Literal, UnaryOp};

fn list(items: &[Expr]) -> String {
    items.iter().map(show).collect::<Vec<_>>().join(", ")
}

fn column(c: &ColumnRef) -> String {
    let parts = [c.schema.as_ref(), c.table.as_ref(), Some(&c.name)];
    parts
        .into_iter()
        .flatten()
        .map(|i| i.text.to_string())
        .collect::<Vec<_>>()
        .join(".")
}

fn not(negated: bool) -> &'static str {
    if negated { "NOT " } else { "" }
}

fn literal(value: &Literal) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let intro = |c: &Option<Box<str>>| c.as_ref().map_or(String::new(), |c| format!("_{c}"));
    let hex = |bytes: &[u8]| bytes.iter().map(|b| format!("{b:02x}")).collect::<String>();
    match value {
        Literal::Null => "NULL".into(),
        Literal::Bool(b) => b.to_string().to_uppercase(),
        Literal::Int(v) => v.to_string(),
        Literal::Decimal(v) => format!("{v}m"),
        Literal::Double(v) => format!("{v}d"),
        Literal::Str { bytes, charset } => format!("{}'{}'", intro(charset), text(bytes)),
        Literal::Hex { bytes, charset } => format!("{}x'{}'", intro(charset), hex(bytes)),
        Literal::Bit { bytes, charset } => format!("{}b'{}'", intro(charset), hex(bytes)),
        Literal::Date(v) => format!("DATE'{}'", text(v)),
        Literal::Time(v) => format!("TIME'{}'", text(v)),
        Literal::Timestamp(v) => format!("TIMESTAMP'{}'", text(v)),
    }
}

/// One line, every operator in parentheses.
pub fn show(e: &Expr) -> String {
    match e {
        Expr::Literal(value) => literal(value),
        Expr::Param(n) => format!("?{n}"),
        Expr::Column(c) => column(c),
        Expr::UserVar(v) => format!("@{v}"),
        Expr::Assign { var, value } => format!("(@{var} := {})", show(value)),
        Expr::SysVar(v) => format!("@@{:?}.{}", v.scope, v.name),
        Expr::Unary { op, expr } => {
            let op = match op {
                UnaryOp::Neg => "-",
                UnaryOp::Plus => "+",
                UnaryOp::BitNot => "~",
            };
            format!("({op}{})", show(expr))
        }
        Expr::Binary { op, left, right } => {
            format!("({} {} {})", show(left), op.text(), show(right))
        }
        Expr::And(items) => {
            format!(
                "({})",
                items.iter().map(show).collect::<Vec<_>>().join(" AND ")
            )
        }
        Expr::Or(items) => format!(
            "({})",
            items.iter().map(show).collect::<Vec<_>>().join(" OR ")
        ),
        Expr::Xor(a, b) => format!("({} XOR {})", show(a), show(b)),
        Expr::Not(a) => format!("(NOT {})", show(a)),
        Expr::Is {
            expr,
            negated,
            test,
        } => {
            let test = match test {
                IsTest::Null => "NULL",
                IsTest::True => "TRUE",
                IsTest::False => "FALSE",
            };
            format!("({} IS {}{test})", show(expr), not(*negated))
        }
        Expr::Like {
            expr,
            pattern,
            escape,
            negated,
        } => {
            let escape = escape
                .as_ref()
                .map_or(String::new(), |e| format!(" ESCAPE {}", show(e)));
            format!(
                "({} {}LIKE {}{escape})",
                show(expr),
                not(*negated),
                show(pattern)
            )
        }
        Expr::Regexp {
            expr,
            pattern,
            negated,
        } => {
            format!("({} {}REGEXP {})", show(expr), not(*negated), show(pattern))
        }
        Expr::Between {
            expr,
            low,
            high,
            negated,
        } => {
            let (low, high) = (show(low), show(high));
            format!("({} {}BETWEEN {low} AND {high})", show(expr), not(*negated))
        }
        Expr::InList {
            expr,
            list: members,
            negated,
        } => {
            format!("({} {}IN [{}])", show(expr), not(*negated), list(members))
        }
        Expr::InSubquery { expr, negated, .. } => {
            format!("({} {}IN query)", show(expr), not(*negated))
        }
        Expr::Exists(_) => "EXISTS query".into(),
        Expr::Quantified { op, expr, all, .. } => {
            let word = if *all { "ALL" } else { "ANY" };
            format!("({} {} {word} query)", show(expr), op.text())
        }
        Expr::Subquery(_) => "query".into(),
        Expr::Case {
            operand,
            whens,
            otherwise,
        } => {
            let mut out = String::from("CASE");
            if let Some(e) = operand {
                out += &format!(" {}", show(e));
            }
            for (when, then) in whens {
                out += &format!(" WHEN {} THEN {}", show(when), show(then));
            }
            if let Some(e) = otherwise {
                out += &format!(" ELSE {}", show(e));
            }
            out + " END"
        }
        Expr::Cast { expr, ty } => {
            let mut out = format!("CAST({} AS {:?}", show(expr), ty.name);
            for n in [ty.length, ty.decimals].into_iter().flatten() {
                out += &format!(" {n}");
            }
            if ty.unsigned {
                out += " unsigned";
            }
            if let Some(charset) = &ty.charset {
                out += &format!(" {charset}");
            }
            out + ")"
        }
        Expr::Call(call) => {
            let star = if call.star { "*" } else { "" };
            let distinct = if call.distinct { "DISTINCT " } else { "" };
            let mut out = format!("{}({star}{distinct}{}", call.name, list(&call.args));
            for item in &call.order_by {
                out += &format!(
                    " ORDER {}{}",
                    show(&item.expr),
                    if item.desc { " DESC" } else { "" }
                );
            }
            if let Some(separator) = &call.separator {
                out += &format!(" SEPARATOR '{}'", String::from_utf8_lossy(separator));
            }
            out += ")";
            if call.over.is_some() {
                out += " OVER";
            }
            out
        }
        Expr::Row(items) => format!("ROW({})", list(items)),
        Expr::Default(None) => "DEFAULT".into(),
        Expr::Default(Some(c)) => format!("DEFAULT({})", column(c)),
        Expr::Values(c) => format!("VALUES({})", column(c)),
        Expr::Match {
            columns,
            against,
            mode,
        } => {
            let columns = columns.iter().map(column).collect::<Vec<_>>().join(", ");
            format!("MATCH({columns}) AGAINST({} {mode:?})", show(against))
        }
        Expr::JsonArrow {
            column: c,
            path,
            unquote,
        } => {
            format!(
                "({} {} '{path}')",
                column(c),
                if *unquote { "->>" } else { "->" }
            )
        }
        Expr::MemberOf { expr, array } => format!("({} MEMBER OF {})", show(expr), show(array)),
        Expr::JsonValue(call) => format!("json_value({}, {:?})", show(&call.doc), call.path),
        Expr::Collate { expr, collation } => format!("({} COLLATE {collation})", show(expr)),
    }
}
