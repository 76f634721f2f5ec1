//! Character sets and collations: comparing, hashing, sort keys, LIKE, case and search.
//!
//! In flow order: `utf8` (the characters of what is inside), `charset` (names, conversion at the edges) with
//! `byte_sets`, `multibyte`, `gb18030` and `wide` (tables and rules of the sets that store something else), `list` and
//! `table` (what exists, by id and name), `aggregate` (which collation an operation uses), `weights`, `alphabets`,
//! `han` and `simple` (frozen weight tables), `order` (comparing, hashing, sort keys), `weight_string` (weights as
//! MySQL shows them), `pattern` (LIKE and LOCATE), `case` (UPPER and LOWER). Neighbours: `cmp` and `func` call it for
//! every string operation, the `sql` crate's key codec stores [`Collation::sort_key`].
//!
//! **Invariants**: `a.compare(b) == sort_key(a).cmp(sort_key(b))` and `eq` implies equal hashes,
//! for any bytes; sort keys are frozen for ever (tables and algorithm), for they are index keys on
//! disk; nothing here panics on malformed UTF-8.

mod aggregate;
mod alphabets;
mod byte_sets;
mod case;
mod charset;
mod gb18030;
mod han;
mod list;
mod multibyte;
mod order;
mod pattern;
mod simple;
mod table;
#[cfg(test)]
mod tests;
mod utf8;
mod weight_string;
mod weights;
mod wide;

use std::borrow::Cow;
use std::cmp::Ordering;
use std::convert::Infallible;
use std::hash::Hasher;

pub use aggregate::{Coercibility, StringOperand, aggregate, aggregate_for, aggregate_operands};
pub use charset::{BadChar, Charset};
pub use list::{Collation, CollationInfo};
pub use utf8::{char_count, char_len, char_offset, valid_utf8};

use crate::ctx::{SessionInfo, Work};
use crate::error::SqlResult;

use alphabets::{AlphabetLevel, AlphabetTable};
use list::{Alphabet, Family};
use simple::SimpleTable;
use weights::{Uca, UcaLevel};

/// The levels of the 0900 collations.
fn levels_900(levels: u8) -> [UcaLevel; 3] {
    debug_assert!((1..=3).contains(&levels));
    [1, 2, 3].map(|level| UcaLevel {
        uca: Uca::v900(),
        level,
    })
}

fn old_level(which: list::OldUca) -> UcaLevel {
    UcaLevel {
        uca: Uca::old(which),
        level: 1,
    }
}

/// The levels of an alphabet; a collation has so many of them.
fn alphabet_levels(alphabet: Alphabet) -> [AlphabetLevel; 4] {
    let table = AlphabetTable::get(alphabet);
    [1, 2, 3, 4].map(|level| AlphabetLevel { table, level })
}

/// Goes on with whatever is short enough.
fn never_ask(_weights: usize) -> Result<(), Infallible> {
    Ok(())
}

impl Collation {
    /// Are a string's bytes the same here and in `other`? Inside, texts are UTF-8, whatever their character set stores.
    pub fn same_bytes(self, other: Self) -> bool {
        match (self.charset(), other.charset()) {
            (text, Charset::Binary) | (Charset::Binary, text) => text.stores_utf8(),
            _ => true,
        }
    }

    /// A string of this collation as an operation in `to` takes it: a text that becomes bytes has those of its own
    /// character set, bytes that become a text are read in that one's.
    pub fn recode<'a>(self, text: Cow<'a, [u8]>, to: Self) -> Cow<'a, [u8]> {
        if self.same_bytes(to) {
            return text;
        }
        let recoded = match to.charset() {
            Charset::Binary => self.charset().encode_lossy(&text),
            charset => charset.decode_lossy(&text),
        };
        match recoded {
            Cow::Owned(recoded) => Cow::Owned(recoded),
            Cow::Borrowed(_) => text,
        }
    }

    /// Order of two strings.
    pub fn compare(self, a: &[u8], b: &[u8]) -> Ordering {
        let Ok(order) = self.compare_asking(a, b, &mut never_ask);
        order
    }

    /// Order of two strings, which may be large.
    ///
    /// # Errors
    /// The statement is killed or out of time.
    pub fn compare_watched(self, a: &[u8], b: &[u8], work: &mut Work<'_>) -> SqlResult<Ordering> {
        self.compare_asking(a, b, &mut |weights| work.done(weights))
    }

    fn compare_asking<E>(
        self,
        a: &[u8],
        b: &[u8],
        ask: &mut impl FnMut(usize) -> Result<(), E>,
    ) -> Result<Ordering, E> {
        match self.family() {
            Family::Bytes => Ok(a.cmp(b)),
            Family::CodePoints => Ok(order::compare_padded_bytes(a, b)),
            Family::Simple(s) => order::compare(SimpleTable::get(s), a, b, true, ask),
            Family::OldUca(u) => order::compare(&old_level(u), a, b, true, ask),
            Family::Uca900(n) => {
                order::compare_levels(&levels_900(n)[..usize::from(n)], a, b, false, ask)
            }
            Family::Alphabet(alphabet, n) => {
                let (levels, pad) = (alphabet_levels(alphabet), !alphabet.is_900());
                order::compare_levels(&levels[..usize::from(n)], a, b, pad, ask)
            }
        }
    }

    /// Are two strings equal?
    pub fn eq(self, a: &[u8], b: &[u8]) -> bool {
        a == b || (self.family() != Family::Bytes && self.compare(a, b) == Ordering::Equal)
    }

    /// Feeds `hasher` such that equal strings hash equally.
    pub fn hash(self, s: &[u8], hasher: &mut impl Hasher) {
        hasher.write_u64(self.hash64(s));
    }

    /// 64 bit hash, equal for equal strings; not stable between versions.
    pub fn hash64(self, s: &[u8]) -> u64 {
        let mut hash = order::Hash::new();
        match self.family() {
            Family::Bytes => return hash.bytes(s),
            Family::CodePoints => return hash.bytes(order::trim_spaces(s)),
            Family::Simple(t) => hash.level(SimpleTable::get(t), s, true),
            Family::OldUca(u) => hash.level(&old_level(u), s, true),
            Family::Uca900(n) => {
                levels_900(n)[..usize::from(n)]
                    .iter()
                    .for_each(|l| hash.level(l, s, false));
            }
            Family::Alphabet(alphabet, n) => {
                let (levels, pad) = (alphabet_levels(alphabet), !alphabet.is_900());
                levels[..usize::from(n)]
                    .iter()
                    .for_each(|l| hash.level(l, s, pad));
            }
        }
        hash.finish()
    }

    /// Appends the sort key of `s`: bytes whose order is that of [`Self::compare`]. Frozen for ever.
    pub fn sort_key(self, s: &[u8], out: &mut Vec<u8>) {
        let Ok(()) = self.sort_key_asking(s, out, &mut never_ask);
    }

    /// Appends what the sort keys of all strings that begin with `s`, which does not end with a space, begin with. Of
    /// several levels it is the first one.
    pub fn prefix_key(self, s: &[u8], out: &mut Vec<u8>) {
        match self.family() {
            Family::Uca900(_) => {
                let Ok(()) = order::key_no_pad(&levels_900(1)[0], s, out, &mut never_ask);
                return;
            }
            Family::Alphabet(alphabet, _) if alphabet.is_900() => {
                let level = alphabet_levels(alphabet)[0];
                let Ok(()) = order::key_no_pad(&level, s, out, &mut never_ask);
                return;
            }
            _ => self.sort_key(s, out),
        }
        // Padded keys end with a weight of their own.
        let end = match self.family() {
            Family::Bytes | Family::Uca900(_) => 0,
            Family::Alphabet(alphabet, _) => order::unit_len(&alphabet_levels(alphabet)[0]),
            Family::CodePoints => 1,
            Family::Simple(s) => order::unit_len(SimpleTable::get(s)),
            Family::OldUca(u) => order::unit_len(&old_level(u)),
        };
        debug_assert!(end <= out.len());
        out.truncate(out.len() - end);
    }

    /// Does a text sort before another one only if each of its beginnings does, or is equal? Not where a letter may be
    /// several characters, nor where cases and accents count behind all letters.
    pub fn orders_by_prefix(self) -> bool {
        !matches!(self.family(), Family::Alphabet(..) | Family::Uca900(2..))
    }

    /// The start of a text which, whatever follows, decides how the sort keys of all texts begin that LIKE finds with
    /// it as their beginning.
    pub fn certain_prefix(self, s: &[u8]) -> &[u8] {
        match self.family() {
            Family::Alphabet(alphabet, _) => AlphabetTable::get(alphabet).certain_prefix(s),
            _ => s,
        }
    }

    fn sort_key_asking<E>(
        self,
        s: &[u8],
        out: &mut Vec<u8>,
        ask: &mut impl FnMut(usize) -> Result<(), E>,
    ) -> Result<(), E> {
        match self.family() {
            Family::Bytes => out.extend_from_slice(s),
            Family::CodePoints => order::key_padded_bytes(s, out),
            Family::Simple(t) => order::key_padded(SimpleTable::get(t), s, out, ask)?,
            Family::OldUca(u) => order::key_padded(&old_level(u), s, out, ask)?,
            Family::Uca900(n) => {
                order::key_of_levels(&levels_900(n)[..usize::from(n)], s, out, ask)?;
            }
            Family::Alphabet(alphabet, n) => {
                let levels = alphabet_levels(alphabet);
                match alphabet.is_900() {
                    true => order::key_of_levels(&levels[..usize::from(n)], s, out, ask)?,
                    false => order::key_padded(&levels[0], s, out, ask)?,
                }
            }
        }
        Ok(())
    }

    /// `text LIKE pattern ESCAPE escape` (`None`: no escape character).
    ///
    /// # Errors
    /// The statement may not go on.
    pub fn like(
        self,
        text: &[u8],
        pattern: &[u8],
        escape: Option<char>,
        session: &dyn SessionInfo,
    ) -> SqlResult<bool> {
        use pattern::{ByteChars, ExactChars, Weighted, like};
        let mut work = Work::new(session);
        let work = &mut work;
        match self.family() {
            Family::Bytes if self.is_binary() => like(&ByteChars, text, pattern, escape, work),
            Family::Bytes | Family::CodePoints => like(&ExactChars, text, pattern, escape, work),
            Family::Simple(s) => {
                let levels = Weighted(std::slice::from_ref(SimpleTable::get(s)));
                like(&levels, text, pattern, escape, work)
            }
            Family::OldUca(u) => like(&Weighted(&[old_level(u)]), text, pattern, escape, work),
            Family::Uca900(n) => {
                let levels = Weighted(&levels_900(n)[..usize::from(n)]);
                like(&levels, text, pattern, escape, work)
            }
            Family::Alphabet(alphabet, n) => {
                // To LIKE both kinds of kana are one, as in MySQL.
                let levels = &alphabet_levels(alphabet)[..usize::from(n.min(3))];
                like(&Weighted(levels), text, pattern, escape, work)
            }
        }
    }

    /// UPPER().
    pub fn upper(self, s: &[u8]) -> Vec<u8> {
        case::upper(self, s)
    }

    /// LOWER().
    pub fn lower(self, s: &[u8]) -> Vec<u8> {
        case::lower(self, s)
    }

    /// Character position (0-based) of the first `needle` in `haystack` at or after character
    /// `from_char`; bytes are the characters of `binary`.
    ///
    /// # Errors
    /// The statement may not go on.
    pub fn find(
        self,
        haystack: &[u8],
        needle: &[u8],
        from_char: usize,
        session: &dyn SessionInfo,
    ) -> SqlResult<Option<usize>> {
        if self.is_binary() {
            return Ok(match from_char <= haystack.len() {
                true => pattern::find_exact(haystack, needle, from_char),
                false => None,
            });
        }
        let Some(from) = pattern::start_of(haystack, from_char) else {
            return Ok(None);
        };
        let exact = needle.is_empty() || self.is_bin();
        let mut work = Work::new(session);
        let equal = |a: &[u8], b: &[u8]| self.eq(a, b);
        let at = match self.family() {
            _ if exact => pattern::find_exact(haystack, needle, from),
            Family::Simple(s) => {
                let table = std::slice::from_ref(SimpleTable::get(s));
                pattern::find_weighted(table, haystack, needle, from, equal, &mut work)?
            }
            Family::OldUca(u) => {
                let level = [old_level(u)];
                pattern::find_weighted(&level, haystack, needle, from, equal, &mut work)?
            }
            Family::Uca900(n) => {
                let levels = &levels_900(n)[..usize::from(n)];
                pattern::find_weighted(levels, haystack, needle, from, equal, &mut work)?
            }
            Family::Alphabet(alphabet, n) => {
                let levels = &alphabet_levels(alphabet)[..usize::from(n)];
                pattern::find_weighted(levels, haystack, needle, from, equal, &mut work)?
            }
            Family::Bytes | Family::CodePoints => None,
        };
        Ok(at.map(|at| from_char + char_count(&haystack[from..at])))
    }
}
