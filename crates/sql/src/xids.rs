//! The XA transactions of the whole server: which identifiers are in use, and what the prepared ones keep.
//!
//! Neighbours: `session::xa` runs the statements; the engine keeps the writes and row locks of a prepared
//! transaction, this table its metadata locks; `infoschema` shows it.
//!
//! **Invariants**
//! - An identifier belongs to one transaction at a time, from XA START to its decision.
//! - A prepared transaction keeps the metadata locks of its tables: no schema change comes between it and its
//!   decision, also after a restart. Whoever takes a lock that could conflict with those of a transaction prepared
//!   before the last restart has asked for this table before (see `Instance::xids`).
//! - Of several that decide about the same transaction one does; the others wait for it and do not know it then.
//! - What the table tells follows from the log up to [`XidTable::last_change`]: who shows it waits until the log is
//!   durable so far (`docs/decisions/reader-rule.md`). A transaction about which a decision is being logged is shown
//!   as prepared, which it is until then.

use esker_types::hex::lower_hex;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use esker_engine::{Engine, Namespace, PreparedId, Seq, TreeId};
use esker_sql_catalog::catalog::Catalog;
use esker_sql_catalog::mdl::{LockSet, MdlDuration, MdlMode, MdlObject};
use esker_sql_syntax::ast::Xid;
use parking_lot::{Condvar, Mutex};

/// The identifier as the engine knows it: format id (8 bytes, big-endian), length of the global part (1 byte), the
/// global part, the branch part.
pub(crate) fn encode(xid: &Xid) -> PreparedId {
    let mut out = Vec::with_capacity(9 + xid.gtrid.len() + xid.bqual.len());
    out.extend_from_slice(&xid.format.to_be_bytes());
    out.push(u8::try_from(xid.gtrid.len()).expect("the parser keeps the limit"));
    out.extend_from_slice(&xid.gtrid);
    out.extend_from_slice(&xid.bqual);
    PreparedId::xa(&out)
}

/// The opposite of [`encode`]; None for what is no identifier.
fn decode(bytes: &[u8]) -> Option<Xid> {
    let (format, rest) = bytes.split_first_chunk::<8>()?;
    let (gtrid_bytes, rest) = rest.split_first()?;
    let (gtrid, bqual) = rest.split_at_checked(usize::from(*gtrid_bytes))?;
    let fits = gtrid.len() <= Xid::MAX_PART && bqual.len() <= Xid::MAX_PART;
    fits.then(|| Xid {
        gtrid: gtrid.to_vec(),
        bqual: bqual.to_vec(),
        format: u64::from_be_bytes(*format),
    })
}

/// The identifier as XA statements take it: `X'6731',X'6231',1`.
pub(crate) fn literal(xid: &Xid) -> String {
    format!(
        "X'{}',X'{}',{}",
        lower_hex(&xid.gtrid),
        lower_hex(&xid.bqual),
        xid.format
    )
}

/// A transaction that waits for its decision.
struct PreparedXa {
    seq: Seq,
    /// Given back when this value goes.
    _locks: LockSet,
    /// Who prepared it; None after a restart.
    user: Option<String>,
    since_micros: i64,
    /// The session that may decide alone, while it lives (`xa_detach_on_prepare` = OFF).
    attached: Option<u64>,
    /// It is in the binary log, or will be: then so is its decision.
    is_logged: bool,
    /// A decision is being logged.
    deciding: bool,
}

enum Slot {
    /// A session works in it.
    Open {
        session: u64,
    },
    Prepared(Box<PreparedXa>),
}

/// Whether a transaction may be decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Claim {
    /// By the caller, who says how it ended: [`XidTable::decided`] or [`XidTable::undecided`].
    Yes {
        /// The binary log has the transaction.
        is_logged: bool,
    },
    /// Another session is at it; ask again after [`XidTable::await_decision`].
    Busy,
    /// There is none for the caller.
    Unknown,
}

/// What is shown of a prepared transaction.
pub(crate) struct PreparedInfo {
    pub(crate) xid: Xid,
    /// Sequence of the prepare record.
    seq: Seq,
    /// Who prepared it; None after a restart.
    pub(crate) user: Option<String>,
    /// When, or when the server started; microseconds since the epoch.
    pub(crate) since_micros: i64,
}

/// All identifiers in use.
pub(crate) struct XidTable {
    slots: Mutex<HashMap<Xid, Slot>>,
    /// The end of a decision.
    ended: Condvar,
    /// Sequence of the last preparation or decision; written under the mutex.
    last_change: AtomicU64,
}

impl XidTable {
    /// The transactions that the engine has found prepared, with the metadata locks of their tables.
    pub(crate) fn recover(engine: &Engine, catalog: &Catalog, started_micros: i64) -> Self {
        let tables = TablesByTree::new(catalog);
        let mut slots = HashMap::new();
        let prepared = engine.prepared().into_iter();
        let of_clients = prepared.filter(|(id, _)| id.namespace() == Namespace::Xa);
        for (id, seq) in of_clients {
            let Some(xid) = decode(id.bytes()) else {
                // It keeps its rows locked, and nobody can name it: that must not go unnoticed.
                tracing::error!(seq, "a prepared transaction has no XA identifier: {id:?}");
                continue;
            };
            let prepared = PreparedXa {
                seq,
                _locks: tables.lock(catalog, &engine.trees_of_prepared(&id)),
                user: None,
                since_micros: started_micros,
                attached: None,
                is_logged: !engine.is_prepared_silently(&id),
                deciding: false,
            };
            slots.insert(xid, Slot::Prepared(Box::new(prepared)));
        }
        Self {
            slots: Mutex::new(slots),
            ended: Condvar::new(),
            last_change: AtomicU64::new(0),
        }
    }

    /// What the table tells follows from the log up to here.
    pub(crate) fn last_change(&self) -> Seq {
        self.last_change.load(Ordering::Acquire)
    }

    /// Takes an identifier for a session; false if it is in use.
    pub(crate) fn open(&self, xid: &Xid, session: u64) -> bool {
        let mut slots = self.slots.lock();
        if slots.contains_key(xid) {
            return false;
        }
        slots.insert(xid.clone(), Slot::Open { session });
        true
    }

    /// The session is done with its transaction: the identifier is free, or, if it is prepared, anybody's.
    pub(crate) fn close(&self, xid: &Xid) {
        let mut slots = self.slots.lock();
        match slots.get_mut(xid) {
            Some(Slot::Prepared(prepared)) => prepared.attached = None,
            Some(Slot::Open { .. }) => {
                slots.remove(xid);
            }
            None => (),
        }
    }

    /// The transaction that a session had open is prepared now. `attached`: the session that keeps it; `is_logged`: the
    /// binary log has it.
    pub(crate) fn prepared(
        &self,
        xid: &Xid,
        (seq, is_logged): (Seq, bool),
        locks: LockSet,
        by: (String, i64),
        attached: Option<u64>,
    ) {
        let prepared = PreparedXa {
            seq,
            _locks: locks,
            user: Some(by.0),
            since_micros: by.1,
            attached,
            is_logged,
            deciding: false,
        };
        let mut slots = self.slots.lock();
        self.last_change.fetch_max(seq, Ordering::Release);
        let before = slots.insert(xid.clone(), Slot::Prepared(Box::new(prepared)));
        debug_assert!(matches!(before, Some(Slot::Open { .. })));
    }

    /// Claims a prepared transaction for a decision of `session`.
    pub(crate) fn claim(&self, xid: &Xid, session: u64) -> Claim {
        match self.slots.lock().get_mut(xid) {
            Some(Slot::Prepared(p)) if p.attached.is_none_or(|keeper| keeper == session) => {
                match std::mem::replace(&mut p.deciding, true) {
                    false => Claim::Yes {
                        is_logged: p.is_logged,
                    },
                    true => Claim::Busy,
                }
            }
            _ => Claim::Unknown,
        }
    }

    /// Parks until nobody is deciding about the transaction. That is soon: a decision does not wait for the disk.
    pub(crate) fn await_decision(&self, xid: &Xid) {
        let busy = |slots: &mut HashMap<Xid, Slot>| matches!(slots.get(xid), Some(Slot::Prepared(p)) if p.deciding);
        let mut slots = self.slots.lock();
        self.ended.wait_while(&mut slots, busy);
    }

    /// The decision is in the log at `seq` and in effect: the identifier is free, the metadata locks go.
    pub(crate) fn decided(&self, xid: &Xid, seq: Seq) {
        let mut slots = self.slots.lock();
        self.last_change.fetch_max(seq, Ordering::Release);
        let gone = slots.remove(xid);
        self.ended.notify_all();
        drop(slots);
        debug_assert!(matches!(gone, Some(Slot::Prepared(p)) if p.deciding));
    }

    /// The decision could not be logged.
    pub(crate) fn undecided(&self, xid: &Xid) {
        if let Some(Slot::Prepared(prepared)) = self.slots.lock().get_mut(xid) {
            prepared.deciding = false;
        }
        self.ended.notify_all();
    }

    /// The prepared transactions, in the order in which they were prepared.
    pub(crate) fn list(&self) -> Vec<PreparedInfo> {
        let slots = self.slots.lock();
        let prepared = slots.iter().filter_map(|(xid, slot)| match slot {
            Slot::Prepared(p) => Some(PreparedInfo {
                xid: xid.clone(),
                seq: p.seq,
                user: p.user.clone(),
                since_micros: p.since_micros,
            }),
            Slot::Open { .. } => None,
        });
        let mut list: Vec<PreparedInfo> = prepared.collect();
        drop(slots);
        list.sort_unstable_by_key(|p| p.seq);
        list
    }

    /// The identifiers that sessions work in, by session.
    pub(crate) fn open_by_session(&self) -> HashMap<u64, Xid> {
        let slots = self.slots.lock();
        let open = slots.iter().filter_map(|(xid, slot)| match slot {
            Slot::Open { session } => Some((*session, xid.clone())),
            Slot::Prepared(_) => None,
        });
        open.collect()
    }
}

/// Which table's metadata lock guards a tree.
struct TablesByTree(HashMap<TreeId, Arc<MdlObject>>);

impl TablesByTree {
    fn new(catalog: &Catalog) -> Self {
        let snapshot = catalog.snapshot();
        let trees = snapshot
            .tables()
            .flat_map(|table| table.indexes.iter().map(|i| (i.id, table.mdl.clone())));
        Self(trees.collect())
    }

    /// Locks the tables of these trees, as the transaction had them locked when it was prepared.
    fn lock(&self, catalog: &Catalog, trees: &[TreeId]) -> LockSet {
        let mut locks = LockSet::new(catalog.locks());
        for object in trees.iter().filter_map(|tree| self.0.get(tree)) {
            let granted = locks.try_acquire(object, MdlMode::SharedWrite, MdlDuration::Transaction);
            assert!(
                granted,
                "locks that conflict are taken only after this table is there"
            );
        }
        locks
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use esker_sql_catalog::mdl::MetadataLocks;

    fn xid(gtrid: &[u8], bqual: &[u8], format: u64) -> Xid {
        Xid {
            gtrid: gtrid.to_vec(),
            bqual: bqual.to_vec(),
            format,
        }
    }

    fn table() -> XidTable {
        XidTable {
            slots: Mutex::default(),
            ended: Condvar::new(),
            last_change: AtomicU64::new(0),
        }
    }

    fn prepare(table: &XidTable, xid: &Xid, seq: Seq, attached: Option<u64>) {
        assert!(table.open(xid, 1));
        let locks = LockSet::new(&MetadataLocks::new());
        table.prepared(xid, (seq, true), locks, ("u".into(), 5), attached);
    }

    #[test]
    fn identifiers_survive_their_encoding() {
        for x in [
            xid(b"", b"", 0),
            xid(b"g", b"", 1),
            xid(b"", b"b", i64::MAX as u64),
            xid(&[0xff; 64], &[0; 64], 0x1234_5678_9abc),
        ] {
            assert_eq!(decode(encode(&x).bytes()), Some(x));
        }
        assert_ne!(encode(&xid(b"ab", b"c", 1)), encode(&xid(b"a", b"bc", 1)));
        for bad in [
            &b""[..],
            b"1234567",
            b"12345678",
            b"12345678\x02a",
            &[0; 80],
        ] {
            assert_eq!(decode(bad), None, "{bad:?}");
        }
        assert_eq!(literal(&xid(b"g1", b"\x00\xff", 7)), "X'6731',X'00ff',7");
    }

    #[test]
    fn an_identifier_is_one_transaction_s_until_it_is_decided() {
        let (table, x) = (table(), xid(b"g", b"b", 1));
        assert!(table.open(&x, 1));
        assert!(!table.open(&x, 2), "in use");
        assert!(table.open(&xid(b"g", b"b", 2), 2), "another format");
        assert_eq!(table.claim(&x, 1), Claim::Unknown, "not prepared");
        table.close(&x);
        prepare(&table, &x, 10, None);
        assert_eq!(table.last_change(), 10);
        table.close(&x);
        assert!(!table.open(&x, 2), "prepared");
        assert_eq!(table.claim(&x, 2), Claim::Yes { is_logged: true });
        assert_eq!(table.claim(&x, 3), Claim::Busy);
        assert!(!table.open(&x, 3));
        assert_eq!(table.list().len(), 1, "it is prepared until it is decided");
        table.undecided(&x);
        assert_eq!(table.claim(&x, 3), Claim::Yes { is_logged: true });
        table.decided(&x, 12);
        assert_eq!(table.last_change(), 12);
        assert_eq!(table.claim(&x, 3), Claim::Unknown);
        assert!(table.open(&x, 3));
    }

    #[test]
    fn an_attached_transaction_is_decided_by_its_session_alone() {
        let (table, x) = (table(), xid(b"g", b"", 1));
        prepare(&table, &x, 10, Some(1));
        assert_eq!(table.claim(&x, 2), Claim::Unknown);
        assert_eq!(table.claim(&x, 1), Claim::Yes { is_logged: true });
        table.undecided(&x);
        table.close(&x);
        assert_eq!(table.claim(&x, 2), Claim::Yes { is_logged: true });
    }

    #[test]
    fn who_comes_during_a_decision_waits_for_its_end() {
        let (table, x) = (table(), xid(b"g", b"", 1));
        prepare(&table, &x, 10, None);
        assert_eq!(table.claim(&x, 1), Claim::Yes { is_logged: true });
        std::thread::scope(|scope| {
            let waiter = scope.spawn(|| {
                table.await_decision(&x);
                (table.claim(&x, 2), table.last_change())
            });
            std::thread::sleep(std::time::Duration::from_millis(20));
            assert!(!waiter.is_finished());
            table.decided(&x, 11);
            assert_eq!(waiter.join().unwrap(), (Claim::Unknown, 11));
        });
    }

    #[test]
    fn the_list_is_in_the_order_of_preparation() {
        let table = table();
        for seq in [30, 10, 20] {
            prepare(&table, &xid(&[seq as u8], b"", 1), seq, None);
        }
        assert!(table.open(&xid(b"open", b"", 1), 9));
        let seqs: Vec<Seq> = table.list().iter().map(|p| p.seq).collect();
        assert_eq!(seqs, [10, 20, 30]);
        assert_eq!(table.open_by_session()[&9].gtrid, b"open");
    }
}
