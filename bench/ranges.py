"""'bench/compare ranges': inserts beside range locks that others hold.

A table has a primary key and an index on a number. --holders sessions each lock a range of --width numbers of the index
at REPEATABLE READ (SELECT ... FOR UPDATE) and keep it, in the lower half of the numbers. Meanwhile sessions insert rows
one by one, each committed, whose numbers lie in the upper half: nobody has to wait. The same is measured before with no
range locked.
"""
import os

import machine, references, servers, workload
from servers import ESKER, INNODB, MYSQL

SCRIPT = os.path.join(machine.HERE, "ranges.lua")


def options(parser):
    parser.add_argument("--seconds", type=int, default=8, help="of each case")
    parser.add_argument("--rounds", type=int, default=3, help="of both cases, in turn; the median is shown")
    parser.add_argument("--threads", type=int, default=16)
    parser.add_argument("--size", type=int, default=200_000, help="rows at the beginning, of as many numbers")
    parser.add_argument("--holders", type=int, default=20)
    parser.add_argument("--width", type=int, default=100, help="numbers of each range")
    parser.add_argument("--mysql", metavar="ROOT", help="a folder in which a MySQL is unpacked, for chroot")


def prepare(server, args):
    server.sql("CREATE DATABASE ranges")
    login = servers.Login(server.port)
    login.tell("USE ranges")
    login.tell("CREATE TABLE t (id BIGINT AUTO_INCREMENT PRIMARY KEY, k INT NOT NULL, note VARCHAR(60) NOT NULL, KEY (k)) "
               f"ENGINE={server.storage_engine}")
    references.fill(login, "t (k, note)", (f"({k}, 'row {k}')" for k in range(args.size)))
    login.close()


def lock(server, args):
    """Sessions that hold a range each."""
    holders = []
    for nth in range(args.holders):
        login = servers.Login(server.port)
        login.tell("USE ranges")
        login.tell("SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        login.tell("BEGIN")
        first = nth * args.size // 2 // args.holders
        login.ask(f"SELECT COUNT(*) AS n FROM t WHERE k BETWEEN {first} AND {first + args.width - 1} FOR UPDATE")
        holders.append(login)
    return holders


def inserts(server, args):
    """Inserts per second of all sessions."""
    command = workload.command(server, SCRIPT, f"--threads={args.threads}", f"--time={args.seconds}",
                               f"--low={args.size // 2 + args.width}", f"--high={args.size}", "run", database="ranges")
    return workload.number(workload.run(server, command), r"transactions: +\d+ +\(([\d.]+) per sec")


def measure(server, args):
    prepare(server, args)
    free, beside = [], []
    for _ in range(args.rounds):
        free.append(inserts(server, args))
        holders = lock(server, args)
        beside.append(inserts(server, args))
        for login in holders:
            login.tell("COMMIT")
            login.close()
    free, beside = (sorted(rates)[args.rounds // 2] for rates in (free, beside))
    return {"server": server.name, "free_per_s": free, "beside_per_s": beside, "share": beside / free}


def run(args, directory):
    """A line per server; the figures as a list."""
    machine.require(machine.SYSBENCH)
    print(f"{args.threads} sessions, {args.seconds} s, {args.size} rows; {args.holders} ranges of {args.width} held\n"
          f"{'server':14}{'nothing locked, inserts/s':>27}{'ranges held, inserts/s':>24}{'share':>7}", flush=True)
    results = []
    for server in servers.in_turn(args, directory, (ESKER, INNODB, MYSQL)):
        m = measure(server, args)
        print(f"{m['server']:14}{m['free_per_s']:>27.0f}{m['beside_per_s']:>24.0f}{m['share']:>7.2f}", flush=True)
        results.append(m)
    return results
