//! What may be told to a client: one answer for everybody who asks.
//!
//! Neighbours: `Engine` and `acks` ask before a reply leaves; `log` knows what is durable, `watermark` what is applied.
//!
//! **Invariants**
//! - What may be told survives a crash, and every snapshot that is taken afterwards sees it. Durability alone does not
//!   do: a record can be durable while an earlier one is still being inserted, and a snapshot ends before that.

use super::watermark::Watermark;
use crate::Seq;

/// Everything up to here may be told, where the log is durable up to `durable`, or is not waited for.
#[inline]
pub(crate) fn told_up_to(watermark: &Watermark, durable: Option<Seq>) -> Seq {
    let visible = watermark.visible();
    durable.map_or(visible, |durable| durable.min(visible))
}
