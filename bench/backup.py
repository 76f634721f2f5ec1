"""'bench/compare backup': what a backup costs the sessions that work meanwhile, and how long it takes.

sysbench works on one table, alone and beside one backup after the other, in turn. Esker is backed up by 'esker backup',
InnoDB by mariadb-backup; mariadb-dump reads either as one snapshot. In the end every tool makes one backup while nothing
else happens.
"""
import os, shutil, subprocess, sys, threading, time

import machine, servers, workload
from servers import ESKER, INNODB

DUMP = "mariadb-dump"


def options(parser):
    workload.table_options(parser)
    parser.set_defaults(size=1_000_000, memory_mib=1024)
    parser.add_argument("--test", default="oltp_read_write", help="of sysbench")
    parser.add_argument("--threads", type=int, default=64)
    parser.add_argument("--seconds", type=int, default=20, help="of each case")
    parser.add_argument("--rounds", type=int, default=3, help="of both cases, in turn; the median is shown")


def native(server, args, to):
    """The command of the server's own backup."""
    if server.is_esker:
        return [args.binary, "backup", f"--port={server.port}", f"--to={to}"]
    return ["mariadb-backup", "--no-defaults", "--backup", f"--target-dir={to}", f"--datadir={server.directory}/data",
            f"--socket={server.directory}/s.sock", "--user=root"]


def dump(server, to):
    return [DUMP, *server.client()[1:], "--single-transaction", "--databases", "sbtest", f"--result-file={to}"]


def seconds_of(command, to):
    """Makes a backup, and removes it; how long it took to make."""
    started = time.time()
    done = subprocess.run(command, capture_output=True, text=True)
    took = time.time() - started
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}\n{done.stderr[-2000:]}")
    if os.path.isdir(to):
        shutil.rmtree(to)
    else:
        os.remove(to)
    return took


class Backups:
    """One backup after the other, until it is left."""

    def __init__(self, command, to):
        self.command, self.to, self.took, self.is_over = command, to, [], False
        self.thread = threading.Thread(target=self.work)

    def work(self):
        while not self.is_over:
            self.took.append(seconds_of(self.command, self.to))

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.is_over = True
        self.thread.join()


def median(found):
    return sorted(found)[len(found) // 2]


def rate(server, args):
    said = workload.sysbench(server, args.test, args, f"--threads={args.threads}", f"--time={args.seconds}", "run")
    return workload.number(said, r"transactions: +\d+ +\(([\d.]+) per sec")


def measure(server, args):
    workload.load(server, args)
    to = os.path.join(server.directory, "backup")
    command = native(server, args, to)
    alone, beside, took = [], [], []
    for _ in range(args.rounds):
        alone.append(rate(server, args))
        with Backups(command, to) as backups:
            beside.append(rate(server, args))
        took += backups.took
    return {"server": server.name, "alone_tps": median(alone), "beside_tps": median(beside),
            "share": median(beside) / median(alone), "backups": len(took), "beside_s": median(took),
            "quiet_s": median([seconds_of(command, to) for _ in range(3)]),
            "dump_s": seconds_of(dump(server, to), to)}


def run(args, directory):
    """A line per server; the figures as a list."""
    machine.require(machine.SYSBENCH)
    machine.require(machine.MARIADB_BACKUP)
    print(f"{args.test} by {args.threads} sessions on {args.size} rows, {args.seconds} s\n"
          f"{'server':14}{'tps alone':>10}{'beside a backup':>17}{'share':>7}{'backups':>9}{'s each':>8}"
          f"{'quiet, s':>10}{'dump, s':>9}", flush=True)
    results = []
    for server in servers.in_turn(args, directory, (ESKER, INNODB)):
        m = measure(server, args)
        print(f"{m['server']:14}{m['alone_tps']:>10.0f}{m['beside_tps']:>17.0f}{m['share']:>7.2f}{m['backups']:>9}"
              f"{m['beside_s']:>8.2f}{m['quiet_s']:>10.2f}{m['dump_s']:>9.2f}", flush=True)
        results.append(m)
    return results
