//! Transactions, savepoints and locks of tables.
//!
//! Neighbours: `statement` dispatches here; `xa` has what follows the word XA, `set` SET TRANSACTION.
//! **Invariant**: what is said twice and contradicts itself is refused.

use esker_types::SqlResult;

use super::ast::{Begin, Completion, LockTable, Statement};
use super::keyword::Kw;
use super::lexer::Tok;
use super::parser::Parser;

impl Parser<'_> {
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
}
