"""'bench/compare documents': JSON documents, filtered and read by one path, and what they take on disk.

Each server loads the same --size documents of about 400 bytes, optimizes the table, and answers queries that look at
one path of every document; shown is the shortest of --rounds times. The answers must be the same everywhere. MariaDB is
no peer here: its JSON is text, and it has no `->`.
"""
import json, os, random, subprocess, sys, time

import servers
from servers import ESKER, MYSQL

# Each looks at every document.
QUERIES = {
    "count one path's text": "SELECT COUNT(*) FROM docs WHERE doc->>'$.city' = 'Lisbon'",
    "count one path's number": "SELECT COUNT(*) FROM docs WHERE doc->'$.total' > 900",
    "sum of a nested path": "SELECT SUM(doc->>'$.customer.points') FROM docs",
    "count of an array's element": "SELECT COUNT(*) FROM docs WHERE doc->>'$.items[1].sku' = 'K0017'",
    "count of what contains": "SELECT COUNT(*) FROM docs WHERE JSON_CONTAINS(doc, '\"red\"', '$.tags')",
    "groups of a path": "SELECT SUM(n * n) FROM (SELECT COUNT(*) AS n FROM docs GROUP BY doc->>'$.city') AS g",
}
CITIES = ("Lisbon", "Oslo", "Kyoto", "Quito", "Dakar", "Turin", "Perth", "Leeds")
TAGS = ("red", "green", "blue", "new", "sale", "gift", "bulk", "fragile")
BATCH = 500
# What the table takes on disk, by whether the server is Esker.
SIZE = {True: "SELECT LEVEL0_BYTES + LEVEL1_BYTES + LEVEL2_BYTES FROM information_schema.ESKER_TREES "
              "WHERE TABLE_NAME = 'docs'",
        False: "SELECT FILE_SIZE FROM information_schema.INNODB_TABLESPACES WHERE NAME = 'd/docs'"}


def options(parser):
    parser.add_argument("--size", type=int, default=1_000_000, help="documents")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--mysql", metavar="ROOT", help="a folder in which a MySQL is unpacked, for chroot")


def document(number, dice):
    """One order of a shop."""
    items = [{"sku": f"K{dice.randrange(100):04}", "count": dice.randrange(1, 9), "price": dice.randrange(100, 9999) / 100}
             for _ in range(dice.randrange(2, 5))]
    return {"id": number, "city": dice.choice(CITIES), "total": dice.randrange(100000) / 100,
            "paid": dice.random() < 0.8, "tags": dice.sample(TAGS, 3), "items": items,
            "customer": {"name": f"customer {dice.randrange(50000)}", "points": dice.randrange(1000),
                         "address": {"street": f"Long Street {dice.randrange(300)}", "zip": f"{dice.randrange(99999):05}"}}}


def write_load(path, args):
    dice = random.Random(7)
    with open(path, "w") as out:
        for first in range(0, args.size, BATCH):
            rows = ",".join(f"({n}, '{json.dumps(document(n, dice))}')" for n in range(first, min(first + BATCH, args.size)))
            out.write(f"INSERT INTO docs VALUES {rows};\n")


def measure(server, args, load):
    server.sql("CREATE DATABASE d; CREATE TABLE d.docs (id INT PRIMARY KEY, doc JSON NOT NULL)")
    started = time.time()
    with open(load) as text:
        subprocess.run(server.client("d"), stdin=text, check=True)
    took = time.time() - started
    server.sql("OPTIMIZE TABLE d.docs")
    login = servers.Login(server.port)
    login.tell("USE d")
    m = {"server": server.name, "load_s": took, "megabytes": int(login.ask(SIZE[server.is_esker])) / 1e6,
         "queries": {}, "answers": {}}
    for what, query in QUERIES.items():
        times = []
        for _ in range(args.rounds):
            started = time.time()
            m["answers"][what] = float(login.ask(query))
            times.append(time.time() - started)
        m["queries"][what] = min(times)
    login.close()
    return m


def run(args, directory):
    """A line per query and server; the figures as a list."""
    load = os.path.join(directory, "load.sql")
    write_load(load, args)
    print(f"{args.size} documents, {os.path.getsize(load) / args.size:.0f} bytes of text each, shortest of {args.rounds}\n"
          f"{'':32}{'server':12}{'seconds':>10}{'esker is':>11}", flush=True)
    results = []
    for server in servers.in_turn(args, directory, (ESKER, MYSQL)):
        m = measure(server, args, load)
        ours = results[0] if results else m
        if m["answers"] != ours["answers"]:
            sys.exit(f"{m['server']} answers {m['answers']}, {ours['server']} {ours['answers']}")
        for what, seconds in {"load": m["load_s"], **m["queries"]}.items():
            theirs = "" if m is ours else f"{seconds / {'load': ours['load_s'], **ours['queries']}[what]:>10.1f}x"
            print(f"{what:32}{m['server']:12}{seconds:>10.3f}{theirs}", flush=True)
        share = "" if m is ours else f"{ours['megabytes'] / m['megabytes']:>11.2f}"
        print(f"{'megabytes on disk':32}{m['server']:12}{m['megabytes']:>10.0f}{share}", flush=True)
        results.append(m)
    return results
