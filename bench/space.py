"""'bench/compare space': what the same rows take on disk after they were loaded, after they were updated, and after a rest.

One server after the other, each alone, fills one sysbench table with an index and then updates it: one half of the
updates change a column that is in no index, the other half one that is. What a file takes on disk is counted (its
blocks, not its length), less what the server had taken before the table was there. Logs are counted by themselves: they
are as long as they are set to be, not as the data need.
"""
import fnmatch, os, time

import machine, servers, workload
from servers import ESKER, INNODB, MYROCKS

# Files, by their path in the data directory, that are a log and not data.
LOGS = {ESKER: ["wal/*"], INNODB: ["ib_logfile*", "aria_log*"], MYROCKS: ["#rocksdb/*.log", "aria_log*"]}
UPDATES = ("oltp_update_non_index", "oltp_update_index")
# A server is at rest when its files have not changed for so long.
STILL_SECONDS = 15


def options(parser):
    workload.table_options(parser)
    parser.add_argument("--updates", type=int, help="in all; as many as rows if not given")
    parser.add_argument("--threads", type=int, default=16)
    parser.add_argument("--rest", type=int, default=180, help="longest rest, seconds")


def taken(server):
    """Bytes on disk: data, and log."""
    place = os.path.join(server.directory, "data")
    data = log = 0
    for folder, _, names in os.walk(place):
        for name in names:
            path = os.path.join(folder, name)
            try:
                size = os.stat(path).st_blocks * 512
            except FileNotFoundError:
                continue  # It went meanwhile.
            inside = os.path.relpath(path, place)
            if any(fnmatch.fnmatch(inside, pattern) for pattern in LOGS[server.name]):
                log += size
            else:
                data += size
    return data, log


def rest(server, longest):
    """Waits until the server has nothing more to tidy up; the seconds until its files last changed."""
    started = changed = time.time()
    last = taken(server)
    while time.time() - changed < STILL_SECONDS and time.time() - started < longest:
        time.sleep(1)
        now = taken(server)
        if now != last:
            last, changed = now, time.time()
    return changed - started


def run(args, directory):
    """A line per server and moment; the figures as a list."""
    machine.require(machine.SYSBENCH)
    updates = args.size if args.updates is None else args.updates
    print(f"{args.size} rows, {updates} updates, {args.memory_mib} MiB of memory\n"
          f"{'server':12}{'moment':10}{'data MB':>10}{'log MB':>10}{'data, bytes a row':>20}{'esker has':>11}", flush=True)
    results, ours = [], {}
    for server in servers.in_turn(args, directory, (ESKER, INNODB, MYROCKS)):
        empty = taken(server)[0]
        workload.load(server, args)
        show(server, "loaded", empty, args, ours, results)
        for test in UPDATES:
            workload.sysbench(server, test, args, f"--threads={args.threads}", "--time=0",
                              f"--events={updates // len(UPDATES)}", "run")
        show(server, "updated", empty, args, ours, results)
        rest(server, args.rest)
        show(server, "rested", empty, args, ours, results)
    return results


def show(server, moment, empty, args, ours, results):
    data, log = taken(server)
    data -= empty
    ours.setdefault(moment, data)
    share = "" if server.is_esker or not data else f"{ours[moment] / data:>10.2f}x"
    print(f"{server.name:12}{moment:10}{data / 1e6:>10.1f}{log / 1e6:>10.1f}{data / args.size:>20.1f}{share}", flush=True)
    results.append({"server": server.name, "moment": moment, "data_bytes": data, "log_bytes": log})
