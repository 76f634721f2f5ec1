//! What delimits transactions in a stream of events: positions, and the statements that begin and end them.
//!
//! Neighbours: `assemble` gathers transactions by it, `relay::track` knows by it where the last whole one ends.
//! **Invariants**: both see the same transactions, so what the relay log keeps at a start is what the applier gets.

use crate::event::{FLAG_ARTIFICIAL, Header};

/// The source's position behind an event. Events have 32 bits of it; files may be longer.
pub(crate) fn position_behind(before: u64, header: &Header) -> u64 {
    if header.end == 0 || header.stamp.flags & FLAG_ARTIFICIAL != 0 {
        return before;
    }
    let at = before & !u64::from(u32::MAX) | u64::from(header.end);
    let has_wrapped = before > at && before - at > 1 << 31;
    if has_wrapped { at + (1 << 32) } else { at }
}

/// What the text of a statement means for the transaction it stands in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Delimiter {
    /// BEGIN.
    Begin,
    /// XA START, which belongs to what it begins.
    XaStart,
    /// COMMIT.
    Commit,
    /// ROLLBACK.
    Rollback,
    /// Anything else: alone, it is a transaction.
    Statement,
}

impl Delimiter {
    pub(crate) fn of(text: &[u8]) -> Self {
        let is = |word: &str| text.eq_ignore_ascii_case(word.as_bytes());
        match () {
            () if is("BEGIN") => Self::Begin,
            () if starts_with(text, "XA START ") || starts_with(text, "XA BEGIN ") => Self::XaStart,
            () if is("COMMIT") => Self::Commit,
            () if is("ROLLBACK") => Self::Rollback,
            () => Self::Statement,
        }
    }
}

/// Does the text begin with these words?
pub(crate) fn starts_with(text: &[u8], words: &str) -> bool {
    let head = text.get(..words.len());
    head.is_some_and(|head| head.eq_ignore_ascii_case(words.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::Stamp;

    #[test]
    fn positions_go_on_beyond_4_gib() {
        let behind = |before, end, flags| {
            let stamp = Stamp {
                timestamp: 0,
                server_id: 1,
                flags,
            };
            position_behind(
                before,
                &Header {
                    kind: 2,
                    stamp,
                    length: 19,
                    end,
                },
            )
        };
        assert_eq!(behind(100, 200, 0), 200);
        assert_eq!(behind((1 << 32) - 10, 90, 0), (1 << 32) + 90);
        assert_eq!(behind((1 << 32) + 90, 190, 0), (1 << 32) + 190);
        assert_eq!(behind(100, 0, 0), 100);
        assert_eq!(behind(100, 200, FLAG_ARTIFICIAL), 100);
    }

    #[test]
    fn statements_delimit_transactions() {
        assert_eq!(Delimiter::of(b"begin"), Delimiter::Begin);
        assert_eq!(Delimiter::of(b"XA START X'61',X'',1"), Delimiter::XaStart);
        assert_eq!(Delimiter::of(b"COMMIT"), Delimiter::Commit);
        assert_eq!(Delimiter::of(b"Rollback"), Delimiter::Rollback);
        assert_eq!(Delimiter::of(b"ROLLBACK TO a"), Delimiter::Statement);
    }
}
