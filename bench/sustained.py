"""'bench/compare sustained': random updates of data that are larger than memory, for minutes: does it go on as it began?

One server after the other, each alone. Throughput is shown second by second in the figures; the table has the first and the
last minute, what 999 of 1000 updates took at most, the longest of all (the longest stall that a session has seen), and
the longest row of seconds in which the server did next to nothing.

With '--binlog' the servers write a binary log that they purge. Its bytes and those of the engine's log are looked at
every second; then the server is killed under load and started again: does what it keeps stay bounded, and the time of a
restart?
"""
import glob, os, re, subprocess, time

import machine, servers, workload
from servers import BINLOG, ESKER, INNODB, MYROCKS, MYSQL, WITH_BINLOG

# Throughput of the beginning and of the end is that of so many seconds, or of a third of the run if it is shorter.
EDGE_SECONDS = 60
# A small file of the binary log is purged when it is so old.
PURGED = ["--max-binlog-size=64M", "--binlog-expire-logs-seconds=30"]
# Files of the engine's log, by server, and of the binary log.
LOGS = {INNODB: "ib_logfile*", MYSQL: "#innodb_redo/*", BINLOG: "wal/*.wal"}
BINLOGS = {INNODB: "binlog.*", MYSQL: "binlog.*", BINLOG: "binlog/binlog.*"}
# Seconds of load before it is killed.
BEFORE_KILL = 10
# A second with less than this share of the median throughput counts as stalled.
STALLED_SHARE = 0.05


def options(parser):
    workload.table_options(parser)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--threads", type=int, default=16)
    parser.add_argument("--test", default="oltp_update_non_index", help="of sysbench")
    parser.add_argument("--binlog", action="store_true", help="with a binary log that is purged, and a restart")
    parser.add_argument("--mysql", metavar="ROOT", help="a folder in which a MySQL is unpacked, for chroot")
    parser.add_argument("--rest", type=int, default=30, help="seconds between the load and the updates")


def longest_stall(tps):
    """The most seconds in a row with next to no throughput."""
    floor = STALLED_SHARE * sorted(tps)[len(tps) // 2]
    longest = current = 0
    for value in tps:
        current = current + 1 if value < floor else 0
        longest = max(longest, current)
    return longest


def percentile(text, share):
    """Of the histogram that sysbench shows, milliseconds."""
    lines = re.findall(r"^ +([\d.]+) \|\** +(\d+)$", text, re.M)
    rest = share * sum(int(count) for _, count in lines)
    for value, count in lines:
        rest -= int(count)
        if rest <= 0:
            return float(value)
    return 0.0


def measure(server, args):
    seconds = max(3, round(args.minutes * 60))
    text = workload.sysbench(server, args.test, args, f"--threads={args.threads}", f"--time={seconds}",
                             "--report-interval=1", "--histogram=on", "run")
    tps = [float(value) for value in re.findall(r"^\[ \d+s \].* tps: ([\d.]+)", text, re.M)]
    edge = min(EDGE_SECONDS, max(1, len(tps) // 3))
    first, last = sum(tps[:edge]) / edge, sum(tps[-edge:]) / edge
    return {"server": server.name, "tps": workload.number(text, r"transactions:\s+\d+\s+\(([\d.]+)"),
            "first_tps": first, "last_tps": last, "last_by_first": last / max(first, 1e-9),
            "p999_ms": percentile(text, 0.999),
            "max_ms": workload.number(text, r"max:\s+([\d.]+)"),
            "stalled_seconds": longest_stall(tps), "peak_mib": machine.peak_rss_kib(server.process.pid) / 1024,
            "tps_by_second": tps}


class Kept(servers.Beside):
    """MiB of the engine's log and of the binary log, once a second."""

    def __init__(self, server):
        super().__init__(servers.Login(server.port))
        data = server.remove or os.path.join(server.directory, "data")
        self.patterns = [os.path.join(data, of[server.name]) for of in (LOGS, BINLOGS)]
        self.log, self.binlog = [], []

    def work(self):
        while not self.is_over:
            for pattern, found in zip(self.patterns, (self.log, self.binlog)):
                found.append(sum(map(size, glob.glob(pattern))) / (1 << 20))
            time.sleep(1)

    def figures(self):
        """The most of the middle third and of the last one, for either log."""
        third = max(1, len(self.log) // 3)
        return {f"{name}_{part}_mib": max(values[where]) for name, values in (("log", self.log), ("binlog", self.binlog))
                for part, where in (("middle", slice(third, 2 * third + 1)), ("last", slice(-third, None)))}


def size(path):
    """Of a file that may go at any time."""
    try:
        return os.path.getsize(path)
    except FileNotFoundError:
        return 0


def restart(server, args):
    """Kills the server under load; seconds from the start of the process to its first answer, and to a count of all
    rows."""
    load = subprocess.Popen(workload.table_command(server, args.test, args, f"--threads={args.threads}",
                                                   f"--time={BEFORE_KILL * 3}", "run"),
                            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    time.sleep(BEFORE_KILL)
    server.kill()
    load.wait()
    started = time.time()
    server.spawn()
    session = server.await_login()
    session.ask("SELECT c FROM sbtest.sbtest1 WHERE id = 1")
    first = time.time() - started
    if int(session.ask("SELECT COUNT(*) FROM sbtest.sbtest1")) != args.size:
        raise SystemExit(f"{server.name} has lost rows")
    counted = time.time() - started
    session.close()
    return {"first_answer_s": first, "count_s": counted}


def with_binlog(server, args):
    """As `measure`, with what is kept and a restart; a line of it."""
    with Kept(server) as kept:
        m = measure(server, args)
    m |= kept.figures() | restart(server, args)
    return m | {"log_mib": kept.log, "binlog_mib": kept.binlog}, (
        f"{'':12}log {m['log_middle_mib']:.0f} MiB at most in the middle third, {m['log_last_mib']:.0f} in the last; "
        f"binary log {m['binlog_middle_mib']:.0f} and {m['binlog_last_mib']:.0f}; after kill -9 the first answer after "
        f"{m['first_answer_s']:.2f} s, all rows counted after {m['count_s']:.2f} s")


def run(args, directory):
    """A line per server; the figures as a list."""
    machine.require(machine.SYSBENCH)
    print(f"{args.size} rows, {args.memory_mib} MiB of memory, {args.test} with {args.threads} threads for "
          f"{args.minutes:g} minutes\n"
          f"{'server':12}{'tps':>10}{'first tps':>11}{'last tps':>10}{'last/first':>12}{'p99.9 ms':>10}{'max ms':>10}"
          f"{'stalled s':>11}{'peak MiB':>10}", flush=True)
    compared = (BINLOG, INNODB, MYSQL) if args.binlog else (ESKER, INNODB, MYROCKS)
    more = {name: [*WITH_BINLOG[name], *PURGED] for name in compared} if args.binlog else {}
    results = []
    for server in servers.in_turn(args, directory, compared, more):
        workload.load(server, args)
        time.sleep(args.rest)
        m, more_of_it = with_binlog(server, args) if args.binlog else (measure(server, args), None)
        print(f"{m['server']:12}{m['tps']:>10.0f}{m['first_tps']:>11.0f}{m['last_tps']:>10.0f}"
              f"{m['last_by_first']:>12.2f}{m['p999_ms']:>10.2f}{m['max_ms']:>10.1f}{m['stalled_seconds']:>11}"
              f"{m['peak_mib']:>10.0f}", *([more_of_it] if more_of_it else []), sep="\n", flush=True)
        results.append(m)
    return results
