"""'bench/compare beside': many short transactions with and without somebody who scans all of their tables."""
import os, re, sys, time

import machine, oltp, servers
from servers import ESKER, INNODB


def options(parser):
    parser.add_argument("--tests", default="oltp_read_write,oltp_point_select")
    parser.add_argument("--sessions", type=int, default=64, help="of sysbench")
    parser.add_argument("--scan-threads", default="1,2", help="threads of the scan (Esker only)")
    parser.add_argument("--tables", type=int, default=4)
    parser.add_argument("--size", type=int, default=500_000, help="rows of a table")
    parser.add_argument("--seconds", type=int, default=15, help="of each case")
    parser.add_argument("--text-protocol", action="store_true", help="no prepared statements")


class Scanner(servers.Beside):
    """Reads every row of all tables, again and again, until it is left."""

    def __init__(self, server, threads, args):
        super().__init__(servers.Login(server.port))
        if server.is_esker:
            self.login.tell(f"SET parallel_read_threads = {threads}")
        self.tables, self.size, self.rows = args.tables, args.size, 0

    def work(self):
        while True:
            for table in range(1, self.tables + 1):
                # Changes of k and c; no index has both, so the rows themselves are read.
                self.login.ask(f"SELECT SUM(k) + SUM(LENGTH(c)) FROM sbtest.sbtest{table}")
                if self.is_over:
                    return
                self.rows += self.size

    def rate(self):
        """Rows of a second, of the tables that were read to their end."""
        return self.rows / self.seconds


def measure(server, test, args):
    cpu = server.cpu_seconds()
    run = oltp.sysbench(server, test, args, f"--threads={args.sessions}", f"--time={args.seconds}",
                        "--percentile=99", "run")
    cpu = server.cpu_seconds() - cpu
    if run.returncode != 0 or "FATAL" in run.stdout:
        sys.exit(f"{server.name}: {test} failed\n{(run.stdout + run.stderr)[-2000:]}")
    number = lambda pattern: float(re.search(pattern, run.stdout).group(1))
    return {"tps": number(r"transactions:\s+\d+\s+\(([\d.]+)"),
            "p99_ms": number(r"99th percentile:\s+([\d.]+)"),
            "cores": cpu / args.seconds}


def idle_rate(server, threads, args):
    """Rows of a second when nothing else is asked."""
    with Scanner(server, threads, args) as scanner:
        time.sleep(args.seconds)
    return scanner.rate()


def run(args, directory):
    """For every test: alone, then beside a scan with each number of threads. The tables are in memory."""
    machine.require(machine.SYSBENCH)
    cores, results = os.cpu_count(), []
    with servers.running(args, directory, (ESKER, INNODB)) as running:
        print(f"{args.sessions} sessions, {args.tables} x {args.size} rows, {cores} cores. "
              f"'least': the part of its own throughput that a test keeps if the scan takes no more than its cores\n"
              f"{'test':20}{'server':10}{'scan threads':>13}{'tps':>10}{'of alone':>10}{'least':>7}"
              f"{'p99 ms':>9}{'cores':>7}{'scan rows/s':>13}{'of idle':>9}", flush=True)
        for server in running:
            oltp.prepare_tables(server, args)
        for server in running:
            all_threads = [int(n) for n in args.scan_threads.split(",")] if server.is_esker else [1]
            idle = {threads: idle_rate(server, threads, args) for threads in all_threads}
            for test in args.tests.split(","):
                alone = measure(server, test, args)
                results.append(line(server, test, alone, alone, 0, cores, None, None))
                for threads in all_threads:
                    with Scanner(server, threads, args) as scanner:
                        beside = measure(server, test, args)
                    results.append(line(server, test, beside, alone, threads, cores,
                                        scanner.rate(), idle[threads]))
    return results


def line(server, test, measured, alone, threads, cores, rate, idle):
    kept, least = measured["tps"] / alone["tps"], 1 - min(threads, cores) / cores
    scan = f"{rate:>13.0f}{rate / max(idle, 1):>9.2f}" if threads else ""
    print(f"{test:20}{server.name:10}{threads:>13}{measured['tps']:>10.0f}{kept:>10.2f}{least:>7.2f}"
          f"{measured['p99_ms']:>9.2f}{measured['cores']:>7.2f}{scan}", flush=True)
    return {"test": test, "server": server.name, "scan_threads": threads, "of_alone": kept,
            "least": least, "scan_rows_per_second": rate, "idle_scan_rows_per_second": idle} | measured
