//! Password proofs of `mysql_native_password` and `caching_sha2_password`.
//!
//! Neighbours: `server` holds the accounts and drives the exchange; the shell's client answers it.
//! **Invariants**: comparisons are constant-time; a challenge is 20 bytes without NUL, fresh per
//! attempt; nothing here keeps or prints a clear password.
//!
//! `caching_sha2_password` stores MySQL's `$A$005$<salt><digest>` form: SHA-256 crypt with
//! 5,000 rounds (Ulrich Drepper, "Unix crypt using SHA-256 and SHA-512", 2008). The three digits are thousands of
//! rounds, in hexadecimal; other numbers come from hashes that MySQL has made.

use sha1::Sha1;
use sha2::{Digest, Sha256};

/// Length of a challenge.
pub const CHALLENGE: usize = 20;
/// Salt length inside a stored caching_sha2 hash.
pub const SALT: usize = 20;
/// Name of the SHA-1 plugin.
pub const NATIVE: &str = "mysql_native_password";
/// Name of the SHA-256 plugin.
pub const CACHING_SHA2: &str = "caching_sha2_password";
const ROUNDS: usize = 5000;
/// Longest password, bytes, as in MySQL: the work of a hash grows with the square of the length.
pub const MAX_PASSWORD: usize = 256;
const CRYPT_ALPHABET: &[u8; 64] =
    b"./0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

fn sha1(parts: &[&[u8]]) -> [u8; 20] {
    let mut h = Sha1::new();
    parts.iter().for_each(|p| h.update(p));
    h.finalize().into()
}

fn sha256(parts: &[&[u8]]) -> [u8; 32] {
    let mut h = Sha256::new();
    parts.iter().for_each(|p| h.update(p));
    h.finalize().into()
}

fn xor<const N: usize>(a: &[u8; N], b: &[u8; N]) -> [u8; N] {
    std::array::from_fn(|i| a[i] ^ b[i])
}

/// Equality whose time does not depend on where the inputs differ.
pub fn constant_time_eq(a: &[u8], b: &[u8]) -> bool {
    a.len() == b.len() && a.iter().zip(b).fold(0, |acc, (x, y)| acc | (x ^ y)) == 0
}

/// Turns random bytes into a challenge: no NUL and no `$`, as MySQL's.
pub fn challenge(random: [u8; CHALLENGE]) -> [u8; CHALLENGE] {
    random.map(|b| {
        let b = b & 0x7f;
        if b == 0 || b == b'$' { b + 1 } else { b }
    })
}

/// What `mysql_native_password` stores: SHA1(SHA1(password)).
pub fn native_hash(password: &[u8]) -> [u8; 20] {
    sha1(&[&sha1(&[password])])
}

/// The client's proof: SHA1(pw) XOR SHA1(challenge ++ SHA1(SHA1(pw))). Empty for no password.
pub fn native_response(password: &[u8], challenge: &[u8]) -> Vec<u8> {
    if password.is_empty() {
        return Vec::new();
    }
    let stage1 = sha1(&[password]);
    xor(&stage1, &sha1(&[challenge, &sha1(&[&stage1])])).to_vec()
}

/// Checks a native proof against the stored hash.
pub fn native_verify(response: &[u8], challenge: &[u8], stored: &[u8; 20]) -> bool {
    let Ok(response) = <&[u8; 20]>::try_from(response) else {
        return false;
    };
    let stage1 = xor(response, &sha1(&[challenge, stored]));
    constant_time_eq(&sha1(&[&stage1]), stored)
}

/// The fast-path digest the server caches after a full authentication: SHA256(SHA256(password)).
pub fn sha2_fast_digest(password: &[u8]) -> [u8; 32] {
    sha256(&[&sha256(&[password])])
}

/// The client's proof: SHA256(pw) XOR SHA256(SHA256(SHA256(pw)) ++ challenge).
pub fn sha2_response(password: &[u8], challenge: &[u8]) -> Vec<u8> {
    if password.is_empty() {
        return Vec::new();
    }
    let stage1 = sha256(&[password]);
    xor(&stage1, &sha256(&[&sha256(&[&stage1]), challenge])).to_vec()
}

/// Checks a caching_sha2 proof against the cached fast digest.
pub fn sha2_fast_verify(response: &[u8], challenge: &[u8], digest: &[u8; 32]) -> bool {
    let Ok(response) = <&[u8; 32]>::try_from(response) else {
        return false;
    };
    let stage1 = xor(response, &sha256(&[digest, challenge]));
    constant_time_eq(&sha256(&[&stage1]), digest)
}

/// The stored form `$A$005$<20 bytes of salt><43 characters>` of a password.
pub fn sha2_store(password: &[u8], salt: &[u8; SALT]) -> Vec<u8> {
    let mut out = b"$A$005$".to_vec();
    out.extend_from_slice(salt);
    out.extend_from_slice(&sha256_crypt(password, salt, ROUNDS));
    out
}

/// Checks a clear password (which came over TLS or RSA) against the stored form.
pub fn sha2_full_verify(password: &[u8], stored: &[u8]) -> bool {
    if password.len() > MAX_PASSWORD {
        return false;
    }
    let cut = || {
        let rest = stored.strip_prefix(b"$A$")?;
        let (thousands, rest) = rest.split_first_chunk::<3>()?;
        let thousands = std::str::from_utf8(thousands).ok()?;
        let rounds = usize::from_str_radix(thousands, 16).ok()? * 1000;
        let (salt, digest) = rest.strip_prefix(b"$")?.split_first_chunk::<SALT>()?;
        Some((rounds, salt, digest))
    };
    cut().is_some_and(|(rounds, salt, digest)| {
        constant_time_eq(&sha256_crypt(password, salt, rounds), digest)
    })
}

/// SHA-256 crypt's 43 characters (Drepper 2008, steps 1-22) with a 20 byte salt as MySQL uses it.
fn sha256_crypt(password: &[u8], salt: &[u8; SALT], rounds: usize) -> [u8; 43] {
    let b = sha256(&[password, salt, password]);
    let mut h = Sha256::new();
    h.update(password);
    h.update(salt);
    update_repeated(&mut h, &b, password.len());
    let mut bits = password.len();
    while bits > 0 {
        if bits & 1 == 1 {
            h.update(b)
        } else {
            h.update(password)
        }
        bits >>= 1;
    }
    let mut a: [u8; 32] = h.finalize().into();
    let p = repeated_digest(password, password.len(), password.len());
    let s = repeated_digest(salt, 16 + usize::from(a[0]), salt.len());
    for round in 0..rounds {
        let mut h = Sha256::new();
        if round & 1 == 1 {
            h.update(&p)
        } else {
            h.update(a)
        }
        if !round.is_multiple_of(3) {
            h.update(&s);
        }
        if !round.is_multiple_of(7) {
            h.update(&p);
        }
        if round & 1 == 1 {
            h.update(a)
        } else {
            h.update(&p)
        }
        a = h.finalize().into();
    }
    crypt_base64(&a)
}

fn update_repeated(h: &mut Sha256, block: &[u8; 32], mut len: usize) {
    while len > 0 {
        let n = len.min(32);
        h.update(&block[..n]);
        len -= n;
    }
}

/// SHA256 of `data` repeated `times`, stretched to `len` bytes.
fn repeated_digest(data: &[u8], times: usize, len: usize) -> Vec<u8> {
    let mut h = Sha256::new();
    for _ in 0..times {
        h.update(data);
    }
    let digest: [u8; 32] = h.finalize().into();
    digest.iter().copied().cycle().take(len).collect()
}

fn crypt_base64(a: &[u8; 32]) -> [u8; 43] {
    const ORDER: [[usize; 3]; 10] = [
        [0, 10, 20],
        [21, 1, 11],
        [12, 22, 2],
        [3, 13, 23],
        [24, 4, 14],
        [15, 25, 5],
        [6, 16, 26],
        [27, 7, 17],
        [18, 28, 8],
        [9, 19, 29],
    ];
    let mut out = [0; 43];
    let mut at = 0;
    let mut put = |mut w: u32, n: usize| {
        for _ in 0..n {
            out[at] = CRYPT_ALPHABET[(w & 0x3f) as usize];
            at += 1;
            w >>= 6;
        }
    };
    for [x, y, z] in ORDER {
        put(
            u32::from(a[x]) << 16 | u32::from(a[y]) << 8 | u32::from(a[z]),
            4,
        );
    }
    put(u32::from(a[31]) << 8 | u32::from(a[30]), 3);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHALLENGE_A: &[u8; 20] = b"abcdefghijklmnopqrst";

    #[test]
    fn native_accepts_only_the_password() {
        let stored = native_hash(b"secret");
        assert!(native_verify(
            &native_response(b"secret", CHALLENGE_A),
            CHALLENGE_A,
            &stored
        ));
        assert!(!native_verify(
            &native_response(b"Secret", CHALLENGE_A),
            CHALLENGE_A,
            &stored
        ));
        assert!(!native_verify(
            &native_response(b"secret", CHALLENGE_A),
            &[7; 20],
            &stored
        ));
        assert!(!native_verify(b"", CHALLENGE_A, &stored));
        // PASSWORD('secret') of MySQL 5.7.
        let hex: String = stored.iter().map(|b| format!("{b:02X}")).collect();
        assert_eq!(hex, "14E65567ABDB5135D0CFD9A70B3032C179A49EE7");
    }

    #[test]
    fn sha2_fast_and_full_agree() {
        let digest = sha2_fast_digest(b"pw");
        assert!(sha2_fast_verify(
            &sha2_response(b"pw", CHALLENGE_A),
            CHALLENGE_A,
            &digest
        ));
        assert!(!sha2_fast_verify(
            &sha2_response(b"px", CHALLENGE_A),
            CHALLENGE_A,
            &digest
        ));
        let stored = sha2_store(b"pw", b"01234567890123456789");
        assert!(sha2_full_verify(b"pw", &stored));
        assert!(!sha2_full_verify(b"px", &stored));
        assert!(!sha2_full_verify(b"", &stored));
        // The same with 10,000 rounds, as MySQL 9 stores it.
        let digest = sha256_crypt(b"pw", b"01234567890123456789", 10_000);
        let stored = [b"$A$00A$01234567890123456789", digest.as_slice()].concat();
        assert!(sha2_full_verify(b"pw", &stored));
        assert!(!sha2_full_verify(b"px", &stored));
        let long = [b'x'; MAX_PASSWORD + 1];
        let salt = b"01234567890123456789";
        assert!(sha2_full_verify(&long[1..], &sha2_store(&long[1..], salt)));
        assert!(!sha2_full_verify(&long, &sha2_store(&long, salt)));
    }

    /// Vector of the SHA-crypt paper, whose 16 byte limit on the salt MySQL lifts.
    #[test]
    fn sha256_crypt_of_a_16_byte_salt_prefix_differs_by_salt_only() {
        let a = sha256_crypt(b"Hello world!", b"saltstringsaltstring", ROUNDS);
        let b = sha256_crypt(b"Hello world!", b"saltstringsaltstrinG", ROUNDS);
        assert_ne!(a, b);
        assert!(a.iter().all(|c| CRYPT_ALPHABET.contains(c)));
    }

    #[test]
    fn wrong_proofs_never_pass() {
        let stored = native_hash(b"x");
        for i in 0..100_000_u32 {
            let mut guess = [0_u8; 20];
            guess[..4].copy_from_slice(&i.to_le_bytes());
            assert!(!native_verify(&guess, CHALLENGE_A, &stored));
        }
    }
}
