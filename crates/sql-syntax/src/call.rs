//! Calls: native functions with their special syntaxes.
//!
//! Neighbours: `expr` decides that something is a call; `window` parses aggregates and window functions, `column` the
//! types of casts. **Invariants**: every special form is lowered here to the plain names that `esker_types::func`
//! registers (see `ast::expr`), so that the binder sees calls only.

use esker_types::collation::Charset;
use esker_types::geometry::Shape;
use esker_types::{SqlError, SqlResult, errors};

use super::ast::{Call, DataType, Expr, Ident, Literal, MatchMode, TypeName};
use super::column::shape_of;
use super::deprecated::Deprecation;
use super::expr::{Interval, Level, Paren, call1, call2};
use super::keyword::Kw;
use super::lexer::Tok;
use super::parser::Parser;

impl Parser<'_> {
    /// A keyword where an operand is expected: a call with special syntax, a plain call, or a column
    /// whose name happens to be an unreserved keyword.
    pub(super) fn special_call(&mut self, kw: Kw) -> SqlResult<Expr> {
        use Kw::*;
        match kw {
            INTERVAL => return self.interval_primary(),
            CURRENT_TIMESTAMP | LOCALTIME | LOCALTIMESTAMP => return self.clock("now"),
            CURRENT_DATE => return self.clock("curdate"),
            CURRENT_TIME => return self.clock("curtime"),
            UTC_DATE => return self.clock("utc_date"),
            UTC_TIME => return self.clock("utc_time"),
            UTC_TIMESTAMP => return self.clock("utc_timestamp"),
            CURRENT_USER => return self.optional_parens("current_user"),
            MATCH => return self.match_against(),
            _ => {}
        }
        if kw.is_function_word() && !self.paren_follows() {
            return self.spaced_function_word();
        }
        if self.peek().tok != Tok::LParen {
            if !kw.reserved() {
                return self.named_operand();
            }
            if starts_call(kw) {
                self.advance();
            }
            return self.fail();
        }
        match kw {
            CAST => self.cast(),
            CONVERT => self.convert(),
            CHAR | CHARACTER => self.char_call(),
            DEFAULT | VALUES => self.column_call(kw),
            NOW | CURDATE | CURTIME | SYSDATE => {
                let name = kw.text().to_ascii_lowercase();
                self.clock(&name)
            }
            USER | SESSION_USER | SYSTEM_USER => self.optional_parens("user"),
            DATABASE | SCHEMA => self.optional_parens("database"),
            EXTRACT => self.extract(),
            GET_FORMAT => self.get_format(),
            POSITION => self.position(),
            SUBSTRING | SUBSTR | MID => self.substring(),
            TRIM => self.trim(),
            ADDDATE | DATE_ADD => self.date_arithmetic("date_add", kw == ADDDATE),
            SUBDATE | DATE_SUB => self.date_arithmetic("date_sub", kw == SUBDATE),
            TIMESTAMPADD | TIMESTAMPDIFF => self.timestamp_arithmetic(kw),
            WEIGHT_STRING => self.weight_string(),
            JSON_VALUE => self.json_value(),
            COUNT | SUM | AVG | MIN | MAX | BIT_AND | BIT_OR | BIT_XOR | STD | STDDEV
            | STDDEV_POP | STDDEV_SAMP | VARIANCE | VAR_POP | VAR_SAMP | GROUP_CONCAT
            | JSON_ARRAYAGG | JSON_OBJECTAGG => self.aggregate(kw),
            ROW_NUMBER | RANK | DENSE_RANK | CUME_DIST | PERCENT_RANK | NTILE | LEAD | LAG
            | FIRST_VALUE | LAST_VALUE | NTH_VALUE => self.window_function(kw),
            _ => match fixed_arity(kw) {
                Some((min, max)) => Ok(Expr::Call(Box::new(self.counted_call(min, max)?))),
                None if kw.reserved() => self.fail(),
                // A column, though a parenthesis follows: the error is there.
                None => Ok(Expr::Column(self.column_ref()?)),
            },
        }
    }

    /// A call of a function that is a keyword: the grammar itself counts the arguments.
    fn counted_call(&mut self, min: usize, max: usize) -> SqlResult<Call> {
        let name = self.word_as_name();
        self.expect(Tok::LParen)?;
        let mut args = Vec::new();
        while args.len() < max {
            if args.len() >= min && self.is(Tok::RParen) {
                break;
            }
            if !args.is_empty() {
                self.expect(Tok::Comma)?;
            }
            args.push(self.expr()?);
        }
        self.expect(Tok::RParen)?;
        Ok(Call::plain(name, args))
    }

    pub(super) fn word_as_name(&mut self) -> Ident {
        let token = self.advance();
        Ident::new(String::from_utf8_lossy(self.bytes(token)))
    }

    /// `SUM (a)`: not the aggregate, since a space precedes the parenthesis.
    fn spaced_function_word(&mut self) -> SqlResult<Expr> {
        let spaced_call = self.peek().tok == Tok::LParen;
        let word = String::from_utf8_lossy(self.bytes(self.cur)).into_owned();
        let operand = self.named_operand()?;
        if spaced_call {
            self.defer(SqlError::new(
                1630,
                "42000",
                format!(
                    "FUNCTION {word} does not exist. Check the 'Function Name Parsing and \
                     Resolution' section in the Reference Manual"
                ),
            ));
        }
        Ok(operand)
    }

    /// Arguments after a function's name.
    pub(super) fn call_after_name(
        &mut self,
        schema: Option<Ident>,
        name: Ident,
    ) -> SqlResult<Expr> {
        self.expect(Tok::LParen)?;
        let mut args = Vec::new();
        if !self.eat(Tok::RParen) {
            args = self.nested(|p| p.list(|p| p.aliased_arg(&name)))?;
            self.expect(Tok::RParen)?;
        }
        if schema.is_none() && name.text.eq_ignore_ascii_case("found_rows") {
            self.deprecate(Deprecation::FoundRows);
        }
        let mut call = Call::plain(name, args);
        call.schema = schema;
        Ok(Expr::Call(Box::new(call)))
    }

    /// `expr [AS alias]`: an alias is for loadable functions only, which Esker has none of.
    fn aliased_arg(&mut self, function: &Ident) -> SqlResult<Expr> {
        let arg = self.expr()?;
        if self.select_alias()?.is_some() {
            self.defer(errors::wrong_parameters(function));
        }
        Ok(arg)
    }

    /// The word and its opening parenthesis.
    fn open(&mut self) -> SqlResult<()> {
        self.advance();
        self.expect(Tok::LParen)
    }

    // Clock and session.

    /// `NAME`, `NAME()`, `NAME(fsp)`; dates take no fsp.
    fn clock(&mut self, name: &str) -> SqlResult<Expr> {
        self.advance();
        let mut args = Vec::new();
        if self.eat(Tok::LParen) {
            if (!name.ends_with("date") || name == "sysdate")
                && let Some(fsp) = self.opt_number()?
            {
                args.push(Expr::Literal(Literal::Int(fsp)));
            }
            self.expect(Tok::RParen)?;
        }
        Ok(plain(name, args))
    }

    fn optional_parens(&mut self, name: &str) -> SqlResult<Expr> {
        self.advance();
        if self.eat(Tok::LParen) {
            self.expect(Tok::RParen)?;
        }
        Ok(plain(name, Vec::new()))
    }

    // Dates.

    /// INTERVAL and what follows it.
    pub(super) fn interval_operand(&mut self) -> SqlResult<Interval> {
        self.expect_kw(Kw::INTERVAL)?;
        let amount = if self.is(Tok::LParen) {
            match self.operand_paren()? {
                Paren::List(list) if list.len() > 1 => {
                    return Ok(Interval::Call(plain("interval", list)));
                }
                Paren::List(mut list) => {
                    let first = list.remove(0);
                    self.expr_from(first, Level::Or)?
                }
                Paren::Query(query) => self.expr_from(Expr::Subquery(query), Level::Or)?,
            }
        } else {
            self.expr()?
        };
        Ok(Interval::Amount(amount, self.interval_unit()?))
    }

    /// `INTERVAL n unit + date`, or the function INTERVAL.
    fn interval_primary(&mut self) -> SqlResult<Expr> {
        match self.interval_operand()? {
            Interval::Call(call) => Ok(call),
            Interval::Amount(amount, unit) => {
                self.expect(Tok::Plus)?;
                let date = self.expr_at(Level::Not)?;
                Ok(call2(&format!("date_add_{unit}"), date, amount))
            }
        }
    }

    pub(super) fn interval_unit(&mut self) -> SqlResult<&'static str> {
        use Kw::*;
        let unit = match self.kw() {
            MICROSECOND => "microsecond",
            SECOND => "second",
            MINUTE => "minute",
            HOUR => "hour",
            DAY => "day",
            WEEK => "week",
            MONTH => "month",
            QUARTER => "quarter",
            YEAR => "year",
            SECOND_MICROSECOND => "second_microsecond",
            MINUTE_MICROSECOND => "minute_microsecond",
            MINUTE_SECOND => "minute_second",
            HOUR_MICROSECOND => "hour_microsecond",
            HOUR_SECOND => "hour_second",
            HOUR_MINUTE => "hour_minute",
            DAY_MICROSECOND => "day_microsecond",
            DAY_SECOND => "day_second",
            DAY_MINUTE => "day_minute",
            DAY_HOUR => "day_hour",
            YEAR_MONTH => "year_month",
            OTHER => match self.tsi_unit() {
                Some(unit) => unit,
                None => return self.fail(),
            },
            _ => return self.fail(),
        };
        self.advance();
        Ok(unit)
    }

    /// `SQL_TSI_DAY` and its kin.
    fn tsi_unit(&self) -> Option<&'static str> {
        let word = self.bytes(self.cur).to_ascii_uppercase();
        Some(match word.strip_prefix(b"SQL_TSI_")? {
            b"SECOND" => "second",
            b"MINUTE" => "minute",
            b"HOUR" => "hour",
            b"DAY" => "day",
            b"WEEK" => "week",
            b"MONTH" => "month",
            b"QUARTER" => "quarter",
            b"YEAR" => "year",
            _ => return None,
        })
    }

    fn date_arithmetic(&mut self, name: &str, days_allowed: bool) -> SqlResult<Expr> {
        self.open()?;
        let date = self.expr()?;
        self.expect(Tok::Comma)?;
        let (amount, unit) = if self.at(Kw::INTERVAL) {
            match self.interval_operand()? {
                Interval::Amount(amount, unit) => (amount, unit),
                Interval::Call(call) if days_allowed => (self.expr_from(call, Level::Or)?, "day"),
                Interval::Call(_) => return self.fail(),
            }
        } else if days_allowed {
            (self.expr()?, "day")
        } else {
            return self.fail();
        };
        self.expect(Tok::RParen)?;
        Ok(call2(&format!("{name}_{unit}"), date, amount))
    }

    fn timestamp_arithmetic(&mut self, kw: Kw) -> SqlResult<Expr> {
        self.open()?;
        let start = self.cur.start;
        let unit = self.interval_unit()?;
        if unit.contains('_') {
            return Err(self.error_at(start));
        }
        self.expect(Tok::Comma)?;
        let first = self.expr()?;
        self.expect(Tok::Comma)?;
        let second = self.expr()?;
        self.expect(Tok::RParen)?;
        let name = if kw == Kw::TIMESTAMPADD {
            "timestampadd"
        } else {
            "timestampdiff"
        };
        Ok(call2(&format!("{name}_{unit}"), first, second))
    }

    fn extract(&mut self) -> SqlResult<Expr> {
        self.open()?;
        let unit = self.interval_unit()?;
        self.expect_kw(Kw::FROM)?;
        let date = self.expr()?;
        self.expect(Tok::RParen)?;
        Ok(call1(&format!("extract_{unit}"), date))
    }

    /// `GET_FORMAT(DATE | TIME | DATETIME | TIMESTAMP, e)`: the kind becomes a string.
    fn get_format(&mut self) -> SqlResult<Expr> {
        self.open()?;
        let kind = self.expect_any(&[Kw::DATE, Kw::TIME, Kw::DATETIME, Kw::TIMESTAMP])?;
        self.expect(Tok::Comma)?;
        let style = self.expr()?;
        self.expect(Tok::RParen)?;
        // TIMESTAMP is a synonym of DATETIME here.
        let kind = if kind == Kw::TIMESTAMP {
            Kw::DATETIME
        } else {
            kind
        };
        let bytes = kind.text().as_bytes().to_vec();
        Ok(call2(
            "get_format",
            Expr::Literal(Literal::Str {
                bytes,
                charset: None,
            }),
            style,
        ))
    }

    // Strings.

    fn position(&mut self) -> SqlResult<Expr> {
        self.open()?;
        let needle = self.expr_at(Level::BitOr)?;
        self.expect_kw(Kw::IN)?;
        let haystack = self.expr()?;
        self.expect(Tok::RParen)?;
        Ok(call2("locate", needle, haystack))
    }

    fn substring(&mut self) -> SqlResult<Expr> {
        self.open()?;
        let mut args = vec![self.expr()?];
        if self.eat_kw(Kw::FROM) {
            args.push(self.expr()?);
            if self.eat_kw(Kw::FOR) {
                args.push(self.expr()?);
            }
        } else {
            self.expect(Tok::Comma)?;
            args.push(self.expr()?);
            if self.eat(Tok::Comma) {
                args.push(self.expr()?);
            }
        }
        self.expect(Tok::RParen)?;
        Ok(plain("substring", args))
    }

    fn trim(&mut self) -> SqlResult<Expr> {
        self.open()?;
        let side = self.eat_any(&[Kw::LEADING, Kw::TRAILING, Kw::BOTH]);
        let (with, without) = match side {
            Some(Kw::LEADING) => ("trim_leading", "ltrim"),
            Some(Kw::TRAILING) => ("trim_trailing", "rtrim"),
            _ => ("trim_both", "trim"),
        };
        let first = if side.is_some() && self.at(Kw::FROM) {
            None
        } else {
            Some(self.expr()?)
        };
        let expr = match first {
            Some(text) if side.is_none() && self.is(Tok::RParen) => call1(without, text),
            Some(what) => {
                self.expect_kw(Kw::FROM)?;
                call2(with, self.expr()?, what)
            }
            None => {
                self.advance();
                call1(without, self.expr()?)
            }
        };
        self.expect(Tok::RParen)?;
        Ok(expr)
    }

    fn char_call(&mut self) -> SqlResult<Expr> {
        self.open()?;
        let args = self.list(Self::expr)?;
        let name = if self.eat_kw(Kw::USING) {
            format!("char_using_{}", self.known_charset()?)
        } else {
            "char".to_owned()
        };
        self.expect(Tok::RParen)?;
        Ok(plain(&name, args))
    }

    /// The name of a character set that there is.
    ///
    /// # Errors
    /// 1115.
    fn known_charset(&mut self) -> SqlResult<&'static str> {
        let name = self.charset_name()?;
        match Charset::by_name(&name) {
            Some(charset) => Ok(charset.name()),
            None => Err(errors::unknown_charset(name)),
        }
    }

    /// `WEIGHT_STRING(e [AS CHAR(n) | AS BINARY(n)])`, or with numbers of bytes and characters, and flags.
    fn weight_string(&mut self) -> SqlResult<Expr> {
        self.open()?;
        let text = self.expr()?;
        let mut name = "weight_string";
        let mut args = vec![text];
        if self.eat_kw(Kw::AS) {
            let kind = self.expect_any(&[Kw::CHAR, Kw::BINARY])?;
            name = if kind == Kw::CHAR {
                "weight_string_char"
            } else {
                "weight_string_binary"
            };
            self.expect(Tok::LParen)?;
            let start = self.cur.start;
            let length = self.number()?;
            if length == 0 {
                return Err(self.error_at(start));
            }
            args.push(Expr::Literal(Literal::Int(length)));
            self.expect(Tok::RParen)?;
        } else if self.cur.tok == Tok::Comma {
            name = "weight_string_sized";
            for _ in 0..3 {
                self.expect(Tok::Comma)?;
                args.push(Expr::Literal(Literal::Int(self.number()?)));
            }
        }
        self.expect(Tok::RParen)?;
        Ok(plain(name, args))
    }

    // Casts and column forms.

    fn cast(&mut self) -> SqlResult<Expr> {
        self.open()?;
        let expr = self.expr()?;
        if self.eat_kw(Kw::AT) {
            return self.cast_at_zone(expr);
        }
        self.expect_kw(Kw::AS)?;
        let mut ty = self.cast_type()?;
        if ty.name == TypeName::Char && ty.charset.as_deref() == Some("binary") {
            ty.name = TypeName::Binary;
            ty.charset = None;
        }
        ty.array = self.eat_kw(Kw::ARRAY);
        self.expect(Tok::RParen)?;
        Ok(Expr::Cast {
            expr: Box::new(expr),
            ty: Box::new(ty),
        })
    }

    /// `CAST(moment AT TIME ZONE [INTERVAL] '+00:00' AS DATETIME[(n)])`, behind AT.
    fn cast_at_zone(&mut self, moment: Expr) -> SqlResult<Expr> {
        if self.eat_kw(Kw::LOCAL) {
            return Err(SqlError::not_supported("AT LOCAL"));
        }
        self.expect_kw(Kw::TIME)?;
        self.expect_word("ZONE")?;
        self.eat_kw(Kw::INTERVAL);
        let (bytes, charset) = (self.string()?, None);
        self.expect_kw(Kw::AS)?;
        self.expect_kw(Kw::DATETIME)?;
        let digits = self.paren_number()?.unwrap_or(0);
        self.expect(Tok::RParen)?;
        let zone = Expr::Literal(Literal::Str { bytes, charset });
        let digits = Expr::Literal(Literal::Int(digits));
        Ok(plain("at_time_zone", vec![moment, zone, digits]))
    }

    fn convert(&mut self) -> SqlResult<Expr> {
        self.open()?;
        let expr = self.expr()?;
        if self.eat_kw(Kw::USING) {
            let name = format!("convert_using_{}", self.known_charset()?);
            self.expect(Tok::RParen)?;
            return Ok(call1(&name, expr));
        }
        self.expect(Tok::Comma)?;
        let ty = self.cast_type()?;
        self.expect(Tok::RParen)?;
        Ok(Expr::Cast {
            expr: Box::new(expr),
            ty: Box::new(ty),
        })
    }

    pub(super) fn cast_type(&mut self) -> SqlResult<DataType> {
        use Kw::*;
        let kw = self.kw();
        let mut ty = DataType::new(match kw {
            SIGNED | UNSIGNED => TypeName::BigInt,
            BINARY => TypeName::Binary,
            CHAR | CHARACTER | NCHAR | NATIONAL => TypeName::Char,
            DATE => TypeName::Date,
            TIME => TypeName::Time,
            DATETIME => TypeName::DateTime,
            YEAR => TypeName::Year,
            DECIMAL | DEC => TypeName::Decimal,
            DOUBLE => TypeName::Double,
            REAL if self.mode(esker_types::SqlMode::REAL_AS_FLOAT) => TypeName::Float,
            REAL => TypeName::Double,
            FLOAT => TypeName::Float,
            JSON => TypeName::Json,
            _ if let Some(shape) = shape_of(kw).filter(|shape| *shape != Shape::Geometry) => {
                TypeName::Geometry(shape)
            }
            _ => return self.fail(),
        });
        self.advance();
        match kw {
            SIGNED | UNSIGNED => {
                ty.unsigned = kw == UNSIGNED;
                self.eat_any(&[INT, INTEGER]);
            }
            NATIONAL => {
                self.deprecate(Deprecation::National);
                self.expect_any(&[CHAR, CHARACTER])?;
                ty.charset = Some("utf8mb3".into());
                ty.length = self.paren_number()?;
            }
            NCHAR => {
                self.deprecate(Deprecation::National);
                ty.charset = Some("utf8mb3".into());
                ty.length = self.paren_number()?;
            }
            BINARY | TIME | DATETIME => ty.length = self.paren_number()?,
            CHAR | CHARACTER => {
                ty.length = self.paren_number()?;
                self.type_charset(&mut ty)?;
            }
            DECIMAL | DEC => self.precision(&mut ty)?,
            DOUBLE => {
                self.eat_kw(PRECISION);
            }
            FLOAT => {
                ty.length = self.paren_number()?;
                if ty.length.is_some_and(|p| p > 24) {
                    ty.name = TypeName::Double;
                }
            }
            _ => {}
        }
        Ok(ty)
    }

    /// `DEFAULT(col)`, `VALUES(col)`.
    fn column_call(&mut self, kw: Kw) -> SqlResult<Expr> {
        self.open()?;
        let column = self.column_ref()?;
        self.expect(Tok::RParen)?;
        if kw == Kw::DEFAULT {
            if column.table.is_none() && self.has_variable(&column.name.text) {
                return Err(errors::wrong_column_name(&column.name.text));
            }
            return Ok(Expr::Default(Some(column)));
        }
        self.deprecate(match self.in_on_duplicate {
            true => Deprecation::Values,
            false => Deprecation::MisplacedValues,
        });
        Ok(Expr::Values(column))
    }

    fn match_against(&mut self) -> SqlResult<Expr> {
        self.advance();
        let columns = if self.is(Tok::LParen) {
            self.paren_list(Self::column_ref)?
        } else {
            self.list(Self::column_ref)?
        };
        self.expect_kw(Kw::AGAINST)?;
        self.expect(Tok::LParen)?;
        let against = Box::new(self.expr_at(Level::BitOr)?);
        let mode = self.match_mode()?;
        self.expect(Tok::RParen)?;
        Ok(Expr::Match {
            columns,
            against,
            mode,
        })
    }

    fn match_mode(&mut self) -> SqlResult<MatchMode> {
        if self.eat_kw(Kw::IN) {
            if self.eat_kw(Kw::BOOLEAN) {
                self.expect_kw(Kw::MODE)?;
                return Ok(MatchMode::Boolean);
            }
            self.expect_seq(&[Kw::NATURAL, Kw::LANGUAGE, Kw::MODE])?;
        }
        if self.eat_kw(Kw::WITH) {
            self.expect_seq(&[Kw::QUERY, Kw::EXPANSION])?;
            return Ok(MatchMode::Expansion);
        }
        Ok(MatchMode::Natural)
    }
}

/// Reserved words that start a call: without `(` the error is behind them.
fn starts_call(kw: Kw) -> bool {
    use Kw::*;
    fixed_arity(kw).is_some()
        || matches!(
            kw,
            CHAR | CHARACTER
                | CONVERT
                | DEFAULT
                | VALUES
                | DATABASE
                | SCHEMA
                | ROW
                | ROW_NUMBER
                | RANK
                | DENSE_RANK
                | CUME_DIST
                | PERCENT_RANK
                | NTILE
                | LEAD
                | LAG
                | FIRST_VALUE
                | LAST_VALUE
                | NTH_VALUE
        )
}

/// Functions that are keywords: fewest and most arguments their grammar rules take.
fn fixed_arity(kw: Kw) -> Option<(usize, usize)> {
    use Kw::*;
    Some(match kw {
        IF | REPLACE => (3, 3),
        INSERT => (4, 4),
        LEFT | RIGHT | REPEAT | MOD | TRUNCATE => (2, 2),
        FORMAT => (2, 3),
        ASCII | CHARSET | COLLATION | DATE | DAY | HOUR | MICROSECOND | MINUTE | MONTH
        | QUARTER | REVERSE | SECOND | TIME | YEAR => (1, 1),
        TIMESTAMP | WEEK => (1, 2),
        GEOMETRYCOLLECTION | GEOMCOLLECTION => (0, usize::MAX),
        COALESCE | GROUPING | LINESTRING | MULTILINESTRING | MULTIPOINT | MULTIPOLYGON
        | POLYGON => (1, usize::MAX),
        POINT => (2, 2),
        _ => return None,
    })
}

fn plain(name: &str, args: Vec<Expr>) -> Expr {
    Expr::Call(Box::new(Call::plain(Ident::new(name), args)))
}
