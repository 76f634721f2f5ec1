//! One statement: what its first words make it.
//!
//! Neighbours: every other parser file; `parse` in `mod.rs` calls this.
//! **Invariants**: a statement MySQL 8.4 knows and Esker does not becomes `Unsupported` with all its
//! text consumed, whatever stands in it; anything else unknown is a syntax error.

use esker_types::SqlResult;

use super::ast::{
    Account, AlterInstance, BackupServer, CreateView, DropProgram, IndexKind, LockWait, ObjectName,
    Query, RoutineKind, Statement, TlsChannel,
};
use super::keyword::Kw;
use super::lexer::Tok;
use super::parser::Parser;

impl Parser<'_> {
    pub(super) fn statement(&mut self) -> SqlResult<Statement> {
        self.nested(Self::statement_body)
    }

    fn statement_body(&mut self) -> SqlResult<Statement> {
        match self.cur.tok {
            Tok::Eof => return Ok(Statement::Empty),
            Tok::Semicolon => return self.fail(),
            Tok::LParen => return self.select_statement(),
            _ => {}
        }
        if self.kw().may_have_wait_hint() {
            return self.hinted_statement();
        }
        match self.kw() {
            Kw::SELECT | Kw::TABLE | Kw::VALUES => self.select_statement(),
            Kw::WITH => self.with_statement(),
            Kw::INSERT | Kw::REPLACE => {
                let replace = self.advance().tok == Tok::Word(Kw::REPLACE);
                self.insert(replace)
            }
            Kw::UPDATE => {
                self.advance();
                self.update(None)
            }
            Kw::DELETE => {
                self.advance();
                self.delete(None)
            }
            Kw::SHOW => self.show(),
            Kw::SET => self.set_statement(),
            kw => self.other_statement(kw),
        }
    }

    /// A statement that may say in a hint behind its verb for how long it waits for metadata locks. A clause counts
    /// for more than the hint.
    fn hinted_statement(&mut self) -> SqlResult<Statement> {
        let hint = self.wait_hint();
        let mut statement = match self.kw() {
            Kw::CREATE => self.create(),
            Kw::ALTER => self.alter(),
            Kw::DROP => self.drop_statement(),
            kw => self.other_statement(kw),
        }?;
        if let Some((wait, span)) = hint
            && let Some(clause) = statement.lock_wait_mut()
        {
            if *clause == LockWait::Default {
                *clause = wait;
            }
            self.unlogged.insert(0, span);
        }
        Ok(statement)
    }

    fn select_statement(&mut self) -> SqlResult<Statement> {
        Ok(Statement::Query(Box::new(self.query_statement()?)))
    }

    fn with_statement(&mut self) -> SqlResult<Statement> {
        let mut ahead = self.clone();
        let with = ahead.opt_with()?;
        match ahead.kw() {
            Kw::UPDATE => {
                *self = ahead;
                self.advance();
                self.update(with)
            }
            Kw::DELETE => {
                *self = ahead;
                self.advance();
                self.delete(with)
            }
            _ => self.select_statement(),
        }
    }

    fn other_statement(&mut self, kw: Kw) -> SqlResult<Statement> {
        match kw {
            Kw::BEGIN
            | Kw::START
            | Kw::COMMIT
            | Kw::ROLLBACK
            | Kw::SAVEPOINT
            | Kw::RELEASE
            | Kw::XA
            | Kw::LOCK
            | Kw::UNLOCK => self.transaction_statement(kw),
            Kw::LOAD => {
                self.advance();
                if self.at(Kw::INDEX) {
                    return Ok(self.unsupported("LOAD INDEX INTO CACHE"));
                }
                self.load()
            }
            Kw::DO => {
                self.advance();
                self.do_statement()
            }
            Kw::CALL => {
                self.advance();
                self.call_statement()
            }
            Kw::TRUNCATE => {
                self.advance();
                self.truncate()
            }
            Kw::RENAME => self.rename(),
            Kw::USE => {
                self.advance();
                Ok(Statement::Use(self.used_schema()?))
            }
            Kw::EXPLAIN | Kw::DESCRIBE | Kw::DESC => self.explain(),
            Kw::PREPARE => self.prepare(),
            Kw::EXECUTE => self.execute(),
            Kw::DEALLOCATE => {
                self.advance();
                self.expect_kw(Kw::PREPARE)?;
                Ok(Statement::Deallocate(self.ident()?))
            }
            Kw::HELP => {
                self.advance();
                let topic = self.ident_or_text()?;
                Ok(Statement::Help(topic.as_bytes().to_vec()))
            }
            Kw::HANDLER => self.handler_statement(),
            Kw::SIGNAL => self.signal(false),
            Kw::RESIGNAL => self.signal(true),
            Kw::GET => self.get_diagnostics(),
            _ => self.server_statement(kw),
        }
    }

    /// Statements about the server, its accounts and the upkeep of its tables.
    fn server_statement(&mut self, kw: Kw) -> SqlResult<Statement> {
        match kw {
            Kw::KILL => self.kill(),
            Kw::FLUSH => self.flush(),
            Kw::ANALYZE | Kw::CHECK | Kw::CHECKSUM | Kw::OPTIMIZE | Kw::REPAIR => self.maintain(kw),
            Kw::GRANT => self.grant(),
            Kw::REVOKE => self.revoke(),
            Kw::RESET | Kw::CHANGE | Kw::STOP | Kw::PURGE | Kw::BINLOG => {
                self.replication_statement(kw)
            }
            Kw::SHUTDOWN => {
                self.advance();
                Ok(Statement::Shutdown)
            }
            Kw::RESTART => {
                self.advance();
                Ok(Statement::Restart)
            }
            Kw::CACHE => Ok(self.unsupported("CACHE INDEX")),
            Kw::INSTALL | Kw::UNINSTALL if self.peek_is(Kw::COMPONENT) => self.components(kw),
            Kw::INSTALL => Ok(self.unsupported("INSTALL PLUGIN")),
            Kw::UNINSTALL => Ok(self.unsupported("UNINSTALL PLUGIN")),
            Kw::CLONE => Ok(self.unsupported("CLONE")),
            Kw::IMPORT => Ok(self.unsupported("IMPORT TABLE")),
            Kw::BACKUP if self.peek_is(Kw::SERVER) => self.backup_server(),
            Kw::BACKUP if self.peek_is(Kw::STAGE) => Ok(self.unsupported("BACKUP STAGE")),
            _ => self.fail(),
        }
    }

    /// `ALTER INSTANCE …`: what the server shall do with its certificates, keys and log.
    fn alter_instance(&mut self) -> SqlResult<Statement> {
        self.advance();
        let what = match self.eat_any(&[Kw::RELOAD, Kw::ENABLE, Kw::DISABLE]) {
            Some(Kw::RELOAD) if self.eat_word("TLS") => self.reload_tls()?,
            Some(Kw::RELOAD) => {
                self.expect_word("KEYRING")?;
                AlterInstance::ReloadKeyring
            }
            Some(kw) => {
                self.expect_word("INNODB")?;
                self.expect_word("REDO_LOG")?;
                AlterInstance::RedoLog(kw == Kw::ENABLE)
            }
            None => {
                self.expect_word("ROTATE")?;
                let is_binlog = self.eat_kw(Kw::BINLOG);
                if !is_binlog {
                    self.expect_word("INNODB")?;
                }
                self.expect_kw(Kw::MASTER)?;
                self.expect_kw(Kw::KEY)?;
                AlterInstance::RotateKey { is_binlog }
            }
        };
        Ok(Statement::AlterInstance(what))
    }

    /// What follows `ALTER INSTANCE RELOAD TLS`: `[FOR CHANNEL name] [NO ROLLBACK ON ERROR]`.
    fn reload_tls(&mut self) -> SqlResult<AlterInstance> {
        let mut channel = TlsChannel::Main;
        if self.eat_kw(Kw::FOR) {
            self.expect_kw(Kw::CHANNEL)?;
            channel = match self.ident()?.text.to_ascii_lowercase().as_str() {
                "mysql_main" => TlsChannel::Main,
                "mysql_admin" => TlsChannel::Admin,
                _ => TlsChannel::Unknown,
            };
        }
        let keeps_error = self.eat_kw(Kw::NO);
        if keeps_error {
            self.expect_kw(Kw::ROLLBACK)?;
            self.expect_kw(Kw::ON)?;
            self.expect_word("ERROR")?;
        }
        Ok(AlterInstance::ReloadTls {
            channel,
            keeps_error,
        })
    }

    /// `INSTALL COMPONENT 'urn', …`, UNINSTALL COMPONENT.
    fn components(&mut self, kw: Kw) -> SqlResult<Statement> {
        self.advance();
        self.advance();
        let mut urns = vec![self.string_text()?];
        while self.eat(Tok::Comma) {
            urns.push(self.string_text()?);
        }
        let install = kw == Kw::INSTALL;
        if install && self.at(Kw::SET) {
            return Ok(self.unsupported("SET of INSTALL COMPONENT"));
        }
        Ok(Statement::Components { install, urns })
    }

    /// `BACKUP SERVER TO 'directory' [BASE 'directory']`
    fn backup_server(&mut self) -> SqlResult<Statement> {
        self.advance();
        self.advance();
        self.expect_kw(Kw::TO)?;
        let to = self.string()?;
        let base = match self.eat_word("BASE") {
            true => Some(self.string()?),
            false => None,
        };
        Ok(Statement::BackupServer(BackupServer { to, base }))
    }

    pub(super) fn unsupported(&mut self, name: &'static str) -> Statement {
        while self.cur.tok != Tok::Eof {
            self.advance();
        }
        Statement::Unsupported(name)
    }

    // CREATE.

    fn create(&mut self) -> SqlResult<Statement> {
        self.expect_kw(Kw::CREATE)?;
        let or_replace = self.eat_seq(&[Kw::OR, Kw::REPLACE]);
        match self.kw() {
            Kw::DATABASE | Kw::SCHEMA => {
                self.advance();
                self.create_database(or_replace)
            }
            Kw::TABLE => {
                self.advance();
                self.create_table(or_replace, false)
            }
            Kw::TEMPORARY => {
                self.advance();
                self.expect_kw(Kw::TABLE)?;
                self.create_table(or_replace, true)
            }
            Kw::INDEX | Kw::UNIQUE | Kw::FULLTEXT | Kw::SPATIAL => {
                let kind = match self.eat_any(&[Kw::UNIQUE, Kw::FULLTEXT, Kw::SPATIAL]) {
                    Some(Kw::UNIQUE) => IndexKind::Unique,
                    Some(Kw::FULLTEXT) => IndexKind::FullText,
                    Some(_) => IndexKind::Spatial,
                    None => IndexKind::Plain,
                };
                self.expect_kw(Kw::INDEX)?;
                self.create_index(or_replace, kind)
            }
            Kw::VIEW | Kw::ALGORITHM | Kw::DEFINER | Kw::SQL => self.definer_object(or_replace),
            Kw::TRIGGER if !or_replace => self.create_trigger(None),
            Kw::USER => {
                self.advance();
                self.create_user(or_replace)
            }
            Kw::ROLE => {
                self.advance();
                self.create_role()
            }
            Kw::PROCEDURE => self.create_routine(RoutineKind::Procedure, None),
            Kw::FUNCTION => self.create_routine(RoutineKind::Function, None),
            Kw::EVENT if !or_replace => self.create_event(None),
            Kw::TABLESPACE if !or_replace => self.create_tablespace(),
            _ => self.create_unsupported(),
        }
    }

    fn create_unsupported(&mut self) -> SqlResult<Statement> {
        let name = match self.kw() {
            Kw::SERVER => "CREATE SERVER",
            Kw::UNDO => "CREATE UNDO TABLESPACE",
            Kw::LOGFILE => "CREATE LOGFILE GROUP",
            Kw::RESOURCE => "CREATE RESOURCE GROUP",
            // MariaDB's.
            Kw::SEQUENCE => "CREATE SEQUENCE",
            Kw::PACKAGE => "CREATE PACKAGE",
            Kw::OTHER if self.bytes(self.cur).eq_ignore_ascii_case(b"AGGREGATE") => {
                "CREATE FUNCTION"
            }
            Kw::OTHER if self.bytes(self.cur).eq_ignore_ascii_case(b"LIBRARY") => "CREATE LIBRARY",
            _ if self.at(Kw::SPATIAL) => "CREATE SPATIAL REFERENCE SYSTEM",
            _ => return self.fail(),
        };
        Ok(self.unsupported(name))
    }

    /// `[ALGORITHM = …] [DEFINER = …] [SQL SECURITY …]` and the VIEW (or stored program) behind.
    fn definer_object(&mut self, or_replace: bool) -> SqlResult<Statement> {
        let view = self.view_prefix(or_replace)?;
        match self.kw() {
            Kw::VIEW => {
                self.advance();
                self.view(view)
            }
            Kw::PROCEDURE => self.create_routine(RoutineKind::Procedure, view.definer),
            Kw::FUNCTION => self.create_routine(RoutineKind::Function, view.definer),
            Kw::TRIGGER if !or_replace => self.create_trigger(view.definer),
            Kw::EVENT if !or_replace => self.create_event(view.definer),
            _ => self.fail(),
        }
    }

    fn view_prefix(&mut self, or_replace: bool) -> SqlResult<CreateView> {
        let mut view = CreateView {
            or_replace,
            alter: false,
            if_not_exists: false,
            algorithm: None,
            definer: None,
            invoker: None,
            name: ObjectName::bare(""),
            columns: Vec::new(),
            query: Box::new(empty_query()),
            text: "".into(),
            bare_tables: Vec::new(),
            stars: Vec::new(),
            check_option: None,
        };
        if self.eat_kw(Kw::ALGORITHM) {
            self.expect(Tok::Eq)?;
            let kw = self.expect_any(&[Kw::UNDEFINED, Kw::MERGE, Kw::TEMPTABLE])?;
            view.algorithm = Some(kw.text().into());
        }
        if self.eat_kw(Kw::DEFINER) {
            self.expect(Tok::Eq)?;
            view.definer = Some(self.account()?);
        }
        if self.eat_kw(Kw::SQL) {
            self.expect_kw(Kw::SECURITY)?;
            let who = self.expect_any(&[Kw::DEFINER, Kw::INVOKER])?;
            view.invoker = Some(who == Kw::INVOKER);
        }
        Ok(view)
    }

    // ALTER, DROP, RENAME.

    fn alter(&mut self) -> SqlResult<Statement> {
        self.expect_kw(Kw::ALTER)?;
        match self.kw() {
            Kw::TABLE | Kw::ONLINE | Kw::IGNORE => {
                self.eat_kw(Kw::ONLINE);
                let ignore = self.eat_kw(Kw::IGNORE);
                self.expect_kw(Kw::TABLE)?;
                self.alter_table(ignore)
            }
            Kw::DATABASE | Kw::SCHEMA => {
                self.advance();
                self.alter_database()
            }
            Kw::USER => {
                self.advance();
                self.alter_user()
            }
            Kw::VIEW | Kw::ALGORITHM | Kw::DEFINER | Kw::SQL => {
                let mut view = self.view_prefix(false)?;
                if self.at(Kw::EVENT) {
                    return self.alter_event(view.definer);
                }
                self.expect_kw(Kw::VIEW)?;
                view.alter = true;
                self.view(view)
            }
            Kw::PROCEDURE => self.alter_routine(RoutineKind::Procedure),
            Kw::FUNCTION => self.alter_routine(RoutineKind::Function),
            Kw::EVENT => self.alter_event(None),
            Kw::INSTANCE => self.alter_instance(),
            Kw::SERVER => Ok(self.unsupported("ALTER SERVER")),
            Kw::TABLESPACE => self.alter_tablespace(),
            Kw::UNDO => Ok(self.unsupported("ALTER UNDO TABLESPACE")),
            Kw::RESOURCE => Ok(self.unsupported("ALTER RESOURCE GROUP")),
            Kw::SEQUENCE => Ok(self.unsupported("ALTER SEQUENCE")),
            _ => self.fail(),
        }
    }

    fn drop_statement(&mut self) -> SqlResult<Statement> {
        self.expect_kw(Kw::DROP)?;
        let absent = match self.kw() {
            Kw::TABLESPACE => return self.drop_tablespace(),
            Kw::UNDO => "DROP UNDO TABLESPACE",
            Kw::LOGFILE => "DROP LOGFILE GROUP",
            Kw::RESOURCE => "DROP RESOURCE GROUP",
            Kw::SPATIAL => "DROP SPATIAL REFERENCE SYSTEM",
            Kw::SEQUENCE => "DROP SEQUENCE",
            Kw::PACKAGE => "DROP PACKAGE",
            kw => return self.drop_object(kw),
        };
        Ok(self.unsupported(absent))
    }

    fn drop_object(&mut self, kw: Kw) -> SqlResult<Statement> {
        match kw {
            Kw::TABLE | Kw::TABLES => {
                self.advance();
                Ok(Statement::DropTable(self.drop_tables(false)?))
            }
            Kw::TEMPORARY => {
                self.advance();
                self.expect_any(&[Kw::TABLE, Kw::TABLES])?;
                Ok(Statement::DropTable(self.drop_tables(true)?))
            }
            Kw::VIEW => {
                self.advance();
                Ok(Statement::DropView(self.drop_tables(false)?))
            }
            Kw::DATABASE | Kw::SCHEMA => {
                self.advance();
                let if_exists = self.if_exists()?;
                Ok(Statement::DropDatabase {
                    if_exists,
                    name: self.schema_name()?,
                })
            }
            Kw::INDEX => {
                self.advance();
                self.drop_index()
            }
            Kw::USER => {
                self.advance();
                let if_exists = self.if_exists()?;
                Ok(Statement::DropUser {
                    if_exists,
                    users: self.list(Self::account)?,
                })
            }
            Kw::ROLE => {
                self.advance();
                let if_exists = self.if_exists()?;
                Ok(Statement::DropRole {
                    if_exists,
                    roles: self.list(Self::account)?,
                })
            }
            Kw::PREPARE => {
                self.advance();
                Ok(Statement::Deallocate(self.ident()?))
            }
            Kw::TRIGGER | Kw::PROCEDURE | Kw::FUNCTION | Kw::EVENT => {
                let kind = kw.text();
                self.advance();
                let if_exists = self.if_exists()?;
                Ok(Statement::DropProgram(DropProgram {
                    kind,
                    if_exists,
                    name: self.object_name()?,
                }))
            }
            Kw::SERVER => {
                self.advance();
                let if_exists = self.if_exists()?;
                let name = self.ident_or_text()?;
                Ok(Statement::DropServer { if_exists, name })
            }
            _ => self.fail(),
        }
    }

    fn rename(&mut self) -> SqlResult<Statement> {
        self.expect_kw(Kw::RENAME)?;
        if self.eat_kw(Kw::USER) {
            let pairs = self.list(|p| {
                let old = p.account()?;
                p.expect_kw(Kw::TO)?;
                Ok((old, p.account()?))
            })?;
            return Ok(Statement::RenameUser(pairs));
        }
        self.expect_any(&[Kw::TABLE, Kw::TABLES])?;
        self.rename_tables()
    }

    fn create_role(&mut self) -> SqlResult<Statement> {
        let if_not_exists = self.if_not_exists()?;
        let roles: Vec<Account> = self.list(Self::account)?;
        Ok(Statement::CreateRole {
            if_not_exists,
            roles,
        })
    }
}

fn empty_query() -> Query {
    Query {
        with: None,
        body: super::ast::QueryBody::Values(Vec::new()),
        order_by: Vec::new(),
        limit: None,
        locking: Vec::new(),
        into: None,
    }
}
