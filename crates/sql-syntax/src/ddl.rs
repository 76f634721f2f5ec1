//! CREATE and DROP of databases, tables, indexes and views; RENAME, TRUNCATE.
//!
//! Neighbours: `statement` dispatches here; `alter` shares index, constraint and option clauses;
//! `column` parses definitions.
//! **Invariants**: each function starts after the words that named the statement.

use esker_types::{SqlError, SqlResult, errors};

use super::ast::{
    CreateIndex, CreateTable, CreateView, DatabaseOption, DdlOptions, DropIndex, DropTables,
    ForeignKey, Ident, IndexKind, IndexSpec, KeyPart, KeyPartKind, LockWait, ObjectName,
    OnDuplicate, RefAction, RenameTables, Span, Statement, TableOption,
};
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
        let name = self.ident()?;
        let mut options = Vec::new();
        while let Some(option) = self.database_option()? {
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
        match self.database_option()? {
            Some(option) => options.push(option),
            None => {
                name = Some(self.ident()?);
                match self.database_option()? {
                    Some(option) => options.push(option),
                    None => return self.fail(),
                }
            }
        }
        while let Some(option) = self.database_option()? {
            options.push(option);
        }
        Ok(Statement::AlterDatabase { name, options })
    }

    fn database_option(&mut self) -> SqlResult<Option<DatabaseOption>> {
        let default = self.eat_kw(Kw::DEFAULT);
        if self.eat_charset_words()? {
            self.eat_eq();
            return Ok(Some(DatabaseOption::Charset(self.charset_or_default()?)));
        }
        if self.eat_kw(Kw::COLLATE) {
            self.eat_eq();
            return Ok(Some(DatabaseOption::Collate(self.charset_or_default()?)));
        }
        if self.eat_kw(Kw::ENCRYPTION) {
            self.eat_eq();
            return Ok(Some(DatabaseOption::Encryption(self.string()?)));
        }
        if default {
            return self.fail();
        }
        if self.at(Kw::READ) && self.peek_is(Kw::ONLY) {
            self.expect_seq(&[Kw::READ, Kw::ONLY])?;
            self.eat_eq();
            let on = !self.eat_kw(Kw::DEFAULT) && self.number()? != 0;
            return Ok(Some(DatabaseOption::ReadOnly(on)));
        }
        if self.at(Kw::COMMENT) && matches!(self.peek().tok, Tok::Eq | Tok::Str) {
            self.advance();
            self.eat_eq();
            return Ok(Some(DatabaseOption::Comment(self.string()?)));
        }
        Ok(None)
    }

    /// A character set or collation name, or the word DEFAULT (as `default`).
    pub(super) fn charset_or_default(&mut self) -> SqlResult<Box<str>> {
        if self.eat_kw(Kw::DEFAULT) {
            Ok("default".into())
        } else {
            self.charset_name()
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
            table.partition_by = Some(self.partition_by()?);
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

    /// `PARTITION BY …`, kept as text.
    fn partition_by(&mut self) -> SqlResult<Box<str>> {
        let start = self.cur.start;
        self.expect_kw(Kw::PARTITION)?;
        self.expect_kw(Kw::BY)?;
        let mut open = 0u32;
        loop {
            match self.cur.tok {
                Tok::Bad => return self.fail(),
                Tok::Eof | Tok::Semicolon if open > 0 => return self.fail(),
                Tok::Eof | Tok::Semicolon => break,
                Tok::Word(Kw::AS | Kw::SELECT | Kw::IGNORE | Kw::REPLACE) if open == 0 => break,
                Tok::LParen => open += 1,
                Tok::RParen if open == 0 => return self.fail(),
                Tok::RParen => open -= 1,
                _ => {}
            }
            self.advance();
        }
        Ok(self.source(start, self.prev_end))
    }

    fn table_element(&mut self, table: &mut CreateTable) -> SqlResult<()> {
        match self.table_constraint()? {
            Some(TableConstraint::Index(index)) => table.indexes.push(index),
            Some(TableConstraint::ForeignKey(mut key)) => {
                key.follows = table.indexes.len();
                table.foreign_keys.push(key);
            }
            Some(TableConstraint::Check(check)) => table.checks.push(check),
            None => table.columns.push(self.column_def()?),
        }
        Ok(())
    }

    /// An index or a constraint, or nothing when a column definition follows.
    pub(super) fn table_constraint(&mut self) -> SqlResult<Option<TableConstraint>> {
        let mut name = None;
        let constraint = self.eat_kw(Kw::CONSTRAINT);
        if constraint && !self.at(Kw::CHECK) {
            name = self.opt_ident()?;
        }
        let kind = match self.kw() {
            Kw::PRIMARY => {
                self.advance();
                self.expect_kw(Kw::KEY)?;
                IndexKind::Primary
            }
            Kw::UNIQUE => {
                self.advance();
                self.eat_any(&[Kw::INDEX, Kw::KEY]);
                IndexKind::Unique
            }
            Kw::FOREIGN => {
                self.advance();
                self.expect_kw(Kw::KEY)?;
                self.if_not_exists()?;
                let index = self.opt_ident()?;
                let columns = self.ident_list()?;
                return Ok(Some(TableConstraint::ForeignKey(
                    self.references(name, index, columns)?,
                )));
            }
            Kw::CHECK => return Ok(Some(TableConstraint::Check(self.check(name)?))),
            _ if constraint => return self.fail(),
            Kw::INDEX | Kw::KEY => {
                self.advance();
                IndexKind::Plain
            }
            Kw::FULLTEXT | Kw::SPATIAL => {
                let fulltext = self.advance().tok == Tok::Word(Kw::FULLTEXT);
                self.eat_any(&[Kw::INDEX, Kw::KEY]);
                if fulltext {
                    IndexKind::FullText
                } else {
                    IndexKind::Spatial
                }
            }
            _ => return Ok(None),
        };
        let mut index = index_spec(kind, None);
        index.if_not_exists = self.if_not_exists()?;
        index.name = self.opt_ident()?.or(name);
        if kind == IndexKind::Primary {
            index.name = None;
        }
        self.index_using(&mut index)?;
        index.parts = self.paren_list(Self::key_part)?;
        self.index_options(&mut index)?;
        Ok(Some(TableConstraint::Index(index)))
    }

    fn index_using(&mut self, index: &mut IndexSpec) -> SqlResult<()> {
        if self.eat_kw(Kw::USING) || self.eat_kw(Kw::TYPE) {
            index.using = Some(self.ident()?.text.to_ascii_uppercase().into());
        }
        Ok(())
    }

    fn key_part(&mut self) -> SqlResult<KeyPart> {
        let what = if self.is(Tok::LParen) {
            KeyPartKind::Expr(self.paren_source_expr()?)
        } else {
            let column = self.ident()?;
            KeyPartKind::Column(column, self.paren_number()?)
        };
        let desc = self.eat_any(&[Kw::ASC, Kw::DESC]) == Some(Kw::DESC);
        Ok(KeyPart { what, desc })
    }

    fn index_options(&mut self, index: &mut IndexSpec) -> SqlResult<()> {
        loop {
            match self.kw() {
                Kw::USING | Kw::TYPE => self.index_using(index)?,
                Kw::KEY_BLOCK_SIZE => {
                    self.advance();
                    self.eat_eq();
                    index.key_block_size = Some(self.number()?);
                }
                Kw::COMMENT => {
                    self.advance();
                    index.comment = Some(self.string_text()?);
                }
                Kw::VISIBLE | Kw::INVISIBLE => {
                    index.invisible = self.advance().tok == Tok::Word(Kw::INVISIBLE);
                }
                Kw::WITH if self.peek_is(Kw::PARSER) => {
                    self.advance();
                    self.advance();
                    index.parser = Some(self.ident()?);
                }
                Kw::ENGINE_ATTRIBUTE | Kw::SECONDARY_ENGINE_ATTRIBUTE => {
                    self.advance();
                    self.eat_eq();
                    self.string()?;
                }
                _ => return Ok(()),
            }
        }
    }

    /// `REFERENCES table [(columns)] [MATCH …] [ON DELETE …] [ON UPDATE …]`.
    pub(super) fn references(
        &mut self,
        name: Option<Ident>,
        index: Option<Ident>,
        columns: Vec<Ident>,
    ) -> SqlResult<ForeignKey> {
        self.expect_kw(Kw::REFERENCES)?;
        let table = self.object_name()?;
        let ref_columns = if self.is(Tok::LParen) {
            self.ident_list()?
        } else {
            Vec::new()
        };
        if self.eat_kw(Kw::MATCH) {
            // FULL, PARTIAL or SIMPLE: without effect.
            self.ident()?;
        }
        let (mut on_delete, mut on_update) = (None, None);
        while self.at(Kw::ON) {
            match self.peek().tok {
                Tok::Word(Kw::DELETE) if on_delete.is_none() => {
                    self.advance();
                    self.advance();
                    on_delete = Some(self.ref_action()?);
                }
                Tok::Word(Kw::UPDATE) if on_update.is_none() => {
                    self.advance();
                    self.advance();
                    on_update = Some(self.ref_action()?);
                }
                _ => {
                    self.advance();
                    return self.fail();
                }
            }
        }
        Ok(ForeignKey {
            name,
            index,
            follows: 0,
            columns,
            table,
            ref_columns,
            on_delete,
            on_update,
        })
    }

    fn ref_action(&mut self) -> SqlResult<RefAction> {
        let kw = self.expect_any(&[Kw::RESTRICT, Kw::CASCADE, Kw::SET, Kw::NO])?;
        Ok(match kw {
            Kw::RESTRICT => RefAction::Restrict,
            Kw::CASCADE => RefAction::Cascade,
            Kw::SET => match self.expect_any(&[Kw::NULL, Kw::DEFAULT])? {
                Kw::NULL => RefAction::SetNull,
                _ => RefAction::SetDefault,
            },
            _ => {
                self.expect_kw(Kw::ACTION)?;
                RefAction::NoAction
            }
        })
    }

    // Table options.

    /// One table option, or nothing.
    pub(super) fn table_option(&mut self) -> SqlResult<Option<TableOption>> {
        if self.eat_kw(Kw::DEFAULT)
            && !matches!(
                self.kw(),
                Kw::CHARSET | Kw::CHARACTER | Kw::CHAR | Kw::COLLATE
            )
        {
            return self.fail();
        }
        if self.eat_charset_words()? {
            self.eat_eq();
            return Ok(Some(TableOption::Charset(self.charset_or_default()?)));
        }
        let kw = self.kw();
        let option = match kw {
            Kw::COLLATE => {
                self.advance();
                self.eat_eq();
                TableOption::Collate(self.charset_or_default()?)
            }
            Kw::ENGINE => {
                self.advance();
                self.eat_eq();
                TableOption::Engine(self.ident_or_text()?)
            }
            Kw::AUTO_INCREMENT => {
                self.advance();
                self.eat_eq();
                TableOption::AutoIncrement(self.number()?)
            }
            Kw::COMMENT => {
                self.advance();
                self.eat_eq();
                TableOption::Comment(self.string_text()?)
            }
            Kw::ROW_FORMAT => {
                self.advance();
                self.eat_eq();
                TableOption::RowFormat(self.row_format()?)
            }
            _ => return self.other_table_option(kw),
        };
        Ok(Some(option))
    }

    fn row_format(&mut self) -> SqlResult<Box<str>> {
        let word = self.bytes(self.cur).to_ascii_uppercase();
        let known: [&[u8]; 6] = [
            b"DEFAULT",
            b"FIXED",
            b"DYNAMIC",
            b"COMPRESSED",
            b"REDUNDANT",
            b"COMPACT",
        ];
        if !known.contains(&&*word) {
            return self.fail();
        }
        let token = self.advance();
        Ok(self
            .source(token.start, token.end)
            .to_ascii_uppercase()
            .into())
    }

    /// Options MySQL knows and Esker has no use for: name and value as text.
    fn other_table_option(&mut self, kw: Kw) -> SqlResult<Option<TableOption>> {
        use Kw::*;
        let mut name: Box<str> = kw.text().into();
        let start;
        match kw {
            AVG_ROW_LENGTH | CHECKSUM | DELAY_KEY_WRITE | KEY_BLOCK_SIZE | MAX_ROWS | MIN_ROWS => {
                self.start_option();
                start = self.cur.start;
                self.number()?;
            }
            PACK_KEYS | STATS_AUTO_RECALC | STATS_PERSISTENT | STATS_SAMPLE_PAGES => {
                self.start_option();
                start = self.cur.start;
                if !self.eat_kw(DEFAULT) {
                    self.number()?;
                }
            }
            COMPRESSION
            | CONNECTION
            | ENCRYPTION
            | PASSWORD
            | ENGINE_ATTRIBUTE
            | SECONDARY_ENGINE_ATTRIBUTE => {
                self.start_option();
                start = self.cur.start;
                self.string()?;
            }
            INSERT_METHOD | TABLESPACE | SECONDARY_ENGINE | AUTOEXTEND_SIZE | STORAGE => {
                self.start_option();
                start = self.cur.start;
                match self.cur.tok {
                    Tok::Int | Tok::Word(NULL | DEFAULT) => {
                        self.advance();
                    }
                    _ => {
                        self.ident_or_text()?;
                    }
                }
            }
            DATA | INDEX => {
                self.advance();
                if !self.at(DIRECTORY) {
                    return self.fail();
                }
                name = format!("{name} DIRECTORY").into();
                self.start_option();
                start = self.cur.start;
                self.string()?;
            }
            START => {
                self.advance();
                start = self.cur.start;
                self.expect_kw(TRANSACTION)?;
            }
            UNION => {
                self.start_option();
                start = self.cur.start;
                self.paren_list(Self::object_name)?;
            }
            _ => return Ok(None),
        }
        Ok(Some(TableOption::Other(
            name,
            self.source(start, self.prev_end),
        )))
    }

    /// The option's word and `=`.
    fn start_option(&mut self) {
        self.advance();
        self.eat_eq();
    }

    // Indexes.

    /// CREATE [UNIQUE|FULLTEXT|SPATIAL] INDEX, after INDEX.
    pub(super) fn create_index(
        &mut self,
        or_replace: bool,
        kind: IndexKind,
    ) -> SqlResult<Statement> {
        let mut index = index_spec(kind, None);
        index.if_not_exists = self.if_not_exists()?;
        index.name = Some(self.ident()?);
        self.index_using(&mut index)?;
        self.expect_kw(Kw::ON)?;
        let table = self.object_name()?;
        index.parts = self.paren_list(Self::key_part)?;
        self.index_options(&mut index)?;
        let options = self.ddl_options()?;
        Ok(Statement::CreateIndex(Box::new(CreateIndex {
            or_replace,
            index,
            table,
            options,
        })))
    }

    pub(super) fn drop_index(&mut self) -> SqlResult<Statement> {
        let if_exists = self.if_exists()?;
        let name = if self.eat_kw(Kw::PRIMARY) {
            Ident::new("PRIMARY")
        } else {
            self.ident()?
        };
        self.expect_kw(Kw::ON)?;
        let table = self.object_name()?;
        let options = self.ddl_options()?;
        Ok(Statement::DropIndex(DropIndex {
            if_exists,
            name,
            table,
            options,
        }))
    }

    /// `[NOWAIT | WAIT n] [ALGORITHM …] [LOCK …]` in any order.
    fn ddl_options(&mut self) -> SqlResult<DdlOptions> {
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

    /// `ALGORITHM [=] word`, `LOCK [=] word`.
    pub(super) fn algorithm_or_lock(&mut self, options: &mut DdlOptions) -> SqlResult<bool> {
        let Some(kw) = self.eat_any(&[Kw::ALGORITHM, Kw::LOCK]) else {
            return Ok(false);
        };
        self.eat_eq();
        let algorithm = kw == Kw::ALGORITHM;
        let known: &[&str] = match algorithm {
            true => &["INPLACE", "COPY", "INSTANT"],
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
            value = Some(upper.into());
        }
        if algorithm {
            options.algorithm = value;
        } else {
            options.lock = value;
        }
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
        Ok(Statement::RenameTable(RenameTables { pairs, wait }))
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
        view.if_not_exists = self.if_not_exists()?;
        view.name = self.object_name()?;
        if self.is(Tok::LParen) {
            view.columns = self.ident_list()?;
        }
        self.expect_kw(Kw::AS)?;
        let start = self.cur.start;
        self.places = Some(Box::default());
        view.query = Box::new(self.query()?);
        view.text = self.source(start, self.prev_end);
        if let Some(mut places) = self.places.take() {
            let ctes = std::mem::take(&mut places.ctes);
            let is_cte = |name: &str| ctes.iter().any(|c| c.eq_ignore_ascii_case(name));
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

/// An index or constraint of a table.
pub(super) enum TableConstraint {
    Index(IndexSpec),
    ForeignKey(ForeignKey),
    Check(super::ast::Check),
}

fn index_spec(kind: IndexKind, name: Option<Ident>) -> IndexSpec {
    IndexSpec {
        kind,
        name,
        if_not_exists: false,
        parts: Vec::new(),
        using: None,
        comment: None,
        invisible: false,
        key_block_size: None,
        parser: None,
    }
}
