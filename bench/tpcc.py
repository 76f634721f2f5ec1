"""'bench/compare tpcc': TPC-C without think times (bench/tpcc), then kill -9 and the standard's consistency conditions.

Transactions a second say as much about the machine as about the server where both share its cores; the server's CPU per
transaction (user and system, from the process) does not, so it is what to compare on a busy machine.
"""
import subprocess, sys, time

import machine, servers
from servers import ESKER, INNODB, MYSQL


def options(parser):
    parser.add_argument("--warehouses", type=int, default=4)
    parser.add_argument("--clients", default="4,16,64")
    parser.add_argument("--seconds", type=int, default=30, help="of each run")
    parser.add_argument("--repeat", type=int, default=3, help="runs of each number of clients")
    parser.add_argument("--text", action="store_true", help="send statements as text instead of preparing them")
    parser.add_argument("--mysql", help="where MySQL is unpacked")


class Load:
    """The program on one server."""

    def __init__(self, program, server):
        self.program, self.server = program, server

    def start(self, *command):
        return subprocess.Popen([self.program, str(self.server.port), *map(str, command)], stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, text=True)

    def finish(self, process):
        out, err = process.communicate()
        if process.returncode != 0:
            sys.exit(f"{self.server.name}: {err}")
        return out

    def run(self, args, clients):
        """One run: what was done a second, and the server's CPU for it."""
        before = self.server.cpu_seconds()
        words = self.finish(self.start("run", args.warehouses, clients, args.seconds, *["text"] * args.text)).split()
        done, new_orders, retried, p50, p99 = (int(words[i]) for i in (0, 1, 2, 4, 5))
        return {"server": self.server.name, "clients": clients, "tps": done / float(words[3]),
                "new orders/min": 60 * new_orders / float(words[3]),
                "CPU us/transaction": (self.server.cpu_seconds() - before) * 1e6 / done,
                "retried": retried, "p50 ms": p50 / 1e3, "p99 ms": p99 / 1e3}

    def kill(self, args, clients):
        """Kills the server in the middle of a run, and starts it again."""
        run = self.start("run", args.warehouses, clients, args.seconds)
        time.sleep(min(5, args.seconds / 2))
        self.server.kill()
        run.communicate()
        self.server.spawn()
        for _ in range(600):
            if self.server.sql("SELECT 1", check=False).returncode == 0:
                return
            time.sleep(0.1)
        sys.exit(f"{self.server.name} does not start again")


def run(args, directory):
    """A line per server and number of clients: the run with the least CPU per transaction."""
    program, results = machine.tpcc_client(), []
    print(f"{args.warehouses} warehouses, {args.seconds} s a run, best of {args.repeat} by CPU")
    for server in servers.in_turn(args, directory, (ESKER, INNODB, MYSQL)):
        load = Load(program, server)
        load.finish(load.start("load", args.warehouses))
        for clients in map(int, args.clients.split(",")):
            runs = [load.run(args, clients) for _ in range(args.repeat)]
            best = min(runs, key=lambda found: found["CPU us/transaction"])
            results.append(best)
            print("  ".join(f"{key} {value:,.1f}" if isinstance(value, float) else f"{key} {value}"
                            for key, value in best.items()), flush=True)
        load.kill(args, clients)
        load.finish(load.start("check"))
        print(f"{server.name}: after kill -9 all conditions hold", flush=True)
    return results
