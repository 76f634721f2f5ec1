//! The files under crashes at every operation, and what they look like from outside.

use std::sync::Arc;

use esker_vfs::sim::{Fault, Op, SimEnv, SimFs};
use esker_vfs::{Fs, OpenMode};

use super::{Config, Damage, FileNumber, FileSet, Names, Scan, index, summarise};
use crate::attachment::{Head, Numbering, What, head_bytes, push_event};
use crate::derive::Writer;
use crate::event::group::GtidEvent;
use crate::event::{Checksum, EventType};
use crate::gtid::{Gtid, GtidSet, Sid, Source};
use crate::spool::{Spooled, Spools};

const MAX_SIZE: u64 = 2000;

pub(super) fn config(max_size: u64) -> Config {
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
        commits: crate::files::Commits::OneSync,
    }
}

fn open(fs: &SimFs) -> crate::Result<FileSet> {
    FileSet::open(Arc::new(fs.clone()), config(MAX_SIZE), 8, 100)
}

/// The attachment of transaction `n`: one event whose body tells it, of a length of its own.
pub(super) fn attachment(n: u64, gtid: Option<Gtid>) -> Vec<u8> {
    let mut bytes = Vec::new();
    let body = format!("{n}:{}", "x".repeat((n * 37 % 300) as usize));
    push_event(EventType::RowsQuery, 0, 100, body.as_bytes(), &mut bytes);
    [head_of(n, gtid, None), bytes].concat()
}

/// The head of transaction `n`, whose events may be in a spool file.
fn head_of(n: u64, gtid: Option<Gtid>, spooled: Option<Spooled>) -> Vec<u8> {
    head_bytes(&Head {
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
        compressed: n.is_multiple_of(5).then_some(3),
        spooled,
        write_set: Some(&[n % 3]),
    })
}

/// The attachment of transaction `n`, whose events are in a spool file.
pub(super) fn spooled_attachment(n: u64, spooled: Spooled) -> Vec<u8> {
    head_of(n, None, Some(spooled))
}

/// Writes the events of a transaction into a spool file, with something that is rolled back.
pub(super) fn spool(
    spools: &Arc<Spools>,
    events: u64,
    event_bytes: usize,
) -> crate::Result<Spooled> {
    let mut spool = spools.create()?;
    for event in 0..events {
        let kept = spool.bytes();
        spool.append(b"what is rolled back")?;
        spool.truncate(kept)?;
        let mut bytes = Vec::new();
        let body = vec![event as u8; event_bytes];
        push_event(EventType::RowsQuery, 0, 100, &body, &mut bytes);
        spool.append(&bytes)?;
    }
    spool.seal()
}

pub(super) fn spool_files(fs: &SimFs) -> usize {
    fs.list("/data/binlog/spool".as_ref()).expect("list").len()
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

/// The GTID event of every transaction says how long all of its events are.
fn assert_lengths(fs: &SimFs) {
    let names = config(MAX_SIZE).names;
    for name in fs.list(names.dir()).expect("list") {
        let Some(number) = names.number(&name) else {
            continue;
        };
        let mut scan = Scan::open(fs, &names.path(number), None).expect("opens");
        let mut end = None;
        while let Some((offset, event)) = scan.next_event().expect("sound") {
            match event.header.event_type().expect("known") {
                kind @ EventType::Gtid => {
                    assert!(end.is_none_or(|end| end == offset), "{name} at {offset}");
                    let gtid = GtidEvent::parse(kind, event.body).expect("GTID");
                    end = Some(offset + gtid.transaction_bytes);
                }
                EventType::Rotate => assert_eq!(end.take(), Some(offset), "{name}"),
                _ => {}
            }
        }
    }
}

pub(super) fn executed(fs: &SimFs) -> GtidSet {
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

/// Transactions of which every third is in a spool file. The files are there before the first is derived, as a log that
/// was synced says.
fn feed_spooled(set: &mut FileSet, spooled: &[Spooled], synced: &mut u64) -> crate::Result<()> {
    let first = (set.lsn() - 8) / 100 + 1;
    for n in first..=3 * spooled.len() as u64 {
        let attachment = match n.is_multiple_of(3) {
            true => head_of(n, None, Some(spooled[n as usize / 3 - 1])),
            false => attachment(n, None),
        };
        set.append(lsn_of(n), &attachment)?;
        if n % 4 == 1 {
            *synced = set.sync()?;
        }
        *synced = (*synced).max(set.synced_lsn());
    }
    set.write()?;
    set.caught_up();
    *synced = set.sync()?;
    Ok(())
}

#[test]
fn spooled_transactions_are_whole_after_a_crash_at_any_operation() {
    // The largest is written in several pieces.
    const SIZES: [(u64, usize); 4] = [(1, 10), (40, 9000), (3, 700), (0, 0)];
    let start = |fs: &SimFs| -> crate::Result<(FileSet, Vec<Spooled>)> {
        let set = open(fs)?;
        let spools = set.spools();
        let spooled = SIZES
            .iter()
            .map(|(events, bytes)| spool(&spools, *events, *bytes));
        Ok((set, spooled.collect::<crate::Result<_>>()?))
    };
    let whole = SimFs::new();
    let (mut set, spooled) = start(&whole).expect("start");
    let begun = whole.ops();
    feed_spooled(&mut set, &spooled, &mut 0).expect("feed");
    let (expected, operations) = (contents(&whole), whole.ops());
    assert_eq!(executed(&whole).count(), 3 * SIZES.len() as u64);
    let large = expected.iter().filter(|(.., body)| body.len() >= 9000);
    assert_eq!(large.count(), 40);
    assert_lengths(&whole);
    assert_eq!(spool_files(&whole), 0, "what is synced is removed");
    for at in begun..operations {
        let fs = SimFs::new();
        let (mut set, spooled) = start(&fs).expect("start");
        fs.halt_at(at);
        let mut synced = 8;
        let _ = feed_spooled(&mut set, &spooled, &mut synced);
        drop(set);
        let mut fs = SimEnv::with_fs(fs, at).crash(at).fs;
        if at.is_multiple_of(3) {
            fs.halt_at(at % 11);
            let again = open(&fs);
            let _ = again.and_then(|mut set| feed_spooled(&mut set, &spooled, &mut synced));
            fs = SimEnv::with_fs(fs, at).crash(at + 1).fs;
        }
        let mut set = open(&fs).unwrap_or_else(|e| panic!("operation {at}: {e}"));
        assert!(set.lsn() >= synced, "operation {at}");
        // One whose transaction has not committed is removed like the others.
        spool(&set.spools(), 1, 1).expect("spool");
        drop(set);
        set = open(&fs).expect("open");
        feed_spooled(&mut set, &spooled, &mut synced).expect("feed");
        assert!(contents(&fs) == expected, "operation {at}");
        assert_eq!(spool_files(&fs), 0, "operation {at}");
    }
}

#[test]
fn a_copy_goes_on_where_a_full_disk_has_stopped_it() {
    let whole = SimFs::new();
    let run = |fs: &SimFs, is_full: bool| {
        let mut set = FileSet::open(Arc::new(fs.clone()), config(1 << 30), 8, 100).expect("open");
        let spooled = spool(&set.spools(), 90, 9000).expect("spool");
        set.append(lsn_of(1), &attachment(1, None)).expect("append");
        if is_full {
            let full = Fault::on(Op::Write).path("binlog.0").no_space();
            fs.inject(full.after(1).times(3));
        }
        let head = head_of(2, None, Some(spooled));
        let mut done = set.append(lsn_of(2), &head);
        let mut tries = 0;
        while done.is_err() {
            let view = set.published().view();
            assert!(
                view.lsn < lsn_of(2) && view.executed.count() < 2,
                "it is not whole"
            );
            tries += 1;
            done = set.write();
        }
        assert_eq!(tries, if is_full { 3 } else { 0 });
        set.append(lsn_of(3), &attachment(3, None)).expect("append");
        set.sync().expect("sync");
    };
    run(&whole, false);
    let full = SimFs::new();
    run(&full, true);
    assert!(contents(&full) == contents(&whole));
    assert_eq!((spool_files(&full), executed(&full).count()), (0, 3));
}

#[test]
fn a_reset_that_a_full_disk_stops_loses_nothing_and_goes_on() {
    // Not even its mark is written: everything is as before.
    let fs = SimFs::new();
    let mut set = open(&fs).expect("open");
    set.append(lsn_of(1), &attachment(1, None)).expect("append");
    fs.inject(Fault::on(Op::Write).path("reset_new").no_space());
    assert!(set.reset(200, FileNumber::FIRST).is_err());
    set.sync().expect("sync");
    assert_eq!(executed(&fs).count(), 1);
    // Its mark is: it goes on before anything else, also where the files are gone already.
    for fault in [Op::Create, Op::Write] {
        fs.inject(Fault::on(fault).path("binlog.0").no_space());
        assert!(set.reset(200, FileNumber::FIRST).is_err());
        set.purge_to(FileNumber(9)).expect("nothing to purge");
        set.write().expect("write");
        assert!(set.published().view().executed.is_empty());
    }
    set.append(lsn_of(2), &attachment(2, None)).expect("append");
    set.sync().expect("sync");
    drop(set);
    let after = fs.crash_with(esker_vfs::sim::CrashImage::DropUnsynced);
    let set = open(&after).expect("open");
    assert_eq!((set.lsn(), executed(&after).count()), (lsn_of(2), 1));
}

#[test]
fn what_a_failed_sync_was_to_make_durable_is_not_taken_for_a_full_disk() {
    for path in [
        "binlog.000001",
        "binlog.position",
        "binlog.000002",
        "index_new",
    ] {
        let fs = SimFs::new();
        let mut set = open(&fs).expect("open");
        set.append(lsn_of(1), &attachment(1, None)).expect("append");
        fs.inject(Fault::on(Op::Sync).path(path).no_space());
        let done = set.sync().and_then(|_| set.rotate(200));
        assert!(
            matches!(done, Err(crate::Error::Sync(_))),
            "{path}: {done:?}"
        );
    }
}

#[test]
fn a_spool_file_that_is_not_what_was_sealed_is_damage() {
    let fs = SimFs::new();
    let mut set = open(&fs).expect("open");
    let spooled = spool(&set.spools(), 2, 100).expect("spool");
    let path = "/data/binlog/spool/0000000000000001";
    fs.flip_bit(path.as_ref(), 50, 1).expect("flip");
    let error = set.append(lsn_of(1), &head_of(1, None, Some(spooled)));
    let error = error.expect_err("refused").to_string();
    assert!(error.contains(path) && error.contains("sealed"), "{error}");
    // What no attachment describes goes with its owner.
    let unsealed = set.spools().create().expect("create");
    let before = spool_files(&fs);
    drop(unsealed);
    assert_eq!(spool_files(&fs), before - 1);
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
        set.reset(100, FileNumber(7))?;
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
                (lsn_of(12), 7),
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

/// Files with transactions up to `last`, synced after every second one, and not closed.
fn left_open(last: u64) -> SimFs {
    let fs = SimFs::new();
    let mut set = open(&fs).expect("open");
    for n in 1..=last {
        set.append(lsn_of(n), &attachment(n, None)).expect("append");
        if n % 2 == 0 {
            set.sync().expect("sync");
        }
    }
    fs
}

#[test]
fn what_the_log_still_has_of_a_damaged_file_is_derived_again() {
    const LAST: u64 = 24;
    let whole = left_open(LAST);
    let names = config(0).names;
    let last = FileNumber(index::read(&whole, &names).expect("index").len() as u32);
    let path = names.path(last);
    let mut starts = Vec::new();
    let mut scan = Scan::open(&whole, &path, None).expect("scan");
    while let Some((start, event)) = scan.next_event().expect("event") {
        if event.header.event_type() == Some(EventType::Gtid) {
            starts.push(start);
        }
    }
    let in_file = starts.len() as u64;
    assert!(in_file > 2 && last > FileNumber(1), "{in_file} in {last:?}");
    let damaged_at = |offset: u64| {
        let fs = left_open(LAST);
        fs.flip_bit(&path, offset, 1).expect("flip");
        assert!(open(&fs).is_err());
        fs
    };
    // The record of a transaction begins where the one before ends.
    let note_from = |damage: &mut Damage, first: u64| {
        for n in first..=LAST {
            let noted = damage.note(lsn_of(n - 1), &attachment(n, None));
            noted.expect("an attachment");
        }
    };
    for (at, start) in starts.iter().enumerate() {
        let fs = damaged_at(start + 30);
        let lost = in_file - at as u64;
        let find = || Damage::find(&fs, &names).expect("look").expect("damage");
        let mut damage = find();
        let found = (damage.transactions(), damage.offset(), damage.end());
        assert_eq!(found, (lost, *start, lsn_of(LAST)));
        // The log has one too few: nothing is changed.
        note_from(&mut damage, LAST - lost + 2);
        assert!(!damage.can_be_repaired());
        let mut damage = find();
        note_from(&mut damage, 1);
        assert!(damage.can_be_repaired());
        damage.repair(&fs, &names).expect("repair");
        let mut set = open(&fs).expect("open");
        assert_eq!(set.lsn(), lsn_of(LAST - lost));
        feed_on(&mut set, LAST);
        set.sync().expect("sync");
        drop(set);
        assert!(Damage::find(&fs, &names).expect("look").is_none());
        assert!(contents(&fs) == contents(&whole), "damage at {start}");
        let length = |fs: &SimFs| fs.open(&path, OpenMode::Read).expect("open").len();
        assert_eq!(
            length(&fs).expect("length"),
            length(&whole).expect("length")
        );
    }
    // A file that ends too early is cut likewise; its head cannot be had again.
    let fs = left_open(LAST);
    let file = fs.open(&path, OpenMode::ReadWrite).expect("open");
    file.set_len(starts[1] + 5).expect("cut");
    let damage = Damage::find(&fs, &names).expect("look").expect("damage");
    assert_eq!(damage.offset(), starts[1]);
    assert!(Damage::find(&damaged_at(10), &names).is_err());
    // Events in a spool file went with it.
    let fs = damaged_at(starts[in_file as usize - 1] + 30);
    let mut damage = Damage::find(&fs, &names).expect("look").expect("damage");
    let dir = "/elsewhere".into();
    let (spools, _) = Spools::open(Arc::new(fs.clone()), dir).expect("spools");
    let spooled = spool(&spools, 1, 10).expect("spool");
    let noted = damage.note(lsn_of(LAST - 1), &spooled_attachment(LAST, spooled));
    noted.expect("an attachment");
    assert!(!damage.can_be_repaired());
}

/// Appends what is missing up to transaction `last`.
fn feed_on(set: &mut FileSet, last: u64) {
    for n in (set.lsn() - 8) / 100 + 1..=last {
        set.append(lsn_of(n), &attachment(n, None)).expect("append");
    }
}

#[test]
fn it_is_known_which_part_of_the_log_a_file_covers() {
    let fs = left_open(22);
    let mut set = open(&fs).expect("open");
    set.rotate(100).expect("rotate");
    let view = set.published().view();
    let covered: Vec<_> = view.files.iter().map(|f| view.covered(f.number)).collect();
    assert_eq!(covered[0].0, Some(8));
    assert!(covered.len() > 2);
    for pair in covered.windows(2) {
        assert_eq!(pair[0].1, pair[1].0);
        assert!(pair[0].0 < pair[0].1);
    }
    assert_eq!(covered.last(), Some(&(Some(lsn_of(22)), Some(lsn_of(22)))));
    // Files of an earlier version say nothing of it, and a purge keeps the rest.
    set.purge_to(FileNumber(2)).expect("purge");
    drop(set);
    fs.remove_file("/data/binlog/binlog.lsns".as_ref())
        .expect("remove");
    let mut set = open(&fs).expect("open");
    assert_eq!(set.published().view().covered(FileNumber(2)), (None, None));
    set.rotate(100).expect("rotate");
    let view = set.published().view();
    let (last, before) = (view.end().number, FileNumber(view.end().number.0 - 1));
    assert_eq!(view.covered(before), (None, Some(lsn_of(22))));
    assert_eq!(view.covered(last), (Some(lsn_of(22)), Some(lsn_of(22))));
}
