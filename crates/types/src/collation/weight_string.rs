//! WEIGHT_STRING of texts: weights as MySQL shows them.
//!
//! Neighbours: `order` has the sort keys that indexes keep; those of PAD SPACE collations must be prefix-free and
//! differ from these. `weights` gives the weights.
//! **Invariant**: a weight has as many bytes in every text of a collation, but for the sets of East Asia, whose codes
//! have several lengths.

use super::gb18030::Gb18030;
use super::list::{Collation, Family, Simple};
use super::order::Cursor;
use super::simple::SimpleTable;
use super::weights::Weigh;
use super::{Charset, alphabet_levels, old_level};
use crate::ctx::Work;
use crate::error::SqlResult;

/// Appends the weights of a text, and those of `spaces` more spaces.
fn weights<W: Weigh>(
    weigh: &W,
    text: &[u8],
    spaces: usize,
    work: &mut Work<'_>,
) -> SqlResult<Vec<u8>> {
    let mut out = Vec::new();
    let mut put = |weight: u16| match weigh.narrow() {
        true => out.push(weight as u8),
        false => out.extend_from_slice(&weight.to_be_bytes()),
    };
    Cursor::new(weigh, text).each(&mut |weights| work.done(weights), &mut put)?;
    (0..spaces).for_each(|_| put(weigh.space()));
    Ok(out)
}

/// Characters by their numbers, in as many bytes as those of the character set need.
fn code_points(
    charset: Charset,
    text: &[u8],
    spaces: usize,
    work: &mut Work<'_>,
) -> SqlResult<Vec<u8>> {
    let bytes = match charset {
        Charset::Utf8mb3 | Charset::Ucs2 => 2,
        unicode if unicode.is_unicode() => 3,
        _ => {
            let mut out = Vec::with_capacity(text.len() + spaces);
            work.pieces(text, |piece| {
                out.extend_from_slice(&charset.encode_lossy(piece))
            })?;
            out.resize(out.len() + spaces, b' ');
            return Ok(out);
        }
    };
    each_character(text, spaces, work, |c| {
        let mut code = u32::from(c).to_be_bytes();
        code.rotate_left(4 - bytes);
        Some((code, bytes))
    })
}

/// What characters weigh that weigh bytes, one by one.
fn each_character<const N: usize>(
    text: &[u8],
    spaces: usize,
    work: &mut Work<'_>,
    weigh: impl Fn(char) -> Option<([u8; N], usize)>,
) -> SqlResult<Vec<u8>> {
    let mut out = Vec::with_capacity(text.len() + spaces);
    let mut put = |c| {
        if let Some((bytes, len)) = weigh(c) {
            out.extend_from_slice(&bytes[..len]);
        }
    };
    work.pieces(text, |piece| {
        String::from_utf8_lossy(piece).chars().for_each(&mut put);
    })?;
    (0..spaces).for_each(|_| put(' '));
    Ok(out)
}

impl Collation {
    /// The weights of a text. `padding`: how many spaces it is to be filled up with, where spaces at the end do not
    /// count in this collation.
    ///
    /// # Errors
    /// The statement is killed or out of time.
    pub fn weight_string(
        self,
        text: &[u8],
        padding: Option<usize>,
        work: &mut Work<'_>,
    ) -> SqlResult<Vec<u8>> {
        let spaces = padding.filter(|_| self.pad_space()).unwrap_or(0);
        match self.family() {
            Family::CodePoints => code_points(self.charset(), text, spaces, work),
            Family::Simple(Simple::Multi(charset) | Simple::MultiBin(charset)) => {
                let (set, bin) = (
                    charset.multi_set().expect("a multi-byte set"),
                    self.is_bin(),
                );
                each_character(text, spaces, work, |c| {
                    let known = set.weight_of(u32::from(c), bin);
                    known.or_else(|| set.weight_of(u32::from('?'), bin))
                })
            }
            Family::Simple(Simple::Gb18030Ci | Simple::Gb18030Bin) => {
                let (set, bin) = (Gb18030::get(), self.is_bin());
                each_character(text, spaces, work, |c| set.shown_weight(u32::from(c), bin))
            }
            Family::Simple(table) => weights(SimpleTable::get(table), text, spaces, work),
            Family::OldUca(uca) => weights(&old_level(uca), text, spaces, work),
            Family::Alphabet(alphabet, _) if !alphabet.is_900() => {
                weights(&alphabet_levels(alphabet)[0], text, spaces, work)
            }
            Family::Bytes | Family::Uca900(_) | Family::Alphabet(..) => {
                let mut key = Vec::new();
                self.sort_key_asking(text, &mut key, &mut |weights| work.done(weights))?;
                Ok(key)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ctx::MANY_BYTES;
    use crate::testing::Killed;

    #[test]
    fn long_texts_are_weighed_until_the_statement_is_killed() {
        let text = "a".repeat(3 * MANY_BYTES);
        for name in [
            "gb18030_chinese_ci",
            "big5_bin",
            "utf8mb4_bin",
            "latin1_bin",
            "latin1_swedish_ci",
        ] {
            let collation = Collation::by_name(name).expect("there");
            let killed = Killed::after(0);
            let weighed = collation.weight_string(text.as_bytes(), None, &mut Work::new(&killed));
            assert_eq!(weighed.unwrap_err().code, 1317, "{name}");
        }
    }
}
