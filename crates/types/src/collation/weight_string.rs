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
fn code_points(charset: Charset, text: &[u8], spaces: usize) -> Vec<u8> {
    let bytes = match charset {
        Charset::Utf8mb3 | Charset::Ucs2 => 2,
        unicode if unicode.is_unicode() => 3,
        _ => {
            let mut out = charset.encode_lossy(text).into_owned();
            out.resize(out.len() + spaces, b' ');
            return out;
        }
    };
    let text = String::from_utf8_lossy(text);
    let all = text.chars().chain(std::iter::repeat_n(' ', spaces));
    all.flat_map(|c| u32::from(c).to_be_bytes().into_iter().skip(4 - bytes))
        .collect()
}

/// What the codes of a multi-byte character set weigh.
fn codes(charset: Charset, bin: bool, text: &[u8], spaces: usize) -> Vec<u8> {
    let set = charset.multi_set().expect("a multi-byte set");
    let text = String::from_utf8_lossy(text);
    let mut out = Vec::with_capacity(text.len() + spaces);
    for c in text.chars().chain(std::iter::repeat_n(' ', spaces)) {
        let known = set.weight_of(u32::from(c), bin);
        if let Some((bytes, len)) = known.or_else(|| set.weight_of(u32::from('?'), bin)) {
            out.extend_from_slice(&bytes[..len]);
        }
    }
    out
}

/// What characters weigh in a collation of GB 18030.
fn gb18030_weights(bin: bool, text: &[u8], spaces: usize) -> Vec<u8> {
    let set = Gb18030::get();
    let text = String::from_utf8_lossy(text);
    let all = text.chars().chain(std::iter::repeat_n(' ', spaces));
    let mut out = Vec::with_capacity(text.len() + spaces);
    for (bytes, len) in all.filter_map(|c| set.shown_weight(u32::from(c), bin)) {
        out.extend_from_slice(&bytes[..len]);
    }
    out
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
            Family::CodePoints => Ok(code_points(self.charset(), text, spaces)),
            Family::Simple(Simple::Multi(charset) | Simple::MultiBin(charset)) => {
                Ok(codes(charset, self.is_bin(), text, spaces))
            }
            Family::Simple(Simple::Gb18030Ci | Simple::Gb18030Bin) => {
                Ok(gb18030_weights(self.is_bin(), text, spaces))
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
