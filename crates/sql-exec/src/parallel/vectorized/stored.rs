//! What the stored rows of a task are: rows of the table, or entries of an index that have all columns that are needed.
//!
//! Neighbours: `codec` knows both; `compile` asks for places of columns, `nodes` and `fold` for fields.
//! **Invariant**: a place is asked only about entries that are whole, so of those that a batch takes.

use esker_sql_catalog::catalog::TableDef;
use esker_sql_catalog::codec::{EntryPlace, EntryShape, FieldPlaces, Phys, Raw, RowReader};
use esker_types::{Value, ValueRef};
use jiff::tz::TimeZone;

use super::columns::Unusual;

/// What is stored.
#[derive(Debug)]
pub(super) enum Form {
    Rows,
    Entries(EntryShape),
}

/// Where it has a column.
#[derive(Debug)]
pub(super) enum Places {
    Row(FieldPlaces),
    Entry(EntryPlace),
}

impl Form {
    /// What the index of this number stores, which has all columns that are needed.
    pub(super) fn of(def: &TableDef, index: usize) -> Self {
        match index {
            0 => Self::Rows,
            _ => Self::Entries(EntryShape::of(def, &def.indexes[index])),
        }
    }

    /// A stored row, as one piece.
    #[inline]
    pub(super) fn piece<'s>(
        &self,
        (key, value): (&'s [u8], &'s [u8]),
        room: &'s mut Vec<u8>,
    ) -> &'s [u8] {
        match self {
            Self::Rows => value,
            Self::Entries(_) if value.is_empty() => key,
            Self::Entries(_) => {
                room.clear();
                room.extend_from_slice(key);
                room.extend_from_slice(value);
                room
            }
        }
    }

    /// Can it be read? Of rows that is found out field by field.
    #[inline]
    pub(super) fn is_parallel_safe(&self, piece: &[u8]) -> bool {
        match self {
            Self::Rows => true,
            Self::Entries(shape) => shape.fits(piece),
        }
    }

    /// Where it has a column. `None`: it has it in several ways.
    pub(super) fn places(&self, def: &TableDef, index: usize, col: usize) -> Option<Places> {
        Some(match self {
            Self::Rows => Places::Row(def.layout.field_places(col)?),
            Self::Entries(shape) => Places::Entry(shape.place(def, &def.indexes[index], col)?),
        })
    }
}

impl Places {
    pub(super) fn phys(&self) -> Phys {
        match self {
            Self::Row(places) => places.phys,
            Self::Entry(place) => place.phys(),
        }
    }

    /// What older rows have; nothing is missing from an entry.
    pub(super) fn missing<'d>(&self, def: &'d TableDef, col: usize) -> Option<&'d Value> {
        match self {
            Self::Row(_) => Some(def.layout.missing(col)),
            Self::Entry(_) => None,
        }
    }

    /// The field of a piece, which is unusual if it is damaged.
    #[inline]
    pub(super) fn find<'s>(&self, piece: &'s [u8]) -> Result<Raw<'s>, Unusual> {
        match self {
            Self::Row(places) => places.find(piece).ok_or(Unusual),
            Self::Entry(place) => Ok(place.find(piece)),
        }
    }

    /// The value of a column.
    pub(super) fn value<'s>(
        &self,
        (def, index, col): (&'s TableDef, usize, usize),
        piece: &'s [u8],
        zone: &'s TimeZone,
    ) -> Result<ValueRef<'s>, Unusual> {
        match self {
            Self::Row(_) => {
                let reader = RowReader::new(&def.layout, zone, piece).map_err(|_| Unusual)?;
                Ok(reader.field(col))
            }
            Self::Entry(place) => {
                let found = place.value(def, &def.indexes[index], piece, zone);
                found.ok_or(Unusual)
            }
        }
    }
}
