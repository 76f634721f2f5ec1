//! The files under crashes at every operation, and what they look like from outside.

use std::sync::Arc;

use esker_vfs::sim::{SimEnv, SimFs};
use esker_vfs::{Fs, OpenMode};

use super::{Config, FileNumber, FileSet, Names, Scan, summarise};
use crate::attachment::{Head, Numbering, What, head_bytes, push_event};
use crate::derive::Writer;
use crate::event::group::GtidEvent;
use crate::event::{Checksum, EventType};
use crate::gtid::{Gtid, GtidSet, Sid, Source};

const MAX_SIZE: u64 = 2000;

fn config(max_size: u64) -> Config {
    let sid = Sid([7; 16]);
    Config {
        names: Names::new("/data/binlog".into(), "binlog"),
        writer: Writer {
            source: Source::untagged(sid),
            server_id: 1,
            server_version: 80_400,
            gtid_mode: true,
        },
        version: "8.4.0".into(),
        max_size,
        checksum: Checksum::Crc32,
    }
}

fn open(fs: &SimFs) -> crate::Result<FileSet> {
    FileSet::open(Arc::new(fs.clone()), config(MAX_SIZE), 8, 100)
}

/// The attachment of transaction `n`: one event whose body tells it, of a length of its own.
fn attachment(n: u64, gtid: Option<Gtid>) -> Vec<u8> {
    let mut bytes = Vec::new();
    let body = format!("{n}:{}", "x".repeat((n * 37 % 300) as usize));
    push_event(EventType::RowsQuery, 0, 100, body.as_bytes(), &mut bytes);
    let head = Head {
        what: What::Transaction,
        commit_micros: 100_000_000 + n,
        begin_time: 100,
        thread_id: 5,
        numbering: gtid.map_or_else(Numbering::default, Numbering::Given),
        origin: None,
        xid: None,
        schema: b"d",
        settings: b"",
        has_statements: false,
        compressed: n.is_multiple_of(5),
        write_set: Some(&[n % 3]),
    };
    [head_bytes(&head), bytes].concat()
}

fn lsn_of(n: u64) -> u64 {
    8 + n * 100
}

/// What a run of transactions `1..=last` does with the files; a sync and a purge now and then.
fn feed(set: &mut FileSet, last: u64, synced: &mut u64) -> crate::Result<()> {
    let first = (set.lsn() - 8) / 100 + 1;
    for n in first..=last {
        set.append(lsn_of(n), &attachment(n, None))?;
        match n % 7 {
            3 => *synced = set.sync()?,
            5 => set.write()?,
            _ => {}
        }
        if n == 20 {
            set.purge_to(FileNumber(3))?;
        }
        *synced = (*synced).max(set.synced_lsn());
    }
    // Again, for a run that goes on behind a crash within the first.
    set.purge_to(FileNumber(3))
}

/// GTID and last bytes of every transaction in the files that are there, with the dependencies left out.
fn contents(fs: &SimFs) -> Vec<(u32, u64, Vec<u8>)> {
    let names = config(MAX_SIZE).names;
    let mut all = Vec::new();
    for name in fs.list(names.dir()).expect("list") {
        let Some(number) = names.number(&name) else {
            continue;
        };
        let mut scan = Scan::open(fs, &names.path(number), None).expect("opens");
        while let Some((offset, event)) = scan.next_event().expect("sound") {
            let kind = event.header.event_type().expect("known");
            let mut body = event.body.to_vec();
            if kind == EventType::Gtid {
                let mut gtid = GtidEvent::parse(kind, &body).expect("GTID");
                gtid.last_committed = 0;
                body.clear();
                gtid.write(&mut body);
            }
            if kind != EventType::FormatDescription {
                all.push((number.0, offset, body));
            }
        }
    }
    all
}

fn executed(fs: &SimFs) -> GtidSet {
    let names = config(MAX_SIZE).names;
    let list = fs.list(names.dir()).expect("list");
    let last = list.iter().filter_map(|name| names.number(name)).max();
    let last = last.expect("a file");
    summarise(fs, &names.path(last), None)
        .expect("sound")
        .executed
}

#[test]
fn files_are_what_they_would_have_been_after_a_crash_at_any_operation() {
    const LAST: u64 = 45;
    let whole = SimFs::new();
    let mut set = open(&whole).expect("open");
    let mut synced = 0;
    feed(&mut set, LAST, &mut synced).expect("feed");
    set.sync().expect("sync");
    let (expected, operations) = (contents(&whole), whole.ops());
    assert_eq!(executed(&whole).count(), LAST);
    assert!(set.published().view().files.len() > 3, "it rotates");
    for at in 1..operations {
        let fs = SimFs::new();
        fs.halt_at(at);
        let mut synced = 8;
        let _ = open(&fs).and_then(|mut set| feed(&mut set, LAST, &mut synced));
        let mut fs = SimEnv::with_fs(fs, at).crash(at).fs;
        // A second crash while the first is repaired.
        if at.is_multiple_of(3) {
            fs.halt_at(at % 11);
            let _ = open(&fs).and_then(|mut set| feed(&mut set, LAST, &mut synced));
            fs = SimEnv::with_fs(fs, at).crash(at + 1).fs;
        }
        let mut set = open(&fs).unwrap_or_else(|e| panic!("operation {at}: {e}"));
        assert!(
            set.lsn() >= synced,
            "operation {at}: what the log may have dropped is there"
        );
        feed(&mut set, LAST, &mut synced).expect("feed");
        set.sync().expect("sync");
        let found = contents(&fs);
        assert!(
            found == expected,
            "operation {at}: {} of {} events",
            found.len(),
            expected.len()
        );
        assert_eq!(executed(&fs).count(), LAST, "operation {at}");
    }
}

#[test]
fn a_stop_ends_a_file_and_a_start_begins_one() {
    let fs = SimFs::new();
    let mut set = open(&fs).expect("open");
    set.append(lsn_of(1), &attachment(1, None)).expect("append");
    assert_eq!(set.close(200).expect("close"), lsn_of(1));
    let set = open(&fs).expect("open");
    let view = set.published().view();
    assert_eq!((view.files.len(), view.lsn), (2, lsn_of(1)));
    assert_eq!(view.executed.count(), 1);
    let mut scan = Scan::open(&fs, &config(0).names.path(FileNumber(1)), None).expect("opens");
    let mut last = None;
    while let Some((_, event)) = scan.next_event().expect("sound") {
        last = event.header.event_type();
        assert_eq!(event.header.stamp.flags & crate::event::FLAG_IN_USE, 0);
    }
    assert_eq!(last, Some(EventType::Stop));
}

#[test]
fn purged_files_leave_their_gtids() {
    let fs = SimFs::new();
    let mut set = open(&fs).expect("open");
    feed(&mut set, 19, &mut 0).expect("feed");
    set.purge_to(FileNumber(99)).expect("purge");
    set.sync().expect("sync");
    let view = set.published().view();
    assert_eq!(view.files.len(), 1);
    let mut inside = (*view.executed).clone();
    inside.subtract(&view.purged);
    assert!(view.purged.count() > 0 && view.purged.count() + inside.count() == 19);
    drop(set);
    let again = open(&fs).expect("open").published().view();
    assert_eq!(
        (&again.purged, &again.executed),
        (&view.purged, &view.executed)
    );
}

#[test]
fn explicit_gtids_are_not_given_again() {
    let fs = SimFs::new();
    let mut set = open(&fs).expect("open");
    let source = Source::untagged(Sid([7; 16]));
    let gtid = Gtid { source, gno: 2 };
    set.append(lsn_of(1), &attachment(1, Some(gtid)))
        .expect("append");
    for n in 2..=3 {
        set.append(lsn_of(n), &attachment(n, None)).expect("append");
    }
    set.write().expect("write");
    let text = set.published().view().executed.to_string();
    assert!(text.ends_with(":1-3"), "{text}");
    let other: GtidSet = "3e11fa47-71ca-11e1-9e33-c80aa9429562:1-9"
        .parse()
        .expect("set");
    set.add_purged(&other, 100).expect("purged");
    drop(set);
    let view = open(&fs).expect("open").published().view();
    assert!(view.executed.contains_all(&other) && *view.purged == other);
}

#[test]
fn a_reset_begins_again_also_after_a_crash() {
    let whole = SimFs::new();
    let run = |fs: &SimFs| -> crate::Result<bool> {
        let mut set = open(fs)?;
        feed(&mut set, 12, &mut 0)?;
        set.write()?;
        set.reset(100)?;
        Ok(true)
    };
    run(&whole).expect("run");
    for at in 1..whole.ops() {
        let fs = SimFs::new();
        fs.halt_at(at);
        let was_reset = run(&fs).unwrap_or(false);
        let fs = SimEnv::with_fs(fs, at).crash(at).fs;
        let marked = fs
            .exists("/data/binlog/binlog.reset".as_ref())
            .expect("exists");
        let view = open(&fs).expect("open").published().view();
        if was_reset || marked {
            assert_eq!(
                (view.lsn, view.files[0].number.0),
                (lsn_of(12), 1),
                "operation {at}"
            );
            assert!(view.executed.is_empty() && view.files.len() == 1);
        }
    }
    let view = open(&whole).expect("open").published().view();
    assert_eq!(
        (view.lsn, view.executed.count(), view.ordinal),
        (lsn_of(12), 0, 12)
    );
}

#[test]
fn damage_is_named_with_file_and_offset() {
    let fs = SimFs::new();
    let mut set = open(&fs).expect("open");
    set.append(lsn_of(1), &attachment(1, None)).expect("append");
    set.sync().expect("sync");
    drop(set);
    let path = config(0).names.path(FileNumber(1));
    fs.flip_bit(&path, 300, 1).expect("flip");
    let error = open(&fs).err().expect("refused").to_string();
    assert!(
        error.contains("binlog.000001") && error.contains("offset"),
        "{error}"
    );
    fs.flip_bit(&path, 300, 1).expect("flip back");
    let file = fs.open(&path, OpenMode::ReadWrite).expect("open");
    file.set_len(200).expect("cut");
    let error = open(&fs).err().expect("refused").to_string();
    assert!(error.contains("synced up to"), "{error}");
}
