//! Files that MySQL 9.7 wrote: read, and written again byte by byte.

use std::path::{Path, PathBuf};

use esker_binlog::event::control::{Rotate, parse_rows_query, write_rows_query};
use esker_binlog::event::format::FormatDescription;
use esker_binlog::event::group::{GtidEvent, XaPrepare, parse_previous_gtids};
use esker_binlog::event::query::{Query, Settings};
use esker_binlog::event::rows::{self, Bitmap, RowChange, Rows};
use esker_binlog::event::table_map::{self, Detail, TableMap};
use esker_binlog::event::{Checksum, Event, EventType, frame, payload};
use esker_binlog::files::Scan;
use esker_binlog::image::{Shape, ShapeColumn};
use esker_types::collation::Collation;
use esker_types::geometry;
use esker_types::{SqlType, TypeKind, Value};
use esker_vfs::sim::SimFs;
use esker_vfs::{Fs, OpenMode, OsFs};

/// Everything but the payload's events has a checksum.
struct Owned {
    offset: u64,
    kind: EventType,
    bytes: Vec<u8>,
    body: Vec<u8>,
    stamp: esker_binlog::event::Stamp,
}

fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/data")
        .join(name)
}

fn events(name: &str) -> Vec<Owned> {
    let whole = std::fs::read(file(name)).expect("file");
    let mut scan = Scan::open(&OsFs::new(), &file(name), None).expect("opens");
    let mut events = Vec::new();
    while let Some((offset, event)) = scan.next_event().expect("sound") {
        let end = offset as usize + event.header.length as usize;
        events.push(Owned {
            offset,
            kind: event.header.event_type().expect("known"),
            bytes: whole[offset as usize..end].to_vec(),
            body: event.body.to_vec(),
            stamp: event.header.stamp,
        });
    }
    assert_eq!(scan.offset(), whole.len() as u64);
    events
}

/// The body written again; `None` where that needs more than the event.
fn again(event: &Owned) -> Option<Vec<u8>> {
    let (body, mut out) = (&event.body[..], Vec::new());
    match event.kind {
        EventType::Gtid | EventType::GtidTagged => {
            GtidEvent::parse(event.kind, body)
                .expect("GTID")
                .write(&mut out);
        }
        EventType::PreviousGtids => parse_previous_gtids(body).expect("set").encode(&mut out),
        EventType::Query => {
            let query = Query::parse(body).expect("query");
            // Codes that are read over: 9 (tables of a multi-table update) and 20 (encryption).
            let mut settings = Vec::new();
            let parsed = Settings::parse(query.settings).expect("settings");
            parsed.write(&mut settings);
            let is_read_over = settings.len() < query.settings.len();
            let settings = if is_read_over {
                query.settings
            } else {
                &settings
            };
            Query { settings, ..query }.write(&mut out);
        }
        EventType::Rotate => Rotate::parse(body).expect("rotate").write(&mut out),
        EventType::RowsQuery => write_rows_query(parse_rows_query(body).expect("text"), &mut out),
        EventType::XaPrepare => XaPrepare::parse(body).expect("XA").write(&mut out),
        _ => return None,
    }
    Some(out)
}

#[test]
fn events_are_written_as_mysql_does() {
    let mut kinds = Vec::new();
    for name in [
        "mysql-9.7-full.binlog",
        "mysql-9.7-minimal.binlog",
        "mysql-9.7-collations.binlog",
    ] {
        for event in events(name) {
            kinds.push(event.kind);
            let mut out = Vec::new();
            if event.kind == EventType::FormatDescription {
                let parsed = FormatDescription::parse(&event.body).expect("format");
                parsed.write(event.stamp, event.offset, &mut out);
                assert_eq!(out.len(), FormatDescription::BYTES);
                assert_eq!(out, event.bytes, "{name} at {}", event.offset);
                continue;
            }
            let body = again(&event).unwrap_or_else(|| event.body.clone());
            frame(
                event.kind,
                event.stamp,
                event.offset,
                &body,
                Checksum::Crc32,
                &mut out,
            );
            assert_eq!(
                out, event.bytes,
                "{name} at {}: {:?}",
                event.offset, event.kind
            );
        }
    }
    for kind in [
        EventType::Gtid,
        EventType::GtidTagged,
        EventType::TransactionPayload,
        EventType::XaPrepare,
        EventType::RowsQuery,
        EventType::Rotate,
    ] {
        assert!(kinds.contains(&kind), "{kind:?} is in the files");
    }
}

#[test]
fn payloads_have_whole_transactions() {
    let full = events("mysql-9.7-full.binlog");
    let packed: Vec<_> = full
        .iter()
        .filter(|e| e.kind == EventType::TransactionPayload)
        .collect();
    assert_eq!(packed.len(), 5);
    for event in packed {
        let inner = payload::parse(&event.body).expect("payload");
        let mut kinds = Vec::new();
        let mut at = 0;
        while at < inner.len() {
            let event = Event::parse(&inner[at..], Checksum::None).expect("event");
            assert_eq!(event.header.end, 0);
            kinds.push(event.header.event_type().expect("known"));
            at += event.header.length as usize;
        }
        assert_eq!(
            (kinds[0], kinds[kinds.len() - 1]),
            (EventType::Query, EventType::Xid)
        );
        let mut body = Vec::new();
        assert!(payload::write(&inner, 3, &mut body).expect("zstd"));
        assert_eq!(payload::parse(&body).expect("payload"), inner);
    }
}

fn column(name: &str, ty: SqlType) -> ShapeColumn {
    ShapeColumn::new(name.into(), ty, false)
}

fn typed(kind: TypeKind) -> SqlType {
    SqlType::new(kind)
}

fn text(kind: TypeKind, length: u32, collation: Collation) -> SqlType {
    SqlType {
        length,
        collation,
        ..typed(kind)
    }
}

fn labels(names: &[&str]) -> std::sync::Arc<[std::sync::Arc<str>]> {
    names.iter().map(|n| (*n).into()).collect()
}

/// The table `t1` of the files: every type.
fn all_types(table_id: u64) -> Shape {
    let unsigned = |kind| SqlType {
        unsigned: true,
        ..typed(kind)
    };
    let fraction = |kind, decimals| SqlType {
        decimals,
        ..typed(kind)
    };
    let utf8 = Collation::UTF8MB4_0900_AI_CI;
    let labelled = |kind| text(kind, 0, utf8);
    let binary = |kind, length| text(kind, length, Collation::BINARY);
    let types = vec![
        typed(TypeKind::Int).with_nullable(false),
        typed(TypeKind::TinyInt),
        unsigned(TypeKind::SmallInt),
        typed(TypeKind::MediumInt),
        unsigned(TypeKind::Int),
        unsigned(TypeKind::BigInt),
        typed(TypeKind::Float),
        typed(TypeKind::Double),
        SqlType::decimal(30, 10),
        SqlType {
            length: 11,
            ..typed(TypeKind::Bit)
        },
        typed(TypeKind::Year),
        typed(TypeKind::Date),
        fraction(TypeKind::Time, 3),
        fraction(TypeKind::DateTime, 6),
        fraction(TypeKind::Timestamp, 2),
        text(TypeKind::Char, 10, utf8),
        text(TypeKind::VarChar, 300, utf8),
        text(TypeKind::Text, 65_535, utf8),
        binary(TypeKind::Text, 65_535),
        labelled(TypeKind::Enum(labels(&["a", "b"]))),
        labelled(TypeKind::Set(labels(&["x", "y", "z"]))),
        binary(TypeKind::Char, 5),
        binary(TypeKind::VarChar, 400),
        typed(TypeKind::Json),
        text(TypeKind::TinyText, 255, utf8),
        binary(TypeKind::LongText, u32::MAX),
        text(TypeKind::Char, 100, utf8),
        text(TypeKind::VarChar, 10, Collation::LATIN1_SWEDISH_CI),
    ];
    let names = ["id"].into_iter().map(str::to_owned);
    let names = names
        .chain(('a'..='z').map(String::from))
        .chain(["aa".to_owned()]);
    let columns = names.zip(types).map(|(name, ty)| column(&name, ty));
    Shape {
        table_id,
        schema: "binlog".into(),
        table: "t1".into(),
        columns: columns.collect(),
        is_related: false,
        has_generated_key: false,
        primary_key: vec![(0, 0)],
    }
}

/// The table `dc`: exceptions from a default collation, labels, a prefix in the primary key, an invisible column, a
/// geometry.
fn collations(table_id: u64) -> Shape {
    let utf8 = Collation::UTF8MB4_0900_AI_CI;
    let latin1 = Collation::LATIN1_SWEDISH_CI;
    let point = geometry::GeometryType::of(geometry::Shape::Point);
    let mut columns = vec![
        column("a", typed(TypeKind::Int).with_nullable(false)),
        column("b", text(TypeKind::Char, 3, utf8)),
        column("c", text(TypeKind::Text, 65_535, Collation::BINARY)),
        column("d", typed(TypeKind::Int)),
        column("e", text(TypeKind::VarChar, 5, latin1)),
        column("f", text(TypeKind::Text, 65_535, utf8)),
        column("g", text(TypeKind::Char, 2, utf8).with_nullable(false)),
        column("h", text(TypeKind::Enum(labels(&["a", "b"])), 0, latin1)),
        column("i", text(TypeKind::Enum(labels(&["c"])), 0, utf8)),
        column("j", text(TypeKind::Set(labels(&["q"])), 0, utf8)),
        column("k", typed(TypeKind::Geometry(point))),
        column("l", typed(TypeKind::Int)),
    ];
    columns[11].invisible = true;
    Shape {
        table_id,
        schema: "binlog".into(),
        table: "dc".into(),
        columns,
        is_related: false,
        has_generated_key: false,
        primary_key: vec![(6, 1), (0, 0)],
    }
}

#[test]
fn table_maps_are_written_as_mysql_does() {
    let cases = [
        ("mysql-9.7-full.binlog", Detail::Full),
        ("mysql-9.7-minimal.binlog", Detail::Minimal),
    ];
    for (name, detail) in cases {
        let all = events(name);
        let maps = all.iter().filter(|e| e.kind == EventType::TableMap);
        let of_t1 = maps.filter(|e| TableMap::parse(&e.body).expect("map").table == "t1");
        let mut seen = 0;
        for event in of_t1 {
            let map = TableMap::parse(&event.body).expect("map");
            let mut out = Vec::new();
            table_map::write(&all_types(map.table_id), detail, &mut out);
            assert_eq!(hex(&out), hex(&event.body), "{name}");
            seen += 1;
        }
        assert!(seen >= 4);
    }
}

#[test]
fn metadata_of_collations_labels_and_keys_is_mysqls() {
    let all = events("mysql-9.7-collations.binlog");
    let event = all
        .iter()
        .find(|e| e.kind == EventType::TableMap)
        .expect("map");
    let map = TableMap::parse(&event.body).expect("map");
    let mut out = Vec::new();
    table_map::write(&collations(map.table_id), Detail::Full, &mut out);
    assert_eq!(hex(&out), hex(&event.body));
    assert_eq!(map.primary_key, [(6, 1), (0, 0)]);
    assert_eq!(map.columns[2].collation, Some(63));
    assert_eq!(map.columns[7].labels, [b"a".to_vec(), b"b".to_vec()]);
    assert!(map.columns[11].invisible && !map.columns[0].invisible);
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

#[test]
fn row_images_are_written_as_mysql_does() {
    let all = events("mysql-9.7-full.binlog");
    let mut map = TableMap::default();
    let mut changes = 0;
    for event in &all {
        match event.kind {
            EventType::TableMap => map = TableMap::parse(&event.body).expect("map"),
            EventType::WriteRows | EventType::UpdateRows | EventType::DeleteRows
                if map.table == "t1" =>
            {
                let read = Rows::parse(event.kind, &event.body).expect("rows");
                let shape = all_types(map.table_id);
                let columns = Bitmap::all(shape.columns.len());
                let after = (event.kind == EventType::UpdateRows).then_some(&columns);
                let mut out = Vec::new();
                rows::begin(
                    map.table_id,
                    rows::RowFlags::default(),
                    &columns,
                    after,
                    &mut out,
                );
                for change in read.rows(&map).expect("images") {
                    let images = match change {
                        RowChange::Insert(row) | RowChange::Delete(row) => vec![row],
                        RowChange::Update(old, new, _) => vec![old, new],
                    };
                    for image in images {
                        let value = |col: usize| utf8_value(&shape, col, &image[col]);
                        let values: Vec<Value> = (0..image.len()).map(value).collect();
                        let value = |col: usize| values[col].as_ref();
                        rows::write_image(&shape, &columns, value, &mut out).expect("fits");
                        changes += 1;
                    }
                }
                rows::end_statement(&mut out);
                // MySQL 9 marks that foreign keys were checked above the engine; 8.4 does not.
                let mut theirs = event.body.clone();
                theirs[6] &= !0x10;
                assert_eq!(hex(&out), hex(&theirs));
            }
            _ => {}
        }
    }
    assert_eq!(changes, 3 + 4 + 1);
}

/// The value that a row has for what was read from an image: texts in UTF-8.
fn utf8_value(shape: &Shape, col: usize, read: &Option<Value>) -> Value {
    match read.clone().expect("full images") {
        Value::Str(text) if shape.columns[col].form.is_character() => {
            Value::Str(shape.columns[col].charset.decode_lossy(&text).into_owned())
        }
        value => value,
    }
}

#[test]
fn values_of_every_type_are_read() {
    let all = events("mysql-9.7-minimal.binlog");
    let map = all
        .iter()
        .find(|e| e.kind == EventType::TableMap)
        .expect("map");
    let map = TableMap::parse(&map.body).expect("map");
    let rows = all
        .iter()
        .find(|e| e.kind == EventType::WriteRows)
        .expect("rows");
    let rows = Rows::parse(rows.kind, &rows.body).expect("rows");
    let rows = rows.rows(&map).expect("images");
    let RowChange::Insert(row) = &rows[0] else {
        panic!("an insert");
    };
    let shown: Vec<String> = row
        .iter()
        .map(|v| show(v.as_ref().expect("full")))
        .collect();
    let expected = [
        "1",
        "-1",
        "2",
        "-3",
        "4",
        "5",
        "1.5",
        "2.5",
        "-12345678901234567890.0123456789",
        "bits 1365",
        "2024",
        "2024-02-29",
        "-12:34:56.789000",
        "2024-02-29 12:34:56.789012",
        "2024-02-29 12:34:56.780000",
        "abc",
        "def",
        "text",
        "blob",
        "label 2",
        "label 5",
        "bi",
        "vb",
    ];
    assert_eq!(shown[..23], expected);
    assert_eq!(shown[24..27], ["tt", "lb", "zz"]);
    assert!(matches!(&row[27], Some(Value::Str(text)) if text == b"\xfc"));
}

fn show(value: &Value) -> String {
    match value {
        Value::Int(v) => v.to_string(),
        Value::UInt(v) => v.to_string(),
        Value::Double(v) => v.to_string(),
        Value::Decimal(v) => v.to_string(),
        Value::Str(v) => String::from_utf8_lossy(v).into_owned(),
        Value::Date(v) => v.to_string(),
        Value::Time(v) => v.format(6),
        Value::DateTime(v) => v.format(6),
        Value::Bit(v, _) => format!("bits {v}"),
        Value::Label(v, _) => format!("label {v}"),
        _ => "other".to_owned(),
    }
}

#[test]
fn every_cut_and_every_flipped_byte_is_noticed() {
    let bytes = std::fs::read(file("mysql-9.7-collations.binlog")).expect("file");
    let fs = SimFs::new();
    let path = Path::new("/binlog.000001");
    let read = |bytes: &[u8]| {
        let file = fs.open(path, OpenMode::CreateOrOpen).expect("open");
        file.set_len(0).expect("empty");
        file.write_all_at(bytes, 0).expect("write");
        let mut scan = Scan::open(&fs, path, None).ok()?;
        loop {
            match scan.next_event() {
                Ok(Some(_)) => {}
                Ok(None) => return Some(()),
                Err(_) => return None,
            }
        }
    };
    let ends: Vec<usize> = events("mysql-9.7-collations.binlog")
        .iter()
        .map(|e| e.offset as usize)
        .collect();
    for len in 0..bytes.len() {
        assert_eq!(
            read(&bytes[..len]).is_some(),
            ends.contains(&len),
            "cut at {len}"
        );
    }
    for at in 0..bytes.len() {
        let mut bad = bytes.clone();
        bad[at] ^= 0x40;
        assert!(read(&bad).is_none(), "byte {at}");
    }
}
