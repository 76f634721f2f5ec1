"""'bench/compare aggregates': one query over all rows of a sysbench table in memory, by reading them and from what is known of them.

Every query runs on one server after the other, `--repeat` times, and the median counts. Answers must be the same on all.
"""
import statistics, sys, time

import machine, servers, workload
from servers import ESKER, INNODB

ROWS, MEMORY_MIB = 5_000_000, 4096
# What it shows, and the query. A condition that every row meets makes servers read rows that they could count.
QUERIES = [
    ("COUNT(*) as users get it", "SELECT COUNT(*) FROM sbtest1"),
    ("COUNT(*) of a range", "SELECT COUNT(*) FROM sbtest1 WHERE k BETWEEN {low} AND {high}"),
    ("COUNT(*) by reading rows", "SELECT COUNT(*) FROM sbtest1 WHERE LENGTH(pad) >= 0"),
    ("COUNT(*) by reading an index", "SELECT COUNT(*) FROM sbtest1 WHERE k + 0 >= 0"),
    ("SUM(k)", "SELECT SUM(k) FROM sbtest1"),
    ("SUM(k) without the index", "SELECT SUM(k + LENGTH(pad) * 0) FROM sbtest1"),
    ("SUM(LENGTH(c))", "SELECT SUM(LENGTH(c)) FROM sbtest1"),
    ("filtered COUNT over k", "SELECT COUNT(*) FROM sbtest1 WHERE k BETWEEN {low} AND {high} AND k % 2 = 1"),
    ("filtered SUM", "SELECT SUM(id) FROM sbtest1 WHERE k % 3 = 0"),
    ("MIN and MAX", "SELECT MIN(k), MAX(k) FROM sbtest1"),
    ("GROUP BY", "SELECT id % 100 AS g, COUNT(*), SUM(k) FROM sbtest1 GROUP BY g ORDER BY g LIMIT 3"),
]


def options(parser):
    parser.add_argument("--size", type=int, default=ROWS, help="rows of the table")
    parser.add_argument("--repeat", type=int, default=5, help="runs of a query, the median counts")
    parser.add_argument("--read-threads", type=int, default=4, help="parallel_read_threads (Esker only)")
    parser.set_defaults(memory_mib=MEMORY_MIB)


class Session:
    """A session in the table's database."""

    def __init__(self, server, args):
        self.login = servers.Login(server.port)
        self.login.tell("USE sbtest")
        if server.is_esker:
            self.login.tell(f"SET parallel_read_threads = {args.read_threads}")

    def time(self, query, repeat):
        """Median seconds, and the first value of the answer."""
        seconds = []
        for _ in range(repeat):
            started = time.perf_counter()
            answer = self.login.ask(query)
            seconds.append(time.perf_counter() - started)
        return statistics.median(seconds), answer


def run(args, directory):
    """A line per query; the figures as a list."""
    machine.require(machine.SYSBENCH)
    results = []
    with servers.running(args, directory, (ESKER, INNODB)) as started:
        for server in started:
            workload.load(server, args)
            server.sql("ANALYZE TABLE sbtest.sbtest1")
        sessions = [Session(server, args) for server in started]
        print(f"{args.size} rows, {args.memory_mib} MiB of memory each\n{'query':37}{'server':10}{'seconds':>10}"
              f"{'M rows/s':>10}{'esker is':>10}", flush=True)
        for what, query in QUERIES:
            # Keys of sysbench lie around the middle of the table's size.
            query = query.format(low=args.size // 4, high=args.size * 3 // 4)
            for session in sessions:
                session.time(query, 1)  # What is cold, and compiled.
            measured = [session.time(query, args.repeat) for session in sessions]
            ours, expected = measured[0]
            for server, (seconds, answer) in zip(started, measured):
                # Tables are filled at random by every server for itself: only their number of rows is the same.
                if "as users get it" in what and answer != expected:
                    sys.exit(f"{what}: {server.name} says {answer}, {started[0].name} {expected}")
                ratio = "" if server is started[0] else f"{seconds / ours:>9.1f}x"
                print(f"{what:37}{server.name:10}{seconds:>10.4f}{args.size / seconds / 1e6:>10.1f}{ratio}", flush=True)
                results.append({"query": what, "server": server.name, "seconds": seconds})
    return results
