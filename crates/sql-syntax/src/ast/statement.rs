//! The statement enum.
//!
//! Neighbours: every part of the tree; `session` dispatches on it.
//! **Invariants**: a statement that MySQL 8.4 has and Esker has not is [`Statement::Unsupported`] with
//! the name the user sees in error 1235.

use super::*;

/// A statement.
#[derive(Debug, Clone, PartialEq)]
pub enum Statement {
    /// Only comments: answered OK. (Not even a comment is error 1065.)
    Empty,
    /// SELECT, WITH, VALUES, TABLE, parenthesised queries.
    Query(Box<Query>),
    /// INSERT, REPLACE.
    Insert(Box<Insert>),
    /// UPDATE.
    Update(Box<Update>),
    /// DELETE.
    Delete(Box<Delete>),
    /// LOAD DATA.
    LoadData(Box<LoadData>),
    /// DO.
    Do(Vec<Expr>),
    /// CALL.
    Call {
        /// Procedure.
        name: ObjectName,
        /// Arguments.
        args: Vec<Expr>,
    },

    /// CREATE DATABASE.
    CreateDatabase {
        /// OR REPLACE (MariaDB).
        or_replace: bool,
        /// IF NOT EXISTS.
        if_not_exists: bool,
        /// Name.
        name: Ident,
        /// Options.
        options: Vec<DatabaseOption>,
    },
    /// ALTER DATABASE; without a name: the current one.
    AlterDatabase {
        /// Name.
        name: Option<Ident>,
        /// Options.
        options: Vec<DatabaseOption>,
    },
    /// DROP DATABASE.
    DropDatabase {
        /// IF EXISTS.
        if_exists: bool,
        /// Name.
        name: Ident,
    },
    /// CREATE TABLE.
    CreateTable(Box<CreateTable>),
    /// ALTER TABLE.
    AlterTable(Box<AlterTable>),
    /// DROP TABLE.
    DropTable(DropTables),
    /// TRUNCATE TABLE.
    Truncate {
        /// Table.
        name: ObjectName,
        /// NOWAIT, WAIT n.
        wait: LockWait,
    },
    /// RENAME TABLE.
    RenameTable(RenameTables),
    /// CREATE INDEX.
    CreateIndex(Box<CreateIndex>),
    /// DROP INDEX.
    DropIndex(DropIndex),
    /// CREATE VIEW, ALTER VIEW.
    CreateView(Box<CreateView>),
    /// DROP VIEW.
    DropView(DropTables),
    /// CREATE PROCEDURE, CREATE FUNCTION.
    CreateRoutine(Box<CreateRoutine>),
    /// ALTER PROCEDURE, ALTER FUNCTION.
    AlterRoutine(Box<AlterRoutine>),
    /// CREATE TRIGGER.
    CreateTrigger(Box<CreateTrigger>),
    /// CREATE EVENT.
    CreateEvent(Box<CreateEvent>),
    /// ALTER EVENT.
    AlterEvent(Box<AlterEvent>),
    /// DROP PROCEDURE, FUNCTION, TRIGGER, EVENT.
    DropProgram(DropProgram),
    /// SIGNAL, RESIGNAL.
    Signal(Box<Signal>),
    /// GET DIAGNOSTICS.
    GetDiagnostics(Box<GetDiagnostics>),

    /// START TRANSACTION, BEGIN.
    Begin(Begin),
    /// COMMIT.
    Commit(Completion),
    /// ROLLBACK.
    Rollback(Completion),
    /// SAVEPOINT.
    Savepoint(Ident),
    /// ROLLBACK TO SAVEPOINT.
    RollbackTo(Ident),
    /// RELEASE SAVEPOINT.
    ReleaseSavepoint(Ident),
    /// XA.
    Xa(Xa),
    /// HANDLER.
    Handler(Box<HandlerStatement>),
    /// LOCK TABLES.
    LockTables {
        /// Tables.
        tables: Vec<LockTable>,
        /// NOWAIT, WAIT n.
        wait: LockWait,
    },
    /// UNLOCK TABLES.
    UnlockTables,
    /// LOCK INSTANCE FOR BACKUP.
    LockInstance,
    /// UNLOCK INSTANCE.
    UnlockInstance,
    /// BACKUP SERVER.
    BackupServer(BackupServer),

    /// SET of variables.
    Set(Vec<SetItem>),
    /// SET TRANSACTION.
    SetTransaction(SetTransaction),
    /// SET PASSWORD.
    SetPassword(SetPassword),
    /// SET ROLE, SET DEFAULT ROLE.
    SetRole(SetRole),
    /// PREPARE.
    Prepare {
        /// Name.
        name: Ident,
        /// Text.
        source: PrepareSource,
    },
    /// EXECUTE.
    Execute {
        /// Name.
        name: Ident,
        /// USING: user variables, lower-cased.
        vars: Vec<Box<str>>,
    },
    /// DEALLOCATE PREPARE, DROP PREPARE.
    Deallocate(Ident),
    /// USE.
    Use(Ident),
    /// SHOW, DESCRIBE.
    Show(Box<Show>),
    /// EXPLAIN.
    Explain(Box<Explain>),
    /// HELP.
    Help(Vec<u8>),
    /// KILL.
    Kill(Kill),
    /// FLUSH.
    Flush {
        /// NO_WRITE_TO_BINLOG, LOCAL.
        local: bool,
        /// What.
        what: Vec<FlushWhat>,
    },
    /// ANALYZE, CHECK, CHECKSUM, OPTIMIZE, REPAIR TABLE.
    Maintain(Maintain),
    /// SHUTDOWN.
    Shutdown,
    /// RESTART.
    Restart,
    /// DROP SERVER.
    DropServer {
        /// IF EXISTS.
        if_exists: bool,
        /// Its name.
        name: Box<str>,
    },
    /// INSTALL and UNINSTALL COMPONENT.
    Components {
        /// INSTALL.
        install: bool,
        /// What to load, as it is called.
        urns: Vec<Box<str>>,
    },
    /// ALTER INSTANCE.
    AlterInstance(AlterInstance),
    /// RESET PERSIST [[IF EXISTS] name].
    ResetPersist {
        /// IF EXISTS.
        if_exists: bool,
        /// Variable; `None` is all.
        name: Option<Box<str>>,
    },

    /// CREATE, ALTER and DROP TABLESPACE.
    Tablespace(Box<TablespaceStatement>),

    /// CREATE USER.
    CreateUser(Box<UserStatement>),
    /// ALTER USER.
    AlterUser(Box<UserStatement>),
    /// DROP USER.
    DropUser {
        /// IF EXISTS.
        if_exists: bool,
        /// Accounts.
        users: Vec<Account>,
    },
    /// RENAME USER.
    RenameUser(Vec<(Account, Account)>),
    /// CREATE ROLE.
    CreateRole {
        /// IF NOT EXISTS.
        if_not_exists: bool,
        /// Roles.
        roles: Vec<Account>,
    },
    /// DROP ROLE.
    DropRole {
        /// IF EXISTS.
        if_exists: bool,
        /// Roles.
        roles: Vec<Account>,
    },
    /// GRANT.
    Grant(Box<Grant>),
    /// REVOKE.
    Revoke(Box<Grant>, Lenience),
    /// Replication.
    Replication(Box<Replication>),

    /// Known to MySQL, not to Esker: the name for error 1235.
    Unsupported(&'static str),
}

impl Statement {
    /// What a statement that takes metadata locks for itself says about waiting for them; None: it is none of those.
    pub fn lock_wait(&self) -> Option<LockWait> {
        Some(match self {
            Statement::AlterTable(alter) => alter.options.wait,
            Statement::CreateIndex(create) => create.options.wait,
            Statement::DropIndex(drop) => drop.options.wait,
            Statement::DropTable(drop) | Statement::DropView(drop) => drop.wait,
            Statement::RenameTable(rename) => rename.wait,
            Statement::Maintain(maintain) => maintain.wait,
            Statement::Truncate { wait, .. } | Statement::LockTables { wait, .. } => *wait,
            Statement::CreateDatabase { .. }
            | Statement::AlterDatabase { .. }
            | Statement::DropDatabase { .. }
            | Statement::CreateTable(_)
            | Statement::CreateView(_)
            | Statement::CreateRoutine(_)
            | Statement::AlterRoutine(_)
            | Statement::CreateTrigger(_)
            | Statement::CreateEvent(_)
            | Statement::AlterEvent(_)
            | Statement::DropProgram(_)
            | Statement::Tablespace(_)
            | Statement::Flush { .. } => LockWait::Default,
            _ => return None,
        })
    }

    /// Where the statement keeps its clause about waiting, if it may have one.
    pub(crate) fn lock_wait_mut(&mut self) -> Option<&mut LockWait> {
        Some(match self {
            Statement::AlterTable(alter) => &mut alter.options.wait,
            Statement::CreateIndex(create) => &mut create.options.wait,
            Statement::DropIndex(drop) => &mut drop.options.wait,
            Statement::DropTable(drop) | Statement::DropView(drop) => &mut drop.wait,
            Statement::RenameTable(rename) => &mut rename.wait,
            Statement::Maintain(maintain) => &mut maintain.wait,
            Statement::Truncate { wait, .. } | Statement::LockTables { wait, .. } => wait,
            _ => return None,
        })
    }
}

/// DROP of a stored program.
#[derive(Debug, Clone, PartialEq)]
pub struct DropProgram {
    /// `PROCEDURE`, `FUNCTION`, `TRIGGER` or `EVENT`.
    pub kind: &'static str,
    /// IF EXISTS.
    pub if_exists: bool,
    /// Name.
    pub name: ObjectName,
}
