//! How long keys and their parts may be, counted in bytes as MySQL counts them.
//!
//! Neighbours: `draft_finish` asks about each key part; `create`, `create_select` and `alter` let a draft's parts be
//! cut before it is finished. **Invariant**: no storage here depends on the row format; what InnoDB could not index
//! with it is refused or cut, so that a table can be made there, too.

use esker_sql_catalog::catalog::{ColumnDef, MAX_KEY_BYTES};
use esker_sql_plan::plan::fixed_bytes;
use esker_types::{Level, SqlError, SqlResult, SqlType, TypeKind};

use super::DdlCtx;
use super::columns::is_blob;
use super::draft::{Draft, DraftIndex};

/// Most bytes of one key part in rows that are REDUNDANT or COMPACT.
const MAX_PART_BYTES_OF_OLD_FORMATS: u64 = 767;

impl Draft {
    /// Cuts key parts that are too long for the row format where they may be cut, with a warning: those of an index
    /// that is not unique, if the mode is not strict. Indexes that the table has are left as they are for a format that
    /// it has (`is_new` is false).
    ///
    /// # Errors
    /// 1071.
    pub(super) fn cut_key_parts(
        &mut self,
        ctx: &DdlCtx<'_>,
        row_format: &str,
        is_new: bool,
    ) -> SqlResult<()> {
        let is_old = matches!(row_format, "REDUNDANT" | "COMPACT");
        let is_strict = ctx.eval.sql_mode.is_strict();
        for at in 0..self.indexes.len() {
            let index = &self.indexes[at];
            let limit = match is_old && (is_new || index.existing.is_none()) {
                true => MAX_PART_BYTES_OF_OLD_FORMATS,
                false => MAX_KEY_BYTES,
            };
            let cuts = self.long_parts(index, limit);
            if cuts.is_empty() {
                continue;
            }
            let too_long = too_long_key(limit);
            if is_strict || index.unique || index.primary {
                return Err(too_long);
            }
            let index = &mut self.indexes[at];
            // Its entries are others now.
            index.existing = None;
            for (part, characters) in cuts {
                index.parts[part].prefix_len = Some(characters);
                ctx.eval
                    .warn(Level::Warning, too_long.code, too_long.message.clone());
            }
        }
        Ok(())
    }

    /// The parts of an index that have more bytes, and how many characters there is room for.
    fn long_parts(&self, index: &DraftIndex, limit: u64) -> Vec<(usize, u64)> {
        if index.fulltext.is_some() || index.spatial {
            return Vec::new();
        }
        let mut long = Vec::new();
        for (at, part) in index.parts.iter().enumerate() {
            let Some(col) = self.part_position(part) else {
                continue;
            };
            let ty = &self.columns[col].def.ty;
            let length = part
                .prefix_len
                .map(|len| u32::try_from(len).unwrap_or(u32::MAX));
            if ty.is_string() && key_bytes(ty, length) > limit {
                long.push((at, limit / u64::from(ty.collation.charset().max_len())));
            }
        }
        long
    }
}

/// 1071.
pub(super) fn too_long_key(limit: u64) -> SqlError {
    let text = format!("Specified key was too long; max key length is {limit} bytes");
    SqlError::new(1071, "42000", text)
}

/// What stays of the prefix of a key part that was there before its column got this type: MySQL forgets one that the
/// column cannot have.
pub(super) fn kept_prefix(ty: &SqlType, prefix: Option<u64>) -> Option<u64> {
    prefix.filter(|&len| is_blob(ty) || ty.is_string() && len <= u64::from(ty.length))
}

/// The length of a key part as it is kept: none for a whole column.
pub(super) fn check_prefix(column: &ColumnDef, prefix: Option<u64>) -> SqlResult<Option<u32>> {
    let ty = &column.ty;
    if ty.kind == TypeKind::Json {
        return Err(esker_sql_plan::bind::json::used_as_key(&column.name));
    }
    if ty.is_string() && ty.length == 0 {
        let text = format!(
            "The used storage engine can't index column '{}'",
            column.name
        );
        return Err(SqlError::new(1167, "42000", text));
    }
    match prefix {
        None if is_blob(ty) => {
            let text = format!(
                "BLOB/TEXT column '{}' used in key specification without a key length",
                column.name
            );
            Err(SqlError::new(1170, "42000", text))
        }
        None => Ok(None),
        Some(0) => {
            let text = format!("Key part '{}' length cannot be 0", column.name);
            Err(SqlError::new(1391, "HY000", text))
        }
        // A number's length, written out, is all of it.
        Some(len) if fixed_bytes(ty).is_some_and(|bytes| len == u64::from(bytes)) => Ok(None),
        Some(len) if !ty.is_string() || (!is_blob(ty) && len > u64::from(ty.length)) => {
            Err(incorrect_prefix())
        }
        Some(len) if !is_blob(ty) && len == u64::from(ty.length) => Ok(None),
        Some(len) => Ok(Some(u32::try_from(len).unwrap_or(u32::MAX))),
    }
}

/// 1089.
pub(super) fn incorrect_prefix() -> SqlError {
    let text = "Incorrect prefix key; the used key part isn't a string, the used length is longer than the key part, \
                or the storage engine doesn't support unique prefix keys";
    SqlError::new(1089, "HY000", text)
}

/// Bytes a part counts towards the limit of a key.
pub(super) fn key_bytes(ty: &SqlType, prefix_len: Option<u32>) -> u64 {
    let width = u64::from(ty.collation.charset().max_len());
    match (&ty.kind, prefix_len) {
        (_, Some(len)) => u64::from(len) * width,
        (TypeKind::Char | TypeKind::VarChar, None) => u64::from(ty.length) * width,
        _ => 8,
    }
}
