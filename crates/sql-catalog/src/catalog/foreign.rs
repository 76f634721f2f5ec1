//! Foreign keys: what a table says of its parents, which indexes serve them, and who refers to a table.
//!
//! Neighbours: `store` writes [`extension_of`] a table beside it; `ddl` makes and checks the definitions,
//! `dml::foreign` keeps them, `show` and `infoschema` print them; `change` keeps [`TableDef::referenced_by`] right.
//! **Invariants**
//! - A child names its own columns by id and its parent by names: the parent may be missing (`foreign_key_checks = 0`).
//! - `referenced_by` is not stored. It follows from the foreign keys of all tables, and a table whose `referenced_by`
//!   changes is published anew, which makes every plan for it void.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Arc;

use esker_types::SqlResult;

use super::Snapshot;
use super::bytes::{Reader, Writer};
use super::def::{IndexPart, TableDef, same_name};
use super::quotes::Quotes;
use crate::codec::damaged;

/// What becomes of child rows when their parent goes or changes its key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReferentialAction {
    /// Refused; not written out by SHOW CREATE TABLE.
    NoAction,
    /// Refused.
    Restrict,
    /// They go or change, too.
    Cascade,
    /// Their columns become NULL.
    SetNull,
    /// Refused, as InnoDB does.
    SetDefault,
}

impl ReferentialAction {
    /// As SQL writes it.
    pub fn word(self) -> &'static str {
        match self {
            Self::NoAction => "NO ACTION",
            Self::Restrict => "RESTRICT",
            Self::Cascade => "CASCADE",
            Self::SetNull => "SET NULL",
            Self::SetDefault => "SET DEFAULT",
        }
    }

    /// Does it change child rows?
    pub fn changes_children(self) -> bool {
        matches!(self, Self::Cascade | Self::SetNull)
    }
}

/// A FOREIGN KEY constraint of a child table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForeignKeyDef {
    /// Name, unique among the foreign keys of the schema.
    pub name: Box<str>,
    /// Ids of the columns.
    pub columns: Vec<u32>,
    /// Database and name of the parent.
    pub parent: (Arc<str>, Arc<str>),
    /// Columns of the parent, as many.
    pub parent_columns: Vec<Box<str>>,
    /// ON DELETE.
    pub on_delete: ReferentialAction,
    /// ON UPDATE.
    pub on_update: ReferentialAction,
}

impl ForeignKeyDef {
    /// Does it refer to this table?
    pub fn refers_to(&self, table: &TableDef) -> bool {
        self.is_parent(&table.schema, &table.name)
    }

    /// Is this the parent's name?
    pub fn is_parent(&self, schema: &str, name: &str) -> bool {
        *self.parent.0 == *schema && *self.parent.1 == *name
    }

    /// Ordinals of its columns in the child.
    pub fn child_columns(&self, child: &TableDef) -> Vec<usize> {
        let ordinal = |id: &u32| child.columns.iter().position(|c| c.id == *id);
        self.columns.iter().filter_map(ordinal).collect()
    }

    /// Ordinals of the columns that it refers to; `None` if the parent has not all of them.
    pub fn parent_ordinals(&self, parent: &TableDef) -> Option<Vec<usize>> {
        let names = self.parent_columns.iter();
        names.map(|name| parent.column_index(name)).collect()
    }

    /// The constraint as error messages print it: as InnoDB knows it, which has no SET DEFAULT.
    pub fn text(&self, child: &TableDef) -> String {
        let is_known = |action| action != ReferentialAction::SetDefault;
        self.printed(Quotes::BACKTICKS, child, is_known)
    }

    /// The constraint as SHOW CREATE TABLE prints it.
    pub(super) fn text_in(&self, quotes: Quotes, child: &TableDef) -> String {
        self.printed(quotes, child, |_| true)
    }

    fn printed(
        &self,
        quotes: Quotes,
        child: &TableDef,
        has_action: impl Fn(ReferentialAction) -> bool,
    ) -> String {
        let quoted = |name: &str| quotes.name(name);
        let names = |names: &mut dyn Iterator<Item = &str>| {
            let quoted: Vec<String> = names.map(quoted).collect();
            quoted.join(", ")
        };
        let columns = self.child_columns(child);
        let mut columns = columns.iter().map(|&c| &*child.columns[c].name);
        let mut out = format!(
            "CONSTRAINT {} FOREIGN KEY ({}) REFERENCES ",
            quoted(&self.name),
            names(&mut columns)
        );
        if *self.parent.0 != *child.schema {
            let _ = write!(out, "{}.", quoted(&self.parent.0));
        }
        let mut parents = self.parent_columns.iter().map(|c| &**c);
        let _ = write!(out, "{} ({})", quoted(&self.parent.1), names(&mut parents));
        for (event, action) in [("DELETE", self.on_delete), ("UPDATE", self.on_update)] {
            if action != ReferentialAction::NoAction && has_action(action) {
                let _ = write!(out, " ON {event} {}", action.word());
            }
        }
        out
    }
}

impl ReferentialAction {
    const ALL: [Self; 5] = [
        Self::NoAction,
        Self::Restrict,
        Self::Cascade,
        Self::SetNull,
        Self::SetDefault,
    ];

    fn write(self, w: &mut Writer) {
        let at = Self::ALL.iter().position(|a| *a == self);
        w.byte(at.expect("all are listed") as u8);
    }

    fn read(r: &mut Reader<'_>) -> SqlResult<Self> {
        let action = Self::ALL.get(usize::from(r.byte()?)).copied();
        action.ok_or_else(|| damaged("catalog row: referential action"))
    }
}

/// What is stored of a table's foreign keys and of indexes that were made for them; `None`: it has neither.
pub(super) fn extension_of(def: &TableDef) -> Option<Vec<u8>> {
    let places = def.indexes.iter().enumerate();
    let generated: Vec<usize> = places
        .filter(|(_, i)| i.generated)
        .map(|(at, _)| at)
        .collect();
    if def.foreign_keys.is_empty() && generated.is_empty() {
        return None;
    }
    let mut w = Writer::default();
    w.int(def.foreign_keys.len() as u64);
    for key in &def.foreign_keys {
        debug_assert_eq!(key.columns.len(), key.parent_columns.len());
        w.text(&key.name);
        w.int(key.columns.len() as u64);
        for (id, parent) in key.columns.iter().zip(&key.parent_columns) {
            w.int(u64::from(*id));
            w.text(parent);
        }
        w.text(&key.parent.0);
        w.text(&key.parent.1);
        key.on_delete.write(&mut w);
        key.on_update.write(&mut w);
    }
    w.int(generated.len() as u64);
    generated.iter().for_each(|at| w.int(*at as u64));
    Some(w.out)
}

/// Gives a table what [`extension_of`] it was stored.
pub(super) fn read_extension(bytes: &[u8], def: &mut TableDef) -> SqlResult<()> {
    if bytes.is_empty() {
        return Ok(());
    }
    let mut r = Reader::new(bytes);
    let keys = r.list(read_key)?;
    let generated = r.list(Reader::int)?;
    r.end()?;
    let is_column = |id: &u32| def.columns.iter().any(|c| c.id == *id);
    let is_sound = |k: &ForeignKeyDef| !k.columns.is_empty() && k.columns.iter().all(is_column);
    if !keys.iter().all(is_sound) {
        return Err(damaged("catalog row: columns of a foreign key"));
    }
    def.foreign_keys = keys;
    for at in generated {
        let index = usize::try_from(at)
            .ok()
            .and_then(|at| def.indexes.get_mut(at));
        index
            .ok_or_else(|| damaged("catalog row: index of a foreign key"))?
            .generated = true;
    }
    Ok(())
}

fn read_key(r: &mut Reader<'_>) -> SqlResult<ForeignKeyDef> {
    let name = r.text()?.into();
    let pairs: Vec<(u32, Box<str>)> = r.list(|r| Ok((r.int32()?, r.text()?.into())))?;
    let (columns, parent_columns) = pairs.into_iter().unzip();
    Ok(ForeignKeyDef {
        name,
        columns,
        parent: (r.text()?.into(), r.text()?.into()),
        parent_columns,
        on_delete: ReferentialAction::read(r)?,
        on_update: ReferentialAction::read(r)?,
    })
}

/// A table with foreign keys to another one.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Referrer {
    /// Database.
    pub schema: Arc<str>,
    /// Name.
    pub table: Arc<str>,
}

/// The index that finds rows by a key of these columns, and whether the key tells them apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeyIndex {
    /// Position among the table's indexes.
    pub at: usize,
    /// It is a unique index of exactly these columns.
    pub is_whole_unique: bool,
}

fn begins_with(parts: &[IndexPart], columns: &[usize]) -> bool {
    let fits = |(part, col): (&IndexPart, &usize)| {
        part.col == *col && part.prefix_len.is_none() && !part.desc
    };
    parts.len() >= columns.len() && parts.iter().zip(columns).all(fits)
}

/// The index, of those given by whether they are unique and by their parts, that begins with these columns, as a
/// foreign key needs it on either side: one that is unique in them before others.
pub fn find_key_index<'i>(
    indexes: impl Iterator<Item = (bool, &'i [IndexPart])> + Clone,
    columns: &[usize],
) -> Option<KeyIndex> {
    let find = |wants_whole: bool| {
        let at = indexes.clone().position(|(is_unique, parts)| {
            let is_whole = is_unique && parts.len() == columns.len();
            begins_with(parts, columns) && (is_whole || !wants_whole)
        });
        at.map(|at| KeyIndex {
            at,
            is_whole_unique: wants_whole,
        })
    };
    find(true).or_else(|| find(false))
}

impl TableDef {
    /// The index of these columns: see [`find_key_index`].
    pub fn key_index(&self, columns: &[usize]) -> Option<KeyIndex> {
        let indexes = self.ordered().iter();
        find_key_index(indexes.map(|i| (i.unique, &*i.parts)), columns)
    }

    /// Its foreign keys in the order in which they are shown.
    pub fn sorted_foreign_keys(&self) -> Vec<&ForeignKeyDef> {
        let mut keys: Vec<_> = self.foreign_keys.iter().collect();
        keys.sort_by_key(|k| k.name.to_lowercase());
        keys
    }

    /// The foreign key of this name (case-insensitive).
    pub fn foreign_key(&self, name: &str) -> Option<usize> {
        self.foreign_keys
            .iter()
            .position(|k| same_name(&k.name, name))
    }
}

/// Tables whose `referenced_by` is not what the foreign keys of all tables say, put right.
pub(super) fn unrelated(snapshot: &Snapshot) -> Vec<TableDef> {
    let mut referrers: BTreeMap<(&str, &str), Vec<Referrer>> = BTreeMap::new();
    for child in snapshot.tables() {
        for key in &child.foreign_keys {
            let of_parent = referrers.entry((&key.parent.0, &key.parent.1)).or_default();
            let referrer = Referrer {
                schema: child.schema.clone(),
                table: child.name.clone(),
            };
            if of_parent.last() != Some(&referrer) {
                of_parent.push(referrer);
            }
        }
    }
    let mut changed = Vec::new();
    for table in snapshot.tables() {
        let now = referrers
            .remove(&(&*table.schema, &*table.name))
            .unwrap_or_default();
        if table.referenced_by != now {
            changed.push(TableDef {
                referenced_by: now,
                ..TableDef::clone(table)
            });
        }
    }
    changed
}
