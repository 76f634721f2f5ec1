//! Rows about locks: what every transaction has locked and waits for, and who waits for whom.
//!
//! Neighbours: the engine lists the locks of a session; `show` makes SHOW ENGINE INNODB STATUS of the same;
//! `deadlocks` has those that ended.
//! **Invariants**: columns are those of MySQL's `performance_schema.data_locks`, `data_lock_waits`, `metadata_locks`;
//! rows are only for who has the PROCESS privilege; at most [`MAX_LOCKS`] row locks of one transaction are listed.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::Arc;

use esker_engine::scan::KeySpan;
use esker_engine::{LockInfo, LockMode, Locked, RangeKind, TreeId};
use esker_sql_catalog::catalog::{IndexDef, TableDef};
use esker_sql_catalog::codec::UTC;
use esker_types::cast::write_text;
use esker_types::hex::upper_hex;
use esker_types::{Value, ValueRef};

use super::{Viewer, optional, text};
use crate::instance::Instance;
use crate::session::registry::Process;
use crate::xids;
use esker_sql_catalog::mdl::{MdlDuration, MdlInfo, MdlKey};

/// Locks of one transaction that are listed.
pub(super) const MAX_LOCKS: usize = 1000;

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
    let indexes = indexes(instance);
    let mut rows = Vec::new();
    for process in instance.registry.list() {
        for (nth, lock) in process.locks(MAX_LOCKS).iter().enumerate() {
            rows.extend(lock_row(Some(process.id), nth, lock, &indexes));
        }
    }
    for prepared in instance.xids().list() {
        let locks = instance
            .engine()
            .locks_of_prepared(&xids::encode(&prepared.xid), MAX_LOCKS);
        for (nth, lock) in locks.iter().enumerate() {
            rows.extend(lock_row(None, nth, lock, &indexes));
        }
    }
    rows
}

/// A lock as a row; None if its table has just gone.
fn lock_row(
    transaction: Option<u64>,
    nth: usize,
    lock: &LockInfo,
    indexes: &Indexes,
) -> Option<Vec<Value>> {
    let (table, index) = indexes.get(&lock.tree)?;
    let index = &table.indexes[*index];
    let id = transaction.map_or(Value::Null, Value::UInt);
    let name = match transaction {
        Some(transaction) => lock_name(transaction, nth, lock),
        None => format!("prepared:{}:{nth}", lock.tree.0),
    };
    Some(vec![
        text("INNODB"),
        text(name),
        id.clone(),
        id,
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

/// The id of a transaction's lock, `nth` of its list.
pub(super) fn lock_name(transaction: u64, nth: usize, lock: &LockInfo) -> String {
    format!("{transaction}:{}:{nth}", lock.tree.0)
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

/// Sessions that wait for a lock, and those that must end before.
fn waits(instance: &Instance) -> Vec<(Arc<Process>, Arc<Process>)> {
    let sessions = instance.registry.list();
    let awaits = |process: &&Arc<Process>| process.locks(1).iter().any(|lock| !lock.is_granted);
    let pairs = sessions.iter().filter(awaits).flat_map(|waiter| {
        let blockers = sessions.iter().filter(|other| waiter.waits_for(other));
        blockers.map(|blocker| (Arc::clone(waiter), Arc::clone(blocker)))
    });
    pairs.collect()
}

/// Could `held`, or another request before it, be what keeps the request for a key waiting?
fn stops(held: &Locked, wanted: &Locked) -> bool {
    match (wanted, held) {
        (Locked::Row(_, key), Locked::Row(_, other)) => key == other,
        (Locked::Row(..), Locked::Range(RangeKind::Gap, _)) => false,
        (Locked::Row(_, key) | Locked::Insert(key), Locked::Range(_, span)) => span.contains(key),
        (Locked::Insert(key), Locked::Insert(other)) => key == other,
        (Locked::Row(..), Locked::Insert(_)) | (Locked::Insert(_), Locked::Row(..)) => false,
        (Locked::Range(..), _) => {
            debug_assert!(false, "nobody waits for a range");
            false
        }
    }
}

/// The ends of a wait: the first lock of the one who waits, and the one of the other that is in its way.
fn ends_of_wait(waiter: &Process, blocker: &Process) -> Option<[Option<(usize, LockInfo)>; 2]> {
    let wanted = waiter.locks(1).pop().filter(|lock| !lock.is_granted)?;
    let others = blocker.locks(MAX_LOCKS).into_iter().enumerate();
    let mut in_the_way =
        others.filter(|(_, held)| held.tree == wanted.tree && stops(&held.what, &wanted.what));
    let first = in_the_way.next();
    let granted = match &first {
        Some((_, lock)) if !lock.is_granted => in_the_way.find(|(_, lock)| lock.is_granted),
        _ => None,
    };
    Some([Some((0, wanted)), granted.or(first)])
}

pub(super) fn lock_waits(viewer: &Viewer) -> Vec<Vec<Value>> {
    let side = |process: &Process, lock: Option<(usize, LockInfo)>| {
        let tree = lock.as_ref().map(|(_, lock)| u64::from(lock.tree.0));
        [
            optional(lock.map(|(nth, lock)| lock_name(process.id, nth, &lock))),
            Value::UInt(process.id),
            Value::UInt(process.id),
            Value::Null,
            tree.map_or(Value::Null, Value::UInt),
        ]
    };
    let row = |(waiter, blocker): (Arc<Process>, Arc<Process>)| {
        // A wait that has ended meanwhile is none.
        let [wanted, held] = ends_of_wait(&waiter, &blocker)?;
        let sides = [side(&waiter, wanted), side(&blocker, held)];
        let cells = sides.into_iter().flatten();
        Some(std::iter::once(text("INNODB")).chain(cells).collect())
    };
    let waits = waits(&viewer.instance).into_iter();
    waits.filter_map(row).collect()
}

/// Columns of a metadata lock: kind, schema and name of its object come first.
const NAME_PARTS: usize = 3;
/// Where its mode is.
const LOCK_TYPE: usize = 5;

/// Metadata locks that are held or waited for; those of prepared transactions have no owner.
pub(super) fn metadata_locks(viewer: &Viewer) -> Vec<Vec<Value>> {
    let locks = viewer.instance.catalog.locks().list().into_iter();
    locks.map(|lock| metadata_row(&lock)).collect()
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
    let or_null = |part: Option<&Arc<str>>| part.map_or(Value::Null, |s| text(&**s));
    let duration = match lock.duration {
        MdlDuration::Statement => "STATEMENT",
        MdlDuration::Transaction => "TRANSACTION",
        MdlDuration::Explicit | MdlDuration::Global | MdlDuration::Instance => "EXPLICIT",
    };
    let status = match lock.is_granted {
        true => "GRANTED",
        false => "PENDING",
    };
    vec![
        text(kind),
        or_null(schema),
        or_null(name),
        Value::Null,
        Value::Null,
        text(lock.mode.word(name.is_none())),
        text(duration),
        text(status),
        text(""),
        lock.connection.map_or(Value::Null, Value::UInt),
        Value::Null,
    ]
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
        rows.extend(holders.filter(blocks).map(|holder| {
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
        index.name,
        table.schema,
        table.name,
        monitor_mode(&lock.what),
        data_of(table, index, &lock.what),
    ))
}

/// The open transactions in SHOW ENGINE INNODB STATUS, with their locks.
pub(crate) fn transactions_text(instance: &Instance) -> String {
    let indexes = indexes(instance);
    let mut out = String::new();
    let now = instance.now_micros();
    for process in instance.registry.list() {
        let detail = process.detail();
        let Some(started) = detail.transaction else {
            continue;
        };
        let seconds = (now - started).max(0) / 1_000_000;
        let (id, locks) = (process.id, process.locks(MAX_LOCKS));
        let is_waiting = locks.iter().any(|lock| !lock.is_granted);
        let wait = if is_waiting { "LOCK WAIT " } else { "" };
        let held = locks.len();
        let _ = writeln!(
            out,
            "---TRANSACTION {id}, ACTIVE {seconds} sec\n{wait}{held} lock struct(s), heap size 0, {held} row lock(s)\n\
             MySQL thread id {id}, OS thread handle 0, query id 0 {} {} {}",
            process.host(),
            detail.user,
            detail.state,
        );
        if let Some(statement) = &detail.info {
            let _ = writeln!(out, "{statement}");
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
    for (waiter, blocker) in waits(instance) {
        let _ = writeln!(out, "TRANSACTION {} WAITS FOR {}", waiter.id, blocker.id);
    }
    out
}
