//! The log buffer: where appenders put records and the flush takes them from.
//!
//! Parts: `ring` (the memory and the publication of records), `decoupled` (who gets which place:
//! Aether's variant D, a short critical section that only reserves, with the fill outside).
//! Another variant is another file with the interface of [`LogBuffer`]; the ring stays.
//!
//! **Invariants**
//! - Places are given in one order without gaps; a place that was given is always filled, or the
//!   log has failed.
//! - The flush takes only what is filled, in order, up to the first place that is not.

mod decoupled;
mod ring;

pub(crate) use decoupled::{Blocked, LogBuffer, Refused};
pub(crate) use ring::RingWriter;
