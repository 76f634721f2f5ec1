//! Tables as the binary log sees them, kept for the statements of a session.
//!
//! Neighbours: `capture` writes rows with them; `catalog` has the definitions.
//! **Invariants**: what is kept is found by id and version of the definition, so it is never that of another one.

use std::sync::Arc;

use esker_binlog::event::rows::Bitmap;
use esker_binlog::event::table_map::{self, Detail};
use esker_binlog::image::{Form, Shape, ShapeColumn};
use esker_sql_catalog::catalog::{TableDef, TableId};
use esker_sql_catalog::codec::{RowReader, UTC};
use esker_sql_catalog::variables::RowImage;
use esker_types::SqlResult;

/// Tables that a session keeps; more than one statement can change.
const MAX_KNOWN: usize = 64;
/// Bits of a table's number that its id takes; the version of the definition is above.
const ID_BITS: u32 = 32;
const VERSION_BITS: u64 = 0xffff;

/// A table with everything that its events need.
pub(crate) struct Logged {
    id: TableId,
    version: u64,
    detail: Detail,
    shape: Shape,
    /// Ordinals of the shape's columns in the table: functional key parts are in no image.
    places: Vec<usize>,
    map: Vec<u8>,
    all: Arc<Bitmap>,
    key: Arc<Bitmap>,
    without_blobs: Arc<Bitmap>,
    /// Columns whose documents may have edits.
    editable: Bitmap,
    has_key: bool,
}

impl Logged {
    fn new(table: &TableDef, detail: Detail) -> Self {
        let visible = table.columns.iter().enumerate();
        let visible = visible.filter(|(_, column)| !column.is_hidden());
        let (places, columns): (Vec<usize>, Vec<_>) = visible.unzip();
        let place = |col: usize| places.iter().position(|p| *p == col).unwrap_or(0);
        let column = |c: &esker_sql_catalog::catalog::ColumnDef| {
            ShapeColumn::new(Arc::clone(&c.name), c.ty.clone(), c.invisible)
        };
        let parts = match table.has_primary_key() {
            true => &table.primary().parts[..],
            false => &[],
        };
        let shape = Shape {
            table_id: u64::from(table.id.0) | (table.version & VERSION_BITS) << ID_BITS,
            schema: Arc::clone(&table.schema),
            table: Arc::clone(&table.name),
            columns: columns.iter().copied().map(column).collect(),
            is_related: is_related(table),
            has_generated_key: table.has_generated_key(),
            primary_key: parts
                .iter()
                .map(|p| (place(p.col), p.prefix_len.unwrap_or(0)))
                .collect(),
        };
        let mut map = Vec::new();
        table_map::write(&shape, detail, &mut map);
        let in_key = |nth: usize| parts.iter().any(|p| p.col == places[nth]);
        // Documents are none, although they are as large.
        let is_blob = |c: &ShapeColumn| matches!(c.form, Form::Blob { .. });
        let key = (0..columns.len()).map(|col| parts.is_empty() || in_key(col));
        let shown = shape.columns.iter().enumerate();
        let without_blobs = shown.map(|(col, c)| !is_blob(c) || in_key(col));
        // A replica of MySQL has wrong documents where generated columns come as edits; its own logs have them whole.
        let editable = columns.iter().map(|column| column.generated.is_none());
        Self {
            id: table.id,
            version: table.version,
            detail,
            map,
            all: Arc::new(Bitmap::all(columns.len())),
            key: Arc::new(Bitmap::from_bits(key)),
            without_blobs: Arc::new(Bitmap::from_bits(without_blobs)),
            editable: Bitmap::from_bits(editable),
            // Rows of other tables may depend on rows with foreign keys, which no key of theirs says.
            has_key: !parts.is_empty() && table.foreign_keys.is_empty(),
            places,
            shape,
        }
    }

    pub(crate) fn shape(&self) -> &Shape {
        &self.shape
    }

    /// Ordinal in the table of a column of the shape.
    pub(crate) fn place(&self, nth: usize) -> usize {
        self.places[nth]
    }

    /// The body of its TABLE_MAP.
    pub(crate) fn map(&self) -> &[u8] {
        &self.map
    }

    /// Does a key tell its rows apart?
    pub(crate) fn has_key(&self) -> bool {
        self.has_key
    }

    /// The columns whose documents may have edits: those that are not generated.
    pub(crate) fn editable(&self) -> &Bitmap {
        &self.editable
    }

    /// All columns.
    pub(crate) fn all(&self) -> &Arc<Bitmap> {
        &self.all
    }

    /// The columns of an image of what a row was.
    pub(crate) fn before(&self, image: RowImage) -> &Arc<Bitmap> {
        match image {
            RowImage::Full => &self.all,
            RowImage::NoBlob => &self.without_blobs,
            RowImage::Minimal => &self.key,
        }
    }

    /// The columns of an image of a new row that is not whole.
    pub(crate) fn inserted(&self, image: RowImage, is_left: &dyn Fn(usize) -> bool) -> Bitmap {
        let may_go = |nth: usize| image == RowImage::Minimal || !self.without_blobs.has(nth);
        let places = self.places.iter().enumerate();
        Bitmap::from_bits(places.map(|(nth, col)| !(may_go(nth) && is_left(*col))))
    }

    /// The columns of an image of what a row has become.
    pub(crate) fn changed(
        &self,
        image: RowImage,
        table: &TableDef,
        old: &[u8],
        new: &[u8],
    ) -> SqlResult<Bitmap> {
        let old = RowReader::new(&table.layout, &UTC, old)?;
        let new = RowReader::new(&table.layout, &UTC, new)?;
        let mut bytes = (Vec::new(), Vec::new());
        let mut is_wanted = |nth: usize| {
            if image == RowImage::NoBlob && self.without_blobs.has(nth) {
                return true;
            }
            let col = self.places[nth];
            if old.is_null(col) || new.is_null(col) {
                return old.is_null(col) != new.is_null(col);
            }
            let column = &self.shape.columns[nth];
            bytes.0.clear();
            bytes.1.clear();
            let fits = column.write(old.field(col), &mut bytes.0).is_ok()
                && column.write(new.field(col), &mut bytes.1).is_ok();
            !fits || bytes.0 != bytes.1
        };
        let bits: Vec<bool> = (0..self.places.len()).map(&mut is_wanted).collect();
        Ok(Bitmap::from_bits(bits.into_iter()))
    }
}

fn is_related(table: &TableDef) -> bool {
    !table.foreign_keys.is_empty() || !table.referenced_by.is_empty()
}

/// The tables that a session has changed lately.
pub(crate) struct KnownTables {
    detail: Detail,
    tables: Vec<Logged>,
    /// Which one goes next.
    oldest: usize,
}

impl Default for KnownTables {
    fn default() -> Self {
        Self {
            detail: Detail::Minimal,
            tables: Vec::new(),
            oldest: 0,
        }
    }
}

impl KnownTables {
    /// What maps are to say from now on. Not within a statement.
    pub(crate) fn set_detail(&mut self, detail: Detail) {
        if self.detail != detail {
            self.detail = detail;
            self.tables.clear();
            self.oldest = 0;
        }
    }

    /// The place of a table. It holds until as many others have been looked for as are kept.
    pub(crate) fn find(&mut self, table: &TableDef) -> usize {
        // A child that comes or goes leaves its parent's version as it is.
        let is_it = |known: &Logged| {
            (known.id, known.version) == (table.id, table.version)
                && known.shape.is_related == is_related(table)
        };
        if let Some(at) = self.tables.iter().position(is_it) {
            return at;
        }
        let logged = Logged::new(table, self.detail);
        debug_assert_eq!(logged.detail, self.detail);
        if self.tables.len() < MAX_KNOWN {
            self.tables.push(logged);
            return self.tables.len() - 1;
        }
        let at = self.oldest;
        self.oldest = (at + 1) % MAX_KNOWN;
        self.tables[at] = logged;
        at
    }

    pub(crate) fn get(&self, at: usize) -> &Logged {
        &self.tables[at]
    }
}
