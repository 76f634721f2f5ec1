"""'bench/compare logins': how often a second clients connect over TCP, without TLS, send one query, and quit.

The clients are threads of sysbench (bench/logins.lua) as root without a password. Client and server share the machine,
so the table also has the server's CPU for each login, which does not depend on what the client costs. Every case runs
on one server after the other; the median of the rounds counts.
"""
import os

import machine, servers, workload
from servers import ESKER, INNODB, MYSQL

SCRIPT = os.path.join(machine.HERE, "logins.lua")


def options(parser):
    parser.add_argument("--seconds", type=int, default=5, help="of each case")
    parser.add_argument("--rounds", type=int, default=3, help="of each case; the median counts")
    parser.add_argument("--threads", default="1,8")
    parser.add_argument("--mysql", metavar="ROOT", help="a folder in which a MySQL is unpacked, for chroot")


def measure(server, threads, args):
    """Logins a second, and the server's CPU for each in microseconds."""
    before = server.cpu_seconds()
    text = workload.run(server, workload.command(server, SCRIPT, f"--threads={threads}", f"--time={args.seconds}", "run",
                                                 database="mysql"))
    logins = workload.number(text, r"total number of events:\s+(\d+)")
    return (logins / workload.number(text, r"total time:\s+([\d.]+)s"),
            (server.cpu_seconds() - before) * 1e6 / logins)


def run(args, directory):
    """A line per number of clients and server; the figures as a list."""
    machine.require(machine.SYSBENCH)
    print(f"{args.seconds} s, median of {args.rounds}\n"
          f"{'clients':>7}  {'server':14}{'logins/s':>10}{'CPU us each':>13}{'esker is':>10}", flush=True)
    results = []
    with servers.running(args, directory, (ESKER, INNODB, MYSQL)) as running:
        for threads in map(int, args.threads.split(",")):
            rounds = [[measure(server, threads, args) for server in running] for _ in range(args.rounds)]
            cases = [[sorted(values)[args.rounds // 2] for values in zip(*of)] for of in zip(*rounds)]
            for server, (rate, cpu) in zip(running, cases):
                theirs = "" if server is running[0] else f"{cases[0][0] / rate:>9.2f}x"
                print(f"{threads:>7}  {server.name:14}{rate:>10,.0f}{cpu:>13.0f}{theirs}", flush=True)
                results.append({"server": server.name, "threads": threads, "logins/s": rate, "CPU us": cpu})
    return results
