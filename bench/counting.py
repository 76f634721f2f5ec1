"""'bench/compare counting': COUNT(*) of a large table of which a small part has changed, with and without a session that goes on changing it.

The table is loaded and settled; then more and more of its rows, chosen at random, are updated. 'first' is the first count after that, which nobody
has prepared. What is updated beside the counts is changed already, so the share stays.
"""
import os, random, statistics, subprocess, time

import servers
from servers import ESKER, INNODB

TABLE = "CREATE TABLE t (id BIGINT PRIMARY KEY, k INT NOT NULL, c CHAR(40) NOT NULL) ENGINE={engine}"
ROWS_PER_TRANSACTION = 1000
# However short the counts are, what goes on beside them is measured for so long.
LEAST_SECONDS = 2


def options(parser):
    parser.add_argument("--size", type=int, default=10_000_000, help="rows of the table")
    parser.add_argument("--shares", default="0,0.25,0.5,1", help="per cent of the rows that have changed, ascending")
    parser.add_argument("--repeat", type=int, default=15, help="counts of each case, and more for two seconds; of those after the first the median shows")


class Updater(servers.Beside):
    """A session that goes on updating these rows."""

    def __init__(self, server, rows):
        super().__init__(session(server))
        self.rows, self.updates = rows, 0

    def work(self):
        while not self.is_over:
            self.login.tell(f"UPDATE t SET k = k + 1 WHERE id = {random.choice(self.rows)}")
            self.updates += 1

    def rate(self):
        """Updates of a second."""
        return self.updates / self.seconds


def session(server):
    login = servers.Login(server.port)
    login.tell("USE counting")
    return login


def load(server, file):
    server.sql("CREATE DATABASE counting; USE counting; " + TABLE.format(engine=server.storage_engine))
    statements = f"SET GLOBAL local_infile = 1; LOAD DATA LOCAL INFILE '{file}' INTO TABLE t; OPTIMIZE TABLE t"
    subprocess.run(server.client("--local-infile=1", "counting", "-e", statements), check=True, stdout=subprocess.DEVNULL)


def update(server, rows):
    login = session(server)
    for start in range(0, len(rows), ROWS_PER_TRANSACTION):
        login.tell("BEGIN")
        for row in rows[start:start + ROWS_PER_TRANSACTION]:
            login.tell(f"UPDATE t SET k = k + 1 WHERE id = {row}")
        login.tell("COMMIT")
    login.close()


def count(server, args):
    """Milliseconds of the first count, and the median of all that follow (if none does, the first)."""
    login, taken, ends = session(server), [], time.perf_counter() + LEAST_SECONDS
    while len(taken) < args.repeat or time.perf_counter() < ends:
        started = time.perf_counter()
        counted = int(login.ask("SELECT COUNT(*) FROM t"))
        taken.append((time.perf_counter() - started) * 1000)
        assert counted == args.size, f"{server.name} counts {counted} rows of {args.size}"
    login.close()
    return taken[0], statistics.median(taken[1:] or taken)


def measure(server, args, file):
    """A figure for every share."""
    load(server, file)
    shares = [float(share) for share in args.shares.split(",")]
    order, changed = random.Random(1).sample(range(args.size), round(args.size * max(shares) / 100)), 0
    count(server, args)  # What is cold.
    for share in shares:
        rows = order[:round(args.size * share / 100)]
        update(server, rows[changed:])
        changed = len(rows)
        first, alone = count(server, args)
        figures = {"server": server.name, "share_percent": share, "first_ms": first, "alone_ms": alone}
        if rows:
            with Updater(server, rows) as updater:
                _, beside = count(server, args)
            figures |= {"beside_ms": beside, "updates_per_second": updater.rate()}
        yield figures


def run(args, directory):
    """A line per server and share; the figures as a list."""
    file, results = os.path.join(directory, "rows.tsv"), []
    with open(file, "w") as f:
        f.writelines(f"{n}\t{n * 2_654_435_761 % 1_000_000_007}\t{n:040d}\n" for n in range(args.size))
    print(f"{args.size} rows, {args.memory_mib} MiB of memory\n"
          f"{'server':10}{'changed %':>10}{'first ms':>12}{'again ms':>12}{'beside an updater ms':>22}{'updates/s':>11}", flush=True)
    for server in servers.in_turn(args, directory, (ESKER, INNODB)):
        for m in measure(server, args, file):
            beside = f"{m['beside_ms']:>22.2f}{m['updates_per_second']:>11.0f}" if "beside_ms" in m else ""
            print(f"{m['server']:10}{m['share_percent']:>10}{m['first_ms']:>12.2f}{m['alone_ms']:>12.2f}{beside}", flush=True)
            results.append(m)
    return results
