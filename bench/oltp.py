"""'bench/compare oltp', 'hot', 'slow' and 'idle': many sessions, with sysbench and without."""
import os, re, subprocess, sys, time

import machine, servers, workload
from servers import BINLOG, BINLOG_NO_ELR, ESKER, INNODB, MYROCKS, MYSQL, NO_ELR

TESTS = ("oltp_point_select oltp_read_only oltp_read_write oltp_write_only oltp_update_index "
         "oltp_update_non_index oltp_insert oltp_delete select_random_points select_random_ranges "
         "bulk_insert").split()
# Tests, threads, tables and rows of each command, where none are given.
DEFAULTS = {"oltp": (",".join(TESTS), "1,16,64,256,1024", 4, 100_000),
            "hot": ("oltp_read_write,oltp_write_only", "16", 1, 16),
            "slow": ("oltp_update_non_index", "1,16,64,256,1024", 4, 100_000)}


def options(parser, what):
    tests, threads, tables, size = DEFAULTS[what]
    parser.add_argument("--tests", default=tests)
    parser.add_argument("--threads", default=threads)
    parser.add_argument("--tables", type=int, default=tables)
    parser.add_argument("--size", type=int, default=size, help="rows of a table")
    parser.add_argument("--seconds", type=int, default=10, help="of each case")
    parser.add_argument("--text-protocol", action="store_true", help="no prepared statements")
    if what != "oltp":
        parser.add_argument("--delay-us", type=int, default=4000,
                            help="how much longer a sync takes on the slow disk; 0: no slow disk")
        parser.add_argument("--binlog", action="store_true", help="all servers write a binary log, synced at every commit")
        parser.add_argument("--mysql", metavar="ROOT", help="a folder in which a MySQL is unpacked, for chroot")


def case_options(parser, seconds):
    """Options of comparisons that change sysbench's tables case by case, in rounds, beside other servers."""
    parser.add_argument("--tables", type=int, default=4)
    parser.add_argument("--size", type=int, default=100_000, help="rows of a table")
    parser.add_argument("--seconds", type=int, default=10, help=seconds)
    parser.add_argument("--rounds", type=int, default=3, help="of each case; the median counts")
    parser.add_argument("--text-protocol", action="store_true", help="no prepared statements")
    parser.add_argument("--delay-us", type=int, default=0, help="how much longer every sync takes")
    parser.add_argument("--mysql", metavar="ROOT", help="a folder in which a MySQL is unpacked, for chroot")


def sysbench(server, test, args, *extra):
    """Runs a test to its end, well or not."""
    protocol = ["--db-ps-mode=disable"] if args.text_protocol else []
    command = workload.table_command(server, test, args, *protocol, *extra, tables=args.tables)
    return subprocess.run(command, capture_output=True, text=True)


def measure(server, test, threads, args):
    before, started = server.cpu_seconds(), time.time()
    run = sysbench(server, test, args, f"--threads={threads}", f"--time={args.seconds}", "run")
    cpu = server.cpu_seconds() - before
    out = run.stdout
    if run.returncode != 0 or "FATAL" in out:
        lines = [l for l in (out + run.stderr).splitlines() if "FATAL" in l or "rror" in l]
        return {"failed": lines[0] if lines else "sysbench failed"}
    number = lambda pattern: float(re.search(pattern, out).group(1))
    errors = number(r"ignored errors:\s+(\d+)")
    return {
        "tps": number(r"transactions:\s+\d+\s+\(([\d.]+)"),
        "qps": number(r"queries:\s+\d+\s+\(([\d.]+)"),
        "p95_ms": number(r"95th percentile:\s+([\d.]+)"),
        "errors": errors,
        "errors_per_commit": errors / max(number(r"transactions:\s+(\d+)"), 1),
        "cpu_us_per_query": cpu * 1e6 / max(number(r"queries:\s+(\d+)"), 1),
        "seconds": time.time() - started,
    }


def prepare(server, test, args, threads):
    server.sql("CREATE DATABASE IF NOT EXISTS sbtest")
    sysbench(server, test, args, "cleanup")
    started = time.time()
    run = sysbench(server, test, args, f"--threads={threads}", "prepare")
    if run.returncode != 0:
        sys.exit(f"{server.name}: prepare failed\n{run.stdout[-2000:]}{run.stderr[-2000:]}")
    return time.time() - started


def prepare_tables(server, args):
    return prepare(server, "oltp_read_write", args, min(args.tables, os.cpu_count()))


def ratios(ours, theirs):
    """Throughput by throughput, processor time per query by the same."""
    if "failed" in ours or "failed" in theirs:
        return float("nan"), float("nan")
    by = lambda name: ours[name] / max(theirs[name], 1e-9)
    return by("tps"), by("cpu_us_per_query")


def oltp(args, directory):
    """Every test with every number of threads; all servers on one line."""
    machine.require(machine.SYSBENCH)
    with servers.running(args, directory, (ESKER, INNODB, MYROCKS)) as running:
        return all_tests(running, args)


def all_tests(running, args):
    results = []
    head = f"{'test':22}{'threads':>8}"
    for s in running:
        head += f"{s.name + ' tps':>14}{'p95 ms':>9}{'cpu us/q':>10}{'err':>6}"
    # Throughput of the first server by that of another, and its processor time per query likewise.
    for s in running[1:]:
        head += f"{'x ' + s.name:>11}{'cpu':>6}"
    print(head, flush=True)
    for s in running:
        took = prepare_tables(s, args)
        print(f"# {s.name}: prepared {args.tables} x {args.size} rows in {took:.1f} s", flush=True)
    for test in args.tests.split(","):
        for threads in map(int, args.threads.split(",")):
            case = {"test": test, "threads": threads}
            line = f"{test:22}{threads:>8}"
            for s in running:
                if test == "bulk_insert":
                    # It prepares one table per thread.
                    prepare(s, test, args, threads)
                m = measure(s, test, threads, args)
                if test == "bulk_insert":
                    sysbench(s, test, args, f"--threads={threads}", "cleanup")
                    prepare_tables(s, args)
                case[s.name] = m
                if "failed" in m:
                    line += f"  FAILED {m['failed'][:28]:28}"
                else:
                    line += (f"{m['tps']:>14.0f}{m['p95_ms']:>9.2f}"
                             f"{m['cpu_us_per_query']:>10.1f}{m['errors']:>6.0f}")
            for s in running[1:]:
                ratio, cpu = ratios(case[running[0].name], case[s.name])
                case[s.name] |= {"ratio": ratio, "cpu_ratio": cpu}
                line += f"{ratio:>11.2f}{cpu:>6.2f}"
            results.append(case)
            print(line, flush=True)
    return results


def on_two_disks(args, directory):
    """'hot' and 'slow': on this disk and then on a slow one, with early lock release on and off."""
    machine.require(machine.SYSBENCH)
    compared = (BINLOG, BINLOG_NO_ELR, INNODB, MYSQL) if args.binlog else (ESKER, NO_ELR, INNODB, MYROCKS)
    more, results = servers.WITH_BINLOG if args.binlog else {}, []
    for delay_us in [0, args.delay_us] if args.delay_us else [0]:
        disk = machine.Disk(delay_us, directory)
        with servers.running(args, directory, compared, disk, more) as running:
            results += side_by_side(running, disk, args)
    return results


def side_by_side(running, disk, args):
    """Every case on all servers, a line for each, with deadlock errors per commit."""
    results = []
    for s in running:
        prepare_tables(s, args)
    print(f"\n{disk.name}: {args.tables} x {args.size} rows\n"
          f"{'test':22}{'threads':>8} {'server':14}{'tps':>10}{'p95 ms':>10}{'cpu us/q':>10}"
          f"{'errors':>8}{'per commit':>12}{'esker is':>10}", flush=True)
    for test in args.tests.split(","):
        for threads in map(int, args.threads.split(",")):
            first = None
            for s in running:
                m = measure(s, test, threads, args)
                results.append({"disk": disk.name, "test": test, "threads": threads,
                                "server": s.name} | m)
                line = f"{test:22}{threads:>8} {s.name:14}"
                if "failed" in m:
                    print(f"{line}  FAILED {m['failed']}", flush=True)
                    continue
                first = first or m["tps"]
                print(f"{line}{m['tps']:>10.0f}{m['p95_ms']:>10.2f}{m['cpu_us_per_query']:>10.1f}"
                      f"{m['errors']:>8.0f}{m['errors_per_commit']:>12.4f}"
                      f"{first / max(m['tps'], 1e-9):>9.2f}x", flush=True)
    return results


def idle_options(parser):
    parser.add_argument("--connections", type=int, default=1024)


def idle(args, directory):
    """Memory per idle connection."""
    results = []
    with servers.running(args, directory, (ESKER, INNODB)) as running:
        for s in running:
            before = machine.rss_kib(s.process.pid)
            sessions = [servers.Login(s.port) for _ in range(args.connections)]
            per = (machine.rss_kib(s.process.pid) - before) / args.connections
            print(f"{s.name}: {args.connections} idle connections, {per:.1f} KiB each", flush=True)
            results.append({"server": s.name, "kib_per_connection": per})
            for session in sessions:
                session.close()
    return results
