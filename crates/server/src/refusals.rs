//! Refused logins in the server's log.
//!
//! Neighbours: `connection` tells every refusal.
//! **Invariants**: lines are bounded ([`LineLimit`]), and what was left out is counted in a later one. Names that
//! guests choose are escaped; nothing of a password is written.

use std::time::Instant;

use esker_sql::{LineLimit, on_one_line};
use esker_types::SqlError;

use crate::socket::Peer;

/// Lines written lately.
#[derive(Default)]
pub(crate) struct Refusals(LineLimit);

impl Refusals {
    /// A client was refused.
    pub(crate) fn tell(&self, peer: Peer, error: &SqlError) {
        let Some(left_out) = self.0.admit(Instant::now()) else {
            return;
        };
        if left_out > 0 {
            tracing::warn!("{left_out} more refused logins are not listed");
        }
        let (code, text) = (error.code, on_one_line(&error.message));
        tracing::warn!("refused a login from {peer}: {text} ({code})");
    }
}
