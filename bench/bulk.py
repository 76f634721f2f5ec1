"""'bench/compare bulk': TPC-H's lineitem with its three secondary indexes, loaded by LOAD DATA and restored from a dump.

The rows are those of tpch/generate.py. LOAD DATA reads a text file of the client; the dump is statements of a thousand
rows as mysqldump writes them. Each load goes into an empty table, and its rows are counted and summed afterwards.
"""
import os, re, subprocess, sys, time

import servers
from servers import ESKER, INNODB, MYSQL

HERE = os.path.dirname(os.path.abspath(__file__))
INSERT = "INSERT INTO lineitem VALUES "
BEFORE = "SET unique_checks = 0, foreign_key_checks = 0; LOCK TABLES lineitem WRITE; ALTER TABLE lineitem DISABLE KEYS;\n"
AFTER = "ALTER TABLE lineitem ENABLE KEYS; UNLOCK TABLES;\n"
SUMS = "SELECT COUNT(*), SUM(l_orderkey * l_linenumber), SUM(l_extendedprice) FROM lineitem"


def options(parser):
    parser.add_argument("--scale", type=float, default=1, help="1 is 6 million rows")
    parser.add_argument("--mysql", metavar="ROOT", help="a folder in which a MySQL is unpacked, for chroot")


def write_files(args, text, dump):
    """The rows as a text file and as a dump; how many."""
    generator = [sys.executable, os.path.join(HERE, "tpch", "generate.py"), f"--scale={args.scale}"]
    rows = 0
    with subprocess.Popen(generator, stdout=subprocess.PIPE, text=True) as made, \
            open(text, "w") as fields, open(dump, "w") as statements:
        statements.write(BEFORE)
        for line in made.stdout:
            if not line.startswith(INSERT):
                continue
            statements.write(line)
            # No value has a comma, a quote or a parenthesis in it.
            values = line[len(INSERT) + 1:-3].replace("'", "").split("),(")
            fields.writelines(row.replace(",", "\t") + "\n" for row in values)
            rows += len(values)
        statements.write(AFTER)
    return rows


def timed(server, command, stdin=None):
    started = time.time()
    done = subprocess.run(server.client("--local-infile=1", "--max-allowed-packet=64M", "d", *command), stdin=stdin,
                          capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{server.name}: {done.stderr[-2000:]}")
    return time.time() - started, done.stdout.split("\n")[-2:]


def measure(server, args, text, dump):
    with open(os.path.join(HERE, "tpch", "schema.sql")) as f:
        table = re.search(r"CREATE TABLE lineitem .*;", f.read()).group()
    server.sql(f"SET GLOBAL local_infile = 1; CREATE DATABASE d; USE d; {table}")
    m = {"server": server.name}
    m["load"], _ = timed(server, ("-e", f"LOAD DATA LOCAL INFILE '{text}' INTO TABLE lineitem"))
    _, loaded = timed(server, ("-e", SUMS))
    server.sql(f"USE d; DROP TABLE lineitem; {table}")
    with open(dump) as statements:
        m["restore"], _ = timed(server, (), statements)
    _, m["sums"] = timed(server, ("-e", SUMS))
    if loaded != m["sums"]:
        sys.exit(f"{server.name}: loaded {loaded}, restored {m['sums']}")
    return m


def run(args, directory):
    """A line per load and server; the figures as a list."""
    text, dump = (os.path.join(directory, name) for name in ("lineitem.tsv", "lineitem.sql"))
    rows = write_files(args, text, dump)
    print(f"{rows} rows, {os.path.getsize(text) / 1e6:.0f} MB of text\n"
          f"{'':12}{'server':16}{'seconds':>10}{'rows/s':>12}{'esker is':>11}", flush=True)
    results = []
    for server in servers.in_turn(args, directory, (ESKER, INNODB, MYSQL)):
        m = measure(server, args, text, dump)
        ours = results[0] if results else m
        if m["sums"] != ours["sums"]:
            sys.exit(f"{m['server']} has {m['sums']}, {ours['server']} {ours['sums']}")
        for what in ("load", "restore"):
            theirs = "" if m is ours else f"{m[what] / ours[what]:>10.2f}x"
            print(f"{what:12}{m['server']:16}{m[what]:>10.2f}{rows / m[what]:>12,.0f}{theirs}", flush=True)
        results.append(m)
    return results
