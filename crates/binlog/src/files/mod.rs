//! Files of the binary log: a folder with an index, as MySQL's tools expect it, and a position of our own.
//!
//! In flow order: `names`, `home` (where they are, over changes of names), `index`, `begins` (where in the log they
//! begin), `position` (how far the log is in the files), `start` (what a start finds), `repair` (what of damage the log
//! still has), `set` (the writer's side), `head` (what files begin with), `copy` (of what large transactions have in
//! spool files), `group` → `grouped` (where the files decide about transactions), `places` (where transactions end),
//! `view` (the readers' side), `scan` (reading a file). Neighbours: `derive` makes the events. **Invariants**: after a
//! crash at any moment the files can be brought to what they would have been, from the log above the last position.

mod begins;
mod copy;
mod group;
#[cfg(test)]
mod group_tests;
mod grouped;
mod head;
mod home;
pub(crate) mod index;
mod names;
mod places;
mod position;
mod repair;
mod scan;
mod set;
mod start;
#[cfg(test)]
mod tests;
mod view;

pub use begins::Begins;
pub use group::{Commits, Group, SyncPoint};
pub use grouped::GroupedFiles;
pub use home::Home;
pub use names::{FileNumber, Names};
pub use places::Place;
pub use repair::Damage;
pub use scan::{FIRST_EVENT, MAGIC, Scan, Summary, previous_gtids, summarise};
pub use set::{Config, FileSet};
pub use start::{left_executed, left_open};
pub use view::{Covered, FileInfo, Newer, Published, Reached, Reading, View};
