//! XA statements and identifiers, and where MySQL sees their errors.

use super::ok;
use crate::ast::{Statement, Xa, XaStart, Xid};

#[test]
fn xa_identifiers() {
    let start = |xid: &str| match ok(&format!("XA START {xid}")) {
        Statement::Xa(Xa::Start { xid, how }) => {
            assert_eq!(how, XaStart::New);
            (xid.gtrid, xid.bqual, xid.format)
        }
        other => panic!("{other:?}"),
    };
    let parts = |g: &[u8], b: &[u8], f: u64| (g.to_vec(), b.to_vec(), f);
    assert_eq!(start("''"), parts(b"", b"", 1));
    assert_eq!(start("'g'"), parts(b"g", b"", 1));
    assert_eq!(start(r#""it's", 'a''b\n'"#), parts(b"it's", b"a'b\n", 1));
    assert_eq!(start("X'00ff', x'', 0"), parts(&[0, 255], b"", 0));
    assert_eq!(start("0x6731,0x6231,0x1"), parts(b"g1", b"b1", 1));
    assert_eq!(start("0x6, b'1', 7"), parts(&[6], &[1], 7));
    assert_eq!(start("0b01000001, B'', 7"), parts(b"A", b"", 7));
    let most = i64::MAX as u64;
    for (format, value) in [
        ("9223372036854775807", most),
        ("0xffffffffffffffff", most),
        ("0xffffffffffffffffff", most),
        ("x'0102'", 0x102),
        ("2.7", 2),
        ("1e3", 1),
        (".5", 0),
    ] {
        assert_eq!(start(&format!("'a','b',{format}")).2, value, "{format}");
    }
    let long = "x".repeat(64);
    assert_eq!(start(&format!("'{long}','{long}'")).1.len(), 64);
}

#[test]
fn xa_statements() {
    let xid = || Xid {
        gtrid: b"g".to_vec(),
        bqual: Vec::new(),
        format: 1,
    };
    let start = |how| Xa::Start { xid: xid(), how };
    let cases = [
        ("XA START 'g'", start(XaStart::New)),
        ("XA BEGIN 'g' JOIN", start(XaStart::Join)),
        ("XA START 'g' RESUME", start(XaStart::Resume)),
        (
            "XA END 'g' SUSPEND FOR MIGRATE",
            Xa::End {
                xid: xid(),
                suspend: true,
            },
        ),
        (
            "XA END 'g'",
            Xa::End {
                xid: xid(),
                suspend: false,
            },
        ),
        ("XA PREPARE 'g'", Xa::Prepare(xid())),
        ("XA ROLLBACK 'g'", Xa::Rollback(xid())),
        ("XA RECOVER", Xa::Recover { convert: false }),
        ("XA RECOVER CONVERT XID", Xa::Recover { convert: true }),
    ];
    for (sql, xa) in cases {
        assert_eq!(ok(sql), Statement::Xa(xa), "{sql}");
    }
}

/// As MySQL 9.7 reports them.
#[test]
fn xa_errors() {
    let long = "x".repeat(65);
    for (sql, near) in [
        (format!("XA START '{long}'"), ""),
        (format!("XA START 'a','{long}'"), ""),
        (format!("XA START '{long}' , 'b' , 1"), "1"),
        (format!("XA START 'a','{long}' RESUME"), "RESUME"),
        ("XA START 'a','b',-1 RESUME".into(), "-1 RESUME"),
        (
            "XA START 'a','b',9223372036854775808 JOIN".into(),
            "9223372036854775808 JOIN",
        ),
        (
            "XA START 'a','b',18446744073709551616".into(),
            "18446744073709551616",
        ),
        ("XA START 'a','b','1'".into(), "'1'"),
        ("XA START 'a','b',0b11".into(), "0b11"),
        ("XA START 'a','b', b'11'".into(), "b'11'"),
        ("XA START n'ab'".into(), "n'ab'"),
        ("XA START _utf8mb4'ab'".into(), "_utf8mb4'ab'"),
        ("XA START 'a' 'b'".into(), "'b'"),
        ("XA START x'6'".into(), "x'6'"),
        ("XA START @x".into(), "@x"),
        ("XA START 'a',".into(), ""),
        ("XA START".into(), ""),
        ("XA START 'z' JOIN RESUME".into(), "RESUME"),
        ("XA END 'z' SUSPEND FOR".into(), ""),
        ("XA COMMIT 'z' ONE".into(), ""),
        ("XA RECOVER CONVERT".into(), ""),
        ("XA RECOVER FORMAT='SQL'".into(), "FORMAT='SQL'"),
        ("XA FOO 'z'".into(), "FOO 'z'"),
    ] {
        super::errors::near(&sql, near, 1);
    }
}
