#!/usr/bin/env python3
"""Replicas of real servers: after random histories, and through kill -9, they have exactly what their source has.

    python3 tests/replication equal [--seeds 1-10] [--source esker|mysql|mariadb] [--replica esker|mysql] [--history tpcc] ...
    python3 tests/replication kill [--rounds 200] [--seed 1] [--source …] [--replica …|mariadb] ...
    python3 tests/replication dump [--rounds 20] [--seed 1] [--replica …] ...
    python3 tests/replication load [--replicas esker,mysql,mariadb] [--seconds 60] [--every 4] [--disk-mib 2000] ...
    python3 tests/replication restore [--rounds 50] [--seed 1] ...

`equal` plays a history (history.py) on the source, of several sessions at once, while one replica follows; afterwards a
replica of each mode and number of workers applies all of it from the beginning. All of them must equal the source:
rows, definitions, accounts, CHECKSUM TABLE and executed GTIDs. With `--history tpcc` the history is TPC-C, whose
conditions hold on all of them. Where MySQL's programs are, what mysqlbinlog prints of
Esker (replays.py) makes the same in an empty server of the replicas' make. `kill` (kills.py) kills source and replica in turn under
load, and checks after every round that each transaction is there exactly once. `dump` (dumps.py) loads dumps that were
taken under load into empty servers, which go on from there. `load` (loads.py) runs sysbench and TPC-C on a source with
replicas of several makes, with kills and full disks, and compares tables. `restore` (restores.py) takes backups of Esker under load
and restores them to random moments with the binary log, through kill -9.

What has failed keeps its folder, and is played again with the same seed. Exit status 1: something differed.
"""
import argparse, itertools, os, shutil, sys, tempfile, time

HERE = os.path.dirname(os.path.abspath(__file__))
# The oracle's client speaks the protocol.
sys.path[:0] = [HERE, os.path.join(HERE, "../../bench/oracle")]
import dumps, history, kills, loads, replays, restores, rows  # noqa: E402 (beside this script)
from servers import ESKER, MAKES, MARIADB, MYSQL, Failed, kept_if_failed  # noqa: E402

MODES = "SERIAL,DATABASE,COMMIT-GROUP,WRITESET,OPTIMISTIC"
# By default, of each verb that has rounds.
ROUNDS = {"kill": 200, "dump": 20, "restore": 50}


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(dest="verb", required=True)
    for verb in ("equal", "kill", "dump", "load", "restore"):
        p = verbs.add_parser(verb)
        p.add_argument("--binary", default="target/release/esker", help="Esker's program")
        p.add_argument("--mysql", default=os.environ.get("ESKER_TEST_MYSQL"), help="folder of MySQL, run in a chroot")
        p.add_argument("--source", default=ESKER, choices=list(MAKES))
        p.add_argument("--replica", default=ESKER, choices=list(MAKES))
        p.add_argument("--source-options", default="", help="more options of the source, with spaces between them")
        p.add_argument("--folder", default=tempfile.gettempdir(), help="for data directories")
        p.add_argument("--sessions", type=int, default=3)
        p.add_argument("--modes", default=MODES, help="esker_replica_parallel_mode, with commas")
        p.add_argument("--workers", default="1,2,4,8", help="replica_parallel_workers, with commas")
        if verb == "equal":
            p.add_argument("--seeds", default="1-10")
            p.add_argument("--transactions", type=int, default=150, help="of each session")
            p.add_argument("--history", default="random", choices=["random", loads.TPCC])
            p.add_argument("--seconds", type=int, default=10, help="of TPC-C")
        else:
            p.add_argument("--seed", type=int, default=1)
        if verb in ROUNDS:
            p.add_argument("--rounds", type=int, default=ROUNDS[verb])
        if verb == "kill":
            p.add_argument("--position", action="store_true", help="by file and position in place of GTIDs")
        if verb == "load":
            p.add_argument("--replicas", default="esker,mariadb", help="makes, with commas")
            p.add_argument("--loads", default="sysbench,tpcc", help="with commas")
            p.add_argument("--seconds", type=int, default=60)
            p.add_argument("--every", type=float, default=4, help="seconds from a kill to the next")
            p.add_argument("--disk-mib", type=int, default=0, help="a small disk of the source; 0: none")
    return parser.parse_args()


def options_of(args, mode, workers, order="ON"):
    if args.replica != ESKER:
        return [f"--{'slave-parallel-threads' if args.replica == MARIADB else 'replica-parallel-workers'}={workers}"]
    return [f"--esker-replica-parallel-mode={mode}", f"--replica-parallel-workers={workers}",
            f"--replica-preserve-commit-order={order}", *collation(args)]


def collation(args):
    return ["--collation-server=utf8mb4_general_ci"] if args.source == MARIADB else []


def combinations(args):
    modes = [""] if args.replica == MYSQL else args.modes.split(",")
    return list(itertools.product(modes, map(int, args.workers.split(","))))


class Random:
    """A history of random statements (history.py)."""

    def __init__(self, args):
        self.args = args

    def prepare(self, source):
        history.prepare(source)

    def play(self, source, seed):
        return history.play(source, seed, self.args.sessions, self.args.transactions)

    def check(self, source, replica):
        rows.check_equal(source, replica)


class Tpcc(Random):
    """TPC-C's transactions, of as many terminals as there are sessions."""

    def prepare(self, source):
        super().prepare(source)
        source.sql("CREATE DATABASE tpcc")
        self.load = loads.Tpcc(source, self.args.sessions, self.args.seconds)
        self.load.prepare()

    def play(self, source, seed):
        counts = history.Counts()
        counts.of[loads.TPCC] = [self.load.play(), 0]
        return counts

    def check(self, source, replica):
        super().check(source, replica)
        loads.check_equal(source, replica, [loads.DATABASES[loads.TPCC]])
        self.load.check(replica)


def equal(args, folder, seed):
    """One seed; raises if a replica differs."""
    source = MAKES[args.source](args, folder, f"source-{seed}", 1, args.source_options.split())
    servers = [source]
    with kept_if_failed(servers, folder, lambda: f"seed {seed}, {servers[-1].options}: "):
        source.add_account()
        played = (Tpcc if args.history == loads.TPCC else Random)(args)
        played.prepare(source)
        combos = combinations(args)
        # One of them follows while the history is made.
        live = combos[seed % len(combos)]
        servers.append(start(args, folder, source, seed, live))
        counts = played.play(source, seed)
        source.sql(f"INSERT INTO e.counters VALUES ({history.COUNTERS + seed}, 0)")
        for combo in [live, *combos]:
            if len(servers) == 1:
                servers.append(start(args, folder, source, seed, combo))
            servers[-1].await_marker("e.counters", history.COUNTERS + seed)
            played.check(source, servers[-1])
            servers.pop().remove()
        if args.mysql and args.source == ESKER and args.history == "random":
            replays.replay(args, folder, source, args.replica, seed)
    for server in servers:
        server.remove()
    return counts


def start(args, folder, source, seed, combo):
    order = "OFF" if seed % 3 == 0 and args.replica == ESKER else "ON"
    number = 10 + seed % 1000
    replica = MAKES[args.replica](args, folder, f"replica-{seed}", number, options_of(args, *combo, order))
    replica.follow(source, by_gtid=seed % 4 != 0)
    return replica


def run_equal(args, folder):
    first, _, last = args.seeds.partition("-")
    total = history.Counts()
    for seed in range(int(first), int(last or first) + 1):
        begun = time.time()
        counts = equal(args, folder, seed)
        for kind, (well, ill) in counts.of.items():
            entry = total.of.setdefault(kind, [0, 0])
            entry[0], entry[1] = entry[0] + well, entry[1] + ill
        well = sum(entry[0] for entry in counts.of.values())
        print(f"seed {seed}: {well} statements, {1 + len(combinations(args))} replicas equal, {time.time() - begun:.1f} s", flush=True)
    print("never went well: " + (", ".join(total.never()) or "nothing"))


def main():
    args = arguments()
    if MYSQL in (args.source, args.replica) and not args.mysql:
        raise SystemExit("--mysql: a folder with MySQL")
    if args.replica == MARIADB:
        if args.verb not in ("kill", "load"):
            raise SystemExit("--replica mariadb: with `kill`, or as one of the --replicas of `load`")
        args.position = True  # it knows no GTIDs of MySQL's kind
    args.binary = os.path.abspath(args.binary)
    folder = tempfile.mkdtemp(prefix="replication-", dir=args.folder)
    try:
        if args.verb == "equal":
            run_equal(args, folder)
        else:
            {"kill": kills, "dump": dumps, "load": loads, "restore": restores}[args.verb].run(args, folder, options_of)
    except Failed as e:
        print(f"FAILED: {e}")
        raise SystemExit(1) from None
    shutil.rmtree(folder)


if __name__ == "__main__":
    main()
