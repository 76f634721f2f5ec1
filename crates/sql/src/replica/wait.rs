//! SOURCE_POS_WAIT: waiting until a channel has applied everything before a place in its source's log.
//!
//! Neighbours: `channel` says how far it is; the session's functions ask. **Invariant**: the wait ends when the applier
//! does, when the statement is killed, and when its time is over.

use std::time::{Duration, Instant};

use esker_types::SqlResult;
use esker_types::ctx::SourceWait;

use super::channel::Channel;
use crate::session::SessionContext;

/// Whoever waits looks this often.
const WAIT_STEP: Duration = Duration::from_millis(20);

/// The place up to which a channel has applied; `None`: it applies nothing.
fn applied(channel: &Channel) -> Option<(String, u64)> {
    let status = channel.view().applier.filter(|status| status.is_running)?;
    Some((status.passed.source_file, status.passed.source_pos))
}

/// A log file's name before its number, and the number.
fn parts(file: &str) -> Option<(&str, u64)> {
    let (base, number) = file.rsplit_once('.')?;
    Some((base, number.parse().ok()?))
}

impl SessionContext {
    /// How often what is applied advanced until the place was reached; -1: not in time; `None`: there is no such
    /// channel or place, it applies nothing, or nothing of files of this name.
    ///
    /// # Errors
    /// 3079: one of several channels is not named; the statement was killed.
    pub(crate) fn wait_for_channel(&self, wait: &SourceWait) -> SqlResult<Option<i64>> {
        let channels = &self.instance.channels;
        if wait.channel.is_none() {
            channels.admit_unnamed()?;
        }
        let name = wait.channel.as_deref().unwrap_or_default();
        let (Ok(channel), Ok(position)) = (channels.get(name), u64::try_from(wait.position)) else {
            return Ok(None);
        };
        let Some((wanted_base, wanted_number)) = parts(&wait.file) else {
            return Ok(None);
        };
        let begun = Instant::now();
        let (mut last, mut advanced) = (None, 0);
        loop {
            let Some((file, at)) = applied(&channel) else {
                return Ok(None);
            };
            // Nothing has come yet while it has no name.
            let here = match parts(&file) {
                Some((base, _)) if base != wanted_base => return Ok(None),
                Some((_, number)) => (number, at),
                None => (0, 0),
            };
            if last
                .as_ref()
                .is_some_and(|last| *last != (file.clone(), at))
            {
                advanced += 1;
            }
            if here >= (wanted_number, position) {
                return Ok(Some(advanced));
            }
            last = Some((file, at));
            self.check()?;
            let waited = begun.elapsed().as_secs_f64();
            if wait.at_most_secs.is_some_and(|most| waited >= most) {
                return Ok(Some(-1));
            }
            std::thread::sleep(WAIT_STEP);
        }
    }
}
