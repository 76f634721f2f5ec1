//! What statements and variables do with the binary log.
//!
//! Neighbours: `show` and `session` call this; [`writer`](super::writer) has the files,
//! [`events`](super::events) what is in them.
//! **Invariants**: a statement that shows state of the binary log shows everything that was committed before it began.

use std::time::{Duration, Instant};

use esker_binlog::attachment::Numbering;
use esker_binlog::files::{FileInfo, FileNumber, Names, Scan, View};
use esker_binlog::gtid::{Gtid, GtidError, GtidSet, Source};
use esker_engine::{Durable, Seq};
use esker_sql_catalog::exec_error::engine_error;
use esker_sql_catalog::mdl::{MdlDuration, MdlMode};
use esker_sql_catalog::variables::{VarId, VarValue};
use esker_types::ctx::GtidFunctions;
use esker_types::{Level, SqlError, SqlResult, Value, errors};
use esker_vfs::Fs;

use super::owned::NotAdded;
use super::service::not_logging;
use super::writer::{Command, disk_full, failed};
use crate::instance::Instance;
use crate::replica::gtid_mode_refused;
use crate::session::{Session, SessionContext};
use crate::show::{Table, t};

/// Whoever waits for GTIDs looks this often whether the statement may go on.
const WAIT_STEP: Duration = Duration::from_millis(50);

/// Why gtid_mode stays as it is while sessions have GTIDs.
const HAS_OWNERS: &str = "there are ongoing transactions that have a GTID. Before you set @@GLOBAL.GTID_MODE = OFF, \
                          wait until SELECT @@GLOBAL.GTID_OWNED is empty on all servers. Then wait for all \
                          GTID-transactions to replicate to all servers, and then execute SET @@GLOBAL.GTID_MODE = \
                          OFF on all servers. See the Manual for details";

/// gtid_mode = ON asks for it.
const CONSISTENCY: &str = "enforce_gtid_consistency";

/// Why gtid_mode does not become OFF while sessions wait for GTIDs.
const IS_WAITED_FOR: &str = "there are ongoing calls to WAIT_FOR_EXECUTED_GTID_SET. Before you set \
                             @@GLOBAL.GTID_MODE = OFF, ensure that no other client is waiting for GTID-transactions \
                             to be committed";

/// Why gtid_mode does not become OFF_PERMISSIVE while sessions ask for tagged GTIDs.
const HAS_TAGGED: &str = "there is an ongoing session with GTID_NEXT set to AUTOMATIC:<TAG>";

/// Why gtid_mode does not become ON while transactions go on that are to have no GTIDs.
const HAS_ANONYMOUS: &str = "there are ongoing, anonymous transactions. Before setting @@GLOBAL.GTID_MODE = ON, wait \
                             until SHOW STATUS LIKE 'ANONYMOUS_TRANSACTION_COUNT' shows zero on all servers. Then \
                             wait for all existing, anonymous transactions to replicate to all replicas, and then \
                             execute SET @@GLOBAL.GTID_MODE = ON on all servers. See the Manual for details";

impl Instance {
    /// The binary log with everything that is committed by now.
    ///
    /// # Errors
    /// 1381 without binary log; 1021: the writer is not that far, for it waits for space; of the engine's log.
    pub(crate) fn binlog_view(&self) -> SqlResult<View> {
        whole(self.newest_view()?)
    }

    /// The same, also of what replicas have not acknowledged: who asks for the files does not wait for that.
    ///
    /// # Errors
    /// As [`Self::binlog_view`].
    pub(super) fn binlog_files(&self) -> SqlResult<View> {
        whole(self.newest_files()?)
    }

    /// The binary log with everything that is committed by now, if the writer is that far, and how far that is.
    fn newest_view(&self) -> SqlResult<(View, Seq)> {
        let committed = self.engine.visible_seq();
        self.view_behind(committed, self.engine.wait_durable(committed))
    }

    /// The same, also of what replicas have not acknowledged.
    fn newest_files(&self) -> SqlResult<(View, Seq)> {
        let committed = self.engine.visible_seq();
        let hardened = self.engine.wait_durable(committed).unacknowledged();
        self.view_behind(committed, hardened)
    }

    fn view_behind(&self, committed: Seq, durable: Durable) -> SqlResult<(View, Seq)> {
        durable.block().map_err(|e| engine_error(&e))?;
        let view = self.binlog.view_at(committed).ok_or_else(not_logging)?;
        Ok((view, committed))
    }

    /// Waits until the files have everything that is committed by now. Those that cannot get there show what they have.
    pub(crate) fn await_binlog(&self) {
        let _: SqlResult<_> = self.newest_view();
    }

    /// A global value, computed ones included. Not for a thread that may not block: gtid_executed has everything that
    /// is committed by now.
    pub(crate) fn global_variable(&self, id: VarId) -> VarValue {
        if id.def().name == "gtid_executed" {
            self.await_binlog();
        }
        self.listed_variable(id)
    }

    /// The same without blocking, for lists of all variables: gtid_executed is as far as the files are.
    pub(crate) fn listed_variable(&self, id: VarId) -> VarValue {
        match id.def().name {
            "gtid_executed" => {
                let executed = match self.binlog.view() {
                    Some(view) => (*view.executed).clone(),
                    None => self.binlog.owned.unlogged(),
                };
                VarValue::Text(executed.to_string().into())
            }
            "gtid_purged" => VarValue::Text(self.gtid_purged().to_string().into()),
            "relay_log_index" => match self.channels.get("") {
                Ok(channel) => {
                    let path = channel.relay().names().index();
                    VarValue::Text(path.display().to_string().into())
                }
                Err(_) => self.globals.get(id),
            },
            "gtid_slave_pos" => VarValue::Text(self.gtid_slave_pos().to_string().into()),
            "gtid_owned" => VarValue::Text(self.binlog.owned.shown().into()),
            _ => self.globals.get(id),
        }
    }

    /// gtid_executed.
    pub(crate) fn gtid_executed(&self) -> GtidSet {
        match self.newest_view() {
            Ok((view, _)) => (*view.executed).clone(),
            Err(_) => self.binlog.owned.unlogged(),
        }
    }

    /// The GTID of the transaction whose record ends at `seq`, which was to be numbered like this; `None` if it has
    /// none or the files have not got that far.
    pub(crate) fn gtid_of(&self, seq: Seq, numbering: &Numbering) -> Option<Gtid> {
        let gno = self.binlog.published()?.gno(seq)?;
        let tag = match numbering {
            Numbering::Given(gtid) if gtid.gno == gno => return Some(gtid.clone()),
            // Its number was used up: it got the next free one of this server.
            Numbering::Given(gtid) => gtid.source.tag.clone(),
            Numbering::Automatic(tag) => tag.clone(),
            Numbering::Next(source) => {
                let source = source.clone();
                return Some(Gtid { source, gno });
            }
            Numbering::Anonymous => return None,
        };
        let sid = self.globals.named("server_uuid").as_text().parse().ok()?;
        let source = Source { sid, tag };
        Some(Gtid { source, gno })
    }

    /// gtid_purged; without binary log all that is executed.
    pub(crate) fn gtid_purged(&self) -> GtidSet {
        match self.binlog.view() {
            Some(view) => (*view.purged).clone(),
            None => self.binlog.owned.unlogged(),
        }
    }

    /// May `gtid_mode` have this value, as sessions are? It has it already.
    ///
    /// # Errors
    /// 3111.
    fn admit_gtid_mode_now(&self, mode: &str) -> SqlResult<()> {
        let owned = &self.binlog.owned;
        if mode.starts_with("OFF") && owned.is_any_tagged() {
            return Err(gtid_mode_refused("OFF/OFF_PERMISSIVE", HAS_TAGGED));
        }
        let why = match mode {
            "OFF" if owned.is_any_taken() => HAS_OWNERS,
            "OFF" if owned.is_any_waiting() => IS_WAITED_FOR,
            "ON" if owned.anonymous() > 0 => HAS_ANONYMOUS,
            "ON" if self.variable_text(CONSISTENCY) != "ON" => "ENFORCE_GTID_CONSISTENCY is not ON",
            _ => return Ok(()),
        };
        Err(gtid_mode_refused(mode, why))
    }

    /// May `enforce_gtid_consistency` have the value that it has?
    ///
    /// # Errors
    /// 1779.
    fn admit_consistency(&self) -> SqlResult<()> {
        if self.variable_text("gtid_mode") != "ON" || self.variable_text(CONSISTENCY) == "ON" {
            return Ok(());
        }
        let text = "GTID_MODE = ON requires ENFORCE_GTID_CONSISTENCY = ON.";
        Err(SqlError::new(1779, "HY000", text))
    }

    /// Carries a global variable that has been set over to the writer, if it is about the binary log.
    ///
    /// # Errors
    /// 1779, 1788, 3111: gtid_mode goes through its values one by one, channels depend on it, sessions own GTIDs; of
    /// the files. The variable is to have its value of `before` again then.
    pub(crate) fn admit_global(&self, name: &str, before: &VarValue) -> SqlResult<()> {
        let value = self.globals.named(name);
        if name == "gtid_mode"
            && mode_step(before.as_text()).abs_diff(mode_step(value.as_text())) > 1
        {
            let text = "The value of @@GLOBAL.GTID_MODE can only be changed one step at a time: OFF <-> \
                        OFF_PERMISSIVE <-> ON_PERMISSIVE <-> ON. Also note that this value must be stepped \
                        up or down simultaneously on all servers. See the Manual for instructions.";
            return Err(SqlError::new(1788, "HY000", text));
        }
        if name == "binlog_format" {
            self.admit_binlog_format()?;
        }
        if name == CONSISTENCY {
            self.admit_consistency()?;
        }
        if name == "gtid_mode" {
            self.admit_gtid_mode(value.as_text())?;
            self.admit_gtid_mode_now(value.as_text())?;
        }
        if let Some(twin) = super::twins::twin(name) {
            self.globals.tell(twin, value);
            // With everything that is committed: what comes behind is what replicas are to acknowledge.
            let transactions = self.newest_files().map_or(0, |(view, _)| view.ordinal);
            self.binlog
                .semi_sync()
                .configure(&self.globals, &self.engine, transactions);
            return Ok(());
        }
        if !self.binlog.is_on() {
            return Ok(());
        }
        if let (
            "binlog_cache_size" | "max_binlog_cache_size" | "binlog_row_metadata",
            Some(settings),
        ) = (name, self.binlog.capture_settings())
        {
            settings.configure(&self.globals);
            return Ok(());
        }
        let command = match name {
            "max_binlog_size" => Command::MaxSize(value.as_u64()),
            "sync_binlog" => Command::SyncEvery(value.as_u64()),
            "binlog_group_commit_sync_delay" | "binlog_group_commit_sync_no_delay_count" => {
                Command::Gather(super::upkeep::gathering(&self.globals))
            }
            "esker_log_pinned_limit" => Command::PinnedLimit(value.as_u64()),
            "esker_binlog_space_limit" => Command::SpaceLimit(value.as_u64()),
            "binlog_checksum" => Command::Checksum(super::upkeep::checksum(value.as_text())),
            "server_id" => Command::ServerId(value.as_u64() as u32),
            "gtid_mode" => Command::GtidMode(super::upkeep::gives_gtids(value.as_text())),
            "binlog_expire_logs_seconds" | "binlog_expire_logs_auto_purge" => {
                let is_on = self.variable_is_on("binlog_expire_logs_auto_purge");
                let seconds = self.variable_u64("binlog_expire_logs_seconds");
                Command::Expire(if is_on { seconds as u32 } else { 0 })
            }
            _ => return Ok(()),
        };
        self.binlog.order(command)
    }

    /// SET GLOBAL gtid_purged.
    ///
    /// # Errors
    /// 1231: it is no set; 3546: some of them are executed, or what is purged already is not among them.
    pub(crate) fn set_gtid_purged(&self, text: &str) -> SqlResult<()> {
        let refused = |why: &str| {
            let text = format!("@@GLOBAL.GTID_PURGED cannot be changed: {why}");
            SqlError::new(3546, "HY000", text)
        };
        let (adds, listed) = match text.trim().strip_prefix('+') {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        let mut gtids: GtidSet = listed
            .parse()
            .map_err(|_| errors::wrong_value("gtid_purged", text))?;
        let overlaps = "the added gtid set must not overlap with @@GLOBAL.GTID_EXECUTED";
        let view = match self.binlog.is_on() {
            true => Some(self.binlog_view()?),
            false => None,
        };
        if !adds {
            let purged = view.as_ref().map(|view| (*view.purged).clone());
            let purged = purged.unwrap_or_else(|| self.gtid_purged());
            if !gtids.contains_all(&purged) {
                return Err(refused("the new value must be a superset of the old value"));
            }
            gtids.subtract(&purged);
        }
        let Some(view) = view else {
            return self.add_unlogged(&gtids).map_err(|why| match why {
                NotAdded::Executed => refused(overlaps),
                NotAdded::Owned => {
                    refused("the added gtid set must not overlap with @@GLOBAL.GTID_OWNED")
                }
                NotAdded::Failed(e) => e,
            });
        };
        if view.executed.intersects(&gtids) {
            return Err(refused(overlaps));
        }
        self.binlog.order(Command::AddPurged(gtids))
    }
}

/// The view, if it has everything up to here.
fn whole((view, committed): (View, Seq)) -> SqlResult<View> {
    match view.lsn >= committed {
        true => Ok(view),
        false => Err(disk_full()),
    }
}

fn mode_step(mode: &str) -> usize {
    const STEPS: [&str; 4] = ["OFF", "OFF_PERMISSIVE", "ON_PERMISSIVE", "ON"];
    STEPS.iter().position(|step| *step == mode).unwrap_or(0)
}

/// A set of GTIDs in a text.
///
/// # Errors
/// 1772.
pub(crate) fn parse_set(text: &str) -> SqlResult<GtidSet> {
    text.parse().map_err(|_| errors::malformed_gtid_set(text))
}

/// The same where MySQL says what is wrong with it, and where.
///
/// # Errors
/// 1772.
fn read_set(text: &str) -> SqlResult<GtidSet> {
    text.parse()
        .map_err(|e: GtidError| errors::malformed_gtid_set(e))
}

impl GtidFunctions for SessionContext {
    fn is_subset(&self, a: &str, b: &str) -> SqlResult<bool> {
        let a = read_set(a)?;
        Ok(read_set(b)?.contains_all(&a))
    }

    fn subtract(&self, a: &str, b: &str) -> SqlResult<String> {
        let mut rest = read_set(a)?;
        rest.subtract(&read_set(b)?);
        Ok(rest.to_string())
    }

    fn wait_for_executed(&self, set: &str, at_most_secs: Option<f64>) -> SqlResult<bool> {
        let wanted = parse_set(set)?;
        let is_there = |view: &View| view.executed.contains_all(&wanted);
        let _waits = self.instance.binlog.owned.begin_waiting();
        let begun = Instant::now();
        let binlog = &self.instance.binlog;
        loop {
            let all_are = match binlog.wait(WAIT_STEP, is_there) {
                Some(view) => is_there(&view),
                None => binlog.owned.wait_unlogged(&wanted, WAIT_STEP),
            };
            if all_are {
                return Ok(true);
            }
            self.check()?;
            let waited = begun.elapsed().as_secs_f64();
            let ends = binlog.published().is_some() && !binlog.is_on();
            if ends || at_most_secs.is_some_and(|most| waited >= most) {
                return Ok(false);
            }
        }
    }
}

impl Session {
    /// PURGE BINARY LOGS TO.
    ///
    /// # Errors
    /// 1373: there is no such file; 4085.
    pub(crate) fn purge_binlog_to(&mut self, file: &[u8]) -> SqlResult<()> {
        if !self.context.instance.binlog.is_on() {
            return Ok(());
        }
        let (view, _) = self.context.instance.newest_files()?;
        self.admit_purge()?;
        let number = self
            .context
            .binlog_names()?
            .number_of_path(&String::from_utf8_lossy(file))
            .filter(|n| view.files.iter().any(|f| f.number == *n));
        match number {
            Some(number) => self.purge_binlog(&view, number),
            None => {
                let text = "Target log not found in binlog index";
                Err(SqlError::new(1373, "HY000", text))
            }
        }
    }

    /// PURGE BINARY LOGS BEFORE; `before` in seconds since the epoch.
    ///
    /// # Errors
    /// 4085; of the files.
    pub(crate) fn purge_binlog_before(&mut self, before: u32) -> SqlResult<()> {
        if !self.context.instance.binlog.is_on() {
            return Ok(());
        }
        let (view, _) = self.context.instance.newest_files()?;
        self.admit_purge()?;
        let fs = &self.context.instance.env.fs;
        let first = first_younger(&**fs, self.context.binlog_names()?, &view, before);
        let first = first.map_err(|e| failed(&e))?;
        if let Some(number) = first {
            self.purge_binlog(&view, number)?;
        }
        let active = view.files.last().map(|file| file.number);
        if let Some(active) = active
            && (first == Some(active) || view.files.len() == 1)
        {
            let file = self.context.binlog_names()?.name(active);
            let text = format!("file ./{file} was not purged because it is the active log file.");
            self.warn(Level::Warning, 1868, text);
        }
        Ok(())
    }

    /// A backup that goes on copies the files, also one of this session.
    fn admit_purge(&mut self) -> SqlResult<()> {
        let backup = self.context.instance.catalog.locks().backup().clone();
        let is_own = self.locks.holds(&backup, MdlMode::ScopeShared);
        let (mode, duration) = (MdlMode::IntentionExclusive, MdlDuration::Statement);
        match !is_own && self.locks.try_acquire(&backup, mode, duration) {
            true => Ok(()),
            false => Err(errors::purge_beside_backup()),
        }
    }

    /// Removes the files before `first`. One that a stream reads stays, with those behind it, and a warning says so.
    fn purge_binlog(&mut self, before: &View, first: FileNumber) -> SqlResult<()> {
        let binlog = &self.context.instance.binlog;
        binlog.order(Command::PurgeTo(first))?;
        let published = binlog.published().ok_or_else(not_logging)?;
        let (kept, _) = published.look(|view| view.files.first().map(|file| file.number));
        let Some(kept) = kept.filter(|kept| *kept < first) else {
            return Ok(());
        };
        let count = |end: FileNumber| before.files.iter().filter(|f| f.number < end).count();
        let text = format!(
            "file ./{} was not purged because it was being read by {} thread(s), purged only {} out of {} files.",
            self.context.binlog_names()?.name(kept),
            // The one that read it may have gone on meanwhile.
            published.streams_of(kept).max(1),
            count(kept),
            count(first)
        );
        self.warn(Level::Warning, 1867, text);
        Ok(())
    }
}

impl SessionContext {
    /// SHOW BINARY LOGS.
    ///
    /// # Errors
    /// 1381.
    pub(crate) fn show_binary_logs(&self) -> SqlResult<Table> {
        // Also on a full disk: who makes room asks this.
        let (view, _) = self.instance.newest_files()?;
        let names = self.binlog_names()?;
        let row =
            |file: &FileInfo| vec![t(names.name(file.number)), Value::UInt(file.size), t("No")];
        let rows = view.files.iter().map(row).collect();
        let columns = ["Log_name", "File_size", "Encrypted"];
        Ok(Table::mixed(&columns, &["File_size"], rows))
    }

    /// SHOW BINARY LOG STATUS. Without binary log there is no row, as in MySQL.
    ///
    /// # Errors
    /// Of the engine's log.
    pub(crate) fn show_binlog_status(&self) -> SqlResult<Table> {
        let columns = [
            "File",
            "Position",
            "Binlog_Do_DB",
            "Binlog_Ignore_DB",
            "Executed_Gtid_Set",
        ];
        let mut rows = Vec::new();
        if self.instance.binlog.is_on() {
            let view = self.instance.binlog_view()?;
            let names = self.binlog_names()?;
            let settings = self.instance.binlog.capture_settings();
            let [only, without] = settings.map(|s| s.filter().shown()).unwrap_or_default();
            rows.extend(view.files.last().map(|file| {
                vec![
                    t(names.name(file.number)),
                    Value::UInt(file.size),
                    t(only),
                    t(without),
                    t(view.executed.to_string()),
                ]
            }));
        }
        Ok(Table::mixed(&columns, &["Position"], rows))
    }

    pub(super) fn binlog_names(&self) -> SqlResult<&Names> {
        self.instance.binlog.names().ok_or_else(not_logging)
    }

    /// FLUSH BINARY LOGS.
    ///
    /// # Errors
    /// Of the files.
    pub(crate) fn rotate_binlog(&self) -> SqlResult<()> {
        if !self.instance.binlog.is_on() {
            return Ok(());
        }
        self.instance.binlog_files()?;
        self.instance.binlog.order(Command::Rotate)
    }

    /// RESET BINARY LOGS AND GTIDS; the files begin again with this one.
    ///
    /// # Errors
    /// Of the files.
    pub(crate) fn reset_binlog(&self, first: u32) -> SqlResult<()> {
        if !self.instance.binlog.is_on() {
            return self.instance.forget_unlogged();
        }
        self.instance
            .binlog
            .order(Command::Reset(FileNumber(first)))?;
        self.instance.binlog.owned.forget_committed();
        Ok(())
    }
}

/// The first file that has events of this time or later, unless it is the first of all. The events of a file are
/// older than the file behind it.
pub(super) fn first_younger(
    fs: &dyn Fs,
    names: &Names,
    view: &View,
    before: u32,
) -> esker_binlog::Result<Option<FileNumber>> {
    let mut first = None;
    for file in view.files.iter().skip(1) {
        let mut scan = Scan::open(fs, &names.path(file.number), Some(file.size))?;
        let begun = match scan.next_event()? {
            Some((_, event)) => event.header.stamp.timestamp,
            None => break,
        };
        if begun >= before {
            break;
        }
        first = Some(file.number);
    }
    Ok(first)
}
