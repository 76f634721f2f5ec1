//! Column definitions as they were sent, for the next result of the same plan.
//!
//! Neighbours: `reply` sends them. The results of a plan share one list of columns, so a list is known by its address.
//!
//! **Invariants**
//! - What is kept is what [`Column::write`] makes of the columns for this collation. The list is kept with it, so its
//!   address belongs to no other.
//! - A connection keeps at most [`KEPT`] headers of at most [`KEPT_BYTES`], and only of lists that came twice.

use std::sync::Arc;

use esker_sql::ColumnMeta;
use esker_types::collation::Collation;
use esker_wire::codec::put_lenenc;
use esker_wire::frame::FrameWriter;
use esker_wire::response::Column;

/// Most headers that a connection keeps.
const KEPT: usize = 8;
/// The longest that is kept.
const KEPT_BYTES: usize = 4096;

/// What a result set begins with: the number of its columns, and a definition of each.
struct Header {
    columns: Arc<[ColumnMeta]>,
    /// See [`Column::write`].
    results: Option<Collation>,
    /// Payloads one behind the other, and where each ends.
    payloads: Vec<u8>,
    ends: Vec<usize>,
}

impl Header {
    fn of(columns: &Arc<[ColumnMeta]>, results: Option<Collation>) -> Self {
        let (mut payloads, mut ends) = (Vec::new(), Vec::new());
        put_lenenc(&mut payloads, columns.len() as u64);
        ends.push(payloads.len());
        for meta in columns.iter() {
            definition(meta).write(results, &mut payloads);
            ends.push(payloads.len());
        }
        Self {
            columns: columns.clone(),
            results,
            payloads,
            ends,
        }
    }

    fn is_of(&self, columns: &Arc<[ColumnMeta]>, results: Option<Collation>) -> bool {
        Arc::ptr_eq(&self.columns, columns) && self.results == results
    }

    fn put(&self, frames: &mut FrameWriter) {
        let mut from = 0;
        for &end in &self.ends {
            frames.begin().extend_from_slice(&self.payloads[from..end]);
            frames.end();
            from = end;
        }
    }
}

/// The headers of a connection's last results.
#[derive(Default)]
pub(crate) struct Headers {
    kept: Vec<Header>,
    /// Whose turn it is to go.
    oldest: usize,
    /// Addresses of the last lists that were not kept: what comes once only is not worth it.
    seen: [usize; KEPT],
    next_seen: usize,
}

impl Headers {
    /// Appends the header of a result.
    pub(crate) fn put(
        &mut self,
        columns: &Arc<[ColumnMeta]>,
        results: Option<Collation>,
        frames: &mut FrameWriter,
    ) {
        if let Some(known) = self.kept.iter().find(|h| h.is_of(columns, results)) {
            return known.put(frames);
        }
        let header = Header::of(columns, results);
        header.put(frames);
        if header.payloads.len() <= KEPT_BYTES && self.has_come(columns) {
            self.keep(header);
        }
    }

    /// Has the list come before? If not, it has now.
    fn has_come(&mut self, columns: &Arc<[ColumnMeta]>) -> bool {
        let address = columns.as_ptr().addr();
        let has_come = self.seen.contains(&address);
        if !has_come {
            self.seen[self.next_seen] = address;
            self.next_seen = (self.next_seen + 1) % KEPT;
        }
        has_come
    }

    fn keep(&mut self, header: Header) {
        if self.kept.len() < KEPT {
            self.kept.push(header);
            return;
        }
        self.kept[self.oldest] = header;
        self.oldest = (self.oldest + 1) % KEPT;
    }
}

/// A column as the client hears of it.
pub(crate) fn definition(meta: &ColumnMeta) -> Column<'_> {
    Column {
        schema: &meta.schema,
        table: &meta.table,
        org_table: &meta.org_table,
        name: &meta.name,
        org_name: &meta.org_name,
        ty: &meta.ty,
        flags: meta.flags,
    }
}

#[cfg(test)]
mod tests {
    use esker_types::SqlType;

    use super::*;

    fn columns(name: &str) -> Arc<[ColumnMeta]> {
        let mut column = ColumnMeta::computed(name, SqlType::bigint(false));
        column.table = "t".into();
        [column.clone(), column].into()
    }

    fn sent(headers: &mut Headers, columns: &Arc<[ColumnMeta]>, results: Collation) -> Vec<u8> {
        let mut frames = FrameWriter::default();
        headers.put(columns, Some(results), &mut frames);
        frames.bytes().to_vec()
    }

    /// Whatever is kept: the bytes are those of a connection that keeps nothing.
    #[test]
    fn what_is_kept_is_what_would_be_written() {
        let lists: Vec<_> = (0..20).map(|n| columns(&format!("é{n}"))).collect();
        let collations = [Collation::UTF8MB4_GENERAL_CI, Collation::LATIN1_SWEDISH_CI];
        let mut headers = Headers::default();
        for round in 0..5 {
            for (nth, list) in lists.iter().enumerate().take(4 + 4 * round) {
                for collation in collations {
                    let fresh = sent(&mut Headers::default(), list, collation);
                    let got = sent(&mut headers, list, collation);
                    assert_eq!(got, fresh, "list {nth} in round {round}");
                }
            }
            assert!(headers.kept.len() <= KEPT);
        }
        assert_eq!(headers.kept.len(), KEPT);
    }

    #[test]
    fn a_list_is_kept_when_it_comes_again_unless_it_is_long() {
        let mut headers = Headers::default();
        let once = columns("a");
        sent(&mut headers, &once, Collation::UTF8MB4_GENERAL_CI);
        assert!(headers.kept.is_empty());
        sent(&mut headers, &once, Collation::UTF8MB4_GENERAL_CI);
        assert_eq!(headers.kept.len(), 1);
        let long = columns(&"a".repeat(KEPT_BYTES));
        for _ in 0..3 {
            sent(&mut headers, &long, Collation::UTF8MB4_GENERAL_CI);
        }
        assert_eq!(headers.kept.len(), 1);
    }
}
