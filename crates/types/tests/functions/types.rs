//! Types that functions make of columns: the common type of two, and those of aggregates.

use std::sync::Arc;

use esker_types::collation::{Coercibility, Collation};
use esker_types::func::merge::merge_types;
use esker_types::func::{ArgType, RetCtx, aggregate};
use esker_types::sqltype::{SqlType, TypeKind};

use super::type_text;

/// The columns that the data names, by their short names.
fn column(name: &str) -> SqlType {
    let unsigned = |kind, length| SqlType {
        unsigned: true,
        length,
        ..SqlType::new(kind)
    };
    let text = |kind| SqlType {
        collation: Collation::UTF8MB4_0900_AI_CI,
        ..SqlType::new(kind)
    };
    let labels = |names: &[&str]| {
        names
            .iter()
            .map(|n| Arc::from(*n))
            .collect::<Arc<[Arc<str>]>>()
    };
    let fsp = |kind, decimals| SqlType {
        decimals,
        ..SqlType::new(kind)
    };
    match name {
        "ti" => SqlType::new(TypeKind::TinyInt),
        "tu" => unsigned(TypeKind::TinyInt, 3),
        "si" => SqlType::new(TypeKind::SmallInt),
        "su" => unsigned(TypeKind::SmallInt, 5),
        "mi" => SqlType::new(TypeKind::MediumInt),
        "mu" => unsigned(TypeKind::MediumInt, 8),
        "i" => SqlType::new(TypeKind::Int),
        "iu" => unsigned(TypeKind::Int, 10),
        "bi" => SqlType::bigint(false),
        "bu" => SqlType::bigint(true),
        "de" => SqlType::decimal(10, 2),
        "du" => SqlType {
            unsigned: true,
            ..SqlType::decimal(10, 2)
        },
        "f" => SqlType::new(TypeKind::Float),
        "db" => SqlType::new(TypeKind::Double),
        "y" => SqlType {
            unsigned: true,
            ..SqlType::new(TypeKind::Year)
        },
        "d" => SqlType::new(TypeKind::Date),
        "t" => SqlType::new(TypeKind::Time),
        "t3" => fsp(TypeKind::Time, 3),
        "dt" => SqlType::new(TypeKind::DateTime),
        "dt3" => fsp(TypeKind::DateTime, 3),
        "ts" => SqlType::new(TypeKind::Timestamp),
        "c" => SqlType {
            length: 5,
            ..text(TypeKind::Char)
        },
        "v" => SqlType::varchar(20, Collation::UTF8MB4_0900_AI_CI),
        "vl" => SqlType::varchar(7, Collation::LATIN1_SWEDISH_CI),
        "vb" => SqlType::varchar(10, Collation::BINARY),
        "tt" => text(TypeKind::TinyText),
        "tx" => text(TypeKind::Text),
        "lt" => text(TypeKind::LongText),
        "bl" => SqlType::new(TypeKind::Text),
        "en" => SqlType {
            length: 3,
            ..text(TypeKind::Enum(labels(&["a", "bbb"])))
        },
        "st" => SqlType {
            length: 3,
            ..text(TypeKind::Set(labels(&["x", "y"])))
        },
        "b8" => SqlType {
            length: 8,
            ..SqlType::new(TypeKind::Bit)
        },
        _ => panic!("no column {name}"),
    }
}

fn arg(name: &str) -> ArgType<'static> {
    ArgType {
        ty: column(name),
        coercibility: Coercibility::Implicit,
        value: None,
    }
}

const CTX: RetCtx = RetCtx {
    collation_connection: Collation::UTF8MB4_0900_AI_CI,
    div_precision_increment: 4,
    max_allowed_packet: 64 << 20,
    group_concat_max_len: 1024,
};

/// Digits of DECIMAL made from BIT columns, and UNSIGNED of DECIMAL, are not compared.
fn comparable(key: &str, ty: &str) -> String {
    let ty = ty.replace(" NOT NULL", "").replace(" UNSIGNED", "");
    match ty.starts_with("DECIMAL(") && key.split(' ').any(|n| n == "b8") {
        true => "DECIMAL".into(),
        false => ty,
    }
}

fn check(data: &str, ours: impl Fn(&str, &str) -> String) {
    let mut wrong = Vec::new();
    for line in data.lines().filter(|l| !l.starts_with('#')) {
        let (key, wanted) = line.split_once('\t').expect("two columns");
        let (a, b) = key.split_once(' ').expect("two names");
        let got = ours(a, b);
        if comparable(key, &got) != comparable(key, wanted) {
            wrong.push(format!("{key}: wanted {wanted}, got {got}"));
        }
    }
    assert!(
        wrong.is_empty(),
        "{} differ:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

#[test]
fn common_types_are_mysqls() {
    check(include_str!("../../testdata/common-types.txt"), |a, b| {
        let sig = merge_types(&[arg(a), arg(b)], &CTX, "ifnull").expect("merges");
        let swapped = merge_types(&[arg(b), arg(a)], &CTX, "ifnull").expect("merges");
        // FLOAT stays before BIGINT, and is DOUBLE behind it.
        let is_ordered = b == "f" && matches!(a, "bi" | "bu");
        let (text, swapped) = (type_text(&sig.ret), type_text(&swapped.ret));
        assert_eq!(is_ordered, text != swapped, "{a} {b}");
        text
    });
}

#[test]
fn aggregate_types_are_mysqls() {
    check(
        include_str!("../../testdata/aggregate-types.txt"),
        |name, a| {
            let def = aggregate::lookup(name).expect("an aggregate");
            type_text(&def.bind(&[arg(a)], &CTX).expect("binds").ret)
        },
    );
}
