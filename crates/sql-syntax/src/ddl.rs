//! CREATE and DROP of databases, tables and views; RENAME, TRUNCATE.
//!
//! Neighbours: `statement` dispatches here; `alter` shares clauses; `column` parses definitions, `index`
//! indexes and constraints, `table_option` options.
//! **Invariants**: each function starts after the words that named the statement.

use esker_types::{SqlError, SqlResult, errors};

use super::ast::{
    CreateTable, CreateView, DatabaseOption, DdlOptions, DropTables, LockWait, ObjectName,
    OnDuplicate, RenameTables, Span, Statement,
};
use super::index::TableConstraint;
use super::keyword::Kw;
use super::lexer::Tok;
use super::parser::Parser;

impl Parser<'_> {
    pub(super) fn if_not_exists(&mut self) -> SqlResult<bool> {
        if !self.eat_kw(Kw::IF) {
            return Ok(false);
        }
        self.expect_seq(&[Kw::NOT, Kw::EXISTS])?;
        Ok(true)
    }

    pub(super) fn if_exists(&mut self) -> SqlResult<bool> {
        if !self.eat_kw(Kw::IF) {
            return Ok(false);
        }
        self.expect_kw(Kw::EXISTS)?;
        Ok(true)
    }

    /// `[NOWAIT | NO_WAIT | WAIT n]` of a DDL statement.
    pub(super) fn ddl_wait(&mut self) -> SqlResult<LockWait> {
        let start = self.cur.start;
        let wait = self.ddl_wait_clause()?;
        if wait != LockWait::Default {
            let end = self.prev_end;
            self.unlogged.push(Span { start, end });
        }
        Ok(wait)
    }

    fn ddl_wait_clause(&mut self) -> SqlResult<LockWait> {
        let no_wait =
            self.is(Tok::Word(Kw::OTHER)) && self.bytes(self.cur).eq_ignore_ascii_case(b"NO_WAIT");
        if no_wait {
            self.advance();
            return Ok(LockWait::NoWait);
        }
        if self.at(Kw::WAIT) && self.peek().tok != Tok::Int {
            return Ok(LockWait::Default);
        }
        self.wait(false)
    }

    // Databases.

    pub(super) fn create_database(&mut self, or_replace: bool) -> SqlResult<Statement> {
        let if_not_exists = self.if_not_exists()?;
        let name = self.schema_name()?;
        let mut options = Vec::new();
        while let Some(option) = self.database_option(false)? {
            options.push(option);
        }
        Ok(Statement::CreateDatabase {
            or_replace,
            if_not_exists,
            name,
            options,
        })
    }

    pub(super) fn alter_database(&mut self) -> SqlResult<Statement> {
        let mut name = None;
        let mut options = Vec::new();
        // Without a name the options follow at once.
        match self.database_option(true)? {
            Some(option) => options.push(option),
            None => {
                name = Some(self.schema_name()?);
                match self.database_option(true)? {
                    Some(option) => options.push(option),
                    None => return self.fail(),
                }
            }
        }
        while let Some(option) = self.database_option(true)? {
            options.push(option);
        }
        Ok(Statement::AlterDatabase { name, options })
    }

    fn zero_or_one(&mut self) -> SqlResult<bool> {
        let on = match self.bytes(self.cur) {
            b"0" => false,
            b"1" => true,
            _ => return self.fail(),
        };
        self.advance();
        Ok(on)
    }

    fn database_option(&mut self, is_alter: bool) -> SqlResult<Option<DatabaseOption>> {
        let default = self.eat_kw(Kw::DEFAULT);
        if self.eat_charset_words()? {
            self.eat_eq();
            return Ok(Some(DatabaseOption::Charset(self.charset_or_default()?)));
        }
        if self.eat_kw(Kw::COLLATE) {
            self.eat_eq();
            return Ok(Some(DatabaseOption::Collate(self.collation_or_default()?)));
        }
        if self.eat_kw(Kw::ENCRYPTION) {
            self.eat_eq();
            return Ok(Some(DatabaseOption::Encryption(self.string()?)));
        }
        if default {
            return self.fail();
        }
        if is_alter && self.at(Kw::READ) && self.peek_is(Kw::ONLY) {
            self.expect_seq(&[Kw::READ, Kw::ONLY])?;
            self.eat_eq();
            let on = !self.eat_kw(Kw::DEFAULT) && self.zero_or_one()?;
            return Ok(Some(DatabaseOption::ReadOnly(on)));
        }
        if self.at(Kw::COMMENT) && matches!(self.peek().tok, Tok::Eq | Tok::Str) {
            self.advance();
            self.eat_eq();
            return Ok(Some(DatabaseOption::Comment(self.string()?)));
        }
        Ok(None)
    }

    /// A character set's name, or the word DEFAULT (as `default`).
    pub(super) fn charset_or_default(&mut self) -> SqlResult<Box<str>> {
        if self.eat_kw(Kw::DEFAULT) {
            Ok("default".into())
        } else {
            self.charset_name()
        }
    }

    /// A collation's name, or the word DEFAULT (as `default`).
    pub(super) fn collation_or_default(&mut self) -> SqlResult<Box<str>> {
        if self.eat_kw(Kw::DEFAULT) {
            Ok("default".into())
        } else {
            self.collation_name()
        }
    }

    // Tables.

    pub(super) fn create_table(
        &mut self,
        or_replace: bool,
        temporary: bool,
    ) -> SqlResult<Statement> {
        let if_not_exists = self.if_not_exists()?;
        let name = self.object_name()?;
        let mut table = CreateTable {
            or_replace,
            temporary,
            if_not_exists,
            name,
            like: None,
            columns: Vec::new(),
            indexes: Vec::new(),
            foreign_keys: Vec::new(),
            checks: Vec::new(),
            options: Vec::new(),
            partition_by: None,
            query: None,
            on_duplicate: OnDuplicate::Error,
            starts_transaction: false,
        };
        if self.eat_kw(Kw::LIKE) {
            table.like = Some(self.object_name()?);
            return Ok(Statement::CreateTable(Box::new(table)));
        }
        if self.is(Tok::LParen) {
            if self.peek_is(Kw::LIKE) {
                self.advance();
                self.advance();
                table.like = Some(self.object_name()?);
                self.expect(Tok::RParen)?;
                return Ok(Statement::CreateTable(Box::new(table)));
            }
            let query = matches!(
                self.peek().tok,
                Tok::LParen | Tok::Word(Kw::SELECT | Kw::WITH | Kw::TABLE | Kw::VALUES)
            );
            if !query {
                self.advance();
                self.list(|p| p.table_element(&mut table))?;
                self.expect(Tok::RParen)?;
            }
        }
        self.create_table_tail(&mut table)?;
        Ok(Statement::CreateTable(Box::new(table)))
    }

    fn create_table_tail(&mut self, table: &mut CreateTable) -> SqlResult<()> {
        loop {
            if self.eat_seq(&[Kw::START, Kw::TRANSACTION]) {
                table.starts_transaction = true;
            } else if let Some(option) = self.table_option()? {
                table.options.push(option);
            } else {
                break;
            }
            if self.eat(Tok::Comma) && self.at_query_start() {
                return self.fail();
            }
        }
        if self.at(Kw::PARTITION) {
            table.partition_by = Some(Box::new(self.partition_by()?));
        }
        table.on_duplicate = match self.eat_any(&[Kw::IGNORE, Kw::REPLACE]) {
            Some(Kw::IGNORE) => OnDuplicate::Ignore,
            Some(_) => OnDuplicate::Replace,
            None => OnDuplicate::Error,
        };
        let forced = self.eat_kw(Kw::AS) || table.on_duplicate != OnDuplicate::Error;
        if forced || self.at_query_start() || self.is(Tok::LParen) {
            table.query = Some(Box::new(self.query()?));
        } else if table.columns.is_empty() {
            self.defer(errors::no_visible_column());
        }
        Ok(())
    }

    fn table_element(&mut self, table: &mut CreateTable) -> SqlResult<()> {
        // IF NOT EXISTS holds: the table is new.
        match self.table_constraint()?.map(|(constraint, _)| constraint) {
            Some(TableConstraint::Index(index)) => table.indexes.push(index),
            Some(TableConstraint::ForeignKey(mut key)) => {
                key.follows = table.indexes.len();
                table.foreign_keys.push(key);
            }
            Some(TableConstraint::Check(check)) => table.checks.push(check),
            None => {
                let (column, key) = self.new_column()?;
                table.columns.push(column);
                if let Some(mut key) = key {
                    key.follows = table.indexes.len();
                    table.foreign_keys.push(key);
                }
            }
        }
        Ok(())
    }

    /// `[NOWAIT | WAIT n] [ALGORITHM …] [LOCK …]` in any order.
    pub(super) fn ddl_options(&mut self) -> SqlResult<DdlOptions> {
        let mut options = DdlOptions::default();
        loop {
            if self.algorithm_or_lock(&mut options)? {
                continue;
            }
            let wait = self.ddl_wait()?;
            if wait == LockWait::Default {
                return Ok(options);
            }
            options.wait = wait;
        }
    }

    /// `ALGORITHM [=] word`, `LOCK [=] word`. How a server makes a change is its own affair: another one may have to
    /// make it in another way, and would refuse it.
    pub(super) fn algorithm_or_lock(&mut self, options: &mut DdlOptions) -> SqlResult<bool> {
        let start = self.cur.start;
        let Some(kw) = self.eat_any(&[Kw::ALGORITHM, Kw::LOCK]) else {
            return Ok(false);
        };
        self.eat_eq();
        let algorithm = kw == Kw::ALGORITHM;
        let known: &[&str] = match algorithm {
            // MariaDB's NOCOPY is what is done anyway where it can be.
            true => &["INPLACE", "COPY", "INSTANT", "NOCOPY"],
            false => &["NONE", "SHARED", "EXCLUSIVE"],
        };
        let mut value = None;
        if !self.eat_kw(Kw::DEFAULT) {
            let word = self.ident()?;
            let upper = word.text.to_ascii_uppercase();
            if upper != "DEFAULT" && !known.contains(&&*upper) {
                return Err(match algorithm {
                    true => SqlError::new(1800, "HY000", format!("Unknown ALGORITHM '{word}'")),
                    false => SqlError::new(1801, "HY000", format!("Unknown LOCK type '{word}'")),
                });
            }
            value = (upper != "NOCOPY").then(|| upper.into());
        }
        if algorithm {
            options.algorithm = value;
        } else {
            options.lock = value;
        }
        let end = self.prev_end;
        self.unlogged.push(Span { start, end });
        Ok(true)
    }

    // Drop, rename, truncate.

    /// `[IF EXISTS] name, … [RESTRICT|CASCADE]`.
    pub(super) fn drop_tables(&mut self, temporary: bool) -> SqlResult<DropTables> {
        let if_exists = self.if_exists()?;
        let names = self.list(Self::object_name)?;
        let mut wait = self.ddl_wait()?;
        self.eat_any(&[Kw::RESTRICT, Kw::CASCADE]);
        if wait == LockWait::Default {
            wait = self.ddl_wait()?;
        }
        Ok(DropTables {
            temporary,
            if_exists,
            names,
            wait,
        })
    }

    pub(super) fn rename_tables(&mut self) -> SqlResult<Statement> {
        let mut wait = LockWait::Default;
        let if_exists = self.if_exists()?;
        let pairs = self.list(|p| {
            let old = p.object_name()?;
            let clause = p.ddl_wait()?;
            if clause != LockWait::Default {
                wait = clause;
            }
            p.expect_kw(Kw::TO)?;
            Ok((old, p.object_name()?))
        })?;
        if wait == LockWait::Default {
            wait = self.ddl_wait()?;
        }
        Ok(Statement::RenameTable(RenameTables {
            pairs,
            if_exists,
            wait,
        }))
    }

    pub(super) fn truncate(&mut self) -> SqlResult<Statement> {
        self.eat_kw(Kw::TABLE);
        let name: ObjectName = self.object_name()?;
        Ok(Statement::Truncate {
            name,
            wait: self.ddl_wait()?,
        })
    }

    // Views.

    /// `VIEW name [(columns)] AS query [WITH … CHECK OPTION]`, after VIEW.
    pub(super) fn view(&mut self, mut view: CreateView) -> SqlResult<Statement> {
        if !view.or_replace && !view.alter {
            view.if_not_exists = self.if_not_exists()?;
        }
        view.name = self.object_name()?;
        if self.is(Tok::LParen) {
            view.columns = self.ident_list()?;
        }
        self.expect_kw(Kw::AS)?;
        let start = self.cur.start;
        self.places = Some(Box::default());
        view.query = Box::new(self.view_query()?);
        view.text = self.source(start, self.prev_end);
        if let Some(mut places) = self.places.take() {
            if places.has_variables {
                self.defer(errors::view_with_variable());
            }
            let ctes = std::mem::take(&mut places.ctes);
            let is_cte = |name: &str| ctes.iter().any(|c| **c == *name);
            places.tables.retain(|(_, name)| !is_cte(name));
            view.bare_tables = places.tables.iter().map(|(at, _)| at - start).collect();
            // The outermost select list's stars are those that are nested least.
            let least = places.stars.iter().map(|s| s.0).min();
            let outermost = places.stars.iter().filter(|s| Some(s.0) == least);
            view.stars = outermost.map(|s| (s.1 - start, s.2 - start)).collect();
        }
        if self.eat_kw(Kw::WITH) {
            let local = self.eat_any(&[Kw::CASCADED, Kw::LOCAL]) == Some(Kw::LOCAL);
            self.expect_seq(&[Kw::CHECK, Kw::OPTION])?;
            view.check_option = Some(if local { "LOCAL" } else { "CASCADED" });
        }
        Ok(Statement::CreateView(Box::new(view)))
    }
}
