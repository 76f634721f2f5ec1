//! Random rows of every type, written to a file, read back by this crate, by `mysql_common`, and by the tools of
//! MariaDB and MySQL where they are installed.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use esker_binlog::attachment::{Head, Numbering, What, head_bytes, push_event};
use esker_binlog::derive::Writer;
use esker_binlog::event::query::Settings;
use esker_binlog::event::rows::{self, Bitmap, Image, RowChange, RowFlags, Rows};
use esker_binlog::event::table_map::{self, Detail, TableMap};
use esker_binlog::event::{Checksum, Event, EventType, payload};
use esker_binlog::files::{Commits, Config, FileNumber, FileSet, Names, Scan};
use esker_binlog::gtid::{Sid, Source};
use esker_binlog::image::{Shape, ShapeColumn};
use esker_types::collation::Collation;
use esker_types::{Date, DateTime, Decimal, SqlType, Time, TypeKind, Value};
use esker_vfs::OsFs;
use mysql_common::Value as Theirs;
use mysql_common::binlog::EventStreamReader;
use mysql_common::binlog::events::EventData;
use mysql_common::binlog::value::BinlogValue;
use proptest::prelude::*;
use proptest::strategy::ValueTree;

fn sized(kind: TypeKind, length: u32, decimals: u8) -> SqlType {
    SqlType {
        length,
        decimals,
        ..SqlType::new(kind)
    }
}

fn text(kind: TypeKind, length: u32, collation: Collation) -> SqlType {
    SqlType {
        collation,
        ..sized(kind, length, 0)
    }
}

fn labels(count: usize) -> Arc<[Arc<str>]> {
    (0..count).map(|n| format!("label {n}").into()).collect()
}

/// A type with values of it.
fn typed_values() -> impl Strategy<Value = (SqlType, Vec<Value>)> {
    let integer = (
        prop::sample::select(vec![
            (TypeKind::TinyInt, 8),
            (TypeKind::SmallInt, 16),
            (TypeKind::MediumInt, 24),
            (TypeKind::Int, 32),
            (TypeKind::BigInt, 64),
        ]),
        any::<bool>(),
    );
    let integer = integer.prop_flat_map(|((kind, bits), unsigned)| {
        let ty = SqlType {
            unsigned,
            ..SqlType::new(kind)
        };
        let value = any::<u64>().prop_map(move |v| match unsigned {
            true => Value::UInt(v >> (64 - bits)),
            false => Value::Int(v as i64 >> (64 - bits)),
        });
        (Just(ty), values(value))
    });
    let float = any::<f32>().prop_filter("finite", |v| v.is_finite());
    let float = values(float.prop_map(|v| Value::Double(v.into())));
    let double = any::<f64>().prop_filter("finite", |v| v.is_finite());
    let double = values(double.prop_map(Value::Double));
    let decimal = (1..=65u8, 0..=30u8).prop_flat_map(|(precision, scale)| {
        let scale = scale.min(precision);
        let ty = sized(TypeKind::Decimal, precision.into(), scale);
        (Just(ty), values(decimal(precision, scale)))
    });
    let bit = (1..=64u8).prop_flat_map(|bits| {
        let ty = sized(TypeKind::Bit, bits.into(), 0);
        let value = any::<u64>().prop_map(move |v| Value::Bit(v >> (64 - bits), bits));
        (Just(ty), values(value))
    });
    let year = prop_oneof![Just(0i64), 1901..=2155i64].prop_map(Value::Int);
    let temporal = prop_oneof![
        date()
            .prop_map(Value::Date)
            .prop_map(|v| (TypeKind::Date, 0, v)),
        (time(), 0..=6u8).prop_map(|(t, f)| (TypeKind::Time, f, Value::Time(t.round(f, true).0))),
        (datetime(), 0..=6u8).prop_map(|(t, f)| {
            let cut = t.round(f, true).unwrap_or(DateTime::ZERO);
            (TypeKind::DateTime, f, Value::DateTime(cut))
        }),
        (0..=i64::from(i32::MAX), 0..1_000_000i64, 0..=6u8).prop_map(|(s, m, f)| {
            let t = DateTime::from_utc_micros(s * 1_000_000 + m).expect("in range");
            let t = if s == 0 { DateTime::ZERO } else { t };
            let cut = t.round(f, true).unwrap_or(DateTime::ZERO);
            (TypeKind::Timestamp, f, Value::DateTime(cut))
        }),
    ];
    let temporal = temporal.prop_map(|(kind, fsp, v)| (sized(kind, 0, fsp), vec![v]));
    let string = (string_type(), prop::collection::vec("[a-zäß ]{0,20}", 1..4));
    let string = string.prop_map(|(ty, texts)| {
        let value = |text: String| {
            // What CHAR holds has no spaces at its end, and BINARY is compared without zeros.
            Value::Str(text.trim_end().as_bytes().to_vec())
        };
        (ty, texts.into_iter().map(value).collect::<Vec<_>>())
    });
    let enums = (1..600usize).prop_flat_map(|count| {
        let value = (0..=count as u64).prop_map(|v| Value::Label(v, Box::default()));
        (
            Just(SqlType::new(TypeKind::Enum(labels(count)))),
            values(value),
        )
    });
    let sets = (1..=64usize).prop_flat_map(|count| {
        let value = any::<u64>().prop_map(move |v| Value::Label(v >> (64 - count), Box::default()));
        (
            Just(SqlType::new(TypeKind::Set(labels(count)))),
            values(value),
        )
    });
    prop_oneof![
        integer,
        float.prop_map(|v| (SqlType::new(TypeKind::Float), v)),
        double.prop_map(|v| (SqlType::new(TypeKind::Double), v)),
        decimal,
        bit,
        values(year).prop_map(|v| (SqlType::new(TypeKind::Year), v)),
        temporal,
        string,
        enums,
        sets,
    ]
}

fn values(value: impl Strategy<Value = Value>) -> impl Strategy<Value = Vec<Value>> {
    prop::collection::vec(prop_oneof![1 => Just(Value::Null), 5 => value], 1..4)
}

fn decimal(precision: u8, scale: u8) -> impl Strategy<Value = Value> {
    let digits = prop::collection::vec(0..10u8, usize::from(precision));
    (digits, any::<bool>()).prop_map(move |(digits, negative)| {
        let mut text: String = digits.iter().map(|d| char::from(b'0' + d)).collect();
        text.insert(usize::from(precision - scale), '.');
        if negative {
            text.insert(0, '-');
        }
        let value: Decimal = format!("{text}0").parse().unwrap_or(Decimal::ZERO);
        Value::Decimal(value.truncate(scale).unwrap_or(Decimal::ZERO))
    })
}

fn date() -> impl Strategy<Value = Date> {
    (0..=9999u32, 0..=12u32, 0..=28u32)
        .prop_map(|(y, m, d)| Date::new(y, m, d).unwrap_or(Date::ZERO))
}

fn time() -> impl Strategy<Value = Time> {
    (Time::MIN.micros()..=Time::MAX.micros()).prop_map(|micros| Time::clamped(micros).0)
}

fn datetime() -> impl Strategy<Value = DateTime> {
    (date(), 0..86_400_000_000i64).prop_map(|(date, micros)| DateTime::from_parts(date, micros))
}

fn string_type() -> impl Strategy<Value = SqlType> {
    let collation = prop::sample::select(vec![
        Collation::BINARY,
        Collation::UTF8MB4_0900_AI_CI,
        Collation::LATIN1_SWEDISH_CI,
        Collation::UTF8MB3_GENERAL_CI,
    ]);
    let kind = prop::sample::select(vec![
        (TypeKind::Char, 60),
        (TypeKind::Char, 255),
        (TypeKind::VarChar, 63),
        (TypeKind::VarChar, 64),
        (TypeKind::VarChar, 256),
        (TypeKind::TinyText, 255),
        (TypeKind::Text, 65_535),
        (TypeKind::MediumText, 16_777_215),
        (TypeKind::LongText, u32::MAX),
    ]);
    (kind, collation).prop_map(|((kind, length), collation)| text(kind, length, collation))
}

/// Columns, and rows for them.
#[derive(Debug, Clone)]
struct Table {
    shape: Shape,
    rows: Vec<Vec<Value>>,
}

fn table() -> impl Strategy<Value = Table> {
    prop::collection::vec(typed_values(), 1..20).prop_map(|columns| {
        let count = columns
            .iter()
            .map(|(_, values)| values.len())
            .max()
            .unwrap_or(1);
        let row = |n: usize| {
            let value = |(_, values): &(SqlType, Vec<Value>)| values[n % values.len()].clone();
            columns.iter().map(value).collect()
        };
        let rows = (0..count).map(row).collect();
        let column = |(n, (ty, _)): (usize, &(SqlType, Vec<Value>))| {
            ShapeColumn::new(format!("c{n}").into(), ty.clone(), n % 7 == 6)
        };
        Table {
            shape: Shape {
                table_id: 77,
                schema: "d".into(),
                table: "t".into(),
                columns: columns.iter().enumerate().map(column).collect(),
                is_related: false,
                has_generated_key: false,
                primary_key: vec![(0, 0)],
            },
            rows,
        }
    })
}

/// An attachment that inserts all rows, then deletes the first by some of its columns.
fn attachment(table: &Table, detail: Detail, compressed: bool) -> Vec<u8> {
    let shape = &table.shape;
    let mut out = Vec::new();
    let push = |kind, body: &[u8], out: &mut Vec<u8>| push_event(kind, 0, 1_700_000_000, body, out);
    let mut map = Vec::new();
    table_map::write(shape, detail, &mut map);
    push(EventType::TableMap, &map, &mut out);
    let all = Bitmap::all(shape.columns.len());
    let some = Bitmap::from_bits((0..shape.columns.len()).map(|col| col % 3 == 0));
    for (kind, columns) in [(EventType::WriteRows, &all), (EventType::DeleteRows, &some)] {
        let mut body = Vec::new();
        rows::begin(
            shape.table_id,
            RowFlags::default(),
            columns,
            None,
            &mut body,
        );
        for row in &table.rows {
            let value = |col: usize| row[col].as_ref();
            rows::write_image(shape, columns, value, &mut body).expect("fits");
        }
        rows::end_statement(&mut body);
        push(kind, &body, &mut out);
    }
    let settings = Settings {
        flags2: Some(0),
        sql_mode: Some(0),
        charset: Some((33, 33, 255)),
        ..Settings::default()
    };
    let mut bytes = Vec::new();
    settings.write(&mut bytes);
    let head = Head {
        what: What::Transaction,
        commit_micros: 1_700_000_000_123_456,
        begin_time: 1_700_000_000,
        thread_id: 9,
        numbering: Numbering::default(),
        origin: None,
        xid: None,
        schema: b"d",
        settings: &bytes,
        has_statements: false,
        compressed: compressed.then_some(3),
        spooled: None,
        write_set: None,
    };
    [head_bytes(&head), out].concat()
}

fn write_file(dir: &Path, checksum: Checksum, attachments: &[Vec<u8>]) -> PathBuf {
    let names = Names::new(dir.join("binlog"), "binlog");
    let config = Config {
        names: names.clone(),
        writer: Writer {
            source: Source::untagged(Sid([9; 16])),
            server_id: 1,
            server_version: 80_400,
            gtid_mode: true,
        },
        version: "8.4.0".into(),
        max_size: 1 << 30,
        checksum,
        commits: Commits::OneSync,
    };
    let mut set = FileSet::open(Arc::new(OsFs::new()), config, 8, 1_700_000_000).expect("open");
    for (n, attachment) in attachments.iter().enumerate() {
        set.append(9 + n as u64, attachment).expect("append");
    }
    set.close(1_700_000_001).expect("close");
    names.path(FileNumber(1))
}

/// All row images of a file, payloads included, with the values left as they are in images.
fn read_file(path: &Path) -> Vec<Image> {
    let mut scan = Scan::open(&OsFs::new(), path, None).expect("opens");
    let (mut map, mut images) = (TableMap::default(), Vec::new());
    while let Some((_, event)) = scan.next_event().expect("sound") {
        match event.header.event_type() {
            Some(EventType::TransactionPayload) => {
                let inner = payload::parse(event.body).expect("payload");
                let mut at = 0;
                while at < inner.len() {
                    let event = Event::parse(&inner[at..], Checksum::None).expect("sound");
                    at += event.header.length as usize;
                    read_event(&event, &mut map, &mut images);
                }
            }
            _ => read_event(&event, &mut map, &mut images),
        }
    }
    images
}

fn read_event(event: &Event<'_>, map: &mut TableMap, images: &mut Vec<Image>) {
    match event.header.event_type() {
        Some(EventType::TableMap) => *map = TableMap::parse(event.body).expect("map"),
        Some(kind @ (EventType::WriteRows | EventType::DeleteRows)) => {
            let rows = Rows::parse(kind, event.body).expect("rows");
            for change in rows.rows(map).expect("images") {
                match change {
                    RowChange::Insert(image) | RowChange::Delete(image) => images.push(image),
                    RowChange::Update(..) => unreachable!("none was written"),
                }
            }
        }
        _ => {}
    }
}

/// What a column's value looks like in an image, as text.
fn shown(column: &ShapeColumn, value: &Value) -> String {
    match value {
        Value::Null => "NULL".into(),
        Value::Int(v) => v.to_string(),
        Value::UInt(v) => v.to_string(),
        Value::Double(v) if column.ty.kind == TypeKind::Float => (*v as f32).to_string(),
        Value::Double(v) => v.to_string(),
        Value::Decimal(v) => v.to_string(),
        Value::Str(v) | Value::Json(v) => hex(v),
        Value::Date(v) => v.at_midnight().format(6),
        Value::Time(v) => v.format(6),
        Value::DateTime(v) => v.format(6),
        Value::Bit(v, bits) => hex(&v.to_be_bytes()[8 - usize::from(*bits).div_ceil(8)..]),
        Value::Label(v, _) => v.to_string(),
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

/// The value that is expected in an image: texts in the column's character set.
fn imaged(column: &ShapeColumn, value: &Value) -> Value {
    match value {
        Value::Str(text) => Value::Str(column.charset.encode_lossy(text).into_owned()),
        other => other.clone(),
    }
}

fn expected(table: &Table) -> Vec<Vec<Option<String>>> {
    let columns = &table.shape.columns;
    let row = |row: &Vec<Value>, step: usize| {
        let value = |(col, column): (usize, &ShapeColumn)| {
            (col % step == 0).then(|| shown(column, &imaged(column, &row[col])))
        };
        columns.iter().enumerate().map(value).collect()
    };
    let inserted = table.rows.iter().map(|r| row(r, 1));
    inserted
        .chain(table.rows.iter().map(|r| row(r, 3)))
        .collect()
}

/// The same of a value that `mysql_common` has read.
fn theirs(column: &ShapeColumn, value: &BinlogValue<'_>) -> String {
    let BinlogValue::Value(value) = value else {
        panic!("no JSON here");
    };
    match value {
        Theirs::NULL => "NULL".into(),
        // It leaves the sign of a MEDIUMINT where it is.
        Theirs::Int(v) if column.ty.kind == TypeKind::MediumInt && !column.ty.unsigned => {
            (v << 40 >> 40).to_string()
        }
        Theirs::Int(v) => v.to_string(),
        Theirs::UInt(v) => v.to_string(),
        Theirs::Float(v) => v.to_string(),
        Theirs::Double(v) => v.to_string(),
        Theirs::Date(y, mo, d, h, mi, s, us) => {
            format!("{y:04}-{mo:02}-{d:02} {h:02}:{mi:02}:{s:02}.{us:06}")
        }
        Theirs::Time(negative, d, h, mi, s, us) => {
            let hours = d * 24 + u32::from(*h);
            format!(
                "{}{hours:02}:{mi:02}:{s:02}.{us:06}",
                if *negative { "-" } else { "" }
            )
        }
        Theirs::Bytes(bytes) => match &column.ty.kind {
            TypeKind::Decimal | TypeKind::Timestamp | TypeKind::Year => {
                String::from_utf8_lossy(bytes).into_owned()
            }
            TypeKind::Set(_) => {
                let mut word = [0; 8];
                word[..bytes.len()].copy_from_slice(bytes);
                u64::from_le_bytes(word).to_string()
            }
            _ => hex(bytes),
        },
    }
}

/// A value of ours in the form in which `mysql_common` gives it, where that differs.
fn in_their_form(column: &ShapeColumn, value: &Value) -> String {
    match (&column.ty.kind, value) {
        (TypeKind::Timestamp, Value::DateTime(v)) => {
            let micros = if v.is_zero() {
                0
            } else {
                v.micros_as_utc().expect("an instant")
            };
            let (seconds, fraction) = (micros.div_euclid(1_000_000), micros.rem_euclid(1_000_000));
            match fraction {
                0 => seconds.to_string(),
                _ => format!("{seconds}.{fraction:06}"),
            }
        }
        // It does not know the year 0000.
        (TypeKind::Year, Value::Int(0)) => "1900".into(),
        _ => shown(column, &imaged(column, value)),
    }
}

fn compare_with_mysql_common(path: &Path, table: &Table) {
    let bytes = std::fs::read(path).expect("file");
    let mut reader = EventStreamReader::new(mysql_common::binlog::consts::BinlogVersion::Version4);
    let mut input = &bytes[4..];
    let mut found = 0;
    while let Some(event) = reader.read(&mut input).expect("read") {
        let Some(EventData::RowsEvent(rows)) = event.read_data().expect("data") else {
            continue;
        };
        let map = reader.get_tme(rows.table_id()).expect("map");
        for row in rows.rows(map) {
            let (before, after) = row.expect("row");
            let row = before.or(after).expect("an image");
            let (at, ours) = (found % table.rows.len(), &table.rows);
            for (nth, column) in row.columns_ref().iter().enumerate() {
                let name = column.name_str();
                let col: usize = name
                    .trim_start_matches(['c', '@'])
                    .parse()
                    .expect("a number");
                let column = &table.shape.columns[col];
                let ours = in_their_form(column, &ours[at][col]);
                let theirs = theirs(column, row.as_ref(nth).expect("a value"));
                assert_eq!(ours, theirs, "column {col}: {:?}", column.ty);
            }
            found += 1;
        }
    }
    assert_eq!(found, 2 * table.rows.len());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn rows_are_read_as_they_were_written(
        table in table(),
        full in any::<bool>(),
        checksums in any::<bool>(),
        compressed in any::<bool>(),
    ) {
        let dir = tempfile::tempdir().expect("dir");
        let detail = if full { Detail::Full } else { Detail::Minimal };
        let checksum = if checksums { Checksum::Crc32 } else { Checksum::None };
        let path = write_file(dir.path(), checksum, &[attachment(&table, detail, compressed)]);
        let columns = &table.shape.columns;
        let show = |image: Image| -> Vec<Option<String>> {
            let value = |(col, v): (usize, Option<Value>)| v.map(|v| shown(&columns[col], &v));
            image.into_iter().enumerate().map(value).collect()
        };
        let read: Vec<_> = read_file(&path).into_iter().map(show).collect();
        prop_assert_eq!(read, expected(&table));
        // It subtracts with overflow at some times below zero.
        let negative = |v: &Value| matches!(v, Value::Time(t) if t.is_negative());
        let panics = table.rows.iter().flatten().any(negative);
        if full && !compressed && !panics {
            compare_with_mysql_common(&path, &table);
        }
    }
}

/// `mysqlbinlog` of a server, if it is there.
fn tool(program: &str) -> Option<Command> {
    let mut command = Command::new(program);
    let found = Command::new(program).arg("--version").output().is_ok();
    command.arg("-vv");
    found.then_some(command)
}

#[test]
fn tools_read_the_files() {
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let tables: Vec<_> = (0..12)
        .map(|_| table().new_tree(&mut runner).expect("a table").current())
        .collect();
    let rows: usize = tables.iter().map(|t| 2 * t.rows.len()).sum();
    let dir = tempfile::tempdir().expect("dir");
    let attachments: Vec<_> = tables
        .iter()
        .map(|table| attachment(table, Detail::Full, false))
        .collect();
    let path = write_file(dir.path(), Checksum::Crc32, &attachments);
    for program in ["mariadb-binlog", "mysqlbinlog"] {
        let Some(mut command) = tool(program) else {
            continue;
        };
        let output = command.arg(&path).output().expect(program);
        let text = String::from_utf8_lossy(&output.stdout);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{program}: {errors}");
        let changed = text.lines().filter(|line| {
            line.starts_with("### INSERT INTO") || line.starts_with("### DELETE FROM")
        });
        assert_eq!(changed.count(), rows, "{program}");
        assert_eq!(
            text.matches("COMMIT/*!*/").count(),
            tables.len(),
            "{program}"
        );
    }
}
