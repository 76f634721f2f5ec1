//! Rows about locks: what every transaction has locked and waits for, and who waits for whom.
//!
//! Neighbours: the engine lists the locks of a session; `show` makes SHOW ENGINE INNODB STATUS of the same;
//! `deadlocks` has those that ended.
//! **Invariants**: columns are those of MySQL's `performance_schema.data_locks`, `data_lock_waits`, `metadata_locks`;
//! rows are only for who has the PROCESS privilege; what is listed is bounded as a whole, so that the look at a
//! thousand sessions that wait, or at a transaction with a million locks, stays cheap.

use std::collections::{HashMap, HashSet};
use std::fmt::Write as _;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use esker_engine::scan::KeySpan;
use esker_engine::{LockInfo, LockMode, LockWait, Locked, OwnerId, PreparedId, RangeKind, TreeId};
use esker_sql_catalog::catalog::{IndexDef, TableDef};
use esker_sql_catalog::codec::UTC;
use esker_types::cast::write_text;
use esker_types::hex::upper_hex;
use esker_types::{Value, ValueRef};

use super::{Viewer, optional, text};
use crate::instance::Instance;
use crate::instruments::INSTRUMENTS;
use crate::loglines::on_one_line;
use crate::session::registry::Process;
use crate::xids::{self, PreparedInfo};
use esker_sql_catalog::mdl::{MdlDuration, MdlInfo, MdlKey};

/// Locks of one transaction that are listed, beside those that somebody waits for.
pub(super) const MAX_LOCKS: usize = 1000;
/// Locks of all transactions that are listed, beside those.
const MAX_LISTED: usize = 50_000;
/// Waits that are listed.
const MAX_WAITS: usize = 10_000;
/// Locks that SHOW ENGINE INNODB STATUS has.
const MAX_PRINTED: usize = 5_000;
/// Ids of prepared transactions are above those of sessions, which a transaction is called by otherwise.
const PREPARED: u64 = 1 << 48;

/// The rows of a table about locks; None when it is not one.
pub(super) fn rows(table: &str, viewer: &Viewer) -> Option<Vec<Vec<Value>>> {
    let make = match table {
        "ESKER_DATA_LOCKS" => data_locks,
        "ESKER_DATA_LOCK_WAITS" => lock_waits,
        "ESKER_METADATA_LOCKS" => metadata_locks,
        "ESKER_METADATA_LOCK_WAITS" => metadata_waits,
        "ESKER_DEADLOCKS" => super::deadlocks::rows,
        _ => return None,
    };
    Some(match viewer.may("PROCESS") {
        true => make(viewer),
        false => Vec::new(),
    })
}

/// Indexes, with their tables, by tree.
pub(super) type Indexes = HashMap<TreeId, (Arc<TableDef>, usize)>;

/// The index of every tree.
pub(super) fn indexes(instance: &Instance) -> Indexes {
    let mut by_tree = HashMap::new();
    for schema in instance.schemas() {
        for table in instance.tables_of(&schema.name) {
            for (nth, index) in table.indexes.iter().enumerate() {
                by_tree.insert(index.id, (Arc::clone(&table), nth));
            }
        }
    }
    by_tree
}

pub(super) fn data_locks(viewer: &Viewer) -> Vec<Vec<Value>> {
    let instance = &viewer.instance;
    // From here on the prepared transactions are known.
    let _ = instance.xids();
    let indexes = indexes(instance);
    let in_the_way = in_the_way(instance);
    let mut rows = Vec::new();
    let mut add = |(id, thread): (u64, Option<u64>), locks: &dyn Fn(usize) -> Vec<LockInfo>| {
        let left = MAX_LISTED.saturating_sub(rows.len());
        let first = locks(MAX_LOCKS.min(left));
        let blocking = in_the_way.get(&id).into_iter().flatten();
        let others = blocking.filter(|lock| !first.contains(lock));
        let listed = first.iter().chain(others);
        rows.extend(listed.filter_map(|lock| lock_row(id, thread, lock, &indexes)));
    };
    for process in instance.registry.list() {
        add((process.id, Some(process.id)), &|limit| {
            process.locks(limit)
        });
    }
    for prepared in prepared(instance) {
        add((prepared.id, None), &|limit| {
            prepared.locks(instance, limit)
        });
    }
    rows
}

/// A transaction that is prepared and waits for a decision.
pub(super) struct Prepared {
    /// What the tables call it.
    pub(super) id: u64,
    key: PreparedId,
    owner: Option<OwnerId>,
    pub(super) since_micros: i64,
}

impl Prepared {
    pub(super) fn locks(&self, instance: &Instance, limit: usize) -> Vec<LockInfo> {
        instance.engine().locks_of_prepared(&self.key, limit)
    }
}

/// The prepared transactions, as far as they are known without a wait.
pub(super) fn prepared(instance: &Instance) -> Vec<Prepared> {
    if !instance.knows_xids() {
        return Vec::new();
    }
    let one = |info: PreparedInfo| {
        let key = xids::encode(&info.xid);
        let mut hasher = DefaultHasher::new();
        key.hash(&mut hasher);
        Prepared {
            id: PREPARED | hasher.finish() & (PREPARED - 1),
            owner: instance.engine().owner_of_prepared(&key),
            key,
            since_micros: info.since_micros,
        }
    };
    instance.xids().list().into_iter().map(one).collect()
}

/// Locks that somebody waits for, by the transaction that has them: they are listed, however many others it has.
fn in_the_way(instance: &Instance) -> HashMap<u64, HashSet<LockInfo>> {
    let mut locks: HashMap<u64, HashSet<LockInfo>> = HashMap::new();
    for wait in waits(instance) {
        locks.entry(wait.blocker.0).or_default().insert(wait.held);
    }
    locks
}

/// A lock as a row; None if its table has just gone.
fn lock_row(
    transaction: u64,
    thread: Option<u64>,
    lock: &LockInfo,
    indexes: &Indexes,
) -> Option<Vec<Value>> {
    let (table, index) = indexes.get(&lock.tree)?;
    let index = &table.indexes[*index];
    Some(vec![
        text("INNODB"),
        text(lock_name(transaction, lock)),
        Value::UInt(transaction),
        thread.map_or(Value::Null, Value::UInt),
        Value::Null,
        text(&table.schema),
        text(&table.name),
        Value::Null,
        Value::Null,
        text(&index.name),
        Value::UInt(u64::from(lock.tree.0)),
        text("RECORD"),
        text(mode_of(&lock.what)),
        text(match lock.is_granted {
            true => "GRANTED",
            false => "WAITING",
        }),
        text(data_of(table, index, &lock.what)),
    ])
}

/// The id of a transaction's lock: the same in every table, and as long as it is held.
pub(super) fn lock_name(transaction: u64, lock: &LockInfo) -> String {
    let mut hasher = DefaultHasher::new();
    lock.hash(&mut hasher);
    format!("{transaction}:{}:{:016x}", lock.tree.0, hasher.finish())
}

/// The mode in InnoDB's words.
fn mode_of(what: &Locked) -> &'static str {
    match what {
        Locked::Row(LockMode::Shared, _) => "S,REC_NOT_GAP",
        Locked::Row(LockMode::Exclusive, _) => "X,REC_NOT_GAP",
        Locked::Range(RangeKind::Gap, _) => "X,GAP",
        Locked::Range(RangeKind::Cover(LockMode::Shared), _) => "S",
        Locked::Range(RangeKind::Cover(LockMode::Exclusive), _) => "X",
        Locked::Insert(_) => "X,GAP,INSERT_INTENTION",
    }
}

fn data_of(table: &TableDef, index: &IndexDef, what: &Locked) -> String {
    match what {
        Locked::Row(_, key) | Locked::Insert(key) => {
            let (values, rest) = key_text(table, index, key);
            with_rest(values, rest)
        }
        Locked::Range(_, span) => span_text(table, index, span),
    }
}

/// A range in mathematicians' brackets.
fn span_text(table: &TableDef, index: &IndexDef, span: &KeySpan) -> String {
    let bound = |key: &[u8]| {
        let (values, rest) = key_text(table, index, key);
        // A zero byte behind a key is the place right behind it.
        match rest {
            [0] => (values, true),
            rest => (with_rest(values, rest), false),
        }
    };
    let lower = match span.lower.as_slice() {
        [] => "(infimum pseudo-record".to_owned(),
        key => {
            let (key, is_behind) = bound(key);
            format!("{}{key}", if is_behind { "(" } else { "[" })
        }
    };
    let upper = match &span.upper {
        None => "supremum pseudo-record)".to_owned(),
        Some(key) => {
            let (key, is_behind) = bound(key);
            format!("{key}{}", if is_behind { "]" } else { ")" })
        }
    };
    format!("{lower} .. {upper}")
}

/// The values at the start of a key that can be read back from it, and the bytes behind them.
fn key_text<'k>(table: &TableDef, index: &'k IndexDef, key: &'k [u8]) -> (String, &'k [u8]) {
    let mut values = Vec::new();
    let mut rest = key;
    for (nth, part) in index.parts.iter().enumerate() {
        if rest.is_empty() || !index.codec.is_reversible(nth) {
            break;
        }
        let Some((value, behind)) = index.codec.decode_part(nth, rest, &UTC) else {
            break;
        };
        if !values.is_empty() {
            values.extend_from_slice(b", ");
        }
        match value {
            ValueRef::Null => values.extend_from_slice(b"NULL"),
            value => write_text(value, &table.columns[part.col].ty, &mut values),
        }
        rest = behind;
    }
    (String::from_utf8_lossy(&values).into_owned(), rest)
}

fn with_rest(mut values: String, rest: &[u8]) -> String {
    if !rest.is_empty() {
        values.push_str(if values.is_empty() { "0x" } else { ", 0x" });
        values.push_str(&upper_hex(rest));
    }
    values
}

/// A session that waits for a lock, and a transaction that must end before.
struct Wait {
    waiter: Arc<Process>,
    wanted: LockInfo,
    /// Transaction and connection; a prepared transaction has none.
    blocker: (u64, Option<u64>),
    /// What is in the way.
    held: LockInfo,
}

/// At most [`MAX_WAITS`] waits of sessions for each other.
fn waits(instance: &Instance) -> Vec<Wait> {
    let sessions = instance.registry.list();
    let of_sessions = sessions
        .iter()
        .filter_map(|process| Some((process.lock_owner()?, (process.id, Some(process.id)))));
    let mut by_owner: HashMap<OwnerId, (u64, Option<u64>)> = of_sessions.collect();
    for prepared in prepared(instance) {
        by_owner.extend(prepared.owner.map(|owner| (owner, (prepared.id, None))));
    }
    let mut waits = Vec::new();
    for waiter in &sessions {
        let Some(wait) = waiter.lock_wait(MAX_WAITS - waits.len()) else {
            continue;
        };
        let LockWait { wanted, in_the_way } = wait;
        waits.extend(in_the_way.into_iter().filter_map(|(owner, held)| {
            Some(Wait {
                waiter: Arc::clone(waiter),
                wanted: wanted.clone(),
                blocker: *by_owner.get(&owner)?,
                held,
            })
        }));
        if waits.len() == MAX_WAITS {
            break;
        }
    }
    debug_assert!(waits.len() <= MAX_WAITS);
    waits
}

pub(super) fn lock_waits(viewer: &Viewer) -> Vec<Vec<Value>> {
    let _ = viewer.instance.xids();
    let side = |(transaction, thread): (u64, Option<u64>), lock: &LockInfo| {
        [
            text(lock_name(transaction, lock)),
            Value::UInt(transaction),
            thread.map_or(Value::Null, Value::UInt),
            Value::Null,
            Value::UInt(u64::from(lock.tree.0)),
        ]
    };
    let row = |wait: Wait| {
        let waiter = wait.waiter.id;
        let wanted = side((waiter, Some(waiter)), &wait.wanted);
        let held = side(wait.blocker, &wait.held);
        let engine = std::iter::once(text("INNODB"));
        engine.chain(wanted).chain(held).collect()
    };
    waits(&viewer.instance).into_iter().map(row).collect()
}

/// Columns of a metadata lock: kind, schema and name of its object come first.
const NAME_PARTS: usize = 3;
/// Where its mode is.
const LOCK_TYPE: usize = 5;

/// Metadata locks that are held or waited for; those of prepared transactions have no owner.
pub(super) fn metadata_locks(viewer: &Viewer) -> Vec<Vec<Value>> {
    let instruments = &viewer.instance.instruments;
    if instruments.is_on(INSTRUMENTS, "wait/lock/metadata/sql/mdl") != Some(true) {
        return Vec::new();
    }
    let locks = viewer.instance.catalog.locks().list().into_iter();
    let rows = locks.map(|lock| metadata_row(&lock));
    let user_locks = viewer.instance.registry.user_locks.list().into_iter();
    let user_rows = user_locks.map(|(name, session, is_granted)| {
        metadata_cells(
            [
                "USER LEVEL LOCK",
                "EXCLUSIVE",
                "EXPLICIT",
                status_of(is_granted),
            ],
            [None, Some(&name)],
            Some(session),
        )
    });
    rows.chain(user_rows).collect()
}

fn status_of(is_granted: bool) -> &'static str {
    match is_granted {
        true => "GRANTED",
        false => "PENDING",
    }
}

/// A row about a metadata lock: kind, mode, duration and status; schema and name of the object; whose it is.
fn metadata_cells(
    [kind, mode, duration, status]: [&str; 4],
    [schema, name]: [Option<&str>; 2],
    session: Option<u64>,
) -> Vec<Value> {
    vec![
        text(kind),
        optional(schema),
        optional(name),
        Value::Null,
        Value::Null,
        text(mode),
        text(duration),
        text(status),
        text(""),
        session.map_or(Value::Null, Value::UInt),
        Value::Null,
    ]
}

fn metadata_row(lock: &MdlInfo) -> Vec<Value> {
    let (kind, schema, name) = match &lock.key {
        MdlKey::Global => ("GLOBAL", None, None),
        MdlKey::Commit => ("COMMIT", None, None),
        MdlKey::Backup => ("BACKUP LOCK", None, None),
        MdlKey::Schema(schema) => ("SCHEMA", Some(schema), None),
        MdlKey::Table(schema, name) => ("TABLE", Some(schema), Some(name)),
        MdlKey::Event(schema, name) => ("EVENT", Some(schema), Some(name)),
        MdlKey::Tablespace(name) => ("TABLESPACE", None, Some(name)),
        MdlKey::Routine(kind, schema, name) => (kind.text(), Some(schema), Some(name)),
    };
    let duration = match lock.duration {
        MdlDuration::Statement => "STATEMENT",
        MdlDuration::Transaction => "TRANSACTION",
        MdlDuration::Explicit | MdlDuration::Global | MdlDuration::Instance => "EXPLICIT",
    };
    let mode = lock.mode.word(name.is_none());
    metadata_cells(
        [kind, mode, duration, status_of(lock.is_granted)],
        [schema.map(|s| &**s), name.map(|s| &**s)],
        lock.connection,
    )
}

/// Who waits for whom: a lock that is held, of another session, in a mode that does not go with the one asked for.
fn metadata_waits(viewer: &Viewer) -> Vec<Vec<Value>> {
    let locks = viewer.instance.catalog.locks().list();
    let mut held: HashMap<&MdlKey, Vec<&MdlInfo>> = HashMap::new();
    for lock in locks.iter().filter(|lock| lock.is_granted) {
        held.entry(&lock.key).or_default().push(lock);
    }
    let mut rows = Vec::new();
    for waiting in locks.iter().filter(|lock| !lock.is_granted) {
        let holders = held.get(&waiting.key).into_iter().flatten();
        let blocks = |holder: &&&MdlInfo| {
            holder.connection != waiting.connection && waiting.mode.conflicts(holder.mode)
        };
        let left = MAX_WAITS - rows.len();
        rows.extend(holders.filter(blocks).take(left).map(|holder| {
            let mut row = metadata_row(waiting);
            let blocking = metadata_row(holder).swap_remove(LOCK_TYPE);
            row.truncate(NAME_PARTS);
            row.push(text(waiting.mode.word(row[NAME_PARTS - 1].is_null())));
            row.push(waiting.connection.map_or(Value::Null, Value::UInt));
            row.push(blocking);
            row.push(holder.connection.map_or(Value::Null, Value::UInt));
            row
        }));
    }
    rows
}

/// A mode as InnoDB's monitor says it.
fn monitor_mode(what: &Locked) -> &'static str {
    match what {
        Locked::Row(LockMode::Shared, _) => "S locks rec but not gap",
        Locked::Row(LockMode::Exclusive, _) => "X locks rec but not gap",
        Locked::Range(RangeKind::Gap, _) => "X locks gap before rec",
        Locked::Range(RangeKind::Cover(LockMode::Shared), _) => "S",
        Locked::Range(RangeKind::Cover(LockMode::Exclusive), _) => "X",
        Locked::Insert(_) => "X locks gap before rec insert intention",
    }
}

/// A lock as InnoDB's monitor says it; `None` if its table has just gone.
pub(super) fn lock_text(indexes: &Indexes, lock: &LockInfo, transaction: u64) -> Option<String> {
    let (table, index) = indexes.get(&lock.tree)?;
    let index = &table.indexes[*index];
    let waiting = if lock.is_granted { "" } else { " waiting" };
    Some(format!(
        "RECORD LOCKS space id {} page no 0 n bits 0 index {} of table `{}`.`{}` trx id {transaction} lock_mode \
         {}{waiting}\nRecord lock, heap no 0: {}",
        lock.tree.0,
        on_one_line(&index.name),
        on_one_line(&table.schema),
        on_one_line(&table.name),
        monitor_mode(&lock.what),
        on_one_line(&data_of(table, index, &lock.what)),
    ))
}

/// The open transactions in SHOW ENGINE INNODB STATUS, with their locks.
pub(crate) fn transactions_text(instance: &Instance) -> String {
    let indexes = indexes(instance);
    let mut out = String::new();
    let now = instance.now_micros();
    let mut left = MAX_PRINTED;
    for process in instance.registry.list() {
        let detail = process.detail();
        let (id, locks) = (process.id, process.locks(MAX_LOCKS.min(left)));
        // A statement in autocommit is a transaction as long as it has locks.
        let started = detail.transaction;
        let started = started.or((!locks.is_empty()).then(|| process.since_micros()));
        let Some(started) = started else {
            continue;
        };
        let seconds = (now - started).max(0) / 1_000_000;
        left -= locks.len().min(left);
        let is_waiting = locks.iter().any(|lock| !lock.is_granted);
        let wait = if is_waiting { "LOCK WAIT " } else { "" };
        let held = locks.len();
        let _ = writeln!(
            out,
            "---TRANSACTION {id}, ACTIVE {seconds} sec\n{wait}{held} lock struct(s), heap size 0, {held} row lock(s)\n\
             MySQL thread id {id}, OS thread handle 0, query id 0 {} {} {} {}",
            process.host(),
            process.address(),
            detail.user,
            detail.state,
        );
        if let Some(statement) = &detail.info {
            let _ = writeln!(out, "{}", super::deadlocks::cut(statement));
        }
        if is_waiting {
            let waited = (now - process.since_micros()).max(0) / 1_000_000;
            let _ = writeln!(
                out,
                "------- TRX HAS BEEN WAITING {waited} SEC FOR THIS LOCK TO BE GRANTED:"
            );
        }
        for line in locks
            .iter()
            .filter_map(|lock| lock_text(&indexes, lock, id))
        {
            let _ = writeln!(out, "{line}");
        }
        if is_waiting {
            let _ = writeln!(out, "------------------");
        }
    }
    for Wait {
        waiter, blocker, ..
    } in waits(instance)
    {
        let _ = writeln!(out, "TRANSACTION {} WAITS FOR {}", waiter.id, blocker.0);
    }
    out
}
