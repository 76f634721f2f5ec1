"""'bench/compare binlog': what the binary log costs, on Esker with and without it and on its peers with it.

'--two-phase' compares the ways to commit instead: one sync, two phases, and two phases with the engine's log hardened
for each transaction; '--tables 100 --threads 32,64,128,256 --tests oltp_update_non_index' is the source's own case.
'--servers esker-binlog,esker-no-gtid' says what GTIDs cost. '--count-syncs' counts calls of fsync and fdatasync from
outside, and holds those of the engine's log against the groups that the server says it has hardened."""
import time

import machine, oltp, servers
from servers import BINLOG, ESKER, HARDEN_EACH, INNODB, MYSQL, TWO_PHASE, WITH_BINLOG

TESTS = "oltp_update_non_index,oltp_insert,oltp_delete,oltp_read_write"
# Counted by Esker; its log is flushed once for each group of commits.
GROUPS, TRANSACTIONS, BINLOG_SYNCS = "Esker_log_flushes", "Esker_binlog_transactions", "Esker_binlog_syncs"
# Of a server with a binary log: name, width, decimals.
COLUMNS = [("groups_per_commit", "groups/commit", 15, 3), ("log_syncs_per_group", "syncs/group", 13, 3),
           ("binlog_syncs_per_second", "binlog syncs/s", 16, 1)]


def options(parser):
    parser.add_argument("--tests", default=TESTS)
    parser.add_argument("--threads", default="16,64,256")
    oltp.case_options(parser, "of each case")
    parser.add_argument("--two-phase", action="store_true", help="Esker's ways to commit, without peers")
    parser.add_argument("--count-syncs", action="store_true", help="count calls of fsync and fdatasync")


def is_logging(server):
    """Whether it is an Esker that writes a binary log."""
    return server.is_esker and server.name in WITH_BINLOG


def counts(server):
    names = (GROUPS, TRANSACTIONS, BINLOG_SYNCS) if is_logging(server) else ()
    log_syncs = (server.syncs() or (None,))[0]
    return {name: int(server.status(name)) for name in names}, log_syncs


def measure(server, test, threads, args):
    """As oltp.measure, with what the server has counted meanwhile."""
    (before, synced_before), started = counts(server), time.time()
    m = oltp.measure(server, test, threads, args)
    seconds = time.time() - started
    after, synced_after = counts(server)
    if after:
        did = {name: after[name] - before[name] for name in after}
        m["groups_per_commit"] = did[GROUPS] / max(did[TRANSACTIONS], 1)
        m["binlog_syncs_per_second"] = did[BINLOG_SYNCS] / seconds
        if synced_after is not None:
            m["log_syncs_per_group"] = (synced_after - synced_before) / max(did[GROUPS], 1)
    return m


def median(runs):
    """The run in the middle by throughput; a failed one, if there is any."""
    failed = [m for m in runs if "failed" in m]
    return failed[0] if failed else sorted(runs, key=lambda m: m["tps"])[len(runs) // 2]


def run(args, directory):
    """Every case on all servers, in rounds; all servers on one line, each with the CPU of its process a query."""
    machine.require(machine.SYSBENCH)
    if args.two_phase and not args.servers:
        args.servers = f"{BINLOG},{TWO_PHASE},{HARDEN_EACH}"
    if args.no_peer and not args.servers:
        args.servers = f"{BINLOG},{ESKER}"
    disk = machine.Disk(args.delay_us, directory, args.count_syncs)
    with servers.running(args, directory, (BINLOG, ESKER, INNODB, MYSQL), disk, WITH_BINLOG) as running:
        for s in running:
            oltp.prepare_tables(s, args)
        columns = "".join(f"{title:>{width}}" for _, title, width, _ in COLUMNS)
        print(f"{disk.name}: {args.tables} x {args.size} rows, binary log on but for {ESKER}\n"
              f"{'test':22}{'threads':>8}" + "".join(f"{s.name + ' tps':>22}{'CPU us':>8}" for s in running)
              + "".join(f"{'x ' + s.name:>20}" for s in running[1:]) + columns * sum(map(is_logging, running)), flush=True)
        return [case for test in args.tests.split(",") for threads in map(int, args.threads.split(","))
                for case in [one_case(running, test, threads, args)]]


def one_case(running, test, threads, args):
    runs = {s.name: [] for s in running}
    for _ in range(args.rounds):
        for s in running:
            runs[s.name].append(measure(s, test, threads, args))
    case = {"test": test, "threads": threads} | {name: median(of) for name, of in runs.items()}
    first = case[running[0].name]
    line = f"{test:22}{threads:>8}"
    for s in running:
        line += f"{case[s.name].get('tps', float('nan')):>22.0f}"
        line += f"{case[s.name].get('cpu_us_per_query', float('nan')):>8.1f}"
    for s in running[1:]:
        ratio, _ = oltp.ratios(first, case[s.name])
        case[s.name]["ratio"] = ratio
        line += f"{ratio:>20.2f}"
    for s in filter(is_logging, running):
        for name, _, width, decimals in COLUMNS:
            line += f"{case[s.name].get(name, float('nan')):>{width}.{decimals}f}"
    print(line, flush=True)
    return case
