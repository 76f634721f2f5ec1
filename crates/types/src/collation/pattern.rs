//! LIKE and substring search, character by character under a collation.
//!
//! Neighbours: `mod.rs` picks the notion of equality; `weights` gives it.
//! **Invariants**: LIKE matches single characters (`'ß' LIKE 'ss'` is false where `'ß' = 'ss'`);
//! time is at most text length times pattern length, no recursion; every loop whose length is not in proportion to the
//! text's says to [`Work`] what it has looked at. Exact search is linear (`memmem`).

use memchr::memmem;

use super::order::Cursor;
use super::utf8::{char_len, char_offset, decode_char};
use super::weights::Weigh;
use crate::ctx::{MANY_BYTES, Work};
use crate::error::SqlResult;

/// When two characters are the same.
pub(super) trait SameChar {
    /// Length of the character at the start of a non-empty string.
    fn len(&self, s: &[u8]) -> usize {
        char_len(s)
    }
    /// Are these two characters equal?
    fn same(&self, a: &[u8], b: &[u8]) -> bool;
    /// Are these two ASCII characters equal?
    fn same_ascii(&self, a: u8, b: u8) -> bool {
        a == b
    }
}

/// Every byte is a character.
pub(super) struct ByteChars;

impl SameChar for ByteChars {
    fn len(&self, _: &[u8]) -> usize {
        1
    }
    fn same(&self, a: &[u8], b: &[u8]) -> bool {
        a == b
    }
}

/// Characters are equal to themselves only.
pub(super) struct ExactChars;

impl SameChar for ExactChars {
    fn same(&self, a: &[u8], b: &[u8]) -> bool {
        a == b
    }
}

/// Characters are equal when their weights are, on every level.
pub(super) struct Weighted<'a, W>(pub(super) &'a [W]);

impl<W: Weigh> SameChar for Weighted<'_, W> {
    fn same(&self, a: &[u8], b: &[u8]) -> bool {
        if a == b {
            return true;
        }
        let (x, y) = (decode_char(a).0, decode_char(b).0);
        let equal = |w: &W| !w.is_weightless(x) && w.any(x).as_slice() == w.any(y).as_slice();
        self.0.iter().all(equal)
    }

    #[inline]
    fn same_ascii(&self, a: u8, b: u8) -> bool {
        if W::CONTRACTS {
            // Some have weights that no table of ASCII holds.
            return self.same(&[a], &[b]);
        }
        let weight = |w: &W, b: u8| w.ascii()[usize::from(b & 0x7F)];
        self.0.iter().all(|w| weight(w, a) == weight(w, b))
    }
}

/// `text LIKE pattern`.
pub(super) fn like<C: SameChar>(
    chars: &C,
    text: &[u8],
    pattern: &[u8],
    escape: Option<char>,
    work: &mut Work<'_>,
) -> SqlResult<bool> {
    let mut buf = [0; 4];
    let escape: &[u8] = escape.map_or(&[], |c| c.encode_utf8(&mut buf).as_bytes());
    let plain = |b: u8| b < 0x80 && b != b'%' && b != b'_' && escape.first() != Some(&b);
    let (mut t, mut p) = (0, 0);
    // After a %: where the pattern goes on, and where in the text it was tried last.
    let mut retry: Option<(usize, usize)> = None;
    let mut counted = 0;
    while t < text.len() {
        if t - counted >= MANY_BYTES {
            work.done(t - counted)?;
            counted = t;
        }
        let rest = &pattern[p..];
        let step = match rest.first() {
            Some(b) if plain(*b) && text[t] < 0x80 => {
                chars.same_ascii(*b, text[t]).then_some((1, 1))
            }
            Some(b'%') if !escaped(rest, escape) => {
                p += 1;
                let Some(next) = pattern.get(p) else {
                    return Ok(true);
                };
                if plain(*next) {
                    t += places(chars, *next, &text[t..], work)?;
                }
                counted = counted.max(t);
                retry = Some((p, t));
                continue;
            }
            Some(b'_') if !escaped(rest, escape) => Some((chars.len(&text[t..]), 1)),
            Some(_) => {
                let (literal, used) = literal(chars, rest, escape);
                let len = chars.len(&text[t..]);
                chars
                    .same(literal, &text[t..t + len])
                    .then_some((len, used))
            }
            None => None,
        };
        if let Some((in_text, in_pattern)) = step {
            t += in_text;
            p += in_pattern;
            continue;
        }
        let Some((after, tried)) = retry else {
            return Ok(false);
        };
        work.done(t + 1 - counted.min(t))?;
        p = after;
        t = tried + chars.len(&text[tried..]);
        if let Some(next) = pattern.get(p).filter(|b| plain(**b)) {
            t += places(chars, *next, &text[t..], work)?;
        }
        counted = t;
        retry = Some((p, t));
    }
    Ok(pattern[p..].iter().all(|b| *b == b'%'))
}

/// How far it is to the next place where the ASCII character `wanted` may be.
fn places<C: SameChar>(
    chars: &C,
    wanted: u8,
    text: &[u8],
    work: &mut Work<'_>,
) -> SqlResult<usize> {
    first(text, work, |b| b >= 0x80 || chars.same_ascii(wanted, b))
}

/// Bytes before the first one that is wanted, or all.
fn first(text: &[u8], work: &mut Work<'_>, is_wanted: impl Fn(u8) -> bool) -> SqlResult<usize> {
    let mut before = 0;
    for part in text.chunks(MANY_BYTES) {
        if let Some(at) = part.iter().position(|b| is_wanted(*b)) {
            work.done(at)?;
            return Ok(before + at);
        }
        work.done(part.len())?;
        before += part.len();
    }
    Ok(before)
}

/// Does the pattern start with the escape character and something to escape?
fn escaped(rest: &[u8], escape: &[u8]) -> bool {
    !escape.is_empty() && rest.len() > escape.len() && rest.starts_with(escape)
}

/// The literal character at the start of a pattern, and how many bytes it takes with its escape.
fn literal<'p, C: SameChar>(chars: &C, rest: &'p [u8], escape: &[u8]) -> (&'p [u8], usize) {
    if escaped(rest, escape) {
        let rest = &rest[escape.len()..];
        let len = chars.len(rest);
        return (&rest[..len], escape.len() + len);
    }
    let len = chars.len(rest);
    (&rest[..len], len)
}

/// Byte offset of the first occurrence of `needle` in `haystack` at or after byte `from`, where
/// both are made of whole characters.
pub(super) fn find_exact(haystack: &[u8], needle: &[u8], from: usize) -> Option<usize> {
    memmem::find(&haystack[from..], needle).map(|at| from + at)
}

/// Like [`find_exact`], where characters are equal under a collation: the first place from which a
/// run of whole characters equals the needle.
pub(super) fn find_weighted<W: Weigh>(
    levels: &[W],
    haystack: &[u8],
    needle: &[u8],
    from: usize,
    equal: impl Fn(&[u8], &[u8]) -> bool,
    work: &mut Work<'_>,
) -> SqlResult<Option<usize>> {
    let (primary, more_levels) = (&levels[0], levels.len() > 1);
    let mut wanted = Vec::with_capacity(needle.len());
    let mut cursor = Cursor::new(primary, needle);
    while let Some(w) = cursor.next() {
        wanted.push(w);
    }
    let mut at = from;
    loop {
        at += impossible(primary, &haystack[at..], &wanted, work)?;
        let text = &haystack[at..];
        if let Some(len) = matched(primary, text, &wanted, work)? {
            if !more_levels {
                return Ok(Some(at));
            }
            for end in ends(primary, text, len) {
                work.done(end)?;
                if equal(&text[..end], needle) {
                    return Ok(Some(at));
                }
            }
        }
        if text.is_empty() {
            return Ok(None);
        }
        at += char_len(text);
    }
}

/// Bytes at the start of `text` at which these weights cannot start.
fn impossible<W: Weigh>(
    weigh: &W,
    text: &[u8],
    wanted: &[u16],
    work: &mut Work<'_>,
) -> SqlResult<usize> {
    // What a contraction begins with is not what its first character weighs.
    let Some(begin) = wanted.first().filter(|_| !W::CONTRACTS) else {
        return Ok(0);
    };
    let ascii = weigh.ascii();
    first(text, work, |b| {
        let w = ascii[usize::from(b & 0x7F)];
        b >= 0x80 || w == *begin || (w == 0 && W::IGNORES_ZERO)
    })
}

/// Length of the shortest run of whole characters at the start of `text` with these weights.
fn matched<W: Weigh>(
    weigh: &W,
    text: &[u8],
    wanted: &[u16],
    work: &mut Work<'_>,
) -> SqlResult<Option<usize>> {
    let mut cursor = Cursor::new(weigh, text);
    for part in wanted.chunks(MANY_BYTES) {
        let begin = cursor.at;
        let differs = part.iter().any(|w| cursor.next() != Some(*w));
        work.done(cursor.at - begin)?;
        if differs {
            return Ok(None);
        }
    }
    Ok(cursor.at_boundary().then_some(cursor.at))
}

/// `len`, and where it goes on over characters that have no weight on the first level (accents).
fn ends<W: Weigh>(weigh: &W, text: &[u8], len: usize) -> impl Iterator<Item = usize> {
    std::iter::successors(Some(len), move |end| {
        let rest = text.get(*end..).filter(|r| !r.is_empty())?;
        let (cp, len) = decode_char(rest);
        weigh.any(cp).as_slice().is_empty().then_some(end + len)
    })
}

/// Converts a character position to a byte offset; `None` beyond the end.
pub(super) fn start_of(haystack: &[u8], from_char: usize) -> Option<usize> {
    let at = char_offset(haystack, from_char);
    // The end itself is a position, what lies after it is not.
    (at < haystack.len() || super::char_count(haystack) == from_char).then_some(at)
}
