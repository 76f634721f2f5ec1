//! AES_ENCRYPT and AES_DECRYPT: AES in the modes of `block_encryption_mode`, with MySQL's ways to make a key.
//!
//! Neighbours: crate `aes` encrypts single blocks, `hkdf` and `pbkdf2` derive keys; the chaining of blocks is here.
//! The mode is a setting of the statement ([`EvalSettings`](crate::ctx::EvalSettings)).
//! **Invariants**: ECB and CBC pad to whole blocks (PKCS #7), the other modes keep the length; what cannot be
//! decrypted is NULL.

use aes::cipher::{BlockCipherDecrypt, BlockCipherEncrypt, KeyInit};
use aes::{Aes128, Aes192, Aes256, Block};
use hkdf::Hkdf;
use sha2::Sha512;

use super::call::{Call, string};
use super::ret::{string_type, text_chars};
use super::{ArgType, FuncDef, RetCtx, Signature, TOTAL, def};
use crate::collation::Collation;
use crate::ctx::Work;
use crate::error::{SqlError, SqlResult};
use crate::errors;
use crate::value::Value;

pub(super) const DEFS: &[FuncDef] = &[
    def("aes_encrypt", 2, 6, TOTAL, ret_encrypt, aes_encrypt),
    def("aes_decrypt", 2, 6, TOTAL, ret_decrypt, aes_decrypt),
];

/// Bytes of a block, and of an initialization vector.
const BLOCK: usize = 16;
/// Bytes of a KDF argument, less one.
const MAX_KDF_OPTION: usize = 256;
/// Bytes of the number of iterations, less one.
const MAX_ITERATIONS_TEXT: usize = 6;
/// Iterations of PBKDF2.
const ITERATIONS: std::ops::RangeInclusive<i64> = 1000..=65_535;
/// An iteration takes as long as work on so many bytes.
const BYTES_PER_ITERATION: usize = 512;

/// How blocks are chained.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Chaining {
    Ecb,
    Cbc,
    Cfb1,
    Cfb8,
    Cfb128,
    Ofb,
}

/// A value of `block_encryption_mode`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockMode {
    /// Bytes of the key.
    key_bytes: usize,
    chaining: Chaining,
}

impl Default for BlockMode {
    fn default() -> Self {
        Self {
            key_bytes: 16,
            chaining: Chaining::Ecb,
        }
    }
}

impl BlockMode {
    /// Every value, in the order of their numbers.
    pub const NAMES: &'static [&'static str] = &[
        "aes-128-ecb",
        "aes-192-ecb",
        "aes-256-ecb",
        "aes-128-cbc",
        "aes-192-cbc",
        "aes-256-cbc",
        "aes-128-cfb1",
        "aes-192-cfb1",
        "aes-256-cfb1",
        "aes-128-cfb8",
        "aes-192-cfb8",
        "aes-256-cfb8",
        "aes-128-cfb128",
        "aes-192-cfb128",
        "aes-256-cfb128",
        "aes-128-ofb",
        "aes-192-ofb",
        "aes-256-ofb",
    ];

    /// The mode of this name, as `block_encryption_mode` has it.
    pub fn by_name(name: &str) -> Option<Self> {
        let (bits, chaining) = name.strip_prefix("aes-")?.split_once('-')?;
        let key_bytes = match bits {
            "128" => 16,
            "192" => 24,
            "256" => 32,
            _ => return None,
        };
        let chaining = match chaining {
            "ecb" => Chaining::Ecb,
            "cbc" => Chaining::Cbc,
            "cfb1" => Chaining::Cfb1,
            "cfb8" => Chaining::Cfb8,
            "cfb128" => Chaining::Cfb128,
            "ofb" => Chaining::Ofb,
            _ => return None,
        };
        Some(Self {
            key_bytes,
            chaining,
        })
    }
}

/// Whole blocks, one more than fit.
fn padded_len(bytes: u64) -> u64 {
    (bytes / BLOCK as u64 + 1) * BLOCK as u64
}

fn ret_encrypt(args: &[ArgType], _: &RetCtx) -> SqlResult<Signature> {
    let ty = &args[0].ty;
    let bytes = u64::from(text_chars(ty)) * u64::from(ty.collation.charset().max_len());
    Ok(Signature::plain(string_type(
        padded_len(bytes),
        Collation::BINARY,
    )))
}

fn ret_decrypt(args: &[ArgType], _: &RetCtx) -> SqlResult<Signature> {
    let chars = u64::from(text_chars(&args[0].ty));
    Ok(Signature::plain(string_type(chars, Collation::BINARY)))
}

/// 3238.
fn bad_kdf_option(bytes: usize) -> SqlError {
    let message = format!(
        "KDF option size is invalid, please provide valid size < {bytes} bytes and not NULL"
    );
    SqlError::new(3238, "HY000", message)
}

/// An argument that says how the key is derived.
fn kdf_option<'a>(c: &Call<'a>, nth: usize, limit: usize) -> SqlResult<Option<Vec<u8>>> {
    if !c.has(nth) {
        return Ok(None);
    }
    let option = (!c.null(nth)).then(|| c.bytes(nth).into_owned());
    match option.filter(|o| o.len() < limit) {
        None => Err(bad_kdf_option(limit)),
        found => Ok(found),
    }
}

/// The iterations that an argument asks for.
fn iterations(c: &Call, nth: usize) -> SqlResult<u32> {
    let Some(text) = kdf_option(c, nth, MAX_ITERATIONS_TEXT)? else {
        return Ok(*ITERATIONS.start() as u32);
    };
    let number = std::str::from_utf8(&text).ok().and_then(|t| t.parse().ok());
    match number.filter(|n| ITERATIONS.contains(n)) {
        Some(n) => Ok(n as u32),
        None => {
            let message = "For KDF method pbkdf2_hmac iterations value less than 1000 or more than 65535 is not \
                           allowed due to security reasons. Please provide iterations >= 1000 and iterations < 65535";
            Err(SqlError::new(3236, "HY000", message))
        }
    }
}

/// The key that a function named in argument 3 makes of the one given.
fn derived_key(c: &Call, given: &[u8], key: &mut [u8]) -> SqlResult<()> {
    let method = kdf_option(c, 3, MAX_KDF_OPTION)?.unwrap_or_default();
    match &*method {
        b"hkdf" => {
            let salt = kdf_option(c, 4, MAX_KDF_OPTION)?.unwrap_or_default();
            let info = kdf_option(c, 5, MAX_KDF_OPTION)?.unwrap_or_default();
            let hkdf = Hkdf::<Sha512>::new(Some(&salt), given);
            hkdf.expand(&info, key)
                .map_err(|e| errors::internal(format_args!("HKDF of a short key: {e}")))
        }
        b"pbkdf2_hmac" => {
            let salt = kdf_option(c, 4, MAX_KDF_OPTION)?.unwrap_or_default();
            let rounds = iterations(c, 5)?;
            c.ctx.session.go_on(rounds as usize * BYTES_PER_ITERATION)?;
            pbkdf2::pbkdf2_hmac::<Sha512>(given, &salt, rounds, key);
            Ok(())
        }
        _ => {
            let message =
                "KDF method name is not valid. Please use hkdf or pbkdf2_hmac method name";
            Err(SqlError::new(3235, "HY000", message))
        }
    }
}

/// The key of a call: derived, or the bytes given, wrapped around the length that AES takes.
fn key_of(c: &Call, mode: BlockMode) -> SqlResult<Vec<u8>> {
    let given = c.bytes(1);
    let mut key = vec![0; mode.key_bytes];
    if c.has(3) {
        derived_key(c, &given, &mut key)?;
        return Ok(key);
    }
    if given.len() > mode.key_bytes {
        let size = mode.key_bytes;
        let message = format!(
            "AES key size should be {size} bytes length or secure KDF methods hkdf or pbkdf2_hmac should be used, \
             please provide exact AES key size or use KDF methods for better security."
        );
        c.warn(3237, message);
    }
    for (at, byte) in given.iter().enumerate() {
        key[at % mode.key_bytes] ^= byte;
    }
    Ok(key)
}

/// The initialization vector; zeros where the mode has none.
fn vector_of(c: &Call, mode: BlockMode, function: &str) -> SqlResult<[u8; BLOCK]> {
    if mode.chaining == Chaining::Ecb {
        if c.argc() == 3 && !c.null(2) && !c.bytes(2).is_empty() {
            c.warn(1618, "<IV> option ignored");
        }
        return Ok([0; BLOCK]);
    }
    if !c.has(2) {
        return Err(errors::wrong_parameter_count(function));
    }
    let given = match c.null(2) {
        true => Vec::new(),
        false => c.bytes(2).into_owned(),
    };
    match given.first_chunk() {
        Some(vector) => Ok(*vector),
        None => {
            let message = format!(
                "The initialization vector supplied to {function} is too short. Must be at least {BLOCK} bytes long"
            );
            Err(SqlError::new(1882, "HY000", message))
        }
    }
}

/// AES with a key.
enum Cipher {
    Aes128(Box<Aes128>),
    Aes192(Box<Aes192>),
    Aes256(Box<Aes256>),
}

impl Cipher {
    fn new(key: &[u8]) -> Self {
        let fits = "a key as long as its kind of AES wants it";
        match key.len() {
            16 => Self::Aes128(Box::new(Aes128::new_from_slice(key).expect(fits))),
            24 => Self::Aes192(Box::new(Aes192::new_from_slice(key).expect(fits))),
            _ => Self::Aes256(Box::new(Aes256::new_from_slice(key).expect(fits))),
        }
    }

    fn encrypted(&self, block: [u8; BLOCK]) -> [u8; BLOCK] {
        let mut block = Block::from(block);
        match self {
            Self::Aes128(c) => c.encrypt_block(&mut block),
            Self::Aes192(c) => c.encrypt_block(&mut block),
            Self::Aes256(c) => c.encrypt_block(&mut block),
        }
        block.into()
    }

    fn decrypted(&self, block: [u8; BLOCK]) -> [u8; BLOCK] {
        let mut block = Block::from(block);
        match self {
            Self::Aes128(c) => c.decrypt_block(&mut block),
            Self::Aes192(c) => c.decrypt_block(&mut block),
            Self::Aes256(c) => c.decrypt_block(&mut block),
        }
        block.into()
    }
}

fn xor(a: [u8; BLOCK], b: [u8; BLOCK]) -> [u8; BLOCK] {
    std::array::from_fn(|i| a[i] ^ b[i])
}

/// Encrypts in a mode of whole blocks.
fn encrypt_blocks(
    cipher: &Cipher,
    chained: bool,
    vector: [u8; BLOCK],
    mut text: Vec<u8>,
    work: &mut Work<'_>,
) -> SqlResult<Vec<u8>> {
    let pad = BLOCK - text.len() % BLOCK;
    text.resize(text.len() + pad, pad as u8);
    let (blocks, rest) = text.as_chunks_mut::<BLOCK>();
    debug_assert!(rest.is_empty());
    let mut before = vector;
    for block in blocks {
        work.done(BLOCK)?;
        let plain = if chained { xor(*block, before) } else { *block };
        *block = cipher.encrypted(plain);
        before = *block;
    }
    Ok(text)
}

/// Decrypts in a mode of whole blocks; `None` where the padding is not what encrypting makes.
fn decrypt_blocks(
    cipher: &Cipher,
    chained: bool,
    vector: [u8; BLOCK],
    mut text: Vec<u8>,
    work: &mut Work<'_>,
) -> SqlResult<Option<Vec<u8>>> {
    let (blocks, rest) = text.as_chunks_mut::<BLOCK>();
    if !rest.is_empty() {
        return Ok(None);
    }
    let mut before = vector;
    for block in blocks {
        work.done(BLOCK)?;
        let plain = cipher.decrypted(*block);
        let plain = if chained { xor(plain, before) } else { plain };
        before = std::mem::replace(block, plain);
    }
    Ok(without_padding(text))
}

fn without_padding(mut text: Vec<u8>) -> Option<Vec<u8>> {
    let pad = usize::from(*text.last()?);
    let len = text.len().checked_sub(pad)?;
    let whole = (1..=BLOCK).contains(&pad) && text[len..].iter().all(|b| usize::from(*b) == pad);
    text.truncate(len);
    whole.then_some(text)
}

/// Encrypts or decrypts in a mode that makes a stream of bits to combine with the text.
fn stream(
    cipher: &Cipher,
    chaining: Chaining,
    mut register: [u8; BLOCK],
    text: &mut [u8],
    decrypts: bool,
    work: &mut Work<'_>,
) -> SqlResult<()> {
    match chaining {
        Chaining::Cfb1 => {
            for byte in text {
                work.done(CFB1_WEIGHT)?;
                for bit in (0..8).rev() {
                    let given = *byte >> bit & 1;
                    let made = given ^ cipher.encrypted(register)[0] >> 7;
                    *byte = *byte & !(1 << bit) | made << bit;
                    let fed = if decrypts { given } else { made };
                    register = (u128::from_be_bytes(register) << 1 | u128::from(fed)).to_be_bytes();
                }
            }
        }
        Chaining::Cfb8 => {
            for byte in text {
                work.done(CFB8_WEIGHT)?;
                let given = *byte;
                *byte ^= cipher.encrypted(register)[0];
                let fed = if decrypts { given } else { *byte };
                register = (u128::from_be_bytes(register) << 8 | u128::from(fed)).to_be_bytes();
            }
        }
        Chaining::Ecb | Chaining::Cbc | Chaining::Cfb128 | Chaining::Ofb => {
            for part in text.chunks_mut(BLOCK) {
                work.done(BLOCK)?;
                let bits = cipher.encrypted(register);
                register = bits;
                for ((byte, bits), fed) in part.iter_mut().zip(bits).zip(&mut register) {
                    let given = *byte;
                    *byte ^= bits;
                    if chaining == Chaining::Cfb128 {
                        *fed = if decrypts { given } else { *byte };
                    }
                }
            }
        }
    }
    Ok(())
}

/// A byte in a mode that enciphers a block for each bit counts as so many, ...
const CFB1_WEIGHT: usize = 8 * BLOCK;
/// ... and in one that does so for each byte.
const CFB8_WEIGHT: usize = BLOCK;

/// Steps of a call count as so many bytes of work.
fn weight(mode: BlockMode, bytes: usize) -> usize {
    match mode.chaining {
        Chaining::Cfb1 => bytes.saturating_mul(CFB1_WEIGHT),
        Chaining::Cfb8 => bytes.saturating_mul(CFB8_WEIGHT),
        _ => bytes,
    }
}

fn crypt(c: &Call, function: &str, decrypts: bool) -> SqlResult<Value> {
    if c.null(0) || c.null(1) {
        return Ok(Value::Null);
    }
    let mode = c.ctx.block_encryption;
    let key = key_of(c, mode)?;
    let vector = vector_of(c, mode, function)?;
    let mut text = c.bytes(0).into_owned();
    c.ctx.session.go_on(weight(mode, text.len()))?;
    let cipher = Cipher::new(&key);
    let work = &mut Work::new(c.ctx.session);
    let chained = mode.chaining == Chaining::Cbc;
    match mode.chaining {
        Chaining::Ecb | Chaining::Cbc if decrypts => {
            let plain = decrypt_blocks(&cipher, chained, vector, text, work)?;
            Ok(plain.map_or(Value::Null, Value::Str))
        }
        Chaining::Ecb | Chaining::Cbc => {
            string(encrypt_blocks(&cipher, chained, vector, text, work)?)
        }
        chaining => {
            stream(&cipher, chaining, vector, &mut text, decrypts, work)?;
            string(text)
        }
    }
}

fn aes_encrypt(c: &Call) -> SqlResult<Value> {
    crypt(c, "aes_encrypt", false)
}

fn aes_decrypt(c: &Call) -> SqlResult<Value> {
    crypt(c, "aes_decrypt", true)
}
