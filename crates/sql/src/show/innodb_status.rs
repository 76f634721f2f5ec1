//! SHOW ENGINE INNODB STATUS: the sections that tools parse, in InnoDB's words, with Esker's figures.
//!
//! Neighbours: `innodb` has the figures as status variables, `infoschema` the locks of every transaction.
//! **Invariants**: every section and line that is here has InnoDB's form; what Esker has no counterpart of (semaphores,
//! change buffer, adaptive hash index) is 0. Averages per second are those since the start of the server.

use std::collections::HashMap;
use std::fmt::Write as _;

use super::innodb;
use crate::infoschema;
use crate::instance::Instance;

/// Writing to a String cannot fail.
macro_rules! put {
    ($out:expr, $($line:tt)*) => {{
        let _ = writeln!($out, $($line)*);
    }};
}

/// The figures of one look.
struct Figures {
    values: HashMap<&'static str, String>,
    seconds: u64,
}

impl Figures {
    fn of(instance: &Instance) -> Self {
        Self {
            values: innodb::values(instance).into_iter().collect(),
            seconds: instance.uptime_secs().max(1),
        }
    }

    fn number(&self, name: &str) -> u64 {
        let value = self.values.get(name).and_then(|text| text.parse().ok());
        debug_assert!(value.is_some(), "{name} is a status variable with a number");
        value.unwrap_or(0)
    }

    /// A figure a second since the start.
    fn rate(&self, number: u64) -> f64 {
        number as f64 / self.seconds as f64
    }
}

fn heading(out: &mut String, title: &str) {
    let line = "-".repeat(title.len());
    put!(out, "{line}\n{title}\n{line}");
}

/// The text of SHOW ENGINE INNODB STATUS.
pub(super) fn text(instance: &Instance) -> String {
    let figures = Figures::of(instance);
    let mut out = String::new();
    let line = "=".repeat(37);
    let now = infoschema::shown_time(instance.now_micros());
    put!(
        out,
        "\n{line}\n{now} {} INNODB MONITOR OUTPUT\n{line}",
        std::process::id()
    );
    put!(
        out,
        "Per second averages calculated from the last {} seconds",
        figures.seconds
    );
    background(&mut out, instance);
    semaphores(&mut out, instance);
    if let Some(deadlock) = infoschema::latest_deadlock(instance) {
        heading(&mut out, "LATEST DETECTED DEADLOCK");
        out.push_str(&deadlock);
    }
    transactions(&mut out, instance);
    files(&mut out, &figures);
    change_buffer(&mut out);
    log(&mut out, &figures, instance);
    buffer_pool(&mut out, &figures, instance);
    rows(&mut out, &figures, instance);
    put!(
        out,
        "----------------------------\nEND OF INNODB MONITOR OUTPUT\n============================"
    );
    out
}

fn background(out: &mut String, instance: &Instance) {
    let work = instance.engine().stats().storage.work;
    heading(out, "BACKGROUND THREAD");
    let active = work.flushes + work.compactions;
    put!(
        out,
        "srv_master_thread loops: {active} srv_active, 0 srv_shutdown, 0 srv_idle"
    );
    put!(
        out,
        "srv_master_thread log flush and writes: {}",
        instance.engine().stats().log.flushes
    );
}

fn semaphores(out: &mut String, instance: &Instance) {
    let stalls = instance.engine().stats().writer_stalls();
    heading(out, "SEMAPHORES");
    put!(
        out,
        "OS WAIT ARRAY INFO: reservation count {stalls}\nOS WAIT ARRAY INFO: signal count {stalls}"
    );
    for kind in ["shared", "excl", "sx"] {
        put!(out, "RW-{kind} spins 0, rounds 0, OS waits 0");
    }
    put!(
        out,
        "Spin rounds per wait: 0.00 RW-shared, 0.00 RW-excl, 0.00 RW-sx"
    );
}

fn transactions(out: &mut String, instance: &Instance) {
    heading(out, "TRANSACTIONS");
    let next = instance.engine().visible_seq();
    put!(out, "Trx id counter {next}");
    put!(
        out,
        "Purge done for trx's n:o < {next} undo n:o < 0 state: running but idle"
    );
    put!(
        out,
        "History list length 0\nLIST OF TRANSACTIONS FOR EACH SESSION:"
    );
    out.push_str(&infoschema::transactions_text(instance));
}

fn files(out: &mut String, figures: &Figures) {
    heading(out, "FILE I/O");
    let reads = figures.number("Innodb_buffer_pool_reads");
    let syncs = figures.number("Innodb_data_fsyncs");
    let writes = figures.number("Innodb_log_writes");
    put!(
        out,
        "I/O thread 0 state: waiting for completed aio requests (insert buffer thread)"
    );
    put!(
        out,
        "Pending normal aio reads: [0] , aio writes: [0] ,\n ibuf aio reads:"
    );
    put!(out, "Pending flushes (fsync) log: 0; buffer pool: 0");
    put!(
        out,
        "{reads} OS file reads, {writes} OS file writes, {syncs} OS fsyncs"
    );
    let (reads, writes, syncs) = (
        figures.rate(reads),
        figures.rate(writes),
        figures.rate(syncs),
    );
    put!(
        out,
        "{reads:.2} reads/s, 0 avg bytes/read, {writes:.2} writes/s, {syncs:.2} fsyncs/s"
    );
}

fn change_buffer(out: &mut String) {
    heading(out, "INSERT BUFFER AND ADAPTIVE HASH INDEX");
    put!(out, "Ibuf: size 0, free list len 0, seg size 0, 0 merges");
    put!(
        out,
        "merged operations:\n insert 0, delete mark 0, delete 0"
    );
    put!(
        out,
        "discarded operations:\n insert 0, delete mark 0, delete 0"
    );
    put!(out, "Hash table size 0, node heap has 0 buffer(s)");
    put!(out, "0.00 hash searches/s, 0.00 non-hash searches/s");
}

fn log(out: &mut String, figures: &Figures, instance: &Instance) {
    let end = figures.number("Innodb_redo_log_current_lsn");
    let flushed = figures.number("Innodb_redo_log_flushed_to_disk_lsn");
    let checkpoint = figures.number("Innodb_redo_log_checkpoint_lsn");
    let space = instance.engine().stats().log_space;
    heading(out, "LOG");
    put!(
        out,
        "Log capacity                 {}",
        space.segments * space.segment_bytes
    );
    put!(
        out,
        "Log capacity used            {}",
        figures.number("Innodb_redo_log_logical_size")
    );
    put!(out, "Log sequence number          {end}");
    put!(out, "Log buffer assigned up to    {end}");
    put!(out, "Log buffer completed up to   {end}");
    put!(out, "Log written up to            {flushed}");
    put!(out, "Log flushed up to            {flushed}");
    put!(out, "Added dirty pages up to      {end}");
    put!(out, "Pages flushed up to          {checkpoint}");
    put!(out, "Last checkpoint at           {checkpoint}");
    put!(out, "Log minimum file id is       0");
    put!(out, "Log maximum file id is       {}", space.segments);
    let writes = figures.number("Innodb_log_writes");
    put!(
        out,
        "{writes} log i/o's done, {:.2} log i/o's/second",
        figures.rate(writes)
    );
}

fn buffer_pool(out: &mut String, figures: &Figures, instance: &Instance) {
    let memory = instance.engine().stats().memory;
    let pages = |name: &str| figures.number(&format!("Innodb_buffer_pool_{name}"));
    let reads = pages("reads");
    heading(out, "BUFFER POOL AND MEMORY");
    put!(out, "Total large memory allocated {}", memory.total.now);
    put!(
        out,
        "Dictionary memory allocated {}",
        memory.extent_metadata.now
    );
    put!(out, "Buffer pool size   {}", pages("pages_total"));
    put!(out, "Free buffers       {}", pages("pages_free"));
    put!(out, "Database pages     {}", pages("pages_data"));
    put!(out, "Old database pages 0");
    put!(out, "Modified db pages  {}", pages("pages_dirty"));
    put!(
        out,
        "Pending reads      0\nPending writes: LRU 0, flush list 0, single page 0"
    );
    put!(
        out,
        "Pages made young 0, not young 0\n0.00 youngs/s, 0.00 non-youngs/s"
    );
    put!(out, "Pages read {reads}, created 0, written 0");
    put!(
        out,
        "{:.2} reads/s, 0.00 creates/s, 0.00 writes/s",
        figures.rate(reads)
    );
    put!(out, "No buffer pool page gets since the last printout");
    put!(
        out,
        "Pages read ahead 0.00/s, evicted without access 0.00/s, Random read ahead 0.00/s"
    );
    put!(out, "LRU len: {}, unzip_LRU len: 0", pages("pages_data"));
    put!(out, "I/O sum[0]:cur[0], unzip sum[0]:cur[0]");
}

fn rows(out: &mut String, figures: &Figures, instance: &Instance) {
    let sessions = instance.registry.list();
    let running = sessions
        .iter()
        .filter(|p| p.detail().command != "Sleep")
        .count();
    let open = sessions
        .iter()
        .filter(|p| p.detail().transaction.is_some())
        .count();
    heading(out, "ROW OPERATIONS");
    put!(out, "{running} queries inside InnoDB, 0 queries in queue");
    put!(out, "{open} read views open inside InnoDB");
    put!(
        out,
        "Process ID={}, Main thread ID=0 , state=sleeping",
        std::process::id()
    );
    let rows = |what: &str| figures.number(&format!("Innodb_rows_{what}"));
    let (inserted, updated, deleted) = (rows("inserted"), rows("updated"), rows("deleted"));
    let read = innodb::rows_read(instance);
    put!(
        out,
        "Number of rows inserted {inserted}, updated {updated}, deleted {deleted}, read {read}"
    );
    put!(
        out,
        "{:.2} inserts/s, {:.2} updates/s, {:.2} deletes/s, {:.2} reads/s",
        figures.rate(inserted),
        figures.rate(updated),
        figures.rate(deleted),
        figures.rate(read)
    );
    put!(
        out,
        "Number of system rows inserted 0, updated 0, deleted 0, read 0"
    );
    put!(
        out,
        "0.00 inserts/s, 0.00 updates/s, 0.00 deletes/s, 0.00 reads/s"
    );
}
