"""Kill -9 of source and replica in turn, under load; after every round each transaction is on both exactly once.

Sessions move money between accounts, count what they have done, and write it down, in one transaction each. So whatever
is lost, done twice or done in part shows: the sum of accounts, counters against entries, entries without a gap, a table
without keys in which a second copy would stay, and rows and GTIDs of both servers. What a session was told is there.
At the end, where MySQL's programs are, what mysqlbinlog prints of the source makes the same tables in an empty server.
"""
import random, threading, time

import replays, rows, wire
from servers import ESKER, MAKES, MARIADB, MYSQL, PATIENCE, Failed, kept_if_failed

ACCOUNTS, BALANCE = 20, 1000
# Seconds of load before a kill, and after the restart.
BEFORE, AFTER = (0.05, 0.6), 0.15
# So many rounds leave their rows in the tables, for each reads them whole.
FORGET_EVERY = 10
TABLES = [
    "CREATE DATABASE d", "CREATE DATABASE e",
    "CREATE TABLE d.accounts (id INT PRIMARY KEY, balance INT NOT NULL)",
    "CREATE TABLE d.done (id INT PRIMARY KEY, n INT NOT NULL)",
    "CREATE TABLE d.entries (who INT, n INT, pay INT, note TEXT, PRIMARY KEY (who, n))",
    "CREATE TABLE e.bare (who INT, n INT)",
    "CREATE TABLE e.markers (id INT PRIMARY KEY)",
]


class Teller(threading.Thread):
    """A session that works until it is told to stop, and goes on when its server comes back."""

    def __init__(self, server, number, seed):
        super().__init__(daemon=True)
        self.server, self.number, self.rng = server, number, random.Random(seed * 31 + number)
        self.stop, self.told, self.failure = False, 0, None

    def run(self):
        while not self.stop:
            try:
                self.work()
            except (OSError, wire.Lost):
                time.sleep(0.01)
            except Exception as e:  # noqa: BLE001 (of a thread: told where it is joined)
                self.failure = e
                return

    def work(self):
        connection = self.server.connect()
        n = int(connection.query(f"SELECT n FROM d.done WHERE id = {self.number}").rows[0][0])
        if n < self.told:
            raise Failed(f"session {self.number} was told of {self.told}, and {n} are there")
        while not self.stop:
            n += 1
            one, two, pay = self.rng.randrange(ACCOUNTS), self.rng.randrange(ACCOUNTS), self.rng.randrange(100)
            note = "x" * self.rng.choice([0, 10, 3000]) if self.rng.random() < 0.1 else ""
            try:
                for text in ("BEGIN", f"UPDATE d.accounts SET balance = balance - {pay} WHERE id = {one}",
                             f"UPDATE d.accounts SET balance = balance + {pay} WHERE id = {two}",
                             f"INSERT INTO d.entries VALUES ({self.number}, {n}, {pay}, '{note}')",
                             f"INSERT INTO e.bare VALUES ({self.number}, {n})",
                             f"UPDATE d.done SET n = n + 1 WHERE id = {self.number}", "COMMIT"):
                    connection.query(text)
            except wire.SqlError as e:
                if e.code in (1205, 1213):
                    connection.query("ROLLBACK")
                    n -= 1
                    continue
                if e.code == 1053:  # it goes down
                    raise wire.Lost(str(e)) from None
                raise
            self.told = n
        connection.close()


def check_once(server, tellers):
    """Every transaction is there once, whole, and in the order of its session."""
    total = server.sql("SELECT SUM(balance) FROM d.accounts")[0][0]
    if int(total) != ACCOUNTS * BALANCE:
        raise Failed(f"{server.name}: the accounts sum up to {total.decode()}")
    bad = server.sql("SELECT d.id, d.n, COUNT(*), MAX(e.n) FROM d.done d JOIN d.entries e ON e.who = d.id GROUP BY d.id, d.n "
                     "HAVING d.n <> COUNT(*) OR d.n <> MAX(e.n)")
    twice = server.sql("SELECT who, n, COUNT(*) FROM e.bare GROUP BY who, n HAVING COUNT(*) <> 1")
    counts = server.sql("SELECT (SELECT SUM(n) FROM d.done), (SELECT COUNT(*) FROM e.bare)")[0]
    if bad or twice or counts[0] != counts[1]:
        raise Failed(f"{server.name}: counters {bad}, copies {twice}, {counts}")
    for teller in tellers:
        n = int(server.sql(f"SELECT n FROM d.done WHERE id = {teller.number}")[0][0])
        if n < teller.told:
            raise Failed(f"{server.name}: session {teller.number} was told of {teller.told}, and {n} are there")


def check_numbers(server):
    """The source has given its numbers without a gap."""
    if server.make == MARIADB:
        return
    for part in server.executed().split(","):
        if part.count(":") != 1 or not part.split(":")[1].startswith("1-") or "-" in part.split(":")[1][2:]:
            raise Failed(f"{server.name}: numbers with a gap: {part}")


def prepare(args, source):
    """The account of replicas, and the tables."""
    source.add_account(is_native=args.replica == MARIADB)
    accounts = ", ".join(f"({n}, {BALANCE})" for n in range(ACCOUNTS))
    done = ", ".join(f"({n}, 0)" for n in range(args.sessions))
    source.sql(*TABLES, f"INSERT INTO d.accounts VALUES {accounts}", f"INSERT INTO d.done VALUES {done}")


def start(args, folder, options_of):
    plain = ["--collation-server=utf8mb4_general_ci"] if args.replica == MARIADB != args.source else []
    source = MAKES[args.source](args, folder, "source", 1, plain + args.source_options.split())
    modes, workers = args.modes.split(","), args.workers.split(",")
    replica = MAKES[args.replica](args, folder, "replica", 2, options_of(args, modes[-1], workers[-1]))
    return source, replica


def set_mode(args, replica, rng):
    """Another mode and another number of workers from the next start on."""
    workers = rng.choice(args.workers.split(","))
    drawn = {
        ESKER: lambda: [f"--esker-replica-parallel-mode={rng.choice(args.modes.split(','))}",
                        f"--replica-parallel-workers={workers}",
                        f"--replica-preserve-commit-order={rng.choice(['ON', 'ON', 'OFF'])}"],
        MYSQL: lambda: [f"--replica-parallel-workers={workers}"],
        MARIADB: lambda: [f"--slave-parallel-threads={workers}",
                          f"--slave-parallel-mode={rng.choice(['conservative', 'optimistic'])}"],
    }[replica.make]()
    replica.options = [o for o in replica.options if "parallel" not in o and "order" not in o] + drawn


def stop_server(server, is_source):
    """Kill -9. A replica of MariaDB that follows by position is shut down instead: it notes its position in a file beside
    the tables, so after a kill it applies some transactions twice, whatever its source is."""
    if server.make == MARIADB and not is_source:
        server.end()
    else:
        server.kill()


def stop(tellers, number):
    """Waits until they have ended their transactions."""
    for teller in tellers:
        teller.stop = True
    for teller in tellers:
        teller.join(PATIENCE)
        if teller.failure or teller.is_alive():
            raise Failed(f"round {number}: {teller.failure or 'a session hangs'}")


def one_round(args, source, replica, rng, number):
    tellers = [Teller(source, n, args.seed * 100_000 + number) for n in range(args.sessions)]
    for teller in tellers:
        teller.start()
    time.sleep(rng.uniform(*BEFORE))
    victims = [replica] if number % 2 else [source]
    if rng.random() < 0.15:
        victims = [source, replica]
    for victim in victims:
        stop_server(victim, victim is source)
    time.sleep(rng.choice([0, 0, 0.2]))
    for victim in victims:
        if victim is replica:
            set_mode(args, replica, rng)
        victim.start()
    time.sleep(AFTER)
    stop(tellers, number)
    source.sql(f"INSERT INTO e.markers VALUES ({number})")
    replica.await_marker("e.markers", number)
    for server in (source, replica):
        check_once(server, tellers)
        check_numbers(server)
    rows.check_equal(source, replica, by_gtid=not args.position)
    return [victim.name for victim in victims], sum(teller.told for teller in tellers)


def forget(source):
    """Empties the tables that grow; sessions count from the beginning."""
    source.sql("TRUNCATE TABLE d.entries", "TRUNCATE TABLE e.bare", "UPDATE d.done SET n = 0")


def run(args, folder, options_of):
    rng = random.Random(args.seed)
    source, replica = start(args, folder, options_of)
    with kept_if_failed([source, replica], folder):
        prepare(args, source)
        replica.follow(source, by_gtid=not args.position)
        begun, killed, before = time.time(), {}, 0
        for number in range(1, args.rounds + 1):
            victims, told = one_round(args, source, replica, rng, number)
            for victim in victims:
                killed[victim] = killed.get(victim, 0) + 1
            if number % 10 == 0 or number == args.rounds:
                print(f"{args.source} -> {args.replica}: {number} rounds, killed {killed}, {before + told} transactions, "
                      f"{time.time() - begun:.0f} s", flush=True)
            if number % FORGET_EVERY == 0:
                forget(source)
                before += told
        if args.mysql and args.source == ESKER:
            files = replays.replay(args, folder, source, ESKER, 0)
            print(f"mysqlbinlog of {files} files gives the same", flush=True)
    source.remove()
    replica.remove()
