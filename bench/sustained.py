"""'bench/compare sustained': random updates of data that are larger than memory, for minutes: does it go on as it began?

One server after the other, each alone. Throughput is shown second by second in the figures; the table has the first and the
last minute, what 999 of 1000 updates took at most, the longest of all (the longest stall that a session has seen), and
the longest row of seconds in which the server did next to nothing.
"""
import re, time

import machine, servers, workload
from servers import ESKER, INNODB, MYROCKS

# Throughput of the beginning and of the end is that of so many seconds, or of a third of the run if it is shorter.
EDGE_SECONDS = 60
# A second with less than this share of the median throughput counts as stalled.
STALLED_SHARE = 0.05


def options(parser):
    workload.table_options(parser)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--threads", type=int, default=16)
    parser.add_argument("--test", default="oltp_update_non_index", help="of sysbench")
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


def run(args, directory):
    """A line per server; the figures as a list."""
    machine.require(machine.SYSBENCH)
    print(f"{args.size} rows, {args.memory_mib} MiB of memory, {args.test} with {args.threads} threads for "
          f"{args.minutes:g} minutes\n"
          f"{'server':12}{'tps':>10}{'first tps':>11}{'last tps':>10}{'last/first':>12}{'p99.9 ms':>10}{'max ms':>10}"
          f"{'stalled s':>11}{'peak MiB':>10}", flush=True)
    results = []
    for server in servers.in_turn(args, directory, (ESKER, INNODB, MYROCKS)):
        workload.load(server, args)
        time.sleep(args.rest)
        m = measure(server, args)
        print(f"{m['server']:12}{m['tps']:>10.0f}{m['first_tps']:>11.0f}{m['last_tps']:>10.0f}"
              f"{m['last_by_first']:>12.2f}{m['p999_ms']:>10.2f}{m['max_ms']:>10.1f}{m['stalled_seconds']:>11}"
              f"{m['peak_mib']:>10.0f}", flush=True)
        results.append(m)
    return results
