//! Which shard of a tree a key belongs to.
//!
//! Neighbours: `collect` asks for every write, `run` for every read. The borders come from a sample of the log.
//!
//! Only eight bytes of a key are looked at, behind what all sampled keys begin with. A key that does not begin like
//! that comes before or behind all of them, so it belongs to the first or the last shard.
//!
//! **Invariants**
//! - Shards follow each other in the order of the keys: every key of a shard is smaller than every key of the next one.
//! - All keys of a shard begin with the same [`Router::strip`] bytes.

use super::entry::{PREFIX_BYTES, prefix_and_span};

/// The borders between the shards of a tree.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Router {
    /// What the sampled keys begin with.
    common: Box<[u8]>,
    /// Its first eight bytes, and which bits of a key's prefix they are: most comparisons end there.
    head: u64,
    head_mask: u64,
    /// The smallest prefix, behind `common`, of every shard but the first.
    borders: Box<[u64]>,
}

/// Where a key goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Route {
    pub(crate) shard: usize,
    /// Bytes of the key that entries of the shard do not show.
    pub(crate) strip: usize,
}

impl Router {
    /// Borders for at most `shards` shards with about the same share of the sampled keys each.
    pub(crate) fn from_sample(mut keys: Vec<&[u8]>, shards: usize) -> Self {
        keys.sort_unstable();
        let (Some(first), Some(last)) = (keys.first(), keys.last()) else {
            return Router::default();
        };
        let alike = first.iter().zip(*last).take_while(|(a, b)| a == b).count();
        let shards = shards.min(keys.len());
        let mut borders: Vec<u64> = (1..shards)
            .map(|shard| prefix_and_span(&keys[shard * keys.len() / shards][alike..]).0)
            .collect();
        borders.dedup();
        // Everything is at or above zero: such a border would make the first shard that of the keys that begin
        // otherwise.
        borders.retain(|border| *border > 0);
        debug_assert!(borders.is_sorted_by(|a, b| a < b), "borders ascend");
        let common = &first[..alike];
        let head_bits = 8 * alike.min(PREFIX_BYTES) as u32;
        Router {
            common: common.into(),
            head: prefix_and_span(common).0,
            head_mask: u64::MAX
                .checked_shr(head_bits)
                .map_or(u64::MAX, |rest| !rest),
            borders: borders.into(),
        }
    }

    pub(crate) fn shards(&self) -> usize {
        self.borders.len() + 1
    }

    /// The shard of a key.
    #[inline]
    pub(crate) fn route(&self, key: &[u8]) -> Route {
        if !self.begins_alike(key) {
            let is_before = key < &*self.common;
            let shard = if is_before { 0 } else { self.borders.len() };
            return Route { shard, strip: 0 };
        }
        let (prefix, _) = prefix_and_span(&key[self.common.len()..]);
        let shard = self.borders.partition_point(|border| *border <= prefix);
        debug_assert!(shard < self.shards());
        Route {
            shard,
            strip: self.strip(shard),
        }
    }

    /// A key at about the beginning of a shard; `None` for the first.
    pub(crate) fn border(&self, shard: usize) -> Option<Vec<u8>> {
        let border = self.borders.get(shard.checked_sub(1)?)?;
        Some([&*self.common, &border.to_be_bytes()].concat())
    }

    #[inline]
    fn begins_alike(&self, key: &[u8]) -> bool {
        let alike = self.common.len();
        if alike == 0 {
            return true;
        }
        let (prefix, _) = prefix_and_span(key);
        key.len() >= alike
            && prefix & self.head_mask == self.head
            && (alike <= PREFIX_BYTES || key[PREFIX_BYTES..alike] == self.common[PREFIX_BYTES..])
    }

    /// Bytes that all keys of the shard begin with: in the first and the last one there may be keys without them.
    #[inline]
    pub(crate) fn strip(&self, shard: usize) -> usize {
        if shard == 0 || shard == self.borders.len() {
            0
        } else {
            self.common.len()
        }
    }
}

const _: () = assert!(PREFIX_BYTES == size_of::<u64>());

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn without_a_sample_there_is_one_shard() {
        let router = Router::from_sample(Vec::new(), 16);
        assert_eq!(router.shards(), 1);
        assert_eq!(router.route(b"anything"), Route { shard: 0, strip: 0 });
    }

    #[test]
    fn shards_have_about_the_same_share_of_what_the_sample_shows() {
        let keys: Vec<[u8; 12]> = (0..10_000u64)
            .map(|n| {
                let mut key = *b"user________";
                key[4..].copy_from_slice(&(n * 977).to_be_bytes());
                key
            })
            .collect();
        let sample = keys.iter().step_by(20).map(|key| &key[..]).collect();
        let router = Router::from_sample(sample, 32);
        assert_eq!(router.shards(), 32);
        let mut counts = [0; 32];
        for key in &keys {
            let route = router.route(key);
            counts[route.shard] += 1;
            // The common part is longer than the word, as the numbers are small.
            assert!(route.strip == 0 || route.strip > 4);
        }
        assert!(
            counts.iter().all(|count| (250..400).contains(count)),
            "{counts:?}"
        );
    }

    proptest! {
        #[test]
        fn order_of_shards_is_the_order_of_keys(
            sample in prop::collection::vec(prop::collection::vec(0..3u8, 0..12), 0..40),
            shards in 1..10usize,
            keys in prop::collection::vec(prop::collection::vec(0..3u8, 0..12), 0..40),
        ) {
            let router = Router::from_sample(sample.iter().map(|key| &key[..]).collect(), shards);
            prop_assert!(router.shards() <= shards.max(1));
            let mut keys = keys;
            keys.sort();
            let routes: Vec<Route> = keys.iter().map(|key| router.route(key)).collect();
            prop_assert!(routes.is_sorted_by_key(|route| route.shard));
            for (key, route) in keys.iter().zip(&routes) {
                prop_assert!(route.shard < router.shards());
                prop_assert_eq!(route.strip, router.strip(route.shard));
                prop_assert_eq!(key.get(..route.strip), router.common.get(..route.strip));
            }
        }
    }
}
