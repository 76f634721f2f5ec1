//! Query expressions: SELECT, set operations, WITH, VALUES, TABLE, and what follows them.
//!
//! Neighbours: `table_ref` (FROM), `expr`; `statement`, `dml`, `ddl` embed queries.
//! **Invariants**: parentheses around a query without clauses of its own disappear; INTO is accepted
//! once, only at the outermost level.

use esker_types::{SqlError, SqlResult, errors};

use super::MAX_SELECT_NESTING;
use super::ast::{
    Cte, Expr, FileFormat, Ident, Into, Limit, Literal, LockWait, Locking, Query, QueryBody,
    Select, SelectItem, SelectOptions, SetOp, SetOpStep, With,
};
use super::deprecated::Deprecation;
use super::expr::Level;
use super::keyword::Kw;
use super::lexer::Tok;
use super::parser::Parser;
use super::terminals::is_ident;

impl Parser<'_> {
    /// Can a query without parentheses start here?
    pub(super) fn at_query_start(&self) -> bool {
        match self.kw() {
            Kw::SELECT | Kw::WITH | Kw::TABLE => true,
            Kw::VALUES => self.peek_is(Kw::ROW),
            _ => false,
        }
    }

    /// Can a parenthesised query go on here as a larger one?
    pub(super) fn at_query_continuation(&self) -> bool {
        matches!(
            self.kw(),
            Kw::UNION | Kw::EXCEPT | Kw::INTERSECT | Kw::ORDER | Kw::LIMIT | Kw::FOR | Kw::LOCK
        )
    }

    /// A query as a statement: INTO is possible.
    pub(super) fn query_statement(&mut self) -> SqlResult<Query> {
        let with = self.opt_with()?;
        self.into_ok = true;
        self.is_leading = with.is_none();
        self.is_outermost = true;
        let mut query = self.query_after_with(with)?;
        self.into_ok = false;
        self.trailing_into(&mut query)?;
        query.into = self.early_into.take();
        Ok(query)
    }

    /// INTO behind the query that is the statement.
    fn trailing_into(&mut self, query: &mut Query) -> SqlResult<()> {
        if !self.at(Kw::INTO) {
            return Ok(());
        }
        if self.early_into.is_some() {
            return Err(errors::second_into());
        }
        self.advance();
        self.early_into = Some(self.target_of_into()?);
        let locking = self.locking()?;
        if !locking.is_empty() {
            self.deprecate(Deprecation::InnerInto);
        }
        query.locking.extend(locking);
        Ok(())
    }

    /// A query embedded without parentheses: INSERT … SELECT, CREATE VIEW.
    pub(super) fn query(&mut self) -> SqlResult<Query> {
        let with = self.opt_with()?;
        self.is_outermost = true;
        self.query_after_with(with)
    }

    /// A view's query: 1350 for an INTO, wherever it stands.
    pub(super) fn view_query(&mut self) -> SqlResult<Query> {
        self.into_ok = true;
        let query = self.query()?;
        self.into_ok = false;
        if self.early_into.take().is_some() {
            self.defer(errors::view_with_clause("INTO"));
        }
        Ok(query)
    }

    pub(super) fn query_after_with(&mut self, with: Option<With>) -> SqlResult<Query> {
        self.nested(|p| {
            let body = p.set_operations(None)?;
            p.query_tail(with, body)
        })
    }

    /// A query inside parentheses that are already open.
    pub(super) fn query_in_paren(&mut self) -> SqlResult<Box<Query>> {
        let outer = (
            std::mem::take(&mut self.height),
            std::mem::take(&mut self.into_ok),
        );
        let with = self.opt_with()?;
        let query = self.query_after_with(with)?;
        self.refuse_into(&[Kw::INTO])?;
        self.height = self.height.max(outer.0);
        self.into_ok = outer.1;
        Ok(Box::new(query))
    }

    /// The same as an operand: of a statement it may have the INTO of that.
    fn query_of_operand(&mut self) -> SqlResult<Query> {
        if !self.into_ok {
            return Ok(*self.query_in_paren()?);
        }
        let outer = std::mem::take(&mut self.height);
        let with = self.opt_with()?;
        self.is_leading &= with.is_none();
        let query = self.query_after_with(with)?;
        self.height = self.height.max(outer);
        Ok(query)
    }

    /// Continues a query whose first operand was a parenthesised one.
    pub(super) fn query_from_nested(&mut self, first: Query) -> SqlResult<Query> {
        let body = self.set_operations(Some(operand(first)))?;
        self.query_tail(None, body)
    }

    fn query_tail(&mut self, with: Option<With>, body: QueryBody) -> SqlResult<Query> {
        let order_by = self.opt_order_by()?;
        let limit = self.opt_limit()?;
        let locking = self.locking()?;
        let bare = with.is_none() && order_by.is_empty() && limit.is_none() && locking.is_empty();
        match body {
            // A parenthesised query alone is that query.
            QueryBody::Nested(inner) if bare => Ok(*inner),
            body => Ok(Query {
                with,
                body,
                order_by,
                limit,
                locking,
                into: None,
            }),
        }
    }

    /// 3954, in a view 1350, if one of these words follows, before or behind which no INTO may stand.
    fn refuse_into(&self, words: &[Kw]) -> SqlResult<()> {
        if !words.contains(&self.kw()) {
            return Ok(());
        }
        Err(match self.places {
            Some(_) => errors::view_with_clause("INTO"),
            None => errors::misplaced_into(),
        })
    }

    // Set operations.

    /// UNION and EXCEPT from left to right; INTERSECT binds tighter.
    fn set_operations(&mut self, first: Option<QueryBody>) -> SqlResult<QueryBody> {
        let first = match first {
            Some(operand) => operand,
            None => self.query_operand()?,
        };
        let first = self.intersections(first)?;
        let mut rest = Vec::new();
        loop {
            // Queries inside of this one may have them.
            if self.into_ok && self.early_into.is_some() {
                self.refuse_into(&[Kw::UNION, Kw::EXCEPT, Kw::INTERSECT])?;
            }
            let Some(kw) = self.eat_any(&[Kw::UNION, Kw::EXCEPT]) else {
                break;
            };
            let op = if kw == Kw::UNION {
                SetOp::Union
            } else {
                SetOp::Except
            };
            let all = self.all_or_distinct();
            let right = self.query_operand()?;
            let right = self.intersections(right)?;
            rest.push(SetOpStep { op, all, right });
        }
        let is_inner = !rest.is_empty() && self.prev_end != self.into_end;
        if self.into_ok && self.early_into.is_some() && is_inner {
            self.deprecate(Deprecation::InnerInto);
        }
        Ok(join_steps(first, rest))
    }

    fn intersections(&mut self, first: QueryBody) -> SqlResult<QueryBody> {
        let mut rest = Vec::new();
        while self.eat_kw(Kw::INTERSECT) {
            let all = self.all_or_distinct();
            let right = self.query_operand()?;
            rest.push(SetOpStep {
                op: SetOp::Intersect,
                all,
                right,
            });
        }
        Ok(join_steps(first, rest))
    }

    fn all_or_distinct(&mut self) -> bool {
        self.eat_any(&[Kw::ALL, Kw::DISTINCT]) == Some(Kw::ALL)
    }

    fn query_operand(&mut self) -> SqlResult<QueryBody> {
        let is_leading = std::mem::take(&mut self.is_leading);
        if self.is(Tok::LParen) {
            return self.nested(|p| {
                p.advance();
                p.is_leading = is_leading;
                let mut query = match p.is(Tok::LParen) {
                    true => {
                        let first = p.query_operand()?;
                        let body = p.set_operations(Some(first))?;
                        p.query_tail(None, body)?
                    }
                    false if p.at_query_start() => p.query_of_operand()?,
                    false => return p.fail(),
                };
                match is_leading {
                    true => p.trailing_into(&mut query)?,
                    false => p.refuse_into(&[Kw::INTO])?,
                }
                p.expect(Tok::RParen)?;
                Ok(operand(query))
            });
        }
        match self.kw() {
            Kw::SELECT => Ok(QueryBody::Select(Box::new(self.select()?))),
            Kw::VALUES => {
                self.is_outermost = false;
                self.advance();
                Ok(QueryBody::Values(self.value_rows(true)?))
            }
            Kw::TABLE => {
                self.is_outermost = false;
                self.advance();
                Ok(QueryBody::Table(self.object_name()?))
            }
            _ => self.fail(),
        }
    }

    /// `(expr, …), …` of VALUES, each behind ROW if they are `named`.
    pub(super) fn value_rows(&mut self, named: bool) -> SqlResult<Vec<Vec<Expr>>> {
        let mut width = 0;
        self.list(|p| {
            if named {
                p.expect_kw(Kw::ROW)?;
            }
            let row = p.value_row(width)?;
            width = row.len();
            Ok(row)
        })
    }

    /// `(expr | DEFAULT, …)`, possibly empty; `width` of them are expected.
    fn value_row(&mut self, width: usize) -> SqlResult<Vec<Expr>> {
        self.expect(Tok::LParen)?;
        let mut row = Vec::with_capacity(width);
        if !self.is(Tok::RParen) {
            row.push(self.expr_or_default()?);
            while self.eat(Tok::Comma) {
                row.push(self.expr_or_default()?);
            }
        }
        self.expect(Tok::RParen)?;
        Ok(row)
    }

    pub(super) fn expr_or_default(&mut self) -> SqlResult<Expr> {
        if self.at(Kw::DEFAULT) && self.peek().tok != Tok::LParen {
            self.advance();
            return Ok(Expr::Default(None));
        }
        // Most values of long statements are nothing but literals.
        let is_literal = matches!(
            self.cur.tok,
            Tok::Int | Tok::Decimal | Tok::Float | Tok::Str
        );
        if is_literal && matches!(self.peek().tok, Tok::Comma | Tok::RParen) {
            return self.literal();
        }
        self.expr()
    }

    pub(super) fn opt_with(&mut self) -> SqlResult<Option<With>> {
        if !self.eat_kw(Kw::WITH) {
            return Ok(None);
        }
        let recursive = self.eat_kw(Kw::RECURSIVE);
        let outer = std::mem::take(&mut self.is_outermost);
        let ctes = self.list(|p| {
            let name = p.ident()?;
            if let Some(places) = &mut p.places {
                places.ctes.push(name.text.clone());
            }
            let columns = if p.is(Tok::LParen) {
                p.ident_list()?
            } else {
                Vec::new()
            };
            p.expect_kw(Kw::AS)?;
            let query = *p.nested(Self::subquery)?;
            Ok(Cte {
                name,
                columns,
                query,
            })
        })?;
        self.is_outermost = outer;
        Ok(Some(With { recursive, ctes }))
    }

    // SELECT.

    fn select(&mut self) -> SqlResult<Select> {
        if self.selects >= MAX_SELECT_NESTING {
            return Err(errors::selects_nest_too_deep());
        }
        self.selects += 1;
        let select = self.select_block();
        self.selects -= 1;
        select
    }

    fn select_block(&mut self) -> SqlResult<Select> {
        self.expect_kw(Kw::SELECT)?;
        let outer = std::mem::take(&mut self.height);
        let is_outermost = std::mem::take(&mut self.is_outermost);
        let mut select = Select {
            hints: self.block_hints(),
            ..Select::default()
        };
        self.select_options(&mut select)?;
        if !is_outermost && let Some(option) = select.options.of_statement() {
            self.defer(errors::misplaced_option(option));
        }
        select.items = self.select_items()?;
        if self.into_ok && self.early_into.is_none() && self.eat_kw(Kw::INTO) {
            self.early_into = Some(self.target_of_into()?);
            self.into_end = self.prev_end;
        }
        if self.eat_kw(Kw::FROM) && !self.eat_kw(Kw::DUAL) {
            select.from = self.list(Self::table_reference)?;
        }
        if self.eat_kw(Kw::WHERE) {
            select.filter = Some(self.expr()?);
        }
        if self.eat_kw(Kw::GROUP) {
            self.expect_kw(Kw::BY)?;
            self.grouping(&mut select)?;
        }
        if self.eat_kw(Kw::HAVING) {
            select.having = Some(self.expr()?);
        }
        if self.eat_kw(Kw::WINDOW) {
            select.windows = self.list(|p| {
                let name = p.ident()?;
                p.expect_kw(Kw::AS)?;
                Ok((name, p.window_spec()?))
            })?;
        }
        self.height = self.height.max(outer);
        Ok(select)
    }

    /// Behind GROUP BY: keys, with WITH ROLLUP or in ROLLUP(…), or one set of keys, which is what the keys are alone.
    fn grouping(&mut self, select: &mut Select) -> SqlResult<()> {
        let is_called = self.peek().tok == Tok::LParen;
        if is_called && self.eat_kw(Kw::ROLLUP) {
            select.group_by = self.paren_list(Self::expr)?;
            select.rollup = true;
            return Ok(());
        }
        if is_called && self.eat_kw(Kw::CUBE) {
            self.paren_list(Self::expr)?;
            return Err(SqlError::not_supported("CUBE"));
        }
        if self.eat_seq(&[Kw::GROUPING, Kw::SETS]) {
            let mut sets = self.paren_list(Self::grouping_set)?;
            if sets.len() > 1 {
                return Err(SqlError::not_supported("several GROUPING SETS"));
            }
            select.group_by = sets.pop().unwrap_or_default();
            return Ok(());
        }
        select.group_by = self.list(Self::expr)?;
        select.rollup = self.eat_seq(&[Kw::WITH, Kw::ROLLUP]);
        Ok(())
    }

    /// `(keys)`; there may be none.
    fn grouping_set(&mut self) -> SqlResult<Vec<Expr>> {
        self.expect(Tok::LParen)?;
        let keys = match self.is(Tok::RParen) {
            true => Vec::new(),
            false => self.list(Self::expr)?,
        };
        self.expect(Tok::RParen)?;
        Ok(keys)
    }

    fn select_options(&mut self, select: &mut Select) -> SqlResult<()> {
        let mut all = false;
        let options: &mut SelectOptions = &mut select.options;
        loop {
            let flag = match self.kw() {
                Kw::ALL => &mut all,
                Kw::DISTINCT | Kw::DISTINCTROW => &mut select.distinct,
                Kw::HIGH_PRIORITY => &mut options.high_priority,
                Kw::STRAIGHT_JOIN => &mut options.straight_join,
                Kw::SQL_SMALL_RESULT => &mut options.small_result,
                Kw::SQL_BIG_RESULT => &mut options.big_result,
                Kw::SQL_BUFFER_RESULT => &mut options.buffer_result,
                Kw::SQL_CALC_FOUND_ROWS => &mut options.calc_found_rows,
                Kw::SQL_NO_CACHE => &mut options.no_cache,
                _ => break,
            };
            *flag = true;
            match self.advance().tok {
                Tok::Word(Kw::SQL_CALC_FOUND_ROWS) => self.deprecate(Deprecation::CalcFoundRows),
                Tok::Word(Kw::SQL_NO_CACHE) => self.deprecate(Deprecation::NoCache),
                _ => {}
            }
        }
        if all && select.distinct {
            return Err(errors::wrong_usage("ALL and DISTINCT"));
        }
        Ok(())
    }

    pub(super) fn select_items(&mut self) -> SqlResult<Vec<SelectItem>> {
        let start = self.cur.start;
        if self.eat(Tok::Star) {
            self.note_star(start);
            let mut items = vec![SelectItem::Wildcard];
            while self.eat(Tok::Comma) {
                items.push(self.select_item()?);
            }
            return Ok(items);
        }
        self.list(Self::select_item)
    }

    fn select_item(&mut self) -> SqlResult<SelectItem> {
        if let Some(item) = self.table_wildcard()? {
            return Ok(item);
        }
        let start = self.cur.start;
        let expr = self.expr()?;
        let text = self.item_name(&expr, start);
        let alias = self.select_alias()?;
        Ok(SelectItem::Expr { expr, alias, text })
    }

    /// `t.*`, `d.t.*`.
    fn table_wildcard(&mut self) -> SqlResult<Option<SelectItem>> {
        if !self.at_ident() || self.src.get(self.cur.end) == Some(&b'(') {
            return Ok(None);
        }
        let mut ahead = self.clone();
        let first = ahead.advance();
        if !ahead.eat(Tok::Dot) {
            return Ok(None);
        }
        let (schema, table) = if ahead.is(Tok::Star) {
            (None, first)
        } else if is_ident(ahead.cur.tok) {
            let second = ahead.advance();
            if !ahead.eat(Tok::Dot) || !ahead.is(Tok::Star) {
                return Ok(None);
            }
            let schema = self.ident_of(first)?;
            (Some(ahead.known_schema(schema)), second)
        } else {
            return Ok(None);
        };
        let table = self.ident_of(table)?;
        ahead.advance();
        let start = self.cur.start;
        *self = ahead;
        self.note_star(start);
        Ok(Some(SelectItem::TableWildcard { schema, table }))
    }

    pub(super) fn select_alias(&mut self) -> SqlResult<Option<Ident>> {
        let forced = self.eat_kw(Kw::AS);
        if self.is(Tok::Str) {
            return Ok(Some(Ident {
                text: self.comment_text()?,
                quoted: true,
            }));
        }
        if forced || (self.at_ident() && !self.at(Kw::RETURNING)) {
            return self.ident().map(Some);
        }
        Ok(None)
    }

    // What follows the body.

    pub(super) fn opt_limit(&mut self) -> SqlResult<Option<Limit>> {
        if !self.eat_kw(Kw::LIMIT) {
            return Ok(None);
        }
        let first = self.limit_value()?;
        if self.eat(Tok::Comma) {
            return Ok(Some(Limit {
                count: self.limit_value()?,
                offset: Some(first),
            }));
        }
        let offset = if self.eat_kw(Kw::OFFSET) {
            Some(self.limit_value()?)
        } else {
            None
        };
        Ok(Some(Limit {
            count: first,
            offset,
        }))
    }

    /// LIMIT of UPDATE and DELETE: a count alone.
    pub(super) fn opt_limit_count(&mut self) -> SqlResult<Option<Limit>> {
        if !self.eat_kw(Kw::LIMIT) {
            return Ok(None);
        }
        Ok(Some(Limit {
            count: self.limit_value()?,
            offset: None,
        }))
    }

    fn limit_value(&mut self) -> SqlResult<Expr> {
        match self.cur.tok {
            Tok::Int => self.expr_at(Level::Primary),
            Tok::Param => {
                self.limits.push(self.params);
                self.expr_at(Level::Primary)
            }
            _ if self.at_ident() => {
                let (name, local) = self.integer_operand()?;
                if let Some(local) = local {
                    return Ok(local);
                }
                self.defer(errors::undeclared_variable(&name));
                Ok(Expr::Literal(Literal::Null))
            }
            _ => self.fail(),
        }
    }

    fn locking(&mut self) -> SqlResult<Vec<Locking>> {
        let mut clauses = Vec::new();
        loop {
            let share = if self.eat_seq(&[Kw::FOR, Kw::UPDATE]) {
                false
            } else if self.eat_seq(&[Kw::FOR, Kw::SHARE]) {
                true
            } else if self.eat_kw(Kw::LOCK) {
                self.expect_seq(&[Kw::IN, Kw::SHARE, Kw::MODE])?;
                let wait = self.wait(false)?;
                clauses.push(Locking {
                    share: true,
                    of: Vec::new(),
                    wait,
                });
                continue;
            } else {
                return Ok(clauses);
            };
            let of = if self.eat_kw(Kw::OF) {
                self.list(Self::object_name)?
            } else {
                Vec::new()
            };
            let wait = self.wait(true)?;
            clauses.push(Locking { share, of, wait });
        }
    }

    /// `[NOWAIT | WAIT n | SKIP LOCKED]`; SKIP LOCKED only for rows.
    pub(super) fn wait(&mut self, rows: bool) -> SqlResult<LockWait> {
        if self.eat_kw(Kw::NOWAIT) {
            return Ok(LockWait::NoWait);
        }
        if rows && self.eat_kw(Kw::SKIP) {
            self.expect_kw(Kw::LOCKED)?;
            return Ok(LockWait::SkipLocked);
        }
        if self.eat_kw(Kw::WAIT) {
            return Ok(LockWait::Seconds(self.number()?));
        }
        Ok(LockWait::Default)
    }

    fn target_of_into(&mut self) -> SqlResult<Into> {
        if self.eat_kw(Kw::OUTFILE) {
            let path = self.string()?;
            let charset = if self.eat_charset_words()? {
                Some(self.charset_name()?)
            } else {
                None
            };
            return Ok(Into::Outfile {
                path,
                charset,
                format: self.file_format()?,
            });
        }
        if self.eat_kw(Kw::DUMPFILE) {
            return Ok(Into::Dumpfile(self.string()?));
        }
        Ok(Into::Vars(self.list(Self::target)?))
    }

    /// FIELDS and LINES.
    pub(super) fn file_format(&mut self) -> SqlResult<FileFormat> {
        let mut format = FileFormat::default();
        if self.eat_any(&[Kw::FIELDS, Kw::COLUMNS]).is_some() {
            self.field_options(&mut format)?;
        }
        if self.eat_kw(Kw::LINES) {
            let mut any = false;
            while let Some(kw) = self.eat_any(&[Kw::TERMINATED, Kw::STARTING]) {
                self.expect_kw(Kw::BY)?;
                let text = self.string_or_hex()?;
                any = true;
                match kw {
                    Kw::TERMINATED => format.lines_terminated = text,
                    _ => format.lines_starting = text,
                }
            }
            if !any {
                return self.fail();
            }
        }
        Ok(format)
    }

    fn field_options(&mut self, format: &mut FileFormat) -> SqlResult<()> {
        let mut any = false;
        loop {
            let optionally = self.at(Kw::OPTIONALLY) && self.peek_is(Kw::ENCLOSED);
            if optionally {
                self.advance();
            }
            let Some(kw) = self.eat_any(&[Kw::TERMINATED, Kw::ENCLOSED, Kw::ESCAPED]) else {
                return if any { Ok(()) } else { self.fail() };
            };
            self.expect_kw(Kw::BY)?;
            let text = self.string_or_hex()?;
            any = true;
            match kw {
                Kw::TERMINATED => format.fields_terminated = text,
                Kw::ENCLOSED => (format.enclosed, format.optionally) = (text, optionally),
                _ => format.escaped = text,
            }
        }
    }
}

/// A parenthesised query as an operand: parentheses that say nothing disappear.
fn operand(query: Query) -> QueryBody {
    let bare = query.with.is_none()
        && query.order_by.is_empty()
        && query.limit.is_none()
        && query.locking.is_empty();
    if bare {
        query.body
    } else {
        QueryBody::Nested(Box::new(query))
    }
}

fn join_steps(first: QueryBody, rest: Vec<SetOpStep>) -> QueryBody {
    if rest.is_empty() {
        first
    } else {
        QueryBody::SetOps {
            first: Box::new(first),
            rest,
        }
    }
}
