//! Statistics of statements: what ran how often, how long, and with what result.
//!
//! Neighbours: a session measures its statements (`session::measure`) and adds them here; PERFORMANCE_SCHEMA shows
//! them. Parts: `sums` (what is added up) · `histogram` (latencies) · `digests` (by text without literals) · `history`
//! (the last statements of a session, and its sums by command).
//! **Invariants**
//! - Nothing is kept of a statement whose session was not measuring when it began.
//! - Memory is bounded: by [`MAX_DIGESTS`] texts of at most [`MAX_TEXT`] bytes, and [`HISTORY`] statements a session.
//! - A session adds to a shard that it shares with few others, so that many sessions that run one statement do not
//!   write one cache line.

mod digests;
mod histogram;
mod history;
mod sums;

pub(crate) use digests::{Digest, Digests};
pub(crate) use histogram::{BUCKETS, Histogram, bucket_ends, quantile};
pub(crate) use history::{ByCommand, History, Past, merge};
pub(crate) use sums::{Measured, Sums};

/// Texts that are told apart; what is behind goes to one entry without a text.
pub(crate) const MAX_DIGESTS: usize = 10_000;

/// Bytes of a statement's text that are kept, with and without its literals.
pub(crate) const MAX_TEXT: usize = 1024;

/// Statements of a session that are remembered.
pub(crate) const HISTORY: usize = 10;

/// The beginning of a text, at most [`MAX_TEXT`] bytes of whole characters.
pub(crate) fn beginning(text: &str) -> &str {
    &text[..text.floor_char_boundary(MAX_TEXT)]
}
