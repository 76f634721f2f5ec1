//! TPC-C (revision 5.11) without think times: a load of transactions of many statements.
//!
//! Usage, as root without a password, in the database `tpcc`:
//! - `tpcc PORT load WAREHOUSES` makes the tables and their rows;
//! - `tpcc PORT run WAREHOUSES CLIENTS SECONDS [text]` runs the mix of the five transactions and prints
//!   `transactions new_orders retried seconds p50_us p99_us`; statements are prepared, or sent as text;
//! - `tpcc PORT check` fails unless the consistency conditions of clause 3.3.2 hold.
//!
//! `wire` speaks the protocol, `schema` and `load` make the tables, `transactions` has the five transactions, `check`
//! the conditions, `random` the distributions of clause 4.3.2 and 2.1.6.
//! **Invariant**: a client runs one transaction at a time, and one that the server has rolled back (a deadlock, a
//! timeout of a lock) is run again with the same input, counted once.

mod check;
mod load;
mod random;
mod schema;
mod transactions;
mod wire;

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use random::Random;
use transactions::{Client, Kind};
use wire::Connection;

const USAGE: &str =
    "usage: tpcc PORT load WAREHOUSES | run WAREHOUSES CLIENTS SECONDS [text] | check";

/// What one client did.
#[derive(Default)]
struct Tally {
    latencies_us: Vec<u32>,
    new_orders: u64,
    retried: u64,
}

fn main() -> io::Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let [port, command, rest @ ..] = &args[..] else {
        return Err(io::Error::other(USAGE));
    };
    let port = number(port)? as u16;
    match (*command, rest) {
        ("load", [warehouses]) => load::load(port, number(warehouses)?),
        ("run", [warehouses, clients, seconds]) => run(
            port,
            number(warehouses)?,
            number(clients)?,
            number(seconds)?,
            false,
        ),
        ("run", [warehouses, clients, seconds, "text"]) => run(
            port,
            number(warehouses)?,
            number(clients)?,
            number(seconds)?,
            true,
        ),
        ("check", []) => check::check(port),
        _ => Err(io::Error::other(USAGE)),
    }
}

fn number(text: &str) -> io::Result<i64> {
    text.parse()
        .map_err(|_| io::Error::other(format!("{text} is not a number. {USAGE}")))
}

/// Runs the mix until the time is over, and prints what was done.
fn run(port: u16, warehouses: i64, clients: i64, seconds: i64, text: bool) -> io::Result<()> {
    let mut ready = Vec::new();
    for number in 0..clients {
        let connection = Connection::open(port, "tpcc", text)?;
        // Different in every run, so that a second run is not the first one's echo.
        let nanos = std::time::UNIX_EPOCH.elapsed().map_or(0, |t| t.as_nanos());
        let random = Random::new(nanos as u64 ^ (number as u64) << 48);
        ready.push(Client::new(connection, random, warehouses, number));
    }
    let (start, is_over) = (Instant::now(), AtomicBool::new(false));
    let tallies: Vec<io::Result<Tally>> = std::thread::scope(|scope| {
        let threads: Vec<_> = ready
            .into_iter()
            .map(|client| scope.spawn(|| work(client, &is_over)))
            .collect();
        std::thread::sleep(Duration::from_secs(seconds as u64));
        is_over.store(true, Ordering::Relaxed);
        threads
            .into_iter()
            .map(|t| t.join().expect("a client panicked"))
            .collect()
    });
    let took = start.elapsed().as_secs_f64();
    let mut all = Tally::default();
    for tally in tallies {
        let tally = tally?;
        all.latencies_us.extend(tally.latencies_us);
        all.new_orders += tally.new_orders;
        all.retried += tally.retried;
    }
    all.latencies_us.sort_unstable();
    let count = all.latencies_us.len();
    let at = |share: f64| {
        let place = (count as f64 * share) as usize;
        all.latencies_us.get(place).copied().unwrap_or(0)
    };
    println!(
        "{count} {} {} {took:.3} {} {}",
        all.new_orders,
        all.retried,
        at(0.5),
        at(0.99)
    );
    Ok(())
}

/// One client's transactions until it is told that the time is over.
fn work(mut client: Client, is_over: &AtomicBool) -> io::Result<Tally> {
    let mut tally = Tally::default();
    while !is_over.load(Ordering::Relaxed) {
        let asked = Instant::now();
        let (kind, retried) = client.next()?;
        tally
            .latencies_us
            .push(asked.elapsed().as_micros().min(u128::from(u32::MAX)) as u32);
        tally.new_orders += u64::from(kind == Kind::NewOrder);
        tally.retried += retried;
    }
    Ok(tally)
}
