"""'bench/compare hostile': sessions that run a hostile statement, again and again, and what others feel of it."""
import sys, threading, time

import servers
from servers import ESKER, MYSQL

NUMBERS = "WITH RECURSIVE q AS (SELECT 1 n UNION ALL SELECT n+1 FROM q WHERE n<900) "
ARRAY = "CONCAT('[', REPEAT('[1,2,3],', 400000), '1]')"

# What is run before a statement, in its session, and the statement. None of them is over soon.
KINDS = {
    "cross-join": ("", NUMBERS + "SELECT COUNT(*) FROM q a,q b,q c,q d WHERE a.n+b.n <> c.n*d.n"),
    "hash-join": ("", "SELECT COUNT(*) FROM d.many a JOIN d.many b ON a.v=b.v JOIN d.many c ON b.v=c.v WHERE a.s<>c.s"),
    "loop-join": ("", "SELECT COUNT(*) FROM d.many a JOIN d.many b ON a.s<>b.s JOIN d.many c ON b.s<>c.s"),
    "subqueries": ("", "SELECT COUNT(*) FROM d.many a WHERE a.v > (SELECT AVG(b.v) FROM d.many b WHERE b.s < a.s)"),
    "recursive": ("SET cte_max_recursion_depth=100000000",
                  "WITH RECURSIVE q AS (SELECT 1 n, REPEAT('x',500) s UNION ALL SELECT q.n+1, q.s FROM q, d.many m "
                  "WHERE m.id<=20 AND q.n<9) SELECT COUNT(*) FROM q"),
    "sort": ("", "SELECT a.id FROM d.many a, d.many b WHERE b.id<=50 ORDER BY REVERSE(a.s), b.s LIMIT 4000000,1"),
    "groups": ("", "SELECT COUNT(*) FROM (SELECT CONCAT(a.s,b.id) x FROM d.many a, d.many b WHERE b.id<=50 "
                   "GROUP BY x) y"),
    "intersect": ("", "SELECT COUNT(*) FROM (SELECT a.id,b.id z FROM d.many a,d.many b WHERE b.id<=4 INTERSECT ALL "
                      "SELECT a.id,b.id z FROM d.many a,d.many b WHERE b.id<=4) x"),
    "window": ("", "SELECT SUM(x) FROM (SELECT SUM(v) OVER (ORDER BY s ROWS BETWEEN 20000 PRECEDING "
                   "AND 20000 FOLLOWING) x FROM d.many) y"),
    "group-concat": ("SET group_concat_max_len=60000000",
                     "SELECT LENGTH(GROUP_CONCAT(a.s ORDER BY REVERSE(a.s))) FROM d.many a, d.many b WHERE b.id<=20"),
    "json": ("", f"SELECT SUM(JSON_LENGTH({ARRAY}, '$[1]') + a.id) FROM d.many a"),
    "json-table": ("", f"SELECT SUM(x.a) FROM JSON_TABLE({ARRAY}, '$[*]' COLUMNS (NESTED PATH '$[*]' COLUMNS "
                       "(a INT PATH '$'))) x JOIN d.many m ON m.id<>x.a"),
    "regular-expression": (f"SET @t = ({NUMBERS} SELECT GROUP_CONCAT(MD5(n) SEPARATOR '') FROM q)",
                           "SELECT COUNT(*) FROM d.many WHERE REGEXP_LIKE(CONCAT(@t, id), '[0-7][0-9a-f]{20}x')"),
    "large-values": ("", "SELECT COUNT(*) FROM d.many WHERE STRCMP(REPEAT(CONCAT('ä', id), 2000000), "
                         "REPEAT(CONCAT('Ä', id), 2000000)) <> 0"),
    "digests": ("", "SELECT BENCHMARK(1000000000000, SHA2('x', 512))"),
    "list": ("SET @q = CONCAT('SELECT COUNT(*) FROM d.many WHERE v IN (', REPEAT('1,2,3,4,5,6,7,8,', 500000), '9)')",
             "PREPARE s FROM @q"),
    "insert-select": ("", "INSERT INTO d.log (s) SELECT a.s FROM d.many a, d.many b WHERE a.s<>b.s"),
    "update": ("", "UPDATE d.many a JOIN d.many b ON a.s<>b.s SET a.v = a.v+1 WHERE b.v>=0"),
    "delete": ("", "DELETE a FROM d.log a, d.many b, d.many c WHERE b.s<>c.s AND a.s=CONCAT(b.s,c.s)"),
    "schema-change": ("", "CREATE TABLE IF NOT EXISTS d.copy_of (s VARCHAR(80)) AS SELECT a.s FROM d.many a, d.many b"),
    "metadata": ("", "SELECT COUNT(*) FROM information_schema.columns a, information_schema.columns b, "
                     "information_schema.columns c WHERE a.table_name<>b.table_name"),
}
INTERRUPTED = 1317
# What they change they may wait for, and in vain; and some want more memory than there is.
EXPECTED = {0, 1205, 1213, 1041}


def options(parser):
    parser.add_argument("--kinds", default=",".join(KINDS), help="of hostile statements")
    parser.add_argument("--sessions", type=int, default=8, help="that run them")
    parser.add_argument("--rows", type=int, default=100_000, help="of the table that they read")
    parser.add_argument("--seconds", type=int, default=5, help="of each case")
    parser.add_argument("--mysql", help="the folder in which a MySQL is unpacked, for chroot")


class Session(servers.Login):
    def run(self, text):
        """Runs a statement to its end: 0, or the number of its error."""
        self.send(0, b"\x03" + text.encode())
        body, ends = self.packet(), 0
        if body[:1] == b"\0":
            return 0
        while body[:1] != b"\xff":
            ends += body[:1] == b"\xfe" and len(body) < 9
            if ends == 2:
                return 0
            body = self.packet()
        return int.from_bytes(body[1:3], "little")


class Hostile(threading.Thread):
    """Runs its statement until it is interrupted."""

    def __init__(self, server, kind):
        super().__init__(daemon=True)
        self.session = Session(server.port)
        self.id = self.session.ask("SELECT CONNECTION_ID()")
        before, self.text = KINDS[kind]
        for text in filter(None, ("SET NAMES utf8mb4", before)):
            if error := self.session.run(text):
                sys.exit(f"{server.name}: error {error} of {text}")
        self.error, self.ended = 0, None
        self.start()

    def run(self):
        try:
            while self.error in EXPECTED:
                self.error = self.session.run(self.text)
            self.ended = time.time()
        except OSError:
            pass  # the server ends
        self.session.close()


def every(seconds, pause, act):
    """Acts again and again for so long; how long each took, ms, in order."""
    took, end = [], time.time() + seconds
    while (start := time.time()) < end:
        act()
        took.append((time.time() - start) * 1e3)
        time.sleep(pause)
    return sorted(took)


def what_others_feel(server, seconds):
    """How long point SELECTs of an open session and logins take, ms."""
    reader, logins = Session(server.port), []
    log_in = lambda: Session(server.port).close()
    beside = threading.Thread(target=lambda: logins.extend(every(seconds, 0.02, log_in)))
    beside.start()
    selects = every(seconds, 0.001, lambda: reader.ask("SELECT v FROM d.points WHERE id = 7"))
    beside.join()
    reader.close()
    return selects, logins


def time_to_kill(server, hostile):
    """From KILL to the end of the statement, ms: the longest. None if one of them ended by itself."""
    killer, longest = Session(server.port), 0
    for one in hostile:
        start = time.time()
        killer.run(f"KILL QUERY {one.id}")
        one.join()
        if one.error != INTERRUPTED:
            return None
        longest = max(longest, (one.ended - start) * 1e3)
    killer.close()
    return longest


def time_to_stop(server):
    """From SIGTERM to the end of the process, ms; then it is started again."""
    start = time.time()
    server.process.terminate()
    server.process.wait()
    took = (time.time() - start) * 1e3
    server.spawn()
    while server.sql("SELECT 1", check=False).returncode != 0:
        if server.process.poll() is not None:
            sys.exit(f"{server.name} did not start again; see {server.log.name}")
        time.sleep(0.1)
    return took


def prepare(server, rows):
    server.sql("CREATE DATABASE d; CREATE TABLE d.points (id INT PRIMARY KEY, v INT);"
               "INSERT INTO d.points VALUES (7, 1);"
               "CREATE TABLE d.log (id BIGINT AUTO_INCREMENT PRIMARY KEY, s VARCHAR(80));"
               "CREATE TABLE d.many (id INT PRIMARY KEY, v INT, s VARCHAR(80));"
               f"INSERT INTO d.many {NUMBERS} SELECT a.n*900+b.n-900, b.n % 100, "
               "CONCAT(MD5(a.n*900+b.n), REPEAT('y', 40)) "
               f"FROM q a, q b WHERE a.n*900+b.n-900 <= {rows}; ANALYZE TABLE d.many")


def measure(server, kind, args):
    begin = lambda: [Hostile(server, kind) for _ in range(args.sessions)]
    hostile = begin()
    selects, logins = what_others_feel(server, args.seconds)
    errors = {one.error for one in hostile} - EXPECTED
    figures = {"kind": kind, "server": server.name, "error": max(errors, default=0)}
    if errors:
        return figures
    p99 = lambda took: took[len(took) * 99 // 100]
    figures |= {"select_p99_ms": p99(selects), "select_worst_ms": selects[-1],
                "login_p99_ms": p99(logins), "login_worst_ms": logins[-1], "kill_ms": time_to_kill(server, hostile)}
    hostile = begin()
    time.sleep(1)
    figures["stop_ms"] = time_to_stop(server)
    for one in hostile:
        one.join()
    return figures


NAMES = ("select_p99_ms", "select_worst_ms", "login_p99_ms", "login_worst_ms", "kill_ms", "stop_ms")


def run(args, directory):
    """One kind after the other, on each server before the next kind."""
    kinds = args.kinds.split(",")
    if unknown := set(kinds) - set(KINDS):
        sys.exit(f"unknown kind {min(unknown)}; there are {', '.join(KINDS)}")
    results = []
    with servers.running(args, directory, (ESKER, MYSQL)) as running:
        for server in running:
            prepare(server, args.rows)
        print(f"{args.sessions} hostile sessions, {args.seconds} s each; ms\n{'kind':20}{'server':10}"
              + "".join(f"{name.removesuffix('_ms').replace('_', ' '):>14}" for name in NAMES), flush=True)
        for kind in kinds:
            for server in running:
                figures = measure(server, kind, args)
                results.append(figures)
                told = lambda name: "ended" if figures[name] is None else f"{figures[name]:.1f}"
                line = [told(name) for name in NAMES] if not figures["error"] else [f"error {figures['error']}"]
                print(f"{kind:20}{server.name:10}" + "".join(f"{text:>14}" for text in line), flush=True)
    return results
