//! Other sources that a channel may go over to (`SOURCE_CONNECTION_AUTO_FAILOVER`).
//!
//! Neighbours: functions of SQL change the lists, which are among a channel's settings; the server's receiver asks for
//! the next one when its attempts are used up. **Invariants**: the list is sorted, the heaviest first; a source is
//! tried once a round, and rounds go on until events come.

use esker_types::ctx::{ListedSource, SourceChange};
use esker_types::{SqlResult, errors};

use super::channel::Channel;
use super::settings::OtherSource;
use crate::instance::Instance;
use crate::session::SessionContext;

/// Most sources of a channel.
const MAX_SOURCES: usize = 1024;

/// Why lists are not emptied.
const IS_RUNNING: &str = "Can't execute the given operation while Replication channels configured with \
                          SOURCE_CONNECTION_AUTO_FAILOVER are running.";

impl SessionContext {
    /// Changes the sources that channels may go over to. False: one is listed already, or not at all.
    ///
    /// # Errors
    /// 1227; 1123: a channel that goes over runs while all are to go; those of the engine.
    pub(crate) fn change_listed_sources(&self, change: &SourceChange) -> SqlResult<bool> {
        self.require_any(&["SUPER", "REPLICATION_SLAVE_ADMIN"])?;
        match change {
            SourceChange::Add(source, weight) => self.change_list(source, |list, one| {
                let is_new = !list.iter().any(|known| is_one(known, one));
                let fits = is_new && list.len() < MAX_SOURCES;
                if fits {
                    list.push(OtherSource {
                        host: one.host.clone(),
                        port: one.port,
                        weight: *weight,
                    });
                    list.sort_by_key(|source| u8::MAX - source.weight);
                }
                fits
            }),
            SourceChange::Delete(source) => self.change_list(source, |list, one| {
                let before = list.len();
                list.retain(|known| !is_one(known, one));
                list.len() < before
            }),
            SourceChange::Reset => {
                let channels = self.instance.channels.all();
                if channels.iter().any(|channel| channel.may_go_over_now()) {
                    let function = "asynchronous_connection_failover_reset";
                    return Err(errors::function_cannot_begin(function, IS_RUNNING));
                }
                for channel in channels {
                    channel.change_sources(&self.instance, |list| {
                        list.clear();
                        true
                    })?;
                }
                Ok(true)
            }
        }
    }

    fn change_list(
        &self,
        source: &ListedSource,
        change: impl FnOnce(&mut Vec<OtherSource>, &ListedSource) -> bool,
    ) -> SqlResult<bool> {
        let Ok(channel) = self.instance.channels.get(&source.channel) else {
            return Ok(false);
        };
        channel.change_sources(&self.instance, |list| change(list, source))
    }
}

fn is_one(known: &OtherSource, one: &ListedSource) -> bool {
    known.host == one.host && known.port == one.port
}

impl Channel {
    /// Changes the list, and keeps it if `change` says that it has changed.
    ///
    /// # Errors
    /// Of the engine.
    fn change_sources(
        &self,
        instance: &Instance,
        change: impl FnOnce(&mut Vec<OtherSource>) -> bool,
    ) -> SqlResult<bool> {
        let _alone = self.lock_settings();
        let mut settings = self.settings();
        let changes = change(&mut settings.sources);
        if changes {
            self.configure(instance, settings)?;
        }
        Ok(changes)
    }

    /// Does it run, receiver or applier, and go over?
    fn may_go_over_now(&self) -> bool {
        self.settings().auto_failover && (self.is_receiving() || self.is_applying())
    }

    /// Goes over to the first listed source that is not among `tried`: from now on it is the channel's. `None`: all
    /// were tried, or the channel does not do that.
    pub(super) fn go_over(
        &self,
        instance: &Instance,
        tried: &[(String, u16)],
    ) -> SqlResult<Option<(String, u16)>> {
        let _alone = self.lock_settings();
        let mut settings = self.settings();
        let is_new = |one: &&OtherSource| !tried.contains(&(one.host.clone(), one.port));
        let next = settings.sources.iter().find(is_new).cloned();
        let Some(next) = next.filter(|_| settings.auto_failover) else {
            return Ok(None);
        };
        settings.host.clone_from(&next.host);
        settings.port = next.port;
        self.configure(instance, settings)?;
        Ok(Some((next.host, next.port)))
    }
}
