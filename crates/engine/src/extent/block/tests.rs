//! Blocks against a plain list of versions, and with damaged bytes.

use std::sync::Arc;

use proptest::prelude::*;

use super::cursor::Buffers;
use super::*;
use crate::budget::Charge;

type Version = (Vec<u8>, Seq, Op, Vec<u8>);

fn build(versions: &[Version]) -> Block {
    let mut builder = BlockBuilder::new();
    let mut most = 0;
    for (key, seq, op, value) in versions {
        most = builder.size_with(key, *seq, value);
        builder.add(key, *seq, *op, value);
    }
    let bound = builder.size_bound();
    let mut bytes = Vec::new();
    builder.finish(&mut bytes);
    assert!(bytes.len() <= bound, "{} > {bound}", bytes.len());
    // Some bytes of the last key may be shared after all, and a sequence be shorter than the widest.
    let least = most.saturating_sub(versions.len() + 40);
    assert!(
        (least..=most).contains(&bytes.len()),
        "{} of {most}",
        bytes.len()
    );
    Block::new(bytes.into_boxed_slice().into(), Charge::default()).unwrap()
}

fn key() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(0..3u8, 0..8)
}

/// What all keys of some blocks begin with: what a block has at hand of it is all of it, or not.
const PREFIXES: [&[u8]; 3] = [b"", b"prefix", b"prefix that is long"];
const _: () = assert!(PREFIXES[2].len() > PREFIX_START_BYTES);

fn prefixed(which: usize, key: &[u8]) -> Vec<u8> {
    [PREFIXES[which], key].concat()
}

/// Versions in internal order, with keys that share prefixes and come several times.
fn versions() -> impl Strategy<Value = Vec<Version>> {
    let value = prop_oneof![
        8 => prop::collection::vec(any::<u8>(), 0..20),
        1 => prop::collection::vec(any::<u8>(), 200..300),
    ];
    let version = (key(), 1..50u64, any::<bool>(), value);
    let list = prop::collection::vec(version, 1..120);
    // In most of the blocks all keys begin alike.
    (list, 0..PREFIXES.len()).prop_map(|(mut list, which)| {
        list.iter_mut()
            .for_each(|version| version.0 = prefixed(which, &version.0));
        list.sort_by(|a, b| compare_versions(&a.0, a.1, &b.0, b.1));
        list.dedup_by(|a, b| a.0 == b.0 && a.1 == b.1);
        list.into_iter()
            .map(|(key, seq, put, value)| match put {
                true => (key, seq + (1 << 45), Op::Put, value),
                false => (key, seq + (1 << 45), Op::Delete, Vec::new()),
            })
            .collect()
    })
}

fn at(cursor: &BlockCursor) -> Option<Version> {
    cursor.valid().then(|| {
        (
            cursor.key().to_vec(),
            cursor.seq(),
            cursor.op(),
            cursor.value().to_vec(),
        )
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn a_block_gives_back_what_was_put_in(
        list in versions(),
        wanted in prop::collection::vec((key(), 0..PREFIXES.len(), 0..52u64), 80),
    ) {
        let block = Arc::new(build(&list));
        let mut cursor = BlockCursor::new(Arc::clone(&block), Buffers::default());
        cursor.seek_to_first().unwrap();
        for version in &list {
            let here = at(&cursor);
            prop_assert_eq!(here.as_ref(), Some(version));
            cursor.next().unwrap();
        }
        prop_assert!(!cursor.valid());
        cursor.seek_to_last().unwrap();
        for version in list.iter().rev() {
            let here = at(&cursor);
            prop_assert_eq!(here.as_ref(), Some(version));
            cursor.prev().unwrap();
        }
        prop_assert!(!cursor.valid());
        for (key, which, seq) in wanted {
            let key = prefixed(which, &key);
            let seq = seq + (1 << 45);
            let first = list.iter().find(|v| compare_versions(&v.0, v.1, &key, seq).is_ge());
            cursor.seek(&key, seq).unwrap();
            let here = at(&cursor);
            prop_assert_eq!(here.as_ref(), first);
            let newest = first.filter(|v| v.0 == key);
            let found = block.get(&key, seq).unwrap();
            let found = found.map(|f| (key.clone(), f.seq, f.op, block.slice(f.value).to_vec()));
            prop_assert_eq!(found.as_ref(), newest);
        }
    }

    #[test]
    fn a_cursor_turns_around_anywhere(list in versions(), turns in prop::collection::vec((any::<bool>(), 1..9usize), 1..40)) {
        let block = Arc::new(build(&list));
        let mut cursor = BlockCursor::new(block, Buffers::default());
        let mut place = 0;
        cursor.seek_to_first().unwrap();
        for (is_forward, steps) in turns {
            for _ in 0..steps {
                match is_forward {
                    true if place + 1 < list.len() => {
                        place += 1;
                        cursor.next().unwrap();
                    }
                    false if place > 0 => {
                        place -= 1;
                        cursor.prev().unwrap();
                    }
                    _ => {}
                }
                let here = at(&cursor);
                prop_assert_eq!(here.as_ref(), Some(&list[place]));
            }
        }
    }

    #[test]
    fn damaged_blocks_never_panic(list in versions(), flips in prop::collection::vec(any::<(u16, u8)>(), 1..8)) {
        let mut bytes = build(&list).bytes.to_vec();
        for (byte, mask) in flips {
            let index = usize::from(byte) % bytes.len();
            bytes[index] ^= mask;
        }
        let Ok(block) = Block::new(bytes.into_boxed_slice().into(), Charge::default()) else { return Ok(()) };
        let block = Arc::new(block);
        let _ = block.get(&[1, 2], 1 << 46);
        let mut cursor = BlockCursor::new(Arc::clone(&block), Buffers::default());
        let mut steps = 0;
        let mut result = cursor.seek_to_first();
        while result.is_ok() && cursor.valid() && steps < 1000 {
            steps += 1;
            result = cursor.next();
        }
        if cursor.seek(&[1], 7).is_ok() && cursor.valid() {
            let _ = cursor.prev();
        }
        let _ = cursor.seek_to_last();
    }

    #[test]
    fn a_divided_block_is_put_together_again(list in versions(), more in versions()) {
        // What is kept from one block to the next does not show.
        let mut divided = Divided::default();
        for list in [more, list] {
            let raw = build(&list).bytes.to_vec();
            divided.set(&raw);
            let whole = divided.parts().concat();
            prop_assert!(whole.len() <= divided_bound(raw.len()));
            let mut joined = vec![0xAA; raw.len()];
            join(&whole, &mut joined).unwrap();
            prop_assert_eq!(joined, raw);
        }
    }

    #[test]
    fn damaged_divided_blocks_never_panic(
        list in versions(),
        flips in prop::collection::vec(any::<(u16, u8)>(), 1..8),
        cut in 0..3usize,
        room in -20..20isize,
    ) {
        let raw = build(&list).bytes.to_vec();
        let mut divided = Divided::default();
        divided.set(&raw);
        let mut whole = divided.parts().concat();
        for (byte, mask) in flips {
            // The numbers in front are hit more often.
            let index = usize::from(byte) % whole.len();
            whole[if mask & 1 == 0 { index } else { index % 16 }] ^= mask;
        }
        let mut joined = vec![0; raw.len().saturating_add_signed(room)];
        let _ = join(&whole, &mut joined);
        let _ = join(&whole[..whole.len() - cut], &mut joined);
    }
}

#[test]
fn a_divided_block_has_the_length_it_says() {
    let list: Vec<Version> = (0..50u8)
        .map(|n| (vec![n], 7, Op::Put, vec![n; usize::from(n)]))
        .collect();
    let raw = build(&list).bytes.to_vec();
    let mut divided = Divided::default();
    divided.set(&raw);
    let whole = divided.parts().concat();
    for length in [0, 1, raw.len() - RESTART_BYTES, raw.len() + RESTART_BYTES] {
        assert!(join(&whole, &mut vec![0; length]).is_err(), "{length}");
    }
    let mut joined = raw.clone();
    assert!(join(&whole[..whole.len() - 1], &mut joined).is_err());
}
