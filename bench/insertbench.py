"""'bench/compare insertbench': a table that grows at its tail and is deleted at its head, and reads beside that.

Rows are loaded in the order of their key; three secondary indexes are built; transactions insert rows and delete as
many of the oldest, as fast as they can and then at fixed rates, beside short ranges of the indexes, beside points and
beside the smallest key (bench/insertbench.lua). The steps are those of the "insert benchmark" that MySQL's and MyRocks'
developers use. One server after the other, each alone.

By default all of it is in memory. 1.75 million rows are some 245 MiB of InnoDB's with their indexes, so
`--rows 1750000 --memory-mib 64` gives InnoDB four times more data than memory ('table MiB' is what each server says of
them; Esker compresses). `--steady SECONDS` asks instead of the steps whether the smallest key is found as fast after a long time:
rows are inserted and deleted at the first of the rates, and MIN is asked twenty times a second.
"""
import os, re, subprocess, sys, time

import machine, servers, workload
from servers import ESKER, INNODB, MYROCKS, MYSQL

LUA = os.path.join(os.path.dirname(os.path.abspath(__file__)), "insertbench.lua")
INDEXES = ("ALTER TABLE purchases ADD INDEX register_price_customer (register, price, customer), "
           "ADD INDEX price_customer (price, customer), ADD INDEX price_at_customer (price, at, customer)")
BATCHES = (50, 5)
SIZE = ("ANALYZE TABLE sbtest.purchases; SELECT data_length + index_length FROM information_schema.tables "
        "WHERE table_name = 'purchases'")


def options(parser):
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--seconds", type=int, default=30, help="of each step")
    parser.add_argument("--rates", default="100,500,1000", help="rows inserted and deleted a second beside reads")
    parser.add_argument("--read-threads", type=int, default=1)
    parser.add_argument("--no-hint", action="store_true", help="let the optimizer choose the index of a range")
    parser.add_argument("--steady", type=int, metavar="SECONDS", help="only MIN, beside the first of the rates")
    parser.add_argument("--mysql", metavar="ROOT", help="a folder in which a MySQL is unpacked, for chroot")


class Table:
    """The table on one server: what its ids are, and sysbench on it."""

    def __init__(self, server, args):
        self.server, self.args, self.low, self.high = server, args, 1, args.rows

    def command(self, step, *more):
        return workload.command(self.server, LUA, f"--rows={self.args.rows}", f"--step={step}", f"--low={self.low}",
                                f"--high={self.high}", f"--hint={'off' if self.args.no_hint else 'on'}", *more)

    def start(self, *command):
        return subprocess.Popen(self.command(*command), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                env=os.environ | {"BENCH_ENGINE": self.server.storage_engine})

    def finish(self, process):
        text = process.communicate()[0]
        if process.returncode != 0 or "FATAL" in text:
            sys.exit(f"{self.server.name}: {text[-2000:]}")
        return text

    def load(self):
        started = time.time()
        self.finish(self.start("change", "prepare"))
        return self.args.rows / (time.time() - started)

    def index(self):
        started = time.time()
        self.server.sql(f"USE sbtest; {INDEXES}")
        return self.args.rows / (time.time() - started)

    def begin_changes(self, batch, seconds, rate=0):
        return self.start("change", "--threads=1", f"--batch={batch}", f"--time={seconds}", f"--rate={rate}", "run")

    def end_changes(self, process, batch):
        """Rows inserted a second, and the longest change in milliseconds."""
        text = self.finish(process)
        events = int(workload.number(text, r"total number of events:\s+(\d+)"))
        self.low, self.high = self.low + events * batch, self.high + events * batch
        return (events * batch / workload.number(text, r"total time:\s+([\d.]+)s"),
                workload.number(text, r"max:\s+([\d.]+)"))

    def beside(self, step, rate):
        """What is read beside changes at a rate: events a second, median and longest in milliseconds."""
        batch = BATCHES[0]
        changes = self.begin_changes(batch, self.args.seconds, max(1, rate // batch)) if rate else None
        threads = self.args.read_threads if step != "min" else 1
        text = self.finish(self.start(step, f"--threads={threads}", f"--time={self.args.seconds}", "--percentile=50",
                                      "run"))
        if changes:
            self.end_changes(changes, batch)
        return (workload.number(text, r"transactions:\s+\d+\s+\(([\d.]+) per sec") if "transactions:" in text else
                workload.number(text, r"events/s \(eps\):\s+([\d.]+)"),
                workload.number(text, r"50th percentile:\s+([\d.]+)"), workload.number(text, r"max:\s+([\d.]+)"))

    def smallest_while_deleting(self):
        """The smallest key beside changes as fast as they can be."""
        changes = self.begin_changes(BATCHES[0], self.args.seconds)
        text = self.finish(self.start("min", "--threads=1", f"--time={self.args.seconds}", "--percentile=50", "run"))
        self.end_changes(changes, BATCHES[0])
        return workload.number(text, r"50th percentile:\s+([\d.]+)"), workload.number(text, r"max:\s+([\d.]+)")

    def smallest_for_long(self, rate):
        """MIN beside changes at a rate."""
        changes = self.begin_changes(BATCHES[0], self.args.steady, max(1, rate // BATCHES[0]))
        login = servers.Login(self.server.port)
        login.tell("USE sbtest")
        with servers.Asked(login, "SELECT MIN(id) FROM purchases") as asked:
            self.end_changes(changes, BATCHES[0])
        return asked


def disk_mib(server):
    directory = server.remove or server.directory
    return int(subprocess.run(["du", "-sm", directory], capture_output=True, text=True).stdout.split()[0])


def written_mib(pid):
    with open(f"/proc/{pid}/io") as f:
        return int(re.search(r"write_bytes: (\d+)", f.read()).group(1)) >> 20


def measure(server, args):
    server.sql("CREATE DATABASE sbtest")
    table, found = Table(server, args), {"server": server.name}
    found["load rows/s"] = table.load()
    found["index rows/s"] = table.index()
    found["table MiB"] = int(server.sql(SIZE).stdout.split()[-1]) / 2**20
    measure_steady(table, found, args) if args.steady else measure_steps(table, found, args)
    found["resident MiB"] = machine.rss_kib(server.process.pid) / 1024
    found["disk MiB"], found["written MiB"] = disk_mib(server), written_mib(server.process.pid)
    count = int(server.sql("SELECT COUNT(*) FROM sbtest.purchases").stdout.split()[-1])
    if count != args.rows:
        sys.exit(f"{server.name}: {count} rows are left of {args.rows}")
    return found


def measure_steady(table, found, args):
    asked = table.smallest_for_long(int(args.rates.split(",")[0]))
    for is_last, when in enumerate(("first", "last")):
        found[f"min, {when} tenth, median ms"], found[f"min, {when} tenth, max ms"] = asked.tenth(is_last)


def measure_steps(table, found, args):
    for batch in BATCHES:
        rate, longest = table.end_changes(table.begin_changes(batch, args.seconds), batch)
        found[f"change {batch} rows/s"], found[f"change {batch} max ms"] = rate, longest
    for rate in map(int, args.rates.split(",")):
        for step in ("ranges", "points", "min"):
            found[f"{step} beside {rate}/s"], median, longest = table.beside(step, rate)
            if step == "min":
                found[f"min beside {rate} median ms"], found[f"min beside {rate} max ms"] = median, longest
    found["min while deleting median ms"], found["min while deleting max ms"] = table.smallest_while_deleting()


def run(args, directory):
    """A column per server, a line per step; the figures as a list."""
    machine.require(machine.SYSBENCH)
    results = []
    for server in servers.in_turn(args, directory, (ESKER, INNODB, MYROCKS, MYSQL)):
        results.append(measure(server, args))
    print(f"{args.rows} rows, {args.steady or args.seconds} s a step, {args.read_threads} threads read\n{'':32}"
          + "".join(f"{found['server']:>14}" for found in results))
    for step in [key for key in results[0] if key != "server"]:
        print(f"{step:32}" + "".join(f"{found[step]:>14,.2f}" for found in results), flush=True)
    return results
