"""'bench/compare replica': how fast replicas apply what a source has done, Esker beside the source's own make.

The replicas receive while sysbench changes the source, and apply nothing. Then each in turn applies all of it, alone."""
import os, time

import machine, oltp, servers
from servers import BINLOG, INNODB, MYSQL

# Everything is durable, and what is applied is logged again.
SOURCES = {
    MYSQL: ["--server-id=1", "--sync-binlog=1", "--gtid-mode=ON", "--enforce-gtid-consistency=ON"],
    INNODB: ["--server-id=1", "--log-bin=binlog", "--binlog-format=ROW", "--sync-binlog=1"],
}
# Seconds until a replica has what its source has, at most.
PATIENCE = 600


def options(parser):
    parser.add_argument("--tests", default="oltp_update_non_index,oltp_read_write")
    parser.add_argument("--threads", default="1,64", help="sessions on the source")
    parser.add_argument("--workers", default="1,4", help="of each replica")
    oltp.case_options(parser, "that the source is changed in each case")


def of_esker(workers):
    return ["--server-id=2", "--log-bin=ON", "--gtid-mode=ON", f"--replica-parallel-workers={workers}",
            "--collation-server=utf8mb4_general_ci"]


def of_peer(make, workers):
    if make == MYSQL:
        return [*SOURCES[MYSQL], "--server-id=3", f"--replica-parallel-workers={workers}"]
    return [*SOURCES[INNODB], "--server-id=3", "--log-slave-updates", "--relay-log=relay", "--gtid-strict-mode=OFF",
            f"--slave-parallel-threads={workers if workers > 1 else 0}", "--slave-parallel-mode=optimistic"]


def follow(replica, source, make):
    """The replica receives and applies from the source's beginning."""
    auto = "SOURCE_AUTO_POSITION = 1" if make == MYSQL else "MASTER_USE_GTID = slave_pos"
    word = "REPLICATION SOURCE" if replica.is_esker or make == MYSQL else "MASTER"
    prefix = "SOURCE" if word != "MASTER" else "MASTER"
    key = f", GET_{prefix}_PUBLIC_KEY = 1" if make == MYSQL else ""
    replica.sql(f"CHANGE {word} TO {prefix}_HOST = '127.0.0.1', {prefix}_PORT = {source.port}, {prefix}_USER = 'repl', "
                f"{prefix}_PASSWORD = 'repl', {auto}{key}")
    if replica.is_esker:
        replica.sql("CHANGE REPLICATION FILTER REPLICATE_WILD_IGNORE_TABLE = ('mysql.%')")
    replica.sql("START SLAVE" if word == "MASTER" else "START REPLICA")


def tell(replica, make, what):
    old = make == INNODB and not replica.is_esker
    replica.sql(f"{what} {'SLAVE' if old else 'REPLICA'} SQL_THREAD")


def has(replica, marker):
    found = replica.sql(f"SELECT COUNT(*) FROM sbtest.marker WHERE id = {marker}", check=False).stdout.split()
    return found[-1:] == ["1"]


def state(replica):
    """SHOW REPLICA STATUS by column, with MariaDB's names."""
    rows = replica.sql("SHOW SLAVE STATUS\\G" if not replica.name == MYSQL else "SHOW REPLICA STATUS\\G").stdout
    pairs = (line.lstrip().split(": ", 1) for line in rows.splitlines() if ": " in line)
    return {name.replace("Source", "Master").replace("Replica", "Slave"): value for name, value in pairs}


def await_marker(replica, marker):
    until = time.time() + PATIENCE
    while not has(replica, marker):
        if time.time() > until:
            raise SystemExit(f"{replica.name} does not catch up: {state(replica)}")
        time.sleep(0.02)


def received(source, replica, make):
    """Waits until all that the source has logged has come."""
    shown = source.sql("SHOW BINARY LOG STATUS" if make == MYSQL else "SHOW MASTER STATUS").stdout.splitlines()[1].split()
    until = time.time() + PATIENCE
    while True:
        now = state(replica)
        if (now["Master_Log_File"], now["Read_Master_Log_Pos"]) == (shown[0], shown[1]):
            return
        if time.time() > until:
            raise SystemExit(f"{replica.name} does not receive: {now}")
        time.sleep(0.05)


def one_round(source, replicas, make, test, threads, args, marker):
    """Transactions that the source has committed, and how many each replica applies in a second."""
    for replica in replicas:
        tell(replica, make, "STOP")
    measured = oltp.measure(source, test, threads, args)
    if "failed" in measured:
        raise SystemExit(f"{source.name}: {measured['failed']}")
    transactions = measured["tps"] * args.seconds
    source.sql(f"INSERT INTO sbtest.marker VALUES ({marker})")
    rates = {}
    # Who begins takes turns.
    for replica in replicas if marker % 2 else replicas[::-1]:
        received(source, replica, make)
        started = time.time()
        tell(replica, make, "START")
        await_marker(replica, marker)
        rates[replica.name] = transactions / (time.time() - started)
    return measured["tps"], rates


def run(args, directory):
    machine.require(machine.SYSBENCH)
    makes = [make for make in (MYSQL, INNODB) if make != MYSQL or (args.mysql and not args.delay_us)]
    disk = machine.Disk(args.delay_us, directory)
    print(f"{disk.name}: {args.tables} x {args.size} rows, {args.seconds} s of changes\n"
          f"{'source':10}{'test':24}{'threads':>8}{'workers':>8}{'source tps':>12}{'esker':>10}{'peer':>10}{'ratio':>8}",
          flush=True)
    cases = []
    for make in makes:
        for workers in map(int, args.workers.split(",")):
            place = os.path.join(directory, f"{make}-{workers}")
            os.makedirs(place)
            cases += of_make(make, workers, disk, args, place)
    return cases


def of_make(make, workers, disk, args, directory):
    started = []

    def start(name, role, more):
        place = os.path.join(directory, role)
        os.makedirs(place)
        started.append(servers.start(name, place, disk, args, more))
        return started[-1]

    try:
        source = start(make, "source", SOURCES[make])
        source.sql("CREATE USER repl IDENTIFIED BY 'repl'; GRANT REPLICATION SLAVE ON *.* TO repl")
        oltp.prepare_tables(source, args)
        source.sql("CREATE TABLE sbtest.marker (id INT PRIMARY KEY); INSERT INTO sbtest.marker VALUES (0)")
        replicas = [start(BINLOG, "esker", of_esker(workers)), start(make, "peer", of_peer(make, workers))]
        for replica in replicas:
            follow(replica, source, make)
        for replica in replicas:
            await_marker(replica, 0)
        marker, cases = 0, []
        for test in args.tests.split(","):
            for threads in map(int, args.threads.split(",")):
                rounds = []
                for _ in range(args.rounds):
                    marker += 1
                    rounds.append(one_round(source, replicas, make, test, threads, args, marker))
                cases.append(summary(make, workers, test, threads, rounds, [r.name for r in replicas]))
        return cases
    finally:
        for server in started:
            server.stop()


def middle(values):
    return sorted(values)[len(values) // 2]


def summary(make, workers, test, threads, rounds, names):
    rates = [middle([rates[name] for _, rates in rounds]) for name in names]
    tps = middle([tps for tps, _ in rounds])
    ratio = rates[0] / rates[1]
    print(f"{make:10}{test:24}{threads:>8}{workers:>8}{tps:>12.0f}{rates[0]:>10.0f}{rates[1]:>10.0f}{ratio:>8.2f}",
          flush=True)
    return {"source": make, "test": test, "threads": threads, "workers": workers, "source_tps": tps,
            "esker": rates[0], "peer": rates[1], "ratio": ratio}
