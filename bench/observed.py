"""'bench/compare observed': what it costs to be looked at.

One Esker measures statements and is looked at every second: a scrape of /metrics, the digests of statements, the locks
of rows and of metadata. The other one has statistics of statements switched off, and nobody looks.
"""
import base64, time, urllib.request

import machine, oltp, servers
from servers import ESKER, OBSERVED

EVERY_SECONDS = 1
LOOKED_AT = ("events_statements_summary_by_digest", "data_locks", "data_lock_waits", "metadata_locks")


def options(parser):
    parser.add_argument("--tests", default="oltp_point_select,oltp_read_write,oltp_update_index")
    parser.add_argument("--threads", type=int, default=64)
    oltp.case_options(parser, "of each case")


class Observer(servers.Beside):
    """Looks at a server, again and again until it is left."""

    def __init__(self, server, http_port):
        super().__init__(servers.Login(server.port))
        login = base64.b64encode(b"root:").decode()
        self.scrape = urllib.request.Request(f"http://127.0.0.1:{http_port}/metrics",
                                             headers={"Authorization": f"Basic {login}"})
        self.looks = 0

    def work(self):
        while not self.is_over:
            with urllib.request.urlopen(self.scrape) as metrics:
                metrics.read()
            for table in LOOKED_AT:
                self.login.ask(f"SELECT COUNT(*) FROM performance_schema.{table}")
            self.looks += 1
            time.sleep(EVERY_SECONDS)


def median(runs):
    return sorted(runs)[len(runs) // 2]


def run(args, directory):
    """A line per test; the figures as a list."""
    machine.require(machine.SYSBENCH)
    args.servers = f"{ESKER},{OBSERVED}"  # no others, and both of them whatever was asked for
    http_port, results = machine.free_port(23000), []
    more = {ESKER: ["--esker-statement-statistics=OFF"],
            OBSERVED: ["--esker-http-address=127.0.0.1", f"--esker-http-port={http_port}"]}
    with servers.running(args, directory, (ESKER, OBSERVED), more=more) as (alone, observed):
        print(f"{'test':22}{'threads':>8}{'tps':>10}{'observed tps':>14}{'share':>7}", flush=True)
        for server in (alone, observed):
            oltp.prepare_tables(server, args)
        with Observer(observed, http_port) as observer:
            for test in args.tests.split(","):
                rates = {alone: [], observed: []}
                for _ in range(args.rounds):
                    for server, found in rates.items():
                        found.append(oltp.measure(server, test, args.threads, args)["tps"])
                tps, observed_tps = median(rates[alone]), median(rates[observed])
                print(f"{test:22}{args.threads:>8}{tps:>10.0f}{observed_tps:>14.0f}{observed_tps / tps:>7.2f}", flush=True)
                results.append({"test": test, "threads": args.threads, "tps": tps, "observed_tps": observed_tps,
                                "share": observed_tps / tps})
    print(f"# looked at {observer.looks} times")
    return results
