//! Decimals against an arbitrary-precision oracle.

use std::cmp::Ordering;
use std::str::FromStr;

use bigdecimal::{BigDecimal, RoundingMode};
use proptest::prelude::*;

use super::*;

fn d(text: &str) -> Decimal {
    text.parse().unwrap_or_else(|e| panic!("{text}: {e:?}"))
}

fn big(x: &Decimal) -> BigDecimal {
    BigDecimal::from_str(&x.to_string()).unwrap()
}

/// Texts of numbers with up to `int` and `frac` digits; short ones are likely, for the fast paths.
fn number(int: usize, frac: usize) -> impl Strategy<Value = Decimal> {
    let digits = |n: usize| {
        prop_oneof![
            3 => proptest::collection::vec(0u8..10, 0..=n.min(9)),
            1 => proptest::collection::vec(0u8..10, 0..=n),
            1 => proptest::collection::vec(prop_oneof![Just(0u8), Just(9u8)], 0..=n),
        ]
    };
    (any::<bool>(), digits(int), digits(frac)).prop_map(|(neg, i, f)| {
        let text = |v: Vec<u8>| {
            v.into_iter()
                .map(|b| char::from(b'0' + b))
                .collect::<String>()
        };
        d(&format!(
            "{}0{}.{}",
            if neg { "-" } else { "" },
            text(i),
            text(f)
        ))
    })
}

proptest! {
    #[test]
    fn text_round_trips(x in number(40, 30)) {
        let text = x.to_string();
        prop_assert_eq!(d(&text).to_string(), text.clone());
        prop_assert_eq!(text.split_once('.').map_or(0, |(_, f)| f.len()), usize::from(x.scale()));
        prop_assert_eq!(x.int_digits() as usize, text.trim_start_matches('-').trim_start_matches('0')
            .split('.').next().unwrap().len());
    }

    #[test]
    fn sums_and_products_are_exact(a in number(22, 13), b in number(22, 13)) {
        prop_assert_eq!(big(&a.add(&b).unwrap()), big(&a) + big(&b));
        prop_assert_eq!(big(&a.sub(&b).unwrap()), big(&a) - big(&b));
        let p = a.mul(&b).unwrap();
        prop_assert_eq!(p.scale(), a.scale() + b.scale());
        prop_assert_eq!(big(&p), big(&a) * big(&b));
    }

    #[test]
    fn order_is_numeric(a in number(35, 30), b in number(35, 30)) {
        let expected = big(&a).cmp(&big(&b));
        prop_assert_eq!(a.cmp(&b), expected);
        prop_assert_eq!(b.cmp(&a), expected.reverse());
        if expected == Ordering::Equal {
            prop_assert_eq!(a.hash64(), b.hash64());
        }
    }

    #[test]
    fn remainders_and_quotients(a in number(25, 10), b in number(25, 10)) {
        prop_assume!(!b.is_zero());
        let (q, r) = (a.div_int(&b).unwrap().unwrap(), a.rem(&b).unwrap().unwrap());
        prop_assert_eq!(q.mul(&b).unwrap().add(&r).unwrap(), a);
        prop_assert!(r.abs() < b.abs());
        prop_assert!(r.is_zero() || r.is_negative() == a.is_negative());
        let quotient = a.div(&b, 4).unwrap().unwrap();
        prop_assert!(quotient.scale() >= a.scale().max(b.scale()));
        let exact = (big(&a) / big(&b)).with_scale_round(i64::from(quotient.scale()), RoundingMode::Down);
        prop_assert_eq!(big(&quotient), exact);
    }

    #[test]
    fn rounding_is_half_away_from_zero(a in number(40, 30), scale in 0u8..=30) {
        let rounded = a.round(scale).unwrap();
        prop_assert_eq!(rounded.scale(), scale);
        let expected = big(&a).with_scale_round(i64::from(scale), RoundingMode::HalfUp);
        prop_assert_eq!(big(&rounded), expected);
        let cut = big(&a).with_scale_round(i64::from(scale), RoundingMode::Down);
        prop_assert_eq!(big(&a.truncate(scale).unwrap()), cut);
        prop_assert_eq!(
            big(&a.floor().unwrap()),
            big(&a).with_scale_round(0, RoundingMode::Floor)
        );
        prop_assert_eq!(
            big(&a.ceil().unwrap()),
            big(&a).with_scale_round(0, RoundingMode::Ceiling)
        );
    }

    #[test]
    fn keys_order_and_return(a in number(35, 12), b in number(35, 12)) {
        let key = |x: &Decimal| {
            let mut out = Vec::new();
            x.encode(47, 12, &mut out);
            assert_eq!(out.len(), Decimal::encoded_len(47));
            out
        };
        prop_assert_eq!(key(&a).cmp(&key(&b)), a.cmp(&b));
        let back = Decimal::decode(47, 12, &key(&a)).unwrap();
        prop_assert_eq!((back, back.scale()), (a, 12));
    }

    #[test]
    fn doubles_are_the_nearest(a in number(35, 30)) {
        prop_assert_eq!(a.to_f64(), a.to_string().parse::<f64>().unwrap());
    }

    #[test]
    fn integers_round_trip(v in any::<i64>(), u in any::<u64>(), w in any::<i128>()) {
        prop_assert_eq!(Decimal::from(v).to_i64(), (v, false));
        prop_assert_eq!(Decimal::from(u).to_u64(), (u, false));
        prop_assert_eq!(Decimal::from(v).to_string(), v.to_string());
        prop_assert_eq!(Decimal::from_i128(w, 3).unscaled_i128().unwrap(), w);
    }

    #[test]
    fn any_bytes_parse_without_panic(text in proptest::collection::vec(any::<u8>(), 0..40)) {
        let _ = Decimal::parse(&text);
    }
}

#[test]
fn parsing_takes_the_prefix() {
    use ParseStatus::{Bad, Cut, Exact, Overflow, Trailing};
    let nines = "9".repeat(81);
    for (text, value, status) in [
        ("12", "12", Exact),
        (" \t-12.50 ", "-12.50", Exact),
        ("+.5", "0.5", Exact),
        ("5.", "5", Exact),
        ("1e3", "1000", Exact),
        ("1.5e-3", "0.0015", Exact),
        ("12.5e1", "125", Exact),
        ("1e", "1", Trailing),
        ("1e+", "1", Trailing),
        ("12abc", "12", Trailing),
        ("1 2", "1", Trailing),
        ("", "0", Bad),
        (".", "0", Bad),
        ("-", "0", Bad),
        ("abc", "0", Bad),
        ("-0.00", "0.00", Exact),
        ("0e999999999999", "0", Exact),
        ("1e-999999999999", &format!("0.{}", "0".repeat(81)), Cut),
        (
            "00000000000000000000000000000000000000000000000000000000000000000000000000000000000001",
            "1",
            Exact,
        ),
        (&nines, &nines, Exact),
        (&format!("{nines}9"), &"9".repeat(65), Overflow),
        ("-1e81", &format!("-{}", "9".repeat(65)), Overflow),
        // Nine words: 73 digits before the point leave no room behind it.
        (&format!("{}.5", "1".repeat(73)), &"1".repeat(73), Cut),
    ] {
        let (v, s) = Decimal::parse(text.as_bytes());
        assert_eq!((v.to_string().as_str(), s), (value, status), "{text}");
    }
}

#[test]
fn division_cuts_where_mysql_does() {
    let div = |a: &str, b: &str| d(a).div(&d(b), 4).unwrap().unwrap().to_string();
    assert_eq!(div("1", "3"), "0.333333333");
    assert_eq!(div("2", "-3"), "-0.666666666");
    assert_eq!(div("1.00000", "3"), "0.333333333");
    assert_eq!(div("0", "3"), "0.000000000");
    assert_eq!(d("1").div(&d("0.0"), 4), Ok(None));
    assert_eq!(d("1").rem(&d("0.0")), Ok(None));
    let max = Decimal::max_for(65, 0, false);
    assert_eq!(
        max.div(&d("0.0003"), 4)
            .unwrap()
            .unwrap()
            .round(4)
            .unwrap()
            .to_string(),
        "333333333333333333333333333333333333333333333333333333333333333330000.0000"
    );
    assert_eq!(
        max.div(&d("3"), 4)
            .unwrap()
            .unwrap()
            .round(4)
            .unwrap()
            .to_string(),
        format!("{}.0000", "3".repeat(65))
    );
}

#[test]
fn overflow_is_where_mysqls_buffer_ends() {
    let max = Decimal::max_for(65, 0, false);
    assert_eq!(max.to_string(), "9".repeat(65));
    assert_eq!(
        max.add(&d("1")).unwrap().to_string(),
        format!("1{}", "0".repeat(65))
    );
    assert_eq!(
        max.mul(&d("99999999999")).unwrap().to_string(),
        "9999999999899999999999999999999999999999999999999999999999999999900000000001"
    );
    assert_eq!(max.mul(&d("99999999999999999")), Err(DecimalOverflow));
    assert_eq!(max.mul(&max), Err(DecimalOverflow));
    let x = "1.123456789012345678901234567890";
    let p = d(x).mul(&d(x)).unwrap();
    assert_eq!(
        p.round(30).unwrap().to_string(),
        "1.262155156777930194552964487343"
    );
}

#[test]
fn limits_and_fit() {
    assert_eq!(Decimal::max_for(5, 2, true).to_string(), "-999.99");
    assert!(d("999.99").fits(5, 2) && !d("1000.00").fits(5, 2) && !d("1.001").fits(5, 2));
    assert_eq!(
        (
            d("0.05").precision(),
            d("0").precision(),
            d("12.50").precision()
        ),
        (2, 1, 4)
    );
    assert_eq!(d("-0.4").to_i64(), (0, false));
    assert_eq!(d("-0.5").to_i64(), (-1, false));
    assert_eq!(d("9223372036854775807.5").to_i64(), (i64::MAX, true));
    assert_eq!(d("-9223372036854775808.4").to_i64(), (i64::MIN, false));
    assert_eq!(d("-1").to_u64(), (0, true));
    assert_eq!(d("18446744073709551615.4").to_u64(), (u64::MAX, false));
    assert_eq!(d("125").round_tens(1, true).unwrap().to_string(), "130");
    assert_eq!(
        d("-125.9").round_tens(2, false).unwrap().to_string(),
        "-100"
    );
    assert_eq!(d("5").round_tens(1, true).unwrap().to_string(), "10");
    assert_eq!(d("5").round_tens(90, true).unwrap().to_string(), "0");
    assert_eq!(Decimal::from_f64(0.1).0.to_string(), "0.1");
    assert!(Decimal::from_f64(1e300).1);
    assert_eq!(
        Decimal::from_f64(-1.5e20).0.to_string(),
        "-150000000000000000000"
    );
}

#[test]
fn damaged_keys_are_refused() {
    let mut key = Vec::new();
    d("-12.34").encode(4, 2, &mut key);
    assert_eq!(Decimal::decode(4, 2, &key).unwrap().to_string(), "-12.34");
    assert!(Decimal::decode(4, 2, &key[1..]).is_none());
    assert!(Decimal::decode(4, 2, &[0xff; 2]).is_none());
    assert!(Decimal::decode(4, 2, &[0x7f, 0xff, 0xff][..Decimal::encoded_len(4)]).is_none());
}

#[test]
fn digits_are_those_of_the_number() {
    for word in 0..=u16::MAX {
        let bytes = word.to_be_bytes();
        let digits = Decimal::decode(4, 2, &bytes).and_then(|d| d.unscaled_i128());
        let digits = digits.map(|n| n as i64);
        assert_eq!(Decimal::decode_digits(4, &bytes), digits, "{bytes:x?}");
    }
    for text in ["0", "-1", "123456789012345678", "-999999999999999999"] {
        for precision in [18, 19, 30, 38, 39, 65] {
            let mut bytes = Vec::new();
            d(text).encode(precision, 0, &mut bytes);
            let digits = text.parse().ok();
            assert_eq!(Decimal::decode_digits(precision, &bytes), digits, "{text}");
            assert_eq!(Decimal::decode_digits(precision, &bytes[1..]), None);
        }
    }
    for (text, fits) in [
        ("9223372036854775807", true),
        ("9223372036854775808", false),
        ("-9223372036854775808", true),
        ("99999999999999999999", false),
    ] {
        let mut bytes = Vec::new();
        d(text).encode(20, 0, &mut bytes);
        let found = Decimal::decode_digits(20, &bytes);
        assert_eq!(found, text.parse().ok().filter(|_| fits), "{text}");
    }
}

/// The form is on disk: it must never change.
#[test]
fn keys_are_frozen() {
    let key = |text: &str, p, s| {
        let mut out = Vec::new();
        d(text).encode(p, s, &mut out);
        out.iter().map(|b| format!("{b:02x}")).collect::<String>()
    };
    assert_eq!(key("0", 10, 2), "8000000000");
    assert_eq!(key("12.34", 10, 2), "80000004d2");
    assert_eq!(key("-12.34", 10, 2), "7ffffffb2d");
    assert_eq!(key("99999999.99", 10, 2), "82540be3ff");
    assert_eq!(key("-1", 65, 30).len(), 56);
    for p in 1..=65 {
        let digits = "9".repeat(p as usize);
        let bits = BigDecimal::from_str(&digits)
            .unwrap()
            .into_bigint_and_exponent()
            .0
            .bits();
        assert!(Decimal::encoded_len(p) as u64 * 8 > bits, "{p}");
        assert!((Decimal::encoded_len(p) as u64 - 1) * 8 <= bits + 8, "{p}");
    }
}
