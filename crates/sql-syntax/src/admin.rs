//! SET, transactions, locks, PREPARE, EXPLAIN, KILL, FLUSH, table maintenance.
//!
//! Neighbours: `statement` dispatches here; `show`, `account`, `replication` hold the other
//! administrative statements.
//! **Invariants**: SET keeps its items in order, since each sees the effect of those before it.

use esker_types::{SqlError, SqlResult, errors};

use super::ast::{
    Account, Begin, Completion, Explain, ExplainFormat, ExplainWhat, Expr, FlushWhat, Histogram,
    Isolation, Kill, Literal, LockTable, LockWait, Maintain, MaintainKind, ObjectName,
    PrepareSource, RoleList, SetItem, SetPassword, SetRole, SetTransaction, Show, ShowFilter,
    ShowWhat, Statement, SysVar, VarScope,
};
use super::keyword::Kw;
use super::lexer::Tok;
use super::parser::Parser;

/// The scope word of SET that holds for items without one.
#[derive(Default)]
pub(super) struct StandingScope {
    pub(super) scope: Option<VarScope>,
    /// The last item has it from one before.
    pub(super) is_inherited: bool,
}

impl Parser<'_> {
    // SET.

    pub(super) fn set_statement(&mut self) -> SqlResult<Statement> {
        self.expect_kw(Kw::SET)?;
        match (self.kw(), self.peek().tok) {
            (Kw::PASSWORD, next) if !matches!(next, Tok::Assign) => {
                self.refuse_shadowed()?;
                self.advance();
                return self.set_password();
            }
            (Kw::ROLE, _) => {
                self.advance();
                let roles = self.role_list(true)?;
                return Ok(Statement::SetRole(SetRole {
                    roles,
                    default_for: None,
                }));
            }
            (Kw::DEFAULT, Tok::Word(Kw::ROLE)) => {
                self.advance();
                self.advance();
                let roles = self.role_list(false)?;
                self.expect_kw(Kw::TO)?;
                let users = self.list(Self::account)?;
                return Ok(Statement::SetRole(SetRole {
                    roles,
                    default_for: Some(users),
                }));
            }
            (Kw::RESOURCE, Tok::Word(Kw::GROUP)) => {
                return Ok(self.unsupported("SET RESOURCE GROUP"));
            }
            _ => {}
        }
        if let Some(transaction) = self.set_transaction()? {
            return Ok(Statement::SetTransaction(transaction));
        }
        let mut scope = StandingScope::default();
        let items = self.list(|p| p.set_item(&mut scope))?;
        Ok(Statement::Set(items))
    }

    /// `[GLOBAL|SESSION|LOCAL] TRANSACTION …`.
    fn set_transaction(&mut self) -> SqlResult<Option<SetTransaction>> {
        let scope = match self.kw() {
            Kw::GLOBAL => Some(VarScope::Global),
            Kw::SESSION | Kw::LOCAL => Some(VarScope::Session),
            _ => None,
        };
        let transaction = if scope.is_some() {
            self.peek_is(Kw::TRANSACTION)
        } else {
            self.at(Kw::TRANSACTION)
        };
        if !transaction {
            return Ok(None);
        }
        if scope.is_some() {
            self.advance();
        }
        self.advance();
        let mut set = SetTransaction {
            scope,
            isolation: None,
            read_only: None,
        };
        loop {
            if set.read_only.is_none() && self.eat_kw(Kw::READ) {
                set.read_only = Some(self.expect_any(&[Kw::ONLY, Kw::WRITE])? == Kw::ONLY);
            } else if set.isolation.is_none() && self.eat_kw(Kw::ISOLATION) {
                self.expect_kw(Kw::LEVEL)?;
                set.isolation = Some(self.isolation()?);
            } else {
                return self.fail();
            }
            if !self.eat(Tok::Comma) {
                return Ok(Some(set));
            }
        }
    }

    fn isolation(&mut self) -> SqlResult<Isolation> {
        Ok(
            match self.expect_any(&[Kw::READ, Kw::REPEATABLE, Kw::SERIALIZABLE])? {
                Kw::SERIALIZABLE => Isolation::Serializable,
                Kw::REPEATABLE => {
                    self.expect_kw(Kw::READ)?;
                    Isolation::RepeatableRead
                }
                _ => match self.expect_any(&[Kw::COMMITTED, Kw::UNCOMMITTED])? {
                    Kw::COMMITTED => Isolation::ReadCommitted,
                    _ => Isolation::ReadUncommitted,
                },
            },
        )
    }

    /// One item. A scope word before it holds for the items behind it, too, until the next one.
    pub(super) fn set_item(&mut self, standing: &mut StandingScope) -> SqlResult<SetItem> {
        standing.is_inherited = false;
        self.refuse_shadowed()?;
        if let Some(name) = self.opt_assigned_var()? {
            self.expect_assign()?;
            return Ok(SetItem::UserVar {
                name,
                value: self.expr()?,
            });
        }
        if self.is(Tok::AtAt) {
            let var = self.sys_var()?;
            return self.set_value(var);
        }
        if self.eat_kw(Kw::NAMES) {
            return self.set_names();
        }
        if self.eat_charset_words()? {
            let charset = if self.eat_kw(Kw::DEFAULT) {
                None
            } else {
                Some(self.charset_name()?)
            };
            return Ok(SetItem::Charset(charset));
        }
        if self.at_scope_of_name() {
            return self.fail();
        }
        let scope = match self.kw() {
            Kw::GLOBAL => Some(VarScope::Global),
            Kw::SESSION | Kw::LOCAL => Some(VarScope::Session),
            Kw::PERSIST => Some(VarScope::Persist),
            Kw::PERSIST_ONLY => Some(VarScope::PersistOnly),
            _ => None,
        };
        if scope.is_some() {
            self.advance();
            if self.at_scope() {
                return self.fail();
            }
        }
        let mut var = self.var_name()?;
        match scope {
            Some(_) => standing.scope = scope,
            None => standing.is_inherited = standing.scope.is_some(),
        }
        var.scope = standing.scope;
        self.set_value(var)
    }

    /// `GLOBAL.` and its kin stand behind `@@` only.
    fn at_scope_of_name(&self) -> bool {
        let word = self.bytes(self.cur);
        let is_scope = ["GLOBAL", "SESSION", "LOCAL"]
            .iter()
            .any(|scope| word.eq_ignore_ascii_case(scope.as_bytes()));
        is_scope && self.peek().tok == Tok::Dot
    }

    /// NAMES and PASSWORD without quotes are no variables of a program.
    ///
    /// # Errors
    /// 1453.
    fn refuse_shadowed(&self) -> SqlResult<()> {
        let is_assigned = matches!(self.peek().tok, Tok::Eq | Tok::Assign);
        let name = match self.kw() {
            Kw::NAMES if is_assigned => "names",
            Kw::PASSWORD if is_assigned => "password",
            _ => return Ok(()),
        };
        match self.has_variable(name) {
            true => Err(errors::shadowed_variable(name)),
            false => Ok(()),
        }
    }

    fn at_scope(&self) -> bool {
        matches!(
            self.kw(),
            Kw::GLOBAL | Kw::SESSION | Kw::LOCAL | Kw::PERSIST | Kw::PERSIST_ONLY
        )
    }

    fn set_names(&mut self) -> SqlResult<SetItem> {
        if self.eat_kw(Kw::DEFAULT) {
            return Ok(SetItem::Names {
                charset: None,
                collation: None,
            });
        }
        let charset = Some(self.charset_name()?);
        let collation = if self.eat_kw(Kw::COLLATE) {
            Some(self.collation_name()?)
        } else {
            None
        };
        Ok(SetItem::Names { charset, collation })
    }

    fn set_value(&mut self, var: SysVar) -> SqlResult<SetItem> {
        self.expect_assign()?;
        let value = match self.kw() {
            Kw::DEFAULT if self.peek().tok != Tok::LParen => {
                self.advance();
                return Ok(SetItem::SysVar { var, value: None });
            }
            // Reserved words that are values.
            kw @ (Kw::ON | Kw::ALL | Kw::SYSTEM) => {
                self.advance();
                string(kw.text())
            }
            kw @ (Kw::BINARY | Kw::ROW) if self.value_ends() => {
                self.advance();
                string(kw.text())
            }
            _ => match self.expr()? {
                // A bare word is its own text.
                Expr::Column(column) if column.table.is_none() => string(&column.name.text),
                expr => expr,
            },
        };
        Ok(SetItem::SysVar {
            var,
            value: Some(value),
        })
    }

    /// Does the item end after the current word?
    fn value_ends(&self) -> bool {
        matches!(self.peek().tok, Tok::Comma | Tok::Eof | Tok::Semicolon)
    }

    /// After SET PASSWORD.
    fn set_password(&mut self) -> SqlResult<Statement> {
        let account = if self.eat_kw(Kw::FOR) {
            self.account()?
        } else {
            Account::CurrentUser
        };
        let password = if self.eat_kw(Kw::TO) {
            self.expect_kw(Kw::RANDOM)?;
            None
        } else {
            self.expect_assign()?;
            Some(self.string()?)
        };
        let replace = if self.eat_kw(Kw::REPLACE) {
            Some(self.string()?)
        } else {
            None
        };
        let retain_current = self.eat_kw(Kw::RETAIN);
        if retain_current {
            self.expect_seq(&[Kw::CURRENT, Kw::PASSWORD])?;
        }
        self.accounts.list_end = self.prev_end;
        Ok(Statement::SetPassword(SetPassword {
            account,
            password,
            replace,
            retain_current,
        }))
    }

    pub(super) fn role_list(&mut self, default: bool) -> SqlResult<RoleList> {
        if self.eat_kw(Kw::NONE) {
            return Ok(RoleList::None);
        }
        if default && self.eat_kw(Kw::DEFAULT) {
            return Ok(RoleList::Default);
        }
        if self.eat_kw(Kw::ALL) {
            let except = if self.eat_kw(Kw::EXCEPT) {
                self.list(Self::account)?
            } else {
                Vec::new()
            };
            return Ok(RoleList::All(except));
        }
        Ok(RoleList::Named(self.list(Self::account)?))
    }

    // Transactions and locks.

    pub(super) fn transaction_statement(&mut self, kw: Kw) -> SqlResult<Statement> {
        self.advance();
        match kw {
            Kw::BEGIN => {
                self.eat_kw(Kw::WORK);
                Ok(Statement::Begin(Begin::default()))
            }
            Kw::START => {
                if self.eat_kw(Kw::TRANSACTION) {
                    return self.start_transaction();
                }
                self.start_replica()
            }
            Kw::COMMIT => {
                self.eat_kw(Kw::WORK);
                Ok(Statement::Commit(self.completion()?))
            }
            Kw::ROLLBACK => {
                self.eat_kw(Kw::WORK);
                if self.eat_kw(Kw::TO) {
                    self.eat_kw(Kw::SAVEPOINT);
                    return Ok(Statement::RollbackTo(self.ident()?));
                }
                Ok(Statement::Rollback(self.completion()?))
            }
            Kw::SAVEPOINT => Ok(Statement::Savepoint(self.ident()?)),
            Kw::RELEASE => {
                self.expect_kw(Kw::SAVEPOINT)?;
                Ok(Statement::ReleaseSavepoint(self.ident()?))
            }
            Kw::XA => Ok(Statement::Xa(self.xa()?)),
            Kw::LOCK => self.lock_statement(),
            _ => {
                if self.eat_kw(Kw::INSTANCE) {
                    return Ok(Statement::UnlockInstance);
                }
                self.expect_any(&[Kw::TABLES, Kw::TABLE])?;
                Ok(Statement::UnlockTables)
            }
        }
    }

    fn start_transaction(&mut self) -> SqlResult<Statement> {
        let mut begin = Begin::default();
        while matches!(self.kw(), Kw::WITH | Kw::READ) {
            if self.eat_kw(Kw::WITH) {
                self.expect_seq(&[Kw::CONSISTENT, Kw::SNAPSHOT])?;
                begin.snapshot = true;
            } else {
                self.advance();
                let read_only = self.expect_any(&[Kw::ONLY, Kw::WRITE])? == Kw::ONLY;
                if begin.read_only.is_some_and(|before| before != read_only) {
                    return self.fail();
                }
                begin.read_only = Some(read_only);
            }
            if !self.eat(Tok::Comma) {
                return Ok(Statement::Begin(begin));
            }
            if !matches!(self.kw(), Kw::WITH | Kw::READ) {
                return self.fail();
            }
        }
        Ok(Statement::Begin(begin))
    }

    fn completion(&mut self) -> SqlResult<Completion> {
        let mut completion = Completion::default();
        if self.eat_kw(Kw::AND) {
            completion.chain = Some(!self.eat_kw(Kw::NO));
            self.expect_kw(Kw::CHAIN)?;
        }
        if self.eat_kw(Kw::NO) {
            self.expect_kw(Kw::RELEASE)?;
            completion.release = Some(false);
        } else if completion.chain != Some(true) && self.eat_kw(Kw::RELEASE) {
            completion.release = Some(true);
        }
        Ok(completion)
    }

    fn lock_statement(&mut self) -> SqlResult<Statement> {
        if self.eat_kw(Kw::INSTANCE) {
            self.expect_seq(&[Kw::FOR, Kw::BACKUP])?;
            return Ok(Statement::LockInstance);
        }
        self.expect_any(&[Kw::TABLES, Kw::TABLE])?;
        let tables = self.list(Self::lock_table)?;
        Ok(Statement::LockTables {
            tables,
            wait: self.ddl_wait()?,
        })
    }

    fn lock_table(&mut self) -> SqlResult<LockTable> {
        let name = self.object_name()?;
        let alias = self.table_alias()?;
        let mut lock = LockTable {
            name,
            alias,
            write: false,
            soft: false,
        };
        match self.expect_any(&[Kw::READ, Kw::WRITE, Kw::LOW_PRIORITY])? {
            Kw::READ => lock.soft = self.eat_kw(Kw::LOCAL),
            kw => {
                lock.write = true;
                lock.soft = kw == Kw::LOW_PRIORITY;
                if lock.soft {
                    self.expect_kw(Kw::WRITE)?;
                }
            }
        }
        Ok(lock)
    }

    // Prepared statements as SQL.

    pub(super) fn prepare(&mut self) -> SqlResult<Statement> {
        self.expect_kw(Kw::PREPARE)?;
        let name = self.ident()?;
        self.expect_kw(Kw::FROM)?;
        let source = match self.opt_user_var()? {
            Some(var) => PrepareSource::Var(var),
            None => PrepareSource::Text(self.string()?),
        };
        Ok(Statement::Prepare { name, source })
    }

    pub(super) fn execute(&mut self) -> SqlResult<Statement> {
        self.expect_kw(Kw::EXECUTE)?;
        let name = self.ident()?;
        let vars = if self.eat_kw(Kw::USING) {
            self.list(Self::user_var)?
        } else {
            Vec::new()
        };
        Ok(Statement::Execute { name, vars })
    }

    // EXPLAIN and DESCRIBE.

    pub(super) fn explain(&mut self) -> SqlResult<Statement> {
        self.advance();
        let statement = matches!(
            self.kw(),
            Kw::SELECT
                | Kw::INSERT
                | Kw::REPLACE
                | Kw::UPDATE
                | Kw::DELETE
                | Kw::WITH
                | Kw::TABLE
                | Kw::VALUES
                | Kw::ANALYZE
                | Kw::INTO
                | Kw::FOR
        ) || self.is(Tok::LParen)
            || (self.at(Kw::FORMAT) && self.peek().tok == Tok::Eq);
        if !statement {
            return self.describe();
        }
        let analyze = self.eat_kw(Kw::ANALYZE);
        let mut format = ExplainFormat::Default;
        if self.eat_kw(Kw::FORMAT) {
            self.expect(Tok::Eq)?;
            format = self.explain_format()?;
        }
        let into = match self.eat_kw(Kw::INTO) {
            true => Some(self.user_var()?),
            false => None,
        };
        let mut schema = None;
        let what = match self.eat_kw(Kw::FOR) {
            true if self.eat_kw(Kw::CONNECTION) => ExplainWhat::Connection(self.number()?),
            is_for => {
                if is_for {
                    self.expect_any(&[Kw::SCHEMA, Kw::DATABASE])?;
                    schema = Some(self.schema_name()?);
                }
                ExplainWhat::Statement(Box::new(self.explainable()?))
            }
        };
        Ok(Statement::Explain(Box::new(Explain {
            analyze,
            format,
            into,
            schema,
            what,
        })))
    }

    /// A statement that EXPLAIN takes.
    fn explainable(&mut self) -> SqlResult<Statement> {
        match self.kw() {
            Kw::SELECT
            | Kw::INSERT
            | Kw::REPLACE
            | Kw::UPDATE
            | Kw::DELETE
            | Kw::WITH
            | Kw::TABLE
            | Kw::VALUES => self.statement(),
            _ if self.is(Tok::LParen) => self.statement(),
            _ => self.fail(),
        }
    }

    fn explain_format(&mut self) -> SqlResult<ExplainFormat> {
        let name = self.ident_or_text()?;
        Ok(match &*name.to_ascii_uppercase() {
            "TRADITIONAL" => ExplainFormat::Traditional,
            "JSON" => ExplainFormat::Json,
            "TREE" => ExplainFormat::Tree,
            _ => {
                return Err(SqlError::new(
                    1791,
                    "HY000",
                    format!("Unknown EXPLAIN format name: '{name}'"),
                ));
            }
        })
    }

    /// `DESCRIBE table [column | 'pattern']`: SHOW COLUMNS.
    fn describe(&mut self) -> SqlResult<Statement> {
        let table = self.object_name()?;
        let filter = if self.is(Tok::Str) {
            Some(ShowFilter::Like(self.string()?))
        } else {
            self.opt_ident()?
                .map(|name| ShowFilter::Like(name.text.as_bytes().to_vec()))
        };
        let what = ShowWhat::Columns {
            full: false,
            extended: false,
            table,
        };
        Ok(Statement::Show(Box::new(Show { what, filter })))
    }

    // Server control.

    pub(super) fn kill(&mut self) -> SqlResult<Statement> {
        self.expect_kw(Kw::KILL)?;
        let query = self.eat_any(&[Kw::CONNECTION, Kw::QUERY]) == Some(Kw::QUERY);
        Ok(Statement::Kill(Kill {
            query,
            id: self.expr()?,
        }))
    }

    pub(super) fn flush(&mut self) -> SqlResult<Statement> {
        self.expect_kw(Kw::FLUSH)?;
        let local = self.eat_any(&[Kw::NO_WRITE_TO_BINLOG, Kw::LOCAL]).is_some();
        if self.eat_any(&[Kw::TABLES, Kw::TABLE]).is_some() {
            let what = vec![self.flush_tables()?];
            return Ok(Statement::Flush { local, what });
        }
        let what = self.list(Self::flush_option)?;
        Ok(Statement::Flush { local, what })
    }

    fn flush_tables(&mut self) -> SqlResult<FlushWhat> {
        let named = self.at_ident();
        let names: Vec<ObjectName> = if named {
            self.list(Self::object_name)?
        } else {
            Vec::new()
        };
        let read_lock = self.eat_kw(Kw::WITH);
        let mut for_export = false;
        if read_lock {
            self.expect_seq(&[Kw::READ, Kw::LOCK])?;
        } else if named && self.eat_kw(Kw::FOR) {
            self.expect_kw(Kw::EXPORT)?;
            for_export = true;
        }
        Ok(FlushWhat::Tables {
            names,
            read_lock,
            for_export,
        })
    }

    fn flush_option(&mut self) -> SqlResult<FlushWhat> {
        let kw = self.kw();
        let what = match kw {
            Kw::PRIVILEGES => FlushWhat::Privileges,
            Kw::LOGS => FlushWhat::Logs(""),
            Kw::STATUS => FlushWhat::Status,
            Kw::HOSTS => FlushWhat::Hosts,
            Kw::USER_RESOURCES => FlushWhat::UserResources,
            Kw::OPTIMIZER_COSTS => FlushWhat::OptimizerCosts,
            Kw::BINARY | Kw::ENGINE | Kw::ERROR | Kw::GENERAL | Kw::RELAY | Kw::SLOW => {
                self.advance();
                self.expect_kw(Kw::LOGS)?;
                if kw == Kw::RELAY {
                    return Ok(FlushWhat::RelayLogs(self.channel()?));
                }
                return Ok(FlushWhat::Logs(kw.text()));
            }
            _ => return self.fail(),
        };
        self.advance();
        Ok(what)
    }

    /// ANALYZE, CHECK, CHECKSUM, OPTIMIZE, REPAIR TABLE.
    pub(super) fn maintain(&mut self, kw: Kw) -> SqlResult<Statement> {
        self.advance();
        let kind = match kw {
            Kw::ANALYZE => MaintainKind::Analyze,
            Kw::CHECK => MaintainKind::Check,
            Kw::CHECKSUM => MaintainKind::Checksum,
            Kw::OPTIMIZE => MaintainKind::Optimize,
            _ => MaintainKind::Repair,
        };
        let local = !matches!(kw, Kw::CHECK | Kw::CHECKSUM)
            && self.eat_any(&[Kw::NO_WRITE_TO_BINLOG, Kw::LOCAL]).is_some();
        self.expect_any(&[Kw::TABLE, Kw::TABLES])?;
        let tables = self.list(Self::object_name)?;
        let mut wait = self.ddl_wait()?;
        let mut histogram = None;
        if kind == MaintainKind::Analyze && matches!(self.kw(), Kw::UPDATE | Kw::DROP) {
            histogram = Some(self.histogram()?);
        }
        let options = self.maintenance_options(kind)?;
        if wait == LockWait::Default {
            wait = self.ddl_wait()?;
        }
        Ok(Statement::Maintain(Maintain {
            kind,
            local,
            tables,
            partitions: None,
            options,
            wait,
            histogram,
        }))
    }

    /// QUICK and its kin.
    pub(super) fn maintenance_options(&mut self, kind: MaintainKind) -> SqlResult<Vec<Box<str>>> {
        let mut options: Vec<Box<str>> = Vec::new();
        loop {
            match self.kw() {
                Kw::FOR if kind == MaintainKind::Check => {
                    self.advance();
                    self.expect_kw(Kw::UPGRADE)?;
                    options.push("FOR UPGRADE".into());
                }
                kw @ (Kw::QUICK
                | Kw::EXTENDED
                | Kw::FAST
                | Kw::MEDIUM
                | Kw::CHANGED
                | Kw::USE_FRM)
                    if !matches!(kind, MaintainKind::Analyze | MaintainKind::Optimize) =>
                {
                    self.advance();
                    options.push(kw.text().into());
                }
                _ => return Ok(options),
            }
        }
    }

    fn histogram(&mut self) -> SqlResult<Histogram> {
        let drop = self.advance().tok == Tok::Word(Kw::DROP);
        self.expect_seq(&[Kw::HISTOGRAM, Kw::ON])?;
        let columns = self.list(Self::ident)?;
        let mut buckets = None;
        if !drop && self.eat_kw(Kw::WITH) {
            buckets = Some(self.number()?);
            self.expect_kw(Kw::BUCKETS)?;
        }
        if !drop && self.kw() == Kw::USING {
            return Err(SqlError::not_supported("UPDATE HISTOGRAM with USING DATA"));
        }
        let mut auto_update = false;
        if !drop && let Some(kw) = self.eat_any(&[Kw::AUTO, Kw::MANUAL]) {
            self.expect_kw(Kw::UPDATE)?;
            auto_update = kw == Kw::AUTO;
        }
        Ok(Histogram {
            drop,
            columns,
            buckets,
            auto_update,
        })
    }
}

fn string(text: &str) -> Expr {
    Expr::Literal(Literal::Str {
        bytes: text.as_bytes().to_vec(),
        charset: None,
    })
}
