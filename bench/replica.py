"""'bench/compare replica': how fast replicas apply what a source has done, Esker beside the source's own make.

The replicas receive while sysbench or TPC-C (the test 'tpcc') changes the source, and apply nothing. Then each in turn
applies all of it, alone. `--modes` has an Esker of each mode in turn with the others. With '--lag' each replica in turn
follows while the source works on the same machine, the others are stopped: how old is the newest that it has, second by
second, and how long does it take to catch up? The source writes down the time ten times a second for that.
"""
import os, time

import machine, oltp, servers, tpcc
from servers import BINLOG, INNODB, MYSQL, WITH_BINLOG

# Everything is durable, and what is applied is logged again.
SOURCES = {make: ["--server-id=1", *WITH_BINLOG[make]] for make in (BINLOG, INNODB, MYSQL)}
# The names of Esker and InnoDB as sources.
MAKES = {"esker": BINLOG, "innodb": INNODB, "mysql": MYSQL}
TPCC = "tpcc"
# Single commits whose way to a replica that has nothing else to do is measured.
SINGLES = 11
# Seconds until a replica has what its source has, at most.
PATIENCE = 600
TABLES = ("CREATE TABLE sbtest.marker (id INT PRIMARY KEY); INSERT INTO sbtest.marker VALUES (0); "
          "CREATE TABLE sbtest.beat (id INT PRIMARY KEY, ms BIGINT NOT NULL); INSERT INTO sbtest.beat VALUES (1, 0)")


def options(parser):
    parser.add_argument("--tests", default="oltp_update_non_index,oltp_read_write,tpcc", help="of sysbench, or tpcc")
    parser.add_argument("--threads", default="1,64", help="sessions on the source")
    parser.add_argument("--workers", default="1,4", help="of each replica")
    parser.add_argument("--modes", default="WRITESET", help="esker_replica_parallel_mode, with commas: an Esker of each")
    parser.add_argument("--sources", default="mysql,innodb", help="of " + ",".join(MAKES))
    parser.add_argument("--lag", action="store_true", help="follow while the source works")
    parser.add_argument("--warehouses", type=int, default=1, help="of TPC-C")
    oltp.case_options(parser, "that the source is changed in each case")
    parser.set_defaults(text=False)


def of_esker(workers, mode):
    return ["--server-id=2", *WITH_BINLOG[BINLOG], f"--replica-parallel-workers={workers}",
            f"--esker-replica-parallel-mode={mode}", "--collation-server=utf8mb4_general_ci"]


def of_peer(make, workers):
    if make == MYSQL:
        return [*SOURCES[MYSQL], "--server-id=3", f"--replica-parallel-workers={workers}"]
    return [*SOURCES[INNODB], "--server-id=3", "--log-slave-updates", "--relay-log=relay", "--gtid-strict-mode=OFF",
            f"--slave-parallel-threads={workers if workers > 1 else 0}", "--slave-parallel-mode=optimistic"]


def follow(replica, source, make):
    """The replica receives and applies from the source's beginning."""
    auto = "MASTER_USE_GTID = slave_pos" if make == INNODB else "SOURCE_AUTO_POSITION = 1"
    word = "MASTER" if replica.name == INNODB else "REPLICATION SOURCE"
    prefix = "MASTER" if replica.name == INNODB else "SOURCE"
    key = "" if make == INNODB else f", GET_{prefix}_PUBLIC_KEY = 1"
    replica.sql(f"CHANGE {word} TO {prefix}_HOST = '127.0.0.1', {prefix}_PORT = {source.port}, {prefix}_USER = 'repl', "
                f"{prefix}_PASSWORD = 'repl', {auto}{key}")
    if replica.is_esker:
        replica.sql("CHANGE REPLICATION FILTER REPLICATE_WILD_IGNORE_TABLE = ('mysql.%')")
    tell(replica, "START", "")


def told(replica, what, threads="SQL_THREAD"):
    return f"{what} {'SLAVE' if replica.name == INNODB else 'REPLICA'} {threads}"


def tell(replica, what, threads="SQL_THREAD"):
    replica.sql(told(replica, what, threads))


def state(replica):
    """SHOW REPLICA STATUS by column, with MariaDB's names."""
    rows = replica.sql("SHOW SLAVE STATUS\\G" if not replica.name == MYSQL else "SHOW REPLICA STATUS\\G").stdout
    pairs = (line.lstrip().split(": ", 1) for line in rows.splitlines() if ": " in line)
    return {name.replace("Source", "Master").replace("Replica", "Slave"): value for name, value in pairs}


def await_table(replica):
    """Waits until the table of markers has its first row."""
    until = time.time() + PATIENCE
    while replica.sql("SELECT 1 FROM sbtest.marker WHERE id = 1", check=False).stdout.split()[-1:] != ["1"]:
        if time.time() > until:
            raise SystemExit(f"{replica.label} does not begin: {state(replica)}")
        time.sleep(0.1)


def await_marker(replica, marker, login=None):
    """Asks in one session: a client that is started for each look would take the processor from who is measured."""
    login = login or servers.Login(replica.port)
    until = time.time() + PATIENCE
    while login.ask(f"SELECT COUNT(*) FROM sbtest.marker WHERE id = {marker}") != "1":
        if time.time() > until:
            raise SystemExit(f"{replica.label} does not catch up: {state(replica)}")
        time.sleep(0.005)
    login.close()


def received(source, replica):
    """Waits until all that the source has logged has come."""
    old = source.name == INNODB
    shown = source.sql("SHOW MASTER STATUS" if old else "SHOW BINARY LOG STATUS").stdout.splitlines()[1].split()
    until = time.time() + PATIENCE
    while True:
        now = state(replica)
        if (now["Master_Log_File"], now["Read_Master_Log_Pos"]) == (shown[0], shown[1]):
            return
        if time.time() > until:
            raise SystemExit(f"{replica.label} does not receive: {now}")
        time.sleep(0.05)


def drive(source, test, threads, args):
    """Changes the source; transactions per second."""
    if test == TPCC:
        return tpcc.Load(machine.tpcc_client(), source).run(args, threads)["tps"]
    measured = oltp.measure(source, test, threads, args)
    if "failed" in measured:
        raise SystemExit(f"{source.name}: {measured['failed']}")
    return measured["tps"]


def mark(source, marker):
    source.sql(f"INSERT INTO sbtest.marker VALUES ({marker})")


class Case:
    """A test with a number of sessions, on a source and its replicas."""

    def __init__(self, source, replicas, test, threads, args):
        self.source, self.replicas, self.args = source, replicas, args
        self.test, self.threads = test, threads

    def apply(self, marker):
        """What the source did a second, and by replica: what it applies a second, its processor time for each, and how
        long it takes until a single commit is seen there."""
        for replica in self.replicas:
            tell(replica, "STOP")
        tps = drive(self.source, self.test, self.threads, self.args)
        transactions = tps * self.args.seconds
        mark(self.source, marker)
        found = {}
        # Who begins takes turns.
        for replica in self.replicas if marker % 2 else self.replicas[::-1]:
            received(self.source, replica)
            login = servers.Login(replica.port)
            started, cpu = time.time(), replica.cpu_seconds()
            login.tell(told(replica, "START"))
            await_marker(replica, marker, login)
            found[replica.label] = {"rate": transactions / (time.time() - started),
                                    "cpu_us": (replica.cpu_seconds() - cpu) * 1e6 / transactions,
                                    "seen_ms": self.seen(replica)}
        return tps, found

    def seen(self, replica):
        """Milliseconds from the source's reply to a commit until a session of the replica sees it, the median."""
        there, here, found = servers.Login(self.source.port), servers.Login(replica.port), []
        for nth in range(SINGLES):
            there.tell(f"UPDATE sbtest.beat SET ms = {-1 - nth}")
            committed = time.time()
            while here.ask("SELECT ms FROM sbtest.beat") != str(-1 - nth):
                time.sleep(0.0002)
            found.append((time.time() - committed) * 1e3)
        for login in (there, here):
            login.close()
        return middle(found)

    def lag(self, marker):
        """What the source did a second meanwhile, and by replica: how far it was behind."""
        found = {}
        for replica in self.replicas:
            tell(replica, "STOP", "")
        for replica in self.replicas:
            tell(replica, "START", "")
            mark(self.source, -marker * len(self.replicas) - len(found))
            await_marker(replica, -marker * len(self.replicas) - len(found))
            with Clock(servers.Login(self.source.port)), Lag(servers.Login(replica.port)) as lag:
                tps = drive(self.source, self.test, self.threads, self.args)
            ended = time.time()
            mark(self.source, marker * len(self.replicas) + len(found))
            await_marker(replica, marker * len(self.replicas) + len(found))
            third = max(1, len(lag.seen) // 3)
            found[replica.label] = {"tps": tps, "first_s": sum(lag.seen[:third]) / third,
                                    "last_s": sum(lag.seen[-third:]) / third, "max_s": max(lag.seen),
                                    "catch_up_s": time.time() - ended, "seconds": lag.seen}
            tell(replica, "STOP", "")
        for replica in self.replicas:
            tell(replica, "START", "")
        return middle([of["tps"] for of in found.values()]), found


class Clock(servers.Beside):
    """Writes the time into the source, ten times a second."""

    def work(self):
        while not self.is_over:
            self.login.tell(f"UPDATE sbtest.beat SET ms = {time.time() * 1000:.0f}")
            time.sleep(0.1)


class Lag(servers.Beside):
    """How old the newest time is that a replica has, in seconds, once a second."""

    def __init__(self, login):
        super().__init__(login)
        self.seen = []

    def work(self):
        time.sleep(1)
        while not self.is_over:
            self.seen.append(time.time() - int(self.login.ask("SELECT ms FROM sbtest.beat")) / 1000)
            time.sleep(1)


def run(args, directory):
    machine.require(machine.SYSBENCH)
    disk = machine.Disk(args.delay_us, directory)
    columns = [("tps", 0), ("first_s", 2), ("last_s", 2), ("max_s", 2), ("catch_up_s", 2)] if args.lag else [
        ("rate", 0), ("cpu_us", 1), ("seen_ms", 2)]
    print(f"{disk.name}: {args.tables} x {args.size} rows, {args.seconds} s of changes\n"
          f"{'source':14}{'test':24}{'threads':>8}{'workers':>8}{'source tps':>12} {'replica':20}"
          + "".join(f"{name:>12}" for name, _ in columns) + ("" if args.lag else f"{'x the last':>12}"), flush=True)
    cases = []
    for make in map(MAKES.get, args.sources.split(",")):
        if make == MYSQL and not args.mysql:
            print(f"# {make} is left out: --mysql says where it is", flush=True)
            continue
        for workers in map(int, args.workers.split(",")):
            place = os.path.join(directory, f"{make}-{workers}")
            os.makedirs(place)
            cases += of_make(make, workers, disk, args, place, columns)
    return cases


def of_make(make, workers, disk, args, directory, columns):
    started, tests = [], args.tests.split(",")

    def start(name, role, more):
        place = os.path.join(directory, role)
        os.makedirs(place)
        started.append(servers.start(name, place, disk, args, more))
        started[-1].label = role
        return started[-1]

    try:
        source = start(make, "source", SOURCES[make])
        source.sql("CREATE USER repl IDENTIFIED BY 'repl'; GRANT REPLICATION SLAVE ON *.* TO repl")
        oltp.prepare_tables(source, args)
        source.sql(TABLES)
        if TPCC in tests:
            load = tpcc.Load(machine.tpcc_client(), source)
            load.finish(load.start("load", args.warehouses))
        mark(source, 1)
        replicas = [start(BINLOG, f"esker-{mode.lower()}", of_esker(workers, mode)) for mode in args.modes.split(",")]
        # What follows an Esker is a MySQL, where there is one.
        peer = MYSQL if make == BINLOG and args.mysql else make
        if peer != BINLOG and not args.no_peer:
            replicas.append(start(peer, f"peer-{peer}", of_peer(peer, workers)))
        for replica in replicas:
            follow(replica, source, make)
        for replica in replicas:
            await_table(replica)
        marker, cases = 1, []
        for test in tests:
            for threads in map(int, args.threads.split(",")):
                case, rounds = Case(source, replicas, test, threads, args), []
                for _ in range(args.rounds):
                    marker += 1
                    rounds.append(case.lag(marker) if args.lag else case.apply(marker))
                cases += summary(case, make, workers, rounds, columns)
        return cases
    finally:
        for server in started:
            server.stop()


def middle(values):
    return sorted(values)[len(values) // 2]


def summary(case, make, workers, rounds, columns):
    """A line for each replica; the last one, the peer, is what the others' rates are divided by."""
    tps, results = middle([tps for tps, _ in rounds]), []
    medians = {r.label: {name: middle([found[r.label][name] for _, found in rounds]) for name, _ in columns}
               for r in case.replicas}
    last = medians[case.replicas[-1].label]
    for replica in case.replicas:
        mine = medians[replica.label]
        line = f"{make:14}{case.test:24}{case.threads:>8}{workers:>8}{tps:>12.0f} {replica.label:20}"
        line += "".join(f"{mine[name]:>12.{decimals}f}" for name, decimals in columns)
        print(line + ("" if case.args.lag else f"{mine['rate'] / last['rate']:>12.2f}"), flush=True)
        results.append({"source": make, "test": case.test, "threads": case.threads, "workers": workers,
                        "replica": replica.label, "source_tps": tps, "rounds": [f[replica.label] for _, f in rounds]} | mine)
    return results
