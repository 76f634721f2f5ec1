//! The replicas that have registered, and the consumers that get a stream.
//!
//! Neighbours: [`dump`](super::dump) registers; SHOW REPLICAS lists. **Invariants**: an entry goes with its connection;
//! one server id has one entry, the newest.

use std::collections::BTreeMap;
use std::sync::Arc;

use esker_types::Value;
use parking_lot::Mutex;

use crate::show::{Table, t};

/// A replica, as it describes itself.
#[derive(Debug, Clone)]
pub(super) struct Registered {
    pub(super) server_id: u32,
    pub(super) host: String,
    pub(super) port: u16,
    pub(super) uuid: String,
}

/// Who has a stream: the UUID counts, without one the server id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Consumer {
    pub(super) server_id: u32,
    pub(super) uuid: String,
}

impl Consumer {
    /// Would it be confused with the other one? A tool that gives no identity is never.
    fn is_same(&self, other: &Self) -> bool {
        match (self.uuid.is_empty(), other.uuid.is_empty()) {
            (false, false) => self.uuid == other.uuid,
            (true, true) => self.server_id == other.server_id && self.server_id != 0,
            _ => false,
        }
    }
}

/// A stream that goes on.
struct Entry {
    consumer: Consumer,
    /// The same consumer has begun another one since.
    is_superseded: bool,
}

/// The streams by connection.
type Entries = Mutex<BTreeMap<u64, Entry>>;

/// All of them, by connection.
#[derive(Default)]
pub(crate) struct Replicas {
    registered: Mutex<BTreeMap<u64, Registered>>,
    streaming: Arc<Entries>,
}

/// A stream goes on.
pub(super) struct Streaming {
    all: Arc<Entries>,
    connection: u64,
}

impl Streaming {
    /// Has the consumer begun another stream?
    pub(super) fn is_superseded(&self) -> bool {
        let all = self.all.lock();
        all.get(&self.connection)
            .is_some_and(|entry| entry.is_superseded)
    }
}

impl Drop for Streaming {
    fn drop(&mut self) {
        self.all.lock().remove(&self.connection);
    }
}

impl Replicas {
    pub(super) fn register(&self, connection: u64, replica: Registered) {
        let mut registered = self.registered.lock();
        registered.retain(|_, other| other.server_id != replica.server_id);
        registered.insert(connection, replica);
    }

    /// The connection has ended.
    pub(crate) fn forget(&self, connection: u64) {
        self.registered.lock().remove(&connection);
    }

    /// A stream begins. Also the connections that had one for the same consumer.
    pub(super) fn begin_stream(
        &self,
        connection: u64,
        consumer: Consumer,
    ) -> (Streaming, Vec<u64>) {
        let mut streaming = self.streaming.lock();
        let mut before = Vec::new();
        for (id, entry) in streaming.iter_mut() {
            if *id != connection && consumer.is_same(&entry.consumer) {
                entry.is_superseded = true;
                before.push(*id);
            }
        }
        let entry = Entry {
            consumer,
            is_superseded: false,
        };
        streaming.insert(connection, entry);
        let all = Arc::clone(&self.streaming);
        (Streaming { all, connection }, before)
    }

    /// SHOW REPLICAS, or SHOW SLAVE HOSTS with its old names.
    pub(crate) fn show(&self, source_id: u64, old_names: bool) -> Table {
        let columns = match old_names {
            true => ["Server_id", "Host", "Port", "Master_id", "Slave_UUID"],
            false => ["Server_Id", "Host", "Port", "Source_Id", "Replica_UUID"],
        };
        let mut rows: Vec<_> = self.registered.lock().values().cloned().collect();
        rows.sort_by_key(|replica| replica.server_id);
        let row = |replica: Registered| {
            vec![
                Value::UInt(replica.server_id.into()),
                t(replica.host),
                Value::UInt(replica.port.into()),
                Value::UInt(source_id),
                t(replica.uuid),
            ]
        };
        let rows = rows.into_iter().map(row).collect();
        let numbers = [columns[0], columns[2], columns[3]];
        Table::mixed(&columns, &numbers, rows)
    }
}
