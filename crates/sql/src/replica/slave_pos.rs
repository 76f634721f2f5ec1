//! `gtid_slave_pos`: from where on channels with `MASTER_USE_GTID = slave_pos` ask their sources.
//!
//! Neighbours: `applier::store` keeps it; sessions read and set it. **Invariant**: it is set only while no channel
//! runs.

use esker_binlog::apply::{MariaGtid, MariaGtidSet};
use esker_types::{SqlResult, errors};

use super::statements::must_stop;
use crate::applier;
use crate::instance::Instance;

/// A list of GTIDs, one of each domain.
///
/// # Errors
/// 1941, 1943.
fn parse(text: &str) -> SqlResult<MariaGtidSet> {
    let mut gtids = MariaGtidSet::default();
    if text.is_empty() {
        return Ok(gtids);
    }
    for one in text.split(',') {
        let is_padded = one.ends_with(char::is_whitespace);
        let gtid = one.parse::<MariaGtid>().ok().filter(|_| !is_padded);
        let gtid = gtid.ok_or_else(errors::malformed_gtid_list)?;
        if let Some(other) = gtids.last(gtid.domain) {
            return Err(errors::gtids_of_one_domain(gtid, other, gtid.domain));
        }
        gtids.add(gtid);
    }
    Ok(gtids)
}

impl Instance {
    /// `gtid_slave_pos`. Nothing waits for the disk where channels have been started.
    pub(crate) fn gtid_slave_pos(&self) -> MariaGtidSet {
        let by_channel = || {
            let channels = self.channels.all().into_iter();
            let applied = channels.map(|channel| {
                let applied = channel.applied_maria(self)?;
                SqlResult::Ok((channel.name().to_owned(), applied))
            });
            applied.collect::<SqlResult<_>>()
        };
        let position = by_channel().and_then(|applied| applier::slave_pos_of(self, &applied));
        position.unwrap_or_else(|e| {
            tracing::error!("gtid_slave_pos: {}", e.message);
            MariaGtidSet::default()
        })
    }

    /// SET GLOBAL gtid_slave_pos. Channels that go by it throw away what they have received and not applied, for their
    /// sources are to begin there.
    ///
    /// # Errors
    /// 1941, 1943: it is no list of GTIDs; 3081: a channel runs; of the relay log and the engine.
    pub(crate) fn set_gtid_slave_pos(&self, text: &str) -> SqlResult<()> {
        let gtids = parse(text)?;
        let channels = self.channels.all();
        let _held: Vec<_> = channels.iter().map(|channel| channel.hold()).collect();
        for channel in &channels {
            if channel.is_receiving() || channel.is_applying() {
                return Err(must_stop(channel.name()));
            }
        }
        applier::set_slave_pos(self, gtids)?;
        let mut by_gtid = channels.iter().filter(|c| c.settings().maria_gtid);
        by_gtid.try_for_each(|channel| channel.receive_anew(self))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_read_as_mariadb_reads_them() {
        let read = |text: &str| parse(text).map(|gtids| gtids.to_string());
        assert_eq!(read("").as_deref(), Ok(""));
        assert_eq!(read("1-2-7, 0-1-100").as_deref(), Ok("0-1-100,1-2-7"));
        assert_eq!(read("0-01-007").as_deref(), Ok("0-1-7"));
        let largest = "4294967295-4294967295-18446744073709551615";
        assert_eq!(read(largest).as_deref(), Ok(largest));
        for text in [
            "x",
            "0-1",
            "0-1-2-3",
            "0-1-100,",
            ",0-1-100",
            " 0-1-100 ",
            "   ",
            "0--1-7",
            "4294967296-1-1",
            "0-1-18446744073709551616",
        ] {
            let code = parse(text).expect_err("malformed").code;
            assert_eq!(code, 1941, "{text}");
        }
        let twice = parse("0-1-100,0-2-5").expect_err("two of a domain");
        assert_eq!(
            (twice.code, &*twice.message),
            (
                1943,
                "GTID 0-2-5 and 0-1-100 conflict (duplicate domain id 0)"
            )
        );
    }
}
