//! Just enough of MySQL's expression syntax for the test data: literals, calls, the special forms
//! of functions, COLLATE. The forms are lowered as the SQL parser lowers them.

use esker_types::collation::{Coercibility, Collation, char_count};
use esker_types::decimal::{Decimal, MAX_SCALE};
use esker_types::sqltype::{SqlType, TypeKind};
use esker_types::temporal::{DateFlags, parse_datetime, parse_time};
use esker_types::{SqlError, SqlResult, Value};

pub enum Expr {
    Literal {
        value: Value,
        ty: SqlType,
        coercibility: Coercibility,
    },
    Collate(Box<Expr>, Collation),
    Call(String, Vec<Expr>),
}

pub fn parse(text: &str) -> SqlResult<Expr> {
    let mut p = Parser { rest: text };
    let expr = p.expr()?;
    p.space();
    if p.rest.is_empty() {
        Ok(expr)
    } else {
        Err(syntax(p.rest))
    }
}

fn syntax(at: &str) -> SqlError {
    SqlError::new(1064, "42000", format!("near '{at}'"))
}

struct Parser<'a> {
    rest: &'a str,
}

fn literal(value: Value, ty: SqlType) -> Expr {
    let coercibility = match ty.kind {
        TypeKind::Null => Coercibility::Ignorable,
        _ if ty.is_string() => Coercibility::Coercible,
        _ => Coercibility::Numeric,
    };
    let nullable = value.is_null();
    Expr::Literal {
        value,
        ty: ty.with_nullable(nullable),
        coercibility,
    }
}

fn text_literal(text: String) -> Expr {
    let ty = SqlType::varchar(
        char_count(text.as_bytes()) as u32,
        Collation::UTF8MB4_0900_AI_CI,
    );
    literal(Value::str(text), ty)
}

impl<'a> Parser<'a> {
    fn space(&mut self) {
        self.rest = self.rest.trim_start_matches(' ');
    }

    fn eat(&mut self, token: &str) -> bool {
        self.space();
        match self.rest.get(..token.len()) {
            Some(t) if t.eq_ignore_ascii_case(token) => {
                self.rest = &self.rest[token.len()..];
                true
            }
            _ => false,
        }
    }

    fn need(&mut self, token: &str) -> SqlResult<()> {
        if self.eat(token) {
            Ok(())
        } else {
            Err(syntax(self.rest))
        }
    }

    /// The word (letters, digits, `_`) ahead.
    fn peek_word(&mut self) -> &'a str {
        self.space();
        let end = self.rest.find(|c: char| !c.is_alphanumeric() && c != '_');
        &self.rest[..end.unwrap_or(self.rest.len())]
    }

    fn word(&mut self) -> String {
        let word = self.peek_word();
        self.rest = &self.rest[word.len()..];
        word.to_lowercase()
    }

    fn expr(&mut self) -> SqlResult<Expr> {
        let expr = self.operand()?;
        if self.peek_word().eq_ignore_ascii_case("collate") {
            self.word();
            let name = self.word();
            let collation = Collation::by_name(&name).ok_or_else(|| syntax(&name))?;
            return Ok(Expr::Collate(Box::new(expr), collation));
        }
        Ok(expr)
    }

    fn operand(&mut self) -> SqlResult<Expr> {
        self.space();
        match self.rest.chars().next() {
            Some('\'') => Ok(text_literal(self.quoted()?)),
            Some('-' | '0'..='9' | '.') => self.number(),
            _ if self.rest.starts_with("x'") => {
                self.rest = &self.rest[1..];
                let digits = self.quoted()?;
                let byte = |i| u8::from_str_radix(&digits[i..i + 2], 16);
                let bytes: Result<Vec<u8>, _> = (0..digits.len()).step_by(2).map(byte).collect();
                let bytes = bytes.map_err(|_| syntax(&digits))?;
                let ty = SqlType::varchar(bytes.len() as u32, Collation::BINARY);
                Ok(literal(Value::Str(bytes), ty))
            }
            Some(_) => self.named(),
            None => Err(syntax("")),
        }
    }

    fn quoted(&mut self) -> SqlResult<String> {
        self.need("'")?;
        let mut out = String::new();
        let mut chars = self.rest.char_indices();
        while let Some((at, c)) = chars.next() {
            match c {
                '\'' => {
                    self.rest = &self.rest[at + 1..];
                    return Ok(out);
                }
                '\\' => match chars.next().map(|(_, c)| c) {
                    Some('n') => out.push('\n'),
                    Some('t') => out.push('\t'),
                    Some('0') => out.push('\0'),
                    Some(c) => out.push(c),
                    None => break,
                },
                c => out.push(c),
            }
        }
        Err(syntax(self.rest))
    }

    fn number(&mut self) -> SqlResult<Expr> {
        let neg = self.eat("-");
        let numeric = |c: char| c.is_ascii_digit() || c == '.';
        let mut end = self.rest.find(|c| !numeric(c)).unwrap_or(self.rest.len());
        let exponent = self.rest[end..].starts_with(['e', 'E']);
        if exponent {
            end += 1 + usize::from(self.rest[end + 1..].starts_with(['-', '+']));
            let digits = self.rest[end..].find(|c: char| !c.is_ascii_digit());
            end += digits.unwrap_or(self.rest.len() - end);
        }
        let text = format!("{}{}", if neg { "-" } else { "" }, &self.rest[..end]);
        let digits = self.rest[..end].len() as u32;
        self.rest = &self.rest[end..];
        if exponent {
            let v = text.parse().map_err(|_| syntax(&text))?;
            return Ok(literal(Value::Double(v), SqlType::new(TypeKind::Double)));
        }
        if let Ok(v) = text.parse::<i64>() {
            let ty = SqlType {
                length: digits + 1,
                ..SqlType::bigint(false)
            };
            return Ok(literal(Value::Int(v), ty));
        }
        if let Ok(v) = text.parse::<u64>() {
            return Ok(literal(
                Value::UInt(v),
                SqlType {
                    length: digits,
                    ..SqlType::bigint(true)
                },
            ));
        }
        let (d, _) = Decimal::parse(text.as_bytes());
        let d = if d.scale() > MAX_SCALE {
            d.round(MAX_SCALE).map_err(|_| syntax(&text))?
        } else {
            d
        };
        Ok(literal(
            Value::Decimal(d),
            SqlType::decimal(d.precision(), d.scale()),
        ))
    }

    fn named(&mut self) -> SqlResult<Expr> {
        let name = self.word();
        if name == "null" {
            return Ok(literal(Value::Null, SqlType::new(TypeKind::Null)));
        }
        if self.rest.starts_with('\'') {
            return self.typed_literal(&name);
        }
        self.need("(")?;
        match name.as_str() {
            "trim" => self.trim(),
            "extract" => {
                let unit = self.word();
                self.need("from")?;
                let arg = self.expr()?;
                self.need(")")?;
                Ok(Expr::Call(format!("extract_{unit}"), vec![arg]))
            }
            "timestampadd" | "timestampdiff" => {
                let unit = self.word();
                self.need(",")?;
                Ok(Expr::Call(format!("{name}_{unit}"), self.args()?.0))
            }
            "get_format" => {
                let kind = text_literal(self.word());
                self.need(",")?;
                let mut args = vec![kind];
                args.extend(self.args()?.0);
                Ok(Expr::Call(name, args))
            }
            "date_add" | "date_sub" => {
                let date = self.expr()?;
                self.need(",")?;
                self.need("interval")?;
                let amount = self.expr()?;
                let unit = self.word();
                self.need(")")?;
                Ok(Expr::Call(format!("{name}_{unit}"), vec![date, amount]))
            }
            _ => {
                let (args, using) = self.args()?;
                let name = match using {
                    Some(charset) => format!("{name}_using_{charset}"),
                    None => name,
                };
                Ok(Expr::Call(name, args))
            }
        }
    }

    /// Arguments up to the closing parenthesis, and the character set after USING.
    fn args(&mut self) -> SqlResult<(Vec<Expr>, Option<String>)> {
        let mut args = Vec::new();
        if self.eat(")") {
            return Ok((args, None));
        }
        loop {
            args.push(self.expr()?);
            if self.eat(",") {
                continue;
            }
            let using = self.eat("using").then(|| self.word());
            self.need(")")?;
            return Ok((args, using));
        }
    }

    fn trim(&mut self) -> SqlResult<Expr> {
        let side = match self.peek_word() {
            w @ ("both" | "leading" | "trailing") => {
                self.word();
                w
            }
            _ => "both",
        };
        let first = self.expr()?;
        let args = if self.eat("from") {
            vec![self.expr()?, first]
        } else {
            vec![first]
        };
        self.need(")")?;
        Ok(Expr::Call(format!("trim_{side}"), args))
    }

    fn typed_literal(&mut self, kind: &str) -> SqlResult<Expr> {
        let text = self.quoted()?;
        let wrong = || syntax(&text);
        let temporal = |kind, decimals| SqlType {
            decimals,
            ..SqlType::new(kind)
        };
        Ok(match kind {
            "date" => {
                let parsed =
                    parse_datetime(text.as_bytes(), DateFlags::FUZZY).map_err(|_| wrong())?;
                literal(
                    Value::Date(parsed.datetime.date()),
                    temporal(TypeKind::Date, 0),
                )
            }
            "timestamp" => {
                let parsed =
                    parse_datetime(text.as_bytes(), DateFlags::FUZZY).map_err(|_| wrong())?;
                let ty = temporal(TypeKind::DateTime, parsed.digits);
                literal(Value::DateTime(parsed.datetime), ty)
            }
            "time" => {
                let parsed = parse_time(text.as_bytes(), DateFlags::NONE).map_err(|_| wrong())?;
                literal(
                    Value::Time(parsed.time),
                    temporal(TypeKind::Time, parsed.digits),
                )
            }
            _ => return Err(wrong()),
        })
    }
}
