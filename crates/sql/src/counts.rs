//! What a session has done, in numbers: Com_…, Questions, Bytes_… and their kin of SHOW STATUS.
//!
//! Neighbours: `run` counts statements, the server counts bytes and commands of the protocol; the
//! registry adds up all sessions, living and gone.
//! **Invariants**: one session writes its counters, anybody may read them, so counting is a plain load
//! and store on a cache line that nobody else writes.

use std::sync::atomic::{AtomicU64, Ordering};

use esker_sql_syntax::ast::{
    Grant, HandlerStatement, InsertSource, Maintain, MaintainKind, Replication, RoutineKind,
    ShowWhat, Statement, Statement as S, TableRef, Xa,
};

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident = $shown:literal,)*) => {
        /// Something that is counted.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[repr(usize)]
        #[expect(missing_docs, reason = "each is the status variable of that name")]
        pub enum Counter { $($name,)* }

        /// Names of the status variables, in the order of [`Counter`].
        pub(crate) static NAMES: &[&str] = &[$($shown,)*];
    };
}

counters! {
    BytesReceived = "Bytes_received",
    BytesSent = "Bytes_sent",
    ComAlterDb = "Com_alter_db",
    ComAlterTable = "Com_alter_table",
    ComAlterTablespace = "Com_alter_tablespace",
    ComAlterUser = "Com_alter_user",
    ComAnalyze = "Com_analyze",
    ComBegin = "Com_begin",
    ComChangeDb = "Com_change_db",
    ComChangeReplFilter = "Com_change_repl_filter",
    ComChangeReplicationSource = "Com_change_replication_source",
    ComCheck = "Com_check",
    ComChecksum = "Com_checksum",
    ComCommit = "Com_commit",
    ComCreateDb = "Com_create_db",
    ComCreateIndex = "Com_create_index",
    ComCreateRole = "Com_create_role",
    ComCreateTable = "Com_create_table",
    ComCreateTrigger = "Com_create_trigger",
    ComCreateEvent = "Com_create_event",
    ComAlterEvent = "Com_alter_event",
    ComDropEvent = "Com_drop_event",
    ComShowEvents = "Com_show_events",
    ComShowCreateEvent = "Com_show_create_event",
    ComCreateUser = "Com_create_user",
    ComCreateView = "Com_create_view",
    ComCreateProcedure = "Com_create_procedure",
    ComAlterProcedure = "Com_alter_procedure",
    ComDropProcedure = "Com_drop_procedure",
    ComCreateFunction = "Com_create_function",
    ComAlterFunction = "Com_alter_function",
    ComDropFunction = "Com_drop_function",
    ComCallProcedure = "Com_call_procedure",
    ComSignal = "Com_signal",
    ComResignal = "Com_resignal",
    ComGetDiagnostics = "Com_get_diagnostics",
    ComDeallocSql = "Com_dealloc_sql",
    ComDelete = "Com_delete",
    ComDeleteMulti = "Com_delete_multi",
    ComDo = "Com_do",
    ComDropDb = "Com_drop_db",
    ComDropIndex = "Com_drop_index",
    ComDropRole = "Com_drop_role",
    ComDropServer = "Com_drop_server",
    ComDropTable = "Com_drop_table",
    ComDropTrigger = "Com_drop_trigger",
    ComDropUser = "Com_drop_user",
    ComDropView = "Com_drop_view",
    ComEmptyQuery = "Com_empty_query",
    ComExecuteSql = "Com_execute_sql",
    ComExplainOther = "Com_explain_other",
    ComFlush = "Com_flush",
    ComAlterInstance = "Com_alter_instance",
    ComGroupReplicationStart = "Com_group_replication_start",
    ComGroupReplicationStop = "Com_group_replication_stop",
    ComGrant = "Com_grant",
    ComGrantRoles = "Com_grant_roles",
    HandlerCommit = "Handler_commit",
    HandlerDelete = "Handler_delete",
    HandlerReadFirst = "Handler_read_first",
    HandlerReadKey = "Handler_read_key",
    HandlerReadLast = "Handler_read_last",
    HandlerReadNext = "Handler_read_next",
    HandlerReadPrev = "Handler_read_prev",
    HandlerReadRndNext = "Handler_read_rnd_next",
    HandlerRollback = "Handler_rollback",
    HandlerSavepoint = "Handler_savepoint",
    HandlerSavepointRollback = "Handler_savepoint_rollback",
    HandlerUpdate = "Handler_update",
    HandlerWrite = "Handler_write",
    ComHaClose = "Com_ha_close",
    ComHelp = "Com_help",
    ComHaOpen = "Com_ha_open",
    ComHaRead = "Com_ha_read",
    ComInsert = "Com_insert",
    ComInsertSelect = "Com_insert_select",
    ComInstallComponent = "Com_install_component",
    ComKill = "Com_kill",
    ComLoad = "Com_load",
    ComLockInstance = "Com_lock_instance",
    ComLockTables = "Com_lock_tables",
    ComOptimize = "Com_optimize",
    ComBinlog = "Com_binlog",
    ComPrepareSql = "Com_prepare_sql",
    ComPurge = "Com_purge",
    ComPurgeBeforeDate = "Com_purge_before_date",
    ComReleaseSavepoint = "Com_release_savepoint",
    ComRenameTable = "Com_rename_table",
    ComRenameUser = "Com_rename_user",
    ComRepair = "Com_repair",
    ComReplace = "Com_replace",
    ComReplaceSelect = "Com_replace_select",
    ComReplicaStart = "Com_replica_start",
    ComReplicaStop = "Com_replica_stop",
    ComReset = "Com_reset",
    ComRevoke = "Com_revoke",
    ComRollback = "Com_rollback",
    ComRollbackToSavepoint = "Com_rollback_to_savepoint",
    ComSavepoint = "Com_savepoint",
    ComRestart = "Com_restart",
    ComRevokeAll = "Com_revoke_all",
    ComRevokeRoles = "Com_revoke_roles",
    ComSelect = "Com_select",
    ComSetOption = "Com_set_option",
    ComSetPassword = "Com_set_password",
    ComSetRole = "Com_set_role",
    ComShowBinaryLogStatus = "Com_show_binary_log_status",
    ComShowBinlogEvents = "Com_show_binlog_events",
    ComShowBinlogs = "Com_show_binlogs",
    ComShowCharsets = "Com_show_charsets",
    ComShowCollations = "Com_show_collations",
    ComShowCreateDb = "Com_show_create_db",
    ComShowCreateFunc = "Com_show_create_func",
    ComShowCreateProc = "Com_show_create_proc",
    ComShowCreateTable = "Com_show_create_table",
    ComShowCreateTrigger = "Com_show_create_trigger",
    ComShowCreateUser = "Com_show_create_user",
    ComShowDatabases = "Com_show_databases",
    ComShowEngineLogs = "Com_show_engine_logs",
    ComShowEngineMutex = "Com_show_engine_mutex",
    ComShowEngineStatus = "Com_show_engine_status",
    ComShowErrors = "Com_show_errors",
    ComShowFields = "Com_show_fields",
    ComShowFunctionStatus = "Com_show_function_status",
    ComShowGrants = "Com_show_grants",
    ComShowKeys = "Com_show_keys",
    ComShowOpenTables = "Com_show_open_tables",
    ComShowOther = "Esker_com_show_other",
    ComShowPlugins = "Com_show_plugins",
    ComShowPrivileges = "Com_show_privileges",
    ComShowProcedureStatus = "Com_show_procedure_status",
    ComShowProcesslist = "Com_show_processlist",
    ComShowProfile = "Com_show_profile",
    ComShowProfiles = "Com_show_profiles",
    ComShowRelaylogEvents = "Com_show_relaylog_events",
    ComShowReplicas = "Com_show_replicas",
    ComShowReplicaStatus = "Com_show_replica_status",
    ComShowStatus = "Com_show_status",
    ComShowStorageEngines = "Com_show_storage_engines",
    ComShowTableStatus = "Com_show_table_status",
    ComShowTables = "Com_show_tables",
    ComShowTriggers = "Com_show_triggers",
    ComShowVariables = "Com_show_variables",
    ComShowWarnings = "Com_show_warnings",
    ComShutdown = "Com_shutdown",
    ComStmtClose = "Com_stmt_close",
    ComStmtExecute = "Com_stmt_execute",
    ComStmtFetch = "Com_stmt_fetch",
    ComStmtPrepare = "Com_stmt_prepare",
    ComStmtReset = "Com_stmt_reset",
    ComStmtSendLongData = "Com_stmt_send_long_data",
    ComTruncate = "Com_truncate",
    ComUninstallComponent = "Com_uninstall_component",
    ComUnlockInstance = "Com_unlock_instance",
    ComUnlockTables = "Com_unlock_tables",
    ComUpdate = "Com_update",
    ComUpdateMulti = "Com_update_multi",
    ComXaCommit = "Com_xa_commit",
    ComXaEnd = "Com_xa_end",
    ComXaPrepare = "Com_xa_prepare",
    ComXaRecover = "Com_xa_recover",
    ComXaRollback = "Com_xa_rollback",
    ComXaStart = "Com_xa_start",
    CreatedTmpDiskTables = "Created_tmp_disk_tables",
    CreatedTmpFiles = "Created_tmp_files",
    CreatedTmpTables = "Created_tmp_tables",
    EskerComError = "Esker_com_error",
    EskerComOther = "Esker_com_other",
    EskerSelectByKey = "Esker_select_by_key",
    EskerSelectByPlan = "Esker_select_by_plan",
    EskerSelectPlannedColumns = "Esker_select_planned_columns",
    EskerSelectPlannedConditions = "Esker_select_planned_conditions",
    EskerSelectPlannedOrder = "Esker_select_planned_order",
    EskerSelectPlannedShape = "Esker_select_planned_shape",
    EskerSelectPlannedValues = "Esker_select_planned_values",
    Queries = "Queries",
    Questions = "Questions",
    SelectFullJoin = "Select_full_join",
    SelectFullRangeJoin = "Select_full_range_join",
    SelectRange = "Select_range",
    SelectScan = "Select_scan",
    SortMergePasses = "Sort_merge_passes",
    SortRange = "Sort_range",
    SortRows = "Sort_rows",
    SortScan = "Sort_scan",
    SlowQueries = "Slow_queries",
}

/// How many counters there are.
const COUNT: usize = Counter::SlowQueries as usize + 1;

/// A set of counters.
pub(crate) struct Counts([AtomicU64; COUNT]);

impl Default for Counts {
    fn default() -> Self {
        Self(std::array::from_fn(|_| AtomicU64::new(0)))
    }
}

impl Counts {
    /// Counts; for the one thread that writes this set.
    pub(crate) fn add(&self, counter: Counter, n: u64) {
        let slot = &self.0[counter as usize];
        slot.store(slot.load(Ordering::Relaxed) + n, Ordering::Relaxed);
    }

    /// What one of them has come to.
    pub(crate) fn get(&self, counter: Counter) -> u64 {
        self.0[counter as usize].load(Ordering::Relaxed)
    }

    /// Takes all of `other`'s counts; whoever calls is alone in writing either.
    pub(crate) fn absorb(&self, other: &Self) {
        for (mine, theirs) in self.0.iter().zip(&other.0) {
            let n = theirs.swap(0, Ordering::Relaxed);
            mine.fetch_add(n, Ordering::Relaxed);
        }
    }

    /// Adds the values to `sums`.
    pub(crate) fn add_to(&self, sums: &mut [u64]) {
        for (sum, value) in sums.iter_mut().zip(&self.0) {
            *sum += value.load(Ordering::Relaxed);
        }
    }

    /// Room for sums.
    pub(crate) fn zeros() -> Vec<u64> {
        vec![0; COUNT]
    }
}

/// The command of the protocol that a statement does the same as, which is counted beside it.
pub(crate) fn protocol_command(command: Counter) -> Option<Counter> {
    match command {
        Counter::ComPrepareSql => Some(Counter::ComStmtPrepare),
        Counter::ComExecuteSql => Some(Counter::ComStmtExecute),
        Counter::ComDeallocSql => Some(Counter::ComStmtClose),
        _ => None,
    }
}

/// Which Com_ counter a statement belongs to.
pub(crate) fn command_of(statement: &Statement) -> Counter {
    use Counter as C;
    match statement {
        S::Empty => C::ComEmptyQuery,
        S::Query(_) => C::ComSelect,
        S::Insert(i) => match (i.replace, &i.source) {
            (false, InsertSource::Values(_)) => C::ComInsert,
            (false, InsertSource::Query(_)) => C::ComInsertSelect,
            (true, InsertSource::Values(_)) => C::ComReplace,
            (true, InsertSource::Query(_)) => C::ComReplaceSelect,
        },
        S::Update(u) if u.tables.len() == 1 && is_one(&u.tables[0]) => C::ComUpdate,
        S::Update(_) => C::ComUpdateMulti,
        S::Delete(d) if d.targets.is_empty() => C::ComDelete,
        S::Delete(_) => C::ComDeleteMulti,
        S::Do(_) => C::ComDo,
        S::Begin(_) => C::ComBegin,
        S::Commit(_) => C::ComCommit,
        S::Rollback(_) => C::ComRollback,
        S::Savepoint(_) => C::ComSavepoint,
        S::RollbackTo(_) => C::ComRollbackToSavepoint,
        S::ReleaseSavepoint(_) => C::ComReleaseSavepoint,
        S::LockTables { .. } => C::ComLockTables,
        S::UnlockTables => C::ComUnlockTables,
        S::LockInstance => C::ComLockInstance,
        S::UnlockInstance => C::ComUnlockInstance,
        S::Set(_) | S::SetTransaction(_) => C::ComSetOption,
        S::SetPassword(_) => C::ComSetPassword,
        S::Prepare { .. } => C::ComPrepareSql,
        S::Execute { .. } => C::ComExecuteSql,
        S::Deallocate(_) => C::ComDeallocSql,
        S::Use(_) => C::ComChangeDb,
        S::Show(show) => command_of_show(&show.what),
        S::Explain(_) => C::ComExplainOther,
        S::Kill(_) => C::ComKill,
        S::Flush { .. } => C::ComFlush,
        S::Maintain(maintain) => command_of_maintenance(maintain),
        S::Call { .. } => C::ComCallProcedure,
        S::Signal(signal) if signal.resignal => C::ComResignal,
        S::Signal(_) => C::ComSignal,
        S::GetDiagnostics(_) => C::ComGetDiagnostics,
        S::LoadData(_) => C::ComLoad,
        S::Shutdown => C::ComShutdown,
        S::Restart => C::ComRestart,
        S::DropServer { .. } => C::ComDropServer,
        S::Components { install: true, .. } => C::ComInstallComponent,
        S::Components { install: false, .. } => C::ComUninstallComponent,
        S::Help(_) => C::ComHelp,
        S::AlterInstance(_) => C::ComAlterInstance,
        S::Replication(statement) => command_of_replication(statement),
        S::Handler(handler) => match **handler {
            HandlerStatement::Open { .. } => C::ComHaOpen,
            HandlerStatement::Read(_) => C::ComHaRead,
            HandlerStatement::Close(_) => C::ComHaClose,
        },
        S::Xa(xa) => match xa {
            Xa::Start { .. } => C::ComXaStart,
            Xa::End { .. } => C::ComXaEnd,
            Xa::Prepare(_) => C::ComXaPrepare,
            Xa::Commit { .. } => C::ComXaCommit,
            Xa::Rollback(_) => C::ComXaRollback,
            Xa::Recover { .. } => C::ComXaRecover,
        },
        other => command_of_definition(other),
    }
}

/// The same for what makes, changes and drops databases, tables and programs.
fn command_of_definition(statement: &Statement) -> Counter {
    use Counter as C;
    match statement {
        S::CreateDatabase { .. } => C::ComCreateDb,
        S::AlterDatabase { .. } => C::ComAlterDb,
        S::DropDatabase { .. } => C::ComDropDb,
        S::CreateTable(_) => C::ComCreateTable,
        S::AlterTable(_) => C::ComAlterTable,
        S::DropTable(_) => C::ComDropTable,
        S::Truncate { .. } => C::ComTruncate,
        S::RenameTable(_) => C::ComRenameTable,
        S::CreateIndex(_) => C::ComCreateIndex,
        S::DropIndex(_) => C::ComDropIndex,
        S::Tablespace(_) => C::ComAlterTablespace,
        S::CreateView(_) => C::ComCreateView,
        S::CreateRoutine(create) => match create.kind {
            RoutineKind::Procedure => C::ComCreateProcedure,
            RoutineKind::Function => C::ComCreateFunction,
        },
        S::AlterRoutine(alter) => match alter.kind {
            RoutineKind::Procedure => C::ComAlterProcedure,
            RoutineKind::Function => C::ComAlterFunction,
        },
        S::DropProgram(drop) if drop.kind == "PROCEDURE" => C::ComDropProcedure,
        S::DropProgram(drop) if drop.kind == "FUNCTION" => C::ComDropFunction,
        S::CreateTrigger(_) => C::ComCreateTrigger,
        S::CreateEvent(_) => C::ComCreateEvent,
        S::AlterEvent(_) => C::ComAlterEvent,
        S::DropProgram(drop) if drop.kind == "EVENT" => C::ComDropEvent,
        S::DropProgram(drop) if drop.kind == "TRIGGER" => C::ComDropTrigger,
        S::DropView(_) => C::ComDropView,
        other => command_of_accounts(other),
    }
}

/// The same for users, roles and privileges.
fn command_of_accounts(statement: &Statement) -> Counter {
    use Counter as C;
    match statement {
        S::CreateUser(_) => C::ComCreateUser,
        S::AlterUser(_) => C::ComAlterUser,
        S::DropUser { .. } => C::ComDropUser,
        S::RenameUser(_) => C::ComRenameUser,
        S::CreateRole { .. } => C::ComCreateRole,
        S::DropRole { .. } => C::ComDropRole,
        S::SetRole(_) => C::ComSetRole,
        S::Grant(grant) => match **grant {
            Grant::Roles { .. } => C::ComGrantRoles,
            _ => C::ComGrant,
        },
        S::Revoke(grant, _) => match **grant {
            Grant::Roles { .. } => C::ComRevokeRoles,
            Grant::All { .. } => C::ComRevokeAll,
            _ => C::ComRevoke,
        },
        _ => C::EskerComOther,
    }
}

fn command_of_maintenance(maintain: &Maintain) -> Counter {
    use Counter as C;
    match maintain.kind {
        _ if maintain.partitions.is_some() => C::ComAlterTable,
        MaintainKind::Analyze => C::ComAnalyze,
        MaintainKind::Check => C::ComCheck,
        MaintainKind::Checksum => C::ComChecksum,
        MaintainKind::Optimize => C::ComOptimize,
        MaintainKind::Repair => C::ComRepair,
    }
}

fn command_of_replication(statement: &Replication) -> Counter {
    use Counter as C;
    match statement {
        Replication::ChangeSource { .. } => C::ComChangeReplicationSource,
        Replication::ChangeFilter { .. } => C::ComChangeReplFilter,
        Replication::Start(_) => C::ComReplicaStart,
        Replication::Stop(_) => C::ComReplicaStop,
        Replication::Group { start: true } => C::ComGroupReplicationStart,
        Replication::Group { start: false } => C::ComGroupReplicationStop,
        Replication::ResetReplica { .. }
        | Replication::ResetBinlog { .. }
        | Replication::ResetSeveral(_) => C::ComReset,
        Replication::PurgeTo(_) => C::ComPurge,
        Replication::PurgeBefore(_) => C::ComPurgeBeforeDate,
        Replication::Binlog(_) => C::ComBinlog,
    }
}

/// Does the statement count against MAX_UPDATES_PER_HOUR?
pub(crate) fn changes_data(statement: &Statement) -> bool {
    matches!(
        statement,
        S::Insert(_)
            | S::Update(_)
            | S::Delete(_)
            | S::LoadData(_)
            | S::CreateDatabase { .. }
            | S::AlterDatabase { .. }
            | S::DropDatabase { .. }
            | S::CreateTable(_)
            | S::AlterTable(_)
            | S::DropTable(_)
            | S::Truncate { .. }
            | S::RenameTable(_)
            | S::CreateIndex(_)
            | S::DropIndex(_)
            | S::CreateView(_)
            | S::CreateRoutine(_)
            | S::AlterRoutine(_)
            | S::CreateTrigger(_)
            | S::CreateEvent(_)
            | S::AlterEvent(_)
            | S::DropProgram(_)
            | S::Tablespace(_)
            | S::DropView(_)
            | S::Maintain(_)
            | S::CreateUser(_)
            | S::AlterUser(_)
            | S::DropUser { .. }
            | S::RenameUser(_)
            | S::SetPassword(_)
            | S::Grant(_)
            | S::Revoke(..)
    )
}

/// A single table, not a join?
fn is_one(table: &TableRef) -> bool {
    matches!(table, TableRef::Table(_))
}

fn command_of_show(what: &ShowWhat) -> Counter {
    use Counter as C;
    match what {
        ShowWhat::Databases => C::ComShowDatabases,
        ShowWhat::Tables { .. } => C::ComShowTables,
        ShowWhat::TableStatus { .. } => C::ComShowTableStatus,
        ShowWhat::Columns { .. } => C::ComShowFields,
        ShowWhat::Index { .. } => C::ComShowKeys,
        ShowWhat::OpenTables { .. } => C::ComShowOpenTables,
        ShowWhat::CreateTable(_) | ShowWhat::CreateView(_) => C::ComShowCreateTable,
        ShowWhat::CreateDatabase { .. } => C::ComShowCreateDb,
        ShowWhat::CreateRoutine(kind, _) => match *kind {
            "PROCEDURE" => C::ComShowCreateProc,
            "FUNCTION" => C::ComShowCreateFunc,
            "TRIGGER" => C::ComShowCreateTrigger,
            _ => C::ComShowCreateEvent,
        },
        ShowWhat::CreateUser(_) => C::ComShowCreateUser,
        ShowWhat::Variables(_) => C::ComShowVariables,
        ShowWhat::Status(_) => C::ComShowStatus,
        ShowWhat::Warnings { .. } => C::ComShowWarnings,
        ShowWhat::Errors { .. } => C::ComShowErrors,
        ShowWhat::Processlist { .. } => C::ComShowProcesslist,
        ShowWhat::Grants { .. } => C::ComShowGrants,
        ShowWhat::ReplicaStatus { .. } => C::ComShowReplicaStatus,
        ShowWhat::BinlogEvents { relay: true, .. } => C::ComShowRelaylogEvents,
        ShowWhat::Events { .. } => C::ComShowEvents,
        ShowWhat::Triggers { .. } => C::ComShowTriggers,
        ShowWhat::RoutineStatus("PROCEDURE") => C::ComShowProcedureStatus,
        ShowWhat::RoutineStatus("FUNCTION") => C::ComShowFunctionStatus,
        ShowWhat::BinlogEvents { .. } => C::ComShowBinlogEvents,
        ShowWhat::BinlogStatus => C::ComShowBinaryLogStatus,
        ShowWhat::BinaryLogs => C::ComShowBinlogs,
        ShowWhat::Replicas { .. } => C::ComShowReplicas,
        other => command_of_show_server(other),
    }
}

/// The same for what a server has beside databases.
fn command_of_show_server(what: &ShowWhat) -> Counter {
    use Counter as C;
    match what {
        ShowWhat::CharacterSet => C::ComShowCharsets,
        ShowWhat::Collation => C::ComShowCollations,
        ShowWhat::Engines => C::ComShowStorageEngines,
        ShowWhat::Engine { what: "STATUS", .. } => C::ComShowEngineStatus,
        ShowWhat::Engine { what: "MUTEX", .. } => C::ComShowEngineMutex,
        ShowWhat::Engine { .. } => C::ComShowEngineLogs,
        ShowWhat::Plugins => C::ComShowPlugins,
        ShowWhat::Privileges => C::ComShowPrivileges,
        ShowWhat::Profile { .. } => C::ComShowProfile,
        ShowWhat::Profiles => C::ComShowProfiles,
        _ => C::ComShowOther,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use esker_sql_syntax::{self as parse, ParseOptions};

    #[test]
    fn names_belong_to_their_counters() {
        assert_eq!(NAMES.len(), COUNT);
        assert_eq!(NAMES[Counter::ComSelect as usize], "Com_select");
        assert_eq!(NAMES[Counter::SlowQueries as usize], "Slow_queries");
    }

    #[test]
    fn statements_are_counted_by_kind() {
        for (sql, counter) in [
            ("SELECT 1", "Com_select"),
            ("INSERT INTO t VALUES (1)", "Com_insert"),
            ("REPLACE INTO t SELECT 1", "Com_replace_select"),
            ("UPDATE t SET a = 1", "Com_update"),
            ("UPDATE t, u SET t.a = 1", "Com_update_multi"),
            ("UPDATE t JOIN u SET t.a = 1", "Com_update_multi"),
            ("DELETE t FROM t JOIN u", "Com_delete_multi"),
            ("SET @a = 1", "Com_set_option"),
            ("SHOW TABLES", "Com_show_tables"),
            ("SHOW CREATE VIEW v", "Com_show_create_table"),
            ("SHOW ENGINE INNODB MUTEX", "Com_show_engine_mutex"),
            ("GRANT r TO u", "Com_grant_roles"),
            ("REVOKE ALL, GRANT OPTION FROM u", "Com_revoke_all"),
            ("PURGE BINARY LOGS TO 'a'", "Com_purge"),
            ("CHECKSUM TABLE t", "Com_checksum"),
            ("XA BEGIN 'x'", "Com_xa_start"),
            ("XA RECOVER CONVERT XID", "Com_xa_recover"),
        ] {
            let statement = parse::parse(sql.as_bytes(), ParseOptions::default());
            let counted = command_of(&statement.unwrap().stmt);
            assert_eq!(NAMES[counted as usize], counter, "{sql}");
        }
    }

    #[test]
    fn absorbing_moves_counts() {
        let (all, one) = (Counts::default(), Counts::default());
        one.add(Counter::Questions, 3);
        all.absorb(&one);
        all.absorb(&one);
        one.add(Counter::Questions, 1);
        let mut sums = Counts::zeros();
        all.add_to(&mut sums);
        assert_eq!(sums[Counter::Questions as usize], 3);
        one.add_to(&mut sums);
        assert_eq!(sums[Counter::Questions as usize], 4);
    }
}
