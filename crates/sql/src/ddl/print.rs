//! Expressions that a table keeps, in the form MySQL prints them: lower-case functions, names in
//! backticks, every operator in parentheses.
//!
//! Neighbours: `columns` and `draft` store DEFAULT (expr) and CHECK in this form, SHOW CREATE TABLE
//! shows it, `dml` parses it again.
//! **Invariants**: the text means the same in every SQL mode the server starts with (no double quotes,
//! no `||`, backslashes doubled); parsing it gives the tree it was printed from, but for literals'
//! character sets.

use std::fmt::Write;

use esker_sql_syntax::ast::{Call, DataType, Expr, IsTest, Literal, TypeName, UnaryOp};
use esker_types::{SqlError, SqlResult};

/// The text of an expression; 1235 for what a table cannot keep (subqueries, variables, windows).
pub(super) fn expr_text(expr: &Expr) -> SqlResult<Box<str>> {
    let mut out = String::new();
    Printer { out: &mut out }.expr(expr)?;
    Ok(out.into())
}

/// Calls that were lowered from a form with words inside: prefix of the name, how it is written.
const LOWERED: &[(&str, Lowered)] = &[
    ("date_add_", Lowered::Interval('+')),
    ("date_sub_", Lowered::Interval('-')),
    ("extract_", Lowered::Extract),
    ("timestampadd_", Lowered::UnitFirst("timestampadd")),
    ("timestampdiff_", Lowered::UnitFirst("timestampdiff")),
    ("trim_", Lowered::Trim),
    ("char_using_", Lowered::Using("char")),
    ("convert_using_", Lowered::Using("convert")),
];

#[derive(Clone, Copy)]
enum Lowered {
    Interval(char),
    Extract,
    UnitFirst(&'static str),
    Trim,
    Using(&'static str),
}

fn refused(what: &str) -> SqlError {
    SqlError::not_supported(format_args!("{what} in an expression that a table keeps"))
}

struct Printer<'a> {
    out: &'a mut String,
}

impl Printer<'_> {
    fn push(&mut self, text: &str) {
        self.out.push_str(text);
    }

    fn name(&mut self, name: &str) {
        let _ = write!(self.out, "`{}`", name.replace('`', "``"));
    }

    /// Operands with a word between them, in parentheses.
    fn joined(&mut self, operands: &[&Expr], word: &str) -> SqlResult<()> {
        self.push("(");
        for (at, operand) in operands.iter().enumerate() {
            if at > 0 {
                let _ = write!(self.out, " {word} ");
            }
            self.expr(operand)?;
        }
        self.push(")");
        Ok(())
    }

    fn list(&mut self, exprs: &[Expr]) -> SqlResult<()> {
        for (at, expr) in exprs.iter().enumerate() {
            if at > 0 {
                self.push(",");
            }
            self.expr(expr)?;
        }
        Ok(())
    }

    fn expr(&mut self, expr: &Expr) -> SqlResult<()> {
        match expr {
            Expr::Literal(l) => self.literal(l),
            Expr::Column(c) => self.name(&c.name.text),
            Expr::Unary { op, expr } => return self.unary(*op, expr),
            Expr::Binary { op, left, right } => {
                let word = op.text().to_ascii_lowercase();
                return self.joined(&[left, right], &word);
            }
            Expr::And(all) => return self.joined(&all.iter().collect::<Vec<_>>(), "and"),
            Expr::Or(all) => return self.joined(&all.iter().collect::<Vec<_>>(), "or"),
            Expr::Xor(a, b) => return self.joined(&[a, b], "xor"),
            Expr::Not(e) => return self.around("(not(", e, "))"),
            Expr::Is {
                expr,
                negated,
                test,
            } => return self.is(expr, *negated, *test),
            Expr::Like {
                expr,
                pattern,
                escape,
                negated,
            } => {
                let word = if *negated { "not like" } else { "like" };
                return self.like(expr, pattern, escape.as_deref(), word);
            }
            Expr::Regexp {
                expr,
                pattern,
                negated,
            } => {
                let word = if *negated { "not regexp" } else { "regexp" };
                return self.joined(&[expr, pattern], word);
            }
            Expr::Between {
                expr,
                low,
                high,
                negated,
            } => {
                return self.between(expr, low, high, *negated);
            }
            Expr::InList {
                expr,
                list,
                negated,
            } => return self.in_list(expr, list, *negated),
            Expr::Case {
                operand,
                whens,
                otherwise,
            } => {
                return self.case(operand.as_deref(), whens, otherwise.as_deref());
            }
            Expr::Cast { expr, ty } => return self.cast(expr, ty),
            Expr::Call(call) => return self.call(call),
            Expr::Row(members) => {
                self.push("(");
                self.list(members)?;
                self.push(")");
            }
            Expr::Default(Some(column)) => {
                self.push("default(");
                self.name(&column.name.text);
                self.push(")");
            }
            Expr::Collate { expr, collation } => {
                self.push("(");
                self.expr(expr)?;
                let _ = write!(self.out, " collate {collation})");
            }
            Expr::Param(_) | Expr::UserVar(_) | Expr::Assign { .. } | Expr::SysVar(_) => {
                return Err(refused("a variable"));
            }
            Expr::InSubquery { .. }
            | Expr::Exists(_)
            | Expr::Quantified { .. }
            | Expr::Subquery(_) => return Err(refused("a subquery")),
            Expr::Default(None) | Expr::Values(_) => return Err(refused("DEFAULT or VALUES")),
            Expr::Match { .. } => return Err(refused("MATCH")),
            Expr::JsonArrow {
                column,
                path,
                unquote,
            } => {
                self.push(if *unquote {
                    "json_unquote(json_extract("
                } else {
                    "json_extract("
                });
                self.name(&column.name.text);
                self.push(",_utf8mb4");
                self.quoted(path.as_bytes());
                self.push(if *unquote { "))" } else { ")" });
            }
            Expr::MemberOf { expr, array } => {
                self.expr(expr)?;
                self.around(" member of (", array, ")")?;
            }
            Expr::JsonValue(_) => return Err(refused("JSON_VALUE")),
        }
        Ok(())
    }

    fn around(&mut self, before: &str, expr: &Expr, after: &str) -> SqlResult<()> {
        self.push(before);
        self.expr(expr)?;
        self.push(after);
        Ok(())
    }

    fn unary(&mut self, op: UnaryOp, expr: &Expr) -> SqlResult<()> {
        match (op, expr) {
            (UnaryOp::Plus, e) => self.expr(e),
            (UnaryOp::Neg, e) => self.around("-(", e, ")"),
            (UnaryOp::BitNot, e) => self.around("~(", e, ")"),
        }
    }

    fn is(&mut self, expr: &Expr, negated: bool, test: IsTest) -> SqlResult<()> {
        let test = match test {
            IsTest::Null => "null",
            IsTest::True => "true",
            IsTest::False => "false",
        };
        let not = if negated { "not " } else { "" };
        self.around("(", expr, &format!(" is {not}{test})"))
    }

    fn like(
        &mut self,
        expr: &Expr,
        pattern: &Expr,
        escape: Option<&Expr>,
        word: &str,
    ) -> SqlResult<()> {
        self.around("(", expr, &format!(" {word} "))?;
        self.expr(pattern)?;
        if let Some(escape) = escape {
            self.around(" escape ", escape, "")?;
        }
        self.push(")");
        Ok(())
    }

    fn between(&mut self, expr: &Expr, low: &Expr, high: &Expr, negated: bool) -> SqlResult<()> {
        let not = if negated { "not " } else { "" };
        self.around("(", expr, &format!(" {not}between "))?;
        self.expr(low)?;
        self.around(" and ", high, ")")
    }

    fn in_list(&mut self, expr: &Expr, list: &[Expr], negated: bool) -> SqlResult<()> {
        let not = if negated { "not " } else { "" };
        self.around("(", expr, &format!(" {not}in ("))?;
        self.list(list)?;
        self.push("))");
        Ok(())
    }

    fn case(
        &mut self,
        operand: Option<&Expr>,
        whens: &[(Expr, Expr)],
        otherwise: Option<&Expr>,
    ) -> SqlResult<()> {
        self.push("(case");
        if let Some(operand) = operand {
            self.around(" ", operand, "")?;
        }
        for (when, then) in whens {
            self.around(" when ", when, "")?;
            self.around(" then ", then, "")?;
        }
        if let Some(otherwise) = otherwise {
            self.around(" else ", otherwise, "")?;
        }
        self.push(" end)");
        Ok(())
    }

    fn cast(&mut self, expr: &Expr, ty: &DataType) -> SqlResult<()> {
        self.around("cast(", expr, &format!(" as {})", cast_type(ty)?))
    }

    fn call(&mut self, call: &Call) -> SqlResult<()> {
        let plain = call.schema.is_none()
            && !call.star
            && !call.distinct
            && call.order_by.is_empty()
            && call.over.is_none();
        if !plain {
            return Err(refused("an aggregate or window function"));
        }
        let name = call.name.text.to_ascii_lowercase();
        for (prefix, form) in LOWERED {
            if let Some(word) = name.strip_prefix(prefix) {
                return self.lowered(*form, word, &call.args);
            }
        }
        let _ = write!(self.out, "{name}(");
        self.list(&call.args)?;
        self.push(")");
        Ok(())
    }

    fn lowered(&mut self, form: Lowered, word: &str, args: &[Expr]) -> SqlResult<()> {
        match (form, args) {
            (Lowered::Interval(sign), [date, amount]) => {
                self.around("(", date, &format!(" {sign} interval "))?;
                self.around("", amount, &format!(" {word})"))
            }
            (Lowered::Extract, [date]) => self.around(&format!("extract({word} from "), date, ")"),
            (Lowered::UnitFirst(name), [a, b]) => {
                self.around(&format!("{name}({word},"), a, ",")?;
                self.around("", b, ")")
            }
            (Lowered::Trim, [text, what]) => {
                self.around(&format!("trim({word} "), what, " from ")?;
                self.around("", text, ")")
            }
            (Lowered::Using(name), args) => {
                let _ = write!(self.out, "{name}(");
                self.list(args)?;
                let _ = write!(self.out, " using {word})");
                Ok(())
            }
            _ => Err(refused(word)),
        }
    }

    fn literal(&mut self, literal: &Literal) {
        match literal {
            Literal::Null => self.push("NULL"),
            Literal::Bool(true) => self.push("true"),
            Literal::Bool(false) => self.push("false"),
            Literal::Int(v) => {
                let _ = write!(self.out, "{v}");
            }
            Literal::Decimal(text) => self.push(text),
            Literal::Double(v) => {
                let _ = write!(self.out, "{v:e}");
            }
            Literal::Str { bytes, charset } => {
                let _ = write!(self.out, "_{}", charset.as_deref().unwrap_or("utf8mb4"));
                self.quoted(bytes);
            }
            Literal::Hex { bytes, charset } | Literal::Bit { bytes, charset } => {
                if let Some(charset) = charset {
                    let _ = write!(self.out, "_{charset} ");
                }
                self.push("0x");
                for b in bytes {
                    let _ = write!(self.out, "{b:02X}");
                }
            }
            Literal::Date(bytes) => self.temporal("DATE", bytes),
            Literal::Time(bytes) => self.temporal("TIME", bytes),
            Literal::Timestamp(bytes) => self.temporal("TIMESTAMP", bytes),
        }
    }

    fn temporal(&mut self, word: &str, bytes: &[u8]) {
        self.push(word);
        self.quoted(bytes);
    }

    fn quoted(&mut self, bytes: &[u8]) {
        self.push("'");
        for c in String::from_utf8_lossy(bytes).chars() {
            match c {
                '\'' => self.push("\\'"),
                '\\' => self.push("\\\\"),
                '\0' => self.push("\\0"),
                '\x1a' => self.push("\\Z"),
                '\n' => self.push("\\n"),
                '\r' => self.push("\\r"),
                c => self.out.push(c),
            }
        }
        self.push("'");
    }
}

/// A text that a table keeps, as the views of the catalog show it: the data dictionary escapes it once more.
pub(crate) fn dictionary_text(text: &str) -> String {
    text.replace('\\', "\\\\").replace('\'', "\\'")
}

/// The target of CAST.
fn cast_type(ty: &DataType) -> SqlResult<String> {
    let length = |name: &str| match (ty.length, ty.decimals) {
        (Some(l), Some(d)) => format!("{name}({l},{d})"),
        (Some(l), None) => format!("{name}({l})"),
        _ => name.to_owned(),
    };
    Ok(match ty.name {
        TypeName::BigInt if ty.unsigned => "unsigned".to_owned(),
        TypeName::BigInt => "signed".to_owned(),
        TypeName::Decimal => length("decimal"),
        TypeName::Date => "date".to_owned(),
        TypeName::Time => length("time"),
        TypeName::DateTime => length("datetime"),
        TypeName::Year => "year".to_owned(),
        TypeName::Float => "float".to_owned(),
        TypeName::Double => "double".to_owned(),
        TypeName::Binary => format!("{} charset binary", length("char")),
        TypeName::Char => {
            let charset = ty.charset.as_deref().unwrap_or("utf8mb4");
            format!("{} charset {charset}", length("char"))
        }
        _ => return Err(refused("this CAST")),
    })
}
