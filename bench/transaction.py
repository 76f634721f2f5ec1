"""'bench/compare transaction': one transaction of many rows, committed and rolled back.

One server after the other, each alone. Rows are inserted by statements of a thousand, in the order of their keys, into a table
with a secondary index; then all of them are updated and deleted by one statement each.
"""
import time

import servers
from servers import ESKER, INNODB, MYROCKS

ROWS_PER_STATEMENT = 1000
TABLE = "CREATE TABLE t (id INT PRIMARY KEY, k INT NOT NULL, c VARCHAR(120) NOT NULL, KEY k (k)) ENGINE={engine}"


def options(parser):
    parser.add_argument("--size", type=int, default=1_000_000, help="rows of the transaction")
    parser.set_defaults(memory_mib=1024)


def insert(start, count):
    """Values that are the same on every server; `k` is scattered."""
    rows = (f"({n},{n * 2_654_435_761 % 1_000_000_007},'{n:0120d}')" for n in range(start, start + count))
    return "INSERT INTO t VALUES " + ",".join(rows)


class Run:
    """A session and what it measured."""

    def __init__(self, server, args):
        self.server, self.login, self.size, self.results = server, servers.Login(server.port), args.size, []
        self.inserts = [insert(start, min(ROWS_PER_STATEMENT, args.size - start))
                        for start in range(0, args.size, ROWS_PER_STATEMENT)]

    def measure(self, what, statements, end, rows):
        """Runs the statements in one transaction; then the table must have so many rows."""
        started = time.perf_counter()
        self.login.tell("BEGIN")
        for statement in statements:
            self.login.tell(statement)
        worked = time.perf_counter()
        self.login.tell(end)
        ended = time.perf_counter()
        assert int(self.login.ask("SELECT COUNT(*) FROM t")) == rows, what
        self.results.append({"server": self.server.name, "what": f"{what}, {end}", "statements_s": worked - started,
                             "end_s": ended - worked, "seconds": ended - started})

    def all(self):
        self.server.sql("CREATE DATABASE big")
        self.login.tell("USE big")
        self.login.tell(TABLE.format(engine=self.server.storage_engine))
        update, delete = ["UPDATE t SET k = k + 1"], ["DELETE FROM t"]
        self.measure("insert", self.inserts, "ROLLBACK", 0)
        self.measure("insert", self.inserts, "COMMIT", self.size)
        self.measure("update", update, "ROLLBACK", self.size)
        self.measure("update", update, "COMMIT", self.size)
        self.measure("delete", delete, "ROLLBACK", self.size)
        self.measure("delete", delete, "COMMIT", 0)
        return self.results


def run(args, directory):
    """A line per server and transaction; the figures as a list."""
    print(f"{args.size} rows in one transaction, {args.memory_mib} MiB of memory\n"
          f"{'server':10}{'transaction':20}{'statements s':>14}{'end s':>10}{'all s':>10}{'esker is':>10}", flush=True)
    results, ours = [], {}
    for server in servers.in_turn(args, directory, (ESKER, INNODB, MYROCKS)):
        for m in Run(server, args).all():
            ours.setdefault(m["what"], m["seconds"])
            ratio = "" if server.is_esker else f"{m['seconds'] / ours[m['what']]:>9.2f}x"
            print(f"{m['server']:10}{m['what']:20}{m['statements_s']:>14.2f}{m['end_s']:>10.2f}{m['seconds']:>10.2f}{ratio}",
                  flush=True)
            results.append(m)
    return results
