//! The real file system behind the same traits.

use std::io::ErrorKind;

use esker_vfs::{Env, OpenMode, OsFs, SHARE_ALIGN};

#[test]
fn files_can_be_written_read_renamed_and_removed() {
    let dir = tempfile::tempdir().unwrap();
    let fs = Env::os().fs;
    let sub = dir.path().join("a/b");
    fs.create_dir_all(&sub).unwrap();
    let path = sub.join("file");
    assert_eq!(
        fs.open(&path, OpenMode::Read).err().unwrap().kind(),
        ErrorKind::NotFound
    );
    let file = fs.open(&path, OpenMode::CreateNew).unwrap();
    assert_eq!(
        fs.open(&path, OpenMode::CreateNew).err().unwrap().kind(),
        ErrorKind::AlreadyExists
    );
    assert!(file.is_empty().unwrap());
    file.write_all_at(b"hello", 3).unwrap();
    file.sync_data().unwrap();
    fs.sync_dir(&sub).unwrap();
    let mut buf = [1; 10];
    assert_eq!(file.read_at(&mut buf, 0).unwrap(), 8);
    assert_eq!(&buf[..8], b"\0\0\0hello");
    assert_eq!(
        file.read_exact_at(&mut buf, 0).unwrap_err().kind(),
        ErrorKind::UnexpectedEof
    );
    file.set_len(4).unwrap();
    file.sync_all().unwrap();
    assert_eq!(file.len().unwrap(), 4);
    let to = sub.join("renamed");
    fs.rename(&path, &to).unwrap();
    assert_eq!(fs.list(&sub).unwrap(), ["renamed"]);
    assert!(fs.exists(&to).unwrap() && !fs.exists(&path).unwrap());
    let again = fs.open(&to, OpenMode::CreateOrOpen).unwrap();
    assert_eq!(again.len().unwrap(), 4, "opening does not truncate");
    fs.remove_file(&to).unwrap();
    assert!(fs.list(&sub).unwrap().is_empty());
    assert!(fs.free_bytes(&sub).unwrap() > 0);
}

#[test]
fn allocation_grows_the_file_and_keeps_the_data() {
    let dir = tempfile::tempdir().unwrap();
    let fs = Env::os().fs;
    let file = fs
        .open(&dir.path().join("file"), OpenMode::CreateNew)
        .unwrap();
    file.write_all_at(b"data", 0).unwrap();
    file.allocate(0, 100_000).unwrap();
    assert_eq!(file.len().unwrap(), 100_000);
    file.allocate(0, 0).unwrap();
    let mut buf = vec![1; 100_000];
    file.read_exact_at(&mut buf, 0).unwrap();
    assert_eq!(&buf[..4], b"data");
    assert!(buf[4..].iter().all(|b| *b == 0));
}

/// Ranges that direct I/O takes and ranges that it does not; what lies outside stays, and ordinary writes work
/// afterwards.
#[test]
fn zeros_fill_exactly_their_range() {
    let dir = tempfile::tempdir().unwrap();
    let fs = Env::os().fs;
    let size: u64 = 3 << 20;
    for (nth, (from, to)) in [
        (4096, 4096 * 400),
        (0, size),
        (100, 70_001),
        (8192, size - 5),
    ]
    .into_iter()
    .enumerate()
    {
        let file = fs
            .open(&dir.path().join(nth.to_string()), OpenMode::CreateNew)
            .unwrap();
        file.write_all_at(&vec![7; size as usize], 0).unwrap();
        file.fill_with_zeros(from, to - from).unwrap();
        file.write_all_at(b"odd", 50_001).unwrap();
        file.sync_all().unwrap();
        let mut expected = vec![7; size as usize];
        expected[from as usize..to as usize].fill(0);
        expected[50_001..50_004].copy_from_slice(b"odd");
        let mut found = vec![1; size as usize];
        file.read_exact_at(&mut found, 0).unwrap();
        assert!(found == expected, "{from}..{to}");
        assert_eq!(file.len().unwrap(), size);
    }
}

#[test]
fn a_directory_is_locked_by_one_owner() {
    let dir = tempfile::tempdir().unwrap();
    let fs = Env::os().fs;
    let lock = fs.lock_dir(dir.path()).unwrap();
    assert_eq!(
        fs.lock_dir(dir.path()).err().unwrap().kind(),
        ErrorKind::WouldBlock
    );
    drop(lock);
    assert!(fs.lock_dir(dir.path()).is_ok());
}

#[test]
fn time_passes_and_dice_differ() {
    let env = Env::os();
    let before = env.clock.mono_nanos();
    assert!(env.clock.wall_micros() > 1_700_000_000_000_000);
    assert!(env.clock.mono_nanos() >= before);
    let mut bytes = [0; 64];
    env.random.fill(&mut bytes);
    assert_ne!(bytes, [0; 64]);
    assert_ne!(env.random.next_u64(), env.random.next_u64());
}

#[test]
fn a_hole_reads_as_zeros_and_takes_no_space() {
    use std::os::unix::fs::MetadataExt;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("file");
    let file = Env::os().fs.open(&path, OpenMode::CreateNew).unwrap();
    let size: u64 = 4 << 20;
    file.write_all_at(&vec![7; size as usize], 0).unwrap();
    file.sync_all().unwrap();
    let blocks = || std::fs::metadata(&path).unwrap().blocks();
    let before = blocks();
    let data = || OsFs.data_ranges(&path).unwrap();
    let whole = 0..size;
    assert_eq!(data(), std::slice::from_ref(&whole));
    let (start, end) = (1 << 20, 3 << 20);
    let is_punched = file.punch_hole(start, end - start).unwrap();
    assert_eq!(file.len().unwrap(), size, "the length stays");
    let mut bytes = vec![1; size as usize];
    file.read_exact_at(&mut bytes, 0).unwrap();
    let inside = &bytes[start as usize..end as usize];
    assert!(inside.iter().all(|b| *b == if is_punched { 0 } else { 7 }));
    assert_eq!((bytes[start as usize - 1], bytes[end as usize]), (7, 7));
    assert!(!is_punched || blocks() < before);
    assert!(!is_punched || data() == [0..start, end..size]);
    file.punch_hole(0, size).unwrap();
    assert!(!is_punched || data().is_empty());
    assert!(file.punch_hole(5, 0).is_ok());
}

#[test]
fn blocks_are_shared_where_the_file_system_can() {
    let dir = tempfile::tempdir().unwrap();
    let fs = Env::os().fs;
    let new = |name: &str| fs.open(&dir.path().join(name), OpenMode::CreateNew);
    let (source, file) = (new("source").unwrap(), new("file").unwrap());
    let bytes: Vec<u8> = (0..3 * SHARE_ALIGN).map(|n| (n % 251) as u8).collect();
    source.write_all_at(&bytes, 0).unwrap();
    let (from, to, len) = (SHARE_ALIGN, 2 * SHARE_ALIGN, SHARE_ALIGN + 7);
    let can_share = file.can_share_blocks(&*source).unwrap();
    assert_eq!(file.len().unwrap(), 0, "it was only tried");
    if !can_share {
        // ext4, tmpfs and overlay file systems cannot.
        return;
    }
    file.share_blocks(&*source, from, to, len).unwrap();
    let mut buf = vec![0; len as usize];
    file.read_exact_at(&mut buf, to).unwrap();
    assert_eq!(buf, &bytes[from as usize..][..len as usize]);
    source.write_all_at(&vec![0; bytes.len()], 0).unwrap();
    file.read_exact_at(&mut buf, to).unwrap();
    assert_eq!(buf, &bytes[from as usize..][..len as usize]);
    let beyond = file.share_blocks(&*source, 3 * SHARE_ALIGN, to, 1);
    assert!(beyond.is_err(), "the source ends before");
}
