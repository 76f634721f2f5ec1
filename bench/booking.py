"""'bench/compare booking': is the slot free? Then it is mine, by locking reads of several sessions at once.

Each session looks for a slot with SELECT … FOR UPDATE and inserts a row if there is none; who is told of a deadlock goes
on with another slot. The table has the attempts per second, deadlocks, and slots that were booked twice: none, but at READ
COMMITTED. A booking is taken back now and then, so there are always slots that are free.
"""
import os, random, sys, threading, time

import servers
from servers import ESKER, INNODB

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "oracle"))
import wire  # noqa: E402 (found beside this script)

TABLE = ("CREATE TABLE bookings (id INT AUTO_INCREMENT PRIMARY KEY, slot INT NOT NULL, session INT NOT NULL, "
         "KEY slot (slot)) ENGINE={engine}")
DEADLOCK = 1213


def options(parser):
    parser.add_argument("--seconds", type=int, default=20, help="of each case")
    parser.add_argument("--sessions", type=int, default=6)
    parser.add_argument("--slots", type=int, default=40)
    parser.add_argument("--levels", default="REPEATABLE READ,SERIALIZABLE,READ COMMITTED")


class Session(threading.Thread):
    """Books and takes back until the time is over."""

    def __init__(self, number, port, level, args):
        super().__init__()
        self.number, self.args, self.dice = number, args, random.Random(number)
        self.attempts, self.deadlocks, self.failed = 0, 0, None
        self.connection = wire.Connection(port)
        self.connection.query("USE booking")
        self.connection.query(f"SET SESSION TRANSACTION ISOLATION LEVEL {level}")

    def attempt(self):
        slot, ask = self.dice.randrange(self.args.slots), self.connection.query
        ask("BEGIN")
        if not ask(f"SELECT id FROM bookings WHERE slot = {slot} FOR UPDATE").rows:
            ask(f"INSERT INTO bookings (slot, session) VALUES ({slot}, {self.number})")
        elif self.dice.random() < 0.5:
            ask(f"DELETE FROM bookings WHERE slot = {slot}")
        ask("COMMIT")

    def run(self):
        end = time.time() + self.args.seconds
        try:
            while time.time() < end:
                self.attempts += 1
                try:
                    self.attempt()
                except wire.SqlError as error:
                    if error.code != DEADLOCK:
                        raise
                    self.deadlocks += 1
                    self.connection.query("ROLLBACK")
        except Exception as error:
            self.failed = error


class Watch(threading.Thread):
    """Looks all the time for slots that are booked twice."""

    def __init__(self, port):
        super().__init__(daemon=True)
        self.login, self.worst, self.over = servers.Login(port), 0, False
        self.login.tell("USE booking")

    def run(self):
        while not self.over:
            twice = self.login.ask("SELECT COUNT(*) - COUNT(DISTINCT slot) AS twice FROM bookings")
            self.worst = max(self.worst, int(twice))
            time.sleep(0.1)


def measure(server, args, level):
    login = servers.Login(server.port)
    login.tell("DROP TABLE IF EXISTS booking.bookings")
    login.tell("USE booking")
    login.tell(TABLE.format(engine=server.storage_engine))
    sessions = [Session(number, server.port, level, args) for number in range(args.sessions)]
    watch = Watch(server.port)
    for thread in [watch, *sessions]:
        thread.start()
    for session in sessions:
        session.join()
        if session.failed:
            sys.exit(f"{server.name}, {level}: {session.failed}")
    watch.over = True
    watch.join()
    login.close()
    attempts, deadlocks = (sum(getattr(s, what) for s in sessions) for what in ("attempts", "deadlocks"))
    return {"server": server.name, "level": level, "attempts_per_s": (attempts - deadlocks) / args.seconds,
            "deadlocks_per_s": deadlocks / args.seconds, "booked_twice": watch.worst}


def run(args, directory):
    """A line per server and level; the figures as a list."""
    print(f"{args.sessions} sessions, {args.slots} slots, {args.seconds} s\n"
          f"{'server':10}{'level':18}{'attempts/s':>12}{'deadlocks/s':>13}{'twice at once':>15}", flush=True)
    results = []
    for server in servers.in_turn(args, directory, (ESKER, INNODB)):
        server.sql("CREATE DATABASE booking")
        for level in args.levels.split(","):
            m = measure(server, args, level)
            print(f"{m['server']:10}{m['level']:18}{m['attempts_per_s']:>12.0f}{m['deadlocks_per_s']:>13.0f}"
                  f"{m['booked_twice']:>15}", flush=True)
            results.append(m)
    return results
