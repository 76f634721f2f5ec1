"""'bench/compare references': the price of a foreign key.

One row at a time is inserted into a table of children, by several sessions, each insert committed: with an index on the
parent's number, and with a foreign key on it, of parents that are there (--parents, drawn evenly). Then parents with
--children children each are deleted, one statement each, whose foreign key deletes the children (ON DELETE CASCADE).
"""
import os, sys, time

import machine, servers, workload
from servers import ESKER, INNODB, MYSQL

SCRIPT = os.path.join(machine.HERE, "references.lua")
PLAIN, REFERRING = "index only", "foreign key"
# Rows of one INSERT of the preparation.
BATCH = 1000


def options(parser):
    parser.add_argument("--seconds", type=int, default=10, help="of each case of inserts")
    parser.add_argument("--rounds", type=int, default=3, help="of both cases of inserts, in turn; the median is shown")
    parser.add_argument("--threads", type=int, default=16)
    parser.add_argument("--parents", type=int, default=10_000)
    parser.add_argument("--deleted", type=int, default=200, help="parents")
    parser.add_argument("--children", type=int, default=1_000, help="of each parent that is deleted")
    parser.add_argument("--mysql", metavar="ROOT", help="a folder in which a MySQL is unpacked, for chroot")


def fill(login, table, rows):
    """Inserts the rows, texts in parentheses."""
    batch = []
    for row in rows:
        batch.append(row)
        if len(batch) == BATCH:
            login.tell(f"INSERT INTO {table} VALUES {','.join(batch)}")
            batch.clear()
    if batch:
        login.tell(f"INSERT INTO {table} VALUES {','.join(batch)}")


def open_session(server):
    login = servers.Login(server.port)
    login.tell("USE refs")
    return login


def prepare(server, args):
    server.sql("CREATE DATABASE refs")
    login, engine = open_session(server), server.storage_engine
    columns = "id BIGINT AUTO_INCREMENT PRIMARY KEY, parent INT NOT NULL, note VARCHAR(60) NOT NULL, KEY (parent)"
    login.tell(f"CREATE TABLE parents (id INT PRIMARY KEY, name VARCHAR(60) NOT NULL) ENGINE={engine}")
    login.tell(f"CREATE TABLE plain ({columns}) ENGINE={engine}")
    login.tell(f"CREATE TABLE referring ({columns}, FOREIGN KEY (parent) REFERENCES parents (id)) ENGINE={engine}")
    fill(login, "parents", (f"({n}, 'parent {n}')" for n in range(args.parents)))
    login.tell(f"CREATE TABLE owners (id INT PRIMARY KEY) ENGINE={engine}")
    login.tell(f"CREATE TABLE owned ({columns}, FOREIGN KEY (parent) REFERENCES owners (id) ON DELETE CASCADE) "
               f"ENGINE={engine}")
    fill(login, "owners", (f"({n})" for n in range(args.deleted)))
    # Children of one parent do not lie side by side.
    fill(login, "owned (parent, note)", (f"({n}, 'child {c} of its parent')" for c in range(args.children)
                                         for n in range(args.deleted)))
    login.close()


def inserts(server, table, args):
    """Inserts per second of all sessions."""
    command = workload.command(server, SCRIPT, f"--threads={args.threads}", f"--time={args.seconds}",
                               f"--children={table}", f"--parents={args.parents}", "run", database="refs")
    return workload.number(workload.run(server, command), r"transactions: +\d+ +\(([\d.]+) per sec")


def deletes(server, args):
    """Milliseconds for a parent and its children, and whether all are gone."""
    login = open_session(server)
    started = time.time()
    for parent in range(args.deleted):
        login.tell(f"DELETE FROM owners WHERE id = {parent}")
    took = time.time() - started
    left = int(login.ask("SELECT COUNT(*) FROM owned"))
    login.close()
    if left:
        sys.exit(f"{server.name}: {left} children have outlived their parents")
    return took / args.deleted * 1000


def measure(server, args):
    prepare(server, args)
    rates = {PLAIN: [], REFERRING: []}
    for _ in range(args.rounds):
        for what, table in ((PLAIN, "plain"), (REFERRING, "referring")):
            rates[what].append(inserts(server, table, args))
    median = {what: sorted(found)[len(found) // 2] for what, found in rates.items()}
    return {"server": server.name, "plain_per_s": median[PLAIN], "referring_per_s": median[REFERRING],
            "share": median[REFERRING] / median[PLAIN], "delete_ms": deletes(server, args)}


def run(args, directory):
    """A line per server; the figures as a list."""
    machine.require(machine.SYSBENCH)
    print(f"{args.threads} sessions, {args.seconds} s, {args.parents} parents; {args.deleted} parents deleted with "
          f"{args.children} children each\n"
          f"{'server':14}{PLAIN + ', inserts/s':>24}{REFERRING + ', inserts/s':>25}{'share':>7}{'delete, ms':>12}", flush=True)
    results = []
    for server in servers.in_turn(args, directory, (ESKER, INNODB, MYSQL)):
        m = measure(server, args)
        print(f"{m['server']:14}{m['plain_per_s']:>24.0f}{m['referring_per_s']:>25.0f}{m['share']:>7.2f}"
              f"{m['delete_ms']:>12.2f}", flush=True)
        results.append(m)
    return results
