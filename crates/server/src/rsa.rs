//! The RSA key with which a client sends its password when the connection has no TLS.
//!
//! Neighbours: `login` asks for the public key and the decryption. The key lives in memory only:
//! clients fetch it on every full authentication, so nothing is gained by keeping it.
//! **Invariant**: padding is OAEP with SHA-1, as MySQL's clients use.

use std::sync::OnceLock;

use aws_lc_rs::encoding::{AsDer, PublicKeyX509Der};
use aws_lc_rs::rsa::{KeySize, OAEP_SHA1_MGF1SHA1, OaepPrivateDecryptingKey, PrivateDecryptingKey};

/// A lazily made 2048 bit key pair.
#[derive(Default)]
pub(crate) struct LoginKey {
    pair: OnceLock<Option<(OaepPrivateDecryptingKey, String)>>,
}

const BASE64: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

fn pem(der: &[u8]) -> String {
    let mut text = String::from("-----BEGIN PUBLIC KEY-----\n");
    for (i, chunk) in der.chunks(3).enumerate() {
        if i > 0 && i % 16 == 0 {
            text.push('\n');
        }
        let b = [
            chunk[0],
            *chunk.get(1).unwrap_or(&0),
            *chunk.get(2).unwrap_or(&0),
        ];
        let bits = u32::from(b[0]) << 16 | u32::from(b[1]) << 8 | u32::from(b[2]);
        for k in 0..4 {
            if k > chunk.len() {
                text.push('=');
            } else {
                text.push(char::from(BASE64[(bits >> (18 - 6 * k) & 63) as usize]));
            }
        }
    }
    text.push_str("\n-----END PUBLIC KEY-----\n");
    text
}

impl LoginKey {
    fn pair(&self) -> Option<&(OaepPrivateDecryptingKey, String)> {
        self.pair
            .get_or_init(|| {
                let private = PrivateDecryptingKey::generate(KeySize::Rsa2048).ok()?;
                let der: PublicKeyX509Der<'_> = private.public_key().as_der().ok()?;
                let text = pem(der.as_ref());
                Some((OaepPrivateDecryptingKey::new(private).ok()?, text))
            })
            .as_ref()
    }

    /// The public key in PEM. Makes the key on first use, which takes a tenth of a second or so:
    /// call it where blocking is allowed.
    pub(crate) fn public_pem(&self) -> Option<&str> {
        self.pair().map(|p| p.1.as_str())
    }

    /// Decrypts a password that was XORed with the challenge and ends in NUL.
    pub(crate) fn decrypt(&self, cipher: &[u8], challenge: &[u8]) -> Option<Vec<u8>> {
        let (key, _) = self.pair()?;
        let mut out = vec![0; key.min_output_size()];
        let clear = key
            .decrypt(&OAEP_SHA1_MGF1SHA1, cipher, &mut out, None)
            .ok()?;
        let mut password: Vec<u8> = clear
            .iter()
            .zip(challenge.iter().cycle())
            .map(|(a, b)| a ^ b)
            .collect();
        (password.pop() == Some(0)).then_some(password)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use aws_lc_rs::rsa::{OaepPublicEncryptingKey, PublicEncryptingKey};

    #[test]
    fn a_password_survives_the_trip() {
        let key = LoginKey::default();
        let text = key.public_pem().unwrap().to_owned();
        assert!(text.starts_with("-----BEGIN PUBLIC KEY-----\nMIIB"));
        let challenge = b"abcdefghijklmnopqrst";
        let mut clear: Vec<u8> = b"secret\0".to_vec();
        clear.iter_mut().zip(challenge).for_each(|(a, b)| *a ^= b);
        let der = base64_decode(&text);
        let public =
            OaepPublicEncryptingKey::new(PublicEncryptingKey::from_der(&der).unwrap()).unwrap();
        let mut out = vec![0; public.ciphertext_size()];
        let cipher = public
            .encrypt(&OAEP_SHA1_MGF1SHA1, &clear, &mut out, None)
            .unwrap();
        assert_eq!(key.decrypt(cipher, challenge).unwrap(), b"secret");
        assert_eq!(key.decrypt(&[1, 2, 3], challenge), None);
    }

    fn base64_decode(pem: &str) -> Vec<u8> {
        let body: Vec<u8> = pem
            .lines()
            .filter(|l| !l.starts_with('-'))
            .flat_map(str::bytes)
            .filter(|&b| b != b'=')
            .map(|b| BASE64.iter().position(|&c| c == b).unwrap() as u8)
            .collect();
        body.chunks(4)
            .flat_map(|c| {
                let bits = c.iter().fold(0_u32, |acc, &v| acc << 6 | u32::from(v));
                let n = c.len() * 6 / 8;
                let bits = bits << (6 * (4 - c.len()));
                bits.to_be_bytes()[1..=n].to_vec()
            })
            .collect()
    }
}
