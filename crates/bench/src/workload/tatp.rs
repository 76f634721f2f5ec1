//! TATP: the home location register of a mobile network; seven short transactions.
//!
//! Source: "Telecommunication Application Transaction Processing (TATP) Benchmark Description", version 1.0
//! (IBM Software Group, 2009): tables, the mix, the skewed choice of subscribers, and which share of the
//! transactions finds nothing. Rows are fixed binary records of about the sizes of the original.
//!
//! Neighbours: `session` gives locks, updates and the commit.
//!
//! **Invariants**
//! - Rows are locked in one order (subscriber, special facility, call forwarding): there are no deadlocks.
//! - Subscribers' numbers run from 1 to their count.

use std::ops::Bound;

use clap::ValueEnum;
use esker_engine::{Direction, Engine, Result, Tree, View};
use esker_vfs::sim::SimRng;

use super::load::Loader;
use crate::session::{Outcome, Session};

/// Access types and special facility types are numbered from 1.
const TYPES: u64 = 4;
/// When a forwarding may begin.
const START_HOURS: [u8; 3] = [0, 8, 16];
const ACTIVE_PERCENT: u64 = 85;

const SUBSCRIBER_BYTES: usize = 64;
/// Offsets in the subscriber's record; `sub_nbr` and the other bits, hexes and bytes fill the rest.
const BIT_1: usize = 15;
const VLR_LOCATION: usize = 60;
const ACCESS_BYTES: usize = 10;
const FACILITY_BYTES: usize = 8;
/// Offsets in the special facility's record.
const IS_ACTIVE: usize = 0;
const DATA_A: usize = 2;
/// End hour, then the number to call.
const FORWARDING_BYTES: usize = 16;

/// The skew of the choice of subscribers, for up to a million of them.
const NURAND_A: u64 = 65_535;

/// Which transactions run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Mix {
    /// The benchmark's: 80 % reads.
    Standard,
    /// Its writers only, in the same proportions to each other.
    Updates,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    GetSubscriberData,
    GetNewDestination,
    GetAccessData,
    UpdateSubscriberData,
    UpdateLocation,
    InsertCallForwarding,
    DeleteCallForwarding,
}

/// The transactions and how many of 100 they are.
const SHARES: [(Kind, u64); 7] = [
    (Kind::UpdateSubscriberData, 2),
    (Kind::UpdateLocation, 14),
    (Kind::InsertCallForwarding, 2),
    (Kind::DeleteCallForwarding, 2),
    (Kind::GetSubscriberData, 35),
    (Kind::GetNewDestination, 10),
    (Kind::GetAccessData, 35),
];
/// The writers come first.
const WRITE_SHARES: u64 = 20;

impl Mix {
    fn draw(self, rng: &mut SimRng) -> Kind {
        let mut left = rng.below(match self {
            Mix::Standard => 100,
            Mix::Updates => WRITE_SHARES,
        });
        for (kind, share) in SHARES {
            if left < share {
                return kind;
            }
            left -= share;
        }
        unreachable!("the shares add up to 100")
    }
}

/// The loaded database.
pub struct Tatp {
    subscribers: Tree,
    /// From the subscriber's telephone number to its number in the table.
    numbers: Tree,
    access: Tree,
    facilities: Tree,
    forwardings: Tree,
    count: u64,
    mix: Mix,
}

fn subscriber_key(id: u64) -> [u8; 4] {
    u32::try_from(id)
        .expect("subscribers are fewer")
        .to_be_bytes()
}

/// The key of an access record or a special facility.
fn typed_key(id: u64, kind: u64) -> [u8; 5] {
    let [a, b, c, d] = subscriber_key(id);
    [a, b, c, d, kind as u8]
}

fn forwarding_key(id: u64, kind: u64, start_hour: u8) -> [u8; 6] {
    let [a, b, c, d, e] = typed_key(id, kind);
    [a, b, c, d, e, start_hour]
}

/// A telephone number: fifteen digits.
fn number_of(id: u64) -> [u8; 15] {
    let mut digits = [b'0'; 15];
    let mut left = id;
    for digit in digits.iter_mut().rev() {
        *digit = b'0' + (left % 10) as u8;
        left /= 10;
    }
    digits
}

/// `0..TYPES` in any order, to take the first few.
fn shuffled_types(rng: &mut SimRng) -> [u64; TYPES as usize] {
    let mut types = std::array::from_fn(|i| i as u64 + 1);
    shuffle(&mut types, rng);
    types
}

fn shuffle<T>(items: &mut [T], rng: &mut SimRng) {
    for last in (1..items.len()).rev() {
        items.swap(last, rng.below(last as u64 + 1) as usize);
    }
}

impl Tatp {
    /// Makes and fills the tables for this many subscribers.
    pub fn load(engine: &Engine, subscribers: u64, mix: Mix) -> Result<Tatp> {
        let tatp = Tatp {
            subscribers: engine.create_tree()?,
            numbers: engine.create_tree()?,
            access: engine.create_tree()?,
            facilities: engine.create_tree()?,
            forwardings: engine.create_tree()?,
            count: subscribers,
            mix,
        };
        let mut loader = Loader::new(engine);
        let mut rng = SimRng::new(subscribers);
        for id in 1..=subscribers {
            tatp.load_subscriber(&mut loader, &mut rng, id)?;
        }
        loader.finish()?;
        Ok(tatp)
    }

    fn load_subscriber(&self, loader: &mut Loader, rng: &mut SimRng, id: u64) -> Result<()> {
        let mut row = [0; SUBSCRIBER_BYTES];
        rng.fill(&mut row);
        row[..15].copy_from_slice(&number_of(id));
        loader.put(&self.subscribers, &subscriber_key(id), &row)?;
        loader.put(&self.numbers, &number_of(id), &subscriber_key(id))?;
        let access_types = shuffled_types(rng);
        for &kind in &access_types[..1 + rng.below(TYPES) as usize] {
            let mut row = [0; ACCESS_BYTES];
            rng.fill(&mut row);
            loader.put(&self.access, &typed_key(id, kind), &row)?;
        }
        let facility_types = shuffled_types(rng);
        for &kind in &facility_types[..1 + rng.below(TYPES) as usize] {
            let mut row = [0; FACILITY_BYTES];
            rng.fill(&mut row);
            row[IS_ACTIVE] = u8::from(rng.chance(ACTIVE_PERCENT));
            loader.put(&self.facilities, &typed_key(id, kind), &row)?;
            let mut hours = START_HOURS;
            shuffle(&mut hours, rng);
            for &hour in &hours[..rng.below(hours.len() as u64 + 1) as usize] {
                let key = forwarding_key(id, kind, hour);
                loader.put(&self.forwardings, &key, &forwarding(rng, hour))?;
            }
        }
        Ok(())
    }

    pub(super) async fn transaction(&self, session: &mut Session<'_>) -> Result<Outcome> {
        let kind = self.mix.draw(&mut session.rng);
        let found = self.body(kind, session).await?;
        if found {
            session.commit().await?;
            return Ok(Outcome::Done);
        }
        // Nothing is kept, but what was read is told: it must be durable.
        session.txn.rollback();
        session.commit().await?;
        Ok(Outcome::Missed)
    }

    async fn body(&self, kind: Kind, session: &mut Session<'_>) -> Result<bool> {
        let id = self.draw_subscriber(&mut session.rng);
        match kind {
            Kind::GetSubscriberData => has(session, &self.subscribers, &subscriber_key(id)),
            Kind::GetNewDestination => self.get_new_destination(session, id),
            Kind::GetAccessData => {
                let key = typed_key(id, 1 + session.rng.below(TYPES));
                has(session, &self.access, &key)
            }
            Kind::UpdateSubscriberData => self.update_subscriber_data(session, id).await,
            Kind::UpdateLocation => self.update_location(session, id).await,
            Kind::InsertCallForwarding => self.insert_call_forwarding(session, id).await,
            Kind::DeleteCallForwarding => self.delete_call_forwarding(session, id).await,
        }
    }

    /// A subscriber, some oftener than others (clause 1.3 of the description).
    fn draw_subscriber(&self, rng: &mut SimRng) -> u64 {
        ((rng.below(NURAND_A + 1) | (1 + rng.below(self.count))) % self.count) + 1
    }

    /// Reads the subscriber's place in the table by the telephone number.
    fn find(&self, session: &Session, id: u64) -> Result<u64> {
        let found = session
            .txn
            .get_with(&self.numbers, &number_of(id), View::Snapshot, |key| {
                u32::from_be_bytes(*key.first_chunk().expect("a key of four bytes"))
            })?;
        Ok(found.expect("all numbers were loaded").into())
    }

    /// Where a call goes now: an active facility with a forwarding that covers the time.
    fn get_new_destination(&self, session: &mut Session<'_>, id: u64) -> Result<bool> {
        let kind = 1 + session.rng.below(TYPES);
        let start = START_HOURS[session.rng.below(START_HOURS.len() as u64) as usize];
        let end = 1 + session.rng.below(24) as u8;
        let active = session.txn.get_with(
            &self.facilities,
            &typed_key(id, kind),
            View::Snapshot,
            |row| row[IS_ACTIVE] == 1,
        )?;
        if active != Some(true) {
            return Ok(false);
        }
        let (first, last) = (forwarding_key(id, kind, 0), forwarding_key(id, kind, start));
        let mut cursor = session.txn.scan(
            &self.forwardings,
            Bound::Included(&first),
            Bound::Included(&last),
            Direction::Forward,
            View::Snapshot,
        )?;
        let mut found = false;
        while let Some((_, row)) = cursor.next()? {
            found |= end < row[0];
        }
        Ok(found)
    }

    async fn update_subscriber_data(&self, session: &mut Session<'_>, id: u64) -> Result<bool> {
        let kind = 1 + session.rng.below(TYPES);
        let bit = session.rng.below(2) as u8;
        let data = session.rng.below(256) as u8;
        let key = subscriber_key(id);
        session
            .update(&self.subscribers, &key, |row| row[BIT_1] = bit)
            .await?;
        let key = typed_key(id, kind);
        session
            .update(&self.facilities, &key, |row| row[DATA_A] = data)
            .await
    }

    async fn update_location(&self, session: &mut Session<'_>, id: u64) -> Result<bool> {
        let id = self.find(session, id)?;
        let location = session.rng.next_u64() as u32;
        let change = |row: &mut [u8]| {
            row[VLR_LOCATION..VLR_LOCATION + 4].copy_from_slice(&location.to_le_bytes());
        };
        session
            .update(&self.subscribers, &subscriber_key(id), change)
            .await
    }

    async fn insert_call_forwarding(&self, session: &mut Session<'_>, id: u64) -> Result<bool> {
        let id = self.find(session, id)?;
        let (kind, hour) = draw_forwarding(session);
        let key = forwarding_key(id, kind, hour);
        session.lock(&self.forwardings, &key).await?;
        // A facility is never deleted, so the reference needs no lock.
        let refers = has(session, &self.facilities, &typed_key(id, kind))?;
        let taken = session
            .txn
            .get_with(&self.forwardings, &key, View::Latest, |_| ())?;
        if !refers || taken.is_some() {
            return Ok(false);
        }
        let row = forwarding(&mut session.rng, hour);
        session.txn.put(&self.forwardings, &key, &row)?;
        Ok(true)
    }

    async fn delete_call_forwarding(&self, session: &mut Session<'_>, id: u64) -> Result<bool> {
        let id = self.find(session, id)?;
        let (kind, hour) = draw_forwarding(session);
        let key = forwarding_key(id, kind, hour);
        session.lock(&self.forwardings, &key).await?;
        let found = session
            .txn
            .get_with(&self.forwardings, &key, View::Latest, |_| ())?;
        if found.is_some() {
            session.txn.delete(&self.forwardings, &key)?;
        }
        Ok(found.is_some())
    }
}

fn draw_forwarding(session: &mut Session<'_>) -> (u64, u8) {
    let kind = 1 + session.rng.below(TYPES);
    let hour = START_HOURS[session.rng.below(START_HOURS.len() as u64) as usize];
    (kind, hour)
}

/// A record of a forwarding that begins at this hour and lasts one to eight.
fn forwarding(rng: &mut SimRng, start_hour: u8) -> [u8; FORWARDING_BYTES] {
    let mut row = [b'7'; FORWARDING_BYTES];
    row[0] = start_hour + 1 + rng.below(8) as u8;
    row
}

fn has(session: &Session, tree: &Tree, key: &[u8]) -> Result<bool> {
    let found = session.txn.get_with(tree, key, View::Snapshot, |row| {
        std::hint::black_box(row);
    })?;
    Ok(found.is_some())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::executor::run_all;
    use crate::testing::{engine, run_some};
    use crate::workload::Workload;

    const DRAWS: u64 = 20_000;

    #[test]
    fn the_mix_is_the_benchmarks() {
        assert_eq!(SHARES.iter().map(|(_, share)| share).sum::<u64>(), 100);
        let mut rng = SimRng::new(3);
        for (mix, of) in [(Mix::Standard, 100.0), (Mix::Updates, WRITE_SHARES as f64)] {
            let mut seen = [0_u64; SHARES.len()];
            for _ in 0..DRAWS {
                let kind = mix.draw(&mut rng);
                let place = SHARES.iter().position(|(k, _)| *k == kind);
                seen[place.expect("is in the mix")] += 1;
            }
            for ((kind, share), seen) in SHARES.iter().zip(seen) {
                let is_read = format!("{kind:?}").starts_with("Get");
                let p = match mix {
                    Mix::Updates if is_read => 0.0,
                    _ => *share as f64 / of,
                };
                let expected = p * DRAWS as f64;
                let deviation = (expected * (1.0 - p)).sqrt();
                let difference = (seen as f64 - expected).abs();
                assert!(
                    difference <= 5.0 * deviation,
                    "{mix:?} {kind:?}: {seen} of {expected}"
                );
            }
        }
    }

    /// The shares of transactions that find what they look for follow from the benchmark's definition.
    #[test]
    fn the_shares_of_misses_are_the_benchmarks() {
        let engine = engine();
        let tatp = Tatp::load(&engine, 2000, Mix::Standard).expect("loads");
        for (kind, percent) in [
            (Kind::GetSubscriberData, 100.0),
            (Kind::GetNewDestination, 15.0),
            (Kind::GetAccessData, 62.5),
            (Kind::UpdateSubscriberData, 62.5),
            (Kind::UpdateLocation, 100.0),
            (Kind::InsertCallForwarding, 31.25),
            (Kind::DeleteCallForwarding, 31.25),
        ] {
            let mut session = Session::new(&engine, None, 1, kind as u64);
            let tatp = &tatp;
            let body = async move {
                let mut found = 0_u64;
                for _ in 0..DRAWS {
                    session.txn.new_statement();
                    found += u64::from(tatp.body(kind, &mut session).await.expect("runs"));
                    session.txn.rollback();
                }
                found
            };
            let found = run_all(vec![body], None);
            let share = found[0] as f64 * 100.0 / DRAWS as f64;
            // The rows were drawn as well: 2,000 subscribers, some of them drawn often.
            assert!((share - percent).abs() < 5.0, "{kind:?}: {share} %");
        }
    }

    #[test]
    fn sessions_run_the_mix_without_deadlocks() {
        let engine = engine();
        let tatp = Tatp::load(&engine, 50, Mix::Updates).expect("loads");
        let counts = run_some(&engine, &Workload::Tatp(tatp), 8, 200);
        assert_eq!(counts.transactions, 1600);
        assert_eq!(counts.deadlocks, 0);
        assert!(counts.missed > 0);
    }
}
