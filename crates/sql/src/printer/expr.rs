//! Expressions in the form MySQL prints them: lower-case functions, names in backticks, every operator in parentheses.
//!
//! Neighbours: `canonical` has shaped them, `query` prints the queries inside of them.
//! **Invariant**: parsing the text gives the tree it was printed from, but for literals' character sets.

use std::fmt::Write;

use esker_sql_plan::bind::errors::window;
use esker_sql_syntax::ast::{
    Call, ColumnRef, DataType, Expr, FrameBound, IsTest, JsonFallback, JsonValue, Literal,
    MatchMode, Over, Query, TypeName, UnaryOp, WindowSpec,
};
use esker_types::collation::Charset;
use esker_types::func::aggregate;
use esker_types::hex::lower_hex;
use esker_types::{SqlError, SqlResult, errors};

use super::canonical::is_stored;
use super::{Introducers, Style};

/// The text of a canonical expression.
pub(super) fn text(expr: &Expr, style: Style<'_>) -> SqlResult<Box<str>> {
    let mut printer = Printer::new(style);
    match expr {
        Expr::MemberOf { expr, array } => printer.member_of(expr, array)?,
        expr => printer.expr(expr)?,
    }
    Ok(printer.out.into())
}

/// Calls that were lowered from a form with words inside: prefix of the name, how it is written.
const LOWERED: &[(&str, Lowered)] = &[
    ("date_add_", Lowered::Interval('+')),
    ("date_sub_", Lowered::Interval('-')),
    ("extract_", Lowered::Extract),
    ("timestampdiff_", Lowered::UnitFirst("timestampdiff")),
    ("trim_", Lowered::Trim),
    ("weight_string_", Lowered::Weight),
    ("get_format", Lowered::Format),
    ("at_time_zone", Lowered::AtZone),
    ("char_using_", Lowered::Using("char")),
    ("convert_using_", Lowered::Using("convert")),
];

#[derive(Clone, Copy)]
enum Lowered {
    Interval(char),
    Extract,
    UnitFirst(&'static str),
    Trim,
    Weight,
    Format,
    AtZone,
    Using(&'static str),
}

pub(super) fn refused(what: &str) -> SqlError {
    SqlError::not_supported(format_args!("{what} in an expression that a table keeps"))
}

pub(super) struct Printer<'a> {
    pub(super) out: String,
    pub(super) style: Style<'a>,
}

impl<'a> Printer<'a> {
    pub(super) fn new(style: Style<'a>) -> Self {
        Self {
            out: String::new(),
            style,
        }
    }

    pub(super) fn push(&mut self, text: &str) {
        self.out.push_str(text);
    }

    /// Items with commas between them.
    pub(super) fn each<T>(
        &mut self,
        items: &[T],
        comma: &str,
        print: impl Fn(&mut Self, &T) -> SqlResult<()>,
    ) -> SqlResult<()> {
        for (at, item) in items.iter().enumerate() {
            if at > 0 {
                self.push(comma);
            }
            print(self, item)?;
        }
        Ok(())
    }

    pub(super) fn database(&mut self, name: &str) {
        if self.style.hidden != Some(name) {
            self.name(name);
            self.push(".");
        }
    }

    fn column(&mut self, column: &ColumnRef) {
        if self.style.qualified {
            if let Some(schema) = &column.schema {
                self.database(&schema.text);
            }
            if let Some(table) = &column.table {
                self.name(&table.text);
                self.push(".");
            }
        }
        self.name(&column.name.text);
    }

    pub(super) fn name(&mut self, name: &str) {
        self.style.quotes.push(&mut self.out, name);
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

    pub(super) fn list(&mut self, exprs: &[Expr]) -> SqlResult<()> {
        self.each(exprs, ",", |p, e| p.expr(e))
    }

    fn subquery(&mut self, query: &Query) -> SqlResult<()> {
        if !self.style.qualified {
            return Err(refused("a subquery"));
        }
        self.push("(");
        self.query(query)?;
        self.push(")");
        Ok(())
    }

    pub(super) fn expr(&mut self, expr: &Expr) -> SqlResult<()> {
        match expr {
            Expr::Literal(l) => self.literal(l),
            Expr::Column(c) => self.column(c),
            Expr::Unary { op, expr } => return self.unary(*op, expr),
            Expr::Binary { op, left, right } => {
                return self.joined(&[left, right], op.text());
            }
            Expr::And(all) => return self.joined(&all.iter().collect::<Vec<_>>(), "and"),
            Expr::Or(all) => return self.joined(&all.iter().collect::<Vec<_>>(), "or"),
            Expr::Xor(a, b) => return self.joined(&[a, b], "xor"),
            Expr::Not(e) if matches!(**e, Expr::Exists(_)) => return self.around("(not ", e, ")"),
            Expr::Not(e) => return self.around("(not(", e, "))"),
            Expr::Is { .. }
            | Expr::Like { .. }
            | Expr::Regexp { .. }
            | Expr::Between { .. }
            | Expr::InList { .. }
            | Expr::InSubquery { .. }
            | Expr::Exists(_)
            | Expr::Quantified { .. }
            | Expr::MemberOf { .. } => return self.predicate(expr),
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
                self.column(column);
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
            Expr::Subquery(query) => self.subquery(query)?,
            Expr::Default(None) | Expr::Values(_) => return Err(refused("DEFAULT or VALUES")),
            Expr::Match {
                columns,
                against,
                mode,
            } => return self.matched(columns, against, *mode),
            Expr::JsonArrow { .. } => return Err(refused("an arrow")),
            Expr::JsonValue(value) => return self.json_value(value),
        }
        Ok(())
    }

    /// What tests a value by words of its own.
    fn predicate(&mut self, expr: &Expr) -> SqlResult<()> {
        match expr {
            Expr::Is {
                expr,
                negated,
                test,
            } => self.is(expr, *negated, *test),
            Expr::Like {
                expr,
                pattern,
                escape,
                negated,
            } => {
                let word = if *negated { "not like" } else { "like" };
                self.like(expr, pattern, escape.as_deref(), word)
            }
            Expr::Regexp {
                expr,
                pattern,
                negated,
            } => {
                let word = if *negated { "not regexp" } else { "regexp" };
                self.joined(&[expr, pattern], word)
            }
            Expr::Between {
                expr,
                low,
                high,
                negated,
            } => self.between(expr, low, high, *negated),
            Expr::InList {
                expr,
                list,
                negated,
            } => self.in_list(expr, list, *negated),
            Expr::InSubquery {
                expr,
                query,
                negated,
            } => {
                let word = if *negated { " not in " } else { " in " };
                self.around("", expr, word)?;
                self.subquery(query)
            }
            Expr::Exists(query) => {
                self.push("exists");
                self.subquery(query)
            }
            Expr::Quantified {
                op,
                expr,
                all,
                query,
            } => {
                let word = if *all { "all" } else { "any" };
                self.around("", expr, &format!(" {} {word} ", op.text()))?;
                self.subquery(query)
            }
            // As an operand it needs parentheses, though MySQL writes none.
            Expr::MemberOf { expr, array } => {
                self.push("(");
                self.member_of(expr, array)?;
                self.push(")");
                Ok(())
            }
            other => unreachable!("{other:?} is none of them"),
        }
    }

    fn member_of(&mut self, value: &Expr, array: &Expr) -> SqlResult<()> {
        self.expr(value)?;
        self.around(" member of (", array, ")")
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
        if matches!((expr, test), (Expr::InSubquery { .. }, "false")) {
            return self.around("", expr, &format!(" is {not}{test}"));
        }
        self.around("(", expr, &format!(" is {not}{test})"))
    }

    fn matched(&mut self, columns: &[ColumnRef], against: &Expr, mode: MatchMode) -> SqlResult<()> {
        if !self.style.qualified {
            return Err(refused("MATCH"));
        }
        self.push("(match ");
        self.each(columns, ",", |p, c| {
            p.column(c);
            Ok(())
        })?;
        let mode = match mode {
            MatchMode::Natural => "",
            MatchMode::Expansion => " with query expansion",
            MatchMode::Boolean => " in boolean mode",
        };
        self.around(" against (", against, &format!("{mode}))"))
    }

    fn json_value(&mut self, value: &JsonValue) -> SqlResult<()> {
        self.around("json_value(", &value.doc, ", ")?;
        self.literal(&Literal::Str {
            bytes: value.path.as_bytes().into(),
            charset: None,
        });
        let ty = match &value.ty {
            Some(ty) if ty.name == TypeName::Char && ty.charset.is_none() => char_type(ty),
            Some(ty) => {
                let text = self.cast_type(ty)?.replace(',', ", ");
                text.replace(" charset ", " character set ")
            }
            None => "char(512)".to_owned(),
        };
        let _ = write!(self.out, " returning {ty}");
        self.fallback(value.on_empty.as_ref(), "empty")?;
        self.fallback(value.on_error.as_ref(), "error")?;
        self.push(")");
        Ok(())
    }

    /// ON EMPTY and ON ERROR.
    pub(super) fn fallback(&mut self, value: Option<&JsonFallback>, when: &str) -> SqlResult<()> {
        match value {
            None => return Ok(()),
            Some(JsonFallback::Null) => self.push(" null"),
            Some(JsonFallback::Error) => self.push(" error"),
            // A literal with its sign, and no operator.
            Some(JsonFallback::Default(Expr::Unary {
                op: UnaryOp::Neg,
                expr,
            })) => self.around(" default -", expr, "")?,
            Some(JsonFallback::Default(e)) => self.around(" default ", e, "")?,
        }
        let _ = write!(self.out, " on {when}");
        Ok(())
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
        let name = self.cast_type(ty)?;
        let name = match (ty.array, ty.name) {
            (true, TypeName::Decimal) => format!("{} array", name.replace(',', ", ")),
            (true, _) => format!("{name} array"),
            _ => name,
        };
        self.around("cast(", expr, &format!(" as {name})"))
    }

    fn call(&mut self, call: &Call) -> SqlResult<()> {
        let name = call.name.text.to_ascii_lowercase();
        if !self.style.qualified && call.over.is_some() {
            return Err(window::misplaced(&name));
        }
        if !self.style.qualified && call.schema.is_none() && aggregate::lookup(&name).is_some() {
            return Err(errors::invalid_group_function());
        }
        if is_stored(call) {
            // With its database where it was written with it.
            if let Some(schema) = &call.schema {
                self.name(&schema.text);
                self.push(".");
            }
            self.name(&call.name.text);
            self.push("(");
            self.list(&call.args)?;
            self.push(")");
            return Ok(());
        }
        for (prefix, form) in LOWERED {
            if let Some(word) = name.strip_prefix(prefix) {
                return self.lowered(*form, word, &call.args);
            }
        }
        let _ = write!(self.out, "{name}(");
        if call.distinct {
            self.push("distinct ");
        }
        self.list(&call.args)?;
        if name == "group_concat" {
            self.concatenation(call)?;
        }
        self.push(")");
        match &call.over {
            None => Ok(()),
            Some(Over::Named(window)) => {
                self.push(" OVER ");
                self.name(&window.text);
                Ok(())
            }
            Some(Over::Spec(window)) => {
                self.push(" OVER ");
                self.window(window)?;
                self.push(" ");
                Ok(())
            }
        }
    }

    /// ORDER BY and SEPARATOR of GROUP_CONCAT.
    fn concatenation(&mut self, call: &Call) -> SqlResult<()> {
        if !call.order_by.is_empty() {
            self.push(" order by ");
            self.each(&call.order_by, ",", |p, item| {
                p.around("", &item.expr, if item.desc { " DESC" } else { " ASC" })
            })?;
        }
        self.push(" separator ");
        self.quoted(call.separator.as_deref().unwrap_or(b","));
        Ok(())
    }

    /// A window in parentheses.
    pub(super) fn window(&mut self, window: &WindowSpec) -> SqlResult<()> {
        self.push("(");
        if let Some(base) = &window.base {
            self.name(&base.text);
            self.push(" ");
        }
        if !window.partition_by.is_empty() {
            self.push("PARTITION BY ");
            self.list(&window.partition_by)?;
            self.push(" ");
        }
        if !window.order_by.is_empty() {
            self.push("ORDER BY ");
            self.order(&window.order_by)?;
            self.push(" ");
        }
        if let Some(frame) = &window.frame {
            self.push(if frame.range {
                "RANGE BETWEEN "
            } else {
                "ROWS BETWEEN "
            });
            self.bound(&frame.start)?;
            self.push(" AND ");
            self.bound(&frame.end)?;
        }
        self.push(")");
        Ok(())
    }

    fn bound(&mut self, bound: &FrameBound) -> SqlResult<()> {
        let (amount, unit, side) = match bound {
            FrameBound::UnboundedPreceding => return self.word("UNBOUNDED PRECEDING"),
            FrameBound::CurrentRow => return self.word("CURRENT ROW"),
            FrameBound::UnboundedFollowing => return self.word("UNBOUNDED FOLLOWING"),
            FrameBound::Preceding(amount, unit) => (amount, unit, "PRECEDING"),
            FrameBound::Following(amount, unit) => (amount, unit, "FOLLOWING"),
        };
        match unit {
            None => self.around("", amount, &format!(" {side}")),
            Some(unit) => {
                let unit = unit.to_ascii_lowercase();
                self.around("INTERVAL ", amount, &format!(" {unit}  {side}"))
            }
        }
    }

    fn word(&mut self, word: &str) -> SqlResult<()> {
        self.push(word);
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
                let unit = word.to_ascii_uppercase();
                self.around(&format!("{name}({unit},"), a, ",")?;
                self.around("", b, ")")
            }
            (Lowered::Trim, [text, what]) => {
                self.around(&format!("trim({word} "), what, " from ")?;
                self.around("", text, ")")
            }
            (Lowered::Weight, [text, length]) => {
                self.around("weight_string(", text, &format!(" as {word}("))?;
                self.around("", length, "))")
            }
            // MySQL forgets the rest, too.
            (Lowered::Weight, [text, _, chars, _]) => {
                self.around("weight_string(", text, " as char(")?;
                self.around("", chars, "))")
            }
            (Lowered::Format, [Expr::Literal(Literal::Str { bytes, .. }), style]) => {
                let kind = String::from_utf8_lossy(bytes);
                self.around(&format!("get_format({kind}, "), style, ")")
            }
            (Lowered::AtZone, [moment, Expr::Literal(Literal::Str { bytes, .. }), digits]) => {
                self.around("cast(", moment, " AT TIME ZONE ")?;
                self.quoted(bytes);
                match digits {
                    Expr::Literal(Literal::Int(0)) => self.push(" as datetime)"),
                    digits => self.around(" as datetime(", digits, "))")?,
                }
                Ok(())
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
                let charset = charset.as_deref();
                if !is_printable(bytes, charset) {
                    return self.hex(bytes, charset);
                }
                match self.style.introducers {
                    Introducers::Always => {
                        let _ = write!(self.out, "_{}", charset.unwrap_or("utf8mb4"));
                    }
                    Introducers::Written => {
                        let _ = charset.map(|c| write!(self.out, "_{c}"));
                    }
                    Introducers::Never => {}
                }
                self.quoted(bytes);
            }
            Literal::Hex { bytes, charset } | Literal::Bit { bytes, charset } => {
                self.hex(bytes, charset.as_deref());
            }
            Literal::Date(bytes) => self.temporal("DATE", bytes),
            Literal::Time(bytes) => self.temporal("TIME", bytes),
            Literal::Timestamp(bytes) => self.temporal("TIMESTAMP", bytes),
        }
    }

    fn hex(&mut self, bytes: &[u8], charset: Option<&str>) {
        if let Some(charset) = charset {
            let _ = write!(self.out, "_{charset} ");
        }
        let _ = write!(self.out, "0x{}", lower_hex(bytes));
    }

    fn temporal(&mut self, word: &str, bytes: &[u8]) {
        self.push(word);
        self.quoted(bytes);
    }

    pub(super) fn quoted(&mut self, bytes: &[u8]) {
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

    /// The target of CAST.
    fn cast_type(&self, ty: &DataType) -> SqlResult<String> {
        let length = |name: &str| match (ty.length, ty.decimals) {
            (Some(l), Some(d)) => format!("{name}({l},{d})"),
            (Some(l), None) => format!("{name}({l})"),
            _ => name.to_owned(),
        };
        Ok(match ty.name {
            TypeName::BigInt if ty.unsigned => "unsigned".to_owned(),
            TypeName::BigInt => "signed".to_owned(),
            TypeName::Decimal if ty.length.is_none() => "decimal(10,0)".to_owned(),
            TypeName::Decimal if ty.decimals.is_none() => {
                format!("{},0)", length("decimal").trim_end_matches(')'))
            }
            TypeName::Decimal => length("decimal"),
            TypeName::Json => "json".to_owned(),
            TypeName::Date => "date".to_owned(),
            TypeName::Time => length("time"),
            TypeName::DateTime => length("datetime"),
            TypeName::Year => "year".to_owned(),
            TypeName::Float => "float".to_owned(),
            TypeName::Double => "double".to_owned(),
            // Elements of arrays are JSON's texts, which have one character set.
            TypeName::Binary if ty.array => length("binary"),
            TypeName::Char if ty.array => length("char"),
            TypeName::Binary => format!("{} charset binary", length("char")),
            TypeName::Char => {
                let charset = ty.charset.as_deref().unwrap_or(self.style.charset);
                format!("{} charset {charset}", length("char"))
            }
            _ => return Err(refused("this CAST")),
        })
    }
}

/// CHAR without its character set.
fn char_type(ty: &DataType) -> String {
    ty.length
        .map_or_else(|| "char".to_owned(), |l| format!("char({l})"))
}

/// A text that a table keeps, as the views of the catalog show it: the data dictionary escapes it once more.
pub(crate) fn dictionary_text(text: &str) -> String {
    text.replace('\\', "\\\\").replace('\'', "\\'")
}

/// Is a text with this introducer the same in a statement that is written in UTF-8?
fn is_printable(bytes: &[u8], charset: Option<&str>) -> bool {
    let unicode = charset.is_none_or(|name| name.starts_with("utf8"));
    let plain = || {
        charset
            .and_then(Charset::by_name)
            .is_some_and(Charset::of_clients)
    };
    std::str::from_utf8(bytes).is_ok() && (unicode || (bytes.is_ascii() && plain()))
}
