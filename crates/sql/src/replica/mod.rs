//! Replication channels: where their source is, what has been received, and how far it is applied.
//!
//! In flow order: `settings` (what CHANGE REPLICATION SOURCE and FILTER say, and its form in the catalog), `reception`
//! (what a receiver and its channel know of each other), `channel` (a channel: relay log, receiver, applier),
//! `statements` (of sessions), `status` (SHOW REPLICA STATUS), `wait` (SOURCE_POS_WAIT). Neighbours: the server's
//! receivers have the sockets and are begun through [`Host`](crate::Host); [`applier`](crate::applier) applies.
//! Reasons: `docs/decisions/replica.md`.
//!
//! **Invariants**
//! - Passwords are in the catalog alone: nothing shows or logs them.
//! - A channel has at most one receiver and one applier; whoever starts or stops them holds the channel's lock.

mod channel;
mod reception;
mod settings;
mod statements;
mod status;
mod wait;

use std::collections::BTreeMap;
use std::sync::Arc;

use esker_types::{SqlError, SqlResult, errors};
use parking_lot::Mutex;

pub(crate) use channel::{Channel, ChannelView};
pub use reception::{ReceiverState, Reception, StartFrom};
pub use settings::ChannelSettings;

use crate::applier;
use crate::instance::Instance;

/// Most channels of a server, as MySQL.
const MAX_CHANNELS: usize = 256;

/// All channels by name; the default one has the empty name.
#[derive(Default)]
pub(crate) struct Channels(Mutex<BTreeMap<String, Arc<Channel>>>);

impl Channels {
    pub(crate) fn all(&self) -> Vec<Arc<Channel>> {
        self.0.lock().values().cloned().collect()
    }

    /// # Errors
    /// 3074.
    pub(crate) fn get(&self, name: &str) -> SqlResult<Arc<Channel>> {
        let found = self.0.lock().get(name).cloned();
        found.ok_or_else(|| does_not_exist(name))
    }

    fn add(&self, channel: Arc<Channel>) -> SqlResult<()> {
        let mut all = self.0.lock();
        if all.len() >= MAX_CHANNELS {
            let text =
                "Failed to create or recover replication info repositories: too many channels";
            return Err(errors::channel_failed(text));
        }
        all.insert(channel.name().to_owned(), channel);
        Ok(())
    }

    fn remove(&self, name: &str) -> Option<Arc<Channel>> {
        self.0.lock().remove(name)
    }
}

/// 3074.
fn does_not_exist(name: &str) -> SqlError {
    let text = format!("Replica channel '{name}' does not exist.");
    SqlError::new(3074, "HY000", text)
}

impl Instance {
    /// Opens the channels that the database knows, and starts them unless `skip_replica_start` says otherwise. One that
    /// cannot be opened is logged.
    pub fn start_replication(self: &Arc<Self>) {
        let skips = self.variable_is_on("skip_replica_start");
        let names = match applier::channels(self) {
            Ok(names) => names,
            Err(e) => return tracing::error!("replication channels: {}", e.message),
        };
        for name in names {
            let opened = Channel::open(self, &name).and_then(|channel| {
                let Some(channel) = channel else {
                    return Ok(());
                };
                self.channels.add(channel.clone())?;
                match skips {
                    true => Ok(()),
                    false => channel.start(self, true, true, None),
                }
            });
            if let Err(e) = opened {
                tracing::error!("replication channel '{name}': {}", e.message);
            }
        }
    }

    /// Stops all channels, before the database closes.
    pub fn stop_replication(&self) {
        for channel in self.channels.all() {
            channel.close();
        }
    }
}
