//! Unsigned integers of fixed width for the slow paths of [`super::Decimal`].
//!
//! Neighbours: only `decimal` uses it.
//! **Invariants**: limbs are little endian; nothing allocates; a product or quotient always fits
//! [`WIDE`] limbs because operands have at most 81 decimal digits (270 bits).

/// Limbs of a stored magnitude: 288 bits hold the 81 digits that MySQL's buffer can.
pub(super) const LIMBS: usize = 9;
/// Limbs of an intermediate: twice the digits of a magnitude.
pub(super) const WIDE: usize = 2 * LIMBS;

/// A magnitude as stored.
pub(super) type Mag = [u32; LIMBS];
/// An intermediate.
pub(super) type Wide = [u32; WIDE];

/// Powers of ten that fit 128 bits.
pub(super) const POW10: [u128; 39] = {
    let mut t = [1u128; 39];
    let mut i = 1;
    while i < 39 {
        t[i] = t[i - 1] * 10;
        i += 1;
    }
    t
};

/// Ten to the `n` below a limb.
const fn pow10_limb(n: u32) -> u32 {
    10u32.pow(n)
}

/// Largest power of ten in one limb.
const LIMB_DIGITS: u32 = 9;

/// `mag` in 128 bits, when it fits.
#[inline]
pub(super) fn small(mag: &Mag) -> Option<u128> {
    if mag[4] | mag[5] | mag[6] | mag[7] | mag[8] != 0 {
        return None;
    }
    Some(
        u128::from(mag[0])
            | u128::from(mag[1]) << 32
            | u128::from(mag[2]) << 64
            | u128::from(mag[3]) << 96,
    )
}

/// The product in 128 bits, when it fits. Most factors have one word: then it does.
#[inline]
pub(super) fn mul_small(a: u128, b: u128) -> Option<u128> {
    match (a | b) >> 64 {
        0 => Some(a * b),
        _ => a.checked_mul(b),
    }
}

/// A magnitude of 128 bits.
#[inline]
pub(super) fn from_u128(v: u128) -> Mag {
    [
        v as u32,
        (v >> 32) as u32,
        (v >> 64) as u32,
        (v >> 96) as u32,
        0,
        0,
        0,
        0,
        0,
    ]
}

/// Widens.
pub(super) fn widen(mag: &Mag) -> Wide {
    let mut w = [0; WIDE];
    w[..LIMBS].copy_from_slice(mag);
    w
}

/// Number of limbs in use.
pub(super) fn used(v: &[u32]) -> usize {
    v.iter().rposition(|&l| l != 0).map_or(0, |i| i + 1)
}

/// Is `v` zero?
pub(super) fn is_zero(v: &[u32]) -> bool {
    v.iter().all(|&l| l == 0)
}

/// `v *= m`; true when it did not fit.
pub(super) fn mul_limb(v: &mut [u32], m: u32) -> bool {
    let mut carry = 0u64;
    for l in v.iter_mut() {
        let t = u64::from(*l) * u64::from(m) + carry;
        *l = t as u32;
        carry = t >> 32;
    }
    carry != 0
}

/// `v += a`; true when it did not fit.
pub(super) fn add_limb(v: &mut [u32], a: u32) -> bool {
    let mut carry = a;
    for l in v.iter_mut() {
        let (sum, over) = l.overflowing_add(carry);
        *l = sum;
        carry = u32::from(over);
        if carry == 0 {
            return false;
        }
    }
    carry != 0
}

/// `v /= d`, returning the remainder.
pub(super) fn div_limb(v: &mut [u32], d: u32) -> u32 {
    let mut rem = 0u64;
    for l in v.iter_mut().rev() {
        let t = rem << 32 | u64::from(*l);
        *l = (t / u64::from(d)) as u32;
        rem = t % u64::from(d);
    }
    rem as u32
}

/// `v *= 10^n`; true when it did not fit.
pub(super) fn mul_pow10(v: &mut [u32], mut n: u32) -> bool {
    while n > 0 {
        let step = n.min(LIMB_DIGITS);
        if mul_limb(v, pow10_limb(step)) {
            return true;
        }
        n -= step;
    }
    false
}

/// `v /= 10^n`; returns (the most significant digit dropped, was anything dropped).
pub(super) fn div_pow10(v: &mut [u32], mut n: u32) -> (u32, bool) {
    let (mut top, mut lost) = (0, false);
    while n > 0 {
        let step = n.min(LIMB_DIGITS);
        let rem = div_limb(v, pow10_limb(step));
        top = rem / pow10_limb(step - 1);
        lost |= rem != 0;
        n -= step;
    }
    (top, lost)
}

/// `a + b`; the caller keeps both far below the width.
pub(super) fn add(a: &mut Wide, b: &Wide) {
    let mut carry = 0u64;
    for (x, y) in a.iter_mut().zip(b) {
        let t = u64::from(*x) + u64::from(*y) + carry;
        *x = t as u32;
        carry = t >> 32;
    }
    debug_assert!(carry == 0);
}

/// `a - b`, for `a >= b`.
pub(super) fn sub(a: &mut Wide, b: &Wide) {
    let mut borrow = false;
    for (x, y) in a.iter_mut().zip(b) {
        let (t, b1) = x.overflowing_sub(*y);
        let (t, b2) = t.overflowing_sub(u32::from(borrow));
        *x = t;
        borrow = b1 | b2;
    }
    debug_assert!(!borrow);
}

/// Order.
pub(super) fn cmp(a: &[u32], b: &[u32]) -> std::cmp::Ordering {
    debug_assert_eq!(a.len(), b.len());
    a.iter().rev().cmp(b.iter().rev())
}

/// Product.
pub(super) fn mul(a: &Mag, b: &Mag) -> Wide {
    let mut out = [0u32; WIDE];
    for (i, &x) in a.iter().enumerate().take(used(a)) {
        let mut carry = 0u64;
        for (j, &y) in b.iter().enumerate() {
            let t = u64::from(x) * u64::from(y) + u64::from(out[i + j]) + carry;
            out[i + j] = t as u32;
            carry = t >> 32;
        }
        out[i + LIMBS] = carry as u32;
    }
    out
}

/// Quotient and remainder (Knuth's algorithm D).
pub(super) fn div_rem(n: &Wide, d: &Wide) -> (Wide, Wide) {
    let dn = used(d);
    assert!(dn > 0, "division by zero is the caller's case");
    let mut quot = [0u32; WIDE];
    if dn == 1 {
        quot = *n;
        let mut rem = [0u32; WIDE];
        rem[0] = div_limb(&mut quot, d[0]);
        return (quot, rem);
    }
    if cmp(n, d).is_lt() {
        return (quot, *n);
    }
    let shift = d[dn - 1].leading_zeros();
    let div = shift_left(d, shift);
    let mut rem = [0u32; WIDE + 1];
    rem[..WIDE].copy_from_slice(&shift_left(n, shift));
    if shift > 0 {
        rem[WIDE] = (u64::from(n[WIDE - 1]) >> (32 - shift)) as u32;
    }
    for j in (0..=WIDE - dn).rev() {
        quot[j] = div_step(&mut rem[j..=j + dn], &div[..dn]);
    }
    let mut out = [0u32; WIDE];
    for i in 0..dn {
        let wide = u64::from(rem[i]) | u64::from(rem[i + 1]) << 32;
        out[i] = (wide >> shift) as u32;
    }
    (quot, out)
}

/// One digit of the quotient: `window -= q * div`.
fn div_step(window: &mut [u32], div: &[u32]) -> u32 {
    let n = div.len();
    let top = u64::from(window[n]) << 32 | u64::from(window[n - 1]);
    let (mut q, mut r) = (top / u64::from(div[n - 1]), top % u64::from(div[n - 1]));
    while q > u64::from(u32::MAX)
        || q * u64::from(div[n - 2]) > (r << 32 | u64::from(window[n - 2]))
    {
        q -= 1;
        r += u64::from(div[n - 1]);
        if r > u64::from(u32::MAX) {
            break;
        }
    }
    let (mut borrow, mut carry) = (0i64, 0u64);
    for i in 0..n {
        let p = q * u64::from(div[i]) + carry;
        carry = p >> 32;
        let t = i64::from(window[i]) - borrow - (p & 0xffff_ffff) as i64;
        window[i] = t as u32;
        borrow = i64::from(t < 0);
    }
    let t = i64::from(window[n]) - borrow - carry as i64;
    window[n] = t as u32;
    if t < 0 {
        q -= 1;
        let mut carry = 0u64;
        for i in 0..n {
            let s = u64::from(window[i]) + u64::from(div[i]) + carry;
            window[i] = s as u32;
            carry = s >> 32;
        }
        window[n] = window[n].wrapping_add(carry as u32);
    }
    q as u32
}

fn shift_left(v: &Wide, shift: u32) -> Wide {
    if shift == 0 {
        return *v;
    }
    let mut out = [0u32; WIDE];
    let mut carry = 0u32;
    for (o, &l) in out.iter_mut().zip(v) {
        *o = l << shift | carry;
        carry = l >> (32 - shift);
    }
    out
}

/// Number of decimal digits; 0 for zero.
pub(super) fn digits(v: &[u32]) -> u32 {
    let n = used(v);
    if n <= 4 {
        let low = v
            .iter()
            .take(4)
            .rev()
            .fold(0u128, |acc, &l| acc << 32 | u128::from(l));
        return low.checked_ilog10().map_or(0, |d| d + 1);
    }
    let mut rest = [0u32; WIDE];
    rest[..v.len()].copy_from_slice(v);
    // The limbs above the fourth are at most 14; each round drops nine digits.
    let mut count = 0;
    while used(&rest) > 4 {
        div_limb(&mut rest, pow10_limb(LIMB_DIGITS));
        count += LIMB_DIGITS;
    }
    count + digits(&rest[..4])
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn wide(limbs: &[u32]) -> Wide {
        let mut w = [0; WIDE];
        w[..limbs.len()].copy_from_slice(limbs);
        w
    }

    fn edge() -> impl Strategy<Value = u32> {
        prop_oneof![
            Just(0u32),
            Just(1),
            Just(u32::MAX),
            Just(1 << 31),
            any::<u32>()
        ]
    }

    proptest! {
        #[test]
        fn division_inverts_multiplication(
            q in proptest::collection::vec(edge(), 9),
            d in proptest::collection::vec(edge(), 1..=9),
            r in proptest::collection::vec(edge(), 9),
        ) {
            let (qm, mut dm): (Mag, Mag) = (q.try_into().unwrap(), [0; LIMBS]);
            dm[..d.len()].copy_from_slice(&d);
            prop_assume!(!is_zero(&dm));
            let dw = widen(&dm);
            let rem = div_rem(&wide(&r), &dw).1;
            prop_assert!(cmp(&rem, &dw).is_lt());
            let mut n = mul(&qm, &dm);
            // Stay inside the width: the highest product plus a remainder may not carry out.
            prop_assume!(n[WIDE - 1] != u32::MAX);
            add(&mut n, &rem);
            prop_assert_eq!(div_rem(&n, &dw), (widen(&qm), rem));
        }

        #[test]
        fn powers_of_ten_move_digits(v in any::<u128>(), n in 0u32..120) {
            let mut w = widen(&from_u128(v));
            prop_assert!(!mul_pow10(&mut w, n));
            prop_assert_eq!(digits(&w), if v == 0 { 0 } else { v.ilog10() + 1 + n });
            prop_assert_eq!(div_pow10(&mut w, n), (0, false));
            prop_assert_eq!(small(&w[..LIMBS].try_into().unwrap()), Some(v));
        }
    }
}
