//! What the files of the binary log say: the table that they make, and what is prepared at their end.
//!
//! Neighbours: `binlog` compares it with a scan of the table and with what it has committed.
//! **Invariant**: GTIDs are 1, 2, 3 and so on, and every transaction has its end.

use std::collections::BTreeMap;

use esker_binlog::event::EventType;
use esker_binlog::event::group::{GtidEvent, XaPrepare};
use esker_binlog::event::query::Query;
use esker_binlog::files::{Commits, Published, Scan};
use esker_vfs::sim::SimEnv;

use super::{Stop, Table, files_config};

/// What the files say.
#[derive(Default)]
pub(super) struct Decoded {
    pub table: Table,
    /// Numbers of the transactions in order.
    pub numbers: Vec<u64>,
    pub files: u64,
    /// What the branches that are prepared have done.
    pub prepared: BTreeMap<u64, Vec<Vec<u8>>>,
}

impl Decoded {
    pub fn read(sim: &SimEnv, published: &Published) -> Result<Self, Stop> {
        let names = files_config(Commits::default()).names;
        let mut decoded = Self::default();
        let mut open: Vec<Vec<u8>> = Vec::new();
        for file in published.view().files {
            decoded.files += 1;
            let fs = sim.env().fs;
            let scan = Scan::open(&*fs, &names.path(file.number), Some(file.size));
            let mut scan = scan?;
            while let Some((_, event)) = scan.next_event()? {
                match event.header.event_type() {
                    Some(kind @ EventType::Gtid) => {
                        let gtid = GtidEvent::parse(kind, event.body)?.gtid;
                        let gno = gtid.expect("GTIDs are on").gno;
                        assert_eq!(gno, decoded.numbers.len() as u64 + 1, "one by one");
                    }
                    Some(EventType::RowsQuery) => open.push(event.body.to_vec()),
                    Some(EventType::Xid) => {
                        let work = std::mem::take(&mut open);
                        decoded.apply(&work);
                    }
                    Some(EventType::XaPrepare) => {
                        let xid = XaPrepare::parse(event.body)?;
                        let branch = u64::from_le_bytes(xid.gtrid.try_into().expect("eight bytes"));
                        decoded.numbers.push(branch);
                        let before = decoded.prepared.insert(branch, std::mem::take(&mut open));
                        assert!(before.is_none(), "a branch is prepared once");
                    }
                    Some(EventType::Query) => {
                        let text = Query::parse(event.body)?.text;
                        decoded.decide(std::str::from_utf8(text).expect("UTF-8"));
                    }
                    _ => {}
                }
            }
        }
        assert!(open.is_empty(), "a transaction without its end");
        Ok(decoded)
    }

    /// `DECIDE number branch commits`; other statements frame what has rows.
    fn decide(&mut self, text: &str) {
        let words: Vec<_> = text.split(' ').collect();
        let ["DECIDE", number, branch, commits] = words[..] else {
            return;
        };
        let work = self.prepared.remove(&branch.parse().expect("a branch"));
        let work = work.expect("what is decided was prepared");
        self.numbers.push(number.parse().expect("a number"));
        if commits == "true" {
            self.change(&work[1..]);
        }
    }

    /// The first event has the number of the transaction, the others change a key each.
    fn apply(&mut self, work: &[Vec<u8>]) {
        let (number, changes) = work.split_first().expect("a number");
        let number = number.as_slice().try_into().expect("eight bytes");
        self.numbers.push(u64::from_le_bytes(number));
        self.change(changes);
    }

    fn change(&mut self, changes: &[Vec<u8>]) {
        for change in changes {
            match change[1] {
                0 => drop(self.table.remove(&change[0])),
                _ => drop(self.table.insert(change[0], change[2..].to_vec())),
            }
        }
    }
}
