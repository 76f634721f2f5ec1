//! Comparing, hashing and sort keys.
//!
//! Neighbours: `weights` gives the weights, `mod.rs` dispatches here. PAD SPACE collations compare
//! as if the shorter string went on with spaces.
//!
//! Sort keys (frozen): NO PAD collations have the bytes themselves, or big-endian 16 bit weights
//! with `0000` between levels, exactly MySQL's WEIGHT_STRING. PAD SPACE collations must place the
//! end of a string between "spaces, then something smaller than a space" and "spaces, then
//! something greater", so with `s` the space's weight: a space is `s` in a run of spaces before a
//! smaller weight, the end is `s + 1`, a space before a greater weight is `s + 2`, weights above
//! `s` move up by 2, and trailing spaces vanish. Weights that no longer fit follow an all-ones
//! unit. A unit is 8 bits for `_bin`, latin1 and ascii, 16 bits big-endian otherwise.
//!
//! **Invariants**: `compare` is a total order up to equality; key order is `compare`; keys of PAD
//! SPACE collations are prefix-free.

use std::cmp::Ordering;

use super::utf8::decode_char;
use super::weights::{Few, Weigh};

/// Walks the weights of a string.
pub(super) struct Cursor<'a, W> {
    weigh: &'a W,
    text: &'a [u8],
    /// Byte offset of the next character.
    pub(super) at: usize,
    few: Few,
    /// Next of `few`.
    next: usize,
}

impl<'a, W: Weigh> Cursor<'a, W> {
    pub(super) fn new(weigh: &'a W, text: &'a [u8]) -> Self {
        Self {
            weigh,
            text,
            at: 0,
            few: Few::default(),
            next: 0,
        }
    }

    /// Is the position between two characters?
    pub(super) fn at_boundary(&self) -> bool {
        self.next == self.few.as_slice().len()
    }

    #[inline]
    pub(super) fn next(&mut self) -> Option<u16> {
        loop {
            if let Some(w) = self.few.as_slice().get(self.next) {
                self.next += 1;
                return Some(*w);
            }
            let b = *self.text.get(self.at)?;
            if W::CONTRACTS
                && let Some((few, len)) = self.weigh.contraction(&self.text[self.at..])
            {
                self.at += len;
                self.few = few;
                self.next = 0;
            } else if b < 0x80 {
                self.at += 1;
                let w = self.weigh.ascii()[usize::from(b)];
                if w != 0 || !W::IGNORES_ZERO {
                    return Some(w);
                }
            } else {
                let (cp, len) = decode_char(&self.text[self.at..]);
                self.at += len;
                self.few = self.weigh.wide(cp);
                self.next = 0;
            }
        }
    }

    /// Calls `take` with every weight that is left.
    pub(super) fn each<E>(
        &mut self,
        ask: &mut impl Ask<E>,
        mut take: impl FnMut(u16),
    ) -> Result<(), E> {
        loop {
            for _ in 0..WEIGHTS_PER_QUESTION {
                let Some(weight) = self.next() else {
                    return Ok(());
                };
                take(weight);
            }
            ask(WEIGHTS_PER_QUESTION)?;
        }
    }

    /// How the rest of the string compares with endless spaces.
    fn rest_to_spaces(&mut self) -> Ordering {
        let space = self.weigh.space();
        while let Some(w) = self.next() {
            if w != space {
                return w.cmp(&space);
            }
        }
        Ordering::Equal
    }
}

fn load8(s: &[u8], at: usize) -> Option<u64> {
    s.get(at..at + 8)?.try_into().ok().map(u64::from_le_bytes)
}

/// Length of the longest common prefix that ends between characters in both strings.
fn common_prefix(a: &[u8], b: &[u8]) -> usize {
    let mut n = 0;
    while let (Some(x), Some(y)) = (load8(a, n), load8(b, n)) {
        if x != y {
            n += (x ^ y).trailing_zeros() as usize / 8;
            return whole_chars(a, b, n);
        }
        n += 8;
    }
    let n = n + a[n..]
        .iter()
        .zip(&b[n..])
        .take_while(|(x, y)| x == y)
        .count();
    whole_chars(a, b, n)
}

/// Moves `n` back until neither string continues a character there.
fn whole_chars(a: &[u8], b: &[u8], mut n: usize) -> usize {
    let inside = |s: &[u8], n: usize| s.get(n).is_some_and(|b| b & 0xC0 == 0x80);
    while n > 0 && (inside(a, n) || inside(b, n)) {
        n -= 1;
    }
    n
}

/// Weights between two questions whether to go on.
const WEIGHTS_PER_QUESTION: usize = 8 * 1024;

/// Is told how many weights were looked at; an error ends the work.
pub(super) trait Ask<E>: FnMut(usize) -> Result<(), E> {}
impl<E, F: FnMut(usize) -> Result<(), E>> Ask<E> for F {}

/// Compares on one level after the other.
pub(super) fn compare_levels<W: Weigh, E>(
    levels: &[W],
    a: &[u8],
    b: &[u8],
    pad: bool,
    ask: &mut impl Ask<E>,
) -> Result<Ordering, E> {
    for level in levels {
        let order = compare(level, a, b, pad, ask)?;
        if order.is_ne() {
            return Ok(order);
        }
    }
    Ok(Ordering::Equal)
}

/// Compares on one level.
pub(super) fn compare<W: Weigh, E>(
    weigh: &W,
    a: &[u8],
    b: &[u8],
    pad: bool,
    ask: &mut impl Ask<E>,
) -> Result<Ordering, E> {
    if W::CONTRACTS {
        // Which characters belong together is known from the beginning only.
        return compare_from_here(Cursor::new(weigh, a), Cursor::new(weigh, b), pad, ask);
    }
    let mut n = common_prefix(a, b);
    let ascii = weigh.ascii();
    for (x, y) in a[n..].iter().zip(&b[n..]) {
        if (x | y) & 0x80 != 0 {
            break;
        }
        let (wx, wy) = (ascii[usize::from(x & 0x7F)], ascii[usize::from(y & 0x7F)]);
        if wx != wy {
            if W::IGNORES_ZERO && (wx == 0 || wy == 0) {
                break;
            }
            return Ok(wx.cmp(&wy));
        }
        n += 1;
    }
    let (a, b) = (Cursor::new(weigh, &a[n..]), Cursor::new(weigh, &b[n..]));
    compare_from_here(a, b, pad, ask)
}

fn compare_from_here<W: Weigh, E>(
    mut a: Cursor<'_, W>,
    mut b: Cursor<'_, W>,
    pad: bool,
    ask: &mut impl Ask<E>,
) -> Result<Ordering, E> {
    loop {
        if let Some(order) = compare_some(&mut a, &mut b, pad) {
            return Ok(order);
        }
        ask(WEIGHTS_PER_QUESTION)?;
    }
}

/// Compares the next weights; `None` if they are equal and more follow.
fn compare_some<W: Weigh>(
    a: &mut Cursor<'_, W>,
    b: &mut Cursor<'_, W>,
    pad: bool,
) -> Option<Ordering> {
    let space = a.weigh.space();
    for _ in 0..WEIGHTS_PER_QUESTION {
        return Some(match (a.next(), b.next()) {
            (Some(x), Some(y)) if x == y => continue,
            (Some(x), Some(y)) => x.cmp(&y),
            (None, None) => Ordering::Equal,
            (Some(x), None) if pad => x.cmp(&space).then_with(|| a.rest_to_spaces()),
            (None, Some(y)) if pad => y.cmp(&space).then_with(|| b.rest_to_spaces()).reverse(),
            (Some(_), None) => Ordering::Greater,
            (None, Some(_)) => Ordering::Less,
        });
    }
    None
}

/// Compares bytes with PAD SPACE.
pub(super) fn compare_padded_bytes(a: &[u8], b: &[u8]) -> Ordering {
    let n = a.len().min(b.len());
    let rest = |s: &[u8]| {
        s[n..]
            .iter()
            .find(|b| **b != b' ')
            .map_or(Ordering::Equal, |b| b.cmp(&b' '))
    };
    a[..n]
        .cmp(&b[..n])
        .then_with(|| rest(a))
        .then_with(|| rest(b).reverse())
}

/// Without trailing spaces.
pub(super) fn trim_spaces(s: &[u8]) -> &[u8] {
    &s[..s.iter().rposition(|b| *b != b' ').map_or(0, |i| i + 1)]
}

/// A 64 bit hash in the making.
pub(super) struct Hash {
    state: u64,
    /// Up to three weights that wait for a fourth.
    pending: u64,
    count: u32,
}

impl Hash {
    pub(super) fn new() -> Self {
        Self {
            state: 0x9E37_79B9_7F4A_7C15,
            pending: 0,
            count: 0,
        }
    }

    #[inline]
    fn mix(&mut self, x: u64) {
        let m = u128::from(self.state ^ x) * u128::from(0x8BB8_4B93_962E_ACC9_u64);
        self.state = (m as u64) ^ (m >> 64) as u64 ^ x.rotate_left(32);
    }

    #[inline]
    fn weight(&mut self, w: u16) {
        self.pending = self.pending << 16 | u64::from(w);
        self.count += 1;
        if self.count & 3 == 0 {
            let x = self.pending;
            self.mix(x);
            self.pending = 0;
        }
    }

    /// Ends a level.
    fn end(&mut self) {
        let (x, n) = (self.pending, self.count);
        self.mix(x);
        self.mix(u64::from(n));
        (self.pending, self.count) = (0, 0);
    }

    pub(super) fn bytes(mut self, s: &[u8]) -> u64 {
        let mut chunks = s.chunks_exact(8);
        for c in &mut chunks {
            self.mix(u64::from_le_bytes(c.try_into().expect("eight bytes")));
        }
        let mut last = [0; 8];
        last[..chunks.remainder().len()].copy_from_slice(chunks.remainder());
        self.mix(u64::from_le_bytes(last));
        self.mix(s.len() as u64);
        self.state
    }

    /// Takes the weights of one level.
    pub(super) fn level<W: Weigh>(&mut self, weigh: &W, s: &[u8], pad: bool) {
        if !W::CONTRACTS && s.is_ascii() {
            self.ascii(weigh, s, pad);
        } else {
            self.any(weigh, s, pad);
        }
        self.end();
    }

    /// ASCII.
    fn ascii<W: Weigh>(&mut self, weigh: &W, s: &[u8], pad: bool) {
        let ascii = weigh.ascii();
        let weight = |b: u8| ascii[usize::from(b & 0x7F)];
        let ignored = |b: u8| W::IGNORES_ZERO && weight(b) == 0;
        let end = s
            .iter()
            .rposition(|b| !(pad && weight(*b) == weigh.space() || ignored(*b)))
            .map_or(0, |i| i + 1);
        let mut chunks = s[..end].chunks_exact(4);
        for c in &mut chunks {
            let w = [weight(c[0]), weight(c[1]), weight(c[2]), weight(c[3])];
            if self.count & 3 == 0 && !(W::IGNORES_ZERO && w.contains(&0)) {
                self.mix(w.into_iter().fold(0, |x, w| x << 16 | u64::from(w)));
                self.count += 4;
            } else {
                c.iter()
                    .filter(|b| !ignored(**b))
                    .for_each(|b| self.weight(weight(*b)));
            }
        }
        let rest = chunks.remainder().iter().filter(|b| !ignored(**b));
        rest.for_each(|b| self.weight(weight(*b)));
    }

    fn any<W: Weigh>(&mut self, weigh: &W, s: &[u8], pad: bool) {
        let space = weigh.space();
        let mut spaces = 0_usize;
        let mut cursor = Cursor::new(weigh, s);
        while let Some(w) = cursor.next() {
            if pad && w == space {
                spaces += 1;
                continue;
            }
            for _ in 0..std::mem::take(&mut spaces) {
                self.weight(space);
            }
            self.weight(w);
        }
    }

    pub(super) fn finish(self) -> u64 {
        self.state
    }
}

/// Appends the weights of the levels of a NO PAD collation, with `0000` between them.
pub(super) fn key_of_levels<W: Weigh, E>(
    levels: &[W],
    s: &[u8],
    out: &mut Vec<u8>,
    ask: &mut impl Ask<E>,
) -> Result<(), E> {
    for (nth, level) in levels.iter().enumerate() {
        let start = out.len();
        if nth > 0 {
            out.extend_from_slice(&[0, 0]);
        }
        key_no_pad(level, s, out, ask)?;
        // Nothing but kana has fourth weights: MySQL leaves the level out where there are none.
        if nth == 3 && out.len() == start + 2 {
            out.truncate(start);
        }
    }
    Ok(())
}

/// Appends the weights of one level of a NO PAD collation.
pub(super) fn key_no_pad<W: Weigh, E>(
    weigh: &W,
    s: &[u8],
    out: &mut Vec<u8>,
    ask: &mut impl Ask<E>,
) -> Result<(), E> {
    let ascii = weigh.ascii();
    let plain = match W::CONTRACTS {
        true => 0,
        false => s.iter().position(|b| *b >= 0x80).unwrap_or(s.len()),
    };
    out.reserve(2 * s.len());
    for chunk in s[..plain].chunks(8) {
        let (mut weights, mut units) = ([0; 8], [0; 16]);
        let mut all = true;
        for ((w, unit), b) in weights.iter_mut().zip(units.chunks_exact_mut(2)).zip(chunk) {
            *w = ascii[usize::from(b & 0x7F)];
            all &= *w != 0 || !W::IGNORES_ZERO;
            unit.copy_from_slice(&w.to_be_bytes());
        }
        if all {
            out.extend_from_slice(&units[..2 * chunk.len()]);
        } else {
            weights
                .iter()
                .filter(|w| **w != 0)
                .for_each(|w| out.extend_from_slice(&w.to_be_bytes()));
        }
    }
    let mut cursor = Cursor::new(weigh, &s[plain..]);
    cursor.each(ask, |w| out.extend_from_slice(&w.to_be_bytes()))
}

/// Writes the units of PAD SPACE keys.
struct PadWriter<'a> {
    out: &'a mut Vec<u8>,
    space: u16,
    narrow: bool,
    /// Length of the run of spaces at the end of `out`, each written as before a greater weight.
    spaces: usize,
}

impl PadWriter<'_> {
    fn unit_len(&self) -> usize {
        if self.narrow { 1 } else { 2 }
    }

    /// Largest weight that is not escaped.
    fn largest(&self) -> u16 {
        if self.narrow { 0xFC } else { 0xFFFC }
    }

    fn unit(&mut self, unit: u16) {
        if self.narrow {
            self.out.push(unit as u8);
        } else {
            self.out.extend_from_slice(&unit.to_be_bytes());
        }
    }

    /// Takes the ASCII characters at the start that are neither smaller than a space nor escaped;
    /// says how many there are.
    fn plain(&mut self, ascii: &[u16; 128], s: &[u8]) -> usize {
        let (start, unit_len, largest) = (self.out.len(), self.unit_len(), self.largest());
        self.out.resize(start + unit_len * s.len(), 0);
        let mut taken = 0;
        for (b, unit) in s.iter().zip(self.out[start..].chunks_exact_mut(unit_len)) {
            let w = ascii[usize::from(b & 0x7F)];
            if *b >= 0x80 || w < self.space || w > largest {
                break;
            }
            match unit {
                [unit] => *unit = (w + 2) as u8,
                _ => unit.copy_from_slice(&(w + 2).to_be_bytes()),
            }
            self.spaces = if w == self.space { self.spaces + 1 } else { 0 };
            taken += 1;
        }
        self.out.truncate(start + unit_len * taken);
        taken
    }

    fn weight(&mut self, w: u16) {
        if w == self.space {
            self.spaces += 1;
            return self.unit(self.space + 2);
        }
        let spaces = std::mem::take(&mut self.spaces);
        if w < self.space {
            // The run was before a smaller weight after all.
            self.out.truncate(self.out.len() - spaces * self.unit_len());
            (0..spaces).for_each(|_| self.unit(self.space));
            self.unit(w);
        } else if w <= self.largest() {
            self.unit(w + 2);
        } else {
            self.unit(u16::MAX);
            self.out.extend_from_slice(&w.to_be_bytes());
        }
    }

    fn end(mut self) {
        self.out
            .truncate(self.out.len() - self.spaces * self.unit_len());
        self.unit(self.space + 1);
    }
}

/// Bytes of a weight in the keys of a PAD SPACE collation, and of their end.
pub(super) fn unit_len<W: Weigh>(weigh: &W) -> usize {
    if weigh.narrow() { 1 } else { 2 }
}

/// Appends the key of a PAD SPACE collation.
pub(super) fn key_padded<W: Weigh, E>(
    weigh: &W,
    s: &[u8],
    out: &mut Vec<u8>,
    ask: &mut impl Ask<E>,
) -> Result<(), E> {
    let mut writer = PadWriter {
        out,
        space: weigh.space(),
        narrow: weigh.narrow(),
        spaces: 0,
    };
    let taken = match W::CONTRACTS {
        true => 0,
        false => writer.plain(weigh.ascii(), s),
    };
    Cursor::new(weigh, &s[taken..]).each(ask, |w| writer.weight(w))?;
    writer.end();
    Ok(())
}

/// Appends the key of a PAD SPACE collation whose weights are the bytes.
pub(super) fn key_padded_bytes(s: &[u8], out: &mut Vec<u8>) {
    static IDENTITY: [u16; 128] = {
        let mut t = [0; 128];
        let mut i = 0;
        while i < 128 {
            t[i] = i as u16;
            i += 1;
        }
        t
    };
    let mut writer = PadWriter {
        out,
        space: u16::from(b' '),
        narrow: true,
        spaces: 0,
    };
    let taken = writer.plain(&IDENTITY, s);
    s[taken..].iter().for_each(|b| writer.weight(u16::from(*b)));
    writer.end();
}
