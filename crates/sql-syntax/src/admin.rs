//! Server control: PREPARE, EXECUTE, KILL, FLUSH, table maintenance.
//!
//! Neighbours: `statement` dispatches here; `show`, `account`, `replication`, `set` have the other administrative
//! statements.
//! **Invariant**: names and options are kept as they are written; `session` decides what they mean.

use esker_types::{SqlError, SqlResult};

use super::ast::{
    FlushWhat, Histogram, Kill, LockWait, Maintain, MaintainKind, ObjectName, PrepareSource,
    Statement,
};
use super::keyword::Kw;
use super::lexer::Tok;
use super::parser::Parser;

impl Parser<'_> {
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
