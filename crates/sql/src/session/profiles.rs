//! SHOW PROFILES, SHOW PROFILE and PROFILING: how long the last statements of a session took (`profiling`).
//!
//! Neighbours: `measure` says what a statement took, `show` and `infoschema` show it. **Invariants**: at most
//! `profiling_history_size` statements are kept, and none about profiles; numbers go up from 1 and are never used
//! again.

use std::collections::VecDeque;

use esker_types::{Decimal, Value};

/// Bytes of a statement that are kept.
const MAX_TEXT: usize = 300;

/// Number of a statement's first stage, as in MySQL.
const FIRST_STAGE: u64 = 2;

/// What a statement took.
pub(crate) struct Profile {
    /// Its number.
    number: u64,
    micros: u64,
    /// The part of it that was waiting for locks.
    lock_micros: u64,
    text: String,
}

impl Profile {
    /// What it was doing, in microseconds.
    fn stages(&self) -> impl Iterator<Item = (&'static str, u64)> + use<> {
        let waited = (self.lock_micros > 0).then_some(("Waiting for locks", self.lock_micros));
        let executing = ("executing", self.micros - self.lock_micros);
        waited.into_iter().chain([executing])
    }
}

/// The last statements of a session, the oldest first.
#[derive(Default)]
pub(crate) struct Profiles {
    kept: VecDeque<Profile>,
    last: u64,
}

/// Microseconds as seconds.
pub(crate) fn seconds(micros: u64) -> Value {
    let text = format!("{}.{:06}", micros / 1_000_000, micros % 1_000_000);
    Value::Decimal(Decimal::parse(text.as_bytes()).0)
}

/// Is it a statement about profiles?
fn is_own(text: &str) -> bool {
    let mut words = text.split_ascii_whitespace();
    let mut is = |word: &str| {
        words
            .next()
            .is_some_and(|w| w.to_ascii_uppercase().starts_with(word))
    };
    is("SHOW") && is("PROFILE")
}

impl Profiles {
    /// Keeps a statement, and at most `most` in all.
    pub(super) fn add(&mut self, text: &str, (micros, lock_micros): (u64, u64), most: usize) {
        if is_own(text) {
            return;
        }
        let mut end = text.len().min(MAX_TEXT);
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        self.last += 1;
        self.kept.push_back(Profile {
            number: self.last,
            micros,
            lock_micros: lock_micros.min(micros),
            text: text[..end].to_owned(),
        });
        while self.kept.len() > most {
            self.kept.pop_front();
        }
    }

    /// Rows of SHOW PROFILES.
    pub(crate) fn list(&self) -> Vec<Vec<Value>> {
        let row = |p: &Profile| {
            vec![
                Value::UInt(p.number),
                Value::Double(p.micros as f64 / 1e6),
                Value::str(&p.text),
            ]
        };
        self.kept.iter().map(row).collect()
    }

    /// Rows of SHOW PROFILE: of a statement, or of the last one.
    pub(crate) fn stages(&self, number: Option<u64>) -> Vec<Vec<Value>> {
        let found = match number {
            Some(number) => self.kept.iter().find(|p| p.number == number),
            None => self.kept.back(),
        };
        let stages = found.into_iter().flat_map(Profile::stages);
        stages
            .map(|(state, micros)| vec![Value::str(state), seconds(micros)])
            .collect()
    }

    /// Every stage that is kept: number of the statement, number of the stage, state, microseconds.
    pub(crate) fn all_stages(&self) -> Vec<(u64, u64, &'static str, u64)> {
        let of_one = |profile: &Profile| {
            let number = profile.number;
            let numbered = (FIRST_STAGE..).zip(profile.stages());
            numbered.map(move |(nth, (state, micros))| (number, nth, state, micros))
        };
        self.kept.iter().flat_map(of_one).collect()
    }
}
