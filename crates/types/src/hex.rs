//! Bytes as hexadecimal digits, two for each.
//!
//! Neighbours: functions that give digests, and whatever shows bytes that are no text.

/// `0aff`.
pub fn lower_hex(bytes: &[u8]) -> String {
    digits(bytes, b"0123456789abcdef")
}

/// `0AFF`.
pub fn upper_hex(bytes: &[u8]) -> String {
    digits(bytes, b"0123456789ABCDEF")
}

fn digits(bytes: &[u8], digits: &[u8; 16]) -> String {
    let mut out = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        for digit in [byte >> 4, byte & 0xF] {
            out.push(char::from(digits[usize::from(digit)]));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_has_two_digits() {
        let bytes: Vec<u8> = (0..=255).collect();
        let expected = |upper: bool| -> String {
            let one = |b: &u8| {
                if upper {
                    format!("{b:02X}")
                } else {
                    format!("{b:02x}")
                }
            };
            bytes.iter().map(one).collect()
        };
        assert_eq!(lower_hex(&bytes), expected(false));
        assert_eq!(upper_hex(&bytes), expected(true));
        assert_eq!(upper_hex(&[]), "");
    }
}
