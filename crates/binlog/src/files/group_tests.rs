//! Groups in files that decide: what a failed write leaves, where a start finds the end, what readers see when.

use std::sync::Arc;

use esker_vfs::sim::{Fault, Op, SimFs};
use esker_vfs::{Fs, OpenMode};

use super::tests::{attachment, config, executed, spool, spool_files, spooled_attachment};
use super::{Commits, FileSet, GroupedFiles, left_open};
use crate::Error;

fn open(fs: &SimFs) -> crate::Result<FileSet> {
    let mut config = config(2000);
    config.commits = Commits::TwoPhase;
    FileSet::open(Arc::new(fs.clone()), config, 8, 100)
}

fn start(fs: &SimFs) -> GroupedFiles {
    GroupedFiles::new(open(fs).expect("open"))
}

/// Appends transactions `first..=last` as a group.
fn append(files: &GroupedFiles, first: u64, last: u64) -> crate::Result<usize> {
    let group: Vec<_> = (first..=last).map(|n| attachment(n, None)).collect();
    files.append(first, group.iter().map(Vec::as_slice))
}

/// Takes everything that is appended to its end; the engine commits at these sequences.
fn finish(files: &GroupedFiles, seqs: &[u64]) {
    assert!(files.sync(1).expect("sync"));
    let commits: Vec<_> = seqs.iter().copied().map(Some).collect();
    files.committed(&commits);
}

fn bytes(fs: &SimFs) -> u64 {
    let path = config(0).names.path(super::FileNumber(1));
    let file = fs.open(&path, OpenMode::Read).expect("open");
    file.len().expect("length")
}

#[test]
fn readers_see_a_group_when_it_is_committed_and_its_places_as_of_then() {
    let fs = SimFs::new();
    let files = start(&fs);
    let published = files.published();
    let empty = published.view();
    append(&files, 1, 2).expect("written");
    append(&files, 3, 3).expect("written");
    assert_eq!(published.view().end(), empty.end());
    assert!(files.sync(1).expect("sync"));
    assert!(!files.sync(1).expect("nothing is new"));
    files.committed(&[Some(50), Some(60)]);
    let view = published.view();
    assert_eq!((view.ordinal, view.lsn, view.executed.count()), (2, 60, 2));
    assert_eq!(view.synced, view.end(), "the next group is not to be sent");
    let at = |seq| published.place(seq).expect("known").0;
    assert!(at(55).offset < at(60).offset && at(60).offset == view.end().size);
    assert_eq!(published.gno(60), Some(2));
    // Without changes in the engine it is where the one before is.
    files.committed(&[None]);
    let view = published.view();
    assert_eq!((view.ordinal, view.lsn), (3, 60));
    assert_eq!(at(60).offset, view.end().size);
}

#[test]
fn nothing_is_left_of_a_group_that_cannot_be_written() {
    let fs = SimFs::new();
    let files = start(&fs);
    append(&files, 1, 1).expect("written");
    finish(&files, &[50]);
    let before = bytes(&fs);
    let spools = files.spools();
    let large = spool(&spools, 40, 20_000).expect("spool");
    let group = [attachment(2, None), spooled_attachment(3, large)];
    // The large one is written in pieces, of which the first finds space.
    let full = Fault::on(Op::Write).path("binlog.0").no_space();
    fs.inject(full.after(1).times(1));
    let refused = files.append(2, group.iter().map(Vec::as_slice));
    assert!(matches!(refused, Err(Error::Io(_))));
    assert_eq!(bytes(&fs), before);
    assert_eq!(files.published().view().ordinal, 1);
    files
        .append(2, group.iter().map(Vec::as_slice))
        .expect("written");
    finish(&files, &[60, 70]);
    assert_eq!(executed(&fs).to_string().rsplit(':').next(), Some("1-3"));
    files.note().expect("noted");
    assert_eq!(spool_files(&fs), 0);
}

/// Three transactions that are noted, two groups behind them: where each of these ends.
fn with_groups(fs: &SimFs) -> (u64, u64) {
    let files = start(fs);
    append(&files, 1, 3).expect("written");
    finish(&files, &[50, 60, 70]);
    files.note().expect("noted");
    append(&files, 4, 5).expect("written");
    let whole = bytes(fs);
    append(&files, 6, 6).expect("written");
    (whole, bytes(fs))
}

#[test]
fn a_start_goes_on_behind_the_last_whole_transaction() {
    let names = config(0).names;
    // What is missing at the end; more: bytes that nobody has written.
    for missing in [0, 1, 100, -300] {
        let fs = SimFs::new();
        let (whole, end) = with_groups(&fs);
        let left = left_open(&fs, &names).expect("read");
        assert_eq!(left, Some(Commits::TwoPhase));
        let path = names.path(super::FileNumber(1));
        let file = fs.open(&path, OpenMode::ReadWrite).expect("open");
        file.set_len(end.saturating_add_signed(-missing))
            .expect("cut");
        let set = open(&fs).expect("open");
        let is_whole = missing <= 0;
        assert_eq!(set.ordinal(), if is_whole { 6 } else { 5 }, "{missing}");
        assert_eq!(bytes(&fs), if is_whole { end } else { whole }, "{missing}");
        // Before what was noted there is nothing torn.
        file.write_all_at(&[1], 250).expect("written");
        assert!(matches!(open(&fs), Err(Error::DamagedFile { .. })));
    }
}

#[test]
fn a_file_that_is_full_is_followed_by_another_in_a_pause() {
    let fs = SimFs::new();
    let files = start(&fs);
    append(&files, 1, 20).expect("written");
    finish(&files, &(1..=20).map(|n| n * 100).collect::<Vec<_>>());
    assert!(files.is_full());
    files.paused(2000, |set| set.rotate(100)).expect("rotated");
    assert!(!files.is_full());
    append(&files, 21, 21).expect("written");
    finish(&files, &[2100]);
    let view = files.published().view();
    assert_eq!((view.files.len(), view.ordinal, view.lsn), (2, 21, 2100));
    files.paused(2200, |set| set.close(100)).expect("closed");
    assert_eq!(left_open(&fs, &config(0).names).expect("read"), None);
    let set = open(&fs).expect("open");
    assert_eq!((set.ordinal(), set.lsn()), (21, 2200));
}
