//! The MySQL client/server protocol as data: bytes to commands, results to bytes. No I/O.
//!
//! Neighbours: `server` owns the sockets and calls this crate; `esker-types` supplies values and static types. The
//! layouts follow MySQL's "Client/Server Protocol" internals manual. In reading order: [`frame`] cuts the byte stream
//! into packets, [`codec`] reads and writes the protocol's integers and strings, [`handshake`] and [`auth`] open a
//! connection, [`command`] parses what a client asks (`params`: values of prepared statements, [`attributes`]: what it
//! says beside), [`response`] and [`row`] encode what it gets, [`client`] is the other end of the line for our own
//! shell; `compress` is the compressed protocol, [`constants`] has bits and codes.

pub mod attributes;
pub mod auth;
pub mod client;
pub mod codec;
pub mod command;
pub mod compress;
pub mod constants;
pub mod frame;
pub mod handshake;
pub mod params;
pub mod response;
pub mod row;

use thiserror::Error;

/// A packet that breaks the protocol.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum WireError {
    /// The packet ended before the field did.
    #[error("malformed packet: truncated {0}")]
    Truncated(&'static str),
    /// A field holds a value the protocol does not know.
    #[error("malformed packet: bad {0}")]
    Bad(&'static str),
    /// A replica says of itself what cannot be kept; MySQL's words.
    #[error("{0}")]
    NotRegistered(&'static str),
    /// A compressed packet does not hold what it says.
    #[error("malformed packet: cannot be uncompressed")]
    Compressed,
    /// A packet is larger than the receiver allows.
    #[error("packet of {got} bytes is larger than the allowed {limit}")]
    TooLarge {
        /// Size announced, in bytes.
        got: usize,
        /// Limit in force, in bytes.
        limit: usize,
        /// Sequence number of an answer, if it follows this packet.
        seq: Option<u8>,
    },
    /// Packets arrived out of order.
    #[error("packets out of order: expected sequence {expected}, got {got}")]
    OutOfOrder {
        /// Sequence number that should have come.
        expected: u8,
        /// Sequence number that came.
        got: u8,
    },
}
