"""'bench/compare queue': a table that is used as a queue. Does the first row become harder to find while rows pass through?

A row is appended, the first one is found and deleted, again and again (bench/queue.lua). One server after the other,
each alone; the table has the throughput of the first and of the last seconds, the longest event, and then how long the
first row, the smallest key and the number of rows take to find when all are deleted at once and one more has come.
With `--rate` the throughput is given, and another session finds the first row twenty times a second meanwhile: the
table has the median of the first and of the last tenth of the time.
"""
import os, re, subprocess, time

import machine, servers, workload
from servers import ESKER, INNODB, MYROCKS

LUA = os.path.join(os.path.dirname(os.path.abspath(__file__)), "queue.lua")
# Throughput of the beginning and of the end is that of so many seconds, or of a third of the run if it is shorter.
EDGE_SECONDS = 5
FIRST = "SELECT id FROM jobs ORDER BY id LIMIT 1"
AFTER = (FIRST, "SELECT MIN(id) FROM jobs", "SELECT COUNT(*) FROM jobs")


def options(parser):
    parser.add_argument("--seconds", type=int, default=60, help="of each case")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rate", type=int, default=0, help="events a second; as many as can be if 0")
    parser.add_argument("--backlog", type=int, default=100, help="rows that wait all the time")
    parser.add_argument("--claims", default="plain,skip-locked", help="of plain,skip-locked")
    parser.add_argument("--history", action="store_true",
                        help="a transaction elsewhere keeps its snapshot for the first half of the time")


def sysbench(server, args, claim, *command):
    started = workload.command(server, LUA, f"--backlog={args.backlog}", f"--claim={claim}",
                               f"--threads={args.threads}", f"--mysql-ignore-errors={workload.IGNORED_ERRORS}",
                               *command)
    return workload.run(server, started, os.environ | {"QUEUE_ENGINE": server.storage_engine})


def milliseconds(login, text):
    started = time.time()
    login.ask(text)
    return (time.time() - started) * 1000


def session(server):
    login = servers.Login(server.port)
    login.tell("USE sbtest")
    return login


def measure(server, args, claim):
    sysbench(server, args, claim, "prepare")
    history = None
    if args.history:
        history = subprocess.Popen(server.client("sbtest", "-e", "START TRANSACTION WITH CONSISTENT SNAPSHOT; "
                                                 f"SELECT COUNT(*) FROM jobs; SELECT SLEEP({args.seconds / 2})"),
                                   stdout=subprocess.DEVNULL)
    command = (f"--time={args.seconds}", f"--rate={args.rate}", "--report-interval=1", "run")
    beside = []
    if args.rate:
        with servers.Asked(session(server), FIRST) as asked:
            text = sysbench(server, args, claim, *command)
        beside = [asked.tenth(is_last)[0] for is_last in (False, True)]
    else:
        text = sysbench(server, args, claim, *command)
    if history:
        history.wait()
    rate = [float(value) for value in re.findall(r"^\[ \d+s \].* eps: ([\d.]+)|^\[ \d+s \].* tps: ([\d.]+)", text, re.M)
            for value in value if value]
    edge = min(EDGE_SECONDS, max(1, len(rate) // 3))
    first, last = sum(rate[:edge]) / edge, sum(rate[-edge:]) / edge
    login = session(server)
    login.tell("DELETE FROM jobs")
    login.tell("INSERT INTO jobs (state, payload) VALUES (1, 'the last')")
    after = [milliseconds(login, query) for query in AFTER]
    login.close()
    return {"server": server.name, "claim": claim, "events": int(workload.number(text, r"total number of events:\s+(\d+)")),
            "first": first, "last": last, "least": min(rate), "last_by_first": last / max(first, 1e-9),
            "p95_ms": workload.number(text, r"95th percentile:\s+([\d.]+)"),
            "max_ms": workload.number(text, r"max:\s+([\d.]+)"), "beside_ms": beside, "after_ms": after, "by_second": rate}


def run(args, directory):
    """A line per server and way to claim a row; the figures as a list."""
    machine.require(machine.SYSBENCH)
    print(f"{args.threads} threads, {args.backlog} rows waiting, {args.seconds} s\n"
          f"{'server':10}{'claim':13}{'events':>9}{'first/s':>9}{'last/s':>9}{'least/s':>9}{'last/first':>12}{'p95 ms':>9}"
          f"{'max ms':>9}{'then: LIMIT 1':>15}{'MIN':>8}{'COUNT ms':>10}"
          + f"{'beside: first':>15}{'last ms':>12}" * bool(args.rate), flush=True)
    results = []
    for server in servers.in_turn(args, directory, (ESKER, INNODB, MYROCKS)):
        server.sql("CREATE DATABASE sbtest")
        for claim in args.claims.split(","):
            m = measure(server, args, claim)
            after = m["after_ms"]
            print(f"{m['server']:10}{claim:13}{m['events']:>9}{m['first']:>9.0f}{m['last']:>9.0f}{m['least']:>9.0f}"
                  f"{m['last_by_first']:>12.2f}{m['p95_ms']:>9.2f}{m['max_ms']:>9.1f}{after[0]:>15.2f}{after[1]:>8.2f}"
                  f"{after[2]:>10.2f}" + "".join(f"{ms:>{width}.3f}" for ms, width in zip(m["beside_ms"], (15, 12))), flush=True)
            results.append(m)
    return results
