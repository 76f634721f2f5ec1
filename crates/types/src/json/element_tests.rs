//! Elements of multi-valued indexes.

use std::fmt::Write as _;

use super::*;
use crate::decimal::Decimal;
use crate::temporal::{Date, DateFlags, DateTime};

/// Elements of arrays and their keys, which are on disk: they never change.
#[test]
fn elements_have_the_keys_that_they_always_had() {
    let zone = DateTime::new(Date::new(2020, 1, 2).unwrap(), 10, 11, 12, 600_000).unwrap();
    let values = [
        Json::Int(-12),
        Json::UInt(120),
        Json::Double(2.5),
        Json::Decimal(Decimal::from_i128(3455, 3)),
        Json::string("12"),
        Json::string("a\0b"),
        Json::Date(Date::new(2020, 1, 2).unwrap()),
        Json::DateTime(zone, false),
        Json::Time(zone.time()),
        Json::Opaque(field_type::VARCHAR, vec![0xff, 0]),
        Json::Bool(true),
    ];
    let types = [
        ElementType::Unsigned,
        ElementType::Signed,
        ElementType::Decimal(4, 2),
        ElementType::Char(20),
        ElementType::Binary(20),
        ElementType::Date,
        ElementType::DateTime(0),
        ElementType::Time(0),
    ];
    let mut keys = String::new();
    for ty in types {
        assert_eq!(ElementType::of_numbers(ty.numbers()), ty);
        for value in &values {
            let of = |item: &Json| {
                let item = encode(item).unwrap();
                element(JsonRef::new(&item), ty, DateFlags::FUZZY, "i").ok()
            };
            let Some(made) = of(value) else {
                continue;
            };
            assert_eq!(
                of(&made).as_ref(),
                Some(&made),
                "an element is its own element"
            );
            let document = encode(&Json::Array(vec![made])).unwrap();
            for key in element_keys(JsonRef::new(&document)) {
                let _ = writeln!(keys, "{ty:?} {}", crate::hex::lower_hex(&key));
            }
        }
    }
    assert_eq!(keys, ELEMENT_KEYS);
}

const ELEMENT_KEYS: &str = "\
Unsigned 01024003313200
Unsigned 010240013200
Unsigned 010240013300
Unsigned 01024002313200
Unsigned 010240013100
Signed 0100bffdcecdff
Signed 01024003313200
Signed 010240013200
Signed 010240013300
Signed 01024002313200
Signed 010240013100
Decimal(4, 2) 0100bffdcecdff
Decimal(4, 2) 01024003313200
Decimal(4, 2) 01024001323500
Decimal(4, 2) 0102400133343600
Decimal(4, 2) 01024002313200
Decimal(4, 2) 010240013100
Char(20) 022d31320001
Char(20) 023132300001
Char(20) 02322e350001
Char(20) 02332e3435350001
Char(20) 0231320001
Char(20) 026100ff620001
Char(20) 02323032302d30312d30320001
Char(20) 0231303a31313a31322e3630303030300001
Char(20) 026261736536343a7479706531353a2f77413d0001
Char(20) 02747275650001
Binary(20) 090f2d31320001
Binary(20) 090f3132300001
Binary(20) 090f322e350001
Binary(20) 090f332e3435350001
Binary(20) 090f31320001
Binary(20) 090f6100ff620001
Binary(20) 090f323032302d30312d30320001
Binary(20) 090f31303a31313a31322e3630303030300001
Binary(20) 090f6261736536343a7479706531353a2f77413d0001
Binary(20) 090f747275650001
Date 0600000000000fc822
Date 0600000000000fc822
DateTime(0) 0819a5440000000000
DateTime(0) 0819a544a2cd000000
Time(0) 0700007fffff48e500
Time(0) 070000800004c4b400
Time(0) 0700008000002dc6c0
Time(0) 0700008000002dc6c0
Time(0) 070000800000b71b00
Time(0) 070000800889e19240
Time(0) 070000800889e19240
";
