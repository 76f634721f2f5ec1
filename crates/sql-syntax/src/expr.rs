//! Expressions: MySQL 8.4's operator levels by precedence climbing.
//!
//! Neighbours: `operand` parses literals and names, `call` what looks like a call, `query` subqueries.
//! **Invariants**: MySQL's grammar is layered (expr, bool_pri, predicate, bit_expr, simple_expr), so
//! an operator asks its left operand for a level too: `a LIKE b LIKE c` and `a = NOT b` are syntax
//! errors here as there. No alternative is tried twice: `(` decides between query, row and expression
//! by what it finds inside, so parsing is linear. `height` after a subexpression is its tree height.

use esker_types::names::check_user_variable;
use esker_types::temporal::{DateFlags, Parsed, ParsedKind, parse_datetime, parse_time};
use esker_types::{SqlMode, SqlResult};

use super::MAX_EXPR_HEIGHT;
use super::ast::{BinaryOp, Expr, Ident, IsTest, Literal, Query, UnaryOp};
use super::deprecated::Deprecation;
use super::keyword::Kw;
use super::lexer::Tok;
use super::parser::{Parser, too_deep};

/// Binding strength of operators, and of the expression a parse produced.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Level {
    Or,
    Xor,
    And,
    /// NOT, IS TRUE: an `expr` that is no operand of a comparison.
    Not,
    /// Comparisons, IS NULL (`bool_pri`).
    Cmp,
    /// LIKE, IN, BETWEEN (`predicate`).
    Pred,
    BitOr,
    BitAnd,
    Shift,
    Add,
    Mul,
    BitXor,
    /// `||` as concatenation.
    Concat,
    /// Prefix operators.
    Prefix,
    Primary,
}

/// What follows INTERVAL.
pub(super) enum Interval {
    /// `n unit`.
    Amount(Expr, &'static str),
    /// It was the function `INTERVAL(a, b, …)`.
    Call(Expr),
}

/// What a pair of parentheses held.
pub(super) enum Paren {
    Query(Box<Query>),
    List(Vec<Expr>),
}

impl Parser<'_> {
    /// Any expression.
    pub(super) fn expr(&mut self) -> SqlResult<Expr> {
        self.expr_at(Level::Or)
    }

    /// An expression whose operators bind at least as tightly as `min`.
    pub(super) fn expr_at(&mut self, min: Level) -> SqlResult<Expr> {
        self.nested(|p| {
            let outer = std::mem::take(&mut p.height);
            let (left, level) = p.prefix(min)?;
            p.grow()?;
            let expr = p.infix(left, level, min)?;
            p.height = p.height.max(outer);
            Ok(expr)
        })
    }

    /// Continues an expression whose first operand is parsed already (and counted in `height`).
    pub(super) fn expr_from(&mut self, left: Expr, min: Level) -> SqlResult<Expr> {
        self.grow()?;
        self.infix(left, Level::Primary, min)
    }

    pub(super) fn grow(&mut self) -> SqlResult<()> {
        self.height += 1;
        if self.height > MAX_EXPR_HEIGHT {
            Err(too_deep())
        } else {
            Ok(())
        }
    }

    // Infix operators.

    fn infix(&mut self, mut left: Expr, mut level: Level, min: Level) -> SqlResult<Expr> {
        loop {
            let (next, next_level) = match self.infix_once(left, level, min)? {
                Ok(step) => step,
                Err(done) => return Ok(done),
            };
            (left, level) = (next, next_level);
        }
    }

    /// One operator after `left`, or `left` itself when there is none that binds tightly enough.
    fn infix_once(
        &mut self,
        left: Expr,
        level: Level,
        min: Level,
    ) -> SqlResult<Result<(Expr, Level), Expr>> {
        if let Some((op, strength)) = self.arithmetic_op() {
            if strength < min || level < strength {
                return Ok(Err(left));
            }
            self.advance();
            let expr = self.arithmetic(left, op, strength)?;
            self.grow()?;
            return Ok(Ok((expr, strength)));
        }
        let strength = match self.cur.tok {
            Tok::Eq | Tok::NullSafeEq | Tok::Ne | Tok::Lt | Tok::Le | Tok::Gt | Tok::Ge => {
                Level::Cmp
            }
            Tok::AmpAmp => Level::And,
            Tok::PipePipe if self.mode(SqlMode::PIPES_AS_CONCAT) => Level::Concat,
            Tok::PipePipe => Level::Or,
            Tok::Word(kw) => match word_strength(kw) {
                Some(strength) => strength,
                None => return Ok(Err(left)),
            },
            _ => return Ok(Err(left)),
        };
        if strength < min || level < left_level(strength) {
            return Ok(Err(left));
        }
        let step = match strength {
            Level::Or | Level::And => (self.junction(left, strength)?, strength),
            Level::Xor => {
                self.advance();
                let right = self.expr_at(Level::And)?;
                (Expr::Xor(Box::new(left), Box::new(right)), Level::Xor)
            }
            Level::Cmp if self.at(Kw::IS) => self.is_test(left)?,
            Level::Cmp => (self.comparison(left)?, Level::Cmp),
            Level::Pred => (self.predicate(left)?, Level::Pred),
            Level::Concat => {
                self.advance();
                let right = self.expr_at(Level::Prefix)?;
                (call2("concat", left, right), Level::Concat)
            }
            _ => {
                // COLLATE.
                self.advance();
                let collation = self.ident_or_text()?.to_ascii_lowercase().into();
                (
                    Expr::Collate {
                        expr: Box::new(left),
                        collation,
                    },
                    Level::Primary,
                )
            }
        };
        self.grow()?;
        Ok(Ok(step))
    }

    fn arithmetic_op(&self) -> Option<(BinaryOp, Level)> {
        Some(match self.cur.tok {
            Tok::Pipe => (BinaryOp::BitOr, Level::BitOr),
            Tok::Amp => (BinaryOp::BitAnd, Level::BitAnd),
            Tok::Shl => (BinaryOp::Shl, Level::Shift),
            Tok::Shr => (BinaryOp::Shr, Level::Shift),
            Tok::Plus => (BinaryOp::Add, Level::Add),
            Tok::Minus => (BinaryOp::Sub, Level::Add),
            Tok::Star => (BinaryOp::Mul, Level::Mul),
            Tok::Slash => (BinaryOp::Div, Level::Mul),
            Tok::Percent | Tok::Word(Kw::MOD) => (BinaryOp::Mod, Level::Mul),
            Tok::Word(Kw::DIV) => (BinaryOp::IntDiv, Level::Mul),
            Tok::Caret => (BinaryOp::BitXor, Level::BitXor),
            _ => return None,
        })
    }

    /// After the operator: the right operand, or `INTERVAL n unit` after `+` and `-`.
    fn arithmetic(&mut self, left: Expr, op: BinaryOp, strength: Level) -> SqlResult<Expr> {
        if self.at(Kw::INTERVAL) && strength == Level::Add {
            let (amount, unit) = match self.interval_operand()? {
                Interval::Amount(amount, unit) => (amount, unit),
                Interval::Call(call) => {
                    let right = Box::new(self.expr_from(call, Level::Mul)?);
                    return Ok(Expr::Binary {
                        op,
                        left: Box::new(left),
                        right,
                    });
                }
            };
            let name = if op == BinaryOp::Add {
                "date_add"
            } else {
                "date_sub"
            };
            return Ok(call2(&format!("{name}_{unit}"), left, amount));
        }
        let right = self.expr_at(tighter(strength))?;
        Ok(Expr::Binary {
            op,
            left: Box::new(left),
            right: Box::new(right),
        })
    }

    /// AND and OR lists, flattened.
    fn junction(&mut self, left: Expr, strength: Level) -> SqlResult<Expr> {
        match self.advance().tok {
            Tok::AmpAmp => self.deprecate(Deprecation::And),
            Tok::PipePipe => self.deprecate(Deprecation::Or),
            _ => {}
        }
        let left_height = std::mem::take(&mut self.height);
        let right = self.expr_at(tighter(strength))?;
        let or = strength == Level::Or;
        let (mut list, flat) = match left {
            Expr::Or(list) if or => (list, true),
            Expr::And(list) if !or => (list, true),
            left => (vec![left], false),
        };
        // A list grows sideways; the caller adds the one level of a new node.
        self.height = if flat {
            self.height.max(left_height - 1)
        } else {
            self.height.max(left_height)
        };
        list.push(right);
        Ok(if or { Expr::Or(list) } else { Expr::And(list) })
    }

    fn comparison(&mut self, left: Expr) -> SqlResult<Expr> {
        let op = match self.advance().tok {
            Tok::Eq => BinaryOp::Eq,
            Tok::NullSafeEq => BinaryOp::NullSafeEq,
            Tok::Ne => BinaryOp::Ne,
            Tok::Lt => BinaryOp::Lt,
            Tok::Le => BinaryOp::Le,
            Tok::Gt => BinaryOp::Gt,
            _ => BinaryOp::Ge,
        };
        let quantifier = matches!(self.kw(), Kw::ALL | Kw::ANY | Kw::SOME)
            && op != BinaryOp::NullSafeEq
            && self.peek().tok == Tok::LParen;
        if quantifier {
            let all = self.advance().tok == Tok::Word(Kw::ALL);
            let query = self.subquery()?;
            return Ok(Expr::Quantified {
                op,
                expr: Box::new(left),
                all,
                query,
            });
        }
        let right = self.expr_at(Level::Pred)?;
        Ok(Expr::Binary {
            op,
            left: Box::new(left),
            right: Box::new(right),
        })
    }

    fn is_test(&mut self, left: Expr) -> SqlResult<(Expr, Level)> {
        self.advance();
        let negated = self.eat_kw(Kw::NOT);
        let (test, level) = match self.kw() {
            Kw::NULL => (IsTest::Null, Level::Cmp),
            Kw::UNKNOWN => (IsTest::Null, Level::Not),
            Kw::TRUE => (IsTest::True, Level::Not),
            Kw::FALSE => (IsTest::False, Level::Not),
            _ => return self.fail(),
        };
        self.advance();
        Ok((
            Expr::Is {
                expr: Box::new(left),
                negated,
                test,
            },
            level,
        ))
    }

    /// `[NOT] IN | LIKE | BETWEEN | REGEXP`, `MEMBER OF`, `SOUNDS LIKE` after a `bit_expr`.
    fn predicate(&mut self, left: Expr) -> SqlResult<Expr> {
        let negated = self.eat_kw(Kw::NOT);
        let expr = Box::new(left);
        let word = self.kw();
        let known = match word {
            Kw::IN | Kw::LIKE | Kw::REGEXP | Kw::RLIKE | Kw::BETWEEN => true,
            Kw::MEMBER | Kw::SOUNDS => !negated,
            _ => false,
        };
        if !known {
            return self.fail();
        }
        self.advance();
        Ok(match word {
            Kw::IN => match self.operand_paren()? {
                Paren::Query(query) => Expr::InSubquery {
                    expr,
                    query,
                    negated,
                },
                Paren::List(list) => Expr::InList {
                    expr,
                    list,
                    negated,
                },
            },
            Kw::LIKE => self.like(expr, negated)?,
            Kw::REGEXP | Kw::RLIKE => {
                let pattern = Box::new(self.expr_at(Level::BitOr)?);
                Expr::Regexp {
                    expr,
                    pattern,
                    negated,
                }
            }
            Kw::BETWEEN => {
                let low = Box::new(self.expr_at(Level::BitOr)?);
                self.expect_kw(Kw::AND)?;
                let high = Box::new(self.expr_at(Level::Pred)?);
                Expr::Between {
                    expr,
                    low,
                    high,
                    negated,
                }
            }
            Kw::MEMBER => {
                self.eat_kw(Kw::OF);
                self.expect(Tok::LParen)?;
                let array = Box::new(self.expr_at(Level::Concat)?);
                self.expect(Tok::RParen)?;
                Expr::MemberOf { expr, array }
            }
            _ => self.sounds_like(*expr)?,
        })
    }

    fn like(&mut self, expr: Box<Expr>, negated: bool) -> SqlResult<Expr> {
        let pattern = Box::new(self.expr_at(Level::Concat)?);
        let mut escape = None;
        if self.eat_kw(Kw::ESCAPE) {
            escape = Some(Box::new(self.expr_at(Level::Concat)?));
        }
        Ok(Expr::Like {
            expr,
            pattern,
            escape,
            negated,
        })
    }

    /// `a SOUNDS LIKE b` is SOUNDEX(a) = SOUNDEX(b).
    fn sounds_like(&mut self, left: Expr) -> SqlResult<Expr> {
        self.expect_kw(Kw::LIKE)?;
        let right = self.expr_at(Level::BitOr)?;
        let [left, right] = [left, right].map(|e| Box::new(call1("soundex", e)));
        Ok(Expr::Binary {
            op: BinaryOp::Eq,
            left,
            right,
        })
    }

    // Prefix operators and primaries.

    fn prefix(&mut self, min: Level) -> SqlResult<(Expr, Level)> {
        match self.cur.tok {
            Tok::Minus => self.unary(UnaryOp::Neg),
            Tok::Plus => self.unary(UnaryOp::Plus),
            Tok::Tilde => self.unary(UnaryOp::BitNot),
            Tok::Bang => {
                self.deprecate(Deprecation::Not);
                self.tight_not()
            }
            Tok::Word(Kw::NOT) if self.mode(SqlMode::HIGH_NOT_PRECEDENCE) => self.tight_not(),
            Tok::Word(Kw::NOT) if min <= Level::Not => {
                self.advance();
                let operand = self.expr_at(Level::Not)?;
                Ok((Expr::Not(Box::new(operand)), Level::Not))
            }
            Tok::Word(Kw::BINARY) => {
                self.advance();
                let expr = Box::new(self.expr_at(Level::Prefix)?);
                self.deprecate(Deprecation::Binary);
                let ty = super::ast::DataType::new(super::ast::TypeName::Binary);
                Ok((
                    Expr::Cast {
                        expr,
                        ty: Box::new(ty),
                    },
                    Level::Prefix,
                ))
            }
            _ => Ok((self.primary()?, Level::Primary)),
        }
    }

    fn unary(&mut self, op: UnaryOp) -> SqlResult<(Expr, Level)> {
        self.advance();
        let expr = Box::new(self.expr_at(Level::Prefix)?);
        Ok((Expr::Unary { op, expr }, Level::Prefix))
    }

    fn tight_not(&mut self) -> SqlResult<(Expr, Level)> {
        self.advance();
        let expr = self.expr_at(Level::Prefix)?;
        Ok((Expr::Not(Box::new(expr)), Level::Prefix))
    }

    pub(super) fn primary(&mut self) -> SqlResult<Expr> {
        let token = self.cur;
        match token.tok {
            Tok::Int
            | Tok::Decimal
            | Tok::Float
            | Tok::Str
            | Tok::NStr
            | Tok::HexStr
            | Tok::HexNum
            | Tok::BitStr
            | Tok::BitNum => self.literal(),
            Tok::Param => self.param(),
            Tok::LParen => match self.operand_paren()? {
                Paren::Query(query) => Ok(Expr::Subquery(query)),
                Paren::List(mut list) if list.len() == 1 => Ok(list.remove(0)),
                Paren::List(list) => Ok(Expr::Row(list)),
            },
            Tok::LBrace => self.odbc(),
            Tok::At | Tok::AtName => {
                let written = self.user_var_as_written()?.unwrap_or_default();
                let var = written.to_lowercase().into();
                self.note_variable();
                if self.eat(Tok::Assign) {
                    check_user_variable(&written)?;
                    let value = Box::new(self.expr()?);
                    self.deprecate(Deprecation::Assignment);
                    return Ok(Expr::Assign { var, value });
                }
                Ok(Expr::UserVar(var))
            }
            Tok::AtAt => {
                self.note_variable();
                Ok(Expr::SysVar(self.sys_var()?))
            }
            Tok::Quoted => self.named_operand(),
            Tok::Introducer => self.introduced(),
            Tok::Word(kw) => self.word_primary(kw),
            _ => self.fail(),
        }
    }

    pub(super) fn param(&mut self) -> SqlResult<Expr> {
        if !self.opts.params {
            return self.fail();
        }
        self.advance();
        self.note_variable();
        self.params += 1;
        Ok(Expr::Param(self.params - 1))
    }

    fn word_primary(&mut self, kw: Kw) -> SqlResult<Expr> {
        match kw {
            Kw::OTHER => self.named_operand(),
            Kw::NULL => self.constant(Literal::Null),
            Kw::TRUE => self.constant(Literal::Bool(true)),
            Kw::FALSE => self.constant(Literal::Bool(false)),
            Kw::CASE => self.case(),
            Kw::EXISTS => {
                self.advance();
                Ok(Expr::Exists(self.subquery()?))
            }
            Kw::ROW if self.peek().tok == Tok::LParen => {
                self.advance();
                let list = self.paren_list(Self::expr)?;
                if list.len() < 2 {
                    // ROW needs a second member: the error is at the closing parenthesis.
                    return Err(self.error_at(self.prev_end - 1));
                }
                Ok(Expr::Row(list))
            }
            Kw::DATE | Kw::TIME | Kw::TIMESTAMP if self.peek().tok == Tok::Str => {
                self.advance();
                let text = self.string()?;
                Ok(Expr::Literal(match kw {
                    Kw::DATE => Literal::Date(text),
                    Kw::TIME => Literal::Time(text),
                    _ => Literal::Timestamp(text),
                }))
            }
            _ => self.special_call(kw),
        }
    }

    fn constant(&mut self, value: Literal) -> SqlResult<Expr> {
        self.advance();
        Ok(Expr::Literal(value))
    }

    /// `(…)`: a query, or one or more expressions. The parentheses are consumed.
    pub(super) fn operand_paren(&mut self) -> SqlResult<Paren> {
        self.nested(|p| {
            let start = p.cur.start;
            p.expect(Tok::LParen)?;
            if p.at_query_start() {
                if p.no_subqueries {
                    return Err(p.error_at(start));
                }
                let query = p.query_in_paren()?;
                p.expect(Tok::RParen)?;
                return Ok(Paren::Query(query));
            }
            let first = if p.is(Tok::LParen) {
                match p.operand_paren()? {
                    Paren::Query(query) if p.at_query_continuation() => {
                        let query = p.query_from_nested(*query)?;
                        p.expect(Tok::RParen)?;
                        return Ok(Paren::Query(Box::new(query)));
                    }
                    Paren::Query(query) if p.eat(Tok::RParen) => return Ok(Paren::Query(query)),
                    Paren::Query(query) => p.expr_from(Expr::Subquery(query), Level::Or)?,
                    Paren::List(mut list) if list.len() == 1 => {
                        let first = list.remove(0);
                        p.expr_from(first, Level::Or)?
                    }
                    Paren::List(list) => p.expr_from(Expr::Row(list), Level::Or)?,
                }
            } else {
                p.expr()?
            };
            let mut list = vec![first];
            while p.eat(Tok::Comma) {
                list.push(p.expr()?);
            }
            p.expect(Tok::RParen)?;
            Ok(Paren::List(list))
        })
    }

    /// `(query)` where nothing else is possible.
    pub(super) fn subquery(&mut self) -> SqlResult<Box<Query>> {
        let mut ahead = self.clone();
        ahead.expect(Tok::LParen)?;
        while ahead.eat(Tok::LParen) {}
        if !ahead.at_query_start() {
            return ahead.fail();
        }
        match self.operand_paren()? {
            Paren::Query(query) => Ok(query),
            Paren::List(_) => Err(self.error_at(self.prev_end - 1)),
        }
    }

    /// `{d '…'}`, `{t '…'}`, `{ts '…'}`; any other word in braces has no effect, nor has one of these before a text
    /// that is no such moment.
    fn odbc(&mut self) -> SqlResult<Expr> {
        self.advance();
        let word = self.ident()?;
        let expr = self.expr()?;
        self.expect(Tok::RBrace)?;
        let Expr::Literal(Literal::Str {
            bytes,
            charset: None,
        }) = &expr
        else {
            return Ok(expr);
        };
        let plain = |p: Parsed| p.warn.is_none().then_some(p.kind);
        let moment = || parse_datetime(bytes, DateFlags::FUZZY).ok().and_then(plain);
        let time = || parse_time(bytes, DateFlags::NONE).ok().and_then(plain);
        let literal = if word.is("d") && moment() == Some(ParsedKind::Date) {
            Literal::Date(bytes.clone())
        } else if word.is("ts") && moment() == Some(ParsedKind::DateTime) {
            Literal::Timestamp(bytes.clone())
        } else if word.is("t") && time() == Some(ParsedKind::Time) {
            Literal::Time(bytes.clone())
        } else {
            return Ok(expr);
        };
        Ok(Expr::Literal(literal))
    }

    fn case(&mut self) -> SqlResult<Expr> {
        self.advance();
        let operand = if self.at(Kw::WHEN) {
            None
        } else {
            Some(Box::new(self.expr()?))
        };
        let mut whens = Vec::new();
        self.expect_kw(Kw::WHEN)?;
        loop {
            let when = self.expr()?;
            self.expect_kw(Kw::THEN)?;
            whens.push((when, self.expr()?));
            if !self.eat_kw(Kw::WHEN) {
                break;
            }
        }
        let otherwise = if self.eat_kw(Kw::ELSE) {
            Some(Box::new(self.expr()?))
        } else {
            None
        };
        self.expect_kw(Kw::END)?;
        Ok(Expr::Case {
            operand,
            whens,
            otherwise,
        })
    }
}

/// What the left operand of an operator of this strength must be.
fn left_level(strength: Level) -> Level {
    match strength {
        // A predicate's operand is a bit_expr.
        Level::Pred => Level::BitOr,
        // COLLATE and `||` take a simple_expr.
        Level::Primary => Level::Concat,
        other => other,
    }
}

/// The level of right operands of left-associative operators.
fn tighter(strength: Level) -> Level {
    match strength {
        Level::Or => Level::Xor,
        Level::Xor => Level::And,
        Level::And => Level::Not,
        Level::BitOr => Level::BitAnd,
        Level::BitAnd => Level::Shift,
        Level::Shift => Level::Add,
        Level::Add => Level::Mul,
        Level::Mul => Level::BitXor,
        _ => Level::Concat,
    }
}

fn word_strength(kw: Kw) -> Option<Level> {
    Some(match kw {
        Kw::OR => Level::Or,
        Kw::XOR => Level::Xor,
        Kw::AND => Level::And,
        Kw::IS => Level::Cmp,
        Kw::IN | Kw::LIKE | Kw::REGEXP | Kw::RLIKE | Kw::BETWEEN | Kw::NOT => Level::Pred,
        Kw::MEMBER | Kw::SOUNDS => Level::Pred,
        Kw::COLLATE => Level::Primary,
        _ => return None,
    })
}

/// A call of a lowered form.
pub(super) fn call1(name: &str, a: Expr) -> Expr {
    Expr::Call(Box::new(super::ast::Call::plain(Ident::new(name), vec![a])))
}

/// A call of a lowered form.
pub(super) fn call2(name: &str, a: Expr, b: Expr) -> Expr {
    Expr::Call(Box::new(super::ast::Call::plain(
        Ident::new(name),
        vec![a, b],
    )))
}
