//! Aggregates and window functions: arguments, OVER, window specifications and frames.
//!
//! Neighbours: `call` decides which function it is; `query` parses the WINDOW clause with [`Parser::window_spec`].
//! **Invariants**: a window function has an OVER clause; what MySQL's grammar has and the server has not is error 1235.

use esker_types::{SqlError, SqlResult, errors};

use super::ast::{Call, Expr, FrameBound, OrderItem, Over, WindowFrame, WindowSpec};
use super::expr::{Interval, Level};
use super::keyword::Kw;
use super::lexer::Tok;
use super::parser::Parser;

/// Where the bounds of a frame that has both may be.
const EITHER_SIDE: &[Kw] = &[Kw::PRECEDING, Kw::FOLLOWING];

impl Parser<'_> {
    pub(super) fn aggregate(&mut self, kw: Kw) -> SqlResult<Expr> {
        let mut call = Call::plain(self.word_as_name(), Vec::new());
        self.expect(Tok::LParen)?;
        if kw == Kw::COUNT && self.eat(Tok::Star) {
            call.star = true;
        } else {
            let distinct_ok = matches!(
                kw,
                Kw::COUNT | Kw::SUM | Kw::AVG | Kw::MIN | Kw::MAX | Kw::GROUP_CONCAT
            );
            call.distinct = distinct_ok && self.eat_kw(Kw::DISTINCT);
            if !call.distinct && kw != Kw::GROUP_CONCAT {
                self.eat_kw(Kw::ALL);
            }
            call.args.push(self.expr()?);
            let many = kw == Kw::GROUP_CONCAT || (kw == Kw::COUNT && call.distinct);
            while (many || (kw == Kw::JSON_OBJECTAGG && call.args.len() < 2))
                && self.eat(Tok::Comma)
            {
                call.args.push(self.expr()?);
            }
        }
        if kw == Kw::GROUP_CONCAT {
            call.order_by = self.opt_order_by()?;
            if self.eat_kw(Kw::SEPARATOR) {
                call.separator = Some(self.string_or_hex()?);
            }
        }
        self.expect(Tok::RParen)?;
        call.over = self.opt_over()?;
        Ok(Expr::Call(Box::new(call)))
    }

    pub(super) fn window_function(&mut self, kw: Kw) -> SqlResult<Expr> {
        let mut call = Call::plain(self.word_as_name(), Vec::new());
        self.expect(Tok::LParen)?;
        match kw {
            Kw::NTILE => call.args.push(self.stable_integer()?),
            Kw::FIRST_VALUE | Kw::LAST_VALUE => call.args.push(self.expr()?),
            Kw::NTH_VALUE => {
                call.args.push(self.expr()?);
                self.expect(Tok::Comma)?;
                call.args.push(match self.at(Kw::NULL) {
                    true => self.expr_at(Level::Primary)?,
                    false => self.expr_at(Level::Prefix)?,
                });
            }
            Kw::LEAD | Kw::LAG => {
                call.args.push(self.expr()?);
                if self.eat(Tok::Comma) {
                    call.args.push(self.stable_integer()?);
                    if self.eat(Tok::Comma) {
                        call.args.push(self.expr()?);
                    }
                }
            }
            _ => {}
        }
        self.expect(Tok::RParen)?;
        if self.eat_kw(Kw::FROM) {
            if self.eat_kw(Kw::LAST) {
                return Err(SqlError::not_supported("FROM LAST"));
            }
            self.expect_kw(Kw::FIRST)?;
        }
        if self.eat_kw(Kw::IGNORE) {
            self.expect_kw(Kw::NULLS)?;
            return Err(SqlError::not_supported("IGNORE NULLS"));
        }
        if self.eat_kw(Kw::RESPECT) {
            self.expect_kw(Kw::NULLS)?;
        }
        call.over = self.opt_over()?;
        if call.over.is_none() {
            return self.fail();
        }
        Ok(Expr::Call(Box::new(call)))
    }

    /// A number that is the same for all rows: an integer literal, a parameter, or a variable of the session or of the
    /// program.
    fn stable_integer(&mut self) -> SqlResult<Expr> {
        match self.cur.tok {
            Tok::Int | Tok::Param | Tok::At | Tok::AtName => self.expr_at(Level::Primary),
            Tok::Quoted | Tok::Word(_) => {
                let (name, local) = self.integer_operand()?;
                local.ok_or_else(|| errors::undeclared_variable(&name.text))
            }
            _ => self.fail(),
        }
    }

    fn opt_over(&mut self) -> SqlResult<Option<Over>> {
        if !self.eat_kw(Kw::OVER) {
            return Ok(None);
        }
        if self.is(Tok::LParen) {
            return Ok(Some(Over::Spec(self.window_spec()?)));
        }
        Ok(Some(Over::Named(self.ident()?)))
    }

    pub(super) fn window_spec(&mut self) -> SqlResult<WindowSpec> {
        self.expect(Tok::LParen)?;
        let base = self.opt_ident()?;
        let mut partition_by = Vec::new();
        if self.eat_kw(Kw::PARTITION) {
            self.expect_kw(Kw::BY)?;
            partition_by = self.list(Self::expr)?;
        }
        let order_by = self.opt_order_by()?;
        let frame = match self.eat_any(&[Kw::ROWS, Kw::RANGE, Kw::GROUPS]) {
            Some(Kw::GROUPS) => return Err(SqlError::not_supported("GROUPS")),
            Some(kind) => Some(self.frame(kind == Kw::RANGE)?),
            None => None,
        };
        self.expect(Tok::RParen)?;
        Ok(WindowSpec {
            base,
            partition_by,
            order_by,
            frame,
        })
    }

    fn frame(&mut self, range: bool) -> SqlResult<WindowFrame> {
        let (start, end) = if self.eat_kw(Kw::BETWEEN) {
            let start = self.frame_bound(EITHER_SIDE)?;
            self.expect_kw(Kw::AND)?;
            (start, self.frame_bound(EITHER_SIDE)?)
        } else {
            (self.frame_bound(&[Kw::PRECEDING])?, FrameBound::CurrentRow)
        };
        if self.at(Kw::EXCLUDE) {
            return Err(SqlError::not_supported("EXCLUDE"));
        }
        Ok(WindowFrame { range, start, end })
    }

    /// A bound on one of these sides of the current row, or that row.
    fn frame_bound(&mut self, sides: &[Kw]) -> SqlResult<FrameBound> {
        if self.eat_kw(Kw::UNBOUNDED) {
            return Ok(match self.expect_any(sides)? {
                Kw::PRECEDING => FrameBound::UnboundedPreceding,
                _ => FrameBound::UnboundedFollowing,
            });
        }
        if self.eat_kw(Kw::CURRENT) {
            self.expect_kw(Kw::ROW)?;
            return Ok(FrameBound::CurrentRow);
        }
        let (amount, unit) = if self.at(Kw::INTERVAL) {
            match self.interval_operand()? {
                Interval::Amount(amount, unit) => (amount, Some(unit.into())),
                Interval::Call(_) => return self.fail(),
            }
        } else if self.is(Tok::Param) {
            (self.param()?, None)
        } else if matches!(self.cur.tok, Tok::Int | Tok::Decimal | Tok::Float) {
            (self.expr_at(Level::Primary)?, None)
        } else {
            return self.fail();
        };
        let amount = Box::new(amount);
        Ok(match self.expect_any(sides)? {
            Kw::PRECEDING => FrameBound::Preceding(amount, unit),
            _ => FrameBound::Following(amount, unit),
        })
    }

    /// `[ORDER BY key [ASC|DESC], …]`.
    pub(super) fn opt_order_by(&mut self) -> SqlResult<Vec<OrderItem>> {
        if !self.eat_kw(Kw::ORDER) {
            return Ok(Vec::new());
        }
        self.expect_kw(Kw::BY)?;
        self.list(Self::order_item)
    }

    pub(super) fn order_item(&mut self) -> SqlResult<OrderItem> {
        let expr = self.expr()?;
        let desc = self.eat_any(&[Kw::ASC, Kw::DESC]) == Some(Kw::DESC);
        Ok(OrderItem { expr, desc })
    }
}
