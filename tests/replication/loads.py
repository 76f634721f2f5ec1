"""Loads that everybody knows, sysbench and TPC-C, on a source with replicas of several makes, through kill -9 and a full disk.

All replicas follow at once. Every few seconds one of the servers is killed, and a replica comes back with another mode
and number of workers; where the source has a small disk of its own (`--disk-mib`, a tmpfs, which needs root), it is
full for a while now and then. In the end all tables have the same rows on all servers, CHECKSUM TABLE says so where the
make computes it alike, and TPC-C's conditions hold.
"""
import os, random, subprocess, sys, threading, time

import kills, rows
from servers import ESKER, MAKES, MARIADB, MYSQL, PATIENCE, Failed, kept_if_failed

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../bench"))
import machine  # noqa: E402 (of bench: builds the client)

SYSBENCH, TPCC = "sysbench", "tpcc"
DATABASES = {SYSBENCH: "sbtest", TPCC: "tpcc"}
MARKERS = ["CREATE DATABASE e", "CREATE TABLE e.markers (id INT PRIMARY KEY)"]
# Seconds that a full disk lasts, and until a load begins again that has lost its server.
FULL, PAUSE = 1.5, 0.2
THREADS, WAREHOUSES = 4, 1
MIB = 1 << 20


class Tpcc:
    """TPC-C on a source, for some seconds."""

    def __init__(self, source, terminals, seconds):
        self.program, self.seconds = machine.tpcc_client(), seconds
        self.preparation = self.command(source, "load", WAREHOUSES)
        self.load = self.command(source, "run", WAREHOUSES, terminals, seconds)

    def command(self, server, *words):
        return [self.program, str(server.port), *map(str, words)]

    def run(self, command):
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE + self.seconds)
        if done.returncode:
            raise Failed(f"{TPCC}: {done.stdout[-500:]}{done.stderr[-500:]}")
        return done.stdout

    def prepare(self):
        self.run(self.preparation)

    def play(self):
        """How many transactions were done."""
        return int(self.run(self.load).split()[0])

    def check(self, server):
        """The standard's conditions, on a server that has the tables."""
        self.run(self.command(server, "check"))


def commands(load, source, seconds):
    """What prepares a load, and what runs it for some seconds."""
    if load == TPCC:
        tpcc = Tpcc(source, THREADS, seconds)
        return tpcc.preparation, tpcc.load
    base = ["sysbench", "oltp_read_write", "--db-driver=mysql", "--mysql-host=127.0.0.1", f"--mysql-port={source.port}",
            "--mysql-user=root", "--mysql-ssl=off", "--tables=4", "--table-size=2000", f"--threads={THREADS}",
            "--db-ps-mode=disable", "--mysql-ignore-errors=1213,1205,1020,1021"]
    return [*base, "prepare"], [*base, f"--time={seconds}", "run"]


class Load(threading.Thread):
    """Runs until it is told to stop; begins again where its server was killed."""

    def __init__(self, command):
        super().__init__(daemon=True)
        self.command, self.stop, self.begun = command, False, 0

    def run(self):
        while not self.stop:
            self.begun += 1
            subprocess.run(self.command, capture_output=True)
            time.sleep(PAUSE)


class Disk:
    """A file system of its own for the source."""

    def __init__(self, place, mib):
        self.place = place
        os.makedirs(place)
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={mib}m", "tmpfs", place], check=True)

    def fill(self):
        """Full for a while."""
        ballast = os.path.join(self.place, "ballast")
        with open(ballast, "wb", buffering=0) as file:
            try:
                while True:
                    file.write(b"\0" * MIB)
            except OSError:
                pass
            time.sleep(FULL)
        os.remove(ballast)

    def remove(self):
        subprocess.run(["umount", self.place], check=True)


def sums(server, database):
    """Of each table, how many rows it has and a sum of them that every make computes alike."""
    found = {}
    for (table,) in server.sql(f"SELECT table_name FROM information_schema.tables WHERE table_schema = '{database}'"):
        name = table.decode()
        columns = server.sql("SELECT column_name FROM information_schema.columns WHERE table_schema = "
                             f"'{database}' AND table_name = '{name}' ORDER BY ordinal_position")
        values = ", ".join(f"IFNULL(`{column.decode()}`, '-')" for (column,) in columns)
        found[name] = server.sql(f"SELECT COUNT(*), BIT_XOR(CRC32(CONCAT_WS('|', {values}))) FROM `{database}`.`{name}`")
    return found


def check_equal(source, replica, databases):
    for database in databases:
        mine, theirs = sums(source, database), sums(replica, database)
        if not mine or mine != theirs:
            raise Failed(f"{database}: {mine} on the source, {theirs} on {replica.name}")
        names = [f"`{database}`.`{table}`" for table in mine]
        if MARIADB not in (source.make, replica.make):
            ours, copies = rows.sums(source, names), rows.sums(replica, names)
            if ours != copies:
                raise Failed(f"CHECKSUM TABLE: {ours} on the source, {copies} on {replica.name}")
        rows.check_tables(replica, names)


def disturb(args, source, replicas, disk, rng):
    """Kills, and fills the disk, until the time is over; how often each."""
    counts, end = {}, time.time() + args.seconds
    while time.time() + args.every < end:
        time.sleep(args.every)
        if disk and rng.random() < 0.3:
            disk.fill()
            counts["full disk"] = counts.get("full disk", 0) + 1
            continue
        victim = rng.choice([source, *replicas])
        kills.stop_server(victim, victim is source)
        if victim is not source:
            kills.set_mode(args, victim, rng)
        victim.start()
        counts[victim.name] = counts.get(victim.name, 0) + 1
    return counts


def run(args, folder, options_of):
    del options_of  # of the modes of a replica of Esker, its default
    loads = args.loads.split(",")
    options = ["--collation-server=utf8mb4_general_ci", *args.source_options.split()]
    disk = Disk(os.path.join(folder, "disk"), args.disk_mib) if args.disk_mib else None
    source = MAKES[ESKER](args, disk.place if disk else folder, "source", 1, options)
    servers = [source]
    with kept_if_failed(servers, folder):
        source.add_account(is_native=True)
        source.sql(*MARKERS)
        for number, make in enumerate(args.replicas.split(",")):
            own = [] if make == MARIADB else ["--collation-server=utf8mb4_general_ci"]
            servers.append(MAKES[make](args, folder, f"replica-{make}", 2 + number, own))
            servers[-1].follow(source, by_gtid=make in (ESKER, MYSQL))
        counts = play(args, source, servers[1:], loads, disk)
        print(f"{args.loads} for {args.seconds} s: killed or filled {counts}", flush=True)
        if TPCC in loads:
            Tpcc(source, THREADS, args.seconds).check(source)
            print("TPC-C's conditions hold", flush=True)
    for server in servers:
        server.remove()
    if disk:
        disk.remove()


def play(args, source, replicas, loads, disk):
    threads = []
    for load in loads:
        prepare, command = commands(load, source, args.seconds)
        source.sql(f"CREATE DATABASE IF NOT EXISTS {DATABASES[load]}")
        done = subprocess.run(prepare, capture_output=True, text=True)
        if done.returncode:
            raise Failed(f"{load}: {done.stdout[-500:]}{done.stderr[-500:]}")
        threads.append(Load(command))
    for thread in threads:
        thread.start()
    counts = disturb(args, source, replicas, disk, random.Random(args.seed))
    for thread in threads:
        thread.stop = True
    for thread in threads:
        thread.join(PATIENCE)
    source.sql("INSERT INTO e.markers VALUES (1)")
    for replica in replicas:
        replica.await_marker("e.markers", 1)
        check_equal(source, replica, [DATABASES[load] for load in loads])
        print(f"{replica.name} is equal", flush=True)
    return counts
