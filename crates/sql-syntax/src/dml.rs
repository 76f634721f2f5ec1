//! INSERT, REPLACE, UPDATE, DELETE, LOAD DATA, DO, CALL.
//!
//! Neighbours: `query`, `table_ref`, `expr`; `statement` dispatches here.
//! **Invariants**: each function starts after the statement's first word; WITH is already parsed.

use esker_types::{SqlResult, errors};

use super::ast::{
    Assignment, Delete, Expr, Insert, InsertSource, LoadData, LoadTarget, NamedTable, ObjectName,
    Priority, RowAlias, SelectItem, Statement, TableRef, Update, With,
};
use super::keyword::Kw;
use super::lexer::Tok;
use super::parser::Parser;

impl Parser<'_> {
    pub(super) fn insert(&mut self, replace: bool) -> SqlResult<Statement> {
        let hints = self.insert_hints();
        let priority = match self.eat_any(&[Kw::LOW_PRIORITY, Kw::DELAYED, Kw::HIGH_PRIORITY]) {
            Some(Kw::HIGH_PRIORITY) if replace => return self.fail(),
            Some(Kw::LOW_PRIORITY) => Some(Priority::Low),
            Some(Kw::DELAYED) => Some(Priority::Delayed),
            Some(_) => Some(Priority::High),
            None => None,
        };
        let ignore = !replace && self.eat_kw(Kw::IGNORE);
        self.eat_kw(Kw::INTO);
        let mut insert = Insert {
            replace,
            ignore,
            priority,
            table: self.object_name()?,
            partitions: self.opt_partitions()?,
            columns: Vec::new(),
            columns_given: false,
            source: InsertSource::Values(Vec::new()),
            row_alias: None,
            on_duplicate: Vec::new(),
            returning: Vec::new(),
            hints,
        };
        self.insert_columns(&mut insert)?;
        self.insert_source(&mut insert)?;
        if !replace && self.eat_kw(Kw::ON) {
            self.expect_seq(&[Kw::DUPLICATE, Kw::KEY, Kw::UPDATE])?;
            self.in_on_duplicate = true;
            insert.on_duplicate = self.list(Self::assignment)?;
            self.in_on_duplicate = false;
        }
        insert.returning = self.returning()?;
        Ok(Statement::Insert(Box::new(insert)))
    }

    /// `(a, b)`, `()`, or nothing; a parenthesised query is no column list.
    fn insert_columns(&mut self, insert: &mut Insert) -> SqlResult<()> {
        if !self.is(Tok::LParen) {
            return Ok(());
        }
        let query = matches!(
            self.peek().tok,
            Tok::LParen | Tok::Word(Kw::SELECT | Kw::WITH | Kw::TABLE | Kw::VALUES)
        );
        if query {
            return Ok(());
        }
        self.advance();
        // `()` lists no columns: there may be values for all of them.
        if self.eat(Tok::RParen) {
            return match self.at(Kw::SET) {
                true => self.fail(),
                false => Ok(()),
            };
        }
        insert.columns_given = true;
        insert.columns = self.list(Self::column_ref)?;
        self.expect(Tok::RParen)
    }

    fn insert_source(&mut self, insert: &mut Insert) -> SqlResult<()> {
        let value = matches!(self.kw(), Kw::VALUES | Kw::VALUE);
        if value && !self.peek_is(Kw::ROW) {
            self.advance();
            insert.source = InsertSource::Values(self.value_rows(false)?);
            return self.row_alias(insert);
        }
        if self.at(Kw::VALUES)
            && let Some(rows) = self.row_constructors()
        {
            insert.source = InsertSource::Values(rows);
            return Ok(());
        }
        if self.eat_kw(Kw::SET) {
            let mut row = Vec::new();
            if !insert.columns_given {
                let set = self.list(Self::assignment)?;
                for Assignment { column, value } in set {
                    insert.columns.push(column);
                    row.push(value);
                }
                insert.columns_given = true;
                insert.source = InsertSource::Values(vec![row]);
                return self.row_alias(insert);
            }
            return self.fail();
        }
        if self.at_query_start() || self.is(Tok::LParen) {
            insert.source = InsertSource::Query(Box::new(self.query()?));
            return Ok(());
        }
        self.fail()
    }

    /// `VALUES ROW(…), …` as the rows of INSERT, in which DEFAULT and columns may be named, unless it is a part of a
    /// larger query.
    fn row_constructors(&mut self) -> Option<Vec<Vec<Expr>>> {
        let mut ahead = self.clone();
        ahead.advance();
        let rows = ahead.value_rows(true).ok()?;
        let goes_on = matches!(
            ahead.kw(),
            Kw::UNION | Kw::EXCEPT | Kw::INTERSECT | Kw::ORDER | Kw::LIMIT
        );
        if goes_on {
            return None;
        }
        *self = ahead;
        Some(rows)
    }

    fn row_alias(&mut self, insert: &mut Insert) -> SqlResult<()> {
        if insert.replace || !self.eat_kw(Kw::AS) {
            return Ok(());
        }
        let name = self.ident()?;
        let columns = if self.is(Tok::LParen) {
            self.ident_list()?
        } else {
            Vec::new()
        };
        insert.row_alias = Some(RowAlias { name, columns });
        Ok(())
    }

    /// `column = expr | DEFAULT`.
    fn assignment(&mut self) -> SqlResult<Assignment> {
        let column = self.column_ref()?;
        self.expect_assign()?;
        Ok(Assignment {
            column,
            value: self.expr_or_default()?,
        })
    }

    fn returning(&mut self) -> SqlResult<Vec<SelectItem>> {
        if self.eat_kw(Kw::RETURNING) {
            self.select_items()
        } else {
            Ok(Vec::new())
        }
    }

    pub(super) fn update(&mut self, with: Option<With>) -> SqlResult<Statement> {
        let hints = self.block_hints();
        let low_priority = self.eat_kw(Kw::LOW_PRIORITY);
        let ignore = self.eat_kw(Kw::IGNORE);
        let tables = self.list(Self::table_reference)?;
        self.expect_kw(Kw::SET)?;
        let assignments = self.list(Self::assignment)?;
        let filter = self.opt_where()?;
        let single = matches!(&tables[..], [TableRef::Table(_)]);
        let order_by = self.opt_order_by()?;
        let limit = self.opt_limit_count()?;
        if !single && (!order_by.is_empty() || limit.is_some()) {
            let what = if order_by.is_empty() {
                "LIMIT"
            } else {
                "ORDER BY"
            };
            return Err(errors::wrong_usage(format!("UPDATE and {what}")));
        }
        Ok(Statement::Update(Box::new(Update {
            with,
            low_priority,
            ignore,
            tables,
            assignments,
            filter,
            order_by,
            limit,
            hints,
        })))
    }

    fn opt_where(&mut self) -> SqlResult<Option<Expr>> {
        if self.eat_kw(Kw::WHERE) {
            self.expr().map(Some)
        } else {
            Ok(None)
        }
    }

    pub(super) fn delete(&mut self, with: Option<With>) -> SqlResult<Statement> {
        let mut delete = Delete {
            hints: self.block_hints(),
            with,
            low_priority: false,
            quick: false,
            ignore: false,
            targets: Vec::new(),
            from: Vec::new(),
            filter: None,
            order_by: Vec::new(),
            limit: None,
            returning: Vec::new(),
        };
        while let Some(kw) = self.eat_any(&[Kw::LOW_PRIORITY, Kw::QUICK, Kw::IGNORE]) {
            match kw {
                Kw::LOW_PRIORITY => delete.low_priority = true,
                Kw::QUICK => delete.quick = true,
                _ => delete.ignore = true,
            }
        }
        if self.eat_kw(Kw::FROM) {
            self.delete_from(&mut delete)?;
        } else {
            delete.targets = self.list(Self::delete_target)?;
            self.expect_kw(Kw::FROM)?;
            delete.from = self.list(Self::table_reference)?;
            delete.filter = self.opt_where()?;
        }
        Ok(Statement::Delete(Box::new(delete)))
    }

    /// After FROM: one table, or `targets USING tables`.
    fn delete_from(&mut self, delete: &mut Delete) -> SqlResult<()> {
        let first = self.delete_target()?;
        if matches!(self.cur.tok, Tok::Comma | Tok::Word(Kw::USING)) {
            delete.targets.push(first);
            while self.eat(Tok::Comma) {
                let target = self.delete_target()?;
                delete.targets.push(target);
            }
            self.expect_kw(Kw::USING)?;
            delete.from = self.list(Self::table_reference)?;
            delete.filter = self.opt_where()?;
            return Ok(());
        }
        self.check_table_name(&first.name.text);
        let alias = self.table_alias()?;
        let partitions = self.opt_partitions()?;
        let table = NamedTable {
            name: first,
            partitions,
            alias,
            hints: Vec::new(),
        };
        delete.from.push(TableRef::Table(Box::new(table)));
        delete.filter = self.opt_where()?;
        delete.order_by = self.opt_order_by()?;
        delete.limit = self.opt_limit_count()?;
        delete.returning = self.returning()?;
        Ok(())
    }

    /// `t`, `d.t`, `t.*`, `d.t.*`; `t` may be an alias.
    fn delete_target(&mut self) -> SqlResult<ObjectName> {
        let first = self.ident()?;
        let mut name = ObjectName {
            schema: None,
            name: first,
        };
        while self.is(Tok::Dot) {
            if self.peek().tok == Tok::Star {
                self.advance();
                self.advance();
                break;
            }
            if name.schema.is_some() {
                break;
            }
            self.advance();
            name = ObjectName {
                schema: Some(self.known_schema(name.name)),
                name: self.ident()?,
            };
        }
        Ok(name)
    }

    /// LOAD DATA and LOAD XML, after LOAD.
    pub(super) fn load(&mut self) -> SqlResult<Statement> {
        let is_xml = self.eat_kw(Kw::XML);
        if !is_xml {
            self.expect_kw(Kw::DATA)?;
        }
        let priority = match self.eat_any(&[Kw::LOW_PRIORITY, Kw::CONCURRENT]) {
            Some(Kw::LOW_PRIORITY) => Some(Priority::Low),
            Some(_) => Some(Priority::High),
            None => None,
        };
        let local = self.eat_kw(Kw::LOCAL);
        self.expect_kw(Kw::INFILE)?;
        let path = self.string()?;
        let duplicate = self.eat_any(&[Kw::REPLACE, Kw::IGNORE]);
        self.expect_seq(&[Kw::INTO, Kw::TABLE])?;
        let mut load = LoadData {
            local,
            priority,
            path,
            replace: duplicate == Some(Kw::REPLACE),
            ignore: duplicate == Some(Kw::IGNORE),
            table: self.object_name()?,
            partitions: self.opt_partitions()?,
            charset: None,
            row_tag: is_xml.then(|| b"<row>".to_vec()),
            format: super::ast::FileFormat::default(),
            skip_lines: 0,
            columns: Vec::new(),
            assignments: Vec::new(),
        };
        if self.eat_charset_words()? {
            load.charset = Some(self.charset_name()?);
        }
        if is_xml && self.eat_kw(Kw::ROWS) {
            self.expect_seq(&[Kw::IDENTIFIED, Kw::BY])?;
            load.row_tag = Some(self.string()?);
        }
        load.format = self.file_format()?;
        // The tag is what lines end with, for MySQL.
        let lines_end = &load.format.lines_terminated;
        if is_xml && *lines_end != super::ast::FileFormat::default().lines_terminated {
            load.row_tag = Some(lines_end.clone());
        }
        if self.eat_kw(Kw::IGNORE) {
            load.skip_lines = self.number()?;
            self.expect_any(&[Kw::LINES, Kw::ROWS])?;
        }
        if self.eat(Tok::LParen) && !self.eat(Tok::RParen) {
            load.columns = self.list(|p| match p.opt_assigned_var()? {
                Some(var) => Ok(LoadTarget::Var(var)),
                None => Ok(LoadTarget::Column(p.column_ref()?.name)),
            })?;
            self.expect(Tok::RParen)?;
        }
        if self.eat_kw(Kw::SET) {
            load.assignments = self.list(Self::assignment)?;
        }
        Ok(Statement::LoadData(Box::new(load)))
    }

    /// DO: expressions with useless aliases.
    pub(super) fn do_statement(&mut self) -> SqlResult<Statement> {
        let items = self.select_items()?;
        let mut exprs = Vec::with_capacity(items.len());
        for item in items {
            match item {
                SelectItem::Expr { expr, .. } => exprs.push(expr),
                _ => return self.fail(),
            }
        }
        Ok(Statement::Do(exprs))
    }

    pub(super) fn call_statement(&mut self) -> SqlResult<Statement> {
        let name = self.routine_name()?;
        let mut args = Vec::new();
        if self.eat(Tok::LParen) && !self.eat(Tok::RParen) {
            args = self.list(Self::expr)?;
            self.expect(Tok::RParen)?;
        }
        Ok(Statement::Call { name, args })
    }
}
