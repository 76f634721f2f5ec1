"""'bench/compare binlog': what the binary log costs, on Esker with and without it and on its peers with it.

'--two-phase' compares the ways to commit instead: one sync, two phases, and two phases with the engine's log hardened
for each transaction; '--tables 100 --threads 32,64,128,256 --tests oltp_update_non_index' is the source's own case."""
import time

import machine, oltp, servers
from servers import BINLOG, ESKER, HARDEN_EACH, INNODB, MYSQL, TWO_PHASE

TESTS = "oltp_update_non_index,oltp_insert,oltp_delete,oltp_read_write"
# On every server with a binary log: row events, and what is acknowledged is in it after a crash.
MORE = {
    BINLOG: ["--log-bin=ON", "--gtid-mode=ON"],
    TWO_PHASE: ["--log-bin=ON", "--gtid-mode=ON", "--esker-binlog-commit=TWO-PHASE"],
    HARDEN_EACH: ["--log-bin=ON", "--gtid-mode=ON", "--esker-binlog-commit=TWO-PHASE",
                  "--esker-binlog-harden=PER-TRANSACTION"],
    INNODB: ["--log-bin=binlog", "--binlog-format=ROW", "--sync-binlog=1", "--server-id=1"],
    MYSQL: ["--sync-binlog=1", "--gtid-mode=ON", "--enforce-gtid-consistency=ON"],
}
# Counted by Esker.
COUNTED = ("Esker_log_flushes", "Esker_log_records", "Esker_binlog_syncs", "Esker_binlog_transactions")


def options(parser):
    parser.add_argument("--tests", default=TESTS)
    parser.add_argument("--threads", default="16,64,256")
    oltp.case_options(parser, "of each case")
    parser.add_argument("--two-phase", action="store_true", help="Esker's ways to commit, without peers")


def counts(server):
    return {name: int(server.status(name)) for name in COUNTED} if server.name in (BINLOG, TWO_PHASE, HARDEN_EACH) else {}


def measure(server, test, threads, args):
    """As oltp.measure, with what the server has counted meanwhile."""
    before, started = counts(server), time.time()
    m = oltp.measure(server, test, threads, args)
    seconds = time.time() - started
    after = counts(server)
    if after:
        did = {name: after[name] - before[name] for name in COUNTED}
        transactions = max(did["Esker_binlog_transactions"], 1)
        m["log_syncs_per_commit"] = did["Esker_log_flushes"] / transactions
        m["binlog_syncs_per_second"] = did["Esker_binlog_syncs"] / seconds
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
    if args.delay_us:
        args.mysql = None  # what runs in its chroot would not find the library that makes syncs longer
    disk = machine.Disk(args.delay_us, directory)
    with servers.running(args, directory, (BINLOG, ESKER, INNODB, MYSQL), disk, MORE) as running:
        for s in running:
            oltp.prepare_tables(s, args)
        print(f"{disk.name}: {args.tables} x {args.size} rows, binary log on but for {ESKER}\n"
              f"{'test':22}{'threads':>8}" + "".join(f"{s.name + ' tps':>18}{'CPU us':>8}" for s in running)
              + "".join(f"{'x ' + s.name:>16}" for s in running[1:])
              + f"{'syncs/commit':>14}{'binlog syncs/s':>16}" * max(1, sum(bool(counts(s)) for s in running)),
              flush=True)
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
        line += f"{case[s.name].get('tps', float('nan')):>18.0f}"
        line += f"{case[s.name].get('cpu_us_per_query', float('nan')):>8.1f}"
    for s in running[1:]:
        ratio, _ = oltp.ratios(first, case[s.name])
        case[s.name]["ratio"] = ratio
        line += f"{ratio:>16.2f}"
    counted = [case[s.name] for s in running if "log_syncs_per_commit" in case[s.name]] or [first]
    for of in counted:
        for name, width in ("log_syncs_per_commit", 14), ("binlog_syncs_per_second", 16):
            line += f"{of.get(name, float('nan')):>{width}.3f}"
    print(line, flush=True)
    return case
