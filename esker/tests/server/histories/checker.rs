//! What a history shows that its isolation level forbids.
//!
//! Neighbours: `history` is checked; `cycles` finds cycles.
//!
//! From the lists follows who came before whom: a number stands behind another (ww), was read (wr), or was not read yet
//! (rw). Each transaction has a moment of its commit, and each of its reads a moment at which it saw the database.
//! Which moments those are is what the levels differ in:
//!
//! | | READ COMMITTED | REPEATABLE READ | SERIALIZABLE |
//! |---|---|---|---|
//! | plain read | a moment of each statement | one moment of the transaction | the commit: it locks |
//! | locking read of a list that is there | the commit | the commit | the commit |
//! | locking read of one that is not | none: no gap is locked | the commit | the commit |
//! | read of a list the transaction has appended to | the commit | the commit | the commit |
//!
//! Locks are held to the commit, so what a locking read has not seen is committed later. If all this can be put on one
//! line of time, the level was kept; a cycle shows that it cannot. So as in MySQL
//! - G0, G1a, G1b, G1c are forbidden at all levels;
//! - at READ COMMITTED a later statement may see more than an earlier one, and G-single, G2-item and lost updates are
//!   allowed unless the row was read with a lock;
//! - at REPEATABLE READ a transaction may append to a list that has changed since it read it (lost update, G-single) or
//!   that is beside those it has read (write skew, G2-item), unless it read with a lock; what it only reads is of one
//!   moment;
//! - at SERIALIZABLE all of them are forbidden.

use std::collections::{HashMap, HashSet};

use super::cycles::{Graph, Why};
use super::history::{End, History, How, Key, Level, Number, Op, Txn};

/// What is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// A list is not the beginning of what it became.
    Disorder,
    /// A number of a committed transaction is gone.
    Lost,
    /// A transaction does not see what it has appended itself.
    Internal,
    /// Aborted read.
    G1a,
    /// Intermediate read.
    G1b,
    /// Dirty write.
    G0,
    /// Circular flow of information.
    G1c,
    /// Two transactions read the same list and both appended to it.
    LostUpdate,
    /// A cycle with one read that missed something.
    GSingle,
    /// A cycle with several such reads: write skew and its kin.
    G2Item,
}

/// An anomaly, and the transactions that show it.
#[derive(Clone, Debug)]
pub struct Anomaly {
    pub kind: Kind,
    pub txns: Vec<usize>,
    pub text: String,
}

/// Everything the level forbids.
pub fn check(history: &History, level: Level) -> Vec<Anomaly> {
    let mut checker = Checker::new(history, level);
    checker.check_lists();
    checker.check_reads();
    checker.check_cycles();
    checker.found
}

/// The first of what was found, with what the transactions did.
pub fn report(history: &History, found: &[Anomaly]) -> String {
    const SHOWN: usize = 5;
    let mut text = String::new();
    for anomaly in found.iter().take(SHOWN) {
        text += &format!("{:?}: {}\n", anomaly.kind, anomaly.text);
        for txn in &anomaly.txns {
            let Txn { session, ops, end } = &history.txns[*txn];
            text += &format!("  T{txn} (session {session}) {end:?}: {ops:?}\n");
        }
    }
    text
}

struct Checker<'h> {
    history: &'h History,
    level: Level,
    /// Who appended a number, and whether nothing follows it in the same transaction.
    writers: HashMap<(Key, Number), (usize, bool)>,
    /// Transactions that count: committed, or seen without an answer.
    counts: Vec<bool>,
    found: Vec<Anomaly>,
}

impl<'h> Checker<'h> {
    fn new(history: &'h History, level: Level) -> Self {
        let mut writers = HashMap::new();
        for (number, txn) in history.txns.iter().enumerate() {
            let mut last: HashMap<Key, Number> = HashMap::new();
            for op in &txn.ops {
                if let Op::Append(key, value) = op {
                    if let Some(before) = last.insert(*key, *value) {
                        writers.insert((*key, before), (number, false));
                    }
                    let twice = writers.insert((*key, *value), (number, true));
                    assert_eq!(twice, None, "{value} is appended twice to {key}");
                }
            }
        }
        let seen: HashSet<usize> = history
            .last
            .iter()
            .flat_map(|(key, list)| list.iter().map(|value| (*key, *value)))
            .filter_map(|place| writers.get(&place).map(|(txn, _)| *txn))
            .collect();
        let txns = history.txns.iter().enumerate();
        let counts = txns.map(|(number, txn)| match txn.end {
            End::Committed => true,
            End::RolledBack => false,
            End::Unknown => seen.contains(&number),
        });
        Checker {
            history,
            level,
            counts: counts.collect(),
            writers,
            found: Vec::new(),
        }
    }

    fn find(&mut self, kind: Kind, txns: impl Into<Vec<usize>>, text: String) {
        let txns = txns.into();
        self.found.push(Anomaly { kind, txns, text });
    }

    /// The lists as they are in the end: nothing of who rolled back, all of who committed, once.
    fn check_lists(&mut self) {
        let history = self.history;
        let mut present = HashSet::new();
        for (key, list) in &history.last {
            for value in list {
                if !present.insert((*key, *value)) {
                    self.find(
                        Kind::Disorder,
                        [],
                        format!("{value} is twice in list {key}"),
                    );
                }
                match self.writers.get(&(*key, *value)) {
                    Some((txn, _)) if self.counts[*txn] => {}
                    Some((txn, _)) => {
                        let text = format!("list {key} ends with {value}, which was rolled back");
                        self.find(Kind::G1a, [*txn], text);
                    }
                    None => {
                        let text = format!("nobody appended {value} to list {key}");
                        self.find(Kind::Disorder, [], text);
                    }
                }
            }
        }
        let gone: Vec<_> = self
            .writers
            .iter()
            .filter(|(place, (txn, _))| self.counts[*txn] && !present.contains(*place))
            .map(|((key, value), (txn, _))| (*key, *value, *txn))
            .collect();
        for (key, value, txn) in gone {
            self.find(Kind::Lost, [txn], format!("{value} of list {key} is gone"));
        }
    }

    /// What can be said of a read alone.
    fn check_reads(&mut self) {
        let history = self.history;
        for (number, txn) in history.txns.iter().enumerate() {
            let mut own: HashMap<Key, Vec<Number>> = HashMap::new();
            for op in &txn.ops {
                match op {
                    Op::Append(key, value) => own.entry(*key).or_default().push(*value),
                    Op::Read(_, lists) => {
                        for (key, list) in lists {
                            let own = own.get(key).map_or(&[][..], Vec::as_slice);
                            self.check_read(number, *key, list, own);
                        }
                    }
                }
            }
        }
    }

    fn check_read(&mut self, reader: usize, key: Key, list: &[Number], own: &[Number]) {
        let Some(others) = list.strip_suffix(own) else {
            let text = format!("list {key} is read as {list:?} after {own:?} was appended");
            return self.find(Kind::Internal, [reader], text);
        };
        for value in others {
            match self.writers.get(&(key, *value)) {
                Some((writer, _)) if *writer == reader => {
                    let text = format!("{value} is read in list {key} before it is appended");
                    self.find(Kind::Internal, [reader], text);
                }
                Some((writer, _)) if !self.counts[*writer] => {
                    let text = format!("{value} of list {key} was rolled back");
                    self.find(Kind::G1a, [*writer, reader], text);
                }
                Some(_) => {}
                None => {
                    let text = format!("nobody appended {value}, read in list {key}");
                    self.find(Kind::Disorder, [reader], text);
                }
            }
        }
        if let Some(value) = others.last()
            && let Some((writer, false)) = self.writers.get(&(key, *value))
            && *writer != reader
        {
            let text = format!("{value} of list {key} is not the last its transaction appended");
            self.find(Kind::G1b, [*writer, reader], text);
        }
        let last = self.history.last.get(&key).map_or(&[][..], Vec::as_slice);
        // One's own numbers may never have been committed.
        let is_prefix =
            last.starts_with(others) && (!self.counts[reader] || last.starts_with(list));
        let is_known = others.iter().all(|value| {
            let writer = self.writers.get(&(key, *value));
            writer.is_some_and(|(writer, _)| self.counts[*writer])
        });
        if is_known && !is_prefix {
            let text = format!("list {key} is read as {list:?} and becomes {last:?}");
            self.find(Kind::Disorder, [reader], text);
        }
    }

    /// What all reads and appends say together.
    fn check_cycles(&mut self) {
        let mut moments = Moments::of(self);
        moments.order_lists(self);
        moments.order_reads(self);
        for cycle in moments.graph.cycles() {
            let mut txns: Vec<usize> = Vec::new();
            for (vertex, _) in &cycle {
                let txn = moments.txn_of[*vertex];
                if txns.last() != Some(&txn) {
                    txns.push(txn);
                }
            }
            if txns.len() > 1 && txns.first() == txns.last() {
                txns.pop();
            }
            let steps = cycle.iter().map(|(vertex, why)| {
                let txn = moments.txn_of[*vertex];
                format!("T{txn} {why:?}")
            });
            let text = steps.collect::<Vec<_>>().join(" → ");
            self.find(classify(&cycle), txns, text);
        }
    }
}

/// The name of a cycle.
fn classify(cycle: &[(usize, Why)]) -> Kind {
    let missed = cycle.iter().filter_map(|(_, why)| match why {
        Why::ReadWrite(key) => Some(*key),
        _ => None,
    });
    let missed: Vec<u32> = missed.collect();
    let reads = cycle
        .iter()
        .any(|(_, why)| matches!(why, Why::WriteRead(_)));
    match missed[..] {
        [] if !reads => Kind::G0,
        [] => Kind::G1c,
        [key] => {
            let overwrites = cycle.iter().any(|(_, why)| *why == Why::WriteWrite(key));
            match overwrites && !reads {
                true => Kind::LostUpdate,
                false => Kind::GSingle,
            }
        }
        _ => Kind::G2Item,
    }
}

/// Moments that must be put on one line of time.
struct Moments {
    graph: Graph,
    /// Whose they are.
    txn_of: Vec<usize>,
    /// By transaction; none of those that do not count.
    commits: Vec<Option<usize>>,
}

impl Moments {
    fn of(checker: &Checker<'_>) -> Moments {
        let mut moments = Moments {
            graph: Graph::default(),
            txn_of: Vec::new(),
            commits: Vec::new(),
        };
        for (number, counts) in checker.counts.iter().enumerate() {
            let commit = counts.then(|| moments.add(number));
            moments.commits.push(commit);
        }
        moments
    }

    fn add(&mut self, txn: usize) -> usize {
        self.txn_of.push(txn);
        self.graph.add_vertex()
    }

    /// Appends to a list are in the order of their commits.
    fn order_lists(&mut self, checker: &Checker<'_>) {
        for (key, list) in &checker.history.last {
            for pair in list.windows(2) {
                let commit = |value: Number| {
                    let (txn, _) = checker.writers.get(&(*key, value))?;
                    self.commits[*txn]
                };
                if let (Some(first), Some(second)) = (commit(pair[0]), commit(pair[1])) {
                    self.graph.add_edge(first, second, Why::WriteWrite(*key));
                }
            }
        }
    }

    /// The moments of reads, and those of the sessions one after the other.
    fn order_reads(&mut self, checker: &Checker<'_>) {
        let mut last_commit: HashMap<u64, usize> = HashMap::new();
        for (number, txn) in checker.history.txns.iter().enumerate() {
            let before = last_commit.get(&txn.session).copied();
            let commit = self.commits[number];
            if let (Some(before), Some(commit)) = (before, commit) {
                self.graph.add_edge(before, commit, Why::Order);
            }
            let mut walk = Walk {
                number,
                commit,
                before,
                snapshot: None,
                own: HashSet::new(),
            };
            for op in &txn.ops {
                match op {
                    Op::Append(key, _) => {
                        walk.own.insert(*key);
                    }
                    Op::Read(how, lists) => self.order_read(checker, &mut walk, *how, lists),
                }
            }
            if let Some(commit) = commit {
                last_commit.insert(txn.session, commit);
            }
        }
    }

    fn order_read(
        &mut self,
        checker: &Checker<'_>,
        walk: &mut Walk,
        how: How,
        lists: &[(Key, Vec<Number>)],
    ) {
        if checker.level == Level::ReadCommitted {
            // The next statement sees the database of another moment, a later one.
            walk.before = walk.snapshot.take().or(walk.before);
        }
        for (key, list) in lists {
            let locks = how == How::Locking
                || checker.level == Level::Serializable
                || walk.own.contains(key);
            let is_gap = list.is_empty() && !walk.own.contains(key);
            if locks && is_gap && checker.level == Level::ReadCommitted {
                continue;
            }
            let moment = match (locks, walk.commit) {
                (true, Some(commit)) => commit,
                // Whoever rolled back held his locks as well, but nobody knows until when.
                (true, None) => continue,
                (false, _) => self.snapshot(walk),
            };
            self.place_read(checker, walk.number, moment, (*key, list));
        }
    }

    /// The moment of the statement, or of all plain reads.
    fn snapshot(&mut self, walk: &mut Walk) -> usize {
        if let Some(snapshot) = walk.snapshot {
            return snapshot;
        }
        let snapshot = self.add(walk.number);
        if let Some(before) = walk.before {
            self.graph.add_edge(before, snapshot, Why::Order);
        }
        if let Some(commit) = walk.commit {
            self.graph.add_edge(snapshot, commit, Why::Order);
        }
        *walk.snapshot.insert(snapshot)
    }

    /// What was read was committed before the moment, and what follows it was not.
    fn place_read(
        &mut self,
        checker: &Checker<'_>,
        reader: usize,
        moment: usize,
        (key, list): (Key, &[Number]),
    ) {
        let commit_of = |value: Number| {
            let (txn, _) = checker.writers.get(&(key, value))?;
            self.commits[*txn].filter(|_| *txn != reader)
        };
        let seen = list.iter().rev().find_map(|value| commit_of(*value));
        let all = checker
            .history
            .last
            .get(&key)
            .map_or(&[][..], Vec::as_slice);
        let missed = all.get(list.len()..).unwrap_or_default();
        let missed = missed.iter().find_map(|value| commit_of(*value));
        if let Some(seen) = seen {
            self.graph.add_edge(seen, moment, Why::WriteRead(key));
        }
        if let Some(missed) = missed {
            self.graph.add_edge(moment, missed, Why::ReadWrite(key));
        }
    }
}

/// The way through the statements of a transaction.
struct Walk {
    number: usize,
    commit: Option<usize>,
    /// What comes before its next moment.
    before: Option<usize>,
    snapshot: Option<usize>,
    /// Lists it has appended to.
    own: HashSet<Key>,
}
