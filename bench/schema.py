"""'bench/compare ddl': what a schema change costs those that use the table meanwhile.

Sessions of sysbench's oltp_read_write work on one table. After some undisturbed seconds an index is added to it, then a
column gets another type, then the primary key other columns. Shown for each: how long it took, the throughput during
it as a share of that of the seconds before, and the longest transaction before and during it, in milliseconds.

With --probe: one session has read the table and stays in its transaction, an ALTER TABLE waits for it, and all others
go on with single statements. How long does the longest of them take, and how soon does the ALTER come in where
transactions take 100 ms?
"""
import re, statistics, subprocess, threading, time

import machine, servers, workload
from servers import ESKER, INNODB

CHANGES = [
    ("add index", "ALTER TABLE sbtest1 ADD INDEX ddl_bench (pad)"),
    ("convert column", "ALTER TABLE sbtest1 MODIFY c VARCHAR(130) NOT NULL DEFAULT ''"),
    ("primary key", "ALTER TABLE sbtest1 DROP PRIMARY KEY, ADD PRIMARY KEY (id, k)"),
]
LINE = re.compile(r"tps: ([\d.]+) .*lat \(ms,100%\): ([\d.]+)")


def options(parser):
    workload.table_options(parser)
    parser.set_defaults(memory_mib=1024)
    parser.add_argument("--threads", type=int, default=64)
    parser.add_argument("--calm", type=int, default=15, help="seconds before each change")
    parser.add_argument("--mysql", metavar="ROOT", help="a folder in which a MySQL is unpacked, for chroot")
    parser.add_argument("--probe", action="store_true", help="a reader that stays and an ALTER that waits, instead")


class Load:
    """sysbench, second by second, until it is stopped."""

    def __init__(self, server, test, args):
        command = workload.command(server, test, "--tables=1", f"--table-size={args.size}", "--rand-type=uniform",
                                   f"--mysql-ignore-errors={workload.IGNORED_ERRORS},1412", "--percentile=100",
                                   "--report-interval=1", f"--threads={args.threads}", "--time=36000", "run")
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.seconds = []
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()

    def read(self):
        for line in self.process.stdout:
            if found := LINE.search(line):
                self.seconds.append((time.monotonic(), float(found.group(1)), float(found.group(2))))

    def between(self, begin, end):
        """Mean throughput and longest transaction; the second of a report ends when it is read."""
        inside = [s for s in self.seconds if begin < s[0] <= end + 1]
        return statistics.mean(s[1] for s in inside), max(s[2] for s in inside)

    def stop(self):
        self.process.terminate()
        self.process.wait()


def changes(server, args):
    load = Load(server, "oltp_read_write", args)
    results = []
    for name, sql in CHANGES:
        calm = time.monotonic()
        time.sleep(args.calm)
        begin = time.monotonic()
        answer = server.sql("USE sbtest; " + sql, check=False)
        end = time.monotonic()
        time.sleep(1.5)
        (calm_tps, calm_ms), (tps, longest_ms) = load.between(calm, begin), load.between(begin, end)
        if answer.returncode:
            print(f"# {server.name}: {name} failed after {end - begin:.1f} s: {answer.stderr.strip()}", flush=True)
            continue
        results.append({"server": server.name, "change": name, "seconds": end - begin, "calm_tps": calm_tps, "tps": tps,
                        "share": tps / max(calm_tps, 1e-9), "calm_longest_ms": calm_ms, "longest_ms": longest_ms})
    load.stop()
    return results


def probe(server, args):
    """An ALTER behind a reader that stays for some seconds, beside single statements."""
    load = Load(server, "oltp_point_select", args)
    time.sleep(3)
    begin = time.monotonic()
    hold = f"USE sbtest; BEGIN; SELECT COUNT(*) FROM sbtest1 WHERE id = 1; SELECT SLEEP({args.calm}); COMMIT"
    reader = threading.Thread(target=server.sql, args=(hold,))
    reader.start()
    time.sleep(1)
    asked = time.monotonic()
    server.sql("USE sbtest; ALTER TABLE sbtest1 COMMENT 'probe'")
    came = time.monotonic()
    reader.join()
    time.sleep(1.5)
    tps, longest_ms = load.between(begin, came)
    load.stop()
    return {"server": server.name, "tps": tps, "longest_ms": longest_ms, "alter_seconds": came - asked,
            "reader_seconds": args.calm, "others_in_s": short_transactions(server, args)}


def short_transactions(server, args):
    """Seconds until an ALTER is in where every transaction takes 100 ms."""
    over = threading.Event()
    one = "BEGIN; SELECT COUNT(*) FROM sbtest1 WHERE id = 1; SELECT SLEEP(0.1); COMMIT;"

    def work():
        while not over.is_set():
            server.sql("USE sbtest; " + one * 10)

    workers = [threading.Thread(target=work) for _ in range(8)]
    for worker in workers:
        worker.start()
    time.sleep(0.5)
    begin = time.monotonic()
    server.sql("USE sbtest; ALTER TABLE sbtest1 COMMENT 'again'")
    took = time.monotonic() - begin
    over.set()
    for worker in workers:
        worker.join()
    return took


def run(args, directory):
    """A line per server and change; the figures as a list."""
    machine.require(machine.SYSBENCH)
    print(f"{args.size} rows, {args.memory_mib} MiB of memory, {args.threads} sessions")
    heads = (("tps", "longest ms", "ALTER s", "at 100 ms") if args.probe
             else ("seconds", "calm tps", "share", "longest calm", "longest ms"))
    print(f"{'server':12}{'change':>16}" + "".join(f"{head:>12}" for head in heads), flush=True)
    results = []
    for server in servers.in_turn(args, directory, (ESKER, INNODB)):
        workload.load(server, args)
        lines = [probe(server, args)] if args.probe else changes(server, args)
        for m in lines:
            values = ([m["tps"], m["longest_ms"], m["alter_seconds"], m["others_in_s"]] if args.probe
                      else [m["seconds"], m["calm_tps"], m["share"], m["calm_longest_ms"], m["longest_ms"]])
            print(f"{m['server']:12}{m.get('change', 'probe'):>16}" + "".join(f"{v:>12.2f}" for v in values), flush=True)
        results += lines
    return results
