//! Finding the row of which an image is, and locking it.
//!
//! Neighbours: the applier hands in the image of what the row was; `write` locks and reads.
//! **Invariants**
//! - By the primary key, else a unique key without NULL, else any index of which the image has all columns, else the
//!   whole table. A key that tells rows apart is enough, as in MySQL; where it does not, every column of the image is
//!   compared.
//! - What comes out was read again under its lock, and still is what was looked for.
//! - A search without key goes on behind the row that was found last and begins again at the start: events have rows in
//!   the order in which a scan found them, so a statement's rows are found in one pass. Where they have another order,
//!   `ahead` finds those that come.

use std::ops::Bound;

use esker_engine::{Direction, LockMode, View};
use esker_sql_catalog::catalog::{IndexDef, RowEvent, TableDef};
use esker_sql_catalog::codec::{KeyRange, UTC};
use esker_sql_catalog::exec_error::ExecError;
use esker_types::{SqlResult, ValueRef};

use super::ahead::{Ahead, MOST_AHEAD};
use super::columns::{Columns, OwnImage};
use crate::dml::DmlEnv;
use crate::dml::write::{KeyRun, Writer};

/// A unique entry may lead to a row that has changed before its lock was there; looked up again this often.
const MAX_LOOKUPS: u32 = 100;
/// Rows between two looks whether the session was killed.
const CHECK_EVERY: u64 = 1024;

/// A search that has passed more rows is long.
const LONG: u64 = 256;

/// The search for the rows of a table's events.
#[derive(Default)]
pub(super) struct Finder {
    /// Key behind the row that was found last without a key.
    resume: Vec<u8>,
    /// A search was long: rows do not come in the order of the table.
    is_lost: bool,
    ahead: Ahead,
}

/// Clustered key of a row, and key of the entry that led to it.
type Candidate = (Vec<u8>, Vec<u8>);

/// How a row is found.
enum Way<'t> {
    Primary,
    Unique(&'t IndexDef),
    Index(&'t IndexDef),
    Scan,
}

/// The values of an index's parts, if the image has them all.
fn parts_of<'i>(index: &IndexDef, image: &'i OwnImage) -> Option<Vec<ValueRef<'i>>> {
    let parts = index.parts.iter();
    let values = parts.map(|part| image[part.col].as_ref().map(|v| v.as_ref()));
    values.collect::<Option<Vec<_>>>().filter(|v| !v.is_empty())
}

fn way<'t>(table: &'t TableDef, image: &OwnImage) -> Way<'t> {
    if table.has_primary_key() && parts_of(table.primary(), image).is_some() {
        return Way::Primary;
    }
    let usable = |index: &&IndexDef| parts_of(index, image).is_some();
    let tells_apart = |index: &&IndexDef| {
        index.unique
            && parts_of(index, image).is_some_and(|values| !values.contains(&ValueRef::Null))
    };
    let mut secondary = table.secondary().iter();
    if let Some(index) = secondary.clone().find(tells_apart) {
        return Way::Unique(index);
    }
    secondary.find(usable).map_or(Way::Scan, Way::Index)
}

impl Finder {
    /// Would it be better to know what comes?
    pub(super) fn wants_to_know(&self) -> bool {
        self.is_lost && self.ahead.is_over()
    }

    /// Is the row of the image searched for in the whole table?
    pub(super) fn scans_for(table: &TableDef, image: &OwnImage) -> bool {
        matches!(way(table, image), Way::Scan)
    }

    /// Finds the rows of changes that come, given by their images before, in one pass.
    pub(super) fn look_ahead(
        &mut self,
        env: &DmlEnv<'_>,
        (table, columns): (&TableDef, &Columns),
        images: &mut dyn Iterator<Item = SqlResult<OwnImage>>,
    ) -> Result<(), ExecError> {
        let mut ahead = Ahead::default();
        for image in images.take(MOST_AHEAD) {
            let image = image?;
            if Self::scans_for(table, &image) && !ahead.expect(table, columns, &image)? {
                break;
            }
        }
        ahead.pass(env, table, columns)?;
        self.ahead = ahead;
        Ok(())
    }

    /// Finds and locks the row of `image`: its clustered key comes out, its latest version lies in the scratch's
    /// `old_row`. `None`: there is none. `run` follows the rows of the statement.
    pub(super) fn find(
        &mut self,
        env: &mut DmlEnv<'_>,
        (table, columns): (&TableDef, &Columns),
        image: &OwnImage,
        run: &mut KeyRun,
    ) -> Result<Option<Vec<u8>>, ExecError> {
        match way(table, image) {
            Way::Primary => {
                note_fetched(table, (table.primary(), false), 1);
                let mut key = Vec::new();
                let values = parts_of(table.primary(), image).unwrap_or_default();
                let codec = &table.primary().codec;
                codec.encode_prefix(&values, &UTC, &mut key)?;
                Ok(read_in(env, table, &key, run)?.then_some(key))
            }
            Way::Unique(index) => by_unique(env, table, index, image),
            Way::Index(index) => {
                let values = parts_of(index, image).unwrap_or_default();
                let range = index.codec.range(&values, None, None, &UTC)?;
                let how = (run, &mut 0);
                let found = search(env, (table, columns), (index, &range), image, how)?;
                Ok(found.map(|(clustered, _)| clustered))
            }
            Way::Scan => self.scan(env, (table, columns), image, run),
        }
    }

    fn scan(
        &mut self,
        env: &mut DmlEnv<'_>,
        place: (&TableDef, &Columns),
        image: &OwnImage,
        run: &mut KeyRun,
    ) -> Result<Option<Vec<u8>>, ExecError> {
        if !self.ahead.is_over() {
            let digest = self.ahead.comes(place.0, place.1, image);
            while let Some(clustered) = self.ahead.candidate(digest) {
                if read_match(env, place, &clustered, image, run)? {
                    return Ok(Some(clustered));
                }
            }
        }
        let index = place.0.primary();
        let behind = KeyRange {
            lower: Bound::Included(self.resume.clone()),
            upper: Bound::Unbounded,
        };
        let mut passed = 0;
        let mut found = search(env, place, (index, &behind), image, (run, &mut passed))?;
        if found.is_none() && !self.resume.is_empty() {
            let before = KeyRange {
                lower: Bound::Unbounded,
                upper: Bound::Excluded(self.resume.clone()),
            };
            found = search(env, place, (index, &before), image, (run, &mut passed))?;
        }
        self.is_lost |= passed > LONG;
        let Some((clustered, _)) = found else {
            return Ok(None);
        };
        self.resume.clone_from(&clustered);
        self.resume.push(0);
        Ok(Some(clustered))
    }
}

/// So many rows were read by an index, or in the order of the table where that is all of it.
pub(super) fn note_fetched(table: &TableDef, (index, is_full): (&IndexDef, bool), rows: u64) {
    let at = table.indexes.iter().position(|one| one.id == index.id);
    if let Some(at) = at {
        table.accesses(at, is_full).note(RowEvent::Fetch, rows);
    }
}

/// Locks a row and reads it into the scratch's `old_row`; false if it is gone.
pub(super) fn read(
    env: &mut DmlEnv<'_>,
    table: &TableDef,
    clustered: &[u8],
) -> Result<bool, ExecError> {
    read_in(env, table, clustered, &mut KeyRun::default())
}

/// The same for the next row of a statement.
fn read_in(
    env: &mut DmlEnv<'_>,
    table: &TableDef,
    clustered: &[u8],
    run: &mut KeyRun,
) -> Result<bool, ExecError> {
    let run = run.next(clustered);
    let mut old_row = std::mem::take(&mut env.scratch.old_row);
    let writer = Writer {
        txn: env.txn,
        mode: env.mode,
        limits: env.limits,
        on_duplicate: LockMode::Exclusive,
    };
    let is_there = writer
        .lock_in(table.primary().id, clustered, run.as_ref())
        .and_then(|()| writer.read_locked(table, clustered, &mut old_row));
    env.scratch.old_row = old_row;
    is_there
}

/// [`read_in`], and still the row of the image.
fn read_match(
    env: &mut DmlEnv<'_>,
    (table, columns): (&TableDef, &Columns),
    clustered: &[u8],
    image: &OwnImage,
    run: &mut KeyRun,
) -> Result<bool, ExecError> {
    let is_there = read_in(env, table, clustered, run)?;
    Ok(is_there && columns.matches(table, image, &env.scratch.old_row)?)
}

fn by_unique(
    env: &mut DmlEnv<'_>,
    table: &TableDef,
    index: &IndexDef,
    image: &OwnImage,
) -> Result<Option<Vec<u8>>, ExecError> {
    let mut key = Vec::new();
    let values = parts_of(index, image).unwrap_or_default();
    index.codec.encode_prefix(&values, &UTC, &mut key)?;
    note_fetched(table, (index, false), 1);
    for _ in 0..MAX_LOOKUPS {
        let entry = env
            .txn
            .get_with(&index.tree, &key, View::Latest, <[u8]>::to_vec)?;
        let Some(clustered) = entry else {
            return Ok(None);
        };
        // Keys compare by collation, so the entry itself is looked at again rather than the values.
        if read(env, table, &clustered)? {
            let again = env
                .txn
                .get_with(&index.tree, &key, View::Latest, <[u8]>::to_vec)?;
            if again.as_ref() == Some(&clustered) {
                return Ok(Some(clustered));
            }
        }
        (env.check_killed)()?;
    }
    Ok(None)
}

/// The first row in the range of an index that is that of the image, with the key of its entry. `passed` counts the
/// rows before.
fn search(
    env: &mut DmlEnv<'_>,
    (table, columns): (&TableDef, &Columns),
    (index, range): (&IndexDef, &KeyRange),
    image: &OwnImage,
    (run, passed): (&mut KeyRun, &mut u64),
) -> Result<Option<Candidate>, ExecError> {
    let mut from: Option<Vec<u8>> = None;
    loop {
        let before = *passed;
        let candidate = next_candidate(
            env,
            (table, columns),
            (index, range, from.as_deref()),
            image,
            passed,
        );
        note_fetched(table, (index, index.primary), *passed - before);
        let Some((clustered, entry)) = candidate? else {
            return Ok(None);
        };
        if read_match(env, (table, columns), &clustered, image, run)? {
            return Ok(Some((clustered, entry)));
        }
        let mut behind = entry;
        behind.push(0);
        from = Some(behind);
    }
}

/// The next row that looks like it, not locked yet: its clustered key and the key of its entry.
fn next_candidate(
    env: &DmlEnv<'_>,
    (table, columns): (&TableDef, &Columns),
    (index, range, from): (&IndexDef, &KeyRange, Option<&[u8]>),
    image: &OwnImage,
    passed: &mut u64,
) -> Result<Option<Candidate>, ExecError> {
    let lower = from.map_or_else(|| range.lower(), Bound::Included);
    let (upper, forward) = (range.upper(), Direction::Forward);
    let mut cursor = env
        .txn
        .scan(&index.tree, lower, upper, forward, View::Latest)?;
    let is_clustered = index.id == table.primary().id;
    while let Some((key, value)) = cursor.next()? {
        *passed += 1;
        if passed.is_multiple_of(CHECK_EVERY) {
            (env.check_killed)()?;
        }
        if is_clustered {
            if columns.matches(table, image, value)? {
                return Ok(Some((key.to_vec(), key.to_vec())));
            }
            continue;
        }
        let clustered = index.codec.clustered_of(key, value)?;
        let matches = env
            .txn
            .get_with(&table.primary().tree, clustered, View::Latest, |row| {
                columns.matches(table, image, row)
            })?;
        if matches.transpose()?.unwrap_or(false) {
            return Ok(Some((clustered.to_vec(), key.to_vec())));
        }
    }
    Ok(None)
}
